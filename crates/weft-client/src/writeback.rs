//! Write-behind: from the write buffers to the pairs, many messages at a time.
//!
//! Whole pieces (at most a stripe unit) go as soon as they are complete; what comes in long writes goes
//! before that while little of the file is on its way; the rest when it is wanted
//! (fsync, close, revocation, age, a full buffer). `pump` is the one place where messages begin; it
//! is called whenever there may be something to send. Keeps true: no byte range is on its way twice
//! at a time, so older bytes never overtake newer ones; bytes stay in the buffer until all copies of
//! them are made; a flush waits for what was written before it began, not for what comes after.

use crate::changes::Write;
use crate::core::{Core, mode_of, root_cred};
use crate::leases::Mode;
use crate::node::{Buffer, FileLayout, Node, NodeState};
use crate::owed::Owed;
use crate::pairs::Object;
use crate::revoke::owed_setattr;
use crate::settings::Settings;
use crate::types::{Attr, Errno, Result};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_types::{BLOCK_BYTES, Epoch, Member, PairId};
use weft_wire::proto::{self, Protocol, op};

/// Extents in one message: a server locks and writes each of them.
const EXTENTS_MAX: usize = 128;
/// Parts of the payload of one message; sockets take this many slices in a few calls.
const PARTS_MAX: usize = 256;
/// How many extents are looked at for more of the same object: bounds the work for one message.
const SCAN_MAX: usize = 1024;
/// A write from this length on is sent on without waiting for its piece to be whole: who writes so much at a
/// time gathers himself, and one message for each costs little beside its bytes.
const EARLY_BYTES: u64 = 32 << 10;
/// Bytes of one early message at most: a member that leads sends a message on when all of it has come.
const EARLY_MESSAGE_BYTES: u64 = 64 << 10;
/// With so much of a file on its way nothing more of it is sent early: the links are busy, and what waits
/// meanwhile goes in larger messages. Enough that one message goes to the member that leads while the one
/// before goes on to its twin.
const EARLY_FLYING_BYTES: u64 = 128 << 10;
/// Messages about size and times that may be on their way at a time.
const TELLING_MAX: usize = 16;
/// A flush waits this much longer than the patience of its messages, whose errors say more.
const FLUSH_GRACE: Duration = Duration::from_secs(3);
/// Leases of evicted inodes that may be on their way back at a time; further ones wait.
const GIVING_MAX: usize = 16;

pub(crate) struct Writeback {
    bound: u64,
    window: u64,
    piece: u64,
    queue: RefCell<VecDeque<Rc<Node>>>,
    /// Bytes in all buffers.
    buffered: Cell<u64>,
    /// Bytes on their way that no member is known to have.
    flying: Cell<u64>,
    /// Bytes on their way that one member has.
    owed: RefCell<Owed>,
    /// Told when bytes have left the buffers.
    room: Notify,
    /// Nodes by the time since when something waits.
    aging: RefCell<VecDeque<Rc<Node>>>,
    tell_queue: RefCell<VecDeque<Rc<Node>>>,
    telling: Cell<usize>,
    leaving: RefCell<VecDeque<Rc<Node>>>,
    giving: Cell<usize>,
    /// The errno of the last failure since all was synced: a close that did not wait told nobody.
    pub failure: Cell<Option<i32>>,
}

/// One write to a data server.
struct Message {
    object: Object,
    leader: Member,
    layout: Rc<FileLayout>,
    extents: Vec<proto::Extent>,
    parts: Vec<Bytes>,
    /// Where the bytes lie in the file: start and end.
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

impl Writeback {
    pub fn new(settings: &Settings) -> Writeback {
        Writeback {
            bound: settings.write_buffer_bytes.max(1 << 20),
            window: settings.write_window_bytes.max(1 << 20),
            piece: u64::from(settings.piece_bytes)
                .clamp(weft_types::BLOCK_BYTES, weft_types::PAYLOAD_MAX as u64),
            queue: RefCell::default(),
            buffered: Cell::new(0),
            flying: Cell::new(0),
            owed: RefCell::new(Owed::new(
                settings.owed_bytes,
                Duration::from_millis(settings.owed_ms),
            )),
            room: Notify::new(),
            aging: RefCell::default(),
            tell_queue: RefCell::default(),
            telling: Cell::new(0),
            leaving: RefCell::default(),
            giving: Cell::new(0),
            failure: Cell::new(None),
        }
    }

