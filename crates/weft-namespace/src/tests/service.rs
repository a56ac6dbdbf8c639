//! What the service does itself: reigns, pairs, sessions.

use super::*;
use weft_types::{Epoch, Member, PairId};
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{
    CloseSession, Dropped, NewReign, NoteLife, PairState, SetPairState, SettledSize, SkipNumbers,
};

fn set_state(pair: u32, epoch: u64, mode: Mode, serving: u32) -> Op {
    let state = PairState {
        pair,
        epoch,
        mode: mode as i32,
        serving,
        store_1: 7,
        ..PairState::default()
    };
    Op::SetPairState(SetPairState { state: Some(state) })
}

#[test]
fn pairs_begin_with_both_and_change_by_higher_epochs() {
    let mut w = World::new();
    let state = w.state.pair_state(PairId(1)).unwrap();
    assert_eq!((state.epoch, state.mode()), (1, Mode::Both));
    assert_eq!(w.state.pairs().collect::<Vec<_>>(), [PairId(0), PairId(1)]);
    let again = Op::AddPair(AddPair { pair: 1 });
    assert_eq!(w.fails_in(0, &root(), again), Errno::EEXIST);
    w.service(set_state(1, 3, Mode::Only, 1));
    assert_eq!(w.state.pair_states().nth(1).unwrap().epoch, 3);
    for (op, errno) in [
        (set_state(1, 3, Mode::Both, 0), Errno::ESTALE),
        (set_state(1, 2, Mode::Both, 0), Errno::ESTALE),
        (set_state(9, 9, Mode::Both, 0), Errno::ENOENT),
        (set_state(1, 9, Mode::Only, 2), Errno::EINVAL),
        (set_state(1, 9, Mode::Unspecified, 0), Errno::EINVAL),
        (
            Op::SetPairState(SetPairState { state: None }),
            Errno::EINVAL,
        ),
    ] {
        assert_eq!(w.fails_in(0, &root(), op), errno);
    }
}

#[test]
fn reigns_only_grow() {
    let mut w = World::new();
    let reign = |epoch| Op::NewReign(NewReign { epoch });
    w.service(reign(4));
    assert_eq!(w.state.reign(), Epoch(4));
    assert_eq!(w.fails_in(0, &root(), reign(4)), Errno::ESTALE);
    w.service(reign(9));
}

#[test]
fn session_numbers_are_never_used_again() {
    let mut w = World::new();
    let first = w.open_session();
    w.service(Op::CloseSession(CloseSession {
        session: first,
        clean: true,
        ..CloseSession::default()
    }));
    assert!(!w.state.session_exists(SessionId(first)));
    let second = w.open_session();
    assert!(second > first);
    assert_eq!(w.state.next_session(), SessionId(second + 1));
    let close = Op::CloseSession(CloseSession {
        session: first,
        clean: true,
        ..CloseSession::default()
    });
    assert_eq!(w.fails_in(0, &root(), close), Errno::ESTALE);
    // A session ends itself, not another.
    let other = Op::CloseSession(CloseSession {
        session: second,
        clean: true,
        ..CloseSession::default()
    });
    assert_eq!(w.fails(&root(), other.clone()), Errno::EPERM);
    w.ok_in(second, &root(), other);
    let name = "ä".repeat(300);
    let long = w
        .service(Op::OpenSession(OpenSession {
            name,
            ..OpenSession::default()
        }))
        .session;
    let known = w.state.sessions().find(|s| s.session.0 == long).unwrap();
    assert_eq!(known.name.len(), 254);
}

