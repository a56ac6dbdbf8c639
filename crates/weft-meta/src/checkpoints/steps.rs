//! What a group does of a checkpoint or a restore that the first group drives. The first group's own active does
//! it by the same functions, without asking itself over a connection.

use super::loading;
use crate::reign::{Core, Meta};
use crate::sessions::Stage;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_namespace::Errno;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, SessionId};
use weft_wire::Failed;
use weft_wire::proto::restore_step_request::Step;
use weft_wire::proto::{
    self, CutReply, CutRequest, CutStatusReply, CutStatusRequest, DropCutReply, DropCutRequest,
    GoOnReply, GoOnRequest, LeaseMode, RestoreStepReply, RestoreStepRequest, WriteBackReply,
    WriteBackRequest, op::Op,
};

/// A group goes on by itself after this, whatever became of the others. Service does not stand still for longer.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(40);
/// Who writes files is waited for at most so long.
pub(super) const WRITE_BACK_MAX: Duration = Duration::from_secs(2);
const WRITE_BACK_LOOK: Duration = Duration::from_millis(10);
/// Files that are asked back at a time.
const WRITTEN_MAX: usize = 4096;
/// Objects that dropped cuts have held, let go in one entry: a millisecond of work.
const RELEASED_MAX: u32 = 2048;
/// Where there is nothing to release it is looked again after this.
const RELEASE_IDLE: Duration = Duration::from_secs(10);

/// See [`Core::hold_back`].
pub(crate) struct Hold {
    id: u64,
    since: Mono,
}

/// An entry after which its batch ends: the image of a cut is the state after a batch.
pub(crate) fn ends_batch(op: &Op) -> bool {
    matches!(op, Op::Cut(_))
}

/// METHOD 134.
pub(crate) fn on_cut(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: CutRequest,
    replier: Replier,
) {
    match cut(meta, core, request.id) {
        // At once: it is the hold that the other side wants to know of. That the cut gets into the journal is
        // seen later.
        Ok(()) => replier.send::<CutRequest>(&CutReply {}, Payload::none()),
        Err(failed) => replier.fail(failed),
    }
}

/// Journals the cut, and hands the journals nothing more until [`go_on`], or until it has lasted too long.
pub(super) fn cut(meta: &Rc<Meta>, core: &mut Core, id: u64) -> Result<(), Failed> {
    if let Some(failed) = core.commits.refusal() {
        return Err(failed);
    }
    if core.checkpoints.hold.is_some() || meta.stopping.get() {
        return Err(Failed::Unavailable("it cannot hold now".into()));
    }
    if let Some(why) = core.state.hinders_cut() {
        return Err(Failed::Unavailable(why));
    }
    let (reply, _) = meta.apply_own(core, Op::Cut(proto::Cut { id }));
    if reply.failure_errno != 0 {
        return Err(Errno(reply.failure_errno as i32).into());
    }
    core.commits.hold();
    let since = meta.env.now();
    core.checkpoints.hold = Some(Hold { id, since });
    let holding = meta.clone();
    meta.spawn("hold", async move {
        holding.env.sleep(HOLD_MAX).await;
        let core = &mut *holding.core.borrow_mut();
        if go_on(&holding, core, id).is_some() {
            tracing::info!(checkpoint = id, "a hold has lasted too long: going on");
        }
    });
    Ok(())
}

/// METHOD 135.
pub(crate) fn on_go_on(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: GoOnRequest,
    replier: Replier,
) {
    match go_on(meta, core, request.id) {
        Some(held) => {
            let held_us = held.as_micros() as u64;
            replier.send::<GoOnRequest>(&GoOnReply { held_us }, Payload::none());
        }
        None => replier.fail(Failed::Unavailable("it does not hold for this".into())),
    }
}

