//! `cargo xtask bench dnfsp`: many gateways in front of one cluster, measured as the authors of dNFSp did with theirs
//! (docs/performance.md). All on loopback: gateways, servers and clients share the machine's processors, so that only
//! ratios of one run say something.

mod writers;

use super::mams::plot::{Series, points};
use super::report::{self, Line};
use crate::cluster::{Cluster, build_weft, cannot_mount};
use crate::run::Outcome;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use writers::{Amount, Way, write};

/// The name in the figures.
const BENCH: &str = "dnfsp";
/// What figure 3 has: clients, gateways, data servers four of each.
const CLIENTS: usize = 4;
/// As many files in the time of one, and not much more.
const GOAL: f64 = 1.15;

/// What to measure, and how much of it.
#[derive(Args)]
pub struct DnfspOptions {
    /// Bytes that each client writes, in MB.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    size: u64,
    /// Files in which it writes them, one number after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    files: Vec<u64>,
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

/// Figure 3: each client writes the same bytes in ever more files, by a gateway of its own, and beside it on the
/// cluster's mount.
///
/// # Errors
/// If the cluster cannot be brought up, or a client fails.
pub fn run(options: &DnfspOptions) -> Outcome {
    let weft = match &options.weft {
        Some(weft) => weft.clone(),
        None => build_weft()?,
    };
    let home = tempfile::Builder::new().prefix("weft-").tempdir();
    let home = home.map_err(|error| format!("a directory for the cluster: {error}"))?;
    let (directory, mount) = (home.path().join("cluster"), home.path().join("mnt"));
    let gateways = CLIENTS.to_string();
    let more = ["--pairs", "2", "--nfs", &gateways];
    let (cluster, is_mounted) = match cannot_mount() {
        None => {
            std::fs::create_dir(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
            (Cluster::up(&weft, &directory, &mount, &more)?, true)
        }
        Some(why) => {
            println!("the mount is left out: {why}");
            (Cluster::up_unmounted(&weft, &directory, &more)?, false)
        }
    };
    let by_gateways = cluster.gateways(CLIENTS)?.into_iter().map(Way::Gateway);
    let mut systems: Vec<(&str, Vec<Way>)> = vec![("4 gateways", by_gateways.collect())];
    if is_mounted {
        systems.push(("mount", vec![Way::Mount(mount); CLIENTS]));
    }
    let mut lines = Vec::new();
    for round in 0..options.rounds {
        for files in &options.files {
            let amount = Amount {
                bytes: options.size * 1_000_000,
                files: *files,
            };
            for (system, ways) in &systems {
                let name = format!("{}-{round}-{files}", system.replace(' ', "-"));
                let took = write(ways, &name, amount)?;
                println!("{system}, {files} files: {:.3} s", took.as_secs_f64());
                lines.push(line(system, *files, took));
            }
        }
    }
    cluster.down()?;
    let medians = report::medians(lines);
    draw(options, &systems, &medians)?;
    report::write(
        &judged(options, &medians),
        &options.report,
        options.json.as_deref(),
    )
}

fn line(system: &str, files: u64, took: Duration) -> Line {
    let case = format!("{files} files each");
    let seconds = took.as_secs_f64();
    Line::of(BENCH, system, "4 clients write", &case, seconds, "s")
}

/// The figures, each but the first beside the first of its system.
fn judged(options: &DnfspOptions, medians: &[Line]) -> Vec<Line> {
    let mut all = Vec::new();
    let most = options.files.iter().max().copied().unwrap_or_default();
    for line in medians {
        let first = medians.iter().find(|its| its.system == line.system);
        all.push(line.clone());
        let Some(first) = first.filter(|first| first.case != line.case) else {
            continue;
        };
        let mut beside = line.beside(&first.case, first.value, None);
        if line.case == format!("{most} files each") {
            beside.goal = Some(GOAL);
            beside.ok = beside.ratio.map(|ratio| ratio <= GOAL);
        }
        all.push(beside);
    }
    all
}

fn draw(options: &DnfspOptions, systems: &[(&str, Vec<Way>)], medians: &[Line]) -> Outcome {
    let of = |system: &str| {
        let own = medians.iter().filter(|line| line.system == system);
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
    points(&title, axes, &series, &options.report.join("figure-3.svg"))
}
