//! TrimDone: the remains of a truncation are gone from the objects.

use crate::errno::Errno;
use crate::state::State;
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(state: &mut State, op: &proto::TrimDone) -> Result<OpReply, Errno> {
    let ino = Ino(op.ino);
    state.get(ino)?;
    // Another number is of an earlier truncation: a later one is still to be done.
    if state
        .trims
        .get(&ino)
        .is_some_and(|trim| trim.seq == op.trim_seq)
    {
        state.trims.remove(&ino);
    }
    Ok(state.file_reply(ino))
}
