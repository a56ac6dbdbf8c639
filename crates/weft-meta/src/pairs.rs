//! Pairs of data servers: what `weft-pair`'s keeper decides is journaled and told here.
//!
//! A data server keeps one connection: it registers, then beats; orders go down the same connection.
//! That the connection ends is how its death is seen. `docs/protocols/pairs.md` is the specification.
//! A pair that is not known is added when both its members are there.

use crate::MetaError;
use crate::reign::{Core, Meta};
use crate::sessions::Stage;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_coordinator::CoordinatorError;
use weft_env::Mono;
use weft_namespace::State;
use weft_pair::{Action, Keeper, Mode, Now, PairState, Registration, StoreKey, Terms};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Epoch, Member, PairId};
use weft_wire::Failed;
use weft_wire::proto::{
    self, BeatReply, BeatRequest, Identity, MemberReport, MemberStatus, PairMembers, PairStates,
    PairStatus, RecoveredReply, RecoveredRequest, RegisterReply, RegisterRequest,
    ReplaceMemberReply, ReplaceMemberRequest, SetStateRequest, SuspectReply, SuspectRequest, View,
    identity::Role, op,
};

/// A client that suspects a member is answered by then, whatever happened: it asks again.
const SUSPECT_WAIT: Duration = Duration::from_secs(1);
/// Clients that may wait for a pair's next state; more are answered at once.
const SUSPECTS_MAX: usize = 4096;
/// The pairs' clock wakes at least this often, so that it is known when this server stands still.
const CLOCK_MAX: Duration = Duration::from_millis(50);
/// When the clock is this much too late, this server itself stood still, and what waits in its sockets
/// comes late and in any order.
const STALL: Duration = Duration::from_millis(100);
/// For reading what came during a stall, before anything is judged by it.
const STALL_CATCH_UP: Duration = Duration::from_millis(100);
/// Longest address and store id, in bytes.
const TEXT_MAX: usize = 256;
/// A coordinator that is away is asked again after this.
const VIEW_RETRY: Duration = Duration::from_secs(1);

const MEMBERS: [Member; 2] = [Member::Zero, Member::One];

/// One registration and the connection that it came over.
struct Link {
    connection: Connection,
    request: RegisterRequest,
    /// Until it is answered.
    replier: Option<Replier>,
    report: MemberReport,
    heard: Mono,
}

struct Suspect {
    epoch: Epoch,
    number: u64,
    replier: Replier,
}

struct Pair {
    keeper: Keeper,
    /// The newest registration of each member, by the number of its link.
    members: [Option<u64>; 2],
    addresses: [String; 2],
    suspects: Vec<Suspect>,
}

/// All pairs, and the connections of their members.
pub(crate) struct Pairs {
    terms: Terms,
    by_id: BTreeMap<PairId, Pair>,
    links: BTreeMap<u64, Link>,
    /// Members of pairs that are not known yet.
    joining: BTreeMap<PairId, [Option<u64>; 2]>,
    next_number: u64,
    /// When the clock of the pairs ran last.
    pulse: Mono,
}

/// Where an order about objects of a pair goes.
pub(crate) struct Orders {
    /// Who carries it out, with its twin where that takes part in writes.
    pub leader: Connection,
    /// Of the state that is in force.
    pub epoch: Epoch,
}

fn since(now: Mono) -> Now {
    Duration::from_nanos(now.0)
}

impl Pairs {
    /// Takes the pairs over at the start of a reign.
    pub(crate) fn new(state: &State, terms: Terms, now: Mono) -> Result<Pairs, MetaError> {
        let mut pairs = Pairs {
            terms,
            by_id: BTreeMap::new(),
            links: BTreeMap::new(),
            joining: BTreeMap::new(),
            next_number: 1,
            pulse: now,
        };
        for journaled in state.pair_states() {
            let journaled = PairState::from_proto(journaled)
                .map_err(|bad| MetaError::Corrupt(format!("the journal holds {bad}")))?;
            pairs.insert(journaled, now);
        }
        Ok(pairs)
    }

    /// Before anything is brought before a keeper: tells all if this server has stood still.
    fn mind_the_gap(&mut self, now: Mono) {
        let late = now.since(self.pulse).saturating_sub(CLOCK_MAX);
        if late > STALL {
            self.pulse = now;
            tracing::warn!(?late, "this server stood still");
            for pair in self.by_id.values_mut() {
                pair.keeper.stood_still(since(now), STALL_CATCH_UP);
            }
        }
    }

