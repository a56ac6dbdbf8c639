//! Two replica groups and a pair in a simulated world, all of them stand-ins: a group knows names and
//! inodes as a test puts them, tells what it was asked, and does what a client's request needs of it.
//!
//! Group 0 has the slots below [`FOREIGN`], group 1 the others.

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, OpenFlags, Settings};
use weft_env::Env;
use weft_rpc::{Connection, Handler, Local, Payload, Replier, Request, serve};
use weft_sim::World;
use weft_types::{Ino, Slot};
use weft_wire::proto::{self, *};
use weft_wire::{Failed, Rpc};

const CLUSTER: &str = "test";
/// The first slot of group 1.
const FOREIGN: u16 = 2048;
/// Of a session.
pub const TERM: Duration = Duration::from_millis(1_500);

pub const ROOT: u64 = weft_types::ROOT_INO.0;
pub const RW: OpenFlags = OpenFlags {
    read: true,
    write: true,
    append: false,
    truncate: false,
    sync: false,
    execute: false,
    keep_atime: false,
};

/// An inode of group 0.
pub fn here(number: u64) -> u64 {
    Ino::new(Slot(1), number).0
}

/// An inode of group 1.
pub fn there(number: u64) -> u64 {
    Ino::new(Slot(FOREIGN + 1), number).0
}

pub fn group_of(ino: u64) -> u32 {
    u32::from(Ino(ino).slot().0 >= FOREIGN)
}

pub fn file(ino: u64) -> Inode {
    Inode {
        attr: Some(Attr {
            ino,
            kind: FileKind::Regular as i32,
            mode: 0o644,
            nlink: 1,
            change: 1,
            ..Attr::default()
        }),
        layout: Some(Layout {
            stripe_unit: 64 << 10,
            pairs: vec![0],
            protocol: Protocol::ClientSync as i32,
            durability: Durability::Memory as i32,
            generation: 1,
        }),
        ..Inode::default()
    }
}

pub fn directory(ino: u64) -> Inode {
    Inode {
        attr: Some(Attr {
            ino,
            kind: FileKind::Directory as i32,
            mode: 0o755,
            nlink: 2,
            change: 1,
            ..Attr::default()
        }),
        ..Inode::default()
    }
}

/// What is done before a question about an inode, or a change, is answered.
type Hook<T> = RefCell<Option<Box<dyn FnMut(&Rc<Group>, &T)>>>;

/// A lease that is asked back when its session is taken up.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// Of which inode.
    pub ino: u64,
    /// What may be kept; SHARED: all of it, only what is owed is asked for.
    pub to: LeaseMode,
    /// So much earlier, in milliseconds, than the session is said to be taken up.
    pub earlier: u64,
}

/// The active of a group, alone in it.
pub struct Group {
    pub env: Env,
    pub id: u32,
    pub inodes: RefCell<BTreeMap<u64, Inode>>,
    pub names: RefCell<BTreeMap<(u64, Vec<u8>), u64>>,
    /// What clients asked, but for renewals.
    pub asked: RefCell<Vec<String>>,
    /// What renewals said to be settled: the highest epoch.
    pub settled: Cell<u64>,
    pub renewals: Cell<usize>,
    /// Changes are made, and not answered yet.
    pub holds_changes: Cell<bool>,
    /// Inodes are looked at, and not answered yet.
    pub holds_inodes: Cell<bool>,
    /// Renewals wait for [`Group::answer_renewal`].
    pub holds_renewals: Cell<bool>,
    pub held_renewals: RefCell<VecDeque<Replier>>,
    /// What they said of leases that are given back.
    pub giving_back: RefCell<BTreeSet<u64>>,
    /// Sessions that said goodbye, with the time.
    pub goodbyes: RefCell<Vec<u64>>,
    ended: RefCell<BTreeSet<u64>>,
    next_session: Cell<u64>,
    seq: Cell<u64>,
    connection: RefCell<Option<Connection>>,
    /// Requests get no answer.
    pub silent: Cell<bool>,
    unanswered: RefCell<Vec<Replier>>,
    /// Asked as soon as a session is taken up.
    pub asks_at_once: Cell<Option<AtOnce>>,
    /// What was answered to that.
    pub told_at_once: RefCell<Option<RevokeReply>>,
    /// It says of its own inodes that they are another group's.
    pub confused: Cell<bool>,
    /// It says of every inode that it is asked about that the other group has its slot.
    pub sends_away: Cell<bool>,
    /// Granted beside what is asked for, if not 0: an inode of another group.
    pub grants_foreign: Cell<u64>,
    pub before_inode: Hook<u64>,
    pub before_change: Hook<op::Op>,
    /// The other one: who unlinks has it ask its clients.
    pub other: RefCell<Option<Rc<Group>>>,
}

