//! Writing an image: the walk over the state.

use super::{Digest, ENTRIES_MAX, VERSION};
use crate::inode::{Body, Inode};
use crate::layouts::Shape;
use crate::locks::Owner;
use crate::opens::Opened;
use crate::parts::transaction_to;
use crate::state::State;
use prost::Message;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_types::Ino;
use weft_wire::proto::image_record::Record;
use weft_wire::proto::{
    Give, ImageArriving, ImageDecided, ImageDeletion, ImageEnd, ImageEntries, ImageEntry,
    ImageForeign, ImageHeader, ImageInode, ImageLock, ImageMove, ImageOpen, ImagePart, ImagePiece,
    ImagePrepared, ImageRecord, ImageRemovedPair, ImageReply, ImageSession, ImageShape, ImageSlot,
    ImageXattr, NoteLife, ObjectName, RetireStore, SetOpen, SlotPiece,
};

/// The records of an image one after the other, for who cannot stop for all of them at once.
pub struct Records<'a> {
    rest: Box<dyn Iterator<Item = Record> + 'a>,
    buffer: Vec<u8>,
    digest: Digest,
    count: u64,
    ended: bool,
}

impl<'a> Records<'a> {
    pub(super) fn new(state: &'a State) -> Records<'a> {
        Records {
            rest: Box::new(walk(state)),
            buffer: Vec::new(),
            digest: Digest::new(),
            count: 0,
            ended: false,
        }
    }

    /// The next record, below 100 KiB; None after the last. (No iterator: it borrows what it answers.)
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<&[u8]> {
        if self.ended {
            return None;
        }
        let record = match self.rest.next() {
            Some(record) => record,
            None => {
                self.ended = true;
                let digest = self.digest.finish();
                Record::End(ImageEnd {
                    records: self.count,
                    digest_high: (digest >> 64) as u64,
                    digest_low: digest as u64,
                })
            }
        };
        self.buffer.clear();
        let record = ImageRecord {
            record: Some(record),
        };
        record
            .encode(&mut self.buffer)
            .expect("a Vec has room for every message");
        if !self.ended {
            self.digest.add(&self.buffer);
            self.count += 1;
        }
        Some(&self.buffer)
    }

    /// The digest of the state, once all records have been taken.
    pub fn digest(&self) -> u128 {
        self.digest.finish()
    }
}

/// All records but the last.
fn walk(state: &State) -> impl Iterator<Item = Record> + '_ {
    let header = Record::Header(ImageHeader {
        version: VERSION,
        reign: state.reign.0,
        next_session: state.next_session,
        next_trim: state.next_trim,
        next_deletion: state.next_deletion,
        last_job: state.last_job,
        group: state.group.0,
        slots: match state.slots.is_all() && state.group.0 == 0 {
            true => Vec::new(),
            false => state.slots.ranges(state.group.0),
        },
        has_no_slots: state.slots.is_empty(),
        ino_floor: state.floors.ino,
        generation_floor: state.floors.generation,
        skipped_forced: state.floors.forced,
    });
    let pairs = state.pairs.values().map(|pair| Record::Pair(*pair));
    let slots = state.counters.iter().map(|(slot, next_counter)| {
        Record::Slot(ImageSlot {
            slot: u32::from(slot.0),
            next_counter: *next_counter,
        })
    });
    std::iter::once(header)
        .chain(pairs)
        .chain(slots)
        .chain(sessions(state))
        .chain(inodes(state))
        .chain(locks(state))
        .chain(opens(state))
        .chain(deletions(state))
        .chain(jobs(state))
        .chain(transactions(state))
        .chain(super::checkpoints::records(state))
        .chain(slots_between(state))
}

fn sessions(state: &State) -> impl Iterator<Item = Record> + '_ {
    state.sessions.iter().flat_map(|(id, session)| {
        let head = Record::Session(ImageSession {
            session: id.0,
            name: session.name.clone(),
            acknowledged_below: session.acknowledged_below.0,
            keep_ms: session.keep_ms,
            term_ms: session.term_ms,
            is_ended: session.is_ended,
            only_moves: session.only_moves,
        });
        let replies = session.replies().map(|(operation, reply)| {
            Record::Reply(ImageReply {
                session: id.0,
                operation: operation.0,
                reply: reply.to_vec().into(),
            })
        });
        std::iter::once(head).chain(replies)
    })
}

