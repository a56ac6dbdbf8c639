//! Inodes that have lost their last name, or whoever held them without one, and stay for a moment.
//!
//! A client's kernel goes on using the number of an inode that it has looked up. Whoever comes with such a number says by
//! `Orphan` that he holds the inode, which is like having it open: it stays until his `Release`. When nobody has come
//! the active says `LetGo` (`docs/protocols/leases.md`, "What the kernel still has"). Directories do not linger: what
//! has been removed and is empty has nothing that a client could not answer by itself.
//!
//! Which inodes linger is derived: those without a name that nobody holds. Since when is the active's to know.

use crate::errno::Errno;
use crate::inode::Inode;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

/// What becomes of an inode that nobody names or holds any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unkept {
    /// Entries of before there was any lingering say so, and what ends whole sessions.
    Goes,
    Lingers,
}

impl Unkept {
    pub(crate) fn of_entry(entry: &proto::Entry) -> Unkept {
        match entry.lingers {
            true => Unkept::Lingers,
            false => Unkept::Goes,
        }
    }
}

pub(crate) fn may_linger(inode: &Inode) -> bool {
    !inode.is_directory()
}

impl State {
    /// An inode without a name that nobody holds goes, or lingers.
    pub(crate) fn end_if_unused(&mut self, ino: Ino, unkept: Unkept) {
        let inode = self.inodes.get(&ino);
        let lingers = unkept == Unkept::Lingers
            && !self.holds.contains_key(&ino)
            && inode.is_some_and(|inode| inode.nlink == 0 && may_linger(inode));
        if lingers {
            self.lingering.insert(ino);
        } else {
            self.remove_if_unused(ino);
        }
    }

    /// The inodes that linger, in order.
    pub fn lingering(&self) -> impl Iterator<Item = Ino> + '_ {
        self.lingering.iter().copied()
    }

    /// The inode has no name, and nobody holds it: it will go.
    pub fn lingers(&self, ino: Ino) -> bool {
        self.lingering.contains(&ino)
    }
}

/// LetGo: these have lingered for long enough.
pub(crate) fn let_go(
    state: &mut State,
    ctx: &Context,
    op: &proto::LetGo,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    for ino in op.inos.iter().copied().map(Ino) {
        if state.lingers(ino) {
            state.remove_if_unused(ino);
        }
    }
    Ok(OpReply::default())
}
