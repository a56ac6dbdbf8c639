//! The modified list: which regions of which objects may differ from the twin's.
//!
//! It is the write intent while both members serve, and the record of what an absent twin has
//! missed. **A mark is in the log before the write that it announces starts; no mark is ever lost**,
//! whatever instant the process is killed at. Cleared marks may come back, which costs a comparison.
//!
//! ```text
//! modified:  | header | record 1 | record 2 | ... | zeros, written ahead |       32 bytes each
//! header:    0          8     10   12         28    32
//!            | WEFTMODL | ver | 0  | store id | crc |
//! record:    0      1   4            8     16      20    24       28    32
//!            | kind | 0 | generation | ino | first | end | number | crc |
//! ```
//!
//! Little-endian; `crc` is the CRC-32C of the 28 bytes before. Kinds: 1 regions first..end set, 2
//! cleared, 3 everything may differ. `number` counts the records of the file from 1.
//!
//! The log is written by appending; space for it is written ahead with zeros, so that a full disk
//! does not stop what makes room: truncating and removing may use the reserve, and its last record
//! is kept for saying "everything". When most of it is garbage, [`Modified::tidy`] writes a new file
//! beside it and renames it over the old one. docs/formats/modified-list.md tells the awkward cases.

use crate::error::{Error, IoContext, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;
use weft_env::{Env, File, OpenMode};
use weft_types::{Ino, ObjectId, Regions};

pub(crate) const FILE: &str = "modified";
pub(crate) const NEW_FILE: &str = "modified.new";
const MAGIC: [u8; 8] = *b"WEFTMODL";
const VERSION: u16 = 1;
const RECORD: usize = 32;
/// The log grows by this much at a time: 8192 records for one write of zeros.
const EXTENT_BYTES: u64 = 256 << 10;
/// Room that only operations which free space may use: 2047 of them, and the record that makes any
/// further record needless.
const RESERVE_BYTES: u64 = 64 << 10;
/// The log is written anew when it has this many records (1 MiB) more than twice what it began
/// with: then at least half of them are garbage or the list is still small.
const SLACK_RECORDS: u64 = 32 << 10;
/// Bytes read or written at a time when a whole log is. Small in tests, so that marks come between.
const CHUNK_BYTES: usize = if cfg!(test) { 128 } else { 1 << 20 };

/// What a mark is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A write: on a full disk the mark fails, as the write would.
    Write,
    /// Truncating, punching or removing: the mark may use the reserve, so that it succeeds on a
    /// full disk.
    Free,
}

/// An object of the list with its regions, as runs.
pub type DirtyObject = (ObjectId, Vec<Range<u32>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    Set(ObjectId, Range<u32>),
    Clear(ObjectId, Range<u32>),
    Everything,
}

impl Record {
    fn encode(&self, number: u64, into: &mut Vec<u8>) {
        let nothing = ObjectId {
            ino: Ino(0),
            generation: 0,
        };
        let (kind, object, regions) = match self {
            Record::Set(object, regions) => (1, *object, regions.clone()),
            Record::Clear(object, regions) => (2, *object, regions.clone()),
            Record::Everything => (3, nothing, 0..0),
        };
        let start = into.len();
        into.extend_from_slice(&[kind, 0, 0, 0]);
        into.extend_from_slice(&object.generation.to_le_bytes());
        into.extend_from_slice(&object.ino.0.to_le_bytes());
        into.extend_from_slice(&regions.start.to_le_bytes());
        into.extend_from_slice(&regions.end.to_le_bytes());
        into.extend_from_slice(&(number as u32).to_le_bytes());
        let crc = crc32c::crc32c(&into[start..]);
        into.extend_from_slice(&crc.to_le_bytes());
    }

    /// `None` if this is not record `number` of a log.
    fn decode(bytes: &[u8; RECORD], number: u64) -> Option<Record> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        if word(28) != crc32c::crc32c(&bytes[..28]) || word(24) != number as u32 {
            return None;
        }
        let object = ObjectId {
            ino: Ino(u64::from(word(8)) | u64::from(word(12)) << 32),
            generation: word(4),
        };
        let regions = word(16)..word(20);
        match word(0) {
            1 if !regions.is_empty() => Some(Record::Set(object, regions)),
            2 if !regions.is_empty() => Some(Record::Clear(object, regions)),
            3 => Some(Record::Everything),
            _ => None,
        }
    }
}

