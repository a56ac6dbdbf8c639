//! Unlink, rmdir, and files that stay open without a name.

use super::*;
use weft_types::PairId;
use weft_wire::proto::{CloseSession, Dropped, Orphan, Release};

fn unlink_open(parent: Ino, name: &str) -> Op {
    Op::Unlink(Unlink {
        parent: parent.0,
        name: name.to_owned().into(),
        keep_open: true,
        ..Unlink::default()
    })
}

#[test]
fn a_name_that_means_another_file_than_the_client_thought_keeps_that() {
    let mut w = World::new();
    for (told, keeps) in [(None, false), (Some(true), false), (Some(false), true)] {
        for replaces in [false, true] {
            let f = w.file(&root(), ROOT_INO, "f", 0o644);
            let victim = told.map(|is_right| if is_right { f.0 } else { 0 });
            let op = if replaces {
                w.file(&root(), ROOT_INO, "g", 0o644);
                Op::Rename(Rename {
                    victim,
                    ..rename(ROOT_INO, "g", ROOT_INO, "f")
                })
            } else {
                Op::Unlink(Unlink {
                    parent: ROOT_INO.0,
                    name: "f".into(),
                    victim,
                    ..Unlink::default()
                })
            };
            let gone = w.ok(&root(), op).victim.unwrap();
            assert_eq!((gone.ino, gone.nlink), (f.0, 0));
            assert_eq!(w.state.inode(f).is_ok(), keeps);
            if keeps {
                w.ok(&root(), release(f));
                assert!(w.state.inode(f).is_err());
            }
            if replaces {
                w.ok(&root(), unlink(ROOT_INO, "f"));
            }
        }
    }
}

fn release(ino: Ino) -> Op {
    Op::Release(Release { ino: ino.0 })
}

#[test]
fn unlink_takes_one_name_and_the_last_takes_the_file() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o600);
    w.ok(&user(1), link(f, ROOT_INO, "g"));
    let reply = w.ok(&user(1), unlink(ROOT_INO, "f"));
    let victim = reply.victim.unwrap();
    assert_eq!((victim.nlink, victim.ctime), (1, w.now()));
    assert_eq!(reply.parent.unwrap().mtime, w.now());
    assert!(w.state.deletions(9).is_empty());
    let reply = w.ok(&user(1), unlink(ROOT_INO, "g"));
    assert_eq!(reply.victim.unwrap().nlink, 0);
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
    let queue = w.state.deletions(9);
    assert_eq!(
        queue.iter().map(|d| d.pair).collect::<Vec<_>>(),
        [PairId(0), PairId(1)]
    );
    assert!(
        queue
            .iter()
            .all(|d| d.object.ino == f && d.object.generation == 1)
    );
    assert_eq!(w.state.deletions(1), queue[..1]);
    assert_eq!(w.state.deletions_after(queue[0].queue_id, 9), queue[1..]);
    w.service(Op::Dropped(Dropped {
        queue_ids: vec![queue[0].queue_id, 77],
    }));
    assert_eq!(w.state.deletions(9), queue[1..]);
    assert!(w.state.write_leases_of(w.session()).is_empty());
}

#[test]
fn what_nobody_could_write_leaves_no_objects() {
    let mut w = World::new();
    let op = Op::Create(create(ROOT_INO, "f", FileKind::Regular, 0o644));
    w.apply(0, &root(), op);
    w.ok(&root(), unlink(ROOT_INO, "f"));
    w.make(&root(), ROOT_INO, "p", FileKind::Fifo, 0o644);
    w.ok(&root(), unlink(ROOT_INO, "p"));
    assert!(w.state.deletions(9).is_empty());
    assert_eq!(w.state.statistics().inodes, 1);
}

