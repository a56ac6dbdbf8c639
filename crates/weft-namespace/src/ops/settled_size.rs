//! SettledSize: how large a file is whose writer vanished, found again from the data servers.

use crate::errno::Errno;
use crate::inode::Body;
use crate::state::{Context, State};
use weft_types::{BLOCK_BYTES, FILE_BYTES_MAX, Ino, SessionId};
use weft_wire::proto::{self, OpReply};

pub(super) fn check(state: &State, ctx: &Context, op: &proto::SettledSize) -> Result<(), Errno> {
    ctx.check_service()?;
    state.file(Ino(op.ino))?;
    if op.size > FILE_BYTES_MAX {
        Err(Errno::EFBIG)
    } else {
        Ok(())
    }
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::SettledSize) -> OpReply {
    let ino = Ino(op.ino);
    let writer = match op.session {
        0 => state.write_lease(ino),
        session => Some(SessionId(session)),
    };
    if let Some(session) = writer {
        state.drop_write_lease(ino, session);
    }
    let size = match state.is_shared(ino) {
        // The others may have told more since the objects were looked at.
        true => state.file_size(ino).max(op.size),
        false => op.size,
    };
    // A writer trims before it writes. While that is still to be done nothing new can have been
    // written, and what the data servers found are the remains.
    let has_remains = state.has_remains(ino);
    if let Some(inode) = state.get_mut(ino)
        && let Body::File(file) = &mut inode.body
        && file.size != size
        && !has_remains
    {
        file.size = size;
        file.allocated = size.next_multiple_of(BLOCK_BYTES);
        inode.touch_content(ctx.now);
    }
    state.file_reply(ino)
}
