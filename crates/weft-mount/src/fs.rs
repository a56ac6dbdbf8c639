//! From the kernel's requests to the client's operations and back; little else.
//!
//! [`Face::begin`] starts one request on the client's thread. What the client can answer from its
//! caches is answered before `begin` returns; the rest goes on as a task of its own. Every request
//! that has an answer gets exactly one, by the functions below.
//!
//! What a reply lets the kernel keep is decided here (`Face::validity`): as long as the settings
//! say while a lease covers it, not at all otherwise.

use crate::abi::{self, Call, Header, LockIn, Out, SetattrIn, fattr, fopen};
use crate::aliases::Name;
use crate::departures::Departures;
use crate::device::{DATA_MAX, Request};
use crate::errno;
use crate::gone::Ghosts;
use crate::holds::{Hold, Locks, PAGE};
use crate::invalidate::KernelCache;
use crate::kernel::Kernel;
use crate::metrics::Metrics;
use crate::narrow::{self, Narrow};
use crate::owners::LockOwners;
use crate::settings::Options;
use crate::translate::*;
use crate::uncached::Uncached;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, select_biased};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::oneshot;
use weft_client::*;
use weft_env::{Env, Mono};

/// Reads ahead, writes of dirty pages and releases that the kernel has in flight at a time, beside
/// those that a process waits for. At 1 MiB each they fill the network several times over.
pub const BACKGROUND_MAX: u16 = 64;
/// From here on the kernel calls the mount congested and throttles who dirties pages.
const CONGESTION: u16 = BACKGROUND_MAX / 4 * 3;

/// Processes that may wait for file locks: each is a task here, and nothing else bounds them.
pub const LOCK_WAITS_MAX: usize = 16_384;

/// What the kernel may read ahead by itself, at most.
const READAHEAD_MAX: u32 = 16 << 20;

/// A read ahead that fails the kernel does again, page by page: within this time after one that had waited as long, it
/// is told the same at once. Or who reads would wait for servers that are away twice as long as the client's patience.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// How often a read is done again because its bytes were written meanwhile. After that its pages are
/// forgotten once it is answered.
const READ_AGAIN_MAX: usize = 8;

/// Privileges of a program, as an extended attribute.
const CAPABILITY: &[u8] = b"security.capability";

/// Features asked of the kernel where it has them. Not asked, with reason:
/// - WRITEBACK_CACHE, AUTO_INVAL_DATA: docs/decisions/0003-no-kernel-writeback.md.
/// - ATOMIC_O_TRUNC: a file would be emptied before the kernel finds that it is being executed, and
///   refuses to open it.
/// - DONT_MASK: without POSIX ACLs the kernel's own use of the umask is right.
/// - POSIX_ACL: Weft has none.
/// - NO_OPEN_SUPPORT: the client must know what is open, to keep unlinked files.
const WANTED: u64 = abi::init::ASYNC_READ
    | abi::init::POSIX_LOCKS
    | abi::init::EXPORT_SUPPORT
    | abi::init::BIG_WRITES
    | abi::init::FLOCK_LOCKS
    | abi::init::DO_READDIRPLUS
    | abi::init::READDIRPLUS_AUTO
    | abi::init::ASYNC_DIO
    | abi::init::PARALLEL_DIROPS
    | abi::init::MAX_PAGES
    | abi::init::CACHE_SYMLINKS
    | abi::init::EXPLICIT_INVAL_DATA
    | abi::init::HANDLE_KILLPRIV_V2
    | abi::init::INIT_EXT
    | abi::init::DIRECT_IO_ALLOW_MMAP;

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
    /// The kernel has said goodbye.
    destroyed: Cell<bool>,
}

