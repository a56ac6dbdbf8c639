//! Giving leases back when the server asks: the face forgets, uses end, data is written back, then
//! the answer (`docs/protocols/leases.md`).

use crate::core::{Core, answer_revoke, wanted_by};
use crate::leases::{Mode, Phase, WHOLE};
use crate::node::{Node, NodeState};
use crate::turns::GivenBack;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;
use weft_rpc::{Connection, Replier};
use weft_wire::proto::{LeaseMode, RevokeRequest, Setattr};

/// A reply that waits for its commit comes within this.
const GRANT_PATIENCE: Duration = Duration::from_secs(1);

/// Inodes whose leases are being given back and wait for data servers only, or for a face that has said that it sees to
/// its end. These have a patience of their own, so the service waits as well; for the kernel it does not wait beyond the
/// term.
#[derive(Default)]
pub(crate) struct GivingBack {
    /// How many turns of each: one that is void ends when it pleases.
    turns: RefCell<BTreeMap<u64, usize>>,
}

pub(crate) struct WaitsForPairs<'a>(&'a GivingBack, u64);

impl GivingBack {
    pub fn inos(&self) -> Vec<u64> {
        self.turns.borrow().keys().copied().collect()
    }

    /// Until the answer is dropped.
    pub fn note(&self, ino: u64) -> WaitsForPairs<'_> {
        *self.turns.borrow_mut().entry(ino).or_default() += 1;
        WaitsForPairs(self, ino)
    }
}

impl Drop for WaitsForPairs<'_> {
    fn drop(&mut self) {
        let WaitsForPairs(GivingBack { turns }, ino) = self;
        if let Entry::Occupied(mut turns) = turns.borrow_mut().entry(*ino) {
            *turns.get_mut() -= 1;
            if *turns.get() == 0 {
                turns.remove();
            }
        }
    }
}

impl Core {
    /// A revocation came. Notes it at once, so that grants are ordered against it; the rest is done
    /// by a task.
    pub fn on_revoke(
        self: &Rc<Self>,
        connection: &Connection,
        revoke: RevokeRequest,
        replier: Replier,
    ) {
        tracing::trace!(
            group = self.group_of(revoke.ino),
            ?revoke,
            "a lease is asked back"
        );
        let node = self.nodes.get_or_new(revoke.ino);
        let done = || {
            (is_done(&node) && revoke.held() == LeaseMode::LeaseWrite).then(|| Mode::Read.into())
        };
        let Some(mut wanted) = wanted_by(&revoke).or_else(done) else {
            let (core, connection) = (self.clone(), connection.clone());
            self.env.spawn("report", async move {
                // The answer that takes the session up may say that a lease is held on that had been given
                // back: then what was owed under it is owed.
                core.session_of(revoke.ino).begun_over(&connection).await;
                connection.answers_taken().await;
                let kept = core.size_with_kept(&node).await;
                core.on_report(&node, &revoke, (replier, kept));
            });
            return;
        };
        if !node.is_open() {
            // It will not be used here soon.
            wanted.span = WHOLE;
            wanted.write = true;
        }
        let begun = {
            let mut state = node.state.borrow_mut();
            state.answers.push(replier);
            state.unlinked |= revoke.unlinking;
            let begun = state.lease.begin_giving_back(wanted, revoke.seq);
            if !begun && state.lease.giving_back_to().is_none() {
                // Older than one that has been answered: there is nothing left to give.
                self.answer(&node, state, None, false);
                return;
            }
            begun.then(|| state.lease.giving_back_turn()).flatten()
        };
        if let Some(turn) = begun {
            let (core, connection) = (self.clone(), connection.clone());
            self.env.spawn("revocation", async move {
                // As above.
                core.session_of(revoke.ino).begun_over(&connection).await;
                core.awaited_grant(&node, &revoke).await;
                core.give_back_lease(&node, &connection, turn).await;
                core.make_room();
            });
        }
    }

    /// Waits for the reply to a question for this lease that is on its way: it brings what is asked
    /// back here.
    async fn awaited_grant(&self, node: &Node, revoke: &RevokeRequest) {
        let answered = async {
            loop {
                let wake = node.wake.notified();
                {
                    let state = node.state.borrow();
                    let has_come = match revoke.held() {
                        LeaseMode::LeaseWrite => state.lease.mode() == Mode::Write,
                        LeaseMode::LeaseShared => state.lease.granted() >= revoke.granted,
                        LeaseMode::LeaseNone | LeaseMode::LeaseRead => true,
                    };
                    if !state.asking || has_come {
                        return;
                    }
                }
                wake.await;
            }
        };
        // If the reply was lost there is nothing to wait for.
        let _ = self.env.timeout(GRANT_PATIENCE, answered).await;
    }

