//! A client that does random things to a small tree, and writes down what it was told.
//!
//! It knows only inodes that its own answers have named, as a kernel does. Everything is recorded in
//! the history before it is sent and after it is answered, in the world's time.

mod draw;
mod everything;
mod files;
mod inodes;
mod locks;
mod mounted;
mod names;
mod spread;
mod user;

pub use draw::OPERATIONS;

use super::coverage::Coverage;
use crate::Clock;
use crate::kernel::Mount;
use crate::oracle::history::{ClientId, History, Kind, LATE, Op, Outcome, Reply, Seen};
use crate::rng::Rng;
use draw::{Try, WEIGHTS};
use files::Handle;
use locks::ByHandle;
use mounted::Mounted;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Attr, Client, Cred, Errno, FileKind, HandleId, Known};
use weft_env::Env;

/// A session: its group and its id there.
pub type SessionOf = (u32, u64);

/// A client's sessions, as far as the history knows them.
pub struct Life {
    client: Client,
    known: RefCell<Witnessed>,
}

/// The narrower the time is in which a session may have ended, the fewer orders there are to be tried.
struct Witnessed {
    /// The session with each group that was needed, 0 for none.
    sessions: Vec<SessionOf>,
    /// None of them had ended by then.
    since: u64,
    /// Those that the service has been seen to have ended, and when it was.
    ended: BTreeMap<SessionOf, u64>,
}

impl Witnessed {
    fn new(client: &Client, now: u64) -> Witnessed {
        Witnessed {
            sessions: client.sessions(),
            since: now,
            ended: BTreeMap::new(),
        }
    }
}

impl Life {
    fn new(client: &Client, now: u64) -> Life {
        Life {
            known: RefCell::new(Witnessed::new(client, now)),
            client: client.clone(),
        }
    }

    /// The client itself, to be looked at.
    pub(in crate::cluster) fn client(&self) -> &Client {
        &self.client
    }

    /// From when to when a session may have been lost, if one has been.
    pub fn lost_within(&self, now: u64) -> Option<(u64, u64)> {
        let known = self.known.borrow();
        let present = self.client.sessions();
        let is_lost = |of: &&SessionOf| of.1 != 0 && !present.contains(of);
        let lost = known.sessions.iter().filter(is_lost);
        let until = lost.map(|of| known.ended.get(of).copied().unwrap_or(now));
        Some((known.since, until.max()?.max(known.since)))
    }

    /// Whoever believes in what it holds is right.
    fn note_belief(&self, now: u64) {
        if !self.client.believes_for().is_zero() && self.lost_within(now).is_none() {
            let mut known = self.known.borrow_mut();
            (known.sessions, known.since) = (self.client.sessions(), now);
        }
    }

    /// `open`: the sessions that the service knows now; none if it cannot be told.
    pub(in crate::cluster) fn look(&self, open: Option<&BTreeSet<SessionOf>>, now: u64) {
        self.note_belief(now);
        let (known, Some(open)) = (&mut *self.known.borrow_mut(), open) else {
            return;
        };
        for of in &known.sessions {
            if of.1 != 0 && !open.contains(of) {
                known.ended.entry(*of).or_insert(now);
            }
        }
    }

    /// The sessions that it has had last with each group.
    pub fn sessions(&self) -> Vec<SessionOf> {
        let known = self.known.borrow().sessions.clone().into_iter();
        known.chain(self.client.sessions()).collect()
    }
}

/// What the clients of a run share.
#[derive(Clone)]
pub struct Shared {
    /// All their operations.
    pub history: History,
    /// The world's time.
    pub clock: Clock,
    /// Operations by fault.
    pub coverage: Coverage,
    /// Set when the clients should come to an end.
    pub stop: Rc<Cell<bool>>,
    /// Clients that have come to their end.
    pub finished: Rc<Cell<u32>>,
    /// The directory in which they work: the root of what they see.
    pub root: Rc<Cell<u64>>,
    /// The session of each life of a client.
    pub lives: Rc<RefCell<BTreeMap<ClientId, Rc<Life>>>>,
    /// How many directories clients have spread; None: they do not.
    pub spreads: Rc<Cell<Option<u64>>>,
    /// So many of the clients, the first ones, are mounts.
    pub mounts: Rc<Cell<u32>>,
    /// Locks are taken by way of handles, which fail when they are lost. (Seeds that are kept took them otherwise.)
    pub locks_by_handle: Rc<Cell<bool>>,
    /// Replica groups of metadata servers.
    pub groups: u32,
}

