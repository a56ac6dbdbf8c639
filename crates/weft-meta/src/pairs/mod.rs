//! Pairs of data servers, and the connections over which orders go to their members.
//!
//! Who of a pair serves is decided by the first group (`keeping.rs`); every other group is told, and
//! follows (`following.rs`). `docs/protocols/pairs.md` is the specification, `docs/protocols/partition.md`
//! tells what the groups have to do with each other.

mod following;
mod keeping;
mod life;
mod place;
mod view;

pub(crate) use following::{follow, on_attend, on_follow};
pub(crate) use keeping::{
    inherited, on_beat, on_recovered, on_register, on_replace, on_suspect, removed, run_clock,
};
pub(crate) use life::on_renew;
pub(crate) use place::on_place;

use crate::MetaError;
use crate::reign::{Core, Meta};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_namespace::State;
use weft_pair::{BadState, Keeper, Mode, Now, PairState, Terms};
use weft_rpc::{Connection, Replier};
use weft_types::{Epoch, Member, PairId};
use weft_wire::proto::identity::Role;
use weft_wire::proto::{
    self, MemberReport, MemberStatus, PairMembers, PairStatus, RegisterRequest, View,
};

/// The pairs' clock wakes at least this often, so that it is known when this server stands still.
const CLOCK_MAX: Duration = Duration::from_millis(50);
/// When the clock is this much too late, this server itself stood still, and what waits in its sockets
/// comes late and in any order.
const STALL: Duration = Duration::from_millis(100);
/// For reading what came during a stall, before anything is judged by it.
const STALL_CATCH_UP: Duration = Duration::from_millis(100);

const MEMBERS: [Member; 2] = [Member::Zero, Member::One];

/// One registration and the connection that it came over.
struct Link {
    connection: Connection,
    request: RegisterRequest,
    /// Until it is answered.
    replier: Option<Replier>,
    report: MemberReport,
}

struct Suspect {
    epoch: Epoch,
    number: u64,
    replier: Replier,
}

struct Pair {
    /// Of the first group.
    keeper: Option<Keeper>,
    /// Of every other one: what it was told last.
    told: PairState,
    /// The newest registration of each member, by the number of its link.
    members: [Option<u64>; 2],
    /// When each was heard last; those that were not, when this server began to lead.
    heard: [Mono; 2],
    was_heard: [bool; 2],
    addresses: [String; 2],
    suspects: Vec<Suspect>,
}

/// All pairs, and the connections of their members.
pub(crate) struct Pairs {
    /// None: this group follows the first one.
    terms: Option<Terms>,
    by_id: BTreeMap<PairId, Pair>,
    links: BTreeMap<u64, Link>,
    /// Members of pairs that are not known yet.
    joining: BTreeMap<PairId, [Option<u64>; 2]>,
    next_number: u64,
    /// When the clock of the pairs ran last.
    pulse: Mono,
    /// Counts what others that follow have to be told.
    version: u64,
    /// Those with little room, by number, in order: files are laid on others.
    full: Vec<u32>,
    /// A store was newer than this name space, and the numbers have been lifted above what it may know.
    has_skipped: bool,
}

/// Where an order about objects of a pair goes.
pub(crate) struct Orders {
    /// Who carries it out, with its twin where that takes part in writes.
    pub leader: Connection,
    /// Of the state that is in force.
    pub epoch: Epoch,
}

impl Pair {
    /// The state as this group's journal has it, or as it was told.
    fn state(&self) -> PairState {
        self.keeper.as_ref().map_or(self.told, Keeper::state)
    }

    /// The state that is in force, as far as is known here.
    fn published(&self) -> PairState {
        self.keeper.as_ref().map_or(self.told, Keeper::published)
    }

    /// The state that a member may be told.
    fn state_for(&self, member: Member) -> Option<PairState> {
        self.keeper.as_ref()?.state_for(member)
    }

