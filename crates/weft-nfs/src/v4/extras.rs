//! Of minor version 2: SEEK, ALLOCATE, DEALLOCATE, COPY (RFC 7862), and extended attributes (RFC 8276).

use super::compound::Compound;
use super::opens::{READ, WRITE};
use super::stateids::named;
use super::status::Result;
use crate::caller::Object;
use crate::delegations::Changing;
use crate::io::{regular, with_file};
use bytes::Bytes;
use weft_client::{Allocate, Errno, Seek, XattrFlags};
use weft_xdr::Xdr;
use weft_xdr::nfs4::*;

/// Bytes that one COPY copies at most: the client waits for it, and goes on with another one.
const COPY_MAX: u64 = 16 << 20;
/// Extended attributes of users are all that NFS knows; they have this before their names elsewhere.
const USER: &[u8] = b"user.";
/// Bytes of an extended attribute's name, with that.
const XATTR_NAME_MAX: usize = 255;
/// Bytes of its value.
const XATTR_VALUE_MAX: usize = 64 << 10;

fn xattr_name(name: &[u8]) -> Result<Vec<u8>> {
    match name.len() {
        0 => Err(nfsstat4::NFS4ERR_INVAL.into()),
        length if length + USER.len() > XATTR_NAME_MAX => Err(nfsstat4::NFS4ERR_NAMETOOLONG.into()),
        _ if name.contains(&0) => Err(nfsstat4::NFS4ERR_INVAL.into()),
        _ => Ok([USER, name].concat()),
    }
}

impl Compound {
    pub(super) async fn seek(&mut self, args: SEEK4args) -> Result<()> {
        let object = self.bytes_of(&args.sa_stateid, READ).await?;
        let whence = match args.sa_what {
            data_content4::NFS4_CONTENT_DATA => Seek::Data,
            data_content4::NFS4_CONTENT_HOLE => Seek::Hole,
        };
        let client = self.caller.shared.client.clone();
        let found = with_file(&self.caller, object.ino, async |opened| {
            Ok(client.seek(opened.handle(), args.sa_offset, whence).await)
        });
        let found = found.await?;
        let size = client.getattr(object.ino).await?.attr.size;
        let sr_offset = match found {
            Ok(offset) => offset,
            // Nothing of the kind follows.
            Err(Errno(libc::ENXIO)) if args.sa_offset < size => size,
            Err(errno) => return Err(errno.into()),
        };
        seek_res4 {
            sr_eof: sr_offset >= size,
            sr_offset,
        }
        .encode(&mut self.out);
        Ok(())
    }

    async fn allocation(
        &mut self,
        id: &stateid4,
        mode: Allocate,
        (offset, length): (u64, u64),
    ) -> Result<()> {
        let object = self.bytes_of(id, WRITE).await?;
        if length == 0 || offset.checked_add(length).is_none() {
            return Err(nfsstat4::NFS4ERR_INVAL.into());
        }
        let _changing = self.changing(&object).await?;
        let client = self.caller.shared.client.clone();
        let done = with_file(&self.caller, object.ino, async |opened| {
            opened.note_written();
            let handle = opened.handle();
            Ok(client.fallocate(handle, mode, offset, length).await?)
        });
        Ok(done.await?)
    }

    pub(super) async fn allocate(&mut self, args: ALLOCATE4args) -> Result<()> {
        let range = (args.aa_offset, args.aa_length);
        self.allocation(&args.aa_stateid, Allocate::Extend, range)
            .await
    }

    pub(super) async fn deallocate(&mut self, args: DEALLOCATE4args) -> Result<()> {
        let range = (args.da_offset, args.da_length);
        self.allocation(&args.da_stateid, Allocate::PunchHole, range)
            .await
    }

    /// From the saved filehandle's file to the current one's.
    pub(super) async fn copy(&mut self, args: COPY4args) -> Result<()> {
        if !args.ca_source_server.is_empty() {
            return Err(nfsstat4::NFS4ERR_NOTSUPP.into());
        }
        let from = self.saved_object()?;
        let id = named(&args.ca_src_stateid, self.saved_id.as_ref())?;
        regular(&self.caller, &from).await?;
        self.check_bytes(&from, id, READ).await?;
        let to = self.bytes_of(&args.ca_dst_stateid, WRITE).await?;
        regular(&self.caller, &to).await?;
        let _changing = self.changing(&to).await?;
        let client = self.caller.shared.client.clone();
        let size = client.getattr(from.ino).await?.attr.size;
        let end = match args.ca_count {
            0 => Some(size),
            count => args.ca_src_offset.checked_add(count),
        };
        let end = end.filter(|end| *end <= size && args.ca_src_offset <= size);
        let end = end.ok_or(nfsstat4::NFS4ERR_INVAL)?;
        let length = (end - args.ca_src_offset).min(COPY_MAX);
        let copied = with_file(&self.caller, from.ino, async |source| {
            with_file(&self.caller, to.ino, async |target| {
                target.note_written();
                let (source, target) = (source.handle(), target.handle());
                let copied = client.copy_range(
                    source,
                    args.ca_src_offset,
                    target,
                    args.ca_dst_offset,
                    length,
                );
                Ok(copied.await?)
            })
            .await
        });
        let wr_count = copied.await?;
        COPY4resok {
            cr_response: write_response4 {
                wr_callback_id: Vec::new(),
                wr_count,
                wr_committed: stable_how4::UNSTABLE4,
                wr_writeverf: self.caller.shared.verifier.get(),
            },
            cr_requirements: copy_requirements4 {
                cr_consecutive: true,
                cr_synchronous: true,
            },
        }
        .encode(&mut self.out);
        Ok(())
    }

