//! What a gateway knows of its clients: sessions, opens, locks, and until when.

use super::calling::InHands;
use super::clients::Clients;
use super::kept::Recent;
use super::locks::{Lock, Span};
use super::opens::{Novelty, Open, Opens, Share};
use super::sessions::{Session, SessionId};
use super::stateids::{Name, Named};
use super::waiting::LockWaiters;
use crate::delegations::{Delegation, Delegations, Gift, Kind};
use crate::files::Use;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Client, Cred, Errno, FileLock};
use weft_env::{Env, Mono};
use weft_xdr::nfs4::{
    SEQ4_STATUS_CB_PATH_DOWN_SESSION, SEQ4_STATUS_RECALLABLE_STATE_REVOKED, nfsstat4, stateid4,
};

/// How often it is looked who has not been heard of.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Opens and lock owners of one client at most.
const HELD_MAX: usize = 1 << 16;

/// Everything that a client holds.
#[derive(Default)]
struct Held {
    renewed: Cell<Mono>,
    /// Calls of it that are being done.
    calls: Cell<u32>,
    opens: BTreeMap<u32, (Rc<Open>, Use)>,
    locks: BTreeMap<u32, Rc<Lock>>,
    delegations: BTreeMap<u32, Rc<Delegation>>,
    next: u32,
}

impl Held {
    fn number(&mut self) -> Result<u32, nfsstat4> {
        if self.opens.len() + self.locks.len() + self.delegations.len() >= HELD_MAX {
            return Err(nfsstat4::NFS4ERR_DELAY);
        }
        loop {
            self.next = self.next.wrapping_add(1).max(1);
            let is_taken = self.opens.contains_key(&self.next)
                || self.locks.contains_key(&self.next)
                || self.delegations.contains_key(&self.next);
            if !is_taken {
                return Ok(self.next);
            }
        }
    }
}

/// What a state id stands for.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Open(Rc<Open>),
    Lock(Rc<Lock>),
    Delegation(Rc<Delegation>),
}

impl Found {
    pub(super) fn ino(&self) -> u64 {
        match self {
            Found::Open(open) => open.ino,
            Found::Lock(lock) => lock.open.ino,
            Found::Delegation(delegation) => delegation.ino,
        }
    }
}

/// By what right bytes are read or written.
#[derive(Clone, Debug)]
pub(super) enum Right {
    /// None but the user's own.
    User,
    Open(Rc<Open>),
    Delegation(Rc<Delegation>),
}

/// All that a gateway keeps of clients of version 4.
pub(crate) struct State {
    pub(super) env: Env,
    pub(super) client: Rc<Client>,
    pub(super) lock_waiters: LockWaiters,
    delegations: Rc<Delegations>,
    pub(super) lease: Duration,
    /// Drawn when the gateway started.
    pub(super) instance: u32,
    pub(super) clients: RefCell<Clients>,
    sessions: RefCell<BTreeMap<SessionId, Rc<Session>>>,
    next_session: Cell<u32>,
    held: RefCell<BTreeMap<u64, Held>>,
    opens: RefCell<Opens>,
    pub(super) recent: RefCell<Recent>,
}

/// A call of a client that is being done: as long as there is one, the client has been heard of.
pub(super) struct Heard {
    state: Rc<State>,
    client: u64,
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Some(held) = self.state.held.borrow().get(&self.client) {
            held.calls.set(held.calls.get().saturating_sub(1));
            held.renewed.set(self.state.env.now());
        }
    }
}

impl State {
    pub(crate) fn new(
        env: &Env,
        (client, delegations): (&Rc<Client>, &Rc<Delegations>),
        lease: Duration,
    ) -> Rc<State> {
        let instance = env.random() as u32;
        let state = Rc::new(State {
            env: env.clone(),
            client: client.clone(),
            lock_waiters: LockWaiters::default(),
            delegations: delegations.clone(),
            lease,
            instance,
            clients: RefCell::new(Clients::new(instance)),
            sessions: RefCell::default(),
            next_session: Cell::new(1),
            held: RefCell::default(),
            opens: RefCell::default(),
            recent: RefCell::default(),
        });
        state.watch_sessions();
        let of = Rc::downgrade(&state);
        let env = env.clone();
        state.env.spawn("silent clients", async move {
            loop {
                env.sleep(LOOK_EVERY).await;
                let Some(state) = of.upgrade() else { return };
                state.drop_silent();
            }
        });
        state
    }

