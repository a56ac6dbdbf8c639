//! What tools ask of a data server: its objects and their checksums, to compare both copies from
//! outside (`weft fsck --data`). Nothing here changes anything, and the two members are asked at
//! different times: a tool that sees a difference looks again.

use crate::forward;
use crate::locks::Kind;
use crate::server::{Node, from_name};
use std::rc::Rc;
use weft_rpc::{Payload, Request};
use weft_types::Region;
use weft_wire::{Failed, Rpc, proto};

/// A tool asks.
pub(crate) fn on_tool(node: &Rc<Node>, request: Request) {
    match request.method {
        proto::ListRequest::METHOD => forward::on_list(node, request),
        proto::ChecksumsRequest::METHOD => on_checksums(node, request),
        _ => request
            .replier
            .fail(Failed::Refused("not a request for a data server".into())),
    }
}

fn on_checksums(node: &Rc<Node>, request: Request) {
    let message: proto::ChecksumsRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("checksums for a tool", async move {
        let summed = async {
            let object = from_name(message.object)?;
            let index = message.region;
            let region = Region { object, index };
            let span = vec![region.run().span()];
            let held = node.locks.enqueue(object, span, Kind::Read);
            held.granted().await;
            let sums = node.store.checksums(object, message.region).await;
            sums.map_err(|error| node.store_failed(error))
        };
        match summed.await {
            Ok(sums) => {
                let reply = proto::ChecksumsReply {
                    checksums: sums.checksums,
                    length: sums.length,
                    exists: sums.exists,
                    unconfirmed: false,
                    holes_until: 0,
                    changing: false,
                    in_doubt: false,
                };
                request
                    .replier
                    .send::<proto::ChecksumsRequest>(&reply, Payload::none());
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}
