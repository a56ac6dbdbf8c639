//! A data server's side of a pair: what it may do now. Pure; docs/protocols/pairs.md is its
//! specification. Called by weft-data, one [`MemberSide`] for each server.
//!
//! What it keeps true: no read is served, no write is led under another epoch than the one in
//! force; in BOTH not without a right that a beat gave; and what is held because its second copy
//! failed is answered only under a state that makes this member the only server.

use crate::Now;
use crate::state::{Mode, PairState, StoreKey};
use std::time::Duration;
use thiserror::Error;
use weft_types::{Epoch, Member, PairId};
use weft_wire::Failed;

/// Why a request is not served.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// It names an older epoch than the one in force here.
    #[error("epoch {current} is in force")]
    Stale {
        /// The epoch in force.
        current: Epoch,
    },
    /// It names an epoch that this member has not been told yet. Worth waiting a moment for.
    #[error("epoch {named} is not known here yet")]
    Ahead {
        /// The epoch named.
        named: Epoch,
    },
    /// This member does not serve now.
    #[error("{0}")]
    Unavailable(&'static str),
    /// The request is for another pair or of the wrong kind.
    #[error("{0}")]
    Refused(&'static str),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        match refusal {
            Refusal::Stale { current } => Failed::Stale(current.0),
            Refusal::Refused(why) => Failed::Refused(why.into()),
            other => Failed::Unavailable(other.to_string()),
        }
    }
}

/// What one member knows of its pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberSide {
    pair: PairId,
    me: Member,
    /// What this member keeps its objects in; it serves only as the store that the pair knows.
    store: StoreKey,
    lease: Duration,
    /// None before the metadata service has been heard.
    state: Option<PairState>,
    /// A beat's answer gave the right to serve until then. Zero while there is no connection.
    right_until: Now,
    /// `Recovered` was sent under this epoch: the unlimited right has been given up.
    gave_up: Option<Epoch>,
}

impl MemberSide {
    /// A member that has heard nothing yet.
    pub fn new(pair: PairId, me: Member, store: StoreKey) -> MemberSide {
        MemberSide {
            pair,
            me,
            store,
            lease: Duration::ZERO,
            state: None,
            right_until: Now::ZERO,
            gave_up: None,
        }
    }

    /// Which member this is.
    pub fn me(&self) -> Member {
        self.me
    }

    /// The state in force here.
    pub fn state(&self) -> Option<PairState> {
        self.state
    }

    /// The epoch in force here; 0 before any.
    pub fn epoch(&self) -> Epoch {
        self.state.map_or(Epoch(0), |state| state.epoch)
    }

    /// The mode in force here.
    pub fn mode(&self) -> Option<Mode> {
        self.state.map(|state| state.mode)
    }

    /// The mode in force here, of a state that speaks of this member's store.
    pub fn mode_of_own(&self) -> Option<Mode> {
        self.state
            .filter(|state| self.is_known(state))
            .map(|state| state.mode)
    }

    /// How long an answered beat gives the right to serve; told by the answer to the registration.
    pub fn set_lease(&mut self, lease: Duration) {
        self.lease = lease;
    }

    /// The metadata service says that this is the state. True if it is news; an older one is not.
    pub fn told(&mut self, state: PairState) -> bool {
        if state.pair != self.pair || state.epoch <= self.epoch() {
            return false;
        }
        self.state = Some(state);
        if !state.mode.serves(self.me) {
            self.right_until = Now::ZERO;
        }
        true
    }

    /// A beat that was sent at `sent` has been answered with `state`. True if the state is news.
    pub fn beat_answered(&mut self, sent: Now, state: PairState) -> bool {
        let news = self.told(state);
        // An answer that was overtaken by a newer state gives nothing.
        if state.epoch == self.epoch() && state.mode.serves(self.me) {
            self.right_until = self.right_until.max(sent + self.lease);
        }
        news
    }

    /// To be called before the connection to the metadata service is given up, or as soon as it is
    /// seen to be gone: its end is taken as proof that nothing is served under a right.
    pub fn disconnected(&mut self) {
        self.right_until = Now::ZERO;
    }

