//! What this client holds on behalf of others: a gateway's NFS clients. It may outlive the session, so that they find it
//! by way of another gateway (`docs/protocols/nfs4.md`, "When a gateway dies").

use crate::core::Core;
use crate::types::{Cred, Errno, FileLock, Result};
use std::rc::Rc;
use weft_wire::proto::{DropKept, OpReply, SetLock, SetOpen, op};

impl Core {
    /// Takes over a lock that the same owner, on the same behalf, has by way of another session, or of one of this client's
    /// that is over.
    ///
    /// # Errors
    /// ENOENT: it has no such lock any more, or not all of it. EIO as with any change.
    pub async fn reclaim_lock(self: &Rc<Self>, ino: u64, lock: FileLock) -> Result<()> {
        self.locks.note(ino, &lock);
        let reclaim = SetLock {
            ino,
            lock: Some(lock),
            wait: false,
            reclaim: true,
        };
        self.set_kept(ino, op::Op::SetLock(reclaim)).await.map(drop)
    }

    /// Notes that somebody has a file open, or no longer.
    ///
    /// # Errors
    /// EAGAIN: somebody else has it open in a way that excludes that. ENOENT: what is to be reclaimed is not there.
    /// ESTALE: the file is gone. EIO as with any change.
    pub async fn set_open(self: &Rc<Self>, open: SetOpen) -> Result<()> {
        let reply = self.set_kept(open.ino, op::Op::SetOpen(open)).await?;
        if open.reclaim && reply.attr.is_some_and(|attr| attr.nlink == 0) {
            // The service keeps it for this client now, which says so when it has closed it.
            let node = self.nodes.get_or_new(open.ino);
            node.state.borrow_mut().orphan = true;
        }
        Ok(())
    }

    pub(crate) async fn set_kept(self: &Rc<Self>, ino: u64, op: op::Op) -> Result<OpReply> {
        let core = self.clone();
        self.to_the_end(async move {
            let (reply, _) = core.change_at(ino, Cred::default(), op, false).await?;
            let reply = reply.reply.unwrap_or_default();
            match reply.failure_errno {
                0 => Ok(reply),
                errno => Err(Errno(errno as i32)),
            }
        })
        .await
    }

    /// Somebody has by way of this client all that it wants of what was kept for it: the rest may go, in all groups that
    /// this client has needed.
    ///
    /// # Errors
    /// Of the first group that could not be told; there it goes in its time.
    pub async fn drop_kept(self: &Rc<Self>, behalf: u64) -> Result<()> {
        let others = self.sessions.others();
        let all = std::iter::once(self.first_session().clone()).chain(others);
        let mut told = Ok(());
        for session in all {
            let drop = op::Op::DropKept(DropKept {
                behalf,
                sessions: Vec::new(),
            });
            let dropped = session.change(self, Cred::default(), drop, false).await;
            told = told.and(dropped.map(|_| ()));
        }
        told
    }
}
