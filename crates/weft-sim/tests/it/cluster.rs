//! Whole clusters under faults: real servers and clients, one thread, one seed for each.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use weft_sim::cluster::coverage::{self, Table};
use weft_sim::cluster::{faults, workload};
use weft_sim::{Fault, Options, run};

/// Run each time: calm and every kind of fault.
const FIXED: std::ops::Range<u64> = 0..24;
/// Run each time with several metadata servers: so many seeds with so many.
const GROUPS: [(u32, std::ops::Range<u64>); 3] = [(3, 0..14), (2, 0..4), (5, 0..4)];
/// Run each time with several groups: groups, metadata servers of each, seeds.
const PARTITIONED: [(u32, u32, std::ops::Range<u64>); 3] =
    [(2, 1, 0..10), (2, 3, 0..6), (3, 1, 0..4)];
/// Run each time with most clients as mounts: groups, metadata servers of each, seeds.
const MOUNTED: [(u32, u32, std::ops::Range<u64>); 3] = [(1, 1, 0..4), (1, 3, 0..2), (2, 1, 0..1)];
/// Seeds that nobody has seen before, run each time. `cargo xtask soak` runs more.
const FRESH: usize = 2;
/// See the file itself.
const KEPT: &str = include_str!("../../../../tests/sim-seeds.txt");

/// A seed that is kept.
struct Kept {
    groups: u32,
    members: u32,
    mounts: bool,
    seed: u64,
}

fn kept() -> Vec<Kept> {
    KEPT.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let (seed, reason) = line.split_once(' ').expect("a seed and a reason");
            assert!(!reason.trim().is_empty(), "seed {seed} without a reason");
            let (seed, servers) = seed.split_once('/').unwrap_or((seed, "1"));
            let bare = servers.strip_suffix('m');
            let (mounts, servers) = (bare.is_some(), bare.unwrap_or(servers));
            let (members, groups) = servers.split_once('x').unwrap_or((servers, "1"));
            let number = |text: &str| text.parse::<u64>().expect("a number");
            Kept {
                groups: number(groups) as u32,
                members: number(members) as u32,
                mounts,
                seed: number(seed),
            }
        })
        .collect()
}

