//! Making regions equal on both members, and healing bad blocks.
//!
//! Used by recovery, by fences, after a change that failed on one member's disk, and for regions
//! about which nobody came with certainty. Whoever leads holds the region's lock as for a change,
//! compares checksums and moves only the blocks that differ. Regions that follow, and of which neither
//! copy holds anything, are equal without being compared one by one: a long object may have millions.

use crate::link::TwinError;
use crate::locks::{Kind, WHOLE};
use crate::marks;
use crate::server::{Node, to_name};
use bytes::Bytes;
use futures_util::future::{join, select};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::{Fetched, Fill};
use weft_pair::Mode;
use weft_rpc::Payload;
use weft_types::{BLOCK_BYTES, Epoch, Member, ObjectId, REGION_BLOCKS, REGION_BYTES, Region, Run};
use weft_wire::Failed;
use weft_wire::checksum::{BAD, HOLE};
use weft_wire::proto;

/// Wait before a region whose lock was given up for the twin's sake is tried again.
pub(crate) const GIVE_WAY: Duration = Duration::from_millis(1);
/// Wait for a change that has given way: it tries several times meanwhile. Were both to try at the same pace, they could
/// go on meeting for as long as the writer has patience.
const CHANGE_GOES_FIRST: Duration = Duration::from_millis(20);

/// Why two copies were not made equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// The twin leads a change of the same blocks: let go of them and begin again.
    GiveWay,
    /// The link broke, or the twin cannot answer now.
    Lost,
    /// Another epoch is in force.
    Stale,
    /// A disk refused.
    Errno(i32),
    /// Blocks that are bad on both members.
    Bad,
    /// The objects have different lengths: the lock of the whole object is needed.
    NeedsWhole,
    /// The twin's copy changed since it was compared.
    Again,
    /// A change that has given way has made one copy, and is to make the other one first.
    Changing,
    /// A client that sends both copies itself is at it; or, for what is taken from the twin, a change has failed there
    /// or here, and somebody else makes the copies equal.
    Unconfirmed,
}

impl From<TwinError> for Unsettled {
    fn from(error: TwinError) -> Unsettled {
        match error {
            TwinError::Failed(Failed::Errno(libc::EDEADLK)) => Unsettled::GiveWay,
            TwinError::Failed(Failed::Errno(libc::EAGAIN)) => Unsettled::Again,
            TwinError::Failed(Failed::Errno(libc::EBUSY)) => Unsettled::Unconfirmed,
            TwinError::Failed(Failed::Errno(errno)) => Unsettled::Errno(errno),
            TwinError::Failed(Failed::Stale(_)) => Unsettled::Stale,
            TwinError::Failed(_) | TwinError::Lost => Unsettled::Lost,
        }
    }
}

pub(crate) fn of_store(node: &Node, error: weft_objects::Error) -> Unsettled {
    let errno = error.errno();
    node.store_failed(error);
    Unsettled::Errno(errno)
}

/// What a comparison did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Bytes that were looked at or moved.
    pub bytes: u64,
    /// The copies differed.
    pub differed: bool,
    /// The regions before this one are equal now.
    pub upto: u32,
}

/// Which copy counts, and who else may be changing the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Both copies are to be what this member holds.
    pub truth: Member,
    /// Clients may send copies to the twin that this member does not see: nothing is overwritten
    /// that was not compared, and nothing that a client has not said to be on both.
    pub carefully: bool,
    /// The copy here has lost what it lacks: a change that has given way, and has made one copy, comes first, and what is
    /// not here yet is not to be taken for a hole.
    pub takes_lost: bool,
    /// Take the region out of both modified lists as well; it is made stable for that.
    pub clear: bool,
}

/// This member's copy counts, and nobody else changes the twin's.
pub(crate) fn from_here(node: &Node) -> Manner {
    Manner {
        truth: node.me,
        carefully: false,
        takes_lost: false,
        clear: false,
    }
}

