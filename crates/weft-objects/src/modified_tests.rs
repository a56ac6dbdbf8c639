use super::*;
use futures_util::future::{join, join_all};
use std::collections::BTreeSet;
use weft_env::real;

#[path = "../tests/it/common/disk.rs"]
#[allow(dead_code)]
mod disk;

use disk::{Dice, Disk};

const STORE: u128 = 0xfeed_f00d;
const DIR: &str = "/d";
const LOG: &str = "/d/modified";

fn object(number: u64) -> ObjectId {
    ObjectId {
        ino: Ino(number),
        generation: 0,
    }
}

async fn open(disk: &Disk) -> Result<Modified> {
    Modified::open(disk.env(), PathBuf::from(DIR), STORE).await
}

/// A disk with an empty log.
async fn fresh() -> Disk {
    let disk = Disk::default();
    let env = disk.env();
    env.create_dir_all(Path::new(DIR)).unwrap();
    Modified::create(&env, Path::new(DIR), STORE).await.unwrap();
    disk
}

async fn mark(list: &Modified, number: u64, regions: Range<u32>) {
    list.mark(object(number), regions, Purpose::Write, false)
        .await
        .unwrap();
}

fn all(list: &Modified) -> BTreeSet<(u64, u32)> {
    let dirty = list.dirty(None, usize::MAX);
    let flat = |(id, runs): DirtyObject| runs.into_iter().flatten().map(move |r| (id.ino.0, r));
    dirty.into_iter().flat_map(flat).collect()
}

#[test]
fn a_record_comes_back_as_it_was_written_and_no_flipped_bit_does() {
    let id = ObjectId {
        ino: Ino(0x0123_4567_89ab_cdef),
        generation: 77,
    };
    for record in [
        Record::Set(id, 3..9),
        Record::Clear(id, 0..u32::MAX),
        Record::Everything,
    ] {
        let mut bytes = Vec::new();
        record.encode(5, &mut bytes);
        let bytes = <[u8; RECORD]>::try_from(bytes).unwrap();
        assert_eq!(Record::decode(&bytes, 5), Some(record));
        assert_eq!(Record::decode(&bytes, 6), None);
        for bit in 0..RECORD * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&flipped, 5), None, "bit {bit}");
        }
    }
    assert_eq!(Record::decode(&[0; RECORD], 1), None);
}

#[test]
fn marks_outlive_the_process_and_cleared_ones_leave_in_time() {
    real::run(|_| async {
        let disk = fresh().await;
        let list = open(&disk).await.unwrap();
        mark(&list, 1, 0..3).await;
        mark(&list, 2, 7..8).await;
        list.clear(object(1), 1..2);
        assert!(list.is_dirty(object(1), 0) && !list.is_dirty(object(1), 1));
        assert_eq!((list.objects(), list.region_count()), (2, 3));
        // Cleared a moment ago: the log still has it, so that marking it again is free.
        let before = disk.changes();
        mark(&list, 1, 1..2).await;
        mark(&list, 1, 0..3).await;
        assert_eq!(disk.changes(), before);
        list.clear(object(1), 1..2);
        drop(list);
        let list = open(&disk).await.unwrap();
        assert_eq!(all(&list), [(1, 0), (1, 1), (1, 2), (2, 7)].into());
        list.clear(object(1), 1..2);
        list.tidy().await.unwrap();
        list.tidy().await.unwrap();
        drop(list);
        let list = open(&disk).await.unwrap();
        assert_eq!(all(&list), [(1, 0), (1, 2), (2, 7)].into());
        let (id, runs) = list.dirty(Some(object(1)), 9).remove(0);
        assert_eq!((id, runs[0].clone(), runs.len()), (object(2), 7..8, 1));
        assert_eq!(list.regions(object(1)), [0..1, 2..3]);
    })
    .unwrap();
}

#[test]
fn a_torn_tail_is_cut_and_what_follows_it_is_kept() {
    real::run(|_| async {
        for torn in 1..RECORD {
            let disk = fresh().await;
            let list = open(&disk).await.unwrap();
            for number in 1..5 {
                mark(&list, number, 0..1).await;
            }
            drop(list);
            disk.edit(Path::new(LOG), |log| {
                log[4 * RECORD + torn..5 * RECORD].fill(0)
            });
            for room in [None, Some(0)] {
                // Without room for a new log the old one is used, its tail cut.
                disk.leave_room(room);
                let list = open(&disk).await.unwrap();
                assert!(!list.everything());
                let whole = all(&list);
                assert!(
                    whole.is_superset(&[(1, 0), (2, 0), (3, 0)].into()),
                    "{whole:?}"
                );
                mark(&list, 9, 0..1).await;
                drop(list);
                let list = open(&disk).await.unwrap();
                assert!(!list.everything() && list.is_dirty(object(9), 0));
            }
        }
    })
    .unwrap();
}

