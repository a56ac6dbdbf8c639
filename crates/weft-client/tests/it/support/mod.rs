//! A metadata server in this process, and data servers that keep their objects in memory: both
//! members of a pair share them, so that forwarding is left out; epochs, rights and faults are not.

use bytes::{Bytes, BytesMut};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, OpenFlags, Settings};
use weft_env::{Env, Task};
use weft_meta::Server;
use weft_rpc::{Connection, Handler, Local, Payload, connect, serve_task};
use weft_wire::proto::{self, *};
use weft_wire::{Failed, Rpc};

pub const CLUSTER: &str = "test";
pub const RW: OpenFlags = OpenFlags {
    read: true,
    write: true,
    append: false,
    truncate: false,
    sync: false,
    execute: false,
    keep_atime: false,
};
pub const RO: OpenFlags = OpenFlags { write: false, ..RW };
const BLOCK: u64 = 4096;

/// One object: its bytes, and which blocks were ever written.
#[derive(Default, Clone)]
pub struct Object {
    pub bytes: Vec<u8>,
    pub blocks: BTreeSet<u64>,
}

/// An object, where in it a write begins and ends, and the write's number: a killed member may
/// still be at what another is asked to do again.
type Flying = ((u64, u32), u64, u64, u64);

/// What both members of a pair hold, and what is made to go wrong.
#[derive(Default)]
pub struct Store {
    pub objects: RefCell<BTreeMap<(u64, u32), Object>>,
    pub fenced: RefCell<BTreeSet<u64>>,
    pub dropped: Cell<usize>,
    pub writes: Cell<usize>,
    pub reads: Cell<usize>,
    pub syncs: Cell<usize>,
    /// Answer to every write, if not 0.
    pub write_errno: Cell<i32>,
    /// Answer to every change of an object's shape, if not 0.
    pub shape_errno: Cell<i32>,
    /// What one member answers to writes that are not to be forwarded, (member, errno).
    pub refusing: Cell<Option<(u32, i32)>>,
    /// Writes that a member was to forward.
    pub led: Cell<usize>,
    /// Writes in progress, to see that none overlap.
    pub flying: RefCell<Vec<Flying>>,
    pub overlapped: Cell<bool>,
    /// Reads wait while this is set, and then see what is there.
    pub holds_reads: Cell<bool>,
    /// The second copies of asynchronous writes are not made: the leader says nothing more of them, and
    /// member 1 does not answer for what a client sends it.
    pub copies_hang: Cell<bool>,
    /// What a leader says of its second copies, if not 0.
    pub copy_errno: Cell<i32>,
    /// Highest number of a write, and below which the client has said that both have all, by member.
    pub numbered: Cell<u64>,
    pub confirmed: [Cell<u64>; 2],
    /// Of which the client has said that it does not know what became of them, by member.
    pub given_up: [RefCell<BTreeSet<u64>>; 2],
    /// What the client says of its writes is lost on its way, with the connection.
    pub loses_words: Cell<bool>,
    /// Every write takes this long.
    pub write_delay: Cell<Duration>,
    /// Room for more, as it is told.
    pub room: Cell<u64>,
    /// Told with each answer to a write.
    pub window: Cell<u64>,
    /// No member has a right to serve, though the pair's state stays as it is: as when the service
    /// does not answer beats.
    pub rightless: Cell<bool>,
}

pub struct Member {
    tasks: RefCell<Vec<Task>>,
    connections: Rc<RefCell<Vec<Connection>>>,
}

impl Member {
    pub async fn start(env: &Env, meta: &str, pair: u32, member: u32, store: Rc<Store>) -> Member {
        let state: Rc<RefCell<PairState>> = Rc::default();
        let connections: Rc<RefCell<Vec<Connection>>> = Rc::default();
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: identity::Role::Data as i32,
                id: u64::from(pair * 2 + member),
                incarnation: env.random(),
                group: 0,
            },
        );
        let handler: Handler = {
            let (env, store, state) = (env.clone(), store.clone(), state.clone());
            Rc::new(move |connection, request| {
                on_request(&env, &store, (&state, member), connection, request);
            })
        };
        let kept = connections.clone();
        let (address, accepting) = serve_task(
            env,
            "127.0.0.1:0",
            local.clone(),
            move |connection| kept.borrow_mut().push(connection),
            handler.clone(),
        )
        .await
        .unwrap();
        let registering = {
            let (env, meta, address) = (env.clone(), meta.to_owned(), address.clone());
            let (state, connections, inner) = (state.clone(), connections.clone(), env.clone());
            env.spawn("member", async move {
                loop {
                    if let Ok(link) = connect(&inner, &meta, &local, handler.clone()).await {
                        connections.borrow_mut().push(link.clone());
                        keep_registered(&inner, &link, &state, pair, member, &address).await;
                    }
                    inner.sleep(Duration::from_millis(10)).await;
                }
            })
        };
        Member {
            tasks: RefCell::new(vec![accepting, registering]),
            connections,
        }
    }

    /// As kill -9: everything ends, connections are closed by the kernel.
    pub fn kill(&self) {
        for task in self.tasks.borrow().iter() {
            task.abort();
        }
        for connection in self.connections.borrow().iter() {
            connection.close("killed");
        }
    }
}

