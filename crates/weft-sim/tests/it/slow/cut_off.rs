//! Clients that are cut off, or stand still, for longer than their sessions' term, and go on.

use super::{SECOND, SESSION_TERM, client, cluster, create};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Cred, Errno, FileLock, HandleId, Invalidator, OpenFlags, Result};
use weft_sim::World;

const EIO: Errno = Errno(libc::EIO);
/// What comes at once comes within this.
const AT_ONCE: Duration = Duration::from_millis(20);

/// A face that caches, and notes when it was made to forget everything.
struct Face {
    world: World,
    forgot: RefCell<Vec<Duration>>,
}

impl Invalidator for Face {
    fn inode(&self, _ino: u64, _data: bool) -> LocalBoxFuture<'static, bool> {
        std::future::ready(true).boxed_local()
    }

    fn names(&self, _dir: u64) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }

    fn everything(&self) -> LocalBoxFuture<'static, ()> {
        self.forgot.borrow_mut().push(self.world.now());
        std::future::ready(()).boxed_local()
    }
}

#[test]
fn whoever_is_cut_off_or_stands_still_forgets_though_nobody_asks() {
    for (seed, stands_still) in [(1, false), (2, false), (3, true), (4, true)] {
        let world = World::new(seed);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let one = client(&cluster, "one").await;
            let face = Rc::new(Face {
                world: world.clone(),
                forgot: RefCell::default(),
            });
            one.set_invalidator(face.clone());
            let (ino, handle) = create(&one, b"file", true).await;
            one.write(handle, 0, Bytes::from_static(b"old"), false)
                .await
                .unwrap();
            one.release(handle, None).await.unwrap();
            let other = client(&cluster, "other").await;
            world.sleep(3 * SESSION_TERM).await;
            assert!(face.forgot.borrow().is_empty(), "its session is well");
            let node = world.node("one");
            match stands_still {
                true => node.pause(),
                false => world.net().isolate("one"),
            }
            let cred = Cred::default();
            other
                .rename(&cred, 1, b"file", 1, b"name", Default::default())
                .await
                .unwrap();
            let changed = world.now();
            let known = other.getattr(ino).await.unwrap();
            assert_eq!(known.attr.size, 3);
            if stands_still {
                world.sleep(SESSION_TERM).await;
                node.resume();
                let went_on = world.now();
                world.sleep(AT_ONCE).await;
                let forgot = face.forgot.borrow();
                assert!(
                    forgot.len() == 1 && forgot[0] < went_on + AT_ONCE,
                    "{forgot:?}"
                );
            } else {
                let forgot = face.forgot.borrow().clone();
                assert!(
                    forgot.len() == 1 && forgot[0] < changed,
                    "{forgot:?}: {changed:?}"
                );
                // Once is enough, however long it takes.
                world.sleep(3 * SESSION_TERM).await;
                assert_eq!(face.forgot.borrow().len(), 1);
                world.net().heal();
            }
            let found = one.lookup(&cred, 1, b"name").await.unwrap();
            assert_eq!(found.entry.unwrap().attr.ino, ino);
        });
    }
}

async fn open(client: &Client, ino: u64) -> HandleId {
    let flags = OpenFlags {
        read: true,
        write: true,
        ..OpenFlags::default()
    };
    client.open(&Cred::default(), ino, flags).await.unwrap()
}

fn lock(flock: bool, owner: u64, exclusive: bool) -> FileLock {
    FileLock {
        kind: if exclusive { 2 } else { 0 },
        flock,
        owner,
        last: u64::MAX,
        pid: 7,
        ..FileLock::default()
    }
}

async fn set(client: &Client, handle: HandleId, lock: FileLock, wait: bool) -> Result<()> {
    client.setlk_by(handle, &Cred::default(), lock, wait).await
}

#[test]
fn whoever_has_lost_a_lock_is_told_by_all_that_it_does_with_it() {
    for (seed, flock) in [(1, false), (2, true)] {
        let world = World::new(seed);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let (one, other) = (
                client(&cluster, "one").await,
                client(&cluster, "other").await,
            );
            let (ino, made) = create(&one, b"file", true).await;
            one.write(made, 0, Bytes::from_static(b"100"), false)
                .await
                .unwrap();
            one.release(made, None).await.unwrap();
            let [holds, held, never, theirs] = [
                open(&one, ino).await,
                open(&one, ino).await,
                open(&one, ino).await,
                open(&other, ino).await,
            ];
            // One has it, another had it before and has given it back.
            set(&one, held, lock(flock, 2, true), false).await.unwrap();
            set(&one, held, lock(flock, 2, false), false).await.unwrap();
            set(&one, holds, lock(flock, 1, true), false).await.unwrap();
            world.net().isolate("one");
            set(&other, theirs, lock(flock, 1, true), true)
                .await
                .unwrap();
            world.net().heal();
            let bytes = || Bytes::from_static(b"101");
            assert_eq!(one.read(holds, 0, 3).await, Err(EIO));
            assert_eq!(one.write(holds, 0, bytes(), false).await, Err(EIO));
            assert_eq!(one.fsync(holds, false).await, Err(EIO));
            assert_eq!(set(&one, holds, lock(flock, 1, true), true).await, Err(EIO));
            assert_eq!(set(&one, holds, lock(flock, 1, false), false).await, Ok(()));
            for handle in [held, never] {
                assert_eq!(one.read(handle, 0, 3).await.unwrap().concat(), b"100");
                assert_eq!(one.write(handle, 3, bytes(), false).await, Ok(3));
                assert_eq!(one.fsync(handle, false).await, Ok(()));
            }
            set(&other, theirs, lock(flock, 1, false), false)
                .await
                .unwrap();
            assert_eq!(
                set(&one, holds, lock(flock, 1, true), false).await,
                Err(EIO)
            );
            // Nor has it been left with a lock that it does not know of.
            set(&other, theirs, lock(flock, 1, true), false)
                .await
                .unwrap();
            set(&other, theirs, lock(flock, 1, false), false)
                .await
                .unwrap();
            one.flush(holds, Some(1)).await.unwrap();
            one.release(holds, Some(1)).await.unwrap();
            let again = open(&one, ino).await;
            set(&one, again, lock(flock, 1, true), false).await.unwrap();
            assert_eq!(one.read(again, 0, 3).await.unwrap().concat(), b"100");
        });
    }
}
