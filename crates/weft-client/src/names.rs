//! What this client knows of one directory's names, under the directory's READ lease.
//!
//! Pure. Names that are there and names that are not; a directory that is `complete` (made here, or
//! listed from end to end under one lease) says of every name that it does not hold that it is
//! absent, without a message. Answers may be read in another order than the server gave them: each
//! entry carries the directory's change number that it is known at, and the higher one stands.

use bytes::Bytes;
use std::collections::BTreeMap;

/// Absent names remembered in one directory: they only spare messages.
const ABSENT_MAX: usize = 4096;
/// Names remembered in one directory. Larger ones ask the server for names that were not used
/// lately.
const NAMES_MAX: usize = 200_000;

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameState {
    /// It stands for this inode.
    Present(u64),
    /// There is no such name.
    Absent,
}

/// The directory itself, or the one above.
pub(crate) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: NameState,
    change: u64,
}

#[derive(Default, Debug)]
pub(crate) struct Names {
    entries: BTreeMap<Bytes, Entry>,
    absent: usize,
    complete: bool,
    /// Names were left out for want of room since the listing began.
    overflowed: bool,
}

impl Names {
    /// Of a directory that was just made: there are none.
    pub fn of_new_directory() -> Names {
        Names {
            complete: true,
            ..Names::default()
        }
    }

    /// What is known of a name; None if nothing is. `.` and `..` are no entries: a directory that is moved has
    /// another parent, and none of its names has changed.
    pub fn get(&self, name: &[u8]) -> Option<NameState> {
        if is_dots(name) {
            return None;
        }
        match self.entries.get(name) {
            Some(entry) => Some(entry.state),
            None if self.complete => Some(NameState::Absent),
            None => None,
        }
    }

    /// Takes over what is known at a change of the directory.
    pub fn put(&mut self, name: &[u8], state: NameState, change: u64) {
        if is_dots(name) {
            return;
        }
        let entry = Entry { state, change };
        if let Some(old) = self.entries.get_mut(name) {
            if old.change <= change {
                self.absent -= usize::from(old.state == NameState::Absent);
                self.absent += usize::from(state == NameState::Absent);
                *old = entry;
            }
        } else {
            if state != NameState::Absent && self.entries.len() - self.absent >= NAMES_MAX {
                self.complete = false;
                self.overflowed = true;
                self.entries.clear();
                self.absent = 0;
            }
            self.absent += usize::from(state == NameState::Absent);
            self.entries.insert(Bytes::copy_from_slice(name), entry);
        }
        if self.absent > ABSENT_MAX {
            self.entries.retain(|_, e| e.state != NameState::Absent);
            self.absent = 0;
        }
    }

    /// Forgets one name: its state is not known (a change failed half-way).
    pub fn doubt(&mut self, name: &[u8]) {
        if let Some(old) = self.entries.remove(name) {
            self.absent -= usize::from(old.state == NameState::Absent);
        }
        self.complete = false;
    }

    /// A listing from the start begins.
    pub fn begin_listing(&mut self) {
        self.overflowed = false;
    }

    /// The listing reached the end under the lease that it began under: every name was put.
    pub fn end_listing(&mut self) {
        self.complete = self.complete || !self.overflowed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NameState::{Absent, Present};

    #[test]
    fn a_complete_directory_knows_what_is_absent() {
        let mut names = Names::of_new_directory();
        assert_eq!(names.get(b"a"), Some(Absent));
        names.put(b"a", Present(5), 2);
        assert_eq!(names.get(b"a"), Some(Present(5)));
        names.put(b"a", Absent, 3);
        assert_eq!(names.get(b"a"), Some(Absent));
        let mut partial = Names::default();
        assert_eq!(partial.get(b"a"), None);
        partial.put(b"a", Absent, 1);
        assert_eq!(partial.get(b"a"), Some(Absent));
    }

    #[test]
    fn dots_are_no_names() {
        let mut names = Names::of_new_directory();
        for dots in [&b"."[..], b".."] {
            assert_eq!(names.get(dots), None);
            names.put(dots, Present(5), 1);
            assert_eq!(names.get(dots), None);
        }
        assert_eq!(names.get(b"..."), Some(Absent));
    }

    #[test]
    fn an_answer_read_late_changes_nothing() {
        let mut names = Names::of_new_directory();
        names.put(b"a", Absent, 10);
        names.put(b"a", Present(5), 9);
        assert_eq!(names.get(b"a"), Some(Absent));
        names.put(b"a", Present(6), 11);
        assert_eq!(names.get(b"a"), Some(Present(6)));
    }

    #[test]
    fn a_listing_that_was_not_kept_whole_is_not_complete() {
        let mut names = Names::default();
        names.begin_listing();
        for i in 0..=NAMES_MAX {
            names.put(format!("{i}").as_bytes(), Present(i as u64 + 2), 1);
        }
        names.end_listing();
        assert_eq!(names.get(b"none"), None);
        let mut names = Names::default();
        names.begin_listing();
        names.put(b"x", Present(2), 1);
        names.end_listing();
        assert_eq!(names.get(b"none"), Some(Absent));
    }

    #[test]
    fn absent_names_are_bounded() {
        let mut names = Names::default();
        for i in 0..3 * ABSENT_MAX {
            names.put(format!("{i}").as_bytes(), Absent, 1);
        }
        assert!(names.entries.len() <= ABSENT_MAX + 1);
        names.doubt(b"0");
        assert_eq!(names.get(b"0"), None);
    }
}
