//! The first group drives a restore, from what is journaled: prepare, close, load, reopen. Each step is asked for
//! again until all groups have done it, by whoever leads.

use super::create::ask_all;
use super::{check_first, groups};
use crate::reign::{Core, Meta};
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::GroupId;
use weft_wire::Failed;
use weft_wire::proto::checkpoint::Stage;
use weft_wire::proto::restore_step_request::Step;
use weft_wire::proto::{
    self, CheckpointsReply, CheckpointsRequest, CutStatusRequest, Restore, RestoreCheckpointReply,
    RestoreCheckpointRequest, RestoreStepReply, RestoreStepRequest, op::Op,
};

/// What takes a look, or a journal write.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often groups are asked whether they have done a step.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Where one does not answer it is asked again after this.
const RETRY: Duration = Duration::from_millis(100);
/// Reading, or fetching, images may take this long before whoever asked is told to ask again. It goes on meanwhile.
const PREPARE_MAX: Duration = Duration::from_secs(6);

/// METHOD 131.
pub(crate) fn on_list(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: CheckpointsRequest,
    replier: Replier,
) {
    if let Err(failed) = check_first(meta) {
        return replier.fail(failed);
    }
    let mut reply = CheckpointsReply {
        checkpoints: core.state.checkpoints().cloned().collect(),
        restoring: core.state.restoring(),
        waits: core.checkpoints.waits.clone(),
        last_restore: core.state.last_restore(),
        held: Vec::new(),
    };
    let all = groups(core);
    let newest = core.commits.newest();
    let asked = meta.clone();
    meta.spawn("list checkpoints", async move {
        for checkpoint in &reply.checkpoints {
            let id = checkpoint.id;
            let counted = ask_all(&asked, &all, &CutStatusRequest { id }, PATIENCE).await;
            let counted = counted.unwrap_or_default();
            reply
                .held
                .push(counted.iter().map(|status| status.held).sum());
        }
        match asked.committed(newest).await {
            Ok(()) => replier.send::<CheckpointsRequest>(&reply, Payload::none()),
            Err(failed) => replier.fail(failed),
        }
    });
}

/// METHOD 132.
pub(crate) fn on_restore(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: RestoreCheckpointRequest,
    replier: Replier,
) {
    if let Err(failed) = check_first(meta) {
        return replier.fail(failed);
    }
    let found = core.state.checkpoint_of_name(&request.name);
    let why = match found.map(|it| (it.id, it.stage())) {
        Some((id, Stage::Kept)) => {
            let beginning = meta.clone();
            meta.spawn("begin restore", async move {
                match begin(&beginning, id).await {
                    Ok(restore) => {
                        let reply = RestoreCheckpointReply { restore };
                        replier.send::<RestoreCheckpointRequest>(&reply, Payload::none());
                    }
                    Err(failed) => replier.fail(failed),
                }
            });
            return;
        }
        Some(_) => format!("checkpoint {} is not finished", request.name),
        None => format!(
            "there is no checkpoint {} (weft checkpoint list)",
            request.name
        ),
    };
    replier.fail(Failed::Refused(why));
}

/// Asks all groups whether they can; then journals that it is done.
async fn begin(meta: &Rc<Meta>, checkpoint: u64) -> Result<u64, Failed> {
    let all = groups(&meta.core.borrow());
    let request = RestoreStepRequest {
        restore: 0,
        checkpoint,
        step: Step::Prepare as i32,
    };
    let begun = meta.env.now();
    loop {
        let replies = ask_all(meta, &all, &request, PATIENCE).await?;
        let Some(waiting) = replies.iter().find(|reply| !reply.done) else {
            break;
        };
        if meta.env.now().since(begun) > PREPARE_MAX {
            let why = format!(
                "nothing has been begun yet: {}. Ask again in a while",
                waiting.waits
            );
            return Err(Failed::Unavailable(why));
        }
        meta.env.sleep(ASK_EVERY).await;
    }
    let (reply, sn) = {
        let core = &mut *meta.core.borrow_mut();
        if let Some(failed) = core.commits.refusal() {
            return Err(failed);
        }
        if core.checkpoints.is_making {
            let why = "a checkpoint is being made: wait for its end";
            return Err(Failed::Refused(why.into()));
        }
        meta.apply_own(
            core,
            Op::BeginRestore(proto::BeginRestore { id: checkpoint }),
        )
    };
    match reply.failure_errno as i32 {
        0 => {}
        libc::EALREADY => {
            return Err(Failed::Refused(
                "a checkpoint is being restored already".into(),
            ));
        }
        libc::ENOENT => return Err(Failed::Refused("the checkpoint has been deleted".into())),
        errno => return Err(Failed::Errno(errno)),
    }
    meta.committed(sn).await?;
    meta.core.borrow().checkpoints.changed.notify_waiters();
    Ok(reply.session)
}

/// Carries restores out, as long as the reign lasts.
pub(crate) async fn drive(meta: Rc<Meta>) {
    let changed = meta.core.borrow().checkpoints.changed.clone();
    loop {
        let told = changed.notified();
        let restoring = meta.core.borrow().state.restoring();
        match restoring {
            Some(restoring) => {
                if carry_out(&meta, restoring).await.is_err() {
                    return;
                }
            }
            None => told.await,
        }
    }
}

/// All steps of a restore. An error: nothing is committed here any more.
async fn carry_out(meta: &Rc<Meta>, restoring: Restore) -> Result<(), Failed> {
    let (restore, checkpoint) = (restoring.restore, restoring.checkpoint);
    let begun = meta.env.now();
    tracing::info!(
        restore,
        checkpoint,
        "all groups are brought back to a checkpoint"
    );
    for step in [Step::Close, Step::Load, Step::Reopen] {
        all_do(meta, (restore, checkpoint), step).await;
    }
    let sn = {
        let core = &mut *meta.core.borrow_mut();
        core.checkpoints.waits.clear();
        meta.apply_own(core, Op::EndRestore(proto::EndRestore { restore }))
            .1
    };
    meta.committed(sn).await?;
    tracing::info!(restore, checkpoint, took = ?meta.env.now().since(begun), "all groups are brought back");
    Ok(())
}

/// Returns when all groups have done a step.
async fn all_do(meta: &Rc<Meta>, (restore, checkpoint): (u64, u64), step: Step) {
    let request = RestoreStepRequest {
        restore,
        checkpoint,
        step: step as i32,
    };
    let mut left: Vec<GroupId> = groups(&meta.core.borrow());
    loop {
        let asked = left.iter().map(|group| {
            let request = &request;
            async move {
                let answer = ask_all(meta, &[*group], request, PATIENCE).await;
                (*group, answer.map(|replies| replies.into_iter().next()))
            }
        });
        let mut pause = ASK_EVERY;
        let mut waits = String::new();
        let mut rest = Vec::new();
        for (group, answer) in join_all(asked).await {
            match answer {
                Ok(Some(RestoreStepReply { done: true, .. })) => continue,
                Ok(reply) => waits = format!("group {group}: {}", reply.unwrap_or_default().waits),
                Err(failed) => {
                    tracing::debug!(%group, %failed, ?step, "a step of a restore is not done yet");
                    waits = failed.to_string();
                    pause = RETRY;
                }
            }
            rest.push(group);
        }
        left = rest;
        if left.is_empty() {
            return;
        }
        meta.core.borrow_mut().checkpoints.waits = waits;
        meta.env.sleep(pause).await;
    }
}
