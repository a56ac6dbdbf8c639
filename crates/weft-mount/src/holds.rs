//! Pages that requests in progress hold: an invalidation that comes upon a page that is locked waits.
//! The kernel keeps pages locked until a read of them is answered. Those of a write it lets go once they
//! are filled, but for the last one, if the write does not fill it and the kernel did not have it. Pure;
//! `invalidate.rs` acts on it.

use std::collections::BTreeMap;
use std::ops::Range;
use weft_types::FixedMap;

/// What is locked at least.
pub const PAGE: u64 = 4096;

/// What is locked at most, aligned to its size: the kernel may have joined pages.
pub const FOLIO_MAX: u64 = 2 << 20;

/// How locked pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// All of them.
    All,
    /// Perhaps the last one.
    Last,
    /// None.
    None,
}

/// The pages of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    unique: u64,
    locks: Locks,
    bytes: Range<u64>,
    /// What was left out of an invalidation for it.
    void: Option<Range<u64>>,
    /// Some of it was written since.
    outdated: bool,
}

impl Hold {
    /// Request `unique` reads or writes `length` bytes from `offset` on.
    pub fn new(unique: u64, locks: Locks, offset: u64, length: u64) -> Hold {
        Hold {
            unique,
            locks,
            bytes: offset..offset.saturating_add(length.max(1)),
            void: None,
            outdated: false,
        }
    }

    /// The request's number.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Its pages if those of the kernel have `grain` bytes.
    pub fn pages(&self, grain: u64) -> Range<u64> {
        let end = self.bytes.end.checked_next_multiple_of(grain);
        self.bytes.start - self.bytes.start % grain..end.unwrap_or(u64::MAX)
    }

    /// What is locked, or perhaps is, if the kernel's pages have `grain` bytes.
    fn locked(&self, grain: u64) -> Range<u64> {
        let pages = self.pages(grain);
        match self.locks {
            Locks::All => pages,
            Locks::Last | Locks::None => {
                pages.start.max(pages.end.saturating_sub(grain))..pages.end
            }
        }
    }

