//! A WRITE that comes slowly: its bytes are passed on as they come, so that a gateway's link to the clients and that to
//! the servers work at the same time on one call.
//!
//! What has come is written though the rest may never come: a client that has no answer does not know either how much
//! of a WRITE was done, and writes again. It is answered as a WRITE that came at once, when all of it has been written.

use super::data;
use crate::caller::{Caller, Object};
use crate::io;
use crate::status::Status;
use bytes::Bytes;
use tokio::sync::mpsc;
use weft_oncrpc::{Call, Incoming, Replier};
use weft_xdr::nfs3::*;
use weft_xdr::{DecodeError, Procedure, Xdr};

/// What stands before the bytes of a WRITE.
struct Head {
    file: nfs_fh3,
    offset: u64,
    stable: stable_how,
}

impl Head {
    /// None where the count is not that of the bytes: such a call is looked at when it is whole.
    fn decode(call: &mut Call) -> Result<Option<Head>, DecodeError> {
        let input = &mut call.arguments;
        let file = nfs_fh3::decode(input)?;
        let offset = input.u64()?;
        let count = input.u32()?;
        let stable = stable_how::decode(input)?;
        let head = Head {
            file,
            offset,
            stable,
        };
        let is_alike = input.u32()? == count;
        Ok(is_alike.then_some(head))
    }
}

/// Bytes, and who is to be answered behind the last.
type Part = (Bytes, Option<Replier>);

/// The connection's side of it.
struct Coming(mpsc::UnboundedSender<Part>);

impl Incoming for Coming {
    fn part(&mut self, bytes: Bytes) {
        // No more than one record of them. The task takes them until the last.
        let _: Result<(), _> = self.0.send((bytes, None));
    }

    fn end(self: Box<Self>, bytes: Bytes, replier: Replier) {
        let _: Result<(), _> = self.0.send((bytes, Some(replier)));
    }
}

/// Begins a WRITE. None: it is served when it is whole.
pub(super) fn begin(caller: Caller, mut call: Call) -> Option<Box<dyn Incoming>> {
    let head = Head::decode(&mut call).ok()??;
    let shared = caller.shared.clone();
    let counted = (NFSPROC3_WRITE::VERSION, NFSPROC3_WRITE::NUMBER);
    let name = || NFSPROC3_WRITE::NAME.to_owned();
    shared.metrics.call(counted, name);
    let (coming, parts) = mpsc::unbounded_channel();
    shared
        .env
        .spawn("incoming write", receive(caller, head, parts));
    Some(Box::new(Coming(coming)))
}

async fn receive(caller: Caller, head: Head, mut parts: mpsc::UnboundedReceiver<Part>) {
    let object = caller.changed(&head.file).await;
    let mut may = match &object {
        Ok(object) => data::may_write(&caller, object).await,
        Err(status) => Err(*status),
    };
    // Of the time before the first part: what was buffered since may have been lost with another's.
    let verifier = caller.shared.verifier.get();
    let mut count: u32 = 0;
    while let Some((bytes, last)) = parts.recv().await {
        if let (Ok(()), Ok(object)) = (&may, &object) {
            let is_stable = last.is_some() && head.stable != stable_how::UNSTABLE;
            let offset = head.offset.saturating_add(u64::from(count));
            let length = bytes.len();
            match write_part(&caller, object, offset, (bytes, is_stable)).await {
                Ok(written) => {
                    count += written;
                    // The rest does not fit in a file.
                    if (written as usize) < length {
                        may = Err(Status(nfsstat3::NFS3ERR_FBIG));
                    }
                }
                Err(status) => may = Err(status),
            }
        }
        if let Some(replier) = last {
            let done = may.map(|()| count);
            let results = results(&caller, &object, &head, done, verifier).await;
            return replier.send::<NFSPROC3_WRITE>(&results);
        }
    }
    tracing::debug!(count, "the rest of a WRITE has not come");
}

async fn write_part(
    caller: &Caller,
    object: &Object,
    offset: u64,
    (bytes, is_stable): (Bytes, bool),
) -> Result<u32, Status> {
    // Somebody may have been given the file since the last part.
    let _changing = caller.shared.delegations.change(object.ino, None).await?;
    io::write(caller, object.ino, offset, bytes, (is_stable, || true)).await
}

async fn results(
    caller: &Caller,
    object: &Result<Object, Status>,
    head: &Head,
    done: Result<u32, Status>,
    verifier: [u8; 8],
) -> WRITE3res {
    let file_wcc = caller.wcc_of(object).await;
    let is_stable = head.stable != stable_how::UNSTABLE;
    match done {
        // Some of it may have been lost before the end was made stable.
        Ok(_) if is_stable && caller.shared.verifier.get() != verifier => {
            let status = nfsstat3::NFS3ERR_JUKEBOX;
            WRITE3res::default(status, WRITE3resfail { file_wcc })
        }
        Ok(count) => WRITE3res::NFS3_OK(WRITE3resok {
            file_wcc,
            count,
            committed: data::committed(is_stable),
            verf: verifier,
        }),
        Err(Status(status)) => WRITE3res::default(status, WRITE3resfail { file_wcc }),
    }
}
