//! flock and fcntl locks: kept by the metadata service, waited for here.

use crate::core::Core;
use crate::session::{Doubt, Stopped};
use crate::types::{Cred, Errno, FileLock, HandleId, Result};
use futures_util::future::select;
use rangemap::RangeSet;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_wire::proto::{GetLockRequest, OpReply, SetLock, file_lock, op};

/// A lock that is waited for is tried again after this long though nobody said that it is free: the
/// word may have been lost with a connection.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// An owner's locks of one kind on an inode: inode, flock?, owner.
type Key = (u64, bool, u64);

/// What an owner has locked.
#[derive(Default)]
struct Held {
    bytes: RangeSet<u64>,
    /// By way of which.
    handles: BTreeSet<HandleId>,
}

fn key(ino: u64, lock: &FileLock) -> Key {
    (ino, lock.flock, lock.owner)
}

/// The last byte of all that there can be is left out.
fn bytes(lock: &FileLock) -> Range<u64> {
    lock.start..lock.last.max(lock.start).saturating_add(1)
}

fn unlocks(lock: &FileLock) -> bool {
    lock.kind == file_lock::Kind::Unlock as i32
}

#[derive(Default)]
pub(crate) struct Locks {
    /// Owners (flock?, owner) that may hold locks, by inode: closing a file without any costs no
    /// message.
    owners: RefCell<BTreeMap<u64, BTreeSet<(bool, u64)>>>,
    /// What those have that lock by way of handles.
    held: RefCell<BTreeMap<Key, Held>>,
    /// Whose locks have been lost, until the file is closed.
    lost: RefCell<BTreeSet<Key>>,
    waiting: RefCell<BTreeMap<u64, Rc<Notify>>>,
    /// Everybody who may wait; with the last one `waiting` is emptied.
    waiters: Cell<usize>,
    /// How many requests for a lock were given up of which nobody knows yet whether it is granted.
    doubted: RefCell<BTreeMap<Key, usize>>,
    decided: Notify,
}

impl Locks {
    /// A lock on the inode was freed.
    pub fn freed(&self, ino: u64) {
        if let Some(notify) = self.waiting.borrow().get(&ino) {
            notify.notify_waiters();
        }
    }

    /// The connection to the group that keeps these inodes is new: words may have been lost.
    pub fn freed_all(&self, of_group: impl Fn(u64) -> bool) {
        for (ino, notify) in &*self.waiting.borrow() {
            if of_group(*ino) {
                notify.notify_waiters();
            }
        }
    }

    /// The session with the group that keeps these inodes is over, and with it all locks on them. Answers by which
    /// handles they were taken.
    pub fn lose(&self, of_group: impl Fn(u64) -> bool) -> BTreeSet<HandleId> {
        self.owners.borrow_mut().retain(|ino, _| !of_group(*ino));
        let mut handles = BTreeSet::new();
        let mut lost = self.lost.borrow_mut();
        self.held.borrow_mut().retain(|key, held| {
            if !of_group(key.0) {
                return true;
            }
            lost.insert(*key);
            handles.append(&mut held.handles);
            false
        });
        self.freed_all(of_group);
        handles
    }

    /// A lock was taken, or freed, by way of a handle.
    fn set(&self, ino: u64, lock: &FileLock, by: HandleId) {
        let mut all = self.held.borrow_mut();
        let held = all.entry(key(ino, lock)).or_default();
        if unlocks(lock) {
            held.bytes.remove(bytes(lock));
        } else {
            held.bytes.insert(bytes(lock));
            held.handles.insert(by);
        }
        if held.bytes.is_empty() {
            all.remove(&key(ino, lock));
        }
    }

    /// The owner has closed the file.
    fn closed(&self, key: Key) {
        self.held.borrow_mut().remove(&key);
        self.lost.borrow_mut().remove(&key);
    }

    /// The owner has locked some of these bytes, and knows it.
    fn holds_some(&self, ino: u64, lock: &FileLock) -> bool {
        let all = self.held.borrow();
        let held = all.get(&key(ino, lock));
        held.is_some_and(|held| held.bytes.overlaps(&bytes(lock)))
    }

    /// Waits until nothing is in doubt that the owner asked for.
    async fn none_in_doubt(&self, key: Key) {
        loop {
            let decided = self.decided.notified();
            if !self.doubted.borrow().contains_key(&key) {
                return;
            }
            decided.await;
        }
    }

    fn has_lost(&self, ino: u64, lock: &FileLock) -> bool {
        self.lost.borrow().contains(&key(ino, lock))
    }

    /// There may be a lock on one of these, or somebody waits for one.
    pub fn any(&self, of: impl Fn(u64) -> bool) -> bool {
        self.owners.borrow().keys().any(|ino| of(*ino))
            || self.waiting.borrow().keys().any(|ino| of(*ino))
    }

