//! Connections to the other members.
//!
//! Each member dials each other one and sends on that connection only, so that an orderly end of what it
//! has accepted proves that the other's process is gone (docs/protocols/members.md). The two connections
//! between two members live and end together: the engine is told of one link.

use super::message::{carried, encode, with_batches};
use super::{Member, view};
use prost::Message as _;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::{Mono, Task};
use weft_group::{Input, MemberId, Message};
use weft_journal::{JournalError, Reader, Sealed};
use weft_rpc::{Connection, Local};
use weft_types::Sn;
use weft_wire::Failed;
use weft_wire::proto::{GroupMessage, Identity, group_message, identity::Role};

/// A member that is not there is tried again after the first pause, and after twice as long each time, up to
/// the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];
/// Bytes of batches in one message, which is sent whole. A frame takes twice that.
const MESSAGE_BYTES: usize = 2 << 20;
/// Bytes that may wait on a connection before more batches are read for it.
const UNSENT_MAX: usize = 8 << 20;
/// Messages that are kept of a member before its link is whole, and their bytes: what it says in the moment between the
/// two directions. Who says more has a connection to here that this member cannot make to it.
const EARLY_MAX: usize = 64;
const EARLY_BYTES_MAX: usize = 16 << 20;
/// Connections of servers that are no members yet: more than are let in between two views.
const STRANGERS_MAX: usize = 16;

/// The other members.
#[derive(Default)]
pub(super) struct Peers {
    all: RefCell<BTreeMap<MemberId, Rc<Peer>>>,
    /// Connections from servers that are no members; but they may have seen a view that this one has not seen.
    strangers: RefCell<Vec<Connection>>,
}

/// One of them.
struct Peer {
    id: MemberId,
    /// To it, while there is one.
    outgoing: RefCell<Option<Connection>>,
    /// The newest from it, while there is one.
    incoming: RefCell<Option<Connection>>,
    /// The other has said that the end of that proves nothing.
    has_parted: Cell<bool>,
    /// Both are there, and the engine knows.
    is_linked: Cell<bool>,
    /// What came before the engine knew.
    early: RefCell<Vec<GroupMessage>>,
    /// When it last said something.
    heard: Cell<Mono>,
    /// What waits for batches that have to be read, and all after that.
    waiting: RefCell<VecDeque<Message>>,
    filled: Notify,
    /// The connection to it has been given up.
    parted: Notify,
    /// Its address may have changed.
    moved: Notify,
    dialing: RefCell<Option<Task>>,
}

impl Peer {
    fn new(id: MemberId, now: Mono) -> Peer {
        Peer {
            id,
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            has_parted: Cell::new(false),
            is_linked: Cell::new(false),
            early: RefCell::default(),
            heard: Cell::new(now),
            waiting: RefCell::default(),
            filled: Notify::new(),
            parted: Notify::new(),
            moved: Notify::new(),
            dialing: RefCell::default(),
        }
    }

    /// Keeps what comes before the engine knows. False: that is too much.
    fn keep_early(&self, message: GroupMessage) -> bool {
        let mut early = self.early.borrow_mut();
        early.push(message);
        let bytes = |message: &GroupMessage| message.encoded_len();
        early.len() <= EARLY_MAX && early.iter().map(bytes).sum::<usize>() <= EARLY_BYTES_MAX
    }

    fn is_incoming(&self, connection: &Connection) -> bool {
        let incoming = self.incoming.borrow();
        incoming
            .as_ref()
            .is_some_and(|known| known.same(connection))
    }

    /// Both directions may be there now.
    fn link_up(&self, member: &Rc<Member>) {
        let is_whole = self.outgoing.borrow().is_some() && self.incoming.borrow().is_some();
        if !is_whole || self.is_linked.replace(true) {
            return;
        }
        member.drive(Input::Connected(self.id));
        for message in self.early.take() {
            member.on_group_message(self.id, message);
        }
    }

    /// A direction is gone: what was on its way is lost, and the other direction begins anew, too, for the
    /// other side has to know.
    fn link_down(&self, member: &Rc<Member>) {
        self.early.take();
        self.waiting.take();
        if let Some(connection) = self.outgoing.take() {
            part(member, connection);
            self.parted.notify_waiters();
        }
        if self.is_linked.replace(false) {
            member.drive(Input::Lost(self.id));
        }
    }
}

