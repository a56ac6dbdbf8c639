//! NFS, version 3 (RFC 1813).
//!
//! Written by `cargo xtask xdr` from `x/nfs3.x`: change these, not this.

#![allow(non_camel_case_types, missing_docs)]

use crate::{DecodeError, Decoder, Encoder, Procedure, Visitor, Xdr};
use bytes::Bytes;

pub const NFS3_FHSIZE: u32 = 64;

pub const NFS3_COOKIEVERFSIZE: u32 = 8;

pub const NFS3_CREATEVERFSIZE: u32 = 8;

pub const NFS3_WRITEVERFSIZE: u32 = 8;

pub type uint64 = u64;

pub type int64 = i64;

pub type uint32 = u32;

pub type int32 = i32;

pub type filename3 = Bytes;

pub type nfspath3 = Bytes;

pub type fileid3 = uint64;

pub type cookie3 = uint64;

pub type cookieverf3 = [u8; 8];

pub type createverf3 = [u8; 8];

pub type writeverf3 = [u8; 8];

pub type uid3 = uint32;

pub type gid3 = uint32;

pub type size3 = uint64;

pub type offset3 = uint64;

pub type mode3 = uint32;

pub type count3 = uint32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum nfsstat3 {
    NFS3_OK = 0,
    NFS3ERR_PERM = 1,
    NFS3ERR_NOENT = 2,
    NFS3ERR_IO = 5,
    NFS3ERR_NXIO = 6,
    NFS3ERR_ACCES = 13,
    NFS3ERR_EXIST = 17,
    NFS3ERR_XDEV = 18,
    NFS3ERR_NODEV = 19,
    NFS3ERR_NOTDIR = 20,
    NFS3ERR_ISDIR = 21,
    NFS3ERR_INVAL = 22,
    NFS3ERR_FBIG = 27,
    NFS3ERR_NOSPC = 28,
    NFS3ERR_ROFS = 30,
    NFS3ERR_MLINK = 31,
    NFS3ERR_NAMETOOLONG = 63,
    NFS3ERR_NOTEMPTY = 66,
    NFS3ERR_DQUOT = 69,
    NFS3ERR_STALE = 70,
    NFS3ERR_REMOTE = 71,
    NFS3ERR_BADHANDLE = 10001,
    NFS3ERR_NOT_SYNC = 10002,
    NFS3ERR_BAD_COOKIE = 10003,
    NFS3ERR_NOTSUPP = 10004,
    NFS3ERR_TOOSMALL = 10005,
    NFS3ERR_SERVERFAULT = 10006,
    NFS3ERR_BADTYPE = 10007,
    NFS3ERR_JUKEBOX = 10008,
}

impl nfsstat3 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<nfsstat3> {
        Some(match value {
            0 => nfsstat3::NFS3_OK,
            1 => nfsstat3::NFS3ERR_PERM,
            2 => nfsstat3::NFS3ERR_NOENT,
            5 => nfsstat3::NFS3ERR_IO,
            6 => nfsstat3::NFS3ERR_NXIO,
            13 => nfsstat3::NFS3ERR_ACCES,
            17 => nfsstat3::NFS3ERR_EXIST,
            18 => nfsstat3::NFS3ERR_XDEV,
            19 => nfsstat3::NFS3ERR_NODEV,
            20 => nfsstat3::NFS3ERR_NOTDIR,
            21 => nfsstat3::NFS3ERR_ISDIR,
            22 => nfsstat3::NFS3ERR_INVAL,
            27 => nfsstat3::NFS3ERR_FBIG,
            28 => nfsstat3::NFS3ERR_NOSPC,
            30 => nfsstat3::NFS3ERR_ROFS,
            31 => nfsstat3::NFS3ERR_MLINK,
            63 => nfsstat3::NFS3ERR_NAMETOOLONG,
            66 => nfsstat3::NFS3ERR_NOTEMPTY,
            69 => nfsstat3::NFS3ERR_DQUOT,
            70 => nfsstat3::NFS3ERR_STALE,
            71 => nfsstat3::NFS3ERR_REMOTE,
            10001 => nfsstat3::NFS3ERR_BADHANDLE,
            10002 => nfsstat3::NFS3ERR_NOT_SYNC,
            10003 => nfsstat3::NFS3ERR_BAD_COOKIE,
            10004 => nfsstat3::NFS3ERR_NOTSUPP,
            10005 => nfsstat3::NFS3ERR_TOOSMALL,
            10006 => nfsstat3::NFS3ERR_SERVERFAULT,
            10007 => nfsstat3::NFS3ERR_BADTYPE,
            10008 => nfsstat3::NFS3ERR_JUKEBOX,
            _ => return None,
        })
    }
}

