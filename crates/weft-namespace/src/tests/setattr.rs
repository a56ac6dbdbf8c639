use super::*;

fn chmod(ino: Ino, mode: u32) -> Op {
    Op::Setattr(Setattr {
        mode: Some(mode),
        ..setattr(ino)
    })
}

fn chown(ino: Ino, uid: Option<u32>, gid: Option<u32>) -> Op {
    Op::Setattr(Setattr {
        uid,
        gid,
        ..setattr(ino)
    })
}

#[test]
fn chmod_is_for_the_owner() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let reply = w.ok(&user(1), chmod(f, 0o104755));
    let attr = reply.attr.unwrap();
    assert_eq!((attr.mode, attr.ctime), (0o4755, w.now()));
    assert_ne!(attr.mtime, w.now());
    assert_eq!(w.fails(&user(2), chmod(f, 0o777)), Errno::EPERM);
    // As it is already: still not his to set.
    assert_eq!(w.fails(&user(2), chmod(f, 0o4755)), Errno::EPERM);
    w.ok(&root(), chmod(f, 0o1600));
    assert_eq!(w.attr(f).mode, 0o1600);
    let l = w.make(&user(1), ROOT_INO, "l", FileKind::Symlink, 0);
    assert_eq!(w.fails(&user(1), chmod(l, 0o600)), Errno::EOPNOTSUPP);
    assert_eq!(w.fails(&root(), chmod(Ino(99), 0o600)), Errno::ESTALE);
}

#[test]
fn an_owner_outside_the_group_cannot_set_group_id() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o755);
    for ino in [f, d] {
        w.ok(&root(), chown(ino, None, Some(50)));
        w.ok(&user(1), chmod(ino, 0o2755));
        assert_eq!(w.attr(ino).mode, 0o755);
        let member = Cred {
            groups: vec![50],
            ..user(1)
        };
        w.ok(&member, chmod(ino, 0o2755));
        assert_eq!(w.attr(ino).mode, 0o2755);
        w.ok(&root(), chmod(ino, 0o6755));
        assert_eq!(w.attr(ino).mode, 0o6755);
    }
}

#[test]
fn chown_is_for_root_and_chgrp_for_members() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let member = Cred {
        groups: vec![50, 60],
        ..user(1)
    };
    assert_eq!(w.fails(&user(1), chown(f, Some(2), None)), Errno::EPERM);
    assert_eq!(w.fails(&user(2), chown(f, Some(2), None)), Errno::EPERM);
    assert_eq!(w.fails(&user(2), chown(f, Some(1), None)), Errno::EPERM);
    assert_eq!(w.fails(&user(1), chown(f, None, Some(50))), Errno::EPERM);
    assert_eq!(w.fails(&member, chown(f, Some(2), Some(50))), Errno::EPERM);
    w.ok(&user(1), chown(f, Some(1), Some(1)));
    w.ok(&member, chown(f, Some(1), Some(50)));
    assert_eq!(w.attr(f).gid, 50);
    // His own group is allowed even without being in it; the group he is not in is not.
    w.ok(&user(1), chown(f, None, Some(50)));
    let other_member = Cred {
        groups: vec![60],
        ..user(2)
    };
    assert_eq!(
        w.fails(&other_member, chown(f, None, Some(60))),
        Errno::EPERM
    );
    w.ok(&root(), chown(f, Some(7), Some(8)));
    assert_eq!((w.attr(f).uid, w.attr(f).gid), (7, 8));
    assert_eq!(
        w.fails(&root(), chown(f, Some(u32::MAX), None)),
        Errno::EINVAL
    );
    assert_eq!(
        w.fails(&root(), chown(f, None, Some(u32::MAX))),
        Errno::EINVAL
    );
}

#[test]
fn a_change_of_owner_clears_set_id() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let mut after = |cred: &Cred, mode: u32, gid: u32| {
        w.ok(&root(), chmod(f, mode));
        w.ok(cred, chown(f, None, Some(gid)));
        w.attr(f).mode
    };
    let member = Cred {
        groups: vec![50],
        ..user(1)
    };
    assert_eq!(after(&member, 0o6755, 1), 0o755);
    assert_eq!(after(&member, 0o4644, 50), 0o644);
    // Without group execution it is no set-group-id; members keep it, others do not.
    assert_eq!(after(&member, 0o2745, 50), 0o2745);
    assert_eq!(after(&user(1), 0o2745, 50), 0o745);
    assert_eq!(after(&root(), 0o6755, 50), 0o755);
    assert_eq!(after(&root(), 0o6745, 50), 0o2745);
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o755);
    w.ok(&root(), chmod(d, 0o6755));
    w.ok(&root(), chown(d, Some(3), Some(3)));
    assert_eq!(w.attr(d).mode, 0o6755);
    // Mode and owner at once: what was asked for, without set-id.
    let both = Setattr {
        mode: Some(0o6711),
        uid: Some(9),
        ..setattr(f)
    };
    w.ok(&root(), Op::Setattr(both));
    assert_eq!((w.attr(f).mode, w.attr(f).uid), (0o711, 9));
}

