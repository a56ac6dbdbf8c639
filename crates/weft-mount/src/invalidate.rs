//! What the kernel keeps of this mount, and how it is made to forget.
//!
//! The client calls [`Invalidation`] before it gives a lease back. Kept true
//! here: when such a call has ended, the kernel answers nothing from what it was given before, but
//! for pages that reads and writes in progress hold, if the call said so.
//!
//! Three kinds of forgetting (docs/protocols/leases.md, "The kernel's cache"):
//! - names: one epoch for the whole mount; the kernel looks a name up again if it was learnt in an
//!   older one. It takes no lock, unlike invalidating one name, which takes the lock of the
//!   directory, perhaps held by an operation that waits for us. Kernels without epochs get names
//!   that are valid for no time at all.
//! - attributes and pages of an inode: waits for pages that are locked for a read or a write, which
//!   wait for the client, so it runs on threads of its own; and leaves out what such requests hold
//!   ([`Hold`]), which may themselves wait for the lease that is given back.
//! - an inode that the kernel has been told of but has not made yet (the answer is on its way
//!   through the caller's thread): it cannot be found to be invalidated. Then the epoch moves, so
//!   that its names are looked up again, and it is invalidated when it is first opened.

use crate::device::Writer;
use crate::holds::{FOLIO_MAX, Hold, Holds, PAGE};
use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, join_all, select};
use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use weft_env::Mono;
use weft_types::{FixedMap, FixedSet};

/// Threads that wait for the kernel, at first.
const THREADS: usize = 8;

/// One more is started whenever one is found to wait for pages that a request holds: such a wait
/// may end only with another invalidation. Beyond this the others wait for it, at worst until the
/// session's term.
const THREADS_MAX: usize = 128;

/// Invalidations that wait for a thread. Only a bound on memory: who adds one more waits.
const QUEUE_MAX: usize = 1024;

/// An invalidation beside pages that are held takes less, unless the kernel has joined them with
/// their neighbours. Then these are left out, too.
const JOINED: Duration = Duration::from_millis(20);

/// The kernel copies what is written into its pages, and lets go of those that are whole, before it
/// sends the write: it comes here within this of the copying.
const COPYING: Duration = Duration::from_millis(50);

/// How long an answer waits for pages to be forgotten that may be locked until it is given.
const BEFORE_ANSWER: Duration = Duration::from_millis(20);

/// Inodes of which it is known when they were forgotten last, before old ones are dropped.
const LATELY_MAX: usize = 4096;

/// Bytes of a file.
const ALL: Range<u64> = 0..u64::MAX;

/// An inode to invalidate.
struct Job {
    ino: u64,
    pages: Option<Range<u64>>,
    done: oneshot::Sender<io::Result<()>>,
}