    /// Written bytes are lost.
    pub fn fail(&self, state: &mut NodeState, errno: i32) {
        state.buffer.fail(errno);
        self.failure.set(Some(errno));
    }

    /// Bytes that one member alone is known to have.
    pub fn owed(&self) -> u64 {
        self.owed.borrow().bytes()
    }

    /// Bytes in all buffers, those that are on their way included.
    pub fn buffered(&self) -> u64 {
        self.buffered.get()
    }

    /// Bytes that were waiting are gone.
    pub fn forget(&self, bytes: u64) {
        self.buffered.set(self.buffered.get().saturating_sub(bytes));
        self.room.notify_waiters();
    }

    pub fn enqueue(&self, node: &Rc<Node>, state: &mut NodeState) {
        if !state.buffer.queued {
            state.buffer.queued = true;
            self.queue.borrow_mut().push_back(node.clone());
        }
    }
}

impl Core {
    /// Waits until there is room in the write buffer.
    pub async fn buffer_room(self: &Rc<Self>) -> Result<()> {
        if self.writeback.buffered.get() < self.writeback.bound {
            return Ok(());
        }
        loop {
            let room = self.writeback.room.notified();
            if self.writeback.buffered.get() < self.writeback.bound {
                return Ok(());
            }
            self.flush_oldest();
            self.patiently(async {
                room.await;
                Ok(())
            })
            .await?;
        }
    }

    /// Puts written bytes into the buffer. The caller has a WRITE use and the state.
    pub fn buffer_write(
        self: &Rc<Self>,
        node: &Rc<Node>,
        state: &mut NodeState,
        offset: u64,
        data: Bytes,
    ) {
        let end = offset + data.len() as u64;
        let before = state.buffer.waiting.bytes();
        let round = state.buffer.round;
        state.buffer.waiting.insert(offset, data, round);
        let added = state.buffer.waiting.bytes() - before;
        let writeback = &self.writeback;
        writeback.buffered.set(writeback.buffered.get() + added);
        if state.buffer.since.is_none() {
            state.buffer.since = Some(self.env.now());
            writeback.aging.borrow_mut().push_back(node.clone());
        }
        if let Some(layout) = &state.layout {
            let piece = writeback.piece.min(layout.map.unit());
            note_written(&mut state.buffer, piece, offset, end);
        }
        if !state.buffer.ready.is_empty() || state.buffer.is_long {
            writeback.enqueue(node, state);
        }
    }

    /// Asks for the flushing of what has waited longest, until half of the bound would be free.
    fn flush_oldest(self: &Rc<Self>) {
        let mut wanted = 0;
        for at in 0.. {
            let next = self.writeback.aging.borrow().get(at).cloned();
            let Some(node) = next.filter(|_| wanted < self.writeback.bound / 2) else {
                break;
            };
            wanted += node.state.borrow().buffer.waiting.bytes();
            self.want_flush(&node);
        }
        self.pump();
    }

    /// Everything written to the node so far is to be sent. Returns the round to wait for.
    pub fn want_flush(&self, node: &Rc<Node>) -> u64 {
        let mut state = node.state.borrow_mut();
        let round = state.buffer.round;
        // What is written from now on is another round's, whatever waits now.
        state.buffer.round += 1;
        if state.buffer.waiting.is_empty() {
            return round;
        }
        state.buffer.wanted = Some(round);
        self.writeback.enqueue(node, &mut state);
        round
    }

    /// Sends everything written to the node so far and waits until it is answered.
    ///
    /// # Errors
    /// EIO when nothing of it is answered for longer than the patience. Errors of the writes themselves
    /// are left in the node, for its handles.
    pub async fn flush_data(self: &Rc<Self>, node: &Rc<Node>) -> Result<()> {
        self.flush_until(node, || false).await
    }

