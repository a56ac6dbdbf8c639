//! Members that die, hang, come back, come back empty.

use crate::bed::*;
use std::rc::Rc;
use std::time::Duration;
use weft_objects::Store;
use weft_pair::Mode;
use weft_rpc::{CallError, Payload};
use weft_wire::Failed;
use weft_wire::proto::{self, Protocol};

#[test]
fn a_member_dies_returns_and_is_brought_up_to_date() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        for ino in 1..5 {
            bed.write(&zero, object(ino), 0, &pattern(ino, 200_000))
                .await
                .unwrap();
        }
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        assert!(
            !bed.write(&zero, object(1), 100_000, &pattern(7, 300_000))
                .await
                .unwrap()
        );
        bed.write(&zero, object(9), 3 << 20, &pattern(8, 10_000))
            .await
            .unwrap();
        bed.shape(&zero, object(2), Some(1000), &[]).await.unwrap();
        bed.shape(&zero, object(3), None, &[8192..100_000])
            .await
            .unwrap();
        let drop = weft_wire::proto::DropObjectsRequest {
            epoch: bed.meta.state().epoch.0,
            objects: vec![weft_wire::proto::ObjectName {
                ino: 4,
                generation: 0,
            }],
        };
        bed.meta.order(ZERO, &drop).await.unwrap();
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
        assert_eq!(bed.content(ONE).await.len(), 4);
        let one = bed.connect(ONE).await;
        let read = bed.read(&one, object(1), 100_000, 300_000).await.unwrap();
        assert!(read == pattern(7, 300_000));
    });
}

#[test]
fn long_holes_are_made_equal_at_once() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        let (near, far) = (1 << 39, 1 << 40);
        for ino in 1..5 {
            for at in [0, near, far] {
                let bytes = pattern(ino + at, 5_000);
                bed.write(&zero, object(ino), at, &bytes).await.unwrap();
            }
        }
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        bed.shape(&zero, object(1), Some(1000), &[]).await.unwrap();
        let holes = [3000..near + 1000, near + 2000..far + 1000];
        bed.shape(&zero, object(2), None, &holes).await.unwrap();
        bed.shape(&zero, object(3), Some(1000), &[]).await.unwrap();
        let bytes = pattern(9, 5_000);
        bed.write(&zero, object(3), far, &bytes).await.unwrap();
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        equal_where_written(&bed, &[0, near, far]).await;
        // And everything, of which nobody knows where anything is.
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 6).await;
        bed.wipe(ONE);
        bed.up(ONE).await;
        bed.until(Mode::Both, 8).await;
        equal_where_written(&bed, &[0, near, far]).await;
    });
}

/// Objects too long for comparing all of them byte for byte.
async fn equal_where_written(bed: &Bed, at: &[u64]) {
    let [zero, one] = [ZERO, ONE].map(|member| bed.server(member).store());
    let listed = zero.list(None, usize::MAX).await.unwrap();
    assert_eq!(listed, one.list(None, usize::MAX).await.unwrap());
    for (object, length) in listed {
        for at in at {
            let read =
                async |store: &Store| store.read(object, *at, 10_000).await.unwrap().concat();
            assert!(
                read(&zero).await == read(&one).await,
                "{object} differs at {at}"
            );
        }
        let map = async |store: &Store| store.map(object, 0, length, usize::MAX).await.unwrap();
        assert_eq!(map(&zero).await, map(&one).await, "{object}");
    }
}

