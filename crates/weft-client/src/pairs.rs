//! The pairs as this client sees them: states, connections to their members, retries.
//!
//! Every request names the pair's epoch. A member that cannot be reached or answers `Stale` sends
//! the client to the metadata service (`Suspect`), and the request is made again under the state it
//! learns, until the patience is over (`docs/protocols/pairs.md`).

use crate::changes::Numbers;
use crate::copies::{Awaited, Copies};
use crate::core::Core;
use crate::late::Late;
use crate::session::Session;
use crate::slots::FIRST;
use crate::types::Errno;
use crate::window::Window;
use crate::written::Written;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, select_biased};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::{Env, Mono};
use weft_pair::{Mode, Router};
use weft_rpc::{CallError, Connection, Handler, Local, Payload};
use weft_types::{Epoch, Member, PairId};
use weft_wire::proto::{
    Copied, Identity, ObjectName, PairMembers, PairState, SuspectRequest, WriteRequest, identity,
};
use weft_wire::{Failed, Rpc};

/// An attempt to reach a member takes at most this long: on one network a handshake takes a
/// millisecond, and the twin or the metadata service can be asked instead.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// A member is not tried again sooner after it could not be reached.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);
/// A connection is given up on which the member has shown no sign of life for this long while answers
/// are owed: shorter than TCP's own patience.
const SILENCE: Duration = Duration::from_secs(5);
/// The same where it lives, but neither answers nor takes or sends a byte of what it was asked: longer
/// than what waits there for a loaded disk.
const UNANSWERED: Duration = Duration::from_secs(20);
/// Pause before a request is made again when there is nothing better to wait for.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Every request is tried for this long, however long there has been trouble.
const PATIENCE_LEAST: Duration = Duration::from_secs(1);

/// Why a member did not do a request.
pub(crate) enum Trouble {
    /// Final.
    Errno(i32),
    /// The session is over.
    Fenced(String),
    /// The member has another epoch.
    Stale(u64),
    /// It cannot be reached or does not serve.
    Away,
}

struct MemberLink {
    address: RefCell<String>,
    connection: RefCell<Option<Connection>>,
    connecting: Cell<bool>,
    tried: Notify,
    /// When it could not be reached last.
    failed: Cell<Option<Mono>>,
    /// When it answered last.
    heard: Cell<Mono>,
    /// Bytes that may still be written, as it told last.
    room: Cell<Option<u64>>,
    window: Window,
    /// What it says of writes that it answered without their second copy.
    copies: Rc<Copies>,
}

pub(crate) struct Pair {
    id: u32,
    pub(super) state: RefCell<weft_pair::PairState>,
    /// The service has told a state.
    pub(super) is_known: Cell<bool>,
    pub(super) router: RefCell<Router>,
    members: [MemberLink; 2],
    changed: Notify,
    suspecting: Cell<bool>,
    /// Under the session with each group: members tell these apart.
    written: RefCell<BTreeMap<u32, Rc<Written>>>,
    /// Since when requests fail without one that was done between.
    trouble_since: Cell<Option<Mono>>,
}

impl Pair {
    fn new(id: u32, now: Mono) -> Pair {
        let link = || MemberLink {
            address: RefCell::default(),
            connection: RefCell::default(),
            connecting: Cell::new(false),
            tried: Notify::new(),
            failed: Cell::new(None),
            heard: Cell::new(now),
            room: Cell::new(None),
            window: Window::default(),
            copies: Rc::default(),
        };
        Pair {
            id,
            state: RefCell::new(weft_pair::PairState::new(PairId(id))),
            is_known: Cell::new(false),
            router: RefCell::new(Router::new()),
            members: [link(), link()],
            changed: Notify::new(),
            suspecting: Cell::new(false),
            written: RefCell::default(),
            trouble_since: Cell::new(None),
        }
    }

