//! A coordinator's service that all nodes of a world share: in memory, with its faults from the seed.
//!
//! It lies under the same [`ViewKeeper`] as etcd and ZooKeeper, so that what is tested here is the code
//! that finds out unknown outcomes there. Requests travel as tasks of the world, which nothing kills: one
//! that is late is carried out even if whoever sent it has given up, or is dead.

use crate::rng::Rng;
use crate::world::{Clock, World};
use futures_util::{FutureExt, select_biased};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use weft_coordinator::{
    Announcement, Answer, CoordinatorError, Holder, Listing, Record, Reply, Service, Unanswered,
    ViewKeeper,
};
use weft_env::{Elapsed, Env};
use weft_wire::proto::View;

/// How long a node waits for an answer; a third of what a change has patience for.
const ATTEMPT: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What goes wrong, in parts per million of all requests.
#[derive(Clone, Debug)]
pub struct CoordinatorFaults {
    /// How long a request or an answer is under way, in nanoseconds.
    pub delay: Range<u64>,
    /// Requests that do not arrive.
    pub lose_request: u32,
    /// Requests that arrive when nobody waits for them any more.
    pub late_request: u32,
    /// Answers to requests that were carried out.
    pub lose_answer: u32,
    /// Watches that are not woken.
    pub lose_wake: u32,
}

impl CoordinatorFaults {
    /// Nothing goes wrong.
    pub fn none() -> CoordinatorFaults {
        CoordinatorFaults {
            delay: 100_000..2_000_000,
            lose_request: 0,
            late_request: 0,
            lose_answer: 0,
            lose_wake: 0,
        }
    }
}

/// An announcement as the service knows it.
struct Standing {
    incarnation: u64,
    session: u64,
    term_nanos: u64,
    /// In the world's time.
    until: u64,
}

struct State {
    clock: Clock,
    /// Carries requests.
    carrier: Env,
    rng: RefCell<Rng>,
    faults: RefCell<CoordinatorFaults>,
    down: Cell<bool>,
    record: RefCell<Vec<u8>>,
    /// Grows with each replacement of the record.
    revision: Cell<u64>,
    /// All records since somebody wanted to have them, and when each was made.
    history: RefCell<Option<Vec<(u64, View)>>>,
    /// Nodes that do not reach the service, nor it them.
    cut_off: RefCell<BTreeSet<String>>,
    alive: RefCell<BTreeMap<String, Standing>>,
    /// Incarnations and sessions that were given.
    given: Cell<u64>,
    changed: Notify,
}

/// The service. Clones share it.
#[derive(Clone)]
pub struct CoordinatorService(Rc<State>);

/// A node's coordinator.
pub type SimCoordinator = ViewKeeper<CoordinatorClient>;

/// A node's way to the service.
pub struct CoordinatorClient {
    env: Env,
    /// Its node, where that can be cut off.
    node: Option<String>,
    service: CoordinatorService,
}

impl CoordinatorService {
    /// A service without a view.
    pub fn new(world: &World) -> CoordinatorService {
        CoordinatorService(Rc::new(State {
            clock: world.clock(),
            carrier: world.env(),
            rng: world.rng("coordinator").into(),
            faults: CoordinatorFaults::none().into(),
            down: Cell::new(false),
            record: RefCell::default(),
            revision: Cell::new(0),
            history: RefCell::default(),
            cut_off: RefCell::default(),
            alive: RefCell::default(),
            given: Cell::new(0),
            changed: Notify::new(),
        }))
    }

    /// A handle for the process of this environment.
    pub fn open(&self, env: &Env) -> SimCoordinator {
        self.open_as(env, None)
    }

    /// A handle for a process of the node of that name, which can be cut off from the service.
    pub fn open_at(&self, env: &Env, node: &str) -> SimCoordinator {
        self.open_as(env, Some(node.to_owned()))
    }

    fn open_as(&self, env: &Env, node: Option<String>) -> SimCoordinator {
        let client = CoordinatorClient {
            env: env.clone(),
            node,
            service: self.clone(),
        };
        ViewKeeper::new(env, client, PATIENCE)
    }

    /// Nothing gets through between a node and the service. What is under way arrives.
    pub fn cut_off(&self, node: &str) {
        self.0.cut_off.borrow_mut().insert(node.to_owned());
    }

    /// It does again.
    pub fn heal(&self, node: &str) {
        self.0.cut_off.borrow_mut().remove(node);
    }

