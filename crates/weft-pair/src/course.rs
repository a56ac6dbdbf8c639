//! The duplication protocols as data, and the course of one write at the member that leads it.
//!
//! CEFT section 4 names four protocols by who sends the second copy and by how many copies there
//! are before the writer goes on; the hybrid chooses between two of them when a file is opened.
//! [`Rule`] says this for all; [`Course`] follows one write from the start of its copies to its
//! answer. weft-data does what it says.

use crate::state::{Mode, PairState};
use weft_types::{Epoch, Member};
use weft_wire::proto::Protocol;

/// Who sends the second copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duplicates {
    /// The member that leads the stripe.
    Leader,
    /// The client, to both members.
    Client,
}

/// What a protocol promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Who sends the second copy while both members serve.
    pub duplicates: Duplicates,
    /// Copies there are before the writer goes on. With one, the sender of the other owes it.
    pub copies_before_answer: u8,
}

impl Rule {
    /// The rule of a protocol. None for no protocol and for the hybrid, which is settled as one of
    /// the others before anything is written.
    pub fn of(protocol: Protocol) -> Option<Rule> {
        let rule = |duplicates, copies_before_answer| Rule {
            duplicates,
            copies_before_answer,
        };
        match protocol {
            Protocol::ServerAsync => Some(rule(Duplicates::Leader, 1)),
            Protocol::ServerSync => Some(rule(Duplicates::Leader, 2)),
            Protocol::ClientAsync => Some(rule(Duplicates::Client, 1)),
            Protocol::ClientSync => Some(rule(Duplicates::Client, 2)),
            Protocol::Unspecified | Protocol::Hybrid => None,
        }
    }

    /// Does a member that takes a client's write under `mode` send it on to its twin? Outside of
    /// BOTH the client talks to one member only, whatever the protocol.
    pub fn forwards(self, mode: Mode) -> bool {
        match mode {
            Mode::Both => self.duplicates == Duplicates::Leader,
            Mode::Recovering(_) => true,
            Mode::Only(_) | Mode::Down(_) => false,
        }
    }
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Copied {
    /// The member has it.
    Done,
    /// The member answered that its disk refused (an errno).
    Errno(i32),
    /// Its disk fails (an errno). The member leaves the pair if the other one can go on without it: that
    /// decides. A twin of which this is true answers when it knows the new state: as [`Copied::Unknown`].
    Fails(i32),
    /// Whether the member has it is not known: the link broke, or it knows another epoch.
    Unknown,
}

/// What is to be answered to the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// It is done: on both members, or on the only one that serves.
    Done {
        /// On both.
        both: bool,
    },
    /// An error of a disk. One member may have the bytes and the other not.
    Errno {
        /// What the application sees.
        errno: i32,
        /// The copies have to be made equal to this member's: it is the one that failed, so that
        /// the other needs no new space for it. None: there is no other copy that counts.
        equal_to: Option<Member>,
    },
    /// Another epoch is in force and this member is not the only one: ask again.
    Stale {
        /// The epoch in force.
        current: Epoch,
    },
}

/// One write at the member that leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Course {
    me: Member,
    epoch: Epoch,
    /// None: in progress.
    own: Option<Copied>,
    /// None: in progress. `Done` from the start if nothing is forwarded.
    twin: Option<Copied>,
    forwarded: bool,
    /// The rule lets this member owe the twin's copy.
    owes: bool,
}

impl Course {
    /// A write begins at member `me` under `state`.
    pub fn new(me: Member, state: &PairState, rule: Rule) -> Course {
        let forwarded = rule.forwards(state.mode);
        Course {
            me,
            epoch: state.epoch,
            own: None,
            twin: (!forwarded).then_some(Copied::Done),
            forwarded,
            // To a twin that is being filled nothing is owed: once it is full, it may have to serve alone.
            owes: rule.copies_before_answer == 1 && forwarded && state.mode == Mode::Both,
        }
    }

    /// It has to be sent on to the twin.
    pub fn forwards(&self) -> bool {
        self.forwarded
    }

    /// This member's own copy has ended. Never [`Copied::Unknown`].
    pub fn own_ended(&mut self, copied: Copied) {
        debug_assert_ne!(copied, Copied::Unknown, "a member knows its own copy");
        self.own = Some(copied);
    }

    /// The twin's copy has ended.
    pub fn twin_ended(&mut self, copied: Copied) {
        self.twin = Some(copied);
    }