    /// The same, but no longer than until `enough` says so; it is asked again when something of the node
    /// is answered.
    ///
    /// # Errors
    /// As [`Core::flush_data`].
    pub async fn flush_until(
        self: &Rc<Self>,
        node: &Rc<Node>,
        enough: impl Fn() -> bool,
    ) -> Result<()> {
        if node.state.borrow().buffer.is_clean() {
            return Ok(());
        }
        let round = self.want_flush(node);
        self.pump();
        loop {
            let wake = node.wake.notified();
            if !node.state.borrow().buffer.is_outstanding(round) || enough() {
                return Ok(());
            }
            self.within(self.patience() + FLUSH_GRACE, async {
                wake.await;
                Ok(())
            })
            .await?;
        }
    }

    /// Drops what waits in a range and waits for what is on its way there.
    pub async fn discard(self: &Rc<Self>, node: &Rc<Node>, range: Range<u64>) {
        loop {
            let wake = node.wake.notified();
            let (dropped, flies) = {
                let buffer = &mut node.state.borrow_mut().buffer;
                let before = buffer.waiting.bytes();
                buffer.waiting.remove(range.start, range.end);
                if buffer.is_clean() {
                    buffer.note_clean();
                }
                let flies = buffer.flying.touches(range.start, range.end);
                (before - buffer.waiting.bytes(), flies)
            };
            self.writeback.forget(dropped);
            if !flies {
                break;
            }
            wake.await;
        }
        // A flush may have waited for what is void now.
        node.wake.notify_waiters();
    }

    /// Begins as many messages as the window allows.
    pub fn pump(self: &Rc<Self>) {
        let writeback = &self.writeback;
        let may_owe_more = || !writeback.owed.borrow().is_full(self.env.now());
        while writeback.flying.get() < writeback.window && may_owe_more() {
            let Some(node) = writeback.queue.borrow_mut().pop_front() else {
                break;
            };
            let message = {
                let mut state = node.state.borrow_mut();
                let message = next_message(node.ino, &mut state, writeback.piece);
                if message.is_none() {
                    state.buffer.queued = false;
                }
                message
            };
            if let Some(message) = message {
                writeback.queue.borrow_mut().push_back(node.clone());
                self.launch(node, message);
            }
        }
    }

    fn launch(self: &Rc<Self>, node: Rc<Node>, message: Message) {
        let writeback = &self.writeback;
        writeback.flying.set(writeback.flying.get() + message.bytes);
        let core = self.clone();
        let protocol = match message.layout.protocol {
            Protocol::Hybrid => {
                let hybrid = &mut node.state.borrow_mut().hybrid;
                *hybrid.get_or_insert_with(|| self.settled_hybrid())
            }
            protocol => protocol,
        };
        let pair = PairId(message.object.pair);
        let sent = (pair, self.pairs.forgot(pair));
        self.env.spawn("flush", async move {
            let owed = Cell::new(None);
            let goes_on = || {
                if owed.get().is_none() {
                    owed.set(Some(core.owe(message.bytes)));
                    node.wake.notify_waiters();
                }
            };
            let write = Write {
                object: message.object,
                leader: message.leader,
                protocol,
                extents: message.extents,
                parts: message.parts,
                goes_on: &goes_on,
            };
            let result = core.pairs.write(&core, write).await;
            let result = result.map(|()| sent);
            core.answered(&node, &message.ranges, (message.bytes, owed.get()), result);
        });
    }

    /// What the hybrid protocol is now: server-driven while servers have power to spare (CEFT,
    /// section 5).
    fn settled_hybrid(&self) -> Protocol {
        if (self.writers() as usize) < self.pairs.count() {
            Protocol::ServerSync
        } else {
            Protocol::ClientAsync
        }
    }

    /// One member has the bytes of a message, and more may be sent. Returns a number for the debt.
    fn owe(self: &Rc<Self>, bytes: u64) -> u64 {
        let writeback = &self.writeback;
        writeback.flying.set(writeback.flying.get() - bytes);
        let number = writeback.owed.borrow_mut().begin(bytes, self.env.now());
        self.pump();
        number
    }

    /// What was written is not there, or not all of it: those who have the file open are told, and nobody reads it here
    /// any more.
    pub fn failed(self: &Rc<Self>, node: &Rc<Node>, state: &mut NodeState, errno: i32) {
        self.writeback.fail(state, errno);
        // What was read ahead, or is kept by the face, may hold it.
        state.version += 1;
        let (core, node) = (self.clone(), node.clone());
        self.env.spawn("forget what is lost", async move {
            core.invalidate(&node).await;
        });
    }

