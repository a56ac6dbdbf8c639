//! Changes of objects: who is asked, how often, and when the writer may go on
//! (`docs/protocols/duplication.md`).
//!
//! A change keeps its number through all attempts. It ends when the copies that the pair's state
//! demands are made, or it is refused, or the patience is over.

use crate::announced::{Announced, Places};
use crate::core::Core;
use crate::pairs::{Object, Pair, Pairs, Trouble};
use crate::session::Session;
use crate::types::Errno;
use crate::window::UnderWay;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::{FutureExt, poll, select_biased};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use weft_env::{Env, Mono};
use weft_rpc::Payload;
use weft_types::Member;
use weft_wire::Rpc;
use weft_wire::proto::{
    Confirmed, Extent, GivenUp, PairEpoch, Protocol, ShapeReply, ShapeRequest, SyncReply,
    SyncRequest, WriteReply, WriteRequest,
};

/// What the members of a pair have to be told of a client's writes waits for the next write, but no
/// longer than this.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

/// The numbers of a client's changes.
pub(crate) struct Numbers {
    next: Cell<u64>,
    /// Of changes in progress, and of doubts, after the group under whose session they are made.
    unconfirmed: RefCell<BTreeSet<(u32, u64)>>,
    /// By number. Few: each took the whole patience, with the pair's state as it was.
    doubts: RefCell<BTreeMap<u64, Doubt>>,
    /// Of changes in progress: the pair, and its epoch when they began.
    begun: RefCell<BTreeMap<u64, (u32, u64)>>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            next: Cell::new(1),
            unconfirmed: RefCell::default(),
            doubts: RefCell::default(),
            begun: RefCell::default(),
        }
    }
}

/// The number of a change under the session with a group, unconfirmed until it is dropped (unless it is
/// noted as a doubt).
struct Unconfirmed<'a>(&'a Numbers, u64, u32);

impl Unconfirmed<'_> {
    /// The change was tried as `to` says and ended so. One that both members were sent, and that
    /// nobody answered for, is not confirmed: one member may have it and wait for that word.
    fn ended(&self, to: To, result: Result<(), Undone>) -> Result<(), Errno> {
        if let (To::BothOrLeader, Err(Undone::InDoubt(doubt))) = (to, &result) {
            self.0.doubts.borrow_mut().insert(self.1, *doubt);
        }
        result.map_err(Undone::errno)
    }
}

impl Drop for Unconfirmed<'_> {
    fn drop(&mut self) {
        self.0.begun.borrow_mut().remove(&self.1);
        if !self.0.doubts.borrow().contains_key(&self.1) {
            self.0.unconfirmed.borrow_mut().remove(&(self.2, self.1));
        }
    }
}

/// Where a change that nobody answered for was sent.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    group: u32,
    session: u64,
    object: Object,
    epoch: u64,
}

/// Why a change was not done.
enum Undone {
    /// A member refused it, or the session is over.
    Refused(Errno),
    /// The patience is over.
    InDoubt(Doubt),
}

impl Undone {
    fn errno(self) -> Errno {
        match self {
            Undone::Refused(errno) => errno,
            Undone::InDoubt(_) => Errno(libc::EIO),
        }
    }
}

/// Where a change goes while both members serve. Otherwise it goes to the one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// To the member that leads, which sends it on.
    Leader,
    /// To both.
    Both,
    /// To both; if a disk refuses it, again to the one that leads: a change of the client-driven
    /// protocols.
    BothOrLeader,
}

impl To {
    /// For changes under a file's protocol.
    fn under(protocol: Protocol) -> To {
        match protocol {
            Protocol::ClientSync | Protocol::ClientAsync => To::BothOrLeader,
            _ => To::Leader,
        }
    }
}

/// A change of one object.
struct Target<'a> {
    object: Object,
    leader: Member,
    to: To,
    /// That it brings: they count against what may be under way at a member.
    bytes: u64,
    owing: Option<Owing<'a>>,
}

/// How long a change may still be tried. What waits for its place while the pair answers others is not
/// in trouble, however slow the pair is.
struct Clock<'a> {
    pairs: &'a Pairs,
    pair: &'a Pair,
    /// Since when it is tried, and how long it may be.
    began: Cell<(Mono, Duration)>,
    waits: Cell<bool>,
}

