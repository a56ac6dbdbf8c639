//! A session with a replica group of the metadata service: asking, and how long leases are believed.
//!
//! One connection to the active at a time, which `keeping.rs` makes. When it breaks whoever waits for an answer
//! sends again, changes under the same operation number, so that each is done once
//! (`docs/protocols/leases.md`). Keeps true: leases are believed only for a term after the last answered
//! renewal was sent, by this client's own clock.

use crate::core::Core;
use crate::slots::FIRST;
use crate::types::{Cred, Errno};
use futures_util::future::select;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::{Env, Mono};
use weft_rpc::{CallError, Connection, Local, Payload, Search, Terms};
use weft_wire::proto::{
    ChangeReply, ChangeRequest, FileLock, Identity, Op, OpReply, Release, SetLock, file_lock,
    identity, op,
};
use weft_wire::{Failed, Rpc};

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
    /// The group's number.
    pub group: u32,
    pub session: u64,
    pub epoch: u64,
    /// Counts connections: what was granted over an older one is void.
    pub generation: u64,
}

pub(crate) struct Session {
    pub(super) env: Env,
    /// The replica group.
    pub group: u32,
    /// Borrowed for moments only.
    pub(super) search: Rc<RefCell<Search>>,
    pub(super) local: Local,
    pub(super) name: String,
    /// Milliseconds; 0: as the service likes.
    pub(super) asked_term_ms: u64,
    pub(super) keep_ms: u64,
    pub(super) only_moves: bool,
    patience: Duration,
    pub(super) link: RefCell<Option<Link>>,
    /// The session's id; 0 while none is open.
    pub(super) id: Cell<u64>,
    /// The last one, of which it is known that it is over; 0: none.
    pub(super) ended: Cell<u64>,
    pub(super) generation: Cell<u64>,
    /// Until when leases are believed.
    pub(super) valid_until: Cell<Mono>,
    pub(super) term: Cell<Duration>,
    pub(super) linked: Notify,
    next_operation: Cell<u64>,
    /// Requests that were sent, renewals left out.
    pub(crate) requests: Cell<u64>,
    unanswered: RefCell<BTreeSet<u64>>,
    /// How many [`Unacknowledged`] there are, by number.
    kept_from: RefCell<BTreeMap<u64, usize>>,
    /// Told when a change is no longer outstanding.
    answered: Notify,
    /// Its goodbye is on the way: the service may have heard it, and given to others what was leased.
    leaving: Cell<bool>,
    closed: Cell<bool>,
    /// The root directory; of the first group's session.
    pub root: Cell<u64>,
    pub(super) last_failure: RefCell<String>,
    /// The last failure says that the service is there and does not want this client.
    pub(super) refused: Cell<bool>,
    /// What data servers have settled is to be told.
    pub resettled: Rc<Notify>,
    /// Sessions of the group that write, as it said last (for the hybrid protocol).
    pub writers: Cell<u32>,
    /// How often there was something to be claimed there, and how often that was so when it was.
    pub claims: Cell<u64>,
    pub claimed: Cell<u64>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // A client that was dropped without being closed: nobody renews any more.
        self.stop();
    }
}

/// Why a group has not answered well.
pub(crate) enum Stopped {
    Errno(Errno),
    /// It has not done it, and never will: the slot is another group's. The slot and that group; where its
    /// members are.
    Moved((u32, u32), Vec<String>),
    /// The patience is over, and nobody knows whether a change was done.
    InDoubt(Doubt),
}

impl Stopped {
    /// For what is asked of one group only, or of no other any more.
    pub fn errno(self) -> Errno {
        match self {
            Stopped::Errno(errno) => errno,
            Stopped::Moved((slot, group), _) => {
                tracing::error!(slot, group, "a group was asked for another one's slot");
                Errno(libc::EIO)
            }
            Stopped::InDoubt(_) => Errno(libc::EIO),
        }
    }
}

impl From<Errno> for Stopped {
    fn from(errno: Errno) -> Stopped {
        Stopped::Errno(errno)
    }
}

/// Takes a change's number from the unanswered ones, however its future ends.
struct Numbered(Rc<Session>, u64);

impl Drop for Numbered {
    fn drop(&mut self) {
        let mut unanswered = self.0.unanswered.borrow_mut();
        let was_oldest = unanswered.first() == Some(&self.1);
        unanswered.remove(&self.1);
        if was_oldest {
            self.0.answered.notify_waiters();
        }
    }
}

