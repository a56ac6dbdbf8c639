//! Clients against a metadata server and pairs, in one process over loopback.

use crate::support::*;
use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;

fn made(open: OpenFlags) -> CreateFlags {
    CreateFlags {
        exclusive: false,
        open,
    }
}

async fn create(client: &Client, name: &str) -> (u64, HandleId) {
    let (known, handle) = client
        .create(&root(), client.root(), name.as_bytes(), 0o644, made(RW))
        .await
        .unwrap();
    (known.attr.ino, handle)
}

async fn lookup(client: &Client, name: &str) -> Option<Attr> {
    let found = client.lookup(&root(), client.root(), name.as_bytes()).await;
    found.unwrap().entry.map(|known| known.attr)
}

async fn read(client: &Client, handle: HandleId, offset: u64, length: usize) -> Vec<u8> {
    client.read(handle, offset, length).await.unwrap().concat()
}

async fn close(client: &Client, handle: HandleId) {
    client.flush(handle, None).await.unwrap();
    client.release(handle, None).await.unwrap();
}

async fn open(client: &Client, name: &str, flags: OpenFlags) -> HandleId {
    let ino = lookup(client, name).await.unwrap().ino;
    client.open(&root(), ino, flags).await.unwrap()
}

#[test]
fn what_is_written_is_read_back_large_and_small() {
    with_cluster(2, async |cluster| {
        let a = cluster.client().await;
        let (_, small) = create(&a, "small").await;
        a.write(small, 0, Bytes::from_static(b"hello"), false)
            .await
            .unwrap();
        assert_eq!(read(&a, small, 0, 100).await, b"hello", "from the buffer");
        close(&a, small).await;
        let (_, large) = create(&a, "large").await;
        let data = pattern(1, 9_000_001);
        for (i, step) in data.chunks(700_003).enumerate() {
            let step = data.slice_ref(step);
            let written = a.write(large, i as u64 * 700_003, step, false).await;
            assert!(written.unwrap() > 0);
        }
        assert_eq!(
            read(&a, large, 0, 10 << 20).await,
            data,
            "while it is flushed"
        );
        a.fsync(large, false).await.unwrap();
        assert_eq!(
            read(&a, large, 4_000_000, 123_456).await,
            data[4_000_000..4_123_456]
        );
        close(&a, large).await;
        // Another client, with nothing but what the servers hold.
        let b = cluster.client().await;
        let handle = open(&b, "large", RO).await;
        assert_eq!(lookup(&b, "large").await.unwrap().size, data.len() as u64);
        let mut at = 0;
        while at < data.len() {
            let got = read(&b, handle, at as u64, 131_072).await;
            assert_eq!(got, data[at..(at + 131_072).min(data.len())], "at {at}");
            at += 131_072;
        }
        assert!(read(&b, handle, data.len() as u64, 10).await.is_empty());
        let handle = open(&b, "small", RO).await;
        assert_eq!(read(&b, handle, 1, 100).await, b"ello");
        assert!(
            b.write(handle, 0, Bytes::from_static(b"x"), false)
                .await
                .is_err()
        );
        if cluster.kind == Kind::StandIns {
            assert!(cluster.stores.iter().all(|s| s.writes.get() > 0), "striped");
        }
        a.close().await.unwrap();
        b.close().await.unwrap();
    });
}

#[test]
fn two_clients_see_each_others_writes() {
    with_cluster(2, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (_, ha) = create(&a, "f").await;
        a.write(ha, 0, pattern(1, 100_000), false).await.unwrap();
        // Not closed, not synced: returned is enough.
        assert_eq!(lookup(&b, "f").await.unwrap().size, 100_000);
        let hb = open(&b, "f", RW).await;
        assert_eq!(read(&b, hb, 0, 200_000).await, pattern(1, 100_000));
        b.write(hb, 50_000, Bytes::from_static(b"from b"), false)
            .await
            .unwrap();
        assert_eq!(read(&a, ha, 50_000, 6).await, b"from b");
        a.write(ha, 50_000, Bytes::from_static(b"from a"), false)
            .await
            .unwrap();
        assert_eq!(read(&b, hb, 50_000, 6).await, b"from a");
        // Names: absent ones are cached, and revoked.
        assert!(lookup(&b, "g").await.is_none());
        assert!(lookup(&b, "g").await.is_none());
        let (_, hg) = create(&a, "g").await;
        assert!(lookup(&b, "g").await.is_some());
        close(&a, hg).await;
        b.unlink(&root(), b.root(), b"g").await.unwrap();
        assert!(lookup(&a, "g").await.is_none());
        // Attributes.
        let mode = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        let ino = lookup(&a, "f").await.unwrap().ino;
        b.setattr(&root(), ino, mode, None).await.unwrap();
        assert_eq!(a.getattr(ino).await.unwrap().attr.mode, 0o600);
    });
}

#[test]
fn appends_of_eight_clients_lose_nothing() {
    const CLIENTS: usize = 8;
    const LINES: usize = 50;
    with_cluster(2, async |cluster| {
        let first = cluster.client().await;
        let (_, handle) = create(&first, "log").await;
        close(&first, handle).await;
        let append = OpenFlags {
            append: true,
            read: false,
            ..RW
        };
        let writer = async |i: usize| {
            let client = cluster.client().await;
            let handle = open(&client, "log", append).await;
            for n in 0..LINES {
                let line = Bytes::from(format!("{i} {n:04} {}\n", "x".repeat(n * i)));
                client.write(handle, 0, line, false).await.unwrap();
            }
            close(&client, handle).await;
        };
        join_all((0..CLIENTS).map(writer)).await;
        let handle = open(&first, "log", RO).await;
        let text = String::from_utf8(read(&first, handle, 0, 1 << 20).await).unwrap();
        assert_eq!(text.lines().count(), CLIENTS * LINES);
        for i in 0..CLIENTS {
            let of_this = |line: &&str| line.starts_with(&format!("{i} "));
            let own: Vec<&str> = text.lines().filter(of_this).collect();
            let line = |n: usize| format!("{i} {n:04} {}", "x".repeat(n * i));
            let expected: Vec<String> = (0..LINES).map(line).collect();
            assert_eq!(own, expected, "of client {i}");
        }
    });
}

