//! The store on the real file system.

use crate::common;
use crate::common::disk::Dice;
use crate::common::model::{Change, Model};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use weft_env::{Env, OpenMode, real};
use weft_objects::{Error, Extent, Fetched, Fill, ScrubCursor, Store, regions_of};
use weft_types::{Epoch, Ino, Member, ObjectId, PairId};

const BLOCK: usize = 4096;
const GROUP: u64 = 508 * 4096;

fn object(ino: u64) -> ObjectId {
    ObjectId {
        ino: Ino(ino),
        generation: 0,
    }
}

async fn open(env: &Env, dir: &Path) -> Store {
    Store::open(env.clone(), dir, PairId(3), Member::One)
        .await
        .unwrap()
}

async fn read(store: &Store, id: ObjectId, offset: u64, length: u64) -> Vec<u8> {
    store.read(id, offset, length).await.unwrap().concat()
}

async fn write(store: &Store, id: ObjectId, offset: u64, data: &[u8]) {
    let extent = Extent {
        offset,
        length: data.len() as u32,
    };
    store
        .write(id, &[extent], Bytes::copy_from_slice(data))
        .await
        .unwrap();
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect()
}

/// The file of the only object of a store.
fn only_file(dir: &Path, env: &Env) -> std::path::PathBuf {
    let objects = dir.join("objects");
    let mut files = Vec::new();
    for sub in env.read_dir(&objects).unwrap() {
        for file in env.read_dir(&objects.join(&sub.name)).unwrap() {
            files.push(objects.join(&sub.name).join(file.name));
        }
    }
    assert_eq!(files.len(), 1);
    files.remove(0)
}

/// Flips one bit of a file.
async fn flip(env: &Env, path: &Path, at: u64) {
    let file = env.open(path, OpenMode::Write).await.unwrap();
    let byte = file.read_at(at, 1).await.unwrap()[0] ^ 1;
    file.write_at(at, vec![vec![byte].into()]).await.unwrap();
}

fn with_dir<F: Future<Output = ()>>(test: impl FnOnce(Env, std::path::PathBuf) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    real::run(|env| test(env, path)).unwrap();
}

#[test]
fn what_was_written_is_read_also_after_reopening() {
    with_dir(|env, dir| async move {
        let (a, b) = (object(0x100), object(0x2000_0000_0000_0101));
        let small = pattern(1, 1000);
        let large = pattern(2, 3 << 20);
        {
            let store = open(&env, &dir).await;
            write(&store, a, 0, &small).await;
            write(&store, b, 100, &large).await;
            assert_eq!(read(&store, a, 0, 5000).await, small);
        }
        let store = open(&env, &dir).await;
        assert_eq!(read(&store, a, 0, 5000).await, small);
        assert_eq!(read(&store, a, 10, 20).await, small[10..30]);
        assert_eq!(read(&store, b, 100, 4 << 20).await, large);
        assert_eq!(read(&store, b, 0, 100).await, vec![0; 100]);
        assert_eq!(
            store.list(None, 10).await.unwrap(),
            [(a, 1000), (b, (3 << 20) + 100)]
        );
        assert_eq!(
            store.list(Some(a), 10).await.unwrap(),
            [(b, (3 << 20) + 100)]
        );
        assert_eq!(store.space().unwrap().objects, 2);
        store.remove(a).await.unwrap();
        assert!(read(&store, a, 0, 10).await.is_empty());
        assert_eq!(store.space().unwrap().objects, 1);
    });
}

#[test]
fn a_store_knows_who_it_is() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        let id = store.store_id();
        assert_eq!((store.last_epoch(), store.was_serving()), (Epoch(0), false));
        store.record_epoch(Epoch(9), true).await.unwrap();
        drop(store);
        let store = open(&env, &dir).await;
        assert_eq!(store.store_id(), id);
        assert_eq!((store.last_epoch(), store.was_serving()), (Epoch(9), true));
        drop(store);
        let refused = Store::open(env.clone(), &dir, PairId(3), Member::Zero).await;
        let message = refused.err().unwrap().to_string();
        assert!(
            message.contains(
                "this is the store of member 1 of pair 3, not of member 0 of pair 3: set"
            ),
            "{message}"
        );
    });
}

