//! Tests of `pairs.rs` and `recovery.rs`.

use super::*;
use crate::recovery::Recoveries;
use std::time::Duration;

type ChangePair = dyn Fn(&mut PairStatus, &mut PairState);
type ChangeReport = dyn Fn(&mut MemberReport);

fn report() -> MemberReport {
    MemberReport {
        total_bytes: 1_000 << 20,
        free_bytes: 500 << 20,
        objects: 5_000,
        version: "1".into(),
        ..MemberReport::default()
    }
}

/// A pair of which nothing is wrong.
fn pair() -> PairStatus {
    let member = |member| MemberStatus {
        member,
        address: format!("h:{member}"),
        alive: true,
        current: true,
        report: Some(report()),
        ..MemberStatus::default()
    };
    let state = PairState {
        pair: 3,
        epoch: 7,
        mode: Mode::Both.into(),
        store_0: 1,
        store_1: 2,
        ..PairState::default()
    };
    PairStatus {
        state: Some(state),
        members: vec![member(0), member(1)],
    }
}

/// What is found of a pair that differs from the one above.
fn of(change: impl Fn(&mut PairStatus, &mut PairState)) -> Vec<(Check, Severity, String)> {
    let mut pair = pair();
    let mut state = pair.state.unwrap();
    change(&mut pair, &mut state);
    pair.state = Some(state);
    let found = of_pairs(&[pair], "1").into_iter();
    found
        .map(|it| {
            (
                it.check,
                it.severity,
                format!("{}: {} | {}", it.subject, it.what, it.todo),
            )
        })
        .collect()
}

/// The only thing that is found.
fn one(change: impl Fn(&mut PairStatus, &mut PairState)) -> (Check, Severity, String) {
    let mut found = of(change);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn report_of(pair: &mut PairStatus, member: usize) -> &mut MemberReport {
    pair.members[member].report.as_mut().unwrap()
}

#[test]
fn of_a_pair_that_is_well_nothing_is_found() {
    assert_eq!(of(|_, _| {}), []);
}

#[test]
fn a_pair_with_one_copy_says_why() {
    let alone = |state: &mut PairState| {
        state.mode = Mode::Only.into();
        state.serving = 1;
    };
    let (check, severity, text) = one(|pair, state| {
        alone(state);
        pair.members[0].alive = false;
    });
    assert_eq!((check, severity), (Check::OneCopy, Severity::Critical));
    assert!(
        text.contains("data:3.0 is away") && text.contains("weft pair replace 3 --member 0"),
        "{text}"
    );
    let (_, _, text) = one(|pair, state| {
        alone(state);
        pair.members[0].is_replaced = true;
    });
    assert!(text.contains("is being replaced"), "{text}");
    let found = of(|pair, state| {
        alone(state);
        report_of(pair, 0).disk_error = "EIO".into();
    });
    assert_eq!(
        found.iter().map(|it| it.0).collect::<Vec<_>>(),
        [Check::OneCopy, Check::Disk]
    );
    assert!(
        found[0].2.contains("taken out of service: EIO"),
        "{found:?}"
    );
}

#[test]
fn a_pair_that_nobody_serves_says_whom_to_start() {
    let changes: [(&ChangePair, &str); 5] = [
        (
            &|pair, _| pair.members.iter_mut().for_each(|it| it.alive = false),
            "start data:3.0 and data:3.1",
        ),
        (&|pair, _| pair.members[1].alive = false, "start data:3.1"),
        (
            &|_, state| {
                state.mode = Mode::Down.into();
                state.serving = 1;
            },
            "start data:3.1",
        ),
        (
            &|pair, state| {
                state.mode = Mode::Recovering.into();
                pair.members[0].alive = false;
            },
            "start data:3.0",
        ),
        (
            &|pair, state| {
                state.uncertain = true;
                pair.members[1].is_awaited = true;
            },
            "weft pair replace 3 --member 1",
        ),
    ];
    for (change, todo) in changes {
        let (check, severity, text) = one(change);
        assert_eq!(
            (check, severity),
            (Check::PairDown, Severity::Critical),
            "{text}"
        );
        assert!(text.contains(todo), "{text}");
    }
}

#[test]
fn what_members_report_is_judged() {
    let changes: [(&ChangeReport, Check, Severity); 10] = [
        (&|it| it.lost_ranges = 1, Check::Losses, Severity::Critical),
        (&|it| it.reads_of_twin = 1, Check::Disk, Severity::Degraded),
        (
            &|it| (it.bad_blocks, it.healed_blocks) = (2, 2),
            Check::BadBlocks,
            Severity::Degraded,
        ),
        (
            &|it| it.bad_blocks = 2,
            Check::BadBlocks,
            Severity::Critical,
        ),
        (&|it| it.mismatches = 1, Check::Copies, Severity::Degraded),
        (
            &|it| it.free_bytes = 49 << 20,
            Check::Room,
            Severity::Degraded,
        ),
        (
            &|it| it.clock_off_ms = -1_001,
            Check::Clocks,
            Severity::Degraded,
        ),
        (
            &|it| it.clock_off_ms = 5_000,
            Check::Clocks,
            Severity::Degraded,
        ),
        (
            &|it| it.version = "2".into(),
            Check::Versions,
            Severity::Degraded,
        ),
        (&|it| it.objects = 2_000, Check::Shrunk, Severity::Critical),
    ];
    for (change, check, severity) in changes {
        let (found, how, text) = one(|pair, _| change(report_of(pair, 1)));
        assert_eq!((found, how), (check, severity), "{text}");
        assert!(text.starts_with("data:3.1: "), "{text}");
    }
    // Few objects, a disk of which nothing is known, a server of a version that does not say so.
    assert_eq!(
        of(|pair, _| {
            report_of(pair, 0).objects = 900;
            *report_of(pair, 1) = MemberReport::default();
        }),
        []
    );
}

#[test]
fn a_recovery_that_stands_still_is_found() {
    let s = Duration::from_secs;
    let mut pair = pair();
    let mut state = pair.state.unwrap();
    state.mode = Mode::Recovering.into();
    pair.state = Some(state);
    let mut recoveries = Recoveries::default();
    let mut look = |done, at| {
        report_of(&mut pair, 0).job_done = done;
        recoveries
            .that_stand_still(std::slice::from_ref(&pair), s(at))
            .len()
    };
    assert_eq!(
        [
            look(0, 0),
            look(0, 59),
            look(5, 60),
            look(5, 119),
            look(5, 120)
        ],
        [0, 0, 0, 0, 1]
    );
    assert_eq!([look(6, 130), look(6, 150)], [0, 0]);
}
