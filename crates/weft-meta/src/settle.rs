//! Finding out how far files reach whose writers cannot say it any more.
//!
//! The pairs make their copies of a file's objects equal and tell how long they are; what that proves of
//! the size is journaled, and the file is free of its writer's lease. A pair that nobody serves now keeps
//! its files waiting until somebody does, and no others.

use crate::leases::all_of;
use crate::reign::{Core, Meta};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::Payload;
use weft_types::{Ino, PairId, SessionId, StripeMap};
use weft_wire::proto::{self, FenceRequest, Layout, ObjectName, op};

/// What could not be settled is tried again after the first pause, and after twice as long each time, up to the
/// second. A new active is asked by clients before data servers have come to it, some milliseconds later.
const SETTLE_RETRY: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(200)];
/// A data server that takes longer over an order is asked again (by then the pair may have another
/// state). Comparing copies can take long.
pub(crate) const ORDER_PATIENCE: Duration = Duration::from_secs(30);
/// Objects in one order: some milliseconds of a data server's work.
const OBJECTS_MAX: usize = 256;

/// Files that are being settled although no lease in the state keeps others away: nobody gets a lease
/// on them meanwhile, nor changes them. With each the session that wrote it.
#[derive(Default)]
pub(crate) struct Settling(BTreeSet<(Ino, SessionId)>);

impl Settling {
    /// False: it is being settled after this writer already.
    pub(crate) fn begin(&mut self, ino: Ino, writer: SessionId) -> bool {
        self.0.insert((ino, writer))
    }

    /// Somebody's writes to it are being settled.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.0.range(all_of(ino)).next().is_some()
    }

    /// Somebody's writes to one of these are being settled.
    pub(crate) fn is_any_within(&self, inos: RangeInclusive<Ino>) -> bool {
        let (first, last) = (*inos.start(), *inos.end());
        let range = (first, SessionId(0))..=(last, SessionId(u64::MAX));
        self.0.range(range).next().is_some()
    }

    fn end(&mut self, ino: Ino, writer: SessionId) {
        self.0.remove(&(ino, writer));
    }
}

impl Meta {
    /// Files whose WRITE leases a session gave back in an earlier reign, without that being known.
    pub(crate) fn settle_given_back(
        self: &Rc<Self>,
        core: &mut Core,
        session: SessionId,
        mut inos: Vec<Ino>,
    ) {
        // A session may be taken up again meanwhile. To settle a file twice would take away the lease that
        // it has been given after the first time.
        inos.retain(|ino| core.settling.begin(*ino, session));
        tracing::warn!(%session, files = inos.len(),
            "settling files whose leases were given back as the last reign ended");
        let meta = self.clone();
        self.spawn("settle", async move {
            meta.settle(session, SessionId(0), inos).await;
        });
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
        let mut pause = SETTLE_RETRY[0];
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
            if progress {
                pause = SETTLE_RETRY[0];
            } else {
                self.env.sleep(pause).await;
                pause = (pause * 2).min(SETTLE_RETRY[1]);
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
        core.settling.end(ino, writer);
        let Ok(inode) = core.state.inode(ino) else {
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
                .is_some_and(|layout| crate::losses::may_lack(core, writer, layout)),
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
