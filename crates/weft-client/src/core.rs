//! What all operations of one client share, and what the metadata service tells it unasked.

use crate::handles::Handles;
use crate::leases::{Admission, Mode, Need, WHOLE, Wanted};
use crate::locks::Locks;
use crate::node::{FileLayout, Node, NodeTable};
use crate::pairs::{Object, Pairs};
use crate::revoke::GivingBack;
use crate::session::Link;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::spread::Spreads;
use crate::turns::GivenBack;
use crate::types::{Attr, Cred, Errno, Invalidator, Known, Result};
use crate::unstable::Unstable;
use crate::writeback::Writeback;
use futures_util::FutureExt;
use rangemap::RangeSet;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::Env;
use weft_rpc::{Connection, Local, Request};
use weft_wire::proto::{
    self, Durability, GetInodeRequest, Identity, Inode, Lease, LeaseMode, LeaseRangeRequest,
    LockFreed, OpReply, PairStates, RevokeReply, RevokeRequest, Setattr, SlotMoved, Time, op,
};
use weft_wire::{Failed, Rpc};

pub(crate) struct Core {
    pub env: Env,
    pub settings: Settings,
    pub sessions: Sessions,
    /// Directories that are spread, as far as they were met.
    pub spreads: Spreads,
    pub pairs: Pairs,
    pub nodes: NodeTable,
    pub handles: Handles,
    pub locks: Locks,
    pub writeback: Writeback,
    pub invalidator: RefCell<Option<Rc<dyn Invalidator>>>,
    /// Leases whose giving back may not have reached the server, with what was owed: kept until a
    /// later answer on the same connection proves that it has.
    pub unconfirmed: RefCell<Vec<GivenBack>>,
    pub giving_back: GivingBack,
    /// Creates so far.
    pub creates: Cell<u64>,
    /// Those whose answers, late perhaps, may still open files: by their numbers, with the group that
    /// each was sent to, and the connection over which that was first.
    pub creating: RefCell<BTreeMap<u64, (u32, u64)>>,
    /// One of them has come to its end.
    pub created: Notify,
    /// Revocations that were answered.
    pub revocations: Cell<u64>,
    /// Those with whose answers size and times were told.
    pub handovers: Cell<u64>,
    /// Changes of extended attributes by this client that have begun, and that have ended: while it stays the same,
    /// none was under way that was not all the time.
    pub xattr_changes: Cell<u64>,
}

/// A create under way.
pub(crate) struct Creating<'a>(&'a Core, u64);

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        self.0.creating.borrow_mut().remove(&self.1);
        self.0.created.notify_waiters();
    }
}

/// The service itself, for what is not asked by an application.
pub(crate) fn root_cred() -> Cred {
    Cred::default()
}

/// A lease in use: it is not given back before this is dropped. It may be lost, though, with the
/// connection or the session.
pub(crate) struct Use {
    node: Rc<Node>,
    need: Need,
    /// Of the lease when this began.
    losses: u64,
}

impl Use {
    fn begun(node: &Rc<Node>, need: Need) -> Use {
        Use {
            node: node.clone(),
            need,
            losses: node.state.borrow().lease.losses(),
        }
    }

    /// How often the lease had been lost when this began.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// The lease has gone since the use began.
    pub fn is_lost(&self) -> bool {
        self.node.state.borrow().lease.losses() != self.losses
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if self.node.state.borrow_mut().lease.ended(&self.need) {
            self.node.wake.notify_waiters();
        }
    }
}

pub(crate) fn mode_of(mode: LeaseMode) -> Mode {
    match mode {
        LeaseMode::LeaseNone => Mode::None,
        LeaseMode::LeaseShared => Mode::Shared,
        LeaseMode::LeaseRead => Mode::Read,
        LeaseMode::LeaseWrite => Mode::Write,
    }
}

/// The inverse of [`mode_of`].
fn named_mode(mode: Mode) -> LeaseMode {
    match mode {
        Mode::None => LeaseMode::LeaseNone,
        Mode::Shared => LeaseMode::LeaseShared,
        Mode::Read => LeaseMode::LeaseRead,
        Mode::Write => LeaseMode::LeaseWrite,
    }
}