    /// What is asked of a member from now on is asked over another connection.
    pub(super) fn leave_connection(&self, member: Member) {
        let link = &self.members[member.index()];
        if let Some(connection) = link.connection.borrow_mut().take() {
            connection.close("a change was given up");
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        if self.is_known.get() {
            self.state.borrow().epoch.0
        } else {
            0
        }
    }

    /// The members that hold everything, one or two of them or none.
    pub(super) fn current(&self) -> (Option<Member>, Option<Member>) {
        match self.state.borrow().mode {
            _ if !self.is_known.get() => (None, None),
            Mode::Both => (Some(Member::Zero), Some(Member::One)),
            Mode::Only(member) | Mode::Recovering(member) => (Some(member), None),
            Mode::Down(_) => (None, None),
        }
    }

    pub(super) fn serves(&self, member: Member) -> bool {
        let (a, b) = self.current();
        a == Some(member) || b == Some(member)
    }

    /// Two copies are made of what is written now.
    pub(super) fn both_serve(&self) -> bool {
        self.is_known.get() && self.state.borrow().mode == Mode::Both
    }

    /// What members know of what is written here under the session with a group.
    pub(super) fn written(&self, group: u32) -> Rc<Written> {
        self.written.borrow_mut().entry(group).or_default().clone()
    }

    /// A member has told how much may still be written to it.
    pub(super) fn told_room(&self, member: Member, bytes: u64) {
        self.members[member.index()].room.set(Some(bytes));
    }

    /// What may be under way at a member.
    pub(super) fn window(&self, member: Member) -> &Window {
        &self.members[member.index()].window
    }

    /// Returns when all that was to be sent to a member has been handed to the system, or it is not
    /// connected.
    pub(super) async fn nothing_unsent(&self, member: Member) {
        let connection = self.members[member.index()].connection.borrow().clone();
        if let Some(connection) = connection {
            connection.sent().await;
        }
    }

    /// Returns when the pair's state changes.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// From now on what a member says of the change is kept.
    pub(super) fn await_copy(&self, member: Member, number: u64) -> Awaited<'_> {
        self.members[member.index()].copies.await_copy(number)
    }

    fn learn(&self, state: &PairState) {
        if self.is_known.get() && state.epoch <= self.epoch() {
            return;
        }
        match weft_pair::PairState::from_proto(state) {
            Ok(state) => {
                tracing::debug!(pair = self.id, epoch = %state.epoch, mode = ?state.mode, "pair state");
                *self.state.borrow_mut() = state;
                self.is_known.set(true);
                self.changed.notify_waiters();
            }
            Err(error) => tracing::error!(pair = self.id, %error, "a pair's state makes no sense"),
        }
    }

    /// Takes over the addresses of the members; `is_news`: the known ones are older.
    fn locate(&self, members: &PairMembers, is_news: bool) {
        for (link, address) in self.members.iter().zip(&members.addresses) {
            let is_wanted = is_news || link.address.borrow().is_empty();
            if is_wanted && !address.is_empty() && *link.address.borrow() != *address {
                *link.address.borrow_mut() = address.clone();
                link.failed.set(None);
            }
        }
    }
}

/// What every request needs to know of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    pub pair: u32,
    pub ino: u64,
    pub generation: u32,
}

impl Object {
    pub(super) fn name(self) -> ObjectName {
        ObjectName {
            ino: self.ino,
            generation: self.generation,
        }
    }
}

pub(crate) struct Pairs {
    pub(super) env: Env,
    local: Local,
    patience: Duration,
    /// How long one member alone may have what a client goes on with.
    pub(super) owed_age: Duration,
    pairs: RefCell<BTreeMap<u32, Rc<Pair>>>,
    pub(super) numbers: Numbers,
    pub late: Late,
    /// Those who tell the groups of the service at once when what [`Pairs::settled`] answers has changed.
    tellers: RefCell<Vec<Rc<Notify>>>,
}

fn trouble_of<R: Rpc>(pair: &Pair, member: Member, failed: Failed) -> Trouble {
    match failed {
        Failed::Errno(errno) => Trouble::Errno(errno),
        Failed::Fenced(why) => Trouble::Fenced(why),
        Failed::Stale(epoch) => Trouble::Stale(epoch),
        // No data server says who leads a group: there is none at this address.
        Failed::Unavailable(_) | Failed::NotActive { .. } | Failed::Moved { .. } => Trouble::Away,
        Failed::Refused(why) | Failed::Misplaced(why) => {
            tracing::error!(request = R::NAME, pair = pair.id, %member, why, "refused");
            Trouble::Errno(libc::EIO)
        }
    }
}

