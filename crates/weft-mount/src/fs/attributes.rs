//! Attributes, extended ones, and the privileges that a change takes away.

use super::{Body, Face};
use crate::abi::{Header, Out, SetattrIn, fattr};
use crate::errno;
use crate::translate::*;
use bytes::Bytes;
use weft_client::*;

/// Privileges of a program, as an extended attribute.
const CAPABILITY: &[u8] = b"security.capability";

impl Face {
    pub(super) async fn getattr(&self, ino: u64) -> Result<Body> {
        let mut known = self.client.getattr(ino).await?;
        if self.kernel.awaits_overwritten(ino).await {
            // The lease may have gone meanwhile.
            known.leased = false;
        }
        Ok(self.attributes(&known))
    }

    pub(super) async fn setattr(&self, header: &Header, set: &SetattrIn) -> Result<Body> {
        let (client, ino) = (&self.client, header.node);
        let handle = (set.valid & fattr::FH != 0).then_some(HandleId(set.fh));
        let wanted = set_attr(set)?;
        if set.valid & fattr::KILL_SUIDGID != 0 && wanted.mode.is_none() {
            self.kill_suidgid(ino).await?;
        }
        let known = self
            .as_caller(header, |cred| {
                let wanted = wanted.clone();
                async move { client.setattr(&cred, ino, wanted, handle).await }
            })
            .await?;
        self.kernel.told_again(&known.attr);
        Ok(self.attributes(&taken_in_any_case(known)))
    }

    /// Clears set-id bits as a write by an ordinary user does. The kernel has decided that it is to
    /// be done, so that the owner need not be asked.
    /// False: there were none.
    pub(super) async fn kill_suidgid(&self, ino: u64) -> Result<bool> {
        let attr = self.client.getattr(ino).await?.attr;
        let Some(mode) = without_set_id(attr.mode) else {
            return Ok(false);
        };
        let service = Cred::default();
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        self.client.setattr(&service, ino, set, None).await?;
        Ok(true)
    }

    /// The same for a request whose answer tells the kernel of no mode.
    pub(super) async fn lose_suidgid(&self, ino: u64) -> Result<()> {
        if self.kill_suidgid(ino).await? {
            self.kernel.void_attributes(ino);
        }
        Ok(())
    }

    /// A program loses its privileges by a write past the page cache: for others the kernel asks. That a file has no such
    /// attribute is known under its lease.
    pub(super) async fn lose_capability(&self, ino: u64) -> Result<()> {
        let service = Cred::default();
        match self.client.getxattr(&service, ino, CAPABILITY).await {
            Ok(_) => self.client.removexattr(&service, ino, CAPABILITY).await,
            Err(Errno(libc::ENODATA)) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Somebody changes a file in a way of which the kernel does not say that it takes the set-id bits.
    pub(super) async fn changed_by(&self, header: &Header, ino: u64) -> Result<()> {
        if header.uid == 0 {
            return Ok(());
        }
        self.lose_suidgid(ino).await
    }

    pub(super) async fn access(&self, header: &Header, mask: u32) -> Result<Body> {
        let (client, ino) = (&self.client, header.node);
        self.as_caller(header, |cred| async move {
            client.access(&cred, ino, mask).await
        })
        .await?;
        Ok(Body::Nothing)
    }

    pub(super) async fn statfs(&self) -> Result<Body> {
        Ok(statfs_out(&self.client.statfs().await?).into())
    }

    pub(super) async fn setxattr(
        &self,
        header: &Header,
        name: &Bytes,
        value: &Bytes,
        flags: u32,
    ) -> Result<Body> {
        refuse_foreign_attributes(name)?;
        let (client, ino, flags) = (&self.client, header.node, xattr_flags(flags)?);
        self.as_caller(header, |cred| async move {
            client
                .setxattr(&cred, ino, name, value.clone(), flags)
                .await
        })
        .await?;
        Ok(Body::Nothing)
    }

    pub(super) async fn getxattr(&self, header: &Header, name: &Bytes, size: u32) -> Result<Body> {
        refuse_foreign_attributes(name)?;
        let (client, ino) = (&self.client, header.node);
        let value = self
            .as_caller(header, |cred| async move {
                client.getxattr(&cred, ino, name).await
            })
            .await?;
        sized(value, size)
    }

    pub(super) async fn listxattr(&self, header: &Header, size: u32) -> Result<Body> {
        let (client, ino) = (&self.client, header.node);
        let names = self
            .as_caller(
                header,
                |cred| async move { client.listxattr(&cred, ino).await },
            )
            .await?;
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(&name);
            list.push(0);
        }
        sized(list.into(), size)
    }

    pub(super) async fn removexattr(&self, header: &Header, name: &Bytes) -> Result<Body> {
        refuse_foreign_attributes(name)?;
        let (client, ino) = (&self.client, header.node);
        if &name[..] == CAPABILITY {
            // Asked for by who may, or by the kernel for a write, which takes a program its privileges away: that has
            // been decided there.
            client.removexattr(&Cred::default(), ino, name).await?;
            return Ok(Body::Nothing);
        }
        self.as_caller(header, |cred| async move {
            client.removexattr(&cred, ino, name).await
        })
        .await?;
        Ok(Body::Nothing)
    }
}

/// What Linux takes over though it was made to forget since it was told (`fuse_do_setattr`, and `create_new_entry` of a
/// link): others may change the file before that, so that nothing of it may be kept.
pub(super) fn taken_in_any_case(known: Known) -> Known {
    Known {
        leased: false,
        ..known
    }
}

/// A value for a caller with room for `size` bytes; 0 asks how much room it takes.
pub(crate) fn sized(value: Bytes, size: u32) -> Result<Body> {
    if size == 0 {
        return Ok(Out::default().u32(value.len() as u32).u32(0).into());
    }
    if value.len() > size as usize {
        return Err(errno::TOO_SMALL);
    }
    Ok(Body::Parts(vec![value]))
}

fn statfs_out(space: &Space) -> Out {
    // There is no table of inodes that could be full; programs only look whether any are free.
    const INODES_FREE: u64 = 1 << 40;
    let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
    let mut out = Out::default()
        .u64(blocks(space.total_bytes))
        .u64(blocks(space.free_bytes))
        .u64(blocks(space.free_bytes))
        .u64(space.inodes + INODES_FREE)
        .u64(INODES_FREE)
        .u32(STATFS_BLOCK)
        .u32(weft_types::NAME_MAX as u32)
        .u32(STATFS_BLOCK);
    for _ in 0..7 {
        out = out.u32(0);
    }
    out
}

/// The unit in which room is counted.
const STATFS_BLOCK: u32 = 4096;
