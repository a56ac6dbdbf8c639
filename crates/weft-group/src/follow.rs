//! A member that follows: taking batches, promising, losing the active.

use crate::engine::{Engine, Message, Output, Part};
use crate::{MemberId, Now, Shape};
use std::collections::BTreeSet;
use std::time::Duration;
use weft_types::{Epoch, Sn};

impl Engine {
    /// Whoever sends with the record's epoch, and has it. False: it is told that there is a later one; or it says that
    /// there is, which only the coordinator knows.
    pub(crate) fn follows(&mut self, now: Now, from: MemberId, epoch: Epoch) -> bool {
        if epoch < self.floor() {
            let epoch = self.floor();
            self.send(from, Message::Newer { epoch });
            return false;
        }
        if epoch > self.floor() {
            self.on_claim(from, epoch);
            return false;
        }
        if !self.is_of_active(from) {
            return false;
        }
        if self.following == Some(from) {
            let late = now.saturating_sub(self.heard + self.terms.beat);
            self.steadiness.note(&self.terms, now, from, late);
        } else {
            self.following = Some(from);
            self.matched = self.shape.base();
        }
        self.heard = now;
        self.has_lost = false;
        if let Part::Asking { .. } = self.part {
            self.part = Part::Follower;
        }
        true
    }

    /// For how long from now on it may follow nobody but others.
    pub(crate) fn promised_to_others(&self, now: Now, whom: MemberId) -> Duration {
        let others = self.promised.iter().filter(|(to, _)| **to != whom);
        let until = others.map(|(_, until)| *until).max().unwrap_or_default();
        until.saturating_sub(now)
    }

    pub(crate) fn on_beat(
        &mut self,
        now: Now,
        from: MemberId,
        (epoch, at, lease): (Epoch, Now, Duration),
        committed: Sn,
    ) {
        // What others were promised stands, and was told to this one, who waits for it.
        self.promised.retain(|_, until| *until > now);
        // Never less than the active counts on.
        self.promised
            .insert(from, now + self.terms.lease.max(lease));
        self.send(from, Message::BeatAnswer { epoch, at });
        self.learn_committed(committed);
    }

    pub(crate) fn on_append(&mut self, now: Now, from: MemberId, batches: Shape, committed: Sn) {
        if batches.rank().0 > self.floor() {
            return self.refuse(from, "it sends batches of a later epoch than its own");
        }
        let known = self.shape.common(&batches);
        if let Some(known) = known.filter(|known| *known < self.committed.min(batches.last())) {
            self.out(Output::Contradicted(known));
        }
        let Some((known, left)) = known.and_then(|known| {
            let left = batches.slice(known, batches.last())?;
            // What is committed is not discarded, whoever says so.
            let keeps = known >= self.committed || known == batches.last();
            keeps.then_some((known, left))
        }) else {
            // The sender knows another journal than this one: it is told the right one.
            let collected = self.collected(now, from);
            return self.send(from, collected);
        };
        self.matched = self.matched.max(known);
        self.wants_image = None;
        // What it has of them already is not written again.
        if known < batches.last() {
            self.take(left);
            self.matched = batches.last();
        } else {
            self.tell_durable();
        }
        self.learn_committed(committed);
    }

    /// Tells the active what is on the disk of what it sent.
    pub(crate) fn tell_durable(&mut self) {
        if let Some(active) = self.following {
            let (epoch, durable) = (self.floor(), self.durable.min(self.matched));
            self.send(active, Message::Appended { epoch, durable });
        }
    }

    /// Whatever its disk may have lost is there again, once it has all that is committed. The active knows how
    /// far that is when it has committed something itself: all that earlier ones have is before that.
    pub(crate) fn regain(&mut self) {
        let has_all = self.durable.min(self.matched) >= self.told;
        if has_all && self.shape.epoch_at(self.told) == Some(self.floor()) {
            self.is_intact = true;
        }
    }

