//! The entries of checkpoints and restores (`docs/protocols/checkpoints.md`).

use crate::checkpoints::{CHECKPOINTS_MAX, Cut, is_name};
use crate::errno::Errno;
use crate::restoring::{Closed, Stage};
use crate::state::{Context, State};
use weft_types::{FIRST_GROUP, Ino};
use weft_wire::proto::checkpoint::Stage as Listed;
use weft_wire::proto::op::Op;
use weft_wire::proto::{self, Checkpoint, OpReply, Restore};

/// Objects that are let go, or inodes that are gone through, in one entry.
const STEPS_MAX: u32 = 65_536;

/// Does one of the entries of checkpoints.
pub(super) fn apply(state: &mut State, ctx: &Context, op: &Op) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let mut reply = OpReply::default();
    match op {
        Op::PlanCheckpoint(op) => reply.session = plan(state, ctx, op)?,
        Op::KeepCheckpoint(op) => {
            let listed = state
                .checkpoints
                .list
                .get_mut(&op.id)
                .ok_or(Errno::ENOENT)?;
            if listed.stage() != Listed::Making {
                return Err(Errno::EINVAL);
            }
            listed.set_stage(Listed::Kept);
        }
        Op::EndCheckpoint(op) => {
            let is_restored = |restore: &Restore| restore.checkpoint == op.id;
            if state
                .checkpoints
                .restoring
                .as_ref()
                .is_some_and(is_restored)
            {
                return Err(Errno::EBUSY);
            }
            let listed = state
                .checkpoints
                .list
                .get_mut(&op.id)
                .ok_or(Errno::ENOENT)?;
            listed.set_stage(Listed::Ending);
        }
        Op::ForgetCheckpoint(op) => {
            let listed = state.checkpoints.list.get(&op.id).ok_or(Errno::ENOENT)?;
            if listed.stage() != Listed::Ending {
                return Err(Errno::EBUSY);
            }
            state.checkpoints.list.remove(&op.id);
        }
        Op::BeginRestore(op) => reply.session = begin_restore(state, ctx, op)?,
        Op::EndRestore(op) => {
            let restoring = state.checkpoints.restoring.ok_or(Errno::ESTALE)?;
            if restoring.restore != op.restore {
                return Err(Errno::ESTALE);
            }
            state.checkpoints.restoring = None;
        }
        Op::Cut(op) => cut(state, op)?,
        Op::DropCut(op) => drop_cut(state, op)?,
        Op::ReleaseHeld(op) => reply.created = release(state, op.max.min(STEPS_MAX) as usize),
        Op::CloseForRestore(op) => close(state, ctx, *op)?,
        Op::LoadRecords(op) => state.load_records(op.restore, op.at, &op.records)?,
        Op::TakeLoaded(op) => state.take_loaded(op.restore)?,
        Op::SweepReplaced(op) => {
            let max = op.max.clamp(1, STEPS_MAX) as usize;
            reply.created = state.sweep_replaced(op.restore, max)?;
        }
        Op::ReopenRestored(op) => reopen(state, op.restore)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(reply)
}

fn plan(state: &mut State, ctx: &Context, op: &proto::PlanCheckpoint) -> Result<u64, Errno> {
    let known = &mut state.checkpoints;
    if !is_name(&op.name) || state.group != FIRST_GROUP {
        return Err(Errno::EINVAL);
    }
    if known.of_name(&op.name).is_some() {
        return Err(Errno::EEXIST);
    }
    if known.list.len() >= CHECKPOINTS_MAX {
        return Err(Errno::ENOSPC);
    }
    if known.restoring.is_some() {
        return Err(Errno::EBUSY);
    }
    known.last += 1;
    let checkpoint = Checkpoint {
        id: known.last,
        name: op.name.clone(),
        time: Some(ctx.now.to_proto()),
        stage: Listed::Making as i32,
    };
    known.list.insert(known.last, checkpoint);
    Ok(known.last)
}

