//! AddPair and SetPairState: the pairs of data servers, and who may serve each.

use crate::errno::Errno;
use crate::state::{Context, State};
use weft_types::PairId;
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{self, OpReply, PairState};

pub(super) fn add(state: &mut State, ctx: &Context, op: &proto::AddPair) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let pair = PairId(op.pair);
    if state.pairs.contains_key(&pair) {
        return Err(Errno::EEXIST);
    }
    let both = PairState {
        pair: op.pair,
        epoch: 1,
        mode: Mode::Both as i32,
        ..PairState::default()
    };
    state.pairs.insert(pair, both);
    Ok(OpReply::default())
}

pub(super) fn set_state(
    state: &mut State,
    ctx: &Context,
    op: &proto::SetPairState,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let new = op.state.ok_or(Errno::EINVAL)?;
    let current = state
        .pairs
        .get_mut(&PairId(new.pair))
        .ok_or(Errno::ENOENT)?;
    if !is_valid(&new) {
        return Err(Errno::EINVAL);
    }
    if new.epoch <= current.epoch {
        return Err(Errno::ESTALE);
    }
    *current = new;
    Ok(OpReply::default())
}

/// True for a state that a pair can be in.
pub(crate) fn is_valid(state: &PairState) -> bool {
    state.serving <= 1 && !matches!(Mode::try_from(state.mode), Err(_) | Ok(Mode::Unspecified))
}
