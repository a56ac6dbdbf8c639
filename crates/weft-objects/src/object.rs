//! Objects as files: checksum pages, reading and verifying; `object/changes.rs` changes content,
//! `object/handles.rs` finds, opens and removes.
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

mod changes;
mod handles;

pub(crate) use changes::Edit;

use crate::error::{Error, Failure, Result, is_unreadable};
use crate::lru::Lru;
use crate::page::{
    self, Entries, Entry, GROUP_BLOCKS, GROUP_FILE, LOST, PAGE, Verdict, block_at, logical, page_at,
};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use tokio::sync::{Mutex, OnceCell};
use weft_env::{Env, File};
use weft_types::{BLOCK_BYTES, ObjectId};

/// A page that is not in memory is read together with the data when the data begins within so many
/// blocks behind it: one system call instead of two, for less than it costs to copy them.
const READ_ALONG_BLOCKS: u64 = 16;

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
        let run = self.runs.iter().rev().find(|(first, _)| *first <= block);
        run.map_or_else(Bytes::new, |(first, bytes)| {
            let from = ((block - first) * BLOCK_BYTES) as usize;
            bytes.slice(from.min(bytes.len())..(from + PAGE).min(bytes.len()))
        })
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
    /// Changes of what objects hold, refused ones among them.
    content_changes: Cell<u64>,
    /// A sync has failed. The kernel may have dropped what it could not write, and says so once only: no
    /// later sync is believed.
    sync_failed: Cell<bool>,
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
    /// What came of a sync, which is the last one if it failed for the disk's sake.
    fn synced<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.failure() == Some(Failure::Sync)
        {
            self.sync_failed.set(true);
        }
        result
    }

    /// To be asked before anything is made stable.
    ///
    /// # Errors
    /// A sync has failed before.
    fn can_sync(&self) -> Result<()> {
        match self.sync_failed.get() {
            true => Err(Error::Io {
                doing: "sync",
                path: self.dir.clone(),
                source: io::Error::from_raw_os_error(libc::EIO),
            }),
            false => Ok(()),
        }
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
                Err(error) if is_unreadable(&error) => {
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
        let decoded = page::decode(object.id, group.index, bytes);
        let decoded = decoded.map_err(|version| Error::Format {
            path: self.path(object.id),
            reason: format!(
                "object format {version}; this version of Weft reads format {}",
                page::VERSION
            ),
        })?;
        if decoded.damaged {
            tracing::error!(object = %object.id, group = group.index, "a checksum page is damaged");
            return Ok(self.distrusted(object, group, decoded.entries));
        }
        Ok(self.without_lost_end(object, group, decoded.entries))
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
        self.without_lost_end(object, group, entries)
    }

    /// A power cut may leave a page that tells of blocks by which the file was not lengthened any
    /// more: they are holes. The page in the file says so too before the file is lengthened again
    /// ([`Self::settle_end`]), else they would lie within it and be bad.
    fn without_lost_end(&self, object: &Object, group: &Group, mut entries: Entries) -> Page {
        let first = group.index * GROUP_BLOCKS;
        let lost: Vec<u64> = (0..entries.end())
            .filter(|&block| entries.get(block) != Entry::HOLE)
            .filter(|&block| block_at(first + block) >= object.physical.get())
            .collect();
        for &block in &lost {
            entries.set(block, Entry::HOLE);
        }
        let page = Page::new(entries);
        page.version.set(u64::from(!lost.is_empty()));
        page
    }

    /// To be called before the file is lengthened past its last group.
    async fn settle_end(&self, object: &Object) -> Result<()> {
        let Some(last) = object.physical.get().checked_sub(1) else {
            return Ok(());
        };
        let group = self.group(object, last / GROUP_FILE);
        let page = self.page(object, &group).await?;
        if page.written.get() == 0 && page.version.get() == 1 {
            self.persist(object, &group, page, 1, Vec::new()).await?;
        }
        Ok(())
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
                Ok(bytes) => {
                    if (bytes.len() as u64) < end - begin {
                        self.was_cut(object)?;
                    }
                    bytes
                }
                Err(error) if is_unreadable(&error) => {
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
                look.verdicts
                    .push(entries.get(block % GROUP_BLOCKS).judge(content));
            }
            drop(entries);
            look.runs.push((from, run));
        }
        Ok(look)
    }

    /// The file has less than this store left in it: somebody else has cut it. The object ends there.
    fn was_cut(&self, object: &Object) -> Result<()> {
        let (was, is) = (object.physical.get(), object.file().len());
        let is = self.io("stat", object, is)?;
        if is < was {
            tracing::error!(object = %object.id, was, is, "somebody has cut off a part of an object's file");
            object.physical.set(is);
        }
        Ok(())
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
            // Where the file ends, the content does: who patches a short last block writes what he is given.
            let end = (block_at(to - 1) + BLOCK_BYTES).min(object.physical.get());
            let mut run = vec![0; end.saturating_sub(block_at(from)) as usize];
            for block in from..to {
                let verdict = match object.file().read_at(block_at(block), PAGE).await {
                    Ok(content) => {
                        let at = ((block - from) * BLOCK_BYTES) as usize;
                        let known = run.iter_mut().skip(at);
                        known.zip(&content).for_each(|(to, from)| *to = *from);
                        let entry = page.entries.borrow().get(block % GROUP_BLOCKS);
                        entry.judge(&content)
                    }
                    Err(error) if is_unreadable(&error) => Verdict::Bad,
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
        // Less, if somebody else has cut the file.
        let end = end.min(object.length());
        if offset >= end {
            return Ok(Vec::new());
        }
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
    /// [`page::HOLE`] for a hole, [`LOST`] for a bad one.
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