#[test]
fn a_store_that_is_open_is_not_opened_by_another() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        let refused = Store::open(env.clone(), &dir, PairId(3), Member::One).await;
        let Some(Error::Locked(locked)) = refused.err() else {
            panic!("two have it open");
        };
        assert_eq!(locked, dir);
        drop(store);
        open(&env, &dir).await;
    });
}

#[test]
fn a_directory_that_is_no_store_is_refused_and_left_alone() {
    with_dir(|env, dir| async move {
        env.create_dir_all(&dir).unwrap();
        env.open(&dir.join("letters.txt"), OpenMode::Create)
            .await
            .unwrap();
        let refused = Store::open(env.clone(), &dir, PairId(0), Member::Zero).await;
        let message = refused.err().unwrap().to_string();
        assert!(
            message.contains(
                "holds `letters.txt` but no file `store`: not a Weft store, and not empty. Set"
            ),
            "{message}"
        );
        assert_eq!(env.read_dir(&dir).unwrap().len(), 1);
        // The remains of a store whose identity is lost are not made a new one either.
        env.remove_file(&dir.join("letters.txt")).unwrap();
        let store = open(&env, &dir).await;
        write(&store, object(1), 0, b"content").await;
        drop(store);
        env.remove_file(&dir.join("store")).unwrap();
        let refused = Store::open(env.clone(), &dir, PairId(3), Member::One).await;
        assert!(matches!(refused.err(), Some(Error::Misplaced { .. })));
    });
}

#[test]
fn a_store_of_another_version_is_refused_by_name() {
    with_dir(|env, dir| async move {
        drop(open(&env, &dir).await);
        let file = env.open(&dir.join("store"), OpenMode::Write).await.unwrap();
        file.write_at(8, vec![vec![3].into()]).await.unwrap();
        let refused = Store::open(env.clone(), &dir, PairId(3), Member::One).await;
        let message = refused.err().unwrap().to_string();
        assert!(
            message.ends_with("store format 3; this version of Weft reads formats 1 and 2"),
            "{message}"
        );
    });
}

#[test]
fn what_is_filled_without_a_length_cuts_off_nothing_that_is_written_behind_it_meanwhile() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        // Of two groups, so that it takes longer than the write.
        let blocks = vec![1, 600];
        let payload = Bytes::from(vec![7; 2 * BLOCK]);
        for ino in 1..50 {
            write(&store, object(ino), 600 * BLOCK as u64, &[1; BLOCK]).await;
            let fill = Fill {
                blocks: blocks.clone(),
                payload: payload.clone(),
                exists: true,
                ..Fill::default()
            };
            let filling = store.fill(object(ino), &fill);
            let writing = write(
                &store,
                object(ino),
                700 * BLOCK as u64,
                b"written meanwhile",
            );
            let (filled, ()) = futures_util::future::join(filling, writing).await;
            filled.unwrap();
            let length = store.length(object(ino)).await.unwrap();
            assert_eq!(length, 700 * BLOCK as u64 + 17, "object {ino}");
            let read = store
                .read(object(ino), 700 * BLOCK as u64, 17)
                .await
                .unwrap();
            assert_eq!(read.concat(), b"written meanwhile", "object {ino}");
        }
    });
}

#[test]
fn a_format_that_was_interrupted_is_begun_again() {
    with_dir(|env, dir| async move {
        env.create_dir_all(&dir.join("objects/00")).unwrap();
        env.create_dir_all(&dir.join("lost+found")).unwrap();
        env.open(&dir.join("modified.new"), OpenMode::Create)
            .await
            .unwrap();
        let store = open(&env, &dir).await;
        write(&store, object(7), 0, b"content").await;
        assert_eq!(read(&store, object(7), 0, 10).await, b"content");
    });
}

/// Blocks reported bad by a read.
async fn bad(store: &Store, id: ObjectId, offset: u64, length: u64) -> Vec<u64> {
    match store.read(id, offset, length).await {
        Err(Error::BadBlocks { object, blocks }) => {
            assert_eq!(object, id);
            blocks
        }
        other => panic!("expected bad blocks, not {other:?}"),
    }
}

