//! Where a listing ends: at what a directory had when the listing began.
//!
//! A new entry gets a cookie above all others. A listing that went on to the last of them would never end where names
//! are made as fast as it goes, and would tell a name twice that is removed and made again behind it. So each part of
//! a directory says with the first page where new entries begin, and what lies there is not told: an entry that was
//! there all the time is told once, any other at most once.

use weft_types::COOKIE_BITS;

/// The cookies from which on entries are new, by the bits above [`COOKIE_BITS`]: those of the directory itself, and
/// of each shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds(Vec<u64>);

fn part_of(cookie: u64) -> usize {
    (cookie >> COOKIE_BITS) as usize
}

impl Bounds {
    /// By what a part has answered as the cookie of its next entry.
    pub fn of_part(next: u64) -> Bounds {
        if next == 0 {
            // A server of the time before bounds: all of it is listed, as that did.
            return Bounds(vec![u64::MAX]);
        }
        let mut bounds = vec![0; part_of(next)];
        bounds.push(next);
        Bounds(bounds)
    }

    /// Those of other parts, too.
    pub fn join(&mut self, other: &Bounds) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (bound, other) in self.0.iter_mut().zip(&other.0) {
            *bound = (*bound).max(*other);
        }
    }

    /// An entry was there when the listing began. (What a shard has made that was not there yet, was not either.)
    pub fn has(&self, cookie: u64) -> bool {
        let of_all = self.0.first().is_some_and(|bound| *bound == u64::MAX);
        let bound = self.0.get(part_of(cookie));
        of_all || bound.is_some_and(|bound| cookie < *bound)
    }

    /// After which cookie a listing goes on that has come to this one: entries of a part are in order, and nothing is
    /// told behind the first new one.
    pub fn next(&self, cookie: u64) -> u64 {
        if self.has(cookie) {
            cookie
        } else {
            cookie | ((1 << COOKIE_BITS) - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: u64 = 1 << COOKIE_BITS;

    #[test]
    fn what_is_added_behind_the_beginning_of_a_listing_is_not_told() {
        let mut bounds = Bounds::of_part(10);
        bounds.join(&Bounds::of_part(2 * SHARD));
        bounds.join(&Bounds::of_part(SHARD + 3));
        let told = [3, 9, SHARD, SHARD + 2];
        assert!(told.iter().all(|cookie| bounds.has(*cookie)));
        assert!(told.iter().all(|cookie| bounds.next(*cookie) == *cookie));
        let new = [10, 11, SHARD + 3, 2 * SHARD, 3 * SHARD + 1];
        assert!(!new.iter().any(|cookie| bounds.has(*cookie)));
        assert_eq!(bounds.next(10), SHARD - 1);
        assert_eq!(bounds.next(SHARD + 3), 2 * SHARD - 1);
        assert_eq!(bounds.next(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_server_that_says_no_bound_is_listed_to_its_end() {
        let bounds = Bounds::of_part(0);
        assert!([3, 1 << 40, SHARD + 7].iter().all(|it| bounds.has(*it)));
    }
}
