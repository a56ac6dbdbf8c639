//! The name space of several groups is checked while clients work, and while their servers die: nothing that is
//! as it must be is ever called wrong. (At the end of every run with several groups it is checked once more.)

use weft_sim::{Fault, Options, Report, run};

fn options(members: u32) -> Options {
    Options {
        groups: 2,
        members,
        checks: true,
        ..Options::default()
    }
}

/// Checks that went through, and of these the ones that had something to look at again.
fn checks(report: &Report) -> (usize, usize) {
    let lines = report.log.iter();
    let lines = lines.filter(|line| line.message.starts_with("the name space was checked"));
    let all: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    let quiet = all.iter().filter(|text| text.contains("suspects=0"));
    (all.len(), all.len() - quiet.count())
}

#[test]
fn nothing_is_called_wrong_while_clients_work() {
    let (mut all, mut suspicious) = (0, 0);
    for seed in 0..6 {
        let report = run(
            seed,
            &Options {
                kinds: Some(Vec::new()),
                ..options(1)
            },
        );
        assert_eq!(report.failure, None);
        let (checked, with_suspects) = checks(&report);
        println!("seed {seed}: {checked} checks, {with_suspects} with suspects");
        assert!(checked > 0, "seed {seed}");
        all += checked;
        suspicious += with_suspects;
    }
    assert!(all >= 20 && suspicious > 0, "{all}, {suspicious}");
}

#[test]
fn nothing_is_called_wrong_while_servers_die() {
    for (kind, members) in [(Fault::MetaKill, 1), (Fault::ActiveKill, 3)] {
        for seed in 0..2 {
            let storm = Options {
                storm: Some(kind),
                operations: 80,
                ..options(members)
            };
            let report = run(seed, &storm);
            assert_eq!(report.failure, None);
            println!("{kind:?} {seed}: {:?} checks", checks(&report));
        }
    }
}

fn damaged(members: u32) -> Options {
    Options {
        damage: true,
        operations: 100,
        ..options(members)
    }
}

/// What was damaged is repaired while clients work, and they notice nothing of it.
#[test]
fn what_is_damaged_is_repaired_while_clients_work() {
    let (mut damages, mut repairs) = (0, 0);
    for seed in 0..5 {
        let quiet = Options {
            kinds: Some(Vec::new()),
            checks: false,
            ..damaged(1)
        };
        let report = run(seed, &quiet);
        assert_eq!(report.failure, None);
        println!("seed {seed}: {:?}", report.damaged);
        damages += report.damaged.0;
        repairs += report.damaged.1;
    }
    assert!(damages > 20 && repairs > 20, "{damages}, {repairs}");
}

#[test]
fn what_is_damaged_is_repaired_while_servers_die() {
    let (mut damages, mut repairs) = (0, 0);
    for (kind, members) in [(Fault::MetaKill, 1), (Fault::ActiveKill, 3)] {
        for seed in 0..3 {
            let storm = Options {
                storm: Some(kind),
                checks: false,
                operations: 80,
                ..damaged(members)
            };
            let report = run(seed, &storm);
            assert_eq!(report.failure, None);
            println!("{kind:?} {seed}: {:?}", report.damaged);
            damages += report.damaged.0;
            repairs += report.damaged.1;
        }
    }
    assert!(damages > 50 && repairs > 50, "{damages}, {repairs}");
}
