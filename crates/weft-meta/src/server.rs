//! The owner loop: what the server keeps, and which request goes where.
//!
//! All state is in one [`Core`]; a request gets hold of it, is handled to its end or put aside, and
//! lets go. No borrow lives across a wait.

use crate::committer::{self, Commits};
use crate::images::Shadow;
use crate::jobs::Jobs;
use crate::leases::{LEASES_MAX, Leases};
use crate::locks::LockWaiters;
use crate::metrics::Metrics;
use crate::pairs::Pairs;
use crate::ranges::Ranges;
use crate::revocations::Parking;
use crate::sessions::Live;
use crate::settle::Settling;
use crate::{MetaError, Settings, startup};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_coordinator::{Coordinator, CoordinatorError, Embedded};
use weft_env::{Env, Lock, Task};
use weft_namespace::State;
use weft_pair::PairState;
use weft_rpc::{Connection, Handler, Local, Replier, Request};
use weft_types::{Epoch, Ino, ObjectId, PairId, ROOT_INO, SLOTS, SessionId, Sn};
use weft_wire::proto::{self, Entry, Identity, OpReply, View, identity::Role, op};
use weft_wire::{Failed, Rpc};

/// A stopping server waits this long for its journal.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Grants and revocations of a reign are numbered from `epoch << SEQ_EPOCH_SHIFT` on, so that they
/// are above those of every earlier reign.
const SEQ_EPOCH_SHIFT: u32 = 40;

/// What every task of the server shares.
pub(crate) struct Meta {
    pub env: Env,
    pub settings: Settings,
    pub coordinator: Box<dyn Coordinator>,
    pub core: RefCell<Core>,
    /// An entry waits for the committer.
    pub gathered: Notify,
    /// The committer has ended.
    pub drained: Notify,
    /// A pair or its members changed: the pairs' clock looks again when it has to wake.
    pub pairs_changed: Notify,
    /// Objects may be waiting to be dropped.
    pub deletions_changed: Notify,
    /// A job, or how far it is, has changed.
    pub jobs_changed: Notify,
    pub stopping: Cell<bool>,
    tasks: RefCell<Vec<Task>>,
}

/// What the server keeps. See the module.
pub(crate) struct Core {
    pub state: State,
    pub epoch: Epoch,
    pub commits: Commits,
    pub leases: Leases,
    pub parking: Parking,
    /// Which bytes each session has of the files that several write.
    pub ranges: Ranges,
    pub settling: Settling,
    pub sessions: BTreeMap<SessionId, Live>,
    /// Sessions of an earlier reign that are neither back nor ending.
    pub away: usize,
    pub lock_waiters: LockWaiters,
    pub pairs: Pairs,
    pub jobs: Jobs,
    pub view: View,
    pub metrics: Metrics,
    /// Connections that are open, by a number of our own.
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    /// Time of the last entry, in nanoseconds: entries never go back in time.
    pub last_time: i128,
    pub entries_since_image: u64,
    /// On the directory.
    lock: Option<Lock>,
}

/// A running server.
pub struct Server {
    meta: Rc<Meta>,
    address: String,
    metrics_address: Option<String>,
}

