//! Slots that go from group to group, all the time, while clients work and faults come
//! (`docs/protocols/slots.md`).

use super::builder::Cluster;
use crate::invariants::one_tree::Actives;
use crate::rng::Rng;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_fsck::Ask;
use weft_types::{GroupId, INO_COUNTER_BITS, Ino, ROOT_INO, SLOTS};
use weft_wire::proto::{MoveSlotsRequest, SlotsReply, SlotsRequest, SurveyInodesRequest};

/// The pause between two orders, at most.
const PAUSE_MS: u64 = 60;
/// A question after so many inodes: one of their slots is moved.
const INODES: u32 = 300;
/// Once faults have ended, all that was ordered is done within this time.
const END_WITHIN: Duration = Duration::from_secs(120);
/// And is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who orders slots about.
pub struct Mover {
    cluster: Rc<Cluster>,
    rng: RefCell<Rng>,
    /// Slots that were ordered to move.
    ordered: std::cell::Cell<u64>,
}

impl Mover {
    /// Of `cluster`; gives no order yet.
    pub fn new(cluster: &Rc<Cluster>) -> Mover {
        Mover {
            rng: RefCell::new(cluster.world.rng("slots")),
            cluster: cluster.clone(),
            ordered: std::cell::Cell::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    /// A slot of a group's that has inodes.
    async fn used_slot(&self, actives: &Actives<'_>, group: GroupId) -> Option<u32> {
        let from = self.below(u64::from(SLOTS)) << INO_COUNTER_BITS;
        for after in [from, 0] {
            let request = SurveyInodesRequest { after, max: INODES };
            let inodes = actives.ask(group, &request).await.ok()?.inodes;
            let slots = inodes.iter().map(|inode| Ino(inode.ino).slot());
            let slots: Vec<u16> = slots
                .filter(|slot| *slot != ROOT_INO.slot())
                .map(|slot| slot.0)
                .collect();
            if !slots.is_empty() {
                return Some(u32::from(slots[self.below(slots.len() as u64) as usize]));
            }
        }
        None
    }

    /// Gives orders until the clients are done, or `until` has come.
    pub async fn work(&self, until: Duration) {
        let groups = self.cluster.groups() as u64;
        let actives = Actives::of(&self.cluster, "slots");
        while self.cluster.world.now() < until && !self.cluster.clients_are_done() {
            let pause = Duration::from_millis(self.below(PAUSE_MS));
            self.cluster.world.sleep(pause).await;
            let from = GroupId(self.below(groups) as u32);
            let to = GroupId(((u64::from(from.0) + 1 + self.below(groups - 1)) % groups) as u32);
            let Some(slot) = self.used_slot(&actives, from).await else {
                continue;
            };
            let order = MoveSlotsRequest {
                first: slot,
                last: slot,
                to: to.0,
            };
            // One that is refused, or that nobody hears, is as good as none.
            if let Ok(reply) = actives.ask(from, &order).await {
                self.ordered
                    .set(self.ordered.get() + u64::from(reply.slots));
            }
        }
        actives.close();
    }

    /// All that was ordered is done, and nobody has anything under another group's session any more.
    ///
    /// # Errors
    /// What is not.
    pub async fn finish(&self) -> Result<(), String> {
        let until = self.cluster.world.now() + END_WITHIN;
        loop {
            let actives = Actives::of(&self.cluster, "slots");
            let mut all: Vec<Result<SlotsReply, String>> = Vec::new();
            for group in 0..self.cluster.groups() {
                all.push(actives.ask(GroupId(group as u32), &SlotsRequest {}).await);
            }
            actives.close();
            let is_at_rest = |reply: &SlotsReply| {
                reply.moves.is_empty() && reply.arriving.is_empty() && reply.guests == 0
            };
            if all.iter().all(|reply| reply.as_ref().is_ok_and(is_at_rest)) {
                return Ok(());
            }
            if self.cluster.world.now() > until {
                return Err(format!("slots do not come to rest: {all:?}"));
            }
            self.cluster.world.sleep(LOOK_EVERY).await;
        }
    }

    /// How many slots were ordered to move.
    pub fn ordered(&self) -> u64 {
        self.ordered.get()
    }
}
