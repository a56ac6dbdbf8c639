//! The kernel's FUSE messages: bytes in, [`Call`]s out, replies encoded. No device, no client.
//!
//! The numbers are those of `include/uapi/linux/fuse.h` of Linux 6.18 (protocol 7.45). All fields
//! are in the machine's own byte order. What the kernel sends is input like any other: a message
//! that is too short or has no end of name is refused, never asserted.
//!
//! Called by `device.rs` (header), `fs.rs` (calls and replies) and `invalidate.rs` (notifications).

use bytes::Bytes;

/// Protocol version that this face speaks. The kernel lowers it to its own.
pub const MAJOR: u32 = 7;
/// See [`MAJOR`].
pub const MINOR: u32 = 45;
/// Oldest minor version that is served: 7.31 (Linux 5.4) has everything a reply here contains.
pub const MINOR_MIN: u32 = 31;
/// First minor version whose kernel knows [`NOTIFY_INC_EPOCH`].
pub const MINOR_EPOCH: u32 = 44;
/// First minor version whose kernel knows [`NOTIFY_PRUNE`].
pub const MINOR_PRUNE: u32 = 45;

/// Bytes of the header of a request.
pub const IN_HEADER: usize = 40;
/// Bytes of the header of a reply.
pub const OUT_HEADER: usize = 16;
/// Bytes between the header of a WRITE request and its data.
pub const WRITE_IN: usize = 40;

/// Notification: attributes and pages of an inode are void.
pub const NOTIFY_INVAL_INODE: i32 = 2;
/// Notification: all names looked up before now are void.
pub const NOTIFY_INC_EPOCH: i32 = 8;

/// Notification: names that nobody uses of these inodes are dropped, and the inodes with them.
pub const NOTIFY_PRUNE: i32 = 9;

