//! NFS, version 3 (RFC 1813): its 22 procedures.

mod attributes;
mod data;
mod incoming;
mod listing;
mod making;
mod names;
mod system;

use crate::caller::{Caller, Object};
use crate::exports::Origin;
use crate::gateway::Shared;
use crate::run::{run, run_once, run_with};
use crate::status::Status;
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_client::Attr;
use weft_oncrpc::{Call, Connection, Incoming, Payload, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::nfs3::*;

/// Bytes of a name, as everywhere in the name space.
const NAME_MAX: u32 = 255;

pub(crate) struct Nfs3(pub Rc<Shared>);

impl Caller {
    /// Attributes as they are told with an answer: what is known now, or nothing.
    async fn post(&self, ino: u64) -> post_op_attr {
        let attr = self.attr(ino).await.ok()?;
        Some(self.told(&attr))
    }

    fn told(&self, attr: &Attr) -> fattr3 {
        crate::attributes::fattr(attr, self.shared.fsid)
    }

    /// Those of an object that may not have been found.
    async fn post_of(&self, object: &Result<Object, Status>) -> post_op_attr {
        match object {
            Ok(object) => self.post(object.ino).await,
            Err(_) => None,
        }
    }

    /// After a change. What was before is left out: it would have to be of the very moment of the change.
    async fn wcc_of(&self, object: &Result<Object, Status>) -> wcc_data {
        wcc_data {
            before: None,
            after: self.post_of(object).await,
        }
    }
}

/// Where the bytes of a WRITE are in its arguments.
fn payload_of_write(arguments: &[u8]) -> Payload {
    let word = |at: usize| {
        let bytes = arguments.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*bytes) as usize)
    };
    let Some(handle) = word(0) else {
        return Payload::More;
    };
    if handle > NFS3_FHSIZE as usize {
        return Payload::Nowhere;
    }
    // Behind the handle: offset, count, stable, the length of the data.
    let length_at = 4 + handle.next_multiple_of(4) + 8 + 4 + 4;
    match word(length_at) {
        None => Payload::More,
        Some(length) => Payload::InParts {
            start: length_at + 4,
            length,
        },
    }
}

impl Program for Nfs3 {
    fn number(&self) -> u32 {
        NFS_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        NFS_V3..=NFS_V3
    }

    fn payload(&self, _version: u32, procedure: u32, arguments: &[u8]) -> Payload {
        match procedure {
            NFSPROC3_WRITE::NUMBER => payload_of_write(arguments),
            _ => Payload::Nowhere,
        }
    }

    fn begin(&self, connection: &Connection, call: Call) -> Option<Box<dyn Incoming>> {
        let caller = Caller {
            shared: self.0.clone(),
            from: Origin::of(connection.peer()),
            credential: call.credential.clone(),
            client: None,
        };
        match call.procedure {
            NFSPROC3_WRITE::NUMBER => incoming::begin(caller, call),
            _ => None,
        }
    }