    /// The member is alive, by what this group knows of it.
    fn is_present(&self, member: Member, now: Mono) -> bool {
        match &self.keeper {
            Some(keeper) => keeper.is_present(member, since(now)),
            None => self.members[member.index()].is_some(),
        }
    }
}

fn since(now: Mono) -> Now {
    Duration::from_nanos(now.0)
}

impl Pairs {
    /// Takes the pairs over at the start of a reign. Without terms this group decides nothing about them.
    pub(crate) fn new(state: &State, terms: Option<Terms>, now: Mono) -> Result<Pairs, MetaError> {
        let mut pairs = Pairs {
            terms,
            by_id: BTreeMap::new(),
            links: BTreeMap::new(),
            joining: BTreeMap::new(),
            next_number: 1,
            pulse: now,
            version: 1,
            full: Vec::new(),
            has_skipped: false,
        };
        for journaled in state.pair_states() {
            pairs
                .keep(journaled, now)
                .map_err(|bad| MetaError::Corrupt(format!("the journal holds {bad}")))?;
        }
        for (&id, pair) in &mut pairs.by_id {
            for member in MEMBERS {
                let is_given_up = pair.is_replaced(state, id, member);
                if let Some(keeper) = &mut pair.keeper {
                    // Nothing is decided before what this reign began with is committed.
                    keeper.given_up(member, is_given_up, since(now));
                }
            }
        }
        Ok(pairs)
    }

    /// Entries may be lost that were committed: see [`weft_pair::PairState::uncertain`]. They are marked in the journal.
    pub(crate) fn may_have_lost(&mut self) {
        let keepers = self.by_id.values_mut();
        keepers
            .filter_map(|pair| pair.keeper.as_mut())
            .for_each(Keeper::may_have_lost);
    }

    fn heard(&mut self, id: PairId, member: Member, now: Mono) {
        if let Some(pair) = self.by_id.get_mut(&id) {
            pair.heard[member.index()] = now;
            pair.was_heard[member.index()] = true;
        }
    }

    /// This group's word counts, not another's.
    pub(crate) fn decides(&self) -> bool {
        self.terms.is_some()
    }

    /// Before anything is brought before a keeper: tells all if this server has stood still.
    fn mind_the_gap(&mut self, now: Mono) {
        if !self.decides() {
            return;
        }
        let late = now.since(self.pulse).saturating_sub(CLOCK_MAX);
        if late > STALL {
            self.pulse = now;
            tracing::warn!(?late, "this server stood still");
            let keepers = self.by_id.values_mut();
            for keeper in keepers.filter_map(|pair| pair.keeper.as_mut()) {
                keeper.stood_still(since(now), STALL_CATCH_UP);
            }
        }
    }

    /// Who may have missed what was dropped meanwhile, being away or not yet recovered, and may yet bring
    /// it back.
    pub(crate) fn missing_member(&self, id: PairId) -> Option<Member> {
        match self.by_id.get(&id)?.state().mode {
            Mode::Both => None,
            Mode::Only(sole) | Mode::Recovering(sole) | Mode::Down(sole) => Some(sole.twin()),
        }
    }

    /// A pair as it is journaled.
    fn keep(&mut self, journaled: &proto::PairState, now: Mono) -> Result<(), BadState> {
        let state = PairState::from_proto(journaled)?;
        self.insert(state, now);
        let keeper = self
            .by_id
            .get_mut(&state.pair)
            .and_then(|pair| pair.keeper.as_mut());
        // It is said of one that serves from both copies, too, while nobody has served it.
        if let (Some(keeper), Some(last)) = (keeper, Member::from_index(journaled.serving)) {
            keeper.served_last(last);
        }
        Ok(())
    }

