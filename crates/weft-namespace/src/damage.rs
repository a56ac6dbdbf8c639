//! For tests of checks only: breaks a name space as no change can.

use crate::inode::Body;
use crate::parts::Foreign;
use crate::state::State;
use weft_types::Ino;
use weft_wire::proto::FileKind;

impl State {
    /// An entry appears, or goes (without an inode); nothing else changes.
    pub fn damage_entry(&mut self, directory: Ino, name: &[u8], ino: Option<Ino>) {
        let found = self.directory(directory).ok();
        if let Some((cookie, _)) = found.and_then(|(_, of)| of.find(name)) {
            self.remove_entry(directory, cookie, name);
        }
        if let Some(ino) = ino {
            self.add_entry(directory, name, ino);
        }
    }

    /// An entry of another group's directory appears.
    pub fn damage_foreign(&mut self, directory: Ino, name: &[u8], ino: Ino) {
        self.add_entry(directory, name, ino);
        let kind = FileKind::Directory;
        self.foreign.insert(ino, Foreign { kind, names: 1 });
    }

    /// An inode is gone; nothing else changes.
    pub fn damage_inode(&mut self, ino: Ino) {
        self.inodes.remove(&ino);
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
        if let Some(inode) = self.get_mut(ino) {
            inode.body = Body::Fifo;
        }
    }
}
