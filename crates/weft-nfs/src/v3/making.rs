//! CREATE, MKDIR, SYMLINK, MKNOD.

use crate::attributes::{rdev_of, set_of};
use crate::caller::{Caller, Object};
use crate::inodes::{self, is_made_by, new_file, there, times_of};
use crate::status::Status;
use weft_client::{Attr, Errno, FileKind, SetAttr, SetTime};
use weft_xdr::nfs3::*;

/// What was made: its handle, and its attributes.
type Made = Result<(nfs_fh3, fattr3), Status>;

const INVALID: Status = Status(nfsstat3::NFS3ERR_INVAL);

/// What is set when something is made: the mode with it, the rest after it.
fn split(set: &sattr3) -> Result<(u32, SetAttr), Status> {
    let mut set = set_of(set).ok_or(INVALID)?;
    Ok((set.mode.take().unwrap_or_default(), set))
}

/// Sets the rest.
async fn finish(caller: &Caller, dir: &Object, made: &Attr, set: SetAttr) -> Made {
    let handle = caller.handle(dir, made.ino);
    let Some(set) = inodes::rest_of(made, set) else {
        return Ok((handle, caller.told(made)));
    };
    let object = Object {
        ino: made.ino,
        ..dir.clone()
    };
    let attr = inodes::set(caller, &object, set, false).await?;
    Ok((handle, caller.told(&attr)))
}

