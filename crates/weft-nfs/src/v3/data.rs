//! READ, WRITE, COMMIT.

use crate::caller::{Caller, Object};
use crate::io::{self, Read, TRANSFER_MAX};
use crate::status::Status;
use weft_xdr::nfs3::*;
use weft_xdr::{Encoder, Xdr};

/// READ writes its results itself: the bytes are in the parts in which they came from the data servers.
pub(super) async fn read(caller: Caller, args: READ3args) -> impl FnOnce(&mut Encoder) {
    let object = caller.object(&args.file).await;
    let read = match &object {
        Ok(object) => bytes_of(&caller, object, &args).await,
        Err(status) => Err(*status),
    };
    let file_attributes = match &read {
        Ok(_) => None,
        Err(_) => caller.post_of(&object).await,
    };
    let read = read.map(|read| (caller.told(&read.attr), read));
    move |out: &mut Encoder| match read {
        Ok((attributes, read)) => {
            nfsstat3::NFS3_OK.encode(out);
            Some(attributes).encode_option(out);
            out.u32(read.count);
            out.bool(read.eof);
            out.opaque_parts(TRANSFER_MAX, &read.parts);
        }
        Err(Status(status)) => {
            READ3res::default(status, READ3resfail { file_attributes }).encode(out);
        }
    }
}

trait EncodeOption {
    fn encode_option(&self, out: &mut Encoder);
}

impl EncodeOption for post_op_attr {
    fn encode_option(&self, out: &mut Encoder) {
        out.option(self.as_ref(), |out, attributes| attributes.encode(out));
    }
}

async fn bytes_of(caller: &Caller, object: &Object, args: &READ3args) -> Result<Read, Status> {
    io::check(caller, object, &[libc::R_OK, libc::X_OK]).await?;
    caller.shared.delegations.read(object.ino, None).await?;
    io::read(caller, object.ino, args.offset, args.count).await
}

pub(super) async fn write(caller: Caller, args: WRITE3args) -> WRITE3res {
    let object = caller.changed(&args.file).await;
    let done = match &object {
        Ok(object) => written(&caller, object, args).await,
        Err(status) => Err(*status),
    };
    let file_wcc = caller.wcc_of(&object).await;
    match done {
        Ok((count, committed)) => WRITE3res::NFS3_OK(WRITE3resok {
            file_wcc,
            count,
            committed,
            verf: caller.shared.verifier.get(),
        }),
        Err(Status(status)) => WRITE3res::default(status, WRITE3resfail { file_wcc }),
    }
}

async fn written(
    caller: &Caller,
    object: &Object,
    args: WRITE3args,
) -> Result<(u32, stable_how), Status> {
    may_write(caller, object).await?;
    let _changing = caller.shared.delegations.change(object.ino, None).await?;
    let mut data = args.data;
    data.truncate(args.count as usize);
    let is_stable = args.stable != stable_how::UNSTABLE;
    let count = io::write(caller, object.ino, args.offset, data, (is_stable, || true)).await?;
    Ok((count, committed(is_stable)))
}

/// Refuses who may not write a file's bytes.
pub(super) async fn may_write(caller: &Caller, object: &Object) -> Result<(), Status> {
    io::check(caller, object, &[libc::W_OK]).await
}

/// What is answered of how it is kept.
pub(super) fn committed(is_stable: bool) -> stable_how {
    match is_stable {
        true => stable_how::FILE_SYNC,
        false => stable_how::UNSTABLE,
    }
}

pub(super) async fn commit(caller: Caller, args: COMMIT3args) -> COMMIT3res {
    let object = caller.changed(&args.file).await;
    let done = match &object {
        Ok(object) => io::commit(&caller, object.ino).await,
        Err(status) => Err(*status),
    };
    let file_wcc = caller.wcc_of(&object).await;
    match done {
        Ok(()) => COMMIT3res::NFS3_OK(COMMIT3resok {
            file_wcc,
            verf: caller.shared.verifier.get(),
        }),
        Err(Status(status)) => COMMIT3res::default(status, COMMIT3resfail { file_wcc }),
    }
}
