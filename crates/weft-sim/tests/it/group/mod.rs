//! Members of one group in a world, and a client that works on them: what the tests of replica groups share.
#![allow(dead_code, reason = "each test uses its part")]

pub mod operator;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;
use tracing::Level;
use weft_client::{Client, Cred, Settings};
use weft_journal::SyncPolicy;
use weft_meta::{JournalSettings, Server};
use weft_sim::{CoordinatorService, Logs, Node, World};
use weft_types::Sn;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const CLUSTER: &str = "sim";
pub const DIR: &str = "/srv/meta";
/// Of members with others that have just begun.
pub const PATIENCE: Duration = Duration::from_millis(300);

/// The members of one group, each on a node of its own.
pub struct Group {
    pub world: World,
    pub service: CoordinatorService,
    pub nodes: Vec<Node>,
    pub servers: Vec<Rc<RefCell<Option<Server>>>>,
    pub settings: weft_meta::Settings,
    pub exits: Rc<RefCell<Vec<String>>>,
    /// Why members have ended by themselves.
    pub removed: Rc<RefCell<Vec<(usize, String)>>>,
    /// Who is to belong to the group.
    pub belong: RefCell<BTreeSet<usize>>,
    is_founded: Rc<Cell<bool>>,
}

impl Group {
    pub fn new(world: &World, members: u32) -> Rc<Group> {
        Group::with_spares(world, members, 0)
    }

    /// Besides the members that found it there are nodes for others.
    pub fn with_spares(world: &World, members: u32, spares: u32) -> Rc<Group> {
        let nodes: Vec<Node> = (1..=members + spares)
            .map(|member| world.node(&format!("meta{member}")))
            .collect();
        for node in &nodes {
            node.disk().make_durable_dir(DIR);
        }
        Rc::new(Group {
            world: world.clone(),
            service: CoordinatorService::new(world),
            servers: nodes.iter().map(|_| Rc::default()).collect(),
            nodes,
            settings: weft_meta::Settings {
                dir: DIR.into(),
                cluster_id: CLUSTER.into(),
                coordinator: "file:/nowhere".into(),
                members: (1..=members).collect(),
                journal: JournalSettings {
                    sync: SyncPolicy::Group,
                },
                ..weft_meta::Settings::default()
            },
            exits: Rc::default(),
            removed: Rc::default(),
            belong: (0..members as usize).collect::<BTreeSet<_>>().into(),
            is_founded: Rc::default(),
        })
    }

    /// With all members started, each of which counts.
    pub async fn started(world: &World, members: u32) -> Rc<Group> {
        let group = Group::new(world, members);
        group.start_all();
        group.all_count().await;
        group
    }

    pub fn start_all(&self) {
        for member in self.members() {
            self.start(member);
        }
    }

    /// Those that are to belong to the group.
    pub fn members(&self) -> Vec<usize> {
        self.belong.borrow().iter().copied().collect()
    }

    pub fn start(&self, member: usize) {
        self.start_as(member, member as u32 + 1);
    }

    /// Starts the server of a node under this number.
    pub fn start_as(&self, member: usize, number: u32) {
        let settings = weft_meta::Settings {
            member: number,
            listen: self.address(member),
            ..self.settings.clone()
        };
        let (slot, exits) = (self.servers[member].clone(), self.exits.clone());
        let (service, removed) = (self.service.clone(), self.removed.clone());
        let name = self.nodes[member].name();
        let is_founded = self.is_founded.clone();
        self.nodes[member].start(|env| async move {
            let coordinator = Rc::new(service.open_at(&env, &name));
            if !is_founded.get() {
                // As an operator does before any server runs. Of several only the first one.
                let _: Result<_, _> =
                    weft_meta::found_with(&env, &settings, coordinator.clone()).await;
                is_founded.set(true);
            }
            let server = match weft_meta::start_with(env.clone(), settings, coordinator).await {
                Ok(server) => server,
                Err(error) => return exits.borrow_mut().push(error.to_string()),
            };
            let told = server.gone();
            slot.replace(Some(server));
            env.spawn("removal", async move {
                let why = told.await;
                removed.borrow_mut().push((member, why.to_string()));
                // As the process does.
                if let Some(server) = slot.take() {
                    server.stop().await;
                }
            });
        });
    }

    pub fn address(&self, member: usize) -> String {
        format!("meta{}:7400", member + 1)
    }

    pub fn kill(&self, member: usize) {
        self.nodes[member].kill();
        self.servers[member].take();
    }

    pub fn power_cut(&self, member: usize) {
        self.nodes[member].power_cut();
        self.servers[member].take();
    }

    /// Who leads and answers. Never two.
    pub fn active(&self) -> Option<usize> {
        let leads = |member: &usize| {
            let server = self.servers[*member].borrow();
            server.as_ref().is_some_and(Server::leads)
        };
        let all: Vec<usize> = (0..self.nodes.len()).filter(leads).collect();
        assert!(all.len() <= 1, "several lead: {all:?}");
        all.first().copied()
    }

    /// Returns when one of these leads; answers which.
    pub async fn led_by(&self, which: impl Fn(usize) -> bool) -> usize {
        loop {
            if let Some(active) = self.active().filter(|active| which(*active)) {
                return active;
            }
            self.world.sleep(MS).await;
        }
    }

