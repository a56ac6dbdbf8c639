//! A slot leaves a state, or comes into it. Each inode of it is gone through once.

use super::Given;
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::lingering::Unkept;
use crate::parts::Foreign;
use crate::sessions::Session;
use crate::state::State;
use std::collections::BTreeSet;
use weft_types::{Ino, ROOT_INO, SessionId, Slot};
use weft_wire::proto::FileKind;

impl State {
    /// Whether a slot may leave now: nothing here waits for any of its inodes.
    ///
    /// # Errors
    /// ESTALE: it is not here. EINVAL: it is the root's. EAGAIN: a transaction has locked something. EBUSY:
    /// somebody may write a file, or copies one.
    pub fn check_give(&self, slot: Slot) -> Result<(), Errno> {
        if !self.slots.has(slot) {
            return Err(Errno::ESTALE);
        }
        if slot == ROOT_INO.slot() {
            return Err(Errno::EINVAL);
        }
        if self.locked.in_slot(slot) {
            return Err(Errno::EAGAIN);
        }
        let inos = || Ino::all_of(slot);
        let is_busy = self.hinders_slots().is_some()
            || self.write_leases.range(inos()).next().is_some()
            || self.sharers.range(inos()).next().is_some()
            || self.moves.range(inos()).next().is_some();
        match is_busy {
            true => Err(Errno::EBUSY),
            false => Ok(()),
        }
    }

    /// Takes a slot out. It may go: see [`State::check_give`].
    pub(crate) fn take_out(&mut self, slot: Slot, given: Given) {
        let inos: Vec<Ino> = self
            .inodes
            .range(Ino::all_of(slot))
            .map(|(ino, _)| *ino)
            .collect();
        self.slots.remove(slot);
        self.counters.remove(&slot);
        self.given.insert(slot, given);
        let mut sessions = BTreeSet::new();
        for ino in inos {
            if let Some(inode) = self.inodes.remove(&ino) {
                self.leave(ino, &inode);
            }
            self.trims.remove(&ino);
            self.reserved.remove(&ino);
            for (name, value) in self.xattrs.remove(&ino).unwrap_or_default() {
                self.counts.xattrs -= 1;
                self.counts.xattr_bytes -= (name.len() + value.len()) as u64;
            }
            for session in self.holds.remove(&ino).unwrap_or_default() {
                if let Some(holder) = self.sessions.get_mut(&session) {
                    holder.holds.remove(&ino);
                    sessions.insert(session);
                }
            }
            for (_, range) in self.locks.remove(&ino).unwrap_or_default().iter() {
                if let Some(holder) = self.sessions.get_mut(&range.owner.session) {
                    holder.locks.remove(&ino);
                    sessions.insert(range.owner.session);
                }
            }
            for (owner, _) in self.opens.remove(&ino).unwrap_or_default().iter() {
                if let Some(holder) = self.sessions.get_mut(&owner.session) {
                    holder.opens.remove(&ino);
                    sessions.insert(owner.session);
                }
            }
        }
        for session in sessions {
            self.forget_idle_guest(session);
            self.forget_empty_remnant(session);
        }
    }

    /// An inode is not here any more; what names it here, and what it names, is.
    fn leave(&mut self, ino: Ino, inode: &Inode) {
        self.lingering.remove(&ino);
        let slot = ino.slot();
        let names = match &inode.body {
            Body::Directory(directory) => {
                self.splitting.remove(&ino);
                self.counts.directories -= 1;
                self.counts.inhabited -= u64::from(!directory.is_empty());
                for (_, entry) in directory.after(0) {
                    self.counts.entries -= 1;
                    self.counts.name_bytes -= entry.name.len() as u64;
                    if entry.ino.slot() != slot {
                        self.uncount_stray(entry.ino);
                        self.unname_foreign(entry.ino);
                    }
                }
                let above = directory.parent.slot();
                u32::from(inode.nlink > 0 && above != slot && self.slots.has(above))
            }
            Body::Symlink(target) => {
                self.counts.target_bytes -= target.len() as u64;
                self.strays.remove(&ino).unwrap_or(0)
            }
            _ => self.strays.remove(&ino).unwrap_or(0),
        };
        if names > 0 {
            let kind = inode.kind();
            self.foreign.insert(ino, Foreign { kind, names });
        }
    }