    pub(super) fn client(&self) -> &Rc<Client> {
        &self.client
    }

    /// A client holds something here.
    pub(super) fn holds(&self, client: u64) -> bool {
        let held = self.held.borrow();
        let has = held.get(&client);
        has.is_some_and(|held| {
            !held.opens.is_empty() || !held.locks.is_empty() || !held.delegations.is_empty()
        })
    }

    /// A client has sessions.
    pub(super) fn has_sessions(&self, client: u64) -> bool {
        let sessions = self.sessions.borrow();
        sessions.values().any(|session| session.client == client)
    }

    /// How many sessions a client has.
    pub(super) fn sessions_of(&self, client: u64) -> usize {
        let sessions = self.sessions.borrow();
        let of_client = sessions.values().filter(|it| it.client == client);
        of_client.count()
    }

    /// A client was named: from now on it is expected to be heard of.
    pub(super) fn met(&self, client: u64) {
        let mut held = self.held.borrow_mut();
        held.entry(client).or_default().renewed.set(self.env.now());
    }

    /// A call of a client comes.
    pub(super) fn heard(self: &Rc<Self>, client: u64) -> Heard {
        let mut held = self.held.borrow_mut();
        let held = held.entry(client).or_default();
        held.calls.set(held.calls.get() + 1);
        Heard {
            state: self.clone(),
            client,
        }
    }