fn view() -> View {
    let group = |id: u32| proto::Group {
        id,
        epoch: 1,
        members: vec![GroupMember {
            id: 1,
            address: format!("m{id}:7000"),
            ..GroupMember::default()
        }],
        active: 1,
        ..proto::Group::default()
    };
    let slots = |first: u16, last: u16, group| SlotRange {
        first: first.into(),
        last: last.into(),
        group,
    };
    View {
        cluster_id: CLUSTER.into(),
        version: 3,
        groups: vec![group(0), group(1)],
        pairs: vec![PairMembers {
            pair: 0,
            addresses: vec!["d0:7000".into(), "d1:7000".into()],
        }],
        slots: vec![slots(0, FOREIGN - 1, 0), slots(FOREIGN, 4095, 1)],
        ..View::default()
    }
}

fn local(role: identity::Role, id: u64, group: u32) -> Local {
    Local::new(
        CLUSTER.into(),
        Identity {
            role: role as i32,
            id,
            incarnation: 1,
            group,
        },
    )
}

impl Group {
    fn start(world: &World, id: u32) -> Rc<Group> {
        let place: Rc<RefCell<Option<Rc<Group>>>> = Rc::default();
        let node = world.node(&format!("m{id}"));
        let started = place.clone();
        node.start(move |env| async move {
            let group = Rc::new(Group {
                env: env.clone(),
                id,
                inodes: RefCell::default(),
                names: RefCell::default(),
                asked: RefCell::default(),
                settled: Cell::default(),
                renewals: Cell::default(),
                holds_changes: Cell::new(false),
                holds_inodes: Cell::new(false),
                holds_renewals: Cell::new(false),
                held_renewals: RefCell::default(),
                giving_back: RefCell::default(),
                goodbyes: RefCell::default(),
                ended: RefCell::default(),
                next_session: Cell::new((u64::from(id) << 48) + 1),
                seq: Cell::new(1),
                connection: RefCell::default(),
                silent: Cell::new(false),
                unanswered: RefCell::default(),
                asks_at_once: Cell::new(None),
                told_at_once: RefCell::default(),
                confused: Cell::new(false),
                sends_away: Cell::new(false),
                grants_foreign: Cell::new(0),
                before_inode: RefCell::default(),
                before_change: RefCell::default(),
                other: RefCell::default(),
            });
            *started.borrow_mut() = Some(group.clone());
            let on_request: Handler = {
                let group = group.clone();
                Rc::new(move |connection, request| group.on_request(connection, request))
            };
            let local = local(identity::Role::Meta, 1, id);
            let address = format!("m{id}:7000");
            let serving = serve(&env, &address, local, |_| {}, on_request);
            serving.await.unwrap();
            std::future::pending::<()>().await;
        });
        world.block_on({
            let world = world.clone();
            async move { world.sleep(Duration::from_millis(1)).await }
        });
        let group = place.borrow().clone();
        group.unwrap()
    }

    pub fn put(&self, inode: Inode) {
        let ino = inode.attr.unwrap().ino;
        assert_eq!(group_of(ino), self.id);
        self.inodes.borrow_mut().insert(ino, inode);
    }

    pub fn name(&self, dir: u64, name: &str, ino: u64) {
        assert_eq!(group_of(dir), self.id);
        let key = (dir, name.as_bytes().to_vec());
        self.names.borrow_mut().insert(key, ino);
    }

    pub fn unname(&self, dir: u64, name: &str) {
        let key = (dir, name.as_bytes().to_vec());
        self.names.borrow_mut().remove(&key).unwrap();
    }

