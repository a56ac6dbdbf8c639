//! Delegations: given with an OPEN, given back by DELEGRETURN (RFC 8881, 10.2 and 10.4).

use super::attributes::change_of;
use super::calling::InHands;
use super::compound::Compound;
use super::kept::KeptFile;
use super::opens::{READ, Share, WRITE};
use super::state::{Found, delegation_id};
use super::stateids::{Named, named};
use super::status::Result;
use crate::delegations::{Delegation, Kind};
use crate::files::Use;
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use weft_client::{Attr, Errno, FileLock, LockKind};
use weft_xdr::nfs4::*;

/// An open waits so long for the gateway to have the file alone, which others may have to give back what they have of it
/// for; it is answered without a delegation then. Two ways to the metadata service and to those others take less.
const ALONE_PATIENCE: Duration = Duration::from_millis(500);

/// A client that takes up a file again waits so long for the gateway to have it: a session that has just lost its gateway
/// goes on for 1.5 s.
const AGAIN_PATIENCE: Duration = Duration::from_secs(3);

/// What a client had by way of another gateway that takes up a file again.
pub(super) fn had(claim: &open_claim4) -> Option<Kind> {
    match claim {
        open_claim4::CLAIM_PREVIOUS(open_delegation_type4::OPEN_DELEGATE_READ) => Some(Kind::Read),
        open_claim4::CLAIM_PREVIOUS(open_delegation_type4::OPEN_DELEGATE_WRITE) => {
            Some(Kind::Write)
        }
        _ => None,
    }
}

/// What a client may be given that opens a file so, and wants this of delegations.
fn wished(access: u32, want: u32) -> Option<Kind> {
    match (
        want & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK,
        access & WRITE != 0,
    ) {
        (OPEN4_SHARE_ACCESS_WANT_NO_DELEG | OPEN4_SHARE_ACCESS_WANT_CANCEL, _) => None,
        // Who writes and keeps no more than what he has read is in his own way.
        (OPEN4_SHARE_ACCESS_WANT_READ_DELEG, true) => None,
        (_, true) => Some(Kind::Write),
        // Who wants to write all the same is to open the file for it: then it is asked whether he may.
        (_, false) => Some(Kind::Read),
    }
}

/// Who opens a file once need not have it, and it costs something to give it; unless he says that he wants it.
fn says_what_it_wants(share_access: u32) -> bool {
    share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK != OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE
}

/// Why there is none, for who has asked for one.
fn none(share_access: u32, why: open_none_delegation4) -> open_delegation4 {
    match share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK {
        OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE => open_delegation4::OPEN_DELEGATE_NONE,
        OPEN4_SHARE_ACCESS_WANT_NO_DELEG => open_delegation4::OPEN_DELEGATE_NONE_EXT(
            open_none_delegation4::default(why_no_delegation4::WND4_NOT_WANTED),
        ),
        OPEN4_SHARE_ACCESS_WANT_CANCEL => open_delegation4::OPEN_DELEGATE_NONE_EXT(
            open_none_delegation4::default(why_no_delegation4::WND4_CANCELLED),
        ),
        _ => open_delegation4::OPEN_DELEGATE_NONE_EXT(why),
    }
}

/// A delegation, as the client is told of it. Who may use the file is asked of the gateway.
fn told(given: &Delegation) -> open_delegation4 {
    let stateid = delegation_id(given.client, given.number);
    let permissions = nfsace4 {
        r#type: ACE4_ACCESS_ALLOWED_ACE_TYPE,
        flag: 0,
        access_mask: 0,
        who: Bytes::new(),
    };
    match given.kind {
        Kind::Read => open_delegation4::OPEN_DELEGATE_READ(open_read_delegation4 {
            stateid,
            recall: given.is_asked(),
            permissions,
        }),
        Kind::Write => open_delegation4::OPEN_DELEGATE_WRITE(open_write_delegation4 {
            stateid,
            recall: given.is_asked(),
            // Room is not set aside, so a close is to find out whether there is any: all is to be written by then.
            space_limit: nfs_space_limit4::NFS_LIMIT_SIZE(0),
            permissions,
        }),
    }
}

/// A file that was opened.
pub(super) struct Opened {
    pub ino: u64,
    pub handle: Bytes,
    pub using: Use,
    /// It was made for this: nobody can have locked anything of it.
    pub is_new: bool,
}

