//! What reads have filled the kernel's pages with while the kernel was being made to forget. Pure;
//! `invalidate.rs` acts on it.
//!
//! The kernel copies a write into its pages, and lets go of those that are whole, before it sends the
//! write. If they are forgotten between, a read fills them again with what was there before the write,
//! and there they would stay: so a write has to have forgotten what reads have filled under it.

use crate::holds::common;
use rangemap::RangeMap;
use std::ops::Range;
use std::time::Duration;
use weft_env::Mono;
use weft_types::FixedMap;

/// A write comes within this of being copied into pages, however busy the machine is.
const COPYING: Duration = Duration::from_secs(10);

/// A page is locked until the reader runs that its read was answered to: within this.
const WAKING: Duration = Duration::from_millis(50);

/// Inodes that are noted before old ones are looked for, to be dropped.
const INODES_MIN: usize = 4096;

/// Ranges of one inode that are kept. With more, all of it counts as filled.
const RANGES_MAX: usize = 1024;

/// A read that has filled pages.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Read {
    turn: u64,
    answered: Mono,
}

/// The pages of one inode that reads have filled.
struct Fill {
    /// When the inode was to be forgotten last.
    asked: Mono,
    pages: RangeMap<u64, Read>,
}

/// The pages of all inodes that were forgotten lately.
#[derive(Default)]
pub struct Fills {
    inodes: FixedMap<u64, Fill>,
    /// Inodes after the last search for old ones.
    young: usize,
    /// Turns of reads and of forgettings.
    turn: u64,
}

impl Fills {
    /// An inode is to be forgotten: from now on it is noted what reads fill.
    pub fn asked(&mut self, ino: u64, now: Mono) {
        if self.inodes.len() >= INODES_MIN.max(2 * self.young) {
            self.inodes.retain(|_, fill| fill.is_of(now));
            self.young = self.inodes.len();
        }
        let fill = self.inodes.entry(ino).or_insert_with(|| Fill {
            asked: now,
            pages: RangeMap::new(),
        });
        fill.asked = now;
    }

    /// A turn for a forgetting that begins now.
    pub fn begin(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// The kernel has forgotten pages; it began at `turn`, and may not have forgotten what was filled
    /// since.
    pub fn forgotten(&mut self, ino: u64, pages: &Range<u64>, turn: u64) {
        let Some(fill) = self.inodes.get_mut(&ino) else {
            return;
        };
        let filled = fill.pages.overlapping(pages.clone());
        let before = filled.filter(|(_, read)| read.turn < turn);
        let gone: Vec<Range<u64>> = before.map(|(range, _)| common(range, pages)).collect();
        gone.into_iter().for_each(|range| fill.pages.remove(range));
    }

    /// A read is about to fill pages.
    pub fn filled(&mut self, ino: u64, pages: Range<u64>, now: Mono) {
        let Some(fill) = self.inodes.get_mut(&ino) else {
            return;
        };
        if !fill.is_of(now) {
            self.inodes.remove(&ino);
            return;
        }
        if pages.is_empty() {
            return;
        }
        self.turn += 1;
        let read = Read {
            turn: self.turn,
            answered: now,
        };
        fill.pages.insert(pages, read);
        if fill.pages.len() > RANGES_MAX {
            fill.pages.insert(0..u64::MAX, read);
        }
    }

    /// Some of these pages may still be locked for a read, though it has been answered.
    pub fn are_fresh(&self, ino: u64, pages: &Range<u64>, now: Mono) -> bool {
        let fill = self.inodes.get(&ino).into_iter();
        let mut reads = fill.flat_map(|fill| fill.pages.overlapping(pages.clone()));
        reads.any(|(_, read)| read.answered + WAKING >= now)
    }

    /// What a write has to have forgotten of its pages. None if its inode was not forgotten lately:
    /// then reads in progress do it no harm either.
    pub fn under(&self, ino: u64, pages: &Range<u64>, now: Mono) -> Option<Vec<Range<u64>>> {
        let fill = self.inodes.get(&ino).filter(|fill| fill.is_of(now))?;
        let filled = fill.pages.overlapping(pages.clone());
        Some(filled.map(|(range, _)| common(range, pages)).collect())
    }
}

impl Fill {
    fn is_of(&self, now: Mono) -> bool {
        self.asked + COPYING >= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(ms)
    }

    #[test]
    fn a_write_forgets_what_reads_filled_since_its_inode_was_forgotten() {
        let mut fills = Fills::default();
        fills.filled(7, 0..4096, at(0));
        assert_eq!(fills.under(7, &(0..4096), at(0)), None);
        fills.asked(7, at(1));
        assert_eq!(fills.under(7, &(0..4096), at(1)), Some(vec![]));
        fills.filled(7, 0..8192, at(2));
        fills.filled(7, 12_288..16_384, at(2));
        let under = |fills: &Fills, ms| fills.under(7, &(4096..20_480), at(ms));
        let filled = [4096..8192, 12_288..16_384];
        assert_eq!(under(&fills, 3).as_deref(), Some(&filled[..]));
        assert!(fills.are_fresh(7, &(4096..4097), at(52)));
        assert!(!fills.are_fresh(7, &(8192..12_288), at(52)));
        assert!(!fills.are_fresh(7, &(4096..4097), at(53)));
        // That it is to be forgotten does not say that it is.
        fills.asked(7, at(4));
        let turn = fills.begin();
        assert_eq!(under(&fills, 5).as_deref(), Some(&filled[..]));
        // What is filled meanwhile may stay.
        fills.filled(7, 12_288..16_384, at(5));
        fills.forgotten(7, &(0..u64::MAX), turn);
        assert_eq!(under(&fills, 6).as_deref(), Some(&filled[1..]));
        let turn = fills.begin();
        fills.forgotten(7, &(12_288..14_000), turn);
        let rest = std::slice::from_ref(&(14_000..16_384));
        assert_eq!(under(&fills, 10_004).as_deref(), Some(rest));
        assert_eq!(under(&fills, 10_005), None);
        fills.filled(7, 0..4096, at(10_005));
        assert!(fills.inodes.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut fills = Fills::default();
        fills.asked(7, at(0));
        for n in 0..=RANGES_MAX as u64 {
            fills.filled(7, n * 8192..n * 8192 + 4096, at(0));
        }
        let all = fills.under(7, &(4096..8192), at(0));
        let filled = std::slice::from_ref(&(4096..8192));
        assert_eq!(all.as_deref(), Some(filled));
        for ino in 0..10 * INODES_MIN as u64 {
            fills.asked(ino, at(20_000 * (ino / INODES_MIN as u64)));
        }
        assert!(fills.inodes.len() <= 2 * INODES_MIN);
    }
}
