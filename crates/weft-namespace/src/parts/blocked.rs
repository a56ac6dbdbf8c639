//! What waits for a transaction: changes and reads that touch what it has locked.

use super::Locked;
use crate::names::Name;
use crate::state::State;
use weft_types::{Ino, ROOT_INO, TransactionId};
use weft_wire::proto::op::Op;
use weft_wire::proto::{FileKind, Rename};

impl State {
    /// The transaction whose outcome this change has to wait for: one that has locked here what it touches,
    /// of another group's (these are in the state) or, in `own`, of this one's.
    pub fn blocked(&self, own: &Locked, op: &Op) -> Option<TransactionId> {
        if own.is_empty() && self.locked.is_empty() {
            return None;
        }
        let by = self.blocked_by(&self.locked, op);
        by.or_else(|| self.blocked_by(own, op))
    }

    /// Another group's transaction whose outcome a look at this name has to wait for.
    pub fn hides_name(&self, directory: Ino, name: &[u8]) -> Option<TransactionId> {
        if self.locked.is_empty() {
            return None;
        }
        let by = self.locked.name(directory, name);
        by.or_else(|| self.locked.inode(self.found(directory, name)?))
    }

    /// The same for a look at an inode.
    pub fn hides_inode(&self, ino: Ino) -> Option<TransactionId> {
        self.locked.inode(ino)
    }

    /// The same for a listing of a directory.
    pub fn hides_entries(&self, directory: Ino) -> Option<TransactionId> {
        let by = self.locked.inode(directory);
        by.or_else(|| self.locked.names_in(directory).next())
    }

    /// What a plain name stands for.
    fn found(&self, directory: Ino, name: &[u8]) -> Option<Ino> {
        let (_, directory) = self.directory(directory).ok()?;
        match Name::parse(name) {
            Ok(Name::Plain(name)) => directory.find(name).map(|(_, ino)| ino),
            _ => None,
        }
    }

    pub(crate) fn blocked_by(&self, locked: &Locked, op: &Op) -> Option<TransactionId> {
        if locked.is_empty() {
            return None;
        }
        // A name, and what it stands for.
        let name = |directory: u64, name: &[u8]| {
            let directory = Ino(directory);
            let found = || self.found(directory, name);
            let by = locked.name(directory, name);
            by.or_else(|| locked.inode(found()?))
        };
        // What it stands for, if that goes with the name: names in it are about to come or go.
        let empties = |directory: u64, name: &[u8]| {
            let found = self.found(Ino(directory), name)?;
            locked.names_in(found).next()
        };
        match op {
            Op::Create(op) => name(op.parent, &op.name),
            Op::Link(op) => name(op.parent, &op.name).or_else(|| locked.inode(Ino(op.ino))),
            Op::Unlink(op) => name(op.parent, &op.name),
            Op::Rmdir(op) => name(op.parent, &op.name).or_else(|| empties(op.parent, &op.name)),
            Op::Rename(op) => name(op.parent, &op.name)
                .or_else(|| name(op.new_parent, &op.new_name))
                .or_else(|| empties(op.new_parent, &op.new_name))
                .or_else(|| self.moves_above(locked, Ino(op.parent)))
                .or_else(|| self.moves_above(locked, Ino(op.new_parent))),
            Op::Setattr(op) if !op.owed => locked.inode(Ino(op.ino)),
            Op::Setxattr(op) => locked.inode(Ino(op.ino)),
            Op::Removexattr(op) => locked.inode(Ino(op.ino)),
            Op::SetPolicy(op) => locked.inode(Ino(op.ino)),
            Op::SetLock(op) => locked.inode(Ino(op.ino)),
            Op::WriteLease(op) => locked.inode(Ino(op.ino)),
            // What gives something back, and what the service does on its own, changes nothing that a
            // part has checked.
            _ => None,
        }
    }

    /// Who moves this directory or one above it that is here.
    fn moves_above(&self, locked: &Locked, mut directory: Ino) -> Option<TransactionId> {
        loop {
            let by = locked.moving(directory);
            if by.is_some() || directory == ROOT_INO {
                return by;
            }
            directory = self.directory(directory).ok()?.1.parent;
        }
    }

    /// Whether a change has to be done by several groups: part of what it touches is another's.
    pub fn spans_groups(&self, op: &Op) -> bool {
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