async fn keep_registered(
    env: &Env,
    link: &Connection,
    state: &Rc<RefCell<PairState>>,
    pair: u32,
    member: u32,
    address: &str,
) {
    let register = RegisterRequest {
        pair,
        member,
        address: address.to_owned(),
        incarnation: env.random(),
        store_id: format!("store-{pair}-{member}"),
        last_epoch: state.borrow().epoch,
        ..RegisterRequest::default()
    };
    let Ok((reply, _)) = link.call(&register, Payload::none()).await else {
        return;
    };
    take(state, reply.state.unwrap_or_default());
    loop {
        let epoch = state.borrow().epoch;
        let beat = BeatRequest {
            pair,
            member,
            epoch,
            ..BeatRequest::default()
        };
        let Ok((reply, _)) = link.call(&beat, Payload::none()).await else {
            return;
        };
        take(state, reply.state.unwrap_or_default());
        let told = *state.borrow();
        // Both members have one store: every copy is equal at once.
        if told.mode() == pair_state::Mode::Recovering && told.serving == member {
            let recovered = RecoveredRequest {
                pair,
                epoch: told.epoch,
            };
            let _ = link.call(&recovered, Payload::none()).await;
        }
        env.sleep(Duration::from_millis(50)).await;
    }
}

fn take(state: &Rc<RefCell<PairState>>, told: PairState) {
    if told.epoch > state.borrow().epoch {
        *state.borrow_mut() = told;
    }
}

fn key(object: &Option<ObjectName>) -> (u64, u32) {
    let object = object.unwrap();
    (object.ino, object.generation)
}

