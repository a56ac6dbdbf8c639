//! Spread directories (`docs/protocols/spread.md`): with their shards they are like any other, whoever has these,
//! and whatever comes between.

use crate::groups::{Groups, Member, is_kept_by_images, user};
use std::collections::BTreeMap;
use weft_namespace::{Resolved, State};
use weft_types::{Ino, ROOT_INO, SLOTS};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    Create, Cred, Elsewhere, FileKind, Link, OpReply, Policy, Protocol, Rename, Rmdir, SetPolicy,
    Setattr, Split, Spread, TakeNumbers, Time, Unlink,
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

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

fn make(parent: u64, name: &str, kind: FileKind) -> Op {
    Op::Create(Create {
        parent,
        name: name.to_owned().into(),
        kind: kind as i32,
        mode: 0o777,
        exclusive: true,
        target: "to".into(),
        ..Create::default()
    })
}

fn mkdir(parent: u64, name: &str) -> Op {
    make(parent, name, FileKind::Directory)
}

fn spread(ino: u64, slots: &[u32]) -> Op {
    Op::Spread(Spread {
        ino,
        shards: slots.len() as u32,
        slots: slots.to_vec(),
    })
}

fn chmod(ino: u64, mode: u32) -> Op {
    Op::Setattr(Setattr {
        ino,
        mode: Some(mode),
        ..Setattr::default()
    })
}

fn rmdir(parent: u64, name: &str) -> Op {
    Op::Rmdir(Rmdir {
        parent,
        name: name.to_owned().into(),
    })
}

fn change(groups: &mut Groups, cred: &Cred, op: &Op) -> OpReply {
    let op = groups.placed(op);
    groups.change(cred, op)
}

fn done(groups: &mut Groups, op: &Op) -> u64 {
    let reply = change(groups, &user(0), op);
    assert_eq!(reply.failure_errno, 0, "{op:?}");
    reply.attr.map_or(0, |attr| attr.ino)
}

/// Every path, and what does not depend on how entries are kept.
type Tree = BTreeMap<Vec<u8>, (u64, (i32, u32, u32, u32, u32))>;

fn tree(groups: &Groups) -> Tree {
    groups.whole();
    let mut tree = Tree::new();
    let mut rest = vec![(Vec::new(), ROOT_INO.0)];
    while let Some((path, ino)) = rest.pop() {
        let mut attr = groups.attr(ino);
        if attr.kind() == FileKind::Directory {
            attr = groups.whole_attr(ino);
            for entry in groups.entries(ino) {
                let below = [&path[..], b"/", &entry.name].concat();
                rest.push((below, entry.ino));
            }
        }
        let of = (attr.kind, attr.mode, attr.nlink, attr.uid, attr.gid);
        assert!(tree.insert(path, (ino, of)).is_none());
    }
    tree
}

fn without_numbers(tree: &Tree) -> BTreeMap<&[u8], (i32, u32, u32, u32, u32)> {
    tree.iter()
        .map(|(path, (_, of))| (&path[..], *of))
        .collect()
}

