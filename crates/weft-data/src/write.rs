//! What this member leads for clients and for the metadata service: writes, shapes, removals,
//! syncs. The life of a write is in docs/protocols/a-write.md; what is answered when a copy fails
//! is decided by `weft_pair::Course`.

use crate::disk::HEALED;
use crate::link::TwinError;
use crate::locks::{Kind, Ticket, WHOLE, blocks_around};
use crate::marks::{Ended, Intent};
use crate::server::{Node, from_name, to_name};
use crate::settle::{self, Unsettled};
use bytes::Bytes;
use futures_util::future::{Either, join, select};
use futures_util::stream::{self, StreamExt};
use std::cell::Cell;
use std::convert::Infallible;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_objects::{Extent, Failure, OBJECT_BYTES_MAX, Purpose, regions_of};
use weft_pair::{Answer, Copied, Course, Duplicates, Mode, PairState, Rule};
use weft_rpc::{Connection, Payload, Replier, Request};
use weft_types::{Epoch, ObjectId, PairId};
use weft_wire::Failed;
use weft_wire::proto::{self, Protocol};

/// Extents of one write: a client joins several small ones, but not without end.
const EXTENTS_MAX: usize = 4096;
/// Wait before a change that gave way to the twin's is tried again.
const GIVE_WAY: Duration = Duration::from_millis(1);
/// Wait before a twin that cannot take a copy yet is asked again.
const TWIN_NOT_READY: Duration = Duration::from_millis(10);
/// A change that comes upon bad blocks is tried so often once they were healed.
pub(crate) const HEALS: u32 = 3;
/// Objects that the twin makes stable at the same time, at this member's word.
pub(crate) const TWIN_SYNCS: usize = 16;

/// A change of one object.
pub(crate) enum Change {
    /// Bytes.
    Write {
        extents: Vec<Extent>,
        payload: Bytes,
        crc: u32,
    },
    /// Less of them.
    Shape {
        truncate: Option<u64>,
        punch: Vec<Range<u64>>,
    },
    /// The object goes.
    Remove,
}

impl Change {
    /// The byte ranges that nothing else may use meanwhile.
    pub fn spans(&self) -> Vec<Range<u64>> {
        match self {
            Change::Write { extents, .. } => {
                let mut spans: Vec<Range<u64>> = Vec::with_capacity(extents.len());
                for extent in extents {
                    let end = extent.offset + u64::from(extent.length);
                    let span = blocks_around(extent.offset, end);
                    match spans.last_mut() {
                        Some(last) if last.end >= span.start && last.start <= span.start => {
                            last.end = last.end.max(span.end);
                        }
                        _ => spans.push(span),
                    }
                }
                spans
            }
            Change::Shape { truncate, punch } => {
                let cut = truncate.map(|at| blocks_around(at, u64::MAX));
                let holes = punch.iter().map(|hole| blocks_around(hole.start, hole.end));
                cut.into_iter().chain(holes).collect()
            }
            Change::Remove => vec![WHOLE],
        }
    }

    /// The regions it changes in an object of `length` bytes.
    pub fn regions(&self, length: u64) -> Vec<Range<u32>> {
        match self {
            Change::Write { .. } => self
                .spans()
                .iter()
                .map(|span| regions_of(span.start, span.end))
                .collect(),
            Change::Shape { truncate, punch } => {
                // The region of the cut, too, if the object ends before: the twin's may not.
                let cut = truncate.map(|at| regions_of(at, length.max(at + 1)));
                let holes = punch
                    .iter()
                    .map(|hole| regions_of(hole.start, hole.end.min(length.max(hole.start + 1))));
                cut.into_iter().chain(holes).collect()
            }
            Change::Remove => vec![regions_of(0, length.max(1))],
        }
    }

    /// The bytes that it changes, each on its own: whatever was there before does not count any more.
    pub fn bytes_changed(&self) -> Vec<Range<u64>> {
        match self {
            Change::Write { extents, .. } => extents
                .iter()
                .map(|extent| extent.offset..extent.offset + u64::from(extent.length))
                .collect(),
            Change::Shape { truncate, punch } => {
                let cut = truncate.map(|at| at..u64::MAX);
                cut.into_iter().chain(punch.iter().cloned()).collect()
            }
            Change::Remove => vec![WHOLE],
        }
    }