    /// An id for a new session of a client.
    pub(super) fn session_id(&self, client: u64) -> SessionId {
        let number = self.next_session.get();
        self.next_session.set(number.wrapping_add(1));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&client.to_be_bytes());
        id[8..12].copy_from_slice(&number.to_be_bytes());
        id[12..].copy_from_slice(&(self.env.random() as u32).to_be_bytes());
        id
    }

    pub(super) fn add_session(&self, session: Session) {
        let mut sessions = self.sessions.borrow_mut();
        sessions.insert(session.id, Rc::new(session));
    }

    pub(super) fn session(&self, id: &SessionId) -> Option<Rc<Session>> {
        self.sessions.borrow().get(id).cloned()
    }

    pub(super) fn end_session(&self, id: &SessionId) -> bool {
        self.sessions.borrow_mut().remove(id).is_some()
    }

    /// A client is no more, and nothing that it held.
    pub(super) fn drop_client(self: &Rc<Self>, client: u64) {
        self.clients.borrow_mut().remove(client);
        self.drop_held(client);
    }

    /// Nothing that a client held is left.
    pub(super) fn drop_held(self: &Rc<Self>, client: u64) {
        self.sessions
            .borrow_mut()
            .retain(|_, session| session.client != client);
        let Some(held) = self.held.borrow_mut().remove(&client) else {
            return;
        };
        for (open, _) in held.opens.into_values() {
            self.opens.borrow_mut().close(&open);
            if open.kept_in.get() != 0 {
                let state = self.clone();
                self.env.spawn("drop an open file", async move {
                    state.keep_less(&open, Share::default()).await;
                });
            }
        }
        for delegation in held.delegations.values() {
            self.delegations.returned(delegation);
        }
        for lock in held.locks.into_values() {
            let (client, env) = (self.client.clone(), self.env.clone());
            env.spawn(
                "drop locks",
                async move { unlock_all(&client, &lock).await },
            );
        }
    }

    fn drop_silent(self: &Rc<Self>) {
        let now = self.env.now();
        let held = self.held.borrow();
        let is_silent =
            |held: &Held| held.calls.get() == 0 && now.since(held.renewed.get()) > self.lease;
        let silent = held.iter().filter(|(_, held)| is_silent(held));
        let silent: Vec<u64> = silent.map(|(client, _)| *client).collect();
        drop(held);
        for client in silent {
            if self.holds(client) {
                let lease = self.lease.as_secs();
                tracing::info!(
                    client,
                    lease,
                    "not heard of for its lease: its opens and locks are dropped"
                );
            }
            self.drop_client(client);
        }
    }

    /// Opens a file for an owner, which `using` keeps open, or widens what it has open.
    ///
    /// # Errors
    /// SHARE_DENIED; DELAY: it holds too much, or nothing any more.
    pub(super) fn open(
        &self,
        (client, owner): (u64, &Bytes),
        share: Share,
        (ino, using): (u64, Use),
    ) -> Result<(Rc<Open>, Novelty), nfsstat4> {
        let behalf = self.clients.borrow().behalf(client);
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(&client).ok_or(nfsstat4::NFS4ERR_DELAY)?;
        let number = held.number()?;
        let mut opens = self.opens.borrow_mut();
        let (open, novelty) = opens.open((client, behalf, owner), ino, share, number)?;
        if novelty == Novelty::All {
            held.opens.insert(number, (open.clone(), using));
        }
        Ok((open, novelty))
    }

    /// Undoes an open, as far as it was new.
    pub(super) async fn undo_open(
        &self,
        open: &Open,
        (share, novelty): (Share, Novelty),
    ) -> Result<(), Errno> {
        match novelty {
            Novelty::All => return self.close(open).await,
            Novelty::Part => open.withdraw(share),
            Novelty::None => {}
        }
        Ok(())
    }

    /// All opens of a file.
    pub(super) fn opens_of(&self, ino: u64) -> Vec<Rc<Open>> {
        self.opens.borrow().of(ino)
    }

    /// Opens that the service knew by way of another session than there is now.
    pub(super) fn unsure_opens(&self) -> Vec<Rc<Open>> {
        let held = self.held.borrow();
        let opens = held.values().flat_map(|held| held.opens.values());
        let is_unsure = |open: &Open| {
            let kept_in = open.kept_in.get();
            kept_in != 0 && !open.is_lost.get() && kept_in != self.session_for(open.ino)
        };
        let unsure = opens.map(|(open, _)| open).filter(|open| is_unsure(open));
        unsure.cloned().collect()
    }

    /// Locks that were taken in another session than there is now.
    pub(super) fn unsure_locks(&self) -> Vec<Rc<Lock>> {
        let held = self.held.borrow();
        let locks = held.values().flat_map(|held| held.locks.values());
        locks.filter(|lock| self.is_unsure(lock)).cloned().collect()
    }

    /// Whether somebody denies this to everybody else. `but`: not counting this one.
    pub(super) fn denies(&self, ino: u64, access: u32, but: Option<&Open>) -> bool {
        self.opens.borrow().denies(ino, access, but)
    }

    /// Closes a file. Its locks go with it.
    pub(super) async fn close(&self, open: &Open) -> Result<(), Errno> {
        let locks: Vec<Rc<Lock>> = {
            let held = self.held.borrow();
            let locks = held.get(&open.client).into_iter();
            let locks = locks.flat_map(|held| held.locks.values());
            let of_open = locks.filter(|lock| std::ptr::eq(lock.open.as_ref(), open));
            of_open.cloned().collect()
        };
        for lock in &locks {
            if lock.holds_any() {
                self.unlock(lock, ALL).await?;
            }
        }
        self.opens.borrow_mut().close(open);
        self.keep_less(open, Share::default()).await;
        if let Some(held) = self.held.borrow_mut().get_mut(&open.client) {
            held.opens.remove(&open.number);
            held.locks
                .retain(|_, lock| !std::ptr::eq(lock.open.as_ref(), open));
        }
        Ok(())
    }

    /// What an owner has locked of an open file, if that ever was anything; else room for it, which does not count
    /// before [`State::keep`].
    pub(super) fn lock_of(&self, open: &Rc<Open>, owner: &Bytes) -> Result<Rc<Lock>, nfsstat4> {
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(&open.client).ok_or(nfsstat4::NFS4ERR_DELAY)?;
        let mut locks = held.locks.values();
        let is_meant = |lock: &&Rc<Lock>| Rc::ptr_eq(&lock.open, open) && lock.owner == owner;
        if let Some(lock) = locks.find(is_meant) {
            return Ok(lock.clone());
        }
        let number = held.number()?;
        let lock = Rc::new(Lock::new(number, open, owner, self.session_for(open.ino)));
        held.locks.insert(number, lock.clone());
        Ok(lock)
    }

    /// Forgets what an owner has locked.
    pub(super) fn forget_lock(&self, lock: &Lock) {
        if let Some(held) = self.held.borrow_mut().get_mut(&lock.open.client) {
            held.locks.remove(&lock.number);
        }
    }

    /// An owner, by what the metadata service knows of it.
    pub(super) fn lock_with(&self, ino: u64, hash: u64) -> Option<Rc<Lock>> {
        let held = self.held.borrow();
        let mut locks = held.values().flat_map(|held| held.locks.values());
        let found = locks.find(|lock| lock.open.ino == ino && lock.hash == hash);
        found.cloned()
    }

    /// The session with the part of the metadata service that keeps an inode's locks.
    pub(super) fn session_for(&self, ino: u64) -> u64 {
        self.client.session_of(ino)
    }

    /// Locks of another session than there is now: it will be known soon whether they could be taken over.
    fn is_unsure(&self, lock: &Lock) -> bool {
        let is_here = lock.session.get() == self.session_for(lock.open.ino);
        lock.holds_any() && !lock.is_lost.get() && !is_here
    }

    /// Locks that a client has are the metadata service's, too.
    ///
    /// # Errors
    /// EXPIRED: they are lost. DELAY: that is not known yet.
    pub(super) fn check_lock(&self, lock: &Lock) -> Result<(), nfsstat4> {
        if lock.is_lost.get() {
            return Err(nfsstat4::NFS4ERR_EXPIRED);
        }
        match self.is_unsure(lock) {
            true => Err(nfsstat4::NFS4ERR_DELAY),
            false => Ok(()),
        }
    }

    /// What a client's state id stands for.
    ///
    /// # Errors
    /// BAD_STATEID, OLD_STATEID; EXPIRED: what was opened or locked is lost.
    pub(super) fn find(&self, client: u64, name: Name) -> Result<Found, nfsstat4> {
        let bad = nfsstat4::NFS4ERR_BAD_STATEID;
        if name.client != client {
            return Err(bad);
        }
        let all = self.held.borrow();
        let held = all.get(&client).ok_or(bad)?;
        if let Some((open, _)) = held.opens.get(&name.number) {
            name.check(open.name().seqid)?;
            return match open.is_lost.get() {
                true => Err(nfsstat4::NFS4ERR_EXPIRED),
                false => Ok(Found::Open(open.clone())),
            };
        }
        if let Some(delegation) = held.delegations.get(&name.number) {
            name.check(DELEGATION_SEQID)?;
            if delegation.session != self.session_for(delegation.ino) {
                self.delegations.lost(delegation);
            }
            return match delegation.is_revoked() {
                true => Err(nfsstat4::NFS4ERR_DELEG_REVOKED),
                false => Ok(Found::Delegation(delegation.clone())),
            };
        }
        let lock = held.locks.get(&name.number).ok_or(bad)?;
        name.check(lock.name().seqid)?;
        match lock.is_lost.get() {
            true => Err(nfsstat4::NFS4ERR_EXPIRED),
            false => Ok(Found::Lock(lock.clone())),
        }
    }

    /// Locks that are lost, by their name.
    pub(super) fn lost_lock(&self, name: Name) -> Result<Rc<Lock>, nfsstat4> {
        let all = self.held.borrow();
        let held = all.get(&name.client);
        let lock = held.and_then(|held| held.locks.get(&name.number));
        lock.cloned().ok_or(nfsstat4::NFS4ERR_BAD_STATEID)
    }

    /// By what right a state id lets a file's bytes be read or written.
    ///
    /// # Errors
    /// As [`State::find`]; BAD_STATEID: it is another file's.
    pub(super) fn right(&self, client: u64, named: Named, ino: u64) -> Result<Right, nfsstat4> {
        let Named::Of(name) = named else {
            return Ok(Right::User);
        };
        let found = self.find(client, name)?;
        if found.ino() != ino {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID);
        }
        Ok(match found {
            Found::Open(open) => Right::Open(open),
            Found::Lock(lock) => {
                self.check_lock(&lock)?;
                Right::Open(lock.open.clone())
            }
            Found::Delegation(delegation) => Right::Delegation(delegation),
        })
    }

    /// What a client is told with every call.
    pub(super) fn flags(&self, session: &Session) -> u32 {
        let mut flags = 0;
        self.delegations.revoke_lapsed();
        if session.back.is_down() {
            flags |= SEQ4_STATUS_CB_PATH_DOWN_SESSION;
        }
        let held = self.held.borrow();
        let is_revoked = |held: &Held| held.delegations.values().any(|it| it.is_revoked());
        if held.get(&session.client).is_some_and(is_revoked) {
            flags |= SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
        }
        flags
    }

    /// Gives a file to a client, which `using` keeps open, if it may hold more. `hands`: the way to it; which number it
    /// has there is not yet known.
    pub(super) fn delegate(
        &self,
        (kind, may_read): (Kind, bool),
        (ino, using): (u64, Use),
        mut hands: InHands,
    ) -> Option<Rc<Delegation>> {
        let client = hands.client;
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(&client)?;
        let number = held.number().ok()?;
        hands.number = number;
        let gift = Gift {
            ino,
            client,
            number,
            kind,
            session: self.session_for(ino),
            may_read,
        };
        let delegation = Delegation::new(gift, using, Box::new(hands));
        held.delegations.insert(number, delegation.clone());
        self.delegations.give(&delegation);
        Some(delegation)
    }

    /// A client has a file.
    pub(super) fn has_file(&self, client: u64, ino: u64) -> bool {
        self.delegations.of(ino, client).is_some()
    }

    /// A client has not given back, or lost, what it was given.
    pub(super) fn has_in_hands(&self, client: u64, number: u32) -> bool {
        let held = self.held.borrow();
        let given = held
            .get(&client)
            .and_then(|held| held.delegations.get(&number));
        given.is_some_and(|given| !given.is_revoked())
    }

    /// A client gives a file back, or has learned that it has it no more.
    pub(super) fn forget_delegation(&self, delegation: &Delegation) {
        if let Some(held) = self.held.borrow_mut().get_mut(&delegation.client) {
            held.delegations.remove(&delegation.number);
        }
        self.delegations.returned(delegation);
    }

    /// A client has been told that it has a file no more.
    pub(super) fn forget_revoked(&self, name: Name) {
        if let Some(held) = self.held.borrow_mut().get_mut(&name.client) {
            held.delegations.remove(&name.number);
        }
    }

    /// A session of a client's by which it can be called.
    pub(super) fn session_back(&self, client: u64) -> Option<Rc<Session>> {
        let sessions = self.sessions.borrow();
        let mut of_client = sessions.values().filter(|it| it.client == client);
        of_client.find(|it| it.back.is_up()).cloned()
    }

    /// A client can be called.
    pub(super) fn can_call(&self, client: u64) -> bool {
        self.session_back(client).is_some()
    }

    /// Another client than this one has the file open.
    pub(super) fn is_open_beside(&self, ino: u64, client: u64) -> bool {
        self.opens.borrow().is_open_beside(ino, client)
    }

    /// Somebody has the file open for writing.
    pub(super) fn is_written(&self, ino: u64) -> bool {
        self.opens.borrow().are_writing(ino)
    }

    /// Unlocks, at the metadata service and here.
    pub(super) async fn unlock(&self, lock: &Lock, span: Span) -> Result<(), Errno> {
        unlock(&self.client, lock, span).await?;
        lock.unlocked(span);
        Ok(())
    }
}

