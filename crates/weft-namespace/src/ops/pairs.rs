//! AddPair and SetPairState: the pairs of data servers, and who may serve each.

use crate::errno::Errno;
use crate::state::{Context, Life, Removed, State};
use std::num::NonZeroU64;
use weft_types::{Epoch, Member, PairId};
use weft_wire::proto::job::What;
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{self, OpReply, PairState};

pub(super) fn add(state: &mut State, ctx: &Context, op: &proto::AddPair) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let pair = PairId(op.pair);
    if state.pairs.contains_key(&pair) {
        return Err(Errno::EEXIST);
    }
    if state.is_removed(pair) {
        return Err(Errno::EPERM);
    }
    let before = state.removed_pairs.remove(&pair);
    let (epoch, serving) = before.map_or((0, 0), |last| (last.epoch.0, last.serving));
    let both = PairState {
        pair: op.pair,
        epoch: epoch + 1,
        mode: Mode::Both as i32,
        serving,
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

/// A pair that was drained is gone. That nothing lies on it the service has seen: nothing can have come
/// to lie there since the draining began.
pub(super) fn remove(
    state: &mut State,
    ctx: &Context,
    op: &proto::RemovePair,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let pair = PairId(op.pair);
    let last = *state.pairs.get(&pair).ok_or(Errno::ENOENT)?;
    if !state.draining.contains(&pair) || state.keeps_pair(pair).is_some() {
        return Err(Errno::EBUSY);
    }
    state.pairs.remove(&pair);
    let drains = |job: &&proto::Job| match job.what {
        Some(What::Drain(drain)) => job.ended.is_none() && PairId(drain.pair) == pair,
        _ => false,
    };
    if let Some(job) = state.jobs.values().find(drains).map(|job| job.id) {
        state.end_job(job, ctx.now, false);
    }
    let removed = Removed {
        epoch: Epoch(last.epoch),
        serving: last.serving,
        is_admitted: false,
    };
    state.removed_pairs.insert(pair, removed);
    state.retired.retain(|(of, _), _| *of != pair);
    Ok(OpReply::default())
}

/// A pair that was removed may be added again.
pub(super) fn admit(
    state: &mut State,
    ctx: &Context,
    op: &proto::AdmitPair,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let removed = state.removed_pairs.get_mut(&PairId(op.pair));
    removed.ok_or(Errno::ENOENT)?.is_admitted = true;
    Ok(OpReply::default())
}

/// A member's store is given up, or taken back.
pub(super) fn retire_store(
    state: &mut State,
    ctx: &Context,
    op: &proto::RetireStore,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let member = Member::from_index(op.member).ok_or(Errno::EINVAL)?;
    let pair = PairId(op.pair);
    if !state.pairs.contains_key(&pair) {
        return Err(Errno::ENOENT);
    }
    match NonZeroU64::new(op.store) {
        Some(store) => state.retired.insert((pair, member), store),
        None => state.retired.remove(&(pair, member)),
    };
    Ok(OpReply::default())
}

/// A member's store has come to another life.
pub(super) fn note_life(
    state: &mut State,
    ctx: &Context,
    op: &proto::NoteLife,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let member = Member::from_index(op.member).ok_or(Errno::EINVAL)?;
    let store = NonZeroU64::new(op.store).ok_or(Errno::EINVAL)?;
    let pair = PairId(op.pair);
    if !state.pairs.contains_key(&pair) {
        return Err(Errno::ENOENT);
    }
    let life = op.life;
    state.lives.insert((pair, member), Life { store, life });
    Ok(OpReply::default())
}

/// True for a state that a pair can be in.
pub(crate) fn is_valid(state: &PairState) -> bool {
    state.serving <= 1 && !matches!(Mode::try_from(state.mode), Err(_) | Ok(Mode::Unspecified))
}