    /// What its mark is for.
    pub fn purpose(&self) -> Purpose {
        match self {
            Change::Write { .. } => Purpose::Write,
            Change::Shape { .. } | Change::Remove => Purpose::Free,
        }
    }

    /// Does it to this member's copy.
    pub async fn apply(&self, node: &Node, object: ObjectId) -> weft_objects::Result<()> {
        tracing::trace!(%object, purpose = ?self.purpose(), bytes = ?self.bytes_changed(), "changed");
        match self {
            Change::Write {
                extents, payload, ..
            } => node.store.write(object, extents, payload.clone()).await,
            Change::Shape { truncate, punch } => {
                if let Some(at) = truncate {
                    node.store.truncate(object, *at).await?;
                }
                node.store.punch(object, punch).await
            }
            Change::Remove => node.store.remove(object).await,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Change::Write { payload, .. } => payload.len() as u64,
            _ => 0,
        }
    }

    /// As it is sent to the twin.
    fn to_forward(
        &self,
        pair: PairId,
        epoch: Epoch,
        asker: &Asker,
        object: ObjectId,
    ) -> (proto::ForwardRequest, Payload) {
        let mut request = proto::ForwardRequest {
            epoch: epoch.0,
            pair: pair.0,
            session: asker.session(),
            object: Some(to_name(object)),
            operation: if asker.may_owe { asker.operation } else { 0 },
            confirmed_below: asker.confirmed_below,
            ..Default::default()
        };
        let mut sent = Payload::none();
        match self {
            Change::Write {
                extents,
                payload,
                crc,
            } => {
                request.extents = extents
                    .iter()
                    .map(|extent| proto::Extent {
                        offset: extent.offset,
                        length: extent.length,
                    })
                    .collect();
                sent = Payload::summed(payload.clone(), *crc);
            }
            Change::Shape { truncate, punch } => {
                request.truncate = *truncate;
                request.punch = punch
                    .iter()
                    .map(|hole| proto::Range {
                        start: hole.start,
                        end: hole.end,
                    })
                    .collect();
            }
            Change::Remove => request.drop_object = true,
        }
        (request, sent)
    }
}

/// The extents of a message, checked against its payload.
///
/// # Errors
/// [`Failed::Refused`] for a message that contradicts itself, EFBIG beyond the largest object.
pub(crate) fn extents_of(
    extents: &[proto::Extent],
    payload: &Bytes,
) -> Result<Vec<Extent>, Failed> {
    if extents.is_empty() || extents.len() > EXTENTS_MAX {
        return Err(Failed::Refused("a write of no or too many extents".into()));
    }
    let total: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
    if total != payload.len() as u64 {
        return Err(Failed::Refused(
            "the payload is not as long as the extents".into(),
        ));
    }
    extents
        .iter()
        .map(|extent| {
            let end = extent.offset.checked_add(u64::from(extent.length));
            if extent.length == 0 {
                return Err(Failed::Refused("an extent of nothing".into()));
            }
            match end {
                Some(end) if end <= OBJECT_BYTES_MAX => Ok(Extent {
                    offset: extent.offset,
                    length: extent.length,
                }),
                _ => Err(Failed::Errno(libc::EFBIG)),
            }
        })
        .collect()
}

/// The holes of a message.
///
/// # Errors
/// [`Failed::Refused`] for ranges that are none.
pub(crate) fn holes_of(punch: &[proto::Range]) -> Result<Vec<Range<u64>>, Failed> {
    if punch.len() > EXTENTS_MAX || punch.iter().any(|hole| hole.start >= hole.end) {
        return Err(Failed::Refused("a hole of nothing, or too many".into()));
    }
    Ok(punch.iter().map(|hole| hole.start..hole.end).collect())
}

