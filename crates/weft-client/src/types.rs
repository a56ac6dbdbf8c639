//! What the client's callers (faces and tools) pass in and get back.

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use weft_wire::proto;

pub use weft_wire::proto::file_lock::Kind as LockKind;
pub use weft_wire::proto::{Attr, Cred, FileKind, FileLock, Policy, SetOpen, Time};

/// The answer an application gets: a Linux errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("errno {0}")]
pub struct Errno(pub i32);

/// What every operation returns.
pub type Result<T> = std::result::Result<T, Errno>;

/// Names an open file or directory of this client; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandleId(pub u64);

/// Attributes, and whether a lease covers them: only then may the face (or its kernel) keep them
/// until [`Invalidator`] says otherwise; else they are true only now.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Size and times include what is still buffered here.
    pub attr: Attr,
    /// May be kept.
    pub leased: bool,
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// None if the name does not exist.
    pub entry: Option<Known>,
    /// The name (or its absence) may be kept until [`Invalidator::names`] of the directory.
    pub name_leased: bool,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The metadata server's time when it makes the change.
    Now,
    /// This one.
    At(Time),
}

/// Attributes to set; None stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits (0o7777).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Time of last access.
    pub atime: Option<SetTime>,
    /// Time of last modification.
    pub mtime: Option<SetTime>,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// O_RDONLY or O_RDWR.
    pub read: bool,
    /// O_WRONLY or O_RDWR.
    pub write: bool,
    /// O_APPEND: every write goes to the end of the file, whoever else writes.
    pub append: bool,
    /// O_TRUNC.
    pub truncate: bool,
    /// O_SYNC or O_DSYNC: a write returns when it is on both members.
    pub sync: bool,
    /// It is read to be run: whoever may execute it may open it so.
    pub execute: bool,
    /// O_NOATIME: reading it leaves its time of access alone.
    pub keep_atime: bool,
}

/// How a file is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateFlags {
    /// O_EXCL: fail with EEXIST if the name is there.
    pub exclusive: bool,
    /// How it is opened; `truncate` cuts an existing file.
    pub open: OpenFlags,
}

/// How a rename treats an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// RENAME_NOREPLACE.
    pub no_replace: bool,
    /// RENAME_EXCHANGE.
    pub exchange: bool,
    /// RENAME_WHITEOUT: the old name stands for a character device 0:0 then. EXDEV where several groups would have to
    /// do it.
    pub whiteout: bool,
}

/// What fallocate does to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Mode 0: the file is at least offset + length long; nothing is set aside.
    Extend,
    /// FALLOC_FL_KEEP_SIZE: nothing to do, since nothing is set aside.
    KeepSize,
    /// FALLOC_FL_PUNCH_HOLE | KEEP_SIZE: the range reads as zeros and holds no blocks.
    PunchHole,
    /// FALLOC_FL_ZERO_RANGE, with or without KEEP_SIZE.
    ZeroRange {
        /// Do not make the file longer.
        keep_size: bool,
    },
}

/// What lseek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// SEEK_HOLE.
    Hole,
    /// SEEK_DATA.
    Data,
}

/// A part of what is read with its holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes, one part after the other.
    Data(Vec<bytes::Bytes>),
    /// So many bytes of which none was written: they are zeros.
    Hole(u64),
}

/// How setxattr treats an existing attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrFlags {
    /// Make or replace.
    Any,
    /// XATTR_CREATE.
    Create,
    /// XATTR_REPLACE.
    Replace,
}

/// One entry of a directory. `.` and `..` are among them (cookies 1 and 2).
#[derive(Clone, Debug, PartialEq)]
pub struct DirEntry {
    /// Its name.
    pub name: bytes::Bytes,
    /// Its inode.
    pub ino: u64,
    /// What it is.
    pub kind: FileKind,
    /// Where to go on after it; below 2^63.
    pub cookie: u64,
    /// Attributes as of when it is told, if they were asked for and can be had; not for `.` and `..`.
    pub known: Option<Known>,
    /// A lease covers that the name stands for the inode: only then may the face keep that.
    pub name_leased: bool,
}

/// Room in the cluster, in bytes of one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub total_bytes: u64,
    /// Not used.
    pub free_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
}

/// What a client counts, for its face's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes written by applications that wait here for the data servers.
    pub buffered_bytes: u64,
    /// Of these, bytes that one data server alone is known to have.
    pub owed_bytes: u64,
    /// Inodes that are kept.
    pub cached_inodes: u64,
    /// Requests that were sent to the metadata service since the client began, renewals left out.
    pub requests: u64,
    /// Revocations of the metadata service that were answered since the client began.
    pub revocations: u64,
}

/// Where a write has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of its first byte in the file: for an append, where the end was.
    pub offset: u64,
    /// Bytes, less than given only at the largest size of a file.
    pub length: usize,
}

/// The face's cache (the kernel's, for FUSE). Called before a lease is given back; the lease goes
/// when the future has ended. Reads and writes that reach the client meanwhile are served under the
/// old lease, or wait for the next one.
pub trait Invalidator {
    /// Forget the attributes of an inode; with `data` also its pages and, for a symlink, its target.
    /// False: pages that reads and writes in progress hold were left out, so that nothing waits for
    /// these. When no use of the lease is in progress it is called again; what is held then waits
    /// for another lease, and the face forgets it when that is over.
    fn inode(&self, ino: u64, data: bool) -> LocalBoxFuture<'static, bool>;
    /// Forget what names the directory holds and lacks.
    fn names(&self, dir: u64) -> LocalBoxFuture<'static, ()>;
    /// Forget all that was ever given: the term of a session has passed, and others may be changing what was leased under
    /// it. As with [`Invalidator::inode`], nothing waits for what reads and writes in progress hold.
    fn everything(&self) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }
    /// A file that is written alone here is about to be read or written by others: what the face's own clients keep of
    /// it unwritten comes as writes before the future ends, and nothing more of the kind after it. The service is told
    /// meanwhile that the lease is being given back, so the face sees to it that this ends.
    fn write_back(&self, ino: u64) -> LocalBoxFuture<'static, ()> {
        let _ = ino;
        std::future::ready(()).boxed_local()
    }
    /// Others ask how large a file is that is written alone here: what it is with what the face's own clients keep of
    /// it unwritten. None: they keep nothing. As [`Invalidator::write_back`], the face sees to it that this ends.
    fn size(&self, ino: u64) -> LocalBoxFuture<'static, Option<u64>> {
        let _ = ino;
        std::future::ready(None).boxed_local()
    }
    /// An inode has lost its last name, or is about to: `here`, by this client. The face's own clients may know it still.
    fn departs(&self, ino: u64, here: bool) {
        let _ = (ino, here);
    }
    /// They may come with an inode's number though it has no name, and [`Client::face_forgot`](crate::Client::face_forgot)
    /// will be called when they cannot any more.
    fn has(&self, ino: u64) -> bool {
        let _ = ino;
        false
    }
}

/// For tools: a file's place and state.
pub type Explained = proto::ExplainReply;
/// For tools: the cluster's state.
pub type Status = proto::StatusReply;
