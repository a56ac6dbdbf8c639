//! WriteLease: the session takes the write lease on a regular file that nobody else has; or writes it
//! beside the others that share it.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) fn check(state: &State, ctx: &Context, op: &proto::WriteLease) -> Result<(), Errno> {
    ctx.check_session()?;
    state.file(Ino(op.ino)).map(|_| ())
}

pub(super) fn commit(
    state: &mut State,
    ctx: &Context,
    op: &proto::WriteLease,
) -> Result<OpReply, Errno> {
    let ino = Ino(op.ino);
    if op.shared {
        let alone = state.write_lease(ino);
        if alone.is_some_and(|holder| holder != ctx.session) {
            return Err(Errno::EBUSY);
        }
        state.share_write_lease(ino, ctx.session);
    } else {
        state.check_no_other_writer(ino, ctx.session)?;
        state.give_write_lease(ino, ctx.session);
    }
    Ok(state.file_reply(ino))
}
