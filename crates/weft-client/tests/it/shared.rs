//! Several clients that write one file at the same time (`docs/protocols/leases.md`, "Ranges").

use crate::support::*;
use bytes::Bytes;
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;
use weft_client::*;

const NAME: &[u8] = b"shared";
const MIB: u64 = 1 << 20;

async fn create(client: &Client) -> (u64, HandleId) {
    let flags = CreateFlags {
        exclusive: false,
        open: RW,
    };
    let cred = root();
    let made = client.create(&cred, client.root(), NAME, 0o644, flags);
    let (known, handle) = made.await.unwrap();
    (known.attr.ino, handle)
}

async fn write(client: &Client, handle: HandleId, offset: u64, data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    client.write(handle, offset, data, false).await.unwrap();
}

async fn read(client: &Client, handle: HandleId, offset: u64, length: u64) -> Vec<u8> {
    let parts = client.read(handle, offset, length as usize).await;
    parts.unwrap().concat()
}

/// `count` clients that have the file open, which the first has made.
async fn sharing(cluster: &Rc<Cluster>, count: usize) -> (u64, Vec<(Client, HandleId)>) {
    let first = cluster.client().await;
    let (ino, handle) = create(&first).await;
    let mut clients = vec![(first, handle)];
    for _ in 1..count {
        let client = cluster.client().await;
        let handle = client.open(&root(), ino, RW).await.unwrap();
        clients.push((client, handle));
    }
    (ino, clients)
}

/// The bytes that each of them may write now.
fn written(clients: &[(Client, HandleId)], ino: u64) -> Vec<u64> {
    let of = |client: &Client| -> u64 {
        let held = client.leases().into_iter().filter(|held| held.ino == ino);
        held.flat_map(|held| {
            held.write
                .iter()
                .map(|r| r.end - r.start)
                .collect::<Vec<_>>()
        })
        .sum()
    };
    clients.iter().map(|(client, _)| of(client)).collect()
}

#[test]
fn parts_are_written_side_by_side() {
    with_cluster(2, async |cluster| {
        let (ino, clients) = sharing(&cluster, 4).await;
        let parts: Vec<Bytes> = (0..4).map(|i| pattern(i, 4 << 20)).collect();
        let writes = clients.iter().enumerate().map(|(i, (client, handle))| {
            let part = &parts[i];
            async move {
                for at in (0..4).map(|at| at * MIB) {
                    let piece = &part[at as usize..(at + MIB) as usize];
                    write(client, *handle, i as u64 * 4 * MIB + at, piece).await;
                }
            }
        });
        join_all(writes).await;
        // Each holds what it wrote: nobody had to give that back to go on.
        let held = written(&clients, ino);
        assert!(held.iter().all(|bytes| *bytes >= 4 * MIB), "{held:?}");
        let asked: u64 = clients
            .iter()
            .map(|(client, _)| client.figures().revocations)
            .sum();
        // To read it all another takes some of it from each, and sees it all.
        let (reader, handle) = &clients[0];
        let size = reader.getattr(ino).await.unwrap().attr.size;
        assert_eq!(size, 16 * MIB);
        for (i, part) in parts.iter().enumerate() {
            let got = read(reader, *handle, i as u64 * 4 * MIB, 4 * MIB).await;
            assert!(got == part[..], "part {i}");
        }
        assert!(asked < 30, "{asked} revocations for four parts");
        for (client, handle) in &clients {
            client.flush(*handle, None).await.unwrap();
            client.release(*handle, None).await.unwrap();
        }
        // When it is closed everywhere it is leased whole again.
        let known = async {
            loop {
                let known = reader.getattr(ino).await.unwrap();
                if known.leased {
                    return known;
                }
                cluster.env.sleep(Duration::from_millis(5)).await;
            }
        };
        let known = cluster.env.timeout(Duration::from_secs(5), known).await;
        let attr = known.unwrap().attr;
        assert_eq!(attr.size, 16 * MIB);
        assert_eq!(attr.allocated, 16 * MIB);
    });
}

