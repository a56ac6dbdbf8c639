//! The kernel on the other side of a mount: it takes answers and notifications, and is asked who its
//! callers are. All that `fs.rs` and `invalidate.rs` want of it goes through here, so that they run
//! as they are before a model of it, in the simulator.
//!
//! The real one is [`crate::notify::Real`]. Nothing here waits for the kernel but the future of
//! [`Kernel::invalidate_inode`].

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The kernel on the other side of a mount.
pub trait Kernel {
    /// Answers a request. `error` 0 or a positive errno. ENOENT: nobody waits for it any more.
    ///
    /// # Errors
    /// As the kernel's.
    fn reply(&self, unique: u64, error: i32, body: &[u8]) -> io::Result<()>;

    /// Answers a READ with its parts, without joining them.
    ///
    /// # Errors
    /// As the kernel's.
    fn reply_parts(&self, unique: u64, parts: &[Bytes]) -> io::Result<()>;

    /// Voids all names that the kernel has looked up until now. Takes no lock.
    ///
    /// # Errors
    /// As the kernel's.
    fn increment_epoch(&self) -> io::Result<()>;

    /// Voids the attributes of an inode and its pages in a range of bytes, which is begun at once and
    /// goes on if nobody waits for it. It may wait for pages that are locked; `runner` knows.
    /// ENOENT: the kernel does not have the inode. ENODEV: the mount is being taken away.
    fn invalidate_inode(
        &self,
        ino: u64,
        pages: Option<Range<u64>>,
        runner: Runner,
    ) -> LocalBoxFuture<'static, io::Result<()>>;

    /// Voids the attributes of an inode of which a request is in progress, and those of replies that have not been
    /// taken yet. Takes no lock that a request may hold.
    ///
    /// # Errors
    /// ENOENT: the kernel does not have the inode. Others as the kernel's.
    fn void_attributes(&self, ino: u64) -> io::Result<()>;

    /// Has the kernel drop the names of inodes that nobody uses, and with its last name an inode: that it forgets then.
    /// EINVAL: it does not know that.
    fn prune(&self, inos: Vec<u64>) -> LocalBoxFuture<'static, io::Result<()>> {
        let _ = inos;
        let unknown = io::Error::from_raw_os_error(libc::EINVAL);
        std::future::ready(Err(unknown)).boxed_local()
    }

    /// Who does an invalidation waits, as for a page that is locked. Not so if it merely has no
    /// processor: then it will be done soon. True if that cannot be seen; false before it has begun.
    fn is_blocked(&self, runner: &Runner) -> bool;

    /// Invalidations that have begun may be waiting for each other: one more is to be begun.
    fn help(&self);

    /// The supplementary groups of a thread; none if it is gone or not visible.
    fn groups_of(&self, thread: u32) -> Vec<u32>;

    /// A thread that waits for an answer waits in a system call that renames (rename, renameat, renameat2). None if that
    /// is not to be seen.
    fn is_renaming(&self, thread: u32) -> Option<bool>;
}

/// The thread that does an invalidation; 0 before one does.
#[derive(Clone, Default)]
pub struct Runner(Arc<AtomicI32>);

impl Runner {
    /// A thread takes it up. Positive numbers, that [`Kernel::is_blocked`] knows.
    pub fn begin(&self, thread: i32) {
        self.0.store(thread, Ordering::Relaxed);
    }

    /// A thread has taken it up.
    pub fn has_begun(&self) -> bool {
        self.thread() != 0
    }

    /// Which.
    pub fn thread(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }
}
