//! The store as the data server sees it.

use crate::directory::{Directory, OBJECTS};
use crate::error::{Error, IoContext, Result};
use crate::identity::{Identity, boot_of};
use crate::losses::{Loss, Losses};
use crate::modified::{DirtyObject, Modified, Purpose};
use crate::object::{Edit, Fetched, Object, Objects};
use crate::page::{GROUP_BLOCKS, LOST, PAGE};
use bytes::Bytes;
use futures_util::stream::{self, TryStreamExt};
use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weft_env::{Env, Lock};
use weft_types::{
    BLOCK_BYTES, Epoch, Member, Mode, NameSpaceId, ObjectId, PairId, REGION_BLOCKS, REGION_BYTES,
};

/// Longest object: its regions are counted by a u32.
pub const OBJECT_BYTES_MAX: u64 = (u32::MAX as u64) * REGION_BYTES;
/// Objects synced side by side: a device takes several flushes at a time, and each holds a thread.
const SYNCS: usize = 8;

/// A run of bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the object.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// Where an object's data is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Written byte ranges within what was asked for, ascending; by whole blocks, cut at the
    /// object's end.
    pub data: Vec<Range<u64>>,
    /// There may be ranges behind the last one, or more of it: ask again from its end.
    pub more: bool,
    /// Highest byte written + 1 of the whole object.
    pub length: u64,
    /// Bytes of the blocks in `data` (checksum pages are not counted).
    pub allocated: u64,
}

/// Checksums of a region's blocks, computed from what the blocks hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionSums {
    /// One for each block up to the end of the region or of the object: 0 for a hole (so are
    /// missing ones), 1 for a bad block.
    pub checksums: Vec<u32>,
    /// Blocks that hold neither of what their checksums say, by index in the object.
    pub bad: Vec<u64>,
    /// The object's length.
    pub length: u64,
    /// The object is there.
    pub exists: bool,
}

/// What recovery or a heal puts in an object.
#[derive(Clone, Debug, Default)]
pub struct Fill {
    /// Blocks to write, by index in the object, ascending; `payload` holds them in order, whole.
    pub blocks: Vec<u64>,
    /// The content of `blocks`.
    pub payload: Bytes,
    /// Blocks to make holes.
    pub holes: Vec<u64>,
    /// The length to give to the object, by cutting or lengthening; `None` leaves it, and bytes of
    /// blocks past it are dropped.
    pub length: Option<u64>,
    /// Whether the object is to be: if not, it is removed and the rest does not count.
    pub exists: bool,
}

/// Room in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the file system.
    pub total: u64,
    /// Bytes that may still be written.
    pub free: u64,
    /// Objects there are.
    pub objects: u64,
}

/// How far a scrub has come. The default begins at the first object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCursor {
    object: Option<ObjectId>,
    region: u32,
    passed: u64,
}

impl ScrubCursor {
    /// Bytes of regions that it has passed by, for they hold nothing.
    pub fn passed(&self) -> u64 {
        self.passed
    }
}

/// One step of a scrub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// What was looked at: a region of an object.
    pub object: ObjectId,
    /// See `object`.
    pub region: u32,
    /// Bytes that were read.
    pub bytes: u64,
    /// Bad blocks in it, by index in the object.
    pub bad: Vec<u64>,
}

/// The regions that bytes `start..end` of an object touch.
pub fn regions_of(start: u64, end: u64) -> Range<u32> {
    let region = |at: u64| u32::try_from(at / REGION_BYTES).unwrap_or(u32::MAX);
    if start >= end {
        return 0..0;
    }
    region(start)..region(end - 1).saturating_add(1)
}

struct Inner {
    env: Env,
    dir: PathBuf,
    identity: Cell<Identity>,
    objects: Objects,
    modified: Modified,
    losses: Losses,
    is_intact: Cell<bool>,
    /// On the directory.
    _lock: Lock,
}

/// The objects of one data server. Cloning shares it.
#[derive(Clone)]
pub struct Store(Rc<Inner>);

impl Store {
    /// Opens the store in `dir`, which is made one if it is empty or not there, whoever expects it. As long as it is open
    /// `dir` is locked.
    ///
    /// # Errors
    /// As [`Directory::look`] and [`Directory::open`].
    pub async fn open(env: Env, dir: &Path, pair: PairId, member: Member) -> Result<Store> {
        Directory::look(env, dir, pair, member)
            .await?
            .open(None)
            .await
    }

