//! The session with the metadata service: connecting, taking up, renewing, asking.
//!
//! One connection to the active at a time. When it breaks, or the active says nothing and another leads, the
//! keeper connects again and takes the session up; whoever waits for an answer sends again, changes under
//! the same operation number, so that each is done once (`docs/protocols/leases.md`). Keeps true: leases are
//! believed only for a term after the last answered renewal was sent, by this client's own clock.

use crate::core::Core;
use crate::types::{Cred, Errno};
use futures_util::{FutureExt, select_biased};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::{Env, Mono};
use weft_rpc::{Attempts, CallError, Connection, Handler, Local, Payload, Search, Terms};
use weft_wire::proto::{
    ChangeReply, ChangeRequest, Identity, Op, SessionReply, SessionRequest, identity, op,
};
use weft_wire::{Failed, Rpc};

/// One attempt to connect and shake hands takes at most this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// Servers that stay away cost ten attempts a second and address. A request for the session waits for a
/// journal write at most, or for the promises to a former active to be over.
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [Duration::from_millis(250), Duration::from_secs(2)],
};
/// Changes whose numbers may lie between the oldest unanswered one and the newest: the service keeps
/// the replies of all of them, and refuses more than 4096.
const OUTSTANDING_MAX: u64 = 2048;
/// Pause before a request is sent again that the server could not serve.
const UNAVAILABLE_PAUSE: Duration = Duration::from_millis(5);

/// A connection under which requests are sent now.
#[derive(Clone)]
pub(crate) struct Link {
    pub connection: Connection,
    pub session: u64,
    pub epoch: u64,
    /// Counts connections: what was granted over an older one is void.
    pub generation: u64,
}

pub(crate) struct Session {
    env: Env,
    /// Borrowed for moments only.
    search: Rc<RefCell<Search>>,
    local: Local,
    name: String,
    patience: Duration,
    link: RefCell<Option<Link>>,
    /// The session's id; 0 while none is open.
    id: Cell<u64>,
    generation: Cell<u64>,
    /// Until when leases are believed.
    valid_until: Cell<Mono>,
    term: Cell<Duration>,
    linked: Notify,
    next_operation: Cell<u64>,
    unanswered: RefCell<BTreeSet<u64>>,
    /// Told when a change is no longer outstanding.
    answered: Notify,
    /// Its goodbye is on the way: the service may have heard it, and given to others what was leased.
    leaving: Cell<bool>,
    closed: Cell<bool>,
    pub root: Cell<u64>,
    last_failure: RefCell<String>,
    /// The last failure says that the service is there and does not want this client.
    refused: Cell<bool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // A client that was dropped without being closed: nobody renews any more.
        self.stop();
    }
}

/// Takes a change's number from the unanswered ones, however its future ends.
struct Numbered<'a>(&'a Session, u64);

impl Drop for Numbered<'_> {
    fn drop(&mut self) {
        let mut unanswered = self.0.unanswered.borrow_mut();
        let was_oldest = unanswered.first() == Some(&self.1);
        unanswered.remove(&self.1);
        if was_oldest {
            self.0.answered.notify_waiters();
        }
    }
}

fn is_refusal(error: &std::io::Error) -> bool {
    // weft-rpc says with text why a server of another cluster or version turned us away; the
    // operating system's own refusals carry a number.
    error.kind() == std::io::ErrorKind::ConnectionRefused && error.raw_os_error().is_none()
}

impl Session {
    pub fn new(env: Env, settings: &crate::Settings) -> Session {
        let incarnation = env.random();
        let local = Local {
            cluster_id: settings.cluster_id.clone(),
            identity: Identity {
                role: identity::Role::Client as i32,
                id: 0,
                incarnation,
                group: 0,
            },
        };
        Session {
            env,
            search: Rc::new(RefCell::new(Search::new(settings.meta.clone(), TERMS))),
            local,
            name: settings.name.clone(),
            patience: Duration::from_millis(settings.patience_ms),
            link: RefCell::default(),
            id: Cell::new(0),
            generation: Cell::new(0),
            valid_until: Cell::new(Mono(0)),
            term: Cell::new(Duration::from_secs(5)),
            linked: Notify::new(),
            next_operation: Cell::new(1),
            unanswered: RefCell::default(),
            answered: Notify::new(),
            leaving: Cell::new(false),
            closed: Cell::new(false),
            root: Cell::new(weft_types::ROOT_INO.0),
            last_failure: RefCell::default(),
            refused: Cell::new(false),
        }
    }

