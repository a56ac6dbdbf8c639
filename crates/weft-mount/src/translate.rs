//! The kernel's numbers to the client's types and back. Pure.

use crate::abi::{AttrOut, LockIn, SetattrIn, fattr, fopen};
use crate::errno;
use weft_client::*;

/// Permission, set-id and sticky bits.
pub const MODE_BITS: u32 = 0o7777;

/// The file type bits of a mode.
pub fn mode_of(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
        // Not sent by any server of this version; the kernel takes it for an I/O error.
        FileKind::Unspecified => 0,
    }
}

/// What mknod is to make; None for what it cannot.
pub fn kind_of(mode: u32) -> Option<FileKind> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Some(FileKind::Regular),
        libc::S_IFIFO => Some(FileKind::Fifo),
        libc::S_IFSOCK => Some(FileKind::Socket),
        libc::S_IFCHR => Some(FileKind::CharDevice),
        libc::S_IFBLK => Some(FileKind::BlockDevice),
        _ => None,
    }
}

/// Attributes for the kernel.
pub fn attr_out(attr: &Attr) -> AttrOut {
    let time = |time: Option<&Time>| time.map_or((0, 0), |time| (time.seconds, time.nanos));
    AttrOut {
        ino: attr.ino,
        shown: attr.ino,
        size: attr.size,
        blocks: attr.allocated.div_ceil(512),
        atime: time(attr.atime.as_ref()),
        mtime: time(attr.mtime.as_ref()),
        ctime: time(attr.ctime.as_ref()),
        mode: mode_of(attr.kind()) | attr.mode & MODE_BITS,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
    }
}

/// The mode without set-id bits as a write clears them: set-user-id always, set-group-id where the
/// group may execute (else it means something else). None if nothing changes.
pub fn without_set_id(mode: u32) -> Option<u32> {
    let mut cleared = mode & !libc::S_ISUID;
    if mode & libc::S_IXGRP != 0 {
        cleared &= !libc::S_ISGID;
    }
    (cleared != mode).then_some(cleared & MODE_BITS)
}

/// What the kernel opens a program with, beside O_RDONLY, to run it (open(2) cannot).
const FMODE_EXEC: i32 = 0x20;

/// How a file is opened. O_APPEND is not passed on: it can be changed while the file is open, and
/// pages of a mapping are written by their place, so that each write says whether it appends.
pub fn open_flags(flags: u32) -> OpenFlags {
    let flags = flags as i32;
    let access = flags & libc::O_ACCMODE;
    OpenFlags {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        append: false,
        truncate: flags & libc::O_TRUNC != 0,
        sync: flags & libc::O_DSYNC != 0,
        execute: flags & FMODE_EXEC != 0,
        keep_atime: flags & libc::O_NOATIME != 0,
    }
}

/// How the kernel is to treat an open file. `is_written`: it
/// probably becomes longer while it is open, and not by way of the page cache.
pub fn fopen_flags(flags: u32, is_written: bool) -> u32 {
    if is_written || flags as i32 & libc::O_APPEND != 0 {
        // Where an append lands is known when it has been done: the page cache would put it where
        // the kernel believes the end to be.
        fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES | fopen::KEEP_CACHE
    } else {
        fopen::KEEP_CACHE
    }
}

/// How a rename treats its target.
///
/// # Errors
/// EINVAL for flags that are unknown or exclude each other.
pub fn rename_flags(flags: u32) -> Result<RenameFlags> {
    let parsed = RenameFlags {
        no_replace: flags & libc::RENAME_NOREPLACE != 0,
        exchange: flags & libc::RENAME_EXCHANGE != 0,
        whiteout: flags & libc::RENAME_WHITEOUT != 0,
    };
    let known = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
    let excluded = parsed.exchange && (parsed.no_replace || parsed.whiteout);
    if flags & !known != 0 || excluded {
        return Err(Errno(libc::EINVAL));
    }
    Ok(parsed)
}

