//! What only an absent twin has, or nobody: named when the session that wrote it ends, refused to
//! readers, and merged when the twin is back with it (docs/protocols/losses.md).

use crate::alone::{Suspect, around, minus};
use crate::attend;
use crate::listed;
use crate::locks::{Kind, WHOLE};
use crate::marks::joined;
use crate::server::{Node, from_name, to_name};
use crate::settle::{self, GIVE_WAY, Unsettled};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::{Extent, Loss, Purpose, regions_of};
use weft_pair::{Mode, PairState};
use weft_rpc::{CallError, Payload, Request};
use weft_types::{
    BLOCK_BYTES, Epoch, GroupId, Member, ObjectId, REGION_BLOCKS, Region, Regions, Run,
};
use weft_wire::Failed;
use weft_wire::checksum;
use weft_wire::proto;

/// How soon, at first and at last, the replica groups are asked again whether sessions may still have
/// gone on with something: a recovery waits for it, and living clients say within milliseconds.
const ASK_AGAIN: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];
/// Wait before something that was interrupted is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Asks the replica groups until no session can have gone on any more with what only the twin had, or
/// this member does not serve alone any more.
pub(crate) async fn watch(node: Rc<Node>) {
    let began = node.alone.since();
    let mut pause = ASK_AGAIN[0];
    // Groups of which that is so: it stays so, for nothing new can be on the twin only.
    let mut settled: BTreeSet<GroupId> = BTreeSet::new();
    while let Some(since) = node.alone.since()
        && began == Some(since)
    {
        for group in attend::groups(&node) {
            if !settled.contains(&group) && is_settled(&node, group, since).await {
                settled.insert(group);
            }
        }
        // Others may have come meanwhile.
        let all = attend::groups(&node);
        if all.iter().all(|group| settled.contains(group)) && node.alone.since() == began {
            node.alone.resolved();
            node.changed.notify_waiters();
            node.record_state();
            return;
        }
        node.env.sleep(pause).await;
        pause = (pause * 2).min(ASK_AGAIN[1]);
    }
}

/// A group says that none of its sessions can have gone on any more with what only the twin had. False
/// also without its answer.
async fn is_settled(node: &Node, group: GroupId, since: Epoch) -> bool {
    let Some(connection) = attend::active_of(node, group) else {
        return false;
    };
    let request = proto::UnsettledRequest {
        pair: node.pair.0,
        epoch: since.0,
    };
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    let call = connection.call(&request, Payload::none());
    let answer = node.env.timeout(patience, call).await;
    matches!(answer, Ok(Ok((reply, _))) if reply.sessions == 0)
}

/// Notes what a session that has ended may have lost of an object, of the bytes that its leases let it
/// write (`within`, ascending). Nobody else may use these yet.
///
/// # Errors
/// If that cannot be kept.
pub(crate) async fn note(
    node: &Rc<Node>,
    state: &PairState,
    session: u64,
    object: ObjectId,
    within: &[Range<u64>],
) -> Result<(), Unsettled> {
    // What it had under way here has ended, and counts as taken.
    let held = node.locks.enqueue(object, vec![WHOLE], Kind::Read);
    held.granted().await;
    let suspect: Vec<(Range<u64>, bool)> = match node.alone.suspect(session, object) {
        Suspect::Ranges(ranges) => ranges.into_iter().map(|range| (range, true)).collect(),
        Suspect::Unknown => unknown(node, object).await?,
    };
    let losses: Vec<Loss> = suspect
        .into_iter()
        .flat_map(|(range, can_return)| {
            let within = within.iter().map(move |bound| {
                let part = range.start.max(bound.start)..range.end.min(bound.end);
                (part, can_return)
            });
            within.filter(|(part, _)| part.start < part.end)
        })
        .map(|(range, can_return)| Loss {
            object,
            range,
            session,
            member: node.me.twin(),
            can_return,
            epoch: state.epoch,
            noted: u64::try_from(node.env.wall().0).unwrap_or(0),
        })
        .collect();
    if losses.is_empty() {
        return Ok(());
    }
    let noted = node.store.note_losses(&losses).await;
    noted.map_err(|error| settle::of_store(node, error))?;
    let ranges: Vec<String> = losses
        .iter()
        .map(|loss| format!("{}..{}", loss.range.start, loss.range.end))
        .collect();
    tracing::error!(%object, session, member = %node.me.twin(), ranges = ranges.join(" "),
        "lost with a data server and the client that wrote through it; reading it fails until it is written, acknowledged, or back");
    Ok(())
}

