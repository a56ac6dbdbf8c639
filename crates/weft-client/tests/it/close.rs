//! Closing without waiting: what waits all the same, and what comes before what.

mod refused;

use crate::support::*;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;

const SLOW: Duration = Duration::from_millis(300);

/// Creates a file or cuts it to nothing, as `open(O_CREAT | O_TRUNC)` does.
async fn make(client: &Client, name: &[u8]) -> (u64, HandleId) {
    let flags = CreateFlags {
        exclusive: false,
        open: OpenFlags {
            truncate: true,
            ..RW
        },
    };
    let (known, handle) = client
        .create(&root(), client.root(), name, 0o644, flags)
        .await
        .unwrap();
    (known.attr.ino, handle)
}

async fn close(client: &Client, handle: HandleId) -> std::result::Result<(), Errno> {
    let flushed = client.flush(handle, None).await;
    client.release(handle, None).await.unwrap();
    flushed
}

async fn open(client: &Client, name: &[u8]) -> HandleId {
    let found = client.lookup(&root(), client.root(), name).await.unwrap();
    let ino = found.entry.unwrap().attr.ino;
    client.open(&root(), ino, RO).await.unwrap()
}

/// A cluster that has told this client of so much room, and is slow from now on.
async fn slow(cluster: &Rc<Cluster>, room: u64) -> Client {
    let client = cluster.client().await;
    cluster.stores[0].room.set(room);
    let (_, handle) = make(&client, b"first").await;
    let written = client.write(handle, 0, pattern(1, 4096), false);
    written.await.unwrap();
    client.fsync(handle, false).await.unwrap();
    close(&client, handle).await.unwrap();
    cluster.stores[0].write_delay.set(SLOW);
    client
}

#[test]
fn a_close_does_not_wait_and_others_see_what_was_written() {
    with_stand_ins(1, async |cluster| {
        let a = slow(&cluster, 1 << 40).await;
        let b = cluster.client().await;
        let (ino, handle) = make(&a, b"f").await;
        a.write(handle, 0, pattern(2, 10_000), false).await.unwrap();
        let start = cluster.env.now();
        close(&a, handle).await.unwrap();
        assert!(cluster.env.now().since(start) < SLOW, "it waited");
        assert_eq!(cluster.stores[0].writes.get(), 1, "the first file's");
        let found = b.lookup(&root(), b.root(), b"f").await.unwrap();
        let attr = found.entry.unwrap().attr;
        assert_eq!((attr.ino, attr.size), (ino, 10_000));
        let handle = open(&b, b"f").await;
        let got = b.read(handle, 0, 20_000).await.unwrap().concat();
        assert_eq!(got, pattern(2, 10_000));
    });
}

#[test]
fn the_size_follows_the_data() {
    with_stand_ins(1, async |cluster| {
        let a = slow(&cluster, 1 << 40).await;
        let (_, handle) = make(&a, b"f").await;
        let known = || cluster.meta.borrow().as_ref().unwrap().digest();
        let made = known();
        assert!(made.is_some(), "nothing is being committed");
        a.write(handle, 0, pattern(2, 10_000), false).await.unwrap();
        close(&a, handle).await.unwrap();
        cluster.env.sleep(SLOW / 2).await;
        assert_eq!(known(), made, "a size without its bytes");
        cluster.env.sleep(SLOW).await;
        assert_ne!(known(), made, "the size is told at last");
    });
}

#[test]
fn a_close_waits_where_room_is_short_and_tells_what_failed() {
    for (room, settings_wait) in [(1 << 20, false), (1 << 40, true)] {
        with_stand_ins(1, async |cluster| {
            let a = slow(&cluster, room).await;
            let a = if settings_wait {
                let settings = Settings {
                    close_waits: true,
                    ..cluster.settings()
                };
                let client = Client::connect(cluster.env.clone(), settings).await;
                client.unwrap()
            } else {
                a
            };
            cluster.stores[0].write_errno.set(libc::ENOSPC);
            let (_, handle) = make(&a, b"f").await;
            a.write(handle, 0, pattern(2, 4096), false).await.unwrap();
            assert_eq!(close(&a, handle).await, Err(Errno(libc::ENOSPC)));
        });
    }
}

#[test]
fn what_failed_after_a_close_is_told_to_whoever_syncs_all() {
    with_stand_ins(1, async |cluster| {
        let a = slow(&cluster, 1 << 40).await;
        for name in [b"f", b"g"] {
            cluster.stores[0].write_errno.set(libc::ENOSPC);
            let (_, handle) = make(&a, name).await;
            a.write(handle, 0, pattern(2, 4096), false).await.unwrap();
            assert_eq!(close(&a, handle).await, Ok(()), "it does not wait");
            cluster.env.sleep(SLOW * 2).await;
            cluster.stores[0].write_errno.set(0);
            assert_eq!(a.sync_all().await, Err(Errno(libc::ENOSPC)));
            assert_eq!(a.sync_all().await, Ok(()), "once");
        }
    });
}

