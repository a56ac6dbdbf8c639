//! File locks.
//!
//! A client does one thing after the other, so it must not wait for what only itself could free, nor
//! in a circle that the service cannot see. Clients that wait lock fcntl ranges as one owner only, and
//! give back soon what they have waited for; the others have two owners and never wait. A circle by way of several
//! groups is seen by none of them: with several, who waits has locked nothing that another group may have.

use super::{Worker, done};
use crate::oracle::history::{FLOCK_UNIT, LOCK_UNITS, Op, Reply};
use std::collections::{BTreeMap, BTreeSet};
use weft_client::{FileLock, HandleId};
use weft_types::Ino;
use weft_wire::proto::file_lock;

/// Bytes of each of a file's units that can be locked.
const LOCK_UNIT_BYTES: u64 = 100;
/// Of so many clients one has two owners.
const TWO_OWNERS_OF: u32 = 4;

/// What owners (inode, flock?, owner) have locked by way of handles, as this client was told.
#[derive(Default)]
pub(super) struct ByHandle(BTreeMap<(u64, bool, u64), Taken>);

struct Taken {
    /// Under this session.
    session: u64,
    units: BTreeSet<u8>,
    handles: BTreeSet<HandleId>,
}

impl ByHandle {
    /// A lock was answered with `reply`. `session`: the client's before and after.
    fn set(&mut self, op: &Op, by: HandleId, reply: &Reply, session: (u64, u64)) {
        let Op::Lock {
            ino,
            owner,
            first,
            last,
            exclusive,
            ..
        } = *op
        else {
            return;
        };
        let key = (ino, first == FLOCK_UNIT, owner);
        match reply {
            Reply::Done if session.0 == session.1 => {}
            // What it has then is not known.
            Reply::Error(libc::EIO) if self.is_of_another(key, session.1) => return,
            Reply::Done | Reply::Error(libc::EIO | libc::ESTALE) => return self.drop_one(key),
            _ => return,
        }
        let taken = self.0.entry(key).or_insert_with(|| Taken {
            session: session.0,
            units: BTreeSet::new(),
            handles: BTreeSet::new(),
        });
        if taken.session != session.0 {
            // It has lost what it had, and others of its calls say so.
            return;
        }
        if exclusive.is_some() {
            taken.units.extend(first..=last);
            taken.handles.insert(by);
        } else {
            taken.units.retain(|unit| !(first..=last).contains(unit));
        }
        if taken.units.is_empty() {
            self.drop_one(key);
        }
    }

    fn is_of_another(&self, key: (u64, bool, u64), session: u64) -> bool {
        self.0
            .get(&key)
            .is_some_and(|taken| taken.session != session)
    }

    fn drop_one(&mut self, key: (u64, bool, u64)) {
        self.0.remove(&key);
    }

    /// An owner closes the file by one of its handles.
    pub fn closes(&mut self, ino: u64, owner: u64, by: HandleId) {
        for flock in [false, true] {
            self.drop_one((ino, flock, owner));
        }
        for taken in self.0.values_mut() {
            taken.handles.remove(&by);
        }
    }

    /// By this handle locks were taken under another session than this.
    pub fn has_lost(&self, by: HandleId, session: u64) -> bool {
        let of = |taken: &&Taken| taken.handles.contains(&by) && taken.session != session;
        session != 0 && self.0.values().any(|taken| of(&taken))
    }
}

impl Worker {
    fn may_wait(&self) -> bool {
        !self.id.is_multiple_of(TWO_OWNERS_OF)
    }

    fn lock_units(&mut self) -> (u8, u8) {
        let first = self.rng.below(u64::from(LOCK_UNITS)) as u8;
        let last = self.rng.within(u64::from(first)..u64::from(LOCK_UNITS)) as u8;
        (first, last)
    }

