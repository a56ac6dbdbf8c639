//! StartJob, MarkJob, EndJob, GivePolicy: work on many files, which the service does by itself
//! (`docs/protocols/relayout.md`).

use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::moves::{JOBS_MAX, effective};
use crate::state::{Context, State};
use weft_types::{Ino, PairId};
use weft_wire::proto::job::What;
use weft_wire::proto::{self, Job, OpReply};

/// The number of the new job is the answer's `session`.
pub(super) fn start(
    state: &mut State,
    ctx: &Context,
    op: &proto::StartJob,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let job = op.job.as_ref().ok_or(Errno::EINVAL)?;
    let running = |state: &State| {
        state
            .jobs
            .values()
            .filter(|job| job.ended.is_none())
            .count()
    };
    if running(state) >= JOBS_MAX {
        return Err(Errno::EAGAIN);
    }
    match job.what.as_ref().ok_or(Errno::EINVAL)? {
        What::Drain(drain) => {
            let pair = PairId(drain.pair);
            if !state.pairs.contains_key(&pair) {
                return Err(Errno::ENOENT);
            }
            if state.draining.contains(&pair) {
                return Err(Errno::EALREADY);
            }
            if state.cut_with_pair(pair).is_some() {
                // What is moved off it would be held there.
                return Err(Errno::EBUSY);
            }
            if state.pairs.len() <= state.draining.len() + 1 {
                // There would be nowhere to go.
                return Err(Errno::ENOSPC);
            }
        }
        What::Rebalance(_) => {
            let mut others = state.jobs.values().filter(|job| job.ended.is_none());
            if others.any(|job| matches!(job.what, Some(What::Rebalance(_)))) {
                return Err(Errno::EALREADY);
            }
        }
        What::Relay(tree) => {
            state.directory(Ino(tree.root))?;
            effective(tree.policy.as_ref().ok_or(Errno::EINVAL)?)?;
        }
    }
    state.last_job += 1;
    let id = state.last_job;
    let job = Job {
        what: job.what,
        id,
        started: Some(ctx.now.to_proto()),
        ..Job::default()
    };
    state.jobs.insert(id, job);
    state.note_draining();
    Ok(OpReply {
        session: id,
        ..OpReply::default()
    })
}

pub(super) fn mark(
    state: &mut State,
    ctx: &Context,
    op: &proto::MarkJob,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    state.running(op.job)?;
    if let Some(job) = state.jobs.get_mut(&op.job) {
        job.stage = job.stage.max(op.stage);
    }
    Ok(OpReply::default())
}

pub(super) fn end(state: &mut State, ctx: &Context, op: &proto::EndJob) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    state.running(op.job)?;
    state.end_job(op.job, ctx.now, op.cancelled);
    Ok(OpReply::default())
}

/// Nobody caches policies, and no time of the directory shows them: nothing is touched.
pub(super) fn give_policy(
    state: &mut State,
    ctx: &Context,
    op: &proto::GivePolicy,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    state.running(op.job)?;
    let policy = effective(op.policy.as_ref().ok_or(Errno::EINVAL)?)?;
    state.directory(Ino(op.ino))?;
    if let Some(Inode {
        body: Body::Directory(directory),
        ..
    }) = state.get_mut(Ino(op.ino))
    {
        directory.policy = policy;
    }
    Ok(OpReply::default())
}