#[test]
fn a_killed_data_server_is_a_pause() {
    with_cluster(2, async |cluster| {
        let a = cluster.client().await;
        let (_, handle) = create(&a, "f").await;
        for store in &cluster.stores {
            store.write_delay.set(Duration::from_millis(2));
        }
        let data = pattern(5, 24 << 20);
        let writing = async {
            for (i, step) in data.chunks(1 << 20).enumerate() {
                a.write(handle, (i as u64) << 20, data.slice_ref(step), false)
                    .await
                    .unwrap();
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
        assert!(!cluster.stores.iter().any(|s| s.overlapped.get()));
        assert_eq!(read(&a, handle, 0, 24 << 20).await, data);
        // Back again at other addresses.
        cluster.start_member(0, 1).await;
        cluster.start_member(1, 0).await;
        cluster.serving(2).await;
        cluster.kill_member(0, 0);
        cluster.kill_member(1, 1);
        assert_eq!(
            read(&a, handle, 1000, 1 << 20).await,
            data[1000..1000 + (1 << 20)]
        );
        close(&a, handle).await;
    });
}

#[test]
fn members_that_serve_again_under_the_same_state_are_found_before_the_service_says_so() {
    with_stand_ins(1, async |cluster| {
        let a = cluster.client().await;
        let (_, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        cluster.stores[0].rightless.set(true);
        let begun = cluster.env.now();
        let writing = async {
            a.write(handle, 0, pattern(2, 5000), false).await.unwrap();
            a.fsync(handle, false).await.unwrap();
            assert_eq!(read(&a, handle, 0, 5000).await, pattern(2, 5000));
        };
        let serving = async {
            cluster.env.sleep(Duration::from_millis(100)).await;
            cluster.stores[0].rightless.set(false);
        };
        futures_util::future::join(writing, serving).await;
        // The service answers a suspicion after a second if the state stays as it is.
        let took = cluster.env.now().since(begun);
        assert!(took < Duration::from_millis(700), "{took:?}");
        close(&a, handle).await;
    });
}

#[test]
fn both_members_gone_is_eio_after_the_patience() {
    with_cluster(1, async |cluster| {
        let settings = Settings {
            patience_ms: 1500,
            ..cluster.settings()
        };
        let a = Client::connect(cluster.env.clone(), settings)
            .await
            .unwrap();
        let (_, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        cluster.kill_member(0, 0);
        cluster.kill_member(0, 1);
        let begun = cluster.env.now();
        a.write(handle, 5000, pattern(1, 5000), false)
            .await
            .unwrap();
        assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::EIO)));
        assert_eq!(a.read(handle, 0, 10).await, Err(Errno(libc::EIO)));
        let took = cluster.env.now().since(begun);
        assert!(took < Duration::from_secs(6), "{took:?}");
        assert_eq!(a.flush(handle, None).await, Ok(()), "told once");
    });
}

#[test]
fn errors_of_writing_are_told_and_lose_nothing_older() {
    with_stand_ins(1, async |cluster| {
        let a = cluster.client().await;
        let (_, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 8192), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        cluster.stores[0].write_errno.set(libc::ENOSPC);
        a.write(handle, 4096, pattern(2, 8192), false)
            .await
            .unwrap();
        assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::ENOSPC)));
        assert_eq!(read(&a, handle, 0, 8192).await, pattern(1, 8192));
        a.write(handle, 4096, pattern(2, 4096), false)
            .await
            .unwrap();
        // A close may be that of another process that shares the handle: it takes the error from nobody.
        for _ in 0..2 {
            assert_eq!(a.flush(handle, None).await, Err(Errno(libc::ENOSPC)));
        }
        cluster.stores[0].write_errno.set(0);
        let write = async || a.write(handle, 4096, pattern(2, 4096), false).await;
        assert_eq!(write().await.map(drop), Err(Errno(libc::ENOSPC)));
        write().await.unwrap();
        // Whoever had the write done in steps may have told its program how far they went, and nothing else.
        assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::ENOSPC)));
        write().await.unwrap();
        a.fsync(handle, false).await.unwrap();
        assert_eq!(read(&a, handle, 4096, 4096).await, pattern(2, 4096));
        close(&a, handle).await;
    });
}

#[test]
fn a_failure_that_nobody_heard_of_is_told_to_who_opens_the_file_next() {
    with_stand_ins(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (_, writer) = create(&a, "f").await;
        cluster.stores[0].write_errno.set(libc::ENOSPC);
        a.write(writer, 0, pattern(1, 8192), false).await.unwrap();
        // Somebody else wants to read it: what was written is sent, and refused.
        let other = open(&b, "f", RO).await;
        read(&b, other, 0, 8192).await;
        close(&b, other).await;
        cluster.stores[0].write_errno.set(0);
        let later = open(&a, "f", RW).await;
        let full = Err(Errno(libc::ENOSPC));
        assert_eq!(a.fsync(later, false).await, full);
        assert_eq!(a.fsync(later, false).await, Ok(()), "told once");
        assert_eq!(a.fsync(writer, false).await, full, "to each that was open");
        // It has been heard of: who comes now has nothing to do with it.
        let last = open(&a, "f", RW).await;
        a.fsync(last, false).await.unwrap();
        for handle in [writer, later, last] {
            close(&a, handle).await;
        }
    });
}

#[test]
fn what_one_member_refuses_of_two_copies_is_sent_again_to_a_leader() {
    with_stand_ins(1, async |cluster| {
        let a = cluster.client().await;
        let policy = Policy {
            protocol: weft_wire::proto::Protocol::ClientSync as i32,
            ..a.policy(a.root()).await.unwrap()
        };
        a.set_policy(&root(), a.root(), policy).await.unwrap();
        let store = &cluster.stores[0];
        for (member, name) in [(0, "zero"), (1, "one")] {
            store.refusing.set(Some((member, libc::ENOSPC)));
            store.led.set(0);
            let (_, handle) = create(&a, name).await;
            a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
            a.fsync(handle, false).await.unwrap();
            assert_eq!(store.led.get(), 1, "{name}");
            assert_eq!(read(&a, handle, 0, 5000).await, pattern(1, 5000));
            // The leader's refusal is the last word.
            store.write_errno.set(libc::ENOSPC);
            a.write(handle, 0, pattern(2, 5000), false).await.unwrap();
            assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::ENOSPC)));
            store.write_errno.set(0);
            store.refusing.set(None);
            a.write(handle, 0, pattern(3, 5000), false).await.unwrap();
            a.fsync(handle, false).await.unwrap();
            assert_eq!(store.led.get(), 1, "{name}");
            close(&a, handle).await;
        }
    });
}

