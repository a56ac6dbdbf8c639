//! Pairs in every group but the first: which there are and who serves is told by the active of the first
//! group, and journaled, for files are laid by it; the connections of data servers that attend.

use super::{Link, Pair};
use crate::reign::{Core, Meta};
use crate::sessions::Stage;
use std::rc::Rc;
use std::time::Duration;
use weft_pair::PairState;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{FIRST_GROUP, Member, PairId};
use weft_wire::Failed;
use weft_wire::proto::{
    self, AttendReply, AttendRequest, FollowPairsReply, FollowPairsRequest, Identity, MemberReport,
    RegisterRequest, identity::Role, op,
};

/// Who has heard everything is answered after this, so that both sides know that the other is there.
const NEWS_WAIT: Duration = Duration::from_secs(1);
/// An answer takes no longer than that and a round trip.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// A first group that cannot answer is asked again after this.
const RETRY: Duration = Duration::from_millis(50);

/// METHOD 56, to the first group.
pub(crate) fn on_follow(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: FollowPairsRequest,
    replier: Replier,
) {
    if core.pairs.terms.is_none() {
        let why = "the first group decides about pairs: follow that";
        return replier.fail(Failed::Refused(why.into()));
    }
    let meta = meta.clone();
    meta.clone().spawn("pairs told", async move {
        let is_known =
            |core: &Core| request.epoch == core.epoch.0 && request.version == core.pairs.version;
        let news = meta.pairs_published.notified();
        if is_known(&meta.core.borrow()) {
            // Either way what there is then is told.
            let _: Result<(), _> = meta.env.timeout(NEWS_WAIT, news).await;
        }
        let reply = {
            let core = meta.core.borrow();
            FollowPairsReply {
                epoch: core.epoch.0,
                version: core.pairs.version,
                pairs: core.pairs.published(),
                full: core.pairs.full.clone(),
            }
        };
        replier.send::<FollowPairsRequest>(&reply, Payload::none());
    });
}

/// Follows the pairs as long as the reign lasts.
pub(crate) async fn follow(meta: Rc<Meta>) {
    let mut known = FollowPairsRequest::default();
    loop {
        match meta.ask_group(FIRST_GROUP, &known, ANSWER_PATIENCE).await {
            Ok(reply) => {
                known.epoch = reply.epoch;
                known.version = reply.version;
                let core = &mut *meta.core.borrow_mut();
                take(&meta, core, &reply.pairs);
                core.pairs.full = in_order(reply.full);
            }
            Err(failed) => {
                tracing::debug!(%failed, "the first group does not tell the pairs");
                meta.env.sleep(RETRY).await;
            }
        }
    }
}

/// As what looks for numbers in it needs them.
fn in_order(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}

/// The first group has told these states.
fn take(meta: &Rc<Meta>, core: &mut Core, told: &[proto::PairState]) {
    for told in told {
        let state = match PairState::from_proto(told) {
            Ok(state) => state,
            Err(error) => {
                tracing::error!(%error, "the first group tells no state of a pair");
                continue;
            }
        };
        let id = state.pair;
        let journaled = core.state.pair_state(id).map(|journaled| journaled.epoch);
        if journaled.is_none() {
            tracing::info!(pair = %id, "a new pair");
            meta.apply_own(core, op::Op::AddPair(proto::AddPair { pair: id.0 }));
        }
        if state.epoch.0 > journaled.unwrap_or(1) {
            let entry = proto::SetPairState { state: Some(*told) };
            meta.apply_own(core, op::Op::SetPairState(entry));
        }
        match core.pairs.by_id.get_mut(&id) {
            Some(pair) if state.epoch > pair.told.epoch => {
                pair.told = state;
                meta.deletions_changed.notify_one();
            }
            Some(_) => {}
            None => {
                core.pairs.insert(state, meta.env.now());
                let waiting = core.pairs.joining.remove(&id).unwrap_or_default();
                if let Some(pair) = core.pairs.by_id.get_mut(&id) {
                    pair.members = waiting;
                }
            }
        }
    }
}

/// METHOD 55, from a data server.
pub(crate) fn on_attend(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: AttendRequest,
    replier: Replier,
) {
    let Some(member) = Member::from_index(request.member) else {
        return replier.fail(Failed::Refused("a pair has members 0 and 1".into()));
    };
    if core.pairs.terms.is_some() {
        let why = "the first group decides about pairs: data servers register with it";
        return replier.fail(Failed::Refused(why.into()));
    }
    let id = PairId(request.pair);
    connection.set_identity(Identity {
        role: Role::Data as i32,
        id: u64::from(request.pair) * 2 + member.index() as u64,
        incarnation: request.incarnation,
        group: meta.settings.group,
    });
    tracing::info!(pair = %id, %member, peer = connection.peer(), "data server attends");
    let pairs = &mut core.pairs;
    let number = pairs.next_number;
    pairs.next_number += 1;
    let link = Link {
        connection: connection.clone(),
        request: RegisterRequest {
            pair: request.pair,
            member: request.member,
            incarnation: request.incarnation,
            ..RegisterRequest::default()
        },
        replier: None,
        report: MemberReport::default(),
    };
    pairs.links.insert(number, link);
    let members = match pairs.by_id.get_mut(&id) {
        Some(Pair { members, .. }) => members,
        None => pairs.joining.entry(id).or_default(),
    };
    if let Some(before) = members[member.index()].replace(number)
        && let Some(link) = pairs.links.remove(&before)
    {
        link.connection.close("the member attends anew");
    }
    let live = core.sessions.iter();
    let live = live.filter(|(_, live)| live.stage != Stage::Ending);
    let reply = AttendReply {
        live_sessions: live.map(|(session, _)| session.0).collect(),
        fenced_below: core.state.next_session().0,
        meta_addresses: crate::group::addresses(&core.view, meta.settings.group).1,
    };
    // A session that is open here and not committed yet may be void: to call it alive costs nothing.
    replier.send::<AttendRequest>(&reply, Payload::none());
    meta.deletions_changed.notify_one();
}
