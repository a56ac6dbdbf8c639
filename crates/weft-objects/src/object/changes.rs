//! Every change of an object's content: page first, then data.

use super::{Group, Object, Objects, Page, consecutive};
use crate::error::{Error, Result};
use crate::page::{
    self, Entry, GROUP_BLOCKS, HOLE, LOST, PAGE, Verdict, block_at, checksum, page_at, physical,
};
use bytes::Bytes;
use std::ops::Range;
use weft_types::BLOCK_BYTES;

/// Data right behind its page is written together with it up to this size. More would keep other
/// writers of the group waiting for the page longer than the system call costs that it saves.
const WRITE_ALONG_BYTES: usize = 64 << 10;

/// New bytes for an object. Within one request edits ascend and do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub offset: u64,
    pub data: Bytes,
}

/// What is to become of some blocks.
enum Planned {
    /// These blocks from `block` on, whole; only the object's last one may be short.
    Whole { block: u64, data: Bytes },
    /// Parts of one block: (offset in the block, bytes), ascending.
    Patched {
        block: u64,
        patches: Vec<(usize, Bytes)>,
    },
}

/// Blocks that lie side by side in the file, to be written.
struct Run {
    first: u64,
    parts: Vec<Bytes>,
    bytes: usize,
}

impl Planned {
    fn block(&self) -> u64 {
        match self {
            Planned::Whole { block, .. } | Planned::Patched { block, .. } => *block,
        }
    }
}

impl Run {
    /// The block behind the last one.
    fn end(&self) -> u64 {
        self.first + self.bytes.div_ceil(PAGE) as u64
    }

    /// Adds the content of the next blocks.
    fn push(&mut self, data: Bytes) {
        self.pad(PAGE);
        self.bytes += data.len();
        self.parts.push(data);
    }

    /// Fills a short last block with zeros until it has `inside` bytes.
    fn pad(&mut self, inside: usize) {
        let short = self.bytes % PAGE;
        if short > 0 && short < inside {
            self.parts
                .push(Bytes::from_static(&page::ZEROS[..inside - short]));
            self.bytes += inside - short;
        }
    }
}

impl Objects {
    /// Writes edits, which ascend and do not overlap.
    pub async fn write(&self, object: &Object, edits: Vec<Edit>) -> Result<()> {
        self.note_change();
        let mut planned: Vec<Planned> = Vec::with_capacity(edits.len() + 2);
        for Edit {
            mut offset,
            mut data,
        } in edits
        {
            while !data.is_empty() {
                let block = offset / BLOCK_BYTES;
                let within = (offset % BLOCK_BYTES) as usize;
                let in_group = ((GROUP_BLOCKS - block % GROUP_BLOCKS) * BLOCK_BYTES) as usize;
                let whole = data.len().min(in_group) / PAGE * PAGE;
                let taken = if within == 0 && whole > 0 {
                    let data = data.split_to(whole);
                    planned.push(Planned::Whole { block, data });
                    whole
                } else {
                    let part = data.split_to(data.len().min(PAGE - within));
                    let taken = part.len();
                    match planned.last_mut() {
                        Some(Planned::Patched {
                            block: last,
                            patches,
                        }) if *last == block => {
                            patches.push((within, part));
                        }
                        _ => planned.push(Planned::Patched {
                            block,
                            patches: vec![(within, part)],
                        }),
                    }
                    taken
                };
                offset += taken as u64;
            }
        }
        self.write_planned(object, planned).await
    }

    /// Replaces whole blocks by what the twin has; ascending. Bytes past `length` are dropped.
    pub async fn replace(
        &self,
        object: &Object,
        blocks: &[u64],
        payload: &Bytes,
        length: u64,
    ) -> Result<()> {
        self.note_change();
        let mut planned = Vec::new();
        let mut at = 0;
        for run in consecutive(blocks) {
            let mut block = run.start;
            while block < run.end {
                let next = run.end.min((block / GROUP_BLOCKS + 1) * GROUP_BLOCKS);
                let whole = (next - block) * BLOCK_BYTES;
                let room = length.saturating_sub(block * BLOCK_BYTES).min(whole) as usize;
                if room > 0 {
                    let data = payload.slice(at..at + room);
                    planned.push(Planned::Whole { block, data });
                }
                at += whole as usize;
                block = next;
            }
        }
        self.write_planned(object, planned).await
    }

    async fn write_planned(&self, object: &Object, mut planned: Vec<Planned>) -> Result<()> {
        while !planned.is_empty() {
            let group = planned[0].block() / GROUP_BLOCKS;
            let end = planned
                .iter()
                .position(|plan| plan.block() / GROUP_BLOCKS != group)
                .unwrap_or(planned.len());
            let rest = planned.split_off(end);
            self.write_group(object, group, planned).await?;
            planned = rest;
        }
        Ok(())
    }

