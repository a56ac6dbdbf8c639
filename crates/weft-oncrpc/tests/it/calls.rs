//! Calls and replies over real loopback sockets.

use crate::support;
use crate::support::*;
use bytes::Bytes;
use futures_util::future::{join, join_all};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use weft_env::real;
use weft_oncrpc::{CallError, Connection, Credential, Limits};
use weft_xdr::nfs3::*;
use weft_xdr::rpc::accept_stat;
use weft_xdr::{Procedure, mount3};

const MS: Duration = Duration::from_millis(1);

#[test]
fn calls_are_answered_and_say_who_calls() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let client = client(&env, &server).await;
        client
            .call::<NFSPROC3_NULL>(&Credential::None, &())
            .await
            .unwrap();
        for length in [0, 1, 3, 4, 5000, 1 << 20] {
            let results = client
                .call::<NFSPROC3_READ>(&user(7), &read_of(length))
                .await
                .unwrap();
            let READ3res::NFS3_OK(read) = results else {
                panic!("{results:?}")
            };
            assert!(read.data == pattern(length as usize), "{length} bytes");
        }
        let callers = program.callers.borrow();
        assert_eq!(callers[0], Credential::None);
        assert!(callers[1..].iter().all(|caller| *caller == user(7)));
        assert_eq!(callers.len(), 7);
    })
    .unwrap();
}

#[test]
fn a_payload_lies_in_a_buffer_of_its_own_that_comes_back() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let client = client(&env, &server).await;
        // Odd lengths are padded; short ones are slices of what was read; the longest just fits.
        for length in [1, 100, 16 << 10, 100_001, (1 << 20) - 1, 1 << 20] {
            let data = pattern(length);
            let writes = (0..4).map(|_| write_of(data.clone()));
            let user = user(1);
            let results = join_all(writes.map(|write| {
                let (client, user) = (client.clone(), user.clone());
                async move { client.call::<NFSPROC3_WRITE>(&user, &write).await.unwrap() }
            }))
            .await;
            for results in results {
                let WRITE3res::NFS3_OK(written) = results else {
                    panic!("{results:?}")
                };
                assert_eq!(written.count as usize, length);
            }
            let written = std::mem::take(&mut *program.written.borrow_mut());
            assert_eq!(written.len(), 4);
            for there in &written {
                assert!(*there == data, "{length} bytes");
                // What comes behind a short one may have been read with it.
                if length > 128 << 10 {
                    assert_eq!(there.as_ptr() as usize % 4096, 0, "{length} bytes");
                }
            }
            drop(written);
            assert_eq!(server.pool().lent_bytes(), 0);
        }
    })
    .unwrap();
}

#[test]
fn a_payload_that_comes_slowly_is_handed_on_in_parts() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        program.in_parts.set(true);
        let data = pattern(200_001);
        let call = record(&call_of::<NFSPROC3_WRITE>(5, &write_of(data.clone())));
        let mut stream = raw(&env, &server).await;
        let parts = || program.parts.borrow().len();
        // Less than a part is kept back.
        stream.write_all(&call[..30_000]).await.unwrap();
        env.sleep(20 * MS).await;
        assert_eq!(parts(), 0);
        stream.write_all(&call[30_000..149_000]).await.unwrap();
        env.sleep(20 * MS).await;
        stream.write_all(&call[149_000..150_000]).await.unwrap();
        until(&env, "two parts", || {
            let parts = program.parts.borrow();
            let there = parts.iter().map(|part| match part {
                Part::Bytes(bytes) => bytes.len(),
                _ => 0,
            });
            there.sum::<usize>() == 128 << 10
        })
        .await;
        let reply = ask(&mut stream, &call[150_000..]).await;
        assert_eq!(reply[..6], [5, 1, 0, 0, 0, 0]);
        assert_eq!(reply[6], nfsstat3::NFS3ERR_ROFS as u32, "its own answer");
        let came = std::mem::take(&mut *program.parts.borrow_mut());
        assert_eq!(came[0], Part::Begun);
        let mut at = 0;
        for (number, part) in came[1..].iter().enumerate() {
            let bytes = match part {
                Part::Bytes(bytes) if number + 2 < came.len() => bytes,
                Part::Last(bytes) if number + 2 == came.len() => bytes,
                other => panic!("{number}: {other:?}"),
            };
            assert!(*bytes == data.slice(at..at + bytes.len()), "at {at}");
            at += bytes.len();
        }
        assert_eq!(at, data.len());
        assert!(program.written.borrow().is_empty(), "it was called, too");
        drop(came);
        assert_eq!(server.pool().lent_bytes(), 0);
        // One that ends in the middle.
        for part in [&call[..100_000], &call[100_000..150_000]] {
            stream.write_all(part).await.unwrap();
            env.sleep(20 * MS).await;
        }
        until(&env, "a part", || parts() >= 2).await;
        drop(stream);
        until(&env, "the end", || {
            program.parts.borrow().last() == Some(&Part::Dropped)
        })
        .await;
    })
    .unwrap();
}