    fn named(&self, dir: u64, name: &[u8]) -> Option<u64> {
        self.names.borrow().get(&(dir, name.to_vec())).copied()
    }

    /// What was asked since this was called last.
    pub fn take_asked(&self) -> Vec<String> {
        self.asked.take()
    }

    /// The client's session has ended, though the client does not know yet.
    pub fn end_session(&self, session: u64) {
        self.ended.borrow_mut().insert(session);
    }

    /// The connection to the client breaks.
    pub fn break_connection(&self) {
        if let Some(connection) = self.connection.take() {
            connection.close("cut");
        }
    }

    /// Answers the renewal that has waited longest.
    pub fn answer_renewal(&self) {
        let replier = self.held_renewals.borrow_mut().pop_front().unwrap();
        replier.send::<RenewRequest>(&RenewReply::default(), Payload::none());
    }

    fn lease(&self, ino: u64, mode: LeaseMode) -> Lease {
        self.seq.set(self.seq.get() + 1);
        Lease {
            ino,
            mode: mode as i32,
            seq: self.seq.get(),
            start: 0,
            end: u64::MAX,
            write: false,
            ..Lease::default()
        }
    }

    fn read_leases(&self, inos: &[u64]) -> Vec<Lease> {
        let beside = self.grants_foreign.get();
        let own = inos.iter().filter(|ino| group_of(**ino) == self.id);
        let granted = own.chain(Some(&beside).filter(|ino| **ino != 0));
        granted
            .map(|ino| self.lease(*ino, LeaseMode::LeaseRead))
            .collect()
    }

    /// Asks the client to give a lease back.
    pub async fn revoke(&self, ino: u64, held: LeaseMode, unlinking: bool) -> RevokeReply {
        self.seq.set(self.seq.get() + 1);
        let revoke = RevokeRequest {
            ino,
            to: LeaseMode::LeaseNone as i32,
            seq: self.seq.get(),
            unlinking,
            held: held as i32,
            ..RevokeRequest::default()
        };
        let connection = self.connection.borrow().clone().unwrap();
        connection.call(&revoke, Payload::none()).await.unwrap().0
    }

    fn note(&self, what: String) {
        self.asked.borrow_mut().push(what);
    }

    fn on_request(self: &Rc<Self>, connection: &Connection, request: Request) {
        if self.silent.get() {
            return self.unanswered.borrow_mut().push(request.replier);
        }
        let wanted = connection.identity().group;
        if wanted != self.id {
            let address = format!("m{wanted}:7000");
            return request.replier.fail(Failed::NotActive {
                active: address.clone(),
                members: vec![address],
            });
        }
        match request.method {
            LeadsRequest::METHOD => request
                .replier
                .send::<LeadsRequest>(&LeadsReply::default(), Payload::none()),
            SessionRequest::METHOD => self.on_session(connection, request),
            RenewRequest::METHOD => self.on_renew(request),
            LookupRequest::METHOD => self.on_lookup(request),
            GetInodeRequest::METHOD => self.on_get_inode(request),
            GetLockRequest::METHOD => request
                .replier
                .send::<GetLockRequest>(&GetLockReply::default(), Payload::none()),
            ChangeRequest::METHOD => {
                let (group, change) = (self.clone(), request.decode::<ChangeRequest>().unwrap());
                self.env.spawn("change", async move {
                    group.on_change(change, request.replier).await;
                });
            }
            other => panic!("method {other}"),
        }
    }

