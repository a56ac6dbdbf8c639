//! What is known to be lost: byte ranges of objects whose last content only an absent twin has, or
//! nobody. Reading them is refused until they are written, cut off, acknowledged by an operator, or
//! back (docs/protocols/losses.md).
//!
//! ```text
//! losses:  | header | record 1 | ... | record n | crc |      header 32 bytes, records 56, crc 4
//! header:  0          8     10   12      16         32
//!          | WEFTLOSS | ver | 0  | count | store id |
//! record:  0     8            12       13           14  16      24    32        40      48          56
//!          | ino | generation | member | can_return | 0 | start | end | session | epoch | wall clock |
//! ```
//!
//! Little-endian; `crc` is the CRC-32C of all before. The file is replaced as a whole, since it is
//! seldom there at all; without it nothing is lost.

use crate::error::{Error, IoContext, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;
use weft_env::Env;
use weft_types::{Epoch, Ino, Member, ObjectId};

pub(crate) const FILE: &str = "losses";
const MAGIC: [u8; 8] = *b"WEFTLOSS";
const VERSION: u16 = 1;
const HEADER: usize = 32;
const RECORD: usize = 56;
/// Ranges that are kept apart. Beyond it those of one object that lie nearest to each other are not
/// told apart any more: 3.5 MiB that are written with each change.
pub const LOSSES_MAX: usize = 65_536;

/// A range of an object that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Of which object.
    pub object: ObjectId,
    /// Its bytes.
    pub range: Range<u64>,
    /// The session that was writing there when it ended.
    pub session: u64,
    /// The member that may have had it alone.
    pub member: Member,
    /// That member may bring it back: nothing here is newer than what it has.
    pub can_return: bool,
    /// The pair's epoch when it was noted.
    pub epoch: Epoch,
    /// When it was noted: nanoseconds of the wall clock since 1970.
    pub noted: u64,
}

type Map = BTreeMap<(ObjectId, u64), Loss>;

/// All losses of a store.
pub(crate) struct Losses {
    env: Env,
    path: PathBuf,
    store_id: u128,
    /// By where they begin; they do not overlap.
    known: RefCell<Map>,
    /// Held while the file is written.
    writing: Mutex<()>,
    /// A change failed: the file may hold it or not, so the next one is written even if it changes
    /// nothing of what is known.
    is_in_doubt: Cell<bool>,
}

/// The parts of `of` that are in none of `cuts`.
fn without(of: Range<u64>, cuts: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = vec![of];
    for cut in cuts {
        left = left
            .into_iter()
            .flat_map(|part| {
                let before = part.start..part.end.min(cut.start);
                let after = part.start.max(cut.end)..part.end;
                [before, after]
            })
            .filter(|part| part.start < part.end)
            .collect();
    }
    left
}

/// Those of `map` that share a byte with `range`.
fn touching<'a>(
    map: &'a Map,
    object: ObjectId,
    range: &Range<u64>,
) -> impl Iterator<Item = &'a Loss> {
    let (start, end) = (range.start, range.end);
    // They do not overlap: of those that begin before it only the last one can reach into it.
    let before = map.range((object, 0)..(object, start)).next_back();
    let inside = map.range((object, start)..(object, end.max(start)));
    before
        .into_iter()
        .chain(inside)
        .map(|(_, loss)| loss)
        .filter(move |loss| loss.range.end > start && loss.range.start < end)
}

impl Losses {
    pub async fn open(env: Env, dir: &Path, store_id: u128) -> Result<Losses> {
        let path = dir.join(FILE);
        let content = env.read_file(&path).await.context("read", &path)?;
        let known = match content {
            Some(content) => decode(&content, store_id).map_err(|reason| Error::Format {
                path: path.clone(),
                reason: format!(
                    "{reason}; remove the file if what was lost may be read as it is now"
                ),
            })?,
            None => Map::new(),
        };
        Ok(Losses {
            env,
            path,
            store_id,
            known: RefCell::new(known),
            writing: Mutex::new(()),
            is_in_doubt: Cell::new(false),
        })
    }

    /// The first lost range that shares a byte with `range`.
    pub fn within(&self, object: ObjectId, range: Range<u64>) -> Option<Range<u64>> {
        let known = self.known.borrow();
        let found = touching(&known, object, &range).next();
        found.map(|loss| loss.range.clone())
    }