/// Flags of INIT.
pub mod init {
    /// Reads of one file may be in flight together.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// fcntl locks are asked from us.
    pub const POSIX_LOCKS: u64 = 1 << 1;
    /// Lookups of `.` and `..` are answered: handles of an NFS export survive a restart.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// flock locks are asked from us.
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    /// READDIRPLUS exists.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// The kernel chooses between READDIR and READDIRPLUS by what is done with the names.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Direct reads and writes of one file may be in flight together.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Lookups and listings of one directory may be in flight together.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// `max_pages` counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links are cached.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Pages are dropped only when told (or on truncation), not when mtime changes.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// Set-id bits are cleared by us, at writes that say so.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// The upper half of the flags counts.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Files opened with O_DIRECT may be mapped shared.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Flags of an answered open.
pub mod fopen {
    /// Reads and writes pass the page cache by.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Pages cached before the open stay.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// The kernel may cache the listing.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// Direct writes of one file may be in flight together.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Bits of `SetattrIn::valid`.
pub mod fattr {
    /// Mode is given.
    pub const MODE: u32 = 1 << 0;
    /// Owner is given.
    pub const UID: u32 = 1 << 1;
    /// Group is given.
    pub const GID: u32 = 1 << 2;
    /// Size is given.
    pub const SIZE: u32 = 1 << 3;
    /// Access time is given.
    pub const ATIME: u32 = 1 << 4;
    /// Modification time is given.
    pub const MTIME: u32 = 1 << 5;
    /// The file handle is given.
    pub const FH: u32 = 1 << 6;
    /// Access time is now.
    pub const ATIME_NOW: u32 = 1 << 7;
    /// Modification time is now.
    pub const MTIME_NOW: u32 = 1 << 8;
    /// Set-id bits are to be cleared as a write does.
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// READ is for a program's own memory: it names whose locks count for it. One that fills pages of the kernel, for a program
/// or for a mapping, names nobody.
pub const READ_LOCKOWNER: u32 = 1 << 1;
/// WRITE comes from dirty pages, not from a write call.
pub const WRITE_CACHE: u32 = 1 << 0;
/// WRITE: set-id bits are to be cleared.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// CREATE with O_TRUNC: set-id bits are to be cleared.
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// RELEASE: flock locks of the owner end.
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// FSYNC: only data.
pub const FSYNC_DATA: u32 = 1 << 0;
/// Lock requests: flock, not fcntl.
pub const LK_FLOCK: u32 = 1 << 0;
/// GETATTR: the file handle is given.
pub const GETATTR_FH: u32 = 1 << 0;

/// The message breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed FUSE message")]
pub struct Malformed;

/// What every request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message.
    pub length: u32,
    /// Which operation.
    pub opcode: u32,
    /// Names the request until it is answered.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    /// Who asks.
    pub uid: u32,
    /// Who asks.
    pub gid: u32,
    /// The thread that asks; 0 if it is not visible from here, or for the kernel itself.
    pub pid: u32,
}

impl Header {
    /// Decodes the first [`IN_HEADER`] bytes.
    ///
    /// # Errors
    /// Too short, or the length in it is not the message's.
    pub fn decode(message: &[u8]) -> Result<Header, Malformed> {
        let mut fields = Fields(message);
        let header = Header {
            length: fields.u32()?,
            opcode: fields.u32()?,
            unique: fields.u64()?,
            node: fields.u64()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
            pid: fields.u32()?,
        };
        fields.u32()?;
        if header.length as usize == message.len() {
            Ok(header)
        } else {
            Err(Malformed)
        }
    }
}

/// Operation numbers that other modules must know before decoding.
pub mod opcode {
    /// First message of a mount.
    pub const INIT: u32 = 26;
    /// Bytes for a file; the only message with a payload worth not copying.
    pub const WRITE: u32 = 16;
}

/// What SETATTR changes; `valid` has [`fattr`] bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetattrIn {
    pub valid: u32,
    pub fh: u64,
    pub size: u64,
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// A lock as the kernel describes it: F_RDLCK, F_WRLCK or F_UNLCK on `start..=end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockIn {
    /// The kernel's lock owner.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte; i64::MAX for the end of the file.
    pub end: u64,
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub kind: i32,
    /// The process.
    pub pid: u32,
    /// flock, not fcntl.
    pub flock: bool,
}

/// What INIT offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct InitIn {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
    Lookup {
        name: Bytes,
    },
    /// Pairs of inode and count of lookups to be forgotten. Not answered.
    Forget(Vec<(u64, u64)>),
    Getattr {
        fh: Option<u64>,
    },
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: Bytes,
        target: Bytes,
    },
    Mknod {
        name: Bytes,
        mode: u32,
        rdev: u32,
    },
    Mkdir {
        name: Bytes,
        mode: u32,
    },
    Unlink {
        name: Bytes,
    },
    Rmdir {
        name: Bytes,
    },
    Rename {
        name: Bytes,
        new_parent: u64,
        new_name: Bytes,
        flags: u32,
    },
    Link {
        ino: u64,
        name: Bytes,
    },
    Open {
        flags: u32,
    },
    Read {
        fh: u64,
        offset: u64,
        size: u32,
        flags: u32,
    },
    Write {
        fh: u64,
        offset: u64,
        flags: u32,
        open_flags: u32,
        data: Bytes,
    },
    Statfs,
    Release {
        fh: u64,
        flags: u32,
        lock_owner: u64,
    },
    Fsync {
        fh: u64,
        data_only: bool,
    },
    Setxattr {
        name: Bytes,
        value: Bytes,
        flags: u32,
    },
    Getxattr {
        name: Bytes,
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: Bytes,
    },
    Flush {
        fh: u64,
        lock_owner: u64,
    },
    Init(InitIn),
    Opendir {
        flags: u32,
    },
    Readdir {
        fh: u64,
        offset: u64,
        size: u32,
        plus: bool,
    },
    Releasedir {
        fh: u64,
    },
    Fsyncdir {
        fh: u64,
    },
    Getlk {
        fh: u64,
        lock: LockIn,
    },
    Setlk {
        fh: u64,
        lock: LockIn,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    Create {
        name: Bytes,
        flags: u32,
        mode: u32,
        kill_suidgid: bool,
    },
    /// A file without a name, opened.
    Tmpfile {
        flags: u32,
        mode: u32,
    },
    /// The request of that number has a signal pending. Not answered.
    Interrupt {
        unique: u64,
    },
    Destroy,
    Fallocate {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        fh: u64,
        offset: u64,
        whence: u32,
    },
    CopyFileRange(CopyIn),
    /// Anything that this face does not serve; answered ENOSYS once, then the kernel knows.
    Unknown(u32),
}

