//! The port mapper, version 2 (RFC 1833), as far as clients ask it: where a program is.
//!
//! It answers for the gateway's own programs only and lets nobody register. It never asks another port mapper for
//! anything, and registers nowhere.

use std::ops::RangeInclusive;
use weft_oncrpc::{Call, Connection, Program, Refusal, Replier};
use weft_xdr::Procedure;
use weft_xdr::portmap2::*;

/// A version of a program and the TCP port where it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The program's number.
    pub program: u32,
    /// The version.
    pub version: u32,
    /// The port.
    pub port: u16,
}

/// The port mapper as a program.
pub struct Portmap2 {
    served: Vec<Served>,
}

impl Portmap2 {
    /// That knows of these.
    pub fn new(served: Vec<Served>) -> Portmap2 {
        Portmap2 { served }
    }

    /// 0: not served. Of a version that is not served, the port of another: the program itself then says which
    /// versions there are.
    fn port(&self, wanted: &mapping) -> u32 {
        if wanted.prot != IPPROTO_TCP {
            return 0;
        }
        let of_program = || self.served.iter().filter(|its| its.program == wanted.prog);
        let exact = of_program().find(|its| its.version == wanted.vers);
        exact
            .or_else(|| of_program().next())
            .map_or(0, |its| u32::from(its.port))
    }
}

impl Program for Portmap2 {
    fn number(&self) -> u32 {
        PMAP_PROG
    }

    fn versions(&self) -> RangeInclusive<u32> {
        PMAP_VERS..=PMAP_VERS
    }

    fn call(&self, _connection: &Connection, call: Call, replier: Replier) {
        match call.procedure {
            PMAPPROC_NULL::NUMBER => replier.serve::<PMAPPROC_NULL>(call, |()| ()),
            PMAPPROC_SET::NUMBER => replier.serve::<PMAPPROC_SET>(call, |_| false),
            PMAPPROC_UNSET::NUMBER => replier.serve::<PMAPPROC_UNSET>(call, |_| false),
            PMAPPROC_GETPORT::NUMBER => {
                replier.serve::<PMAPPROC_GETPORT>(call, |wanted| self.port(&wanted));
            }
            PMAPPROC_DUMP::NUMBER => replier.serve::<PMAPPROC_DUMP>(call, |()| {
                let entries = self.served.iter().map(|its| pmaplist_entry {
                    map: mapping {
                        prog: its.program,
                        vers: its.version,
                        prot: IPPROTO_TCP,
                        port: u32::from(its.port),
                    },
                });
                entries.collect()
            }),
            // CALLIT would let anybody call through us.
            _ => replier.refuse(Refusal::Procedure),
        }
    }
}
