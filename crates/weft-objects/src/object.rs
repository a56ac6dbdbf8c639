//! Objects as files: open handles, checksum pages, and every change to a block.
//!
//! What it keeps true, whatever instant the process is killed at: **the page on disk always holds
//! the checksum of what a block holds.** A change first writes the page with entries {new, current},
//! then the data; only the next writing of the page forgets `current`. In memory an entry is settled
//! (both halves the same) once its data is written. After a restart unsettled entries remain, and
//! the next change to such a block reads it first to know which half is true.
//!
//! The caller (the data server, through [`crate::Store`]) never lets two operations of which one
//! changes something touch the same block of an object at once, and lets every operation run to its
//! end: a write that is dropped half-way may still be on its way to the disk.

use crate::error::{Error, IoContext, Result};
use crate::lru::Lru;
use crate::page::{
    self, Entries, Entry, GROUP_BLOCKS, GROUP_FILE, HOLE, LOST, PAGE, Verdict, block_at, checksum,
    logical, page_at, physical,
};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tokio::sync::{Mutex, OnceCell};
use weft_env::{Env, File, OpenMode};
use weft_types::{BLOCK_BYTES, Ino, ObjectId};

/// Object files kept open. Half of the 1024 descriptors that a process may have by default, so that
/// connections and logs find theirs.
const OPEN_FILES: usize = 512;
/// Checksum pages kept in memory: 64 MiB at most, for 32 GiB of data under them.
const PAGES: usize = 16384;
/// A page that is not in memory is read together with the data when the data begins within so many
/// blocks behind it: one system call instead of two, for less than it costs to copy them.
const READ_ALONG_BLOCKS: u64 = 16;
/// Data right behind its page is written together with it up to this size. More would keep other
/// writers of the group waiting for the page longer than the system call costs that it saves.
const WRITE_ALONG_BYTES: usize = 64 << 10;
/// Sub-directories that objects are spread over.
pub(crate) const FAN_OUT: usize = 256;

/// An object file.
pub(crate) struct Object {
    id: ObjectId,
    file: OnceCell<File>,
    /// Length of the file.
    physical: Cell<u64>,
}

impl Object {
    /// Highest byte written + 1.
    pub fn length(&self) -> u64 {
        logical(self.physical.get())
    }

    fn file(&self) -> &File {
        self.file
            .get()
            .expect("objects are handed out only when opened")
    }
}

/// One group of an object; its page once it has been read.
struct Group {
    index: u64,
    page: OnceCell<Page>,
}

struct Page {
    entries: RefCell<Entries>,
    /// Counts the changes of entries that must be on disk before their data.
    version: Cell<u64>,
    /// The highest version that is on disk.
    written: Cell<u64>,
    /// Held while the page is being written: writes of one page must not overlap.
    writer: Mutex<()>,
}

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

/// What a look has shown of some blocks: verdict and content.
type Known = BTreeMap<u64, (Verdict, Bytes)>;

/// Blocks as they were found.
#[derive(Default)]
struct Look {
    first: u64,
    verdicts: Vec<Verdict>,
    /// Contents of consecutive blocks, group by group: (first block, bytes). May be short: what is
    /// missing is zero.
    runs: Vec<(u64, Bytes)>,
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

impl Page {
    fn new(entries: Entries) -> Page {
        Page {
            entries: RefCell::new(entries),
            version: Cell::new(0),
            written: Cell::new(0),
            writer: Mutex::new(()),
        }
    }

    /// Puts {new, current} for each (block, new) in the entries: `current` is what a look has shown,
    /// or what the entry says. Returns the version that must be written before the data.
    fn announce(&self, changes: &[(u64, u32)], known: &Known) -> u64 {
        let mut entries = self.entries.borrow_mut();
        for &(block, new) in changes {
            let within = block % GROUP_BLOCKS;
            let seen = known.get(&block).map(|(verdict, _)| verdict.current());
            let old = seen.unwrap_or(entries.get(within).new);
            entries.set(within, Entry { new, old });
        }
        self.version.set(self.version.get() + 1);
        self.version.get()
    }

