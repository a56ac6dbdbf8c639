//! How the metadata service grows with its groups, in virtual time: the real code of metadata servers and
//! clients, more nodes than one machine has room for.
//!
//! Each group has one metadata server. Clients make files, in many directories; a part of what they
//! do makes directories, which mostly are another group's than their parents. What is modelled stands in
//! [`Setting`] and nowhere else: latency, links, and what a metadata server's processor needs for each byte
//! that comes or goes, set so that one group does what one was measured to do on real processors, and the
//! time of a flush. `cargo run --release -p weft-sim --example
//! growth` prints the curve.

use crate::cluster::builder::{Cluster, Shape};
use crate::{DiskFaults, Link, Pace, World};
use futures_util::future::join_all;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, OpenFlags};
use weft_wire::proto::{Durability, Protocol};

/// Clients that have not come to their end by then hang.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the scenario looks whether something has come about.
const WATCH: Duration = Duration::from_millis(1);

/// The directories that things are made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Homes {
    /// Each of the things that a client does at a time has its own.
    Own,
    /// All are in one.
    One,
    /// All are in one that is spread.
    Spread,
}

/// What is measured, and on what.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Everything random comes from it.
    pub seed: u64,
    /// Groups of metadata servers.
    pub groups: u32,
    /// Clients for each group.
    pub clients: u32,
    /// What each client does at a time.
    pub parallel: u32,
    /// Operations of each of those.
    pub operations: u32,
    /// Where they do it.
    pub homes: Homes,
    /// One operation in so many makes a directory; 0: none does.
    pub mkdir_once_in: u32,
    /// Nanoseconds of a metadata server's processor for each KiB, sent or received.
    pub processor: u64,
    /// Nanoseconds of a flush of a journal.
    pub flush: Range<u64>,
    /// Bytes a second of every node.
    pub rate: u64,
    /// Nanoseconds from one node to another, waiting for links not counted.
    pub latency: Range<u64>,
}

impl Default for Setting {
    /// One group does 30,000 creates a second on 10 Gbit/s: about what one metadata server was measured to
    /// do with a client and a data server beside it on two processors.
    fn default() -> Setting {
        Setting {
            seed: 1,
            groups: 1,
            clients: 4,
            parallel: 64,
            operations: 60,
            homes: Homes::Own,
            mkdir_once_in: 0,
            processor: 105_000,
            flush: 100_000..300_000,
            rate: 1_250_000_000,
            latency: 20_000..60_000,
        }
    }
}

/// What all clients did together.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Operations a virtual second, from the first one's beginning to the last one's end.
    pub rate: f64,
    /// Of those that made directories: in another group than their parents.
    pub across: u64,
    /// All that made directories.
    pub directories: u64,
    /// Steps of the executor.
    pub steps: u64,
}

/// Counts of what was made.
#[derive(Default)]
struct Made {
    across: Cell<u64>,
    directories: Cell<u64>,
    files: Cell<u64>,
}

/// Measures once.
///
/// # Errors
/// If the cluster does not serve or a client fails.
///
/// # Panics
/// If the run hangs ([`World::block_on`]).
pub fn measure(setting: &Setting) -> Result<Point, String> {
    if setting.groups == 0 || setting.clients == 0 || setting.parallel == 0 {
        return Err("groups, clients and parallel must not be 0".into());
    }
    let world = World::new(setting.seed);
    world.set_limit(PATIENCE);
    world.set_poll_cost(0..0);
    world.net().set_default_pace(Pace {
        latency: setting.latency.clone(),
        ..Pace::default()
    });
    let cluster = Cluster::new(&world, shape(setting));
    let (scene, setting) = (world.clone(), setting.clone());
    let (seconds, made) =
        world.block_on(async move { scenario(&scene, cluster, setting).await })?;
    let operations = made.files.get() + made.directories.get();
    Ok(Point {
        rate: operations as f64 / seconds,
        across: made.across.get(),
        directories: made.directories.get(),
        steps: world.steps(),
    })
}

fn shape(setting: &Setting) -> Shape {
    Shape {
        groups: setting.groups,
        members: 1,
        pairs: 1,
        clients: 0,
        operations: 0,
        even: false,
        session_term: PATIENCE,
        client: weft_client::Settings {
            patience_ms: PATIENCE.as_millis() as u64,
            ..weft_client::Settings::default()
        },
        meta: weft_meta::Settings::default(),
        data: weft_data::Settings::default(),
        room: 1 << 50,
        policy: weft_client::Policy {
            stripe_unit: 1 << 20,
            width: 1,
            protocol: Protocol::ServerSync as i32,
            durability: Durability::Memory as i32,
        },
    }
}

async fn scenario(
    world: &World,
    cluster: Cluster,
    setting: Setting,
) -> Result<(f64, Rc<Made>), String> {
    let busy = Link {
        processor: setting.processor,
        ..Link::of_rate(setting.rate)
    };
    for node in &cluster.meta {
        world.net().set_link(&node.name(), busy);
        node.disk().set_faults(DiskFaults {
            sync_nanos: setting.flush.clone(),
            ..DiskFaults::default()
        });
    }
    cluster.start().await?;
    let mut clients = Vec::new();
    for number in 0..setting.groups * setting.clients {
        let node = world.node(&format!("client{number}"));
        let name = node.name();
        world.net().set_link(&name, Link::of_rate(setting.rate));
        let client = Client::connect(node.env(), cluster.client_settings(&name)).await;
        clients.push(client.map_err(|error| error.to_string())?);
    }
    let homes = clients.iter().enumerate().flat_map(|(number, client)| {
        let homes = 0..setting.parallel;
        homes.map(move |stream| home(client, format!("home {number}.{stream}")))
    });
    let homes = match setting.homes {
        Homes::Own => join_all(homes)
            .await
            .into_iter()
            .collect::<Result<_, _>>()?,
        Homes::One | Homes::Spread => one_home(&clients, &setting).await?,
    };
    let made = Rc::new(Made::default());
    let began = world.now();
    let mut all = Vec::new();
    for (number, home) in homes.into_iter().enumerate() {
        let client = &clients[number / setting.parallel as usize];
        all.push(work(client, home, number as u32, &setting, &made));
    }
    join_all(all)
        .await
        .into_iter()
        .collect::<Result<(), String>>()?;
    let seconds = (world.now() - began).as_secs_f64();
    world.sleep(WATCH).await;
    // Nobody is to be told of the end of this world.
    (0..cluster.meta.len()).for_each(|member| cluster.stop_meta(member, false));
    Ok((seconds, made))
}