#[test]
fn numbers_that_may_have_been_given_in_what_is_lost_are_not_given_again() {
    let mut w = World::new();
    let cred = root();
    let before = w.file(&cred, ROOT_INO, "before", 0o600);
    let (session, trim) = (w.state.next_session(), w.state.next_trim);
    let empty = |w: &mut World, ino| {
        let cut = Setattr {
            size: Some(0),
            ..setattr(ino)
        };
        w.ok(&cred, Op::Setattr(cut));
        w.state.file(ino).unwrap().1.generation
    };
    let first = empty(&mut w, before);
    w.service(Op::SkipNumbers(SkipNumbers { forced: 3 }));
    let lost = 1 << 24;
    let after = w.file(&cred, ROOT_INO, "after", 0o600);
    assert!(after.0 > before.0 + lost, "{after} after {before}");
    assert!(empty(&mut w, before) > first + (1 << 16));
    // And goes on from there.
    let next = w.file(&cred, ROOT_INO, "next", 0o600);
    assert_eq!(next.0, after.0 + 1);
    assert!(w.state.next_session().0 > session.0 + lost - 1);
    assert!(w.state.next_trim > trim + lost - 1);

    // What the floors are is known to whoever begins with an image, and once is enough for a reign.
    let again = super::images::read_again(&w.state);
    assert_eq!(again.floors, w.state.floors);
    assert_eq!(w.state.skipped_for(), 3);
    for forced in [2, 3] {
        let skip = Op::SkipNumbers(SkipNumbers { forced });
        assert_eq!(w.fails_in(0, &cred, skip), Errno::EALREADY);
    }
    // Who served last is uncertain until the pair has another state.
    assert!(w.state.pair_states().len() > 0 && w.state.pair_states().all(|pair| pair.uncertain));
    w.service(Op::SkipNumbers(SkipNumbers { forced: 0 }));
    let later = w.file(&cred, ROOT_INO, "later", 0o600);
    assert!(later.0 > next.0 + lost);
}

#[test]
fn how_far_a_store_has_come_is_known() {
    let mut w = World::new();
    let note = |member, store, life| {
        Op::NoteLife(NoteLife {
            pair: 1,
            member,
            store,
            life,
        })
    };
    let known = |state: &State| {
        let known = state.life(PairId(1), Member::One);
        known.map(|known| (known.store.get(), known.life))
    };
    assert_eq!(known(&w.state), None);
    for (store, life) in [(7, 1 << 32), (7, 2 << 32 | 5), (9, 0)] {
        w.service(note(1, store, life));
        assert_eq!(known(&w.state), Some((store, life)));
        assert_eq!(known(&super::images::read_again(&w.state)), known(&w.state));
    }
    assert_eq!(w.fails_in(0, &root(), note(2, 7, 1)), Errno::EINVAL);
    assert_eq!(w.fails_in(0, &root(), note(1, 0, 1)), Errno::EINVAL);
}

#[test]
fn clients_cannot_do_what_is_the_services() {
    let mut w = World::new();
    for op in [
        Op::OpenSession(OpenSession {
            name: String::new(),
            ..OpenSession::default()
        }),
        Op::AddPair(AddPair { pair: 7 }),
        set_state(0, 9, Mode::Both, 0),
        Op::Dropped(Dropped { queue_ids: vec![1] }),
        Op::SettledSize(SettledSize {
            ino: 1,
            size: 1,
            ..SettledSize::default()
        }),
        Op::NewReign(NewReign { epoch: 99 }),
    ] {
        assert_eq!(w.fails(&root(), op), Errno::EPERM);
    }
}

#[test]
fn entries_without_content_are_refused() {
    let mut state = State::new();
    let before = state.clone();
    for op in [None, Some(proto::Op { op: None })] {
        let entry = Entry {
            op,
            ..Entry::default()
        };
        assert_eq!(errno(&state.apply(&entry)), Errno::EINVAL);
        assert!(state.touches(&entry).is_empty());
    }
    assert_eq!(state, before);
}

/// A client without credentials is nobody; the service is root.
#[test]
fn credentials_default_to_the_least() {
    let mut w = World::new();
    w.chmod(ROOT_INO, 0o755);
    let op = Some(proto::Op {
        op: Some(Op::Create(create(ROOT_INO, "d", FileKind::Directory, 0))),
    });
    let entry = Entry {
        session: w.session,
        op,
        ..Entry::default()
    };
    assert_eq!(errno(&w.state.apply(&entry)), Errno::EACCES);
    assert_eq!(
        w.state
            .apply(&Entry {
                session: 0,
                ..entry
            })
            .failure_errno,
        0
    );
}