/// Makes both copies of the first region of a run the same, which must not be empty, and finds those
/// behind it equal of which neither copy holds anything.
///
/// # Errors
/// [`Unsettled`]; never `GiveWay`, `NeedsWhole`, `Again` or `Changing`.
pub(crate) async fn settle(
    node: &Rc<Node>,
    epoch: Epoch,
    run: &Run,
    manner: Manner,
) -> Result<Compared, Unsettled> {
    let mut whole = false;
    loop {
        let mut run = holes_behind(node, run).await?;
        let span = if whole { WHOLE } else { run.span() };
        let held = node.locks.enqueue(run.object, vec![span], Kind::Led);
        held.granted().await;
        if node.side.borrow().epoch() != epoch {
            return Err(Unsettled::Stale);
        }
        // Something may have been written there meanwhile.
        run = holes_behind(node, &run).await?;
        match compare(node, epoch, &run, manner, whole).await {
            Ok(compared) => {
                if node.side.borrow().epoch() != epoch {
                    return Err(Unsettled::Stale);
                }
                run.regions.end = compared.upto;
                node.marks.settled(&run, node.now());
                if manner.clear {
                    marks::clear_compared(node, epoch, &run).await;
                }
                return Ok(compared);
            }
            Err(Unsettled::NeedsWhole) => whole = true,
            Err(Unsettled::GiveWay | Unsettled::Again) => {
                drop(held);
                node.env.sleep(GIVE_WAY).await;
            }
            Err(Unsettled::Changing) => {
                drop(held);
                node.env.sleep(CHANGE_GOES_FIRST).await;
            }
            Err(other) => return Err(other),
        }
    }
}

/// The run as far as this member holds nothing behind the first region.
async fn holes_behind(node: &Node, run: &Run) -> Result<Run, Unsettled> {
    let (start, end) = (run.regions.start, run.regions.end);
    let behind = start.saturating_add(1)..end;
    let next = node.store.next_region(run.object, behind).await;
    let next = next.map_err(|error| of_store(node, error))?;
    Ok(Run {
        object: run.object,
        regions: start..next,
    })
}

/// Makes both copies of a run what `truth` holds, which has refused a change of their shape that the other one may have
/// done.
pub(crate) async fn settle_refused(node: &Rc<Node>, epoch: Epoch, mut run: Run, truth: Member) {
    let manner = Manner {
        truth,
        ..from_here(node)
    };
    let attempt = async |epoch| settle_all(node, epoch, &mut run, manner).await;
    where_both_serve(node, epoch, attempt).await;
}

/// Makes the copies of these bytes of an object alike, which a write was to change that `truth` has refused: what the
/// other one has done of it is undone. Only these, for what else differs in their region may be on its way to one member.
/// While the other one is filled from here, what it cannot take now is left to the recovery.
pub(crate) async fn undo_refused(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    mut span: Range<u64>,
    truth: Member,
) {
    let attempt = async |epoch| undo_all(node, epoch, object, &mut span, truth).await;
    where_both_serve(node, epoch, attempt).await;
}

/// Does what a refused change needs under whatever state comes in which both serve: until the copies are equal nobody is
/// to hear that the change has failed, for others may read then. Where one serves alone its copy counts, and a recovery
/// compares what is in the list.
async fn where_both_serve(
    node: &Rc<Node>,
    mut epoch: Epoch,
    mut attempt: impl AsyncFnMut(Epoch) -> Result<(), Unsettled>,
) {
    while let Err(unsettled) = attempt(epoch).await {
        if unsettled == Unsettled::Lost {
            let (made, decided) = (pin!(node.link.made()), pin!(node.state_beyond(epoch)));
            select(made, decided).await;
            node.env.sleep(GIVE_WAY).await;
            continue;
        }
        let state = node.state_beyond(epoch).await;
        if state.mode != Mode::Both {
            return;
        }
        epoch = state.epoch;
    }
}