/// The same change for each of these trees.
fn random_op(rng: &mut Rng, trees: [&Tree; 2]) -> [Op; 2] {
    let of_kind = |wanted: bool| {
        let is = |kind: i32| (kind == FileKind::Directory as i32) == wanted;
        let paths = trees[0].iter().filter(|(_, (_, of))| is(of.0));
        paths.map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    let (directories, files) = (of_kind(true), of_kind(false));
    let names = ["a", "b", "c", "d", "e", "f", "g", "..", "."];
    let name = |rng: &mut Rng| names[(rng.below(40) as usize % 40).min(39) % 9];
    let (parent, new_parent) = (rng.pick(&directories), rng.pick(&directories));
    let (from, to) = (name(rng), name(rng));
    let (what, how, more) = (rng.below(15), rng.below(6), rng.below(5));
    let file = if files.is_empty() {
        Vec::new()
    } else {
        rng.pick(&files)
    };
    trees.map(|tree| {
        let (dir, new_dir) = (tree[&parent].0, tree[&new_parent].0);
        match what {
            0..3 => mkdir(dir, from),
            3 | 4 => make(dir, from, FileKind::Regular),
            5 => make(dir, from, FileKind::Symlink),
            6 => rmdir(dir, from),
            7 => Op::Unlink(Unlink {
                parent: dir,
                name: from.into(),
                ..Unlink::default()
            }),
            8 => Op::Link(Link {
                ino: tree[&file].0,
                parent: dir,
                name: from.into(),
                unnamed: false,
            }),
            9 => chmod(
                dir,
                [0o777, 0o1777, 0o755, 0o2777, 0o700, 0o1733][how as usize],
            ),
            10 => Op::Setattr(Setattr {
                ino: dir,
                uid: (how % 2 == 0).then_some(5),
                gid: Some(more as u32),
                ..Setattr::default()
            }),
            _ => Op::Rename(Rename {
                parent: dir,
                name: from.into(),
                new_parent: new_dir,
                new_name: to.into(),
                no_replace: how == 0,
                exchange: more == 0,
                ..Rename::default()
            }),
        }
    })
}

/// Groups with a pair, of which the first has the root.
fn of(count: usize) -> Groups {
    match count {
        // As a cluster that knows of no groups.
        1 => Groups::of_members(vec![Member::begin(None)]),
        count => Groups::new(count),
    }
}

/// Whatever is spread among groups, and whichever slots move: all is done, refused and shown as in one group
/// where nothing is.
#[test]
fn spread_directories_are_like_any_other() {
    let (mut spreads, mut splits, mut agreed, mut refused, mut moved) = (0, 0, 0, 0, 0);
    for seed in 1..=24u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = 1 + (seed % 3) as usize;
        let (mut groups, mut plain) = (of(count), of(1));
        for groups in [&mut groups, &mut plain] {
            done(groups, &chmod(ROOT_INO.0, 0o1777));
        }
        for _ in 0..160 {
            let trees = [tree(&groups), tree(&plain)];
            assert_eq!(without_numbers(&trees[0]), without_numbers(&trees[1]));
            let inos: Vec<u64> = trees[0].values().map(|(ino, _)| *ino).collect();
            if rng.below(4) == 0 {
                // Who may not, or what cannot be, is refused.
                let first = rng.below(u64::from(SLOTS) - 64) as u32;
                let slots: Vec<u32> = (first..first + (2 << rng.below(3))).collect();
                let reply = groups.change(&user(0), spread(rng.pick(&inos), &slots));
                spreads += usize::from(reply.failure_errno == 0);
                continue;
            }
            if rng.below(3) == 0 {
                // Some of a directory's entries go.
                let of = groups
                    .members
                    .iter()
                    .find_map(|it| it.state.splitting_after(Ino(0)));
                if let Some(ino) = of {
                    let split = Op::Split(Split { ino: ino.0 });
                    let reply = groups.change(&user(0), split);
                    assert_eq!(reply.failure_errno, 0);
                    splits += 1;
                    continue;
                }
            }
            if rng.below(3) == 0 && count > 1 {
                let ino = Ino(rng.pick(&inos));
                let shards = groups.of(ino.0).inode(ino).unwrap().shards;
                let of = if shards.is_empty() {
                    ino
                } else {
                    Ino(rng.pick(&shards))
                };
                let to = rng.below(count as u64) as usize;
                if of.slot() != ROOT_INO.slot() {
                    moved += usize::from(groups.move_slot(of.slot(), to));
                }
                continue;
            }
            let [op, same] = random_op(&mut rng, [&trees[0], &trees[1]]);
            let cred = user([0, 0, 5, 6][rng.below(4) as usize]);
            let many = change(&mut groups, &cred, &op);
            let one = change(&mut plain, &cred, &same);
            match &op {
                // Where there are several reasons to refuse it, which one is told depends on who finds it first.
                Op::Rename(_) if many.failure_errno != 0 => {
                    assert_ne!(one.failure_errno, 0, "{op:?}: {}", many.failure_errno);
                }
                _ => assert_eq!(many.failure_errno, one.failure_errno, "seed {seed}: {op:?}"),
            }
            match many.failure_errno {
                0 => agreed += 1,
                _ => refused += 1,
            }
        }
        for (path, (ino, _)) in tree(&groups) {
            let resolved = resolve(&groups, &path);
            assert_eq!(resolved, ino, "{}", String::from_utf8_lossy(&path));
        }
    }
    // Or there was nothing to see.
    assert!(
        spreads > 60 && splits > 200 && agreed > 400 && refused > 400 && moved > 100,
        "{spreads} {splits} {agreed} {refused} {moved}"
    );
}