#[test]
fn the_metadata_server_may_restart() {
    with_cluster(2, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 300_000), false)
            .await
            .unwrap();
        lookup(&b, "f").await.unwrap();
        a.write(handle, 300_000, pattern(2, 1000), false)
            .await
            .unwrap();
        let (_, owned) = create(&a, "owned").await;
        a.write(owned, 0, pattern(3, 70_000), false).await.unwrap();
        let work = async {
            for n in 0..200 {
                let (_, handle) = create(&a, &format!("n{n}")).await;
                a.write(handle, 0, pattern(n, 100), false).await.unwrap();
                close(&a, handle).await;
                cluster.env.sleep(Duration::from_millis(2)).await;
            }
        };
        let restart = async {
            cluster.env.sleep(Duration::from_millis(60)).await;
            cluster.restart_meta(Duration::from_millis(50)).await;
            cluster.env.sleep(Duration::from_millis(60)).await;
            cluster.restart_meta(Duration::ZERO).await;
        };
        futures_util::future::join(work, restart).await;
        for n in 0..200 {
            let attr = lookup(&b, &format!("n{n}")).await.unwrap();
            assert_eq!(attr.size, 100, "n{n}");
        }
        assert_eq!(b.getattr(ino).await.unwrap().attr.size, 301_000);
        assert_eq!(lookup(&b, "owned").await.unwrap().size, 70_000);
        a.write(handle, 301_000, pattern(2, 1000), false)
            .await
            .unwrap();
        close(&a, handle).await;
        let handle = open(&b, "owned", RO).await;
        assert_eq!(read(&b, handle, 0, 100_000).await, pattern(3, 70_000));
        // Every create was done once: 200 and two.
        assert_eq!(list(&b, b.root(), false).await.len(), 202 + 2);
    });
}

#[test]
fn a_read_during_which_the_lease_is_lost_is_of_one_moment() {
    with_stand_ins(2, async |cluster| {
        let a = cluster.client().await;
        let settings = Settings {
            readahead_bytes: 0,
            ..cluster.settings()
        };
        let b = Client::connect(cluster.env.clone(), settings).await;
        let b = b.unwrap();
        let length = 8 << 20;
        let (_, writer) = create(&a, "f").await;
        a.write(writer, 0, pattern(1, length), false).await.unwrap();
        a.fsync(writer, false).await.unwrap();
        let reader = open(&b, "f", RO).await;
        let [held, free] = &cluster.stores[..] else {
            unreachable!("two pairs");
        };
        held.holds_reads.set(true);
        let reads = free.reads.get();
        let others = async {
            while free.reads.get() == reads {
                cluster.env.sleep(Duration::from_millis(1)).await;
            }
            // The reader's connection breaks, and with it goes its lease: it may be written again.
            cluster.restart_meta(Duration::ZERO).await;
            let written = a.write(writer, 0, pattern(2, length), false).await;
            written.unwrap();
            a.fsync(writer, false).await.unwrap();
            held.holds_reads.set(false);
        };
        let (got, ()) = futures_util::future::join(read(&b, reader, 0, length), others).await;
        assert!(
            got == pattern(1, length) || got == pattern(2, length),
            "old and new mixed"
        );
    });
}

#[test]
fn nothing_is_read_twice_while_both_members_are_as_slow() {
    with_stand_ins(1, async |cluster| {
        let a = cluster.client().await;
        let length = 8 << 20;
        let (_, writer) = create(&a, "f").await;
        a.write(writer, 0, pattern(1, length), false).await.unwrap();
        a.fsync(writer, false).await.unwrap();
        let store = &cluster.stores[0];
        let mut asked = Vec::new();
        for is_slow in [false, true] {
            // One that knows nothing of the members yet.
            let reader = cluster.client().await;
            let handle = open(&reader, "f", RO).await;
            let before = store.reads.get();
            store.holds_reads.set(is_slow);
            let slowness = async {
                cluster.env.sleep(Duration::from_millis(500)).await;
                store.holds_reads.set(false);
            };
            let reading = read(&reader, handle, 0, length);
            let (got, ()) = futures_util::future::join(reading, slowness).await;
            assert!(got == pattern(1, length));
            asked.push(store.reads.get() - before);
        }
        assert!(asked[1] <= asked[0] + asked[0] / 4, "{asked:?}");
    });
}

#[test]
fn truncation_leaves_zeros() {
    with_cluster(2, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        let data = pattern(1, 5 << 20);
        a.write(handle, 0, data.clone(), false).await.unwrap();
        let size = |size| SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        a.setattr(&root(), ino, size(1_000_001), Some(handle))
            .await
            .unwrap();
        a.setattr(&root(), ino, size(3 << 20), Some(handle))
            .await
            .unwrap();
        let mut expected = data[..1_000_001].to_vec();
        expected.resize(3 << 20, 0);
        assert_eq!(read(&a, handle, 0, 8 << 20).await, expected);
        a.fsync(handle, false).await.unwrap();
        let other = open(&b, "f", RW).await;
        assert_eq!(read(&b, other, 0, 8 << 20).await, expected);
        // The other client cuts, this one extends by writing.
        b.setattr(&root(), ino, size(10), None).await.unwrap();
        a.write(handle, 5000, Bytes::from_static(b"end"), false)
            .await
            .unwrap();
        let mut expected = data[..10].to_vec();
        expected.resize(5000, 0);
        expected.extend_from_slice(b"end");
        assert_eq!(read(&b, other, 0, 10_000).await, expected);
        // O_TRUNC takes new objects.
        let cut = open(
            &a,
            "f",
            OpenFlags {
                truncate: true,
                ..RW
            },
        )
        .await;
        assert_eq!(a.getattr(ino).await.unwrap().attr.size, 0);
        a.write(cut, 100_000, Bytes::from_static(b"x"), false)
            .await
            .unwrap();
        let got = read(&b, other, 0, 200_000).await;
        assert_eq!(got.len(), 100_001);
        assert!(got[..100_000].iter().all(|b| *b == 0));
        // Create over it with O_TRUNC.
        let (_, again) = a
            .create(
                &root(),
                a.root(),
                b"f",
                0o644,
                made(OpenFlags {
                    truncate: true,
                    ..RW
                }),
            )
            .await
            .unwrap();
        assert!(read(&a, again, 0, 10).await.is_empty());
        assert_eq!(b.getattr(ino).await.unwrap().attr.size, 0);
    });
}