    /// Takes in a slot that was received, as a name space by itself.
    pub(crate) fn take_in(&mut self, slot: Slot, mut part: State) {
        self.slots.insert(slot);
        self.given.remove(&slot);
        self.next_trim = self.next_trim.max(part.next_trim);
        let generation = part.floors.generation;
        self.floors.generation = self.floors.generation.max(generation);
        self.counters.append(&mut part.counters);
        let (mine, its) = (&mut self.counts, &part.counts);
        mine.directories += its.directories;
        mine.inhabited += its.inhabited;
        mine.entries += its.entries;
        mine.name_bytes += its.name_bytes;
        mine.target_bytes += its.target_bytes;
        mine.xattrs += its.xattrs;
        mine.xattr_bytes += its.xattr_bytes;
        for (ino, foreign) in &part.foreign {
            self.take_in_named(*ino, *foreign);
        }
        for (ino, mut inode) in part.inodes {
            if let Body::File(file) = &mut inode.body {
                file.shape = self.shapes.intern((*file.shape).clone());
            }
            if let Some(foreign) = self.foreign.remove(&ino)
                && foreign.kind != FileKind::Directory
            {
                self.strays.insert(ino, foreign.names);
            }
            self.inodes.insert(ino, inode);
        }
        self.splitting.append(&mut part.splitting);
        self.lingering.append(&mut part.lingering);
        self.xattrs.append(&mut part.xattrs);
        self.trims.append(&mut part.trims);
        self.reserved.append(&mut part.reserved);
        // A session of this group's own that is not here any more has ended meanwhile.
        let group = self.group;
        let has_ended =
            |state: &State, id: SessionId| id.group() == group && !state.session_exists(id);
        for (id, session) in &part.sessions {
            if !has_ended(self, *id) {
                let guest = || Session::new(&session.name);
                self.sessions.entry(*id).or_insert_with(guest);
            }
        }
        for (ino, mut locks) in part.locks {
            let owners: BTreeSet<SessionId> =
                locks.iter().map(|(_, range)| range.owner.session).collect();
            for owner in owners {
                if let Some(session) = self.sessions.get_mut(&owner) {
                    session.locks.insert(ino);
                } else {
                    locks.drop_session(owner);
                }
            }
            if !locks.is_empty() {
                self.locks.insert(ino, locks);
            }
        }
        for (ino, opens) in part.opens {
            for (owner, opened) in opens.iter() {
                // One that has ended is not here.
                self.open_for(ino, owner, opened);
            }
        }
        for (ino, holders) in part.holds {
            let (here, ended): (Vec<SessionId>, Vec<SessionId>) =
                holders.into_iter().partition(|id| self.session_exists(*id));
            for session in here {
                self.hold(ino, session);
            }
            for session in ended {
                self.release(ino, session, Unkept::Goes);
            }
        }
    }

    /// Entries of the slot name an inode of another one.
    fn take_in_named(&mut self, ino: Ino, foreign: Foreign) {
        if !self.slots.has(ino.slot()) {
            let none = Foreign {
                names: 0,
                ..foreign
            };
            self.foreign.entry(ino).or_insert(none).names += foreign.names;
        } else if foreign.kind != FileKind::Directory {
            *self.strays.entry(ino).or_default() += foreign.names;
        }
    }

    // ---- names of inodes of this group in directories of other slots ----

    /// An entry of `parent` names `ino`. Of a directory that is known from its parent.
    pub(crate) fn count_stray(&mut self, parent: Ino, ino: Ino) {
        if parent.slot() != ino.slot()
            && let Some(inode) = self.inodes.get(&ino)
            && !inode.is_directory()
        {
            *self.strays.entry(ino).or_default() += 1;
        }
    }

    /// An entry of another slot names `ino` no more.
    pub(crate) fn uncount_stray(&mut self, ino: Ino) {
        if let Some(names) = self.strays.get_mut(&ino) {
            *names -= 1;
            if *names == 0 {
                self.strays.remove(&ino);
            }
        }
    }
}
