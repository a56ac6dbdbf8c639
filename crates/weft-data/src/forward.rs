//! What the twin asks of this member: second copies, and what recovery, comparing and healing need.

use crate::disk::HEALED;
use crate::listed::{self, after};
use crate::locks::{Kind, Ticket, blocks_around};
use crate::losses;
use crate::marks::{self, Ended};
use crate::server::{Node, from_name, to_name};
use crate::write::{Change, extents_of, holes_of};
use std::ops::Range;
use std::rc::Rc;
use weft_objects::{Failure, Fetched, Fill, Purpose, regions_of};
use weft_rpc::{Payload, Request};
use weft_types::{BLOCK_BYTES, Epoch, Member, ObjectId, REGION_BLOCKS, Regions, Run};
use weft_wire::proto;
use weft_wire::{Failed, Rpc};

/// Objects in one answer about the store.
const OBJECTS_MAX: usize = 2048;

/// The twin asks.
pub(crate) fn on_twin(node: &Rc<Node>, request: Request) {
    match request.method {
        proto::ForwardRequest::METHOD => on_forward(node, request),
        proto::DirtyRequest::METHOD => on_dirty(node, request),
        proto::ChecksumsRequest::METHOD => on_checksums(node, request),
        proto::FillRequest::METHOD => on_fill(node, request),
        proto::FetchRequest::METHOD => on_fetch(node, request),
        proto::ListRequest::METHOD => on_list(node, request),
        proto::FilledRequest::METHOD => on_filled(node, request),
        proto::ClearRequest::METHOD => on_clear(node, request),
        proto::FenceRequest::METHOD => crate::fence::on_fence(node, None, request),
        _ => request
            .replier
            .fail(Failed::Refused("not a request for a twin".into())),
    }
}

/// A place in the queue for the twin, unless both would wait for each other.
fn enqueue(
    node: &Node,
    object: ObjectId,
    spans: Vec<Range<u64>>,
    kind: Kind,
) -> Result<Ticket, Failed> {
    if node.me == Member::Zero && node.locks.would_deadlock(object, &spans, kind) {
        return Err(Failed::Errno(libc::EDEADLK));
    }
    Ok(node.locks.enqueue(object, spans, kind))
}

async fn follows(node: &Node, epoch: u64) -> Result<(), Failed> {
    node.not_ahead(|side, _| side.follows(Epoch(epoch))).await?;
    Ok(())
}

/// For what has waited: the same, without waiting.
fn still_follows(node: &Node, epoch: u64) -> Result<(), Failed> {
    node.side.borrow().follows(Epoch(epoch))?;
    Ok(())
}

