//! From an applied entry to the reply: batches, and who waits for the commit.
//!
//! An entry is applied when it arrives and joins the batch that is being gathered. One task proposes
//! batches, a few at a time; entries gather in the next meanwhile. Whatever waits for an entry (its own
//! reply, or that of a read that saw it) leaves when its batch is committed.
//!
//! What this keeps true: nothing is answered that is not committed. While the disk is full, new changes
//! are answered ENOSPC before they are applied, but for those that give something back, and, as long as the reserve
//! lasts, for those that make room. When the disk fails and there is no other member to go
//! on, nothing is committed from then on.

use crate::reign::{Core, Meta};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use weft_journal::SyncPolicy;
use weft_types::{Epoch, FixedMap, Ino, Sn};
use weft_wire::Failed;
use weft_wire::proto::{Batch, Entry};

/// Entries of a batch: enough that one flush serves all that arrive during the one before, few enough
/// that their replies leave together without a pause.
const BATCH_ENTRIES_MAX: usize = 4096;
/// Bytes of a batch after which the next begins. With the largest entry still far below the longest
/// batch that the journal takes.
const BATCH_BYTES: usize = 1 << 20;
/// Entries that may wait for the journal. More come only when the disk has stopped.
const QUEUED_ENTRIES_MAX: usize = 1 << 16;
/// Batches that may be on their way to the journals. Each that is added waits for less than a round trip
/// and a flush, but gathers less; a journal writes all that wait for it together.
const IN_FLIGHT_MAX: usize = 4;
/// Changes are refused when less than this is left: what has been applied still finds room.
const ROOM_BYTES: u64 = 8 << 20;
/// And those that make room when less than this is left: a disk that is full can be made empty by who uses it. Enough
/// for tens of thousands of removals; their room comes back when the next image lets journal files go.
const RESERVE_BYTES: u64 = 4 << 20;
/// How often the room is looked at.
pub(crate) const ROOM_EVERY: Duration = Duration::from_millis(500);

/// Called when the batch is committed, or never will be.
pub(crate) type Waiter = Box<dyn FnOnce(&Rc<Meta>, &mut Core, Result<(), Failed>)>;

#[derive(Default)]
struct Gathering {
    sn: Sn,
    entries: Vec<Entry>,
    bytes: usize,
    waiters: Vec<Waiter>,
    /// What its entries changed.
    inos: Vec<Ino>,
}

struct Proposed {
    sn: Sn,
    entries: usize,
    waiters: Vec<Waiter>,
    inos: Vec<Ino>,
}

/// How much room the journal's disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    /// For what makes room.
    Reserve,
    None,
}

/// Changes that are refused though nothing stands in their way, as if the disk were full: for tests of those who ask.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// One in so many is.
    pub one_in: u64,
    /// With one of these.
    pub errnos: Vec<i32>,
}

/// The way of entries into the journal.
pub(crate) struct Commits {
    sync: SyncPolicy,
    /// Batches not proposed yet; entries join the last one.
    queue: VecDeque<Gathering>,
    queued: usize,
    next: Sn,
    committed: Sn,
    /// Those with a batch at hand (written now) and above the committed one: sn of the last change.
    uncommitted: FixedMap<Ino, Sn>,
    /// A change whose inodes are not named is in this batch.
    barrier: Sn,
    /// Proposed and not committed, in order.
    in_flight: VecDeque<Proposed>,
    broken: Option<String>,
    room: Room,
    refusals: Option<Refusals>,
    /// The last batch that nothing more may join, and whether later ones wait.
    cut_at: Sn,
    is_held: bool,
}

impl Commits {
    pub(crate) fn new(sync: SyncPolicy, next: Sn) -> Commits {
        Commits {
            sync,
            queue: VecDeque::new(),
            queued: 0,
            next,
            committed: Sn(next.0 - 1),
            uncommitted: FixedMap::default(),
            barrier: Sn(0),
            in_flight: VecDeque::new(),
            broken: None,
            room: Room::Enough,
            refusals: None,
            cut_at: Sn(0),
            is_held: false,
        }
    }

    /// The last batch that is committed.
    pub(crate) fn committed(&self) -> Sn {
        self.committed
    }

    /// Why no change is taken now, if that is so.
    pub(crate) fn refusal(&self) -> Option<Failed> {
        let full = (self.room != Room::Enough).then_some(Failed::Errno(libc::ENOSPC));
        self.refusal_to_give_back().or(full)
    }

    /// The same for what makes room, or comes to do so.
    pub(crate) fn refusal_to_make_room(&self) -> Option<Failed> {
        let full = (self.room == Room::None).then_some(Failed::Errno(libc::ENOSPC));
        self.refusal_to_give_back().or(full)
    }

