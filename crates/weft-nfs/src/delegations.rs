//! Files that clients may keep as they are: a token that a gateway has, passed on. A client that has been given one
//! reads, opens and locks the file by itself; it is asked for it before anybody changes the file, be it at this gateway
//! or, when the gateway is asked for its own token, anywhere else (`docs/protocols/token.md`).

use crate::files::Use;
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, future::join_all};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_client::Invalidator;
use weft_env::{Env, Mono};

/// A client that has not given back what it was asked for by then has it no more. Less than the term in which the
/// gateway itself has to give back what it is asked for.
const PATIENCE: Duration = Duration::from_secs(3);
/// What was asked back is not given out again for so long: somebody else changes it.
const CONTENDED: Duration = Duration::from_secs(20);
/// Delegations of a gateway at most.
const GIVEN_MAX: usize = 20_000;

/// How far a delegation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Given,
    /// The client was asked for it.
    Asked,
    /// It has given it back.
    Returned,
    /// It has not, in time.
    Revoked,
}

/// A file that a client may keep.
pub(crate) struct Delegation {
    pub ino: u64,
    pub client: u64,
    pub number: u32,
    stage: Cell<Stage>,
    /// Asks the client for it.
    ask: Box<dyn Fn()>,
    /// While it is given the gateway has the file open, and so does not forget it.
    using: RefCell<Option<Use>>,
    over: Notify,
}

impl std::fmt::Debug for Delegation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ino, client, stage) = (self.ino, self.client, self.stage.get());
        write!(f, "delegation of {ino} to {client:x}: {stage:?}")
    }
}

impl Delegation {
    pub(crate) fn new(
        (ino, client, number): (u64, u64, u32),
        using: Use,
        ask: Box<dyn Fn()>,
    ) -> Rc<Delegation> {
        Rc::new(Delegation {
            ino,
            client,
            number,
            stage: Cell::new(Stage::Given),
            ask,
            using: RefCell::new(Some(using)),
            over: Notify::new(),
        })
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.stage.get() == Stage::Revoked
    }

    fn end(&self, how: Stage) {
        self.stage.set(how);
        self.using.take();
        self.over.notify_waiters();
    }
}

/// A change of a file that is under way, or about to be: nobody is given the file until it is dropped. What an open
/// says of writers is not enough, for not every change has one: version 3 has none, and others may write with none.
#[must_use]
pub(crate) struct Changing {
    delegations: Rc<Delegations>,
    ino: u64,
}

impl Drop for Changing {
    fn drop(&mut self) {
        let mut changing = self.delegations.changing.borrow_mut();
        if let Entry::Occupied(mut count) = changing.entry(self.ino) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// All of a gateway's.
pub(crate) struct Delegations {
    env: Env,
    /// How many changes of each file are under way.
    changing: RefCell<BTreeMap<u64, usize>>,
    /// Those that count, by file.
    given: RefCell<BTreeMap<u64, Vec<Rc<Delegation>>>>,
    /// Files that were asked for, and when.
    asked: RefCell<BTreeMap<u64, Mono>>,
}

impl Delegations {
    pub(crate) fn new(env: &Env) -> Rc<Delegations> {
        Rc::new(Delegations {
            env: env.clone(),
            changing: RefCell::default(),
            given: RefCell::default(),
            asked: RefCell::default(),
        })
    }

    /// Whether a file may be given to a client: nobody changes it, or has wanted to lately.
    pub(crate) fn may_give(&self, ino: u64) -> bool {
        let now = self.env.now();
        let mut asked = self.asked.borrow_mut();
        asked.retain(|_, since| now.since(*since) < CONTENDED);
        let given = self.given.borrow();
        let is_asked_for = given
            .get(&ino)
            .is_some_and(|all| all.iter().any(|it| it.stage.get() != Stage::Given));
        !self.changing.borrow().contains_key(&ino)
            && !asked.contains_key(&ino)
            && !is_asked_for
            && given.len() < GIVEN_MAX
    }

    /// Files that were given to clients.
    pub(crate) fn count(&self) -> usize {
        self.given.borrow().len()
    }

    /// What a client has of a file.
    pub(crate) fn of(&self, ino: u64, client: u64) -> Option<Rc<Delegation>> {
        let given = self.given.borrow();
        let found = given.get(&ino)?.iter().find(|it| it.client == client);
        found.cloned()
    }

    /// Gives a file to a client. The gateway has a lease on it now.
    pub(crate) fn give(&self, delegation: &Rc<Delegation>) {
        let mut given = self.given.borrow_mut();
        let of_file = given.entry(delegation.ino).or_default();
        of_file.push(delegation.clone());
    }

    /// A client gives a file back, or is no more.
    pub(crate) fn returned(&self, delegation: &Delegation) {
        self.remove(delegation);
        delegation.end(Stage::Returned);
    }

    fn remove(&self, delegation: &Delegation) {
        let mut given = self.given.borrow_mut();
        if let Some(of_file) = given.get_mut(&delegation.ino) {
            of_file.retain(|it| !std::ptr::eq(it.as_ref(), delegation));
            if of_file.is_empty() {
                given.remove(&delegation.ino);
            }
        }
    }

    /// A file is about to be changed: no client but `but` has it when this ends, nor is given it before what is
    /// returned is dropped.
    pub(crate) async fn change(self: &Rc<Self>, ino: u64, but: Option<u64>) -> Changing {
        *self.changing.borrow_mut().entry(ino).or_default() += 1;
        let changing = Changing {
            delegations: self.clone(),
            ino,
        };
        self.ask_back(ino, but).await;
        changing
    }

    /// No client but `but` has a file when this ends.
    async fn ask_back(&self, ino: u64, but: Option<u64>) {
        let held: Vec<Rc<Delegation>> = {
            let given = self.given.borrow();
            let of_file = given.get(&ino).into_iter().flatten();
            let others = of_file.filter(|it| but != Some(it.client));
            others.cloned().collect()
        };
        if held.is_empty() {
            return;
        }
        self.asked.borrow_mut().insert(ino, self.env.now());
        join_all(held.iter().map(|it| self.end_of(it))).await;
    }

    /// Asks a client for a file, if it was not asked, and waits until it has it no more.
    async fn end_of(&self, delegation: &Rc<Delegation>) {
        let over = delegation.over.notified();
        match delegation.stage.get() {
            Stage::Given => {
                delegation.stage.set(Stage::Asked);
                (delegation.ask)();
            }
            Stage::Asked => {}
            Stage::Returned | Stage::Revoked => return,
        }
        if self.env.timeout(PATIENCE, over).await.is_err() && delegation.stage.get() == Stage::Asked
        {
            let (ino, client) = (delegation.ino, delegation.client);
            tracing::info!(
                ino,
                client,
                "a client has not given back a file that it was asked for"
            );
            self.remove(delegation);
            delegation.end(Stage::Revoked);
        }
    }
}

/// What the gateway is asked to give back, its clients are asked for.
pub(crate) struct PassedOn(pub Rc<Delegations>);

impl Invalidator for PassedOn {
    fn inode(&self, ino: u64, _data: bool) -> LocalBoxFuture<'static, bool> {
        let delegations = self.0.clone();
        async move {
            delegations.ask_back(ino, None).await;
            true
        }
        .boxed_local()
    }

    fn names(&self, _dir: u64) -> LocalBoxFuture<'static, ()> {
        // Clients have no directories.
        std::future::ready(()).boxed_local()
    }
}