#[test]
fn interleaved_records_need_no_leases_of_others() {
    with_cluster(2, async |cluster| {
        let (ino, clients) = sharing(&cluster, 3).await;
        let record = |i: u64| pattern(i, 64 << 10);
        let asked = |clients: &[(Client, HandleId)]| -> u64 {
            clients
                .iter()
                .map(|(client, _)| client.figures().revocations)
                .sum()
        };
        let round = async |from: u64| {
            let writes = clients
                .iter()
                .enumerate()
                .map(|(i, (client, handle))| async move {
                    for n in from..from + 40 {
                        let at = n * 3 + i as u64;
                        let data = record(at);
                        write(client, *handle, at * (64 << 10), &data).await;
                    }
                });
            join_all(writes).await;
        };
        round(0).await;
        let before = asked(&clients);
        round(40).await;
        // Who is in each other's way gets and keeps no more than what is used; then nobody is.
        let disputes = asked(&clients) - before;
        assert!(disputes <= 40, "{disputes} in 120 records, after {before}");
        round(80).await;
        let later = asked(&clients) - before - disputes;
        assert!(
            later <= 10,
            "{later} in 120 records, after {before} and {disputes}"
        );
        let (reader, handle) = &clients[2];
        for at in 0..360 {
            let got = read(reader, *handle, at * (64 << 10), 64 << 10).await;
            assert!(got == record(at)[..], "record {at}");
        }
        assert_eq!(reader.getattr(ino).await.unwrap().attr.size, 360 << 16);
    });
}

#[test]
fn the_same_bytes_are_written_in_turns() {
    with_cluster(1, async |cluster| {
        let (_, clients) = sharing(&cluster, 2).await;
        for turn in 0..40u8 {
            let (client, handle) = &clients[usize::from(turn % 2)];
            let (other, other_handle) = &clients[usize::from((turn + 1) % 2)];
            write(client, *handle, 100, &[turn; 50]).await;
            assert_eq!(read(other, *other_handle, 100, 50).await, [turn; 50]);
            assert_eq!(read(other, *other_handle, 149, 50).await, [turn]);
        }
    });
}

#[test]
fn sizes_and_appends_are_of_the_whole_file() {
    with_cluster(1, async |cluster| {
        let (ino, clients) = sharing(&cluster, 2).await;
        let (a, b) = (&clients[0], &clients[1]);
        write(&a.0, a.1, 0, &[1; 10]).await;
        write(&b.0, b.1, MIB, &[2; 10]).await;
        write(&a.0, a.1, 10, &[3; 10]).await;
        for (client, _) in &clients {
            let known = client.getattr(ino).await.unwrap();
            assert_eq!((known.attr.size, known.leased), (MIB + 10, false));
        }
        // Who knows of less sees the end where it is now.
        assert_eq!(read(&a.0, a.1, MIB + 5, 100).await, [2; 5]);
        assert_eq!(read(&a.0, a.1, 15, 10).await, [[3; 5], [0; 5]].concat());
        let end = Bytes::from_static(&[4; 7]);
        assert_eq!(a.0.write(a.1, 0, end, true).await.unwrap(), 7);
        assert_eq!(
            read(&b.0, b.1, MIB, 100).await,
            [&[2u8; 10][..], &[4; 7]].concat()
        );
        // A cut is one for all.
        let cut = SetAttr {
            size: Some(12),
            ..SetAttr::default()
        };
        b.0.setattr(&root(), ino, cut, Some(b.1)).await.unwrap();
        write(&a.0, a.1, 20, &[5; 2]).await;
        write(&b.0, b.1, 24, &[6; 2]).await;
        let all = [&[1u8; 10][..], &[3; 2], &[0; 8], &[5; 2], &[0; 2], &[6; 2]].concat();
        assert_eq!(read(&a.0, a.1, 0, 100).await, all);
        assert_eq!(read(&b.0, b.1, 0, 100).await, all);
    });
}

#[test]
fn what_is_written_beside_others_outlives_the_metadata_server() {
    with_cluster(2, async |cluster| {
        let (ino, clients) = sharing(&cluster, 2).await;
        let (a, b) = (&clients[0], &clients[1]);
        let (first, second) = (pattern(1, 2 << 20), pattern(2, 2 << 20));
        write(&a.0, a.1, 0, &first[..1 << 20]).await;
        write(&b.0, b.1, 8 * MIB, &second[..1 << 20]).await;
        assert!(written(&clients, ino).iter().all(|bytes| *bytes >= MIB));
        cluster.restart_meta(Duration::from_millis(50)).await;
        futures_util::future::join(
            write(&a.0, a.1, MIB, &first[1 << 20..]),
            write(&b.0, b.1, 9 * MIB, &second[1 << 20..]),
        )
        .await;
        assert_eq!(b.0.getattr(ino).await.unwrap().attr.size, 10 * MIB);
        assert!(read(&b.0, b.1, 0, 2 * MIB).await == first[..]);
        assert!(read(&a.0, a.1, 8 * MIB, 2 * MIB).await == second[..]);
        for (client, handle) in &clients {
            client.fsync(*handle, false).await.unwrap();
        }
    });
}
