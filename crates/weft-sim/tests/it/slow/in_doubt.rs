//! Changes that their client gives up, before they are done or answered.

use super::{SECOND, client, cluster, create, impatient};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Cred, Errno, Invalidator, Result, SetAttr, XattrFlags};
use weft_sim::World;

/// Less than the term of a session: who is away comes back before its leases are taken away.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the client changes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Make,
    Remove,
    Rename,
    Mode,
    Attribute,
}

/// The file as it is there before the change.
const FILE: &[u8] = b"file";
const NEW: &[u8] = b"new";

impl Change {
    async fn by(self, client: &Client, ino: u64) -> Result<()> {
        let (cred, root) = (Cred::default(), client.root());
        match self {
            Change::Make => client.mkdir(&cred, root, NEW, 0o755).await.map(drop),
            Change::Remove => client.unlink(&cred, root, FILE).await,
            Change::Rename => {
                let renaming = client.rename(&cred, root, FILE, root, NEW, Default::default());
                renaming.await
            }
            Change::Mode => {
                let set = SetAttr {
                    mode: Some(0o600),
                    ..SetAttr::default()
                };
                client.setattr(&cred, ino, set, None).await.map(drop)
            }
            Change::Attribute => {
                let value = Bytes::from_static(b"value");
                let setting = client.setxattr(&cred, ino, b"user.a", value, XattrFlags::Any);
                setting.await
            }
        }
    }
}

/// What a client says of all that may be changed.
async fn told(client: &Client, ino: u64) -> String {
    let (cred, root) = (Cred::default(), client.root());
    let dir = client.opendir(&cred, root).await.unwrap();
    let entries = client.readdir(dir, 0, 100, true).await.unwrap();
    // Who has seen the end of it knows what is not there.
    let last = entries.last().unwrap().cookie;
    assert!(
        client
            .readdir(dir, last, 100, true)
            .await
            .unwrap()
            .is_empty()
    );
    client.releasedir(dir);
    let mut told = Vec::new();
    for name in [FILE, NEW] {
        let found = client.lookup(&cred, root, name).await.unwrap();
        told.push(
            found
                .entry
                .map(|known| (known.attr.ino, known.attr.nlink, known.attr.mode)),
        );
    }
    let mode = client.getattr(ino).await.map(|known| known.attr.mode);
    let attributes = client.listxattr(&cred, ino).await;
    let names = entries.iter().map(|entry| entry.name.clone());
    let names: Vec<Bytes> = names.filter(|name| name.len() > 2).collect();
    format!("{told:?} {mode:?} {attributes:?} {names:?}")
}

/// A face that caches, and notes what it was made to forget: inodes, and directories of which it was names.
#[derive(Default)]
struct Face {
    inodes: RefCell<Vec<u64>>,
    names: RefCell<Vec<u64>>,
}

impl Invalidator for Face {
    fn inode(&self, ino: u64, _data: bool) -> LocalBoxFuture<'static, bool> {
        self.inodes.borrow_mut().push(ino);
        std::future::ready(true).boxed_local()
    }

    fn names(&self, dir: u64) -> LocalBoxFuture<'static, ()> {
        self.names.borrow_mut().push(dir);
        std::future::ready(()).boxed_local()
    }

    fn everything(&self) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }
}

/// What keeps the change from being answered in time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// It waits in the service for another client, who is away.
    NotDone,
    /// It is done, and the answer is lost.
    NotAnswered,
}

#[test]
fn a_change_that_its_client_gave_up_is_not_missed_by_it_whatever_became_of_it() {
    let changes = [
        Change::Make,
        Change::Remove,
        Change::Rename,
        Change::Mode,
        Change::Attribute,
    ];
    for trouble in [Trouble::NotDone, Trouble::NotAnswered] {
        for (seed, change) in changes.into_iter().enumerate() {
            let world = World::new(seed as u64);
            world.set_limit(600 * SECOND);
            world
                .clone()
                .block_on(async move { given_up(world, change, trouble).await });
        }
    }
}

async fn given_up(world: World, change: Change, trouble: Trouble) {
    let case = format!("{change:?} {trouble:?}");
    let cluster = cluster(&world, true).await;
    let one = impatient(&cluster, "one", PATIENCE.as_millis() as u64).await;
    let other = client(&cluster, "other").await;
    let face = Rc::new(Face::default());
    one.set_invalidator(face.clone());
    let (ino, handle) = create(&one, FILE, true).await;
    one.release(handle, None).await.unwrap();
    told(&one, ino).await;
    match trouble {
        Trouble::NotDone => {
            // It has leases on all, and does not answer.
            told(&other, ino).await;
            told(&one, ino).await;
            world.net().isolate("other");
        }
        Trouble::NotAnswered => world.net().cut_one_way(&cluster.meta[0].name(), "one"),
    }
    face.inodes.borrow_mut().clear();
    face.names.borrow_mut().clear();
    let changed = change.by(&one, ino).await;
    assert_eq!(changed, Err(Errno(libc::EIO)), "{case}");
    // Before its client is told, the face keeps nothing of it.
    let is_of_file = matches!(change, Change::Mode | Change::Attribute);
    match is_of_file {
        true => assert!(face.inodes.borrow().contains(&ino), "{case}"),
        false => assert!(face.names.borrow().contains(&one.root()), "{case}"),
    }
    if trouble == Trouble::NotDone {
        // What is known by now is of before.
        told(&one, ino).await;
    }
    world.net().heal();
    world.sleep(5 * SECOND).await;
    let fresh = client(&cluster, "fresh").await;
    let is = told(&fresh, ino).await;
    assert_eq!(told(&one, ino).await, is, "{case}");
    assert_eq!(told(&other, ino).await, is, "{case}");
    // It is undecided no more, and can be done.
    let _done_before: Result<()> = change.by(&one, ino).await;
    assert_eq!(told(&one, ino).await, told(&fresh, ino).await, "{case}");
}
