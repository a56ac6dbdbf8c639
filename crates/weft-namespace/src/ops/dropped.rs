//! Dropped: objects are gone from their pairs.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::Dropped,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    for id in &op.queue_ids {
        state.deletions.remove(id);
    }
    Ok(OpReply::default())
}
