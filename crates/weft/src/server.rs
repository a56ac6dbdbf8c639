//! `weft meta`, `weft data`, `weft mount`, `weft nfs`: a server of its own, until SIGTERM or SIGINT.

use crate::config::load_to_start;
use crate::error::{Error, Result, Tried};
use crate::init::of_meta;
use clap::Args;
use futures_util::{FutureExt, select_biased};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weft_env::Env;
use weft_meta::Gone;

/// Names the directory of the crash points that a test arms. Builds for production do not look at it.
const CRASH_POINTS: &str = "WEFT_CRASH_POINTS";

/// Names a file: once it is there a task of the process panics, or in a mount a thread. For tests of what a panic
/// does; builds for production do not look at it.
const PANIC: &str = "WEFT_PANIC";
/// How often that file is looked for.
const PANIC_LOOK_EVERY: Duration = Duration::from_millis(20);

/// A server's command line: all else stands in the file.
#[derive(Args)]
pub struct ServerCommand {
    /// The configuration (TOML); `weft config check` shows what it means.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// `weft mount ...`
#[derive(Args)]
pub struct MountCommand {
    #[command(flatten)]
    server: ServerCommand,
    /// Goes on without whoever has started it: says that it is mounted on standard output, which it closes then.
    #[arg(long, hide = true)]
    detach: bool,
    /// Closes standard error then, too.
    #[arg(long, hide = true, requires = "detach")]
    silent_after: bool,
}

/// What a detached mount says.
pub const READY: &str = "mounted\n";

fn become_null(null: &std::fs::File, number: libc::c_int) -> std::io::Result<()> {
    // SAFETY: two descriptors, of which the first is open; whatever the second was is closed, as is meant.
    match unsafe { libc::dup2(null.as_raw_fd(), number) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The mount stands: whoever waits for it may go.
fn let_go(is_silent: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(READY.as_bytes())?;
    out.flush()?;
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    become_null(&null, libc::STDIN_FILENO)?;
    become_null(&null, libc::STDOUT_FILENO)?;
    if is_silent {
        crate::log::flush();
        become_null(&null, libc::STDERR_FILENO)?;
    }
    Ok(())
}

fn armed_panic() -> Option<PathBuf> {
    match cfg!(debug_assertions) {
        true => std::env::var_os(PANIC).map(PathBuf::from),
        false => None,
    }
}

/// See [`PANIC`].
pub fn panic_when_armed(env: &Env) {
    if let Some(file) = armed_panic() {
        let inner = env.clone();
        env.spawn("panic", async move {
            while !file.exists() {
                inner.sleep(PANIC_LOOK_EVERY).await;
            }
            panic!("a task was told to,\nfor a test");
        });
    }
}

fn panic_thread_when_armed() {
    if let Some(file) = armed_panic() {
        std::thread::spawn(move || {
            while !file.exists() {
                std::thread::sleep(PANIC_LOOK_EVERY);
            }
            panic!("a thread was told to, for a test");
        });
    }
}

/// Ends with the first SIGTERM or SIGINT.
pub async fn told_to_stop() -> Result<()> {
    let listen = |kind| signal(kind).tried(|| "cannot listen to signals".into());
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    select_biased! {
        _ = terminate.recv().fuse() => {}
        _ = interrupt.recv().fuse() => {}
    }
    Ok(())
}

/// Runs a metadata server, until it is told to stop or is removed from its group.
///
/// # Errors
/// If the configuration is wrong or the server does not start.
pub fn meta(command: &ServerCommand) -> Result<()> {
    let mut settings: weft_meta::Settings = load_to_start(&command.config)?;
    if cfg!(debug_assertions) {
        settings.crash_points = std::env::var_os(CRASH_POINTS).map(PathBuf::from);
    }
    crate::block_on(|env| async move {
        let server = weft_meta::start(env, settings).await.map_err(of_meta)?;
        let told = std::pin::pin!(told_to_stop());
        let gone = std::pin::pin!(server.gone());
        let ended = match futures_util::future::select(told, gone).await {
            futures_util::future::Either::Left((told, _)) => told,
            // Done, not failed: nothing is to start it again. What to do stands in its log.
            futures_util::future::Either::Right((Gone::Removed(_), _)) => Ok(()),
            futures_util::future::Either::Right((Gone::Refused(why), _)) => {
                Err(Error::Refused(why))
            }
        };
        server.stop().await;
        ended
    })
}

/// Runs a data server.
///
/// # Errors
/// If the configuration is wrong or the server does not start.
pub fn data(command: &ServerCommand) -> Result<()> {
    let settings: weft_data::Settings = load_to_start(&command.config)?;
    move_files(&settings)?;
    crate::block_on(|env| async move {
        let told = std::pin::pin!(told_to_stop());
        let serve = std::pin::pin!(async {
            match weft_data::start(env, settings).await {
                // Until it is told to stop, or that it is not to be here.
                Ok(server) => server.misplaced().await,
                Err(error) => error,
            }
        });
        match futures_util::future::select(told, serve).await {
            // Dropping the server stops it.
            futures_util::future::Either::Left((told, _)) => told,
            futures_util::future::Either::Right((error, _)) => Err(match error.is_refusal() {
                true => Error::Refused(error.to_string()),
                false => Error::Failed(error.to_string()),
            }),
        }
    })
}

/// Moves files for the cluster's jobs beside the data server, on a thread of its own: serving comes first.
/// It ends with the process.
fn move_files(settings: &weft_data::Settings) -> Result<()> {
    let meta = settings.meta.clone();
    let cluster_id = settings.cluster_id.clone();
    let name = format!("mover at data:{}.{}", settings.pair, settings.member);
    let run = move || {
        let run = weft_env::real::run(|env| weft_mover::run(env, meta, cluster_id, name));
        // It goes on until the process ends: if it cannot, the process is not what it is taken for.
        if let Err(error) = run {
            crate::log::last_words(&format!("weft: this server cannot move files: {error}"));
            std::process::exit(1);
        }
    };
    let thread = std::thread::Builder::new().name("mover".into()).spawn(run);
    thread.tried(|| "cannot start the thread that moves files".into())?;
    Ok(())
}

/// Mounts a cluster.
///
/// # Errors
/// If the configuration is wrong, the cluster cannot be joined or the mount fails.
pub fn mount(command: &MountCommand) -> Result<()> {
    panic_thread_when_armed();
    let mut settings: weft_mount::Settings = load_to_start(&command.server.config)?;
    let (is_detached, is_silent) = (command.detach, command.silent_after);
    if is_detached {
        // No terminal ends it, and no directory but its own is held by it.
        rustix::process::setsid().tried(|| "cannot begin a session".into())?;
        std::env::set_current_dir("/").tried(|| "cannot go to /".into())?;
    }
    if settings.options.source == weft_mount::Options::default().source {
        // Tools find the cluster of a path by this (mounts.rs).
        settings.options.source = format!(
            "weft:{}@{}",
            settings.client.cluster_id,
            settings.client.meta.join(",")
        );
    }
    weft_mount::run(settings, move |path| {
        tracing::info!(path = %path.display(), "ready");
        if is_detached && let Err(error) = let_go(is_silent) {
            // Who ordered the mount has gone without it.
            tracing::warn!(%error, "nobody waits for this mount any more: it ends");
            let me = rustix::process::getpid();
            let _: rustix::io::Result<()> =
                rustix::process::kill_process(me, rustix::process::Signal::TERM);
        }
    })
    .map_err(|error| Error::Failed(error.to_string()))
}

/// Runs an NFS gateway.
///
/// # Errors
/// If the configuration is wrong, the cluster cannot be joined or the address cannot be listened on.
pub fn nfs(command: &ServerCommand) -> Result<()> {
    let settings: weft_nfs::Settings = load_to_start(&command.config)?;
    crate::block_on(|env| async move {
        let gateway = weft_nfs::start(env, settings)
            .await
            .map_err(|error| Error::Failed(error.to_string()))?;
        told_to_stop().await?;
        gateway.stop().await;
        Ok(())
    })
}
