//! What this client may do with one inode: the lease, its order, its giving back.
//!
//! READ and WRITE cover the whole inode. Under SHARED, which several sessions hold that write a file at the
//! same time, bytes are read and written in ranges that are granted, widened and given back one by one.
//!
//! Pure: events in, decisions out; `node.rs` waits and wakes, `revoke.rs` does the giving back
//! (`docs/protocols/leases.md`). Keeps true: a grant older than the newest revocation gives nothing;
//! a lease is given back only when no use of it is in progress and no use was served while the
//! face was told to forget.

use rangemap::RangeSet;
use std::ops::Range;
use weft_types::BLOCK_BYTES;

/// What a lease lets its holder do; each step includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Nothing.
    #[default]
    None,
    /// Know where a file lies; read and write what ranges allow. Attributes are asked for.
    Shared,
    /// Cache attributes, names and data.
    Read,
    /// Besides: buffer writes, own size and times.
    Write,
}

/// How far the giving back of a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The face forgets what it cached. Uses that come now are served, since the face's forgetting
    /// may wait for them, and counted.
    Forgetting,
    /// Uses in progress end and data is written back. New uses wait.
    Closing,
}

/// All bytes of a file, and whatever else an inode has.
pub const WHOLE: Range<u64> = 0..u64::MAX;

/// What an operation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// At least this on all of the inode...
    pub mode: Mode,
    /// ... or, under SHARED, to read or write these bytes.
    pub span: Range<u64>,
}

impl From<Mode> for Need {
    fn from(mode: Mode) -> Need {
        Need { mode, span: WHOLE }
    }
}

impl Need {
    /// To read (or write) `span`, in whole blocks: leases are granted so.
    pub fn bytes(mode: Mode, span: Range<u64>) -> Need {
        let start = span.start - span.start % BLOCK_BYTES;
        let end = span.end.max(start + 1);
        let end = end.checked_next_multiple_of(BLOCK_BYTES);
        Need {
            mode,
            span: start..end.unwrap_or(u64::MAX),
        }
    }

    /// It can do with a range.
    pub fn is_partial(&self) -> bool {
        self.span != WHOLE
    }
}

/// The bytes that are held under SHARED.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    pub read: RangeSet<u64>,
    pub write: RangeSet<u64>,
}

impl Ranges {
    fn covers(&self, need: &Need) -> bool {
        let missing: Vec<Range<u64>> = self.write.gaps(&need.span).collect();
        match need.mode {
            Mode::Write => missing.is_empty(),
            _ => missing
                .iter()
                .all(|gap| self.read.gaps(gap).next().is_none()),
        }
    }
}

/// Pieces of a file that are told apart: who uses more of them gives up what others are in the way of.
const PIECES_MAX: usize = 1024;

/// Which bytes were used under a lease, and where the newest use ended. Of what others ask for the rest
/// can go.
#[derive(Clone, Debug, Default)]
struct Used {
    pieces: RangeSet<u64>,
    newest: u64,
}

impl Used {
    fn note(&mut self, span: &Range<u64>) {
        self.pieces.insert(span.clone());
        if self.pieces.len() > PIECES_MAX {
            self.pieces.clear();
        }
        self.newest = span.end;
    }

    /// What of `held` is kept when another asks for `wanted`: of each range that is cut the side that
    /// was used last, from where it was used first. Where writers are in each other's way again and
    /// again, only what was used.
    fn kept(&self, held: &RangeSet<u64>, wanted: &Wanted) -> RangeSet<u64> {
        if wanted.contested {
            let mut kept = common(held, &self.pieces);
            kept.remove(wanted.span.clone());
            return kept;
        }
        let first = self.pieces.first().map(|piece| piece.start);
        let wanted = &wanted.span;
        let mut kept = RangeSet::new();
        for range in held.iter() {
            if range.end <= wanted.start || wanted.end <= range.start {
                kept.insert(range.clone());
                continue;
            }
            let Some(first) = first else { continue };
            let before = range.start.max(first)..wanted.start;
            let after = wanted.end.max(first)..range.end;
            if before.contains(&self.newest.saturating_sub(1)) {
                kept.insert(before);
            } else if after.contains(&self.newest.saturating_sub(1)) {
                kept.insert(after);
            }
        }
        kept
    }
}

