//! Streams between nodes, and what can happen to them.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream};
use weft_sim::{Node, Pace, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

struct Two {
    world: World,
    a: Node,
    b: Node,
}

fn two(seed: u64) -> Two {
    let world = World::new(seed);
    world.set_limit(Duration::from_secs(600));
    Two {
        a: world.node("a"),
        b: world.node("b"),
        world,
    }
}

/// A connection from `a` to `b`: both its ends.
async fn join(a: &Env, b: &Env) -> (Stream, Stream) {
    let mut listener = b.listen("b:0").await.unwrap();
    let address = listener.address();
    let (near, far) = futures_util::future::join(a.connect(&address), listener.accept()).await;
    (near.unwrap(), far.unwrap())
}

#[test]
fn bytes_arrive_in_order_and_in_pieces() {
    for seed in 0..20 {
        let two = two(seed);
        let (a, b) = (two.a.env(), two.b.env());
        two.world.block_on(async move {
            let (mut near, mut far) = join(&a, &b).await;
            assert!(near.peer().starts_with("b:"), "{}", near.peer());
            assert!(far.peer().starts_with("a:"), "{}", far.peer());
            let sent: Vec<u8> = (0..500_000u32).map(|n| (n * 7 / 3) as u8).collect();
            let copy = sent.clone();
            a.spawn("sender", async move {
                near.write_all(&copy).await.unwrap();
                near.shutdown().await.unwrap();
                let mut rest = Vec::new();
                near.read_to_end(&mut rest).await.unwrap();
            });
            let mut got = Vec::new();
            let mut sizes = std::collections::BTreeSet::new();
            let mut buffer = [0; 10_000];
            loop {
                let n = far.read(&mut buffer).await.unwrap();
                if n == 0 {
                    break;
                }
                sizes.insert(n);
                got.extend_from_slice(&buffer[..n]);
            }
            assert!(got == sent);
            assert!(sizes.len() > 5, "{sizes:?}");
        });
    }
}

#[test]
fn a_writer_that_is_ahead_waits() {
    let two = two(1);
    let (a, b) = (two.a.env(), two.b.env());
    let handle = two.world.clone();
    two.world.block_on(async move {
        let (mut near, mut far) = join(&a, &b).await;
        let written = Rc::new(Cell::new(0usize));
        let count = written.clone();
        a.spawn("sender", async move {
            loop {
                count.set(count.get() + near.write(&[1; 4096]).await.unwrap());
            }
        });
        handle.sleep(SECOND).await;
        let first = written.get();
        assert!(first <= 4096 << 7, "{first}");
        handle.sleep(SECOND).await;
        assert_eq!(written.get(), first);
        let mut buffer = vec![0; first];
        far.read_exact(&mut buffer).await.unwrap();
        handle.sleep(SECOND).await;
        assert!(written.get() > first);
    });
}

#[test]
fn nobody_listening_refuses_and_a_strange_host_is_no_host() {
    let two = two(2);
    let (a, b) = (two.a.env(), two.b.env());
    two.world.block_on(async move {
        let kind = |result: io::Result<Stream>| result.err().unwrap().kind();
        assert_eq!(
            kind(a.connect("b:7").await),
            io::ErrorKind::ConnectionRefused
        );
        assert_eq!(kind(a.connect("nowhere:7").await), io::ErrorKind::NotFound);
        assert_eq!(
            kind(a.connect("nonsense").await),
            io::ErrorKind::InvalidInput
        );
        let listener = b.listen("127.0.0.1:7").await.unwrap();
        assert_eq!(listener.address(), "b:7");
        assert_eq!(
            b.listen("b:7").await.err().unwrap().kind(),
            io::ErrorKind::AddrInUse
        );
        assert!(a.connect("b:7").await.is_ok());
        assert!(b.connect("localhost:7").await.is_ok());
        drop(listener);
        assert_eq!(
            kind(a.connect("b:7").await),
            io::ErrorKind::ConnectionRefused
        );
    });
}

#[test]
fn a_kill_is_seen_by_the_peer_soon() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let two = two(seed);
        let (a, b) = (two.a.env(), two.b.env());
        let world = two.world.clone();
        let victim = two.b.clone();
        let kind = two.world.block_on(async move {
            let (mut near, mut far) = join(&a, &b).await;
            far.write_all(b"last words").await.unwrap();
            if world.seed().is_multiple_of(2) {
                near.write_all(b"never read").await.unwrap();
                world.sleep(100 * MS).await;
            }
            victim.kill();
            let before = world.now();
            let mut words = [0; 10];
            near.read_exact(&mut words).await.unwrap();
            assert_eq!(&words, b"last words");
            let end = near.read(&mut words).await.map_err(|error| error.kind());
            assert!(world.now() - before < 50 * MS);
            // Then writing fails as well, at the latest when the answer is back.
            world.sleep(100 * MS).await;
            let _ = near.write(b"x").await;
            world.sleep(100 * MS).await;
            assert!(near.write(b"y").await.is_err());
            assert_eq!(
                a.connect("b:32769").await.err().unwrap().kind(),
                io::ErrorKind::ConnectionRefused
            );
            format!("{end:?}")
        });
        kinds.insert(kind);
    }
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["Err(ConnectionReset)", "Ok(0)"]
    );
}

