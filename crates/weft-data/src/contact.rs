//! The connection to the active of one replica group: searched for, made, kept, and made again when it
//! breaks. Without anybody who leads it is searched for as long as the server runs.
//!
//! What the two have in common that keep one: `registration.rs` (the first group) and `attend.rs` (the
//! others). What they say over it is their [`Talk`].

use crate::orders;
use crate::server::Node;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{Attempts, CallError, Connection, Local, Payload, Search, Strangers, Terms};
use weft_types::GroupId;
use weft_wire::proto::Identity;
use weft_wire::{Failed, Rpc};

/// A registration is answered after the rights of a former reign have run out (a third of a second)
/// and a journal write. A metadata server that loses its power meanwhile says nothing, and the pair
/// serves nobody until its successor is asked.
pub(crate) const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [Duration::from_millis(500), Duration::from_secs(2)],
};

/// What is said over the connection.
pub(crate) trait Talk {
    /// Asks the first thing ([`Contact::ask_first`]); the other side serves once that is answered.
    ///
    /// # Errors
    /// Why it is of no use.
    async fn begin(&self, connection: &Connection) -> Result<(), CallError>;

    /// Goes on until the connection is no good any more; says why.
    async fn stay(&self, connection: &Connection) -> CallError;

    /// The connection is about to be closed, if it is not.
    fn end(&self);

    /// The other side says that this server is not to be here.
    fn misplaced(&self, why: &str);
}

/// The way to the active of one group.
pub(crate) struct Contact {
    group: GroupId,
    search: RefCell<Search>,
    /// Where the search began.
    first: Vec<String>,
    strangers: RefCell<Strangers>,
    connection: RefCell<Option<Connection>>,
    /// Why the group refused this server last: one that is not wanted any more asks on, but says so
    /// once.
    refused: RefCell<String>,
    /// Its active has served this process.
    has_served: Cell<bool>,
}

impl Contact {
    /// Searched for at these addresses, and where those that are found there say.
    pub fn new(group: GroupId, addresses: Vec<String>) -> Contact {
        Contact {
            group,
            search: RefCell::new(Search::new(addresses.clone(), TERMS)),
            first: addresses,
            strangers: RefCell::default(),
            connection: RefCell::default(),
            refused: RefCell::default(),
            has_served: Cell::new(false),
        }
    }

    /// Whose active it is.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The connection, while it is of use.
    pub fn connection(&self) -> Option<Connection> {
        self.connection.borrow().clone()
    }

    /// The group's members are said to be at these addresses.
    pub fn learn(&self, addresses: Vec<String>) {
        self.search.borrow_mut().learn(addresses);
    }

    /// Asks the first thing over a new connection.
    ///
    /// # Errors
    /// As [`Connection::call`]; also if there is no answer in the time after which others are asked.
    pub async fn ask_first<R: Rpc>(
        &self,
        node: &Node,
        connection: &Connection,
        request: &R,
    ) -> Result<R::Reply, CallError> {
        let call = connection.call(request, Payload::none());
        let patience = self.search.borrow().answer_patience();
        let reply = match node.env.timeout(patience, call).await {
            Ok(Ok((reply, _))) => reply,
            Ok(Err(error)) => {
                if let CallError::Failed(Failed::Refused(why) | Failed::Misplaced(why)) = &error
                    && *self.refused.borrow() != *why
                {
                    tracing::error!(group = %self.group, why, "the metadata service refuses this server");
                    self.refused.borrow_mut().clone_from(why);
                }
                return Err(error);
            }
            Err(_) => return Err(CallError::Lost("the first request was not answered".into())),
        };
        self.refused.borrow_mut().clear();
        Ok(reply)
    }

    /// The other side serves; these are the addresses of its group's members, as far as it says.
    pub fn found(&self, node: &Node, connection: &Connection, members: Vec<String>) {
        self.has_served.set(true);
        let now = node.env.now();
        let search = &mut *self.search.borrow_mut();
        search.connected(connection.peer(), members, now);
    }
}

/// A connection until it is given up, however that comes about.
struct Kept<'a, T: Talk> {
    contact: &'a Contact,
    talk: &'a T,
    connection: Connection,
}

impl<T: Talk> Drop for Kept<'_, T> {
    fn drop(&mut self) {
        // In this order: the end of the first group's connection is taken as proof that nothing is served
        // under a right.
        self.talk.end();
        *self.contact.connection.borrow_mut() = None;
        self.connection.close("starting anew");
    }
}

/// Keeps the connection until the server stops.
pub(crate) async fn keep(node: &Rc<Node>, contact: &Contact, talk: &impl Talk) {
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    let mut attempts = Attempts::new(&node.env, patience);
    let local = node.local.with_identity(Identity {
        group: contact.group.0,
        ..node.local.identity
    });
    let orders = orders::of_group(node, contact.group);
    loop {
        let step = attempts.step(&contact.search, &local, &orders);
        let Some((address, connected)) = step.await else {
            continue;
        };
        let connection = match connected {
            Ok(connection) => connection,
            Err(why) => {
                tracing::debug!(group = %contact.group, meta = %address, %why, "not connected");
                let mut strangers = contact.strangers.borrow_mut();
                if strangers.met(&address, &why, &contact.first) && !contact.has_served.get() {
                    talk.misplaced(&why.to_string());
                }
                continue;
            }
        };
        let found = || attempts.clear();
        let why = keep_one(node, contact, talk, &local, connection, found).await;
        contact
            .search
            .borrow_mut()
            .not_served(&address, &why, node.env.now());
    }
}

/// One connection from beginning to end; says why it ended. `found` is called if it comes to be of use.
async fn keep_one(
    node: &Node,
    contact: &Contact,
    talk: &impl Talk,
    local: &Local,
    connection: Connection,
    found: impl FnOnce(),
) -> CallError {
    let kept = Kept {
        contact,
        talk,
        connection,
    };
    let connection = &kept.connection;
    let (group, meta) = (contact.group, connection.peer());
    if let Err(why) = talk.begin(connection).await {
        if let CallError::Failed(Failed::Misplaced(why)) = &why {
            talk.misplaced(why);
        }
        tracing::debug!(%group, meta, %why, "of no use");
        return why;
    }
    found();
    *contact.connection.borrow_mut() = Some(connection.clone());
    // Until one question is not answered at all; if another leads, sooner.
    let stay = talk.stay(connection);
    let served = weft_rpc::while_active(&node.env, connection, &contact.search, local, stay);
    let (Ok(why) | Err(why)) = served.await;
    tracing::info!(%group, meta, %why, "no longer connected to the active");
    why
}
