//! What a gateway calls its clients for: CB_NOTIFY_LOCK (RFC 8881, 20).

use super::state::State;
use bytes::Bytes;
use std::rc::Rc;
use tokio::sync::oneshot;
use weft_xdr::nfs4::*;

impl State {
    /// Calls a client, by a task of its own: who waits for it may give up, but a call that was sent has its number. None:
    /// it has not answered.
    async fn call_back(
        self: &Rc<Self>,
        client: u64,
        operation: nfs_cb_argop4,
    ) -> Option<CB_COMPOUND4res> {
        let session = self.session_back(client)?;
        let (done, answer) = oneshot::channel();
        let env = self.env.clone();
        self.env.spawn("call a client", async move {
            let answer = session.back.call(&env, session.id, operation).await;
            // Nobody may be left who waits for it.
            let _ = done.send(answer);
        });
        answer.await.ok().flatten()
    }

    /// Tells a client that a lock which it was refused may be free.
    pub(super) async fn notify_lock(
        self: &Rc<Self>,
        client: u64,
        (cnla_fh, owner): (Bytes, Bytes),
    ) -> Option<nfsstat4> {
        let notify = nfs_cb_argop4::OP_CB_NOTIFY_LOCK(CB_NOTIFY_LOCK4args {
            cnla_fh,
            cnla_lock_owner: lock_owner4 {
                clientid: client,
                owner,
            },
        });
        Some(self.call_back(client, notify).await?.status)
    }
}