#[test]
fn a_power_cut_is_silent_until_the_machine_is_back() {
    let two = two(3);
    let (a, b) = (two.a.env(), two.b.env());
    let world = two.world.clone();
    let victim = two.b.clone();
    two.world.block_on(async move {
        let (mut near, _far) = join(&a, &b).await;
        victim.power_cut();
        near.write_all(b"anyone?").await.unwrap();
        assert!(a.timeout(20 * SECOND, near.read_u8()).await.is_err());
        assert!(a.timeout(20 * SECOND, a.connect("b:7")).await.is_err());
        victim.start(|env| async move {
            let mut listener = env.listen("b:7").await.unwrap();
            listener.accept().await.unwrap();
        });
        let end = a.timeout(SECOND, near.read_u8()).await.unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        a.timeout(2 * SECOND, a.connect("b:7"))
            .await
            .unwrap()
            .unwrap();
        drop(world);
    });
}

#[test]
fn a_cut_holds_bytes_and_connects_and_heals() {
    let two = two(4);
    let (a, b) = (two.a.env(), two.b.env());
    let world = two.world.clone();
    two.world.block_on(async move {
        let (mut near, mut far) = join(&a, &b).await;
        let _listener = b.listen("b:7").await.unwrap();
        world.net().cut("a", "b");
        near.write_all(b"to b").await.unwrap();
        far.write_all(b"to a").await.unwrap();
        let mut word = [0; 4];
        assert!(b.timeout(SECOND, far.read_u8()).await.is_err());
        assert!(a.timeout(SECOND, near.read_u8()).await.is_err());
        assert!(a.timeout(SECOND, a.connect("b:7")).await.is_err());
        world.net().heal_between("a", "b");
        far.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"to b");
        near.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"to a");
        a.connect("b:7").await.unwrap();
        // A connect that began in the cut ends well after it.
        world.net().isolate("b");
        let late = a.clone();
        let done = Rc::new(Cell::new(false));
        let told = done.clone();
        a.spawn("late", async move {
            late.connect("b:7").await.unwrap();
            told.set(true);
        });
        world.sleep(5 * SECOND).await;
        assert!(!done.get());
        world.net().heal();
        world.sleep(2 * SECOND).await;
        assert!(done.get());
    });
}

#[test]
fn a_cut_that_lasts_ends_a_connect() {
    let two = two(5);
    let (a, _b) = (two.a.env(), two.b.env());
    let world = two.world.clone();
    two.world.block_on(async move {
        world.net().cut_one_way("b", "a");
        let error = a.connect("b:7").await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn a_one_way_cut_lets_the_other_way_through_until_the_window_is_full() {
    let two = two(6);
    let (a, b) = (two.a.env(), two.b.env());
    let world = two.world.clone();
    two.world.block_on(async move {
        let (mut near, mut far) = join(&a, &b).await;
        world.net().cut_one_way("a", "b");
        near.write_all(b"lost").await.unwrap();
        far.write_all(b"here").await.unwrap();
        let mut word = [0; 4];
        near.read_exact(&mut word).await.unwrap();
        assert!(b.timeout(SECOND, far.read_u8()).await.is_err());
        let sent = Rc::new(Cell::new(0));
        let count = sent.clone();
        let (mut halves, mut writer) = tokio::io::split(far);
        b.spawn("writer", async move {
            loop {
                count.set(count.get() + writer.write(&[7; 1000]).await.unwrap());
            }
        });
        let drain = async {
            let mut buffer = vec![0; 65536];
            loop {
                assert!(near.read(&mut buffer).await.unwrap() > 0);
            }
        };
        let _: Result<(), _> = a.timeout(5 * SECOND, drain).await;
        let full = sent.get();
        assert!(full <= 4096 << 7, "{full}");
        world.net().heal();
        let mut buffer = vec![0; 65536];
        world.sleep(SECOND).await;
        assert!(sent.get() > full);
        assert!(near.read(&mut buffer).await.unwrap() > 0);
        halves.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"lost");
    });
}

#[test]
fn slow_links_and_resets() {
    let two = two(7);
    let (a, b) = (two.a.env(), two.b.env());
    let world = two.world.clone();
    two.world.block_on(async move {
        let (mut near, mut far) = join(&a, &b).await;
        let slow = Pace {
            latency: 400_000_000..500_000_000,
            rate: 1 << 20,
            ..Pace::default()
        };
        world.net().set_pace("a", "b", slow);
        let before = world.now();
        near.write_all(b"slow").await.unwrap();
        let mut word = [0; 4];
        far.read_exact(&mut word).await.unwrap();
        assert!(world.now() - before >= 400 * MS);
        far.write_all(b"fast").await.unwrap();
        near.read_exact(&mut word).await.unwrap();
        assert!(world.now() - before < 600 * MS);
        world.net().reset("a", "b");
        assert!(near.read_u8().await.is_err());
        assert!(far.write_all(b"x").await.is_err());
        drop((near, far));
        assert_eq!(world.net().connections(), 0);
    });
}

#[test]
fn a_paused_node_accepts_and_buffers_but_answers_nothing() {
    let two = two(8);
    let a = two.a.env();
    let world = two.world.clone();
    let b = two.b.clone();
    two.world.block_on(async move {
        b.start(|env| async move {
            let mut listener = env.listen("b:7").await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            let byte = stream.read_u8().await.unwrap();
            stream.write_u8(byte + 1).await.unwrap();
            std::future::pending::<()>().await;
        });
        world.sleep(MS).await;
        b.pause();
        // The kernel of a stopped process still completes connects.
        let mut stream = a.connect("b:7").await.unwrap();
        stream.write_u8(1).await.unwrap();
        assert!(a.timeout(SECOND, stream.read_u8()).await.is_err());
        b.resume();
        assert_eq!(stream.read_u8().await.unwrap(), 2);
    });
}
