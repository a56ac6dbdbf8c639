//! The first group's word about pairs: what `weft-pair`'s keeper decides is journaled and told here.
//!
//! A data server keeps one connection: it registers, then beats; orders go down the same connection.
//! That the connection ends is how its death is seen. A pair that is not known is added when both its
//! members are there.

use super::life::{self, Age};
use super::place;
use super::view::keep_view;
use super::{CLOCK_MAX, Link, MEMBERS, Pair, Suspect, member_of, since};
use crate::reign::{Core, Meta};
use crate::sessions::Stage;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_namespace::State;
use weft_pair::{
    Action, Disk, Mode, PairState, Registration, Said, StoreKey, Word, mode_from_proto,
};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Epoch, Member, NameSpaceId, PairId};
use weft_wire::Failed;
use weft_wire::proto::{
    self, BeatReply, BeatRequest, Identity, MemberReport, PairMembers, PairStates, RecoveredReply,
    RecoveredRequest, RegisterReply, RegisterRequest, ReplaceMemberReply, ReplaceMemberRequest,
    SetStateRequest, SuspectReply, SuspectRequest, View, identity::Role, op,
};

/// A client that suspects a member is answered by then, whatever happened: it asks again.
const SUSPECT_WAIT: Duration = Duration::from_secs(1);
/// Clients that may wait for a pair's next state; more are answered at once.
const SUSPECTS_MAX: usize = 4096;
/// Longest address and store id, in bytes.
const TEXT_MAX: usize = 256;

pub(crate) fn on_register(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: RegisterRequest,
    replier: Replier,
) {
    let Some(member) = Member::from_index(request.member) else {
        return replier.fail(Failed::Refused("a pair has members 0 and 1".into()));
    };
    let texts = [&request.address, &request.store_id];
    if texts
        .iter()
        .any(|text| text.is_empty() || text.len() > TEXT_MAX)
    {
        return replier.fail(Failed::Refused(
            "an address or store id that is none".into(),
        ));
    }
    let pair = PairId(request.pair);
    let store = place::Store {
        name_space: NameSpaceId::from_bytes(&request.name_space),
        key: StoreKey::of(&request.store_id),
        life: request.life,
        offered: request.offered_life,
    };
    if let Err(failed) = place::check(core, pair, member, Some(store)) {
        return replier.fail(failed);
    }
    if life::age(core, pair, member, &store) == Age::Newer {
        if let Some(failed) = core.commits.refusal() {
            return replier.fail(failed);
        }
        life::went_back(meta, core, pair, member, &store);
    }
    let id = u64::from(request.pair) * 2 + member.index() as u64;
    let incarnation = request.incarnation;
    connection.set_identity(Identity {
        role: Role::Data as i32,
        id,
        incarnation,
        group: meta.settings.group,
    });
    tracing::info!(%pair, %member, address = request.address, peer = connection.peer(),
        "data server registers");
    let pairs = &mut core.pairs;
    let number = pairs.next_number;
    pairs.next_number += 1;
    let link = Link {
        connection: connection.clone(),
        request,
        replier: Some(replier),
        report: MemberReport::default(),
    };
    pairs.links.insert(number, link);
    if pairs.by_id.contains_key(&pair) {
        return register(meta, core, pair, member, number);
    }
    let slots = pairs.joining.entry(pair).or_default();
    if let Some(before) = slots[member.index()].replace(number)
        && let Some(link) = pairs.links.remove(&before)
    {
        link.connection.close("the member has registered again");
    }
    if slots.iter().all(Option::is_some) {
        tracing::info!(%pair, "both members of a new pair are there: adding it");
        let (_, sn) = meta.apply_own(core, op::Op::AddPair(proto::AddPair { pair: pair.0 }));
        meta.when_committed(core, sn, move |meta, core, result| {
            if result.is_ok() {
                added(meta, core, pair);
            }
        });
    }
}

/// What the last reign left of the pairs is committed: whoever waits for it is told.
pub(crate) fn inherited(meta: &Rc<Meta>, core: &mut Core) {
    for id in core.pairs.ids() {
        committed(meta, core, id);
    }
}

/// The state that the pair's keeper began with is committed.
fn committed(meta: &Rc<Meta>, core: &mut Core, id: PairId) {
    if let Some(keeper) = core.pairs.keeper(id) {
        let actions = keeper.committed(since(meta.env.now()));
        perform(meta, core, id, actions);
    }
}