#[derive(Clone, Debug)]
struct GivingBack {
    to: Mode,
    /// What was asked for, one after the other.
    wanted: Vec<Wanted>,
    /// With `to` SHARED: what is kept.
    keep: Ranges,
    seq: u64,
    phase: Phase,
    /// Tells it from others of this lease.
    turn: u64,
}

impl GivingBack {
    /// What the need asks for is held afterwards, too.
    fn leaves(&self, need: &Need) -> bool {
        self.to >= need.mode || self.to == Mode::Shared && self.keep.covers(need)
    }
}

/// What the server wants back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub to: Mode,
    /// With `to` SHARED: the bytes that another is to read, or write.
    pub span: Range<u64>,
    pub write: bool,
    /// It has been so again and again.
    pub contested: bool,
}

impl From<Mode> for Wanted {
    fn from(to: Mode) -> Wanted {
        Wanted {
            to,
            span: WHOLE,
            write: true,
            contested: false,
        }
    }
}

/// The lease on one inode.
#[derive(Debug, Default)]
pub struct LeaseState {
    mode: Mode,
    granted: u64,
    /// Number of the newest revocation, or question, that has come.
    revoked: u64,
    /// Number of the newest that has been answered: what was granted before is void.
    answered: u64,
    giving_back: Option<GivingBack>,
    turns: u64,
    /// The client gives it back of its own accord: nothing is granted until that is done.
    leaving: bool,
    /// Changes of this client's own that nobody has answered for: what is cached may be of before them.
    doubts: u32,
    /// Held under SHARED.
    ranges: Ranges,
    read: Used,
    written: Used,
    uses: Vec<Need>,
    served: u64,
    /// Counts the times this lease was lost: what was learned under one count is not to be
    /// believed under another.
    losses: u64,
}

/// May an operation that needs a mode begin now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes: the use has been counted; `ended` must follow.
    Begun,
    /// The lease is being given back: wait for that, then ask again.
    Wait,
    /// The lease does not suffice: ask the server for it.
    Ask,
}

impl LeaseState {
    /// What is held now, being given back or not.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What is cached under the lease may be answered with. True while it is given back, too:
    /// nobody else is allowed a change before that is over. What is owned holds in doubt, too.
    pub fn may_answer(&self) -> bool {
        self.mode >= Mode::Read && (self.doubts == 0 || self.mode == Mode::Write)
    }

    /// The face may keep what it is answered.
    pub fn may_keep(&self) -> bool {
        let keeps = |g: &GivingBack| g.to >= Mode::Read;
        self.mode >= Mode::Read && self.doubts == 0 && self.giving_back.as_ref().is_none_or(keeps)
    }

    /// A change of this client's own may be done later than it knows. Uses that have begun may find that what is cached has
    /// gone.
    pub fn begin_doubt(&mut self) {
        self.doubts += 1;
        self.outdate();
    }

    /// It is known what became of one. What was asked before that may be of before the change.
    pub fn end_doubt(&mut self) {
        self.doubts -= 1;
        self.outdate();
    }

    /// What was learned until now is of before an own change, or may be. What is owned holds.
    fn outdate(&mut self) {
        if self.mode == Mode::Read {
            self.losses += 1;
        }
    }

    /// The WRITE lease is held and not being given back.
    pub fn owns(&self) -> bool {
        self.mode == Mode::Write && self.giving_back.is_none()
    }

    /// The file is written beside others: size and times are owed to the server and joined there.
    pub fn shares(&self) -> bool {
        self.mode == Mode::Shared && !self.ranges.write.is_empty()
    }

    /// The file is written by others, and no byte of it is held: this client is not asked before it is laid
    /// otherwise, trimmed or made longer.
    pub fn looks_on(&self) -> bool {
        let Ranges { read, write } = &self.ranges;
        self.mode == Mode::Shared && read.is_empty() && write.is_empty()
    }

