//! READ, WRITE, COMMIT.

use super::TRANSFER_MAX;
use crate::caller::{Caller, Object};
use crate::files::Use;
use crate::status::Status;
use bytes::Bytes;
use weft_client::{Attr, Errno, FileKind};
use weft_xdr::nfs3::*;
use weft_xdr::{Encoder, Xdr};

/// Bytes of a WRITE from which on they lie in a buffer of their own.
const COPIED_BYTES: usize = 64 << 10;

/// Attributes of a file whose bytes this user may read (or write).
///
/// NFS has no open files: what an open would have asked is asked with each operation. Whose file it is may always, for
/// he may have opened it before he took the right from himself; and what may be run may be read, for so it is run.
async fn check(caller: &Caller, object: &Object, masks: &[i32]) -> Result<Attr, Status> {
    let client = &caller.shared.client;
    let attr = client.getattr(object.ino).await?.attr;
    match attr.kind() {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Status(nfsstat3::NFS3ERR_ISDIR)),
        _ => return Err(Status(nfsstat3::NFS3ERR_INVAL)),
    }
    if attr.uid == object.cred().uid {
        return Ok(attr);
    }
    let mut allowed = Err(Errno(libc::EACCES));
    for mask in masks {
        allowed = client.access(object.cred(), object.ino, *mask as u32).await;
        if allowed.is_ok() {
            break;
        }
    }
    allowed?;
    Ok(attr)
}

/// Does something with an open file, once more if the file was opened under a session that has ended since.
async fn with_file<T>(
    caller: &Caller,
    ino: u64,
    mut work: impl AsyncFnMut(&Use) -> Result<T, Status>,
) -> Result<T, Status> {
    let files = &caller.shared.files;
    let opened = files.get(ino).await?;
    let done = work(&opened).await;
    match done {
        Err(Status(nfsstat3::NFS3ERR_STALE)) => {
            drop(opened);
            files.forget(ino);
            let opened = files.get(ino).await?;
            work(&opened).await
        }
        done => done,
    }
}

struct Read {
    attributes: fattr3,
    parts: Vec<Bytes>,
    count: u32,
    eof: bool,
}

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
    move |out: &mut Encoder| match read {
        Ok(read) => {
            nfsstat3::NFS3_OK.encode(out);
            Some(read.attributes).encode_option(out);
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
    check(caller, object, &[libc::R_OK, libc::X_OK]).await?;
    let client = &caller.shared.client;
    let length = args.count.min(TRANSFER_MAX) as usize;
    let parts = with_file(caller, object.ino, async |opened| {
        Ok(client.read(opened.handle(), args.offset, length).await?)
    });
    let parts = parts.await?;
    // After the read: an end that lies beyond what was read is no end.
    let attr = client.getattr(object.ino).await?.attr;
    let count: usize = parts.iter().map(Bytes::len).sum();
    let end = args.offset.saturating_add(count as u64);
    Ok(Read {
        attributes: caller.told(&attr),
        count: count as u32,
        eof: count < length || end >= attr.size,
        parts,
    })
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
    check(caller, object, &[libc::W_OK]).await?;
    let mut data = args.data;
    data.truncate(args.count as usize);
    if data.len() < COPIED_BYTES {
        // A slice of all that came with it: until it is written back it would keep that.
        data = Bytes::copy_from_slice(&data);
    }
    let (client, files) = (&caller.shared.client, &caller.shared.files);
    let verifier = caller.shared.verifier.get();
    let count = with_file(caller, object.ino, async |opened| {
        opened.note_written();
        let (handle, data) = (opened.handle(), data.clone());
        let count = client.write(handle, args.offset, data, false).await?;
        if args.stable != stable_how::UNSTABLE {
            files.sync(opened).await?;
        }
        Ok(count)
    });
    let count = count.await?;
    // What was buffered before may have been lost meanwhile; then nothing here says that this was not.
    let is_same = caller.shared.verifier.get() == verifier;
    let committed = match args.stable {
        stable_how::UNSTABLE => stable_how::UNSTABLE,
        _ if is_same => stable_how::FILE_SYNC,
        _ => return Err(Status(nfsstat3::NFS3ERR_JUKEBOX)),
    };
    Ok((count as u32, committed))
}

pub(super) async fn commit(caller: Caller, args: COMMIT3args) -> COMMIT3res {
    let object = caller.changed(&args.file).await;
    let done = match &object {
        Ok(object) => committed(&caller, object).await,
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

/// Whoever has written may have it kept: nobody else would ask.
async fn committed(caller: &Caller, object: &Object) -> Result<(), Status> {
    let files = &caller.shared.files;
    with_file(caller, object.ino, async |opened| files.sync(opened).await).await
}
