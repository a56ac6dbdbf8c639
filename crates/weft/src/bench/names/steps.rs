//! So many operations of one kind by each client, one at a time.

use super::{Bench, What, create, directory, entries, refused, root, seconds, tell_latencies};
use crate::bench::measure::own_cpu;
use crate::error::{Error, Result};
use futures_util::stream::{FuturesUnordered, TryStreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use weft_client::{Client, FileKind, RenameFlags};
use weft_env::Mono;

/// Runs one step. Its sessions are new: nothing is cached in them.
///
/// # Errors
/// If an operation fails, or what it needs was not made before.
pub async fn run(bench: &Bench, what: What) -> Result<Value> {
    let (clients, each) = (bench.options.clients, bench.options.each);
    let inodes = match what {
        What::Getattr => inodes(bench, each).await?,
        _ => Vec::new(),
    };
    let sessions = bench.sessions(clients).await?;
    let mut homes = Vec::new();
    let top = directory(&sessions[0], sessions[0].root(), &bench.options.under).await?;
    for (client, session) in sessions.iter().enumerate() {
        homes.push(match what {
            // It needs none, and is to know nothing.
            What::Getattr => 0,
            _ => directory(session, top, &format!("c{client}")).await?,
        });
    }
    let (started, cpu) = (bench.turn().await?, own_cpu());
    let shares = sessions.iter().zip(homes).enumerate();
    let parts: FuturesUnordered<_> = shares
        .map(|(client, (session, home))| {
            let part = Part {
                bench,
                what,
                client: session,
                home,
                inodes: &inodes,
                // Each begins elsewhere, so that they do not ask for the same at the same time.
                offset: client * inodes.len() / clients as usize,
                pace: bench.options.rate.map(|rate| Pace {
                    first: started + Duration::from_secs_f64(client as f64 / rate),
                    every: Duration::from_secs_f64(f64::from(clients) / rate),
                }),
            };
            part.run(each)
        })
        .collect();
    let latencies: Vec<Vec<u64>> = parts.try_collect().await?;
    let (took, cpu) = (seconds(started, bench.env.now()), own_cpu() - cpu);
    bench.end(sessions).await?;
    let latencies = latencies.concat();
    let mut figures = json!({
        "operations": latencies.len(),
        "seconds": took,
        "cpu_s": cpu,
    });
    tell_latencies(&mut figures, latencies);
    Ok(figures)
}

/// The files under `--under`, told by a session that is over before the clients' begin.
async fn inodes(bench: &Bench, least: u64) -> Result<Vec<u64>> {
    let sessions = bench.sessions(1).await?;
    let client = &sessions[0];
    let top = directory(client, client.root(), &bench.options.under).await?;
    let mut found = Vec::new();
    for home in entries(client, top, FileKind::Directory).await? {
        found.extend(entries(client, home, FileKind::Regular).await?);
    }
    bench.end(sessions).await?;
    match found.len() as u64 >= least {
        true => Ok(found),
        false => Err(Error::Usage(format!(
            "{} has {} files, and each client is to ask for {least}, each once: make more (`create`, \
             `fill`), or ask for less (--each)",
            bench.options.under,
            found.len()
        ))),
    }
}

/// One client's share.
struct Part<'a> {
    bench: &'a Bench,
    what: What,
    client: &'a Client,
    home: u64,
    inodes: &'a [u64],
    offset: usize,
    pace: Option<Pace>,
}

/// When a client's operations are due.
#[derive(Clone, Copy)]
struct Pace {
    first: Mono,
    every: Duration,
}

impl Part<'_> {
    /// Nanoseconds of each operation.
    async fn run(self, each: u64) -> Result<Vec<u64>> {
        let mut latencies = Vec::with_capacity(each as usize);
        for number in 0..each {
            if let Some(pace) = self.pace {
                // At once where it is late.
                let due = pace.first + pace.every.mul_f64(number as f64);
                self.bench.env.sleep_until(due).await;
            }
            let begun = self.bench.env.now();
            self.operation(number).await?;
            latencies.push(self.bench.env.now().since(begun).as_nanos() as u64);
        }
        Ok(latencies)
    }

    async fn operation(&self, number: u64) -> Result<()> {
        let (client, home, root) = (self.client, self.home, root());
        let (old, new) = (format!("f{number}"), format!("g{number}"));
        let done = match self.what {
            What::Create => create(client, home, &old).await,
            What::Getattr => {
                let at = (self.offset + number as usize) % self.inodes.len();
                client.getattr(self.inodes[at]).await.map(drop)
            }
            What::Rename => {
                let (from, to) = (old.as_bytes(), new.as_bytes());
                client
                    .rename(&root, home, from, home, to, RenameFlags::default())
                    .await
            }
            What::Delete => client.unlink(&root, home, new.as_bytes()).await,
            What::Mkdir => {
                let name = format!("d{number}");
                let made = client.mkdir(&root, home, name.as_bytes(), 0o755).await;
                made.map(drop)
            }
            What::Fill | What::Load => Err(weft_client::Errno(libc::ENOSYS)),
        };
        done.map_err(refused(&format!("{:?} {number}", self.what)))
    }
}
