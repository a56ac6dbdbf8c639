//! Slots go from group to group while clients work, and faults come (`docs/protocols/slots.md`): every promise is
//! kept, and the name space is one tree at the end.

use std::time::Duration;
use weft_sim::{Fault, Options, run};

/// Runs these, and says of each that failed how to see it again. Answers how many slots were ordered to move.
fn run_all(options: &Options, seeds: impl IntoIterator<Item = u64>) -> u64 {
    let (mut failures, mut moved) = (Vec::new(), 0);
    for seed in seeds {
        let report = run(seed, options);
        println!(
            "seed {seed}: {:.1?} of virtual time, {} operations, {} slots, faults {:?}",
            report.time, report.operations, report.moved, report.kinds
        );
        moved += report.moved;
        failures.extend(report.failure);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    moved
}

fn moving(groups: u32, members: u32) -> Options {
    Options {
        groups,
        members,
        slots: true,
        ..Options::default()
    }
}

#[test]
fn without_faults_nobody_notices_that_slots_move() {
    let calm = Options {
        kinds: Some(Vec::new()),
        ..moving(2, 1)
    };
    assert!(run_all(&calm, 0..4) > 100);
}

/// For how long requests waited, of each slot that moved, in order.
fn pauses(seed: u64) -> Vec<Duration> {
    let calm = Options {
        kinds: Some(Vec::new()),
        ..moving(2, 1)
    };
    let report = run(seed, &calm);
    assert_eq!(report.failure, None);
    let lines = report.log.iter().map(|line| line.to_string());
    let moved = lines.filter(|line| line.contains("a slot has moved"));
    let mut pauses: Vec<Duration> = moved
        .map(|line| {
            let (_, text) = line.split_once("paused=").unwrap();
            let text = text.split_whitespace().next().unwrap();
            let unit = text.find(|c: char| c.is_alphabetic() || c == 'µ').unwrap();
            let (number, unit) = text.split_at(unit);
            let seconds = number.parse::<f64>().unwrap()
                * match unit {
                    "s" => 1.0,
                    "ms" => 1e-3,
                    "µs" => 1e-6,
                    other => panic!("{other}"),
                };
            Duration::from_secs_f64(seconds)
        })
        .collect();
    pauses.sort_unstable();
    pauses
}

/// What clients have to write back is asked for before a slot is frozen: a few round trips and commits are left.
#[test]
fn a_request_to_a_slot_that_goes_over_waits_for_a_moment() {
    let mut all: Vec<Duration> = (20..24).flat_map(pauses).collect();
    all.sort_unstable();
    let (median, longest) = (all[all.len() / 2], all[all.len() - 1]);
    println!(
        "{} slots: median {median:?}, longest {longest:?}",
        all.len()
    );
    assert!(all.len() > 40);
    assert!(median < Duration::from_millis(20), "{median:?}");
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

#[test]
fn slots_move_while_everything_fails() {
    assert!(run_all(&moving(2, 1), 100..106) > 100);
    assert!(run_all(&moving(3, 1), 200..204) > 100);
    assert!(run_all(&moving(2, 3), 300..304) > 100);
}

#[test]
fn slots_move_while_actives_die() {
    for (kind, members) in [
        (Fault::MetaKill, 1),
        (Fault::MetaPower, 1),
        (Fault::ActiveKill, 3),
        (Fault::ClientKill, 1),
    ] {
        let options = Options {
            storm: Some(kind),
            operations: 80,
            ..moving(2, members)
        };
        // The first one with MetaPower: a rename's home lost the slot between two of its steps.
        run_all(&options, 0..3);
    }
}
