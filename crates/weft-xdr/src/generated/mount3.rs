//! MOUNT, version 3 (RFC 1813, appendix I).
//!
//! Written by `cargo xtask xdr` from `x/mount3.x`: change these, not this.

#![allow(non_camel_case_types, missing_docs)]

use crate::{DecodeError, Decoder, Encoder, Procedure, Visitor, Xdr};
use bytes::Bytes;

pub const MNTPATHLEN: u32 = 1024;

pub const MNTNAMLEN: u32 = 255;

pub const FHSIZE3: u32 = 64;

/// At most 64 bytes.
pub type fhandle3 = Bytes;

/// At most 1024 bytes.
pub type dirpath = Bytes;

/// At most 255 bytes.
pub type name = Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum mountstat3 {
    MNT3_OK = 0,
    MNT3ERR_PERM = 1,
    MNT3ERR_NOENT = 2,
    MNT3ERR_IO = 5,
    MNT3ERR_ACCES = 13,
    MNT3ERR_NOTDIR = 20,
    MNT3ERR_INVAL = 22,
    MNT3ERR_NAMETOOLONG = 63,
    MNT3ERR_NOTSUPP = 10004,
    MNT3ERR_SERVERFAULT = 10006,
}

impl mountstat3 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<mountstat3> {
        Some(match value {
            0 => mountstat3::MNT3_OK,
            1 => mountstat3::MNT3ERR_PERM,
            2 => mountstat3::MNT3ERR_NOENT,
            5 => mountstat3::MNT3ERR_IO,
            13 => mountstat3::MNT3ERR_ACCES,
            20 => mountstat3::MNT3ERR_NOTDIR,
            22 => mountstat3::MNT3ERR_INVAL,
            63 => mountstat3::MNT3ERR_NAMETOOLONG,
            10004 => mountstat3::MNT3ERR_NOTSUPP,
            10006 => mountstat3::MNT3ERR_SERVERFAULT,
            _ => return None,
        })
    }
}

