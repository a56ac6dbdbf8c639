//! FSSTAT, FSINFO, PATHCONF.

use super::NAME_MAX;
use crate::caller::Caller;
use crate::io::TRANSFER_MAX;
use crate::status::Status;
use weft_xdr::nfs3::*;

/// Bytes of a listing that are best asked for at once.
const LISTING_BYTES: u32 = 64 << 10;
/// Hard links of one file.
const LINKS_MAX: u32 = 65_000;
/// Inodes are bounded by memory only; this is what is shown as free.
const INODES_FREE: u64 = 1 << 40;

pub(super) async fn fsstat(caller: Caller, args: FSSTAT3args) -> FSSTAT3res {
    let object = caller.object(&args.fsroot).await;
    let space = caller.shared.client.statfs().await;
    let obj_attributes = caller.post_of(&object).await;
    match object.and_then(|_| Ok(space?)) {
        Ok(space) => FSSTAT3res::NFS3_OK(FSSTAT3resok {
            obj_attributes,
            tbytes: space.total_bytes,
            fbytes: space.free_bytes,
            abytes: space.free_bytes,
            tfiles: space.inodes + INODES_FREE,
            ffiles: INODES_FREE,
            afiles: INODES_FREE,
            invarsec: 0,
        }),
        Err(Status(status)) => FSSTAT3res::default(status, FSSTAT3resfail { obj_attributes }),
    }
}

pub(super) async fn fsinfo(caller: Caller, args: FSINFO3args) -> FSINFO3res {
    let object = caller.object(&args.fsroot).await;
    let obj_attributes = caller.post_of(&object).await;
    match object {
        Ok(_) => FSINFO3res::NFS3_OK(FSINFO3resok {
            obj_attributes,
            rtmax: TRANSFER_MAX,
            rtpref: TRANSFER_MAX,
            rtmult: 4096,
            wtmax: TRANSFER_MAX,
            wtpref: TRANSFER_MAX,
            wtmult: 4096,
            dtpref: LISTING_BYTES,
            maxfilesize: caller.shared.client.reach(),
            time_delta: nfstime3 {
                seconds: 0,
                nseconds: 1,
            },
            properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        }),
        Err(Status(status)) => FSINFO3res::default(status, FSINFO3resfail { obj_attributes }),
    }
}

pub(super) async fn pathconf(caller: Caller, args: PATHCONF3args) -> PATHCONF3res {
    let object = caller.object(&args.object).await;
    let obj_attributes = caller.post_of(&object).await;
    match object {
        Ok(_) => PATHCONF3res::NFS3_OK(PATHCONF3resok {
            obj_attributes,
            linkmax: LINKS_MAX,
            name_max: NAME_MAX,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        Err(Status(status)) => PATHCONF3res::default(status, PATHCONF3resfail { obj_attributes }),
    }
}