/// Who wants a change done, and under which epoch.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    pub pair: PairId,
    pub epoch: Epoch,
    /// Session, and number of the connection it came over. None: the metadata service.
    pub client: Option<(u64, u64)>,
    /// The client's number for the write.
    pub operation: u64,
    /// The client's operations below this number are on both members.
    pub confirmed_below: u64,
    /// An asynchronous protocol: the client may go on when one member has the write.
    pub may_owe: bool,
    /// `client-async`: bytes of the write, with which the client goes on when one member has them.
    pub alone: u64,
}

impl Asker {
    fn session(&self) -> u64 {
        self.client.map_or(0, |(session, _)| session)
    }

    fn admit(&self, node: &Node) -> Result<PairState, Failed> {
        match self.client {
            Some((session, connection)) => node.admit(self.pair, self.epoch, session, connection),
            None => {
                let now = node.now();
                Ok(node.side.borrow().admits(self.pair, self.epoch, now)?)
            }
        }
    }
}

fn rule_of(protocol: i32) -> Result<Rule, Failed> {
    let rule = Protocol::try_from(protocol).ok().and_then(Rule::of);
    rule.ok_or_else(|| Failed::Refused("not a protocol that a write can name".into()))
}

/// For changes whose writer waits until they have ended.
fn nobody_goes_on() {}

/// METHOD 64.
pub(crate) fn on_write(node: &Rc<Node>, connection: &Connection, request: Request) {
    let message: proto::WriteRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let checked = (|| {
        let object = from_name(message.object)?;
        let change = Change::Write {
            extents: extents_of(&message.extents, &request.payload)?,
            payload: request.payload.clone(),
            crc: request.payload_crc,
        };
        Ok((object, change, rule_of(message.protocol)?))
    })();
    let (object, change, rule) = match checked {
        Ok(checked) => checked,
        Err(failed) => return request.replier.fail(failed),
    };
    if message.confirmed_below > 0 {
        node.marks
            .confirmed_below(message.session, message.confirmed_below, node.now());
        node.alone
            .confirmed_below(message.session, message.confirmed_below);
    }
    let goes_on_with_one = message.protocol == Protocol::ClientAsync as i32;
    let asker = Asker {
        pair: PairId(message.pair),
        epoch: Epoch(message.epoch),
        client: Some((message.session, connection.number())),
        operation: message.operation,
        confirmed_below: message.confirmed_below,
        may_owe: rule.copies_before_answer == 1,
        alone: if goes_on_with_one { change.bytes() } else { 0 },
    };
    // The place in the queue is taken now: changes that overlap are done in order of arrival.
    let ticket = node.locks.enqueue(object, change.spans(), Kind::Led);
    let (node, connection) = (node.clone(), connection.clone());
    node.clone().spawn("write", async move {
        let _loaded = node.loaded();
        let unanswered = Cell::new(Some(request.replier));
        let debt = Cell::new(None);
        let own_copy_made = Notify::new();
        let goes_on = || own_copy_made.notify_one();
        // A write that could not be owed at first, since too much was, is owed as soon as less is.
        let owing = async {
            own_copy_made.notified().await;
            let now = || node.now();
            let begun = node.owed.when_allowed(object, change.bytes(), now).await;
            // Under another state the client sends it again.
            if node.side.borrow().epoch() == asker.epoch
                && let Some(replier) = unanswered.take()
            {
                debt.set(Some(begun));
                reply_to_write(&node, &asker, replier, false);
            }
            std::future::pending::<Infallible>().await
        };
        let leading = lead(&node, &asker, object, &change, rule, ticket, &goes_on);
        let ended = match select(pin!(leading), pin!(owing)).await {
            Either::Left((ended, _)) => ended,
            Either::Right((never, _)) => match never {},
        };
        if ended.is_ok() {
            node.metrics.writes.inc();
            node.metrics.written_bytes.inc_by(change.bytes());
            let both_serve = node.side.borrow().mode() == Some(Mode::Both);
            if rule.duplicates == Duplicates::Client && both_serve && ended == Ok(false) {
                node.metrics.driven_writes.inc();
            }
        }
        if let Some(debt) = debt.take()
            && ended == Ok(true)
        {
            debt.paid(node.now());
        }
        match (unanswered.take(), ended) {
            (Some(replier), Ok(both)) => reply_to_write(&node, &asker, replier, both),
            (Some(replier), Err(failed)) => replier.fail(failed),
            (None, ended) => connection.notify(&proto::Copied {
                operation: asker.operation,
                failure: ended.err().map(proto::Failure::from),
            }),
        }
    });
}

