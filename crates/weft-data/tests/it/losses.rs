//! A data server and a client die within the same window: what only they had is named, refused to
//! readers, cleared by writers, and merged when the server is back with it.

use crate::bed::*;
use bytes::Bytes;
use std::ops::Range;
use std::time::Duration;
use weft_pair::Mode;
use weft_rpc::{CallError, Connection, Payload};
use weft_types::{ANNOUNCED_AHEAD, ObjectId};
use weft_wire::Failed;
use weft_wire::checksum::BAD;
use weft_wire::proto::{self, Protocol};

/// Opened after the one that dies.
const OTHER: u64 = 101;
const MIB: u64 = 1 << 20;
/// Where the last write that both have had leaves the client free to go on with one copy.
const NEAR: u64 = (1 + ANNOUNCED_AHEAD as u64) * MIB;

/// What a client that sends both copies itself sends to these members only.
async fn send(
    bed: &Bed,
    to: &[&Connection],
    session: u64,
    object: ObjectId,
    offset: u64,
    bytes: &[u8],
) {
    let mut request = bed.write_request(session, object, offset, bytes.len());
    request.protocol = Protocol::ClientAsync.into();
    for connection in to {
        let payload = Bytes::copy_from_slice(bytes);
        connection.call(&request, payload).await.unwrap();
    }
}

/// The client says that all that it has sent so far is on both members.
async fn confirm(bed: &Bed, to: &[&Connection]) {
    let next = bed.write_request(SESSION, object(1), 0, 1).operation;
    for connection in to {
        connection.notify(&proto::Confirmed {
            session: SESSION,
            below: next,
            given_up: Vec::new(),
        });
    }
    bed.env.sleep(Duration::from_millis(30)).await;
}

async fn read(
    bed: &Bed,
    connection: &Connection,
    object: ObjectId,
    range: Range<u64>,
) -> Result<Bytes, i32> {
    let request = proto::ReadRequest {
        session: OTHER,
        epoch: bed.meta.state().epoch.0,
        pair: 0,
        object: Some(name(object)),
        offset: range.start,
        length: (range.end - range.start) as u32,
    };
    match connection.call(&request, Payload::none()).await {
        Ok((_, bytes)) => Ok(bytes),
        Err(CallError::Failed(Failed::Errno(errno))) => Err(errno),
        Err(error) => panic!("{error}"),
    }
}

/// What a client asks that looks for data in an object.
async fn map(
    bed: &Bed,
    connection: &Connection,
    object: ObjectId,
    range: Range<u64>,
) -> proto::MapReply {
    let request = proto::MapRequest {
        epoch: bed.meta.state().epoch.0,
        pair: 0,
        object: Some(name(object)),
        start: range.start,
        end: range.end,
        max: 0,
    };
    connection.call(&request, Payload::none()).await.unwrap().0
}

/// Checksums of the first region, as a client gets them that compares an object with a copy of it.
async fn checksums(bed: &Bed, connection: &Connection, object: ObjectId) -> Vec<u32> {
    let request = proto::ChecksumsRequest {
        epoch: bed.meta.state().epoch.0,
        object: Some(name(object)),
        ..Default::default()
    };
    let (reply, _) = connection.call(&request, Payload::none()).await.unwrap();
    reply.checksums
}

/// The session that wrote has ended; it had said nothing since `settled_epoch`.
async fn end_session(bed: &Bed, objects: &[ObjectId], settled_epoch: u64) -> Vec<u64> {
    let fence = proto::FenceRequest {
        session: SESSION,
        objects: objects.iter().map(|object| name(*object)).collect(),
        settled_epoch,
        asynchronous: vec![true; objects.len()],
        ..Default::default()
    };
    bed.meta.order(ONE, &fence).await.unwrap().lengths
}