/// What the kernel knows of this mount.
pub struct KernelCache {
    env: weft_env::Env,
    writer: Writer,
    jobs: mpsc::Sender<Job>,
    queue: Arc<Mutex<mpsc::Receiver<Job>>>,
    threads: Cell<usize>,
    holds: RefCell<Holds>,
    /// A request has come that holds pages.
    held: Notify,
    /// When pages of an inode were last forgotten.
    lately: RefCell<FixedMap<u64, Mono>>,
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
    pub fn start(env: weft_env::Env, writer: Writer) -> io::Result<Rc<KernelCache>> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let kernel = KernelCache {
            env,
            writer,
            jobs,
            queue: Arc::new(Mutex::new(queue)),
            threads: Cell::new(0),
            holds: RefCell::default(),
            held: Notify::new(),
            lately: RefCell::default(),
            epochs: Cell::new(false),
            lookups: RefCell::default(),
            late: RefCell::default(),
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
            self.forget(ino, Some(ALL)).await;
        }
    }

    /// A request holds pages until what is returned says that it is over.
    pub fn hold(self: &Rc<Self>, ino: u64, hold: Hold) -> Held {
        let held = Held {
            kernel: self.clone(),
            ino,
            unique: hold.unique(),
        };
        self.holds.borrow_mut().add(ino, hold);
        self.held.notify_waiters();
        held
    }

    /// The kernel may have put bytes of a write that is in progress at a wrong place: they are
    /// forgotten once the write is answered.
    pub fn misplaced(self: &Rc<Self>, ino: u64) {
        if self.holds.borrow_mut().void_all(ino) {
            return;
        }
        // It is answered in the turn that it came in: before the task's first.
        let kernel = self.clone();
        self.env.spawn("misplaced bytes", async move {
            kernel.invalidate(ino).await;
        });
    }

    /// A write that came at `came` has been done and is about to be answered. Where its pages were
    /// forgotten since they were filled, a read may have brought older bytes back: they are
    /// forgotten again. (If the kernel still has them locked they hold nothing to be read.)
    pub async fn make_sure(&self, ino: u64, came: Mono, pages: Range<u64>) {
        let lately = self.lately.borrow().get(&ino).copied();
        if lately.is_some_and(|at| at + COPYING >= came) {
            let forgetting = self.forget(ino, Some(pages));
            let _ = self.env.timeout(BEFORE_ANSWER, forgetting).await;
        }
    }

    fn note_forgotten(&self, ino: u64) {
        let now = self.env.now();
        let mut lately = self.lately.borrow_mut();
        if lately.len() >= LATELY_MAX {
            // Writes that are older than this wait for their lease: few, and their holds tell.
            lately.retain(|_, at| *at + COPYING * 100 >= now);
        }
        lately.insert(ino, now);
    }

    /// Has an inode forgotten, but for pages that are held: false if there were any. These are
    /// forgotten when the request that holds them is over.
    async fn invalidate(&self, ino: u64) -> bool {
        self.note_forgotten(ino);
        let all = self.forget_free(ino).await;
        self.note_forgotten(ino);
        all
    }

    async fn forget_free(&self, ino: u64) -> bool {
        let mut left = vec![ALL];
        let mut all = true;
        let mut grain = PAGE;
        loop {
            let (free, is_all) = self.holds.borrow_mut().leave_out(ino, &left, grain);
            all &= is_all;
            if free.is_empty() {
                // The attributes at least.
                self.forget(ino, None).await;
                return all;
            }
            left = match self.forget_pages(ino, &free, &mut grain).await {
                left if left.is_empty() => return all,
                left => left,
            };
            if let Err(error) = self.start_thread() {
                tracing::warn!(%error, "no further thread to wait for the kernel");
            }
        }
    }

    /// Has ranges forgotten. What is left when requests turn out to hold some of it: threads go on
    /// waiting for it, and what such requests do not hold is to be forgotten without them.
    async fn forget_pages(
        &self,
        ino: u64,
        ranges: &[Range<u64>],
        grain: &mut u64,
    ) -> Vec<Range<u64>> {
        let done: Vec<Cell<bool>> = ranges.iter().map(|_| Cell::new(false)).collect();
        let jobs = ranges.iter().zip(&done).map(|(range, done)| async move {
            self.forget(ino, Some(range.clone())).await;
            done.set(true);
        });
        let mut jobs = pin!(join_all(jobs));
        loop {
            let held = pin!(self.held.notified());
            let waited = select(held, self.env.sleep(JOINED));
            let is_late = match select(jobs.as_mut(), waited).await {
                Either::Left(_) => return Vec::new(),
                Either::Right((waited, _)) => matches!(waited, Either::Right(_)),
            };
            let unfinished = ranges.iter().zip(&done).filter(|(_, done)| !done.get());
            let left: Vec<Range<u64>> = unfinished.map(|(range, _)| range.clone()).collect();
            let tried = if is_late { FOLIO_MAX } else { *grain };
            if self.holds.borrow().touch(ino, &left, tried) {
                *grain = tried;
                return left;
            }
        }
    }

    /// One notification to the kernel: attributes, and the pages of a range if given.
    async fn forget(&self, ino: u64, pages: Option<Range<u64>>) {
        if ino != weft_types::ROOT_INO.0 && !self.lookups.borrow().contains_key(&ino) {
            return;
        }
        let (done, answer) = oneshot::channel();
        if self.jobs.send(Job { ino, pages, done }).await.is_err() {
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

/// A request that holds pages.
pub struct Held {
    kernel: Rc<KernelCache>,
    ino: u64,
    unique: u64,
}

impl Held {
    /// It has been answered: what was left out for its sake is forgotten now.
    pub async fn over(self) {
        let void = self.kernel.holds.borrow_mut().remove(self.ino, self.unique);
        if let Some(pages) = void {
            self.kernel.forget(self.ino, Some(pages)).await;
        }
    }
}

/// The client's handle on it.
pub struct Invalidation(pub Rc<KernelCache>);

impl weft_client::Invalidator for Invalidation {
    fn inode(&self, ino: u64, data: bool) -> LocalBoxFuture<'static, bool> {
        let kernel = self.0.clone();
        async move {
            if data {
                return kernel.invalidate(ino).await;
            }
            kernel.forget(ino, None).await;
            true
        }
        .boxed_local()
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
        let result = writer.invalidate_inode(job.ino, job.pages);
        // Who asked may have given up.
        let _ = job.done.send(result);
    }
}
