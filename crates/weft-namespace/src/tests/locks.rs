use super::*;
use crate::LOCKS_MAX;
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::{CloseSession, FileLock, SetLock};

fn range(kind: Kind, owner: u64, start: u64, last: u64) -> FileLock {
    FileLock {
        kind: kind as i32,
        owner,
        start,
        last,
        pid: owner as u32,
        flock: false,
        ..FileLock::default()
    }
}

fn flock(kind: Kind, owner: u64) -> FileLock {
    FileLock {
        flock: true,
        ..range(kind, owner, 0, u64::MAX)
    }
}

fn op(ino: Ino, lock: FileLock) -> Op {
    Op::SetLock(SetLock {
        ino: ino.0,
        lock: Some(lock),
        wait: false,
        ..SetLock::default()
    })
}

struct Locked {
    w: World,
    f: Ino,
}

impl Locked {
    fn new() -> Locked {
        let mut w = World::new();
        let f = w.file(&root(), ROOT_INO, "f", 0o644);
        Locked { w, f }
    }

    fn set(&mut self, lock: FileLock) -> bool {
        self.w.ok(&root(), op(self.f, lock)).wake_waiters
    }

    fn blocked(&mut self, lock: FileLock) -> FileLock {
        let before = self.w.state.clone();
        let reply = self.w.apply(self.w.session, &root(), op(self.f, lock));
        assert_eq!(errno(&reply), Errno::EAGAIN);
        assert_eq!(self.w.state, before);
        let conflict = reply.conflict.unwrap();
        let asked = self
            .w
            .state
            .get_lock(self.w.session(), self.f, &lock)
            .unwrap();
        assert_eq!(asked, Some(conflict));
        conflict
    }

    /// The fcntl locks as (start, last, owner, exclusive).
    fn ranges(&self) -> Vec<(u64, u64, u64, bool)> {
        let locks = self.w.state.locks.get(&self.f);
        let all = locks.into_iter().flat_map(|l| l.iter());
        all.filter(|(flock, _)| !flock)
            .map(|(_, r)| (r.start, r.last, r.owner.owner, r.exclusive))
            .collect()
    }
}

use Kind::{Exclusive, Shared, Unlock};

#[test]
fn shared_locks_share_and_exclusive_ones_do_not() {
    let mut l = Locked::new();
    l.set(range(Shared, 1, 0, 99));
    l.set(range(Shared, 2, 50, 149));
    let conflict = l.blocked(range(Exclusive, 2, 90, 95));
    assert_eq!(conflict, range(Shared, 1, 0, 99));
    l.set(range(Exclusive, 2, 100, 100));
    assert_eq!(l.blocked(range(Shared, 1, 0, 100)).owner, 2);
    l.set(range(Exclusive, 1, 0, 49));
    assert_eq!(
        l.ranges(),
        [
            (0, 49, 1, true),
            (50, 99, 1, false),
            (50, 99, 2, false),
            (100, 100, 2, true),
            (101, 149, 2, false)
        ]
    );
}

#[test]
fn ranges_split_and_join() {
    let mut l = Locked::new();
    l.set(range(Exclusive, 1, 0, u64::MAX));
    assert!(l.set(range(Unlock, 1, 10, 19)));
    assert_eq!(l.ranges(), [(0, 9, 1, true), (20, u64::MAX, 1, true)]);
    assert!(!l.set(range(Exclusive, 1, 10, 19)));
    assert_eq!(l.ranges(), [(0, u64::MAX, 1, true)]);
    // Downgrading a part gives others something.
    assert!(l.set(range(Shared, 1, 5, 7)));
    assert_eq!(
        l.ranges(),
        [(0, 4, 1, true), (5, 7, 1, false), (8, u64::MAX, 1, true)]
    );
    assert!(!l.set(range(Exclusive, 1, 4, 8)));
    assert_eq!(l.ranges(), [(0, u64::MAX, 1, true)]);
    assert!(l.set(range(Unlock, 1, 0, u64::MAX)));
    assert!(l.ranges().is_empty());
    assert!(!l.set(range(Unlock, 1, 0, u64::MAX)));
    assert!(l.w.state.locks.is_empty());
    assert!(l.w.state.locks_of(l.w.session()).is_empty());
    // Neighbours of the same kind become one.
    l.set(range(Shared, 1, 0, 9));
    l.set(range(Shared, 1, 20, 29));
    l.set(range(Shared, 1, 10, 19));
    assert_eq!(l.ranges(), [(0, 29, 1, false)]);
    assert_eq!(
        l.w.fails(&root(), op(l.f, range(Shared, 1, 9, 8))),
        Errno::EINVAL
    );
}

