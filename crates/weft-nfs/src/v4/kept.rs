//! What the metadata service knows of opens and locks, so that it outlives this gateway, or this gateway's session: all
//! locks, and those opens that deny others something, or that the gateway has no lease for. Who opens a file under the
//! gateway's lease and denies nothing is in nobody's way; before that lease is given back the service is told of it
//! (`docs/protocols/nfs4.md`, "When a gateway dies").

use super::locks::{Lock, Span, owner_hash};
use super::opens::{Open, Share};
use super::state::{State, file_lock};
use crate::delegations::Kind;
use std::collections::{BTreeSet, VecDeque};
use std::rc::{Rc, Weak};
use std::time::Duration;
use weft_client::{Errno, LockKind, SetOpen};
use weft_xdr::nfs4::nfsstat4;

/// How often it is looked whether the session with the metadata service is another one.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whose delegations are: no owner of opens is called so, for those have no NUL at their end.
const DELEGATION: &[u8] = b"delegation\0";

/// Files that clients have opened lately, at most: for each some 50 bytes.
const RECENT_MAX: usize = 1 << 16;

/// Which files were opened lately, and by which clients.
#[derive(Default)]
pub(super) struct Recent {
    order: VecDeque<(u64, u64)>,
    known: BTreeSet<(u64, u64)>,
}

impl Recent {
    /// A client opens a file. True: it has before, not long ago.
    fn note(&mut self, client: u64, ino: u64) -> bool {
        if !self.known.insert((client, ino)) {
            return true;
        }
        self.order.push_back((client, ino));
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        false
    }
}

/// The service knows that a client keeps a file; it does no more when this is dropped, unless the client has it.
#[must_use]
pub(super) struct KeptFile {
    state: Weak<State>,
    client: u64,
    /// As whom the service knows the client.
    pub behalf: u64,
    ino: u64,
    is_given: bool,
}

impl KeptFile {
    /// The client has the file.
    pub(super) fn goes_on(mut self) {
        self.is_given = true;
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if !self.is_given
            && let Some(state) = self.state.upgrade()
        {
            state.keep_file_no_more((self.client, self.behalf), self.ino);
        }
    }
}

/// What was taken over from another gateway, and is not noted here yet: dropped before, it is given up.
#[must_use]
pub(super) struct TakenOver {
    state: Weak<State>,
    open: SetOpen,
    is_noted: bool,
}

impl TakenOver {
    /// The open is noted here, and known to the service.
    pub(super) fn noted(mut self, open: &Open, session: u64) {
        open.kept_in.set(session);
        self.is_noted = true;
    }
}

impl Drop for TakenOver {
    fn drop(&mut self) {
        let Some(state) = self.state.upgrade().filter(|_| !self.is_noted) else {
            return;
        };
        let nothing = SetOpen {
            access: 0,
            deny: 0,
            reclaim: false,
            ..self.open
        };
        state.env.clone().spawn("given up", async move {
            if let Err(errno) = state.client().set_open(nothing).await {
                tracing::info!(ino = nothing.ino, %errno, "what was given up is kept until this gateway's session ends");
            }
        });
    }
}

/// An open file as the service is told of it. Nothing: it is not open any more.
fn said(open: &Open, share: Share, reclaim: bool) -> SetOpen {
    SetOpen {
        ino: open.ino,
        owner: owner_hash(open.behalf, &open.owner),
        behalf: open.behalf,
        access: share.access,
        deny: share.deny,
        kept: 0,
        reclaim,
    }
}

/// What a client keeps of a file, as the service is told of it. 0: nothing any more.
fn kept_file(behalf: u64, ino: u64, kept: u32) -> SetOpen {
    SetOpen {
        ino,
        owner: owner_hash(behalf, DELEGATION),
        behalf,
        access: 0,
        deny: 0,
        kept,
        reclaim: false,
    }
}

impl State {
    /// An open that was noted here is told to the service, if others have to know of it.
    ///
    /// # Errors
    /// SHARE_DENIED: somebody at another gateway has it open in a way that excludes this.
    pub(super) async fn keep_open(&self, open: &Open) -> Result<(), nfsstat4> {
        let share = open.share();
        let must = share.deny != 0 || open.kept_in.get() != 0;
        if !must {
            // It counts here already: who has the lease is asked for it before anybody denies anything.
            let known = self.client().getattr(open.ino).await;
            if known.is_ok_and(|known| known.leased) && !self.client().is_denied(open.ino) {
                return Ok(());
            }
        }
        let before = open.kept_in.replace(self.session_for(open.ino));
        match self.client().set_open(said(open, share, false)).await {
            Ok(()) => Ok(()),
            Err(errno) => {
                open.kept_in.set(before);
                Err(match errno {
                    Errno(libc::EAGAIN) => nfsstat4::NFS4ERR_SHARE_DENIED,
                    Errno(libc::ESTALE) => nfsstat4::NFS4ERR_STALE,
                    Errno(libc::ENOLCK) => nfsstat4::NFS4ERR_SERVERFAULT,
                    _ => nfsstat4::NFS4ERR_DELAY,
                })
            }
        }
    }

