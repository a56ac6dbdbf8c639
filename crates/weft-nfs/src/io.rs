//! Reading and writing the bytes of files, for every version of NFS.

use crate::caller::{Caller, Object};
use crate::files::Use;
use crate::status::Status;
use bytes::Bytes;
use weft_client::{Attr, Errno, FileKind};
use weft_xdr::nfs3::nfsstat3;

/// Bytes of one READ or WRITE at most.
pub(crate) const TRANSFER_MAX: u32 = 1 << 20;
/// Bytes of a WRITE from which on they lie in a buffer of their own.
const COPIED_BYTES: usize = 64 << 10;

/// Attributes of a regular file.
///
/// # Errors
/// ISDIR, INVAL: it is none.
pub(crate) async fn regular(caller: &Caller, object: &Object) -> Result<Attr, Status> {
    let attr = caller.shared.client.getattr(object.ino).await?.attr;
    match attr.kind() {
        FileKind::Regular => Ok(attr),
        FileKind::Directory => Err(Status(nfsstat3::NFS3ERR_ISDIR)),
        _ => Err(Status(nfsstat3::NFS3ERR_INVAL)),
    }
}

/// Refuses who may not read (or write) a file's bytes, where no open has asked for that.
///
/// Whose file it is may always, for he may have opened it before he took the right from himself; and what may be run
/// may be read, for so it is run.
pub(crate) async fn check(caller: &Caller, object: &Object, masks: &[i32]) -> Result<(), Status> {
    let attr = regular(caller, object).await?;
    if attr.uid == object.cred().uid {
        return Ok(());
    }
    let mut allowed = Err(Errno(libc::EACCES));
    for mask in masks {
        let client = &caller.shared.client;
        allowed = client.access(object.cred(), object.ino, *mask as u32).await;
        if allowed.is_ok() {
            break;
        }
    }
    Ok(allowed?)
}

/// Does something with an open file, once more if the file was opened under a session that has ended since. It must be
/// such that it may be done twice.
///
/// # Errors
/// As of `work`; JUKEBOX: the session has ended meanwhile, and the client is to ask again.
pub(crate) async fn with_file<T>(
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
        // Whether it was done nobody knows; done twice, it is as done once.
        Err(Status(nfsstat3::NFS3ERR_IO)) if opened.is_over(&caller.shared.client) => {
            files.forget_use(&opened);
            Err(Status(nfsstat3::NFS3ERR_JUKEBOX))
        }
        done => done,
    }
}

/// What was read.
pub(crate) struct Read {
    /// Of the file, after the bytes were read.
    pub attr: Attr,
    /// As they came from the data servers.
    pub parts: Vec<Bytes>,
    pub count: u32,
    /// There is nothing behind.
    pub eof: bool,
}

/// Reads at most [`TRANSFER_MAX`] bytes.
pub(crate) async fn read(
    caller: &Caller,
    ino: u64,
    offset: u64,
    count: u32,
) -> Result<Read, Status> {
    let client = &caller.shared.client;
    let length = count.min(TRANSFER_MAX) as usize;
    let parts = with_file(caller, ino, async |opened| {
        Ok(client.read(opened.handle(), offset, length).await?)
    });
    let parts = parts.await?;
    // After the read: an end that lies beyond what was read is no end.
    let attr = client.getattr(ino).await?.attr;
    let count: usize = parts.iter().map(Bytes::len).sum();
    caller.shared.metrics.read_bytes.inc_by(count as u64);
    let end = offset.saturating_add(count as u64);
    Ok(Read {
        count: count as u32,
        eof: count < length || end >= attr.size,
        attr,
        parts,
    })
}

/// Writes. Returns how many bytes.
///
/// # Errors
/// JUKEBOX if it was to be stable, and what had been buffered before may have been lost meanwhile; or if `may` says
/// that it may not be written any more, when all that it waited for is there.
pub(crate) async fn write(
    caller: &Caller,
    ino: u64,
    offset: u64,
    mut data: Bytes,
    (is_stable, may): (bool, impl Fn() -> bool),
) -> Result<u32, Status> {
    if data.len() < COPIED_BYTES {
        // A slice of all that came with it: until it is written back it would keep that.
        data = Bytes::copy_from_slice(&data);
    }
    let (client, files) = (&caller.shared.client, &caller.shared.files);
    let verifier = caller.shared.verifier.get();
    let count = with_file(caller, ino, async |opened| {
        opened.note_written();
        let (handle, data) = (opened.handle(), data.clone());
        let count = match client.write_while(handle, offset, data, &may).await {
            Err(Errno(libc::ECANCELED)) => return Err(Status(nfsstat3::NFS3ERR_JUKEBOX)),
            written => written?,
        };
        if is_stable {
            files.sync(opened).await?;
        }
        Ok(count)
    });
    let count = count.await?;
    caller.shared.metrics.written_bytes.inc_by(count as u64);
    // What was buffered before may have been lost meanwhile; then nothing here says that this was not.
    match is_stable && caller.shared.verifier.get() != verifier {
        true => Err(Status(nfsstat3::NFS3ERR_JUKEBOX)),
        false => Ok(count as u32),
    }
}

/// All that was written to a file is kept. Whoever has written may have it so: nobody else would ask.
pub(crate) async fn commit(caller: &Caller, ino: u64) -> Result<(), Status> {
    let files = &caller.shared.files;
    with_file(caller, ino, async |opened| files.sync(opened).await).await
}
