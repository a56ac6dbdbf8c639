//! Reads and maps for clients. The life of a read is in docs/protocols/a-read.md.

use crate::disk::HEALED;
use crate::gone;
use crate::locks::{Kind, Ticket, blocks_around};
use crate::losses;
use crate::server::{Node, from_name};
use crate::settle::{self, Unsettled};
use crate::write::HEALS;
use bytes::Bytes;
use std::rc::Rc;
use weft_objects::Failure;
use weft_pair::{Mode, PairState};
use weft_rpc::{Connection, Payload, Request};
use weft_types::{Epoch, ObjectId, PAYLOAD_MAX, PairId, Region};
use weft_wire::Failed;
use weft_wire::proto;

/// Ranges in one answer to a map.
const MAP_RANGES_MAX: usize = 4096;

/// METHOD 65.
pub(crate) fn on_read(node: &Rc<Node>, connection: &Connection, request: Request) {
    let message: proto::ReadRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let object = match from_name(message.object) {
        Ok(object) => object,
        Err(failed) => return request.replier.fail(failed),
    };
    let end = message.offset.checked_add(u64::from(message.length));
    let (Some(end), true) = (end, message.length as usize <= PAYLOAD_MAX) else {
        let why = "a read of more than a frame holds";
        return request.replier.fail(Failed::Refused(why.into()));
    };
    let ticket = ticket(node, object, message.offset, end);
    let node = node.clone();
    let connection = connection.number();
    node.clone().spawn("read", async move {
        let _loaded = node.loaded();
        match read(&node, &message, connection, object, ticket).await {
            Ok(parts) => {
                let bytes: usize = parts.iter().map(Bytes::len).sum();
                node.metrics.reads.inc();
                node.metrics.read_bytes.inc_by(bytes as u64);
                request
                    .replier
                    .send::<proto::ReadRequest>(&proto::ReadReply {}, Payload::parts(parts));
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

fn ticket(node: &Node, object: ObjectId, start: u64, end: u64) -> Ticket {
    let span = blocks_around(start, end);
    node.locks.enqueue(object, vec![span], Kind::Read)
}

async fn read(
    node: &Rc<Node>,
    message: &proto::ReadRequest,
    connection: u64,
    object: ObjectId,
    ticket: Ticket,
) -> Result<Vec<Bytes>, Failed> {
    let (pair, epoch) = (PairId(message.pair), Epoch(message.epoch));
    let end = message.offset + u64::from(message.length);
    let mut held = Some(ticket);
    // A block that was just healed may be the neighbour of another one that goes bad: not for ever.
    for _ in 0..HEALS {
        let mut ticket = held
            .take()
            .unwrap_or_else(|| self::ticket(node, object, message.offset, end));
        ticket.granted().await;
        if epoch > node.side.borrow().epoch() {
            drop(ticket);
            node.not_ahead(|side, now| side.admits(pair, epoch, now))
                .await?;
            ticket = self::ticket(node, object, message.offset, end);
            ticket.granted().await;
        }
        // Now, not when it arrived: what it waited for may have been the last write here.
        node.admit(pair, epoch, message.session, connection)?;
        if let Some(lost) = node.store.lost_within(object, message.offset..end) {
            tracing::debug!(%object, start = lost.start, end = lost.end, "this was lost");
            return Err(Failed::Errno(libc::EIO));
        }
        let reading = node
            .store
            .read(object, message.offset, u64::from(message.length));
        match reading.await {
            Ok(parts) => {
                let found: usize = parts.iter().map(Bytes::len).sum();
                if found as u64 == u64::from(message.length) {
                    return Ok(parts);
                }
                drop(ticket);
                match gone::bring_back(node, epoch, object, end).await {
                    Ok(false) => return Ok(parts),
                    Ok(true) => {}
                    Err(Unsettled::Stale) => {
                        return Err(Failed::Stale(node.side.borrow().epoch().0));
                    }
                    // Not to be read as zeros; the twin has it.
                    Err(_) => {
                        let why = "what was lost here is to come from the twin";
                        return Err(Failed::Unavailable(why.into()));
                    }
                }
            }
            Err(weft_objects::Error::BadBlocks { blocks, .. }) => {
                drop(ticket);
                match settle::heal_found(node, epoch, object, &blocks).await {
                    Ok(()) => {}
                    Err(Unsettled::Stale) => {
                        return Err(Failed::Stale(node.side.borrow().epoch().0));
                    }
                    Err(Unsettled::Lost) => {
                        return Err(Failed::Unavailable(
                            "a bad block waits for the twin to heal it".into(),
                        ));
                    }
                    Err(Unsettled::Bad) => return Err(Failed::Errno(libc::EIO)),
                    // The disk does not take what is to heal it.
                    Err(_) => {
                        return read_of_twin(node, epoch, object, (message.offset, end)).await;
                    }
                }
            }
            Err(error) => {
                let fails = error.failure().is_some();
                let failed = node.store_failed(error);
                drop(ticket);
                return match fails {
                    true => read_of_twin(node, epoch, object, (message.offset, end)).await,
                    false => Err(failed),
                };
            }
        }
    }
    node.disk_fails(Failure::Read, HEALED);
    read_of_twin(node, epoch, object, (message.offset, end)).await
}

/// What this member cannot read, from the twin.
async fn read_of_twin(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    range: (u64, u64),
) -> Result<Vec<Bytes>, Failed> {
    match settle::read_of_twin(node, epoch, object, range).await {
        Ok(bytes) => {
            node.metrics.reads_of_twin.inc();
            tracing::debug!(%object, offset = range.0, "read from the twin");
            Ok(vec![bytes])
        }
        Err(Unsettled::Stale) => Err(Failed::Stale(node.side.borrow().epoch().0)),
        Err(Unsettled::Lost) => Err(Failed::Unavailable("the twin does not answer".into())),
        Err(_) => Err(Failed::Errno(libc::EIO)),
    }
}

/// METHOD 68.
pub(crate) fn on_map(node: &Rc<Node>, request: Request) {
    let message: proto::MapRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("map", async move {
        let mapped = async {
            let object = from_name(message.object)?;
            let (pair, epoch) = (PairId(message.pair), Epoch(message.epoch));
            node.not_ahead(|side, now| side.admits(pair, epoch, now))
                .await?;
            let end = message.end.max(message.start);
            let max = match message.max as usize {
                0 => MAP_RANGES_MAX,
                max => max.min(MAP_RANGES_MAX),
            };
            let held = ticket(&node, object, message.start, end);
            held.granted().await;
            let now = node.now();
            let state = node.side.borrow().admits(pair, epoch, now)?;
            let map = match node.store.map(object, message.start, end, max).await {
                Ok(map) => map,
                Err(error) => return Err(node.not_done(error, epoch).await),
            };
            let told = match map.data.last() {
                Some(last) if map.more => message.start..last.end,
                _ => message.start..end,
            };
            let lost = node.store.lost_within(object, told).is_some();
            Ok((map, state, lost))
        };
        match mapped.await {
            Ok((map, state, lost)) => {
                let reply = proto::MapReply {
                    data: map
                        .data
                        .into_iter()
                        .map(|range| proto::Range {
                            start: range.start,
                            end: range.end,
                        })
                        .collect(),
                    more: map.more,
                    length: map.length,
                    dstatus: dstatus(&state),
                    allocated: map.allocated,
                    lost,
                };
                request
                    .replier
                    .send::<proto::MapRequest>(&reply, Payload::none());
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// METHOD 82, of a client: it compares an object with a copy of it.
pub(crate) fn on_checksums(node: &Rc<Node>, request: Request) {
    let message: proto::ChecksumsRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("checksums for a client", async move {
        let summed = async {
            let object = from_name(message.object)?;
            let region = Region {
                object,
                index: message.region,
            };
            let (pair, epoch) = (PairId(message.pair), Epoch(message.epoch));
            node.not_ahead(|side, now| side.admits(pair, epoch, now))
                .await?;
            let span = vec![region.run().span()];
            let held = node.locks.enqueue(object, span, Kind::Read);
            held.granted().await;
            let now = node.now();
            node.side.borrow().admits(pair, epoch, now)?;
            let sums = node.store.checksums(object, message.region).await;
            let mut sums = match sums {
                Ok(sums) => sums,
                Err(error) => return Err(node.not_done(error, epoch).await),
            };
            // What is lost is not to be taken for what is here now, nor for a hole: it is read, and
            // refused.
            losses::mark_lost(
                &node.store.losses(Some(object)),
                region,
                &mut sums.checksums,
            );
            Ok(sums)
        };
        match summed.await {
            Ok(sums) => {
                let reply = proto::ChecksumsReply {
                    checksums: sums.checksums,
                    length: sums.length,
                    exists: sums.exists,
                    unconfirmed: false,
                    holes_until: 0,
                    changing: false,
                    in_doubt: false,
                };
                request
                    .replier
                    .send::<proto::ChecksumsRequest>(&reply, Payload::none());
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// 0 none, 1 or 2 one member, 3 both.
fn dstatus(state: &PairState) -> u32 {
    match state.mode {
        Mode::Both => 3,
        mode => mode.sole().map_or(0, |m| 1 + m.index() as u32),
    }
}
