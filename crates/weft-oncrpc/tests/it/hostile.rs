//! Peers that send nonsense, too much, too little, or do not take what they asked for.

use crate::support::*;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream, real};
use weft_oncrpc::{Credential, Limits};
use weft_xdr::nfs3::*;

const MS: Duration = Duration::from_millis(1);

/// Waits for the other side to close it, a few seconds at most.
async fn ends(env: &Env, stream: &mut Stream) {
    let mut rest = Vec::new();
    env.timeout(5000 * MS, stream.read_to_end(&mut rest))
        .await
        .expect("the connection stays open")
        // A reset is as good.
        .ok();
    assert!(rest.is_empty(), "it was answered");
}

#[test]
fn records_may_come_in_fragments_and_byte_by_byte() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let mut stream = raw(&env, &server).await;
        let call = call_of::<NFSPROC3_WRITE>(5, &write_of(pattern(40_001)));
        for size in [4, 1, 77, 20_000, call.len()] {
            if call.len() / size > 1000 {
                continue;
            }
            let mut bytes: Vec<u8> = call
                .chunks(size)
                .flat_map(|part| fragment(part, false))
                .collect();
            // Some senders end with an empty one.
            bytes.extend(fragment(&[], true));
            assert_eq!(ask(&mut stream, &bytes).await[..6], [5, 1, 0, 0, 0, 0]);
        }
        let null = record(&call_of::<NFSPROC3_NULL>(6, &()));
        for byte in &null {
            stream.write_all(&[*byte]).await.unwrap();
            env.sleep(MS).await;
        }
        assert_eq!(ask(&mut stream, &null).await, [6, 1, 0, 0, 0, 0]);
        assert_eq!(program.written.borrow().len(), 3);
        assert!(
            program
                .written
                .borrow()
                .iter()
                .all(|data| *data == pattern(40_001))
        );
        program.written.borrow_mut().clear();
        assert_eq!(server.pool().lent_bytes(), 0);
    })
    .unwrap();
}

#[test]
fn what_is_no_record_or_no_message_ends_the_connection() {
    real::run(|env| async move {
        let limits = Limits::default();
        let (server, _program) = server(&env, limits).await;
        let over = limits.record_bytes as u32 + 1;
        let call = call_of::<NFSPROC3_NULL>(1, &());
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("one byte too long", words(&[1 << 31 | over])),
            ("as long as can be said", words(&[u32::MAX])),
            ("too long in two fragments", {
                let mut bytes = fragment(&vec![0; limits.record_bytes], false);
                bytes.extend(words(&[1 << 31 | 1]));
                bytes
            }),
            ("empty fragments without end", vec![0; 4 * 1025]),
            ("an empty record", words(&[1 << 31])),
            ("half a header", record(&call[..30])),
            (
                "neither call nor reply",
                record(&words(&[1, 2, 2, 100_003, 3, 0, 0, 0, 0, 0])),
            ),
            (
                "a request of another protocol",
                b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            ),
        ];
        for (what, bytes) in cases {
            let mut stream = raw(&env, &server).await;
            stream
                .write_all(&bytes)
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            ends(&env, &mut stream).await;
        }
        // A reply that nobody waits for is nothing to end it for.
        let mut stream = raw(&env, &server).await;
        stream
            .write_all(&record(&words(&[77, 1, 0, 0, 0, 0])))
            .await
            .unwrap();
        assert_eq!(ask(&mut stream, &record(&call)).await, [1, 1, 0, 0, 0, 0]);
    })
    .unwrap();
}

#[test]
fn a_client_that_never_reads_is_not_read_from_and_is_closed() {
    real::run(|env| async move {
        let limits = Limits {
            stall: 500 * MS,
            ..Limits::default()
        };
        let (server, program) = server(&env, limits).await;
        let mut stream = raw(&env, &server).await;
        // Far more replies than the two sockets hold.
        let ask = record(&call_of::<NFSPROC3_READ>(1, &read_of(1 << 20)));
        stream.write_all(&ask.repeat(1000)).await.unwrap();
        let served = || program.callers.borrow().len();
        until(&env, "some are served", || served() > 3).await;
        env.sleep(200 * MS).await;
        let first = served();
        assert!(first < 40, "{first} calls were served");
        assert_eq!(server.connections(), 1);
        until(&env, "it is closed", || server.connections() == 0).await;
        assert!(served() < first + 5, "it was read from all the time");
    })
    .unwrap();
}