#[test]
fn damage_anywhere_else_means_that_everything_may_differ() {
    real::run(|_| async {
        for (from, to) in [
            (0, 1),
            (9, 10),
            (20, 21),
            (40, 41),
            (64, 96),
            (3 * 32, 3 * 32 + 1),
        ] {
            for room in [None, Some(0)] {
                let disk = fresh().await;
                let list = open(&disk).await.unwrap();
                for number in 1..5 {
                    mark(&list, number, 0..1).await;
                }
                drop(list);
                disk.edit(Path::new(LOG), |log| {
                    log[from..to].iter_mut().for_each(|byte| *byte ^= 0x55);
                });
                disk.leave_room(room);
                let list = open(&disk).await.unwrap();
                assert!(list.everything(), "{from}..{to}");
                list.mark(object(7), 0..1, Purpose::Free, false)
                    .await
                    .unwrap();
                drop(list);
                let list = open(&disk).await.unwrap();
                assert!(
                    list.everything(),
                    "it stays so until everything was compared"
                );
                disk.leave_room(None);
                list.clear_everything();
                list.tidy().await.unwrap();
                drop(list);
                assert!(!open(&disk).await.unwrap().everything());
            }
        }
        // Good records behind zeros: something between them was lost.
        let disk = fresh().await;
        let list = open(&disk).await.unwrap();
        mark(&list, 1, 0..1).await;
        mark(&list, 2, 0..1).await;
        drop(list);
        disk.edit(Path::new(LOG), |log| log[32..64].fill(0));
        assert!(open(&disk).await.unwrap().everything());
        // No log at all, and that of another store.
        disk.delete(Path::new(LOG));
        assert!(open(&disk).await.unwrap().everything());
        let other = Modified::open(disk.env(), PathBuf::from(DIR), 5)
            .await
            .unwrap();
        assert!(other.everything());
    })
    .unwrap();
}

#[test]
fn another_version_is_refused_by_name() {
    real::run(|_| async {
        let disk = fresh().await;
        disk.edit(Path::new(LOG), |log| {
            log[8] = 3;
            let crc = crc32c::crc32c(&log[..28]);
            log[28..32].copy_from_slice(&crc.to_le_bytes());
        });
        let refused = open(&disk).await.err().unwrap().to_string();
        assert_eq!(
            refused,
            "/d/modified: modified list format 3; this version of Weft reads format 1"
        );
    })
    .unwrap();
}

#[test]
fn garbage_is_dropped() {
    real::run(|_| async {
        let disk = fresh().await;
        let list = open(&disk).await.unwrap();
        mark(&list, 3, 0..9).await;
        for round in 0..60 {
            for number in 0..1000 {
                mark(&list, 1000 + round * 1000 + number, 0..1).await;
                list.clear(object(1000 + round * 1000 + number), 0..1);
            }
            list.tidy().await.unwrap();
        }
        let size = |disk: &Disk| disk.used() * 4096;
        assert!(size(&disk) < 3 << 20, "{}", size(&disk));
        drop(list);
        let list = open(&disk).await.unwrap();
        assert!(list.is_dirty(object(3), 8));
        assert!(list.objects() < 4000, "{}", list.objects());
    })
    .unwrap();
}

/// Marks, clears and tidying go on while the log is made anew, and a kill comes at each change of
/// the disk in turn: every mark that was answered, and not cleared since, is there.
#[test]
fn no_mark_is_lost_while_the_log_is_made_anew() {
    real::run(|_| async {
        for seed in 1..7 {
            let mut total = u64::MAX;
            let mut stop = 0;
            while stop < total {
                let disk = fresh().await;
                let list = open(&disk).await.unwrap();
                let begun = disk.changes();
                disk.shuffle(Dice(seed << 32 | stop));
                disk.stop_at(Some(stop));
                let answered: RefCell<BTreeSet<(u64, u32)>> = RefCell::default();
                let worker = |worker: u64| {
                    let (list, answered) = (&list, &answered);
                    async move {
                        let mut dice = Dice(seed * 100 + worker);
                        for _ in 0..30 {
                            // Each worker has objects of its own, as the data server's locks see to.
                            let number = worker * 10 + dice.roll(3);
                            let region = dice.roll(6) as u32;
                            if dice.roll(3) == 0 {
                                list.clear(object(number), region..region + 1);
                                answered.borrow_mut().remove(&(number, region));
                                continue;
                            }
                            let regions = region..region + 1 + dice.roll(3) as u32;
                            let durable = dice.roll(4) == 0;
                            let marked = list
                                .mark(object(number), regions.clone(), Purpose::Write, durable)
                                .await;
                            if marked.is_err() {
                                return;
                            }
                            answered
                                .borrow_mut()
                                .extend(regions.map(|region| (number, region)));
                        }
                    }
                };
                let keeper = async {
                    for round in 0..8 {
                        let kept = if round % 2 == 0 {
                            list.compact().await
                        } else {
                            list.tidy().await
                        };
                        if kept.is_err() {
                            return;
                        }
                    }
                };
                join(join_all((0..4).map(worker)), keeper).await;
                if !disk.is_dead() {
                    total = disk.changes() - begun;
                    assert!(all(&list).is_superset(&answered.borrow()));
                    assert_eq!(list.region_count(), all(&list).len() as u64);
                }
                drop(list);
                disk.stop_at(None);
                let list = open(&disk).await.unwrap();
                assert!(!list.everything());
                let found = all(&list);
                let answered = answered.into_inner();
                let lost: Vec<_> = answered.difference(&found).collect();
                assert!(lost.is_empty(), "seed {seed}, change {stop}: lost {lost:?}");
                stop += 1;
            }
            assert!(total > 30, "{total}");
        }
    })
    .unwrap();
}
