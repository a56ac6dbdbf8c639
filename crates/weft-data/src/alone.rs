//! What this member knows for the day on which its twin is gone and took with it what clients went on
//! with (docs/protocols/losses.md).
//!
//! While both serve: where each session has written lately. A session goes on with what one member has
//! only near where both members have had something of it a few operations ago, so that either of
//! them can tell where the other one may have had more. While this member serves alone: what it has
//! taken since, which nothing that the twin has can be newer than. All of it is memory: a member that
//! has started anew knows only its modified list, and names more.

use crate::marks::Unsure;
use crate::write::Change;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_pair::{Mode, PairState};
use weft_types::{
    ANNOUNCED_AHEAD, ANNOUNCED_OPERATIONS, Epoch, Member, ObjectId, REGION_BYTES, Regions,
};

/// Sessions about which this is known; those that have ended go first.
const SESSIONS_MAX: usize = 65_536;
/// Regions of one session; it is then taken to have written everywhere.
const REGIONS_MAX: usize = 65_536;
/// Ranges taken alone; beyond it nothing is known to be newer than what the twin has.
const TAKEN_MAX: usize = 65_536;

/// Where one session wrote.
#[derive(Default)]
struct Session {
    /// Its operations below are on both members.
    confirmed_below: u64,
    /// The newest operation that touched a region.
    regions: BTreeMap<(ObjectId, u32), u64>,
    too_many: bool,
}

impl Session {
    fn confirm(&mut self, below: u64) {
        if below > self.confirmed_below {
            self.confirmed_below = below;
            let keep = |_: &(ObjectId, u32), operation: &mut u64| {
                operation.saturating_add(ANNOUNCED_OPERATIONS) >= below
            };
            self.regions.retain(keep);
        }
    }
}

/// Taken since this member is alone, whoever wrote it.
const ANYBODY: u64 = 0;

/// Byte ranges by session and object.
#[derive(Default)]
struct Taken {
    ranges: BTreeMap<(u64, ObjectId), Vec<Range<u64>>>,
    count: usize,
}

impl Taken {
    /// False if there is no room for more.
    fn add(&mut self, session: u64, object: ObjectId, mut range: Range<u64>) -> bool {
        let known = self.ranges.entry((session, object)).or_default();
        let from = known.partition_point(|one| one.end < range.start);
        let to = known.partition_point(|one| one.start <= range.end);
        if from < to {
            range.start = range.start.min(known[from].start);
            range.end = range.end.max(known[to - 1].end);
        }
        self.count = self.count + 1 - (to - from);
        known.splice(from..to, [range]);
        self.count <= TAKEN_MAX
    }

    fn of(&self, session: u64, object: ObjectId) -> &[Range<u64>] {
        self.ranges
            .get(&(session, object))
            .map_or(&[], Vec::as_slice)
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Alone {
    mode: Cell<Option<Mode>>,
    sessions: RefCell<BTreeMap<u64, Session>>,
    /// The epoch in which this member began to serve alone, while a session may still have gone on
    /// with something before it that only the twin has.
    since: Cell<Option<Epoch>>,
    /// What was taken since, and of each session what the twin may not have had by then: that its
    /// client sent nothing newer to. What another session left so may be older than what this one
    /// wrote after it. None: not known.
    taken: RefCell<Option<Taken>>,
}

/// Where the twin may have had something newer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Suspect {
    /// In these ranges, and nothing that this member has there is newer.
    Ranges(Vec<Range<u64>>),
    /// This member does not know: it has started anew.
    Unknown,
}

impl Alone {
    /// For a member that starts. `was_settled`: when its process before this one ended it served alone,
    /// and no session could have gone on any more with what only the twin had.
    pub fn new(me: Member, was_settled: bool) -> Alone {
        let alone = Alone::default();
        alone.mode.set(was_settled.then_some(Mode::Only(me)));
        alone
    }

    /// It serves alone, and no session can have gone on any more with what only the twin has.
    pub fn is_settled(&self, me: Member) -> bool {
        let mode = self.mode.get();
        self.since.get().is_none() && mode.is_some_and(|mode| is_alone(mode, me))
    }

    /// A new state is in force. `unsure`: what clients have written here and not said to be on both.
    /// True: this member serves alone from now on, and it has to be asked for sessions that
    /// may have gone on with what only the twin has.
    pub fn on_state(
        &self,
        me: Member,
        state: &PairState,
        unsure: impl FnOnce() -> Vec<Unsure>,
    ) -> bool {
        let before = self.mode.replace(Some(state.mode));
        match state.mode {
            Mode::Both => {
                self.resolved();
                self.sessions.borrow_mut().clear();
            }
            mode if is_alone(mode, me) => {
                if before.is_some_and(|before| is_alone(before, me)) {
                    return false;
                }
                self.since.set(Some(state.epoch));
                if before == Some(Mode::Both) {
                    let mut taken = Taken::default();
                    let fits = |one: Unsure| taken.add(one.session, one.object, one.range);
                    let all = unsure().into_iter().all(fits);
                    *self.taken.borrow_mut() = all.then_some(taken);
                }
                return true;
            }
            _ => self.resolved(),
        }
        false
    }

