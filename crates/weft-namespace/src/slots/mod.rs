//! Slots: which a group has, and how one goes to another group while it is in use
//! (`docs/protocols/slots.md`).
//!
//! `walk.rs` takes a slot apart into pieces, `received.rs` puts pieces together, `change.rs` takes a slot
//! out of a state or into it, `places.rs` says which slots a change concerns.

mod change;
mod guests;
mod places;
mod received;
mod set;
mod walk;

pub use places::Places;
pub(crate) use received::Arriving;
pub(crate) use set::SlotSet;
pub use walk::{Hashes, Key};

use crate::state::State;
use weft_types::{Epoch, GroupId, SLOTS, Slot};
use weft_wire::proto;

/// Names one attempt of a source to move a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attempt {
    /// Of the source's reign.
    pub epoch: Epoch,
    /// Counted within the reign.
    pub number: u64,
}

impl Attempt {
    /// As messages have it. None: it makes no sense.
    pub fn of(message: Option<&proto::SlotAttempt>) -> Option<Attempt> {
        let message = message.filter(|it| it.epoch > 0 && it.number > 0)?;
        Some(Attempt {
            epoch: Epoch(message.epoch),
            number: message.number,
        })
    }

    /// The same for messages.
    pub fn to_proto(self) -> proto::SlotAttempt {
        proto::SlotAttempt {
            epoch: self.epoch.0,
            number: self.number,
        }
    }
}

/// To whom a slot was given, and in which attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// The group that it was given to; it may have given it on since.
    pub to: GroupId,
    /// The attempt.
    pub attempt: Attempt,
}

/// The slot of a message. None: there is none of this number.
pub fn slot_of(number: u32) -> Option<Slot> {
    let slot = u16::try_from(number).ok()?;
    (slot < SLOTS).then_some(Slot(slot))
}

impl State {
    /// The group whose part of the name space this is.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The group has this slot.
    pub fn has_slot(&self, slot: Slot) -> bool {
        self.slots.has(slot)
    }

    /// How many slots the group has.
    pub fn slot_count(&self) -> usize {
        (0..SLOTS)
            .filter(|slot| self.slots.has(Slot(*slot)))
            .count()
    }

    /// To whom the group has given a slot that it does not have.
    pub fn given_to(&self, slot: Slot) -> Option<Given> {
        self.given.get(&slot).copied()
    }

    /// All slots that the group has given, and has not got back, in order.
    pub fn given(&self) -> impl Iterator<Item = (Slot, Given)> + '_ {
        self.given.iter().map(|(slot, given)| (*slot, *given))
    }

    /// The group that sends a slot to this one, and the attempt.
    pub fn arrives_from(&self, slot: Slot) -> Option<(GroupId, Attempt)> {
        let arriving = self.arriving.get(&slot)?;
        Some((arriving.from, arriving.attempt))
    }

    /// The slots that other groups send, in order.
    pub fn arriving(&self) -> impl Iterator<Item = Slot> + '_ {
        self.arriving.keys().copied()
    }
}
