//! Slots that move between groups while in use (`docs/protocols/slots.md`).
//!
//! `source.rs` is the way of a slot that leaves, `sender.rs` how it is taken there, `destination.rs` what is
//! done with one that comes, `guests.rs` whose locks and open files came with it, `place.rs` what becomes of
//! requests meanwhile, `publish.rs` the view, `orders.rs` what tools ask.

mod destination;
mod guests;
mod orders;
mod place;
mod publish;
mod sender;
mod source;

pub(crate) use destination::{on_check, on_own, on_receive};
pub(crate) use guests::{adopt, kept_open, on_guests};
pub(crate) use orders::{on_move, on_slots};
pub(crate) use source::on_outcome;

use crate::reign::{Core, Meta};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;
use weft_env::Mono;
use weft_namespace::Attempt;
use weft_types::{GroupId, Slot};

/// A slot that is to move.
#[derive(Clone, Debug)]
struct Wish {
    to: GroupId,
    /// Not begun before.
    due: Mono,
    /// How often it was begun.
    attempts: u32,
    /// Why it was begun in vain the last time.
    why_not: String,
}

/// The one that is under way.
#[derive(Clone, Debug)]
struct Current {
    slot: Slot,
    to: GroupId,
    attempt: Attempt,
    stage: &'static str,
    pieces: u64,
}

/// What a reign knows of slots that move. Nothing of it outlives the reign: an attempt whose slot is not given
/// by then is void.
#[derive(Default)]
pub(crate) struct Slots {
    wishes: BTreeMap<Slot, Wish>,
    current: Option<Current>,
    /// Nobody is served in this slot.
    frozen: Option<Slot>,
    last_attempt: u64,
    moved: u64,
    /// When something was last heard of a slot that comes.
    heard: BTreeMap<Slot, Mono>,
}

/// Wakes what works on slots.
#[derive(Default)]
pub(crate) struct Wakes {
    /// There is a slot to be moved.
    wished: Notify,
    /// The slots of the group are others.
    owned: Notify,
    /// Guests have come.
    guests: Notify,
    /// The tasks have been begun.
    are_running: std::cell::Cell<bool>,
}

impl Slots {
    /// Requests that concern the slot wait.
    pub(crate) fn is_frozen(&self, slot: Slot) -> bool {
        self.frozen == Some(slot)
    }
}

/// Begins what there is to do beside other groups, as long as the reign lasts. Once is enough.
pub(crate) fn begin(meta: &Rc<Meta>) {
    if meta.slots.are_running.replace(true) {
        return;
    }
    meta.spawn("in doubt", crate::partition::ask_in_doubt(meta.clone()));
    meta.spawn("slots that leave", source::run(meta.clone()));
    meta.spawn("slots that come", destination::run(meta.clone()));
    meta.spawn("slots published", publish::run(meta.clone()));
    meta.spawn("guests", guests::run(meta.clone()));
}

/// There are several groups.
pub(crate) fn are_several(core: &Core) -> bool {
    core.view.groups.len() > 1 || crate::group::is_partitioned(&core.view)
}
