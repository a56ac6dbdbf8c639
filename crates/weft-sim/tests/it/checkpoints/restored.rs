//! A cluster whose clients make things in an order that a cut must keep, an operator that asks for checkpoints,
//! and what is to be found after a restore.

use futures_util::future::join_all;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, CreateFlags, Cred, Errno, OpenFlags};
use weft_env::Env;
use weft_rpc::{CallError, Connection, Handler, Local, Payload};
use weft_sim::World;
use weft_sim::cluster::builder::{Cluster, Shape};
use weft_sim::invariants::{objects_named, one_tree};
use weft_wire::proto::checkpoint::Stage;
use weft_wire::proto::{
    CheckpointsReply, CheckpointsRequest, CreateCheckpointReply, CreateCheckpointRequest,
    DeleteCheckpointRequest, Durability, Identity, Protocol, RestoreCheckpointRequest,
    identity::Role,
};
use weft_wire::{Failed, Rpc};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
/// Clients that work at the same time.
const STREAMS: u32 = 6;
/// An answer that has not come by then is asked for anew.
const PATIENCE: Duration = Duration::from_secs(8);

pub fn shape(groups: u32, members: u32) -> Shape {
    Shape {
        groups,
        members,
        pairs: 2,
        clients: 0,
        operations: 0,
        even: false,
        session_term: Duration::from_millis(1_500),
        client: weft_client::Settings::default(),
        meta: weft_meta::Settings {
            image_every_entries: 150,
            ..weft_meta::Settings::default()
        },
        data: weft_data::Settings::default(),
        room: 1 << 40,
        policy: weft_client::Policy {
            stripe_unit: 1 << 16,
            width: 1,
            protocol: Protocol::ServerSync as i32,
            durability: Durability::Memory as i32,
        },
    }
}

/// A tool that asks the first group's active.
pub struct Operator {
    env: Env,
    cluster: Rc<Cluster>,
    connection: RefCell<Option<Connection>>,
}

impl Operator {
    pub fn new(cluster: &Rc<Cluster>) -> Operator {
        Operator {
            env: cluster.world.node("operator").env(),
            cluster: cluster.clone(),
            connection: RefCell::default(),
        }
    }

    async fn connected(&self) -> Option<Connection> {
        let known = self.connection.borrow().clone();
        if let Some(known) = known.filter(Connection::is_open) {
            return Some(known);
        }
        let member = self.cluster.active(0)?;
        let address = format!("{}:7400", self.cluster.meta[member].name());
        let local = Local::new(
            "sim".into(),
            Identity {
                role: Role::Tool as i32,
                id: 0,
                incarnation: self.env.random(),
                group: 0,
            },
        );
        let refuse: Handler = Rc::new(|_, request| {
            request
                .replier
                .fail(Failed::Refused("an operator answers nothing".into()));
        });
        let connecting = weft_rpc::connect(&self.env, &address, &local, refuse);
        let connection = self.env.timeout(PATIENCE, connecting).await.ok()?.ok()?;
        self.connection.replace(Some(connection.clone()));
        Some(connection)
    }

    /// The answer. None: there was none.
    pub async fn ask<R: Rpc>(&self, request: &R) -> Option<Result<R::Reply, Failed>> {
        let connection = self.connected().await?;
        let call = connection.call(request, Payload::none());
        match self.env.timeout(PATIENCE, call).await {
            Ok(Ok((reply, _))) => return Some(Ok(reply)),
            Ok(Err(CallError::Failed(Failed::NotActive { .. }))) => {}
            Ok(Err(CallError::Failed(failed))) => return Some(Err(failed)),
            Ok(Err(CallError::Lost(_))) | Err(_) => {}
        }
        connection.close("asking anew");
        None
    }

    /// Asks until there is an answer.
    pub async fn asked<R: Rpc>(&self, request: &R) -> Result<R::Reply, Failed> {
        loop {
            match self.ask(request).await {
                Some(answer) => return answer,
                None => self.env.sleep(20 * MS).await,
            }
        }
    }

    pub async fn list(&self) -> CheckpointsReply {
        loop {
            if let Ok(reply) = self.asked(&CheckpointsRequest {}).await {
                return reply;
            }
            self.env.sleep(20 * MS).await;
        }
    }

