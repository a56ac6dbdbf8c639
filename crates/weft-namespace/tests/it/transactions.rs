//! Changes that several groups take part in (`docs/protocols/transactions.md`): alone they do what one group
//! would do; together, in every order of their steps, they leave one name space.

use crate::groups::{Groups, Member, Running, is_kept_by_images, user};
use std::collections::BTreeMap;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    Attr, Create, Cred, FileKind, Link, OpReply, Rename, Rmdir, Setattr, Split, Spread, Unlink,
};

/// A small random number generator, so that a seed tells everything.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

fn make(parent: u64, name: &str, kind: FileKind, mode: u32) -> Op {
    Op::Create(Create {
        parent,
        name: name.to_owned().into(),
        kind: kind as i32,
        mode,
        exclusive: true,
        target: "to".into(),
        ..Create::default()
    })
}

fn mkdir(parent: u64, name: &str) -> Op {
    make(parent, name, FileKind::Directory, 0o777)
}

fn rename(parent: u64, name: &str, new_parent: u64, new_name: &str) -> Rename {
    Rename {
        parent,
        name: name.to_owned().into(),
        new_parent,
        new_name: new_name.to_owned().into(),
        ..Rename::default()
    }
}

fn rmdir(parent: u64, name: &str) -> Op {
    Op::Rmdir(Rmdir {
        parent,
        name: name.to_owned().into(),
    })
}

fn unlink(parent: u64, name: &str) -> Op {
    Op::Unlink(Unlink {
        parent,
        name: name.to_owned().into(),
        ..Unlink::default()
    })
}

fn link(ino: u64, parent: u64, name: &str) -> Op {
    Op::Link(Link {
        ino,
        parent,
        name: name.to_owned().into(),
        unnamed: false,
    })
}

fn chmod(ino: u64, mode: u32) -> Op {
    Op::Setattr(Setattr {
        ino,
        mode: Some(mode),
        ..Setattr::default()
    })
}

/// What does not depend on how many entries a change is made of.
fn plain(attr: Attr) -> Attr {
    Attr {
        atime: None,
        mtime: None,
        ctime: None,
        change: 0,
        ..attr
    }
}

fn random_op(rng: &mut Rng, all: &BTreeMap<u64, Attr>) -> Op {
    let of_kind = |is_directory: bool| {
        let of = all
            .iter()
            .filter(move |(_, attr)| (attr.kind() == FileKind::Directory) == is_directory);
        let inos: Vec<u64> = of.map(|(ino, _)| *ino).collect();
        inos
    };
    let (directories, files) = (of_kind(true), of_kind(false));
    let name = |rng: &mut Rng| ["a", "b", "c", "d", ".", ".."][rng.below(22).min(21) as usize % 6];
    let pick = |rng: &mut Rng, of: &[u64]| of[rng.below(of.len() as u64) as usize];
    let (parent, new_parent) = (pick(rng, &directories), pick(rng, &directories));
    let (from, to) = (name(rng), name(rng));
    match rng.below(12) {
        0..3 => mkdir(parent, from),
        3 => make(parent, from, FileKind::Regular, 0o644),
        4 => make(parent, from, FileKind::Symlink, 0),
        5 => rmdir(parent, from),
        6 => unlink(parent, from),
        7 if !files.is_empty() => link(pick(rng, &files), parent, from),
        8 => chmod(
            parent,
            [0o777, 0o1777, 0o755, 0o2777][rng.below(4) as usize],
        ),
        _ => Op::Rename(Rename {
            no_replace: rng.below(6) == 0,
            exchange: rng.below(5) == 0,
            ..rename(parent, from, new_parent, to)
        }),
    }
}

