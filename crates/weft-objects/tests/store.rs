//! The store on the real file system.

use bytes::Bytes;
use proptest::prelude::*;
use std::ops::Range;
use std::path::Path;
use weft_env::{Env, OpenMode, real};
use weft_objects::{Error, Extent, Fetched, Fill, Purpose, ScrubCursor, Store, regions_of};
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
            message.ends_with("this is the store of member 1 of pair 3, not of member 0 of pair 3"),
            "{message}"
        );
    });
}
