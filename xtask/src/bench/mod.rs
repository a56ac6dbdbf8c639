//! `cargo xtask bench NAME`: benchmarks that write one JSON object a line.

mod builds;
mod ceft;
mod client;
mod dnfsp;
mod job;
mod machine;
mod mams;
mod peers;
mod recovery;
mod relay;
mod report;
mod start;

use crate::cluster::build_weft;
use crate::run::Outcome;
use crate::testbed::{Bed, Rate};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// In the order of the paper, and the hybrid.
pub const PROTOCOLS: [&str; 5] = [
    "server-async",
    "server-sync",
    "client-async",
    "client-sync",
    "hybrid",
];

/// `cargo xtask bench ...`
#[derive(Args)]
pub struct BenchCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Weft beside a local directory, the machine's limit (FUSE passthrough, two-hop relay), GlusterFS
    /// 2x2 and MooseFS goal 2, all in one run. As root; installs the peers from Debian's packages.
    Peers(PeersOptions),
    /// Two builds of Weft, mounted beside each other: what a change costs. As root.
    Builds(BuildsOptions),
    /// CEFT's write benchmark: growing numbers of clients on the test bed, every protocol beside the
    /// same servers without mirroring. As root.
    Ceft(ceft::CeftOptions),
    /// Four clients write and read on the test bed while a data server is killed, comes back and
    /// recovers: what is left of their throughput, and how long it takes. As root.
    Recovery(recovery::RecoveryOptions),
    /// A real job that reads much: BLAST, each worker searching its own part of a database on a mount of
    /// its own, with all servers well and with one of them slow. As root; installs BLAST from Debian's
    /// package.
    Job(job::JobOptions),
    /// The metadata service: how long it is away when its active is killed or hangs, and what its members
    /// cost in operations a second and processor time.
    Mams(Box<mams::MamsOptions>),
    /// NFS gateways: four clients write the same bytes in ever more files, each by a gateway of its own, beside the
    /// cluster's mount and NFS-Ganesha over that; listings, operations a second, messages.
    Dnfsp(dnfsp::DnfspOptions),
    /// One of its clients, in a node of the test bed.
    #[command(hide = true)]
    DnfspClient(dnfsp::ClientOptions),
    /// One that counts operations.
    #[command(hide = true)]
    DnfspCaller(dnfsp::CallerOptions),
}

/// What to compare, and how long.
#[derive(Args)]
pub struct PeersOptions {
    /// Which of local, relay, passthrough, moosefs, gluster, weft (journal.sync = never), weft-group.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "local,relay,passthrough,moosefs,gluster,weft,weft-group"
    )]
    systems: Vec<String>,
    /// Only these figures of `weft bench`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds; the systems take turns, medians are compared.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// MiB of the large files.
    #[arg(long, default_value_t = 1024)]
    size: u64,
    /// Files of each job of the name figures. The passthrough keeps all of them open, which may be
    /// 20,000 at most in some environments.
    #[arg(long, default_value_t = 3000)]
    files: u64,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table and the plots go.
    #[arg(long, default_value = "target/bench-report")]
    report: PathBuf,
}

/// Which builds, and how often.
#[derive(Args)]
pub struct BuildsOptions {
    /// The binary of the older build.
    #[arg(long, value_name = "FILE")]
    before: PathBuf,
    /// The newer one, instead of building it in release; it also measures.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
    /// Only these figures of `weft bench`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds; each gives one ratio.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// MiB of the large files.
    #[arg(long, default_value_t = 256)]
    size: u64,
    /// Seconds of each random figure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Files of each job of the name figures.
    #[arg(long, default_value_t = 3000)]
    files: u64,
    /// Where clusters keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table and the plots go.
    #[arg(long, default_value = "target/builds-report")]
    report: PathBuf,
}

/// A bed in `dir`, or where temporary files lie, with nodes `meta`, `s0`, `s1`, ... and `c0`, `c1`, ..., whose
/// links have this rate; and the binary: the one given, or one that is built.
///
/// # Errors
/// If no bed can be made here, or the binary cannot be built.
fn bed_of(
    dir: Option<&Path>,
    weft: Option<&Path>,
    rate: Rate,
    [servers, clients]: [usize; 2],
) -> Result<(Bed, PathBuf), String> {
    let parent = dir.map_or_else(std::env::temp_dir, Path::to_owned);
    let mut bed = Bed::new(&parent)?;
    let weft = match weft {
        Some(weft) => weft.to_owned(),
        None => build_weft()?,
    };
    bed.add("meta", Some(rate))?;
    for (kind, count) in [("s", servers), ("c", clients)] {
        for index in 0..count {
            bed.add(&format!("{kind}{index}"), Some(rate))?;
        }
    }
    Ok((bed, weft))
}

/// Runs a benchmark.
///
/// # Errors
/// If a system cannot be brought up, in words; figures of the others are still reported.
pub fn run(command: BenchCommand) -> Outcome {
    match command.what {
        What::Peers(options) => peers::run(&options),
        What::Builds(options) => builds::run(&options),
        What::Ceft(options) => ceft::run(&options),
        What::Recovery(options) => recovery::run(&options),
        What::Job(options) => job::run(&options),
        What::Mams(options) => mams::run(&options),
        What::Dnfsp(options) => dnfsp::run(&options),
        What::DnfspClient(options) => dnfsp::client(&options),
        What::DnfspCaller(options) => dnfsp::caller(&options),
    }
}