/// What a revocation asks for. None: only what is owed is to be told.
pub(crate) fn wanted_by(revoke: &RevokeRequest) -> Option<Wanted> {
    let to = mode_of(revoke.to());
    let span = match to {
        Mode::Shared => revoke.start..revoke.end,
        _ => WHOLE,
    };
    (span.start < span.end).then_some(Wanted {
        to,
        span,
        write: revoke.write || to != Mode::Shared,
        contested: revoke.contested,
    })
}

impl Core {
    pub fn new(env: Env, settings: Settings) -> Rc<Core> {
        let local = Local::new(settings.cluster_id.clone(), Identity::default());
        let sessions = Sessions::new(env.clone(), &settings, &local);
        let pairs = Pairs::new(env.clone(), &settings, &local);
        pairs.tell_of_settled(sessions.first().resettled.clone());
        Rc::new(Core {
            sessions,
            spreads: Spreads::default(),
            pairs,
            nodes: NodeTable::new(settings.cached_inodes),
            handles: Handles::default(),
            locks: Locks::default(),
            writeback: Writeback::new(&settings),
            invalidator: RefCell::default(),
            unconfirmed: RefCell::default(),
            giving_back: GivingBack::default(),
            creates: Cell::new(0),
            creating: RefCell::default(),
            created: Notify::new(),
            revocations: Cell::new(0),
            handovers: Cell::new(0),
            xattr_changes: Cell::new(0),
            env,
            settings,
        })
    }

