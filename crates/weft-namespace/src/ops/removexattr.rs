//! Removexattr: takes an extended attribute away.

use super::setxattr;
use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Removexattr) -> Result<(), Errno> {
    let inode = state.get(Ino(op.ino))?;
    setxattr::check_writable(ctx.cred, inode, &op.name)?;
    let xattrs = state.xattrs.get(&Ino(op.ino));
    if xattrs.is_some_and(|xattrs| xattrs.contains_key(&op.name[..])) {
        Ok(())
    } else {
        Err(Errno::ENODATA)
    }
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::Removexattr) -> OpReply {
    let ino = Ino(op.ino);
    if let Some(xattrs) = state.xattrs.get_mut(&ino) {
        if let Some(value) = xattrs.remove(&op.name[..]) {
            state.counts.xattrs -= 1;
            state.counts.xattr_bytes -= (op.name.len() + value.len()) as u64;
        }
        if xattrs.is_empty() {
            state.xattrs.remove(&ino);
        }
    }
    if let Some(inode) = state.get_mut(ino) {
        inode.touch(ctx.now);
    }
    OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    }
}
