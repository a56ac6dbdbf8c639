//! The store of version 1 that is kept in `tests/compat/object-v1` opens and holds what it held.

use bytes::Bytes;
use std::path::Path;
use weft_env::{Env, OpenMode, real};
use weft_objects::{Extent, Purpose, Result, Store};
use weft_types::{Epoch, Ino, Member, ObjectId, PairId};

const STORE: &[u8] = include_bytes!("../../../../tests/compat/object-v1/store");
const MODIFIED: &[u8] = include_bytes!("../../../../tests/compat/object-v1/modified");
const OBJECT: &[u8] =
    include_bytes!("../../../../tests/compat/object-v1/objects/70/0030000000000123.2");
const PAIR: PairId = PairId(4);

fn object() -> ObjectId {
    ObjectId {
        ino: Ino(0x0030_0000_0000_0123),
        generation: 2,
    }
}

fn content() -> Vec<u8> {
    let mut content: Vec<u8> = (0..20_500u32).map(|at| (at % 251) as u8).collect();
    content[100..200].fill(b'W');
    content[8192..12288].fill(0);
    content
}

async fn put(env: &Env, path: &Path, bytes: &'static [u8]) {
    env.create_dir_all(path.parent().expect("files lie in directories"))
        .expect("a temporary directory takes directories");
    let file = env
        .open(path, OpenMode::CreateEmpty)
        .await
        .expect("and files");
    let written = file.write_at(0, vec![Bytes::from_static(bytes)]).await;
    written.expect("and bytes");
}

#[test]
fn the_store_of_version_1_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    real::run(|env| async move {
        put(&env, &path.join("store"), STORE).await;
        put(&env, &path.join("modified"), MODIFIED).await;
        for number in 0..256 {
            let sub = path.join(format!("objects/{number:02x}"));
            env.create_dir_all(&sub).unwrap();
        }
        put(&env, &path.join("objects/70/0030000000000123.2"), OBJECT).await;

        let store = Store::open(env.clone(), &path, PAIR, Member::One)
            .await
            .unwrap();
        assert_eq!(store.last_epoch(), Epoch(17));
        assert!(store.was_serving());
        let listed = store.list(None, 9).await.unwrap();
        assert_eq!(listed, [(object(), 20_500)]);
        let read = store.read(object(), 0, 1 << 20).await.unwrap().concat();
        assert!(read == content());
        let sums = store.checksums(object(), 0).await.unwrap();
        assert_eq!(
            (sums.bad, sums.checksums.len(), sums.checksums[2]),
            (vec![], 6, 0)
        );
        assert!(!store.everything_dirty());
        assert!(store.is_dirty(object(), 0) && !store.is_dirty(object(), 4));
        assert!(store.is_dirty(object(), 5) && store.is_dirty(object(), 6));
        assert_eq!(store.dirty_count(), 1);
    })
    .unwrap();
}

/// How the fixture was made: `WEFT_KEEP_STORE=tests/compat/object-v1 cargo test -p weft-objects`
/// from the workspace's root, in an empty directory; empty sub-directories are not kept.
#[test]
fn a_store_made_now_holds_the_same() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("WEFT_KEEP_STORE");
    let path = kept.map_or(temporary.path().to_owned(), |dir| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(dir)
    });
    real::run(|env| async move {
        let made: Result<()> = async {
            let store = Store::open(env.clone(), &path, PAIR, Member::One).await?;
            let mut content = content();
            content[100..200].fill(1);
            content[8192..12288].fill(1);
            let whole = Extent {
                offset: 0,
                length: content.len() as u32,
            };
            let part = Extent {
                offset: 100,
                length: 100,
            };
            store.mark(object(), 0..7, Purpose::Write, false).await?;
            store.write(object(), &[whole], content.into()).await?;
            let new = Bytes::from_static(&[b'W'; 100]);
            store.write(object(), &[part], new).await?;
            store
                .punch(object(), std::slice::from_ref(&(8192..12288)))
                .await?;
            store.clear(object(), 1..5);
            store.tidy().await?;
            store.tidy().await?;
            store.record_epoch(Epoch(17), true).await
        }
        .await;
        made.unwrap();
        // The zeros that are written ahead need not be kept.
        let log = env
            .open(&path.join("modified"), OpenMode::Write)
            .await
            .unwrap();
        log.set_len(1024).unwrap();
        let store = Store::open(env.clone(), &path, PAIR, Member::One)
            .await
            .unwrap();
        let read = store.read(object(), 0, 1 << 20).await.unwrap().concat();
        assert!(read == content());
        assert!(store.is_dirty(object(), 0) && !store.is_dirty(object(), 4));
        let log = env
            .open(&path.join("modified"), OpenMode::Write)
            .await
            .unwrap();
        log.set_len(1024).unwrap();
    })
    .unwrap();
}
