//! A write that its client has given up, and that reaches the data servers all the same.

use super::{SECOND, client, cluster, create, impatient};
use bytes::Bytes;
use weft_client::{Cred, Errno, OpenFlags};
use weft_sim::World;

/// Less than the term of a session.
const PATIENCE_MS: u64 = 2000;
const BYTES: usize = 5000;

/// The client hears nothing from the data servers; another one writes the same bytes when it can, before or after that
/// is over.
#[test]
fn a_write_that_was_given_up_does_not_replace_what_another_has_written_since() {
    for seed in 0..20 {
        let unheard = SECOND * 3 + SECOND * seed / 2;
        let world = World::new(seed.into());
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let one = impatient(&cluster, "one", PATIENCE_MS).await;
            let other = client(&cluster, "other").await;
            let (ino, handle) = create(&one, b"file", true).await;
            let write = |value: u8| Bytes::from(vec![value; BYTES]);
            assert_eq!(one.write(handle, 0, write(1), false).await, Ok(BYTES));
            for member in ["data0.0", "data0.1"] {
                world.net().cut_one_way(member, "one");
            }
            let given_up = one.write(handle, 0, write(2), false).await;
            assert_eq!(given_up, Err(Errno(libc::EIO)), "seed {seed}");
            let flags = OpenFlags {
                read: true,
                write: true,
                sync: true,
                ..OpenFlags::default()
            };
            let opened = other.open(&Cred::default(), ino, flags).await.unwrap();
            let writing = other.write(opened, 0, write(3), false);
            let hearing = async {
                world.sleep(unheard).await;
                world.net().heal();
            };
            let (written, ()) = futures_util::future::join(writing, hearing).await;
            assert_eq!(written, Ok(BYTES), "seed {seed}");
            world.sleep(5 * SECOND).await;
            let onlooker = client(&cluster, "onlooker").await;
            let seen = onlooker.open(&Cred::default(), ino, flags).await.unwrap();
            let seen = onlooker.read(seen, 0, BYTES).await.unwrap().concat();
            assert!(seen == write(3), "seed {seed}");
        });
    }
}
