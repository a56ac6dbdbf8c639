//! The server as a whole: its state in force, who is asked what, starting and stopping.

use crate::alone::Alone;
use crate::attend;
use crate::disk::Disk;
use crate::gone::Ends;
use crate::intake::Intake;
use crate::link::{self, Link};
use crate::locks::Locks;
use crate::marks::{self, Marks};
use crate::metrics::Metrics;
use crate::owed::Owed;
use crate::registration::{self, Registration};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::{forward, life, losses, place, read, recovery, tools, write};
use futures_util::future::{Either, select};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, Semaphore};
use weft_env::{Env, Mono, Task};
use weft_objects::{Directory, Store};
use weft_pair::recovery::Plan;
use weft_pair::{MemberSide, Mode, Now, PairState, Refusal, StoreKey};
use weft_rpc::{Connection, Handler, Local, Payload};
use weft_types::{Epoch, Ino, Member, NameSpaceId, ObjectId, PairId};
use weft_wire::proto::{self, identity::Role};
use weft_wire::{Failed, Rpc};

/// A request that names an epoch this member has not been told yet waits this long for it: states
/// are told to both members and to clients within a round trip of one another.
const AHEAD_PATIENCE: Duration = Duration::from_millis(500);
/// How often the figures of a beat are taken anew: asking the file system and walking the modified
/// list is not for every beat.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// Why a data server does not start.
#[derive(Debug, Error)]
pub enum DataError {
    /// The settings contradict themselves or lack something.
    #[error("setting {name}: {why}")]
    Setting {
        /// Which one.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The metadata service says that this server is not to run in this directory.
    #[error("{0}")]
    Misplaced(String),
    /// The directory cannot be used.
    #[error(transparent)]
    Store(#[from] weft_objects::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which one.
        address: String,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl DataError {
    /// This server is not to run in this directory, however often it is started.
    pub fn is_refusal(&self) -> bool {
        use weft_objects::Error::{Locked, Misplaced};
        matches!(
            self,
            DataError::Misplaced(_) | DataError::Store(Locked(_) | Misplaced { .. })
        )
    }
}

/// Everything that the tasks of one server share.
pub(crate) struct Node {
    pub env: Env,
    pub settings: Settings,
    pub store: Store,
    pub disk: Disk,
    pub ends: Ends,
    pub pair: PairId,
    pub me: Member,
    /// Differs for each start of the process.
    pub incarnation: u64,
    /// Its figures count from then.
    started: Now,
    pub local: Local,
    /// What others are told to connect to; known once it listens.
    pub address: RefCell<String>,
    pub side: RefCell<MemberSide>,
    /// The epoch in force, and whether this member serves under it.
    under: Cell<(Epoch, bool)>,
    /// The state or the right to serve changed.
    pub changed: Notify,
    /// Held by whoever changes what the store says of itself.
    pub store_records: Semaphore,
    /// The last state that was written down, or could not be.
    pub record_tried: Cell<Epoch>,
    pub locks: Locks,
    pub marks: Marks,
    pub owed: Owed,
    pub intake: Intake,
    pub alone: Alone,
    pub sessions: RefCell<Sessions>,
    pub link: Link,
    pub registration: Registration,
    pub others: attend::Others,
    /// What recovery has still to compare; Some while it runs.
    pub plan: RefCell<Option<Plan>>,
    pub progress: Cell<Progress>,
    pub metrics: Metrics,
    /// Requests of clients in progress.
    pub load: Cell<u64>,
    report: RefCell<(Now, proto::MemberReport)>,
    /// Bytes that the twin said it may still take.
    pub twin_room: Cell<u64>,
    connections: RefCell<Vec<Connection>>,
    misplaced: Rc<Misplaced>,
    stopped: Notify,
    is_stopped: Cell<bool>,
}

/// That the metadata service does not want this server here; said once.
#[derive(Default)]
struct Misplaced {
    why: OnceCell<String>,
    said: Notify,
}

/// Counts a request in progress.
pub(crate) struct Loaded(Rc<Node>);

impl Drop for Loaded {
    fn drop(&mut self) {
        self.0.load.set(self.0.load.get() - 1);
    }
}

impl Node {
    /// Monotonic time, as the pure crates want it.
    pub fn now(&self) -> Now {
        self.env.now().since(Mono(0))
    }

    /// A request begins; it ends when the answer is dropped.
    pub fn loaded(self: &Rc<Node>) -> Loaded {
        self.load.set(self.load.get() + 1);
        Loaded(self.clone())
    }

    /// Runs a task until it ends or the server stops.
    pub fn spawn(self: &Rc<Node>, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let node = self.clone();
        self.env.spawn(name, async move {
            let stopped = node.stopped.notified();
            if !node.is_stopped.get() {
                // Either way it is over.
                let _: Either<_, _> = select(pin!(task), pin!(stopped)).await;
            }
        });
    }

    /// The metadata service says that this server is not to be here.
    pub fn misplaced(&self, why: &str) {
        if self.misplaced.why.set(why.to_owned()).is_ok() {
            self.misplaced.said.notify_waiters();
        }
    }

    /// The name space that registered this server. A store of before there were ids notes it.
    pub fn told_name_space(self: &Rc<Node>, id: &[u8]) {
        let Some(id) = NameSpaceId::from_bytes(id) else {
            return;
        };
        self.local.is_of(id);
        if self.store.name_space().is_some() {
            return;
        }
        let node = self.clone();
        self.spawn("name space record", async move {
            let _turn = node.store_records.acquire().await;
            if let Err(error) = node.store.record_name_space(id).await {
                tracing::warn!(%error, "the name space could not be recorded");
                node.store_failed(error);
            }
        });
    }

    /// The metadata service says that this is the state, and where the twin is.
    pub fn adopt(self: &Rc<Node>, state: PairState, twin: &str) {
        self.link.set_address(twin);
        let news = self.side.borrow_mut().told(state);
        if news {
            self.on_new_state(state);
        }
    }

    /// A new state is in force.
    pub fn on_new_state(self: &Rc<Node>, state: PairState) {
        tracing::info!(%state, member = %self.me, "a new state of the pair is in force");
        self.link.new_epoch();
        self.metrics.epoch.set(state.epoch.0 as i64);
        *self.plan.borrow_mut() = None;
        self.registration.takes_part();
        let serves = state.mode.serves(self.me);
        let before = self.under.replace((state.epoch, serves));
        // Under an epoch that was not told here it may not have served.
        if serves && before != (Epoch(state.epoch.0 - 1), true) {
            attend::hear_anew(self);
        }
        if matches!(state.mode, Mode::Only(_) | Mode::Down(_)) {
            self.link.part();
        }
        if state.mode == Mode::Recovering(self.me.twin()) {
            self.marks.vouched_by_twin();
        }
        if serves {
            self.store.became_current();
        }
        let unsure = || self.marks.unsure();
        if self.alone.on_state(self.me, &state, unsure) {
            self.spawn("unsettled sessions", losses::watch(self.clone()));
        }
        self.changed.notify_waiters();
        if state.mode == Mode::Recovering(self.me) {
            self.spawn("recovery", recovery::run(self.clone(), state));
        }
        self.record_state();
    }

    /// A session writes here and, by whoever leads, to the twin.
    pub fn announce(
        &self,
        session: u64,
        object: ObjectId,
        regions: &[std::ops::Range<u32>],
        numbers: (u64, u64),
    ) {
        let is_fenced = |session| self.sessions.borrow().is_fenced(session);
        self.alone
            .announce(session, object, regions, numbers, is_fenced);
    }

    /// Writes down under which state this member is.
    pub fn record_state(self: &Rc<Node>) {
        let Some(state) = self.side.borrow().state() else {
            return;
        };
        let node = self.clone();
        self.spawn("epoch record", async move {
            // One after the other, and only the newest: two at once would trip over the same
            // temporary file, or leave the older one.
            let _turn = node.store_records.acquire().await;
            if node.side.borrow().state() != Some(state) {
                return;
            }
            let serving = state.mode.serves(node.me);
            let settled = node.alone.is_settled(node.me);
            let mode = node.side.borrow().mode_of_own();
            let recorded = node.store.record_state(state.epoch, mode, serving, settled);
            let recorded = recorded.await;
            node.record_tried.set(state.epoch);
            if let Err(error) = recorded {
                tracing::warn!(%error, "the pair's epoch could not be recorded");
                node.store_failed(error);
            }
        });
    }

    /// Returns once a state above `epoch` is in force.
    pub async fn state_beyond(&self, epoch: Epoch) -> PairState {
        loop {
            let changed = self.changed.notified();
            if let Some(state) = self.side.borrow().state()
                && state.epoch > epoch
            {
                return state;
            }
            changed.await;
        }
    }

    /// Runs `check` until its answer is not that the request is ahead of this member.
    ///
    /// # Errors
    /// As `check`; a request that stays ahead is `Unavailable`.
    pub async fn not_ahead<T>(
        &self,
        check: impl Fn(&MemberSide, Now) -> Result<T, Refusal>,
    ) -> Result<T, Failed> {
        let until = self.env.now() + AHEAD_PATIENCE;
        loop {
            let changed = self.changed.notified();
            let checked = check(&self.side.borrow(), self.now());
            match checked {
                Ok(checked) => return Ok(checked),
                Err(ahead @ Refusal::Ahead { .. }) => {
                    let left = until.since(self.env.now());
                    if left.is_zero() || self.env.timeout(left, changed).await.is_err() {
                        return Err(ahead.into());
                    }
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    /// The other side of this connection is this server's twin.
    pub fn is_twin(&self, connection: &Connection) -> bool {
        let identity = connection.identity();
        let twin = link::identity_of(self.pair.0, self.me.twin().index() as u32, 0);
        identity.role == i32::from(Role::Data) && identity.id == twin.id
    }

    /// What the next beat says of the link to the twin.
    pub fn twin_lost(&self) -> bool {
        let all_writes = match self.side.borrow().mode() {
            Some(Mode::Both) => true,
            Some(Mode::Recovering(m)) => m == self.me,
            _ => false,
        };
        self.link.is_lost(all_writes)
    }

    /// An error of the store as the answer to whoever asked.
    pub fn store_failed(&self, error: weft_objects::Error) -> Failed {
        self.metrics.disk_errors.inc();
        if let Some(failure) = error.failure() {
            self.disk_fails(failure, &error.to_string());
        }
        match &error {
            weft_objects::Error::Io { .. } => {
                tracing::warn!(%error, "the store refused an operation");
            }
            weft_objects::Error::BadBlocks { .. } | weft_objects::Error::Format { .. } => {
                tracing::error!(%error, "data is damaged");
            }
            _ => {}
        }
        Failed::Errno(error.errno())
    }

    /// The next report is taken anew.
    pub fn report_anew(&self) {
        self.report.borrow_mut().0 = Now::ZERO;
    }

    /// What a beat reports.
    pub fn report(&self) -> proto::MemberReport {
        let now = self.now();
        {
            let (taken, report) = &*self.report.borrow();
            if *taken != Now::ZERO && now < *taken + REPORT_EVERY {
                return proto::MemberReport {
                    load: self.load.get(),
                    clock_unix_ms: self.clock_unix_ms(),
                    ..report.clone()
                };
            }
        }
        let space = self.store.space().unwrap_or_default();
        let progress = self.progress.get();
        let exposure = self.owed.exposure(self.marks.alone(), now);
        let lost = self.store.losses(None);
        let lost_objects: BTreeSet<ObjectId> = lost.iter().map(|loss| loss.object).collect();
        let (server_async, client_async) = (self.owed.held(), self.marks.held());
        let report = proto::MemberReport {
            total_bytes: space.total,
            free_bytes: space.free,
            objects: space.objects,
            bytes_read: self.metrics.read_bytes.get(),
            bytes_written: self.metrics.written_bytes.get() + self.metrics.copied_bytes.get(),
            bad_blocks: self.metrics.bad_blocks.get(),
            healed_blocks: self.metrics.healed_blocks.get(),
            dirty_regions: self.store.dirty_region_count(),
            job: progress.job.to_owned(),
            job_done: progress.done,
            job_total: progress.total,
            job_rate_bytes: progress.bytes_per_s,
            mismatches: self.metrics.mismatches.get(),
            load: self.load.get(),
            owed_bytes: exposure.bytes,
            owed_objects: exposure.objects,
            owed_ms: exposure.oldest.as_millis() as u64,
            writes: self.metrics.writes.get(),
            driven_writes: self.metrics.driven_writes.get(),
            counted_ms: now.saturating_sub(self.started).as_millis() as u64,
            server_async_writes: server_async.writes,
            server_async_us: server_async.time.as_micros() as u64,
            client_async_writes: client_async.writes,
            client_async_us: client_async.time.as_micros() as u64,
            recovered_bytes: self.metrics.recovered_bytes.get(),
            recovery_ms: self.metrics.recovery_ms.get(),
            lost_ranges: lost.len() as u64,
            lost_bytes: lost
                .iter()
                .map(|loss| loss.range.end - loss.range.start)
                .sum(),
            lost_objects: lost_objects.len() as u64,
            disk_error: self.disk.words(),
            reads_of_twin: self.metrics.reads_of_twin.get(),
            clock_unix_ms: self.clock_unix_ms(),
            clock_off_ms: 0,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        self.metrics.lost_bytes.set(report.lost_bytes as i64);
        self.metrics.owed_bytes.set(exposure.bytes as i64);
        self.metrics.owed_ms.set(report.owed_ms as i64);
        self.metrics.free_bytes.set(space.free as i64);
        self.metrics.dirty_regions.set(report.dirty_regions as i64);
        let left = self.plan.borrow().as_ref().map_or(0, Plan::left);
        self.metrics.recovery_left.set(left as i64);
        let serves = self.side.borrow().serves(now).is_ok();
        self.metrics.serving.set(i64::from(serves));
        *self.report.borrow_mut() = (now, report.clone());
        report
    }

    fn clock_unix_ms(&self) -> u64 {
        u64::try_from(self.env.wall().0 / 1_000_000).unwrap_or(0)
    }

    /// Bytes that may still be written here, as of the last report; 0 before the first.
    pub fn room(&self) -> u64 {
        self.report.borrow().1.free_bytes
    }

    /// The state under which `session` (over `connection`) may be served now.
    ///
    /// # Errors
    /// What is to be answered.
    pub fn admit(
        &self,
        pair: PairId,
        epoch: Epoch,
        session: u64,
        connection: u64,
    ) -> Result<PairState, Failed> {
        let now = self.now();
        let state = self.side.borrow().admits(pair, epoch, now)?;
        self.sessions.borrow_mut().check(session, connection)?;
        Ok(state)
    }

    /// Stops all tasks and closes all connections, as a kill would.
    fn stop(&self) {
        // First of all: the end of the connections is taken as proof.
        self.side.borrow_mut().disconnected();
        self.is_stopped.set(true);
        self.stopped.notify_waiters();
        for connection in self.connections.borrow_mut().drain(..) {
            connection.close("the server stops");
        }
    }
}

/// How far a job (recovery, scrub) is, in bytes looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// What is being done; empty: nothing.
    pub job: &'static str,
    pub done: u64,
    pub total: u64,
    pub bytes_per_s: u64,
}

/// The object that a message names.
///
/// # Errors
/// [`Failed::Refused`] if it names none.
pub(crate) fn from_name(name: Option<proto::ObjectName>) -> Result<ObjectId, Failed> {
    match name {
        Some(name) if name.ino != 0 => Ok(ObjectId {
            ino: Ino(name.ino),
            generation: name.generation,
        }),
        _ => Err(Failed::Refused("no object is named".into())),
    }
}

/// An object's name in a message.
pub(crate) fn to_name(object: ObjectId) -> proto::ObjectName {
    proto::ObjectName {
        ino: object.ino.0,
        generation: object.generation,
    }
}

/// Takes the requests of clients, tools and the twin.
pub(crate) fn handler(node: &Rc<Node>) -> Handler {
    let weak: Weak<Node> = Rc::downgrade(node);
    Rc::new(move |connection, request| {
        let Some(node) = weak.upgrade() else {
            return;
        };
        match request.method {
            proto::WriteRequest::METHOD => write::on_write(&node, connection, request),
            proto::ReadRequest::METHOD => read::on_read(&node, connection, request),
            proto::ShapeRequest::METHOD => write::on_shape(&node, connection, request),
            proto::Confirmed::METHOD => write::on_confirmed(&node, request),
            proto::SyncRequest::METHOD => write::on_sync(&node, connection, request),
            proto::MapRequest::METHOD => read::on_map(&node, request),
            proto::ChecksumsRequest::METHOD
                if connection.identity().role == i32::from(Role::Client) =>
            {
                read::on_checksums(&node, request);
            }
            proto::DataStatusRequest::METHOD => {
                let now = node.now();
                let reply = proto::DataStatusReply {
                    state: node.side.borrow().state().map(|state| state.to_proto()),
                    report: Some(node.report()),
                    leased: node.side.borrow().serves(now).is_ok(),
                };
                request
                    .replier
                    .send::<proto::DataStatusRequest>(&reply, Payload::none());
            }
            _ if node.is_twin(connection) => forward::on_twin(&node, request),
            _ if connection.identity().role == i32::from(Role::Tool) => {
                tools::on_tool(&node, request);
            }
            _ => request
                .replier
                .fail(Failed::Refused("not a request for a data server".into())),
        }
    })
}

/// A running data server.
pub struct Server {
    node: Rc<Node>,
    listening: Task,
    address: String,
}

impl Server {
    /// The address it listens on.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The state of the pair in force here.
    pub fn state(&self) -> Option<PairState> {
        self.node.side.borrow().state()
    }

    /// It serves clients now.
    pub fn serves(&self) -> bool {
        let now = self.node.now();
        self.node.side.borrow().serves(now).is_ok()
    }

    /// It serves, if at all, without a right of limited time.
    pub fn is_sole(&self) -> bool {
        self.node.side.borrow().is_sole()
    }

    /// Waits until the metadata service says that this server is not to run in this directory; for ever if it does not.
    /// The process is to end then.
    pub fn misplaced(&self) -> impl Future<Output = DataError> + 'static {
        let misplaced = self.node.misplaced.clone();
        async move {
            loop {
                let said = misplaced.said.notified();
                if let Some(why) = misplaced.why.get() {
                    return DataError::Misplaced(why.clone());
                }
                said.await;
            }
        }
    }

    /// The store, for tools and tests.
    pub fn store(&self) -> Store {
        self.node.store.clone()
    }

    /// Stops at once, as a kill would: nothing is lost by it.
    pub fn stop(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.abort();
        self.node.stop();
        if let Some(connection) = self.node.registration.connection() {
            connection.close("the server stops");
        }
        self.node.others.close();
        self.node.link.close();
    }
}

/// The id of a store as the metadata service is told it.
pub(crate) fn store_id(store: &Store) -> String {
    format!("{:032x}", store.store_id())
}

fn store_key(store: &Store) -> StoreKey {
    StoreKey::of(&store_id(store))
}

/// Opens the store, listens, and registers with the metadata service for as long as it runs. An empty directory is made a
/// store once the metadata service has a place for it, however long that takes.
///
/// # Errors
/// [`DataError`]: the settings, the directory or the address cannot be used.
pub async fn start(env: Env, settings: Settings) -> Result<Server, DataError> {
    let me = settings.check()?;
    let pair = PairId(settings.pair);
    let look = || Directory::look(env.clone(), &settings.dir, pair, me);
    let mut directory = look().await?;
    let incarnation = env.random();
    let local = Local::new(
        settings.cluster_id.clone(),
        link::identity_of(settings.pair, settings.member, incarnation),
    );
    let mut name_space = None;
    if directory.identity().is_none() {
        // Nobody may have answered for hours. A disk that was not mounted may be by now.
        drop(directory);
        let answer = place::ask(&env, &settings, &local).await;
        directory = look().await?;
        if directory.identity().is_none() {
            name_space = answer?;
        }
    }
    let store = directory.open(name_space).await?;
    if let Some(name_space) = store.name_space() {
        local.is_of(name_space);
    }
    let alone = Alone::new(me, store.was_settled_alone());
    let node = Rc::new(Node {
        side: RefCell::new(MemberSide::new(pair, me, store_key(&store))),
        env: env.clone(),
        store,
        disk: Disk::default(),
        ends: Ends::default(),
        pair,
        me,
        incarnation,
        started: env.now().since(Mono(0)),
        local: local.clone(),
        address: RefCell::default(),
        under: Cell::default(),
        changed: Notify::new(),
        store_records: Semaphore::new(1),
        record_tried: Cell::new(Epoch(0)),
        locks: Locks::default(),
        marks: Marks::default(),
        alone,
        owed: Owed::new(settings.owed_bytes, Duration::from_millis(settings.owed_ms)),
        intake: Intake::new(settings.intake_bytes),
        sessions: RefCell::default(),
        link: Link::new(),
        registration: Registration::new(settings.meta.clone()),
        others: attend::Others::default(),
        plan: RefCell::default(),
        progress: Cell::default(),
        metrics: Metrics::new(),
        load: Cell::default(),
        report: RefCell::default(),
        twin_room: Cell::default(),
        connections: RefCell::default(),
        misplaced: Rc::default(),
        stopped: Notify::new(),
        is_stopped: Cell::default(),
        settings,
    });
    let weak = Rc::downgrade(&node);
    let on_connection = move |connection: Connection| match weak.upgrade() {
        Some(node) => {
            let mut connections = node.connections.borrow_mut();
            connections.retain(Connection::is_open);
            connections.push(connection);
        }
        None => connection.close("the server stops"),
    };
    let listen = node.settings.listen.clone();
    let serving = weft_rpc::serve_task(&env, &listen, local, on_connection, handler(&node));
    let (address, listening) = serving.await.map_err(|source| DataError::Listen {
        address: listen.clone(),
        source,
    })?;
    *node.address.borrow_mut() = match node.settings.advertise.as_str() {
        "" => address.clone(),
        advertised => advertised.to_owned(),
    };
    if !node.settings.metrics_listen.is_empty() {
        let metrics = node.settings.metrics_listen.clone();
        let weak = Rc::downgrade(&node);
        let page = move || {
            weak.upgrade()
                .map_or(String::new(), |node| node.metrics.page())
        };
        let listen = weft_env::serve_text(&env, &metrics, page);
        listen.await.map_err(|source| DataError::Listen {
            address: metrics,
            source,
        })?;
    }
    node.spawn("registration", registration::run(node.clone()));
    node.spawn("life", life::run(node.clone()));
    node.spawn("link to the twin", link::run(node.clone()));
    node.spawn("modified list", marks::run(node.clone()));
    tracing::info!(%address, %pair, member = %me, "data server listens");
    Ok(Server {
        node,
        listening,
        address,
    })
}