/// A directory to work in.
async fn home(client: &Client, name: String) -> Result<u64, String> {
    let cred = Cred::default();
    let made = client.mkdir(&cred, client.root(), name.as_bytes(), 0o755);
    let ino = made
        .await
        .map_err(|errno| format!("mkdir: {errno}"))?
        .attr
        .ino;
    // By then the session with its group is there.
    let known = client.getattr(ino).await;
    known.map_err(|errno| format!("getattr: {errno}"))?;
    Ok(ino)
}

/// One directory for all.
async fn one_home(clients: &[Client], setting: &Setting) -> Result<Vec<u64>, String> {
    let first = clients.first().ok_or("no clients")?;
    let ino = home(first, "home".to_owned()).await?;
    if setting.homes == Homes::Spread {
        let spread = first.spread(&Cred::default(), ino, 0).await;
        spread.map_err(|errno| format!("spread: {errno}"))?;
    }
    // By then the sessions with all groups that have a part of it are there.
    for known in join_all(clients.iter().map(|client| client.getattr(ino))).await {
        known.map_err(|errno| format!("getattr: {errno}"))?;
    }
    Ok(vec![ino; clients.len() * setting.parallel as usize])
}

/// One of the things that a client does at a time.
async fn work(
    client: &Client,
    home: u64,
    stream: u32,
    setting: &Setting,
    made: &Made,
) -> Result<(), String> {
    let cred = Cred::default();
    let flags = CreateFlags {
        exclusive: true,
        open: OpenFlags {
            write: true,
            ..OpenFlags::default()
        },
    };
    let count = |cell: &Cell<u64>| cell.set(cell.get() + 1);
    for number in 0..setting.operations {
        let name = format!("{stream}.{number}");
        // Not all at the same time.
        let turn = number + stream;
        if setting.mkdir_once_in > 0 && turn.is_multiple_of(setting.mkdir_once_in) {
            let known = client.mkdir(&cred, home, name.as_bytes(), 0o755).await;
            let known = known.map_err(|errno| format!("mkdir: {errno}"))?;
            count(&made.directories);
            let group = |ino: u64| client.group_of(ino);
            if group(known.attr.ino) != group(home) {
                count(&made.across);
            }
        } else {
            let created = client
                .create(&cred, home, name.as_bytes(), 0o644, flags)
                .await;
            let (_, handle) = created.map_err(|errno| format!("create: {errno}"))?;
            let released = client.release(handle, None).await;
            released.map_err(|errno| format!("close: {errno}"))?;
            count(&made.files);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another group hears of the end of a transaction after the client does.
    #[test]
    fn what_was_just_made_is_there_for_whatever_follows() {
        let world = World::new(1);
        let setting = Setting {
            groups: 2,
            ..Setting::default()
        };
        let cluster = Cluster::new(&world, shape(&setting));
        let scene = world.clone();
        world.block_on(async move {
            cluster.start().await.unwrap();
            let node = scene.node("client");
            let client = Client::connect(node.env(), cluster.client_settings("client")).await;
            let (client, cred) = (client.unwrap(), Cred::default());
            for round in 0..40 {
                let name = format!("d{round}");
                let made = client
                    .mkdir(&cred, client.root(), name.as_bytes(), 0o755)
                    .await;
                let made = made.unwrap().attr.ino;
                let follows = match round % 2 {
                    0 => client.getattr(made).await,
                    _ => client.mkdir(&cred, made, b"inner", 0o755).await,
                };
                follows.unwrap();
            }
        });
    }

    #[test]
    fn two_groups_do_more_in_one_directory_that_is_spread() {
        let of = |groups, homes| {
            let setting = Setting {
                groups,
                homes,
                operations: 10,
                ..Setting::default()
            };
            measure(&setting).unwrap().rate
        };
        let (one, two) = (of(1, Homes::One), of(2, Homes::One));
        let spread = of(2, Homes::Spread);
        assert!(two < 1.2 * one, "{one} {two}");
        assert!(spread > 1.5 * one, "{one} {spread}");
    }

    #[test]
    fn two_groups_do_nearly_twice_as_much_as_one() {
        let of = |groups, mkdir_once_in| {
            let setting = Setting {
                groups,
                mkdir_once_in,
                operations: 10,
                ..Setting::default()
            };
            measure(&setting).unwrap()
        };
        let (one, two) = (of(1, 0), of(2, 0));
        assert!(two.rate > 1.6 * one.rate, "{one:?} {two:?}");
        let (one, two) = (of(1, 5), of(2, 5));
        assert_eq!(one.across, 0);
        assert!(two.across > two.directories / 4, "{two:?}");
        assert!(two.rate > one.rate, "{one:?} {two:?}");
    }
}
