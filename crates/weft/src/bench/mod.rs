//! `weft bench`: what a mount (or any directory, for comparison) does in a second, and what it costs.
//!
//! Plain system calls on files under a directory, on as many threads as there are jobs. Nothing there
//! knows Weft but the counting of processor time. `net` measures the network below, and says which of the two is the
//! limit. `stream` and `names` are clients without a mount, for benchmarks of many clients and of the metadata service.

mod io;
mod measure;
mod meta;
mod names;
mod net;
mod stream;
mod tree;

use crate::error::{Error, Result, Tried};
use crate::log::tell;
use crate::tool::connect_first;
use clap::{Args, Subcommand};
use measure::Report;
use std::path::{Path, PathBuf};
use weft_client::Settings;
use weft_env::Env;

/// `weft bench ...`
#[derive(Args)]
pub struct BenchCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Throughput and IOPS: large and small, sequential and random, one and several writers.
    Io(IoOptions),
    /// Operations on names: create, stat, readdir, rename, unlink, mkdir, small files.
    Meta(MetaOptions),
    /// A source tree of several thousand files: unpacked, listed, searched, removed.
    Tree(Common),
    /// The network between nodes (latency, overheads, gaps, bandwidth, alone and in parallel), and whether it or Weft is
    /// the limit. Try it at once with --local.
    Net(Box<net::NetCommand>),
    /// One client of a cluster, without a mount, that waits to be let go (used by `cargo xtask bench`).
    #[command(hide = true)]
    Stream(stream::StreamOptions),
    /// Clients of the metadata service, without a mount, that wait to be let go (used by
    /// `cargo xtask bench`).
    #[command(hide = true)]
    Names(names::NamesOptions),
}

/// What all have.
#[derive(Args, Clone)]
struct Common {
    /// A directory on a mount; what is made in it is removed again.
    directory: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Names of the processes whose processor time is counted.
    #[arg(long, value_delimiter = ',', default_value = "weft")]
    cpu_of: Vec<String>,
    /// Only these figures.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Touch this much free memory before each figure (MiB), on virtual machines whose host takes
    /// it away.
    #[arg(long, default_value_t = 0)]
    warm_memory: u64,
}

#[derive(Args, Clone)]
struct IoOptions {
    #[command(flatten)]
    common: Common,
    /// MiB of the large files.
    #[arg(long, default_value_t = 512)]
    size: u64,
    /// Jobs of the parallel figures.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Seconds of each random figure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

#[derive(Args, Clone)]
struct MetaOptions {
    #[command(flatten)]
    common: Common,
    /// Files of each job.
    #[arg(long, default_value_t = 5_000)]
    files: usize,
    /// Jobs of the parallel figures.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
}

/// Runs `weft bench ...`.
///
/// # Errors
/// If the directory cannot be used or an operation on it fails.
pub fn run(command: BenchCommand) -> Result<()> {
    match command.what {
        What::Io(options) => on_directory(&options.common, |scratch, report| {
            io::run(&options, scratch, report)
        }),
        What::Meta(options) => on_directory(&options.common, |scratch, report| {
            meta::run(&options, scratch, report)
        }),
        What::Tree(common) => on_directory(&common, tree::run),
        What::Net(command) => net::run(*command),
        What::Stream(options) => crate::block_on(|env| stream::run(env, options)),
        What::Names(options) => crate::block_on(|env| names::run(env, options)),
    }
}

/// A client's settings as they come, for the cluster of these metadata servers.
async fn stock_settings(env: &Env, meta: &[String], name: &str) -> Result<Settings> {
    let status = connect_first(env, meta).await?.status().await?;
    Ok(Settings {
        meta: meta.to_vec(),
        cluster_id: status.view.unwrap_or_default().cluster_id,
        name: name.into(),
        ..Settings::default()
    })
}

/// Waits for a line on standard input. Sessions are kept alive meanwhile.
async fn wait_for_a_line() -> Result<()> {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let read = read
        .await
        .map_err(|error| Error::Failed(format!("cannot wait for standard input: {error}")))?;
    match read.tried(|| "cannot read standard input".into())? {
        0 => Err(Error::Usage(
            "standard input ended: send a line when the client is to begin, or to go on".into(),
        )),
        _ => Ok(()),
    }
}

/// Figures of a directory, in one of our own inside.
fn on_directory(common: &Common, measure: impl FnOnce(&Path, &Report) -> Result<()>) -> Result<()> {
    let scratch = Scratch::new(&common.directory)?;
    let report = Report::new(
        common.json,
        common.cpu_of.clone(),
        common.only.clone(),
        common.warm_memory,
    );
    measure(&scratch.0, &report)
}

/// A directory of our own, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(directory: &Path) -> Result<Scratch> {
        if !directory.is_dir() {
            return Err(Error::Usage(format!(
                "{} is no directory",
                directory.display()
            )));
        }
        let path = directory.join(format!("weft-bench.{}", std::process::id()));
        std::fs::create_dir(&path).tried_on("cannot make", &path)?;
        Ok(Scratch(path))
    }

    /// A fresh directory inside.
    fn inside(scratch: &Path, name: &str) -> Result<PathBuf> {
        let path = scratch.join(name);
        std::fs::create_dir_all(&path).tried_on("cannot make", &path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tell!("{} stays: {error}", self.0.display());
        }
    }
}

/// Forgets what the kernel has cached, where we may (as root).
fn drop_caches() {
    rustix::fs::sync();
    // Not root: then the figures after this are of a warm cache, which the case says.
    let _: std::io::Result<()> = std::fs::write("/proc/sys/vm/drop_caches", "3");
}

/// Bytes that do not compress and differ from block to block.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        out.extend_from_slice(&next(&mut state).to_le_bytes());
    }
    out.truncate(length);
    out
}

/// xorshift64* (Vigna, 2016).
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}
