//! Journal segments and image files: any bytes in them are read, cut at a torn end, or refused. So are
//! bytes that another member sends as a batch.
#![no_main]

use std::cell::RefCell;
use weft_journal::{ImageReader, Location, Reader, Sealed};
use weft_types::{GroupId, Sn};

thread_local! {
    static DIRECTORY: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    if kind & 2 != 0 {
        if let Ok((sealed, batch)) = Sealed::read(bytes.to_vec().into()) {
            assert_eq!((sealed.sn().0, sealed.epoch().0), (batch.sn, batch.epoch));
            assert_eq!(sealed.content(), bytes);
        }
        return;
    }
    DIRECTORY.with_borrow_mut(|directory| {
        let directory = directory.get_or_insert_with(|| tempfile::tempdir().unwrap());
        let dir = directory.path().to_owned();
        let name = if kind & 1 == 0 {
            "journal/00000000000000000001.journal"
        } else {
            "image-00000000000000000007"
        };
        let path = dir.join(name);
        std::fs::create_dir_all(dir.join("journal")).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let location = Location {
            dir,
            cluster_id: "kept".into(),
            group: GroupId(3),
        };
        weft_env::real::run(|env| async move {
            if kind & 1 == 0 {
                if let Ok(mut reader) = Reader::open(&env, &location, Sn(0)).await {
                    while let Ok(Some(_)) = reader.next().await {}
                    let _ = reader.finish();
                }
            } else if let Ok(mut reader) = ImageReader::open(&env, &location, Sn(7)).await {
                while let Ok(Some(_)) = reader.next().await {}
            }
        })
        .unwrap();
        std::fs::remove_file(&path).unwrap();
    });
});
