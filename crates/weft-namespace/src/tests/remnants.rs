use super::*;
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::{CloseSession, DropKept, FileLock, Orphan, Release, SetLock, SetOpen};

/// NFS clients.
const ONE: u64 = 71;
const TWO: u64 = 72;
/// A session of somebody else's.
const OTHER: SessionId = SessionId(9);

struct Gateways {
    w: World,
    first: u64,
    second: u64,
    f: Ino,
}

fn lock(kind: Kind, behalf: u64, (start, last): (u64, u64)) -> FileLock {
    FileLock {
        kind: kind as i32,
        flock: false,
        owner: 5,
        start,
        last,
        pid: 0,
        behalf,
    }
}

impl Gateways {
    fn new() -> Gateways {
        let mut w = World::new();
        let f = w.file(&root(), ROOT_INO, "f", 0o644);
        let [first, second] = [0, 1].map(|_| {
            let open = OpenSession {
                name: "gateway".into(),
                keep_ms: 45_000,
                term_ms: 1_500,
                ..OpenSession::default()
            };
            w.service(Op::OpenSession(open)).session
        });
        Gateways {
            w,
            first,
            second,
            f,
        }
    }

    fn apply(&mut self, session: u64, op: Op) -> OpReply {
        self.w.apply(session, &root(), op)
    }

    fn lock(&mut self, session: u64, lock: FileLock, reclaim: bool) -> u32 {
        let op = Op::SetLock(SetLock {
            ino: self.f.0,
            lock: Some(lock),
            wait: false,
            reclaim,
        });
        self.apply(session, op).failure_errno
    }

    fn open(&mut self, session: u64, open: SetOpen) -> u32 {
        let open = SetOpen {
            ino: self.f.0,
            ..open
        };
        self.apply(session, Op::SetOpen(open)).failure_errno
    }

    fn end(&mut self, session: u64, gone: &[u64]) {
        self.w.service(Op::CloseSession(CloseSession {
            session,
            clean: false,
            keep: true,
            gone: gone.to_vec(),
        }));
        // It is as it would be after a restart.
        let mut records = Vec::new();
        self.w
            .state
            .save(&mut |record| records.push(record.to_vec()));
        assert_eq!(State::load(records).unwrap(), self.w.state);
    }

    fn is_remnant(&self, session: u64) -> bool {
        self.w.state.is_remnant(SessionId(session))
    }
}

const EAGAIN: u32 = libc_errno(Errno::EAGAIN);
const ENOENT: u32 = libc_errno(Errno::ENOENT);

const fn libc_errno(errno: Errno) -> u32 {
    errno.0 as u32
}

fn opened(owner: u64, behalf: u64, (access, deny, kept): (u32, u32, u32)) -> SetOpen {
    SetOpen {
        ino: 0,
        owner,
        behalf,
        access,
        deny,
        kept,
        reclaim: false,
    }
}

fn again(open: SetOpen) -> SetOpen {
    SetOpen {
        reclaim: true,
        ..open
    }
}

#[test]
fn locks_of_a_dead_gateways_client_are_found_by_way_of_another() {
    let mut g = Gateways::new();
    let (first, second) = (g.first, g.second);
    let all = (0, u64::MAX);
    assert_eq!(
        g.lock(first, lock(Kind::Exclusive, ONE, (10, 99)), false),
        0
    );
    g.end(first, &[]);
    assert!(g.is_remnant(first));
    assert!(g.w.state.sessions().all(|it| it.session.0 != first));
    assert!(!g.w.state.session_exists(SessionId(first)));
    // The dead gateway itself may do nothing any more.
    let late = g.lock(first, lock(Kind::Unlock, ONE, all), false);
    assert_eq!(late, libc_errno(Errno::ESTALE));
    // Somebody else has to wait, even if his owner has the same number.
    assert_eq!(g.lock(second, lock(Kind::Shared, TWO, all), false), EAGAIN);
    assert_eq!(g.lock(second, lock(Kind::Shared, TWO, all), true), ENOENT);
    // More than there was is not reclaimed.
    for wrong in [(9, 99), (10, 100), all] {
        let refused = g.lock(second, lock(Kind::Exclusive, ONE, wrong), true);
        assert_eq!(refused, ENOENT);
    }
    assert_eq!(g.lock(second, lock(Kind::Shared, ONE, (20, 29)), true), 0);
    assert!(g.is_remnant(first));
    assert_eq!(
        g.lock(second, lock(Kind::Exclusive, ONE, (10, 99)), true),
        ENOENT
    );
    for piece in [(10, 19), (30, 99)] {
        assert_eq!(g.lock(second, lock(Kind::Exclusive, ONE, piece), true), 0);
    }
    assert!(!g.is_remnant(first), "nothing was left of it");
    // Asked once more, it is still so.
    assert_eq!(
        g.lock(second, lock(Kind::Exclusive, ONE, (30, 99)), true),
        0
    );
    assert_eq!(g.lock(second, lock(Kind::Unlock, ONE, all), false), 0);
    assert!(g.w.state.locks.is_empty());
    assert!(g.w.state.sessions[&SessionId(second)].locks.is_empty());
}

