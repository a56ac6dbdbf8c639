//! The active: sending batches, committing, reading, changing who counts.

use crate::elect::Collected;
use crate::engine::{Engine, Message, Output, Part};
use crate::{MemberId, Now, Record, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_types::Sn;

/// Clocks may run at rates that differ by less than this part.
const DRIFT: u32 = 20;

/// When to tell that one lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beats {
    pub(crate) next: Now,
}

impl Beats {
    pub(crate) fn begin(now: Now) -> Beats {
        Beats { next: now }
    }
}

/// Another member, as the active knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Peer {
    /// What has been sent, if batches are sent to it now: it had the same journal up to where that began.
    sent: Option<Sn>,
    /// What is on its disk of this reign's journal.
    durable: Sn,
    /// When the newest beat was sent that it has answered: it follows nobody else for the lease from then on.
    promised: Option<Now>,
    /// When it last answered.
    answered: Now,
    /// Batches that it has not on its disk, up to this one, and since when it could have.
    due: Option<(Sn, Now)>,
    /// Its process has ended since.
    has_ended: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reign {
    peers: BTreeMap<MemberId, Peer>,
    /// The journal that it began with ends there.
    inherited: Sn,
    /// Who counted when it was elected.
    electors: Record,
    /// Until when those that elected it may have promised something to an earlier active.
    promises: BTreeMap<MemberId, Now>,
    began: Now,
    /// Who is to belong to the group no more.
    dismissed: BTreeSet<MemberId>,
    beats: Beats,
}

impl Peer {
    /// Since when it has left something unanswered, or been away.
    fn silent_since(&self) -> Now {
        self.due
            .map_or(self.answered, |(_, since)| since.min(self.answered))
    }
}

impl Reign {
    pub(crate) fn begin(
        now: Now,
        (electors, promises): (Record, BTreeMap<MemberId, Now>),
        inherited: Sn,
        beats: Beats,
    ) -> Reign {
        Reign {
            peers: BTreeMap::new(),
            inherited,
            electors,
            promises,
            began: now,
            dismissed: BTreeSet::new(),
            beats,
        }
    }

    /// What it has promised stands, and what is on its disk; but what was on its way is lost.
    pub(crate) fn lost(&mut self, member: MemberId) {
        if let Some(peer) = self.peers.get_mut(&member) {
            peer.sent = None;
        }
    }

    /// One of those that elected it says anew until when it may have promised something: it has heard since that an
    /// earlier active's process has ended.
    pub(crate) fn promises(&mut self, member: MemberId, until: Now) {
        if let Some(known) = self.promises.get_mut(&member) {
            *known = until.min(*known);
        }
    }

    /// The answers of others have not been read for so long, for this process stood still.
    pub(crate) fn excuse(&mut self, now: Now, late: Duration) {
        let later = |at: &mut Now| *at = now.min(*at + late);
        later(&mut self.began);
        for peer in self.peers.values_mut() {
            later(&mut peer.answered);
            if let Some((_, since)) = &mut peer.due {
                later(since);
            }
        }
    }

    pub(crate) fn ended(&mut self, member: MemberId) {
        self.peers.entry(member).or_default().has_ended = true;
    }
}

impl Engine {
    /// From when on an active may answer: when what it has promised earlier ones is over, and what others have, as
    /// many as make an election quorum with it. (It is over at once where it is known that an earlier one's process has
    /// ended.) What one of more than these says is not waited for, and whatever it says: it cannot hold up the others.
    fn serves_from(&self, reign: &Reign) -> Now {
        let own = self.promised.values().copied().max().unwrap_or_default();
        let is_elector = reign.electors.voters.contains(&self.me);
        let needed = reign.electors.election_quorum() - usize::from(is_elector);
        let is_voter = |member: &MemberId| reign.electors.voters.contains(member);
        let promises = reign.promises.iter();
        let mut others: Vec<Now> = promises
            .filter(|(member, _)| is_voter(member))
            .map(|(_, until)| *until)
            .collect();
        others.sort_unstable();
        let others = needed.checked_sub(1).map(|last| {
            // Fewer have not elected it.
            others.get(last).copied().unwrap_or(Now::MAX)
        });
        own.max(others.unwrap_or_default())
    }

    /// When an active has something to do.
    pub(crate) fn reign_wakes_at(&self, reign: &Reign, now: Now) -> Now {
        let serves_from = self.serves_from(reign);
        match serves_from > now {
            true => serves_from.min(reign.beats.next),
            false => reign.beats.next,
        }
    }