fn locks(state: &State) -> impl Iterator<Item = Record> + '_ {
    state.locks.iter().flat_map(|(ino, locks)| {
        locks.iter().map(|(flock, range)| {
            Record::Lock(ImageLock {
                ino: ino.0,
                session: range.owner.session.0,
                lock: Some(range.to_proto(flock)),
            })
        })
    })
}

fn opens(state: &State) -> impl Iterator<Item = Record> + '_ {
    let opens = state.opens.iter();
    opens.flat_map(|(ino, opens)| {
        opens
            .iter()
            .map(|(owner, opened)| Record::Open(open_record(*ino, owner, &opened)))
    })
}

/// A file that a session has open on behalf of somebody.
pub(crate) fn open_record(ino: Ino, owner: Owner, opened: &Opened) -> ImageOpen {
    ImageOpen {
        session: owner.session.0,
        open: Some(SetOpen {
            ino: ino.0,
            owner: owner.owner,
            behalf: opened.behalf,
            access: opened.access,
            deny: opened.deny,
            kept: opened.kept,
            reclaim: false,
        }),
    }
}

fn deletions(state: &State) -> impl Iterator<Item = Record> + '_ {
    let deletions = state.deletions.iter();
    deletions.map(|(queue_id, (pair, object))| {
        Record::Deletion(ImageDeletion {
            queue_id: *queue_id,
            pair: pair.0,
            object: Some(ObjectName {
                ino: object.ino.0,
                generation: object.generation,
            }),
        })
    })
}

/// Jobs, the copies that are made for them, and the pairs that they have removed.
fn jobs(state: &State) -> impl Iterator<Item = Record> + '_ {
    let jobs = state.jobs.values().map(|job| Record::Job(*job));
    let moves = state.moves.iter().map(|(ino, copy)| {
        Record::Move(ImageMove {
            ino: ino.0,
            session: copy.session.0,
            job: copy.job,
            from: copy.from,
            layout: Some(copy.shape.to_proto(copy.generation)),
        })
    });
    let removed = state.removed_pairs.iter().map(|(pair, removed)| {
        Record::RemovedPair(ImageRemovedPair {
            pair: pair.0,
            epoch: removed.epoch.0,
            serving: removed.serving,
            is_admitted: removed.is_admitted,
        })
    });
    let retired = state.retired.iter().map(|((pair, member), store)| {
        Record::RetiredStore(RetireStore {
            pair: pair.0,
            member: member.index() as u32,
            store: store.get(),
        })
    });
    let lives = state.lives.iter().map(|((pair, member), known)| {
        Record::Life(NoteLife {
            pair: pair.0,
            member: member.index() as u32,
            store: known.store.get(),
            life: known.life,
        })
    });
    jobs.chain(moves).chain(removed).chain(retired).chain(lives)
}

/// What is between this group and others.
fn transactions(state: &State) -> impl Iterator<Item = Record> + '_ {
    let foreign = state.foreign.iter().map(|(ino, foreign)| {
        Record::Foreign(ImageForeign {
            ino: ino.0,
            kind: foreign.kind as i32,
        })
    });
    let prepared = state.prepared.iter().map(|(id, parts)| {
        let parts = parts.iter().map(|prepared| ImagePart {
            part: Some(prepared.part.clone()),
            time: Some(prepared.time.to_proto()),
        });
        Record::Prepared(ImagePrepared {
            transaction: Some(transaction_to(*id)),
            parts: parts.collect(),
        })
    });
    let decided = state.decided.iter().map(|(id, others)| {
        Record::Decided(ImageDecided {
            transaction: Some(transaction_to(*id)),
            others: others.iter().map(|group| group.0).collect(),
        })
    });
    foreign.chain(prepared).chain(decided)
}

/// Slots that were given, and slots that are received.
fn slots_between(state: &State) -> impl Iterator<Item = Record> + '_ {
    let given = state.given.iter().map(|(slot, given)| {
        Record::Given(Give {
            slot: u32::from(slot.0),
            to: given.to.0,
            attempt: Some(given.attempt.to_proto()),
        })
    });
    let arriving = state.arriving.iter().flat_map(|(slot, arriving)| {
        let slot = u32::from(slot.0);
        let head = Record::Arriving(ImageArriving {
            slot,
            from: arriving.from.0,
            attempt: Some(arriving.attempt.to_proto()),
            next: arriving.next,
        });
        let pieces = arriving.pieces.iter().map(move |(key, content)| {
            let piece = SlotPiece {
                ino: key.ino.0,
                part: key.part,
                content: content.to_vec().into(),
            };
            Record::Piece(ImagePiece {
                slot,
                piece: Some(piece),
            })
        });
        std::iter::once(head).chain(pieces)
    });
    given.chain(arriving)
}

