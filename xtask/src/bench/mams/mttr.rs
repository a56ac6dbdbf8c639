//! How long the service is away when its active is killed, hangs or is cut off, for name spaces of several sizes,
//! and what a client notices of it.

use super::cut::CutGroup;
use super::group::{Group, Size};
use super::plot::{Series, histogram};
use super::quantile::percentile;
use super::{BENCH, FULL_FILES, Setting, add, at_most};
use crate::bench::client::Client;
use crate::bench::report::Line;
use crate::run::Outcome;
use crate::testbed;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Clients of the load.
const CLIENTS: u32 = 4;
/// Of the report: a line for each trial.
const TRIALS: &str = "trials.jsonl";
/// The directory of the name space's files.
const FILES: &str = "files";
/// Members that have just begun have not seen each other's ways, and are patient (docs/protocols/groups.md).
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// The load is steady by then.
const WARM: Duration = Duration::from_millis(500);
/// What a failure does to clients is over by then, or they are waited for.
const AFTER: Duration = Duration::from_millis(1_500);
/// How long a stopped active hangs, or one is cut off.
const HANG: Duration = Duration::from_secs(2);
/// Memory that a file takes on each member: twice what docs/performance.md says (there is a second copy,
/// for images), and some room.
const BYTES_A_FILE: u64 = 600;
/// Memory for everything else.
const BYTES_BESIDES: u64 = 1 << 30;

/// What happens to the active.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// SIGKILL.
    Killed,
    /// SIGSTOP, and SIGCONT after a while.
    Stopped,
    /// Its link carries nothing, either way, for a while.
    Cut,
}

impl Failure {
    const ALL: [Failure; 3] = [Failure::Killed, Failure::Stopped, Failure::Cut];
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Failure::Killed => "killed",
            Failure::Stopped => "stopped",
            Failure::Cut => "cut off",
        }
    }

    /// Milliseconds that a share of the trials' pauses is not to be above.
    fn goal(self, share: f64) -> Option<f64> {
        match self {
            Failure::Killed if share == 0.5 || share == 0.99 => Some(30.0),
            Failure::Stopped | Failure::Cut if share == 0.99 => Some(200.0),
            _ => None,
        }
    }
}

/// What was noticed of one failure, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    /// Longest time between answers to any client.
    away: f64,
    /// Longest operation.
    slowest: f64,
}

/// Reads what `weft bench names load` says.
fn trial_of(line: &str) -> Result<Trial, String> {
    let told: Value =
        serde_json::from_str(line).map_err(|error| format!("the load said {line:?}: {error}"))?;
    let number = |key: &str| {
        let number = told[key].as_f64();
        number.ok_or_else(|| format!("the load said {line:?}, without {key}"))
    };
    Ok(Trial {
        away: number("gap_ms")?,
        slowest: number("slowest_ms")?,
    })
}

/// All trials of one failure with one size.
struct Measured {
    failure: Failure,
    files: u64,
    trials: Vec<Trial>,
}

/// Every size, one group after the other.
///
/// # Errors
/// If a group does not come up or get whole again, or a client fails. What was measured by then is in
/// `lines`.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let mut sizes = options.files.clone();
    if options.full && !sizes.contains(&FULL_FILES) {
        sizes.push(FULL_FILES);
    }
    fs::create_dir_all(&options.report)
        .map_err(|error| format!("{}: {error}", options.report.display()))?;
    // Of an earlier run, if there was one.
    let _: std::io::Result<()> = fs::remove_file(options.report.join(TRIALS));
    let mut all = Vec::new();
    let outcome = sizes
        .iter()
        .try_for_each(|&files| of_size(setting, files, &mut all, lines));
    for measured in &all {
        summarize(measured, options.members, lines)?;
    }
    plots(&all, &options.report)?;
    outcome
}

