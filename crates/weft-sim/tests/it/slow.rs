//! Clients whose data servers are slow, or answer nothing at all; a metadata server whose disk is slow.

mod cut_by_name;
mod cut_off;
mod departed;
mod forgotten;
mod in_doubt;
mod late;
mod lock_in_doubt;
mod onlookers;
mod shared_cut;
mod stood_still;

use bytes::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, HandleId, OpenFlags, Policy, SetAttr, Settings};
use weft_rpc::{Connection, Local, Payload, Request};
use weft_sim::cluster::builder::{Cluster, Shape};
use weft_sim::{DiskFaults, Logs, Pace, World};
use weft_wire::Failed;
use weft_wire::proto::identity::Role;
use weft_wire::proto::job::What;
use weft_wire::proto::{DrainPair, Durability, Identity, Job, Protocol, StartJobRequest};

const SECOND: Duration = Duration::from_secs(1);
const BYTES: usize = 1 << 20;
const SESSION_TERM: Duration = Duration::from_secs(10);
/// After which a client gives a connection up on which nothing moves.
const UNANSWERED: Duration = Duration::from_secs(20);
/// For which a client tries to reach a server.
const CONNECT_PATIENCE: Duration = SECOND;

/// A cluster of one pair, with or without its second member.
async fn cluster(world: &World, is_mirrored: bool) -> Rc<Cluster> {
    let cluster = cluster_of(world, 1).await;
    if !is_mirrored {
        cluster.stop_data(0, 1, false);
        world.sleep(2 * SECOND).await;
    }
    cluster
}

async fn cluster_of(world: &World, pairs: u32) -> Rc<Cluster> {
    cluster_with(world, pairs, Durability::Memory).await
}

async fn cluster_with(world: &World, pairs: u32, durability: Durability) -> Rc<Cluster> {
    let shape = Shape {
        groups: 1,
        members: 1,
        pairs,
        clients: 0,
        operations: 0,
        even: false,
        session_term: SESSION_TERM,
        client: Settings::default(),
        meta: weft_meta::Settings::default(),
        data: weft_data::Settings::default(),
        room: 1 << 30,
        policy: Policy {
            stripe_unit: BYTES as u32,
            width: 1,
            protocol: Protocol::ServerSync as i32,
            durability: durability as i32,
        },
    };
    let cluster = Rc::new(Cluster::new(world, shape));
    cluster.start().await.unwrap();
    cluster
}

async fn client(cluster: &Cluster, name: &str) -> Client {
    let env = cluster.world.node(name).env();
    let connecting = Client::connect(env, cluster.client_settings(name));
    connecting.await.unwrap()
}

/// One that gives up what is not answered for so long.
async fn impatient(cluster: &Cluster, name: &str, patience_ms: u64) -> Client {
    let settings = Settings {
        patience_ms,
        ..cluster.client_settings(name)
    };
    let connecting = Client::connect(cluster.world.node(name).env(), settings);
    connecting.await.unwrap()
}

/// Two clients; what the first writes leaves it at `rate` bytes a second.
async fn clients_of_which_one_is_slow(cluster: &Cluster, rate: u64) -> [Client; 2] {
    let clients = [client(cluster, "one").await, client(cluster, "other").await];
    for member in ["data0.0", "data0.1"] {
        let pace = Pace {
            rate,
            ..Pace::default()
        };
        cluster.world.net().set_pace("one", member, pace);
    }
    clients
}

async fn create(client: &Client, name: &[u8], sync: bool) -> (u64, HandleId) {
    let flags = CreateFlags {
        exclusive: true,
        open: OpenFlags {
            write: true,
            sync,
            ..OpenFlags::default()
        },
    };
    let cred = Cred::default();
    let created = client.create(&cred, client.root(), name, 0o644, flags);
    let (known, handle) = created.await.unwrap();
    (known.attr.ino, handle)
}

#[test]
fn a_read_ends_well_however_long_its_bytes_take_to_come() {
    let world = World::new(1);
    world.set_limit(600 * SECOND);
    world.clone().block_on(async move {
        let cluster = cluster(&world, false).await;
        let content: Bytes = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let writer = client(&cluster, "writer").await;
        let (ino, handle) = create(&writer, b"file", true).await;
        let written = writer.write(handle, 0, content.clone(), false).await;
        assert_eq!(written, Ok(BYTES));
        writer.release(handle, None).await.unwrap();
        let reader = client(&cluster, "reader").await;
        let slow = Pace {
            rate: BYTES as u64 / (3 * UNANSWERED.as_secs() / 2),
            ..Pace::default()
        };
        world.net().set_pace("data0.0", "reader", slow);
        let flags = OpenFlags {
            read: true,
            ..OpenFlags::default()
        };
        let handle = reader.open(&Cred::default(), ino, flags).await.unwrap();
        let began = world.now();
        let got = reader.read(handle, 0, BYTES).await.unwrap().concat();
        assert!(got == content, "other bytes");
        let took = world.now() - began;
        assert!(took > UNANSWERED, "not slow: {took:?}");
        // Had it been asked again, it would have taken twice as long.
        assert!(took < 2 * UNANSWERED, "{took:?}");
    });
}