    fn learn_committed(&mut self, committed: Sn) {
        // An active's word never falls, and comes in order: a false one lasts until the next.
        self.told = committed;
        self.regain();
        let known = committed.min(self.matched);
        if known > self.committed {
            self.committed = known;
            self.out(Output::Committed(known));
        }
    }

    /// It hears the active, or is it.
    pub fn hears(&self, now: Now) -> bool {
        match self.part {
            Part::Active(_) | Part::Candidate(_) => true,
            _ => self.following.is_some() && self.silent(now) <= self.patience(now),
        }
    }

    /// For how long it has not heard the active.
    fn silent(&self, now: Now) -> Duration {
        now.saturating_sub(self.heard)
    }

    /// How long whoever leads may be silent.
    pub(crate) fn patience(&self, now: Now) -> Duration {
        self.steadiness.patience(&self.terms, now, self.following)
    }

    /// What it has not lived through is not time in which others were silent.
    pub(crate) fn stalled(&mut self, now: Now, late: Duration) {
        self.steadiness.note_own(&self.terms, now, late);
        // Less is within what any clock is late.
        if late < self.terms.beat {
            return;
        }
        self.heard = now.min(self.heard + late);
        if let Part::Active(reign) = &mut self.part {
            reign.excuse(now, late);
        }
    }

    /// It follows nobody any more: that one has been silent for too long, or another has been found to lead.
    pub(crate) fn give_up(&mut self) {
        if let Some(member) = self.following.take() {
            self.steadiness.give_up(&self.terms, member, self.heard);
        }
    }

    /// Looks whether there is an active, and what to do if not.
    pub(crate) fn seek(&mut self, now: Now) {
        let is_due = self.has_lost || self.silent(now) > self.patience(now);
        if !is_due || now < self.asks_from || !self.may_lead(now) || self.asked.is_some() {
            return;
        }
        if let Part::Follower = self.part {
            let mut waits_for = self.connected.clone();
            // It is asked, too, and believed if it answers. But it has not been heard for the whole patience.
            if let Some(silent) = self.following {
                waits_for.remove(&silent);
            }
            self.part = Part::Asking {
                waits_for,
                agree: BTreeSet::new(),
                since: now,
            };
            self.send_all(&Message::Hears);
        }
        if let Part::Asking {
            waits_for,
            agree,
            since,
        } = &self.part
            && (waits_for.is_empty() || now.saturating_sub(*since) >= self.terms.asking)
        {
            let me = self.me;
            let agreed = self
                .record
                .count(|voter| voter == me || agree.contains(&voter));
            if agreed >= self.record.election_quorum() {
                self.claim();
            } else {
                // It could not be elected. One that is cut off, but not from the coordinator, would only
                // depose whoever leads the others, again and again.
                self.part = Part::Follower;
                self.asks_from = now + self.terms.asking;
            }
        }
    }

    /// Voters lead; juniors only where none of them has for a while.
    pub(crate) fn may_lead(&self, now: Now) -> bool {
        let is_voter = self.record.voters.contains(&self.me);
        let is_junior = self.record.juniors.contains(&self.me);
        self.is_intact
            && !self.is_leaving
            && self.wants_image.is_none()
            && (is_voter || is_junior && self.silent(now) > 3 * self.patience(now))
    }

    pub(crate) fn on_hears_answer(&mut self, now: Now, from: MemberId, hears: bool, lacks: bool) {
        let Part::Asking {
            waits_for, agree, ..
        } = &mut self.part
        else {
            return;
        };
        if hears {
            // Only its own connection is broken; or the other is about to find out.
            self.part = Part::Follower;
            self.asks_from = now + self.terms.asking;
        } else {
            waits_for.remove(&from);
            // What a new directory has does not say what was committed: with its consent one could claim, and never
            // be elected.
            if !lacks {
                agree.insert(from);
            }
        }
    }
}