/// Three groups do what one does, refuse what it refuses, and answer the same.
#[test]
fn several_groups_do_what_one_does() {
    let (mut done, mut refused, mut spanned) = (0, 0, 0);
    for seed in 1..=24u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut groups, mut one) = (Groups::new(3), Member::begin(None));
        let sticky = chmod(ROOT_INO.0, 0o1777);
        groups.change(&user(0), sticky.clone());
        one.apply(groups.clock, one.session, &user(0), sticky);
        for _ in 0..150 {
            let all = groups.whole();
            let op = random_op(&mut rng, &all);
            let cred = user([0, 0, 5, 6][rng.below(4) as usize]);
            let home = groups.home(&op);
            spanned += usize::from(groups.members[home].state.spans_groups(&op));
            let many = groups.change(&cred, op.clone());
            let single = one.apply(groups.clock, one.session, &cred, op.clone());
            agree(&groups, &op, &many, &single);
            match many.failure_errno {
                0 => done += 1,
                _ => refused += 1,
            }
        }
        let of_one = |ino: &u64| one.state.inode(Ino(*ino)).unwrap().attr.unwrap();
        for (ino, attr) in groups.whole() {
            assert_eq!(plain(attr), plain(of_one(&ino)), "seed {seed}");
        }
    }
    // Or there was nothing to see.
    assert!(
        done > 900 && refused > 900 && spanned > 900,
        "{done} {refused} {spanned}"
    );
}

/// The same, while slots go from group to group.
#[test]
fn several_groups_do_what_one_does_while_slots_move() {
    let (mut moved, mut with_inodes, mut spanned) = (0, 0, 0);
    for seed in 1..=16u64 {
        let mut rng = Rng(seed.wrapping_mul(0x517c_c1b7_2722_0a95));
        let (mut groups, mut one) = (Groups::new(3), Member::begin(None));
        let sticky = chmod(ROOT_INO.0, 0o1777);
        groups.change(&user(0), sticky.clone());
        one.apply(groups.clock, one.session, &user(0), sticky);
        for _ in 0..150 {
            let all = groups.whole();
            let inos: Vec<u64> = all.keys().copied().collect();
            for _ in 0..rng.below(3) {
                let ino = Ino(inos[rng.below(inos.len() as u64) as usize]);
                let slot = match rng.below(8) {
                    0 => weft_types::Slot(rng.below(4096) as u16),
                    _ => ino.slot(),
                };
                let to = rng.below(3) as usize;
                if slot != ROOT_INO.slot() && groups.move_slot(slot, to) {
                    moved += 1;
                    with_inodes += usize::from(slot == ino.slot());
                }
            }
            let op = random_op(&mut rng, &all);
            let cred = user([0, 0, 5, 6][rng.below(4) as usize]);
            let home = groups.home(&op);
            spanned += usize::from(groups.members[home].state.spans_groups(&op));
            let many = groups.change(&cred, op.clone());
            let single = one.apply(groups.clock, one.session, &cred, op.clone());
            agree(&groups, &op, &many, &single);
        }
        for (ino, attr) in groups.whole() {
            let single = one.state.inode(Ino(ino)).unwrap().attr.unwrap();
            assert_eq!(plain(attr), plain(single), "seed {seed}");
        }
    }
    // Or there was nothing to see.
    assert!(
        moved > 600 && with_inodes > 600 && spanned > 600,
        "{moved} {with_inodes} {spanned}"
    );
}

fn agree(groups: &Groups, op: &Op, many: &OpReply, one: &OpReply) {
    match op {
        // Where there are several reasons to refuse it, which one is told depends on who finds it first.
        Op::Rename(_) if many.failure_errno != 0 => {
            assert_ne!(
                one.failure_errno, 0,
                "{op:?} refused with {}",
                many.failure_errno
            );
        }
        _ => assert_eq!(many.failure_errno, one.failure_errno, "{op:?}"),
    }
    assert_eq!(many.created, one.created, "{op:?}");
    for (many, one) in [(many.attr, one.attr), (many.victim, one.victim)] {
        assert_eq!(many.map(plain), one.map(plain), "{op:?}");
    }
    if let (Some(attr), Some(victim)) = (many.attr, many.victim)
        && attr.ino == victim.ino
    {
        // Both names stand for it: nothing is done, not even to its times.
        assert_eq!((groups.attr(attr.ino), victim), (attr, attr), "{op:?}");
    }
    // Of a directory in another group nothing is told.
    if let (Some(many), Some(one)) = (many.parent, one.parent) {
        assert_eq!(plain(many), plain(one), "{op:?}");
        assert_eq!(groups.attr(many.ino), many, "{op:?}");
    }
}

/// What each of two transactions may have come to, and how often.
type Outcomes = BTreeMap<(u32, u32), usize>;

