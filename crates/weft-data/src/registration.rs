//! The connection to the metadata service: registering, beats, orders.
//!
//! The server registers, then beats. Each answered beat gives the right to serve from the moment it
//! was sent; before the connection is given up, that right is given up. Without a metadata server that
//! leads the data server searches for ever.

use crate::server::Node;
use futures_util::FutureExt;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_pair::PairState;
use weft_rpc::{Attempts, CallError, Connection, Handler, Payload, Search, Terms};
use weft_wire::proto::{
    AcknowledgeRequest, BeatRequest, DropObjectsRequest, FenceRequest, LossesRequest,
    RegisterRequest, ScrubRequest, SetStateReply, SetStateRequest,
};
use weft_wire::{Failed, Rpc};

/// Time between two beats when the metadata service does not say.
const BEAT: Duration = Duration::from_millis(50);
/// A registration is answered after the rights of a former reign have run out (a third of a second)
/// and a journal write. A metadata server that loses its power meanwhile says nothing, and the pair
/// serves nobody until its successor is asked.
const TERMS: Terms = Terms {
    pause_max: Duration::from_millis(100),
    answer: [Duration::from_millis(500), Duration::from_secs(2)],
};

/// The server's side of its registration.
pub(crate) struct Registration {
    connection: RefCell<Option<Connection>>,
    wake: Notify,
    /// This process has had a part in the pair: the service has seen to what the one before it left
    /// unfinished.
    before: Cell<bool>,
    /// Time between two beats, as the metadata service wants it.
    beat: Cell<Duration>,
    /// Why the service refused this server last: one that is not wanted any more asks on, but says so
    /// once.
    refused: RefCell<String>,
}

impl Registration {
    pub fn new() -> Registration {
        Registration {
            connection: RefCell::default(),
            wake: Notify::new(),
            before: Cell::new(false),
            beat: Cell::new(BEAT),
            refused: RefCell::default(),
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
        self.connection.borrow().clone()
    }
}

/// Registers and beats until the server stops.
pub(crate) async fn run(node: Rc<Node>) {
    let search = RefCell::new(Search::new(node.settings.meta.clone(), TERMS));
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    let mut attempts = Attempts::new(&node.env, patience);
    let orders = orders(&node);
    loop {
        let step = attempts.step(&search, &node.local, &orders);
        let Some((address, connected)) = step.await else {
            continue;
        };
        let connection = match connected {
            Ok(connection) => connection,
            Err(why) => {
                tracing::debug!(meta = %address, %why, "not registered");
                continue;
            }
        };
        let why = serve_once(&node, &search, &connection, || attempts.clear()).await;
        search
            .borrow_mut()
            .not_served(&address, &why, node.env.now());
    }
}

/// One connection from beginning to end; says why it ended. `registered` is called if it comes to that.
async fn serve_once(
    node: &Rc<Node>,
    search: &RefCell<Search>,
    connection: &Connection,
    registered: impl FnOnce(),
) -> CallError {
    let meta = connection.peer();
    let why = match register(node, search, connection).await {
        Ok(()) => {
            registered();
            *node.registration.connection.borrow_mut() = Some(connection.clone());
            // Until one beat is not answered at all; if another leads, sooner.
            let beating = beat(node, connection);
            let (env, local) = (&node.env, &node.local);
            let served = weft_rpc::while_active(env, connection, search, local, beating);
            let (Ok(why) | Err(why)) = served.await;
            tracing::info!(meta, %why, "no longer registered");
            why
        }
        Err(why) => {
            tracing::debug!(meta, %why, "not registered");
            why
        }
    };
    // In this order: the end of the connection is taken as proof that nothing is served under a
    // right.
    node.side.borrow_mut().disconnected();
    *node.registration.connection.borrow_mut() = None;
    connection.close("starting anew");
    why
}

async fn register(
    node: &Rc<Node>,
    search: &RefCell<Search>,
    connection: &Connection,
) -> Result<(), CallError> {
    let request = RegisterRequest {
        pair: node.pair.0,
        member: node.me.index() as u32,
        address: node.address.borrow().clone(),
        incarnation: node.incarnation,
        store_id: crate::server::store_id(&node.store),
        last_epoch: node.side.borrow().epoch().max(node.store.last_epoch()).0,
        was_serving: node.registration.before.get(),
    };
    let call = connection.call(&request, Payload::none());
    let patience = search.borrow().answer_patience();
    let reply = match node.env.timeout(patience, call).await {
        Ok(Ok((reply, _))) => reply,
        Ok(Err(error)) => {
            if let CallError::Failed(Failed::Refused(why)) = &error
                && *node.registration.refused.borrow() != *why
            {
                tracing::error!(why, "the metadata service refuses this server");
                node.registration.refused.borrow_mut().clone_from(why);
            }
            return Err(error);
        }
        Err(_) => return Err(CallError::Lost("the registration was not answered".into())),
    };
    node.registration.refused.borrow_mut().clear();
    let state = reply
        .state
        .as_ref()
        .map(PairState::from_proto)
        .transpose()
        .map_err(|error| CallError::Lost(format!("no state of a pair: {error}")))?;
    let now = node.env.now();
    let members = reply.meta_addresses;
    search
        .borrow_mut()
        .connected(connection.peer(), members, now);
    let live = reply.live_sessions;
    node.sessions.borrow_mut().told(reply.fenced_below, live);
    for session in node.marks.awaited() {
        if node.sessions.borrow().is_fenced(session) {
            node.marks.session_ended(session);
        }
    }
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
    let pause = node.registration.beat.get();
    let patience = Duration::from_millis(node.settings.link_patience_ms);
    loop {
        let sent = node.now();
        let request = BeatRequest {
            pair: node.pair.0,
            member: node.me.index() as u32,
            epoch: node.side.borrow().epoch().0,
            report: Some(node.report()),
            twin_lost: node.twin_lost(),
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
        if node.side.borrow().epoch().0 != request.epoch {
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

/// What the metadata service orders over the connection that this server made.
fn orders(node: &Rc<Node>) -> Handler {
    let weak = Rc::downgrade(node);
    Rc::new(move |_connection, request| {
        let Some(node) = weak.upgrade() else {
            return;
        };
        match request.method {
            SetStateRequest::METHOD => {
                let message: SetStateRequest = match request.decode() {
                    Ok(message) => message,
                    Err(failed) => return request.replier.fail(failed),
                };
                match message.state.as_ref().map(PairState::from_proto) {
                    Some(Ok(state)) => {
                        node.adopt(state, &message.peer_address);
                        request
                            .replier
                            .send::<SetStateRequest>(&SetStateReply {}, Payload::none());
                    }
                    _ => request
                        .replier
                        .fail(Failed::Refused("no state of a pair".into())),
                }
            }
            FenceRequest::METHOD => crate::fence::on_fence(&node, request),
            DropObjectsRequest::METHOD => crate::write::on_drop_objects(&node, request),
            LossesRequest::METHOD => crate::losses::on_losses(&node, request),
            AcknowledgeRequest::METHOD => crate::losses::on_acknowledge(&node, request),
            ScrubRequest::METHOD => crate::scrub::on_scrub(&node, request),
            _ => request
                .replier
                .fail(Failed::Refused("not an order for a data server".into())),
        }
    })
}