#[test]
fn a_wiped_member_gets_everything_while_writes_go_on() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        for ino in 1..20 {
            bed.write(&zero, object(ino), 0, &pattern(ino, 700_000))
                .await
                .unwrap();
        }
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        bed.wipe(ONE);
        bed.up(ONE).await;
        // Writes meet the copying.
        let mut written = 0_u64;
        loop {
            let state = bed.meta.state();
            let over = state.mode == Mode::Both && state.epoch.0 > 3;
            let offset = written * 5000 % 900_000;
            let bytes = pattern(written, 9_000);
            match bed
                .write(&zero, object(1 + written % 25), offset, &bytes)
                .await
            {
                // Not before what was answered `Stale` has been sent again: it may be on one only.
                Ok(_) if over => break,
                Ok(_) => written += 1,
                Err(CallError::Failed(Failed::Stale(_) | Failed::Unavailable(_))) => {
                    bed.env.sleep(Duration::from_millis(2)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        bed.until(Mode::Both, 5).await;
        assert!(written > 0);
        bed.assert_equal().await;
        assert_eq!(bed.content(ONE).await.len(), bed.content(ZERO).await.len());
    });
}

#[test]
fn a_write_whose_second_copy_failed_waits_until_the_state_is_journaled() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        bed.write(&zero, object(1), 0, b"before").await.unwrap();
        bed.meta.journal_hangs.set(true);
        bed.down(ONE).await;
        let bed = Rc::new(bed);
        let answered = Rc::new(std::cell::Cell::new(None));
        let (inner, told) = (bed.clone(), answered.clone());
        let connection = zero.clone();
        bed.env.spawn("writer", async move {
            let answer = inner.write(&connection, object(1), 0, b"after!").await;
            told.set(Some(answer.map_err(|error| error.to_string())));
        });
        bed.env.sleep(Duration::from_millis(250)).await;
        assert!(!bed.meta.journaled.borrow().is_empty());
        assert!(answered.take().is_none(), "acknowledged alone");
        // Neither does it serve what nobody else has.
        let read = bed.read(&zero, object(1), 0, 6);
        assert!(
            bed.env
                .timeout(Duration::from_millis(50), read)
                .await
                .is_err()
        );
        bed.meta.journal_goes_on();
        for _ in 0..100 {
            bed.env.sleep(Duration::from_millis(10)).await;
            if let Some(answer) = answered.take() {
                assert_eq!(answer, Ok(false));
                break;
            }
        }
        bed.until(Mode::Only(ZERO), 3).await;
        assert_eq!(bed.read(&zero, object(1), 0, 6).await.unwrap(), "after!");
    });
}

#[test]
fn recovery_survives_the_death_of_either_side() {
    run(|env| async move {
        let mut bed = Bed::tuned(env, |settings| {
            settings.recovery_bytes_per_s = 20 << 20;
            settings.clear_after_ms = 100;
        })
        .await;
        let zero = bed.connect(ZERO).await;
        for ino in 1..12 {
            bed.write(&zero, object(ino), 0, &pattern(ino, 1 << 20))
                .await
                .unwrap();
        }
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 3).await;
        for ino in 1..12 {
            bed.write(&zero, object(ino), 4096, &pattern(ino + 50, 900_000))
                .await
                .unwrap();
        }
        bed.up(ONE).await;
        bed.until(Mode::Recovering(ZERO), 4).await;
        bed.env.sleep(Duration::from_millis(120)).await;
        bed.down(ONE).await;
        bed.until(Mode::Only(ZERO), 5).await;
        bed.up(ONE).await;
        bed.until(Mode::Recovering(ZERO), 6).await;
        bed.env.sleep(Duration::from_millis(120)).await;
        assert_eq!(bed.meta.state().mode, Mode::Recovering(ZERO));
        bed.down(ZERO).await;
        bed.until(Mode::Down(ZERO), 7).await;
        bed.up(ZERO).await;
        bed.until(Mode::Both, 9).await;
        bed.assert_equal().await;
        for ino in 1..12 {
            assert!(
                bed.content(ONE).await[&object(ino)][4096..904_096] == pattern(ino + 50, 900_000)
            );
        }
    });
}

#[test]
fn both_members_restart_and_compare_their_lists() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        bed.write(&zero, object(1), 0, &pattern(1, 50_000))
            .await
            .unwrap();
        // What member 1 had begun for a client when it died: on its copy only, and in its list.
        let store = bed.server(ONE).store();
        store
            .mark(object(1), 0..1, weft_objects::Purpose::Write, false)
            .await
            .unwrap();
        let extents = [weft_objects::Extent {
            offset: 0,
            length: 4,
        }];
        store
            .write(object(1), &extents, bytes::Bytes::from_static(b"half"))
            .await
            .unwrap();
        drop(store);
        bed.servers = [None, None];
        bed.env.sleep(Duration::from_millis(50)).await;
        bed.up(ONE).await;
        bed.up(ZERO).await;
        bed.until(Mode::Both, 4).await;
        bed.assert_equal().await;
    });
}

