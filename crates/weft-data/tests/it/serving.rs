//! A healthy pair: writes, reads, shapes, syncs, sessions.

use crate::bed::*;
use bytes::Bytes;
use weft_pair::Mode;
use weft_rpc::{CallError, Payload};
use weft_wire::Failed;
use weft_wire::proto::{self, Protocol};

#[test]
fn a_write_is_on_both_members_when_it_is_answered() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        for (ino, leader) in [(1, ZERO), (2, ONE)] {
            let leading = bed.connect(leader).await;
            let following = bed.connect(leader.twin()).await;
            for (offset, length) in [(0, 1 << 20), (1 << 20, 5), (4 << 20, 100_000)] {
                let bytes = pattern(offset + ino, length);
                assert!(
                    bed.write(&leading, object(ino), offset, &bytes)
                        .await
                        .unwrap()
                );
                for connection in [&leading, &following] {
                    let read = bed
                        .read(connection, object(ino), offset, length as u32)
                        .await
                        .unwrap();
                    assert!(read == bytes);
                }
            }
        }
        bed.assert_equal().await;
    });
}

#[test]
fn writes_to_both_members_at_the_same_time_end_alike() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        for round in 0..30_u64 {
            // Overlapping, led by different members.
            let (a, b) = (pattern(round, 20_000), pattern(round + 1000, 20_000));
            let first = bed.write(&zero, object(1), 0, &a);
            let second = bed.write(&one, object(1), 8_000 + round * 10, &b);
            let cut = bed.shape(&zero, object(1), Some(25_000), &[]);
            let third = bed.write(&one, object(1), 24_000, &b[..6_000]);
            let (first, second, cut, third) =
                futures_util::future::join4(first, second, cut, third).await;
            assert!(first.unwrap() && second.unwrap() && third.unwrap());
            cut.unwrap();
            bed.assert_equal().await;
        }
    });
}

#[test]
fn shapes_are_done_on_both_members() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        let mut bytes = pattern(1, 3 << 20);
        for (i, piece) in bytes.chunks(1 << 20).enumerate() {
            bed.write(&zero, object(1), (i as u64) << 20, piece)
                .await
                .unwrap();
        }
        bed.shape(&zero, object(1), Some(2_500_000), &[5_000..50_001])
            .await
            .unwrap();
        bytes.truncate(2_500_000);
        bytes[5_000..50_001].fill(0);
        assert!(bed.content(ONE).await[&object(1)] == bytes);
        bed.assert_equal().await;

        let drop = proto::DropObjectsRequest {
            epoch: bed.meta.state().epoch.0,
            objects: vec![proto::ObjectName {
                ino: 1,
                generation: 0,
            }],
        };
        bed.meta.order(ONE, &drop).await.unwrap();
        assert!(bed.content(ZERO).await.is_empty());
        assert!(bed.content(ONE).await.is_empty());
    });
}

#[test]
fn several_extents_and_a_map() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        let mut request = bed.write_request(SESSION, object(1), 0, 0);
        let extent = |offset, length| proto::Extent { offset, length };
        request.extents = vec![extent(0, 4096), extent(40_960, 8192), extent(100, 50)];
        let payload = Bytes::from(pattern(1, 4096 + 8192 + 50));
        zero.call(&request, payload.clone()).await.unwrap();
        let read = bed.read(&zero, object(1), 0, 4096).await.unwrap();
        assert_eq!(read[..100], payload[..100]);
        assert_eq!(read[100..150], payload[4096 + 8192..]);
        let map = proto::MapRequest {
            epoch: bed.meta.state().epoch.0,
            pair: 0,
            object: request.object,
            start: 0,
            end: u64::MAX,
            max: 0,
        };
        let (map, _) = zero.call(&map, Payload::none()).await.unwrap();
        assert_eq!(map.length, 49_152);
        assert_eq!(map.dstatus, 3);
        assert_eq!(map.data.len(), 2);
        let sync = proto::SyncRequest {
            session: SESSION,
            epoch: bed.meta.state().epoch.0,
            pair: 0,
            objects: vec![request.object.unwrap()],
        };
        zero.call(&sync, Payload::none()).await.unwrap();
    });
}

