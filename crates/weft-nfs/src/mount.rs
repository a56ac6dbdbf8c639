//! MOUNT, version 3 (RFC 1813, appendix I): the first handle of an export.

use crate::caller::Caller;
use crate::exports::{Origin, names_of};
use crate::gateway::Shared;
use crate::run::run;
use crate::status::Status;
use bytes::Bytes;
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_oncrpc::{Call, Connection, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::mount3::*;
use weft_xdr::nfs3::nfsstat3;
use weft_xdr::rpc::auth_flavor;

/// Mounts that are remembered, for who asks which there are: NFS itself needs none of that.
const MOUNTS_MAX: usize = 10_000;

pub(crate) struct Mount(pub Rc<Shared>);

fn failure(status: Status) -> mountstat3 {
    match status.0 {
        nfsstat3::NFS3ERR_PERM => mountstat3::MNT3ERR_PERM,
        nfsstat3::NFS3ERR_NOENT => mountstat3::MNT3ERR_NOENT,
        nfsstat3::NFS3ERR_ACCES => mountstat3::MNT3ERR_ACCES,
        nfsstat3::NFS3ERR_NOTDIR => mountstat3::MNT3ERR_NOTDIR,
        nfsstat3::NFS3ERR_NAMETOOLONG => mountstat3::MNT3ERR_NAMETOOLONG,
        nfsstat3::NFS3ERR_IO | nfsstat3::NFS3ERR_JUKEBOX => mountstat3::MNT3ERR_IO,
        _ => mountstat3::MNT3ERR_SERVERFAULT,
    }
}

/// Who mounts, for people.
fn host(from: Origin) -> Bytes {
    let shown = from.address.map(|address| address.to_string());
    shown.unwrap_or_else(|| "?".into()).into()
}

async fn mnt(caller: Caller, path: Bytes) -> mountres3 {
    match mounted(&caller, &path).await {
        Ok(handle) => {
            let mount = (host(caller.from), path);
            let mut mounts = caller.shared.mounts.borrow_mut();
            if mounts.len() < MOUNTS_MAX {
                mounts.insert(mount);
            }
            mountres3::MNT3_OK(mountres3_ok {
                fhandle: handle,
                auth_flavors: vec![auth_flavor::AUTH_SYS as i32],
            })
        }
        Err(status) => mountres3::default(failure(status)),
    }
}

async fn mounted(caller: &Caller, path: &[u8]) -> Result<Bytes, Status> {
    let names = names_of(path);
    let denied = Status(nfsstat3::NFS3ERR_ACCES);
    if names.iter().any(|name| name == b"..") {
        // Where it leads only the directories on the way know, and one of them may be anywhere by now.
        return Err(denied);
    }
    let (export, rest) = caller.shared.exports.of_path(&names).ok_or(denied)?;
    let access = export.access(caller.from, &caller.credential);
    let access = access.ok_or(denied)?;
    // Another directory may have this name since it was looked up last.
    let root = caller.shared.directory_of(export).await?;
    export.root.set(root);
    let ino = caller.shared.walk(&access.cred, root, rest).await?;
    Ok(caller.sealed(export.id, ino))
}

impl Mount {
    fn exports(&self, from: Origin) -> Vec<exportnode> {
        let all = self.0.exports.all().iter();
        all.filter(|export| export.is_shown_to(from))
            .map(|export| exportnode {
                ex_dir: export.shown.clone().into(),
                ex_groups: export
                    .groups()
                    .into_iter()
                    .map(|name| groupnode {
                        gr_name: name.into(),
                    })
                    .collect(),
            })
            .collect()
    }

    fn mounts(&self) -> Vec<mountbody> {
        let mounts = self.0.mounts.borrow();
        let bodies = mounts.iter().map(|(host, path)| mountbody {
            ml_hostname: host.clone(),
            ml_directory: path.clone(),
        });
        bodies.collect()
    }

    fn unmount(&self, from: Origin, path: Option<&Bytes>) {
        let host = host(from);
        let is_meant =
            |mount: &(Bytes, Bytes)| mount.0 == host && path.is_none_or(|path| mount.1 == *path);
        self.0.mounts.borrow_mut().retain(|mount| !is_meant(mount));
    }
}

impl Program for Mount {
    fn number(&self) -> u32 {
        MOUNT_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        MOUNT_V3..=MOUNT_V3
    }

    fn call(&self, connection: &Connection, call: Call, replier: Replier) {
        let from = Origin::of(connection.peer());
        match call.procedure {
            MOUNTPROC3_NULL::NUMBER => replier.serve::<MOUNTPROC3_NULL>(call, |()| ()),
            MOUNTPROC3_MNT::NUMBER => run::<MOUNTPROC3_MNT, _>(&self.0, from, call, replier, mnt),
            MOUNTPROC3_DUMP::NUMBER => replier.serve::<MOUNTPROC3_DUMP>(call, |()| self.mounts()),
            MOUNTPROC3_UMNT::NUMBER => {
                replier.serve::<MOUNTPROC3_UMNT>(call, |path| self.unmount(from, Some(&path)));
            }
            MOUNTPROC3_UMNTALL::NUMBER => {
                replier.serve::<MOUNTPROC3_UMNTALL>(call, |()| self.unmount(from, None));
            }
            MOUNTPROC3_EXPORT::NUMBER => {
                replier.serve::<MOUNTPROC3_EXPORT>(call, |()| self.exports(from));
            }
            _ => replier.refuse(Refusal::Procedure),
        }
    }
}