/// As tools find a path, from group to group.
fn resolve(groups: &Groups, path: &[u8]) -> u64 {
    let mut at = Elsewhere {
        rest: path.to_vec().into(),
        ..Elsewhere::default()
    };
    loop {
        let ino = if at.ino == 0 { ROOT_INO.0 } else { at.ino };
        match groups.of(ino).resolve(&at).unwrap() {
            Resolved::Here(ino) => return ino.0,
            Resolved::Elsewhere(next) => at = next,
        }
    }
}

/// A spread directory below the root, with a directory in it.
fn with_spread(count: usize) -> (Groups, u64, u64) {
    let mut groups = of(count);
    let dir = done(&mut groups, &mkdir(ROOT_INO.0, "d"));
    done(&mut groups, &spread(dir, &[7, 8, 9, 10]));
    let below = done(&mut groups, &mkdir(dir, "below"));
    (groups, dir, below)
}

#[test]
fn paths_lead_through_shards_and_never_to_them() {
    for count in 1..4 {
        let (mut groups, dir, below) = with_spread(count);
        done(&mut groups, &make(dir, "s", FileKind::Symlink));
        let to = done(&mut groups, &make(dir, "to", FileKind::Regular));
        for (path, ino) in [
            ("/d", dir),
            ("/d/below", below),
            ("/d/below/..", dir),
            ("/d/below/../to", to),
            ("/d/below/../../d/./below", below),
            ("/d/../d/below/.", below),
        ] {
            assert_eq!(resolve(&groups, path.as_bytes()), ino, "{count}: {path}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (mut groups, dir, below) = with_spread(2);
    let errno =
        |groups: &mut Groups, cred: &Cred, op: Op| groups.change(cred, op).failure_errno as i32;
    let root = &user(0);
    let four = [1, 2, 3, 4];
    assert_eq!(errno(&mut groups, root, spread(dir, &four)), libc::EEXIST);
    let shard = groups.shards(dir)[0];
    assert_eq!(errno(&mut groups, root, spread(shard, &four)), libc::EINVAL);
    assert_eq!(
        errno(&mut groups, &user(5), spread(below, &four)),
        libc::EPERM
    );
    for slots in [&[][..], &[1], &[1, 2, 3], &[1, 1], &[1, u32::from(SLOTS)]] {
        assert_eq!(
            errno(&mut groups, root, spread(below, slots)),
            libc::EINVAL,
            "{slots:?}"
        );
    }
    // Names that are in shards, asked of the directory.
    for op in [make(dir, "x", FileKind::Regular), rmdir(dir, "below")] {
        assert_eq!(errno(&mut groups, root, op), libc::EREMCHG);
    }
    let rename = |parent, new_parent| {
        Op::Rename(Rename {
            parent,
            name: "below".into(),
            new_parent,
            new_name: "y".into(),
            ..Rename::default()
        })
    };
    let from = groups.place(dir, b"below");
    assert_eq!(errno(&mut groups, root, rename(from, dir)), libc::EREMCHG);
    // A shard is no directory to anybody, whoever knows its number.
    assert_eq!(errno(&mut groups, root, chmod(shard, 0)), libc::EXDEV);
    assert_eq!(
        errno(&mut groups, root, make(dir, "/0", FileKind::Regular)),
        libc::EINVAL
    );
    assert_eq!(errno(&mut groups, root, rmdir(dir, "/0")), libc::EINVAL);
    let split = Op::Split(Split { ino: dir });
    assert_eq!(errno(&mut groups, root, split), libc::EALREADY);
    let take = |slots: &[u32]| {
        Op::TakeNumbers(TakeNumbers {
            slots: slots.to_vec(),
        })
    };
    let of_first = |op| {
        groups.members[0]
            .state
            .clone()
            .apply(&weft_wire::proto::Entry {
                op: Some(weft_wire::proto::Op { op: Some(op) }),
                ..Default::default()
            })
    };
    assert_eq!(of_first(take(&[2, 2])).failure_errno as i32, libc::EINVAL);
    assert_eq!(of_first(take(&[3])).failure_errno as i32, libc::EINVAL);
    assert_eq!(of_first(take(&[4, 6])).parts.len(), 2);
    groups.whole();
}

#[test]
fn what_a_directory_has_in_common_with_its_shards_is_set_for_all() {
    for count in 1..4 {
        let (mut groups, dir, _) = with_spread(count);
        done(&mut groups, &chmod(dir, 0o2750));
        let of = |groups: &Groups| groups.attr(groups.shards(dir)[2]);
        assert_eq!(of(&groups).mode, 0o2750);
        let chown = Op::Setattr(Setattr {
            ino: dir,
            uid: Some(5),
            gid: Some(6),
            mtime: Some(Time {
                seconds: 3,
                nanos: 1,
            }),
            atime_now: true,
            ..Setattr::default()
        });
        done(&mut groups, &chown);
        let attr = of(&groups);
        assert_eq!((attr.uid, attr.gid), (5, 6));
        assert_eq!(
            attr.mtime,
            Some(Time {
                seconds: 3,
                nanos: 1
            })
        );
        assert!(attr.atime.unwrap().seconds > 1_000);
        assert_eq!(groups.attr(dir).mtime, attr.mtime);
        let policy = Policy {
            protocol: Protocol::ClientSync as i32,
            ..Policy::default()
        };
        let set = Op::SetPolicy(SetPolicy {
            ino: dir,
            policy: Some(policy),
        });
        let refused = groups.change(&user(7), set.clone());
        assert_eq!(refused.failure_errno as i32, libc::EPERM);
        done(&mut groups, &set);
        let shard = groups.shards(dir)[3];
        let of_shard = groups.of(shard).inode(Ino(shard)).unwrap().policy.unwrap();
        assert_eq!(of_shard.protocol(), Protocol::ClientSync);
    }
}

#[test]
fn a_directory_goes_with_all_its_shards_or_not_at_all() {
    for count in 1..4 {
        let (mut groups, dir, _) = with_spread(count);
        let before = groups.whole();
        let reply = change(&mut groups, &user(0), &rmdir(ROOT_INO.0, "d"));
        assert_eq!(reply.failure_errno as i32, libc::ENOTEMPTY);
        assert_eq!(groups.whole(), before);
        let shards = groups.shards(dir);
        done(&mut groups, &rmdir(dir, "below"));
        if count % 2 == 0 {
            done(&mut groups, &rmdir(ROOT_INO.0, "d"));
        } else {
            done(&mut groups, &mkdir(ROOT_INO.0, "e"));
            let over = Op::Rename(Rename {
                parent: ROOT_INO.0,
                name: "e".into(),
                new_parent: ROOT_INO.0,
                new_name: "d".into(),
                ..Rename::default()
            });
            done(&mut groups, &over);
        }
        for ino in shards.into_iter().chain([dir]) {
            assert!(groups.of(ino).inode(Ino(ino)).is_err(), "{ino}");
        }
        groups.whole();
    }
}

/// An image in which a shard is not what its directory says is refused.
#[test]
fn images_of_shards_that_cannot_be_are_refused() {
    use prost::Message;
    use weft_wire::proto::ImageRecord;
    use weft_wire::proto::image_record::Record;
    let (groups, dir, _) = with_spread(1);
    let state = &groups.members[0].state;
    is_kept_by_images(state);
    let shards = groups.shards(dir);
    let load = |damage: &dyn Fn(&mut Record)| {
        let mut loader = weft_namespace::Loader::new();
        let mut outcome = Ok(());
        state.save(&mut |bytes| {
            let mut record = ImageRecord::decode(bytes).unwrap();
            damage(record.record.as_mut().unwrap());
            if outcome.is_ok() {
                outcome = loader
                    .push(&record.encode_to_vec())
                    .map_err(|error| error.to_string());
            }
        });
        outcome.and_then(|()| {
            loader
                .finish()
                .map(|_: State| ())
                .map_err(|error| error.to_string())
        })
    };
    assert_eq!(load(&|_| {}), Ok(()));
    let damages: [&dyn Fn(&mut Record); 4] = [
        &|record| {
            if let Record::Inode(inode) = record
                && inode.ino == dir
            {
                inode.shards.swap(0, 1);
            }
        },
        &|record| {
            if let Record::Inode(inode) = record
                && inode.ino == dir
            {
                inode.shards.pop();
            }
        },
        &|record| {
            if let Record::Inode(inode) = record
                && inode.ino == shards[1]
            {
                inode.shard = 1;
            }
        },
        &|record| {
            if let Record::Inode(inode) = record
                && inode.ino == dir
            {
                inode.shards.clear();
            }
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        assert!(load(damage).is_err(), "{number}");
    }
}

/// A directory with `count` files and directories, in the order of their making.
fn full(groups: &mut Groups, count: usize) -> (u64, Vec<u64>) {
    let dir = done(groups, &mkdir(ROOT_INO.0, "full"));
    let made = (0..count).map(|number| {
        let kind = match number % 5 {
            0 => FileKind::Directory,
            _ => FileKind::Regular,
        };
        done(groups, &make(dir, &format!("n{number}"), kind))
    });
    (dir, made.collect())
}

/// All entries go in steps, keep their cookies, and are where their names say after each.
#[test]
fn a_full_directory_is_split_step_by_step() {
    for count in 1..4 {
        let mut groups = of(count);
        let (dir, made) = full(&mut groups, 900);
        let listed = groups.entries(dir);
        let of_listed = |listed: &[weft_wire::proto::DirEntry]| {
            let of = listed.iter().map(|it| (it.cookie, it.ino, it.name.clone()));
            of.collect::<Vec<_>>()
        };
        assert_eq!(listed.iter().map(|it| it.ino).collect::<Vec<_>>(), made);
        let before = groups.attr(dir);
        done(&mut groups, &spread(dir, &[11, 12, 13, 14]));
        let mut steps = 0;
        while groups.of(dir).splitting_after(Ino(0)).is_some() {
            steps += 1;
            done(&mut groups, &Op::Split(Split { ino: dir }));
            assert_eq!(
                of_listed(&groups.entries(dir)),
                of_listed(&listed),
                "step {steps}"
            );
            let attr = groups.whole_attr(dir);
            assert_eq!((attr.nlink, attr.mtime), (before.nlink, before.mtime));
            for name in [0usize, 1, 450, 899].map(|number| format!("n{number}")) {
                let at = Ino(groups.place(dir, name.as_bytes()));
                let found = groups.of(at.0).lookup(&user(0), at, name.as_bytes());
                assert!(found.unwrap().is_some(), "{name}");
            }
            is_kept_by_images(groups.of(dir));
        }
        assert!(steps >= 4, "{steps}");
        groups.whole();
        // What comes now is listed behind all that was there.
        let new = done(&mut groups, &make(dir, "new", FileKind::Regular));
        assert_eq!(groups.entries(dir).last().unwrap().ino, new);
        assert!(
            groups
                .of(dir)
                .readdir(&user(0), Ino(dir), 0, 9)
                .unwrap()
                .0
                .is_empty()
        );
    }
}
