//! The port mapper's questions, for clients that ask them at the port that they know. Nothing is ever registered here,
//! nor with a real one.

use crate::gateway::Shared;
use std::ops::RangeInclusive;
use std::rc::Rc;
use weft_oncrpc::{Call, Connection, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::mount3::{MOUNT_PROGRAM, MOUNT_V3};
use weft_xdr::nfs3::{NFS_PROGRAM, NFS_V3};
use weft_xdr::portmap2::*;

/// Programs of the gateway's port, with their versions.
const SERVED: [(u32, u32); 2] = [(NFS_PROGRAM, NFS_V3), (MOUNT_PROGRAM, MOUNT_V3)];

pub(crate) struct Portmap(pub Rc<Shared>);

impl Portmap {
    fn port_of(&self, asked: &mapping) -> u32 {
        let is_served = asked.prot == IPPROTO_TCP
            && SERVED
                .iter()
                .any(|(program, version)| *program == asked.prog && *version == asked.vers);
        match is_served {
            true => u32::from(self.0.port.get()),
            false => 0,
        }
    }

    fn all(&self) -> Vec<pmaplist_entry> {
        let served = SERVED.iter().map(|(program, version)| pmaplist_entry {
            map: mapping {
                prog: *program,
                vers: *version,
                prot: IPPROTO_TCP,
                port: u32::from(self.0.port.get()),
            },
        });
        served.collect()
    }
}

impl Program for Portmap {
    fn number(&self) -> u32 {
        PMAP_PROG
    }

    fn versions(&self) -> RangeInclusive<u32> {
        PMAP_VERS..=PMAP_VERS
    }

    fn call(&self, _connection: &Connection, call: Call, replier: Replier) {
        match call.procedure {
            PMAPPROC_NULL::NUMBER => replier.serve::<PMAPPROC_NULL>(call, |()| ()),
            PMAPPROC_GETPORT::NUMBER => {
                replier.serve::<PMAPPROC_GETPORT>(call, |asked| self.port_of(&asked));
            }
            PMAPPROC_DUMP::NUMBER => replier.serve::<PMAPPROC_DUMP>(call, |()| self.all()),
            // Nobody else's programs are at this port.
            PMAPPROC_SET::NUMBER => replier.serve::<PMAPPROC_SET>(call, |_| false),
            PMAPPROC_UNSET::NUMBER => replier.serve::<PMAPPROC_UNSET>(call, |_| false),
            _ => replier.refuse(Refusal::Procedure),
        }
    }
}
