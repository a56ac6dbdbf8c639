//! The end of sessions that are no longer renewed, and of those that do not give back what is asked.
//!
//! ```text
//! open --term passed-----------------------------> ending --fenced, files settled--> closed
//!   \--a lease not given back--> refused --term passed--^
//! ```
//! A refused session is not renewed any more. Whether it hears that nobody knows, so it keeps its
//! leases until the term of its last renewal is over. An ending session's requests are refused and its
//! READ leases are gone. For each inode that it held WRITE on, the pairs make their copies equal and
//! say how far the data reaches; then the inode is free for others. A pair that nobody serves now
//! keeps its inodes locked until somebody does, and no others.

use crate::server::{Core, Meta};
use crate::sessions::Stage;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::Payload;
use weft_types::{Ino, PairId, SessionId, Sn, StripeMap};
use weft_wire::proto::{self, FenceRequest, Layout, ObjectName, op};

/// How often terms are looked at: a fraction of the shortest term that may be set.
const CLOCK: Duration = Duration::from_millis(25);
/// Added to a term: clients count it by clocks of their own.
const MARGIN_DIVISOR: u32 = 20;
/// When the clock woke this much too late, this server stood still and renewals may wait in its
/// sockets: nobody ends before they are read, nor for want of an answer that could not be heard.
const STALL: Duration = Duration::from_millis(100);
/// For reading what came during a stall.
const STALL_CATCH_UP: Duration = Duration::from_millis(50);
/// What could not be settled is tried again after this.
const SETTLE_RETRY: Duration = Duration::from_millis(200);
/// Objects in one order: some milliseconds of a data server's work.
const OBJECTS_MAX: usize = 256;
/// A data server that takes longer over an order is asked again (by then the pair may have another
/// state). Comparing copies can take long.
const ORDER_PATIENCE: Duration = Duration::from_secs(30);

/// Ends sessions whose time has come.
pub(crate) async fn run(meta: Rc<Meta>) {
    let term = meta.settings.session_term();
    let margin = term / MARGIN_DIVISOR;
    let mut pause = CLOCK;
    loop {
        let before = meta.env.now();
        meta.env.sleep(pause).await;
        let now = meta.env.now();
        let late = now.since(before).saturating_sub(pause);
        if late > STALL {
            meta.core.borrow_mut().leases.stood_still(now, late);
            // It may stand still in that time, too.
            pause = STALL_CATCH_UP;
            continue;
        }
        pause = CLOCK;
        let core = &mut *meta.core.borrow_mut();
        let over: Vec<SessionId> = core
            .sessions
            .iter()
            .filter(|(_, live)| live.stage != Stage::Ending && live.deadline + margin < now)
            .map(|(session, _)| *session)
            .collect();
        let asked_before = weft_env::Mono(now.0.saturating_sub((term + margin).as_nanos() as u64));
        for session in core.leases.silent_since(asked_before) {
            refuse_session(core, session);
        }
        for session in over {
            meta.end_session(core, session);
        }
    }
}

/// The session keeps others waiting: it is not served or renewed any more, so that its term ends.
fn refuse_session(core: &mut Core, session: SessionId) {
    let Some(live) = core.sessions.get_mut(&session) else {
        return;
    };
    if live.stage != Stage::Open {
        return;
    }
    let name = core.state.session_name(session);
    tracing::warn!(%session, name, "a session has not given a lease back in its term");
    live.stage = Stage::Refused;
    if let Some(connection) = live.connection.take() {
        connection.close("a lease was not given back in time");
    }
}

impl Meta {
    /// The session is over: nobody hears it any more, what it was writing is settled.
    fn end_session(self: &Rc<Self>, core: &mut Core, session: SessionId) {
        let Some(live) = core.sessions.get_mut(&session) else {
            return;
        };
        live.stage = Stage::Ending;
        let was_back = live.is_back;
        if let Some(connection) = live.connection.take() {
            connection.close("the session's term has passed");
        }
        let state = &core.state;
        let name = state.session_name(session);
        tracing::warn!(%session, name, writing = state.write_leases_of(session).len(),
            "session ends: not renewed in time");
        core.metrics.sessions_expired.inc();
        core.ranges
            .session_ended(session, |ino| state.writes(ino, session));
        for ino in core.leases.remove_session(session) {
            self.retry(core, ino);
        }
        if !was_back {
            core.away -= 1;
            self.retry_returned(core);
        }
        let meta = self.clone();
        self.spawn("session end", async move {
            // Those that it had given back have no writes of it under way; but who knows it as alive
            // need not.
            meta.fence_everywhere(session).await;
            let written = meta.core.borrow().state.write_leases_of(session);
            meta.settle(session, session, written).await;
            let sn = {
                let core = &mut *meta.core.borrow_mut();
                meta.close_session(core, session, false)
            };
            if meta.committed(sn).await.is_ok() {
                tracing::info!(%session, "session closed after its term");
            }
        });
    }

