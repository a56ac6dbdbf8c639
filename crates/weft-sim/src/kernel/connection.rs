//! Requests on their way to the face, answers and notifications on their way back (fs/fuse/dev.c).

use super::inode::Inode;
use super::names::Dentry;
use super::pages::PAGE;
use crate::rng::Rng;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use weft_client::Errno;
use weft_env::Env;
use weft_mount::abi::{Call, Header};
use weft_mount::device::Request;
use weft_mount::kernel::{Kernel, Runner};

/// What an answer is, to whoever waits for it.
pub(super) type Answer = Result<Bytes, Errno>;
/// What is done with an answer where it comes in: in the thread of whoever gives it.
type Then = Box<dyn FnOnce(Answer)>;
/// A directory and a name in it.
pub(super) type Key = (u64, Vec<u8>);

/// The longest that a thread stands between two moments of one system call, in microseconds: what a busy processor
/// makes of it.
const PAUSE_MICROS: u64 = 400;

/// fuse_conn.
pub(super) struct Connection {
    pub env: Env,
    rng: RefCell<Rng>,
    queue: RefCell<VecDeque<Request>>,
    queued: Notify,
    pending: RefCell<BTreeMap<u64, Then>>,
    unique: Cell<u64>,
    attr_version: Cell<u64>,
    pub epoch: Cell<u64>,
    pub inodes: RefCell<BTreeMap<u64, Weak<Inode>>>,
    pub dentries: RefCell<BTreeMap<Key, Rc<Dentry>>>,
    /// Names that are being looked up (d_alloc_parallel).
    pub in_lookup: RefCell<BTreeMap<Key, Rc<Notify>>>,
    /// Threads in renameat2.
    pub renaming: RefCell<BTreeSet<u32>>,
    /// Notifications so far: each is done by a thread of its own.
    notifications: Cell<i32>,
    /// Those of them that wait for a page.
    waiting: RefCell<BTreeSet<i32>>,
}

impl Connection {
    pub fn new(env: Env, rng: Rng) -> Rc<Connection> {
        Rc::new(Connection {
            env,
            rng: RefCell::new(rng),
            queue: RefCell::default(),
            queued: Notify::new(),
            pending: RefCell::default(),
            unique: Cell::new(0),
            attr_version: Cell::new(1),
            epoch: Cell::new(1),
            inodes: RefCell::default(),
            dentries: RefCell::default(),
            in_lookup: RefCell::default(),
            renaming: RefCell::default(),
            notifications: Cell::new(0),
            waiting: RefCell::default(),
        })
    }

    /// One moment ends and the next begins, some time later perhaps.
    pub async fn step(&self) {
        let pause = {
            let mut rng = self.rng.borrow_mut();
            match rng.below(8) {
                0 => 1 + rng.below(PAUSE_MICROS),
                1 => 1,
                _ => return,
            }
        };
        self.env.sleep(Duration::from_micros(pause)).await;
    }