/// As [`undo_refused`] under one epoch; what is left of the bytes has not been tried.
///
/// # Errors
/// `Stale` or `Lost`: it would be the same with what is left.
async fn undo_all(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    span: &mut Range<u64>,
    truth: Member,
) -> Result<(), Unsettled> {
    while !span.is_empty() {
        let region = span.start / REGION_BYTES;
        let part = span.start..span.end.min((region + 1) * REGION_BYTES);
        let mut undone = undo(node, epoch, object, &part, truth, false).await;
        if let Err(Unsettled::Errno(_)) = undone {
            undone = undo(node, epoch, object, &part, truth, true).await;
        }
        match undone {
            Ok(()) => span.start = part.end,
            Err(Unsettled::GiveWay | Unsettled::Again) => node.env.sleep(GIVE_WAY).await,
            Err(error @ (Unsettled::Stale | Unsettled::Lost)) => return Err(error),
            Err(error) => {
                // It is in the list, and tried again when it is quiet.
                tracing::warn!(%object, region, ?error, "a refused write cannot be undone now");
                let index = u32::try_from(region).unwrap_or(u32::MAX);
                recover_again(node, Region { object, index }.run());
                span.start = part.end;
            }
        }
    }
    Ok(())
}

/// Undoes a refused write in bytes of one region: both copies are made what `truth` has, which is what was there, or a part
/// of the write. With `holes_count` a hole in either copy, which was there before, counts: this needs no room. But while the
/// twin is filled from here its copy says nothing of what was there: what it lacks may have been acknowledged.
async fn undo(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    span: &Range<u64>,
    truth: Member,
    holes_count: bool,
) -> Result<(), Unsettled> {
    let held = node.locks.enqueue(object, vec![span.clone()], Kind::Led);
    held.granted().await;
    if node.side.borrow().epoch() != epoch {
        return Err(Unsettled::Stale);
    }
    let region = u32::try_from(span.start / REGION_BYTES).unwrap_or(u32::MAX);
    let run = Region {
        object,
        index: region,
    }
    .run();
    let (ours, theirs) = checksums_of_both(node, epoch, &run).await?;
    let first = u64::from(region) * REGION_BLOCKS;
    let both_count = node.side.borrow().mode() == Some(Mode::Both);
    let ours_counts = node.me == truth || !both_count;
    // Of each copy: what is to be a hole, and what comes from the other one.
    let (mut own_holes, mut their_holes) = (Vec::new(), Vec::new());
    let (mut fetched, mut given) = (Vec::new(), Vec::new());
    for block in span.start / BLOCK_BYTES..span.end.div_ceil(BLOCK_BYTES) {
        let at = |sums: &[u32]| sums.get((block - first) as usize).copied().unwrap_or(HOLE);
        match (at(&ours.checksums), at(&theirs.checksums)) {
            (a, b) if a == b => {}
            // The twin's may be older than what was acknowledged: it stays so until it is written.
            (BAD, _) if !both_count => {}
            // A write broke off there.
            (BAD, _) => fetched.push(block),
            (_, BAD) => given.push(block),
            (HOLE, _) if ours_counts || holes_count => their_holes.push(block),
            (_, HOLE) if !ours_counts || holes_count && both_count => own_holes.push(block),
            _ if ours_counts => given.push(block),
            _ => fetched.push(block),
        }
    }
    if !(own_holes.is_empty() && fetched.is_empty()) {
        let (mut fill, bad) = fetch_from_twin(node, epoch, object, &fetched).await?;
        if !bad.is_empty() {
            return Err(Unsettled::Bad);
        }
        fill.holes.extend(own_holes);
        fill.holes.sort_unstable();
        let filled = node.store.fill(object, &fill).await;
        filled.map_err(|error| of_store(node, error))?;
    }
    if !(their_holes.is_empty() && given.is_empty()) {
        let shape = proto::FillRequest {
            epoch: epoch.0,
            object: Some(to_name(object)),
            holes: their_holes,
            exists: true,
            ..Default::default()
        };
        fill_twin(node, shape, object, given).await?;
    }
    tracing::debug!(%object, ?span, "a refused write was undone");
    Ok(())
}