#[test]
fn what_is_not_taken_in_parts_comes_whole() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        program.in_parts.set(true);
        let mut write = write_of(pattern(200_001));
        let mut stream = raw(&env, &server).await;
        let slowly = async |stream: &mut weft_env::Stream, call: &[u8]| {
            for part in [&call[..100_000], &call[100_000..150_000]] {
                stream.write_all(part).await.unwrap();
                env.sleep(20 * MS).await;
            }
            ask(stream, &call[150_000..]).await
        };
        // There is something behind the bytes: what it is has to be seen first.
        let mut call = call_of::<NFSPROC3_WRITE>(6, &write);
        call.extend([0; 4]);
        let reply = slowly(&mut stream, &record(&call)).await;
        assert_eq!(reply[5], accept_stat::GARBAGE_ARGS as u32);
        // The program does not take it so.
        write.file.data = Bytes::from_static(b"another");
        let call = record(&call_of::<NFSPROC3_WRITE>(7, &write));
        assert_eq!(slowly(&mut stream, &call).await[..7], [7, 1, 0, 0, 0, 0, 0]);
        assert!(program.written.borrow()[0] == pattern(200_001));
        assert!(program.parts.borrow().is_empty());
    })
    .unwrap();
}

#[test]
fn answers_come_in_any_order() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let client = client(&env, &server).await;
        let user = user(1);
        let args = commit();
        let three = join_all((0..3).map(|_| client.call::<NFSPROC3_COMMIT>(&user, &args)));
        let answer = async {
            until(&env, "three are held", || program.held.borrow().len() == 3).await;
            // A cheap one overtakes them.
            client.call::<NFSPROC3_NULL>(&user, &()).await.unwrap();
            for verifier in 0..3 {
                let last = program.held.borrow_mut().pop_back().unwrap();
                last.send::<NFSPROC3_COMMIT>(&committed(verifier));
            }
        };
        let (results, ()) = join(three, answer).await;
        let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [committed(2), committed(1), committed(0)]);
    })
    .unwrap();
}

#[test]
fn a_call_that_is_not_served_says_why() {
    real::run(|env| async move {
        let (server, _program) = server(&env, Limits::default()).await;
        let client = client(&env, &server).await;
        let none = Credential::None;
        let remove = REMOVE3args {
            object: diropargs3 {
                dir: handle(),
                name: Bytes::from_static(b"name"),
            },
        };
        assert_eq!(
            client.call::<NFSPROC3_REMOVE>(&none, &remove).await,
            Err(CallError::Refused(accept_stat::SYSTEM_ERR)),
            "given up by the program"
        );
        let fsinfo = FSINFO3args { fsroot: handle() };
        assert_eq!(
            client.call::<NFSPROC3_FSINFO>(&none, &fsinfo).await,
            Err(CallError::Refused(accept_stat::PROC_UNAVAIL))
        );
        assert_eq!(
            client
                .call::<mount3::MOUNTPROC3_NULL>(&none, &())
                .await
                .unwrap_err(),
            CallError::Program(mount3::MOUNT_PROGRAM)
        );
    })
    .unwrap();
}

