//! The process: its address, its connections, the lives of its member, and which request goes to whom.

#[cfg(feature = "bench")]
mod bench;

use crate::group::{self, Ended, Member};
use crate::metrics::Metrics;
use crate::reign::{Core, Meta};
use crate::{MetaError, Refusals, Settings};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_coordinator::{Coordinator, Embedded};
use weft_env::{Env, Lock, Task};
use weft_group::Steadiness;
use weft_pair::PairState;
use weft_rpc::{Connection, Handler, Local, Request};
use weft_types::{Epoch, Member as PairMember, ObjectId, PairId, Sn};
use weft_wire::proto::{
    AdmitMemberRequest, DismissMemberRequest, FetchImageRequest, ForceMemberRequest, GroupMessage,
    GroupStatusRequest, Identity, VacateMemberRequest, identity::Role,
};
use weft_wire::{Failed, Rpc};

/// A stopping server waits this long for its journal.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Who has given way to another active begins its next life when there is one, or after this.
const YIELD_PATIENCE: Duration = Duration::from_secs(3);
/// A life that cannot begin is tried again after this.
const LIFE_RETRY: Duration = Duration::from_secs(10);

/// What the process keeps. See the module.
struct Host {
    env: Env,
    local: Local,
    settings: Rc<Settings>,
    coordinator: Rc<dyn Coordinator>,
    metrics: Rc<Metrics>,
    /// None between two lives.
    member: RefCell<Option<Rc<Member>>>,
    /// What lives before this one have seen.
    seen: RefCell<Option<Steadiness>>,
    /// Connections that are open, by a number of our own.
    connections: RefCell<BTreeMap<u64, Connection>>,
    next_connection: Cell<u64>,
    stopping: Cell<bool>,
    /// Why this server takes no part in its group any more, if that is so.
    gone: RefCell<Option<Gone>>,
    is_gone: Notify,
    tasks: RefCell<Vec<Task>>,
    /// On the directory.
    lock: RefCell<Option<Lock>>,
}

/// Why a server has no part in its group any more, and what to do.
#[derive(Clone, Debug)]
pub enum Gone {
    /// An operator has removed it.
    Removed(String),
    /// It is not to run where it was started: as [`MetaError::Refused`].
    Refused(String),
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Gone::Removed(why) | Gone::Refused(why)) = self;
        f.write_str(why)
    }
}

/// A running server.
pub struct Server {
    host: Rc<Host>,
    address: String,
    metrics_address: Option<String>,
}

/// Reads what is there, joins the group and serves. A server that is the only one of its group leads it
/// when this returns, unless its directory is new and the group is not; another one leads, or follows who does.
///
/// # Errors
/// If settings make no sense, files or the view cannot be read (the message says what to do), or an
/// address cannot be listened on.
pub async fn start(env: Env, settings: Settings) -> Result<Server, MetaError> {
    settings.check()?;
    let lock = lock_if_there(&env, &settings).await?;
    if lock.is_none() && settings.coordinator.is_empty() {
        return Err(group::not_founded(&settings));
    }
    let coordinator = coordinator(&env, &settings).await?;
    begin(env, settings, coordinator, lock).await
}

/// [`start`] with a coordinator that is there already.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    env: Env,
    settings: Settings,
    coordinator: Rc<dyn Coordinator>,
) -> Result<Server, MetaError> {
    settings.check_beside_coordinator()?;
    let lock = lock_if_there(&env, &settings).await?;
    begin(env, settings, coordinator, lock).await
}

/// The coordinator of these settings.
pub(crate) async fn coordinator(
    env: &Env,
    settings: &Settings,
) -> Result<Rc<dyn Coordinator>, MetaError> {
    Ok(match settings.coordinator.as_str() {
        "" => Rc::new(Embedded::open(env, settings.dir.clone()).await?),
        place => Rc::from(weft_coordinator::connect(env, &settings.cluster_id, place).await?),
    })
}

