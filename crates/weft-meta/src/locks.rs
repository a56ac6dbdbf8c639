//! Who waits for locks: a session whose lock conflicts is told when it may try again, and an fcntl
//! lock that would wait in a circle is refused.
//!
//! Not in the journaled state: clients that wait ask again twice a second, so that a new reign knows
//! all of it soon.

use crate::reign::Core;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_env::Mono;
use weft_types::{Ino, SessionId};
use weft_wire::proto::{FileLock, LockFreed, OpReply, SetLock};

/// Inodes that are waited for. Beyond it a waiter is not remembered and has to try again by itself,
/// as clients do from time to time anyway.
const WAITED_MAX: usize = 1 << 16;

/// A lock that nobody has asked for again within this is not waited for any more: three times the
/// clients' pause.
const WAITS_FOR: Duration = Duration::from_millis(1500);

/// Owners that are looked at for one circle: longer ones are not found.
const CIRCLE_MAX: usize = 1000;

/// An owner of locks: a process, in the session of its mount.
type Owner = (SessionId, u64);

/// A lock that is waited for: whose, and of which file from where to where.
type Wish = (Owner, Ino, u64, u64);

/// Who waits.
#[derive(Default)]
pub(crate) struct LockWaiters {
    /// The sessions that wait, by inode.
    sessions: BTreeMap<Ino, BTreeSet<SessionId>>,
    /// fcntl locks that are waited for.
    wishes: BTreeMap<Wish, Waiting>,
}

/// Since when a lock is waited for, by what its client has said.
#[derive(Clone, Copy)]
struct Waiting {
    lock: FileLock,
    first_asked: Mono,
    last_asked: Mono,
}

fn wish_of(session: SessionId, ino: Ino, lock: &FileLock) -> Wish {
    ((session, lock.owner), ino, lock.start, lock.last)
}

impl Core {
    /// Remembers a session that was refused a lock; says EDEADLK where it would wait for ever.
    pub(crate) fn on_lock_reply(
        &mut self,
        session: SessionId,
        asked: &SetLock,
        reply: &mut OpReply,
        now: Mono,
    ) {
        let Some(lock) = &asked.lock else {
            return;
        };
        let ino = Ino(asked.ino);
        let wish = wish_of(session, ino, lock);
        let before = self.lock_waiters.wishes.remove(&wish);
        if reply.conflict.is_none() {
            return;
        }
        let waiters = &mut self.lock_waiters;
        if waiters.sessions.len() < WAITED_MAX || waiters.sessions.contains_key(&ino) {
            waiters.sessions.entry(ino).or_default().insert(session);
        }
        if !asked.wait || lock.flock {
            return;
        }
        let is_recent = |waiting: &Waiting| waiting.last_asked + WAITS_FOR > now;
        waiters.wishes.retain(|_, waiting| is_recent(waiting));
        let waiting = Waiting {
            lock: *lock,
            first_asked: before.filter(is_recent).map_or(now, |it| it.first_asked),
            last_asked: now,
        };
        if self.waits_in_a_circle(session, ino, &waiting) {
            reply.failure_errno = libc::EDEADLK as u32;
            return;
        }
        let wishes = &mut self.lock_waiters.wishes;
        if wishes.len() < WAITED_MAX {
            wishes.insert(wish, waiting);
        }
    }

    /// Nobody waits for this lock any more.
    pub(crate) fn waits_no_more(&mut self, session: SessionId, ino: Ino, lock: &FileLock) {
        let wish = wish_of(session, ino, lock);
        self.lock_waiters.wishes.remove(&wish);
    }

    /// Those that keep the lock from being set wait, perhaps for others that wait, for its owner, and it was
    /// the last to begin. That one of them has given up may not have been heard yet: only who has asked
    /// again since this one began counts, so that all have waited at one moment.
    fn waits_in_a_circle(&self, session: SessionId, ino: Ino, waiting: &Waiting) -> bool {
        let me = (session, waiting.lock.owner);
        let mut found: BTreeSet<Owner> = BTreeSet::new();
        let mut next = self.state.lock_holders(session, ino, &waiting.lock);
        while let Some(owner) = next.pop() {
            if owner == me {
                return true;
            }
            if !found.insert(owner) || found.len() > CIRCLE_MAX {
                continue;
            }
            let first = (owner, Ino(0), 0, 0);
            let last = (owner, Ino(u64::MAX), u64::MAX, u64::MAX);
            for ((_, ino, _, _), other) in self.lock_waiters.wishes.range(first..=last) {
                let is_first = other.first_asked <= waiting.first_asked;
                if is_first && other.last_asked > waiting.first_asked {
                    next.extend(self.state.lock_holders(owner.0, *ino, &other.lock));
                }
            }
        }
        false
    }

    /// A lock was freed: who waits for it may try again.
    pub(crate) fn tell_lock_freed(&mut self, ino: Ino) {
        for session in self.lock_waiters.sessions.remove(&ino).unwrap_or_default() {
            let live = self.sessions.get(&session);
            if let Some(connection) = live.and_then(|live| live.connection.as_ref()) {
                connection.notify(&LockFreed { ino: ino.0 });
            }
        }
    }

    /// The session waits for nothing any more.
    pub(crate) fn forget_lock_waiter(&mut self, session: SessionId) {
        self.lock_waiters.sessions.retain(|_, waiters| {
            waiters.remove(&session);
            !waiters.is_empty()
        });
        let wishes = &mut self.lock_waiters.wishes;
        wishes.retain(|((of, _), ..), _| *of != session);
    }
}
