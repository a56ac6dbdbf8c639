//! Slots go from group to group while clients work, and faults come (`docs/protocols/slots.md`): every promise is
//! kept, and the name space is one tree at the end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_macros,
    clippy::disallowed_methods
)]

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
        run_all(&options, 0..3);
    }
}