    /// Makes a checkpoint; None if it could not be made, or nobody knows.
    pub async fn create(&self, name: &str) -> Option<CreateCheckpointReply> {
        let name = name.to_owned();
        let made = self.ask(&CreateCheckpointRequest { name }).await?;
        let made = match made {
            Ok(made) => made,
            Err(failed) => {
                tracing::info!(%failed, "a checkpoint was not made");
                return None;
            }
        };
        loop {
            let list = self.list().await;
            let listed = list.checkpoints.iter().find(|it| it.id == made.id);
            match listed.map(|it| it.stage()) {
                Some(Stage::Kept) => return Some(made),
                Some(Stage::Making) => self.env.sleep(20 * MS).await,
                _ => return None,
            }
        }
    }

    /// Brings all back. The answer may be lost, but then it is seen in the list.
    pub async fn restore(&self, name: &str) {
        let before = self.list().await.last_restore;
        loop {
            let request = RestoreCheckpointRequest {
                name: name.to_owned(),
            };
            let answer = self.ask(&request).await;
            if self.list().await.last_restore > before {
                break;
            }
            tracing::info!(?answer, "a restore was not begun");
            self.env.sleep(50 * MS).await;
        }
        while self.list().await.restoring.is_some() {
            self.env.sleep(20 * MS).await;
        }
    }

    pub async fn delete(&self, name: &str) {
        let name = name.to_owned();
        self.asked(&DeleteCheckpointRequest { name }).await.unwrap();
        while !self.list().await.checkpoints.is_empty() {
            self.env.sleep(20 * MS).await;
        }
    }
}

/// What the clients know to have done: by stream, how many rounds were answered.
#[derive(Default)]
pub struct Done {
    answered: RefCell<BTreeMap<u32, u32>>,
    begun: RefCell<BTreeMap<u32, u32>>,
    pub slowest: Cell<Duration>,
    pub stop: Cell<bool>,
}

impl Done {
    pub fn answered(&self) -> BTreeMap<u32, u32> {
        self.answered.borrow().clone()
    }

    pub fn begun(&self) -> BTreeMap<u32, u32> {
        self.begun.borrow().clone()
    }
}

/// Two directories, of different groups if there are several.
pub struct Places {
    pub a: u64,
    pub b: u64,
    /// Rounds write what they make, make directories, too, and move them from one to the other. Else a round is but
    /// two names, one after the other, as fast as can be.
    pub moves: bool,
}

pub fn root() -> Cred {
    Cred::default()
}

pub async fn connect(cluster: &Cluster, name: &str) -> Client {
    let env = cluster.world.node(name).env();
    Client::connect(env, cluster.client_settings(name))
        .await
        .unwrap()
}

pub async fn places(client: &Client, groups: u32) -> Places {
    let mut made: Vec<u64> = Vec::new();
    for number in 0..16 {
        let name = format!("d{number}");
        let known = client
            .mkdir(&root(), client.root(), name.as_bytes(), 0o777)
            .await;
        made.push(known.unwrap().attr.ino);
    }
    // The first group cuts first: what is missing there must be missing in the others.
    let a = *made.iter().find(|ino| client.group_of(**ino) == 0).unwrap();
    let mut others = made.iter().filter(|ino| **ino != a);
    let is_other = |ino: &&u64| groups == 1 || client.group_of(**ino) != 0;
    Places {
        a,
        b: *others.find(is_other).unwrap(),
        moves: true,
    }
}

pub fn content(stream: u32, round: u32) -> Vec<u8> {
    let text = format!("{stream}.{round} ");
    text.bytes()
        .cycle()
        .take(9_000 + (round as usize % 7) * 1_000)
        .collect()
}

async fn write_new(client: &Client, parent: u64, name: &str, data: Vec<u8>) -> Result<(), Errno> {
    let flags = CreateFlags {
        exclusive: false,
        open: OpenFlags {
            write: true,
            truncate: true,
            ..OpenFlags::default()
        },
    };
    let (_, handle) = client
        .create(&root(), parent, name.as_bytes(), 0o644, flags)
        .await?;
    let written = async {
        client.write(handle, 0, data.into(), false).await?;
        client.fsync(handle, false).await
    }
    .await;
    let released = client.release(handle, None).await;
    written.and(released)
}