#[test]
fn a_member_without_word_from_the_service_stops_serving() {
    run(|env| async move {
        let bed = Bed::start(env).await;
        let zero = bed.connect(ZERO).await;
        bed.write(&zero, object(1), 0, b"here").await.unwrap();
        assert!(bed.read(&zero, object(1), 0, 4).await.is_ok());
        bed.meta.mute.set(true);
        bed.env.sleep(LEASE * 4 / 3).await;
        let read = bed.read(&zero, object(1), 0, 4).await;
        assert!(matches!(
            read,
            Err(CallError::Failed(Failed::Unavailable(_)))
        ));
        let write = bed.write(&zero, object(1), 0, b"more").await;
        assert!(matches!(
            write,
            Err(CallError::Failed(Failed::Unavailable(_)))
        ));
        bed.meta.mute.set(false);
        bed.until(Mode::Both, 2).await;
        assert!(bed.read(&zero, object(1), 0, 4).await.is_ok());
    });
}

#[test]
fn the_second_copy_of_an_asynchronous_write_is_owed_and_its_end_is_told() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        bed.protocol = Protocol::ServerAsync;
        let zero = bed.connect(ZERO).await;
        // Both well: answered by one, and soon by both.
        assert!(!bed.write(&zero, object(1), 0, b"before").await.unwrap());
        while bed.copied.borrow().is_empty() {
            bed.env.sleep(Duration::from_millis(1)).await;
        }
        assert!(bed.copied.take()[0].1);
        bed.assert_equal().await;
        // Nobody can decide yet what becomes of a twin that is gone.
        bed.meta.journal_hangs.set(true);
        bed.down(ONE).await;
        assert!(!bed.write(&zero, object(1), 0, b"after!").await.unwrap());
        bed.env.sleep(Duration::from_millis(150)).await;
        assert!(bed.copied.borrow().is_empty(), "the twin does not have it");
        bed.meta.journal_goes_on();
        bed.until(Mode::Only(ZERO), 3).await;
        while bed.copied.borrow().is_empty() {
            bed.env.sleep(Duration::from_millis(1)).await;
        }
        assert!(bed.copied.take()[0].1);
        bed.up(ONE).await;
        bed.until(Mode::Both, 5).await;
        bed.assert_equal().await;
    });
}

#[test]
fn a_member_that_may_owe_nothing_answers_when_both_have_it() {
    run(|env| async move {
        let mut bed = Bed::tuned(env, |settings| settings.owed_bytes = 0).await;
        bed.protocol = Protocol::ServerAsync;
        let zero = bed.connect(ZERO).await;
        assert!(bed.write(&zero, object(1), 0, b"both").await.unwrap());
        bed.assert_equal().await;
        assert!(bed.copied.borrow().is_empty());
    });
}

#[test]
fn what_a_client_goes_on_with_counts_until_it_says_that_both_have_it() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let both = [bed.connect(ZERO).await, bed.connect(ONE).await];
        for (protocol, counts) in [(Protocol::ClientSync, 0), (Protocol::ClientAsync, 10)] {
            bed.protocol = protocol;
            for connection in &both {
                for number in [1, 2] {
                    let done = bed.write(connection, object(number), 0, b"alone").await;
                    assert!(!done.unwrap(), "the client sees to the other copy");
                }
            }
            for member in [ZERO, ONE] {
                // The figures are of a moment ago.
                bed.env.sleep(Duration::from_millis(500)).await;
                let report = bed.report(member).await;
                assert_eq!(report.owed_bytes, counts, "{protocol:?}");
                assert_eq!(report.owed_objects, counts / 5, "{protocol:?}");
            }
            for connection in &both {
                connection.notify(&proto::Confirmed {
                    session: SESSION,
                    below: u64::MAX,
                    given_up: Vec::new(),
                });
            }
            for member in [ZERO, ONE] {
                while bed.report(member).await.owed_bytes > 0 {
                    bed.env.sleep(Duration::from_millis(1)).await;
                }
            }
        }
        bed.assert_equal().await;
    });
}

