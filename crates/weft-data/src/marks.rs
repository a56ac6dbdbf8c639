//! Which regions may differ from the twin, and when that is over.
//!
//! The modified list of the store is what survives; this is what the running server knows beside
//! it: how many operations are in progress in a region, and whether those that ended are on both
//! members. A region leaves the list only by an agreement of both members (`ClearRequest`), after
//! both have made its data stable: a power cut of one of them may take what it wrote lately, and
//! then the other's list must still name it.
//!
//! The exchange is safe whatever begins meanwhile: an operation changes the region's version on each member before it
//! writes there. So what the twin has made stable, and this member then takes out of its list, it did not change since;
//! and the twin takes it out only when it hears that, if nothing has begun there since it was asked. (What had ended there
//! by then had begun here.)

use crate::listed::{objects_of, runs_in};
use crate::owed::Held;
use crate::runs::RunMap;
use crate::server::Node;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::{Purpose, Store};
use weft_pair::{Mode, Now};
use weft_rpc::Payload;
use weft_types::{Epoch, Member, ObjectId, Region, Regions, Run};
use weft_wire::{Failed, proto};

/// Runs of regions cleared by one message: what a list of a few hundred objects has, and no long pause.
const CLEAR_BATCH: usize = 1024;
/// How often regions that could be cleared are looked for.
const CLEAR_EVERY: Duration = Duration::from_millis(500);

/// A region in which a disk has refused a change is settled when it has been quiet for this, if not sooner.
const REFUSED_AGE: Duration = Duration::from_secs(2);

/// What is known of a region since this server started.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// Operations in progress.
    running: u32,
    /// Changes with every operation that begins.
    version: u64,
    /// An operation ended without the certainty that both members have the same, or the region was
    /// in the list before this server looked.
    doubtful: bool,
    /// A disk has refused a change there: nothing is on its way, and the region is settled soon.
    refused: bool,
    /// `client-sync`: writes that this member has, and that the client has not said to be on both.
    unconfirmed: BTreeSet<(u64, u64)>,
    /// The version when the twin last took checksums to compare them.
    compared: u64,
    touched: Now,
}

impl Entry {
    fn is_settled(&self) -> bool {
        self.running == 0 && !self.doubtful && self.unconfirmed.is_empty()
    }
}

/// A write that waits for its client's word.
struct Unconfirmed {
    object: ObjectId,
    regions: Regions,
    /// What it has changed.
    bytes: Vec<Range<u64>>,
    /// When it ended here, and how much its client went on with, having it on this member alone.
    alone: Option<(Now, u64)>,
}

/// Bytes that a client has written here and not said to be on both members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsure {
    pub session: u64,
    pub object: ObjectId,
    pub range: Range<u64>,
}

#[derive(Default)]
struct Inner {
    regions: RunMap<Entry>,
    /// By session and operation: the writes that wait for the client's word.
    unconfirmed: BTreeMap<(u64, u64), Unconfirmed>,
    /// What sessions that have ended left so, until its regions are found equal.
    ended: Vec<Unsure>,
    /// How long clients went on with what this member alone was known to have.
    held: Held,
    /// The last version of any region. None is had twice, for an entry that is cleared comes anew with the next change.
    versions: u64,
}

