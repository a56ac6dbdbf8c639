//! The operations of a [`Client`].

use crate::settings::Settings;
use crate::types::*;
use bytes::Bytes;
use std::rc::Rc;
use weft_env::Env;

/// Why a client could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The settings make no sense.
    #[error("settings: {0}")]
    Settings(String),
    /// No metadata server took the client in for as long as its patience.
    #[error("no metadata server could be reached: {0}")]
    Unreachable(String),
    /// The service is there and refused.
    #[error("refused: {0}")]
    Refused(String),
}

/// A session with a cluster. Clones share it.
#[derive(Clone)]
pub struct Client(Rc<Env>);

/// Names are bytes without `/` and NUL; `.` and `..` are not names here.
///
/// Every operation fails with an errno as Linux's system call of that name does, and with EIO
/// when servers stay away longer than the patience.
impl Client {
    /// Opens a session. Waits for a metadata server at most as long as the patience.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn connect(
        _env: Env,
        _settings: Settings,
    ) -> std::result::Result<Client, ClientError> {
        Err(ClientError::Refused("not built yet".into()))
    }

    /// Writes back everything and ends the session. Handles are void afterwards.
    ///
    /// # Errors
    /// The first error of what was written back.
    pub async fn close(&self) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// The inode number of the root directory.
    pub fn root(&self) -> u64 {
        1
    }

    /// Sets who keeps copies of what this client answers. Before the first operation.
    pub fn set_invalidator(&self, _invalidator: Rc<dyn Invalidator>) {}

    // ---- names ----

    /// What a name in a directory stands for; absence is an answer too.
    pub async fn lookup(&self, _cred: &Cred, _parent: u64, _name: &[u8]) -> Result<Found> {
        Err(Errno(libc::ENOSYS))
    }

    /// Makes (or opens) a regular file and opens it.
    pub async fn create(
        &self,
        _cred: &Cred,
        _parent: u64,
        _name: &[u8],
        _mode: u32,
        _flags: CreateFlags,
    ) -> Result<(Known, HandleId)> {
        Err(Errno(libc::ENOSYS))
    }

    /// Makes a directory.
    pub async fn mkdir(
        &self,
        _cred: &Cred,
        _parent: u64,
        _name: &[u8],
        _mode: u32,
    ) -> Result<Known> {
        Err(Errno(libc::ENOSYS))
    }

    /// Makes a file of any kind but directory and symlink; `mode` has permission bits only.
    pub async fn mknod(
        &self,
        _cred: &Cred,
        _parent: u64,
        _name: &[u8],
        _kind: FileKind,
        _mode: u32,
        _rdev: u32,
    ) -> Result<Known> {
        Err(Errno(libc::ENOSYS))
    }

    /// Makes a symbolic link.
    pub async fn symlink(
        &self,
        _cred: &Cred,
        _parent: u64,
        _name: &[u8],
        _target: &[u8],
    ) -> Result<Known> {
        Err(Errno(libc::ENOSYS))
    }

    /// Where a symbolic link points.
    pub async fn readlink(&self, _ino: u64) -> Result<Bytes> {
        Err(Errno(libc::ENOSYS))
    }

    /// Makes another name for a file.
    pub async fn link(&self, _cred: &Cred, _ino: u64, _parent: u64, _name: &[u8]) -> Result<Known> {
        Err(Errno(libc::ENOSYS))
    }

    /// Removes a name of anything but a directory.
    pub async fn unlink(&self, _cred: &Cred, _parent: u64, _name: &[u8]) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, _cred: &Cred, _parent: u64, _name: &[u8]) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// Renames, over an existing target unless told otherwise.
    pub async fn rename(
        &self,
        _cred: &Cred,
        _parent: u64,
        _name: &[u8],
        _new_parent: u64,
        _new_name: &[u8],
        _flags: RenameFlags,
    ) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    // ---- attributes ----

    /// Attributes; size and times include what is buffered here.
    pub async fn getattr(&self, _ino: u64) -> Result<Known> {
        Err(Errno(libc::ENOSYS))
    }

    /// Changes attributes. `handle`: for ftruncate on a handle that is open for writing, which
    /// needs no permission on the inode.
    pub async fn setattr(
        &self,
        _cred: &Cred,
        _ino: u64,
        _set: SetAttr,
        _handle: Option<HandleId>,
    ) -> Result<Known> {
        Err(Errno(libc::ENOSYS))
    }

    /// The value of an extended attribute; ENODATA if there is none.
    pub async fn getxattr(&self, _cred: &Cred, _ino: u64, _name: &[u8]) -> Result<Bytes> {
        Err(Errno(libc::ENOSYS))
    }

    /// Sets an extended attribute.
    pub async fn setxattr(
        &self,
        _cred: &Cred,
        _ino: u64,
        _name: &[u8],
        _value: Bytes,
        _flags: XattrFlags,
    ) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// The names of the extended attributes.
    pub async fn listxattr(&self, _cred: &Cred, _ino: u64) -> Result<Vec<Bytes>> {
        Err(Errno(libc::ENOSYS))
    }

    /// Removes an extended attribute.
    pub async fn removexattr(&self, _cred: &Cred, _ino: u64, _name: &[u8]) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// Room in the cluster.
    pub async fn statfs(&self) -> Result<Space> {
        Err(Errno(libc::ENOSYS))
    }

    /// Checks access (R_OK 4, W_OK 2, X_OK 1) as the server would.
    pub async fn access(&self, _cred: &Cred, _ino: u64, _mask: u32) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    // ---- directories ----

    /// Opens a directory for reading.
    pub async fn opendir(&self, _cred: &Cred, _ino: u64) -> Result<HandleId> {
        Err(Errno(libc::ENOSYS))
    }

    /// At most `max` entries after a cookie (0: from the start); none means the end. With `plus`
    /// entries come with attributes where they can be had. The next page is fetched ahead.
    pub async fn readdir(
        &self,
        _handle: HandleId,
        _after: u64,
        _max: usize,
        _plus: bool,
    ) -> Result<Vec<DirEntry>> {
        Err(Errno(libc::ENOSYS))
    }

    /// Closes a directory.
    pub fn releasedir(&self, _handle: HandleId) {}

    // ---- files ----

    /// Opens a regular file, after checking access.
    pub async fn open(&self, _cred: &Cred, _ino: u64, _flags: OpenFlags) -> Result<HandleId> {
        Err(Errno(libc::ENOSYS))
    }

    /// close(2) of one descriptor: writes back data and waits for it, drops the fcntl locks of
    /// `lock_owner`. The handle stays until [`Client::release`].
    pub async fn flush(&self, _handle: HandleId, _lock_owner: Option<u64>) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// The last close of a handle; drops its flock if `lock_owner` is given. Never waits for
    /// the application's data: [`Client::flush`] has.
    pub async fn release(&self, _handle: HandleId, _lock_owner: Option<u64>) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// Bytes at an offset: parts whose lengths add up to `length`, less at the end of the file.
    pub async fn read(
        &self,
        _handle: HandleId,
        _offset: u64,
        _length: usize,
    ) -> Result<Vec<Bytes>> {
        Err(Errno(libc::ENOSYS))
    }

    /// Writes (to the end of the file where the handle or the call says append). Returns when the
    /// bytes are buffered, or on both members for a handle with `sync`.
    pub async fn write(
        &self,
        _handle: HandleId,
        _offset: u64,
        _data: Bytes,
        _append: bool,
    ) -> Result<usize> {
        Err(Errno(libc::ENOSYS))
    }

    /// Everything written to the file is on both members (on disk, where the file's durability
    /// says so); without `data_only` also its size and times.
    pub async fn fsync(&self, _handle: HandleId, _data_only: bool) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// As fsync, for all files.
    pub async fn sync_all(&self) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// fallocate(2).
    pub async fn fallocate(
        &self,
        _handle: HandleId,
        _mode: Allocate,
        _offset: u64,
        _length: u64,
    ) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// lseek(2) with SEEK_HOLE or SEEK_DATA; ENXIO beyond the end.
    pub async fn seek(&self, _handle: HandleId, _offset: u64, _whence: Seek) -> Result<u64> {
        Err(Errno(libc::ENOSYS))
    }

    /// copy_file_range(2); returns the bytes copied, which may be fewer than asked.
    pub async fn copy_range(
        &self,
        _from: HandleId,
        _from_offset: u64,
        _to: HandleId,
        _to_offset: u64,
        _length: u64,
    ) -> Result<u64> {
        Err(Errno(libc::ENOSYS))
    }

    // ---- locks ----

    /// The lock that is in the way of this one, if any.
    pub async fn getlk(&self, _ino: u64, _lock: FileLock) -> Result<Option<FileLock>> {
        Err(Errno(libc::ENOSYS))
    }

    /// Takes or drops a lock; EAGAIN if another is in the way, or with `wait` waits until it is not.
    /// Dropping the future gives up waiting (the caller answers EINTR).
    pub async fn setlk(&self, _cred: &Cred, _ino: u64, _lock: FileLock, _wait: bool) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    // ---- tools ----

    /// The policy in force for what is made in a directory.
    pub async fn policy(&self, _ino: u64) -> Result<Policy> {
        Err(Errno(libc::ENOSYS))
    }

    /// Sets a directory's policy; zero fields are inherited.
    pub async fn set_policy(&self, _cred: &Cred, _ino: u64, _policy: Policy) -> Result<()> {
        Err(Errno(libc::ENOSYS))
    }

    /// Where a file (by path from the root) lies and who serves it.
    pub async fn explain(&self, _path: &[u8]) -> Result<Explained> {
        Err(Errno(libc::ENOSYS))
    }

    /// The cluster's state.
    pub async fn status(&self) -> Result<Status> {
        Err(Errno(libc::ENOSYS))
    }
}