#[test]
fn a_server_that_cannot_be_reached_is_waited_for_until_it_is_out_of_service() {
    for seed in 0..4 {
        let world = World::new(seed);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster(&world, true).await;
            let writer = client(&cluster, "writer").await;
            let (_, handle) = create(&writer, b"file", true).await;
            // It has been connected to neither of them. Leads of both kinds of stripes are cut off.
            let gone = format!("data0.{}", seed % 2);
            world.net().isolate(&gone);
            let began = world.now();
            let written = writer
                .write(handle, 0, Bytes::from(vec![1; BYTES]), false)
                .await;
            assert_eq!(written, Ok(BYTES), "{gone}");
            let took = world.now() - began;
            assert!(took < CONNECT_PATIENCE * 9 / 10, "{gone}: {took:?}");
        });
    }
}

#[test]
fn who_reads_what_another_has_written_waits_for_no_timer() {
    const TURNS: u32 = 20;
    let world = World::new(1);
    world.set_limit(600 * SECOND);
    world.set_poll_cost(0..0);
    world.net().set_default_pace(Pace {
        latency: 1_000..2_000,
        ..Pace::default()
    });
    world.clone().block_on(async move {
        let cluster = cluster(&world, true).await;
        for node in cluster.data.iter().flatten().chain(&cluster.meta) {
            node.disk().set_faults(DiskFaults {
                sync_nanos: 1_000..2_000,
                ..DiskFaults::default()
            });
        }
        let [one, other] = [
            client(&cluster, "one").await,
            client(&cluster, "other").await,
        ];
        let (ino, written) = create(&one, b"file", true).await;
        let flags = OpenFlags {
            read: true,
            write: true,
            ..OpenFlags::default()
        };
        let read = other.open(&Cred::default(), ino, flags).await.unwrap();
        let data = |turn: u32| Bytes::from(vec![turn as u8; 4096]);
        // Both write it for a while: from then on the service grants parts.
        for turn in 0..TURNS {
            one.write(written, 0, data(turn), false).await.unwrap();
            other.write(read, 0, data(turn), false).await.unwrap();
        }
        let mut waited = Vec::new();
        for turn in 1..=TURNS {
            one.write(written, 0, data(turn), false).await.unwrap();
            let began = world.now();
            let got = other.read(read, 0, 4096).await.unwrap().concat();
            waited.push(world.now() - began);
            assert!(got == data(turn), "turn {turn}");
        }
        // A timer would be of a millisecond. (The first finds that nobody else writes any more.)
        waited.sort();
        assert!(
            waited[waited.len() / 2] < Duration::from_micros(500),
            "{waited:?}"
        );
    });
}

#[test]
fn nobody_waits_for_what_a_writer_has_still_to_write_but_who_reads_it() {
    const PART: usize = 8 << 20;
    const AT_ONCE: Duration = Duration::from_millis(100);
    let world = World::new(1);
    world.set_limit(600 * SECOND);
    world.clone().block_on(async move {
        let cluster = cluster(&world, true).await;
        let [one, other] = clients_of_which_one_is_slow(&cluster, 4 << 20).await;
        let began = Cell::new(world.now());
        let at_once = |what: &str| {
            let took = world.now() - began.replace(world.now());
            assert!(took < AT_ONCE, "{what}: {took:?}");
        };
        let (ino, first) = create(&one, b"file", false).await;
        let data = |byte: u8| Bytes::from(vec![byte; PART]);
        one.write(first, 0, data(1), false).await.unwrap();
        at_once("buffered");
        let cred = Cred::default();
        for part in 1..3 {
            let found = other.lookup(&cred, other.root(), b"file").await.unwrap();
            assert_eq!(found.entry.unwrap().attr.size, (part * PART) as u64);
            at_once("looked up");
            let known = other.getattr(ino).await.unwrap();
            assert_eq!(known.attr.size, (part * PART) as u64);
            at_once("attributes");
            // It writes alone as before.
            let end = (part * PART) as u64;
            one.write(first, end, data(1), false).await.unwrap();
            at_once("written on");
        }
        let flags = OpenFlags {
            read: true,
            write: true,
            ..OpenFlags::default()
        };
        let second = other.open(&cred, ino, flags).await.unwrap();
        at_once("opened");
        let end = 3 * PART as u64;
        other.write(second, end, data(2), false).await.unwrap();
        at_once("written beside it");
        let found = one.getattr(ino).await.unwrap();
        assert_eq!(found.attr.size, end + PART as u64);
        at_once("attributes of both");
        let read = other.read(second, end - 4096, 8192).await.unwrap().concat();
        assert!(read[..4096] == data(1)[..4096] && read[4096..] == data(2)[..4096]);
        assert!(world.now() - began.get() > SECOND, "it was written already");
        other.fsync(second, false).await.unwrap();
        one.fsync(first, false).await.unwrap();
    });
}