impl Inner {
    /// What waits for the word of clients that have not ended.
    fn waiting(&self) -> impl Iterator<Item = Unsure> + '_ {
        let waiting = self.unconfirmed.iter();
        waiting.flat_map(|((session, _), awaited)| {
            awaited.bytes.iter().map(move |range| Unsure {
                session: *session,
                object: awaited.object,
                range: range.clone(),
            })
        })
    }

    /// An operation begins in these regions, which are not in the list of the store for it yet.
    fn begin(&mut self, store: &Store, object: ObjectId, regions: &Regions, now: Now) {
        for run in runs_of(object, regions) {
            for gap in self.regions.gaps(&run) {
                // What was in the list before: somebody else's doubt.
                let listed: Regions = store
                    .dirty_within(object, gap.clone())
                    .into_iter()
                    .collect();
                let new = listed.missing(gap).into_iter().map(|run| (run, false));
                let doubtful = listed.runs().iter().map(|run| (run.clone(), true));
                for (regions, doubtful) in new.chain(doubtful) {
                    let entry = Entry {
                        doubtful,
                        ..Entry::default()
                    };
                    self.regions.insert(Run { object, regions }, entry);
                }
            }
        }
        self.versions += 1;
        let version = self.versions;
        self.each(object, regions, |entry| {
            entry.running += 1;
            entry.version = version;
            entry.touched = now;
        });
    }

    /// Changes what is known of those of these regions of which anything is.
    fn each(&mut self, object: ObjectId, regions: &Regions, mut change: impl FnMut(&mut Entry)) {
        for run in runs_of(object, regions) {
            for (_, entry) in self.regions.within_mut(&run) {
                change(entry);
            }
        }
    }

    /// Nobody will say of this write that it is on both members.
    fn doubt(&mut self, operation: (u64, u64), awaited: &Unconfirmed) {
        self.each(awaited.object, &awaited.regions, |entry| {
            entry.doubtful |= entry.unconfirmed.remove(&operation);
        });
    }

    /// Regions are equal on both members: what sessions that have ended left there is on both.
    fn forget_ended(&mut self, run: &Run) {
        if self.ended.is_empty() {
            return;
        }
        let span = run.span();
        let left = std::mem::take(&mut self.ended).into_iter();
        self.ended = left
            .flat_map(|left| {
                let parts = match left.object == run.object {
                    true => {
                        crate::alone::minus(vec![left.range.clone()], std::slice::from_ref(&span))
                    }
                    false => vec![left.range.clone()],
                };
                parts.into_iter().map(move |range| Unsure {
                    range,
                    ..left.clone()
                })
            })
            .collect();
    }
}

/// The running server's knowledge of regions.
#[derive(Clone, Default)]
pub(crate) struct Marks(Rc<RefCell<Inner>>);

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both members have the same, or the other one leads it and vouches.
    Alike,
    /// They may differ.
    Doubtful,
    /// The same, since a disk refused; nothing more of it comes.
    Refused,
    /// Alike once the client says so.
    WhenConfirmed {
        session: u64,
        operation: u64,
        /// Bytes that the client may have gone on with though this member alone has them.
        alone: u64,
    },
}

/// An operation in progress. If it is dropped without [`Intent::end`], its regions are doubtful.
pub(crate) struct Intent {
    marks: Marks,
    object: ObjectId,
    regions: Regions,
}

impl Intent {
    /// On which it is.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// What it may change.
    pub fn runs(&self) -> Vec<Run> {
        runs_of(self.object, &self.regions).collect()
    }

    /// The operation has ended.
    pub fn end(mut self, ended: Ended, now: Now) {
        self.finish(ended, Vec::new(), Some(now));
    }

    /// The same of a write that waits for its client's word; what it has changed.
    pub fn end_unsure(mut self, ended: Ended, bytes: Vec<Range<u64>>, now: Now) {
        self.finish(ended, bytes, Some(now));
    }

    fn finish(&mut self, ended: Ended, bytes: Vec<Range<u64>>, now: Option<Now>) {
        let regions = std::mem::take(&mut self.regions);
        let inner = &mut *self.marks.0.borrow_mut();
        inner.each(self.object, &regions, |entry| {
            entry.running -= 1;
            entry.touched = now.unwrap_or(entry.touched);
            match ended {
                Ended::Alike => {}
                Ended::Doubtful => entry.doubtful = true,
                Ended::Refused => (entry.doubtful, entry.refused) = (true, true),
                Ended::WhenConfirmed {
                    session, operation, ..
                } => {
                    entry.unconfirmed.insert((session, operation));
                }
            }
        });
        if let Ended::WhenConfirmed {
            session,
            operation,
            alone,
        } = ended
        {
            let alone = now.filter(|_| alone > 0).map(|now| (now, alone));
            let unconfirmed = Unconfirmed {
                object: self.object,
                regions,
                bytes,
                alone,
            };
            inner.unconfirmed.insert((session, operation), unconfirmed);
        }
    }
}

impl Drop for Intent {
    fn drop(&mut self) {
        if !self.regions.is_empty() {
            self.finish(Ended::Doubtful, Vec::new(), None);
        }
    }
}

