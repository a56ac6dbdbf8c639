//! Looking for bad blocks, and for copies that differ, on order of the metadata service.

use crate::gone;
use crate::recovery::list_all;
use crate::server::{Node, Progress};
use crate::settle::{self, Unsettled};
use std::rc::Rc;
use weft_objects::ScrubCursor;
use weft_pair::Mode;
use weft_pair::recovery::{Bucket, Plan};
use weft_rpc::{Payload, Request};
use weft_types::{REGION_BYTES, Region, Run};
use weft_wire::Failed;
use weft_wire::proto;

/// Objects of one page of the list: some tens of kilobytes.
const LISTED_AT_A_TIME: usize = 1_000;

/// METHOD 54. A scrub looks at the blocks of this member; a comparison at both members' copies.
pub(crate) fn on_scrub(node: &Rc<Node>, request: Request) {
    let message: proto::ScrubRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    if !node.progress.get().job.is_empty() {
        let why = format!("busy with {}", node.progress.get().job);
        return request.replier.fail(Failed::Unavailable(why));
    }
    let job = if message.compare { "compare" } else { "scrub" };
    node.progress.set(Progress {
        job,
        ..Progress::default()
    });
    request
        .replier
        .send::<proto::ScrubRequest>(&proto::ScrubReply {}, Payload::none());
    let node = node.clone();
    node.clone().spawn("scrub", async move {
        tracing::info!(job, "begins");
        if message.compare {
            compare(&node).await;
        } else {
            scrub(&node).await;
        }
        node.progress.set(Progress::default());
    });
}

/// Waits as the rate demands and notes how far the job is.
async fn pace(node: &Rc<Node>, bucket: &mut Bucket, looked_at: u64, done: u64, left: u64) {
    let wait = bucket.take(looked_at, node.now());
    if !wait.is_zero() {
        node.env.sleep(wait).await;
    }
    let job = node.progress.get().job;
    node.progress.set(Progress {
        job,
        done,
        total: done + left,
        bytes_per_s: node.settings.scrub_bytes_per_s,
    });
}

/// Bytes of all objects, for the progress; holes are counted though nobody reads them.
async fn bytes_kept(node: &Rc<Node>) -> u64 {
    let (mut after, mut total) = (None, 0);
    loop {
        match node.store.list(after, LISTED_AT_A_TIME).await {
            Ok(page) => {
                let Some((last, _)) = page.last() else {
                    return total;
                };
                after = Some(*last);
                total += page.iter().map(|(_, length)| length).sum::<u64>();
            }
            Err(error) => {
                node.store_failed(error);
                return total;
            }
        }
    }
}

async fn scrub(node: &Rc<Node>) {
    let mut bucket = Bucket::new(node.settings.scrub_bytes_per_s, node.now());
    let mut cursor = ScrubCursor::default();
    let (mut regions, mut found, mut done) = (0_u64, 0, 0);
    let epoch = node.side.borrow().epoch();
    let brought = gone::bring_all_back(node, epoch).await;
    let total = bytes_kept(node).await;
    loop {
        let next = match node.store.scrub_next(&mut cursor).await {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(error) => {
                node.store_failed(error);
                break;
            }
        };
        let region = Region {
            object: next.0,
            index: next.1,
        };
        let held = node.locks.enqueue(
            region.object,
            vec![region.run().span()],
            crate::locks::Kind::Read,
        );
        held.granted().await;
        let epoch = node.side.borrow().epoch();
        let step = node.store.scrub_step(&mut cursor).await;
        drop(held);
        match step {
            Ok(Some(scrubbed)) => {
                regions += 1;
                if !scrubbed.bad.is_empty() {
                    found += scrubbed.bad.len();
                    if let Err(error) =
                        settle::heal_found(node, epoch, scrubbed.object, &scrubbed.bad).await
                    {
                        tracing::warn!(object = %scrubbed.object, ?error,
                            "bad blocks were not healed");
                    }
                }
                done += scrubbed.bytes;
                let left = total.saturating_sub(done + cursor.passed());
                pace(node, &mut bucket, scrubbed.bytes, done, left).await;
            }
            Ok(None) => break,
            Err(error) => {
                node.store_failed(error);
            }
        }
    }
    tracing::info!(
        regions,
        bad_blocks = found,
        brought_back = brought,
        "scrub ends"
    );
}

/// Compares both copies of everything. What is in the modified lists with a doubt is settled first
/// by others; a difference anywhere else is a fault of Weft or of a disk, and is not made up here:
/// nobody knows which copy is right.
async fn compare(node: &Rc<Node>) {
    let state = match node.side.borrow().state() {
        Some(state) if state.mode == Mode::Both => state,
        _ => {
            tracing::warn!("copies are compared only while both members serve");
            return;
        }
    };
    let mut plan = Plan::new();
    if let Err(error) = list_all(node, &mut plan).await {
        tracing::warn!(?error, "the copies cannot be listed");
        return;
    }
    let mut bucket = Bucket::new(node.settings.scrub_bytes_per_s, node.now());
    let mut differing = 0_u64;
    while let Some(run) = plan.next_run() {
        if node.side.borrow().epoch() != state.epoch {
            tracing::warn!(
                left = plan.left(),
                "comparing was interrupted by a new state"
            );
            return;
        }
        let first = run.first();
        match settle::differs(node, state.epoch, &run).await {
            Ok(compared) => {
                if compared.differed && !node.marks.is_doubtful(first) {
                    differing += 1;
                    node.metrics.mismatches.inc();
                    tracing::error!(object = %first.object, region = first.index,
                        "the two copies differ");
                }
                plan.finished(Run {
                    object: run.object,
                    regions: first.index..compared.upto,
                });
                let (done, left) = (plan.done() * REGION_BYTES, plan.left() * REGION_BYTES);
                pace(node, &mut bucket, compared.bytes, done, left).await;
            }
            Err(Unsettled::Lost) => node.env.sleep(std::time::Duration::from_millis(20)).await,
            Err(error) => {
                tracing::warn!(object = %first.object, ?error, "copies cannot be compared");
                plan.finished(first.run());
            }
        }
    }
    tracing::info!(regions = plan.done(), differing, "comparing ends");
}