    /// No session can have gone on any more with what only the twin has.
    pub fn resolved(&self) {
        self.since.set(None);
        *self.taken.borrow_mut() = None;
    }

    /// The epoch in which this member began to serve alone, until that is resolved.
    pub fn since(&self) -> Option<Epoch> {
        self.since.get()
    }

    /// A session writes here and, by whoever leads, to the twin; to be called before that is
    /// answered. `is_fenced`: the session has ended.
    pub fn announce(
        &self,
        session: u64,
        object: ObjectId,
        regions: &[Range<u32>],
        (operation, confirmed_below): (u64, u64),
        is_fenced: impl Fn(u64) -> bool,
    ) {
        if session == 0 || operation == 0 || self.mode.get() != Some(Mode::Both) {
            return;
        }
        let sessions = &mut *self.sessions.borrow_mut();
        if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(&session) {
            let ended = sessions.keys().copied().find(|session| is_fenced(*session));
            if let Some(ended) = ended {
                sessions.remove(&ended);
            }
        }
        let known = sessions.entry(session).or_default();
        known.confirm(confirmed_below);
        for region in regions.iter().cloned().flatten() {
            let newest = known.regions.entry((object, region)).or_default();
            *newest = operation.max(*newest);
        }
        if known.regions.len() > REGIONS_MAX {
            known.too_many = true;
            known.regions.clear();
        }
    }

    /// The session says that its operations below are on both members.
    pub fn confirmed_below(&self, session: u64, below: u64) {
        if let Some(known) = self.sessions.borrow_mut().get_mut(&session) {
            known.confirm(below);
        }
    }

    /// This member has made a change, perhaps alone.
    pub fn took(&self, object: ObjectId, change: &Change) {
        let taken = &mut *self.taken.borrow_mut();
        if self.since.get().is_none() {
            return;
        }
        if let Some(known) = taken {
            let mut ranges = change.bytes_changed().into_iter();
            if !ranges.all(|range| known.add(ANYBODY, object, range)) {
                tracing::info!("too much was written for telling it from what the twin may have");
                *taken = None;
            }
        }
    }

