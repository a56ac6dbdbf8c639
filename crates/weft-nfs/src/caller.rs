//! Who calls, and what his handles stand for.

use crate::exports::{Access, Export, Origin};
use crate::files::root;
use crate::gateway::Shared;
use crate::handle::{FileHandle, HandleError, Rights};
use crate::status::Status;
use bytes::Bytes;
use std::rc::Rc;
use weft_client::{Attr, Cred, Time};
use weft_oncrpc::Credential;
use weft_xdr::nfs3::{nfs_fh3, nfsstat3};

/// Directories on the way up from one to its export's, at most: as many as a path has names.
const DEPTH_MAX: usize = 2048;

/// A call's side of things, for as long as it is served.
#[derive(Clone)]
pub(crate) struct Caller {
    pub shared: Rc<Shared>,
    pub from: Origin,
    pub credential: Credential,
    /// The client of version 4 that calls, in a session.
    pub client: Option<u64>,
}

/// The sessions with the metadata service by which a change began.
pub(crate) struct Began(Vec<(u32, u64)>);

/// What a handle stands for, and what its bearer may do with it.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub export: u32,
    pub ino: u64,
    /// The export's directory.
    pub root: u64,
    pub access: Access,
}

impl Object {
    pub(crate) fn cred(&self) -> &Cred {
        &self.access.cred
    }

    /// Refuses changes where none may be made.
    pub(crate) fn check_writable(&self) -> Result<(), Status> {
        match self.access.read_only {
            true => Err(Status(nfsstat3::NFS3ERR_ROFS)),
            false => Ok(()),
        }
    }
}

impl Caller {
    /// What a handle stands for.
    ///
    /// # Errors
    /// BADHANDLE: it is none. ACCES: who calls may not have it. STALE: it is not exported any more.
    pub(crate) async fn object(&self, handle: &nfs_fh3) -> Result<Object, Status> {
        let file = self.shared.sealer.open_file(&handle.data);
        let file = file.map_err(|error| match error {
            HandleError::Key(_) => Status(nfsstat3::NFS3ERR_STALE),
            _ => Status(nfsstat3::NFS3ERR_BADHANDLE),
        })?;
        let export = self.shared.exports.find(file.export);
        let export = export.ok_or(Status(nfsstat3::NFS3ERR_STALE))?;
        let access = export.access(self.from, &self.credential);
        let access = access.ok_or(Status(nfsstat3::NFS3ERR_ACCES))?;
        let root = self.root_of(export).await?;
        Ok(Object {
            export: file.export,
            ino: file.inode,
            root,
            access,
        })
    }

    /// As [`Caller::object`], for a change.
    pub(crate) async fn changed(&self, handle: &nfs_fh3) -> Result<Object, Status> {
        let object = self.object(handle).await?;
        object.check_writable()?;
        Ok(object)
    }

    /// A change is about to be asked for.
    pub(crate) fn begin(&self) -> Began {
        Began(self.shared.client.sessions())
    }

    /// A change that has failed by EIO may have been done all the same: the session ended by which it was asked for. The
    /// client is to ask again. What it is told then of what was done (that there is no such name, or that there is one
    /// already) is what servers tell that have started again since.
    pub(crate) fn is_in_doubt(&self, began: &Began) -> bool {
        self.shared.client.sessions() != began.0
    }

    /// Does a change of names or attributes.
    ///
    /// # Errors
    /// As of the change; JUKEBOX: nobody knows whether it was done ([`Caller::is_in_doubt`]).
    pub(crate) async fn change<T>(
        &self,
        change: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let began = self.begin();
        match change.await {
            Err(Status(nfsstat3::NFS3ERR_IO)) if self.is_in_doubt(&began) => {
                Err(Status(nfsstat3::NFS3ERR_JUKEBOX))
            }
            done => done,
        }
    }

    /// The inode of an export's directory.
    pub(crate) async fn root_of(&self, export: &Export) -> Result<u64, Status> {
        if export.root.get() == 0 {
            let found = self.shared.directory_of(export).await?;
            export.root.set(found);
        }
        Ok(export.root.get())
    }

