//! Bringing the twin up to date, at the serving member, in the background.
//!
//! The plan is the union of both modified lists (everything, for another store). Each region is
//! compared under its lock, so that writes, which go to both members all the while, are ordered
//! against the copying. A kill at any moment loses nothing: regions leave the lists only when both
//! copies are stable, and a new recovery compares what is still listed. When nothing is left, and the twin has made all
//! of it stable, this member gives up its unlimited right and says so to the metadata service.

use crate::listed;
use crate::losses;
use crate::server::{Node, Progress, from_name, to_name};
use crate::settle::{self, Unsettled};
use crate::write::TWIN_SYNCS;
use futures_util::stream::{self, StreamExt};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::Purpose;
use weft_pair::recovery::{Bucket, Plan, Share, regions_of};
use weft_pair::{Now, PairState};
use weft_rpc::Payload;
use weft_types::{ObjectId, REGION_BYTES, Run};
use weft_wire::proto;

/// Objects asked for at a time.
const PAGE: u32 = 1024;
/// How often the rate is set anew.
const RATE_EVERY: Duration = Duration::from_millis(250);
/// Wait after a region that could not be made equal (a full or failing disk).
const PAUSE: Duration = Duration::from_secs(1);
/// Objects that the twin is to make stable are gathered up to so many.
const UNSTABLE_MAX: usize = 256;
/// Wait before something that was interrupted is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Recovers under `state`, until both are equal or another state is in force.
pub(crate) async fn run(node: Rc<Node>, state: PairState) {
    let started = node.now();
    let current = || node.side.borrow().epoch() == state.epoch;
    // What the twin has alone must not be filled over before it is known whether it is lost.
    while current() && node.alone.since().is_some() {
        node.env.sleep(AGAIN).await;
    }
    while current() {
        match losses::bring_all_back(&node, &state).await {
            Ok(()) => break,
            Err(error) => tracing::debug!(?error, "what was lost is not back yet"),
        }
        node.env.sleep(AGAIN).await;
    }
    if !current() {
        return;
    }
    loop {
        match plan(&node, &state).await {
            Ok(plan) => {
                if current() {
                    tracing::info!(
                        regions = plan.left(),
                        all = state.fill_all,
                        "recovery begins"
                    );
                    *node.plan.borrow_mut() = Some(plan);
                }
                break;
            }
            Err(error) => tracing::debug!(?error, "what is to be recovered is not known yet"),
        }
        if !current() {
            return;
        }
        node.env.sleep(AGAIN).await;
    }
    let moved = copy_all(&node, &state).await;
    node.progress.set(Progress::default());
    if !current() {
        tracing::info!("recovery was interrupted");
        return;
    }
    let took = node.now().saturating_sub(started);
    tracing::info!(bytes = moved, ?took, "both copies are equal");
    // The twin may serve alone at once. By what is written down this member must not take itself for the last that did.
    // (A full disk may not take it.)
    while current() && node.record_tried.get() < state.epoch {
        node.env.sleep(AGAIN).await;
    }
    // Said until it is heard: under this epoch nothing else can come of it.
    while current() {
        if let Some(connection) = node.registration.connection() {
            let request = proto::RecoveredRequest {
                pair: node.pair.0,
                epoch: state.epoch.0,
            };
            let patience = Duration::from_millis(node.settings.link_patience_ms);
            let call = connection.call(&request, Payload::none());
            if let Ok(Ok(_)) = node.env.timeout(patience, call).await {
                // The new state is on its way.
                node.env.sleep(patience).await;
                continue;
            }
        }
        node.env.sleep(AGAIN).await;
    }
}

/// What has to be compared.
async fn plan(node: &Rc<Node>, state: &PairState) -> Result<Plan, Unsettled> {
    let mut plan = Plan::new();
    let mut everything = state.fill_all || node.store.everything_dirty();
    let theirs = listed::of_twin(node, state.epoch, None).await?;
    everything |= theirs.everything;
    theirs.runs.into_iter().for_each(|run| plan.add(run));
    if everything {
        list_all(node, &mut plan).await?;
    }
    // Last, and without a pause: what is marked from now on is also sent to the twin.
    for (object, runs) in node.store.dirty(None, usize::MAX) {
        for regions in runs {
            plan.add(Run { object, regions });
        }
    }
    Ok(plan)
}

fn last_of(name: Option<proto::ObjectName>) -> Option<ObjectId> {
    from_name(name).ok()
}

/// All regions of all objects of both members.
pub(crate) async fn list_all(node: &Rc<Node>, plan: &mut Plan) -> Result<(), Unsettled> {
    let mut add = |object: ObjectId, length: u64| {
        plan.add(Run {
            object,
            regions: 0..regions_of(length).max(1),
        });
    };
    let mut after: Option<ObjectId> = None;
    loop {
        let listed = node.store.list(after, PAGE as usize).await;
        let listed = listed.map_err(|error| Unsettled::Errno(error.errno()))?;
        for &(object, length) in &listed {
            add(object, length);
        }
        match listed.last() {
            Some((last, _)) => after = Some(*last),
            None => break,
        }
    }
    let mut after: Option<ObjectId> = None;
    loop {
        let request = proto::ListRequest {
            after_ino: after.map_or(0, |object| object.ino.0),
            after_generation: after.map_or(0, |object| object.generation),
            max: PAGE,
        };
        let (reply, _) = node.link.call(&request, Payload::none()).await?;
        for listed in &reply.objects {
            if let Some(object) = last_of(listed.object) {
                add(object, listed.length);
            }
        }
        match last_of(reply.objects.last().and_then(|last| last.object)) {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    Ok(())
}

/// Counts how long recovery is at it, however it ends.
struct Timed<'a> {
    node: &'a Node,
    counted: Now,
}

impl Timed<'_> {
    fn count(&mut self) {
        let ms = self.node.now().saturating_sub(self.counted).as_millis() as u64;
        self.counted += Duration::from_millis(ms);
        self.node.metrics.recovery_ms.inc_by(ms);
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.count();
    }
}

