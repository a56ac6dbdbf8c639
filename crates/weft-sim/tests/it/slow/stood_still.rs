//! A client that stood still for about as long as its session's term.

use super::{SECOND, SESSION_TERM, client, cluster, create};
use bytes::Bytes;
use std::time::Duration;
use weft_client::Cred;
use weft_sim::World;

const BYTES: usize = 100;

/// By its own clock its term is over, by the service's it is not: that has answered, and knows nothing of what the
/// client has written and not told.
#[test]
fn who_stood_still_for_as_long_as_its_term_still_tells_its_programs_what_they_have_written() {
    // A client believes in its session for a twentieth less.
    let least = SESSION_TERM / 100 * 93;
    for seed in 0..250 {
        let late = u32::try_from(seed % 50).unwrap() * SESSION_TERM / 500;
        let world = World::new(seed);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let one = client(&cluster, "one").await;
            let (ino, handle) = create(&one, b"file", false).await;
            let written = Bytes::from(vec![1; BYTES]);
            one.write(handle, 0, written, false).await.unwrap();
            let cred = Cred::default();
            let linking = one.link(&cred, ino, one.root(), b"name");
            let node = world.node("one");
            let standing = async {
                world.sleep(Duration::from_micros(1)).await;
                node.pause();
                world.sleep(least + late).await;
                node.resume();
            };
            let (linked, ()) = futures_util::future::join(linking, standing).await;
            if let Ok(known) = linked {
                assert_eq!(known.attr.size, BYTES as u64, "seed {seed}, after {late:?}");
                assert_eq!(known.attr.nlink, 2);
            }
        });
    }
}