impl Xdr for nfsstat3 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        nfsstat3::from_wire(value).ok_or(DecodeError::Member {
            of: "nfsstat3",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum ftype3 {
    NF3REG = 1,
    NF3DIR = 2,
    NF3BLK = 3,
    NF3CHR = 4,
    NF3LNK = 5,
    NF3SOCK = 6,
    NF3FIFO = 7,
}

impl ftype3 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<ftype3> {
        Some(match value {
            1 => ftype3::NF3REG,
            2 => ftype3::NF3DIR,
            3 => ftype3::NF3BLK,
            4 => ftype3::NF3CHR,
            5 => ftype3::NF3LNK,
            6 => ftype3::NF3SOCK,
            7 => ftype3::NF3FIFO,
            _ => return None,
        })
    }
}

impl Xdr for ftype3 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        ftype3::from_wire(value).ok_or(DecodeError::Member {
            of: "ftype3",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct specdata3 {
    pub specdata1: uint32,
    pub specdata2: uint32,
}

impl Xdr for specdata3 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.specdata1);
        out.u32(self.specdata2);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(specdata3 {
            specdata1: input.u32()?,
            specdata2: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfs_fh3 {
    /// At most 64 bytes.
    pub data: Bytes,
}

impl Xdr for nfs_fh3 {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(64, &self.data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfs_fh3 {
            data: input.opaque(64)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfstime3 {
    pub seconds: uint32,
    pub nseconds: uint32,
}

impl Xdr for nfstime3 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.seconds);
        out.u32(self.nseconds);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfstime3 {
            seconds: input.u32()?,
            nseconds: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fattr3 {
    pub r#type: ftype3,
    pub mode: mode3,
    pub nlink: uint32,
    pub uid: uid3,
    pub gid: gid3,
    pub size: size3,
    pub used: size3,
    pub rdev: specdata3,
    pub fsid: uint64,
    pub fileid: fileid3,
    pub atime: nfstime3,
    pub mtime: nfstime3,
    pub ctime: nfstime3,
}

impl Xdr for fattr3 {
    fn encode(&self, out: &mut Encoder) {
        self.r#type.encode(out);
        out.u32(self.mode);
        out.u32(self.nlink);
        out.u32(self.uid);
        out.u32(self.gid);
        out.u64(self.size);
        out.u64(self.used);
        self.rdev.encode(out);
        out.u64(self.fsid);
        out.u64(self.fileid);
        self.atime.encode(out);
        self.mtime.encode(out);
        self.ctime.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fattr3 {
            r#type: ftype3::decode(input)?,
            mode: input.u32()?,
            nlink: input.u32()?,
            uid: input.u32()?,
            gid: input.u32()?,
            size: input.u64()?,
            used: input.u64()?,
            rdev: specdata3::decode(input)?,
            fsid: input.u64()?,
            fileid: input.u64()?,
            atime: nfstime3::decode(input)?,
            mtime: nfstime3::decode(input)?,
            ctime: nfstime3::decode(input)?,
        })
    }
}

/// `attributes_follow`: there or not.
pub type post_op_attr = Option<fattr3>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct wcc_attr {
    pub size: size3,
    pub mtime: nfstime3,
    pub ctime: nfstime3,
}

impl Xdr for wcc_attr {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.size);
        self.mtime.encode(out);
        self.ctime.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(wcc_attr {
            size: input.u64()?,
            mtime: nfstime3::decode(input)?,
            ctime: nfstime3::decode(input)?,
        })
    }
}

/// `attributes_follow`: there or not.
pub type pre_op_attr = Option<wcc_attr>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct wcc_data {
    pub before: pre_op_attr,
    pub after: post_op_attr,
}

impl Xdr for wcc_data {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.before.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.after.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(wcc_data {
            before: input.option(wcc_attr::decode)?,
            after: input.option(fattr3::decode)?,
        })
    }
}

/// `handle_follows`: there or not.
pub type post_op_fh3 = Option<nfs_fh3>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum time_how {
    DONT_CHANGE = 0,
    SET_TO_SERVER_TIME = 1,
    SET_TO_CLIENT_TIME = 2,
}

impl time_how {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<time_how> {
        Some(match value {
            0 => time_how::DONT_CHANGE,
            1 => time_how::SET_TO_SERVER_TIME,
            2 => time_how::SET_TO_CLIENT_TIME,
            _ => return None,
        })
    }
}

impl Xdr for time_how {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        time_how::from_wire(value).ok_or(DecodeError::Member {
            of: "time_how",
            value,
        })
    }
}

/// `set_it`: there or not.
pub type set_mode3 = Option<mode3>;

/// `set_it`: there or not.
pub type set_uid3 = Option<uid3>;

/// `set_it`: there or not.
pub type set_gid3 = Option<gid3>;

/// `set_it`: there or not.
pub type set_size3 = Option<size3>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum set_atime {
    SET_TO_CLIENT_TIME(nfstime3),
    /// Any other.
    default(time_how),
}

impl set_atime {
    /// Which of them it is.
    pub fn set_it(&self) -> time_how {
        match self {
            set_atime::SET_TO_CLIENT_TIME(_) => time_how::SET_TO_CLIENT_TIME,
            set_atime::default(other) => *other,
        }
    }
}

impl Xdr for set_atime {
    fn encode(&self, out: &mut Encoder) {
        self.set_it().encode(out);
        match self {
            set_atime::SET_TO_CLIENT_TIME(it) => {
                it.encode(out);
            }
            set_atime::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match time_how::decode(input)? {
            time_how::SET_TO_CLIENT_TIME => set_atime::SET_TO_CLIENT_TIME(nfstime3::decode(input)?),
            other => set_atime::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum set_mtime {
    SET_TO_CLIENT_TIME(nfstime3),
    /// Any other.
    default(time_how),
}

impl set_mtime {
    /// Which of them it is.
    pub fn set_it(&self) -> time_how {
        match self {
            set_mtime::SET_TO_CLIENT_TIME(_) => time_how::SET_TO_CLIENT_TIME,
            set_mtime::default(other) => *other,
        }
    }
}

impl Xdr for set_mtime {
    fn encode(&self, out: &mut Encoder) {
        self.set_it().encode(out);
        match self {
            set_mtime::SET_TO_CLIENT_TIME(it) => {
                it.encode(out);
            }
            set_mtime::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match time_how::decode(input)? {
            time_how::SET_TO_CLIENT_TIME => set_mtime::SET_TO_CLIENT_TIME(nfstime3::decode(input)?),
            other => set_mtime::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct sattr3 {
    pub mode: set_mode3,
    pub uid: set_uid3,
    pub gid: set_gid3,
    pub size: set_size3,
    pub atime: set_atime,
    pub mtime: set_mtime,
}

impl Xdr for sattr3 {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.mode.as_ref(), |out, item| {
            out.u32(*item);
        });
        out.option(self.uid.as_ref(), |out, item| {
            out.u32(*item);
        });
        out.option(self.gid.as_ref(), |out, item| {
            out.u32(*item);
        });
        out.option(self.size.as_ref(), |out, item| {
            out.u64(*item);
        });
        self.atime.encode(out);
        self.mtime.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(sattr3 {
            mode: input.option(Decoder::u32)?,
            uid: input.option(Decoder::u32)?,
            gid: input.option(Decoder::u32)?,
            size: input.option(Decoder::u64)?,
            atime: set_atime::decode(input)?,
            mtime: set_mtime::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct diropargs3 {
    pub dir: nfs_fh3,
    pub name: filename3,
}

impl Xdr for diropargs3 {
    fn encode(&self, out: &mut Encoder) {
        self.dir.encode(out);
        out.opaque(u32::MAX, &self.name);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(diropargs3 {
            dir: nfs_fh3::decode(input)?,
            name: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETATTR3args {
    pub object: nfs_fh3,
}

impl Xdr for GETATTR3args {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETATTR3args {
            object: nfs_fh3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETATTR3resok {
    pub obj_attributes: fattr3,
}

impl Xdr for GETATTR3resok {
    fn encode(&self, out: &mut Encoder) {
        self.obj_attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETATTR3resok {
            obj_attributes: fattr3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GETATTR3res {
    NFS3_OK(GETATTR3resok),
    /// Any other.
    default(nfsstat3),
}

impl GETATTR3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            GETATTR3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            GETATTR3res::default(other) => *other,
        }
    }
}

impl Xdr for GETATTR3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            GETATTR3res::NFS3_OK(it) => {
                it.encode(out);
            }
            GETATTR3res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => GETATTR3res::NFS3_OK(GETATTR3resok::decode(input)?),
            other => GETATTR3res::default(other),
        })
    }
}

/// `check`: there or not.
pub type sattrguard3 = Option<nfstime3>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETATTR3args {
    pub object: nfs_fh3,
    pub new_attributes: sattr3,
    pub guard: sattrguard3,
}

impl Xdr for SETATTR3args {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
        self.new_attributes.encode(out);
        out.option(self.guard.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETATTR3args {
            object: nfs_fh3::decode(input)?,
            new_attributes: sattr3::decode(input)?,
            guard: input.option(nfstime3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETATTR3resok {
    pub obj_wcc: wcc_data,
}

impl Xdr for SETATTR3resok {
    fn encode(&self, out: &mut Encoder) {
        self.obj_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETATTR3resok {
            obj_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETATTR3resfail {
    pub obj_wcc: wcc_data,
}

impl Xdr for SETATTR3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.obj_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETATTR3resfail {
            obj_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SETATTR3res {
    NFS3_OK(SETATTR3resok),
    /// Any other.
    default(nfsstat3, SETATTR3resfail),
}

impl SETATTR3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            SETATTR3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            SETATTR3res::default(other, _) => *other,
        }
    }
}

impl Xdr for SETATTR3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            SETATTR3res::NFS3_OK(it) => {
                it.encode(out);
            }
            SETATTR3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => SETATTR3res::NFS3_OK(SETATTR3resok::decode(input)?),
            other => SETATTR3res::default(other, SETATTR3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOOKUP3args {
    pub what: diropargs3,
}

impl Xdr for LOOKUP3args {
    fn encode(&self, out: &mut Encoder) {
        self.what.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOOKUP3args {
            what: diropargs3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOOKUP3resok {
    pub object: nfs_fh3,
    pub obj_attributes: post_op_attr,
    pub dir_attributes: post_op_attr,
}

impl Xdr for LOOKUP3resok {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.dir_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOOKUP3resok {
            object: nfs_fh3::decode(input)?,
            obj_attributes: input.option(fattr3::decode)?,
            dir_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOOKUP3resfail {
    pub dir_attributes: post_op_attr,
}

impl Xdr for LOOKUP3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.dir_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOOKUP3resfail {
            dir_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LOOKUP3res {
    NFS3_OK(LOOKUP3resok),
    /// Any other.
    default(nfsstat3, LOOKUP3resfail),
}

impl LOOKUP3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            LOOKUP3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            LOOKUP3res::default(other, _) => *other,
        }
    }
}

impl Xdr for LOOKUP3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            LOOKUP3res::NFS3_OK(it) => {
                it.encode(out);
            }
            LOOKUP3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => LOOKUP3res::NFS3_OK(LOOKUP3resok::decode(input)?),
            other => LOOKUP3res::default(other, LOOKUP3resfail::decode(input)?),
        })
    }
}

pub const ACCESS3_READ: u32 = 1;

pub const ACCESS3_LOOKUP: u32 = 2;

pub const ACCESS3_MODIFY: u32 = 4;

pub const ACCESS3_EXTEND: u32 = 8;

pub const ACCESS3_DELETE: u32 = 16;

pub const ACCESS3_EXECUTE: u32 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ACCESS3args {
    pub object: nfs_fh3,
    pub access: uint32,
}

impl Xdr for ACCESS3args {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
        out.u32(self.access);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ACCESS3args {
            object: nfs_fh3::decode(input)?,
            access: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ACCESS3resok {
    pub obj_attributes: post_op_attr,
    pub access: uint32,
}

impl Xdr for ACCESS3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.u32(self.access);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ACCESS3resok {
            obj_attributes: input.option(fattr3::decode)?,
            access: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ACCESS3resfail {
    pub obj_attributes: post_op_attr,
}

impl Xdr for ACCESS3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ACCESS3resfail {
            obj_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ACCESS3res {
    NFS3_OK(ACCESS3resok),
    /// Any other.
    default(nfsstat3, ACCESS3resfail),
}

impl ACCESS3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            ACCESS3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            ACCESS3res::default(other, _) => *other,
        }
    }
}

impl Xdr for ACCESS3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            ACCESS3res::NFS3_OK(it) => {
                it.encode(out);
            }
            ACCESS3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => ACCESS3res::NFS3_OK(ACCESS3resok::decode(input)?),
            other => ACCESS3res::default(other, ACCESS3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READLINK3args {
    pub symlink: nfs_fh3,
}

impl Xdr for READLINK3args {
    fn encode(&self, out: &mut Encoder) {
        self.symlink.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READLINK3args {
            symlink: nfs_fh3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READLINK3resok {
    pub symlink_attributes: post_op_attr,
    pub data: nfspath3,
}

impl Xdr for READLINK3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.symlink_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.opaque(u32::MAX, &self.data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READLINK3resok {
            symlink_attributes: input.option(fattr3::decode)?,
            data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READLINK3resfail {
    pub symlink_attributes: post_op_attr,
}

impl Xdr for READLINK3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.symlink_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READLINK3resfail {
            symlink_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READLINK3res {
    NFS3_OK(READLINK3resok),
    /// Any other.
    default(nfsstat3, READLINK3resfail),
}

impl READLINK3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            READLINK3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            READLINK3res::default(other, _) => *other,
        }
    }
}

impl Xdr for READLINK3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READLINK3res::NFS3_OK(it) => {
                it.encode(out);
            }
            READLINK3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => READLINK3res::NFS3_OK(READLINK3resok::decode(input)?),
            other => READLINK3res::default(other, READLINK3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READ3args {
    pub file: nfs_fh3,
    pub offset: offset3,
    pub count: count3,
}

impl Xdr for READ3args {
    fn encode(&self, out: &mut Encoder) {
        self.file.encode(out);
        out.u64(self.offset);
        out.u32(self.count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READ3args {
            file: nfs_fh3::decode(input)?,
            offset: input.u64()?,
            count: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READ3resok {
    pub file_attributes: post_op_attr,
    pub count: count3,
    pub eof: bool,
    pub data: Bytes,
}

impl Xdr for READ3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.file_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.u32(self.count);
        out.bool(self.eof);
        out.opaque(u32::MAX, &self.data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READ3resok {
            file_attributes: input.option(fattr3::decode)?,
            count: input.u32()?,
            eof: input.bool()?,
            data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READ3resfail {
    pub file_attributes: post_op_attr,
}

impl Xdr for READ3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.file_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READ3resfail {
            file_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READ3res {
    NFS3_OK(READ3resok),
    /// Any other.
    default(nfsstat3, READ3resfail),
}

impl READ3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            READ3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            READ3res::default(other, _) => *other,
        }
    }
}

impl Xdr for READ3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READ3res::NFS3_OK(it) => {
                it.encode(out);
            }
            READ3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => READ3res::NFS3_OK(READ3resok::decode(input)?),
            other => READ3res::default(other, READ3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum stable_how {
    UNSTABLE = 0,
    DATA_SYNC = 1,
    FILE_SYNC = 2,
}

impl stable_how {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<stable_how> {
        Some(match value {
            0 => stable_how::UNSTABLE,
            1 => stable_how::DATA_SYNC,
            2 => stable_how::FILE_SYNC,
            _ => return None,
        })
    }
}

impl Xdr for stable_how {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        stable_how::from_wire(value).ok_or(DecodeError::Member {
            of: "stable_how",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WRITE3args {
    pub file: nfs_fh3,
    pub offset: offset3,
    pub count: count3,
    pub stable: stable_how,
    pub data: Bytes,
}

impl Xdr for WRITE3args {
    fn encode(&self, out: &mut Encoder) {
        self.file.encode(out);
        out.u64(self.offset);
        out.u32(self.count);
        self.stable.encode(out);
        out.opaque(u32::MAX, &self.data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WRITE3args {
            file: nfs_fh3::decode(input)?,
            offset: input.u64()?,
            count: input.u32()?,
            stable: stable_how::decode(input)?,
            data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WRITE3resok {
    pub file_wcc: wcc_data,
    pub count: count3,
    pub committed: stable_how,
    pub verf: writeverf3,
}

impl Xdr for WRITE3resok {
    fn encode(&self, out: &mut Encoder) {
        self.file_wcc.encode(out);
        out.u32(self.count);
        self.committed.encode(out);
        out.fixed(&self.verf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WRITE3resok {
            file_wcc: wcc_data::decode(input)?,
            count: input.u32()?,
            committed: stable_how::decode(input)?,
            verf: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WRITE3resfail {
    pub file_wcc: wcc_data,
}

impl Xdr for WRITE3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.file_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WRITE3resfail {
            file_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WRITE3res {
    NFS3_OK(WRITE3resok),
    /// Any other.
    default(nfsstat3, WRITE3resfail),
}

impl WRITE3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            WRITE3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            WRITE3res::default(other, _) => *other,
        }
    }
}

impl Xdr for WRITE3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            WRITE3res::NFS3_OK(it) => {
                it.encode(out);
            }
            WRITE3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => WRITE3res::NFS3_OK(WRITE3resok::decode(input)?),
            other => WRITE3res::default(other, WRITE3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum createmode3 {
    UNCHECKED = 0,
    GUARDED = 1,
    EXCLUSIVE = 2,
}

impl createmode3 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<createmode3> {
        Some(match value {
            0 => createmode3::UNCHECKED,
            1 => createmode3::GUARDED,
            2 => createmode3::EXCLUSIVE,
            _ => return None,
        })
    }
}

impl Xdr for createmode3 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        createmode3::from_wire(value).ok_or(DecodeError::Member {
            of: "createmode3",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum createhow3 {
    UNCHECKED(sattr3),
    GUARDED(sattr3),
    EXCLUSIVE(createverf3),
}

impl createhow3 {
    /// Which of them it is.
    pub fn mode(&self) -> createmode3 {
        match self {
            createhow3::UNCHECKED(_) => createmode3::UNCHECKED,
            createhow3::GUARDED(_) => createmode3::GUARDED,
            createhow3::EXCLUSIVE(_) => createmode3::EXCLUSIVE,
        }
    }
}

impl Xdr for createhow3 {
    fn encode(&self, out: &mut Encoder) {
        self.mode().encode(out);
        match self {
            createhow3::UNCHECKED(it) => {
                it.encode(out);
            }
            createhow3::GUARDED(it) => {
                it.encode(out);
            }
            createhow3::EXCLUSIVE(it) => {
                out.fixed(it);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match createmode3::decode(input)? {
            createmode3::UNCHECKED => createhow3::UNCHECKED(sattr3::decode(input)?),
            createmode3::GUARDED => createhow3::GUARDED(sattr3::decode(input)?),
            createmode3::EXCLUSIVE => createhow3::EXCLUSIVE(input.fixed::<8>()?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE3args {
    pub r#where: diropargs3,
    pub how: createhow3,
}

impl Xdr for CREATE3args {
    fn encode(&self, out: &mut Encoder) {
        self.r#where.encode(out);
        self.how.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE3args {
            r#where: diropargs3::decode(input)?,
            how: createhow3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE3resok {
    pub obj: post_op_fh3,
    pub obj_attributes: post_op_attr,
    pub dir_wcc: wcc_data,
}

impl Xdr for CREATE3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE3resok {
            obj: input.option(nfs_fh3::decode)?,
            obj_attributes: input.option(fattr3::decode)?,
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE3resfail {
    pub dir_wcc: wcc_data,
}

impl Xdr for CREATE3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE3resfail {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CREATE3res {
    NFS3_OK(CREATE3resok),
    /// Any other.
    default(nfsstat3, CREATE3resfail),
}

impl CREATE3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            CREATE3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            CREATE3res::default(other, _) => *other,
        }
    }
}

impl Xdr for CREATE3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            CREATE3res::NFS3_OK(it) => {
                it.encode(out);
            }
            CREATE3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => CREATE3res::NFS3_OK(CREATE3resok::decode(input)?),
            other => CREATE3res::default(other, CREATE3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MKDIR3args {
    pub r#where: diropargs3,
    pub attributes: sattr3,
}

impl Xdr for MKDIR3args {
    fn encode(&self, out: &mut Encoder) {
        self.r#where.encode(out);
        self.attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(MKDIR3args {
            r#where: diropargs3::decode(input)?,
            attributes: sattr3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MKDIR3resok {
    pub obj: post_op_fh3,
    pub obj_attributes: post_op_attr,
    pub dir_wcc: wcc_data,
}

impl Xdr for MKDIR3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(MKDIR3resok {
            obj: input.option(nfs_fh3::decode)?,
            obj_attributes: input.option(fattr3::decode)?,
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MKDIR3resfail {
    pub dir_wcc: wcc_data,
}

impl Xdr for MKDIR3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(MKDIR3resfail {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MKDIR3res {
    NFS3_OK(MKDIR3resok),
    /// Any other.
    default(nfsstat3, MKDIR3resfail),
}

impl MKDIR3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            MKDIR3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            MKDIR3res::default(other, _) => *other,
        }
    }
}

impl Xdr for MKDIR3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            MKDIR3res::NFS3_OK(it) => {
                it.encode(out);
            }
            MKDIR3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => MKDIR3res::NFS3_OK(MKDIR3resok::decode(input)?),
            other => MKDIR3res::default(other, MKDIR3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct symlinkdata3 {
    pub symlink_attributes: sattr3,
    pub symlink_data: nfspath3,
}

impl Xdr for symlinkdata3 {
    fn encode(&self, out: &mut Encoder) {
        self.symlink_attributes.encode(out);
        out.opaque(u32::MAX, &self.symlink_data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(symlinkdata3 {
            symlink_attributes: sattr3::decode(input)?,
            symlink_data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SYMLINK3args {
    pub r#where: diropargs3,
    pub symlink: symlinkdata3,
}

impl Xdr for SYMLINK3args {
    fn encode(&self, out: &mut Encoder) {
        self.r#where.encode(out);
        self.symlink.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SYMLINK3args {
            r#where: diropargs3::decode(input)?,
            symlink: symlinkdata3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SYMLINK3resok {
    pub obj: post_op_fh3,
    pub obj_attributes: post_op_attr,
    pub dir_wcc: wcc_data,
}

impl Xdr for SYMLINK3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SYMLINK3resok {
            obj: input.option(nfs_fh3::decode)?,
            obj_attributes: input.option(fattr3::decode)?,
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SYMLINK3resfail {
    pub dir_wcc: wcc_data,
}

impl Xdr for SYMLINK3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SYMLINK3resfail {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SYMLINK3res {
    NFS3_OK(SYMLINK3resok),
    /// Any other.
    default(nfsstat3, SYMLINK3resfail),
}

impl SYMLINK3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            SYMLINK3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            SYMLINK3res::default(other, _) => *other,
        }
    }
}

impl Xdr for SYMLINK3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            SYMLINK3res::NFS3_OK(it) => {
                it.encode(out);
            }
            SYMLINK3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => SYMLINK3res::NFS3_OK(SYMLINK3resok::decode(input)?),
            other => SYMLINK3res::default(other, SYMLINK3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct devicedata3 {
    pub dev_attributes: sattr3,
    pub spec: specdata3,
}

impl Xdr for devicedata3 {
    fn encode(&self, out: &mut Encoder) {
        self.dev_attributes.encode(out);
        self.spec.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(devicedata3 {
            dev_attributes: sattr3::decode(input)?,
            spec: specdata3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum mknoddata3 {
    NF3CHR(devicedata3),
    NF3BLK(devicedata3),
    NF3SOCK(sattr3),
    NF3FIFO(sattr3),
    /// Any other.
    default(ftype3),
}

impl mknoddata3 {
    /// Which of them it is.
    pub fn r#type(&self) -> ftype3 {
        match self {
            mknoddata3::NF3CHR(_) => ftype3::NF3CHR,
            mknoddata3::NF3BLK(_) => ftype3::NF3BLK,
            mknoddata3::NF3SOCK(_) => ftype3::NF3SOCK,
            mknoddata3::NF3FIFO(_) => ftype3::NF3FIFO,
            mknoddata3::default(other) => *other,
        }
    }
}

impl Xdr for mknoddata3 {
    fn encode(&self, out: &mut Encoder) {
        self.r#type().encode(out);
        match self {
            mknoddata3::NF3CHR(it) => {
                it.encode(out);
            }
            mknoddata3::NF3BLK(it) => {
                it.encode(out);
            }
            mknoddata3::NF3SOCK(it) => {
                it.encode(out);
            }
            mknoddata3::NF3FIFO(it) => {
                it.encode(out);
            }
            mknoddata3::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match ftype3::decode(input)? {
            ftype3::NF3CHR => mknoddata3::NF3CHR(devicedata3::decode(input)?),
            ftype3::NF3BLK => mknoddata3::NF3BLK(devicedata3::decode(input)?),
            ftype3::NF3SOCK => mknoddata3::NF3SOCK(sattr3::decode(input)?),
            ftype3::NF3FIFO => mknoddata3::NF3FIFO(sattr3::decode(input)?),
            other => mknoddata3::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MKNOD3args {
    pub r#where: diropargs3,
    pub what: mknoddata3,
}

impl Xdr for MKNOD3args {
    fn encode(&self, out: &mut Encoder) {
        self.r#where.encode(out);
        self.what.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(MKNOD3args {
            r#where: diropargs3::decode(input)?,
            what: mknoddata3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MKNOD3resok {
    pub obj: post_op_fh3,
    pub obj_attributes: post_op_attr,
    pub dir_wcc: wcc_data,
}

impl Xdr for MKNOD3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(MKNOD3resok {
            obj: input.option(nfs_fh3::decode)?,
            obj_attributes: input.option(fattr3::decode)?,
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MKNOD3resfail {
    pub dir_wcc: wcc_data,
}

impl Xdr for MKNOD3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(MKNOD3resfail {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MKNOD3res {
    NFS3_OK(MKNOD3resok),
    /// Any other.
    default(nfsstat3, MKNOD3resfail),
}

impl MKNOD3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            MKNOD3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            MKNOD3res::default(other, _) => *other,
        }
    }
}

impl Xdr for MKNOD3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            MKNOD3res::NFS3_OK(it) => {
                it.encode(out);
            }
            MKNOD3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => MKNOD3res::NFS3_OK(MKNOD3resok::decode(input)?),
            other => MKNOD3res::default(other, MKNOD3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct REMOVE3args {
    pub object: diropargs3,
}

impl Xdr for REMOVE3args {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(REMOVE3args {
            object: diropargs3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct REMOVE3resok {
    pub dir_wcc: wcc_data,
}

impl Xdr for REMOVE3resok {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(REMOVE3resok {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct REMOVE3resfail {
    pub dir_wcc: wcc_data,
}

impl Xdr for REMOVE3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(REMOVE3resfail {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum REMOVE3res {
    NFS3_OK(REMOVE3resok),
    /// Any other.
    default(nfsstat3, REMOVE3resfail),
}

impl REMOVE3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            REMOVE3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            REMOVE3res::default(other, _) => *other,
        }
    }
}

impl Xdr for REMOVE3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            REMOVE3res::NFS3_OK(it) => {
                it.encode(out);
            }
            REMOVE3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => REMOVE3res::NFS3_OK(REMOVE3resok::decode(input)?),
            other => REMOVE3res::default(other, REMOVE3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RMDIR3args {
    pub object: diropargs3,
}

impl Xdr for RMDIR3args {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RMDIR3args {
            object: diropargs3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RMDIR3resok {
    pub dir_wcc: wcc_data,
}

impl Xdr for RMDIR3resok {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RMDIR3resok {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RMDIR3resfail {
    pub dir_wcc: wcc_data,
}

impl Xdr for RMDIR3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.dir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RMDIR3resfail {
            dir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RMDIR3res {
    NFS3_OK(RMDIR3resok),
    /// Any other.
    default(nfsstat3, RMDIR3resfail),
}

impl RMDIR3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            RMDIR3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            RMDIR3res::default(other, _) => *other,
        }
    }
}

impl Xdr for RMDIR3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            RMDIR3res::NFS3_OK(it) => {
                it.encode(out);
            }
            RMDIR3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => RMDIR3res::NFS3_OK(RMDIR3resok::decode(input)?),
            other => RMDIR3res::default(other, RMDIR3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENAME3args {
    pub from: diropargs3,
    pub to: diropargs3,
}

impl Xdr for RENAME3args {
    fn encode(&self, out: &mut Encoder) {
        self.from.encode(out);
        self.to.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENAME3args {
            from: diropargs3::decode(input)?,
            to: diropargs3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENAME3resok {
    pub fromdir_wcc: wcc_data,
    pub todir_wcc: wcc_data,
}

impl Xdr for RENAME3resok {
    fn encode(&self, out: &mut Encoder) {
        self.fromdir_wcc.encode(out);
        self.todir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENAME3resok {
            fromdir_wcc: wcc_data::decode(input)?,
            todir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENAME3resfail {
    pub fromdir_wcc: wcc_data,
    pub todir_wcc: wcc_data,
}

impl Xdr for RENAME3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.fromdir_wcc.encode(out);
        self.todir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENAME3resfail {
            fromdir_wcc: wcc_data::decode(input)?,
            todir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RENAME3res {
    NFS3_OK(RENAME3resok),
    /// Any other.
    default(nfsstat3, RENAME3resfail),
}

impl RENAME3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            RENAME3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            RENAME3res::default(other, _) => *other,
        }
    }
}

impl Xdr for RENAME3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            RENAME3res::NFS3_OK(it) => {
                it.encode(out);
            }
            RENAME3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => RENAME3res::NFS3_OK(RENAME3resok::decode(input)?),
            other => RENAME3res::default(other, RENAME3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LINK3args {
    pub file: nfs_fh3,
    pub link: diropargs3,
}

impl Xdr for LINK3args {
    fn encode(&self, out: &mut Encoder) {
        self.file.encode(out);
        self.link.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LINK3args {
            file: nfs_fh3::decode(input)?,
            link: diropargs3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LINK3resok {
    pub file_attributes: post_op_attr,
    pub linkdir_wcc: wcc_data,
}

impl Xdr for LINK3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.file_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        self.linkdir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LINK3resok {
            file_attributes: input.option(fattr3::decode)?,
            linkdir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LINK3resfail {
    pub file_attributes: post_op_attr,
    pub linkdir_wcc: wcc_data,
}

impl Xdr for LINK3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.file_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        self.linkdir_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LINK3resfail {
            file_attributes: input.option(fattr3::decode)?,
            linkdir_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LINK3res {
    NFS3_OK(LINK3resok),
    /// Any other.
    default(nfsstat3, LINK3resfail),
}

impl LINK3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            LINK3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            LINK3res::default(other, _) => *other,
        }
    }
}

impl Xdr for LINK3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            LINK3res::NFS3_OK(it) => {
                it.encode(out);
            }
            LINK3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => LINK3res::NFS3_OK(LINK3resok::decode(input)?),
            other => LINK3res::default(other, LINK3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIR3args {
    pub dir: nfs_fh3,
    pub cookie: cookie3,
    pub cookieverf: cookieverf3,
    pub count: count3,
}

impl Xdr for READDIR3args {
    fn encode(&self, out: &mut Encoder) {
        self.dir.encode(out);
        out.u64(self.cookie);
        out.fixed(&self.cookieverf);
        out.u32(self.count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIR3args {
            dir: nfs_fh3::decode(input)?,
            cookie: input.u64()?,
            cookieverf: input.fixed::<8>()?,
            count: input.u32()?,
        })
    }
}

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct entry3 {
    pub fileid: fileid3,
    pub name: filename3,
    pub cookie: cookie3,
}

impl Xdr for entry3 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.fileid);
        out.opaque(u32::MAX, &self.name);
        out.u64(self.cookie);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(entry3 {
            fileid: input.u64()?,
            name: input.opaque(u32::MAX)?,
            cookie: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct dirlist3 {
    pub entries: Vec<entry3>,
    pub eof: bool,
}

impl Xdr for dirlist3 {
    fn encode(&self, out: &mut Encoder) {
        out.list(&self.entries);
        out.bool(self.eof);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(dirlist3 {
            entries: input.list(entry3::decode)?,
            eof: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIR3resok {
    pub dir_attributes: post_op_attr,
    pub cookieverf: cookieverf3,
    pub reply: dirlist3,
}

impl Xdr for READDIR3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.dir_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.fixed(&self.cookieverf);
        self.reply.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIR3resok {
            dir_attributes: input.option(fattr3::decode)?,
            cookieverf: input.fixed::<8>()?,
            reply: dirlist3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIR3resfail {
    pub dir_attributes: post_op_attr,
}

impl Xdr for READDIR3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.dir_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIR3resfail {
            dir_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READDIR3res {
    NFS3_OK(READDIR3resok),
    /// Any other.
    default(nfsstat3, READDIR3resfail),
}

impl READDIR3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            READDIR3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            READDIR3res::default(other, _) => *other,
        }
    }
}

impl Xdr for READDIR3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READDIR3res::NFS3_OK(it) => {
                it.encode(out);
            }
            READDIR3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => READDIR3res::NFS3_OK(READDIR3resok::decode(input)?),
            other => READDIR3res::default(other, READDIR3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIRPLUS3args {
    pub dir: nfs_fh3,
    pub cookie: cookie3,
    pub cookieverf: cookieverf3,
    pub dircount: count3,
    pub maxcount: count3,
}

impl Xdr for READDIRPLUS3args {
    fn encode(&self, out: &mut Encoder) {
        self.dir.encode(out);
        out.u64(self.cookie);
        out.fixed(&self.cookieverf);
        out.u32(self.dircount);
        out.u32(self.maxcount);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIRPLUS3args {
            dir: nfs_fh3::decode(input)?,
            cookie: input.u64()?,
            cookieverf: input.fixed::<8>()?,
            dircount: input.u32()?,
            maxcount: input.u32()?,
        })
    }
}

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct entryplus3 {
    pub fileid: fileid3,
    pub name: filename3,
    pub cookie: cookie3,
    pub name_attributes: post_op_attr,
    pub name_handle: post_op_fh3,
}

impl Xdr for entryplus3 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.fileid);
        out.opaque(u32::MAX, &self.name);
        out.u64(self.cookie);
        out.option(self.name_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.option(self.name_handle.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(entryplus3 {
            fileid: input.u64()?,
            name: input.opaque(u32::MAX)?,
            cookie: input.u64()?,
            name_attributes: input.option(fattr3::decode)?,
            name_handle: input.option(nfs_fh3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct dirlistplus3 {
    pub entries: Vec<entryplus3>,
    pub eof: bool,
}

impl Xdr for dirlistplus3 {
    fn encode(&self, out: &mut Encoder) {
        out.list(&self.entries);
        out.bool(self.eof);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(dirlistplus3 {
            entries: input.list(entryplus3::decode)?,
            eof: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIRPLUS3resok {
    pub dir_attributes: post_op_attr,
    pub cookieverf: cookieverf3,
    pub reply: dirlistplus3,
}

impl Xdr for READDIRPLUS3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.dir_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.fixed(&self.cookieverf);
        self.reply.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIRPLUS3resok {
            dir_attributes: input.option(fattr3::decode)?,
            cookieverf: input.fixed::<8>()?,
            reply: dirlistplus3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIRPLUS3resfail {
    pub dir_attributes: post_op_attr,
}

impl Xdr for READDIRPLUS3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.dir_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIRPLUS3resfail {
            dir_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READDIRPLUS3res {
    NFS3_OK(READDIRPLUS3resok),
    /// Any other.
    default(nfsstat3, READDIRPLUS3resfail),
}

impl READDIRPLUS3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            READDIRPLUS3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            READDIRPLUS3res::default(other, _) => *other,
        }
    }
}

impl Xdr for READDIRPLUS3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READDIRPLUS3res::NFS3_OK(it) => {
                it.encode(out);
            }
            READDIRPLUS3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => READDIRPLUS3res::NFS3_OK(READDIRPLUS3resok::decode(input)?),
            other => READDIRPLUS3res::default(other, READDIRPLUS3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FSSTAT3args {
    pub fsroot: nfs_fh3,
}

impl Xdr for FSSTAT3args {
    fn encode(&self, out: &mut Encoder) {
        self.fsroot.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FSSTAT3args {
            fsroot: nfs_fh3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FSSTAT3resok {
    pub obj_attributes: post_op_attr,
    pub tbytes: size3,
    pub fbytes: size3,
    pub abytes: size3,
    pub tfiles: size3,
    pub ffiles: size3,
    pub afiles: size3,
    pub invarsec: uint32,
}

impl Xdr for FSSTAT3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.u64(self.tbytes);
        out.u64(self.fbytes);
        out.u64(self.abytes);
        out.u64(self.tfiles);
        out.u64(self.ffiles);
        out.u64(self.afiles);
        out.u32(self.invarsec);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FSSTAT3resok {
            obj_attributes: input.option(fattr3::decode)?,
            tbytes: input.u64()?,
            fbytes: input.u64()?,
            abytes: input.u64()?,
            tfiles: input.u64()?,
            ffiles: input.u64()?,
            afiles: input.u64()?,
            invarsec: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FSSTAT3resfail {
    pub obj_attributes: post_op_attr,
}

impl Xdr for FSSTAT3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FSSTAT3resfail {
            obj_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FSSTAT3res {
    NFS3_OK(FSSTAT3resok),
    /// Any other.
    default(nfsstat3, FSSTAT3resfail),
}

impl FSSTAT3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            FSSTAT3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            FSSTAT3res::default(other, _) => *other,
        }
    }
}

impl Xdr for FSSTAT3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            FSSTAT3res::NFS3_OK(it) => {
                it.encode(out);
            }
            FSSTAT3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => FSSTAT3res::NFS3_OK(FSSTAT3resok::decode(input)?),
            other => FSSTAT3res::default(other, FSSTAT3resfail::decode(input)?),
        })
    }
}

pub const FSF3_LINK: u32 = 1;

pub const FSF3_SYMLINK: u32 = 2;

pub const FSF3_HOMOGENEOUS: u32 = 8;

pub const FSF3_CANSETTIME: u32 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FSINFO3args {
    pub fsroot: nfs_fh3,
}

impl Xdr for FSINFO3args {
    fn encode(&self, out: &mut Encoder) {
        self.fsroot.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FSINFO3args {
            fsroot: nfs_fh3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FSINFO3resok {
    pub obj_attributes: post_op_attr,
    pub rtmax: uint32,
    pub rtpref: uint32,
    pub rtmult: uint32,
    pub wtmax: uint32,
    pub wtpref: uint32,
    pub wtmult: uint32,
    pub dtpref: uint32,
    pub maxfilesize: size3,
    pub time_delta: nfstime3,
    pub properties: uint32,
}

impl Xdr for FSINFO3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.u32(self.rtmax);
        out.u32(self.rtpref);
        out.u32(self.rtmult);
        out.u32(self.wtmax);
        out.u32(self.wtpref);
        out.u32(self.wtmult);
        out.u32(self.dtpref);
        out.u64(self.maxfilesize);
        self.time_delta.encode(out);
        out.u32(self.properties);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FSINFO3resok {
            obj_attributes: input.option(fattr3::decode)?,
            rtmax: input.u32()?,
            rtpref: input.u32()?,
            rtmult: input.u32()?,
            wtmax: input.u32()?,
            wtpref: input.u32()?,
            wtmult: input.u32()?,
            dtpref: input.u32()?,
            maxfilesize: input.u64()?,
            time_delta: nfstime3::decode(input)?,
            properties: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FSINFO3resfail {
    pub obj_attributes: post_op_attr,
}

impl Xdr for FSINFO3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FSINFO3resfail {
            obj_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FSINFO3res {
    NFS3_OK(FSINFO3resok),
    /// Any other.
    default(nfsstat3, FSINFO3resfail),
}

impl FSINFO3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            FSINFO3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            FSINFO3res::default(other, _) => *other,
        }
    }
}

impl Xdr for FSINFO3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            FSINFO3res::NFS3_OK(it) => {
                it.encode(out);
            }
            FSINFO3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => FSINFO3res::NFS3_OK(FSINFO3resok::decode(input)?),
            other => FSINFO3res::default(other, FSINFO3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PATHCONF3args {
    pub object: nfs_fh3,
}

impl Xdr for PATHCONF3args {
    fn encode(&self, out: &mut Encoder) {
        self.object.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PATHCONF3args {
            object: nfs_fh3::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PATHCONF3resok {
    pub obj_attributes: post_op_attr,
    pub linkmax: uint32,
    pub name_max: uint32,
    pub no_trunc: bool,
    pub chown_restricted: bool,
    pub case_insensitive: bool,
    pub case_preserving: bool,
}

impl Xdr for PATHCONF3resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
        out.u32(self.linkmax);
        out.u32(self.name_max);
        out.bool(self.no_trunc);
        out.bool(self.chown_restricted);
        out.bool(self.case_insensitive);
        out.bool(self.case_preserving);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PATHCONF3resok {
            obj_attributes: input.option(fattr3::decode)?,
            linkmax: input.u32()?,
            name_max: input.u32()?,
            no_trunc: input.bool()?,
            chown_restricted: input.bool()?,
            case_insensitive: input.bool()?,
            case_preserving: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PATHCONF3resfail {
    pub obj_attributes: post_op_attr,
}

impl Xdr for PATHCONF3resfail {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.obj_attributes.as_ref(), |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PATHCONF3resfail {
            obj_attributes: input.option(fattr3::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PATHCONF3res {
    NFS3_OK(PATHCONF3resok),
    /// Any other.
    default(nfsstat3, PATHCONF3resfail),
}

impl PATHCONF3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            PATHCONF3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            PATHCONF3res::default(other, _) => *other,
        }
    }
}

impl Xdr for PATHCONF3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            PATHCONF3res::NFS3_OK(it) => {
                it.encode(out);
            }
            PATHCONF3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => PATHCONF3res::NFS3_OK(PATHCONF3resok::decode(input)?),
            other => PATHCONF3res::default(other, PATHCONF3resfail::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMMIT3args {
    pub file: nfs_fh3,
    pub offset: offset3,
    pub count: count3,
}

impl Xdr for COMMIT3args {
    fn encode(&self, out: &mut Encoder) {
        self.file.encode(out);
        out.u64(self.offset);
        out.u32(self.count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMMIT3args {
            file: nfs_fh3::decode(input)?,
            offset: input.u64()?,
            count: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMMIT3resok {
    pub file_wcc: wcc_data,
    pub verf: writeverf3,
}

impl Xdr for COMMIT3resok {
    fn encode(&self, out: &mut Encoder) {
        self.file_wcc.encode(out);
        out.fixed(&self.verf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMMIT3resok {
            file_wcc: wcc_data::decode(input)?,
            verf: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMMIT3resfail {
    pub file_wcc: wcc_data,
}

impl Xdr for COMMIT3resfail {
    fn encode(&self, out: &mut Encoder) {
        self.file_wcc.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMMIT3resfail {
            file_wcc: wcc_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum COMMIT3res {
    NFS3_OK(COMMIT3resok),
    /// Any other.
    default(nfsstat3, COMMIT3resfail),
}

impl COMMIT3res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat3 {
        match self {
            COMMIT3res::NFS3_OK(_) => nfsstat3::NFS3_OK,
            COMMIT3res::default(other, _) => *other,
        }
    }
}

impl Xdr for COMMIT3res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            COMMIT3res::NFS3_OK(it) => {
                it.encode(out);
            }
            COMMIT3res::default(_, it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat3::decode(input)? {
            nfsstat3::NFS3_OK => COMMIT3res::NFS3_OK(COMMIT3resok::decode(input)?),
            other => COMMIT3res::default(other, COMMIT3resfail::decode(input)?),
        })
    }
}

pub const NFS_PROGRAM: u32 = 100003;
pub const NFS_V3: u32 = 3;

pub struct NFSPROC3_NULL;

impl Procedure for NFSPROC3_NULL {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 0;
    const NAME: &'static str = "NFSPROC3_NULL";
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

pub struct NFSPROC3_GETATTR;

impl Procedure for NFSPROC3_GETATTR {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "NFSPROC3_GETATTR";
    type Arguments = GETATTR3args;
    type Results = GETATTR3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        GETATTR3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        GETATTR3res::decode(input)
    }
}

pub struct NFSPROC3_SETATTR;

impl Procedure for NFSPROC3_SETATTR {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "NFSPROC3_SETATTR";
    type Arguments = SETATTR3args;
    type Results = SETATTR3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        SETATTR3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        SETATTR3res::decode(input)
    }
}

pub struct NFSPROC3_LOOKUP;

impl Procedure for NFSPROC3_LOOKUP {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 3;
    const NAME: &'static str = "NFSPROC3_LOOKUP";
    type Arguments = LOOKUP3args;
    type Results = LOOKUP3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        LOOKUP3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        LOOKUP3res::decode(input)
    }
}

pub struct NFSPROC3_ACCESS;

impl Procedure for NFSPROC3_ACCESS {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 4;
    const NAME: &'static str = "NFSPROC3_ACCESS";
    type Arguments = ACCESS3args;
    type Results = ACCESS3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        ACCESS3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        ACCESS3res::decode(input)
    }
}

pub struct NFSPROC3_READLINK;

impl Procedure for NFSPROC3_READLINK {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 5;
    const NAME: &'static str = "NFSPROC3_READLINK";
    type Arguments = READLINK3args;
    type Results = READLINK3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        READLINK3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        READLINK3res::decode(input)
    }
}

pub struct NFSPROC3_READ;

impl Procedure for NFSPROC3_READ {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 6;
    const NAME: &'static str = "NFSPROC3_READ";
    type Arguments = READ3args;
    type Results = READ3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        READ3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        READ3res::decode(input)
    }
}

pub struct NFSPROC3_WRITE;

impl Procedure for NFSPROC3_WRITE {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 7;
    const NAME: &'static str = "NFSPROC3_WRITE";
    type Arguments = WRITE3args;
    type Results = WRITE3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        WRITE3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        WRITE3res::decode(input)
    }
}

pub struct NFSPROC3_CREATE;

impl Procedure for NFSPROC3_CREATE {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 8;
    const NAME: &'static str = "NFSPROC3_CREATE";
    type Arguments = CREATE3args;
    type Results = CREATE3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        CREATE3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        CREATE3res::decode(input)
    }
}

pub struct NFSPROC3_MKDIR;

impl Procedure for NFSPROC3_MKDIR {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 9;
    const NAME: &'static str = "NFSPROC3_MKDIR";
    type Arguments = MKDIR3args;
    type Results = MKDIR3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        MKDIR3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        MKDIR3res::decode(input)
    }
}

pub struct NFSPROC3_SYMLINK;

impl Procedure for NFSPROC3_SYMLINK {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 10;
    const NAME: &'static str = "NFSPROC3_SYMLINK";
    type Arguments = SYMLINK3args;
    type Results = SYMLINK3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        SYMLINK3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        SYMLINK3res::decode(input)
    }
}

pub struct NFSPROC3_MKNOD;

impl Procedure for NFSPROC3_MKNOD {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 11;
    const NAME: &'static str = "NFSPROC3_MKNOD";
    type Arguments = MKNOD3args;
    type Results = MKNOD3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        MKNOD3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        MKNOD3res::decode(input)
    }
}

pub struct NFSPROC3_REMOVE;

impl Procedure for NFSPROC3_REMOVE {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 12;
    const NAME: &'static str = "NFSPROC3_REMOVE";
    type Arguments = REMOVE3args;
    type Results = REMOVE3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        REMOVE3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        REMOVE3res::decode(input)
    }
}

pub struct NFSPROC3_RMDIR;

impl Procedure for NFSPROC3_RMDIR {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 13;
    const NAME: &'static str = "NFSPROC3_RMDIR";
    type Arguments = RMDIR3args;
    type Results = RMDIR3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        RMDIR3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        RMDIR3res::decode(input)
    }
}

pub struct NFSPROC3_RENAME;

impl Procedure for NFSPROC3_RENAME {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 14;
    const NAME: &'static str = "NFSPROC3_RENAME";
    type Arguments = RENAME3args;
    type Results = RENAME3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        RENAME3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        RENAME3res::decode(input)
    }
}

pub struct NFSPROC3_LINK;

impl Procedure for NFSPROC3_LINK {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 15;
    const NAME: &'static str = "NFSPROC3_LINK";
    type Arguments = LINK3args;
    type Results = LINK3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        LINK3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        LINK3res::decode(input)
    }
}

pub struct NFSPROC3_READDIR;

impl Procedure for NFSPROC3_READDIR {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 16;
    const NAME: &'static str = "NFSPROC3_READDIR";
    type Arguments = READDIR3args;
    type Results = READDIR3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        READDIR3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        READDIR3res::decode(input)
    }
}

pub struct NFSPROC3_READDIRPLUS;

impl Procedure for NFSPROC3_READDIRPLUS {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 17;
    const NAME: &'static str = "NFSPROC3_READDIRPLUS";
    type Arguments = READDIRPLUS3args;
    type Results = READDIRPLUS3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        READDIRPLUS3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        READDIRPLUS3res::decode(input)
    }
}

pub struct NFSPROC3_FSSTAT;

impl Procedure for NFSPROC3_FSSTAT {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 18;
    const NAME: &'static str = "NFSPROC3_FSSTAT";
    type Arguments = FSSTAT3args;
    type Results = FSSTAT3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        FSSTAT3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        FSSTAT3res::decode(input)
    }
}

pub struct NFSPROC3_FSINFO;

impl Procedure for NFSPROC3_FSINFO {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 19;
    const NAME: &'static str = "NFSPROC3_FSINFO";
    type Arguments = FSINFO3args;
    type Results = FSINFO3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        FSINFO3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        FSINFO3res::decode(input)
    }
}

pub struct NFSPROC3_PATHCONF;

impl Procedure for NFSPROC3_PATHCONF {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 20;
    const NAME: &'static str = "NFSPROC3_PATHCONF";
    type Arguments = PATHCONF3args;
    type Results = PATHCONF3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        PATHCONF3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        PATHCONF3res::decode(input)
    }
}

pub struct NFSPROC3_COMMIT;

impl Procedure for NFSPROC3_COMMIT {
    const PROGRAM: u32 = NFS_PROGRAM;
    const VERSION: u32 = NFS_V3;
    const NUMBER: u32 = 21;
    const NAME: &'static str = "NFSPROC3_COMMIT";
    type Arguments = COMMIT3args;
    type Results = COMMIT3res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        COMMIT3args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        COMMIT3res::decode(input)
    }
}

/// Shows `visitor` the procedure with these numbers, if there is one.
pub fn visit<V: Visitor>(program: u32, version: u32, number: u32, visitor: V) -> Option<V::Output> {
    Some(match (program, version, number) {
        (NFSPROC3_NULL::PROGRAM, NFSPROC3_NULL::VERSION, NFSPROC3_NULL::NUMBER) => {
            visitor.visit::<NFSPROC3_NULL>()
        }
        (NFSPROC3_GETATTR::PROGRAM, NFSPROC3_GETATTR::VERSION, NFSPROC3_GETATTR::NUMBER) => {
            visitor.visit::<NFSPROC3_GETATTR>()
        }
        (NFSPROC3_SETATTR::PROGRAM, NFSPROC3_SETATTR::VERSION, NFSPROC3_SETATTR::NUMBER) => {
            visitor.visit::<NFSPROC3_SETATTR>()
        }
        (NFSPROC3_LOOKUP::PROGRAM, NFSPROC3_LOOKUP::VERSION, NFSPROC3_LOOKUP::NUMBER) => {
            visitor.visit::<NFSPROC3_LOOKUP>()
        }
        (NFSPROC3_ACCESS::PROGRAM, NFSPROC3_ACCESS::VERSION, NFSPROC3_ACCESS::NUMBER) => {
            visitor.visit::<NFSPROC3_ACCESS>()
        }
        (NFSPROC3_READLINK::PROGRAM, NFSPROC3_READLINK::VERSION, NFSPROC3_READLINK::NUMBER) => {
            visitor.visit::<NFSPROC3_READLINK>()
        }
        (NFSPROC3_READ::PROGRAM, NFSPROC3_READ::VERSION, NFSPROC3_READ::NUMBER) => {
            visitor.visit::<NFSPROC3_READ>()
        }
        (NFSPROC3_WRITE::PROGRAM, NFSPROC3_WRITE::VERSION, NFSPROC3_WRITE::NUMBER) => {
            visitor.visit::<NFSPROC3_WRITE>()
        }
        (NFSPROC3_CREATE::PROGRAM, NFSPROC3_CREATE::VERSION, NFSPROC3_CREATE::NUMBER) => {
            visitor.visit::<NFSPROC3_CREATE>()
        }
        (NFSPROC3_MKDIR::PROGRAM, NFSPROC3_MKDIR::VERSION, NFSPROC3_MKDIR::NUMBER) => {
            visitor.visit::<NFSPROC3_MKDIR>()
        }
        (NFSPROC3_SYMLINK::PROGRAM, NFSPROC3_SYMLINK::VERSION, NFSPROC3_SYMLINK::NUMBER) => {
            visitor.visit::<NFSPROC3_SYMLINK>()
        }
        (NFSPROC3_MKNOD::PROGRAM, NFSPROC3_MKNOD::VERSION, NFSPROC3_MKNOD::NUMBER) => {
            visitor.visit::<NFSPROC3_MKNOD>()
        }
        (NFSPROC3_REMOVE::PROGRAM, NFSPROC3_REMOVE::VERSION, NFSPROC3_REMOVE::NUMBER) => {
            visitor.visit::<NFSPROC3_REMOVE>()
        }
        (NFSPROC3_RMDIR::PROGRAM, NFSPROC3_RMDIR::VERSION, NFSPROC3_RMDIR::NUMBER) => {
            visitor.visit::<NFSPROC3_RMDIR>()
        }
        (NFSPROC3_RENAME::PROGRAM, NFSPROC3_RENAME::VERSION, NFSPROC3_RENAME::NUMBER) => {
            visitor.visit::<NFSPROC3_RENAME>()
        }
        (NFSPROC3_LINK::PROGRAM, NFSPROC3_LINK::VERSION, NFSPROC3_LINK::NUMBER) => {
            visitor.visit::<NFSPROC3_LINK>()
        }
        (NFSPROC3_READDIR::PROGRAM, NFSPROC3_READDIR::VERSION, NFSPROC3_READDIR::NUMBER) => {
            visitor.visit::<NFSPROC3_READDIR>()
        }
        (
            NFSPROC3_READDIRPLUS::PROGRAM,
            NFSPROC3_READDIRPLUS::VERSION,
            NFSPROC3_READDIRPLUS::NUMBER,
        ) => visitor.visit::<NFSPROC3_READDIRPLUS>(),
        (NFSPROC3_FSSTAT::PROGRAM, NFSPROC3_FSSTAT::VERSION, NFSPROC3_FSSTAT::NUMBER) => {
            visitor.visit::<NFSPROC3_FSSTAT>()
        }
        (NFSPROC3_FSINFO::PROGRAM, NFSPROC3_FSINFO::VERSION, NFSPROC3_FSINFO::NUMBER) => {
            visitor.visit::<NFSPROC3_FSINFO>()
        }
        (NFSPROC3_PATHCONF::PROGRAM, NFSPROC3_PATHCONF::VERSION, NFSPROC3_PATHCONF::NUMBER) => {
            visitor.visit::<NFSPROC3_PATHCONF>()
        }
        (NFSPROC3_COMMIT::PROGRAM, NFSPROC3_COMMIT::VERSION, NFSPROC3_COMMIT::NUMBER) => {
            visitor.visit::<NFSPROC3_COMMIT>()
        }
        _ => return None,
    })
}
