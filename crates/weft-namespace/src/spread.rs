//! Spread directories: their entries are in shards, directories of their own in other slots
//! (`docs/protocols/spread.md`).
//!
//! A shard is an entry of its directory, under a name that no file can have; so all that is true of directories
//! is true of it. What the two are to each other is their [`Role`]. Who asks the directory for a name that a shard
//! has is told that it is not there (EREMCHG): clients ask the shard.

use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::names::Name;
use crate::state::State;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use weft_types::{COOKIE_BITS, INO_COUNTER_BITS, Ino, SHARDS_MAX, name_hash, shard_of_hash};
use weft_wire::proto::op::Op;

/// What a directory is to another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Nothing.
    Plain,
    /// Its entries are in these, as far as they have gone there: names whose hash is below the border.
    Spread { shards: Box<[Ino]>, border: u64 },
    /// It is this shard of its parent, counted from 0.
    Shard(u32),
}

/// The border when all entries are in shards.
pub(crate) const NO_BORDER: u64 = u64::MAX;

/// Names of this hash are below a border.
pub(crate) fn is_below(hash: u64, border: u64) -> bool {
    border == NO_BORDER || hash < border
}

/// The first cookie of a shard, counted from 0.
pub(crate) fn first_cookie(shard: u32) -> u64 {
    (u64::from(shard) + 1) << COOKIE_BITS
}

/// The name under which a directory has a shard.
pub(crate) fn shard_name(shard: usize) -> Vec<u8> {
    format!("/{shard}").into_bytes()
}

/// It is a shard's name: no file's has a slash.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.first() == Some(&b'/')
}

impl Role {
    /// What an image says: the shards of a directory, or which shard it is, counted from 1. None: it makes no
    /// sense.
    pub(crate) fn of_image(shards: &[u64], border: u64, shard: u32) -> Option<Role> {
        match (shards.is_empty(), shard) {
            (true, 0) => Some(Role::Plain),
            (true, shard) => (shard as usize <= SHARDS_MAX).then(|| Role::Shard(shard - 1)),
            (false, 0) => Role::spread(shards, border),
            (false, _) => None,
        }
    }

    /// A directory with these shards. None: there cannot be such.
    pub(crate) fn spread(shards: &[u64], border: u64) -> Option<Role> {
        let are_different = shards.iter().collect::<BTreeSet<_>>().len() == shards.len();
        let is_sound = is_count(shards.len()) && are_different && !shards.contains(&0);
        let shards = shards.iter().map(|ino| Ino(*ino)).collect();
        is_sound.then_some(Role::Spread { shards, border })
    }

    /// The shards; of what is not spread none.
    pub(crate) fn shards(&self) -> &[Ino] {
        match self {
            Role::Spread { shards, .. } => shards,
            Role::Plain | Role::Shard(_) => &[],
        }
    }

    /// Which shard of its parent it is, counted from 0.
    pub(crate) fn shard(&self) -> Option<u32> {
        match self {
            Role::Shard(shard) => Some(*shard),
            Role::Plain | Role::Spread { .. } => None,
        }
    }

    /// Names whose hash is below this are in shards; 0: none are.
    pub(crate) fn border(&self) -> u64 {
        match self {
            Role::Spread { border, .. } => *border,
            Role::Plain | Role::Shard(_) => 0,
        }
    }

    /// The shard that has a name. None: none has.
    pub(crate) fn place(&self, name: &[u8]) -> Option<Ino> {
        let (shards, hash) = (self.shards(), name_hash(name));
        let shard = shards.get(shard_of_hash(hash, shards.len()));
        shard.filter(|_| is_below(hash, self.border())).copied()
    }

    /// The shard of which this is the entry's name.
    pub(crate) fn names(&self, name: &[u8]) -> Option<Ino> {
        let mut shards = self.shards().iter().enumerate();
        let named = is_hidden(name).then(|| shards.find(|(at, _)| shard_name(*at) == name));
        named.flatten().map(|(_, ino)| *ino)
    }
}

/// A directory can have so many shards.
pub(crate) fn is_count(shards: usize) -> bool {
    shards.is_power_of_two() && (2..=SHARDS_MAX).contains(&shards)
}

impl State {
    fn role(&self, ino: Ino) -> Option<&Role> {
        let (_, directory) = self.directory(ino).ok()?;
        Some(&directory.role)
    }

    pub(crate) fn is_spread(&self, ino: Ino) -> bool {
        matches!(self.role(ino), Some(Role::Spread { .. }))
    }

    /// How many shards a directory has; 0: it is not spread.
    pub fn shards_of(&self, ino: Ino) -> usize {
        self.role(ino).map_or(0, |role| role.shards().len())
    }

    /// The directory of which this is a shard; all else stands for itself. (What another group has is taken
    /// for no shard.)
    pub(crate) fn whole(&self, ino: Ino) -> Ino {
        match self.directory(ino) {
            Ok((_, directory)) if directory.role.shard().is_some() => directory.parent,
            _ => ino,
        }
    }

    /// A name that a file can have is not in this directory, but in a shard of it.
    pub fn has_in_shard(&self, directory: Ino, name: &[u8]) -> bool {
        let role = self.role(directory).filter(|role| **role != Role::Plain);
        matches!(Name::parse(name), Ok(Name::Plain(_)))
            && role.is_some_and(|role| role.place(name).is_some())
    }

