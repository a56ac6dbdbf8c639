//! NewReign: the first entry of each active's.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::Epoch;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::NewReign,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    if Epoch(op.epoch) <= state.reign {
        return Err(Errno::ESTALE);
    }
    state.reign = Epoch(op.epoch);
    Ok(OpReply::default())
}
