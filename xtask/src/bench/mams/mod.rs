//! `cargo xtask bench mams`: the metadata service's replica groups, measured as the authors of MAMS did
//! with theirs (docs/performance.md). A group runs on loopback, without mounts; its clients are the
//! library's (`weft bench names`). Each part is a module.

mod cost;
mod group;
mod mttr;
mod plot;
mod quantile;

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
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mttr,cost")]
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
    /// `mttr`: members of the group.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=5))]
    members: u32,
    /// `cost`: numbers of standbys, one group after the other.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,3,4", value_parser = clap::value_parser!(u32).range(0..=4))]
    standbys: Vec<u32>,
    /// `cost`: numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "16,32", value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: Vec<u32>,
    /// `cost`: processes on which the clients are. Each has one thread, and goes on with one client at a
    /// time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    processes: u32,
    /// `cost`: operations of each kind, of all clients together.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    operations: u64,
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
    /// How long the service is away when the active is killed, or hangs.
    Mttr,
    /// What standbys cost: operations a second, and processor time.
    Cost,
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

/// As the paper names a group: one active, so many standbys.
fn name_of(members: u32) -> String {
    format!("1A{}S", members.saturating_sub(1))
}

/// Runs the parts and reports.
///
/// # Errors
/// If a group cannot be brought up, or a client fails, which must not happen whatever is killed; what
/// was measured before is reported.
pub fn run(options: &MamsOptions) -> Outcome {
    let weft = match &options.weft {
        Some(weft) => weft.clone(),
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
        if options.parts.contains(&Part::Mttr) {
            mttr::run(&setting, &mut lines)?;
        }
        if options.parts.contains(&Part::Cost) {
            cost::run(&setting, &mut lines)?;
        }
        Ok(())
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

    #[test]
    fn groups_are_named_as_in_the_paper() {
        assert_eq!(name_of(1), "1A0S");
        assert_eq!(name_of(5), "1A4S");
    }
}