#[test]
fn other_epochs_pairs_and_sessions_are_refused() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        let epoch = bed.meta.state().epoch.0;
        let good = bed.write_request(SESSION, object(1), 0, 5);
        let ask = |request: proto::WriteRequest| {
            let zero = zero.clone();
            async move {
                match zero.call(&request, Bytes::from_static(b"hello")).await {
                    Err(CallError::Failed(failed)) => failed,
                    other => panic!("{other:?}"),
                }
            }
        };
        let old = proto::WriteRequest {
            epoch: epoch - 1,
            ..good.clone()
        };
        assert_eq!(ask(old).await, Failed::Stale(epoch));
        let ahead = proto::WriteRequest {
            epoch: epoch + 1,
            ..good.clone()
        };
        assert!(matches!(ask(ahead).await, Failed::Unavailable(_)));
        let other = proto::WriteRequest {
            pair: 3,
            ..good.clone()
        };
        assert!(matches!(ask(other).await, Failed::Refused(_)));
        let dead = proto::WriteRequest {
            session: SESSION + 1,
            ..good.clone()
        };
        assert!(matches!(ask(dead).await, Failed::Fenced(_)));
        let later = proto::WriteRequest {
            // A client settles it as another one.
            protocol: Protocol::Hybrid.into(),
            ..good.clone()
        };
        assert!(matches!(ask(later).await, Failed::Refused(_)));
        let short = proto::WriteRequest {
            extents: vec![proto::Extent {
                offset: 0,
                length: 4,
            }],
            ..good.clone()
        };
        assert!(matches!(ask(short).await, Failed::Refused(_)));
        let far = proto::WriteRequest {
            extents: vec![proto::Extent {
                offset: u64::MAX - 5,
                length: 5,
            }],
            ..good
        };
        assert_eq!(ask(far).await, Failed::Errno(libc_efbig()));
        assert!(bed.content(ZERO).await.is_empty());
    });
}

fn libc_efbig() -> i32 {
    27
}

#[test]
fn an_older_connection_of_a_session_is_refused_once_a_newer_one_has_come() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let old = bed.connect(ZERO).await;
        bed.write(&old, object(1), 0, b"first").await.unwrap();
        let new = bed.connect(ZERO).await;
        bed.write(&old, object(1), 0, b"again").await.unwrap();
        bed.write(&new, object(1), 0, b"newer").await.unwrap();
        let late = bed.write(&old, object(1), 0, b"older").await;
        assert!(matches!(
            late,
            Err(CallError::Failed(Failed::Unavailable(_)))
        ));
        assert_eq!(bed.content(ONE).await[&object(1)], b"newer");
    });
}

#[test]
fn a_fenced_session_is_refused_and_what_it_left_is_made_equal() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        bed.protocol = Protocol::ClientSync;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        let bytes = pattern(1, 300_000);
        for connection in [&zero, &one] {
            assert!(!bed.write(connection, object(1), 0, &bytes).await.unwrap());
        }
        // The client dies between its two copies.
        bed.write(&zero, object(1), 200_000, &pattern(2, 200_000))
            .await
            .unwrap();
        bed.write(&one, object(2), 0, &pattern(3, 5_000))
            .await
            .unwrap();
        let named = |ino| proto::ObjectName { ino, generation: 0 };
        let fence = proto::FenceRequest {
            session: SESSION,
            objects: vec![named(1), named(2), named(3)],
            ..Default::default()
        };
        let reply = bed.meta.order(ONE, &fence).await.unwrap();
        bed.assert_equal().await;
        let length = bed.content(ZERO).await.get(&object(1)).unwrap().len() as u64;
        assert_eq!(reply.lengths[0], length);
        assert_eq!(reply.lengths[2], 0);
        for connection in [&zero, &one] {
            let refused = bed.write(connection, object(1), 0, b"late").await;
            assert!(matches!(refused, Err(CallError::Failed(Failed::Fenced(_)))));
        }
    });
}

