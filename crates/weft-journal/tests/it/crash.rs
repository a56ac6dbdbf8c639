//! Kills and power cuts at any moment, full and failing disks: what was appended is read back.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_journal::{
    BATCH_BYTES_MAX, BadBatch, ImageReader, ImageWriter, Journal, JournalError, Location, Reader,
    Sealed, SyncPolicy, images, make_dir, remove_images, remove_segments, segments,
};
use weft_sim::{DiskFaults, Node, World};
use weft_types::{Epoch, GroupId, Sn};
use weft_wire::proto::{Batch, Entry, Op, OpenSession, op};

/// Segments of this many bytes, so that several are begun in each run.
const SEGMENT: u64 = 4096;

fn location() -> Location {
    Location {
        dir: PathBuf::from("/meta"),
        cluster_id: "crash".into(),
        group: GroupId(0),
    }
}

/// A batch whose content follows from its sn.
fn batch(sn: u64, epoch: u64) -> Batch {
    let length = (sn * 7919 % 700) as usize;
    let name = format!("{sn} {}", "x".repeat(length));
    let op = Op {
        op: Some(op::Op::OpenSession(OpenSession {
            name,
            ..OpenSession::default()
        })),
    };
    let entry = Entry {
        random: sn,
        op: Some(op),
        ..Entry::default()
    };
    Batch {
        epoch,
        sn,
        entries: vec![entry; 1 + (sn % 3) as usize],
    }
}

fn sealed(sn: u64, epoch: u64) -> Sealed {
    Sealed::new(&batch(sn, epoch))
}

/// Reads everything and opens for appending.
async fn opened(env: &Env) -> Result<Journal, JournalError> {
    let mut reader = Reader::open(env, &location(), Sn(0)).await?;
    while reader.next().await?.is_some() {}
    Journal::open(env, location(), SyncPolicy::Group, reader.finish()?).await
}

/// Reads everything, opens for appending, appends until it fails or `upto`; `acknowledged` follows.
async fn append_on(
    env: Env,
    sync: SyncPolicy,
    epoch: u64,
    upto: u64,
    acknowledged: Rc<RefCell<u64>>,
) -> Result<(), JournalError> {
    let mut reader = Reader::open(&env, &location(), Sn(0)).await?;
    let mut last = 0;
    while let Some(found) = reader.next().await? {
        last = found.sn;
        assert_eq!(found, batch(last, found.epoch), "what was written");
    }
    assert!(
        last >= *acknowledged.borrow(),
        "lost: {last} of {}",
        acknowledged.borrow()
    );
    let mut journal = Journal::open(&env, location(), sync, reader.finish()?).await?;
    journal.set_segment_bytes(SEGMENT);
    assert_eq!(journal.next_sn(), Sn(last + 1));
    while last < upto {
        let count = (1 + env.random() % 5).min(upto - last);
        let batches: Vec<Sealed> = (1..=count).map(|i| sealed(last + i, epoch)).collect();
        journal.append(&batches).await?;
        last += count;
        *acknowledged.borrow_mut() = last;
    }
    Ok(())
}

fn start(node: &Node, sync: SyncPolicy, epoch: u64, acknowledged: &Rc<RefCell<u64>>) {
    let acknowledged = acknowledged.clone();
    node.start(move |env| async move {
        append_on(env, sync, epoch, u64::MAX, acknowledged)
            .await
            .unwrap();
    });
}

/// Dies again and again at odd moments; each life checks what the earlier ones were promised.
/// Answers how many batches were appended.
fn die_often(seed: u64, sync: SyncPolicy, die: fn(&Node)) -> u64 {
    let world = World::new(seed);
    let node = world.node("meta");
    let mut rng = world.rng("deaths");
    let inner = node.clone();
    let sleeper = Rc::new(world);
    let world = sleeper.clone();
    let lives = async move {
        let acknowledged = Rc::new(RefCell::new(0));
        for epoch in 1..30 {
            start(&inner, sync, epoch, &acknowledged);
            // From within the opening to some hundred batches later.
            let micros = 1 << rng.within(4..19);
            sleeper
                .sleep(Duration::from_micros(rng.within(0..micros)))
                .await;
            die(&inner);
        }
        let upto = *acknowledged.borrow() + 5;
        inner.start(|_| async {});
        append_on(inner.env(), sync, 30, upto, acknowledged)
            .await
            .unwrap();
        upto
    };
    world.block_on(lives)
}

