//! The real kernel: answers are written to the device at once; what may wait in the kernel is done by
//! threads of its own, which `fs.rs` and `invalidate.rs` do not see.
//!
//! Like the device this is beside weft-env: no simulation has it.

use crate::callers;
use crate::device::Writer;
use crate::kernel::{Kernel, Runner};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};

/// Threads that wait for the kernel, at first.
const THREADS: usize = 8;

/// One more is started whenever one is found to wait for pages that a request holds: such a wait
/// may end only with another invalidation. Beyond this the others wait for it, at worst until the
/// session's term.
const THREADS_MAX: usize = 128;

/// Notifications that wait for a thread. Only a bound on memory: who adds one more waits.
const QUEUE_MAX: usize = 1024;

/// A notification that may wait in the kernel.
enum Notice {
    Invalidate(u64, Option<Range<u64>>),
    Prune(Vec<u64>),
}

struct Job {
    notice: Notice,
    runner: Runner,
    done: oneshot::Sender<io::Result<()>>,
}

/// The kernel that a device leads to.
pub struct Real {
    writer: Writer,
    jobs: mpsc::Sender<Job>,
    queue: Arc<Mutex<mpsc::Receiver<Job>>>,
    threads: Cell<usize>,
}

impl Real {
    /// Starts the threads. They end when the value is dropped.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn start(writer: Writer) -> io::Result<Rc<Real>> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let kernel = Real {
            writer,
            jobs,
            queue: Arc::new(Mutex::new(queue)),
            threads: Cell::new(0),
        };
        for _ in 0..THREADS {
            kernel.start_thread()?;
        }
        Ok(Rc::new(kernel))
    }

    fn start_thread(&self) -> io::Result<()> {
        let index = self.threads.get();
        if index >= THREADS_MAX {
            return Ok(());
        }
        let (queue, writer) = (self.queue.clone(), self.writer.clone());
        // Notifications block in the kernel: no task of an Env may do that.
        std::thread::Builder::new()
            .name(format!("invalidate-{index}"))
            .spawn(move || work(&queue, &writer))?;
        self.threads.set(index + 1);
        Ok(())
    }

    /// Has a thread send it, now or when one is free.
    fn notify(&self, notice: Notice, runner: Runner) -> LocalBoxFuture<'static, io::Result<()>> {
        let (done, answer) = oneshot::channel();
        let job = Job {
            notice,
            runner,
            done,
        };
        let left = match self.jobs.try_send(job) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
            Err(mpsc::error::TrySendError::Full(job)) => Some((self.jobs.clone(), job)),
        };
        async move {
            if let Some((jobs, job)) = left {
                let _ = jobs.send(job).await;
            }
            // The threads only end with the mount.
            let gone = || io::Error::from_raw_os_error(libc::ENODEV);
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed_local()
    }
}

impl Kernel for Real {
    fn reply(&self, unique: u64, error: i32, body: &[u8]) -> io::Result<()> {
        self.writer.reply(unique, error, body)
    }

    fn reply_parts(&self, unique: u64, parts: &[Bytes]) -> io::Result<()> {
        self.writer.reply_parts(unique, parts)
    }

    fn increment_epoch(&self) -> io::Result<()> {
        self.writer.increment_epoch()
    }

    fn invalidate_inode(
        &self,
        ino: u64,
        pages: Option<Range<u64>>,
        runner: Runner,
    ) -> LocalBoxFuture<'static, io::Result<()>> {
        self.notify(Notice::Invalidate(ino, pages), runner)
    }

    fn prune(&self, inos: Vec<u64>) -> LocalBoxFuture<'static, io::Result<()>> {
        self.notify(Notice::Prune(inos), Runner::default())
    }

    fn void_attributes(&self, ino: u64) -> io::Result<()> {
        self.writer.invalidate_inode(ino, None)
    }

    fn is_blocked(&self, runner: &Runner) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", runner.thread()));
        // The name may have blanks.
        let state = stat
            .ok()
            .and_then(|stat| Some(stat.rsplit_once(") ")?.1.as_bytes()[0]));
        runner.has_begun() && state.is_none_or(|state| state == b'D')
    }

    fn help(&self) {
        if let Err(error) = self.start_thread() {
            tracing::warn!(%error, "no further thread to wait for the kernel");
        }
    }

    fn groups_of(&self, thread: u32) -> Vec<u32> {
        callers::groups_of(thread)
    }

    fn is_renaming(&self, thread: u32) -> Option<bool> {
        callers::is_renaming(thread)
    }
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
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        job.runner.begin(thread);
        let result = match job.notice {
            Notice::Invalidate(ino, pages) => writer.invalidate_inode(ino, pages),
            Notice::Prune(inos) => writer.prune(&inos),
        };
        // Who asked may have given up.
        let _ = job.done.send(result);
    }
}