/// A new pair is in the journal.
fn added(meta: &Rc<Meta>, core: &mut Core, pair: PairId) {
    if core.pairs.by_id.contains_key(&pair) {
        return;
    }
    let journaled = core.state.pair_state(pair).unwrap_or_default();
    if let Err(bad) = core.pairs.keep(&journaled, meta.env.now()) {
        return tracing::error!(%pair, %bad, "a new pair has no state");
    }
    committed(meta, core, pair);
    let slots = core.pairs.joining.remove(&pair).unwrap_or_default();
    for member in MEMBERS {
        if let Some(number) = slots[member.index()] {
            register(meta, core, pair, member, number);
        }
    }
}

/// A member's store is given up, or taken back before another one has come in its place.
pub(crate) fn on_replace(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: ReplaceMemberRequest,
    replier: Replier,
) {
    let id = PairId(request.pair);
    let Some(member) = Member::from_index(request.member) else {
        return replier.fail(Failed::Refused("a pair has members 0 and 1".into()));
    };
    let Some(pair) = core.pairs.by_id.get(&id) else {
        return replier.fail(Failed::Refused(format!(
            "there is no pair {id}, and no store of it to give up: where it has not been drained, or is let in again, an empty directory may take a place in it"
        )));
    };
    let store = match request.cancel {
        false => pair.to_give_up(id, member, meta.env.now()),
        true if pair.is_replaced(&core.state, id, member) => Ok(0),
        true => Err(format!(
            "member {member} of pair {id} is not being replaced"
        )),
    };
    let store = match store {
        Ok(store) => store,
        Err(why) => return replier.fail(Failed::Refused(why)),
    };
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    let retire = proto::RetireStore {
        pair: id.0,
        member: request.member,
        store,
    };
    let (_, sn) = meta.apply_own(core, op::Op::RetireStore(retire));
    meta.when_committed(core, sn, move |meta, core, result| {
        if let Err(failed) = result {
            return replier.fail(failed);
        }
        if let Some(keeper) = core.pairs.keeper(id) {
            let actions = keeper.given_up(member, !request.cancel, since(meta.env.now()));
            perform(meta, core, id, actions);
        }
        if request.cancel {
            tracing::info!(pair = %id, %member, "the store that was given up is taken back");
        } else {
            tracing::info!(pair = %id, %member, "a member's store is given up");
            let pair = core.pairs.by_id.get(&id);
            let link = pair.and_then(|pair| core.pairs.link_of(pair, member));
            if let Some(connection) = link.map(|link| link.connection.clone()) {
                connection.close("the member is being replaced");
            }
        }
        replier.send::<ReplaceMemberRequest>(&ReplaceMemberReply {}, Payload::none());
    });
}

impl Pair {
    /// The member's store, if it has one that can be given up without loss.
    fn to_give_up(&self, id: PairId, member: Member, now: Mono) -> Result<u64, String> {
        let twin = member.twin();
        if let Some(keeper) = self.keeper.as_ref().filter(|keeper| keeper.is_uncertain()) {
            return match keeper.may_be_given_up(member, since(now)) {
                true => self.known_store(id, member),
                false => Err(format!(
                    "it is not certain who served pair {id} last, and member {twin} is away, or has no part in the pair, or \
                     knows that member {member} served alone: what member {member} has would be lost. Bring both back first"
                )),
            };
        }
        let is_current = match self.published().mode {
            Mode::Both => true,
            Mode::Only(sole) | Mode::Recovering(sole) => sole == twin,
            Mode::Down(_) => false,
        };
        if !is_current || !self.is_present(twin, now) {
            return Err(format!(
                "member {twin} of pair {id} is away or has no current copy: what member {member} has would be \
                 lost. Bring member {twin} back first"
            ));
        }
        self.known_store(id, member)
    }

    fn known_store(&self, id: PairId, member: Member) -> Result<u64, String> {
        let known = self.state().stores[member.index()];
        let store = known.ok_or(format!(
            "member {member} of pair {id} has no store yet: start a server in its place"
        ))?;
        Ok(store.0.get())
    }

    /// The member's store was given up, and no other one has come in its place yet.
    pub(super) fn is_replaced(&self, state: &State, id: PairId, member: Member) -> bool {
        let known = self.state().stores[member.index()];
        known.is_some_and(|known| state.retired_store(id, member) == Some(known.0))
    }
}