    /// A copy failed in a way that only a new state of the pair can decide: the metadata
    /// service has to be told that the twin is lost.
    pub fn is_held(&self) -> bool {
        match (self.own, self.twin) {
            (Some(Copied::Fails(_)), Some(_)) => true,
            (own, twin) => own.is_some() && twin == Some(Copied::Unknown),
        }
    }

    /// The writer may go on, though the write has not ended: this member's copy is done, and under
    /// the protocol the other one may be owed.
    pub fn may_owe(&self) -> bool {
        self.owes && self.own == Some(Copied::Done)
    }

    /// How the write ended, once it has, under the state in force now: the answer to the writer
    /// that waits for it. None: wait for a copy to end, or (when held) for another state.
    /// `twin_counts`: what the twin refuses fails the write ([`crate::MemberSide::twin_counts`]).
    pub fn answer(&self, now: &PairState, twin_counts: bool) -> Option<Answer> {
        let (own, twin) = (self.own?, self.twin?);
        let is_alone = now.mode.sole() == Some(self.me);
        match (own, twin) {
            (Copied::Fails(_), _) if now.epoch == self.epoch && !is_alone => None,
            (Copied::Fails(errno), _) => Some(match is_alone {
                true => Answer::Errno {
                    errno,
                    equal_to: None,
                },
                false => Answer::Stale { current: now.epoch },
            }),
            (Copied::Done, Copied::Done) => Some(Answer::Done {
                both: self.forwarded,
            }),
            (Copied::Done, Copied::Errno(_)) if !twin_counts => Some(Answer::Done { both: false }),
            (Copied::Done, Copied::Errno(errno)) => Some(Answer::Errno {
                errno,
                equal_to: Some(self.me.twin()),
            }),
            (Copied::Errno(errno), Copied::Done | Copied::Errno(_)) => Some(Answer::Errno {
                errno,
                equal_to: self.forwarded.then_some(self.me),
            }),
            (_, Copied::Unknown | Copied::Fails(_)) if now.epoch == self.epoch => None,
            (own, Copied::Unknown | Copied::Fails(_)) => Some(match (own, is_alone) {
                (Copied::Done, true) => Answer::Done { both: false },
                (Copied::Errno(errno), true) => Answer::Errno {
                    errno,
                    equal_to: None,
                },
                _ => Answer::Stale { current: now.epoch },
            }),
            (Copied::Unknown, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::PairId;

    const ME: Member = Member::Zero;

    fn state(epoch: u64, mode: Mode) -> PairState {
        PairState {
            epoch: Epoch(epoch),
            mode,
            ..PairState::new(PairId(0))
        }
    }

    fn course(protocol: Protocol, mode: Mode) -> Course {
        Course::new(ME, &state(3, mode), Rule::of(protocol).unwrap())
    }

    #[test]
    fn who_forwards_depends_on_protocol_and_mode() {
        use Protocol::{ClientSync, ServerSync};
        for (protocol, mode, forwards) in [
            (ServerSync, Mode::Both, true),
            (ServerSync, Mode::Recovering(ME), true),
            (ServerSync, Mode::Only(ME), false),
            (ClientSync, Mode::Both, false),
            (ClientSync, Mode::Recovering(ME), true),
            (ClientSync, Mode::Only(ME), false),
        ] {
            assert_eq!(course(protocol, mode).forwards(), forwards);
        }
        assert_eq!(Rule::of(Protocol::Hybrid), None);
    }

    #[test]
    fn a_synchronous_write_is_answered_when_both_have_it() {
        let both = state(3, Mode::Both);
        let mut write = course(Protocol::ServerSync, Mode::Both);
        assert_eq!(write.answer(&both, true), None);
        write.own_ended(Copied::Done);
        assert_eq!(write.answer(&both, true), None);
        write.twin_ended(Copied::Done);
        assert_eq!(write.answer(&both, true), Some(Answer::Done { both: true }));
    }

    #[test]
    fn a_write_whose_second_copy_is_unknown_waits_for_another_state() {
        let mut write = course(Protocol::ServerSync, Mode::Both);
        write.own_ended(Copied::Done);
        write.twin_ended(Copied::Unknown);
        assert!(write.is_held());
        assert_eq!(write.answer(&state(3, Mode::Both), true), None);
        let stale = Some(Answer::Stale { current: Epoch(4) });
        let alone = Some(Answer::Done { both: false });
        for (mode, answer) in [
            (Mode::Only(ME), alone),
            (Mode::Recovering(ME), alone),
            (Mode::Only(ME.twin()), stale),
            (Mode::Recovering(ME.twin()), stale),
            (Mode::Down(ME.twin()), stale),
            (Mode::Both, stale),
        ] {
            assert_eq!(write.answer(&state(4, mode), true), answer, "{mode}");
        }
    }

    #[test]
    fn errors_of_disks_reach_the_writer() {
        let both = state(3, Mode::Both);
        let mut write = course(Protocol::ServerSync, Mode::Both);
        write.own_ended(Copied::Done);
        write.twin_ended(Copied::Errno(28));
        let errno = |equal_to| {
            Some(Answer::Errno {
                errno: 28,
                equal_to,
            })
        };
        assert_eq!(write.answer(&both, true), errno(Some(ME.twin())));
        let mut write = course(Protocol::ServerSync, Mode::Both);
        write.own_ended(Copied::Errno(28));
        assert_eq!(write.answer(&both, true), None);
        write.twin_ended(Copied::Done);
        assert_eq!(write.answer(&both, true), errno(Some(ME)));
        let mut write = course(Protocol::ServerSync, Mode::Only(ME));
        write.own_ended(Copied::Errno(28));
        assert_eq!(write.answer(&state(3, Mode::Only(ME)), false), errno(None));
        // A member that is being filled may run full without harm to the writer.
        let mut write = course(Protocol::ServerSync, Mode::Recovering(ME));
        write.own_ended(Copied::Done);
        write.twin_ended(Copied::Errno(28));
        let state = state(3, Mode::Recovering(ME));
        assert_eq!(
            write.answer(&state, false),
            Some(Answer::Done { both: false })
        );
    }

    #[test]
    fn what_a_failing_disk_did_not_take_waits_for_the_state_that_leaves_it_behind() {
        let (both, twin) = (state(3, Mode::Both), state(4, Mode::Only(ME.twin())));
        for copied in [Copied::Done, Copied::Errno(28), Copied::Unknown] {
            let mut write = course(Protocol::ServerSync, Mode::Both);
            write.own_ended(Copied::Fails(5));
            assert_eq!(write.answer(&both, true), None, "the twin is at it");
            write.twin_ended(copied);
            assert!(write.is_held());
            assert_eq!(write.answer(&both, true), None);
            let stale = Some(Answer::Stale { current: Epoch(4) });
            assert_eq!(write.answer(&twin, true), stale);
            // Nobody else goes on with it.
            let errno = Some(Answer::Errno {
                errno: 5,
                equal_to: None,
            });
            assert_eq!(write.answer(&state(4, Mode::Only(ME)), true), errno);
        }
        let mut write = course(Protocol::ServerSync, Mode::Only(ME));
        write.own_ended(Copied::Fails(5));
        assert!(matches!(
            write.answer(&state(3, Mode::Only(ME)), true),
            Some(Answer::Errno { errno: 5, .. })
        ));
    }

    #[test]
    fn the_leader_of_an_asynchronous_write_may_owe_the_second_copy() {
        let both = state(3, Mode::Both);
        let mut write = course(Protocol::ServerAsync, Mode::Both);
        assert!(!write.may_owe());
        write.own_ended(Copied::Done);
        assert!(write.may_owe());
        assert_eq!(write.answer(&both, true), None, "it has not ended");
        write.twin_ended(Copied::Done);
        assert_eq!(write.answer(&both, true), Some(Answer::Done { both: true }));
        // What its own disk refuses is not owed.
        let mut write = course(Protocol::ServerAsync, Mode::Both);
        write.own_ended(Copied::Errno(28));
        assert!(!write.may_owe());
        // A client that sends both copies owes the second one itself.
        for (protocol, mode) in [
            (Protocol::ClientAsync, Mode::Both),
            (Protocol::ServerAsync, Mode::Only(ME)),
            (Protocol::ServerAsync, Mode::Recovering(ME)),
            (Protocol::ClientAsync, Mode::Recovering(ME)),
            (Protocol::ServerSync, Mode::Both),
        ] {
            let mut write = course(protocol, mode);
            write.own_ended(Copied::Done);
            assert!(!write.may_owe(), "{protocol:?} {mode}");
        }
    }
}