/// Heals these blocks as the data server does: from what the twin has.
async fn heal(store: &Store, twin: &Store, id: ObjectId, blocks: &[u64]) {
    let mut fill = Fill {
        exists: true,
        ..Fill::default()
    };
    let mut payload = Vec::new();
    for (block, fetched) in blocks.iter().zip(twin.fetch(id, blocks).await.unwrap()) {
        match fetched {
            Fetched::Data(bytes) => {
                fill.blocks.push(*block);
                payload.extend_from_slice(&bytes);
            }
            Fetched::Hole => fill.holes.push(*block),
            Fetched::Bad => panic!("the twin is good"),
        }
    }
    fill.payload = payload.into();
    store.fill(id, &fill).await.unwrap();
}

#[test]
fn a_flipped_bit_is_found_and_healed_from_the_twin() {
    with_dir(|env, dir| async move {
        let id = object(5);
        let data = pattern(3, 20 * BLOCK + 77);
        let twin = open(&env, &dir.join("twin")).await;
        write(&twin, id, 0, &data).await;
        let store = open(&env, &dir.join("store")).await;
        write(&store, id, 0, &data).await;
        let path = only_file(&dir.join("store"), &env);
        // One bit in blocks 2 and 20 (the short last one), one in the checksum of block 7.
        flip(&env, &path, 4096 * 3 + 5).await;
        flip(&env, &path, 4096 * 21 + 76).await;
        flip(&env, &path, 32 + 7 * 8 + 1).await;
        flip(&env, &path, 32 + 7 * 8 + 5).await;
        drop(store);
        let store = open(&env, &dir.join("store")).await;
        assert_eq!(read(&store, id, 0, 100).await, data[..100]);
        assert_eq!(bad(&store, id, 0, 1 << 20).await, [2, 7, 20]);
        let sums = store.checksums(id, 0).await.unwrap();
        assert_eq!(sums.bad, [2, 7, 20]);
        let mut cursor = ScrubCursor::default();
        let scrubbed = store.scrub_step(&mut cursor).await.unwrap().unwrap();
        assert_eq!((scrubbed.object, scrubbed.bad), (id, vec![2, 7, 20]));
        assert_eq!(scrubbed.bytes, 21 * 4096);
        assert_eq!(store.scrub_step(&mut cursor).await.unwrap(), None);
        assert_eq!(cursor, ScrubCursor::default());
        // A write of a part of a bad block must not make it look good.
        let extent = Extent {
            offset: 2 * 4096 + 10,
            length: 3,
        };
        let written = store.write(id, &[extent], Bytes::from_static(b"abc")).await;
        assert!(matches!(written, Err(Error::BadBlocks { blocks, .. }) if blocks == [2]));
        let cut = store.truncate(id, 2 * 4096 + 10).await;
        assert!(matches!(cut, Err(Error::BadBlocks { blocks, .. }) if blocks == [2]));
        assert_eq!(store.fetch(id, &[1, 2]).await.unwrap()[1], Fetched::Bad);

        heal(&store, &twin, id, &[2, 7, 20]).await;
        assert_eq!(read(&store, id, 0, 1 << 20).await, data);
        assert_eq!(store.length(id).await.unwrap(), data.len() as u64);
        assert_eq!(
            store.checksums(id, 0).await.unwrap(),
            twin.checksums(id, 0).await.unwrap()
        );
        // A bad block that is written whole is good.
        flip(&env, &path, 4096 * 3 + 5).await;
        write(&store, id, 2 * 4096, &[9; BLOCK]).await;
        assert_eq!(read(&store, id, 2 * 4096, 4096).await, [9; BLOCK]);
    });
}

#[test]
fn a_damaged_checksum_page_makes_its_holes_doubtful_until_the_twin_has_told() {
    with_dir(|env, dir| async move {
        let id = object(5);
        let twin = open(&env, &dir.join("twin")).await;
        let store = open(&env, &dir.join("store")).await;
        for store in [&twin, &store] {
            write(store, id, 0, &[1; BLOCK]).await;
            write(store, id, 3 * 4096, &[3; BLOCK]).await;
        }
        let path = only_file(&dir.join("store"), &env);
        flip(&env, &path, 9).await;
        drop(store);
        let store = open(&env, &dir.join("store")).await;
        assert_eq!(
            read(&store, id, 0, 4096).await,
            [1; BLOCK],
            "it proves itself"
        );
        assert_eq!(bad(&store, id, 0, 1 << 20).await, [1, 2]);
        heal(&store, &twin, id, &[1, 2]).await;
        assert_eq!(
            read(&store, id, 0, 1 << 20).await,
            read(&twin, id, 0, 1 << 20).await
        );
        drop(store);
        let store = open(&env, &dir.join("store")).await;
        assert_eq!(store.checksums(id, 0).await.unwrap().bad, []);
    });
}