#[test]
fn who_comes_while_the_gateway_lives_takes_its_locks_along() {
    let mut g = Gateways::new();
    let (first, second) = (g.first, g.second);
    let range = (0, 9);
    assert_eq!(g.lock(first, lock(Kind::Exclusive, ONE, range), false), 0);
    assert_eq!(g.lock(second, lock(Kind::Exclusive, ONE, range), true), 0);
    assert!(g.w.state.sessions[&SessionId(first)].locks.is_empty());
    // The first one frees what it has no more: that changes nothing.
    assert_eq!(g.lock(first, lock(Kind::Unlock, ONE, range), false), 0);
    assert_eq!(g.lock(first, lock(Kind::Shared, TWO, range), false), EAGAIN);
}

#[test]
fn what_nobody_held_for_others_goes_with_its_session() {
    let mut g = Gateways::new();
    let (first, second) = (g.first, g.second);
    assert_eq!(g.lock(first, lock(Kind::Exclusive, 0, (0, 9)), false), 0);
    assert_eq!(
        g.lock(first, lock(Kind::Exclusive, ONE, (10, 19)), false),
        0
    );
    assert_eq!(
        g.lock(first, lock(Kind::Exclusive, TWO, (20, 29)), false),
        0
    );
    // And of one who has gone elsewhere nothing is kept.
    g.end(first, &[TWO]);
    assert_eq!(g.lock(second, lock(Kind::Exclusive, 99, (0, 9)), false), 0);
    assert_eq!(
        g.lock(second, lock(Kind::Exclusive, 99, (20, 29)), false),
        0
    );
    assert_eq!(
        g.lock(second, lock(Kind::Exclusive, 99, (10, 19)), false),
        EAGAIN
    );
    let drop = DropKept {
        behalf: ONE,
        sessions: vec![first],
    };
    assert_eq!(g.apply(second, Op::DropKept(drop)).failure_errno, 0);
    assert!(!g.is_remnant(first));
    assert_eq!(
        g.lock(second, lock(Kind::Exclusive, 99, (10, 19)), false),
        0
    );
}

#[test]
fn a_remnant_ends_when_it_is_closed_once_more() {
    let mut g = Gateways::new();
    let (first, second) = (g.first, g.second);
    assert_eq!(g.lock(first, lock(Kind::Exclusive, ONE, (0, 9)), false), 0);
    assert_eq!(g.open(first, opened(1, ONE, (1, 2, 0))), 0);
    g.end(first, &[]);
    assert_eq!(
        g.w.state.remnants().collect::<Vec<_>>(),
        [(SessionId(first), 45_000)]
    );
    g.end(first, &[]);
    assert!(!g.is_remnant(first) && g.w.state.locks.is_empty() && g.w.state.opens.is_empty());
    assert_eq!(g.lock(second, lock(Kind::Exclusive, TWO, (0, 9)), false), 0);
    // A session for which nothing is to be kept leaves nothing.
    g.end(second, &[TWO]);
    assert!(!g.is_remnant(second) && g.w.state.locks.is_empty());
}