#[test]
fn a_write_that_its_client_gave_up_is_compared() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        bed.protocol = Protocol::ClientSync;
        let zero = bed.connect(ZERO).await;
        bed.write(&zero, object(1), 0, b"one copy").await.unwrap();
        let settle = proto::FenceRequest {
            objects: vec![name(object(1))],
            ..Default::default()
        };
        let waits = bed.meta.order(ZERO, &settle).await.unwrap_err();
        let CallError::Failed(Failed::Unavailable(why)) = waits else {
            panic!("{waits:?}");
        };
        assert_eq!(why, "a client's copies are on their way");
        let operation = bed.write_request(SESSION, object(1), 0, 1).operation - 1;
        let given_up = proto::Confirmed {
            session: SESSION,
            below: 0,
            given_up: vec![proto::GivenUp {
                object: Some(name(object(1))),
                operation,
            }],
        };
        for member in [ZERO, ONE] {
            let connection = bed.connect(member).await;
            connection.call(&given_up, Payload::none()).await.unwrap();
        }
        let lengths = bed.meta.order(ZERO, &settle).await.unwrap().lengths;
        assert_eq!(lengths, [8]);
        bed.assert_equal().await;
    });
}

/// Nothing can be made in this member's store, or opened, any more.
#[allow(clippy::disallowed_methods)]
fn break_disk(bed: &Bed, member: weft_types::Member, broken: bool) {
    let (there, away) = (
        bed.dir(member).join("objects"),
        bed.dir(member).join("away"),
    );
    let (from, to) = if broken { (there, away) } else { (away, there) };
    std::fs::rename(from, to).unwrap();
}

#[test]
fn a_member_whose_disk_fails_leaves_the_pair_until_it_is_started_anew() {
    for failing in [ZERO, ONE] {
        run(move |env| async move {
            let mut bed = Bed::start(env).await;
            let zero = bed.connect(ZERO).await;
            let bytes = pattern(1, 100_000);
            bed.write(&zero, object(1), 0, &bytes).await.unwrap();
            break_disk(&bed, failing, true);
            // Held until it is known who goes on.
            let first = bed.write(&zero, object(2), 0, &bytes).await;
            let other = failing.twin();
            bed.until(Mode::Only(other), 3).await;
            match failing {
                ZERO => assert_eq!(first, Err(CallError::Failed(Failed::Stale(3)))),
                _ => assert_eq!(first, Ok(false)),
            }
            let connection = bed.connect(other).await;
            let again = bed.write(&connection, object(2), 0, &bytes).await;
            assert_eq!(again, Ok(false));
            let report = bed.report(failing).await;
            assert!(report.disk_error.contains("objects"), "{report:?}");
            assert!(bed.report(other).await.disk_error.is_empty());
            // Not even over a new connection, with a disk that seems to work again.
            break_disk(&bed, failing, false);
            bed.meta.part();
            bed.env.sleep(Duration::from_millis(1500)).await;
            assert_eq!(bed.meta.state().mode, Mode::Only(other));
            bed.down(failing).await;
            bed.up(failing).await;
            bed.until(Mode::Both, 5).await;
            bed.assert_equal().await;
            assert!(bed.report(failing).await.disk_error.is_empty());
        });
    }
}

#[test]
fn the_last_member_says_what_its_disk_refuses_and_serves_on() {
    run(|env| async move {
        let mut bed = Bed::start(env).await;
        let one = bed.connect(ONE).await;
        let bytes = pattern(1, 100_000);
        bed.write(&one, object(1), 0, &bytes).await.unwrap();
        bed.down(ZERO).await;
        bed.until(Mode::Only(ONE), 3).await;
        break_disk(&bed, ONE, true);
        let refused = bed.write(&one, object(2), 0, &bytes).await;
        assert_eq!(refused, Err(CallError::Failed(Failed::Errno(libc::EIO))));
        bed.env.sleep(Duration::from_millis(500)).await;
        assert_eq!(bed.meta.state().mode, Mode::Only(ONE));
        assert!(bed.read(&one, object(1), 0, 100_000).await.unwrap() == bytes);
    });
}