impl Call {
    /// For metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Lookup { .. } => "lookup",
            Call::Forget(_) => "forget",
            Call::Getattr { .. } => "getattr",
            Call::Setattr(_) => "setattr",
            Call::Readlink => "readlink",
            Call::Symlink { .. } => "symlink",
            Call::Mknod { .. } => "mknod",
            Call::Mkdir { .. } => "mkdir",
            Call::Unlink { .. } => "unlink",
            Call::Rmdir { .. } => "rmdir",
            Call::Rename { .. } => "rename",
            Call::Link { .. } => "link",
            Call::Open { .. } => "open",
            Call::Read { .. } => "read",
            Call::Write { .. } => "write",
            Call::Statfs => "statfs",
            Call::Release { .. } => "release",
            Call::Fsync { .. } => "fsync",
            Call::Setxattr { .. } => "setxattr",
            Call::Getxattr { .. } => "getxattr",
            Call::Listxattr { .. } => "listxattr",
            Call::Removexattr { .. } => "removexattr",
            Call::Flush { .. } => "flush",
            Call::Init(_) => "init",
            Call::Opendir { .. } => "opendir",
            Call::Readdir { .. } => "readdir",
            Call::Releasedir { .. } => "releasedir",
            Call::Fsyncdir { .. } => "fsyncdir",
            Call::Getlk { .. } => "getlk",
            Call::Setlk { .. } => "setlk",
            Call::Access { .. } => "access",
            Call::Create { .. } => "create",
            Call::Tmpfile { .. } => "tmpfile",
            Call::Interrupt { .. } => "interrupt",
            Call::Destroy => "destroy",
            Call::Fallocate { .. } => "fallocate",
            Call::Lseek { .. } => "lseek",
            Call::CopyFileRange(_) => "copy_file_range",
            Call::Unknown(_) => "unknown",
        }
    }
}

/// COPY_FILE_RANGE. `wide`: the answer carries 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CopyIn {
    pub fh_in: u64,
    pub offset_in: u64,
    pub node_out: u64,
    pub fh_out: u64,
    pub offset_out: u64,
    pub length: u64,
    pub wide: bool,
}

/// Reads fields in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_ne_bytes)
    }

    fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(count..).ok_or(Malformed)?;
        Ok(())
    }

    /// A name: everything up to the next NUL.
    fn name(&mut self) -> Result<Bytes, Malformed> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(Malformed)?;
        let name = Bytes::copy_from_slice(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Ok(name)
    }

    fn bytes(&mut self, count: u32) -> Result<Bytes, Malformed> {
        let bytes = self.0.get(..count as usize).ok_or(Malformed)?;
        self.0 = &self.0[count as usize..];
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn lock(&mut self) -> Result<(u64, LockIn), Malformed> {
        let fh = self.u64()?;
        let owner = self.u64()?;
        let start = self.u64()?;
        let end = self.u64()?;
        let kind = self.u32()? as i32;
        let pid = self.u32()?;
        let flock = self.u32()? & LK_FLOCK != 0;
        let lock = LockIn {
            owner,
            start,
            end,
            kind,
            pid,
            flock,
        };
        Ok((fh, lock))
    }
}

