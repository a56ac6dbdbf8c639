//! SkipNumbers: what this group decided last may be lost, but data servers, clients and other groups may know of it. So no
//! number comes a second time: of an inode, of a file's content, of a session, of a trimming. And of each pair it is uncertain who
//! served last.

use crate::errno::Errno;
use crate::inode::Body;
use crate::state::{Context, State};
use weft_wire::proto::{self, OpReply};

/// More inodes than were made in one slot in what may be lost: a thousand a second for two years. (They have numbers of 52
/// bits, so this may be done many times.)
const INODES: u64 = 1 << 36;
/// More sessions: 100 a second for a year. (48 bits.)
const SESSIONS: u64 = 1 << 32;
/// More removals, and more trimmings.
const REMOVALS: u64 = 1 << 40;
/// More contents than one file got: it was emptied each second for 12 days. (32 bits: this is what may be done least often.)
const GENERATIONS: u32 = 1 << 20;

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::SkipNumbers,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    // Done already.
    if op.forced != 0 && op.forced <= state.floors.forced {
        return Err(Errno::EALREADY);
    }
    state.floors.forced = state.floors.forced.max(op.forced);
    let given = state.counters.values().copied().max().unwrap_or(1);
    state.floors.ino = given.max(state.floors.ino).saturating_add(INODES);
    let own = state.inodes.values().map(|inode| match &inode.body {
        Body::File(file) => file.generation,
        _ => 0,
    });
    let given = own.chain(state.reserved.values().copied()).max();
    let given = given.unwrap_or(0).max(state.floors.generation);
    state.floors.generation = given.saturating_add(GENERATIONS);
    for pair in state.pairs.values_mut() {
        pair.uncertain = true;
    }
    state.next_session += SESSIONS;
    state.next_trim += REMOVALS;
    state.next_deletion += REMOVALS;
    Ok(OpReply::default())
}
