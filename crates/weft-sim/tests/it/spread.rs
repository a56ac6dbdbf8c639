//! Directories are spread while clients work, and faults come (`docs/protocols/spread.md`): every promise is kept
//! as if none were, and the name space is one tree at the end.

use weft_sim::{Fault, Options, run};

/// Runs these, and says of each that failed how to see it again. Answers how many directories were spread.
fn run_all(options: &Options, seeds: impl IntoIterator<Item = u64>) -> u64 {
    let (mut failures, mut spread) = (Vec::new(), 0);
    for seed in seeds {
        let report = run(seed, options);
        println!(
            "seed {seed}: {:.1?} of virtual time, {} operations, {} directories, faults {:?}",
            report.time, report.operations, report.spread, report.kinds
        );
        spread += report.spread;
        failures.extend(report.failure);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    spread
}

fn spreading(groups: u32, members: u32) -> Options {
    Options {
        groups,
        members,
        spread: true,
        ..Options::default()
    }
}

#[test]
fn without_faults_nobody_notices_that_directories_are_spread() {
    let calm = |groups| Options {
        kinds: Some(Vec::new()),
        ..spreading(groups, 1)
    };
    assert!(run_all(&calm(1), 0..4) > 10);
    assert!(run_all(&calm(2), 10..16) > 20);
    assert!(run_all(&calm(3), 20..24) > 10);
}

#[test]
fn directories_are_spread_while_everything_fails() {
    assert!(run_all(&spreading(1, 1), 100..103) > 5);
    assert!(run_all(&spreading(2, 1), 200..206) > 15);
    assert!(run_all(&spreading(3, 1), 300..304) > 10);
    assert!(run_all(&spreading(2, 3), 400..404) > 10);
}

#[test]
fn directories_are_spread_while_slots_move() {
    let options = Options {
        slots: true,
        checks: true,
        ..spreading(2, 1)
    };
    assert!(run_all(&options, 500..504) > 10);
}

#[test]
fn directories_are_spread_while_actives_die() {
    for (kind, members) in [
        (Fault::MetaKill, 1),
        (Fault::MetaPower, 1),
        (Fault::ActiveKill, 3),
        (Fault::ClientKill, 1),
    ] {
        let options = Options {
            storm: Some(kind),
            operations: 80,
            ..spreading(2, members)
        };
        run_all(&options, 0..3);
    }
}