/// Ends a connection that was made from here, although this process lives, and may lead.
fn part(member: &Member, connection: Connection) {
    if !connection.is_open() {
        return;
    }
    let parting = group_message::Message::Parting(group_message::Parting {});
    connection.notify(&GroupMessage {
        group: member.settings.group,
        batches: Vec::new(),
        message: Some(parting),
    });
    member.env.spawn("parting", async move {
        // Closed before that it would prove what is not so. If it never leaves, the connection is dead.
        connection.sent().await;
        connection.close("a new connection is made");
    });
}

impl Peers {
    /// There are these other members: those that are new are dialed, those that are gone are left alone, and
    /// answered.
    pub(super) fn set(
        member: &Rc<Member>,
        others: impl Iterator<Item = MemberId>,
    ) -> Vec<MemberId> {
        let mut all = member.peers.all.borrow_mut();
        let mut left = std::mem::take(&mut *all);
        let mut is_any_new = false;
        for id in others {
            let peer = left.remove(&id).unwrap_or_else(|| {
                is_any_new = true;
                let peer = Rc::new(Peer::new(id, member.env.now()));
                let dialing = member.env.spawn("peer", dial(member.clone(), peer.clone()));
                peer.dialing.replace(Some(dialing));
                peer
            });
            peer.moved.notify_one();
            all.insert(id, peer);
        }
        for peer in left.values() {
            if let Some(task) = peer.dialing.take() {
                task.abort();
            }
            if let Some(connection) = peer.outgoing.take() {
                part(member, connection);
            }
        }
        drop(all);
        if is_any_new {
            for connection in member.peers.strangers.take() {
                Peers::begun(member, &connection);
            }
        }
        left.into_keys().collect()
    }

    /// Closes all connections. No answer leaves any more, so that their ends prove what they say.
    pub(super) fn close(&self, why: &str) {
        for peer in std::mem::take(&mut *self.all.borrow_mut()).into_values() {
            if let Some(task) = peer.dialing.take() {
                task.abort();
            }
            let both = [peer.outgoing.take(), peer.incoming.take()];
            for connection in both.into_iter().flatten() {
                connection.close(why);
            }
        }
    }

    fn get(&self, id: MemberId) -> Option<Rc<Peer>> {
        self.all.borrow().get(&id).cloned()
    }

    /// Who has made a connection, if that is a member.
    fn of(&self, connection: &Connection) -> Option<Rc<Peer>> {
        let identity = connection.identity();
        let id = MemberId(u32::try_from(identity.id).ok()?);
        self.get(id).filter(|_| identity.role == Role::Meta as i32)
    }

    fn note_stranger(&self, connection: &Connection) {
        let mut strangers = self.strangers.borrow_mut();
        strangers.retain(Connection::is_open);
        let is_server = connection.identity().role == Role::Meta as i32;
        if is_server && strangers.len() < STRANGERS_MAX {
            strangers.push(connection.clone());
        }
    }

    /// A member has made a connection.
    pub(super) fn begun(member: &Rc<Member>, connection: &Connection) {
        let Some(peer) = member.peers.of(connection) else {
            return member.peers.note_stranger(connection);
        };
        let newest = peer
            .incoming
            .borrow()
            .as_ref()
            .map_or(0, Connection::number);
        if connection.number() <= newest {
            return;
        }
        if let Some(old) = peer.incoming.replace(Some(connection.clone())) {
            old.close("the member has connected again");
            // What was on its way over the old one is lost.
            peer.link_down(member);
        }
        peer.has_parted.set(false);
        peer.heard.set(member.env.now());
        peer.link_up(member);
    }

    /// A connection from a member has ended.
    pub(super) fn ended(member: &Rc<Member>, connection: &Connection) {
        let Some(peer) = member.peers.of(connection) else {
            return;
        };
        if !peer.is_incoming(connection) {
            return;
        }
        peer.incoming.replace(None);
        let proves = member.settings.group_terms.trust_closed_connections
            && connection.ended_by_peer()
            && !peer.has_parted.get();
        if proves {
            tracing::debug!(member = %peer.id, "the process of a member has ended");
            member.drive(Input::ProcessEnded(peer.id));
        }
        if peer.is_linked.get() {
            peer.link_down(member);
        }
    }