    fn leave_out(&mut self, pages: Range<u64>) {
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
    /// A request begins to hold pages. If it reads, a write that is in progress has not locked them: the
    /// kernel reads a page into one that it has locked.
    pub fn add(&mut self, ino: u64, hold: Hold) {
        let of_ino = self.0.entry(ino).or_default();
        if hold.locks == Locks::All {
            let read = hold.pages(PAGE);
            for other in of_ino
                .values_mut()
                .filter(|other| other.locks == Locks::Last)
            {
                if !common(&other.locked(PAGE), &read).is_empty() {
                    other.locks = Locks::None;
                }
            }
        }
        of_ino.insert(hold.unique, hold);
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
        for hold in of_ino.values_mut() {
            hold.leave_out(hold.pages(PAGE));
        }
        true
    }

    /// Write `own` has been done: what other requests in progress have read of its pages is of before.
    pub fn outdate(&mut self, ino: u64, own: u64, pages: &Range<u64>) {
        let of_ino = self.0.get_mut(&ino).into_iter();
        for hold in of_ino.flat_map(BTreeMap::values_mut) {
            let held = hold.pages(PAGE);
            hold.outdated |= hold.unique != own && held.start < pages.end && pages.start < held.end;
        }
    }

    /// Something that a request holds was written since this was last asked.
    pub fn take_outdated(&mut self, ino: u64, unique: u64) -> bool {
        let hold = self.0.get_mut(&ino).and_then(|all| all.get_mut(&unique));
        hold.is_some_and(|hold| std::mem::take(&mut hold.outdated))
    }

    /// A request has locked, or perhaps has, some of these ranges.
    pub fn touch(&self, ino: u64, ranges: &[Range<u64>], grain: u64) -> bool {
        let of_ino = self.0.get(&ino).into_iter().flat_map(BTreeMap::values);
        let mut holds = of_ino.filter(|hold| grain != PAGE || hold.locks != Locks::None);
        holds.any(|hold| {
            let locked = hold.locked(grain);
            ranges
                .iter()
                .any(|range| !common(range, &locked).is_empty())
        })
    }

    /// Leaves out of the ranges what requests have locked, to be forgotten later, and sets aside what they
    /// perhaps have. If the kernel has joined pages (`grain` is not [`PAGE`]), that is left out, too.
    pub fn split(&mut self, ino: u64, ranges: Vec<Range<u64>>, grain: u64) -> Split {
        let mut split = Split {
            free: ranges,
            perhaps: Vec::new(),
            is_all: true,
        };
        let Some(of_ino) = self.0.get_mut(&ino) else {
            return split;
        };
        let locks = |hold: &&mut Hold| grain != PAGE || hold.locks != Locks::None;
        let mut holds: Vec<&mut Hold> = of_ino.values_mut().filter(locks).collect();
        // What certainly is locked need not be tried for others' sake.
        holds.sort_by_key(|hold| hold.locks != Locks::All);
        for hold in holds {
            let locked = hold.locked(grain);
            let mut rest = Vec::with_capacity(split.free.len() + 1);
            for range in split.free {
                let part = common(&range, &locked);
                if part.is_empty() {
                    rest.push(range);
                    continue;
                }
                if grain == PAGE && hold.locks != Locks::All {
                    split.perhaps.push((hold.unique, part.clone()));
                } else {
                    split.is_all = false;
                    hold.leave_out(locked.clone());
                }
                let around = [range.start..part.start, part.end..range.end];
                rest.extend(around.into_iter().filter(|part| !part.is_empty()));
            }
            split.free = rest;
        }
        split
    }

    /// A request is in progress.
    pub fn holds(&self, ino: u64, unique: u64) -> bool {
        self.0
            .get(&ino)
            .is_some_and(|all| all.contains_key(&unique))
    }
}

/// Ranges to be forgotten.
#[derive(Debug, PartialEq, Eq)]
pub struct Split {
    /// No request holds these.
    pub free: Vec<Range<u64>>,
    /// These perhaps: the requests, and their pages.
    pub perhaps: Vec<(u64, Range<u64>)>,
    /// Nothing was left out.
    pub is_all: bool,
}

/// What two ranges have in common; empty if nothing.
pub fn common(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_held() {
        assert_eq!(Hold::new(1, Locks::All, 5000, 10).pages(PAGE), 4096..8192);
        assert_eq!(Hold::new(1, Locks::All, 4096, 4096).pages(PAGE), 4096..8192);
        assert_eq!(
            Hold::new(1, Locks::All, 5000, 10).pages(FOLIO_MAX),
            0..FOLIO_MAX
        );
        assert_eq!(
            Hold::new(1, Locks::All, u64::MAX - 1, 5).pages(PAGE).end,
            u64::MAX
        );
    }

    #[test]
    fn what_is_held_is_left_out_and_forgotten_later() {
        let mut holds = Holds::default();
        let everything = std::slice::from_ref(&(0..u64::MAX));
        let split = |holds: &mut Holds, ranges: &[Range<u64>], grain| {
            let split = holds.split(7, ranges.to_vec(), grain);
            assert_eq!(split.perhaps, []);
            (split.free, split.is_all)
        };
        let (free, all) = split(&mut holds, everything, PAGE);
        assert!(free == everything && all);
        holds.add(7, Hold::new(1, Locks::All, 4096, 100));
        holds.add(7, Hold::new(2, Locks::All, 12_000, 5000));
        holds.add(8, Hold::new(3, Locks::All, 0, 100));
        let (free, all) = split(&mut holds, everything, PAGE);
        // 8192..20480 is held by the second.
        assert_eq!(free, [0..4096, 20_480..u64::MAX]);
        assert!(!all);
        assert!(holds.touch(7, &[4000..4001, 5000..5001], PAGE));
        assert!(!holds.touch(7, &[0..4096, 30_000..40_000], PAGE));
        assert!(holds.touch(7, &[0..4096, 30_000..40_000], FOLIO_MAX));
        let (free, _) = split(&mut holds, &free, FOLIO_MAX);
        assert!(free == std::slice::from_ref(&(FOLIO_MAX..u64::MAX)));
        assert_eq!(holds.remove(7, 1), Some(0..FOLIO_MAX));
        assert_eq!(holds.remove(7, 1), None);
        assert_eq!(holds.remove(8, 3), None, "nothing was forgotten there");
        assert!(holds.void_all(7) && !holds.void_all(8));
    }

    #[test]
    fn the_last_page_of_a_write_is_tried_and_left_out_if_it_is_locked() {
        let mut holds = Holds::default();
        let everything = std::slice::from_ref(&(0..u64::MAX)).to_vec();
        holds.add(7, Hold::new(1, Locks::Last, 100, FOLIO_MAX + 8));
        let last = FOLIO_MAX..FOLIO_MAX + PAGE;
        let split = holds.split(7, everything.clone(), PAGE);
        assert_eq!(split.free, [0..last.start, last.end..u64::MAX]);
        assert_eq!(split.perhaps, [(1, last.clone())]);
        assert!(split.is_all);
        assert!(!holds.touch(7, &split.free, PAGE), "no newer one");
        assert!(holds.touch(7, &split.free, FOLIO_MAX));
        assert!(holds.holds(7, 1) && !holds.holds(7, 2));
        assert_eq!(holds.remove(7, 1), None);
        // A read of the same page that comes later says that it is not locked by the write.
        holds.add(7, Hold::new(1, Locks::Last, 100, FOLIO_MAX + 8));
        holds.add(7, Hold::new(2, Locks::All, FOLIO_MAX, 8));
        let split = holds.split(7, everything.clone(), PAGE);
        assert!(split.perhaps.is_empty() && !split.is_all);
        assert_eq!(holds.remove(7, 2), Some(last));
        let split = holds.split(7, everything.clone(), PAGE);
        assert!(split.perhaps.is_empty() && split.is_all);
        assert_eq!(holds.remove(7, 1), None);
        // Of joined pages nothing is tried.
        holds.add(7, Hold::new(1, Locks::Last, 100, FOLIO_MAX + 8));
        let split = holds.split(7, everything, FOLIO_MAX);
        assert_eq!(split.free, [0..FOLIO_MAX, 2 * FOLIO_MAX..u64::MAX]);
        assert!(split.perhaps.is_empty() && !split.is_all);
        assert_eq!(holds.remove(7, 1), Some(FOLIO_MAX..2 * FOLIO_MAX));
    }

    #[test]
    fn a_write_outdates_what_others_hold() {
        let mut holds = Holds::default();
        holds.add(7, Hold::new(1, Locks::All, 0, 4096));
        holds.add(7, Hold::new(2, Locks::All, 100, 8));
        holds.add(7, Hold::new(3, Locks::All, 4096, 4096));
        holds.outdate(7, 2, &(0..4096));
        holds.outdate(8, 2, &(0..4096));
        let mut outdated = |unique| holds.take_outdated(7, unique);
        assert!(outdated(1) && !outdated(1), "told once");
        assert!(!outdated(2), "by itself");
        assert!(!outdated(3) && !outdated(4));
    }
}
