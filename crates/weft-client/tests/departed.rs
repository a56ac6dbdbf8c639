//! Files whose last name goes while they are opened by their number, as a kernel does.

#![allow(clippy::unwrap_used)]

mod support;

use futures_util::future::join;
use std::time::Duration;
use support::*;
use weft_client::*;

/// The service is told who has a file open by who takes its name away: what is opened after that was said, and before
/// the name has gone, is kept, too.
#[test]
fn what_is_opened_while_its_name_is_taken_is_kept() {
    with_stand_ins(1, async |cluster| {
        let (a, b) = (cluster.client().await, cluster.client().await);
        let replace = RenameFlags::default();
        for by_rename in [false, true] {
            let made = CreateFlags {
                exclusive: true,
                open: RW,
            };
            for name in [&b"f"[..], b"g"] {
                let made = b.create(&root(), b.root(), name, 0o644, made).await;
                let handle = made.unwrap().1;
                b.write(handle, 0, pattern(1, 5000), false).await.unwrap();
                b.fsync(handle, false).await.unwrap();
                b.flush(handle, None).await.unwrap();
                b.release(handle, None).await.unwrap();
            }
            let named = b.lookup(&root(), b.root(), b"f").await.unwrap();
            let ino = named.entry.unwrap().attr.ino;
            // By its number alone: that a name stands for it is not known there.
            a.getattr(ino).await.unwrap();
            let taken = async {
                match by_rename {
                    true => {
                        a.rename(&root(), a.root(), b"g", a.root(), b"f", replace)
                            .await
                    }
                    false => a.unlink(&root(), a.root(), b"f").await,
                }
            };
            let (taken, opened) = join(taken, a.open(&root(), ino, RO)).await;
            taken.unwrap();
            let handle = opened.unwrap();
            // What the service says of it comes to be known here.
            cluster.env.sleep(Duration::from_millis(100)).await;
            assert_eq!(a.getattr(ino).await.unwrap().attr.nlink, 0);
            let found = a.read(handle, 0, 10_000).await.unwrap().concat();
            assert_eq!(found, pattern(1, 5000));
            a.release(handle, None).await.unwrap();
            for name in [&b"f"[..], b"g"] {
                // One of them has gone.
                let _: Result<()> = b.unlink(&root(), b.root(), name).await;
            }
        }
    });
}