#[test]
fn a_map_shows_data_and_skips_large_holes() {
    with_dir(|env, dir| async move {
        let (id, far) = (object(1), 1 << 40);
        let store = open(&env, &dir).await;
        write(&store, id, 100, b"near").await;
        write(&store, id, GROUP - 4096, &[7; 3 * BLOCK]).await;
        write(&store, id, far, &[1; 10]).await;
        let map = store.map(id, 0, u64::MAX, 100).await.unwrap();
        assert_eq!(
            map.data,
            [0..4096, GROUP - 4096..GROUP + 2 * 4096, far..far + 10]
        );
        assert_eq!(
            (map.length, map.allocated, map.more),
            (far + 10, 5 * 4096, false)
        );
        let map = store.map(id, 50, u64::MAX, 2).await.unwrap();
        assert_eq!(map.data, [50..4096, GROUP - 4096..GROUP], "and on, perhaps");
        assert!(map.more);
        store.punch(id, &[0..far]).await.unwrap();
        let map = store.map(id, 0, u64::MAX, 100).await.unwrap();
        assert_eq!((map.data, map.length), (vec![far..far + 10], far + 10));
        store.truncate(id, 5000).await.unwrap();
        assert_eq!(store.length(id).await.unwrap(), 5000);
        assert_eq!(read(&store, id, 0, 10_000).await, [0; 5000]);
        assert_eq!(store.map(id, 0, 5000, 9).await.unwrap().data, []);
        assert_eq!(store.map(object(2), 0, 5000, 9).await.unwrap().length, 0);
    });
}

/// What a power cut may leave: the page has reached the disk, the growth of the file has not.
#[test]
fn blocks_behind_a_lost_end_are_holes_also_when_the_object_grows_again() {
    with_dir(|env, dir| async move {
        let id = object(1);
        for grown_to in [7 * 4096, GROUP + 100, 3 * GROUP] {
            let store = open(&env, &dir).await;
            write(&store, id, 0, &[1; 6 * BLOCK]).await;
            // With this the page no longer says that the blocks may also be holes.
            write(&store, id, 0, &[1; BLOCK]).await;
            drop(store);
            let file = env
                .open(&only_file(&dir, &env), OpenMode::Write)
                .await
                .unwrap();
            file.set_len(3 * 4096).unwrap();
            let store = open(&env, &dir).await;
            assert_eq!(read(&store, id, 0, 1 << 20).await, [1; 2 * BLOCK]);
            write(&store, id, grown_to, b"more").await;
            let is_right = async |store: &Store| {
                assert_eq!(read(store, id, 8192, 4 * 4096).await, [0; 4 * BLOCK]);
                assert_eq!(read(store, id, grown_to, 9).await, b"more");
            };
            is_right(&store).await;
            drop(store);
            let store = open(&env, &dir).await;
            is_right(&store).await;
            store.remove(id).await.unwrap();
        }
    });
}

#[test]
fn requests_that_cannot_be_are_refused() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        let id = object(1);
        let extent = Extent {
            offset: 0,
            length: 5,
        };
        let short = store
            .write(id, &[extent], Bytes::from_static(b"four"))
            .await;
        assert!(matches!(short, Err(Error::Refused(_))));
        let extent = Extent {
            offset: u64::MAX - 2,
            length: 4,
        };
        let beyond = store
            .write(id, &[extent], Bytes::from_static(b"four"))
            .await;
        assert_eq!(beyond.unwrap_err().errno(), libc::EFBIG);
        let unordered = Fill {
            blocks: vec![2, 1],
            payload: vec![0; 2 * BLOCK].into(),
            exists: true,
            ..Fill::default()
        };
        assert!(matches!(
            store.fill(id, &unordered).await,
            Err(Error::Refused(_))
        ));
        assert!(!store.exists(id));
    });
}

#[test]
fn extents_in_any_order_are_written_in_that_order() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        let extents = [(4096, 3), (10, 2), (4097, 5), (12, 2)]
            .map(|(offset, length)| Extent { offset, length });
        let payload = Bytes::from_static(b"abcDEfghijKL");
        store.write(object(1), &extents, payload).await.unwrap();
        let all = read(&store, object(1), 0, 9000).await;
        assert_eq!(all[10..14], *b"DEKL");
        assert_eq!(all[4096..], *b"afghij");
    });
}

