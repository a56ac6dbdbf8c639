use super::*;
use crate::{LINKS_MAX, READ, WRITE};
use weft_wire::proto::{Durability, Policy, Protocol, SetPolicy};

#[test]
fn a_file_begins_with_its_makers_ids_times_and_lease() {
    let mut w = World::new();
    let cred = Cred {
        uid: 7,
        gid: 8,
        groups: vec![9],
    };
    let op = create(ROOT_INO, "f", FileKind::Regular, 0o6644);
    let reply = w.ok(&cred, Op::Create(op));
    let attr = reply.attr.unwrap();
    assert!(reply.created);
    assert_eq!(
        (attr.uid, attr.gid, attr.mode, attr.nlink),
        (7, 8, 0o6644, 1)
    );
    assert_eq!([attr.atime, attr.mtime, attr.ctime], [w.now(); 3]);
    let parent = reply.parent.unwrap();
    assert_eq!([parent.mtime, parent.ctime], [w.now(); 2]);
    assert_ne!(parent.atime, w.now());
    assert_eq!(parent.nlink, 2);
    assert_eq!(w.state.write_lease(Ino(attr.ino)), Some(w.session()));
    assert_eq!(w.state.write_leases_of(w.session()), [Ino(attr.ino)]);
    let layout = reply.layout.unwrap();
    assert_eq!(layout.pairs, [0, 1]);
    assert_eq!((layout.stripe_unit, layout.generation), (1 << 20, 1));
    assert_eq!(layout.protocol(), Protocol::ServerSync);
    assert_eq!(layout.durability(), Durability::Memory);
}

#[test]
fn the_service_itself_takes_no_lease() {
    let mut w = World::new();
    let op = create(ROOT_INO, "f", FileKind::Regular, 0o644);
    let ino = Ino(w.apply(0, &root(), Op::Create(op)).attr.unwrap().ino);
    assert_eq!(w.state.write_lease(ino), None);
}

#[test]
fn directories_count_links_and_spread_over_slots() {
    let mut w = World::new();
    let slots: std::collections::BTreeSet<u16> = (0..64)
        .map(|i| w.mkdir(&root(), ROOT_INO, &format!("d{i}"), 0o755).slot().0)
        .collect();
    assert!(slots.len() > 55, "{slots:?}");
    assert_eq!(w.attr(ROOT_INO).nlink, 66);
    let d = w.find(ROOT_INO, "d5").unwrap();
    assert_eq!(w.attr(d).nlink, 2);
    let f = w.file(&root(), d, "f", 0o644);
    assert_eq!(f.slot(), d.slot());
    assert_ne!(f, d);
    assert_eq!(w.find(d, ".."), Some(ROOT_INO));
}

/// Slots are part of inode numbers, which live for ever: the hash must never change.
#[test]
fn the_slot_of_a_directory_is_fixed_for_ever() {
    let slots: Vec<u16> = [(1, "home"), (1, "tmp"), (77, "home")]
        .map(|(parent, name): (u64, &str)| State::directory_slot(Ino(parent), name.as_bytes()).0)
        .to_vec();
    assert_eq!(slots, FIXED_SLOTS);
}

const FIXED_SLOTS: [u16; 3] = [2654, 3809, 2272];

#[test]
fn inode_numbers_are_never_used_again() {
    let mut w = World::new();
    let mut last = Ino(0);
    for _ in 0..10 {
        let ino = w.file(&root(), ROOT_INO, "f", 0o644);
        assert!(ino > last);
        last = ino;
        w.ok(&root(), unlink(ROOT_INO, "f"));
        assert_eq!(w.state.inode(ino), Err(Errno::ESTALE));
    }
}

#[test]
fn names_that_are_none() {
    let mut w = World::new();
    for kind in [FileKind::Regular, FileKind::Directory, FileKind::Fifo] {
        let mut fails = |name: &str| {
            let op = Op::Create(create(ROOT_INO, name, kind, 0o644));
            w.fails(&root(), op)
        };
        assert_eq!(fails(""), Errno::ENOENT);
        assert_eq!(fails("."), Errno::EEXIST);
        assert_eq!(fails(".."), Errno::EEXIST);
        assert_eq!(fails("a/b"), Errno::EINVAL);
        assert_eq!(fails("a\0b"), Errno::EINVAL);
        assert_eq!(fails(&"x".repeat(256)), Errno::ENAMETOOLONG);
    }
    w.file(&root(), ROOT_INO, &"x".repeat(255), 0o644);
    let odd = Create {
        name: vec![255, 254, b'\n', b' '].into(),
        ..create(ROOT_INO, "", FileKind::Fifo, 0)
    };
    w.ok(&root(), Op::Create(odd));
    let open = Create {
        exclusive: false,
        ..create(ROOT_INO, ".", FileKind::Regular, 0)
    };
    assert_eq!(w.fails(&root(), Op::Create(open)), Errno::EISDIR);
}

