//! From the kernel's requests to the client's operations and back; little else.
//!
//! [`Face::begin`] starts one request on the client's thread. What the client can answer from its
//! caches is answered before `begin` returns; the rest goes on as a task of its own. Every request
//! that has an answer gets exactly one, by the functions below.
//!
//! What a reply lets the kernel keep is decided in `fs/entries.rs`: as long as the settings say while
//! a lease covers it, not at all otherwise.

mod attributes;
mod entries;
mod files;
mod init;
mod locks;
mod names;

pub use init::BACKGROUND_MAX;
pub use locks::LOCK_WAITS_MAX;

pub(crate) use attributes::sized;

use crate::abi::{self, Call, Header, Out};
use crate::departures::Departures;
use crate::device::{DATA_MAX, Request};
use crate::errno;
use crate::gone::Ghosts;
use crate::holds::{Hold, Locks, PAGE};
use crate::invalidate::KernelCache;
use crate::kernel::Kernel;
use crate::metrics::Metrics;
use crate::narrow::Narrow;
use crate::owners::LockOwners;
use crate::settings::Options;
use crate::uncached::Uncached;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Waker};
use tokio::sync::oneshot;
use weft_client::*;
use weft_env::{Env, Mono};

/// A mount's face.
pub struct Face {
    env: Env,
    client: Client,
    writer: Rc<dyn Kernel>,
    kernel: Rc<KernelCache>,
    departures: Rc<Departures>,
    ghosts: RefCell<Ghosts>,
    metrics: Rc<Metrics>,
    /// Seconds for which the kernel may keep what a lease covers.
    cache_seconds: u64,
    owners: LockOwners,
    /// Numbers are shown so that 32 bits hold them.
    narrow: Option<Narrow>,
    /// Requests that a signal may end.
    interruptible: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
    /// Handles whose reads and writes pass the page cache by.
    uncached: RefCell<Uncached>,
    /// The kernel maps files shared though they pass the page cache by.
    maps_uncached: Cell<bool>,
    /// When a read by way of a handle last failed after it had waited.
    gave_up: RefCell<BTreeMap<u64, Mono>>,
    /// Where the last read by way of a handle began that was refused, to be done again.
    refused: RefCell<BTreeMap<u64, u64>>,
    /// The kernel has said goodbye.
    destroyed: Cell<bool>,
}

/// A reply's body.
pub(crate) enum Body {
    Nothing,
    Bytes(Vec<u8>),
    Parts(Vec<Bytes>),
}

impl From<Out> for Body {
    fn from(out: Out) -> Body {
        Body::Bytes(out.into_bytes())
    }
}