/// Goes on. None: it was not holding for this checkpoint.
pub(super) fn go_on(meta: &Meta, core: &mut Core, id: u64) -> Option<Duration> {
    let hold = core.checkpoints.hold.take_if(|hold| hold.id == id)?;
    core.commits.go_on();
    meta.gathered.notify_one();
    Some(meta.env.now().since(hold.since))
}

/// METHOD 136.
pub(crate) fn on_cut_status(
    meta: &Rc<Meta>,
    _core: &mut Core,
    _connection: &Connection,
    request: CutStatusRequest,
    replier: Replier,
) {
    let asked = meta.clone();
    meta.spawn("cut status", async move {
        match cut_status(&asked, request.id).await {
            Ok(reply) => replier.send::<CutStatusRequest>(&reply, Payload::none()),
            Err(failed) => replier.fail(failed),
        }
    });
}

/// How far a cut is here.
pub(super) async fn cut_status(meta: &Rc<Meta>, id: u64) -> Result<CutStatusReply, Failed> {
    let (mut reply, newest) = {
        let core = meta.core.borrow();
        let reply = CutStatusReply {
            is_cut: core.state.has_cut(id),
            members: 0,
            needed: 0,
            held: core.state.held(Some(id)),
            hinders: core.state.hinders_cut().unwrap_or_default(),
        };
        (reply, core.commits.newest())
    };
    meta.committed(newest).await?;
    if reply.is_cut {
        (reply.members, reply.needed) = super::files::count(meta, id).await;
    }
    Ok(reply)
}