#[test]
fn errors_come_in_the_order_of_linux() {
    let mut w = World::new();
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o555);
    w.make(&root(), d, "there", FileKind::Regular, 0o644);
    let op = |name: &str| Op::Create(create(d, name, FileKind::Regular, 0o644));
    // The name is there before the directory refuses writing.
    assert_eq!(w.fails(&user(1), op("there")), Errno::EEXIST);
    assert_eq!(w.fails(&user(1), op("new")), Errno::EACCES);
    assert_eq!(w.fails(&user(2), op("new")), Errno::EACCES);
    w.chmod(d, 0o666);
    // Without search permission nothing is said of the name.
    assert_eq!(w.fails(&user(1), op("there")), Errno::EACCES);
    let f = w.file(&root(), ROOT_INO, "f", 0o777);
    let below = Op::Create(create(f, "x", FileKind::Regular, 0o644));
    assert_eq!(w.fails(&root(), below), Errno::ENOTDIR);
    let nowhere = Op::Create(create(Ino(999), "x", FileKind::Regular, 0o644));
    assert_eq!(w.fails(&root(), nowhere), Errno::ESTALE);
    let unspecified = Op::Create(create(ROOT_INO, "x", FileKind::Unspecified, 0o644));
    assert_eq!(w.fails(&root(), unspecified), Errno::EINVAL);
    let unknown = Create {
        kind: 99,
        ..create(ROOT_INO, "x", FileKind::Regular, 0o644)
    };
    assert_eq!(w.fails(&root(), Op::Create(unknown)), Errno::EINVAL);
}

#[test]
fn set_group_id_directories_give_their_group() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o777);
    w.ok(
        &root(),
        Op::Setattr(Setattr {
            mode: Some(0o2777),
            gid: Some(50),
            ..setattr(d)
        }),
    );
    let below = w.mkdir(&user(1), d, "below", 0o6755);
    let attr = w.attr(below);
    assert_eq!((attr.gid, attr.mode), (50, 0o2755));
    // Not in the group: cannot make what runs as the group.
    let runs = w.file(&user(1), d, "runs", 0o2755);
    assert_eq!((w.attr(runs).gid, w.attr(runs).mode), (50, 0o755));
    // Without execution the bit means something else.
    let locks = w.file(&user(1), d, "locks", 0o2644);
    assert_eq!(w.attr(locks).mode, 0o2644);
    let member = Cred {
        groups: vec![50],
        ..user(1)
    };
    let runs = w.file(&member, d, "member", 0o2755);
    assert_eq!(w.attr(runs).mode, 0o2755);
    let plain = w.mkdir(&root(), ROOT_INO, "plain", 0o7755);
    assert_eq!(w.attr(plain).mode, 0o1755);
}

#[test]
fn symlinks_and_devices() {
    let mut w = World::new();
    let l = w.make(&user(1), ROOT_INO, "l", FileKind::Symlink, 0o600);
    let inode = w.state.inode(l).unwrap();
    assert_eq!(&inode.target[..], b"to");
    let attr = inode.attr.unwrap();
    assert_eq!((attr.mode, attr.size), (0o777, 2));
    let link = |target: String| {
        let op = create(ROOT_INO, "n", FileKind::Symlink, 0);
        Op::Create(Create {
            target: target.into(),
            ..op
        })
    };
    assert_eq!(w.fails(&root(), link(String::new())), Errno::ENOENT);
    assert_eq!(
        w.fails(&root(), link("x".repeat(4096))),
        Errno::ENAMETOOLONG
    );
    assert_eq!(w.fails(&root(), link("x\0y".into())), Errno::EINVAL);
    w.ok(&root(), link("x".repeat(4095)));
    for kind in [FileKind::CharDevice, FileKind::BlockDevice] {
        let name = format!("{kind:?}");
        let op = Op::Create(Create {
            rdev: 0x103,
            ..create(ROOT_INO, &name, kind, 0o600)
        });
        assert_eq!(w.fails(&user(1), op.clone()), Errno::EPERM);
        assert_eq!(w.ok(&root(), op).attr.unwrap().rdev, 0x103);
    }
    // A whiteout.
    w.ok(
        &user(1),
        Op::Create(create(ROOT_INO, "wh", FileKind::CharDevice, 0)),
    );
    for kind in [FileKind::Fifo, FileKind::Socket] {
        let name = format!("{kind:?}");
        let op = Create {
            rdev: 9,
            ..create(ROOT_INO, &name, kind, 0o640)
        };
        let attr = w.ok(&user(1), Op::Create(op)).attr.unwrap();
        assert_eq!((attr.rdev, attr.kind(), attr.mode), (0, kind, 0o640));
    }
}