/// What a setattr changes.
///
/// # Errors
/// EINVAL for a time with a second's worth of nanoseconds or more.
pub fn set_attr(set: &SetattrIn) -> Result<SetAttr> {
    let given = |bit: u32| set.valid & bit != 0;
    let time = |bit: u32, now: u32, (seconds, nanos): (i64, u32)| -> Result<Option<SetTime>> {
        if !given(bit) {
            return Ok(None);
        }
        if given(now) {
            return Ok(Some(SetTime::Now));
        }
        if nanos >= 1_000_000_000 {
            return Err(Errno(libc::EINVAL));
        }
        Ok(Some(SetTime::At(Time { seconds, nanos })))
    };
    Ok(SetAttr {
        mode: given(fattr::MODE).then_some(set.mode & MODE_BITS),
        uid: given(fattr::UID).then_some(set.uid),
        gid: given(fattr::GID).then_some(set.gid),
        size: given(fattr::SIZE).then_some(set.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, set.atime)?,
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime)?,
    })
}

/// What fallocate does.
///
/// # Errors
/// EOPNOTSUPP for collapsing, inserting and unsharing.
pub fn allocate(mode: u32) -> Result<Allocate> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH_KEEP: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP: i32 = ZERO | KEEP;
    match mode as i32 {
        0 => Ok(Allocate::Extend),
        KEEP => Ok(Allocate::KeepSize),
        PUNCH_KEEP => Ok(Allocate::PunchHole),
        ZERO => Ok(Allocate::ZeroRange { keep_size: false }),
        ZERO_KEEP => Ok(Allocate::ZeroRange { keep_size: true }),
        _ => Err(errno::UNSUPPORTED),
    }
}

/// What lseek looks for; the kernel does the other kinds itself.
///
/// # Errors
/// EINVAL for those.
pub fn seek(whence: u32) -> Result<Seek> {
    match whence as i32 {
        libc::SEEK_DATA => Ok(Seek::Data),
        libc::SEEK_HOLE => Ok(Seek::Hole),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// How setxattr treats an existing attribute.
///
/// # Errors
/// EINVAL for both flags or others.
pub fn xattr_flags(flags: u32) -> Result<XattrFlags> {
    match flags as i32 {
        0 => Ok(XattrFlags::Any),
        libc::XATTR_CREATE => Ok(XattrFlags::Create),
        libc::XATTR_REPLACE => Ok(XattrFlags::Replace),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// `system.*` is how ACLs are asked for, which Weft does not have; labels of SELinux (`security.selinux`) are the
/// kernel's own where it has them switched on, and told by the options of a mount, and without effect where not. Both are
/// asked for by `ls -l`, which asks no more once it is told that there are none: an attribute that is only not set it
/// asks for with every file.
///
/// # Errors
/// EOPNOTSUPP.
pub fn refuse_foreign_attributes(name: &[u8]) -> Result<()> {
    if name.starts_with(b"system.") || name == b"security.selinux" {
        return Err(errno::UNSUPPORTED);
    }
    Ok(())
}

/// A lock for the client.
///
/// # Errors
/// EINVAL for a kind that does not exist.
pub fn file_lock(lock: &LockIn) -> Result<FileLock> {
    let kind = match lock.kind {
        libc::F_RDLCK => proto_lock::Shared,
        libc::F_WRLCK => proto_lock::Exclusive,
        libc::F_UNLCK => proto_lock::Unlock,
        _ => return Err(Errno(libc::EINVAL)),
    };
    Ok(FileLock {
        kind: kind.into(),
        flock: lock.flock,
        owner: lock.owner,
        start: lock.start,
        // The kernel's end of the file is i64::MAX (OFFSET_MAX).
        last: if lock.end >= i64::MAX as u64 {
            u64::MAX
        } else {
            lock.end
        },
        pid: lock.pid,
        ..FileLock::default()
    })
}

use weft_wire::proto::file_lock::Kind as proto_lock;

/// The kernel's name for a lock's kind.
pub fn lock_kind_out(lock: &FileLock) -> i32 {
    match lock.kind() {
        proto_lock::Shared => libc::F_RDLCK,
        proto_lock::Exclusive => libc::F_WRLCK,
        proto_lock::Unlock => libc::F_UNLCK,
    }
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