/// One life of a client.
pub struct Worker {
    id: ClientId,
    env: Env,
    client: Client,
    shared: Shared,
    rng: Rng,
    cred: Cred,
    directories: Vec<u64>,
    files: Vec<u64>,
    symlinks: Vec<u64>,
    handles: Vec<Handle>,
    /// It works by way of a kernel.
    mounted: Option<Mounted>,
    life: Rc<Life>,
    /// Locks that this client has waited for and got: inode, handle and units.
    waited_for: Vec<(u64, HandleId, u8, u8)>,
    /// Files of which owner 0 may have fcntl locks, and the handle by which it took the last.
    locked: BTreeMap<u64, HandleId>,
    /// Locks that were taken by way of handles.
    taken: ByHandle,
    /// What names this client has seen, so that most operations find something.
    names: BTreeMap<(u64, Vec<u8>), u64>,
}

fn kind_of(kind: i32) -> Kind {
    match FileKind::try_from(kind) {
        Ok(FileKind::Directory) => Kind::Directory,
        Ok(FileKind::Symlink) => Kind::Symlink,
        Ok(FileKind::Fifo) => Kind::Fifo,
        _ => Kind::File,
    }
}

fn seen(attr: &Attr) -> Seen {
    Seen {
        ino: attr.ino,
        kind: kind_of(attr.kind),
        mode: attr.mode,
        nlink: attr.nlink,
        size: attr.size,
    }
}

fn known(result: Result<Known, Errno>) -> Reply {
    match result {
        Ok(known) => Reply::Entry(seen(&known.attr)),
        Err(Errno(errno)) => Reply::Error(errno),
    }
}

fn done<T>(result: Result<T, Errno>) -> Reply {
    match result {
        Ok(_) => Reply::Done,
        Err(Errno(errno)) => Reply::Error(errno),
    }
}

impl Worker {
    /// A client that works on `client`'s cluster as `id`.
    pub fn new(id: ClientId, env: Env, client: Client, shared: Shared, rng: Rng) -> Worker {
        let root = shared.root.get();
        let life = Rc::new(Life::new(&client, shared.clock.now()));
        shared.lives.borrow_mut().insert(id, life.clone());
        Worker {
            life,
            id,
            env,
            client,
            shared,
            rng,
            cred: Cred {
                uid: 0,
                gid: 0,
                groups: Vec::new(),
            },
            directories: vec![root],
            files: Vec::new(),
            symlinks: Vec::new(),
            handles: Vec::new(),
            mounted: None,
            waited_for: Vec::new(),
            locked: BTreeMap::new(),
            taken: ByHandle::default(),
            names: BTreeMap::new(),
        }
    }

    /// From now on it works by way of a kernel, which draws from `rng`.
    ///
    /// # Errors
    /// If the mount does not come about.
    pub async fn mount(&mut self, rng: Rng) -> Result<(), Errno> {
        let mount = Mount::new(self.env.clone(), self.client.clone(), rng).await?;
        self.mounted = Some(Mounted::new(&mount));
        self.shared.history.mounted(self.id);
        Ok(())
    }

    /// Does operations until none is left, or it is told to stop, then closes its handles.
    /// `even`: every kind equally often, and slowly, so that many meet a fault.
    pub async fn run(&mut self, left: &Cell<usize>, even: bool) {
        let weight = |&(weight, _): &(u32, Try)| if even { 1 } else { weight };
        let weights: Vec<u32> = WEIGHTS.iter().map(weight).collect();
        self.spread(self.client.root()).await;
        while left.get() > 0 && !self.shared.stop.get() {
            left.set(left.get() - 1);
            let pause = match self.rng.below(10) {
                _ if even => self.rng.below(600_000),
                0..=4 => 0,
                5..=8 => self.rng.below(5_000),
                _ => self.rng.below(200_000),
            };
            if pause > 0 {
                self.env.sleep(Duration::from_micros(pause)).await;
            }
            self.spread_some().await;
            let (_, choice) = WEIGHTS[self.rng.weighted(&weights)];
            self.attempt(choice).await;
        }
        while !self.handles.is_empty() {
            self.close(0).await;
        }
        if let Some(mut mounted) = self.mounted.take() {
            self.end_mounted(&mut mounted).await;
        }
    }

