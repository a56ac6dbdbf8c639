//! Release: the session no longer holds an inode without a name.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::Release,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    state.release(ino, ctx.session, ctx.unkept);
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}