    /// Opens the store that a directory holds.
    pub(crate) async fn of(env: Env, dir: &Path, identity: Identity, lock: Lock) -> Result<Store> {
        let objects = Objects::open(env.clone(), dir.join(OBJECTS))?;
        let modified = Modified::open(env.clone(), dir.to_owned(), identity.store_id).await?;
        let losses = Losses::open(env.clone(), dir, identity.store_id).await?;
        let boot = boot_of(&env);
        Ok(Store(Rc::new(Inner {
            losses,
            is_intact: Cell::new(boot != 0 && identity.boot == boot),
            env,
            dir: dir.to_owned(),
            identity: Cell::new(identity),
            objects,
            modified,
            _lock: lock,
        })))
    }

    /// Who this store is, and what [`Store::record_epoch`] noted last.
    pub fn identity(&self) -> Identity {
        self.0.identity.get()
    }

    /// The random id it got when it was made.
    pub fn store_id(&self) -> u128 {
        self.identity().store_id
    }

    /// The name space it belongs to, if it has been told.
    pub fn name_space(&self) -> Option<NameSpaceId> {
        self.identity().name_space
    }

    /// Notes the name space of a store that was made before there were such; stable when it returns.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn record_name_space(&self, name_space: NameSpaceId) -> Result<()> {
        let mut identity = self.identity();
        identity.name_space = Some(name_space);
        identity.save(&self.0.env, &self.0.dir).await?;
        self.0.identity.set(identity);
        Ok(())
    }

    /// The epoch recorded last.
    pub fn last_epoch(&self) -> Epoch {
        self.identity().last_epoch
    }

    /// What was recorded with [`Store::last_epoch`].
    pub fn was_serving(&self) -> bool {
        self.identity().was_serving
    }

    /// Notes the pair's epoch and whether this member is current in it; stable when it returns.
    ///
    /// # Errors
    /// [`Error::Io`]; the old record then stands, but the next start may find the new one.
    pub async fn record_epoch(&self, epoch: Epoch, serving: bool) -> Result<()> {
        self.record_state(epoch, None, serving, false).await
    }

    /// The same; the state's mode, if it knew this store; and whether this member serves alone without any session that may
    /// have gone on with what only the twin has.
    ///
    /// # Errors
    /// As [`Store::record_epoch`].
    pub async fn record_state(
        &self,
        epoch: Epoch,
        mode: Option<Mode>,
        serving: bool,
        settled: bool,
    ) -> Result<()> {
        let mut identity = self.identity();
        identity.last_epoch = epoch;
        identity.last_mode = mode;
        identity.was_serving = serving;
        identity.was_settled_alone = serving && settled;
        if serving {
            identity.boot = boot_of(&self.0.env);
        }
        identity.save(&self.0.env, &self.0.dir).await?;
        self.0.identity.set(identity);
        Ok(())
    }

    /// Draws the store's next life, or answers the one that was offered last and not taken; stable when it returns. Each life
    /// is one more than the one before in its upper 32 bits, and a random number below. Whoever the store belongs to notes
    /// it; then the store takes it ([`Store::take_life`]). So a store that comes with another life than was noted, and
    /// has not offered that, is an older copy of the one that did.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn offer_life(&self) -> Result<u64> {
        let mut identity = self.identity();
        if identity.offered == 0 {
            let count = (identity.life >> 32) + 1;
            let random = self.0.env.random() & u64::from(u32::MAX);
            identity.offered = count << 32 | random;
            identity.save(&self.0.env, &self.0.dir).await?;
            self.0.identity.set(identity);
        }
        Ok(identity.offered)
    }

    /// The offered life has been noted; stable when it returns.
    ///
    /// # Errors
    /// [`Error::Io`]; it is offered still.
    pub async fn take_life(&self) -> Result<()> {
        let mut identity = self.identity();
        if identity.offered != 0 {
            identity.life = std::mem::take(&mut identity.offered);
            identity.save(&self.0.env, &self.0.dir).await?;
            self.0.identity.set(identity);
        }
        Ok(())
    }

    /// Another number whenever something in the store has been changed, of which it says nothing more.
    pub fn changes(&self) -> u64 {
        self.0.objects.changes()
    }

    /// The last argument of [`Store::record_state`].
    pub fn was_settled_alone(&self) -> bool {
        self.identity().was_settled_alone
    }

    /// No power cut can have taken anything of what was written here since this member was current
    /// last.
    pub fn is_intact(&self) -> bool {
        self.0.is_intact.get()
    }

    /// This member is current now: what a power cut took before that has been replaced, and while this
    /// process lives there is no other. [`Store::record_state`] says so to the next one.
    pub fn became_current(&self) {
        self.0.is_intact.set(boot_of(&self.0.env) != 0);
    }

    /// Writes `payload` to `extents` of an object, one after the other; the object is made if it is
    /// not there. Extents may be in any order; where they overlap the later one stays.
    ///
    /// # Errors
    /// [`Error::BadBlocks`] if a block that is written in part is bad; [`Error::Io`]: any of the
    /// blocks may then hold the old content or the new. [`Error::TooLarge`], [`Error::Refused`].
    pub async fn write(&self, id: ObjectId, extents: &[Extent], payload: Bytes) -> Result<()> {
        let total: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
        if total != payload.len() as u64 {
            return Err(Error::Refused("the payload is not as long as the extents"));
        }
        let mut edits: Vec<Edit> = Vec::with_capacity(extents.len());
        let mut batches = Vec::new();
        let mut at = 0;
        let mut end = 0;
        for extent in extents {
            check_end(extent.offset, u64::from(extent.length))?;
            let data = payload.slice(at..at + extent.length as usize);
            at += extent.length as usize;
            if extent.offset < end {
                batches.push(std::mem::take(&mut edits));
            }
            end = extent.offset + u64::from(extent.length);
            edits.push(Edit {
                offset: extent.offset,
                data,
            });
        }
        batches.push(edits);
        let object = self.0.objects.existing_or_new(id).await?;
        for edits in batches {
            self.0.objects.write(&object, edits).await?;
        }
        Ok(())
    }

    /// Bytes `offset..offset + length` in order, in as many parts as it takes; cut at the end of the
    /// object. Holes read as zeros; an object that is not there is empty.
    ///
    /// # Errors
    /// [`Error::BadBlocks`], [`Error::Io`].
    pub async fn read(&self, id: ObjectId, offset: u64, length: u64) -> Result<Vec<Bytes>> {
        match self.0.objects.existing(id).await? {
            Some(object) => self.0.objects.read(&object, offset, length).await,
            None => Ok(Vec::new()),
        }
    }

    /// Drops everything from `offset` on; an object that ends before stays as it is. Needs no new
    /// space.
    ///
    /// # Errors
    /// [`Error::BadBlocks`] if the block at the cut is bad, [`Error::Io`].
    pub async fn truncate(&self, id: ObjectId, offset: u64) -> Result<()> {
        match self.0.objects.existing(id).await? {
            Some(object) => self.0.objects.truncate(&object, offset, false).await,
            None => Ok(()),
        }
    }

    /// Makes holes of byte ranges; the object's length stays.
    ///
    /// # Errors
    /// [`Error::BadBlocks`] if a block that is punched in part is bad, [`Error::Io`].
    pub async fn punch(&self, id: ObjectId, ranges: &[Range<u64>]) -> Result<()> {
        if let Some(object) = self.0.objects.existing(id).await? {
            for range in ranges {
                self.0.objects.punch(&object, range.clone()).await?;
            }
        }
        Ok(())
    }

    /// Removes an object; nothing if it is not there. Needs no new space.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn remove(&self, id: ObjectId) -> Result<()> {
        self.0.objects.remove(id)
    }

    /// Whether the object is there.
    pub fn exists(&self, id: ObjectId) -> bool {
        self.0.objects.contains(id)
    }

    /// Highest byte written + 1; 0 for an object that is not there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn length(&self, id: ObjectId) -> Result<u64> {
        let object = self.0.objects.existing(id).await?;
        Ok(object.map_or(0, |object| object.length()))
    }

    /// Where data is within `start..end`: at most `max` ranges.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn map(&self, id: ObjectId, start: u64, end: u64, max: usize) -> Result<Map> {
        let Some(object) = self.0.objects.existing(id).await? else {
            return Ok(Map::default());
        };
        let length = object.length();
        let mut map = Map {
            length,
            ..Map::default()
        };
        let end = end.min(length);
        let mut at = start;
        while at < end {
            // Not on through all of a long last range: who asks for few wants to know where they begin.
            if map.data.len() >= max {
                map.more = true;
                return Ok(map);
            }
            let group = at / BLOCK_BYTES / GROUP_BLOCKS;
            let group = self.0.objects.next_group(&object, group)?;
            for run in self.0.objects.written(&object, group).await? {
                let from = (run.start * BLOCK_BYTES).max(start);
                let to = (run.end * BLOCK_BYTES).min(end);
                if from >= to {
                    continue;
                }
                let count = map.data.len();
                match map.data.last_mut() {
                    Some(last) if last.end == from => last.end = to,
                    _ if count == max => {
                        map.more = true;
                        return Ok(map);
                    }
                    _ => map.data.push(from..to),
                }
                let blocks = to.div_ceil(BLOCK_BYTES) - from / BLOCK_BYTES;
                map.allocated += blocks * BLOCK_BYTES;
            }
            at = (group + 1) * GROUP_BLOCKS * BLOCK_BYTES;
        }
        Ok(map)
    }

    /// The first of these regions that may hold anything; their end if none does. The first one of
    /// them that is named holds something, or one close before it does.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn next_region(&self, id: ObjectId, regions: Range<u32>) -> Result<u32> {
        if regions.is_empty() {
            return Ok(regions.end);
        }
        let Some(object) = self.0.objects.existing(id).await? else {
            return Ok(regions.end);
        };
        let group = u64::from(regions.start) * REGION_BLOCKS / GROUP_BLOCKS;
        let group = self.0.objects.next_group(&object, group)?;
        let first = group * GROUP_BLOCKS;
        if first * BLOCK_BYTES >= object.length() {
            return Ok(regions.end);
        }
        let region = u32::try_from(first / REGION_BLOCKS).unwrap_or(u32::MAX);
        Ok(region.clamp(regions.start, regions.end))
    }

    /// Makes objects, and their removal, survive a power cut.
    ///
    /// # Errors
    /// [`Error::Io`]: what was written to the object since its last sync must be taken as lost. If the disk
    /// failed, every later sync of this store fails as well.
    pub async fn sync(&self, ids: &[ObjectId]) -> Result<()> {
        let all = stream::iter(ids.iter().map(|id| Ok(*id)));
        let sync = |id| self.0.objects.sync(id);
        all.try_for_each_concurrent(SYNCS, sync).await
    }

    /// Makes all creations and removals of objects so far survive a power cut.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn sync_names(&self) -> Result<()> {
        let all = stream::iter(self.0.objects.unsynced().into_iter().map(Ok));
        let sync = |number| self.0.objects.sync_names_in(number);
        all.try_for_each_concurrent(SYNCS, sync).await
    }

    /// Checksums of a region of an object, from what its blocks hold now.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn checksums(&self, id: ObjectId, region: u32) -> Result<RegionSums> {
        let Some(object) = self.0.objects.existing(id).await? else {
            return Ok(RegionSums::default());
        };
        let first = u64::from(region) * REGION_BLOCKS;
        let checksums = self.sums(&object, first).await?;
        Ok(RegionSums {
            bad: bad_blocks(first, &checksums),
            checksums,
            length: object.length(),
            exists: true,
        })
    }

    async fn sums(&self, object: &Object, first: u64) -> Result<Vec<u32>> {
        let blocks = first..first + REGION_BLOCKS;
        self.0.objects.sums(object, blocks).await
    }

    /// What these blocks (by index in the object, ascending) hold. Blocks past the end are holes.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Refused`] if they do not ascend.
    pub async fn fetch(&self, id: ObjectId, blocks: &[u64]) -> Result<Vec<Fetched>> {
        check_blocks(blocks)?;
        match self.0.objects.existing(id).await? {
            Some(object) => self.0.objects.fetch(&object, blocks).await,
            None => Ok(vec![Fetched::Hole; blocks.len()]),
        }
    }

    /// Makes an object equal to the twin's copy, or a part of it. With a length it changes
    /// everything behind that; the caller sees to it that nobody writes there meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::TooLarge`]; [`Error::Refused`] if the payload does not fit the
    /// blocks, or they do not ascend.
    pub async fn fill(&self, id: ObjectId, fill: &Fill) -> Result<()> {
        if !fill.exists {
            return self.0.objects.remove(id);
        }
        check_blocks(&fill.blocks)?;
        check_blocks(&fill.holes)?;
        if fill.payload.len() != fill.blocks.len() * PAGE {
            return Err(Error::Refused("the payload is not as long as the blocks"));
        }
        check_end(fill.length.unwrap_or(0), 0)?;
        let object = self.0.objects.existing_or_new(id).await?;
        let objects = &self.0.objects;
        let until = fill.length.unwrap_or(object.length());
        objects
            .replace(&object, &fill.blocks, &fill.payload, until)
            .await?;
        let end = object.length().div_ceil(BLOCK_BYTES);
        let holes = &fill.holes[..fill.holes.partition_point(|&block| block < end)];
        objects.punch_list(&object, holes).await?;
        // Without a length it is as long as it is by now: others may be writing behind these blocks.
        if let Some(length) = fill.length {
            objects.truncate(&object, length, true).await?;
            objects.extend(&object, length).await?;
        }
        Ok(())
    }

    /// Up to `max` objects after `after`, in order, with their lengths.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn list(&self, after: Option<ObjectId>, max: usize) -> Result<Vec<(ObjectId, u64)>> {
        let mut listed = Vec::new();
        for id in self.0.objects.after(after, max) {
            // It may be removed while this waits.
            if let Some(object) = self.0.objects.existing(id).await? {
                listed.push((id, object.length()));
            }
        }
        Ok(listed)
    }

    /// Room in the store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn space(&self) -> Result<Space> {
        let dir = &self.0.dir;
        let space = self.0.env.space(dir).context("ask for the space of", dir)?;
        Ok(Space {
            total: space.total,
            free: space.free,
            objects: self.0.objects.count() as u64,
        })
    }

    // ---- the modified list ----

    /// Puts regions in the modified list. When it returns the mark survives a kill (with `durable`
    /// a power cut), and the write that it announces may start. Costs nothing for regions that are
    /// in the list, or left it a short while ago.
    ///
    /// # Errors
    /// [`Error::Io`]: the write must not start. With [`Purpose::Free`] a full disk is no error.
    pub async fn mark(
        &self,
        id: ObjectId,
        regions: Range<u32>,
        purpose: Purpose,
        durable: bool,
    ) -> Result<()> {
        self.0.modified.mark(id, regions, purpose, durable).await
    }

    /// Takes regions out of the list: both members hold the same. Takes effect on disk some time
    /// later ([`Store::tidy`]).
    pub fn clear(&self, id: ObjectId, regions: Range<u32>) {
        self.0.modified.clear(id, regions);
    }

    /// Up to `max` objects of the list after `after`, in order, with their regions.
    pub fn dirty(&self, after: Option<ObjectId>, max: usize) -> Vec<DirtyObject> {
        self.0.modified.dirty(after, max)
    }

    /// The regions of one object that are in the list.
    pub fn dirty_regions(&self, id: ObjectId) -> Vec<Range<u32>> {
        self.0.modified.regions(id)
    }

    /// Those of these regions of one object that are in the list.
    pub fn dirty_within(&self, id: ObjectId, regions: Range<u32>) -> Vec<Range<u32>> {
        self.0.modified.dirty_within(id, regions)
    }

    /// Whether a region is in the list.
    pub fn is_dirty(&self, id: ObjectId, region: u32) -> bool {
        self.0.modified.is_dirty(id, region)
    }

    /// How many objects the list names.
    pub fn dirty_count(&self) -> usize {
        self.0.modified.objects()
    }

    /// How many regions are in the list.
    pub fn dirty_region_count(&self) -> u64 {
        self.0.modified.region_count()
    }

    /// The list was damaged on disk: everything may differ from the twin, objects that only the twin
    /// has among it. [`Store::dirty`] then names only what was marked since.
    pub fn everything_dirty(&self) -> bool {
        self.0.modified.everything()
    }

    /// After everything has been compared: from now on the list is again what [`Store::dirty`] says.
    pub fn clear_everything(&self) {
        self.0.modified.clear_everything();
    }

    /// Housekeeping of the modified list. The data server calls it about once a second.
    ///
    /// # Errors
    /// [`Error::Io`]; no mark is lost, and the next call tries again.
    pub async fn tidy(&self) -> Result<()> {
        self.0.modified.tidy().await
    }

    // ---- losses ----

    /// The first range that is lost and shares a byte with `range`.
    pub fn lost_within(&self, id: ObjectId, range: Range<u64>) -> Option<Range<u64>> {
        self.0.losses.within(id, range)
    }

    /// Whether anything is lost.
    pub fn has_losses(&self) -> bool {
        !self.0.losses.is_empty()
    }

    /// What is lost, of one object or of all, in order.
    pub fn losses(&self, of: Option<ObjectId>) -> Vec<Loss> {
        self.0.losses.all(of)
    }

    /// Notes what is lost; what is noted already stays as it is. Survives a power cut when it
    /// returns. At most [`crate::LOSSES_MAX`] ranges are told apart.
    ///
    /// # Errors
    /// [`Error::Io`]: then nothing is noted, but the next start may find it, unless another change of
    /// the losses succeeds before.
    pub async fn note_losses(&self, losses: &[Loss]) -> Result<()> {
        self.0.losses.add(losses).await
    }

    /// These bytes are no longer lost; nothing if they are not. Survives a power cut when it returns.
    ///
    /// # Errors
    /// [`Error::Io`]: then they are still lost, but the next start may find that they are not, unless
    /// another change of the losses succeeds before.
    pub async fn clear_losses(&self, id: ObjectId, ranges: &[Range<u64>]) -> Result<()> {
        self.0.losses.clear(id, ranges).await
    }

    /// Takes over the twin's losses in place of its own.
    ///
    /// # Errors
    /// As [`Store::clear_losses`].
    pub async fn replace_losses(&self, losses: Vec<Loss>) -> Result<()> {
        self.0.losses.replace(losses).await
    }

    /// What is lost now nobody can bring back any more.
    ///
    /// # Errors
    /// As [`Store::clear_losses`].
    pub async fn give_up_losses(&self) -> Result<()> {
        self.0.losses.give_up().await
    }

    // ---- scrubbing ----

    /// Where the next step of a scrub looks, so that the caller can lock that region; `None` behind
    /// the last object, and the cursor is at the start again. Regions that hold nothing are passed by.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub async fn scrub_next(&self, cursor: &mut ScrubCursor) -> Result<Option<(ObjectId, u32)>> {
        loop {
            if let Some(id) = cursor.object {
                let end = regions_of(0, self.length(id).await?).end.max(cursor.region);
                let next = self.next_region(id, cursor.region..end).await?;
                cursor.passed += u64::from(next - cursor.region) * REGION_BYTES;
                cursor.region = next;
                if next < end {
                    return Ok(Some((id, next)));
                }
            }
            cursor.region = 0;
            cursor.object = self.0.objects.after(cursor.object, 1).first().copied();
            if cursor.object.is_none() {
                *cursor = ScrubCursor::default();
                return Ok(None);
            }
        }
    }

    /// Reads one region (at most [`REGION_BYTES`]) and moves the cursor behind it; `None` behind the
    /// last object, and the cursor is at the start again. The caller bounds the rate.
    ///
    /// # Errors
    /// [`Error::Io`]; the cursor has moved past the region.
    pub async fn scrub_step(&self, cursor: &mut ScrubCursor) -> Result<Option<Scrubbed>> {
        let Some((object, region)) = self.scrub_next(cursor).await? else {
            return Ok(None);
        };
        cursor.region += 1;
        let sums = self.checksums(object, region).await?;
        Ok(Some(Scrubbed {
            object,
            region,
            bytes: sums.checksums.len() as u64 * BLOCK_BYTES,
            bad: sums.bad,
        }))
    }
}

fn bad_blocks(first: u64, checksums: &[u32]) -> Vec<u64> {
    (first..)
        .zip(checksums)
        .filter(|(_, sum)| **sum == LOST)
        .map(|(block, _)| block)
        .collect()
}

fn check_end(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= OBJECT_BYTES_MAX => Ok(()),
        _ => Err(Error::TooLarge { offset }),
    }
}

fn check_blocks(blocks: &[u64]) -> Result<()> {
    if !blocks.is_sorted_by(|a, b| a < b) {
        return Err(Error::Refused("the blocks do not ascend"));
    }
    match blocks.last() {
        Some(&last) if last >= OBJECT_BYTES_MAX / BLOCK_BYTES => Err(Error::TooLarge {
            offset: last.saturating_mul(BLOCK_BYTES),
        }),
        _ => Ok(()),
    }
}