    /// Takes a session out of the state and the tables. Answers the batch.
    pub(crate) fn close_session(
        self: &Rc<Self>,
        core: &mut Core,
        session: SessionId,
        clean: bool,
    ) -> Sn {
        let locked = core.state.locks_of(session);
        let mut concerned = core.state.write_leases_of(session);
        let close = proto::CloseSession {
            session: session.0,
            clean,
        };
        let (_, sn) = self.apply_own(core, op::Op::CloseSession(close));
        core.sessions.remove(&session);
        core.ranges.session_ended(session, |_| false);
        core.jobs.session_ended(session);
        self.jobs_changed.notify_one();
        concerned.extend(core.leases.remove_session(session));
        core.forget_lock_waiter(session);
        for ino in concerned {
            self.retry(core, ino);
        }
        self.retry_returned(core);
        self.when_committed(core, sn, move |meta, core, result| {
            if result.is_ok() {
                for ino in locked {
                    core.tell_lock_freed(ino);
                }
                meta.deletions_changed.notify_one();
            }
        });
        sn
    }

    /// Files whose WRITE leases a session gave back in an earlier reign, without that being known.
    pub(crate) fn settle_given_back(
        self: &Rc<Self>,
        core: &mut Core,
        session: SessionId,
        mut inos: Vec<Ino>,
    ) {
        // A session may be taken up again meanwhile. To settle a file twice would take away the lease that
        // it has been given after the first time.
        inos.retain(|ino| core.settled_of.insert((*ino, session)));
        core.settling.extend(&inos);
        tracing::warn!(%session, files = inos.len(),
            "settling files whose leases were given back as the last reign ended");
        let meta = self.clone();
        self.spawn("settle", async move {
            meta.settle(session, SessionId(0), inos).await;
        });
    }

    /// Tells all data servers that can be reached to refuse a session. Those that are away learn it
    /// when they register.
    pub(crate) async fn fence_everywhere(self: &Rc<Self>, session: SessionId) {
        let mut calls = Vec::new();
        {
            let core = self.core.borrow();
            for pair in core.pairs.ids() {
                for connection in core.pairs.connections(pair) {
                    let env = self.env.clone();
                    calls.push(async move {
                        let fence = FenceRequest {
                            session: session.0,
                            objects: Vec::new(),
                            refuse_only: true,
                            ..FenceRequest::default()
                        };
                        let call = connection.call(&fence, Payload::none());
                        match env.timeout(ORDER_PATIENCE, call).await {
                            Ok(Ok(_)) => {}
                            Ok(Err(error)) => {
                                tracing::info!(%pair, %session, %error, "fencing failed");
                            }
                            Err(_) => {
                                tracing::warn!(%pair, %session, "fencing is not answered");
                            }
                        }
                    });
                }
            }
        }
        futures_util::future::join_all(calls).await;
    }