/// For a member that has started anew since it began to serve alone: its list names where the session
/// wrote. What is in the list may be newer here than at the twin, or the other way round; what lies
/// behind it can be newer at the twin only.
async fn unknown(node: &Node, object: ObjectId) -> Result<Vec<(Range<u64>, bool)>, Unsettled> {
    let listed: Vec<Range<u32>> = if node.store.everything_dirty() {
        let length = node.store.length(object).await;
        let length = length.map_err(|error| settle::of_store(node, error))?;
        vec![regions_of(0, length)]
    } else {
        node.store.dirty_regions(object)
    };
    let own = listed.iter().cloned();
    let own: Vec<Range<u64>> = own.map(|regions| Run { object, regions }.span()).collect();
    let behind = minus(around(listed), &own);
    let own = own.into_iter().map(|range| (range, false));
    Ok(own
        .chain(behind.into_iter().map(|range| (range, true)))
        .collect())
}

/// What is lost and can come back, does, from a twin that is there again and has not been filled yet.
/// What does not is lost for good: the twin gets this member's content in its place.
pub(crate) async fn bring_all_back(node: &Rc<Node>, state: &PairState) -> Result<(), Unsettled> {
    let returnable = node.store.losses(None);
    let returnable = returnable.into_iter().filter(|loss| loss.can_return);
    let objects: BTreeSet<ObjectId> = returnable.map(|loss| loss.object).collect();
    if objects.is_empty() {
        return Ok(());
    }
    // Another store never had anything of it.
    if !state.fill_all {
        for object in objects {
            match bring_back(node, state.epoch, object).await {
                Ok(()) => {}
                Err(error @ (Unsettled::Lost | Unsettled::Stale)) => return Err(error),
                Err(error) => {
                    tracing::warn!(%object, ?error, "what was lost cannot be taken back");
                }
            }
        }
    }
    if node.side.borrow().epoch() != state.epoch {
        return Err(Unsettled::Stale);
    }
    let given_up = node.store.give_up_losses().await;
    given_up.map_err(|error| settle::of_store(node, error))
}

/// Takes what was lost of an object from the twin, where nothing was written since.
///
/// # Errors
/// If the twin or a disk is in the way; what is back then stays.
pub(crate) async fn bring_back(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
) -> Result<(), Unsettled> {
    let losses = returnable(node, object);
    if losses.is_empty() {
        return Ok(());
    }
    let theirs = listed::of_twin(node, epoch, Some((object, 0))).await?;
    if !theirs.intact || theirs.everything {
        tracing::warn!(%object, "the twin is back, but may have lost what it had alone to a power cut");
        return Ok(());
    }
    let mut bytes = 0;
    let mut stays: Vec<Range<u64>> = Vec::new();
    let theirs: Regions = theirs.runs.into_iter().map(|run| run.regions).collect();
    let lost = losses.iter().map(|lost| regions_of(lost.start, lost.end));
    let lost: Regions = lost.collect();
    for index in lost
        .runs()
        .iter()
        .flat_map(|run| theirs.within(run.clone()))
        .flatten()
    {
        let region = Region { object, index };
        let wanted = || returnable(node, object);
        bytes += take_region_locked(node, epoch, region, &wanted, Some(&mut stays)).await?;
    }
    // Elsewhere the twin has nothing that this member lacks.
    stays.sort_by_key(|range| range.start);
    let back = minus(losses, &stays);
    let cleared = node.store.clear_losses(object, &back).await;
    cleared.map_err(|error| settle::of_store(node, error))?;
    tracing::info!(%object, bytes, "what was lost is back");
    node.spawn("returned", told_returned(node.clone(), object));
    Ok(())
}

