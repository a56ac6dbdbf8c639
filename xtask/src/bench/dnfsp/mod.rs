//! `cargo xtask bench dnfsp`: many gateways in front of one cluster, measured as the authors of dNFSp did with theirs
//! (docs/performance.md). On loopback gateways, servers and clients share the machine's processors, so that only ratios
//! of one run say something; behind links of a rate, links are the limit.

mod beside;
mod ganesha;
mod links;
mod listing;
mod messages;
mod net;
mod nfs;
mod operations;
mod writers;

pub use operations::{CallerOptions, caller};

use super::mams::plot::{Series, points};
use super::report::{self, Line};
use crate::cluster::{Cluster, build_weft, cannot_mount};
use crate::run::Outcome;
use crate::testbed::Rate;
use clap::{Args, ValueEnum};
use nfs::Export;
use std::fs::File;
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use writers::{Amount, Way, by_nfs, write};

/// The name in the figures.
const BENCH: &str = "dnfsp";
/// What figure 3 has: clients, gateways, data servers four of each.
const CLIENTS: usize = 4;
/// What the goals are about.
const GATEWAYS: &str = "4 gateways";
/// Its name in the figures, and how its cases end.
const FIGURE_3: &str = "4 clients write";
const FILES_EACH: &str = " files each";
/// As many files in the time of one, and not much more.
const GOAL: f64 = 1.15;

/// What to measure, and how much of it.
#[derive(Args)]
pub struct DnfspOptions {
    /// Which parts.
    #[arg(long, alias = "part", value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// `links`, `gateways`: what each node's link carries each way.
    #[arg(long, default_value = "100mbit")]
    rate: Rate,
    /// `links`, `gateways`: where the servers keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Bytes that each client writes, in MB.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    size: u64,
    /// Files in which it writes them, one number after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    files: Vec<u64>,
    /// KiB of each WRITE, and of each write on a mount, of figure 3.
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(4..=1024))]
    write_size: u64,
    /// `ganesha`: bytes of the one large file, in MB.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    large: u64,
    /// `listing`: files of the directory.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    listed: u64,
    /// `operations`: of each kind, of each client.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    calls: u64,
    /// `operations`: what a gateway's link carries each way: so little that nothing else is the limit.
    #[arg(long, default_value = "1mbit")]
    calls_rate: Rate,
    /// Rounds; the systems take turns, medians are compared.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table and the plots go.
    #[arg(long, default_value = "target/dnfsp-report")]
    report: PathBuf,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

impl DnfspOptions {
    /// What each client writes, in so many files.
    fn amount(&self, files: u64) -> Amount {
        Amount {
            bytes: self.size * 1_000_000,
            files,
            piece: self.write_size << 10,
        }
    }
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Figure 3 on loopback: each client writes the same bytes in ever more files, by a gateway of its own, and beside
    /// it on the cluster's mount.
    Files,
    /// Figure 3 behind links of a rate. As root.
    Links,
    /// What eight clients write in all by 1, 2 and 4 gateways, behind links. As root.
    Gateways,
    /// Figure 3, and one large file, beside the mount and beside NFS-Ganesha over the mount.
    Ganesha,
    /// `ls -l` of many files, on a mount, by a gateway, and by NFS-Ganesha over a mount.
    Listing,
    /// Operations a second of four clients in all by 1, 2 and 4 gateways, behind links. As root.
    Operations,
    /// Messages between gateways and the metadata service, with tokens and without, in the simulator.
    Messages,
    /// Section 5: what the network between the nodes carries, behind links, and Weft beside it. As root.
    Net,
}

impl Part {
    const ALL: [Part; 8] = [
        Part::Files,
        Part::Links,
        Part::Gateways,
        Part::Ganesha,
        Part::Listing,
        Part::Operations,
        Part::Messages,
        Part::Net,
    ];
}