fn encode_header(store_id: u128) -> Vec<u8> {
    let mut header = Vec::with_capacity(RECORD);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&[0, 0]);
    header.extend_from_slice(&store_id.to_le_bytes());
    let crc = crc32c::crc32c(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header
}

/// What is in memory. The regions that the log holds are `dirty` and both `stale` together.
#[derive(Default)]
struct Memory {
    dirty: BTreeMap<ObjectId, Regions>,
    /// How many regions `dirty` has; asked for at each beat.
    dirty_regions: u64,
    /// Cleared, but still set in the log: marking them again costs nothing. `stale[0]` since the
    /// last tidying, `stale[1]` since the one before.
    stale: [BTreeMap<ObjectId, Regions>; 2],
    /// The log was damaged: more than `dirty` may differ.
    everything: bool,
    /// The log says "everything" for want of room: no mark need be written until it is anew.
    exhausted: bool,
    /// A write to the log failed: what it holds behind `tail` is unknown, so it must be made anew
    /// before any further mark counts.
    broken: bool,
    /// Asked for by something that only a new log can tell.
    wants_compaction: bool,
    /// Records that are not in the log yet.
    pending: Vec<Record>,
    /// Records that a log being made anew must get behind what is being copied to it.
    since: Option<Vec<Record>>,
    /// Records ever put in `pending`; how many of them are in the file, and stable there.
    appended: u64,
    flushed: u64,
    synced: u64,
    /// Which log this is since the start, and whether a power cut may still give its name back to the
    /// one before.
    generation: u64,
    renamed: bool,
    /// Bytes of the file in use, and bytes of it that are written.
    tail: u64,
    capacity: u64,
    /// Records in the file when it was made.
    first_records: u64,
}

fn insert(map: &mut BTreeMap<ObjectId, Regions>, id: ObjectId, regions: Range<u32>) {
    map.entry(id).or_default().insert(regions);
}

fn remove(
    map: &mut BTreeMap<ObjectId, Regions>,
    id: ObjectId,
    regions: Range<u32>,
) -> Vec<Range<u32>> {
    let Some(set) = map.get_mut(&id) else {
        return Vec::new();
    };
    let removed = set.remove(regions);
    if set.is_empty() {
        map.remove(&id);
    }
    removed
}

impl Memory {
    fn apply(&mut self, record: Record) {
        match record {
            Record::Set(id, regions) => insert(&mut self.dirty, id, regions),
            Record::Clear(id, regions) => {
                remove(&mut self.dirty, id, regions);
            }
            Record::Everything => self.everything = true,
        }
    }

    fn append(&mut self, record: Record) {
        if let Some(since) = &mut self.since {
            since.push(record.clone());
        }
        self.pending.push(record);
        self.appended += 1;
    }

    /// Bytes that can still be appended to what is written ahead.
    fn room(&self) -> u64 {
        let used = self.tail + (self.pending.len() * RECORD) as u64;
        self.capacity.saturating_sub(used)
    }

    /// The parts of the regions that are not dirty, and of those the ones not in the log either.
    fn news(&self, id: ObjectId, regions: &Range<u32>) -> (Vec<Range<u32>>, Vec<Range<u32>>) {
        let nothing = Regions::default();
        let dirty = self.dirty.get(&id).unwrap_or(&nothing);
        let clean = dirty.missing(regions.clone());
        let mut unlogged = clean.clone();
        for stale in &self.stale {
            let stale = stale.get(&id).unwrap_or(&nothing);
            unlogged = unlogged
                .into_iter()
                .flat_map(|run| stale.missing(run))
                .collect();
        }
        (clean, unlogged)
    }