#[test]
fn nothing_flushed_is_lost_by_power_cuts() {
    let run = |seed| die_often(seed, SyncPolicy::Group, Node::power_cut);
    assert!((0..40).map(run).sum::<u64>() > 1_000);
}

#[test]
fn nothing_written_is_lost_by_kills() {
    let run = |sync| move |seed| die_often(seed, sync, Node::kill);
    assert!((0..20).map(run(SyncPolicy::Never)).sum::<u64>() > 1_000);
    assert!((0..20).map(run(SyncPolicy::Always)).sum::<u64>() > 1_000);
}

#[test]
fn a_full_disk_takes_the_same_batch_when_there_is_room() {
    let world = World::new(7);
    let node = world.node("meta");
    let inner = node.clone();
    world.block_on(async move {
        inner.start(|_| async {});
        let env = inner.env();
        let mut journal = opened(&env).await.unwrap();
        journal.set_segment_bytes(SEGMENT);
        let mut refused = 0;
        for sn in 1..200 {
            if sn % 10 == 0 {
                inner.disk().set_capacity(inner.disk().used());
                loop {
                    match journal.append(&[sealed(sn, 1)]).await {
                        Err(JournalError::Full { .. }) => {
                            refused += 1;
                            inner.disk().set_capacity(1 << 30);
                        }
                        result => break result.unwrap(),
                    }
                }
                inner.disk().set_capacity(1 << 30);
            } else {
                journal.append(&[sealed(sn, 1)]).await.unwrap();
            }
        }
        assert!(refused >= 3, "{refused}");
        let acknowledged = Rc::new(RefCell::new(199));
        append_on(env, SyncPolicy::Group, 2, 205, acknowledged)
            .await
            .unwrap();
    });
}

