//! Write leases, and what a change touches.

use super::*;
use crate::Touch;
use weft_wire::proto::{CloseSession, DropLease, SettledSize, WriteLease};

fn take(ino: Ino) -> Op {
    Op::WriteLease(WriteLease {
        ino: ino.0,
        ..WriteLease::default()
    })
}

fn touches(w: &World, session: u64, cred: &Cred, op: Op) -> Vec<(u64, bool)> {
    let op = Some(proto::Op { op: Some(op) });
    let entry = Entry {
        session,
        cred: Some(cred.clone()),
        op,
        ..Entry::default()
    };
    let touched = w.state.touches(&entry);
    touched
        .iter()
        .map(|Touch { ino, unlinking, .. }| (ino.0, *unlinking))
        .collect()
}

#[test]
fn one_writer_at_a_time() {
    let mut w = World::new();
    let other = w.open_session();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    w.ok(&user(1), take(f));
    assert_eq!(w.fails_in(other, &user(1), take(f)), Errno::EBUSY);
    // Giving back what one does not have is no error, and takes it from nobody.
    w.ok_in(other, &user(1), Op::DropLease(DropLease { ino: f.0 }));
    assert_eq!(w.state.write_lease(f), Some(w.session()));
    w.drop_lease(f);
    assert_eq!(w.state.write_lease(f), None);
    let reply = w.ok_in(other, &user(1), take(f));
    assert!(reply.layout.is_some());
    assert_eq!(w.state.write_leases_of(SessionId(other)), [f]);
    assert_eq!(w.fails_in(0, &root(), take(f)), Errno::EINVAL);
    assert_eq!(w.fails(&root(), take(ROOT_INO)), Errno::EISDIR);
    let p = w.make(&root(), ROOT_INO, "p", FileKind::Fifo, 0o644);
    assert_eq!(w.fails(&root(), take(p)), Errno::EINVAL);
    assert_eq!(w.fails(&root(), take(Ino(99))), Errno::ESTALE);
    w.service(Op::CloseSession(CloseSession {
        session: other,
        clean: false,
        ..CloseSession::default()
    }));
    assert_eq!(w.state.write_lease(f), None);
    assert!(w.state.write_leases_of(SessionId(other)).is_empty());
}

fn share(ino: Ino) -> Op {
    Op::WriteLease(WriteLease {
        ino: ino.0,
        shared: true,
        ..WriteLease::default()
    })
}

fn owes(ino: Ino, size: u64, more: u64) -> Op {
    Op::Setattr(Setattr {
        owed: true,
        size: Some(size),
        allocated: Some(1),
        allocated_more: Some(more),
        ..setattr(ino)
    })
}

#[test]
fn what_was_told_beside_others_is_joined_by_the_only_writer_too() {
    let mut w = World::new();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    w.ok(&user(1), take(f));
    w.ok(&user(1), owes(f, 9000, 4096));
    // Sent when it knew nothing of what another had written; on its way while it became the only one.
    let late = Setattr {
        owed: true,
        size: Some(5000),
        beside_others: true,
        ..setattr(f)
    };
    w.ok(&user(1), Op::Setattr(late));
    assert_eq!(w.attr(f).size, 9000);
    let as_the_only_one = Setattr {
        beside_others: false,
        ..late
    };
    w.ok(&user(1), Op::Setattr(as_the_only_one));
    assert_eq!(w.attr(f).size, 5000);
}

#[test]
fn several_write_beside_one_another() {
    let mut w = World::new();
    let other = w.open_session();
    let f = w.file(&user(1), ROOT_INO, "f", 0o644);
    // Not beside one that writes alone; but that one may begin to share.
    w.ok(&user(1), take(f));
    assert_eq!(w.fails_in(other, &user(1), share(f)), Errno::EBUSY);
    w.ok(&user(1), share(f));
    assert_eq!(w.state.write_lease(f), None);
    w.ok_in(other, &user(1), share(f));
    assert!(w.state.shares(f, w.session()) && w.state.shares(f, SessionId(other)));
    assert_eq!(w.state.write_leases_of(SessionId(other)), [f]);
    // Alone only when nobody else is there, and nothing is cut before.
    assert_eq!(w.fails(&user(1), take(f)), Errno::EBUSY);
    let cut = Setattr {
        size: Some(0),
        ..setattr(f)
    };
    assert_eq!(w.fails(&user(1), Op::Setattr(cut)), Errno::EBUSY);
    // What they tell is joined.
    w.ok(&user(1), owes(f, 9000, 4096));
    w.ok_in(other, &user(1), owes(f, 5000, 4096));
    let attr = w.attr(f);
    assert_eq!((attr.size, attr.allocated), (9000, 8192));
    w.ok_in(other, &user(1), owes(f, 8000, 1 << 20));
    assert_eq!(
        w.attr(f).allocated,
        12288,
        "no more than the size has room for"
    );
    // One of them has vanished: what was found is no less than what was told.
    w.service(Op::SettledSize(SettledSize {
        ino: f.0,
        size: 4000,
        session: other,
    }));
    assert!(!w.state.shares(f, SessionId(other)) && w.state.shares(f, w.session()));
    assert_eq!(w.attr(f).size, 9000);
    assert_eq!(w.fails_in(other, &user(1), owes(f, 1, 0)), Errno::ESTALE);
    w.ok(&user(1), take(f));
    assert_eq!(w.state.write_lease(f), Some(w.session()));
    assert!(!w.state.is_shared(f));
    // Giving it back, the end of a session and of the file leave nothing behind.
    w.ok(&user(1), share(f));
    w.ok_in(other, &user(1), share(f));
    w.service(Op::CloseSession(CloseSession {
        session: other,
        clean: false,
        ..CloseSession::default()
    }));
    w.ok(&user(1), Op::DropLease(DropLease { ino: f.0 }));
    assert!(!w.state.is_shared(f) && w.state.writers() == 0);
    w.ok(&user(1), share(f));
    w.ok(&user(1), unlink(ROOT_INO, "f"));
    assert!(w.state.write_leases_of(w.session()).is_empty());
}