impl Call {
    /// Decodes what follows the header. `write_data` is the payload of a WRITE that has been taken
    /// out of `body` without a copy; without it the payload is copied from `body`.
    ///
    /// # Errors
    /// Too short, or a name without end.
    pub fn decode(
        header: &Header,
        body: &[u8],
        write_data: Option<Bytes>,
    ) -> Result<Call, Malformed> {
        let mut f = Fields(body);
        Ok(match header.opcode {
            1 => Call::Lookup { name: f.name()? },
            2 => Call::Forget(vec![(header.node, f.u64()?)]),
            3 => {
                let flags = f.u32()?;
                f.u32()?;
                let fh = f.u64()?;
                Call::Getattr {
                    fh: (flags & GETATTR_FH != 0).then_some(fh),
                }
            }
            4 => Call::Setattr(decode_setattr(&mut f)?),
            5 => Call::Readlink,
            6 => Call::Symlink {
                name: f.name()?,
                target: f.name()?,
            },
            8 => {
                let mode = f.u32()?;
                let rdev = f.u32()?;
                f.skip(8)?;
                Call::Mknod {
                    name: f.name()?,
                    mode,
                    rdev,
                }
            }
            9 => {
                let mode = f.u32()?;
                f.u32()?;
                Call::Mkdir {
                    name: f.name()?,
                    mode,
                }
            }
            10 => Call::Unlink { name: f.name()? },
            11 => Call::Rmdir { name: f.name()? },
            12 => Call::Rename {
                new_parent: f.u64()?,
                flags: 0,
                name: f.name()?,
                new_name: f.name()?,
            },
            13 => Call::Link {
                ino: f.u64()?,
                name: f.name()?,
            },
            14 => {
                let flags = f.u32()?;
                // What to clear comes with the change of the size.
                f.u32()?;
                Call::Open { flags }
            }
            15 => {
                let (fh, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
                let flags = f.u32()?;
                // The owner of locks, and how the file was opened.
                f.u64()?;
                f.u32()?;
                Call::Read {
                    fh,
                    offset,
                    size,
                    flags,
                }
            }
            opcode::WRITE => {
                let fh = f.u64()?;
                let offset = f.u64()?;
                let size = f.u32()?;
                let flags = f.u32()?;
                f.u64()?;
                let open_flags = f.u32()?;
                f.u32()?;
                let data = match write_data {
                    Some(data) if data.len() == size as usize => data,
                    Some(_) => return Err(Malformed),
                    None => f.bytes(size)?,
                };
                Call::Write {
                    fh,
                    offset,
                    flags,
                    open_flags,
                    data,
                }
            }
            17 => Call::Statfs,
            18 => {
                let fh = f.u64()?;
                f.u32()?;
                Call::Release {
                    fh,
                    flags: f.u32()?,
                    lock_owner: f.u64()?,
                }
            }
            20 => Call::Fsync {
                fh: f.u64()?,
                data_only: f.u32()? & FSYNC_DATA != 0,
            },
            21 => {
                let size = f.u32()?;
                let flags = f.u32()?;
                Call::Setxattr {
                    name: f.name()?,
                    value: f.bytes(size)?,
                    flags,
                }
            }
            22 => {
                let size = f.u32()?;
                f.u32()?;
                Call::Getxattr {
                    name: f.name()?,
                    size,
                }
            }
            23 => Call::Listxattr { size: f.u32()? },
            24 => Call::Removexattr { name: f.name()? },
            25 => {
                let fh = f.u64()?;
                f.u64()?;
                Call::Flush {
                    fh,
                    lock_owner: f.u64()?,
                }
            }
            opcode::INIT => {
                let major = f.u32()?;
                let minor = f.u32()?;
                let max_readahead = f.u32()?;
                let mut flags = u64::from(f.u32()?);
                if flags & init::INIT_EXT != 0 {
                    flags |= u64::from(f.u32()?) << 32;
                }
                Call::Init(InitIn {
                    major,
                    minor,
                    max_readahead,
                    flags,
                })
            }
            27 => Call::Opendir { flags: f.u32()? },
            28 | 44 => Call::Readdir {
                fh: f.u64()?,
                offset: f.u64()?,
                size: f.u32()?,
                plus: header.opcode == 44,
            },
            29 => Call::Releasedir { fh: f.u64()? },
            30 => Call::Fsyncdir { fh: f.u64()? },
            31 => {
                let (fh, lock) = f.lock()?;
                Call::Getlk { fh, lock }
            }
            32 | 33 => {
                let (fh, lock) = f.lock()?;
                Call::Setlk {
                    fh,
                    lock,
                    wait: header.opcode == 33,
                }
            }
            34 => Call::Access { mask: f.u32()? },
            35 => {
                let flags = f.u32()?;
                let mode = f.u32()?;
                f.u32()?;
                let kill_suidgid = f.u32()? & OPEN_KILL_SUIDGID != 0;
                Call::Create {
                    name: f.name()?,
                    flags,
                    mode,
                    kill_suidgid,
                }
            }
            // As 35; the name is none.
            51 => Call::Tmpfile {
                flags: f.u32()?,
                mode: f.u32()?,
            },
            36 => Call::Interrupt { unique: f.u64()? },
            38 => Call::Destroy,
            42 => {
                let count = f.u32()?;
                f.u32()?;
                // The count is the kernel's word, the bytes are what bounds it.
                let room = f.0.len() / 16;
                if count as usize > room {
                    return Err(Malformed);
                }
                let mut all = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    all.push((f.u64()?, f.u64()?));
                }
                Call::Forget(all)
            }
            43 => Call::Fallocate {
                fh: f.u64()?,
                offset: f.u64()?,
                length: f.u64()?,
                mode: f.u32()?,
            },
            45 => {
                let new_parent = f.u64()?;
                let flags = f.u32()?;
                f.u32()?;
                Call::Rename {
                    new_parent,
                    flags,
                    name: f.name()?,
                    new_name: f.name()?,
                }
            }
            46 => Call::Lseek {
                fh: f.u64()?,
                offset: f.u64()?,
                whence: f.u32()?,
            },
            47 | 53 => Call::CopyFileRange(CopyIn {
                fh_in: f.u64()?,
                offset_in: f.u64()?,
                node_out: f.u64()?,
                fh_out: f.u64()?,
                offset_out: f.u64()?,
                length: f.u64()?,
                wide: header.opcode == 53,
            }),
            other => Call::Unknown(other),
        })
    }
}

