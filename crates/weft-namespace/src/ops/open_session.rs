//! OpenSession: a client arrives.

use crate::errno::Errno;
use crate::sessions::Session;
use crate::state::{Context, State};
use weft_types::SessionId;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::OpenSession,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let session = state.next_session;
    state.next_session += 1;
    let mut new = Session::new(&op.name);
    new.keep_ms = op.keep_ms;
    new.term_ms = op.term_ms;
    new.only_moves = op.only_moves;
    state.sessions.insert(SessionId(session), new);
    Ok(OpReply {
        session,
        ..OpReply::default()
    })
}