    fn on_session(self: &Rc<Self>, connection: &Connection, request: Request) {
        let asked: SessionRequest = request.decode().unwrap();
        let session = match asked.session {
            0 => {
                self.note("open session".into());
                self.next_session.replace(self.next_session.get() + 1)
            }
            ended if self.ended.borrow().contains(&ended) => {
                return request.replier.fail(Failed::Fenced("ended".into()));
            }
            session => {
                let (open, write) = (asked.open_inodes, asked.write_leases.clone());
                self.note(format!("take up {open:x?} {write:x?}"));
                session
            }
        };
        *self.connection.borrow_mut() = Some(connection.clone());
        let reply = SessionReply {
            session,
            epoch: 1,
            view: Some(view()),
            pairs: vec![PairState {
                pair: 0,
                epoch: 4,
                mode: pair_state::Mode::Both as i32,
                store_0: 1,
                store_1: 2,
                ..PairState::default()
            }],
            term_ms: TERM.as_millis() as u64,
            root_ino: ROOT,
            write_leases: asked.write_leases,
            ..SessionReply::default()
        };
        let at_once = self.asks_at_once.get().filter(|_| asked.session != 0);
        let (env, replier) = (self.env.clone(), request.replier);
        let earlier = at_once.map_or(0, |at_once| at_once.earlier);
        let answer = move || replier.send::<SessionRequest>(&reply, Payload::none());
        if earlier == 0 {
            answer();
        } else {
            self.env.spawn("session taken up", async move {
                env.sleep(Duration::from_millis(earlier)).await;
                answer();
            });
        }
        if let Some(at_once) = at_once {
            let (group, connection) = (self.clone(), connection.clone());
            self.seq.set(self.seq.get() + 1);
            let ask = RevokeRequest {
                ino: at_once.ino,
                to: at_once.to as i32,
                seq: self.seq.get(),
                held: LeaseMode::LeaseWrite as i32,
                ..RevokeRequest::default()
            };
            self.env.spawn("ask at once", async move {
                let told = connection.call(&ask, Payload::none()).await.unwrap().0;
                group.told_at_once.replace(Some(told));
            });
        }
    }

    fn on_renew(&self, request: Request) {
        let renew: RenewRequest = request.decode().unwrap();
        self.renewals.set(self.renewals.get() + 1);
        self.giving_back.borrow_mut().extend(renew.giving_back);
        for settled in &renew.settled {
            self.settled.set(self.settled.get().max(settled.epoch));
        }
        if self.holds_renewals.get() {
            return self.held_renewals.borrow_mut().push_back(request.replier);
        }
        match self.ended.borrow().contains(&renew.session) {
            true => request.replier.fail(Failed::Fenced("ended".into())),
            false => request
                .replier
                .send::<RenewRequest>(&RenewReply::default(), Payload::none()),
        }
    }

    fn on_lookup(&self, request: Request) {
        let lookup: LookupRequest = request.decode().unwrap();
        let name = String::from_utf8_lossy(&lookup.name).into_owned();
        self.note(format!("lookup {name}"));
        let found = self.named(lookup.parent, &lookup.name);
        let inode = found.map(
            |ino| match group_of(ino) == self.id && !self.confused.get() {
                true => self.inodes.borrow()[&ino].clone(),
                false => elsewhere(ino),
            },
        );
        let inos: Vec<u64> = found.into_iter().chain([lookup.parent]).collect();
        let reply = LookupReply {
            inode,
            leases: self.read_leases(&inos),
        };
        request
            .replier
            .send::<LookupRequest>(&reply, Payload::none());
    }

    fn on_get_inode(self: &Rc<Self>, request: Request) {
        let get: GetInodeRequest = request.decode().unwrap();
        self.note(format!("get {:x}", get.ino));
        if self.sends_away.get() {
            let to = 1 - self.id;
            return request.replier.fail(Failed::Moved {
                slot: u32::from(weft_types::Ino(get.ino).slot().0),
                group: to,
                members: vec![format!("m{to}:7000")],
            });
        }
        let hook = self.before_inode.take();
        if let Some(mut hook) = hook {
            hook(self, &get.ino);
            self.before_inode.borrow_mut().get_or_insert(hook);
        }
        let Some(inode) = self.inodes.borrow().get(&get.ino).cloned() else {
            return request.replier.fail(Failed::Errno(libc::ESTALE));
        };
        let reply = GetInodeReply {
            inode: Some(inode),
            leases: self.read_leases(&[get.ino]),
        };
        let (group, replier) = (self.clone(), request.replier);
        let answer = move || replier.send::<GetInodeRequest>(&reply, Payload::none());
        if !group.holds_inodes.get() {
            return answer();
        }
        self.env.spawn("inode", async move {
            while group.holds_inodes.get() {
                group.env.sleep(Duration::from_millis(1)).await;
            }
            answer();
        });
    }

