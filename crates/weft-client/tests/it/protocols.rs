//! The duplication protocols, as a writer sees them (docs/protocols/duplication.md).

use crate::support::*;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;
use weft_wire::proto::Protocol;

const ALL: [Protocol; 5] = [
    Protocol::ServerSync,
    Protocol::ServerAsync,
    Protocol::ClientSync,
    Protocol::ClientAsync,
    Protocol::Hybrid,
];
const ASYNC: [Protocol; 2] = [Protocol::ServerAsync, Protocol::ClientAsync];

/// Longer than anything takes that is not held up.
const WHILE: Duration = Duration::from_millis(300);
const MIB: usize = 1 << 20;

/// A client whose new files have this protocol.
async fn client(cluster: &Rc<Cluster>, protocol: Protocol, settings: Settings) -> Client {
    let client = Client::connect(cluster.env.clone(), settings)
        .await
        .unwrap();
    let policy = Policy {
        protocol: protocol as i32,
        ..client.policy(client.root()).await.unwrap()
    };
    client
        .set_policy(&root(), client.root(), policy)
        .await
        .unwrap();
    client
}

async fn create(client: &Client) -> HandleId {
    let flags = CreateFlags {
        exclusive: true,
        open: RW,
    };
    let cred = root();
    let made = client.create(&cred, client.root(), b"f", 0o644, flags);
    made.await.unwrap().1
}

/// The same with a first write that both members have, and one elsewhere by which they know that: only
/// near such a one the client goes on with one copy.
async fn create_announced(client: &Client) -> HandleId {
    let handle = create(client).await;
    for offset in [0, 32 * MIB as u64] {
        client
            .write(handle, offset, pattern(9, 10), false)
            .await
            .unwrap();
        client.fsync(handle, false).await.unwrap();
    }
    handle
}

async fn read(client: &Client, handle: HandleId, length: usize) -> bytes::Bytes {
    let parts = client.read(handle, 0, length).await.unwrap();
    parts.concat().into()
}