    /// All of them, or those of one object, in order.
    pub fn all(&self, of: Option<ObjectId>) -> Vec<Loss> {
        let known = self.known.borrow();
        match of {
            Some(object) => touching(&known, object, &(0..u64::MAX)).cloned().collect(),
            None => known.values().cloned().collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.known.borrow().is_empty()
    }

    /// Notes more; what is lost already stays as it was noted. They count from when this returns,
    /// and survive a power cut.
    pub async fn add(&self, losses: &[Loss]) -> Result<()> {
        self.change(|map| {
            let mut changed = false;
            for loss in losses {
                let known: Vec<Range<u64>> = touching(map, loss.object, &loss.range)
                    .map(|loss| loss.range.clone())
                    .collect();
                for part in without(loss.range.clone(), &known) {
                    let key = (loss.object, part.start);
                    let part = Loss {
                        range: part,
                        ..loss.clone()
                    };
                    map.insert(key, part);
                    changed = true;
                }
            }
            join_nearest(map);
            changed
        })
        .await
    }

    /// These ranges are no longer lost.
    pub async fn clear(&self, object: ObjectId, ranges: &[Range<u64>]) -> Result<()> {
        let concerned = |map: &Map| {
            ranges
                .iter()
                .any(|range| touching(map, object, range).next().is_some())
        };
        if !self.is_in_doubt.get() && !concerned(&self.known.borrow()) {
            return Ok(());
        }
        self.change(|map| {
            let mut changed = false;
            for range in ranges {
                let cut: Vec<Loss> = touching(map, object, range).cloned().collect();
                for loss in cut {
                    changed = true;
                    map.remove(&(object, loss.range.start));
                    for part in without(loss.range.clone(), std::slice::from_ref(range)) {
                        let part = Loss {
                            range: part,
                            ..loss.clone()
                        };
                        map.insert((object, part.range.start), part);
                    }
                }
            }
            changed
        })
        .await
    }

    /// From now on these are all.
    pub async fn replace(&self, losses: Vec<Loss>) -> Result<()> {
        let new: Map = losses
            .into_iter()
            .map(|loss| ((loss.object, loss.range.start), loss))
            .collect();
        self.change(|map| {
            let changed = *map != new;
            *map = new;
            changed
        })
        .await
    }

    /// Nobody can bring back any more what is lost now.
    pub async fn give_up(&self) -> Result<()> {
        self.change(|map| {
            let mut changed = false;
            for loss in map.values_mut() {
                changed |= std::mem::replace(&mut loss.can_return, false);
            }
            changed
        })
        .await
    }

    /// Changes what is known once it is on the disk.
    async fn change(&self, change: impl FnOnce(&mut Map) -> bool) -> Result<()> {
        let _turn = self.writing.lock().await;
        let mut new = self.known.borrow().clone();
        if !change(&mut new) && !self.is_in_doubt.get() {
            return Ok(());
        }
        self.is_in_doubt.set(true);
        let content = encode(&new, self.store_id);
        let written = self.env.replace_file(&self.path, content).await;
        written.context("write", &self.path)?;
        self.is_in_doubt.set(false);
        *self.known.borrow_mut() = new;
        Ok(())
    }
}

/// Keeps the bound: the narrowest gaps between ranges of one object become lost as well.
fn join_nearest(map: &mut Map) {
    while map.len() > LOSSES_MAX {
        let pairs = map.iter().zip(map.iter().skip(1));
        let gaps = pairs
            .filter(|((a, _), (b, _))| a.0 == b.0)
            .map(|((a, left), (b, _))| (b.1 - left.range.end, *a, *b));
        let Some((_, left, right)) = gaps.min() else {
            return;
        };
        if let Some(gone) = map.remove(&right)
            && let Some(kept) = map.get_mut(&left)
        {
            kept.range.end = gone.range.end;
            // Of the gap nobody has anything newer.
            kept.can_return = false;
        }
    }
}

fn encode(map: &Map, store_id: u128) -> Vec<u8> {
    let mut content = Vec::with_capacity(HEADER + map.len() * RECORD + 4);
    content.extend_from_slice(&MAGIC);
    content.extend_from_slice(&VERSION.to_le_bytes());
    content.extend_from_slice(&[0, 0]);
    content.extend_from_slice(&(map.len() as u32).to_le_bytes());
    content.extend_from_slice(&store_id.to_le_bytes());
    for loss in map.values() {
        content.extend_from_slice(&loss.object.ino.0.to_le_bytes());
        content.extend_from_slice(&loss.object.generation.to_le_bytes());
        content.push(loss.member.index() as u8);
        content.push(u8::from(loss.can_return));
        content.extend_from_slice(&[0, 0]);
        for number in [
            loss.range.start,
            loss.range.end,
            loss.session,
            loss.epoch.0,
            loss.noted,
        ] {
            content.extend_from_slice(&number.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&content);
    content.extend_from_slice(&crc.to_le_bytes());
    content
}

fn decode(content: &[u8], store_id: u128) -> std::result::Result<Map, String> {
    let bytes = |at: usize, count: usize| content.get(at..at + count).unwrap_or_default();
    let number = |at: usize, count: usize| {
        let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        bytes(at, count).iter().rev().fold(0, fold)
    };
    if bytes(0, 8) != MAGIC {
        return Err("this is no list of losses".into());
    }
    if number(8, 2) != u64::from(VERSION) {
        return Err(format!(
            "format {} of the list of losses; this version of Weft reads format {VERSION}",
            number(8, 2)
        ));
    }
    let count = number(12, 4) as usize;
    let end = HEADER + count * RECORD;
    if content.len() != end + 4 || number(end, 4) != u64::from(crc32c::crc32c(bytes(0, end))) {
        return Err("the list of losses is damaged".into());
    }
    if bytes(16, 16) != store_id.to_le_bytes() {
        return Err("this is the list of losses of another store".into());
    }
    let mut map = Map::new();
    let mut last: Option<(ObjectId, u64)> = None;
    for at in (HEADER..end).step_by(RECORD) {
        let object = ObjectId {
            ino: Ino(number(at, 8)),
            generation: number(at + 8, 4) as u32,
        };
        let range = number(at + 16, 8)..number(at + 24, 8);
        let ascends = last.is_none_or(|(before, to)| before < object || to <= range.start);
        let member = Member::from_index(number(at + 12, 1) as u32);
        let (Some(member), true, true) = (member, ascends, range.start < range.end) else {
            return Err("the list of losses makes no sense".into());
        };
        last = Some((object, range.end));
        let loss = Loss {
            object,
            session: number(at + 32, 8),
            member,
            can_return: number(at + 13, 1) != 0,
            epoch: Epoch(number(at + 40, 8)),
            noted: number(at + 48, 8),
            range,
        };
        map.insert((object, loss.range.start), loss);
    }
    Ok(map)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const STORE: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;

    fn object(ino: u64) -> ObjectId {
        ObjectId {
            ino: Ino(ino),
            generation: 3,
        }
    }

    fn loss(ino: u64, range: Range<u64>) -> Loss {
        Loss {
            object: object(ino),
            range,
            session: 9,
            member: Member::One,
            can_return: true,
            epoch: Epoch(4),
            noted: 77,
        }
    }

    fn with_losses(test: impl AsyncFnOnce(Env, PathBuf, Losses)) {
        let dir = tempfile::tempdir().unwrap();
        weft_env::real::run(|env| async move {
            let path = dir.path().to_owned();
            let losses = Losses::open(env.clone(), &path, STORE).await.unwrap();
            test(env, path, losses).await;
        })
        .unwrap();
    }

    #[test]
    fn they_are_known_again_after_a_start() {
        with_losses(async |env, dir, losses| {
            assert!(losses.is_empty());
            let noted = [loss(1, 10..20), loss(1, 100..u64::MAX), loss(2, 0..5)];
            losses.add(&noted).await.unwrap();
            losses.clear(object(1), &[15..16]).await.unwrap();
            let again = Losses::open(env.clone(), &dir, STORE).await.unwrap();
            assert_eq!(again.all(None), losses.all(None));
            let ranges: Vec<_> = again.all(Some(object(1))).into_iter().collect();
            assert_eq!(ranges.len(), 3);
            assert_eq!(again.within(object(1), 0..10), None);
            assert_eq!(again.within(object(1), 0..11), Some(10..15));
            assert_eq!(again.within(object(1), 15..16), None);
            assert_eq!(
                again.within(object(1), 1 << 40..1 << 41),
                Some(100..u64::MAX)
            );
            assert_eq!(again.within(object(3), 0..9), None);
            again.give_up().await.unwrap();
            assert!(again.all(None).iter().all(|loss| !loss.can_return));
            again.replace(vec![loss(7, 1..2)]).await.unwrap();
            assert_eq!(again.all(None), [loss(7, 1..2)]);
            let other = Losses::open(env, &dir, STORE + 1).await;
            let why = other.err().unwrap().to_string();
            assert!(why.contains("another store"), "{why}");
        });
    }

    #[test]
    fn a_damaged_list_is_refused_with_what_to_do() {
        let map = [loss(1, 10..20), loss(2, 3..4)]
            .map(|loss| ((loss.object, loss.range.start), loss))
            .into_iter()
            .collect();
        let content = encode(&map, STORE);
        assert_eq!(decode(&content, STORE).unwrap(), map);
        for at in 0..content.len() {
            let mut flipped = content.clone();
            flipped[at] ^= 4;
            assert!(decode(&flipped, STORE).is_err(), "byte {at}");
            assert!(decode(&content[..at], STORE).is_err());
        }
        with_losses(async |env, dir, _| {
            env.replace_file(&dir.join(FILE), content[1..].to_vec())
                .await
                .unwrap();
            let why = Losses::open(env, &dir, STORE).await.err().unwrap();
            assert!(why.to_string().contains("remove the file"), "{why}");
        });
    }

    proptest! {
        #[test]
        fn they_are_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..20), 1..40)) {
            let mut reference: BTreeSet<u64> = BTreeSet::new();
            let mut found = Vec::new();
            with_losses(async |_, _, losses| {
                for (add, start, length) in steps {
                    let range = start..start + length;
                    if add {
                        losses.add(&[loss(1, range.clone())]).await.unwrap();
                        reference.extend(range);
                    } else {
                        losses.clear(object(1), std::slice::from_ref(&range)).await.unwrap();
                        reference.retain(|byte| !range.contains(byte));
                    }
                    let known: BTreeSet<u64> =
                        losses.all(None).into_iter().flat_map(|loss| loss.range).collect();
                    let each = (0..80).all(|byte| {
                        losses.within(object(1), byte..byte + 1).is_some() == reference.contains(&byte)
                    });
                    found.push(known == reference && each);
                }
            });
            prop_assert!(found.iter().all(|right| *right));
        }
    }
}
