//! The nodes of a cluster, and starting and stopping what runs on them.

mod members;

use super::coverage::Coverage;
use super::workload::{Life, SessionOf, Shared, Worker};
use crate::invariants::no_two_serve::Stance;
use crate::invariants::{Watch, losses_named};
use crate::oracle::history::{ClientId, History, LATE, Outcome, Reply};
use crate::rng::Rng;
use crate::{CoordinatorService, LogLine, Node, World};
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Cred};
use weft_pair::{Mode, PairState};
use weft_types::{Epoch, ROOT_INO};
use weft_wire::proto::Durability;

/// The cluster's id.
pub(crate) const CLUSTER: &str = "sim";
/// Where a data server keeps what it has.
pub(super) const DATA_DIR: &str = "/srv/data";

fn client_name(index: usize) -> String {
    format!("client{index}")
}

/// A client that was killed.
struct Killed {
    client: ClientId,
    node: String,
    /// When it lived.
    within: RangeInclusive<u64>,
}

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Replica groups of metadata servers.
    pub groups: u32,
    /// Metadata servers of each.
    pub members: u32,
    /// Pairs of data servers.
    pub pairs: u32,
    /// Clients.
    pub clients: u32,
    /// Operations that each client does.
    pub operations: usize,
    /// All kinds of them equally often.
    pub even: bool,
    /// The service's term for sessions.
    pub session_term: Duration,
    /// Settings of every client.
    pub client: weft_client::Settings,
    /// Settings of the metadata server.
    pub meta: weft_meta::Settings,
    /// Settings of the data servers.
    pub data: weft_data::Settings,
    /// Bytes that fit on each data server's disk.
    pub room: u64,
    /// What is set on the root directory.
    pub policy: weft_client::Policy,
}

/// Where a running server can be looked at from outside.
type Slot<T> = Rc<RefCell<Option<T>>>;

/// A client that is dead.
struct Dead {
    client: ClientId,
    sessions: Vec<SessionOf>,
    /// The record of their end.
    end: usize,
    /// The newest reign then. Requests are of one reign, and no other takes them.
    reign: Epoch,
}

/// A cluster.
pub struct Cluster {
    /// The world it is in.
    pub world: World,
    /// What it is made of.
    pub shape: Shape,
    /// What its clients share.
    pub shared: Shared,
    /// The metadata servers' nodes, group by group.
    pub meta: Vec<Node>,
    /// What the metadata servers share, if there are several. One alone keeps its view in a file.
    pub coordinator: Option<CoordinatorService>,
    /// The data servers' nodes.
    pub data: Vec<[Node; 2]>,
    /// The clients' nodes.
    pub clients: Vec<Node>,
    watch: Rc<Watch>,
    /// The only metadata server has been started once.
    has_begun: Cell<bool>,
    meta_servers: Vec<Slot<weft_meta::Server>>,
    data_servers: Vec<[Slot<weft_data::Server>; 2]>,
    /// Lives of clients so far.
    next_client: Cell<ClientId>,
    /// The present life of each client, 0 for none.
    lives: RefCell<Vec<ClientId>>,
    /// When each began.
    begun: RefCell<Vec<u64>>,
    killed: RefCell<Vec<Killed>>,
    /// Some files have been laid so that an fsync does not have them on disks.
    pub(super) keeps_in_memory: Cell<bool>,
    /// Operations that each client still has to do.
    left: RefCell<Vec<Rc<Cell<usize>>>>,
    /// Dead clients whose sessions may still be open.
    ending: RefCell<Vec<Dead>>,
    /// The newest reign of the first group that was seen.
    reign: Cell<Epoch>,
    /// Servers that could not be started, with what they said.
    exits: Rc<RefCell<Vec<(String, String)>>>,
}