#[test]
fn marks_are_cleared_on_both_members() {
    run(|env| async move {
        let mut bed = Bed::tuned(env, |settings| settings.clear_after_ms = 50).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        bed.write(&zero, object(1), 0, &pattern(1, 100))
            .await
            .unwrap();
        bed.write(&one, object(2), 5 << 20, &pattern(1, 100))
            .await
            .unwrap();
        bed.protocol = Protocol::ClientSync;
        for connection in [&zero, &one] {
            bed.write(connection, object(3), 0, &pattern(1, 100))
                .await
                .unwrap();
        }
        // Only on one member so far.
        bed.write(&one, object(4), 0, &pattern(4, 9000))
            .await
            .unwrap();
        assert_eq!(dirty(&bed), (3, 4));
        // Those of the client wait for its word.
        assert_eq!(until_dirty(&bed, (1, 2)).await, (1, 2));
        let mut last = bed.write_request(SESSION, object(5), 0, 5);
        last.confirmed_below = 5;
        last.protocol = Protocol::ServerSync.into();
        one.call(&last, Bytes::from_static(b"hello")).await.unwrap();
        zero.call(&last, Bytes::from_static(b"hello"))
            .await
            .unwrap();
        assert_eq!(until_dirty(&bed, (0, 1)).await, (0, 1));
        // It dies before it sends the second copy of the last one.
        let fence = proto::FenceRequest {
            session: SESSION,
            ..Default::default()
        };
        bed.meta.order(ZERO, &fence).await.unwrap();
        assert_eq!(until_dirty(&bed, (0, 0)).await, (0, 0));
        bed.assert_equal().await;
        assert_eq!(bed.meta.state().mode, Mode::Both);
    });
}

/// A member takes a region out of its list when its twin has done so, and not if something has begun there since it was
/// asked: the twin may not have made that stable.
#[test]
fn a_mark_stays_until_the_twin_has_cleared_what_was_meant() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        let twin = bed.connect_as_twin(ZERO).await;
        let write = async || {
            let written = bed.write(&zero, object(1), 0, &pattern(1, 100)).await;
            written.unwrap();
        };
        let asks = proto::ClearRequest {
            epoch: bed.meta.state().epoch.0,
            objects: vec![proto::DirtyObject {
                object: Some(name(object(1))),
                runs: vec![proto::Range { start: 0, end: 1 }],
            }],
            ..Default::default()
        };
        let clear = async |versions: Vec<u64>| {
            let request = proto::ClearRequest {
                versions,
                ..asks.clone()
            };
            let reply = twin.call(&request, Payload::none()).await;
            reply.unwrap().0.versions
        };
        write().await;
        let versions = clear(Vec::new()).await;
        assert_eq!(versions.len(), 1);
        assert_eq!(dirty(&bed), (1, 1), "it is only asked");
        write().await;
        clear(versions).await;
        assert_eq!(dirty(&bed), (1, 1), "it is written since");
        let versions = clear(Vec::new()).await;
        clear(versions.clone()).await;
        assert_eq!(dirty(&bed), (0, 1));
        // Cleared and written anew: no version comes twice.
        write().await;
        clear(versions.clone()).await;
        write().await;
        clear(versions).await;
        assert_eq!(dirty(&bed), (1, 1));
        let nonsense = proto::ClearRequest {
            versions: vec![1, 2],
            ..asks.clone()
        };
        let refused = twin.call(&nonsense, Payload::none()).await;
        assert!(matches!(
            refused,
            Err(CallError::Failed(Failed::Refused(_)))
        ));
    });
}

fn dirty(bed: &Bed) -> (u64, u64) {
    let count = |member| bed.server(member).store().dirty_region_count();
    (count(ZERO), count(ONE))
}

async fn until_dirty(bed: &Bed, wanted: (u64, u64)) -> (u64, u64) {
    for _ in 0..300 {
        if dirty(bed) == wanted {
            // And it stays so.
            bed.env.sleep(std::time::Duration::from_millis(300)).await;
            break;
        }
        bed.env.sleep(std::time::Duration::from_millis(20)).await;
    }
    dirty(bed)
}

#[test]
fn a_fence_does_not_cut_off_what_a_client_still_sends_to_the_other_member() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        bed.write(&zero, object(1), 0, b"in both lists")
            .await
            .unwrap();
        bed.protocol = Protocol::ClientSync;
        bed.write(&one, object(1), 5 << 20, b"on its way")
            .await
            .unwrap();
        // Another client's session ends meanwhile: it is for the service to come again.
        let fence = proto::FenceRequest {
            session: SESSION + 1,
            objects: vec![name(object(1))],
            ..Default::default()
        };
        let fenced = bed.meta.order(ZERO, &fence).await;
        assert!(matches!(
            fenced,
            Err(CallError::Failed(Failed::Unavailable(_)))
        ));
        bed.write(&zero, object(1), 5 << 20, b"on its way")
            .await
            .unwrap();
        bed.assert_equal().await;
    });
}

