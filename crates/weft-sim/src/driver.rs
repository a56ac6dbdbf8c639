//! `weft-env`'s driver over the simulated world.
//!
//! A driver belongs to one life of a node's process. After that life it has no effect: destructors
//! of a killed process run, as Rust demands, but a killed process cannot send, write or remove.

use crate::executor::Sleep;
use crate::world::Inner;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;
use weft_env::{
    DirItem, Driver, File, Listener, Lock, Mono, OpenMode, SpaceReport, Stream, TaskDriver, Wall,
};

pub(crate) struct SimDriver {
    inner: Weak<Inner>,
    node: usize,
    life: u64,
}

/// The process that asks is dead.
pub(crate) fn dead() -> io::Error {
    io::Error::other("the process of this environment has died")
}

struct NoTask;

impl TaskDriver for NoTask {
    fn abort(&self) {}

    fn is_finished(&self) -> bool {
        true
    }
}

impl SimDriver {
    pub(crate) fn new(inner: &Rc<Inner>, node: usize, life: u64) -> SimDriver {
        SimDriver {
            inner: Rc::downgrade(inner),
            node,
            life,
        }
    }

    fn living(&self) -> io::Result<Rc<Inner>> {
        match self.inner.upgrade() {
            Some(inner) if inner.is_alive(self.node, self.life) => Ok(inner),
            _ => Err(dead()),
        }
    }
}

impl Driver for SimDriver {
    fn now(&self) -> Mono {
        let Some(inner) = self.inner.upgrade() else {
            return Mono(0);
        };
        let nodes = inner.nodes.borrow();
        Mono(nodes[self.node].mono(inner.executor.now()))
    }

    fn wall(&self) -> Wall {
        let Some(inner) = self.inner.upgrade() else {
            return Wall(0);
        };
        let nodes = inner.nodes.borrow();
        Wall(nodes[self.node].wall(inner.executor.now()))
    }

    fn boot(&self) -> u64 {
        let Some(inner) = self.inner.upgrade() else {
            return 0;
        };
        inner.nodes.borrow()[self.node].boots
    }

    fn random(&self) -> u64 {
        match self.living() {
            Ok(inner) => inner.nodes.borrow_mut()[self.node].random.bits(),
            Err(_) => 0,
        }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        match self.living() {
            Ok(inner) => {
                let stretched = inner.nodes.borrow()[self.node].stretch(nanos);
                Sleep::new(&inner, stretched).boxed_local()
            }
            Err(_) => std::future::pending().boxed_local(),
        }
    }

    fn spawn(&self, name: &'static str, task: LocalBoxFuture<'static, ()>) -> Box<dyn TaskDriver> {
        match self.living() {
            Ok(inner) => Box::new(inner.executor.spawn(&self.inner, self.node, name, task)),
            Err(_) => Box::new(NoTask),
        }
    }

    fn connect(&self, address: String) -> LocalBoxFuture<'static, io::Result<Stream>> {
        match self.living() {
            Ok(inner) => inner.net.connect(&inner, self.node, self.life, address),
            Err(_) => std::future::pending().boxed_local(),
        }
    }

    fn listen(&self, address: String) -> LocalBoxFuture<'static, io::Result<Listener>> {
        let listener = self
            .living()
            .and_then(|inner| inner.net.listen(&inner, self.node, self.life, &address));
        std::future::ready(listener).boxed_local()
    }

    fn open(&self, path: PathBuf, mode: OpenMode) -> LocalBoxFuture<'static, io::Result<File>> {
        let file = self
            .living()
            .and_then(|inner| inner.disks.open(&inner, self.node, self.life, &path, mode));
        std::future::ready(file).boxed_local()
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirItem>> {
        self.living()?.disks.read_dir(self.node, path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.living()?.disks.create_dir_all(self.node, path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.living()?.disks.remove_file(self.node, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.living()?.disks.rename(self.node, from, to)
    }

    fn sync_dir(&self, path: &Path) -> LocalBoxFuture<'static, io::Result<()>> {
        match self.living() {
            Ok(inner) => inner.disks.sync_dir(&inner, self.node, self.life, path),
            Err(error) => std::future::ready(Err(error)).boxed_local(),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let inner = self.living()?;
        inner.lock(self.node, self.life, path)
    }

    fn lock_dir(&self, path: &Path) -> io::Result<Lock> {
        let inner = self.living()?;
        inner.lock_dir(self.node, self.life, path)
    }

    fn space(&self, _path: &Path) -> io::Result<SpaceReport> {
        Ok(self.living()?.disks.space(self.node))
    }
}
