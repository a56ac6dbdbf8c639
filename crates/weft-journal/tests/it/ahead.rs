//! Zeros that are written ahead of the batches: they are no batches, whoever reads, and whenever.

use bytes::Bytes;
use std::path::{Path, PathBuf};
use weft_env::{Env, OpenMode};
use weft_journal::{Journal, JournalError, Location, Reader, Sealed, SyncPolicy};
use weft_sim::{Node, World};
use weft_types::{GroupId, Sn};
use weft_wire::proto::{Batch, Entry, Op, OpenSession, op};

const FIRST: &str = "/meta/journal/00000000000000000001.journal";

fn location() -> Location {
    Location {
        dir: PathBuf::from("/meta"),
        cluster_id: "ahead".into(),
        group: GroupId(0),
    }
}

fn batch(sn: u64, bytes: usize) -> Batch {
    let name = "x".repeat(bytes);
    let op = Some(op::Op::OpenSession(OpenSession {
        name,
        ..OpenSession::default()
    }));
    let entry = Entry {
        op: Some(Op { op }),
        ..Entry::default()
    };
    Batch {
        epoch: 1,
        sn,
        entries: vec![entry],
    }
}

fn sealed(sn: u64, bytes: usize) -> Sealed {
    Sealed::new(&batch(sn, bytes))
}

async fn read_all(env: &Env) -> Result<(Vec<u64>, weft_journal::Tail), JournalError> {
    let mut reader = Reader::open(env, &location(), Sn(0)).await?;
    let mut found = Vec::new();
    while let Some(batch) = reader.next().await? {
        found.push(batch.sn);
    }
    Ok((found, reader.finish()?))
}

async fn opened(env: &Env, sync: SyncPolicy) -> Journal {
    let (_, tail) = read_all(env).await.unwrap();
    Journal::open(env, location(), sync, tail).await.unwrap()
}

async fn length(env: &Env) -> u64 {
    let file = env.open(Path::new(FIRST), OpenMode::Read).await.unwrap();
    file.len().unwrap()
}

fn on_a_node(scenario: impl AsyncFnOnce(Node, Env) + 'static) {
    let world = World::new(3);
    let node = world.node("meta");
    world.block_on(async move {
        node.start(|_| async {});
        let env = node.env();
        scenario(node, env).await;
    });
}

#[test]
fn writes_stay_within_the_file_and_a_restart_cuts_what_is_left() {
    on_a_node(async |_, env| {
        let mut journal = opened(&env, SyncPolicy::Group).await;
        let mut lengths = Vec::new();
        for sn in 1..=200 {
            journal.append(&[sealed(sn, 1_000)]).await.unwrap();
            lengths.push(length(&env).await);
        }
        lengths.dedup();
        // 200 KiB in steps of 128 KiB.
        assert_eq!(lengths.len(), 2, "{lengths:?}");
        drop(journal);
        let (found, _) = read_all(&env).await.unwrap();
        assert_eq!(found, Vec::from_iter(1..=200));
        let journal = opened(&env, SyncPolicy::Group).await;
        assert_eq!(journal.next_sn(), Sn(201));
        let left = length(&env).await;
        assert!((200_000..210_000).contains(&left), "{left}");
        assert_eq!(read_all(&env).await.unwrap().0.len(), 200);
    });
}

#[test]
fn a_segment_that_is_full_is_left_without_zeros_and_may_keep_them() {
    on_a_node(async |_, env| {
        let mut journal = opened(&env, SyncPolicy::Group).await;
        journal.append(&[sealed(1, 100)]).await.unwrap();
        let with_zeros = length(&env).await;
        journal.set_segment_bytes(2);
        journal.append(&[sealed(2, 100)]).await.unwrap();
        assert!(length(&env).await < 1_000);
        // The cut is not flushed: a power cut may have taken it back.
        let file = env.open(Path::new(FIRST), OpenMode::Write).await.unwrap();
        file.set_len(with_zeros).unwrap();
        assert_eq!(read_all(&env).await.unwrap().0, [1, 2]);
        journal.append(&[sealed(3, 100)]).await.unwrap();
        journal.cut_after(Sn(1)).await.unwrap();
        assert_eq!(read_all(&env).await.unwrap().0, [1]);
        assert!(length(&env).await < 1_000);
    });
}