/// While this is there, no answer that comes from now on is acknowledged.
pub(crate) struct Unacknowledged(Rc<Session>, u64);

impl Unacknowledged {
    pub fn from_now(session: &Rc<Session>) -> Unacknowledged {
        let from = session.acknowledged_below();
        *session.kept_from.borrow_mut().entry(from).or_insert(0) += 1;
        Unacknowledged(session.clone(), from)
    }
}

impl Drop for Unacknowledged {
    fn drop(&mut self) {
        let Unacknowledged(session, from) = self;
        let mut kept_from = session.kept_from.borrow_mut();
        let count = kept_from.get_mut(from).expect("counted by this one");
        *count -= 1;
        if *count == 0 {
            kept_from.remove(from);
        }
        session.answered.notify_waiters();
    }
}

/// A change that was sent, and of which nobody knows whether it was done, or will be. While this is there its number
/// stays unanswered.
pub(crate) struct Doubt {
    numbered: Numbered,
    /// Under which it was sent.
    session: u64,
    /// What it was to do.
    pub op: op::Op,
}

impl Doubt {
    /// Ends the doubt: its answer if the change was done, or that of one that changes nothing. None: the session is over, or
    /// the change cannot be done. It takes as long as the service is away. What asks has the change's own number and
    /// changes nothing, on an inode of the group's: either the service has an answer under that number already, or this
    /// one's is the answer from now on, whatever arrives late.
    pub async fn end(self, core: &Rc<Core>, ino: u64) -> Option<(ChangeReply, Link)> {
        let Doubt {
            numbered, session, ..
        } = self;
        let with = &numbered.0;
        let nothing = op::Op::SetLock(SetLock {
            ino,
            lock: Some(FileLock {
                kind: file_lock::Kind::Unlock as i32,
                owner: u64::MAX,
                last: u64::MAX,
                ..FileLock::default()
            }),
            ..SetLock::default()
        });
        let mut request = ChangeRequest {
            cred: Some(Cred::default()),
            op: Some(Op { op: Some(nothing) }),
            operation: numbered.1,
            session,
            ..ChangeRequest::default()
        };
        loop {
            let linked = with.linked.notified();
            if with.is_closed() {
                return None;
            }
            let Some(link) = with.current() else {
                linked.await;
                continue;
            };
            if link.session != session {
                // What it was done to is lost to this client with the session.
                return None;
            }
            request.epoch = link.epoch;
            request.acknowledged_below = with.acknowledged_below();
            with.requests.set(with.requests.get() + 1);
            let answer = link.connection.call(&request, Payload::none()).await;
            if let Some(result) = with.judge::<ChangeRequest>(core, &link, answer).await {
                let answered = result.ok()?;
                let is_done = |reply: &OpReply| reply.failure_errno == 0;
                let is_done = answered.reply.as_ref().is_some_and(is_done);
                return is_done.then_some((answered, link));
            }
        }
    }
}

impl Session {
    /// With a group; not connected, and not kept.
    pub fn new(env: Env, settings: &crate::Settings, local: &Local, group: u32) -> Session {
        let incarnation = env.random();
        let local = local.with_identity(Identity {
            role: identity::Role::Client as i32,
            id: 0,
            incarnation,
            group,
        });
        Session {
            env,
            group,
            search: Rc::new(RefCell::new(Search::new(settings.meta.clone(), TERMS))),
            local,
            name: settings.name.clone(),
            asked_term_ms: settings.session_term_ms,
            keep_ms: settings.session_keep_ms,
            only_moves: settings.only_moves,
            patience: Duration::from_millis(settings.patience_ms),
            link: RefCell::default(),
            id: Cell::new(0),
            ended: Cell::new(0),
            generation: Cell::new(0),
            valid_until: Cell::new(Mono(0)),
            term: Cell::new(Duration::from_secs(5)),
            linked: Notify::new(),
            next_operation: Cell::new(1),
            requests: Cell::new(0),
            unanswered: RefCell::default(),
            kept_from: RefCell::default(),
            answered: Notify::new(),
            leaving: Cell::new(false),
            closed: Cell::new(false),
            root: Cell::new(weft_types::ROOT_INO.0),
            last_failure: RefCell::default(),
            refused: Cell::new(false),
            resettled: Rc::default(),
            // This client may be about to.
            writers: Cell::new(u32::from(group == FIRST)),
            claims: Cell::new(0),
            claimed: Cell::new(0),
        }
    }