#[test]
fn as_many_calls_as_are_allowed_wait_and_no_more() {
    real::run(|env| async move {
        let limits = Limits {
            calls: 5,
            ..Limits::default()
        };
        let (server, program) = server(&env, limits).await;
        let mut stream = raw(&env, &server).await;
        for xid in 0..12 {
            let call = record(&call_of::<NFSPROC3_COMMIT>(xid, &commit()));
            stream.write_all(&call).await.unwrap();
        }
        until(&env, "five wait", || program.held.borrow().len() == 5).await;
        env.sleep(50 * MS).await;
        assert_eq!(program.held.borrow().len(), 5);
        for xid in 0..12 {
            until(&env, "another waits", || !program.held.borrow().is_empty()).await;
            let held = program.held.borrow_mut().pop_front().unwrap();
            held.send::<NFSPROC3_COMMIT>(&committed(1));
            assert_eq!(reply(&mut stream).await.unwrap().u32().unwrap(), xid);
            assert!(program.held.borrow().len() <= 5);
        }
    })
    .unwrap();
}

#[test]
fn payloads_of_all_connections_have_a_bound_and_wait_for_each_other() {
    real::run(|env| async move {
        let limits = Limits {
            payload_bytes: 2 << 20,
            ..Limits::default()
        };
        let (server, program) = server(&env, limits).await;
        let call = record(&call_of::<NFSPROC3_WRITE>(1, &write_of(pattern(1 << 20))));
        // Two begin and stop in the middle; what a third sends has to wait.
        let mut slow = Vec::new();
        for _ in 0..2 {
            let mut stream = raw(&env, &server).await;
            stream.write_all(&call[..500_000]).await.unwrap();
            slow.push(stream);
        }
        until(&env, "two have buffers", || {
            server.pool().lent_bytes() == 2 << 20
        })
        .await;
        let mut third = raw(&env, &server).await;
        let whole = call.clone();
        env.spawn("third", async move {
            third.write_all(&whole).await.unwrap();
            reply(&mut third).await.unwrap();
            // It stays open until the test ends.
            std::future::pending::<()>().await;
        });
        env.sleep(100 * MS).await;
        assert_eq!(server.pool().lent_bytes(), 2 << 20);
        assert_eq!(program.written.borrow().len(), 0);
        slow[0].write_all(&call[500_000..]).await.unwrap();
        until(&env, "the first is whole", || {
            program.written.borrow().len() == 1
        })
        .await;
        // Its buffer is the program's until this.
        program.written.borrow_mut().clear();
        until(&env, "the third is whole", || {
            program.written.borrow().len() == 1
        })
        .await;
        assert!(program.written.borrow()[0] == pattern(1 << 20));
    })
    .unwrap();
}

#[test]
fn who_stops_in_the_middle_and_who_does_nothing_is_closed_in_its_time() {
    real::run(|env| async move {
        let limits = Limits {
            stall: 200 * MS,
            idle: 1000 * MS,
            ..Limits::default()
        };
        let (server, program) = server(&env, limits).await;
        let begun = env.now();
        let call = record(&call_of::<NFSPROC3_NULL>(1, &()));
        let mut half = raw(&env, &server).await;
        half.write_all(&call[..20]).await.unwrap();
        let mut idle = raw(&env, &server).await;
        ask(&mut idle, &call).await;
        // One that waits for an answer is not idle.
        let mut waits = raw(&env, &server).await;
        let held = record(&call_of::<NFSPROC3_COMMIT>(2, &commit()));
        waits.write_all(&held).await.unwrap();
        ends(&env, &mut half).await;
        let after = env.now().since(begun);
        assert!(after >= 200 * MS && after < 900 * MS, "{after:?}");
        assert_eq!(server.connections(), 2);
        ends(&env, &mut idle).await;
        let after = env.now().since(begun);
        assert!(after >= 1000 * MS, "{after:?}");
        env.sleep(500 * MS).await;
        let held = program.held.borrow_mut().pop_front().unwrap();
        held.send::<NFSPROC3_COMMIT>(&committed(1));
        assert_eq!(reply(&mut waits).await.unwrap().u32().unwrap(), 2);
    })
    .unwrap();
}