/// All orders of the steps of these changes (one of one group is done as soon as it need not wait), where so
/// many of them may also lose their homes' reigns; at the
/// end all who are in doubt ask.
fn interleave(lost: u64, prepare: impl Fn(&mut Groups) -> Vec<(Cred, Op)>) -> Outcomes {
    let mut outcomes = Outcomes::new();
    // An order is the numbers drawn; the next one counts on.
    let mut order: Vec<u64> = Vec::new();
    loop {
        let mut groups = Groups::new(3);
        let ops = prepare(&mut groups);
        let mut running: Vec<Running> = Vec::new();
        let mut replies: Vec<Option<u32>> = vec![None; ops.len()];
        let mut waiting: Vec<usize> = (0..ops.len()).rev().collect();
        let mut drawn: Vec<(u64, u64)> = Vec::new();
        let mut losses = lost;
        loop {
            let active: Vec<usize> = (0..running.len())
                .filter(|number| !running[*number].is_over)
                .collect();
            // Begin the next, go on with one, or lose the home of one.
            let next = waiting.last().map(|number| &ops[*number].1);
            let may_begin = u64::from(next.is_some_and(|op| !groups.waits(op)));
            let may_lose = losses.min(1);
            let choices = may_begin + active.len() as u64 * (1 + may_lose);
            if choices == 0 {
                if waiting.is_empty() {
                    break;
                }
                // It waits for a transaction whose home was lost.
                groups.ask();
                continue;
            }
            let choice = order.get(drawn.len()).copied().unwrap_or(0);
            drawn.push((choice, choices));
            if choice < may_begin {
                let number = waiting.pop().unwrap();
                let (cred, op) = ops[number].clone();
                if !groups.spans(&op) {
                    replies[number] = Some(groups.change(&cred, op).failure_errno);
                    continue;
                }
                match groups.begin(&cred, op) {
                    Ok(begun) => running.push(begun),
                    // Nothing of it is anywhere.
                    Err(errno) => replies[number] = Some(errno.0 as u32),
                }
                continue;
            }
            let choice = choice - may_begin;
            let (which, loses) = (
                active[(choice / (1 + may_lose)) as usize],
                choice % (1 + may_lose),
            );
            if loses == 1 {
                losses -= 1;
                groups.lose_home(&mut running[which]);
                // It tells nobody.
                running[which].is_over = true;
            } else {
                groups.step(&mut running[which]);
            }
        }
        groups.ask();
        groups.whole();
        let mut told = running
            .iter()
            .map(|it| it.reply.as_ref().unwrap().failure_errno);
        let mut of = |number: usize| replies[number].take().or_else(|| told.next()).unwrap();
        *outcomes.entry((of(0), of(1))).or_default() += 1;
        // The next order: the last place that can be counted up is.
        while drawn
            .last()
            .is_some_and(|(choice, choices)| choice + 1 == *choices)
        {
            drawn.pop();
        }
        order = drawn.iter().map(|(choice, _)| *choice).collect();
        match order.last_mut() {
            Some(last) => *last += 1,
            None => return outcomes,
        }
    }
}

fn ino_of(reply: &OpReply) -> u64 {
    assert_eq!(reply.failure_errno, 0, "{reply:?}");
    reply.attr.unwrap().ino
}

/// A directory below `parent` in this group.
fn directory_in(groups: &mut Groups, parent: u64, group: usize, hint: &str) -> (u64, String) {
    for number in 0.. {
        let name = format!("{hint}{number}");
        let slot = weft_namespace::State::directory_slot(weft_types::Ino(parent), name.as_bytes());
        if groups.group_of(slot) == group {
            let ino = ino_of(&groups.change(&user(0), mkdir(parent, &name)));
            return (ino, name);
        }
    }
    unreachable!("one of the names hashes there")
}

#[test]
fn two_renames_that_together_make_a_circle_do_not_both_happen() {
    let outcomes = interleave(1, |groups| {
        let (a, name_a) = directory_in(groups, ROOT_INO.0, 1, "a");
        let (b, name_b) = directory_in(groups, ROOT_INO.0, 2, "b");
        let one = rename(ROOT_INO.0, &name_a, b, "x");
        let two = rename(ROOT_INO.0, &name_b, a, "y");
        vec![(user(0), Op::Rename(one)), (user(0), Op::Rename(two))]
    });
    assert!(!outcomes.contains_key(&(0, 0)), "{outcomes:?}");
    // Each can be the one that is done, and both can be in each other's way.
    for seen in [(0, libc::EAGAIN), (libc::EAGAIN, 0), (0, libc::EINVAL)] {
        let seen = (seen.0 as u32, seen.1 as u32);
        assert!(outcomes.contains_key(&seen), "{seen:?} of {outcomes:?}");
    }
}

