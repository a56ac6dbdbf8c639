//! What is drawn: which operation comes next, on which names, offsets and lengths.

use super::Worker;
use crate::oracle::history::{Kind, Reply};

/// Files go up to this: some stripes of the smallest unit on every pair.
pub(super) const FILE_BYTES: u64 = 400 << 10;
/// Inodes that a client remembers, of each kind.
const KNOWN_MAX: usize = 12;

/// How often each kind of operation is tried, relative to the others.
pub(super) const WEIGHTS: &[(u32, Try)] = &[
    (8, Try::Create),
    (3, Try::Mkdir),
    (2, Try::Symlink),
    (1, Try::Mkfifo),
    (3, Try::Link),
    (4, Try::Unlink),
    (2, Try::Rmdir),
    (4, Try::Rename),
    (2, Try::Exchange),
    (6, Try::Lookup),
    (2, Try::Readlink),
    (5, Try::Getattr),
    (2, Try::Chmod),
    (3, Try::Truncate),
    (2, Try::Setxattr),
    (2, Try::Getxattr),
    (2, Try::Listxattr),
    (1, Try::Removexattr),
    (4, Try::List),
    (6, Try::Open),
    (4, Try::Close),
    (14, Try::Read),
    (16, Try::Write),
    (5, Try::Append),
    (5, Try::Fsync),
    (2, Try::Punch),
    (2, Try::Zero),
    (1, Try::Extend),
    (4, Try::Lock),
    (2, Try::WaitForLock),
    (3, Try::Seek),
    (3, Try::Copy),
    (1, Try::Access),
    (1, Try::OpenAsUser),
    (1, Try::ChmodAsUser),
    (1, Try::UnlinkAsUser),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Try {
    Create,
    Mkdir,
    Symlink,
    Mkfifo,
    Link,
    Unlink,
    Rmdir,
    Rename,
    Exchange,
    Lookup,
    Readlink,
    Getattr,
    Chmod,
    Truncate,
    Setxattr,
    Getxattr,
    Listxattr,
    Removexattr,
    List,
    Open,
    Close,
    Read,
    Write,
    Append,
    Fsync,
    Punch,
    Zero,
    Extend,
    Lock,
    WaitForLock,
    Seek,
    Copy,
    Access,
    OpenAsUser,
    ChmodAsUser,
    UnlinkAsUser,
}

/// Every operation of the workload, for the table of what was reached.
pub const OPERATIONS: &[&str] = &[
    "lookup",
    "create",
    "mkdir",
    "mknod",
    "symlink",
    "readlink",
    "link",
    "unlink",
    "rmdir",
    "rename",
    "exchange",
    "getattr",
    "setattr",
    "truncate",
    "getxattr",
    "setxattr",
    "removexattr",
    "listxattr",
    "readdir",
    "open",
    "close",
    "read",
    "write",
    "append",
    "fsync",
    "punch",
    "zero",
    "extend",
    "lock",
    "wait for lock",
    "seek",
    "copy",
    "access",
    "user's open",
    "user's chmod",
    "user's rm",
];

pub(super) fn remember(list: &mut Vec<u64>, ino: u64) {
    if !list.contains(&ino) {
        list.push(ino);
        if list.len() > KNOWN_MAX {
            // The root, if it is a list of directories, stays.
            list.remove(1);
        }
    }
}

impl Worker {
    pub(super) fn directory(&mut self) -> u64 {
        // The root often, so that clients meet.
        if self.rng.once_in(2) {
            return self.directories[0];
        }
        *self
            .rng
            .choose(&self.directories)
            .expect("the root is always there")
    }

    pub(super) fn name(&mut self, for_directory: bool) -> Vec<u8> {
        let letter = b'a' + self.rng.below(if for_directory { 3 } else { 5 }) as u8;
        if for_directory != self.rng.once_in(8) {
            vec![b'd', letter]
        } else {
            vec![letter]
        }
    }

    /// A name that is probably there, or any.
    pub(super) fn existing(&mut self) -> (u64, Vec<u8>) {
        let names: Vec<(u64, Vec<u8>)> = self.names.keys().cloned().collect();
        if !self.rng.once_in(5)
            && let Some(found) = self.rng.choose(&names)
        {
            return found.clone();
        }
        let directory = self.rng.once_in(4);
        (self.directory(), self.name(directory))
    }

    pub(super) fn inode(&mut self) -> u64 {
        let mut all = self.files.clone();
        all.extend(&self.directories);
        all.extend(&self.symlinks);
        *self.rng.choose(&all).expect("the root is always there")
    }

    pub(super) fn learn(&mut self, parent: u64, name: &[u8], reply: &Reply) {
        match reply {
            Reply::Entry(seen) => {
                self.names.insert((parent, name.to_vec()), seen.ino);
                match seen.kind {
                    Kind::Directory => remember(&mut self.directories, seen.ino),
                    Kind::File => remember(&mut self.files, seen.ino),
                    Kind::Symlink => remember(&mut self.symlinks, seen.ino),
                    Kind::Fifo => {}
                }
            }
            Reply::Absent => {
                self.names.remove(&(parent, name.to_vec()));
            }
            Reply::Error(libc::ENOENT | libc::ESTALE) => {
                self.names.remove(&(parent, name.to_vec()));
            }
            _ => {}
        }
    }

    /// An inode has gone: there is little use in asking for it again and again.
    pub(super) fn forget(&mut self, ino: u64, reply: &Reply) {
        if matches!(reply, Reply::Error(libc::ENOENT | libc::ESTALE)) && self.rng.once_in(2) {
            self.files.retain(|&file| file != ino);
            self.symlinks.retain(|&link| link != ino);
            let root = self.directories[0];
            self.directories
                .retain(|&directory| directory == root || directory != ino);
            self.names.retain(|_, named| *named != ino);
        }
    }

    pub(super) fn offset(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(FILE_BYTES / 4096) * 4096,
            2 => self.rng.below(8192),
            _ => self.rng.below(FILE_BYTES),
        }
    }

    pub(super) fn length(&mut self) -> u64 {
        match self.rng.below(8) {
            0..=3 => 1 + self.rng.below(5_000),
            4..=5 => 4096 * (1 + self.rng.below(8)),
            6 => 1 + self.rng.below(100_000),
            _ => 65_536,
        }
    }
}