#[test]
fn holes_are_found_and_made() {
    with_cluster(2, async |cluster| {
        let a = cluster.client().await;
        let (ino, handle) = create(&a, "f").await;
        a.write(handle, 1 << 20, pattern(1, 8192), false)
            .await
            .unwrap();
        a.write(handle, 9 << 20, pattern(1, 4096), false)
            .await
            .unwrap();
        for flushed in [false, true] {
            if flushed {
                a.fsync(handle, false).await.unwrap();
            }
            let seek = async |at, whence| a.seek(handle, at, whence).await;
            assert_eq!(seek(0, Seek::Data).await, Ok(1 << 20));
            assert_eq!(seek(0, Seek::Hole).await, Ok(0));
            assert_eq!(seek((1 << 20) + 5, Seek::Hole).await, Ok((1 << 20) + 8192));
            assert_eq!(seek((1 << 20) + 8192, Seek::Data).await, Ok(9 << 20));
            assert_eq!(seek(9 << 20, Seek::Hole).await, Ok((9 << 20) + 4096));
            assert_eq!(
                seek((9 << 20) + 4096, Seek::Data).await,
                Err(Errno(libc::ENXIO))
            );
        }
        let allocated = a.getattr(ino).await.unwrap().attr.allocated;
        assert!((12288..=1 << 20).contains(&allocated), "{allocated}");
        a.fallocate(handle, Allocate::PunchHole, 1 << 20, 4096)
            .await
            .unwrap();
        let got = read(&a, handle, 1 << 20, 8192).await;
        assert!(got[..4096].iter().all(|b| *b == 0));
        assert_eq!(got[4096..], pattern(1, 8192)[4096..]);
        assert_eq!(a.seek(handle, 0, Seek::Data).await, Ok((1 << 20) + 4096));
        assert_eq!(a.getattr(ino).await.unwrap().attr.allocated, 8192);
        a.fallocate(handle, Allocate::Extend, 20 << 20, 100)
            .await
            .unwrap();
        assert_eq!(a.getattr(ino).await.unwrap().attr.size, (20 << 20) + 100);
        a.fallocate(handle, Allocate::KeepSize, 30 << 20, 100)
            .await
            .unwrap();
        assert_eq!(a.getattr(ino).await.unwrap().attr.size, (20 << 20) + 100);
        close(&a, handle).await;
    });
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    with_stand_ins(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        for by_other in [false, true] {
            let (ino, handle) = create(&a, "f").await;
            a.write(handle, 0, pattern(1, 100_000), false)
                .await
                .unwrap();
            let who = if by_other { &b } else { &a };
            who.unlink(&root(), who.root(), b"f").await.unwrap();
            assert!(lookup(&a, "f").await.is_none());
            assert_eq!(read(&a, handle, 0, 200_000).await, pattern(1, 100_000));
            assert_eq!(a.getattr(ino).await.unwrap().attr.nlink, 0);
            a.write(handle, 100_000, pattern(2, 10), false)
                .await
                .unwrap();
            a.fsync(handle, false).await.unwrap();
            assert_eq!(a.getattr(ino).await.unwrap().attr.size, 100_010);
            close(&a, handle).await;
            cluster.env.sleep(Duration::from_millis(50)).await;
            assert!(b.getattr(ino).await.is_err(), "released");
        }
        for _ in 0..500 {
            if cluster.objects() == 0 {
                break;
            }
            cluster.env.sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(cluster.objects(), 0, "objects are dropped");
    });
}

#[test]
fn renames_are_followed() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let dir = a
            .mkdir(&root(), a.root(), b"d", 0o755)
            .await
            .unwrap()
            .attr
            .ino;
        let (_, handle) = create(&a, "x").await;
        a.write(handle, 0, Bytes::from_static(b"x"), false)
            .await
            .unwrap();
        close(&a, handle).await;
        let (y, handle) = create(&a, "y").await;
        close(&a, handle).await;
        assert!(lookup(&b, "x").await.is_some());
        let none = RenameFlags::default();
        a.rename(&root(), a.root(), b"x", dir, b"z", none)
            .await
            .unwrap();
        assert!(lookup(&a, "x").await.is_none());
        assert!(lookup(&b, "x").await.is_none());
        assert!(b.lookup(&root(), dir, b"z").await.unwrap().entry.is_some());
        // Over an existing one, and with flags.
        let no_replace = RenameFlags {
            no_replace: true,
            ..none
        };
        let failed = b
            .rename(&root(), dir, b"z", b.root(), b"y", no_replace)
            .await;
        assert_eq!(failed, Err(Errno(libc::EEXIST)));
        let exchange = RenameFlags {
            exchange: true,
            ..none
        };
        b.rename(&root(), dir, b"z", b.root(), b"y", exchange)
            .await
            .unwrap();
        assert_eq!(
            a.lookup(&root(), dir, b"z")
                .await
                .unwrap()
                .entry
                .unwrap()
                .attr
                .ino,
            y
        );
        b.rename(&root(), dir, b"z", b.root(), b"y", none)
            .await
            .unwrap();
        assert_eq!(lookup(&a, "y").await.unwrap().ino, y);
        assert!(a.lookup(&root(), dir, b"z").await.unwrap().entry.is_none());
        a.rmdir(&root(), a.root(), b"d").await.unwrap();
        assert!(lookup(&b, "d").await.is_none());
        let target = a
            .symlink(&root(), a.root(), b"l", b"some/where")
            .await
            .unwrap();
        assert_eq!(b.readlink(target.attr.ino).await.unwrap(), "some/where");
        a.link(&root(), y, a.root(), b"y2").await.unwrap();
        assert_eq!(b.getattr(y).await.unwrap().attr.nlink, 2);
        // Both are names of one file: both stay.
        for flags in [none, exchange] {
            a.rename(&root(), a.root(), b"y", a.root(), b"y2", flags)
                .await
                .unwrap();
            for client in [&a, &b] {
                assert_eq!(lookup(client, "y").await.map(|attr| attr.ino), Some(y));
                assert_eq!(lookup(client, "y2").await.map(|attr| attr.ino), Some(y));
            }
        }
    });
}

async fn list(client: &Client, dir: u64, plus: bool) -> Vec<DirEntry> {
    let handle = client.opendir(&root(), dir).await.unwrap();
    let mut all: Vec<DirEntry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |e| e.cookie);
        let page = client.readdir(handle, after, 300, plus).await.unwrap();
        if page.is_empty() {
            break;
        }
        // As a kernel whose buffer holds fewer.
        let kept = page.len().min(250);
        all.extend(page.into_iter().take(kept));
    }
    client.releasedir(handle);
    all
}

#[test]
fn large_directories_are_listed_whole() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let dir = a
            .mkdir(&root(), a.root(), b"d", 0o755)
            .await
            .unwrap()
            .attr
            .ino;
        let makes = (0..5000).map(|n| {
            let a = a.clone();
            async move {
                let name = format!("entry-{n}");
                let flags = made(RW);
                let (_, h) = a
                    .create(&root(), dir, name.as_bytes(), 0o644, flags)
                    .await
                    .unwrap();
                a.release(h, None).await.unwrap();
            }
        });
        join_all(makes).await;
        for (client, plus) in [(&a, true), (&b, false), (&b, true)] {
            let mut names: Vec<String> = list(client, dir, plus)
                .await
                .into_iter()
                .map(|e| String::from_utf8(e.name.to_vec()).unwrap())
                .collect();
            names.sort();
            let mut expected: Vec<String> = (0..5000).map(|n| format!("entry-{n}")).collect();
            expected.extend([".".into(), "..".into()]);
            expected.sort();
            assert_eq!(names, expected);
        }
        // Listed from end to end: absence needs no message.
        let found = b.lookup(&root(), dir, b"nothing").await.unwrap();
        assert!(found.entry.is_none() && found.name_leased);
        // And is not believed any longer than the lease.
        let (_, handle) = a
            .create(&root(), dir, b"nothing", 0o644, made(RW))
            .await
            .unwrap();
        assert!(
            b.lookup(&root(), dir, b"nothing")
                .await
                .unwrap()
                .entry
                .is_some()
        );
        close(&a, handle).await;
        let parent = list(&b, dir, false).await[1].ino;
        assert_eq!(parent, b.root());
    });
}