impl<'a> Clock<'a> {
    fn start(pairs: &'a Pairs, pair: &'a Pair) -> Clock<'a> {
        let began = (pairs.env.now(), pairs.patience_left(pair));
        Clock {
            pairs,
            pair,
            began: Cell::new(began),
            waits: Cell::new(false),
        }
    }

    fn restart(&self) {
        let began = (self.pairs.env.now(), self.pairs.patience_left(self.pair));
        self.began.set(began);
    }

    /// Waits for a place in a member's window; one at a time.
    async fn entered(&self, place: impl Future<Output = UnderWay<'a>>) -> UnderWay<'a> {
        let mut place = pin!(place);
        // Trying again is no waiting, or the patience would never be over.
        if let Poll::Ready(entered) = poll!(&mut place) {
            return entered;
        }
        self.waits.set(true);
        let entered = place.await;
        self.waits.set(false);
        if !self.pairs.is_given_up(self.pair) {
            self.restart();
        }
        entered
    }

    /// Returns when the patience is over.
    async fn over(&self) {
        loop {
            let (since, limit) = self.began.get();
            let tried = self.pairs.env.now().since(since);
            if tried < limit {
                self.pairs.env.sleep(limit - tried).await;
            } else if self.waits.get() && !self.pairs.is_given_up(self.pair) {
                self.restart();
            } else {
                return;
            }
        }
    }
}

/// The writer may go on when one member has the change; the second copy is then owed.
#[derive(Clone, Copy)]
struct Owing<'a> {
    number: u64,
    /// What is sent says of all below that they are on both members.
    confirmed_below: u64,
    /// Where it writes: both members must know that already.
    places: &'a Places,
    /// Where they do, of what is written under the same session.
    announced: &'a Announced,
    /// To be called then, perhaps more than once.
    goes_on: &'a dyn Fn(),
}

/// What an answer to a change says.
trait Answered {
    /// Takes over what it tells of the member. True: the member has the change and owes the second
    /// copy.
    fn take(&self, pair: &Pair, member: Member) -> bool;
}

impl Answered for WriteReply {
    fn take(&self, pair: &Pair, member: Member) -> bool {
        pair.told_room(member, self.room);
        pair.window(member).told(self.window);
        !self.both
    }
}

impl Answered for ShapeReply {
    fn take(&self, _: &Pair, _: Member) -> bool {
        false
    }
}

impl Answered for SyncReply {
    fn take(&self, _: &Pair, _: Member) -> bool {
        false
    }
}

/// One write of one object.
pub(crate) struct Write<'a> {
    pub object: Object,
    pub leader: Member,
    /// Of the file; not the hybrid, which is settled as another one before.
    pub protocol: Protocol,
    pub extents: Vec<Extent>,
    /// The bytes of the extents, one after the other.
    pub parts: Vec<Bytes>,
    /// Called when the writer may go on before both members have it.
    pub goes_on: &'a dyn Fn(),
}

impl Numbers {
    /// The oldest epoch of a pair under which a change that is still in progress began.
    fn oldest_epoch(&self, pair: u32) -> Option<u64> {
        let begun = self.begun.borrow();
        let of_pair = begun.values().filter(|(of, _)| *of == pair);
        of_pair.map(|(_, epoch)| *epoch).min()
    }
}

/// Says to a member which of a client's changes are on both, until it has heard of the last one that ended.
async fn confirm(env: Env, core: Weak<Core>, pair: Rc<Pair>, (group, member): (u32, Member)) {
    let written = pair.written(group);
    let mut told = 0;
    loop {
        env.sleep(CONFIRM_AFTER).await;
        let Some(core) = core.upgrade() else {
            return;
        };
        let Some(with) = core.sessions.with(group) else {
            break;
        };
        if with.is_closed() {
            break;
        }
        let below = core.pairs.confirmed_below(group);
        if below != told {
            let said = Confirmed {
                session: with.id(),
                below,
                given_up: Vec::new(),
            };
            if !core.pairs.has_heard(&pair, member, &with, &said).await {
                continue;
            }
        }
        // One that has not ended yet, perhaps of another pair, may hold back the word of those that have.
        if below > written.driven.get() {
            break;
        }
        told = below;
    }
    written.confirming[member.index()].set(false);
}

impl Pairs {
    /// Of each pair that is known the epoch of which it can be said that everything that was sent under
    /// an earlier one has ended (docs/protocols/losses.md).
    pub fn settled(&self) -> Vec<PairEpoch> {
        let states = self.states();
        let settled = states.iter().map(|state| {
            let oldest = self.numbers.oldest_epoch(state.pair.0);
            PairEpoch {
                pair: state.pair.0,
                epoch: oldest.unwrap_or(state.epoch.0).min(state.epoch.0),
            }
        });
        settled.collect()
    }

