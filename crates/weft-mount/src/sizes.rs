//! What the kernel may believe of a file's size, and whether it may have pages of it. Pure; `invalidate.rs` and `fs.rs`
//! act on it (docs/protocols/kernel-cache.md).
//!
//! Linux takes the size that a reply tells when the caller's thread runs, which may be long after the reply was sent, and
//! cuts the file's pages to it (`fuse_change_attributes`, fs/fuse/inode.c). If a page was filled meanwhile to a later
//! end, what lies between becomes zeros that nobody wrote, and is read as such when the later end is told.
//!
//! Kept true: a read by way of the page cache is answered with bytes beyond a size that was told only when the kernel has
//! been made to ignore that size if it has not taken it yet; and no size is told that counts a write past the page cache
//! before the pages under that write are forgotten.

use std::time::Duration;
use weft_env::Mono;
use weft_types::FixedMap;

/// A request that the kernel has sent is taken to be here within this: as `fills.rs` takes it of readers.
const COMING: Duration = Duration::from_millis(50);

/// What the kernel may believe of one file.
struct Size {
    /// The least size of a reply that may not have been taken yet; u64::MAX if there is none.
    told: u64,
    /// The greatest that the kernel may have.
    most: u64,
    /// Reads or writes by way of the page cache have been answered.
    has_pages: bool,
    /// Writes past the page cache whose pages have not been forgotten yet, by their turns.
    overwriting: Vec<u64>,
    /// When the kernel was made to forget of it last, or began to.
    forgotten: Option<Mono>,
}

impl Default for Size {
    fn default() -> Size {
        Size {
            told: u64::MAX,
            most: 0,
            has_pages: false,
            overwriting: Vec::new(),
            forgotten: None,
        }
    }
}

impl Size {
    fn may_make_up(&self, end: u64, came: Mono) -> bool {
        self.most > end && self.forgotten.is_some_and(|at| at + COMING >= came)
    }
}

/// The files that the kernel was told of.
#[derive(Default)]
pub struct Sizes {
    files: FixedMap<u64, Size>,
    /// Turns of writes past the page cache.
    turn: u64,
}

impl Sizes {
    /// A reply tells a size.
    pub fn told(&mut self, ino: u64, size: u64) {
        let known = self.files.entry(ino).or_default();
        known.told = known.told.min(size);
        known.most = known.most.max(size);
    }

    /// A write is answered, which makes the file that long at least.
    pub fn written(&mut self, ino: u64, end: u64) {
        let known = self.files.entry(ino).or_default();
        known.most = known.most.max(end);
    }

    /// The kernel begins to forget something of a file, or has done so.
    pub fn forgets(&mut self, ino: u64, now: Mono) {
        if let Some(known) = self.files.get_mut(&ino) {
            known.forgotten = Some(now);
        }
    }

    /// An answer that stops at `end`, to a read that came at `came`, is not taken for the file's end by the kernel, or may
    /// not be: it has a later one, and was made to forget since it asked.
    pub fn may_make_up(&self, ino: u64, end: u64, came: Mono) -> bool {
        let known = self.files.get(&ino);
        known.is_some_and(|known| known.may_make_up(end, came))
    }

    /// A read by way of the page cache is to be answered with bytes up to `end`. True if the kernel has to ignore what it
    /// has not taken yet: a size below that. An answer that is shorter than was asked (`is_short`) and ends before the end
    /// that the kernel has makes it do so itself, and moves that end, if nothing else has happened to the inode since the
    /// read, which came at `came`, was sent (`fuse_read_update_size`): so that nothing may be sent before it.
    pub fn read(&mut self, ino: u64, end: u64, is_short: bool, came: Mono) -> bool {
        let Some(known) = self.files.get_mut(&ino) else {
            return false;
        };
        if is_short && end < known.most {
            if !known.may_make_up(end, came) {
                known.most = end;
            }
            return false;
        }
        let is_behind = known.told < end;
        if is_behind {
            known.told = u64::MAX;
        }
        is_behind
    }

