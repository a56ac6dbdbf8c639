//! Replica groups of metadata servers: whoever of them is killed, hangs, is cut off or loses its disk, what
//! was acknowledged is there, once, and the others go on.
#![allow(clippy::unwrap_used, clippy::disallowed_macros)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tracing::Level;
use weft_client::{Client, Cred, Settings};
use weft_journal::SyncPolicy;
use weft_meta::{JournalSettings, Server};
use weft_sim::{CoordinatorFaults, CoordinatorService, Logs, Node, World};
use weft_types::Sn;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const CLUSTER: &str = "sim";
const DIR: &str = "/srv/meta";
/// Beats and patience of the members.
const PATIENCE: Duration = Duration::from_millis(300);
/// What an application waits at most when the active says nothing any more: the patience, what is left of
/// its lease then, and what it takes to find who leads.
const PAUSE_MAX: Duration = Duration::from_millis(600);

/// The members of one group, each on a node of its own.
struct Group {
    world: World,
    service: CoordinatorService,
    nodes: Vec<Node>,
    servers: Vec<Rc<RefCell<Option<Server>>>>,
    settings: weft_meta::Settings,
    exits: Rc<RefCell<Vec<String>>>,
}

impl Group {
    fn new(world: &World, members: u32) -> Rc<Group> {
        let nodes: Vec<Node> = (1..=members)
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
        })
    }

    /// With all members started, each of which counts.
    async fn started(world: &World, members: u32) -> Rc<Group> {
        let group = Group::new(world, members);
        group.start_all();
        group.all_count().await;
        group
    }

    fn start_all(&self) {
        for member in 0..self.nodes.len() {
            self.start(member);
        }
    }

    fn start(&self, member: usize) {
        let settings = weft_meta::Settings {
            member: member as u32 + 1,
            listen: self.address(member),
            ..self.settings.clone()
        };
        let (slot, exits) = (self.servers[member].clone(), self.exits.clone());
        let service = self.service.clone();
        self.nodes[member].start(|env| async move {
            let coordinator = Rc::new(service.open(&env));
            match weft_meta::start_with(env, settings, coordinator).await {
                Ok(server) => drop(slot.replace(Some(server))),
                Err(error) => exits.borrow_mut().push(error.to_string()),
            }
        });
    }

    fn address(&self, member: usize) -> String {
        format!("meta{}:7400", member + 1)
    }

    fn kill(&self, member: usize) {
        self.nodes[member].kill();
        self.servers[member].take();
    }

    fn power_cut(&self, member: usize) {
        self.nodes[member].power_cut();
        self.servers[member].take();
    }

    /// Who leads and answers. Never two.
    fn active(&self) -> Option<usize> {
        let leads = |member: &usize| {
            let server = self.servers[*member].borrow();
            server.as_ref().is_some_and(Server::leads)
        };
        let all: Vec<usize> = (0..self.nodes.len()).filter(leads).collect();
        assert!(all.len() <= 1, "several lead: {all:?}");
        all.first().copied()
    }

    /// Returns when one of these leads; answers which.
    async fn led_by(&self, which: impl Fn(usize) -> bool) -> usize {
        loop {
            if let Some(active) = self.active().filter(|active| which(*active)) {
                return active;
            }
            self.world.sleep(MS).await;
        }
    }

    /// Returns when every member is active or standby.
    async fn all_count(&self) {
        let env = self.world.node("operator").env();
        loop {
            let coordinator = self.service.open(&env);
            let view = weft_coordinator::Coordinator::view(&coordinator).await;
            let counts = view.is_ok_and(|view| {
                view.groups.first().is_some_and(|group| {
                    let role = |member: &weft_wire::proto::GroupMember| member.role;
                    group.members.len() == self.nodes.len()
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
    fn replicas(&self) -> Vec<Option<(Sn, u128)>> {
        let replica = |server: &Rc<RefCell<Option<Server>>>| {
            server.borrow().as_ref().and_then(Server::replica)
        };
        self.servers.iter().map(replica).collect()
    }

    /// Returns when all members have the same name space after the same batch.
    async fn all_the_same(&self) {
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

    fn addresses(&self) -> Vec<String> {
        (0..self.nodes.len())
            .map(|member| self.address(member))
            .collect()
    }

    /// Starts two data servers; they are there as long as the answer.
    async fn pair(&self) -> Rc<RefCell<Vec<weft_data::Server>>> {
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

    async fn client(&self, name: &str) -> Client {
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
struct Maker {
    client: Client,
    made: Cell<u32>,
    /// Longest that one took.
    longest: Cell<Duration>,
}

impl Maker {
    async fn new(group: &Group, name: &str) -> Rc<Maker> {
        Rc::new(Maker {
            client: group.client(name).await,
            made: Cell::new(0),
            longest: Cell::new(Duration::ZERO),
        })
    }

    async fn make(&self, world: &World, count: u32) {
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
    async fn check(&self, group: &Group) {
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
fn in_world(seed: u64, scenario: impl AsyncFnOnce(World) + 'static) {
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

#[test]
fn a_killed_active_is_replaced_in_tens_of_milliseconds() {
    // A member that hears of the end of the process only after it has told the candidate what it had
    // promised keeps that promise for its time: a few of a thousand kills here.
    let late = Rc::new(Cell::new(0));
    for seed in 0..10 {
        let late = late.clone();
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.service.set_faults(CoordinatorFaults::none());
            world.sleep(PATIENCE).await;
            for _ in 0..3 {
                let active = group.active().unwrap();
                maker.longest.set(Duration::ZERO);
                let work = maker.make(&world, 50);
                let kill = async {
                    world.sleep(5 * MS).await;
                    group.kill(active);
                };
                futures_util::join!(work, kill);
                let pause = maker.longest.get();
                late.set(late.get() + u32::from(pause >= 100 * MS));
                let bound = if late.get() > 1 { 100 * MS } else { PAUSE_MAX };
                assert!(pause < bound, "seed {seed}: a pause of {pause:?}");
                assert_ne!(group.active(), Some(active));
                group.start(active);
                group.all_count().await;
                group.all_the_same().await;
                // Who has just started has forgotten what it promised, and keeps what it may have.
                world.sleep(PATIENCE).await;
            }
            maker.check(&group).await;
        });
    }
}

#[test]
fn an_active_that_hangs_is_replaced_and_answers_nothing_when_it_wakes() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let work = maker.make(&world, 200);
            let pause = async {
                world.sleep(5 * MS).await;
                group.nodes[active].pause();
                group.led_by(|other| other != active).await;
                world.sleep(SECOND).await;
                group.nodes[active].resume();
            };
            futures_util::join!(work, pause);
            let pause = maker.longest.get();
            assert!(pause < PAUSE_MAX, "seed {seed}: a pause of {pause:?}");
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn an_active_that_is_cut_off_is_replaced() {
    for seed in 0..20 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let work = maker.make(&world, 200);
            let cut = async {
                world.sleep(5 * MS).await;
                if seed % 2 == 0 {
                    // From everybody: nobody hears of it that it does not lead any more.
                    world.net().isolate(&group.nodes[active].name());
                } else {
                    // Clients still reach it.
                    for other in (0..3).filter(|other| *other != active) {
                        let names = [active, other].map(|member| group.nodes[member].name());
                        world.net().cut(&names[0], &names[1]);
                    }
                }
                group.led_by(|other| other != active).await;
                world.sleep(3 * SECOND).await;
                world.net().heal();
            };
            futures_util::join!(work, cut);
            let pause = maker.longest.get();
            assert!(pause < PAUSE_MAX, "seed {seed}: a pause of {pause:?}");
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn data_servers_too_find_who_leads_when_the_active_hangs() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let _servers = group.pair().await;
            let client = group.client("writer").await;
            let (cred, root) = (Cred::default(), client.root());
            let flags = weft_client::CreateFlags {
                open: weft_client::OpenFlags {
                    read: true,
                    write: true,
                    ..Default::default()
                },
                ..Default::default()
            };
            let (_, file) = loop {
                match client.create(&cred, root, b"f", 0o644, flags).await {
                    Ok(created) => break created,
                    // No data server has registered yet.
                    Err(errno) if errno == weft_client::Errno(libc::ENOSPC) => {
                        world.sleep(10 * MS).await;
                    }
                    Err(errno) => panic!("{errno:?}"),
                }
            };
            let longest = Cell::new(Duration::ZERO);
            let write = async |count: u64| {
                for at in 0..count {
                    let began = world.now();
                    let data = bytes::Bytes::from(vec![at as u8; 4096]);
                    client.write(file, at * 4096, data, false).await.unwrap();
                    client.fsync(file, false).await.unwrap();
                    longest.set(longest.get().max(world.now() - began));
                }
            };
            write(20).await;
            longest.set(Duration::ZERO);
            let active = group.active().unwrap();
            let pause = async {
                world.sleep(5 * MS).await;
                group.nodes[active].pause();
                group.led_by(|other| other != active).await;
                world.sleep(3 * SECOND).await;
                group.nodes[active].resume();
            };
            futures_util::join!(write(1_000), pause);
            let pause = longest.get();
            // The rights of the members of the pair end, and come back with the new active's.
            assert!(pause < SECOND, "seed {seed}: a pause of {pause:?}");
        });
    }
}

#[test]
fn a_slow_active_is_not_left() {
    for seed in 0..9 {
        let logs = Logs::new(Level::INFO);
        let run = || {
            let world = World::new(seed);
            world.set_limit(900 * SECOND);
            world.clone().block_on(async move {
                let group = Group::started(&world, 3).await;
                let maker = Maker::new(&group, "maker").await;
                maker.make(&world, 20).await;
                let active = group.active().unwrap();
                let work = maker.make(&world, 300);
                let faults = async {
                    for _ in 0..10 {
                        world.sleep(5 * MS).await;
                        match seed % 3 {
                            // It has no time, if not for so long that others look for another.
                            0 => {
                                group.nodes[active].pause();
                                world.sleep(PATIENCE * 4 / 5).await;
                                group.nodes[active].resume();
                            }
                            // No disk takes anything.
                            1 => {
                                let hang = |hangs| {
                                    for node in &group.nodes {
                                        node.disk().set_hung(hangs);
                                    }
                                };
                                hang(true);
                                world.sleep(3 * PATIENCE).await;
                                hang(false);
                            }
                            // It was the client that had no time.
                            _ => {
                                let client = world.node("maker");
                                client.pause();
                                world.sleep(3 * PATIENCE).await;
                                client.resume();
                            }
                        }
                    }
                };
                futures_util::join!(work, faults);
                assert_eq!(group.active(), Some(active), "seed {seed}: another leads");
                assert!(maker.longest.get() > PATIENCE / 2);
            });
        };
        logs.collect(run);
        let begun = logs.lines().into_iter().map(|line| line.to_string());
        let begun: Vec<String> = begun
            .filter(|line| line.contains(" maker ") && line.contains("session with the metadata"))
            .collect();
        assert_eq!(begun.len(), 1, "seed {seed}: {begun:#?}");
    }
}

#[test]
fn nothing_is_lost_when_all_lose_their_power_at_once() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            let work = maker.make(&world, 100);
            let cut = async {
                world.sleep(20 * MS).await;
                (0..3).for_each(|member| group.power_cut(member));
                world.sleep(SECOND).await;
                group.start_all();
            };
            futures_util::join!(work, cut);
            maker.check(&group).await;
            group.all_count().await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn without_a_majority_nothing_goes_on_and_nothing_is_wrong() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let [second, third] = [(active + 1) % 3, (active + 2) % 3];
            let work = maker.make(&world, 100);
            let faults = async {
                world.sleep(5 * MS).await;
                // At once: who is left cannot have made them juniors first.
                group.kill(active);
                group.kill(second);
                world.sleep(3 * SECOND).await;
                assert_eq!(group.active(), None);
                let before = maker.made.get();
                world.sleep(3 * SECOND).await;
                assert_eq!(maker.made.get(), before, "something was acknowledged");
                group.start(second);
                group
                    .led_by(|member| member == second || member == third)
                    .await;
            };
            futures_util::join!(work, faults);
            group.start(active);
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}

#[test]
fn who_was_away_for_long_takes_an_image() {
    in_world(1, async |world| {
        let group = Group::new(&world, 3);
        let group = Rc::new(Group {
            settings: weft_meta::Settings {
                image_every_entries: 50,
                ..group.settings.clone()
            },
            servers: group.servers.clone(),
            nodes: (1..=3).map(|it| world.node(&format!("meta{it}"))).collect(),
            world: world.clone(),
            service: group.service.clone(),
            exits: group.exits.clone(),
        });
        group.start_all();
        group.all_count().await;
        let maker = Maker::new(&group, "maker").await;
        maker.make(&world, 10).await;
        let away = (group.active().unwrap() + 1) % 3;
        for replaced in [false, true] {
            group.kill(away);
            if replaced {
                // Another disk, with nothing on it.
                let node = &group.nodes[away];
                node.disk().wipe();
                node.disk().make_durable_dir(DIR);
            }
            for _ in 0..6 {
                maker.make(&world, 60).await;
                world.sleep(2 * SECOND).await;
                for member in (0..3).filter(|member| *member != away) {
                    // Segments end with a life: what an image has made superfluous can go.
                    group.kill(member);
                    group.start(member);
                    group.led_by(|_| true).await;
                }
            }
            let left = weft_journal::segments(&group.nodes[(away + 1) % 3].env(), Path::new(DIR));
            assert!(left.unwrap()[0] > Sn(1), "the first segment is still there");
            group.start(away);
            group.all_count().await;
            group.all_the_same().await;
        }
        maker.check(&group).await;
    });
}

#[test]
fn whoever_is_killed_whenever_every_change_is_made_once() {
    for seed in 0..20 {
        in_world(100 + seed, async move |world| {
            let members = [3, 3, 5, 2][seed as usize % 4];
            let group = Group::started(&world, members).await;
            let maker = Maker::new(&group, "maker").await;
            let is_done = Rc::new(Cell::new(false));
            let work = async {
                for _ in 0..40 {
                    maker.make(&world, 25).await;
                    world.sleep(50 * MS).await;
                }
                is_done.set(true);
            };
            let faults = async {
                let mut rng = world.rng("who is killed");
                while !is_done.get() {
                    world.sleep(MS * (rng.below(1_000) as u32)).await;
                    let others = rng.below(u64::from(members)) as usize;
                    let victim = match rng.below(2) {
                        0 => group.active().unwrap_or(others),
                        _ => others,
                    };
                    match rng.below(3) {
                        0 => group.power_cut(victim),
                        1 => group.kill(victim),
                        _ => {
                            group.nodes[victim].pause();
                            world.sleep(MS * (rng.below(1_500) as u32)).await;
                            group.nodes[victim].resume();
                            continue;
                        }
                    }
                    world.sleep(MS * (rng.below(2_000) as u32)).await;
                    group.start(victim);
                }
            };
            let watch = async {
                while !is_done.get() {
                    group.active();
                    world.sleep(MS).await;
                }
            };
            futures_util::join!(work, faults, watch);
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
            assert!(group.exits.borrow().is_empty(), "{:?}", group.exits);
        });
    }
}
