use super::*;
use crate::REPLIES_MAX;
use weft_types::Operation;

pub(super) fn entry(w: &World, operation: u64, acknowledged_below: u64, op: Op) -> Entry {
    Entry {
        session: w.session,
        operation,
        acknowledged_below,
        cred: Some(root()),
        time: Some(time(operation as i64)),
        op: Some(proto::Op { op: Some(op) }),
        ..Entry::default()
    }
}

fn mkdir(name: &str) -> Op {
    Op::Create(create(ROOT_INO, name, FileKind::Directory, 0o755))
}

#[test]
fn a_repeated_change_is_answered_and_not_done_again() {
    let mut w = World::new();
    let first = entry(&w, 1, 0, mkdir("d"));
    let reply = w.state.apply(&first);
    assert_eq!(reply.failure_errno, 0);
    assert_eq!(
        w.state.answered(w.session(), Operation(1)),
        Some(reply.clone())
    );
    assert_eq!(w.state.answered(w.session(), Operation(2)), None);
    assert_eq!(w.state.answered(SessionId(99), Operation(1)), None);
    w.state.apply(&entry(&w, 2, 0, rmdir(ROOT_INO, "d")));
    let before = w.state.clone();
    assert_eq!(w.state.apply(&first), reply);
    assert_eq!(w.state, before);
    assert_eq!(w.find(ROOT_INO, "d"), None);
}

#[test]
fn refusals_are_kept_too() {
    let mut w = World::new();
    let remove = entry(&w, 7, 0, rmdir(ROOT_INO, "d"));
    let refused = w.state.apply(&remove);
    assert_eq!(errno(&refused), Errno::ENOENT);
    w.state.apply(&entry(&w, 8, 0, mkdir("d")));
    // The copy arrives late: it must not succeed after the client has heard that it failed.
    assert_eq!(w.state.apply(&remove), refused);
    assert!(w.find(ROOT_INO, "d").is_some());
}

#[test]
fn acknowledged_replies_are_forgotten_and_their_changes_never_done_again() {
    let mut w = World::new();
    for i in 1..=4 {
        w.state.apply(&entry(&w, i, 0, mkdir(&format!("d{i}"))));
    }
    w.state.apply(&entry(&w, 5, 4, mkdir("d5")));
    let session = w.state.sessions().next().unwrap();
    assert_eq!(session.replies, 2);
    for i in 1..4 {
        let answer = w.state.answered(w.session(), Operation(i)).unwrap();
        assert_eq!(errno(&answer), Errno::ESTALE);
        let late = entry(&w, i, 0, mkdir("late"));
        assert_eq!(errno(&w.state.apply(&late)), Errno::ESTALE);
    }
    // A lower bound that comes later brings nothing back.
    w.state.apply(&entry(&w, 6, 2, mkdir("d6")));
    assert!(w.find(ROOT_INO, "late").is_none());
    // Said of itself, it is nonsense and refused.
    assert_eq!(
        errno(&w.state.apply(&entry(&w, 9, 10, mkdir("d9")))),
        Errno::ESTALE
    );
}

#[test]
fn operations_may_come_in_any_order() {
    let mut w = World::new();
    for i in [3, 1, 2] {
        let reply = w.state.apply(&entry(&w, i, 1, mkdir(&format!("d{i}"))));
        assert_eq!(reply.failure_errno, 0);
    }
}

#[test]
fn unknown_sessions_are_refused() {
    let mut w = World::new();
    let stranger = Entry {
        session: 77,
        ..entry(&w, 1, 0, mkdir("d"))
    };
    assert_eq!(errno(&w.state.apply(&stranger)), Errno::ESTALE);
    assert_eq!(w.fails_in(77, &root(), mkdir("d")), Errno::ESTALE);
}

#[test]
fn a_session_with_too_much_outstanding_waits() {
    let mut w = World::new();
    let read = Op::Setattr(Setattr {
        owed: true,
        atime: Some(time(1)),
        ..setattr(ROOT_INO)
    });
    for i in 1..=REPLIES_MAX as u64 {
        assert_eq!(
            w.state.apply(&entry(&w, i, 1, read.clone())).failure_errno,
            0
        );
    }
    let next = REPLIES_MAX as u64 + 1;
    let before = w.state.clone();
    assert_eq!(
        errno(&w.state.apply(&entry(&w, next, 1, mkdir("d")))),
        Errno::ENOBUFS
    );
    assert_eq!(w.state, before);
    assert_eq!(
        w.state.apply(&entry(&w, next, 2, mkdir("d"))).failure_errno,
        0
    );
}
