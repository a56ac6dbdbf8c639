//! A pair of data servers, a metadata service that only keeps their state, and a client, in one
//! process over loopback.

mod group;

pub use group::Group;

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use weft_data::{Server, Settings};
use weft_env::{Env, Mono};
use weft_pair::{
    Action, Disk, Keeper, Mode, PairState, Registration, Said, StoreKey, Terms, Word,
    mode_from_proto,
};
use weft_rpc::{CallError, Connection, Handler, Local, Payload, Replier, Request};
use weft_types::{Epoch, Ino, Member, ObjectId, PairId};
use weft_wire::proto::{self, Identity, Protocol, identity::Role};
use weft_wire::{Failed, Rpc};

pub const CLUSTER: &str = "test";
pub const ZERO: Member = Member::Zero;
pub const ONE: Member = Member::One;
pub const SESSION: u64 = 7;
/// How long a member may serve without word of the service: a busy machine stands still for some tenths of
/// a second.
pub const LEASE: Duration = Duration::from_millis(1000);

pub fn object(ino: u64) -> ObjectId {
    ObjectId {
        ino: Ino(ino),
        generation: 0,
    }
}

pub fn name(object: ObjectId) -> proto::ObjectName {
    proto::ObjectName {
        ino: object.ino.0,
        generation: object.generation,
    }
}

/// The state of a pair, journaled in memory.
pub struct Meta {
    env: Env,
    keeper: RefCell<Keeper>,
    connections: RefCell<BTreeMap<u64, (Connection, Member)>>,
    waiting: RefCell<BTreeMap<u64, Replier>>,
    addresses: RefCell<[String; 2]>,
    reports: RefCell<[proto::MemberReport; 2]>,
    /// Journal writes take for ever.
    pub journal_hangs: Cell<bool>,
    stuck: RefCell<Vec<Epoch>>,
    /// Beats are not answered.
    pub mute: Cell<bool>,
    unanswered: RefCell<Vec<Replier>>,
    pub journaled: RefCell<Vec<PairState>>,
    pub live_sessions: RefCell<Vec<u64>>,
    /// Sessions that may have gone on with what only one member had.
    pub unsettled: Cell<u32>,
    /// Of these objects something came back.
    pub returned: RefCell<Vec<ObjectId>>,
    /// Addresses of metadata servers that members are told when they register.
    pub members: RefCell<Vec<String>>,
    /// The other replica groups, and who has which slots, as members are told when they register.
    pub groups: RefCell<Vec<proto::Group>>,
    pub slots: RefCell<Vec<proto::SlotRange>>,
    /// Requests that were answered with who leads.
    pub turned_away: Cell<usize>,
}

impl Meta {
    pub async fn start(env: &Env, address: &str) -> (Rc<Meta>, String) {
        let now = env.now().since(Mono(0));
        let mut keeper = Keeper::new(PairState::new(PairId(0)), Terms::default(), now);
        assert_eq!(keeper.committed(now), []);
        let meta = Rc::new(Meta {
            env: env.clone(),
            keeper: RefCell::new(keeper),
            connections: RefCell::default(),
            waiting: RefCell::default(),
            addresses: RefCell::default(),
            reports: RefCell::default(),
            journal_hangs: Cell::new(false),
            stuck: RefCell::default(),
            mute: Cell::new(false),
            unanswered: RefCell::default(),
            journaled: RefCell::default(),
            live_sessions: RefCell::new(vec![SESSION]),
            unsettled: Cell::new(0),
            returned: RefCell::default(),
            members: RefCell::default(),
            groups: RefCell::default(),
            slots: RefCell::default(),
            turned_away: Cell::new(0),
        });
        let (address, _) = meta.listen(address).await;
        let ticking = meta.clone();
        env.spawn("ticks", async move {
            loop {
                ticking.env.sleep(Duration::from_millis(10)).await;
                let now = ticking.now();
                let actions = ticking.keeper.borrow_mut().tick(now);
                ticking.run(actions);
            }
        });
        (meta, address)
    }

