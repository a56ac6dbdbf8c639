//! A model of Linux between programs and a mount's face: names, attributes, sizes and pages, as fs/fuse and the
//! page cache keep them, and the system calls on top.
//!
//! A coherence fault may sit where no client library sees it: between an answer, an invalidation and the next
//! request. So the real face of a mount (`weft_mount::fs::Face`, with what it knows of the kernel's cache) runs
//! before this, and what programs are told by [`Thread`] is what the oracle judges.
//!
//! Rules come from Linux 6.12 to 6.18; each function here names the one it follows. Whatever is a moment of its
//! own there is one here ([`connection::Connection::step`]): a thread wakes some time after its answer has come,
//! reads i_size some time after it has got a page, and so on, as the seed says.
//!
//! Not modelled: mappings and dirty pages, O_DIRECT of the caller, large folios, memory pressure, locks of files,
//! extended attributes, and permissions (all callers are root).

mod connection;
mod files;
mod inode;
mod listing;
mod names;
mod pages;
mod wire;

pub use files::File;
pub use inode::Stat;
pub use names::Held;

use crate::rng::Rng;
use connection::{Connection, Ours};
use inode::Inode;
use std::cell::Cell;
use std::rc::Rc;
use weft_client::{Client, Errno};
use weft_env::Env;
use weft_mount::Options;
use weft_mount::abi;
use weft_mount::fs::Face;
use weft_mount::invalidate::{Invalidation, KernelCache};
use weft_mount::metrics::Metrics;

/// For how long the kernel may keep what a lease covers: for ever, as far as a run goes.
const KEPT_SECONDS: u64 = 24 * 3600;

/// Features of a connection that the model has. What else a face may ask for it would have to learn first.
const MODELLED: u64 = abi::init::ASYNC_READ
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

/// One mount: a kernel, the face before it, and its client. Ends with its node.
#[derive(Clone)]
pub struct Mount {
    connection: Rc<Connection>,
    root: Rc<Inode>,
    threads: Rc<Cell<u32>>,
}

/// A thread of a program on a mount's machine: it makes system calls, one after the other.
pub struct Thread {
    connection: Rc<Connection>,
    root: Rc<Inode>,
    pid: u32,
}

impl Mount {
    /// Mounts what `client` sees; what the kernel draws comes from `rng`.
    ///
    /// # Errors
    /// If the face refuses.
    pub async fn new(env: Env, client: Client, rng: Rng) -> Result<Mount, Errno> {
        let connection = Connection::new(env.clone(), rng);
        let kernel = Rc::new(Ours(connection.clone()));
        let cache = KernelCache::new(env.clone(), kernel.clone());
        client.set_invalidator(Rc::new(Invalidation(cache.clone())));
        let metrics = Metrics::new(env.clone(), client.clone());
        let options = Options {
            kernel_cache_seconds: KEPT_SECONDS,
            ..Options::default()
        };
        let face = Face::new(env.clone(), client, kernel, cache, metrics, &options);
        let served = connection.clone();
        env.spawn("kernel requests", async move {
            loop {
                let request = served.next().await;
                face.begin(request);
            }
        });
        let offer = abi::InitIn {
            major: abi::MAJOR,
            minor: abi::MINOR,
            max_readahead: 128 << 10,
            flags: u64::MAX,
        };
        let answer = connection.ask(0, 0, abi::Call::Init(offer)).await?;
        let wanted = wire::init_flags(answer)?;
        if wanted & !MODELLED != 0 {
            tracing::error!(
                flags = wanted & !MODELLED,
                "the face asks for what the model lacks"
            );
            return Err(Errno(libc::ENOSYS));
        }
        let root = connection.root();
        Ok(Mount {
            connection,
            root,
            threads: Rc::default(),
        })
    }

    /// Another thread.
    pub fn thread(&self) -> Thread {
        self.threads.set(self.threads.get() + 1);
        Thread {
            connection: self.connection.clone(),
            root: self.root.clone(),
            pid: self.threads.get(),
        }
    }
}