    fn answered(
        self: &Rc<Self>,
        node: &Rc<Node>,
        ranges: &[(u64, u64)],
        (bytes, owed): (u64, Option<u64>),
        result: Result<(PairId, Epoch)>,
    ) {
        let writeback = &self.writeback;
        match owed {
            Some(number) => writeback.owed.borrow_mut().end(number),
            None => writeback.flying.set(writeback.flying.get() - bytes),
        }
        writeback.forget(bytes);
        let mut state = node.state.borrow_mut();
        for &(start, end) in ranges {
            state.buffer.flying.remove(start, end);
        }
        match result {
            Ok(took) => state.unstable.took(took),
            Err(Errno(errno)) => {
                tracing::error!(ino = node.ino, bytes, errno, "written bytes are lost");
                self.failed(node, &mut state, errno);
            }
        }
        if let Some(round) = state.buffer.wanted
            && !state.buffer.is_outstanding(round)
        {
            state.buffer.wanted = None;
        }
        if state.buffer.is_clean() {
            state.buffer.note_clean();
            state.hybrid = None;
        } else if state.buffer.wanted.is_some()
            || !state.buffer.ready.is_empty()
            || state.buffer.is_long
        {
            writeback.enqueue(node, &mut state);
        }
        let tells = state.buffer.is_clean() && std::mem::take(&mut state.buffer.tell_then);
        drop(state);
        node.wake.notify_waiters();
        self.leave_if_shared(node);
        if tells {
            self.want_tell(node);
        }
        self.pump();
    }

    // ---- size and times ----

    /// The node's size and times are to be told, without anybody waiting: after what was written, so
    /// that a client that dies between leaves no size without its bytes.
    pub fn want_tell(self: &Rc<Self>, node: &Rc<Node>) {
        {
            let mut state = node.state.borrow_mut();
            if !state.buffer.owes() || state.buffer.tell_queued {
                return;
            }
            if !state.buffer.is_clean() {
                state.buffer.tell_then = true;
                return;
            }
            state.buffer.tell_queued = true;
        }
        self.writeback
            .tell_queue
            .borrow_mut()
            .push_back(node.clone());
        self.pump_tell();
    }

    fn pump_tell(self: &Rc<Self>) {
        while self.writeback.telling.get() < TELLING_MAX {
            let Some(node) = self.writeback.tell_queue.borrow_mut().pop_front() else {
                return;
            };
            node.state.borrow_mut().buffer.tell_queued = false;
            self.writeback.telling.set(self.writeback.telling.get() + 1);
            let core = self.clone();
            self.env.spawn("tell size", async move {
                if let Err(errno) = core.tell(&node).await {
                    tracing::warn!(ino = node.ino, %errno, "size and times were not taken");
                }
                core.writeback.telling.set(core.writeback.telling.get() - 1);
                core.pump_tell();
            });
        }
    }