impl Marks {
    /// An operation on an object that has not begun yet: see [`Marks::widen`].
    pub fn intent(&self, object: ObjectId) -> Intent {
        Intent {
            marks: self.clone(),
            object,
            regions: Regions::default(),
        }
    }

    /// Puts the regions in the modified list. The operation may begin when this returns.
    ///
    /// # Errors
    /// As [`Store::mark`].
    pub async fn begin(
        &self,
        store: &Store,
        object: ObjectId,
        regions: &[Range<u32>],
        (purpose, durable): (Purpose, bool),
        now: Now,
    ) -> weft_objects::Result<Intent> {
        let mut intent = self.intent(object);
        match self
            .widen(&mut intent, store, regions, (purpose, durable), now)
            .await
        {
            Ok(()) => Ok(intent),
            Err(error) => {
                // It does not begin: nothing has become different.
                intent.end(Ended::Alike, now);
                Err(error)
            }
        }
    }

    /// The same for regions beside those that an operation has marked already.
    ///
    /// # Errors
    /// As [`Store::mark`]; it then must not go on.
    pub async fn widen(
        &self,
        intent: &mut Intent,
        store: &Store,
        regions: &[Range<u32>],
        (purpose, durable): (Purpose, bool),
        now: Now,
    ) -> weft_objects::Result<()> {
        let object = intent.object;
        let mut added = Regions::default();
        for range in regions {
            for new in intent.regions.missing(range.clone()) {
                intent.regions.insert(new.clone());
                added.insert(new);
            }
        }
        self.0.borrow_mut().begin(store, object, &added, now);
        for run in added.runs() {
            store.mark(object, run.clone(), purpose, durable).await?;
        }
        Ok(())
    }

    /// The client says that its writes below this number are on both members.
    pub fn confirmed_below(&self, session: u64, below: u64, now: Now) {
        let inner = &mut *self.0.borrow_mut();
        let later = inner.unconfirmed.split_off(&(session, below));
        let earlier = inner.unconfirmed.split_off(&(session, 0));
        for (operation, awaited) in earlier {
            if let Some((since, _)) = awaited.alone {
                inner.held.add(now.saturating_sub(since));
            }
            inner.each(awaited.object, &awaited.regions, |entry| {
                entry.unconfirmed.remove(&operation);
            });
        }
        inner.unconfirmed.extend(later);
    }

    /// The session has ended: its client will neither send its second copies nor say that it has.
    pub fn session_ended(&self, session: u64) {
        let inner = &mut *self.0.borrow_mut();
        let later = inner.unconfirmed.split_off(&(session, u64::MAX));
        let ended = inner.unconfirmed.split_off(&(session, 0));
        for (operation, awaited) in ended {
            inner.doubt(operation, &awaited);
            let left = awaited.bytes.into_iter().map(|range| Unsure {
                session,
                object: awaited.object,
                range,
            });
            inner.ended.extend(left);
        }
        inner.unconfirmed.extend(later);
    }

    /// The client does not know what became of this write, nothing of which is on its way any more.
    pub fn given_up(&self, session: u64, operation: u64) {
        let inner = &mut *self.0.borrow_mut();
        if let Some(awaited) = inner.unconfirmed.remove(&(session, operation)) {
            inner.doubt((session, operation), &awaited);
        }
    }

    /// Sessions that a client's word is waited for.
    pub fn awaited(&self) -> BTreeSet<u64> {
        let inner = self.0.borrow();
        inner
            .unconfirmed
            .keys()
            .map(|(session, _)| *session)
            .collect()
    }

    /// What clients may have gone on with though this member alone has it: object, since when, bytes.
    pub fn alone(&self) -> Vec<(ObjectId, Now, u64)> {
        let inner = self.0.borrow();
        let awaited = inner.unconfirmed.values();
        awaited
            .filter_map(|awaited| {
                let (since, bytes) = awaited.alone?;
                Some((awaited.object, since, bytes))
            })
            .collect()
    }

    /// How long what clients went on with was known to be on this member only; of what they have
    /// said since to be on both.
    pub fn held(&self) -> Held {
        self.0.borrow().held
    }

