//! The journal's disk full or failing, in the simulator: nothing is acknowledged that is not in it.

use crate::support::*;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_meta::Settings;
use weft_sim::{DiskFaults, Node, World};
use weft_wire::Failed;
use weft_wire::proto::*;

fn mkdir(name: &str) -> op::Op {
    op::Op::Create(Create {
        parent: 1,
        name: name.to_owned().into(),
        kind: FileKind::Directory as i32,
        exclusive: true,
        ..Default::default()
    })
}

/// Starts the server of a node; answers its address.
async fn serve(world: &World, node: &Node) -> String {
    let address: Rc<std::cell::RefCell<Option<String>>> = Rc::default();
    let told = address.clone();
    let listen = format!("{}:7400", node.name());
    node.start(move |env| async move {
        let settings = Settings {
            listen,
            ..settings(Path::new("/meta"))
        };
        let server = begin(&env, settings).await;
        *told.borrow_mut() = Some(server.address().to_owned());
        std::future::pending::<()>().await;
    });
    loop {
        if let Some(address) = address.borrow().clone() {
            return address;
        }
        world.sleep(Duration::from_millis(1)).await;
    }
}

fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    scenario: impl FnOnce(Rc<World>, Node, Env) -> F,
) {
    let world = Rc::new(World::new(seed));
    let meta = world.node("meta");
    let client = world.node("client");
    client.start(|_| async {});
    let running = scenario(world.clone(), meta, client.env());
    world.block_on(running);
}

#[test]
fn a_full_disk_refuses_changes_serves_reads_and_recovers() {
    for seed in 0..5 {
        run(seed, |world, meta, env| async move {
            let address = serve(&world, &meta).await;
            let client = Client::open(&env, &address).await;
            client.keep_alive();
            client.done(mkdir("before")).await;
            meta.disk().set_capacity(meta.disk().used());
            let mut refused = 0;
            // What was written ahead in the journal has room for some hundreds.
            for i in 0..1_000 {
                if refused == 20 {
                    break;
                }
                let change = client.request(mkdir(&format!("d{i:0>200}")));
                let call = client.call(&change);
                match env.timeout(Duration::from_secs(1), call).await {
                    Ok(Err(error)) => {
                        assert_eq!(failed(error), Failed::Errno(libc::ENOSPC));
                        refused += 1;
                    }
                    Ok(Ok(reply)) => assert_eq!(reply.reply.unwrap().failure_errno, 0),
                    // Applied before the disk was known to be full: it waits for room.
                    Err(_) => {}
                }
                let found = client.lookup(1, "before");
                let found = env.timeout(Duration::from_secs(1), found).await;
                // What waits for room is in the same directory: then that is not answered either.
                if let Ok(found) = found {
                    assert!(found.unwrap().inode.is_some());
                }
                let statfs = StatfsRequest::default();
                let space = env.timeout(Duration::from_secs(1), client.call(&statfs));
                assert!(space.await.unwrap().is_ok());
            }
            assert_eq!(refused, 20);
            meta.disk().set_capacity(1 << 30);
            env.sleep(Duration::from_secs(2)).await;
            client.done(mkdir("after")).await;
            let before: Vec<_> = client
                .list(1, false)
                .await
                .entries
                .into_iter()
                .map(|e| e.name)
                .collect();
            let session = client.session;

            let address = serve(&world, &meta).await;
            let request = SessionRequest {
                session,
                ..Default::default()
            };
            let client = Client::with(&env, &address, request).await.unwrap();
            let after: Vec<_> = client
                .list(1, false)
                .await
                .entries
                .into_iter()
                .map(|e| e.name)
                .collect();
            assert_eq!(before, after);
        });
    }
}

/// Below which changes are refused, and below which those that make room are, too.
const FULL: u64 = 8 << 20;
const RESERVE: u64 = 4 << 20;

#[test]
fn a_full_disk_takes_what_makes_room_as_long_as_the_reserve_lasts() {
    run(1, |world, meta, env| async move {
        let address = serve(&world, &meta).await;
        let client = Client::open(&env, &address).await;
        client.keep_alive();
        for name in ["one", "two"] {
            client.done(mkdir(name)).await;
        }
        let rmdir = |name: &'static str| {
            op::Op::Rmdir(Rmdir {
                parent: 1,
                name: name.into(),
            })
        };
        let leave = async |room: u64| {
            meta.disk().set_capacity(meta.disk().used() + room);
            env.sleep(Duration::from_secs(1)).await;
        };
        let refused = async |change: op::Op| {
            let call = client.call(&client.request(change)).await;
            assert_eq!(failed(call.unwrap_err()), Failed::Errno(libc::ENOSPC));
        };
        leave(FULL - RESERVE / 2).await;
        refused(mkdir("three")).await;
        client.done(rmdir("one")).await;
        // Who comes to make room is let in.
        Client::open(&env, &address).await;
        leave(RESERVE / 2).await;
        refused(rmdir("two")).await;
        leave(1 << 30).await;
        client.done(rmdir("two")).await;
    });
}

