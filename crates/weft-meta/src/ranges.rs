//! Which bytes of files that several sessions write each of them has. Pure; the rules are in
//! `docs/protocols/leases.md`, section "Ranges".
//!
//! That a session writes a file beside others is in the journaled state; which bytes is not: a session
//! that takes itself up names those it may write. What this keeps true: no byte is written by two
//! sessions, and none written by one is read by another. Sizes that several writers tell one after the
//! other do not make a moment of the file; [`Ranges::unheard`] says who has to be asked (again).

use rangemap::RangeSet;
use std::collections::BTreeMap;
use std::ops::Range;
use weft_types::{BLOCK_BYTES, Ino, SessionId};

/// All bytes.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;
/// Bytes that no file has. Who is asked for them shares the file, and gives nothing back that it uses.
pub(crate) const BEYOND: Range<u64> = 1 << 63..u64::MAX;
/// Disputes over a file after which ranges are not widened any more, and how many each session that has
/// a part adds: to find its place costs each writer of a part of its own about one.
const DISPUTES: u32 = 8;
const DISPUTES_EACH: u32 = 4;
/// So many grants that nobody stands against make one dispute forgotten: writers that have come to be out
/// of each other's way are given more again, and if they are not, that costs little.
const FORGETTING: u32 = 64;
/// Files over which there were disputes, but of which nobody has anything now, that are remembered.
const REMEMBERED: usize = 10_000;
/// Ranges that a session may have of one file. Beyond that it has to give back what it has.
const RANGES_MAX: usize = 4096;

/// What a session has of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub read: RangeSet<u64>,
    pub write: RangeSet<u64>,
    /// Number of the last grant.
    granted: u64,
    /// When it was last asked for what it owes, of what has been answered.
    told: u64,
}

#[derive(Debug, Default)]
struct Shared {
    parts: BTreeMap<SessionId, Part>,
    disputes: u32,
    /// Grants since one of them was forgotten.
    grants: u32,
    /// The last growth of the file that was told, and by whom.
    grown: Option<(u64, SessionId)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    files: BTreeMap<Ino, Shared>,
}

/// `span` as it is leased: whole blocks. None if it is empty or backwards.
pub(crate) fn blocks(span: Range<u64>) -> Option<Range<u64>> {
    let start = span.start - span.start % BLOCK_BYTES;
    let end = span.end.checked_next_multiple_of(BLOCK_BYTES);
    (span.start < span.end).then(|| start..end.unwrap_or(u64::MAX))
}

/// What is in both.
fn common(a: &RangeSet<u64>, b: &RangeSet<u64>) -> RangeSet<u64> {
    a.intersection(b).collect()
}

impl Shared {
    fn is_contested(&self) -> bool {
        let sessions = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        self.disputes > DISPUTES.saturating_add(sessions.saturating_mul(DISPUTES_EACH))
    }
}

impl Part {
    /// It stands against `span` being read, or written, by another.
    fn conflicts(&self, span: &Range<u64>, write: bool) -> bool {
        self.write.overlaps(span) || write && self.read.overlaps(span)
    }

    fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }
}

impl Ranges {
    fn others(&self, ino: Ino, but: SessionId) -> impl Iterator<Item = (SessionId, &Part)> {
        let parts = self.files.get(&ino).map(|file| &file.parts);
        let parts = parts.into_iter().flatten();
        parts
            .filter(move |(session, _)| **session != but)
            .map(|(session, part)| (*session, part))
    }

    /// The sessions but one that have some of `span` that stands against its being read, or written.
    pub(crate) fn conflicting(
        &self,
        ino: Ino,
        but: SessionId,
        span: &Range<u64>,
        write: bool,
    ) -> Vec<SessionId> {
        self.others(ino, but)
            .filter(|(_, part)| part.conflicts(span, write))
            .map(|(session, _)| session)
            .collect()
    }