    /// A client has written somewhere here and will send, or has sent, the same to the twin.
    pub fn is_unconfirmed(&self, run: &Run) -> bool {
        let inner = self.0.borrow();
        let mut entries = inner.regions.within(run);
        entries.any(|(_, entry)| !entry.unconfirmed.is_empty())
    }

    /// Operations are in progress somewhere here. If the caller holds the lock, they have given way to it, and may have
    /// made one copy.
    pub fn is_changing(&self, run: &Run) -> bool {
        let inner = self.0.borrow();
        let mut entries = inner.regions.within(run);
        entries.any(|(_, entry)| entry.running > 0)
    }

    /// What clients have written here and not said to be on both.
    pub fn unsure(&self) -> Vec<Unsure> {
        let inner = self.0.borrow();
        inner.waiting().chain(inner.ended.iter().cloned()).collect()
    }

    /// Of an object, what was not written before this session wrote, and may be here only: what clients
    /// have not said to be on both yet, and what the session left so when it ended.
    pub fn not_older_than(&self, session: u64, object: ObjectId) -> Vec<Range<u64>> {
        let inner = self.0.borrow();
        let left = inner.ended.iter().filter(|left| left.session == session);
        let all = inner.waiting().chain(left.cloned());
        joined(all.filter(|one| one.object == object).map(|one| one.range))
    }

    /// Of an object, what one session has left so that has ended, as ranges that ascend and do not touch.
    pub fn left_by(&self, session: u64, object: ObjectId) -> Vec<Range<u64>> {
        let inner = self.0.borrow();
        let left = inner.ended.iter();
        let left = left.filter(|left| (left.session, left.object) == (session, object));
        joined(left.map(|left| left.range.clone()))
    }

    /// The copies of this region are known to be possibly different: somebody will settle it.
    pub fn is_doubtful(&self, region: Region) -> bool {
        let inner = self.0.borrow();
        inner
            .regions
            .get(region)
            .is_some_and(|entry| !entry.is_settled())
    }

    /// The same of any of these, and nothing is in progress there of which that would come by itself.
    pub fn is_in_doubt(&self, run: &Run) -> bool {
        let inner = self.0.borrow();
        let mut known = inner.regions.within(run);
        known.any(|(_, entry)| entry.doubtful || !entry.unconfirmed.is_empty())
    }

    /// The regions were compared and are equal on both members; the caller holds their lock.
    pub fn settled(&self, run: &Run, now: Now) {
        let inner = &mut *self.0.borrow_mut();
        inner.forget_ended(run);
        for regions in inner.regions.gaps(run) {
            let object = run.object;
            inner
                .regions
                .insert(Run { object, regions }, Entry::default());
        }
        let mut confirmed = BTreeSet::new();
        for (_, entry) in inner.regions.within_mut(run) {
            (entry.doubtful, entry.refused) = (false, false);
            entry.touched = now;
            confirmed.append(&mut entry.unconfirmed);
        }
        for operation in confirmed {
            if let Some(awaited) = inner.unconfirmed.get_mut(&operation) {
                awaited.regions.remove(run.regions.clone());
                if awaited.regions.is_empty() {
                    inner.unconfirmed.remove(&operation);
                }
            }
        }
    }

    /// It was tried to settle these regions, in vain: that is done again when they have been quiet once more.
    pub fn touch(&self, run: &Run, now: Now) {
        let inner = &mut *self.0.borrow_mut();
        for (_, entry) in inner.regions.within_mut(run) {
            entry.touched = now;
        }
    }

    /// The twin compares these regions, holding their lock here: what is doubtful now is its to settle.
    pub fn compared_by_twin(&self, run: &Run) {
        let inner = &mut *self.0.borrow_mut();
        for (_, entry) in inner.regions.within_mut(run) {
            entry.compared = entry.version;
        }
    }

    /// The twin has taken over all doubts: it has asked for the list and compares all of it.
    pub fn vouched_by_twin(&self) {
        let inner = &mut *self.0.borrow_mut();
        inner.unconfirmed.clear();
        inner.ended.clear();
        for entry in inner.regions.values_mut() {
            (entry.doubtful, entry.refused) = (false, false);
            entry.unconfirmed.clear();
        }
    }

