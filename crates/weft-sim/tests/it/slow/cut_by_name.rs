//! A file that is cut by a create under a name of it, whose client does not hear of that in time and goes on writing.

use super::{SECOND, client, cluster, create, impatient};
use bytes::Bytes;
use futures_util::future::join;
use weft_client::{Client, CreateFlags, Cred, Errno, HandleId, OpenFlags, Result};
use weft_sim::World;

/// Less than the term of a session.
const PATIENCE_MS: u64 = 2000;
const BYTES: usize = 5000;

/// The client is not told what became of its create.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// It waits in the service for another client, who is away.
    NotDone,
    /// It is done, and the answer is lost.
    NotAnswered,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    trouble: Trouble,
    /// The client knows that the name is the file's.
    is_known: bool,
    /// It writes before the trouble is over, too.
    goes_on: bool,
    /// Somebody looks at the file before it is. (Nobody can while the client does not hear that it is to give its
    /// lease back.)
    looked_at: bool,
}

#[test]
fn what_is_written_after_a_cut_in_doubt_is_there_for_everybody() {
    for seed in 0..12 {
        let looked_at = seed >= 8;
        let trouble = match looked_at || seed & 1 == 0 {
            true => Trouble::NotDone,
            false => Trouble::NotAnswered,
        };
        let case = Case {
            trouble,
            is_known: seed & 2 == 0,
            goes_on: if looked_at {
                seed & 1 == 0
            } else {
                seed & 4 == 0
            },
            looked_at,
        };
        let world = World::new(seed);
        world.set_limit(600 * SECOND);
        world
            .clone()
            .block_on(async move { given_up(world, case).await });
    }
}

async fn content(client: &Client, ino: u64) -> Bytes {
    let flags = OpenFlags {
        read: true,
        ..OpenFlags::default()
    };
    let handle = client.open(&Cred::default(), ino, flags).await.unwrap();
    let read = client.read(handle, 0, 4 * BYTES).await.unwrap();
    client.release(handle, None).await.unwrap();
    read.concat().into()
}

async fn write_and_sync(client: &Client, handle: HandleId, at: usize, byte: u8) -> Result<Bytes> {
    let bytes = Bytes::from(vec![byte; BYTES]);
    client
        .write(handle, at as u64, bytes.clone(), false)
        .await?;
    client.fsync(handle, false).await?;
    Ok(bytes)
}

async fn given_up(world: World, case: Case) {
    let cluster = cluster(&world, true).await;
    let one = impatient(&cluster, "one", PATIENCE_MS).await;
    let other = client(&cluster, "other").await;
    let onlooker = client(&cluster, "onlooker").await;
    let cred = Cred::default();
    let (ino, handle) = create(&one, b"file", false).await;
    let name: &[u8] = if case.is_known { b"file" } else { b"name" };
    if !case.is_known {
        other.link(&cred, ino, other.root(), name).await.unwrap();
    }
    let old = Bytes::from(vec![1; 3 * BYTES]);
    one.write(handle, 0, old.clone(), false).await.unwrap();
    one.fsync(handle, false).await.unwrap();
    match case.trouble {
        Trouble::NotDone => {
            // It has a lease on the file, and does not answer.
            assert_eq!(content(&other, ino).await, old);
            world.net().isolate("other");
        }
        Trouble::NotAnswered => world.net().cut_one_way(&cluster.meta[0].name(), "one"),
    }
    let flags = CreateFlags {
        exclusive: false,
        open: OpenFlags {
            write: true,
            truncate: true,
            ..OpenFlags::default()
        },
    };
    let cut = one.create(&cred, one.root(), name, 0o644, flags).await;
    assert_eq!(cut.err(), Some(Errno(libc::EIO)), "{case:?}");
    // Whether that can be done is not the question; what was told to be done is there.
    let meanwhile = match case.goes_on {
        // Looked at while it goes on: the trouble is over meanwhile, or only when it has been given up.
        true => {
            let over_after = if case.looked_at { 20 } else { 1 } * SECOND / 4;
            let healed = async {
                world.sleep(over_after).await;
                world.net().heal();
            };
            join(write_and_sync(&one, handle, BYTES, 2), healed).await.0
        }
        false => Err(Errno(libc::EIO)),
    };
    if case.looked_at {
        content(&onlooker, ino).await;
    }
    world.net().heal();
    world.sleep(5 * SECOND).await;
    let new = write_and_sync(&one, handle, 0, 3).await;
    assert!(new.is_ok(), "{new:?} {case:?}");
    let (own, told) = (content(&one, ino).await, content(&onlooker, ino).await);
    assert_eq!(told.len(), own.len(), "{case:?}");
    assert!(told == own, "{case:?}");
    assert!(told[..BYTES] == new.unwrap(), "{case:?}");
    if let Ok(meanwhile) = meanwhile {
        assert!(told.get(BYTES..2 * BYTES) == Some(&meanwhile), "{case:?}");
    }
}
