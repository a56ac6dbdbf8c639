//! The end of a session: it is refused from now on, and what it was writing is made equal on both
//! members before anybody else may write there (docs/protocols/leases.md).

use crate::alone::minus;
use crate::listed;
use crate::losses;
use crate::marks::joined;
use crate::server::{Node, from_name};
use crate::settle::{self, Manner, Unsettled};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_pair::{Mode, PairState};
use weft_rpc::{Payload, Request};
use weft_types::{GroupId, ObjectId, Regions, Run, SessionId};
use weft_wire::Failed;
use weft_wire::proto;

/// Wait before a settling that the pair's state interrupted is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// Attempts before the metadata service is asked to come again: it knows the pair's state best.
const ATTEMPTS: u32 = 100;

/// A replica group has told, asked in this round (see `sessions.rs`), which of its sessions live, and that
/// all others below a number have ended.
pub(crate) fn sessions_told(
    node: &Node,
    (group, round): (GroupId, u64),
    fenced_below: u64,
    live: Vec<u64>,
) {
    let sessions = &mut *node.sessions.borrow_mut();
    sessions.told(group, round, fenced_below, live);
    for session in node.marks.awaited() {
        if sessions.is_fenced(session) {
            node.marks.session_ended(session);
        }
    }
}

/// METHOD 51, from the active of a group, and (to refuse the session only) from the twin: then `by` is
/// None.
pub(crate) fn on_fence(node: &Rc<Node>, by: Option<GroupId>, request: Request) {
    let message: proto::FenceRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let whose = SessionId(message.session).group();
    if let Some(by) = by.filter(|by| message.session != 0 && *by != whose) {
        let session = message.session;
        return request.replier.fail(Failed::Refused(format!(
            "session {session} is with replica group {whose}, which alone ends it, not {by}"
        )));
    }
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
            Ok(state) => settle_all(node, &state, message, &objects).await,
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
    message: &proto::FenceRequest,
    objects: &[ObjectId],
) -> Result<Vec<u64>, Unsettled> {
    let session = message.session;
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
    for (at, &object) in objects.iter().enumerate() {
        if losses::is_suspect(node, message, at) {
            let within = losses::bounds(message, at);
            losses::note(node, state, session, object, &within).await?;
            if with_twin && !state.fill_all {
                // It is back already, and not filled before this is settled.
                losses::bring_back(node, state.epoch, object).await?;
            }
        }
        if with_twin {
            let (regions, only_there) = differing(node, state, session, object).await?;
            if session != 0 && state.mode == Mode::Both {
                // The client went on with what the other member has: nobody has it but that.
                losses::take_from_twin(node, state.epoch, object, &only_there).await?;
            }
            // Other sessions may be writing the object, and send copies to the twin themselves.
            let manner = Manner {
                carefully: true,
                ..settle::from_here(node)
            };
            for regions in regions.runs() {
                let mut run = Run {
                    object,
                    regions: regions.clone(),
                };
                while !run.regions.is_empty() {
                    let compared = settle::settle(node, state.epoch, &run, manner).await?;
                    run.regions.start = compared.upto;
                }
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

/// The regions of an object that are in one of the two modified lists; and the bytes that the client
/// whose session has ended had sent to the other member and, as far as is known, not to this one.
async fn differing(
    node: &Rc<Node>,
    state: &PairState,
    session: u64,
    object: ObjectId,
) -> Result<(Regions, Vec<Range<u64>>), Unsettled> {
    let theirs = listed::of_twin(node, state.epoch, Some((object, session))).await?;
    let ours = node.store.dirty_regions(object);
    let regions = theirs.runs.into_iter().map(|run| run.regions).chain(ours);
    let here = node.marks.not_older_than(session, object);
    let only_there = minus(joined(theirs.left.into_iter()), &here);
    Ok((regions.collect(), only_there))
}