    /// Regions that have been quiet for `age`, or [`REFUSED_AGE`] after a refusal: at most `max` runs of settled ones with
    /// their version, and doubtful ones. What waits for a client's word is neither: its other copy may be on its way.
    fn quiet(&self, age: Duration, now: Now, max: usize) -> (Vec<(Run, u64)>, Vec<Run>) {
        let inner = self.0.borrow();
        let (mut settled, mut doubtful) = (Vec::new(), Vec::new());
        for (run, entry) in inner.regions.iter() {
            let age = match entry.refused {
                true => age.min(REFUSED_AGE),
                false => age,
            };
            if entry.running > 0 || now < entry.touched + age {
                continue;
            }
            if !entry.unconfirmed.is_empty() {
                continue;
            }
            if entry.doubtful {
                doubtful.push(run);
            } else {
                settled.push((run, entry.version));
                if settled.len() == max {
                    break;
                }
            }
        }
        (settled, doubtful)
    }

    /// What can be cleared of these regions at the twin's word, for nothing is known against it, with its
    /// version.
    fn clearable(&self, run: &Run, compared: bool) -> Vec<(Run, u64)> {
        let object = run.object;
        let inner = self.0.borrow();
        let unknown = inner.regions.gaps(run).into_iter();
        let unknown = unknown.map(|regions| (Run { object, regions }, 0));
        let known = inner.regions.within(run).filter(|(_, entry)| {
            let is_compared = compared && entry.compared == entry.version;
            entry.running == 0 && (entry.is_settled() || is_compared)
        });
        let known = known.map(|(regions, entry)| (Run { object, regions }, entry.version));
        unknown.chain(known).collect()
    }

    /// Takes those of these regions out of the list in which nothing has begun since they had `version`;
    /// which.
    fn clear(&self, store: &Store, run: &Run, version: u64) -> Vec<Run> {
        let object = run.object;
        let inner = &mut *self.0.borrow_mut();
        let known = inner
            .regions
            .within(run)
            .filter(|(_, entry)| entry.version == version && entry.running == 0);
        let mut regions: Vec<Range<u32>> = known.map(|(regions, _)| regions).collect();
        if version == 0 {
            regions.extend(inner.regions.gaps(run));
        }
        let cleared: Vec<Run> = regions
            .into_iter()
            .map(|regions| Run { object, regions })
            .collect();
        for run in &cleared {
            inner.regions.remove(run);
            inner.forget_ended(run);
            store.clear(object, run.regions.clone());
        }
        cleared
    }
}

fn runs_of(object: ObjectId, regions: &Regions) -> impl Iterator<Item = Run> {
    let runs = regions.runs().iter();
    runs.map(move |regions| Run {
        object,
        regions: regions.clone(),
    })
}

/// The same bytes as ranges that ascend and do not touch.
pub(crate) fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

async fn sync_objects<'a>(
    node: &Node,
    runs: impl Iterator<Item = &'a Run>,
) -> weft_objects::Result<()> {
    let objects: BTreeSet<ObjectId> = runs.map(|run| run.object).collect();
    node.store
        .sync(&objects.into_iter().collect::<Vec<_>>())
        .await
}

/// METHOD 87 at the receiver: makes stable what can be cleared, and clears what the twin has cleared.
pub(crate) async fn on_clear(
    node: &Node,
    request: &proto::ClearRequest,
) -> Result<proto::ClearReply, Failed> {
    let follows = || {
        let side = node.side.borrow();
        side.follows(Epoch(request.epoch)).map_err(Failed::from)
    };
    follows()?;
    let runs = runs_in(&request.objects);
    if !request.versions.is_empty() {
        if runs.len() != request.versions.len() {
            let (runs, versions) = (runs.len(), request.versions.len());
            let why = format!("{versions} versions of {runs} runs of regions");
            return Err(Failed::Refused(why));
        }
        for (run, version) in runs.iter().zip(&request.versions) {
            node.marks.clear(&node.store, run, *version);
        }
        return Ok(proto::ClearReply::default());
    }
    let candidates: Vec<(Run, u64)> = runs
        .iter()
        .flat_map(|run| node.marks.clearable(run, request.compared))
        .collect();
    sync_objects(node, candidates.iter().map(|(run, _)| run))
        .await
        .map_err(|error| node.store_failed(error))?;
    follows()?;
    Ok(proto::ClearReply {
        objects: objects_of(candidates.iter().map(|(run, _)| run)),
        versions: candidates.iter().map(|(_, version)| *version).collect(),
    })
}