#[test]
fn flock_and_fcntl_know_nothing_of_each_other() {
    let mut l = Locked::new();
    l.set(range(Exclusive, 1, 0, u64::MAX));
    l.set(flock(Exclusive, 2));
    assert_eq!(l.blocked(flock(Shared, 1)), flock(Exclusive, 2));
    assert_eq!(l.blocked(range(Shared, 2, 5, 5)).owner, 1);
    // Downgrade, then both share; upgrading is blocked and loses nothing.
    assert!(l.set(flock(Shared, 2)));
    assert!(!l.set(flock(Shared, 1)));
    l.blocked(flock(Exclusive, 2));
    assert!(l.set(flock(Unlock, 1)));
    assert!(!l.set(flock(Exclusive, 2)));
    assert!(!l.set(flock(Unlock, 7)));
}

#[test]
fn owners_of_different_sessions_are_different() {
    let mut l = Locked::new();
    let other = l.w.open_session();
    l.set(flock(Exclusive, 1));
    l.set(range(Exclusive, 1, 0, 0));
    for lock in [flock(Exclusive, 1), range(Shared, 1, 0, 5)] {
        let reply = l.w.apply(other, &root(), op(l.f, lock));
        assert_eq!(errno(&reply), Errno::EAGAIN);
    }
    assert_eq!(l.w.state.locks_of(l.w.session()), [l.f]);
    let close = CloseSession {
        session: l.w.session,
        clean: true,
        ..CloseSession::default()
    };
    assert!(l.w.service(Op::CloseSession(close)).wake_waiters);
    l.w.ok_in(other, &root(), op(l.f, flock(Exclusive, 1)));
    l.w.ok_in(other, &root(), op(l.f, range(Shared, 1, 0, 5)));
}

#[test]
fn locks_are_bounded() {
    let mut l = Locked::new();
    for i in 0..LOCKS_MAX as u64 {
        l.set(range(Shared, 1, i * 2, i * 2));
    }
    let more = range(Shared, 1, 1 << 30, 1 << 30);
    assert_eq!(l.w.fails(&root(), op(l.f, more)), Errno::ENOLCK);
    let part = range(Unlock, 1, 10, 20);
    assert_eq!(l.w.fails(&root(), op(l.f, part)), Errno::ENOLCK);
    l.set(range(Unlock, 1, 0, 100));
    l.set(more);
    l.set(range(Unlock, 1, 0, u64::MAX));
    assert!(l.ranges().is_empty());
}

#[test]
fn locks_go_with_their_file() {
    let mut l = Locked::new();
    l.set(flock(Exclusive, 1));
    l.w.ok(&root(), unlink(ROOT_INO, "f"));
    assert!(l.w.state.locks.is_empty());
    assert!(l.w.state.locks_of(l.w.session()).is_empty());
    assert_eq!(l.w.fails(&root(), op(l.f, flock(Shared, 1))), Errno::ESTALE);
    assert_eq!(
        l.w.fails_in(0, &root(), op(ROOT_INO, flock(Shared, 1))),
        Errno::EINVAL
    );
    let none = Op::SetLock(SetLock {
        ino: 1,
        ..SetLock::default()
    });
    assert_eq!(l.w.fails(&root(), none), Errno::EINVAL);
}