/// Settles all regions of a run, as far as that can be done now. What is left of the run has not been tried.
///
/// # Errors
/// `Stale` or `Lost`: it would be the same with what is left.
async fn settle_all(
    node: &Rc<Node>,
    epoch: Epoch,
    run: &mut Run,
    manner: Manner,
) -> Result<(), Unsettled> {
    while !run.regions.is_empty() {
        let (object, region) = (run.object, run.regions.start);
        match settle(node, epoch, run, manner).await {
            Ok(compared) => {
                if compared.differed {
                    tracing::info!(%object, region, "made a region equal");
                }
                run.regions.start = compared.upto;
            }
            Err(error @ (Unsettled::Stale | Unsettled::Lost)) => return Err(error),
            Err(error) => {
                if error != Unsettled::Unconfirmed {
                    tracing::warn!(%object, region, ?error, "a region cannot be made equal now");
                    // Not again and again while a disk is full.
                    node.marks.touch(&run.first().run(), node.now());
                }
                recover_again(node, run.first().run());
                run.regions.start += 1;
            }
        }
    }
    Ok(())
}

/// A recovery that runs is not over before it has been here.
pub(crate) fn recover_again(node: &Node, run: Run) {
    if let Some(plan) = &mut *node.plan.borrow_mut() {
        plan.add(run);
    }
}

/// Settles regions about which nobody came with certainty for a long time.
pub(crate) async fn settle_quiet(node: &Rc<Node>, epoch: Epoch, mut run: Run) {
    let manner = Manner {
        truth: node.me,
        carefully: true,
        takes_lost: false,
        clear: true,
    };
    // What is left stays in the list, and is tried again when it has been quiet once more.
    let _ = settle_all(node, epoch, &mut run, manner).await;
}

/// The checksums of the first region of a run on both members.
async fn checksums_of_both(
    node: &Node,
    epoch: Epoch,
    run: &Run,
) -> Result<(weft_objects::RegionSums, proto::ChecksumsReply), Unsettled> {
    let request = proto::ChecksumsRequest {
        epoch: epoch.0,
        object: Some(to_name(run.object)),
        region: run.regions.start,
        until: run.regions.end,
        ..Default::default()
    };
    let (ours, theirs) = join(
        node.store.checksums(run.object, run.regions.start),
        node.link.call(&request, Payload::none()),
    )
    .await;
    let ours = ours.map_err(|error| of_store(node, error))?;
    let (theirs, _) = theirs?;
    Ok((ours, theirs))
}