    /// A change names something in a directory whose names are in shards.
    pub fn is_misplaced(&self, op: &Op) -> bool {
        match op {
            Op::Create(op) => self.has_in_shard(Ino(op.parent), &op.name),
            Op::Link(op) => self.has_in_shard(Ino(op.parent), &op.name),
            Op::Unlink(op) => self.has_in_shard(Ino(op.parent), &op.name),
            Op::Rmdir(op) => self.has_in_shard(Ino(op.parent), &op.name),
            Op::Rename(op) => {
                self.has_in_shard(Ino(op.parent), &op.name)
                    || self.has_in_shard(Ino(op.new_parent), &op.new_name)
            }
            _ => false,
        }
    }

    /// A change concerns a directory with all its shards: a transaction, even where one group has all of them.
    pub(crate) fn concerns_shards(&self, op: &Op) -> bool {
        let goes = |directory: u64, name: &[u8]| {
            let found = self.found(Ino(directory), name);
            found.is_some_and(|ino| self.is_spread(ino))
        };
        match op {
            Op::Spread(_) | Op::Split(_) => true,
            Op::Setattr(op) => !op.owed && self.is_spread(Ino(op.ino)),
            Op::SetPolicy(op) => self.is_spread(Ino(op.ino)),
            Op::Rmdir(op) => goes(op.parent, &op.name),
            Op::Rename(op) => !op.exchange && goes(op.new_parent, &op.new_name),
            _ => false,
        }
    }

    /// Refuses the removal of a directory that has entries, or shards: those go with it, all or nothing.
    pub(crate) fn check_goes_alone(&self, ino: Ino) -> Result<(), Errno> {
        let (_, directory) = self.directory(ino)?;
        if !directory.is_vacant() {
            return Err(Errno::ENOTEMPTY);
        }
        self.check_stands_alone(ino)
    }

    /// Refuses a change of one inode that is spread, or a shard: such are done to all at once.
    pub(crate) fn check_stands_alone(&self, ino: Ino) -> Result<(), Errno> {
        match self.role(ino) {
            None | Some(Role::Plain) => Ok(()),
            Some(Role::Spread { .. } | Role::Shard(_)) => Err(Errno::EXDEV),
        }
    }

    /// The number was given, and nothing was made under it.
    pub(crate) fn is_taken_number(&self, ino: Ino) -> bool {
        let next = self.counters.get(&ino.slot()).copied().unwrap_or(0);
        let counter = ino.0 & ((1 << INO_COUNTER_BITS) - 1);
        (1..next).contains(&counter) && !self.inodes.contains_key(&ino)
    }

    /// A directory that goes has no shards any more: they go by parts of their own.
    pub(crate) fn lose_shards(&mut self, ino: Ino) {
        let Some(Inode {
            body: Body::Directory(directory),
            nlink,
            ..
        }) = self.get_mut(ino)
        else {
            return;
        };
        if directory.role.shards().is_empty() {
            return;
        }
        let role = std::mem::replace(&mut directory.role, Role::Plain);
        let shards = role.shards();
        *nlink = nlink.saturating_sub(shards.len() as u32);
        let names = (0..shards.len()).map(shard_name);
        let entries: Vec<_> = names
            .filter_map(|name| Some((directory.find(&name)?.0, name)))
            .collect();
        for (cookie, name) in entries {
            self.remove_entry(ino, cookie, &name);
        }
        for shard in shards {
            self.unname_foreign(*shard);
        }
        self.splitting.remove(&ino);
    }

    /// A directory that is spread and has entries of its own still, after this one.
    pub fn splitting_after(&self, ino: Ino) -> Option<Ino> {
        let mut rest = self.splitting.range((Excluded(ino), Unbounded));
        rest.next().or_else(|| self.splitting.first()).copied()
    }

    /// A directory has come here, with an image or its slot.
    pub(crate) fn note_splitting(&mut self, ino: Ino) {
        let role = self.role(ino);
        if role.is_some_and(|role| !role.shards().is_empty() && role.border() != NO_BORDER) {
            self.splitting.insert(ino);
        }
    }

    /// A plain directory that has so many entries.
    pub fn is_as_large(&self, ino: Ino, entries: u64) -> bool {
        let directory = self.directory(ino).ok();
        directory.is_some_and(|(_, it)| it.role == Role::Plain && it.len() as u64 >= entries)
    }

    /// For images: a directory has all its shards as entries, and a shard says of which directory that is here.
    pub(crate) fn check_shards(&self, ino: Ino, directory: &Directory) -> Result<(), String> {
        for (at, shard) in directory.role.shards().iter().enumerate() {
            let entry = directory.find(&shard_name(at)).map(|(_, ino)| ino);
            let is_foreign = !self.slots.has(shard.slot());
            let is_shard = || self.role(*shard).and_then(Role::shard) == Some(at as u32);
            if entry != Some(*shard) || !(is_foreign || is_shard()) {
                return Err(format!("shard {at} of directory {ino} is none"));
            }
        }
        let border = directory.role.border();
        let mut own = directory.by_hash(0);
        if own
            .any(|(hash, _, entry)| !is_hidden(&entry.name) && is_below(hash, border) && border > 0)
        {
            return Err(format!("directory {ino} has what its shards should have"));
        }
        if directory.role.shard().is_some() && self.slots.has(directory.parent.slot()) {
            let above = self.role(directory.parent);
            if !above.is_some_and(|role| role.shards().contains(&ino)) {
                return Err(format!("directory {ino} is a shard of nothing"));
            }
        }
        Ok(())
    }
}
