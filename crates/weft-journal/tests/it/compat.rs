//! The files of all versions that are kept in `tests/compat` open and hold what they held; bytes that
//! are none of ours are refused and never a panic.

use bytes::Bytes;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use weft_env::{Env, OpenMode, real};
use weft_journal::{
    ImageReader, ImageWriter, Journal, JournalError, Location, Reader, Sealed, SyncPolicy,
    image_path,
};
use weft_types::{Epoch, GroupId, Sn};
use weft_wire::proto::{Batch, Create, Entry, FileKind, NewReign, Op, Time, op};

/// Three batches that were written one by one.
const JOURNAL_V1: &[u8] =
    include_bytes!("../../../../tests/compat/journal-v1/00000000000000000001.journal");
/// The same, the last two written together.
const JOURNAL_V2: &[u8] =
    include_bytes!("../../../../tests/compat/journal-v2/00000000000000000001.journal");
/// The same, by a build that may write zeros behind the batches (`ahead.rs`).
const JOURNAL: &[u8] =
    include_bytes!("../../../../tests/compat/journal-v3/00000000000000000001.journal");
const IMAGE: &[u8] = include_bytes!("../../../../tests/compat/image-v1/image-00000000000000000007");

fn location(dir: &Path) -> Location {
    Location {
        dir: dir.to_owned(),
        cluster_id: "kept".into(),
        group: GroupId(3),
    }
}

fn segment(dir: &Path) -> PathBuf {
    dir.join("journal").join("00000000000000000001.journal")
}

/// What the kept journal holds.
fn batches() -> Vec<Batch> {
    let entry = |op| Entry {
        session: 5,
        operation: 6,
        acknowledged_below: 4,
        time: Some(Time {
            seconds: 1_700_000_000,
            nanos: 123_456_789,
        }),
        random: u64::MAX,
        op: Some(Op { op: Some(op) }),
        ..Entry::default()
    };
    let reign = entry(op::Op::NewReign(NewReign { epoch: 2 }));
    let create = entry(op::Op::Create(Create {
        parent: 1,
        name: Bytes::from_static(b"kept \xff"),
        kind: FileKind::Regular as i32,
        mode: 0o640,
        ..Create::default()
    }));
    vec![
        Batch {
            epoch: 2,
            sn: 1,
            entries: vec![reign],
        },
        Batch {
            epoch: 2,
            sn: 2,
            entries: vec![create.clone(), create],
        },
        Batch {
            epoch: 9,
            sn: 3,
            entries: vec![],
        },
    ]
}

/// What the kept image holds.
fn records() -> Vec<Vec<u8>> {
    vec![b"first".to_vec(), Vec::new(), vec![7; 5000]]
}

async fn put(env: &Env, path: &Path, bytes: &[u8]) {
    env.create_dir_all(path.parent().unwrap()).unwrap();
    let file = env.open(path, OpenMode::CreateEmpty).await.unwrap();
    file.write_at(0, vec![Bytes::copy_from_slice(bytes)])
        .await
        .unwrap();
}

async fn read_all(env: &Env, location: &Location) -> Result<Vec<Batch>, JournalError> {
    let mut reader = Reader::open(env, location, Sn(0)).await?;
    let mut found = Vec::new();
    while let Some(batch) = reader.next().await? {
        found.push(batch);
    }
    reader.finish()?;
    Ok(found)
}

async fn read_image(env: &Env, location: &Location) -> Result<Vec<Vec<u8>>, JournalError> {
    let mut reader = ImageReader::open(env, location, Sn(7)).await?;
    let mut found = Vec::new();
    while let Some(record) = reader.next().await? {
        found.push(record.to_vec());
    }
    assert_eq!(reader.digest(), Some(&b"digest"[..]));
    assert_eq!(reader.epoch(), Epoch(4));
    Ok(found)
}

fn in_dir<T>(body: impl AsyncFnOnce(Env, PathBuf) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    real::run(|env| body(env, dir.path().to_owned())).unwrap()
}

#[test]
fn journals_of_older_versions_open() {
    for older in [JOURNAL_V1, JOURNAL_V2] {
        in_dir(async |env, dir| {
            put(&env, &segment(&dir), older).await;
            assert_eq!(read_all(&env, &location(&dir)).await.unwrap(), batches());
        });
    }
}

#[test]
fn the_journal_of_version_3_opens_and_is_still_written() {
    in_dir(async |env, dir| {
        put(&env, &segment(&dir), JOURNAL).await;
        assert_eq!(read_all(&env, &location(&dir)).await.unwrap(), batches());
        env.remove_file(&segment(&dir)).unwrap();

        let reader = Reader::open(&env, &location(&dir), Sn(0)).await.unwrap();
        let mut journal = Journal::open(
            &env,
            location(&dir),
            SyncPolicy::Never,
            reader.finish().unwrap(),
        )
        .await
        .unwrap();
        let sealed: Vec<Sealed> = batches().iter().map(Sealed::new).collect();
        journal.append(&sealed[..1]).await.unwrap();
        journal.append(&sealed[1..]).await.unwrap();
        let written = env.read_file(&segment(&dir)).await.unwrap().unwrap();
        // Another length or byte is another format: it needs another version and fixture.
        assert!(written == JOURNAL, "to keep this one: {}", hex(&written));
    });
}