fn begin_restore(state: &mut State, ctx: &Context, op: &proto::BeginRestore) -> Result<u64, Errno> {
    let known = &mut state.checkpoints;
    if known.restoring.is_some() {
        return Err(Errno::EALREADY);
    }
    let listed = known.list.get(&op.id).ok_or(Errno::ENOENT)?;
    if listed.stage() != Listed::Kept {
        return Err(Errno::ENOENT);
    }
    known.last_restore += 1;
    known.restoring = Some(Restore {
        restore: known.last_restore,
        checkpoint: op.id,
        time: Some(ctx.now.to_proto()),
    });
    Ok(known.last_restore)
}

fn cut(state: &mut State, op: &proto::Cut) -> Result<(), Errno> {
    if op.id <= state.checkpoints.last_cut {
        return Err(Errno::ESTALE);
    }
    if state.hinders_cut().is_some() {
        return Err(Errno::EBUSY);
    }
    // Those that were dropped and still hold something count, too: an attempt comes again.
    if state.checkpoints.cuts.len() >= 2 * CHECKPOINTS_MAX {
        return Err(Errno::ENOSPC);
    }
    let cut = Cut {
        is_dropped: false,
        counters: state.counters.clone(),
        pairs: state.pairs.keys().copied().collect(),
        slots: state.slots.clone(),
    };
    state.checkpoints.last_cut = op.id;
    state.checkpoints.cuts.insert(op.id, cut);
    Ok(())
}

fn drop_cut(state: &mut State, op: &proto::DropCut) -> Result<(), Errno> {
    let closed = state.checkpoints.closed.as_ref();
    if closed.is_some_and(|closed| closed.restore.checkpoint == op.id) {
        return Err(Errno::EBUSY);
    }
    let known = &mut state.checkpoints;
    known.last_cut = known.last_cut.max(op.id);
    if let Some(cut) = known.cuts.get_mut(&op.id) {
        cut.is_dropped = true;
    }
    // Most often nothing has gone since.
    release(state, 1);
    Ok(())
}

/// Lets objects of dropped cuts go. True: there may be more.
fn release(state: &mut State, max: usize) -> bool {
    let dropped = |state: &State| {
        let mut cuts = state.checkpoints.cuts.iter();
        cuts.find(|(_, cut)| cut.is_dropped).map(|(id, _)| *id)
    };
    let Some(id) = dropped(state) else {
        return false;
    };
    let held: Vec<Ino> = state.held_by(id, max);
    for ino in &held {
        state.let_go(id, *ino);
    }
    if held.len() < max {
        state.checkpoints.cuts.remove(&id);
    }
    dropped(state).is_some()
}

fn close(state: &mut State, ctx: &Context, op: proto::CloseForRestore) -> Result<(), Errno> {
    if op.restore <= state.checkpoints.restored {
        return Err(Errno::ESTALE);
    }
    if let Some(closed) = &state.checkpoints.closed {
        // The first group has one restore at a time.
        let is_same = closed.restore.restore == op.restore;
        return if is_same { Ok(()) } else { Err(Errno::EBUSY) };
    }
    if !state.has_cut(op.checkpoint) {
        return Err(Errno::ENOENT);
    }
    let restore = Restore {
        restore: op.restore,
        checkpoint: op.checkpoint,
        time: Some(ctx.now.to_proto()),
    };
    state.checkpoints.closed = Some(Closed {
        restore,
        stage: Stage::Closed,
    });
    Ok(())
}

fn reopen(state: &mut State, restore: u64) -> Result<(), Errno> {
    let closed = state.checkpoints.closed.as_ref();
    let closed = closed.filter(|closed| closed.restore.restore == restore);
    if closed.ok_or(Errno::ESTALE)?.stage != Stage::Done {
        return Err(Errno::EBUSY);
    }
    state.checkpoints.closed = None;
    state.checkpoints.restored = restore;
    Ok(())
}