/// What comes of it; None when the pair's state leaves the member behind first.
async fn while_serving<T>(
    pair: &Pair,
    member: Member,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let mut asking = pin!(asking.fuse());
    loop {
        let changed = pair.changed.notified();
        if !pair.serves(member) {
            return None;
        }
        select_biased! {
            answer = asking => return Some(answer),
            () = changed.fuse() => {}
        }
    }
}

impl Pairs {
    /// `local` is who the client is.
    pub fn new(env: Env, settings: &crate::Settings, local: &Local) -> Pairs {
        let incarnation = env.random();
        Pairs {
            env,
            local: local.with_identity(Identity {
                role: identity::Role::Client as i32,
                id: 0,
                incarnation,
                group: 0,
            }),
            patience: Duration::from_millis(settings.patience_ms),
            owed_age: Duration::from_millis(settings.owed_ms),
            pairs: RefCell::default(),
            numbers: Numbers::default(),
            late: Late::default(),
            tellers: RefCell::default(),
        }
    }

    pub(super) fn pair(&self, id: u32) -> Rc<Pair> {
        self.pairs
            .borrow_mut()
            .entry(id)
            .or_insert_with(|| Rc::new(Pair::new(id, self.env.now())))
            .clone()
    }

    /// Pairs that the service has told of.
    pub fn count(&self) -> usize {
        self.pairs.borrow().len()
    }

    /// From now on this is notified when what [`Pairs::settled`] answers has changed.
    pub fn tell_of_settled(&self, teller: Rc<Notify>) {
        self.tellers.borrow_mut().push(teller);
    }

    /// What [`Pairs::settled`] answers has changed, perhaps.
    pub(super) fn resettled(&self) {
        for teller in &*self.tellers.borrow() {
            teller.notify_one();
        }
    }

    /// Takes over a group's word about pairs. The members tell the first group where they are: what
    /// others say of that may be old.
    pub fn learn(&self, group: u32, states: &[PairState], members: &[PairMembers]) {
        for members in members {
            self.pair(members.pair).locate(members, group == FIRST);
        }
        for state in states {
            self.pair(state.pair).learn(state);
        }
        if !states.is_empty() {
            self.resettled();
        }
    }

    /// Closes all connections.
    pub fn close(&self) {
        for pair in self.pairs.borrow().values() {
            for link in &pair.members {
                if let Some(connection) = link.connection.borrow_mut().take() {
                    connection.close("the client is closed");
                }
            }
        }
    }

