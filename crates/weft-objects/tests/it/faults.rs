//! Full disks and disks that fail: errors keep their errno, nothing acknowledged is harmed, and what
//! makes room goes on.

use crate::common::disk::{Dice, Disk};
use crate::common::model::{Change, Model, object};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use weft_env::real;
use weft_objects::{Error, Extent, Fetched, Fill, Purpose, Result, Store, regions_of};
use weft_types::{Ino, Member, ObjectId, PairId};

async fn open(disk: &Disk) -> Store {
    Store::open(disk.env(), Path::new("/d"), PairId(0), Member::Zero)
        .await
        .expect("the disk is good")
}

async fn write(store: &Store, id: ObjectId, offset: u64, data: Vec<u8>) -> Result<()> {
    let extent = Extent {
        offset,
        length: data.len() as u32,
    };
    store.write(id, &[extent], data.into()).await
}

fn numbered(number: u64) -> ObjectId {
    ObjectId {
        ino: Ino(number),
        generation: 0,
    }
}

#[test]
fn a_full_disk_keeps_what_it_has_and_can_make_room() {
    real::run(|_| async {
        for room in [0, 1, 2, 3, 5, 9] {
            let disk = Disk::default();
            let store = open(&disk).await;
            let id = numbered(1);
            write(&store, id, 0, vec![1; 40_000]).await.unwrap();
            write(&store, numbered(2), 0, vec![2; 40_000])
                .await
                .unwrap();
            disk.leave_room(Some(room));
            let mut acknowledged = 0;
            for number in 10..40 {
                match write(&store, numbered(number), 0, vec![3; 8192]).await {
                    Ok(()) => acknowledged += 1,
                    Err(error) => assert_eq!(error.errno(), 28, "{error}"),
                }
            }
            assert_eq!(acknowledged, room / 3);
            let error = write(&store, id, 1 << 20, vec![4; 100_000])
                .await
                .unwrap_err();
            assert_eq!(error.errno(), 28);
            // In place there is room.
            write(&store, id, 100, vec![5; 20_000]).await.unwrap();

            for store in [store.clone(), open(&disk).await] {
                let content = store.read(id, 0, 40_000).await.unwrap().concat();
                assert!(content[..100] == [1; 100] && content[100..20_100] == [5; 20_000]);
                assert_eq!(content[20_100..], [1; 19_900]);
                let rest = store.read(id, 40_000, 2 << 20).await.unwrap().concat();
                let (zeros, part) = rest.split_at(rest.len().min((1 << 20) - 40_000));
                assert!(zeros.iter().all(|&byte| byte == 0));
                for block in part.chunks(4096) {
                    assert!(
                        block.iter().all(|&byte| byte == 0) || block.iter().all(|&byte| byte == 4)
                    );
                }
            }

            let store = open(&disk).await;
            disk.leave_room(Some(0));
            store.truncate(id, 20_101).await.unwrap();
            store.truncate(id, 10_000).await.unwrap();
            assert_eq!(store.read(id, 9_990, 99).await.unwrap().concat(), [5; 10]);
            store
                .punch(numbered(2), &[5..8200, 8192..30_000])
                .await
                .unwrap();
            let punched = store.read(numbered(2), 0, 40_000).await.unwrap().concat();
            assert_eq!(punched[..5], [2; 5]);
            assert_eq!(punched[5..30_000], [0; 29_995]);
            assert_eq!(punched[30_000..], [2; 10_000]);
            store.remove(numbered(2)).await.unwrap();
            disk.leave_room(None);
            write(&store, id, 1 << 20, vec![4; 100_000]).await.unwrap();
            assert_eq!(
                store.read(id, 1 << 20, 1 << 20).await.unwrap().concat(),
                [4; 100_000]
            );
        }
    })
    .unwrap();
}

