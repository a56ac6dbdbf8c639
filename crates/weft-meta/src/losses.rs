//! What a dead data server and a dead client have lost together: who may have, for the data servers
//! that name it, and what is, for people (docs/protocols/losses.md).

use crate::reign::{Core, Meta, ROOT};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use weft_namespace::Resolved;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{FILE_BYTES_MAX, Ino, PairId, SessionId, StripeMap};
use weft_wire::Failed;
use weft_wire::proto::{
    self, AcknowledgeReply, AcknowledgeRequest, FileKind, Layout, LeaseMode, LossesReply,
    LossesRequest, Protocol, ReturnedReply, ReturnedRequest, UnsettledReply, UnsettledRequest,
};

/// A data server that does not answer by then is not known.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to get leases back from those who cache a file's size.
const AGAIN: Duration = Duration::from_millis(50);
/// So often that is tried: whoever holds a lease for longer ends with his session.
const ATTEMPTS: u32 = 1_200;
/// Files of a session that are looked at for one of an asynchronous protocol. Who writes more of them
/// is taken to write one.
const FILES_MAX: usize = 1_000;
/// Names that are looked at for the paths of lost files: some tens of milliseconds.
const NAMES_MAX: usize = 200_000;
/// Names of a directory at a time.
const PAGE: usize = 4_096;

/// Writers of such a file may go on with what one member has.
fn is_asynchronous(layout: &Layout) -> bool {
    !matches!(
        layout.protocol(),
        Protocol::ServerSync | Protocol::ClientSync
    )
}

/// The bytes of a file's object on a pair that a session's leases let it write.
pub(crate) fn written_of_object(
    core: &Core,
    session: SessionId,
    ino: Ino,
    layout: &Layout,
    pair: PairId,
) -> proto::ObjectRanges {
    let all = || proto::ObjectRanges {
        ranges: vec![proto::Range {
            start: 0,
            end: u64::MAX,
        }],
    };
    let pairs: Vec<PairId> = layout.pairs.iter().copied().map(PairId).collect();
    let index = pairs.iter().position(|of| *of == pair);
    let map = StripeMap::new(layout.stripe_unit, pairs);
    let (Some(map), Some(index), true) = (map, index, core.state.shares(ino, session)) else {
        return all();
    };
    // The bytes of a pair's object that lie before a place of the file are its first ones.
    let place = |at: u64| match at {
        at if at >= FILE_BYTES_MAX => u64::MAX,
        at => map.object_length(index, at),
    };
    let written = core.ranges.may_have_written(ino, session);
    let ranges = written.iter().map(|range| proto::Range {
        start: place(range.start),
        end: place(range.end),
    });
    proto::ObjectRanges {
        ranges: ranges.filter(|range| range.start < range.end).collect(),
    }
}

/// What the session wrote to the file may be on one member only. Who moves it has the WRITE lease, too, but
/// writes only its copy, to both.
pub(crate) fn may_lack(core: &Core, session: SessionId, layout: &Layout) -> bool {
    is_asynchronous(layout) && !core.state.only_moves(session)
}

fn layout_of(core: &Core, ino: Ino) -> Option<Layout> {
    core.state.inode(ino).ok()?.layout
}

/// METHOD 110.
pub(crate) fn on_unsettled(
    _meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: UnsettledRequest,
    replier: Replier,
) {
    let may_lack_any = |session: SessionId| {
        let written = core.state.write_leases_of(session);
        if written.len() > FILES_MAX {
            return true;
        }
        written.into_iter().any(|ino| {
            layout_of(core, ino).is_some_and(|layout| {
                may_lack(core, session, &layout) && layout.pairs.contains(&request.pair)
            })
        })
    };
    let unsettled = core
        .sessions
        .iter()
        .filter(|(_, live)| live.settled_epoch(PairId(request.pair)) < request.epoch)
        .filter(|(session, _)| may_lack_any(**session));
    let sessions = u32::try_from(unsettled.count()).unwrap_or(u32::MAX);
    replier.send::<UnsettledRequest>(&UnsettledReply { sessions }, Payload::none());
}

/// METHOD 111.
pub(crate) fn on_returned(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: ReturnedRequest,
    replier: Replier,
) {
    let mut inos = request.objects.iter().map(|object| Ino(object.ino));
    if let Some(why) = inos.find_map(|ino| core.look_is_not_here(ino)) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_returned(meta, core, &connection, request, replier);
        };
        return meta.turn_away(core, why, replier, again);
    }
    let task = meta.clone();
    meta.spawn("returned", async move {
        for object in request.objects {
            task.found_again(Ino(object.ino), object.generation).await;
        }
        replier.send::<ReturnedRequest>(&ReturnedReply {}, Payload::none());
    });
}

impl Meta {
    /// More of a file has been found than when its writer's session ended: its size is found again,
    /// unless somebody writes it, who knows better.
    async fn found_again(self: &Rc<Self>, ino: Ino, generation: u32) {
        for _ in 0..ATTEMPTS {
            let is_free = {
                let core = &mut *self.core.borrow_mut();
                let is_it =
                    layout_of(core, ino).is_some_and(|layout| layout.generation == generation);
                if !is_it
                    || core.state.write_lease(ino).is_some()
                    || core.state.is_shared(ino)
                    || core.settling.has(ino)
                {
                    return;
                }
                // Whoever caches its size drops it.
                let to = (LeaseMode::LeaseNone, 0);
                let conflict = self.revoke(core, ino, SessionId(0), to, false);
                conflict.is_none() && core.settling.begin(ino, SessionId(0))
            };
            if is_free {
                return self.settle(SessionId(0), SessionId(0), vec![ino]).await;
            }
            self.env.sleep(AGAIN).await;
        }
    }
}