fn inodes(state: &State) -> impl Iterator<Item = Record> + '_ {
    let mut shapes: BTreeMap<Rc<Shape>, u32> = BTreeMap::new();
    state.inodes.iter().flat_map(move |(ino, inode)| {
        let mut shape = 0;
        let mut new_shape = None;
        if let Body::File(file) = &inode.body {
            let next = shapes.len() as u32;
            shape = *shapes.entry(Rc::clone(&file.shape)).or_insert(next);
            if shape == next {
                let layout = Some(file.shape.to_proto(0));
                new_shape = Some(Record::Shape(ImageShape {
                    number: next,
                    layout,
                }));
            }
        }
        let record = Record::Inode(inode_record(state, *ino, inode, shape));
        let xattrs = state.xattrs.get(ino).into_iter().flatten();
        let xattrs = xattrs.map(|(name, value)| {
            Record::Xattr(ImageXattr {
                ino: ino.0,
                name: name.to_vec().into(),
                value: value.to_vec().into(),
            })
        });
        new_shape
            .into_iter()
            .chain(std::iter::once(record))
            .chain(entries(*ino, inode))
            .chain(xattrs)
    })
}

/// The entries of a directory, some in each record.
fn entries(ino: Ino, inode: &Inode) -> impl Iterator<Item = Record> + '_ {
    let directory = match &inode.body {
        Body::Directory(directory) => Some(directory),
        _ => None,
    };
    let mut entries = directory
        .into_iter()
        .flat_map(|directory| directory.after(0))
        .map(|(cookie, entry)| ImageEntry {
            name: entry.name.to_vec().into(),
            ino: entry.ino.0,
            cookie,
        });
    std::iter::from_fn(move || {
        let some: Vec<ImageEntry> = entries.by_ref().take(ENTRIES_MAX).collect();
        (!some.is_empty()).then(|| {
            Record::Entries(ImageEntries {
                directory: ino.0,
                entries: some,
            })
        })
    })
}

pub(crate) fn inode_record(state: &State, ino: Ino, inode: &Inode, shape: u32) -> ImageInode {
    let holders = state
        .holds
        .get(&ino)
        .into_iter()
        .flatten()
        .map(|s| s.0)
        .collect();
    let mut record = ImageInode {
        ino: ino.0,
        kind: inode.kind() as i32,
        mode: u32::from(inode.mode),
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        atime: Some(inode.atime.to_proto()),
        mtime: Some(inode.mtime.to_proto()),
        ctime: Some(inode.ctime.to_proto()),
        change: inode.change,
        holders,
        ..ImageInode::default()
    };
    match &inode.body {
        Body::File(file) => {
            let trim = state.trims.get(&ino);
            record.size = file.size;
            record.allocated = file.allocated;
            record.shape = shape;
            record.generation = file.generation;
            record.exposed = file.exposed;
            record.trim_seq = trim.map_or(0, |trim| trim.seq);
            record.trim_from = trim.map_or(0, |trim| trim.from);
            record.reserved = state.reserved.get(&ino).copied().unwrap_or(0);
            record.writer = state.write_leases.get(&ino).map_or(0, |session| session.0);
            record.sharers = state.sharers(ino).map(|session| session.0).collect();
        }
        Body::Directory(directory) => {
            record.parent = directory.parent.0;
            record.policy = Some(directory.policy.to_proto());
            record.next_cookie = directory.next_cookie();
            record.shards = directory.role.shards().iter().map(|it| it.0).collect();
            record.border = directory.role.border();
            record.shard = directory.role.shard().map_or(0, |shard| shard + 1);
        }
        Body::Symlink(target) => record.target = target.to_vec().into(),
        Body::Fifo | Body::Socket => {}
        Body::CharDevice(rdev) | Body::BlockDevice(rdev) => record.rdev = *rdev,
    }
    record
}