#[test]
fn opening_what_is_there() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o640);
    w.drop_lease(f);
    let open = |access: u32, truncate: bool| {
        let op = create(ROOT_INO, "f", FileKind::Regular, 0o600);
        Op::Create(Create {
            exclusive: false,
            open_access: access,
            truncate,
            ..op
        })
    };
    let reply = w.ok(&user(1), open(READ | WRITE, false));
    assert!(!reply.created);
    assert_eq!(reply.attr.unwrap().ino, f.0);
    assert!(reply.layout.is_some());
    assert_eq!(w.state.write_lease(f), None);
    assert_eq!(w.fails(&user(2), open(READ, false)), Errno::EACCES);
    let member = Cred {
        groups: vec![1],
        ..user(3)
    };
    w.ok(&member, open(READ, false));
    assert_eq!(w.fails(&member, open(WRITE, false)), Errno::EACCES);
    // Cutting needs writing, whatever it is opened for.
    assert_eq!(w.fails(&member, open(READ, true)), Errno::EACCES);

    w.mkdir(&root(), ROOT_INO, "d", 0o777);
    let directory = Create {
        exclusive: false,
        ..create(ROOT_INO, "d", FileKind::Regular, 0)
    };
    assert_eq!(w.fails(&root(), Op::Create(directory)), Errno::EISDIR);
    w.make(&root(), ROOT_INO, "l", FileKind::Symlink, 0);
    let link = create(ROOT_INO, "l", FileKind::Regular, 0);
    let link = Create {
        exclusive: false,
        open_access: 6,
        truncate: true,
        ..link
    };
    let reply = w.ok(&user(2), Op::Create(link));
    assert_eq!(reply.attr.unwrap().kind(), FileKind::Symlink);
    w.make(&root(), ROOT_INO, "p", FileKind::Fifo, 0o644);
    let fifo = create(ROOT_INO, "p", FileKind::Regular, 0);
    let fifo = Create {
        exclusive: false,
        open_access: 2,
        ..fifo
    };
    assert_eq!(w.fails(&user(2), Op::Create(fifo)), Errno::EACCES);
}

#[test]
fn nothing_is_made_in_a_directory_that_is_gone() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o777);
    let held = proto::Orphan {
        ino: d.0,
        session: w.session,
    };
    w.service(Op::Orphan(held));
    w.ok(&root(), rmdir(ROOT_INO, "d"));
    assert_eq!(w.attr(d).nlink, 0);
    let op = Op::Create(create(d, "x", FileKind::Regular, 0o644));
    assert_eq!(w.fails(&root(), op), Errno::ENOENT);
    assert_eq!(w.find(d, ".."), Some(ROOT_INO));
    assert_eq!(
        w.state.readdir(&root(), d, 0, 9).unwrap(),
        (vec![], true, ROOT_INO)
    );
    w.ok(&root(), Op::Release(proto::Release { ino: d.0 }));
    assert_eq!(w.state.inode(d), Err(Errno::ESTALE));
    assert_eq!(w.state.statistics().directories, 1);
}