/// Random changes while the disk is full now and then: those that fail leave each block old or new.
#[test]
fn changes_that_fail_for_want_of_room_leave_each_block_old_or_new() {
    real::run(|_| async {
        let mut failed = 0;
        for seed in 1..40 {
            let mut dice = Dice(seed);
            let disk = Disk::default();
            let mut store = open(&disk).await;
            let mut models: BTreeMap<ObjectId, Model> = BTreeMap::new();
            for _ in 0..40 {
                let room = [None, Some(0), Some(1), Some(3), Some(8)][dice.roll(5) as usize];
                disk.leave_room(room);
                let id = object(dice.roll(2));
                let change = Change::random(&mut dice);
                let before = models.entry(id).or_default().clone();
                let mut after = before.clone();
                after.apply(&change);
                match change.apply(&store, id).await {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.errno(), 28, "{error}");
                        assert!(
                            matches!(change, Change::Write(_) | Change::Fill(..)),
                            "{} needs no room",
                            change.brief()
                        );
                        failed += 1;
                        let found = Model::of(&store, id).await.unwrap();
                        for block in 0..4 * 508 {
                            assert!(
                                found.block(block) == before.block(block)
                                    || found.block(block) == after.block(block),
                                "block {block} after {}",
                                change.brief()
                            );
                        }
                        after = found;
                    }
                }
                if dice.roll(8) == 0 {
                    store = open(&disk).await;
                }
                assert!(
                    Model::of(&store, id).await.unwrap() == after,
                    "{}",
                    change.brief()
                );
                models.insert(id, after);
            }
        }
        assert!(failed > 50, "{failed}");
    })
    .unwrap();
}

#[test]
fn marks_for_what_frees_room_succeed_on_a_full_disk_and_are_kept() {
    real::run(|_| async {
        let disk = Disk::default();
        let store = open(&disk).await;
        disk.leave_room(Some(0));
        let mut refused = 0;
        for number in 0..20_000 {
            let id = numbered(number);
            match store.mark(id, 0..1, Purpose::Write, false).await {
                Ok(()) => assert!(store.is_dirty(id, 0)),
                Err(error) => {
                    assert_eq!(error.errno(), 28);
                    assert!(!store.is_dirty(id, 0));
                    refused += 1;
                    store.mark(id, 3..4, Purpose::Free, true).await.unwrap();
                }
            }
        }
        // Until the reserve is used up, and with it the need to note anything.
        assert_eq!(refused, 2048);
        store.tidy().await.unwrap_err();
        assert!(!store.everything_dirty(), "what is in memory is exact");
        assert_eq!(store.dirty_count(), 20_000);
        drop(store);
        // The reserve was used up: the log could only note that everything may differ.
        let store = open(&disk).await;
        assert!(store.everything_dirty());
        // It says so already: what frees room needs no more of it.
        store
            .mark(numbered(2), 3..4, Purpose::Free, true)
            .await
            .unwrap();
        drop(store);
        let store = open(&disk).await;
        assert!(store.everything_dirty());
        // With room again, marks are kept one by one, and after a comparison all is as before.
        disk.leave_room(None);
        store
            .mark(numbered(1 << 20), 9..10, Purpose::Write, false)
            .await
            .unwrap();
        store.clear_everything();
        store.tidy().await.unwrap();
        drop(store);
        let store = open(&disk).await;
        assert!(!store.everything_dirty());
        assert!(store.is_dirty(numbered(1 << 20), 9));
    })
    .unwrap();
}

#[test]
fn an_exhausted_list_becomes_exact_again_when_there_is_room() {
    real::run(|_| async {
        let disk = Disk::default();
        let store = open(&disk).await;
        disk.leave_room(Some(0));
        for number in 0..12_000 {
            store
                .mark(numbered(number), 0..1, Purpose::Free, false)
                .await
                .unwrap();
        }
        store.clear(numbered(5), 0..1);
        disk.leave_room(None);
        for _ in 0..3 {
            store.tidy().await.unwrap();
        }
        drop(store);
        let store = open(&disk).await;
        assert!(!store.everything_dirty());
        assert_eq!(store.dirty_count(), 11_999);
        assert!(!store.is_dirty(numbered(5), 0));
    })
    .unwrap();
}