#[test]
fn locks_are_waited_for_across_clients() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        close(&a, handle).await;
        let lock = |kind, owner| FileLock {
            kind,
            flock: false,
            owner,
            start: 0,
            last: 99,
            pid: 7,
            ..FileLock::default()
        };
        let (unlock, shared, exclusive) = (0, 1, 2);
        a.setlk(&root(), ino, lock(exclusive, 1), false)
            .await
            .unwrap();
        let busy = b.setlk(&root(), ino, lock(shared, 1), false).await;
        assert_eq!(busy, Err(Errno(libc::EAGAIN)));
        let conflict = b.getlk(ino, lock(shared, 1)).await.unwrap().unwrap();
        assert_eq!((conflict.kind, conflict.last), (exclusive, 99));
        let got = Rc::new(Cell::new(false));
        let waiting = async {
            b.setlk(&root(), ino, lock(shared, 1), true).await.unwrap();
            got.set(true);
        };
        let freeing = async {
            cluster.env.sleep(Duration::from_millis(50)).await;
            assert!(!got.get());
            a.setlk(&root(), ino, lock(unlock, 1), false).await.unwrap();
        };
        let begun = cluster.env.now();
        futures_util::future::join(waiting, freeing).await;
        let took = cluster.env.now().since(begun);
        assert!(
            took < Duration::from_millis(400),
            "woken, not by the clock: {took:?}"
        );
        // Given up while waiting: nothing stays.
        let cred = root();
        let waiting = a.setlk(&cred, ino, lock(exclusive, 2), true);
        assert!(
            cluster
                .env
                .timeout(Duration::from_millis(50), waiting)
                .await
                .is_err()
        );
        b.setlk(&root(), ino, lock(unlock, 1), false).await.unwrap();
        cluster.env.sleep(Duration::from_millis(50)).await;
        assert!(b.getlk(ino, lock(exclusive, 9)).await.unwrap().is_none());
        // close drops a process's locks.
        let handle = open(&a, "f", RW).await;
        a.setlk(&root(), ino, lock(exclusive, 3), false)
            .await
            .unwrap();
        a.flush(handle, Some(3)).await.unwrap();
        assert!(b.getlk(ino, lock(exclusive, 9)).await.unwrap().is_none());
    });
}

#[test]
fn locks_that_wait_in_a_circle_are_refused_unless_one_gives_up() {
    with_stand_ins(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        close(&a, handle).await;
        let lock = |start, flock| FileLock {
            kind: 2,
            flock,
            owner: 1,
            start,
            last: start,
            pid: 7,
            ..FileLock::default()
        };
        let cred = root();
        let set = async |client: &Client, start, wait| {
            client.setlk(&cred, ino, lock(start, false), wait).await
        };
        set(&a, 1, false).await.unwrap();
        set(&b, 2, false).await.unwrap();
        let patience = Duration::from_millis(300);
        {
            let mut waits = pin!(set(&a, 2, true));
            let waiting = cluster.env.timeout(patience, waits.as_mut()).await;
            assert!(waiting.is_err());
            match select(waits.as_mut(), pin!(set(&b, 1, true))).await {
                Either::Left((first, _)) => panic!("it began earlier: {first:?}"),
                Either::Right((last, _)) => assert_eq!(last, Err(Errno(libc::EDEADLK))),
            }
            assert_eq!(set(&b, 1, false).await, Err(Errno(libc::EAGAIN)));
        }
        // Given up: no circle, and what it held it holds.
        cluster.env.sleep(Duration::from_millis(100)).await;
        let waiting = cluster.env.timeout(patience, set(&b, 1, true)).await;
        assert!(waiting.is_err(), "{waiting:?}");
        let held = b.getlk(ino, lock(1, false)).await.unwrap();
        assert!(held.is_some());
        // What nobody waits for can be had.
        let unlock = FileLock {
            kind: 0,
            ..lock(2, false)
        };
        b.setlk(&cred, ino, unlock, false).await.unwrap();
        set(&a, 2, true).await.unwrap();
    });
}

/// A kernel that remembers what it was told to forget.
#[derive(Default)]
struct Kernel {
    inodes: RefCell<Vec<u64>>,
    dirs: RefCell<Vec<u64>>,
}

impl Invalidator for Kernel {
    fn inode(&self, ino: u64, _data: bool) -> futures_util::future::LocalBoxFuture<'static, bool> {
        self.inodes.borrow_mut().push(ino);
        Box::pin(async { true })
    }

    fn names(&self, dir: u64) -> futures_util::future::LocalBoxFuture<'static, ()> {
        self.dirs.borrow_mut().push(dir);
        Box::pin(async {})
    }
}

#[test]
fn the_face_forgets_before_others_change() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let kernel = Rc::new(Kernel::default());
        a.set_invalidator(kernel.clone());
        let (_, handle) = create(&b, "f").await;
        b.write(handle, 0, pattern(1, 10), false).await.unwrap();
        b.fsync(handle, false).await.unwrap();
        close(&b, handle).await;
        let found = a.lookup(&root(), a.root(), b"f").await.unwrap();
        assert!(found.name_leased && found.entry.as_ref().unwrap().leased);
        let ino = found.entry.unwrap().attr.ino;
        let handle = open(&b, "f", RW).await;
        b.write(handle, 0, pattern(2, 20), false).await.unwrap();
        assert!(kernel.inodes.borrow().contains(&ino));
        assert!(!kernel.dirs.borrow().contains(&a.root()));
        b.unlink(&root(), b.root(), b"f").await.unwrap();
        assert!(kernel.dirs.borrow().contains(&a.root()));
        // A reconnection gives READ leases back, too.
        let (_, handle) = create(&b, "g").await;
        close(&b, handle).await;
        let ino = lookup(&a, "g").await.unwrap().ino;
        kernel.inodes.borrow_mut().clear();
        cluster.restart_meta(Duration::ZERO).await;
        for _ in 0..100 {
            cluster.env.sleep(Duration::from_millis(5)).await;
            if kernel.inodes.borrow().contains(&ino) {
                return;
            }
        }
        panic!("what was leased is not forgotten");
    });
}

