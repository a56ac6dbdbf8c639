//! `cargo xtask bench mams`: the metadata service's replica groups, measured as the authors of MAMS did
//! with theirs (docs/performance.md). A group runs on loopback, without mounts; its clients are the
//! library's (`weft bench names`). Each part is a module.

mod checkpoint;
mod commit;
mod cost;
mod cut;
mod group;
mod load;
mod members;
mod mttr;
pub mod plot;
mod quantile;
mod recovery;
mod renewing;
mod simulated;
mod write;

use super::report::{self, Line};
use crate::cluster::build_weft;
use crate::run::Outcome;
use clap::{Args, ValueEnum};
use std::fmt;
use std::path::PathBuf;

/// The name in the figures.
const BENCH: &str = "mams";
/// Files of the largest name space of `--full`.
const FULL_FILES: u64 = 5_000_000;

/// What to measure, and how much of it.
#[derive(Args)]
pub struct MamsOptions {
    /// Which parts.
    #[arg(
        long,
        alias = "part",
        value_enum,
        value_delimiter = ',',
        default_value = "mttr,cost"
    )]
    parts: Vec<Part>,
    /// `mttr`: files of the name space, one group after the other.
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000", value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    files: Vec<u64>,
    /// `mttr`: also with 5 million files.
    #[arg(long)]
    full: bool,
    /// `mttr`: how often the active is killed.
    #[arg(long, default_value_t = 50)]
    trials: u32,
    /// `mttr`: how often it is stopped (SIGSTOP), for two seconds each time.
    #[arg(long, default_value_t = 20)]
    stops: u32,
    /// `mttr`: how often the link of the active is cut, for two seconds each time. That takes network name spaces: without
    /// root it is left out, and said so.
    #[arg(long, default_value_t = 20)]
    cuts: u32,
    /// `mttr`, `groups`, `recovery`, `checkpoint`, `write`, `load`: members of each group.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=5))]
    members: u32,
    /// `groups`, `recovery`, `checkpoint`: numbers of groups.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(u32).range(1..=8))]
    groups: Vec<u32>,
    /// `cost`, `offered`, `simulated`: numbers of standbys, one group after the other.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,3,4", value_parser = clap::value_parser!(u32).range(0..=4))]
    standbys: Vec<u32>,
    /// `cost`, `groups`, `simulated`: numbers of clients (`offered`: the greatest of them).
    #[arg(long, value_delimiter = ',', default_value = "16,32", value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: Vec<u32>,
    /// `cost`, `groups`, `offered`: processes on which the clients are. Each has one thread, and goes on with one client at a
    /// time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    processes: u32,
    /// `cost`, `groups`: operations of each kind, of all clients together.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    operations: u64,
    /// `offered`: creates a second of all clients together. More than the machine can do with all standbys
    /// measures processors.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    offered: u64,
    /// `commit`: numbers of replicas.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4", value_parser = clap::value_parser!(u32).range(1..=5))]
    replicas: Vec<u32>,
    /// `commit`: entries a second, one after the other; 0: as many as are committed.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "5000,10000,20000,40000,0"
    )]
    rates: Vec<u64>,
    /// `load`: for how long.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// `commit`: for how long each.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// `renewing`: entries that a member lacks, and inodes of images.
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,500000", value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    entries: Vec<u64>,
    /// `commit`, `renewing`: use this binary (example `members` of weft-meta) instead of building one in release.
    #[arg(long, value_name = "FILE")]
    members_bin: Option<PathBuf>,
    /// `journal.sync` of the metadata servers (`cost`: also measures one client with `never`).
    #[arg(long, value_enum, default_value_t = Sync::Group)]
    sync: Sync,
    /// Also write the JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the table and the plots go.
    #[arg(long, default_value = "target/mams-report")]
    report: PathBuf,
    /// Where the servers keep their data; a directory in it is made and removed.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Use this binary instead of building one in release.
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// How long the service is away when the active is killed, hangs, or is cut off.
    Mttr,
    /// What standbys cost: operations a second, and processor time.
    Cost,
    /// The same for several groups.
    Groups,
    /// What standbys cost clients that offer less than processors can serve.
    Offered,
    /// The same in virtual time, on modelled links and disks.
    Simulated,
    /// Commit of entries that come from no client, beside two-phase commit.
    Commit,
    /// How long a member that was away takes to count again.
    Renewing,
    /// How long it takes until clients create files again when all metadata servers were killed.
    Recovery,
    /// How long a checkpoint of all groups takes, and coming back to it.
    Checkpoint,
    /// What a client that writes a file notices when the active is killed twice meanwhile.
    Write,
    /// Whether an active steps down where nothing fails and the machine is loaded with all it can do. Mounts.
    Load,
}