/// METHOD 112, for tools.
pub(crate) fn on_losses(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: LossesRequest,
    replier: Replier,
) {
    let pairs: Vec<(PairId, Vec<Connection>)> = core
        .pairs
        .ids()
        .into_iter()
        .map(|pair| (pair, core.pairs.current_connections(pair)))
        .collect();
    let meta = meta.clone();
    meta.clone().spawn("losses", async move {
        let env = &meta.env;
        let asked = pairs.iter().map(|(pair, members)| async move {
            let member = members.first()?;
            let call = member.call(&LossesRequest {}, Payload::none());
            match env.timeout(PATIENCE, call).await {
                Ok(Ok((reply, _))) => Some(reply.losses),
                Ok(Err(error)) => {
                    tracing::info!(%pair, %error, "a pair does not tell its losses");
                    None
                }
                Err(_) => None,
            }
        });
        let told = futures_util::future::join_all(asked).await;
        let mut reply = LossesReply::default();
        for ((pair, _), losses) in pairs.iter().zip(told) {
            match losses {
                Some(losses) => reply.losses.extend(losses),
                None => reply.unknown_pairs.push(pair.0),
            }
        }
        locate(&meta.core.borrow(), &mut reply.losses);
        replier.send::<LossesRequest>(&reply, Payload::none());
    });
}

/// Adds to losses where they are in files.
fn locate(core: &Core, losses: &mut [proto::Loss]) {
    let ino_of = |loss: &proto::Loss| Ino(loss.object.unwrap_or_default().ino);
    let wanted: BTreeSet<Ino> = losses.iter().map(ino_of).collect();
    let paths = paths_of(core, wanted);
    for loss in losses {
        let ino = ino_of(loss);
        if let Some(path) = paths.get(&ino) {
            loss.path = path.clone().into();
        }
        let Some(layout) = layout_of(core, ino) else {
            continue;
        };
        let at = layout.pairs.iter().position(|pair| *pair == loss.pair);
        let pairs = layout.pairs.iter().copied().map(PairId).collect();
        if let (Some(at), Some(map)) = (at, StripeMap::new(layout.stripe_unit, pairs)) {
            loss.file_start = map.file_offset(at, loss.start);
            loss.file_end = map.size_from_object(at, loss.end);
        }
    }
}

/// Paths of files, of those that are found among the first names of the name space.
fn paths_of(core: &Core, mut wanted: BTreeSet<Ino>) -> BTreeMap<Ino, Vec<u8>> {
    let root = proto::Cred::default();
    let mut found = BTreeMap::new();
    let mut left = vec![(Ino(ROOT), Vec::new())];
    let mut looked_at = 0;
    while let Some((directory, path)) = left.pop() {
        let mut after = 0;
        while !wanted.is_empty() && looked_at < NAMES_MAX {
            let Ok((entries, end, _)) = core.state.readdir(&root, directory, after, PAGE) else {
                break;
            };
            looked_at += entries.len();
            for entry in &entries {
                after = entry.cookie;
                let mut path: Vec<u8> = path.clone();
                path.push(b'/');
                path.extend_from_slice(&entry.name);
                let ino = Ino(entry.ino);
                if entry.kind == FileKind::Directory as i32 {
                    left.push((ino, path));
                } else if wanted.remove(&ino) {
                    found.insert(ino, path);
                }
            }
            if end || entries.is_empty() {
                break;
            }
        }
    }
    found
}

/// METHOD 113, for tools.
pub(crate) fn on_acknowledge(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: AcknowledgeRequest,
    replier: Replier,
) {
    let mut ino = request.ino;
    if !request.path.is_empty() {
        let whole = proto::Elsewhere {
            rest: request.path,
            ..proto::Elsewhere::default()
        };
        match core.state.resolve(&whole) {
            Ok(Resolved::Here(found)) => ino = found.0,
            Ok(Resolved::Elsewhere(_)) => {
                let why = "the path leads to another group's part of the name space: give the inode's number";
                return replier.fail(Failed::Refused(why.into()));
            }
            Err(errno) => return replier.fail(errno.into()),
        }
    }
    let order = AcknowledgeRequest {
        ino,
        ..AcknowledgeRequest::default()
    };
    let pairs: Vec<(PairId, Vec<Connection>)> = core
        .pairs
        .ids()
        .into_iter()
        .map(|pair| (pair, core.pairs.current_connections(pair)))
        .collect();
    let meta = meta.clone();
    meta.clone().spawn("acknowledge", async move {
        let mut reply = AcknowledgeReply::default();
        for (pair, members) in pairs {
            let calls = members.iter().map(|member| {
                let call = member.call(&order, Payload::none());
                meta.env.timeout(PATIENCE, call)
            });
            let told = futures_util::future::join_all(calls).await;
            let mut ranges = 0;
            let mut is_known = !members.is_empty();
            for answer in told {
                match answer {
                    Ok(Ok((told, _))) => ranges = told.ranges.max(ranges),
                    Ok(Err(_)) | Err(_) => is_known = false,
                }
            }
            reply.ranges += ranges;
            if !is_known {
                reply.unknown_pairs.push(pair.0);
            }
        }
        replier.send::<AcknowledgeRequest>(&reply, Payload::none());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_synchronous_protocols_leave_nothing_on_one_member() {
        for (protocol, may_lack) in [
            (Protocol::ServerAsync, true),
            (Protocol::ClientAsync, true),
            (Protocol::Hybrid, true),
            (Protocol::ServerSync, false),
            (Protocol::ClientSync, false),
        ] {
            let layout = Layout {
                protocol: protocol as i32,
                ..Layout::default()
            };
            assert_eq!(is_asynchronous(&layout), may_lack, "{protocol:?}");
        }
    }
}
