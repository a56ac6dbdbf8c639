//! What the active of a replica group orders over the connection that this server made.

use crate::server::Node;
use std::rc::Rc;
use weft_pair::PairState;
use weft_rpc::{Handler, Payload, Request};
use weft_types::{FIRST_GROUP, GroupId};
use weft_wire::proto::{
    AcknowledgeRequest, DropObjectsRequest, FenceRequest, LossesRequest, ScrubRequest,
    SetStateReply, SetStateRequest,
};
use weft_wire::{Failed, Rpc};

/// Carries out what this group may order: the first one decides about the pair, each one about its own
/// sessions and its files' objects.
pub(crate) fn of_group(node: &Rc<Node>, group: GroupId) -> Handler {
    let weak = Rc::downgrade(node);
    Rc::new(move |_connection, request| {
        let Some(node) = weak.upgrade() else {
            return;
        };
        match request.method {
            SetStateRequest::METHOD | ScrubRequest::METHOD if group != FIRST_GROUP => {
                request.replier.fail(Failed::Refused(format!(
                    "replica group {FIRST_GROUP} decides about pairs, not {group}"
                )));
            }
            SetStateRequest::METHOD => on_set_state(&node, request),
            ScrubRequest::METHOD => crate::scrub::on_scrub(&node, request),
            FenceRequest::METHOD => crate::fence::on_fence(&node, Some(group), request),
            DropObjectsRequest::METHOD => crate::write::on_drop_objects(&node, request),
            LossesRequest::METHOD => crate::losses::on_losses(&node, request),
            AcknowledgeRequest::METHOD => crate::losses::on_acknowledge(&node, request),
            _ => request
                .replier
                .fail(Failed::Refused("not an order for a data server".into())),
        }
    })
}

fn on_set_state(node: &Rc<Node>, request: Request) {
    let message: SetStateRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    match message.state.as_ref().map(PairState::from_proto) {
        Some(Ok(state)) => {
            node.adopt(state, &message.peer_address);
            request
                .replier
                .send::<SetStateRequest>(&SetStateReply {}, Payload::none());
        }
        _ => request
            .replier
            .fail(Failed::Refused("no state of a pair".into())),
    }
}