/// Works the plan off, and gives up the unlimited right when nothing is left. Returns bytes looked
/// at or moved.
async fn copy_all(node: &Rc<Node>, state: &PairState) -> u64 {
    let now = node.now();
    let cap = node.settings.recovery_bytes_per_s;
    let mut share = Share::new(node.settings.recovery_share, cap, now);
    let mut bucket = Bucket::new(cap, now);
    let mut rated = now;
    let mut moved = 0;
    let mut moved_then = 0;
    let mut timed = Timed { node, counted: now };
    let mut unstable = BTreeSet::new();
    loop {
        if node.side.borrow().epoch() != state.epoch {
            return moved;
        }
        let next = node.plan.borrow_mut().as_mut().and_then(Plan::next_run);
        let Some(run) = next else {
            if make_stable(node, state, &mut unstable).await && finish(node, state).await {
                return moved;
            }
            node.env.sleep(AGAIN).await;
            continue;
        };
        // What the twin is given is not stable there at once: until it is, this list names it, also
        // where it was only the plan that did (another store is filled with everything).
        let first = run.first().run();
        let marking = node.store.mark(
            first.object,
            first.regions,
            Purpose::Free,
            node.settings.sync_marks,
        );
        if let Err(error) = marking.await {
            node.store_failed(error);
            node.env.sleep(PAUSE).await;
            continue;
        }
        match settle::settle(node, state.epoch, &run, settle::from_here(node)).await {
            Ok(compared) => {
                unstable.insert(run.object);
                if unstable.len() >= UNSTABLE_MAX {
                    make_stable(node, state, &mut unstable).await;
                }
                moved += compared.bytes;
                node.metrics.recovered_bytes.inc_by(compared.bytes);
                if let Some(plan) = &mut *node.plan.borrow_mut() {
                    plan.finished(Run {
                        object: run.object,
                        regions: run.regions.start..compared.upto,
                    });
                }
                let wait = bucket.take(compared.bytes, node.now());
                if !wait.is_zero() {
                    node.env.sleep(wait).await;
                }
            }
            Err(Unsettled::Stale | Unsettled::Lost) => node.env.sleep(AGAIN).await,
            Err(error) => {
                tracing::warn!(object = %run.object, region = run.regions.start, ?error,
                    "a region cannot be made equal now");
                node.env.sleep(PAUSE).await;
            }
        }
        let now = node.now();
        if now >= rated + RATE_EVERY {
            let metrics = &node.metrics;
            let clients = metrics.read_bytes.get() + metrics.written_bytes.get();
            bucket.set_rate(share.rate(clients, moved, now), now);
            let passed = now.saturating_sub(rated).as_secs_f64();
            let (done, left) = match &*node.plan.borrow() {
                Some(plan) => (plan.done(), plan.left()),
                None => (0, 0),
            };
            node.progress.set(Progress {
                job: "recovery",
                done: done * REGION_BYTES,
                total: (done + left) * REGION_BYTES,
                bytes_per_s: ((moved - moved_then) as f64 / passed) as u64,
            });
            timed.count();
            moved_then = moved;
            rated = now;
        }
    }
}

/// Has the twin make objects stable that were found or made equal: what a client has had this member make stable while it
/// was alone must be so at the twin before that counts as a copy, for the power of both may be cut next. (This list
/// names it until the twin is known to have it, but theirs may be the copy that counts then.) True: none is left.
async fn make_stable(
    node: &Rc<Node>,
    state: &PairState,
    unstable: &mut BTreeSet<ObjectId>,
) -> bool {
    let sync = |object: ObjectId| async move {
        let request = proto::ForwardRequest {
            epoch: state.epoch.0,
            pair: state.pair.0,
            object: Some(to_name(object)),
            sync: true,
            ..proto::ForwardRequest::default()
        };
        (object, node.link.call(&request, Payload::none()).await)
    };
    let objects: Vec<ObjectId> = unstable.iter().copied().collect();
    let mut syncs = std::pin::pin!(stream::iter(objects).map(sync).buffer_unordered(TWIN_SYNCS));
    while let Some((object, result)) = syncs.next().await {
        match result {
            Ok(_) => {
                unstable.remove(&object);
            }
            Err(error) => {
                tracing::debug!(%object, ?error, "the twin cannot make an object stable now");
                return false;
            }
        }
    }
    unstable.is_empty()
}

/// Nothing is left to compare. True: this member has given up its unlimited right.
async fn finish(node: &Rc<Node>, state: &PairState) -> bool {
    // Lists that were damaged are whole again.
    let Ok(_held) = losses::hand_over(node, state.epoch).await else {
        return false;
    };
    let nothing_left = node.plan.borrow().as_ref().is_none_or(Plan::is_empty);
    if !nothing_left || node.side.borrow().epoch() != state.epoch {
        return false;
    }
    // From here to the end without a pause: a write that the twin's disk refuses from now on fails.
    node.store.clear_everything();
    *node.plan.borrow_mut() = None;
    node.side.borrow_mut().give_up_sole_right();
    true
}
