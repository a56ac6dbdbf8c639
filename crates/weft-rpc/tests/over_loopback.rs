//! Two ends over real loopback sockets.

#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "a relay of its own between two ends"
)]

use bytes::Bytes;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::real;
use weft_rpc::{CallError, Handler, Local, Payload, connect, serve};
use weft_types::NameSpaceId;
use weft_wire::proto::{Identity, ReadReply, ReadRequest, RenewReply, RenewRequest, WriteRequest};
use weft_wire::{Failed, Rpc};

fn local(cluster: &str) -> Local {
    Local::new(cluster.into(), Identity::default())
}

fn silent() -> Handler {
    Rc::new(|_, _| {})
}

/// Reads return as many bytes as asked, renewals fail, writes are never answered but given up.
fn server() -> Handler {
    Rc::new(|_, request| match request.method {
        ReadRequest::METHOD => {
            let read: ReadRequest = request.decode().unwrap();
            let payload = Bytes::from(vec![7; read.length as usize]);
            request.replier.send::<ReadRequest>(&ReadReply {}, payload);
        }
        RenewRequest::METHOD => request.replier.fail(Failed::Stale(9)),
        _ => {}
    })
}

#[test]
fn calls_with_payloads_of_all_sizes_are_answered() {
    real::run(|env| async move {
        let address = serve(&env, "127.0.0.1:0", local("c"), |_| {}, server())
            .await
            .unwrap();
        let connection = connect(&env, &address, &local("c"), silent())
            .await
            .unwrap();
        for length in [0, 1, 4096, 32 << 10, (32 << 10) + 1, 1 << 20] {
            let request = ReadRequest {
                length,
                ..Default::default()
            };
            let (_, payload) = connection.call(&request, Payload::none()).await.unwrap();
            assert_eq!(payload.len(), length as usize);
            assert!(payload.iter().all(|&byte| byte == 7));
        }
        let calls = (0..100).map(|i| {
            let connection = connection.clone();
            async move {
                let request = ReadRequest {
                    length: i * 1000,
                    ..Default::default()
                };
                connection
                    .call(&request, Payload::none())
                    .await
                    .unwrap()
                    .1
                    .len()
            }
        });
        let lengths = futures_util::future::join_all(calls).await;
        assert_eq!(lengths, (0..100).map(|i| i * 1000).collect::<Vec<usize>>());
    })
    .unwrap();
}

#[test]
fn what_is_kept_of_a_small_frame_keeps_nothing_else_in_memory() {
    real::run(|env| async move {
        let kept: Rc<RefCell<Vec<Bytes>>> = Rc::default();
        let keeps = kept.clone();
        let handler: Handler = Rc::new(move |_, request| {
            keeps.borrow_mut().push(request.payload.clone());
            request.replier.fail(Failed::Stale(9));
        });
        let address = serve(&env, "127.0.0.1:0", local("c"), |_| {}, handler)
            .await
            .unwrap();
        let connection = connect(&env, &address, &local("c"), silent())
            .await
            .unwrap();
        for number in 0..100u8 {
            let write = WriteRequest::default();
            let payload = Bytes::from(vec![number; 100]);
            connection.call(&write, payload).await.unwrap_err();
        }
        for (number, payload) in kept.borrow().iter().enumerate() {
            assert_eq!(*payload, vec![number as u8; 100]);
            assert!(payload.is_unique(), "it shares the memory that is read to");
        }
    })
    .unwrap();
}

#[test]
fn failures_and_given_up_requests_reach_the_caller() {
    real::run(|env| async move {
        let address = serve(&env, "127.0.0.1:0", local("c"), |_| {}, server())
            .await
            .unwrap();
        let connection = connect(&env, &address, &local("c"), silent())
            .await
            .unwrap();
        let failed = connection
            .call(&RenewRequest::default(), Payload::none())
            .await
            .unwrap_err();
        assert_eq!(failed, CallError::Failed(Failed::Stale(9)));
        let write = WriteRequest::default();
        let failed = connection
            .call(&write, Bytes::from_static(b"x"))
            .await
            .unwrap_err();
        assert!(matches!(failed, CallError::Failed(Failed::Unavailable(_))));
    })
    .unwrap();
}