fn decode_setattr(f: &mut Fields<'_>) -> Result<SetattrIn, Malformed> {
    let valid = f.u32()?;
    f.u32()?;
    let fh = f.u64()?;
    let size = f.u64()?;
    f.u64()?;
    let atime = f.u64()? as i64;
    let mtime = f.u64()? as i64;
    f.u64()?;
    let atime_nanos = f.u32()?;
    let mtime_nanos = f.u32()?;
    f.u32()?;
    let mode = f.u32()?;
    f.u32()?;
    Ok(SetattrIn {
        valid,
        fh,
        size,
        atime: (atime, atime_nanos),
        mtime: (mtime, mtime_nanos),
        mode,
        uid: f.u32()?,
        gid: f.u32()?,
    })
}

/// Attributes as `stat` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AttrOut {
    /// What requests name it by.
    pub ino: u64,
    /// The number that programs see.
    pub shown: u64,
    pub size: u64,
    /// 512-byte blocks.
    pub blocks: u64,
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
    pub ctime: (i64, u32),
    /// File type and permission bits.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
}

/// st_blksize: what programs read and write at once by default.
const BLKSIZE: u32 = 1 << 20;

/// The body of a reply, field by field.
#[derive(Default)]
pub struct Out(Vec<u8>);

impl Out {
    /// An empty body with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Out {
        Out(Vec::with_capacity(capacity))
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Nothing yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Two bytes.
    pub fn u16(mut self, value: u16) -> Out {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// Four bytes.
    pub fn u32(mut self, value: u32) -> Out {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// Eight bytes.
    pub fn u64(mut self, value: u64) -> Out {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    /// Raw bytes.
    pub fn raw(mut self, bytes: &[u8]) -> Out {
        self.0.extend_from_slice(bytes);
        self
    }

    fn attr(self, attr: &AttrOut) -> Out {
        self.u64(attr.shown)
            .u64(attr.size)
            .u64(attr.blocks)
            .u64(attr.atime.0 as u64)
            .u64(attr.mtime.0 as u64)
            .u64(attr.ctime.0 as u64)
            .u32(attr.atime.1)
            .u32(attr.mtime.1)
            .u32(attr.ctime.1)
            .u32(attr.mode)
            .u32(attr.nlink)
            .u32(attr.uid)
            .u32(attr.gid)
            .u32(attr.rdev)
            .u32(BLKSIZE)
            .u32(0)
    }

    /// `fuse_attr_out`: attributes and for how many seconds they hold.
    pub fn attr_out(self, attr: &AttrOut, valid: u64) -> Out {
        self.u64(valid).u32(0).u32(0).attr(attr)
    }

    /// `fuse_entry_out`: a name's inode, for how many seconds name and attributes hold.
    pub fn entry_out(self, attr: &AttrOut, entry_valid: u64, attr_valid: u64) -> Out {
        // Inode numbers are never reused, so that one generation suffices.
        self.u64(attr.ino)
            .u64(0)
            .u64(entry_valid)
            .u64(attr_valid)
            .u32(0)
            .u32(0)
            .attr(attr)
    }

    /// An entry that says: this name does not exist, and that holds for so many seconds.
    pub fn absent_entry(self, entry_valid: u64) -> Out {
        self.entry_out(&AttrOut::default(), entry_valid, 0)
    }

    /// `fuse_open_out`.
    pub fn open_out(self, fh: u64, flags: u32) -> Out {
        self.u64(fh).u32(flags).u32(0)
    }

    /// `fuse_dirent`, padded; returns false and adds nothing if it does not fit into `limit`.
    pub fn dirent(&mut self, ino: u64, cookie: u64, mode: u32, name: &[u8], limit: usize) -> bool {
        let length = (24 + name.len()).next_multiple_of(8);
        if self.0.len() + length > limit {
            return false;
        }
        self.push_dirent(ino, cookie, mode, name);
        true
    }

    /// `fuse_direntplus`, padded; returns false and adds nothing if it does not fit into `limit`.
    /// `attr` None: the name is given without its attributes (and without a lookup).
    #[allow(clippy::too_many_arguments)]
    pub fn direntplus(
        &mut self,
        ino: u64,
        cookie: u64,
        mode: u32,
        name: &[u8],
        attr: Option<(&AttrOut, u64, u64)>,
        limit: usize,
    ) -> bool {
        let length = (128 + 24 + name.len()).next_multiple_of(8);
        if self.0.len() + length > limit {
            return false;
        }
        let out = Out(std::mem::take(&mut self.0));
        *self = match attr {
            Some((attr, entry_valid, attr_valid)) => out.entry_out(attr, entry_valid, attr_valid),
            None => out.entry_out(&AttrOut::default(), 0, 0),
        };
        self.push_dirent(ino, cookie, mode, name);
        true
    }

    fn push_dirent(&mut self, ino: u64, cookie: u64, mode: u32, name: &[u8]) {
        let out = Out(std::mem::take(&mut self.0));
        *self = out
            .u64(ino)
            .u64(cookie)
            .u32(name.len() as u32)
            .u32(mode >> 12)
            .raw(name);
        let padded = self.0.len().next_multiple_of(8);
        self.0.resize(padded, 0);
    }
}

/// The header of a reply with `body` bytes after it. `error` is 0 or a positive errno.
pub fn out_header(unique: u64, error: i32, body: usize) -> [u8; OUT_HEADER] {
    let mut header = [0; OUT_HEADER];
    header[..4].copy_from_slice(&((OUT_HEADER + body) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&(-error).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// The header of a notification with `body` bytes after it.
pub fn notify_header(code: i32, body: usize) -> [u8; OUT_HEADER] {
    out_header(0, -code, body)
}

#[cfg(test)]
#[path = "abi_tests.rs"]
mod tests;
