//! Link: another name of a file.

use crate::errno::Errno;
use crate::names::Name;
use crate::state::{Context, LINKS_MAX, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Link) -> Result<(), Errno> {
    let inode = state.get(Ino(op.ino))?;
    let (parent, directory) = state.searchable(ctx.cred, Ino(op.parent))?;
    let Name::Plain(name) = Name::parse(&op.name)? else {
        return Err(Errno::EEXIST);
    };
    if directory.find(name).is_some() {
        return Err(Errno::EEXIST);
    }
    state.check_may_create(ctx.cred, parent)?;
    if inode.is_directory() {
        return Err(Errno::EPERM);
    }
    check_links(state, Ino(op.ino), inode.nlink, op.unnamed)
}

/// A file may get one name more. One without a name may if it never had one; who says so holds it, or it would be gone.
pub(crate) fn check_links(state: &State, ino: Ino, nlink: u32, unnamed: bool) -> Result<(), Errno> {
    match nlink {
        0 if unnamed && state.holds.contains_key(&ino) => Ok(()),
        0 => Err(Errno::ENOENT),
        LINKS_MAX.. => Err(Errno::EMLINK),
        _ => Ok(()),
    }
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::Link) -> OpReply {
    let (ino, parent) = (Ino(op.ino), Ino(op.parent));
    state.add_entry(parent, &op.name, ino);
    state.touch_directory(parent, ctx.now, 0);
    if let Some(inode) = state.get_mut(ino) {
        inode.nlink += 1;
        inode.touch(ctx.now);
    }
    OpReply {
        parent: state.attr(parent),
        ..state.file_reply(ino)
    }
}
