//! Names that listings have given to the kernel, and which of them it may believe for too long. Pure; `invalidate.rs`
//! acts on it.
//!
//! Linux links the names of a READDIRPLUS reply when the reader's thread runs, and marks them with the epoch of that
//! moment (`fuse_direntplus_link`, fs/fuse/readdir.c), not with that of the question, as it does for a LOOKUP. Names
//! that were made void between come to be believed again.
//!
//! Kept true: when a directory's names are made void, a page of its listing that the kernel may still be linking has them
//! made void once more after that. A directory to which this has happened lately gives names with its listings that
//! are valid for no time, so that whoever changes it does not wait again and again.

use crate::told::is_taking;
use std::time::Duration;
use weft_env::Mono;
use weft_types::FixedMap;

/// So long after its names were made void a directory counts as one that others change.
const CONTENDED: Duration = Duration::from_secs(10);

/// Directories that are noted before old ones are looked for, to be dropped.
const DIRECTORIES_MIN: usize = 1024;

/// When something happened last to a directory.
#[derive(Clone, Copy, Default)]
struct Listed {
    answered: Option<Mono>,
    void: Option<Mono>,
}

/// The directories that were listed, or changed by others, lately.
#[derive(Default)]
pub struct Listings {
    directories: FixedMap<u64, Listed>,
    /// Directories after the last search for old ones.
    young: usize,
}

impl Listings {
    fn note(&mut self, dir: u64, now: Mono) -> &mut Listed {
        if self.directories.len() >= DIRECTORIES_MIN.max(2 * self.young) {
            let is_old = |at: Option<Mono>| at.is_none_or(|at| at + CONTENDED < now);
            self.directories
                .retain(|_, listed| !(is_old(listed.answered) && is_old(listed.void)));
            self.young = self.directories.len();
        }
        self.directories.entry(dir).or_default()
    }

    /// The names of a directory were made void lately.
    pub fn is_contended(&self, dir: u64, now: Mono) -> bool {
        let void = self.directories.get(&dir).and_then(|listed| listed.void);
        void.is_some_and(|void| void + CONTENDED >= now)
    }

    /// A page of a listing is to be answered: true if its names may be kept.
    pub fn may_keep(&mut self, dir: u64, now: Mono) -> bool {
        if self.is_contended(dir, now) {
            return false;
        }
        self.note(dir, now).answered = Some(now);
        true
    }

    /// The names of a directory are made void. Some: they have to be once more, after so long.
    pub fn void(&mut self, dir: u64, now: Mono) -> Option<Duration> {
        let listed = self.note(dir, now);
        listed.void = Some(now);
        is_taking(listed.answered?, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(ms)
    }

    #[test]
    fn names_that_may_be_linked_late_are_made_void_again() {
        let mut listings = Listings::default();
        assert_eq!(listings.void(7, at(0)), None);
        assert!(listings.may_keep(8, at(0)));
        assert_eq!(listings.void(8, at(20)), Some(Duration::from_millis(30)));
        // From now on they are not kept, and nobody waits.
        assert!(!listings.may_keep(8, at(30)));
        assert_eq!(listings.void(8, at(100)), None);
        assert!(!listings.may_keep(8, at(10_100)));
        assert!(listings.may_keep(8, at(10_101)));
        assert_eq!(listings.void(8, at(10_200)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut listings = Listings::default();
        for n in 0..10 * DIRECTORIES_MIN as u64 {
            listings.void(n, at(20_000 * (n / DIRECTORIES_MIN as u64)));
        }
        assert!(listings.directories.len() <= 2 * DIRECTORIES_MIN);
    }
}