async fn begin(
    env: Env,
    settings: Settings,
    coordinator: Rc<dyn Coordinator>,
    lock: Option<Lock>,
) -> Result<Server, MetaError> {
    let lock = match lock {
        Some(lock) => lock,
        // No directory is made for one that is refused.
        None => {
            group::check_vacant(&env, &*coordinator, &settings).await?;
            self::lock(&env, &settings).await?
        }
    };
    let identity = Identity {
        role: Role::Meta as i32,
        id: u64::from(settings.member),
        incarnation: env.random(),
        group: settings.group,
    };
    let host = Rc::new(Host {
        env: env.clone(),
        local: Local::new(settings.cluster_id.clone(), identity),
        settings: Rc::new(settings),
        coordinator,
        metrics: Rc::new(Metrics::new()),
        member: RefCell::default(),
        seen: RefCell::default(),
        connections: RefCell::default(),
        next_connection: Cell::new(1),
        stopping: Cell::new(false),
        gone: RefCell::default(),
        is_gone: Notify::new(),
        tasks: RefCell::default(),
        lock: RefCell::new(Some(lock)),
    });
    let address = listen(&host).await?;
    let member = host.begin_life(&address).await?;
    // Now it is known that the directory is this member's.
    env.close_to_others(&host.settings.dir);
    if member.is_alone() && member.is_intact() {
        member.serving().await;
    }
    let metrics_address = match &host.settings.metrics_listen {
        None => None,
        Some(listen) => {
            let of = Rc::downgrade(&host);
            let page = move || of.upgrade().map_or_else(String::new, |host| host.page());
            Some(crate::metrics::serve(&env, listen, page).await?)
        }
    };
    let lives = env.spawn("lives", lives(host.clone(), member, address.clone()));
    host.tasks.borrow_mut().push(lives);
    tracing::info!(%address, "serving");
    Ok(Server {
        host,
        address,
        metrics_address,
    })
}

async fn lock_if_there(env: &Env, settings: &Settings) -> Result<Option<Lock>, MetaError> {
    match env.read_dir(&settings.dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => lock(env, settings).await.map(Some),
    }
}

/// Keeps a second server, started by mistake, from writing into the same journal. The directory is made if it is not there.
pub(crate) async fn lock(env: &Env, settings: &Settings) -> Result<Lock, MetaError> {
    let dir = &settings.dir;
    weft_journal::make_dir(env, dir).await?;
    env.lock_dir(dir).map_err(|source| match source.kind() {
        std::io::ErrorKind::WouldBlock => MetaError::Refused(format!(
            "{}: another server runs in this directory. Give this one a directory of its own, or stop that one first",
            dir.display()
        )),
        _ => MetaError::Io {
            what: format!("locking {}", dir.display()),
            source,
        },
    })
}

async fn listen(host: &Rc<Host>) -> Result<String, MetaError> {
    let handler: Handler = {
        let host = host.clone();
        Rc::new(move |connection, request| host.on_request(connection, request))
    };
    let on_connection = {
        let host = host.clone();
        move |connection| host.on_connection(connection)
    };
    let address = host.settings.listen.clone();
    let (bound, accepting) = weft_rpc::serve_task(
        &host.env,
        &address,
        host.local.clone(),
        on_connection,
        handler,
    )
    .await
    .map_err(|source| MetaError::Io {
        what: format!("listening on {address}"),
        source,
    })?;
    host.tasks.borrow_mut().push(accepting);
    Ok(bound)
}

/// One life after the other, until the process ends.
async fn lives(host: Rc<Host>, mut member: Rc<Member>, address: String) {
    loop {
        let ended = member.over().await;
        tracing::info!(?ended, "this server's life as a member ends");
        host.member.replace(None);
        let journal = member.finish().await;
        host.seen.replace(Some(member.steadiness()));
        drop(member);
        match ended {
            Ended::Removed => {
                let why = group::removed(&host.settings);
                return host.end(Gone::Removed(why.to_string()));
            }
            _ => host.close_connections("this metadata server begins anew"),
        }
        if ended == Ended::Yielded {
            let (env, coordinator) = (&host.env, &*host.coordinator);
            group::another_leads(env, coordinator, &host.settings, YIELD_PATIENCE).await;
        }
        if let (Ended::Restored(sn), Some(mut journal)) = (ended, journal)
            && let Err(error) = group::adopt(&host.env, &host.settings, &mut journal, sn).await
        {
            tracing::error!(%error, "another member's image cannot take the journal's place");
        }
        member = loop {
            match host.begin_life(&address).await {
                Ok(member) => break member,
                Err(error @ MetaError::Refused(_)) => {
                    return host.end(Gone::Refused(error.to_string()));
                }
                Err(error) => {
                    tracing::error!(%error, "this server takes no part in its group");
                    host.env.sleep(LIFE_RETRY).await;
                }
            }
        };
    }
}