impl Cluster {
    /// The nodes; nothing runs yet.
    pub fn new(world: &World, shape: Shape) -> Cluster {
        let shared = Shared {
            history: History::default(),
            clock: world.clock(),
            coverage: Coverage::default(),
            stop: Rc::default(),
            finished: Rc::default(),
            root: Rc::new(Cell::new(ROOT_INO.0)),
            lives: Rc::default(),
            spreads: Rc::default(),
            mounts: Rc::default(),
            locks_by_handle: Rc::default(),
            groups: shape.groups,
        };
        let clients = (0..shape.clients)
            .map(|number| world.node(&client_name(number as usize)))
            .collect();
        let data: Vec<[Node; 2]> = (0..shape.pairs)
            .map(|pair| [0, 1].map(|member| world.node(&format!("data{pair}.{member}"))))
            .collect();
        let meta: Vec<Node> = match (shape.groups, shape.members) {
            (1, 1) => vec![world.node("meta")],
            (1, members) => (1..=members)
                .map(|member| world.node(&format!("meta{member}")))
                .collect(),
            (groups, members) => (0..groups)
                .flat_map(|group| (1..=members).map(move |member| (group, member)))
                .map(|(group, member)| world.node(&format!("meta{group}.{member}")))
                .collect(),
        };
        // Whoever installs a server makes its directories.
        for node in &meta {
            node.disk().make_durable_dir(members::DIR);
        }
        for node in data_nodes(&data) {
            node.disk().make_durable_dir(DATA_DIR);
            node.disk().set_capacity(shape.room);
        }
        Cluster {
            world: world.clone(),
            shared,
            meta_servers: meta.iter().map(|_| Slot::default()).collect(),
            coordinator: (meta.len() > 1).then(|| CoordinatorService::new(world)),
            meta,
            data,
            clients,
            watch: Rc::default(),
            has_begun: Cell::new(false),
            data_servers: (0..shape.pairs).map(|_| Default::default()).collect(),
            next_client: Cell::new(1),
            lives: RefCell::new(vec![0; shape.clients as usize]),
            begun: RefCell::new(vec![0; shape.clients as usize]),
            killed: RefCell::default(),
            keeps_in_memory: Cell::new(shape.policy.durability() == Durability::Memory),
            left: RefCell::new(
                (0..shape.clients)
                    .map(|_| Rc::new(Cell::new(shape.operations)))
                    .collect(),
            ),
            ending: RefCell::default(),
            reign: Cell::default(),
            exits: Rc::default(),
            shape,
        }
    }