/// Of batches that do not all fit none is there, also when the power goes then, and others may come in
/// their place.
#[test]
fn a_full_disk_takes_all_of_a_call_or_nothing() {
    let mut refused = 0;
    for seed in 0..20 {
        let world = World::new(seed);
        let node = world.node("meta");
        let mut rng = world.rng("calls");
        refused += world.block_on(async move {
            node.start(|_| async {});
            let env = node.env();
            let acknowledged = Rc::new(RefCell::new(0));
            append_on(env.clone(), SyncPolicy::Group, 1, 3, acknowledged.clone())
                .await
                .unwrap();
            let mut reader = Reader::open(&env, &location(), Sn(0)).await.unwrap();
            while reader.next().await.unwrap().is_some() {}
            let tail = reader.finish().unwrap();
            let mut journal = Journal::open(&env, location(), SyncPolicy::Group, tail)
                .await
                .unwrap();
            journal.set_segment_bytes(SEGMENT);
            let (mut epoch, mut refused) = (1, 0);
            let mut last = 3;
            while last < 150 {
                let more: Vec<Sealed> = (1..=rng.within(1..6))
                    .map(|i| sealed(last + i, epoch))
                    .collect();
                if rng.once_in(3) {
                    let room = rng.below(4) << 12;
                    node.disk().set_capacity(node.disk().used() + room);
                }
                match journal.append(&more).await {
                    Ok(()) => last += more.len() as u64,
                    Err(JournalError::Full { .. }) => {
                        refused += 1;
                        let mut reader = Reader::open(&env, &location(), Sn(0)).await.unwrap();
                        let mut found = 0;
                        while let Some(batch) = reader.next().await.unwrap() {
                            found = batch.sn;
                        }
                        assert_eq!(found, last, "none of them");
                        epoch += rng.below(2);
                        if rng.once_in(2) {
                            node.disk().set_capacity(1 << 30);
                        }
                        if rng.once_in(10) {
                            *acknowledged.borrow_mut() = last;
                            break;
                        }
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            drop(journal);
            node.power_cut();
            node.start(|_| async {});
            node.disk().set_capacity(1 << 30);
            append_on(node.env(), SyncPolicy::Group, epoch, last + 5, acknowledged)
                .await
                .unwrap();
            refused
        });
    }
    assert!(refused > 100, "{refused}");
}

/// Where there was no room for a new segment a part of one is left. Nothing is added before it then:
/// only the last segment may have a torn end.
#[test]
fn a_segment_that_did_not_fit_is_begun_again() {
    let world = World::new(9);
    let node = world.node("meta");
    world.block_on(async move {
        node.start(|_| async {});
        let env = node.env();
        let mut journal = opened(&env).await.unwrap();
        journal.append(&[sealed(1, 1)]).await.unwrap();
        journal.set_segment_bytes(2);
        // What the zeros behind the batch take is given back before the new segment is begun.
        node.disk().set_capacity(node.disk().used() - (128 << 10));
        let failed = journal.append(&[sealed(2, 1)]).await.unwrap_err();
        assert!(matches!(failed, JournalError::Full { .. }), "{failed}");
        assert_eq!(segments(&env, &location().dir).unwrap(), [Sn(1), Sn(2)]);
        node.disk().set_capacity(1 << 30);
        // This one would fit into the segment before.
        journal.set_segment_bytes(1 << 20);
        journal.append(&[sealed(2, 2)]).await.unwrap();
        let mut reader = Reader::open(&env, &location(), Sn(1)).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), batch(2, 2));
        let last = reader.finish().unwrap().last.unwrap();
        assert!(last.ends_with("00000000000000000002.journal"), "{last:?}");
    });
}

#[test]
fn a_failed_flush_ends_appending() {
    let world = World::new(8);
    let node = world.node("meta");
    let inner = node.clone();
    world.block_on(async move {
        inner.start(|_| async {});
        let env = inner.env();
        let mut journal = opened(&env).await.unwrap();
        journal.append(&[sealed(1, 1)]).await.unwrap();
        inner.disk().set_faults(DiskFaults {
            sync_error_ppm: 1_000_000,
            ..Default::default()
        });
        let failed = journal.append(&[sealed(2, 1)]).await.unwrap_err();
        assert!(matches!(failed, JournalError::Io { .. }), "{failed}");
        inner.disk().set_faults(DiskFaults::default());
        let failed = journal.append(&[sealed(2, 1)]).await.unwrap_err();
        assert!(
            failed.to_string().contains("earlier write failed"),
            "{failed}"
        );
        append_on(env, SyncPolicy::Group, 2, 5, Rc::new(RefCell::new(1)))
            .await
            .unwrap();
    });
}

/// What a failed flush has left is read again by the next start of the server. Who then counts it must have
/// it on the disk, too.
#[test]
fn what_a_failed_flush_has_left_is_on_the_disk_once_it_counts() {
    let world = World::new(9);
    let node = world.node("meta");
    let inner = node.clone();
    world.block_on(async move {
        inner.start(|_| async {});
        let acknowledged = Rc::new(RefCell::new(0));
        let first = append_on(inner.env(), SyncPolicy::Group, 1, 7, acknowledged.clone());
        first.await.unwrap();
        let mut journal = opened(&inner.env()).await.unwrap();
        inner.disk().set_faults(DiskFaults {
            sync_error_ppm: 1_000_000,
            ..Default::default()
        });
        // Long enough for several pages, none of which gets to the disk.
        let batches: Vec<Sealed> = (8..=40).map(|sn| sealed(sn, 1)).collect();
        journal.append(&batches).await.unwrap_err();
        drop(journal);
        inner.disk().set_faults(DiskFaults::default());
        // The next life finds all of it, and counts it.
        let all = Rc::new(RefCell::new(40));
        append_on(inner.env(), SyncPolicy::Group, 1, 40, all.clone())
            .await
            .unwrap();
        inner.power_cut();
        inner.start(|_| async {});
        append_on(inner.env(), SyncPolicy::Group, 1, 45, all)
            .await
            .unwrap();
    });
}

#[test]
fn what_a_failed_flush_has_left_in_memory_is_not_taken_for_written() {
    let world = World::new(9);
    let node = world.node("meta");
    world.block_on(async move {
        node.start(|_| async {});
        let env = node.env();
        let acknowledged = Rc::new(RefCell::new(0));
        let go_on = |upto| {
            let (env, acknowledged) = (node.env(), acknowledged.clone());
            append_on(env, SyncPolicy::Group, 1, upto, acknowledged)
        };
        go_on(3).await.unwrap();
        node.disk().set_faults(DiskFaults {
            sync_error_ppm: 1_000_000,
            ..Default::default()
        });
        assert!(matches!(opened(&env).await, Err(JournalError::Io { .. })));
        node.disk().set_faults(DiskFaults::default());
        // What was appended goes on behind it.
        go_on(4).await.unwrap();
        let mut journal = opened(&env).await.unwrap();
        node.disk().set_faults(DiskFaults {
            sync_error_ppm: 1_000_000,
            ..Default::default()
        });
        journal.append(&[sealed(5, 1)]).await.unwrap_err();
        node.disk().set_faults(DiskFaults::default());
        drop(journal);
        // It is there to read, so it counts from now on, like what comes after it.
        go_on(8).await.unwrap();
        node.power_cut();
        node.start(|_| async {});
        assert_eq!(*acknowledged.borrow(), 8);
        go_on(9).await.unwrap();
    });
}

/// An image of 50 records that follow from its sn.
async fn write_image(env: &Env, sn: u64) -> Result<(), JournalError> {
    let mut writer = ImageWriter::create(env, &location(), Sn(sn), Epoch(3)).await?;
    for i in 0..50u64 {
        writer.add(&record(sn, i)).await?;
    }
    writer.finish(&sn.to_le_bytes()).await
}

fn record(sn: u64, i: u64) -> Vec<u8> {
    vec![(sn ^ i) as u8; (sn * 31 + i * 977) as usize % 40_000]
}

#[test]
fn an_image_that_has_its_name_is_whole_after_any_death() {
    for seed in 0..30 {
        let world = World::new(seed);
        let node = world.node("meta");
        let mut rng = world.rng("deaths");
        let world = Rc::new(world);
        let sleeper = world.clone();
        let lives = async move {
            let written = Rc::new(RefCell::new(0u64));
            for life in 0..15 {
                let progress = written.clone();
                node.start(move |env| async move {
                    make_dir(&env, &location().dir).await.unwrap();
                    for sn in life * 100 + 1.. {
                        write_image(&env, sn).await.unwrap();
                        *progress.borrow_mut() = sn;
                        remove_images(&env, &location().dir, 2).unwrap();
                    }
                });
                sleeper
                    .sleep(Duration::from_micros(rng.within(0..60_000)))
                    .await;
                if rng.chance(500_000) {
                    node.kill();
                } else {
                    node.power_cut();
                }
                node.start(|_| async {});
                let env = node.env();
                env.create_dir_all(&location().dir).unwrap();
                let all = images(&env, &location().dir).unwrap();
                assert!(
                    all.last()
                        .is_none_or(|newest| newest.0 >= *written.borrow())
                );
                assert!(*written.borrow() == 0 || !all.is_empty());
                for sn in all {
                    let mut reader = ImageReader::open(&env, &location(), sn).await.unwrap();
                    for i in 0..50 {
                        assert_eq!(reader.next().await.unwrap().unwrap(), record(sn.0, i));
                    }
                    assert!(reader.next().await.unwrap().is_none());
                    assert_eq!(reader.digest().unwrap(), sn.0.to_le_bytes());
                }
                remove_images(&env, &location().dir, 2).unwrap();
                let left = env.read_dir(&location().dir).unwrap();
                assert!(
                    left.iter().all(|item| !item.name.contains("unfinished")),
                    "{left:?}"
                );
            }
            assert!(*written.borrow() > 0);
        };
        world.block_on(lives);
    }
}

/// A cut that would take away what an image holds, or goes back before the journal, is refused and
/// changes nothing; so is a restart after an image that is not there.
#[test]
fn what_cannot_be_done_is_refused() {
    let world = World::new(1);
    let node = world.node("meta");
    world.block_on(async move {
        node.start(|_| async {});
        let env = node.env();
        let acknowledged = Rc::new(RefCell::new(0));
        append_on(env.clone(), SyncPolicy::Group, 1, 100, acknowledged.clone())
            .await
            .unwrap();
        let mut journal = opened(&env).await.unwrap();
        let refused = |result: Result<(), JournalError>, what: &str| {
            let error = result.unwrap_err();
            assert!(matches!(error, JournalError::Refused { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        };
        refused(journal.restart_after(Sn(100)).await, "no image");
        write_image(&env, 60).await.unwrap();
        refused(journal.restart_after(Sn(61)).await, "is of batch 60");
        // A start would find the note, and a newer image.
        refused(journal.announce_restart(Sn(59)).await, "is of batch 60");
        refused(journal.cut_after(Sn(59)).await, "image of batch 60");
        env.remove_file(&weft_journal::image_path(&location().dir, Sn(60)))
            .unwrap();
        remove_segments(&env, &location().dir, Sn(50)).unwrap();
        let oldest = segments(&env, &location().dir).unwrap()[0];
        refused(
            journal.cut_after(Sn(oldest.0 - 2)).await,
            "does not reach back",
        );
        refused(journal.cut_after(Sn(0)).await, "does not reach back");
        assert_eq!(journal.next_sn(), Sn(101));
        journal.append(&[sealed(101, 3)]).await.unwrap();
        // Beyond its end there is nothing to discard.
        journal.cut_after(Sn(101)).await.unwrap();
        journal.cut_after(Sn(u64::MAX)).await.unwrap();
        assert_eq!(journal.next_sn(), Sn(102));
        journal.cut_after(Sn(oldest.0 - 1)).await.unwrap();
        assert_eq!(journal.next_sn(), oldest);
        journal.append(&[sealed(oldest.0, 4)]).await.unwrap();
        let mut reader = Reader::open(&env, &location(), Sn(oldest.0 - 1))
            .await
            .unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), batch(oldest.0, 4));
        assert_eq!(reader.next().await.unwrap(), None);
    });
}

/// Damage in the segment that is to be cut is named, and nothing is discarded.
#[test]
fn a_damaged_segment_is_not_cut() {
    let world = World::new(1);
    let node = world.node("meta");
    world.block_on(async move {
        node.start(|_| async {});
        let env = node.env();
        let mut journal = opened(&env).await.unwrap();
        journal
            .append(&[sealed(1, 1), sealed(2, 1), sealed(3, 1)])
            .await
            .unwrap();
        journal.set_segment_bytes(1);
        journal.append(&[sealed(4, 1)]).await.unwrap();
        let path = location().dir.join("journal/00000000000000000001.journal");
        let file = env.open(&path, weft_env::OpenMode::Write).await.unwrap();
        let good = file.read_at(120, 1).await.unwrap();
        file.write_at(120, vec![vec![!good[0]].into()])
            .await
            .unwrap();
        let error = journal.cut_after(Sn(2)).await.unwrap_err();
        assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
        file.write_at(120, vec![good]).await.unwrap();
        // It was only refused.
        journal.append(&[sealed(5, 1)]).await.unwrap();
        journal.cut_after(Sn(2)).await.unwrap();
        journal.append(&[sealed(3, 2)]).await.unwrap();
        append_on(env, SyncPolicy::Group, 2, 5, Rc::new(RefCell::new(3)))
            .await
            .unwrap();
    });
}

/// What another member sends is taken as it is, or refused.
#[test]
fn a_batch_is_read_in_the_bytes_in_which_it_was_sent() {
    let (sealed, sent) = (sealed(7, 3), batch(7, 3));
    assert_eq!((sealed.sn(), sealed.epoch()), (Sn(7), Epoch(3)));
    let (read, found) = Sealed::read(sealed.content().clone()).unwrap();
    assert_eq!((read, found), (sealed.clone(), sent));
    // A field of a later version stays.
    let mut longer = sealed.content().to_vec();
    longer.extend_from_slice(&[0xf8, 0x07, 1]);
    let (read, _) = Sealed::read(longer.clone().into()).unwrap();
    assert_eq!(read.content(), &longer);
    let error = Sealed::read(sealed.content().slice(..10)).unwrap_err();
    assert!(matches!(error, BadBatch::Undecodable(_)), "{error}");
    let error = Sealed::read(vec![0; BATCH_BYTES_MAX + 1].into()).unwrap_err();
    assert!(matches!(error, BadBatch::TooLong { .. }), "{error}");
}

#[test]
fn segments_go_when_an_image_holds_them() {
    let world = World::new(1);
    let node = world.node("meta");
    let inner = node.clone();
    world.block_on(async move {
        inner.start(|_| async {});
        let env = inner.env();
        let acknowledged = Rc::new(RefCell::new(0));
        append_on(env.clone(), SyncPolicy::Group, 1, 100, acknowledged)
            .await
            .unwrap();
        let before = segments(&env, &location().dir).unwrap();
        assert!(before.len() > 3);
        remove_segments(&env, &location().dir, Sn(50)).unwrap();
        let after = segments(&env, &location().dir).unwrap();
        assert!(after.len() < before.len() && after[0].0 <= 51 && after[1].0 > 51);
        let mut reader = Reader::open(&env, &location(), Sn(50)).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().sn, 51);
        reader.sync().await.unwrap();
        // Without the image there is a hole, and that is said.
        let error = Reader::open(&env, &location(), Sn(0)).await.err().unwrap();
        assert!(error.to_string().contains("should be batch 1"), "{error}");
        remove_segments(&env, &location().dir, Sn(100)).unwrap();
        assert_eq!(segments(&env, &location().dir).unwrap().len(), 1);
    });
}