    /// Writes blocks of one group: page first, then data.
    async fn write_group(&self, object: &Object, group: u64, planned: Vec<Planned>) -> Result<()> {
        let group = self.group(object, group);
        let page = self.page(object, &group).await?;
        let first = group.index * GROUP_BLOCKS;
        if page_at(group.index) >= object.physical.get() {
            self.settle_end(object).await?;
        }

        // What is in a block matters if a part of it stays, or if a kill left it open which of two.
        let mut wanted = Vec::new();
        for plan in &planned {
            let entries = page.entries.borrow();
            match plan {
                Planned::Patched { block, .. } => {
                    if entries.get(block - first) != Entry::HOLE {
                        wanted.push(*block);
                    }
                }
                Planned::Whole { block, data } => {
                    let end = block + data.len().div_ceil(PAGE) as u64;
                    wanted.extend((*block..end).filter(|b| !entries.get(b - first).is_settled()));
                }
            }
        }
        let known = self.known(object, &wanted).await?;
        let bad: Vec<u64> = planned
            .iter()
            .filter(|plan| matches!(plan, Planned::Patched { .. }))
            .map(Planned::block)
            .filter(|block| matches!(known.get(block), Some((Verdict::Bad, _))))
            .collect();
        if !bad.is_empty() {
            return Err(Error::BadBlocks {
                object: object.id,
                blocks: bad,
            });
        }

        let mut runs: Vec<Run> = Vec::new();
        let mut sums: Vec<(u64, u32)> = Vec::new();
        for plan in planned {
            let block = plan.block();
            let data = match plan {
                Planned::Whole { data, .. } => data,
                Planned::Patched { patches, .. } => {
                    let base = match known.get(&block) {
                        Some((Verdict::Data(_), content)) => content.clone(),
                        _ => Bytes::new(),
                    };
                    patched(base, patches)
                }
            };
            for (chunk, number) in data.chunks(PAGE).zip(block..) {
                sums.push((number, checksum(chunk)));
            }
            let run = match runs.last_mut() {
                Some(run) if run.end() == block => run,
                _ => {
                    runs.push(Run {
                        first: block,
                        parts: Vec::with_capacity(2),
                        bytes: 0,
                    });
                    runs.last_mut().expect("just pushed")
                }
            };
            let last = block + (data.len() - 1) as u64 / BLOCK_BYTES;
            let inside = object.physical.get().saturating_sub(block_at(last));
            run.push(data);
            // What the file may hold behind a short end is overwritten too, up to its length.
            run.pad(inside.min(BLOCK_BYTES) as usize);
        }

        let fresh: Vec<u64> = {
            let entries = page.entries.borrow();
            let hole = |block: &u64| entries.get(block - first) == Entry::HOLE;
            sums.iter().map(|sum| sum.0).filter(hole).collect()
        };
        let version = page.announce(&sums, &known);
        let along = match runs.first_mut() {
            Some(run) if run.first == first && run.bytes <= WRITE_ALONG_BYTES => {
                std::mem::take(&mut run.parts)
            }
            _ => Vec::new(),
        };
        let written = match self.persist(object, &group, page, version, along).await {
            Ok(()) => self.write_runs(object, runs).await,
            failed => failed,
        };
        if written.is_err() {
            // The entries answer to both contents. A hole that was filled in part (a full disk whose
            // blocks are smaller than ours) would answer to neither: it becomes a hole again.
            for run in consecutive(&fresh) {
                let length = (run.end - run.start) * BLOCK_BYTES;
                match object.file().punch(block_at(run.start), length) {
                    Ok(()) => page.settle(&run.map(|block| (block, HOLE)).collect::<Vec<_>>()),
                    Err(error) => {
                        tracing::warn!(object = %object.id, %error, "cannot undo a failed write");
                    }
                }
            }
            object
                .physical
                .set(self.io("stat", object, object.file().len())?);
            return written;
        }
        page.settle(&sums);
        Ok(())
    }

    async fn write_runs(&self, object: &Object, runs: Vec<Run>) -> Result<()> {
        for run in runs {
            let at = block_at(run.first);
            if !run.parts.is_empty() {
                let written = object.file().write_at(at, run.parts).await;
                self.io("write", object, written)?;
            }
            let end = at + run.bytes as u64;
            object.physical.set(object.physical.get().max(end));
        }
        Ok(())
    }