    /// A connection to a member, for all sessions; it shows the one for which it is made. None if it
    /// cannot be reached now.
    async fn reach(&self, pair: &Pair, member: Member, session: u64) -> Option<Connection> {
        let link = &pair.members[member.index()];
        loop {
            if let Some(connection) = &*link.connection.borrow()
                && connection.is_open()
            {
                return Some(connection.clone());
            }
            if !link.connecting.get() {
                break;
            }
            let tried = link.tried.notified();
            tried.await;
            if link.failed.get().is_some() {
                return None;
            }
        }
        if link
            .failed
            .get()
            .is_some_and(|at| self.env.now().since(at) < RECONNECT_PAUSE)
        {
            return None;
        }
        let address = link.address.borrow().clone();
        if address.is_empty() {
            return None;
        }
        struct Connecting<'a>(&'a MemberLink);
        impl Drop for Connecting<'_> {
            fn drop(&mut self) {
                self.0.connecting.set(false);
                self.0.tried.notify_waiters();
            }
        }
        link.connecting.set(true);
        let _connecting = Connecting(link);
        let mut local = self.local.clone();
        local.identity.id = session;
        let copies = link.copies.clone();
        let handler: Handler = Rc::new(move |_, request| match request.decode::<Copied>() {
            Ok(copied) if request.method == Copied::METHOD => copies.told(copied),
            // Data servers ask nothing of clients.
            _ => {
                let refused = Failed::Refused("clients answer no requests here".into());
                request.replier.fail(refused);
            }
        });
        let connecting = weft_rpc::connect(&self.env, &address, &local, handler);
        match self.env.timeout(CONNECT_PATIENCE, connecting).await {
            Ok(Ok(connection)) => {
                link.failed.set(None);
                link.heard.set(self.env.now());
                *link.connection.borrow_mut() = Some(connection.clone());
                Some(connection)
            }
            failed => {
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "no answer".into(),
                };
                tracing::debug!(pair = pair.id, %member, address, why, "member not reached");
                link.failed.set(Some(self.env.now()));
                None
            }
        }
    }

    /// One request to one member, given up when the pair's state leaves the member behind or the
    /// connection has fallen silent.
    pub(super) async fn call<R: Rpc>(
        &self,
        pair: &Pair,
        member: Member,
        session: u64,
        request: &R,
        payload: Payload,
    ) -> Result<(R::Reply, Bytes), Trouble> {
        let answer = self.ask(pair, member, session, request, payload).await;
        if answer.is_ok() {
            pair.trouble_since.set(None);
        }
        answer
    }

    /// The same of what only asks whether the member hears: that is no end of the trouble that others have with it.
    pub(super) async fn ask<R: Rpc>(
        &self,
        pair: &Pair,
        member: Member,
        session: u64,
        request: &R,
        payload: Payload,
    ) -> Result<(R::Reply, Bytes), Trouble> {
        let reaching = self.reach(pair, member, session);
        let Some(Some(connection)) = while_serving(pair, member, reaching).await else {
            return Err(Trouble::Away);
        };
        let link = &pair.members[member.index()];
        let asking = async {
            let mut call = pin!(connection.call(request, payload).fuse());
            let mut silent = pin!(connection.silent(SILENCE).fuse());
            loop {
                select_biased! {
                    answer = call => return answer,
                    () = silent => {
                        tracing::warn!(pair = pair.id, %member, "silent: connecting again");
                        let why = "silent for too long";
                        connection.close(why);
                        return Err(CallError::Lost(why.into()));
                    }
                    () = self.env.sleep(UNANSWERED).fuse() => {
                        let served = link.heard.get().max(connection.moved());
                        if self.env.now().since(served) >= UNANSWERED {
                            tracing::warn!(pair = pair.id, %member, "answers nothing: connecting again");
                            let why = "nothing answered for too long";
                            connection.close(why);
                            return Err(CallError::Lost(why.into()));
                        }
                    }
                }
            }
        };
        let Some(answer) = while_serving(pair, member, asking).await else {
            return Err(Trouble::Away);
        };
        link.heard.set(self.env.now());
        answer.map_err(|error| match error {
            CallError::Lost(_) => Trouble::Away,
            CallError::Failed(failed) => trouble_of::<R>(pair, member, failed),
        })
    }

    /// Waits until the member that leads says how the second copy of a write ended that it has
    /// answered without.
    pub(super) async fn copied(
        &self,
        pair: &Pair,
        (member, epoch): (Member, u64),
        awaited: &Awaited<'_>,
    ) -> Result<(), Trouble> {
        let link = &pair.members[member.index()];
        let connection = link.connection.borrow().clone();
        let Some(connection) = connection.filter(Connection::is_open) else {
            return Err(Trouble::Away);
        };
        let mut said = pin!(awaited.said().fuse());
        let mut closed = pin!(connection.closed().fuse());
        loop {
            let changed = pair.changed.notified();
            // Under another state it is sent again: a member that serves alone says nothing more.
            if pair.epoch() != epoch {
                return Err(Trouble::Away);
            }
            select_biased! {
                said = said => {
                    link.heard.set(self.env.now());
                    return said.map_err(|failed| trouble_of::<WriteRequest>(pair, member, failed));
                }
                () = changed.fuse() => {}
                _ = closed => return Err(Trouble::Away),
            }
        }
    }

    /// How long a request may still be tried. Patience begins when the trouble does: what waits
    /// behind others that ran out of it does not wait as long again.
    pub(super) fn patience_left(&self, pair: &Pair) -> Duration {
        let troubled = pair
            .trouble_since
            .get()
            .map_or(Duration::ZERO, |since| self.env.now().since(since));
        self.patience
            .saturating_sub(troubled)
            .max(PATIENCE_LEAST.min(self.patience))
    }

    /// There has been trouble for as long as requests are tried.
    pub(super) fn is_given_up(&self, pair: &Pair) -> bool {
        let troubled = pair.trouble_since.get();
        troubled.is_some_and(|since| self.env.now().since(since) >= self.patience)
    }

    /// After trouble with what was asked under a session: learns the pair's state, or waits a little. An
    /// errno is final.
    pub(super) async fn settle(
        &self,
        core: &Rc<Core>,
        (pair, epoch, member): (&Pair, u64, Member),
        with: &Session,
        trouble: Trouble,
    ) -> Result<(), Errno> {
        let session = with.id();
        match trouble {
            Trouble::Errno(errno) => return Err(Errno(errno)),
            Trouble::Fenced(why) => {
                // The service ended the session, which its connection has not said yet: taking it
                // up tells. Reads go on under the next one; what was written under this is lost.
                tracing::debug!(why, "fenced by a data server");
                if let Some(link) = with.current().filter(|l| l.session == session) {
                    link.connection
                        .close("a data server says that the session has ended");
                }
                self.env.sleep(RETRY_PAUSE).await;
                return Ok(());
            }
            // The member has not heard of the state yet that we know.
            Trouble::Stale(current) if current <= epoch => {
                self.env.sleep(RETRY_PAUSE).await;
                return Ok(());
            }
            Trouble::Stale(_) | Trouble::Away => {}
        }
        if pair.trouble_since.get().is_none() {
            pair.trouble_since.set(Some(self.env.now()));
        }
        let changed = pair.changed.notified();
        if pair.epoch() > epoch {
            return Ok(());
        }
        if !pair.suspecting.replace(true) {
            self.suspect(core, pair.id, epoch, member);
        }
        // The service answers when the state changes, or after a second. A member that served for a
        // moment without a right, since the service stood still, serves again under the state that it
        // has, and perhaps not for long: that only another attempt finds.
        let pause = self.env.sleep(RETRY_PAUSE * 4);
        select(pin!(changed), pause).await;
        Ok(())
    }

    /// Asks the service for the pair's state, beside the attempts that go on meanwhile.
    fn suspect(&self, core: &Rc<Core>, pair: u32, epoch: u64, member: Member) {
        struct Suspecting(Rc<Pair>);
        impl Drop for Suspecting {
            fn drop(&mut self) {
                self.0.suspecting.set(false);
            }
        }
        let suspecting = Suspecting(self.pair(pair));
        let core = core.clone();
        self.env.spawn("suspicion", async move {
            let pair = &suspecting.0;
            let request = SuspectRequest {
                pair: pair.id,
                epoch,
                member: member.index() as u32,
            };
            // The state may also be pushed while the question is on its way.
            let changed = pair.changed.notified();
            let asking = core.first_session().ask(&core, |_| request);
            if let Either::Right((Ok((reply, _)), _)) = select(pin!(changed), pin!(asking)).await {
                if let Some(members) = &reply.members {
                    pair.locate(members, true);
                }
                if let Some(state) = &reply.state {
                    pair.learn(state);
                    core.pairs.resettled();
                }
            }
        });
    }

    /// The epoch that a pair began with an only copy that a power cut may have thinned, as far as is known; see
    /// [`weft_pair::PairState::forgot`].
    pub fn forgot(&self, pair: PairId) -> Epoch {
        let pairs = self.pairs.borrow();
        let pair = pairs.get(&pair.0);
        pair.map_or(Epoch(0), |pair| pair.state.borrow().forgot)
    }

    /// All states that were told.
    pub fn states(&self) -> Vec<weft_pair::PairState> {
        let pairs = self.pairs.borrow();
        let known = pairs.values().filter(|pair| pair.is_known.get());
        known.map(|pair| *pair.state.borrow()).collect()
    }

    /// The pair is well and has so many bytes of room for more, as far as is known: what is written
    /// to it will most likely be taken.
    pub fn has_room(&self, pair: PairId, bytes: u64) -> bool {
        let pairs = self.pairs.borrow();
        let Some(pair) = pairs.get(&pair.0) else {
            return false;
        };
        let told = pair.members.iter().filter_map(|link| link.room.get()).min();
        let is_reached = |member: Member| {
            let connection = pair.members[member.index()].connection.borrow();
            connection.as_ref().is_none_or(Connection::is_open)
        };
        pair.trouble_since.get().is_none()
            && [Member::Zero, Member::One].into_iter().all(is_reached)
            && told.is_some_and(|room| room >= bytes)
    }
}
