//! Delegations, for reading: given with an OPEN, given back by DELEGRETURN (RFC 8881, 10.2 and 10.4).

use super::compound::Compound;
use super::opens::{Share, WRITE};
use super::state::{Found, delegation_id};
use super::stateids::{Named, named};
use super::status::Result;
use crate::files::Use;
use bytes::Bytes;
use weft_xdr::nfs4::*;

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

impl Compound {
    /// A delegation for who has opened a file for reading, if there is nothing against it: the client can be asked for
    /// it, nobody has the file open for writing or has changed it lately, and the gateway itself has a lease on it.
    pub(super) async fn delegation(
        &self,
        (share, share_access): (Share, u32),
        (ino, handle, using): (u64, Bytes, Use),
    ) -> Result<open_delegation4> {
        let client = self.client()?;
        let (state, shared) = (&self.state, &self.caller.shared);
        let wanted = share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
        let is_refused = matches!(
            wanted,
            OPEN4_SHARE_ACCESS_WANT_NO_DELEG | OPEN4_SHARE_ACCESS_WANT_CANCEL
        );
        let resource = open_none_delegation4::WND4_RESOURCE(false);
        if is_refused || share.access & WRITE != 0 || !state.can_call(client) {
            return Ok(none(share_access, resource));
        }
        let known = shared.client.getattr(ino).await?;
        // From here on nothing is waited for: the lease is there when the file is given.
        let may_give = known.leased
            && shared.delegations.may_give(ino)
            && !state.is_written(ino)
            && shared.delegations.of(ino, client).is_none();
        if !may_give {
            let contended = open_none_delegation4::WND4_CONTENTION(false);
            return Ok(none(share_access, contended));
        }
        let Some(given) = state.delegate(client, (ino, using), &handle) else {
            return Ok(none(share_access, resource));
        };
        Ok(open_delegation4::OPEN_DELEGATE_READ(
            open_read_delegation4 {
                stateid: delegation_id(client, given.number),
                recall: false,
                // Who may read it is asked of the gateway.
                permissions: nfsace4 {
                    r#type: ACE4_ACCESS_ALLOWED_ACE_TYPE,
                    flag: 0,
                    access_mask: 0,
                    who: Bytes::new(),
                },
            },
        ))
    }

    /// An open under a delegation, which the client has.
    pub(super) fn check_delegation(&self, id: &stateid4) -> Result<()> {
        let Named::Of(name) = named(id, self.current_id.as_ref())? else {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID.into());
        };
        match self.state.find(self.client()?, name)? {
            Found::Delegation(_) => Ok(()),
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
