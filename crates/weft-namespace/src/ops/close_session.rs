//! CloseSession: a client leaves, or has been silent for too long. Everything of its is freed, but for what it held on
//! behalf of others if that is to be kept (`remnants.rs`).
//!
//! What the holder of a write lease owed is lost with it: the service settles the sizes of those
//! files (SettledSize) before it closes the session of a client that vanished.

use crate::errno::Errno;
use crate::lingering::Unkept;
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
    let session = state.sessions.get(&id).ok_or(Errno::ESTALE)?;
    let had_locks = !session.locks.is_empty();
    let is_kept = op.keep && !session.is_ended && !state.is_guest(id);
    let write_leases = session.write_leases.clone();
    for ino in write_leases {
        state.drop_write_lease(ino, id);
    }
    state.end_moves_of(id);
    if is_kept {
        state.make_remnant(id, &op.gone);
    } else {
        free(state, id);
    }
    Ok(OpReply {
        session: id.0,
        wake_waiters: had_locks,
        ..OpReply::default()
    })
}

/// Nothing of it is left.
fn free(state: &mut State, id: SessionId) {
    let Some(session) = state.sessions.remove(&id) else {
        return;
    };
    for ino in &session.locks {
        if let Some(locks) = state.locks.get_mut(ino) {
            locks.drop_session(id);
            if locks.is_empty() {
                state.locks.remove(ino);
            }
        }
    }
    for ino in &session.opens {
        if let Some(opens) = state.opens.get_mut(ino) {
            opens.drop_session(id);
            if opens.is_empty() {
                state.opens.remove(ino);
            }
        }
    }
    for ino in &session.holds {
        state.release(*ino, id, Unkept::Goes);
    }
}
