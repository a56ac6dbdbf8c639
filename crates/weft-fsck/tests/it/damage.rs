//! Name spaces of two groups: whole ones are found whole, also while changes go on between any two questions, and
//! each kind of damage is found, and repaired.

use crate::cluster::groups::{Groups, user};
use crate::cluster::{
    BOTH, Damage, Work, checked, cluster_of, lived_in, lived_in_with, mended, move_across,
    state_of, tree,
};
use std::collections::BTreeMap;
use weft_fsck::{Finding, Mended, Repaired, Survey, path_of};
use weft_types::{GroupId, Ino, ROOT_INO};
use weft_wire::proto::op::Op;
use weft_wire::proto::{Create, FileKind, Link, Split, Spread};

#[test]
fn nothing_is_wrong_while_changes_go_on() {
    let (mut suspects, mut undecided, mut changes) = (0, 0, 0);
    for seed in 1..=200 {
        let (groups, work) = lived_in(seed);
        let before = work.done;
        let cluster = cluster_of(groups, Some(work));
        let report = checked(&cluster);
        assert_eq!(report.wrong, [], "seed {seed}");
        suspects += report.suspects;
        undecided += report.undecided.len();
        let mut groups = cluster.groups.into_inner();
        let mut work = cluster.between.into_inner().unwrap();
        changes += work.done - before;
        // And when all is over nothing is even suspicious.
        work.finish(&mut groups);
        let report = checked(&cluster_of(groups, None));
        assert_eq!((report.wrong, report.suspects), (vec![], 0), "seed {seed}");
        assert!(report.inodes > 3 && report.names > 3, "seed {seed}");
    }
    println!("{suspects} suspects, {undecided} undecided, during {changes} changes");
    assert!(suspects > 1_000 && changes > 5_000, "{suspects}, {changes}");
}

#[test]
fn nothing_is_wrong_while_entries_of_directories_go_to_shards() {
    let (mut splits, mut undecided) = (0, 0);
    for seed in 1..=200 {
        let mut work = Work::new(seed);
        work.spreads = true;
        let (groups, work) = lived_in_with(work);
        let before: u64 = groups.splits.iter().sum();
        let cluster = cluster_of(groups, Some(work));
        let report = checked(&cluster);
        assert_eq!(report.wrong, [], "seed {seed}");
        undecided += report.undecided.len();
        let mut groups = cluster.groups.into_inner();
        splits += groups.splits.iter().sum::<u64>() - before;
        let mut work = cluster.between.into_inner().unwrap();
        work.finish(&mut groups);
        let report = checked(&cluster_of(groups, None));
        assert_eq!((report.wrong, report.suspects), (vec![], 0), "seed {seed}");
    }
    println!("{undecided} undecided, during {splits} splits");
    assert!(splits > 500, "{splits}");
}

/// Two names of a file go to shards while they are counted, whenever that is. The file is another group's than the
/// directory, so that it does not change.
#[test]
fn names_that_go_to_shards_while_they_are_counted_are_not_missing() {
    let split = |groups: &mut Groups| {
        let tree = tree(groups);
        let (directory, file) = (tree[0].0, tree[1].2);
        // One for each shard.
        for name in ["a", "b"] {
            let link = Op::Link(Link {
                ino: file,
                parent: directory,
                name: name.into(),
                unnamed: false,
            });
            assert_eq!(groups.change(&user(0), link).failure_errno, 0);
        }
        let spread = Op::Spread(Spread {
            ino: directory,
            shards: 2,
            slots: vec![7, 9],
        });
        assert_eq!(groups.change(&user(0), spread).failure_errno, 0);
        (Op::Split(Split { ino: directory }), file)
    };
    let shard = |name: &str| weft_types::shard_of_hash(weft_types::name_hash(name.as_bytes()), 2);
    assert_ne!(shard("a"), shard("b"));
    let mut undecided = 0;
    for first in 15..45 {
        for second in first..first + 20 {
            let mut groups = Groups::new(2);
            let (split, file) = split(&mut groups);
            // Its names have to be counted one by one.
            state_of(&mut groups, file).damage_links(Ino(file), 4);
            let mut cluster = cluster_of(groups, None);
            cluster.before = BTreeMap::from([(first, split.clone()), (second + 1, split)]);
            let report = checked(&cluster);
            for finding in &report.wrong {
                let Finding::Links { names, .. } = finding else {
                    panic!("{first}, {second}: {finding:?}");
                };
                assert_eq!(*names, 3, "{first}, {second}");
            }
            undecided += report.undecided.len();
        }
    }
    println!("{undecided} undecided");
}