/// A pair has been drained and is gone from the state: its members are sent away.
pub(crate) fn removed(meta: &Rc<Meta>, core: &mut Core, id: PairId) {
    let Some(pair) = core.pairs.by_id.remove(&id) else {
        return;
    };
    for number in pair.members.into_iter().flatten() {
        if let Some(link) = core.pairs.links.remove(&number) {
            link.connection.close("the pair was drained and removed");
        }
    }
    for suspect in pair.suspects {
        answer_of_none(suspect.replier);
    }
    let task = meta.clone();
    meta.spawn("view", async move {
        let forget = |core: &Core, view: &mut View| {
            if core.state.is_removed(id) {
                view.pairs.retain(|known| known.pair != id.0);
            }
        };
        if let Err(error) = keep_view(&task, forget).await {
            tracing::error!(%error, "the view still names a pair that was removed");
        }
    });
}

/// Brings a registration before the keeper.
fn register(meta: &Rc<Meta>, core: &mut Core, id: PairId, member: Member, number: u64) {
    core.pairs.mind_the_gap(meta.env.now());
    let pairs = &mut core.pairs;
    let (Some(pair), Some(link)) = (pairs.by_id.get_mut(&id), pairs.links.get(&number)) else {
        return;
    };
    let registration = Registration {
        connection: number,
        incarnation: link.request.incarnation,
        store: StoreKey::of(&link.request.store_id),
        was_serving: link.request.was_serving,
        disk: Disk::from_proto(link.request.disk),
        forgot: link.request.forgot,
        last: Word {
            epoch: Epoch(link.request.last_epoch),
            mode: mode_from_proto(link.request.last_mode, link.request.last_serving),
        },
    };
    let Some(keeper) = &mut pair.keeper else {
        return;
    };
    let actions = keeper.register(member, registration, since(meta.env.now()));
    let refused = actions
        .iter()
        .any(|action| matches!(action, Action::Refuse { connection, .. } if *connection == number));
    if !refused {
        pair.members[member.index()] = Some(number);
        let known = &mut pair.addresses[member.index()];
        if *known != link.request.address {
            known.clone_from(&link.request.address);
            let task = meta.clone();
            meta.spawn("view", async move {
                // Both members may have come at once: each attempt writes what is known by then.
                let record = |core: &Core, view: &mut View| {
                    view.pairs.retain(|known| known.pair != id.0);
                    view.pairs.extend(core.pairs.addresses_of(id));
                    view.pairs.sort_by_key(|known| known.pair);
                };
                if let Err(error) = keep_view(&task, record).await {
                    tracing::error!(%error, "the view does not know a data server's new address");
                }
            });
        }
    }
    perform(meta, core, id, actions);
}

/// Does what a keeper has decided.
pub(super) fn perform(meta: &Rc<Meta>, core: &mut Core, id: PairId, actions: Vec<Action>) {
    for action in actions {
        match action {
            Action::Journal { state, why } => journal(meta, core, id, state, why),
            Action::Welcome { member, connection } => welcome(meta, core, id, member, connection),
            Action::Refuse { connection, why } => {
                if let Some(mut link) = core.pairs.links.remove(&connection) {
                    tracing::warn!(pair = %id, peer = link.connection.peer(), why,
                        "refusing a data server");
                    if let Some(replier) = link.replier.take() {
                        replier.fail(Failed::Refused(why.into()));
                    }
                }
            }
            Action::Tell { member, connection } => tell(meta, core, id, member, connection),
            Action::Close { connection } => {
                if let Some(link) = core.pairs.links.remove(&connection) {
                    link.connection.close("the member has registered again");
                }
            }
            Action::Publish(state) => publish(meta, core, id, state),
        }
    }
    meta.pairs_changed.notify_one();
}

fn journal(meta: &Rc<Meta>, core: &mut Core, id: PairId, state: PairState, why: &'static str) {
    if core.state.pair_state(id).is_none() {
        // Its removal is on its way into the journal. When that is there, its members are sent away.
        return;
    }
    tracing::info!(%state, why, "pair changes");
    if state.forgot == state.epoch {
        tracing::warn!(%state, "a power cut may have taken what was not synced: nobody else has it");
    }
    core.metrics.pair_changes.inc();
    let entry = proto::SetPairState {
        state: Some(state.to_proto()),
    };
    let (reply, sn) = meta.apply_own(core, op::Op::SetPairState(entry));
    if reply.failure_errno != 0 {
        tracing::error!(%state, errno = reply.failure_errno, "the state of a pair is not taken");
        return;
    }
    meta.when_committed(core, sn, move |meta, core, result| {
        if result.is_err() {
            // The journal has failed; nobody is told.
            return;
        }
        let now = since(meta.env.now());
        if let Some(keeper) = core.pairs.keeper(id) {
            let actions = keeper.on_journaled(state.epoch, now);
            perform(meta, core, id, actions);
        }
    });
}

