//! A mount from beginning to end.
//!
//! [`serve`] joins the cluster, mounts, answers the kernel until the file system is unmounted (by
//! `umount`, or by us when told to stop), writes back and leaves the cluster.

use crate::device::Device;
use crate::fs::Face;
use crate::invalidate::{Invalidation, KernelCache};
use crate::metrics::Metrics;
use crate::mountpoint::Mountpoint;
use crate::notify::Real;
use crate::settings::Settings;
use futures_util::{FutureExt, select_biased};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;
use weft_client::{Client, ClientError};
use weft_env::Env;

/// Requests answered before other tasks of the thread (replies from servers among them) get their
/// turn: about a quarter of a millisecond.
const TURN: usize = 32;

/// How long files that are still open keep a mount alive that was told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Why a mount did not come about or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The settings make no sense.
    #[error("settings: {0}")]
    Settings(String),
    /// The cluster cannot be joined.
    #[error("joining the cluster: {0}")]
    Client(#[from] ClientError),
    /// The metrics cannot be shown: the address is in use, or not this machine's.
    #[error("listening on {address} for metrics: {error}")]
    Metrics {
        /// Where.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// Mounting failed: no permission, no such directory.
    #[error("mounting on {path}: {error}")]
    Mount {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The connection to the kernel failed.
    #[error("the kernel's FUSE device: {0}")]
    Device(io::Error),
    /// What had been written could not be written back when the mount ended.
    #[error("writing back at the end: {0}")]
    WriteBack(weft_client::Errno),
}

/// Mounts and serves until unmounted, or until `stop` ends: then it unmounts itself. Calls `ready`
/// once the mount can be used.
///
/// # Errors
/// See [`MountError`].
pub async fn serve(
    env: Env,
    mut settings: Settings,
    ready: impl FnOnce(&std::path::Path),
    stop: impl Future<Output = ()>,
) -> Result<(), MountError> {
    settings.check().map_err(MountError::Settings)?;
    let point = settings.mountpoint.clone();
    // Found out before the cluster has a session of a mount that does not come about.
    let possible = blocking("mount", move || {
        drop(crate::mountpoint::open_device()?);
        crate::occupied::make_room(&point)
    });
    if let Err(error) = possible.await {
        let path = settings.mountpoint;
        return Err(MountError::Mount { path, error });
    }
    // The kernel leaves times of access to us.
    settings.client.relatime &= !settings.options.noatime;
    let client = Client::connect(env.clone(), settings.client).await?;
    let metrics = Metrics::new(env.clone(), client.clone());
    let address = settings.metrics_listen;
    if !address.is_empty()
        && let Err(error) = metrics.serve(&address).await
    {
        let _ = client.close().await;
        return Err(MountError::Metrics { address, error });
    }
    let path = settings.mountpoint.clone();
    let options = settings.options.clone();
    let mounted = blocking("mount", move || Mountpoint::mount(&path, &options)).await;
    let (mountpoint, fd) = match mounted {
        Ok(mounted) => mounted,
        Err(error) => {
            let _ = client.close().await;
            return Err(MountError::Mount {
                path: settings.mountpoint,
                error,
            });
        }
    };
    tracing::info!(path = %mountpoint.path().display(), "mounted");
    let device = Device::new(fd).map_err(MountError::Device)?;
    let writer = Real::start(device.writer()).map_err(MountError::Device)?;
    let kernel = KernelCache::new(env.clone(), writer.clone());
    client.set_invalidator(Rc::new(Invalidation(kernel.clone())));
    let face = Face::new(
        env.clone(),
        client.clone(),
        writer,
        kernel,
        metrics,
        &settings.options,
    );
    let tuned = mountpoint.clone();
    env.spawn("read-ahead", async move {
        if let Err(error) = blocking("read-ahead", move || tuned.raise_read_ahead()).await {
            tracing::info!(%error, "read-ahead stays at the kernel's default of 128 KiB");
        }
    });
    ready(mountpoint.path());

    let mut answering = pin!(answer_all(&face, device).fuse());
    let mut stopped = pin!(stop.fuse());
    let result = select_biased! {
        result = answering => result,
        () = stopped => {
            let mut leaving = pin!(leave(&env, &mountpoint).fuse());
            select_biased! {
                result = answering => result,
                () = leaving => Ok(()),
            }
        }
    };
    if let Err(error) = &result {
        tracing::error!(%error, "the mount ends");
        let _ = blocking("unmount", move || mountpoint.unmount(true)).await;
    }
    let written = client.close().await.map_err(MountError::WriteBack);
    tracing::info!("unmounted");
    result.map_err(MountError::Device)?;
    written
}

/// [`serve`] on this thread until unmounted or told to stop by SIGTERM or SIGINT.
///
/// # Errors
/// See [`MountError`].
pub fn run(
    settings: Settings,
    ready: impl FnOnce(&std::path::Path) + 'static,
) -> Result<(), MountError> {
    weft_env::real::run(|env| async move {
        let stop = signalled().map_err(MountError::Device)?;
        serve(env, settings, ready, stop).await
    })
    .map_err(MountError::Device)?
}

/// Ends with the first SIGTERM or SIGINT.
///
/// # Errors
/// If signals cannot be caught.
fn signalled() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let mut terminated = pin!(terminate.recv().fuse());
        let mut interrupted = pin!(interrupt.recv().fuse());
        select_biased! {
            _ = terminated => {}
            _ = interrupted => {}
        }
    })
}

/// Answers the kernel until it says goodbye.
async fn answer_all(face: &Rc<Face>, mut device: Device) -> io::Result<()> {
    loop {
        device.readable().await?;
        for _ in 0..TURN {
            match device.try_next() {
                Ok(Some(request)) => face.begin(request),
                Ok(None) => break,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if face.is_destroyed() {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Unmounts; if files are open, takes the mount out of the tree and gives them time to be closed.
async fn leave(env: &Env, mountpoint: &Mountpoint) {
    let eager = mountpoint.clone();
    let busy = match blocking("unmount", move || eager.unmount(false)).await {
        Ok(()) => false,
        Err(error) => {
            tracing::info!(%error, "still in use");
            true
        }
    };
    if busy {
        let lazy = mountpoint.clone();
        if let Err(error) = blocking("unmount", move || lazy.unmount(true)).await {
            tracing::warn!(%error, "cannot unmount");
        }
    }
    // The kernel says goodbye when the last file is closed, which ends the mount; this bounds it.
    env.sleep(GRACE).await;
    tracing::warn!("files on the mount are still open: they are cut off");
}

/// Runs what waits for the mount itself, or for a helper program, on a thread of its own: on the
/// client's thread it would wait for ever.
async fn blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let _ = done.send(work());
        })?;
    result
        .await
        .unwrap_or_else(|_| Err(io::Error::other("a thread ended without an answer")))
}