/// A kernel that takes its time to forget.
struct SlowKernel {
    env: weft_env::Env,
    asked: Cell<bool>,
    holds: Rc<Cell<bool>>,
}

impl Invalidator for SlowKernel {
    fn inode(&self, _ino: u64, _data: bool) -> futures_util::future::LocalBoxFuture<'static, bool> {
        self.asked.set(true);
        let (env, holds) = (self.env.clone(), self.holds.clone());
        Box::pin(async move {
            while holds.get() {
                env.sleep(Duration::from_millis(1)).await;
            }
            true
        })
    }

    fn names(&self, _dir: u64) -> futures_util::future::LocalBoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

#[test]
fn what_is_written_after_a_cut_stays_though_the_lease_was_asked_back_before_it() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        let data = pattern(1, 300_000);
        a.write(handle, 0, data.clone(), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        a.write(handle, 0, data.slice(..10), false).await.unwrap();
        let kernel = Rc::new(SlowKernel {
            env: cluster.env.clone(),
            asked: Cell::new(false),
            holds: Rc::new(Cell::new(true)),
        });
        a.set_invalidator(kernel.clone());
        let tail = pattern(2, 1000);
        // The cut is answered without a lease, since the other client waits for it; what comes
        // before the kernel has forgotten is served all the same.
        let cuts = async {
            while !kernel.asked.get() {
                cluster.env.sleep(Duration::from_millis(1)).await;
            }
            let cut = SetAttr {
                size: Some(100_000),
                ..SetAttr::default()
            };
            let done = a.setattr(&root(), ino, cut, Some(handle)).await;
            done.unwrap();
            a.write(handle, 200_000, tail.clone(), false).await.unwrap();
            kernel.holds.set(false);
        };
        let writes = async {
            let other = open(&b, "f", RW).await;
            b.write(other, 0, data.slice(..10), false).await.unwrap();
            other
        };
        let (other, ()) = futures_util::future::join(writes, cuts).await;
        let mut expected = data[..100_000].to_vec();
        expected.resize(200_000, 0);
        expected.extend_from_slice(&tail);
        assert!(read(&b, other, 0, 300_000).await == expected);
    });
}

#[test]
fn nothing_is_believed_after_the_term_and_nothing_lost_if_the_session_lives() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (_, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 100), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        a.write(handle, 0, pattern(2, 200), false).await.unwrap();
        // Nobody answers for longer than the term.
        let server = cluster.meta.borrow_mut().take().unwrap();
        server.stop().await;
        cluster.env.sleep(Duration::from_millis(1800)).await;
        let pause = a.getattr(1);
        let waits = cluster.env.timeout(Duration::from_millis(50), pause).await;
        assert!(waits.is_err(), "nothing is believed after the term");
        cluster.start_meta(&cluster.dir).await;
        // The sessions lived on: nobody could have ended them meanwhile.
        a.fsync(handle, false).await.unwrap();
        assert_eq!(lookup(&b, "f").await.unwrap().size, 200);
    });
}

/// Copies a directory and all below.
#[allow(
    clippy::disallowed_methods,
    reason = "what somebody does to a server's directory"
)]
fn copy(from: &Path, to: &Path) {
    let items: Vec<_> = std::fs::read_dir(from).unwrap().collect();
    std::fs::create_dir(to).unwrap();
    for item in items {
        let item = item.unwrap();
        match item.file_type().unwrap().is_dir() {
            true => copy(&item.path(), &to.join(item.file_name())),
            false => drop(std::fs::copy(item.path(), to.join(item.file_name())).unwrap()),
        }
    }
}

#[test]
fn a_session_that_ended_fails_what_it_owed_and_goes_on() {
    with_stand_ins(1, async |cluster| {
        let before = cluster.dir.join("before");
        copy(&cluster.dir, &before);
        let a = cluster.client().await;
        let (_, handle) = create(&a, "f").await;
        let (_, clean) = create(&a, "clean").await;
        a.fsync(clean, false).await.unwrap();
        a.write(handle, 0, pattern(2, 200), false).await.unwrap();
        // A service that knows nothing of the session.
        let server = cluster.meta.borrow_mut().take().unwrap();
        server.stop().await;
        cluster.start_meta(&before).await;
        cluster.serving(1).await;
        // Until its term is over, or it has connected again, the client believes its leases.
        while lookup(&a, "f").await.is_some() {
            cluster.env.sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(a.fsync(handle, false).await, Err(Errno(libc::EIO)));
        assert_eq!(a.flush(clean, None).await, Ok(()), "nothing was owed");
        let (_, handle) = create(&a, "g").await;
        a.write(handle, 0, pattern(1, 10), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        close(&a, handle).await;
    });
}

#[test]
fn durable_files_are_synced_at_both_members() {
    with_stand_ins(2, async |cluster| {
        let a = cluster.client().await;
        let dir = a
            .mkdir(&root(), a.root(), b"d", 0o755)
            .await
            .unwrap()
            .attr
            .ino;
        let policy = Policy {
            durability: 2,
            protocol: 4,
            width: 1,
            stripe_unit: 1 << 20,
        };
        a.set_policy(&root(), dir, policy).await.unwrap();
        assert_eq!(a.policy(dir).await.unwrap().width, 1);
        let (known, handle) = a.create(&root(), dir, b"f", 0o644, made(RW)).await.unwrap();
        a.write(handle, 0, pattern(1, 3 << 20), false)
            .await
            .unwrap();
        a.flush(handle, None).await.unwrap();
        let syncs = || cluster.stores.iter().map(|s| s.syncs.get()).sum::<usize>();
        let writes = || cluster.stores.iter().map(|s| s.writes.get()).sum::<usize>();
        assert_eq!(syncs(), 0);
        assert!(writes() >= 2 * 12, "client-sync writes to both");
        a.fsync(handle, false).await.unwrap();
        assert_eq!(syncs(), 2);
        a.fsync(handle, false).await.unwrap();
        assert_eq!(syncs(), 2, "nothing new");
        assert_eq!(
            read(&a, handle, 1 << 20, 100).await,
            pattern(1, 3 << 20)[1 << 20..][..100]
        );
        let explained = a.explain(b"/d/f").await.unwrap();
        assert_eq!(explained.inode.unwrap().attr.unwrap().ino, known.attr.ino);
        assert!(a.status().await.unwrap().inodes >= 2);
        // O_SYNC writes are durable one by one.
        let sync = OpenFlags { sync: true, ..RW };
        let handle = a.open(&root(), known.attr.ino, sync).await.unwrap();
        a.write(handle, 5, pattern(1, 5), false).await.unwrap();
        assert_eq!(syncs(), 4);
    });
}

#[test]
fn a_writer_beside_busy_readers_gets_on() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        close(&a, handle).await;
        let handle = open(&a, "f", RW).await;
        let other = open(&b, "f", RW).await;
        let is_over = Cell::new(false);
        let watching = async {
            let mut sizes = Vec::new();
            while !is_over.get() {
                sizes.push(b.getattr(ino).await.unwrap().attr.size);
                // Not without end in one turn of the loop: what is leased is answered at once.
                cluster.env.sleep(Duration::from_micros(50)).await;
            }
            sizes
        };
        let writing = async {
            for n in 0..50u64 {
                let client = if n % 2 == 0 {
                    (&a, handle)
                } else {
                    (&b, other)
                };
                let data = pattern(n, 1000);
                client
                    .0
                    .write(client.1, n * 1000, data, false)
                    .await
                    .unwrap();
            }
            is_over.set(true);
        };
        let begun = cluster.env.now();
        let (sizes, ()) = futures_util::future::join(watching, writing).await;
        assert!(sizes.is_sorted(), "sizes go forward only");
        assert!(cluster.env.now().since(begun) < Duration::from_secs(20));
        for n in 0..50u64 {
            assert_eq!(read(&a, handle, n * 1000, 1000).await, pattern(n, 1000));
        }
    });
}