#[test]
fn another_cluster_is_refused_with_both_names() {
    real::run(|env| async move {
        let address = serve(&env, "127.0.0.1:0", local("one"), |_| {}, server())
            .await
            .unwrap();
        let error = connect(&env, &address, &local("two"), silent())
            .await
            .err()
            .unwrap();
        let text = error.to_string();
        assert!(text.contains("one") && text.contains("two"), "{text}");
        assert!(weft_rpc::is_misplaced(&error), "{text}");
    })
    .unwrap();
}

#[test]
fn another_name_space_is_refused_where_both_know_their_own() {
    real::run(|env| async move {
        let of = |id: Option<u128>| {
            let local = local("one");
            if let Some(id) = id {
                local.is_of(NameSpaceId(id));
            }
            local
        };
        for theirs in [None, Some(1)] {
            let address = serve(&env, "127.0.0.1:0", of(theirs), |_| {}, server())
                .await
                .unwrap();
            for ours in [None, Some(1), Some(2)] {
                let connected = connect(&env, &address, &of(ours), silent()).await;
                match connected.err() {
                    None => assert_ne!((ours, theirs), (Some(2), Some(1))),
                    Some(error) => {
                        assert_eq!((ours, theirs), (Some(2), Some(1)), "{error}");
                        assert!(weft_rpc::is_misplaced(&error), "{error}");
                        let text = error.to_string();
                        assert!(text.contains(&NameSpaceId(1).to_string()), "{text}");
                        assert!(text.contains(&NameSpaceId(2).to_string()), "{text}");
                    }
                }
            }
        }
        // Nobody listens there: that is another matter.
        let nobody = connect(&env, "127.0.0.1:1", &of(None), silent()).await;
        assert!(!weft_rpc::is_misplaced(&nobody.err().unwrap()));
    })
    .unwrap();
}

#[test]
fn the_server_may_ask_too_and_closing_fails_what_waits() {
    real::run(|env| async move {
        let accepted = Rc::new(RefCell::new(None));
        let keep = accepted.clone();
        let on_connection = move |connection| *keep.borrow_mut() = Some(connection);
        let address = serve(&env, "127.0.0.1:0", local("c"), on_connection, silent())
            .await
            .unwrap();
        let answers: Handler = Rc::new(|_, request| {
            request
                .replier
                .send::<RenewRequest>(&RenewReply::default(), Payload::none());
        });
        let connection = connect(&env, &address, &local("c"), answers).await.unwrap();
        while accepted.borrow().is_none() {
            env.sleep(std::time::Duration::from_millis(1)).await;
        }
        let server_side: weft_rpc::Connection = accepted.borrow().clone().unwrap();
        server_side
            .call(&RenewRequest::default(), Payload::none())
            .await
            .unwrap();

        server_side.close("enough");
        connection.closed().await;
        let lost = connection
            .call(&RenewRequest::default(), Payload::none())
            .await
            .unwrap_err();
        assert!(matches!(lost, CallError::Lost(_)));
    })
    .unwrap();
}

#[test]
fn random_bytes_close_the_connection_and_the_server_lives() {
    real::run(|env| async move {
        let address = serve(&env, "127.0.0.1:0", local("c"), |_| {}, server())
            .await
            .unwrap();
        for seed in 0..50u64 {
            let mut stream = env.connect(&address).await.unwrap();
            let noise: Vec<u8> = (0..500u64)
                .map(|i| (seed.wrapping_mul(i + 77) >> 3) as u8)
                .collect();
            stream.write_all(&noise).await.unwrap();
            let mut rest = Vec::new();
            // Closed or reset; either way it ends.
            let _: std::io::Result<usize> = stream.read_to_end(&mut rest).await;
        }
        let connection = connect(&env, &address, &local("c"), silent())
            .await
            .unwrap();
        let request = ReadRequest {
            length: 10,
            ..Default::default()
        };
        assert_eq!(
            connection
                .call(&request, Payload::none())
                .await
                .unwrap()
                .1
                .len(),
            10
        );
    })
    .unwrap();
}

