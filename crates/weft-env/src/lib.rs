//! The one layer between Weft and the world: clock, tasks, sockets, files, randomness.
//!
//! Every server, client and tool gets an [`Env`] and asks it for everything that is not pure
//! computation. There are two kinds behind it: the real one ([`real`]) on an operating system, and
//! the simulator's, in which a whole cluster runs in one thread from one seed. What goes through
//! here is therefore reproducible; what does not go through here is a bug (clippy.toml bans it).
//!
//! An `Env` belongs to one thread: servers and clients are single-threaded owner loops, so that
//! their state needs no locks. Blocking work (cold reads, large writes, fdatasync) is moved off the
//! thread inside the real implementation and nowhere else.

mod address;
mod file;
mod http;
mod lost_lines;
pub mod private;
pub mod real;
mod stream;
mod time;

pub use address::{Address, NoAddress};
pub use file::{DirItem, File, FileDriver, OpenMode, SpaceReport};
pub use http::serve_text;
pub use lost_lines::{count_lost_lines, lost_lines};
pub use stream::{Listener, ListenerDriver, Stream, StreamDriver};
pub use time::{Mono, Wall};

use futures_util::future::{Either, LocalBoxFuture, select};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// What an implementation provides. Code of Weft uses [`Env`].
pub trait Driver {
    /// Monotonic time; starts anywhere, differs between nodes, stands still in no fault.
    fn now(&self) -> Mono;
    /// Wall clock; may jump.
    fn wall(&self) -> Wall;
    /// See [`Env::random`].
    fn random(&self) -> u64;
    /// See [`Env::boot`].
    fn boot(&self) -> u64 {
        0
    }
    /// See [`Env::files_max`].
    fn files_max(&self) -> usize {
        1024
    }
    /// Ends after at least this long.
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()>;
    /// Runs a task of this node until it ends, the node dies or its handle aborts it.
    fn spawn(&self, name: &'static str, task: LocalBoxFuture<'static, ()>) -> Box<dyn TaskDriver>;
    /// Connects to `host:port`.
    fn connect(&self, address: String) -> LocalBoxFuture<'static, io::Result<Stream>>;
    /// Listens on `host:port`; port 0 takes a free one.
    fn listen(&self, address: String) -> LocalBoxFuture<'static, io::Result<Listener>>;
    /// Opens a file.
    fn open(
        &self,
        path: std::path::PathBuf,
        mode: OpenMode,
    ) -> LocalBoxFuture<'static, io::Result<File>>;
    /// Names in a directory, sorted.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirItem>>;
    /// See [`Env::close_to_others`]. Where there are no others nothing is to be done.
    fn close_to_others(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }
    /// Makes a directory and its parents; no error if it is there.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Renames a file over another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes renames, creations and removals in a directory survive a power cut.
    fn sync_dir(&self, path: &Path) -> LocalBoxFuture<'static, io::Result<()>>;
    /// Room on the file system that holds `path`.
    fn space(&self, path: &Path) -> io::Result<SpaceReport>;
    /// See [`Env::lock`]. Unless there can be a second process nothing is to be done.
    fn lock(&self, _path: &Path) -> io::Result<Lock> {
        Ok(Lock(Box::new(())))
    }
    /// See [`Env::lock_dir`]; likewise.
    fn lock_dir(&self, _path: &Path) -> io::Result<Lock> {
        Ok(Lock(Box::new(())))
    }
}

