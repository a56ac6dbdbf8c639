//! File locks.
//!
//! A client does one thing after the other, so it must not wait for what only itself could free, nor
//! in a circle that the service cannot see. Clients that wait lock fcntl ranges as one owner only, and
//! give back soon what they have waited for; the others have two owners and never wait.

use super::{Worker, done};
use crate::oracle::history::{FLOCK_UNIT, LOCK_UNITS, Op, Reply};
use weft_client::FileLock;
use weft_wire::proto::file_lock;

/// Bytes of each of a file's units that can be locked.
const LOCK_UNIT_BYTES: u64 = 100;
/// Of so many clients one has two owners.
const TWO_OWNERS_OF: u32 = 4;

impl Worker {
    fn may_wait(&self) -> bool {
        !self.id.is_multiple_of(TWO_OWNERS_OF)
    }

    fn lock_units(&mut self) -> (u8, u8) {
        let first = self.rng.below(u64::from(LOCK_UNITS)) as u8;
        let last = self.rng.within(u64::from(first)..u64::from(LOCK_UNITS)) as u8;
        (first, last)
    }

    pub(super) async fn lock(&mut self, ino: u64) {
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
        self.set_lock(Op::Lock {
            ino,
            owner,
            first,
            last,
            exclusive,
            wait: false,
        })
        .await;
    }

    pub(super) async fn wait_for_lock(&mut self, ino: u64) {
        if !self.may_wait() {
            return self.lock(ino).await;
        }
        let (first, last) = self.lock_units();
        let exclusive = Some(!self.rng.once_in(3));
        let got = self
            .set_lock(Op::Lock {
                ino,
                owner: 0,
                first,
                last,
                exclusive,
                wait: true,
            })
            .await;
        if got == Reply::Done {
            self.waited_for.push((ino, first, last));
        }
    }

    pub(super) async fn unlock_waited_for(&mut self) {
        for (ino, first, last) in std::mem::take(&mut self.waited_for) {
            self.set_lock(Op::Lock {
                ino,
                owner: 0,
                first,
                last,
                exclusive: None,
                wait: false,
            })
            .await;
        }
    }

    async fn set_lock(&self, op: Op) -> Reply {
        let Op::Lock {
            ino,
            owner,
            first,
            last,
            exclusive,
            wait,
        } = op
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
        self.record(op, async |_| {
            done(self.client.setlk(&self.cred, ino, lock, wait).await)
        })
        .await
    }
}
