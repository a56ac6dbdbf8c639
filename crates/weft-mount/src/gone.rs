//! Requests for inodes that are not there (any more): the kernel uses the number of an inode that it has looked up, and that
//! another process, or another mount, may have taken the last name of since (`docs/protocols/leases.md`, "What the kernel
//! still has").
//!
//! The kernel tries again once when it is told ESTALE, and gives that to the program when the name has been replaced
//! again. So ESTALE is looked into here: what lingers is kept from then on and the request done as if it had come before
//! the name went; of what is gone it is said what Linux says of a removed file that somebody holds.

use crate::abi::{Call, Header, Out, fattr};
use crate::fs::{Body, Face, sized};
use crate::translate::set_attr;
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_client::{Attr, Errno, FileKind, HandleId, Known, Result};

/// How often a request is done again whose name stood for another inode each time.
const TRIES: usize = 8;

/// The handle of a directory that was opened after it was removed. The client gives out no such number.
const NOTHING: HandleId = HandleId(u64::MAX);

/// Attributes of inodes that are gone and that the kernel asks for: until it forgets them.
pub(crate) type Ghosts = BTreeMap<u64, Attr>;

/// Why a request met ESTALE.
enum Met {
    /// Nothing of it is gone now.
    Nothing,
    /// The inode is not there, and will not be again.
    Gone(u64),
    /// It is not known what: the number is nobody's, or the service did not say.
    Unknown(Errno),
}

/// A request that may meet an inode that is gone and is not named by a handle.
pub(crate) fn may_meet_gone(call: &Call) -> bool {
    match call {
        // An NFS server over this mount asks whether its handle is good.
        Call::Lookup { name } => &name[..] != b".",
        Call::Read { .. } | Call::Write { .. } | Call::Flush { .. } | Call::Fsync { .. } => false,
        Call::Setlk { .. } | Call::Getlk { .. } | Call::Fallocate { .. } => false,
        Call::Lseek { .. } | Call::CopyFileRange(_) | Call::Statfs => false,
        _ => true,
    }
}

impl Face {
    /// Serves a call.
    /// `is_cached`: a read or write goes by way of the kernel's page cache.
    pub(crate) async fn serve(&self, header: &Header, call: Call, is_cached: bool) -> Result<Body> {
        if matches!(&call, Call::Readdir { fh, .. } if *fh == NOTHING.0) {
            return Err(Errno(libc::ENOENT));
        }
        let again = may_meet_gone(&call).then(|| call.clone());
        match (self.attempt(header, call, is_cached).await, again) {
            (Err(Errno(libc::ESTALE)), Some(call)) => self.look_into(header, call).await,
            (result, _) => result,
        }
    }

    async fn look_into(&self, header: &Header, call: Call) -> Result<Body> {
        let stale = Err(Errno(libc::ESTALE));
        for _ in 0..TRIES {
            match self.met(header, &call).await {
                Met::Nothing => {}
                Met::Gone(ino) => return self.answer_for_gone(header, &call, ino),
                Met::Unknown(errno) => return Err(errno),
            }
            match self.attempt(header, call.clone(), false).await {
                Err(Errno(libc::ESTALE)) => {}
                result => return result,
            }
        }
        stale
    }

    /// What has gone of a request's inodes; what lingers is kept.
    async fn met(&self, header: &Header, call: &Call) -> Met {
        let other = match call {
            Call::Link { ino, .. } => Some(*ino),
            Call::Rename { new_parent, .. } => Some(*new_parent),
            _ => None,
        };
        for ino in std::iter::once(header.node).chain(other) {
            match self.client().getattr(ino).await {
                // A file without a name may be known here, under a lease, and not be kept.
                Ok(known) if known.attr.nlink > 0 => continue,
                Ok(known) if known.attr.kind() == FileKind::Directory => continue,
                Ok(_) | Err(Errno(libc::ESTALE)) => {}
                Err(errno) => return Met::Unknown(errno),
            }
            let Some(told) = self.kernel().known(ino) else {
                // It was looked up by its number.
                return Met::Unknown(Errno(libc::ESTALE));
            };
            if told.is_directory() {
                return Met::Gone(ino);
            }
            self.departures().kept(ino);
            match self.client().keep_nameless(ino).await {
                Ok(()) => {}
                // Its bytes have gone with a session that had ended: to who has it open it is not an empty file.
                Err(Errno(libc::ESTALE)) if self.client().is_open(ino) => {
                    return Met::Unknown(Errno(libc::ESTALE));
                }
                Err(Errno(libc::ESTALE)) => return Met::Gone(ino),
                Err(errno) => return Met::Unknown(errno),
            }
        }
        Met::Nothing
    }

    /// What Linux says of an inode that was removed and is still held.
    fn answer_for_gone(&self, header: &Header, call: &Call, gone: u64) -> Result<Body> {
        match call {
            Call::Getattr { .. } => Ok(self.ghost(gone, |_| Ok(()))?),
            Call::Setattr(set) => {
                // The kernel has checked that the caller may.
                let wanted = set_attr(set)?;
                self.ghost(gone, |attr| {
                    if set.valid & fattr::SIZE != 0 {
                        return Err(Errno(libc::ESTALE));
                    }
                    attr.mode = wanted.mode.unwrap_or(attr.mode);
                    attr.uid = wanted.uid.unwrap_or(attr.uid);
                    attr.gid = wanted.gid.unwrap_or(attr.gid);
                    Ok(())
                })
            }
            Call::Opendir { .. } => Ok(Out::default().open_out(NOTHING.0, 0).into()),
            // In a removed directory there is nothing, and nothing can be made.
            Call::Lookup { .. }
            | Call::Readdir { .. }
            | Call::Create { .. }
            | Call::Mkdir { .. }
            | Call::Mknod { .. }
            | Call::Symlink { .. }
            | Call::Unlink { .. }
            | Call::Rmdir { .. }
            | Call::Rename { .. }
            | Call::Link { .. } => Err(Errno(libc::ENOENT)),
            Call::Access { .. } => Ok(Body::Nothing),
            Call::Listxattr { size } => sized(Bytes::new(), *size),
            Call::Getxattr { .. } => Err(Errno(libc::ENODATA)),
            _ => {
                tracing::debug!(opcode = header.opcode, gone, "asked of what is gone");
                Err(Errno(libc::ESTALE))
            }
        }
    }

    /// The attributes of what is gone, after a change of them.
    fn ghost(&self, ino: u64, change: impl FnOnce(&mut Attr) -> Result<()>) -> Result<Body> {
        let told = self.kernel().known(ino).ok_or(Errno(libc::ESTALE))?;
        let mut ghosts = self.ghosts().borrow_mut();
        let attr = ghosts.entry(ino).or_insert_with(|| {
            let now = Some(self.wall());
            Attr {
                atime: now,
                mtime: now,
                ctime: now,
                ..told.gone(ino)
            }
        });
        change(attr)?;
        let known = Known {
            attr: *attr,
            leased: false,
        };
        drop(ghosts);
        Ok(self.attributes(&known))
    }
}
