//! What transactions have locked: names, and inodes.
//!
//! A transaction locks what its parts have checked, so that they can take effect whatever happens
//! meanwhile. Nobody waits here: who meets another's lock is told whose it is.

use crate::spread;
use std::collections::BTreeMap;
use weft_types::{Ino, Slot, TransactionId, name_hash};
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::{self, NamePart};

/// What is to become of an inode that is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It is about to be made.
    Made,
    /// A name of it goes, perhaps the last one.
    Dropped,
    /// It gets another name.
    Added,
    /// It comes to be in another directory.
    Moved,
    /// Its entries are about to be in shards.
    Spread,
    /// Who may do what in it is about to change.
    Set,
    /// Entries, whose names have hashes from the first on and below the second, are about to go to a shard.
    Taken(u64, u64),
    /// Entries are about to come.
    Put,
}

/// Names and inodes that transactions have locked.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Locked {
    names: BTreeMap<(Ino, Box<[u8]>), TransactionId>,
    inodes: BTreeMap<Ino, (TransactionId, Fate)>,
}

impl Locked {
    /// Nothing is.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.inodes.is_empty()
    }

    /// Locks what a part touches. Nobody else has it, see [`Locked::against`].
    pub fn lock(&mut self, part: &proto::Part, by: TransactionId) {
        match of(part) {
            Some(Kind::Name(name)) => {
                self.names.insert(key(name), by);
            }
            Some(kind) => {
                if let Some((ino, fate)) = fate(kind) {
                    self.inodes.insert(ino, (by, fate));
                }
            }
            None => {}
        }
    }

    /// Frees all that a transaction has locked.
    pub fn free(&mut self, by: TransactionId) {
        self.names.retain(|_, holder| *holder != by);
        self.inodes.retain(|_, (holder, _)| *holder != by);
    }

    /// Another transaction that has locked something that this part touches.
    pub fn against(&self, part: &proto::Part, by: TransactionId) -> Option<TransactionId> {
        let other = |holder: &TransactionId| (*holder != by).then_some(*holder);
        match of(part)? {
            Kind::Name(name) => {
                let directory = Ino(name.directory);
                let named = self.names.get(&key(name)).and_then(other);
                let bars = |fate| bars_name(fate, &name.name);
                named.or_else(|| self.in_fate(directory, bars).filter(|it| *it != by))
            }
            kind => {
                let (ino, fate) = fate(kind)?;
                let held = self.inodes.get(&ino);
                let held = held.and_then(|(holder, _)| other(holder));
                let needs = |name: &[u8]| match fate {
                    Fate::Dropped | Fate::Spread => true,
                    Fate::Taken(..) => bars_name(fate, name),
                    _ => false,
                };
                let within = || {
                    let mut names = self.all_in(ino);
                    let of_another = names.find(|(name, holder)| **holder != by && needs(name));
                    of_another.map(|(_, holder)| *holder)
                };
                held.or_else(within)
            }
        }
    }

    /// Something of this slot is locked.
    pub fn in_slot(&self, slot: Slot) -> bool {
        let (first, last) = (Ino::new(slot, 0), *Ino::all_of(slot).end());
        let mut names = self.names.range((first, Box::default())..);
        let named = names.next().is_some_and(|((of, _), _)| *of <= last);
        named || self.inodes.range(first..=last).next().is_some()
    }

    /// Who has locked the inode.
    pub(crate) fn inode(&self, ino: Ino) -> Option<TransactionId> {
        self.inodes.get(&ino).map(|(holder, _)| *holder)
    }

    /// Who has locked this name, or all names of its directory.
    pub(crate) fn name(&self, directory: Ino, name: &[u8]) -> Option<TransactionId> {
        let named = self.names.get(&(directory, name.into())).copied();
        named.or_else(|| self.in_fate(directory, |fate| bars_name(fate, name)))
    }

    /// Who has locked names in the directory; one of them each time it has.
    pub(crate) fn names_in(&self, directory: Ino) -> impl Iterator<Item = TransactionId> + '_ {
        self.all_in(directory).map(|(_, holder)| *holder)
    }

    fn all_in(&self, directory: Ino) -> impl Iterator<Item = (&[u8], &TransactionId)> + '_ {
        let from = (directory, Box::default());
        let rest = self.names.range(from..);
        rest.take_while(move |((of, _), _)| *of == directory)
            .map(|((_, name), holder)| (&**name, holder))
    }

    /// Who is about to move the directory.
    pub(crate) fn moving(&self, directory: Ino) -> Option<TransactionId> {
        self.in_fate(directory, |fate| fate == Fate::Moved)
    }

    fn in_fate(&self, ino: Ino, wanted: impl Fn(Fate) -> bool) -> Option<TransactionId> {
        let (holder, fate) = self.inodes.get(&ino)?;
        wanted(*fate).then_some(*holder)
    }
}

/// A name in it can neither be looked at nor changed.
fn bars_name(fate: Fate, name: &[u8]) -> bool {
    match fate {
        Fate::Dropped | Fate::Made | Fate::Spread | Fate::Set | Fate::Put => true,
        Fate::Taken(from, to) => {
            let hash = name_hash(name);
            hash >= from && spread::is_below(hash, to)
        }
        Fate::Added | Fate::Moved => false,
    }
}

pub(super) fn of(part: &proto::Part) -> Option<&Kind> {
    part.part.as_ref()
}

fn key(name: &NamePart) -> (Ino, Box<[u8]>) {
    (Ino(name.directory), name.name[..].into())
}

fn fate(kind: &Kind) -> Option<(Ino, Fate)> {
    match kind {
        Kind::Make(make) => (make.ino != 0).then_some((Ino(make.ino), Fate::Made)),
        Kind::Drop(drop) => Some((Ino(drop.ino), Fate::Dropped)),
        Kind::Add(add) => Some((Ino(add.ino), Fate::Added)),
        Kind::Move(moved) => Some((Ino(moved.ino), Fate::Moved)),
        Kind::Spread(spread) => Some((Ino(spread.ino), Fate::Spread)),
        Kind::Set(set) => Some((Ino(set.ino), Fate::Set)),
        Kind::Take(take) => Some((Ino(take.ino), Fate::Taken(take.from, take.to))),
        Kind::Put(put) => Some((Ino(put.ino), Fate::Put)),
        Kind::Name(_) => None,
    }
}
