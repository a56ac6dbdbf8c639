//! A slot in pieces: each inode, and some entries of a directory at a time.
//!
//! Pieces are kept small, so that what has changed since a walk is little. Each stands for itself: it says
//! all that another state needs to take it in.

use crate::directory::Directory;
use crate::image::{inode_record, open_record};
use crate::inode::{Body, Inode};
use crate::state::State;
use prost::Message;
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included};
use twox_hash::xxhash3_128;
use weft_types::{Ino, SessionId, Slot};
use weft_wire::proto::slot_content::Content;
use weft_wire::proto::{
    FileKind, ImageEntries, ImageEntry, ImageForeign, ImageLock, ImageOpen, ImageSession,
    ImageXattr, SlotContent, SlotEntries, SlotHead, SlotInode,
};

/// Cookies of a directory that are in one piece.
const COOKIES: u64 = 256;

/// Names a piece: an inode, and its part (0: itself; from 1: entries by their cookies). The slot itself is
/// the inode whose counter is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The inode.
    pub ino: Ino,
    /// The part.
    pub part: u64,
}

impl Key {
    /// Where a slot begins.
    pub fn first_of(slot: Slot) -> Key {
        Key {
            ino: Ino::new(slot, 0),
            part: 0,
        }
    }

    /// Beyond all of a slot.
    pub fn last_of(slot: Slot) -> Key {
        Key {
            ino: *Ino::all_of(slot).end(),
            part: u64::MAX,
        }
    }
}

/// The hash of each piece: what a walk has found, to be compared with another one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hashes(BTreeMap<Key, u128>);

impl Hashes {
    /// Notes a piece. False: it was noted as it is.
    pub fn note(&mut self, key: Key, content: &[u8]) -> bool {
        let hash = xxhash3_128::Hasher::oneshot(content);
        self.0.insert(key, hash) != Some(hash)
    }

    /// Whether the piece was noted as it is.
    pub fn has(&self, key: Key, content: &[u8]) -> bool {
        self.0.get(&key) == Some(&xxhash3_128::Hasher::oneshot(content))
    }

