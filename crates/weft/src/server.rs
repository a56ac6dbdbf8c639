//! `weft meta`, `weft data`, `weft mount`, `weft nfs`: a server of its own, until SIGTERM or SIGINT.

use crate::config::load;
use crate::error::{Error, Result, Tried};
use clap::Args;
use futures_util::{FutureExt, select_biased};
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// Names the directory of the crash points that a test arms. Builds for production do not look at it.
const CRASH_POINTS: &str = "WEFT_CRASH_POINTS";

/// A server's command line: all else stands in the file.
#[derive(Args)]
pub struct ServerCommand {
    /// The configuration (TOML); `weft config check` shows what it means.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
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
    let mut settings: weft_meta::Settings = load(&command.config)?;
    if cfg!(debug_assertions) {
        settings.crash_points = std::env::var_os(CRASH_POINTS).map(PathBuf::from);
    }
    crate::block_on(|env| async move {
        let server = weft_meta::start(env, settings)
            .await
            .map_err(|error| Error::Failed(error.to_string()))?;
        let told = std::pin::pin!(told_to_stop());
        let removed = std::pin::pin!(server.removal());
        match futures_util::future::select(told, removed).await {
            futures_util::future::Either::Left((told, _)) => told?,
            // Done, not failed: nothing is to start it again. What to do stands in its log.
            futures_util::future::Either::Right(_) => {}
        }
        server.stop().await;
        Ok(())
    })
}

/// Runs a data server.
///
/// # Errors
/// If the configuration is wrong or the server does not start.
pub fn data(command: &ServerCommand) -> Result<()> {
    let settings: weft_data::Settings = load(&command.config)?;
    move_files(&settings)?;
    crate::block_on(|env| async move {
        let server = weft_data::start(env, settings)
            .await
            .map_err(|error| Error::Failed(error.to_string()))?;
        told_to_stop().await?;
        server.stop();
        Ok(())
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
        if let Err(error) = run {
            tracing::error!(%error, "this server moves no files");
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
pub fn mount(command: &ServerCommand) -> Result<()> {
    let mut settings: weft_mount::Settings = load(&command.config)?;
    if settings.options.source == weft_mount::Options::default().source {
        // Tools find the cluster of a path by this (mounts.rs).
        settings.options.source = format!(
            "weft:{}@{}",
            settings.client.cluster_id,
            settings.client.meta.join(",")
        );
    }
    weft_mount::run(settings, |path| {
        tracing::info!(path = %path.display(), "ready");
    })
    .map_err(|error| Error::Failed(error.to_string()))
}

/// Runs an NFS gateway.
///
/// # Errors
/// If the configuration is wrong, the cluster cannot be joined or the address cannot be listened on.
pub fn nfs(command: &ServerCommand) -> Result<()> {
    let settings: weft_nfs::Settings = load(&command.config)?;
    crate::block_on(|env| async move {
        let gateway = weft_nfs::start(env, settings)
            .await
            .map_err(|error| Error::Failed(error.to_string()))?;
        told_to_stop().await?;
        gateway.stop().await;
        Ok(())
    })
}