    /// Who may have missed what was dropped meanwhile, being away or not yet recovered, and may yet bring
    /// it back.
    pub(crate) fn missing_member(&self, id: PairId) -> Option<Member> {
        match self.by_id.get(&id)?.keeper.state().mode {
            Mode::Both => None,
            Mode::Only(sole) | Mode::Recovering(sole) | Mode::Down(sole) => Some(sole.twin()),
        }
    }

    fn insert(&mut self, state: PairState, now: Mono) {
        let pair = Pair {
            keeper: Keeper::new(state, self.terms, since(now)),
            members: [None, None],
            addresses: Default::default(),
            suspects: Vec::new(),
        };
        self.by_id.insert(state.pair, pair);
    }

    /// Addresses that the view has kept.
    pub(crate) fn take_addresses(&mut self, view: &View) {
        for known in &view.pairs {
            if let Some(pair) = self.by_id.get_mut(&PairId(known.pair)) {
                for (mine, told) in pair.addresses.iter_mut().zip(&known.addresses) {
                    mine.clone_from(told);
                }
            }
        }
    }

    /// The states that clients may be told, by pair.
    pub(crate) fn published(&self) -> Vec<proto::PairState> {
        self.by_id
            .values()
            .map(|pair| pair.keeper.published().to_proto())
            .collect()
    }

    /// The state of one pair that clients may be told.
    pub(crate) fn published_of(&self, pair: PairId) -> Option<PairState> {
        self.by_id.get(&pair).map(|pair| pair.keeper.published())
    }

    /// All pairs, in order.
    pub(crate) fn ids(&self) -> Vec<PairId> {
        self.by_id.keys().copied().collect()
    }

    fn link_of(&self, pair: &Pair, member: Member) -> Option<&Link> {
        self.links.get(&pair.members[member.index()]?)
    }

    /// Connections of the members that are registered, in order.
    pub(crate) fn connections(&self, pair: PairId) -> Vec<Connection> {
        let Some(pair) = self.by_id.get(&pair) else {
            return Vec::new();
        };
        let links = MEMBERS
            .into_iter()
            .filter_map(|member| self.link_of(pair, member));
        links.map(|link| link.connection.clone()).collect()
    }

    /// Connections of the members that serve, in order.
    pub(crate) fn current_connections(&self, pair: PairId) -> Vec<Connection> {
        let Some(pair) = self.by_id.get(&pair) else {
            return Vec::new();
        };
        let mode = pair.keeper.published().mode;
        let serving = MEMBERS.into_iter().filter(|member| mode.serves(*member));
        let links = serving.filter_map(|member| self.link_of(pair, member));
        links.map(|link| link.connection.clone()).collect()
    }

    /// Whom to give an order about objects. None: nobody can carry it out now.
    pub(crate) fn orders(&self, pair: PairId) -> Option<Orders> {
        let pair = self.by_id.get(&pair)?;
        let state = pair.keeper.published();
        let connection = |member| {
            self.link_of(pair, member)
                .map(|link| link.connection.clone())
        };
        let leader = match state.mode {
            Mode::Both => connection(Member::One).and_then(|_| connection(Member::Zero))?,
            Mode::Only(m) => connection(m)?,
            Mode::Recovering(m) => connection(m.twin()).and_then(|_| connection(m))?,
            Mode::Down(_) => return None,
        };
        Some(Orders {
            leader,
            epoch: state.epoch,
        })
    }

    fn addresses_of(&self, id: PairId) -> Option<PairMembers> {
        let pair = self.by_id.get(&id)?;
        Some(PairMembers {
            pair: id.0,
            addresses: pair.addresses.to_vec(),
        })
    }

    /// Those of all pairs, in order.
    pub(crate) fn addresses(&self) -> Vec<PairMembers> {
        let known = self.by_id.keys();
        known.filter_map(|&id| self.addresses_of(id)).collect()
    }

    /// What `weft status` shows of the pairs.
    pub(crate) fn status(&self, state: &State, now: Mono) -> Vec<PairStatus> {
        let member_status = |id: PairId, pair: &Pair, member: Member| {
            let link = self.link_of(pair, member);
            let mode = pair.keeper.published().mode;
            MemberStatus {
                member: member.index() as u32,
                address: pair.addresses[member.index()].clone(),
                alive: pair.keeper.is_present(member, since(now)),
                current: mode == Mode::Both
                    || mode.sole() == Some(member)
                    || mode == Mode::Down(member),
                report: link.map(|link| link.report.clone()),
                silent_ms: link.map_or(0, |link| now.since(link.heard).as_millis() as u64),
                is_replaced: pair.is_replaced(state, id, member),
            }
        };
        let status = |(id, pair): (&PairId, &Pair)| PairStatus {
            state: Some(pair.keeper.published().to_proto()),
            members: MEMBERS
                .map(|member| member_status(*id, pair, member))
                .to_vec(),
        };
        self.by_id.iter().map(status).collect()
    }

