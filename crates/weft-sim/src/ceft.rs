//! CEFT's write benchmark (Zhu and Jiang, 2006, figure 7) in virtual time: the real code of servers
//! and clients on links of a set rate, more nodes than one machine has room for.
//!
//! n clients each write a file of their own; the slowest one decides. There are no faults and no
//! oracles here. What is modelled stands in [`Setting`] and nowhere else: links and, if asked for, what
//! processors need for each byte ([`crate::Link`]), latency, the connections' windows. Disks are a page
//! cache that is large enough. `cargo run --release -p weft-sim --example ceft` prints the curves, and `cargo xtask bench
//! ceft --simulated` sets them beside the paper's.

use crate::cluster::builder::{Cluster, Shape};
use crate::{Link, LogLine, Logs, Pace, World};
use bytes::Bytes;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weft_client::{Client, CreateFlags, Cred, Errno, OpenFlags};
use weft_env::Env;
use weft_pair::Mode;
use weft_types::Member;
use weft_wire::proto::{Durability, Protocol};

/// How often a client looks whether all that it wrote has been answered, as `weft bench stream` does.
const LOOK: Duration = Duration::from_millis(1);
/// How often the scenario looks whether something has come about.
const WATCH: Duration = Duration::from_millis(5);
/// A cluster whose pairs do not serve by then, or clients that have not ended, hang.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// What files consist of, again and again: disks keep it once.
const PATTERN_BYTES: usize = 4096;

/// What is measured, and on what.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Everything random comes from it.
    pub seed: u64,
    /// Pairs of data servers.
    pub pairs: u32,
    /// Both members of each pair serve; else one alone does: no mirroring.
    pub is_mirrored: bool,
    /// Of the files.
    pub protocol: Protocol,
    /// Bytes that each client writes.
    pub bytes: u64,
    /// Bytes of each write call.
    pub record: u64,
    /// Of the files, in bytes; they are laid over all pairs.
    pub stripe_unit: u32,
    /// Of every node: data servers, metadata server, clients.
    pub link: Link,
    /// Nanoseconds from one node to another, waiting for links not counted.
    pub latency: Range<u64>,
    /// Bytes that a connection may have on its way and unread, each way.
    pub window: usize,
    /// `pair.lease_ms` of the metadata server.
    pub lease_ms: u64,
    /// `link_patience_ms` of the data servers.
    pub link_patience_ms: u64,
}

impl Default for Setting {
    /// As the test bed's benchmark: 4+4 servers under `server-sync`, links of 50 Mbit/s, 16 MiB a
    /// client, servers that are late do not count as away.
    fn default() -> Setting {
        Setting {
            seed: 1,
            pairs: 4,
            is_mirrored: true,
            protocol: Protocol::ServerSync,
            bytes: 16 << 20,
            record: 1 << 20,
            stripe_unit: 1 << 20,
            link: Link::of_rate(6_250_000),
            latency: 30_000..300_000,
            window: 256 << 10,
            lease_ms: 2_000,
            link_patience_ms: 20_000,
        }
    }
}

/// What all clients did together.
#[derive(Clone, Debug)]
pub struct Point {
    /// MB/s (10^6 bytes) with open and close, by the slowest client.
    pub overall: f64,
    /// MB/s of the transfer alone, by the slowest.
    pub raw: f64,
    /// Virtual seconds that the first and the last client needed, open and close included.
    pub seconds: [f64; 2],
    /// Lines of WARN and ERROR from the moment when the clients began: there should be none.
    pub grave: Vec<LogLine>,
    /// Steps of the executor.
    pub steps: u64,
    /// Over every decision of the run.
    pub digest: u64,
}

/// Virtual nanoseconds of one client's steps.
#[derive(Clone, Copy)]
struct Times {
    transfer: u64,
    total: u64,
}

/// What the clients of a point share.
struct Together {
    setting: Setting,
    record: Bytes,
    /// One for each client, when all are to begin.
    go: Semaphore,
    ready: RefCell<usize>,
    ended: RefCell<Vec<Result<Times, String>>>,
}