/// Clears regions with the twin until the server stops; settles doubtful ones.
pub(crate) async fn run(node: Rc<Node>) {
    loop {
        node.env.sleep(CLEAR_EVERY).await;
        let serves = node.side.borrow().is_sole();
        if (serves || node.disk.health() == weft_pair::Disk::Works)
            && let Err(error) = node.store.tidy().await
        {
            tracing::warn!(%error, "housekeeping of the modified list failed");
            node.store_failed(error);
        }
        let Some(state) = node.side.borrow().state() else {
            continue;
        };
        let age = Duration::from_millis(node.settings.clear_after_ms);
        // Both members look; the one that comes second finds nothing left.
        let age = match state.mode {
            Mode::Both if node.me == Member::One => age * 2,
            Mode::Both => age,
            // Before it is planned what has to be compared, everything has.
            Mode::Recovering(m) if m == node.me && node.plan.borrow().is_some() => age,
            _ => continue,
        };
        let (mut settled, doubtful) = node.marks.quiet(age, node.now(), CLEAR_BATCH);
        if let Some(plan) = &*node.plan.borrow() {
            let unplanned = |(run, version): (Run, u64)| {
                let parts = plan.without(&run).into_iter();
                let object = run.object;
                parts.map(move |regions| (Run { object, regions }, version))
            };
            settled = settled.into_iter().flat_map(unplanned).collect();
        }
        if !settled.is_empty() {
            clear_batch(&node, state.epoch, settled).await;
        }
        if state.mode == Mode::Both {
            for run in doubtful {
                crate::settle::settle_quiet(&node, state.epoch, run).await;
            }
        }
    }
}

async fn clear_batch(node: &Node, epoch: Epoch, settled: Vec<(Run, u64)>) {
    if let Err(error) = sync_objects(node, settled.iter().map(|(run, _)| run)).await {
        tracing::warn!(%error, "objects could not be made stable; their regions stay in the list");
        node.store_failed(error);
        return;
    }
    cleared_by_both(node, epoch, &settled, false).await;
}

/// Clears regions that this member has just compared, and whose lock it holds, on both members.
pub(crate) async fn clear_compared(node: &Node, epoch: Epoch, run: &Run) {
    let settled = node.marks.clearable(run, false);
    if settled.is_empty() {
        return;
    }
    if let Err(error) = sync_objects(node, std::iter::once(run)).await {
        tracing::warn!(%error, "an object could not be made stable; its regions stay in the list");
        node.store_failed(error);
        return;
    }
    cleared_by_both(node, epoch, &settled, true).await;
}