#[test]
fn what_replaces_older_content_is_written_first() {
    with_stand_ins(1, async |cluster| {
        let a = slow(&cluster, 1 << 40).await;
        // By a rename.
        let (_, handle) = make(&a, b"new").await;
        a.write(handle, 0, pattern(3, 4096), false).await.unwrap();
        close(&a, handle).await.unwrap();
        let before = cluster.stores[0].writes.get();
        let (dir, flags) = (a.root(), RenameFlags::default());
        a.rename(&root(), dir, b"new", dir, b"first", flags)
            .await
            .unwrap();
        assert_eq!(cluster.stores[0].writes.get(), before + 1);
        // By cutting it.
        let (_, handle) = make(&a, b"first").await;
        a.write(handle, 0, pattern(4, 4096), false).await.unwrap();
        close(&a, handle).await.unwrap();
        assert_eq!(cluster.stores[0].writes.get(), before + 2);
    });
}

#[test]
fn nothing_is_on_its_way_to_a_file_that_is_unlinked() {
    with_stand_ins(1, async |cluster| {
        let a = slow(&cluster, 1 << 40).await;
        let (ino, handle) = make(&a, b"f").await;
        a.write(handle, 0, pattern(3, 4096), false).await.unwrap();
        close(&a, handle).await.unwrap();
        a.unlink(&root(), a.root(), b"f").await.unwrap();
        assert!(cluster.stores[0].flying.borrow().is_empty());
        let is_held = || {
            cluster.stores[0]
                .objects
                .borrow()
                .keys()
                .any(|o| o.0 == ino)
        };
        // It lingers for a second or two.
        while is_held() {
            cluster.env.sleep(Duration::from_millis(5)).await;
        }
        cluster.env.sleep(SLOW * 2).await;
        assert!(!is_held(), "it came back");
    });
}

#[test]
fn the_last_close_of_an_unlinked_file_writes_before_its_objects_go() {
    with_stand_ins(1, async |cluster| {
        let (a, b) = (slow(&cluster, 1 << 40).await, cluster.client().await);
        // Another client has the first one open, and reads what was written.
        let (ino, shared) = make(&a, b"f").await;
        let kept = open(&b, b"f").await;
        let (lone, handle) = make(&a, b"g").await;
        for name in [b"f", b"g"] {
            a.unlink(&root(), a.root(), name).await.unwrap();
        }
        for handle in [shared, handle] {
            a.write(handle, 0, pattern(3, 4096), false).await.unwrap();
            close(&a, handle).await.unwrap();
        }
        let got = b.read(kept, 0, 20_000).await.unwrap().concat();
        assert_eq!(got, pattern(3, 4096));
        let held = |of: u64| cluster.stores[0].objects.borrow().keys().any(|o| o.0 == of);
        while held(lone) {
            cluster.env.sleep(Duration::from_millis(5)).await;
        }
        cluster.env.sleep(SLOW * 2).await;
        assert!(held(ino) && !held(lone), "it came back");
        close(&b, kept).await.unwrap();
        while held(ino) {
            cluster.env.sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn the_end_of_a_client_waits_for_what_was_closed() {
    with_stand_ins(1, async |cluster| {
        let a = slow(&cluster, 1 << 40).await;
        let b = cluster.client().await;
        let (_, handle) = make(&a, b"f").await;
        a.write(handle, 0, pattern(5, 5000), false).await.unwrap();
        close(&a, handle).await.unwrap();
        a.close().await.unwrap();
        let handle = open(&b, b"f").await;
        let got = b.read(handle, 0, 20_000).await.unwrap().concat();
        assert_eq!(got, pattern(5, 5000));
    });
}

#[test]
fn who_has_said_goodbye_believes_in_nothing() {
    with_stand_ins(1, async |cluster| {
        let a = cluster.client().await;
        let (ino, handle) = make(&a, b"f").await;
        a.write(handle, 0, pattern(6, 5000), false).await.unwrap();
        a.fsync(handle, false).await.unwrap();
        let held = a.leases();
        assert!(
            held.iter()
                .any(|lease| lease.ino == ino && !lease.write.is_empty())
        );
        let known = || cluster.meta.borrow().as_ref().unwrap().digest();
        let before = known();
        let start = cluster.env.now();
        let mut leaving = Box::pin(a.close());
        assert!(futures_util::poll!(&mut leaving).is_pending());
        // The goodbye is on the way, and its answer may be lost.
        assert!(a.leases().is_empty());
        // What comes late waits for a lease, and does not hinder the goodbye.
        let late = a.clone();
        let reading = cluster.env.spawn("late", async move {
            let _ = late.read(handle, 0, 10).await;
        });
        leaving.await.unwrap();
        drop(reading);
        assert!(cluster.env.now().since(start) < Duration::from_secs(1));
        while known().is_none() {
            cluster.env.sleep(Duration::from_millis(5)).await;
        }
        assert_ne!(known(), before, "the service has not heard the goodbye");
    });
}