/// The bytes of each refusal, as RFC 5531 has them.
#[test]
fn refusals_are_what_the_rfc_says() {
    real::run(|env| async move {
        let (server, _program) = server(&env, Limits::default()).await;
        let mut stream = raw(&env, &server).await;
        let null = |rpc, program, version, procedure| [9, 0, rpc, program, version, procedure];
        let accepted = |outcome| vec![9, 1, 0, 0, 0, outcome];
        let denied = |why| vec![9, 1, 1, 1, why];
        let none = [0, 0, 0, 0];
        let cases: &[([u32; 6], &[u32], Vec<u32>)] = &[
            (null(2, 100_003, 3, 0), &none, accepted(0)),
            (null(2, 100_009, 3, 0), &none, accepted(1)),
            (
                null(2, 100_003, 4, 0),
                &none,
                [accepted(2), vec![2, 3]].concat(),
            ),
            (null(2, 100_003, 3, 99), &none, accepted(3)),
            // NULL with an argument, GETATTR's in READ.
            (null(2, 100_003, 3, 0), &[0, 0, 0, 0, 7], accepted(4)),
            (null(2, 100_003, 3, 6), &[0, 0, 0, 0, 4, 1], accepted(4)),
            (null(3, 100_003, 3, 0), &[], vec![9, 1, 1, 0, 2, 2]),
            // AUTH_SYS without a body, with 17 groups; AUTH_SHORT; RPCSEC_GSS; who asks for TLS; a long credential.
            (null(2, 100_003, 3, 0), &[1, 0, 0, 0], denied(1)),
            (
                null(2, 100_003, 3, 0),
                &[&[1, 88, 0, 0, 0, 0, 17][..], &[0; 17], &[0, 0]].concat(),
                denied(1),
            ),
            (null(2, 100_003, 3, 0), &[2, 0, 0, 0], denied(1)),
            (null(2, 100_003, 3, 0), &[6, 0, 0, 0], denied(1)),
            (null(2, 100_003, 3, 0), &[7, 0, 0, 0], denied(1)),
            (null(2, 100_003, 3, 0), &[0, 401], denied(1)),
            (null(2, 100_003, 3, 0), &[0, 0, 0, 401], denied(3)),
        ];
        for (head, rest, wanted) in cases {
            let bytes = words(&[&head[..], rest].concat());
            let got = ask(&mut stream, &record(&bytes)).await;
            assert_eq!(got, *wanted, "{head:?} {rest:?}");
        }
        // And all the time the connection stays.
        assert_eq!(server.connections(), 1);
    })
    .unwrap();
}

#[test]
fn a_call_that_comes_twice_is_answered_twice() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let mut stream = raw(&env, &server).await;
        let call = record(&call_of::<NFSPROC3_NULL>(5, &()));
        stream
            .write_all(&[call.clone(), call].concat())
            .await
            .unwrap();
        for _ in 0..2 {
            let mut reply = reply(&mut stream).await.unwrap();
            assert_eq!(reply.u32().unwrap(), 5);
        }
        assert_eq!(program.callers.borrow().len(), 2);
    })
    .unwrap();
}

#[test]
fn both_sides_call_on_one_connection() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let back = std::rc::Rc::new(Program3::default());
        let client = Connection::connect(
            &env,
            server.address(),
            Limits::default(),
            vec![back.clone()],
        )
        .await
        .unwrap();
        client
            .call::<NFSPROC3_NULL>(&Credential::None, &())
            .await
            .unwrap();
        let connection = program.connections.borrow()[0].clone();
        let write = write_of(pattern(300_000));
        connection
            .call_program::<NFSPROC3_WRITE>(NFS_PROGRAM, &user(0), &write)
            .await
            .unwrap();
        assert!(back.written.borrow()[0] == pattern(300_000));
        assert_eq!(
            connection
                .call_program::<NFSPROC3_NULL>(0x4000_0000, &user(0), &())
                .await,
            Err(CallError::Program(0x4000_0000))
        );
    })
    .unwrap();
}

#[test]
fn a_connection_that_breaks_ends_the_calls_that_wait() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let client = client(&env, &server).await;
        let none = Credential::None;
        let commit_args = commit();
        let waits = client.call::<NFSPROC3_COMMIT>(&none, &commit_args);
        let stops = async {
            until(&env, "it is held", || program.held.borrow().len() == 1).await;
            server.stop();
        };
        let (result, ()) = join(waits, stops).await;
        assert!(matches!(result, Err(CallError::Lost(_))), "{result:?}");
        // To answer it now is allowed, and nothing.
        let held = program.held.borrow_mut().pop_back().unwrap();
        held.send::<NFSPROC3_COMMIT>(&committed(1));
        let result = client.call::<NFSPROC3_NULL>(&none, &()).await;
        assert!(matches!(result, Err(CallError::Lost(_))), "{result:?}");
        until(&env, "none is open", || server.connections() == 0).await;
        // The same again with a new one, which is what clients do.
        let (again, _program) = support::server(&env, Limits::default()).await;
        let client = support::client(&env, &again).await;
        client.call::<NFSPROC3_NULL>(&none, &()).await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_call_whose_caller_is_gone_is_forgotten() {
    real::run(|env| async move {
        let (server, program) = server(&env, Limits::default()).await;
        let client = client(&env, &server).await;
        let none = Credential::None;
        let commit_args = commit();
        let gives_up = env.timeout(
            std::time::Duration::from_millis(50),
            client.call::<NFSPROC3_COMMIT>(&none, &commit_args),
        );
        gives_up.await.unwrap_err();
        let held = program.held.borrow_mut().pop_back().unwrap();
        held.send::<NFSPROC3_COMMIT>(&committed(1));
        client.call::<NFSPROC3_NULL>(&none, &()).await.unwrap();
        assert_eq!(NFSPROC3_COMMIT::NAME, "NFSPROC3_COMMIT");
    })
    .unwrap();
}
