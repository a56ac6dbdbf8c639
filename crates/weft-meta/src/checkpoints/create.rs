//! The first group's list of checkpoints: how one is made, with all groups, and how it goes.

use super::{check_first, groups, steps};
use crate::reign::{Core, Meta};
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{FIRST_GROUP, GroupId};
use weft_wire::proto::checkpoint::Stage;
use weft_wire::proto::{
    self, CreateCheckpointReply, CreateCheckpointRequest, CutRequest, CutStatusReply,
    CutStatusRequest, DeleteCheckpointReply, DeleteCheckpointRequest, DropCutRequest, GoOnRequest,
    WriteBackRequest, op::Op,
};
use weft_wire::{Failed, Rpc};

/// What takes a look, or a journal write.
const PATIENCE: Duration = Duration::from_secs(2);
/// Attempts to have all groups hold at one moment, and the pause between two.
const ATTEMPTS_MAX: u32 = 10;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);
/// How often it is looked how far the images are.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A checkpoint whose images are not there by then is given up. They are written in the background.
const IMAGES_PATIENCE: Duration = Duration::from_secs(3600);
/// A group that does not answer for so long while they are waited for ends the attempt.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Groups that could not drop a cut are asked again after this.
const RETRY: Duration = Duration::from_secs(1);

/// METHOD 130.
pub(crate) fn on_create(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: CreateCheckpointRequest,
    replier: Replier,
) {
    if let Err(failed) = check_first(meta) {
        return replier.fail(failed);
    }
    if std::mem::replace(&mut core.checkpoints.is_making, true) {
        let why = "another checkpoint is being made: wait for its end";
        return replier.fail(Failed::Refused(why.into()));
    }
    let making = meta.clone();
    meta.spawn("make checkpoint", async move {
        create(&making, &request.name, replier).await;
        let known = &mut making.core.borrow_mut().checkpoints;
        known.is_making = false;
        known.making = None;
        known.changed.notify_waiters();
    });
}

/// Makes a checkpoint. What an attempt leaves that failed is cleared away by [`clear_away`].
async fn create(meta: &Rc<Meta>, name: &str, replier: Replier) {
    let all = groups(&meta.core.borrow());
    let (id, reply) = match begin(meta, &all, name).await {
        Ok(begun) => begun,
        Err(failed) => return replier.fail(failed),
    };
    tracing::info!(
        checkpoint = id,
        name,
        held_us = reply.held_us,
        attempt = reply.attempts,
        "all groups have cut for a checkpoint"
    );
    replier.send::<CreateCheckpointRequest>(&reply, Payload::none());
    let kept = match images(meta, &all, id).await {
        Ok(()) => finish(meta, id).await,
        Err(failed) => Err(failed),
    };
    match kept {
        Ok(()) => tracing::info!(checkpoint = id, name, "a checkpoint is made"),
        Err(failed) => {
            tracing::warn!(checkpoint = id, name, %failed, "a checkpoint could not be made");
            // If that is not journaled now, whoever leads next finds it unfinished.
            let _: Result<(), _> = end(meta, id).await;
        }
    }
}

/// Has all groups cut at one moment, as often as that has to be tried.
async fn begin(
    meta: &Rc<Meta>,
    all: &[GroupId],
    name: &str,
) -> Result<(u64, CreateCheckpointReply), Failed> {
    // Also so that there are connections when it is urgent.
    for status in ask_all(meta, all, &CutStatusRequest { id: 0 }, PATIENCE).await? {
        if !status.hinders.is_empty() {
            return Err(Failed::Refused(status.hinders));
        }
    }
    check_name(&meta.core.borrow(), name)?;
    let patience = steps::WRITE_BACK_MAX + PATIENCE;
    let written = ask_all(meta, all, &WriteBackRequest {}, patience).await?;
    let unwritten = written.iter().map(|reply| reply.unwritten).sum();
    let mut why = String::new();
    for attempts in 1..=ATTEMPTS_MAX {
        let id = plan(meta, name).await?;
        match cut_all(meta, all, id).await {
            Ok(held) => {
                let reply = CreateCheckpointReply {
                    id,
                    held_us: held.as_micros() as u64,
                    attempts,
                    unwritten,
                };
                return Ok((id, reply));
            }
            Err(failed) => {
                tracing::info!(checkpoint = id, name, %failed, "an attempt to make a checkpoint is void");
                why = failed.to_string();
                end(meta, id).await?;
            }
        }
        meta.env.sleep(ATTEMPT_PAUSE).await;
    }
    Err(Failed::Unavailable(format!(
        "the checkpoint cannot be made now: {why}"
    )))
}

fn check_name(core: &Core, name: &str) -> Result<(), Failed> {
    let mut listed = core.state.checkpoints();
    if listed.any(|it| it.name == name && it.stage() != Stage::Ending) {
        return Err(refused(name, libc::EEXIST));
    }
    Ok(())
}