/// A lock on a file or a directory that no other process has. Let go when it is dropped or the process ends.
pub struct Lock(#[allow(dead_code)] Box<dyn std::any::Any>);

impl Lock {
    /// Wraps what holds it.
    pub fn new(holder: impl std::any::Any) -> Lock {
        Lock(Box::new(holder))
    }
}

/// A running task.
pub trait TaskDriver {
    /// Drops the task at its next point of waiting.
    fn abort(&self);
    /// True once it has ended or been aborted.
    fn is_finished(&self) -> bool;
}

/// Handle of a running task. Dropping it lets the task go on.
pub struct Task(Box<dyn TaskDriver>);

impl Task {
    /// Drops the task at its next point of waiting.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// True once it has ended or been aborted.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// The world as one thread of one node sees it. Cloning is cheap.
#[derive(Clone)]
pub struct Env(Rc<dyn Driver>);

/// A deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl Env {
    /// Wraps an implementation.
    pub fn new(driver: impl Driver + 'static) -> Env {
        Env(Rc::new(driver))
    }

    /// Monotonic time.
    pub fn now(&self) -> Mono {
        self.0.now()
    }

    /// Wall clock; only for times that users see.
    pub fn wall(&self) -> Wall {
        self.0.wall()
    }

    /// 64 random bits. On a real machine they are the operating system's: keys are made of them, and who was told some
    /// (as verifiers, numbers of processes) can guess no others.
    pub fn random(&self) -> u64 {
        self.0.random()
    }

    /// Names the time since the operating system started: as long as it is the same, whatever was
    /// written to files is there, synced or not. 0: not known.
    pub fn boot(&self) -> u64 {
        self.0.boot()
    }

    /// Files and connections that this process may have open at a time: what is kept open for later is
    /// bounded by it.
    pub fn files_max(&self) -> usize {
        self.0.files_max()
    }

    /// Ends after at least this long.
    pub fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    /// Ends at `deadline`, at once if it has passed.
    pub fn sleep_until(&self, deadline: Mono) -> LocalBoxFuture<'static, ()> {
        self.0.sleep(deadline.since(self.0.now()))
    }

    /// `future`'s output, or `Elapsed` if it takes longer than `limit`; then it is dropped.
    ///
    /// # Errors
    /// [`Elapsed`] when the limit passed first.
    pub async fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        match select(pin!(future), self.0.sleep(limit)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(_) => Err(Elapsed),
        }
    }

    /// Runs a task beside this one. The name is for logs and for the simulator's reports.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) -> Task {
        Task(self.0.spawn(name, Box::pin(task)))
    }

    /// Connects to `host:port`.
    ///
    /// # Errors
    /// As the operating system's; there is no deadline: wrap it in [`Env::timeout`].
    pub async fn connect(&self, address: &str) -> io::Result<Stream> {
        self.0.connect(address.to_owned()).await
    }

    /// Listens on `host:port`; port 0 takes a free one.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn listen(&self, address: &str) -> io::Result<Listener> {
        self.0.listen(address.to_owned()).await
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        self.0.open(path.to_owned(), mode).await
    }

    /// The whole content of a file, `None` if there is no such file.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn read_file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.open(path, OpenMode::Read).await {
            Ok(file) => {
                let length = file.len()?;
                Ok(Some(file.read_at(0, length as usize).await?.to_vec()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces a small file so that after any crash it holds the old content or the new one.
    ///
    /// # Errors
    /// As the operating system's; the old content then stands.
    pub async fn replace_file(&self, path: &Path, content: Vec<u8>) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let temporary = std::path::PathBuf::from(name);
        let file = self.open(&temporary, OpenMode::CreateEmpty).await?;
        file.write_at(0, vec![content.into()]).await?;
        file.sync_data().await?;
        self.0.rename(&temporary, path)?;
        match path.parent() {
            Some(parent) => self.0.sync_dir(parent).await,
            None => Ok(()),
        }
    }

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn read_dir(&self, path: &Path) -> io::Result<Vec<DirItem>> {
        self.0.read_dir(path)
    }

    /// Takes from other users of this machine what they may have of a directory that is there, and so of all below it: an
    /// earlier version, or who made it, may have left it open. Where that cannot be done, it is said how to.
    pub fn close_to_others(&self, path: &Path) {
        let dir = path.display();
        match self.0.close_to_others(path) {
            Ok(true) => {
                tracing::info!(%dir, "other users of this machine could read here: they cannot any more");
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%dir, %error,
                "other users of this machine may be able to read here: say `chmod 700` as the directory's owner"),
        }
    }

    /// Makes a directory and its parents, for this user alone; no error if it is there.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    /// Renames a file over another.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    /// Makes renames, creations and removals in a directory survive a power cut.
    ///
    /// # Errors
    /// As the operating system's.
    pub async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path).await
    }

    /// Locks a file, which is made if it is not there.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has it; else as the operating system's.
    pub fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.0.lock(path)
    }

    /// Locks a directory itself, so that a second process that is started on it by mistake finds out. Nothing is made in
    /// it: it may not be the right one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if it is locked already; else as the operating system's.
    pub fn lock_dir(&self, path: &Path) -> io::Result<Lock> {
        self.0.lock_dir(path)
    }

    /// Room on the file system that holds `path`.
    ///
    /// # Errors
    /// As the operating system's.
    pub fn space(&self, path: &Path) -> io::Result<SpaceReport> {
        self.0.space(path)
    }
}
