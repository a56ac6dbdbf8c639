//! The turns of a session with a group: its renewals, a new connection, its loss. All of it concerns the
//! inodes of that group only (`docs/protocols/leases.md`, "Sessions").

use crate::core::{Core, named};
use crate::leases::Mode;
use crate::node::Node;
use crate::session::{Link, Session};
use crate::types::{Attr, Cred, Result};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_wire::proto::{self, PairEpoch, RenewReply, RenewRequest, SharedLease, op};

/// A service that does not answer the last word for this long is left to the session's term.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

/// A WRITE lease that was given back with size and times owed.
pub(crate) struct GivenBack {
    pub node: Rc<Node>,
    /// Of [`Core::handovers`].
    pub number: u64,
    /// To which group, and over which connection with that.
    pub group: u32,
    pub generation: u64,
    pub attr: Attr,
    /// Nobody else wrote the file.
    pub alone: bool,
}

impl Core {
    /// A new link with a group stands: what was waiting goes on.
    pub fn linked(self: &Rc<Self>, group: u32) {
        self.locks.freed_all(|ino| self.group_of(ino) == group);
        self.pump();
    }

    /// A renewal was answered that was sent over this link when there had been so many handovers, and so much
    /// to be claimed: what was told by then on that connection has arrived.
    pub fn renewed(
        self: &Rc<Self>,
        link: &Link,
        (handovers, claims): (u64, u64),
        reply: &RenewReply,
    ) {
        self.unconfirmed.borrow_mut().retain(|given| {
            let is_of_link = given.generation == link.generation && given.group == link.group;
            !is_of_link || given.number > handovers
        });
        let session = self.sessions.with(link.group);
        if let Some(session) = session.filter(|session| session.claimed.get() < claims) {
            session.claimed.set(claims);
            self.claimed(&session, &reply.kept_open);
        }
    }

    /// Waits until all that was told when this node's lease was given back is known to be with the service for
    /// good. False: the session was taken up meanwhile, and it may be owed anew.
    ///
    /// # Errors
    /// EIO when the patience is over.
    pub async fn confirm(self: &Rc<Self>, node: &Rc<Node>) -> Result<bool> {
        let mut stands = true;
        // Something may be told while it is waited for what was told before.
        while let Some((group, generation)) = self.unconfirmed_of(node)
            && let Some(session) = self.sessions.with(group)
        {
            let told = Cell::default();
            let renew = |link: &Link| {
                told.set((self.handovers.get(), session.claims.get()));
                self.renewal(link, self.pairs.settled())
            };
            let (reply, link) = session.ask(self, renew).await?;
            self.renewed(&link, told.get(), &reply);
            stands &= link.generation == generation;
        }
        Ok(stands)
    }

    /// To which group, and since when it was linked, something of a node was told that is not confirmed.
    fn unconfirmed_of(&self, node: &Rc<Node>) -> Option<(u32, u64)> {
        let unconfirmed = self.unconfirmed.borrow();
        let given = unconfirmed
            .iter()
            .find(|given| Rc::ptr_eq(&given.node, node));
        given.map(|given| (given.group, given.generation))
    }

    /// The nodes whose leases were given back with something that the service may not have for good.
    pub fn unconfirmed_nodes(&self) -> Vec<Rc<Node>> {
        let unconfirmed = self.unconfirmed.borrow();
        unconfirmed.iter().map(|given| given.node.clone()).collect()
    }

    /// Renews the session, and tells what the service waits for.
    pub fn renewal(&self, link: &Link, settled: Vec<PairEpoch>) -> RenewRequest {
        let mut giving_back = self.giving_back.inos();
        giving_back.retain(|ino| self.group_of(*ino) == link.group);
        let session = self.sessions.with(link.group);
        RenewRequest {
            session: link.session,
            epoch: link.epoch,
            settled,
            giving_back,
            siblings: self.sessions.siblings(link.group),
            claims: session
                .as_ref()
                .is_some_and(|it| it.claims.get() != it.claimed.get()),
            acknowledged_below: session.map_or(0, |it| it.acknowledged_below()),
        }
    }

    /// Open inodes, WRITE leases, and files that are written beside others, for taking the session with a
    /// group up.
    pub fn held(&self, group: u32) -> (Vec<u64>, Vec<u64>, Vec<SharedLease>) {
        let mut open = Vec::new();
        let mut write = Vec::new();
        let mut shared = Vec::new();
        for node in self.nodes_of(group) {
            if node.is_open() {
                open.push(node.ino);
            }
            let state = node.state.borrow();
            if state.lease.mode() == Mode::Write {
                write.push(node.ino);
            }
            if state.lease.shares() {
                shared.push(SharedLease {
                    ino: node.ino,
                    write: named(&state.lease.ranges().write),
                });
            }
        }
        let unconfirmed = self.unconfirmed.borrow();
        let of_group = |given: &&GivenBack| given.group == group;
        for given in unconfirmed.iter().filter(of_group).filter(|it| it.alone) {
            if !write.contains(&given.node.ino) {
                write.push(given.node.ino);
            }
        }
        (open, write, shared)
    }

    /// What was given back to a group and is not confirmed.
    fn take_unconfirmed(&self, group: u32) -> Vec<GivenBack> {
        let unconfirmed = self.unconfirmed.take().into_iter();
        let (of_group, others) = unconfirmed.partition(|given| given.group == group);
        *self.unconfirmed.borrow_mut() = others;
        of_group
    }