#[test]
fn inodes_beyond_the_bound_are_given_back() {
    with_cluster(1, async |cluster| {
        let settings = Settings {
            cached_inodes: 50,
            ..cluster.settings()
        };
        let a = Client::connect(cluster.env.clone(), settings)
            .await
            .unwrap();
        for n in 0..300 {
            let (_, handle) = create(&a, &format!("f{n}")).await;
            a.write(handle, 0, pattern(n, 500), false).await.unwrap();
            close(&a, handle).await;
        }
        // Through the bound again: what was given back is right, and is asked for again.
        for n in 0..300 {
            assert_eq!(lookup(&a, &format!("f{n}")).await.unwrap().size, 500);
            let handle = open(&a, &format!("f{n}"), RW).await;
            a.write(handle, 500, pattern(n, 10), false).await.unwrap();
            close(&a, handle).await;
        }
        let b = cluster.client().await;
        for n in 0..300 {
            let handle = open(&b, &format!("f{n}"), RO).await;
            let mut expected = pattern(n, 500).to_vec();
            expected.extend_from_slice(&pattern(n, 10));
            assert_eq!(read(&b, handle, 0, 1000).await, expected);
            close(&b, handle).await;
        }
        for _ in 0..200 {
            let writers = a.explain(b"/f0").await.unwrap().writer;
            if writers == 0 {
                return;
            }
            cluster.env.sleep(Duration::from_millis(10)).await;
        }
        panic!("a lease long unused is never given back");
    });
}

#[test]
fn extended_attributes_are_kept_under_the_lease() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        close(&a, handle).await;
        let (cred, value) = (root(), Bytes::from_static(b"v"));
        let none = Err(Errno(libc::ENODATA));
        assert_eq!(a.getxattr(&cred, ino, b"user.k").await, none);
        assert_eq!(b.getxattr(&cred, ino, b"user.k").await, none);
        b.setxattr(&cred, ino, b"user.k", value.clone(), XattrFlags::Any)
            .await
            .unwrap();
        assert_eq!(a.getxattr(&cred, ino, b"user.k").await, Ok(value.clone()));
        let twice = a
            .setxattr(&cred, ino, b"user.k", value, XattrFlags::Create)
            .await;
        assert_eq!(twice, Err(Errno(libc::EEXIST)));
        assert_eq!(b.listxattr(&cred, ino).await.unwrap(), ["user.k"]);
        a.removexattr(&cred, ino, b"user.k").await.unwrap();
        assert_eq!(b.getxattr(&cred, ino, b"user.k").await, none);
    });
}

#[test]
fn times_and_owners_go_where_they_belong() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 10), false).await.unwrap();
        let then = Time {
            seconds: 1_000_000,
            nanos: 5,
        };
        let times = SetAttr {
            mtime: Some(SetTime::At(then)),
            ..SetAttr::default()
        };
        a.setattr(&root(), ino, times, None).await.unwrap();
        let owner = SetAttr {
            uid: Some(7),
            gid: Some(8),
            ..SetAttr::default()
        };
        a.setattr(&root(), ino, owner, None).await.unwrap();
        close(&a, handle).await;
        let attr = b.getattr(ino).await.unwrap().attr;
        assert_eq!((attr.mtime, attr.size), (Some(then), 10));
        assert_eq!((attr.uid, attr.gid), (7, 8));
        let other = Cred {
            uid: 9,
            gid: 9,
            groups: vec![],
        };
        let denied = b.open(&other, ino, RW).await;
        assert_eq!(denied, Err(Errno(libc::EACCES)));
        assert!(b.open(&other, ino, RO).await.is_ok());
        let space = b.statfs().await.unwrap();
        assert!(space.inodes >= 2);
        let handle = open(&b, "f", RW).await;
        let to = a
            .create(&root(), a.root(), b"copy", 0o600, made(RW))
            .await
            .unwrap()
            .1;
        let from = open(&a, "f", RO).await;
        assert_eq!(a.copy_range(from, 2, to, 1, 100).await, Ok(8));
        assert_eq!(read(&a, to, 0, 100).await[1..], pattern(1, 10)[2..]);
        close(&b, handle).await;
    });
}

#[test]
fn many_small_random_writes_come_out_right() {
    with_cluster(2, async |cluster| {
        let settings = Settings {
            write_buffer_bytes: 2 << 20,
            write_window_bytes: 1 << 20,
            flush_age_ms: 20,
            ..cluster.settings()
        };
        let a = Client::connect(cluster.env.clone(), settings)
            .await
            .unwrap();
        let (_, handle) = create(&a, "f").await;
        cluster.stores[0]
            .write_delay
            .set(Duration::from_micros(300));
        let mut model = vec![0u8; 8 << 20];
        let mut x = 12345u64;
        for n in 0..6000u64 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let at = (x >> 33) % (model.len() as u64 - 9000);
            let length = 1 + (x >> 20) % 9000;
            let data = pattern(n, length as usize);
            model[at as usize..(at + length) as usize].copy_from_slice(&data);
            a.write(handle, at, data, false).await.unwrap();
            if n % 100 == 0 {
                let from = (x >> 40) % (4 << 20);
                let got = read(&a, handle, from, 100_000).await;
                let until = (from as usize + got.len()).min(model.len());
                assert!(
                    got == model[from as usize..until],
                    "read at {from} after {n}"
                );
            }
        }
        a.fsync(handle, false).await.unwrap();
        assert!(!cluster.stores.iter().any(|s| s.overlapped.get()));
        let b = cluster.client().await;
        let other = open(&b, "f", RO).await;
        let got = read(&b, other, 0, 8 << 20).await;
        assert!(got == model[..got.len()] && got.len() > 7 << 20);
        close(&a, handle).await;
    });
}