    async fn on_change(self: &Rc<Self>, change: ChangeRequest, replier: Replier) {
        if self.ended.borrow().contains(&change.session) {
            return replier.fail(Failed::Fenced("ended".into()));
        }
        let op = change.op.unwrap().op.unwrap();
        let hook = self.before_change.take();
        if let Some(mut hook) = hook {
            hook(self, &op);
            self.before_change.borrow_mut().get_or_insert(hook);
        }
        let mut leases = Vec::new();
        let reply = match op {
            op::Op::Create(create) => self.create(&create, &mut leases),
            op::Op::Unlink(unlink) => self.unlink(&unlink).await,
            op::Op::Rename(rename) => self.rename(&rename).await,
            op::Op::Setattr(set) => self.setattr(&set),
            op::Op::WriteLease(ask) => {
                self.note(format!("write lease {:x}", ask.ino));
                leases.push(self.lease(ask.ino, LeaseMode::LeaseWrite));
                let inode = self.inodes.borrow()[&ask.ino].clone();
                Ok(OpReply {
                    attr: inode.attr,
                    layout: inode.layout,
                    ..OpReply::default()
                })
            }
            op::Op::Setxattr(set) => {
                self.note(format!("setxattr {:x}", set.ino));
                Ok(OpReply {
                    attr: self.touch(set.ino),
                    ..OpReply::default()
                })
            }
            op::Op::Release(release) => {
                self.note(format!("release {:x}", release.ino));
                Ok(OpReply::default())
            }
            op::Op::SetLock(lock) => {
                self.note(format!("lock {:x}", lock.ino));
                Ok(OpReply::default())
            }
            op::Op::CloseSession(close) => {
                self.goodbyes.borrow_mut().push(close.session);
                self.note("goodbye".into());
                Ok(OpReply::default())
            }
            other => panic!("{other:?}"),
        };
        let reply = reply.unwrap_or_else(|errno: i32| OpReply {
            failure_errno: errno as u32,
            ..OpReply::default()
        });
        while self.holds_changes.get() {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        let reply = ChangeReply {
            reply: Some(reply),
            leases,
            writers: 0,
        };
        replier.send::<ChangeRequest>(&reply, Payload::none());
    }

    /// An inode has changed; what it is like now.
    fn touch(&self, ino: u64) -> Option<Attr> {
        let mut inodes = self.inodes.borrow_mut();
        let attr = inodes.get_mut(&ino)?.attr.as_mut()?;
        attr.change += 1;
        Some(*attr)
    }

    fn create(&self, create: &Create, leases: &mut Vec<Lease>) -> Result<OpReply, i32> {
        let name = String::from_utf8_lossy(&create.name).into_owned();
        self.note(format!("create {name}"));
        leases.extend(self.read_leases(&[create.parent]));
        let is_directory = create.kind == FileKind::Directory as i32;
        match self.named(create.parent, &create.name) {
            Some(_) if create.exclusive => Err(libc::EEXIST),
            Some(ino) => Ok(OpReply {
                elsewhere: group_of(ino) != self.id,
                parent: self.inodes.borrow()[&create.parent].attr,
                ..OpReply::default()
            })
            .map(|reply| match reply.elsewhere {
                true => OpReply {
                    attr: elsewhere(ino).attr,
                    ..reply
                },
                false => OpReply {
                    attr: self.inodes.borrow()[&ino].attr,
                    layout: self.inodes.borrow()[&ino].layout.clone(),
                    ..reply
                },
            }),
            // Directories are the other group's, by their hash.
            None if is_directory => {
                let other = self.other.borrow().clone().unwrap();
                let ino = there(0x1000 + other.inodes.borrow().len() as u64);
                let made = directory(ino);
                other.put(made.clone());
                self.name(create.parent, &name, ino);
                Ok(OpReply {
                    attr: made.attr,
                    parent: self.touch(create.parent),
                    created: true,
                    ..OpReply::default()
                })
            }
            None => {
                let ino = here(0x1000 + self.inodes.borrow().len() as u64);
                let made = file(ino);
                self.put(made.clone());
                self.name(create.parent, &name, ino);
                leases.push(self.lease(ino, LeaseMode::LeaseWrite));
                Ok(OpReply {
                    attr: made.attr,
                    layout: made.layout,
                    parent: self.touch(create.parent),
                    created: true,
                    ..OpReply::default()
                })
            }
        }
    }

    /// As a home does it: the victim's group asks for the leases on it first, the asking client's too.
    async fn unlink(&self, unlink: &Unlink) -> Result<OpReply, i32> {
        let name = String::from_utf8_lossy(&unlink.name).into_owned();
        self.note(format!("unlink {name}"));
        let ino = self
            .named(unlink.parent, &unlink.name)
            .ok_or(libc::ENOENT)?;
        let other = self.other.borrow().clone().unwrap();
        assert_eq!(group_of(ino), other.id);
        let answer = other.revoke(ino, LeaseMode::LeaseRead, true).await;
        other.note(format!("asked: open {}", answer.open));
        let mut victim = other.inodes.borrow_mut().remove(&ino).unwrap();
        let attr = victim.attr.as_mut().unwrap();
        (attr.nlink, attr.change) = (0, attr.change + 1);
        let attr = *attr;
        if answer.open {
            other.put(victim);
        }
        self.unname(unlink.parent, &name);
        Ok(OpReply {
            parent: self.touch(unlink.parent),
            victim: Some(attr),
            ..OpReply::default()
        })
    }

    /// Of its own inode to another group's directory, on which that asks for all leases.
    async fn rename(&self, rename: &Rename) -> Result<OpReply, i32> {
        self.note("rename".into());
        let ino = self
            .named(rename.parent, &rename.name)
            .ok_or(libc::ENOENT)?;
        let other = self.other.borrow().clone().unwrap();
        other
            .revoke(rename.new_parent, LeaseMode::LeaseRead, false)
            .await;
        self.unname(rename.parent, &String::from_utf8_lossy(&rename.name));
        let new_name = String::from_utf8_lossy(&rename.new_name).into_owned();
        other.name(rename.new_parent, &new_name, ino);
        Ok(OpReply {
            attr: self.touch(ino),
            parent: self.touch(rename.parent),
            new_parent: other.touch(rename.new_parent),
            ..OpReply::default()
        })
    }

    fn setattr(&self, set: &Setattr) -> Result<OpReply, i32> {
        self.note(format!("setattr {:x} {:?}", set.ino, set.size));
        let mut inodes = self.inodes.borrow_mut();
        let inode = inodes.get_mut(&set.ino).ok_or(libc::ESTALE)?;
        let attr = inode.attr.as_mut().unwrap();
        attr.change += 1;
        if let Some(size) = set.size {
            attr.size = size;
        }
        Ok(OpReply {
            attr: inode.attr,
            layout: inode.layout.clone(),
            ..OpReply::default()
        })
    }
}

fn elsewhere(ino: u64) -> Inode {
    Inode {
        attr: Some(Attr {
            ino,
            kind: FileKind::Regular as i32,
            ..Attr::default()
        }),
        elsewhere: true,
        ..Inode::default()
    }
}

const WRITTEN: WriteReply = WriteReply {
    both: true,
    room: 1 << 40,
    window: 1 << 20,
};

/// What the members of the pair were asked.
#[derive(Default)]
pub struct Data {
    pub bytes: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// Which sessions wrote, read or synced which inode.
    pub sessions: RefCell<BTreeSet<(u64, u64)>>,
    /// What each session said to be on both members: the highest number.
    pub confirmed: RefCell<BTreeMap<u64, u64>>,
    pub connections: Cell<usize>,
    /// Writes of this inode are not answered, if not 0.
    pub hangs_for: Cell<u64>,
    /// The number of one that was not.
    pub hung: Cell<u64>,
    unanswered: RefCell<Vec<Replier>>,
}

impl Data {
    fn start(world: &World) -> Rc<Data> {
        let data: Rc<Data> = Rc::default();
        for member in 0..2 {
            let data = data.clone();
            world
                .node(&format!("d{member}"))
                .start(move |env| async move {
                    let counted = data.clone();
                    let on_connection =
                        move |_| counted.connections.set(counted.connections.get() + 1);
                    let handler: Handler = Rc::new(move |_, request| data.on_request(request));
                    let local = local(identity::Role::Data, member, 0);
                    let address = format!("d{member}:7000");
                    serve(&env, &address, local, on_connection, handler)
                        .await
                        .unwrap();
                    std::future::pending::<()>().await;
                });
        }
        data
    }