    /// The same for what only gives something back. A full disk is no reason: what is refused then would
    /// stay locked, or open, after whoever had it has gone. It waits for room, as what was applied before
    /// the disk was full does.
    pub(crate) fn refusal_to_give_back(&self) -> Option<Failed> {
        if self.broken.is_some() {
            return Some(Failed::Unavailable("the journal's disk has failed".into()));
        }
        (self.queued >= QUEUED_ENTRIES_MAX)
            .then(|| Failed::Unavailable("the journal's disk does not keep up".into()))
    }

    /// Refuses some changes from now on, or none.
    pub(crate) fn set_refusals(&mut self, refusals: Option<Refusals>) {
        self.refusals = refusals.filter(|refusals| !refusals.errnos.is_empty());
    }

    /// What a change is refused with for a test, by a number drawn at random.
    pub(crate) fn refused_for_a_test(&self, draw: impl FnOnce() -> u64) -> Option<Failed> {
        let refusals = self.refusals.as_ref()?;
        let (draw, one_in) = (draw(), refusals.one_in.max(1));
        let errno = refusals.errnos[(draw / one_in) as usize % refusals.errnos.len()];
        draw.is_multiple_of(one_in).then_some(Failed::Errno(errno))
    }

    /// Notes how much room the disk has for changes.
    pub(crate) fn set_room(&mut self, free: u64) {
        let room = match free {
            0..RESERVE_BYTES => Room::None,
            RESERVE_BYTES..ROOM_BYTES => Room::Reserve,
            _ => Room::Enough,
        };
        match (self.room, room) {
            (Room::Enough, Room::Reserve | Room::None) => {
                tracing::error!(
                    free,
                    "the journal's disk is full: changes are answered ENOSPC, but for those that make room"
                );
            }
            (Room::Reserve | Room::None, Room::Enough) => {
                tracing::info!("the journal's disk has room again");
            }
            (Room::Reserve, Room::None) => {
                tracing::error!(
                    free,
                    "the journal's disk is full: removals are answered ENOSPC, too"
                );
            }
            _ => {}
        }
        self.room = room;
    }

    /// Adds an applied entry. `inos`: what it changed; None: more than can be named. Answers the
    /// batch it is in.
    pub(crate) fn push(&mut self, entry: Entry, inos: Option<&[Ino]>) -> Sn {
        if self.broken.is_some() {
            // Never written: who waits for this one is told so.
            return self.next;
        }
        let bytes = prost::Message::encoded_len(&entry);
        let closed = match self.queue.back() {
            None => true,
            Some(last) => {
                self.sync == SyncPolicy::Always
                    || last.sn == self.cut_at
                    || last.entries.len() >= BATCH_ENTRIES_MAX
                    || last.bytes + bytes > BATCH_BYTES
            }
        };
        if closed {
            self.queue.push_back(Gathering {
                sn: self.next,
                ..Gathering::default()
            });
            self.next.0 += 1;
        }
        let last = self
            .queue
            .back_mut()
            .expect("pushed above if there was none");
        last.entries.push(entry);
        last.bytes += bytes;
        self.queued += 1;
        match inos {
            Some(inos) => {
                for ino in inos {
                    self.uncommitted.insert(*ino, last.sn);
                    last.inos.push(*ino);
                }
            }
            None => self.barrier = last.sn,
        }
        last.sn
    }

    /// The newest batch ends with the newest entry, and later ones are not handed out until [`Commits::go_on`].
    pub(crate) fn hold(&mut self) {
        self.cut_at = self.newest();
        self.is_held = true;
    }

    /// Hands batches out again.
    pub(crate) fn go_on(&mut self) {
        self.is_held = false;
    }

    /// The batch that must be committed before an answer that saw these inodes may leave.
    pub(crate) fn seen(&self, inos: impl IntoIterator<Item = Ino>) -> Sn {
        if self.uncommitted.is_empty() {
            return self.barrier;
        }
        let of = |ino| self.uncommitted.get(&ino).copied().unwrap_or_default();
        inos.into_iter()
            .map(of)
            .max()
            .unwrap_or_default()
            .max(self.barrier)
    }

    /// The batch of the newest entry there is.
    pub(crate) fn newest(&self) -> Sn {
        Sn(self.next.0 - 1)
    }