    /// The bytes that a session, which writes the file beside others, may have written: all that is not
    /// another's where it is not known what it had.
    pub(crate) fn may_have_written(&self, ino: Ino, session: SessionId) -> RangeSet<u64> {
        let parts = self.files.get(&ino).map(|file| &file.parts);
        let own = parts.and_then(|parts| parts.get(&session));
        if let Some(own) = own.filter(|own| !own.write.is_empty()) {
            return own.write.clone();
        }
        let all = RangeSet::from_iter([WHOLE]);
        let others = self.others(ino, session);
        others.fold(all, |mut left, (_, part)| {
            for range in part.write.iter() {
                left.remove(range.clone());
            }
            left
        })
    }

    /// Somebody else has some bytes of the file.
    pub(crate) fn has_others(&self, ino: Ino, but: SessionId) -> bool {
        self.others(ino, but).any(|(_, part)| !part.is_empty())
    }

    /// Counts a dispute: `span` was asked for and somebody has to give it back.
    pub(crate) fn disputed(&mut self, ino: Ino) {
        let file = self.files.entry(ino).or_default();
        file.disputes = file.disputes.saturating_add(1);
    }

    /// Writers of this file are in each other's way: what is granted is what was asked for.
    pub(crate) fn is_contested(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(Shared::is_contested)
    }

    /// Gives `span` to the session, which nobody stands against, and what is free around it, unless
    /// writers have been in each other's way too often. Answers what it may write (or read) now, and
    /// false if it has too many pieces.
    pub(crate) fn grant(
        &mut self,
        ino: Ino,
        session: SessionId,
        span: &Range<u64>,
        write: bool,
        seq: u64,
    ) -> (Range<u64>, bool) {
        let widened = self.widened(ino, session, span, write);
        let file = self.files.entry(ino).or_default();
        file.grants += 1;
        if file.grants >= FORGETTING {
            file.grants = 0;
            file.disputes = file.disputes.saturating_sub(1);
        }
        let part = file.parts.entry(session).or_default();
        part.granted = seq;
        match write {
            true => part.write.insert(widened.clone()),
            false => part.read.insert(widened.clone()),
        }
        let pieces = part.write.len() + part.read.len();
        (widened, pieces <= RANGES_MAX)
    }

    fn widened(&self, ino: Ino, but: SessionId, span: &Range<u64>, write: bool) -> Range<u64> {
        let Some(file) = self.files.get(&ino) else {
            return WHOLE;
        };
        if file.is_contested() {
            return span.clone();
        }
        let mut wide = WHOLE;
        for (_, part) in self.others(ino, but) {
            let reads = part.read.iter().filter(|_| write);
            for range in part.write.iter().chain(reads) {
                if range.end <= span.start {
                    wide.start = wide.start.max(range.end);
                } else {
                    wide.end = wide.end.min(range.start);
                }
            }
        }
        wide
    }

    /// The session has these ranges at most. (It may name fewer than it was given: grants may be lost,
    /// or void when they arrive.)
    pub(crate) fn keep(&mut self, ino: Ino, session: SessionId, kept: Kept) {
        let Some(part) = self
            .files
            .get_mut(&ino)
            .and_then(|file| file.parts.get_mut(&session))
        else {
            return;
        };
        part.write = common(&part.write, &kept.write);
        part.read = common(&part.read, &kept.read);
    }

    /// The session, which wrote the file alone or has come back to a new reign, has these ranges.
    pub(crate) fn restore(&mut self, ino: Ino, session: SessionId, kept: Kept) {
        let file = self.files.entry(ino).or_default();
        let part = file.parts.entry(session).or_default();
        part.write = kept.write;
        part.read = kept.read;
    }