#[test]
fn copies_that_differ_in_length_only_are_made_equal_whatever_region_is_looked_at() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        bed.write(&zero, object(1), 1 << 20, b"in both lists")
            .await
            .unwrap();
        bed.protocol = Protocol::ClientSync;
        bed.write(&one, object(1), 5 << 20, b"its client dies")
            .await
            .unwrap();
        let ended = proto::FenceRequest {
            session: SESSION,
            ..Default::default()
        };
        bed.meta.order(ZERO, &ended).await.unwrap();
        let fence = proto::FenceRequest {
            session: SESSION + 1,
            objects: vec![name(object(1))],
            ..Default::default()
        };
        let limit = std::time::Duration::from_secs(5);
        let fenced = bed.env.timeout(limit, bed.meta.order(ZERO, &fence)).await;
        assert_eq!(fenced.unwrap().unwrap().lengths, [(1 << 20) + 13]);
        bed.assert_equal().await;
    });
}

#[test]
fn what_changes_a_long_object_at_once_is_marked_and_cleared_at_once() {
    run(|env| async move {
        let bed = Bed::tuned(env, |settings| settings.clear_after_ms = 50).await;
        let zero = bed.connect(ZERO).await;
        let far = 1 << 40;
        for ino in 1..4 {
            for at in [0, far] {
                bed.write(&zero, object(ino), at, b"far out").await.unwrap();
            }
        }
        bed.shape(&zero, object(1), Some(100), &[]).await.unwrap();
        let hole = 1..far + 1;
        bed.shape(&zero, object(2), None, &[hole]).await.unwrap();
        let drop = proto::DropObjectsRequest {
            epoch: bed.meta.state().epoch.0,
            objects: vec![name(object(3))],
        };
        bed.meta.order(ZERO, &drop).await.unwrap();
        let regions = 3 * ((far >> 20) + 1);
        assert_eq!(dirty(&bed), (regions, regions));
        // A region after the other they would be there for many minutes.
        assert_eq!(until_dirty(&bed, (0, 0)).await, (0, 0));
    });
}

#[test]
fn a_bad_block_is_healed_from_the_twin() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        let bytes = pattern(9, 100_000);
        bed.write(&zero, object(1), 0, &bytes).await.unwrap();
        bed.damage(ZERO, &bytes[40_960..41_100]);
        let read = bed.read(&zero, object(1), 0, 100_000).await.unwrap();
        assert!(read == bytes);
        assert!(bed.content(ZERO).await[&object(1)] == bytes);
        // A write of a part of a bad block, on the leader's copy and on the follower's.
        for member in [ZERO, ONE] {
            bed.damage(member, &bytes[81_920..82_000]);
            bed.write(&zero, object(1), 82_000, &bytes[82_000..82_100])
                .await
                .unwrap();
            assert!(bed.content(member).await[&object(1)] == bytes);
        }
        // By a scrub.
        bed.damage(ONE, &bytes[4096..4200]);
        bed.meta
            .order(ONE, &proto::ScrubRequest { compare: false })
            .await
            .unwrap();
        for _ in 0..200 {
            let report = bed.meta.report(ONE);
            if report.healed_blocks >= 1 && report.job.is_empty() {
                break;
            }
            bed.env.sleep(std::time::Duration::from_millis(20)).await;
        }
        bed.assert_equal().await;
        // Bad on both: the reader is told.
        bed.damage(ZERO, &bytes[0..100]);
        bed.damage(ONE, &bytes[0..100]);
        let read = bed.read(&zero, object(1), 0, 100).await;
        assert_eq!(read, Err(CallError::Failed(Failed::Errno(5))));
        assert!(bed.read(&zero, object(1), 4096, 100).await.is_ok());
    });
}

