//! NFS, versions 4.1 and 4.2 (RFC 8881, RFC 7862, RFC 8276). `docs/protocols/nfs4.md` follows one COMPOUND.

mod attributes;
mod back;
mod calling;
mod clients;
mod compound;
mod data;
mod delegating;
mod extras;
mod inodes;
mod kept;
mod lifecycle;
mod listing;
mod locking;
mod locks;
mod names;
mod open_arguments;
mod opening;
mod opens;
mod owners;
mod place;
mod sessions;
mod sparse;
mod state;
mod stateids;
mod status;
mod waiting;

use crate::caller::Caller;
use crate::exports::Origin;
use crate::gateway::Shared;
use crate::io::TRANSFER_MAX;
use crate::run::go;
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_oncrpc::{Call, Connection, Payload, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::nfs4::{
    NFS_V4, NFS4_FHSIZE, NFS4_OPAQUE_LIMIT, NFS4_PROGRAM, NFSPROC4_COMPOUND, NFSPROC4_NULL,
    nfs_opnum4,
};

pub(crate) use state::State;

pub(crate) struct Nfs4 {
    pub shared: Rc<Shared>,
    pub state: Rc<State>,
}

/// Reads the front of arguments that may not be there to their end.
struct Front<'a>(&'a [u8]);

impl Front<'_> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }
}

/// Where the bytes of a WRITE are in a COMPOUND as clients send it: SEQUENCE, PUTFH, WRITE. None: not yet known.
fn payload_of_write(arguments: &[u8]) -> Option<Payload> {
    let mut front = Front(arguments);
    let tag = front.word()?;
    if tag > NFS4_OPAQUE_LIMIT {
        return Some(Payload::Nowhere);
    }
    front.skip(tag.next_multiple_of(4) as usize)?;
    // Minor version, number of operations.
    front.skip(8)?;
    loop {
        let operation = front.word()?;
        match nfs_opnum4::from_wire(operation as i32) {
            Some(nfs_opnum4::OP_SEQUENCE) => front.skip(16 + 4 * 4)?,
            Some(nfs_opnum4::OP_PUTFH) => {
                let handle = front.word()?;
                if handle > NFS4_FHSIZE {
                    return Some(Payload::Nowhere);
                }
                front.skip(handle.next_multiple_of(4) as usize)?;
            }
            Some(nfs_opnum4::OP_WRITE) => {
                // State, offset, how stable.
                front.skip(16 + 8 + 4)?;
                let length = front.word()? as usize;
                return Some(Payload::At {
                    start: arguments.len() - front.0.len(),
                    length,
                });
            }
            _ => return Some(Payload::Nowhere),
        }
    }
}

impl Program for Nfs4 {
    fn number(&self) -> u32 {
        NFS4_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        NFS_V4..=NFS_V4
    }

    fn payload(&self, _version: u32, procedure: u32, arguments: &[u8]) -> Payload {
        match procedure {
            NFSPROC4_COMPOUND::NUMBER => payload_of_write(arguments).unwrap_or(Payload::More),
            _ => Payload::Nowhere,
        }
    }

    fn call(&self, connection: &Connection, call: Call, to: Replier) {
        match call.procedure {
            NFSPROC4_NULL::NUMBER => to.serve::<NFSPROC4_NULL>(call, |()| ()),
            NFSPROC4_COMPOUND::NUMBER => {
                let caller = Caller {
                    shared: self.shared.clone(),
                    from: Origin::of(connection.peer()),
                    credential: call.credential,
                    client: None,
                };
                let (state, arguments) = (self.state.clone(), call.arguments);
                let work = compound::serve(state, (caller, connection.clone()), arguments, to);
                go(&self.shared, work);
            }
            _ => to.refuse(Refusal::Procedure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_xdr::Xdr;
    use weft_xdr::nfs4::*;

    #[test]
    fn the_bytes_of_a_write_are_found_as_soon_as_they_can_be() {
        for (tag, handle) in [(0, 36), (5, 33), (8, 128)] {
            let arguments = COMPOUND4args {
                tag: vec![b't'; tag].into(),
                minorversion: 1,
                argarray: vec![
                    nfs_argop4::OP_SEQUENCE(SEQUENCE4args {
                        sa_sessionid: [7; 16],
                        sa_sequenceid: 1,
                        sa_slotid: 2,
                        sa_highest_slotid: 3,
                        sa_cachethis: false,
                    }),
                    nfs_argop4::OP_PUTFH(PUTFH4args {
                        object: vec![9; handle].into(),
                    }),
                    nfs_argop4::OP_WRITE(WRITE4args {
                        stateid: stateid4 {
                            seqid: 1,
                            other: [3; 12],
                        },
                        offset: 7,
                        stable: stable_how4::UNSTABLE4,
                        data: Bytes::from_static(b"hello"),
                    }),
                ],
            };
            let bytes = arguments.to_bytes();
            let start = bytes.len() - 8;
            let found = Some(Payload::At { start, length: 5 });
            assert_eq!(payload_of_write(&bytes), found);
            assert_eq!(payload_of_write(&bytes[..start]), found);
            for length in 0..start {
                assert_eq!(payload_of_write(&bytes[..length]), None);
            }
        }
        assert_eq!(payload_of_write(&[0xff; 100]), Some(Payload::Nowhere));
    }
}
