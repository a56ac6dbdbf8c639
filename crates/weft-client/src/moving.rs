//! Moving one file to other pairs, or to another stripe unit, while it is in use
//! (`docs/protocols/relayout.md`).
//!
//! The copy is made under READ leases, like any reading: whoever writes takes them away, and the next pass
//! finds by the checksums of the blocks what has changed. The last pass, often an empty one, is made under
//! the WRITE lease, and so is the change of the layout: nobody has cached the old one then, and
//! everything that was written is where the last pass sees it. Keeps true: no other client waits
//! longer than [`EXCLUSIVE`] and one step for the WRITE lease; nothing is on its way to the copy's
//! objects when it is said to be given up.

use crate::changes::Write;
use crate::core::{Core, Use, root_cred};
use crate::leases::Mode;
use crate::node::{FileLayout, Node};
use crate::pairs::{Object, Trouble};
use crate::types::{Errno, Result};
use crate::unstable::Unstable;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::Payload;
use weft_types::{BLOCK_BYTES, Member, REGION_BLOCKS, REGION_BYTES, pieces};
use weft_wire::checksum::{BAD, HOLE};
use weft_wire::proto::{
    self, ChecksumsReply, ChecksumsRequest, Extent, MoveOrder, MoveReport, MoveWorkReply,
    MoveWorkRequest, Protocol, op,
};

/// Bytes compared and copied at a time, under one use of a lease.
const STEP: u64 = 4 << 20;
/// Once somebody waits for the WRITE lease, it is kept for so long at most.
const EXCLUSIVE: Duration = Duration::from_millis(1_000);
/// After so many passes in which the file changed, it is left for later.
const PASSES_MAX: u32 = 12;
/// Passes under READ leases before the first one under the WRITE lease.
const SHARED_PASSES: u32 = 2;
/// How a move ends of which something may be done later, or is left: who moves begins another session then.
const IN_DOUBT: Errno = Errno(libc::ETIMEDOUT);

/// How a move ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that were copied.
    pub bytes: u64,
}

/// A file, and the copy that is being made of it.
struct Copying<'a> {
    core: &'a Rc<Core>,
    node: &'a Rc<Node>,
    source: FileLayout,
    target: Rc<FileLayout>,
    /// Under which the copy was begun, and with which it is dropped: data servers refuse what comes later, but only of this
    /// one.
    session: u64,
    /// The first pass has begun; before, nothing has been written to the target's objects.
    is_begun: bool,
    /// The longest that the file was when a part of it was copied.
    longest: u64,
    unstable: Unstable,
    /// A change of the copy was not answered: it may come later than what is sent after it.
    in_doubt: Cell<bool>,
    bytes: u64,
}

/// How a pass ended.
enum Pass {
    /// The copy was what the file was, at one moment.
    Equal,
    /// The file changed meanwhile, or somebody waits for it.
    Changed,
}

impl Core {
    /// Asks the service for files to move, and tells it how moves ended.
    pub async fn move_work(
        self: &Rc<Self>,
        reports: Vec<MoveReport>,
        working: Vec<u64>,
        max: u32,
    ) -> Result<MoveWorkReply> {
        let (reply, _) = self
            .first_session()
            .ask(self, |link| MoveWorkRequest {
                session: link.session,
                epoch: link.epoch,
                reports: reports.clone(),
                max,
                working: working.clone(),
            })
            .await?;
        Ok(reply)
    }

    /// Moves a file as it was ordered. See [`crate::Client::move_file`].
    pub async fn move_file(self: &Rc<Self>, order: MoveOrder) -> Result<Moved> {
        let ino = order.ino;
        let (node, known) = match self.fetch_inode(ino, Mode::Shared).await {
            Ok(found) => found,
            Err(errno) if is_gone(errno) => return Ok(Moved::default()),
            Err(errno) => return Err(errno),
        };
        if known.attr.kind != proto::FileKind::Regular as i32 {
            return Ok(Moved::default());
        }
        let moved = self.move_node(&node, order).await;
        // Others are not to ask for leases of which nothing is made any more.
        self.leave(node);
        match moved {
            Err(errno) if is_gone(errno) => Ok(Moved::default()),
            moved => moved,
        }
    }

