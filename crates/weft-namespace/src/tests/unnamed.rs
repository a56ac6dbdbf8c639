//! Files that are made without a name, and the mark that a rename leaves behind.

use super::*;
use weft_wire::proto::{CloseSession, Release};

fn unnamed(parent: Ino, mode: u32) -> Op {
    Op::Create(Create {
        unnamed: true,
        ..create(parent, "7", FileKind::Regular, mode)
    })
}

fn first_name(ino: Ino, parent: Ino, name: &str) -> Op {
    Op::Link(proto::Link {
        ino: ino.0,
        parent: parent.0,
        name: name.to_owned().into(),
        unnamed: true,
    })
}

fn made(w: &mut World) -> Ino {
    let reply = w.ok(&user(1), unnamed(ROOT_INO, 0o640));
    assert!(reply.created && reply.layout.is_some());
    Ino(reply.attr.unwrap().ino)
}

#[test]
fn a_file_without_a_name_is_its_session_s_and_goes_with_it() {
    let mut w = World::new();
    let before = w.attr(ROOT_INO);
    let f = made(&mut w);
    let attr = w.attr(f);
    assert_eq!((attr.nlink, attr.uid, attr.mode), (0, 1, 0o640));
    assert_eq!(w.attr(ROOT_INO), before);
    assert_eq!(w.find(ROOT_INO, "7"), None);
    assert_eq!(w.state.holds_of(w.session()), [f]);
    assert_eq!(w.state.write_lease(f), Some(w.session()));
    w.ok(&user(1), Op::Release(Release { ino: f.0 }));
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
    let f = made(&mut w);
    let close = CloseSession {
        session: w.session,
        ..CloseSession::default()
    };
    w.service(Op::CloseSession(close));
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
}

#[test]
fn its_first_name_makes_it_a_file_like_others() {
    let mut w = World::new();
    let f = made(&mut w);
    // Not by who does not know that it never had one.
    assert_eq!(w.fails(&user(1), link(f, ROOT_INO, "f")), Errno::ENOENT);
    w.ok(&user(1), first_name(f, ROOT_INO, "f"));
    assert_eq!((w.attr(f).nlink, w.find(ROOT_INO, "f")), (1, Some(f)));
    w.ok(&user(1), Op::Release(Release { ino: f.0 }));
    assert_eq!(w.attr(f).nlink, 1);
    w.ok(&user(1), unlink(ROOT_INO, "f"));
    assert_eq!(w.state.inode(f), Err(Errno::ESTALE));
    assert_eq!(
        w.fails(&user(1), first_name(f, ROOT_INO, "g")),
        Errno::ESTALE
    );
}

#[test]
fn who_may_make_no_name_makes_no_file_without_one() {
    let mut w = World::new();
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o755);
    let f = w.file(&root(), d, "f", 0o644);
    assert_eq!(w.fails(&user(1), unnamed(d, 0o600)), Errno::EACCES);
    assert_eq!(w.fails(&root(), unnamed(f, 0o600)), Errno::ENOTDIR);
    assert_eq!(w.fails_in(0, &root(), unnamed(d, 0o600)), Errno::EINVAL);
    let fifo = Create {
        unnamed: true,
        ..create(d, "7", FileKind::Fifo, 0o600)
    };
    assert_eq!(w.fails(&root(), Op::Create(fifo)), Errno::EINVAL);
}

#[test]
fn a_rename_leaves_the_mark_of_a_removed_file() {
    let mut w = World::new();
    for replaces in [false, true] {
        let f = w.file(&user(1), ROOT_INO, "f", 0o600);
        if replaces {
            w.file(&user(1), ROOT_INO, "g", 0o600);
        }
        let marking = Rename {
            whiteout: true,
            ..rename(ROOT_INO, "f", ROOT_INO, "g")
        };
        w.ok(&user(1), Op::Rename(marking.clone()));
        let mark = w.find(ROOT_INO, "f").unwrap();
        let attr = w.attr(mark);
        assert_eq!(attr.kind(), FileKind::CharDevice);
        assert_eq!((attr.rdev, attr.mode, attr.nlink), (0, 0, 1));
        assert_eq!(w.find(ROOT_INO, "g"), Some(f));
        let both = Rename {
            exchange: true,
            ..marking
        };
        assert_eq!(w.fails(&user(1), Op::Rename(both)), Errno::EINVAL);
        for name in ["f", "g"] {
            w.ok(&user(1), unlink(ROOT_INO, name));
        }
    }
    assert_eq!(w.state.statistics().inodes, 1);
}