    /// The session has nothing of the file any more.
    pub(crate) fn remove(&mut self, ino: Ino, session: SessionId) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.parts.remove(&session);
            if file.parts.is_empty() && file.disputes == 0 {
                self.files.remove(&ino);
            }
        }
        if self.files.len() > REMEMBERED {
            self.files.retain(|_, file| !file.parts.is_empty());
        }
    }

    /// The session has come back: of what it read nothing is left.
    pub(crate) fn drop_reads(&mut self, session: SessionId) {
        for file in self.files.values_mut() {
            if let Some(part) = file.parts.get_mut(&session) {
                part.read.clear();
            }
        }
    }

    /// The session has ended; what it writes stays its own until that is settled.
    pub(crate) fn session_ended(&mut self, session: SessionId, writes: impl Fn(Ino) -> bool) {
        self.drop_reads(session);
        self.files.retain(|ino, file| {
            if !writes(*ino) {
                file.parts.remove(&session);
            }
            !file.parts.is_empty() || file.disputes > 0
        });
    }

    /// Number of the last grant of a range to this session.
    pub(crate) fn granted(&self, ino: Ino, session: SessionId) -> u64 {
        let parts = self.files.get(&ino).map(|file| &file.parts);
        parts
            .and_then(|parts| parts.get(&session))
            .map_or(0, |part| part.granted)
    }

    /// What the session owed has been told, when it was asked at `asked`; by that the file grew.
    pub(crate) fn told(&mut self, ino: Ino, session: SessionId, asked: u64, grown: Option<u64>) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        if let Some(part) = file.parts.get_mut(&session) {
            part.told = part.told.max(asked);
        }
        if let Some(now) = grown {
            file.grown = Some((now, session));
        }
    }

    /// Sessions but one that have to be asked (again) how large the file is before `size` is what it was
    /// at some moment since `since`. A writer who can make it larger must have been asked since then;
    /// and unless it was he who made it so large, since that was told: what he said is no less old.
    /// (Sizes only grow while several write, so who says less afterwards had no more then.)
    pub(crate) fn unheard(
        &self,
        ino: Ino,
        but: SessionId,
        size: u64,
        since: u64,
    ) -> Vec<SessionId> {
        let grown = self.files.get(&ino).and_then(|file| file.grown);
        let is_unheard = |(session, part): &(SessionId, &Part)| {
            let may_grow = part.write.last().is_some_and(|last| last.end > size);
            let after_growth = match grown {
                Some((_, by)) if by == *session => true,
                Some((at, _)) => part.told >= at,
                None => true,
            };
            may_grow && !(part.told >= since && after_growth)
        };
        self.others(ino, but)
            .filter(is_unheard)
            .map(|(session, _)| session)
            .collect()
    }
}

/// Ranges as a session names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub write: RangeSet<u64>,
    pub read: RangeSet<u64>,
}