impl Xdr for mountstat3 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        mountstat3::from_wire(value).ok_or(DecodeError::Member {
            of: "mountstat3",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct mountres3_ok {
    pub fhandle: fhandle3,
    pub auth_flavors: Vec<i32>,
}

impl Xdr for mountres3_ok {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(64, &self.fhandle);
        out.vec(u32::MAX, &self.auth_flavors, |out, item| {
            out.i32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(mountres3_ok {
            fhandle: input.opaque(64)?,
            auth_flavors: input.vec(u32::MAX, 4, Decoder::i32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum mountres3 {
    MNT3_OK(mountres3_ok),
    /// Any other.
    default(mountstat3),
}

impl mountres3 {
    /// Which of them it is.
    pub fn fhs_status(&self) -> mountstat3 {
        match self {
            mountres3::MNT3_OK(_) => mountstat3::MNT3_OK,
            mountres3::default(other) => *other,
        }
    }
}

impl Xdr for mountres3 {
    fn encode(&self, out: &mut Encoder) {
        self.fhs_status().encode(out);
        match self {
            mountres3::MNT3_OK(it) => {
                it.encode(out);
            }
            mountres3::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match mountstat3::decode(input)? {
            mountstat3::MNT3_OK => mountres3::MNT3_OK(mountres3_ok::decode(input)?),
            other => mountres3::default(other),
        })
    }
}

pub type mountlist = Vec<mountbody>;

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct mountbody {
    pub ml_hostname: name,
    pub ml_directory: dirpath,
}

impl Xdr for mountbody {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(255, &self.ml_hostname);
        out.opaque(1024, &self.ml_directory);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(mountbody {
            ml_hostname: input.opaque(255)?,
            ml_directory: input.opaque(1024)?,
        })
    }
}

pub type groups = Vec<groupnode>;

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct groupnode {
    pub gr_name: name,
}

impl Xdr for groupnode {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(255, &self.gr_name);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(groupnode {
            gr_name: input.opaque(255)?,
        })
    }
}

pub type exports = Vec<exportnode>;

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct exportnode {
    pub ex_dir: dirpath,
    pub ex_groups: groups,
}

impl Xdr for exportnode {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(1024, &self.ex_dir);
        out.list(&self.ex_groups);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(exportnode {
            ex_dir: input.opaque(1024)?,
            ex_groups: input.list(groupnode::decode)?,
        })
    }
}

pub const MOUNT_PROGRAM: u32 = 100005;
pub const MOUNT_V3: u32 = 3;

pub struct MOUNTPROC3_NULL;

impl Procedure for MOUNTPROC3_NULL {
    const PROGRAM: u32 = MOUNT_PROGRAM;
    const VERSION: u32 = MOUNT_V3;
    const NUMBER: u32 = 0;
    const NAME: &'static str = "MOUNTPROC3_NULL";
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

pub struct MOUNTPROC3_MNT;

impl Procedure for MOUNTPROC3_MNT {
    const PROGRAM: u32 = MOUNT_PROGRAM;
    const VERSION: u32 = MOUNT_V3;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "MOUNTPROC3_MNT";
    type Arguments = dirpath;
    type Results = mountres3;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        out.opaque(1024, it);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        input.opaque(1024)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        mountres3::decode(input)
    }
}

pub struct MOUNTPROC3_DUMP;

impl Procedure for MOUNTPROC3_DUMP {
    const PROGRAM: u32 = MOUNT_PROGRAM;
    const VERSION: u32 = MOUNT_V3;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "MOUNTPROC3_DUMP";
    type Arguments = ();
    type Results = mountlist;

    fn encode_arguments(_: &Self::Arguments, _: &mut Encoder) {}

    fn decode_arguments(_: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        Ok(())
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        out.list(it);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        input.list(mountbody::decode)
    }
}

pub struct MOUNTPROC3_UMNT;

impl Procedure for MOUNTPROC3_UMNT {
    const PROGRAM: u32 = MOUNT_PROGRAM;
    const VERSION: u32 = MOUNT_V3;
    const NUMBER: u32 = 3;
    const NAME: &'static str = "MOUNTPROC3_UMNT";
    type Arguments = dirpath;
    type Results = ();

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        out.opaque(1024, it);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        input.opaque(1024)
    }

    fn encode_results(_: &Self::Results, _: &mut Encoder) {}

    fn decode_results(_: &mut Decoder) -> Result<Self::Results, DecodeError> {
        Ok(())
    }
}

pub struct MOUNTPROC3_UMNTALL;

impl Procedure for MOUNTPROC3_UMNTALL {
    const PROGRAM: u32 = MOUNT_PROGRAM;
    const VERSION: u32 = MOUNT_V3;
    const NUMBER: u32 = 4;
    const NAME: &'static str = "MOUNTPROC3_UMNTALL";
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

pub struct MOUNTPROC3_EXPORT;

impl Procedure for MOUNTPROC3_EXPORT {
    const PROGRAM: u32 = MOUNT_PROGRAM;
    const VERSION: u32 = MOUNT_V3;
    const NUMBER: u32 = 5;
    const NAME: &'static str = "MOUNTPROC3_EXPORT";
    type Arguments = ();
    type Results = exports;

    fn encode_arguments(_: &Self::Arguments, _: &mut Encoder) {}

    fn decode_arguments(_: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        Ok(())
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        out.list(it);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        input.list(exportnode::decode)
    }
}

/// Shows `visitor` the procedure with these numbers, if there is one.
pub fn visit<V: Visitor>(program: u32, version: u32, number: u32, visitor: V) -> Option<V::Output> {
    Some(match (program, version, number) {
        (MOUNTPROC3_NULL::PROGRAM, MOUNTPROC3_NULL::VERSION, MOUNTPROC3_NULL::NUMBER) => {
            visitor.visit::<MOUNTPROC3_NULL>()
        }
        (MOUNTPROC3_MNT::PROGRAM, MOUNTPROC3_MNT::VERSION, MOUNTPROC3_MNT::NUMBER) => {
            visitor.visit::<MOUNTPROC3_MNT>()
        }
        (MOUNTPROC3_DUMP::PROGRAM, MOUNTPROC3_DUMP::VERSION, MOUNTPROC3_DUMP::NUMBER) => {
            visitor.visit::<MOUNTPROC3_DUMP>()
        }
        (MOUNTPROC3_UMNT::PROGRAM, MOUNTPROC3_UMNT::VERSION, MOUNTPROC3_UMNT::NUMBER) => {
            visitor.visit::<MOUNTPROC3_UMNT>()
        }
        (MOUNTPROC3_UMNTALL::PROGRAM, MOUNTPROC3_UMNTALL::VERSION, MOUNTPROC3_UMNTALL::NUMBER) => {
            visitor.visit::<MOUNTPROC3_UMNTALL>()
        }
        (MOUNTPROC3_EXPORT::PROGRAM, MOUNTPROC3_EXPORT::VERSION, MOUNTPROC3_EXPORT::NUMBER) => {
            visitor.visit::<MOUNTPROC3_EXPORT>()
        }
        _ => return None,
    })
}