fn reply_to_write(node: &Node, asker: &Asker, replier: Replier, both: bool) {
    let room = if both {
        node.room().min(node.twin_room.get())
    } else {
        node.room()
    };
    let window = node.intake.window(asker.session(), node.now());
    let reply = proto::WriteReply { both, room, window };
    replier.send::<proto::WriteRequest>(&reply, Payload::none());
}

/// METHOD 71.
pub(crate) fn on_confirmed(node: &Rc<Node>, request: Request) {
    let decoded = request.decode::<proto::Confirmed>().and_then(|message| {
        let given_up = message.given_up.iter();
        let given_up = given_up.map(|one| Ok((from_name(one.object)?, one.operation)));
        let given_up = given_up.collect::<Result<Vec<_>, Failed>>()?;
        Ok((message.session, message.below, given_up))
    });
    let (session, below, given_up) = match decoded {
        Ok(decoded) => decoded,
        Err(failed) => return request.replier.fail(failed),
    };
    node.marks.confirmed_below(session, below, node.now());
    node.alone.confirmed_below(session, below);
    let node = node.clone();
    let answer = |replier: Replier| replier.send::<proto::Confirmed>(&(), Payload::none());
    if given_up.is_empty() {
        return answer(request.replier);
    }
    node.clone().spawn("changes given up", async move {
        for (object, operation) in given_up {
            // It may be in progress still, and holds its bytes then.
            let all = vec![crate::locks::WHOLE];
            let held = node.locks.enqueue(object, all, Kind::Read);
            held.granted().await;
            node.marks.given_up(session, operation);
        }
        answer(request.replier);
    });
}