/// So many clients on a new cluster, once.
///
/// # Errors
/// If the cluster does not serve, a client fails, or a pair has changed its state meanwhile: then
/// it was not the protocol that was measured.
///
/// # Panics
/// If the run hangs ([`World::block_on`]).
pub fn measure(setting: &Setting, clients: usize) -> Result<Point, String> {
    if clients == 0 || setting.bytes == 0 || setting.record == 0 || setting.pairs == 0 {
        return Err("pairs, clients, bytes and record must not be 0".into());
    }
    let logs = Logs::new(tracing::Level::WARN);
    let setting = setting.clone();
    let (mut point, began) = logs.collect(|| {
        let world = World::new(setting.seed);
        world.set_limit(PATIENCE);
        world.set_poll_cost(0..0);
        world.net().set_default_pace(Pace {
            latency: setting.latency.clone(),
            ..Pace::default()
        });
        world.net().set_window(setting.window);
        let cluster = Cluster::new(&world, shape(&setting));
        let scene = world.clone();
        let (ended, began) =
            world.block_on(async move { scenario(&scene, cluster, setting, clients).await })?;
        Ok::<_, String>((point(&world, ended), began))
    })?;
    point.grave = logs.grave();
    point.grave.retain(|line| line.nanos >= began);
    Ok(point)
}

fn shape(setting: &Setting) -> Shape {
    Shape {
        groups: 1,
        members: 1,
        pairs: setting.pairs,
        clients: 0,
        operations: 0,
        even: false,
        session_term: Duration::from_millis(weft_meta::Settings::default().session_term_ms),
        client: weft_client::Settings::default(),
        meta: weft_meta::Settings {
            pair: weft_meta::PairSettings {
                lease_ms: setting.lease_ms,
                ..weft_meta::PairSettings::default()
            },
            ..weft_meta::Settings::default()
        },
        data: weft_data::Settings {
            link_patience_ms: setting.link_patience_ms,
            ..weft_data::Settings::default()
        },
        room: 1 << 50,
        policy: weft_client::Policy {
            stripe_unit: setting.stripe_unit,
            width: setting.pairs,
            protocol: setting.protocol as i32,
            durability: Durability::Memory as i32,
        },
    }
}

fn point(world: &World, (bytes, times): (u64, Vec<Times>)) -> Point {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let slowest = |of: fn(&Times) -> u64| seconds(times.iter().map(of).max().unwrap_or(0));
    let first = seconds(times.iter().map(|times| times.total).min().unwrap_or(0));
    let total = slowest(|times| times.total);
    let all = (bytes * times.len() as u64) as f64 / 1e6;
    Point {
        overall: all / total,
        raw: all / slowest(|times| times.transfer),
        seconds: [first, total],
        grave: Vec::new(),
        steps: world.steps(),
        digest: world.digest(),
    }
}

/// Returns the bytes of each client with the times of all, and when they began.
async fn scenario(
    world: &World,
    cluster: Cluster,
    setting: Setting,
    clients: usize,
) -> Result<((u64, Vec<Times>), u64), String> {
    let bytes = setting.bytes;
    let link = |node: &crate::Node| world.net().set_link(&node.name(), setting.link);
    let nodes: Vec<crate::Node> = (0..clients)
        .map(|client| world.node(&format!("client{client}")))
        .collect();
    for node in cluster.data.iter().flatten() {
        node.disk().share_equal_pages();
        link(node);
    }
    cluster.meta.iter().for_each(link);
    nodes.iter().for_each(link);
    cluster.start().await?;
    if !setting.is_mirrored {
        leave_alone(&cluster).await?;
    }
    let pattern = (0..PATTERN_BYTES)
        .map(|at| (at * 31 / 7) as u8)
        .collect::<Vec<u8>>();
    let record = pattern.iter().copied().cycle();
    let together = Rc::new(Together {
        record: record.take(setting.record as usize).collect(),
        setting,
        go: Semaphore::new(0),
        ready: RefCell::default(),
        ended: RefCell::default(),
    });
    for (number, node) in nodes.iter().enumerate() {
        let (shared, settings) = (together.clone(), cluster.client_settings(&node.name()));
        node.start(|env| async move {
            let done = client(env, settings, &shared, number).await;
            let done = done.map_err(|why| format!("client {number}: {why}"));
            shared.ended.borrow_mut().push(done);
        });
    }
    while *together.ready.borrow() < clients && together.ended.borrow().is_empty() {
        world.sleep(WATCH).await;
    }
    let states = states(&cluster);
    let began = world.now().as_nanos() as u64;
    together.go.add_permits(clients);
    while together.ended.borrow().len() < clients {
        world.sleep(WATCH).await;
    }
    let times: Result<Vec<Times>, String> = together.ended.borrow_mut().drain(..).collect();
    let times = times?;
    if self::states(&cluster) != states {
        return Err("a pair changed its state meanwhile".into());
    }
    // Nobody is to be told of the end of this world.
    cluster.stop_meta(0, false);
    Ok(((bytes, times), began))
}

