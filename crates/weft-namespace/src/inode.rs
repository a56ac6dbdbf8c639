//! What is kept for one inode, made small: a name space is as large as the memory of its servers.

use crate::directory::Directory;
use crate::layouts::Shape;
use std::rc::Rc;
use weft_types::{Ino, ObjectId};
use weft_wire::proto::{self, FileKind};

/// Nanoseconds in a second: `Stamp::nanos` is below it.
pub(crate) const NANOS: u32 = 1_000_000_000;

/// A point of time, packed: three of them are in each inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Stamp {
    seconds: i64,
    nanos: u32,
}

impl Stamp {
    /// The active's clock as it stands in an entry. A malformed or absent one is bent, not refused:
    /// an entry that is in the journal has to have one outcome.
    pub(crate) fn of_entry(time: Option<&proto::Time>) -> Stamp {
        time.map_or(Stamp::default(), |t| Stamp {
            seconds: t.seconds,
            nanos: t.nanos.min(NANOS - 1),
        })
    }

    /// A time that a caller or an image names. None if it is none.
    pub(crate) fn new(time: &proto::Time) -> Option<Stamp> {
        (time.nanos < NANOS).then_some(Stamp {
            seconds: time.seconds,
            nanos: time.nanos,
        })
    }

    pub(crate) fn to_proto(self) -> proto::Time {
        proto::Time {
            seconds: self.seconds,
            nanos: self.nanos,
        }
    }
}

/// One inode. About 100 bytes; what few inodes have (xattrs, locks, leases, holds, trims) stands in
/// tables of [`crate::State`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Inode {
    /// 0o7777.
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: Stamp,
    pub mtime: Stamp,
    pub ctime: Stamp,
    pub change: u64,
    pub body: Body,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Body {
    File(File),
    Directory(Box<Directory>),
    Symlink(Box<[u8]>),
    Fifo,
    Socket,
    CharDevice(u32),
    BlockDevice(u32),
}

/// A regular file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct File {
    pub size: u64,
    pub allocated: u64,
    pub shape: Rc<Shape>,
    pub generation: u32,
    /// Somebody has held the write lease since this generation began, so there may be objects.
    pub exposed: bool,
}

/// What a directory's size is shown as: entries have no size that would mean anything.
const DIRECTORY_SIZE: u64 = 4096;

impl Inode {
    pub(crate) fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::Regular,
            Body::Directory(_) => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Fifo => FileKind::Fifo,
            Body::Socket => FileKind::Socket,
            Body::CharDevice(_) => FileKind::CharDevice,
            Body::BlockDevice(_) => FileKind::BlockDevice,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    /// The content or the entries changed.
    pub(crate) fn touch_content(&mut self, now: Stamp) {
        self.mtime = now;
        self.touch(now);
    }

    /// The inode changed.
    pub(crate) fn touch(&mut self, now: Stamp) {
        self.ctime = now;
        self.change += 1;
    }

    pub(crate) fn attr(&self, ino: Ino) -> proto::Attr {
        let (size, allocated, rdev) = match &self.body {
            Body::File(file) => (file.size, file.allocated, 0),
            Body::Directory(_) => (DIRECTORY_SIZE, 0, 0),
            Body::Symlink(target) => (target.len() as u64, 0, 0),
            Body::Fifo | Body::Socket => (0, 0, 0),
            Body::CharDevice(rdev) | Body::BlockDevice(rdev) => (0, 0, *rdev),
        };
        proto::Attr {
            ino: ino.0,
            kind: self.kind() as i32,
            mode: u32::from(self.mode),
            nlink: self.nlink.saturating_sub(self.shards().len() as u32),
            uid: self.uid,
            gid: self.gid,
            size,
            atime: Some(self.atime.to_proto()),
            mtime: Some(self.mtime.to_proto()),
            ctime: Some(self.ctime.to_proto()),
            rdev,
            allocated,
            change: self.change,
            shards: self.shards().len() as u32,
        }
    }

    /// The shards of a directory that is spread; none else.
    pub(crate) fn shards(&self) -> &[Ino] {
        match &self.body {
            Body::Directory(directory) => directory.role.shards(),
            _ => &[],
        }
    }

    /// Regular files have one.
    pub(crate) fn layout(&self) -> Option<proto::Layout> {
        match &self.body {
            Body::File(file) => Some(file.shape.to_proto(file.generation)),
            _ => None,
        }
    }
}

impl File {
    pub(crate) fn object(&self, ino: Ino) -> ObjectId {
        ObjectId {
            ino,
            generation: self.generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_small() {
        assert_eq!(size_of::<Stamp>(), 12);
        assert!(size_of::<Inode>() <= 104, "{}", size_of::<Inode>());
    }

    #[test]
    fn times_with_too_many_nanoseconds_are_none() {
        assert!(
            Stamp::new(&proto::Time {
                seconds: 1,
                nanos: NANOS
            })
            .is_none()
        );
        let bent = Stamp::of_entry(Some(&proto::Time {
            seconds: 1,
            nanos: u32::MAX,
        }));
        assert_eq!(
            bent.to_proto(),
            proto::Time {
                seconds: 1,
                nanos: NANOS - 1
            }
        );
    }
}