    /// Keeps all views from now on for [`CoordinatorService::history`].
    pub fn keep_history(&self) {
        self.0.history.replace(Some(Vec::new()));
    }

    /// All views that the service has had since it keeps them, and when (in the world's time) each was made.
    pub fn history(&self) -> Vec<(u64, View)> {
        self.0.history.borrow().clone().unwrap_or_default()
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: CoordinatorFaults) {
        *self.0.faults.borrow_mut() = faults;
    }

    /// From now on connections are refused; announcements stand, as their terms begin anew when it is
    /// back.
    pub fn stop(&self) {
        self.0.down.set(true);
    }

    /// It serves again.
    pub fn resume(&self) {
        self.0.down.set(false);
        let now = self.0.clock.now();
        for standing in self.0.alive.borrow_mut().values_mut() {
            standing.until = now + standing.term_nanos;
        }
    }

    /// Ends an announcement as if nothing had been heard of its holder; says whether there was one.
    pub fn end_session(&self, name: &str) -> bool {
        let ended = self.0.alive.borrow_mut().remove(name).is_some();
        self.0.changed.notify_waiters();
        ended
    }
}

impl State {
    fn draw(&self, parts_per_million: u32) -> bool {
        self.rng.borrow_mut().chance(parts_per_million)
    }

    fn delay(&self) -> Duration {
        let range = self.faults.borrow().delay.clone();
        Duration::from_nanos(self.rng.borrow_mut().within(range))
    }

    fn give(&self) -> u64 {
        self.given.set(self.given.get() + 1);
        self.given.get()
    }

    fn replace(&self, revision: u64, bytes: Vec<u8>) -> bool {
        if self.revision.get() != revision {
            return false;
        }
        if let Some(history) = &mut *self.history.borrow_mut()
            && let Some(view) = weft_coordinator::decode(&bytes)
        {
            history.push((self.clock.now(), view));
        }
        *self.record.borrow_mut() = bytes;
        self.revision.set(revision + 1);
        self.changed.notify_waiters();
        true
    }

    /// Nothing is heard of some holders for their terms. Not counted while the service is away.
    fn expire(&self) {
        let now = self.clock.now();
        if !self.down.get() {
            let mut alive = self.alive.borrow_mut();
            alive.retain(|_, standing| standing.until > now);
        }
    }

    fn announce(&self, name: String, session: u64, term_nanos: u64) -> Option<u64> {
        self.expire();
        if let Some(standing) = self.alive.borrow().get(&name) {
            return (standing.session == session).then_some(standing.incarnation);
        }
        let standing = Standing {
            incarnation: self.give(),
            session,
            term_nanos,
            until: self.clock.now() + term_nanos,
        };
        let incarnation = standing.incarnation;
        self.alive.borrow_mut().insert(name, standing);
        self.changed.notify_waiters();
        Some(incarnation)
    }

    /// False if the service has ended the session.
    fn renew(&self, name: &str, session: u64) -> bool {
        self.expire();
        let mut alive = self.alive.borrow_mut();
        let standing = alive.get_mut(name);
        let Some(standing) = standing.filter(|standing| standing.session == session) else {
            return false;
        };
        standing.until = self.clock.now() + standing.term_nanos;
        true
    }

    fn withdraw(&self, name: &str, session: u64) {
        let mut alive = self.alive.borrow_mut();
        if alive.get(name).is_some_and(|s| s.session == session) {
            alive.remove(name);
            self.changed.notify_waiters();
        }
    }
}