    /// A lock is asked for.
    pub fn note(&self, ino: u64, lock: &FileLock) {
        let mut owners = self.owners.borrow_mut();
        let of_inode = owners.entry(ino).or_default();
        of_inode.insert((lock.flock, lock.owner));
    }

    /// Somebody may wait for a lock on this inode, until what is returned is dropped.
    fn waits(&self, ino: u64) -> (Rc<Notify>, Waiter<'_>) {
        self.waiters.set(self.waiters.get() + 1);
        let waiter = Waiter(self);
        let mut waiting = self.waiting.borrow_mut();
        (waiting.entry(ino).or_default().clone(), waiter)
    }

    fn may_hold(&self, ino: u64, flock: bool, owner: u64) -> bool {
        self.owners
            .borrow()
            .get(&ino)
            .is_some_and(|owners| owners.contains(&(flock, owner)))
    }
}

impl Core {
    /// The lock that is in the way of one.
    pub async fn getlk(self: &Rc<Self>, ino: u64, lock: FileLock) -> Result<Option<FileLock>> {
        let (reply, _) = self
            .ask_at(ino, |link| GetLockRequest {
                session: link.session,
                epoch: link.epoch,
                ino,
                lock: Some(lock),
            })
            .await?;
        Ok(reply.conflict)
    }

    /// `is_recorded`: [`Locks::held`] will say that the owner has it.
    async fn try_lock(
        self: &Rc<Self>,
        cred: Cred,
        ino: u64,
        lock: FileLock,
        (wait, is_recorded): (bool, bool),
    ) -> Result<()> {
        let set = op::Op::SetLock(SetLock {
            ino,
            lock: Some(lock),
            wait,
            ..SetLock::default()
        });
        if !unlocks(&lock) {
            self.locks.note(ino, &lock);
        }
        let (reply, _) = match self.change_or_doubt(ino, cred, set, false).await {
            Ok(answer) => answer,
            Err(Stopped::InDoubt(doubt)) if is_recorded && !unlocks(&lock) => {
                self.undo_if_granted(doubt, ino, lock);
                return Err(Errno(libc::EIO));
            }
            Err(stopped) => return Err(stopped.errno()),
        };
        match reply.reply.map_or(0, |reply| reply.failure_errno) {
            0 => Ok(()),
            errno => Err(Errno(errno as i32)),
        }
    }

    /// A lock that was asked for, and given up: should it be granted all the same, nobody would know that he has it. It
    /// is dropped again, unless its owner has had some of it before; then it is freed with that.
    fn undo_if_granted(self: &Rc<Self>, doubt: Doubt, ino: u64, lock: FileLock) {
        let in_doubt = InDoubt::new(self, key(ino, &lock));
        let core = self.clone();
        self.env.spawn("lock in doubt", async move {
            let answer = doubt.end(&core, ino).await;
            let is_refused = |reply: &OpReply| reply.failure_errno != 0;
            let is_granted =
                answer.is_some_and(|(reply, _)| !reply.reply.as_ref().is_some_and(is_refused));
            if is_granted && !core.locks.holds_some(ino, &lock) {
                core.unlock_again(Cred::default(), ino, lock).await;
            }
            drop(in_doubt);
        });
    }

    /// Drops what has perhaps been granted to one who does not know it.
    async fn unlock_again(self: &Rc<Self>, cred: Cred, ino: u64, mut lock: FileLock) {
        lock.kind = file_lock::Kind::Unlock as i32;
        if let Err(errno) = self.try_lock(cred, ino, lock, (false, false)).await {
            tracing::warn!(ino, %errno, "a lock that was given up stays until its file is closed");
        }
    }

    /// As [`crate::Client::lock_freed`].
    pub async fn lock_freed(&self, ino: u64) {
        let (notify, _waiter) = self.locks.waits(ino);
        notify.notified().await;
    }