#[test]
fn connections_have_a_bound() {
    real::run(|env| async move {
        let limits = Limits {
            connections: 3,
            ..Limits::default()
        };
        let (server, _program) = server(&env, limits).await;
        let call = record(&call_of::<NFSPROC3_NULL>(1, &()));
        let mut streams = Vec::new();
        for _ in 0..3 {
            let mut stream = raw(&env, &server).await;
            ask(&mut stream, &call).await;
            streams.push(stream);
        }
        ends(&env, &mut raw(&env, &server).await).await;
        // The others do not suffer, and one that goes makes room.
        ask(&mut streams[0], &call).await;
        streams.pop();
        until(&env, "one is gone", || server.connections() == 2).await;
        ask(&mut raw(&env, &server).await, &call).await;
    })
    .unwrap();
}

/// Two descriptors each, and some for the rest of the test.
fn as_many_as_files_allow() -> usize {
    let limits = std::path::Path::new("/proc/self/limits");
    #[allow(clippy::disallowed_methods, reason = "asks the system, not a server")]
    let text = String::from_utf8(std::fs::read(limits).unwrap()).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let soft = line
        .split_whitespace()
        .nth(3)
        .unwrap()
        .parse()
        .unwrap_or(1 << 20);
    ((soft - 200_usize) / 2).min(10_000)
}

#[test]
fn ten_thousand_idle_connections_cost_nothing_but_their_descriptors() {
    let count = as_many_as_files_allow();
    real::run(|env| async move {
        let (server, _program) = server(&env, Limits::default()).await;
        let call = record(&call_of::<NFSPROC3_NULL>(1, &()));
        let before = resident_bytes();
        let mut streams = Vec::new();
        for _ in 0..count {
            let mut stream = raw(&env, &server).await;
            ask(&mut stream, &call).await;
            streams.push(stream);
        }
        assert_eq!(server.connections(), count);
        let each = resident_bytes().saturating_sub(before) / count;
        assert!(each < 16 << 10, "{each} bytes for each of {count}");
        // And somebody among them works as if alone.
        let client = client(&env, &server).await;
        for _ in 0..100 {
            client
                .call::<NFSPROC3_NULL>(&Credential::None, &())
                .await
                .unwrap();
        }
        let first = &mut streams[0];
        ask(first, &call).await;
        drop(streams);
        until(&env, "all are gone", || server.connections() == 1).await;
    })
    .unwrap();
}

fn resident_bytes() -> usize {
    #[allow(clippy::disallowed_methods, reason = "asks the system, not a server")]
    let text = String::from_utf8(std::fs::read("/proc/self/statm").unwrap()).unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Calls with bytes changed, cut and repeated: whatever is answered, the server lives, and the next client is served.
#[test]
fn mutilated_calls_do_no_harm() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let calls = [
            call_of::<NFSPROC3_NULL>(1, &()),
            call_of::<NFSPROC3_READ>(2, &read_of(10)),
            call_of::<NFSPROC3_WRITE>(3, &write_of(pattern(20_000))),
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % bound as u64) as usize
        };
        for _ in 0..400 {
            let mut bytes = record(&calls[random(3)]);
            for _ in 0..random(4) {
                let at = random(bytes.len().min(120));
                bytes[at] = random(256) as u8;
            }
            if random(3) == 0 {
                bytes.truncate(random(bytes.len()) + 1);
            }
            let mut stream = raw(&env, &server).await;
            let _sent = env.timeout(20 * MS, stream.write_all(&bytes)).await;
            program.held.borrow_mut().clear();
            program.written.borrow_mut().clear();
            let mut room = [0; 256];
            let _answered = env.timeout(MS, stream.read(&mut room)).await;
        }
        let client = client(&env, &server).await;
        client
            .call::<NFSPROC3_NULL>(&Credential::None, &())
            .await
            .unwrap();
        until(&env, "all are gone", || server.connections() == 1).await;
        program.written.borrow_mut().clear();
        assert_eq!(server.pool().lent_bytes(), 0);
    })
    .unwrap();
}
