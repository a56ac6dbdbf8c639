//! Orphan: a session has an inode open whose last name is about to go.
//!
//! It comes before the change that takes the name away. The session holds the inode from then on,
//! whether that change succeeds or not, until its Release or its end.

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
    state.get(ino)?;
    if !state.session_exists(session) {
        return Err(Errno::ESTALE);
    }
    state.hold(ino, session);
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}