    /// The session with a group was taken up: WRITE leases of it that are not in the list are gone. One
    /// that is in it though it was given back is held on: its giving back was lost, with what it owed.
    pub fn keep_write_leases(self: &Rc<Self>, group: u32, kept: &[u64], shared: &[u64]) {
        let kept: BTreeSet<u64> = kept.iter().copied().collect();
        let shared: BTreeSet<u64> = shared.iter().copied().collect();
        // Of what was told of a file twice the later counts.
        for given in self.take_unconfirmed(group).into_iter().rev() {
            let mut state = given.node.state.borrow_mut();
            let is_kept = given.alone && kept.contains(&given.node.ino);
            if is_kept && state.lease.mode() < Mode::Write {
                // A number below every one of the server's; a revocation that has come already
                // follows it.
                state.lease.grant(Mode::Write, 1);
                let own = state.attr.replace(given.attr);
                if let (Some(own), Some(attr)) = (own, &mut state.attr) {
                    // It was written on since, under the ranges that were kept.
                    attr.size = attr.size.max(own.size);
                }
                state.buffer.changes += 1;
                drop(state);
                self.want_tell(&given.node);
            } else if state.lease.shares() {
                // To tell it a second time changes nothing.
                state.buffer.changes += 1;
                drop(state);
                self.want_tell(&given.node);
            }
        }
        let is_lost = |node: &Rc<Node>| {
            let state = node.state.borrow();
            state.lease.mode() == Mode::Write && !kept.contains(&node.ino)
                || state.lease.shares() && !shared.contains(&node.ino)
        };
        let lost: Vec<_> = self.nodes_of(group).into_iter().filter(is_lost).collect();
        for node in &lost {
            self.lose_node(node);
        }
        if !lost.is_empty() {
            let core = self.clone();
            self.env.spawn("forget", async move {
                for node in &lost {
                    core.invalidate(node).await;
                }
            });
        }
    }

    /// Drops what a node cached and owed; what was written and not on the servers is lost, and the
    /// next fsync or close says so. What is being asked back is still to be answered: where the session is over nobody
    /// asks any more, and the caller has dropped the questions.
    pub fn lose_node(self: &Rc<Self>, node: &Rc<Node>) {
        let mut state = node.state.borrow_mut();
        match state.answers.is_empty() {
            true => state.lease.lose(Mode::None),
            // Over the connection that is in force: the numbers it goes by are new.
            false => state.lease.gone(),
        }
        state.forget();
        let lost = state.buffer.waiting.bytes();
        if !state.buffer.is_clean() || state.buffer.owes() {
            tracing::error!(
                ino = node.ino,
                lost,
                "a write lease was lost: what was not written back is gone"
            );
            self.writeback.fail(&mut state, libc::EIO);
            state.buffer.waiting = Default::default();
            state.buffer.ready.clear();
            state.buffer.told = state.buffer.changes;
            self.writeback.forget(lost);
        }
        drop(state);
        node.wake.notify_waiters();
    }

    /// The session with a group is over: nothing that was cached or owed under it is worth anything. What
    /// other groups gave is not touched.
    pub fn session_lost(self: &Rc<Self>, group: u32) {
        drop(self.take_unconfirmed(group));
        self.spreads.doubt_all();
        let nodes = self.nodes_of(group);
        let mut held = Vec::new();
        for node in nodes {
            let was_held = node.state.borrow().lease.mode() >= Mode::Read;
            {
                let mut state = node.state.borrow_mut();
                state.answers.clear();
                state.unlinked = false;
                // What the service kept for the session went with it.
                state.orphan = false;
                state.departed = None;
                state.newest = 0;
            }
            self.lose_node(&node);
            if was_held {
                held.push(node);
            }
        }
        let losers = self.locks.lose(|ino| self.sessions.is_had_from(ino, group));
        for id in &losers {
            if let Ok(handle) = self.handles.file(*id) {
                handle.lost_lock.set(true);
            }
        }
        if !losers.is_empty() {
            let handles = losers.len();
            tracing::error!(
                group,
                handles,
                "file locks were lost: their handles fail from now on"
            );
        }
        let core = self.clone();
        self.env.spawn("forget", async move {
            for node in &held {
                core.invalidate(node).await;
            }
            // The new session's leases tell the service what is open here.
            for node in held.iter().filter(|node| node.is_open()) {
                // If it is gone, the next operation on the handle finds out.
                let _: Result<_> = core.fetch_inode(node.ino, Mode::Shared).await.map(drop);
            }
        });
    }

    /// Gives all READ leases of a group back before the session with it is taken up.
    pub async fn drop_read_leases(self: &Rc<Self>, group: u32) {
        let mut held = Vec::new();
        for node in self.nodes_of(group) {
            let mut state = node.state.borrow_mut();
            let before = state.lease.mode();
            state.lease.come_back();
            if matches!(before, Mode::Shared | Mode::Read) {
                if state.lease.mode() == Mode::None {
                    state.forget();
                }
                state.version += 1;
                held.push(node.clone());
            }
            // Nobody waits for answers on a connection that is gone.
            state.answers.clear();
            state.unlinked = false;
            drop(state);
            node.wake.notify_waiters();
        }
        for node in held {
            // What operations in progress hold is left out: they wait for this very session.
            self.invalidate(&node).await;
        }
    }

    /// Ends a session, if it is open: the service need not wait for its term.
    pub async fn say_goodbye(self: &Rc<Self>, session: &Rc<Session>) {
        session.begin_leaving();
        let id = session.id();
        // With a change on its way that was given up, the session has to be fenced: it ends by its term.
        if id == 0 || self.pairs.late.is_any() {
            return;
        }
        let closing = op::Op::CloseSession(proto::CloseSession {
            session: id,
            clean: true,
            ..proto::CloseSession::default()
        });
        let goodbye = session.change(self, Cred::default(), closing, false);
        let said = self.within(GOODBYE_PATIENCE, async move { goodbye.await.map(drop) });
        if let Err(errno) = said.await {
            tracing::debug!(%errno, "the service ends the session by its term");
        }
    }
}