#[test]
fn deep_renames_that_together_make_a_circle_do_not_both_happen() {
    let outcomes = interleave(0, |groups| {
        let (a, name_a) = directory_in(groups, ROOT_INO.0, 1, "a");
        let (b, name_b) = directory_in(groups, ROOT_INO.0, 2, "b");
        let (a, _) = directory_in(groups, a, 0, "c");
        let (b, _) = directory_in(groups, b, 0, "d");
        let one = rename(ROOT_INO.0, &name_a, b, "x");
        let two = rename(ROOT_INO.0, &name_b, a, "y");
        vec![(user(0), Op::Rename(one)), (user(0), Op::Rename(two))]
    });
    assert!(!outcomes.contains_key(&(0, 0)), "{outcomes:?}");
    assert!(outcomes.len() > 3, "{outcomes:?}");
}

#[test]
fn nothing_comes_to_be_in_a_directory_that_goes() {
    let outcomes = interleave(1, |groups| {
        let (a, name) = directory_in(groups, ROOT_INO.0, 1, "a");
        // A directory of the third group in it.
        let below = (0..).map(|number| format!("n{number}")).find(|name| {
            let slot = weft_namespace::State::directory_slot(weft_types::Ino(a), name.as_bytes());
            groups.group_of(slot) == 2
        });
        let make = mkdir(a, &below.unwrap());
        vec![(user(0), rmdir(ROOT_INO.0, &name)), (user(0), make)]
    });
    assert!(!outcomes.contains_key(&(0, 0)), "{outcomes:?}");
    for seen in [(0, libc::EAGAIN), (libc::EAGAIN, 0), (libc::ENOTEMPTY, 0)] {
        let seen = (seen.0 as u32, seen.1 as u32);
        assert!(outcomes.contains_key(&seen), "{seen:?} of {outcomes:?}");
    }
}

#[test]
fn a_file_with_names_in_several_groups_goes_with_the_last() {
    let outcomes = interleave(1, |groups| {
        let (a, _) = directory_in(groups, ROOT_INO.0, 1, "a");
        let (b, _) = directory_in(groups, ROOT_INO.0, 2, "b");
        let file = make(ROOT_INO.0, "f", FileKind::Symlink, 0);
        let file = ino_of(&groups.change(&user(0), file));
        groups.change(&user(0), link(file, a, "one"));
        groups.change(&user(0), unlink(ROOT_INO.0, "f"));
        vec![(user(0), unlink(a, "one")), (user(0), link(file, b, "two"))]
    });
    for seen in [(0, 0), (0, libc::EAGAIN), (libc::EAGAIN, 0)] {
        let seen = (seen.0 as u32, seen.1 as u32);
        assert!(outcomes.contains_key(&seen), "{seen:?} of {outcomes:?}");
    }
}

#[test]
fn of_two_that_want_a_name_one_gets_it() {
    let outcomes = interleave(1, |groups| {
        let (a, _) = directory_in(groups, ROOT_INO.0, 1, "a");
        let (b, name_b) = directory_in(groups, ROOT_INO.0, 2, "b");
        let file = make(b, "f", FileKind::Symlink, 0);
        ino_of(&groups.change(&user(0), file));
        let no_replace = |renaming: Rename| {
            Op::Rename(Rename {
                no_replace: true,
                ..renaming
            })
        };
        vec![
            (user(0), no_replace(rename(ROOT_INO.0, &name_b, a, "x"))),
            (user(0), no_replace(rename(b, "f", a, "x"))),
        ]
    });
    assert!(!outcomes.contains_key(&(0, 0)), "{outcomes:?}");
    let exists = libc::EEXIST as u32;
    assert!(outcomes.contains_key(&(0, exists)) && outcomes.contains_key(&(exists, 0)));
}