#[test]
fn a_block_that_broke_off_in_the_copy_that_counts_is_taken_from_the_other() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        let before = pattern(9, 20_000);
        bed.write(&zero, object(1), 0, &before).await.unwrap();
        // The writer reaches one member; the disk of the other breaks off in the middle of it.
        bed.protocol = Protocol::ClientSync;
        let newer = pattern(4, 4096);
        bed.write(&one, object(1), 4096, &newer).await.unwrap();
        bed.damage(ZERO, &before[4096..4200]);
        let fence = proto::FenceRequest {
            session: SESSION,
            objects: vec![name(object(1))],
            ..Default::default()
        };
        bed.meta.order(ZERO, &fence).await.unwrap();
        bed.assert_equal().await;
        let content = bed.content(ZERO).await;
        assert!(content[&object(1)][4096..8192] == newer);
        assert!(content[&object(1)][8192..] == before[8192..]);
    });
}

#[test]
fn a_comparison_finds_copies_that_differ() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        bed.write(&zero, object(1), 0, &pattern(1, 100_000))
            .await
            .unwrap();
        let compare = || async {
            bed.meta
                .order(ZERO, &proto::ScrubRequest { compare: true })
                .await
                .unwrap();
            bed.env.sleep(std::time::Duration::from_millis(700)).await;
            bed.meta.report(ZERO).mismatches
        };
        assert_eq!(compare().await, 0);
        let extents = [weft_objects::Extent {
            offset: 50,
            length: 4,
        }];
        let store = bed.server(ONE).store();
        store
            .write(object(1), &extents, Bytes::from_static(b"oops"))
            .await
            .unwrap();
        assert_eq!(compare().await, 1);
    });
}

#[test]
#[allow(clippy::disallowed_methods)]
fn what_somebody_has_cut_or_removed_comes_from_the_twin() {
    run(|env| async move {
        let mut bed = Bed::tuned(env, |settings| settings.clear_after_ms = 100).await;
        let zero = bed.connect(ZERO).await;
        let long = pattern(9, 3_000_000);
        for ino in 1..8 {
            for (piece, at) in long.chunks(500_000).zip(0..) {
                let at = 5_000_000 + at * 500_000;
                bed.write(&zero, object(ino), at, piece).await.unwrap();
            }
        }
        // A hole that nobody wrote stays one.
        assert!(bed.read(&zero, object(1), 0, 100_000).await.unwrap() == vec![0; 100_000]);
        assert!(
            bed.read(&zero, object(9), 0, 100_000)
                .await
                .unwrap()
                .is_empty()
        );
        bed.env.sleep(std::time::Duration::from_millis(1500)).await;
        let cut = |ino, length| {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(bed.file(ONE, object(ino)));
            file.unwrap().set_len(length).unwrap();
        };
        // While its file is open.
        cut(1, 6_000_000);
        cut(2, 0);
        let one = bed.connect(ONE).await;
        for ino in [1, 2] {
            let read = bed
                .read(&one, object(ino), 7_000_000, 900_000)
                .await
                .unwrap();
            assert!(read == long[2_000_000..2_900_000], "object {ino}");
        }
        bed.assert_equal().await;
        // While nobody looks: found by a read, and by a scrub.
        let files: Vec<_> = (3..7).map(|ino| bed.file(ONE, object(ino))).collect();
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        for (file, length) in [(&files[0], 4096), (&files[2], 0)] {
            let file = std::fs::OpenOptions::new().write(true).open(file);
            file.unwrap().set_len(length).unwrap();
        }
        for file in [&files[1], &files[3]] {
            std::fs::remove_file(file).unwrap();
        }
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        let one = bed.connect(ONE).await;
        for ino in [3, 4] {
            // Who reads what has not come yet waits for it, too.
            let reads = [0, 2_000_000, 1_000_000].map(|at| {
                let (bed, one, long) = (&bed, &one, &long);
                async move {
                    let read = bed.read(one, object(ino), 5_000_000 + at as u64, 900_000);
                    let read = read.await.unwrap();
                    assert!(read == long[at..at + 900_000], "object {ino} at {at}");
                }
            });
            futures_util::future::join_all(reads).await;
        }
        let order = proto::ScrubRequest { compare: false };
        bed.meta.order(ONE, &order).await.unwrap();
        let store = bed.server(ONE).store();
        for ino in [5, 6] {
            while store.length(object(ino)).await.unwrap() < 8_000_000 {
                bed.env.sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        bed.assert_equal().await;
    });
}