    /// Makes the regions dirty; what is not in the log is appended unless the log need not have it.
    fn set(&mut self, id: ObjectId, clean: Vec<Range<u32>>, unlogged: Vec<Range<u32>>) {
        for run in clean {
            for stale in &mut self.stale {
                for again in remove(stale, id, run.clone()) {
                    // The log holds it, but perhaps not what a log being made anew has copied.
                    if let Some(since) = &mut self.since {
                        since.push(Record::Set(id, again));
                    }
                }
            }
            self.dirty_regions += u64::from(run.end - run.start);
            insert(&mut self.dirty, id, run);
        }
        for run in unlogged {
            if self.exhausted {
                // A log being made anew says no longer "everything": it must have this one, and who
                // waits for it waits for that log.
                if let Some(since) = &mut self.since {
                    since.push(Record::Set(id, run));
                    self.appended += 1;
                }
            } else {
                self.append(Record::Set(id, run));
            }
        }
    }

    fn garbage(&self) -> bool {
        let records = self.tail / RECORD as u64;
        records > 2 * self.first_records + SLACK_RECORDS
    }
}

/// How a log was found when the store was opened.
enum Found {
    /// Every record up to `tail` is good; `torn` bytes behind it belong to one that is not.
    Good { tail: u64, torn: bool },
    /// Something in the middle is not what was written.
    Damaged,
}

/// The modified list of a store.
pub(crate) struct Modified {
    env: Env,
    dir: PathBuf,
    store_id: u128,
    memory: RefCell<Memory>,
    /// The file, locked while it is written to.
    log: Mutex<File>,
    /// Held while a new log is made.
    compacting: Mutex<()>,
    /// Held while the log is made stable, so that many marks share one sync.
    syncing: Mutex<()>,
}

impl Modified {
    /// Writes an empty log.
    pub async fn create(env: &Env, dir: &Path, store_id: u128) -> Result<()> {
        Modified::create_with(env, dir, store_id, &[]).await
    }

    /// Writes a log of these records: all of them or none, whatever ends the process.
    async fn create_with(env: &Env, dir: &Path, store_id: u128, records: &[Record]) -> Result<()> {
        let path = dir.join(FILE);
        let mut content = encode_header(store_id);
        for (number, record) in (1..).zip(records) {
            record.encode(number, &mut content);
        }
        content.resize(EXTENT_BYTES as usize, 0);
        let written = env.replace_file(&path, content).await;
        written.context("write", &path)
    }

