//! Which regions may differ from the twin, and when that is over.
//!
//! The modified list of the store is what survives; this is what the running server knows beside
//! it: how many operations are in progress in a region, and whether those that ended are on both
//! members. A region leaves the list only by an agreement of both members (`ClearRequest`), after
//! both have made its data stable: a power cut of one of them may take what it wrote lately, and
//! then the other's list must still name it.
//!
//! The exchange is safe whatever begins meanwhile: an operation that this member leads changes the
//! region's version here before it is sent to the twin, and the twin marks the region again before
//! it writes.

use crate::owed::Held;
use crate::server::Node;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::{Purpose, Store};
use weft_pair::recovery::Region;
use weft_pair::{Mode, Now};
use weft_types::{Epoch, Member, ObjectId};
use weft_wire::proto;

/// Regions cleared by one message: what a list of a few hundred objects has, and no long pause.
const CLEAR_BATCH: usize = 1024;
/// How often regions that could be cleared are looked for.
const CLEAR_EVERY: Duration = Duration::from_millis(500);

/// What is known of a region since this server started.
#[derive(Debug, Default)]
struct Entry {
    /// Operations in progress.
    running: u32,
    /// Changes with every operation that begins.
    version: u64,
    /// An operation ended without the certainty that both members have the same, or the region was
    /// in the list before this server looked.
    doubtful: bool,
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
    regions: Vec<Region>,
    /// What it has changed.
    object: Option<ObjectId>,
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
    regions: BTreeMap<Region, Entry>,
    /// By session and operation: the writes that wait for the client's word.
    unconfirmed: BTreeMap<(u64, u64), Unconfirmed>,
    /// What sessions that have ended left so, until its regions are found equal.
    ended: Vec<Unsure>,
    /// How long clients went on with what this member alone was known to have.
    held: Held,
}

