//! LOCK, LOCKT, LOCKU, TEST_STATEID, FREE_STATEID. Locks are the metadata service's: they hold at all gateways and
//! mounts.

use super::compound::Compound;
use super::locks::{Lock, Span, owner_hash};
use super::opens::{READ, WRITE};
use super::state::{Found, file_lock};
use super::stateids::{Named, named};
use super::status::{Fail, Result};
use crate::caller::Object;
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Errno, FileKind, FileLock, LockKind};
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

/// Who says that he would wait for a lock waits here for so long before he is refused, and is told when it is free
/// (`waiting.rs`): most locks are held for less, and cost one call then.
const WAIT: Duration = Duration::from_secs(2);
/// Who cannot be called waits here longer, and asks again: clients let seconds pass between one attempt and the next.
/// Calls may take that long: clients wait a minute and more for each.
const WAIT_UNTOLD: Duration = Duration::from_secs(10);

fn kind_of(r#type: nfs_lock_type4) -> LockKind {
    match r#type {
        nfs_lock_type4::READ_LT | nfs_lock_type4::READW_LT => LockKind::Shared,
        nfs_lock_type4::WRITE_LT | nfs_lock_type4::WRITEW_LT => LockKind::Exclusive,
    }
}

impl Compound {
    async fn lockable(&self) -> Result<Object> {
        let object = self.object(nfsstat4::NFS4ERR_ISDIR)?;
        let known = self.caller.shared.client.getattr(object.ino).await?;
        match known.attr.kind() {
            FileKind::Regular => Ok(object),
            FileKind::Directory => Err(nfsstat4::NFS4ERR_ISDIR.into()),
            _ => Err(nfsstat4::NFS4ERR_WRONG_TYPE.into()),
        }
    }

    /// What is in the way, as a client is told of it. Whose lock it is only the gateway knows by which it was taken.
    fn denied(&self, ino: u64, other: &FileLock) -> Fail {
        let span = Span {
            start: other.start,
            last: other.last,
        };
        let holder = self.state.lock_with(ino, other.owner);
        let owner = match holder {
            Some(lock) => lock_owner4 {
                clientid: lock.open.client,
                owner: lock.owner.clone(),
            },
            None => lock_owner4 {
                clientid: 0,
                owner: Bytes::copy_from_slice(&other.owner.to_be_bytes()),
            },
        };
        Fail::Denied(Box::new(LOCK4denied {
            offset: span.start,
            length: span.length(),
            locktype: match other.kind == LockKind::Shared as i32 {
                true => nfs_lock_type4::READ_LT,
                false => nfs_lock_type4::WRITE_LT,
            },
            owner,
        }))
    }

    /// The state that a LOCK is to be noted in. True: it was made for this.
    fn locker(&self, object: &Object, locker: &locker4) -> Result<(Rc<Lock>, bool)> {
        let client = self.client()?;
        let bad = Fail::from(nfsstat4::NFS4ERR_BAD_STATEID);
        let id = match locker {
            locker4::TRUE(new) => &new.open_stateid,
            locker4::FALSE(known) => &known.lock_stateid,
        };
        let Named::Of(name) = named(id, self.current_id.as_ref())? else {
            return Err(bad);
        };
        let found = self.state.find(client, name)?;
        if let Found::Lock(lock) = &found {
            self.state.check_lock(lock)?;
        }
        if found.ino() != object.ino {
            return Err(bad);
        }
        match (locker, found) {
            (locker4::TRUE(new), Found::Open(open)) => {
                let lock = self.state.lock_of(&open, &new.lock_owner.owner)?;
                let is_new = lock.name().seqid == 0;
                self.state.check_lock(&lock)?;
                Ok((lock, is_new))
            }
            (locker4::FALSE(_), Found::Lock(lock)) => Ok((lock, false)),
            _ => Err(bad),
        }
    }

    pub(super) async fn lock(&mut self, args: LOCK4args) -> Result<()> {
        let object = self.lockable().await?;
        let span = Span::of(args.offset, args.length)?;
        if !args.reclaim {
            self.check_reclaimed()?;
        }
        let (lock, is_new) = self.locker(&object, &args.locker)?;
        let delegations = &self.caller.shared.delegations;
        delegations.note_heard(object.ino, lock.open.client);
        let kind = kind_of(args.locktype);
        let needs = match kind {
            LockKind::Exclusive => WRITE,
            _ => READ,
        };
        let taken = match lock.open.may(needs) {
            true if args.reclaim => self.take_again(&lock, span, kind).await,
            true => {
                // Who has opened a file before another one had it has waited for nothing yet.
                let asked = delegations.lock(object.ino, Some(lock.open.client), needs == WRITE);
                match asked.await {
                    Ok(()) => self.take(&object, &lock, span, args.locktype).await,
                    Err(status) => Err(status.into()),
                }
            }
            false => Err(nfsstat4::NFS4ERR_OPENMODE.into()),
        };
        if taken.is_err() && is_new && lock.name().seqid == 0 {
            self.state.forget_lock(&lock);
        }
        taken?;
        let lock_stateid = lock.stateid();
        self.current_id = Some(lock_stateid.clone());
        LOCK4resok { lock_stateid }.encode(&mut self.out);
        Ok(())
    }