#[test]
fn nothing_asked_for_still_changes_ctime() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o6755);
    let reply = w.ok(&user(9), Op::Setattr(setattr(f)));
    assert_eq!(reply.attr.unwrap().ctime, w.now());
    assert_eq!(w.attr(f).mode, 0o6755);
}

#[test]
fn times_now_need_writing_and_times_told_ownership() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o646);
    let now = Setattr {
        atime_now: true,
        mtime_now: true,
        ..setattr(f)
    };
    let told = Setattr {
        atime: Some(time(5)),
        mtime: Some(time(-6)),
        ..setattr(f)
    };
    let one_now = Setattr {
        mtime_now: true,
        ..setattr(f)
    };
    let mixed = Setattr {
        mtime_now: true,
        atime: Some(time(5)),
        ..setattr(f)
    };
    let member = Cred {
        groups: vec![1],
        ..user(2)
    };

    w.ok(&user(3), Op::Setattr(now));
    assert_eq!([w.attr(f).atime, w.attr(f).mtime], [w.now(); 2]);
    assert_eq!(w.fails(&member, Op::Setattr(now)), Errno::EACCES);
    for op in [&told, &one_now, &mixed] {
        assert_eq!(w.fails(&user(3), Op::Setattr(*op)), Errno::EPERM);
        assert_eq!(w.fails(&member, Op::Setattr(*op)), Errno::EPERM);
    }
    w.chmod(f, 0);
    w.ok(&user(1), Op::Setattr(now));
    let attr = w.ok(&user(1), Op::Setattr(told)).attr.unwrap();
    assert_eq!((attr.atime, attr.mtime), (Some(time(5)), Some(time(-6))));
    assert_eq!(attr.ctime, w.now());
    w.ok(&user(1), Op::Setattr(mixed));
    assert_eq!((w.attr(f).atime, w.attr(f).mtime), (Some(time(5)), w.now()));
    let bad = Setattr {
        atime: Some(Time {
            seconds: 0,
            nanos: 1_000_000_000,
        }),
        ..setattr(f)
    };
    assert_eq!(w.fails(&root(), Op::Setattr(bad)), Errno::EINVAL);
}

#[test]
fn a_reader_may_tell_when_he_read() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    let before = w.attr(f);
    let read = |seconds| {
        Op::Setattr(Setattr {
            owed: true,
            atime: Some(time(seconds)),
            ..setattr(f)
        })
    };
    let other = w.open_session();
    w.ok_in(other, &user(9), read(2_000_000));
    let attr = w.attr(f);
    assert_eq!(attr.atime, Some(time(2_000_000)));
    assert_eq!((attr.ctime, attr.change), (before.ctime, before.change));
    w.ok_in(other, &user(9), read(1_500_000));
    assert_eq!(w.attr(f).atime, Some(time(2_000_000)));
}

#[test]
fn who_writes_a_file_may_take_its_set_id_bits() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o6777);
    let by_handle = |ino: Ino, mode| {
        let op = Setattr {
            by_handle: true,
            mode: Some(mode),
            ..setattr(ino)
        };
        Op::Setattr(op)
    };
    // By name it is a chmod like any other.
    assert_eq!(w.fails(&user(2), chmod(f, 0o777)), Errno::EPERM);
    assert_eq!(w.fails(&user(2), by_handle(f, 0o4776)), Errno::EPERM);
    assert_eq!(w.fails(&user(2), by_handle(f, 0o6777)), Errno::EPERM);
    w.ok(&user(2), by_handle(f, 0o777));
    assert_eq!(w.attr(f).mode, 0o777);
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o777);
    w.chmod(d, 0o2777);
    assert_eq!(w.fails(&user(2), by_handle(d, 0o777)), Errno::EPERM);
}

#[test]
fn the_change_counter_grows_with_each_change() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o755);
    let mut last = w.attr(d).change;
    let ops = [
        chmod(d, 0o700),
        Op::Create(create(d, "f", FileKind::Regular, 0o644)),
        Op::Rename(rename(d, "f", d, "g")),
        unlink(d, "g"),
    ];
    for op in ops {
        w.ok(&root(), op);
        assert!(w.attr(d).change > last);
        last = w.attr(d).change;
    }
}