/// Reads what is there, takes the lead and serves.
///
/// # Errors
/// If settings make no sense, files cannot be read (the message says what to do), another server took
/// the lead meanwhile, or an address cannot be listened on.
pub async fn start(env: Env, settings: Settings) -> Result<Server, MetaError> {
    settings.check()?;
    weft_journal::make_dir(&env, &settings.dir).await?;
    let lock = lock(&env, &settings)?;
    let coordinator = Box::new(Embedded::open(&env, settings.dir.clone()).await?);
    let view = take_epoch(&*coordinator, &settings).await?;
    let epoch = Epoch(group_of(&view, &settings).map_or(0, |group| group.epoch));
    let started = startup::load(&env, &settings).await?;
    if started.journal_epoch >= epoch {
        return Err(MetaError::Corrupt(format!(
            "the journal has been written in epoch {} but the view has just reached {epoch}: the \
             view in {} is not the journal's; put the right one back",
            started.journal_epoch,
            settings.dir.display()
        )));
    }
    tracing::info!(group = settings.group, %epoch, sn = %started.journal.next_sn(),
        inodes = started.state.statistics().inodes, "leading");
    // What the images are made of begins as a copy, while nobody has to wait for it yet.
    let sn = Sn(started.journal.next_sn().0 - 1);
    let is_untouched = started.state.is_untouched();
    let shadow = Shadow::new(&started.state, sn, started.journal_epoch);
    let now = env.now();
    let mut pairs = Pairs::new(&started.state, settings.terms(), now)?;
    pairs.take_addresses(&view);
    let sessions = Live::of_earlier_reign(&started.state, now + settings.session_term());
    let core = Core {
        commits: Commits::new(settings.journal.sync, started.journal.next_sn()),
        away: sessions.len(),
        sessions,
        pairs,
        state: started.state,
        epoch,
        leases: Leases::new(epoch.0 << SEQ_EPOCH_SHIFT, LEASES_MAX),
        parking: Parking::default(),
        ranges: Ranges::default(),
        settling: Settling::default(),
        jobs: Jobs::default(),
        lock_waiters: LockWaiters::default(),
        view,
        metrics: Metrics::new(),
        connections: BTreeMap::new(),
        next_connection: 1,
        last_time: started.last_time,
        entries_since_image: started.entries_since_image,
        lock: Some(lock),
    };
    let meta = Rc::new(Meta {
        env: env.clone(),
        coordinator,
        core: RefCell::new(core),
        gathered: Notify::new(),
        drained: Notify::new(),
        pairs_changed: Notify::new(),
        deletions_changed: Notify::new(),
        jobs_changed: Notify::new(),
        stopping: Cell::new(false),
        tasks: RefCell::default(),
        settings,
    });
    meta.spawn("committer", committer::run(meta.clone(), started.journal));
    meta.spawn("journal room", committer::watch_room(meta.clone()));
    let reign = {
        let core = &mut *meta.core.borrow_mut();
        let new_reign = op::Op::NewReign(proto::NewReign { epoch: epoch.0 });
        let (_, reign) = meta.apply_own(core, new_reign);
        if is_untouched {
            meta.apply(core, first_change(&meta.settings)).1
        } else {
            reign
        }
    };
    meta.committed(reign)
        .await
        .map_err(|failed| MetaError::Corrupt(format!("the first entry of the reign: {failed}")))?;

    let address = listen(&meta).await?;
    crate::pairs::record_view(&meta, |_, view| {
        record_address(view, &meta.settings, &address)
    })
    .await?;
    let metrics_address = match &meta.settings.metrics_listen {
        None => None,
        Some(listen) => Some(crate::metrics::serve(&meta, listen).await?),
    };
    meta.spawn("session clock", crate::expiry::run(meta.clone()));
    meta.spawn("pair clock", crate::pairs::run_clock(meta.clone()));
    meta.spawn("deletions", crate::deletions::run(meta.clone()));
    meta.spawn("jobs", crate::jobs::run(meta.clone()));
    meta.spawn("images", crate::images::run(meta.clone(), shadow));
    tracing::info!(%address, "serving");
    Ok(Server {
        meta,
        address,
        metrics_address,
    })
}

/// Keeps a second server, started by mistake, from writing into the same journal.
fn lock(env: &Env, settings: &Settings) -> Result<Lock, MetaError> {
    let path = settings.dir.join("lock");
    env.lock(&path).map_err(|source| MetaError::Io {
        what: match source.kind() {
            std::io::ErrorKind::WouldBlock => {
                format!("another server runs in {}", settings.dir.display())
            }
            _ => format!("locking {}", path.display()),
        },
        source,
    })
}

fn group_of<'a>(view: &'a View, settings: &Settings) -> Option<&'a proto::Group> {
    view.groups.iter().find(|group| group.id == settings.group)
}

