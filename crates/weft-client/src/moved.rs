//! Slots that move from group to group: where an inode is asked about then, and what the client had of it
//! (`docs/protocols/slots.md`).

use crate::core::{Core, root_cred};
use crate::leases::Mode;
use crate::node::Node;
use crate::session::{Link, Session, Stopped};
use crate::types::{Cred, Errno, Result};
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_types::Ino;
use weft_wire::Rpc;
use weft_wire::proto::{ChangeReply, SlotMoved, View, op};

/// Groups that have sent a question on, one after the other, before the next one is asked a little later.
const HOPS: u32 = 4;
/// A little.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a question may take in all, and how often it was sent on.
struct Way<'a> {
    core: &'a Rc<Core>,
    ino: u64,
    begun: Mono,
    hops: u32,
}

impl Way<'_> {
    fn left(&self) -> Duration {
        let taken = self.core.env.now().since(self.begun);
        self.core.patience().saturating_sub(taken)
    }

    /// A group says that another one is to be asked.
    async fn sent_on(&mut self, asked: u32, (slot, group): (u32, u32), members: Vec<String>) {
        self.core.slot_moved(asked, (slot, group), members);
        self.hops += 1;
        if self.hops > HOPS {
            self.core.env.sleep(PAUSE).await;
        }
    }
}