/// A directory with two shards, of either group, and these.
fn spread() -> (Groups, u64, Vec<u64>) {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let directory = tree[0].0;
    let spread = Op::Spread(Spread {
        ino: directory,
        shards: 2,
        slots: vec![6, 7],
    });
    assert_eq!(groups.change(&user(0), spread).failure_errno, 0);
    let shards = groups.shards(directory);
    (groups, directory, shards)
}

/// Damages a spread directory, or its shards.
type OfShards = fn(&mut Groups, u64, &[u64]);

#[test]
fn what_shards_are_is_told_and_stays() {
    let cases: [(&str, OfShards); 3] = [
        ("names_nothing", |groups, _, shards| {
            let of = state_of(groups, shards[1]);
            of.damage_inode(Ino(shards[1]));
        }),
        ("second_place", |groups, _, shards| {
            let of = state_of(groups, shards[1]);
            of.damage_parent(Ino(shards[1]), ROOT_INO);
        }),
        ("not_in_parent", |groups, directory, _| {
            let of = state_of(groups, directory);
            of.damage_entry(Ino(directory), b"/1", None);
        }),
    ];
    for (kind, damage) in cases {
        let (mut groups, directory, shards) = spread();
        damage(&mut groups, directory, &shards);
        let mended = mended(&cluster_of(groups, None));
        let left = mended.left.iter().find(|(it, _)| it.kind() == kind);
        let (_, why) = left.unwrap_or_else(|| panic!("{kind}: {mended:?}"));
        assert!(why.contains("shard"), "{kind}: {why}");
        assert!(!mended.report.is_sound(), "{kind}");
    }
}

#[test]
fn each_kind_of_damage_is_found() {
    // What is found, and what is repaired.
    let cases: [(&[&str], &[&str], Damage); 11] = [
        (&["names_nothing"], &["entry_removed"], |groups, tree| {
            state_of(groups, tree[1].2).damage_inode(Ino(tree[1].2));
        }),
        (&["other_kind"], &["kind_set"], |groups, tree| {
            move_across(groups, tree);
            state_of(groups, tree[1].2).damage_kind(Ino(tree[1].2));
        }),
        (&["links"], &["links_set"], |groups, tree| {
            state_of(groups, tree[1].2).damage_links(Ino(tree[1].2), 2);
        }),
        // A second name in another group's directory, that no link knows.
        (&["links"], &["links_set"], |groups, tree| {
            move_across(groups, tree);
            let (directory, file) = (tree[0].0, tree[1].2);
            state_of(groups, directory).damage_entry(Ino(directory), b"g", Some(Ino(file)));
        }),
        (&["links"], &["put_in_lost_and_found"], |groups, tree| {
            state_of(groups, tree[1].0).damage_entry(Ino(tree[1].0), b"f", None);
        }),
        (&["nameless"], &["put_in_lost_and_found"], |groups, tree| {
            let of = state_of(groups, tree[0].2);
            of.damage_links(Ino(tree[0].2), 0);
            of.damage_entry(Ino(tree[0].0), b"f", None);
        }),
        (
            &["not_in_parent", "subdirectories"],
            &["links_set", "put_in_lost_and_found"],
            |groups, tree| {
                state_of(groups, 1).damage_entry(ROOT_INO, tree[1].1.as_bytes(), None);
            },
        ),
        (&["subdirectories"], &["links_set"], |groups, tree| {
            state_of(groups, tree[1].0).damage_links(Ino(tree[1].0), 5);
        }),
        // In two places: what it says is its parent has it, and another one.
        (
            &["second_place", "subdirectories"],
            &["second_name_removed"],
            |groups, tree| {
                let directory = Ino(tree[0].0);
                state_of(groups, tree[0].0).damage_entry(directory, b"again", Some(directory));
            },
        ),
        (&["second_place"], &["parent_set"], |groups, tree| {
            state_of(groups, tree[1].0).damage_parent(Ino(tree[1].0), Ino(tree[0].0));
        }),
        // Twice in the directory that it is in.
        (
            &["not_in_parent", "subdirectories"],
            &["links_set", "second_name_removed"],
            |groups, tree| {
                state_of(groups, 1).damage_entry(ROOT_INO, b"twice", Some(Ino(tree[1].0)));
            },
        ),
    ];
    for (number, (kinds, repairs, damage)) in cases.into_iter().enumerate() {
        let mut groups = Groups::new(2);
        let tree = tree(&mut groups);
        let whole = checked(&cluster_of(groups, None));
        assert!(whole.is_sound() && whole.is_complete(), "{whole:?}");
        assert_eq!(whole.inodes, 5);

        let mut groups = Groups::new(2);
        let _ = self::tree(&mut groups);
        damage(&mut groups, &tree);
        let cluster = cluster_of(groups, None);
        let report = checked(&cluster);
        let mut found: Vec<&str> = report.wrong.iter().map(Finding::kind).collect();
        found.sort_unstable();
        assert_eq!(found, kinds, "case {number}: {:?}", report.wrong);
        assert!(report.is_complete(), "{report:?}");
        for finding in &report.wrong {
            assert!(finding.to_string().contains("0x"), "{finding}");
            assert!(finding.remedy().is_ok(), "{finding}");
        }
        let mut groups = cluster.groups.into_inner();
        let inodes = groups.inodes();
        let cluster = cluster_of(groups, None);
        let mended = mended(&cluster);
        let mut done: Vec<&str> = mended.repaired.iter().map(Repaired::kind).collect();
        done.sort_unstable();
        assert_eq!(done, repairs, "case {number}: {:?}", mended.repaired);
        is_mended(&mended);
        groups = cluster.groups.into_inner();
        let whole = groups.whole();
        assert!(
            inodes.iter().all(|ino| whole.contains_key(ino)),
            "case {number}"
        );
    }
}