/// Runs these, and says of each that failed how to see it again. Answers how many operations were tried by handles that
/// had lost their locks.
fn run_all(table: &mut Table, options: &Options, seeds: impl IntoIterator<Item = u64>) -> usize {
    let mut failures = Vec::new();
    let (mut runs, mut undecided, mut without_lock) = (0, Vec::new(), 0);
    for seed in seeds {
        runs += 1;
        let report = run(seed, options);
        println!(
            "seed {seed}: {:.1?} of virtual time, {} steps, {} operations, faults {:?}",
            report.time, report.steps, report.operations, report.kinds
        );
        coverage::add(table, &report.coverage);
        without_lock += report.history.iter().filter(|it| it.lock_lost).count();
        failures.extend(report.failure);
        undecided.extend(report.undecided.map(|_| seed));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let bound = 1 + runs / 10;
    assert!(
        undecided.len() <= bound,
        "too often not decided: {undecided:?}"
    );
    without_lock
}

#[test]
fn clusters_keep_their_promises_and_every_operation_meets_every_fault() {
    let mut seeds: Vec<u64> = FIXED.collect();
    let alone = kept().into_iter();
    let alone = alone.filter(|kept| (kept.groups, kept.members, kept.mounts) == (1, 1, false));
    let alone = alone.map(|kept| kept.seed);
    seeds.extend(alone.filter(|seed| !FIXED.contains(seed)));
    let mut table = Table::new();
    run_all(&mut table, &Options::default(), seeds);
    // What the draw of a few dozen seeds leaves out: each fault by itself, often.
    for &kind in faults::KINDS {
        // While the metadata server is away, each client gets as far as its next operation; a dead
        // one was at one.
        let runs = match kind {
            kind if kind <= faults::Kind::ClientKill => 16,
            _ => 3,
        };
        let options = Options {
            storm: Some(kind),
            ..Options::default()
        };
        run_all(
            &mut table,
            &options,
            (1_000 * (kind as u64 + 1)..).take(runs),
        );
    }
    let mut names = vec![coverage::CALM];
    names.extend(faults::KINDS.iter().map(|kind| kind.name()));
    let (text, zeros) = coverage::render(&table, workload::OPERATIONS, &names);
    println!("{text}");
    assert!(zeros.is_empty(), "never met: {zeros:?}\n{text}");
}

#[test]
fn a_change_that_is_refused_leaves_what_was_there() {
    let options = Options {
        storm: Some(faults::Kind::Refusals),
        ..Options::default()
    };
    run_all(&mut Table::new(), &options, 70_000..70_006);
}

#[test]
fn several_metadata_servers_keep_their_promises_too() {
    let mut table = Table::new();
    let mut all: Vec<(u32, u64)> = GROUPS
        .into_iter()
        .flat_map(|(members, seeds)| seeds.map(move |seed| (members, seed)))
        .collect();
    let kept = kept().into_iter();
    let kept = kept.filter(|kept| kept.groups == 1 && kept.members > 1 && !kept.mounts);
    let kept = kept.map(|kept| (kept.members, kept.seed));
    let new: Vec<_> = kept.filter(|kept| !all.contains(kept)).collect();
    all.extend(new);
    for members in BTreeSet::from_iter(all.iter().map(|(members, _)| *members)) {
        let of = all.iter().filter(|(count, _)| *count == members);
        run_all(&mut table, &with(members), of.map(|(_, seed)| *seed));
    }
    // What the draw of so few leaves out.
    for (number, &kind) in faults::GROUP_KINDS.iter().enumerate() {
        let options = Options {
            storm: Some(kind),
            operations: 60,
            ..with(3)
        };
        run_all(&mut table, &options, [number as u64]);
    }
    let met = |kind: &faults::Kind| table.keys().any(|(_, fault)| *fault == kind.name());
    let never: Vec<_> = faults::GROUP_KINDS.iter().filter(|it| !met(it)).collect();
    assert!(never.is_empty(), "never met: {never:?}");
}

fn with(members: u32) -> Options {
    Options {
        members,
        ..Options::default()
    }
}

fn partitioned(groups: u32, members: u32) -> Options {
    Options {
        groups,
        ..with(members)
    }
}

#[test]
fn several_groups_keep_the_promises_of_one() {
    let mut table = Table::new();
    for (groups, members, seeds) in PARTITIONED {
        run_all(&mut table, &partitioned(groups, members), seeds);
    }
    for kept in kept() {
        if kept.groups > 1 && !kept.mounts {
            let options = partitioned(kept.groups, kept.members);
            run_all(&mut table, &options, [kept.seed]);
        }
    }
    // Deaths in the middle of what several groups do together.
    for (kind, members) in [
        (Fault::MetaKill, 1),
        (Fault::MetaPower, 1),
        (Fault::ActiveKill, 3),
    ] {
        let options = Options {
            storm: Some(kind),
            operations: 80,
            ..partitioned(2, members)
        };
        run_all(&mut table, &options, 0..3);
    }
}

#[test]
fn clients_that_are_mounts_are_told_the_truth_under_faults() {
    let options = |groups, members| Options {
        mounts: true,
        ..partitioned(groups, members)
    };
    let mut table = Table::new();
    for (groups, members, seeds) in MOUNTED {
        run_all(&mut table, &options(groups, members), seeds);
    }
    for kept in kept().into_iter().filter(|kept| kept.mounts) {
        run_all(&mut table, &options(kept.groups, kept.members), [kept.seed]);
    }
}

#[test]
fn clients_that_are_cut_off_for_longer_than_a_term_go_on() {
    let mut table = Table::new();
    let mut without_lock = 0;
    for (mounts, members, seeds) in [(false, 1, 0..4), (false, 3, 4..5), (true, 1, 5..7)] {
        let options = Options {
            storm: Some(faults::Kind::CutOff),
            operations: 60,
            mounts,
            ..with(members)
        };
        without_lock += run_all(&mut table, &options, seeds.map(|seed| 32_000 + seed));
    }
    let names = [faults::Kind::CutOff.name()];
    let (text, zeros) = coverage::render(&table, workload::OPERATIONS, &names);
    assert!(zeros.is_empty(), "never met: {zeros:?}\n{text}");
    assert!(without_lock > 0, "nobody went on after its lock was lost");
}

#[test]
fn clients_that_do_not_hear_what_became_of_their_changes_go_on() {
    for (mounts, members, seeds) in [(false, 1, 0..8), (false, 3, 8..12), (true, 1, 12..16)] {
        let options = Options {
            storm: Some(faults::Kind::Unheard),
            // Of many whose outcome nobody knows the oracle cannot say which were done.
            operations: 25,
            mounts,
            ..with(members)
        };
        run_all(&mut Table::new(), &options, seeds.map(|seed| 33_000 + seed));
    }
    // A trim that one member alone did, by a client that died: the file's end was looked for region by region, up to
    // where a file can end.
    let options = Options {
        storm: Some(faults::Kind::Unheard),
        operations: 40,
        mounts: true,
        ..with(1)
    };
    run_all(&mut Table::new(), &options, [51_039]);
}

#[test]
fn fresh_seeds_pass_too() {
    // The standard library's hashers are seeded by the operating system.
    let seeds = || (0..FRESH).map(|_| RandomState::new().build_hasher().finish() % 1_000_000);
    run_all(&mut Table::new(), &Options::default(), seeds());
    run_all(&mut Table::new(), &with(3), seeds());
    run_all(&mut Table::new(), &partitioned(2, 1), seeds());
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (one, two) = (run(3, &Options::default()), run(3, &Options::default()));
    assert_eq!(
        (one.digest, one.steps, one.time),
        (two.digest, two.steps, two.time)
    );
    assert_ne!(one.digest, run(4, &Options::default()).digest);
    let (one, two) = (run(3, &with(3)), run(3, &with(3)));
    assert_eq!((one.digest, one.steps), (two.digest, two.steps));
}

#[test]
fn a_disk_that_dies_is_noticed_by_nobody_but_the_operator() {
    let options = Options {
        storm: Some(faults::Kind::DiskDies),
        operations: 60,
        ..Options::default()
    };
    let mut table = Table::new();
    run_all(&mut table, &options, 31_000..31_012);
}