fn on_request(
    env: &Env,
    store: &Rc<Store>,
    (state, me): (&Rc<RefCell<PairState>>, u32),
    connection: &Connection,
    request: weft_rpc::Request,
) {
    let serves = |epoch: u64| {
        let state = state.borrow();
        if epoch != state.epoch {
            return Err(Failed::Stale(state.epoch));
        }
        match state.mode() {
            _ if store.rightless.get() => Err(Failed::Unavailable("no right to serve".into())),
            pair_state::Mode::Both => Ok(()),
            pair_state::Mode::Only | pair_state::Mode::Recovering if state.serving == me => Ok(()),
            _ => Err(Failed::Unavailable("not serving".into())),
        }
    };
    match request.method {
        WriteRequest::METHOD => {
            let write: WriteRequest = request.decode().unwrap();
            if let Err(failed) = serves(write.epoch) {
                return request.replier.fail(failed);
            }
            if store.fenced.borrow().contains(&write.session) {
                return request.replier.fail(Failed::Fenced("ended".into()));
            }
            let (store, payload, replier) = (store.clone(), request.payload, request.replier);
            let (connection, pause) = (connection.clone(), env.clone());
            let delay = env.sleep(store.write_delay.get());
            let has_delay = store.write_delay.get() > Duration::ZERO;
            env.spawn("write", async move {
                let object = key(&write.object);
                store
                    .numbered
                    .set(store.numbered.get().max(write.operation));
                let mine: Vec<Flying> = write
                    .extents
                    .iter()
                    .map(|e| {
                        let end = e.offset + u64::from(e.length);
                        (object, e.offset, end, write.operation)
                    })
                    .collect();
                for (of, start, end, number) in &mine {
                    let clash =
                        |(o, s, e, n): &Flying| o == of && s < end && start < e && n != number;
                    if store.flying.borrow().iter().any(clash) {
                        store.overlapped.set(true);
                    }
                }
                store.flying.borrow_mut().extend(mine.iter().copied());
                if has_delay {
                    delay.await;
                }
                store.flying.borrow_mut().retain(|f| !mine.contains(f));
                let errno = store.write_errno.get();
                if errno != 0 {
                    return replier.fail(Failed::Errno(errno));
                }
                match store.refusing.get() {
                    _ if write.protocol == Protocol::ServerSync as i32 => {
                        store.led.set(store.led.get() + 1);
                    }
                    Some((member, errno)) if member == me => {
                        return replier.fail(Failed::Errno(errno));
                    }
                    _ => {}
                }
                store.writes.set(store.writes.get() + 1);
                let mut at = 0;
                {
                    let mut objects = store.objects.borrow_mut();
                    let held = objects.entry(object).or_default();
                    for extent in &write.extents {
                        let (start, n) = (extent.offset as usize, extent.length as usize);
                        if held.bytes.len() < start + n {
                            held.bytes.resize(start + n, 0);
                        }
                        held.bytes[start..start + n].copy_from_slice(&payload[at..at + n]);
                        at += n;
                        let last = (extent.offset + u64::from(extent.length) - 1) / BLOCK;
                        held.blocks.extend(extent.offset / BLOCK..=last);
                    }
                }
                assert_eq!(at, payload.len());
                let (room, window) = (store.room.get(), store.window.get());
                let copied = async {
                    while store.copies_hang.get() {
                        pause.sleep(Duration::from_millis(2)).await;
                    }
                };
                let by_leader = write.protocol == Protocol::ServerAsync as i32;
                if !by_leader && me == 1 {
                    copied.await;
                    let reply = WriteReply {
                        both: true,
                        room,
                        window,
                    };
                    replier.send::<WriteRequest>(&reply, Payload::none());
                } else {
                    let both = !by_leader;
                    replier
                        .send::<WriteRequest>(&WriteReply { both, room, window }, Payload::none());
                    if by_leader {
                        copied.await;
                        let errno = store.copy_errno.get();
                        let failed = (errno != 0).then_some(Failed::Errno(errno));
                        connection.notify(&Copied {
                            operation: write.operation,
                            failure: failed.map(Failure::from),
                        });
                    }
                }
            });
        }
        ReadRequest::METHOD => {
            let read: ReadRequest = request.decode().unwrap();
            if let Err(failed) = serves(read.epoch) {
                return request.replier.fail(failed);
            }
            store.reads.set(store.reads.get() + 1);
            let (env, store) = (env.clone(), store.clone());
            env.clone().spawn("read", async move {
                while store.holds_reads.get() {
                    env.sleep(Duration::from_millis(1)).await;
                }
                let objects = store.objects.borrow();
                let data = objects
                    .get(&key(&read.object))
                    .map_or(Bytes::new(), |held| {
                        let length = held.bytes.len() as u64;
                        let (start, end) = (
                            read.offset.min(length) as usize,
                            (read.offset + u64::from(read.length)).min(length) as usize,
                        );
                        Bytes::copy_from_slice(&held.bytes[start..end])
                    });
                request
                    .replier
                    .send::<ReadRequest>(&ReadReply::default(), data);
            });
        }
        ShapeRequest::METHOD => {
            let shape: ShapeRequest = request.decode().unwrap();
            if let Err(failed) = serves(shape.epoch) {
                return request.replier.fail(failed);
            }
            if store.shape_errno.get() != 0 {
                let failed = Failed::Errno(store.shape_errno.get());
                return request.replier.fail(failed);
            }
            if let Some(held) = store.objects.borrow_mut().get_mut(&key(&shape.object)) {
                if let Some(to) = shape.truncate {
                    held.bytes.truncate(to as usize);
                    held.blocks.retain(|b| b * BLOCK < to);
                }
                for range in &shape.punch {
                    let end = (range.end as usize).min(held.bytes.len());
                    let start = (range.start as usize).min(end);
                    held.bytes[start..end].fill(0);
                    held.blocks
                        .retain(|b| b * BLOCK < range.start || (b + 1) * BLOCK > range.end);
                }
            }
            request
                .replier
                .send::<ShapeRequest>(&ShapeReply::default(), Payload::none());
        }
        SyncRequest::METHOD => {
            store.syncs.set(store.syncs.get() + 1);
            request
                .replier
                .send::<SyncRequest>(&SyncReply::default(), Payload::none());
        }
        MapRequest::METHOD => {
            let map: MapRequest = request.decode().unwrap();
            let objects = store.objects.borrow();
            let mut reply = MapReply::default();
            if let Some(held) = objects.get(&key(&map.object)) {
                reply.length = held.bytes.len() as u64;
                reply.allocated = held.blocks.len() as u64 * BLOCK;
                for block in &held.blocks {
                    let (start, end) = (block * BLOCK, ((block + 1) * BLOCK).min(reply.length));
                    let (start, end) = (start.max(map.start), end.min(map.end));
                    if start < end {
                        match reply.data.last_mut() {
                            Some(last) if last.end == start => last.end = end,
                            _ => reply.data.push(Range { start, end }),
                        }
                    }
                }
            }
            request.replier.send::<MapRequest>(&reply, Payload::none());
        }
        SetStateRequest::METHOD => {
            let set: SetStateRequest = request.decode().unwrap();
            take(state, set.state.unwrap_or_default());
            request
                .replier
                .send::<SetStateRequest>(&SetStateReply::default(), Payload::none());
        }
        FenceRequest::METHOD => {
            let fence: FenceRequest = request.decode().unwrap();
            store.fenced.borrow_mut().insert(fence.session);
            let objects = store.objects.borrow();
            let lengths = fence
                .objects
                .iter()
                .map(|o| {
                    objects
                        .get(&(o.ino, o.generation))
                        .map_or(0, |held| held.bytes.len() as u64)
                })
                .collect();
            request
                .replier
                .send::<FenceRequest>(&FenceReply { lengths }, Payload::none());
        }
        DropObjectsRequest::METHOD => {
            let drop: DropObjectsRequest = request.decode().unwrap();
            for object in &drop.objects {
                store
                    .objects
                    .borrow_mut()
                    .remove(&(object.ino, object.generation));
                store.dropped.set(store.dropped.get() + 1);
            }
            request
                .replier
                .send::<DropObjectsRequest>(&DropObjectsReply::default(), Payload::none());
        }
        Confirmed::METHOD => {
            let confirmed: Confirmed = request.decode().unwrap();
            if store.loses_words.get() {
                return connection.close("cut");
            }
            store.confirmed[me as usize].set(confirmed.below);
            let given_up = confirmed.given_up.iter().map(|one| one.operation);
            store.given_up[me as usize].borrow_mut().extend(given_up);
            request.replier.send::<Confirmed>(&(), Payload::none());
        }
        other => request
            .replier
            .fail(Failed::Refused(format!("no method {other} here"))),
    }
}