impl Face {
    /// A face of `client` that answers through `writer`.
    pub fn new(
        env: Env,
        client: Client,
        writer: Rc<dyn Kernel>,
        kernel: Rc<KernelCache>,
        metrics: Rc<Metrics>,
        options: &Options,
    ) -> Rc<Face> {
        let departures = Departures::new(
            (env.clone(), client.clone()),
            (writer.clone(), kernel.clone()),
        );
        kernel.set_departures(&departures);
        Rc::new(Face {
            env,
            client,
            writer,
            kernel,
            departures,
            ghosts: RefCell::default(),
            metrics,
            cache_seconds: options.kernel_cache_seconds,
            narrow: options.inode32.then(Narrow::default),
            owners: LockOwners::default(),
            interruptible: RefCell::default(),
            uncached: RefCell::default(),
            maps_uncached: Cell::new(false),
            gave_up: RefCell::default(),
            refused: RefCell::default(),
            destroyed: Cell::new(false),
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn kernel(&self) -> &Rc<KernelCache> {
        &self.kernel
    }

    pub(crate) fn departures(&self) -> &Departures {
        &self.departures
    }

    pub(crate) fn ghosts(&self) -> &RefCell<Ghosts> {
        &self.ghosts
    }

    pub(crate) fn wall(&self) -> Time {
        let wall = self.env.wall();
        Time {
            seconds: wall.seconds(),
            nanos: wall.subsecond_nanos(),
        }
    }

    /// The kernel has said goodbye; nothing more will come.
    pub fn is_destroyed(&self) -> bool {
        self.destroyed.get()
    }

    /// Starts a request and answers it, now or later.
    pub fn begin(self: &Rc<Face>, request: Request) {
        let Request { header, call } = request;
        self.metrics
            .request(call.as_ref().map_or("malformed", Call::name));
        let call = match call {
            Ok(call) => call,
            Err(error) => {
                tracing::warn!(opcode = header.opcode, %error, "refused a request of the kernel");
                return self.answer(&header, Err(errno::MALFORMED));
            }
        };
        match call {
            Call::Forget(all) => {
                for (ino, count) in all {
                    if self.kernel.forgot(ino, count) {
                        self.ghosts.borrow_mut().remove(&ino);
                        self.departures.forgot(ino);
                    }
                }
            }
            Call::Interrupt { unique } => {
                // Requests that are not here end by themselves soon enough.
                if let Some(signal) = self.interruptible.borrow_mut().remove(&unique) {
                    let _ = signal.send(());
                }
            }
            Call::Destroy => {
                self.destroyed.set(true);
                self.answer(&header, Ok(Body::Nothing));
            }
            Call::Init(offer) => {
                let answer = self.init(&offer);
                self.answer(&header, answer);
            }
            Call::Unknown(_) => self.answer(&header, Err(errno::NOT_SERVED)),
            Call::Release {
                fh,
                flags,
                lock_owner,
            } => {
                // Nobody waits for it, but the kernel keeps the inode until it is answered, and
                // with it the mount busy.
                let unlock = (flags & abi::RELEASE_FLOCK_UNLOCK != 0).then_some(lock_owner);
                self.release(header.node, fh, unlock);
                self.answer(&header, Ok(Body::Nothing));
            }
            call => self.start(header, call),
        }
    }

    /// Serves a call and answers it.
    fn start(self: &Rc<Face>, header: Header, call: Call) {
        if !is_on_the_way_to_names(&call) {
            self.kernel.ends_pass(header.pid);
        }
        let (face, hold) = (self.clone(), self.hold_of(&header, &call));
        let pages = hold.as_ref().map(|hold| hold.pages(PAGE));
        let (read, written) = match call {
            Call::Read { .. } => (pages, None),
            // What a mapping has changed stays in its page until it is written back.
            Call::Write { flags, .. } if flags & abi::WRITE_CACHE == 0 => (None, pages),
            _ => (None, None),
        };
        let came = self.env.now();
        let unique = header.unique;
        // It waits for another process, not for a server.
        let pauses = !matches!(call, Call::Setlk { wait: true, .. });
        let held = hold.map(|hold| self.kernel.hold(header.node, hold));
        let is_cached = held.is_some();
        let work = async move {
            let result = face.serve(&header, call, is_cached).await;
            if let Some(pages) = written {
                face.kernel.make_sure(header.node, unique, pages).await;
            }
            if let Some(pages) = read {
                face.kernel.filled(header.node, pages);
            }
            if is_cached {
                face.kernel.has_pages_of(header.node);
            }
            face.answer(&header, result);
            face.metrics.answered(header.unique);
            if let Some(held) = held {
                held.over();
            }
        };
        let Some(work) = begun(work) else {
            return;
        };
        if pauses {
            self.metrics.waits(unique, came);
        }
        self.env.spawn("fuse request", work);
    }

    /// Runs work to its first wait here, and from there on as a task.
    fn run(&self, work: impl Future<Output = ()> + 'static) {
        if let Some(work) = begun(work) {
            self.env.spawn("fuse request", work);
        }
    }

    /// What is written by way of a handle passes the page cache by, but for pages of mappings.
    fn is_past_cache(&self, fh: u64, open_flags: u32) -> bool {
        open_flags as i32 & libc::O_DIRECT != 0 || self.uncached.borrow().has(fh)
    }

    /// The pages that the kernel may keep locked until a call is answered.
    fn hold_of(&self, header: &Header, call: &Call) -> Option<Hold> {
        let (locks, offset, length) = match call {
            // It locks no page.
            Call::Read { flags, .. } if flags & abi::READ_LOCKOWNER != 0 => return None,
            Call::Read { offset, size, .. } => (Locks::All, *offset, u64::from(*size)),
            Call::Write {
                fh,
                offset,
                flags,
                open_flags,
                data,
            } => {
                let locks = match flags & abi::WRITE_CACHE {
                    0 if self.is_past_cache(*fh, *open_flags) => return None,
                    0 => Locks::Last,
                    _ => Locks::All,
                };
                (locks, *offset, data.len() as u64)
            }
            _ => return None,
        };
        Some(Hold::new(header.unique, locks, offset, length))
    }

    fn answer(&self, header: &Header, result: Result<Body>) {
        if let Err(errno) = &result {
            self.metrics.failed(*errno);
            let (opcode, ino) = (header.opcode, header.node);
            tracing::debug!(opcode, ino, %errno, "a request failed");
        }
        let sent = match &result {
            Ok(Body::Nothing) => self.writer.reply(header.unique, 0, &[]),
            Ok(Body::Bytes(bytes)) => self.writer.reply(header.unique, 0, bytes),
            Ok(Body::Parts(parts)) => self.writer.reply_parts(header.unique, parts),
            Err(errno) => self
                .writer
                .reply(header.unique, errno::to_kernel(*errno), &[]),
        };
        if let Err(error) = sent
            // Nobody waits for it any more: the mount is going.
            && !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
        {
            tracing::error!(opcode = header.opcode, %error, "the kernel refused an answer");
        }
    }

    /// Runs `operation` as the caller; after a denial once more with the caller's other groups.
    async fn as_caller<T, F: Future<Output = Result<T>>>(
        &self,
        header: &Header,
        operation: impl Fn(Cred) -> F,
    ) -> Result<T> {
        let mut cred = Cred {
            uid: header.uid,
            gid: header.gid,
            groups: Vec::new(),
        };
        match operation(cred.clone()).await {
            Err(denied) if errno::is_denial(denied) && header.uid != 0 => {
                cred.groups = self.writer.groups_of(header.pid);
                if cred.groups.is_empty() {
                    return Err(denied);
                }
                operation(cred).await
            }
            result => result,
        }
    }

    /// `is_cached`: a read or write goes by way of the kernel's page cache.
    pub(crate) async fn attempt(
        &self,
        header: &Header,
        call: Call,
        is_cached: bool,
    ) -> Result<Body> {
        let ino = header.node;
        match call {
            Call::Lookup { name } => self.lookup(header, &name).await,
            Call::Symlink { name, target } => self.symlink(header, &name, &target).await,
            Call::Mknod { name, mode, rdev } => self.mknod(header, &name, mode, rdev).await,
            Call::Mkdir { name, mode } => self.mkdir(header, &name, mode).await,
            Call::Link { ino, name } => self.link(header, ino, &name).await,
            Call::Unlink { name } => self.unlink(header, &name).await,
            Call::Rmdir { name } => self.rmdir(header, &name).await,
            Call::Rename {
                name,
                new_parent,
                new_name,
                flags,
            } => {
                let to = (new_parent, &new_name);
                self.rename(header, &name, to, flags).await
            }
            Call::Opendir { .. } => self.opendir(header).await,
            Call::Readdir {
                fh,
                offset,
                size,
                plus,
            } => self.readdir(ino, (fh, offset), size, plus).await,
            Call::Releasedir { fh } => Ok(self.releasedir(fh)),
            // Changes of directories are in the journal before they are answered.
            Call::Fsyncdir { .. } => Ok(Body::Nothing),

            Call::Getattr { .. } => self.getattr(ino).await,
            Call::Setattr(set) => self.setattr(header, &set).await,
            Call::Readlink => Ok(Body::Parts(vec![self.client.readlink(ino).await?])),
            Call::Access { mask } => self.access(header, mask).await,
            Call::Statfs => self.statfs().await,
            Call::Setxattr { name, value, flags } => {
                self.setxattr(header, &name, &value, flags).await
            }
            Call::Getxattr { name, size } => self.getxattr(header, &name, size).await,
            Call::Listxattr { size } => self.listxattr(header, size).await,
            Call::Removexattr { name } => self.removexattr(header, &name).await,

            Call::Open { flags } => self.open(header, flags).await,
            Call::Create {
                name,
                flags,
                mode,
                kill_suidgid,
            } => self.create(header, &name, flags, mode, kill_suidgid).await,
            Call::Tmpfile { flags, mode } => self.tmpfile(header, flags, mode).await,
            Call::Read {
                fh, offset, size, ..
            } => {
                let call = files::ReadCall {
                    fh,
                    offset,
                    size: (size as usize).min(DATA_MAX),
                    fills_pages: is_cached,
                };
                self.read(header, call).await
            }
            Call::Write {
                fh,
                offset,
                flags,
                open_flags,
                data,
            } => {
                let call = files::WriteCall {
                    fh,
                    offset,
                    flags,
                    open_flags,
                    data,
                };
                self.write(header, call, is_cached).await
            }
            Call::Flush { fh, lock_owner } => self.flush(fh, lock_owner).await,
            Call::Fsync { fh, data_only } => {
                self.client.fsync(HandleId(fh), data_only).await?;
                Ok(Body::Nothing)
            }
            Call::Fallocate {
                fh,
                offset,
                length,
                mode,
            } => self.fallocate(header, fh, (offset, length), mode).await,
            Call::Lseek { fh, offset, whence } => self.lseek(fh, offset, whence).await,
            Call::CopyFileRange(copy) => self.copy_file_range(header, &copy).await,

            Call::Getlk { lock, .. } => self.getlk(ino, &lock).await,
            Call::Setlk { fh, lock, wait } => self.setlk(header, fh, &lock, wait).await,

            Call::Forget(_)
            | Call::Init(_)
            | Call::Release { .. }
            | Call::Interrupt { .. }
            | Call::Destroy
            | Call::Unknown(_) => Err(errno::NOT_SERVED),
        }
    }
}

/// What a system call may ask before it has found all its names. A thread that asks for anything else asks for no further
/// name in the same one.
fn is_on_the_way_to_names(call: &Call) -> bool {
    matches!(
        call,
        Call::Lookup { .. }
            | Call::Getattr { .. }
            | Call::Access { .. }
            | Call::Readlink
            | Call::Getxattr { .. }
            | Call::Listxattr { .. }
    )
}

/// `work` after its first wait; None if it had none.
fn begun(work: impl Future<Output = ()> + 'static) -> Option<LocalBoxFuture<'static, ()>> {
    let mut work = work.boxed_local();
    let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.is_pending().then_some(work)
}