/// Takes the next epoch of the group: whoever led before can commit nothing more in the view.
async fn take_epoch(coordinator: &dyn Coordinator, settings: &Settings) -> Result<View, MetaError> {
    loop {
        let mut view = coordinator.view().await?;
        if view.version == 0 {
            view.cluster_id = settings.cluster_id.clone();
            view.slots = vec![proto::SlotRange {
                first: 0,
                last: u32::from(SLOTS) - 1,
                group: settings.group,
            }];
        }
        if view.cluster_id != settings.cluster_id {
            return Err(MetaError::Settings(format!(
                "cluster_id is {:?}, but {} belongs to cluster {:?}",
                settings.cluster_id,
                settings.dir.display(),
                view.cluster_id
            )));
        }
        if group_of(&view, settings).is_none() {
            view.groups.push(proto::Group {
                id: settings.group,
                ..Default::default()
            });
        }
        for group in &mut view.groups {
            if group.id == settings.group {
                group.epoch += 1;
                group.active = settings.member;
            }
        }
        view.version += 1;
        match coordinator.compare_and_set(view).await {
            Ok(view) => return Ok(view),
            Err(CoordinatorError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn record_address(view: &mut View, settings: &Settings, address: &str) {
    let me = proto::GroupMember {
        id: settings.member,
        address: address.to_owned(),
        role: proto::group_member::Role::Active as i32,
    };
    for group in &mut view.groups {
        if group.id == settings.group {
            group.members.retain(|member| member.id != settings.member);
            group.members.push(me.clone());
            group.members.sort_by_key(|member| member.id);
        }
    }
}

async fn listen(meta: &Rc<Meta>) -> Result<String, MetaError> {
    let local = Local {
        cluster_id: meta.settings.cluster_id.clone(),
        identity: Identity {
            role: Role::Meta as i32,
            id: u64::from(meta.settings.member),
            incarnation: meta.env.random(),
        },
    };
    let handler: Handler = {
        let meta = meta.clone();
        Rc::new(move |connection, request| meta.on_request(connection, request))
    };
    let on_connection = {
        let meta = meta.clone();
        move |connection| meta.on_connection(connection)
    };
    let address = meta.settings.listen.clone();
    let (bound, accepting) =
        weft_rpc::serve_task(&meta.env, &address, local, on_connection, handler)
            .await
            .map_err(|source| MetaError::Io {
                what: format!("listening on {address}"),
                source,
            })?;
    meta.tasks.borrow_mut().push(accepting);
    Ok(bound)
}

impl Server {
    /// Where clients and data servers connect, with the real port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<&str> {
        self.metrics_address.as_deref()
    }

    /// The sessions that are open, those included that are being ended. None while a change is not
    /// committed: it could be undone.
    pub fn sessions(&self) -> Option<BTreeSet<u64>> {
        let core = self.meta.core.borrow();
        let sessions = core.state.sessions().map(|summary| summary.session.0);
        core.commits.is_at_rest().then(|| sessions.collect())
    }

    /// What the state is by its digest. None while a change is not committed.
    pub fn digest(&self) -> Option<u128> {
        let core = self.meta.core.borrow();
        core.commits.is_at_rest().then(|| core.state.digest())
    }

    /// Whether an object on a pair is a file's, a copy's, or waits to be dropped. None while a change is
    /// not committed: it could be undone.
    pub fn names_object(&self, pair: PairId, object: ObjectId) -> Option<bool> {
        let core = self.meta.core.borrow();
        let is_at_rest = core.commits.is_at_rest();
        is_at_rest.then(|| core.state.names_object(pair, object))
    }

    /// The pairs that have been drained and are refused since. None while a change is not committed.
    pub fn removed_pairs(&self) -> Option<Vec<PairId>> {
        let core = self.meta.core.borrow();
        let is_at_rest = core.commits.is_at_rest();
        is_at_rest.then(|| core.state.removed_pairs().collect())
    }

    /// The newest batch: what the digest speaks of.
    pub fn newest(&self) -> Sn {
        self.meta.core.borrow().commits.newest()
    }

    /// The state of each pair. None while a change is not committed: it could be undone.
    pub fn pair_states(&self) -> Option<Vec<PairState>> {
        let core = self.meta.core.borrow();
        let states = core.state.pair_states().map(PairState::from_proto);
        let all = states.collect::<Result<_, _>>().ok();
        all.filter(|_| core.commits.is_at_rest())
    }

    /// Ends the server: what has been applied is committed and answered first. Clients find their
    /// sessions again when it is started again in time.
    pub async fn stop(self) {
        let meta = self.meta;
        meta.stopping.set(true);
        let drained = meta.drained.notified();
        meta.gathered.notify_one();
        if meta.env.timeout(STOP_PATIENCE, drained).await.is_err() {
            tracing::warn!("stopping although the journal has not taken everything");
        }
        for task in meta.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        // Answers that are on their way leave before the connections close.
        meta.env.sleep(Duration::from_millis(1)).await;
        let connections = std::mem::take(&mut meta.core.borrow_mut().connections);
        for connection in connections.values() {
            connection.close("the metadata server stops");
        }
        let parking = std::mem::take(&mut meta.core.borrow_mut().parking);
        drop(parking);
        meta.core.borrow_mut().lock = None;
        tracing::info!("stopped");
    }
}

impl Meta {
    /// Starts a task that ends with the server.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let task = self.env.spawn(name, task);
        self.tasks.borrow_mut().push(task);
    }

    fn on_connection(self: &Rc<Self>, connection: Connection) {
        let core = &mut *self.core.borrow_mut();
        let number = core.next_connection;
        core.next_connection += 1;
        core.connections.insert(number, connection.clone());
        let meta = self.clone();
        self.env.spawn("connection watch", async move {
            let why = connection.closed().await;
            let core = &mut *meta.core.borrow_mut();
            core.connections.remove(&number);
            crate::sessions::on_disconnect(core, &connection);
            crate::pairs::on_disconnect(&meta, core, &connection, &why);
        });
    }

    /// Every request of every connection arrives here.
    fn on_request(self: &Rc<Self>, connection: &Connection, request: Request) {
        if self.stopping.get() {
            return request
                .replier
                .fail(Failed::Unavailable("the server is stopping".into()));
        }
        let core = &mut *self.core.borrow_mut();
        core.metrics.request(request.method);
        let from = (self, core, connection);
        match request.method {
            proto::ChangeRequest::METHOD => dispatch(from, request, crate::changes::on_change),
            proto::LookupRequest::METHOD => dispatch(from, request, crate::reads::on_lookup),
            proto::GetInodeRequest::METHOD => dispatch(from, request, crate::reads::on_get_inode),
            proto::LeaseRangeRequest::METHOD => {
                dispatch(from, request, crate::revocations::on_lease_range);
            }
            proto::ReaddirRequest::METHOD => dispatch(from, request, crate::reads::on_readdir),
            proto::GetxattrRequest::METHOD => dispatch(from, request, crate::reads::on_getxattr),
            proto::GetLockRequest::METHOD => dispatch(from, request, crate::reads::on_get_lock),
            proto::StatfsRequest::METHOD => dispatch(from, request, crate::status::on_statfs),
            proto::SessionRequest::METHOD => dispatch(from, request, crate::sessions::on_session),
            proto::RenewRequest::METHOD => dispatch(from, request, crate::sessions::on_renew),
            proto::SuspectRequest::METHOD => dispatch(from, request, crate::pairs::on_suspect),
            proto::StatusRequest::METHOD => dispatch(from, request, crate::status::on_status),
            proto::ExplainRequest::METHOD => dispatch(from, request, crate::status::on_explain),
            proto::UnsettledRequest::METHOD => dispatch(from, request, crate::losses::on_unsettled),
            proto::ReturnedRequest::METHOD => dispatch(from, request, crate::losses::on_returned),
            proto::LossesRequest::METHOD => dispatch(from, request, crate::losses::on_losses),
            proto::AcknowledgeRequest::METHOD => {
                dispatch(from, request, crate::losses::on_acknowledge);
            }
            proto::StartScrubRequest::METHOD => {
                dispatch(from, request, crate::status::on_start_scrub);
            }
            proto::StartJobRequest::METHOD => dispatch(from, request, crate::jobs::on_start),
            proto::JobsRequest::METHOD => dispatch(from, request, crate::jobs::on_jobs),
            proto::MoveWorkRequest::METHOD => dispatch(from, request, crate::jobs::on_work),
            proto::CancelJobRequest::METHOD => dispatch(from, request, crate::jobs::on_cancel),
            proto::AdmitPairRequest::METHOD => dispatch(from, request, crate::jobs::on_admit),
            proto::ReplaceMemberRequest::METHOD => {
                dispatch(from, request, crate::pairs::on_replace);
            }
            proto::RegisterRequest::METHOD => dispatch(from, request, crate::pairs::on_register),
            proto::BeatRequest::METHOD => dispatch(from, request, crate::pairs::on_beat),
            proto::RecoveredRequest::METHOD => dispatch(from, request, crate::pairs::on_recovered),
            method => request.replier.fail(Failed::Refused(format!(
                "method {method} ({}) is not served here",
                weft_wire::method_name(method)
            ))),
        }
    }

    /// The time of the next entry.
    fn entry_time(&self, core: &mut Core) -> proto::Time {
        // Files should not change before they were made, whatever the clock does.
        core.last_time = core.last_time.max(self.env.wall().0);
        let time = weft_env::Wall(core.last_time);
        proto::Time {
            seconds: time.seconds(),
            nanos: time.subsecond_nanos(),
        }
    }

    /// Completes an entry and applies it; it joins the current batch. Answers the reply and the batch
    /// that has to be committed before anybody is told.
    pub(crate) fn apply(&self, core: &mut Core, mut entry: Entry) -> (OpReply, Sn) {
        entry.time = Some(self.entry_time(core));
        entry.random = self.env.random();
        let mut inos: Vec<Ino> = Vec::new();
        let named = crate::changes::concerned(&core.state, &entry, &mut inos);
        let reply = core.state.apply(&entry);
        tracing::trace!(?entry, errno = reply.failure_errno, "change");
        if let Some(attr) = &reply.attr {
            inos.push(Ino(attr.ino));
        }
        let sn = core.commits.push(entry, named.then_some(&inos));
        self.gathered.notify_one();
        (reply, sn)
    }

    /// Applies an entry of the service's own.
    pub(crate) fn apply_own(&self, core: &mut Core, op: op::Op) -> (OpReply, Sn) {
        self.apply_for(core, SessionId(0), op)
    }

    /// Applies an entry of the service's own that concerns what a session has.
    pub(crate) fn apply_for(
        &self,
        core: &mut Core,
        session: SessionId,
        op: op::Op,
    ) -> (OpReply, Sn) {
        let entry = Entry {
            session: session.0,
            op: Some(proto::Op { op: Some(op) }),
            ..Entry::default()
        };
        self.apply(core, entry)
    }
}

/// What a request comes with.
type From<'a> = (&'a Rc<Meta>, &'a mut Core, &'a Connection);

fn dispatch<R: Rpc>(
    (meta, core, connection): From<'_>,
    request: Request,
    on: fn(&Rc<Meta>, &mut Core, &Connection, R, Replier),
) {
    match request.decode::<R>() {
        Ok(message) => on(meta, core, connection, message, request.replier),
        Err(failed) => {
            tracing::warn!(peer = connection.peer(), %failed, "refusing a request");
            request.replier.fail(failed);
        }
    }
}

/// What a new name space begins with: its root directory gets an owner, and is as old as itself.
fn first_change(settings: &Settings) -> Entry {
    let setattr = proto::Setattr {
        ino: ROOT,
        uid: Some(settings.root_uid),
        gid: Some(settings.root_gid),
        atime_now: true,
        mtime_now: true,
        ..Default::default()
    };
    Entry {
        cred: Some(proto::Cred::default()),
        op: Some(proto::Op {
            op: Some(op::Op::Setattr(setattr)),
        }),
        ..Entry::default()
    }
}

/// Where every session begins.
pub(crate) const ROOT: u64 = ROOT_INO.0;
