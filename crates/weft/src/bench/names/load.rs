//! A steady load, and what its clients notice of a failure.

use super::gaps::{Done, Noticed, all_back, noticed};
use super::{Bench, create, directory, entries, refused, root};
use crate::bench::wait_for_a_line;
use crate::error::{Error, Result};
use futures_util::future::try_join;
use futures_util::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use weft_client::{Client, FileKind};

/// Files of so many directories of `fill` are asked for.
const SAMPLED: usize = 20;
/// Files that are removed at a time in the end.
const IN_FLIGHT: usize = 64;

/// Creates and getattrs until it is told to end: the first line after `ready` begins, the second is
/// the mark, the third ends.
///
/// # Errors
/// If an operation fails, whatever happened to servers: a client may notice a pause and nothing else.
pub async fn run(bench: &Bench) -> Result<Value> {
    let inodes = sample(bench).await?;
    let clients = bench.options.clients;
    let sessions = bench.sessions(clients).await?;
    let mut homes = Vec::new();
    let own = format!("load-{}", std::process::id());
    let top = directory(&sessions[0], sessions[0].root(), &own).await?;
    for (client, session) in sessions.iter().enumerate() {
        homes.push(directory(session, top, &format!("{client}")).await?);
    }
    let load = Load {
        bench,
        inodes,
        done: RefCell::default(),
        made: RefCell::new(vec![Vec::new(); clients as usize]),
        is_over: Cell::new(false),
    };
    bench.turn().await?;
    let shares = sessions.iter().zip(&homes).enumerate();
    let parts: FuturesUnordered<_> = shares
        .map(|(client, (session, home))| load.part(session, *home, client))
        .collect();
    let told = async {
        wait_for_a_line().await?;
        let mark = bench.env.now();
        wait_for_a_line().await?;
        load.is_over.set(true);
        Ok::<_, Error>(mark)
    };
    let (made, mark) = try_join(parts.try_collect::<Vec<_>>(), told).await?;
    // In the order in which the clients ended.
    for (client, made) in made {
        remove(&sessions[client], homes[client], made).await?;
    }
    for client in 0..clients {
        let name = client.to_string();
        let removed = sessions[0].rmdir(&root(), top, name.as_bytes()).await;
        removed.map_err(refused("remove a directory"))?;
    }
    let parent = sessions[0].root();
    let removed = sessions[0].rmdir(&root(), parent, own.as_bytes()).await;
    removed.map_err(refused("remove a directory"))?;
    bench.end(sessions).await?;
    let Some(Noticed {
        gap,
        slowest,
        operations,
    }) = noticed(load.done.into_inner(), mark.0)
    else {
        return Err(Error::Failed(
            "nothing was answered before the mark, or nothing after it: leave more time".into(),
        ));
    };
    let back = all_back(&load.made.into_inner(), mark.0);
    Ok(json!({
        "gap_ms": gap as f64 / 1e6,
        // Null: a client has made nothing since.
        "back_ms": back.map(|back| back as f64 / 1e6),
        "slowest_ms": slowest as f64 / 1e6,
        "operations": operations,
    }))
}

/// Files of directories that lie evenly in what `fill` has made.
async fn sample(bench: &Bench) -> Result<Vec<u64>> {
    let sessions = bench.sessions(1).await?;
    let client = &sessions[0];
    let top = directory(client, client.root(), &bench.options.under).await?;
    let all = entries(client, top, FileKind::Directory).await?;
    let step = all.len().div_ceil(SAMPLED).max(1);
    let mut found = Vec::new();
    for home in all.into_iter().step_by(step) {
        found.extend(entries(client, home, FileKind::Regular).await?);
    }
    bench.end(sessions).await?;
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::Usage(format!(
            "there is no file in {}: make some with `fill`",
            bench.options.under
        ))),
    }
}

async fn remove(client: &Client, home: u64, made: u64) -> Result<()> {
    let remove = |number| async move {
        let name = format!("f{number}");
        let removed = client.unlink(&root(), home, name.as_bytes()).await;
        removed.map_err(refused(&format!("remove {name}")))
    };
    stream::iter(0..made)
        .map(remove)
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

struct Load<'a> {
    bench: &'a Bench,
    inodes: Vec<u64>,
    done: RefCell<Vec<Done>>,
    /// Of each client, when its creates were answered.
    made: RefCell<Vec<Vec<u64>>>,
    is_over: Cell<bool>,
}

impl Load<'_> {
    /// What one client does; which one it is, and how many files it has made.
    async fn part(&self, client: &Client, home: u64, index: usize) -> Result<(usize, u64)> {
        let (env, pause) = (&self.bench.env, self.bench.options.pause_ms);
        let clients = self.bench.options.clients as usize;
        let offset = index * self.inodes.len() / clients;
        let mut made = 0;
        while !self.is_over.get() {
            let begun = env.now().0;
            let created = create(client, home, &format!("f{made}")).await;
            created.map_err(refused("create"))?;
            self.made.borrow_mut()[index].push(env.now().0);
            self.succeeded(begun);
            // What it has asked for once it has a lease on: then it would not ask.
            if (made as usize) < self.inodes.len() {
                let begun = env.now().0;
                let at = (offset + made as usize) % self.inodes.len();
                let asked = client.getattr(self.inodes[at]).await;
                asked.map_err(refused("getattr"))?;
                self.succeeded(begun);
            }
            made += 1;
            if pause > 0 {
                env.sleep(Duration::from_millis(pause)).await;
            }
        }
        Ok((index, made))
    }

    fn succeeded(&self, begun: u64) {
        let ended = self.bench.env.now().0;
        self.done.borrow_mut().push(Done { begun, ended });
    }
}