    /// Forgets a piece.
    pub fn forget(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// The pieces between two keys, in order.
    pub fn within(&self, keys: (Bound<Key>, Bound<Key>)) -> impl Iterator<Item = Key> + '_ {
        self.0.range(keys).map(|(key, _)| *key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of all.
    pub fn digest(&self) -> u128 {
        let mut all = xxhash3_128::Hasher::new();
        for (key, hash) in &self.0 {
            all.write(&key.ino.0.to_le_bytes());
            all.write(&key.part.to_le_bytes());
            all.write(&hash.to_le_bytes());
        }
        all.finish_128()
    }
}

impl State {
    /// Takes a slot apart, from a piece on, in the order of their keys; `each` is told of every piece. At most
    /// about `steps` inodes and entries are gone through. Answers where to go on; None: that was all.
    ///
    /// `open` tells which sessions have an inode open, besides those that the state knows of.
    pub fn walk_slot(
        &self,
        slot: Slot,
        from: Key,
        steps: usize,
        open: &dyn Fn(Ino) -> Vec<SessionId>,
        each: &mut dyn FnMut(Key, &[u8]),
    ) -> Option<Key> {
        let mut buffer = Vec::new();
        let mut tell = |key, content| {
            buffer.clear();
            let content = SlotContent {
                content: Some(content),
            };
            content
                .encode(&mut buffer)
                .expect("a Vec has room for every message");
            each(key, &buffer);
        };
        let mut left = steps;
        if from == Key::first_of(slot) {
            tell(from, Content::Head(self.slot_head(slot)));
        }
        let range = (Included(from.ino), Included(*Ino::all_of(slot).end()));
        for (ino, inode) in self.inodes.range(range) {
            let part = if *ino == from.ino { from.part } else { 0 };
            let key = |part| Key { ino: *ino, part };
            if left == 0 {
                return Some(key(part));
            }
            left -= 1;
            if part == 0 {
                tell(key(0), Content::Inode(self.slot_inode(*ino, inode, open)));
            }
            let Body::Directory(directory) = &inode.body else {
                continue;
            };
            let mut part = part.max(1);
            while let Some(entries) = self.slot_entries(*ino, directory, part) {
                // Parts without entries are left out.
                let cookie = entries.first().map_or(0, |entry| entry.cookie);
                part = 1 + cookie / COOKIES;
                if left == 0 {
                    return Some(key(part));
                }
                left = left.saturating_sub(entries.len());
                tell(key(part), Content::Entries(self.named(*ino, entries)));
                part += 1;
            }
        }
        None
    }

    fn slot_head(&self, slot: Slot) -> SlotHead {
        let trims = self.trims.range(Ino::all_of(slot));
        SlotHead {
            next_counter: self
                .counters
                .get(&slot)
                .copied()
                .unwrap_or(0)
                .max(self.floors.ino),
            generation_floor: self.floors.generation,
            next_trim: trims.map(|(_, trim)| trim.seq + 1).max().unwrap_or(1),
        }
    }

    fn slot_inode(
        &self,
        ino: Ino,
        inode: &Inode,
        open: &dyn Fn(Ino) -> Vec<SessionId>,
    ) -> SlotInode {
        let mut record = inode_record(self, ino, inode, 0);
        // Leases are asked back before the slot goes.
        record.writer = 0;
        record.sharers.clear();
        record
            .holders
            .extend(open(ino).iter().map(|session| session.0));
        record.holders.sort_unstable();
        record.holders.dedup();
        let exists = |holder: &u64| self.session_exists(SessionId(*holder));
        record.holders.retain(exists);
        let xattrs = self.xattrs.get(&ino).into_iter().flatten();
        let xattrs = xattrs.map(|(name, value)| ImageXattr {
            ino: ino.0,
            name: name.to_vec().into(),
            value: value.to_vec().into(),
        });
        let locks = self.locks.get(&ino).into_iter();
        let locks = locks.flat_map(|locks| locks.iter());
        // What remnants keep does not go along: nobody there would know whose it is.
        let locks: Vec<ImageLock> = locks
            .filter(|(_, range)| self.session_exists(range.owner.session))
            .map(|(flock, range)| ImageLock {
                ino: ino.0,
                session: range.owner.session.0,
                lock: Some(range.to_proto(flock)),
            })
            .collect();
        let opens = self.opens.get(&ino).into_iter();
        let opens = opens.flat_map(|opens| opens.iter());
        let opens: Vec<ImageOpen> = opens
            .filter(|(owner, _)| self.session_exists(owner.session))
            .map(|(owner, opened)| open_record(ino, owner, &opened))
            .collect();
        let mut sessions: Vec<u64> = record.holders.clone();
        sessions.extend(locks.iter().map(|lock| lock.session));
        sessions.extend(opens.iter().map(|open| open.session));
        sessions.sort_unstable();
        sessions.dedup();
        let sessions = sessions.into_iter().map(|session| ImageSession {
            session,
            name: self.session_name(SessionId(session)).to_owned(),
            ..ImageSession::default()
        });
        SlotInode {
            layout: match &inode.body {
                Body::File(file) => Some(file.shape.to_proto(0)),
                _ => None,
            },
            inode: Some(record),
            xattrs: xattrs.collect(),
            locks,
            opens,
            sessions: sessions.collect(),
        }
    }

    /// The entries of the first part from this one on that has any.
    fn slot_entries(&self, ino: Ino, directory: &Directory, part: u64) -> Option<Vec<ImageEntry>> {
        debug_assert!(self.inodes.contains_key(&ino) && part > 0);
        let mut rest = directory
            .after(((part - 1) * COOKIES).saturating_sub(1))
            .peekable();
        let (first, _) = rest.peek()?;
        let end = (first / COOKIES + 1) * COOKIES;
        let entries = rest.take_while(|(cookie, _)| *cookie < end);
        let entries = entries.map(|(cookie, entry)| ImageEntry {
            name: entry.name.to_vec().into(),
            ino: entry.ino.0,
            cookie,
        });
        Some(entries.collect())
    }

    /// With what is to be known of inodes that are not in the slot.
    fn named(&self, directory: Ino, entries: Vec<ImageEntry>) -> SlotEntries {
        let mut elsewhere: Vec<ImageForeign> = entries
            .iter()
            .filter(|entry| Ino(entry.ino).slot() != directory.slot())
            .map(|entry| ImageForeign {
                ino: entry.ino,
                kind: self
                    .kind_of(Ino(entry.ino))
                    .unwrap_or(FileKind::Unspecified) as i32,
            })
            .collect();
        elsewhere.sort_unstable_by_key(|foreign| foreign.ino);
        elsewhere.dedup_by_key(|foreign| foreign.ino);
        SlotEntries {
            entries: Some(ImageEntries {
                directory: directory.0,
                entries,
            }),
            elsewhere,
        }
    }

    /// The inodes of a slot after one, at most `max`, in order.
    pub fn inodes_of_slot(&self, slot: Slot, after: Ino, max: usize) -> Vec<Ino> {
        let after = after.max(*Ino::all_of(slot).start());
        let range = (Excluded(after), Included(*Ino::all_of(slot).end()));
        let inodes = self.inodes.range(range).take(max);
        inodes.map(|(ino, _)| *ino).collect()
    }
}
