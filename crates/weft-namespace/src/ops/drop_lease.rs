//! DropLease: the session gives its write lease back. Nothing to do if it has none any more.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::DropLease,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    state.drop_write_lease(ino, ctx.session);
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}
