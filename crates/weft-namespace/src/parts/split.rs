//! The parts by which entries of a directory that is spread go to its shards, some at a time
//! (`docs/protocols/spread.md`).

use crate::directory::{Directory, FIRST_COOKIE};
use crate::errno::Errno;
use crate::inode::Body;
use crate::names::Name;
use crate::parts::Foreign;
use crate::spread::{NO_BORDER, Role, first_cookie, is_below, is_hidden};
use crate::state::State;
use std::collections::BTreeSet;
use weft_types::{Ino, shard_of_hash};
use weft_wire::proto::part::{Part as Kind, Tells};
use weft_wire::proto::{Attr, FileKind, MovePart, MovedEntry, Part, PutPart, TakePart};

/// Entries that go at once: what is locked, and what each member's journal has of it, stays small.
const ENTRIES_MAX: usize = 256;
/// Directories among them: each is a part of its own.
const DIRECTORIES_MAX: usize = 64;

fn part(kind: Kind) -> Part {
    Part {
        tells: Tells::Nothing as i32,
        part: Some(kind),
    }
}

fn is_directory(entry: &MovedEntry) -> bool {
    entry.kind() == FileKind::Directory
}

fn directories(entries: &[MovedEntry]) -> u32 {
    entries.iter().filter(|entry| is_directory(entry)).count() as u32
}

impl State {
    /// A directory's entries whose names have hashes from here on and below an end, at most so many, in the order
    /// of the hashes; and the hash of the next one, if there were too many.
    fn entries_between(
        &self,
        directory: &Directory,
        (from, to): (u64, u64),
        (most, most_directories): (usize, usize),
    ) -> (Vec<MovedEntry>, Option<u64>) {
        let mut entries: Vec<MovedEntry> = Vec::new();
        let (mut last, mut below) = (None, 0);
        for (hash, cookie, entry) in directory.by_hash(from) {
            if !is_below(hash, to) {
                break;
            }
            if is_hidden(&entry.name) {
                continue;
            }
            // Those of one hash go together: a border is between two.
            let is_full = entries.len() >= most || below >= most_directories;
            if is_full && last != Some(hash) {
                return (entries, Some(hash));
            }
            let kind = self.kind_of(entry.ino).unwrap_or_default();
            below += usize::from(kind == FileKind::Directory);
            last = Some(hash);
            entries.push(MovedEntry {
                name: entry.name.to_vec().into(),
                ino: entry.ino.0,
                cookie,
                kind: kind as i32,
            });
        }
        (entries, None)
    }

    /// What it takes to have the next entries of a spread directory go to their shard.
    pub(super) fn split(&self, ino: Ino) -> Result<Vec<Part>, Errno> {
        let (_, directory) = self.directory(ino)?;
        let (shards, from) = (directory.role.shards(), directory.role.border());
        if shards.is_empty() || from == NO_BORDER {
            return Err(Errno::EALREADY);
        }
        let at = shard_of_hash(from, shards.len());
        // Where the next shard begins.
        let end = match at + 1 == shards.len() {
            true => NO_BORDER,
            false => (at as u64 + 1) << (u64::BITS - shards.len().trailing_zeros()),
        };
        let bounds = (ENTRIES_MAX, DIRECTORIES_MAX);
        let (entries, next) = self.entries_between(directory, (from, end), bounds);
        let shard = *shards.get(at).ok_or(Errno::EINVAL)?;
        let moved = entries.iter().filter(|entry| is_directory(entry));
        let moved = moved.map(|entry| {
            part(Kind::Move(MovePart {
                ino: entry.ino,
                parent: shard.0,
                exempt: true,
                within: true,
                quiet: true,
            }))
        });
        let moved: Vec<Part> = moved.collect();
        let put = (!entries.is_empty()).then(|| {
            part(Kind::Put(PutPart {
                ino: shard.0,
                entries: entries.clone(),
            }))
        });
        let take = part(Kind::Take(TakePart {
            ino: ino.0,
            from,
            to: next.unwrap_or(end),
            entries,
        }));
        Ok(std::iter::once(take).chain(put).chain(moved).collect())
    }

    pub(super) fn check_take(&self, part: &TakePart) -> Result<Attr, Errno> {
        let ino = Ino(part.ino);
        let (inode, directory) = self.directory(ino)?;
        let role = &directory.role;
        if role.shards().is_empty() || part.to <= part.from {
            return Err(Errno::EINVAL);
        }
        let all = (usize::MAX, usize::MAX);
        let (entries, _) = self.entries_between(directory, (part.from, part.to), all);
        match role.border() == part.from && entries == part.entries {
            true => Ok(inode.attr(ino)),
            // It has changed since that was planned.
            false => Err(Errno::EAGAIN),
        }
    }

    pub(super) fn do_take(&mut self, part: &TakePart) -> Option<Attr> {
        let ino = Ino(part.ino);
        for entry in &part.entries {
            self.remove_entry(ino, entry.cookie, &entry.name);
            self.unname_foreign(Ino(entry.ino));
            // Its name is in another place: whoever counts names sees that something was going on.
            if !is_directory(entry)
                && let Some(inode) = self.get_mut(Ino(entry.ino))
            {
                inode.change += 1;
            }
        }
        let inode = self.get_mut(ino)?;
        inode.nlink = inode.nlink.saturating_sub(directories(&part.entries));
        inode.change += 1;
        if let Body::Directory(directory) = &mut inode.body
            && let Role::Spread { border, .. } = &mut directory.role
        {
            *border = part.to;
        }
        if part.to == NO_BORDER {
            self.splitting.remove(&ino);
        }
        self.attr(ino)
    }

    pub(super) fn check_put(&self, part: &PutPart) -> Result<Attr, Errno> {
        let ino = Ino(part.ino);
        let (inode, directory) = self.directory(ino)?;
        if directory.role.shard().is_none() || inode.nlink == 0 {
            return Err(Errno::EINVAL);
        }
        let cookies: BTreeSet<u64> = part.entries.iter().map(|entry| entry.cookie).collect();
        let names: BTreeSet<&[u8]> = part.entries.iter().map(|entry| &entry.name[..]).collect();
        let are_different = [cookies.len(), names.len()] == [part.entries.len(); 2];
        let can_come = |entry: &MovedEntry| {
            matches!(Name::parse(&entry.name), Ok(Name::Plain(_)))
                && directory.find(&entry.name).is_none()
                && (FIRST_COOKIE..first_cookie(0)).contains(&entry.cookie)
                && !directory.has_cookie(entry.cookie)
                && entry.ino != 0
                && entry.kind() != FileKind::Unspecified
        };
        match are_different && part.entries.iter().all(can_come) {
            true => Ok(inode.attr(ino)),
            false => Err(Errno::EINVAL),
        }
    }

    pub(super) fn do_put(&mut self, part: &PutPart) -> Option<Attr> {
        let shard = Ino(part.ino);
        for entry in &part.entries {
            let ino = Ino(entry.ino);
            if !self.slots.has(ino.slot()) {
                let foreign = Foreign {
                    kind: entry.kind(),
                    names: 0,
                };
                self.foreign.entry(ino).or_insert(foreign).names += 1;
            }
            self.take_entry(shard, entry.cookie, &entry.name, ino);
        }
        let inode = self.get_mut(shard)?;
        inode.nlink += directories(&part.entries);
        inode.change += 1;
        self.attr(shard)
    }
}
