//! Figures of the client alone, against servers in the same process and thread. Not run by default:
//! `cargo test --release -p weft-client --test it speed:: -- --ignored --nocapture --test-threads 1`.

use crate::support::*;
use futures_util::future::join_all;
use weft_client::*;

fn cpu_seconds() -> f64 {
    // SAFETY: getrusage fills the struct it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    time(usage.ru_utime) + time(usage.ru_stime)
}

async fn measured(cluster: &Cluster, what: &str, count: f64, unit: &str, work: impl Future) {
    let (begun, cpu) = (cluster.env.now(), cpu_seconds());
    work.await;
    let took = cluster.env.now().since(begun).as_secs_f64();
    let cpu = cpu_seconds() - cpu;
    println!(
        "{what}: {:.0} {unit}/s, {:.1} us of CPU each",
        count / took,
        cpu * 1e6 / count
    );
}

#[test]
#[ignore = "figures, not a check"]
fn figures() {
    with_kind(2, Kind::Real, &async |cluster: std::rc::Rc<Cluster>| {
        let client = cluster.client().await;
        let cred = &root();
        let flags = CreateFlags {
            exclusive: true,
            open: RW,
        };
        let dir = |name: &'static str| {
            let client = client.clone();
            async move {
                let made = client.mkdir(cred, client.root(), name.as_bytes(), 0o755);
                made.await.unwrap().attr.ino
            }
        };
        for (name, tasks) in [("creates, 1 at a time", 1), ("creates, 8 at a time", 8)] {
            let dir = dir(name).await;
            let makers = (0..tasks).map(|t| {
                let client = client.clone();
                async move {
                    for n in 0..8000 / tasks {
                        let name = format!("{t}-{n}");
                        let made = client.create(cred, dir, name.as_bytes(), 0o644, flags);
                        let (_, handle) = made.await.unwrap();
                        client.flush(handle, None).await.unwrap();
                        client.release(handle, None).await.unwrap();
                    }
                }
            });
            measured(&cluster, name, 8000.0, "files", join_all(makers)).await;
        }
        let small = dir("small").await;
        let data = pattern(1, 4096);
        measured(&cluster, "create + 4 KiB + close", 5000.0, "files", async {
            for n in 0..5000 {
                let name = n.to_string();
                let made = client.create(cred, small, name.as_bytes(), 0o644, flags);
                let (_, handle) = made.await.unwrap();
                client.write(handle, 0, data.clone(), false).await.unwrap();
                client.flush(handle, None).await.unwrap();
                client.release(handle, None).await.unwrap();
            }
        })
        .await;
        let data = pattern(2, 1 << 20);
        let mut large = None;
        for piece_kib in [256, 512, 1024] {
            let settings = Settings {
                piece_bytes: piece_kib << 10,
                ..cluster.settings()
            };
            let writer = Client::connect(cluster.env.clone(), settings)
                .await
                .unwrap();
            let name = format!("large {piece_kib}");
            let made = writer.create(cred, small, name.as_bytes(), 0o644, flags);
            let (known, handle) = made.await.unwrap();
            let what = format!("sequential write, pieces of {piece_kib} KiB");
            measured(&cluster, &what, 512.0, "MiB", async {
                for n in 0..512u64 {
                    writer
                        .write(handle, n << 20, data.clone(), false)
                        .await
                        .unwrap();
                }
                writer.fsync(handle, false).await.unwrap();
            })
            .await;
            writer.close().await.unwrap();
            large = Some(known.attr.ino);
        }
        let opened = client.open(cred, large.unwrap(), RW).await;
        let large = opened.unwrap();
        measured(&cluster, "sequential read", 512.0, "MiB", async {
            for n in 0..4096u64 {
                let got = client.read(large, n << 17, 1 << 17).await.unwrap();
                assert_eq!(got.iter().map(|p| p.len()).sum::<usize>(), 1 << 17);
            }
        })
        .await;
        let data = pattern(3, 4096);
        let mut x = 1u64;
        let mut at = move || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (x >> 33) % (512 << 8) * 4096
        };
        measured(&cluster, "random 4 KiB writes", 40_000.0, "writes", async {
            for _ in 0..40_000 {
                client
                    .write(large, at(), data.clone(), false)
                    .await
                    .unwrap();
            }
        })
        .await;
        measured(
            &cluster,
            "flush of them",
            40_000.0,
            "writes",
            client.fsync(large, false),
        )
        .await;
    });
}