#[test]
fn more_objects_than_files_kept_open() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        for number in 0..1500 {
            write(&store, object(number * 3), 0, &pattern(number, 300)).await;
        }
        for number in (0..1500).rev() {
            assert_eq!(
                read(&store, object(number * 3), 0, 999).await,
                pattern(number, 300)
            );
        }
        let listed = store.list(Some(object(3)), 2000).await.unwrap();
        assert_eq!(listed.len(), 1498);
        assert!(listed.is_sorted());
        store
            .sync(&[object(0), object(3), object(999_999)])
            .await
            .unwrap();
    });
}

#[test]
fn long_holes_are_passed_by() {
    with_dir(|env, dir| async move {
        let store = open(&env, &dir).await;
        let far = 1 << 40;
        for at in [0, far] {
            write(&store, object(1), at, b"data").await;
        }
        write(&store, object(2), 0, b"data").await;
        let region = (far >> 20) as u32;
        let end = u32::MAX;
        assert_eq!(store.next_region(object(1), 0..end).await.unwrap(), 0);
        // What shares a checksum page with data may be looked at, too.
        let next = store.next_region(object(1), 9..end).await.unwrap();
        assert!((region - 2..=region).contains(&next), "{next}");
        assert_eq!(store.next_region(object(1), 9..20).await.unwrap(), 20);
        let behind = region + 3..end;
        assert_eq!(store.next_region(object(1), behind).await.unwrap(), end);
        assert_eq!(store.next_region(object(3), 4..9).await.unwrap(), 9);
        let mut cursor = ScrubCursor::default();
        let (mut steps, mut read) = (0, 0);
        let mut passed = 0;
        while let Some(scrubbed) = store.scrub_step(&mut cursor).await.unwrap() {
            (steps, read) = (steps + 1, read + scrubbed.bytes);
            passed = cursor.passed();
        }
        assert!(steps < 10 && read < 8 << 20, "{steps} steps, {read} bytes");
        assert!(passed > far - (8 << 20) && passed < far, "{passed}");
    });
}

#[test]
fn whether_a_block_is_a_hole_does_not_depend_on_the_order_of_writes_elsewhere() {
    with_dir(|env, dir| async move {
        const FAR: u64 = 100_000;
        // A file's first bytes, and what is punched of them.
        for (written, punched, is_hole) in [
            (0..2013, 0..2454, true),
            (0..2013, 0..2013, true),
            (0..2013, 5..2013, false),
            (100..2013, 50..3000, true),
            (0..2013, 0..2012, false),
        ] {
            let mut found = Vec::new();
            for is_longer_before in [true, false] {
                let dir = dir.join(format!("{punched:?} {is_longer_before}"));
                let store = open(&env, &dir).await;
                let id = object(1);
                let data = pattern(1, (written.end - written.start) as usize);
                write(&store, id, written.start, &data).await;
                if is_longer_before {
                    write(&store, id, FAR, &[1]).await;
                }
                let ranges = std::slice::from_ref(&punched);
                store.punch(id, ranges).await.unwrap();
                if !is_longer_before {
                    write(&store, id, FAR, &[1]).await;
                }
                found.push(store.checksums(id, 0).await.unwrap());
            }
            assert_eq!(found[0].checksums, found[1].checksums, "{punched:?}");
            assert_eq!(found[0].checksums[0] == 0, is_hole, "{punched:?}");
        }
    });
}

