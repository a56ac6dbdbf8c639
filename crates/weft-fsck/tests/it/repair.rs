//! Name spaces that are damaged at random are repaired, at rest and while changes go on: one tree is left, and
//! nothing is lost.

use crate::cluster::groups::{Groups, is_kept_by_images, user};
use crate::cluster::{Work, checked, cluster_of, lived_in, mended, state_of, tree};
use std::collections::{BTreeMap, BTreeSet};
use weft_fsck::Repaired;
use weft_namespace::{LOST_AND_FOUND, State};
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::op::Op;
use weft_wire::proto::repair::What;
use weft_wire::proto::{
    Create, FileKind, Repair, RepairEntryGone, RepairEntryMade, RepairKind, RepairLinks,
    RepairParent, RepairPlace, SurveyedInode, SurveyedName,
};

/// All inodes and entries of all groups.
fn all(groups: &Groups) -> (BTreeMap<u64, SurveyedInode>, Vec<SurveyedName>) {
    let (mut inodes, mut names) = (BTreeMap::new(), Vec::new());
    for member in &groups.members {
        let page = member.state.survey_inodes(Ino(0), usize::MAX).0;
        inodes.extend(page.into_iter().map(|inode| (inode.ino, inode)));
        let page = member
            .state
            .survey_names((Ino(0), 0), usize::MAX, usize::MAX);
        assert!(!page.more, "more names than a page has");
        names.extend(page.names);
    }
    (inodes, names)
}

/// Breaks something. Answers what cannot be there any more. `at_rest`: no change follows, so that directories may
/// be within each other.
fn damage(groups: &mut Groups, work: &mut Work, at_rest: bool) -> Option<u64> {
    let (inodes, names) = all(groups);
    let inodes: Vec<SurveyedInode> = inodes.into_values().collect();
    let inode = inodes[work.below(inodes.len())];
    let ino = Ino(inode.ino);
    let directories: Vec<u64> = inodes
        .iter()
        .filter(|inode| inode.kind() == FileKind::Directory && inode.nlink > 0)
        .map(|inode| inode.ino)
        .collect();
    let directory = Ino(directories[work.below(directories.len())]);
    let kind = match at_rest {
        true => work.below(8),
        false => work.below(6),
    };
    match kind {
        // A name goes.
        0 | 1 if !names.is_empty() => {
            let name = &names[work.below(names.len())];
            let state = state_of(groups, name.directory);
            state.damage_entry(Ino(name.directory), &name.name, None);
        }
        2 if inode.kind() != FileKind::Directory => {
            state_of(groups, ino.0).damage_inode(ino);
            return Some(ino.0);
        }
        3 => {
            let nlink = work.below(5) as u32;
            // A directory without links is removed: no change can be made in it.
            if nlink > 1 || inode.kind() != FileKind::Directory {
                state_of(groups, ino.0).damage_links(ino, nlink);
            }
        }
        // A name that nothing knows of, in the same group.
        4 if ino != directory
            && groups.group_of(ino.slot()) == groups.group_of(directory.slot())
            && (at_rest || inode.kind() != FileKind::Directory) =>
        {
            let state = state_of(groups, directory.0);
            state.damage_entry(directory, b"second", Some(ino));
        }
        5 if inode.kind() == FileKind::Regular => {
            state_of(groups, ino.0).damage_kind(ino);
        }
        6 if inode.kind() == FileKind::Directory => {
            state_of(groups, ino.0).damage_parent(ino, directory);
        }
        7 if inode.kind() == FileKind::Directory && ino != ROOT_INO && inode.nlink > 0 => {
            state_of(groups, ino.0).damage_links(ino, 0);
        }
        _ => {}
    }
    None
}