    /// Tells the server size and times if they are owed, and waits for the answer.
    pub async fn tell(self: &Rc<Self>, node: &Rc<Node>) -> Result<()> {
        struct Telling<'a>(&'a Node);
        impl Drop for Telling<'_> {
            fn drop(&mut self) {
                self.0.state.borrow_mut().buffer.telling = false;
                self.0.wake.notify_waiters();
            }
        }
        // Others may have been at it for long, and not have come through: the patience counts once for all.
        let begun = self.env.now();
        // What changes while this is under way is told by others, or later.
        let target = node.state.borrow().buffer.changes;
        loop {
            let wake = node.wake.notified();
            let owed = {
                let mut state = node.state.borrow_mut();
                if state.buffer.told >= target {
                    return Ok(());
                }
                let Some(attr) = state.attr.filter(|_| state.lease.owes()) else {
                    // Given back, with the answer to the revocation.
                    state.buffer.told = state.buffer.changes;
                    return Ok(());
                };
                // A size from before a cut must not reach the server after it.
                if state.buffer.telling || state.is_cut() {
                    None
                } else {
                    state.buffer.telling = true;
                    let more = std::mem::take(&mut state.buffer.allocated_more);
                    let beside_others = state.lease.shares();
                    let owed = owed_setattr(node.ino, &attr, more, beside_others);
                    Some((owed, state.buffer.changes, more))
                }
            };
            let Some((owed, changes, more)) = owed else {
                let waited = self.env.now().since(begun);
                self.within(self.patience().saturating_sub(waited), async {
                    wake.await;
                    Ok(())
                })
                .await?;
                continue;
            };
            let _telling = Telling(node);
            let tell = op::Op::Setattr(owed);
            let result = self.change_since(begun, node.ino, tell).await;
            let mut state = node.state.borrow_mut();
            match result {
                Ok((reply, _)) => {
                    state.buffer.told = state.buffer.told.max(changes);
                    // Beside others, too: a grant of the whole that was made before this was told may still
                    // be on its way.
                    let is_held = state.lease.may_answer() || state.lease.shares();
                    let is_news = |attr: &Attr| {
                        let known = state.attr.as_ref();
                        known.is_some_and(|known| known.change <= attr.change)
                    };
                    let told = reply.reply.as_ref().and_then(|reply| reply.attr);
                    if let Some(attr) = told.filter(|attr| is_held && is_news(attr)) {
                        state.take_attr(&attr);
                    }
                }
                // Gone, or given back while this was on its way: the answer to the revocation
                // told it.
                Err(Errno(errno)) if [libc::ENOENT, libc::ESTALE, libc::EPERM].contains(&errno) => {
                    state.buffer.told = state.buffer.told.max(changes);
                    return Ok(());
                }
                // Nobody has answered, but the answer to a revocation has told it meanwhile.
                Err(_) if state.buffer.told >= target => return Ok(()),
                Err(errno) => {
                    state.buffer.allocated_more += more;
                    return Err(errno);
                }
            }
        }
    }

    /// What several write is told before the server is asked about it.
    pub async fn tell_if_shared(self: &Rc<Self>, node: &Rc<Node>) -> Result<()> {
        let owes = {
            let state = node.state.borrow();
            state.lease.shares() && state.buffer.owes() && !state.is_cut()
        };
        match owes {
            true => self.tell(node).await,
            false => Ok(()),
        }
    }

    /// A file that is not open any more is not written beside others either: whoever reads it then can
    /// have it whole.
    pub fn leave_if_shared(self: &Rc<Self>, node: &Rc<Node>) {
        let leaves = {
            let state = node.state.borrow();
            let is_over = !node.is_open() && state.buffer.is_clean();
            is_over && state.lease.shares() && !state.lease.is_leaving()
        };
        if leaves {
            self.leave(node.clone());
        }
    }

    /// Gives the WRITE lease of a node that is to be evicted back, so that it can be.
    pub fn leave(self: &Rc<Self>, node: Rc<Node>) {
        self.writeback.leaving.borrow_mut().push_back(node);
        self.pump_leaving();
    }

    fn pump_leaving(self: &Rc<Self>) {
        while self.writeback.giving.get() < GIVING_MAX {
            let Some(node) = self.writeback.leaving.borrow_mut().pop_front() else {
                return;
            };
            self.writeback.giving.set(self.writeback.giving.get() + 1);
            let core = self.clone();
            self.env.spawn("give back", async move {
                core.give_back_unasked(&node).await;
                core.writeback.giving.set(core.writeback.giving.get() - 1);
                core.pump_leaving();
            });
        }
    }

    async fn give_back_unasked(self: &Rc<Self>, node: &Rc<Node>) {
        // What was told of it with an answer may be lost with the service. Should that not be known before the lease is
        // dropped, the service that leads next would hear of the drop, and of nothing else.
        let told = async {
            loop {
                self.tell(node).await?;
                if self.confirm(node).await? {
                    return Ok(());
                }
            }
        };
        let told: Result<()> = told.await;
        if let Err(errno) = told {
            tracing::warn!(ino = node.ino, %errno, "size and times were not taken");
            return;
        }
        {
            let mut state = node.state.borrow_mut();
            let shares = state.lease.shares() && state.lease.giving_back_to().is_none();
            let in_use = node.is_open()
                || !(state.lease.owns() || shares)
                || !state.lease.is_idle()
                || !state.buffer.is_clean()
                || state.buffer.owes()
                || state.lease.is_leaving();
            if in_use {
                return;
            }
            state.lease.leave();
            state.forget();
        }
        let drop_lease = op::Op::DropLease(proto::DropLease { ino: node.ino });
        let given = self
            .change_at(node.ino, root_cred(), drop_lease, true)
            .await;
        let granted = given.as_ref().ok().and_then(|(reply, link)| {
            let lease = reply.leases.iter().find(|lease| lease.ino == node.ino)?;
            let granted = (mode_of(lease.mode()), lease.seq);
            self.is_current(link).then_some(granted)
        });
        let is_held = {
            let mut state = node.state.borrow_mut();
            let is_held = state.lease.left(granted);
            if let (true, Ok((reply, _))) = (is_held, &given)
                && let Some(attr) = reply.reply.as_ref().and_then(|reply| reply.attr)
            {
                state.take_attr(&attr);
            }
            is_held
        };
        node.wake.notify_waiters();
        if !is_held || node.state.borrow().lease.mode() < Mode::Read {
            self.invalidate(node).await;
        }
    }

    fn flush_aged(self: &Rc<Self>) {
        let age = Duration::from_millis(self.settings.flush_age_ms);
        let now = self.env.now();
        loop {
            let Some(node) = self.writeback.aging.borrow_mut().pop_front() else {
                break;
            };
            let since = node.state.borrow().buffer.since;
            match since {
                // Flushed already.
                None => {}
                Some(since) if now.since(since) < age => {
                    self.writeback.aging.borrow_mut().push_front(node);
                    break;
                }
                Some(_) => {
                    // What is written from now on is young.
                    node.state.borrow_mut().buffer.since = None;
                    self.want_flush(&node);
                    self.want_tell(&node);
                }
            }
        }
        self.pump();
    }

    /// Every node that has something to write back, oldest first.
    pub fn unwritten(&self) -> Vec<Rc<Node>> {
        self.nodes
            .all()
            .into_iter()
            .filter(|node| {
                let state = node.state.borrow();
                !state.buffer.is_clean() || state.buffer.owes()
            })
            .collect()
    }
}