/// Takes bytes of an object from the twin that only it has.
///
/// # Errors
/// As [`bring_back`].
pub(crate) async fn take_from_twin(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    ranges: &[Range<u64>],
) -> Result<(), Unsettled> {
    if ranges.is_empty() {
        return Ok(());
    }
    // What was made a hole reaches as far as a file can. Behind both copies there is nothing to take.
    let ours = node.store.length(object).await;
    let ours = ours.map_err(|error| settle::of_store(node, error))?;
    let end = ours.max(length_of_twin(node, epoch, object).await?);
    let within = ranges.iter().map(|range| range.start..range.end.min(end));
    let ranges: Vec<Range<u64>> = within.filter(|range| range.start < range.end).collect();
    let mut bytes = 0;
    let regions = ranges
        .iter()
        .map(|range| regions_of(range.start, range.end));
    let regions: Regions = regions.collect();
    for index in regions.runs().iter().cloned().flatten() {
        let region = Region { object, index };
        let wanted = || ranges.clone();
        bytes += take_region_locked(node, epoch, region, &wanted, None).await?;
    }
    if bytes > 0 {
        tracing::info!(%object, bytes, "took what a client had sent to the other member only");
    }
    Ok(())
}

async fn length_of_twin(node: &Node, epoch: Epoch, object: ObjectId) -> Result<u64, Unsettled> {
    let request = proto::ChecksumsRequest {
        epoch: epoch.0,
        object: Some(to_name(object)),
        ..Default::default()
    };
    let (theirs, _) = node.link.call(&request, Payload::none()).await?;
    Ok(theirs.length)
}

/// What can come back of an object, as it is now: what was written since is not lost.
fn returnable(node: &Node, object: ObjectId) -> Vec<Range<u64>> {
    let losses = node.store.losses(Some(object)).into_iter();
    let losses = losses.filter(|loss| loss.can_return);
    losses.map(|loss| loss.range).collect()
}

/// Takes the wanted bytes of one region. Answers how many came. With `stays`, the blocks that cannot
/// come, being bad at the twin or, where only a part of them is wanted, here, go there; without,
/// the latter are an error.
async fn take_region_locked(
    node: &Rc<Node>,
    epoch: Epoch,
    region: Region,
    wanted: &impl Fn() -> Vec<Range<u64>>,
    mut stays: Option<&mut Vec<Range<u64>>>,
) -> Result<u64, Unsettled> {
    loop {
        let span = vec![region.run().span()];
        let held = node.locks.enqueue(region.object, span, Kind::Led);
        held.granted().await;
        if node.side.borrow().epoch() != epoch {
            return Err(Unsettled::Stale);
        }
        match take_region(node, epoch, region, wanted, stays.as_deref_mut()).await {
            Err(Unsettled::GiveWay | Unsettled::Again) => {
                drop(held);
                node.env.sleep(GIVE_WAY).await;
            }
            taken => return taken,
        }
    }
}

