//! The sessions of a client: one with each replica group that it has needed
//! (`docs/protocols/partition.md`, "Clients").
//!
//! The first group's is there from the beginning, and alone decides whether the client is connected. The
//! others are opened when a request first needs them. What a session is given, asked for and loses
//! concerns the inodes of its group only.

use crate::core::Core;
use crate::expiring;
use crate::node::Node;
use crate::session::{Link, Session};
use crate::settings::Settings;
use crate::slots::{FIRST, Move, Slots};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_env::Env;
use weft_rpc::Local;
use weft_types::{Ino, SLOTS, Slot};
use weft_wire::proto::View;

pub(crate) struct Sessions {
    first: Rc<Session>,
    others: RefCell<BTreeMap<u32, Rc<Session>>>,
    slots: RefCell<Slots>,
    /// Slots that have moved, and from where: whoever has them now may not know yet what the client had there.
    unclaimed: RefCell<BTreeMap<u16, u32>>,
    /// The client says goodbye: no session is opened any more.
    closing: Cell<bool>,
}

impl Sessions {
    /// The first group's, which is not connected yet.
    pub fn new(env: Env, settings: &Settings, local: &Local) -> Sessions {
        Sessions {
            first: Rc::new(Session::new(env, settings, local, FIRST)),
            others: RefCell::default(),
            slots: RefCell::default(),
            unclaimed: RefCell::default(),
            closing: Cell::new(false),
        }
    }

    /// With the first group.
    pub fn first(&self) -> &Rc<Session> {
        &self.first
    }

    /// With a group, if one has been needed.
    pub fn with(&self, group: u32) -> Option<Rc<Session>> {
        match group {
            FIRST => Some(self.first.clone()),
            other => self.others.borrow().get(&other).cloned(),
        }
    }

    /// With all other groups that have been needed, by their numbers.
    pub fn others(&self) -> Vec<Rc<Session>> {
        self.others.borrow().values().cloned().collect()
    }

    /// The group that keeps an inode.
    pub fn group_of(&self, ino: u64) -> u32 {
        self.slots.borrow().group_of(ino)
    }

    /// A session's reply has brought a view. Answers which slots have moved.
    pub fn learn(&self, view: &View) -> Vec<Move> {
        self.slots.borrow_mut().learn(view)
    }

    /// A group says that another one has a slot. False: it is not the one that has it, by what is known.
    pub fn moved(&self, slot: u32, between: (u32, u32), members: Vec<String>) -> bool {
        let mut slots = self.slots.borrow_mut();
        slots.learn_members(between.1, &members);
        let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS);
        slot.is_some_and(|slot| slots.moved(slot, between))
    }

    /// Where a group's members are, if the view does not say.
    pub fn learn_members(&self, group: u32, members: &[String]) {
        self.slots.borrow_mut().learn_members(group, members);
    }

    /// What the client has of a slot that has moved is to be claimed.
    pub fn note_unclaimed(&self, slot: u16, from: u32) {
        self.unclaimed.borrow_mut().insert(slot, from);
    }

    /// A group has heard what is claimed there.
    pub fn forget_unclaimed(&self, group: u32) {
        let slots = self.slots.borrow();
        let is_there = |slot: u16| slots.group_of(Ino::new(Slot(slot), 0).0) == group;
        self.unclaimed
            .borrow_mut()
            .retain(|slot, _| !is_there(*slot));
    }

    /// What the client has of an inode is with this group, by what is known: the group that keeps it, or the
    /// one from which its slot has come.
    pub fn is_had_from(&self, ino: u64, group: u32) -> bool {
        let unclaimed = self.unclaimed.borrow();
        let from = unclaimed.get(&Ino(ino).slot().0).copied();
        from.unwrap_or_else(|| self.group_of(ino)) == group
    }

    /// The numbers of the sessions with other groups than this one.
    pub fn siblings(&self, group: u32) -> Vec<u64> {
        let others = self.others.borrow();
        let all = std::iter::once(&self.first).chain(others.values());
        let others = all.filter(|session| session.group != group && session.id() != 0);
        others.map(|session| session.id()).collect()
    }

    /// From now on the sessions that there are come to their end.
    pub fn begin_closing(&self) {
        self.closing.set(true);
    }

    /// Ends all without a word.
    pub fn stop(&self) {
        self.begin_closing();
        for other in self.others() {
            other.stop();
        }
        self.first.stop();
    }
}

impl Core {
    /// The session with the first group: for what concerns the pairs, the space there is, jobs and the
    /// cluster.
    pub fn first_session(&self) -> &Rc<Session> {
        self.sessions.first()
    }

    /// The group that keeps an inode.
    pub fn group_of(&self, ino: u64) -> u32 {
        self.sessions.group_of(ino)
    }

    /// The session with the group that keeps an inode: all that is asked about it is asked there. It is
    /// opened if this is the first that is asked of the group.
    pub fn session_of(self: &Rc<Self>, ino: u64) -> Rc<Session> {
        self.session_with(self.group_of(ino))
    }

    /// The session with a group, opened if there is none.
    pub fn session_with(self: &Rc<Self>, group: u32) -> Rc<Session> {
        match self.sessions.with(group) {
            Some(session) => session,
            None => self.open_session(group),
        }
    }

    fn open_session(self: &Rc<Self>, group: u32) -> Rc<Session> {
        let local = self.sessions.first.local();
        let session = Session::new(self.env.clone(), &self.settings, &local, group);
        let session = Rc::new(session);
        self.pairs.tell_of_settled(session.resettled.clone());
        let sessions = &self.sessions;
        session.learn_members(sessions.slots.borrow().members(group));
        sessions.others.borrow_mut().insert(group, session.clone());
        if sessions.closing.get() || sessions.first.is_closed() {
            session.stop();
        } else {
            let keeping = Session::keep(Rc::downgrade(self), group);
            self.env.spawn("session", keeping);
            let watching = expiring::watch(Rc::downgrade(self), group);
            self.env.spawn("session's term", watching);
        }
        session
    }

    /// Leases on an inode may be believed now.
    pub fn is_valid(&self, ino: u64) -> bool {
        let session = self.sessions.with(self.group_of(ino));
        session.is_some_and(|session| session.is_valid())
    }

    /// The link is the one that its session has: what was granted over an older one is void.
    pub fn is_current(&self, link: &Link) -> bool {
        let session = self.sessions.with(link.group);
        session.is_some_and(|session| session.generation() == link.generation)
    }

    /// Counts the connections of the session with an inode's group.
    pub fn generation_of(&self, ino: u64) -> u64 {
        let session = self.sessions.with(self.group_of(ino));
        session.map_or(0, |session| session.generation())
    }

    /// The nodes of a group's inodes, by their numbers.
    pub fn nodes_of(&self, group: u32) -> Vec<Rc<Node>> {
        let mut nodes = self.nodes.all();
        nodes.retain(|node| self.group_of(node.ino) == group);
        nodes
    }

    /// Sessions that write, as the groups said last.
    pub fn writers(&self) -> u32 {
        let others = self.sessions.others.borrow();
        let others: u32 = others.values().map(|other| other.writers.get()).sum();
        self.first_session().writers.get() + others
    }
}