    async fn attempt(&mut self, choice: Try) {
        if let Some(mut mounted) = self.mounted.take() {
            self.attempt_mounted(&mut mounted, choice).await;
            self.mounted = Some(mounted);
            return;
        }
        if !self.waited_for.is_empty() && self.rng.once_in(3) {
            // Or others would wait for what this client does not need.
            self.unlock_waited_for().await;
        }
        match choice {
            Try::Create => self.create().await,
            Try::Mkdir | Try::Mkfifo | Try::Symlink => self.make(choice).await,
            Try::Link => self.link().await,
            Try::Unlink | Try::Rmdir => self.remove(choice).await,
            Try::Rename | Try::Exchange => self.rename(choice == Try::Exchange).await,
            Try::Lookup => self.lookup().await,
            Try::List => self.list().await,
            Try::Open => self.open().await,
            Try::Close => {
                if !self.handles.is_empty() {
                    let index = self.rng.below(self.handles.len() as u64) as usize;
                    self.close(index).await;
                }
            }
            Try::Read
            | Try::Write
            | Try::Append
            | Try::Fsync
            | Try::Punch
            | Try::Zero
            | Try::Extend
            | Try::Seek
            | Try::Copy
            | Try::WaitForLock
            | Try::Lock => self.on_handle(choice).await,
            Try::Access | Try::OpenAsUser | Try::ChmodAsUser | Try::UnlinkAsUser => {
                self.as_user(choice).await;
            }
            _ => self.on_inode(choice).await,
        }
    }

    /// Records an operation around what does it.
    async fn record(&self, op: Op, call: impl AsyncFnOnce(usize) -> Reply) -> Reply {
        let name = op.name();
        let writes_data = op.writes_data();
        let before = self.shared.coverage.active();
        let number = self
            .shared
            .history
            .begin(self.id, op, self.shared.clock.now());
        let reply = call(number).await;
        let now = self.shared.clock.now();
        let outcome = match &reply {
            Reply::Error(libc::EIO) => Outcome::Unknown { until: now + LATE },
            Reply::Error(libc::ENOSPC | libc::EDQUOT) if writes_data => Outcome::Partly,
            reply => Outcome::Known(reply.clone()),
        };
        self.shared.history.end(number, outcome, now);
        self.shared.history.note_error(number, &reply, now);
        self.note_lost_session(now);
        self.shared.coverage.met(name, &before);
        reply
    }

    /// Writes down that the service has ended the session, if it has. When, only it knows: after the client was
    /// last right to believe in it, and before it was seen to be over.
    fn note_lost_session(&self, now: u64) {
        match self.life.lost_within(now) {
            Some((since, until)) if self.client.session() != 0 => {
                self.shared.history.session_lost(self.id, since, until);
                self.life.known.replace(Witnessed::new(&self.client, now));
            }
            Some(_) => {}
            None => {
                self.life.known.borrow_mut().sessions = self.client.sessions();
                self.life.note_belief(now);
            }
        }
    }

    /// Ends the session in good order.
    pub async fn leave(self) -> Result<(), Errno> {
        let since = self.shared.clock.now();
        let left = self.client.close().await;
        let now = self.shared.clock.now();
        let history = &self.shared.history;
        if left.is_err() {
            history.sync_failed(self.id, since, now);
        }
        match (&left, self.life.lost_within(now)) {
            (Ok(()), None) => history.session_left(self.id, since, now),
            (_, lost) => {
                let (since, until) = lost.unwrap_or((since, now));
                history.session_lost(self.id, since, until);
            }
        }
        left
    }
}