    fn call(&self, connection: &Connection, call: Call, to: Replier) {
        let (shared, from) = (&self.0, Origin::of(connection.peer()));
        match call.procedure {
            NFSPROC3_NULL::NUMBER => to.serve::<NFSPROC3_NULL>(call, |()| ()),
            NFSPROC3_GETATTR::NUMBER => {
                run::<NFSPROC3_GETATTR, _>(shared, from, call, to, attributes::getattr);
            }
            NFSPROC3_SETATTR::NUMBER => {
                run_once::<NFSPROC3_SETATTR, _>(shared, from, call, to, attributes::setattr);
            }
            NFSPROC3_LOOKUP::NUMBER => {
                run::<NFSPROC3_LOOKUP, _>(shared, from, call, to, names::lookup);
            }
            NFSPROC3_ACCESS::NUMBER => {
                run::<NFSPROC3_ACCESS, _>(shared, from, call, to, attributes::access);
            }
            NFSPROC3_READLINK::NUMBER => {
                run::<NFSPROC3_READLINK, _>(shared, from, call, to, names::readlink);
            }
            NFSPROC3_READ::NUMBER => {
                run_with::<NFSPROC3_READ, _, _>(shared, from, call, to, data::read);
            }
            NFSPROC3_WRITE::NUMBER => {
                run::<NFSPROC3_WRITE, _>(shared, from, call, to, data::write);
            }
            NFSPROC3_CREATE::NUMBER => {
                run_once::<NFSPROC3_CREATE, _>(shared, from, call, to, making::create);
            }
            NFSPROC3_MKDIR::NUMBER => {
                run_once::<NFSPROC3_MKDIR, _>(shared, from, call, to, making::mkdir);
            }
            NFSPROC3_SYMLINK::NUMBER => {
                run_once::<NFSPROC3_SYMLINK, _>(shared, from, call, to, making::symlink);
            }
            NFSPROC3_MKNOD::NUMBER => {
                run_once::<NFSPROC3_MKNOD, _>(shared, from, call, to, making::mknod);
            }
            NFSPROC3_REMOVE::NUMBER => {
                run_once::<NFSPROC3_REMOVE, _>(shared, from, call, to, names::remove);
            }
            NFSPROC3_RMDIR::NUMBER => {
                run_once::<NFSPROC3_RMDIR, _>(shared, from, call, to, names::rmdir);
            }
            NFSPROC3_RENAME::NUMBER => {
                run_once::<NFSPROC3_RENAME, _>(shared, from, call, to, names::rename);
            }
            NFSPROC3_LINK::NUMBER => {
                run_once::<NFSPROC3_LINK, _>(shared, from, call, to, names::link);
            }
            NFSPROC3_READDIR::NUMBER => {
                run::<NFSPROC3_READDIR, _>(shared, from, call, to, listing::readdir);
            }
            NFSPROC3_READDIRPLUS::NUMBER => {
                run::<NFSPROC3_READDIRPLUS, _>(shared, from, call, to, listing::readdirplus);
            }
            NFSPROC3_FSSTAT::NUMBER => {
                run::<NFSPROC3_FSSTAT, _>(shared, from, call, to, system::fsstat);
            }
            NFSPROC3_FSINFO::NUMBER => {
                run::<NFSPROC3_FSINFO, _>(shared, from, call, to, system::fsinfo);
            }
            NFSPROC3_PATHCONF::NUMBER => {
                run::<NFSPROC3_PATHCONF, _>(shared, from, call, to, system::pathconf);
            }
            NFSPROC3_COMMIT::NUMBER => {
                run::<NFSPROC3_COMMIT, _>(shared, from, call, to, data::commit);
            }
            _ => to.refuse(Refusal::Procedure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_xdr::Encoder;

    #[test]
    fn the_bytes_of_a_write_are_found_as_soon_as_they_can_be() {
        for handle in [0, 3, 34, 64] {
            let arguments = WRITE3args {
                file: nfs_fh3 {
                    data: vec![9; handle].into(),
                },
                offset: 7,
                count: 5,
                stable: stable_how::UNSTABLE,
                data: Bytes::from_static(b"hello"),
            };
            let mut out = Encoder::default();
            NFSPROC3_WRITE::encode_arguments(&arguments, &mut out);
            let bytes = out.joined();
            let start = bytes.len() - 8;
            let found = payload_of_write(&bytes);
            assert_eq!(found, Payload::InParts { start, length: 5 });
            assert_eq!(payload_of_write(&bytes[..start]), found);
            for length in 0..start {
                assert_eq!(payload_of_write(&bytes[..length]), Payload::More);
            }
        }
        assert_eq!(payload_of_write(&[0, 0, 0, 65]), Payload::Nowhere);
        assert_eq!(payload_of_write(&[0xff; 100]), Payload::Nowhere);
    }
}