impl CoordinatorClient {
    /// Has the service carry something out, as far as the faults let it.
    async fn ask<T: 'static>(
        &self,
        request: impl FnOnce(&State) -> T + 'static,
    ) -> Result<T, Unanswered> {
        let cut_off = &self.service.0.cut_off;
        let is_cut_off = |node: &String| cut_off.borrow().contains(node);
        if self.node.as_ref().is_some_and(is_cut_off) {
            self.env.sleep(ATTEMPT).await;
            return Err(Unanswered("no answer".to_owned()));
        }
        ask(&self.env, &self.service.0, request).await
    }

    async fn take(&self, name: &str, term_ms: u64) -> Result<Announcement, CoordinatorError> {
        let session = self.service.0.give();
        let term_nanos = term_ms.saturating_mul(1_000_000);
        let announce = || {
            let name = name.to_owned();
            self.ask(move |state| state.announce(name, session, term_nanos))
        };
        let mut announced = announce().await;
        if announced.is_err() {
            announced = announce().await;
        }
        let announced = announced.map_err(|Unanswered(why)| CoordinatorError::Unavailable(why))?;
        let Some(incarnation) = announced else {
            return Err(CoordinatorError::Taken {
                name: name.to_owned(),
            });
        };
        let (announcement, holder) = Announcement::new(name, incarnation, term_ms);
        let holding = hold(
            self.env.clone(),
            self.service.0.clone(),
            name.to_owned(),
            session,
            Duration::from_millis(term_ms),
            holder,
        );
        self.env.spawn("announcement", holding);
        Ok(announcement)
    }

    /// Wakes when the service is changed; a watch whose wake-up is lost sleeps on.
    async fn woken(&self) -> Result<(), Unanswered> {
        let state = &self.service.0;
        let lost = state.draw(state.faults.borrow().lose_wake);
        let changed = state.changed.notified();
        if lost {
            std::future::pending::<()>().await;
        }
        // The terms of the dead end without a change.
        let _: Result<(), Elapsed> = self.env.timeout(ATTEMPT, changed).await;
        self.env.sleep(state.delay()).await;
        Ok(())
    }
}

async fn ask<T: 'static>(
    env: &Env,
    state: &Rc<State>,
    request: impl FnOnce(&State) -> T + 'static,
) -> Result<T, Unanswered> {
    let (sender, receiver) = oneshot::channel();
    let faults = state.faults.borrow().clone();
    let (lose_request, late) = (
        state.draw(faults.lose_request),
        state.draw(faults.late_request),
    );
    let lose_answer = state.draw(faults.lose_answer);
    let mut under_way = state.delay();
    if late {
        under_way += 3 * ATTEMPT;
    }
    let back = state.delay();
    if !lose_request {
        let service = state.clone();
        let carrier = state.carrier.clone();
        state
            .carrier
            .spawn("request to the coordinator", async move {
                carrier.sleep(under_way).await;
                if service.down.get() {
                    let refused: Result<T, Unanswered> = Err(Unanswered("refused".to_owned()));
                    let _: Result<(), _> = sender.send(refused);
                    return;
                }
                let answer = request(&service);
                if !lose_answer {
                    carrier.sleep(back).await;
                    // Nobody may be waiting any more.
                    let _: Result<(), _> = sender.send(Ok(answer));
                }
            });
    }
    let answered = async {
        match receiver.await {
            Ok(answer) => answer,
            // Lost: nobody says so.
            Err(_) => std::future::pending().await,
        }
    };
    match env.timeout(ATTEMPT, answered).await {
        Ok(answer) => answer,
        Err(Elapsed) => Err(Unanswered("no answer".to_owned())),
    }
}

async fn hold(
    env: Env,
    state: Rc<State>,
    name: String,
    session: u64,
    term: Duration,
    holder: Holder,
) {
    loop {
        let name = name.clone();
        select_biased! {
            () = holder.withdrawing().fuse() => {
                // What is not withdrawn ends with its term.
                let withdrawn = ask(&env, &state, move |state| state.withdraw(&name, session));
                let _: Result<(), Unanswered> = withdrawn.await;
                return;
            }
            () = env.sleep(term / 3).fuse() => {}
        }
        let renewed = ask(&env, &state, move |state| state.renew(&name, session)).await;
        if renewed == Ok(false) {
            return;
        }
    }
}

impl Service for CoordinatorClient {
    fn place(&self) -> String {
        "the simulated coordinator".to_owned()
    }

    fn read(&self) -> Reply<'_, Record> {
        Box::pin(self.ask(|state| Record {
            bytes: state.record.borrow().clone(),
            revision: state.revision.get(),
            seen: state.revision.get(),
        }))
    }

    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool> {
        Box::pin(self.ask(move |state| state.replace(revision, bytes)))
    }

    fn record_changed(&self, _seen: u64) -> Reply<'_, ()> {
        Box::pin(self.woken())
    }

    fn list(&self) -> Reply<'_, Listing> {
        Box::pin(self.ask(|state| {
            state.expire();
            let alive = state.alive.borrow();
            let incarnations = alive.iter().map(|(name, s)| (name.clone(), s.incarnation));
            Listing {
                announced: incarnations.collect(),
                seen: 0,
            }
        }))
    }

    fn list_changed(&self, _seen: u64) -> Reply<'_, ()> {
        Box::pin(self.woken())
    }

    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement> {
        Box::pin(self.take(name, term_ms))
    }
}