    /// The server asks what is owed; nothing is given back. `kept`: as [`Core::size_with_kept`] says.
    fn on_report(
        self: &Rc<Self>,
        node: &Rc<Node>,
        revoke: &RevokeRequest,
        (replier, kept): (Replier, Option<u64>),
    ) {
        let mut state = node.state.borrow_mut();
        state.answers.push(replier);
        if state.lease.giving_back_to().is_some() {
            // It is told with that.
            return;
        }
        let owed = if revoke.held() == LeaseMode::LeaseShared {
            state.lease.report(revoke.seq);
            self.hand_over(node, &mut state)
        } else {
            self.shown(node, &mut state, kept)
        };
        self.answer(node, state, owed, false);
        self.leave_if_shared(node);
    }

    /// What is owed of a file that is written alone. It stays owed: replies that are on their way bring
    /// what the server knew before.
    fn shown(&self, node: &Node, state: &mut NodeState, kept: Option<u64>) -> Option<Setattr> {
        if kept.is_some() {
            // Should it never come here, the server is told so with what is told next.
            state.buffer.changes += 1;
        }
        let owes = state.lease.owes() && state.buffer.owes() && !state.is_cut();
        let mut attr = state.attr.filter(|_| owes)?;
        if let Some(size) = kept {
            attr.size = attr.size.max(size);
            attr.mtime = Some(self.wall());
        }
        Some(owed_setattr(node.ino, &attr, 0, state.lease.shares()))
    }

    /// Ends with nothing done once this turn of giving back is void: another one, for a revocation that
    /// came again, has to wait for uses that have begun since, and to write what they wrote.
    async fn give_back_lease(self: &Rc<Self>, node: &Rc<Node>, connection: &Connection, turn: u64) {
        let is_void = || node.state.borrow().lease.giving_back_turn() != Some(turn);
        // Replies that came before the revocation are taken first: they may open the file.
        connection.answers_taken().await;
        let may_open = {
            let state = node.state.borrow();
            // One that is not known here is perhaps news of a create's.
            state.unlinked || state.attr.is_none()
        };
        if may_open && !node.is_open() {
            // A create that had to be sent again may have opened it, which the service must not forget.
            // Of others it knows what it has answered, and that this may cross the question.
            let ended = self.resent_creates_end(node.ino);
            let _ = self.env.timeout(GRANT_PATIENCE, ended).await;
        }
        loop {
            let to = node.state.borrow().lease.giving_back_to();
            let Some(to) = to.filter(|_| !is_void()) else {
                return;
            };
            node.state.borrow_mut().lease.set_phase(Phase::Forgetting);
            self.kept_is_written(node).await;
            if is_void() {
                return;
            }
            let served = node.state.borrow().lease.served();
            // Down to READ the pages stay true, but for those that a mapping has changed: these
            // are written back by it.
            let forgets = to < Mode::Read || node.mappable.get() > 0;
            let forgotten = !forgets || self.invalidate(node).await;
            if is_void() {
                return;
            }
            node.state.borrow_mut().lease.set_phase(Phase::Closing);
            let waits_for_pairs = self.giving_back.note(node.ino);
            self.uses_end(node).await;
            if is_void() {
                return;
            }
            self.write_aside(node);
            // What cannot be written is lost; the file's next fsync or close says so.
            if node.state.borrow().keeps_all_written() {
                // It stays this client's to write.
            } else {
                self.kept_back_is_decided(node).await;
                if let Err(errno) = self.flush_data(node).await {
                    tracing::warn!(ino = node.ino, %errno, "write-back for a revocation failed");
                }
            }
            drop(waits_for_pairs);
            // If that takes longer than the lease may, the session ends, and is fenced.
            self.pairs.late.none().await;
            if is_void() {
                return;
            }
            // Pages that were held, or have come since, under a use that has ended by now.
            if forgets && (!forgotten || node.state.borrow().lease.served() != served) {
                self.invalidate(node).await;
            }
            if is_void() {
                return;
            }
            let came = !node.state.borrow().aside.is_empty() && self.write_aside(node);
            if !came && node.state.borrow().lease.giving_back_to() == Some(to) {
                break;
            }
        }
        self.finish(node, connection);
        node.wake.notify_waiters();
        // An open file keeps a lease, so that the server tells of its unlinking.
        let again = node.is_open() && node.state.borrow().lease.mode() == Mode::None;
        if again && connection.is_open() {
            // If it is gone, the next operation on the handle finds out.
            let _ = self.fetch_inode(node.ino, Mode::Shared).await;
        }
    }