#[test]
fn what_one_denies_another_may_not_have_at_any_gateway() {
    // Every pair of what two do and deny.
    for one in 1..16 {
        for two in 1..16 {
            let mut g = Gateways::new();
            let (first, second) = (g.first, g.second);
            let bits = |it: u32| (it % 4, it / 4, 0);
            assert_eq!(g.open(first, opened(1, ONE, bits(one))), 0);
            let (one, two) = (bits(one), bits(two));
            let fits = one.0 & two.1 == 0 && one.1 & two.0 == 0;
            let expected = if fits { 0 } else { EAGAIN };
            assert_eq!(g.open(second, opened(2, TWO, two)), expected);
            // It is the same when the first one's gateway is dead, until the first one gives it up.
            g.end(first, &[]);
            assert_eq!(g.open(second, opened(2, TWO, two)), expected);
            assert_eq!(g.open(second, again(opened(1, ONE, one))), 0);
            assert!(!g.is_remnant(first));
            assert_eq!(g.open(second, opened(1, ONE, (0, 0, 0))), 0);
            assert_eq!(g.open(second, opened(2, TWO, two)), 0);
        }
    }
}

#[test]
fn what_was_not_denied_or_kept_is_not_reclaimed() {
    let mut g = Gateways::new();
    let (first, second) = (g.first, g.second);
    assert_eq!(g.open(second, again(opened(1, ONE, (1, 0, 0)))), 0);
    assert_eq!(g.open(second, again(opened(1, ONE, (1, 2, 0)))), ENOENT);
    assert_eq!(g.open(second, opened(1, ONE, (0, 0, 0))), 0);
    assert_eq!(g.open(first, opened(1, ONE, (1, 2, 1))), 0);
    for wrong in [(1, 3, 1), (1, 2, 3), (1, 2, 2)] {
        assert_eq!(g.open(second, again(opened(1, ONE, wrong))), ENOENT);
    }
    assert_eq!(g.open(second, again(opened(1, ONE, (3, 2, 1)))), 0);
    let nobodys = g.open(second, opened(1, 0, (1, 0, 0)));
    assert_eq!(nobodys, libc_errno(Errno::EINVAL));
    let unknown = g.open(second, opened(1, ONE, (4, 0, 0)));
    assert_eq!(unknown, libc_errno(Errno::EINVAL));
}

#[test]
fn a_file_that_is_kept_is_nobody_elses_business_until_its_keeper_is_back() {
    let mut g = Gateways::new();
    let (first, second, f) = (g.first, g.second, g.f);
    assert_eq!(g.open(first, opened(1, ONE, (0, 0, 1))), 0);
    // Its gateway asks for it as long as there is one.
    assert!(!g.w.state.is_kept_from(OTHER, f, true, |_| false));
    g.end(first, &[]);
    assert!(
        g.w.state.is_kept_from(OTHER, f, true, |_| false)
            && !g.w.state.is_kept_from(OTHER, f, false, |_| false)
    );
    assert_eq!(g.open(second, again(opened(1, ONE, (0, 0, 1)))), 0);
    assert!(!g.w.state.is_kept_from(OTHER, f, true, |_| false));
    assert_eq!(g.open(second, opened(2, TWO, (0, 0, 2))), 0);
    g.end(second, &[]);
    assert!(
        g.w.state.is_kept_from(OTHER, f, true, |_| false)
            && g.w.state.is_kept_from(OTHER, f, false, |_| false)
    );
    // By the session by which its keeper comes back he is not hindered.
    let third = g.w.session;
    assert_eq!(g.open(third, again(opened(3, TWO, (1, 0, 0)))), 0);
    assert!(
        !g.w.state
            .is_kept_from(SessionId(third), f, false, |_| false)
    );
    assert!(
        g.w.state
            .is_kept_from(SessionId(g.first), f, false, |_| false)
    );
    assert_eq!(g.open(third, opened(3, TWO, (0, 0, 0))), 0);
    // What it has locked by itself nobody knows but it.
    let range = (3, 7);
    for behalf in [ONE, 0] {
        let refused = g.lock(third, lock(Kind::Exclusive, behalf, range), true);
        assert_ne!(refused, 0);
        assert!(g.w.state.locks.is_empty());
    }
    assert_eq!(g.lock(third, lock(Kind::Exclusive, TWO, range), true), 0);
    let other = FileLock {
        owner: 6,
        ..lock(Kind::Exclusive, TWO, range)
    };
    assert_eq!(g.lock(third, other, true), ENOENT);
}

