//! Receive, Give, Own, Discard, Adopt: slots that move between groups (`docs/protocols/slots.md`).

use crate::errno::Errno;
use crate::slots::{Arriving, Attempt, Given, slot_of};
use crate::state::{Context, State};
use weft_types::{GroupId, ROOT_INO, SLOTS, SessionId, Slot};
use weft_wire::proto::{self, OpReply};

fn named(slot: u32, attempt: Option<&proto::SlotAttempt>) -> Result<(Slot, Attempt), Errno> {
    let slot = slot_of(slot).filter(|slot| *slot != ROOT_INO.slot());
    slot.zip(Attempt::of(attempt)).ok_or(Errno::EINVAL)
}

/// Some of a slot has come. A number that was taken changes nothing; ESTALE: it is not the next one, or of
/// an attempt that is over.
pub(super) fn receive(
    state: &mut State,
    ctx: &Context,
    op: &proto::Receive,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let (slot, attempt) = named(op.slot, op.attempt.as_ref())?;
    let from = GroupId(op.from);
    if from == state.group || op.from >= u32::from(SLOTS) {
        return Err(Errno::EINVAL);
    }
    if state.slots.has(slot) {
        return Err(Errno::EEXIST);
    }
    let keyed: Result<Vec<_>, Errno> = op
        .pieces
        .iter()
        .map(|piece| Ok((Arriving::key(slot, piece)?, piece)))
        .collect();
    let keyed = keyed?;
    let known = state.arriving.get(&slot);
    if known.is_some_and(|known| known.from == from && known.attempt > attempt) {
        return Err(Errno::ESTALE);
    }
    let is_new = known.is_none_or(|known| (known.from, known.attempt) != (from, attempt));
    let next = known.filter(|_| !is_new).map_or(0, |known| known.next);
    if op.number > next {
        return Err(Errno::ESTALE);
    }
    if op.number == next {
        if is_new {
            state.arriving.insert(slot, Arriving::new(from, attempt));
        }
        if let Some(arriving) = state.arriving.get_mut(&slot) {
            arriving.take(&keyed);
        }
    }
    Ok(OpReply::default())
}

/// The slot goes to another group.
pub(super) fn give(state: &mut State, ctx: &Context, op: &proto::Give) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let (slot, attempt) = named(op.slot, op.attempt.as_ref())?;
    let to = GroupId(op.to);
    if to == state.group || op.to >= u32::from(SLOTS) {
        return Err(Errno::EINVAL);
    }
    state.check_give(slot)?;
    state.take_out(slot, Given { to, attempt });
    Ok(OpReply::default())
}

/// The slot has come. That it can was checked before it was given.
pub(super) fn own(state: &mut State, ctx: &Context, op: &proto::Own) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let (slot, attempt) = named(op.slot, op.attempt.as_ref())?;
    let arriving = state.arriving.get(&slot);
    let arriving = arriving.filter(|arriving| arriving.attempt == attempt);
    let arriving = arriving.ok_or(Errno::ESTALE)?;
    let part = state.received(slot, arriving).map_err(|_| Errno::EINVAL)?;
    state.arriving.remove(&slot);
    state.take_in(slot, part);
    Ok(OpReply::default())
}

/// The attempt is void.
pub(super) fn discard(
    state: &mut State,
    ctx: &Context,
    op: &proto::Discard,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let (slot, attempt) = named(op.slot, op.attempt.as_ref())?;
    let arriving = state.arriving.get(&slot);
    if arriving.is_some_and(|arriving| arriving.attempt == attempt) {
        state.arriving.remove(&slot);
    }
    Ok(OpReply::default())
}

/// A guest is a client of which this is the session.
pub(super) fn adopt(state: &mut State, ctx: &Context, op: &proto::Adopt) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let (guest, session) = (SessionId(op.guest), SessionId(op.session));
    if !state.is_guest(guest) || state.is_guest(session) {
        return Err(Errno::EINVAL);
    }
    if !state.session_exists(session) {
        return Err(Errno::ESTALE);
    }
    let wakes = !state.locks_of(guest).is_empty();
    state.adopt(guest, session);
    Ok(OpReply {
        session: session.0,
        wake_waiters: wakes,
        ..OpReply::default()
    })
}
