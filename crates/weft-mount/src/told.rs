//! What the kernel was told of inodes and has not forgotten: it may come with their numbers. Pure.

use crate::translate::mode_of;
use std::time::Duration;
use weft_client::{Attr, FileKind};
use weft_env::Mono;
use weft_types::FixedMap;

/// A thread of the kernel's takes a reply within this: it makes the inodes and links the names that it was told.
const TAKING: Duration = Duration::from_millis(50);

/// For how long what was answered then may still be taken; none: it has been.
pub fn is_taking(answered: Mono, now: Mono) -> Option<Duration> {
    let taken = answered + TAKING;
    (taken > now).then(|| taken.since(now))
}

/// An inode that the kernel knows. Small: there may be millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// How often it was told.
    count: u64,
    /// And when last.
    at: Mono,
    /// Kind and permissions, owner and device: what is left to say of it when it is gone.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
}

impl Told {
    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// The kernel may be about to make it: for so long.
    pub fn is_making(&self, now: Mono) -> Option<Duration> {
        is_taking(self.at, now)
    }

    /// The attributes of an inode that is gone.
    pub fn gone(&self, ino: u64) -> Attr {
        let kinds = [
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Fifo,
            FileKind::Socket,
            FileKind::CharDevice,
            FileKind::BlockDevice,
        ];
        let is_kind = |kind: &FileKind| mode_of(*kind) == self.mode & libc::S_IFMT;
        let kind = kinds.into_iter().find(is_kind).unwrap_or_default();
        Attr {
            ino,
            kind: kind as i32,
            mode: self.mode & !libc::S_IFMT,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            ..Attr::default()
        }
    }
}

/// All that the kernel knows.
#[derive(Default)]
pub struct ToldInodes(FixedMap<u64, Told>);

impl ToldInodes {
    /// The kernel is being told of an inode, so often more.
    pub fn tell(&mut self, attr: &Attr, more: u64, now: Mono) {
        let (before, at) = match self.0.get(&attr.ino) {
            Some(told) => (told.count, told.at),
            None => (0, now),
        };
        let count = before + more;
        if count > 0 {
            let told = Told {
                count,
                at: if more > 0 { now } else { at },
                mode: mode_of(attr.kind()) | attr.mode & !libc::S_IFMT,
                uid: attr.uid,
                gid: attr.gid,
                rdev: attr.rdev,
            };
            self.0.insert(attr.ino, told);
        }
    }

    /// The kernel has forgotten so many tellings of it. True: it does not know it any more.
    pub fn forget(&mut self, ino: u64, count: u64) -> bool {
        let Some(told) = self.0.get_mut(&ino) else {
            return false;
        };
        told.count = told.count.saturating_sub(count);
        let is_last = told.count == 0;
        if is_last {
            self.0.remove(&ino);
        }
        is_last
    }

    /// What it knows of an inode.
    pub fn get(&self, ino: u64) -> Option<Told> {
        self.0.get(&ino).copied()
    }

    /// The inodes that it knows, in no order.
    pub fn inodes(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }

    /// How many inodes it knows.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_known_until_all_that_was_told_is_forgotten() {
        let mut told = ToldInodes::default();
        let attr = Attr {
            ino: 7,
            kind: FileKind::Fifo as i32,
            mode: 0o640,
            uid: 3,
            ..Attr::default()
        };
        let at = |ms| Mono::default() + Duration::from_millis(ms);
        told.tell(&attr, 0, at(0));
        assert_eq!(told.get(7), None);
        told.tell(&attr, 1, at(1));
        told.tell(&attr, 1, at(2));
        // Attributes alone are no telling.
        let changed = Attr {
            mode: 0o600,
            ..attr
        };
        told.tell(&changed, 0, at(40));
        let making = |ms| told.get(7).and_then(|told| told.is_making(at(ms)));
        assert_eq!(making(51), Some(Duration::from_millis(1)));
        assert_eq!(making(52), None);
        assert!(!told.forget(7, 1));
        assert_eq!(told.get(7).map(|told| told.gone(7)), Some(changed));
        assert!(told.forget(7, 1));
        assert!(!told.forget(7, 1));
        assert_eq!((told.get(7), told.len()), (None, 0));
    }
}