    /// To be called before `Recovered` is sent for the epoch in force: from now on everything needs
    /// a right, until another epoch is told.
    pub fn give_up_sole_right(&mut self) {
        self.gave_up = Some(self.epoch());
    }

    /// It serves, if at all, without a right of limited time: then its twin may not.
    pub fn is_sole(&self) -> bool {
        let sole = self.mode().and_then(Mode::sole);
        sole == Some(self.me) && self.gave_up != Some(self.epoch())
    }

    /// The twin is to have every write: what its disk refuses fails the write. Not while it is being
    /// filled, until this member has said that both copies are equal.
    pub fn twin_counts(&self) -> bool {
        self.mode() == Some(Mode::Both) || self.gave_up == Some(self.epoch())
    }

    /// May this member serve clients at `now`?
    pub fn serves(&self, now: Now) -> Result<PairState, Refusal> {
        let Some(state) = self.state else {
            return Err(Refusal::Unavailable("the pair's state is not known here"));
        };
        match state.mode {
            _ if !self.is_known(&state) => Err(Refusal::Unavailable(
                "the pair knows another store for this member",
            )),
            Mode::Down(_) => Err(Refusal::Unavailable("the pair is down")),
            mode if !mode.serves(self.me) => {
                Err(Refusal::Unavailable("the other member serves alone"))
            }
            mode if (mode == Mode::Both || self.gave_up == Some(state.epoch))
                && now >= self.right_until =>
            {
                Err(Refusal::Unavailable(
                    "no right to serve: the metadata service is silent",
                ))
            }
            _ => Ok(state),
        }
    }

    /// May a client's request under `epoch` be served: a read answered, a write led?
    pub fn admits(&self, pair: PairId, epoch: Epoch, now: Now) -> Result<PairState, Refusal> {
        self.check_epoch(pair, epoch)?;
        self.serves(now)
    }

    /// May a request of the twin under `epoch` be taken? A copy needs no right: afterwards both
    /// have it, whichever is made the only server.
    pub fn follows(&self, epoch: Epoch) -> Result<PairState, Refusal> {
        self.check_epoch(self.pair, epoch)?;
        match self.state {
            Some(state)
                if self.is_known(&state)
                    && (state.mode == Mode::Both
                        || state.mode == Mode::Recovering(self.me.twin())) =>
            {
                Ok(state)
            }
            _ => Err(Refusal::Unavailable("this member takes no copies now")),
        }
    }

    /// The state speaks of this member's store. A new one learns of the state before the metadata
    /// service has decided to fill it.
    fn is_known(&self, state: &PairState) -> bool {
        state.stores[self.me.index()] == Some(self.store)
    }