    pub(super) async fn lock(&mut self, ino: u64, by: HandleId) {
        let flock = self.rng.once_in(3);
        let drawn = self.rng.below(2);
        let owner = if self.may_wait() && !flock { 0 } else { drawn };
        let (first, last) = if flock {
            (FLOCK_UNIT, FLOCK_UNIT)
        } else {
            self.lock_units()
        };
        let exclusive = match self.rng.below(3) {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        let op = Op::Lock {
            ino,
            owner,
            first,
            last,
            exclusive,
            wait: false,
        };
        self.set_lock(op, by).await;
    }

    pub(super) async fn wait_for_lock(&mut self, ino: u64, by: HandleId) {
        if !self.may_wait() {
            return self.lock(ino, by).await;
        }
        if self.shared.groups > 1 {
            self.unlock_other_slots(ino).await;
        }
        let (first, last) = self.lock_units();
        let exclusive = Some(!self.rng.once_in(3));
        let op = Op::Lock {
            ino,
            owner: 0,
            first,
            last,
            exclusive,
            wait: true,
        };
        if self.set_lock(op, by).await == Reply::Done {
            self.waited_for.push((ino, by, first, last));
        }
    }

    pub(super) async fn unlock_waited_for(&mut self) {
        for (ino, by, first, last) in std::mem::take(&mut self.waited_for) {
            let op = Op::Lock {
                ino,
                owner: 0,
                first,
                last,
                exclusive: None,
                wait: false,
            };
            self.set_lock(op, by).await;
        }
    }

    /// Drops all fcntl locks of files that are not in the slot of this one: those of one slot are in one group, wherever
    /// it moves.
    async fn unlock_other_slots(&mut self, ino: u64) {
        let slot = Ino(ino).slot();
        let others = self
            .locked
            .extract_if(.., |other, _| Ino(*other).slot() != slot);
        for (ino, by) in others.collect::<Vec<_>>() {
            let op = Op::Lock {
                ino,
                owner: 0,
                first: 0,
                last: LOCK_UNITS - 1,
                exclusive: None,
                wait: false,
            };
            self.set_lock(op, by).await;
            self.waited_for.retain(|(other, ..)| *other != ino);
        }
    }

    async fn set_lock(&mut self, op: Op, by: HandleId) -> Reply {
        let reply = self.ask_lock(&op, by).await;
        // Where it is in doubt, it may be locked, too.
        let is_refused = matches!(reply, Reply::Error(libc::EAGAIN | libc::EDEADLK));
        if let Op::Lock {
            ino,
            first,
            exclusive: Some(_),
            ..
        } = op
            && first != FLOCK_UNIT
            && !is_refused
        {
            self.locked.insert(ino, by);
        }
        reply
    }

    async fn ask_lock(&mut self, op: &Op, by: HandleId) -> Reply {
        let Op::Lock {
            ino,
            owner,
            first,
            last,
            exclusive,
            wait,
        } = *op
        else {
            return Reply::Error(libc::EINVAL);
        };
        let kind = match exclusive {
            None => file_lock::Kind::Unlock,
            Some(false) => file_lock::Kind::Shared,
            Some(true) => file_lock::Kind::Exclusive,
        };
        let flock = first == FLOCK_UNIT;
        let (start, end) = if flock {
            (0, u64::MAX)
        } else {
            let end = (u64::from(last) + 1) * LOCK_UNIT_BYTES - 1;
            (u64::from(first) * LOCK_UNIT_BYTES, end)
        };
        let lock = FileLock {
            kind: kind as i32,
            flock,
            owner,
            start,
            last: end,
            pid: 1,
            ..FileLock::default()
        };
        if !self.shared.locks_by_handle.get() || !self.handles.iter().any(|handle| handle.id == by)
        {
            let set = async |_| done(self.client.setlk(&self.cred, ino, lock, wait).await);
            return self.record(op.clone(), set).await;
        }
        let before = self.client.session();
        let set = async |_| {
            let set = self.client.setlk_by(by, &self.cred, lock, wait);
            done(set.await)
        };
        let reply = self.record(op.clone(), set).await;
        let session = (before, self.client.session());
        self.taken.set(op, by, &reply, session);
        reply
    }
}
