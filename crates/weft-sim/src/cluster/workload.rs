//! A client that does random things to a small tree, and writes down what it was told.
//!
//! It knows only inodes that its own answers have named, as a kernel does. Everything is recorded in
//! the history before it is sent and after it is answered, in the world's time.

use super::coverage::Coverage;
use crate::Clock;
use crate::oracle::content;
use crate::oracle::history::{
    ClientId, FLOCK_UNIT, History, Kind, LOCK_UNITS, Op, Outcome, Reply, Seen,
};
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{
    Allocate, Attr, Client, CreateFlags, Cred, Errno, FileKind, FileLock, HandleId, Known,
    OpenFlags, RenameFlags, SetAttr, XattrFlags,
};
use weft_env::Env;
use weft_wire::proto::file_lock;

/// An operation that failed with EIO may take effect as late as this after its answer: what it sent
/// may be held by a cut, and cuts end.
const LATE: Duration = Duration::from_secs(15);
/// Files go up to this: some stripes of the smallest unit on every pair.
const FILE_BYTES: u64 = 400 << 10;
/// Handles that a client keeps open.
const HANDLES_MAX: usize = 5;
/// Inodes that a client remembers, of each kind.
const KNOWN_MAX: usize = 12;
/// Bytes of each of a file's units that can be locked.
const LOCK_UNIT_BYTES: u64 = 100;

/// A client's session, as far as the history knows it.
pub struct Life {
    client: Client,
    /// The session, and since when it is this one.
    session: Cell<(u64, u64)>,
}

impl Life {
    /// The client itself, to be looked at.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Since when the session may have been lost, if it has been.
    pub fn lost_since(&self) -> Option<u64> {
        let (known, since) = self.session.get();
        (self.client.session() != known).then_some(since)
    }

    /// The session; 0 for none.
    pub fn session(&self) -> u64 {
        self.client.session()
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
    /// The session of each life of a client.
    pub lives: Rc<RefCell<BTreeMap<ClientId, Rc<Life>>>>,
}

struct Handle {
    ino: u64,
    id: HandleId,
    append: bool,
    sync: bool,
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
    life: Rc<Life>,
    /// What names this client has seen, so that most operations find something.
    names: BTreeMap<(u64, Vec<u8>), u64>,
}

/// How often each kind of operation is tried, relative to the others.
const WEIGHTS: &[(u32, Try)] = &[
    (8, Try::Create),
    (3, Try::Mkdir),
    (2, Try::Symlink),
    (1, Try::Mkfifo),
    (3, Try::Link),
    (4, Try::Unlink),
    (2, Try::Rmdir),
    (4, Try::Rename),
    (2, Try::Exchange),
    (6, Try::Lookup),
    (2, Try::Readlink),
    (5, Try::Getattr),
    (2, Try::Chmod),
    (3, Try::Truncate),
    (2, Try::Setxattr),
    (2, Try::Getxattr),
    (2, Try::Listxattr),
    (1, Try::Removexattr),
    (4, Try::List),
    (6, Try::Open),
    (4, Try::Close),
    (14, Try::Read),
    (16, Try::Write),
    (5, Try::Append),
    (5, Try::Fsync),
    (2, Try::Punch),
    (2, Try::Zero),
    (1, Try::Extend),
    (4, Try::Lock),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    Create,
    Mkdir,
    Symlink,
    Mkfifo,
    Link,
    Unlink,
    Rmdir,
    Rename,
    Exchange,
    Lookup,
    Readlink,
    Getattr,
    Chmod,
    Truncate,
    Setxattr,
    Getxattr,
    Listxattr,
    Removexattr,
    List,
    Open,
    Close,
    Read,
    Write,
    Append,
    Fsync,
    Punch,
    Zero,
    Extend,
    Lock,
}

/// Every operation of the workload, for the table of what was reached.
pub const OPERATIONS: &[&str] = &[
    "lookup",
    "create",
    "mkdir",
    "mknod",
    "symlink",
    "readlink",
    "link",
    "unlink",
    "rmdir",
    "rename",
    "exchange",
    "getattr",
    "setattr",
    "truncate",
    "getxattr",
    "setxattr",
    "removexattr",
    "listxattr",
    "readdir",
    "open",
    "close",
    "read",
    "write",
    "append",
    "fsync",
    "punch",
    "zero",
    "extend",
    "lock",
];

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

fn remember(list: &mut Vec<u64>, ino: u64) {
    if !list.contains(&ino) {
        list.push(ino);
        if list.len() > KNOWN_MAX {
            // The root, if it is a list of directories, stays.
            list.remove(1);
        }
    }
}

impl Worker {
    /// A client that works on `client`'s cluster as `id`.
    pub fn new(id: ClientId, env: Env, client: Client, shared: Shared, rng: Rng) -> Worker {
        let root = client.root();
        let life = Rc::new(Life {
            session: Cell::new((client.session(), shared.clock.now())),
            client: client.clone(),
        });
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
            names: BTreeMap::new(),
        }
    }