impl Inner {
    /// What waits for the word of clients that have not ended.
    fn waiting(&self) -> impl Iterator<Item = Unsure> + '_ {
        let waiting = self.unconfirmed.iter();
        let waiting = waiting.filter_map(|((session, _), awaited)| {
            Some((*session, awaited.object?, &awaited.bytes))
        });
        waiting.flat_map(|(session, object, bytes)| {
            bytes.iter().map(move |range| Unsure {
                session,
                object,
                range: range.clone(),
            })
        })
    }

    /// A region is equal on both members: what sessions that have ended left there is on both.
    fn forget_ended(&mut self, region: Region) {
        let span = crate::settle::span_of(region);
        let left = std::mem::take(&mut self.ended).into_iter();
        self.ended = left
            .flat_map(|left| {
                let parts = match left.object == region.object {
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
    regions: Vec<Region>,
}

impl Intent {
    /// What it may change.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The operation has ended.
    pub fn end(mut self, ended: Ended, now: Now) {
        self.finish(ended, None, Some(now));
    }

    /// The same of a write that waits for its client's word; what it has changed.
    pub fn end_unsure(mut self, ended: Ended, what: (ObjectId, Vec<Range<u64>>), now: Now) {
        self.finish(ended, Some(what), Some(now));
    }

    fn finish(
        &mut self,
        ended: Ended,
        what: Option<(ObjectId, Vec<Range<u64>>)>,
        now: Option<Now>,
    ) {
        let regions = std::mem::take(&mut self.regions);
        let inner = &mut *self.marks.0.borrow_mut();
        for region in &regions {
            let Some(entry) = inner.regions.get_mut(region) else {
                continue;
            };
            entry.running -= 1;
            entry.touched = now.unwrap_or(entry.touched);
            match ended {
                Ended::Alike => {}
                Ended::Doubtful => entry.doubtful = true,
                Ended::WhenConfirmed {
                    session, operation, ..
                } => {
                    entry.unconfirmed.insert((session, operation));
                }
            }
        }
        if let Ended::WhenConfirmed {
            session,
            operation,
            alone,
        } = ended
        {
            let alone = now.filter(|_| alone > 0).map(|now| (now, alone));
            let (object, bytes) = what.map_or((None, Vec::new()), |(o, bytes)| (Some(o), bytes));
            let unconfirmed = Unconfirmed {
                regions,
                object,
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
            self.finish(Ended::Doubtful, None, None);
        }
    }
}

impl Marks {
    /// Puts the regions in the modified list. The operation may begin when this returns.
    ///
    /// # Errors
    /// As [`Store::mark`].
    pub async fn begin(
        &self,
        store: &Store,
        object: ObjectId,
        regions: &[Range<u32>],
        purpose: Purpose,
        durable: bool,
        now: Now,
    ) -> weft_objects::Result<Intent> {
        let mut intent = Intent {
            marks: self.clone(),
            regions: Vec::new(),
        };
        {
            let inner = &mut *self.0.borrow_mut();
            for index in regions.iter().cloned().flatten() {
                let region = Region { object, index };
                let entry = inner.regions.entry(region).or_insert_with(|| Entry {
                    // What was in the list before: somebody else's doubt.
                    doubtful: store.is_dirty(object, index),
                    ..Entry::default()
                });
                entry.running += 1;
                entry.version += 1;
                entry.touched = now;
                intent.regions.push(region);
            }
        }
        for range in regions {
            if let Err(error) = store.mark(object, range.clone(), purpose, durable).await {
                // It does not begin: nothing has become different.
                intent.end(Ended::Alike, now);
                return Err(error);
            }
        }
        Ok(intent)
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
            for region in awaited.regions {
                if let Some(entry) = inner.regions.get_mut(&region) {
                    entry.unconfirmed.remove(&operation);
                }
            }
        }
        inner.unconfirmed.extend(later);
    }

    /// The session has ended: its client will neither send its second copies nor say that it has.
    pub fn session_ended(&self, session: u64) {
        let inner = &mut *self.0.borrow_mut();
        let later = inner.unconfirmed.split_off(&(session, u64::MAX));
        let ended = inner.unconfirmed.split_off(&(session, 0));
        for (operation, awaited) in ended {
            if let Some(object) = awaited.object {
                let left = awaited.bytes.into_iter().map(|range| Unsure {
                    session,
                    object,
                    range,
                });
                inner.ended.extend(left);
            }
            for region in awaited.regions {
                if let Some(entry) = inner.regions.get_mut(&region) {
                    entry.doubtful |= entry.unconfirmed.remove(&operation);
                }
            }
        }
        inner.unconfirmed.extend(later);
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
                Some((awaited.regions.first()?.object, since, bytes))
            })
            .collect()
    }

    /// How long what clients went on with was known to be on this member only; of what they have
    /// said since to be on both.
    pub fn held(&self) -> Held {
        self.0.borrow().held
    }

    /// A client has written here and will send, or has sent, the same to the twin.
    pub fn is_unconfirmed(&self, region: Region) -> bool {
        let inner = self.0.borrow();
        let entry = inner.regions.get(&region);
        entry.is_some_and(|entry| !entry.unconfirmed.is_empty())
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
            .get(&region)
            .is_some_and(|entry| !entry.is_settled())
    }

    /// The region was compared and is equal on both members; the caller holds its lock.
    pub fn settled(&self, region: Region, now: Now) {
        let inner = &mut *self.0.borrow_mut();
        inner.forget_ended(region);
        let entry = inner.regions.entry(region).or_default();
        entry.doubtful = false;
        entry.touched = now;
        for operation in std::mem::take(&mut entry.unconfirmed) {
            if let Some(awaited) = inner.unconfirmed.get_mut(&operation) {
                awaited.regions.retain(|other| *other != region);
                if awaited.regions.is_empty() {
                    inner.unconfirmed.remove(&operation);
                }
            }
        }
    }

    /// The twin compares this region, holding its lock here: what is doubtful now is its to settle.
    pub fn compared_by_twin(&self, region: Region) {
        let inner = &mut *self.0.borrow_mut();
        if let Some(entry) = inner.regions.get_mut(&region) {
            entry.compared = entry.version;
        }
    }

    /// The twin has taken over all doubts: it has asked for the list and compares all of it.
    pub fn vouched_by_twin(&self) {
        let inner = &mut *self.0.borrow_mut();
        inner.unconfirmed.clear();
        inner.ended.clear();
        for entry in inner.regions.values_mut() {
            entry.doubtful = false;
            entry.unconfirmed.clear();
        }
    }

    /// Regions that have been quiet for `age`: settled ones, and doubtful ones. What waits for a
    /// client's word is neither: its other copy may be on its way.
    fn quiet(&self, age: Duration, now: Now, max: usize) -> (Vec<(Region, u64)>, Vec<Region>) {
        let inner = self.0.borrow();
        let (mut settled, mut doubtful) = (Vec::new(), Vec::new());
        for (region, entry) in &inner.regions {
            if entry.running > 0 || now < entry.touched + age {
                continue;
            }
            if !entry.unconfirmed.is_empty() {
                continue;
            }
            if entry.doubtful {
                doubtful.push(*region);
            } else {
                settled.push((*region, entry.version));
                if settled.len() == max {
                    break;
                }
            }
        }
        (settled, doubtful)
    }

    /// What can be cleared at the twin's word: the version of a region that nothing is known
    /// against; None otherwise.
    fn version_if_clear(&self, region: Region, compared: bool) -> Option<u64> {
        match self.0.borrow().regions.get(&region) {
            None => Some(0),
            Some(entry) if entry.running > 0 => None,
            Some(entry) if entry.is_settled() => Some(entry.version),
            Some(entry) => (compared && entry.compared == entry.version).then_some(entry.version),
        }
    }

    /// Takes the region out of the list if nothing has begun since it had `version`.
    fn clear(&self, store: &Store, region: Region, version: u64) -> bool {
        let inner = &mut *self.0.borrow_mut();
        match inner.regions.get(&region) {
            Some(entry) if entry.version != version || entry.running > 0 => return false,
            Some(_) => {
                inner.regions.remove(&region);
            }
            None if version != 0 => return false,
            None => {}
        }
        inner.forget_ended(region);
        store.clear(region.object, region.index..region.index + 1);
        true
    }
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

fn objects_of(regions: impl Iterator<Item = Region>) -> Vec<proto::DirtyObject> {
    let mut objects: Vec<proto::DirtyObject> = Vec::new();
    for region in regions {
        let name = crate::server::to_name(region.object);
        match objects.last_mut() {
            Some(last) if last.object.as_ref() == Some(&name) => last.regions.push(region.index),
            _ => objects.push(proto::DirtyObject {
                object: Some(name),
                regions: vec![region.index],
            }),
        }
    }
    objects
}

/// The regions that a message names; nonsense is left out.
pub(crate) fn regions_in(objects: &[proto::DirtyObject]) -> Vec<Region> {
    let mut regions = Vec::new();
    for named in objects {
        let Ok(object) = crate::server::from_name(named.object) else {
            continue;
        };
        regions.extend(named.regions.iter().map(|&index| Region { object, index }));
    }
    regions
}

async fn sync_objects(
    node: &Node,
    regions: impl Iterator<Item = Region>,
) -> weft_objects::Result<()> {
    let objects: BTreeSet<ObjectId> = regions.map(|region| region.object).collect();
    node.store
        .sync(&objects.into_iter().collect::<Vec<_>>())
        .await
}

/// METHOD 87 at the receiver: makes stable and clears what it can.
pub(crate) async fn on_clear(
    node: &Node,
    request: &proto::ClearRequest,
) -> Result<proto::ClearReply, weft_wire::Failed> {
    node.side
        .borrow()
        .follows(Epoch(request.epoch))
        .map_err(weft_wire::Failed::from)?;
    let candidates: Vec<(Region, u64)> = regions_in(&request.objects)
        .into_iter()
        .filter_map(|region| {
            let version = node.marks.version_if_clear(region, request.compared)?;
            Some((region, version))
        })
        .collect();
    sync_objects(node, candidates.iter().map(|(region, _)| *region))
        .await
        .map_err(|error| node.store_failed(error))?;
    node.side
        .borrow()
        .follows(Epoch(request.epoch))
        .map_err(weft_wire::Failed::from)?;
    let cleared = candidates
        .into_iter()
        .filter(|(region, version)| node.marks.clear(&node.store, *region, *version))
        .map(|(region, _)| region);
    Ok(proto::ClearReply {
        objects: objects_of(cleared),
    })
}

/// Clears regions with the twin until the server stops; settles doubtful ones.
pub(crate) async fn run(node: Rc<Node>) {
    loop {
        node.env.sleep(CLEAR_EVERY).await;
        if let Err(error) = node.store.tidy().await {
            tracing::warn!(%error, "housekeeping of the modified list failed");
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
            settled.retain(|(region, _)| !plan.contains(*region));
        }
        if !settled.is_empty() {
            clear_batch(&node, state.epoch, settled).await;
        }
        if state.mode == Mode::Both {
            for region in doubtful {
                if node.side.borrow().epoch() != state.epoch {
                    break;
                }
                crate::settle::settle_quiet_region(&node, state.epoch, region).await;
            }
        }
    }
}

async fn clear_batch(node: &Node, epoch: Epoch, settled: Vec<(Region, u64)>) {
    if let Err(error) = sync_objects(node, settled.iter().map(|(region, _)| *region)).await {
        tracing::warn!(%error, "objects could not be made stable; their regions stay in the list");
        return;
    }
    let request = proto::ClearRequest {
        epoch: epoch.0,
        objects: objects_of(settled.iter().map(|(region, _)| *region)),
        compared: false,
    };
    // A twin that does not answer, or knows another epoch: the regions stay.
    let Ok((reply, _)) = node.link.call(&request, weft_rpc::Payload::none()).await else {
        return;
    };
    if node.side.borrow().epoch() != epoch {
        return;
    }
    let versions: BTreeMap<Region, u64> = settled.into_iter().collect();
    for region in regions_in(&reply.objects) {
        if let Some(version) = versions.get(&region) {
            node.marks.clear(&node.store, region, *version);
        }
    }
}

/// Clears a region that this member has just compared, and whose lock it holds, on both members.
pub(crate) async fn clear_compared(node: &Node, epoch: Epoch, region: Region) {
    let version = match node.marks.version_if_clear(region, false) {
        Some(version) => version,
        None => return,
    };
    if let Err(error) = sync_objects(node, std::iter::once(region)).await {
        tracing::warn!(%error, "an object could not be made stable; its region stays in the list");
        return;
    }
    let request = proto::ClearRequest {
        epoch: epoch.0,
        objects: objects_of(std::iter::once(region)),
        compared: true,
    };
    if let Ok((reply, _)) = node.link.call(&request, weft_rpc::Payload::none()).await
        && node.side.borrow().epoch() == epoch
        && regions_in(&reply.objects) == [region]
    {
        node.marks.clear(&node.store, region, version);
    }
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
            .begin(store, object, &[regions], Purpose::Write, false, Now::ZERO)
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

    fn settled(marks: &Marks) -> Vec<Region> {
        let (settled, _) = marks.quiet(Duration::ZERO, Now::ZERO, 100);
        settled.into_iter().map(|(region, _)| region).collect()
    }

    #[test]
    fn what_a_session_left_is_its_own_until_its_region_is_equal() {
        with_store(async |store| {
            let marks = Marks::default();
            let object = region(0).object;
            for (session, range) in [(7, 100..200), (8, 150..300)] {
                let what = (object, vec![range]);
                let intent = begin(&marks, &store, 0..1).await;
                intent.end_unsure(word(session, 3), what, Now::ZERO);
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
            marks.compared_by_twin(region(0));
            let version = marks.version_if_clear(region(0), true).unwrap();
            assert!(marks.clear(&store, region(0), version));
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
            assert_eq!(settled(&marks), [region(0), region(1)]);
            let version = marks.version_if_clear(region(1), false).unwrap();
            begin(&marks, &store, 1..2)
                .await
                .end(Ended::Alike, Now::ZERO);
            assert!(!marks.clear(&store, region(1), version));
            assert!(marks.clear(&store, region(0), 1));
            assert!(!store.is_dirty(region(0).object, 0));
            assert!(store.is_dirty(region(0).object, 1));
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
            assert_eq!(marks.version_if_clear(region(0), true), None);
            marks.compared_by_twin(region(0));
            assert_eq!(marks.version_if_clear(region(0), true), Some(2));
            marks.settled(region(0), Now::ZERO);
            assert_eq!(settled(&marks), [region(0)]);
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
            assert_eq!(settled(&marks), [region(0)]);
            assert_eq!(marks.awaited(), BTreeSet::from([8]));
            // A session that ends leaves a doubt, which is settled like any other.
            marks.session_ended(8);
            assert!(marks.awaited().is_empty());
            assert!(!marks.is_unconfirmed(region(1)) && marks.is_doubtful(region(1)));
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
            marks.settled(region(0), then);
            assert!(marks.alone().is_empty());
        });
    }
}