    fn check_epoch(&self, pair: PairId, epoch: Epoch) -> Result<(), Refusal> {
        if pair != self.pair {
            return Err(Refusal::Refused("this server belongs to another pair"));
        }
        let current = self.epoch();
        match epoch.cmp(&current) {
            std::cmp::Ordering::Less => Err(Refusal::Stale { current }),
            std::cmp::Ordering::Greater => Err(Refusal::Ahead { named: epoch }),
            std::cmp::Ordering::Equal => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Member = Member::One;

    fn ms(ms: u64) -> Now {
        Duration::from_millis(ms)
    }

    fn state(epoch: u64, mode: Mode) -> PairState {
        PairState {
            epoch: Epoch(epoch),
            mode,
            stores: [None, Some(StoreKey::of("mine"))],
            ..PairState::new(PairId(0))
        }
    }

    fn member(epoch: u64, mode: Mode) -> MemberSide {
        let mut member = MemberSide::new(PairId(0), ME, StoreKey::of("mine"));
        member.set_lease(ms(300));
        assert!(member.told(state(epoch, mode)));
        member
    }

    fn admits(member: &MemberSide, epoch: u64, now: u64) -> Result<PairState, Refusal> {
        member.admits(PairId(0), Epoch(epoch), ms(now))
    }

    #[test]
    fn in_both_a_right_is_needed_and_counts_from_when_the_beat_was_sent() {
        let mut member = member(3, Mode::Both);
        assert!(matches!(
            admits(&member, 3, 0),
            Err(Refusal::Unavailable(_))
        ));
        member.beat_answered(ms(100), state(3, Mode::Both));
        assert!(admits(&member, 3, 399).is_ok());
        assert!(admits(&member, 3, 400).is_err());
        // A late answer to an earlier beat does not shorten it.
        member.beat_answered(ms(50), state(3, Mode::Both));
        assert!(admits(&member, 3, 399).is_ok());
        member.disconnected();
        assert!(admits(&member, 3, 150).is_err());
    }

    #[test]
    fn other_epochs_are_told_apart() {
        let mut member = member(3, Mode::Both);
        member.beat_answered(ms(0), state(3, Mode::Both));
        assert_eq!(
            admits(&member, 2, 1),
            Err(Refusal::Stale { current: Epoch(3) })
        );
        assert_eq!(
            admits(&member, 4, 1),
            Err(Refusal::Ahead { named: Epoch(4) })
        );
        assert!(matches!(
            member.admits(PairId(1), Epoch(3), ms(1)),
            Err(Refusal::Refused(_))
        ));
    }

    #[test]
    fn the_only_server_needs_no_right_until_it_gives_it_up() {
        for mode in [Mode::Only(ME), Mode::Recovering(ME)] {
            let mut member = member(3, mode);
            assert!(admits(&member, 3, 1_000_000).is_ok());
            member.disconnected();
            assert!(admits(&member, 3, 1_000_000).is_ok());
            assert!(member.is_sole());
            member.give_up_sole_right();
            assert!(!member.is_sole());
            assert!(admits(&member, 3, 1_000_000).is_err());
            member.beat_answered(ms(2_000_000), state(3, mode));
            assert!(admits(&member, 3, 2_000_100).is_ok());
            // Made the only one again, it is so without a right.
            member.told(state(4, Mode::Only(ME)));
            assert!(admits(&member, 4, 9_000_000).is_ok());
        }
    }

    #[test]
    fn a_member_that_does_not_serve_takes_copies_only_while_it_is_filled() {
        let twin = ME.twin();
        for (mode, copies) in [
            (Mode::Both, true),
            (Mode::Only(ME), false),
            (Mode::Only(twin), false),
            (Mode::Recovering(ME), false),
            (Mode::Recovering(twin), true),
            (Mode::Down(ME), false),
            (Mode::Down(twin), false),
        ] {
            let member = member(3, mode);
            assert_eq!(member.follows(Epoch(3)).is_ok(), copies, "{mode}");
            assert!(member.follows(Epoch(2)).is_err());
        }
    }

    #[test]
    fn a_store_that_the_pair_does_not_know_neither_serves_nor_copies() {
        for mode in [Mode::Both, Mode::Only(ME), Mode::Recovering(ME.twin())] {
            let mut other = MemberSide::new(PairId(0), ME, StoreKey::of("new"));
            other.set_lease(ms(300));
            other.beat_answered(ms(0), state(3, mode));
            assert!(matches!(admits(&other, 3, 1), Err(Refusal::Unavailable(_))));
            assert!(other.follows(Epoch(3)).is_err());
        }
    }

    #[test]
    fn an_older_state_is_no_news_and_a_right_ends_with_the_state() {
        let mut member = member(3, Mode::Both);
        member.beat_answered(ms(0), state(3, Mode::Both));
        assert!(!member.told(state(2, Mode::Only(ME))));
        assert!(member.told(state(4, Mode::Only(ME.twin()))));
        assert!(member.told(state(5, Mode::Both)));
        assert!(admits(&member, 5, 10).is_err());
        // Answered before the new state was told: too old to give a right.
        member.beat_answered(ms(5), state(3, Mode::Both));
        assert!(admits(&member, 5, 10).is_err());
    }
}