    /// A read or write by way of the page cache is answered.
    pub fn filled(&mut self, ino: u64) {
        self.files.entry(ino).or_default().has_pages = true;
    }

    /// The kernel may have pages of the file.
    pub fn has_pages(&self, ino: u64) -> bool {
        self.files.get(&ino).is_some_and(|known| known.has_pages)
    }

    /// A write past the page cache begins; its turn.
    pub fn begin_overwriting(&mut self, ino: u64) -> u64 {
        self.turn += 1;
        let turn = self.turn;
        self.files.entry(ino).or_default().overwriting.push(turn);
        turn
    }

    /// Its pages have been forgotten, or it has failed.
    pub fn end_overwriting(&mut self, ino: u64, turn: u64) {
        if let Some(known) = self.files.get_mut(&ino) {
            known.overwriting.retain(|other| *other != turn);
        }
    }

    /// The turn of the last write that the kernel may have pages of before, though sizes may count it.
    pub fn overwritten(&self, ino: u64) -> Option<u64> {
        let known = self.files.get(&ino).filter(|known| known.has_pages)?;
        known.overwriting.last().copied()
    }

    /// The same of writes up to that turn.
    pub fn is_overwritten(&self, ino: u64, turn: u64) -> bool {
        let known = self.files.get(&ino);
        known.is_some_and(|known| known.overwriting.iter().any(|other| *other <= turn))
    }

    /// The kernel does not know the inode any more.
    pub fn forgot(&mut self, ino: u64) {
        self.files.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_a_size_that_may_come_late_are_seen() {
        let mut sizes = Sizes::default();
        assert!(!sizes.read(7, u64::MAX, false, Mono::default()));
        sizes.told(7, 957);
        sizes.told(7, 968);
        assert!(!sizes.read(7, 957, false, Mono::default()));
        assert!(sizes.read(7, 968, true, Mono::default()));
        // All is void that was told.
        assert!(!sizes.read(7, 979, true, Mono::default()));
        sizes.told(7, 968);
        sizes.forgot(7);
        assert!(!sizes.read(7, 969, false, Mono::default()));
    }

    #[test]
    fn a_short_answer_before_the_end_moves_it() {
        let mut sizes = Sizes::default();
        sizes.told(7, 252_637);
        sizes.told(7, 3);
        assert!(!sizes.read(7, 123_513, true, Mono::default()));
        // Should it not have been taken, the next one is.
        assert!(sizes.read(7, 123_513, true, Mono::default()));
        assert!(!sizes.read(7, 123_513, true, Mono::default()));
        sizes.told(7, 3);
        sizes.written(7, 200_000);
        assert!(!sizes.read(7, 150_000, true, Mono::default()));
    }

    #[test]
    fn a_short_answer_is_not_taken_by_whoever_was_made_to_forget_since_it_asked() {
        let at = |ms| Mono::default() + Duration::from_millis(ms);
        let mut sizes = Sizes::default();
        sizes.forgets(7, at(1));
        sizes.told(7, 9_000);
        assert!(!sizes.may_make_up(7, 5_000, at(1)));
        sizes.forgets(7, at(100));
        assert!(sizes.may_make_up(7, 5_000, at(1)) && sizes.may_make_up(7, 5_000, at(150)));
        assert!(!sizes.may_make_up(7, 5_000, at(151)) && !sizes.may_make_up(7, 9_000, at(1)));
    }

    #[test]
    fn sizes_wait_for_writes_past_the_cache_if_there_are_pages() {
        let mut sizes = Sizes::default();
        let first = sizes.begin_overwriting(7);
        assert_eq!(sizes.overwritten(7), None);
        sizes.filled(7);
        assert_eq!(sizes.overwritten(7), Some(first));
        let second = sizes.begin_overwriting(7);
        assert_eq!(sizes.overwritten(7), Some(second));
        sizes.end_overwriting(7, first);
        assert!(!sizes.is_overwritten(7, first) && sizes.is_overwritten(7, second));
        sizes.end_overwriting(7, second);
        assert!(sizes.overwritten(7).is_none() && sizes.has_pages(7));
    }
}
