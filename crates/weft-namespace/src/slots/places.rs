//! Which slots a change concerns.

use crate::state::State;
use weft_types::{Ino, Slot};
use weft_wire::proto::FileKind;
use weft_wire::proto::op::Op;
use weft_wire::proto::repair::What;

/// No change concerns more: two directories, and what names in them stand for.
const PLACES_MAX: usize = 4;

/// Slots, each perhaps more than once.
#[derive(Clone, Copy, Default, Debug)]
pub struct Places {
    slots: [Slot; PLACES_MAX],
    count: usize,
}

impl Places {
    fn add(&mut self, ino: Ino) {
        self.add_slot(ino.slot());
    }

    fn add_slot(&mut self, slot: Slot) {
        if let Some(place) = self.slots.get_mut(self.count) {
            *place = slot;
            self.count += 1;
        }
    }

    /// The group of the first one is asked for the change. None: it concerns no inode.
    pub fn home(&self) -> Option<Slot> {
        self.iter().next()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().take(self.count).copied()
    }
}

impl State {
    /// The slots that a change of a client's concerns, its home first. What names stand for is known only of
    /// directories that are here.
    pub fn places(&self, op: &Op) -> Places {
        let mut places = Places::default();
        let found = |places: &mut Places, directory: u64, name: &[u8]| {
            if let Some(ino) = self.found(Ino(directory), name) {
                places.add(ino);
            }
        };
        match op {
            Op::Create(op) => {
                places.add(Ino(op.parent));
                found(&mut places, op.parent, &op.name);
                if op.kind() == FileKind::Directory {
                    places.add_slot(State::directory_slot(Ino(op.parent), &op.name));
                }
            }
            Op::Link(op) => {
                places.add(Ino(op.parent));
                places.add(Ino(op.ino));
            }
            Op::Unlink(op) => {
                places.add(Ino(op.parent));
                found(&mut places, op.parent, &op.name);
            }
            Op::Rmdir(op) => {
                places.add(Ino(op.parent));
                found(&mut places, op.parent, &op.name);
            }
            Op::Rename(op) => {
                places.add(Ino(op.parent));
                places.add(Ino(op.new_parent));
                found(&mut places, op.parent, &op.name);
                found(&mut places, op.new_parent, &op.new_name);
            }
            Op::Setattr(op) => places.add(Ino(op.ino)),
            Op::Setxattr(op) => places.add(Ino(op.ino)),
            Op::Removexattr(op) => places.add(Ino(op.ino)),
            Op::SetPolicy(op) => places.add(Ino(op.ino)),
            Op::Spread(op) => places.add(Ino(op.ino)),
            Op::Split(op) => places.add(Ino(op.ino)),
            Op::SetLock(op) => places.add(Ino(op.ino)),
            Op::SetOpen(op) => places.add(Ino(op.ino)),
            Op::WriteLease(op) => places.add(Ino(op.ino)),
            Op::DropLease(op) => places.add(Ino(op.ino)),
            Op::Release(op) => places.add(Ino(op.ino)),
            Op::Orphan(op) => places.add(Ino(op.ino)),
            Op::TrimDone(op) => places.add(Ino(op.ino)),
            Op::RelayoutBegin(op) => places.add(Ino(op.ino)),
            Op::Relayout(op) => places.add(Ino(op.ino)),
            Op::RelayoutEnd(op) => places.add(Ino(op.ino)),
            Op::Repair(op) => {
                places.add(crate::repaired(op));
                if let Some(What::EntryMade(op)) = &op.what {
                    places.add(Ino(op.ino));
                }
            }
            // Clients do not ask for others.
            _ => {}
        }
        places
    }
}