    /// Size and times of what is written here are this client's to tell.
    pub fn owes(&self) -> bool {
        self.mode == Mode::Write || self.shares()
    }

    /// What is held under SHARED.
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// What is held suffices for this.
    pub fn suffices(&self, need: &Need) -> bool {
        self.mode >= need.mode
            || self.mode == Mode::Shared && need.is_partial() && self.ranges.covers(need)
    }

    /// Number of the newest grant.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// See the field.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// No revocation that has been answered came after this grant.
    fn is_in_force(&self, seq: u64) -> bool {
        // A reply may be read after the revocation that followed it on the wire. While that is not
        // answered, the grant still stands, to be given back with it.
        !self.leaving && seq > self.answered
    }

    /// What came with a grant that was taken may be kept: it stands. What is held may be less than
    /// it gave, and that is of another time.
    pub fn stands(&self, seq: u64) -> bool {
        self.mode >= Mode::Shared && self.is_in_force(seq)
    }

    /// A grant came. False: it is older than a revocation that has been answered, so it is void and
    /// what came with it may not be kept.
    pub fn grant(&mut self, mode: Mode, seq: u64) -> bool {
        if !self.is_in_force(seq) {
            return false;
        }
        if seq >= self.granted {
            self.granted = seq;
            // A READ grant beside a WRITE lease that stands takes nothing away.
            self.mode = self.mode.max(mode);
            if self.mode == Mode::Write {
                self.ranges = Ranges::default();
            }
        }
        self.choose_kept();
        true
    }

    /// Bytes were granted under SHARED. False: as [`LeaseState::grant`].
    pub fn grant_range(&mut self, span: Range<u64>, write: bool, seq: u64) -> bool {
        if !self.grant(Mode::Shared, seq) {
            return false;
        }
        match write {
            true => self.ranges.write.insert(span),
            false => self.ranges.read.insert(span),
        }
        self.choose_kept();
        true
    }

    /// The server is asked for this: it is used as soon as it is granted. Should it be asked back before
    /// that, it is what is kept.
    pub fn will_use(&mut self, need: &Need) {
        if need.is_partial() {
            match need.mode {
                Mode::Write => self.written.note(&need.span),
                _ => self.read.note(&need.span),
            }
        }
    }

    /// A revocation came. False: it is older than one that is in progress or done.
    pub fn begin_giving_back(&mut self, wanted: impl Into<Wanted>, seq: u64) -> bool {
        if seq < self.revoked {
            return false;
        }
        self.revoked = seq;
        let wanted = wanted.into();
        let is_first = match &mut self.giving_back {
            Some(giving_back) => {
                giving_back.to = giving_back.to.min(wanted.to);
                giving_back.wanted.push(wanted);
                giving_back.seq = seq;
                giving_back.phase = Phase::Forgetting;
                false
            }
            None => {
                self.turns += 1;
                self.giving_back = Some(GivingBack {
                    turn: self.turns,
                    to: wanted.to,
                    wanted: vec![wanted],
                    keep: Ranges::default(),
                    seq,
                    phase: Phase::Forgetting,
                });
                true
            }
        };
        self.choose_kept();
        is_first
    }

    /// Decides what is kept of what is held now.
    fn choose_kept(&mut self) {
        let Some(giving_back) = &self.giving_back else {
            return;
        };
        let mut asked = giving_back.wanted.iter().map(|wanted| self.kept(wanted));
        let first = asked.next().unwrap_or_default();
        let keep = asked.fold(first, |a, b| Ranges {
            read: common(&a.read, &b.read),
            write: common(&a.write, &b.write),
        });
        if let Some(giving_back) = &mut self.giving_back {
            giving_back.keep = keep;
        }
    }