#[test]
fn what_is_given_back_is_not_refused_for_want_of_room() {
    run(1, |world, meta, env| async move {
        let address = serve(&world, &meta).await;
        let client = Client::open(&env, &address).await;
        client.keep_alive();
        let (made, _) = client.done(mkdir("locked")).await;
        let ino = made.attr.unwrap().ino;
        let set = |kind: file_lock::Kind| {
            let lock = FileLock {
                kind: kind as i32,
                owner: 1,
                last: u64::MAX,
                ..FileLock::default()
            };
            op::Op::SetLock(SetLock {
                ino,
                lock: Some(lock),
                wait: false,
                ..SetLock::default()
            })
        };
        client.done(set(file_lock::Kind::Exclusive)).await;
        meta.disk().set_capacity(meta.disk().used());
        let full = Duration::from_secs(2);
        env.sleep(full).await;
        let refused = client.change(mkdir("more")).await.unwrap_err();
        assert_eq!(failed(refused), Failed::Errno(libc::ENOSPC));
        let unlock = client.request(set(file_lock::Kind::Unlock));
        let unlocking = client.call(&unlock);
        let room = async {
            env.sleep(full).await;
            meta.disk().set_capacity(1 << 30);
        };
        // At once, where the last block of the journal has room for it, or when there is more.
        let (reply, ()) = futures_util::future::join(unlocking, room).await;
        let reply = reply.unwrap().reply.unwrap();
        assert_eq!(reply.failure_errno, 0);
    });
}

#[test]
fn a_failing_disk_ends_acknowledgements_but_what_was_acknowledged_is_there() {
    for seed in 0..10 {
        run(seed, |world, meta, env| async move {
            let address = serve(&world, &meta).await;
            let client = Client::open(&env, &address).await;
            client.keep_alive();
            client.done(mkdir("before")).await;
            meta.disk().set_faults(DiskFaults {
                sync_error_ppm: 300_000,
                ..Default::default()
            });
            let mut acknowledged = vec!["before".to_owned()];
            let mut last = None;
            for i in 0..100 {
                let name = format!("d{i}");
                let request = client.request(mkdir(&name));
                match client.call(&request).await {
                    Ok(reply) => {
                        assert_eq!(reply.reply.unwrap().failure_errno, 0);
                        assert!(last.is_none(), "acknowledged after the disk has failed");
                        acknowledged.push(name);
                    }
                    Err(error) => {
                        assert!(matches!(failed(error), Failed::Unavailable(_)));
                        last = last.or(Some(request));
                    }
                }
            }
            let last = last.expect("a disk that fails so often");
            meta.disk().set_faults(DiskFaults::default());
            let session = client.session;
            let address = serve(&world, &meta).await;
            let request = SessionRequest {
                session,
                ..Default::default()
            };
            let client = Client::with(&env, &address, request).await.unwrap();
            let listed = client.list(1, false).await.entries;
            for name in &acknowledged {
                assert!(
                    listed.iter().any(|entry| entry.name == *name),
                    "{name} is lost"
                );
            }
            // The first that was not acknowledged is done once, whether it is there or not.
            let again = ChangeRequest {
                epoch: client.epoch,
                ..last
            };
            let reply = client.call(&again).await.unwrap().reply.unwrap();
            assert_eq!(reply.failure_errno, 0);
        });
    }
}

#[test]
fn acknowledged_changes_survive_power_cuts() {
    for seed in 0..10 {
        run(seed, |world, meta, env| async move {
            let mut rng = world.rng("cuts");
            let mut acknowledged: Vec<String> = Vec::new();
            for life in 0..6 {
                let address = serve(&world, &meta).await;
                let client = Client::open(&env, &address).await;
                client.keep_alive();
                let listed = client.list(1, false).await;
                assert!(listed.end);
                for name in &acknowledged {
                    let there = listed.entries.iter().any(|entry| entry.name == *name);
                    assert!(there, "{name} is lost in life {life}");
                }
                let deadline = env.now() + Duration::from_millis(rng.within(0..150));
                let mut number = 0;
                while env.now() < deadline {
                    let name = format!("{life}-{number}");
                    number += 1;
                    // The session of the life before may have to end first.
                    let change = client.change(mkdir(&name));
                    if let Ok(Ok(reply)) = env.timeout(Duration::from_secs(2), change).await {
                        assert_eq!(reply.reply.unwrap().failure_errno, 0);
                        acknowledged.push(name);
                    }
                }
                meta.power_cut();
                client.connection.close("the server is gone");
            }
            assert!(!acknowledged.is_empty());
        });
    }
}