/// Compares the first region of a run and moves what differs; of the others this member holds nothing.
/// Their lock is held (of the whole object, if `whole`).
async fn compare(
    node: &Rc<Node>,
    epoch: Epoch,
    run: &Run,
    manner: Manner,
    whole: bool,
) -> Result<Compared, Unsettled> {
    let (object, index) = (run.object, run.regions.start);
    if manner.carefully && node.marks.is_unconfirmed(run) {
        return Err(Unsettled::Unconfirmed);
    }
    let (ours, theirs) = checksums_of_both(node, epoch, run).await?;
    if manner.carefully && theirs.unconfirmed {
        return Err(Unsettled::Unconfirmed);
    }
    if manner.takes_lost && (theirs.changing || node.marks.is_changing(run)) {
        return Err(Unsettled::Changing);
    }
    // Of a change that failed somebody else makes the copies equal, and knows which of them counts.
    if manner.takes_lost && (theirs.in_doubt || node.marks.is_in_doubt(run)) {
        return Err(Unsettled::Unconfirmed);
    }
    let mut compared = Compared {
        bytes: ours.checksums.len().max(theirs.checksums.len()) as u64 * BLOCK_BYTES,
        differed: false,
        upto: theirs.holes_until.clamp(index + 1, run.regions.end),
    };
    let shapes_differ = (ours.exists, ours.length) != (theirs.exists, theirs.length);
    if shapes_differ && !whole {
        return Err(Unsettled::NeedsWhole);
    }
    let from_here = manner.truth == node.me;
    let first = u64::from(index) * REGION_BLOCKS;
    let (mut blocks, mut holes, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..ours.checksums.len().max(theirs.checksums.len()) {
        let at = |sums: &[u32]| sums.get(i).copied().unwrap_or(HOLE);
        let (a, b) = (at(&ours.checksums), at(&theirs.checksums));
        let (from, to) = if from_here { (a, b) } else { (b, a) };
        let block = first + i as u64;
        match from {
            BAD => lost.push(block),
            _ if from == to => {}
            HOLE => holes.push(block),
            _ => blocks.push(block),
        }
    }
    let mended = !lost.is_empty() && mend(node, epoch, object, &lost, manner.truth).await?;
    let (exists, length) = match from_here {
        true => (ours.exists, ours.length),
        false => (theirs.exists, theirs.length),
    };
    compared.differed = mended;
    if blocks.is_empty() && holes.is_empty() && !shapes_differ {
        return Ok(compared);
    }
    compared.differed = true;
    compared.bytes += blocks.len() as u64 * BLOCK_BYTES;
    let length = whole.then_some(length);
    if from_here {
        let shape = proto::FillRequest {
            epoch: epoch.0,
            object: Some(to_name(object)),
            holes,
            length,
            exists,
            expected: manner.carefully.then_some(proto::Expected {
                region: index,
                checksums: theirs.checksums,
                length: theirs.length,
                exists: theirs.exists,
            }),
            blocks: Vec::new(),
        };
        fill_twin(node, shape, object, blocks).await?;
    } else {
        let (mut fill, bad) = fetch_from_twin(node, epoch, object, &blocks).await?;
        if !bad.is_empty() {
            return Err(Unsettled::Bad);
        }
        fill.holes.extend(holes);
        fill.holes.sort_unstable();
        fill.length = match length {
            // What is still to come from the twin is not to be read as a hole meanwhile.
            Some(length) if manner.takes_lost => {
                let so_far = u64::from(compared.upto) * REGION_BYTES;
                Some(length.min(so_far).max(ours.length))
            }
            length => length,
        };
        fill.exists = exists;
        let filled = node.store.fill(object, &fill).await;
        filled.map_err(|error| of_store(node, error))?;
    }
    Ok(compared)
}

/// Blocks that are bad in the copy that counts: a write broke off there. In BOTH the other copy has
/// what was there before that write, or what it was to write: nobody was promised more, and it is
/// taken. Otherwise the other copy may be older than what was acknowledged. True: they are good now.
async fn mend(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    lost: &[u64],
    truth: Member,
) -> Result<bool, Unsettled> {
    if node.side.borrow().mode() == Some(Mode::Both) {
        let mended = match truth == node.me {
            true => heal(node, epoch, object, lost).await,
            false => give_blocks(node, epoch, object, lost).await,
        };
        match mended {
            Ok(()) => return Ok(true),
            Err(Unsettled::Bad) => {}
            Err(other) => return Err(other),
        }
    }
    tracing::error!(%object, block = lost[0], count = lost.len(),
        "blocks are bad in the copy that counts; reading them fails until they are written");
    Ok(false)
}

/// Sends `request` with these blocks of this member's copy.
async fn fill_twin(
    node: &Rc<Node>,
    mut request: proto::FillRequest,
    object: ObjectId,
    blocks: Vec<u64>,
) -> Result<(), Unsettled> {
    let fetched = node.store.fetch(object, &blocks).await;
    let fetched = fetched.map_err(|error| of_store(node, error))?;
    let mut parts = Vec::new();
    for (block, fetched) in blocks.into_iter().zip(fetched) {
        match fetched {
            Fetched::Data(data) => {
                request.blocks.push(block);
                parts.push(data);
            }
            Fetched::Hole => request.holes.push(block),
            Fetched::Bad => return Err(Unsettled::Bad),
        }
    }
    request.holes.sort_unstable();
    node.link.call(&request, Payload::parts(parts)).await?;
    Ok(())
}

/// Gives the twin blocks of this member's copy, whose lock is held: they are bad there.
pub(crate) async fn give_blocks(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    blocks: &[u64],
) -> Result<(), Unsettled> {
    let mut blocks = blocks.to_vec();
    blocks.sort_unstable();
    blocks.dedup();
    let request = proto::FillRequest {
        epoch: epoch.0,
        object: Some(to_name(object)),
        exists: true,
        ..Default::default()
    };
    fill_twin(node, request, object, blocks).await
}

/// Blocks of the twin's copy, and which of them are bad there.
pub(crate) async fn fetch_from_twin(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    blocks: &[u64],
) -> Result<(Fill, Vec<u64>), Unsettled> {
    let mut fill = Fill {
        exists: true,
        ..Fill::default()
    };
    let mut bad = Vec::new();
    if blocks.is_empty() {
        return Ok((fill, bad));
    }
    let request = proto::FetchRequest {
        epoch: epoch.0,
        object: Some(to_name(object)),
        blocks: blocks.to_vec(),
    };
    let (reply, payload) = node.link.call(&request, Payload::none()).await?;
    if reply.status.len() != blocks.len() {
        return Err(Unsettled::Lost);
    }
    for (&block, status) in blocks.iter().zip(&reply.status) {
        match status {
            0 => fill.blocks.push(block),
            1 => fill.holes.push(block),
            _ => bad.push(block),
        }
    }
    if payload.len() as u64 != fill.blocks.len() as u64 * BLOCK_BYTES {
        return Err(Unsettled::Lost);
    }
    fill.payload = payload;
    Ok((fill, bad))
}

/// The twin has these blocks as they should be here.
fn twin_has(node: &Node, object: ObjectId, blocks: &[u64]) -> bool {
    match node.side.borrow().mode() {
        Some(Mode::Both) => true,
        // What has been compared, or never differed, is equal there.
        Some(Mode::Recovering(m)) if m == node.me => match &*node.plan.borrow() {
            Some(plan) => !blocks.iter().any(|block| {
                let index = u32::try_from(block / REGION_BLOCKS).unwrap_or(u32::MAX);
                plan.contains(Region { object, index })
            }),
            None => false,
        },
        _ => false,
    }
}

/// Bytes `start..end` as the twin has them: this member cannot read its own, which stay as they are.
///
/// # Errors
/// [`Unsettled::Bad`] if the twin cannot, either, or its copy does not count.
pub(crate) async fn read_of_twin(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    (start, end): (u64, u64),
) -> Result<Bytes, Unsettled> {
    let first = start / BLOCK_BYTES;
    let blocks: Vec<u64> = (first..end.div_ceil(BLOCK_BYTES)).collect();
    let (fill, bad) = loop {
        if !twin_has(node, object, &blocks) {
            return Err(Unsettled::Bad);
        }
        match fetch_from_twin(node, epoch, object, &blocks).await {
            Err(Unsettled::GiveWay) => node.env.sleep(GIVE_WAY).await,
            fetched => break fetched?,
        }
    };
    if node.side.borrow().epoch() != epoch {
        return Err(Unsettled::Stale);
    }
    if !bad.is_empty() {
        return Err(Unsettled::Bad);
    }
    let block = BLOCK_BYTES as usize;
    let mut content = vec![0; blocks.len() * block];
    for (number, bytes) in fill.blocks.iter().zip(fill.payload.chunks(block)) {
        let at = (number - first) as usize * block;
        content[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let cut = |at: u64| (at - first * BLOCK_BYTES) as usize;
    Ok(Bytes::from(content).slice(cut(start)..cut(end)))
}

/// Replaces bad blocks, whose lock is held as for a change, by the twin's.
///
/// # Errors
/// [`Unsettled::Bad`] if the twin's are bad too or the twin's copy does not count.
pub(crate) async fn heal(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    blocks: &[u64],
) -> Result<(), Unsettled> {
    node.metrics.bad_blocks.inc_by(blocks.len() as u64);
    let first = blocks.first().copied().unwrap_or(0);
    if !twin_has(node, object, blocks) {
        tracing::error!(%object, block = first, count = blocks.len(),
            "blocks are bad and there is no other current copy");
        return Err(Unsettled::Bad);
    }
    let (fill, bad) = fetch_from_twin(node, epoch, object, blocks).await?;
    if node.side.borrow().epoch() != epoch {
        return Err(Unsettled::Stale);
    }
    let healed = fill.blocks.len() + fill.holes.len();
    if healed > 0 {
        let filled = node.store.fill(object, &fill).await;
        filled.map_err(|error| of_store(node, error))?;
        node.metrics.healed_blocks.inc_by(healed as u64);
        tracing::warn!(%object, block = first, count = healed, "bad blocks were healed");
    }
    if bad.is_empty() {
        return Ok(());
    }
    tracing::error!(%object, block = bad[0], count = bad.len(), "blocks are bad on both members");
    Err(Unsettled::Bad)
}

/// Heals bad blocks that a read or a scrub came upon; takes their lock for it.
pub(crate) async fn heal_found(
    node: &Rc<Node>,
    epoch: Epoch,
    object: ObjectId,
    blocks: &[u64],
) -> Result<(), Unsettled> {
    loop {
        let spans = blocks
            .iter()
            .map(|block| block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES)
            .collect();
        let held = node.locks.enqueue(object, spans, Kind::Led);
        held.granted().await;
        if node.side.borrow().epoch() != epoch {
            return Err(Unsettled::Stale);
        }
        // Somebody else may have healed or written them meanwhile.
        let fetched = node.store.fetch(object, blocks).await;
        let fetched = fetched.map_err(|error| of_store(node, error))?;
        let still: Vec<u64> = blocks
            .iter()
            .zip(fetched)
            .filter(|(_, fetched)| *fetched == Fetched::Bad)
            .map(|(block, _)| *block)
            .collect();
        if still.is_empty() {
            return Ok(());
        }
        match heal(node, epoch, object, &still).await {
            Err(Unsettled::GiveWay) => {
                drop(held);
                node.env.sleep(GIVE_WAY).await;
            }
            other => return other,
        }
    }
}

/// Whether the two copies of the first region of a run differ. Those behind it of which neither copy holds
/// anything do not. Changes nothing.
pub(crate) async fn differs(
    node: &Rc<Node>,
    epoch: Epoch,
    run: &Run,
) -> Result<Compared, Unsettled> {
    let (object, index) = (run.object, run.regions.start);
    loop {
        let mut run = holes_behind(node, run).await?;
        let held = node.locks.enqueue(object, vec![run.span()], Kind::Led);
        held.granted().await;
        run = holes_behind(node, &run).await?;
        match checksums_of_both(node, epoch, &run).await {
            Ok((ours, theirs)) => {
                // A bad block is another matter: a scrub finds and heals it. Whether there is an object of no
                // bytes makes no difference to anybody, and a power cut of both may leave it on one.
                let same = ours.length == theirs.length
                    && ours.checksums.len() == theirs.checksums.len()
                    && ours
                        .checksums
                        .iter()
                        .zip(&theirs.checksums)
                        .all(|(a, b)| a == b || *a == BAD || *b == BAD);
                return Ok(Compared {
                    bytes: ours.checksums.len() as u64 * BLOCK_BYTES,
                    differed: !same,
                    upto: theirs.holes_until.clamp(index + 1, run.regions.end),
                });
            }
            Err(Unsettled::GiveWay) => {
                drop(held);
                node.env.sleep(GIVE_WAY).await;
            }
            Err(other) => return Err(other),
        }
    }
}
