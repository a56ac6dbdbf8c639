//! An object store of version 1 with one of its files replaced: it opens and everything in it can be
//! asked for, or it is refused.
#![no_main]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use weft_objects::{ScrubCursor, Store};
use weft_types::{Member, PairId};

thread_local! {
    static DIRECTORY: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else {
        return;
    };
    let kept = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/compat/object-v1"));
    let mut originals = Vec::new();
    files(kept, &mut originals);
    DIRECTORY.with_borrow_mut(|directory| {
        let directory = directory.get_or_insert_with(|| tempfile::tempdir().unwrap());
        for (at, original) in originals.iter().enumerate() {
            let path = directory.path().join(original.strip_prefix(kept).unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if at == usize::from(which) % originals.len() {
                std::fs::write(path, bytes).unwrap();
            } else {
                std::fs::copy(original, path).unwrap();
            }
        }
        let dir = directory.path().to_owned();
        weft_env::real::run(|env| async move {
            let Ok(store) = Store::open(env, &dir, PairId(4), Member::One).await else {
                return;
            };
            let _ = store.dirty(None, 1_000);
            for (object, length) in store.list(None, 100).await.unwrap_or_default() {
                let _ = store.read(object, 0, length.min(1 << 20)).await;
                let _ = store.checksums(object, 0).await;
                let _ = store.map(object, 0, length, 100).await;
            }
            let mut cursor = ScrubCursor::default();
            while let Ok(Some(_)) = store.scrub_step(&mut cursor).await {}
        })
        .unwrap();
    });
});
