//! A lock that its client has given up, and that is granted all the same.

use super::{SECOND, client, cluster, create, impatient};
use weft_client::{Client, Cred, Errno, FileLock, HandleId, OpenFlags};
use weft_sim::World;
use weft_wire::proto::file_lock::Kind;

/// Less than the term of a session.
const PATIENCE_MS: u64 = 2000;
const OWNER: u64 = 7;
/// By then nothing is in doubt any more.
const DECIDED: u32 = 5;

fn lock(kind: Kind, owner: u64) -> FileLock {
    FileLock {
        kind: kind as i32,
        owner,
        last: u64::MAX,
        ..FileLock::default()
    }
}

async fn set(client: &Client, by: HandleId, lock: FileLock) -> Result<(), Errno> {
    client.setlk_by(by, &Cred::default(), lock, false).await
}

/// What its owner has before, and who may lock for reading and for writing when all is decided.
struct Case {
    before: Option<Kind>,
    again: bool,
    reads: bool,
    writes: bool,
}

#[test]
fn a_lock_that_was_given_up_is_in_nobodys_way() {
    let cases = [
        // Nobody has it.
        Case {
            before: None,
            again: false,
            reads: true,
            writes: true,
        },
        // It has asked again, and been told yes: that stands.
        Case {
            before: None,
            again: true,
            reads: false,
            writes: false,
        },
        // What it had it has.
        Case {
            before: Some(Kind::Shared),
            again: false,
            reads: false,
            writes: false,
        },
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let world = World::new(number as u64);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let one = impatient(&cluster, "one", PATIENCE_MS).await;
            let other = client(&cluster, "other").await;
            let (ino, handle) = create(&one, b"file", true).await;
            let flags = OpenFlags {
                read: true,
                write: true,
                ..OpenFlags::default()
            };
            let opened = other.open(&Cred::default(), ino, flags).await.unwrap();
            if let Some(kind) = case.before {
                assert_eq!(set(&one, handle, lock(kind, OWNER)).await, Ok(()));
            }
            world.net().cut_one_way(&cluster.meta[0].name(), "one");
            let given_up = set(&one, handle, lock(Kind::Exclusive, OWNER)).await;
            assert_eq!(given_up, Err(Errno(libc::EIO)), "case {number}");
            world.net().heal();
            if case.again {
                let again = set(&one, handle, lock(Kind::Exclusive, OWNER)).await;
                assert_eq!(again, Ok(()), "case {number}");
            }
            world.sleep(DECIDED * SECOND).await;
            for (kind, may) in [(Kind::Shared, case.reads), (Kind::Exclusive, case.writes)] {
                let expected = if may {
                    Ok(())
                } else {
                    Err(Errno(libc::EAGAIN))
                };
                let got = set(&other, opened, lock(kind, OWNER + 1)).await;
                assert_eq!(got, expected, "case {number}, {kind:?}");
            }
            // Whatever its owner has, it is freed by its owner.
            assert_eq!(set(&one, handle, lock(Kind::Unlock, OWNER)).await, Ok(()));
            let got = set(&other, opened, lock(Kind::Exclusive, OWNER + 1)).await;
            assert_eq!(got, Ok(()), "case {number}");
        });
    }
}