    async fn move_node(self: &Rc<Self>, node: &Rc<Node>, order: MoveOrder) -> Result<Moved> {
        let layout = order.layout.clone().ok_or(Errno(libc::EINVAL))?;
        let wanted = FileLayout::decode(&layout).ok_or(Errno(libc::EINVAL))?;
        drop(self.begin(node, Mode::Read).await?);
        let source = node.state.borrow().layout.clone();
        if let Some(source) = source
            && source.map == wanted.map
        {
            let relabelled = proto::Relayout {
                ino: node.ino,
                // Refused if it is moved meanwhile: then there is more to do than this.
                generation: source.generation,
                job: order.job,
                layout: Some(layout),
            };
            return self.relabel(node, relabelled).await;
        }
        let begin = op::Op::RelayoutBegin(proto::RelayoutBegin {
            ino: node.ino,
            job: order.job,
            layout: Some(layout),
        });
        let with = self.session_of(node.ino);
        let begun = with.change(self, root_cred(), begin, false).await;
        let (target, session) = match begun {
            Ok((reply, link)) => (reply.reply.and_then(|reply| reply.layout), link.session),
            // It lies so.
            Err(Errno(libc::EALREADY)) => return Ok(Moved::default()),
            Err(errno) => return Err(doubted(errno)),
        };
        let target = target.as_ref().and_then(FileLayout::decode);
        let target = Rc::new(target.ok_or(Errno(libc::EIO))?);
        let generation = target.generation;
        let copied = self.copy_and_commit(node, target, session).await;
        // What may still be on its way the session's end keeps out.
        let is_over = |errno: &Errno| *errno != IN_DOUBT && with.id() == session;
        if copied.as_ref().is_err_and(is_over) {
            let end = op::Op::RelayoutEnd(proto::RelayoutEnd {
                ino: node.ino,
                generation,
            });
            if let Err(errno) = with.change(self, root_cred(), end, false).await {
                // It ends with the session, and while it is there no other copy is begun.
                tracing::info!(ino = node.ino, %errno, "a copy was not given up");
                return Err(IN_DOUBT);
            }
        }
        copied
    }

    /// Nothing has to be copied: only protocol or durability change.
    async fn relabel(
        self: &Rc<Self>,
        node: &Rc<Node>,
        relabelled: proto::Relayout,
    ) -> Result<Moved> {
        let begun = self.begin(node, Mode::Write).await?;
        self.change_layout(node, relabelled).await?;
        drop(begun);
        Ok(Moved::default())
    }

    /// Makes a layout the file's, under a WRITE use of the caller's, and takes it over here.
    async fn change_layout(
        self: &Rc<Self>,
        node: &Rc<Node>,
        relayout: proto::Relayout,
    ) -> Result<()> {
        let op = op::Op::Relayout(relayout);
        let session = self.session_of(node.ino);
        let changed = session.change(self, root_cred(), op, false).await;
        let (reply, _) = changed.map_err(doubted)?;
        let reply = reply.reply.unwrap_or_default();
        let mut state = node.state.borrow_mut();
        state.take_layout(reply.layout.as_ref());
        if let Some(attr) = &reply.attr {
            state.take_attr(attr);
        }
        state.version += 1;
        Ok(())
    }

    async fn copy_and_commit(
        self: &Rc<Self>,
        node: &Rc<Node>,
        target: Rc<FileLayout>,
        session: u64,
    ) -> Result<Moved> {
        let source = {
            let begun = self.begin(node, Mode::Read).await?;
            let source = node.state.borrow().layout.clone();
            drop(begun);
            FileLayout::clone(&*source.ok_or(Errno(libc::EIO))?)
        };
        let mut copying = Copying {
            core: self,
            node,
            source,
            target,
            session,
            is_begun: false,
            longest: 0,
            unstable: Unstable::default(),
            in_doubt: Cell::new(false),
            bytes: 0,
        };
        for pass in 0..PASSES_MAX {
            let losses = {
                let begun = self.begin(node, Mode::Read).await?;
                let losses = node.state.borrow().lease.losses();
                drop(begun);
                losses
            };
            let equal = matches!(copying.shared_pass(losses).await?, Pass::Equal);
            copying.sync().await?;
            if !equal && pass + 1 < SHARED_PASSES {
                continue;
            }
            let begun = self.begin(node, Mode::Write).await?;
            if copying.exclusive_pass(&begun).await? {
                let generation = copying.target.generation;
                let relayout = proto::Relayout {
                    ino: node.ino,
                    generation,
                    ..proto::Relayout::default()
                };
                self.change_layout(node, relayout).await?;
                drop(begun);
                return Ok(Moved {
                    bytes: copying.bytes,
                });
            }
        }
        Err(Errno(libc::EBUSY))
    }
}