/// METHOD 137.
pub(crate) fn on_drop_cut(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: DropCutRequest,
    replier: Replier,
) {
    if let Err(failed) = drop_cut(meta, core, request.id) {
        return replier.fail(failed);
    }
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<DropCutRequest>(&DropCutReply {}, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// Drops a cut, and sees to it that none of this number is made later.
pub(super) fn drop_cut(meta: &Rc<Meta>, core: &mut Core, id: u64) -> Result<(), Failed> {
    if let Some(failed) = core.commits.refusal_to_give_back() {
        return Err(failed);
    }
    let (reply, _) = meta.apply_own(core, Op::DropCut(proto::DropCut { id }));
    core.checkpoints.verified.remove(&id);
    core.checkpoints.changed.notify_waiters();
    meta.deletions_changed.notify_one();
    match reply.failure_errno {
        0 => Ok(()),
        errno => Err(Errno(errno as i32).into()),
    }
}

/// Lets go of what dropped cuts have held, a little at a time.
pub(crate) async fn release_held(meta: Rc<Meta>) {
    let changed = meta.core.borrow().checkpoints.changed.clone();
    loop {
        let told = changed.notified();
        let released = {
            let core = &mut *meta.core.borrow_mut();
            let is_due = core.state.has_dropped_cuts() && core.commits.refusal().is_none();
            is_due.then(|| {
                let max = RELEASED_MAX;
                meta.apply_own(core, Op::ReleaseHeld(proto::ReleaseHeld { max }))
                    .1
            })
        };
        match released {
            Some(sn) => {
                if meta.committed(sn).await.is_err() {
                    return;
                }
                meta.deletions_changed.notify_one();
            }
            None => {
                // Either way it is looked again.
                let _: Result<(), _> = meta.env.timeout(RELEASE_IDLE, told).await;
            }
        }
    }
}

/// METHOD 139.
pub(crate) fn on_write_back(
    meta: &Rc<Meta>,
    _core: &mut Core,
    _connection: &Connection,
    _request: WriteBackRequest,
    replier: Replier,
) {
    let asked = meta.clone();
    meta.spawn("write back", async move {
        let unwritten = write_back(&asked).await;
        replier.send::<WriteBackRequest>(&WriteBackReply { unwritten }, Payload::none());
    });
}

/// Has those that write files write back and tell what they owe. Answers how many files they have not, when there
/// is no more time.
pub(super) async fn write_back(meta: &Rc<Meta>) -> u64 {
    let begun = meta.env.now();
    let (mut left, since) = {
        let core = &mut *meta.core.borrow_mut();
        (
            core.state.written_files(WRITTEN_MAX),
            core.leases.next_seq(),
        )
    };
    loop {
        {
            let core = &mut *meta.core.borrow_mut();
            left.retain(|ino: &Ino| {
                let to = (LeaseMode::LeaseRead, since);
                core.state.inode(*ino).is_ok()
                    && meta.revoke(core, *ino, SessionId(0), to, false).is_some()
            });
        }
        if left.is_empty() || meta.env.now().since(begun) >= WRITE_BACK_MAX {
            return left.len() as u64;
        }
        meta.env.sleep(WRITE_BACK_LOOK).await;
    }
}

/// METHOD 138.
pub(crate) fn on_step(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: RestoreStepRequest,
    replier: Replier,
) {
    let reply = match step(meta, core, &request) {
        Ok(reply) => reply,
        Err(failed) => return replier.fail(failed),
    };
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<RestoreStepRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// The next step of a restore. What it says counts when all that has been applied is committed.
pub(super) fn step(
    meta: &Rc<Meta>,
    core: &mut Core,
    request: &RestoreStepRequest,
) -> Result<RestoreStepReply, Failed> {
    let (restore, checkpoint) = (request.restore, request.checkpoint);
    let waits = match request.step() {
        Step::Prepare => {
            if let Some(why) = core.state.hinders_restore(checkpoint) {
                return Err(Failed::Refused(why));
            }
            loading::make_ready(meta, core, checkpoint)
        }
        // A step that has been done, and whose answer was lost, or that comes late.
        _ if core.state.restored() >= restore => None,
        Step::Close => close(meta, core, (restore, checkpoint))?,
        Step::Load => match core.state.closed() {
            Some(closed) if closed.restore == restore => loading::load(meta, core, closed),
            _ => {
                return Err(Failed::Unavailable(
                    "it is not closed for this restore".into(),
                ));
            }
        },
        Step::Reopen => {
            let op = Op::ReopenRestored(proto::ReopenRestored { restore });
            let (reply, _) = meta.apply_own(core, op);
            if reply.failure_errno != 0 {
                return Err(Errno(reply.failure_errno as i32).into());
            }
            tracing::info!(
                restore,
                checkpoint,
                "a checkpoint is restored: serving clients"
            );
            crate::partition::finish_decided(meta, core);
            meta.deletions_changed.notify_one();
            None
        }
        Step::Unspecified => return Err(Failed::Refused("no step of a restore".into())),
    };
    Ok(RestoreStepReply {
        done: waits.is_none(),
        waits: waits.unwrap_or_default(),
    })
}

/// Serves no client from now on. What it waits for until there is none, if so.
fn close(
    meta: &Rc<Meta>,
    core: &mut Core,
    (restore, checkpoint): (u64, u64),
) -> Result<Option<String>, Failed> {
    if let Some(failed) = core.commits.refusal_to_give_back() {
        return Err(failed);
    }
    if core
        .state
        .closed()
        .is_none_or(|closed| closed.restore != restore)
    {
        let op = Op::CloseForRestore(proto::CloseForRestore {
            restore,
            checkpoint,
        });
        let (reply, _) = meta.apply_own(core, op);
        if reply.failure_errno != 0 {
            return Err(Errno(reply.failure_errno as i32).into());
        }
        tracing::warn!(
            restore,
            checkpoint,
            "a checkpoint is being restored: all sessions end"
        );
    }
    for live in core
        .sessions
        .values_mut()
        .filter(|live| live.stage == Stage::Open)
    {
        live.stage = Stage::Refused;
        if let Some(connection) = live.connection.take() {
            connection.close("a checkpoint is being restored");
        }
    }
    let open = core
        .state
        .statistics()
        .sessions
        .max(core.sessions.len() as u64);
    Ok((open > 0).then(|| format!("{open} sessions end")))
}