    /// For each pair the newest reports of the members that hold current copies.
    pub(crate) fn reports(&self) -> Vec<Vec<&MemberReport>> {
        let reports = |pair: &Pair| {
            let mode = pair.keeper.published().mode;
            let counts = |member: &Member| match mode {
                Mode::Both => true,
                Mode::Only(m) | Mode::Down(m) => m == *member,
                // What is written goes to both already.
                Mode::Recovering(_) => true,
            };
            let links = MEMBERS
                .into_iter()
                .filter(counts)
                .filter_map(|member| pair.members[member.index()])
                .filter_map(|number| self.links.get(&number));
            links.map(|link| &link.report).collect()
        };
        self.by_id.values().map(reports).collect()
    }

    /// The link of this connection, if the member's newest registration came over it.
    fn number_of(&self, pair: PairId, member: Member, connection: &Connection) -> Option<u64> {
        let slots = match self.by_id.get(&pair) {
            Some(pair) => &pair.members,
            None => self.joining.get(&pair)?,
        };
        let number = slots[member.index()]?;
        let link = self.links.get(&number)?;
        link.connection.same(connection).then_some(number)
    }
}

fn member_of(connection: &Connection) -> Option<(PairId, Member)> {
    let identity = connection.identity();
    if identity.role != Role::Data as i32 {
        return None;
    }
    let pair = u32::try_from(identity.id / 2).ok()?;
    Some((PairId(pair), Member::from_index((identity.id % 2) as u32)?))
}

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
    if core.state.is_removed(pair) {
        return replier.fail(Failed::Refused(format!(
            "pair {pair} was drained and removed: stop this server, or let the pair in again with \
             `weft pair add {pair}`"
        )));
    }
    let retired = core.state.retired_store(pair, member);
    if retired == Some(StoreKey::of(&request.store_id).0) {
        return replier.fail(Failed::Refused(format!(
            "member {member} of pair {pair} is being replaced: stop this server, and start one with an \
             empty directory in its place, or take it back with `weft pair replace {pair} --member \
             {member} --cancel`"
        )));
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
        heard: meta.env.now(),
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

/// A new pair is in the journal.
fn added(meta: &Rc<Meta>, core: &mut Core, pair: PairId) {
    if core.pairs.by_id.contains_key(&pair) {
        return;
    }
    let journaled = core.state.pair_state(pair).unwrap_or_default();
    let Ok(state) = PairState::from_proto(&journaled) else {
        tracing::error!(%pair, "a new pair has no state");
        return;
    };
    core.pairs.insert(state, meta.env.now());
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
        return replier.fail(Failed::Refused(format!("there is no pair {id}")));
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
    meta.when_committed(core, sn, move |_, core, result| {
        if let Err(failed) = result {
            return replier.fail(failed);
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
        let is_current = match self.keeper.published().mode {
            Mode::Both => true,
            Mode::Only(sole) | Mode::Recovering(sole) => sole == twin,
            Mode::Down(_) => false,
        };
        if !is_current || !self.keeper.is_present(twin, since(now)) {
            return Err(format!(
                "member {twin} of pair {id} is away or has no current copy: what member {member} has would be \
                 lost. Bring member {twin} back first"
            ));
        }
        let known = self.keeper.state().stores[member.index()];
        let store = known.ok_or(format!(
            "member {member} of pair {id} has no store yet: start a server in its place"
        ))?;
        Ok(store.0.get())
    }

    /// The member's store was given up, and no other one has come in its place yet.
    fn is_replaced(&self, state: &State, id: PairId, member: Member) -> bool {
        let known = self.keeper.state().stores[member.index()];
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
    };
    let actions = pair
        .keeper
        .register(member, registration, since(meta.env.now()));
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
fn perform(meta: &Rc<Meta>, core: &mut Core, id: PairId, actions: Vec<Action>) {
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
            Action::Publish(state) => publish(core, id, state),
        }
    }
    meta.pairs_changed.notify_one();
}

fn journal(meta: &Rc<Meta>, core: &mut Core, id: PairId, state: PairState, why: &'static str) {
    tracing::info!(%state, why, "pair changes");
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
        if let Some(pair) = core.pairs.by_id.get_mut(&id) {
            let actions = pair.keeper.on_journaled(state.epoch, now);
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
    let state = pair.keeper.state_for(member);
    let Some(link) = pairs.links.get_mut(&number) else {
        return;
    };
    if let Some(replier) = link.replier.take() {
        link.heard = meta.env.now();
        let reply = RegisterReply {
            state: state.map(|state| state.to_proto()),
            peer_address: pair.addresses[member.twin().index()].clone(),
            live_sessions,
            fenced_below,
            lease_ms: meta.settings.pair.lease_ms,
            beat_ms: meta.settings.pair.beat_ms,
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
    let Some(state) = pair.keeper.state_for(member) else {
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
                {
                    let actions = pair.keeper.acknowledged(member, state.epoch, now);
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
fn publish(core: &mut Core, id: PairId, state: PairState) {
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
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return replier.fail(Failed::Unavailable("the pair is being added".into()));
    };
    if !pair.keeper.is_welcomed(member, number) {
        return replier.fail(Failed::Refused(
            "a beat before the registration's answer".into(),
        ));
    }
    let report = request.report.unwrap_or_default();
    let epoch = Epoch(request.epoch);
    let actions = pair
        .keeper
        .beat(member, epoch, request.twin_lost, report.load, since(now));
    let state = pair.keeper.state_for(member).map(|state| state.to_proto());
    replier.send::<BeatRequest>(&BeatReply { state }, Payload::none());
    if let Some(link) = core.pairs.links.get_mut(&number) {
        link.report = report;
        link.heard = now;
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
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return replier.fail(Failed::Refused("there is no such pair".into()));
    };
    let now = since(meta.env.now());
    let actions = pair.keeper.recovered(member, Epoch(request.epoch), now);
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
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return answer_of_none(replier);
    };
    // A suspicion proves nothing, but the keeper looks at once.
    let actions = pair.keeper.tick(since(meta.env.now()));
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
    if pair.keeper.published().epoch > epoch || pair.suspects.len() > SUSPECTS_MAX {
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
    let state = Some(pair.keeper.published().to_proto());
    let reply = SuspectReply { state, members };
    suspect
        .replier
        .send::<SuspectRequest>(&reply, Payload::none());
}

/// A connection has ended: if it was a member's, the keeper must know.
pub(crate) fn on_disconnect(meta: &Rc<Meta>, core: &mut Core, connection: &Connection, why: &str) {
    core.pairs.mind_the_gap(meta.env.now());
    let Some((id, member)) = member_of(connection) else {
        return;
    };
    let Some(number) = core.pairs.number_of(id, member, connection) else {
        core.pairs
            .links
            .retain(|_, link| !link.connection.same(connection));
        return;
    };
    core.pairs.links.remove(&number);
    if let Some(slots) = core.pairs.joining.get_mut(&id) {
        slots[member.index()] = None;
    }
    let Some(pair) = core.pairs.by_id.get_mut(&id) else {
        return;
    };
    pair.members[member.index()] = None;
    let proof = connection.ended_by_peer();
    tracing::info!(pair = %id, %member, proof, why, "a data server's connection is gone");
    let actions = pair
        .keeper
        .connection_lost(member, number, proof, since(meta.env.now()));
    perform(meta, core, id, actions);
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
                .filter_map(|pair| pair.keeper.wake_at(since(now)))
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
            if let Some(pair) = core.pairs.by_id.get_mut(&id) {
                let actions = pair.keeper.tick(since(meta.env.now()));
                if !actions.is_empty() {
                    perform(&meta, core, id, actions);
                }
            }
        }
    }
}

/// Changes the view as [`record_view`] does, as soon as the coordinator is there: nobody else would in this
/// reign.
async fn keep_view(
    meta: &Rc<Meta>,
    change: impl Fn(&Core, &mut View),
) -> Result<(), CoordinatorError> {
    loop {
        match record_view(meta, &change).await {
            Err(CoordinatorError::Unavailable(why)) => {
                tracing::debug!(why, "the view cannot be changed now");
                meta.env.sleep(VIEW_RETRY).await;
            }
            result => return result,
        }
    }
}

/// Changes the view in the coordinator, then here.
async fn record_view(
    meta: &Rc<Meta>,
    change: impl Fn(&Core, &mut View),
) -> Result<(), CoordinatorError> {
    loop {
        let mut view = meta.coordinator.view().await?;
        change(&meta.core.borrow(), &mut view);
        view.version += 1;
        match meta.coordinator.compare_and_set(view).await {
            Ok(view) => {
                let core = &mut *meta.core.borrow_mut();
                if core.view.version < view.version {
                    core.view = view;
                }
                return Ok(());
            }
            Err(CoordinatorError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}
