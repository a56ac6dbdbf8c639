//! LOOKUP, READLINK, REMOVE, RMDIR, RENAME, LINK.

use crate::caller::{Caller, Object};
use crate::inodes;
use crate::status::Status;
use weft_client::RenameFlags;
use weft_xdr::nfs3::*;

pub(super) async fn lookup(caller: Caller, args: LOOKUP3args) -> LOOKUP3res {
    let dir = caller.object(&args.what.dir).await;
    let found = match &dir {
        Ok(dir) => looked_up(&caller, dir, &args.what.name).await,
        Err(status) => Err(*status),
    };
    let dir_attributes = caller.post_of(&dir).await;
    match found {
        Ok((object, obj_attributes)) => LOOKUP3res::NFS3_OK(LOOKUP3resok {
            object,
            obj_attributes,
            dir_attributes,
        }),
        Err(Status(status)) => LOOKUP3res::default(status, LOOKUP3resfail { dir_attributes }),
    }
}

async fn looked_up(
    caller: &Caller,
    dir: &Object,
    name: &[u8],
) -> Result<(nfs_fh3, post_op_attr), Status> {
    if name == b".." && dir.ino != dir.root {
        let parent = caller.parent_of(dir).await?;
        return Ok((
            caller.handle(dir, parent.ino),
            caller.post(parent.ino).await,
        ));
    }
    // Nothing above an export is shown.
    let name = match name {
        b".." => b".",
        name => name,
    };
    let found = caller
        .shared
        .client
        .lookup(dir.cred(), dir.ino, name)
        .await?;
    let entry = found.entry.ok_or(Status(nfsstat3::NFS3ERR_NOENT))?;
    let object = match entry.attr.ino == dir.ino {
        true => dir.clone(),
        false => caller.found_in(dir, entry.attr.ino).await?,
    };
    // They may be left out: a name is not kept waiting for them.
    let attributes = caller.attr_now(entry.attr).await.ok();
    let attributes = attributes.map(|attr| caller.told(&attr));
    Ok((caller.handle(&object, object.ino), attributes))
}

pub(super) async fn readlink(caller: Caller, args: READLINK3args) -> READLINK3res {
    let object = caller.object(&args.symlink).await;
    let target = match &object {
        Ok(object) => caller.shared.client.readlink(object.ino).await,
        Err(_) => Ok(bytes::Bytes::new()),
    };
    let symlink_attributes = caller.post_of(&object).await;
    let target = object.and_then(|_| Ok(target?));
    match target {
        Ok(data) => READLINK3res::NFS3_OK(READLINK3resok {
            symlink_attributes,
            data,
        }),
        Err(Status(status)) => {
            READLINK3res::default(status, READLINK3resfail { symlink_attributes })
        }
    }
}

pub(super) async fn remove(caller: Caller, args: REMOVE3args) -> REMOVE3res {
    let dir = caller.changed(&args.object.dir).await;
    let done = async {
        let (dir, name) = (dir.as_ref().map_err(|it| *it)?, &args.object.name);
        let _changing = inodes::change(&caller, dir, name, None).await?;
        let client = &caller.shared.client;
        Ok::<(), Status>(client.unlink(dir.cred(), dir.ino, name).await?)
    };
    let done = caller.change(done).await;
    let dir_wcc = caller.wcc_of(&dir).await;
    match done {
        Ok(()) => REMOVE3res::NFS3_OK(REMOVE3resok { dir_wcc }),
        Err(Status(status)) => REMOVE3res::default(status, REMOVE3resfail { dir_wcc }),
    }
}

pub(super) async fn rmdir(caller: Caller, args: RMDIR3args) -> RMDIR3res {
    let dir = caller.changed(&args.object.dir).await;
    let done = async {
        let dir = dir.as_ref().map_err(|it| *it)?;
        let client = &caller.shared.client;
        Ok::<(), Status>(client.rmdir(dir.cred(), dir.ino, &args.object.name).await?)
    };
    let done = caller.change(done).await;
    let dir_wcc = caller.wcc_of(&dir).await;
    match done {
        Ok(()) => RMDIR3res::NFS3_OK(RMDIR3resok { dir_wcc }),
        Err(Status(status)) => RMDIR3res::default(status, RMDIR3resfail { dir_wcc }),
    }
}

/// Two objects of one export.
fn beside(one: &Object, other: &Object) -> Result<(), Status> {
    match one.export == other.export {
        true => Ok(()),
        false => Err(Status(nfsstat3::NFS3ERR_XDEV)),
    }
}

pub(super) async fn rename(caller: Caller, args: RENAME3args) -> RENAME3res {
    let from = caller.changed(&args.from.dir).await;
    let to = caller.changed(&args.to.dir).await;
    let done = async {
        let (from, to) = (
            from.as_ref().map_err(|it| *it)?,
            to.as_ref().map_err(|it| *it)?,
        );
        beside(from, to)?;
        let _changing = (
            inodes::change(&caller, from, &args.from.name, None).await?,
            inodes::change(&caller, to, &args.to.name, None).await?,
        );
        let flags = RenameFlags::default();
        let client = &caller.shared.client;
        let done = client.rename(
            from.cred(),
            from.ino,
            &args.from.name,
            to.ino,
            &args.to.name,
            flags,
        );
        Ok::<(), Status>(done.await?)
    };
    let done = caller.change(done).await;
    let fromdir_wcc = caller.wcc_of(&from).await;
    let todir_wcc = caller.wcc_of(&to).await;
    match done {
        Ok(()) => RENAME3res::NFS3_OK(RENAME3resok {
            fromdir_wcc,
            todir_wcc,
        }),
        Err(Status(status)) => RENAME3res::default(
            status,
            RENAME3resfail {
                fromdir_wcc,
                todir_wcc,
            },
        ),
    }
}

pub(super) async fn link(caller: Caller, args: LINK3args) -> LINK3res {
    let file = caller.changed(&args.file).await;
    let dir = caller.changed(&args.link.dir).await;
    let done = async {
        let (file, dir) = (
            file.as_ref().map_err(|it| *it)?,
            dir.as_ref().map_err(|it| *it)?,
        );
        beside(file, dir)?;
        let _changing = caller.shared.delegations.change(file.ino, None).await?;
        let client = &caller.shared.client;
        let linked = client.link(dir.cred(), file.ino, dir.ino, &args.link.name);
        Ok::<fattr3, Status>(caller.told(&linked.await?.attr))
    };
    let done = caller.change(done).await;
    let linkdir_wcc = caller.wcc_of(&dir).await;
    match done {
        Ok(attributes) => LINK3res::NFS3_OK(LINK3resok {
            file_attributes: Some(attributes),
            linkdir_wcc,
        }),
        Err(Status(status)) => {
            let file_attributes = caller.post_of(&file).await;
            LINK3res::default(
                status,
                LINK3resfail {
                    file_attributes,
                    linkdir_wcc,
                },
            )
        }
    }
}