/// A WRITE of the kernel.
struct WriteCall {
    fh: u64,
    offset: u64,
    flags: u32,
    open_flags: u32,
    data: Bytes,
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
                self.uncached.borrow_mut().closed(fh);
                self.gave_up.borrow_mut().remove(&fh);
                let unlock = (flags & abi::RELEASE_FLOCK_UNLOCK != 0).then_some(lock_owner);
                let client = self.client.clone();
                let (ino, owners) = (header.node, self.owners.released(fh));
                self.run(async move {
                    for owner in owners {
                        if let Err(errno) = client.drop_file_locks(ino, owner).await {
                            tracing::warn!(ino, %errno, "locks of a file description that is closed stay");
                        }
                    }
                    if let Err(errno) = client.release(HandleId(fh), unlock).await {
                        tracing::debug!(%errno, "a handle was released badly");
                    }
                });
                self.answer(&header, Ok(Body::Nothing));
            }
            call => self.start(header, call),
        }
    }

    /// Serves a call and answers it.
    fn start(self: &Rc<Face>, header: Header, call: Call) {
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

    /// The pages that the kernel may keep locked until a call is answered.
    fn hold_of(&self, header: &Header, call: &Call) -> Option<Hold> {
        let is_past_cache = |fh: u64, open_flags: u32| {
            open_flags as i32 & libc::O_DIRECT != 0 || self.uncached.borrow().has(fh)
        };
        let (locks, offset, length) = match call {
            Call::Read {
                fh,
                offset,
                size,
                open_flags,
            } => {
                let length = u64::from(*size);
                let locks = match is_past_cache(*fh, *open_flags) {
                    false => Locks::All,
                    // Pages of a mapping are read whole.
                    true if offset % PAGE == 0 && length % PAGE == 0 => Locks::Perhaps,
                    true => return None,
                };
                (locks, *offset, length)
            }
            Call::Write {
                fh,
                offset,
                flags,
                open_flags,
                data,
            } => {
                let locks = match flags & abi::WRITE_CACHE {
                    0 if is_past_cache(*fh, *open_flags) => return None,
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

    fn init(&self, offer: &abi::InitIn) -> Result<Body> {
        if offer.major > abi::MAJOR {
            // The kernel asks again with the version it is told.
            return Ok(Out::default().u32(abi::MAJOR).u32(abi::MINOR).into());
        }
        if offer.major < abi::MAJOR || offer.minor < abi::MINOR_MIN {
            tracing::error!(
                major = offer.major,
                minor = offer.minor,
                "this kernel's FUSE is too old: Linux 5.4 is the oldest that is served"
            );
            return Err(Errno(libc::EPROTO));
        }
        let epochs = offer.minor >= abi::MINOR_EPOCH;
        self.kernel.set_epochs(epochs);
        self.departures.set_prunes(offer.minor >= abi::MINOR_PRUNE);
        let flags = offer.flags & WANTED;
        self.maps_uncached
            .set(flags & abi::init::DIRECT_IO_ALLOW_MMAP != 0);
        tracing::info!(
            minor = offer.minor,
            flags = format_args!("{flags:#x}"),
            epochs,
            "the kernel has taken up the mount"
        );
        let page = rustix::param::page_size();
        let mut out = Out::default()
            .u32(abi::MAJOR)
            .u32(offer.minor.min(abi::MINOR))
            .u32(offer.max_readahead.max(READAHEAD_MAX))
            .u32(flags as u32)
            .u16(BACKGROUND_MAX)
            .u16(CONGESTION)
            .u32(DATA_MAX as u32)
            // Times have nanoseconds.
            .u32(1)
            .u16((DATA_MAX / page) as u16)
            .u16(0)
            .u32((flags >> 32) as u32);
        for _ in 0..7 {
            out = out.u32(0);
        }
        Ok(out.into())
    }

    /// The inode number that programs see.
    fn shown(&self, ino: u64) -> u64 {
        match self.narrow {
            Some(_) => narrow::fold(ino),
            None => ino,
        }
    }

    fn attr_out(&self, attr: &Attr) -> abi::AttrOut {
        abi::AttrOut {
            shown: self.shown(attr.ino),
            ..attr_out(attr)
        }
    }

    /// For how many seconds the kernel may keep it.
    fn validity(&self, leased: bool) -> u64 {
        if leased { self.cache_seconds } else { 0 }
    }

    fn name_validity(&self, leased: bool) -> u64 {
        self.validity(leased && self.kernel.keeps_names())
    }

    /// What the kernel is told of an inode under a name. `name` None: under none that could be renamed.
    fn entry(&self, known: &Known, name: Option<Name>, name_leased: bool) -> Out {
        let ino = known.attr.ino;
        self.kernel.told(&known.attr);
        self.tells_size(known);
        if let Some(name) = name.filter(|_| has_aliases(known)) {
            self.kernel.tells_name(ino, name);
        }
        Out::with_capacity(128 + 16).entry_out(
            &self.attr_out(&known.attr),
            self.name_validity(name_leased),
            self.validity(known.leased),
        )
    }

    fn tells_size(&self, known: &Known) {
        if known.attr.kind() == FileKind::Regular {
            self.kernel.tells_size(known.attr.ino, known.attr.size);
        }
    }

    pub(crate) fn attributes(&self, known: &Known) -> Body {
        self.tells_size(known);
        Out::with_capacity(104)
            .attr_out(&self.attr_out(&known.attr), self.validity(known.leased))
            .into()
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
        let client = &self.client;
        match call {
            Call::Lookup { name } => self.lookup(header, &name).await,
            Call::Getattr { .. } => {
                let mut known = client.getattr(ino).await?;
                if self.kernel.awaits_overwritten(ino).await {
                    // The lease may have gone meanwhile.
                    known.leased = false;
                }
                Ok(self.attributes(&known))
            }
            Call::Setattr(set) => self.setattr(header, &set).await,
            Call::Readlink => Ok(Body::Parts(vec![client.readlink(ino).await?])),
            Call::Symlink { name, target } => {
                let (name, target) = (&name, &target);
                let made = self
                    .as_caller(header, |cred| async move {
                        client.symlink(&cred, ino, name, target).await
                    })
                    .await?;
                Ok(self.made(ino, name, &made))
            }
            Call::Mknod { name, mode, rdev } => {
                let (name, kind) = (&name, kind_of(mode).ok_or(Errno(libc::EINVAL))?);
                let made = self
                    .as_caller(header, |cred| async move {
                        client
                            .mknod(&cred, ino, name, kind, mode & MODE_BITS, rdev)
                            .await
                    })
                    .await?;
                Ok(self.made(ino, name, &made))
            }
            Call::Mkdir { name, mode } => {
                let name = &name;
                let made = self
                    .as_caller(header, |cred| async move {
                        client.mkdir(&cred, ino, name, mode & MODE_BITS).await
                    })
                    .await?;
                Ok(self.made(ino, name, &made))
            }
            Call::Unlink { name } => {
                let name = &name;
                self.as_caller(header, |cred| async move {
                    client.unlink(&cred, ino, name).await
                })
                .await?;
                Ok(Body::Nothing)
            }
            Call::Rmdir { name } => {
                let name = &name;
                self.as_caller(header, |cred| async move {
                    client.rmdir(&cred, ino, name).await
                })
                .await?;
                Ok(Body::Nothing)
            }
            Call::Rename {
                name,
                new_parent,
                new_name,
                flags,
            } => {
                let parsed = rename_flags(flags)?;
                let (from, to) = (&name, &new_name);
                self.as_caller(header, |cred| async move {
                    client
                        .rename(&cred, ino, from, new_parent, to, parsed)
                        .await
                })
                .await?;
                if let Some(moved) = client.named(new_parent, to) {
                    let (from, to) = (self.name(ino, from), self.name(new_parent, to));
                    self.kernel.tells_renamed(moved, &from, to);
                }
                Ok(Body::Nothing)
            }
            Call::Link { ino: target, name } => {
                let name = &name;
                let made = self
                    .as_caller(header, |cred| async move {
                        client.link(&cred, target, ino, name).await
                    })
                    .await?;
                Ok(self.made(ino, name, &made))
            }
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
                let began = self.env.now();
                let gave_up = self.gave_up.borrow().get(&fh).copied();
                if gave_up.is_some_and(|at| began.since(at) < ASKED_AGAIN) {
                    return Err(Errno(libc::EIO));
                }
                let size = (size as usize).min(DATA_MAX);
                let read = self.read(header, fh, (offset, size), is_cached).await;
                let now = self.env.now();
                if matches!(read, Err(Errno(libc::EIO))) && now.since(began) >= ASKED_AGAIN {
                    self.gave_up.borrow_mut().insert(fh, now);
                }
                read
            }
            Call::Write {
                fh,
                offset,
                flags,
                open_flags,
                data,
            } => {
                let call = WriteCall {
                    fh,
                    offset,
                    flags,
                    open_flags,
                    data,
                };
                self.write(header, call, is_cached).await
            }
            Call::Statfs => Ok(statfs_out(&client.statfs().await?).into()),
            Call::Flush { fh, lock_owner } => {
                self.owners.flushed(fh, lock_owner);
                client.flush(HandleId(fh), Some(lock_owner)).await?;
                Ok(Body::Nothing)
            }
            Call::Fsync { fh, data_only } => {
                client.fsync(HandleId(fh), data_only).await?;
                Ok(Body::Nothing)
            }
            // Changes of directories are in the journal before they are answered.
            Call::Fsyncdir { .. } => Ok(Body::Nothing),
            Call::Setxattr { name, value, flags } => {
                refuse_foreign_attributes(&name)?;
                let (name, value, flags) = (&name, &value, xattr_flags(flags)?);
                self.as_caller(header, |cred| async move {
                    client
                        .setxattr(&cred, ino, name, value.clone(), flags)
                        .await
                })
                .await?;
                Ok(Body::Nothing)
            }
            Call::Getxattr { name, size } => {
                refuse_foreign_attributes(&name)?;
                let name = &name;
                let value = self
                    .as_caller(header, |cred| async move {
                        client.getxattr(&cred, ino, name).await
                    })
                    .await?;
                sized(value, size)
            }
            Call::Listxattr { size } => {
                let names = self
                    .as_caller(
                        header,
                        |cred| async move { client.listxattr(&cred, ino).await },
                    )
                    .await?;
                let mut list = Vec::new();
                for name in names {
                    list.extend_from_slice(&name);
                    list.push(0);
                }
                sized(list.into(), size)
            }
            Call::Removexattr { name } => {
                refuse_foreign_attributes(&name)?;
                let name = &name;
                if &name[..] == CAPABILITY {
                    // Asked for by who may, or by the kernel for a write, which takes a program its privileges away:
                    // that has been decided there.
                    client.removexattr(&Cred::default(), ino, name).await?;
                    return Ok(Body::Nothing);
                }
                self.as_caller(header, |cred| async move {
                    client.removexattr(&cred, ino, name).await
                })
                .await?;
                Ok(Body::Nothing)
            }
            Call::Opendir { .. } => {
                let handle = self
                    .as_caller(
                        header,
                        |cred| async move { client.opendir(&cred, ino).await },
                    )
                    .await?;
                Ok(Out::default().open_out(handle.0, 0).into())
            }
            Call::Readdir {
                fh,
                offset,
                size,
                plus,
            } => self.readdir(ino, (fh, offset), size, plus).await,
            Call::Releasedir { fh } => {
                if let Some(narrow) = &self.narrow {
                    narrow.closed(fh);
                }
                client.releasedir(HandleId(fh));
                Ok(Body::Nothing)
            }
            Call::Getlk { lock, .. } => {
                let conflict = client.getlk(ino, file_lock(&lock)?).await?;
                Ok(lock_out(conflict.as_ref(), &lock).into())
            }
            Call::Setlk { fh, lock, wait } => {
                if !lock.flock && lock.kind != libc::F_UNLCK {
                    self.owners.locked(fh, lock.owner);
                }
                self.setlk(header, fh, &lock, wait).await
            }
            Call::Access { mask } => {
                self.as_caller(header, |cred| async move {
                    client.access(&cred, ino, mask).await
                })
                .await?;
                Ok(Body::Nothing)
            }
            Call::Fallocate {
                fh,
                offset,
                length,
                mode,
            } => {
                let mode = allocate(mode)?;
                self.changed_by(header, ino).await?;
                client.fallocate(HandleId(fh), mode, offset, length).await?;
                Ok(Body::Nothing)
            }
            Call::Lseek { fh, offset, whence } => {
                let whence = seek(whence)?;
                let found = client.seek(HandleId(fh), offset, whence).await?;
                Ok(Out::default().u64(found).into())
            }
            Call::CopyFileRange(copy) => {
                self.changed_by(header, copy.node_out).await?;
                self.copy_file_range(&copy).await
            }
            Call::Forget(_)
            | Call::Init(_)
            | Call::Release { .. }
            | Call::Interrupt { .. }
            | Call::Destroy
            | Call::Unknown(_) => Err(errno::NOT_SERVED),
        }
    }

    async fn read(
        &self,
        header: &Header,
        fh: u64,
        (offset, size): (u64, usize),
        is_cached: bool,
    ) -> Result<Body> {
        let handle = HandleId(fh);
        let mut parts = self.client.read(handle, offset, size).await?;
        let mut again = READ_AGAIN_MAX;
        while self.kernel.take_outdated(header.node, header.unique) && again > 0 {
            parts = self.client.read(handle, offset, size).await?;
            again -= 1;
        }
        let length: usize = parts.iter().map(Bytes::len).sum();
        if is_cached {
            let end = offset + length as u64;
            self.kernel.tells_bytes(header.node, end, length < size);
        }
        self.metrics.read_bytes.inc_by(length as u64);
        Ok(Body::Parts(parts))
    }

    async fn lookup(&self, header: &Header, name: &Bytes) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        if &name[..] == b"." {
            // Of anything, not of directories alone: an NFS server over this mount has its handle, and the kernel does
            // not know it any more. Inode numbers are never used again, so it is the same or is gone.
            let known = client.getattr(parent).await?;
            return Ok(self.entry(&known, None, false).into());
        }
        let found = self
            .as_caller(header, |cred| async move {
                client.lookup(&cred, parent, name).await
            })
            .await?;
        match found.entry {
            Some(known) => {
                let name = self.name(parent, name);
                self.found(header, name, known, found.name_leased).await
            }
            None => match self.name_validity(found.name_leased) {
                0 => Err(Errno(libc::ENOENT)),
                valid => Ok(Out::with_capacity(128).absent_entry(valid).into()),
            },
        }
    }

    /// The entry of what a name was found to stand for.
    async fn found(
        &self,
        header: &Header,
        name: Name,
        mut known: Known,
        mut name_leased: bool,
    ) -> Result<Body> {
        let ino = known.attr.ino;
        if self.kernel.awaits_overwritten(ino).await {
            // Leases may have gone meanwhile.
            (known.leased, name_leased) = (false, false);
        }
        let stands = |other: &Name| {
            self.client
                .keeps_name(other.parent, &other.name, known.attr.ino)
        };
        if has_aliases(&known) && !self.kernel.may_tell_name(header.pid, ino, &name, stands) {
            // Linux begins anew, and asks for every name of the path.
            return Err(errno::ASK_AGAIN);
        }
        Ok(self.entry(&known, Some(name), name_leased).into())
    }

    fn name(&self, parent: u64, name: &Bytes) -> Name {
        Name {
            parent,
            name: name.clone(),
        }
    }

    /// The entry of something just made under a name.
    fn made(&self, parent: u64, name: &Bytes, known: &Known) -> Body {
        let name_leased = self.client.keeps_name(parent, name, known.attr.ino);
        let name = self.name(parent, name);
        self.entry(known, Some(name), name_leased).into()
    }

    async fn setattr(&self, header: &Header, set: &SetattrIn) -> Result<Body> {
        let (client, ino) = (&self.client, header.node);
        let handle = (set.valid & fattr::FH != 0).then_some(HandleId(set.fh));
        let wanted = set_attr(set)?;
        if set.valid & fattr::KILL_SUIDGID != 0 && wanted.mode.is_none() {
            self.kill_suidgid(ino).await?;
        }
        let known = self
            .as_caller(header, |cred| {
                let wanted = wanted.clone();
                async move { client.setattr(&cred, ino, wanted, handle).await }
            })
            .await?;
        self.kernel.told_again(&known.attr);
        Ok(self.attributes(&known))
    }

    /// Clears set-id bits as a write by an ordinary user does. The kernel has decided that it is to
    /// be done, so that the owner need not be asked.
    /// False: there were none.
    async fn kill_suidgid(&self, ino: u64) -> Result<bool> {
        let attr = self.client.getattr(ino).await?.attr;
        let Some(mode) = without_set_id(attr.mode) else {
            return Ok(false);
        };
        let service = Cred::default();
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        self.client.setattr(&service, ino, set, None).await?;
        Ok(true)
    }

    /// The same for a request whose answer tells the kernel of no mode.
    async fn lose_suidgid(&self, ino: u64) -> Result<()> {
        if self.kill_suidgid(ino).await? {
            self.kernel.void_attributes(ino);
        }
        Ok(())
    }

    /// Somebody changes a file in a way of which the kernel does not say that it takes the set-id bits.
    async fn changed_by(&self, header: &Header, ino: u64) -> Result<()> {
        if header.uid == 0 {
            return Ok(());
        }
        self.lose_suidgid(ino).await
    }

    async fn open(&self, header: &Header, flags: u32) -> Result<Body> {
        let (client, ino) = (&self.client, header.node);
        let open = open_flags(flags);
        let handle = self
            .as_caller(
                header,
                |cred| async move { client.open(&cred, ino, open).await },
            )
            .await?;
        self.kernel.make_up_for(ino).await;
        let fopen = self.fopen_of(handle, ino, flags);
        Ok(Out::default().open_out(handle.0, fopen).into())
    }

    /// How the kernel is to treat a file that was just opened.
    fn fopen_of(&self, handle: HandleId, ino: u64, flags: u32) -> u32 {
        // The end of such a file moves under the kernel's cache (docs/protocols/kernel-cache.md).
        let is_written = self.uncached.borrow().is_appended(ino) || self.client.others_write(ino);
        let fopen = fopen_flags(flags, is_written && self.maps_uncached.get());
        if fopen & fopen::DIRECT_IO != 0 {
            let appends = (flags as i32 & libc::O_APPEND != 0).then_some(ino);
            self.uncached.borrow_mut().opened(handle.0, appends);
        }
        fopen
    }

    async fn create(
        &self,
        header: &Header,
        name: &Bytes,
        flags: u32,
        mode: u32,
        kill_suidgid: bool,
    ) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let create = CreateFlags {
            exclusive: flags as i32 & libc::O_EXCL != 0,
            open: open_flags(flags),
        };
        let (known, handle) = self
            .as_caller(header, |cred| async move {
                client
                    .create(&cred, parent, name, mode & MODE_BITS, create)
                    .await
            })
            .await?;
        if kill_suidgid {
            self.kill_suidgid(known.attr.ino).await?;
        }
        let name_leased = client.keeps_name(parent, name, known.attr.ino);
        let fopen = self.fopen_of(handle, known.attr.ino, flags);
        Ok(self
            .entry(&known, Some(self.name(parent, name)), name_leased)
            .open_out(handle.0, fopen)
            .into())
    }

    /// A file without a name: no name is leased, and nothing says that there is one.
    async fn tmpfile(&self, header: &Header, flags: u32, mode: u32) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let (known, handle) = self
            .as_caller(header, |cred| async move {
                client
                    .create_unnamed(&cred, parent, mode & MODE_BITS, open_flags(flags))
                    .await
            })
            .await?;
        let fopen = self.fopen_of(handle, known.attr.ino, flags);
        Ok(self
            .entry(&known, None, false)
            .open_out(handle.0, fopen)
            .into())
    }

    async fn write(&self, header: &Header, call: WriteCall, is_cached: bool) -> Result<Body> {
        let (ino, fh) = (header.node, HandleId(call.fh));
        if call.flags & abi::WRITE_KILL_SUIDGID != 0 {
            self.lose_suidgid(ino).await?;
        }
        let (client, offset) = (&self.client, call.offset);
        // Others are not to be told of it before the kernel has no page of before.
        let overwriting = (!is_cached).then(|| self.kernel.overwrite(ino));
        let written = if call.flags & abi::WRITE_CACHE != 0 {
            // Dirty pages of a mapping.
            let length = client.write_mapped(fh, offset, call.data).await?;
            Written { offset, length }
        } else if call.open_flags as i32 & libc::O_APPEND != 0 {
            let written = client.append(fh, call.data).await?;
            if is_cached && written.offset != offset {
                // The kernel took another place for the end, and may have kept the bytes there.
                self.kernel.misplaced(ino);
            }
            written
        } else {
            let length = client.write(fh, offset, call.data, false).await?;
            Written { offset, length }
        };
        if overwriting.is_some() {
            let range = written.offset..written.offset + written.length as u64;
            self.kernel
                .forget_overwritten(ino, header.unique, range)
                .await;
        }
        self.kernel
            .tells_written(ino, written.offset + written.length as u64);
        let length = written.length as u32;
        self.metrics.written_bytes.inc_by(u64::from(length));
        Ok(Out::default().u32(length).u32(0).into())
    }

    async fn readdir(
        &self,
        dir: u64,
        (fh, offset): (u64, u64),
        size: u32,
        plus: bool,
    ) -> Result<Body> {
        let limit = (size as usize).min(DATA_MAX);
        // As many as fit if their names are short.
        let least = if plus { 160 } else { 32 };
        let after = match &self.narrow {
            Some(narrow) => narrow.cookie(fh, offset),
            None => offset,
        };
        let entries = self
            .client
            .readdir(HandleId(fh), after, limit / least + 1, plus)
            .await?;
        let keeps_names = plus && self.kernel.may_keep_listed(dir);
        let mut out = Out::with_capacity(limit);
        for entry in &entries {
            let (mode, ino) = (mode_of(entry.kind), self.shown(entry.ino));
            let place = match &self.narrow {
                Some(narrow) => narrow.place(fh, entry.cookie),
                None => entry.cookie,
            };
            let fits = if plus {
                let shown = entry
                    .known
                    .as_ref()
                    .filter(|known| !self.kernel.is_overwritten(known.attr.ino));
                let known = shown.map(|known| {
                    (
                        self.attr_out(&known.attr),
                        self.name_validity(entry.name_leased && keeps_names),
                        self.validity(known.leased),
                    )
                });
                let fits = out.direntplus(
                    ino,
                    place,
                    mode,
                    &entry.name,
                    known
                        .as_ref()
                        .map(|(attr, name, valid)| (attr, *name, *valid)),
                    limit,
                );
                if fits && let Some(known) = shown {
                    self.kernel.told(&known.attr);
                    self.tells_size(known);
                    if has_aliases(known) {
                        let name = Name {
                            parent: dir,
                            name: entry.name.clone(),
                        };
                        self.kernel.tells_name(entry.ino, name);
                    }
                }
                fits
            } else {
                out.dirent(ino, place, mode, &entry.name, limit)
            };
            if !fits {
                break;
            }
        }
        Ok(out.into())
    }

    async fn setlk(&self, header: &Header, fh: u64, lock: &LockIn, wait: bool) -> Result<Body> {
        let (client, handle) = (&self.client, HandleId(fh));
        let cred = Cred {
            uid: header.uid,
            gid: header.gid,
            groups: Vec::new(),
        };
        let lock = file_lock(lock)?;
        if !wait {
            client.setlk_by(handle, &cred, lock, false).await?;
            return Ok(Body::Nothing);
        }
        let (signal, interrupted) = oneshot::channel();
        {
            let mut waits = self.interruptible.borrow_mut();
            if waits.len() >= LOCK_WAITS_MAX {
                return Err(errno::TOO_MANY_WAITS);
            }
            waits.insert(header.unique, signal);
        }
        let result = {
            let mut taken = pin!(client.setlk_by(handle, &cred, lock, true).fuse());
            let mut interrupted = interrupted.fuse();
            select_biased! {
                result = taken => result,
                _ = interrupted => Err(errno::INTERRUPTED),
            }
        };
        self.interruptible.borrow_mut().remove(&header.unique);
        result?;
        Ok(Body::Nothing)
    }

    async fn copy_file_range(&self, copy: &abi::CopyIn) -> Result<Body> {
        let copied = self
            .client
            .copy_range(
                HandleId(copy.fh_in),
                copy.offset_in,
                HandleId(copy.fh_out),
                copy.offset_out,
                // The narrow answer has 32 bits.
                copy.length.min(if copy.wide {
                    u64::MAX
                } else {
                    u64::from(u32::MAX)
                }),
            )
            .await?;
        Ok(if copy.wide {
            Out::default().u64(copied)
        } else {
            Out::default().u32(copied as u32).u32(0)
        }
        .into())
    }
}