pub(super) async fn create(caller: Caller, args: CREATE3args) -> CREATE3res {
    let dir = caller.changed(&args.r#where.dir).await;
    let made = match &dir {
        Ok(dir) => caller.change(created(&caller, dir, &args)).await,
        Err(status) => Err(*status),
    };
    let dir_wcc = caller.wcc_of(&dir).await;
    match made {
        Ok((handle, attributes)) => CREATE3res::NFS3_OK(CREATE3resok {
            obj: Some(handle),
            obj_attributes: Some(attributes),
            dir_wcc,
        }),
        Err(Status(status)) => CREATE3res::default(status, CREATE3resfail { dir_wcc }),
    }
}

async fn created(caller: &Caller, dir: &Object, args: &CREATE3args) -> Made {
    let name = &args.r#where.name;
    match &args.how {
        createhow3::GUARDED(set) => {
            let (mode, set) = split(set)?;
            let made = new_file(caller, dir, name, mode).await?;
            finish(caller, dir, &made, set).await
        }
        createhow3::UNCHECKED(set) => {
            let (mode, set) = split(set)?;
            loop {
                // Asked first, for to open what is there may take more rights than to learn of it.
                if let Some(there) = there(caller, dir, name).await? {
                    return existing(caller, dir, &there, set).await;
                }
                match new_file(caller, dir, name, mode).await {
                    // Somebody else was faster.
                    Err(Errno(libc::EEXIST)) => {}
                    made => return finish(caller, dir, &made?, set).await,
                }
            }
        }
        createhow3::EXCLUSIVE(verifier) => {
            let (atime, mtime) = times_of(*verifier);
            match new_file(caller, dir, name, 0).await {
                Ok(made) => {
                    let set = SetAttr {
                        atime: Some(SetTime::At(atime)),
                        mtime: Some(SetTime::At(mtime)),
                        ..SetAttr::default()
                    };
                    finish(caller, dir, &made, set).await
                }
                Err(Errno(libc::EEXIST)) => {
                    let there = there(caller, dir, name).await?;
                    let attr = there.filter(|attr| is_made_by(attr, *verifier));
                    // Ours, of a call whose answer was lost.
                    let attr = attr.ok_or(Status(nfsstat3::NFS3ERR_EXIST))?;
                    Ok((caller.handle(dir, attr.ino), caller.told(&attr)))
                }
                Err(errno) => Err(errno.into()),
            }
        }
    }
}

/// A file that is there already is cut if that is asked for; all else stays as it is.
async fn existing(caller: &Caller, dir: &Object, there: &Attr, set: SetAttr) -> Made {
    match (there.kind(), set.size) {
        (FileKind::Regular, Some(size)) => {
            let _changing = caller.shared.delegations.change(there.ino, None).await?;
            let cut = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            finish(caller, dir, there, cut).await
        }
        (FileKind::Regular, None) => {
            let attr = caller.attr(there.ino).await?;
            Ok((caller.handle(dir, there.ino), caller.told(&attr)))
        }
        _ => Err(Status(nfsstat3::NFS3ERR_EXIST)),
    }
}

pub(super) async fn mkdir(caller: Caller, args: MKDIR3args) -> MKDIR3res {
    let dir = caller.changed(&args.r#where.dir).await;
    let made = async {
        let dir = dir.as_ref().map_err(|it| *it)?;
        let (mode, set) = split(&args.attributes)?;
        let client = &caller.shared.client;
        let made = client.mkdir(dir.cred(), dir.ino, &args.r#where.name, mode);
        finish(&caller, dir, &made.await?.attr, set).await
    };
    let made = caller.change(made).await;
    let dir_wcc = caller.wcc_of(&dir).await;
    match made {
        Ok((handle, attributes)) => MKDIR3res::NFS3_OK(MKDIR3resok {
            obj: Some(handle),
            obj_attributes: Some(attributes),
            dir_wcc,
        }),
        Err(Status(status)) => MKDIR3res::default(status, MKDIR3resfail { dir_wcc }),
    }
}

pub(super) async fn symlink(caller: Caller, args: SYMLINK3args) -> SYMLINK3res {
    let dir = caller.changed(&args.r#where.dir).await;
    let made = async {
        let dir = dir.as_ref().map_err(|it| *it)?;
        // Everybody may do everything with a symbolic link: its mode means nothing.
        let (_, set) = split(&args.symlink.symlink_attributes)?;
        let target = &args.symlink.symlink_data;
        let client = &caller.shared.client;
        let made = client.symlink(dir.cred(), dir.ino, &args.r#where.name, target);
        finish(&caller, dir, &made.await?.attr, set).await
    };
    let made = caller.change(made).await;
    let dir_wcc = caller.wcc_of(&dir).await;
    match made {
        Ok((handle, attributes)) => SYMLINK3res::NFS3_OK(SYMLINK3resok {
            obj: Some(handle),
            obj_attributes: Some(attributes),
            dir_wcc,
        }),
        Err(Status(status)) => SYMLINK3res::default(status, SYMLINK3resfail { dir_wcc }),
    }
}

pub(super) async fn mknod(caller: Caller, args: MKNOD3args) -> MKNOD3res {
    let dir = caller.changed(&args.r#where.dir).await;
    let made = async {
        let dir = dir.as_ref().map_err(|it| *it)?;
        let none = specdata3 {
            specdata1: 0,
            specdata2: 0,
        };
        let (kind, set, device) = match &args.what {
            mknoddata3::NF3CHR(it) => (FileKind::CharDevice, &it.dev_attributes, &it.spec),
            mknoddata3::NF3BLK(it) => (FileKind::BlockDevice, &it.dev_attributes, &it.spec),
            mknoddata3::NF3SOCK(set) => (FileKind::Socket, set, &none),
            mknoddata3::NF3FIFO(set) => (FileKind::Fifo, set, &none),
            mknoddata3::default(_) => return Err(Status(nfsstat3::NFS3ERR_BADTYPE)),
        };
        let rdev = rdev_of((device.specdata1, device.specdata2)).ok_or(INVALID)?;
        let (mode, set) = split(set)?;
        let client = &caller.shared.client;
        let name = &args.r#where.name;
        let made = client.mknod(dir.cred(), dir.ino, name, kind, mode, rdev);
        finish(&caller, dir, &made.await?.attr, set).await
    };
    let made = caller.change(made).await;
    let dir_wcc = caller.wcc_of(&dir).await;
    match made {
        Ok((handle, attributes)) => MKNOD3res::NFS3_OK(MKNOD3resok {
            obj: Some(handle),
            obj_attributes: Some(attributes),
            dir_wcc,
        }),
        Err(Status(status)) => MKNOD3res::default(status, MKNOD3resfail { dir_wcc }),
    }
}