/// What each first member knows of its pair.
fn states(cluster: &Cluster) -> Vec<Option<weft_pair::PairState>> {
    (0..cluster.data.len())
        .map(|pair| cluster.state_at(pair, 0))
        .collect()
}

/// Takes the second member of each pair away for good.
async fn leave_alone(cluster: &Cluster) -> Result<(), String> {
    let pairs = cluster.data.len();
    (0..pairs).for_each(|pair| cluster.stop_data(pair, 1, false));
    let is_alone = |pair| {
        let state = cluster.state_at(pair, 0);
        state.is_some_and(|state| state.mode == Mode::Only(Member::Zero))
    };
    let until = cluster.world.now() + Duration::from_secs(60);
    while !(0..pairs).all(is_alone) {
        if cluster.world.now() > until {
            return Err(format!(
                "pairs do not go on alone: {}",
                cluster.describe_pairs()
            ));
        }
        cluster.world.sleep(WATCH).await;
    }
    Ok(())
}

/// One client, the steps of `weft bench stream`.
async fn client(
    env: Env,
    settings: weft_client::Settings,
    together: &Together,
    number: usize,
) -> Result<Times, String> {
    let client = Client::connect(env.clone(), settings)
        .await
        .map_err(|error| error.to_string())?;
    *together.ready.borrow_mut() += 1;
    let permit = together.go.acquire().await;
    permit.map_err(|error| error.to_string())?.forget();
    let name = number.to_string();
    let written = write(&env, &client, together, name.as_bytes()).await;
    // Second copies that are still owed are made, and nobody waits for the end of the session's term.
    let closed = client.close().await;
    let failed = |(step, errno): (&str, Errno)| {
        let error = std::io::Error::from_raw_os_error(errno.0);
        format!("{step}: {error}")
    };
    let times = written.map_err(failed)?;
    closed.map_err(|errno| failed(("the end of the session", errno)))?;
    Ok(times)
}

async fn write(
    env: &Env,
    client: &Client,
    together: &Together,
    name: &[u8],
) -> Result<Times, (&'static str, Errno)> {
    let root = Cred::default();
    let flags = CreateFlags {
        exclusive: true,
        open: OpenFlags {
            write: true,
            ..OpenFlags::default()
        },
    };
    let start = env.now();
    let created = client.create(&root, client.root(), name, 0o644, flags);
    let (_, handle) = created.await.map_err(|errno| ("open", errno))?;
    let opened = env.now();
    let setting = &together.setting;
    let mut at = 0;
    while at < setting.bytes {
        let length = setting.record.min(setting.bytes - at) as usize;
        let data = together.record.slice(..length);
        let written = client.write(handle, at, data, false).await;
        at += written.map_err(|errno| ("write", errno))? as u64;
    }
    let flushed = client.flush(handle, None).await;
    flushed.map_err(|errno| ("write", errno))?;
    loop {
        let figures = client.figures();
        if figures.buffered_bytes <= figures.owed_bytes {
            break;
        }
        env.sleep(LOOK).await;
    }
    let moved = env.now();
    let flushed = client.flush(handle, None).await;
    let released = client.release(handle, None).await;
    flushed.and(released).map_err(|errno| ("close", errno))?;
    Ok(Times {
        transfer: moved.0.saturating_sub(opened.0),
        total: env.now().0.saturating_sub(start.0),
    })
}
