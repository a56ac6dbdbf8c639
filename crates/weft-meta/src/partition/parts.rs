//! What a group does of other groups' transactions: it prepares its parts, finishes them, and asks what
//! became of them when it is not told.

use crate::changes;
use crate::crash_points::reach;
use crate::reign::{Core, Meta};
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;
use weft_namespace::{Errno, Walk, transaction_of, transaction_to};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, SessionId, TransactionId};
use weft_wire::Failed;
use weft_wire::proto::walk_reply::Led;
use weft_wire::proto::{
    self, Entry, Finish, FinishReply, FinishRequest, OutcomeReply, OutcomeRequest, Prepare,
    PrepareReply, PrepareRequest, WalkReply, WalkRequest, op::Op,
};

/// Parts of one request: more than any change has, which has one for each shard of a directory and some.
const PARTS_MAX: usize = weft_types::SHARDS_MAX + 8;
/// Who has heard nothing of a transaction for this long asks. Most end within some milliseconds.
const DOUBT_AFTER: Duration = Duration::from_millis(300);
/// How often it is looked who has to ask.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The home answers from memory, when what it knows is committed.
const PATIENCE: Duration = Duration::from_secs(1);

/// METHOD 100.
pub(crate) fn on_prepare(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: PrepareRequest,
    replier: Replier,
) {
    let id = match transaction_of(request.transaction.as_ref()) {
        Some(id) if id.home.0 != meta.settings.group => id,
        _ => return replier.fail(Failed::Refused("no transaction of another group's".into())),
    };
    if request.parts.is_empty() || request.parts.len() > PARTS_MAX {
        return replier.fail(Failed::Refused("no parts, or too many".into()));
    }
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    crate::slots::begin(meta);
    reach(meta, "other-is-asked");
    let since = core.leases.next_seq();
    prepare(meta, core, id, request, (since, replier));
}