impl Host {
    async fn begin_life(&self, address: &str) -> Result<Rc<Member>, MetaError> {
        let (settings, coordinator) = (&self.settings, &self.coordinator);
        let seen = self.seen.borrow().clone();
        let member = Member::begin(
            &self.env,
            settings,
            coordinator,
            &self.metrics,
            (address, seen),
        )
        .await?;
        if let Some(name_space) = member.name_space() {
            self.local.is_of(name_space);
        }
        self.member.replace(Some(member.clone()));
        // Other members may have been faster.
        let connections: Vec<Connection> = self.connections.borrow().values().cloned().collect();
        for connection in connections {
            member.on_connection(&connection);
        }
        Ok(member)
    }

    fn member(&self) -> Option<Rc<Member>> {
        self.member.borrow().clone()
    }

    fn reign(&self) -> Option<Rc<Meta>> {
        self.member()?.reign()
    }

    fn page(&self) -> String {
        let member = self.member();
        let gauge = |name: &str| member.as_ref().map_or(0, |member| member.gauge(name));
        self.metrics.page(gauge)
    }

    fn on_connection(self: &Rc<Self>, connection: Connection) {
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        self.connections
            .borrow_mut()
            .insert(number, connection.clone());
        if let Some(member) = self.member() {
            member.on_connection(&connection);
        }
        let host = self.clone();
        self.env.spawn("connection watch", async move {
            let why = connection.closed().await;
            host.connections.borrow_mut().remove(&number);
            let Some(member) = host.member() else { return };
            if connection.identity().role == Role::Meta as i32 {
                member.on_disconnect(&connection);
            } else if let Some(reign) = member.reign() {
                reign.on_disconnect(&connection, &why);
            }
        });
    }

    /// Every request of every connection arrives here.
    fn on_request(&self, connection: &Connection, request: Request) {
        self.metrics.request(request.method);
        let Some(member) = self.member().filter(|_| !self.stopping.get()) else {
            return request
                .replier
                .fail(match (&*self.gone.borrow(), self.stopping.get()) {
                    (Some(why), _) => Failed::Unavailable(why.to_string()),
                    (None, true) => Failed::Unavailable("the server is stopping".into()),
                    // Between two lives, or before the first: if anybody leads it is another one.
                    (None, false) => Failed::NotActive {
                        active: String::new(),
                        members: Vec::new(),
                    },
                });
        };
        match request.method {
            GroupMessage::METHOD => member.on_message(connection, &request),
            FetchImageRequest::METHOD => group::on_image(&member, request),
            GroupStatusRequest::METHOD => group::on_order(&member, request),
            // Members have the same numbers in every group.
            _ if connection.identity().group != self.settings.group => {
                let wanted = connection.identity().group;
                request.replier.fail(member.who_leads(wanted));
            }
            AdmitMemberRequest::METHOD
            | DismissMemberRequest::METHOD
            | ForceMemberRequest::METHOD
            | VacateMemberRequest::METHOD => group::on_order(&member, request),
            _ => match member.reign() {
                Some(reign) => {
                    let replier = request.replier.through(member.gate());
                    reign.on_request(connection, Request { replier, ..request });
                }
                None => request.replier.fail(member.who_leads(self.settings.group)),
            },
        }
    }

    /// The group has this server no more: it answers nobody, and whoever runs it is told.
    fn end(&self, gone: Gone) {
        tracing::warn!("{gone}");
        self.gone.replace(Some(gone));
        self.close_connections("this metadata server has no part in its group any more");
        self.is_gone.notify_waiters();
    }

    fn close_connections(&self, why: &str) {
        let connections = self.connections.take();
        for connection in connections.values() {
            connection.close(why);
        }
    }
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

    /// This server leads its group, and answers.
    pub fn leads(&self) -> bool {
        self.host.member().is_some_and(|member| member.answers())
    }