    /// Serves at one more address, as another member that has the same journal. Once the cell says so, what is
    /// asked there is turned away: to the address in it.
    pub async fn listen(self: &Rc<Meta>, address: &str) -> (String, Rc<RefCell<Option<String>>>) {
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: Role::Meta.into(),
                ..Identity::default()
            },
        );
        let deposed_for: Rc<RefCell<Option<String>>> = Rc::default();
        let (handled, deposed) = (self.clone(), deposed_for.clone());
        let handler: Handler = Rc::new(move |connection, request| match deposed.borrow().clone() {
            None => handled.clone().on_request(connection, request),
            Some(active) => {
                handled.turned_away.set(handled.turned_away.get() + 1);
                request.replier.fail(Failed::NotActive {
                    active,
                    members: handled.members.borrow().clone(),
                });
            }
        });
        let serving = weft_rpc::serve(&self.env, address, local, |_| {}, handler);
        (serving.await.unwrap(), deposed_for)
    }

    fn now(&self) -> Duration {
        self.env.now().since(Mono(0))
    }

    pub fn state(&self) -> PairState {
        self.keeper.borrow().published()
    }

    pub fn report(&self, member: Member) -> proto::MemberReport {
        self.reports.borrow()[member.index()].clone()
    }

    /// The journal works again, and what was stuck is done.
    pub fn journal_goes_on(self: &Rc<Meta>) {
        self.journal_hangs.set(false);
        for epoch in std::mem::take(&mut *self.stuck.borrow_mut()) {
            let now = self.now();
            let actions = self.keeper.borrow_mut().on_journaled(epoch, now);
            self.run(actions);
        }
    }

    fn on_request(self: Rc<Meta>, connection: &Connection, request: Request) {
        let number = connection.number();
        let now = self.now();
        let wanted = connection.identity().group;
        if wanted != 0 {
            // Somebody looks for another group's active.
            let groups = self.groups.borrow();
            let group = groups.iter().find(|group| group.id == wanted);
            let members = group.into_iter().flat_map(|group| &group.members);
            return request.replier.fail(Failed::NotActive {
                active: String::new(),
                members: members.map(|member| member.address.clone()).collect(),
            });
        }
        match request.method {
            // Tests wipe and start as they like: this service has a place for everybody.
            proto::PlaceRequest::METHOD => {
                let place = proto::PlaceReply::default();
                request
                    .replier
                    .send::<proto::PlaceRequest>(&place, Payload::none());
            }
            // Nor is it told of older copies.
            proto::RenewLifeRequest::METHOD => request
                .replier
                .send::<proto::RenewLifeRequest>(&proto::RenewLifeReply {}, Payload::none()),
            proto::RegisterRequest::METHOD => {
                let message: proto::RegisterRequest = request.decode().unwrap();
                let member = Member::from_index(message.member).unwrap();
                self.addresses.borrow_mut()[member.index()] = message.address;
                self.connections
                    .borrow_mut()
                    .insert(number, (connection.clone(), member));
                self.waiting.borrow_mut().insert(number, request.replier);
                let registration = Registration {
                    forgot: message.forgot,
                    connection: number,
                    incarnation: message.incarnation,
                    store: StoreKey::of(&message.store_id),
                    was_serving: message.was_serving,
                    disk: Disk::from_proto(message.disk),
                    last: Word {
                        epoch: Epoch(message.last_epoch),
                        mode: mode_from_proto(message.last_mode, message.last_serving),
                    },
                };
                let actions = self.keeper.borrow_mut().register(member, registration, now);
                let meta = self.clone();
                let watched = connection.clone();
                self.env.spawn("connection watch", async move {
                    watched.closed().await;
                    let now = meta.now();
                    let actions = meta.keeper.borrow_mut().connection_lost(
                        member,
                        number,
                        watched.ended_by_peer(),
                        now,
                    );
                    meta.connections.borrow_mut().remove(&number);
                    meta.run(actions);
                });
                self.run(actions);
            }
            proto::BeatRequest::METHOD => {
                let message: proto::BeatRequest = request.decode().unwrap();
                let member = Member::from_index(message.member).unwrap();
                if self.mute.get() {
                    return self.unanswered.borrow_mut().push(request.replier);
                }
                if !self.keeper.borrow().is_welcomed(member, number) {
                    return request.replier.fail(Failed::Unavailable("who?".into()));
                }
                let epoch = Epoch(message.epoch);
                self.reports.borrow_mut()[member.index()] = message.report.unwrap();
                let said = Said {
                    twin_lost: message.twin_lost,
                    load: 0,
                    disk: Disk::from_proto(message.disk),
                };
                let actions = self.keeper.borrow_mut().beat(member, epoch, said, now);
                let state = self.keeper.borrow().state_for(member);
                let state = state.map(|state| state.to_proto());
                let again = self.keeper.borrow().is_to_speak_again(member, now);
                let reply = proto::BeatReply { state, again };
                request
                    .replier
                    .send::<proto::BeatRequest>(&reply, Payload::none());
                self.run(actions);
            }
            proto::RecoveredRequest::METHOD => {
                let message: proto::RecoveredRequest = request.decode().unwrap();
                let member = self.connections.borrow()[&number].1;
                let epoch = Epoch(message.epoch);
                let actions = self.keeper.borrow_mut().recovered(member, epoch, now);
                request
                    .replier
                    .send::<proto::RecoveredRequest>(&proto::RecoveredReply {}, Payload::none());
                self.run(actions);
            }
            proto::UnsettledRequest::METHOD => {
                let sessions = self.unsettled.get();
                let reply = proto::UnsettledReply { sessions };
                request
                    .replier
                    .send::<proto::UnsettledRequest>(&reply, Payload::none());
            }
            proto::ReturnedRequest::METHOD => {
                let message: proto::ReturnedRequest = request.decode().unwrap();
                let objects = message.objects.iter().map(|name| ObjectId {
                    ino: Ino(name.ino),
                    generation: name.generation,
                });
                self.returned.borrow_mut().extend(objects);
                request
                    .replier
                    .send::<proto::ReturnedRequest>(&proto::ReturnedReply {}, Payload::none());
            }
            other => panic!("method {other} to the metadata service"),
        }
    }

    fn run(self: &Rc<Meta>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Journal { state, .. } => {
                    self.journaled.borrow_mut().push(state);
                    if self.journal_hangs.get() {
                        self.stuck.borrow_mut().push(state.epoch);
                        continue;
                    }
                    let meta = self.clone();
                    self.env.spawn("journal", async move {
                        meta.env.sleep(Duration::from_millis(2)).await;
                        let now = meta.now();
                        let actions = meta.keeper.borrow_mut().on_journaled(state.epoch, now);
                        meta.run(actions);
                    });
                }
                Action::Welcome { member, connection } => {
                    let state = self.keeper.borrow().state_for(member);
                    let reply = proto::RegisterReply {
                        state: state.map(|state| state.to_proto()),
                        peer_address: self.addresses.borrow()[member.twin().index()].clone(),
                        live_sessions: self.live_sessions.borrow().clone(),
                        fenced_below: 100,
                        lease_ms: LEASE.as_millis() as u64,
                        beat_ms: 50,
                        name_space: bytes::Bytes::new(),
                        meta_addresses: self.members.borrow().clone(),
                        groups: self.groups.borrow().clone(),
                        slots: self.slots.borrow().clone(),
                    };
                    let replier = self.waiting.borrow_mut().remove(&connection).unwrap();
                    replier.send::<proto::RegisterRequest>(&reply, Payload::none());
                }
                Action::Tell { member, connection } => {
                    let Some((to, _)) = self.connections.borrow().get(&connection).cloned() else {
                        continue;
                    };
                    let Some(state) = self.keeper.borrow().state_for(member) else {
                        continue;
                    };
                    let request = proto::SetStateRequest {
                        state: Some(state.to_proto()),
                        peer_address: self.addresses.borrow()[member.twin().index()].clone(),
                    };
                    let meta = self.clone();
                    self.env.spawn("tell", async move {
                        if to.call(&request, Payload::none()).await.is_ok() {
                            let now = meta.now();
                            let actions =
                                meta.keeper
                                    .borrow_mut()
                                    .acknowledged(member, state.epoch, now);
                            meta.run(actions);
                        }
                    });
                }
                Action::Close { connection } => {
                    if let Some((old, _)) = self.connections.borrow_mut().remove(&connection) {
                        old.close("registered again");
                    }
                }
                Action::Refuse { connection, why } => {
                    let replier = self.waiting.borrow_mut().remove(&connection).unwrap();
                    replier.fail(Failed::Refused(why.into()));
                }
                Action::Publish(_) => {}
            }
        }
    }

    /// Ends the connections of all members, which register again.
    pub fn part(&self) {
        for (connection, _) in self.connections.borrow().values() {
            connection.close("to be made again");
        }
    }

    /// Sends an order to a member.
    pub async fn order<R: Rpc>(&self, member: Member, request: &R) -> Result<R::Reply, CallError> {
        let to = self
            .connections
            .borrow()
            .values()
            .find(|(_, who)| *who == member)
            .map(|(connection, _)| connection.clone())
            .unwrap();
        Ok(to.call(request, Payload::none()).await?.0)
    }
}