#[test]
fn directories_within_each_other_are_found() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let (zero, one) = (Ino(tree[0].0), Ino(tree[1].0));
    for name in [&tree[0].1, &tree[1].1] {
        groups.members[0]
            .state
            .damage_entry(ROOT_INO, name.as_bytes(), None);
    }
    groups.members[0].state.damage_links(ROOT_INO, 2);
    for (directory, below) in [(zero, one), (one, zero)] {
        let state = state_of(&mut groups, directory.0);
        state.damage_links(directory, 3);
        state.damage_parent(directory, below);
    }
    // An entry of a directory needs its kind: the group of the root knew it.
    for (directory, below, name) in [(zero, one, "one"), (one, zero, "zero")] {
        state_of(&mut groups, directory.0).damage_foreign(directory, name.as_bytes(), below);
    }
    let cluster = cluster_of(groups, None);
    let report = checked(&cluster);
    let found: Vec<&str> = report.wrong.iter().map(Finding::kind).collect();
    assert_eq!(found, ["circle"], "{:?}", report.wrong);

    let mended = mended(&cluster);
    is_mended(&mended);
    let found = |one: &Repaired| match one {
        Repaired::Found { ino, name, .. } => Some((*ino, name.clone())),
        _ => None,
    };
    let found: Vec<(Ino, String)> = mended.repaired.iter().filter_map(found).collect();
    let lowest = zero.min(one);
    assert_eq!(found, [(lowest, format!("ino-{}", lowest.0))]);
    let groups = cluster.groups.into_inner();
    let whole = groups.whole();
    assert!([zero, one].iter().all(|ino| whole.contains_key(&ino.0)));
}

/// Nothing is left, and nothing more is done.
fn is_mended(mended: &Mended) {
    assert_eq!(mended.left, []);
    let report = &mended.report;
    assert!(report.is_sound() && report.is_complete(), "{mended:?}");
    for one in &mended.repaired {
        assert!(one.to_string().contains("0x"), "{one}");
    }
}

#[test]
fn a_transaction_that_waits_is_told_and_what_it_locks_is_not_wrong() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let home = groups.group_of(Ino(tree[0].0).slot());
    let link = Op::Link(Link {
        ino: tree[1].2,
        parent: tree[0].0,
        name: "linked".into(),
        unnamed: false,
    });
    let mut running = groups.begin(&user(0), link).unwrap();
    while running.reply.is_none() {
        groups.step(&mut running);
    }
    assert!(!running.is_over, "the other group has not heard of it");
    let cluster = cluster_of(groups, None);
    let report = checked(&cluster);
    assert_eq!(report.wrong, []);
    // The name stands, the link is not counted yet.
    assert_eq!(report.undecided.len(), 1, "{:?}", report.undecided);
    let [waiting] = &report.waiting[..] else {
        panic!("{:?}", report.waiting);
    };
    assert_eq!(waiting.asked, [GroupId(home as u32)]);
    assert_eq!((waiting.stage, waiting.age_ms), ("prepared", 7_000));
    assert!(!report.is_sound() && !report.is_complete());
}

#[test]
fn paths_lead_through_groups() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let below = Op::Create(Create {
        parent: tree[1].0,
        name: "below".into(),
        kind: FileKind::Directory as i32,
        mode: 0o755,
        ..Create::default()
    });
    let below = groups.change(&user(0), below).attr.unwrap().ino;
    let cluster = cluster_of(groups, None);
    let found = weft_env::real::run(async |_| {
        let survey = Survey::of(&cluster, &BOTH).await?;
        path_of(&survey, Ino(below)).await
    });
    let wanted = format!("/{}/below", tree[1].1).into_bytes();
    assert_eq!(found.unwrap(), Ok(Some(wanted)));
}