    /// Everything that has been applied is committed.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.committed == self.newest()
    }

    /// Calls `waiter` when batch `sn` is committed: at once if it is. Answers it back then.
    fn wait(&mut self, sn: Sn, waiter: Waiter) -> Option<(Waiter, Result<(), Failed>)> {
        if sn <= self.committed {
            return Some((waiter, Ok(())));
        }
        if let Some(why) = &self.broken {
            return Some((waiter, Err(Failed::Unavailable(why.clone()))));
        }
        if let Some(proposed) = self.in_flight.iter_mut().find(|batch| batch.sn == sn) {
            proposed.waiters.push(waiter);
            return None;
        }
        match self.queue.iter_mut().find(|batch| batch.sn == sn) {
            Some(batch) => {
                batch.waiters.push(waiter);
                None
            }
            None => Some((
                waiter,
                Err(Failed::Unavailable("the batch is unknown".into())),
            )),
        }
    }

    /// The next batch, if it may be proposed now.
    fn take(&mut self, epoch: Epoch) -> Option<Batch> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        if self.is_held
            && self
                .queue
                .front()
                .is_some_and(|batch| batch.sn > self.cut_at)
        {
            return None;
        }
        let batch = self.queue.pop_front()?;
        self.queued -= batch.entries.len();
        self.in_flight.push_back(Proposed {
            sn: batch.sn,
            entries: batch.entries.len(),
            waiters: batch.waiters,
            inos: batch.inos,
        });
        Some(Batch {
            epoch: epoch.0,
            sn: batch.sn.0,
            entries: batch.entries,
        })
    }

    /// The oldest batch that was proposed, if it is committed with `sn`.
    fn done(&mut self, sn: Sn) -> Option<Proposed> {
        let proposed = self.in_flight.pop_front_if(|batch| batch.sn <= sn)?;
        self.committed = proposed.sn;
        for ino in &proposed.inos {
            if self.uncommitted.get(ino) == Some(&proposed.sn) {
                self.uncommitted.remove(ino);
            }
        }
        Some(proposed)
    }

    /// Nothing more is committed. Answers who waited for something.
    pub(crate) fn fail(&mut self, why: String) -> Vec<Waiter> {
        let in_flight = self.in_flight.drain(..);
        let mut waiters: Vec<Waiter> = in_flight.flat_map(|batch| batch.waiters).collect();
        for batch in self.queue.drain(..) {
            waiters.extend(batch.waiters);
        }
        self.queued = 0;
        self.broken = Some(why);
        waiters
    }
}

impl Meta {
    /// Calls `waiter` when batch `sn` is committed or never will be; at once if it is.
    pub(crate) fn when_committed(
        self: &Rc<Self>,
        core: &mut Core,
        sn: Sn,
        waiter: impl FnOnce(&Rc<Meta>, &mut Core, Result<(), Failed>) + 'static,
    ) {
        if sn <= core.commits.committed {
            // Without the box.
            return waiter(self, core, Ok(()));
        }
        if let Some((waiter, result)) = core.commits.wait(sn, Box::new(waiter)) {
            waiter(self, core, result);
        }
    }

    /// Returns when batch `sn` is committed.
    pub(crate) async fn committed(self: &Rc<Self>, sn: Sn) -> Result<(), Failed> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.when_committed(&mut self.core.borrow_mut(), sn, |_, _, result| {
            // Who no longer waits need not know.
            let _: Result<(), _> = tell.send(result);
        });
        told.await
            .unwrap_or_else(|_| Err(Failed::Unavailable("the server is stopping".into())))
    }

    /// All up to batch `sn` is committed: who waits for that goes on.
    pub(crate) fn on_committed(self: &Rc<Self>, sn: Sn) {
        let core = &mut *self.core.borrow_mut();
        while let Some(proposed) = core.commits.done(sn) {
            core.metrics.batch(proposed.entries);
            for waiter in proposed.waiters {
                waiter(self, core, Ok(()));
            }
        }
        self.gathered.notify_one();
    }

    /// The journal cannot be written, and no other member can go on: nothing is committed from now on.
    pub(crate) fn on_journal_failed(self: &Rc<Self>, why: String) {
        let core = &mut *self.core.borrow_mut();
        let failed = Failed::Unavailable("the journal's disk has failed".into());
        for waiter in core.commits.fail(why) {
            waiter(self, core, Err(failed.clone()));
        }
        self.gathered.notify_one();
    }
}

/// Proposes batches until the reign ends.
pub(crate) async fn run(meta: Rc<Meta>) {
    loop {
        let taken = {
            let core = &mut *meta.core.borrow_mut();
            core.commits.take(core.epoch)
        };
        match taken {
            Some(batch) => (meta.propose)(batch),
            None => {
                let is_idle = {
                    let commits = &meta.core.borrow().commits;
                    commits.is_at_rest() || commits.broken.is_some()
                };
                if meta.stopping.get() && is_idle {
                    return meta.drained.notify_one();
                }
                meta.gathered.notified().await;
            }
        }
    }
}

/// Looks from time to time whether there is room for changes.
pub(crate) async fn watch_room(meta: Rc<Meta>) {
    loop {
        match meta.env.space(&meta.settings.dir) {
            Ok(space) => meta.core.borrow_mut().commits.set_room(space.free),
            Err(error) => tracing::warn!(%error, "cannot tell how much room the journal has"),
        }
        meta.env.sleep(ROOM_EVERY).await;
    }
}