#[test]
fn a_read_that_fails_once_does_not_make_the_object_longer() {
    real::run(|_| async {
        let disk = Disk::default();
        let id = numbered(0x77);
        let store = open(&disk).await;
        write(&store, id, 0, vec![1; 5000]).await.unwrap();
        // The last block is read to be written in part.
        disk.unreadable_once("77.0", 0..u64::MAX);
        write(&store, id, 4200, vec![2; 10]).await.unwrap();
        assert_eq!(store.length(id).await.unwrap(), 5000);
        let content = store.read(id, 4096, 8192).await.unwrap().concat();
        let expected = [vec![1; 104], vec![2; 10], vec![1; 790]].concat();
        assert!(content == expected);
    })
    .unwrap();
}

#[test]
fn sectors_that_cannot_be_read_are_bad_blocks_and_heal() {
    real::run(|_| async {
        let disk = Disk::default();
        let id = numbered(0x77);
        let store = open(&disk).await;
        let data: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        write(&store, id, 0, data.clone()).await.unwrap();
        disk.unreadable("77.0", 4096 * 4..4096 * 5 + 1);
        match store.read(id, 0, 100_000).await {
            Err(Error::BadBlocks { blocks, .. }) => assert_eq!(blocks, [3, 4]),
            other => panic!("{other:?}"),
        }
        assert_eq!(store.checksums(id, 0).await.unwrap().bad, [3, 4]);
        assert_eq!(
            store.read(id, 0, 12288).await.unwrap().concat(),
            data[..12288]
        );
        let fill = Fill {
            blocks: vec![3, 4],
            payload: Bytes::copy_from_slice(&data[12288..20480]),
            exists: true,
            ..Fill::default()
        };
        store.fill(id, &fill).await.unwrap();
        disk.unreadable("nothing", 0..0);
        assert_eq!(store.read(id, 0, 100_000).await.unwrap().concat(), data);

        // The checksum page itself.
        drop(store);
        let store = open(&disk).await;
        disk.unreadable("77.0", 0..1);
        let all: Vec<u64> = (0..25).collect();
        match store.read(id, 0, 100_000).await {
            Err(Error::BadBlocks { blocks, .. }) => assert_eq!(blocks, all),
            other => panic!("{other:?}"),
        }
        disk.unreadable("nothing", 0..0);
        let mut payload = data.clone();
        payload.resize(25 * 4096, 0);
        let fill = Fill {
            blocks: all,
            payload: payload.into(),
            exists: true,
            ..Fill::default()
        };
        store.fill(id, &fill).await.unwrap();
        assert_eq!(store.read(id, 0, 200_000).await.unwrap().concat(), data);
        assert_eq!(store.fetch(id, &[25]).await.unwrap(), [Fetched::Hole]);
    })
    .unwrap();
}

#[test]
fn a_log_that_cannot_be_written_is_made_anew_before_marks_count() {
    real::run(|_| async {
        let disk = Disk::default();
        let store = open(&disk).await;
        store
            .mark(numbered(1), regions_of(0, 1), Purpose::Write, false)
            .await
            .unwrap();
        disk.unwritable(Some("/d/modified"));
        let refused = store.mark(numbered(2), 0..1, Purpose::Free, false).await;
        assert_eq!(refused.unwrap_err().errno(), 5);
        let refused = store.mark(numbered(3), 0..1, Purpose::Write, false).await;
        assert_eq!(refused.unwrap_err().errno(), 5);
        disk.unwritable(None);
        store
            .mark(numbered(4), 0..1, Purpose::Write, false)
            .await
            .unwrap();
        drop(store);
        let store = open(&disk).await;
        assert!(!store.everything_dirty());
        assert!(store.is_dirty(numbered(1), 0) && store.is_dirty(numbered(4), 0));
    })
    .unwrap();
}