    /// An object is about to be changed: other clients give it back.
    async fn changing(&self, object: &Object) -> Result<Changing> {
        let but = Some(self.client()?);
        Ok(self
            .caller
            .shared
            .delegations
            .change(object.ino, but)
            .await?)
    }

    /// Whose extended attributes are asked for: files' and directories'.
    fn bearer(&self) -> Result<Object> {
        self.object(nfsstat4::NFS4ERR_NOTSUPP)
    }

    pub(super) async fn getxattr(&mut self, args: GETXATTR4args) -> Result<()> {
        let object = self.bearer()?;
        let name = xattr_name(&args.gxa_name)?;
        let client = &self.caller.shared.client;
        let value = client.getxattr(object.cred(), object.ino, &name).await?;
        self.out.opaque(u32::MAX, &value);
        Ok(())
    }

    pub(super) async fn setxattr(&mut self, args: SETXATTR4args) -> Result<()> {
        let object = self.changed()?;
        let name = xattr_name(&args.sxa_key)?;
        if args.sxa_value.len() > XATTR_VALUE_MAX {
            return Err(nfsstat4::NFS4ERR_XATTR2BIG.into());
        }
        let flags = match args.sxa_option {
            setxattr_option4::SETXATTR4_EITHER => XattrFlags::Any,
            setxattr_option4::SETXATTR4_CREATE => XattrFlags::Create,
            setxattr_option4::SETXATTR4_REPLACE => XattrFlags::Replace,
        };
        let _changing = self.changing(&object).await?;
        let client = &self.caller.shared.client;
        let before = self.change_at(object.ino).await;
        // A slice of all that came with it: it would keep that.
        let value = Bytes::copy_from_slice(&args.sxa_value);
        client
            .setxattr(object.cred(), object.ino, &name, value, flags)
            .await?;
        self.change_info(object.ino, before)
            .await
            .encode(&mut self.out);
        Ok(())
    }

    /// Names; a cookie is a place among them.
    pub(super) async fn listxattrs(&mut self, args: LISTXATTRS4args) -> Result<()> {
        let object = self.bearer()?;
        let client = &self.caller.shared.client;
        let all = client.listxattr(object.cred(), object.ino).await?;
        let names = all.iter().filter_map(|name| name.strip_prefix(USER));
        let names: Vec<&[u8]> = names.collect();
        let first = usize::try_from(args.lxa_cookie).unwrap_or(usize::MAX);
        let rest = names.get(first..).ok_or(nfsstat4::NFS4ERR_BAD_COOKIE)?;
        // Cookie, the length of the list, whether it is all.
        let mut room = (args.lxa_maxcount as usize).saturating_sub(8 + 4 + 4);
        let fitting = rest.iter().take_while(|name| {
            let bytes = 4 + name.len().next_multiple_of(4);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let lxr_names: Vec<Bytes> = fitting.map(|name| Bytes::copy_from_slice(name)).collect();
        if lxr_names.is_empty() && !rest.is_empty() {
            return Err(nfsstat4::NFS4ERR_TOOSMALL.into());
        }
        LISTXATTRS4resok {
            lxr_cookie: (first + lxr_names.len()) as u64,
            lxr_eof: lxr_names.len() == rest.len(),
            lxr_names,
        }
        .encode(&mut self.out);
        Ok(())
    }

    pub(super) async fn removexattr(&mut self, args: REMOVEXATTR4args) -> Result<()> {
        let object = self.changed()?;
        let name = xattr_name(&args.rxa_name)?;
        let _changing = self.changing(&object).await?;
        let client = &self.caller.shared.client;
        let before = self.change_at(object.ino).await;
        client.removexattr(object.cred(), object.ino, &name).await?;
        self.change_info(object.ino, before)
            .await
            .encode(&mut self.out);
        Ok(())
    }
}