/// In each round: a file with content in one group; then a name in the other that says that it is there; then a
/// directory there that the next round moves to the first one, and the file's round before gets a second name.
async fn stream(client: Rc<Client>, number: u32, at: Rc<Places>, done: Rc<Done>, world: World) {
    let mut round = 0;
    while !done.stop.get() {
        round += 1;
        done.begun.borrow_mut().insert(number, round);
        let began = world.now();
        let worked = async {
            let name = format!("{number}.{round}");
            if !at.moves {
                let to = b"nowhere";
                client.symlink(&root(), at.a, name.as_bytes(), to).await?;
                let after = format!("after.{name}");
                client.symlink(&root(), at.b, after.as_bytes(), to).await?;
                return Ok(());
            }
            write_new(&client, at.a, &name, content(number, round)).await?;
            write_new(&client, at.b, &format!("after.{name}"), vec![1]).await?;
            let dir = format!("dir.{name}");
            client.mkdir(&root(), at.b, dir.as_bytes(), 0o755).await?;
            let flags = Default::default();
            client
                .rename(&root(), at.b, dir.as_bytes(), at.a, dir.as_bytes(), flags)
                .await
        }
        .await;
        if worked.is_err() {
            // Its session has ended: what came of this round nobody knows.
            return;
        }
        let took = world.now() - began;
        done.slowest.set(took.max(done.slowest.get()));
        done.answered.borrow_mut().insert(number, round);
    }
}

pub struct Working {
    pub done: Rc<Done>,
    pub at: Rc<Places>,
    streams: Vec<weft_env::Task>,
    client: Rc<Client>,
}

impl Working {
    pub async fn begin(cluster: &Rc<Cluster>, name: &str, at: Option<Places>) -> Working {
        let client = Rc::new(connect(cluster, name).await);
        let at = match at {
            Some(at) => at,
            None => places(&client, cluster.shape.groups).await,
        };
        let (done, at) = (Rc::new(Done::default()), Rc::new(at));
        let env = cluster.world.node(name).env();
        let streams = (0..STREAMS).map(|number| {
            let world = cluster.world.clone();
            let stream = stream(client.clone(), number, at.clone(), done.clone(), world);
            env.spawn("stream", stream)
        });
        Working {
            streams: streams.collect(),
            done,
            at,
            client,
        }
    }

    /// Waits until the streams have ended.
    pub async fn end(self, world: &World) {
        self.done.stop.set(true);
        while !self.streams.iter().all(weft_env::Task::is_finished) {
            world.sleep(10 * MS).await;
        }
        // Its session may be over.
        let _: Result<(), Errno> = self.client.close().await;
    }
}

/// Many files with nothing in them.
pub async fn bulk(client: &Client, directory: u64, what: &str, count: u32) {
    let make = |stream: u32| async move {
        for number in (stream..count).step_by(64) {
            let flags = CreateFlags {
                exclusive: true,
                open: OpenFlags {
                    write: true,
                    ..OpenFlags::default()
                },
            };
            let name = format!("{what}.{number}");
            let made = client
                .create(&root(), directory, name.as_bytes(), 0o644, flags)
                .await;
            client.release(made.unwrap().1, None).await.unwrap();
        }
    };
    join_all((0..64).map(make)).await;
}

/// All names in a directory.
pub async fn names(client: &Client, directory: u64) -> BTreeMap<String, u64> {
    let handle = client.opendir(&root(), directory).await.unwrap();
    let (mut all, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = client.readdir(handle, after, 500, false).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.cookie;
        for entry in &page {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if name != "." && name != ".." {
                all.insert(name, entry.ino);
            }
        }
    }
    client.releasedir(handle);
    all
}

pub async fn read(client: &Client, ino: u64) -> Result<Vec<u8>, Errno> {
    let flags = OpenFlags {
        read: true,
        ..OpenFlags::default()
    };
    let handle = client.open(&root(), ino, flags).await?;
    let parts = client.read(handle, 0, 1 << 20).await;
    client.release(handle, None).await?;
    Ok(parts?.concat())
}