    /// Until when reads may be answered from what is applied. None: not now.
    pub fn reads_until(&self, now: Now) -> Option<Now> {
        let Part::Active(reign) = &self.part else {
            return None;
        };
        if now < self.serves_from(reign) || self.committed <= reign.inherited {
            return None;
        }
        let lease = self.terms.lease - self.terms.lease / DRIFT;
        let promised = |member| match member == self.me {
            true => Some(Now::MAX),
            false => reign.peers.get(&member)?.promised,
        };
        let until = self.records().map(|record| {
            let promised = record.reached(promised)?;
            Some(promised.saturating_add(lease))
        });
        until.min().flatten().filter(|until| *until > now)
    }

    /// Who counts: as the record says, and as it may say already.
    fn records(&self) -> impl Iterator<Item = &Record> {
        let asked = self.asked.iter();
        [&self.record]
            .into_iter()
            .chain(asked.filter(|to| to.epoch == self.floor()))
    }

    /// What is on a member's disk of this reign's journal.
    pub(crate) fn durable_at(&self, reign: &Reign, member: MemberId) -> Option<Sn> {
        match member == self.me {
            true => Some(self.durable),
            false => reign.peers.get(&member).map(|peer| peer.durable),
        }
    }

    /// A member has said what it has: what it lacks is sent.
    pub(crate) fn meet(&mut self, now: Now, member: MemberId, collected: &Collected) {
        let common = self.shape.common(&collected.shape);
        // It learns up to where it has the right journal, and says how much of that is on its disk.
        let greeting = common.and_then(|common| self.shape.slice(common, common));
        let Part::Active(reign) = &mut self.part else {
            return;
        };
        let peer = reign.peers.entry(member).or_default();
        peer.has_ended = false;
        peer.sent = common;
        let epoch = self.record.epoch;
        let message = match (common, greeting) {
            (Some(common), Some(batches)) => {
                peer.durable = collected.durable.min(common);
                peer.answered = now;
                peer.due = None;
                let committed = self.committed;
                Message::Append {
                    epoch,
                    batches,
                    committed,
                }
            }
            _ => {
                let base = self.shape.base();
                Message::Behind { epoch, base }
            }
        };
        self.send(member, message);
    }

    pub(crate) fn on_beat_answer(&mut self, now: Now, from: MemberId, at: Now) {
        if at > now {
            return self.refuse(from, "it answers a beat that has not been sent");
        }
        if let Part::Active(reign) = &mut self.part {
            let peer = reign.peers.entry(from).or_default();
            peer.promised = peer.promised.max(Some(at));
            if peer.sent.is_some() {
                peer.answered = now;
            }
        }
    }

    pub(crate) fn on_appended(&mut self, now: Now, from: MemberId, durable: Sn) {
        if matches!(self.part, Part::Active(_)) && durable > self.shape.last() {
            return self.refuse(from, "it has on its disk what has not been written yet");
        }
        if let Part::Active(reign) = &mut self.part
            && let Some(peer) = reign.peers.get_mut(&from)
        {
            peer.durable = peer.durable.max(durable);
            peer.answered = now;
            if let Some((due, _)) = peer.due
                && durable >= due
            {
                let sent = peer.sent.filter(|sent| *sent > durable);
                peer.due = sent.map(|sent| (sent, now));
            }
        }
    }

    pub(crate) fn propose(&mut self) {
        if let Part::Active(_) = self.part {
            let (before, after) = self.shape.rank();
            let mut batch = Shape::after(before, after);
            batch.extend(self.floor(), Sn(after.0 + 1));
            self.take(batch);
        }
    }

    pub(crate) fn withdraw(&mut self) {
        let was = std::mem::replace(&mut self.part, Part::Follower);
        if let Part::Active(_) = was {
            self.out(Output::StepDown);
        }
        if let Part::Active(_) | Part::Candidate(_) = was {
            let epoch = self.floor();
            self.send_all(&Message::Withdrawn { epoch });
        }
        self.is_leaving = true;
    }

    pub(crate) fn admit(&mut self, member: MemberId) {
        let Part::Active(reign) = &mut self.part else {
            return;
        };
        // The same number may have gone and come again.
        reign.dismissed.remove(&member);
        if self.asked.is_none() && !self.record.voters.contains(&member) {
            let mut to = self.record.clone();
            if to.juniors.insert(member) {
                self.ask(to);
            }
        }
    }

    pub(crate) fn dismiss(&mut self, member: MemberId) {
        if let Part::Active(reign) = &mut self.part
            && member != self.me
        {
            reign.dismissed.insert(member);
        }
    }

    /// Tells all that it lives, if that is due.
    pub(crate) fn beat(&mut self, now: Now) {
        let beats = match &mut self.part {
            Part::Candidate(candidate) => &mut candidate.beats,
            Part::Active(reign) => &mut reign.beats,
            _ => return,
        };
        if now >= beats.next {
            beats.next = now + self.terms.beat;
            let (epoch, committed) = (self.floor(), self.committed);
            let late = self.steadiness.own(&self.terms, now);
            self.send_all(&Message::Beat {
                epoch,
                at: now,
                committed,
                late,
                lease: self.terms.lease,
            });
        }
    }