#[test]
fn what_is_damaged_at_rest_is_one_tree_again() {
    let mut done: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 1..=300 {
        let (mut groups, mut work) = lived_in(seed);
        work.finish(&mut groups);
        let mut gone = BTreeSet::new();
        for _ in 0..=work.below(6) {
            gone.extend(damage(&mut groups, &mut work, true));
        }
        let (inodes, names) = all(&groups);
        let cluster = cluster_of(groups, None);
        let mended = mended(&cluster);
        assert!(
            mended.left.is_empty() && mended.report.is_sound() && mended.report.suspects == 0,
            "seed {seed}: {mended:?}"
        );
        for one in &mended.repaired {
            *done.entry(one.kind()).or_default() += 1;
        }
        // One tree, which images keep, with every inode that there was.
        let groups = cluster.groups.into_inner();
        let whole = groups.whole();
        for inode in inodes.values() {
            let is_open = inode.nlink == 0 && inode.kept_open;
            assert!(
                whole.contains_key(&inode.ino) || is_open,
                "seed {seed}: {inode:?} is lost: {:?}",
                mended.repaired
            );
        }
        // Every name of a file stands, and that of a directory unless it has another one.
        let (_, after) = all(&groups);
        for name in &names {
            let is_there = whole.contains_key(&name.ino);
            let is_directory = name.kind() == FileKind::Directory;
            let stands = after.iter().any(|it| {
                (it.directory, &it.name, it.ino) == (name.directory, &name.name, name.ino)
            });
            assert!(
                stands || !is_there || is_directory,
                "seed {seed}: {name:?} is gone: {:?}",
                mended.repaired
            );
        }
        // What is right stays as it is.
        let cluster = cluster_of(groups, None);
        assert_eq!(self::mended(&cluster).repaired, [], "seed {seed}");
    }
    println!("{done:?}");
    for kind in [
        "entry_removed",
        "second_name_removed",
        "kind_set",
        "links_set",
        "parent_set",
        "put_in_lost_and_found",
    ] {
        assert!(
            done.get(kind).is_some_and(|count| *count > 5),
            "{kind}: {done:?}"
        );
    }
}

#[test]
fn what_is_damaged_is_repaired_while_changes_go_on() {
    let (mut repaired, mut changes) = (0, 0);
    for seed in 1..=150 {
        let (mut groups, mut work) = lived_in(seed);
        work.finish(&mut groups);
        for _ in 0..=work.below(4) {
            damage(&mut groups, &mut work, false);
        }
        let before = work.done;
        let cluster = cluster_of(groups, Some(work));
        let first = mended(&cluster);
        repaired += first.repaired.len();
        // Then all is over, and what could not be repaired meanwhile can.
        let mut groups = cluster.groups.into_inner();
        let mut work = cluster.between.into_inner().unwrap();
        changes += work.done - before;
        work.finish(&mut groups);
        let cluster = cluster_of(groups, None);
        let last = mended(&cluster);
        assert!(
            last.left.is_empty() && last.report.is_sound(),
            "seed {seed}: {last:?}, after {:?}",
            first.repaired
        );
        cluster.groups.into_inner().whole();
    }
    println!("{repaired} repairs during {changes} changes");
    assert!(repaired > 100 && changes > 5_000, "{repaired}, {changes}");
}

#[test]
fn nothing_is_repaired_that_is_right() {
    for seed in 1..=50 {
        let (groups, work) = lived_in(seed);
        let cluster = cluster_of(groups, Some(work));
        assert_eq!(mended(&cluster).repaired, [], "seed {seed}");
    }
}

/// A repair of one state; the errno of its refusal.
fn refused(groups: &mut Groups, what: What) -> i32 {
    let repair = Repair { what: Some(what) };
    let group = groups.group_of(weft_namespace::repaired(&repair).slot());
    let checked = groups.members[group].state.check_repair(&repair);
    let before = groups.members[group].state.clone();
    groups.clock += 1;
    let reply = groups.members[group].apply(groups.clock, 0, &user(0), Op::Repair(repair));
    assert_eq!(
        checked.err().map_or(0, |errno| errno.0 as u32),
        reply.failure_errno
    );
    if reply.failure_errno != 0 {
        assert_eq!(groups.members[group].state, before, "refused, and done");
    }
    reply.failure_errno as i32
}

