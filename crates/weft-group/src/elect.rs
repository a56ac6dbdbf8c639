//! From claiming the next epoch to having the greatest journal.

use crate::engine::{Engine, Message, Output, Part};
use crate::lead::{Beats, Reign};
use crate::{MemberId, Now, Shape};
use std::collections::BTreeMap;
use weft_types::Sn;

/// What another member has said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collected {
    pub(crate) shape: Shape,
    pub(crate) durable: Sn,
    /// Until when it may follow nobody but others, by this member's clock.
    pub(crate) promised_until: Now,
    pub(crate) is_intact: bool,
}

/// One that has the epoch and looks for the greatest journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub(crate) collected: BTreeMap<MemberId, Collected>,
    /// Whose journal is being fetched: from after which batch, up to which.
    fetching: Option<(MemberId, Sn, Sn)>,
    pub(crate) beats: Beats,
}

impl Candidate {
    pub(crate) fn lost(&mut self, member: MemberId) {
        self.collected.remove(&member);
        self.fetching = self.fetching.filter(|(from, _, _)| *from != member);
    }
}

impl Engine {
    /// Asks for the next epoch.
    pub(crate) fn claim(&mut self) {
        let to = self.record.claimed_by(self.me);
        self.part = Part::Claiming;
        self.ask(to);
    }

    /// Asks for the next epoch, and to be the only one that counts.
    pub(crate) fn force(&mut self) {
        // A candidate that waits for an election quorum may wait for ever.
        let leads = match self.part {
            Part::Active(_) => true,
            Part::Candidate(_) => self.record.voters.iter().eq([&self.me]),
            _ => false,
        };
        if leads || self.asked.is_some() {
            return;
        }
        let mut to = self.record.claimed_by(self.me);
        to.juniors.append(&mut to.voters);
        to.juniors.remove(&self.me);
        to.voters.insert(self.me);
        self.is_intact = true;
        self.part = Part::Claiming;
        self.ask(to);
    }

    /// It has the epoch that it asked for, as the record says.
    pub(crate) fn elected(&mut self, now: Now) {
        self.floor = self.record.epoch;
        self.give_up();
        self.told = Sn(0);
        self.wants_image = None;
        self.has_lost = false;
        self.part = Part::Candidate(Candidate {
            collected: BTreeMap::new(),
            fetching: None,
            beats: Beats::begin(now),
        });
        let epoch = self.floor;
        self.send_all(&Message::Collect { epoch });
    }

    pub(crate) fn on_collected(&mut self, now: Now, from: MemberId, collected: Collected) {
        match &mut self.part {
            Part::Candidate(candidate) => {
                candidate.collected.insert(from, collected);
            }
            Part::Active(reign) => {
                reign.promises(from, collected.promised_until);
                self.meet(now, from, &collected);
            }
            _ => {}
        }
    }

    /// Looks whether enough has been collected.
    pub(crate) fn pursue(&mut self, now: Now) {
        self.beat(now);
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        let me = self.me;
        let others = &candidate.collected;
        let is_intact = |member| {
            others
                .get(&member)
                .is_some_and(|it: &Collected| it.is_intact)
        };
        let has_said = |member| member == me || is_intact(member);
        if candidate.fetching.is_some()
            || self.record.count(has_said) < self.record.election_quorum()
        {
            return;
        }
        let others = candidate.collected.iter();
        let greatest = others.max_by_key(|(_, collected)| collected.shape.rank());
        let (from, collected) = match greatest {
            Some((from, collected)) if collected.shape.rank() > self.shape.rank() => {
                (*from, collected)
            }
            _ => return self.lead(now),
        };
        let common = self.shape.common(&collected.shape);
        match common.filter(|common| *common >= self.committed) {
            Some(after) => {
                let last = collected.shape.last().min(Sn(after.0 + self.terms.window));
                candidate.fetching = Some((from, after, last));
                let epoch = self.floor;
                self.send(from, Message::Fetch { epoch, after, last });
            }
            None => {
                // What it lacks is in no journal any more, but in an image: another is to lead.
                if common.is_none() {
                    let base = collected.shape.base();
                    self.wants_image = Some(base);
                    self.out(Output::Restore(base));
                }
                self.part = Part::Follower;
                self.heard = now;
            }
        }
    }

    pub(crate) fn on_fetched(&mut self, from: MemberId, batches: Option<Shape>) {
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        let asked = candidate.fetching.take_if(|(of, _, _)| *of == from);
        let Some((_, after, last)) = asked else {
            return;
        };
        match batches {
            // Some of them, as many as went into a message: the rest is asked for next.
            Some(batches)
                if batches.base() == after && batches.last() > after && batches.last() <= last =>
            {
                self.take(batches)
            }
            _ => {
                // It has removed them meanwhile: it says anew what it has.
                candidate.collected.remove(&from);
                let epoch = self.floor;
                self.send(from, Message::Collect { epoch });
            }
        }
    }

    /// It has the greatest journal: the reign begins.
    fn lead(&mut self, now: Now) {
        let Part::Candidate(candidate) = std::mem::replace(&mut self.part, Part::Follower) else {
            return;
        };
        // Of those that may vote, and others: more is waited for than need be, but seldom.
        let collected = candidate.collected.iter();
        let promises = collected
            .map(|(member, collected)| (*member, collected.promised_until))
            .collect();
        self.part = Part::Active(Reign::begin(
            now,
            promises,
            self.shape.last(),
            candidate.beats,
        ));
        self.out(Output::Lead(self.floor, self.shape.last()));
        for (member, collected) in candidate.collected {
            self.meet(now, member, &collected);
        }
    }
}
