//! A file that several write is cut by one of them: until it is cut, everybody sees what that one has written.

use super::{SECOND, client, cluster, create};
use bytes::Bytes;
use std::cell::Cell;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, HandleId, OpenFlags, SetAttr};
use weft_sim::World;

const ROUNDS: u32 = 80;
/// In each round it is looked at a little later after the cut has begun.
const LATER: Duration = Duration::from_micros(100);
/// Where the one that cuts has written last.
const WRITTEN_AT: u64 = 100_000;
const BYTES: usize = 1000;
const SHORTER: u64 = 50;

/// Only the first is known to have shown older sizes: the others ask for the whole file before they cut it.
#[derive(Clone, Copy, Debug)]
enum Cut {
    ByOpening,
    ToNothing,
    Shorter,
}

async fn cut(client: &Client, ino: u64, handle: HandleId, how: Cut) -> u64 {
    let cred = Cred::default();
    let size = match how {
        Cut::ByOpening => {
            let flags = CreateFlags {
                exclusive: false,
                open: OpenFlags {
                    write: true,
                    truncate: true,
                    ..OpenFlags::default()
                },
            };
            let opening = client.create(&cred, client.root(), b"file", 0o644, flags);
            let (_, opened) = opening.await.unwrap();
            client.release(opened, None).await.unwrap();
            return 0;
        }
        Cut::ToNothing => 0,
        Cut::Shorter => SHORTER,
    };
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    client.setattr(&cred, ino, set, Some(handle)).await.unwrap();
    size
}

#[test]
fn what_one_of_several_has_written_is_seen_until_it_cuts_the_file() {
    for (seed, how) in [Cut::ByOpening, Cut::ToNothing, Cut::Shorter]
        .into_iter()
        .enumerate()
    {
        let world = World::new(seed as u64);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let one = client(&cluster, "one").await;
            let other = client(&cluster, "other").await;
            let (ino, written) = create(&one, b"file", false).await;
            let flags = OpenFlags {
                write: true,
                ..OpenFlags::default()
            };
            for round in 0..ROUNDS {
                let few = Bytes::from_static(b"few");
                one.write(written, WRITTEN_AT, few, false).await.unwrap();
                // From now on it may be written there, too.
                let beside = other.open(&Cred::default(), ino, flags).await.unwrap();
                let at = WRITTEN_AT + u64::from(round);
                let bytes = Bytes::from(vec![1; BYTES]);
                one.write(written, at, bytes, false).await.unwrap();
                let size = at + BYTES as u64;
                let is_cut = Cell::new(false);
                let cutting = async {
                    let left = cut(&one, ino, written, how).await;
                    is_cut.set(true);
                    left
                };
                let looking = async {
                    let mut seen = Vec::new();
                    world.sleep(LATER * round).await;
                    while !is_cut.get() {
                        seen.push(other.getattr(ino).await.unwrap().attr.size);
                    }
                    seen
                };
                let (left, seen) = futures_util::future::join(cutting, looking).await;
                assert!(
                    seen.iter().all(|seen| [left, size].contains(seen)),
                    "{how:?}, round {round}: {seen:?} of {size} bytes, cut to {left}"
                );
                other.release(beside, None).await.unwrap();
            }
        });
    }
}