    /// Returns when version `version` of the page is in the file, and `along` right behind it.
    pub(super) async fn persist(
        &self,
        object: &Object,
        group: &Group,
        page: &Page,
        version: u64,
        along: Vec<Bytes>,
    ) -> Result<()> {
        let at = page_at(group.index);
        let writer = page.writer.lock().await;
        if page.written.get() >= version {
            // Another writer of the group has taken these entries with its own.
            drop(writer);
            if along.is_empty() {
                return Ok(());
            }
            let written = object.file().write_at(at + BLOCK_BYTES, along).await;
            return self.io("write", object, written);
        }
        let version = page.version.get();
        let bytes = page::encode(object.id, group.index, &page.entries.borrow());
        let mut parts = Vec::with_capacity(1 + along.len());
        parts.push(bytes.into());
        parts.extend(along);
        let written = object.file().write_at(at, parts).await;
        self.io("write", object, written)?;
        page.written.set(version);
        drop(writer);
        let end = at + BLOCK_BYTES;
        object.physical.set(object.physical.get().max(end));
        Ok(())
    }

    /// Drops everything from `offset` on; nothing if the object ends before. With `forget_bad` a
    /// bad block at the cut stays bad, else it is an error: it must be healed first.
    pub async fn truncate(&self, object: &Object, offset: u64, forget_bad: bool) -> Result<()> {
        self.note_change();
        if offset >= object.length() {
            return Ok(());
        }
        let mut settle = Vec::new();
        let mut keep = None;
        if let Some(last) = offset.checked_sub(1) {
            let last = last / BLOCK_BYTES;
            let group = self.group(object, last / GROUP_BLOCKS);
            let page = self.page(object, &group).await?;
            let first = group.index * GROUP_BLOCKS;
            let cut = (offset % BLOCK_BYTES) as usize;
            let (partial, beyond) = {
                let entries = page.entries.borrow();
                let partial = cut > 0 && entries.get(last - first) != Entry::HOLE;
                let beyond: Vec<u64> = (last + 1..first + entries.end())
                    .filter(|block| entries.get(block - first) != Entry::HOLE)
                    .collect();
                (partial, beyond)
            };
            let mut wanted: Vec<u64> = if partial { vec![last] } else { Vec::new() };
            {
                let entries = page.entries.borrow();
                wanted.extend(
                    beyond
                        .iter()
                        .filter(|b| !entries.get(*b - first).is_settled()),
                );
            }
            let known = self.known(object, &wanted).await?;
            if partial {
                let sum = match &known[&last] {
                    (Verdict::Data(_), content) => checksum(&content[..cut.min(content.len())]),
                    (Verdict::Bad, _) if forget_bad => LOST,
                    (Verdict::Bad, _) => {
                        return Err(Error::BadBlocks {
                            object: object.id,
                            blocks: vec![last],
                        });
                    }
                    _ => HOLE,
                };
                settle.push((last, sum));
            }
            settle.extend(beyond.iter().map(|&block| (block, HOLE)));
            if !settle.is_empty() {
                let version = page.announce(&settle, &known);
                self.persist(object, &group, page, version, Vec::new())
                    .await?;
            }
            keep = Some(group);
        }
        // One step in which the file system cuts the data, zeroes what is left of the last block and
        // drops later groups: before it every entry answers to the old content, after it to the new.
        let end = physical(offset);
        let cut = object.file().set_len(end);
        self.io("truncate", object, cut)?;
        object.physical.set(end);
        let from = keep.as_ref().map_or(0, |group| group.index + 1);
        let later = (object.id, from)..=(object.id, u64::MAX);
        self.groups.borrow_mut().remove_range(later);
        if let Some(page) = keep.as_ref().and_then(|group| group.page.get()) {
            page.settle(&settle);
        }
        Ok(())
    }

    /// Lengthens the object with a hole; never cuts.
    pub async fn extend(&self, object: &Object, length: u64) -> Result<()> {
        self.note_change();
        if length > object.length() {
            self.settle_end(object).await?;
            let end = physical(length);
            // Somebody may have made it longer than that meanwhile.
            if end > object.physical.get() {
                let extended = object.file().set_len(end);
                self.io("extend", object, extended)?;
                object.physical.set(end);
            }
        }
        Ok(())
    }

