//! `weft bench names`: clients without a mount that change and read names, for benchmarks of the
//! metadata service.
//!
//! The clients are the library's, each with a session of its own and settings as they come; what they
//! ask goes to the metadata servers and nowhere else. Between getting ready and the first operation a
//! process waits for a line on standard input, so that several can begin at the same time.

mod fill;
mod gaps;
mod load;
mod steps;

use super::{stock_settings, wait_for_a_line};
use crate::error::{Error, Result};
use crate::output::say;
use clap::{Args, ValueEnum};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use weft_client::{Client, Cred, Errno, FileKind, Settings};
use weft_env::{Env, Mono};

/// Entries of a page of a directory.
const PAGE: usize = 1_000;

/// Prints `ready`, waits for a line on standard input, does what it is asked for and prints one JSON
/// object. A file is made, and is closed by whoever made it; nothing is written to it.
#[derive(Args)]
pub struct NamesOptions {
    /// What to do.
    what: What,
    /// Addresses (host:port) of metadata servers.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', required = true)]
    meta: Vec<String>,
    /// A directory in the root of the cluster, where all of it is done; made if it is missing.
    #[arg(long, value_name = "NAME")]
    under: String,
    /// Clients, each with one operation at a time (`fill`: with many).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Operations of each client (`load`: does not end by itself).
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    each: u64,
    /// Operations a second that all clients together begin at most (not `fill`, `load`); as many as they can
    /// unless told.
    #[arg(long, value_name = "OPERATIONS", value_parser = parse_rate)]
    rate: Option<f64>,
    /// `load`: what a client waits after a create and a getattr.
    #[arg(long, value_name = "MS", default_value_t = 1)]
    pause_ms: u64,
}

/// What the clients do. Each makes its names in a directory of its own. `getattr`, `rename` and `delete`
/// need what was made before them, by a process with the same `--under`, `--clients` and `--each`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    /// Makes files as fast as it goes, a thousand in each directory.
    Fill,
    /// Makes files, f0 and so on.
    Create,
    /// Asks for attributes of files, each once, in a session that has no leases: each is a message.
    Getattr,
    /// Renames the files of `create` to g0 and so on.
    Rename,
    /// Removes the files of `rename`.
    Delete,
    /// Makes directories, d0 and so on.
    Mkdir,
    /// Creates and getattrs without end, until a line on standard input; a line before that marks since
    /// when what is lost is counted. The files are removed in the end.
    Load,
}

fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a number of operations a second above 0".into()),
    }
}

/// Runs `weft bench names`.
///
/// # Errors
/// If the cluster cannot be reached, or an operation fails.
pub async fn run(env: Env, options: NamesOptions) -> Result<()> {
    if options.under.is_empty() || options.under.contains('/') {
        return Err(Error::Usage(
            "--under: one name, of a directory in the root of the cluster".into(),
        ));
    }
    let settings = stock_settings(&env, &options.meta, "weft bench names").await?;
    let bench = Bench {
        env,
        settings,
        options,
    };
    let figures = match bench.options.what {
        What::Fill => fill::run(&bench).await?,
        What::Load => load::run(&bench).await?,
        what => steps::run(&bench, what).await?,
    };
    say!("{figures}")
}

/// Whoever runs the benchmark made the cluster for it.
fn root() -> Cred {
    Cred::default()
}

fn seconds(from: Mono, to: Mono) -> f64 {
    to.since(from).as_secs_f64()
}

/// What was refused, in words.
fn refused(what: &str) -> impl Fn(Errno) -> Error {
    move |errno| {
        let why = std::io::Error::from_raw_os_error(errno.0);
        Error::Failed(format!("{what}: {why}"))
    }
}

/// The options, and what every part needs.
struct Bench {
    env: Env,
    settings: Settings,
    options: NamesOptions,
}

impl Bench {
    /// So many sessions.
    ///
    /// # Errors
    /// If no metadata server takes one.
    async fn sessions(&self, count: u32) -> Result<Vec<Client>> {
        let connect = |_| async {
            Client::connect(self.env.clone(), self.settings.clone())
                .await
                .map_err(|error| Error::Unreachable(error.to_string()))
        };
        let sessions = stream::iter(0..count).map(connect);
        sessions.buffered(count as usize).try_collect().await
    }

    /// Ends sessions, so that the service keeps nothing for them.
    ///
    /// # Errors
    /// What could not be written back.
    async fn end(&self, sessions: Vec<Client>) -> Result<()> {
        for client in sessions {
            client
                .close()
                .await
                .map_err(refused("the end of a session"))?;
        }
        Ok(())
    }

    /// Says that it is ready and waits for its turn.
    async fn turn(&self) -> Result<Mono> {
        say!("ready")?;
        wait_for_a_line().await?;
        Ok(self.env.now())
    }
}

/// The directory of that name, made if it is missing.
///
/// # Errors
/// As the service says.
async fn directory(client: &Client, parent: u64, name: &str) -> Result<u64> {
    match client.mkdir(&root(), parent, name.as_bytes(), 0o755).await {
        Ok(made) => return Ok(made.attr.ino),
        Err(Errno(libc::EEXIST)) => {}
        Err(errno) => return Err(refused(&format!("mkdir {name}"))(errno)),
    }
    let found = client.lookup(&root(), parent, name.as_bytes()).await;
    found
        .and_then(|found| found.entry.ok_or(Errno(libc::ENOENT)))
        .map(|known| known.attr.ino)
        .map_err(refused(&format!("look up {name}")))
}

/// Inodes of this kind in a directory.
///
/// # Errors
/// As the service says.
async fn entries(client: &Client, directory: u64, kind: FileKind) -> Result<Vec<u64>> {
    let failed = refused("read a directory");
    let handle = client.opendir(&root(), directory).await.map_err(&failed)?;
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = client.readdir(handle, after, PAGE, false).await;
        let page = page.map_err(&failed)?;
        let Some(last) = page.last() else { break };
        after = last.cookie;
        let own = page.iter().filter(|entry| {
            entry.kind == kind && entry.name != b".".as_slice() && entry.name != b"..".as_slice()
        });
        found.extend(own.map(|entry| entry.ino));
    }
    client.releasedir(handle);
    Ok(found)
}

/// Makes a file, exclusively, and closes it.
///
/// # Errors
/// As the service says.
async fn create(client: &Client, directory: u64, name: &str) -> std::result::Result<(), Errno> {
    let flags = weft_client::CreateFlags {
        exclusive: true,
        open: weft_client::OpenFlags {
            write: true,
            ..weft_client::OpenFlags::default()
        },
    };
    let created = client
        .create(&root(), directory, name.as_bytes(), 0o644, flags)
        .await;
    let (_, handle) = created?;
    client.flush(handle, None).await?;
    client.release(handle, None).await
}

/// The value at this share (0 to 1) of sorted ones: the least that so many are not above.
fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let at = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

/// Microseconds of operations that took so many nanoseconds, into an object.
fn tell_latencies(figures: &mut Value, mut nanoseconds: Vec<u64>) {
    nanoseconds.sort_unstable();
    for (key, share) in [
        ("p50_us", 0.5),
        ("p90_us", 0.9),
        ("p99_us", 0.99),
        ("max_us", 1.0),
    ] {
        figures[key] = (percentile(&nanoseconds, share) as f64 / 1e3).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&values, 0.5), 100);
        assert_eq!(percentile(&values, 0.99), 198);
        assert_eq!(percentile(&values, 1.0), 200);
        assert_eq!(percentile(&values, 0.0), 1);
        assert_eq!(percentile(&[7], 0.5), 7);
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