    /// Does operations until none is left, or it is told to stop, then closes its handles.
    /// `even`: every kind equally often, and slowly, so that many meet a fault.
    pub async fn run(&mut self, left: &Cell<usize>, even: bool) {
        let weight = |&(weight, _): &(u32, Try)| if even { 1 } else { weight };
        let weights: Vec<u32> = WEIGHTS.iter().map(weight).collect();
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
            let (_, choice) = WEIGHTS[self.rng.weighted(&weights)];
            self.attempt(choice).await;
        }
        while !self.handles.is_empty() {
            self.close(0).await;
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
            Reply::Error(libc::EIO) => Outcome::Unknown {
                until: now + LATE.as_nanos() as u64,
            },
            Reply::Error(libc::ENOSPC) if writes_data => Outcome::Partly,
            reply => Outcome::Known(reply.clone()),
        };
        self.shared.history.end(number, outcome, now);
        self.shared.history.note_error(number, &reply, now);
        self.note_lost_session(now);
        self.shared.coverage.met(name, &before);
        reply
    }

    /// Writes down that the service has ended the session, if it has. When, only it knows: after
    /// the session began.
    fn note_lost_session(&self, now: u64) {
        let session = self.client.session();
        if session != 0
            && let Some(since) = self.life.lost_since()
        {
            let history = &self.shared.history;
            history.session_lost(self.id, since, now);
            self.life.session.set((session, now));
        }
    }

    fn directory(&mut self) -> u64 {
        // The root often, so that clients meet.
        if self.rng.once_in(2) {
            return self.directories[0];
        }
        *self
            .rng
            .choose(&self.directories)
            .expect("the root is always there")
    }

    fn name(&mut self, for_directory: bool) -> Vec<u8> {
        let letter = b'a' + self.rng.below(if for_directory { 3 } else { 5 }) as u8;
        if for_directory != self.rng.once_in(8) {
            vec![b'd', letter]
        } else {
            vec![letter]
        }
    }

    /// A name that is probably there, or any.
    fn existing(&mut self) -> (u64, Vec<u8>) {
        let names: Vec<(u64, Vec<u8>)> = self.names.keys().cloned().collect();
        if !self.rng.once_in(5)
            && let Some(found) = self.rng.choose(&names)
        {
            return found.clone();
        }
        let directory = self.rng.once_in(4);
        (self.directory(), self.name(directory))
    }

    fn inode(&mut self) -> u64 {
        let mut all = self.files.clone();
        all.extend(&self.directories);
        all.extend(&self.symlinks);
        *self.rng.choose(&all).expect("the root is always there")
    }

    fn learn(&mut self, parent: u64, name: &[u8], reply: &Reply) {
        match reply {
            Reply::Entry(seen) => {
                self.names.insert((parent, name.to_vec()), seen.ino);
                match seen.kind {
                    Kind::Directory => remember(&mut self.directories, seen.ino),
                    Kind::File => remember(&mut self.files, seen.ino),
                    Kind::Symlink => remember(&mut self.symlinks, seen.ino),
                    Kind::Fifo => {}
                }
            }
            Reply::Absent => {
                self.names.remove(&(parent, name.to_vec()));
            }
            Reply::Error(libc::ENOENT | libc::ESTALE) => {
                self.names.remove(&(parent, name.to_vec()));
            }
            _ => {}
        }
    }

    /// An inode has gone: there is little use in asking for it again and again.
    fn forget(&mut self, ino: u64, reply: &Reply) {
        if matches!(reply, Reply::Error(libc::ENOENT | libc::ESTALE)) && self.rng.once_in(2) {
            self.files.retain(|&file| file != ino);
            self.symlinks.retain(|&link| link != ino);
            let root = self.directories[0];
            self.directories
                .retain(|&directory| directory == root || directory != ino);
            self.names.retain(|_, named| *named != ino);
        }
    }

    async fn attempt(&mut self, choice: Try) {
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
            | Try::Lock => self.on_handle(choice).await,
            _ => self.on_inode(choice).await,
        }
    }

    async fn create(&mut self) {
        let parent = self.directory();
        let name = self.name(false);
        let exclusive = self.rng.once_in(3);
        let truncate = !exclusive && self.rng.once_in(4);
        let append = self.rng.once_in(4);
        let sync = self.rng.once_in(5);
        let op = Op::Create {
            parent,
            name: name.clone(),
            mode: 0o644,
            exclusive,
            truncate,
        };
        let flags = CreateFlags {
            exclusive,
            open: OpenFlags {
                read: true,
                write: true,
                append,
                truncate,
                sync,
            },
        };
        let mut opened = None;
        let reply = self
            .record(op, async |_| {
                match self
                    .client
                    .create(&self.cred, parent, &name, 0o644, flags)
                    .await
                {
                    Ok((known, handle)) => {
                        opened = Some(handle);
                        Reply::Entry(seen(&known.attr))
                    }
                    Err(Errno(errno)) => Reply::Error(errno),
                }
            })
            .await;
        self.learn(parent, &name, &reply);
        if let (Some(id), Reply::Entry(seen)) = (opened, &reply) {
            self.keep(Handle {
                ino: seen.ino,
                id,
                append,
                sync,
            })
            .await;
        }
    }

    async fn keep(&mut self, handle: Handle) {
        self.handles.push(handle);
        if self.handles.len() > HANDLES_MAX {
            let index = self.rng.below(self.handles.len() as u64) as usize;
            self.close(index).await;
        }
    }

    async fn make(&mut self, choice: Try) {
        let parent = self.directory();
        let name = self.name(choice == Try::Mkdir);
        let (op, target) = match choice {
            Try::Mkdir => (
                Op::Mkdir {
                    parent,
                    name: name.clone(),
                    mode: 0o755,
                },
                Vec::new(),
            ),
            Try::Mkfifo => (
                Op::Mkfifo {
                    parent,
                    name: name.clone(),
                    mode: 0o600,
                },
                Vec::new(),
            ),
            _ => {
                let target = vec![b'x'; 1 + self.rng.below(300) as usize];
                (
                    Op::Symlink {
                        parent,
                        name: name.clone(),
                        target: target.clone(),
                    },
                    target,
                )
            }
        };
        let reply = self
            .record(op, async |_| {
                let (client, cred) = (&self.client, &self.cred);
                known(match choice {
                    Try::Mkdir => client.mkdir(cred, parent, &name, 0o755).await,
                    Try::Mkfifo => {
                        client
                            .mknod(cred, parent, &name, FileKind::Fifo, 0o600, 0)
                            .await
                    }
                    _ => client.symlink(cred, parent, &name, &target).await,
                })
            })
            .await;
        self.learn(parent, &name, &reply);
    }

    async fn link(&mut self) {
        let Some(&ino) = self.rng.choose(&self.files) else {
            return;
        };
        let parent = self.directory();
        let name = self.name(false);
        let op = Op::Link {
            ino,
            parent,
            name: name.clone(),
        };
        let reply = self
            .record(op, async |_| {
                known(self.client.link(&self.cred, ino, parent, &name).await)
            })
            .await;
        self.learn(parent, &name, &reply);
    }

    async fn remove(&mut self, choice: Try) {
        let (parent, name) = self.existing();
        let directory = choice == Try::Rmdir;
        let op = if directory {
            Op::Rmdir {
                parent,
                name: name.clone(),
            }
        } else {
            Op::Unlink {
                parent,
                name: name.clone(),
            }
        };
        let reply = self
            .record(op, async |_| {
                done(if directory {
                    self.client.rmdir(&self.cred, parent, &name).await
                } else {
                    self.client.unlink(&self.cred, parent, &name).await
                })
            })
            .await;
        if matches!(reply, Reply::Done | Reply::Error(libc::ENOENT)) {
            self.names.remove(&(parent, name));
        }
    }

    async fn rename(&mut self, exchange: bool) {
        let (parent, name) = self.existing();
        let (new_parent, new_name) = if exchange || self.rng.once_in(3) {
            self.existing()
        } else {
            let directory = name.len() > 1;
            (self.directory(), self.name(directory))
        };
        let no_replace = !exchange && self.rng.once_in(4);
        let op = Op::Rename {
            parent,
            name: name.clone(),
            new_parent,
            new_name: new_name.clone(),
            no_replace,
            exchange,
        };
        let flags = RenameFlags {
            no_replace,
            exchange,
        };
        let reply = self
            .record(op, async |_| {
                done(
                    self.client
                        .rename(&self.cred, parent, &name, new_parent, &new_name, flags)
                        .await,
                )
            })
            .await;
        if reply == Reply::Done {
            let old = self.names.remove(&(parent, name.clone()));
            let replaced = self.names.remove(&(new_parent, new_name.clone()));
            if let Some(ino) = old {
                self.names.insert((new_parent, new_name), ino);
            }
            if let Some(ino) = replaced.filter(|_| exchange) {
                self.names.insert((parent, name), ino);
            }
        }
    }

    async fn lookup(&mut self) {
        let (parent, name) = self.existing();
        let op = Op::Lookup {
            parent,
            name: name.clone(),
        };
        let reply = self
            .record(op, async |_| {
                match self.client.lookup(&self.cred, parent, &name).await {
                    Ok(found) => match found.entry {
                        Some(known) => Reply::Entry(seen(&known.attr)),
                        None => Reply::Absent,
                    },
                    Err(Errno(errno)) => Reply::Error(errno),
                }
            })
            .await;
        self.learn(parent, &name, &reply);
        self.forget(parent, &reply);
    }

    /// Lists a directory and learns its names. Returns what it holds.
    pub async fn list_directory(&mut self, dir: u64) -> Vec<(Vec<u8>, u64, Kind)> {
        let reply = self
            .record(Op::List { dir }, async |_| match self.entries(dir).await {
                Ok(entries) => Reply::Listing(entries),
                Err(Errno(errno)) => Reply::Error(errno),
            })
            .await;
        match reply {
            Reply::Listing(entries) => entries,
            reply => {
                self.forget(dir, &reply);
                Vec::new()
            }
        }
    }

    async fn list(&mut self) {
        let dir = self.directory();
        for (name, ino, kind) in self.list_directory(dir).await {
            self.names.insert((dir, name), ino);
            match kind {
                Kind::Directory => remember(&mut self.directories, ino),
                Kind::File => remember(&mut self.files, ino),
                Kind::Symlink => remember(&mut self.symlinks, ino),
                Kind::Fifo => {}
            }
        }
    }

    async fn entries(&self, dir: u64) -> Result<Vec<(Vec<u8>, u64, Kind)>, Errno> {
        let handle = self.client.opendir(&self.cred, dir).await?;
        let mut entries = Vec::new();
        let mut after = 0;
        let plus = dir.is_multiple_of(2);
        let result = loop {
            match self.client.readdir(handle, after, 100, plus).await {
                Ok(page) => {
                    let Some(last) = page.last() else {
                        break Ok(entries);
                    };
                    after = last.cookie;
                    for entry in page {
                        if !matches!(&entry.name[..], b"." | b"..") {
                            entries.push((
                                entry.name.to_vec(),
                                entry.ino,
                                kind_of(entry.kind as i32),
                            ));
                        }
                    }
                }
                Err(errno) => break Err(errno),
            }
        };
        self.client.releasedir(handle);
        result
    }

    /// Opens a file for reading and writing. Returns false if it could not.
    pub async fn open_file(&mut self, ino: u64, flags: OpenFlags) -> bool {
        let op = Op::Open {
            ino,
            truncate: flags.truncate,
        };
        let mut opened = None;
        let reply = self
            .record(op, async |_| {
                let result = self.client.open(&self.cred, ino, flags).await;
                opened = result.ok();
                done(result)
            })
            .await;
        self.forget(ino, &reply);
        match opened {
            Some(id) => {
                self.keep(Handle {
                    ino,
                    id,
                    append: flags.append,
                    sync: flags.sync,
                })
                .await;
                true
            }
            None => false,
        }
    }

    async fn open(&mut self) {
        let Some(&ino) = self.rng.choose(&self.files) else {
            return;
        };
        let flags = OpenFlags {
            read: true,
            write: true,
            append: self.rng.once_in(4),
            truncate: self.rng.once_in(8),
            sync: self.rng.once_in(5),
        };
        self.open_file(ino, flags).await;
    }

    async fn close(&mut self, index: usize) {
        let handle = self.handles.remove(index);
        let owner = self.rng.below(2);
        let op = Op::Close {
            ino: handle.ino,
            owner,
        };
        self.record(op, async |_| {
            let flushed = self.client.flush(handle.id, Some(owner)).await;
            let released = self.client.release(handle.id, Some(owner)).await;
            done(flushed.and(released))
        })
        .await;
    }

    async fn on_inode(&mut self, choice: Try) {
        let attribute = vec![b'u', b's', b'e', b'r', b'.', b'a' + self.rng.below(3) as u8];
        let ino = match choice {
            Try::Readlink => match self.rng.choose(&self.symlinks) {
                Some(&ino) => ino,
                None => return,
            },
            Try::Truncate => match self.rng.choose(&self.files) {
                Some(&ino) => ino,
                None => return,
            },
            Try::Setxattr | Try::Getxattr | Try::Listxattr | Try::Removexattr => {
                let mut all = self.files.clone();
                all.extend(&self.directories);
                *self.rng.choose(&all).expect("the root is always there")
            }
            // A symlink's mode cannot be set.
            Try::Chmod => match self.rng.choose(&self.files) {
                Some(&ino) => ino,
                None => return,
            },
            _ => self.inode(),
        };
        let mut value = vec![0; self.rng.below(64) as usize];
        self.rng.fill(&mut value);
        let mode = [0o600, 0o640, 0o644, 0o755][self.rng.below(4) as usize];
        let size = self.rng.below(FILE_BYTES);
        let op = match choice {
            Try::Readlink => Op::Readlink { ino },
            Try::Chmod => Op::Chmod { ino, mode },
            Try::Truncate => Op::Truncate { ino, size },
            Try::Setxattr => Op::Setxattr {
                ino,
                name: attribute.clone(),
                value: value.clone(),
            },
            Try::Getxattr => Op::Getxattr {
                ino,
                name: attribute.clone(),
            },
            Try::Listxattr => Op::Listxattr { ino },
            Try::Removexattr => Op::Removexattr {
                ino,
                name: attribute.clone(),
            },
            _ => Op::Getattr { ino },
        };
        let reply = self
            .record(op, async |_| {
                let (client, cred) = (&self.client, &self.cred);
                let bytes = |result: Result<bytes::Bytes, Errno>| match result {
                    Ok(bytes) => Reply::Bytes(bytes),
                    Err(Errno(errno)) => Reply::Error(errno),
                };
                match choice {
                    Try::Readlink => bytes(client.readlink(ino).await),
                    Try::Chmod => {
                        let set = SetAttr {
                            mode: Some(mode),
                            ..SetAttr::default()
                        };
                        known(client.setattr(cred, ino, set, None).await)
                    }
                    Try::Truncate => {
                        let set = SetAttr {
                            size: Some(size),
                            ..SetAttr::default()
                        };
                        known(client.setattr(cred, ino, set, None).await)
                    }
                    Try::Setxattr => done(
                        client
                            .setxattr(cred, ino, &attribute, value.into(), XattrFlags::Any)
                            .await,
                    ),
                    Try::Getxattr => bytes(client.getxattr(cred, ino, &attribute).await),
                    Try::Listxattr => match client.listxattr(cred, ino).await {
                        Ok(names) => {
                            Reply::Names(names.into_iter().map(|name| name.to_vec()).collect())
                        }
                        Err(Errno(errno)) => Reply::Error(errno),
                    },
                    Try::Removexattr => done(client.removexattr(cred, ino, &attribute).await),
                    _ => known(client.getattr(ino).await),
                }
            })
            .await;
        self.forget(ino, &reply);
    }

    async fn on_handle(&mut self, choice: Try) {
        if self.handles.is_empty() {
            self.open().await;
        }
        if self.handles.is_empty() {
            return;
        }
        let index = self.rng.below(self.handles.len() as u64) as usize;
        let Handle {
            ino,
            id,
            append,
            sync,
        } = self.handles[index];
        let offset = self.offset();
        let length = self.length();
        match choice {
            Try::Read => {
                self.read(ino, id, offset, length * 2).await;
            }
            Try::Write | Try::Append => {
                let append = append || choice == Try::Append;
                let op = Op::Write {
                    ino,
                    offset,
                    length,
                    append,
                    sync,
                };
                self.record(op, async |number| {
                    let data = content::bytes(number, length).into();
                    match self.client.write(id, offset, data, append).await {
                        Ok(count) if count as u64 == length => Reply::Done,
                        Ok(count) => Reply::Names(vec![format!("{count} written").into_bytes()]),
                        Err(Errno(errno)) => Reply::Error(errno),
                    }
                })
                .await;
            }
            Try::Fsync => {
                let data_only = self.rng.once_in(3);
                self.record(Op::Fsync { ino, data_only }, async |_| {
                    done(self.client.fsync(id, data_only).await)
                })
                .await;
            }
            Try::Punch => {
                let op = Op::Punch {
                    ino,
                    offset,
                    length,
                };
                self.record(op, async |_| {
                    let mode = Allocate::PunchHole;
                    done(self.client.fallocate(id, mode, offset, length).await)
                })
                .await;
            }
            Try::Zero => {
                let keep_size = self.rng.once_in(2);
                let op = Op::ZeroRange {
                    ino,
                    offset,
                    length,
                    keep_size,
                };
                self.record(op, async |_| {
                    let mode = Allocate::ZeroRange { keep_size };
                    done(self.client.fallocate(id, mode, offset, length).await)
                })
                .await;
            }
            Try::Extend => {
                let op = Op::Extend {
                    ino,
                    offset,
                    length,
                };
                self.record(op, async |_| {
                    let mode = Allocate::Extend;
                    done(self.client.fallocate(id, mode, offset, length).await)
                })
                .await;
            }
            _ => self.lock(ino).await,
        }
    }

    async fn read(&self, ino: u64, id: HandleId, offset: u64, length: u64) {
        let op = Op::Read {
            ino,
            offset,
            length,
        };
        self.record(op, async |_| {
            match self.client.read(id, offset, length as usize).await {
                Ok(parts) => Reply::Bytes(parts.concat().into()),
                Err(Errno(errno)) => Reply::Error(errno),
            }
        })
        .await;
    }

    async fn lock(&mut self, ino: u64) {
        let owner = self.rng.below(2);
        let flock = self.rng.once_in(3);
        let (first, last) = if flock {
            (FLOCK_UNIT, FLOCK_UNIT)
        } else {
            let first = self.rng.below(u64::from(LOCK_UNITS)) as u8;
            let last = self.rng.within(u64::from(first)..u64::from(LOCK_UNITS)) as u8;
            (first, last)
        };
        let exclusive = match self.rng.below(3) {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        let op = Op::Lock {
            ino,
            owner,
            first,
            last,
            exclusive,
        };
        let kind = match exclusive {
            None => file_lock::Kind::Unlock,
            Some(false) => file_lock::Kind::Shared,
            Some(true) => file_lock::Kind::Exclusive,
        };
        let lock = FileLock {
            kind: kind as i32,
            flock,
            owner,
            start: if flock {
                0
            } else {
                u64::from(first) * LOCK_UNIT_BYTES
            },
            last: if flock {
                u64::MAX
            } else {
                (u64::from(last) + 1) * LOCK_UNIT_BYTES - 1
            },
            pid: 1,
        };
        self.record(op, async |_| {
            done(self.client.setlk(&self.cred, ino, lock, false).await)
        })
        .await;
    }

    fn offset(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(FILE_BYTES / 4096) * 4096,
            2 => self.rng.below(8192),
            _ => self.rng.below(FILE_BYTES),
        }
    }

    fn length(&mut self) -> u64 {
        match self.rng.below(8) {
            0..=3 => 1 + self.rng.below(5_000),
            4..=5 => 4096 * (1 + self.rng.below(8)),
            6 => 1 + self.rng.below(100_000),
            _ => 65_536,
        }
    }

    /// Reads the whole tree: attributes, contents, targets and extended attributes.
    pub async fn read_everything(&mut self) {
        let mut waiting = vec![self.directories[0]];
        while let Some(dir) = waiting.pop() {
            for (name, ino, kind) in self.list_directory(dir).await {
                let op = Op::Lookup {
                    parent: dir,
                    name: name.clone(),
                };
                self.record(op, async |_| {
                    match self.client.lookup(&self.cred, dir, &name).await {
                        Ok(found) => match found.entry {
                            Some(known) => Reply::Entry(seen(&known.attr)),
                            None => Reply::Absent,
                        },
                        Err(Errno(errno)) => Reply::Error(errno),
                    }
                })
                .await;
                match kind {
                    Kind::Directory => waiting.push(ino),
                    Kind::File => {
                        let flags = OpenFlags {
                            read: true,
                            ..OpenFlags::default()
                        };
                        if self.open_file(ino, flags).await {
                            let id = self.handles[self.handles.len() - 1].id;
                            self.read(ino, id, 0, FILE_BYTES * 8).await;
                            self.close(self.handles.len() - 1).await;
                        }
                    }
                    Kind::Symlink => {
                        self.record(Op::Readlink { ino }, async |_| {
                            match self.client.readlink(ino).await {
                                Ok(target) => Reply::Bytes(target),
                                Err(Errno(errno)) => Reply::Error(errno),
                            }
                        })
                        .await;
                    }
                    Kind::Fifo => {}
                }
            }
        }
    }

    /// Ends the session in good order.
    pub async fn leave(self) -> Result<(), Errno> {
        let since = self.shared.clock.now();
        let left = self.client.close().await;
        let now = self.shared.clock.now();
        let history = &self.shared.history;
        match (&left, self.life.lost_since()) {
            (Ok(()), None) => history.session_left(self.id, since, now),
            (_, lost) => history.session_lost(self.id, lost.unwrap_or(since), now),
        }
        left
    }
}