    /// Comes to its end when this server has no part in its group any more, and does not get it again. Its process may
    /// end then.
    pub fn gone(&self) -> impl Future<Output = Gone> + 'static {
        let host = self.host.clone();
        async move {
            loop {
                let gone = host.is_gone.notified();
                if let Some(why) = &*host.gone.borrow() {
                    return why.clone();
                }
                gone.await;
            }
        }
    }

    /// The epoch of this server's reign. None: it has none.
    pub fn reigns_in(&self) -> Option<Epoch> {
        let reign = self.host.reign()?;
        Some(reign.core.borrow().epoch)
    }

    /// The last batch that this member knows to be committed; 0 between two lives.
    pub fn committed(&self) -> Sn {
        self.host
            .member()
            .map_or(Sn(0), |member| member.committed())
    }

    /// All that this member knows to be committed is on its disk. False between two lives.
    pub fn has_stored_all(&self) -> bool {
        let member = self.host.member();
        member.is_some_and(|member| member.imageable() == member.committed())
    }

    /// This member's disk has all that it has ever told others that it had: it counts in an election. False
    /// between two lives.
    pub fn is_intact(&self) -> bool {
        let member = self.host.member();
        member.is_some_and(|member| member.is_intact())
    }

    /// Of the reign, while this server leads and all that was applied is committed.
    fn at_rest<T>(&self, look: impl FnOnce(&Core) -> T) -> Option<T> {
        let reign = self.host.reign()?;
        let core = reign.core.borrow();
        core.commits.is_at_rest().then(|| look(&core))
    }

    /// The sessions that are open, those included that are being ended. None while a change is not
    /// committed, for it could be undone, and while another server leads.
    pub fn sessions(&self) -> Option<BTreeSet<u64>> {
        self.at_rest(|core| {
            let sessions = core.state.sessions().map(|summary| summary.session.0);
            sessions.collect()
        })
    }

    /// Has this server refuse some changes while it leads, or none: for tests of those who ask.
    pub fn set_refusals(&self, refusals: Option<Refusals>) {
        if let Some(reign) = self.host.reign() {
            reign.core.borrow_mut().commits.set_refusals(refusals);
        }
    }

    /// What the state is by its digest. None as for [`Server::sessions`].
    pub fn digest(&self) -> Option<u128> {
        self.at_rest(|core| core.state.digest())
    }

    /// Whether an object on a pair is a file's, a copy's, or waits to be dropped. None as for
    /// [`Server::sessions`].
    pub fn names_object(&self, pair: PairId, object: ObjectId) -> Option<bool> {
        self.at_rest(|core| core.state.names_object(pair, object))
    }

    /// The pairs that have been drained and are refused since. None as for [`Server::sessions`].
    pub fn removed_pairs(&self) -> Option<Vec<(PairId, Option<PairMember>)>> {
        self.at_rest(|core| {
            let removed = core.state.removed_pairs();
            removed
                .map(|pair| (pair, core.state.served_last(pair)))
                .collect()
        })
    }

    /// The newest batch: what the digest speaks of. 0 while another server leads.
    pub fn newest(&self) -> Sn {
        let reign = self.host.reign();
        reign.map_or(Sn(0), |reign| reign.core.borrow().commits.newest())
    }

    /// It takes part in its group now: it is not between two lives.
    pub fn has_life(&self) -> bool {
        self.host.member().is_some()
    }

    /// What this member is doing in its group, for a person who has to find out.
    pub fn describe(&self) -> String {
        let member = self.host.member();
        member.map_or_else(|| "between two lives".into(), |member| member.describe())
    }

    /// The last batch that this member knows to be committed, and the digest of its name space then. None
    /// while it has applied more, or less.
    pub fn replica(&self) -> Option<(Sn, u128)> {
        let member = self.host.member()?;
        let committed = member.committed();
        Some((committed, member.digest_at(committed, u64::MAX)?))
    }

    /// The state of each pair. None as for [`Server::sessions`].
    pub fn pair_states(&self) -> Option<Vec<PairState>> {
        self.at_rest(applied_pair_states)?
    }

    /// The state of each pair as it will be if what was applied here is committed. None while another server leads.
    pub fn pair_states_ahead(&self) -> Option<Vec<PairState>> {
        applied_pair_states(&self.host.reign()?.core.borrow())
    }

    /// Ends the server: what has been applied is committed and answered first, and another member is asked
    /// to lead. Clients find their sessions again with that one, or when this one is started again in time.
    pub async fn stop(self) {
        let host = self.host;
        host.stopping.set(true);
        for task in host.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        if let Some(member) = host.member() {
            if let Some(reign) = member.reign()
                && host
                    .env
                    .timeout(STOP_PATIENCE, reign.drain())
                    .await
                    .is_err()
            {
                tracing::warn!("stopping although the journal has not taken everything");
            }
            member.withdraw();
            // Answers that are on their way leave before the connections close.
            host.env.sleep(Duration::from_millis(1)).await;
            host.member.replace(None);
            member.finish().await;
        }
        host.close_connections("the metadata server stops");
        host.lock.replace(None);
        tracing::info!("stopped");
    }
}

fn applied_pair_states(core: &Core) -> Option<Vec<PairState>> {
    let states = core.state.pair_states().map(PairState::from_proto);
    states.collect::<Result<_, _>>().ok()
}
