//! For tests of checks only: breaks a name space as no change can.

use crate::inode::Body;
use crate::state::State;
use weft_types::{Ino, SessionId};
use weft_wire::proto::FileKind;

impl State {
    /// An entry appears, or goes (without an inode); nothing else changes. What is derived from entries follows.
    pub fn damage_entry(&mut self, directory: Ino, name: &[u8], ino: Option<Ino>) {
        let found = self.directory(directory).ok();
        if let Some((cookie, gone)) = found.and_then(|(_, of)| of.find(name)) {
            self.remove_entry(directory, cookie, name);
            self.unname_foreign(gone);
        }
        let Some(ino) = ino else { return };
        if let Some(kind) = self.foreign.get(&ino).map(|foreign| foreign.kind) {
            self.name_foreign(ino, kind);
        }
        self.add_entry(directory, name, ino);
    }

    /// An entry of another group's inode appears, which that is a directory.
    pub fn damage_foreign(&mut self, directory: Ino, name: &[u8], ino: Ino) {
        self.name_foreign(ino, FileKind::Directory);
        self.add_entry(directory, name, ino);
    }

    /// An inode is gone, and what it keeps; its names stay.
    pub fn damage_inode(&mut self, ino: Ino) {
        let entries = self.directory(ino).ok();
        let entries = entries.map(|(_, of)| of.after(0).map(|(_, it)| it.name.clone()).collect());
        let entries: Vec<Box<[u8]>> = entries.unwrap_or_default();
        for name in entries {
            self.damage_entry(ino, &name, None);
        }
        self.damage_links(ino, 0);
        for session in self.holds.remove(&ino).unwrap_or_default() {
            if let Some(holder) = self.sessions.get_mut(&session) {
                holder.holds.remove(&ino);
            }
        }
        self.strays.remove(&ino);
        self.remove_if_unused(ino);
    }

    /// A link count is another one.
    pub fn damage_links(&mut self, ino: Ino, nlink: u32) {
        if let Some(inode) = self.get_mut(ino) {
            inode.nlink = nlink;
        }
    }

    /// A directory says that it is in another one.
    pub fn damage_parent(&mut self, ino: Ino, parent: Ino) {
        self.set_parent(ino, parent);
    }

    /// What was a file is a pipe.
    pub fn damage_kind(&mut self, ino: Ino) {
        let writers: Vec<SessionId> = self.write_lease(ino).into_iter().collect();
        for session in writers {
            self.drop_write_lease(ino, session);
        }
        self.trims.remove(&ino);
        if let Some(inode) = self.get_mut(ino) {
            inode.body = Body::Fifo;
        }
    }
}
