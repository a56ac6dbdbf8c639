//! Clients that have a file open beside its writers and hold no byte of it: what they know of where it
//! lies is not believed when they are granted some.

use super::{SECOND, client, cluster, create};
use bytes::Bytes;
use weft_client::{Client, Cred, HandleId, OpenFlags, SetAttr};
use weft_sim::World;

/// Where the file is cut, and what is written beyond that afterwards.
const CUT: u64 = 100;
const BEYOND: u64 = 200;
const NEW: &[u8] = b"written after the remains were trimmed";

/// By what the onlooker comes to hold what it reads.
#[derive(Clone, Copy, Debug)]
enum Granted {
    /// It asks for bytes of a file that others write; and for its size before that, since it knows of less.
    Bytes,
    /// The answer to a change of its own, which says nothing of where the file lies.
    ByAChange,
}

async fn open(client: &Client, ino: u64, write: bool) -> HandleId {
    let flags = OpenFlags {
        read: true,
        write,
        ..OpenFlags::default()
    };
    client.open(&Cred::default(), ino, flags).await.unwrap()
}

#[test]
fn who_looks_on_while_a_file_is_cut_and_trimmed_reads_what_is_written_afterwards() {
    for granted in [Granted::Bytes, Granted::ByAChange] {
        let world = World::new(1);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let writer = client(&cluster, "writer").await;
            let onlooker = client(&cluster, "onlooker").await;
            let (ino, written) = create(&writer, b"file", false).await;
            let old = Bytes::from_static(&[b'o'; 8192]);
            writer.write(written, 0, old, false).await.unwrap();
            let seen = open(&onlooker, ino, false).await;
            // The onlooker gives back what it has, and asks at once where the file lies: it is told that there are remains.
            let cut = SetAttr {
                size: Some(CUT),
                ..SetAttr::default()
            };
            let cred = Cred::default();
            let cutting = writer.setattr(&cred, ino, cut, Some(written));
            cutting.await.unwrap();
            let new = Bytes::from_static(NEW);
            writer.write(written, BEYOND, new, false).await.unwrap();
            let other = client(&cluster, "other").await;
            match granted {
                Granted::Bytes => {
                    let beside = open(&other, ino, true).await;
                    let far = Bytes::from_static(b"far away");
                    other.write(beside, 1 << 16, far, false).await.unwrap();
                }
                Granted::ByAChange => {
                    writer.release(written, None).await.unwrap();
                    world.sleep(SECOND).await;
                    let linking = onlooker.link(&cred, ino, onlooker.root(), b"name");
                    linking.await.unwrap();
                }
            }
            let read = onlooker.read(seen, BEYOND, NEW.len()).await.unwrap();
            assert_eq!(read.concat(), NEW, "{granted:?}");
        });
    }
}