    /// What was found in a directory, as a thing of the innermost export that has it: a directory that is an export of its
    /// own is had by that one's rules, whichever way leads to it.
    ///
    /// # Errors
    /// ACCES: who calls may not have that export.
    pub(crate) async fn found_in(&self, dir: &Object, ino: u64) -> Result<Object, Status> {
        for inner in self.shared.exports.within(dir.export) {
            // One that is not there yet has nothing.
            if self.root_of(inner).await.is_ok_and(|root| root == ino) {
                return self.top_of(inner);
            }
        }
        Ok(Object { ino, ..dir.clone() })
    }

    /// The directory of an export whose inode is known.
    ///
    /// # Errors
    /// ACCES: who calls may not have it.
    pub(crate) fn top_of(&self, export: &Export) -> Result<Object, Status> {
        let access = export.access(self.from, &self.credential);
        let access = access.ok_or(Status(nfsstat3::NFS3ERR_ACCES))?;
        let root = export.root.get();
        Ok(Object {
            export: export.id,
            ino: root,
            root,
            access,
        })
    }

    /// The directory above one that is not its export's own.
    ///
    /// # Errors
    /// NOENT: it is not in its export any more, so that nothing above it is shown. ACCES and others of a lookup.
    pub(crate) async fn parent_of(&self, dir: &Object) -> Result<Object, Status> {
        let outside = Status(nfsstat3::NFS3ERR_NOENT);
        let client = &self.shared.client;
        let found = client.lookup(dir.cred(), dir.ino, b"..").await?;
        let parent = found.entry.ok_or(outside)?.attr.ino;
        // A handle is good wherever its directory is moved; the way up is not.
        let mut at = parent;
        for _ in 0..DEPTH_MAX {
            if at == dir.root {
                return Ok(Object {
                    ino: parent,
                    ..dir.clone()
                });
            }
            if at == client.root() {
                break;
            }
            let above = client.lookup(&root(), at, b"..").await?;
            at = above.entry.ok_or(outside)?.attr.ino;
        }
        Err(outside)
    }

    /// Attributes of an inode as this caller is told them: with what another client keeps of it unwritten.
    ///
    /// # Errors
    /// JUKEBOX: that client is still writing it back. ESTALE and others: there is no such inode.
    pub(crate) async fn attr(&self, ino: u64) -> Result<Attr, Status> {
        let delegations = &self.shared.delegations;
        // Asked first: what is written back after that shows in what is known.
        let kept = delegations.kept(ino, self.client).await?;
        let mut attr = self.shared.client.getattr(ino).await?.attr;
        let Some(kept) = kept.filter(|kept| kept.is_changed || kept.size > attr.size) else {
            return Ok(attr);
        };
        // RFC 8881, 10.4.3: it changes there, for all that is known, at this moment.
        let wall = self.shared.env.wall();
        let now = Some(Time {
            seconds: wall.seconds(),
            nanos: wall.subsecond_nanos(),
        });
        attr.size = attr.size.max(kept.size);
        (attr.mtime, attr.ctime) = (now, now);
        Ok(attr)
    }

    /// The same, of what has come with a name.
    pub(crate) async fn attr_now(&self, known: Attr) -> Result<Attr, Status> {
        match self.shared.delegations.are_kept(known.ino, self.client) {
            true => self.attr(known.ino).await,
            false => Ok(known),
        }
    }

    /// The handle of another file of an object's export.
    pub(crate) fn handle(&self, beside: &Object, ino: u64) -> nfs_fh3 {
        nfs_fh3 {
            data: self.sealed(beside.export, ino),
        }
    }

    /// The bytes of a handle.
    pub(crate) fn sealed(&self, export: u32, ino: u64) -> Bytes {
        // What may be done is asked with each call: the rules of an export may change while clients have handles.
        let rights = Rights {
            read: true,
            write: true,
            sync: false,
        };
        self.shared.sealer.seal_file(&FileHandle {
            export,
            inode: ino,
            generation: 0,
            rights,
        })
    }
}