    /// Drawn below a bound.
    pub fn draw(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    /// The version of attributes of now (fuse_get_attr_version).
    pub fn version(&self) -> u64 {
        self.attr_version.get()
    }

    /// And the next one.
    pub fn next_version(&self) -> u64 {
        self.attr_version.set(self.attr_version.get() + 1);
        self.attr_version.get()
    }

    /// When what holds for so many seconds ends; 0 for what does not hold at all (time_to_jiffies).
    pub fn deadline(&self, seconds: u64) -> u64 {
        match seconds {
            0 => 0,
            seconds => self
                .env
                .now()
                .0
                .saturating_add(seconds.saturating_mul(1_000_000_000)),
        }
    }

    /// It holds no more.
    pub fn is_over(&self, deadline: u64) -> bool {
        deadline < self.env.now().0
    }

    /// Virtual nanoseconds.
    pub fn now(&self) -> u64 {
        self.env.now().0
    }

    /// Sends a request whose answer is taken by `then` as soon as it comes (fuse_simple_background).
    pub fn send(&self, node: u64, pid: u32, call: Call, then: Then) {
        // Odd numbers are those of interrupts.
        self.unique.set(self.unique.get() + 2);
        self.pending.borrow_mut().insert(self.unique.get(), then);
        self.push(self.unique.get(), node, pid, call);
    }

    /// Sends a request and waits for its answer (fuse_simple_request): the thread wakes some time after it has come.
    pub async fn ask(&self, node: u64, pid: u32, call: Call) -> Answer {
        let (answered, answer) = oneshot::channel();
        let then = move |answer| {
            let _ = answered.send(answer);
        };
        self.send(node, pid, call, Box::new(then));
        let answer = answer.await.unwrap_or(Err(Errno(libc::ENOTCONN)));
        self.step().await;
        answer
    }

    /// The face was told of an inode so often, and is told that it is forgotten (fuse_queue_forget).
    pub fn forget(&self, node: u64, count: u64) {
        if count > 0 {
            self.push(0, node, 0, Call::Forget(vec![(node, count)]));
        }
    }

    fn push(&self, unique: u64, node: u64, pid: u32, call: Call) {
        tracing::trace!(unique, node, pid, ?call, "the kernel asks");
        let header = Header {
            length: 0,
            opcode: 0,
            unique,
            node,
            uid: 0,
            gid: 0,
            pid,
        };
        let call = Ok(call);
        self.queue.borrow_mut().push_back(Request { header, call });
        self.queued.notify_one();
    }

    /// The next request, for the face.
    pub async fn next(&self) -> Request {
        loop {
            let next = self.queue.borrow_mut().pop_front();
            match next {
                Some(request) => {
                    self.step().await;
                    return request;
                }
                None => self.queued.notified().await,
            }
        }
    }

    /// fuse_reverse_inval_inode, as far as it takes no page.
    fn void(&self, node: u64) -> io::Result<Rc<Inode>> {
        let inode = self.find_inode(node);
        let inode = inode.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        inode.attr_version.set(self.next_version());
        inode.invalidate_attributes();
        Ok(inode)
    }

    /// fuse_reverse_inval_inode.
    async fn invalidate(
        &self,
        node: u64,
        pages: Option<Range<u64>>,
        thread: i32,
    ) -> io::Result<()> {
        self.step().await;
        let inode = self.void(node)?;
        tracing::trace!(node, ?pages, "the kernel forgets an inode");
        if let Some(range) = pages {
            let last = range.end.saturating_sub(1) / PAGE;
            let waits = |waits| {
                let mut waiting = self.waiting.borrow_mut();
                match waits {
                    true => waiting.insert(thread),
                    false => waiting.remove(&thread),
                };
            };
            inode
                .pages
                .invalidate(range.start / PAGE, last, waits)
                .await;
        }
        Ok(())
    }
}

/// A connection as the face sees it.
pub(super) struct Ours(pub Rc<Connection>);

impl Kernel for Ours {
    /// fuse_dev_do_write.
    fn reply(&self, unique: u64, error: i32, body: &[u8]) -> io::Result<()> {
        let then = self.0.pending.borrow_mut().remove(&unique);
        let Some(then) = then else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        tracing::trace!(unique, error, bytes = body.len(), "the kernel is answered");
        then(match error {
            0 => Ok(Bytes::copy_from_slice(body)),
            errno => Err(Errno(errno)),
        });
        Ok(())
    }

    fn reply_parts(&self, unique: u64, parts: &[Bytes]) -> io::Result<()> {
        self.reply(unique, 0, &parts.concat())
    }

    /// fuse_notify_inc_epoch.
    fn increment_epoch(&self) -> io::Result<()> {
        self.0.epoch.set(self.0.epoch.get() + 1);
        tracing::trace!(epoch = self.0.epoch.get(), "the kernel forgets names");
        Ok(())
    }

    fn invalidate_inode(
        &self,
        ino: u64,
        pages: Option<Range<u64>>,
        runner: Runner,
    ) -> LocalBoxFuture<'static, io::Result<()>> {
        let (done, answer) = oneshot::channel();
        let connection = self.0.clone();
        self.0.env.spawn("kernel notification", async move {
            connection.step().await;
            let thread = connection.notifications.get() + 1;
            connection.notifications.set(thread);
            runner.begin(thread);
            let _ = done.send(connection.invalidate(ino, pages, thread).await);
        });
        let gone = || io::Error::from_raw_os_error(libc::ENODEV);
        async move { answer.await.unwrap_or_else(|_| Err(gone())) }.boxed_local()
    }

    fn void_attributes(&self, ino: u64) -> io::Result<()> {
        self.0.void(ino)?;
        tracing::trace!(ino, "the kernel forgets attributes");
        Ok(())
    }

    fn is_blocked(&self, runner: &Runner) -> bool {
        self.0.waiting.borrow().contains(&runner.thread())
    }

    /// There are threads enough.
    fn help(&self) {}

    fn groups_of(&self, _pid: u32) -> Vec<u32> {
        Vec::new()
    }

    /// proc_pid_syscall.
    fn is_renaming(&self, thread: u32) -> Option<bool> {
        Some(self.0.renaming.borrow().contains(&thread))
    }
}