    fn finish(self: &Rc<Self>, node: &Rc<Node>, connection: &Connection) {
        let mut state = node.state.borrow_mut();
        if state.lease.giving_back_to().is_none() {
            // The session was taken up or lost meanwhile: that has settled everything.
            return;
        }
        let owed = match state.lease.is_given_anew() {
            true => None,
            false => self.hand_over(node, &mut state),
        };
        state.lease.finish_giving_back();
        match state.lease.mode() {
            Mode::None => state.forget(),
            // What it may use is asked for with where the file lies.
            Mode::Shared if !state.lease.shares() => state.forget(),
            Mode::Shared => {
                state.xattr_names = None;
                state.version += 1;
            }
            // The server takes over what was owed after the changes whose replies are on their way,
            // so these would bring older sizes and times: it is asked anew.
            Mode::Read | Mode::Write if owed.is_some() => state.attr = None,
            Mode::Read | Mode::Write => {}
        }
        debug_assert!(!state.answers.is_empty() || !connection.is_open());
        let done = state.lease.mode() == Mode::Read;
        self.answer(node, state, owed, done);
    }

    /// What is owed to the server, if this client owes: it is told with an answer, and kept until that
    /// has arrived for good.
    fn hand_over(&self, node: &Rc<Node>, state: &mut NodeState) -> Option<Setattr> {
        if !state.lease.owes() {
            return None;
        }
        let owes = state.buffer.owes();
        state.buffer.told = state.buffer.changes;
        let more = std::mem::take(&mut state.buffer.allocated_more);
        // A file that is being cut owes nothing but a time of access: its size is the server's.
        let attr = state.attr.filter(|_| owes && !state.is_cut())?;
        self.handovers.set(self.handovers.get() + 1);
        state.handover = self.handovers.get();
        self.unconfirmed.borrow_mut().push(GivenBack {
            node: node.clone(),
            number: state.handover,
            group: self.group_of(node.ino),
            generation: self.generation_of(node.ino),
            attr,
            alone: state.lease.mode() == Mode::Write,
        });
        Some(owed_setattr(node.ino, &attr, more, state.lease.shares()))
    }

    async fn uses_end(&self, node: &Node) {
        loop {
            let wake = node.wake.notified();
            if node.state.borrow().lease.is_free() {
                return;
            }
            wake.await;
        }
    }

    /// Answers all revocations of this inode that wait for that.
    fn answer(
        &self,
        node: &Node,
        mut state: RefMut<'_, NodeState>,
        owed: Option<Setattr>,
        done: bool,
    ) {
        let is_unlinked = std::mem::take(&mut state.unlinked);
        if is_unlinked && node.is_open() {
            // The server keeps the inode for this client until it says that it has closed it.
            state.orphan = true;
        }
        let answers = std::mem::take(&mut state.answers);
        drop(state);
        let count = self.revocations.get() + answers.len() as u64;
        self.revocations.set(count);
        answer_revoke(node, answers, owed, done);
        if is_unlinked {
            self.departs(node.ino, false);
        }
    }
}

/// The file is written alone, was closed, and all of it is on the servers: others may as well cache it.
fn is_done(node: &Node) -> bool {
    let state = node.state.borrow();
    state.lease.owns() && !node.is_open() && state.buffer.is_clean() && state.aside.is_empty()
}

/// Size and times as one that writes tells them; `more` bytes were allocated beside what others that write the file have.
/// `beside_others`: it is one of several writers now, whatever it is when this arrives.
pub(crate) fn owed_setattr(
    ino: u64,
    attr: &crate::types::Attr,
    more: u64,
    beside_others: bool,
) -> Setattr {
    Setattr {
        ino,
        size: Some(attr.size),
        atime: attr.atime,
        mtime: attr.mtime,
        allocated: Some(attr.allocated),
        allocated_more: (more > 0).then_some(more),
        owed: true,
        beside_others,
        ..Setattr::default()
    }
}
