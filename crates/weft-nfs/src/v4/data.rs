//! READ, WRITE, COMMIT.

use super::compound::Compound;
use super::opens::{READ, WRITE};
use super::state::Right;
use super::stateids::named;
use super::status::Result;
use crate::caller::Object;
use crate::delegations::Kind;
use crate::io::{self, TRANSFER_MAX};
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

impl Compound {
    /// The file whose bytes are read or written under a state id. Who has it open for that may; with no open at hand
    /// it is asked as version 3 asks.
    pub(super) async fn bytes_of(&self, id: &stateid4, access: u32) -> Result<Object> {
        let object = match access {
            READ => self.object(nfsstat4::NFS4ERR_ISDIR)?,
            _ => self.changed()?,
        };
        let id = named(id, self.current_id.as_ref())?;
        self.check_bytes(&object, id, access).await?;
        Ok(object)
    }

    /// As [`Compound::bytes_of`], of a given file.
    pub(super) async fn check_bytes(
        &self,
        object: &Object,
        id: super::stateids::Named,
        access: u32,
    ) -> Result<()> {
        let right = self.state.right(self.client()?, id, object.ino)?;
        match &right {
            Right::Open(open) if open.may(access) => {}
            // RFC 8881, 9.1.2: who may write only may be let read, too, since his system may have to.
            Right::Open(open) if access == READ && open.may(WRITE) => {
                io::check(&self.caller, object, &[libc::R_OK]).await?;
            }
            Right::Delegation(given) if access == READ && given.may_read => {}
            // It was opened for writing only.
            Right::Delegation(_) if access == READ => {
                io::check(&self.caller, object, &[libc::R_OK, libc::X_OK]).await?;
            }
            Right::Delegation(given) if given.kind == Kind::Write => {}
            Right::Open(_) | Right::Delegation(_) => {
                return Err(nfsstat4::NFS4ERR_OPENMODE.into());
            }
            Right::User if access == READ => {
                io::check(&self.caller, object, &[libc::R_OK, libc::X_OK]).await?;
            }
            Right::User => io::check(&self.caller, object, &[libc::W_OK]).await?,
        }
        let open = match &right {
            Right::Open(open) => Some(open.as_ref()),
            _ => None,
        };
        if self.state.denies(object.ino, access, open) {
            return Err(nfsstat4::NFS4ERR_LOCKED.into());
        }
        let client = self.client()?;
        let delegations = &self.caller.shared.delegations;
        match access {
            READ => delegations.read(object.ino, Some(client)).await?,
            // Others are asked before it is written, and not yet.
            _ => delegations.note_heard(object.ino, client),
        }
        Ok(())
    }

    /// Whether a state id still gives the right that it gave: a write may have waited for longer than a lock was held,
    /// or its client known.
    pub(super) fn still(&self, id: &stateid4, ino: u64) -> Result<impl Fn() -> bool + use<>> {
        let (state, client) = (self.state.clone(), self.client()?);
        let id = named(id, self.current_id.as_ref())?;
        Ok(move || state.right(client, id, ino).is_ok())
    }

    pub(super) async fn read(&mut self, args: READ4args) -> Result<()> {
        let object = self.bytes_of(&args.stateid, READ).await?;
        let read = io::read(&self.caller, object.ino, args.offset, args.count).await?;
        self.out.bool(read.eof);
        self.out.opaque_parts(TRANSFER_MAX, &read.parts);
        Ok(())
    }

    pub(super) async fn write(&mut self, args: WRITE4args) -> Result<()> {
        let object = self.bytes_of(&args.stateid, WRITE).await?;
        if args.offset.checked_add(args.data.len() as u64).is_none() {
            return Err(nfsstat4::NFS4ERR_INVAL.into());
        }
        let mut data = args.data;
        data.truncate(TRANSFER_MAX as usize);
        let is_stable = args.stable != stable_how4::UNSTABLE4;
        let client = Some(self.client()?);
        let delegations = &self.caller.shared.delegations;
        let _changing = delegations.change(object.ino, client).await?;
        let how = (is_stable, self.still(&args.stateid, object.ino)?);
        let count = io::write(&self.caller, object.ino, args.offset, data, how).await?;
        delegations.note_heard(object.ino, self.client()?);
        WRITE4resok {
            count,
            committed: match is_stable {
                true => stable_how4::FILE_SYNC4,
                false => stable_how4::UNSTABLE4,
            },
            writeverf: self.caller.shared.verifier.get(),
        }
        .encode(&mut self.out);
        Ok(())
    }

    pub(super) async fn commit(&mut self) -> Result<()> {
        let object = self.object(nfsstat4::NFS4ERR_ISDIR)?;
        io::regular(&self.caller, &object).await?;
        let (delegations, client) = (&self.caller.shared.delegations, self.client()?);
        delegations.note_heard(object.ino, client);
        io::commit(&self.caller, object.ino).await?;
        delegations.note_heard(object.ino, client);
        let writeverf = self.caller.shared.verifier.get();
        COMMIT4resok { writeverf }.encode(&mut self.out);
        Ok(())
    }
}
