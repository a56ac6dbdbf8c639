//! The connections to the twin: made when its address is known, kept, watched by pings, made again. They
//! are one link: it breaks when one of them does.
//!
//! Second copies go over whichever has least to send, all else over the first. A single one would have
//! the share of one client of a link that many clients fill, and would be long in recovering from each
//! packet that is lost there, while nobody can write faster than the copies are made.
//!
//! A link that breaks is reported at once in a beat (`twin_lost`), and while both members are to
//! have every write, the report stands until the metadata service has decided another state: what
//! was on its way when the link broke is held for that decision, so it must come.

use crate::server::Node;
use futures_util::future::{Either, join_all, select, select_all};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_rpc::{CallError, Connection, Payload};
use weft_wire::proto::identity::Role;
use weft_wire::{Failed, Rpc};

/// First and longest wait between two attempts to connect.
const BACKOFF: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

/// Connections of a link.
const LANES: usize = 16;

#[derive(Clone)]
enum State {
    /// Not tried yet.
    Idle,
    Up([Connection; LANES]),
    Broken,
}

/// Why a call to the twin has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TwinError {
    /// It answered that it did not do it.
    Failed(Failed),
    /// The link is broken, or one member serves alone since: unknown whether it was done.
    Lost,
}

/// The link to the twin.
pub(crate) struct Link {
    address: RefCell<String>,
    state: RefCell<State>,
    /// Broke under the epoch in force.
    broke: Cell<bool>,
    changed: Notify,
    /// Ends what waits for an answer of the twin.
    parted: Notify,
}

impl Link {
    pub fn new() -> Link {
        Link {
            address: RefCell::default(),
            state: RefCell::new(State::Idle),
            broke: Cell::new(false),
            changed: Notify::new(),
            parted: Notify::new(),
        }
    }

    /// Where the twin is; empty: not known, the last one may still be right.
    pub fn set_address(&self, address: &str) {
        if !address.is_empty() && *self.address.borrow() != address {
            *self.address.borrow_mut() = address.to_owned();
            self.changed.notify_waiters();
        }
    }

    /// Another epoch is in force: what broke before has been decided.
    pub fn new_epoch(&self) {
        self.broke.set(false);
    }

    /// From now on one of the two serves alone. What the twin was asked before ends at once, as when the
    /// link breaks: a twin that is out of reach, whose link has not broken yet, keeps nobody waiting.
    pub fn part(&self) {
        self.parted.notify_waiters();
    }

    /// It cannot be used now, or (as `latched` asks) it broke under this epoch.
    pub fn is_lost(&self, latched: bool) -> bool {
        matches!(*self.state.borrow(), State::Broken) || latched && self.broke.get()
    }

    /// Asks the twin. Waits for a link that has not been tried yet.
    pub async fn call<R: Rpc>(
        &self,
        request: &R,
        payload: impl Into<Payload>,
    ) -> Result<(R::Reply, bytes::Bytes), TwinError> {
        self.unless_parted(async {
            let [first, ..] = self.lanes().await?;
            answer_of(first.call(request, payload).await)
        })
        .await
    }

    /// Sends the twin a second copy. What is sent later may come to it earlier.
    pub async fn copy<R: Rpc>(
        &self,
        request: &R,
        payload: impl Into<Payload>,
    ) -> Result<(R::Reply, bytes::Bytes), TwinError> {
        self.unless_parted(async {
            let lanes = self.lanes().await?;
            let [first, others @ ..] = &lanes;
            let mut least = first;
            for lane in others {
                if lane.unsent() < least.unsent() {
                    least = lane;
                }
            }
            answer_of(least.call(request, payload).await)
        })
        .await
    }

    async fn unless_parted<T>(
        &self,
        asking: impl Future<Output = Result<T, TwinError>>,
    ) -> Result<T, TwinError> {
        let parted = self.parted.notified();
        match select(pin!(asking), pin!(parted)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(TwinError::Lost),
        }
    }

    /// Waits until the link stands, however long that takes.
    pub async fn made(&self) {
        loop {
            let changed = self.changed.notified();
            if matches!(*self.state.borrow(), State::Up(_)) {
                return;
            }
            changed.await;
        }
    }

