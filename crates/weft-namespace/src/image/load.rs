//! Reading an image: each record is checked by itself when it comes; [`super::check`] then sees
//! whether they make a name space together.

use super::{Digest, ImageError, VERSION, check};
use crate::directory::{Directory, EffectivePolicy, FIRST_COOKIE};
use crate::inode::{Body, File, Inode, Stamp};
use crate::layouts::{Shape, WIDTH_MAX, stripe_unit};
use crate::locks::{Owner, Range};
use crate::moves::Move;
use crate::names::Name;
use crate::opens::{OPENS_MAX, Opened};
use crate::ops::{self, setxattr};
use crate::parts::{Foreign, Prepared, transaction_of};
use crate::sessions::{REPLIES_MAX, SESSION_NAME_MAX, Session};
use crate::slots::{Arriving, Attempt, Given, SlotSet, slot_of};
use crate::spread::Role;
use crate::state::{Floors, Life, Removed, State, Trim};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::rc::Rc;
use weft_types::{
    Epoch, FILE_BYTES_MAX, GroupId, INO_COUNTER_BITS, Ino, Member, ObjectId, Operation, PairId,
    SLOTS, SessionId, Slot, TARGET_MAX,
};
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::image_record::Record;
use weft_wire::proto::job::What;
use weft_wire::proto::{
    self, Durability, FileKind, ImagePart, ImageRecord, ImageSession, PairState, Policy, Protocol,
};

/// No counter comes here in the lifetime of a name space, so that counting on never overflows.
const COUNTER_MAX: u64 = 1 << 62;
/// Files have contents left to be given.
const GENERATION_FLOOR_MAX: u32 = u32::MAX - (1 << 24);

/// What is wrong with a record.
pub(super) type Wrong = String;

macro_rules! demand {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(format!($($what)*));
        }
    };
}
pub(super) use demand;

/// Takes an image record by record: `push` each, then `finish`.
#[derive(Clone)]
pub struct Loader {
    pub(super) state: State,
    digest: Digest,
    records: u64,
    shapes: Vec<Rc<Shape>>,
    /// Entries of inodes of other groups.
    foreign_names: BTreeMap<Ino, u32>,
    /// Entries of inodes of this group in directories of its other slots; those of directories, too.
    named_elsewhere: BTreeMap<Ino, u32>,
    /// The last record, once it has come.
    end: Option<proto::ImageEnd>,
}

/// What has been loaded is told by its digest.
impl PartialEq for Loader {
    fn eq(&self, other: &Loader) -> bool {
        self.progress() == other.progress()
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loader({:?})", self.progress())
    }
}

impl Default for Loader {
    fn default() -> Loader {
        Loader::new()
    }
}

impl Loader {
    /// Nothing read yet.
    pub fn new() -> Loader {
        Loader {
            state: State::empty(),
            digest: Digest::new(),
            records: 0,
            shapes: Vec::new(),
            foreign_names: BTreeMap::new(),
            named_elsewhere: BTreeMap::new(),
            end: None,
        }
    }