    /// The blocks now hold what was announced.
    fn settle(&self, changes: &[(u64, u32)]) {
        let mut entries = self.entries.borrow_mut();
        for &(block, current) in changes {
            entries.set(block % GROUP_BLOCKS, Entry::settled(current));
        }
    }
}

impl Look {
    fn content(&self, block: u64) -> Bytes {
        for (first, bytes) in &self.runs {
            if (*first..*first + GROUP_BLOCKS).contains(&block) {
                let from = ((block - first) * BLOCK_BYTES) as usize;
                return bytes.slice(from.min(bytes.len())..(from + PAGE).min(bytes.len()));
            }
        }
        Bytes::new()
    }

    fn bad(&self) -> Vec<u64> {
        (self.first..)
            .zip(&self.verdicts)
            .filter(|(_, verdict)| **verdict == Verdict::Bad)
            .map(|(block, _)| block)
            .collect()
    }
}

/// A block for the twin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// Its content, padded with zeros to a whole block.
    Data(Bytes),
    /// Never written, or punched.
    Hole,
    /// Bad here too.
    Bad,
}

/// All objects of a store.
pub(crate) struct Objects {
    env: Env,
    dir: PathBuf,
    /// Every object there is. 24 bytes or so each; saves a system call for each miss and creation.
    index: RefCell<BTreeSet<ObjectId>>,
    open: RefCell<Lru<ObjectId, Object>>,
    groups: RefCell<Lru<(ObjectId, u64), Group>>,
    /// Sub-directories with creations or removals that a power cut would undo, with the number of
    /// the last one. Every one is here after a start: an earlier process may have been killed before
    /// it synced what it made.
    unsynced_dirs: RefCell<BTreeMap<u8, u64>>,
    /// Creations and removals since the start.
    name_changes: Cell<u64>,
}

/// The sub-directory of an object: files made one after the other share one for a while, so that
/// few directories are written at a time; the slot sets those of different directories apart.
fn fan_out(id: ObjectId) -> u8 {
    ((id.ino.0 >> 8) as u8).wrapping_add((id.ino.slot().0 as u8).wrapping_mul(37))
}

fn parse_name(name: &str) -> Option<ObjectId> {
    let (ino, generation) = name.split_once('.')?;
    let id = ObjectId {
        ino: Ino(u64::from_str_radix(ino, 16).ok()?),
        generation: generation.parse().ok()?,
    };
    (id.to_string() == name).then_some(id)
}