/// The same with the region's lock held.
async fn take_region(
    node: &Rc<Node>,
    epoch: Epoch,
    region: Region,
    wanted: &impl Fn() -> Vec<Range<u64>>,
    mut stays: Option<&mut Vec<Range<u64>>>,
) -> Result<u64, Unsettled> {
    let (object, span) = (region.object, region.run().span());
    let request = proto::ChecksumsRequest {
        epoch: epoch.0,
        object: Some(to_name(object)),
        region: region.index,
        ..Default::default()
    };
    let (theirs, _) = node.link.call(&request, Payload::none()).await?;
    let ours = node.store.checksums(object, region.index).await;
    let ours = ours.map_err(|error| settle::of_store(node, error))?;
    let first = u64::from(region.index) * REGION_BLOCKS;
    let mut blocks = Vec::new();
    for (at, sum) in theirs.checksums.iter().enumerate() {
        if ours.checksums.get(at).copied().unwrap_or(checksum::HOLE) != *sum {
            blocks.push(first + at as u64);
        }
    }
    let (fill, bad) = settle::fetch_from_twin(node, epoch, object, &blocks).await?;
    if let Some(stays) = &mut stays {
        stays.extend(bad.into_iter().map(range_of));
    }
    let wanted: Vec<Range<u64>> = wanted()
        .into_iter()
        .map(|range| range.start.max(span.start)..range.end.min(span.end))
        .filter(|range| range.start < range.end)
        .collect();
    let zeros = Bytes::from(vec![0; BLOCK_BYTES as usize]);
    let data = fill.blocks.iter().enumerate().map(|(at, block)| {
        let from = at * BLOCK_BYTES as usize;
        (
            *block,
            fill.payload.slice(from..from + BLOCK_BYTES as usize),
        )
    });
    let holes = fill.holes.iter().map(|block| (*block, zeros.clone()));
    let mut pieces: Vec<(u64, Bytes)> = data.chain(holes).collect();
    pieces.sort_by_key(|(block, _)| *block);
    loop {
        let (extents, payload) = wanted_of(&pieces, &wanted, theirs.length);
        if extents.is_empty() {
            return Ok(0);
        }
        let index = region.index..region.index.saturating_add(1);
        let durable = node.settings.sync_marks;
        let marking = node.store.mark(object, index, Purpose::Write, durable);
        marking
            .await
            .map_err(|error| settle::of_store(node, error))?;
        let bytes = payload.len() as u64;
        let written = node.store.write(object, &extents, payload.into()).await;
        match (written, &mut stays) {
            (Ok(()), _) => return Ok(bytes),
            // Nobody has the rest of such a block. What else was lost need not stay lost for that.
            (Err(weft_objects::Error::BadBlocks { blocks, .. }), Some(stays))
                if pieces.iter().any(|(block, _)| blocks.contains(block)) =>
            {
                tracing::warn!(%object, ?blocks,
                    "what was lost cannot be taken back: these blocks are bad here");
                pieces.retain(|(block, _)| !blocks.contains(block));
                stays.extend(blocks.into_iter().map(range_of));
            }
            (Err(error), _) => return Err(settle::of_store(node, error)),
        }
    }
}

/// The bytes of a block.
fn range_of(block: u64) -> Range<u64> {
    block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES
}

/// The wanted bytes of these blocks, in order, of an object of `length` bytes.
fn wanted_of(
    pieces: &[(u64, Bytes)],
    wanted: &[Range<u64>],
    length: u64,
) -> (Vec<Extent>, Vec<u8>) {
    let (mut extents, mut payload) = (Vec::new(), Vec::new());
    for (block, data) in pieces {
        let Range { start, end } = range_of(*block);
        for range in wanted {
            let (from, to) = (range.start.max(start), range.end.min(end).min(length));
            if from < to {
                extents.push(Extent {
                    offset: from,
                    length: (to - from) as u32,
                });
                payload.extend_from_slice(&data[(from - start) as usize..(to - start) as usize]);
            }
        }
    }
    (extents, payload)
}

/// The group that keeps the file is told until it has heard: the file may be longer now.
async fn told_returned(node: Rc<Node>, object: ObjectId) {
    let request = proto::ReturnedRequest {
        pair: node.pair.0,
        objects: vec![to_name(object)],
    };
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    let mut moved = None;
    loop {
        let group = moved
            .take()
            .unwrap_or_else(|| attend::group_of(&node, object.ino));
        if let Some(connection) = attend::active_of(&node, group) {
            let call = connection.call(&request, Payload::none());
            match node.env.timeout(patience, call).await {
                Ok(Ok(_)) => return,
                Ok(Err(CallError::Failed(Failed::Moved { group, .. }))) => {
                    moved = Some(GroupId(group));
                }
                _ => {}
            }
        }
        node.env.sleep(AGAIN).await;
    }
}

/// Says of the blocks of a region that have lost bytes that they are bad.
pub(crate) fn mark_lost(losses: &[Loss], region: Region, checksums: &mut Vec<u32>) {
    let span = region.run().span();
    for loss in losses {
        let (start, end) = (
            loss.range.start.max(span.start),
            loss.range.end.min(span.end),
        );
        if loss.object != region.object || start >= end {
            continue;
        }
        let first = ((start - span.start) / BLOCK_BYTES) as usize;
        let last = (end - span.start).div_ceil(BLOCK_BYTES) as usize;
        if checksums.len() < last {
            checksums.resize(last, checksum::HOLE);
        }
        checksums[first..last].fill(checksum::BAD);
    }
}

/// For the wire.
pub(crate) fn to_proto(node: &Node, loss: &Loss) -> proto::Loss {
    proto::Loss {
        pair: node.pair.0,
        object: Some(to_name(loss.object)),
        start: loss.range.start,
        end: loss.range.end,
        session: loss.session,
        member: loss.member.index() as u32,
        can_return: loss.can_return,
        epoch: loss.epoch.0,
        noted: loss.noted,
        ..Default::default()
    }
}

