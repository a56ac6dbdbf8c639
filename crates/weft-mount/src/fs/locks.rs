//! File locks, and waiting for them.

use super::{Body, Face};
use crate::abi::{Header, LockIn, Out};
use crate::errno;
use crate::translate::*;
use futures_util::{FutureExt, select_biased};
use std::pin::pin;
use tokio::sync::oneshot;
use weft_client::*;

/// Processes that may wait for file locks: each is a task here, and nothing else bounds them.
pub const LOCK_WAITS_MAX: usize = 16_384;

impl Face {
    pub(super) async fn getlk(&self, ino: u64, lock: &LockIn) -> Result<Body> {
        let conflict = self.client.getlk(ino, file_lock(lock)?).await?;
        Ok(lock_out(conflict.as_ref(), lock).into())
    }

    pub(super) async fn setlk(
        &self,
        header: &Header,
        fh: u64,
        lock: &LockIn,
        wait: bool,
    ) -> Result<Body> {
        let (client, handle) = (&self.client, HandleId(fh));
        let cred = Cred {
            uid: header.uid,
            gid: header.gid,
            groups: Vec::new(),
        };
        if !lock.flock && lock.kind != libc::F_UNLCK {
            self.owners.locked(fh, lock.owner);
        }
        let lock = file_lock(lock)?;
        if !wait {
            client.setlk_by(handle, &cred, lock, false).await?;
            return Ok(Body::Nothing);
        }
        let (signal, interrupted) = oneshot::channel();
        {
            let mut waits = self.interruptible.borrow_mut();
            if waits.len() >= LOCK_WAITS_MAX {
                return Err(errno::TOO_MANY_WAITS);
            }
            waits.insert(header.unique, signal);
        }
        let result = {
            let mut taken = pin!(client.setlk_by(handle, &cred, lock, true).fuse());
            let mut interrupted = interrupted.fuse();
            select_biased! {
                result = taken => result,
                _ = interrupted => Err(errno::INTERRUPTED),
            }
        };
        self.interruptible.borrow_mut().remove(&header.unique);
        result?;
        Ok(Body::Nothing)
    }
}

/// `fuse_lk_out`: the lock in the way, or that there is none.
fn lock_out(conflict: Option<&FileLock>, asked: &LockIn) -> Out {
    match conflict {
        Some(lock) => Out::default()
            .u64(lock.start)
            .u64(lock.last.min(i64::MAX as u64))
            .u32(lock_kind_out(lock) as u32)
            .u32(lock.pid),
        None => Out::default()
            .u64(asked.start)
            .u64(asked.end)
            .u32(libc::F_UNLCK as u32)
            .u32(0),
    }
}