/// The name of a delegation, which never changes.
pub(super) fn delegation_id(client: u64, number: u32) -> stateid4 {
    let seqid = DELEGATION_SEQID;
    Name {
        client,
        number,
        seqid,
    }
    .stateid()
}

/// Delegations are given once.
const DELEGATION_SEQID: u32 = 1;

/// All bytes of a file.
const ALL: Span = Span {
    start: 0,
    last: u64::MAX,
};

/// A lock, or its release, as the metadata service knows it.
pub(super) fn file_lock(
    (hash, behalf): (u64, u64),
    span: Span,
    kind: weft_client::LockKind,
) -> FileLock {
    FileLock {
        kind: kind as i32,
        flock: false,
        owner: hash,
        behalf,
        start: span.start,
        last: span.last,
        pid: 0,
    }
}

async fn unlock(client: &Client, lock: &Lock, span: Span) -> Result<(), Errno> {
    let release = file_lock(
        (lock.hash, lock.behalf),
        span,
        weft_client::LockKind::Unlock,
    );
    let done = client
        .setlk(&Cred::default(), lock.open.ino, release, false)
        .await;
    match done {
        // The locks of a file that is gone went with it.
        Err(Errno(libc::ESTALE)) => Ok(()),
        done => done,
    }
}

/// For a client that is no more.
async fn unlock_all(client: &Client, lock: &Lock) {
    if lock.holds_any()
        && let Err(errno) = unlock(client, lock, ALL).await
    {
        let ino = lock.open.ino;
        tracing::warn!(ino, %errno, "locks of a client that is gone stay until this gateway's session ends");
    }
}