    /// Where the members of its group are, as the view says.
    pub fn learn_members(&self, addresses: Vec<String>) {
        self.search.borrow_mut().learn(addresses);
    }

    pub fn id(&self) -> u64 {
        self.id.get()
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

    /// Until when they may be.
    pub fn believed_until(&self) -> Mono {
        self.valid_until.get()
    }

    /// For how long they may be if no renewal is answered from now on.
    pub fn believes_for(&self) -> Duration {
        match self.is_valid() {
            true => self.valid_until.get().since(self.env.now()),
            false => Duration::ZERO,
        }
    }

    /// The link, if requests can be sent at once.
    pub fn current(&self) -> Option<Link> {
        let link = self.link.borrow();
        link.as_ref()
            .filter(|link| link.connection.is_open())
            .cloned()
    }

    /// Waits until requests can be sent.
    ///
    /// # Errors
    /// EIO once it is closed: nothing is ever sent again.
    pub async fn connected(&self) -> Result<Link, Errno> {
        loop {
            let linked = self.linked.notified();
            if self.closed.get() {
                return Err(Errno(libc::EIO));
            }
            if let Some(link) = self.current() {
                return Ok(link);
            }
            linked.await;
        }
    }

    /// Waits until the session has been opened or taken up over a connection, or that is closed. The service asks for leases
    /// over it as soon as it has taken the session up; its answer, which says what is still held, comes later.
    pub async fn begun_over(&self, connection: &Connection) {
        loop {
            let linked = self.linked.notified();
            let link = self.link.borrow().clone();
            let has_begun = link.is_some_and(|link| link.connection.same(connection));
            if has_begun || self.closed.get() || !connection.is_open() {
                return;
            }
            select(pin!(linked), pin!(connection.closed())).await;
        }
    }

    /// Waits until leases can be believed (again).
    ///
    /// # Errors
    /// EIO once it is closed: none is believed ever again.
    pub async fn valid(&self) -> Result<(), Errno> {
        loop {
            let linked = self.linked.notified();
            if self.closed.get() {
                return Err(Errno(libc::EIO));
            }
            if self.is_valid() {
                return Ok(());
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
    pub(super) fn fenced(&self, core: &Rc<Core>, link: &Link, why: &str) {
        if self.leaving.get() {
            // Its goodbye has been heard, though not answered.
            tracing::debug!(session = link.session, why, "the session is over");
            self.stop();
        } else if self.id.get() == link.session && link.session != 0 {
            tracing::error!(session = link.session, why, "the session has been ended");
            self.id.set(0);
            self.valid_until.set(Mono(0));
            core.session_lost(self.group);
            self.ended.set(link.session);
        }
        link.connection.close("the session has been ended");
    }

    /// The server that this session is linked to is not the active, as it says itself or another. The first
    /// who hears that closes the link: what the others hear on it is no news.
    pub(super) fn turned_away(&self, link: &Link, why: &CallError) {
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
        let asked = self.ask_within(core, self.patience, make);
        asked.await.map_err(Stopped::errno)
    }

    /// The same, if the group has what is asked about; at most so long.
    pub async fn ask_within<R: Rpc>(
        &self,
        core: &Rc<Core>,
        patience: Duration,
        make: impl Fn(&Link) -> R,
    ) -> Result<(R::Reply, Link), Stopped> {
        let asking = async {
            loop {
                let link = self.connected().await?;
                self.requests.set(self.requests.get() + 1);
                let answer = link.connection.call(&make(&link), Payload::none()).await;
                match self.judge::<R>(core, &link, answer).await {
                    Some(result) => return result.map(|reply| (reply, link)),
                    None => continue,
                }
            }
        };
        match self.env.timeout(patience, asking).await {
            Ok(result) => result,
            Err(_) => Err(Stopped::Errno(Errno(libc::EIO))),
        }
    }

    /// None: send again.
    async fn judge<R: Rpc>(
        &self,
        core: &Rc<Core>,
        link: &Link,
        answer: Result<(R::Reply, bytes::Bytes), CallError>,
    ) -> Option<Result<R::Reply, Stopped>> {
        match answer {
            Ok((reply, _)) => Some(Ok(reply)),
            Err(CallError::Lost(_)) => None,
            Err(CallError::Failed(Failed::Errno(errno))) => Some(Err(Errno(errno).into())),
            Err(CallError::Failed(Failed::Moved {
                slot,
                group,
                members,
            })) => Some(Err(Stopped::Moved((slot, group), members))),
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
            Err(CallError::Failed(Failed::Refused(why) | Failed::Misplaced(why))) => {
                tracing::error!(request = R::NAME, why, "a request was refused");
                Some(Err(Errno(libc::EIO).into()))
            }
        }
    }

    /// Makes a change exactly once, however often it has to be sent.
    ///
    /// # Errors
    /// The change's errno; EIO when the patience is over or the session ended while nobody knew
    /// whether it was done.
    pub async fn change(
        self: &Rc<Self>,
        core: &Rc<Core>,
        cred: Cred,
        mut op: op::Op,
        want_leases: bool,
    ) -> Result<(ChangeReply, Link), Errno> {
        let change = (cred, &mut op, want_leases);
        let changed = self.change_within(core, self.patience, change);
        changed.await.map_err(Stopped::errno)
    }

    /// The same, if the group has what is to be changed; at most so long. The change is what it was if another
    /// group is to do it.
    pub async fn change_within(
        self: &Rc<Self>,
        core: &Rc<Core>,
        patience: Duration,
        (cred, op, want_leases): (Cred, &mut op::Op, bool),
    ) -> Result<(ChangeReply, Link), Stopped> {
        // Of no meaning, and small.
        let none = op::Op::Release(Release::default());
        // Whose answer is not acknowledged at once would wait for itself.
        let waits = !matches!(op, op::Op::Setattr(set) if set.size.is_some() && !set.owed);
        let mut request = ChangeRequest {
            cred: Some(cred),
            op: Some(Op {
                op: Some(std::mem::replace(op, none)),
            }),
            want_leases,
            ..ChangeRequest::default()
        };
        let mut numbered: Option<Numbered> = None;
        let changing = async {
            loop {
                if numbered.is_none() && waits {
                    self.number_free().await;
                }
                let link = self.connected().await?;
                match &numbered {
                    // A new session knows nothing of the old one's operations.
                    Some(_) if request.session != link.session => {
                        return Err(Errno(libc::EIO).into());
                    }
                    Some(_) => {}
                    None => {
                        let number = self.next_operation.get();
                        self.next_operation.set(number + 1);
                        self.unanswered.borrow_mut().insert(number);
                        numbered = Some(Numbered(self.clone(), number));
                        request.operation = number;
                        request.session = link.session;
                    }
                }
                request.epoch = link.epoch;
                request.acknowledged_below = self.acknowledged_below();
                self.requests.set(self.requests.get() + 1);
                let answer = link.connection.call(&request, Payload::none()).await;
                match self.judge::<ChangeRequest>(core, &link, answer).await {
                    Some(result) => return result.map(|reply| (reply, link)),
                    None => continue,
                }
            }
        };
        let (reply, link) = match self.env.timeout(patience, changing).await {
            Ok(Err(moved @ Stopped::Moved(..))) => {
                if let Some(asked) = request.op.and_then(|asked| asked.op) {
                    *op = asked;
                }
                return Err(moved);
            }
            Ok(result) => result?,
            Err(_) => {
                let session = request.session;
                let op = request.op.and_then(|asked| asked.op);
                return Err(match numbered.zip(op) {
                    Some((numbered, op)) => Stopped::InDoubt(Doubt {
                        numbered,
                        session,
                        op,
                    }),
                    None => Errno(libc::EIO).into(),
                });
            }
        };
        if reply.writers > 0 {
            self.writers.set(reply.writers);
        }
        match reply.reply.as_ref().map_or(0, |r| r.failure_errno) {
            0 => Ok((reply, link)),
            // A lock's conflict is told beside the errno.
            _ if reply.reply.as_ref().is_some_and(|r| r.conflict.is_some()) => Ok((reply, link)),
            errno => Err(Errno(errno as i32).into()),
        }
    }

    /// Below which this side has the answers of all changes, and says so.
    pub fn acknowledged_below(&self) -> u64 {
        let unanswered = self.unanswered.borrow().first().copied();
        let kept = self.kept_from.borrow().keys().next().copied();
        let first = unanswered.into_iter().chain(kept).min();
        first.unwrap_or(self.next_operation.get())
    }

    /// Waits while too many changes are outstanding: one that waits for a lease of somebody's must
    /// not let the replies of all later ones pile up.
    async fn number_free(&self) {
        loop {
            let answered = self.answered.notified();
            if self.next_operation.get() - self.acknowledged_below() < OUTSTANDING_MAX {
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
}
