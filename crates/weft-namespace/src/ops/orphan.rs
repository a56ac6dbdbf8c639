//! Orphan: a session holds an inode that has no name, or whose last name is about to go.
//!
//! The service says so of a session that has it open, before the change that takes the name away; a client of itself
//! when its kernel still has the number of one that lingers. The session holds the inode from then on, whether that
//! change succeeds or not, until its Release or its end.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::{Ino, SessionId};
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::Orphan,
) -> Result<OpReply, Errno> {
    let session = SessionId(op.session);
    if ctx.session.0 != 0 && ctx.session != session {
        return Err(Errno::EPERM);
    }
    let ino = Ino(op.ino);
    let inode = state.inodes.get(&ino).ok_or(Errno::ESTALE)?;
    if inode.is_directory() && ctx.session.0 != 0 {
        return Err(Errno::EISDIR);
    }
    if !state.session_exists(session) {
        return Err(Errno::ESTALE);
    }
    state.hold(ino, session);
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}
