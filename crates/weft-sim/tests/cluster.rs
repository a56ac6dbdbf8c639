//! Whole clusters under faults: real servers and clients, one thread, one seed for each.

#![allow(clippy::unwrap_used, clippy::disallowed_macros)]

use weft_sim::{Options, run};

/// Run each time. A seed that fails is replayed by `cargo xtask sim --seed N`.
const FIXED: &[u64] = &[1, 2, 3, 4, 6, 7, 9, 10, 49];

#[test]
fn clusters_keep_their_promises_under_faults() {
    let mut failures = Vec::new();
    for &seed in FIXED {
        let report = run(seed, &Options::default());
        println!(
            "seed {seed}: {:.1?} of virtual time, {} steps, {} operations, faults {:?}",
            report.time, report.steps, report.operations, report.kinds
        );
        failures.extend(report.failure);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (one, two) = (run(3, &Options::default()), run(3, &Options::default()));
    assert_eq!(
        (one.digest, one.steps, one.time),
        (two.digest, two.steps, two.time)
    );
    assert_ne!(one.digest, run(4, &Options::default()).digest);
}
