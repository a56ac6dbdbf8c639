//! Whether a change is one group's, or has to be planned.

use crate::state::State;
use weft_types::Ino;
use weft_wire::proto::op::Op;
use weft_wire::proto::{FileKind, Rename};

impl State {
    /// Whether a change has to be done by several groups: part of what it touches is another's.
    pub fn spans_groups(&self, op: &Op) -> bool {
        if self.concerns_shards(op) {
            return true;
        }
        if self.slots.is_all() {
            return false;
        }
        let is_foreign = |ino: Ino| !self.slots.has(ino.slot());
        let names_foreign =
            |directory: u64, name: &[u8]| self.found(Ino(directory), name).is_some_and(is_foreign);
        match op {
            Op::Create(op) if op.kind() == FileKind::Directory => {
                let slot = State::directory_slot(Ino(op.parent), &op.name);
                // A name that is there is refused here.
                !self.slots.has(slot) && self.found(Ino(op.parent), &op.name).is_none()
            }
            Op::Link(op) => is_foreign(Ino(op.ino)),
            Op::Unlink(op) => names_foreign(op.parent, &op.name),
            Op::Rmdir(op) => names_foreign(op.parent, &op.name),
            Op::Rename(op) => {
                is_foreign(Ino(op.new_parent))
                    || names_foreign(op.parent, &op.name)
                    || names_foreign(op.new_parent, &op.new_name)
                    || (op.parent != op.new_parent && self.leaves_upwards(op))
            }
            _ => false,
        }
    }

    /// A directory gets another parent, and whether that lies in it is not known here.
    fn leaves_upwards(&self, op: &Rename) -> bool {
        let is_directory = |directory: u64, name: &[u8]| {
            let found = self.found(Ino(directory), name);
            found.is_some_and(|ino| self.directory(ino).is_ok())
        };
        let moves = is_directory(op.parent, &op.name);
        let comes = op.exchange && is_directory(op.new_parent, &op.new_name);
        let ends_elsewhere =
            |directory: u64, sought| self.walk_up(Ino(directory), sought).is_elsewhere();
        let source = self.found(Ino(op.parent), &op.name).unwrap_or_default();
        let target = self
            .found(Ino(op.new_parent), &op.new_name)
            .unwrap_or_default();
        moves && ends_elsewhere(op.new_parent, source) || comes && ends_elsewhere(op.parent, target)
    }
}