/// Member 0 has `alone` at 100 of object 1, and dies; where both have `both` from 0 on. The
/// surviving one serves alone.
async fn lose(bed: &mut Bed, both: &[u8], alone: &[u8]) {
    let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
    send(bed, &[&zero, &one], SESSION, object(1), 0, both).await;
    send(bed, &[&zero, &one], SESSION, object(2), 0, both).await;
    // The client knows that both have them, before it sends newer bytes of the same range.
    confirm(bed, &[&zero, &one]).await;
    send(bed, &[&zero], SESSION, object(1), 100, alone).await;
    bed.meta.unsettled.set(1);
    bed.down(ZERO).await;
    bed.until(Mode::Only(ONE), 3).await;
}

fn with(base: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = base.to_vec();
    all.resize(all.len().max(at + bytes.len()), 0);
    all[at..at + bytes.len()].copy_from_slice(bytes);
    all
}

#[test]
fn what_died_with_server_and_client_is_refused_until_it_is_written_or_back() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 20_000), pattern(2, 30_000));
        lose(&mut bed, &both, &alone).await;
        assert_eq!(
            end_session(&bed, &[object(1), object(2)], 2).await,
            [20_000, 20_000]
        );
        let one = bed.connect(ONE).await;
        assert_eq!(read(&bed, &one, object(1), 0..10).await, Err(libc::EIO));
        assert_eq!(
            read(&bed, &one, object(1), 19_000..21_000).await,
            Err(libc::EIO)
        );
        let beyond = read(&bed, &one, object(1), NEAR..NEAR + 10).await;
        assert_eq!(beyond, Ok(Bytes::new()));
        // Nor is it taken for a hole, or for what is here now.
        assert!(map(&bed, &one, object(1), 30_000..31_000).await.lost);
        assert!(!map(&bed, &one, object(1), NEAR..NEAR + 10).await.lost);
        let sums = checksums(&bed, &one, object(1)).await;
        assert_eq!(sums, [BAD; 256]);
        assert_eq!(checksums(&bed, &one, object(3)).await, [0; 0]);
        // Nobody knows that nothing of this one was lost.
        assert_eq!(read(&bed, &one, object(2), 0..10).await, Err(libc::EIO));
        assert_eq!(read(&bed, &one, object(3), 0..10).await, Ok(Bytes::new()));
        bed.env.sleep(Duration::from_millis(600)).await;
        let report = bed.report(ONE).await;
        assert_eq!((report.lost_ranges, report.lost_objects), (2, 2));

        // Somebody else writes a part, to the byte.
        send(&bed, &[&one], OTHER, object(1), 5_000, b"new").await;
        assert_eq!(
            read(&bed, &one, object(1), 5_000..5_003).await.unwrap(),
            "new"
        );
        let around = read(&bed, &one, object(1), 4_999..5_003).await;
        assert_eq!(around, Err(libc::EIO));
        send(&bed, &[&one], OTHER, object(1), 8_192, &[7; 4_096]).await;
        let sums = checksums(&bed, &one, object(1)).await;
        let sound: Vec<usize> = (0..256).filter(|at| sums[*at] != BAD).collect();
        assert_eq!(sound, [2]);
        assert!(!map(&bed, &one, object(1), 8_192..12_288).await.lost);

        // It survives the death of who knows it.
        bed.down(ONE).await;
        bed.until(Mode::Down(ONE), 4).await;
        bed.up(ONE).await;
        bed.until(Mode::Only(ONE), 5).await;
        let one = bed.connect(ONE).await;
        assert_eq!(read(&bed, &one, object(1), 0..10).await, Err(libc::EIO));
        assert_eq!(
            read(&bed, &one, object(1), 5_000..5_003).await.unwrap(),
            "new"
        );

        // The other one is back with all that it had.
        bed.meta.unsettled.set(0);
        bed.up(ZERO).await;
        bed.until(Mode::Both, 7).await;
        bed.assert_equal().await;
        let expected = with(&with(&both, 100, &alone), 5_000, b"new");
        let expected = with(&expected, 8_192, &[7; 4_096]);
        assert!(bed.content(ONE).await[&object(1)] == expected);
        assert!(bed.content(ZERO).await[&object(2)] == both);
        for member in [ZERO, ONE] {
            assert!(!bed.server(member).store().has_losses());
        }
        let one = bed.connect(ONE).await;
        let end = expected.len() as u64;
        assert!(read(&bed, &one, object(1), 0..end).await.unwrap() == expected);
        assert!(bed.meta.returned.borrow().contains(&object(1)));
    });
}