    fn insert(&mut self, state: PairState, now: Mono) {
        let pair = Pair {
            keeper: self
                .terms
                .map(|terms| Keeper::new(state, terms, since(now))),
            told: state,
            members: [None, None],
            heard: [now; 2],
            was_heard: [false; 2],
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
            .map(|pair| pair.published().to_proto())
            .collect()
    }

    /// The state of one pair that clients may be told.
    pub(crate) fn published_of(&self, pair: PairId) -> Option<PairState> {
        self.by_id.get(&pair).map(|pair| pair.published())
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
        let mode = pair.published().mode;
        let serving = MEMBERS.into_iter().filter(|member| mode.serves(*member));
        let links = serving.filter_map(|member| self.link_of(pair, member));
        links.map(|link| link.connection.clone()).collect()
    }

    /// Whom to give an order about objects. None: nobody can carry it out now.
    pub(crate) fn orders(&self, pair: PairId) -> Option<Orders> {
        let pair = self.by_id.get(&pair)?;
        let state = pair.published();
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

    fn keeper(&mut self, id: PairId) -> Option<&mut Keeper> {
        self.by_id.get_mut(&id)?.keeper.as_mut()
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
            let mode = pair.published().mode;
            MemberStatus {
                member: member.index() as u32,
                address: pair.addresses[member.index()].clone(),
                alive: pair.is_present(member, now),
                current: mode == Mode::Both
                    || mode.sole() == Some(member)
                    || mode == Mode::Down(member),
                report: link.map(|link| link.report.clone()),
                silent_ms: now.since(pair.heard[member.index()]).as_millis() as u64,
                is_silent_longer: !pair.was_heard[member.index()],
                is_awaited: pair
                    .keeper
                    .as_ref()
                    .is_some_and(|keeper| keeper.awaits(member)),
                is_replaced: pair.is_replaced(state, id, member),
            }
        };
        let status = |(id, pair): (&PairId, &Pair)| PairStatus {
            state: Some(pair.published().to_proto()),
            members: MEMBERS
                .map(|member| member_status(*id, pair, member))
                .to_vec(),
        };
        self.by_id.iter().map(status).collect()
    }

    /// For each pair the newest reports of the members that hold current copies.
    pub(crate) fn reports(&self) -> Vec<Vec<&MemberReport>> {
        let reports = |pair: &Pair| {
            let mode = pair.published().mode;
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

    /// Pairs with little room, by number, in order.
    pub(crate) fn full(&self) -> &[u32] {
        &self.full
    }

    /// The first group's: notes which pairs have less than `low` percent of their room left. One that is noted stays so until it
    /// has half as much again: what is moved off it is not to come back at once. True if that is news.
    pub(crate) fn note_room(&mut self, low: u64) -> bool {
        let thousandths = |report: &&MemberReport| {
            let free = u128::from(report.free_bytes) * 1_000;
            (report.total_bytes > 0).then(|| (free / u128::from(report.total_bytes)) as u64)
        };
        let ids = self.by_id.keys().copied();
        let free = ids.zip(self.reports()).map(|(id, reports)| {
            let least = reports.iter().filter_map(thousandths).min();
            (id.0, least)
        });
        let is_full = |(id, least): &(u32, Option<u64>)| match (least, self.full.contains(id)) {
            // Nothing is known: as it was.
            (None, was) => was,
            (Some(least), false) => *least < low * 10,
            (Some(least), true) => *least < low * 15,
        };
        let full: Vec<u32> = free.filter(is_full).map(|(id, _)| id).collect();
        let is_news = full != self.full;
        if is_news {
            let filled = full.iter().any(|id| !self.full.contains(id));
            match filled {
                true => {
                    tracing::warn!(pairs = ?full, "pairs with little room: new files are laid on others")
                }
                false => {
                    tracing::info!(pairs = ?full, "pairs have room again; those with little are named")
                }
            }
            self.full = full;
            self.version += 1;
        }
        is_news
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
    if let Some(keeper) = &mut pair.keeper {
        let actions = keeper.connection_lost(member, number, proof, since(meta.env.now()));
        keeping::perform(meta, core, id, actions);
    }
}