impl Core {
    fn way(self: &Rc<Self>, ino: u64, begun: Mono) -> Way<'_> {
        Way {
            core: self,
            ino,
            begun,
            hops: 0,
        }
    }

    /// Asks the group that keeps an inode, wherever that is by now.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub async fn ask_at<R: Rpc>(
        self: &Rc<Self>,
        ino: u64,
        make: impl Fn(&Link) -> R,
    ) -> Result<(R::Reply, Link)> {
        let mut way = self.way(ino, self.env.now());
        loop {
            let session = self.session_of(way.ino);
            match session.ask_within(self, way.left(), &make).await {
                Ok(answer) => return Ok(answer),
                Err(Stopped::Moved(to, members)) => {
                    way.sent_on(session.group, to, members).await;
                }
                Err(stopped) => return Err(stopped.errno()),
            }
        }
    }

    /// Makes a change exactly once, at the group that keeps an inode, wherever that is by now. Who sends it on
    /// has not done it, and never will.
    ///
    /// # Errors
    /// As [`Session::change`].
    pub async fn change_at(
        self: &Rc<Self>,
        ino: u64,
        cred: Cred,
        op: op::Op,
        want_leases: bool,
    ) -> Result<(ChangeReply, Link)> {
        let changed = self.change_or_doubt(ino, cred, op, want_leases).await;
        self.unless_in_doubt(changed).await
    }

    /// The same for what the caller has waited for already, since then.
    pub async fn change_since(
        self: &Rc<Self>,
        begun: Mono,
        ino: u64,
        op: op::Op,
    ) -> Result<(ChangeReply, Link)> {
        let way = self.way(ino, begun);
        let changed = self.change_on(way, root_cred(), op, false).await;
        self.unless_in_doubt(changed).await
    }

    /// The same. Where nobody knows whether it was done ([`Stopped::InDoubt`]), the caller can find out.
    pub async fn change_or_doubt(
        self: &Rc<Self>,
        ino: u64,
        cred: Cred,
        op: op::Op,
        want_leases: bool,
    ) -> std::result::Result<(ChangeReply, Link), Stopped> {
        let way = self.way(ino, self.env.now());
        self.change_on(way, cred, op, want_leases).await
    }

    async fn unless_in_doubt<T>(
        self: &Rc<Self>,
        changed: std::result::Result<T, Stopped>,
    ) -> Result<T> {
        match changed {
            Ok(answer) => Ok(answer),
            Err(Stopped::InDoubt(doubt)) => Err(self.in_doubt(doubt).await),
            Err(stopped) => Err(stopped.errno()),
        }
    }

    async fn change_on(
        self: &Rc<Self>,
        mut way: Way<'_>,
        cred: Cred,
        mut op: op::Op,
        want_leases: bool,
    ) -> std::result::Result<(ChangeReply, Link), Stopped> {
        loop {
            let session = self.session_of(way.ino);
            let change = (cred.clone(), &mut op, want_leases);
            match session.change_within(self, way.left(), change).await {
                Err(Stopped::Moved(to, members)) => {
                    way.sent_on(session.group, to, members).await;
                }
                answer => return answer,
            }
        }
    }

    /// A session's reply has brought a view.
    pub fn learn_view(self: &Rc<Self>, view: &View) {
        for (slot, from, to) in self.sessions.learn(view) {
            self.slot_is_at(slot, from, to);
        }
    }

    /// A group that was asked says that another one has a slot. Only the one that has it by what is known
    /// here can say so: what others say may be older.
    fn slot_moved(self: &Rc<Self>, by: u32, (slot, to): (u32, u32), members: Vec<String>) {
        if self.sessions.moved(slot, (by, to), members) {
            self.slot_is_at(slot as u16, by, to);
        }
    }

    /// A slot is another group's. Nothing is held of its inodes, but if that was lost; grants are counted
    /// anew.
    fn slot_is_at(self: &Rc<Self>, slot: u16, from: u32, to: u32) {
        tracing::debug!(slot, from, to, "a slot has moved");
        let is_in = |ino: u64| Ino(ino).slot().0 == slot;
        let mut has_any = self.locks.any(is_in);
        for node in self.nodes.all() {
            if is_in(node.ino) {
                has_any |= node.is_open();
                self.leave_group(&node);
            }
        }
        self.locks.freed_all(is_in);
        self.sessions.note_unclaimed(slot, from);
        if has_any || self.sessions.with(to).is_some() {
            self.claim(to);
        }
    }

    /// The inode is another group's.
    fn leave_group(self: &Rc<Self>, node: &Rc<Node>) {
        let is_held = node.state.borrow().lease.mode() != Mode::None;
        if is_held {
            // The session under which it was held has ended.
            node.state.borrow_mut().answers.clear();
            self.lose_node(node);
            let (core, node) = (self.clone(), node.clone());
            self.env.spawn("forget", async move {
                core.invalidate(&node).await;
            });
            return;
        }
        let mut state = node.state.borrow_mut();
        state.lease.lose(Mode::None);
        state.forget();
        drop(state);
        node.wake.notify_waiters();
    }

    /// Has a group know which other sessions this client has: what they had of slots that have gone there is
    /// the session's that this client has, or gets, with that group.
    fn claim(self: &Rc<Self>, group: u32) {
        let session = self.session_with(group);
        session.claims.set(session.claims.get() + 1);
        session.resettled.notify_one();
    }

    /// A group, whose session this is, says that a slot has gone where something of this client's is.
    pub fn on_slot_moved(self: &Rc<Self>, by: u32, moved: SlotMoved) {
        if moved.slot >= u32::from(weft_types::SLOTS) {
            return;
        }
        let slot = moved.slot;
        self.sessions.learn_members(moved.group, &moved.members);
        self.slot_moved(by, (slot, moved.group), moved.members);
        // Even if nothing is known of it here: it is to be let go then.
        self.claim(moved.group);
    }

    /// A group has heard of this client's other sessions, and says what is kept open for this one: what is
    /// neither open here nor known to the face is let go.
    pub fn claimed(self: &Rc<Self>, session: &Session, kept_open: &[u64]) {
        self.sessions.forget_unclaimed(session.group);
        for ino in kept_open {
            let node = self.nodes.get_or_new(*ino);
            if node.is_open() || self.face_has(*ino) {
                node.state.borrow_mut().orphan = true;
                node.opened_in.set(session.id());
            } else if node.unlinking.get() == 0 {
                self.let_go(node);
            }
        }
    }

    /// Returns once a session with an inode's group has been opened; its number.
    ///
    /// # Errors
    /// EIO when the patience is over, or this client is closed.
    pub async fn session_id_of(self: &Rc<Self>, ino: u64) -> Result<u64> {
        let session = self.session_of(ino);
        if session.generation() == 0 {
            self.patiently(session.connected()).await?;
        }
        match session.id() {
            0 => Err(Errno(libc::EIO)),
            id => Ok(id),
        }
    }
}
