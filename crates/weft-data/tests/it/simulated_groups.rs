//! A pair in the simulator with a second replica group, which ends one session after the other while
//! members are cut off, killed and stopped, and while the group's active moves. Clients of sessions that
//! have ended go on sending, as one does that has not heard of it: **nothing of theirs is done any more**,
//! by whichever member, once the end has been settled.

use crate::bed::{CLUSTER, Group, Meta, ONE, SESSION, ZERO, name, object};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_data::{Server, Settings};
use weft_env::Env;
use weft_pair::Mode;
use weft_rpc::{CallError, Connection, Local};
use weft_sim::{Logs, Rng, World};
use weft_types::{GroupId, Member, SessionId};
use weft_wire::Failed;
use weft_wire::proto::{self, Identity, Protocol, identity::Role};

const SECOND: GroupId = GroupId(1);
/// Written by all sessions of the second group.
const INO: u64 = 1;
/// How long orders and requests are waited for.
const PATIENCE: Duration = Duration::from_millis(500);

fn host(member: Member) -> &'static str {
    ["d0", "d1"][member.index()]
}

fn start_data(world: &World, member: Member) {
    let settings = Settings {
        dir: "/store".into(),
        listen: format!("{}:7000", host(member)),
        member: member.index() as u32,
        meta: vec!["meta:6000".into()],
        cluster_id: CLUSTER.into(),
        clear_after_ms: 300,
        ..Settings::default()
    };
    world.node(host(member)).start(|env| async move {
        let server: Server = weft_data::start(env, settings).await.unwrap();
        std::future::pending::<()>().await;
        drop(server);
    });
}

struct Play {
    env: Env,
    meta: Rc<Meta>,
    /// The second group's members, and which of them leads.
    members: [Rc<Group>; 2],
    leads: Cell<usize>,
    /// The newest session. Those before it are being ended, or have been.
    newest: Cell<u64>,
    /// Sessions below have ended.
    ended_below: Cell<u64>,
    connections: RefCell<BTreeMap<(u64, usize), Connection>>,
    operation: Cell<u64>,
    rng: RefCell<Rng>,
    done: Cell<u64>,
    late: Cell<u64>,
    stop: Cell<bool>,
}

impl Play {
    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    fn active(&self) -> &Group {
        &self.members[self.leads.get()]
    }

    /// Another member of the second group leads from now on; nobody does for a while before.
    async fn takeover(&self, pause: Duration) {
        let old = self.active();
        *old.deposed_for.borrow_mut() = Some(String::new());
        self.env.sleep(pause).await;
        self.leads.set(1 - self.leads.get());
        let new = self.active();
        new.live_sessions
            .borrow_mut()
            .clone_from(&old.live_sessions.borrow());
        new.fenced_below.set(old.fenced_below.get());
        *old.deposed_for.borrow_mut() = Some(new.address.clone());
        *new.deposed_for.borrow_mut() = None;
    }

    /// Opens a session.
    fn open(&self) {
        self.newest.set(self.newest.get() + 1);
        for group in &self.members {
            *group.live_sessions.borrow_mut() = vec![self.newest.get()];
            group.fenced_below.set(self.newest.get() + 1);
        }
    }

    /// Ends the newest session and opens another: all that can be reached are told, and the member that
    /// leads settles what was written.
    async fn end(&self) {
        let session = self.newest.get();
        self.open();
        let fence = |refuse_only: bool| proto::FenceRequest {
            session,
            objects: Vec::from_iter((!refuse_only).then(|| name(object(INO)))),
            refuse_only,
            ..Default::default()
        };
        for member in [ZERO, ONE] {
            if self.active().is_attended_by(member) {
                let told = fence(true);
                let order = self.active().order(member, &told);
                // Who is away hears of it later.
                let _: Result<_, weft_env::Elapsed> = self.env.timeout(PATIENCE, order).await;
            }
        }
        loop {
            // As a metadata server gives orders that follows the pair; now and then what it knows of it is old.
            let both = || self.active().is_attended_by(ZERO) && self.active().is_attended_by(ONE);
            let any = if self.below(2) == 0 { ZERO } else { ONE };
            let leader = match self.meta.state().mode {
                _ if self.below(4) == 0 => self.active().is_attended_by(any).then_some(any),
                Mode::Both => both().then_some(ZERO),
                Mode::Recovering(m) => both().then_some(m),
                Mode::Only(m) => self.active().is_attended_by(m).then_some(m),
                Mode::Down(_) => None,
            };
            if let Some(leader) = leader {
                let settle = fence(false);
                let order = self.active().order(leader, &settle);
                if let Ok(Ok(_)) = self.env.timeout(PATIENCE, order).await {
                    break;
                }
            }
            self.env.sleep(Duration::from_millis(20)).await;
        }
        self.ended_below.set(session + 1);
    }