impl Part {
    fn run(self, setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
        match self {
            Part::Mttr => mttr::run(setting, lines),
            Part::Cost => cost::run(setting, lines),
            Part::Groups => cost::run_groups(setting, lines),
            Part::Offered => cost::run_offered(setting, lines),
            Part::Simulated => simulated::run(setting, lines),
            Part::Commit => commit::run(setting, lines),
            Part::Renewing => renewing::run(setting, lines),
            Part::Recovery => recovery::run(setting, lines),
            Part::Checkpoint => checkpoint::run(setting, lines),
            Part::Write => write::run(setting, lines),
            Part::Load => load::run(setting, lines),
        }
    }
}

/// `journal.sync`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Sync {
    Always,
    Group,
    Never,
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sync::Always => "always",
            Sync::Group => "group",
            Sync::Never => "never",
        })
    }
}

/// What every part needs.
struct Setting<'a> {
    options: &'a MamsOptions,
    weft: PathBuf,
    /// Where groups have their directories.
    parent: PathBuf,
}

/// Runs the parts and reports.
///
/// # Errors
/// If a group cannot be brought up, or a client fails, which must not happen whatever is killed; what
/// was measured before is reported.
pub fn run(options: &MamsOptions) -> Outcome {
    // Those that have processes of their own need no cluster.
    let needs_weft = |part: &Part| !matches!(part, Part::Commit | Part::Renewing | Part::Simulated);
    let weft = match &options.weft {
        Some(weft) => weft.clone(),
        None if !options.parts.iter().any(needs_weft) => PathBuf::new(),
        None => build_weft()?,
    };
    let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let setting = Setting {
        options,
        weft,
        parent,
    };
    let mut lines = Vec::new();
    let mut all = || -> Outcome {
        let mut parts = options.parts.iter();
        parts.try_for_each(|part| part.run(&setting, &mut lines))
    };
    let whole = all();
    if !lines.is_empty() {
        report::write(&lines, &options.report, options.json.as_deref())?;
    }
    whole
}

/// Prints a figure as it comes and keeps it.
fn add(lines: &mut Vec<Line>, line: Line) -> Outcome {
    let text = serde_json::to_string(&line).map_err(|error| error.to_string())?;
    println!("{text}");
    lines.push(line);
    Ok(())
}

/// A figure that is not to be more than a goal.
fn at_most(line: &Line, goal: f64) -> Line {
    let mut judged = at_least(line, goal);
    judged.ok = Some(line.value <= goal);
    judged
}

/// A figure that is to be a goal, or more.
fn at_least(line: &Line, goal: f64) -> Line {
    line.beside(&format!("{goal} {}", line.unit), goal, Some(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_a_bound_above_or_below() {
        let line = |value| Line::of(BENCH, "1A2S", "figure", "case", value, "ms");
        assert_eq!(at_most(&line(59.0), 60.0).ok, Some(true));
        assert_eq!(at_most(&line(61.0), 60.0).ok, Some(false));
        assert_eq!(at_least(&line(59.0), 60.0).ok, Some(false));
        assert_eq!(at_least(&line(60.0), 60.0).ok, Some(true));
        assert_eq!(
            at_most(&line(30.0), 60.0).baseline.as_deref(),
            Some("60 ms")
        );
    }
}
