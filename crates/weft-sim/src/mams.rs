//! What standbys cost clients where processors are not the limit: creates by many clients of one replica
//! group in virtual time, the real code of servers and clients on modelled links and disks.
//!
//! n clients each make files in a directory of their own, one after the other; all together count. There
//! are no faults and no oracles here. What is modelled stands in [`Setting`] and nowhere else: links,
//! latency, what a flush of a journal takes; if asked for, what processors need for each byte
//! ([`crate::Link`]). `cargo run --release -p weft-sim --example mams` prints the figures.

use crate::cluster::builder::{Cluster, Shape};
use crate::{DiskFaults, Link, Node, Pace, World};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weft_client::{Client, CreateFlags, Cred, Errno, OpenFlags};
use weft_env::Env;

/// How often the scenario looks whether something has come about.
const WATCH: Duration = Duration::from_millis(1);
/// Clients that have not ended by then hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is measured, and on what.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Everything random comes from it.
    pub seed: u64,
    /// Members of the group: the active and its standbys.
    pub members: u32,
    /// Files that each client makes.
    pub creates: usize,
    /// Of every node.
    pub link: Link,
    /// Nanoseconds from one node to another, waiting for links not counted.
    pub latency: Range<u64>,
    /// Nanoseconds of a flush of a metadata server's journal.
    pub flush: Range<u64>,
}

impl Default for Setting {
    /// Three members on links of 1 Gbit/s, 30 to 60 us from node to node, disks that flush in half a
    /// millisecond.
    fn default() -> Setting {
        Setting {
            seed: 1,
            members: 3,
            creates: 300,
            link: Link::of_rate(125_000_000),
            latency: 30_000..60_000,
            flush: 500_000..500_001,
        }
    }
}

/// What all clients did together.
#[derive(Clone, Debug)]
pub struct Point {
    /// Creates a second, by the slowest client.
    pub rate: f64,
    /// Over every decision of the run.
    pub digest: u64,
}

/// What the clients share.
struct Together {
    creates: usize,
    /// One for each client, when all are to begin.
    go: Semaphore,
    ready: RefCell<usize>,
    ended: RefCell<Vec<Result<u64, String>>>,
}

/// So many clients on a new cluster, once.
///
/// # Errors
/// If the cluster does not serve, or a client fails.
///
/// # Panics
/// If the run hangs ([`World::block_on`]).
pub fn measure(setting: &Setting, clients: usize) -> Result<Point, String> {
    if clients == 0 || setting.creates == 0 || setting.members == 0 {
        return Err("members, clients and creates must not be 0".into());
    }
    if setting.flush.is_empty() || setting.latency.is_empty() {
        return Err("flush and latency: the second figure must be above the first".into());
    }
    let world = World::new(setting.seed);
    world.set_limit(PATIENCE);
    world.set_poll_cost(0..0);
    world.net().set_default_pace(Pace {
        latency: setting.latency.clone(),
        ..Pace::default()
    });
    let cluster = Cluster::new(&world, shape(setting));
    let (scene, creates) = (world.clone(), setting.creates);
    let setting = setting.clone();
    let slowest =
        world.block_on(async move { scenario(&scene, cluster, setting, clients).await })?;
    Ok(Point {
        rate: (clients * creates) as f64 / (slowest as f64 / 1e9),
        digest: world.digest(),
    })
}

fn shape(setting: &Setting) -> Shape {
    Shape {
        groups: 1,
        members: setting.members,
        pairs: 1,
        clients: 0,
        operations: 0,
        even: false,
        session_term: Duration::from_millis(weft_meta::Settings::default().session_term_ms),
        client: weft_client::Settings::default(),
        meta: weft_meta::Settings::default(),
        data: weft_data::Settings::default(),
        room: 1 << 50,
        policy: weft_client::Policy {
            width: 1,
            ..weft_client::Policy::default()
        },
    }
}

/// Nanoseconds that the slowest client took.
async fn scenario(
    world: &World,
    cluster: Cluster,
    setting: Setting,
    clients: usize,
) -> Result<u64, String> {
    let link = |node: &Node| world.net().set_link(&node.name(), setting.link);
    let nodes: Vec<Node> = (0..clients)
        .map(|client| world.node(&format!("client{client}")))
        .collect();
    for node in &cluster.meta {
        link(node);
        node.disk().set_faults(DiskFaults {
            sync_nanos: setting.flush.clone(),
            ..DiskFaults::default()
        });
    }
    cluster.data.iter().flatten().for_each(link);
    nodes.iter().for_each(link);
    cluster.start().await?;
    let together = Rc::new(Together {
        creates: setting.creates,
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
    together.go.add_permits(clients);
    while together.ended.borrow().len() < clients {
        world.sleep(WATCH).await;
    }
    let times: Result<Vec<u64>, String> = together.ended.borrow_mut().drain(..).collect();
    // Nobody is to be told of the end of this world.
    (0..cluster.meta.len()).for_each(|member| cluster.stop_meta(member, false));
    Ok(times?.into_iter().max().unwrap_or(0))
}

/// One client, as `weft bench names create` has them. Nanoseconds of its creates.
async fn client(
    env: Env,
    settings: weft_client::Settings,
    together: &Together,
    number: usize,
) -> Result<u64, String> {
    let client = Client::connect(env.clone(), settings)
        .await
        .map_err(|error| error.to_string())?;
    let made = create_all(&env, &client, together, number).await;
    let closed = client.close().await;
    let failed = |(step, errno): (&str, Errno)| {
        let error = std::io::Error::from_raw_os_error(errno.0);
        format!("{step}: {error}")
    };
    let took = made.map_err(failed)?;
    closed.map_err(|errno| failed(("the end of the session", errno)))?;
    Ok(took)
}

async fn create_all(
    env: &Env,
    client: &Client,
    together: &Together,
    number: usize,
) -> Result<u64, (&'static str, Errno)> {
    let root = Cred::default();
    let failed = |step: &'static str| move |errno: Errno| (step, errno);
    let home = format!("c{number}");
    let home = client.mkdir(&root, client.root(), home.as_bytes(), 0o755);
    let home = home.await.map_err(failed("mkdir"))?.attr.ino;
    *together.ready.borrow_mut() += 1;
    if let Ok(permit) = together.go.acquire().await {
        permit.forget();
    }
    let flags = CreateFlags {
        exclusive: true,
        open: OpenFlags {
            write: true,
            ..OpenFlags::default()
        },
    };
    let start = env.now();
    for file in 0..together.creates {
        let name = format!("f{file}");
        let created = client.create(&root, home, name.as_bytes(), 0o644, flags);
        let (_, handle) = created.await.map_err(failed("create"))?;
        let flushed = client.flush(handle, None).await;
        let released = client.release(handle, None).await;
        flushed.and(released).map_err(failed("close"))?;
    }
    Ok(env.now().0.saturating_sub(start.0))
}
