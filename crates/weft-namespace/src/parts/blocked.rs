//! What waits for a transaction: changes and reads that touch what it has locked.

use super::Locked;
use crate::names::Name;
use crate::state::State;
use weft_types::{Ino, ROOT_INO, TransactionId};
use weft_wire::proto::op::Op;

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
        if name == b".." {
            // Where it lies is about to change.
            return self.locked.inode(directory);
        }
        let by = self.locked.name(directory, name);
        by.or_else(|| self.hides_entries(self.found(directory, name)?))
    }

    /// The same for a look at an inode.
    pub fn hides_inode(&self, ino: Ino) -> Option<TransactionId> {
        self.locked.inode(ino)
    }

    /// The same for a listing of a directory, or a look at what its names change of it.
    pub fn hides_entries(&self, directory: Ino) -> Option<TransactionId> {
        let by = self.locked.inode(directory);
        by.or_else(|| self.locked.names_in(directory).next())
    }

    /// The transaction that has locked the inode or, of a directory, names in it; as [`State::blocked`].
    pub fn locks(&self, own: &Locked, ino: Ino) -> Option<TransactionId> {
        if own.is_empty() && self.locked.is_empty() {
            return None;
        }
        let mut by = [&self.locked, own].into_iter();
        by.find_map(|locked| locked.inode(ino).or_else(|| locked.names_in(ino).next()))
    }

    /// What a plain name stands for.
    pub(crate) fn found(&self, directory: Ino, name: &[u8]) -> Option<Ino> {
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
            Op::Spread(op) => locked.inode(Ino(op.ino)),
            Op::SetLock(op) => locked.inode(Ino(op.ino)),
            Op::SetOpen(op) => locked.inode(Ino(op.ino)),
            Op::WriteLease(op) => locked.inode(Ino(op.ino)),
            Op::Orphan(op) => locked.inode(Ino(op.ino)),
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
}
