//! What a gateway calls its clients for: CB_RECALL, CB_GETATTR, CB_NOTIFY_LOCK (RFC 8881, 20).

use super::attributes::{bitmap_of, has};
use super::state::{State, delegation_id};
use crate::delegations::{Holder, Kept};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use weft_xdr::nfs4::*;
use weft_xdr::{DecodeError, Decoder};

/// A client that does not know what it is asked for may not have heard yet that it was given it: the answer that says
/// so may be on its way. It is asked again after this...
const AGAIN: Duration = Duration::from_millis(100);
/// ... so many times: for longer than answers are on their way, and not beyond the patience with delegations.
const TRIES: u32 = 20;

/// A client that has been given a file.
pub(super) struct InHands {
    pub state: Weak<State>,
    pub client: u64,
    pub number: u32,
    /// As whom the metadata service knows the client.
    pub behalf: u64,
    pub ino: u64,
    /// Of the file.
    pub handle: Bytes,
    /// Where its changes stood when it was given: what the client says as long as it keeps none.
    pub change: changeid4,
}

/// What a client says of a file: where its changes stand, and how large it is.
fn told(attributes: &fattr4) -> Result<Option<(changeid4, u64)>, DecodeError> {
    let mut values = Decoder::new(attributes.attr_vals.clone());
    let asked = bitmap_of([FATTR4_CHANGE, FATTR4_SIZE]);
    if attributes.attrmask.iter().zip(0..).any(|(word, at)| {
        let allowed = asked.get(at).copied().unwrap_or(0);
        word & !allowed != 0
    }) {
        return Ok(None);
    }
    let both = has(&attributes.attrmask, FATTR4_CHANGE) && has(&attributes.attrmask, FATTR4_SIZE);
    match both {
        true => Ok(Some((values.u64()?, values.u64()?))),
        false => Ok(None),
    }
}

impl Holder for InHands {
    fn recall(&self) {
        if let Some(state) = self.state.upgrade() {
            state.recall((self.client, self.number), self.handle.clone());
        }
    }

    fn has_it_no_more(&self) {
        if let Some(state) = self.state.upgrade() {
            state.keep_file_no_more((self.client, self.behalf), self.ino);
        }
    }

    fn ask(&self) -> LocalBoxFuture<'static, Option<Kept>> {
        let (state, client, change) = (self.state.clone(), self.client, self.change);
        let fh = self.handle.clone();
        async move {
            let (at, size) = state.upgrade()?.attributes_at(client, fh).await?;
            Some(Kept {
                size,
                is_changed: at != change,
            })
        }
        .boxed_local()
    }
}

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

    /// Asks a client for a file.
    fn recall(self: &Rc<Self>, (client, number): (u64, u32), fh: Bytes) {
        let recall = nfs_cb_argop4::OP_CB_RECALL(CB_RECALL4args {
            stateid: delegation_id(client, number),
            truncate: false,
            fh,
        });
        let state = self.clone();
        self.env.spawn("recall", async move {
            for _ in 0..TRIES {
                let answer = state.call_back(client, recall.clone()).await;
                let status = answer.map(|answer| answer.status);
                tracing::debug!(client, number, ?status, "a client was asked for a file");
                match status {
                    None | Some(nfsstat4::NFS4_OK) => return,
                    Some(_) => state.env.sleep(AGAIN).await,
                }
                if !state.has_in_hands(client, number) {
                    return;
                }
            }
        });
    }

    /// What a file is like at a client that has it for writing.
    async fn attributes_at(self: &Rc<Self>, client: u64, fh: Bytes) -> Option<(changeid4, u64)> {
        let get = nfs_cb_argop4::OP_CB_GETATTR(CB_GETATTR4args {
            fh,
            attr_request: bitmap_of([FATTR4_CHANGE, FATTR4_SIZE]),
        });
        let answer = self.call_back(client, get).await?;
        let Some(nfs_cb_resop4::OP_CB_GETATTR(CB_GETATTR4res::NFS4_OK(found))) =
            answer.resarray.last()
        else {
            tracing::debug!(client, status = ?answer.status, "a client does not say what it keeps");
            return None;
        };
        told(&found.obj_attributes).ok().flatten()
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

#[cfg(test)]
mod tests {
    use super::*;
    use weft_xdr::Encoder;

    #[test]
    fn what_a_client_says_of_a_file_is_taken_if_it_is_what_was_asked() {
        let said = |numbers: &[u32], values: &[u64]| {
            let mut out = Encoder::default();
            values.iter().for_each(|value| out.u64(*value));
            told(&fattr4 {
                attrmask: bitmap_of(numbers.iter().copied()),
                attr_vals: out.joined(),
            })
        };
        assert_eq!(
            said(&[FATTR4_CHANGE, FATTR4_SIZE], &[7, 9]),
            Ok(Some((7, 9)))
        );
        assert_eq!(said(&[FATTR4_CHANGE], &[7]), Ok(None));
        assert_eq!(
            said(&[FATTR4_TYPE, FATTR4_CHANGE, FATTR4_SIZE], &[1, 7, 9]),
            Ok(None)
        );
        assert!(said(&[FATTR4_CHANGE, FATTR4_SIZE], &[7]).is_err());
    }
}
