//! Tests of each operation through `apply`, as a server calls it.

mod create;
mod exactly_once;
mod images;
mod leases;
mod lingering;
mod locks;
mod names;
mod reads;
mod relayout;
mod remnants;
mod rename;
mod service;
mod setattr;
mod truncate;
mod unnamed;
mod xattrs;

use crate::{Errno, State};
use weft_types::{Ino, ROOT_INO, SessionId};
use weft_wire::proto::op::Op;
use weft_wire::proto::{
    self, AddPair, Attr, Create, Cred, Entry, FileKind, OpReply, OpenSession, Rename, Rmdir,
    Setattr, Time, Unlink,
};

/// A state with two pairs and one session, and a clock that ticks a second with each entry.
pub struct World {
    pub state: State,
    pub session: u64,
    pub clock: i64,
}

pub fn user(uid: u32) -> Cred {
    Cred {
        uid,
        gid: uid,
        groups: Vec::new(),
    }
}

pub fn root() -> Cred {
    user(0)
}

/// A time that the world's clock never shows.
pub fn time(seconds: i64) -> Time {
    Time { seconds, nanos: 5 }
}

impl World {
    pub fn new() -> World {
        let mut world = World {
            state: State::new(),
            session: 0,
            clock: 1_000_000,
        };
        world.service(Op::AddPair(AddPair { pair: 0 }));
        world.service(Op::AddPair(AddPair { pair: 1 }));
        world.session = world.open_session();
        let mode = Setattr {
            ino: ROOT_INO.0,
            mode: Some(0o777),
            ..Setattr::default()
        };
        world.ok(&root(), Op::Setattr(mode));
        world
    }

    pub fn open_session(&mut self) -> u64 {
        self.service(Op::OpenSession(OpenSession {
            name: "test".into(),
            ..OpenSession::default()
        }))
        .session
    }

    pub fn apply(&mut self, session: u64, cred: &Cred, op: Op) -> OpReply {
        self.clock += 1;
        self.state.apply(&Entry {
            session,
            cred: Some(cred.clone()),
            time: Some(Time {
                seconds: self.clock,
                nanos: 0,
            }),
            op: Some(proto::Op { op: Some(op) }),
            ..Entry::default()
        })
    }

    pub fn now(&self) -> Option<Time> {
        Some(Time {
            seconds: self.clock,
            nanos: 0,
        })
    }

    pub fn service(&mut self, op: Op) -> OpReply {
        let reply = self.apply(0, &root(), op);
        assert_eq!(reply.failure_errno, 0, "{reply:?}");
        reply
    }

    pub fn ok_in(&mut self, session: u64, cred: &Cred, op: Op) -> OpReply {
        let reply = self.apply(session, cred, op.clone());
        assert_eq!(
            reply.failure_errno,
            0,
            "{op:?} by {cred:?}: {}",
            errno(&reply).name()
        );
        reply
    }

    /// The operation must fail, and change nothing.
    pub fn fails_in(&mut self, session: u64, cred: &Cred, op: Op) -> Errno {
        let before = self.state.clone();
        let reply = self.apply(session, cred, op.clone());
        assert_ne!(reply.failure_errno, 0, "{op:?} by {cred:?} should fail");
        assert_eq!(self.state, before, "{op:?} failed and changed something");
        errno(&reply)
    }

    pub fn ok(&mut self, cred: &Cred, op: Op) -> OpReply {
        self.ok_in(self.session, cred, op)
    }

    pub fn fails(&mut self, cred: &Cred, op: Op) -> Errno {
        self.fails_in(self.session, cred, op)
    }

    pub fn attr(&self, ino: Ino) -> Attr {
        self.state.inode(ino).unwrap().attr.unwrap()
    }

    pub fn find(&self, parent: Ino, name: &str) -> Option<Ino> {
        let found = self.state.lookup(&root(), parent, name.as_bytes()).unwrap();
        found.map(|inode| Ino(inode.attr.unwrap().ino))
    }

    pub fn make(&mut self, cred: &Cred, parent: Ino, name: &str, kind: FileKind, mode: u32) -> Ino {
        let op = Create {
            target: "to".into(),
            ..create(parent, name, kind, mode)
        };
        Ino(self.ok(cred, Op::Create(op)).attr.unwrap().ino)
    }

    pub fn mkdir(&mut self, cred: &Cred, parent: Ino, name: &str, mode: u32) -> Ino {
        self.make(cred, parent, name, FileKind::Directory, mode)
    }

    pub fn file(&mut self, cred: &Cred, parent: Ino, name: &str, mode: u32) -> Ino {
        self.make(cred, parent, name, FileKind::Regular, mode)
    }

    pub fn chmod(&mut self, ino: Ino, mode: u32) {
        let op = Setattr {
            ino: ino.0,
            mode: Some(mode),
            ..Setattr::default()
        };
        self.ok(&root(), Op::Setattr(op));
    }

    pub fn drop_lease(&mut self, ino: Ino) {
        self.ok(&root(), Op::DropLease(proto::DropLease { ino: ino.0 }));
    }

    pub fn session(&self) -> SessionId {
        SessionId(self.session)
    }
}

pub fn errno(reply: &OpReply) -> Errno {
    Errno(reply.failure_errno as i32)
}

pub fn create(parent: Ino, name: &str, kind: FileKind, mode: u32) -> Create {
    Create {
        parent: parent.0,
        name: name.to_owned().into(),
        kind: kind as i32,
        mode,
        exclusive: true,
        ..Create::default()
    }
}

pub fn unlink(parent: Ino, name: &str) -> Op {
    Op::Unlink(Unlink {
        parent: parent.0,
        name: name.to_owned().into(),
        ..Unlink::default()
    })
}

pub fn rmdir(parent: Ino, name: &str) -> Op {
    Op::Rmdir(Rmdir {
        parent: parent.0,
        name: name.to_owned().into(),
    })
}

pub fn link(ino: Ino, parent: Ino, name: &str) -> Op {
    Op::Link(proto::Link {
        ino: ino.0,
        parent: parent.0,
        name: name.to_owned().into(),
        ..proto::Link::default()
    })
}

pub fn rename(parent: Ino, name: &str, new_parent: Ino, new_name: &str) -> Rename {
    Rename {
        parent: parent.0,
        name: name.to_owned().into(),
        new_parent: new_parent.0,
        new_name: new_name.to_owned().into(),
        ..Rename::default()
    }
}

pub fn setattr(ino: Ino) -> Setattr {
    Setattr {
        ino: ino.0,
        ..Setattr::default()
    }
}