#[test]
fn what_comes_back_does_so_around_a_block_that_is_bad_here() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 20_000), pattern(2, 30_000));
        lose(&mut bed, &both, &alone).await;
        end_session(&bed, &[object(1), object(2)], 2).await;
        let one = bed.connect(ONE).await;
        // Of this block a part has been written since, and stays; and then the disk turns a bit.
        send(&bed, &[&one], OTHER, object(1), 5_000, b"new").await;
        bed.damage(ONE, &both[4_096..4_900]);
        bed.meta.unsettled.set(0);
        bed.up(ZERO).await;
        bed.until(Mode::Both, 5).await;
        let expected = with(&both, 100, &alone);
        let read = async |range: Range<u64>| read(&bed, &one, object(1), range).await;
        assert!(read(0..4_096).await.unwrap() == expected[..4_096]);
        assert_eq!(read(4_096..8_192).await, Err(libc::EIO));
        assert!(read(8_192..30_100).await.unwrap() == expected[8_192..]);
    });
}

#[test]
fn a_recovery_waits_for_sessions_that_may_have_lost_something() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 900_000), pattern(2, 1_000_000));
        lose(&mut bed, &both, &alone).await;
        bed.up(ZERO).await;
        bed.until(Mode::Recovering(ONE), 4).await;
        bed.env.sleep(Duration::from_millis(400)).await;
        assert_eq!(bed.meta.state().mode, Mode::Recovering(ONE));
        // It is settled with the twin that has it, so that nobody ever sees it missing.
        let lengths = end_session(&bed, &[object(1)], 2).await;
        let expected = with(&both, 100, &alone);
        assert_eq!(lengths, [expected.len() as u64]);
        let one = bed.connect(ONE).await;
        let end = expected.len() as u64;
        assert!(read(&bed, &one, object(1), 0..end).await.unwrap() == expected);
        bed.meta.unsettled.set(0);
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
    });
}

#[test]
fn what_the_client_sent_again_is_not_lost() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 20_000), pattern(2, 30_000));
        lose(&mut bed, &both, &alone).await;
        // Sent again, and newer bytes after it; but the service has not heard that all is settled.
        let one = bed.connect(ONE).await;
        send(&bed, &[&one], SESSION, object(1), 100, &alone).await;
        send(&bed, &[&one], SESSION, object(1), 200, b"newest").await;
        end_session(&bed, &[object(1)], 2).await;
        let expected = with(&with(&both, 100, &alone), 200, b"newest");
        let written = read(&bed, &one, object(1), 100..30_100).await.unwrap();
        assert!(written == expected[100..]);
        assert_eq!(read(&bed, &one, object(1), 99..101).await, Err(libc::EIO));
        // What the twin has is older there, and stays away.
        bed.meta.unsettled.set(0);
        bed.up(ZERO).await;
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
        assert!(bed.content(ZERO).await[&object(1)] == expected);
    });
}

#[test]
fn what_came_here_before_the_twin_died_is_not_lost() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        let both = pattern(1, 20_000);
        send(&bed, &[&zero, &one], SESSION, object(1), 0, &both).await;
        confirm(&bed, &[&zero, &one]).await;
        // The client died before it had sent this to member 0.
        send(&bed, &[&one], SESSION, object(1), 300, b"here only").await;
        bed.meta.unsettled.set(1);
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), 3).await;
        end_session(&bed, &[object(1)], 2).await;
        let kept = read(&bed, &one, object(1), 300..309).await.unwrap();
        assert_eq!(kept, "here only");
        bed.meta.unsettled.set(0);
        bed.up(ZERO).await;
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
        assert!(bed.content(ZERO).await[&object(1)] == with(&both, 300, b"here only"));
    });
}

