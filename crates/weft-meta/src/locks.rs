//! Who waits for locks: a session whose lock conflicts is told when it may try again.

use crate::server::Core;
use std::collections::{BTreeMap, BTreeSet};
use weft_types::{Ino, SessionId};
use weft_wire::proto::{LockFreed, OpReply};

/// Inodes that are waited for. Beyond it a waiter is not remembered and has to try again by itself,
/// as clients do from time to time anyway.
const WAITED_MAX: usize = 1 << 16;

/// The sessions that wait, by inode.
#[derive(Default)]
pub(crate) struct LockWaiters(BTreeMap<Ino, BTreeSet<SessionId>>);

impl Core {
    /// Remembers a session that was refused a lock.
    pub(crate) fn on_lock_reply(&mut self, session: SessionId, ino: Ino, reply: &OpReply) {
        let waiters = &mut self.lock_waiters.0;
        if reply.conflict.is_some() && (waiters.len() < WAITED_MAX || waiters.contains_key(&ino)) {
            waiters.entry(ino).or_default().insert(session);
        }
    }

    /// A lock was freed: who waits for it may try again.
    pub(crate) fn tell_lock_freed(&mut self, ino: Ino) {
        for session in self.lock_waiters.0.remove(&ino).unwrap_or_default() {
            let live = self.sessions.get(&session);
            if let Some(connection) = live.and_then(|live| live.connection.as_ref()) {
                connection.notify(&LockFreed { ino: ino.0 });
            }
        }
    }

    /// The session waits for nothing any more.
    pub(crate) fn forget_lock_waiter(&mut self, session: SessionId) {
        self.lock_waiters.0.retain(|_, waiters| {
            waiters.remove(&session);
            !waiters.is_empty()
        });
    }
}