fn prepare(
    meta: &Rc<Meta>,
    core: &mut Core,
    id: TransactionId,
    request: PrepareRequest,
    (since, replier): (u64, Replier),
) {
    if let Some(failed) = of_another_time(core, request.restored) {
        return replier.fail(failed);
    }
    let cred = crate::reads::cred_of(request.cred.clone());
    for part in &request.parts {
        let is_locked = core.running.own.against(part, id).is_some()
            || core.state.locked_against(part, id).is_some();
        // Whoever plans finds out where the slot is.
        let is_locked = is_locked || core.part_is_not_here(part);
        let checked = match is_locked {
            true => Err(Errno::EAGAIN),
            false => core.state.check_part(&cred, part),
        };
        if let Err(errno) = checked {
            let reply = PrepareReply {
                failure_errno: errno.0 as u32,
                parts: Vec::new(),
            };
            // What stands against it may not be committed yet.
            let newest = core.commits.newest();
            return meta.when_committed(core, newest, move |_, _, result| match result {
                Ok(()) => replier.send::<PrepareRequest>(&reply, Payload::none()),
                Err(failed) => replier.fail(failed),
            });
        }
    }
    let entry = Entry {
        cred: Some(cred),
        op: Some(proto::Op {
            op: Some(Op::Prepare(Prepare {
                transaction: request.transaction,
                parts: request.parts.clone(),
            })),
        }),
        ..Entry::default()
    };
    let touched = core.state.touches(&entry);
    if let Some(conflict) = changes::conflicts(meta, core, SessionId(0), &entry, &touched, since) {
        let wants = touched.iter().map(|touch| touch.ino).collect();
        return meta.wait_for(
            core,
            conflict,
            (wants, 0..0),
            replier,
            move |meta, core, replier| prepare(meta, core, id, request, (since, replier)),
        );
    }
    let (reply, sn) = meta.apply(core, entry);
    reach(meta, "other-prepares");
    if reply.failure_errno == 0 {
        core.running.waiting.insert(id, meta.env.now());
    }
    let reply = PrepareReply {
        failure_errno: reply.failure_errno,
        parts: reply.parts,
    };
    meta.when_committed(core, sn, move |meta, _, result| match result {
        Ok(()) => {
            reach(meta, "other-prepared");
            replier.send::<PrepareRequest>(&reply, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    });
}

/// METHOD 101.
pub(crate) fn on_finish(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: FinishRequest,
    replier: Replier,
) {
    let Some(id) = transaction_of(request.transaction.as_ref()) else {
        return replier.fail(Failed::Refused("no transaction".into()));
    };
    if let Some(failed) = of_another_time(core, request.restored) {
        return replier.fail(failed);
    }
    if request.done {
        reach(meta, "other-is-told");
    }
    ended(meta, core, id, request.done);
    if request.done {
        reach(meta, "other-finishes");
    }
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |meta, _, result| match result {
        Ok(()) => {
            if request.done {
                reach(meta, "other-finished");
            }
            meta.deletions_changed.notify_one();
            replier.send::<FinishRequest>(&FinishReply {}, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    });
}

/// Why a word about a transaction is not taken, if so: it was said before a checkpoint was restored, or after it by
/// a group that has that behind it already.
fn of_another_time(core: &Core, restored: u64) -> Option<Failed> {
    let is_same = restored == core.state.restored() && core.state.closed().is_none();
    (!is_same).then(crate::checkpoints::is_closed)
}

/// A transaction has ended: its parts here take effect, or are void. One that is not known has ended here.
fn ended(meta: &Rc<Meta>, core: &mut Core, id: TransactionId, done: bool) {
    core.running.waiting.remove(&id);
    if !core.state.is_prepared(id) {
        return;
    }
    let finish = Finish {
        transaction: Some(transaction_to(id)),
        done,
    };
    meta.apply_own(core, Op::Finish(finish));
    meta.retry_transaction(core, id);
}

/// METHOD 102, to the home.
pub(crate) fn on_outcome(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: OutcomeRequest,
    replier: Replier,
) {
    let id = match transaction_of(request.transaction.as_ref()) {
        Some(id) if id.home.0 == meta.settings.group => id,
        _ => return replier.fail(Failed::Refused("no transaction of this group's".into())),
    };
    if let Some(failed) = of_another_time(core, request.restored) {
        return replier.fail(failed);
    }
    if id.epoch > core.epoch || core.running.is_undecided(id) {
        let why = "that is not decided yet, or not by this server";
        return replier.fail(Failed::Unavailable(why.into()));
    }
    // What is not known as done, and not under way, never will be done: an earlier reign's entries are all
    // here. They count when they are committed, which is when this reign's first one is.
    let reply = OutcomeReply {
        done: core.state.is_decided(id),
    };
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<OutcomeRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// METHOD 103.
pub(crate) fn on_walk(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: WalkRequest,
    replier: Replier,
) {
    let Some(id) = transaction_of(request.transaction.as_ref()) else {
        return replier.fail(Failed::Refused("no transaction".into()));
    };
    if let Some(failed) = of_another_time(core, request.restored) {
        return replier.fail(failed);
    }
    let (from, sought) = (Ino(request.from), Ino(request.sought));
    let (led, ino) = match core.state.walk(&core.running.own, from, sought, id) {
        Walk::Found => (Led::Within, 0),
        Walk::Ended => (Led::Outside, 0),
        Walk::Elsewhere(ino) => (Led::Elsewhere, ino.0),
        Walk::Moving(_) => (Led::Moving, 0),
    };
    let reply = WalkReply {
        led: led as i32,
        ino,
    };
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<WalkRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// Asks what became of transactions of which nothing is heard, as long as the reign lasts. Those that were
/// there when it began are asked for at once: whoever was to tell may have ended with the reign before.
pub(crate) async fn ask_in_doubt(meta: Rc<Meta>) {
    loop {
        let restored = meta.core.borrow().state.restored();
        let doubted: Vec<TransactionId> = {
            let core = &mut *meta.core.borrow_mut();
            let now = meta.env.now();
            let waiting = &mut core.running.waiting;
            let is_due = |id: &TransactionId| match waiting.get(id) {
                Some(since) => now.since(*since) >= DOUBT_AFTER,
                None => true,
            };
            let is_closed = core.state.closed().is_some();
            let prepared = core.state.prepared().filter(|_| !is_closed);
            let doubted: Vec<TransactionId> = prepared.filter(is_due).collect();
            for id in &doubted {
                waiting.insert(*id, now);
            }
            doubted
        };
        let asked = doubted.into_iter().map(|id| {
            let request = OutcomeRequest {
                transaction: Some(transaction_to(id)),
                restored,
            };
            let meta = &meta;
            async move { (id, meta.ask_group(id.home, &request, PATIENCE).await) }
        });
        for (id, answer) in join_all(asked).await {
            match answer {
                Ok(reply) => {
                    let core = &mut *meta.core.borrow_mut();
                    if of_another_time(core, restored).is_some() {
                        continue;
                    }
                    tracing::info!(%id, done = reply.done, "the outcome of a transaction was asked for");
                    ended(&meta, core, id, reply.done);
                }
                Err(failed) => tracing::debug!(%id, %failed, "in doubt about a transaction"),
            }
        }
        meta.env.sleep(LOOK_EVERY).await;
    }
}