#[test]
fn settled_sessions_and_synchronous_files_lose_nothing() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 20_000), pattern(2, 30_000));
        lose(&mut bed, &both, &alone).await;
        let fence = proto::FenceRequest {
            session: SESSION,
            objects: vec![name(object(1))],
            settled_epoch: 2,
            asynchronous: vec![false],
            ..Default::default()
        };
        bed.meta.order(ONE, &fence).await.unwrap();
        end_session(&bed, &[object(1), object(2)], 3).await;
        let one = bed.connect(ONE).await;
        assert!(read(&bed, &one, object(1), 0..20_000).await.unwrap() == both);
        assert!(!bed.server(ONE).store().has_losses());
    });
}

#[test]
fn what_cannot_come_back_is_refused_by_both_until_somebody_writes_or_an_operator_says_so() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 20_000), pattern(2, 30_000));
        lose(&mut bed, &both, &alone).await;
        end_session(&bed, &[object(1), object(2)], 2).await;
        bed.meta.unsettled.set(0);
        bed.wipe(ZERO);
        bed.up(ZERO).await;
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
        let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
        for connection in [&zero, &one] {
            let found = read(&bed, connection, object(1), 0..10).await;
            assert_eq!(found, Err(libc::EIO));
        }
        // A write that one of them leads, and a cut, clear it at both.
        let request = bed.write_request(OTHER, object(1), 0, 10);
        zero.call(&request, Bytes::from_static(b"0123456789"))
            .await
            .unwrap();
        let shape = proto::ShapeRequest {
            session: OTHER,
            epoch: bed.meta.state().epoch.0,
            pair: 0,
            object: Some(name(object(1))),
            truncate: Some(15_000),
            protocol: Protocol::ServerSync.into(),
            ..Default::default()
        };
        zero.call(&shape, Payload::none()).await.unwrap();
        for connection in [&zero, &one] {
            let written = read(&bed, connection, object(1), 0..10).await;
            assert_eq!(written.unwrap(), "0123456789");
            let cut = read(&bed, connection, object(1), 15_000..20_000).await;
            assert_eq!(cut, Ok(Bytes::new()));
            let rest = read(&bed, connection, object(1), 10..11).await;
            assert_eq!(rest, Err(libc::EIO));
        }
        let told = bed.meta.order(ONE, &proto::LossesRequest {}).await.unwrap();
        let told: Vec<_> = told
            .losses
            .iter()
            .map(|loss| (loss.object.unwrap().ino, loss.start, loss.end))
            .collect();
        assert_eq!(told, [(1, 10, 15_000), (2, 0, NEAR)]);
        for member in [ZERO, ONE] {
            let acknowledge = proto::AcknowledgeRequest {
                ino: 1,
                ..Default::default()
            };
            let done = bed.meta.order(member, &acknowledge).await.unwrap();
            assert_eq!(done.ranges, 1);
        }
        for connection in [&zero, &one] {
            let old = read(&bed, connection, object(1), 10..15_000).await.unwrap();
            assert!(old == both[10..15_000]);
            assert_eq!(
                read(&bed, connection, object(2), 0..1).await,
                Err(libc::EIO)
            );
        }
    });
}

#[test]
fn a_leader_that_dies_takes_what_it_owed_with_it() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        bed.protocol = Protocol::ServerAsync;
        let zero = bed.connect(ZERO).await;
        let both = pattern(1, 1_000_000);
        bed.write(&zero, object(1), 0, &both).await.unwrap();
        for _ in 0..200 {
            if bed.content(ONE).await.get(&object(1)) == Some(&both) {
                break;
            }
            bed.env.sleep(Duration::from_millis(10)).await;
        }
        bed.meta.unsettled.set(1);
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), 3).await;
        end_session(&bed, &[object(1)], 2).await;
        let one = bed.connect(ONE).await;
        // Whether it had more here only it knows.
        let found = read(&bed, &one, object(1), 0..both.len() as u64).await;
        assert_eq!(found, Err(libc::EIO));
        bed.meta.unsettled.set(0);
        bed.up(ZERO).await;
        bed.until(Mode::Both, 5).await;
        let found = read(&bed, &one, object(1), 0..both.len() as u64).await;
        assert!(found.unwrap() == both);
    });
}

