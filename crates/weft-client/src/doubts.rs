//! Changes that nobody has answered for in time: what is believed of what they touch (docs/protocols/leases.md, "Changes
//! in doubt").
//!
//! Whoever makes a change learns by its answer what it did: the service does not ask its lease back for that. A change
//! that was given up may still be done, and nobody would tell. Kept true: until the service has said what became of it,
//! nothing is answered from what is leased of what it touches, and the face keeps nothing of that.

use crate::attrs::Cutting;
use crate::core::Core;
use crate::dirops::is_kept;
use crate::leases::Mode;
use crate::names::NameState;
use crate::node::Node;
use crate::session::{Doubt, Link};
use crate::types::{Attr, Errno};
use bytes::Bytes;
use std::rc::Rc;
use weft_wire::proto::{self, OpReply, op};

/// What a change touches of what is cached.
struct Touched {
    /// Inodes, the one first at whose group it is made.
    inos: Vec<u64>,
    /// Names, each in a directory that is one of those.
    names: Vec<(u64, Bytes)>,
}

impl Touched {
    /// Nothing for changes of what is not cached, or is settled by whoever asked for them.
    fn by(op: &op::Op) -> Touched {
        let (inos, names) = match op {
            op::Op::Create(it) => (vec![it.parent], vec![(it.parent, it.name.clone())]),
            op::Op::Link(it) => (vec![it.parent, it.ino], vec![(it.parent, it.name.clone())]),
            op::Op::Unlink(it) => (vec![it.parent], vec![(it.parent, it.name.clone())]),
            op::Op::Rmdir(it) => (vec![it.parent], vec![(it.parent, it.name.clone())]),
            op::Op::Rename(it) => (
                vec![it.parent, it.new_parent],
                vec![
                    (it.parent, it.name.clone()),
                    (it.new_parent, it.new_name.clone()),
                ],
            ),
            op::Op::Setattr(it) => (vec![it.ino], Vec::new()),
            op::Op::Setxattr(it) => (vec![it.ino], Vec::new()),
            op::Op::Removexattr(it) => (vec![it.ino], Vec::new()),
            _ => (Vec::new(), Vec::new()),
        };
        Touched { inos, names }
    }
}

/// What is not believed, until this is dropped.
struct Doubted(Vec<Rc<Node>>);

impl Doubted {
    fn new(nodes: Vec<Rc<Node>>) -> Doubted {
        for node in &nodes {
            node.state.borrow_mut().lease.begin_doubt();
        }
        Doubted(nodes)
    }

    /// The change has been done, and has left one of these so. Whatever was asked before that is older.
    fn take(&self, attr: &Attr) {
        let Some(node) = self.0.iter().find(|node| node.ino == attr.ino) else {
            return;
        };
        let mut state = node.state.borrow_mut();
        if state.lease.mode() >= Mode::Shared {
            state.take_attr(attr);
        }
    }
}

impl Drop for Doubted {
    fn drop(&mut self) {
        for node in &self.0 {
            node.state.borrow_mut().lease.end_doubt();
        }
    }
}

impl Core {
    /// The patience for a change is over. What became of it is found out, however long that takes; what it touches is not
    /// believed from now on until then. Answers what the caller is told.
    pub async fn in_doubt(self: &Rc<Self>, doubt: Doubt) -> Errno {
        let Touched { mut inos, names } = Touched::by(&doubt.op);
        let told = Errno(libc::EIO);
        let Some(home) = inos.first().copied() else {
            return told;
        };
        // What the names stand for loses or gets a name.
        let stands = |(dir, name): &(u64, Bytes)| {
            let dir = self.nodes.get(*dir)?;
            match dir.state.borrow().names.as_ref()?.get(name)? {
                NameState::Present(ino) => Some(ino),
                NameState::Absent => None,
            }
        };
        let named: Vec<u64> = names.iter().filter_map(stands).collect();
        inos.extend(named);
        inos.sort_unstable();
        inos.dedup();
        let nodes = inos.iter().map(|ino| self.nodes.get_or_new(*ino));
        let nodes: Vec<Rc<Node>> = nodes.collect();
        let doubted = Doubted::new(nodes.clone());
        self.disbelieve(&doubted, &names);
        // What is written now might be written to what the file has no more.
        let cutting = match &doubt.op {
            op::Op::Create(create) => self.nodes.get(create.cuts).as_ref().map(Cutting::longer),
            _ => None,
        };
        let core = self.clone();
        self.env.spawn("change in doubt", async move {
            let _cutting = cutting;
            let op = doubt.op.clone();
            let answer = doubt.end(&core, home).await;
            tracing::info!(ino = home, "no doubt any more");
            core.disbelieve(&doubted, &names);
            if let Some((reply, link)) = answer {
                core.take_late(&link, &op, &reply.reply.unwrap_or_default(), &doubted);
            }
        });
        for node in nodes {
            self.forget_in_face(&node, false).await;
        }
        told
    }

    /// Takes over what a change did that was in doubt.
    fn take_late(self: &Rc<Self>, link: &Link, op: &op::Op, reply: &OpReply, doubted: &Doubted) {
        if let (op::Op::Create(create), Some(attr)) = (op, reply.attr) {
            self.take_emptied(create, &attr, reply);
        }
        let told = [reply.attr, reply.parent, reply.new_parent, reply.victim];
        for attr in told.iter().flatten() {
            doubted.take(attr);
        }
        // What was told of it when it was to lose its name.
        let (keep_open, told) = match op {
            op::Op::Unlink(op) => (op.keep_open, op.victim),
            op::Op::Rename(op) if !op.exchange => (op.keep_open, op.victim),
            op::Op::Rmdir(_) => (false, None),
            _ => return,
        };
        // Two names of one file: POSIX leaves both.
        let is_moved = |gone: &Attr| reply.attr.is_some_and(|moved| moved.ino == gone.ino);
        if let Some(gone) = reply.victim.filter(|gone| !is_moved(gone)) {
            let is_kept = self.is_of(link, gone.ino) && is_kept(&gone, keep_open, told);
            self.take_victim(&gone, is_kept);
        }
    }

    /// A create with truncation that was in doubt has cut this file: it has other objects. (Of a file that the client
    /// did not know to be meant all leases were asked back before.)
    fn take_emptied(&self, create: &proto::Create, attr: &Attr, reply: &OpReply) {
        let is_cut = !reply.created && create.cuts == attr.ino;
        let Some(node) = self.nodes.get(attr.ino).filter(|_| is_cut) else {
            return;
        };
        self.was_emptied(&node, attr);
        let mut state = node.state.borrow_mut();
        if state.layout.is_some() {
            state.take_layout(reply.layout.as_ref());
        }
    }

    /// Forgets what is cached of these under READ leases. (What is known under a WRITE lease is this client's own; the
    /// change's answer adds to it.)
    fn disbelieve(&self, doubted: &Doubted, names: &[(u64, Bytes)]) {
        for node in &doubted.0 {
            let mut state = node.state.borrow_mut();
            // An answer to a question asked before this is not kept.
            (state.xattr_names, state.version) = (None, state.version + 1);
            if state.lease.mode() == Mode::Read {
                state.attr = None;
            }
        }
        self.xattr_changes.set(self.xattr_changes.get() + 1);
        for (dir, name) in names {
            self.doubt((*dir, name));
        }
    }
}