impl Compound {
    /// A delegation for who has opened a file, if there is nothing against it: the client can be asked for it, nobody
    /// has the file open or has wanted it lately in a way that does not go with it, and the gateway itself has a lease
    /// that covers it.
    pub(super) async fn delegation(
        &self,
        (share, share_access): (Share, u32),
        opened: Opened,
    ) -> Result<open_delegation4> {
        let client = self.client()?;
        let (state, shared) = (&self.state, &self.caller.shared);
        let resource = open_none_delegation4::WND4_RESOURCE(false);
        let Some(kind) = wished(share.access, share_access).filter(|_| state.can_call(client))
        else {
            return Ok(none(share_access, resource));
        };
        if shared.delegations.of(opened.ino, client).is_some() {
            let upgrade = why_no_delegation4::WND4_NOT_SUPP_UPGRADE;
            return Ok(none(share_access, open_none_delegation4::default(upgrade)));
        }
        let contended = open_none_delegation4::WND4_CONTENTION(false);
        // Asked first, and of all opens: the one after this may be the second.
        let is_again = state.opens_again(client, opened.ino);
        if !is_again && !says_what_it_wants(share_access) {
            return Ok(none(share_access, resource));
        }
        if kind == Kind::Write && !self.is_alone(&opened).await? {
            return Ok(none(share_access, contended));
        }
        let Some(lease) = self.lease(opened.ino).await? else {
            return Ok(none(share_access, contended));
        };
        // Told to the service before the client is: should this gateway die, others wait for the client; and who locks
        // the file elsewhere has the gateway's lease asked back, so that the client tells what it has locked by itself.
        let Some(keeping) = state.keep_file(client, opened.ino, kind).await else {
            return Ok(none(share_access, resource));
        };
        let known = shared.client.getattr(opened.ino).await?;
        // From here on nothing is waited for: it is the lease of before, and there when the file is given.
        if !self.is_free(opened.ino, kind, lease)? {
            return Ok(none(share_access, contended));
        }
        let given = self.give((share, kind), opened, keeping, &known.attr)?;
        Ok(given.map_or_else(|| none(share_access, resource), |given| told(&given)))
    }

    /// Gives a file, of which the service knows that it is kept. None: there is no number left for that.
    fn give(
        &self,
        (share, kind): (Share, Kind),
        opened: Opened,
        keeping: KeptFile,
        attr: &Attr,
    ) -> Result<Option<Rc<Delegation>>> {
        let hands = InHands {
            state: Rc::downgrade(&self.state),
            client: self.client()?,
            number: 0,
            behalf: keeping.behalf,
            ino: opened.ino,
            handle: opened.handle,
            change: change_of(attr),
        };
        let may_read = share.access & READ != 0;
        let of_file = (opened.ino, opened.using);
        let given = self.state.delegate((kind, may_read), of_file, hands);
        Ok(given.inspect(|_| keeping.goes_on()))
    }

    /// The delegation that a client had by way of another gateway, for who has opened the file again. It is not given less:
    /// what the client has locked by itself it tells when it is asked for the file, and not before (Linux takes such locks
    /// for granted while it believes in the delegation, and forgets them with one that it was not given again).
    ///
    /// Others that have it open by way of this gateway have waited for it as long as it was had by way of the other one, and
    /// so they do here: it is asked for it at once.
    ///
    /// # Errors
    /// RECLAIM_BAD: nobody knows that it had it. RECLAIM_CONFLICT: somebody else has come between. DELAY: somebody else's
    /// lease has not ended yet.
    pub(super) async fn delegation_again(
        &self,
        (share, kind): (Share, Kind),
        opened: Opened,
    ) -> Result<open_delegation4> {
        let client = self.client()?;
        let (state, shared) = (&self.state, &self.caller.shared);
        if let Some(given) = shared.delegations.of(opened.ino, client) {
            return Ok(told(&given));
        }
        // As long as the other gateway's session keeps the file, others are kept away.
        if !self.has_lease_again(opened.ino, kind).await? {
            tracing::debug!(
                ino = opened.ino,
                ?kind,
                "a client waits for what it had: the lease is not here yet"
            );
            return Err(nfsstat4::NFS4ERR_DELAY.into());
        }
        let Some(lease) = shared.client.read_lease(opened.ino) else {
            return Err(nfsstat4::NFS4ERR_DELAY.into());
        };
        // The lease may be asked back from now on. It is the client's, and the client is asked for it.
        let noting = shared.delegations.note(opened.ino);
        let keeping = state.keep_file_again(client, opened.ino, kind).await?;
        let known = shared.client.getattr(opened.ino).await?;
        let is_had = !noting.is_over()
            && shared.client.read_lease_until_gone(opened.ino) == Some(lease)
            && (kind == Kind::Read || shared.client.is_alone(opened.ino));
        if !is_had {
            return Err(nfsstat4::NFS4ERR_RECLAIM_CONFLICT.into());
        }
        let is_asked = !self.covers(opened.ino, kind, lease);
        let is_used = is_asked || self.is_used(opened.ino, kind)?;
        let given = self.give((share, kind), opened, keeping, &known.attr)?;
        let given = given.ok_or(nfsstat4::NFS4ERR_RECLAIM_CONFLICT)?;
        if is_used {
            shared.delegations.recall(&given);
        }
        Ok(told(&given))
    }

    async fn has_lease_again(&self, ino: u64, kind: Kind) -> Result<bool> {
        let client = &self.caller.shared.client;
        let having = async {
            let known = client.getattr(ino).await?;
            let is_had = match kind {
                Kind::Read => known.leased,
                Kind::Write => client.owns(ino) || known.leased && client.own(ino).await?,
            };
            Ok::<bool, Errno>(is_had)
        };
        let had = self.state.env.timeout(AGAIN_PATIENCE, having).await;
        Ok(had.unwrap_or(Ok(false))?)
    }