/// What the pairs are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Member`]s, with faults at will.
    StandIns,
    /// Real data servers.
    Real,
}

enum Running {
    StandIn(Member),
    Real(weft_data::Server),
}

pub struct Cluster {
    pub env: Env,
    pub kind: Kind,
    pub dir: PathBuf,
    pub meta: RefCell<Option<Server>>,
    pub address: String,
    /// Of stand-ins, by pair.
    pub stores: Vec<Rc<Store>>,
    members: RefCell<BTreeMap<(u32, u32), Running>>,
}

fn meta_settings(dir: &Path, listen: &str) -> weft_meta::Settings {
    weft_meta::Settings {
        dir: dir.to_owned(),
        listen: listen.into(),
        cluster_id: CLUSTER.into(),
        session_term_ms: 1500,
        // Processes end here, machines do not.
        journal: weft_meta::JournalSettings {
            sync: weft_journal::SyncPolicy::Never,
        },
        pair: weft_meta::PairSettings {
            alone_after_ms: 300,
            ..Default::default()
        },
        ..weft_meta::Settings::default()
    }
}

impl Cluster {
    pub async fn start(env: &Env, dir: &Path, pairs: u32, kind: Kind) -> Cluster {
        let settings = meta_settings(dir, "127.0.0.1:0");
        weft_meta::found(env, &settings).await.unwrap();
        let server = weft_meta::start(env.clone(), settings).await.unwrap();
        let address = server.address().to_owned();
        let stores: Vec<Rc<Store>> = (0..pairs).map(|_| Rc::default()).collect();
        for store in &stores {
            store.window.set(64 << 20);
        }
        let cluster = Cluster {
            env: env.clone(),
            kind,
            dir: dir.to_owned(),
            meta: RefCell::new(Some(server)),
            address,
            stores,
            members: RefCell::default(),
        };
        for pair in 0..pairs {
            cluster.start_member(pair, 0).await;
            cluster.start_member(pair, 1).await;
        }
        cluster.serving(pairs as usize).await;
        cluster
    }

