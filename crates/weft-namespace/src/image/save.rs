//! Writing an image: the walk over the state.

use super::{ENTRIES_MAX, VERSION};
use crate::inode::{Body, Inode};
use crate::layouts::Shape;
use crate::state::State;
use prost::Message;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_types::Ino;
use weft_wire::proto::image_record::Record;
use weft_wire::proto::{
    ImageDeletion, ImageEnd, ImageEntries, ImageEntry, ImageHeader, ImageInode, ImageLock,
    ImageRecord, ImageReply, ImageSession, ImageShape, ImageSlot, ImageXattr, ObjectName,
};

/// Encodes records into one buffer that is used again and again.
struct Writer<'a> {
    buffer: Vec<u8>,
    sink: &'a mut dyn FnMut(&[u8]),
}

impl Writer<'_> {
    fn put(&mut self, record: Record) {
        self.buffer.clear();
        ImageRecord {
            record: Some(record),
        }
        .encode(&mut self.buffer)
        .expect("a Vec has room for every message");
        (self.sink)(&self.buffer);
    }
}

/// All records but the last.
pub(super) fn records(state: &State, sink: &mut dyn FnMut(&[u8])) {
    let mut out = Writer {
        buffer: Vec::new(),
        sink,
    };
    out.put(Record::Header(ImageHeader {
        version: VERSION,
        reign: state.reign.0,
        next_session: state.next_session,
        next_trim: state.next_trim,
        next_deletion: state.next_deletion,
    }));
    for pair in state.pairs.values() {
        out.put(Record::Pair(*pair));
    }
    for (slot, next_counter) in &state.counters {
        let slot = u32::from(slot.0);
        out.put(Record::Slot(ImageSlot {
            slot,
            next_counter: *next_counter,
        }));
    }
    for (id, session) in &state.sessions {
        out.put(Record::Session(ImageSession {
            session: id.0,
            name: session.name.clone(),
            acknowledged_below: session.acknowledged_below.0,
        }));
        for (operation, reply) in session.replies() {
            let reply = reply.to_vec().into();
            out.put(Record::Reply(ImageReply {
                session: id.0,
                operation: operation.0,
                reply,
            }));
        }
    }
    inodes(state, &mut out);
    for (ino, locks) in &state.locks {
        for (flock, range) in locks.iter() {
            out.put(Record::Lock(ImageLock {
                ino: ino.0,
                session: range.owner.session.0,
                lock: Some(range.to_proto(flock)),
            }));
        }
    }
    for (queue_id, (pair, object)) in &state.deletions {
        let object = ObjectName {
            ino: object.ino.0,
            generation: object.generation,
        };
        out.put(Record::Deletion(ImageDeletion {
            queue_id: *queue_id,
            pair: pair.0,
            object: Some(object),
        }));
    }
}

/// The last record.
pub(super) fn end(records: u64, digest: u128, sink: &mut dyn FnMut(&[u8])) {
    Writer {
        buffer: Vec::new(),
        sink,
    }
    .put(Record::End(ImageEnd {
        records,
        digest_high: (digest >> 64) as u64,
        digest_low: digest as u64,
    }));
}

fn inodes(state: &State, out: &mut Writer) {
    let mut shapes: BTreeMap<Rc<Shape>, u32> = BTreeMap::new();
    for (ino, inode) in &state.inodes {
        let mut shape = 0;
        if let Body::File(file) = &inode.body {
            let next = shapes.len() as u32;
            shape = *shapes.entry(Rc::clone(&file.shape)).or_insert(next);
            if shape == next {
                let layout = Some(file.shape.to_proto(0));
                out.put(Record::Shape(ImageShape {
                    number: next,
                    layout,
                }));
            }
        }
        out.put(Record::Inode(inode_record(state, *ino, inode, shape)));
        if let Body::Directory(directory) = &inode.body {
            let mut entries = directory.after(0).map(|(cookie, entry)| ImageEntry {
                name: entry.name.to_vec().into(),
                ino: entry.ino.0,
                cookie,
            });
            loop {
                let some: Vec<ImageEntry> = entries.by_ref().take(ENTRIES_MAX).collect();
                if some.is_empty() {
                    break;
                }
                out.put(Record::Entries(ImageEntries {
                    directory: ino.0,
                    entries: some,
                }));
            }
        }
        for (name, value) in state.xattrs.get(ino).into_iter().flatten() {
            out.put(Record::Xattr(ImageXattr {
                ino: ino.0,
                name: name.to_vec().into(),
                value: value.to_vec().into(),
            }));
        }
    }
}

fn inode_record(state: &State, ino: Ino, inode: &Inode, shape: u32) -> ImageInode {
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
            record.writer = state.write_leases.get(&ino).map_or(0, |session| session.0);
        }
        Body::Directory(directory) => {
            record.parent = directory.parent.0;
            record.policy = Some(directory.policy.to_proto());
            record.next_cookie = directory.next_cookie();
        }
        Body::Symlink(target) => record.target = target.to_vec().into(),
        Body::Fifo | Body::Socket => {}
        Body::CharDevice(rdev) | Body::BlockDevice(rdev) => record.rdev = *rdev,
    }
    record
}