/// Flushes and tells what has waited for `flush_age_ms`, for ever.
pub(crate) async fn age(core: std::rc::Weak<Core>) {
    loop {
        let (env, pause) = {
            let Some(core) = core.upgrade() else { return };
            let age = Duration::from_millis(core.settings.flush_age_ms.max(10));
            (core.env.clone(), age / 4)
        };
        env.sleep(pause).await;
        let Some(core) = core.upgrade() else { return };
        if core.first_session().is_closed() {
            return;
        }
        core.flush_aged();
    }
}

/// Takes the next message out of what waits, None if nothing may be sent now.
fn next_message(ino: u64, state: &mut NodeState, piece_bytes: u64) -> Option<Message> {
    let layout = state.layout.clone()?;
    let piece = piece_bytes.min(layout.map.unit());
    while let Some(start) = state.buffer.ready.pop_front() {
        let end = end_of_piece(start, piece);
        // If it is on its way already it stays, and is found complete again by a later write, or
        // by a flush.
        if !state.buffer.is_free(start, end) || !state.buffer.waiting.covers(start, end) {
            continue;
        }
        return Some(gather(ino, state, &layout, start, end - start, true));
    }
    if state.buffer.wanted.is_none() {
        let (start, end) = early(&state.buffer, piece)?;
        state.buffer.begun = end;
        return Some(gather(ino, state, &layout, start, end - start, true));
    }
    if state.buffer.waiting.is_empty() {
        state.buffer.wanted = None;
        return None;
    }
    // From where the last message ended, then from the start: servers see ascending offsets.
    for from in [state.buffer.cursor, 0] {
        let buffer = &state.buffer;
        let next = buffer.waiting.ranges(from).find_map(|(start, end)| {
            let start = start.max(from);
            buffer.first_free(start, end)
        });
        if let Some(start) = next {
            return Some(gather(ino, state, &layout, start, piece_bytes, false));
        }
        if state.buffer.cursor == 0 {
            break;
        }
    }
    None
}

/// Bytes `start..end` wait: notes which pieces are whole now, and whether the rest is to be sent early.
fn note_written(buffer: &mut Buffer, piece: u64, start: u64, end: u64) {
    buffer.is_long = end - start >= EARLY_BYTES;
    let mut at = start - start % piece;
    while at < end {
        let next = at + piece;
        let begun = buffer.begun;
        if start <= at && next <= end || buffer.waiting.covers(at, next) {
            buffer.ready.push_back(at);
        } else if at < begun && begun < next && buffer.waiting.covers(begun, next) {
            // The beginning went early.
            buffer.ready.push_back(begun);
        }
        at = next;
    }
}