    /// An open is less than it was, or no more: `share` is what is left.
    pub(super) async fn keep_less(&self, open: &Open, share: Share) {
        if open.kept_in.get() == 0 {
            return;
        }
        if share == Share::default() {
            open.kept_in.set(0);
        }
        if let Err(errno) = self.client().set_open(said(open, share, false)).await
            && errno != Errno(libc::ESTALE)
        {
            let ino = open.ino;
            tracing::warn!(ino, %errno, "what an open file denied stays denied until this gateway's session ends");
        }
    }

    /// Somebody opens again, by way of this gateway, what he had open by way of another one. Nothing of the file is looked at
    /// before: it may be kept from all but him, and has perhaps no name any more.
    ///
    /// # Errors
    /// RECLAIM_BAD: what he denied nobody knows of. RECLAIM_CONFLICT: somebody else has come between. STALE.
    pub(super) async fn take_over(
        self: &Rc<Self>,
        (behalf, owner): (u64, &[u8]),
        ino: u64,
        share: Share,
    ) -> Result<TakenOver, nfsstat4> {
        let open = SetOpen {
            ino,
            owner: owner_hash(behalf, owner),
            behalf,
            access: share.access,
            deny: share.deny,
            kept: 0,
            reclaim: true,
        };
        let taken = TakenOver {
            state: Rc::downgrade(self),
            open,
            is_noted: false,
        };
        match self.client().set_open(open).await {
            Ok(()) => Ok(taken),
            Err(Errno(libc::EAGAIN)) => Err(nfsstat4::NFS4ERR_RECLAIM_CONFLICT),
            Err(Errno(libc::ENOENT)) => Err(nfsstat4::NFS4ERR_RECLAIM_BAD),
            Err(Errno(libc::ESTALE)) => Err(nfsstat4::NFS4ERR_STALE),
            Err(_) => Err(nfsstat4::NFS4ERR_DELAY),
        }
    }

    /// A client opens a file that it has opened not long ago.
    pub(super) fn opens_again(&self, client: u64, ino: u64) -> bool {
        self.recent.borrow_mut().note(client, ino)
    }

    /// The service is told that a client keeps a file: if this gateway dies nobody changes it, or looks at it, before
    /// the client has been heard of. None: it cannot be told, or somebody else has locked the file in the way of what the
    /// client may lock by itself.
    pub(super) async fn keep_file(
        self: &Rc<Self>,
        client: u64,
        ino: u64,
        kind: Kind,
    ) -> Option<KeptFile> {
        let (keeping, told) = self.tell_kept((client, ino), kind, false).await;
        match told {
            Ok(()) => Some(keeping),
            Err(errno) => {
                tracing::debug!(client, ino, %errno, "a file is not given to a client");
                None
            }
        }
    }

    /// The same, of a file that the client had by way of another gateway: there nothing is kept for it any more.
    ///
    /// # Errors
    /// RECLAIM_BAD: nobody knows of that. RECLAIM_CONFLICT: somebody else has locked something of it. STALE.
    pub(super) async fn keep_file_again(
        self: &Rc<Self>,
        client: u64,
        ino: u64,
        kind: Kind,
    ) -> Result<KeptFile, nfsstat4> {
        let (keeping, told) = self.tell_kept((client, ino), kind, true).await;
        let Err(errno) = told else {
            return Ok(keeping);
        };
        // What may have been told stays: the client asks again.
        keeping.goes_on();
        Err(match errno {
            Errno(libc::ENOENT) => nfsstat4::NFS4ERR_RECLAIM_BAD,
            Errno(libc::ESTALE) => nfsstat4::NFS4ERR_STALE,
            Errno(libc::EAGAIN) => nfsstat4::NFS4ERR_RECLAIM_CONFLICT,
            _ => nfsstat4::NFS4ERR_DELAY,
        })
    }

    async fn tell_kept(
        self: &Rc<Self>,
        (client, ino): (u64, u64),
        kind: Kind,
        reclaim: bool,
    ) -> (KeptFile, Result<(), Errno>) {
        let kept = match kind {
            Kind::Read => 1,
            Kind::Write => 2,
        };
        let behalf = self.clients.borrow().behalf(client);
        let said = SetOpen {
            reclaim,
            ..kept_file(behalf, ino, kept)
        };
        let keeping = KeptFile {
            state: Rc::downgrade(self),
            client,
            behalf,
            ino,
            is_given: false,
        };
        (keeping, self.client().set_open(said).await)
    }