    async fn connection(&self, session: u64, member: Member) -> Option<Connection> {
        let key = (session, member.index());
        let known = self.connections.borrow().get(&key).cloned();
        if let Some(known) = known.filter(Connection::is_open) {
            return Some(known);
        }
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: Role::Client.into(),
                id: session,
                incarnation: 1,
                group: 0,
            },
        );
        let address = format!("{}:7000", host(member));
        let connecting = weft_rpc::connect(&self.env, &address, &local, Rc::new(|_, _| {}));
        let connection = self.env.timeout(PATIENCE, connecting).await.ok()?.ok()?;
        // Another task may have connected meanwhile: a member serves only the newest connection that it has
        // heard of, which need not be this one.
        let mut connections = self.connections.borrow_mut();
        if let Some(used) = connections.get(&key).filter(|used| used.is_open()) {
            connection.close("another one is in use");
            return Some(used.clone());
        }
        connections.insert(key, connection.clone());
        Some(connection)
    }

    /// A client of this session writes, knowing the newest state of the pair.
    async fn write(&self, session: u64, member: Member) -> Result<(), CallError> {
        let Some(connection) = self.connection(session, member).await else {
            return Err(CallError::Lost("no connection".into()));
        };
        let operation = self.operation.get() + 1;
        self.operation.set(operation);
        let has_ended = (first()..self.ended_below.get()).contains(&session);
        let request = proto::WriteRequest {
            session,
            epoch: self.meta.state().epoch.0,
            pair: 0,
            object: Some(name(object(INO))),
            extents: vec![proto::Extent {
                offset: 1000 * self.below(50),
                length: 8,
            }],
            protocol: Protocol::ServerSync.into(),
            operation,
            confirmed_below: 0,
        };
        let payload = Bytes::copy_from_slice(&session.to_le_bytes());
        let answer = self
            .env
            .timeout(PATIENCE, connection.call(&request, payload));
        let answer = match answer.await {
            Ok(answer) => answer.map(|_| ()),
            Err(_) => {
                connection.close("no answer");
                Err(CallError::Lost("no answer".into()))
            }
        };
        if has_ended {
            self.late.set(self.late.get() + 1);
            let state = self.meta.state();
            assert!(
                answer.is_err(),
                "session {session} was served by member {member} under {state} after its end"
            );
        }
        if answer.is_ok() {
            self.done.set(self.done.get() + 1);
        }
        answer
    }

    /// A session of the last few, which has ended or lives.
    fn one_of_the_last(&self) -> u64 {
        let back = self.below(4).min(self.newest.get() - first());
        self.newest.get() - back
    }

    fn whom_to_ask(&self) -> Member {
        match self.meta.state().mode.sole() {
            Some(member) => member,
            None if self.below(2) == 0 => ZERO,
            None => ONE,
        }
    }
}

fn first() -> u64 {
    SessionId::first_of(SECOND).0
}

async fn start_group(world: &World, host: &'static str) -> Rc<Group> {
    let place: Rc<RefCell<Option<Rc<Group>>>> = Rc::default();
    let started = place.clone();
    world.node(host).start(move |env| async move {
        let address = format!("{host}:6000");
        *started.borrow_mut() = Some(Group::start(&env, SECOND, &address).await);
        std::future::pending::<()>().await;
    });
    loop {
        if let Some(group) = place.borrow().clone() {
            return group;
        }
        world.sleep(Duration::from_millis(1)).await;
    }
}

