//! What this client may do with one inode: the lease, its order, its giving back.
//!
//! Pure: events in, decisions out; `node.rs` waits and wakes, `revoke.rs` does the giving back
//! (`docs/protocols/leases.md`). Keeps true: a grant older than the newest revocation gives nothing;
//! a lease is given back only when no use of it is in progress and no use was served while the
//! face was told to forget.

/// What a lease lets its holder do; each step includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Nothing.
    #[default]
    None,
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

#[derive(Clone, Copy, Debug)]
struct GivingBack {
    to: Mode,
    seq: u64,
    phase: Phase,
}

/// The lease on one inode.
#[derive(Debug, Default)]
pub struct LeaseState {
    mode: Mode,
    granted: u64,
    revoked: u64,
    giving_back: Option<GivingBack>,
    /// The client gives it back of its own accord: nothing is granted until that is done.
    leaving: bool,
    uses: u32,
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
    /// nobody else is allowed a change before that is over.
    pub fn may_answer(&self) -> bool {
        self.mode >= Mode::Read
    }

    /// The face may keep what it is answered.
    pub fn may_keep(&self) -> bool {
        self.mode >= Mode::Read && self.giving_back.is_none_or(|g| g.to >= Mode::Read)
    }

    /// The WRITE lease is held and not being given back.
    pub fn owns(&self) -> bool {
        self.mode == Mode::Write && self.giving_back.is_none()
    }

    /// See the field.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// No revocation that has been answered came after this grant.
    fn is_in_force(&self, seq: u64) -> bool {
        // A reply may be read after the revocation that followed it on the wire. While that is not
        // answered, the grant still stands, to be given back with it.
        let follows = |g: GivingBack| g.seq > seq && g.seq == self.revoked;
        !self.leaving && (seq > self.revoked || self.giving_back.is_some_and(follows))
    }

    /// What came with a grant that was taken may be kept: it stands. What is held may be less than
    /// it gave, and that is of another time.
    pub fn stands(&self, seq: u64) -> bool {
        self.may_answer() && self.is_in_force(seq)
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
        }
        true
    }

    /// A revocation came. False: it is older than one that is in progress or done.
    pub fn begin_giving_back(&mut self, to: Mode, seq: u64) -> bool {
        if seq < self.revoked {
            return false;
        }
        self.revoked = seq;
        match &mut self.giving_back {
            Some(giving_back) => {
                giving_back.to = giving_back.to.min(to);
                giving_back.seq = seq;
                giving_back.phase = Phase::Forgetting;
                false
            }
            None => {
                self.giving_back = Some(GivingBack {
                    to,
                    seq,
                    phase: Phase::Forgetting,
                });
                true
            }
        }
    }

    /// What the lease becomes when it has been given back; None if it is not being.
    pub fn giving_back_to(&self) -> Option<Mode> {
        self.giving_back.map(|g| g.to)
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
        self.uses == 0
    }

    /// The giving back is over: the lease is what was asked for, unless a newer grant came.
    pub fn finish_giving_back(&mut self) {
        if let Some(giving_back) = self.giving_back.take()
            && self.granted <= giving_back.seq
        {
            if giving_back.to < Mode::Read {
                self.losses += 1;
            }
            self.mode = self.mode.min(giving_back.to);
        }
    }

    /// Everything is lost (session ended, or taken up at a server that began anew): grants and
    /// revocations are counted from nothing.
    pub fn lose(&mut self, to: Mode) {
        if to < Mode::Read && self.mode >= Mode::Read {
            self.losses += 1;
        }
        self.mode = self.mode.min(to);
        self.granted = 0;
        self.revoked = 0;
        self.giving_back = None;
    }

    /// Begins to give the lease back unasked: from now on it is not held.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.losses += 1;
        self.mode = Mode::None;
    }

    /// It is being given back unasked.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// The server has it back, and granted READ with the answer if `granted` says so. Everything
    /// granted before that is void. False if nothing is held now.
    pub fn left(&mut self, granted: Option<u64>) -> bool {
        self.leaving = false;
        match granted {
            Some(seq) => {
                self.revoked = self.revoked.max(seq.saturating_sub(1));
                self.grant(Mode::Read, seq)
            }
            None => false,
        }
    }

    /// An operation that needs `mode` wants to begin.
    pub fn begin(&mut self, mode: Mode) -> Admission {
        match self.giving_back {
            None if self.mode >= mode => {}
            None => return Admission::Ask,
            Some(giving_back) => {
                if self.mode < mode {
                    return Admission::Wait;
                }
                // What the lease keeps is not touched by its giving back.
                if giving_back.to < mode {
                    if giving_back.phase == Phase::Closing {
                        return Admission::Wait;
                    }
                    self.served += 1;
                }
            }
        }
        self.uses += 1;
        Admission::Begun
    }

    /// A use that was begun is over. True if it was the last one.
    pub fn ended(&mut self) -> bool {
        debug_assert!(self.uses > 0, "a use ended twice");
        self.uses = self.uses.saturating_sub(1);
        self.uses == 0
    }
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
        assert!(lease.ended());
        assert_eq!(lease.begin(Mode::Read), Admission::Wait);
        lease.finish_giving_back();
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
        assert!(lease.left(Some(9)));
        assert_eq!(lease.mode(), Mode::Read);
        assert!(!lease.grant(Mode::Write, 8), "read late");
        lease.leave();
        assert!(lease.begin_giving_back(Mode::None, 12));
        lease.finish_giving_back();
        assert!(!lease.left(Some(11)), "revoked since");
        assert_eq!(lease.mode(), Mode::None);
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