#[test]
fn errors_of_unlink_and_rmdir() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o777);
    let f = w.file(&root(), d, "f", 0o777);
    let below = w.mkdir(&root(), d, "below", 0o777);
    assert_eq!(w.fails(&root(), unlink(d, "none")), Errno::ENOENT);
    assert_eq!(w.fails(&root(), rmdir(d, "none")), Errno::ENOENT);
    assert_eq!(w.fails(&root(), unlink(d, "below")), Errno::EISDIR);
    assert_eq!(w.fails(&root(), rmdir(d, "f")), Errno::ENOTDIR);
    assert_eq!(w.fails(&root(), unlink(d, ".")), Errno::EISDIR);
    assert_eq!(w.fails(&root(), rmdir(d, ".")), Errno::EINVAL);
    assert_eq!(w.fails(&root(), rmdir(d, "..")), Errno::ENOTEMPTY);
    assert_eq!(w.fails(&root(), rmdir(ROOT_INO, "d")), Errno::ENOTEMPTY);
    assert_eq!(w.fails(&root(), unlink(f, "x")), Errno::ENOTDIR);
    assert_eq!(
        w.fails(&root(), unlink(d, &"x".repeat(256))),
        Errno::ENAMETOOLONG
    );
    w.chmod(d, 0o555);
    assert_eq!(w.fails(&user(1), unlink(d, "f")), Errno::EACCES);
    // Access before kind.
    assert_eq!(w.fails(&user(1), unlink(d, "below")), Errno::EACCES);
    assert_eq!(w.fails(&user(1), unlink(d, "none")), Errno::ENOENT);
    w.chmod(d, 0o666);
    assert_eq!(w.fails(&user(1), unlink(d, "none")), Errno::EACCES);
    let reply = w.ok(&root(), rmdir(d, "below"));
    assert_eq!(reply.parent.unwrap().nlink, 2);
    assert_eq!(reply.victim.unwrap().nlink, 0);
    assert_eq!(w.state.inode(below), Err(Errno::ESTALE));
}

#[test]
fn sticky_directories_keep_names_of_others() {
    let mut w = World::new();
    let d = w.mkdir(&user(1), ROOT_INO, "d", 0o1777);
    for name in ["a", "b", "c"] {
        w.file(&user(2), d, name, 0o777);
    }
    w.mkdir(&user(2), d, "s", 0o777);
    assert_eq!(w.fails(&user(3), unlink(d, "a")), Errno::EPERM);
    // Sticky before kind.
    assert_eq!(w.fails(&user(3), unlink(d, "s")), Errno::EPERM);
    assert_eq!(w.fails(&user(3), rmdir(d, "a")), Errno::EPERM);
    assert_eq!(w.fails(&user(3), rmdir(d, "s")), Errno::EPERM);
    w.ok(&user(2), unlink(d, "a"));
    w.ok(&user(1), unlink(d, "b"));
    w.ok(&root(), unlink(d, "c"));
    w.ok(&user(1), rmdir(d, "s"));
}

#[test]
fn an_open_file_outlives_its_name() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o600);
    let reply = w.ok(&user(1), unlink_open(ROOT_INO, "f"));
    assert_eq!(reply.victim.unwrap().nlink, 0);
    assert_eq!(w.attr(f).nlink, 0);
    assert_eq!(w.state.holds_of(w.session()), [f]);
    assert_eq!(w.state.write_lease(f), Some(w.session()));
    assert!(w.state.deletions(9).is_empty());
    w.ok(&user(1), release(f));
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
    assert_eq!(w.state.deletions(9).len(), 2);
    // Again does nothing.
    w.ok(&user(1), release(f));
    assert_eq!(w.state.deletions(9).len(), 2);
}

#[test]
fn orphans_are_told_before_the_name_goes() {
    let mut w = World::new();
    let other = w.open_session();
    let f = w.file(&user(1), ROOT_INO, "f", 0o600);
    let orphan = Op::Orphan(Orphan {
        ino: f.0,
        session: other,
    });
    assert_eq!(w.fails(&root(), orphan.clone()), Errno::EPERM);
    w.ok_in(other, &root(), orphan);
    // A file with a name needs no holder: it stays.
    assert_eq!(w.attr(f).nlink, 1);
    w.ok(&user(1), unlink_open(ROOT_INO, "f"));
    w.ok(&user(1), release(f));
    assert_eq!(w.attr(f).nlink, 0);
    let close = CloseSession {
        session: other,
        clean: false,
        ..CloseSession::default()
    };
    w.service(Op::CloseSession(close));
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
    assert_eq!(w.state.statistics().inodes, 1);
}

#[test]
fn a_hold_on_a_file_that_keeps_its_name_is_only_a_hold() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o600);
    w.service(Op::Orphan(Orphan {
        ino: f.0,
        session: w.session,
    }));
    w.ok(&user(1), release(f));
    assert_eq!(w.attr(f).nlink, 1);
    assert!(w.state.holds_of(w.session()).is_empty());
    let unknown = Op::Orphan(Orphan {
        ino: f.0,
        session: 99,
    });
    assert_eq!(w.fails_in(0, &root(), unknown), Errno::ESTALE);
    let gone = Op::Orphan(Orphan {
        ino: 1234,
        session: w.session,
    });
    assert_eq!(w.fails_in(0, &root(), gone), Errno::ESTALE);
    assert_eq!(w.fails_in(0, &root(), release(f)), Errno::EINVAL);
}
