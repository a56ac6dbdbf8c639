//! CloseSession: a client leaves, or has been silent for too long. Everything of its is freed.
//!
//! What the holder of a write lease owed is lost with it: the service settles the sizes of those
//! files (SettledSize) before it closes the session of a client that vanished.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::SessionId;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::CloseSession,
) -> Result<OpReply, Errno> {
    let id = SessionId(op.session);
    if ctx.session.0 != 0 && ctx.session != id {
        return Err(Errno::EPERM);
    }
    let session = state.sessions.remove(&id).ok_or(Errno::ESTALE)?;
    for ino in &session.write_leases {
        state.drop_write_lease(*ino, id);
    }
    for ino in &session.locks {
        if let Some(locks) = state.locks.get_mut(ino) {
            locks.drop_session(id);
            if locks.is_empty() {
                state.locks.remove(ino);
            }
        }
    }
    state.end_moves_of(id);
    for ino in &session.holds {
        state.release(*ino, id);
    }
    Ok(OpReply {
        session: id.0,
        wake_waiters: !session.locks.is_empty(),
        ..OpReply::default()
    })
}