    /// Locks what the owner had locked by way of another gateway, which is no more or not to be reached.
    async fn take_again(&self, lock: &Rc<Lock>, span: Span, kind: LockKind) -> Result<()> {
        match self.state.reclaim_lock(lock, span, kind).await {
            Ok(()) => self.taken(lock, span, kind).await,
            // RFC 8881, 8.4.2.1: who has said that he has reclaimed all reclaims nothing any more.
            Err(Errno(libc::ENOENT)) if self.check_reclaimed().is_ok() => {
                Err(nfsstat4::NFS4ERR_NO_GRACE.into())
            }
            Err(Errno(libc::ENOENT)) => Err(nfsstat4::NFS4ERR_RECLAIM_BAD.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The metadata service has locked it.
    async fn taken(&self, lock: &Rc<Lock>, span: Span, kind: LockKind) -> Result<()> {
        lock.session.set(self.state.session_for(lock.open.ino));
        lock.locked(span, kind == LockKind::Exclusive);
        // The client may have been dropped meanwhile, and what it held with it, but not yet this.
        if self.state.find(lock.open.client, lock.name()).is_err() {
            self.state.unlock(lock, span).await?;
            return Err(nfsstat4::NFS4ERR_EXPIRED.into());
        }
        Ok(())
    }

    async fn take(
        &self,
        object: &Object,
        lock: &Rc<Lock>,
        span: Span,
        r#type: nfs_lock_type4,
    ) -> Result<()> {
        let client = &self.caller.shared.client;
        let wanted = file_lock((lock.hash, lock.behalf), span, kind_of(r#type));
        let would_wait = matches!(r#type, nfs_lock_type4::READW_LT | nfs_lock_type4::WRITEW_LT);
        let can_be_told = self.state.can_call(lock.open.client);
        let wait = match can_be_told {
            true => WAIT,
            false => WAIT_UNTOLD,
        };
        let key = (lock.open.client, object.ino, lock.owner.clone());
        let session = self.session.as_ref().filter(|_| would_wait);
        let waits = session.and_then(|session| session.wait());
        let locking = client.setlk(object.cred(), object.ino, wanted, waits.is_some());
        let locked = match self.state.env.timeout(wait, locking).await {
            Ok(locked) => locked,
            Err(_) => Err(Errno(libc::EAGAIN)),
        };
        drop(waits);
        match locked {
            Ok(()) => {}
            Err(Errno(libc::EAGAIN | libc::EACCES)) => {
                let other = client.getlk(object.ino, wanted).await?;
                return Err(match other {
                    Some(other) => {
                        if would_wait && can_be_told {
                            let handle = self.caller.sealed(object.export, object.ino);
                            self.state.watch_lock(key, wanted, handle);
                        }
                        self.denied(object.ino, &other)
                    }
                    // It went just now: to ask again may succeed.
                    None => nfsstat4::NFS4ERR_DELAY.into(),
                });
            }
            Err(errno) => return Err(errno.into()),
        }
        self.state.watch_no_more(&key);
        self.taken(lock, span, kind_of(r#type)).await
    }

    pub(super) async fn lockt(&mut self, args: LOCKT4args) -> Result<()> {
        let object = self.lockable().await?;
        let span = Span::of(args.offset, args.length)?;
        let client = self.client()?;
        // Who has the file locks by himself.
        let delegations = &self.caller.shared.delegations;
        let alone = kind_of(args.locktype) == LockKind::Exclusive;
        delegations.lock(object.ino, Some(client), alone).await?;
        let behalf = self.state.clients.borrow().behalf(client);
        let hash = owner_hash(behalf, &args.owner.owner);
        let wanted = file_lock((hash, behalf), span, kind_of(args.locktype));
        match self.caller.shared.client.getlk(object.ino, wanted).await? {
            Some(other) => Err(self.denied(object.ino, &other)),
            None => Ok(()),
        }
    }

    pub(super) async fn locku(&mut self, args: LOCKU4args) -> Result<()> {
        let object = self.lockable().await?;
        let span = Span::of(args.offset, args.length)?;
        let bad = Fail::from(nfsstat4::NFS4ERR_BAD_STATEID);
        let Named::Of(name) = named(&args.lock_stateid, self.current_id.as_ref())? else {
            return Err(bad);
        };
        let lock = match self.state.find(self.client()?, name)? {
            Found::Lock(lock) if lock.open.ino == object.ino => lock,
            _ => return Err(bad),
        };
        self.state.check_lock(&lock)?;
        self.state.unlock(&lock, span).await?;
        let stateid = lock.stateid();
        self.current_id = Some(stateid.clone());
        stateid.encode(&mut self.out);
        Ok(())
    }

    pub(super) fn test_stateid(&mut self, args: &TEST_STATEID4args) -> Result<()> {
        let client = self.client()?;
        let test = |id: &stateid4| match named(id, None) {
            Ok(Named::Of(name)) => match self.state.find(client, name) {
                Ok(_) => nfsstat4::NFS4_OK,
                Err(status) => status,
            },
            _ => nfsstat4::NFS4ERR_BAD_STATEID,
        };
        let tsr_status_codes = args.ts_stateids.iter().map(test).collect();
        TEST_STATEID4resok { tsr_status_codes }.encode(&mut self.out);
        Ok(())
    }

    pub(super) fn free_stateid(&mut self, args: &FREE_STATEID4args) -> Result<()> {
        let Named::Of(name) = named(&args.fsa_stateid, self.current_id.as_ref())? else {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID.into());
        };
        let lock = match self.state.find(self.client()?, name) {
            Ok(Found::Lock(lock)) if !lock.holds_any() => lock,
            Err(nfsstat4::NFS4ERR_DELEG_REVOKED) => {
                self.state.forget_revoked(name);
                return Ok(());
            }
            Ok(_) => return Err(nfsstat4::NFS4ERR_LOCKS_HELD.into()),
            // Locks that are lost: the client has learned of it.
            Err(nfsstat4::NFS4ERR_EXPIRED) => self.state.lost_lock(name)?,
            Err(status) => return Err(status.into()),
        };
        self.state.forget_lock(&lock);
        Ok(())
    }
}
