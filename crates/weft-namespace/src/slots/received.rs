//! A slot that another group sends: its pieces as they came, and what they make together.

use super::{Attempt, Hashes, Key, SlotSet};
use crate::errno::Errno;
use crate::image::Loader;
use crate::sessions::Session;
use crate::state::State;
use prost::Message;
use std::collections::BTreeMap;
use weft_types::{GroupId, Ino, SessionId, Slot};
use weft_wire::proto::image_record::Record;
use weft_wire::proto::slot_content::Content;
use weft_wire::proto::{ImageForeign, ImageShape, SlotContent, SlotHead, SlotInode, SlotPiece};

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Arriving {
    pub from: GroupId,
    pub attempt: Attempt,
    /// Of the Receive that comes next.
    pub next: u64,
    pub pieces: BTreeMap<Key, Box<[u8]>>,
}

impl Arriving {
    pub(crate) fn new(from: GroupId, attempt: Attempt) -> Arriving {
        Arriving {
            from,
            attempt,
            next: 0,
            pieces: BTreeMap::new(),
        }
    }

    /// The key of a piece of this slot, if it is one and can be read.
    pub(crate) fn key(slot: Slot, piece: &SlotPiece) -> Result<Key, Errno> {
        let key = Key {
            ino: Ino(piece.ino),
            part: piece.part,
        };
        let is_whole = piece.content.is_empty() || content(&piece.content).is_ok();
        match Ino::all_of(slot).contains(&key.ino) && is_whole {
            true => Ok(key),
            false => Err(Errno::EINVAL),
        }
    }

    /// What has come, or has gone. The keys are checked.
    pub(crate) fn take(&mut self, pieces: &[(Key, &SlotPiece)]) {
        for (key, piece) in pieces {
            match piece.content.is_empty() {
                true => self.pieces.remove(key),
                false => self.pieces.insert(*key, piece.content[..].into()),
            };
        }
        self.next += 1;
    }
}

fn content(bytes: &[u8]) -> Result<Content, String> {
    let decoded = SlotContent::decode(bytes).map_err(|error| error.to_string())?;
    decoded
        .content
        .ok_or_else(|| "a piece of no known kind".into())
}

impl State {
    /// Whether a slot that was received could be owned as it is now; answers the hash of all of it.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check_received(&self, slot: Slot, attempt: Attempt) -> Result<u128, String> {
        let arriving = self.arriving.get(&slot);
        let arriving = arriving.filter(|arriving| arriving.attempt == attempt);
        let arriving = arriving.ok_or_else(|| format!("nothing was received of slot {slot}"))?;
        self.received(slot, arriving)?;
        let mut hashes = Hashes::default();
        for (key, content) in &arriving.pieces {
            hashes.note(*key, content);
        }
        Ok(hashes.digest())
    }

    /// The slot as a name space by itself: what it names elsewhere is another group's.
    pub(crate) fn received(&self, slot: Slot, arriving: &Arriving) -> Result<State, String> {
        let mut part = State::empty();
        part.group = self.group;
        part.slots = SlotSet::none();
        part.slots.insert(slot);
        part.pairs = self.pairs.clone();
        let mut building = Building {
            loader: Loader::of_part(part),
            shapes: BTreeMap::new(),
            has_head: false,
        };
        for (key, bytes) in &arriving.pieces {
            let piece = match content(bytes)? {
                Content::Head(head) => building.head(slot, &head),
                Content::Inode(inode) => building.inode(*key, inode),
                Content::Entries(entries) => {
                    let of = entries.entries.as_ref().map_or(0, |it| it.directory);
                    match of == key.ino.0 {
                        true => building.entries(entries.entries, entries.elsewhere),
                        false => Err("entries of another directory".into()),
                    }
                }
            };
            piece.map_err(|what| format!("piece {} of inode {}: {what}", key.part, key.ino))?;
        }
        if !building.has_head {
            return Err("the slot's counter has not come".into());
        }
        building.loader.into_part()
    }
}

struct Building {
    loader: Loader,
    /// Numbers of the layouts that have come, by their bytes.
    shapes: BTreeMap<Vec<u8>, u32>,
    has_head: bool,
}

impl Building {
    fn head(&mut self, slot: Slot, head: &SlotHead) -> Result<(), String> {
        self.has_head = true;
        self.loader.begin_part(slot, head)
    }

    fn inode(&mut self, key: Key, piece: SlotInode) -> Result<(), String> {
        let mut inode = piece.inode.ok_or("a piece without its inode")?;
        let is_of = |ino: u64| ino == key.ino.0;
        let xattrs = piece.xattrs.iter().map(|xattr| xattr.ino);
        let locks = piece.locks.iter().map(|lock| lock.ino);
        let opens = piece.opens.iter();
        let opens = opens.map(|open| open.open.as_ref().map_or(0, |open| open.ino));
        if !is_of(inode.ino) || !xattrs.chain(locks).chain(opens).all(is_of) {
            return Err("something of another inode".into());
        }
        for session in piece.sessions {
            let id = SessionId(session.session);
            self.loader.guest(id, Session::new(&session.name));
        }
        if let Some(layout) = piece.layout {
            let next = self.shapes.len() as u32;
            let number = *self.shapes.entry(layout.encode_to_vec()).or_insert(next);
            if number == next {
                self.loader.add(Record::Shape(ImageShape {
                    number,
                    layout: Some(layout),
                }))?;
            }
            inode.shape = number;
        }
        self.loader.add(Record::Inode(inode))?;
        for xattr in piece.xattrs {
            self.loader.add(Record::Xattr(xattr))?;
        }
        for lock in piece.locks {
            self.loader.add(Record::Lock(lock))?;
        }
        for open in piece.opens {
            self.loader.add(Record::Open(open))?;
        }
        Ok(())
    }

    fn entries(
        &mut self,
        entries: Option<weft_wire::proto::ImageEntries>,
        elsewhere: Vec<ImageForeign>,
    ) -> Result<(), String> {
        for foreign in elsewhere {
            self.loader.elsewhere(foreign)?;
        }
        let entries = entries.ok_or("a piece without its entries")?;
        self.loader.add(Record::Entries(entries))
    }
}
