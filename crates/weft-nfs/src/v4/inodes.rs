//! GETATTR, SETATTR, VERIFY, NVERIFY, ACCESS.

use super::attributes::{self, Beside, bitmap_of, needs_space, set_of};
use super::compound::Compound;
use super::opens::WRITE;
use super::place::Place;
use super::state::Right;
use super::stateids::named;
use super::status::Result;
use crate::delegations::Kind;
use crate::inodes::{self, rights};
use weft_client::FileKind;
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

/// Rights to extended attributes: those of the file's bytes.
const XATTRS: [(u32, u32); 3] = [
    (ACCESS4_XAREAD, rights::READ),
    (ACCESS4_XALIST, rights::READ),
    (ACCESS4_XAWRITE, rights::MODIFY),
];

impl Compound {
    /// What is told beside an inode, if these attributes are asked for.
    pub(super) async fn beside(&self, asked: &bitmap4) -> Result<Beside> {
        let space = match needs_space(asked) {
            true => Some(self.caller.shared.client.statfs().await?),
            false => None,
        };
        Ok(Beside {
            lease: self.state.lease,
            reach: self.caller.shared.client.reach(),
            space,
        })
    }

    pub(super) async fn getattr(&mut self, args: GETATTR4args) -> Result<()> {
        attributes::check_told(&args.attr_request)?;
        let subject = self.caller.subject_at(self.place()?).await?;
        let beside = self.beside(&args.attr_request).await?;
        attributes::encode(&args.attr_request, &subject, &beside, &mut self.out);
        Ok(())
    }

    pub(super) async fn verify(&mut self, theirs: &fattr4, is_to_fit: bool) -> Result<()> {
        let subject = self.caller.subject_at(self.place()?).await?;
        let beside = self.beside(&theirs.attrmask).await?;
        let fits = attributes::are(theirs, &subject, &beside)?;
        match (fits, is_to_fit) {
            (false, true) => Err(nfsstat4::NFS4ERR_NOT_SAME.into()),
            (true, false) => Err(nfsstat4::NFS4ERR_SAME.into()),
            _ => Ok(()),
        }
    }

    pub(super) async fn setattr(&mut self, args: SETATTR4args) -> Result<()> {
        let object = self.changed()?;
        let mut set = set_of(&args.obj_attributes)?;
        let mut attrmask = args.obj_attributes.attrmask;
        let mut is_open = false;
        if set.mode.is_some() {
            let known = self.caller.shared.client.getattr(object.ino).await?;
            if known.attr.kind() == FileKind::Symlink {
                // Everybody may do everything with a symbolic link: its mode means nothing, and stays.
                set.mode = None;
                attrmask = without(&attrmask, FATTR4_MODE);
            }
        }
        if set.size.is_some() {
            let id = named(&args.stateid, self.current_id.as_ref())?;
            let right = self.state.right(self.client()?, id, object.ino)?;
            let known = self.caller.shared.client.getattr(object.ino).await?;
            match known.attr.kind() {
                FileKind::Regular => {}
                FileKind::Directory => return Err(nfsstat4::NFS4ERR_ISDIR.into()),
                _ => return Err(nfsstat4::NFS4ERR_INVAL.into()),
            }
            let open = match &right {
                Right::User => None,
                Right::Open(open) if open.may(WRITE) => Some(open.as_ref()),
                Right::Delegation(given) if given.kind == Kind::Write => None,
                _ => return Err(nfsstat4::NFS4ERR_OPENMODE.into()),
            };
            if self.state.denies(object.ino, WRITE, open) {
                return Err(nfsstat4::NFS4ERR_LOCKED.into());
            }
            is_open = !matches!(right, Right::User);
        }
        let client = Some(self.client()?);
        let delegations = &self.caller.shared.delegations;
        let _changing = delegations.change(object.ino, client).await?;
        inodes::set(&self.caller, &object, set, is_open).await?;
        let out = &mut self.out;
        out.vec(u32::MAX, &attrmask, |out, word| out.u32(*word));
        Ok(())
    }

    pub(super) async fn access(&mut self, args: ACCESS4args) -> Result<()> {
        let mut known = rights::READ
            | rights::LOOKUP
            | rights::MODIFY
            | rights::EXTEND
            | rights::DELETE
            | rights::EXECUTE;
        if self.minor > 1 {
            known |= ACCESS4_XAREAD | ACCESS4_XAWRITE | ACCESS4_XALIST;
        }
        let supported = args.access & known;
        let access = match self.place()? {
            Place::Way(_) => supported & (rights::READ | rights::LOOKUP),
            Place::Object(object) => {
                let mut asked = supported;
                for (of_xattrs, of_bytes) in XATTRS {
                    if supported & of_xattrs != 0 {
                        asked |= of_bytes;
                    }
                }
                let may = inodes::allowed(&self.caller, object, asked & ACCESS_BITS).await?;
                let of_xattrs = XATTRS.iter().filter(|(_, of_bytes)| may & of_bytes != 0);
                of_xattrs.fold(may, |may, (of_xattrs, _)| may | of_xattrs) & supported
            }
        };
        ACCESS4resok { supported, access }.encode(&mut self.out);
        Ok(())
    }
}

/// Rights that all versions know.
const ACCESS_BITS: u32 = 0x3f;

fn without(bitmap: &bitmap4, number: u32) -> bitmap4 {
    let numbers = (0..96).filter(|it| *it != number && attributes::has(bitmap, *it));
    bitmap_of(numbers)
}

/// The attributes that were set with a file's creation, as a bitmap.
pub(super) fn with(one: &bitmap4, other: &bitmap4) -> bitmap4 {
    let numbers = (0..96).filter(|it| attributes::has(one, *it) || attributes::has(other, *it));
    bitmap_of(numbers)
}
