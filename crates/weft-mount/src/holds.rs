//! Pages that requests in progress hold: the kernel keeps them locked until a read or a write is
//! answered, and an invalidation that comes upon them waits. Pure; `invalidate.rs` acts on it.

use std::collections::BTreeMap;
use std::ops::Range;
use weft_types::FixedMap;

/// What is locked at least.
pub const PAGE: u64 = 4096;

/// What is locked at most, aligned to its size: the kernel may have joined pages.
pub const FOLIO_MAX: u64 = 2 << 20;

/// The pages of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    unique: u64,
    bytes: Range<u64>,
    /// What was left out of an invalidation for it.
    void: Option<Range<u64>>,
}

impl Hold {
    /// Request `unique` reads or writes `length` bytes from `offset` on.
    pub fn new(unique: u64, offset: u64, length: u64) -> Hold {
        Hold {
            unique,
            bytes: offset..offset.saturating_add(length.max(1)),
            void: None,
        }
    }

    /// The request's number.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// What is locked if the kernel's pages have `grain` bytes.
    pub fn pages(&self, grain: u64) -> Range<u64> {
        let end = self.bytes.end.checked_next_multiple_of(grain);
        self.bytes.start - self.bytes.start % grain..end.unwrap_or(u64::MAX)
    }

    fn leave_out(&mut self, grain: u64) {
        let pages = self.pages(grain);
        self.void = Some(match self.void.take() {
            Some(void) => void.start.min(pages.start)..void.end.max(pages.end),
            None => pages,
        });
    }
}

/// All of them, by inode.
#[derive(Default)]
pub struct Holds(FixedMap<u64, BTreeMap<u64, Hold>>);

impl Holds {
    /// A request begins to hold pages.
    pub fn add(&mut self, ino: u64, hold: Hold) {
        self.0.entry(ino).or_default().insert(hold.unique, hold);
    }

    /// A request is over. Some: what has to be forgotten then.
    pub fn remove(&mut self, ino: u64, unique: u64) -> Option<Range<u64>> {
        let of_ino = self.0.get_mut(&ino)?;
        let hold = of_ino.remove(&unique)?;
        if of_ino.is_empty() {
            self.0.remove(&ino);
        }
        hold.void
    }

    /// Everything that is held of an inode is to be forgotten; false if nothing is held.
    pub fn void_all(&mut self, ino: u64) -> bool {
        let Some(of_ino) = self.0.get_mut(&ino) else {
            return false;
        };
        of_ino.values_mut().for_each(|hold| hold.leave_out(PAGE));
        true
    }

    /// A request holds some of these ranges.
    pub fn touch(&self, ino: u64, ranges: &[Range<u64>], grain: u64) -> bool {
        let of_ino = self.0.get(&ino).into_iter().flat_map(BTreeMap::values);
        of_ino.into_iter().any(|hold| {
            let pages = hold.pages(grain);
            let touches = |range: &Range<u64>| pages.start < range.end && range.start < pages.end;
            ranges.iter().any(touches)
        })
    }

    /// The ranges without what is held, which is to be forgotten later; true if nothing was held.
    pub fn leave_out(
        &mut self,
        ino: u64,
        ranges: &[Range<u64>],
        grain: u64,
    ) -> (Vec<Range<u64>>, bool) {
        let mut free = ranges.to_vec();
        let Some(of_ino) = self.0.get_mut(&ino) else {
            return (free, true);
        };
        let mut is_all = true;
        for hold in of_ino.values_mut() {
            let pages = hold.pages(grain);
            let mut rest = Vec::with_capacity(free.len() + 1);
            for range in free {
                if pages.end <= range.start || range.end <= pages.start {
                    rest.push(range);
                    continue;
                }
                is_all = false;
                hold.leave_out(grain);
                let before = range.start..pages.start.max(range.start);
                let after = pages.end.min(range.end)..range.end;
                rest.extend([before, after].into_iter().filter(|part| !part.is_empty()));
            }
            free = rest;
        }
        (free, is_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_held() {
        assert_eq!(Hold::new(1, 5000, 10).pages(PAGE), 4096..8192);
        assert_eq!(Hold::new(1, 4096, 4096).pages(PAGE), 4096..8192);
        assert_eq!(Hold::new(1, 5000, 10).pages(FOLIO_MAX), 0..FOLIO_MAX);
        assert_eq!(Hold::new(1, u64::MAX - 1, 5).pages(PAGE).end, u64::MAX);
    }

    #[test]
    fn what_is_held_is_left_out_and_forgotten_later() {
        let mut holds = Holds::default();
        let everything = std::slice::from_ref(&(0..u64::MAX));
        let (free, all) = holds.leave_out(7, everything, PAGE);
        assert!(free == everything && all);
        holds.add(7, Hold::new(1, 4096, 100));
        holds.add(7, Hold::new(2, 12_000, 5000));
        holds.add(8, Hold::new(3, 0, 100));
        let (free, all) = holds.leave_out(7, everything, PAGE);
        // 8192..20480 is held by the second.
        assert_eq!(free, [0..4096, 20_480..u64::MAX]);
        assert!(!all);
        assert!(holds.touch(7, &[4000..4001, 5000..5001], PAGE));
        assert!(!holds.touch(7, &[0..4096, 30_000..40_000], PAGE));
        assert!(holds.touch(7, &[0..4096, 30_000..40_000], FOLIO_MAX));
        let (free, _) = holds.leave_out(7, &free, FOLIO_MAX);
        assert!(free == std::slice::from_ref(&(FOLIO_MAX..u64::MAX)));
        assert_eq!(holds.remove(7, 1), Some(0..FOLIO_MAX));
        assert_eq!(holds.remove(7, 1), None);
        assert_eq!(holds.remove(8, 3), None, "nothing was forgotten there");
        assert!(holds.void_all(7) && !holds.void_all(8));
    }
}