    /// Returns when every member is active or standby.
    pub async fn all_count(&self) {
        let env = self.world.node("operator").env();
        loop {
            let coordinator = self.service.open(&env);
            let view = weft_coordinator::Coordinator::view(&coordinator).await;
            let counts = view.is_ok_and(|view| {
                view.groups.first().is_some_and(|group| {
                    let role = |member: &weft_wire::proto::GroupMember| member.role;
                    group.members.len() == self.belong.borrow().len()
                        && group
                            .members
                            .iter()
                            .map(role)
                            .all(|role| role == 1 || role == 2)
                })
            });
            if counts {
                return;
            }
            self.world.sleep(20 * MS).await;
        }
    }

    /// The last committed batch and the name space of each member.
    pub fn replicas(&self) -> Vec<Option<(Sn, u128)>> {
        let members = self.members().into_iter();
        let replica = |member: usize| {
            self.servers[member]
                .borrow()
                .as_ref()
                .and_then(Server::replica)
        };
        members.map(replica).collect()
    }

    /// Returns when all members have the same name space after the same batch.
    pub async fn all_the_same(&self) {
        let mut last = Vec::new();
        for _ in 0..2_000 {
            last = self.replicas();
            if last[0].is_some() && last.iter().all(|replica| *replica == last[0]) {
                return;
            }
            self.world.sleep(10 * MS).await;
        }
        let parts: Vec<Option<String>> = self
            .servers
            .iter()
            .map(|server| server.borrow().as_ref().map(Server::describe))
            .collect();
        panic!("the members do not become the same: {last:?} {parts:?}");
    }

    pub fn addresses(&self) -> Vec<String> {
        let members = self.members().into_iter();
        members.map(|member| self.address(member)).collect()
    }

    /// Starts two data servers; they are there as long as the answer.
    pub async fn pair(&self) -> Rc<RefCell<Vec<weft_data::Server>>> {
        let servers: Rc<RefCell<Vec<weft_data::Server>>> = Rc::default();
        for member in 0..2 {
            let node = self.world.node(&format!("data{member}"));
            node.disk().make_durable_dir("/srv/data");
            let settings = weft_data::Settings {
                dir: "/srv/data".into(),
                listen: format!("{}:7000", node.name()),
                member,
                meta: self.addresses(),
                cluster_id: CLUSTER.into(),
                ..weft_data::Settings::default()
            };
            let started = servers.clone();
            node.start(|env| async move {
                let server = weft_data::start(env, settings).await.unwrap();
                started.borrow_mut().push(server);
            });
        }
        servers
    }

    pub async fn client(&self, name: &str) -> Client {
        let settings = Settings {
            meta: self.addresses(),
            cluster_id: CLUSTER.into(),
            name: name.to_owned(),
            ..Settings::default()
        };
        let env = self.world.node(name).env();
        Client::connect(env, settings).await.unwrap()
    }
}

/// A client that makes directories one after the other, each of which must be made once.
pub struct Maker {
    pub client: Client,
    pub made: Cell<u32>,
    /// Longest that one took.
    pub longest: Cell<Duration>,
}

impl Maker {
    pub async fn new(group: &Group, name: &str) -> Rc<Maker> {
        Rc::new(Maker {
            client: group.client(name).await,
            made: Cell::new(0),
            longest: Cell::new(Duration::ZERO),
        })
    }

    pub async fn make(&self, world: &World, count: u32) {
        for _ in 0..count {
            let name = format!("d{}", self.made.get());
            let began = world.now();
            let (cred, root) = (Cred::default(), self.client.root());
            let made = self.client.mkdir(&cred, root, name.as_bytes(), 0o755);
            made.await
                .unwrap_or_else(|errno| panic!("{name}: {errno:?}"));
            self.longest
                .set(self.longest.get().max(world.now() - began));
            self.made.set(self.made.get() + 1);
        }
    }

    /// All that was made is there, and nothing else.
    pub async fn check(&self, group: &Group) {
        let reader = group.client("reader").await;
        let cred = Cred::default();
        let handle = reader.opendir(&cred, reader.root()).await.unwrap();
        let mut names = BTreeSet::new();
        let mut cursor = 0;
        loop {
            let entries = reader.readdir(handle, cursor, 1_000, false).await.unwrap();
            let Some(last) = entries.last() else { break };
            cursor = last.cookie;
            names.extend(entries.iter().map(|entry| entry.name.to_vec()));
        }
        reader.releasedir(handle);
        reader.close().await.unwrap();
        let expected: BTreeSet<Vec<u8>> = (0..self.made.get())
            .map(|number| format!("d{number}").into_bytes())
            .collect();
        names.retain(|name| name != b"." && name != b"..");
        assert!(names == expected, "{} of {}", names.len(), expected.len());
    }
}

/// Runs a scenario; what was logged is printed if it fails.
pub fn in_world(seed: u64, scenario: impl AsyncFnOnce(World) + 'static) {
    let logs = Logs::new(Level::TRACE);
    let run = || {
        let world = World::new(seed);
        world.set_limit(900 * SECOND);
        world.clone().block_on(async move { scenario(world).await });
    };
    let ended = catch_unwind(AssertUnwindSafe(|| logs.collect(run)));
    if let Err(panic) = ended {
        for line in logs.lines() {
            println!("{line}");
        }
        println!("seed {seed}");
        resume_unwind(panic);
    }
}