/// Everything together.
pub struct Bed {
    pub env: Env,
    pub meta: Rc<Meta>,
    /// Of the settings of members that are started.
    pub meta_addresses: Vec<String>,
    dirs: [tempfile::TempDir; 2],
    pub servers: [Option<Server>; 2],
    pub tune: fn(&mut Settings),
    operation: Cell<u64>,
    pub protocol: Protocol,
    /// What members said after their answers: operation, and whether it was done.
    pub copied: Rc<RefCell<Vec<(u64, bool)>>>,
}

impl Bed {
    pub async fn start(env: Env) -> Bed {
        Bed::tuned(env, |_| {}).await
    }

    pub async fn tuned(env: Env, tune: fn(&mut Settings)) -> Bed {
        Bed::among(env, tune, &[]).await
    }

    /// With other groups than the first.
    pub async fn among(env: Env, tune: fn(&mut Settings), groups: &[&Group]) -> Bed {
        let (meta, meta_address) = Meta::start(&env, "127.0.0.1:0").await;
        let records = groups.iter().map(|group| group.record());
        meta.groups.borrow_mut().extend(records);
        let dir = || tempfile::tempdir().unwrap();
        let mut bed = Bed {
            env,
            meta,
            meta_addresses: vec![meta_address],
            dirs: [dir(), dir()],
            servers: [None, None],
            copied: Rc::default(),
            tune,
            operation: Cell::new(1),
            protocol: Protocol::ServerSync,
        };
        bed.up(ZERO).await;
        bed.up(ONE).await;
        bed.until(Mode::Both, 2).await;
        bed
    }