    /// The ranges that are kept when this is given.
    fn kept(&self, wanted: &Wanted) -> Ranges {
        if wanted.to != Mode::Shared {
            return Ranges::default();
        }
        let whole: RangeSet<u64> = [WHOLE].into_iter().collect();
        match self.mode {
            Mode::Write => Ranges {
                read: RangeSet::new(),
                write: self.written.kept(&whole, wanted),
            },
            Mode::Shared => Ranges {
                read: match wanted.write {
                    true => self.read.kept(&self.ranges.read, wanted),
                    false => self.ranges.read.clone(),
                },
                write: self.written.kept(&self.ranges.write, wanted),
            },
            Mode::None | Mode::Read => Ranges::default(),
        }
    }

    /// The server asks only what is owed; older grants that have not arrived are void, as it takes
    /// what is held now for all. False: it is older than a revocation that has come.
    pub fn report(&mut self, seq: u64) -> bool {
        if seq < self.revoked {
            return false;
        }
        (self.revoked, self.answered) = (seq, seq);
        true
    }

    /// What the lease becomes when it has been given back; None if it is not being.
    pub fn giving_back_to(&self) -> Option<Mode> {
        self.giving_back.as_ref().map(|g| g.to)
    }

    /// Which giving back is in progress: once the connection was lost it is void, and the same revocation
    /// begins another one, with uses of its own to wait for.
    pub fn giving_back_turn(&self) -> Option<u64> {
        self.giving_back.as_ref().map(|g| g.turn)
    }

    /// These bytes may be written when what is asked back has been given.
    pub fn keeps_written(&self, span: Range<u64>) -> bool {
        let need = Need {
            mode: Mode::Write,
            span,
        };
        self.giving_back.as_ref().is_none_or(|g| g.leaves(&need))
    }

    /// The file was given to this client alone after what is being given back was asked: the server has settled that
    /// without its answer, and takes nothing that is told with it.
    pub fn is_given_anew(&self) -> bool {
        let is_later = |giving_back: &GivingBack| self.granted > giving_back.seq;
        self.mode == Mode::Write && self.giving_back.as_ref().is_some_and(is_later)
    }

    /// Uses served so far while the face was forgetting.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Sets how far the giving back is.
    pub fn set_phase(&mut self, phase: Phase) {
        if let Some(giving_back) = &mut self.giving_back {
            giving_back.phase = phase;
        }
    }

    /// No use is in progress.
    pub fn is_idle(&self) -> bool {
        self.uses.is_empty()
    }

    /// No use is in progress of what is being given back.
    pub fn is_free(&self) -> bool {
        match &self.giving_back {
            Some(giving_back) => self.uses.iter().all(|need| giving_back.leaves(need)),
            None => true,
        }
    }

    /// The giving back is over: the lease is what was asked for, unless a newer grant came.
    pub fn finish_giving_back(&mut self) {
        let Some(giving_back) = self.giving_back.take() else {
            return;
        };
        self.answered = self.answered.max(giving_back.seq);
        if self.granted <= giving_back.seq {
            if giving_back.to < Mode::Read {
                self.losses += 1;
                self.ranges = giving_back.keep;
            }
            self.mode = self.mode.min(giving_back.to);
            self.forget_use();
        }
    }

    fn forget_use(&mut self) {
        if self.mode == Mode::None {
            (self.read, self.written) = (Used::default(), Used::default());
        }
    }

    /// The connection was lost: grants and revocations are counted from nothing, and what others may
    /// read, too, is given back. What is written here alone stands.
    pub fn come_back(&mut self) {
        let keeps = match self.mode {
            Mode::Shared if self.shares() => {
                self.losses += 1;
                self.ranges.read.clear();
                Mode::Shared
            }
            Mode::Write => Mode::Write,
            Mode::None | Mode::Shared | Mode::Read => Mode::None,
        };
        self.lose(keeps);
    }

    /// Everything is lost (session ended, or taken up at a server that began anew): grants and
    /// revocations are counted from nothing.
    pub fn lose(&mut self, to: Mode) {
        if to < Mode::Read && self.mode > to {
            self.losses += 1;
        }
        self.mode = self.mode.min(to);
        if self.mode != Mode::Shared {
            self.ranges = Ranges::default();
        }
        self.forget_use();
        self.granted = 0;
        (self.revoked, self.answered) = (0, 0);
        self.giving_back = None;
    }

