//! The store's life: by what an older copy of it is known (`docs/protocols/founding.md`).

use crate::server::Node;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{CallError, Payload};
use weft_wire::proto::RenewLifeRequest;

/// An older copy that lacks the changes of less than this may not be known for one. It costs a flush of a small file, and an
/// entry of the journal.
const EVERY: Duration = Duration::from_secs(10);
/// Until the server has registered: what is decided from then on is to be known of the store.
const TO_REGISTER: Duration = Duration::from_millis(20);
/// Until there is somebody who notes it.
const AGAIN: Duration = Duration::from_millis(200);

/// Renews the life once the server has registered, and then every [`EVERY`] in which something was changed.
pub(crate) async fn run(node: Rc<Node>) {
    let mut renewed_at = None;
    loop {
        let changes = node.store.changes();
        let mut pause = EVERY;
        if renewed_at != Some(changes) {
            match renew(&node).await {
                Ok(()) => renewed_at = Some(changes),
                Err(Failed::NobodyThere) => pause = TO_REGISTER,
                Err(Failed::NotNoted) => pause = AGAIN,
                // A full disk is for the operator to see to, and is told by others.
                Err(Failed::NotKept) => {}
            }
        }
        node.env.sleep(pause).await;
    }
}

enum Failed {
    /// It has not registered.
    NobodyThere,
    NotNoted,
    /// The store could not keep it.
    NotKept,
}

async fn renew(node: &Node) -> Result<(), Failed> {
    // Whether an earlier offer was noted is not known, and a copy that was made then has it, too.
    if node.store.identity().offered != 0 {
        offer(node).await?;
    }
    offer(node).await
}

/// Offers the next life, or again the one that was offered last.
async fn offer(node: &Node) -> Result<(), Failed> {
    let connection = node.registration.connection().ok_or(Failed::NobodyThere)?;
    let offered = {
        let _turn = node.store_records.acquire().await;
        kept(node, node.store.offer_life().await)?
    };
    let request = RenewLifeRequest {
        pair: node.pair.0,
        member: node.me.index() as u32,
        store_id: crate::server::store_id(&node.store),
        life: offered,
    };
    if let Err(error) = connection.call(&request, Payload::none()).await {
        tracing::debug!(%error, "the store's life is not noted yet");
        if let CallError::Failed(weft_wire::Failed::Misplaced(why)) = &error {
            node.misplaced(why);
        }
        return Err(Failed::NotNoted);
    }
    let _turn = node.store_records.acquire().await;
    kept(node, node.store.take_life().await)
}

fn kept<T>(node: &Node, result: weft_objects::Result<T>) -> Result<T, Failed> {
    result.map_err(|error| {
        tracing::debug!(%error, "the store's life cannot be kept");
        node.store_failed(error);
        Failed::NotKept
    })
}