/// Why the list does not take what it was asked for.
fn refused(name: &str, errno: i32) -> Failed {
    Failed::Refused(match errno {
        libc::EEXIST => {
            format!("there is a checkpoint {name} already: delete it first, or take another name")
        }
        libc::EINVAL => format!(
            "{name:?} is no name of a checkpoint: take up to {} letters, digits, '.', '_' and '-', a letter or a digit first",
            weft_namespace::CHECKPOINT_NAME_MAX
        ),
        libc::ENOSPC => format!(
            "there are {} checkpoints, and no more can be kept: delete one (weft checkpoint list)",
            weft_namespace::CHECKPOINTS_MAX
        ),
        libc::EBUSY | libc::EALREADY => "a checkpoint is being restored: wait for its end".into(),
        libc::ENOENT => format!("there is no checkpoint {name} (weft checkpoint list)"),
        errno => return Failed::Errno(errno),
    })
}

/// Journals an entry of the list's; answers its `session` when it is committed.
async fn journal(meta: &Rc<Meta>, name: &str, op: Op) -> Result<u64, Failed> {
    let (reply, sn) = {
        let core = &mut *meta.core.borrow_mut();
        if let Some(failed) = core.commits.refusal_to_give_back() {
            return Err(failed);
        }
        meta.apply_own(core, op)
    };
    if reply.failure_errno != 0 {
        return Err(refused(name, reply.failure_errno as i32));
    }
    meta.committed(sn).await?;
    Ok(reply.session)
}

async fn plan(meta: &Rc<Meta>, name: &str) -> Result<u64, Failed> {
    let op = Op::PlanCheckpoint(proto::PlanCheckpoint { name: name.into() });
    let (reply, sn) = {
        let core = &mut *meta.core.borrow_mut();
        if let Some(failed) = core.commits.refusal() {
            return Err(failed);
        }
        let planned = meta.apply_own(core, op);
        if planned.0.failure_errno == 0 {
            core.checkpoints.making = Some(planned.0.session);
        }
        planned
    };
    if reply.failure_errno != 0 {
        return Err(refused(name, reply.failure_errno as i32));
    }
    meta.committed(sn).await?;
    Ok(reply.session)
}

/// It cannot be made: it goes.
async fn end(meta: &Rc<Meta>, id: u64) -> Result<(), Failed> {
    let ended = journal(meta, "", Op::EndCheckpoint(proto::EndCheckpoint { id })).await;
    let known = &mut meta.core.borrow_mut().checkpoints;
    known.making = None;
    known.changed.notify_waiters();
    ended.map(|_| ())
}

async fn finish(meta: &Rc<Meta>, id: u64) -> Result<(), Failed> {
    let kept = journal(meta, "", Op::KeepCheckpoint(proto::KeepCheckpoint { id })).await;
    kept.map(|_| ())
}

/// Has all groups cut at one moment. Answers for how long the one that held longest did.
async fn cut_all(meta: &Rc<Meta>, all: &[GroupId], id: u64) -> Result<Duration, Failed> {
    // Others first: the way to them takes longest.
    let cut = ask_all(meta, all, &CutRequest { id }, steps::HOLD_MAX).await;
    // Whoever has cut holds, also if another has not.
    let gone_on = ask_all(meta, all, &GoOnRequest { id }, PATIENCE).await;
    cut?;
    let longest = gone_on?.iter().map(|reply| reply.held_us).max();
    Ok(Duration::from_micros(longest.unwrap_or(0)))
}

/// Waits until a majority of each group's members has the image.
async fn images(meta: &Rc<Meta>, all: &[GroupId], id: u64) -> Result<(), Failed> {
    let begun = meta.env.now();
    let mut heard = begun;
    loop {
        let now = meta.env.now();
        match ask_all(meta, all, &CutStatusRequest { id }, PATIENCE).await {
            Ok(statuses) => {
                heard = now;
                if statuses.iter().any(|status| !status.is_cut) {
                    let why = "a group has lost its cut with its active";
                    return Err(Failed::Unavailable(why.into()));
                }
                if statuses
                    .iter()
                    .all(|status| status.members >= status.needed)
                {
                    return Ok(());
                }
            }
            Err(failed) if now.since(heard) > SILENCE_MAX => return Err(failed),
            Err(_) => {}
        }
        if now.since(begun) > IMAGES_PATIENCE {
            let why = "the images of the checkpoint do not get written: look at the metadata servers' logs";
            return Err(Failed::Unavailable(why.into()));
        }
        meta.env.sleep(LOOK_EVERY).await;
    }
}

/// METHOD 133.
pub(crate) fn on_delete(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: DeleteCheckpointRequest,
    replier: Replier,
) {
    if let Err(failed) = check_first(meta) {
        return replier.fail(failed);
    }
    let listed = core.state.checkpoint_of_name(&request.name).map(|it| it.id);
    let making = core.checkpoints.making;
    let Some(id) = listed.filter(|id| making != Some(*id)) else {
        return replier.fail(refused(&request.name, libc::ENOENT));
    };
    let deleting = meta.clone();
    meta.spawn("delete checkpoint", async move {
        let op = Op::EndCheckpoint(proto::EndCheckpoint { id });
        let ended = journal(&deleting, &request.name, op).await;
        deleting.core.borrow().checkpoints.changed.notify_waiters();
        match ended {
            Ok(_) => {
                replier.send::<DeleteCheckpointRequest>(&DeleteCheckpointReply {}, Payload::none());
            }
            Err(failed) => replier.fail(failed),
        }
    });
}

