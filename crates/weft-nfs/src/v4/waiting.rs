//! Locks that clients wait for: who said that he would wait, and was refused, is told when it may be free
//! (CB_NOTIFY_LOCK, RFC 8881, 20.11). He has it when he asks again, and is the first; nothing is held for him.

use super::state::State;
use bytes::Bytes;
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_client::FileLock;
use weft_env::Mono;

/// How often it is asked whether a lock is free, though nobody has said so: the metadata service says it once, to those
/// that it has refused since it last did.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Who has not asked again for so long waits no more: Linux's client asks every 30 s at least.
const WAITS: Duration = Duration::from_secs(90);
/// Locks that are waited for at a gateway at most: who comes then is told of nothing, and asks again by himself.
const WAITERS_MAX: usize = 4_096;

/// Who waits: a client's lock owner, for a lock of a file.
type Key = (u64, u64, Bytes);

/// What is waited for.
struct Waiter {
    wanted: Cell<FileLock>,
    /// When it was asked for last.
    asked: Cell<Mono>,
}

/// All locks that are waited for.
#[derive(Default)]
pub(super) struct LockWaiters(RefCell<BTreeMap<Key, Rc<Waiter>>>);

impl LockWaiters {
    fn is_waiting(&self, key: &Key, waiter: &Rc<Waiter>) -> bool {
        let waiters = self.0.borrow();
        waiters.get(key).is_some_and(|its| Rc::ptr_eq(its, waiter))
    }

    /// How many there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Notes a lock. None: it is noted already, or there are too many.
    fn note(&self, key: &Key, wanted: FileLock, now: Mono) -> Option<Rc<Waiter>> {
        let mut waiters = self.0.borrow_mut();
        if let Some(waiter) = waiters.get(key) {
            waiter.wanted.set(wanted);
            waiter.asked.set(now);
            return None;
        }
        if waiters.len() >= WAITERS_MAX {
            return None;
        }
        let waiter = Rc::new(Waiter {
            wanted: Cell::new(wanted),
            asked: Cell::new(now),
        });
        waiters.insert(key.clone(), waiter.clone());
        Some(waiter)
    }

    fn forget(&self, key: &Key) {
        self.0.borrow_mut().remove(key);
    }
}

impl State {
    /// A client was refused a lock that it would wait for: it is told when that may be free. `handle`: of the file.
    pub(super) fn watch_lock(self: &Rc<Self>, key: Key, wanted: FileLock, handle: Bytes) {
        let Some(waiter) = self.lock_waiters.note(&key, wanted, self.env.now()) else {
            return;
        };
        let state = self.clone();
        self.env.spawn("lock is waited for", async move {
            if state.is_freed(&key, &waiter).await {
                // He may ask again before he is told.
                state.lock_waiters.forget(&key);
                let (client, ino, owner) = key;
                let status = state.notify_lock(client, (handle, owner)).await;
                tracing::debug!(client, ino, ?status, "a client was told of a lock");
            }
        });
    }

    /// A client has the lock, or wants it no more.
    pub(super) fn watch_no_more(&self, key: &Key) {
        self.lock_waiters.forget(key);
    }

    /// Returns when a lock may be free, or (false) nobody waits for it any more.
    async fn is_freed(&self, key: &Key, waiter: &Rc<Waiter>) -> bool {
        let ino = key.1;
        while self.lock_waiters.is_waiting(key, waiter) {
            let is_silent = self.env.now().since(waiter.asked.get()) > WAITS;
            if is_silent || !self.can_call(key.0) {
                self.lock_waiters.forget(key);
                return false;
            }
            // Begun first, so that what is freed while it is asked is heard of.
            let mut freed = pin!(self.env.timeout(ASK_EVERY, self.client.lock_freed(ino)));
            let asked = pin!(self.client.getlk(ino, waiter.wanted.get()));
            let in_the_way = match select(freed.as_mut(), asked).await {
                Either::Left(_) => continue,
                Either::Right((in_the_way, _)) => in_the_way,
            };
            if !matches!(in_the_way, Ok(Some(_))) {
                // If it cannot be asked, the client learns why when it asks.
                return self.lock_waiters.is_waiting(key, waiter);
            }
            // Freed, or a while over: it is asked again.
            let _ = freed.await;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for_once_and_not_by_too_many() {
        let waiters = LockWaiters::default();
        let key = |owner: usize| (1, 5, Bytes::from(owner.to_string()));
        let wanted = |last| FileLock {
            last,
            ..FileLock::default()
        };
        let first = waiters.note(&key(0), wanted(1), Mono(1)).unwrap();
        assert!(waiters.note(&key(0), wanted(2), Mono(7)).is_none());
        assert_eq!((first.wanted.get().last, first.asked.get()), (2, Mono(7)));
        for owner in 1..WAITERS_MAX {
            assert!(waiters.note(&key(owner), wanted(1), Mono(1)).is_some());
        }
        assert!(
            waiters
                .note(&key(WAITERS_MAX), wanted(1), Mono(1))
                .is_none()
        );
        assert_eq!(waiters.count(), WAITERS_MAX);
        waiters.forget(&key(0));
        assert!(!waiters.is_waiting(&key(0), &first));
        let again = waiters.note(&key(0), wanted(1), Mono(9)).unwrap();
        assert!(waiters.is_waiting(&key(0), &again) && !waiters.is_waiting(&key(0), &first));
    }
}
