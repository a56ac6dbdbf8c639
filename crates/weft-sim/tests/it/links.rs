//! Nodes whose connections share a link.

use futures_util::future::{join, join_all};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_env::{Env, Stream};
use weft_sim::{Link, World};

/// 100 Mbit/s.
const LINK: Link = Link {
    rate: 12_500_000,
    processor: 0,
};
/// Of that what is left for a connection's bytes: 1448 of each 1514.
const GOODPUT: f64 = 12_500_000.0 * 1448.0 / 1514.0;
const BYTES: usize = 2_000_000;

/// Nodes of these names, each with the link, and what each process there sees.
fn nodes<const N: usize>(names: [&str; N]) -> (World, [Env; N]) {
    let world = World::new(7);
    world.set_limit(Duration::from_secs(600));
    world.net().set_window(256 << 10);
    let envs = names.map(|name| {
        let env = world.node(name).env();
        world.net().set_link(name, LINK);
        env
    });
    (world, envs)
}

/// A connection to `b`, whose name is given: both its ends.
async fn pair(a: &Env, b: &Env, name: &str) -> (Stream, Stream) {
    let mut listener = b.listen(&format!("{name}:0")).await.unwrap();
    let address = listener.address();
    let (near, far) = join(a.connect(&address), listener.accept()).await;
    (near.unwrap(), far.unwrap())
}

/// Sends so many bytes; returns when the world's clock shows that all have come.
async fn transfer(world: World, (mut near, mut far): (Stream, Stream), bytes: usize) -> f64 {
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let sending = async {
        near.write_all(&sent).await.unwrap();
    };
    let receiving = async {
        let mut got = vec![0; bytes];
        far.read_exact(&mut got).await.unwrap();
        assert!(got == sent, "other bytes or another order");
        world.now().as_secs_f64()
    };
    join(sending, receiving).await.1
}

/// A stream each way over a connection, both of so many bytes.
async fn both_ways(world: World, (near, far): (Stream, Stream), bytes: usize) -> f64 {
    let (mut near_in, mut near_out) = tokio::io::split(near);
    let (mut far_in, mut far_out) = tokio::io::split(far);
    let data = vec![1; bytes];
    let (mut one, mut other) = (vec![0; bytes], vec![0; bytes]);
    let sending = join(near_out.write_all(&data), far_out.write_all(&data));
    let receiving = join(near_in.read_exact(&mut one), far_in.read_exact(&mut other));
    let (sent, received) = join(sending, receiving).await;
    sent.0.and(sent.1).unwrap();
    received.0.and(received.1).unwrap();
    world.now().as_secs_f64()
}

fn assert_near(value: f64, expected: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off < 0.03, "{value} beside {expected}");
}

#[test]
fn one_connection_has_all_of_the_link_both_ways_at_the_same_time() {
    let (world, [a, b]) = nodes(["a", "b"]);
    let handle = world.clone();
    world.block_on(async move {
        let ends = pair(&a, &b, "b").await;
        let start = handle.now().as_secs_f64();
        let end = transfer(handle.clone(), ends, BYTES).await;
        assert_near(end - start, BYTES as f64 / GOODPUT);
        let ends = pair(&a, &b, "b").await;
        let start = handle.now().as_secs_f64();
        let end = both_ways(handle.clone(), ends, BYTES).await;
        assert_near(end - start, BYTES as f64 / GOODPUT);
    });
}

#[test]
fn what_several_send_to_one_shares_its_way_in() {
    let (world, [a, b, c, d]) = nodes(["a", "b", "c", "d"]);
    let handle = world.clone();
    world.block_on(async move {
        let ends = [
            pair(&a, &d, "d").await,
            pair(&b, &d, "d").await,
            pair(&c, &d, "d").await,
        ];
        let start = handle.now().as_secs_f64();
        let all = ends.map(|ends| transfer(handle.clone(), ends, BYTES));
        let times = join_all(all).await;
        for end in times {
            assert_near(end - start, 3.0 * BYTES as f64 / GOODPUT);
        }
    });
}

#[test]
fn what_one_sends_to_several_shares_its_way_out_and_leaves_what_others_cannot_use() {
    let (world, [a, b, c, d]) = nodes(["a", "b", "c", "d"]);
    let handle = world.clone();
    world.block_on(async move {
        let ends = [pair(&a, &b, "b").await, pair(&a, &c, "c").await];
        let start = handle.now().as_secs_f64();
        let all = ends.map(|ends| transfer(handle.clone(), ends, BYTES));
        for end in join_all(all).await {
            assert_near(end - start, 2.0 * BYTES as f64 / GOODPUT);
        }
        // b and d send to c; a's half of c's way in is not a's whole way out: b gets the rest.
        let ends = [
            (pair(&a, &c, "c").await, BYTES),
            (pair(&b, &c, "c").await, BYTES),
            (pair(&a, &d, "d").await, BYTES),
        ];
        let start = handle.now().as_secs_f64();
        let all = ends.map(|(ends, bytes)| transfer(handle.clone(), ends, bytes));
        for end in join_all(all).await {
            assert_near(end - start, 2.0 * BYTES as f64 / GOODPUT);
        }
    });
}