const FLAGS: CreateFlags = CreateFlags {
    exclusive: false,
    open: RW,
};

/// Several clients that have one file open.
async fn sharing(cluster: &Cluster, name: &str, count: usize) -> Vec<(Client, HandleId)> {
    let mut sharing = Vec::new();
    for _ in 0..count {
        let client = cluster.client().await;
        let cred = root();
        let made = client.create(&cred, client.root(), name.as_bytes(), 0o644, FLAGS);
        let (_, handle) = made.await.unwrap();
        sharing.push((client, handle));
    }
    sharing
}

/// The same bytes written by two clients, whose lease goes from one to the other, beside those of one
/// client that syncs each write: both put every write on both members.
#[test]
#[ignore = "figures, not a check"]
fn figures_of_the_same_bytes() {
    const WRITES: usize = 1000;
    with_kind(2, Kind::Real, &async |cluster: std::rc::Rc<Cluster>| {
        for size in [4 << 10, 1 << 20] {
            let name = format!("same {size}");
            let clients = sharing(&cluster, &name, 2).await;
            let data = pattern(size as u64, size);
            let write = async |(client, handle): &(Client, HandleId)| {
                let written = client.write(*handle, 0, data.clone(), false).await;
                written.unwrap();
            };
            let of = |what: &str| format!("{what}, {} KiB", size >> 10);
            let first = &clients[0];
            measured(
                &cluster,
                &of("one client, synced"),
                WRITES as f64,
                "writes",
                async {
                    for _ in 0..WRITES {
                        write(first).await;
                        first.0.fsync(first.1, true).await.unwrap();
                    }
                },
            )
            .await;
            measured(
                &cluster,
                &of("two in turns"),
                WRITES as f64,
                "writes",
                async {
                    for turn in 0..WRITES {
                        write(&clients[turn % 2]).await;
                    }
                },
            )
            .await;
            let longest = std::cell::Cell::new(std::time::Duration::ZERO);
            measured(
                &cluster,
                &of("two at once"),
                2.0 * WRITES as f64,
                "writes",
                async {
                    let writer = async |client: &(Client, HandleId)| {
                        for _ in 0..WRITES {
                            let begun = cluster.env.now();
                            write(client).await;
                            let took = cluster.env.now().since(begun);
                            longest.set(longest.get().max(took));
                        }
                    };
                    join_all(clients.iter().map(writer)).await;
                },
            )
            .await;
            println!("  the longest of these took {:?}", longest.get());
            measured(
                &cluster,
                &of("one writes, the other reads"),
                WRITES as f64,
                "pairs",
                async {
                    for _ in 0..WRITES {
                        write(first).await;
                        let (client, handle) = &clients[1];
                        client.read(*handle, 0, size).await.unwrap();
                    }
                },
            )
            .await;
        }
    });
}

/// Clients that write their own parts of one file, beside as many files.
#[test]
#[ignore = "figures, not a check"]
fn figures_of_parts() {
    const CLIENTS: usize = 4;
    const PART: u64 = 64 << 20;
    with_kind(2, Kind::Real, &async |cluster: std::rc::Rc<Cluster>| {
        let data = pattern(1, 1 << 20);
        for round in 0..2 {
            let shared = sharing(&cluster, &format!("one {round}"), CLIENTS).await;
            let mut own = Vec::new();
            for n in 0..CLIENTS {
                own.extend(sharing(&cluster, &format!("own {round} {n}"), 1).await);
            }
            let apart = |n: u64, at: u64| n * PART + at;
            let striped = |n: u64, at: u64| at * CLIENTS as u64 + (n << 20);
            for (what, clients, place) in [
                (
                    "files of their own",
                    &own,
                    &(|_, at| at) as &dyn Fn(u64, u64) -> u64,
                ),
                ("parts of one file", &shared, &apart),
                ("records in turn of one file", &shared, &striped),
            ] {
                let writer = async |n: usize| {
                    let (client, handle) = &clients[n];
                    for at in (0..PART).step_by(1 << 20) {
                        let offset = place(n as u64, at);
                        let written = client.write(*handle, offset, data.clone(), false);
                        written.await.unwrap();
                    }
                    client.fsync(*handle, false).await.unwrap();
                };
                let mib = ((CLIENTS as u64 * PART) >> 20) as f64;
                let all = join_all((0..CLIENTS).map(writer));
                measured(&cluster, what, mib, "MiB", all).await;
            }
        }
    });
}