/// Changes of one group: they wait for what a transaction has locked.
#[test]
fn nothing_is_made_in_a_directory_that_goes() {
    let outcomes = interleave(1, |groups| {
        let (a, name) = directory_in(groups, ROOT_INO.0, 1, "a");
        let file = make(a, "f", FileKind::Symlink, 0);
        assert!(!groups.spans(&file), "a file is where its directory is");
        vec![(user(0), rmdir(ROOT_INO.0, &name)), (user(0), file)]
    });
    assert!(!outcomes.contains_key(&(0, 0)), "{outcomes:?}");
    for seen in [(0, libc::ESTALE), (libc::ENOTEMPTY, 0)] {
        let seen = (seen.0 as u32, seen.1 as u32);
        assert!(outcomes.contains_key(&seen), "{seen:?} of {outcomes:?}");
    }
}

#[test]
fn a_file_that_gets_a_name_elsewhere_is_not_removed_with_its_own() {
    let outcomes = interleave(1, |groups| {
        let (a, _) = directory_in(groups, ROOT_INO.0, 1, "a");
        let file = make(ROOT_INO.0, "f", FileKind::Symlink, 0);
        let file = ino_of(&groups.change(&user(0), file));
        let unlinks = unlink(ROOT_INO.0, "f");
        assert!(!groups.spans(&unlinks), "file and name are in one group");
        vec![(user(0), link(file, a, "one")), (user(0), unlinks)]
    });
    // It goes before there is another name, or has that.
    for seen in [(0, 0), (libc::ESTALE, 0)] {
        let seen = (seen.0 as u32, seen.1 as u32);
        assert!(outcomes.contains_key(&seen), "{seen:?} of {outcomes:?}");
    }
}

/// While something is locked images hold that, too.
#[test]
fn images_keep_what_is_between_groups() {
    let mut groups = Groups::new(3);
    let (a, _) = directory_in(&mut groups, ROOT_INO.0, 1, "a");
    let (b, name) = directory_in(&mut groups, ROOT_INO.0, 2, "b");
    let op = Op::Rename(rename(ROOT_INO.0, &name, a, "x"));
    let mut running = groups.begin(&user(0), op).unwrap();
    let mut locked = 0;
    while !running.is_over {
        groups.step(&mut running);
        for member in &groups.members {
            locked += member.state.prepared().count() + member.state.decided().count();
            is_kept_by_images(&member.state);
        }
        let hidden = groups.of(b).hides_inode(weft_types::Ino(b)).is_some();
        // In a group that is not the home, the name is hidden as long as the listing is.
        let name_hidden = groups.of(a).hides_name(weft_types::Ino(a), b"x").is_some();
        let all_hidden = groups.of(a).hides_entries(weft_types::Ino(a)).is_some();
        assert_eq!(name_hidden, all_hidden);
        locked += usize::from(hidden) + usize::from(all_hidden);
    }
    assert!(locked > 8, "{locked}");
    groups.whole();
}

/// A directory of the second group, with a file and a directory of the third group in it, that is spread: its
/// shards are of the third group and of the first.
fn spread_in(groups: &mut Groups, is_full: bool) -> (u64, String, Vec<u64>) {
    let (dir, name) = directory_in(groups, ROOT_INO.0, 1, "s");
    if is_full {
        ino_of(&groups.change(&user(0), make(dir, "file", FileKind::Symlink, 0)));
        directory_in(groups, dir, 2, "below");
    }
    ino_of(&groups.change(&user(0), spread(dir)));
    let shards = groups.shards(dir);
    (dir, name, shards)
}

fn spread(ino: u64) -> Op {
    Op::Spread(Spread {
        ino,
        shards: 2,
        slots: vec![5, 6],
    })
}

fn seen(outcomes: &Outcomes, wanted: &[(i32, i32)]) {
    for (one, two) in wanted {
        let pair = (*one as u32, *two as u32);
        assert!(outcomes.contains_key(&pair), "{pair:?} of {outcomes:?}");
    }
}

#[test]
fn nothing_is_made_in_a_shard_of_a_directory_that_goes() {
    let outcomes = interleave(1, |groups| {
        let (_, name, shards) = spread_in(groups, false);
        let made = make(shards[0], "n", FileKind::Symlink, 0);
        vec![(user(0), rmdir(ROOT_INO.0, &name)), (user(0), made)]
    });
    assert!(!outcomes.contains_key(&(0, 0)), "{outcomes:?}");
    seen(
        &outcomes,
        &[(0, libc::ESTALE), (libc::ENOTEMPTY, 0), (libc::ESTALE, 0)],
    );
}