    pub fn id(&self) -> u64 {
        self.id.get()
    }

    pub fn patience(&self) -> Duration {
        self.patience
    }

    pub fn generation(&self) -> u64 {
        self.generation.get()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Why the last attempt to connect failed, and whether that was a refusal.
    pub fn last_failure(&self) -> (String, bool) {
        (self.last_failure.borrow().clone(), self.refused.get())
    }

    /// Leases may be believed now.
    pub fn is_valid(&self) -> bool {
        !self.leaving.get() && self.env.now() < self.valid_until.get()
    }

    /// The link, if requests can be sent at once.
    pub fn current(&self) -> Option<Link> {
        let link = self.link.borrow();
        link.as_ref()
            .filter(|link| link.connection.is_open())
            .cloned()
    }

    /// Waits until requests can be sent.
    pub async fn connected(&self) -> Link {
        loop {
            let linked = self.linked.notified();
            if let Some(link) = self.current() {
                return link;
            }
            linked.await;
        }
    }

    /// Waits until leases can be believed (again).
    pub async fn valid(&self) {
        loop {
            let linked = self.linked.notified();
            if self.is_valid() {
                return;
            }
            // The renewal may be late without the connection being broken; a new connection and
            // the taking up decide what is left. A goodbye needs the connection that it has.
            if !self.leaving.get()
                && let Some(link) = self.current()
            {
                link.connection.close("the session's term has passed");
            }
            linked.await;
        }
    }

    /// The service says that the session is over.
    fn fenced(&self, core: &Rc<Core>, link: &Link, why: &str) {
        if self.leaving.get() {
            // Its goodbye has been heard, though not answered.
            tracing::debug!(session = link.session, why, "the session is over");
            self.stop();
        } else if self.id.get() == link.session && link.session != 0 {
            tracing::error!(session = link.session, why, "the session has been ended");
            self.id.set(0);
            self.valid_until.set(Mono(0));
            core.session_lost();
        }
        link.connection.close("the session has been ended");
    }

    /// The server that this session is linked to is not the active, as it says itself or another. The first
    /// who hears that closes the link: what the others hear on it is no news.
    fn turned_away(&self, link: &Link, why: &CallError) {
        if link.connection.is_open() {
            let (from, now) = (link.connection.peer(), self.env.now());
            self.search.borrow_mut().not_served(from, why, now);
            link.connection.close(&why.to_string());
        }
    }

    /// The addresses of metadata servers that servers have told.
    pub fn learned(&self) -> Vec<String> {
        self.search.borrow().learned().to_vec()
    }

    /// Asks until an answer comes, at most as long as the patience.
    ///
    /// # Errors
    /// The server's errno, or EIO when the patience is over.
    pub async fn ask<R: Rpc>(
        &self,
        core: &Rc<Core>,
        make: impl Fn(&Link) -> R,
    ) -> Result<(R::Reply, Link), Errno> {
        let asking = async {
            loop {
                let link = self.connected().await;
                let answer = link.connection.call(&make(&link), Payload::none()).await;
                match self.judge::<R>(core, &link, answer).await {
                    Some(result) => return result.map(|reply| (reply, link)),
                    None => continue,
                }
            }
        };
        match self.env.timeout(self.patience, asking).await {
            Ok(result) => result,
            Err(_) => Err(Errno(libc::EIO)),
        }
    }

    /// None: send again.
    async fn judge<R: Rpc>(
        &self,
        core: &Rc<Core>,
        link: &Link,
        answer: Result<(R::Reply, bytes::Bytes), CallError>,
    ) -> Option<Result<R::Reply, Errno>> {
        match answer {
            Ok((reply, _)) => Some(Ok(reply)),
            Err(CallError::Lost(_)) => None,
            Err(CallError::Failed(Failed::Errno(errno))) => Some(Err(Errno(errno))),
            Err(CallError::Failed(Failed::Stale(epoch))) => {
                // Taking up tells the new epoch.
                link.connection
                    .close(&format!("a new epoch has begun: {epoch}"));
                None
            }
            Err(error @ CallError::Failed(Failed::NotActive { .. })) => {
                // It did not do it; the active knows the session.
                self.turned_away(link, &error);
                None
            }
            Err(CallError::Failed(Failed::Unavailable(_))) => {
                self.env.sleep(UNAVAILABLE_PAUSE).await;
                None
            }
            Err(CallError::Failed(Failed::Fenced(why))) => {
                self.fenced(core, link, &why);
                None
            }
            Err(CallError::Failed(Failed::Refused(why))) => {
                tracing::error!(request = R::NAME, why, "a request was refused");
                Some(Err(Errno(libc::EIO)))
            }
        }
    }

    /// Makes a change exactly once, however often it has to be sent.
    ///
    /// # Errors
    /// The change's errno; EIO when the patience is over or the session ended while nobody knew
    /// whether it was done.
    pub async fn change(
        &self,
        core: &Rc<Core>,
        cred: Cred,
        op: op::Op,
        want_leases: bool,
    ) -> Result<(ChangeReply, Link), Errno> {
        let mut request = ChangeRequest {
            cred: Some(cred),
            op: Some(Op { op: Some(op) }),
            want_leases,
            ..ChangeRequest::default()
        };
        let changing = async {
            let mut numbered: Option<Numbered<'_>> = None;
            loop {
                if numbered.is_none() {
                    self.number_free().await;
                }
                let link = self.connected().await;
                match &numbered {
                    // A new session knows nothing of the old one's operations.
                    Some(_) if request.session != link.session => return Err(Errno(libc::EIO)),
                    Some(_) => {}
                    None => {
                        let number = self.next_operation.get();
                        self.next_operation.set(number + 1);
                        self.unanswered.borrow_mut().insert(number);
                        numbered = Some(Numbered(self, number));
                        request.operation = number;
                        request.session = link.session;
                    }
                }
                request.epoch = link.epoch;
                let first = self.unanswered.borrow().first().copied();
                request.acknowledged_below = first.unwrap_or(self.next_operation.get());
                let answer = link.connection.call(&request, Payload::none()).await;
                match self.judge::<ChangeRequest>(core, &link, answer).await {
                    Some(result) => return result.map(|reply| (reply, link)),
                    None => continue,
                }
            }
        };
        let (reply, link) = match self.env.timeout(self.patience, changing).await {
            Ok(result) => result?,
            Err(_) => return Err(Errno(libc::EIO)),
        };
        if reply.writers > 0 {
            core.writers.set(reply.writers);
        }
        match reply.reply.as_ref().map_or(0, |r| r.failure_errno) {
            0 => Ok((reply, link)),
            // A lock's conflict is told beside the errno.
            _ if reply.reply.as_ref().is_some_and(|r| r.conflict.is_some()) => Ok((reply, link)),
            errno => Err(Errno(errno as i32)),
        }
    }

    /// Waits while too many changes are outstanding: one that waits for a lease of somebody's must
    /// not let the replies of all later ones pile up.
    async fn number_free(&self) {
        loop {
            let answered = self.answered.notified();
            let oldest = self.unanswered.borrow().first().copied();
            if oldest.is_none_or(|oldest| self.next_operation.get() - oldest < OUTSTANDING_MAX) {
                return;
            }
            answered.await;
        }
    }

    /// A goodbye follows: no lease is believed from now on, that the session is over is no loss, and it
    /// is not replaced.
    pub fn begin_leaving(&self) {
        self.leaving.set(true);
    }

    /// Stays disconnected from now on.
    pub fn stop(&self) {
        self.closed.set(true);
        if let Some(link) = self.link.borrow_mut().take() {
            link.connection.close("the client is closed");
        }
        self.valid_until.set(Mono(0));
        self.linked.notify_waiters();
    }

    /// Keeps the session connected and renewed until it is stopped or the client is gone.
    pub async fn keep(core: Weak<Core>) {
        let Some((env, search)) = core
            .upgrade()
            .map(|core| (core.session.env.clone(), core.session.search.clone()))
        else {
            return;
        };
        let weak = core.clone();
        let handler: Handler = Rc::new(move |connection, request| {
            if let Some(core) = weak.upgrade() {
                core.on_request(connection, request);
            }
        });
        let mut attempts = Attempts::new(&env, CONNECT_PATIENCE);
        loop {
            let local = match core.upgrade() {
                Some(core) if !core.session.is_closed() => core.session.local(),
                _ => return,
            };
            // Nothing holds the client while its session waits.
            let step = attempts.step(&search, &local, &handler);
            let Some((address, connected)) = step.await else {
                continue;
            };
            let Some(strong) = core.upgrade() else { return };
            let session = &strong.session;
            match session.establish(&strong, &address, connected).await {
                Ok(()) => {
                    attempts.clear();
                    let link = session.current();
                    drop(strong);
                    if let Some(link) = link {
                        Session::stay(&core, &env, &search, (&link, &local)).await;
                    }
                }
                Err((why, refused)) => {
                    tracing::debug!(address, why, "no session yet");
                    *session.last_failure.borrow_mut() = format!("{address}: {why}");
                    session.refused.set(refused);
                }
            }
        }
    }

    /// Who this side is, in a handshake.
    fn local(&self) -> Local {
        let mut local = self.local.clone();
        local.identity.id = self.id.get();
        local
    }

    /// Opens the session over a connection, or takes it up, if there is one and its other side serves.
    async fn establish(
        &self,
        core: &Rc<Core>,
        address: &str,
        connected: std::io::Result<Connection>,
    ) -> Result<(), (String, bool)> {
        let connection = connected.map_err(|error| (error.to_string(), is_refusal(&error)))?;
        if self.is_closed() {
            connection.close("the client is closed");
            return Err(("the client is closed".into(), false));
        }
        match self.take_up(core, &connection).await {
            Ok(members) => {
                let now = self.env.now();
                self.search.borrow_mut().connected(address, members, now);
                if self.is_closed() {
                    connection.close("the client is closed");
                }
                Ok(())
            }
            Err(error) => {
                let now = self.env.now();
                self.search.borrow_mut().not_served(address, &error, now);
                connection.close(&error.to_string());
                let refused = matches!(error, CallError::Failed(Failed::Refused(_)));
                Err((error.to_string(), refused))
            }
        }
    }

    /// Answers with the addresses of the metadata servers that the view names.
    async fn take_up(
        &self,
        core: &Rc<Core>,
        connection: &Connection,
    ) -> Result<Vec<String>, CallError> {
        let mut request = SessionRequest {
            session: self.id.get(),
            name: self.name.clone(),
            ..SessionRequest::default()
        };
        if request.session != 0 {
            // Coming back gives back what the service may treat as held: READ leases on anything.
            core.drop_read_leases().await;
            (
                request.open_inodes,
                request.write_leases,
                request.shared_leases,
            ) = core.held();
            request.settled = core.pairs.settled();
        }
        let sent = self.env.now();
        let call = connection.call(&request, Payload::none());
        let patience = self.search.borrow().answer_patience();
        let reply: SessionReply = match self.env.timeout(patience, call).await {
            Ok(Ok((reply, _))) => reply,
            Ok(Err(error)) => {
                if let CallError::Failed(Failed::Fenced(why)) = &error {
                    let link = Link {
                        connection: connection.clone(),
                        session: request.session,
                        epoch: 0,
                        generation: 0,
                    };
                    self.fenced(core, &link, why);
                }
                return Err(error);
            }
            Err(_) => return Err(CallError::Lost("no answer to the session request".into())),
        };
        if self.is_closed() {
            // One that has just been opened ends by its term.
            return Ok(Vec::new());
        }
        let taken_up = request.session != 0;
        self.id.set(reply.session);
        self.root.set(reply.root_ino);
        let term = Duration::from_millis(reply.term_ms.max(1));
        self.term.set(term);
        self.generation.set(self.generation.get() + 1);
        core.pairs.learn_view(reply.view.as_ref(), &reply.pairs);
        if taken_up {
            core.keep_write_leases(&reply.write_leases, &reply.shared_leases);
        }
        self.believe_from(sent);
        *self.link.borrow_mut() = Some(Link {
            connection: connection.clone(),
            session: reply.session,
            epoch: reply.epoch,
            generation: self.generation.get(),
        });
        tracing::info!(
            session = reply.session,
            epoch = reply.epoch,
            taken_up,
            server = connection.peer(),
            "session with the metadata service"
        );
        self.linked.notify_waiters();
        core.linked();
        let groups = reply.view.iter().flat_map(|view| &view.groups);
        let members = groups.flat_map(|group| &group.members);
        Ok(members.map(|member| member.address.clone()).collect())
    }

    fn believe_from(&self, sent: Mono) {
        // Clocks run at slightly different rates: the client's term ends first.
        self.valid_until.set(sent + self.term.get().mul_f64(0.95));
    }

    /// Renews until the connection breaks, or another than its other side leads.
    async fn stay(
        core: &Weak<Core>,
        env: &Env,
        search: &RefCell<Search>,
        (link, local): (&Link, &Local),
    ) {
        let renewing = Session::renew(core);
        let stayed = weft_rpc::while_active(env, &link.connection, search, local, renewing);
        if let Err(why) = stayed.await
            && let Some(core) = core.upgrade()
        {
            core.session.turned_away(link, &why);
        }
    }

    /// Renews until the connection breaks.
    async fn renew(core: &Weak<Core>) {
        let mut told = Vec::new();
        let mut renewed: Option<Mono> = None;
        loop {
            let (env, link, pause, resettled) = {
                let Some(core) = core.upgrade() else { return };
                let session = &core.session;
                let Some(link) = session.current() else {
                    return;
                };
                let pause = session.term.get() / 3;
                let resettled = core.pairs.resettled.clone();
                (session.env.clone(), link, pause, resettled)
            };
            let due = *renewed.get_or_insert(env.now()) + pause;
            let is_due = {
                let mut closed = pin!(link.connection.closed().fuse());
                select_biased! {
                    _ = closed => return,
                    () = env.sleep_until(due).fuse() => true,
                    () = resettled.notified().fuse() => false,
                }
            };
            let sent = env.now();
            let (unconfirmed, request) = {
                let Some(core) = core.upgrade() else { return };
                let settled = core.pairs.settled();
                if !is_due && settled == told {
                    continue;
                }
                told.clone_from(&settled);
                let unconfirmed = core.unconfirmed.borrow().len();
                (unconfirmed, core.renewal(&link, settled))
            };
            renewed = Some(sent);
            let call = link.connection.call(&request, Payload::none());
            let answer = env.timeout(pause, call).await;
            let Some(core) = core.upgrade() else { return };
            match answer {
                Ok(Ok(_)) => {
                    core.session.believe_from(sent);
                    core.renewed(link.generation, unconfirmed);
                }
                Ok(Err(CallError::Failed(Failed::Fenced(why)))) => {
                    core.session.fenced(&core, &link, &why);
                }
                Ok(Err(error @ CallError::Failed(Failed::NotActive { .. }))) => {
                    core.session.turned_away(&link, &error);
                }
                Ok(Err(error)) => link.connection.close(&error.to_string()),
                Err(_) => link.connection.close("a renewal was not answered"),
            }
        }
    }
}