    /// A create in this directory begins.
    pub fn begin_creating(&self, parent: u64) -> Creating<'_> {
        let number = self.creates.get();
        self.creates.set(number + 1);
        let sent = (self.group_of(parent), self.generation_of(parent));
        self.creating.borrow_mut().insert(number, sent);
        Creating(self, number)
    }

    /// Waits until the creates that may open an inode and had to be sent again, over another connection,
    /// have ended.
    pub async fn resent_creates_end(&self, ino: u64) {
        // A group opens its own inodes only.
        let (group, now) = (self.group_of(ino), self.generation_of(ino));
        let resent = |(number, (to, sent)): (&u64, &(u32, u64))| {
            (*to == group && *sent != now).then_some(*number)
        };
        let waits: Vec<u64> = self.creating.borrow().iter().filter_map(resent).collect();
        loop {
            let created = self.created.notified();
            let is_under_way = |number| self.creating.borrow().contains_key(number);
            if !waits.iter().any(is_under_way) {
                return;
            }
            created.await;
        }
    }

    /// The wall clock as attributes tell it.
    pub fn wall(&self) -> Time {
        let wall = self.env.wall();
        Time {
            seconds: wall.seconds(),
            nanos: wall.subsecond_nanos(),
        }
    }

    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.settings.patience_ms)
    }

    /// `future`, or EIO when the patience is over. It is what waits, mostly, and is kept in a box: each layer that
    /// passes a future on holds it once more, and every call of an application would carry all that.
    pub fn patiently<'a, T: 'a>(
        &'a self,
        future: impl Future<Output = Result<T>> + 'a,
    ) -> impl Future<Output = Result<T>> + 'a {
        self.within(self.patience(), future.boxed_local())
    }

    /// `future`, or EIO when it takes longer.
    pub async fn within<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.env.timeout(limit, future).await {
            Ok(result) => result,
            Err(_) => Err(Errno(libc::EIO)),
        }
    }

    // ---- learning ----

    /// Takes over the leases that came with a reply. Says for one inode whether it was granted.
    pub fn take_leases(&self, link: &Link, leases: &[Lease], of: u64) -> bool {
        if !self.is_current(link) {
            return false;
        }
        let mut granted = false;
        // A group has none to give on another's inodes.
        let own = leases.iter().filter(|it| self.is_of(link, it.ino));
        for lease in own {
            tracing::trace!(session = link.session, ?lease, "granted");
            let node = self.nodes.get_or_new(lease.ino);
            let good = {
                let state = &mut *node.state.borrow_mut();
                let looked_on = state.lease.looks_on();
                let held = &mut state.lease;
                let good = match mode_of(lease.mode()) {
                    Mode::Shared if lease.start < lease.end => {
                        held.grant_range(lease.start..lease.end, lease.write, lease.seq)
                    }
                    mode => held.grant(mode, lease.seq),
                };
                if looked_on && held.mode() > Mode::Shared {
                    // The answer need not say all of it.
                    state.forget();
                }
                if good {
                    state.denied = lease.denied;
                }
                good
            };
            if good {
                node.wake.notify_waiters();
            }
            granted |= good && lease.ino == of;
        }
        granted
    }

    /// The inode is kept by the group that the link leads to.
    pub fn is_of(&self, link: &Link, ino: u64) -> bool {
        self.group_of(ino) == link.group
    }

    /// Takes over an inode; `granted` says whether the reply's lease on it stands.
    pub fn take_inode(self: &Rc<Self>, inode: &Inode, granted: bool) -> (Rc<Node>, Known) {
        let attr = inode.attr.unwrap_or_default();
        self.spreads.learn(attr.ino, inode);
        let node = self.nodes.get_or_new(attr.ino);
        let mut state = node.state.borrow_mut();
        if !inode.target.is_empty() {
            state.target = Some(inode.target.clone());
        }
        if granted && state.lease.mode() >= Mode::Shared && !state.is_old(&attr) {
            state.take_attr(&attr);
            state.take_layout(inode.layout.as_ref());
            state.take_remains(inode.trim_seq, inode.trim_from);
        }
        drop(state);
        let known = self.known_or(&node, attr);
        self.make_room();
        (node, known)
    }

    /// Takes over attributes that came with a change's reply.
    pub fn take_changed(&self, link: &Link, attr: &Attr, granted: bool) -> Rc<Node> {
        let node = self.nodes.get_or_new(attr.ino);
        let is_own = self.is_of(link, attr.ino);
        let mut state = node.state.borrow_mut();
        if is_own {
            state.newest = state.newest.max(attr.change);
        }
        // Without a lease of this reply's they are believed only as news of what is known. Of another
        // group's inode its group may have told the same, and what came after it.
        let is_news = |known: Attr| is_own || known.change < attr.change;
        if state.lease.mode() >= Mode::Shared && (granted || state.attr.is_some_and(is_news)) {
            state.take_attr(attr);
        }
        drop(state);
        node
    }

    /// What is known under the lease, else what the reply said, which is true only now. What this client owes of the
    /// file stands in either: it may be so late that the term is over in which that is this client's alone to say, but
    /// the service, which answered, has not ended the session.
    pub fn known_or(&self, node: &Node, attr: Attr) -> Known {
        let known = match self.is_valid(node.ino) {
            true => node.known(),
            false => None,
        };
        known.unwrap_or_else(|| {
            let state = node.state.borrow();
            Known {
                attr: match state.buffer.owes() {
                    true => state.joined(&attr),
                    false => attr,
                },
                leased: false,
            }
        })
    }

    /// Takes over the parents and the victim of a change of names.
    pub fn take_parents(&self, link: &Link, reply: &OpReply, leases: &[Lease]) {
        for attr in [&reply.parent, &reply.new_parent, &reply.victim]
            .into_iter()
            .flatten()
        {
            self.take_changed(link, attr, self.granted(link, leases, attr.ino));
        }
    }

    /// Evicts what is beyond the bound.
    pub fn make_room(self: &Rc<Self>) {
        for node in self.nodes.evict() {
            self.leave(node);
        }
    }

    /// Asks the server for an inode, to hold `lease` or (NONE) to know what it is like now. The leases
    /// that come with it are not taken yet.
    pub async fn ask_inode(
        self: &Rc<Self>,
        ino: u64,
        lease: Mode,
    ) -> Result<(Inode, Vec<Lease>, Link)> {
        let (reply, link) = self
            .ask_at(ino, |link| GetInodeRequest {
                session: link.session,
                epoch: link.epoch,
                cred: Some(root_cred()),
                ino,
                lease: named_mode(lease) as i32,
            })
            .await?;
        let inode = reply.inode.ok_or(Errno(libc::EIO))?;
        Ok((inode, reply.leases, link))
    }

    /// Asks the server for an inode, to hold `lease` or (NONE) to know what it is like now. What else it
    /// grants is taken as well; while others dispute the inode it grants nothing.
    pub async fn fetch_inode(self: &Rc<Self>, ino: u64, lease: Mode) -> Result<(Rc<Node>, Known)> {
        loop {
            let handovers = self.handovers.get();
            if let Some(node) = self.nodes.get(ino) {
                self.tell_if_shared(&node).await?;
            }
            let (inode, leases, link) = self.ask_inode(ino, lease).await?;
            let granted = self.take_leases(&link, &leases, ino);
            let (node, known) = self.take_inode(&inode, granted);
            // Where several write, the answer is of a moment that knew all that was written here.
            let is_behind = node.written_beyond(known.attr.size);
            if !is_behind && (known.leased || !node.handed_over_since(handovers)) {
                return Ok((node, known));
            }
        }
    }

    /// Attributes of this inode under a lease if there is one, else asked. (A spread directory has shards besides:
    /// [`Core::known`].)
    pub async fn known_here(self: &Rc<Self>, ino: u64) -> Result<(Rc<Node>, Known)> {
        match self.known_now(ino) {
            Some(known) => Ok(known),
            None => self.fetch_inode(ino, Mode::None).await,
        }
    }

    /// The same if nobody has to be asked.
    pub fn known_now(&self, ino: u64) -> Option<(Rc<Node>, Known)> {
        let node = self.nodes.get(ino).filter(|_| self.is_valid(ino))?;
        let known = node.known()?;
        Some((node, known))
    }

    // ---- leases in use ----

    /// Begins a use if that can be done at once.
    pub fn begin_now(&self, node: &Rc<Node>, need: impl Into<Need>) -> Option<Use> {
        if !self.is_valid(node.ino) {
            return None;
        }
        let need = need.into();
        let mut state = node.state.borrow_mut();
        let is_ready = state.is_usable()
            && (need.mode < Mode::Write || (!state.is_shut() && state.trim.is_none()));
        if is_ready && state.lease.begin(need.clone()) == Admission::Begun {
            drop(state);
            return Some(Use::begun(node, need));
        }
        None
    }

    /// The lease was held all the time since the use began: what was read under it is of one moment.
    /// Otherwise others may have changed the file meanwhile.
    pub fn has_stood(&self, begun: &Use) -> bool {
        self.is_valid(begun.node.ino) && !begun.is_lost()
    }

    /// Begins a use, asking the server for the lease if need be. With WRITE, remains of a shorter
    /// size are trimmed first, and a cut in progress is waited for.
    pub async fn begin(self: &Rc<Self>, node: &Rc<Node>, need: impl Into<Need>) -> Result<Use> {
        let need = need.into();
        if let Some(begun) = self.begin_now(node, need.clone()) {
            return Ok(begun);
        }
        self.patiently(self.begin_slowly(node, need, false)).await
    }

    /// As [`Core::begin`] with WRITE, for the one that cuts the file.
    pub async fn begin_cut(self: &Rc<Self>, node: &Rc<Node>) -> Result<Use> {
        let need = Mode::Write.into();
        self.patiently(self.begin_slowly(node, need, true)).await
    }

    async fn begin_slowly(
        self: &Rc<Self>,
        node: &Rc<Node>,
        mut need: Need,
        cuts: bool,
    ) -> Result<Use> {
        loop {
            self.session_of(node.ino).valid().await?;
            let wake = node.wake.notified();
            let admission = {
                let mut state = node.state.borrow_mut();
                if need.mode == Mode::Write
                    && state.lease.mode() == Mode::Shared
                    && state.trim.is_some()
                {
                    // Remains are trimmed by one that writes alone.
                    need = Mode::Write.into();
                }
                if need.mode == Mode::Write && state.is_shut() && !cuts {
                    Admission::Wait
                } else if state.lease.suffices(&need) && !state.is_usable() {
                    // A lease without what it makes true: it came with another inode's answer.
                    Admission::Ask
                } else {
                    state.lease.begin(need.clone())
                }
            };
            match admission {
                Admission::Wait => wake.await,
                Admission::Ask if node.state.borrow().asking => wake.await,
                Admission::Ask => {
                    let has = || {
                        let state = node.state.borrow();
                        (state.lease.mode(), state.is_usable())
                    };
                    let before = has();
                    let ask = async || self.ask_lease(node, &need).await;
                    self.asked_of_open(node, ask).await?;
                    // While others dispute the inode the answer comes without a lease. It may also bring
                    // what bytes are asked for under.
                    let is_stuck = !node.state.borrow().lease.suffices(&need) && has() == before;
                    if is_stuck {
                        self.env.sleep(DISPUTE_PAUSE).await;
                    }
                }
                Admission::Begun => {
                    let is_trimmed = node.state.borrow().trim.is_none();
                    let begun = Use::begun(node, need.clone());
                    if need.mode < Mode::Write || is_trimmed {
                        return Ok(begun);
                    }
                    self.trim(node, &begun).await?;
                }
            }
        }
    }

    async fn ask_lease(self: &Rc<Self>, node: &Rc<Node>, need: &Need) -> Result<()> {
        struct Asking<'a>(&'a Node);
        impl Drop for Asking<'_> {
            fn drop(&mut self) {
                self.0.state.borrow_mut().asking = false;
                self.0.wake.notify_waiters();
            }
        }
        {
            let mut state = node.state.borrow_mut();
            state.asking = true;
            state.lease.will_use(need);
        }
        let _asking = Asking(node);
        let (held, is_usable, shares) = {
            let state = node.state.borrow();
            (state.lease.mode(), state.is_usable(), state.lease.shares())
        };
        let is_shared = held == Mode::Shared && is_usable;
        // Where several write there is no READ lease on the whole: what needs that needs the file for
        // itself.
        let takes_all = held == Mode::Shared && need.mode == Mode::Read && !need.is_partial();
        if need.mode == Mode::Write || takes_all {
            // Or a lease that is granted now, and whose grant is lost, would be taken for the one that
            // was given back, and what was owed under that be told again.
            self.confirm(node).await?;
        }
        if need.is_partial()
            && is_shared
            && (need.mode == Mode::Read || shares)
            && self.ask_range(node, need).await?
        {
            return Ok(());
        }
        if (need.mode < Mode::Write && !takes_all) || held == Mode::Write {
            self.fetch_inode(node.ino, need.mode).await?;
            return Ok(());
        }
        let span = match need.is_partial() {
            true => need.span.clone(),
            false => 0..0,
        };
        let ask = op::Op::WriteLease(proto::WriteLease {
            ino: node.ino,
            start: span.start,
            end: span.end,
            shared: false,
        });
        let asked = self.change_at(node.ino, root_cred(), ask, true);
        let (reply, link) = asked.await?;
        let granted = self.take_leases(&link, &reply.leases, node.ino);
        let op_reply = reply.reply.unwrap_or_default();
        if granted {
            let mut state = node.state.borrow_mut();
            let is_alone = state.lease.mode() == Mode::Write;
            match &op_reply.attr {
                Some(attr) if held == Mode::Shared && is_alone => state.take_over(attr),
                Some(attr) => state.take_attr(attr),
                None => {}
            }
            state.take_layout(op_reply.layout.as_ref());
            state.take_remains(op_reply.trim_seq, op_reply.trim_from);
        }
        Ok(())
    }

    /// Asks for bytes of a file that several write. False: nobody else does now, the whole can be had.
    async fn ask_range(self: &Rc<Self>, node: &Rc<Node>, need: &Need) -> Result<bool> {
        let ask = |link: &Link| LeaseRangeRequest {
            session: link.session,
            epoch: link.epoch,
            ino: node.ino,
            start: need.span.start,
            end: need.span.end,
            write: need.mode == Mode::Write,
        };
        let (reply, link) = self.ask_at(node.ino, ask).await?;
        let granted = self.take_leases(&link, &reply.leases, node.ino);
        {
            let mut state = node.state.borrow_mut();
            state.take_layout(reply.layout.as_ref());
            if granted {
                state.take_remains(reply.trim_seq, reply.trim_from);
            }
        }
        Ok(!reply.leases.is_empty())
    }

    /// Drops remains of a shorter size from the objects, under a WRITE use of the caller's. They are still there if that is
    /// lost.
    async fn trim(self: &Rc<Self>, node: &Rc<Node>, begun: &Use) -> Result<()> {
        struct Trimming<'a>(&'a Node);
        impl Drop for Trimming<'_> {
            fn drop(&mut self) {
                self.0.state.borrow_mut().trimming = false;
                self.0.wake.notify_waiters();
            }
        }
        let wake = node.wake.notified();
        let todo = {
            let mut state = node.state.borrow_mut();
            let (Some((seq, from)), Some(layout)) = (state.trim, state.layout.clone()) else {
                return Ok(());
            };
            (!std::mem::replace(&mut state.trimming, true)).then_some((seq, from, layout))
        };
        let Some((trim_seq, from, layout)) = todo else {
            wake.await;
            return Ok(());
        };
        let _trimming = Trimming(node);
        loop {
            let sent = self.sent_to(&layout);
            self.truncate_objects(node.ino, &layout, from).await?;
            // Nobody trims them again, and nobody may have to sync it.
            let is_stable = layout.durability != Durability::Disk
                || self.make_stable(node.ino, &layout, &sent).await?;
            if is_stable {
                break;
            }
            if begun.is_lost() {
                // Others may have written there since.
                return Ok(());
            }
        }
        // Before anything is written: whoever trims again would take that away.
        let done = op::Op::TrimDone(proto::TrimDone {
            ino: node.ino,
            trim_seq,
        });
        self.change_at(node.ino, root_cred(), done, false).await?;
        node.state.borrow_mut().remains_are_trimmed(trim_seq);
        Ok(())
    }

    /// Something is sent to all pairs of a file now.
    pub fn sent_to(&self, layout: &FileLayout) -> Unstable {
        let mut unstable = Unstable::default();
        for pair in layout.map.pairs() {
            unstable.took((*pair, self.pairs.forgot(*pair)));
        }
        unstable
    }

    /// Has the pairs of a file make stable what they have taken. False: one of them may have forgotten some of it.
    ///
    /// # Errors
    /// The first that a pair answers.
    pub async fn make_stable(
        self: &Rc<Self>,
        ino: u64,
        layout: &FileLayout,
        unstable: &Unstable,
    ) -> Result<bool> {
        let pairs = layout.map.pairs();
        let wanted = pairs.iter().filter(|pair| unstable.is_at(**pair));
        let syncs = wanted.map(|pair| {
            let object = Object {
                pair: pair.0,
                ino,
                generation: layout.generation,
            };
            self.pairs.sync(self, object)
        });
        let synced = futures_util::future::join_all(syncs).await;
        synced.into_iter().collect::<Result<()>>()?;
        Ok(!unstable.is_forgotten(&self.pairs))
    }

    /// Cuts all objects of a file to what a file of `size` bytes has.
    pub async fn truncate_objects(
        self: &Rc<Self>,
        ino: u64,
        layout: &FileLayout,
        size: u64,
    ) -> Result<()> {
        let cuts = layout.map.pairs().iter().enumerate().map(|(index, pair)| {
            let object = Object {
                pair: pair.0,
                ino,
                generation: layout.generation,
            };
            let length = layout.map.object_length(index, size);
            self.pairs
                .shape(self, object, layout.protocol, Some(length), Vec::new())
        });
        for result in futures_util::future::join_all(cuts).await {
            result?;
        }
        Ok(())
    }

    // ---- what the service tells ----

    /// A request of a group of the metadata service, in order of arrival; must not wait.
    pub fn on_request(self: &Rc<Self>, group: u32, connection: &Connection, request: Request) {
        match request.method {
            RevokeRequest::METHOD => match request.decode::<RevokeRequest>() {
                Ok(revoke) if self.group_of(revoke.ino) != group => {
                    self.answer_other_group(group, &revoke, request.replier);
                }
                Ok(revoke) => self.on_revoke(connection, revoke, request.replier),
                Err(failed) => request.replier.fail(failed),
            },
            PairStates::METHOD => {
                if let Ok(states) = request.decode::<PairStates>() {
                    self.pairs.learn(group, &states.states, &states.members);
                }
            }
            SlotMoved::METHOD => {
                if let Ok(moved) = request.decode::<SlotMoved>() {
                    self.on_slot_moved(group, moved);
                }
            }
            LockFreed::METHOD => {
                if let Ok(freed) = request.decode::<LockFreed>() {
                    self.locks.freed(freed.ino);
                }
            }
            other => request
                .replier
                .fail(Failed::Refused(format!("clients know no method {other}"))),
        }
    }

    /// A group asks for a lease that is not, by what is known here, the inode's: the slot has come there, and
    /// this client has not heard of it. What it has given is not held; but the file may be open here.
    fn answer_other_group(&self, group: u32, revoke: &RevokeRequest, replier: weft_rpc::Replier) {
        tracing::debug!(
            group,
            ino = revoke.ino,
            "not the inode's group asks for a lease"
        );
        let node = self.nodes.get(revoke.ino).filter(|node| node.is_open());
        if let Some(node) = &node
            && revoke.unlinking
        {
            // It is kept until this client says that it has closed it.
            node.state.borrow_mut().orphan = true;
        }
        let reply = RevokeReply {
            open: node.is_some(),
            ..RevokeReply::default()
        };
        replier.send::<RevokeRequest>(&reply, weft_rpc::Payload::none());
    }

    /// Has the face forget an inode. False: as [`crate::Invalidator::inode`].
    pub async fn invalidate(&self, node: &Node) -> bool {
        self.forget_in_face(node, true).await
    }

    /// The same, with the bytes that it has of the inode or without. Without, it waits for nothing that waits for servers.
    pub async fn forget_in_face(&self, node: &Node, data: bool) -> bool {
        let Some(invalidator) = self.invalidator.borrow().clone() else {
            return true;
        };
        let is_dir = {
            let state = node.state.borrow();
            state
                .attr
                .is_none_or(|attr| attr.kind == proto::FileKind::Directory as i32)
        };
        // Of shards it knows nothing.
        let ino = self.spreads.whole(node.ino);
        if is_dir {
            invalidator.names(ino).await;
        }
        invalidator.inode(ino, data).await
    }
}

/// Pause before a lease is asked for again that was not granted.
const DISPUTE_PAUSE: Duration = Duration::from_millis(1);

/// Ranges as messages name them.
pub(crate) fn named(ranges: &RangeSet<u64>) -> Vec<proto::Range> {
    let name = |range: &std::ops::Range<u64>| proto::Range {
        start: range.start,
        end: range.end,
    };
    ranges.iter().map(name).collect()
}

/// Ends a giving back with the answer.
pub(crate) fn answer_revoke(
    node: &Node,
    answers: Vec<weft_rpc::Replier>,
    owed: Option<Setattr>,
    done: bool,
) {
    let reply = {
        let state = node.state.borrow();
        let ranges = state.lease.ranges();
        RevokeReply {
            // What this client takes for kept may have been so for a reign only that ended before the name went. Whoever
            // asks keeps it because of this answer.
            open: node.is_open() || state.orphan,
            owed,
            kept_write: named(&ranges.write),
            kept_read: named(&ranges.read),
            done,
        }
    };
    for replier in answers {
        replier.send::<RevokeRequest>(&reply, weft_rpc::Payload::none());
    }
}