/// METHOD 80.
fn on_forward(node: &Rc<Node>, request: Request) {
    let message: proto::ForwardRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    if message.sync {
        node.clone().spawn("forwarded sync", async move {
            let synced = async {
                let object = from_name(message.object)?;
                follows(&node, message.epoch).await?;
                match node.store.sync(&[object]).await {
                    Ok(()) => Ok(()),
                    Err(error) => Err(node.not_done(error, Epoch(message.epoch)).await),
                }
            };
            match synced.await {
                Ok(()) => request.replier.send::<proto::ForwardRequest>(
                    &proto::ForwardReply {
                        room: node.room(),
                        ..Default::default()
                    },
                    Payload::none(),
                ),
                Err(failed) => request.replier.fail(failed),
            }
        });
        return;
    }
    let checked = (|| {
        let object = from_name(message.object)?;
        let change = if message.drop_object {
            Change::Remove
        } else if message.extents.is_empty() {
            Change::Shape {
                truncate: message.truncate,
                punch: holes_of(&message.punch)?,
            }
        } else {
            Change::Write {
                extents: extents_of(&message.extents, &request.payload)?,
                payload: request.payload.clone(),
                crc: request.payload_crc,
            }
        };
        Ok((object, change))
    })();
    let (object, change) = match checked {
        Ok(checked) => checked,
        Err(failed) => return request.replier.fail(failed),
    };
    // In the order of arrival, unless the epoch has to be waited for.
    let ready = still_follows(&node, message.epoch).is_ok();
    let ticket = match ready.then(|| enqueue(&node, object, change.spans(), Kind::TwinChange)) {
        Some(Err(failed)) => return request.replier.fail(failed),
        Some(Ok(ticket)) => Some(ticket),
        None => None,
    };
    node.clone().spawn("forwarded change", async move {
        match copy(&node, &message, object, &change, ticket).await {
            Ok(reply) => request
                .replier
                .send::<proto::ForwardRequest>(&reply, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// Takes the second copy of a change.
async fn copy(
    node: &Rc<Node>,
    message: &proto::ForwardRequest,
    object: ObjectId,
    change: &Change,
    ticket: Option<Ticket>,
) -> Result<proto::ForwardReply, Failed> {
    let held = match ticket {
        Some(ticket) => ticket,
        None => {
            follows(node, message.epoch).await?;
            enqueue(node, object, change.spans(), Kind::TwinChange)?
        }
    };
    held.granted().await;
    let epoch = Epoch(message.epoch);
    let length = match change {
        Change::Write { .. } => 0,
        _ => match node.store.length(object).await {
            Ok(length) => length,
            Err(error) => return Err(node.not_done(error, epoch).await),
        },
    };
    let check = || {
        still_follows(node, message.epoch)?;
        if message.session != 0 && node.sessions.borrow().is_fenced(message.session) {
            return Err(Failed::Fenced(format!(
                "session {} has ended",
                message.session
            )));
        }
        Ok(())
    };
    check()?;
    let regions = change.regions(length);
    let marking = node.marks.begin(
        &node.store,
        object,
        &regions,
        (change.purpose(), node.settings.sync_marks),
        node.now(),
    );
    let intent = match marking.await {
        Ok(intent) => intent,
        Err(error) => return Err(node.not_done(error, epoch).await),
    };
    let numbers = (message.operation, message.confirmed_below);
    node.announce(message.session, object, &regions, numbers);
    let done = match check() {
        Ok(()) => match change.apply(node, object).await {
            Ok(()) => {
                let changed = change.bytes_changed();
                node.store.clear_losses(object, &changed).await
            }
            failed => failed,
        },
        Err(failed) => {
            intent.end(Ended::Alike, node.now());
            return Err(failed);
        }
    };
    // Whether both have it is for the leader to know; it marks the region, too. Of what this disk has refused it undoes
    // the other copy, which may be longer from then on, for a while: nobody has cut this one off.
    let ended = match &done {
        Ok(()) | Err(weft_objects::Error::BadBlocks { .. }) => Ended::Alike,
        Err(_) => Ended::Refused,
    };
    intent.end(ended, node.now());
    match done {
        Ok(()) => {
            if let Change::Write { payload, .. } = change {
                node.metrics.copied_bytes.inc_by(payload.len() as u64);
            }
            Ok(proto::ForwardReply {
                room: node.room(),
                ..Default::default()
            })
        }
        Err(weft_objects::Error::BadBlocks { blocks, .. }) => {
            node.metrics.bad_blocks.inc_by(blocks.len() as u64);
            if node.disk.is_still_bad(object, blocks[0]) {
                node.disk_fails(Failure::Read, HEALED);
                return Err(node.when_left_behind(epoch, Failed::Errno(libc::EIO)).await);
            }
            tracing::warn!(%object, block = blocks[0], count = blocks.len(),
                "bad blocks would be written in part; the twin gives them");
            Ok(proto::ForwardReply {
                bad_blocks: blocks,
                room: node.room(),
            })
        }
        // As long as it is not known that the leader goes on alone, it does not count as done.
        Err(error) => Err(node.not_done(error, epoch).await),
    }
}

/// METHOD 81.
fn on_dirty(node: &Rc<Node>, request: Request) {
    let message: proto::DirtyRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("modified list", async move {
        if let Err(failed) = follows(&node, message.epoch).await {
            return request.replier.fail(failed);
        }
        match listed::on_dirty(&node, &message) {
            Ok(reply) => request
                .replier
                .send::<proto::DirtyRequest>(&reply, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// METHOD 82.
fn on_checksums(node: &Rc<Node>, request: Request) {
    let message: proto::ChecksumsRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("checksums", async move {
        let summed = async {
            let object = from_name(message.object)?;
            let behind = message.region.saturating_add(1);
            let mut run = Run {
                object,
                regions: message.region..message.until.max(behind),
            };
            follows(&node, message.epoch).await?;
            let held = enqueue(&node, object, vec![run.span()], Kind::TwinRead)?;
            held.granted().await;
            still_follows(&node, message.epoch)?;
            // Wherever: the length of an object may be that of a change far behind.
            let in_doubt = node.marks.is_in_doubt(&run);
            let next = node.store.next_region(object, behind..run.regions.end);
            run.regions.end = next.await.map_err(|error| node.store_failed(error))?;
            node.marks.compared_by_twin(&run);
            let sums = node.store.checksums(object, message.region).await;
            let sums = sums.map_err(|error| node.store_failed(error))?;
            Ok(proto::ChecksumsReply {
                checksums: sums.checksums,
                length: sums.length,
                exists: sums.exists,
                unconfirmed: node.marks.is_unconfirmed(&run),
                holes_until: run.regions.end,
                changing: node.marks.is_changing(&run),
                in_doubt,
            })
        };
        match summed.await {
            Ok(reply) => request
                .replier
                .send::<proto::ChecksumsRequest>(&reply, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// METHOD 83.
fn on_fill(node: &Rc<Node>, request: Request) {
    let message: proto::FillRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("fill", async move {
        let filled = async {
            let object = from_name(message.object)?;
            follows(&node, message.epoch).await?;
            let spans = if message.length.is_some() || !message.exists {
                vec![crate::locks::WHOLE]
            } else {
                let blocks = message.blocks.iter().chain(&message.holes);
                blocks
                    .map(|block| {
                        let start = block.saturating_mul(BLOCK_BYTES);
                        blocks_around(start, start.saturating_add(BLOCK_BYTES))
                    })
                    .collect()
            };
            let held = enqueue(&node, object, spans, Kind::TwinChange)?;
            held.granted().await;
            still_follows(&node, message.epoch)?;
            if let Some(expected) = &message.expected {
                is_as_expected(&node, object, &message, expected).await?;
            }
            mark_fill(&node, object, &message).await?;
            let bytes = request.payload.len() as u64;
            let fill = Fill {
                blocks: message.blocks,
                payload: request.payload.clone(),
                holes: message.holes,
                length: message.length,
                exists: message.exists,
            };
            if let Err(error) = node.store.fill(object, &fill).await {
                return Err(node.not_done(error, Epoch(message.epoch)).await);
            }
            node.metrics.copied_bytes.inc_by(bytes);
            Ok::<(), Failed>(())
        };
        match filled.await {
            Ok(()) => request
                .replier
                .send::<proto::FillRequest>(&proto::FillReply {}, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// The object is still as it was compared, as far as the fill changes it, and that cuts off nothing that a
/// client may still be sending to the other member.
async fn is_as_expected(
    node: &Node,
    object: ObjectId,
    message: &proto::FillRequest,
    expected: &proto::Expected,
) -> Result<(), Failed> {
    let sums = node.store.checksums(object, expected.region).await;
    let sums = sums.map_err(|error| node.store_failed(error))?;
    let changes_shape = message.length.is_some() || !message.exists;
    let as_compared = (sums.exists, sums.length) == (expected.exists, expected.length);
    if sums.checksums != expected.checksums || changes_shape && !as_compared {
        return Err(Failed::Errno(libc::EAGAIN));
    }
    let length = if message.exists {
        message.length
    } else {
        Some(0)
    };
    if let Some(length) = length {
        let cut = Run {
            object,
            regions: regions_of(length, sums.length),
        };
        if node.marks.is_unconfirmed(&cut) {
            return Err(Failed::Errno(libc::EBUSY));
        }
    }
    Ok(())
}

/// Puts what is filled in this member's list, too: the sender may lose to a power cut what it has not
/// made stable, and then this member's list must say that the sender's copy lacks it.
async fn mark_fill(
    node: &Node,
    object: ObjectId,
    message: &proto::FillRequest,
) -> Result<(), Failed> {
    let length = node.store.length(object).await;
    let old = length.map_err(|error| node.store_failed(error))?;
    let blocks = message.blocks.iter().chain(&message.holes);
    let mut regions: Regions = blocks
        .map(|block| {
            let region = u32::try_from(block / REGION_BLOCKS).unwrap_or(u32::MAX);
            region..region.saturating_add(1)
        })
        .collect();
    if !message.exists {
        regions.insert(regions_of(0, old.max(1)));
    } else if let Some(new) = message.length
        && new != old
    {
        regions.insert(regions_of(new.min(old), new.max(old)));
    }
    let purpose = match message.blocks.is_empty() {
        true => Purpose::Free,
        false => Purpose::Write,
    };
    for run in regions.runs() {
        let durable = node.settings.sync_marks;
        let marking = node.store.mark(object, run.clone(), purpose, durable);
        marking.await.map_err(|error| node.store_failed(error))?;
    }
    Ok(())
}

/// METHOD 84.
fn on_fetch(node: &Rc<Node>, request: Request) {
    let message: proto::FetchRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("fetch", async move {
        let fetched = async {
            let object = from_name(message.object)?;
            if message.blocks.len() as u64 > REGION_BLOCKS {
                return Err(Failed::Refused("more blocks than a frame holds".into()));
            }
            follows(&node, message.epoch).await?;
            let spans = message
                .blocks
                .iter()
                .map(|block| {
                    let start = block.saturating_mul(BLOCK_BYTES);
                    start..start.saturating_add(BLOCK_BYTES)
                })
                .collect();
            let held = enqueue(&node, object, spans, Kind::TwinRead)?;
            held.granted().await;
            still_follows(&node, message.epoch)?;
            let fetched = node.store.fetch(object, &message.blocks).await;
            fetched.map_err(|error| node.store_failed(error))
        };
        match fetched.await {
            Ok(fetched) => {
                let mut reply = proto::FetchReply::default();
                let mut parts = Vec::new();
                for block in fetched {
                    reply.status.push(match block {
                        Fetched::Data(data) => {
                            parts.push(data);
                            0
                        }
                        Fetched::Hole => 1,
                        Fetched::Bad => 2,
                    });
                }
                request
                    .replier
                    .send::<proto::FetchRequest>(&reply, Payload::parts(parts));
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// METHOD 85.
pub(crate) fn on_list(node: &Rc<Node>, request: Request) {
    let message: proto::ListRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("list", async move {
        let max = (message.max as usize).clamp(1, OBJECTS_MAX);
        let after = after(message.after_ino, message.after_generation);
        match node.store.list(after, max).await {
            Ok(listed) => {
                let reply = proto::ListReply {
                    more: listed.len() == max,
                    objects: listed
                        .into_iter()
                        .map(|(object, length)| proto::ListedObject {
                            object: Some(to_name(object)),
                            length,
                        })
                        .collect(),
                };
                request
                    .replier
                    .send::<proto::ListRequest>(&reply, Payload::none());
            }
            Err(error) => request.replier.fail(node.store_failed(error)),
        }
    });
}

/// METHOD 86.
fn on_filled(node: &Rc<Node>, request: Request) {
    let message: proto::FilledRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("filled", async move {
        let filled = async {
            still_follows(&node, message.epoch)?;
            let losses = message.losses.iter().map(losses::from_proto);
            let losses = losses.collect::<Result<Vec<_>, Failed>>()?;
            let replaced = node.store.replace_losses(losses).await;
            replaced.map_err(|error| node.store_failed(error))?;
            // The deletion queue has forgotten what was removed here while this member was away: nobody
            // would remove it a second time.
            let synced = node.store.sync_names().await;
            synced.map_err(|error| node.store_failed(error))?;
            still_follows(&node, message.epoch)
        };
        match filled.await {
            Ok(()) => {
                if node.store.everything_dirty() {
                    node.store.clear_everything();
                }
                request
                    .replier
                    .send::<proto::FilledRequest>(&proto::FilledReply {}, Payload::none());
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// METHOD 87.
fn on_clear(node: &Rc<Node>, request: Request) {
    let message: proto::ClearRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("clear", async move {
        match marks::on_clear(&node, &message).await {
            Ok(reply) => request
                .replier
                .send::<proto::ClearRequest>(&reply, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}