    /// Reads the log of a store and begins a new one with what it holds.
    pub async fn open(env: Env, dir: PathBuf, store_id: u128) -> Result<Modified> {
        let path = dir.join(FILE);
        let file = env.open(&path, OpenMode::Write).await;
        let file = match file {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // It is made before the store's identity: somebody has taken it away.
                tracing::error!(path = %path.display(), "the modified list is gone: everything may differ from the twin");
                Modified::create_with(&env, &dir, store_id, &[Record::Everything]).await?;
                let made = env.open(&path, OpenMode::Write).await;
                made.context("open", &path)?
            }
            opened => opened.context("open", &path)?,
        };
        let mut memory = Memory::default();
        let found = load(&file, &path, store_id, &mut memory).await?;
        memory.dirty_regions = memory.dirty.values().map(Regions::count).sum();
        memory.capacity = file.len().context("stat", &path)?;
        let torn = match found {
            Found::Good { tail, torn } => {
                memory.tail = tail;
                memory.first_records = tail / RECORD as u64;
                torn
            }
            Found::Damaged => {
                tracing::error!(path = %path.display(), "the modified list is damaged: everything may differ from the twin");
                memory.everything = true;
                memory.tail = memory.capacity;
                false
            }
        };
        // Should no new one be made now, the next start finds the same in this one: no mark need be in it.
        memory.exhausted = memory.everything;
        // The life before may have ended before it had made stable what it wrote: that counts as one
        // record more, which a durable mark has to wait for.
        memory.appended = 1;
        memory.flushed = 1;
        let list = Modified {
            env,
            dir,
            store_id,
            memory: RefCell::new(memory),
            log: Mutex::new(file.clone()),
            compacting: Mutex::new(()),
            syncing: Mutex::new(()),
        };
        if let Err(error) = list.compact().await {
            tracing::warn!(%error, "cannot write the modified list anew; the old one is used");
            // Names, too, it may have left for a power cut to take: this one's, and those of what else
            // lies here and is believed from now on.
            list.sync_name(0).await?;
            if torn {
                let tail = list.memory.borrow().tail;
                let rest = list.memory.borrow().capacity - tail;
                let zeros = vec![0; rest.min(RECORD as u64) as usize];
                let cut = file.write_at(tail, vec![zeros.into()]).await;
                cut.context("cut", &path)?;
            }
        }
        Ok(list)
    }

    /// See [`crate::Store::mark`].
    pub async fn mark(
        &self,
        id: ObjectId,
        regions: Range<u32>,
        purpose: Purpose,
        durable: bool,
    ) -> Result<()> {
        let target = loop {
            let needed = match self.note(id, &regions, RESERVE_BYTES) {
                Ok(target) => break target,
                Err(needed) => needed,
            };
            let Err(refused) = self.extend(needed).await else {
                continue;
            };
            if purpose == Purpose::Write {
                return Err(refused);
            }
            break match self.note(id, &regions, RECORD as u64) {
                Ok(target) => target,
                Err(_) => self.note_everything(id, regions),
            };
        };
        self.flush(target).await?;
        if durable {
            self.sync(target).await?;
        }
        Ok(())
    }

    /// Makes regions dirty if the log need not be told, or has room and `reserve` bytes left then.
    /// Returns how many records must be in the file before the mark counts; else the room it takes.
    fn note(
        &self,
        id: ObjectId,
        regions: &Range<u32>,
        reserve: u64,
    ) -> std::result::Result<u64, u64> {
        let mut memory = self.memory.borrow_mut();
        let (clean, unlogged) = memory.news(id, regions);
        let needed = (unlogged.len() * RECORD) as u64 + reserve;
        let free = unlogged.is_empty() || memory.exhausted || memory.broken;
        if !free && memory.room() < needed {
            return Err(needed);
        }
        memory.set(id, clean, unlogged);
        Ok(memory.appended)
    }

    /// The same with the last room that there is, for this and all further marks.
    fn note_everything(&self, id: ObjectId, regions: Range<u32>) -> u64 {
        tracing::warn!("no room in the modified list: it now says that everything may differ");
        let mut memory = self.memory.borrow_mut();
        memory.append(Record::Everything);
        memory.exhausted = true;
        let (clean, unlogged) = memory.news(id, &regions);
        memory.set(id, clean, unlogged);
        memory.appended
    }

    /// Returns when the first `target` records are in the file.
    async fn flush(&self, target: u64) -> Result<()> {
        if self.memory.borrow().flushed >= target {
            return Ok(());
        }
        let log = self.log.lock().await;
        if self.memory.borrow().broken {
            drop(log);
            return self.compact_unless(|memory| memory.flushed >= target).await;
        }
        let (at, bytes, upto) = {
            let memory = self.memory.borrow();
            if memory.flushed >= target {
                return Ok(());
            }
            let mut bytes = Vec::with_capacity(memory.pending.len() * RECORD);
            let first = memory.tail / RECORD as u64;
            for (number, record) in (first..).zip(&memory.pending) {
                record.encode(number, &mut bytes);
            }
            (memory.tail, bytes, memory.appended)
        };
        let length = bytes.len();
        if length == 0 {
            self.memory.borrow_mut().flushed = upto;
            return Ok(());
        }
        let written = log.write_at(at, vec![bytes.into()]).await;
        let mut memory = self.memory.borrow_mut();
        if let Err(error) = written {
            memory.broken = true;
            return Err(error).context("write", &self.dir.join(FILE));
        }
        memory.pending.drain(..length / RECORD);
        memory.tail += length as u64;
        memory.flushed = upto;
        Ok(())
    }

    /// Returns when the first `target` records are stable.
    async fn sync(&self, target: u64) -> Result<()> {
        let _syncing = self.syncing.lock().await;
        let stable = |memory: &Memory| memory.synced >= target && !memory.renamed && !memory.broken;
        loop {
            if stable(&self.memory.borrow()) {
                return Ok(());
            }
            if self.memory.borrow().broken {
                return self.compact_unless(stable).await;
            }
            let (file, upto, generation, renamed) = {
                let log = self.log.lock().await;
                let memory = self.memory.borrow();
                (
                    log.clone(),
                    memory.flushed,
                    memory.generation,
                    memory.renamed,
                )
            };
            let synced = file.sync_data().await;
            if let Err(error) = synced {
                // After a failed sync the file's content on the disk is unknown.
                self.memory.borrow_mut().broken = true;
                return Err(error).context("sync", &self.dir.join(FILE));
            }
            if renamed {
                self.sync_name(generation).await?;
            }
            let mut memory = self.memory.borrow_mut();
            // If another log has taken the name meanwhile, it is that one which must be stable.
            if memory.generation == generation {
                memory.synced = memory.synced.max(upto);
            }
        }
    }

    /// Writes zeros ahead until `needed` bytes can be appended.
    async fn extend(&self, needed: u64) -> Result<()> {
        let log = self.log.lock().await;
        let at = {
            let memory = self.memory.borrow();
            if memory.room() >= needed || memory.broken || memory.exhausted {
                return Ok(());
            }
            memory.capacity
        };
        let length = needed.next_multiple_of(EXTENT_BYTES);
        let zeros = vec![0; length as usize];
        let written = log.write_at(at, vec![zeros.into()]).await;
        written.context("extend", &self.dir.join(FILE))?;
        self.memory.borrow_mut().capacity = at + length;
        Ok(())
    }

    /// See [`crate::Store::clear`].
    pub fn clear(&self, id: ObjectId, regions: Range<u32>) {
        let mut memory = self.memory.borrow_mut();
        let memory = &mut *memory;
        for run in remove(&mut memory.dirty, id, regions) {
            memory.dirty_regions -= u64::from(run.end - run.start);
            insert(&mut memory.stale[0], id, run);
        }
    }

    /// See [`crate::Store::clear_everything`].
    pub fn clear_everything(&self) {
        let mut memory = self.memory.borrow_mut();
        if memory.everything {
            memory.everything = false;
            memory.wants_compaction = true;
        }
    }

    /// Takes out of the log what has been clear since before the last tidying, and writes the log
    /// anew when that is worth it or needed.
    pub async fn tidy(&self) -> Result<()> {
        let compaction = {
            let mut memory = self.memory.borrow_mut();
            let recent = std::mem::take(&mut memory.stale[0]);
            let aged = std::mem::replace(&mut memory.stale[1], recent);
            let records: u64 = aged.values().map(|set| set.runs().len() as u64).sum();
            let compaction =
                memory.broken || memory.exhausted || memory.wants_compaction || memory.garbage();
            if compaction {
                // A new log simply does not get them.
            } else if memory.room() < records * RECORD as u64 + RESERVE_BYTES {
                // They wait for room; nothing depends on them.
                for (id, set) in aged {
                    for run in set.runs() {
                        insert(&mut memory.stale[1], id, run.clone());
                    }
                }
            } else {
                for (id, set) in aged {
                    for run in set.runs() {
                        memory.append(Record::Clear(id, run.clone()));
                    }
                }
            }
            compaction
        };
        if compaction {
            return self.compact().await;
        }
        let (target, short) = {
            let memory = self.memory.borrow();
            let waiting: u64 = memory.stale[1]
                .values()
                .map(|set| set.runs().len() as u64)
                .sum();
            let needed = waiting * RECORD as u64 + RESERVE_BYTES;
            (memory.appended, (memory.room() < needed).then_some(needed))
        };
        self.flush(target).await?;
        match short {
            Some(needed) => self.extend(needed).await,
            None => Ok(()),
        }
    }

    async fn compact(&self) -> Result<()> {
        self.compact_unless(|_| false).await
    }

    /// Writes a new log with all that is in memory and puts it in the place of the old one, unless
    /// another did while this waited.
    async fn compact_unless(&self, done: impl Fn(&Memory) -> bool) -> Result<()> {
        let _compacting = self.compacting.lock().await;
        if done(&self.memory.borrow()) {
            return Ok(());
        }
        self.memory.borrow_mut().since = Some(Vec::new());
        let result = self.rewrite().await;
        self.memory.borrow_mut().since = None;
        if result.is_err() {
            // A full disk has better use for the room; it is gone already if it was renamed.
            let _ = self.env.remove_file(&self.dir.join(NEW_FILE));
        }
        result
    }

    /// The copy is made in steps, between which marks go on: what they change is in `since` and goes
    /// behind the copy, where it decides. Dirty regions are copied before stale ones: one that is
    /// cleared meanwhile is met in either, one that is marked again is in `since`.
    async fn rewrite(&self) -> Result<()> {
        let path = self.dir.join(NEW_FILE);
        let file = self.env.open(&path, OpenMode::CreateEmpty).await;
        let file = file.context("open", &path)?;
        let mut buffer = encode_header(self.store_id);
        let mut number = 0;
        let mut at = 0;
        let mut put = |record: &Record, buffer: &mut Vec<u8>| {
            number += 1;
            record.encode(number, buffer);
        };
        if self.memory.borrow().everything {
            put(&Record::Everything, &mut buffer);
        }
        for map in 0..3 {
            let mut after = Bound::Unbounded;
            loop {
                {
                    let memory = self.memory.borrow();
                    let map = match map {
                        0 => &memory.dirty,
                        1 => &memory.stale[0],
                        _ => &memory.stale[1],
                    };
                    let mut rest = map.range((after, Bound::Unbounded));
                    after = Bound::Unbounded;
                    for (id, set) in rest.by_ref() {
                        for run in set.runs() {
                            put(&Record::Set(*id, run.clone()), &mut buffer);
                        }
                        if buffer.len() >= CHUNK_BYTES {
                            after = Bound::Excluded(*id);
                            break;
                        }
                    }
                }
                if after == Bound::Unbounded {
                    break;
                }
                let length = buffer.len() as u64;
                let full = std::mem::take(&mut buffer);
                file.write_at(at, vec![full.into()])
                    .await
                    .context("write", &path)?;
                at += length;
            }
        }
        let upto = self.memory.borrow().appended;
        let since = self.memory.borrow_mut().since.replace(Vec::new());
        for record in since.unwrap_or_default() {
            put(&record, &mut buffer);
        }
        let mut tail = at + buffer.len() as u64;
        let mut capacity = (tail + RESERVE_BYTES).next_multiple_of(EXTENT_BYTES);
        buffer.resize((capacity - at) as usize, 0);
        file.write_at(at, vec![buffer.into()])
            .await
            .context("write", &path)?;
        file.sync_data().await.context("sync", &path)?;

        // Marks waited for nothing so far. From here on the old log gets no more.
        let mut log = self.log.lock().await;
        let mut late = Vec::new();
        let flushed = self.memory.borrow().appended;
        let since = self.memory.borrow_mut().since.replace(Vec::new());
        for record in since.unwrap_or_default() {
            put(&record, &mut late);
        }
        if !late.is_empty() {
            let at = tail;
            tail += late.len() as u64;
            if tail + RESERVE_BYTES > capacity {
                capacity = (tail + RESERVE_BYTES).next_multiple_of(EXTENT_BYTES);
                late.resize((capacity - at) as usize, 0);
            }
            file.write_at(at, vec![late.into()])
                .await
                .context("write", &path)?;
        }
        // What is stable in the old log must be so in the new one before it takes the name.
        let mut synced = upto;
        while self.memory.borrow().synced > synced {
            file.sync_data().await.context("sync", &path)?;
            synced = flushed;
        }
        let old = self.dir.join(FILE);
        self.env.rename(&path, &old).context("rename", &path)?;
        *log = file;
        let generation = {
            let mut memory = self.memory.borrow_mut();
            memory.pending = memory.since.take().unwrap_or_default();
            memory.flushed = flushed;
            memory.synced = synced;
            memory.tail = tail;
            memory.capacity = capacity;
            memory.first_records = tail / RECORD as u64;
            memory.exhausted = false;
            memory.broken = false;
            memory.wants_compaction = false;
            memory.renamed = true;
            memory.generation += 1;
            memory.generation
        };
        drop(log);
        self.sync_name(generation).await
    }

    /// Makes the name of the current log stable.
    async fn sync_name(&self, generation: u64) -> Result<()> {
        let synced = self.env.sync_dir(&self.dir).await;
        synced.context("sync", &self.dir)?;
        let mut memory = self.memory.borrow_mut();
        if memory.generation == generation {
            memory.renamed = false;
        }
        Ok(())
    }

    pub fn everything(&self) -> bool {
        self.memory.borrow().everything
    }

    /// Up to `max` objects after `after`, in order, with their regions.
    pub fn dirty(&self, after: Option<ObjectId>, max: usize) -> Vec<DirtyObject> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let memory = self.memory.borrow();
        let rest = memory.dirty.range((from, Bound::Unbounded));
        rest.take(max)
            .map(|(id, set)| (*id, set.runs().to_vec()))
            .collect()
    }

    pub fn regions(&self, id: ObjectId) -> Vec<Range<u32>> {
        let memory = self.memory.borrow();
        memory
            .dirty
            .get(&id)
            .map_or(Vec::new(), |set| set.runs().to_vec())
    }

    pub fn dirty_within(&self, id: ObjectId, regions: Range<u32>) -> Vec<Range<u32>> {
        let memory = self.memory.borrow();
        let set = memory.dirty.get(&id);
        set.map_or(Vec::new(), |set| set.within(regions))
    }

    pub fn is_dirty(&self, id: ObjectId, region: u32) -> bool {
        let memory = self.memory.borrow();
        memory
            .dirty
            .get(&id)
            .is_some_and(|set| set.contains(region))
    }

    pub fn objects(&self) -> usize {
        self.memory.borrow().dirty.len()
    }

    pub fn region_count(&self) -> u64 {
        self.memory.borrow().dirty_regions
    }
}

