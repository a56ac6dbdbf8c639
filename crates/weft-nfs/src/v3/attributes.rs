//! GETATTR, SETATTR, ACCESS.

use crate::attributes::set_of;
use crate::caller::{Caller, Object};
use crate::status::Status;
use weft_client::{FileKind, SetAttr};
use weft_xdr::nfs3::*;

pub(super) async fn getattr(caller: Caller, args: GETATTR3args) -> GETATTR3res {
    let found = async {
        let object = caller.object(&args.object).await?;
        let known = caller.shared.client.getattr(object.ino).await?;
        Ok::<_, Status>(caller.told(&known.attr))
    };
    match found.await {
        Ok(obj_attributes) => GETATTR3res::NFS3_OK(GETATTR3resok { obj_attributes }),
        Err(Status(status)) => GETATTR3res::default(status),
    }
}

pub(super) async fn setattr(caller: Caller, args: SETATTR3args) -> SETATTR3res {
    let object = caller.changed(&args.object).await;
    let done = match &object {
        Ok(object) => set(&caller, object, &args).await,
        Err(status) => Err(*status),
    };
    match done {
        Ok(after) => SETATTR3res::NFS3_OK(SETATTR3resok {
            obj_wcc: wcc_data {
                before: None,
                after: Some(after),
            },
        }),
        Err(Status(status)) => {
            let obj_wcc = caller.wcc_of(&object).await;
            SETATTR3res::default(status, SETATTR3resfail { obj_wcc })
        }
    }
}

async fn set(caller: &Caller, object: &Object, args: &SETATTR3args) -> Result<fattr3, Status> {
    let set = set_of(&args.new_attributes).ok_or(Status(nfsstat3::NFS3ERR_INVAL))?;
    let client = &caller.shared.client;
    if let Some(guard) = &args.guard {
        let known = client.getattr(object.ino).await?;
        if caller.told(&known.attr).ctime != *guard {
            return Err(Status(nfsstat3::NFS3ERR_NOT_SYNC));
        }
    }
    apply(caller, object, set).await
}

/// Sets attributes. Whose file it is may cut it: his program opened it for writing, for all that anybody knows.
pub(super) async fn apply(
    caller: &Caller,
    object: &Object,
    set: SetAttr,
) -> Result<fattr3, Status> {
    let client = &caller.shared.client;
    let opened = match set.size {
        Some(_) => {
            let known = client.getattr(object.ino).await?;
            let is_owned = known.attr.uid == object.cred().uid;
            match is_owned && known.attr.kind() == FileKind::Regular {
                true => Some(caller.shared.files.get(object.ino).await?),
                false => None,
            }
        }
        None => None,
    };
    let handle = opened.as_ref().map(|opened| opened.handle());
    let known = client
        .setattr(object.cred(), object.ino, set, handle)
        .await?;
    Ok(caller.told(&known.attr))
}

pub(super) async fn access(caller: Caller, args: ACCESS3args) -> ACCESS3res {
    let object = caller.object(&args.object).await;
    let allowed = match &object {
        Ok(object) => allowed(&caller, object, args.access).await,
        Err(status) => Err(*status),
    };
    let obj_attributes = caller.post_of(&object).await;
    match allowed {
        Ok(access) => ACCESS3res::NFS3_OK(ACCESS3resok {
            obj_attributes,
            access,
        }),
        Err(Status(status)) => ACCESS3res::default(status, ACCESS3resfail { obj_attributes }),
    }
}

/// What of it may be done.
async fn allowed(caller: &Caller, object: &Object, asked: u32) -> Result<u32, Status> {
    let client = &caller.shared.client;
    let known = client.getattr(object.ino).await?;
    let changes = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
    let is_directory = known.attr.kind() == FileKind::Directory;
    let (search, wrong) = match is_directory {
        true => (ACCESS3_LOOKUP, ACCESS3_EXECUTE),
        // To remove a name is the directory's matter.
        false => (ACCESS3_EXECUTE, ACCESS3_LOOKUP | ACCESS3_DELETE),
    };
    let mut may = asked & !wrong;
    if object.access.read_only {
        may &= !changes;
    }
    let kinds = [
        (libc::R_OK, ACCESS3_READ),
        (libc::W_OK, changes),
        (libc::X_OK, search),
    ];
    for (mask, bits) in kinds {
        if may & bits == 0 {
            continue;
        }
        match client.access(object.cred(), object.ino, mask as u32).await {
            Ok(()) => {}
            Err(weft_client::Errno(libc::EACCES | libc::EPERM | libc::EROFS)) => may &= !bits,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(may)
}