    /// Finds the sizes of files again that `writer` wrote, and frees them from its leases. Data servers
    /// hear of no session's end if `session` is 0. Returns when all are done.
    pub(crate) async fn settle(
        self: &Rc<Self>,
        writer: SessionId,
        session: SessionId,
        inos: Vec<Ino>,
    ) {
        let mut left: Vec<Unsettled> = {
            let core = self.core.borrow();
            inos.into_iter()
                .map(|ino| Unsettled::of(&core, ino, writer))
                .collect()
        };
        loop {
            let mut wanted: BTreeMap<PairId, Vec<(usize, ObjectName, bool)>> = BTreeMap::new();
            for (at, file) in left.iter().enumerate() {
                for pair in file.unknown() {
                    let objects = wanted.entry(pair).or_default();
                    if objects.len() < OBJECTS_MAX {
                        objects.push((at, file.object(), file.asynchronous));
                    }
                }
            }
            let asked = wanted.into_iter().map(|(pair, objects)| async move {
                let named = objects.iter().map(|(_, name, kind)| (*name, *kind)).unzip();
                (self.lengths(session, pair, named).await, pair, objects)
            });
            let mut progress = false;
            for (lengths, pair, objects) in futures_util::future::join_all(asked).await {
                for ((at, _, _), length) in objects.into_iter().zip(lengths.into_iter().flatten()) {
                    left[at].known.insert(pair, length);
                    progress = true;
                }
            }
            let (done, rest): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|file| file.unknown().next().is_none());
            left = rest;
            for file in done {
                self.settled(file, writer);
            }
            if left.is_empty() {
                return;
            }
            if !progress {
                self.env.sleep(SETTLE_RETRY).await;
            }
        }
    }

    /// Lets a pair make its copies of these objects equal; answers how long they are. None: it
    /// cannot now.
    async fn lengths(
        self: &Rc<Self>,
        session: SessionId,
        pair: PairId,
        (objects, asynchronous): (Vec<ObjectName>, Vec<bool>),
    ) -> Option<Vec<u64>> {
        let (orders, settled_epoch, within) = {
            let core = self.core.borrow();
            let live = core.sessions.get(&session);
            let settled = live.map_or(0, |live| live.settled_epoch(pair));
            let within = objects.iter().map(|object| {
                let ino = Ino(object.ino);
                let layout = core.state.inode(ino).ok().and_then(|inode| inode.layout);
                let layout = layout.unwrap_or_default();
                crate::losses::written_of_object(&core, session, ino, &layout, pair)
            });
            let within: Vec<proto::ObjectRanges> = within.collect();
            (core.pairs.orders(pair)?, settled, within)
        };
        let count = objects.len();
        // The leader fences its twin first, where that takes part in writes.
        let fence = FenceRequest {
            session: session.0,
            objects,
            refuse_only: false,
            settled_epoch,
            asynchronous,
            within,
        };
        let work = orders.leader.call(&fence, Payload::none());
        let failure = match self.env.timeout(ORDER_PATIENCE, work).await {
            Ok(Ok((reply, _))) if reply.lengths.len() == count => return Some(reply.lengths),
            Ok(Ok(_)) => "it told lengths of other objects".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::info!(%pair, %session, failure, "a pair cannot settle files now");
        None
    }

    fn settled(self: &Rc<Self>, file: Unsettled, writer: SessionId) {
        let core = &mut *self.core.borrow_mut();
        let ino = file.ino;
        core.settled_of.remove(&(ino, writer));
        let Ok(inode) = core.state.inode(ino) else {
            core.settling.remove(&ino);
            return self.retry(core, ino);
        };
        let told = inode.attr.map_or(0, |attr| attr.size);
        // What the writer had told stands: a file may end in a hole.
        let size = told.max(file.found());
        let settled = proto::SettledSize {
            ino: ino.0,
            size,
            session: writer.0,
        };
        let before = core.state.file_size(ino);
        let (reply, _) = self.apply_own(core, op::Op::SettledSize(settled));
        if reply.failure_errno != 0 {
            tracing::error!(%ino, size, errno = reply.failure_errno, "a file cannot be settled");
        }
        core.note_told(ino, writer, 0, before);
        core.ranges.remove(ino, writer);
        core.settling.remove(&ino);
        core.leases.forget_revocation(ino, writer);
        self.retry(core, ino);
    }
}

/// A file whose size is being found.
struct Unsettled {
    ino: Ino,
    /// None: it is gone, or no regular file.
    layout: Option<Layout>,
    /// Its writer may have left bytes on one member only.
    asynchronous: bool,
    known: BTreeMap<PairId, u64>,
}

impl Unsettled {
    fn of(core: &Core, ino: Ino, writer: SessionId) -> Unsettled {
        let layout = core.state.inode(ino).ok().and_then(|inode| inode.layout);
        Unsettled {
            ino,
            asynchronous: layout
                .as_ref()
                .is_some_and(|layout| crate::losses::may_lack(core, writer, ino, layout)),
            layout,
            known: BTreeMap::new(),
        }
    }

    fn object(&self) -> ObjectName {
        let generation = self.layout.as_ref().map_or(0, |layout| layout.generation);
        ObjectName {
            ino: self.ino.0,
            generation,
        }
    }

    fn pairs(&self) -> impl Iterator<Item = PairId> + '_ {
        self.layout
            .iter()
            .flat_map(|layout| layout.pairs.iter().copied().map(PairId))
    }

    fn unknown(&self) -> impl Iterator<Item = PairId> + '_ {
        self.pairs().filter(|pair| !self.known.contains_key(pair))
    }

    /// The size that the objects prove.
    fn found(&self) -> u64 {
        let pairs: Vec<PairId> = self.pairs().collect();
        let unit = self.layout.as_ref().map_or(0, |layout| layout.stripe_unit);
        let Some(map) = StripeMap::new(unit, pairs.clone()) else {
            return 0;
        };
        let sizes = pairs.iter().enumerate().map(|(at, pair)| {
            map.size_from_object(at, self.known.get(pair).copied().unwrap_or_default())
        });
        sizes.max().unwrap_or_default()
    }
}