/// The other side answers and asks for something else right after: a task that waits for the answer
/// may run after that request is handled, what is called in order may not.
#[test]
fn an_answer_is_taken_before_the_requests_that_follow_it() {
    real::run(|env| async move {
        let log: Rc<RefCell<Vec<&str>>> = Rc::default();
        let heard = log.clone();
        let asked = log.clone();
        let ask = move |connection: weft_rpc::Connection| {
            let log = asked.clone();
            connection.call_in_order(&ReadRequest::default(), move |answer| {
                assert!(answer.is_ok());
                log.borrow_mut().push("answer");
            });
        };
        let handler: Handler = Rc::new(move |_, request| {
            heard.borrow_mut().push("request");
            request.replier.fail(Failed::Stale(1));
        });
        let address = serve(&env, "127.0.0.1:0", local("c"), ask, handler)
            .await
            .unwrap();
        let client: Handler = Rc::new(|connection, request| {
            request
                .replier
                .send::<ReadRequest>(&ReadReply {}, Payload::none());
            connection.call_in_order(&RenewRequest::default(), |_| {});
        });
        let connection = connect(&env, &address, &local("c"), client).await.unwrap();
        connection
            .call(&RenewRequest::default(), Payload::none())
            .await
            .unwrap_err();
        while log.borrow().len() < 3 {
            env.sleep(std::time::Duration::from_millis(1)).await;
        }
        let log = log.borrow();
        let answer = log.iter().position(|&line| line == "answer").unwrap();
        assert_eq!(log.last(), Some(&"request"), "{answer} of {log:?}");
    })
    .unwrap();
}

/// Hands bytes through to `upstream` until told to stop, then ends the client's connection.
fn relay(listener: std::net::TcpListener, upstream: String, resets: bool, stop: Receiver<()>) {
    let (mut near, _) = listener.accept().unwrap();
    let mut far = std::net::TcpStream::connect(upstream).unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    while stop.try_recv().is_err() {
        hand_on(&mut near, &mut far);
        hand_on(&mut far, &mut near);
        std::thread::sleep(Duration::from_millis(1));
    }
    if resets {
        // A socket that is closed with something unread is reset by the kernel.
        let mut unread = [0];
        while near.peek(&mut unread).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn hand_on(from: &mut std::net::TcpStream, to: &mut std::net::TcpStream) {
    let mut bytes = [0; 4096];
    if let Ok(count) = from.read(&mut bytes) {
        to.write_all(&bytes[..count]).unwrap();
    }
}

#[test]
fn the_end_of_a_stream_is_the_other_sides_word_and_a_reset_is_not() {
    for resets in [false, true] {
        real::run(|env| async move {
            let address = serve(&env, "127.0.0.1:0", local("c"), |_| {}, server())
                .await
                .unwrap();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let near = listener.local_addr().unwrap().to_string();
            let (stop, stopped) = std::sync::mpsc::channel();
            let relay = std::thread::spawn(move || relay(listener, address, resets, stopped));
            let connection = connect(&env, &near, &local("c"), silent()).await.unwrap();
            stop.send(()).unwrap();
            env.sleep(Duration::from_millis(20)).await;
            if resets {
                connection.notify(&RenewRequest::default());
            }
            connection.closed().await;
            assert_eq!(connection.ended_by_peer(), !resets);
            relay.join().unwrap();
        })
        .unwrap();
    }
}
