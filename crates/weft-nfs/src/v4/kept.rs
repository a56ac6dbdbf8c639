//! What the metadata service knows of opens and locks, so that it outlives this gateway, or this gateway's session: all
//! locks, and those opens that deny others something, or that the gateway has no lease for. Who opens a file under the
//! gateway's lease and denies nothing is in nobody's way; before that lease is given back the service is told of it
//! (`docs/protocols/nfs4.md`, "When a gateway dies").

use super::locks::{Lock, Span, owner_hash};
use super::opens::{Open, Share};
use super::state::{State, file_lock};
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Errno, LockKind, SetOpen};
use weft_xdr::nfs4::nfsstat4;

/// How often it is looked whether the session with the metadata service is another one.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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

impl State {
    /// An open that was noted here is told to the service, if others have to know of it.
    ///
    /// # Errors
    /// SHARE_DENIED: somebody at another gateway has it open in a way that excludes this. RECLAIM_CONFLICT, RECLAIM_BAD:
    /// the same, and what is to be reclaimed is not there.
    pub(super) async fn keep_open(&self, open: &Open, reclaim: bool) -> Result<(), nfsstat4> {
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
        match self.client().set_open(said(open, share, reclaim)).await {
            Ok(()) => Ok(()),
            Err(errno) => {
                open.kept_in.set(before);
                Err(match (errno, reclaim) {
                    (Errno(libc::EAGAIN), false) => nfsstat4::NFS4ERR_SHARE_DENIED,
                    (Errno(libc::EAGAIN), true) => nfsstat4::NFS4ERR_RECLAIM_CONFLICT,
                    (Errno(libc::ENOENT), _) => nfsstat4::NFS4ERR_RECLAIM_BAD,
                    (Errno(libc::ESTALE), _) => nfsstat4::NFS4ERR_STALE,
                    (Errno(libc::ENOLCK), _) => nfsstat4::NFS4ERR_SERVERFAULT,
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

    /// Takes over a file without a name, that is kept for who had it open by way of another gateway.
    ///
    /// # Errors
    /// The file is gone.
    pub(super) async fn take_over(
        &self,
        (behalf, owner): (u64, &[u8]),
        ino: u64,
        share: Share,
    ) -> Result<(), Errno> {
        let open = SetOpen {
            ino,
            owner: owner_hash(behalf, owner),
            behalf,
            access: share.access,
            deny: share.deny,
            kept: 0,
            reclaim: true,
        };
        self.client().set_open(open).await
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
                if let Err(status) = state.keep_open(&open, false).await {
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
