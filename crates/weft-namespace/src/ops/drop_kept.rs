//! DropKept: somebody has all that it wants of what was kept for it, by way of another session.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::SessionId;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::DropKept,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    if op.behalf == 0 {
        return Err(Errno::EINVAL);
    }
    for session in &op.sessions {
        state.drop_kept(SessionId(*session), op.behalf);
    }
    Ok(OpReply::default())
}