/// After whatever follows a checkpoint: files are removed, cut to nothing and written anew, appended to, renamed
/// over each other.
pub async fn spoil(client: &Client, at: &Places) {
    let all = names(client, at.a).await;
    let files = all.iter().filter(|(name, _)| !name.starts_with("dir."));
    for (turn, (name, ino)) in files.enumerate() {
        match turn % 4 {
            0 => client.unlink(&root(), at.a, name.as_bytes()).await.unwrap(),
            1 => write_new(client, at.a, name, b"other".to_vec())
                .await
                .unwrap(),
            2 => {
                let flags = OpenFlags {
                    write: true,
                    ..OpenFlags::default()
                };
                let handle = client.open(&root(), *ino, flags).await.unwrap();
                let end = client.getattr(*ino).await.unwrap().attr.size;
                client
                    .write(handle, end, vec![7; 70_000].into(), false)
                    .await
                    .unwrap();
                client.fsync(handle, false).await.unwrap();
                client.release(handle, None).await.unwrap();
            }
            _ => {
                write_new(client, at.a, "new", b"new".to_vec())
                    .await
                    .unwrap();
                let flags = Default::default();
                let renamed = client
                    .rename(&root(), at.a, b"new", at.a, name.as_bytes(), flags)
                    .await;
                renamed.unwrap();
            }
        }
    }
    for (turn, name) in names(client, at.b).await.keys().enumerate() {
        if turn % 2 == 0 && name.starts_with("after.") {
            client.unlink(&root(), at.b, name.as_bytes()).await.unwrap();
        }
    }
}

/// What a cut has to keep, of a client that sees the restored name space. `before` was answered when the checkpoint
/// was asked for, `begun` is all that had been begun when it was there.
pub async fn judge(
    client: &Client,
    at: &Places,
    before: &BTreeMap<u32, u32>,
    begun: &BTreeMap<u32, u32>,
) -> BTreeMap<u32, u32> {
    let (a, b) = (names(client, at.a).await, names(client, at.b).await);
    let mut last = BTreeMap::new();
    for (stream, most) in begun {
        let mut ended = false;
        for round in 1..=*most + 3 {
            let name = format!("{stream}.{round}");
            let (file, after) = (a.get(&name), b.get(&format!("after.{name}")));
            let dir = format!("dir.{name}");
            let dirs = (a.contains_key(&dir), b.contains_key(&dir));
            let is_whole = file.is_some() && after.is_some() && dirs == (at.moves, false);
            if ended {
                let is_none = file.is_none() && after.is_none() && dirs == (false, false);
                assert!(is_none, "{name} is there, what was before it is not");
                continue;
            }
            assert!(
                after.is_none() || file.is_some(),
                "{name}: the second without the first"
            );
            assert!(
                dirs == (false, false) || after.is_some(),
                "{name}: the third without the second"
            );
            assert!(dirs != (true, true), "{name}: the directory is in both");
            assert!(
                is_whole || round > before.get(stream).copied().unwrap_or(0),
                "{name} was answered before the checkpoint, and is not in it"
            );
            assert!(round <= *most || file.is_none(), "{name} was begun later");
            if let (Some(ino), Some(_), true) = (file, after, at.moves) {
                // It was written and flushed before the next was begun.
                let found = read(client, *ino)
                    .await
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(
                    found == content(*stream, round),
                    "the content of {name}: {} bytes",
                    found.len()
                );
            }
            if file.is_some() {
                last.insert(*stream, round);
            }
            ended = !is_whole;
        }
    }
    assert!(!a.contains_key("new"), "it was made after the checkpoint");
    last
}

pub async fn is_sound(cluster: &Cluster) {
    one_tree::check(cluster).await.unwrap();
    cluster.verdict().unwrap();
    assert_eq!(cluster.take_exits(), Vec::new());
}

/// No object is left that nobody names, once deletions have been carried out.
pub async fn nothing_is_left(cluster: &Cluster) {
    let mut last = Ok(());
    for _ in 0..60 {
        last = objects_named::check(cluster).await;
        if last.is_ok() {
            return;
        }
        cluster.world.sleep(SECOND).await;
    }
    last.unwrap();
}