    /// Servers that could not be started, since the last call: node and reason.
    pub fn take_exits(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.exits.borrow_mut())
    }

    /// Starts (or starts again) a data server.
    pub fn start_data(&self, pair: usize, member: usize) {
        let node = &self.data[pair][member];
        if node.is_running() {
            self.stop_data(pair, member, false);
        }
        let settings = weft_data::Settings {
            dir: DATA_DIR.into(),
            listen: format!("{}:7000", node.name()),
            pair: pair as u32,
            member: member as u32,
            meta: self.meta_addresses(2 * pair + member),
            cluster_id: CLUSTER.into(),
            ..self.shape.data.clone()
        };
        let slot = self.data_servers[pair][member].clone();
        let exits = self.exits.clone();
        let name = node.name();
        node.start(|env| async move {
            let (meta, cluster_id) = (settings.meta.clone(), settings.cluster_id.clone());
            match weft_data::start(env.clone(), settings).await {
                Ok(server) => {
                    let misplaced = server.misplaced();
                    slot.replace(Some(server));
                    let mover = format!("mover at {name}");
                    let moving = weft_mover::run(env, meta, cluster_id, mover);
                    if let Either::Left((why, _)) = select(pin!(misplaced), pin!(moving)).await {
                        slot.take();
                        exits.borrow_mut().push((name, why.to_string()));
                    }
                }
                Err(error) => exits.borrow_mut().push((name, error.to_string())),
            }
        });
    }

    /// Kills a data server, or cuts its machine's power.
    pub fn stop_data(&self, pair: usize, member: usize, power: bool) {
        stop(&self.data[pair][member], power);
        self.data_servers[pair][member].take();
    }

    /// The state of its pair as a data server knows it; none while it does not run.
    pub fn state_at(&self, pair: usize, member: usize) -> Option<PairState> {
        let server = self.data_servers[pair][member].borrow();
        server.as_ref().and_then(weft_data::Server::state)
    }

    /// Looks whether all is as it must be ([`Cluster::verdict`] says it).
    pub fn look(&self) {
        self.watch.look(self);
    }

    /// Looks at who leads, which costs little.
    pub fn look_who_leads(&self) {
        self.watch.look_who_leads(self);
    }

    /// The first thing that was seen not to be as it must.
    ///
    /// # Errors
    /// That.
    pub fn verdict(&self) -> Result<(), String> {
        self.watch.verdict()
    }

    /// What a data server that runs, and does not stand still, would do for a client.
    pub(crate) fn stance(&self, pair: usize, member: usize) -> Option<Stance> {
        if self.data[pair][member].is_paused() {
            return None;
        }
        let server = self.data_servers[pair][member].borrow();
        let server = server.as_ref()?;
        Some(Stance {
            state: server.state()?,
            serves: server.serves(),
            is_sole: server.is_sole(),
        })
    }

    /// What everybody has been told of the pairs.
    pub(crate) fn told_states(&self) -> Vec<(String, PairState)> {
        let mut told = Vec::new();
        if let Some(active) = self.active(0) {
            let server = self.meta_servers[active].borrow();
            let states = server.as_ref().and_then(weft_meta::Server::pair_states);
            let states = states.into_iter().flatten();
            told.extend(states.map(|state| (self.meta[active].name(), state)));
        }
        for (pair, members) in self.data.iter().enumerate() {
            for (member, node) in members.iter().enumerate() {
                told.extend(
                    self.state_at(pair, member)
                        .map(|state| (node.name(), state)),
                );
            }
        }
        for (index, life) in self.living() {
            let states = life.client().pair_states().into_iter();
            told.extend(states.map(|state| (self.clients[index].name(), state)));
        }
        told
    }

    /// The clients that live.
    fn living(&self) -> Vec<(usize, Rc<Life>)> {
        let known = self.shared.lives.borrow();
        let lives = self.lives.borrow();
        let present = lives.iter().enumerate();
        present
            .filter_map(|(index, life)| Some((index, known.get(life)?.clone())))
            .collect()
    }

    /// The leases that living clients believe in.
    pub(crate) fn believed_leases(&self) -> Vec<(usize, weft_client::Believed)> {
        let of = |(index, life): (usize, Rc<Life>)| {
            let leases = life.client().leases().into_iter();
            leases.map(move |believed| (index, believed))
        };
        self.living().into_iter().flat_map(of).collect()
    }

    /// The store of a data server that runs.
    pub fn store_at(&self, pair: usize, member: usize) -> Option<weft_objects::Store> {
        let server = self.data_servers[pair][member].borrow();
        server.as_ref().map(weft_data::Server::store)
    }

    /// A member runs, and its directory is empty: it waits for a place in its pair.
    pub fn waits_for_place(&self, pair: usize, member: usize) -> bool {
        let node = &self.data[pair][member];
        let store = Path::new(DATA_DIR).join("store");
        node.is_running() && node.disk().content(store).is_none()
    }

    /// Both members run and know the pair as BOTH.
    pub fn is_whole(&self, pair: usize) -> bool {
        let runs = |member: usize| {
            let node = &self.data[pair][member];
            node.is_running() && !node.is_paused()
        };
        let states = [0, 1].map(|member| self.state_at(pair, member));
        runs(0)
            && runs(1)
            && match &states {
                [Some(zero), Some(one)] => zero == one && zero.mode == Mode::Both,
                _ => false,
            }
    }

    /// The service leaves a pair as BOTH, with all that it has begun. False while nobody leads.
    pub fn stays_both(&self, pair: usize) -> bool {
        let states = self.active(0).and_then(|active| {
            let server = self.meta_servers[active].borrow();
            server.as_ref()?.pair_states_ahead()
        });
        let mut states = states.into_iter().flatten();
        states
            .any(|state| state.pair == weft_types::PairId(pair as u32) && state.mode == Mode::Both)
    }

    /// What each member of each pair knows, for reports.
    pub fn describe_pairs(&self) -> String {
        let mut text = String::new();
        for pair in 0..self.data.len() {
            for member in 0..2 {
                let node = &self.data[pair][member];
                text.push_str(&format!(
                    "{} running {} state {:?}; ",
                    node.name(),
                    node.is_running(),
                    self.state_at(pair, member)
                ));
            }
        }
        text
    }

    /// Waits until the cluster serves.
    ///
    /// # Errors
    /// If it does not within a minute.
    pub async fn ready(&self) -> Result<(), String> {
        let until = self.world.now() + Duration::from_secs(60);
        while !self.meta_serves() || (0..self.data.len()).any(|pair| !self.is_whole(pair)) {
            if self.world.now() > until {
                return Err(format!(
                    "the cluster does not converge: meta serves {}, exits {:?}, {}, {}",
                    self.meta_serves(),
                    self.exits,
                    self.describe_members(),
                    self.describe_pairs()
                ));
            }
            self.world.sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Starts a new life of a client: it goes on with the operations that are left.
    pub fn start_client(&self, index: usize) {
        let id = self.next_client.get();
        self.next_client.set(id + 1);
        self.lives.borrow_mut()[index] = id;
        self.begun.borrow_mut()[index] = self.shared.clock.now();
        let left = self.left.borrow()[index].clone();
        let shared = self.shared.clone();
        let rng = Rng::stream(self.world.seed(), "workload", u64::from(id));
        let even = self.shape.even;
        let settings = self.client_settings(&client_name(index));
        let is_mount = index < self.shared.mounts.get() as usize;
        let kernel = Rng::stream(self.world.seed(), "kernel", u64::from(id));
        self.clients[index].start(move |env| async move {
            let client = loop {
                match Client::connect(env.clone(), settings.clone()).await {
                    Ok(client) => break client,
                    Err(error) => tracing::info!(%error, "client cannot connect; again"),
                }
            };
            let mut worker = Worker::new(id, env, client, shared.clone(), rng);
            if is_mount && let Err(error) = worker.mount(kernel).await {
                tracing::error!(%error, "a client cannot mount");
            }
            worker.run(&left, even).await;
            if let Err(error) = worker.leave().await {
                tracing::info!(%error, "client left with an error");
            }
            shared.finished.set(shared.finished.get() + 1);
        });
    }

    /// Founds the name space, starts all servers, waits until they serve, sets the policy of the root directory.
    ///
    /// # Errors
    /// If they do not come to serve.
    pub async fn start(&self) -> Result<(), String> {
        self.found().await?;
        self.start_metas();
        for pair in 0..self.data.len() {
            self.start_data(pair, 0);
            self.start_data(pair, 1);
        }
        self.ready().await?;
        if self.coordinator.is_some() {
            self.members_become_whole().await?;
        }
        let env = self.world.node("admin").env();
        let client = Client::connect(env, self.client_settings("admin"))
            .await
            .map_err(|error| format!("the first client cannot connect: {error}"))?;
        let root = Cred {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        client
            .set_policy(&root, client.root(), self.shape.policy)
            .await
            .map_err(|error| format!("the root's policy cannot be set: {error}"))?;
        client
            .close()
            .await
            .map_err(|error| format!("the first client leaves with {error}"))
    }

    /// Settings for a client of this cluster.
    pub fn client_settings(&self, name: &str) -> weft_client::Settings {
        weft_client::Settings {
            meta: self.meta_addresses(name.bytes().map(usize::from).sum()),
            cluster_id: CLUSTER.into(),
            name: name.into(),
            ..self.shape.client.clone()
        }
    }

    /// A number for a client that the scenario starts itself.
    pub fn take_client_id(&self) -> ClientId {
        let id = self.next_client.get();
        self.next_client.set(id + 1);
        id
    }

    /// Kills a client: what it had under way is unknown, what it had not synced may be lost.
    pub fn kill_client(&self, index: usize) {
        let life = std::mem::take(&mut self.lives.borrow_mut()[index]);
        self.clients[index].kill();
        if life != 0 {
            let now = self.shared.clock.now();
            self.killed.borrow_mut().push(Killed {
                client: life,
                node: client_name(index),
                within: self.begun.borrow()[index]..=now,
            });
            let history = &self.shared.history;
            history.client_died(life, now + LATE);
            // One that never got as far as having a session leaves nothing behind.
            if let Some(of) = self.shared.lives.borrow().get(&life) {
                let lost = of.lost_within(now).map_or(now, |(since, _)| since);
                let end = history.client_dies(life, lost, now);
                self.look_who_reigns();
                self.ending.borrow_mut().push(Dead {
                    client: life,
                    sessions: of.sessions(),
                    end,
                    reign: self.reign.get(),
                });
            }
        }
    }

    /// Writes down what clients would be told had they asked, as logs say: what a power cut may have taken, and that
    /// bytes of a client that was killed were lost.
    pub(super) fn note_untold(&self, lines: &[LogLine]) {
        for at in losses_named::forgotten(lines) {
            let in_memory = self.keeps_in_memory.get();
            self.shared.history.forgotten(at, in_memory);
        }
        for killed in self.killed.borrow().iter() {
            let own =
                |line: &&LogLine| line.node == killed.node && killed.within.contains(&line.nanos);
            for ino in losses_named::lost_by_client(lines.iter().filter(own)) {
                self.shared.history.lost_untold(killed.client, ino);
            }
        }
    }

    /// The sessions that the service knows. None while that cannot be told of some group.
    fn open_sessions(&self) -> Option<BTreeSet<SessionOf>> {
        let mut open = BTreeSet::new();
        for group in 0..self.groups() {
            let of_group = self.at_active(group, weft_meta::Server::sessions)??;
            open.extend(of_group.into_iter().map(|session| (group as u32, session)));
        }
        Some(open)
    }

    /// Writes down which sessions there are still, and which ones of dead clients the service has ended
    /// meanwhile: what depends on them is known the better, the closer that is.
    pub fn watch_sessions(&self) {
        let now = self.shared.clock.now();
        let open = self.open_sessions();
        for (_, life) in self.living() {
            life.look(open.as_ref(), now);
        }
        let Some(open) = open else {
            return;
        };
        let leads = self.stances(0).into_iter().filter(|stance| stance.leads);
        let leads = leads.filter_map(|stance| stance.epoch).max();
        self.look_who_reigns();
        let history = &self.shared.history;
        self.ending.borrow_mut().retain(|dead| {
            // What several groups do together may be finished by any of them, later.
            let is_later = leads.is_some_and(|leads| dead.reign < leads);
            if self.groups() == 1 && is_later {
                history.reign_is_over(dead.client, now);
            }
            let is_open = dead.sessions.iter().any(|of| open.contains(of));
            if !is_open {
                history.end(dead.end, Outcome::Known(Reply::Done), now);
                history.client_is_over(dead.client, now);
            }
            is_open
        });
    }

    fn look_who_reigns(&self) {
        let reigns = self
            .stances(0)
            .into_iter()
            .filter_map(|stance| stance.epoch);
        let newest = reigns.max().unwrap_or_default();
        self.reign.set(newest.max(self.reign.get()));
    }

    /// Waits until what dead clients left behind has been cleared up.
    ///
    /// # Errors
    /// If the cluster does not get that far in bounded time.
    pub async fn settle(&self) -> Result<(), String> {
        self.ready().await?;
        let late = Duration::from_nanos(LATE);
        self.world.sleep(self.shape.session_term * 2 + late).await;
        self.ready().await?;
        self.shared.history.settled(self.shared.clock.now());
        Ok(())
    }

    /// True when every client has done what it had to.
    pub fn clients_are_done(&self) -> bool {
        self.left.borrow().iter().all(|left| left.get() == 0)
            && self.shared.finished.get() >= self.shape.clients
    }
}

fn data_nodes(data: &[[Node; 2]]) -> impl Iterator<Item = &Node> {
    data.iter().flatten()
}

fn stop(node: &Node, power: bool) {
    if power {
        node.power_cut();
    } else {
        node.kill();
    }
}
