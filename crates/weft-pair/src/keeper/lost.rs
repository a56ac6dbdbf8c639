//! Where the journal may have lost the last states of a pair: its members say what they were told (`docs/protocols/founding.md`,
//! "Going back in time").

use super::{Action, Keeper, MEMBERS, Registration};
use crate::Now;
use crate::state::{Mode, PairState, StoreKey};
use weft_types::{Epoch, Member};

/// What a member knows of the pair's last state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word {
    /// Of the last state that it was told; 0: none.
    pub epoch: Epoch,
    /// Of that state, if it knew the member's store.
    pub mode: Option<Mode>,
}

impl Word {
    /// Of a member that has been told nothing.
    pub const NOTHING: Word = Word {
        epoch: Epoch(0),
        mode: None,
    };

    /// Who says this of itself knows of all states that came into force since, if any: only what it hears makes another one
    /// a server.
    pub(super) fn is_of_the_last(&self, member: Member) -> bool {
        self.mode == Some(Mode::Only(member)) || self.mode == Some(Mode::Down(member))
    }

    /// It speaks of a state that a journal which ends with `state` does not know.
    pub(super) fn contradicts(&self, state: &PairState) -> bool {
        let differs = || self.mode.is_some_and(|mode| mode != state.mode);
        self.epoch > state.epoch || self.epoch == state.epoch && differs()
    }
}

/// More states than a pair can have had in what is lost, where not all can be asked: ten a second for a day.
pub(super) const LOST_STATES: u64 = 1 << 20;
/// No member knows of so many more states than the journal: what it says is nonsense.
const AHEAD_MAX: u64 = 1 << 40;

impl Keeper {
    /// What the members know of states that are lost comes first. They are welcomed meanwhile, and told nothing.
    pub(super) fn settle_uncertain(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.journaling.is_none()
            && let Some((state, why)) = self.as_they_say()
        {
            self.journaling = Some(state);
            actions.push(Action::Journal { state, why });
        }
        if self.journaling.is_none() {
            for member in MEMBERS {
                self.welcome(member, now, actions);
            }
        }
    }

    /// What a member said when it registered. A store that is given up says nothing.
    fn word(&self, member: Member) -> Option<(Word, StoreKey)> {
        let info = &self.members[member.index()];
        let known = self.state.stores[member.index()];
        info.word
            .filter(|(_, store)| !info.is_given_up || known != Some(*store))
    }

    /// It was the last that served when it was told something for the last time.
    fn served_to_the_last(&self, member: Member) -> bool {
        self.word(member)
            .is_some_and(|(word, _)| word.is_of_the_last(member))
    }

    /// The last state that came into force, by what the members know of it: they serve from there on, under an epoch above all
    /// that may have been told. None: somebody has not been asked who may know more, or each says that it was the last one.
    fn as_they_say(&self) -> Option<(PairState, &'static str)> {
        let last = MEMBERS.map(|m| self.served_to_the_last(m));
        if last == [true, true]
            || last == [false, false] && MEMBERS.into_iter().any(|m| self.awaits(m))
        {
            return None;
        }
        let words = MEMBERS.map(|m| self.word(m));
        let heard = words.iter().flatten().map(|(word, _)| *word);
        let above = heard.clone().map(|word| word.epoch).max();
        let above = above.unwrap_or_default().max(self.state.epoch);
        let steps = match words {
            [Some(_), Some(_)] => 1,
            _ => LOST_STATES,
        };
        let mut next = self.state;
        next.uncertain = false;
        next.epoch = Epoch(above.0.saturating_add(steps));
        let lost = heard.filter(|word| word.contradicts(&self.state));
        let lost = lost.filter_map(|word| Some((word.epoch, word.mode?)));
        let Some((_, mode)) = lost.max() else {
            return Some((next, "the members know of no later state"));
        };
        // Of a member that had no part in it the store is not the one that did.
        let take_store = |stores: &mut [Option<StoreKey>; 2], m: Member| {
            if let Some((word, store)) = words[m.index()]
                && word.mode.is_some()
            {
                stores[m.index()] = Some(store);
            }
        };
        // Of which store the lists of the only one spoke is lost.
        next.fill_all = mode != Mode::Both;
        next.mode = mode.names().map_or(Mode::Both, Mode::Down);
        for member in MEMBERS {
            if mode.names().is_none_or(|sole| sole == member) {
                take_store(&mut next.stores, member);
            }
        }
        Some((next, "the members know of a later state than the journal"))
    }

    /// Why a member cannot have been told what it says, if the pair has come to be what it is: one of the two was put back.
    pub(super) fn is_of_another_course(
        &self,
        member: Member,
        registration: &Registration,
    ) -> Option<&'static str> {
        let word = registration.last;
        if word.epoch.0.saturating_sub(self.state.epoch.0) > AHEAD_MAX {
            return Some("it names an epoch that no pair can have come to");
        }
        let known = self.state.stores[member.index()];
        if self.state.uncertain || known != Some(registration.store) {
            return None;
        }
        // What a store has written down lags behind by a moment, and for as long as its disk is full: by itself that it is
        // old says nothing.
        let passed_over = self.may_have_lost
            && word.is_of_the_last(member)
            && self.state.mode.names() != Some(member)
            && word.epoch <= self.state.epoch;
        // (It may know better than the journal that the other one did: an operator can have forced twice.)
        let knows_of_twin = word.mode.and_then(Mode::names) == Some(member.twin());
        let both_did = word.contradicts(&self.state)
            && !knows_of_twin
            && self.served_to_the_last(member.twin());
        (passed_over || both_did).then_some(
            "it served alone by a state that the metadata service has lost, and the other member has served since: each has what \
             the other one lacks. Give up one of the two stores (`weft pair replace`); keep its directory",
        )
    }

    /// An operator may say that the member's store is lost while it is not certain who served last: the other one is here, had
    /// a part in the pair, and knows nothing of it that says that this one served alone.
    pub fn may_be_given_up(&self, member: Member, now: Now) -> bool {
        let twin = self.word(member.twin()).and_then(|(word, _)| word.mode);
        self.is_present(member.twin(), now) && twin.is_some_and(|mode| mode.names() != Some(member))
    }
}