    /// Takes the next record. After an error the loader is of no use any more.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        let malformed = |record, what| ImageError::Malformed { record, what };
        let at = self.records;
        let record = ImageRecord::decode(bytes)
            .map_err(|error| malformed(at, error.to_string()))?
            .record
            .ok_or_else(|| malformed(at, "a record of no known kind".into()))?;
        if self.end.is_some() {
            return Err(malformed(at, "a record after the last one".into()));
        }
        match (&record, at) {
            (Record::Header(header), 0) if header.version != VERSION => {
                return Err(ImageError::Version {
                    found: header.version,
                });
            }
            (Record::Header(_), 0) => {}
            (_, 0) => return Err(malformed(at, "the first record is no header".into())),
            _ => {}
        }
        if let Record::End(end) = record {
            self.end = Some(end);
            return Ok(());
        }
        self.digest.add(bytes);
        self.records += 1;
        self.take(record, at).map_err(|what| malformed(at, what))
    }

    /// Records that have come, but the last one, and the digest of them.
    pub(crate) fn progress(&self) -> (u64, u128) {
        let is_whole = u64::from(self.end.is_some());
        (self.records + is_whole, self.digest.finish())
    }

    /// The state, if all of the image has come and makes sense.
    pub fn finish(self) -> Result<State, ImageError> {
        let records = self.records;
        let mut state = self.finish_known()?;
        check::whole(&mut state).map_err(|what| ImageError::Malformed {
            record: records,
            what,
        })?;
        Ok(state)
    }

    /// The state, if all of an image has come that was written of a state of this group: that its records make
    /// a name space together is not looked at anew, for that takes long.
    pub(crate) fn finish_known(mut self) -> Result<State, ImageError> {
        let records = self.records;
        let Some(end) = self.end else {
            return Err(ImageError::CutOff { records });
        };
        if end.records != records {
            let what = format!("{} records were written, {records} read", end.records);
            return Err(ImageError::Malformed {
                record: records,
                what,
            });
        }
        let expected = u128::from(end.digest_high) << 64 | u128::from(end.digest_low);
        let found = self.digest.finish();
        if expected != found {
            return Err(ImageError::Digest { expected, found });
        }
        for (ino, foreign) in &mut self.state.foreign {
            foreign.names = self.foreign_names.get(ino).copied().unwrap_or(0);
        }
        let mut strays = self.named_elsewhere;
        let inodes = &self.state.inodes;
        strays.retain(|ino, _| inodes.get(ino).is_some_and(|it| !it.is_directory()));
        self.state.strays = strays;
        Ok(self.state)
    }

    fn take(&mut self, record: Record, at: u64) -> Result<(), Wrong> {
        match record {
            Record::Header(header) => {
                demand!(at == 0, "a second header");
                let counters = [header.next_session, header.next_trim, header.next_deletion];
                let counts = |next: &u64| (1..COUNTER_MAX).contains(next);
                demand!(counters.iter().all(counts), "a counter that cannot be");
                self.state.reign = Epoch(header.reign);
                self.state.next_session = header.next_session;
                self.state.next_trim = header.next_trim;
                self.state.next_deletion = header.next_deletion;
                demand!(
                    header.last_job < COUNTER_MAX,
                    "a number of jobs that cannot be"
                );
                self.state.last_job = header.last_job;
                demand!(header.ino_floor < COUNTER_MAX, "a floor that cannot be");
                self.state.floors = Floors {
                    ino: header.ino_floor,
                    generation: header.generation_floor,
                    forced: header.skipped_forced,
                };
                self.place(&header)
            }
            Record::Pair(pair) => self.pair(pair),
            Record::Slot(slot) => self.slot(slot),
            Record::Session(session) => self.session(session),
            Record::Reply(reply) => self.reply(reply),
            Record::Shape(shape) => self.shape(shape),
            Record::Inode(inode) => self.inode(inode),
            Record::Entries(entries) => self.entries(entries),
            Record::Xattr(xattr) => self.xattr(xattr),
            Record::Lock(lock) => self.lock(lock),
            Record::Open(open) => self.open(open),
            Record::Deletion(deletion) => self.deletion(deletion),
            Record::Job(job) => self.job(job),
            Record::Move(copy) => self.copy(&copy),
            Record::RemovedPair(removed) => self.removed_pair(removed),
            Record::RetiredStore(retired) => self.retired_store(retired),
            Record::Life(life) => self.life(life),
            Record::Foreign(foreign) => self.foreign(foreign),
            Record::Prepared(prepared) => self.prepared(prepared),
            Record::Decided(decided) => self.decided(&decided),
            Record::Checkpoints(checkpoints) => self.checkpoints(checkpoints),
            Record::Checkpoint(checkpoint) => self.checkpoint(checkpoint),
            Record::Cut(cut) => self.cut(cut),
            Record::Held(held) => self.held(held),
            Record::Given(given) => self.given(&given),
            Record::Arriving(arriving) => self.arriving(&arriving),
            Record::Piece(piece) => self.piece(piece),
            Record::End(_) => Err("an end inside".into()),
        }
    }

    fn place(&mut self, header: &proto::ImageHeader) -> Result<(), Wrong> {
        demand!(header.group < u32::from(SLOTS), "group {}", header.group);
        self.state.group = GroupId(header.group);
        if header.has_no_slots {
            demand!(header.slots.is_empty(), "no slots, and some");
            self.state.slots = SlotSet::none();
            return Ok(());
        }
        if header.slots.is_empty() {
            demand!(header.group == 0, "a group without slots");
            return Ok(());
        }
        let slots = SlotSet::of_ranges(&header.slots);
        self.state.slots = slots.ok_or("slots that cannot be")?;
        Ok(())
    }

    fn foreign(&mut self, record: proto::ImageForeign) -> Result<(), Wrong> {
        let ino = Ino(record.ino);
        let kind = FileKind::try_from(record.kind).unwrap_or_default();
        demand!(
            kind != FileKind::Unspecified && !self.state.slots.has(ino.slot()),
            "inode {ino} of another group makes no sense"
        );
        // Names are counted once all are there.
        let foreign = Foreign { kind, names: 0 };
        let double = self.state.foreign.insert(ino, foreign);
        demand!(double.is_none(), "inode {ino} of another group twice");
        Ok(())
    }

    fn prepared(&mut self, record: proto::ImagePrepared) -> Result<(), Wrong> {
        let id = transaction_of(record.transaction.as_ref());
        let id = id.filter(|id| id.home != self.state.group);
        let id = id.ok_or("a transaction of another group that cannot be")?;
        let mut parts = Vec::new();
        for ImagePart { part, time } in record.parts {
            let part = part.ok_or("no part of a transaction")?;
            let time = time.as_ref().and_then(Stamp::new);
            let time = time.ok_or("a part without a time")?;
            demand!(
                self.state.locked.against(&part, id).is_none(),
                "two transactions have locked the same"
            );
            self.state.locked.lock(&part, id);
            parts.push(Prepared { part, time });
        }
        demand!(!parts.is_empty(), "transaction {id} without parts");
        let double = self.state.prepared.insert(id, parts);
        demand!(double.is_none(), "transaction {id} twice");
        Ok(())
    }

    fn decided(&mut self, record: &proto::ImageDecided) -> Result<(), Wrong> {
        let id = transaction_of(record.transaction.as_ref());
        let id = id.filter(|id| id.home == self.state.group);
        let id = id.ok_or("a transaction that cannot be")?;
        let others = record.others.iter().map(|group| GroupId(*group)).collect();
        demand!(!record.others.is_empty(), "of {id} all have heard");
        let double = self.state.decided.insert(id, others);
        demand!(double.is_none(), "transaction {id} twice");
        Ok(())
    }

    fn given(&mut self, record: &proto::Give) -> Result<(), Wrong> {
        let slot = slot_of(record.slot).filter(|slot| !self.state.slots.has(*slot));
        let attempt = Attempt::of(record.attempt.as_ref());
        let is_other = record.to != self.state.group.0 && record.to < u32::from(SLOTS);
        let (Some(slot), Some(attempt), true) = (slot, attempt, is_other) else {
            return Err(format!("slot {} cannot have been given", record.slot));
        };
        let to = GroupId(record.to);
        let double = self.state.given.insert(slot, Given { to, attempt });
        demand!(double.is_none(), "slot {slot} was given twice");
        Ok(())
    }

    fn arriving(&mut self, record: &proto::ImageArriving) -> Result<(), Wrong> {
        let slot = slot_of(record.slot).filter(|slot| !self.state.slots.has(*slot));
        let attempt = Attempt::of(record.attempt.as_ref());
        let is_other = record.from != self.state.group.0 && record.from < u32::from(SLOTS);
        let (Some(slot), Some(attempt), true) = (slot, attempt, is_other) else {
            return Err(format!("slot {} cannot be received", record.slot));
        };
        demand!(record.next < COUNTER_MAX, "a counter that cannot be");
        let mut arriving = Arriving::new(GroupId(record.from), attempt);
        arriving.next = record.next;
        let double = self.state.arriving.insert(slot, arriving);
        demand!(double.is_none(), "slot {slot} is received twice");
        Ok(())
    }

    fn piece(&mut self, record: proto::ImagePiece) -> Result<(), Wrong> {
        let slot = slot_of(record.slot).unwrap_or_default();
        let arriving = self.state.arriving.get_mut(&slot);
        let arriving = arriving.ok_or_else(|| format!("a piece of slot {slot}"))?;
        let piece = record.piece.ok_or("no piece of a slot")?;
        let key = Arriving::key(slot, &piece).ok();
        let key = key.filter(|_| !piece.content.is_empty());
        let key = key.ok_or_else(|| format!("a piece of slot {slot} that cannot be"))?;
        let double = arriving.pieces.insert(key, piece.content[..].into());
        demand!(double.is_none(), "a piece of slot {slot} twice");
        Ok(())
    }

    // ---- one slot, as another group has sent it ----

    /// Takes records in that belong to a part of a name space.
    pub(crate) fn of_part(state: State) -> Loader {
        Loader {
            state,
            ..Loader::new()
        }
    }

    /// What the numbers of the slot's inodes, and of its trimmings, are below.
    pub(crate) fn begin_part(&mut self, slot: Slot, head: &proto::SlotHead) -> Result<(), Wrong> {
        demand!(
            (1..COUNTER_MAX).contains(&head.next_trim),
            "a counter that cannot be"
        );
        demand!(
            head.generation_floor <= GENERATION_FLOOR_MAX,
            "a floor of generations that cannot be"
        );
        self.state.next_trim = head.next_trim;
        self.state.floors.generation = head.generation_floor;
        match head.next_counter {
            0 => Ok(()),
            next_counter => self.slot(proto::ImageSlot {
                slot: u32::from(slot.0),
                next_counter,
            }),
        }
    }

    /// A session that has something in the slot.
    pub(crate) fn guest(&mut self, id: SessionId, session: Session) {
        self.state.sessions.entry(id).or_insert(session);
    }

    /// An inode that entries of the slot name; it may have been told before.
    pub(crate) fn elsewhere(&mut self, record: proto::ImageForeign) -> Result<(), Wrong> {
        match self.state.foreign.get(&Ino(record.ino)) {
            Some(known) => {
                demand!(
                    known.kind as i32 == record.kind,
                    "inode {} is of two kinds",
                    record.ino
                );
                Ok(())
            }
            None => self.foreign(record),
        }
    }

    /// Takes a record in.
    pub(crate) fn add(&mut self, record: Record) -> Result<(), Wrong> {
        self.records += 1;
        self.take(record, self.records)
    }

    /// The part, if all of it makes sense.
    pub(crate) fn into_part(mut self) -> Result<State, Wrong> {
        check::whole(&mut self.state)?;
        Ok(self.state)
    }

    fn pair(&mut self, pair: PairState) -> Result<(), Wrong> {
        demand!(
            pair.epoch > 0 && ops::pairs::is_valid(&pair),
            "no state of a pair"
        );
        let double = self.state.pairs.insert(PairId(pair.pair), pair);
        demand!(double.is_none(), "pair {} twice", pair.pair);
        Ok(())
    }

    fn slot(&mut self, slot: proto::ImageSlot) -> Result<(), Wrong> {
        demand!(slot.slot < u32::from(SLOTS), "slot {}", slot.slot);
        demand!(
            (2..=1 << INO_COUNTER_BITS).contains(&slot.next_counter),
            "counter {} of a slot",
            slot.next_counter
        );
        let double = self
            .state
            .counters
            .insert(Slot(slot.slot as u16), slot.next_counter);
        demand!(double.is_none(), "slot {} twice", slot.slot);
        Ok(())
    }

    fn session(&mut self, record: ImageSession) -> Result<(), Wrong> {
        let id = SessionId(record.session);
        demand!(
            id.0 > 0 && (id.0 < self.state.next_session || self.state.is_guest(id)),
            "session {id} was never given"
        );
        demand!(
            record.name.len() <= SESSION_NAME_MAX,
            "the name of session {id} is too long"
        );
        let mut session = Session::new(&record.name);
        session.acknowledged_below = Operation(record.acknowledged_below);
        session.keep_ms = record.keep_ms;
        session.term_ms = record.term_ms;
        session.is_ended = record.is_ended;
        session.only_moves = record.only_moves;
        demand!(
            self.state.sessions.insert(id, session).is_none(),
            "session {id} twice"
        );
        Ok(())
    }

    fn reply(&mut self, record: proto::ImageReply) -> Result<(), Wrong> {
        let (id, operation) = (SessionId(record.session), Operation(record.operation));
        let session = self.state.sessions.get_mut(&id);
        let session = session.ok_or_else(|| format!("a reply of unknown session {id}"))?;
        demand!(
            operation.0 > 0 && operation >= session.acknowledged_below,
            "a reply that session {id} has acknowledged"
        );
        demand!(
            session.replies().len() < REPLIES_MAX,
            "too many replies of session {id}"
        );
        demand!(
            session.answered(operation).is_none(),
            "two replies to operation {operation} of session {id}"
        );
        let restored = session.restore_reply(operation, &record.reply);
        restored.map_err(|error| Wrong::from(format!("a reply: {error}")))
    }

    fn shape(&mut self, record: proto::ImageShape) -> Result<(), Wrong> {
        demand!(
            record.number as usize == self.shapes.len(),
            "shape {} out of turn",
            record.number
        );
        let layout = record.layout.ok_or("a shape without layout")?;
        demand!(layout.generation == 0, "a shape with a generation");
        demand!(
            (1..=WIDTH_MAX as usize).contains(&layout.pairs.len()),
            "a layout over {} pairs",
            layout.pairs.len()
        );
        for (i, pair) in layout.pairs.iter().enumerate() {
            demand!(
                self.state.pairs.contains_key(&PairId(*pair)),
                "unknown pair {pair}"
            );
            demand!(
                !layout.pairs[..i].contains(pair),
                "pair {pair} twice in a layout"
            );
        }
        let (protocol, durability) = protocol_and_durability(layout.protocol, layout.durability)?;
        let shape = Shape {
            stripe_unit: stripe_unit(layout.stripe_unit).ok_or("no stripe unit")?,
            pairs: layout.pairs.iter().map(|pair| PairId(*pair)).collect(),
            protocol,
            durability,
        };
        demand!(
            self.shapes.iter().all(|known| **known != shape),
            "a shape twice"
        );
        self.shapes.push(self.state.shapes.intern(shape));
        Ok(())
    }

    fn inode(&mut self, record: proto::ImageInode) -> Result<(), Wrong> {
        let ino = Ino(record.ino);
        let counter = ino.0 & ((1 << INO_COUNTER_BITS) - 1);
        let next = self.state.counters.get(&ino.slot()).copied().unwrap_or(0);
        demand!((1..next).contains(&counter), "inode {ino} was never given");
        demand!(!self.state.inodes.contains_key(&ino), "inode {ino} twice");
        demand!(record.mode <= 0o7777, "the mode of inode {ino}");
        demand!(
            record.change < COUNTER_MAX,
            "the change counter of inode {ino}"
        );
        let body = self.body(ino, &record)?;
        let stamp = |time: Option<proto::Time>| {
            time.and_then(|t| Stamp::new(&t))
                .ok_or_else(|| format!("a time of inode {ino}"))
        };
        let inode = Inode {
            mode: record.mode as u16,
            nlink: record.nlink,
            uid: record.uid,
            gid: record.gid,
            atime: stamp(record.atime)?,
            mtime: stamp(record.mtime)?,
            ctime: stamp(record.ctime)?,
            change: record.change,
            body,
        };
        self.state.put_inode(ino, inode);
        self.state.note_splitting(ino);
        for holder in record.holders {
            let session = SessionId(holder);
            demand!(
                self.state.sessions.contains_key(&session),
                "unknown session {session} holds {ino}"
            );
            self.state.hold(ino, session);
        }
        if record.writer != 0 {
            let session = SessionId(record.writer);
            demand!(
                self.state.session_exists(session),
                "unknown session {session} writes {ino}"
            );
            demand!(
                record.exposed,
                "inode {ino} is being written but not exposed"
            );
            self.state.give_write_lease(ino, session);
        }
        for sharer in record.sharers {
            let session = SessionId(sharer);
            demand!(
                self.state.session_exists(session),
                "unknown session {session} writes {ino}"
            );
            demand!(
                record.exposed && record.writer == 0,
                "inode {ino} cannot be written by several"
            );
            self.state.share_write_lease(ino, session);
        }
        Ok(())
    }

    fn body(&mut self, ino: Ino, record: &proto::ImageInode) -> Result<Body, Wrong> {
        let kind = FileKind::try_from(record.kind).map_err(|_| format!("kind of inode {ino}"))?;
        let is_file = kind == FileKind::Regular;
        demand!(
            is_file || record.writer == 0 && record.sharers.is_empty(),
            "a write lease on {ino}, which is no file"
        );
        demand!(
            is_file || (record.trim_seq == 0 && record.reserved == 0),
            "a trim or a copy of {ino}, which is no file"
        );
        Ok(match kind {
            FileKind::Regular => {
                let shape = self.shapes.get(record.shape as usize);
                let shape = shape.ok_or_else(|| format!("the shape of inode {ino}"))?;
                demand!(record.size <= FILE_BYTES_MAX, "the size of inode {ino}");
                demand!(record.generation > 0, "the generation of inode {ino}");
                if record.trim_seq != 0 {
                    demand!(
                        record.exposed
                            && record.trim_seq < self.state.next_trim
                            && record.trim_from <= record.size,
                        "the trim of inode {ino}"
                    );
                    let trim = Trim {
                        seq: record.trim_seq,
                        from: record.trim_from,
                    };
                    self.state.trims.insert(ino, trim);
                }
                if record.reserved != 0 {
                    demand!(
                        record.reserved > record.generation,
                        "the reserved generation of inode {ino}"
                    );
                    self.state.reserved.insert(ino, record.reserved);
                }
                Body::File(File {
                    size: record.size,
                    allocated: record.allocated,
                    shape: Rc::clone(shape),
                    generation: record.generation,
                    exposed: record.exposed,
                })
            }
            FileKind::Directory => {
                let policy = policy(record.policy.as_ref().ok_or("a directory without policy")?)?;
                demand!(
                    record.next_cookie >= FIRST_COOKIE,
                    "the cookies of directory {ino}"
                );
                let mut directory = Directory::new(Ino(record.parent), policy);
                directory.set_next_cookie(record.next_cookie);
                directory.role = Role::of_image(&record.shards, record.border, record.shard)
                    .ok_or_else(|| format!("the shards of directory {ino}"))?;
                Body::Directory(Box::new(directory))
            }
            FileKind::Symlink => {
                let target = &record.target;
                demand!(
                    (1..=TARGET_MAX).contains(&target.len()) && !target.contains(&0),
                    "the target of symlink {ino}"
                );
                Body::Symlink(target[..].into())
            }
            FileKind::Fifo => Body::Fifo,
            FileKind::Socket => Body::Socket,
            FileKind::CharDevice => Body::CharDevice(record.rdev),
            FileKind::BlockDevice => Body::BlockDevice(record.rdev),
            FileKind::Unspecified => return Err(format!("inode {ino} without kind")),
        })
    }

    fn entries(&mut self, record: proto::ImageEntries) -> Result<(), Wrong> {
        let ino = Ino(record.directory);
        let counts = &mut self.state.counts;
        let directory = match self.state.inodes.get_mut(&ino).map(|inode| &mut inode.body) {
            Some(Body::Directory(directory)) => directory,
            _ => return Err(format!("entries of {ino}, which is no directory")),
        };
        for entry in &record.entries {
            let plain = matches!(Name::parse(&entry.name), Ok(Name::Plain(_)));
            let is_shard = directory.role.names(&entry.name) == Some(Ino(entry.ino));
            demand!(plain || is_shard, "a name in directory {ino}");
            let allowed = FIRST_COOKIE..directory.next_cookie();
            demand!(
                allowed.contains(&entry.cookie),
                "a cookie in directory {ino}"
            );
            demand!(
                directory
                    .last_cookie()
                    .is_none_or(|last| last < entry.cookie),
                "cookies out of order in directory {ino}"
            );
            demand!(
                directory.find(&entry.name).is_none(),
                "a name twice in directory {ino}"
            );
            directory.restore(entry.cookie, &entry.name, Ino(entry.ino));
            let named = Ino(entry.ino);
            if !self.state.slots.has(named.slot()) {
                *self.foreign_names.entry(named).or_default() += 1;
            } else if named.slot() != ino.slot() {
                *self.named_elsewhere.entry(named).or_default() += 1;
            }
            counts.inhabited += u64::from(directory.len() == 1);
            counts.entries += 1;
            counts.name_bytes += entry.name.len() as u64;
        }
        Ok(())
    }

    fn xattr(&mut self, record: proto::ImageXattr) -> Result<(), Wrong> {
        let ino = Ino(record.ino);
        demand!(
            self.state.inodes.contains_key(&ino),
            "an attribute of unknown inode {ino}"
        );
        demand!(
            setxattr::is_name(&record.name) && record.value.len() <= setxattr::XATTR_VALUE_MAX,
            "an attribute of inode {ino}"
        );
        let xattrs = self.state.xattrs.entry(ino).or_default();
        let double = xattrs.insert(record.name[..].into(), record.value[..].into());
        demand!(double.is_none(), "an attribute twice on inode {ino}");
        self.state.counts.xattrs += 1;
        self.state.counts.xattr_bytes += (record.name.len() + record.value.len()) as u64;
        Ok(())
    }

    fn lock(&mut self, record: proto::ImageLock) -> Result<(), Wrong> {
        let (ino, id) = (Ino(record.ino), SessionId(record.session));
        demand!(
            self.state.inodes.contains_key(&ino),
            "a lock on unknown inode {ino}"
        );
        let session = self.state.sessions.get_mut(&id);
        let session = session.ok_or_else(|| format!("a lock of unknown session {id}"))?;
        let lock = record.lock.ok_or("a lock without lock")?;
        let exclusive = match Kind::try_from(lock.kind) {
            Ok(Kind::Shared) => false,
            Ok(Kind::Exclusive) => true,
            _ => return Err(format!("the kind of a lock on {ino}")),
        };
        let whole = lock.start == 0 && lock.last == u64::MAX;
        demand!(
            lock.start <= lock.last && (whole || !lock.flock),
            "the range of a lock on {ino}"
        );
        let range = Range {
            start: lock.start,
            last: lock.last,
            owner: Owner {
                session: id,
                owner: lock.owner,
            },
            exclusive,
            pid: lock.pid,
            behalf: lock.behalf,
        };
        demand!(
            !session.is_ended || lock.behalf != 0,
            "a lock on {ino} of session {id}, which has ended"
        );
        session.locks.insert(ino);
        let fits = self
            .state
            .locks
            .entry(ino)
            .or_default()
            .restore(lock.flock, range);
        demand!(fits, "locks on {ino} that exclude each other");
        Ok(())
    }

    fn open(&mut self, record: proto::ImageOpen) -> Result<(), Wrong> {
        let id = SessionId(record.session);
        let open = record.open.ok_or("an open file without the file")?;
        let ino = Ino(open.ino);
        demand!(
            self.state.inodes.contains_key(&ino),
            "inode {ino}, which is open, is not there"
        );
        demand!(
            self.state.sessions.contains_key(&id),
            "{ino} is open in unknown session {id}"
        );
        let opened = Opened::new(&open).map_err(|_| format!("how {ino} is open"))?;
        let owner = Owner {
            session: id,
            owner: open.owner,
        };
        let known = self.state.opens.get(&ino);
        let fits = known.is_none_or(|opens| {
            opens.get(owner).is_none()
                && opens.len() < OPENS_MAX
                && !opens.is_excluded(owner, &opened)
        });
        demand!(
            fits && !opened.is_nothing(),
            "who has {ino} open exclude each other"
        );
        self.state.open_for(ino, owner, opened);
        Ok(())
    }

    fn deletion(&mut self, record: proto::ImageDeletion) -> Result<(), Wrong> {
        let id = record.queue_id;
        demand!(
            (1..self.state.next_deletion).contains(&id),
            "deletion {id} was never queued"
        );
        let pair = PairId(record.pair);
        demand!(
            self.state.pairs.contains_key(&pair),
            "a deletion on unknown pair {pair}"
        );
        let object = record.object.ok_or("a deletion without object")?;
        let object = ObjectId {
            ino: Ino(object.ino),
            generation: object.generation,
        };
        let double = self.state.deletions.insert(id, (pair, object));
        demand!(double.is_none(), "deletion {id} twice");
        Ok(())
    }

    fn job(&mut self, job: proto::Job) -> Result<(), Wrong> {
        let id = job.id;
        demand!(
            (1..=self.state.last_job).contains(&id),
            "job {id} was never begun"
        );
        demand!(
            job.files < COUNTER_MAX && job.started.is_some(),
            "the figures of job {id}"
        );
        match &job.what {
            Some(What::Drain(drain)) => demand!(
                job.ended.is_some() || self.state.pairs.contains_key(&PairId(drain.pair)),
                "job {id} drains unknown pair {}",
                drain.pair
            ),
            Some(What::Rebalance(_)) => {}
            Some(What::Relay(tree)) => {
                policy(tree.policy.as_ref().ok_or("a job without policy")?)?;
            }
            None => return Err(format!("job {id} has nothing to do")),
        }
        let double = self.state.jobs.insert(id, job);
        demand!(double.is_none(), "job {id} twice");
        self.state.note_draining();
        let (draining, pairs) = (self.state.draining.len(), self.state.pairs.len());
        demand!(draining == 0 || draining < pairs, "every pair is drained");
        Ok(())
    }

    fn copy(&mut self, record: &proto::ImageMove) -> Result<(), Wrong> {
        let (ino, session) = (Ino(record.ino), SessionId(record.session));
        demand!(
            self.state.session_exists(session),
            "unknown session {session} copies {ino}"
        );
        let layout = record.layout.as_ref().ok_or("a copy without layout")?;
        let shape = self.state.parse_layout(layout);
        let shape = shape.map_err(|_| format!("the layout of the copy of {ino}"))?;
        // Of a file that is gone nothing is left to compare with.
        let reserved = self.state.reserved.get(&ino).copied();
        let generation = self.state.file(ino).map(|(_, file)| file.generation).ok();
        demand!(
            layout.generation > record.from
                && generation.is_none_or(|own| reserved.unwrap_or(own) >= layout.generation),
            "the generation of the copy of {ino}"
        );
        let copy = Move {
            session,
            job: record.job,
            from: record.from,
            generation: layout.generation,
            shape: self.state.shapes.intern(shape),
        };
        let double = self.state.moves.insert(ino, copy);
        demand!(double.is_none(), "two copies of {ino}");
        Ok(())
    }

    fn removed_pair(&mut self, record: proto::ImageRemovedPair) -> Result<(), Wrong> {
        let pair = PairId(record.pair);
        demand!(
            !self.state.pairs.contains_key(&pair) && record.epoch < COUNTER_MAX,
            "pair {pair} is there and removed"
        );
        demand!(
            record.serving <= 1,
            "pair {pair} has no member {}",
            record.serving
        );
        let removed = Removed {
            epoch: Epoch(record.epoch),
            serving: record.serving,
            is_admitted: record.is_admitted,
        };
        let double = self.state.removed_pairs.insert(pair, removed);
        demand!(double.is_none(), "pair {pair} removed twice");
        Ok(())
    }

    fn retired_store(&mut self, record: proto::RetireStore) -> Result<(), Wrong> {
        let pair = PairId(record.pair);
        let member = Member::from_index(record.member);
        let (Some(member), Some(store)) = (member, NonZeroU64::new(record.store)) else {
            return Err(format!("a store of pair {pair} that was given up"));
        };
        demand!(
            self.state.pairs.contains_key(&pair),
            "a store of pair {pair}, which is not there, was given up"
        );
        let double = self.state.retired.insert((pair, member), store);
        demand!(
            double.is_none(),
            "two stores of member {member} of pair {pair} were given up"
        );
        Ok(())
    }

    fn life(&mut self, record: proto::NoteLife) -> Result<(), Wrong> {
        let pair = PairId(record.pair);
        let member = Member::from_index(record.member);
        let (Some(member), Some(store)) = (member, NonZeroU64::new(record.store)) else {
            return Err(format!("the life of a store of pair {pair}"));
        };
        let life = record.life;
        let double = self
            .state
            .lives
            .insert((pair, member), Life { store, life });
        demand!(
            double.is_none(),
            "two lives of member {member} of pair {pair}"
        );
        Ok(())
    }
}

fn protocol_and_durability(
    protocol: i32,
    durability: i32,
) -> Result<(Protocol, Durability), Wrong> {
    match (
        Protocol::try_from(protocol),
        Durability::try_from(durability),
    ) {
        (Ok(Protocol::Unspecified) | Err(_), _) => Err(format!("protocol {protocol}")),
        (_, Ok(Durability::Unspecified) | Err(_)) => Err(format!("durability {durability}")),
        (Ok(protocol), Ok(durability)) => Ok((protocol, durability)),
    }
}

fn policy(policy: &Policy) -> Result<EffectivePolicy, Wrong> {
    let (protocol, durability) = protocol_and_durability(policy.protocol, policy.durability)?;
    demand!(
        policy.width <= WIDTH_MAX,
        "a policy over {} pairs",
        policy.width
    );
    Ok(EffectivePolicy {
        stripe_unit: stripe_unit(policy.stripe_unit).ok_or("no stripe unit")?,
        width: policy.width,
        protocol,
        durability,
    })
}