#[test]
fn a_repair_does_nothing_when_it_is_not_as_it_was_seen() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let (directory, file) = (tree[1].0, tree[1].2);
    let seen = |groups: &Groups, ino: u64| {
        let state = &groups.members[groups.group_of(Ino(ino).slot())].state;
        state.survey_sight(Ino(ino), &mut 100).inode.unwrap()
    };
    let gone = |ino: u64, absent: bool, change: u64| {
        What::EntryGone(RepairEntryGone {
            directory,
            name: "f".into(),
            ino,
            absent,
            change,
        })
    };
    let links = |ino: u64, change: u64, nlink: u32| What::Links(RepairLinks { ino, change, nlink });
    let parent = |ino: u64, change: u64, parent: u64| {
        What::Parent(RepairParent {
            ino,
            change,
            parent,
        })
    };
    let made = |name: &str, ino: u64, kind: FileKind| {
        What::EntryMade(RepairEntryMade {
            directory,
            name: name.to_owned().into(),
            ino,
            kind: kind as i32,
            change: 0,
        })
    };
    let (of_directory, of_file) = (seen(&groups, directory), seen(&groups, file));
    let (now, file_now) = (of_directory.change, of_file.change);
    let never = Ino::new(Ino(file).slot(), 77).0;
    let cases = [
        // The inode is there, another one is named, the entry is not there, it is no directory.
        (gone(file, true, 0), libc::ESTALE),
        (gone(never, true, 0), libc::ESTALE),
        (gone(file, false, now), libc::EINVAL),
        (gone(file, false, now + 1), libc::ESTALE),
        (links(file, file_now + 1, 2), libc::ESTALE),
        (links(file, file_now, 0), libc::EINVAL),
        (links(file, file_now, 70_000), libc::EMLINK),
        (links(directory, now, 3), libc::ESTALE),
        (links(never, 1, 1), libc::ESTALE),
        (parent(directory, now + 1, 1), libc::ESTALE),
        (parent(directory, now, directory), libc::EINVAL),
        (parent(file, file_now, 1), libc::ESTALE),
        (parent(1, seen(&groups, 1).change, directory), libc::EINVAL),
        (made("f", never, FileKind::Regular), libc::EEXIST),
        (made("g", never, FileKind::Regular), libc::ESTALE),
        (made("g", file, FileKind::Fifo), libc::EINVAL),
        (made("..", file, FileKind::Regular), libc::EINVAL),
        (made("g", 1, FileKind::Directory), libc::EINVAL),
        // That it is there already is no fault, and nothing changes.
        (made("f", file, FileKind::Regular), 0),
        (
            What::Kind(RepairKind {
                directory,
                name: "f".into(),
                ino: file,
                was: FileKind::Fifo as i32,
                kind: FileKind::Regular as i32,
            }),
            libc::ESTALE,
        ),
    ];
    for (what, errno) in cases {
        assert_eq!(refused(&mut groups, what.clone()), errno, "{what:?}");
    }
    let same = links(directory, seen(&groups, directory).change, 2);
    assert_eq!(refused(&mut groups, same), 0);
    let before = seen(&groups, directory).change;
    // Something else has happened in the directory since.
    let create = Op::Create(Create {
        parent: directory,
        name: "new".into(),
        kind: FileKind::Regular as i32,
        ..Create::default()
    });
    assert_eq!(groups.change(&user(0), create).failure_errno, 0);
    assert_eq!(
        refused(&mut groups, links(directory, before, 2)),
        libc::ESTALE
    );
    groups.whole();
}