    /// A client has a file no more.
    pub(super) fn keep_file_no_more(self: &Rc<Self>, (client, behalf): (u64, u64), ino: u64) {
        let said = kept_file(behalf, ino, 0);
        let state = self.clone();
        self.env.spawn("kept no more", async move {
            // Given once more meanwhile, it is kept for that.
            if state.has_file(client, ino) {
                return;
            }
            if let Err(errno) = state.client().set_open(said).await
                && errno != Errno(libc::ESTALE)
            {
                tracing::info!(client, ino, %errno, "a file stays kept for a client until this gateway's session ends");
            }
        });
    }

    /// Locks what the same owner had locked by way of another gateway.
    ///
    /// # Errors
    /// ENOENT: it has not.
    pub(super) async fn reclaim_lock(
        &self,
        lock: &Lock,
        span: Span,
        kind: LockKind,
    ) -> Result<(), Errno> {
        let wanted = file_lock((lock.hash, lock.behalf), span, kind);
        self.client().reclaim_lock(lock.open.ino, wanted).await
    }

    /// The gateway is about to give a lease back: who has the file open is told to the service first, if that can be
    /// asked now.
    pub(crate) async fn before_lease_goes(self: Rc<Self>, ino: u64) {
        let untold = self.opens_of(ino);
        let untold: Vec<Rc<Open>> = untold
            .into_iter()
            .filter(|open| open.kept_in.get() == 0)
            .collect();
        if untold.is_empty() {
            return;
        }
        let can_ask = self.client().can_ask(ino);
        let (state, env) = (self.clone(), self.env.clone());
        let telling = async move {
            for open in untold {
                if let Err(status) = state.keep_open(&open).await {
                    let ino = open.ino;
                    tracing::debug!(ino, ?status, "an open file is not known to the service");
                }
            }
        };
        match can_ask {
            true => telling.await,
            // It is the session that is lost: it is told by way of the next one.
            false => drop(env.spawn("open files", telling)),
        }
    }

    /// Takes over, in a new session with the metadata service, what clients had in one that is over.
    pub(super) fn watch_sessions(self: &Rc<Self>) {
        let (of, env) = (Rc::downgrade(self), self.env.clone());
        self.env.spawn("kept opens and locks", async move {
            let mut known = Vec::new();
            loop {
                env.sleep(LOOK_EVERY).await;
                let Some(state) = of.upgrade() else { return };
                let now = state.client().sessions();
                // Each session's first is nothing new.
                let is_new = known != now;
                known = now;
                if is_new && !state.take_up().await {
                    // Not all could be asked for: again.
                    known = Vec::new();
                }
            }
        });
    }

    /// False: something has to be asked for again.
    async fn take_up(&self) -> bool {
        let mut is_all = true;
        for lock in self.unsure_locks() {
            is_all &= self.take_up_lock(&lock).await;
        }
        for open in self.unsure_opens() {
            is_all &= self.take_up_open(&open).await;
        }
        is_all
    }

    async fn take_up_lock(&self, lock: &Lock) -> bool {
        let session = self.session_for(lock.open.ino);
        if session == 0 {
            return false;
        }
        for (span, is_exclusive) in lock.spans() {
            let kind = match is_exclusive {
                true => LockKind::Exclusive,
                false => LockKind::Shared,
            };
            match self.reclaim_lock(lock, span, kind).await {
                Ok(()) => {}
                Err(Errno(libc::ENOENT | libc::ESTALE)) => {
                    tracing::warn!(
                        ino = lock.open.ino,
                        client = lock.open.client,
                        "locks are lost: the session that held them was over for too long"
                    );
                    lock.is_lost.set(true);
                    return true;
                }
                Err(_) => return false,
            }
        }
        lock.session.set(session);
        true
    }

    async fn take_up_open(&self, open: &Open) -> bool {
        let session = self.session_for(open.ino);
        if session == 0 {
            return false;
        }
        let said = said(open, open.share(), true);
        match self.client().set_open(said).await {
            Ok(()) => open.kept_in.set(session),
            Err(Errno(libc::ENOENT | libc::EAGAIN | libc::ESTALE)) => {
                tracing::warn!(
                    ino = open.ino,
                    client = open.client,
                    "an open file is lost: the session that held it was over for too long"
                );
                open.is_lost.set(true);
            }
            Err(_) => return false,
        }
        true
    }
}