    /// Does what is due, or has become possible.
    pub(crate) fn rule(&mut self, now: Now) {
        self.commit(now);
        self.beat(now);
        self.send_batches(now);
        self.change_voters(now);
    }

    fn commit(&mut self, now: Now) {
        let Part::Active(reign) = &self.part else {
            return;
        };
        if now < self.serves_from(reign) {
            return;
        }
        let durable = |member| self.durable_at(reign, member);
        let reached = self.records().map(|record| record.reached(durable));
        let reached = reached.min().flatten().unwrap_or_default();
        // What earlier reigns left is committed with the first batch of this one, not before: an earlier
        // one may still be found in a journal that is greater.
        if reached > self.committed && reached > reign.inherited {
            self.committed = reached;
            self.out(Output::Committed(reached));
        }
    }

    fn send_batches(&mut self, now: Now) {
        let Part::Active(reign) = &mut self.part else {
            return;
        };
        let mut messages = Vec::new();
        for (member, peer) in &mut reign.peers {
            let Some(sent) = peer.sent.filter(|_| self.connected.contains(member)) else {
                continue;
            };
            let last = self.shape.last().min(Sn(
                peer.durable.0.max(self.shape.base().0) + self.terms.window
            ));
            if sent >= last {
                continue;
            }
            let Some(batches) = self.shape.slice(sent, last) else {
                // It was removed while that member was away: an image holds it.
                peer.sent = None;
                let (epoch, base) = (self.record.epoch, self.shape.base());
                messages.push((*member, Message::Behind { epoch, base }));
                continue;
            };
            let append = Message::Append {
                epoch: self.record.epoch,
                batches,
                committed: self.committed,
            };
            messages.push((*member, append));
            peer.sent = Some(last);
            peer.due.get_or_insert((last, now));
        }
        for (member, message) in messages {
            self.send(member, message);
        }
    }

    /// Asks for others to count, where that is wanted and safe.
    fn change_voters(&mut self, now: Now) {
        let Part::Active(reign) = &self.part else {
            return;
        };
        if self.asked.is_some() {
            return;
        }
        let to = self.wanted(reign, now);
        // All that may be committed must be on a majority of them, or an election quorum of theirs
        // might not meet it.
        let needed = self.committed.max(reign.inherited);
        let is_safe = to.reached(|member| self.durable_at(reign, member)) >= Some(needed);
        if to != self.record && is_safe {
            self.ask(to);
        }
    }

    fn wanted(&self, reign: &Reign, now: Now) -> Record {
        let mut to = self.record.clone();
        to.voters.retain(|member| !reign.dismissed.contains(member));
        to.juniors
            .retain(|member| !reign.dismissed.contains(member));
        let silent_for = |member| {
            let since = reign.peers.get(&member).map(Peer::silent_since);
            now.saturating_sub(since.unwrap_or_default().max(reign.began))
        };
        let is_connected = |member: &MemberId| self.connected.contains(member);
        let there = |member| member == self.me || is_connected(&member);
        let has_majority = self.record.count(there) >= self.record.majority();
        let is_new = self.committed <= reign.inherited;
        // Others bear with it for longer than the least patience: before they have replaced it, if they can, it
        // drops nobody.
        let borne = self.steadiness.patience_with_me(&self.terms, now);
        let drop_after = self.terms.drop_after + borne.saturating_sub(self.terms.patience);
        for member in &self.record.voters {
            let has_ended = reign.peers.get(member).is_some_and(|peer| peer.has_ended);
            // Without a majority nothing can be committed: who is known to be gone is not waited for.
            let is_gone = !is_connected(member) && (has_ended || is_new);
            let limit = match is_gone && !has_majority {
                true => self.terms.asking,
                false => drop_after,
            };
            if *member != self.me && silent_for(*member) > limit && to.voters.remove(member) {
                to.juniors.insert(*member);
            }
        }
        for member in &self.record.juniors {
            let has_all = self.durable_at(reign, *member) >= Some(self.committed);
            let is_near = |peer: &Peer| {
                let end = peer.durable.0 + self.terms.gap_max;
                peer.sent.is_some() && end >= self.shape.last().0
            };
            let follows = *member == self.me
                || (is_connected(member)
                    && silent_for(*member) <= self.terms.patience
                    && reign.peers.get(member).is_some_and(is_near));
            if has_all && follows && !is_new && to.juniors.remove(member) {
                to.voters.insert(*member);
            }
        }
        to
    }
}