#[test]
fn a_change_touches_what_it_changes() {
    let mut w = World::new();
    let s = w.session;
    let d = w.mkdir(&root(), ROOT_INO, "d", 0o755);
    let f = w.file(&root(), d, "f", 0o644);
    let g = w.file(&root(), d, "g", 0o644);
    w.ok(&root(), link(g, d, "g2"));
    let (r, d_, f_, g_) = (ROOT_INO.0, d.0, f.0, g.0);
    let sorted = |mut list: Vec<(u64, bool)>| {
        list.sort_unstable();
        list
    };
    let new = Op::Create(create(d, "n", FileKind::Regular, 0o644));
    assert_eq!(touches(&w, s, &root(), new), [(d_, false)]);
    assert_eq!(
        touches(&w, s, &root(), unlink(d, "f")),
        sorted(vec![(d_, false), (f_, true)])
    );
    assert_eq!(
        touches(&w, s, &root(), unlink(d, "g")),
        sorted(vec![(d_, false), (g_, false)])
    );
    let mv = Op::Rename(rename(d, "g", ROOT_INO, "x"));
    let all = sorted(vec![(r, false), (d_, false), (g_, false)]);
    assert_eq!(touches(&w, s, &root(), mv), all);
    let over = Op::Rename(rename(d, "g", d, "f"));
    let all = sorted(vec![(d_, false), (f_, true), (g_, false)]);
    assert_eq!(touches(&w, s, &root(), over), all);
    let swap = Op::Rename(Rename {
        exchange: true,
        ..rename(d, "g", d, "f")
    });
    let all = sorted(vec![(d_, false), (f_, false), (g_, false)]);
    assert_eq!(touches(&w, s, &root(), swap), all);
    assert_eq!(
        touches(&w, s, &root(), Op::Rename(rename(d, "g", d, "g2"))),
        []
    );
    assert_eq!(
        touches(&w, s, &root(), link(f, d, "h")),
        sorted(vec![(d_, false), (f_, false)])
    );
    assert_eq!(
        touches(&w, s, &root(), Op::Setattr(setattr(f))),
        [(f_, false)]
    );
    assert_eq!(touches(&w, s, &root(), take(f)), [(f_, false)]);
    w.ok(&root(), Op::DropLease(DropLease { ino: f_ }));
    let read = Setattr {
        owed: true,
        atime: Some(time(1)),
        ..setattr(f)
    };
    assert_eq!(touches(&w, s, &root(), Op::Setattr(read)), []);
    // What will be refused touches nothing.
    assert_eq!(touches(&w, s, &user(1), unlink(d, "f")), []);
    assert_eq!(touches(&w, s, &root(), rmdir(ROOT_INO, "d")), []);
    w.mkdir(&root(), d, "e", 0o755);
    let e = w.find(d, "e").unwrap().0;
    assert_eq!(
        touches(&w, s, &root(), rmdir(d, "e")),
        sorted(vec![(d_, false), (e, true)])
    );
}

#[test]
fn another_sessions_write_lease_is_touched_though_the_change_would_be_refused_for_it() {
    let mut w = World::new();
    let other = w.open_session();
    let f = w.file(&root(), ROOT_INO, "f", 0o644);
    let cut = Op::Setattr(Setattr {
        size: Some(0),
        ..setattr(f)
    });
    assert_eq!(touches(&w, other, &root(), cut), [(f.0, false)]);
    assert_eq!(touches(&w, other, &root(), take(f)), [(f.0, false)]);
    let open = create(ROOT_INO, "f", FileKind::Regular, 0);
    let open = Create {
        exclusive: false,
        ..open
    };
    // Only the holder knows the size that the reply is to tell.
    assert_eq!(
        touches(&w, other, &root(), Op::Create(open.clone())),
        [(f.0, false)]
    );
    assert_eq!(
        touches(&w, w.session, &root(), Op::Create(open.clone())),
        []
    );
    let cut = Create {
        truncate: true,
        ..open
    };
    assert_eq!(
        touches(&w, w.session, &root(), Op::Create(cut)),
        [(f.0, false)]
    );
}