/// EIO of something that changes: nobody knows whether, or when, it is done.
fn doubted(errno: Errno) -> Errno {
    if errno == Errno(libc::EIO) {
        IN_DOUBT
    } else {
        errno
    }
}

/// There is no such file any more, or none of this content.
fn is_gone(errno: Errno) -> bool {
    errno == Errno(libc::ESTALE) || errno == Errno(libc::ENOENT)
}

impl Copying<'_> {
    /// Size of the file, and where remains begin that read as zeros, under a use of the caller's.
    /// ESTALE if the file is not the one that the copy was begun of.
    fn extent(&self) -> Result<(u64, u64)> {
        let state = self.node.state.borrow();
        let generation = state.layout.as_ref().map(|layout| layout.generation);
        if generation != Some(self.source.generation) {
            return Err(Errno(libc::ESTALE));
        }
        let size = state.attr.map_or(0, |attr| attr.size);
        let held = state.trim.map_or(size, |(_, from)| from.min(size));
        Ok((size, held))
    }

    /// Makes the copy equal to the file step by step, each under a READ lease of its own.
    async fn shared_pass(&mut self, losses: u64) -> Result<Pass> {
        let is_fresh = !std::mem::replace(&mut self.is_begun, true);
        let mut at = 0;
        loop {
            let begun = self.core.begin(self.node, Mode::Read).await?;
            let (size, held) = self.extent()?;
            self.longest = self.longest.max(size);
            if at >= held {
                break;
            }
            let end = held.min(at + STEP);
            let stepped = self.step(at..end, is_fresh).await;
            let stood = self.core.has_stood(&begun);
            drop(begun);
            match stepped {
                Err(errno) if self.in_doubt.get() => return Err(errno),
                // What was read may have been changed or dropped meanwhile.
                _ if !stood => return Ok(Pass::Changed),
                Ok(()) => {}
                Err(errno) => return Err(errno),
            }
            at = end;
        }
        let stood = self.node.state.borrow().lease.losses() == losses;
        Ok(if stood { Pass::Equal } else { Pass::Changed })
    }

    /// The last pass, under a WRITE use of the caller's: what it finds to be equal is what the file
    /// is. False: somebody waits, and too much is left to do.
    async fn exclusive_pass(&mut self, begun: &Use) -> Result<bool> {
        let (size, held) = self.extent()?;
        let since = self.core.env.now();
        let mut at = 0;
        while at < held {
            let end = held.min(at + STEP);
            match self.step(at..end, false).await {
                Ok(()) => {}
                Err(_) if begun.is_lost() && !self.in_doubt.get() => return Ok(false),
                Err(errno) => return Err(errno),
            }
            at = end;
            let is_waited_for = self.node.state.borrow().lease.giving_back_to().is_some();
            if is_waited_for && self.core.env.now().since(since) > EXCLUSIVE {
                return Ok(false);
            }
        }
        if self.longest > held {
            // Shorter than it once was: what was copied beyond its end goes.
            let (core, ino) = (self.core, self.node.ino);
            self.is_there()?;
            self.is_sent();
            let cut = core.truncate_objects(ino, &self.target, held).await;
            self.changed(cut)?;
        }
        self.longest = size;
        self.sync().await?;
        if begun.is_lost() {
            return Ok(false);
        }
        Ok(true)
    }

    /// What is copied is stable: some of what it is a copy of has been for long.
    async fn sync(&mut self) -> Result<()> {
        let unstable = std::mem::take(&mut self.unstable);
        let synced = self
            .core
            .make_stable(self.node.ino, &self.target, &unstable);
        match synced.await? {
            true => Ok(()),
            // It is copied again.
            false => Err(Errno(libc::EIO)),
        }
    }

    /// Something is sent to the copy.
    fn is_sent(&mut self) {
        self.unstable.join(self.core.sent_to(&self.target));
    }

    /// The copy is still there: what is sent to it now is refused if it is dropped meanwhile.
    ///
    /// # Errors
    /// EIO: its session is over, and has perhaps been followed by another.
    fn is_there(&self) -> Result<()> {
        let session = self.core.session_of(self.node.ino).id();
        match session == self.session {
            true => Ok(()),
            false => Err(Errno(libc::EIO)),
        }
    }

    fn object(&self, layout: &FileLayout, index: usize) -> Object {
        Object {
            pair: layout.map.pairs()[index].0,
            ino: self.node.ino,
            generation: layout.generation,
        }
    }

    /// Makes the copy equal to the file in a range that begins with a block. Everything that it sent
    /// is answered when it returns, well or not.
    async fn step(&mut self, range: Range<u64>, is_fresh: bool) -> Result<()> {
        let wanted = self.checksums(&self.source, &range).await?;
        let found = match is_fresh {
            true => vec![HOLE; wanted.len()],
            false => self.checksums(&self.target, &range).await?,
        };
        let differs = |at: usize| wanted[at] != found[at] || wanted[at] == BAD;
        let (mut data, mut holes): (Vec<Range<u64>>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
        for at in (0..wanted.len()).filter(|at| differs(*at)) {
            let runs = if wanted[at] == HOLE {
                &mut holes
            } else {
                &mut data
            };
            let start = range.start + at as u64 * BLOCK_BYTES;
            let end = (start + BLOCK_BYTES).min(range.end);
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
        }
        if !data.is_empty() || !holes.is_empty() {
            self.is_sent();
        }
        let copies = data.iter().map(|run| self.copy(run.clone()));
        let copies = futures_util::future::join_all(copies);
        let (copied, punched) = futures_util::future::join(copies, self.punch(&holes)).await;
        for result in copied {
            self.bytes += result?;
        }
        punched
    }

    /// Copies a run of blocks.
    async fn copy(&self, run: Range<u64>) -> Result<u64> {
        let parts = self.core.read_range(self.node, run.start, run.end).await?;
        self.is_there()?;
        let mut parts = Cutter::new(parts);
        let limit = u64::from(self.core.settings.piece_bytes);
        let mut writes = Vec::new();
        for piece in pieces(&self.target.map, run.start, run.end) {
            let mut done = 0;
            while done < piece.length {
                let length = limit.min(piece.length - done);
                writes.push(self.core.pairs.write(
                    self.core,
                    Write {
                        object: self.object(&self.target, piece.pair_index),
                        leader: piece.leader,
                        // On both members when it is answered, whatever the file's own protocol.
                        protocol: Protocol::ServerSync,
                        extents: vec![Extent {
                            offset: piece.object_offset + done,
                            length: length as u32,
                        }],
                        parts: parts.take(length as usize),
                        goes_on: &|| {},
                    },
                ));
                done += length;
            }
        }
        for result in futures_util::future::join_all(writes).await {
            self.changed(result)?;
        }
        Ok(run.end - run.start)
    }

    /// Makes runs of blocks of the copy holes.
    async fn punch(&self, runs: &[Range<u64>]) -> Result<()> {
        self.is_there()?;
        let mut holes: BTreeMap<usize, Vec<proto::Range>> = BTreeMap::new();
        for run in runs {
            for index in 0..self.target.map.pairs().len() {
                let hole = self.target.map.object_range(index, run.start, run.end);
                if !hole.is_empty() {
                    holes.entry(index).or_default().push(proto::Range {
                        start: hole.start,
                        end: hole.end,
                    });
                }
            }
        }
        let shapes = holes.into_iter().map(|(index, holes)| {
            let object = self.object(&self.target, index);
            let pairs = &self.core.pairs;
            pairs.shape(self.core, object, Protocol::ServerSync, None, holes)
        });
        for result in futures_util::future::join_all(shapes).await {
            self.changed(result)?;
        }
        Ok(())
    }

    /// A change of the copy has ended so.
    fn changed(&self, result: Result<()>) -> Result<()> {
        let result = result.map_err(doubted);
        if result == Err(IN_DOUBT) {
            self.in_doubt.set(true);
        }
        result
    }

    /// The checksums of the blocks of a range, as a layout has them.
    async fn checksums(&self, layout: &FileLayout, range: &Range<u64>) -> Result<Vec<u32>> {
        let mut regions: BTreeSet<(usize, u64)> = BTreeSet::new();
        for piece in pieces(&layout.map, range.start, range.end) {
            let last = piece.object_offset + piece.length - 1;
            let span = piece.object_offset / REGION_BYTES..=last / REGION_BYTES;
            regions.extend(span.map(|region| (piece.pair_index, region)));
        }
        let asked = regions.iter().map(|(index, region)| {
            let object = self.object(layout, *index);
            self.core.pairs.checksums(self.core, object, *region as u32)
        });
        let mut known: BTreeMap<(usize, u64), Vec<u32>> = BTreeMap::new();
        let answers = futures_util::future::join_all(asked).await;
        for (region, answer) in regions.iter().zip(answers) {
            known.insert(*region, answer?.checksums);
        }
        let blocks = (range.end - range.start).div_ceil(BLOCK_BYTES) as usize;
        let mut sums = Vec::with_capacity(blocks);
        for at in 0..blocks {
            let piece = layout
                .map
                .piece_at(range.start + at as u64 * BLOCK_BYTES, 1);
            let block = piece.object_offset / BLOCK_BYTES;
            let of_region = &known[&(piece.pair_index, block / REGION_BLOCKS)];
            let within = (block % REGION_BLOCKS) as usize;
            sums.push(of_region.get(within).copied().unwrap_or(HOLE));
        }
        Ok(sums)
    }
}