/// Groups of consecutive numbers of an ascending list.
fn consecutive(blocks: &[u64]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

impl Objects {
    /// Makes the empty sub-directories.
    pub fn format(env: &Env, dir: &Path) -> Result<()> {
        for number in 0..FAN_OUT {
            let sub = dir.join(format!("{number:02x}"));
            env.create_dir_all(&sub).context("create directory", &sub)?;
        }
        Ok(())
    }

    /// Lists what is there.
    pub fn open(env: Env, dir: PathBuf) -> Result<Objects> {
        let mut index = BTreeSet::new();
        for number in 0..FAN_OUT {
            let sub = dir.join(format!("{number:02x}"));
            for item in env.read_dir(&sub).context("list", &sub)? {
                match parse_name(&item.name) {
                    Some(id) if usize::from(fan_out(id)) == number => {
                        index.insert(id);
                    }
                    _ => tracing::warn!(
                        path = %sub.join(&item.name).display(),
                        "this is not an object's name; left alone"
                    ),
                }
            }
        }
        Ok(Objects {
            env,
            dir,
            index: RefCell::new(index),
            open: RefCell::new(Lru::new(OPEN_FILES)),
            groups: RefCell::new(Lru::new(PAGES)),
            unsynced_dirs: RefCell::new((0..=u8::MAX).map(|number| (number, 0)).collect()),
            name_changes: Cell::new(0),
        })
    }

    fn note_unsynced(&self, id: ObjectId) {
        let change = self.name_changes.get() + 1;
        self.name_changes.set(change);
        self.unsynced_dirs.borrow_mut().insert(fan_out(id), change);
    }

    fn path(&self, id: ObjectId) -> PathBuf {
        self.dir.join(format!("{:02x}/{id}", fan_out(id)))
    }

    pub fn count(&self) -> usize {
        self.index.borrow().len()
    }

    pub fn contains(&self, id: ObjectId) -> bool {
        self.index.borrow().contains(&id)
    }

    /// Up to `max` objects after `after`, in order.
    pub fn after(&self, after: Option<ObjectId>, max: usize) -> Vec<ObjectId> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let index = self.index.borrow();
        index
            .range((from, Bound::Unbounded))
            .take(max)
            .copied()
            .collect()
    }

    /// The object if there is one.
    pub async fn existing(&self, id: ObjectId) -> Result<Option<Rc<Object>>> {
        if !self.contains(id) {
            return Ok(None);
        }
        self.opened(id, OpenMode::Write).await.map(Some)
    }

    /// The object, made if it is not there.
    pub async fn existing_or_new(&self, id: ObjectId) -> Result<Rc<Object>> {
        let mode = if self.contains(id) {
            OpenMode::Write
        } else {
            OpenMode::Create
        };
        self.opened(id, mode).await
    }

    async fn opened(&self, id: ObjectId, mode: OpenMode) -> Result<Rc<Object>> {
        let found = self.open.borrow_mut().get(&id);
        let object = found.unwrap_or_else(|| {
            let object = Rc::new(Object {
                id,
                file: OnceCell::new(),
                physical: Cell::new(0),
            });
            self.open.borrow_mut().insert(id, object.clone());
            object
        });
        let open = async {
            let path = self.path(id);
            let file = self.env.open(&path, mode).await.context("open", &path)?;
            object.physical.set(file.len().context("stat", &path)?);
            if mode == OpenMode::Create {
                self.index.borrow_mut().insert(id);
                self.note_unsynced(id);
            }
            Ok(file)
        };
        object.file.get_or_try_init(|| open).await?;
        Ok(object)
    }

    fn io<T>(&self, doing: &'static str, object: &Object, result: io::Result<T>) -> Result<T> {
        result.map_err(|source| Error::Io {
            doing,
            path: self.path(object.id),
            source,
        })
    }

    fn group(&self, object: &Object, index: u64) -> Rc<Group> {
        let mut groups = self.groups.borrow_mut();
        groups.get(&(object.id, index)).unwrap_or_else(|| {
            let group = Rc::new(Group {
                index,
                page: OnceCell::new(),
            });
            groups.insert((object.id, index), group.clone());
            group
        })
    }

    /// The group's page, read unless it is in memory or cannot be in the file.
    async fn page<'a>(&self, object: &Object, group: &'a Group) -> Result<&'a Page> {
        let read = async {
            let at = page_at(group.index);
            if at >= object.physical.get() {
                return self.decode(object, group, &[]);
            }
            match object.file().read_at(at, PAGE).await {
                Ok(bytes) => self.decode(object, group, &bytes),
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                    // Nothing is known of this group any more; the twin has it.
                    tracing::error!(object = %object.id, group = group.index, "cannot read a checksum page");
                    Ok(self.distrusted(object, group, Entries::default()))
                }
                Err(error) => self.io("read", object, Err(error)),
            }
        };
        group.page.get_or_try_init(|| read).await
    }

    fn decode(&self, object: &Object, group: &Group, bytes: &[u8]) -> Result<Page> {
        let decoded = page::decode(object.id, group.index, bytes, &self.path(object.id))?;
        if decoded.damaged {
            tracing::error!(object = %object.id, group = group.index, "a checksum page is damaged");
            return Ok(self.distrusted(object, group, decoded.entries));
        }
        Ok(Page::new(decoded.entries))
    }

    /// A page whose holes are not believed: their blocks are bad until the twin has told.
    fn distrusted(&self, object: &Object, group: &Group, mut entries: Entries) -> Page {
        let first = group.index * GROUP_BLOCKS;
        for block in 0..GROUP_BLOCKS {
            if block_at(first + block) < object.physical.get() && entries.get(block) == Entry::HOLE
            {
                entries.set(block, Entry::settled(LOST));
            }
        }
        Page::new(entries)
    }

    /// Reads blocks and compares them with their checksums.
    async fn look(&self, object: &Object, blocks: Range<u64>) -> Result<Look> {
        if blocks.is_empty() {
            return Ok(Look::default());
        }
        let groups: Vec<Rc<Group>> = (blocks.start / GROUP_BLOCKS
            ..=(blocks.end - 1) / GROUP_BLOCKS)
            .map(|index| self.group(object, index))
            .collect();
        let along =
            groups[0].page.get().is_none() && blocks.start % GROUP_BLOCKS < READ_ALONG_BLOCKS;
        let begin = if along {
            page_at(groups[0].index)
        } else {
            block_at(blocks.start)
        };
        let end = (block_at(blocks.end - 1) + BLOCK_BYTES).min(object.physical.get());
        let bytes = if begin < end {
            match object.file().read_at(begin, (end - begin) as usize).await {
                Ok(bytes) => bytes,
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                    return self.look_one_by_one(object, blocks, &groups).await;
                }
                Err(error) => return self.io("read", object, Err(error)),
            }
        } else {
            Bytes::new()
        };
        let part = |from: u64, to: u64| {
            let cut = |at: u64| (at.saturating_sub(begin) as usize).min(bytes.len());
            bytes.slice(cut(from)..cut(to))
        };
        let mut look = Look {
            first: blocks.start,
            verdicts: Vec::with_capacity((blocks.end - blocks.start) as usize),
            runs: Vec::with_capacity(groups.len()),
        };
        for group in &groups {
            let at = page_at(group.index);
            let page = if at >= begin && group.page.get().is_none() {
                let read = async { self.decode(object, group, &part(at, at + BLOCK_BYTES)) };
                group.page.get_or_try_init(|| read).await?
            } else {
                self.page(object, group).await?
            };
            let from = blocks.start.max(group.index * GROUP_BLOCKS);
            let to = blocks.end.min((group.index + 1) * GROUP_BLOCKS);
            let run = part(block_at(from), block_at(to - 1) + BLOCK_BYTES);
            let entries = page.entries.borrow();
            for block in from..to {
                let at = ((block - from) * BLOCK_BYTES) as usize;
                let content = &run[at.min(run.len())..(at + PAGE).min(run.len())];
                // A power cut may leave a page that tells of blocks the file was not extended by.
                look.verdicts
                    .push(if block_at(block) < object.physical.get() {
                        entries.get(block % GROUP_BLOCKS).judge(content)
                    } else {
                        Verdict::Hole
                    });
            }
            drop(entries);
            look.runs.push((from, run));
        }
        Ok(look)
    }

    /// As [`Self::look`] where the disk cannot read some of the blocks: finds out which.
    async fn look_one_by_one(
        &self,
        object: &Object,
        blocks: Range<u64>,
        groups: &[Rc<Group>],
    ) -> Result<Look> {
        let mut look = Look {
            first: blocks.start,
            ..Look::default()
        };
        for group in groups {
            let page = self.page(object, group).await?;
            let from = blocks.start.max(group.index * GROUP_BLOCKS);
            let to = blocks.end.min((group.index + 1) * GROUP_BLOCKS);
            let mut run = vec![0; ((to - from) * BLOCK_BYTES) as usize];
            for block in from..to {
                let verdict = match object.file().read_at(block_at(block), PAGE).await {
                    Ok(content) => {
                        let at = ((block - from) * BLOCK_BYTES) as usize;
                        run[at..at + content.len()].copy_from_slice(&content);
                        let entry = page.entries.borrow().get(block % GROUP_BLOCKS);
                        entry.judge(&content)
                    }
                    Err(error) if error.raw_os_error() == Some(libc::EIO) => Verdict::Bad,
                    Err(error) => return self.io("read", object, Err(error)),
                };
                look.verdicts.push(verdict);
            }
            look.runs.push((from, run.into()));
        }
        Ok(look)
    }

    /// `length` bytes from `offset`, cut at the end of the object.
    pub async fn read(&self, object: &Object, offset: u64, length: u64) -> Result<Vec<Bytes>> {
        let end = offset.saturating_add(length).min(object.length());
        if offset >= end {
            return Ok(Vec::new());
        }
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let look = self.look(object, blocks).await?;
        let bad = look.bad();
        if !bad.is_empty() {
            return Err(Error::BadBlocks {
                object: object.id,
                blocks: bad,
            });
        }
        let stale = look.verdicts.contains(&Verdict::StaleHole);
        let mut parts = Vec::with_capacity(look.runs.len());
        for (index, (first, bytes)) in look.runs.iter().enumerate() {
            let run_start = first * BLOCK_BYTES;
            let run_end = look
                .runs
                .get(index + 1)
                .map_or(end, |next| next.0 * BLOCK_BYTES);
            let mut bytes = bytes.clone();
            let wanted = (run_end.min(end) - run_start) as usize;
            if stale || bytes.len() < wanted {
                bytes = without_stale(&look, *first, &bytes, wanted);
            }
            let from = offset.saturating_sub(run_start) as usize;
            parts.push(bytes.slice(from..wanted));
        }
        Ok(parts)
    }

    /// What these blocks hold, each on its own.
    pub async fn fetch(&self, object: &Object, blocks: &[u64]) -> Result<Vec<Fetched>> {
        let mut fetched = Vec::with_capacity(blocks.len());
        for run in consecutive(blocks) {
            let look = self.look(object, run.clone()).await?;
            for (block, verdict) in run.zip(&look.verdicts) {
                fetched.push(match verdict {
                    Verdict::Data(_) => {
                        let content = look.content(block);
                        Fetched::Data(if content.len() == PAGE {
                            content
                        } else {
                            let mut whole = content.to_vec();
                            whole.resize(PAGE, 0);
                            whole.into()
                        })
                    }
                    Verdict::Hole | Verdict::StaleHole => Fetched::Hole,
                    Verdict::Bad => Fetched::Bad,
                });
            }
        }
        Ok(fetched)
    }

    /// For each block of the range up to the object's end its checksum, computed from what is there:
    /// [`HOLE`] for a hole, [`LOST`] for a bad one.
    pub async fn sums(&self, object: &Object, blocks: Range<u64>) -> Result<Vec<u32>> {
        let end = blocks.end.min(object.length().div_ceil(BLOCK_BYTES));
        let look = self
            .look(object, blocks.start..end.max(blocks.start))
            .await?;
        Ok(look.verdicts.into_iter().map(Verdict::current).collect())
    }

    /// The first group from `group` on in which the file may hold anything.
    pub fn next_group(&self, object: &Object, group: u64) -> Result<u64> {
        let next = self.io("seek in", object, object.file().next_data(page_at(group)))?;
        Ok((next / GROUP_FILE).max(group))
    }

    /// Which blocks of the group are anything but holes, below the object's end.
    pub async fn written(&self, object: &Object, group: u64) -> Result<Vec<Range<u64>>> {
        let group = self.group(object, group);
        let page = self.page(object, &group).await?;
        let first = group.index * GROUP_BLOCKS;
        let entries = page.entries.borrow();
        let blocks: Vec<u64> = (0..entries.end())
            .filter(|&block| entries.get(block) != Entry::HOLE)
            .map(|block| first + block)
            .filter(|&block| block_at(block) < object.physical.get())
            .collect();
        Ok(consecutive(&blocks))
    }

    /// Writes edits, which ascend and do not overlap.
    pub async fn write(&self, object: &Object, edits: Vec<Edit>) -> Result<()> {
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
                let undone = object.file().punch(block_at(run.start), length);
                if let Err(error) = undone {
                    tracing::warn!(object = %object.id, %error, "cannot undo a failed write");
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

    /// The verdicts on these blocks (ascending, of one group) and their contents.
    async fn known(&self, object: &Object, blocks: &[u64]) -> Result<Known> {
        let mut known = BTreeMap::new();
        for run in consecutive(blocks) {
            let look = self.look(object, run.clone()).await?;
            for (block, verdict) in run.zip(&look.verdicts) {
                known.insert(block, (*verdict, look.content(block)));
            }
        }
        Ok(known)
    }

    /// Returns when version `version` of the page is in the file, and `along` right behind it.
    async fn persist(
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
    pub fn extend(&self, object: &Object, length: u64) -> Result<()> {
        if length > object.length() {
            let end = physical(length);
            let extended = object.file().set_len(end);
            self.io("extend", object, extended)?;
            object.physical.set(end);
        }
        Ok(())
    }

    /// Makes a hole of the bytes of the range; the length stays.
    pub async fn punch(&self, object: &Object, range: Range<u64>) -> Result<()> {
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
        let mut at = first;
        while at < last {
            let next = last.min((at / GROUP_BLOCKS + 1) * GROUP_BLOCKS);
            self.punch_blocks(object, at..next).await?;
            at = next;
        }
        Ok(())
    }

    /// Zeros for a part of one block, unless it is a hole.
    async fn zero_part(&self, object: &Object, range: Range<u64>) -> Result<()> {
        let block = range.start / BLOCK_BYTES;
        let group = self.group(object, block / GROUP_BLOCKS);
        let page = self.page(object, &group).await?;
        if page.entries.borrow().get(block % GROUP_BLOCKS) == Entry::HOLE {
            return Ok(());
        }
        let data = Bytes::from_static(&page::ZEROS[..(range.end - range.start) as usize]);
        let edit = Edit {
            offset: range.start,
            data,
        };
        self.write(object, vec![edit]).await
    }

    /// Makes holes of whole blocks of one group.
    pub async fn punch_blocks(&self, object: &Object, blocks: Range<u64>) -> Result<()> {
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

    /// Removes the object; nothing if there is none.
    pub fn remove(&self, id: ObjectId) -> Result<()> {
        if !self.contains(id) {
            return Ok(());
        }
        self.open.borrow_mut().remove(&id);
        self.groups
            .borrow_mut()
            .remove_range((id, 0)..=(id, u64::MAX));
        let path = self.path(id);
        match self.env.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).context("remove", &path);
            }
            _ => {}
        }
        self.index.borrow_mut().remove(&id);
        self.note_unsynced(id);
        Ok(())
    }

    /// Makes the object, and that it is there (or is not), survive a power cut.
    pub async fn sync(&self, id: ObjectId) -> Result<()> {
        if let Some(object) = self.existing(id).await? {
            let synced = object.file().sync_data().await;
            self.io("sync", &object, synced)?;
        }
        let number = fan_out(id);
        let unsynced = self.unsynced_dirs.borrow().get(&number).copied();
        if let Some(change) = unsynced {
            let sub = self.dir.join(format!("{number:02x}"));
            let synced = self.env.sync_dir(&sub).await;
            synced.context("sync", &sub)?;
            // Another sync may wait for this directory too, and names may have come meanwhile: only
            // what was there when the sync began is known to be stable.
            let mut unsynced = self.unsynced_dirs.borrow_mut();
            if unsynced.get(&number) == Some(&change) {
                unsynced.remove(&number);
            }
        }
        Ok(())
    }
}

/// The content of a run as a reader is to see it: zeros where the entry says hole, and up to
/// `wanted` bytes.
fn without_stale(look: &Look, first: u64, bytes: &Bytes, wanted: usize) -> Bytes {
    let mut clean = bytes.to_vec();
    for (index, block) in clean.chunks_mut(PAGE).enumerate() {
        let at = (first - look.first) as usize + index;
        if look.verdicts.get(at) == Some(&Verdict::StaleHole) {
            block.fill(0);
        }
    }
    if clean.len() < wanted {
        clean.resize(wanted, 0);
    }
    clean.into()
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