/// The kernel can be told of it under a second name. (Of a directory it moves the one name that it has itself.)
fn has_aliases(known: &Known) -> bool {
    known.attr.kind() != FileKind::Directory
}

/// `work` after its first wait; None if it had none.
fn begun(work: impl Future<Output = ()> + 'static) -> Option<LocalBoxFuture<'static, ()>> {
    let mut work = work.boxed_local();
    let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.is_pending().then_some(work)
}

/// A value for a caller with room for `size` bytes; 0 asks how much room it takes.
pub(crate) fn sized(value: Bytes, size: u32) -> Result<Body> {
    if size == 0 {
        return Ok(Out::default().u32(value.len() as u32).u32(0).into());
    }
    if value.len() > size as usize {
        return Err(errno::TOO_SMALL);
    }
    Ok(Body::Parts(vec![value]))
}

fn statfs_out(space: &Space) -> Out {
    // There is no table of inodes that could be full; programs only look whether any are free.
    const INODES_FREE: u64 = 1 << 40;
    let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
    let mut out = Out::default()
        .u64(blocks(space.total_bytes))
        .u64(blocks(space.free_bytes))
        .u64(blocks(space.free_bytes))
        .u64(space.inodes + INODES_FREE)
        .u64(INODES_FREE)
        .u32(STATFS_BLOCK)
        .u32(weft_types::NAME_MAX as u32)
        .u32(STATFS_BLOCK);
    for _ in 0..7 {
        out = out.u32(0);
    }
    out
}

/// The unit in which room is counted.
const STATFS_BLOCK: u32 = 4096;

/// `fuse_lk_out`: the lock in the way, or that there is none.
fn lock_out(conflict: Option<&FileLock>, asked: &LockIn) -> Out {
    match conflict {
        Some(lock) => Out::default()
            .u64(lock.start)
            .u64(lock.last.min(i64::MAX as u64))
            .u32(lock_kind_out(lock) as u32)
            .u32(lock.pid),
        None => Out::default()
            .u64(asked.start)
            .u64(asked.end)
            .u32(libc::F_UNLCK as u32)
            .u32(0),
    }
}