    /// Starts a member, or starts it again, at an address of its own.
    pub async fn start_member(&self, pair: u32, member: u32) {
        let running = match self.kind {
            Kind::StandIns => {
                let store = self.stores[pair as usize].clone();
                let started = Member::start(&self.env, &self.address, pair, member, store).await;
                Running::StandIn(started)
            }
            Kind::Real => {
                let settings = weft_data::Settings {
                    dir: self.dir.join(format!("data-{pair}.{member}")),
                    pair,
                    member,
                    meta: vec![self.address.clone()],
                    cluster_id: CLUSTER.into(),
                    ..weft_data::Settings::default()
                };
                let started = weft_data::start(self.env.clone(), settings).await;
                Running::Real(started.unwrap())
            }
        };
        self.members.borrow_mut().insert((pair, member), running);
    }

    /// As kill -9.
    pub fn kill_member(&self, pair: u32, member: u32) {
        let running = self.members.borrow_mut().remove(&(pair, member));
        match running.unwrap() {
            Running::StandIn(member) => member.kill(),
            Running::Real(server) => server.stop(),
        }
    }

    /// Waits until every pair serves with both members.
    pub async fn serving(&self, pairs: usize) {
        let nothing: Handler = Rc::new(|_, _| {});
        let local = Local::new(CLUSTER.into(), Identity::default());
        let tool = connect(&self.env, &self.address, &local, nothing)
            .await
            .unwrap();
        for _ in 0..2000 {
            let (status, _) = tool.call(&StatusRequest {}, Payload::none()).await.unwrap();
            let both = status
                .pairs
                .iter()
                .filter(|p| {
                    p.state
                        .is_some_and(|s| s.mode == pair_state::Mode::Both as i32)
                })
                .count();
            if both == pairs {
                return;
            }
            self.env.sleep(Duration::from_millis(5)).await;
        }
        panic!("the pairs never served");
    }

    pub fn settings(&self) -> Settings {
        Settings {
            meta: vec![self.address.clone()],
            cluster_id: CLUSTER.into(),
            name: "test".into(),
            patience_ms: 10_000,
            ..Settings::default()
        }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.env.clone(), self.settings())
            .await
            .unwrap()
    }

    /// The metadata server refuses every change with this, but for what gives something back; 0: none.
    pub fn refuse_changes(&self, errno: i32) {
        let refusals = (errno != 0).then(|| weft_meta::Refusals {
            one_in: 1,
            errnos: vec![errno],
        });
        self.meta.borrow().as_ref().unwrap().set_refusals(refusals);
    }

    /// Stops the metadata server and starts it again at the same address.
    pub async fn restart_meta(&self, away: Duration) {
        let server = self.meta.borrow_mut().take().unwrap();
        server.stop().await;
        self.env.sleep(away).await;
        self.start_meta(&self.dir).await;
    }

    /// Starts a metadata server at the address of the first.
    pub async fn start_meta(&self, dir: &Path) {
        let settings = meta_settings(dir, &self.address);
        for _ in 0..100 {
            match weft_meta::start(self.env.clone(), settings.clone()).await {
                Ok(server) => {
                    *self.meta.borrow_mut() = Some(server);
                    return;
                }
                Err(_) => self.env.sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("the metadata server does not start again");
    }

    pub fn objects(&self) -> usize {
        self.stores.iter().map(|s| s.objects.borrow().len()).sum()
    }
}

/// Runs a test against a cluster of its own with stand-ins, then against one with real servers.
pub fn with_cluster(pairs: u32, test: impl AsyncFn(Rc<Cluster>)) {
    with_kind(pairs, Kind::StandIns, &test);
    with_kind(pairs, Kind::Real, &test);
}

/// Runs a test against a cluster of its own with stand-ins.
pub fn with_stand_ins(pairs: u32, test: impl AsyncFn(Rc<Cluster>)) {
    with_kind(pairs, Kind::StandIns, &test);
}

pub fn with_kind(pairs: u32, kind: Kind, test: &impl AsyncFn(Rc<Cluster>)) {
    let dir = tempfile::tempdir().unwrap();
    weft_env::real::run(async |env| {
        let cluster = Rc::new(Cluster::start(&env, dir.path(), pairs, kind).await);
        let limit = Duration::from_secs(60);
        let done = env.timeout(limit, test(cluster)).await;
        assert!(done.is_ok(), "the test hangs");
    })
    .unwrap();
}

pub fn root() -> proto::Cred {
    proto::Cred::default()
}

/// Bytes that differ everywhere.
pub fn pattern(seed: u64, length: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(length + 8);
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while bytes.len() < length {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.freeze()
}