    /// A member has said something.
    pub(super) fn heard(member: &Rc<Member>, connection: &Connection, message: GroupMessage) {
        let Some(peer) = member.peers.of(connection) else {
            return;
        };
        if !peer.is_incoming(connection) {
            return;
        }
        peer.heard.set(member.env.now());
        if let Some(group_message::Message::Parting(_)) = message.message {
            peer.has_parted.set(true);
        } else if peer.is_linked.get() {
            member.on_group_message(peer.id, message);
        } else if !peer.keep_early(message) {
            connection.close("it says too much before it can be answered");
        }
    }

    /// What it said makes no sense.
    pub(super) fn refuse(&self, id: MemberId) {
        let peer = self.get(id);
        if let Some(connection) = peer.and_then(|peer| peer.incoming.borrow().clone()) {
            connection.close("that made no sense");
        }
    }

    /// Sends a message, with the batches that it carries, after all that was sent before.
    pub(super) fn send(&self, member: &Member, to: MemberId, message: Message) {
        let Some(peer) = self.get(to) else { return };
        let Some(connection) = peer.outgoing.borrow().clone() else {
            return;
        };
        let waits = !peer.waiting.borrow().is_empty();
        if !waits && send_at_once(member, &connection, &message) {
            return;
        }
        peer.waiting.borrow_mut().push_back(message);
        peer.filled.notify_one();
    }
}

/// False: some batches are not in memory, or too much is on its way.
fn send_at_once(member: &Member, connection: &Connection, message: &Message) -> bool {
    let Some(shape) = carried(message) else {
        connection.notify(&encode(member.settings.group, message, &[]));
        return true;
    };
    if connection.unsent() > UNSENT_MAX {
        return false;
    }
    let batches = member.batches.borrow();
    let found: Option<Vec<Sealed>> = (shape.base().0 + 1..=shape.last().0)
        .map(|sn| batches.get(Sn(sn)).cloned())
        .collect();
    let Some(found) = found else { return false };
    send_in_parts(member.settings.group, connection, message, &found);
    true
}

/// Sends a message about batches as several, each about as many as fit into one.
fn send_in_parts(group: u32, connection: &Connection, message: &Message, batches: &[Sealed]) {
    let Some(shape) = carried(message) else {
        return;
    };
    let mut rest = batches;
    let mut base = shape.base();
    loop {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|batch| {
            bytes += batch.content().len();
            bytes <= MESSAGE_BYTES
        });
        let count = fits.count().max(1).min(rest.len());
        let (part, later) = rest.split_at(count);
        let last = part.last().map_or(base, Sealed::sn);
        let Some(slice) = shape.slice(base, last) else {
            return;
        };
        connection.notify(&encode(group, &with_batches(message, slice), part));
        (rest, base) = (later, last);
        // Who fetches asks for the rest.
        if rest.is_empty() || matches!(message, Message::Fetched { .. }) {
            return;
        }
    }
}