/// Replays a log into `memory`.
async fn load(file: &File, path: &Path, store_id: u128, memory: &mut Memory) -> Result<Found> {
    let length = file.len().context("stat", path)?;
    let mut at = 0;
    let mut good = true;
    let mut tail = 0;
    let mut torn = false;
    while at < length {
        let chunk = file.read_at(at, CHUNK_BYTES).await.context("read", path)?;
        if chunk.is_empty() {
            break;
        }
        for bytes in chunk.chunks(RECORD) {
            let here = at;
            at += bytes.len() as u64;
            if here == 0 {
                if !header_is_ours(bytes, path, store_id)? {
                    return Ok(Found::Damaged);
                }
                tail = RECORD as u64;
                continue;
            }
            let whole = <&[u8; RECORD]>::try_from(bytes).ok();
            let record = whole.and_then(|bytes| Record::decode(bytes, here / RECORD as u64));
            let zero = bytes.iter().all(|&byte| byte == 0);
            match record {
                Some(record) if good => {
                    memory.apply(record);
                    tail = at;
                }
                // Behind the end there may be one record that a kill cut short, and zeros.
                None if good => {
                    good = false;
                    torn = !zero;
                }
                _ if zero => {}
                _ => return Ok(Found::Damaged),
            }
        }
    }
    if tail == 0 {
        return Ok(Found::Damaged);
    }
    if torn {
        tracing::warn!(path = %path.display(), "the last record of the modified list was cut short: dropped");
    }
    Ok(Found::Good { tail, torn })
}

fn header_is_ours(header: &[u8], path: &Path, store_id: u128) -> Result<bool> {
    let expected = encode_header(store_id);
    if header == expected {
        return Ok(true);
    }
    let sums = header.len() == RECORD
        && header[..8] == MAGIC
        && header[28..] == crc32c::crc32c(&header[..28]).to_le_bytes();
    if sums && header[8..10] != expected[8..10] {
        let version = u16::from_le_bytes([header[8], header[9]]);
        return Err(Error::Format {
            path: path.to_owned(),
            reason: format!(
                "modified list format {version}; this version of Weft reads format {VERSION}"
            ),
        });
    }
    Ok(false)
}

#[cfg(test)]
#[path = "modified_tests.rs"]
mod tests;
