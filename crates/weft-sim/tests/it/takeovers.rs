//! Whoever leads of three metadata servers is killed every second while clients create, rename, link and
//! unlink: every operation is answered, and is done once.

use std::collections::BTreeMap;
use std::time::Duration;
use weft_sim::cluster::coverage;
use weft_sim::oracle::history::{Op, Outcome};
use weft_sim::{Fault, Options, Report, run};

const SEEDS: std::ops::Range<u64> = 0..6;
/// What changes names: it must have met a takeover, of which the client knew nothing.
const CHANGES: [&str; 8] = [
    "create", "mkdir", "mknod", "symlink", "link", "unlink", "rename", "exchange",
];

/// Mean time between two kills.
fn mean_pause(report: &Report) -> Duration {
    let kills: Vec<u64> = report.faults.iter().map(|kill| kill.from).collect();
    let (first, last) = (kills.first().unwrap(), kills.last().unwrap());
    Duration::from_nanos((last - first) / (kills.len() as u64 - 1))
}

#[test]
fn an_active_that_is_killed_every_second_does_everything_once() {
    let options = Options {
        members: 3,
        storm: Some(Fault::ActiveKill),
        ..Options::default()
    };
    let mut met = BTreeMap::new();
    for seed in SEEDS {
        // Each reply, and the tree at the end, is compared there with what a reference file system says.
        let report = run(seed, &options);
        assert_eq!(report.failure, None);
        assert_eq!(report.undecided, None, "seed {seed}");

        let kills = report.faults.len();
        let pause = mean_pause(&report);
        let reigns = report.log.iter().filter(|line| line.message == "leading");
        let reigns = reigns.count();
        println!("seed {seed}: {kills} kills, one every {pause:.1?}, {reigns} reigns");
        assert!(kills >= 20, "seed {seed}: only {kills} kills");
        assert!(
            pause < Duration::from_millis(1_500),
            "seed {seed}: {pause:?}"
        );
        assert!(
            reigns > kills,
            "seed {seed}: {reigns} reigns, {kills} kills"
        );

        // Nobody was told that it is not known, and no client lost its session.
        for record in &report.history {
            let is_known = matches!(record.outcome, Outcome::Known(_)) || record.op.is_event();
            assert!(is_known, "seed {seed}: {record}");
            assert!(!matches!(record.op, Op::Loses), "seed {seed}: {record}");
        }
        coverage::add(&mut met, &report.coverage);
    }
    let missing = CHANGES.iter().filter(|change| {
        let count = met.get(&(**change, Fault::ActiveKill.name()));
        count.is_none_or(|count| *count == 0)
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "met no takeover: {missing:?}");
}
