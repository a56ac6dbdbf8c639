//! The connection to the first replica group of the metadata service, which decides about the pair.
//!
//! The server registers, then beats. Each answered beat gives the right to serve from the moment it
//! was sent; before the connection is given up, that right is given up.

use crate::contact::{self, Contact, Talk};
use crate::server::Node;
use crate::{attend, fence};
use bytes::Bytes;
use futures_util::FutureExt;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_pair::{PairState, mode_to_proto};
use weft_rpc::{CallError, Connection, Payload};
use weft_types::FIRST_GROUP;
use weft_wire::proto::{BeatRequest, RegisterRequest, pair_state};

/// Time between two beats when the metadata service does not say.
const BEAT: Duration = Duration::from_millis(50);
/// The server's side of its registration.
pub(crate) struct Registration {
    contact: Contact,
    wake: Notify,
    /// This process has had a part in the pair: the service has seen to what the one before it left
    /// unfinished.
    before: Cell<bool>,
    /// Time between two beats, as the metadata service wants it.
    beat: Cell<Duration>,
}

impl Registration {
    /// The first group is searched for at these addresses.
    pub fn new(meta: Vec<String>) -> Registration {
        Registration {
            contact: Contact::new(FIRST_GROUP, meta),
            wake: Notify::new(),
            before: Cell::new(false),
            beat: Cell::new(BEAT),
        }
    }

    /// The service has told this process a state of the pair.
    pub fn takes_part(&self) {
        self.before.set(true);
    }

    /// Something is to be told without waiting for the next beat.
    pub fn beat_now(&self) {
        self.wake.notify_one();
    }

    /// The connection, while registered.
    pub fn connection(&self) -> Option<Connection> {
        self.contact.connection()
    }

    /// Time between two beats, and between two questions to the active of another group.
    pub fn pause(&self) -> Duration {
        self.beat.get()
    }
}

/// Registers and beats until the server stops.
pub(crate) async fn run(node: Rc<Node>) {
    contact::keep(&node, &node.registration.contact, &Registering(&node)).await;
}

/// What is said over the connection to the active of the first group.
struct Registering<'a>(&'a Rc<Node>);

impl Talk for Registering<'_> {
    async fn begin(&self, connection: &Connection) -> Result<(), CallError> {
        register(self.0, connection).await
    }

    async fn stay(&self, connection: &Connection) -> CallError {
        beat(self.0, connection).await
    }

    fn end(&self) {
        self.0.side.borrow_mut().disconnected();
    }

    fn misplaced(&self, why: &str) {
        self.0.misplaced(why);
    }
}

async fn register(node: &Rc<Node>, connection: &Connection) -> Result<(), CallError> {
    let identity = node.store.identity();
    let last = {
        let side = node.side.borrow();
        match side.epoch() >= identity.last_epoch {
            true => (side.epoch(), side.mode_of_own()),
            false => (identity.last_epoch, identity.last_mode),
        }
    };
    let (last_mode, last_serving) = last
        .1
        .map_or((pair_state::Mode::Unspecified, 0), mode_to_proto);
    let request = RegisterRequest {
        pair: node.pair.0,
        member: node.me.index() as u32,
        address: node.address.borrow().clone(),
        incarnation: node.incarnation,
        store_id: crate::server::store_id(&node.store),
        last_epoch: last.0.0,
        last_mode: last_mode.into(),
        last_serving,
        was_serving: node.registration.before.get(),
        disk: node.disk.health().to_proto().into(),
        forgot: !node.store.is_intact(),
        name_space: identity
            .name_space
            .map_or_else(Bytes::new, |id| Bytes::copy_from_slice(&id.to_bytes())),
        life: identity.life,
        offered_life: identity.offered,
    };
    let contact = &node.registration.contact;
    let reply = contact.ask_first(node, connection, &request).await?;
    let state = reply
        .state
        .as_ref()
        .map(PairState::from_proto)
        .transpose()
        .map_err(|error| CallError::Lost(format!("no state of a pair: {error}")))?;
    contact.found(node, connection, reply.meta_addresses.clone());
    attend::told(node, &reply);
    node.told_name_space(&reply.name_space);
    let of = (FIRST_GROUP, node.sessions.borrow().round());
    fence::sessions_told(node, of, reply.fenced_below, reply.live_sessions);
    if reply.beat_ms > 0 {
        let beat = Duration::from_millis(reply.beat_ms);
        node.registration.beat.set(beat);
    }
    let lease = Duration::from_millis(reply.lease_ms);
    node.side.borrow_mut().set_lease(lease);
    match state {
        Some(state) => {
            node.adopt(state, &reply.peer_address);
            tracing::info!(%state, "registered");
        }
        None => {
            node.link.set_address(&reply.peer_address);
            tracing::info!(
                "registered; it is to be decided what was lost when this server stopped"
            );
        }
    }
    Ok(())
}

/// Beats until the connection is no good any more; says why.
async fn beat(node: &Rc<Node>, connection: &Connection) -> CallError {
    let pause = node.registration.pause();
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    loop {
        let sent = node.now();
        let request = BeatRequest {
            pair: node.pair.0,
            member: node.me.index() as u32,
            epoch: node.side.borrow().epoch().0,
            report: Some(node.report()),
            twin_lost: node.twin_lost(),
            disk: node.disk.health().to_proto().into(),
        };
        let call = connection.call(&request, Payload::none());
        let reply = match node.env.timeout(patience, call).await {
            Ok(Ok((reply, _))) => reply,
            Ok(Err(error)) => return error,
            Err(_) => {
                return CallError::Lost(format!("a beat was not answered for {patience:?}"));
            }
        };
        match reply.state.as_ref().map(PairState::from_proto) {
            Some(Ok(state)) => {
                let news = node.side.borrow_mut().beat_answered(sent, state);
                if news {
                    node.on_new_state(state);
                }
                node.changed.notify_waiters();
            }
            None => {}
            Some(Err(error)) => {
                return CallError::Lost(format!("a beat was answered with {error}"));
            }
        }
        // A new state is acknowledged at once by the next beat; so is what woke us.
        if node.side.borrow().epoch().0 != request.epoch || reply.again {
            continue;
        }
        let wait = async {
            futures_util::select_biased! {
                why = connection.closed().fuse() => Some(why),
                () = node.registration.wake.notified().fuse() => None,
                () = node.env.sleep(pause).fuse() => None,
            }
        };
        if let Some(why) = wait.await {
            return CallError::Lost(why);
        }
    }
}