    /// Answers what was not, and all that comes.
    pub fn answer(&self) {
        self.hangs_for.set(0);
        for replier in self.unanswered.take() {
            replier.send::<WriteRequest>(&WRITTEN, Payload::none());
        }
    }

    fn note(&self, session: u64, object: &Option<ObjectName>) -> u64 {
        let ino = object.as_ref().unwrap().ino;
        self.sessions.borrow_mut().insert((ino, session));
        ino
    }

    fn on_request(&self, request: Request) {
        match request.method {
            WriteRequest::METHOD => {
                let write: WriteRequest = request.decode().unwrap();
                let ino = self.note(write.session, &write.object);
                let hangs = self.hangs_for.get() == ino;
                if hangs {
                    self.hung.set(write.operation);
                }
                let mut all = self.bytes.borrow_mut();
                let bytes = all.entry(ino).or_default();
                let mut at = 0;
                for extent in &write.extents {
                    let (start, length) = (extent.offset as usize, extent.length as usize);
                    let end = start + length;
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[start..end].copy_from_slice(&request.payload[at..at + length]);
                    at += length;
                }
                let reply = WRITTEN;
                match hangs {
                    true => self.unanswered.borrow_mut().push(request.replier),
                    false => request
                        .replier
                        .send::<WriteRequest>(&reply, Payload::none()),
                }
            }
            ReadRequest::METHOD => {
                let read: ReadRequest = request.decode().unwrap();
                let ino = self.note(read.session, &read.object);
                let all = self.bytes.borrow();
                let bytes = all.get(&ino).map_or(&[][..], |bytes| bytes);
                let start = bytes.len().min(read.offset as usize);
                let end = bytes.len().min(start + read.length as usize);
                let data = Bytes::copy_from_slice(&bytes[start..end]);
                request
                    .replier
                    .send::<ReadRequest>(&ReadReply::default(), data);
            }
            Confirmed::METHOD => {
                let confirmed: Confirmed = request.decode().unwrap();
                let mut all = self.confirmed.borrow_mut();
                let known = all.entry(confirmed.session).or_default();
                *known = confirmed.below.max(*known);
                request.replier.send::<Confirmed>(&(), Payload::none());
            }
            other => panic!("method {other}"),
        }
    }
}

/// The two groups and the pair. The client's host is `c`.
pub struct Bed {
    pub world: World,
    pub groups: [Rc<Group>; 2],
    pub data: Rc<Data>,
}

impl Bed {
    /// A client of this cluster that knows the addresses of these groups.
    pub async fn client(&self, groups: &[u32]) -> Client {
        let settings = Settings {
            meta: groups.iter().map(|id| format!("m{id}:7000")).collect(),
            cluster_id: CLUSTER.into(),
            name: "c".into(),
            patience_ms: 10_000,
            ..Settings::default()
        };
        let env = self.world.node("c").env();
        Client::connect(env, settings).await.unwrap()
    }

    pub async fn sleep(&self, millis: u64) {
        self.world.sleep(Duration::from_millis(millis)).await;
    }
}

/// Runs a test in a world of its own, in which the root directory is there.
pub fn with_groups<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(7);
    world.set_limit(Duration::from_secs(120));
    let groups = [Group::start(&world, 0), Group::start(&world, 1)];
    *groups[0].other.borrow_mut() = Some(groups[1].clone());
    groups[0].put(directory(ROOT));
    world.node("c").start(|_| std::future::pending());
    let bed = Rc::new(Bed {
        world: world.clone(),
        data: Data::start(&world),
        groups,
    });
    world.block_on(test(bed));
}
