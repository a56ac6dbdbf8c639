//! `cargo xtask sim` and `cargo xtask soak`: simulated clusters from a seed. Here, and not in xtask, because all of Weft is
//! built for it, which who only wants another chore (`./run demo`) should not wait for.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use weft_sim::{Fault, Options, run};

/// The reason in words if it failed.
type Outcome = Result<(), String>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Simulated clusters from a seed")]
enum Chore {
    /// Replays one simulated cluster: prints its log, and why it failed if it did.
    Sim(Replay),
    /// Simulates clusters from fresh seeds.
    Soak {
        /// For how long.
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// Groups of metadata servers; else one and several in turn.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
        groups: Option<u32>,
        /// Metadata servers of each group; else one and several in turn.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
        members: Option<u32>,
        /// Most of the clients are mounts, always; else now and then.
        #[arg(long)]
        mounts: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Chore::parse() {
        Chore::Sim(told) => replay(&told),
        Chore::Soak {
            minutes,
            groups,
            members,
            mounts,
        } => soak(minutes, groups, members, mounts),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nfailed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Groups, metadata servers of each, and whether most clients are mounts, in the runs of a soak, in turn.
const SHAPES: [(u32, u32, bool); 10] = [
    (1, 1, false),
    (1, 3, false),
    (1, 1, true),
    (2, 1, false),
    (1, 1, false),
    (1, 3, true),
    (1, 3, false),
    (2, 3, false),
    (1, 2, false),
    (1, 5, false),
];

/// One simulated cluster.
#[derive(clap::Args)]
struct Replay {
    /// The seed.
    #[arg(long)]
    seed: u64,
    /// Groups of metadata servers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    groups: u32,
    /// Metadata servers of each group.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    members: u32,
    /// Slots go from group to group all the time.
    #[arg(long)]
    slots: bool,
    /// Clients have directories spread.
    #[arg(long)]
    spread: bool,
    /// Most of the clients are mounts, with a model of the kernel.
    #[arg(long)]
    mounts: bool,
    /// No faults.
    #[arg(long, conflicts_with = "storm")]
    calm: bool,
    /// Only this kind of fault, all the time.
    #[arg(long)]
    storm: Option<String>,
    /// How many operations each client is to do; fewer are more often decided.
    #[arg(long, default_value_t = Options::default().operations)]
    operations: usize,
    /// Log lines of this level and graver: error, warn, info, debug or trace. The last 20,000 are shown.
    #[arg(long, default_value = "info")]
    level: String,
    /// What clients asked for and were told, too: all of it.
    #[arg(long)]
    history: bool,
}

/// Runs one seed and prints what its servers logged.
fn replay(told: &Replay) -> Outcome {
    let storm = match told.storm.as_deref().map(|it| Fault::called(it).ok_or(it)) {
        None => None,
        Some(Ok(kind)) => Some(kind),
        Some(Err(name)) => return Err(format!("there is no kind of fault called {name}")),
    };
    let level = told.level.parse();
    let level = level.map_err(|_| format!("there is no level called {}", told.level))?;
    let seed = told.seed;
    let options = Options {
        storm,
        level,
        kinds: told.calm.then(Vec::new),
        groups: told.groups,
        members: told.members,
        slots: told.slots,
        spread: told.spread,
        mounts: told.mounts,
        operations: told.operations,
        ..Options::default()
    };
    let report = run(seed, &options);
    for line in &report.log {
        println!("{line}");
    }
    if told.history {
        for (number, record) in report.history.iter().enumerate() {
            println!("#{number} {record}");
        }
    }
    println!(
        "seed {seed}: {:?} of virtual time, {} steps, {} operations, faults {:?}, digest {:016x}",
        report.time, report.steps, report.operations, report.kinds, report.digest
    );
    if let Some(why) = &report.undecided {
        println!("not decided whether the answers are right: {why}");
    }
    report.failure.map_or(Ok(()), Err)
}

/// A seed as tests/sim-seeds.txt has it.
fn kept(seed: u64, options: &Options) -> String {
    let mounted = if options.mounts { "m" } else { "" };
    match (options.groups, options.members) {
        (1, 1) if !options.mounts => seed.to_string(),
        (1, members) => format!("{seed}/{members}{mounted}"),
        (groups, members) => format!("{seed}/{members}x{groups}{mounted}"),
    }
}

/// Runs fresh seeds for so long, with so many groups and metadata servers or with one and several in turn, and
/// with mounts now and then or always; fails if one did, and says which.
fn soak(minutes: u64, groups: Option<u32>, members: Option<u32>, mounts: bool) -> Outcome {
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let since = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_err(|error| error.to_string())?;
    let (mut runs, mut undecided, mut failed) = (0, 0, Vec::new());
    for seed in since.as_micros() as u64.. {
        if Instant::now() >= end {
            break;
        }
        let drawn = SHAPES[runs % SHAPES.len()];
        let options = Options {
            groups: groups.unwrap_or(drawn.0),
            members: members.unwrap_or(drawn.1),
            mounts: mounts || drawn.2,
            ..Options::default()
        };
        runs += 1;
        let report = run(seed, &options);
        if let Some(why) = report.undecided {
            let what = why.lines().next().unwrap_or_default();
            println!("{} is not decided: {what}", kept(seed, &options));
            undecided += 1;
        }
        if let Some(why) = report.failure {
            println!("{why}");
            failed.push(kept(seed, &options));
        }
    }
    println!(
        "{runs} clusters simulated, {} failed, {undecided} not decided",
        failed.len()
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "seeds {} failed: keep them in tests/sim-seeds.txt",
            failed.join(", ")
        ))
    }
}