#[test]
fn layouts_follow_the_policy_of_the_directory() {
    let mut w = World::new();
    for pair in 2..5 {
        w.service(Op::AddPair(AddPair { pair }));
    }
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o777);
    let before = w.mkdir(&user(1), d, "before", 0o777);
    let policy = Policy {
        stripe_unit: 1 << 17,
        width: 2,
        ..Policy::default()
    };
    let set = |ino: Ino, policy| {
        Op::SetPolicy(SetPolicy {
            ino: ino.0,
            policy: Some(policy),
        })
    };
    assert_eq!(w.fails(&user(2), set(d, policy)), Errno::EPERM);
    w.ok(&user(1), set(d, policy));
    let below = w.mkdir(&user(1), d, "below", 0o777);
    let in_force = w.state.inode(below).unwrap().policy.unwrap();
    assert_eq!((in_force.stripe_unit, in_force.width), (1 << 17, 2));
    assert_eq!(in_force.protocol(), Protocol::ServerSync);
    assert_eq!(w.state.inode(before).unwrap().policy.unwrap().width, 0);

    let mut make = |name: &str, random: u64| {
        let op = Op::Create(create(below, name, FileKind::Regular, 0o644));
        let entry = Entry {
            session: w.session,
            random,
            cred: Some(root()),
            op: Some(proto::Op { op: Some(op) }),
            ..Entry::default()
        };
        w.state.apply(&entry).layout.unwrap().pairs
    };
    assert_eq!(make("a", 1), [1, 2]);
    assert_eq!(make("b", 9), [4, 0]);
    // Nothing set: as the parent again.
    w.ok(
        &root(),
        set(
            below,
            Policy {
                width: 3,
                ..Policy::default()
            },
        ),
    );
    assert_eq!(
        w.state.inode(below).unwrap().policy.unwrap().stripe_unit,
        1 << 17
    );
    w.ok(&root(), set(below, Policy::default()));
    assert_eq!(w.state.inode(below).unwrap().policy.unwrap().width, 2);
    let bad = Policy {
        stripe_unit: 1000,
        ..Policy::default()
    };
    assert_eq!(w.fails(&root(), set(below, bad)), Errno::EINVAL);
    let f = w.file(&root(), d, "f", 0o644);
    assert_eq!(w.fails(&root(), set(f, policy)), Errno::ENOTDIR);
}

#[test]
fn without_pairs_there_is_no_room_for_files() {
    let mut state = World {
        state: State::new(),
        session: 0,
        clock: 0,
    };
    let op = |kind| Op::Create(create(ROOT_INO, "x", kind, 0o644));
    assert_eq!(state.fails(&root(), op(FileKind::Regular)), Errno::ENOSPC);
    state.ok(&root(), op(FileKind::Directory));
}

#[test]
fn links() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o600);
    let d = w.mkdir(&user(2), ROOT_INO, "d", 0o755);
    let reply = w.ok(&user(2), link(f, d, "g"));
    assert_eq!(reply.attr.as_ref().unwrap().nlink, 2);
    assert_eq!(reply.attr.unwrap().ctime, w.now());
    assert_eq!(reply.parent.unwrap().mtime, w.now());
    assert_eq!(w.find(d, "g"), Some(f));
    assert_eq!(w.fails(&user(2), link(f, d, "g")), Errno::EEXIST);
    assert_eq!(w.fails(&user(1), link(f, d, "g")), Errno::EEXIST);
    assert_eq!(w.fails(&user(1), link(f, d, "h")), Errno::EACCES);
    assert_eq!(w.fails(&root(), link(d, ROOT_INO, "e")), Errno::EPERM);
    assert_eq!(w.fails(&root(), link(f, f, "e")), Errno::ENOTDIR);
    assert_eq!(w.fails(&root(), link(Ino(12345), d, "e")), Errno::ESTALE);
    assert_eq!(w.fails(&root(), link(f, d, "..")), Errno::EEXIST);
    assert_eq!(
        w.fails(&root(), link(f, d, &"n".repeat(256))),
        Errno::ENAMETOOLONG
    );
    // A symlink can have two names.
    let l = w.make(&root(), ROOT_INO, "l", FileKind::Symlink, 0);
    w.ok(&root(), link(l, d, "l"));
    // An unlinked file stays so.
    let keep = Unlink {
        parent: ROOT_INO.0,
        name: "x".into(),
        keep_open: true,
        ..Unlink::default()
    };
    let x = w.file(&root(), ROOT_INO, "x", 0o600);
    w.ok(&root(), Op::Unlink(keep));
    assert_eq!(w.fails(&root(), link(x, d, "x")), Errno::ENOENT);
    assert_eq!(w.attr(f).nlink, 2);
    let many = w.file(&root(), ROOT_INO, "many", 0o600);
    for i in 1..LINKS_MAX {
        w.apply(0, &root(), link(many, d, &format!("n{i}")));
    }
    assert_eq!(w.attr(many).nlink, LINKS_MAX);
    assert_eq!(w.fails(&root(), link(many, d, "more")), Errno::EMLINK);
}