#[test]
fn filling_makes_an_object_equal_to_its_twin() {
    with_dir(|env, dir| async move {
        let id = object(5);
        let twin = open(&env, &dir.join("twin")).await;
        let store = open(&env, &dir.join("store")).await;
        write(&twin, id, 0, &pattern(1, 3 << 20)).await;
        twin.punch(id, &[8192..100_000]).await.unwrap();
        write(&store, id, 0, &pattern(2, 5 << 20)).await;
        for region in regions_of(0, 5 << 20) {
            let theirs = twin.checksums(id, region).await.unwrap();
            let ours = store.checksums(id, region).await.unwrap();
            let first = u64::from(region) * 256;
            let at = |sums: &[u32], index: u64| sums.get(index as usize).copied().unwrap_or(0);
            let differ: Vec<u64> = (0..256)
                .filter(|&i| at(&theirs.checksums, i) != at(&ours.checksums, i))
                .map(|i| first + i)
                .collect();
            let mut fill = Fill {
                length: Some(theirs.length),
                exists: theirs.exists,
                ..Fill::default()
            };
            let mut payload = Vec::new();
            for (block, fetched) in differ.iter().zip(twin.fetch(id, &differ).await.unwrap()) {
                match fetched {
                    Fetched::Data(bytes) => {
                        fill.blocks.push(*block);
                        payload.extend_from_slice(&bytes);
                    }
                    _ => fill.holes.push(*block),
                }
            }
            fill.payload = payload.into();
            store.fill(id, &fill).await.unwrap();
        }
        for region in 0..6 {
            assert_eq!(
                store.checksums(id, region).await.unwrap(),
                twin.checksums(id, region).await.unwrap()
            );
        }
        assert_eq!(
            store.map(id, 0, 5 << 20, 9).await.unwrap(),
            twin.map(id, 0, 5 << 20, 9).await.unwrap()
        );
        store.fill(id, &Fill::default()).await.unwrap();
        assert!(!store.exists(id));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Changes of three objects against plain maps, with restarts between.
    #[test]
    fn objects_hold_what_a_plain_map_holds(steps in prop::collection::vec((any::<u64>(), 0u8..12), 1..24)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        real::run(|env| async move {
            let mut store = open(&env, &path).await;
            let mut models: BTreeMap<ObjectId, Model> = BTreeMap::new();
            for (seed, kind) in steps {
                if kind == 0 && seed % 2 == 0 {
                    drop(store);
                    store = open(&env, &path).await;
                }
                let mut dice = Dice(seed);
                let id = common::model::object(dice.roll(3));
                let change = Change::random(&mut dice);
                change.apply(&store, id).await.unwrap();
                let model = models.entry(id).or_default();
                model.apply(&change);
                let found = Model::of(&store, id).await.unwrap();
                assert!(found == *model, "{id} after {}", change.brief());
                let map = store.map(id, 0, u64::MAX, 10_000).await.unwrap();
                for block in model.blocks.keys() {
                    let at = block * 4096;
                    assert!(map.data.iter().any(|range| range.contains(&at)), "{at} is data");
                }
                let (start, end) = change.extent().unwrap_or((0, 1));
                for region in regions_of(start, end) {
                    assert!(store.is_dirty(id, region));
                }
                let from = dice.roll(9 << 20);
                let length = dice.roll(100_000);
                let part = store.read(id, from, length).await.unwrap().concat();
                let expected = model.length.min(from + length).saturating_sub(from);
                assert_eq!(part.len() as u64, expected);
                for (at, byte) in (from..).zip(part) {
                    let block = model.block(at / 4096);
                    assert_eq!(byte, block.map_or(0, |block| block[(at % 4096) as usize]));
                }
            }
        }).unwrap();
    }
}

#[test]
fn a_store_is_intact_in_the_run_of_the_system_in_which_it_was_made_or_current() {
    real::run(|env| async move {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&env, dir.path()).await;
        assert!(store.is_intact(), "nothing was ever written");
        drop(store);
        let store = open(&env, dir.path()).await;
        assert!(store.is_intact());
        drop(store);
        // Of another run of the system, or of a version that did not note it.
        let file = dir.path().join("store");
        let mut record = env.read_file(&file).await.unwrap().unwrap();
        record[72..76].fill(0);
        let crc = crc32c::crc32c(&record[..76]);
        record[76..80].copy_from_slice(&crc.to_le_bytes());
        env.replace_file(&file, record).await.unwrap();
        let store = open(&env, dir.path()).await;
        assert!(!store.is_intact());
        // The same process is filled, and loses nothing from then on; the next one has to be told.
        store.became_current();
        assert!(store.is_intact());
        drop(store);
        let store = open(&env, dir.path()).await;
        assert!(!store.is_intact());
        store.record_epoch(Epoch(3), true).await.unwrap();
        drop(store);
        let store = open(&env, dir.path()).await;
        assert!(store.is_intact());
        // Being left behind does not change it.
        store.record_epoch(Epoch(4), false).await.unwrap();
        drop(store);
        assert!(open(&env, dir.path()).await.is_intact());
    })
    .unwrap();
}