    /// Where in an object the twin may have had what a session went on with.
    pub fn suspect(&self, session: u64, object: ObjectId) -> Suspect {
        let taken = self.taken.borrow();
        let Some(taken) = &*taken else {
            return Suspect::Unknown;
        };
        let sessions = self.sessions.borrow();
        let regions: Regions = match sessions.get(&session) {
            None => Regions::default(),
            Some(known) if known.too_many => return Suspect::Unknown,
            Some(known) => known
                .regions
                .range((object, 0)..=(object, u32::MAX))
                .map(|((_, region), _)| *region..region.saturating_add(1))
                .collect(),
        };
        let left = minus(
            around(regions.runs().iter().cloned()),
            taken.of(ANYBODY, object),
        );
        Suspect::Ranges(minus(left, taken.of(session, object)))
    }
}

/// The member serves alone, or does so again once it is there.
fn is_alone(mode: Mode, me: Member) -> bool {
    mode.sole() == Some(me) || mode == Mode::Down(me)
}

/// Where a session may go on alone that has lately written to these regions, as byte ranges that ascend
/// and do not touch.
pub(crate) fn around(runs: impl IntoIterator<Item = Range<u32>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for run in runs {
        let start = u64::from(run.start) * REGION_BYTES;
        let end = (u64::from(run.end) + u64::from(ANNOUNCED_AHEAD)) * REGION_BYTES;
        match ranges.last_mut() {
            Some(last) if last.end >= start => last.end = last.end.max(end),
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// `ranges` without `cuts`; both ascend.
pub(crate) fn minus(ranges: Vec<Range<u64>>, cuts: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut at = range.start;
        let first = cuts.partition_point(|cut| cut.end <= range.start);
        for cut in cuts[first..].iter().take_while(|cut| cut.start < range.end) {
            if at < cut.start {
                left.push(at..cut.start);
            }
            at = at.max(cut.end);
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use weft_types::{Ino, PairId};

    const ME: Member = Member::Zero;
    const MIB: u64 = REGION_BYTES;
    const AHEAD: u64 = ANNOUNCED_AHEAD as u64;

    fn object(ino: u64) -> ObjectId {
        ObjectId {
            ino: Ino(ino),
            generation: 0,
        }
    }

    fn state(epoch: u64, mode: Mode) -> PairState {
        PairState {
            epoch: Epoch(epoch),
            mode,
            ..PairState::new(PairId(0))
        }
    }

    fn write(offset: u64, length: u32) -> Change {
        Change::Write {
            extents: vec![weft_objects::Extent { offset, length }],
            payload: bytes::Bytes::new(),
            crc: 0,
        }
    }

    fn announce(alone: &Alone, operation: u64, below: u64, region: u32) {
        let regions = [region..region + 1];
        alone.announce(9, object(1), &regions, (operation, below), |_| false);
    }

    fn alone_after(announced: impl FnOnce(&Alone)) -> Alone {
        let alone = Alone::default();
        assert!(!alone.on_state(ME, &state(2, Mode::Both), Vec::new));
        announced(&alone);
        let unsure = |session, range| Unsure {
            session,
            object: object(1),
            range,
        };
        // The other session's was made equal, and this one may have overwritten it since.
        let unsure = || vec![unsure(9, 100..200), unsure(8, 300..400)];
        assert!(alone.on_state(ME, &state(3, Mode::Only(ME)), unsure));
        alone
    }

    #[test]
    fn suspect_is_what_lies_at_and_behind_the_last_writes_without_what_came_here() {
        let alone = alone_after(|alone| announce(alone, 5, 3, 0));
        assert_eq!(alone.since(), Some(Epoch(3)));
        alone.took(object(1), &write(MIB, 10));
        alone.took(object(2), &write(0, 10));
        let end = (1 + AHEAD) * MIB;
        let suspect = Suspect::Ranges(vec![0..100, 200..MIB, MIB + 10..end]);
        assert_eq!(alone.suspect(9, object(1)), suspect);
        // Nothing of this session was here: it has gone on with nothing.
        let nothing = Suspect::Ranges(Vec::new());
        assert_eq!(alone.suspect(8, object(1)), nothing);
        assert_eq!(alone.suspect(9, object(2)), nothing);
        // The twin is back and being filled: the same.
        assert!(!alone.on_state(ME, &state(4, Mode::Recovering(ME)), Vec::new));
        assert_eq!(alone.suspect(9, object(1)), suspect);
        alone.on_state(ME, &state(5, Mode::Both), Vec::new);
        assert_eq!(alone.since(), None);
    }

    #[test]
    fn what_was_written_long_before_the_last_operations_is_not_suspect() {
        let alone = alone_after(|alone| {
            announce(alone, 1, 1, 500);
            announce(alone, 2, 2, 900);
            // Its oldest operation on the way is so much younger than the first one.
            announce(alone, 700, 2 + ANNOUNCED_OPERATIONS, 7);
        });
        let around = |region: u64| region * MIB..(region + 1 + AHEAD) * MIB;
        let suspect = Suspect::Ranges(vec![around(7), around(900)]);
        assert_eq!(alone.suspect(9, object(1)), suspect);
    }

    #[test]
    fn a_member_that_has_started_anew_does_not_know() {
        let alone = Alone::default();
        assert!(alone.on_state(ME, &state(7, Mode::Only(ME)), Vec::new));
        assert_eq!(alone.suspect(9, object(1)), Suspect::Unknown);
        // Neither does one that had to note too much.
        let alone = alone_after(|alone| announce(alone, 5, 3, 0));
        for at in 0..=TAKEN_MAX as u64 {
            alone.took(object(3), &write(at * 100, 1));
        }
        assert_eq!(alone.suspect(9, object(1)), Suspect::Unknown);
        alone.resolved();
        assert_eq!(alone.since(), None);
    }

    #[test]
    fn serving_alone_goes_on_over_a_moment_without_the_metadata_service() {
        let alone = alone_after(|alone| announce(alone, 5, 3, 0));
        assert!(!alone.on_state(ME, &state(4, Mode::Down(ME)), Vec::new));
        assert!(!alone.on_state(ME, &state(5, Mode::Only(ME)), Vec::new));
        assert_eq!(alone.since(), Some(Epoch(3)));
        // Once resolved it stays so until both have served, also for the next process.
        assert!(!alone.is_settled(ME));
        alone.resolved();
        assert!(!alone.on_state(ME, &state(6, Mode::Recovering(ME)), Vec::new));
        assert_eq!(alone.since(), None);
        assert!(alone.is_settled(ME));
        let next = Alone::new(ME, true);
        assert!(!next.on_state(ME, &state(7, Mode::Only(ME)), Vec::new));
        assert_eq!(next.since(), None);
        assert!(!next.on_state(ME, &state(8, Mode::Both), Vec::new));
        assert!(!next.is_settled(ME));
        assert!(next.on_state(ME, &state(9, Mode::Only(ME)), Vec::new));
    }

    #[test]
    fn ranges_are_cut_out_of_ranges() {
        let cut = |cuts: &[Range<u64>]| minus(vec![10..20, 30..40], cuts);
        assert_eq!(cut(&[]), [10..20, 30..40]);
        assert_eq!(cut(&[0..10, 20..30, 40..50]), [10..20, 30..40]);
        assert_eq!(cut(&[12..14, 18..33]), [10..12, 14..18, 33..40]);
        assert_eq!(cut(&[0..50]), [] as [Range<u64>; 0]);
    }
}