/// Takes out of both lists what the twin agrees to. These regions had this version here before they were made stable.
async fn cleared_by_both(node: &Node, epoch: Epoch, settled: &[(Run, u64)], compared: bool) {
    let asks = proto::ClearRequest {
        epoch: epoch.0,
        objects: objects_of(settled.iter().map(|(run, _)| run)),
        compared,
        versions: Vec::new(),
    };
    // A twin that does not answer, or knows another epoch: the regions stay.
    let Ok((reply, _)) = node.link.call(&asks, Payload::none()).await else {
        return;
    };
    if node.side.borrow().epoch() != epoch {
        return;
    }
    let mut agreed: BTreeMap<ObjectId, Vec<(Range<u32>, u64)>> = BTreeMap::new();
    for (run, version) in runs_in(&reply.objects).into_iter().zip(reply.versions) {
        let of_object = agreed.entry(run.object).or_default();
        of_object.push((run.regions, version));
    }
    let (mut cleared, mut versions) = (Vec::new(), Vec::new());
    for (run, version) in settled {
        let agreed = agreed.get(&run.object).into_iter().flatten();
        for (regions, theirs) in agreed {
            let both = Run {
                object: run.object,
                regions: run.regions.start.max(regions.start)..run.regions.end.min(regions.end),
            };
            if !both.regions.is_empty() {
                let here = node.marks.clear(&node.store, &both, *version);
                versions.extend(here.iter().map(|_| *theirs));
                cleared.extend(here);
            }
        }
    }
    if cleared.is_empty() {
        return;
    }
    let tells = proto::ClearRequest {
        objects: objects_of(&cleared),
        versions,
        ..asks
    };
    // A twin that does not hear it keeps them in its list, and asks some time itself.
    let _ = node.link.call(&tells, Payload::none()).await;
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use weft_types::Ino;

    fn region(index: u32) -> Region {
        Region {
            object: ObjectId {
                ino: Ino(1),
                generation: 0,
            },
            index,
        }
    }

    fn with_store(test: impl AsyncFnOnce(Store)) {
        let dir = tempfile::tempdir().unwrap();
        weft_env::real::run(|env| async move {
            let store = Store::open(env, dir.path(), weft_types::PairId(0), Member::Zero)
                .await
                .unwrap();
            test(store).await;
        })
        .unwrap();
    }

    async fn begin(marks: &Marks, store: &Store, regions: Range<u32>) -> Intent {
        let object = region(0).object;
        marks
            .begin(
                store,
                object,
                &[regions],
                (Purpose::Write, false),
                Now::ZERO,
            )
            .await
            .unwrap()
    }

    fn word(session: u64, operation: u64) -> Ended {
        Ended::WhenConfirmed {
            session,
            operation,
            alone: 0,
        }
    }

    fn run(regions: Range<u32>) -> Run {
        let object = region(0).object;
        Run { object, regions }
    }

    fn settled(marks: &Marks) -> Vec<Range<u32>> {
        let (settled, _) = marks.quiet(Duration::ZERO, Now::ZERO, 100);
        settled.into_iter().map(|(run, _)| run.regions).collect()
    }

    #[test]
    fn what_a_session_left_is_its_own_until_its_region_is_equal() {
        with_store(async |store| {
            let marks = Marks::default();
            let object = region(0).object;
            for (session, range) in [(7, 100..200), (8, 150..300)] {
                let intent = begin(&marks, &store, 0..1).await;
                intent.end_unsure(word(session, 3), vec![range], Now::ZERO);
            }
            marks.session_ended(7);
            assert_eq!(marks.left_by(7, object), [100..200]);
            assert_eq!(marks.left_by(8, object), [] as [Range<u64>; 0], "it lives");
            // Of what may be here only, nothing that 7 left is newer than what another one wrote.
            assert_eq!(marks.not_older_than(7, object), [100..300]);
            assert_eq!(marks.not_older_than(9, object), [150..300]);
            assert_eq!(marks.unsure().len(), 2);
            // The twin has compared the region, and both take it from their lists.
            marks.confirmed_below(8, 4, Now::ZERO);
            marks.compared_by_twin(&run(0..1));
            assert_eq!(marks.clearable(&run(0..1), true), [(run(0..1), 2)]);
            assert_eq!(marks.clear(&store, &run(0..1), 2), [run(0..1)]);
            assert_eq!(marks.unsure(), []);
        });
    }

    #[test]
    fn a_region_is_cleared_only_when_nothing_began_since() {
        with_store(async |store| {
            let marks = Marks::default();
            let first = begin(&marks, &store, 0..2).await;
            assert!(store.is_dirty(region(0).object, 1));
            assert!(settled(&marks).is_empty());
            first.end(Ended::Alike, Now::ZERO);
            assert_eq!(settled(&marks), [0..2]);
            assert_eq!(
                marks.clearable(&run(0..3), false),
                [(run(2..3), 0), (run(0..2), 1)]
            );
            begin(&marks, &store, 1..2)
                .await
                .end(Ended::Alike, Now::ZERO);
            assert_eq!(marks.clear(&store, &run(0..2), 1), [run(0..1)]);
            assert!(!store.is_dirty(region(0).object, 0));
            assert!(store.is_dirty(region(0).object, 1));
        });
    }

    #[test]
    fn what_changes_a_long_object_at_once_takes_no_room_for_each_region() {
        with_store(async |store| {
            let marks = Marks::default();
            let end = u32::MAX;
            let cut = begin(&marks, &store, 0..end).await;
            // Two writes before it has ended, and one that began before.
            let writes = [
                begin(&marks, &store, 7..8).await,
                begin(&marks, &store, 9..10).await,
            ];
            assert_eq!(marks.clearable(&run(0..end), true), []);
            cut.end(Ended::Alike, Now::ZERO);
            assert_eq!(settled(&marks), [0..7, 8..9, 10..end]);
            for write in writes {
                write.end(Ended::Doubtful, Now::ZERO);
            }
            let (settled, doubtful) = marks.quiet(Duration::ZERO, Now::ZERO, 100);
            assert_eq!((settled.len(), doubtful), (3, vec![run(7..8), run(9..10)]));
            for (run, version) in settled {
                assert_eq!(marks.clear(&store, &run, version), [run]);
            }
            assert_eq!(store.dirty_regions(region(0).object), [7..8, 9..10]);
        });
    }

    #[test]
    fn what_an_operation_comes_to_later_is_marked_before_it_goes_on() {
        with_store(async |store| {
            let marks = Marks::default();
            let mut intent = begin(&marks, &store, 3..5).await;
            let how = (Purpose::Free, false);
            let wider = [2..9];
            marks
                .widen(&mut intent, &store, &wider, how, Now::ZERO)
                .await
                .unwrap();
            assert_eq!(store.dirty_regions(region(0).object), [2..9]);
            assert_eq!(intent.runs(), [run(2..9)]);
            assert!(settled(&marks).is_empty());
            intent.end(Ended::Alike, Now::ZERO);
            assert_eq!(settled(&marks), [2..3, 3..5, 5..9]);
        });
    }

    #[test]
    fn doubt_stays_until_it_is_settled() {
        with_store(async |store| {
            let marks = Marks::default();
            drop(begin(&marks, &store, 0..1).await);
            begin(&marks, &store, 0..1)
                .await
                .end(Ended::Alike, Now::ZERO);
            assert!(settled(&marks).is_empty());
            assert_eq!(marks.clearable(&run(0..1), true), []);
            marks.compared_by_twin(&run(0..1));
            assert_eq!(marks.clearable(&run(0..1), true), [(run(0..1), 2)]);
            marks.settled(&run(0..1), Now::ZERO);
            assert_eq!(settled(&marks), [0..1]);
            // A list from before the start is doubtful, too.
            let marks = Marks::default();
            begin(&marks, &store, 0..1)
                .await
                .end(Ended::Alike, Now::ZERO);
            assert!(settled(&marks).is_empty());
        });
    }

    #[test]
    fn a_clients_word_settles_its_own_writes() {
        with_store(async |store| {
            let marks = Marks::default();
            for operation in [4, 5] {
                begin(&marks, &store, 0..1)
                    .await
                    .end(word(9, operation), Now::ZERO);
            }
            begin(&marks, &store, 1..2).await.end(word(8, 1), Now::ZERO);
            marks.confirmed_below(9, 5, Now::ZERO);
            assert!(settled(&marks).is_empty());
            marks.confirmed_below(9, 6, Now::ZERO);
            assert_eq!(settled(&marks), [0..1]);
            assert_eq!(marks.awaited(), BTreeSet::from([8]));
            // A session that ends leaves a doubt, which is settled like any other.
            marks.session_ended(8);
            assert!(marks.awaited().is_empty());
            assert!(!marks.is_unconfirmed(&run(1..2)) && marks.is_doubtful(region(1)));
        });
    }

    #[test]
    fn what_a_client_went_on_with_is_alone_until_its_word() {
        with_store(async |store| {
            let marks = Marks::default();
            let then = Duration::from_secs(3);
            for (operation, alone) in [(1, 0), (2, 700), (3, 50)] {
                let ended = Ended::WhenConfirmed {
                    session: 9,
                    operation,
                    alone,
                };
                begin(&marks, &store, 0..1).await.end(ended, then);
            }
            let object = region(0).object;
            assert_eq!(marks.alone(), [(object, then, 700), (object, then, 50)]);
            marks.confirmed_below(9, 3, then * 2);
            assert_eq!(marks.alone(), [(object, then, 50)]);
            // What nobody went on with does not count.
            assert_eq!((marks.held().writes, marks.held().time), (1, then));
            // The region was found equal: nothing of it is on one member alone.
            marks.settled(&run(0..1), then);
            assert!(marks.alone().is_empty());
        });
    }
}