    pub fn dir(&self, member: Member) -> PathBuf {
        self.dirs[member.index()].path().join("store")
    }

    pub async fn up(&mut self, member: Member) {
        let mut settings = Settings {
            dir: self.dir(member),
            member: member.index() as u32,
            meta: self.meta_addresses.clone(),
            cluster_id: CLUSTER.into(),
            ..Settings::default()
        };
        (self.tune)(&mut settings);
        let server = weft_data::start(self.env.clone(), settings).await.unwrap();
        self.servers[member.index()] = Some(server);
    }

    pub async fn down(&mut self, member: Member) {
        self.servers[member.index()].take().unwrap().stop();
        // Writes that the operating system has begun end.
        self.env.sleep(Duration::from_millis(30)).await;
    }

    pub fn wipe(&self, member: Member) {
        #[allow(clippy::disallowed_methods)]
        std::fs::remove_dir_all(self.dir(member)).unwrap();
    }

    /// Changes a bit of these bytes in the file of a member that holds them.
    #[allow(clippy::disallowed_methods)]
    pub fn damage(&self, member: Member, bytes: &[u8]) {
        let mut dirs = vec![self.dir(member)];
        while let Some(dir) = dirs.pop() {
            for item in std::fs::read_dir(dir).unwrap() {
                let path = item.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                    continue;
                }
                let mut content = std::fs::read(&path).unwrap();
                let at = content.windows(bytes.len()).position(|w| w == bytes);
                if let Some(at) = at {
                    use std::os::unix::fs::FileExt;
                    content[at + 7] ^= 0x55;
                    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                    file.write_at(&content[at + 7..at + 8], at as u64 + 7)
                        .unwrap();
                    return;
                }
            }
        }
        panic!("not found");
    }

    /// The file of an object of a member.
    #[allow(clippy::disallowed_methods)]
    pub fn file(&self, member: Member, object: ObjectId) -> PathBuf {
        let objects = self.dir(member).join("objects");
        let subs = std::fs::read_dir(objects).unwrap();
        let files = subs.map(|sub| sub.unwrap().path().join(object.to_string()));
        files.into_iter().find(|file| file.exists()).unwrap()
    }

    pub fn server(&self, member: Member) -> &Server {
        self.servers[member.index()].as_ref().unwrap()
    }

    /// Waits until the state published is this, with at least this epoch, and in force at the
    /// members that run.
    pub async fn until(&self, mode: Mode, epoch: u64) {
        for _ in 0..1000 {
            let state = self.meta.state();
            let running: Vec<&Server> = self.servers.iter().flatten().collect();
            let mut ready = state.mode == mode
                && state.epoch.0 >= epoch
                && running.iter().all(|server| server.state() == Some(state));
            if ready {
                for server in running {
                    let status = self.status(server.address()).await;
                    let member = Member::from_index(u32::from(
                        !self.servers[0]
                            .as_ref()
                            .is_some_and(|s| std::ptr::eq(s, server)),
                    ))
                    .unwrap();
                    ready &= status.leased == mode.serves(member);
                }
                if ready {
                    return;
                }
            }
            self.env.sleep(Duration::from_millis(10)).await;
        }
        panic!("{mode} not reached: {}", self.meta.state());
    }

    /// What a running member reports of itself.
    pub async fn report(&self, member: Member) -> proto::MemberReport {
        let server = self.servers[member.index()].as_ref().unwrap();
        self.status(server.address()).await.report.unwrap()
    }

    async fn status(&self, address: &str) -> proto::DataStatusReply {
        let connection = self.connect_to(address).await;
        let request = proto::DataStatusRequest {};
        let reply = connection.call(&request, Payload::none()).await.unwrap().0;
        connection.close("asked");
        reply
    }

    async fn connect_to(&self, address: &str) -> Connection {
        self.connect_as((Role::Client, SESSION), address).await
    }

    /// A connection to a member, as its twin has it.
    pub async fn connect_as_twin(&self, member: Member) -> Connection {
        let twin = (Role::Data, member.twin().index() as u64);
        self.connect_as(twin, self.server(member).address()).await
    }

    async fn connect_as(&self, (role, id): (Role, u64), address: &str) -> Connection {
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: role.into(),
                id,
                incarnation: 1,
                group: 0,
            },
        );
        let copied = self.copied.clone();
        let handler = Rc::new(move |_: &Connection, request: weft_rpc::Request| {
            let said = request.decode::<proto::Copied>().unwrap();
            copied
                .borrow_mut()
                .push((said.operation, said.failure.is_none()));
        });
        weft_rpc::connect(&self.env, address, &local, handler)
            .await
            .unwrap()
    }

    pub async fn connect(&self, member: Member) -> Connection {
        self.connect_to(self.server(member).address()).await
    }

    pub fn write_request(
        &self,
        session: u64,
        object: ObjectId,
        offset: u64,
        length: usize,
    ) -> proto::WriteRequest {
        let operation = self.operation.get();
        self.operation.set(operation + 1);
        proto::WriteRequest {
            session,
            epoch: self.meta.state().epoch.0,
            pair: 0,
            object: Some(name(object)),
            extents: vec![proto::Extent {
                offset,
                length: length as u32,
            }],
            protocol: self.protocol.into(),
            operation,
            confirmed_below: 0,
        }
    }

    pub async fn write(
        &self,
        connection: &Connection,
        object: ObjectId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, CallError> {
        let request = self.write_request(SESSION, object, offset, bytes.len());
        let payload = Bytes::copy_from_slice(bytes);
        Ok(connection.call(&request, payload).await?.0.both)
    }

    pub async fn read(
        &self,
        connection: &Connection,
        object: ObjectId,
        offset: u64,
        length: u32,
    ) -> Result<Bytes, CallError> {
        let request = proto::ReadRequest {
            session: SESSION,
            epoch: self.meta.state().epoch.0,
            pair: 0,
            object: Some(name(object)),
            offset,
            length,
        };
        Ok(connection.call(&request, Payload::none()).await?.1)
    }

    pub async fn shape(
        &self,
        connection: &Connection,
        object: ObjectId,
        truncate: Option<u64>,
        punch: &[std::ops::Range<u64>],
    ) -> Result<(), CallError> {
        let request = proto::ShapeRequest {
            session: SESSION,
            epoch: self.meta.state().epoch.0,
            pair: 0,
            object: Some(name(object)),
            truncate,
            punch: punch
                .iter()
                .map(|hole| proto::Range {
                    start: hole.start,
                    end: hole.end,
                })
                .collect(),
            operation: 0,
            protocol: self.protocol.into(),
        };
        connection.call(&request, Payload::none()).await?;
        Ok(())
    }

    /// Every object of a member, byte for byte.
    pub async fn content(&self, member: Member) -> BTreeMap<ObjectId, Vec<u8>> {
        let store = self.server(member).store();
        let mut content = BTreeMap::new();
        for (object, length) in store.list(None, usize::MAX).await.unwrap() {
            let parts = store.read(object, 0, length).await.unwrap();
            let mut bytes = parts.concat();
            bytes.resize(length as usize, 0);
            content.insert(object, bytes);
        }
        content
    }

    pub async fn assert_equal(&self) {
        let (zero, one) = (self.content(ZERO).await, self.content(ONE).await);
        assert_eq!(
            zero.keys().collect::<Vec<_>>(),
            one.keys().collect::<Vec<_>>()
        );
        for (object, bytes) in zero {
            assert!(bytes == one[&object], "{object} differs");
        }
    }
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Runs a test in the real environment.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(Env) -> F) {
    weft_env::real::run(test).unwrap();
}