/// Takes what a message names; empty and backward ranges name nothing.
pub(crate) fn set_of(ranges: &[weft_wire::proto::Range]) -> RangeSet<u64> {
    let named = ranges.iter().filter(|range| range.start < range.end);
    named.map(|range| range.start..range.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const C: SessionId = SessionId(3);
    const INO: Ino = Ino(7);

    fn only(range: Range<u64>) -> Kept {
        Kept {
            write: [range].into_iter().collect(),
            read: RangeSet::new(),
        }
    }

    #[test]
    fn a_range_is_widened_to_its_neighbours() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..4096));
        ranges.restore(INO, B, only(40960..81920));
        let (got, _) = ranges.grant(INO, C, &(8192..12288), true, 1);
        assert_eq!(got, 4096..40960);
        assert_eq!(ranges.conflicting(INO, A, &(0..8192), true), [C]);
        assert_eq!(ranges.conflicting(INO, C, &(0..u64::MAX), false), [A, B]);
        // Its own does not stand in the way.
        let (got, _) = ranges.grant(INO, B, &(90000..90001), true, 2);
        assert_eq!(got, 40960..u64::MAX);
    }

    #[test]
    fn what_a_session_may_have_written_is_its_own_or_nobody_elses() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..4096));
        ranges.restore(INO, B, only(40960..81920));
        let of = |session| -> Vec<Range<u64>> {
            let written = ranges.may_have_written(INO, session);
            written.iter().cloned().collect()
        };
        assert_eq!(of(A), std::slice::from_ref(&(0..4096)));
        // A new reign has not heard of it, and will not.
        assert_eq!(of(C), [4096..40960, 81920..u64::MAX]);
        let mut unknown = RangeSet::new();
        unknown.insert(WHOLE);
        assert_eq!(ranges.may_have_written(Ino(8), A), unknown);
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..4096));
        let (got, _) = ranges.grant(INO, B, &(8192..12288), false, 1);
        assert_eq!(got, 4096..u64::MAX);
        assert!(ranges.conflicting(INO, C, &(8192..12288), false).is_empty());
        assert_eq!(ranges.conflicting(INO, C, &(8192..12288), true), [B]);
        ranges.drop_reads(B);
        assert!(ranges.conflicting(INO, C, &(8192..12288), true).is_empty());
    }

    #[test]
    fn who_is_in_each_others_way_gets_what_was_asked_for() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..4096));
        ranges.restore(INO, B, only(8192..12288));
        for _ in 0..=DISPUTES + 2 * DISPUTES_EACH {
            ranges.disputed(INO);
        }
        assert!(ranges.is_contested(INO));
        for seq in 1..=u64::from(FORGETTING) {
            let (got, _) = ranges.grant(INO, A, &(16384..20480), true, seq);
            assert_eq!(got, 16384..20480);
        }
        assert!(!ranges.is_contested(INO));
        // It is remembered when nobody has anything.
        ranges.disputed(INO);
        ranges.remove(INO, A);
        ranges.remove(INO, B);
        for _ in 0..DISPUTES {
            ranges.disputed(INO);
        }
        assert!(ranges.is_contested(INO));
    }

    #[test]
    fn a_session_keeps_no_more_than_it_was_given() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..8192));
        ranges.keep(INO, A, only(4096..u64::MAX));
        assert!(ranges.conflicting(INO, B, &(0..4096), true).is_empty());
        assert_eq!(ranges.conflicting(INO, B, &(4096..4097), true), [A]);
        assert!(ranges.conflicting(INO, B, &(8192..9000), true).is_empty());
        ranges.remove(INO, A);
        assert!(ranges.files.is_empty());
    }

    #[test]
    fn what_an_ended_session_writes_stays_its_own() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..8192));
        ranges.restore(Ino(8), A, only(0..8192));
        ranges.session_ended(A, |ino| ino == INO);
        assert_eq!(ranges.conflicting(INO, B, &(0..1), true), [A]);
        assert!(ranges.conflicting(Ino(8), B, &(0..1), true).is_empty());
    }

    #[test]
    fn a_size_is_of_one_moment() {
        let mut ranges = Ranges::default();
        ranges.restore(INO, A, only(0..100));
        ranges.restore(INO, B, only(100..u64::MAX));
        // At 10 the size is asked for. B alone can make it larger than 100.
        assert_eq!(ranges.unheard(INO, C, 100, 10), [B]);
        assert_eq!(ranges.unheard(INO, C, 50, 10), [A, B]);
        // A told 60 at 12, B told 200 at 13, both asked at 11.
        ranges.told(INO, A, 11, Some(12));
        ranges.told(INO, B, 11, Some(13));
        // A cannot have had more than 100: nobody need be asked.
        assert!(ranges.unheard(INO, C, 200, 10).is_empty());
        // If A could: it might have grown between its word and B's.
        ranges.restore(INO, A, only(300..400));
        assert_eq!(ranges.unheard(INO, C, 200, 10), [A]);
        ranges.told(INO, A, 14, None);
        assert!(ranges.unheard(INO, C, 200, 10).is_empty());
        assert_eq!(ranges.unheard(INO, C, 200, 15), [A, B]);
        assert_eq!(ranges.unheard(INO, B, 200, 15), [A]);
    }

    #[test]
    fn leases_are_of_whole_blocks() {
        assert_eq!(blocks(1..2), Some(0..BLOCK_BYTES));
        assert_eq!(
            blocks(BLOCK_BYTES..2 * BLOCK_BYTES),
            Some(BLOCK_BYTES..2 * BLOCK_BYTES)
        );
        assert_eq!(blocks(5..u64::MAX), Some(0..u64::MAX));
        assert_eq!(blocks(5..5), None);
    }
}