/// Waits until one member alone has so many bytes.
async fn owes(cluster: &Rc<Cluster>, client: &Client, bytes: u64) {
    while client.figures().owed_bytes != bytes {
        cluster.env.sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn no_protocol_loses_what_was_synced_when_servers_die() {
    for protocol in ALL {
        with_kind(2, Kind::Real, &async |cluster: Rc<Cluster>| {
            let a = client(&cluster, protocol, cluster.settings()).await;
            let handle = create(&a).await;
            let data = pattern(5, 24 * MIB);
            let writing = async {
                for (i, step) in data.chunks(MIB).enumerate() {
                    let at = (i * MIB) as u64;
                    let written = a.write(handle, at, data.slice_ref(step), false);
                    written.await.unwrap();
                    cluster.env.sleep(Duration::from_millis(5)).await;
                }
                a.fsync(handle, false).await.unwrap();
            };
            let killing = async {
                cluster.env.sleep(Duration::from_millis(50)).await;
                cluster.kill_member(0, 1);
                cluster.kill_member(1, 0);
            };
            futures_util::future::join(writing, killing).await;
            assert!(read(&a, handle, 24 * MIB).await == data, "{protocol:?}");
            cluster.start_member(0, 1).await;
            cluster.start_member(1, 0).await;
            cluster.serving(2).await;
            // What is left has all of it.
            cluster.kill_member(0, 0);
            cluster.kill_member(1, 1);
            let b = cluster.client().await;
            let found = b.lookup(&root(), b.root(), b"f").await.unwrap();
            let ino = found.entry.unwrap().attr.ino;
            let handle = b.open(&root(), ino, RO).await.unwrap();
            assert!(read(&b, handle, 24 * MIB).await == data, "{protocol:?}");
        });
    }
}

#[test]
fn a_writer_goes_on_with_one_copy_and_a_sync_waits_for_both() {
    for protocol in ASYNC {
        with_stand_ins(1, async |cluster| {
            let settings = Settings {
                write_window_bytes: MIB as u64,
                ..cluster.settings()
            };
            let a = client(&cluster, protocol, settings).await;
            let handle = create_announced(&a).await;
            let store = &cluster.stores[0];
            store.copies_hang.set(true);
            let data = pattern(1, 8 * MIB);
            a.write(handle, 0, data.clone(), false).await.unwrap();
            // Far more than the window: one copy of each piece is enough to send the next.
            owes(&cluster, &a, 8 * MIB as u64).await;
            let arrived = {
                let objects = store.objects.borrow();
                let parts = objects.values().map(|o| &o.bytes[..8 * MIB]);
                parts.collect::<Vec<_>>() == [&data[..]]
            };
            assert!(arrived, "{protocol:?}");
            // It reads its own writes, from wherever they are.
            assert!(read(&a, handle, 8 * MIB).await == data);
            let sync = a.fsync(handle, false);
            assert!(
                cluster.env.timeout(WHILE, sync).await.is_err(),
                "{protocol:?}"
            );
            // Nobody else reads the file before both have it.
            let b = cluster.client().await;
            let found = b.lookup(&root(), b.root(), b"f").await.unwrap();
            let known = found.entry.unwrap().attr;
            assert!(known.size >= 8 * MIB as u64);
            let other = b.open(&root(), known.ino, RO).await.unwrap();
            let reading = b.read(other, 0, 4096);
            assert!(cluster.env.timeout(WHILE, reading).await.is_err());
            store.copies_hang.set(false);
            a.fsync(handle, false).await.unwrap();
            assert_eq!(a.figures().owed_bytes, 0);
            assert!(read(&b, other, 8 * MIB).await == data);
        });
    }
}

#[test]
fn a_writer_goes_on_with_one_copy_only_near_what_both_have() {
    for protocol in ASYNC {
        with_stand_ins(1, async |cluster| {
            let settings = Settings {
                write_window_bytes: MIB as u64,
                ..cluster.settings()
            };
            let a = client(&cluster, protocol, settings).await;
            let handle = create(&a).await;
            let store = &cluster.stores[0];
            store.copies_hang.set(true);
            a.write(handle, 0, pattern(1, 8 * MIB), false)
                .await
                .unwrap();
            cluster.env.sleep(WHILE).await;
            // Nobody could name what a member that died now would take with it and the client.
            assert_eq!(a.figures().owed_bytes, 0, "{protocol:?}");
            let sent: usize = {
                let objects = store.objects.borrow();
                objects.values().map(|o| o.bytes.len()).sum()
            };
            assert!(sent <= 2 * MIB, "{sent} for a window of one MiB");
            store.copies_hang.set(false);
            a.fsync(handle, false).await.unwrap();
        });
    }
}

#[test]
fn a_close_waits_until_the_first_answers_say_that_there_is_room() {
    for protocol in ASYNC {
        with_stand_ins(1, async |cluster| {
            let a = client(&cluster, protocol, cluster.settings()).await;
            let handle = create(&a).await;
            let store = &cluster.stores[0];
            store.room.set(1 << 40);
            a.write(handle, 0, pattern(1, 8 * MIB), false)
                .await
                .unwrap();
            // Both have something of it, and not the rest.
            while a.figures().owed_bytes == 0 && a.figures().buffered_bytes == 8 * MIB as u64 {
                cluster.env.sleep(Duration::from_micros(20)).await;
            }
            store.copies_hang.set(true);
            let closed = cluster.env.timeout(WHILE, a.flush(handle, None)).await;
            assert_eq!(closed, Ok(Ok(())), "{protocol:?}");
            let synced = cluster.env.timeout(WHILE, a.fsync(handle, false)).await;
            assert!(synced.is_err(), "{protocol:?}");
            store.copies_hang.set(false);
            a.fsync(handle, false).await.unwrap();
        });
    }
}

#[test]
fn what_waits_behind_others_has_as_much_patience() {
    for protocol in ALL {
        with_stand_ins(1, async |cluster| {
            let settings = Settings {
                patience_ms: 2_000,
                ..cluster.settings()
            };
            let a = client(&cluster, protocol, settings).await;
            let handle = create(&a).await;
            let store = &cluster.stores[0];
            // One piece at a time: all of them take longer than a client's patience.
            store.window.set(1);
            store.write_delay.set(Duration::from_millis(400));
            let data = pattern(1, 4 * MIB);
            a.write(handle, 0, data.clone(), false).await.unwrap();
            let begun = cluster.env.now();
            a.fsync(handle, false).await.unwrap();
            let took = cluster.env.now().since(begun);
            assert!(took > Duration::from_secs(3), "{took:?}, {protocol:?}");
            store.write_delay.set(Duration::ZERO);
            assert!(read(&a, handle, 4 * MIB).await == data, "{protocol:?}");
        });
    }
}

#[test]
fn a_write_to_a_pair_that_is_gone_ends_with_the_patience() {
    const PATIENCE: Duration = Duration::from_secs(2);
    // Nobody answers; or both do, and say each time that they may not serve.
    for are_dead in [true, false] {
        for protocol in [Protocol::ServerSync, Protocol::ClientAsync] {
            with_stand_ins(1, async |cluster| {
                let settings = Settings {
                    patience_ms: PATIENCE.as_millis() as u64,
                    ..cluster.settings()
                };
                let a = client(&cluster, protocol, settings).await;
                let handle = create(&a).await;
                match are_dead {
                    true => (0..2).for_each(|member| cluster.kill_member(0, member)),
                    false => cluster.stores[0].rightless.set(true),
                }
                // More than the windows of both hold: some wait behind those that are tried.
                a.write(handle, 0, pattern(1, 4 * MIB), false)
                    .await
                    .unwrap();
                let begun = cluster.env.now();
                let synced = a.fsync(handle, false).await;
                assert_eq!(synced, Err(Errno(libc::EIO)), "{protocol:?}, {are_dead}");
                // Those that waited are tried for a moment of their own, and then no more.
                let took = cluster.env.now().since(begun);
                assert!(took < PATIENCE * 2, "{protocol:?}, {are_dead}: {took:?}");
            });
        }
    }
}

#[test]
fn what_the_leader_had_to_make_equal_lets_no_writer_go_on_near_it() {
    with_stand_ins(1, async |cluster| {
        let settings = Settings {
            write_window_bytes: MIB as u64,
            ..cluster.settings()
        };
        let a = client(&cluster, Protocol::ClientAsync, settings).await;
        let handle = create(&a).await;
        let store = &cluster.stores[0];
        // Refused by one disk and sent again as server-sync: no member notes a place by that.
        store.refusing.set(Some((1, libc::ENOSPC)));
        a.write(handle, 0, pattern(9, 10), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        store.refusing.set(None);
        store.copies_hang.set(true);
        a.write(handle, 0, pattern(1, 8 * MIB), false)
            .await
            .unwrap();
        cluster.env.sleep(WHILE).await;
        assert_eq!(a.figures().owed_bytes, 0);
        store.copies_hang.set(false);
        a.fsync(handle, false).await.unwrap();
    });
}

#[test]
fn no_more_is_owed_than_the_settings_allow() {
    for protocol in ASYNC {
        for (owed_bytes, owed_ms) in [(2 * MIB as u64, 60_000), (1 << 40, 100)] {
            with_stand_ins(1, async |cluster| {
                let settings = Settings {
                    owed_bytes,
                    owed_ms,
                    write_window_bytes: MIB as u64,
                    ..cluster.settings()
                };
                let a = client(&cluster, protocol, settings).await;
                let handle = create_announced(&a).await;
                let store = &cluster.stores[0];
                store.copies_hang.set(true);
                let write = |at: usize, mib: usize| {
                    let data = pattern(at as u64, mib * MIB);
                    a.write(handle, (at * MIB) as u64, data, false)
                };
                write(0, 2).await.unwrap();
                owes(&cluster, &a, 2 * MIB as u64).await;
                // Until it is as old as it may be.
                cluster.env.sleep(WHILE).await;
                write(2, 16).await.unwrap();
                cluster.env.sleep(WHILE).await;
                let owed = a.figures().owed_bytes;
                // What was under way when the bound was met is finished.
                assert!(owed >= 2 * MIB as u64 && owed <= 4 * MIB as u64, "{owed}");
                store.copies_hang.set(false);
                a.fsync(handle, false).await.unwrap();
            });
        }
    }
}

#[test]
fn a_second_copy_that_fails_is_told_by_the_next_sync() {
    with_stand_ins(1, async |cluster| {
        let a = client(&cluster, Protocol::ServerAsync, cluster.settings()).await;
        let handle = create(&a).await;
        cluster.stores[0].copy_errno.set(libc::ENOSPC);
        a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
        assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::ENOSPC)));
        cluster.stores[0].copy_errno.set(0);
        a.write(handle, 0, pattern(2, 5000), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
    });
}

#[test]
fn what_one_member_alone_had_is_sent_again_when_it_dies() {
    // The leader, before it has made the second copies; the one that has not answered.
    for (protocol, dies) in [(Protocol::ServerAsync, 0), (Protocol::ClientAsync, 1)] {
        with_stand_ins(1, async |cluster| {
            let a = client(&cluster, protocol, cluster.settings()).await;
            let handle = create_announced(&a).await;
            let store = &cluster.stores[0];
            store.copies_hang.set(true);
            // All of it in stripe 0, which member 0 leads.
            let data = pattern(1, MIB / 2);
            a.write(handle, 0, data.clone(), false).await.unwrap();
            owes(&cluster, &a, MIB as u64 / 2).await;
            // Nobody has it, and the stand-ins share a store.
            store.objects.borrow_mut().clear();
            cluster.kill_member(0, dies);
            store.copies_hang.set(false);
            a.fsync(handle, false).await.unwrap();
            assert!(read(&a, handle, MIB / 2).await == data, "{protocol:?}");
        });
    }
}

#[test]
fn a_client_that_falls_idle_says_that_both_have_what_it_wrote() {
    for protocol in [Protocol::ClientSync, Protocol::ClientAsync] {
        with_stand_ins(1, async |cluster| {
            let a = client(&cluster, protocol, cluster.settings()).await;
            let handle = create(&a).await;
            let store = &cluster.stores[0];
            store.copies_hang.set(true);
            a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
            let sync = a.fsync(handle, false);
            assert!(cluster.env.timeout(WHILE, sync).await.is_err());
            let below = |member: usize| store.confirmed[member].get();
            while store.numbered.get() == 0 {
                cluster.env.sleep(Duration::from_millis(5)).await;
            }
            let numbered = store.numbered.get();
            assert!(below(0) <= numbered, "{protocol:?}");
            store.copies_hang.set(false);
            for member in [0, 1] {
                while below(member) <= numbered {
                    cluster.env.sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
}

#[test]
fn a_client_says_it_again_if_its_word_was_lost() {
    for protocol in [Protocol::ClientSync, Protocol::ClientAsync] {
        with_stand_ins(1, async |cluster| {
            let a = client(&cluster, protocol, cluster.settings()).await;
            let handle = create(&a).await;
            let store = &cluster.stores[0];
            store.loses_words.set(true);
            a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
            a.fsync(handle, false).await.unwrap();
            let numbered = store.numbered.get();
            cluster.env.sleep(Duration::from_millis(500)).await;
            store.loses_words.set(false);
            for member in [0, 1] {
                while store.confirmed[member].get() <= numbered {
                    cluster.env.sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
}

#[test]
fn a_client_says_it_though_an_older_write_went_on_elsewhere() {
    // Of two that are written at once, one has the older number.
    for slow in [0, 1] {
        with_stand_ins(2, async |cluster| {
            let a = client(&cluster, Protocol::ClientSync, cluster.settings()).await;
            let policy = Policy {
                width: 2,
                ..a.policy(a.root()).await.unwrap()
            };
            a.set_policy(&root(), a.root(), policy).await.unwrap();
            let handle = create(&a).await;
            let stores = &cluster.stores;
            let unit = policy.stripe_unit as usize;
            stores[slow].copies_hang.set(true);
            let written = async {
                a.write(handle, 0, pattern(1, 2 * unit), false)
                    .await
                    .unwrap();
                a.flush(handle, None).await.unwrap();
            };
            let goes_on = async {
                // Longer than it takes to say of the other pair's what there is to say.
                cluster.env.sleep(Duration::from_millis(500)).await;
                stores[slow].copies_hang.set(false);
            };
            futures_util::future::join(written, goes_on).await;
            for store in stores {
                assert!(store.numbered.get() > 0, "nothing was written there");
                for member in [0, 1] {
                    while store.confirmed[member].get() <= store.numbered.get() {
                        cluster.env.sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        });
    }
}

#[test]
fn members_are_told_of_a_write_that_was_given_up() {
    with_stand_ins(1, async |cluster| {
        let settings = Settings {
            patience_ms: 1_000,
            ..cluster.settings()
        };
        let a = client(&cluster, Protocol::ClientSync, settings).await;
        let handle = create(&a).await;
        let store = &cluster.stores[0];
        // One member has it, and the other one does not answer.
        store.copies_hang.set(true);
        a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
        assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::EIO)));
        let numbered = store.numbered.get();
        for member in [0, 1] {
            while store.confirmed[member].get() <= numbered {
                cluster.env.sleep(Duration::from_millis(5)).await;
            }
            assert!(store.given_up[member].borrow().contains(&numbered));
        }
        store.copies_hang.set(false);
    });
}