    /// One attempt at both members at the same time. `first` is under way at the member that leads.
    /// Where the writer may go on with one copy, that is the one: second copies are sent when
    /// nothing else waits.
    async fn at_both<R: Rpc<Reply: Answered>>(
        &self,
        clock: &Clock<'_>,
        session: u64,
        (leader, first): (Member, Option<(u64, UnderWay<'_>)>),
        request: &R,
        payload: Payload,
        owing: Option<Owing<'_>>,
    ) -> Result<(), (Member, Trouble)> {
        let pair = clock.pair;
        let epoch = pair.epoch();
        let answered = Notify::new();
        // Whether the member that leads has it.
        let first_copy = watch::Sender::new(None);
        let bytes = first.as_ref().map(|(bytes, _)| *bytes);
        let first = Cell::new(first);
        let one_copy = async |member: Member, payload| {
            let _under_way = match bytes {
                _ if member == leader => first.take().map(|(_, under_way)| under_way),
                None => None,
                Some(bytes) if owing.is_some() => {
                    let first_copy = first_copy.subscribe();
                    let place = self.enter_second(pair, member, bytes, first_copy);
                    Some(clock.entered(place).await)
                }
                Some(bytes) => Some(clock.entered(pair.window(member).enter(bytes)).await),
            };
            let reply = self.call(pair, member, session, request, payload).await;
            if member == leader {
                first_copy.send_replace(Some(reply.is_ok()));
            }
            let (reply, _) = reply.map_err(|trouble| (member, trouble))?;
            reply.take(pair, member);
            if let Some(owing) = owing {
                let below = owing.confirmed_below;
                owing.announced.told(member, epoch, below);
            }
            answered.notify_one();
            Ok(())
        };
        let zero = one_copy(Member::Zero, payload.clone());
        let one = one_copy(Member::One, payload);
        let both = futures_util::future::join(zero, one);
        let going_on = async {
            answered.notified().await;
            self.go_on(epoch, owing).await
        };
        let done = match select(pin!(both), pin!(going_on)).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => match never {},
        };
        if let (Ok(()), Ok(()), Some(owing)) = (&done.0, &done.1, owing) {
            let Owing { places, number, .. } = owing;
            owing.announced.both_have(places, epoch, number);
        }
        match done {
            // A disk that refused says most: what the other one did is settled after it.
            (_, Err((member, trouble @ Trouble::Errno(_)))) => Err((member, trouble)),
            (zero, one) => zero.and(one),
        }
    }

    /// A place for a second copy: when nothing else is to be sent to the member; before all else once the
    /// first copy cannot be made or has been the only one for half as long as it may be, or the pair's
    /// state is another.
    async fn enter_second<'a>(
        &self,
        pair: &'a Pair,
        member: Member,
        bytes: u64,
        mut first_copy: watch::Receiver<Option<bool>>,
    ) -> UnderWay<'a> {
        let due = async {
            let ended = first_copy.wait_for(Option::is_some).await;
            if ended.is_ok_and(|made| *made == Some(true)) {
                self.env.sleep(self.owed_age / 2).await;
            }
        };
        let window = pair.window(member);
        let nothing_unsent = async || pair.nothing_unsent(member).await;
        let mut last = pin!(window.enter_last(bytes, nothing_unsent).fuse());
        let mut due = pin!(due.fuse());
        let mut changed = pin!(pair.changed().fuse());
        select_biased! {
            under_way = last => return under_way,
            () = due => {}
            () = changed => {}
        }
        window.enter_next(bytes).await
    }

    /// One attempt at the member that leads, or at the only one that serves.
    async fn at_one<R: Rpc<Reply: Answered>>(
        &self,
        pair: &Pair,
        (member, session, epoch): (Member, u64, u64),
        under_way: Option<(u64, UnderWay<'_>)>,
        request: &R,
        payload: Payload,
        owing: Option<Owing<'_>>,
    ) -> Result<(), Trouble> {
        // Before it is sent: what is said of it later may come together with the answer.
        let owing = owing.map(|owing| (owing, pair.await_copy(member, owing.number)));
        // What is owed is owed under the state of the request, whatever comes meanwhile.
        let both_serve = pair.both_serve();
        let (reply, _) = self.call(pair, member, session, request, payload).await?;
        // The member has it, and says how much it owes by what it answers.
        drop(under_way);
        let owes = reply.take(pair, member);
        match owing {
            Some((owing, awaited)) if owes && both_serve => {
                let copied = self.copied(pair, (member, epoch), &awaited);
                let going_on = self.go_on(epoch, Some(owing));
                let said = match select(pin!(copied), pin!(going_on)).await {
                    Either::Left((said, _)) => said,
                    Either::Right((never, _)) => match never {},
                };
                if said.is_ok() {
                    let Owing { places, number, .. } = owing;
                    owing.announced.both_have(places, epoch, number);
                }
                said
            }
            Some((owing, _)) if both_serve => {
                let Owing { places, number, .. } = owing;
                owing.announced.both_have(places, epoch, number);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// One member has the write: the writer goes on as soon as both know where it is. Never ends.
    async fn go_on(&self, epoch: u64, owing: Option<Owing<'_>>) -> Infallible {
        if let Some(owing) = owing {
            let Owing { places, number, .. } = owing;
            owing.announced.known(places, epoch, number).await;
            (owing.goes_on)();
        }
        std::future::pending().await
    }

    /// Does a request at the members that the target names, until it is done or the patience is over.
    /// `request` makes it from the pair's epoch and whether the member that leads is to make the second
    /// copy.
    async fn do_change<R: Rpc<Reply: Answered>>(
        &self,
        core: &Rc<Core>,
        target: Target<'_>,
        mut request: impl FnMut(u64, To) -> R,
        payload: Payload,
    ) -> Result<(), Undone> {
        let Target {
            object,
            leader,
            mut to,
            bytes,
            mut owing,
        } = target;
        let pair = self.pair(object.pair);
        let with = core.session_of(object.ino);
        let session = with.id();
        if session == 0 {
            return Err(Undone::Refused(Errno(libc::EIO)));
        }
        let clock = Clock::start(self, &pair);
        // Who is asked first.
        let first_asked = || match pair.current() {
            (Some(_), Some(_)) => Some(leader),
            (sole, _) => sole,
        };
        let attempt = async {
            loop {
                let asked = first_asked();
                let under_way = match asked {
                    Some(member) if bytes > 0 => {
                        let place = pair.window(member).enter(bytes);
                        Some((bytes, clock.entered(place).await))
                    }
                    _ => None,
                };
                if with.id() != session {
                    return Err(Errno(libc::EIO));
                }
                if first_asked() != asked {
                    continue;
                }
                let epoch = pair.epoch();
                if let Some(owing) = &mut owing {
                    owing.confirmed_below = self.confirmed_below(with.group);
                }
                let request = request(epoch, to);
                let current = pair.current();
                let payload = payload.clone();
                let tried = match (current, asked) {
                    ((Some(_), Some(_)), Some(leader)) if to != To::Leader => {
                        let first = (leader, under_way);
                        self.at_both(&clock, session, first, &request, payload, owing)
                            .await
                    }
                    (_, Some(member)) => {
                        let at = (member, session, epoch);
                        let done = self.at_one(&pair, at, under_way, &request, payload, owing);
                        done.await.map_err(|trouble| (member, trouble))
                    }
                    (_, None) => Err((leader, Trouble::Away)),
                };
                let (member, trouble) = match tried {
                    Ok(()) => return Ok(()),
                    // The other one may have it, and nobody but the client knows. A leader makes
                    // both copies the same, or keeps the difference in its list.
                    Err((_, Trouble::Errno(errno)))
                        if to == To::BothOrLeader && current.1.is_some() =>
                    {
                        tracing::debug!(pair = object.pair, errno, "refused by one: again, led");
                        to = To::Leader;
                        // As `server-sync`: neither member notes where a client may go on alone.
                        owing = None;
                        continue;
                    }
                    Err(why) => why,
                };
                self.settle(core, (&pair, epoch, member), &with, trouble)
                    .await?;
            }
        };
        match select(pin!(attempt), pin!(clock.over())).await {
            Either::Left((result, _)) => result.map_err(Undone::Refused),
            Either::Right(((), _)) => Err(Undone::InDoubt(Doubt {
                group: with.group,
                session,
                object,
                epoch: pair.epoch(),
            })),
        }
    }

    /// A change that was given up may still be done.
    fn note_late(&self, core: &Rc<Core>, object: Object, done: &Result<(), Undone>) {
        if let Err(Undone::InDoubt(_)) = done {
            self.may_come_late(core, object);
        }
    }

    /// A number for a change, not confirmed until the guard says how it ended.
    fn number(&self, with: &Session, pair: u32) -> Unconfirmed<'_> {
        self.forget_doubts(with);
        let number = self.numbers.next.get();
        self.numbers.next.set(number + 1);
        let unconfirmed = &self.numbers.unconfirmed;
        unconfirmed.borrow_mut().insert((with.group, number));
        let begun = (pair, self.pair(pair).epoch());
        self.numbers.begun.borrow_mut().insert(number, begun);
        Unconfirmed(&self.numbers, number, with.group)
    }

    /// Doubts end with their session, which is fenced, and with the pair's epoch: whatever is in a
    /// modified list then has been compared before both members serve again.
    fn forget_doubts(&self, with: &Session) {
        let mut doubts = self.numbers.doubts.borrow_mut();
        doubts.retain(|number, doubt| {
            let is_over = doubt.group == with.group && doubt.session != with.id();
            let holds = !is_over && self.pair(doubt.object.pair).epoch() == doubt.epoch;
            if !holds {
                let unconfirmed = &self.numbers.unconfirmed;
                unconfirmed.borrow_mut().remove(&(doubt.group, *number));
            }
            holds
        });
    }

    /// Every change below it that this client makes under its session with a group is on both members, or
    /// with a leader that sees to it.
    fn confirmed_below(&self, group: u32) -> u64 {
        let unconfirmed = self.numbers.unconfirmed.borrow();
        let mut of_group = unconfirmed.range((group, 0)..=(group, u64::MAX));
        let first = of_group.next().map(|(_, number)| *number);
        first.unwrap_or(self.numbers.next.get())
    }

    /// A client-driven change of this number has ended: if no other one says so soon, the pair's members
    /// are told. Until then each counts what it has as what it alone may have.
    fn confirm_soon(&self, core: &Rc<Core>, pair: &Rc<Pair>, (group, number): (u32, u64)) {
        let written = pair.written(group);
        written.driven.set(written.driven.get().max(number));
        for member in [Member::Zero, Member::One] {
            if !written.confirming[member.index()].replace(true) {
                let (core, pair) = (Rc::downgrade(core), pair.clone());
                let confirming = confirm(self.env.clone(), core, pair, (group, member));
                self.env.spawn("confirm", confirming);
            }
        }
    }

    /// Says something of a session's changes to a member. True: it has heard it, or need not, for it is out of service (what
    /// is in its list is compared before it comes back) or the session is over.
    async fn has_heard(
        &self,
        pair: &Pair,
        member: Member,
        with: &Session,
        said: &Confirmed,
    ) -> bool {
        let is_over = with.id() != said.session || with.is_closed();
        if is_over || !pair.serves(member) {
            return true;
        }
        let saying = self.ask(pair, member, said.session, said, Payload::none());
        saying.await.is_ok()
    }

    /// Changes of a pair that were given up under a session.
    pub(super) fn given_up(&self, (pair, session): (u32, u64)) -> Vec<GivenUp> {
        let doubts = self.numbers.doubts.borrow();
        let of = doubts
            .iter()
            .filter(|(_, doubt)| (doubt.object.pair, doubt.session) == (pair, session));
        of.map(|(number, doubt)| GivenUp {
            object: Some(doubt.object.name()),
            operation: *number,
        })
        .collect()
    }

    /// Nothing of these is on its way any more: the members compare what they have, and wait for no word of them.
    pub(super) async fn say_given_up(
        &self,
        core: &Rc<Core>,
        pair: &Rc<Pair>,
        (with, session): (&Session, u64),
        given_up: Vec<GivenUp>,
    ) {
        let Some(last) = given_up.last().map(|last| last.operation) else {
            return;
        };
        let group = with.group;
        let said = Confirmed {
            session,
            below: self.confirmed_below(group),
            given_up,
        };
        for member in [Member::Zero, Member::One] {
            while !self.has_heard(pair, member, with, &said).await {
                self.env.sleep(CONFIRM_AFTER).await;
            }
        }
        for GivenUp { operation, .. } in &said.given_up {
            self.numbers.doubts.borrow_mut().remove(operation);
            let unconfirmed = &self.numbers.unconfirmed;
            unconfirmed.borrow_mut().remove(&(group, *operation));
        }
        self.confirm_soon(core, pair, (group, last));
    }

    /// Writes extents of one object; `parts` are their bytes one after the other. Returns when the
    /// copies that the pair's state demands are made. Under an asynchronous protocol `goes_on` is
    /// called when one is, perhaps more than once.
    ///
    /// # Errors
    /// What a disk said, or EIO when the session or the patience is over. Some copies may be made.
    pub async fn write(&self, core: &Rc<Core>, write: Write<'_>) -> Result<(), Errno> {
        let Write {
            object,
            leader,
            protocol,
            extents,
            parts,
            goes_on,
        } = write;
        let with = core.session_of(object.ino);
        let session = with.id();
        let number = self.number(&with, object.pair);
        let crc = parts
            .iter()
            .fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        let make = |epoch, to| WriteRequest {
            session,
            epoch,
            pair: object.pair,
            object: Some(object.name()),
            extents: extents.clone(),
            protocol: match (to, protocol) {
                (To::Leader, Protocol::ServerAsync) => Protocol::ServerAsync,
                (To::Leader, _) => Protocol::ServerSync,
                (To::Both | To::BothOrLeader, Protocol::ClientAsync) => Protocol::ClientAsync,
                (To::Both | To::BothOrLeader, _) => Protocol::ClientSync,
            } as i32,
            operation: number.1,
            confirmed_below: self.confirmed_below(with.group),
        };
        let to = To::under(protocol);
        let is_owed = matches!(protocol, Protocol::ServerAsync | Protocol::ClientAsync);
        let places = Places::of(object, &extents);
        let written = self.pair(object.pair).written(with.group);
        let owing = is_owed.then_some(Owing {
            number: number.1,
            confirmed_below: 0,
            places: &places,
            announced: &written.announced,
            goes_on,
        });
        let target = Target {
            object,
            leader,
            to,
            bytes: extents.iter().map(|extent| u64::from(extent.length)).sum(),
            owing,
        };
        let done = self.do_change(core, target, make, Payload::parts_summed(parts, crc));
        let done = done.await;
        if to == To::BothOrLeader {
            // However it ended.
            let epoch = self.pair(object.pair).epoch();
            written.announced.sent_to_both(&places, epoch, number.1);
        }
        self.note_late(core, object, &done);
        let ended = number.ended(to, done);
        self.ended(core, object.pair, to, number);
        ended
    }

    /// A change has ended, well or not.
    fn ended(&self, core: &Rc<Core>, pair: u32, to: To, number: Unconfirmed<'_>) {
        let (of, group) = (number.1, number.2);
        let begun = self.numbers.begun.borrow().get(&of).copied();
        drop(number);
        // Perhaps the last one of those that began under an earlier state.
        if begun.is_some_and(|(_, epoch)| epoch < self.pair(pair).epoch()) {
            self.resettled();
        }
        if to == To::BothOrLeader {
            self.confirm_soon(core, &self.pair(pair), (group, of));
        }
    }

    /// Cuts an object, or makes holes in it, on both members under every protocol.
    ///
    /// # Errors
    /// As [`Pairs::write`].
    pub async fn shape(
        &self,
        core: &Rc<Core>,
        object: Object,
        protocol: Protocol,
        truncate: Option<u64>,
        punch: Vec<weft_wire::proto::Range>,
    ) -> Result<(), Errno> {
        let with = core.session_of(object.ino);
        let session = with.id();
        let number = self.number(&with, object.pair);
        let make = |epoch, to| ShapeRequest {
            session,
            epoch,
            pair: object.pair,
            object: Some(object.name()),
            truncate,
            punch: punch.clone(),
            operation: number.1,
            protocol: match to {
                To::Leader => Protocol::ServerSync,
                To::Both | To::BothOrLeader => Protocol::ClientSync,
            } as i32,
        };
        let to = To::under(protocol);
        let target = Target {
            object,
            leader: Member::Zero,
            to,
            bytes: 0,
            owing: None,
        };
        let done = self.do_change(core, target, make, Payload::none());
        let done = done.await;
        self.note_late(core, object, &done);
        let ended = number.ended(to, done);
        self.ended(core, object.pair, to, number);
        ended
    }

    /// Makes what this client wrote to an object stable on every member that is current.
    ///
    /// # Errors
    /// As [`Pairs::write`].
    pub async fn sync(&self, core: &Rc<Core>, object: Object) -> Result<(), Errno> {
        let session = core.session_id_of(object.ino).await?;
        let make = |epoch, _| SyncRequest {
            session,
            epoch,
            pair: object.pair,
            objects: vec![object.name()],
        };
        let target = Target {
            object,
            leader: Member::Zero,
            to: To::Both,
            bytes: 0,
            owing: None,
        };
        let done = self.do_change(core, target, make, Payload::none());
        done.await.map_err(Undone::errno)
    }
}