    /// The gateway's lease to read a file. None: it is not given one now.
    async fn lease(&self, ino: u64) -> Result<Option<u64>> {
        let client = &self.caller.shared.client;
        client.getattr(ino).await?;
        Ok(client.read_lease(ino))
    }

    /// Nobody is in the way of giving a file, as far as is known at this moment.
    fn is_free(&self, ino: u64, kind: Kind, lease: u64) -> Result<bool> {
        let delegations = &self.caller.shared.delegations;
        let is_had = delegations.of(ino, self.client()?).is_some();
        let is_free = self.covers(ino, kind, lease) && !self.is_used(ino, kind)?;
        Ok(is_free && !is_had && delegations.may_give(ino, kind))
    }

    /// The gateway has the same lease as before, and that covers what a client is to have of a file.
    fn covers(&self, ino: u64, kind: Kind, lease: u64) -> bool {
        let client = &self.caller.shared.client;
        client.read_lease(ino) == Some(lease) && (kind == Kind::Read || client.owns(ino))
    }

    /// Others have a file open in the way of what a client is to have of it.
    fn is_used(&self, ino: u64, kind: Kind) -> Result<bool> {
        Ok(match kind {
            Kind::Read => self.state.is_written(ino),
            Kind::Write => self.state.is_open_beside(ino, self.client()?),
        })
    }

    /// The gateway has a file alone, and nobody has locked anything of it. It does not ask for that if others use the
    /// file now, so as not to take turns with them.
    async fn is_alone(&self, opened: &Opened) -> Result<bool> {
        let (client, state, shared) = (self.client()?, &self.state, &self.caller.shared);
        let is_in_use = state.is_open_beside(opened.ino, client)
            || !shared.delegations.may_give(opened.ino, Kind::Write);
        if is_in_use {
            return Ok(false);
        }
        if !shared.client.owns(opened.ino) {
            let known = shared.client.getattr(opened.ino).await?;
            let owning = shared.client.own(opened.ino);
            let is_had = known.leased
                && matches!(
                    state.env.timeout(ALONE_PATIENCE, owning).await,
                    Ok(Ok(true))
                );
            if !is_had {
                return Ok(false);
            }
        }
        if opened.is_new {
            return Ok(true);
        }
        // Whoever locks from now on is waited for by the metadata service until the gateway has given up the file.
        let any = FileLock {
            kind: LockKind::Exclusive as i32,
            last: u64::MAX,
            ..FileLock::default()
        };
        Ok(shared.client.getlk(opened.ino, any).await?.is_none())
    }

    /// What an open under a delegation, which the client has, needs no other right for. None: it has it not for that.
    pub(super) fn open_under(&self, id: &stateid4) -> Result<Rc<Delegation>> {
        let Named::Of(name) = named(id, self.current_id.as_ref())? else {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID.into());
        };
        match self.state.find(self.client()?, name)? {
            Found::Delegation(given) => Ok(given),
            _ => Err(nfsstat4::NFS4ERR_BAD_STATEID.into()),
        }
    }

    pub(super) fn delegreturn(&mut self, args: &DELEGRETURN4args) -> Result<()> {
        let ino = self.object(nfsstat4::NFS4ERR_BAD_STATEID)?.ino;
        let Named::Of(name) = named(&args.deleg_stateid, self.current_id.as_ref())? else {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID.into());
        };
        match self.state.find(self.client()?, name)? {
            Found::Delegation(given) if given.ino == ino => {
                self.state.forget_delegation(&given);
                Ok(())
            }
            _ => Err(nfsstat4::NFS4ERR_BAD_STATEID.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wished_goes_with_how_it_is_opened() {
        let wants = [
            (OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE, true, true),
            (OPEN4_SHARE_ACCESS_WANT_READ_DELEG, true, false),
            (OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG, true, true),
            (OPEN4_SHARE_ACCESS_WANT_ANY_DELEG, true, true),
            (OPEN4_SHARE_ACCESS_WANT_NO_DELEG, false, false),
            (OPEN4_SHARE_ACCESS_WANT_CANCEL, false, false),
        ];
        for (want, reading, writing) in wants {
            // What else is said of wants changes nothing.
            for more in [0, OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL] {
                let read = reading.then_some(Kind::Read);
                let write = writing.then_some(Kind::Write);
                assert_eq!(wished(READ, want | more), read);
                assert_eq!(wished(WRITE, want | more), write);
                assert_eq!(wished(READ | WRITE, want | more), write);
            }
            let why = none(want, open_none_delegation4::WND4_CONTENTION(false));
            let is_told = !matches!(why, open_delegation4::OPEN_DELEGATE_NONE);
            assert_eq!(is_told, want != OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE);
        }
    }
}