/// Takes bytes off the front of a list of parts.
struct Cutter(std::collections::VecDeque<Bytes>);

impl Cutter {
    fn new(parts: Vec<Bytes>) -> Cutter {
        Cutter(parts.into())
    }

    fn take(&mut self, mut length: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        while length > 0
            && let Some(mut first) = self.0.pop_front()
        {
            if first.len() > length {
                self.0.push_front(first.split_off(length));
            }
            length -= first.len();
            taken.push(first);
        }
        taken
    }
}

impl crate::pairs::Pairs {
    /// The checksums of the blocks of a region, by a member that serves.
    async fn checksums(
        &self,
        core: &Rc<Core>,
        object: Object,
        region: u32,
    ) -> Result<ChecksumsReply> {
        let pair = self.pair(object.pair);
        let with = core.session_of(object.ino);
        let attempt = async {
            loop {
                let epoch = pair.epoch();
                let request = ChecksumsRequest {
                    epoch,
                    object: Some(object.name()),
                    region,
                    pair: object.pair,
                    until: 0,
                };
                let member = pair.current().0;
                let trouble = match member {
                    Some(member) => {
                        let session = with.id();
                        let call = self.call(&pair, member, session, &request, Payload::none());
                        match call.await {
                            Ok((reply, _)) => return Ok(reply),
                            Err(trouble) => trouble,
                        }
                    }
                    None => Trouble::Away,
                };
                let member = member.unwrap_or(Member::Zero);
                self.settle(core, (&pair, epoch, member), &with, trouble)
                    .await?;
            }
        };
        match self.env.timeout(self.patience_left(&pair), attempt).await {
            Ok(result) => result,
            Err(_) => Err(Errno(libc::EIO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_where_pieces_end() {
        let mut cutter = Cutter::new(vec![Bytes::from_static(b"abcd"), Bytes::from_static(b"ef")]);
        assert_eq!(cutter.take(3).concat(), b"abc");
        assert_eq!(cutter.take(2).concat(), b"de");
        assert_eq!(cutter.take(5).concat(), b"f");
    }
}