#[test]
fn who_writes_back_slowly_keeps_its_session_and_what_it_has_written() {
    const PART: usize = 8 << 20;
    let world = World::new(1);
    world.set_limit(600 * SECOND);
    world.clone().block_on(async move {
        let cluster = cluster(&world, true).await;
        let [one, other] = clients_of_which_one_is_slow(&cluster, 512 << 10).await;
        let (ino, first) = create(&one, b"file", false).await;
        for part in 0..3 {
            let data = Bytes::from(vec![part as u8 + 1; PART]);
            one.write(first, (part * PART) as u64, data, false)
                .await
                .unwrap();
        }
        let flags = OpenFlags {
            read: true,
            ..OpenFlags::default()
        };
        let cred = Cred::default();
        let began = world.now();
        let second = other.open(&cred, ino, flags).await.unwrap();
        let end = 3 * PART as u64;
        let read = other.read(second, end - 4096, 8192).await.unwrap().concat();
        assert_eq!(read, vec![3; 4096]);
        let took = world.now() - began;
        assert!(took > 2 * SESSION_TERM, "not slow: {took:?}");
        assert_eq!(one.fsync(first, false).await, Ok(()));
    });
}

#[test]
fn what_is_written_after_a_cut_counts_though_an_earlier_change_is_not_answered() {
    let world = World::new(1);
    world.set_limit(600 * SECOND);
    world.clone().block_on(async move {
        let cluster = cluster(&world, true).await;
        let clients = [
            client(&cluster, "one").await,
            client(&cluster, "other").await,
        ];
        let [one, other] = &clients;
        let (busy, _) = create(other, b"busy", false).await;
        let (ino, _) = create(one, b"file", false).await;
        let cred = Cred::default();
        let changing = async {
            let set = SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            };
            one.setattr(&cred, busy, set, None).await.unwrap();
            world.now()
        };
        let cutting = async {
            // What the change needs to know comes late.
            world.node("other").pause();
            world.sleep(SECOND / 10).await;
            let flags = CreateFlags {
                exclusive: false,
                open: OpenFlags {
                    write: true,
                    truncate: true,
                    ..OpenFlags::default()
                },
            };
            let cut = one.create(&cred, one.root(), b"file", 0o644, flags);
            let (known, handle) = cut.await.unwrap();
            assert_eq!(known.attr.ino, ino);
            let written = Bytes::from(vec![1; 100]);
            one.write(handle, 0, written, false).await.unwrap();
            one.fsync(handle, false).await.unwrap();
            let third = client(&cluster, "third").await;
            let size = third.getattr(ino).await.unwrap().attr.size;
            let until = world.now();
            world.node("other").resume();
            (size, until)
        };
        let (changed, (size, until)) = futures_util::future::join(changing, cutting).await;
        assert!(changed > until, "nothing was left unanswered");
        assert_eq!(size, 100);
    });
}

async fn tool(world: &World) -> Connection {
    let env = world.node("tool").env();
    let local = Local::new(
        "sim".into(),
        Identity {
            role: Role::Tool as i32,
            id: 0,
            incarnation: env.random(),
            group: 0,
        },
    );
    let refuse = Rc::new(|_: &Connection, request: Request| {
        request.replier.fail(Failed::Refused("a tool".into()));
    });
    weft_rpc::connect(&env, "meta:7400", &local, refuse)
        .await
        .unwrap()
}

/// The removal of a drained pair is known at once, and in the journal later: what befalls its members meanwhile is
/// nobody's concern any more.
#[test]
fn members_may_die_while_the_removal_of_their_pair_is_written() {
    let logs = Logs::new(tracing::Level::INFO);
    let seen = logs.clone();
    logs.collect(|| {
        let world = World::new(1);
        world.set_limit(600 * SECOND);
        world.clone().block_on(async move {
            let cluster = cluster_of(&world, 2).await;
            let tool = tool(&world).await;
            let sync_nanos = 100_000_000..100_000_001;
            cluster.meta[0].disk().set_faults(DiskFaults {
                sync_nanos,
                ..DiskFaults::default()
            });
            let drain = StartJobRequest {
                job: Some(Job {
                    what: Some(What::Drain(DrainPair { pair: 1 })),
                    ..Job::default()
                }),
            };
            tool.call(&drain, Payload::none()).await.unwrap();
            let is_removed = || {
                let lines = seen.lines();
                lines
                    .iter()
                    .any(|line| line.message == "pair drained and removed")
            };
            while !is_removed() {
                world.sleep(Duration::from_millis(5)).await;
            }
            cluster.stop_data(1, 0, false);
            world.sleep(2 * SECOND).await;
            assert_eq!(cluster.removed_pairs(), Some(vec![1]));
        });
    });
    let mut odd = logs.of_level(tracing::Level::WARN);
    odd.retain(|line| line.node == "meta");
    assert!(odd.is_empty(), "{odd:#?}");
}