#[test]
fn the_image_of_version_1_opens_and_is_still_written() {
    in_dir(async |env, dir| {
        let path = image_path(&dir, Sn(7));
        put(&env, &path, IMAGE).await;
        assert_eq!(read_image(&env, &location(&dir)).await.unwrap(), records());
        env.remove_file(&path).unwrap();
        let mut writer = ImageWriter::create(&env, &location(&dir), Sn(7), Epoch(4))
            .await
            .unwrap();
        for record in records() {
            writer.add(&record).await.unwrap();
        }
        writer.finish(b"digest").await.unwrap();
        let written = env.read_file(&path).await.unwrap().unwrap();
        assert!(written == IMAGE, "to keep this one: {}", hex(&written));
    });
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn each_changed_byte_of_a_journal_is_noticed() {
    in_dir(async |env, dir| {
        for at in 0..JOURNAL.len() {
            let mut bytes = JOURNAL.to_vec();
            bytes[at] ^= 0x10;
            put(&env, &segment(&dir), &bytes).await;
            match read_all(&env, &location(&dir)).await {
                // In the last write it may be a torn end: then that is cut, and nothing else.
                Ok(found) => {
                    assert!(
                        found == batches()[..1] || found == batches()[..2],
                        "byte {at}"
                    );
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("00000000000000000001.journal"), "{text}");
                }
            }
        }
        // Cut at each length: what is whole is read.
        for length in 0..JOURNAL.len() {
            put(&env, &segment(&dir), &JOURNAL[..length]).await;
            let found = read_all(&env, &location(&dir)).await.unwrap();
            assert!(
                found.len() < 3 && found == batches()[..found.len()],
                "length {length}"
            );
        }
    });
}

#[test]
fn each_changed_byte_of_an_image_is_noticed() {
    in_dir(async |env, dir| {
        let path = image_path(&dir, Sn(7));
        // All of its structure, and some of the long record in the middle.
        let some = |at: &usize| *at < 300 || at.is_multiple_of(61) || *at > IMAGE.len() - 100;
        for at in (0..IMAGE.len()).filter(some) {
            let mut bytes = IMAGE.to_vec();
            bytes[at] ^= 0x04;
            put(&env, &path, &bytes).await;
            let error = read_image(&env, &location(&dir)).await.err();
            assert!(error.is_some(), "byte {at}");
        }
        for length in (0..IMAGE.len()).filter(some) {
            put(&env, &path, &IMAGE[..length]).await;
            assert!(
                read_image(&env, &location(&dir)).await.is_err(),
                "length {length}"
            );
        }
        let mut longer = IMAGE.to_vec();
        longer.push(0);
        put(&env, &path, &longer).await;
        assert!(read_image(&env, &location(&dir)).await.is_err());
    });
}

#[test]
fn files_of_others_are_refused_by_name() {
    in_dir(async |env, dir| {
        put(&env, &segment(&dir), JOURNAL).await;
        let mut other = location(&dir);
        other.cluster_id = "another".into();
        let error = read_all(&env, &other).await.err().unwrap();
        assert!(matches!(error, JournalError::Foreign { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("kept") && text.contains("another"), "{text}");
        other = location(&dir);
        other.group = GroupId(4);
        let text = read_all(&env, &other).await.err().unwrap().to_string();
        assert!(text.contains("group 3"), "{text}");
        let mut newer = JOURNAL.to_vec();
        newer[8] = 4;
        put(&env, &segment(&dir), &newer).await;
        let text = read_all(&env, &location(&dir))
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            text.contains("version 4") && text.contains("versions 1 to 3"),
            "{text}"
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_are_never_a_panic(
        noise in proptest::collection::vec(any::<u8>(), 0..400),
        keep in 0..=JOURNAL.len(),
    ) {
        in_dir(async |env, dir| {
            let mut bytes = JOURNAL[..keep].to_vec();
            bytes.extend_from_slice(&noise);
            put(&env, &segment(&dir), &bytes).await;
            if let Ok(found) = read_all(&env, &location(&dir)).await {
                let known = batches();
                assert!(found.len() <= known.len() && found == known[..found.len()]);
            }
            let mut bytes = IMAGE[..keep.min(IMAGE.len())].to_vec();
            bytes.extend_from_slice(&noise);
            put(&env, &image_path(&dir, Sn(7)), &bytes).await;
            if let Ok(found) = read_image(&env, &location(&dir)).await {
                assert_eq!(found, records());
            }
        });
    }
}
