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

/// A part of a journal that is being fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fetching {
    from: MemberId,
    /// What is asked for follows this batch.
    after: Sn,
    /// The last one.
    last: Sn,
    since: Now,
}

/// One that has the epoch and looks for the greatest journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub(crate) collected: BTreeMap<MemberId, Collected>,
    fetching: Option<Fetching>,
    pub(crate) beats: Beats,
}

impl Candidate {
    pub(crate) fn lost(&mut self, member: MemberId) {
        self.collected.remove(&member);
        self.fetching.take_if(|fetching| fetching.from == member);
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
        self.give_up();
        self.told = Sn(0);
        self.wants_image = None;
        self.has_lost = false;
        self.part = Part::Candidate(Candidate {
            collected: BTreeMap::new(),
            fetching: None,
            beats: Beats::begin(now),
        });
        let epoch = self.floor();
        self.send_all(&Message::Collect { epoch });
    }

    pub(crate) fn on_collected(&mut self, now: Now, from: MemberId, collected: Collected) {
        // The record says how far epochs go. In a candidate's own nothing has been written yet.
        let is_to_begin = matches!(self.part, Part::Candidate(_));
        let last_epoch = collected.shape.rank().0;
        if last_epoch > self.floor() || is_to_begin && last_epoch == self.floor() {
            return self.refuse(from, "it has batches of an epoch that has not begun");
        }
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
        self.give_up_fetching(now);
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
                let window = after.0.saturating_add(self.terms.window);
                let last = collected.shape.last().min(Sn(window));
                candidate.fetching = Some(Fetching {
                    from,
                    after,
                    last,
                    since: now,
                });
                let epoch = self.floor();
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

    /// What does not come may not be there: that member's word is worth no more than another's. Who else is there to
    /// elect this one does so without it.
    fn give_up_fetching(&mut self, now: Now) {
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        let limit = self.terms.drop_after;
        let is_late = |fetching: &mut Fetching| now.saturating_sub(fetching.since) > limit;
        if let Some(late) = candidate.fetching.take_if(is_late) {
            self.collect_anew(late.from);
        }
    }

    /// It does not give what it said it had: it says anew what it has.
    fn collect_anew(&mut self, from: MemberId) {
        if let Part::Candidate(candidate) = &mut self.part {
            candidate.collected.remove(&from);
            let epoch = self.floor();
            self.send(from, Message::Collect { epoch });
        }
    }

    pub(crate) fn on_fetched(&mut self, from: MemberId, batches: Option<Shape>) {
        let Part::Candidate(candidate) = &mut self.part else {
            return;
        };
        let asked = candidate.fetching.take_if(|it| it.from == from);
        let Some(Fetching { after, last, .. }) = asked else {
            return;
        };
        // Some of them, as many as went into a message: the rest is asked for next.
        let said = candidate.collected.get(&from);
        let is_asked_for = |batches: &Shape| {
            let is_in_order =
                batches.base() == after && batches.last() > after && batches.last() <= last;
            let said = said.and_then(|said| said.shape.slice(after, batches.last()));
            is_in_order && said.as_ref() == Some(batches)
        };
        match batches.filter(is_asked_for) {
            Some(batches) => self.take(batches),
            // It has removed them meanwhile.
            None => self.collect_anew(from),
        }
    }

    /// It has the greatest journal: the reign begins.
    fn lead(&mut self, now: Now) {
        let Part::Candidate(candidate) = std::mem::replace(&mut self.part, Part::Follower) else {
            return;
        };
        let collected = candidate.collected.iter();
        let promises = collected
            .map(|(member, collected)| (*member, collected.promised_until))
            .collect();
        let electors = self.record.clone();
        let inherited = self.shape.last();
        self.part = Part::Active(Reign::begin(
            now,
            (electors, promises),
            inherited,
            candidate.beats,
        ));
        self.out(Output::Lead(self.floor(), self.shape.last()));
        for (member, collected) in candidate.collected {
            self.meet(now, member, &collected);
        }
    }
}
