//! `cargo xtask sim` and `cargo xtask soak`: simulated clusters from a seed.

use crate::run::Outcome;
use std::time::{Duration, Instant, SystemTime};
use weft_sim::{Fault, Options, run};

/// Groups and metadata servers of each in the runs of a soak, in turn.
const SERVERS: [(u32, u32); 8] = [
    (1, 1),
    (1, 3),
    (2, 1),
    (1, 1),
    (1, 3),
    (2, 3),
    (1, 2),
    (1, 5),
];

/// Runs one seed and prints what its servers logged.
pub fn replay(
    seed: u64,
    (groups, members): (u32, u32),
    (slots, spread, mounts): (bool, bool, bool),
    storm: Option<&str>,
) -> Outcome {
    let storm = match storm.map(|name| Fault::called(name).ok_or(name)) {
        None => None,
        Some(Ok(kind)) => Some(kind),
        Some(Err(name)) => return Err(format!("there is no kind of fault called {name}")),
    };
    let options = Options {
        storm,
        groups,
        members,
        slots,
        spread,
        mounts,
        ..Options::default()
    };
    let report = run(seed, &options);
    for line in &report.log {
        println!("{line}");
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

/// Runs fresh seeds for so long, with so many groups and metadata servers or with one and several in turn;
/// fails if one did, and says which.
pub fn soak(minutes: u64, groups: Option<u32>, members: Option<u32>) -> Outcome {
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let since = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_err(|error| error.to_string())?;
    let (mut runs, mut undecided, mut failed) = (0, 0, Vec::new());
    for seed in since.as_micros() as u64.. {
        if Instant::now() >= end {
            break;
        }
        let drawn = SERVERS[runs % SERVERS.len()];
        let options = Options {
            groups: groups.unwrap_or(drawn.0),
            members: members.unwrap_or(drawn.1),
            ..Options::default()
        };
        runs += 1;
        let report = run(seed, &options);
        undecided += usize::from(report.undecided.is_some());
        if let Some(why) = report.failure {
            println!("{why}");
            failed.push(match (options.groups, options.members) {
                (1, 1) => seed.to_string(),
                (1, members) => format!("{seed}/{members}"),
                (groups, members) => format!("{seed}/{members}x{groups}"),
            });
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