#[test]
fn whoever_reads_on_sees_what_was_written_over_zeros_that_it_had_read() {
    on_a_node(async |_, env| {
        let mut journal = opened(&env, SyncPolicy::Group).await;
        let mut reader = Reader::open(&env, &location(), Sn(0)).await.unwrap();
        assert!(reader.next().await.unwrap().is_none());
        for sn in [1, 2] {
            journal.append(&[sealed(sn, 3_000)]).await.unwrap();
        }
        // With the first one the second is read, and zeros behind it.
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 1);
        journal.append(&[sealed(3, 3_000)]).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 2);
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 3);
        assert!(reader.next().await.unwrap().is_none());
        journal.append(&[sealed(4, 3_000)]).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 4);
    });
}

#[test]
fn whoever_has_read_a_batch_in_part_reads_it_whole_when_it_is() {
    on_a_node(async |_, env| {
        let mut journal = opened(&env, SyncPolicy::Group).await;
        journal.append(&[sealed(1, 3_000)]).await.unwrap();
        let bytes = env.read_file(Path::new(FIRST)).await.unwrap().unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        journal.append(&[sealed(2, 3_000)]).await.unwrap();
        let whole = env.read_file(Path::new(FIRST)).await.unwrap().unwrap();
        // Half of the second one is there when the first is read.
        let file = env.open(Path::new(FIRST), OpenMode::Write).await.unwrap();
        let zeros = Bytes::from(vec![0; 1_500]);
        file.write_at(end + 1_500, vec![zeros]).await.unwrap();
        let mut reader = Reader::open(&env, &location(), Sn(0)).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 1);
        let rest = Bytes::copy_from_slice(&whole[end as usize..]);
        file.write_at(end, vec![rest]).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 2);
    });
}

#[test]
fn what_stands_among_the_zeros_is_the_torn_tail_of_a_write() {
    on_a_node(async |_, env| {
        let mut journal = opened(&env, SyncPolicy::Group).await;
        journal.append(&[sealed(1, 100)]).await.unwrap();
        drop(journal);
        let before = length(&env).await;
        let file = env.open(Path::new(FIRST), OpenMode::Write).await.unwrap();
        let stray = Bytes::from_static(b"of the second page");
        file.write_at(before - 5_000, vec![stray]).await.unwrap();
        let (found, tail) = read_all(&env).await.unwrap();
        assert_eq!(found, [1]);
        assert!(tail.cut.is_some());
        let mut journal = opened(&env, SyncPolicy::Group).await;
        assert!(length(&env).await < 1_000);
        journal.append(&[sealed(2, 100)]).await.unwrap();
        assert_eq!(read_all(&env).await.unwrap().0, [1, 2]);
    });
}

#[test]
fn a_batch_that_has_room_without_zeros_is_written() {
    on_a_node(async |node, env| {
        let mut journal = opened(&env, SyncPolicy::Group).await;
        node.disk().set_capacity(node.disk().used() + (64 << 10));
        for sn in 1..=10 {
            journal.append(&[sealed(sn, 3_000)]).await.unwrap();
        }
        let full = journal.append(&[sealed(11, 60 << 10)]).await.unwrap_err();
        assert!(matches!(full, JournalError::Full { .. }), "{full}");
        assert_eq!(read_all(&env).await.unwrap().0, Vec::from_iter(1..=10));
        node.disk().set_capacity(1 << 30);
        journal.append(&[sealed(11, 60 << 10)]).await.unwrap();
        drop(journal);
        node.power_cut();
        node.start(|_| async {});
        assert_eq!(
            read_all(&node.env()).await.unwrap().0,
            Vec::from_iter(1..=11)
        );
    });
}

#[test]
fn nothing_is_written_ahead_where_no_write_is_flushed() {
    on_a_node(async |_, env| {
        let mut journal = opened(&env, SyncPolicy::Never).await;
        journal.append(&[sealed(1, 100)]).await.unwrap();
        assert!(length(&env).await < 1_000);
    });
}
