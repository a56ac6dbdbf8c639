//! What a power cut takes of the only copy there is: an fsync that follows says so, once (docs/protocols/pairs.md,
//! "Forgotten").

use super::{SECOND, client, cluster_with, create};
use bytes::Bytes;
use std::collections::BTreeSet;
use weft_client::{Client, Errno, HandleId};
use weft_sim::World;
use weft_sim::cluster::builder::Cluster;
use weft_wire::proto::Durability;

/// What happens to the members between a write that both have acknowledged and the fsync.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// One is alone, and loses its power.
    AloneLosesPower,
    /// One is alone, and its process is killed.
    AloneIsKilled,
    /// Both lose their power.
    BothLosePower,
    /// Both processes are killed, and one machine of the two loses its power.
    BothDie,
    /// One loses its power, and the service does not hear the other one for long.
    OtherUnheard,
    /// One loses its power, and the other one goes on.
    OneLosesPower,
}

const FATES: [(Fate, bool); 6] = [
    (Fate::AloneLosesPower, true),
    (Fate::AloneIsKilled, false),
    (Fate::BothLosePower, true),
    (Fate::BothDie, false),
    (Fate::OtherUnheard, true),
    (Fate::OneLosesPower, false),
];

const BYTES: usize = 24 * BLOCK;
const BLOCK: usize = 4096;

async fn write(client: &Client, handle: HandleId, fill: u8) {
    let written = client.write(handle, 0, Bytes::from(vec![fill; BYTES]), false);
    assert_eq!(written.await, Ok(BYTES));
}

async fn befalls(fate: Fate, cluster: &Cluster) {
    let world = &cluster.world;
    match fate {
        Fate::AloneLosesPower | Fate::AloneIsKilled => {
            cluster.stop_data(0, 0, matches!(fate, Fate::AloneLosesPower));
            world.sleep(SECOND).await;
            cluster.start_data(0, 0);
        }
        Fate::BothLosePower => {
            (0..2).for_each(|member| cluster.stop_data(0, member, true));
            world.sleep(SECOND).await;
            (0..2).for_each(|member| cluster.start_data(0, member));
        }
        Fate::BothDie => {
            (0..2).for_each(|member| cluster.stop_data(0, member, member == 0));
            world.sleep(SECOND).await;
            (0..2).for_each(|member| cluster.start_data(0, member));
        }
        Fate::OtherUnheard => {
            cluster.stop_data(0, 0, true);
            world.net().cut("data0.1", "meta");
            // Not before the service has given it up as well.
            world.sleep(SECOND).await;
            cluster.start_data(0, 0);
            world.sleep(15 * SECOND).await;
            world.net().heal();
        }
        Fate::OneLosesPower => {
            cluster.stop_data(0, 0, true);
            world.sleep(SECOND).await;
            cluster.start_data(0, 0);
        }
    }
    world.sleep(5 * SECOND).await;
}

/// Bytes of the file that are not of the last write, as another client reads them. A block of which a power cut has
/// taken the bytes, and not their checksum, cannot be read.
async fn missing(cluster: &Cluster, ino: u64, fill: u8) -> usize {
    let other = client(cluster, "other").await;
    let flags = weft_client::OpenFlags {
        read: true,
        ..Default::default()
    };
    let handle = other.open(&Default::default(), ino, flags).await.unwrap();
    let mut found = 0;
    for at in (0..BYTES).step_by(BLOCK) {
        let read = other.read(handle, at as u64, BLOCK.min(BYTES - at)).await;
        let bytes = read.map(|parts| parts.concat()).unwrap_or_default();
        found += bytes.iter().filter(|byte| **byte == fill).count();
    }
    other.close().await.unwrap();
    BYTES - found
}

#[test]
fn an_fsync_says_what_a_power_cut_has_taken() {
    let mut taken = BTreeSet::new();
    for seed in 0..12 {
        for (fate, takes) in FATES {
            let world = World::new(seed);
            world.set_limit(600 * SECOND);
            let lost = world.clone().block_on(async move {
                let cluster = cluster_with(&world, 1, Durability::Disk).await;
                if matches!(fate, Fate::AloneLosesPower | Fate::AloneIsKilled) {
                    cluster.stop_data(0, 1, false);
                    world.sleep(2 * SECOND).await;
                }
                let writer = client(&cluster, "writer").await;
                let (ino, handle) = create(&writer, b"file", false).await;
                write(&writer, handle, 1).await;
                writer.fsync(handle, false).await.unwrap();
                write(&writer, handle, 2).await;
                // It is with the servers, which nobody has asked to make it stable.
                world.sleep(10 * SECOND).await;
                befalls(fate, &cluster).await;
                let synced = writer.fsync(handle, false).await;
                let missing = missing(&cluster, ino, 2).await;
                match takes {
                    true => {
                        assert_eq!(synced, Err(Errno(libc::EIO)), "{fate:?}, {missing} missing")
                    }
                    false => assert_eq!((synced, missing), (Ok(()), 0), "{fate:?}"),
                }
                // It goes on, and what is synced now stays.
                write(&writer, handle, 3).await;
                assert_eq!(writer.fsync(handle, false).await, Ok(()), "{fate:?}");
                befalls(fate, &cluster).await;
                assert_eq!(writer.fsync(handle, false).await, Ok(()), "{fate:?}");
                assert_eq!(self::missing(&cluster, ino, 3).await, 0, "{fate:?}");
                missing
            });
            if lost > 0 {
                taken.insert(format!("{fate:?}"));
            }
        }
    }
    // Or there was nothing to be said.
    assert_eq!(taken.len(), 3, "{taken:?}");
}

#[test]
fn what_the_only_one_has_synced_both_have_synced_once_they_are_equal() {
    for seed in 0..12 {
        for filled in 0..2 {
            let world = World::new(seed);
            world.set_limit(600 * SECOND);
            world.clone().block_on(async move {
                let cluster = cluster_with(&world, 1, Durability::Disk).await;
                let writer = client(&cluster, "writer").await;
                let (ino, handle) = create(&writer, b"file", false).await;
                cluster.stop_data(0, filled, false);
                world.sleep(2 * SECOND).await;
                write(&writer, handle, 1).await;
                writer.fsync(handle, false).await.unwrap();
                cluster.start_data(0, filled);
                world.sleep(5 * SECOND).await;
                befalls(Fate::BothLosePower, &cluster).await;
                assert_eq!(writer.fsync(handle, false).await, Ok(()));
                assert_eq!(missing(&cluster, ino, 1).await, 0, "{filled} was filled");
            });
        }
    }
}
