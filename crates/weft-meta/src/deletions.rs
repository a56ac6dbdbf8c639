//! The queue of objects whose files are gone: dropped in the background.
//!
//! Each pair has at most one order under way, and rests between two for as long as the last one took,
//! so that half of its time belongs to others. What was dropped is journaled; what was not is found in
//! the queue again.

use crate::reign::{Core, Meta};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use weft_namespace::Deletion;
use weft_rpc::Payload;
use weft_types::{Ino, Operation, PairId, SessionId};
use weft_wire::proto::{self, DropObjectsRequest, ObjectName, op};

/// Objects in one order: some milliseconds of a data server's work.
const OBJECTS_MAX: usize = 256;
/// Entries of the queue that are looked at for one round, so that a pair that is away does not hide
/// the work of the others for long.
const LOOK_MAX: usize = 16 * OBJECTS_MAX;
/// A pair that could not drop is asked again after this.
const RETRY: Duration = Duration::from_millis(500);
/// The queue is looked at this often though nothing was said to have come.
const IDLE: Duration = Duration::from_secs(1);
/// A data server that takes longer over an order is asked again.
const ORDER_PATIENCE: Duration = Duration::from_secs(30);

/// Drops objects until the server stops.
pub(crate) async fn run(meta: Rc<Meta>) {
    let mut after = 0;
    loop {
        let (work, seen) = {
            let core = meta.core.borrow();
            (look(&core, &mut after), core.commits.newest())
        };
        if work.is_empty() {
            // Nothing was said, or what there is waits for a pair: either way, later.
            let _: Result<(), _> = meta
                .env
                .timeout(IDLE, meta.deletions_changed.notified())
                .await;
            continue;
        }
        // An entry of the queue may stem from a change that is not committed yet; its file must not
        // lose its objects before that.
        if meta.committed(seen).await.is_err() {
            return;
        }
        let begin = meta.env.now();
        let orders = work
            .into_iter()
            .map(|(pair, deletions)| drop_objects(&meta, pair, deletions));
        let dropped = futures_util::future::join_all(orders).await;
        if dropped.iter().any(|done| *done) {
            meta.env.sleep(meta.env.now().since(begin)).await;
        } else {
            meta.env.sleep(RETRY).await;
        }
    }
}

/// Files whose dropped objects a client may still be writing to: it has cut the file, and has not said
/// that it knows so (docs/protocols/leases.md, "Cutting a file"). An object that is written to after it
/// was dropped is there again, and nobody names it.
fn held_back(core: &Core) -> BTreeSet<Ino> {
    let is_unheard = |(session, operation, _): &(SessionId, Operation, Ino)| {
        let live = core.sessions.get(session);
        live.is_none_or(|live| *operation >= live.acknowledged_below)
    };
    let cuts = core.state.cut_unheard().filter(is_unheard);
    cuts.map(|(_, _, ino)| ino).collect()
}

/// The next deletions of each pair that can drop now. `after` goes round through the queue.
fn look(core: &Core, after: &mut u64) -> BTreeMap<PairId, Vec<Deletion>> {
    let mut work: BTreeMap<PairId, Vec<Deletion>> = BTreeMap::new();
    let mut full = false;
    let held_back = held_back(core);
    let part = core.state.deletions_after(*after, LOOK_MAX);
    let last = part.last().map_or(0, |deletion| deletion.queue_id);
    let is_end = part.len() < LOOK_MAX;
    for deletion in part {
        if held_back.contains(&deletion.object.ino) {
            continue;
        }
        let of_pair = work.entry(deletion.pair).or_default();
        if of_pair.len() < OBJECTS_MAX {
            of_pair.push(deletion);
        } else {
            full = true;
        }
    }
    work.retain(|pair, _| core.pairs.orders(*pair).is_some());
    // What is left of this part comes in the next rounds; a part that waits is gone past.
    if is_end {
        *after = 0;
    } else if !full || work.is_empty() {
        *after = last;
    }
    work
}

/// True if the pair has dropped them.
async fn drop_objects(meta: &Rc<Meta>, pair: PairId, deletions: Vec<Deletion>) -> bool {
    let Some(orders) = meta.core.borrow().pairs.orders(pair) else {
        return false;
    };
    let name = |deletion: &Deletion| ObjectName {
        ino: deletion.object.ino.0,
        generation: deletion.object.generation,
    };
    let request = DropObjectsRequest {
        epoch: orders.epoch.0,
        objects: deletions.iter().map(name).collect(),
    };
    let call = orders.leader.call(&request, Payload::none());
    let failure = match meta.env.timeout(ORDER_PATIENCE, call).await {
        Ok(Ok(_)) => {
            let queue_ids = deletions.iter().map(|deletion| deletion.queue_id).collect();
            let core = &mut *meta.core.borrow_mut();
            core.metrics.objects_dropped.inc_by(deletions.len() as u64);
            meta.apply_own(core, op::Op::Dropped(proto::Dropped { queue_ids }));
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::info!(%pair, failure, "a pair cannot drop objects now");
    false
}
