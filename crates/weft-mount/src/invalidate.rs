//! What the kernel keeps of this mount, and how it is made to forget.
//!
//! The client calls [`Invalidation`] before it gives a lease back. Kept true
//! here: when such a call has ended, the kernel answers nothing from what it was given before.
//!
//! Three kinds of forgetting (docs/protocols/leases.md, "The kernel's cache"):
//! - names: one epoch for the whole mount; the kernel looks a name up again if it was learnt in an
//!   older one. It takes no lock, unlike invalidating one name, which takes the lock of the
//!   directory, perhaps held by an operation that waits for us. Kernels without epochs get names
//!   that are valid for no time at all.
//! - attributes and pages of an inode: waits for pages that are locked for a read or a write, which
//!   wait for the client: so it runs on threads of its own.
//! - an inode that the kernel has been told of but has not made yet (the answer is on its way
//!   through the caller's thread): it cannot be found to be invalidated. Then the epoch moves, so
//!   that its names are looked up again, and it is invalidated when it is first opened.

use crate::device::Writer;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use weft_types::{FixedMap, FixedSet};

/// Threads that wait for the kernel. One can wait as long as a read of locked pages takes; several,
/// so that this does not hold up other files.
const THREADS: usize = 8;

/// Invalidations that wait for a thread. Only a bound on memory: who adds one more waits.
const QUEUE_MAX: usize = 1024;

/// An inode to invalidate.
struct Job {
    ino: u64,
    data: bool,
    done: oneshot::Sender<io::Result<()>>,
}

/// What the kernel knows of this mount.
pub struct KernelCache {
    writer: Writer,
    jobs: mpsc::Sender<Job>,
    /// The kernel knows epochs. Set once, by INIT.
    epochs: Cell<bool>,
    /// How often the kernel was told of an inode and has not forgotten it. Inodes that are not here
    /// need no invalidation.
    lookups: RefCell<FixedMap<u64, u64>>,
    /// Inodes whose invalidation came before the kernel had made them.
    late: RefCell<FixedSet<u64>>,
}

impl KernelCache {
    /// Starts the threads. They end when the value is dropped.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn start(writer: Writer) -> io::Result<Rc<KernelCache>> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..THREADS {
            let queue = queue.clone();
            let writer = writer.clone();
            // Notifications block in the kernel: no task of an Env may do that.
            std::thread::Builder::new()
                .name(format!("invalidate-{index}"))
                .spawn(move || work(&queue, &writer))?;
        }
        Ok(Rc::new(KernelCache {
            writer,
            jobs,
            epochs: Cell::new(false),
            lookups: RefCell::default(),
            late: RefCell::default(),
        }))
    }

    /// INIT has told which version the kernel speaks.
    pub fn set_epochs(&self, known: bool) {
        self.epochs.set(known);
    }

    /// Names may be given to the kernel to keep.
    pub fn keeps_names(&self) -> bool {
        self.epochs.get()
    }

    /// The kernel is being told of an inode.
    pub fn told(&self, ino: u64) {
        *self.lookups.borrow_mut().entry(ino).or_insert(0) += 1;
    }

    /// The kernel has forgotten so many tellings of an inode.
    pub fn forgot(&self, ino: u64, count: u64) {
        let mut lookups = self.lookups.borrow_mut();
        if let Some(known) = lookups.get_mut(&ino) {
            *known = known.saturating_sub(count);
            if *known == 0 {
                lookups.remove(&ino);
                self.late.borrow_mut().remove(&ino);
            }
        }
    }

    /// How many inodes the kernel knows.
    pub fn inodes(&self) -> usize {
        self.lookups.borrow().len()
    }

    /// An inode is used by its number: what was too early for it is made up for.
    pub async fn make_up_for(&self, ino: u64) {
        if self.late.borrow_mut().remove(&ino) {
            self.invalidate(ino, true).await;
        }
    }

    async fn invalidate(&self, ino: u64, data: bool) {
        if ino != weft_types::ROOT_INO.0 && !self.lookups.borrow().contains_key(&ino) {
            return;
        }
        let (done, answer) = oneshot::channel();
        if self.jobs.send(Job { ino, data, done }).await.is_err() {
            // The threads only end with the mount.
            return;
        }
        match answer.await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) if error.raw_os_error() == Some(libc::ENOENT) => {
                self.late.borrow_mut().insert(ino);
                self.forget_names();
            }
            Ok(Err(error)) if is_gone(&error) => {}
            Ok(Err(error)) => {
                tracing::error!(ino, %error, "the kernel refused to forget an inode");
            }
        }
    }

    fn forget_names(&self) {
        if !self.keeps_names() {
            return;
        }
        match self.writer.increment_epoch() {
            Ok(()) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => tracing::error!(%error, "the kernel refused to forget names"),
        }
    }
}

/// The client's handle on it.
pub struct Invalidation(pub Rc<KernelCache>);

impl weft_client::Invalidator for Invalidation {
    fn inode(&self, ino: u64, data: bool) -> LocalBoxFuture<'static, ()> {
        let kernel = self.0.clone();
        async move { kernel.invalidate(ino, data).await }.boxed_local()
    }

    fn names(&self, _dir: u64) -> LocalBoxFuture<'static, ()> {
        self.0.forget_names();
        std::future::ready(()).boxed_local()
    }
}

/// The mount is being taken away: there is nothing left to forget.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODEV | libc::ENOTCONN | libc::ECONNABORTED)
    )
}

fn work(queue: &Mutex<mpsc::Receiver<Job>>, writer: &Writer) {
    loop {
        let job = match queue.lock() {
            Ok(mut queue) => queue.blocking_recv(),
            // Another thread panicked while it held the lock; nothing here panics.
            Err(_) => return,
        };
        let Some(job) = job else {
            return;
        };
        let result = writer.invalidate_inode(job.ino, job.data);
        // Who asked may have given up.
        let _ = job.done.send(result);
    }
}