/// METHOD 66.
pub(crate) fn on_shape(node: &Rc<Node>, connection: &Connection, request: Request) {
    let message: proto::ShapeRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let checked = (|| {
        let object = from_name(message.object)?;
        let change = Change::Shape {
            truncate: message.truncate,
            punch: holes_of(&message.punch)?,
        };
        if message.truncate.is_some_and(|at| at > OBJECT_BYTES_MAX) {
            return Err(Failed::Errno(libc::EFBIG));
        }
        Ok((object, change, rule_of(message.protocol)?))
    })();
    let (object, change, rule) = match checked {
        Ok(checked) => checked,
        Err(failed) => return request.replier.fail(failed),
    };
    let asker = Asker {
        pair: PairId(message.pair),
        epoch: Epoch(message.epoch),
        client: Some((message.session, connection.number())),
        operation: message.operation,
        confirmed_below: 0,
        may_owe: false,
        alone: 0,
    };
    let ticket = node.locks.enqueue(object, change.spans(), Kind::Led);
    let node = node.clone();
    node.clone().spawn("shape", async move {
        let _loaded = node.loaded();
        match lead(
            &node,
            &asker,
            object,
            &change,
            rule,
            ticket,
            &nobody_goes_on,
        )
        .await
        {
            Ok(_both) => {
                node.metrics.writes.inc();
                request
                    .replier
                    .send::<proto::ShapeRequest>(&proto::ShapeReply {}, Payload::none());
            }
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// METHOD 52: the metadata service drops objects, on both members.
pub(crate) fn on_drop_objects(node: &Rc<Node>, request: Request) {
    let message: proto::DropObjectsRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let node = node.clone();
    node.clone().spawn("drop objects", async move {
        let asker = Asker {
            pair: node.pair,
            epoch: Epoch(message.epoch),
            client: None,
            operation: 0,
            confirmed_below: 0,
            may_owe: false,
            alone: 0,
        };
        let rule = Rule::of(Protocol::ServerSync).expect("server-sync has a rule");
        for name in &message.objects {
            let dropped = async {
                let object = from_name(Some(*name))?;
                let change = Change::Remove;
                let ticket = node.locks.enqueue(object, change.spans(), Kind::Led);
                lead(
                    &node,
                    &asker,
                    object,
                    &change,
                    rule,
                    ticket,
                    &nobody_goes_on,
                )
                .await?;
                if let Some(plan) = &mut *node.plan.borrow_mut() {
                    plan.drop_object(object);
                }
                Ok(())
            };
            if let Err(failed) = dropped.await {
                return request.replier.fail(failed);
            }
        }
        // Nobody names them again: a removal that a power cut took back would stay so for ever.
        if let Err(failed) = sync(&node, &asker, &message.objects, rule).await {
            return request.replier.fail(failed);
        }
        request
            .replier
            .send::<proto::DropObjectsRequest>(&proto::DropObjectsReply {}, Payload::none());
    });
}

/// How the twin's copy ended.
enum Forwarded {
    Copied(Copied),
    /// Blocks that are bad there and would be written in part.
    Bad(Vec<u64>),
    /// The twin has begun a change of the same blocks, and goes first.
    GiveWay,
    /// It refuses for a reason that is the asker's.
    Refused(Failed),
}

/// How this member's own copy ended.
enum Own {
    Copied(Copied),
    GiveWay,
}

/// Leads a change: does it on both members or on the only one, and says whether it is on both.
/// `goes_on` is called when the writer may go on before that.
///
/// # Errors
/// What is to be answered to the asker.
async fn lead(
    node: &Rc<Node>,
    asker: &Asker,
    object: ObjectId,
    change: &Change,
    rule: Rule,
    ticket: Ticket,
    goes_on: &impl Fn(),
) -> Result<bool, Failed> {
    let mut ticket = Some(ticket);
    let mut intent = node.marks.intent(object);
    let mut begun = false;
    loop {
        let held = match ticket.take() {
            Some(ticket) => ticket,
            None => node.locks.enqueue(object, change.spans(), Kind::Led),
        };
        held.granted().await;
        match asker.admit(node) {
            Ok(_) => {}
            Err(failed) if is_ahead(node, asker) => {
                // Not with the blocks held: the twin may need them to get on.
                drop(held);
                node.not_ahead(|side, now| side.admits(asker.pair, asker.epoch, now))
                    .await
                    .map_err(|_| failed)?;
                continue;
            }
            Err(failed) => return Err(failed),
        }
        let length = match change {
            Change::Write { .. } => 0,
            _ => match node.store.length(object).await {
                Ok(length) => length,
                Err(error) => return Err(node.not_done(error, asker.epoch).await),
            },
        };
        // In a later round, too: while this one gave way, the object may have become longer.
        let regions = change.regions(length);
        let how = (change.purpose(), node.settings.sync_marks);
        let marking = node
            .marks
            .widen(&mut intent, &node.store, &regions, how, node.now());
        if let Err(error) = marking.await {
            if !begun {
                intent.end(Ended::Alike, node.now());
            }
            return Err(node.not_done(error, asker.epoch).await);
        }
        // Marking may have waited: nothing but this counts.
        let state = match asker.admit(node) {
            Ok(state) => state,
            Err(failed) => {
                // What earlier rounds did stays in doubt; before the first nothing was done.
                if !begun {
                    intent.end(Ended::Alike, node.now());
                }
                return Err(failed);
            }
        };
        if let Some((session, _)) = asker.client
            && asker.may_owe
            && !begun
        {
            let numbers = (asker.operation, asker.confirmed_below);
            node.announce(session, object, &regions, numbers);
        }
        begun = true;
        match round(node, asker, &state, object, change, rule, goes_on).await {
            Round::Answered(answer) => {
                if let Answer::Done { .. } = answer {
                    node.alone.took(object, change);
                    // Before anybody is told: a mark that outlives an acknowledged write would hide it.
                    let found = node
                        .store
                        .clear_losses(object, &change.bytes_changed())
                        .await;
                    if let Err(error) = found {
                        intent.end(Ended::Doubtful, node.now());
                        return Err(node.not_done(error, asker.epoch).await);
                    }
                }
                return conclude(node, asker, &state, change, answer, intent, held).await;
            }
            Round::Refused(failed) => return Err(failed),
            Round::GiveWay => {
                drop(held);
                node.env.sleep(GIVE_WAY).await;
            }
        }
    }
}

fn is_ahead(node: &Node, asker: &Asker) -> bool {
    asker.epoch > node.side.borrow().epoch()
}

enum Round {
    Answered(Answer),
    Refused(Failed),
    GiveWay,
}

/// Does the change on both members at the same time, once.
async fn round(
    node: &Rc<Node>,
    asker: &Asker,
    state: &PairState,
    object: ObjectId,
    change: &Change,
    rule: Rule,
    goes_on: &impl Fn(),
) -> Round {
    let mut course = Course::new(node.me, state, rule);
    let own = async {
        let own = own_copy(node, state, object, change).await;
        if let Own::Copied(copied) = own {
            let mut so_far = course;
            so_far.own_ended(copied);
            if so_far.may_owe() {
                goes_on();
            }
        }
        own
    };
    let own = if course.forwards() {
        let (own, mut twin) = join(own, forward(node, asker, object, change)).await;
        if let Own::GiveWay = own {
            return Round::GiveWay;
        }
        // This member's copy is done and whole: what is bad there can be replaced from here.
        for _ in 0..HEALS {
            let Forwarded::Bad(blocks) = &twin else { break };
            twin = match settle::give_blocks(node, asker.epoch, object, blocks).await {
                // What a lost twin means is known where copies are sent.
                Ok(()) | Err(Unsettled::Lost) => forward(node, asker, object, change).await,
                Err(Unsettled::GiveWay) => Forwarded::GiveWay,
                Err(Unsettled::Stale) => Forwarded::Copied(Copied::Unknown),
                Err(_) => Forwarded::Copied(Copied::Errno(libc::EIO)),
            };
        }
        match twin {
            Forwarded::Copied(copied) => course.twin_ended(copied),
            Forwarded::Bad(_) => course.twin_ended(Copied::Errno(libc::EIO)),
            Forwarded::GiveWay => return Round::GiveWay,
            Forwarded::Refused(failed) => return Round::Refused(failed),
        }
        own
    } else {
        own.await
    };
    match own {
        Own::Copied(copied) => course.own_ended(copied),
        Own::GiveWay => return Round::GiveWay,
    }
    if course.is_held() {
        node.metrics.held_writes.inc();
    }
    loop {
        let (now, counts) = {
            let side = node.side.borrow();
            (side.state().unwrap_or(*state), side.twin_counts())
        };
        if let Some(answer) = course.answer(&now, counts) {
            return Round::Answered(answer);
        }
        node.state_beyond(now.epoch).await;
    }
}

async fn own_copy(node: &Rc<Node>, state: &PairState, object: ObjectId, change: &Change) -> Own {
    let mut healed = 0;
    while healed < HEALS {
        let blocks = match change.apply(node, object).await {
            Ok(()) => return Own::Copied(Copied::Done),
            Err(weft_objects::Error::BadBlocks { blocks, .. }) => blocks,
            Err(error) => return Own::Copied(not_copied(node, error)),
        };
        match settle::heal(node, state.epoch, object, &blocks).await {
            Ok(()) => healed += 1,
            Err(Unsettled::GiveWay) => return Own::GiveWay,
            // The twin does not know this state yet, or another one is to come.
            Err(Unsettled::Lost) if node.side.borrow().epoch() == state.epoch => {
                node.env.sleep(TWIN_NOT_READY).await;
            }
            Err(Unsettled::Lost | Unsettled::Stale) => {
                return Own::Copied(Copied::Fails(libc::EIO));
            }
            // This disk does not take the twin's blocks.
            Err(Unsettled::Errno(_)) if node.disk.health() > weft_pair::Disk::Works => {
                return Own::Copied(Copied::Fails(libc::EIO));
            }
            Err(_) => return Own::Copied(Copied::Errno(libc::EIO)),
        }
    }
    node.disk_fails(Failure::Read, HEALED);
    Own::Copied(Copied::Fails(libc::EIO))
}

/// How the copy ended that the store has not made.
fn not_copied(node: &Node, error: weft_objects::Error) -> Copied {
    let (errno, fails) = (error.errno(), error.failure().is_some());
    node.store_failed(error);
    match fails {
        true => Copied::Fails(errno),
        false => Copied::Errno(errno),
    }
}

/// Sends a change to the twin and says what came of it.
async fn forward(node: &Rc<Node>, asker: &Asker, object: ObjectId, change: &Change) -> Forwarded {
    let (request, payload) = change.to_forward(asker.pair, asker.epoch, asker, object);
    send(node, asker, &request, payload).await
}

async fn send(
    node: &Rc<Node>,
    asker: &Asker,
    request: &proto::ForwardRequest,
    payload: Payload,
) -> Forwarded {
    loop {
        // A copy that may have been made is held until another state is decided. One that was not sent must not be: if the
        // link broke before this epoch, and is made again, none is.
        let (made, decided) = (pin!(node.link.made()), pin!(node.state_beyond(asker.epoch)));
        if let Either::Right(_) = select(made, decided).await {
            return Forwarded::Copied(Copied::Unknown);
        }
        match node.link.copy(request, payload.clone()).await {
            Ok((reply, _)) if reply.bad_blocks.is_empty() => {
                node.twin_room.set(reply.room);
                return Forwarded::Copied(Copied::Done);
            }
            Ok((reply, _)) => return Forwarded::Bad(reply.bad_blocks),
            Err(TwinError::Failed(Failed::Errno(libc::EDEADLK))) => return Forwarded::GiveWay,
            Err(TwinError::Failed(Failed::Errno(errno))) => {
                return Forwarded::Copied(Copied::Errno(errno));
            }
            // It knows a newer state, as this member will soon. Or no data server listens there any more:
            // a metadata server does, which has done nothing.
            Err(
                TwinError::Failed(Failed::Stale(_) | Failed::NotActive { .. }) | TwinError::Lost,
            ) => {
                return Forwarded::Copied(Copied::Unknown);
            }
            // It does not know this state yet.
            Err(TwinError::Failed(Failed::Unavailable(_))) => {
                if node.side.borrow().epoch() != asker.epoch {
                    return Forwarded::Copied(Copied::Unknown);
                }
                node.env.sleep(TWIN_NOT_READY).await;
            }
            Err(TwinError::Failed(failed)) => return Forwarded::Refused(failed),
        }
    }
}

/// Settles what a change leaves behind, and makes the answer.
async fn conclude(
    node: &Rc<Node>,
    asker: &Asker,
    state: &PairState,
    change: &Change,
    answer: Answer,
    intent: Intent,
    held: Ticket,
) -> Result<bool, Failed> {
    let now = node.now();
    match answer {
        Answer::Done { both: true } => {
            intent.end(Ended::Alike, now);
            Ok(true)
        }
        Answer::Done { both: false } => {
            let session_lives = !node.sessions.borrow().is_fenced(asker.session());
            if state.mode == Mode::Both
                && node.side.borrow().epoch() == state.epoch
                && session_lives
            {
                // The client sends the other copy.
                let bytes = change.bytes_changed();
                let ended = Ended::WhenConfirmed {
                    session: asker.session(),
                    operation: asker.operation,
                    alone: asker.alone,
                };
                intent.end_unsure(ended, bytes, now);
            } else {
                again(node, &intent);
                intent.end(Ended::Doubtful, now);
            }
            Ok(false)
        }
        Answer::Errno { errno, equal_to } => {
            let (object, runs) = (intent.object(), intent.runs());
            // A recovery that runs need not wait for what is settled here: where writers go on being refused,
            // something always is, and the pair would stay in RECOVERING.
            if equal_to.is_none() {
                again(node, &intent);
            }
            intent.end(Ended::Refused, now);
            drop(held);
            // Nobody was promised the new bytes.
            match (equal_to, change) {
                (None, _) => {}
                (Some(truth), Change::Write { .. }) => {
                    for span in change.spans() {
                        settle::undo_refused(node, state.epoch, object, span, truth).await;
                    }
                }
                (Some(truth), _) => {
                    for run in runs {
                        settle::settle_refused(node, state.epoch, run, truth).await;
                    }
                }
            }
            Err(Failed::Errno(errno))
        }
        Answer::Stale { current } => {
            intent.end(Ended::Doubtful, now);
            Err(Failed::Stale(current.0))
        }
    }
}

/// What the change touched has to be compared (again) by a recovery that runs. At once: the
/// recovery must not find that nothing is left before it knows.
fn again(node: &Node, intent: &Intent) {
    for run in intent.runs() {
        settle::recover_again(node, run);
    }
}

/// METHOD 67: makes objects stable on this member, and on a twin that is being filled.
pub(crate) fn on_sync(node: &Rc<Node>, connection: &Connection, request: Request) {
    let message: proto::SyncRequest = match request.decode() {
        Ok(message) => message,
        Err(failed) => return request.replier.fail(failed),
    };
    let asker = Asker {
        pair: PairId(message.pair),
        epoch: Epoch(message.epoch),
        client: Some((message.session, connection.number())),
        operation: 0,
        confirmed_below: 0,
        may_owe: false,
        alone: 0,
    };
    let node = node.clone();
    node.clone().spawn("sync", async move {
        let _loaded = node.loaded();
        // Whatever the protocol of what was written: while both serve, the client asks both.
        let rule = Rule::of(Protocol::ClientSync).expect("client-sync has a rule");
        match sync(&node, &asker, &message.objects, rule).await {
            Ok(()) => request
                .replier
                .send::<proto::SyncRequest>(&proto::SyncReply {}, Payload::none()),
            Err(failed) => request.replier.fail(failed),
        }
    });
}

/// Makes objects, and their removal, stable here, and on the twin as `rule` says.
async fn sync(
    node: &Rc<Node>,
    asker: &Asker,
    names: &[proto::ObjectName],
    rule: Rule,
) -> Result<(), Failed> {
    node.not_ahead(|side, now| side.admits(asker.pair, asker.epoch, now))
        .await?;
    let state = asker.admit(node)?;
    let objects = names
        .iter()
        .map(|name| from_name(Some(*name)))
        .collect::<Result<Vec<ObjectId>, Failed>>()?;
    let mut course = Course::new(node.me, &state, rule);
    let own = async {
        match node.store.sync(&objects).await {
            Ok(()) => Copied::Done,
            Err(error) => not_copied(node, error),
        }
    };
    let twin = async {
        let send_one = |name: proto::ObjectName| async move {
            let request = proto::ForwardRequest {
                epoch: asker.epoch.0,
                pair: asker.pair.0,
                session: asker.session(),
                object: Some(name),
                sync: true,
                ..Default::default()
            };
            send(node, asker, &request, Payload::none()).await
        };
        let sends = stream::iter(names.iter().copied()).map(send_one);
        let mut sent = pin!(sends.buffer_unordered(TWIN_SYNCS));
        while let Some(outcome) = sent.next().await {
            match outcome {
                Forwarded::Copied(Copied::Done) => {}
                Forwarded::Copied(other) => return Ok(other),
                Forwarded::Refused(failed) => return Err(failed),
                Forwarded::Bad(_) | Forwarded::GiveWay => return Ok(Copied::Errno(libc::EIO)),
            }
        }
        Ok(Copied::Done)
    };
    if course.forwards() {
        let (own, twin) = join(own, twin).await;
        course.own_ended(own);
        course.twin_ended(twin?);
    } else {
        course.own_ended(own.await);
    }
    loop {
        let (now, counts) = {
            let side = node.side.borrow();
            (side.state().unwrap_or(state), side.twin_counts())
        };
        match course.answer(&now, counts) {
            Some(Answer::Done { .. }) => return Ok(()),
            Some(Answer::Errno { errno, .. }) => return Err(Failed::Errno(errno)),
            Some(Answer::Stale { current }) => return Err(Failed::Stale(current.0)),
            None => node.state_beyond(now.epoch).await,
        };
    }
}
