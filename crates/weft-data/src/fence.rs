//! The end of a session: it is refused from now on, and what it was writing is made equal on both
//! members before anybody else may write there (docs/protocols/leases.md).

use crate::link::TwinError;
use crate::marks::regions_in;
use crate::server::{Node, from_name, to_name};
use crate::settle::{self, Manner, Unsettled};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_pair::recovery::Region;
use weft_pair::{Mode, PairState};
use weft_rpc::{Payload, Request};
use weft_types::ObjectId;
use weft_wire::Failed;
use weft_wire::proto;

/// Wait before a settling that the pair's state interrupted is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// Attempts before the metadata service is asked to come again: it knows the pair's state best.
const ATTEMPTS: u32 = 100;

/// METHOD 51, from the metadata service and (to refuse the session only) from the twin.
pub(crate) fn on_fence(node: &Rc<Node>, request: weft_rpc::Request) {
    let message: proto::FenceRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let request: Request = request;
    // Without a session only the lengths are wanted.
    if message.session != 0 {
        node.sessions.borrow_mut().fence(message.session);
        node.marks.session_ended(message.session);
    }
    if message.refuse_only {
        return request
            .replier
            .send::<proto::FenceRequest>(&proto::FenceReply::default(), Payload::none());
    }
    let node = node.clone();
    node.clone().spawn("fence", async move {
        match fence(&node, &message).await {
            Ok(lengths) => {
                let reply = proto::FenceReply { lengths };
                request
                    .replier
                    .send::<proto::FenceRequest>(&reply, Payload::none());
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

async fn fence(node: &Rc<Node>, message: &proto::FenceRequest) -> Result<Vec<u64>, Failed> {
    let objects = message
        .objects
        .iter()
        .map(|name| from_name(Some(*name)))
        .collect::<Result<Vec<ObjectId>, Failed>>()?;
    let mut last = Failed::Unavailable("the pair's state is not known here".into());
    for _ in 0..ATTEMPTS {
        let serves = node.side.borrow().serves(node.now());
        let tried = match serves {
            Ok(state) => settle_all(node, &state, message.session, &objects).await,
            Err(refusal) => return Err(refusal.into()),
        };
        match tried {
            Ok(lengths) => return Ok(lengths),
            Err(Unsettled::Stale | Unsettled::Lost) => {
                last = Failed::Unavailable("the twin cannot be reached".into());
            }
            Err(Unsettled::Unconfirmed) => {
                last = Failed::Unavailable("a client's copies are on their way".into());
            }
            Err(Unsettled::Errno(errno)) => last = Failed::Errno(errno),
            Err(_) => last = Failed::Errno(libc::EIO),
        }
        node.env.sleep(AGAIN).await;
    }
    Err(last)
}

async fn settle_all(
    node: &Rc<Node>,
    state: &PairState,
    session: u64,
    objects: &[ObjectId],
) -> Result<Vec<u64>, Unsettled> {
    let with_twin = match state.mode {
        Mode::Both => true,
        mode => mode == Mode::Recovering(node.me),
    };
    if with_twin && session != 0 {
        let refuse = proto::FenceRequest {
            session,
            refuse_only: true,
            ..Default::default()
        };
        node.link.call(&refuse, Payload::none()).await?;
    }
    let mut lengths = Vec::with_capacity(objects.len());
    for &object in objects {
        if with_twin {
            for region in dirty_on_either(node, state, object).await? {
                // Other sessions may be writing the object, and send copies to the twin themselves.
                let manner = Manner {
                    carefully: true,
                    ..settle::from_here(node)
                };
                settle::settle_region(node, state.epoch, region, manner).await?;
            }
        }
        // Writes of the session that were in progress have ended: they hold their blocks.
        let all = vec![crate::locks::WHOLE];
        let held = node.locks.enqueue(object, all, crate::locks::Kind::Read);
        held.granted().await;
        let length = node.store.length(object).await;
        lengths.push(length.map_err(|error| Unsettled::Errno(error.errno()))?);
    }
    if node.side.borrow().epoch() != state.epoch {
        return Err(Unsettled::Stale);
    }
    Ok(lengths)
}

/// The regions of an object that are in one of the two modified lists.
pub(crate) async fn dirty_on_either(
    node: &Rc<Node>,
    state: &PairState,
    object: ObjectId,
) -> Result<BTreeSet<Region>, Unsettled> {
    let request = proto::DirtyRequest {
        epoch: state.epoch.0,
        only: Some(to_name(object)),
        ..Default::default()
    };
    let theirs: Result<_, TwinError> = node.link.call(&request, Payload::none()).await;
    let (theirs, _) = theirs?;
    let mut regions: BTreeSet<Region> = regions_in(&theirs.objects).into_iter().collect();
    let ours = node.store.dirty_regions(object).into_iter().flatten();
    regions.extend(ours.map(|index| Region { object, index }));
    Ok(regions)
}
