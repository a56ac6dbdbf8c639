//! Fills a name space fast.

use super::{Bench, directory, refused, root, seconds};
use crate::error::{Error, Result};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use weft_client::{Client, FileKind};

/// Files in a directory.
const DIRECTORY: u64 = 1_000;
/// Files of a session: what it has leases on is forgotten with it.
const SESSION: u64 = 50_000;
/// Files that a session makes at a time. More only wait.
const IN_FLIGHT: usize = 64;

/// Makes `clients * each` files in directories of a thousand.
///
/// # Errors
/// If one cannot be made.
pub async fn run(bench: &Bench) -> Result<Value> {
    let clients = bench.options.clients;
    let files = u64::from(clients) * bench.options.each;
    let started = bench.turn().await?;
    let round = SESSION * u64::from(clients);
    let mut at = 0;
    while at < files {
        let end = files.min(at + round);
        let sessions = bench.sessions(clients).await?;
        let top = directory(&sessions[0], sessions[0].root(), &bench.options.under).await?;
        let parts = sessions.iter().enumerate().map(|(client, session)| {
            let first = at + client as u64 * SESSION;
            part(session, top, first, end.min(first + SESSION))
        });
        stream::iter(parts)
            .map(Ok)
            .try_for_each_concurrent(None, |part| part)
            .await?;
        bench.end(sessions).await?;
        at = end;
    }
    Ok(json!({
        "operations": files,
        "seconds": seconds(started, bench.env.now()),
    }))
}

/// The files with these numbers. A directory is of one session, so that nobody takes another's leases.
async fn part(client: &Client, top: u64, first: u64, end: u64) -> Result<()> {
    let mut at = first;
    while at < end {
        let last = end.min(at + DIRECTORY);
        let home = directory(client, top, &format!("{}", at / DIRECTORY)).await?;
        let make = |number| async move {
            let name = format!("file-{number}");
            client
                .mknod(&root(), home, name.as_bytes(), FileKind::Regular, 0o644, 0)
                .await
                .map_err(refused(&format!("make {name}")))?;
            Ok::<_, Error>(())
        };
        stream::iter(at..last)
            .map(make)
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>()
            .await?;
        at = last;
    }
    Ok(())
}
