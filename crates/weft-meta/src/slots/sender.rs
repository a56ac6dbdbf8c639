//! How a slot is taken to another group: walk after walk, in numbered pieces, what has changed since the one
//! before.

use crate::leases::Held;
use crate::reign::{Core, Meta};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};
use std::rc::Rc;
use std::time::Duration;
use weft_namespace::{Attempt, Hashes, Key, State};
use weft_types::{GroupId, Ino, SessionId, Slot};
use weft_wire::Failed;
use weft_wire::proto::{CheckSlotRequest, Receive, ReceiveSlotRequest, SlotPiece};

/// Inodes and entries that are gone through at a time: a millisecond or two.
const STEPS: usize = 1_000;
/// Bytes of one message, and of one entry of the other group's journal.
const BYTES: usize = 256 << 10;
/// An answer takes a journal write.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is not answered is sent again so often.
const TRIES: u32 = 5;

/// See the module.
pub(super) struct Sender {
    meta: Rc<Meta>,
    pub slot: Slot,
    pub to: GroupId,
    pub attempt: Attempt,
    hashes: Hashes,
    number: u64,
    /// What is to be sent next.
    pieces: Vec<SlotPiece>,
    bytes: usize,
}

/// The sessions that have an inode open, as far as this reign knows.
fn open_at(core: &Core) -> impl Fn(Ino) -> Vec<SessionId> + '_ {
    |ino| {
        let others = core.leases.others(ino, SessionId(0)).into_iter();
        let open = others.filter(|(_, held)| *held == Held::Open);
        open.map(|(session, _)| session).collect()
    }
}

/// What a slot is made of now, from a piece on.
fn walk(
    core: &Core,
    slot: Slot,
    (from, steps): (Key, usize),
    each: &mut dyn FnMut(Key, &[u8]),
) -> Option<Key> {
    let state: &State = &core.state;
    state.walk_slot(slot, from, steps, &open_at(core), each)
}

impl Sender {
    pub(super) fn new(meta: &Rc<Meta>, slot: Slot, to: GroupId, attempt: Attempt) -> Sender {
        Sender {
            meta: meta.clone(),
            slot,
            to,
            attempt,
            hashes: Hashes::default(),
            number: 0,
            pieces: Vec::new(),
            bytes: 0,
        }
    }

    /// Goes through the slot, and sends what the other group does not have yet. Answers how many pieces.
    ///
    /// # Errors
    /// Why the attempt is void, in words.
    pub(super) async fn walk(&mut self) -> Result<usize, String> {
        let mut sent = 0;
        let mut at = Some(Key::first_of(self.slot));
        while let Some(from) = at {
            at = self.look(from);
            if at.is_none() || self.bytes >= BYTES {
                sent += self.pieces.len();
                self.send().await?;
            }
        }
        Ok(sent)
    }

    /// Gathers what has changed, or gone, among the next pieces.
    fn look(&mut self, from: Key) -> Option<Key> {
        let meta = self.meta.clone();
        let core = meta.core.borrow();
        let mut seen = BTreeSet::new();
        let mut changed = Vec::new();
        let hashes = &mut self.hashes;
        let next = walk(&core, self.slot, (from, STEPS), &mut |key, content| {
            seen.insert(key);
            if hashes.note(key, content) {
                changed.push((key, content.to_vec()));
            }
        });
        let until = next.map_or(Included(Key::last_of(self.slot)), Excluded);
        let known = self.hashes.within((Included(from), until));
        let gone: Vec<Key> = known.filter(|key| !seen.contains(key)).collect();
        for key in gone {
            self.hashes.forget(key);
            changed.push((key, Vec::new()));
        }
        for (key, content) in changed {
            self.bytes += content.len() + 16;
            self.pieces.push(SlotPiece {
                ino: key.ino.0,
                part: key.part,
                content: content.into(),
            });
        }
        next
    }

    async fn send(&mut self) -> Result<(), String> {
        if self.pieces.is_empty() && self.number > 0 {
            return Ok(());
        }
        self.bytes = 0;
        let request = ReceiveSlotRequest {
            receive: Some(Receive {
                slot: u32::from(self.slot.0),
                from: self.meta.settings.group,
                attempt: Some(self.attempt.to_proto()),
                number: self.number,
                pieces: std::mem::take(&mut self.pieces),
            }),
        };
        self.number += 1;
        let reply = self.ask(&request).await?;
        match reply.failure_errno {
            0 => Ok(()),
            errno => Err(format!("group {} does not take it: errno {errno}", self.to)),
        }
    }

    async fn ask<R: weft_wire::Rpc>(&self, request: &R) -> Result<R::Reply, String> {
        let mut tries = 0;
        loop {
            match self.meta.ask_group(self.to, request, PATIENCE).await {
                Ok(reply) => return Ok(reply),
                Err(Failed::Refused(why)) => return Err(why),
                Err(failed) if tries == TRIES => return Err(failed.to_string()),
                Err(_) => tries += 1,
            }
        }
    }

    /// Has the other group look whether it could own what it has; it is the same as was sent then.
    ///
    /// # Errors
    /// Why not, in words.
    pub(super) async fn check(&self) -> Result<(), String> {
        let request = CheckSlotRequest {
            slot: u32::from(self.slot.0),
            attempt: Some(self.attempt.to_proto()),
        };
        let reply = self.ask(&request).await?;
        if !reply.why_not.is_empty() {
            return Err(format!(
                "group {} cannot own it: {}",
                self.to, reply.why_not
            ));
        }
        let digest = u128::from(reply.digest_high) << 64 | u128::from(reply.digest_low);
        if digest != self.hashes.digest() {
            return Err(format!("group {} has received something else", self.to));
        }
        Ok(())
    }

    /// All that there is now was sent, and nothing else.
    pub(super) fn has_sent_all(&self, core: &Core) -> bool {
        let mut count = 0;
        let mut is_same = true;
        let first = Key::first_of(self.slot);
        let rest = walk(core, self.slot, (first, usize::MAX), &mut |key, content| {
            count += 1;
            is_same &= self.hashes.has(key, content);
        });
        debug_assert!(rest.is_none());
        is_same && count == self.hashes.len()
    }

    pub(super) fn pieces(&self) -> u64 {
        self.hashes.len() as u64
    }
}
