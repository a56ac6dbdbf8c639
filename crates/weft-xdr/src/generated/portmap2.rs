//! Port mapper, version 2 (RFC 1833).
//!
//! Written by `cargo xtask xdr` from `x/portmap2.x`: change these, not this.

#![allow(non_camel_case_types, missing_docs)]

use crate::{DecodeError, Decoder, Encoder, Procedure, Visitor, Xdr};
use bytes::Bytes;

pub const PMAP_PORT: u32 = 111;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct mapping {
    pub prog: u32,
    pub vers: u32,
    pub prot: u32,
    pub port: u32,
}

impl Xdr for mapping {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.prog);
        out.u32(self.vers);
        out.u32(self.prot);
        out.u32(self.port);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(mapping {
            prog: input.u32()?,
            vers: input.u32()?,
            prot: input.u32()?,
            port: input.u32()?,
        })
    }
}

pub const IPPROTO_TCP: u32 = 6;

pub const IPPROTO_UDP: u32 = 17;

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct pmaplist_entry {
    pub map: mapping,
}

impl Xdr for pmaplist_entry {
    fn encode(&self, out: &mut Encoder) {
        self.map.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(pmaplist_entry {
            map: mapping::decode(input)?,
        })
    }
}

pub type pmaplist = Vec<pmaplist_entry>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct call_args {
    pub prog: u32,
    pub vers: u32,
    pub proc: u32,
    pub args: Bytes,
}

impl Xdr for call_args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.prog);
        out.u32(self.vers);
        out.u32(self.proc);
        out.opaque(u32::MAX, &self.args);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(call_args {
            prog: input.u32()?,
            vers: input.u32()?,
            proc: input.u32()?,
            args: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct call_result {
    pub port: u32,
    pub res: Bytes,
}

impl Xdr for call_result {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.port);
        out.opaque(u32::MAX, &self.res);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(call_result {
            port: input.u32()?,
            res: input.opaque(u32::MAX)?,
        })
    }
}

pub const PMAP_PROG: u32 = 100000;
pub const PMAP_VERS: u32 = 2;

pub struct PMAPPROC_NULL;

impl Procedure for PMAPPROC_NULL {
    const PROGRAM: u32 = PMAP_PROG;
    const VERSION: u32 = PMAP_VERS;
    const NUMBER: u32 = 0;
    const NAME: &'static str = "PMAPPROC_NULL";
    type Arguments = ();
    type Results = ();

    fn encode_arguments(_: &Self::Arguments, _: &mut Encoder) {}

    fn decode_arguments(_: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        Ok(())
    }

    fn encode_results(_: &Self::Results, _: &mut Encoder) {}

    fn decode_results(_: &mut Decoder) -> Result<Self::Results, DecodeError> {
        Ok(())
    }
}

pub struct PMAPPROC_SET;

impl Procedure for PMAPPROC_SET {
    const PROGRAM: u32 = PMAP_PROG;
    const VERSION: u32 = PMAP_VERS;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "PMAPPROC_SET";
    type Arguments = mapping;
    type Results = bool;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        mapping::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        out.bool(*it);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        input.bool()
    }
}

pub struct PMAPPROC_UNSET;

impl Procedure for PMAPPROC_UNSET {
    const PROGRAM: u32 = PMAP_PROG;
    const VERSION: u32 = PMAP_VERS;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "PMAPPROC_UNSET";
    type Arguments = mapping;
    type Results = bool;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        mapping::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        out.bool(*it);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        input.bool()
    }
}

pub struct PMAPPROC_GETPORT;

impl Procedure for PMAPPROC_GETPORT {
    const PROGRAM: u32 = PMAP_PROG;
    const VERSION: u32 = PMAP_VERS;
    const NUMBER: u32 = 3;
    const NAME: &'static str = "PMAPPROC_GETPORT";
    type Arguments = mapping;
    type Results = u32;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        mapping::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        out.u32(*it);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        input.u32()
    }
}

pub struct PMAPPROC_DUMP;

impl Procedure for PMAPPROC_DUMP {
    const PROGRAM: u32 = PMAP_PROG;
    const VERSION: u32 = PMAP_VERS;
    const NUMBER: u32 = 4;
    const NAME: &'static str = "PMAPPROC_DUMP";
    type Arguments = ();
    type Results = pmaplist;

    fn encode_arguments(_: &Self::Arguments, _: &mut Encoder) {}

    fn decode_arguments(_: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        Ok(())
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        out.list(it);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        input.list(pmaplist_entry::decode)
    }
}

pub struct PMAPPROC_CALLIT;

impl Procedure for PMAPPROC_CALLIT {
    const PROGRAM: u32 = PMAP_PROG;
    const VERSION: u32 = PMAP_VERS;
    const NUMBER: u32 = 5;
    const NAME: &'static str = "PMAPPROC_CALLIT";
    type Arguments = call_args;
    type Results = call_result;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        call_args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        call_result::decode(input)
    }
}

/// Shows `visitor` the procedure with these numbers, if there is one.
pub fn visit<V: Visitor>(program: u32, version: u32, number: u32, visitor: V) -> Option<V::Output> {
    Some(match (program, version, number) {
        (PMAPPROC_NULL::PROGRAM, PMAPPROC_NULL::VERSION, PMAPPROC_NULL::NUMBER) => {
            visitor.visit::<PMAPPROC_NULL>()
        }
        (PMAPPROC_SET::PROGRAM, PMAPPROC_SET::VERSION, PMAPPROC_SET::NUMBER) => {
            visitor.visit::<PMAPPROC_SET>()
        }
        (PMAPPROC_UNSET::PROGRAM, PMAPPROC_UNSET::VERSION, PMAPPROC_UNSET::NUMBER) => {
            visitor.visit::<PMAPPROC_UNSET>()
        }
        (PMAPPROC_GETPORT::PROGRAM, PMAPPROC_GETPORT::VERSION, PMAPPROC_GETPORT::NUMBER) => {
            visitor.visit::<PMAPPROC_GETPORT>()
        }
        (PMAPPROC_DUMP::PROGRAM, PMAPPROC_DUMP::VERSION, PMAPPROC_DUMP::NUMBER) => {
            visitor.visit::<PMAPPROC_DUMP>()
        }
        (PMAPPROC_CALLIT::PROGRAM, PMAPPROC_CALLIT::VERSION, PMAPPROC_CALLIT::NUMBER) => {
            visitor.visit::<PMAPPROC_CALLIT>()
        }
        _ => return None,
    })
}