#[test]
fn a_client_of_another_cluster_is_refused() {
    with_cluster(1, async |cluster| {
        let settings = Settings {
            cluster_id: "other".into(),
            ..cluster.settings()
        };
        let refused = Client::connect(cluster.env.clone(), settings).await;
        assert!(matches!(refused, Err(ClientError::Refused(_))));
        let settings = Settings {
            meta: vec!["127.0.0.1:1".into()],
            patience_ms: 300,
            ..cluster.settings()
        };
        let nobody = Client::connect(cluster.env.clone(), settings).await;
        assert!(matches!(nobody, Err(ClientError::Unreachable(_))));
    });
}

#[test]
fn an_unlinked_file_stays_for_those_that_have_it_open_and_for_nobody_else() {
    with_stand_ins(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let (ino, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
        let theirs = open(&b, "f", RW).await;
        a.unlink(&root(), a.root(), b"f").await.unwrap();
        // As long as it has it open, it may open it again.
        let again = a.open(&root(), ino, RW).await.unwrap();
        close(&a, again).await;
        close(&a, handle).await;
        assert_eq!(a.open(&root(), ino, RW).await, Err(Errno(libc::ESTALE)));
        assert_eq!(read(&b, theirs, 0, 5000).await, pattern(1, 5000));
        close(&b, theirs).await;
    });
}

#[test]
fn nothing_is_written_before_it_is_known_that_what_was_cut_is_trimmed() {
    with_stand_ins(1, async |cluster| {
        let a = cluster.client().await;
        let (ino, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 50_000), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        let cut = SetAttr {
            size: Some(100),
            ..SetAttr::default()
        };
        a.setattr(&root(), ino, cut, Some(handle)).await.unwrap();
        // Neither the cut nor the write leaves the service anything to be told of the trimming.
        let known = || cluster.meta.borrow().as_ref().unwrap().digest();
        let later = Duration::from_millis(100);
        let cut = known();
        cluster.env.sleep(later).await;
        assert_eq!(known(), cut);
        let write = a.write(handle, 20_000, pattern(2, 5000), false);
        write.await.unwrap();
        let written = known();
        cluster.env.sleep(later).await;
        assert!(written.is_some() && known() == written, "told too late");
        a.fsync(handle, false).await.unwrap();
        assert_eq!(read(&a, handle, 20_000, 5000).await, pattern(2, 5000));
    });
}

/// A face whose clients have looked up an inode.
#[derive(Default)]
struct Knows {
    ino: Cell<u64>,
    departed: RefCell<Vec<(u64, bool)>>,
}

impl Invalidator for Knows {
    fn inode(&self, _ino: u64, _data: bool) -> futures_util::future::LocalBoxFuture<'static, bool> {
        Box::pin(async { true })
    }

    fn names(&self, _dir: u64) -> futures_util::future::LocalBoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn departs(&self, ino: u64, here: bool) {
        self.departed.borrow_mut().push((ino, here));
    }

    fn has(&self, ino: u64) -> bool {
        self.ino.get() == ino
    }
}

/// Longer than anything lingers.
const LINGERED: Duration = Duration::from_millis(2500);

async fn is_gone(client: &Client, ino: u64) -> bool {
    client.keep_nameless(ino).await == Err(Errno(libc::ESTALE))
}

#[test]
fn what_has_lost_its_name_is_kept_for_who_comes_with_its_number() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let face = Rc::new(Knows::default());
        b.set_invalidator(face.clone());
        let (ino, handle) = create(&a, "f").await;
        a.write(handle, 0, pattern(1, 5000), false).await.unwrap();
        close(&a, handle).await;
        assert_eq!(lookup(&b, "f").await.unwrap().ino, ino);
        face.ino.set(ino);
        a.unlink(&root(), a.root(), b"f").await.unwrap();
        assert_eq!(*face.departed.borrow(), [(ino, false)]);
        // It lingers, also for a new reign.
        cluster.restart_meta(Duration::ZERO).await;
        assert_eq!(b.getattr(ino).await.err(), Some(Errno(libc::ESTALE)));
        b.keep_nameless(ino).await.unwrap();
        cluster.env.sleep(LINGERED).await;
        cluster.restart_meta(Duration::ZERO).await;
        let handle = b.open(&root(), ino, RW).await.unwrap();
        assert_eq!(read(&b, handle, 0, 9000).await, pattern(1, 5000));
        assert_eq!(b.getattr(ino).await.unwrap().attr.nlink, 0);
        close(&b, handle).await;
        // It is not open any more, and the face has it still.
        cluster.env.sleep(LINGERED).await;
        assert_eq!(b.getattr(ino).await.unwrap().attr.size, 5000);
        assert_eq!(a.getattr(ino).await.err(), Some(Errno(libc::ESTALE)));
        face.ino.set(0);
        b.face_forgot(ino);
        cluster.env.sleep(LINGERED).await;
        assert!(is_gone(&a, ino).await && is_gone(&b, ino).await);
        if cluster.kind == Kind::StandIns {
            cluster.env.sleep(Duration::from_secs(1)).await;
            assert_eq!(cluster.objects(), 0, "room is free again");
        }
    });
}

#[test]
fn who_takes_a_name_away_tells_what_it_owed_of_what_is_kept() {
    with_cluster(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let face = Rc::new(Knows::default());
        a.set_invalidator(face.clone());
        for by_rename in [false, true] {
            let (ino, handle) = create(&a, "f").await;
            a.write(handle, 0, pattern(2, 70_000), false).await.unwrap();
            close(&a, handle).await;
            face.ino.set(ino);
            if by_rename {
                let (_, handle) = create(&a, "g").await;
                close(&a, handle).await;
                let over = RenameFlags::default();
                let by = root();
                let renamed = a.rename(&by, a.root(), b"g", a.root(), b"f", over);
                renamed.await.unwrap();
            } else {
                a.unlink(&root(), a.root(), b"f").await.unwrap();
            }
            assert_eq!(face.departed.borrow_mut().pop(), Some((ino, true)));
            a.keep_nameless(ino).await.unwrap();
            let handle = a.open(&root(), ino, RW).await.unwrap();
            assert_eq!(read(&a, handle, 0, 99_000).await, pattern(2, 70_000));
            face.ino.set(0);
            // What is open stays; what is neither is let go.
            a.face_forgot(ino);
            assert_eq!(a.getattr(ino).await.unwrap().attr.size, 70_000);
            close(&a, handle).await;
        }
        cluster.env.sleep(LINGERED).await;
        assert!(lookup(&b, "f").await.is_some());
    });
}
