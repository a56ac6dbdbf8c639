//! Numbers that 32 bits hold, for programs built without large file support: their stat and readdir fail with
//! EOVERFLOW where an inode number, or a position in a directory, has more.
//!
//! Only what programs see is narrow. The kernel names inodes to us by their own numbers, so that two files that show one
//! number are still two files; programs that take files of one number for hard links (tar, cp -a, rsync -H) do so only
//! where there is more than one link.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// A number of 32 bits for an inode: never 0, which means that an entry was removed.
///
/// The slot, in the upper 12 bits, comes to lie over the upper 12 of the lower 32, so that numbers are distinct while no
/// slot has made more than 2^20 inodes.
pub fn fold(ino: u64) -> u64 {
    match (ino ^ ino >> 32) as u32 {
        0 => u64::from(u32::MAX),
        folded => u64::from(folded),
    }
}

/// Positions in the open directories: the cookies that were told, by how many were told before them.
#[derive(Default)]
pub struct Narrow(RefCell<BTreeMap<u64, Told>>);

#[derive(Default)]
struct Told {
    cookies: Vec<u64>,
    places: BTreeMap<u64, u64>,
}

impl Narrow {
    /// The cookie at a position that was told; from the start all are told anew.
    pub fn cookie(&self, handle: u64, place: u64) -> u64 {
        let mut open = self.0.borrow_mut();
        let Some(before) = place.checked_sub(1) else {
            open.remove(&handle);
            return 0;
        };
        let told = open.get(&handle).map_or(&[][..], |told| &told.cookies);
        // Of a position that never was the end is told.
        told.get(before as usize).copied().unwrap_or(u64::MAX)
    }

    /// The position for a cookie.
    pub fn place(&self, handle: u64, cookie: u64) -> u64 {
        let mut open = self.0.borrow_mut();
        let told = open.entry(handle).or_default();
        let next = told.cookies.len() as u64 + 1;
        let place = *told.places.entry(cookie).or_insert(next);
        if place == next {
            told.cookies.push(cookie);
        }
        place
    }

    /// A directory was closed.
    pub fn closed(&self, handle: u64) {
        self.0.borrow_mut().remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn folded_numbers_are_distinct_and_fit() {
        let inos = (0..4096_u64).flat_map(|slot| {
            let counters = [1_u64, 2, 77, (1 << 20) - 1];
            counters.map(|counter| slot << 52 | counter)
        });
        let folded: BTreeSet<u64> = inos.map(fold).collect();
        assert_eq!(folded.len(), 4 * 4096);
        assert!(
            folded
                .iter()
                .all(|ino| (1..=u64::from(u32::MAX)).contains(ino))
        );
        assert_ne!(fold(0), 0);
    }

    #[test]
    fn a_position_leads_to_its_cookie_however_often_it_is_told() {
        let narrow = Narrow::default();
        let cookies = [1, 2, 3, 9 << 48, (9 << 48) + 4];
        assert_eq!(narrow.cookie(7, 0), 0);
        let places = cookies.map(|cookie| narrow.place(7, cookie));
        assert_eq!(places, [1, 2, 3, 4, 5]);
        assert_eq!(cookies.map(|cookie| narrow.place(7, cookie)), places);
        assert_eq!(places.map(|place| narrow.cookie(7, place)), cookies);
        assert_eq!(narrow.cookie(7, 6), u64::MAX);
        assert_eq!(narrow.cookie(8, 1), u64::MAX);
        // Rewound.
        assert_eq!(narrow.cookie(7, 0), 0);
        assert_eq!(narrow.place(7, 9 << 48), 1);
        narrow.closed(7);
        assert_eq!(narrow.cookie(7, 1), u64::MAX);
    }
}