    /// Takes or drops a lock, waiting if asked to. EDEADLK: those that it would wait for wait for its
    /// owner (fcntl locks). EIO: it had one and has lost it. If it is dropped, it waits no more.
    pub async fn setlk(
        self: &Rc<Self>,
        cred: &Cred,
        (ino, by): (u64, Option<HandleId>),
        lock: FileLock,
        wait: bool,
    ) -> Result<()> {
        let (notify, _waiter) = self.locks.waits(ino);
        if !unlocks(&lock) {
            // Or what is granted now were dropped with that.
            let decided = async {
                self.locks.none_in_doubt(key(ino, &lock)).await;
                Ok(())
            };
            self.patiently(decided).await?;
        }
        loop {
            // Before the attempt, so that what is freed between it and the waiting is heard of.
            let freed = notify.notified();
            let attempt = Attempt {
                core: self,
                ino,
                lock,
                cred,
                is_over: Cell::new(false),
            };
            let trying = self.clone();
            let (owned_cred, core) = (cred.clone(), self.clone());
            let result = core
                .to_the_end(async move {
                    trying
                        .try_lock(owned_cred, ino, lock, (wait, by.is_some()))
                        .await
                })
                .await;
            attempt.is_over.set(true);
            drop(attempt);
            // Without its lock, or with a new one of the new session's, it must not go on. The session may have been lost
            // while this one was asked for.
            let has_lost = !unlocks(&lock) && self.locks.has_lost(ino, &lock);
            match result {
                Err(Errno(libc::EAGAIN)) if has_lost => return Err(Errno(libc::EIO)),
                Err(Errno(libc::EAGAIN)) if wait => {}
                Ok(()) if has_lost => {
                    self.drop_locks_of(ino, lock.flock, lock.owner).await?;
                    return Err(Errno(libc::EIO));
                }
                Ok(()) => {
                    if let Some(by) = by {
                        self.locks.set(ino, &lock, by);
                    }
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
            let mut wish = Wish {
                core: self,
                ino,
                lock,
                is_over: false,
            };
            select(pin!(freed), self.env.sleep(RETRY_PAUSE)).await;
            wish.is_over = true;
        }
    }

    /// Drops all locks of an owner on an inode, if it may hold any.
    pub async fn drop_locks(self: &Rc<Self>, ino: u64, flock: bool, owner: u64) -> Result<()> {
        self.locks.closed((ino, flock, owner));
        self.drop_locks_of(ino, flock, owner).await
    }

    async fn drop_locks_of(self: &Rc<Self>, ino: u64, flock: bool, owner: u64) -> Result<()> {
        if !self.locks.may_hold(ino, flock, owner) {
            return Ok(());
        }
        let unlock = FileLock {
            kind: file_lock::Kind::Unlock as i32,
            flock,
            owner,
            start: 0,
            last: u64::MAX,
            pid: 0,
            ..FileLock::default()
        };
        match self
            .try_lock(Cred::default(), ino, unlock, (false, false))
            .await
        {
            // The locks of a file that is gone went with it: that it is closed may have been heard first.
            Ok(()) | Err(Errno(libc::ESTALE)) => {}
            Err(errno) => return Err(errno),
        }
        let mut owners = self.locks.owners.borrow_mut();
        if let Some(of) = owners.get_mut(&ino) {
            of.remove(&(flock, owner));
            if of.is_empty() {
                owners.remove(&ino);
            }
        }
        Ok(())
    }
}

/// Someone who may wait for a lock.
struct Waiter<'a>(&'a Locks);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.set(self.0.waiters.get() - 1);
        if self.0.waiters.get() == 0 {
            self.0.waiting.borrow_mut().clear();
        }
    }
}

/// A lock that is waited for. If that is given up the service is told, or it might find that others
/// wait in a circle with one that waits no more.
struct Wish<'a> {
    core: &'a Rc<Core>,
    ino: u64,
    lock: FileLock,
    is_over: bool,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if self.is_over || self.lock.flock {
            return;
        }
        let (core, ino, lock) = (self.core.clone(), self.ino, self.lock);
        self.core.env.spawn("wait no more", async move {
            // If it is not heard, the service forgets it soon.
            let _: Result<_> = core.getlk(ino, lock).await;
        });
    }
}

/// One attempt to lock. If it is given up half-way the lock may be taken all the same, with nobody
/// who knows of it: it is dropped again.
struct Attempt<'a> {
    core: &'a Rc<Core>,
    ino: u64,
    lock: FileLock,
    cred: &'a Cred,
    is_over: Cell<bool>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_over.get() || unlocks(&self.lock) {
            return;
        }
        let (core, ino, cred, lock) = (self.core.clone(), self.ino, self.cred.clone(), self.lock);
        self.core.env.spawn("drop a lock", async move {
            if core.locks.holds_some(ino, &lock) {
                // It had some of it before, and goes by that: with that it is freed.
                return;
            }
            // Sent after the attempt on the same connection, so done after it.
            core.unlock_again(cred, ino, lock).await;
        });
    }
}

/// Something that an owner asked for is in doubt.
struct InDoubt(Rc<Core>, Key);

impl InDoubt {
    fn new(core: &Rc<Core>, key: Key) -> InDoubt {
        *core.locks.doubted.borrow_mut().entry(key).or_insert(0) += 1;
        InDoubt(core.clone(), key)
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        let InDoubt(core, key) = self;
        let mut doubted = core.locks.doubted.borrow_mut();
        if let Some(count) = doubted.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                doubted.remove(key);
            }
        }
        core.locks.decided.notify_waiters();
    }
}