fn welcome(meta: &Rc<Meta>, core: &mut Core, id: PairId, member: Member, number: u64) {
    let live_sessions: Vec<u64> = core
        .sessions
        .iter()
        .filter(|(_, live)| live.stage != Stage::Ending)
        .map(|(session, _)| session.0)
        .collect();
    let fenced_below = core.state.next_session().0;
    let meta_addresses = crate::group::addresses(&core.view, meta.settings.group).1;
    let pairs = &mut core.pairs;
    let Some(pair) = pairs.by_id.get(&id) else {
        return;
    };
    let state = pair.state_for(member);
    let Some(link) = pairs.links.get_mut(&number) else {
        return;
    };
    if let Some(replier) = link.replier.take() {
        let reply = RegisterReply {
            state: state.map(|state| state.to_proto()),
            peer_address: pair.addresses[member.twin().index()].clone(),
            live_sessions,
            fenced_below,
            lease_ms: meta.settings.pair.lease_ms,
            beat_ms: meta.settings.pair.beat_ms,
            name_space: core.view.name_space.clone(),
            meta_addresses,
            groups: core.view.groups.clone(),
            slots: core.view.slots.clone(),
        };
        replier.send::<RegisterRequest>(&reply, Payload::none());
    }
}

fn tell(meta: &Rc<Meta>, core: &mut Core, id: PairId, member: Member, number: u64) {
    let Some(pair) = core.pairs.by_id.get(&id) else {
        return;
    };
    let Some(state) = pair.state_for(member) else {
        return;
    };
    let Some(link) = core.pairs.links.get(&number) else {
        return;
    };
    let order = SetStateRequest {
        state: Some(state.to_proto()),
        peer_address: pair.addresses[member.twin().index()].clone(),
    };
    let connection = link.connection.clone();
    let meta_in_task = meta.clone();
    meta.env.spawn("pair order", async move {
        let meta = meta_in_task;
        match connection.call(&order, Payload::none()).await {
            Ok(_) => {
                let now = since(meta.env.now());
                let core = &mut *meta.core.borrow_mut();
                if let Some(pair) = core.pairs.by_id.get_mut(&id)
                    && pair.members[member.index()] == Some(number)
                    && let Some(keeper) = &mut pair.keeper
                {
                    let actions = keeper.acknowledged(member, state.epoch, now);
                    perform(&meta, core, id, actions);
                }
            }
            Err(weft_rpc::CallError::Lost(_)) => {}
            Err(weft_rpc::CallError::Failed(failed)) => {
                tracing::error!(pair = %id, %member, %state, %failed,
                    "a data server does not take a state");
            }
        }
    });
}

/// The state is in force: clients are told, those that waited are answered.
fn publish(meta: &Meta, core: &mut Core, id: PairId, state: PairState) {
    core.pairs.version += 1;
    meta.pairs_published.notify_waiters();
    let members: Vec<PairMembers> = core.pairs.addresses_of(id).into_iter().collect();
    let push = PairStates {
        states: vec![state.to_proto()],
        members: members.clone(),
    };
    for live in core.sessions.values() {
        if let Some(connection) = &live.connection {
            connection.notify(&push);
        }
    }
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return;
    };
    let waiting = std::mem::take(&mut pair.suspects);
    let (answered, left): (Vec<_>, Vec<_>) = waiting
        .into_iter()
        .partition(|suspect| state.epoch > suspect.epoch);
    pair.suspects = left;
    for suspect in answered {
        let reply = SuspectReply {
            state: Some(state.to_proto()),
            members: members.first().cloned(),
        };
        suspect
            .replier
            .send::<SuspectRequest>(&reply, Payload::none());
    }
}

pub(crate) fn on_beat(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: BeatRequest,
    replier: Replier,
) {
    let id = PairId(request.pair);
    core.pairs.mind_the_gap(meta.env.now());
    let known = Member::from_index(request.member)
        .and_then(|member| Some((member, core.pairs.number_of(id, member, connection)?)));
    let Some((member, number)) = known else {
        return replier.fail(Failed::Refused("a beat without a registration".into()));
    };
    let now = meta.env.now();
    let Some(keeper) = core.pairs.keeper(id) else {
        return replier.fail(Failed::Unavailable("the pair is being added".into()));
    };
    if !keeper.is_welcomed(member, number) {
        return replier.fail(Failed::Refused(
            "a beat before the registration's answer".into(),
        ));
    }
    let mut report = request.report.unwrap_or_default();
    if report.clock_unix_ms > 0 {
        let ours = (meta.env.wall().0 / 1_000_000) as i64;
        report.clock_off_ms = (report.clock_unix_ms as i64).saturating_sub(ours);
    }
    let epoch = Epoch(request.epoch);
    let said = Said {
        twin_lost: request.twin_lost,
        load: report.load,
        disk: Disk::from_proto(request.disk),
    };
    let actions = keeper.beat(member, epoch, said, since(now));
    let state = keeper.state_for(member).map(|state| state.to_proto());
    let again = keeper.is_to_speak_again(member, since(now));
    replier.send::<BeatRequest>(&BeatReply { state, again }, Payload::none());
    core.pairs.heard(id, member, now);
    if let Some(link) = core.pairs.links.get_mut(&number) {
        link.report = report;
    }
    if !actions.is_empty() {
        perform(meta, core, id, actions);
    }
}