/// Where the piece ends that a byte lies in.
fn end_of_piece(at: u64, piece: u64) -> u64 {
    at - at % piece + piece
}

/// What is to be sent though nobody asks for it and its piece is not whole: what follows on what was sent so
/// before, else what comes first in the file; no more than a piece, and in one run.
fn early(buffer: &Buffer, piece: u64) -> Option<(u64, u64)> {
    if !buffer.is_long || buffer.flying.bytes() >= EARLY_FLYING_BYTES {
        return None;
    }
    let free = |from: u64| {
        let mut waiting = buffer.waiting.ranges(from);
        let start = waiting.find_map(|(at, end)| buffer.first_free(at.max(from), end))?;
        let most = buffer
            .free_until(start)
            .min(end_of_piece(start, piece))
            .min((start + EARLY_MESSAGE_BYTES) / BLOCK_BYTES * BLOCK_BYTES);
        let mut end = start;
        for (at, to) in buffer.waiting.ranges(start) {
            if at > end || end >= most {
                break;
            }
            end = to;
        }
        Some((start, end.min(most)))
    };
    free(buffer.begun).or_else(|| free(0))
}

/// Moves bytes from `start` on into one message: up to `limit` bytes of one object with one leader.
/// With `whole`, exactly `limit` contiguous ones.
fn gather(
    ino: u64,
    state: &mut NodeState,
    layout: &Rc<FileLayout>,
    start: u64,
    limit: u64,
    whole: bool,
) -> Message {
    let first = layout.map.piece_at(start, limit);
    let mut message = Message {
        object: Object {
            pair: first.pair.0,
            ino,
            generation: layout.generation,
        },
        leader: first.leader,
        layout: layout.clone(),
        extents: Vec::new(),
        parts: Vec::new(),
        ranges: Vec::new(),
        bytes: 0,
    };
    let mut wanted: Vec<(u64, u64)> = Vec::new();
    if whole {
        wanted.push((start, start + limit));
    } else {
        let mut bytes = 0;
        let mut parts = 0;
        let buffer = &state.buffer;
        'scan: for (from, to) in buffer.waiting.ranges(start).take(SCAN_MAX) {
            let mut at = from.max(start);
            while at < to {
                let Some(free) = buffer.first_free(at, to) else {
                    break;
                };
                let until = buffer.free_until(free).min(to);
                let piece = layout.map.piece_at(free, until - free);
                if piece.pair_index == first.pair_index && piece.leader == first.leader {
                    let length = piece.length.min(limit - bytes);
                    let count = wanted.len();
                    match wanted.last_mut() {
                        Some((_, end)) if *end == free => *end = free + length,
                        _ if count == EXTENTS_MAX => break 'scan,
                        _ => wanted.push((free, free + length)),
                    }
                    bytes += length;
                    parts += 1;
                    if bytes == limit || parts == PARTS_MAX {
                        break 'scan;
                    }
                    at = free + length;
                } else {
                    at = free + piece.length;
                }
            }
        }
    }
    for (from, to) in wanted {
        for (at, extent) in state.buffer.waiting.remove(from, to) {
            let piece = layout.map.piece_at(at, extent.bytes.len() as u64);
            let length = extent.bytes.len() as u64;
            debug_assert_eq!(piece.length, length, "an extent crosses a unit");
            match message.extents.last_mut() {
                Some(last) if last.offset + u64::from(last.length) == piece.object_offset => {
                    last.length += length as u32;
                }
                _ => message.extents.push(proto::Extent {
                    offset: piece.object_offset,
                    length: length as u32,
                }),
            }
            match message.ranges.last_mut() {
                Some((_, end)) if *end == at => *end += length,
                _ => message.ranges.push((at, at + length)),
            }
            message.bytes += length;
            message.parts.push(extent.bytes.clone());
            state.buffer.flying.insert_unjoined(at, extent);
        }
    }
    // What was passed over comes next.
    state.buffer.cursor = start;
    message
}

#[cfg(test)]
#[path = "writeback_tests.rs"]
mod tests;
