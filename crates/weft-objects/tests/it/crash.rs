//! Kills at every write: whatever the instant, each block holds its old content or its new one, and
//! no mark is lost.

use crate::common::disk::{Dice, Disk};
use crate::common::model::{Change, Model, object};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use weft_env::real;
use weft_objects::{Result, Store, regions_of};
use weft_types::{Member, ObjectId, PairId};

const DIR: &str = "/d";
const OBJECTS: u64 = 3;

async fn open(disk: &Disk) -> Result<Store> {
    Store::open(disk.env(), Path::new(DIR), PairId(0), Member::Zero).await
}

/// What the world outside knows: contents before and after the changes that were not answered, and
/// the marks that were answered and not cleared.
#[derive(Default)]
struct Known {
    before: BTreeMap<ObjectId, Model>,
    after: BTreeMap<ObjectId, Model>,
    marks: BTreeSet<(ObjectId, u32)>,
    /// For the message of a failed test.
    last: Vec<(ObjectId, Change)>,
}

impl Known {
    /// One round: changes of blocks apart from each other, all at once. False when the kill came.
    async fn round(&mut self, store: &Store, dice: &mut Dice) -> bool {
        let mut changes: Vec<(ObjectId, Change)> = Vec::new();
        for _ in 0..1 + dice.roll(4) {
            let id = object(dice.roll(OBJECTS));
            let change = Change::random(dice);
            let apart = |other: &(ObjectId, Change)| {
                other.0 != id
                    || match (other.1.extent(), change.extent()) {
                        // A change of the length excludes others in these tests.
                        (Some(a), Some(b)) => {
                            a.1.div_ceil(4096) <= b.0 / 4096 || b.1.div_ceil(4096) <= a.0 / 4096
                        }
                        _ => false,
                    }
            };
            if changes.iter().all(apart) {
                changes.push((id, change));
            }
        }
        self.last = changes.clone();
        for (id, change) in &changes {
            self.after.entry(*id).or_default().apply(change);
        }
        let all = changes.iter().map(|(id, change)| change.apply(store, *id));
        let results = join_all(all).await;
        for ((id, change), result) in changes.iter().zip(results) {
            match result {
                Ok(()) => {
                    let (start, end) = change.extent().unwrap_or((0, 1));
                    for region in regions_of(start, end) {
                        self.marks.insert((*id, region));
                    }
                }
                Err(error) => {
                    assert!(
                        error.to_string().contains("was killed"),
                        "{id} {}: {error}",
                        change.brief()
                    );
                    return false;
                }
            }
        }
        self.before = self.after.clone();
        match dice.roll(6) {
            0 => store.tidy().await.is_ok(),
            1 => {
                let id = object(dice.roll(OBJECTS));
                let region = dice.roll(5) as u32;
                store.clear(id, region..region + 1);
                self.marks.remove(&(id, region));
                true
            }
            2 => store.sync(&[object(dice.roll(OBJECTS))]).await.is_ok(),
            _ => true,
        }
    }

    /// After a restart: every block old or new, lengths between, marks there. What is found is then
    /// the truth.
    async fn check(&mut self, store: &Store) {
        for number in 0..OBJECTS {
            let id = object(number);
            let before = self.before.entry(id).or_default().clone();
            let after = self.after.entry(id).or_default().clone();
            let found = Model::of(store, id)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            let (low, high) = (
                before.length.min(after.length),
                before.length.max(after.length),
            );
            assert!(
                (low..=high).contains(&found.length),
                "{id}: length {} is not within {low}..={high}",
                found.length
            );
            for block in 0..high.div_ceil(4096) {
                let content = found.block(block);
                assert!(
                    content == before.block(block) || content == after.block(block),
                    "{id}: block {block} is neither old nor new; lengths {} {} {}; last: {}",
                    before.length,
                    found.length,
                    after.length,
                    self.last
                        .iter()
                        .map(|(id, change)| format!("{id} {}", change.brief()))
                        .collect::<String>()
                );
            }
            if before.exists == after.exists {
                assert_eq!(found.exists, before.exists, "{id}");
            }
            self.before.insert(id, found.clone());
            self.after.insert(id, found);
        }
        assert!(!store.everything_dirty());
        for (id, region) in &self.marks {
            assert!(
                store.is_dirty(*id, *region),
                "the mark of {id} region {region} is lost"
            );
        }
    }
}

/// The same rounds with a kill at each change of the disk in turn.
#[test]
fn a_kill_at_any_write_leaves_each_block_old_or_new() {
    real::run(|_| async {
        for seed in 1..4 {
            let mut total = u64::MAX;
            let mut stop = 0;
            while stop < total {
                let disk = Disk::default();
                let mut known = Known::default();
                let store = open(&disk).await.unwrap();
                let begun = disk.changes();
                disk.shuffle(Dice(seed * 1000 + stop));
                disk.stop_at(Some(stop));
                let mut dice = Dice(seed);
                let mut alive = true;
                for _ in 0..30 {
                    alive = alive && known.round(&store, &mut dice).await;
                }
                if alive {
                    total = disk.changes() - begun;
                }
                drop(store);
                disk.stop_at(None);
                let store = open(&disk).await.unwrap();
                known.check(&store).await;
                stop += 1;
            }
            assert!(total > 50, "{total} changes are too few to mean anything");
        }
    })
    .unwrap();
}

/// Many lives on one disk, each ended by a kill: what one leaves open the next must settle.
#[test]
fn many_lives_and_kills_on_one_disk() {
    real::run(|_| async {
        let mut kills = 0;
        for seed in 1..40 {
            let mut dice = Dice(seed * 77);
            let disk = Disk::default();
            let mut known = Known::default();
            open(&disk).await.unwrap();
            disk.shuffle(Dice(seed));
            for _ in 0..8 {
                // It may come while the store is being opened, too.
                disk.stop_at(Some(dice.roll(40)));
                let store = open(&disk).await;
                let mut alive = store.is_ok();
                if let Ok(store) = store {
                    for _ in 0..8 {
                        alive = alive && known.round(&store, &mut dice).await;
                    }
                }
                kills += u64::from(!alive);
                disk.stop_at(None);
                let store = open(&disk).await.unwrap();
                known.check(&store).await;
            }
        }
        assert!(kills > 150, "{kills}");
    })
    .unwrap();
}