#[test]
fn what_one_member_has_outlives_the_client_that_sent_it() {
    for (index, member) in [ZERO, ONE].into_iter().enumerate() {
        run(|env| async move {
            let bed = Bed::start(env).await;
            let (zero, one) = (bed.connect(ZERO).await, bed.connect(ONE).await);
            let both = pattern(1, 20_000);
            send(&bed, &[&zero, &one], SESSION, object(1), 0, &both).await;
            confirm(&bed, &[&zero, &one]).await;
            // It goes on with what one member has, and dies before the other one has it, too.
            let to = [&zero, &one][index];
            send(&bed, &[to], SESSION, object(1), 100, b"at one only").await;
            send(&bed, &[to], SESSION, object(1), 30_000, b"behind").await;
            let fence = proto::FenceRequest {
                session: SESSION,
                objects: vec![name(object(1))],
                asynchronous: vec![true],
                ..Default::default()
            };
            let lengths = bed.meta.order(ZERO, &fence).await.unwrap().lengths;
            assert_eq!(lengths, [30_006], "{member}");
            let expected = with(&with(&both, 100, b"at one only"), 30_000, b"behind");
            assert!(bed.content(ZERO).await[&object(1)] == expected, "{member}");
            bed.assert_equal().await;
        });
    }
}

#[test]
fn no_region_leaves_the_lists_while_a_recovery_waits() {
    run(|env| async move {
        let mut bed = Bed::tuned(env, |settings| settings.clear_after_ms = 1_500).await;
        let zero = bed.connect(ZERO).await;
        let bytes = pattern(1, 20_000);
        bed.write(&zero, object(1), 0, &bytes).await.unwrap();
        // A power cut takes what it had not synced, its list's last record too.
        let store = bed.server(ZERO).store();
        store.remove(object(1)).await.unwrap();
        store.clear(object(1), 0..1);
        // Nobody else may have its directory.
        drop(store);
        bed.meta.unsettled.set(1);
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), 3).await;
        bed.up(ZERO).await;
        bed.until(Mode::Recovering(ONE), 4).await;
        bed.env.sleep(Duration::from_millis(3_000)).await;
        bed.meta.unsettled.set(0);
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
        assert!(bed.content(ZERO).await[&object(1)] == bytes);
    });
}

#[test]
fn nothing_is_lost_beyond_what_the_leases_of_the_session_covered() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let (both, alone) = (pattern(1, 20_000), pattern(2, 5_000));
        lose(&mut bed, &both, &alone).await;
        let range = |start, end| proto::Range { start, end };
        let ranges = vec![range(0, 4_096), range(8_192, 12_288)];
        let fence = proto::FenceRequest {
            session: SESSION,
            objects: vec![name(object(1)), name(object(2))],
            settled_epoch: 2,
            asynchronous: vec![true, true],
            within: vec![
                proto::ObjectRanges { ranges },
                proto::ObjectRanges::default(),
            ],
            ..Default::default()
        };
        bed.meta.order(ONE, &fence).await.unwrap();
        let lost = bed.server(ONE).store().losses(None);
        let lost: Vec<_> = lost
            .into_iter()
            .map(|loss| (loss.object, loss.range))
            .collect();
        assert_eq!(lost, [(object(1), 0..4_096), (object(1), 8_192..12_288)]);
        // What another session writes beside it stays readable.
        let one = bed.connect(ONE).await;
        let beside = read(&bed, &one, object(1), 4_096..8_192).await.unwrap();
        assert!(beside == both[4_096..8_192]);
    });
}