    /// There is no such file any more: nothing is held. What is being asked back is still to be answered.
    pub fn gone(&mut self) {
        if self.mode > Mode::None {
            self.losses += 1;
        }
        self.mode = Mode::None;
        self.ranges = Ranges::default();
        self.forget_use();
        if let Some(giving_back) = &mut self.giving_back {
            giving_back.to = Mode::None;
            giving_back.keep = Ranges::default();
        }
    }

    /// Begins to give the lease back unasked: from now on it is not held.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.losses += 1;
        self.mode = Mode::None;
        self.ranges = Ranges::default();
    }

    /// It is being given back unasked.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// The server has it back, and granted READ or SHARED with the answer if `granted` says so. Everything
    /// granted before that is void. False if nothing is held now.
    pub fn left(&mut self, granted: Option<(Mode, u64)>) -> bool {
        self.leaving = false;
        match granted {
            Some((mode, seq)) => {
                let before = seq.saturating_sub(1);
                self.revoked = self.revoked.max(before);
                self.answered = self.answered.max(before);
                self.grant(mode.min(Mode::Read), seq)
            }
            None => false,
        }
    }

    /// An operation wants to begin.
    pub fn begin(&mut self, need: impl Into<Need>) -> Admission {
        let need = need.into();
        let suffices = self.suffices(&need);
        match &self.giving_back {
            None if suffices => {}
            None => return Admission::Ask,
            Some(giving_back) => {
                if !suffices {
                    return Admission::Wait;
                }
                // What the lease keeps is not touched by its giving back.
                if !giving_back.leaves(&need) {
                    if giving_back.phase == Phase::Closing {
                        return Admission::Wait;
                    }
                    self.served += 1;
                }
            }
        }
        // What is read matters only where ranges are held.
        if need.mode == Mode::Write || self.mode == Mode::Shared {
            self.will_use(&need);
        }
        self.uses.push(need);
        Admission::Begun
    }

    /// A use that was begun is over. True if others may have waited for that.
    pub fn ended(&mut self, need: &Need) -> bool {
        match self.uses.iter().position(|begun| begun == need) {
            Some(at) => {
                self.uses.swap_remove(at);
            }
            None => debug_assert!(false, "a use ended twice"),
        }
        self.is_idle() || self.giving_back.is_some()
    }
}

