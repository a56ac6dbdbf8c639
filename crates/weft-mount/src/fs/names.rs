//! Names: looking up, making, removing, renaming, listing.

use super::attributes::taken_in_any_case;
use super::entries::has_aliases;
use super::{Body, Face};
use crate::abi::{Header, Out};
use crate::aliases::{Name, Telling};
use crate::device::DATA_MAX;
use crate::errno;
use crate::translate::*;
use bytes::Bytes;
use std::cell::LazyCell;
use weft_client::*;
use weft_env::Mono;

impl Face {
    pub(super) async fn lookup(&self, header: &Header, name: &Bytes) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let asked = self.env.now();
        if &name[..] == b"." {
            // Of anything, not of directories alone: an NFS server over this mount has its handle, and the kernel does
            // not know it any more. Inode numbers are never used again, so it is the same or is gone.
            let known = client.getattr(parent).await?;
            return Ok(self.entry(&known, None, false).into());
        }
        let found = self
            .as_caller(header, |cred| async move {
                client.lookup(&cred, parent, name).await
            })
            .await?;
        match found.entry {
            Some(known) => {
                let name = self.name(parent, name);
                let leased = found.name_leased;
                self.found((header, asked), name, known, leased).await
            }
            None => {
                self.kernel.ends_pass(header.pid);
                match self.name_validity(found.name_leased) {
                    0 => Err(Errno(libc::ENOENT)),
                    valid => Ok(Out::with_capacity(128).absent_entry(valid).into()),
                }
            }
        }
    }

    /// The entry of what a name, asked for at `asked`, was found to stand for.
    pub(super) async fn found(
        &self,
        (header, asked): (&Header, Mono),
        name: Name,
        mut known: Known,
        mut name_leased: bool,
    ) -> Result<Body> {
        let ino = known.attr.ino;
        if self.kernel.awaits_overwritten(ino).await {
            // Leases may have gone meanwhile.
            (known.leased, name_leased) = (false, false);
        }
        if has_aliases(&known) {
            let renames = LazyCell::new(|| self.kernel.is_renaming(header.pid));
            let renames = || *renames;
            let links = self.other_links(header, &known, &name, renames).await;
            if links.is_some() {
                // As above.
                (known.leased, name_leased) = (false, false);
            }
            let links = links.unwrap_or_default();
            let stands = |other: &Name| self.keeps(other, ino) || links.contains(other);
            let caller = (header.pid, renames);
            let telling = self.kernel.may_tell_name(caller, asked, ino, &name, stands);
            match telling {
                Telling::Entry => {}
                // Linux begins anew, and asks for every name of the path.
                Telling::Again => return Err(errno::ASK_AGAIN),
                Telling::Absent => return Err(Errno(libc::ENOENT)),
            }
        }
        Ok(self.entry(&known, Some(name), name_leased).into())
    }

    /// A name is known, under a lease, to stand for an inode.
    fn keeps(&self, name: &Name, ino: u64) -> bool {
        self.client.keeps_name(name.parent, &name.name, ino)
    }

    /// Those of the other names by which the kernel knows an inode that stand as well. With several links they may, though
    /// no lease says so, and who asks by one of them is not to be sent back for that: the service is asked. None: there was
    /// nothing to ask, or it does not matter since the caller does not rename.
    async fn other_links(
        &self,
        header: &Header,
        known: &Known,
        name: &Name,
        is_renaming: impl Fn() -> Option<bool>,
    ) -> Option<Vec<Name>> {
        if known.attr.nlink < 2 {
            return None;
        }
        let (client, ino) = (&self.client, known.attr.ino);
        let mut others = self.kernel.names_of(ino);
        others.retain(|other| other != name && !self.keeps(other, ino));
        if others.is_empty() || is_renaming() == Some(false) {
            return None;
        }
        let mut standing = Vec::new();
        for other in others {
            let (parent, wanted) = (other.parent, &other.name);
            let found = self.as_caller(header, |cred| async move {
                client.lookup(&cred, parent, wanted).await
            });
            let entry = found.await.ok().and_then(|found| found.entry);
            if entry.is_some_and(|entry| entry.attr.ino == ino) {
                standing.push(other);
            }
        }
        Some(standing)
    }

    pub(super) async fn symlink(
        &self,
        header: &Header,
        name: &Bytes,
        target: &Bytes,
    ) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let made = self
            .as_caller(header, |cred| async move {
                client.symlink(&cred, parent, name, target).await
            })
            .await?;
        Ok(self.made(parent, name, &made))
    }

    pub(super) async fn mknod(
        &self,
        header: &Header,
        name: &Bytes,
        mode: u32,
        rdev: u32,
    ) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let kind = kind_of(mode).ok_or(Errno(libc::EINVAL))?;
        let mode = mode & MODE_BITS;
        let made = self
            .as_caller(header, |cred| async move {
                client.mknod(&cred, parent, name, kind, mode, rdev).await
            })
            .await?;
        Ok(self.made(parent, name, &made))
    }

    pub(super) async fn mkdir(&self, header: &Header, name: &Bytes, mode: u32) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let made = self
            .as_caller(header, |cred| async move {
                client.mkdir(&cred, parent, name, mode & MODE_BITS).await
            })
            .await?;
        Ok(self.made(parent, name, &made))
    }

    pub(super) async fn link(&self, header: &Header, ino: u64, name: &Bytes) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let made = self
            .as_caller(header, |cred| async move {
                client.link(&cred, ino, parent, name).await
            })
            .await?;
        Ok(self.made(parent, name, &taken_in_any_case(made)))
    }

    pub(super) async fn unlink(&self, header: &Header, name: &Bytes) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        self.as_caller(header, |cred| async move {
            client.unlink(&cred, parent, name).await
        })
        .await?;
        Ok(Body::Nothing)
    }

    pub(super) async fn rmdir(&self, header: &Header, name: &Bytes) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        self.as_caller(header, |cred| async move {
            client.rmdir(&cred, parent, name).await
        })
        .await?;
        Ok(Body::Nothing)
    }

    pub(super) async fn rename(
        &self,
        header: &Header,
        name: &Bytes,
        (new_parent, new_name): (u64, &Bytes),
        flags: u32,
    ) -> Result<Body> {
        let (client, parent) = (&self.client, header.node);
        let flags = rename_flags(flags)?;
        self.as_caller(header, |cred| async move {
            client
                .rename(&cred, parent, name, new_parent, new_name, flags)
                .await
        })
        .await?;
        if let Some(moved) = client.named(new_parent, new_name) {
            let (from, to) = (self.name(parent, name), self.name(new_parent, new_name));
            self.kernel.tells_renamed(moved, &from, to);
        }
        Ok(Body::Nothing)
    }

    pub(super) async fn opendir(&self, header: &Header) -> Result<Body> {
        let (client, dir) = (&self.client, header.node);
        let handle = self
            .as_caller(
                header,
                |cred| async move { client.opendir(&cred, dir).await },
            )
            .await?;
        Ok(Out::default().open_out(handle.0, 0).into())
    }

    pub(super) fn releasedir(&self, fh: u64) -> Body {
        if let Some(narrow) = &self.narrow {
            narrow.closed(fh);
        }
        self.client.releasedir(HandleId(fh));
        Body::Nothing
    }

    pub(super) async fn readdir(
        &self,
        dir: u64,
        (fh, offset): (u64, u64),
        size: u32,
        plus: bool,
    ) -> Result<Body> {
        let limit = (size as usize).min(DATA_MAX);
        // As many as fit if their names are short.
        let least = if plus { 160 } else { 32 };
        let after = match &self.narrow {
            Some(narrow) => narrow.cookie(fh, offset),
            None => offset,
        };
        // Linux asks for attributes with the first page of every listing, and with others if the reader has looked at
        // files meanwhile. Who lists a directory that others change wants its names: to ask what its files are like
        // would take them from those who make and remove them.
        let is_asked = plus && (offset > 0 || !self.kernel.is_contended(dir));
        let entries = self
            .client
            .readdir(HandleId(fh), after, limit / least + 1, is_asked)
            .await?;
        let keeps_names = is_asked && self.kernel.may_keep_listed(dir);
        let mut out = Out::with_capacity(limit);
        for entry in &entries {
            let (mode, ino) = (mode_of(entry.kind), self.shown(entry.ino));
            let place = match &self.narrow {
                Some(narrow) => narrow.place(fh, entry.cookie),
                None => entry.cookie,
            };
            let fits = if plus {
                let shown = entry
                    .known
                    .as_ref()
                    .filter(|known| !self.kernel.is_overwritten(known.attr.ino));
                let known = shown.map(|known| {
                    (
                        self.attr_out(&known.attr),
                        self.name_validity(entry.name_leased && keeps_names),
                        self.validity(known.leased),
                    )
                });
                let fits = out.direntplus(
                    ino,
                    place,
                    mode,
                    &entry.name,
                    known
                        .as_ref()
                        .map(|(attr, name, valid)| (attr, *name, *valid)),
                    limit,
                );
                if fits && let Some(known) = shown {
                    self.kernel.told(&known.attr);
                    self.tells_size(known);
                    if has_aliases(known) {
                        let name = Name {
                            parent: dir,
                            name: entry.name.clone(),
                        };
                        self.kernel.tells_name(entry.ino, name);
                    }
                }
                fits
            } else {
                out.dirent(ino, place, mode, &entry.name, limit)
            };
            if !fits {
                break;
            }
        }
        Ok(out.into())
    }
}