/// Has all groups drop the cuts of checkpoints that are to go, and of those that nobody is making any more, as
/// long as the reign lasts.
pub(crate) async fn clear_away(meta: Rc<Meta>) {
    let changed = meta.core.borrow().checkpoints.changed.clone();
    loop {
        let told = changed.notified();
        match clear_some(&meta).await {
            Ok(true) => {}
            Ok(false) => told.await,
            Err(failed) => {
                tracing::debug!(%failed, "a checkpoint is not cleared away yet");
                meta.env.sleep(RETRY).await;
            }
        }
    }
}

/// Clears one away. False: there is none.
async fn clear_some(meta: &Rc<Meta>) -> Result<bool, Failed> {
    let due = {
        let core = meta.core.borrow();
        let is_due = |it: &&proto::Checkpoint| {
            let is_made = core.checkpoints.making == Some(it.id);
            it.stage() == Stage::Ending || (it.stage() == Stage::Making && !is_made)
        };
        let mut listed = core.state.checkpoints();
        listed.find(is_due).map(|it| (it.id, it.stage()))
    };
    let Some((id, stage)) = due else {
        return Ok(false);
    };
    if stage == Stage::Making {
        tracing::info!(checkpoint = id, "a checkpoint was not finished: it goes");
        journal(meta, "", Op::EndCheckpoint(proto::EndCheckpoint { id })).await?;
    }
    let all = groups(&meta.core.borrow());
    ask_all(meta, &all, &DropCutRequest { id }, PATIENCE).await?;
    journal(
        meta,
        "",
        Op::ForgetCheckpoint(proto::ForgetCheckpoint { id }),
    )
    .await?;
    Ok(true)
}

/// What every group is asked alike; this one is not asked over a connection.
pub(super) trait OfAll: Rpc {
    async fn here(&self, meta: &Rc<Meta>) -> Result<Self::Reply, Failed>;
}

impl OfAll for CutRequest {
    async fn here(&self, meta: &Rc<Meta>) -> Result<proto::CutReply, Failed> {
        steps::cut(meta, &mut meta.core.borrow_mut(), self.id).map(|()| proto::CutReply {})
    }
}

impl OfAll for GoOnRequest {
    async fn here(&self, meta: &Rc<Meta>) -> Result<proto::GoOnReply, Failed> {
        let held = steps::go_on(meta, &mut meta.core.borrow_mut(), self.id);
        let held = held.ok_or_else(|| Failed::Unavailable("it does not hold any more".into()))?;
        let held_us = held.as_micros() as u64;
        Ok(proto::GoOnReply { held_us })
    }
}

impl OfAll for CutStatusRequest {
    async fn here(&self, meta: &Rc<Meta>) -> Result<CutStatusReply, Failed> {
        steps::cut_status(meta, self.id).await
    }
}

impl OfAll for DropCutRequest {
    async fn here(&self, meta: &Rc<Meta>) -> Result<proto::DropCutReply, Failed> {
        let newest = {
            let core = &mut *meta.core.borrow_mut();
            steps::drop_cut(meta, core, self.id)?;
            core.commits.newest()
        };
        meta.committed(newest).await?;
        Ok(proto::DropCutReply {})
    }
}

impl OfAll for WriteBackRequest {
    async fn here(&self, meta: &Rc<Meta>) -> Result<proto::WriteBackReply, Failed> {
        let unwritten = steps::write_back(meta).await;
        Ok(proto::WriteBackReply { unwritten })
    }
}

impl OfAll for proto::RestoreStepRequest {
    async fn here(&self, meta: &Rc<Meta>) -> Result<proto::RestoreStepReply, Failed> {
        let (reply, newest) = {
            let core = &mut *meta.core.borrow_mut();
            (steps::step(meta, core, self)?, core.commits.newest())
        };
        meta.committed(newest).await?;
        Ok(reply)
    }
}

/// Asks all groups at the same time. The first failure, by group, is the answer if one fails.
pub(super) async fn ask_all<R: OfAll>(
    meta: &Rc<Meta>,
    all: &[GroupId],
    request: &R,
    patience: Duration,
) -> Result<Vec<R::Reply>, Failed> {
    let asked = all.iter().map(|group| async move {
        match *group {
            FIRST_GROUP => request.here(meta).await,
            group => meta.ask_group(group, request, patience).await,
        }
        .map_err(|failed| of_group(*group, failed))
    });
    join_all(asked).await.into_iter().collect()
}

fn of_group(group: GroupId, failed: Failed) -> Failed {
    match failed {
        Failed::Refused(why) => Failed::Refused(format!("group {group}: {why}")),
        Failed::Unavailable(why) => Failed::Unavailable(format!("group {group}: {why}")),
        other => other,
    }
}