    async fn lanes(&self) -> Result<[Connection; LANES], TwinError> {
        loop {
            let changed = self.changed.notified();
            match &*self.state.borrow() {
                State::Up(lanes) => return Ok(lanes.clone()),
                State::Broken => return Err(TwinError::Lost),
                State::Idle => {}
            }
            changed.await;
        }
    }

    /// Closes it for good: the server stops.
    pub fn close(&self) {
        if let State::Up(lanes) = &*self.state.borrow() {
            for lane in lanes {
                lane.close("the server stops");
            }
        }
    }

    fn set(&self, state: State) {
        if matches!(state, State::Broken) {
            self.broke.set(true);
        }
        *self.state.borrow_mut() = state;
        self.changed.notify_waiters();
    }
}

fn answer_of<R>(answer: Result<R, CallError>) -> Result<R, TwinError> {
    answer.map_err(|error| match error {
        CallError::Failed(failed) => TwinError::Failed(failed),
        CallError::Lost(_) => TwinError::Lost,
    })
}

/// Keeps the link until the server stops.
pub(crate) async fn run(node: Rc<Node>) {
    let link = &node.link;
    let mut backoff = BACKOFF[0];
    loop {
        let address = link.address.borrow().clone();
        if address.is_empty() {
            link.changed.notified().await;
            continue;
        }
        match connect_all(&node, &address).await {
            Ok(lanes) => {
                tracing::debug!(twin = %address, "link to the twin is up");
                link.set(State::Up(lanes.clone()));
                node.registration.beat_now();
                let patience = Duration::from_millis(node.settings.link_patience_ms);
                let ends = lanes.iter().map(|lane| Box::pin(end_of(lane, patience)));
                let (why, ..) = select_all(ends).await;
                for lane in &lanes {
                    lane.close(&why);
                }
                link.set(State::Broken);
                node.registration.beat_now();
                tracing::info!(twin = %address, why, "link to the twin is broken");
                backoff = BACKOFF[0];
            }
            Err(why) => {
                if !matches!(*link.state.borrow(), State::Broken) {
                    tracing::info!(twin = %address, why, "the twin cannot be reached");
                }
                link.set(State::Broken);
                node.registration.beat_now();
                // A new address ends the wait.
                let moved = async {
                    while *link.address.borrow() == address {
                        link.changed.notified().await;
                    }
                };
                // Either is a reason to try again.
                let _: Result<(), weft_env::Elapsed> = node.env.timeout(backoff, moved).await;
                backoff = (backoff * 2).min(BACKOFF[1]);
            }
        }
    }
}

/// Why a connection is at its end, once it is.
async fn end_of(lane: &Connection, patience: Duration) -> String {
    match select(pin!(lane.closed()), pin!(lane.silent(patience))).await {
        Either::Left((why, _)) => why,
        Either::Right(_) => format!("silent for {patience:?}"),
    }
}

async fn connect_all(node: &Rc<Node>, address: &str) -> Result<[Connection; LANES], String> {
    let lanes = join_all((0..LANES).map(|_| connect(node, address))).await;
    let why = lanes.iter().find_map(|lane| lane.as_ref().err().cloned());
    let lanes: Vec<Connection> = lanes.into_iter().flatten().collect();
    match <[Connection; LANES]>::try_from(lanes) {
        Ok(lanes) => Ok(lanes),
        Err(some) => {
            for lane in some {
                lane.close("another one of the link was not made");
            }
            Err(why.unwrap_or_default())
        }
    }
}

async fn connect(node: &Rc<Node>, address: &str) -> Result<Connection, String> {
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    let handler = crate::server::handler(node);
    let connecting = weft_rpc::connect(&node.env, address, &node.local, handler);
    let connection = match node.env.timeout(patience, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no answer".into()),
    };
    if !node.is_twin(&connection) {
        connection.close("not the twin");
        return Err("somebody else listens there".into());
    }
    Ok(connection)
}

/// The id that member `member` of a pair shows in handshakes.
pub(crate) fn identity_of(pair: u32, member: u32, incarnation: u64) -> weft_wire::proto::Identity {
    weft_wire::proto::Identity {
        role: Role::Data.into(),
        id: u64::from(pair) * 2 + u64::from(member),
        incarnation,
        group: 0,
    }
}