fn of_size(
    setting: &Setting<'_>,
    files: u64,
    all: &mut Vec<Measured>,
    lines: &mut Vec<Line>,
) -> Outcome {
    let options = setting.options;
    check_memory(files, options.members)?;
    let group = Group::up(
        &setting.weft,
        &setting.parent,
        Size::one(options.members),
        options.sync,
    )?;
    let seconds = fill(group.names("fill", FILES), files)?;
    let case = format!("{files} files");
    let system = Size::one(options.members).name();
    add(lines, Line::of(BENCH, &system, "fill", &case, seconds, "s"))?;
    for (failure, count) in [
        (Failure::Killed, options.trials),
        (Failure::Stopped, options.stops),
    ] {
        attempts(all, (failure, files, count), &options.report, || {
            trial(&group, failure)
        })?;
    }
    group.down()?;
    cuts(setting, files, all)
}

/// So many trials of one failure.
fn attempts(
    all: &mut Vec<Measured>,
    (failure, files, count): (Failure, u64, u32),
    report: &Path,
    mut trial: impl FnMut() -> Result<Trial, String>,
) -> Outcome {
    let mut measured = Measured {
        failure,
        files,
        trials: Vec::new(),
    };
    let mut outcome = Ok(());
    std::thread::sleep(SETTLED_AFTER);
    for number in 0..count {
        let name = failure.name();
        let tried = trial().map_err(|why| format!("{name}, {files} files, trial {number}: {why}"));
        let kept = tried.and_then(|trial| {
            measured.trials.push(trial);
            keep(report, &measured, number, trial)
        });
        if kept.is_err() {
            outcome = kept;
            break;
        }
    }
    all.push(measured);
    outcome
}

/// Cuts, on a bed of their own, where there can be one.
fn cuts(setting: &Setting<'_>, files: u64, all: &mut Vec<Measured>) -> Outcome {
    let options = setting.options;
    if options.cuts == 0 {
        return Ok(());
    }
    if let Err(why) = testbed::check() {
        println!("cuts are left out: {why}");
        return Ok(());
    }
    let (weft, parent) = (&setting.weft, &setting.parent);
    let mut group = CutGroup::up(weft, parent, options.members, options.sync)?;
    fill(group.names("fill", FILES)?, files)?;
    let case = (Failure::Cut, files, options.cuts);
    attempts(all, case, &options.report, || {
        let active = group.active()?;
        under_load(group.names("load", FILES)?, || {
            group.cut(active)?;
            std::thread::sleep(HANG);
            group.heal(active)
        })
    })
}

/// # Errors
/// If so many files do not fit into what memory is available.
fn check_memory(files: u64, members: u32) -> Outcome {
    let told = fs::read_to_string("/proc/meminfo")
        .map_err(|error| format!("cannot read how much memory there is: {error}"))?;
    let needed = files * BYTES_A_FILE * u64::from(members) + BYTES_BESIDES;
    match available(&told) {
        Some(available) if available < needed => Err(format!(
            "{files} files on {members} members need about {} MiB of memory, and {} MiB are available: \
             take fewer (--files), or a larger machine",
            needed >> 20,
            available >> 20
        )),
        _ => Ok(()),
    }
}

/// Bytes that `/proc/meminfo` calls available.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Seconds that it took.
fn fill(mut command: Command, files: u64) -> Result<f64, String> {
    let each = files / u64::from(CLIENTS);
    command.args(["--clients", &CLIENTS.to_string()]);
    command.args(["--each", &each.to_string()]);
    let mut client = Client::start(command)?;
    client.wait_ready()?;
    client.go()?;
    let line = client.line()?;
    serde_json::from_str::<Value>(&line)
        .ok()
        .and_then(|told| told["seconds"].as_f64())
        .ok_or_else(|| format!("the filling client said {line:?}"))
}

/// One failure, under load, of a group that is whole; it is whole again by the next.
fn trial(group: &Group, failure: Failure) -> Result<Trial, String> {
    let active = group.active()?;
    let load = group.names("load", FILES);
    let trial = under_load(load, || match failure {
        Failure::Stopped => {
            group.order("stop", active)?;
            std::thread::sleep(HANG);
            group.order("cont", active)
        }
        _ => group.order("kill", active),
    })?;
    if failure == Failure::Killed {
        group.wait_junior(active)?;
        group.order("start", active)?;
    }
    Ok(trial)
}

/// What the clients of the load notice of something.
fn under_load(mut command: Command, fail: impl FnOnce() -> Outcome) -> Result<Trial, String> {
    command.args(["--clients", &CLIENTS.to_string()]);
    let mut load = Client::start(command)?;
    load.wait_ready()?;
    load.go()?;
    std::thread::sleep(WARM);
    load.say("mark")?;
    fail()?;
    std::thread::sleep(AFTER);
    load.say("end")?;
    trial_of(&load.line()?)
}