#[test]
fn a_file_without_a_name_lives_on_for_who_had_it_open_at_a_dead_gateway() {
    let mut g = Gateways::new();
    let (first, second, f) = (g.first, g.second, g.f);
    // The service has asked who has it open.
    g.w.service(Op::Orphan(Orphan {
        ino: f.0,
        session: first,
    }));
    let unlink = Op::Unlink(Unlink {
        parent: ROOT_INO.0,
        name: b"f".to_vec().into(),
        ..Unlink::default()
    });
    let session = g.w.session;
    assert_eq!(g.apply(session, unlink).failure_errno, 0);
    g.end(first, &[]);
    assert!(g.is_remnant(first) && g.w.state.inodes.contains_key(&f));
    assert!(!g.w.state.is_there_for(f, SessionId(second)));
    assert_eq!(g.open(second, again(opened(1, ONE, (1, 0, 0)))), 0);
    assert!(g.w.state.is_there_for(f, SessionId(second)));
    g.w.service(Op::CloseSession(CloseSession {
        session: first,
        ..CloseSession::default()
    }));
    assert!(g.w.state.inodes.contains_key(&f));
    assert_eq!(g.open(second, opened(1, ONE, (0, 0, 0))), 0);
    let release = g.apply(second, Op::Release(Release { ino: f.0 }));
    assert_eq!(release.failure_errno, 0);
    assert!(!g.w.state.inodes.contains_key(&f) && g.w.state.opens.is_empty());
}

/// All cases of what one keeps and another, or the same one by way of another gateway, has locked, or is about to lock.
#[test]
fn what_one_may_lock_by_himself_another_has_not_locked() {
    let own = |by_first: bool, behalf| by_first && behalf == ONE;
    for kept in [0, 1, 2, 3] {
        for kind in [Kind::Shared, Kind::Exclusive] {
            for (by_first, behalf) in [
                (true, ONE),
                (true, TWO),
                (false, ONE),
                (false, TWO),
                (false, 0),
            ] {
                let is_in_the_way = match kind {
                    Kind::Exclusive => kept != 0,
                    _ => kept & 2 != 0,
                };
                let case = format!("kept {kept}, {kind:?}, by the first {by_first}, for {behalf}");
                // The lock is there first.
                let mut g = Gateways::new();
                let (first, second) = (g.first, g.second);
                let locker = if by_first { first } else { second };
                assert_eq!(g.lock(locker, lock(kind, behalf, (3, 4)), false), 0);
                let refused = is_in_the_way && !own(by_first, behalf);
                let keeps = opened(1, ONE, (1, 0, kept));
                let expected = if refused { EAGAIN } else { 0 };
                assert_eq!(g.open(first, keeps), expected, "{case}");
                // The file is kept first: who keeps it by way of another session is to be asked.
                let mut g = Gateways::new();
                let (first, second) = (g.first, g.second);
                let locker = if by_first { first } else { second };
                assert_eq!(g.open(first, opened(1, ONE, (1, 0, kept))), 0);
                let exclusive = kind == Kind::Exclusive;
                let is_asked = g.w.state.is_kept_beside(g.f, exclusive, SessionId(locker));
                assert_eq!(is_asked, is_in_the_way && !by_first, "{case}");
                // Its gateway dies: all others wait for who kept it.
                g.end(first, &[]);
                let lock = (behalf, exclusive);
                let waits = g.w.state.is_kept_from_others(g.f, lock, |_| false);
                assert_eq!(waits, is_in_the_way && behalf != ONE, "{case}");
                assert!(!g.w.state.is_kept_beside(g.f, exclusive, SessionId(second)));
            }
        }
    }
}

#[test]
fn who_kept_a_file_has_again_what_he_may_have_locked_by_himself() {
    for kept in [0, 1, 2, 3] {
        for kind in [Kind::Shared, Kind::Exclusive] {
            let mut g = Gateways::new();
            let (first, second) = (g.first, g.second);
            assert_eq!(g.open(first, opened(1, ONE, (1, 0, kept))), 0);
            g.end(first, &[]);
            let may_have = match kind {
                Kind::Exclusive => kept & 2 != 0,
                _ => kept != 0,
            };
            let expected = if may_have { 0 } else { ENOENT };
            assert_eq!(g.lock(second, lock(kind, TWO, (3, 4)), true), ENOENT);
            let again = g.lock(second, lock(kind, ONE, (3, 4)), true);
            assert_eq!(again, expected, "kept {kept}, {kind:?}");
        }
    }
}