pub(crate) fn on_recovered(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: RecoveredRequest,
    replier: Replier,
) {
    core.pairs.mind_the_gap(meta.env.now());
    let id = PairId(request.pair);
    let member = match member_of(connection) {
        Some((pair, member)) if pair == id => member,
        _ => return replier.fail(Failed::Refused("only a member may say that".into())),
    };
    if core.pairs.number_of(id, member, connection).is_none() {
        return replier.fail(Failed::Refused("the member has registered again".into()));
    }
    let Some(keeper) = core.pairs.keeper(id) else {
        return replier.fail(Failed::Refused("there is no such pair".into()));
    };
    let now = since(meta.env.now());
    let actions = keeper.recovered(member, Epoch(request.epoch), now);
    replier.send::<RecoveredRequest>(&RecoveredReply {}, Payload::none());
    perform(meta, core, id, actions);
}

pub(crate) fn on_suspect(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: SuspectRequest,
    replier: Replier,
) {
    core.pairs.mind_the_gap(meta.env.now());
    let id = PairId(request.pair);
    let Some(keeper) = core.pairs.keeper(id) else {
        return answer_of_none(replier);
    };
    // A suspicion proves nothing, but the keeper looks at once.
    let actions = keeper.tick(since(meta.env.now()));
    perform(meta, core, id, actions);
    let epoch = Epoch(request.epoch);
    let number = core.pairs.next_number;
    core.pairs.next_number += 1;
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return;
    };
    pair.suspects.push(Suspect {
        epoch,
        number,
        replier,
    });
    if pair.published().epoch > epoch || pair.suspects.len() > SUSPECTS_MAX {
        return answer_suspect(core, id, number);
    }
    let meta = meta.clone();
    meta.clone().env.spawn("suspicion", async move {
        meta.env.sleep(SUSPECT_WAIT).await;
        answer_suspect(&mut meta.core.borrow_mut(), id, number);
    });
}

/// Answers one that suspects a pair which is not there: it may have been drained and removed since,
/// and nobody need look at that.
fn answer_of_none(replier: Replier) {
    replier.send::<SuspectRequest>(&SuspectReply::default(), Payload::none());
}

/// Answers one that still waits with the state as it is.
fn answer_suspect(core: &mut Core, id: PairId, number: u64) {
    let members = core.pairs.addresses_of(id);
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return;
    };
    let Some(at) = pair
        .suspects
        .iter()
        .position(|suspect| suspect.number == number)
    else {
        return;
    };
    let suspect = pair.suspects.remove(at);
    let state = Some(pair.published().to_proto());
    let reply = SuspectReply { state, members };
    suspect
        .replier
        .send::<SuspectRequest>(&reply, Payload::none());
}

/// Lets time pass for the keepers.
pub(crate) async fn run_clock(meta: Rc<Meta>) {
    loop {
        let now = meta.env.now();
        let wake = {
            let core = &mut *meta.core.borrow_mut();
            core.pairs.mind_the_gap(now);
            core.pairs.pulse = now;
            let wakes = core.pairs.by_id.values();
            wakes
                .filter_map(|pair| pair.keeper.as_ref()?.wake_at(since(now)))
                .min()
        };
        let delay = wake.map_or(CLOCK_MAX, |at| at.saturating_sub(since(now)).min(CLOCK_MAX));
        if meta
            .env
            .timeout(delay, meta.pairs_changed.notified())
            .await
            .is_ok()
        {
            continue;
        }
        let core = &mut *meta.core.borrow_mut();
        core.pairs.mind_the_gap(meta.env.now());
        for id in core.pairs.ids() {
            if let Some(keeper) = core.pairs.keeper(id) {
                let actions = keeper.tick(since(meta.env.now()));
                if !actions.is_empty() {
                    perform(&meta, core, id, actions);
                }
            }
        }
    }
}