/// Prints a trial and keeps it.
fn keep(report: &Path, measured: &Measured, number: u32, trial: Trial) -> Outcome {
    let line = json!({
        "bench": BENCH,
        "figure": measured.failure.name(),
        "files": measured.files,
        "trial": number,
        "away_ms": trial.away,
        "slowest_ms": trial.slowest,
    });
    println!("{line}");
    let path = report.join(TRIALS);
    let appended = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{line}"));
    appended.map_err(|error| format!("{}: {error}", path.display()))
}

/// A percentile: its share, and what it is called.
const SHARES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (1.0, "max")];

fn summarize(measured: &Measured, members: u32, lines: &mut Vec<Line>) -> Outcome {
    let values = |of: fn(&Trial) -> f64| measured.trials.iter().map(of).collect::<Vec<f64>>();
    let (system, name) = (Size::one(members).name(), measured.failure.name());
    for (what, values) in [
        ("service back", values(|trial| trial.away)),
        ("slowest operation", values(|trial| trial.slowest)),
    ] {
        for (share, word) in SHARES {
            let Some(value) = percentile(&values, share) else {
                continue;
            };
            let figure = format!("{name}, {what}");
            let case = format!("{} files, {word}", measured.files);
            let line = Line::of(BENCH, &system, &figure, &case, value, "ms");
            add(lines, line.clone())?;
            if let (Some(goal), "service back") = (measured.failure.goal(share), what) {
                add(lines, at_most(&line, goal))?;
            }
        }
    }
    Ok(())
}

fn plots(all: &[Measured], report: &Path) -> Outcome {
    for failure in Failure::ALL {
        for (what, of) in [
            (
                "service back",
                (|trial: &Trial| trial.away) as fn(&Trial) -> f64,
            ),
            ("slowest operation", |trial: &Trial| trial.slowest),
        ] {
            let own = all
                .iter()
                .filter(|measured| measured.failure == failure && !measured.trials.is_empty());
            let series: Vec<Series> = own
                .map(|measured| Series {
                    name: format!("{} files", measured.files),
                    values: measured.trials.iter().map(of).collect(),
                })
                .collect();
            if series.is_empty() {
                continue;
            }
            let title = format!("active {}: {what}", failure.name());
            let file = format!(
                "{}_{}_histogram.svg",
                failure.name().replace(' ', "_"),
                what.replace(' ', "_")
            );
            histogram(&title, &series, &report.join(file))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_load_says_is_a_trial_or_an_error() {
        let trial = trial_of(r#"{"gap_ms":41.5,"slowest_ms":44.0,"operations":900}"#).unwrap();
        assert_eq!((trial.away, trial.slowest), (41.5, 44.0));
        assert!(trial_of("ready").is_err());
        assert!(
            trial_of(r#"{"gap_ms":41.5}"#)
                .unwrap_err()
                .contains("slowest_ms")
        );
    }

    #[test]
    fn memory_that_is_available_is_read_in_bytes() {
        let told = "MemTotal:       16303408 kB\nMemAvailable:    8000000 kB\nBuffers: 1 kB\n";
        assert_eq!(available(told), Some(8_000_000 << 10));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn percentiles_have_the_goals_of_their_failure() {
        let trials = (1..=50).map(|number| Trial {
            away: f64::from(number),
            slowest: f64::from(number) * 10.0,
        });
        let measured = Measured {
            failure: Failure::Killed,
            files: 10_000,
            trials: trials.collect(),
        };
        let mut lines = Vec::new();
        summarize(&measured, 3, &mut lines).unwrap();
        let judged: Vec<_> = lines.iter().filter(|line| line.ok.is_some()).collect();
        assert_eq!(judged.len(), 2);
        assert_eq!(judged[0].case, "10000 files, p50");
        assert_eq!((judged[0].value, judged[0].ok), (25.0, Some(true)));
        assert!(judged.iter().all(|line| line.figure.contains("back")));
        assert_eq!(lines.len(), 8 + judged.len());
    }
}