#[test]
fn what_a_transaction_has_locked_is_not_repaired() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let link = Op::Link(weft_wire::proto::Link {
        ino: tree[1].2,
        parent: tree[0].0,
        name: "linked".into(),
        ..Default::default()
    });
    let mut running = groups.begin(&user(0), link).unwrap();
    while running.reply.is_none() {
        groups.step(&mut running);
    }
    let of = |groups: &Groups| {
        let state = &groups.members[groups.group_of(Ino(tree[1].2).slot())].state;
        state.survey_sight(Ino(tree[1].2), &mut 0).inode.unwrap()
    };
    let links = |groups: &Groups| {
        let (ino, change) = (tree[1].2, of(groups).change);
        What::Links(RepairLinks {
            ino,
            change,
            nlink: 2,
        })
    };
    let what = links(&groups);
    assert_eq!(refused(&mut groups, what), libc::EAGAIN);
    while !running.is_over {
        groups.step(&mut running);
    }
    let what = links(&groups);
    assert_eq!(refused(&mut groups, what), 0);
    groups.whole();
}

#[test]
fn lost_and_found_is_made_once_and_is_the_owners_of_the_root() {
    let mut groups = Groups::new(2);
    let place = || What::Place(RepairPlace {});
    assert_eq!(refused(&mut groups, place()), 0);
    let root = &groups.members[0].state;
    let found = root.lookup(&user(0), ROOT_INO, LOST_AND_FOUND.as_bytes());
    let attr = found.unwrap().unwrap().attr.unwrap();
    assert_eq!(
        (attr.mode, attr.uid, Ino(attr.ino).slot()),
        (0o700, 0, ROOT_INO.slot())
    );
    assert_eq!(refused(&mut groups, place()), 0);
    assert_eq!(groups.whole().len(), 2);

    // It is something else.
    let mut groups = Groups::new(2);
    let create = Op::Create(Create {
        parent: 1,
        name: LOST_AND_FOUND.into(),
        kind: FileKind::Regular as i32,
        ..Create::default()
    });
    assert_eq!(groups.change(&user(0), create).failure_errno, 0);
    assert_eq!(refused(&mut groups, place()), libc::ENOTDIR);
}

#[test]
fn what_cannot_be_put_anywhere_is_told() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    let create = Op::Create(Create {
        parent: 1,
        name: LOST_AND_FOUND.into(),
        kind: FileKind::Regular as i32,
        ..Create::default()
    });
    assert_eq!(groups.change(&user(0), create).failure_errno, 0);
    state_of(&mut groups, tree[1].0).damage_entry(Ino(tree[1].0), b"f", None);
    let cluster = cluster_of(groups, None);
    let mended = mended(&cluster);
    assert_eq!(mended.repaired, []);
    let [(_, why)] = &mended.left[..] else {
        panic!("{mended:?}");
    };
    assert!(why.contains("/lost+found must be a directory"), "{why}");
    assert!(!mended.report.is_sound());
}

/// A directory of which another group thinks that it has its slot bars all repairs.
#[test]
fn nothing_is_repaired_while_a_slot_is_two_groups() {
    let mut groups = Groups::new(2);
    let tree = tree(&mut groups);
    state_of(&mut groups, tree[1].0).damage_entry(Ino(tree[1].0), b"f", None);
    let all = State::new().slot_ranges();
    let mut cluster = cluster_of(groups, None);
    cluster.claims = Some(all);
    let mended = mended(&cluster);
    assert_eq!(mended.repaired, []);
    assert_eq!(mended.left.len(), mended.report.wrong.len());
    assert!(
        mended
            .left
            .iter()
            .all(|(_, why)| why.contains("two groups have a slot"))
    );
    // Without that it is.
    cluster.claims = None;
    let mended = self::mended(&cluster);
    assert!(
        matches!(mended.repaired[..], [Repaired::Found { .. }]),
        "{mended:?}"
    );
    assert_eq!(checked(&cluster).wrong, []);
    is_kept_by_images(&cluster.groups.into_inner().members[1].state);
}