/// Keeps a connection to a member.
async fn dial(member: Rc<Member>, peer: Rc<Peer>) {
    let mut pause = PAUSES[0];
    loop {
        let address = member.address_of(peer.id);
        let Some(address) = address else {
            peer.moved.notified().await;
            continue;
        };
        if let Some(connection) = connect(&member, &address).await {
            pause = PAUSES[0];
            peer.heard.set(member.env.now());
            peer.outgoing.replace(Some(connection.clone()));
            peer.link_up(&member);
            serve(&member, &peer, &connection).await;
            peer.link_down(&member);
        }
        member.env.sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

async fn connect(member: &Rc<Member>, address: &str) -> Option<Connection> {
    let local = Local::new(
        member.settings.cluster_id.clone(),
        Identity {
            role: Role::Meta as i32,
            id: u64::from(member.settings.member),
            incarnation: member.env.random(),
            group: member.settings.group,
        },
    );
    if let Some(name_space) = member.name_space() {
        local.is_of(name_space);
    }
    let refuse = Rc::new(|_: &Connection, request: weft_rpc::Request| {
        let why = "members send on the connections that they have made";
        request.replier.fail(Failed::Refused(why.into()));
    });
    let connecting = weft_rpc::connect(&member.env, address, &local, refuse);
    let patience = member.settings.group_terms.patience_max();
    match member.env.timeout(patience, connecting).await {
        Ok(Ok(connection)) => Some(connection),
        Ok(Err(error)) => {
            tracing::debug!(address, %error, "no connection to a member");
            None
        }
        Err(_) => None,
    }
}

/// Sends what waits until the connection ends, or nothing comes from the other side though it is asked.
async fn serve(member: &Rc<Member>, peer: &Rc<Peer>, connection: &Connection) {
    let sending = async {
        loop {
            let Some(message) = peer.waiting.borrow().front().cloned() else {
                peer.filled.notified().await;
                continue;
            };
            if let Err(error) = send_read(member, connection, &message).await {
                tracing::warn!(member = %peer.id, %error, "what a member lacks cannot be read");
                return;
            }
            peer.waiting.borrow_mut().pop_front();
        }
    };
    // One that stands still for as long as others may bear with it finds its connections as they were.
    let patience = member.settings.group_terms.patience_max();
    let asking = async {
        loop {
            member.env.sleep(patience / 3).await;
            if member.env.now().since(peer.heard.get()) > patience {
                return;
            }
            // Any answer will do: it says that both ways are open.
            connection.notify(&encode(member.settings.group, &Message::Hears, &[]));
        }
    };
    let sending = std::pin::pin!(sending);
    let asking = std::pin::pin!(asking);
    let work = futures_util::future::select(sending, asking);
    let parted = std::pin::pin!(peer.parted.notified());
    let closed = std::pin::pin!(connection.closed());
    let over = futures_util::future::select(parted, closed);
    futures_util::future::select(work, over).await;
}

/// Sends a message whose batches may have to be read from the journal.
async fn send_read(
    member: &Member,
    connection: &Connection,
    message: &Message,
) -> Result<(), JournalError> {
    while connection.unsent() > UNSENT_MAX && connection.is_open() {
        connection.sent().await;
    }
    if send_at_once(member, connection, message) {
        return Ok(());
    }
    let Some(shape) = carried(message) else {
        return Ok(());
    };
    let location = crate::startup::location(&member.settings);
    let mut reader = Reader::open(&member.env, &location, shape.base()).await?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut base = shape.base();
    while base < shape.last() {
        // What is not on the disk yet is in memory.
        let next = Sn(base.0 + 1 + found.len() as u64);
        let known = member.batches.borrow().get(next).cloned();
        let batch = match known {
            Some(batch) => Some(batch),
            None => reader.next_sealed().await?.map(|(batch, _)| batch),
        };
        let is_it =
            |batch: &Sealed| batch.sn() == next && shape.epoch_at(next) == Some(batch.epoch());
        let Some(batch) = batch.filter(is_it) else {
            // Discarded meanwhile. The connection begins anew, and with it what the other is told.
            connection.close("what was to be sent is gone");
            return Ok(());
        };
        bytes += batch.content().len();
        found.push(batch);
        if bytes < MESSAGE_BYTES && next < shape.last() {
            continue;
        }
        let Some(slice) = shape.slice(base, next) else {
            return Ok(());
        };
        send_in_parts(
            member.settings.group,
            connection,
            &with_batches(message, slice),
            &found,
        );
        (base, bytes) = (next, 0);
        found.clear();
        if let Message::Fetched { .. } = message {
            return Ok(());
        }
        while connection.unsent() > UNSENT_MAX && connection.is_open() {
            connection.sent().await;
        }
    }
    Ok(())
}

impl Member {
    /// Where a member listens, as the view says.
    pub(super) fn address_of(&self, id: MemberId) -> Option<String> {
        let view = self.view.borrow();
        let group = view::group_of(&view, self.settings.group)?;
        let found = group.members.iter().find(|member| member.id == id.0)?;
        (!found.address.is_empty()).then(|| found.address.clone())
    }
}