    /// Makes a hole of the bytes of the range; the length stays.
    pub async fn punch(&self, object: &Object, range: Range<u64>) -> Result<()> {
        self.note_change();
        let length = object.length();
        let end = range.end.min(length);
        if range.start >= end {
            return Ok(());
        }
        let first = range.start.div_ceil(BLOCK_BYTES);
        let last = if end == length {
            end.div_ceil(BLOCK_BYTES)
        } else {
            end / BLOCK_BYTES
        };
        // The parts of blocks at both ends; one part if the range lies within a block.
        let head = range.start..end.min(first * BLOCK_BYTES);
        let tail = range.start.max(last * BLOCK_BYTES)..end;
        let tail = if first > last { 0..0 } else { tail };
        for edge in [head, tail] {
            if edge.start < edge.end {
                self.zero_part(object, edge).await?;
            }
        }
        self.punch_whole(object, first..last).await
    }

    /// Makes holes of these blocks, which ascend.
    pub async fn punch_list(&self, object: &Object, blocks: &[u64]) -> Result<()> {
        self.note_change();
        for run in consecutive(blocks) {
            self.punch_whole(object, run).await?;
        }
        Ok(())
    }

    async fn punch_whole(&self, object: &Object, blocks: Range<u64>) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            let group = self.next_group(object, at / GROUP_BLOCKS)?;
            let next = blocks.end.min((group + 1) * GROUP_BLOCKS);
            self.punch_blocks(object, at.max(group * GROUP_BLOCKS)..next)
                .await?;
            at = (group + 1) * GROUP_BLOCKS;
        }
        Ok(())
    }

    /// Zeros for a part of one block, unless it is a hole. If nothing else is in the block it becomes one: otherwise it
    /// would be one only where the object ends in it now, and the twin may have made it longer, elsewhere, before this
    /// and not after it.
    async fn zero_part(&self, object: &Object, range: Range<u64>) -> Result<()> {
        let block = range.start / BLOCK_BYTES;
        let group = self.group(object, block / GROUP_BLOCKS);
        let page = self.page(object, &group).await?;
        let entry = page.entries.borrow().get(block % GROUP_BLOCKS);
        if entry == Entry::HOLE {
            return Ok(());
        }
        let look = self.look(object, block..block + 1).await?;
        let first = block * BLOCK_BYTES;
        let content = look.content(block);
        let part = |at: u64| ((at - first) as usize).min(content.len());
        let rest = [&content[..part(range.start)], &content[part(range.end)..]];
        match look.verdicts[..] {
            // A write that was cut short may have left one.
            [Verdict::Hole] => return Ok(()),
            [Verdict::Data(_)] if rest.into_iter().all(page::is_zero) => {
                return self.punch_whole(object, block..block + 1).await;
            }
            _ => {}
        }
        let data = Bytes::from_static(&page::ZEROS[..(range.end - range.start) as usize]);
        let edit = Edit {
            offset: range.start,
            data,
        };
        self.write(object, vec![edit]).await
    }

    /// Makes holes of whole blocks of one group.
    async fn punch_blocks(&self, object: &Object, blocks: Range<u64>) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let group = self.group(object, blocks.start / GROUP_BLOCKS);
        let page = self.page(object, &group).await?;
        let first = group.index * GROUP_BLOCKS;
        let (written, open) = {
            let entries = page.entries.borrow();
            let written: Vec<u64> = blocks
                .clone()
                .filter(|block| entries.get(block - first) != Entry::HOLE)
                .collect();
            let open: Vec<u64> = written
                .iter()
                .copied()
                .filter(|block| !entries.get(block - first).is_settled())
                .collect();
            (written, open)
        };
        if written.is_empty() {
            return Ok(());
        }
        let known = self.known(object, &open).await?;
        let changes: Vec<(u64, u32)> = written.iter().map(|&block| (block, HOLE)).collect();
        let version = page.announce(&changes, &known);
        self.persist(object, &group, page, version, Vec::new())
            .await?;
        for run in consecutive(&written) {
            let (at, length) = (block_at(run.start), (run.end - run.start) * BLOCK_BYTES);
            let punched = match object.file().punch(at, length) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    // A file system without holes: zeros serve, they only take room.
                    let room = object.physical.get().saturating_sub(at).min(length);
                    object
                        .file()
                        .write_at(at, vec![vec![0; room as usize].into()])
                        .await
                }
                other => other,
            };
            self.io("punch", object, punched)?;
        }
        page.settle(&changes);
        Ok(())
    }
}

/// A block's content with patches put in.
fn patched(base: Bytes, mut patches: Vec<(usize, Bytes)>) -> Bytes {
    if base.is_empty() && patches.len() == 1 && patches[0].0 == 0 {
        return patches.swap_remove(0).1;
    }
    let end = patches.last().map_or(0, |(at, part)| at + part.len());
    let mut content = vec![0; base.len().max(end)];
    content[..base.len()].copy_from_slice(&base);
    for (at, part) in patches {
        content[at..at + part.len()].copy_from_slice(&part);
    }
    content.into()
}
