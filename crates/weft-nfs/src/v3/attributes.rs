//! GETATTR, SETATTR, ACCESS.

use crate::attributes::set_of;
use crate::caller::{Caller, Object};
use crate::inodes;
use crate::status::Status;
use weft_xdr::nfs3::*;

pub(super) async fn getattr(caller: Caller, args: GETATTR3args) -> GETATTR3res {
    let found = async {
        let object = caller.object(&args.object).await?;
        let attr = caller.attr(object.ino).await?;
        Ok::<_, Status>(caller.told(&attr))
    };
    match found.await {
        Ok(obj_attributes) => GETATTR3res::NFS3_OK(GETATTR3resok { obj_attributes }),
        Err(Status(status)) => GETATTR3res::default(status),
    }
}

pub(super) async fn setattr(caller: Caller, args: SETATTR3args) -> SETATTR3res {
    let object = caller.changed(&args.object).await;
    let done = match &object {
        Ok(object) => caller.change(set(&caller, object, &args)).await,
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
    // First: what a client keeps of it changes it, too.
    let _changing = caller.shared.delegations.change(object.ino, None).await?;
    if let Some(guard) = &args.guard {
        let known = caller.shared.client.getattr(object.ino).await?;
        if caller.told(&known.attr).ctime != *guard {
            return Err(Status(nfsstat3::NFS3ERR_NOT_SYNC));
        }
    }
    Ok(caller.told(&inodes::set(caller, object, set, false).await?))
}

pub(super) async fn access(caller: Caller, args: ACCESS3args) -> ACCESS3res {
    let object = caller.object(&args.object).await;
    let allowed = match &object {
        Ok(object) => inodes::allowed(&caller, object, args.access).await,
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