#[test]
fn a_processor_is_shared_by_what_is_sent_and_what_is_received() {
    let (world, [a, b]) = nodes(["a", "b"]);
    // A fast wire; 50 MB/s of processor.
    let processor = 1024 * 20;
    for name in ["a", "b"] {
        let rate = 1_000_000_000;
        world.net().set_link(name, Link { rate, processor });
    }
    let handle = world.clone();
    world.block_on(async move {
        let ends = pair(&a, &b, "b").await;
        let start = handle.now().as_secs_f64();
        let end = transfer(handle.clone(), ends, BYTES).await;
        assert_near(end - start, BYTES as f64 / 50e6);
        let ends = pair(&a, &b, "b").await;
        let start = handle.now().as_secs_f64();
        let end = both_ways(handle.clone(), ends, BYTES).await;
        assert_near(end - start, 2.0 * BYTES as f64 / 50e6);
    });
}

#[test]
fn a_word_among_busy_connections_waits_for_a_turn_of_each_only() {
    let (world, [a, b, c]) = nodes(["a", "b", "c"]);
    let handle = world.clone();
    world.block_on(async move {
        for env in [&a, &b] {
            for _ in 0..4 {
                let ends = pair(env, &c, "c").await;
                let handle = handle.clone();
                env.spawn("busy", async move {
                    transfer(handle, ends, BYTES).await;
                });
            }
        }
        let (mut near, mut far) = pair(&a, &c, "c").await;
        handle.sleep(Duration::from_millis(200)).await;
        for _ in 0..20 {
            let start = handle.now();
            // One byte: more may go in two pieces, and so in two turns.
            near.write_all(b"!").await.unwrap();
            far.read_u8().await.unwrap();
            let took = handle.now() - start;
            // 4 others on the way out, 8 on the way in, half a millisecond each.
            assert!(took < Duration::from_millis(8), "{took:?}");
        }
    });
}

#[test]
fn other_nodes_and_the_loopback_are_not_slowed() {
    let (world, [a]) = nodes(["a"]);
    let [b, c] = ["b", "c"].map(|name| world.node(name).env());
    let handle = world.clone();
    world.block_on(async move {
        for (from, to, name) in [(&b, &c, "c"), (&a, &a, "a")] {
            let ends = pair(from, to, name).await;
            let start = handle.now().as_secs_f64();
            let end = transfer(handle.clone(), ends, BYTES).await;
            assert!(
                end - start < 0.5 * BYTES as f64 / GOODPUT,
                "{name}: {}",
                end - start
            );
        }
        // The link counts though only one end has one.
        let ends = pair(&b, &a, "a").await;
        let start = handle.now().as_secs_f64();
        let end = transfer(handle.clone(), ends, BYTES).await;
        assert_near(end - start, BYTES as f64 / GOODPUT);
    });
}

#[test]
fn what_waits_for_a_link_outlasts_a_cut_and_not_a_reset() {
    let (world, [a, b]) = nodes(["a", "b"]);
    let handle = world.clone();
    world.block_on(async move {
        let ends = pair(&a, &b, "b").await;
        let (net, clock) = (handle.net(), handle.clone());
        a.spawn("cut", async move {
            clock.sleep(Duration::from_millis(50)).await;
            net.cut("a", "b");
            clock.sleep(Duration::from_secs(1)).await;
            net.heal();
        });
        let end = transfer(handle.clone(), ends, BYTES).await;
        assert!(end > 1.0, "{end}");
        let (mut near, mut far) = pair(&a, &b, "b").await;
        near.write_all(&[1; 100_000]).await.unwrap();
        handle.net().reset("a", "b");
        let read = far.read(&mut [0; 10]).await.map_err(|error| error.kind());
        assert_eq!(read, Err(std::io::ErrorKind::ConnectionReset));
        // The way is free for others at once.
        let ends = pair(&a, &b, "b").await;
        let start = handle.now().as_secs_f64();
        let end = transfer(handle.clone(), ends, BYTES).await;
        assert_near(end - start, BYTES as f64 / GOODPUT);
    });
}

#[test]
fn a_node_that_loses_power_takes_what_it_had_not_sent_with_it() {
    let (world, [a, b]) = nodes(["a", "b"]);
    let handle = world.clone();
    let node = world.node("a");
    world.block_on(async move {
        let (mut near, mut far) = pair(&a, &b, "b").await;
        near.write_all(&[1; 200_000]).await.unwrap();
        handle.sleep(Duration::from_millis(5)).await;
        node.power_cut();
        handle.sleep(Duration::from_secs(1)).await;
        let mut got = vec![0; 200_000];
        let first = far.read(&mut got).await.unwrap();
        assert!((10_000..100_000).contains(&first), "{first}");
        drop(near);
    });
}
