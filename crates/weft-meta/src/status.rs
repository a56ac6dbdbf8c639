//! For people and tools: status, explain, space; and the orders that an operator gives.

use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_namespace::Resolved;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, PairId, ROOT_INO};
use weft_wire::Failed;
use weft_wire::proto::{
    Elsewhere, ExplainReply, ExplainRequest, ScrubRequest, StartScrubReply, StartScrubRequest,
    StatfsReply, StatfsRequest, StatusReply, StatusRequest,
};

/// In a name space of at most this many inodes the status shows the digest: taking it walks all of
/// them.
const DIGEST_INODES_MAX: u64 = 10_000;

pub(crate) fn on_status(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: StatusRequest,
    replier: Replier,
) {
    let statistics = core.state.statistics();
    let digest = if statistics.inodes <= DIGEST_INODES_MAX {
        format!("{:032x}", core.state.digest())
    } else {
        String::new()
    };
    let reply = StatusReply {
        view: Some(core.view.clone()),
        pairs: core.pairs.status(&core.state, meta.env.now()),
        epoch: core.epoch.0,
        sn: core.commits.newest().0,
        inodes: statistics.inodes,
        sessions: statistics.sessions,
        deletions_queued: statistics.deletions,
        memory_bytes: statistics.memory_bytes,
        digest,
        removed_pairs: core.state.removed_pairs().map(|pair| pair.0).collect(),
        jobs: core.jobs.statuses(&core.state, meta.env.now()),
        held: core.state.held(None),
    };
    let sn = core.commits.newest();
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<StatusRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// Where a path begins.
fn begins_at(request: &ExplainRequest) -> Ino {
    match request.from {
        0 => ROOT_INO,
        ino => Ino(ino),
    }
}

pub(crate) fn on_explain(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: ExplainRequest,
    replier: Replier,
) {
    if let Some(why) = core.look_is_not_here(begins_at(&request)) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_explain(meta, core, &connection, request, replier);
        };
        return meta.turn_away(core, why, replier, again);
    }
    let begin = Elsewhere {
        ino: request.from,
        rest: request.path,
        within: request.within,
        links: request.links,
    };
    let inode = match core.state.resolve(&begin) {
        Ok(Resolved::Here(ino)) => core.state.inode(ino),
        Ok(Resolved::Elsewhere(elsewhere)) => {
            let reply = ExplainReply {
                elsewhere: Some(elsewhere),
                ..ExplainReply::default()
            };
            return replier.send::<ExplainRequest>(&reply, Payload::none());
        }
        Err(errno) => Err(errno),
    };
    let inode = match inode {
        Ok(inode) => inode,
        Err(errno) => return replier.fail(errno.into()),
    };
    let layout_pairs = inode.layout.iter().flat_map(|layout| layout.pairs.iter());
    let pairs = layout_pairs
        .filter_map(|pair| core.pairs.published_of(PairId(*pair)))
        .map(|state| state.to_proto())
        .collect();
    let ino = Ino(inode.attr.as_ref().map_or(0, |attr| attr.ino));
    let writer = core.state.write_lease(ino).map_or(0, |session| session.0);
    let reply = ExplainReply {
        inode: Some(inode),
        pairs,
        writer,
        elsewhere: None,
    };
    replier.send::<ExplainRequest>(&reply, Payload::none());
}

/// Free and whole space: of each pair what the smaller of its current members has.
pub(crate) fn on_statfs(
    _meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: StatfsRequest,
    replier: Replier,
) {
    let (mut total_bytes, mut free_bytes) = (0u64, 0u64);
    for members in core.pairs.reports() {
        let total = members
            .iter()
            .map(|report| report.total_bytes)
            .min()
            .unwrap_or(0);
        let free = members
            .iter()
            .map(|report| report.free_bytes)
            .min()
            .unwrap_or(0);
        total_bytes = total_bytes.saturating_add(total);
        free_bytes = free_bytes.saturating_add(free);
    }
    let inodes = core.state.statistics().inodes;
    let reply = StatfsReply {
        total_bytes,
        free_bytes,
        inodes,
    };
    replier.send::<StatfsRequest>(&reply, Payload::none());
}

/// Passes the order on to the members of a pair; how it goes on is in the status.
pub(crate) fn on_start_scrub(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: StartScrubRequest,
    replier: Replier,
) {
    let pair = PairId(request.pair);
    if core.pairs.published_of(pair).is_none() {
        return replier.fail(Failed::Refused(format!("there is no pair {pair}")));
    }
    let members = if request.compare {
        // One of the two compares; both would do the same work twice.
        core.pairs
            .orders(pair)
            .map(|orders| orders.leader)
            .into_iter()
            .collect()
    } else {
        core.pairs.connections(pair)
    };
    if members.is_empty() {
        return replier.fail(Failed::Unavailable("no member of the pair is there".into()));
    }
    let order = ScrubRequest {
        compare: request.compare,
    };
    meta.env.spawn("scrub order", async move {
        let calls = members
            .iter()
            .map(|member| member.call(&order, Payload::none()));
        let failed: Vec<String> = futures_util::future::join_all(calls)
            .await
            .into_iter()
            .filter_map(|result| result.err().map(|error| error.to_string()))
            .collect();
        if failed.is_empty() {
            replier.send::<StartScrubRequest>(&StartScrubReply {}, Payload::none());
        } else {
            replier.fail(Failed::Unavailable(failed.join("; ")));
        }
    });
}