#[test]
fn who_may_not_work_in_a_directory_may_not_in_its_shards() {
    let outcomes = interleave(1, |groups| {
        let (dir, _, shards) = spread_in(groups, false);
        groups.change(&user(0), chmod(dir, 0o777));
        let made = make(shards[0], "n", FileKind::Symlink, 0);
        vec![(user(0), chmod(dir, 0o700)), (user(5), made)]
    });
    seen(&outcomes, &[(0, 0), (0, libc::EACCES), (libc::ESTALE, 0)]);
    assert!(!outcomes.contains_key(&(libc::ESTALE as u32, libc::EACCES as u32)));
}

#[test]
fn a_directory_is_spread_while_others_work_in_it() {
    let made = interleave(1, |groups| {
        let (dir, _) = directory_in(groups, ROOT_INO.0, 1, "s");
        let made = make(dir, "n", FileKind::Symlink, 0);
        vec![(user(0), spread(dir)), (user(0), made)]
    });
    seen(&made, &[(0, 0), (0, libc::EREMCHG), (libc::ESTALE, 0)]);
    let below = interleave(0, |groups| {
        let (dir, _) = directory_in(groups, ROOT_INO.0, 1, "s");
        let name = (0..).map(|number| format!("n{number}")).find(|name| {
            let slot = weft_namespace::State::directory_slot(Ino(dir), name.as_bytes());
            groups.group_of(slot) == 2
        });
        vec![
            (user(0), spread(dir)),
            (user(0), mkdir(dir, &name.unwrap())),
        ]
    });
    seen(
        &below,
        &[
            (0, 0),
            (0, libc::EREMCHG),
            (0, libc::EAGAIN),
            (libc::EAGAIN, 0),
        ],
    );
    let gone = interleave(1, |groups| {
        let (dir, name) = directory_in(groups, ROOT_INO.0, 1, "s");
        vec![(user(0), spread(dir)), (user(0), rmdir(ROOT_INO.0, &name))]
    });
    seen(&gone, &[(0, 0), (libc::EAGAIN, 0), (0, libc::EAGAIN)]);
}

/// Makes a change of a directory: its number, its name, and its shards.
type OfDirectory<'a> = &'a dyn Fn(&mut Groups, u64, &str, &[u64]) -> Op;

#[test]
fn entries_go_to_shards_while_others_work_in_the_directory() {
    let against = |op: OfDirectory<'_>| {
        interleave(0, |groups| {
            let (dir, name, shards) = spread_in(groups, true);
            let split = Op::Split(Split { ino: dir });
            let op = op(groups, dir, &name, &shards);
            vec![(user(0), split), (user(0), op)]
        })
    };
    // Whose name goes with the step.
    let first = |name: &str| weft_types::name_hash(name.as_bytes()) >> 63 == 0;
    let name = (0..)
        .map(|number| format!("n{number}"))
        .find(|name| first(name));
    let name = name.unwrap();
    let moved = libc::EREMCHG;
    let made = against(&|_, dir, _, _| make(dir, &name, FileKind::Symlink, 0));
    seen(&made, &[(0, moved), (libc::EAGAIN, 0)]);
    let file = if first("file") { moved } else { 0 };
    let unlinked = against(&|_, dir, _, _| unlink(dir, "file"));
    seen(&unlinked, &[(0, file)]);
    let renamed = against(&|groups, dir, _, _| {
        let (to, _) = directory_in(groups, ROOT_INO.0, 2, "to");
        Op::Rename(rename(dir, "file", to, "x"))
    });
    seen(&renamed, &[(0, file)]);
    let set = against(&|_, dir, _, _| chmod(dir, 0o700));
    seen(&set, &[(0, 0), (0, libc::EAGAIN), (libc::EAGAIN, 0)]);
    let gone = against(&|_, _, name, _| rmdir(ROOT_INO.0, name));
    seen(&gone, &[(0, libc::ENOTEMPTY)]);
    let early = against(&|_, _, _, shards| make(shards[0], "early", FileKind::Symlink, 0));
    seen(&early, &[(0, 0)]);
}
