//! File locks.

use super::{Worker, done};
use crate::oracle::history::{FLOCK_UNIT, LOCK_UNITS, Op};
use weft_client::FileLock;
use weft_wire::proto::file_lock;

/// Bytes of each of a file's units that can be locked.
const LOCK_UNIT_BYTES: u64 = 100;

impl Worker {
    pub(super) async fn lock(&mut self, ino: u64) {
        let owner = self.rng.below(2);
        let flock = self.rng.once_in(3);
        let (first, last) = if flock {
            (FLOCK_UNIT, FLOCK_UNIT)
        } else {
            let first = self.rng.below(u64::from(LOCK_UNITS)) as u8;
            let last = self.rng.within(u64::from(first)..u64::from(LOCK_UNITS)) as u8;
            (first, last)
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
        };
        let kind = match exclusive {
            None => file_lock::Kind::Unlock,
            Some(false) => file_lock::Kind::Shared,
            Some(true) => file_lock::Kind::Exclusive,
        };
        let lock = FileLock {
            kind: kind as i32,
            flock,
            owner,
            start: if flock {
                0
            } else {
                u64::from(first) * LOCK_UNIT_BYTES
            },
            last: if flock {
                u64::MAX
            } else {
                (u64::from(last) + 1) * LOCK_UNIT_BYTES - 1
            },
            pid: 1,
        };
        self.record(op, async |_| {
            done(self.client.setlk(&self.cred, ino, lock, false).await)
        })
        .await;
    }
}