async fn tell(world: Rc<World>) {
    let members = [
        start_group(&world, "g0").await,
        start_group(&world, "g1").await,
    ];
    *members[1].deposed_for.borrow_mut() = Some(members[0].address.clone());
    let mut record = members[0].record();
    record.members.extend(members[1].record().members);
    let place = Rc::new(RefCell::new(None));
    let started = place.clone();
    world.node("meta").start(|env| async move {
        let (meta, _) = Meta::start(&env, "meta:6000").await;
        *meta.groups.borrow_mut() = vec![record];
        *started.borrow_mut() = Some(meta);
        std::future::pending::<()>().await;
    });
    while place.borrow().is_none() {
        world.sleep(Duration::from_millis(1)).await;
    }
    let meta: Rc<Meta> = place.borrow().clone().unwrap();
    for member in [ZERO, ONE] {
        start_data(&world, member);
    }
    let client = world.node("client");
    let play = Rc::new(Play {
        env: client.env(),
        meta: meta.clone(),
        members,
        leads: Cell::new(0),
        newest: Cell::new(first()),
        ended_below: Cell::new(0),
        connections: RefCell::default(),
        operation: Cell::new(0),
        rng: RefCell::new(world.rng("play")),
        done: Cell::new(0),
        late: Cell::new(0),
        stop: Cell::new(false),
    });
    play.open();
    let running = Rc::new(Cell::new(5));
    for _ in 0..4 {
        let (play, running) = (play.clone(), running.clone());
        client.env().spawn("client", async move {
            while !play.stop.get() {
                let session = play.one_of_the_last();
                // What is refused is seen in what comes of it.
                let _: Result<(), CallError> = play.write(session, play.whom_to_ask()).await;
                let pause = Duration::from_millis(play.below(10));
                play.env.sleep(pause).await;
            }
            running.set(running.get() - 1);
        });
    }
    {
        let (play, running) = (play.clone(), running.clone());
        client.env().spawn("ends", async move {
            while !play.stop.get() {
                play.env.sleep(Duration::from_millis(play.below(500))).await;
                play.end().await;
            }
            running.set(running.get() - 1);
        });
    }
    while meta.state().epoch.0 < 2 {
        world.sleep(Duration::from_millis(10)).await;
    }
    make_trouble(&world, &play).await;

    world.net().heal();
    play.stop.set(true);
    let is_quiet = || running.get() == 0 && meta.state().mode == Mode::Both;
    for _ in 0..600 {
        if is_quiet() {
            break;
        }
        world.sleep(Duration::from_millis(100)).await;
    }
    assert!(is_quiet(), "{}, {} run", meta.state(), running.get());
    world.sleep(Duration::from_secs(2)).await;
    // All is as it should be: who lives is served by both, and who has ended by none.
    for member in [ZERO, ONE] {
        for session in [SESSION, play.newest.get()] {
            let served = play.write(session, member).await;
            assert_eq!(served, Ok(()), "session {session} at member {member}");
        }
        for session in first()..play.newest.get() {
            let refused = play.write(session, member).await;
            let is_fenced = matches!(refused, Err(CallError::Failed(Failed::Fenced(_))));
            assert!(
                is_fenced,
                "session {session} at member {member}: {refused:?}"
            );
        }
    }
    let (done, late) = (play.done.get(), play.late.get());
    let ended = play.ended_below.get() - first();
    assert!(
        done > 100 && late > 100 && ended > 5,
        "{done} writes, {late} too late, {ended} sessions"
    );
}

async fn make_trouble(world: &World, play: &Play) {
    let mut rng = world.rng("trouble");
    for _ in 0..10 {
        let pause = 200 + rng.below(1000);
        world.sleep(Duration::from_millis(pause)).await;
        let member = if rng.below(2) == 0 { ZERO } else { ONE };
        let node = world.node(host(member));
        let time = Duration::from_millis(rng.below(2000));
        match rng.below(6) {
            0 => {
                node.kill();
                world.sleep(time).await;
                start_data(world, member);
            }
            1 => {
                node.pause();
                world.sleep(time).await;
                node.resume();
            }
            2 => play.takeover(time / 4).await,
            // Away from one of the groups, or from the twin.
            3 => {
                let others: &[&str] = match rng.below(3) {
                    0 => &["meta"],
                    1 => &["g0", "g1"],
                    _ => &[host(member.twin())],
                };
                for other in others {
                    world.net().cut(host(member), other);
                }
                world.sleep(time).await;
                world.net().heal();
            }
            // Away from all; the first group is reached again before the second.
            _ => {
                for other in ["meta", "g0", "g1", host(member.twin())] {
                    world.net().cut(host(member), other);
                }
                world.sleep(time + Duration::from_secs(1)).await;
                world.net().heal();
                for other in ["g0", "g1"] {
                    world.net().cut(host(member), other);
                }
                world.sleep(Duration::from_secs(2)).await;
                world.net().heal();
            }
        }
    }
}

/// Runs one seed; returns the digest of the run.
fn run(seed: u64) -> u64 {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(600));
    let world = Rc::new(world);
    let logs = Logs::new(tracing::Level::DEBUG);
    let told = PrintOnPanic(seed, logs.clone());
    logs.collect(|| world.block_on(tell(world.clone())));
    drop(told);
    world.digest()
}

/// Shows what was logged when a run fails.
struct PrintOnPanic(u64, Logs);

impl Drop for PrintOnPanic {
    #[allow(clippy::disallowed_macros)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.1.lines() {
                eprintln!("{line}");
            }
            eprintln!("SEED={} replays it", self.0);
        }
    }
}

#[test]
fn no_session_is_served_after_its_end() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=20).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        run(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(3), run(3));
}
