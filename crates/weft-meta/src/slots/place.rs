//! What becomes of a request whose slot is not served here, or not now.

use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use std::rc::Rc;
use weft_namespace::Plan;
use weft_rpc::Replier;
use weft_types::{GroupId, Ino, Slot};
use weft_wire::Failed;
use weft_wire::proto::Part;
use weft_wire::proto::op::Op;

/// Why a request cannot be served here now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotHere {
    /// It waits: the slot is about to go, or has not come.
    Slot(Slot),
    /// It waits until it is known who a guest is.
    Guest,
    /// Another group has the slot.
    Elsewhere(Slot),
}

impl Core {
    /// Whether a request has to wait for a slot, or is to go elsewhere.
    fn not_here(&self, slot: Slot, waits_if_frozen: bool) -> Option<NotHere> {
        if self.state.has_slot(slot) {
            let waits = waits_if_frozen && self.slots.is_frozen(slot);
            return waits.then_some(NotHere::Slot(slot));
        }
        match self.state.arrives_from(slot) {
            // Whoever asks has been sent here, or it will be void soon.
            Some(_) => Some(NotHere::Slot(slot)),
            None => Some(NotHere::Elsewhere(slot)),
        }
    }

    /// The same for a look at an inode.
    pub(crate) fn look_is_not_here(&self, ino: Ino) -> Option<NotHere> {
        let not_here = self.not_here(ino.slot(), true);
        not_here.or_else(|| self.state.is_kept_by_guest(ino).then_some(NotHere::Guest))
    }

    /// The same for a question about locks.
    pub(crate) fn lock_is_not_here(&self, ino: Ino) -> Option<NotHere> {
        let not_here = self.look_is_not_here(ino);
        not_here.or_else(|| self.state.is_locked_by_guest(ino).then_some(NotHere::Guest))
    }

    /// The same for a change. One that only gives something back does not wait for a slot that is about to
    /// go: that waits for it.
    pub(crate) fn change_is_not_here(&self, op: &Op, gives_back: bool) -> Option<NotHere> {
        let places = self.state.places(op);
        let home = places.home()?;
        let not_here = self.not_here(home, !gives_back);
        let not_here = not_here.or_else(|| {
            // What is another group's is a transaction's matter.
            let mut own = places.iter().filter(|slot| self.state.has_slot(*slot));
            let frozen = own.find(|slot| !gives_back && self.slots.is_frozen(*slot))?;
            Some(NotHere::Slot(frozen))
        });
        not_here.or_else(|| self.state.waits_for_guests(op).then_some(NotHere::Guest))
    }

    /// A part of a transaction cannot be done here now: whoever plans it is to do that anew.
    pub(crate) fn part_is_not_here(&self, part: &Part) -> bool {
        self.not_here(Plan::place(part), true).is_some()
    }

    /// The group that has a slot, as far as is known here. None: nobody that could be asked.
    pub(crate) fn holder(&self, slot: Slot) -> Option<GroupId> {
        let own = self.state.group();
        if self.state.has_slot(slot) {
            return Some(own);
        }
        let given = self.state.given_to(slot).map(|given| given.to);
        let holder = given.or_else(|| crate::group::holder(&self.view, slot));
        holder.filter(|holder| *holder != own)
    }

    /// What is said to who asks for a slot that another group has.
    pub(crate) fn moved(&self, slot: Slot) -> Failed {
        match self.holder(slot) {
            Some(group) => Failed::Moved {
                slot: u32::from(slot.0),
                group: group.0,
                members: crate::group::addresses(&self.view, group.0).1,
            },
            None => Failed::Unavailable(format!("nobody is known to have slot {slot}")),
        }
    }
}

impl Meta {
    /// Parks a request, or says where it is to go: when that is committed.
    pub(crate) fn turn_away(
        self: &Rc<Self>,
        core: &mut Core,
        why: NotHere,
        replier: Replier,
        again: impl FnOnce(&Rc<Meta>, &mut Core, Replier) + 'static,
    ) {
        let conflict = match why {
            NotHere::Slot(slot) => Conflict::Slot(slot),
            NotHere::Guest => Conflict::Guest,
            NotHere::Elsewhere(slot) => {
                let (moved, newest) = (core.moved(slot), core.commits.newest());
                return self.when_committed(core, newest, move |_, _, result| {
                    replier.fail(result.err().unwrap_or(moved));
                });
            }
        };
        self.wait_for(core, conflict, (Vec::new(), 0..0), replier, again);
    }

    /// Handles anew what waited for a slot, or for guests.
    pub(super) fn retry_for(self: &Rc<Self>, core: &mut Core, conflict: Conflict) {
        for again in core.parking.take_for(conflict) {
            again(self, core);
        }
    }
}