/// What is in both.
fn common(a: &RangeSet<u64>, b: &RangeSet<u64>) -> RangeSet<u64> {
    a.intersection(b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(mode: Mode, seq: u64) -> LeaseState {
        let mut lease = LeaseState::default();
        assert!(lease.grant(mode, seq));
        lease
    }

    #[test]
    fn a_grant_older_than_an_answered_revocation_is_void() {
        let mut lease = held(Mode::Read, 4);
        assert!(lease.begin_giving_back(Mode::None, 6));
        lease.finish_giving_back();
        assert!(!lease.grant(Mode::Write, 5));
        assert_eq!(lease.mode(), Mode::None);
        assert_eq!(lease.begin(Mode::Read), Admission::Ask);
        assert!(lease.grant(Mode::Read, 7));
        assert_eq!(lease.begin(Mode::Read), Admission::Begun);
    }

    #[test]
    fn what_came_with_a_void_grant_is_not_kept_under_the_lease_that_is_left() {
        let mut lease = held(Mode::Write, 4);
        assert!(lease.begin_giving_back(Mode::Read, 6));
        assert!(lease.stands(5), "while that is not answered");
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::Read);
        assert!(!lease.stands(5), "sizes have been told since");
        assert!(lease.grant(Mode::Read, 7));
        assert!(lease.stands(7));
        lease.lose(Mode::None);
        assert!(!lease.stands(7));
    }

    #[test]
    fn a_grant_read_late_is_used_once_and_given_back() {
        let mut lease = LeaseState::default();
        assert!(lease.begin_giving_back(Mode::None, 6));
        assert!(lease.grant(Mode::Write, 5), "sent before the revocation");
        assert_eq!(lease.begin(Mode::Write), Admission::Begun);
        assert!(!lease.may_keep());
        assert_eq!(lease.served(), 1);
        lease.set_phase(Phase::Closing);
        assert!(!lease.is_idle());
        assert!(lease.ended(&Mode::Write.into()));
        assert_eq!(lease.begin(Mode::Read), Admission::Wait);
        lease.finish_giving_back();
        assert_eq!(lease.begin(Mode::Read), Admission::Ask);
    }

    #[test]
    fn a_revocation_that_is_sent_again_is_another_giving_back() {
        let mut lease = held(Mode::Write, 1);
        assert_eq!(lease.begin(Mode::Write), Admission::Begun);
        assert!(lease.begin_giving_back(Mode::None, 2));
        let first = lease.giving_back_turn();
        assert!(!lease.begin_giving_back(Mode::None, 3));
        assert_eq!(lease.giving_back_turn(), first);
        lease.come_back();
        assert_eq!((lease.giving_back_turn(), lease.is_free()), (None, true));
        assert!(lease.begin_giving_back(Mode::None, 2));
        assert_ne!(lease.giving_back_turn(), first);
        assert!(!lease.is_free());
    }

    #[test]
    fn what_was_given_after_it_was_asked_back_is_not_given_back() {
        let mut lease = held(Mode::Write, 4);
        assert!(lease.begin_giving_back(Mode::None, 6));
        assert!(!lease.is_given_anew());
        assert!(lease.grant(Mode::Write, 7));
        assert!(
            lease.is_given_anew(),
            "what is owed now is told with another answer"
        );
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::Write);
    }

    #[test]
    fn what_is_asked_back_of_a_file_that_is_gone_is_still_given_back() {
        let mut lease = held(Mode::Write, 4);
        assert!(lease.begin_giving_back(Mode::Read, 6));
        let turn = lease.giving_back_turn();
        lease.gone();
        assert_eq!(lease.giving_back_turn(), turn);
        assert_eq!(lease.giving_back_to(), Some(Mode::None));
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::None);
        assert!(!lease.grant(Mode::Read, 5), "sent before the revocation");
        assert!(lease.grant(Mode::Read, 7));
        lease.gone();
        assert_eq!(lease.begin(Mode::Read), Admission::Ask);
    }

    #[test]
    fn down_to_read_leaves_readers_alone() {
        let mut lease = held(Mode::Write, 1);
        assert!(lease.begin_giving_back(Mode::Read, 2));
        lease.set_phase(Phase::Closing);
        assert_eq!(lease.begin(Mode::Read), Admission::Begun);
        assert!(lease.may_keep());
        assert_eq!(lease.served(), 0);
        assert_eq!(lease.begin(Mode::Write), Admission::Wait);
        assert!(!lease.owns());
        let losses = lease.losses();
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::Read);
        assert_eq!(lease.losses(), losses);
    }

    #[test]
    fn a_grant_newer_than_the_revocation_outlives_it() {
        let mut lease = held(Mode::Read, 1);
        assert!(lease.begin_giving_back(Mode::None, 2));
        assert!(lease.grant(Mode::Write, 3));
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::Write);
    }

    #[test]
    fn a_second_revocation_joins_the_first() {
        let mut lease = held(Mode::Write, 1);
        assert!(lease.begin_giving_back(Mode::Read, 2));
        assert!(!lease.begin_giving_back(Mode::None, 3));
        assert_eq!(lease.giving_back_to(), Some(Mode::None));
        assert!(!lease.begin_giving_back(Mode::None, 2), "older");
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::None);
    }

    #[test]
    fn nothing_is_granted_while_it_is_given_back_unasked() {
        let mut lease = held(Mode::Write, 5);
        lease.leave();
        assert_eq!(lease.begin(Mode::Read), Admission::Ask);
        assert!(
            !lease.grant(Mode::Write, 8),
            "given before the server had it back"
        );
        assert!(lease.left(Some((Mode::Read, 9))));
        assert_eq!(lease.mode(), Mode::Read);
        assert!(!lease.grant(Mode::Write, 8), "read late");
        lease.leave();
        assert!(lease.begin_giving_back(Mode::None, 12));
        lease.finish_giving_back();
        assert!(!lease.left(Some((Mode::Read, 11))), "revoked since");
        assert_eq!(lease.mode(), Mode::None);
    }

    fn shared(write: Range<u64>, seq: u64) -> LeaseState {
        let mut lease = LeaseState::default();
        assert!(lease.grant_range(write, true, seq));
        lease
    }

    fn part(span: Range<u64>, write: bool) -> Wanted {
        Wanted {
            to: Mode::Shared,
            span,
            write,
            contested: false,
        }
    }

    const K: u64 = BLOCK_BYTES;

    #[test]
    fn bytes_are_used_where_ranges_allow_it() {
        let mut lease = shared(0..8 * K, 1);
        assert!(!lease.may_answer() && lease.shares());
        let write = |span| Need::bytes(Mode::Write, span);
        assert_eq!(lease.begin(write(5..6)), Admission::Begun);
        assert_eq!(lease.begin(write(7 * K..9 * K)), Admission::Ask);
        assert_eq!(lease.begin(Mode::Write), Admission::Ask);
        assert_eq!(lease.begin(Mode::Read), Admission::Ask);
        assert_eq!(lease.begin(Mode::Shared), Admission::Begun);
        assert!(lease.grant_range(8 * K..20 * K, false, 2));
        let read = Need::bytes(Mode::Read, 7 * K..9 * K);
        assert_eq!(lease.begin(read), Admission::Begun);
        assert_eq!(lease.begin(write(7 * K..9 * K)), Admission::Ask);
    }

    #[test]
    fn what_may_be_of_before_an_own_change_is_not_answered_but_what_is_owned_is() {
        let mut lease = held(Mode::Read, 4);
        let losses = lease.losses();
        lease.begin_doubt();
        assert!(lease.losses() > losses, "what is cached has gone");
        lease.begin_doubt();
        lease.end_doubt();
        assert!(!lease.may_answer() && !lease.may_keep());
        let losses = lease.losses();
        lease.end_doubt();
        assert!(lease.may_answer() && lease.may_keep());
        assert!(
            lease.losses() > losses,
            "what was asked before may be of before"
        );
        let mut lease = held(Mode::Write, 4);
        let losses = lease.losses();
        lease.begin_doubt();
        assert!(lease.may_answer() && !lease.may_keep());
        lease.end_doubt();
        assert!(lease.may_keep() && lease.losses() == losses);
    }

    #[test]
    fn of_a_whole_lease_the_part_in_use_is_kept() {
        let mut lease = held(Mode::Write, 1);
        assert_eq!(
            lease.begin(Need::bytes(Mode::Write, 4 * K..5 * K)),
            Admission::Begun
        );
        lease.ended(&Need::bytes(Mode::Write, 4 * K..5 * K));
        assert!(lease.begin_giving_back(part(9 * K..10 * K, true), 2));
        // What is kept is used on meanwhile, the rest is not.
        lease.set_phase(Phase::Closing);
        let kept = Need::bytes(Mode::Write, 5 * K..6 * K);
        assert_eq!(lease.begin(kept), Admission::Begun);
        assert!(lease.is_free() && !lease.is_idle());
        let gone = Need::bytes(Mode::Write, 9 * K..9 * K + 1);
        assert_eq!(lease.begin(gone.clone()), Admission::Wait);
        lease.finish_giving_back();
        assert_eq!(lease.mode(), Mode::Shared);
        assert_eq!(lease.ranges().write, set(&[(4 * K, 9 * K)]));
        assert_eq!(lease.begin(gone), Admission::Ask);
        // What is asked back before it has come is kept, too, where it is to be used.
        let mut lease = LeaseState::default();
        lease.will_use(&Need::bytes(Mode::Write, 4 * K..5 * K));
        assert!(lease.begin_giving_back(part(9 * K..10 * K, true), 2));
        assert!(lease.grant(Mode::Write, 1));
        lease.finish_giving_back();
        assert_eq!(lease.ranges().write, set(&[(4 * K, 9 * K)]));
        // What was never used is all given.
        let mut lease = held(Mode::Write, 1);
        assert!(lease.begin_giving_back(part(0..K, true), 2));
        lease.finish_giving_back();
        assert!(!lease.shares() && lease.mode() == Mode::Shared);
    }

    fn set(ranges: &[(u64, u64)]) -> RangeSet<u64> {
        ranges.iter().map(|&(start, end)| start..end).collect()
    }

    #[test]
    fn the_side_that_was_used_last_is_kept() {
        let held = set(&[(0, 100), (200, 300)]);
        let kept = |spans: &[(u64, u64)], wanted| {
            let mut used = Used::default();
            for &(start, end) in spans {
                used.note(&(start..end));
            }
            used.kept(&held, &part(wanted, true))
        };
        assert_eq!(kept(&[(20, 30)], 40..50), set(&[(20, 40), (200, 300)]));
        let both = [(20, 30), (60, 70)];
        assert_eq!(kept(&both, 40..50), set(&[(50, 100), (200, 300)]));
        assert_eq!(kept(&[(60, 70)], 40..50), set(&[(60, 100), (200, 300)]));
        assert_eq!(kept(&[(40, 50)], 40..50), set(&[(200, 300)]));
        assert_eq!(kept(&[], 40..50), set(&[(200, 300)]));
        assert_eq!(kept(&[(0, 5)], 150..160), set(&[(0, 100), (200, 300)]));
        let mut used = Used::default();
        for start in [10, 30, 50, 70, 150, 250] {
            used.note(&(start..start + 10));
        }
        let again = Wanted {
            contested: true,
            ..part(40..55, true)
        };
        let kept = used.kept(&held, &again);
        let own = [(10, 20), (30, 40), (55, 60), (70, 80), (250, 260)];
        assert_eq!(kept, set(&own));
    }

    #[test]
    fn readers_need_not_give_back_what_another_reads() {
        let mut lease = LeaseState::default();
        assert!(lease.grant_range(0..WHOLE.end, false, 1));
        assert!(lease.begin_giving_back(part(0..K, false), 2));
        lease.finish_giving_back();
        assert!(lease.suffices(&Need::bytes(Mode::Read, 0..K)));
        assert!(lease.begin_giving_back(part(0..K, true), 3));
        lease.finish_giving_back();
        assert!(!lease.suffices(&Need::bytes(Mode::Read, 0..K)));
    }

    #[test]
    fn who_reports_keeps_all_but_what_has_not_come() {
        let mut lease = shared(0..K, 4);
        assert!(lease.report(6));
        assert!(!lease.grant_range(K..2 * K, true, 5));
        assert!(lease.shares());
        assert!(!lease.report(5));
        // Nor does it come back when the next is asked.
        assert!(lease.begin_giving_back(part(4 * K..5 * K, true), 8));
        assert!(!lease.grant_range(K..2 * K, false, 5));
        assert!(lease.grant_range(K..2 * K, false, 7));
        lease.finish_giving_back();
        assert!(lease.begin_giving_back(part(4 * K..5 * K, true), 10));
        assert!(!lease.grant_range(2 * K..3 * K, false, 7));
    }

    #[test]
    fn with_a_connection_what_others_may_read_is_lost() {
        let mut lease = shared(0..K, 4);
        lease.grant_range(K..9 * K, false, 5);
        lease.come_back();
        assert!(lease.shares());
        assert!(!lease.suffices(&Need::bytes(Mode::Read, K..2 * K)));
        let mut reader = LeaseState::default();
        reader.grant_range(0..K, false, 5);
        reader.come_back();
        assert_eq!(reader.mode(), Mode::None);
        assert_eq!(*reader.ranges(), Ranges::default());
    }

    #[test]
    fn a_server_that_began_anew_counts_from_nothing() {
        let mut lease = held(Mode::Write, 900);
        assert!(lease.begin_giving_back(Mode::None, 901));
        lease.finish_giving_back();
        lease.lose(Mode::None);
        assert!(lease.grant(Mode::Read, 3));
        assert!(lease.may_keep());
    }
}