/// Runs the parts and reports.
///
/// # Errors
/// If a cluster cannot be brought up, or a client fails; what was measured before is reported.
pub fn run(options: &DnfspOptions) -> Outcome {
    let weft = match &options.weft {
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let mut lines = Vec::new();
    let mut all = || -> Outcome {
        options.parts.iter().try_for_each(|part| match part {
            Part::Files => files(options, &weft, &mut lines),
            Part::Links => links::files(options, &weft, &mut lines),
            Part::Gateways => links::gateways(options, &weft, &mut lines),
            Part::Ganesha => beside::run(options, &weft, &mut lines),
            Part::Listing => listing::run(options, &weft, &mut lines),
            Part::Operations => operations::run(options, &weft, &mut lines),
            Part::Messages => messages::run(&mut lines),
            Part::Net => net::network(options, &weft, &mut lines),
        })
    };
    let whole = all();
    if !lines.is_empty() {
        let lines = judged(options, &lines);
        report::write(&lines, &options.report, options.json.as_deref())?;
    }
    whole
}

/// Figure 3 on loopback.
fn files(options: &DnfspOptions, weft: &Path, all: &mut Vec<Line>) -> Outcome {
    let home = tempfile::Builder::new().prefix("weft-").tempdir();
    let home = home.map_err(|error| format!("a directory for the cluster: {error}"))?;
    let (directory, mount) = (home.path().join("cluster"), home.path().join("mnt"));
    let gateways = CLIENTS.to_string();
    let more = ["--pairs", "2", "--nfs", &gateways, "--nfs-squash", "none"];
    let (cluster, is_mounted) = match cannot_mount() {
        None => {
            std::fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
            (Cluster::up(weft, &directory, &mount, &more)?, true)
        }
        Some(why) => {
            println!("the mount is left out: {why}");
            (Cluster::up_unmounted(weft, &directory, &more)?, false)
        }
    };
    let by_gateways = cluster.gateways(CLIENTS)?.into_iter();
    let by_gateways = by_gateways.map(|address| Way::Nfs(Export::of_gateway(address)));
    let mut systems: Vec<(&str, Vec<Way>)> = vec![(GATEWAYS, by_gateways.collect())];
    if is_mounted {
        systems.push(("mount", vec![Way::Mount(mount.clone()); CLIENTS]));
    }
    let lines = figure_3(options, &systems, FIGURE_3, is_mounted.then_some(&mount))?;
    cluster.down()?;
    let medians = report::medians(lines);
    draw(options, &systems, &medians, "figure-3.svg")?;
    all.extend(medians);
    Ok(())
}

/// All systems in turns, with each number of files. What was written is cut on the mount, if there is one, or rounds
/// would fill the disk.
fn figure_3(
    options: &DnfspOptions,
    systems: &[(&str, Vec<Way>)],
    figure: &str,
    mount: Option<&Path>,
) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for round in 0..options.rounds {
        for files in &options.files {
            let amount = options.amount(*files);
            for (system, ways) in systems {
                let name = format!("{}-{round}-{files}", system.replace(' ', "-"));
                let seconds = write(ways, &name, amount)?.as_secs_f64();
                if let Some(mount) = mount {
                    cut(mount, &name, ways.len())?;
                }
                println!("{system}, {files} files: {seconds:.3} s");
                let case = format!("{files}{FILES_EACH}");
                lines.push(Line::of(BENCH, system, figure, &case, seconds, "s"));
            }
        }
    }
    Ok(lines)
}

/// The files of as many clients, to nothing, on a mount. They are not removed: an ext4 without a journal takes no inode
/// again that was freed within minutes, and looks the longer for others the more there are (a fifth of all processor
/// time, when this was measured), at the expense of who writes next.
fn cut(mount: &Path, name: &str, clients: usize) -> Outcome {
    for number in 0..clients {
        let directory = mount.join(writers::directory(name, number));
        let all = || -> std::io::Result<()> {
            for file in std::fs::read_dir(&directory)? {
                File::options().write(true).open(file?.path())?.set_len(0)?;
            }
            Ok(())
        };
        all().map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    Ok(())
}

/// The figures, and each time of many files beside that of the first number of files.
fn judged(options: &DnfspOptions, lines: &[Line]) -> Vec<Line> {
    let mut all = Vec::new();
    let most = options.files.iter().max().copied().unwrap_or_default();
    for line in lines {
        all.push(line.clone());
        if line.ratio.is_some() || !line.case.ends_with(FILES_EACH) {
            continue;
        }
        let is_alike = |its: &&Line| its.system == line.system && its.figure == line.figure;
        let first = lines.iter().find(is_alike);
        let Some(first) = first.filter(|first| first.case != line.case) else {
            continue;
        };
        let is_most = line.case == format!("{most}{FILES_EACH}");
        let goal = (is_most && line.system == GATEWAYS).then_some(GOAL);
        all.push(line.beside_at_most(&first.case, first.value, goal));
    }
    all
}

/// A client of a gateway, for who starts it in a node: says `ready`, waits for a line, writes, says how long that took.
#[derive(Args)]
pub struct ClientOptions {
    #[arg(long)]
    gateway: SocketAddr,
    /// Of its directory.
    #[arg(long)]
    name: String,
    #[arg(long)]
    bytes: u64,
    #[arg(long)]
    files: u64,
    #[arg(long)]
    piece: u64,
}

/// Runs it.
///
/// # Errors
/// What it was told.
pub fn client(options: &ClientOptions) -> Outcome {
    let amount = Amount {
        bytes: options.bytes,
        files: options.files,
        piece: options.piece,
    };
    let ready = || {
        println!("ready");
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.map(drop)
            .map_err(|error| format!("no word to begin: {error}"))
    };
    // The gateway may just be starting.
    let address = options.gateway;
    links::patiently(|| {
        let reached = std::net::TcpStream::connect(address);
        reached
            .map(drop)
            .map_err(|error| format!("gateway {address}: {error}"))
    })?;
    let export = Export::of_gateway(address);
    let took = by_nfs(&export, &options.name, amount, ready)?;
    println!("{{\"seconds\": {}}}", took.as_secs_f64());
    Ok(())
}

fn draw(
    options: &DnfspOptions,
    systems: &[(&str, Vec<Way>)],
    medians: &[Line],
    file: &str,
) -> Outcome {
    let of = |system: &str| {
        let is_own = |line: &&Line| line.system == system && line.case.ends_with(FILES_EACH);
        let own = medians.iter().filter(is_own);
        let values = options.files.iter().map(|files| *files as f64);
        Series {
            name: system.to_owned(),
            values: values.zip(own.map(|line| line.value)).collect(),
        }
    };
    let series: Vec<Series<(f64, f64)>> = systems.iter().map(|(system, _)| of(system)).collect();
    std::fs::create_dir_all(&options.report)
        .map_err(|error| format!("{}: {error}", options.report.display()))?;
    let title = format!("4 clients write {} MB each", options.size);
    let axes = ("files of each client", "seconds");
    points(&title, axes, &series, &options.report.join(file))
}