/// From the twin.
///
/// # Errors
/// [`Failed::Refused`] for what is no loss.
pub(crate) fn from_proto(loss: &proto::Loss) -> Result<Loss, Failed> {
    let member = Member::from_index(loss.member);
    match member {
        Some(member) if loss.start < loss.end => Ok(Loss {
            object: from_name(loss.object)?,
            range: loss.start..loss.end,
            session: loss.session,
            member,
            can_return: loss.can_return,
            epoch: Epoch(loss.epoch),
            noted: loss.noted,
        }),
        _ => Err(Failed::Refused("a loss that is none".into())),
    }
}

/// METHOD 112, from the metadata service.
pub(crate) fn on_losses(node: &Rc<Node>, request: Request) {
    let losses = node.store.losses(None);
    let reply = proto::LossesReply {
        losses: losses.iter().map(|loss| to_proto(node, loss)).collect(),
        unknown_pairs: Vec::new(),
    };
    request
        .replier
        .send::<proto::LossesRequest>(&reply, Payload::none());
}

/// METHOD 113, from the metadata service.
pub(crate) fn on_acknowledge(node: &Rc<Node>, request: Request) {
    let message: proto::AcknowledgeRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("acknowledge", async move {
        let mut ranges = 0;
        for loss in node.store.losses(None) {
            if message.ino != 0 && loss.object.ino.0 != message.ino {
                continue;
            }
            let cleared = node
                .store
                .clear_losses(loss.object, std::slice::from_ref(&loss.range));
            if let Err(error) = cleared.await {
                return request.replier.fail(node.store_failed(error));
            }
            ranges += 1;
        }
        if ranges > 0 {
            tracing::info!(
                ranges,
                ino = message.ino,
                "an operator has acknowledged what is lost"
            );
        }
        let reply = proto::AcknowledgeReply {
            ranges,
            unknown_pairs: Vec::new(),
        };
        request
            .replier
            .send::<proto::AcknowledgeRequest>(&reply, Payload::none());
    });
}

/// The end of a recovery: the twin takes over what is still lost. Nothing is written to these objects
/// until the answer is dropped: a write clears what it covers on both members, or on neither.
pub(crate) async fn hand_over(
    node: &Rc<Node>,
    epoch: Epoch,
) -> Result<impl Drop + use<>, Unsettled> {
    let objects: BTreeSet<ObjectId> = {
        let losses = node.store.losses(None);
        losses.into_iter().map(|loss| loss.object).collect()
    };
    let mut held = Vec::with_capacity(objects.len());
    for object in objects {
        let ticket = node.locks.enqueue(object, vec![WHOLE], Kind::Read);
        ticket.granted().await;
        held.push(ticket);
    }
    let losses = node.store.losses(None);
    let request = proto::FilledRequest {
        epoch: epoch.0,
        losses: losses.iter().map(|loss| to_proto(node, loss)).collect(),
    };
    node.link.call(&request, Payload::none()).await?;
    struct Held(
        #[allow(dead_code, reason = "holds what it has until it is dropped")]
        Vec<crate::locks::Ticket>,
    );
    impl Drop for Held {
        fn drop(&mut self) {}
    }
    Ok(Held(held))
}

/// The bytes of the object at this place of the order that the session may have written.
pub(crate) fn bounds(message: &proto::FenceRequest, at: usize) -> Vec<Range<u64>> {
    if message.within.is_empty() {
        return vec![WHOLE];
    }
    let ranges = message.within.get(at).map(|one| one.ranges.iter());
    joined(ranges.into_iter().flatten().map(|one| one.start..one.end))
}

/// Whether a session that ends may have lost something here.
pub(crate) fn is_suspect(node: &Node, message: &proto::FenceRequest, at: usize) -> bool {
    let asynchronous = message.asynchronous.get(at).copied().unwrap_or(false);
    let since = node.alone.since();
    message.session != 0
        && asynchronous
        && since.is_some_and(|since| message.settled_epoch < since.0)
        && node.side.borrow().mode() != Some(Mode::Both)
}
