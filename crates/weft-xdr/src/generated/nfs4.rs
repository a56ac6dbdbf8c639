//! NFS, version 4, minor versions 0 to 2 (RFC 7863), and extended attributes (RFC 8276).
//!
//! Written by `cargo xtask xdr` from `x/nfs4.x` and `x/xattr.x`: change these, not this.

#![allow(non_camel_case_types, missing_docs)]

use super::rpc::authsys_parms;
use crate::{DecodeError, Decoder, Encoder, Procedure, Visitor, Xdr};
use bytes::Bytes;

pub const NFS4_FHSIZE: u32 = 128;

pub const NFS4_VERIFIER_SIZE: u32 = 8;

pub const NFS4_OTHER_SIZE: u32 = 12;

pub const NFS4_OPAQUE_LIMIT: u32 = 1024;

pub const NFS4_SESSIONID_SIZE: u32 = 16;

pub const NFS4_INT64_MAX: u64 = 0x7fffffffffffffff;

pub const NFS4_UINT64_MAX: u64 = 0xffffffffffffffff;

pub const NFS4_INT32_MAX: u32 = 0x7fffffff;

pub const NFS4_UINT32_MAX: u32 = 0xffffffff;

pub const NFS4_MAXFILELEN: u64 = 0xffffffffffffffff;

pub const NFS4_MAXFILEOFF: u64 = 0xfffffffffffffffe;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum nfs_ftype4 {
    NF4REG = 1,
    NF4DIR = 2,
    NF4BLK = 3,
    NF4CHR = 4,
    NF4LNK = 5,
    NF4SOCK = 6,
    NF4FIFO = 7,
    NF4ATTRDIR = 8,
    NF4NAMEDATTR = 9,
}

impl nfs_ftype4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<nfs_ftype4> {
        Some(match value {
            1 => nfs_ftype4::NF4REG,
            2 => nfs_ftype4::NF4DIR,
            3 => nfs_ftype4::NF4BLK,
            4 => nfs_ftype4::NF4CHR,
            5 => nfs_ftype4::NF4LNK,
            6 => nfs_ftype4::NF4SOCK,
            7 => nfs_ftype4::NF4FIFO,
            8 => nfs_ftype4::NF4ATTRDIR,
            9 => nfs_ftype4::NF4NAMEDATTR,
            _ => return None,
        })
    }
}

impl Xdr for nfs_ftype4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        nfs_ftype4::from_wire(value).ok_or(DecodeError::Member {
            of: "nfs_ftype4",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum nfsstat4 {
    NFS4_OK = 0,
    NFS4ERR_PERM = 1,
    NFS4ERR_NOENT = 2,
    NFS4ERR_IO = 5,
    NFS4ERR_NXIO = 6,
    NFS4ERR_ACCESS = 13,
    NFS4ERR_EXIST = 17,
    NFS4ERR_XDEV = 18,
    NFS4ERR_NOTDIR = 20,
    NFS4ERR_ISDIR = 21,
    NFS4ERR_INVAL = 22,
    NFS4ERR_FBIG = 27,
    NFS4ERR_NOSPC = 28,
    NFS4ERR_ROFS = 30,
    NFS4ERR_MLINK = 31,
    NFS4ERR_NAMETOOLONG = 63,
    NFS4ERR_NOTEMPTY = 66,
    NFS4ERR_DQUOT = 69,
    NFS4ERR_STALE = 70,
    NFS4ERR_BADHANDLE = 10001,
    NFS4ERR_BAD_COOKIE = 10003,
    NFS4ERR_NOTSUPP = 10004,
    NFS4ERR_TOOSMALL = 10005,
    NFS4ERR_SERVERFAULT = 10006,
    NFS4ERR_BADTYPE = 10007,
    NFS4ERR_DELAY = 10008,
    NFS4ERR_SAME = 10009,
    NFS4ERR_DENIED = 10010,
    NFS4ERR_EXPIRED = 10011,
    NFS4ERR_LOCKED = 10012,
    NFS4ERR_GRACE = 10013,
    NFS4ERR_FHEXPIRED = 10014,
    NFS4ERR_SHARE_DENIED = 10015,
    NFS4ERR_WRONGSEC = 10016,
    NFS4ERR_CLID_INUSE = 10017,
    NFS4ERR_RESOURCE = 10018,
    NFS4ERR_MOVED = 10019,
    NFS4ERR_NOFILEHANDLE = 10020,
    NFS4ERR_MINOR_VERS_MISMATCH = 10021,
    NFS4ERR_STALE_CLIENTID = 10022,
    NFS4ERR_STALE_STATEID = 10023,
    NFS4ERR_OLD_STATEID = 10024,
    NFS4ERR_BAD_STATEID = 10025,
    NFS4ERR_BAD_SEQID = 10026,
    NFS4ERR_NOT_SAME = 10027,
    NFS4ERR_LOCK_RANGE = 10028,
    NFS4ERR_SYMLINK = 10029,
    NFS4ERR_RESTOREFH = 10030,
    NFS4ERR_LEASE_MOVED = 10031,
    NFS4ERR_ATTRNOTSUPP = 10032,
    NFS4ERR_NO_GRACE = 10033,
    NFS4ERR_RECLAIM_BAD = 10034,
    NFS4ERR_RECLAIM_CONFLICT = 10035,
    NFS4ERR_BADXDR = 10036,
    NFS4ERR_LOCKS_HELD = 10037,
    NFS4ERR_OPENMODE = 10038,
    NFS4ERR_BADOWNER = 10039,
    NFS4ERR_BADCHAR = 10040,
    NFS4ERR_BADNAME = 10041,
    NFS4ERR_BAD_RANGE = 10042,
    NFS4ERR_LOCK_NOTSUPP = 10043,
    NFS4ERR_OP_ILLEGAL = 10044,
    NFS4ERR_DEADLOCK = 10045,
    NFS4ERR_FILE_OPEN = 10046,
    NFS4ERR_ADMIN_REVOKED = 10047,
    NFS4ERR_CB_PATH_DOWN = 10048,
    NFS4ERR_BADIOMODE = 10049,
    NFS4ERR_BADLAYOUT = 10050,
    NFS4ERR_BAD_SESSION_DIGEST = 10051,
    NFS4ERR_BADSESSION = 10052,
    NFS4ERR_BADSLOT = 10053,
    NFS4ERR_COMPLETE_ALREADY = 10054,
    NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055,
    NFS4ERR_DELEG_ALREADY_WANTED = 10056,
    NFS4ERR_BACK_CHAN_BUSY = 10057,
    NFS4ERR_LAYOUTTRYLATER = 10058,
    NFS4ERR_LAYOUTUNAVAILABLE = 10059,
    NFS4ERR_NOMATCHING_LAYOUT = 10060,
    NFS4ERR_RECALLCONFLICT = 10061,
    NFS4ERR_UNKNOWN_LAYOUTTYPE = 10062,
    NFS4ERR_SEQ_MISORDERED = 10063,
    NFS4ERR_SEQUENCE_POS = 10064,
    NFS4ERR_REQ_TOO_BIG = 10065,
    NFS4ERR_REP_TOO_BIG = 10066,
    NFS4ERR_REP_TOO_BIG_TO_CACHE = 10067,
    NFS4ERR_RETRY_UNCACHED_REP = 10068,
    NFS4ERR_UNSAFE_COMPOUND = 10069,
    NFS4ERR_TOO_MANY_OPS = 10070,
    NFS4ERR_OP_NOT_IN_SESSION = 10071,
    NFS4ERR_HASH_ALG_UNSUPP = 10072,
    NFS4ERR_CLIENTID_BUSY = 10074,
    NFS4ERR_PNFS_IO_HOLE = 10075,
    NFS4ERR_SEQ_FALSE_RETRY = 10076,
    NFS4ERR_BAD_HIGH_SLOT = 10077,
    NFS4ERR_DEADSESSION = 10078,
    NFS4ERR_ENCR_ALG_UNSUPP = 10079,
    NFS4ERR_PNFS_NO_LAYOUT = 10080,
    NFS4ERR_NOT_ONLY_OP = 10081,
    NFS4ERR_WRONG_CRED = 10082,
    NFS4ERR_WRONG_TYPE = 10083,
    NFS4ERR_DIRDELEG_UNAVAIL = 10084,
    NFS4ERR_REJECT_DELEG = 10085,
    NFS4ERR_RETURNCONFLICT = 10086,
    NFS4ERR_DELEG_REVOKED = 10087,
    NFS4ERR_PARTNER_NOTSUPP = 10088,
    NFS4ERR_PARTNER_NO_AUTH = 10089,
    NFS4ERR_UNION_NOTSUPP = 10090,
    NFS4ERR_OFFLOAD_DENIED = 10091,
    NFS4ERR_WRONG_LFS = 10092,
    NFS4ERR_BADLABEL = 10093,
    NFS4ERR_OFFLOAD_NO_REQS = 10094,
    NFS4ERR_NOXATTR = 10095,
    NFS4ERR_XATTR2BIG = 10096,
}

impl nfsstat4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<nfsstat4> {
        Some(match value {
            0 => nfsstat4::NFS4_OK,
            1 => nfsstat4::NFS4ERR_PERM,
            2 => nfsstat4::NFS4ERR_NOENT,
            5 => nfsstat4::NFS4ERR_IO,
            6 => nfsstat4::NFS4ERR_NXIO,
            13 => nfsstat4::NFS4ERR_ACCESS,
            17 => nfsstat4::NFS4ERR_EXIST,
            18 => nfsstat4::NFS4ERR_XDEV,
            20 => nfsstat4::NFS4ERR_NOTDIR,
            21 => nfsstat4::NFS4ERR_ISDIR,
            22 => nfsstat4::NFS4ERR_INVAL,
            27 => nfsstat4::NFS4ERR_FBIG,
            28 => nfsstat4::NFS4ERR_NOSPC,
            30 => nfsstat4::NFS4ERR_ROFS,
            31 => nfsstat4::NFS4ERR_MLINK,
            63 => nfsstat4::NFS4ERR_NAMETOOLONG,
            66 => nfsstat4::NFS4ERR_NOTEMPTY,
            69 => nfsstat4::NFS4ERR_DQUOT,
            70 => nfsstat4::NFS4ERR_STALE,
            10001 => nfsstat4::NFS4ERR_BADHANDLE,
            10003 => nfsstat4::NFS4ERR_BAD_COOKIE,
            10004 => nfsstat4::NFS4ERR_NOTSUPP,
            10005 => nfsstat4::NFS4ERR_TOOSMALL,
            10006 => nfsstat4::NFS4ERR_SERVERFAULT,
            10007 => nfsstat4::NFS4ERR_BADTYPE,
            10008 => nfsstat4::NFS4ERR_DELAY,
            10009 => nfsstat4::NFS4ERR_SAME,
            10010 => nfsstat4::NFS4ERR_DENIED,
            10011 => nfsstat4::NFS4ERR_EXPIRED,
            10012 => nfsstat4::NFS4ERR_LOCKED,
            10013 => nfsstat4::NFS4ERR_GRACE,
            10014 => nfsstat4::NFS4ERR_FHEXPIRED,
            10015 => nfsstat4::NFS4ERR_SHARE_DENIED,
            10016 => nfsstat4::NFS4ERR_WRONGSEC,
            10017 => nfsstat4::NFS4ERR_CLID_INUSE,
            10018 => nfsstat4::NFS4ERR_RESOURCE,
            10019 => nfsstat4::NFS4ERR_MOVED,
            10020 => nfsstat4::NFS4ERR_NOFILEHANDLE,
            10021 => nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH,
            10022 => nfsstat4::NFS4ERR_STALE_CLIENTID,
            10023 => nfsstat4::NFS4ERR_STALE_STATEID,
            10024 => nfsstat4::NFS4ERR_OLD_STATEID,
            10025 => nfsstat4::NFS4ERR_BAD_STATEID,
            10026 => nfsstat4::NFS4ERR_BAD_SEQID,
            10027 => nfsstat4::NFS4ERR_NOT_SAME,
            10028 => nfsstat4::NFS4ERR_LOCK_RANGE,
            10029 => nfsstat4::NFS4ERR_SYMLINK,
            10030 => nfsstat4::NFS4ERR_RESTOREFH,
            10031 => nfsstat4::NFS4ERR_LEASE_MOVED,
            10032 => nfsstat4::NFS4ERR_ATTRNOTSUPP,
            10033 => nfsstat4::NFS4ERR_NO_GRACE,
            10034 => nfsstat4::NFS4ERR_RECLAIM_BAD,
            10035 => nfsstat4::NFS4ERR_RECLAIM_CONFLICT,
            10036 => nfsstat4::NFS4ERR_BADXDR,
            10037 => nfsstat4::NFS4ERR_LOCKS_HELD,
            10038 => nfsstat4::NFS4ERR_OPENMODE,
            10039 => nfsstat4::NFS4ERR_BADOWNER,
            10040 => nfsstat4::NFS4ERR_BADCHAR,
            10041 => nfsstat4::NFS4ERR_BADNAME,
            10042 => nfsstat4::NFS4ERR_BAD_RANGE,
            10043 => nfsstat4::NFS4ERR_LOCK_NOTSUPP,
            10044 => nfsstat4::NFS4ERR_OP_ILLEGAL,
            10045 => nfsstat4::NFS4ERR_DEADLOCK,
            10046 => nfsstat4::NFS4ERR_FILE_OPEN,
            10047 => nfsstat4::NFS4ERR_ADMIN_REVOKED,
            10048 => nfsstat4::NFS4ERR_CB_PATH_DOWN,
            10049 => nfsstat4::NFS4ERR_BADIOMODE,
            10050 => nfsstat4::NFS4ERR_BADLAYOUT,
            10051 => nfsstat4::NFS4ERR_BAD_SESSION_DIGEST,
            10052 => nfsstat4::NFS4ERR_BADSESSION,
            10053 => nfsstat4::NFS4ERR_BADSLOT,
            10054 => nfsstat4::NFS4ERR_COMPLETE_ALREADY,
            10055 => nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
            10056 => nfsstat4::NFS4ERR_DELEG_ALREADY_WANTED,
            10057 => nfsstat4::NFS4ERR_BACK_CHAN_BUSY,
            10058 => nfsstat4::NFS4ERR_LAYOUTTRYLATER,
            10059 => nfsstat4::NFS4ERR_LAYOUTUNAVAILABLE,
            10060 => nfsstat4::NFS4ERR_NOMATCHING_LAYOUT,
            10061 => nfsstat4::NFS4ERR_RECALLCONFLICT,
            10062 => nfsstat4::NFS4ERR_UNKNOWN_LAYOUTTYPE,
            10063 => nfsstat4::NFS4ERR_SEQ_MISORDERED,
            10064 => nfsstat4::NFS4ERR_SEQUENCE_POS,
            10065 => nfsstat4::NFS4ERR_REQ_TOO_BIG,
            10066 => nfsstat4::NFS4ERR_REP_TOO_BIG,
            10067 => nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE,
            10068 => nfsstat4::NFS4ERR_RETRY_UNCACHED_REP,
            10069 => nfsstat4::NFS4ERR_UNSAFE_COMPOUND,
            10070 => nfsstat4::NFS4ERR_TOO_MANY_OPS,
            10071 => nfsstat4::NFS4ERR_OP_NOT_IN_SESSION,
            10072 => nfsstat4::NFS4ERR_HASH_ALG_UNSUPP,
            10074 => nfsstat4::NFS4ERR_CLIENTID_BUSY,
            10075 => nfsstat4::NFS4ERR_PNFS_IO_HOLE,
            10076 => nfsstat4::NFS4ERR_SEQ_FALSE_RETRY,
            10077 => nfsstat4::NFS4ERR_BAD_HIGH_SLOT,
            10078 => nfsstat4::NFS4ERR_DEADSESSION,
            10079 => nfsstat4::NFS4ERR_ENCR_ALG_UNSUPP,
            10080 => nfsstat4::NFS4ERR_PNFS_NO_LAYOUT,
            10081 => nfsstat4::NFS4ERR_NOT_ONLY_OP,
            10082 => nfsstat4::NFS4ERR_WRONG_CRED,
            10083 => nfsstat4::NFS4ERR_WRONG_TYPE,
            10084 => nfsstat4::NFS4ERR_DIRDELEG_UNAVAIL,
            10085 => nfsstat4::NFS4ERR_REJECT_DELEG,
            10086 => nfsstat4::NFS4ERR_RETURNCONFLICT,
            10087 => nfsstat4::NFS4ERR_DELEG_REVOKED,
            10088 => nfsstat4::NFS4ERR_PARTNER_NOTSUPP,
            10089 => nfsstat4::NFS4ERR_PARTNER_NO_AUTH,
            10090 => nfsstat4::NFS4ERR_UNION_NOTSUPP,
            10091 => nfsstat4::NFS4ERR_OFFLOAD_DENIED,
            10092 => nfsstat4::NFS4ERR_WRONG_LFS,
            10093 => nfsstat4::NFS4ERR_BADLABEL,
            10094 => nfsstat4::NFS4ERR_OFFLOAD_NO_REQS,
            10095 => nfsstat4::NFS4ERR_NOXATTR,
            10096 => nfsstat4::NFS4ERR_XATTR2BIG,
            _ => return None,
        })
    }
}

impl Xdr for nfsstat4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        nfsstat4::from_wire(value).ok_or(DecodeError::Member {
            of: "nfsstat4",
            value,
        })
    }
}

pub type attrlist4 = Bytes;

pub type bitmap4 = Vec<u32>;

pub type changeid4 = u64;

pub type clientid4 = u64;

pub type count4 = u32;

pub type length4 = u64;

pub type mode4 = u32;

pub type nfs_cookie4 = u64;

/// At most 128 bytes.
pub type nfs_fh4 = Bytes;

pub type offset4 = u64;

pub type qop4 = u32;

pub type sec_oid4 = Bytes;

pub type sequenceid4 = u32;

pub type seqid4 = u32;

pub type sessionid4 = [u8; 16];

pub type slotid4 = u32;

pub type utf8string = Bytes;

pub type utf8str_cis = utf8string;

pub type utf8str_cs = utf8string;

pub type utf8str_mixed = utf8string;

pub type component4 = utf8str_cs;

pub type linktext4 = Bytes;

pub type ascii_REQUIRED4 = utf8string;

pub type pathname4 = Vec<component4>;

pub type verifier4 = [u8; 8];

pub type secret4 = Bytes;

pub type policy4 = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfstime4 {
    pub seconds: i64,
    pub nseconds: u32,
}

impl Xdr for nfstime4 {
    fn encode(&self, out: &mut Encoder) {
        out.i64(self.seconds);
        out.u32(self.nseconds);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfstime4 {
            seconds: input.i64()?,
            nseconds: input.u32()?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum time_how4 {
    SET_TO_SERVER_TIME4 = 0,
    SET_TO_CLIENT_TIME4 = 1,
}

impl time_how4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<time_how4> {
        Some(match value {
            0 => time_how4::SET_TO_SERVER_TIME4,
            1 => time_how4::SET_TO_CLIENT_TIME4,
            _ => return None,
        })
    }
}

impl Xdr for time_how4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        time_how4::from_wire(value).ok_or(DecodeError::Member {
            of: "time_how4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum settime4 {
    SET_TO_CLIENT_TIME4(nfstime4),
    /// Any other.
    default(time_how4),
}

impl settime4 {
    /// Which of them it is.
    pub fn set_it(&self) -> time_how4 {
        match self {
            settime4::SET_TO_CLIENT_TIME4(_) => time_how4::SET_TO_CLIENT_TIME4,
            settime4::default(other) => *other,
        }
    }
}

impl Xdr for settime4 {
    fn encode(&self, out: &mut Encoder) {
        self.set_it().encode(out);
        match self {
            settime4::SET_TO_CLIENT_TIME4(it) => {
                it.encode(out);
            }
            settime4::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match time_how4::decode(input)? {
            time_how4::SET_TO_CLIENT_TIME4 => {
                settime4::SET_TO_CLIENT_TIME4(nfstime4::decode(input)?)
            }
            other => settime4::default(other),
        })
    }
}

pub type nfs_lease4 = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fsid4 {
    pub major: u64,
    pub minor: u64,
}

impl Xdr for fsid4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.major);
        out.u64(self.minor);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fsid4 {
            major: input.u64()?,
            minor: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct change_policy4 {
    pub cp_major: u64,
    pub cp_minor: u64,
}

impl Xdr for change_policy4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.cp_major);
        out.u64(self.cp_minor);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(change_policy4 {
            cp_major: input.u64()?,
            cp_minor: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fs_location4 {
    pub server: Vec<utf8str_cis>,
    pub rootpath: pathname4,
}

impl Xdr for fs_location4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.server, |out, item| {
            out.opaque(u32::MAX, item);
        });
        out.vec(u32::MAX, &self.rootpath, |out, item| {
            out.opaque(u32::MAX, item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fs_location4 {
            server: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
            rootpath: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fs_locations4 {
    pub fs_root: pathname4,
    pub locations: Vec<fs_location4>,
}

impl Xdr for fs_locations4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.fs_root, |out, item| {
            out.opaque(u32::MAX, item);
        });
        out.vec(u32::MAX, &self.locations, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fs_locations4 {
            fs_root: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
            locations: input.vec(u32::MAX, 8, fs_location4::decode)?,
        })
    }
}

pub const ACL4_SUPPORT_ALLOW_ACL: u32 = 1;

pub const ACL4_SUPPORT_DENY_ACL: u32 = 2;

pub const ACL4_SUPPORT_AUDIT_ACL: u32 = 4;

pub const ACL4_SUPPORT_ALARM_ACL: u32 = 8;

pub type acetype4 = u32;

pub const ACE4_ACCESS_ALLOWED_ACE_TYPE: u32 = 0;

pub const ACE4_ACCESS_DENIED_ACE_TYPE: u32 = 1;

pub const ACE4_SYSTEM_AUDIT_ACE_TYPE: u32 = 2;

pub const ACE4_SYSTEM_ALARM_ACE_TYPE: u32 = 3;

pub type aceflag4 = u32;

pub const ACE4_FILE_INHERIT_ACE: u32 = 1;

pub const ACE4_DIRECTORY_INHERIT_ACE: u32 = 2;

pub const ACE4_NO_PROPAGATE_INHERIT_ACE: u32 = 4;

pub const ACE4_INHERIT_ONLY_ACE: u32 = 8;

pub const ACE4_SUCCESSFUL_ACCESS_ACE_FLAG: u32 = 16;

pub const ACE4_FAILED_ACCESS_ACE_FLAG: u32 = 32;

pub const ACE4_IDENTIFIER_GROUP: u32 = 64;

pub const ACE4_INHERITED_ACE: u32 = 128;

pub type acemask4 = u32;

pub const ACE4_READ_DATA: u32 = 1;

pub const ACE4_LIST_DIRECTORY: u32 = 1;

pub const ACE4_WRITE_DATA: u32 = 2;

pub const ACE4_ADD_FILE: u32 = 2;

pub const ACE4_APPEND_DATA: u32 = 4;

pub const ACE4_ADD_SUBDIRECTORY: u32 = 4;

pub const ACE4_READ_NAMED_ATTRS: u32 = 8;

pub const ACE4_WRITE_NAMED_ATTRS: u32 = 16;

pub const ACE4_EXECUTE: u32 = 32;

pub const ACE4_DELETE_CHILD: u32 = 64;

pub const ACE4_READ_ATTRIBUTES: u32 = 128;

pub const ACE4_WRITE_ATTRIBUTES: u32 = 256;

pub const ACE4_WRITE_RETENTION: u32 = 512;

pub const ACE4_WRITE_RETENTION_HOLD: u32 = 1024;

pub const ACE4_DELETE: u32 = 65536;

pub const ACE4_READ_ACL: u32 = 131072;

pub const ACE4_WRITE_ACL: u32 = 262144;

pub const ACE4_WRITE_OWNER: u32 = 524288;

pub const ACE4_SYNCHRONIZE: u32 = 0x100000;

pub const ACE4_GENERIC_READ: u32 = 0x120081;

pub const ACE4_GENERIC_WRITE: u32 = 0x160106;

pub const ACE4_GENERIC_EXECUTE: u32 = 0x1200a0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfsace4 {
    pub r#type: acetype4,
    pub flag: aceflag4,
    pub access_mask: acemask4,
    pub who: utf8str_mixed,
}

impl Xdr for nfsace4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.r#type);
        out.u32(self.flag);
        out.u32(self.access_mask);
        out.opaque(u32::MAX, &self.who);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfsace4 {
            r#type: input.u32()?,
            flag: input.u32()?,
            access_mask: input.u32()?,
            who: input.opaque(u32::MAX)?,
        })
    }
}

pub type aclflag4 = u32;

pub const ACL4_AUTO_INHERIT: u32 = 1;

pub const ACL4_PROTECTED: u32 = 2;

pub const ACL4_DEFAULTED: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfsacl41 {
    pub na41_flag: aclflag4,
    pub na41_aces: Vec<nfsace4>,
}

impl Xdr for nfsacl41 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.na41_flag);
        out.vec(u32::MAX, &self.na41_aces, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfsacl41 {
            na41_flag: input.u32()?,
            na41_aces: input.vec(u32::MAX, 16, nfsace4::decode)?,
        })
    }
}

pub const MODE4_SUID: u32 = 2048;

pub const MODE4_SGID: u32 = 1024;

pub const MODE4_SVTX: u32 = 512;

pub const MODE4_RUSR: u32 = 256;

pub const MODE4_WUSR: u32 = 128;

pub const MODE4_XUSR: u32 = 64;

pub const MODE4_RGRP: u32 = 32;

pub const MODE4_WGRP: u32 = 16;

pub const MODE4_XGRP: u32 = 8;

pub const MODE4_ROTH: u32 = 4;

pub const MODE4_WOTH: u32 = 2;

pub const MODE4_XOTH: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct mode_masked4 {
    pub mm_value_to_set: mode4,
    pub mm_mask_bits: mode4,
}

impl Xdr for mode_masked4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.mm_value_to_set);
        out.u32(self.mm_mask_bits);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(mode_masked4 {
            mm_value_to_set: input.u32()?,
            mm_mask_bits: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct specdata4 {
    pub specdata1: u32,
    pub specdata2: u32,
}

impl Xdr for specdata4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.specdata1);
        out.u32(self.specdata2);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(specdata4 {
            specdata1: input.u32()?,
            specdata2: input.u32()?,
        })
    }
}

pub const FH4_PERSISTENT: u32 = 0;

pub const FH4_NOEXPIRE_WITH_OPEN: u32 = 1;

pub const FH4_VOLATILE_ANY: u32 = 2;

pub const FH4_VOL_MIGRATION: u32 = 4;

pub const FH4_VOL_RENAME: u32 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct netaddr4 {
    pub na_r_netid: Bytes,
    pub na_r_addr: Bytes,
}

impl Xdr for netaddr4 {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.na_r_netid);
        out.opaque(u32::MAX, &self.na_r_addr);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(netaddr4 {
            na_r_netid: input.opaque(u32::MAX)?,
            na_r_addr: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfs_impl_id4 {
    pub nii_domain: utf8str_cis,
    pub nii_name: utf8str_cs,
    pub nii_date: nfstime4,
}

impl Xdr for nfs_impl_id4 {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.nii_domain);
        out.opaque(u32::MAX, &self.nii_name);
        self.nii_date.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfs_impl_id4 {
            nii_domain: input.opaque(u32::MAX)?,
            nii_name: input.opaque(u32::MAX)?,
            nii_date: nfstime4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct stateid4 {
    pub seqid: u32,
    pub other: [u8; 12],
}

impl Xdr for stateid4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.seqid);
        out.fixed(&self.other);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(stateid4 {
            seqid: input.u32()?,
            other: input.fixed::<12>()?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum layouttype4 {
    LAYOUT4_NFSV4_1_FILES = 1,
    LAYOUT4_OSD2_OBJECTS = 2,
    LAYOUT4_BLOCK_VOLUME = 3,
}

impl layouttype4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<layouttype4> {
        Some(match value {
            1 => layouttype4::LAYOUT4_NFSV4_1_FILES,
            2 => layouttype4::LAYOUT4_OSD2_OBJECTS,
            3 => layouttype4::LAYOUT4_BLOCK_VOLUME,
            _ => return None,
        })
    }
}

impl Xdr for layouttype4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        layouttype4::from_wire(value).ok_or(DecodeError::Member {
            of: "layouttype4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct layout_content4 {
    pub loc_type: layouttype4,
    pub loc_body: Bytes,
}

impl Xdr for layout_content4 {
    fn encode(&self, out: &mut Encoder) {
        self.loc_type.encode(out);
        out.opaque(u32::MAX, &self.loc_body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(layout_content4 {
            loc_type: layouttype4::decode(input)?,
            loc_body: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct layouthint4 {
    pub loh_type: layouttype4,
    pub loh_body: Bytes,
}

impl Xdr for layouthint4 {
    fn encode(&self, out: &mut Encoder) {
        self.loh_type.encode(out);
        out.opaque(u32::MAX, &self.loh_body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(layouthint4 {
            loh_type: layouttype4::decode(input)?,
            loh_body: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum layoutiomode4 {
    LAYOUTIOMODE4_READ = 1,
    LAYOUTIOMODE4_RW = 2,
    LAYOUTIOMODE4_ANY = 3,
}

impl layoutiomode4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<layoutiomode4> {
        Some(match value {
            1 => layoutiomode4::LAYOUTIOMODE4_READ,
            2 => layoutiomode4::LAYOUTIOMODE4_RW,
            3 => layoutiomode4::LAYOUTIOMODE4_ANY,
            _ => return None,
        })
    }
}

impl Xdr for layoutiomode4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        layoutiomode4::from_wire(value).ok_or(DecodeError::Member {
            of: "layoutiomode4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct layout4 {
    pub lo_offset: offset4,
    pub lo_length: length4,
    pub lo_iomode: layoutiomode4,
    pub lo_content: layout_content4,
}

impl Xdr for layout4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.lo_offset);
        out.u64(self.lo_length);
        self.lo_iomode.encode(out);
        self.lo_content.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(layout4 {
            lo_offset: input.u64()?,
            lo_length: input.u64()?,
            lo_iomode: layoutiomode4::decode(input)?,
            lo_content: layout_content4::decode(input)?,
        })
    }
}

pub const NFS4_DEVICEID4_SIZE: u32 = 16;

pub type deviceid4 = [u8; 16];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct device_addr4 {
    pub da_layout_type: layouttype4,
    pub da_addr_body: Bytes,
}

impl Xdr for device_addr4 {
    fn encode(&self, out: &mut Encoder) {
        self.da_layout_type.encode(out);
        out.opaque(u32::MAX, &self.da_addr_body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(device_addr4 {
            da_layout_type: layouttype4::decode(input)?,
            da_addr_body: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct layoutupdate4 {
    pub lou_type: layouttype4,
    pub lou_body: Bytes,
}

impl Xdr for layoutupdate4 {
    fn encode(&self, out: &mut Encoder) {
        self.lou_type.encode(out);
        out.opaque(u32::MAX, &self.lou_body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(layoutupdate4 {
            lou_type: layouttype4::decode(input)?,
            lou_body: input.opaque(u32::MAX)?,
        })
    }
}

pub const LAYOUT4_RET_REC_FILE: u32 = 1;

pub const LAYOUT4_RET_REC_FSID: u32 = 2;

pub const LAYOUT4_RET_REC_ALL: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum layoutreturn_type4 {
    LAYOUTRETURN4_FILE = 1,
    LAYOUTRETURN4_FSID = 2,
    LAYOUTRETURN4_ALL = 3,
}

impl layoutreturn_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<layoutreturn_type4> {
        Some(match value {
            1 => layoutreturn_type4::LAYOUTRETURN4_FILE,
            2 => layoutreturn_type4::LAYOUTRETURN4_FSID,
            3 => layoutreturn_type4::LAYOUTRETURN4_ALL,
            _ => return None,
        })
    }
}

impl Xdr for layoutreturn_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        layoutreturn_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "layoutreturn_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct layoutreturn_file4 {
    pub lrf_offset: offset4,
    pub lrf_length: length4,
    pub lrf_stateid: stateid4,
    pub lrf_body: Bytes,
}

impl Xdr for layoutreturn_file4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.lrf_offset);
        out.u64(self.lrf_length);
        self.lrf_stateid.encode(out);
        out.opaque(u32::MAX, &self.lrf_body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(layoutreturn_file4 {
            lrf_offset: input.u64()?,
            lrf_length: input.u64()?,
            lrf_stateid: stateid4::decode(input)?,
            lrf_body: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum layoutreturn4 {
    LAYOUTRETURN4_FILE(layoutreturn_file4),
    /// Any other.
    default(layoutreturn_type4),
}

impl layoutreturn4 {
    /// Which of them it is.
    pub fn lr_returntype(&self) -> layoutreturn_type4 {
        match self {
            layoutreturn4::LAYOUTRETURN4_FILE(_) => layoutreturn_type4::LAYOUTRETURN4_FILE,
            layoutreturn4::default(other) => *other,
        }
    }
}

impl Xdr for layoutreturn4 {
    fn encode(&self, out: &mut Encoder) {
        self.lr_returntype().encode(out);
        match self {
            layoutreturn4::LAYOUTRETURN4_FILE(it) => {
                it.encode(out);
            }
            layoutreturn4::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match layoutreturn_type4::decode(input)? {
            layoutreturn_type4::LAYOUTRETURN4_FILE => {
                layoutreturn4::LAYOUTRETURN4_FILE(layoutreturn_file4::decode(input)?)
            }
            other => layoutreturn4::default(other),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum fs4_status_type {
    STATUS4_FIXED = 1,
    STATUS4_UPDATED = 2,
    STATUS4_VERSIONED = 3,
    STATUS4_WRITABLE = 4,
    STATUS4_REFERRAL = 5,
}

impl fs4_status_type {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<fs4_status_type> {
        Some(match value {
            1 => fs4_status_type::STATUS4_FIXED,
            2 => fs4_status_type::STATUS4_UPDATED,
            3 => fs4_status_type::STATUS4_VERSIONED,
            4 => fs4_status_type::STATUS4_WRITABLE,
            5 => fs4_status_type::STATUS4_REFERRAL,
            _ => return None,
        })
    }
}

impl Xdr for fs4_status_type {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        fs4_status_type::from_wire(value).ok_or(DecodeError::Member {
            of: "fs4_status_type",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fs4_status {
    pub fss_absent: bool,
    pub fss_type: fs4_status_type,
    pub fss_source: utf8str_cs,
    pub fss_current: utf8str_cs,
    pub fss_age: i32,
    pub fss_version: nfstime4,
}

impl Xdr for fs4_status {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.fss_absent);
        self.fss_type.encode(out);
        out.opaque(u32::MAX, &self.fss_source);
        out.opaque(u32::MAX, &self.fss_current);
        out.i32(self.fss_age);
        self.fss_version.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fs4_status {
            fss_absent: input.bool()?,
            fss_type: fs4_status_type::decode(input)?,
            fss_source: input.opaque(u32::MAX)?,
            fss_current: input.opaque(u32::MAX)?,
            fss_age: input.i32()?,
            fss_version: nfstime4::decode(input)?,
        })
    }
}

pub const TH4_READ_SIZE: u32 = 0;

pub const TH4_WRITE_SIZE: u32 = 1;

pub const TH4_READ_IOSIZE: u32 = 2;

pub const TH4_WRITE_IOSIZE: u32 = 3;

pub type threshold4_read_size = length4;

pub type threshold4_write_size = length4;

pub type threshold4_read_iosize = length4;

pub type threshold4_write_iosize = length4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct threshold_item4 {
    pub thi_layout_type: layouttype4,
    pub thi_hintset: bitmap4,
    pub thi_hintlist: Bytes,
}

impl Xdr for threshold_item4 {
    fn encode(&self, out: &mut Encoder) {
        self.thi_layout_type.encode(out);
        out.vec(u32::MAX, &self.thi_hintset, |out, item| {
            out.u32(*item);
        });
        out.opaque(u32::MAX, &self.thi_hintlist);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(threshold_item4 {
            thi_layout_type: layouttype4::decode(input)?,
            thi_hintset: input.vec(u32::MAX, 4, Decoder::u32)?,
            thi_hintlist: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct mdsthreshold4 {
    pub mth_hints: Vec<threshold_item4>,
}

impl Xdr for mdsthreshold4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.mth_hints, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(mdsthreshold4 {
            mth_hints: input.vec(u32::MAX, 12, threshold_item4::decode)?,
        })
    }
}

pub const RET4_DURATION_INFINITE: u64 = 0xffffffffffffffff;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct retention_get4 {
    pub rg_duration: u64,
    /// At most 1.
    pub rg_begin_time: Vec<nfstime4>,
}

impl Xdr for retention_get4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.rg_duration);
        out.vec(1, &self.rg_begin_time, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(retention_get4 {
            rg_duration: input.u64()?,
            rg_begin_time: input.vec(1, 12, nfstime4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct retention_set4 {
    pub rs_enable: bool,
    /// At most 1.
    pub rs_duration: Vec<u64>,
}

impl Xdr for retention_set4 {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.rs_enable);
        out.vec(1, &self.rs_duration, |out, item| {
            out.u64(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(retention_set4 {
            rs_enable: input.bool()?,
            rs_duration: input.vec(1, 8, Decoder::u64)?,
        })
    }
}

pub const FSCHARSET_CAP4_CONTAINS_NON_UTF8: u32 = 1;

pub const FSCHARSET_CAP4_ALLOWS_ONLY_UTF8: u32 = 2;

pub type fs_charset_cap4 = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum netloc_type4 {
    NL4_NAME = 1,
    NL4_URL = 2,
    NL4_NETADDR = 3,
}

impl netloc_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<netloc_type4> {
        Some(match value {
            1 => netloc_type4::NL4_NAME,
            2 => netloc_type4::NL4_URL,
            3 => netloc_type4::NL4_NETADDR,
            _ => return None,
        })
    }
}

impl Xdr for netloc_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        netloc_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "netloc_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum netloc4 {
    NL4_NAME(utf8str_cis),
    NL4_URL(utf8str_cis),
    NL4_NETADDR(netaddr4),
}

impl netloc4 {
    /// Which of them it is.
    pub fn nl_type(&self) -> netloc_type4 {
        match self {
            netloc4::NL4_NAME(_) => netloc_type4::NL4_NAME,
            netloc4::NL4_URL(_) => netloc_type4::NL4_URL,
            netloc4::NL4_NETADDR(_) => netloc_type4::NL4_NETADDR,
        }
    }
}

impl Xdr for netloc4 {
    fn encode(&self, out: &mut Encoder) {
        self.nl_type().encode(out);
        match self {
            netloc4::NL4_NAME(it) => {
                out.opaque(u32::MAX, it);
            }
            netloc4::NL4_URL(it) => {
                out.opaque(u32::MAX, it);
            }
            netloc4::NL4_NETADDR(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match netloc_type4::decode(input)? {
            netloc_type4::NL4_NAME => netloc4::NL4_NAME(input.opaque(u32::MAX)?),
            netloc_type4::NL4_URL => netloc4::NL4_URL(input.opaque(u32::MAX)?),
            netloc_type4::NL4_NETADDR => netloc4::NL4_NETADDR(netaddr4::decode(input)?),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum change_attr_type4 {
    NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR = 0,
    NFS4_CHANGE_TYPE_IS_VERSION_COUNTER = 1,
    NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS = 2,
    NFS4_CHANGE_TYPE_IS_TIME_METADATA = 3,
    NFS4_CHANGE_TYPE_IS_UNDEFINED = 4,
}

impl change_attr_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<change_attr_type4> {
        Some(match value {
            0 => change_attr_type4::NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR,
            1 => change_attr_type4::NFS4_CHANGE_TYPE_IS_VERSION_COUNTER,
            2 => change_attr_type4::NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS,
            3 => change_attr_type4::NFS4_CHANGE_TYPE_IS_TIME_METADATA,
            4 => change_attr_type4::NFS4_CHANGE_TYPE_IS_UNDEFINED,
            _ => return None,
        })
    }
}

impl Xdr for change_attr_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        change_attr_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "change_attr_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct labelformat_spec4 {
    pub lfs_lfs: policy4,
    pub lfs_pi: policy4,
}

impl Xdr for labelformat_spec4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.lfs_lfs);
        out.u32(self.lfs_pi);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(labelformat_spec4 {
            lfs_lfs: input.u32()?,
            lfs_pi: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct sec_label4 {
    pub slai_lfs: labelformat_spec4,
    pub slai_data: Bytes,
}

impl Xdr for sec_label4 {
    fn encode(&self, out: &mut Encoder) {
        self.slai_lfs.encode(out);
        out.opaque(u32::MAX, &self.slai_data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(sec_label4 {
            slai_lfs: labelformat_spec4::decode(input)?,
            slai_data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct copy_from_auth_priv {
    pub cfap_shared_secret: secret4,
    pub cfap_destination: netloc4,
    pub cfap_username: utf8str_mixed,
}

impl Xdr for copy_from_auth_priv {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.cfap_shared_secret);
        self.cfap_destination.encode(out);
        out.opaque(u32::MAX, &self.cfap_username);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(copy_from_auth_priv {
            cfap_shared_secret: input.opaque(u32::MAX)?,
            cfap_destination: netloc4::decode(input)?,
            cfap_username: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct copy_to_auth_priv {
    pub ctap_shared_secret: secret4,
    pub ctap_source: Vec<netloc4>,
    pub ctap_username: utf8str_mixed,
}

impl Xdr for copy_to_auth_priv {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.ctap_shared_secret);
        out.vec(u32::MAX, &self.ctap_source, |out, item| {
            item.encode(out);
        });
        out.opaque(u32::MAX, &self.ctap_username);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(copy_to_auth_priv {
            ctap_shared_secret: input.opaque(u32::MAX)?,
            ctap_source: input.vec(u32::MAX, 8, netloc4::decode)?,
            ctap_username: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct copy_confirm_auth_priv {
    pub ccap_shared_secret_mic: Bytes,
    pub ccap_username: utf8str_mixed,
}

impl Xdr for copy_confirm_auth_priv {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.ccap_shared_secret_mic);
        out.opaque(u32::MAX, &self.ccap_username);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(copy_confirm_auth_priv {
            ccap_shared_secret_mic: input.opaque(u32::MAX)?,
            ccap_username: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct app_data_block4 {
    pub adb_offset: offset4,
    pub adb_block_size: length4,
    pub adb_block_count: length4,
    pub adb_reloff_blocknum: length4,
    pub adb_block_num: count4,
    pub adb_reloff_pattern: length4,
    pub adb_pattern: Bytes,
}

impl Xdr for app_data_block4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.adb_offset);
        out.u64(self.adb_block_size);
        out.u64(self.adb_block_count);
        out.u64(self.adb_reloff_blocknum);
        out.u32(self.adb_block_num);
        out.u64(self.adb_reloff_pattern);
        out.opaque(u32::MAX, &self.adb_pattern);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(app_data_block4 {
            adb_offset: input.u64()?,
            adb_block_size: input.u64()?,
            adb_block_count: input.u64()?,
            adb_reloff_blocknum: input.u64()?,
            adb_block_num: input.u32()?,
            adb_reloff_pattern: input.u64()?,
            adb_pattern: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct data4 {
    pub d_offset: offset4,
    pub d_data: Bytes,
}

impl Xdr for data4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.d_offset);
        out.opaque(u32::MAX, &self.d_data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(data4 {
            d_offset: input.u64()?,
            d_data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct data_info4 {
    pub di_offset: offset4,
    pub di_length: length4,
}

impl Xdr for data_info4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.di_offset);
        out.u64(self.di_length);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(data_info4 {
            di_offset: input.u64()?,
            di_length: input.u64()?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum data_content4 {
    NFS4_CONTENT_DATA = 0,
    NFS4_CONTENT_HOLE = 1,
}

impl data_content4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<data_content4> {
        Some(match value {
            0 => data_content4::NFS4_CONTENT_DATA,
            1 => data_content4::NFS4_CONTENT_HOLE,
            _ => return None,
        })
    }
}

impl Xdr for data_content4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        data_content4::from_wire(value).ok_or(DecodeError::Member {
            of: "data_content4",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum stable_how4 {
    UNSTABLE4 = 0,
    DATA_SYNC4 = 1,
    FILE_SYNC4 = 2,
}

impl stable_how4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<stable_how4> {
        Some(match value {
            0 => stable_how4::UNSTABLE4,
            1 => stable_how4::DATA_SYNC4,
            2 => stable_how4::FILE_SYNC4,
            _ => return None,
        })
    }
}

impl Xdr for stable_how4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        stable_how4::from_wire(value).ok_or(DecodeError::Member {
            of: "stable_how4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct write_response4 {
    /// At most 1.
    pub wr_callback_id: Vec<stateid4>,
    pub wr_count: length4,
    pub wr_committed: stable_how4,
    pub wr_writeverf: verifier4,
}

impl Xdr for write_response4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(1, &self.wr_callback_id, |out, item| {
            item.encode(out);
        });
        out.u64(self.wr_count);
        self.wr_committed.encode(out);
        out.fixed(&self.wr_writeverf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(write_response4 {
            wr_callback_id: input.vec(1, 16, stateid4::decode)?,
            wr_count: input.u64()?,
            wr_committed: stable_how4::decode(input)?,
            wr_writeverf: input.fixed::<8>()?,
        })
    }
}

pub type fattr4_supported_attrs = bitmap4;

pub type fattr4_type = nfs_ftype4;

pub type fattr4_fh_expire_type = u32;

pub type fattr4_change = changeid4;

pub type fattr4_size = u64;

pub type fattr4_link_support = bool;

pub type fattr4_symlink_support = bool;

pub type fattr4_named_attr = bool;

pub type fattr4_fsid = fsid4;

pub type fattr4_unique_handles = bool;

pub type fattr4_lease_time = nfs_lease4;

pub type fattr4_rdattr_error = nfsstat4;

pub type fattr4_acl = Vec<nfsace4>;

pub type fattr4_aclsupport = u32;

pub type fattr4_archive = bool;

pub type fattr4_cansettime = bool;

pub type fattr4_case_insensitive = bool;

pub type fattr4_case_preserving = bool;

pub type fattr4_chown_restricted = bool;

pub type fattr4_fileid = u64;

pub type fattr4_files_avail = u64;

/// At most 128 bytes.
pub type fattr4_filehandle = nfs_fh4;

pub type fattr4_files_free = u64;

pub type fattr4_files_total = u64;

pub type fattr4_fs_locations = fs_locations4;

pub type fattr4_hidden = bool;

pub type fattr4_homogeneous = bool;

pub type fattr4_maxfilesize = u64;

pub type fattr4_maxlink = u32;

pub type fattr4_maxname = u32;

pub type fattr4_maxread = u64;

pub type fattr4_maxwrite = u64;

pub type fattr4_mimetype = ascii_REQUIRED4;

pub type fattr4_mode = mode4;

pub type fattr4_mode_set_masked = mode_masked4;

pub type fattr4_mounted_on_fileid = u64;

pub type fattr4_no_trunc = bool;

pub type fattr4_numlinks = u32;

pub type fattr4_owner = utf8str_mixed;

pub type fattr4_owner_group = utf8str_mixed;

pub type fattr4_quota_avail_hard = u64;

pub type fattr4_quota_avail_soft = u64;

pub type fattr4_quota_used = u64;

pub type fattr4_rawdev = specdata4;

pub type fattr4_space_avail = u64;

pub type fattr4_space_free = length4;

pub type fattr4_space_total = u64;

pub type fattr4_space_used = u64;

pub type fattr4_system = bool;

pub type fattr4_time_access = nfstime4;

pub type fattr4_time_access_set = settime4;

pub type fattr4_time_backup = nfstime4;

pub type fattr4_time_create = nfstime4;

pub type fattr4_time_delta = nfstime4;

pub type fattr4_time_metadata = nfstime4;

pub type fattr4_time_modify = nfstime4;

pub type fattr4_time_modify_set = settime4;

pub type fattr4_suppattr_exclcreat = bitmap4;

pub type fattr4_dir_notif_delay = nfstime4;

pub type fattr4_dirent_notif_delay = nfstime4;

pub type fattr4_fs_layout_types = Vec<layouttype4>;

pub type fattr4_fs_status = fs4_status;

pub type fattr4_fs_charset_cap = fs_charset_cap4;

pub type fattr4_layout_alignment = u32;

pub type fattr4_layout_blksize = u32;

pub type fattr4_layout_hint = layouthint4;

pub type fattr4_layout_types = Vec<layouttype4>;

pub type fattr4_mdsthreshold = mdsthreshold4;

pub type fattr4_retention_get = retention_get4;

pub type fattr4_retention_set = retention_set4;

pub type fattr4_retentevt_get = retention_get4;

pub type fattr4_retentevt_set = retention_set4;

pub type fattr4_retention_hold = u64;

pub type fattr4_dacl = nfsacl41;

pub type fattr4_sacl = nfsacl41;

pub type fattr4_change_policy = change_policy4;

pub type fattr4_space_freed = u64;

pub type fattr4_change_attr_type = change_attr_type4;

pub type fattr4_sec_label = sec_label4;

pub type fattr4_clone_blksize = u32;

pub const FATTR4_SUPPORTED_ATTRS: u32 = 0;

pub const FATTR4_TYPE: u32 = 1;

pub const FATTR4_FH_EXPIRE_TYPE: u32 = 2;

pub const FATTR4_CHANGE: u32 = 3;

pub const FATTR4_SIZE: u32 = 4;

pub const FATTR4_LINK_SUPPORT: u32 = 5;

pub const FATTR4_SYMLINK_SUPPORT: u32 = 6;

pub const FATTR4_NAMED_ATTR: u32 = 7;

pub const FATTR4_FSID: u32 = 8;

pub const FATTR4_UNIQUE_HANDLES: u32 = 9;

pub const FATTR4_LEASE_TIME: u32 = 10;

pub const FATTR4_RDATTR_ERROR: u32 = 11;

pub const FATTR4_FILEHANDLE: u32 = 19;

pub const FATTR4_SUPPATTR_EXCLCREAT: u32 = 75;

pub const FATTR4_ACL: u32 = 12;

pub const FATTR4_ACLSUPPORT: u32 = 13;

pub const FATTR4_ARCHIVE: u32 = 14;

pub const FATTR4_CANSETTIME: u32 = 15;

pub const FATTR4_CASE_INSENSITIVE: u32 = 16;

pub const FATTR4_CASE_PRESERVING: u32 = 17;

pub const FATTR4_CHOWN_RESTRICTED: u32 = 18;

pub const FATTR4_FILEID: u32 = 20;

pub const FATTR4_FILES_AVAIL: u32 = 21;

pub const FATTR4_FILES_FREE: u32 = 22;

pub const FATTR4_FILES_TOTAL: u32 = 23;

pub const FATTR4_FS_LOCATIONS: u32 = 24;

pub const FATTR4_HIDDEN: u32 = 25;

pub const FATTR4_HOMOGENEOUS: u32 = 26;

pub const FATTR4_MAXFILESIZE: u32 = 27;

pub const FATTR4_MAXLINK: u32 = 28;

pub const FATTR4_MAXNAME: u32 = 29;

pub const FATTR4_MAXREAD: u32 = 30;

pub const FATTR4_MAXWRITE: u32 = 31;

pub const FATTR4_MIMETYPE: u32 = 32;

pub const FATTR4_MODE: u32 = 33;

pub const FATTR4_NO_TRUNC: u32 = 34;

pub const FATTR4_NUMLINKS: u32 = 35;

pub const FATTR4_OWNER: u32 = 36;

pub const FATTR4_OWNER_GROUP: u32 = 37;

pub const FATTR4_QUOTA_AVAIL_HARD: u32 = 38;

pub const FATTR4_QUOTA_AVAIL_SOFT: u32 = 39;

pub const FATTR4_QUOTA_USED: u32 = 40;

pub const FATTR4_RAWDEV: u32 = 41;

pub const FATTR4_SPACE_AVAIL: u32 = 42;

pub const FATTR4_SPACE_FREE: u32 = 43;

pub const FATTR4_SPACE_TOTAL: u32 = 44;

pub const FATTR4_SPACE_USED: u32 = 45;

pub const FATTR4_SYSTEM: u32 = 46;

pub const FATTR4_TIME_ACCESS: u32 = 47;

pub const FATTR4_TIME_ACCESS_SET: u32 = 48;

pub const FATTR4_TIME_BACKUP: u32 = 49;

pub const FATTR4_TIME_CREATE: u32 = 50;

pub const FATTR4_TIME_DELTA: u32 = 51;

pub const FATTR4_TIME_METADATA: u32 = 52;

pub const FATTR4_TIME_MODIFY: u32 = 53;

pub const FATTR4_TIME_MODIFY_SET: u32 = 54;

pub const FATTR4_MOUNTED_ON_FILEID: u32 = 55;

pub const FATTR4_DIR_NOTIF_DELAY: u32 = 56;

pub const FATTR4_DIRENT_NOTIF_DELAY: u32 = 57;

pub const FATTR4_DACL: u32 = 58;

pub const FATTR4_SACL: u32 = 59;

pub const FATTR4_CHANGE_POLICY: u32 = 60;

pub const FATTR4_FS_STATUS: u32 = 61;

pub const FATTR4_FS_LAYOUT_TYPES: u32 = 62;

pub const FATTR4_LAYOUT_HINT: u32 = 63;

pub const FATTR4_LAYOUT_TYPES: u32 = 64;

pub const FATTR4_LAYOUT_BLKSIZE: u32 = 65;

pub const FATTR4_LAYOUT_ALIGNMENT: u32 = 66;

pub const FATTR4_FS_LOCATIONS_INFO: u32 = 67;

pub const FATTR4_MDSTHRESHOLD: u32 = 68;

pub const FATTR4_RETENTION_GET: u32 = 69;

pub const FATTR4_RETENTION_SET: u32 = 70;

pub const FATTR4_RETENTEVT_GET: u32 = 71;

pub const FATTR4_RETENTEVT_SET: u32 = 72;

pub const FATTR4_RETENTION_HOLD: u32 = 73;

pub const FATTR4_MODE_SET_MASKED: u32 = 74;

pub const FATTR4_FS_CHARSET_CAP: u32 = 76;

pub const FATTR4_CLONE_BLKSIZE: u32 = 77;

pub const FATTR4_SPACE_FREED: u32 = 78;

pub const FATTR4_CHANGE_ATTR_TYPE: u32 = 79;

pub const FATTR4_SEC_LABEL: u32 = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fattr4 {
    pub attrmask: bitmap4,
    pub attr_vals: attrlist4,
}

impl Xdr for fattr4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.attrmask, |out, item| {
            out.u32(*item);
        });
        out.opaque(u32::MAX, &self.attr_vals);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fattr4 {
            attrmask: input.vec(u32::MAX, 4, Decoder::u32)?,
            attr_vals: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct change_info4 {
    pub atomic: bool,
    pub before: changeid4,
    pub after: changeid4,
}

impl Xdr for change_info4 {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.atomic);
        out.u64(self.before);
        out.u64(self.after);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(change_info4 {
            atomic: input.bool()?,
            before: input.u64()?,
            after: input.u64()?,
        })
    }
}

pub type clientaddr4 = netaddr4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct cb_client4 {
    pub cb_program: u32,
    pub cb_location: netaddr4,
}

impl Xdr for cb_client4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.cb_program);
        self.cb_location.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(cb_client4 {
            cb_program: input.u32()?,
            cb_location: netaddr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfs_client_id4 {
    pub verifier: verifier4,
    /// At most 1024 bytes.
    pub id: Bytes,
}

impl Xdr for nfs_client_id4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.verifier);
        out.opaque(1024, &self.id);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfs_client_id4 {
            verifier: input.fixed::<8>()?,
            id: input.opaque(1024)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct client_owner4 {
    pub co_verifier: verifier4,
    /// At most 1024 bytes.
    pub co_ownerid: Bytes,
}

impl Xdr for client_owner4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.co_verifier);
        out.opaque(1024, &self.co_ownerid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(client_owner4 {
            co_verifier: input.fixed::<8>()?,
            co_ownerid: input.opaque(1024)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct server_owner4 {
    pub so_minor_id: u64,
    /// At most 1024 bytes.
    pub so_major_id: Bytes,
}

impl Xdr for server_owner4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.so_minor_id);
        out.opaque(1024, &self.so_major_id);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(server_owner4 {
            so_minor_id: input.u64()?,
            so_major_id: input.opaque(1024)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct state_owner4 {
    pub clientid: clientid4,
    /// At most 1024 bytes.
    pub owner: Bytes,
}

impl Xdr for state_owner4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.clientid);
        out.opaque(1024, &self.owner);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(state_owner4 {
            clientid: input.u64()?,
            owner: input.opaque(1024)?,
        })
    }
}

pub type open_owner4 = state_owner4;

pub type lock_owner4 = state_owner4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum nfs_lock_type4 {
    READ_LT = 1,
    WRITE_LT = 2,
    READW_LT = 3,
    WRITEW_LT = 4,
}

impl nfs_lock_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<nfs_lock_type4> {
        Some(match value {
            1 => nfs_lock_type4::READ_LT,
            2 => nfs_lock_type4::WRITE_LT,
            3 => nfs_lock_type4::READW_LT,
            4 => nfs_lock_type4::WRITEW_LT,
            _ => return None,
        })
    }
}

impl Xdr for nfs_lock_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        nfs_lock_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "nfs_lock_type4",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum ssv_subkey4 {
    SSV4_SUBKEY_MIC_I2T = 1,
    SSV4_SUBKEY_MIC_T2I = 2,
    SSV4_SUBKEY_SEAL_I2T = 3,
    SSV4_SUBKEY_SEAL_T2I = 4,
}

impl ssv_subkey4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<ssv_subkey4> {
        Some(match value {
            1 => ssv_subkey4::SSV4_SUBKEY_MIC_I2T,
            2 => ssv_subkey4::SSV4_SUBKEY_MIC_T2I,
            3 => ssv_subkey4::SSV4_SUBKEY_SEAL_I2T,
            4 => ssv_subkey4::SSV4_SUBKEY_SEAL_T2I,
            _ => return None,
        })
    }
}

impl Xdr for ssv_subkey4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        ssv_subkey4::from_wire(value).ok_or(DecodeError::Member {
            of: "ssv_subkey4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssv_mic_plain_tkn4 {
    pub smpt_ssv_seq: u32,
    pub smpt_orig_plain: Bytes,
}

impl Xdr for ssv_mic_plain_tkn4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.smpt_ssv_seq);
        out.opaque(u32::MAX, &self.smpt_orig_plain);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssv_mic_plain_tkn4 {
            smpt_ssv_seq: input.u32()?,
            smpt_orig_plain: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssv_mic_tkn4 {
    pub smt_ssv_seq: u32,
    pub smt_hmac: Bytes,
}

impl Xdr for ssv_mic_tkn4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.smt_ssv_seq);
        out.opaque(u32::MAX, &self.smt_hmac);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssv_mic_tkn4 {
            smt_ssv_seq: input.u32()?,
            smt_hmac: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssv_seal_plain_tkn4 {
    pub sspt_confounder: Bytes,
    pub sspt_ssv_seq: u32,
    pub sspt_orig_plain: Bytes,
    pub sspt_pad: Bytes,
}

impl Xdr for ssv_seal_plain_tkn4 {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.sspt_confounder);
        out.u32(self.sspt_ssv_seq);
        out.opaque(u32::MAX, &self.sspt_orig_plain);
        out.opaque(u32::MAX, &self.sspt_pad);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssv_seal_plain_tkn4 {
            sspt_confounder: input.opaque(u32::MAX)?,
            sspt_ssv_seq: input.u32()?,
            sspt_orig_plain: input.opaque(u32::MAX)?,
            sspt_pad: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssv_seal_cipher_tkn4 {
    pub ssct_ssv_seq: u32,
    pub ssct_iv: Bytes,
    pub ssct_encr_data: Bytes,
    pub ssct_hmac: Bytes,
}

impl Xdr for ssv_seal_cipher_tkn4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.ssct_ssv_seq);
        out.opaque(u32::MAX, &self.ssct_iv);
        out.opaque(u32::MAX, &self.ssct_encr_data);
        out.opaque(u32::MAX, &self.ssct_hmac);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssv_seal_cipher_tkn4 {
            ssct_ssv_seq: input.u32()?,
            ssct_iv: input.opaque(u32::MAX)?,
            ssct_encr_data: input.opaque(u32::MAX)?,
            ssct_hmac: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fs_locations_server4 {
    pub fls_currency: i32,
    pub fls_info: Bytes,
    pub fls_server: utf8str_cis,
}

impl Xdr for fs_locations_server4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(self.fls_currency);
        out.opaque(u32::MAX, &self.fls_info);
        out.opaque(u32::MAX, &self.fls_server);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fs_locations_server4 {
            fls_currency: input.i32()?,
            fls_info: input.opaque(u32::MAX)?,
            fls_server: input.opaque(u32::MAX)?,
        })
    }
}

pub const FSLI4BX_GFLAGS: u32 = 0;

pub const FSLI4BX_TFLAGS: u32 = 1;

pub const FSLI4BX_CLSIMUL: u32 = 2;

pub const FSLI4BX_CLHANDLE: u32 = 3;

pub const FSLI4BX_CLFILEID: u32 = 4;

pub const FSLI4BX_CLWRITEVER: u32 = 5;

pub const FSLI4BX_CLCHANGE: u32 = 6;

pub const FSLI4BX_CLREADDIR: u32 = 7;

pub const FSLI4BX_READRANK: u32 = 8;

pub const FSLI4BX_WRITERANK: u32 = 9;

pub const FSLI4BX_READORDER: u32 = 10;

pub const FSLI4BX_WRITEORDER: u32 = 11;

pub const FSLI4GF_WRITABLE: u32 = 1;

pub const FSLI4GF_CUR_REQ: u32 = 2;

pub const FSLI4GF_ABSENT: u32 = 4;

pub const FSLI4GF_GOING: u32 = 8;

pub const FSLI4GF_SPLIT: u32 = 16;

pub const FSLI4TF_RDMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fs_locations_item4 {
    pub fli_entries: Vec<fs_locations_server4>,
    pub fli_rootpath: pathname4,
}

impl Xdr for fs_locations_item4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.fli_entries, |out, item| {
            item.encode(out);
        });
        out.vec(u32::MAX, &self.fli_rootpath, |out, item| {
            out.opaque(u32::MAX, item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fs_locations_item4 {
            fli_entries: input.vec(u32::MAX, 12, fs_locations_server4::decode)?,
            fli_rootpath: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct fs_locations_info4 {
    pub fli_flags: u32,
    pub fli_valid_for: i32,
    pub fli_fs_root: pathname4,
    pub fli_items: Vec<fs_locations_item4>,
}

impl Xdr for fs_locations_info4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.fli_flags);
        out.i32(self.fli_valid_for);
        out.vec(u32::MAX, &self.fli_fs_root, |out, item| {
            out.opaque(u32::MAX, item);
        });
        out.vec(u32::MAX, &self.fli_items, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(fs_locations_info4 {
            fli_flags: input.u32()?,
            fli_valid_for: input.i32()?,
            fli_fs_root: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
            fli_items: input.vec(u32::MAX, 8, fs_locations_item4::decode)?,
        })
    }
}

pub const FSLI4IF_VAR_SUB: u32 = 1;

pub type fattr4_fs_locations_info = fs_locations_info4;

pub const NFL4_UFLG_MASK: u32 = 63;

pub const NFL4_UFLG_DENSE: u32 = 1;

pub const NFL4_UFLG_COMMIT_THRU_MDS: u32 = 2;

pub const NFL42_UFLG_IO_ADVISE_THRU_MDS: u32 = 4;

pub const NFL4_UFLG_STRIPE_UNIT_SIZE_MASK: u32 = 0xffffffc0;

pub type nfl_util4 = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum filelayout_hint_care4 {
    NFLH4_CARE_DENSE = 1,
    NFLH4_CARE_COMMIT_THRU_MDS = 2,
    NFL42_CARE_IO_ADVISE_THRU_MDS = 4,
    NFLH4_CARE_STRIPE_UNIT_SIZE = 64,
    NFLH4_CARE_STRIPE_COUNT = 128,
}

impl filelayout_hint_care4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<filelayout_hint_care4> {
        Some(match value {
            1 => filelayout_hint_care4::NFLH4_CARE_DENSE,
            2 => filelayout_hint_care4::NFLH4_CARE_COMMIT_THRU_MDS,
            4 => filelayout_hint_care4::NFL42_CARE_IO_ADVISE_THRU_MDS,
            64 => filelayout_hint_care4::NFLH4_CARE_STRIPE_UNIT_SIZE,
            128 => filelayout_hint_care4::NFLH4_CARE_STRIPE_COUNT,
            _ => return None,
        })
    }
}

impl Xdr for filelayout_hint_care4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        filelayout_hint_care4::from_wire(value).ok_or(DecodeError::Member {
            of: "filelayout_hint_care4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfsv4_1_file_layouthint4 {
    pub nflh_care: u32,
    pub nflh_util: nfl_util4,
    pub nflh_stripe_count: count4,
}

impl Xdr for nfsv4_1_file_layouthint4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.nflh_care);
        out.u32(self.nflh_util);
        out.u32(self.nflh_stripe_count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfsv4_1_file_layouthint4 {
            nflh_care: input.u32()?,
            nflh_util: input.u32()?,
            nflh_stripe_count: input.u32()?,
        })
    }
}

pub type multipath_list4 = Vec<netaddr4>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfsv4_1_file_layout_ds_addr4 {
    pub nflda_stripe_indices: Vec<u32>,
    pub nflda_multipath_ds_list: Vec<multipath_list4>,
}

impl Xdr for nfsv4_1_file_layout_ds_addr4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.nflda_stripe_indices, |out, item| {
            out.u32(*item);
        });
        out.vec(u32::MAX, &self.nflda_multipath_ds_list, |out, item| {
            out.vec(u32::MAX, item, |out, item| {
                item.encode(out);
            });
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfsv4_1_file_layout_ds_addr4 {
            nflda_stripe_indices: input.vec(u32::MAX, 4, Decoder::u32)?,
            nflda_multipath_ds_list: input.vec(u32::MAX, 4, |input| {
                input.vec(u32::MAX, 8, netaddr4::decode)
            })?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfsv4_1_file_layout4 {
    pub nfl_deviceid: deviceid4,
    pub nfl_util: nfl_util4,
    pub nfl_first_stripe_index: u32,
    pub nfl_pattern_offset: offset4,
    pub nfl_fh_list: Vec<nfs_fh4>,
}

impl Xdr for nfsv4_1_file_layout4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.nfl_deviceid);
        out.u32(self.nfl_util);
        out.u32(self.nfl_first_stripe_index);
        out.u64(self.nfl_pattern_offset);
        out.vec(u32::MAX, &self.nfl_fh_list, |out, item| {
            out.opaque(128, item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfsv4_1_file_layout4 {
            nfl_deviceid: input.fixed::<16>()?,
            nfl_util: input.u32()?,
            nfl_first_stripe_index: input.u32()?,
            nfl_pattern_offset: input.u64()?,
            nfl_fh_list: input.vec(u32::MAX, 4, |input| input.opaque(128))?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum nfs_opnum4 {
    OP_ACCESS = 3,
    OP_CLOSE = 4,
    OP_COMMIT = 5,
    OP_CREATE = 6,
    OP_DELEGPURGE = 7,
    OP_DELEGRETURN = 8,
    OP_GETATTR = 9,
    OP_GETFH = 10,
    OP_LINK = 11,
    OP_LOCK = 12,
    OP_LOCKT = 13,
    OP_LOCKU = 14,
    OP_LOOKUP = 15,
    OP_LOOKUPP = 16,
    OP_NVERIFY = 17,
    OP_OPEN = 18,
    OP_OPENATTR = 19,
    OP_OPEN_CONFIRM = 20,
    OP_OPEN_DOWNGRADE = 21,
    OP_PUTFH = 22,
    OP_PUTPUBFH = 23,
    OP_PUTROOTFH = 24,
    OP_READ = 25,
    OP_READDIR = 26,
    OP_READLINK = 27,
    OP_REMOVE = 28,
    OP_RENAME = 29,
    OP_RENEW = 30,
    OP_RESTOREFH = 31,
    OP_SAVEFH = 32,
    OP_SECINFO = 33,
    OP_SETATTR = 34,
    OP_SETCLIENTID = 35,
    OP_SETCLIENTID_CONFIRM = 36,
    OP_VERIFY = 37,
    OP_WRITE = 38,
    OP_RELEASE_LOCKOWNER = 39,
    OP_BACKCHANNEL_CTL = 40,
    OP_BIND_CONN_TO_SESSION = 41,
    OP_EXCHANGE_ID = 42,
    OP_CREATE_SESSION = 43,
    OP_DESTROY_SESSION = 44,
    OP_FREE_STATEID = 45,
    OP_GET_DIR_DELEGATION = 46,
    OP_GETDEVICEINFO = 47,
    OP_GETDEVICELIST = 48,
    OP_LAYOUTCOMMIT = 49,
    OP_LAYOUTGET = 50,
    OP_LAYOUTRETURN = 51,
    OP_SECINFO_NO_NAME = 52,
    OP_SEQUENCE = 53,
    OP_SET_SSV = 54,
    OP_TEST_STATEID = 55,
    OP_WANT_DELEGATION = 56,
    OP_DESTROY_CLIENTID = 57,
    OP_RECLAIM_COMPLETE = 58,
    OP_ALLOCATE = 59,
    OP_COPY = 60,
    OP_COPY_NOTIFY = 61,
    OP_DEALLOCATE = 62,
    OP_IO_ADVISE = 63,
    OP_LAYOUTERROR = 64,
    OP_LAYOUTSTATS = 65,
    OP_OFFLOAD_CANCEL = 66,
    OP_OFFLOAD_STATUS = 67,
    OP_READ_PLUS = 68,
    OP_SEEK = 69,
    OP_WRITE_SAME = 70,
    OP_CLONE = 71,
    OP_ILLEGAL = 10044,
    OP_GETXATTR = 72,
    OP_SETXATTR = 73,
    OP_LISTXATTRS = 74,
    OP_REMOVEXATTR = 75,
}

impl nfs_opnum4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<nfs_opnum4> {
        Some(match value {
            3 => nfs_opnum4::OP_ACCESS,
            4 => nfs_opnum4::OP_CLOSE,
            5 => nfs_opnum4::OP_COMMIT,
            6 => nfs_opnum4::OP_CREATE,
            7 => nfs_opnum4::OP_DELEGPURGE,
            8 => nfs_opnum4::OP_DELEGRETURN,
            9 => nfs_opnum4::OP_GETATTR,
            10 => nfs_opnum4::OP_GETFH,
            11 => nfs_opnum4::OP_LINK,
            12 => nfs_opnum4::OP_LOCK,
            13 => nfs_opnum4::OP_LOCKT,
            14 => nfs_opnum4::OP_LOCKU,
            15 => nfs_opnum4::OP_LOOKUP,
            16 => nfs_opnum4::OP_LOOKUPP,
            17 => nfs_opnum4::OP_NVERIFY,
            18 => nfs_opnum4::OP_OPEN,
            19 => nfs_opnum4::OP_OPENATTR,
            20 => nfs_opnum4::OP_OPEN_CONFIRM,
            21 => nfs_opnum4::OP_OPEN_DOWNGRADE,
            22 => nfs_opnum4::OP_PUTFH,
            23 => nfs_opnum4::OP_PUTPUBFH,
            24 => nfs_opnum4::OP_PUTROOTFH,
            25 => nfs_opnum4::OP_READ,
            26 => nfs_opnum4::OP_READDIR,
            27 => nfs_opnum4::OP_READLINK,
            28 => nfs_opnum4::OP_REMOVE,
            29 => nfs_opnum4::OP_RENAME,
            30 => nfs_opnum4::OP_RENEW,
            31 => nfs_opnum4::OP_RESTOREFH,
            32 => nfs_opnum4::OP_SAVEFH,
            33 => nfs_opnum4::OP_SECINFO,
            34 => nfs_opnum4::OP_SETATTR,
            35 => nfs_opnum4::OP_SETCLIENTID,
            36 => nfs_opnum4::OP_SETCLIENTID_CONFIRM,
            37 => nfs_opnum4::OP_VERIFY,
            38 => nfs_opnum4::OP_WRITE,
            39 => nfs_opnum4::OP_RELEASE_LOCKOWNER,
            40 => nfs_opnum4::OP_BACKCHANNEL_CTL,
            41 => nfs_opnum4::OP_BIND_CONN_TO_SESSION,
            42 => nfs_opnum4::OP_EXCHANGE_ID,
            43 => nfs_opnum4::OP_CREATE_SESSION,
            44 => nfs_opnum4::OP_DESTROY_SESSION,
            45 => nfs_opnum4::OP_FREE_STATEID,
            46 => nfs_opnum4::OP_GET_DIR_DELEGATION,
            47 => nfs_opnum4::OP_GETDEVICEINFO,
            48 => nfs_opnum4::OP_GETDEVICELIST,
            49 => nfs_opnum4::OP_LAYOUTCOMMIT,
            50 => nfs_opnum4::OP_LAYOUTGET,
            51 => nfs_opnum4::OP_LAYOUTRETURN,
            52 => nfs_opnum4::OP_SECINFO_NO_NAME,
            53 => nfs_opnum4::OP_SEQUENCE,
            54 => nfs_opnum4::OP_SET_SSV,
            55 => nfs_opnum4::OP_TEST_STATEID,
            56 => nfs_opnum4::OP_WANT_DELEGATION,
            57 => nfs_opnum4::OP_DESTROY_CLIENTID,
            58 => nfs_opnum4::OP_RECLAIM_COMPLETE,
            59 => nfs_opnum4::OP_ALLOCATE,
            60 => nfs_opnum4::OP_COPY,
            61 => nfs_opnum4::OP_COPY_NOTIFY,
            62 => nfs_opnum4::OP_DEALLOCATE,
            63 => nfs_opnum4::OP_IO_ADVISE,
            64 => nfs_opnum4::OP_LAYOUTERROR,
            65 => nfs_opnum4::OP_LAYOUTSTATS,
            66 => nfs_opnum4::OP_OFFLOAD_CANCEL,
            67 => nfs_opnum4::OP_OFFLOAD_STATUS,
            68 => nfs_opnum4::OP_READ_PLUS,
            69 => nfs_opnum4::OP_SEEK,
            70 => nfs_opnum4::OP_WRITE_SAME,
            71 => nfs_opnum4::OP_CLONE,
            10044 => nfs_opnum4::OP_ILLEGAL,
            72 => nfs_opnum4::OP_GETXATTR,
            73 => nfs_opnum4::OP_SETXATTR,
            74 => nfs_opnum4::OP_LISTXATTRS,
            75 => nfs_opnum4::OP_REMOVEXATTR,
            _ => return None,
        })
    }
}

impl Xdr for nfs_opnum4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        nfs_opnum4::from_wire(value).ok_or(DecodeError::Member {
            of: "nfs_opnum4",
            value,
        })
    }
}

pub const ACCESS4_READ: u32 = 1;

pub const ACCESS4_LOOKUP: u32 = 2;

pub const ACCESS4_MODIFY: u32 = 4;

pub const ACCESS4_EXTEND: u32 = 8;

pub const ACCESS4_DELETE: u32 = 16;

pub const ACCESS4_EXECUTE: u32 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ACCESS4args {
    pub access: u32,
}

impl Xdr for ACCESS4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.access);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ACCESS4args {
            access: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ACCESS4resok {
    pub supported: u32,
    pub access: u32,
}

impl Xdr for ACCESS4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.supported);
        out.u32(self.access);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ACCESS4resok {
            supported: input.u32()?,
            access: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ACCESS4res {
    NFS4_OK(ACCESS4resok),
    /// Any other.
    default(nfsstat4),
}

impl ACCESS4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            ACCESS4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            ACCESS4res::default(other) => *other,
        }
    }
}

impl Xdr for ACCESS4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            ACCESS4res::NFS4_OK(it) => {
                it.encode(out);
            }
            ACCESS4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => ACCESS4res::NFS4_OK(ACCESS4resok::decode(input)?),
            other => ACCESS4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CLONE4args {
    pub cl_src_stateid: stateid4,
    pub cl_dst_stateid: stateid4,
    pub cl_src_offset: offset4,
    pub cl_dst_offset: offset4,
    pub cl_count: length4,
}

impl Xdr for CLONE4args {
    fn encode(&self, out: &mut Encoder) {
        self.cl_src_stateid.encode(out);
        self.cl_dst_stateid.encode(out);
        out.u64(self.cl_src_offset);
        out.u64(self.cl_dst_offset);
        out.u64(self.cl_count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CLONE4args {
            cl_src_stateid: stateid4::decode(input)?,
            cl_dst_stateid: stateid4::decode(input)?,
            cl_src_offset: input.u64()?,
            cl_dst_offset: input.u64()?,
            cl_count: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CLONE4res {
    pub cl_status: nfsstat4,
}

impl Xdr for CLONE4res {
    fn encode(&self, out: &mut Encoder) {
        self.cl_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CLONE4res {
            cl_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CLOSE4args {
    pub seqid: seqid4,
    pub open_stateid: stateid4,
}

impl Xdr for CLOSE4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.seqid);
        self.open_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CLOSE4args {
            seqid: input.u32()?,
            open_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CLOSE4res {
    NFS4_OK(stateid4),
    /// Any other.
    default(nfsstat4),
}

impl CLOSE4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            CLOSE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            CLOSE4res::default(other) => *other,
        }
    }
}

impl Xdr for CLOSE4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            CLOSE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            CLOSE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => CLOSE4res::NFS4_OK(stateid4::decode(input)?),
            other => CLOSE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMMIT4args {
    pub offset: offset4,
    pub count: count4,
}

impl Xdr for COMMIT4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.offset);
        out.u32(self.count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMMIT4args {
            offset: input.u64()?,
            count: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMMIT4resok {
    pub writeverf: verifier4,
}

impl Xdr for COMMIT4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.writeverf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMMIT4resok {
            writeverf: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum COMMIT4res {
    NFS4_OK(COMMIT4resok),
    /// Any other.
    default(nfsstat4),
}

impl COMMIT4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            COMMIT4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            COMMIT4res::default(other) => *other,
        }
    }
}

impl Xdr for COMMIT4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            COMMIT4res::NFS4_OK(it) => {
                it.encode(out);
            }
            COMMIT4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => COMMIT4res::NFS4_OK(COMMIT4resok::decode(input)?),
            other => COMMIT4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum createtype4 {
    NF4LNK(linktext4),
    NF4BLK(specdata4),
    NF4CHR(specdata4),
    NF4SOCK,
    NF4FIFO,
    NF4DIR,
    /// Any other.
    default(nfs_ftype4),
}

impl createtype4 {
    /// Which of them it is.
    pub fn r#type(&self) -> nfs_ftype4 {
        match self {
            createtype4::NF4LNK(_) => nfs_ftype4::NF4LNK,
            createtype4::NF4BLK(_) => nfs_ftype4::NF4BLK,
            createtype4::NF4CHR(_) => nfs_ftype4::NF4CHR,
            createtype4::NF4SOCK => nfs_ftype4::NF4SOCK,
            createtype4::NF4FIFO => nfs_ftype4::NF4FIFO,
            createtype4::NF4DIR => nfs_ftype4::NF4DIR,
            createtype4::default(other) => *other,
        }
    }
}

impl Xdr for createtype4 {
    fn encode(&self, out: &mut Encoder) {
        self.r#type().encode(out);
        match self {
            createtype4::NF4LNK(it) => {
                out.opaque(u32::MAX, it);
            }
            createtype4::NF4BLK(it) => {
                it.encode(out);
            }
            createtype4::NF4CHR(it) => {
                it.encode(out);
            }
            createtype4::NF4SOCK => {}
            createtype4::NF4FIFO => {}
            createtype4::NF4DIR => {}
            createtype4::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfs_ftype4::decode(input)? {
            nfs_ftype4::NF4LNK => createtype4::NF4LNK(input.opaque(u32::MAX)?),
            nfs_ftype4::NF4BLK => createtype4::NF4BLK(specdata4::decode(input)?),
            nfs_ftype4::NF4CHR => createtype4::NF4CHR(specdata4::decode(input)?),
            nfs_ftype4::NF4SOCK => createtype4::NF4SOCK,
            nfs_ftype4::NF4FIFO => createtype4::NF4FIFO,
            nfs_ftype4::NF4DIR => createtype4::NF4DIR,
            other => createtype4::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE4args {
    pub objtype: createtype4,
    pub objname: component4,
    pub createattrs: fattr4,
}

impl Xdr for CREATE4args {
    fn encode(&self, out: &mut Encoder) {
        self.objtype.encode(out);
        out.opaque(u32::MAX, &self.objname);
        self.createattrs.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE4args {
            objtype: createtype4::decode(input)?,
            objname: input.opaque(u32::MAX)?,
            createattrs: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE4resok {
    pub cinfo: change_info4,
    pub attrset: bitmap4,
}

impl Xdr for CREATE4resok {
    fn encode(&self, out: &mut Encoder) {
        self.cinfo.encode(out);
        out.vec(u32::MAX, &self.attrset, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE4resok {
            cinfo: change_info4::decode(input)?,
            attrset: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CREATE4res {
    NFS4_OK(CREATE4resok),
    /// Any other.
    default(nfsstat4),
}

impl CREATE4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            CREATE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            CREATE4res::default(other) => *other,
        }
    }
}

impl Xdr for CREATE4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            CREATE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            CREATE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => CREATE4res::NFS4_OK(CREATE4resok::decode(input)?),
            other => CREATE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DELEGPURGE4args {
    pub clientid: clientid4,
}

impl Xdr for DELEGPURGE4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.clientid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DELEGPURGE4args {
            clientid: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DELEGPURGE4res {
    pub status: nfsstat4,
}

impl Xdr for DELEGPURGE4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DELEGPURGE4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DELEGRETURN4args {
    pub deleg_stateid: stateid4,
}

impl Xdr for DELEGRETURN4args {
    fn encode(&self, out: &mut Encoder) {
        self.deleg_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DELEGRETURN4args {
            deleg_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DELEGRETURN4res {
    pub status: nfsstat4,
}

impl Xdr for DELEGRETURN4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DELEGRETURN4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETATTR4args {
    pub attr_request: bitmap4,
}

impl Xdr for GETATTR4args {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.attr_request, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETATTR4args {
            attr_request: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETATTR4resok {
    pub obj_attributes: fattr4,
}

impl Xdr for GETATTR4resok {
    fn encode(&self, out: &mut Encoder) {
        self.obj_attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETATTR4resok {
            obj_attributes: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GETATTR4res {
    NFS4_OK(GETATTR4resok),
    /// Any other.
    default(nfsstat4),
}

impl GETATTR4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            GETATTR4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            GETATTR4res::default(other) => *other,
        }
    }
}

impl Xdr for GETATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            GETATTR4res::NFS4_OK(it) => {
                it.encode(out);
            }
            GETATTR4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => GETATTR4res::NFS4_OK(GETATTR4resok::decode(input)?),
            other => GETATTR4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETFH4resok {
    pub object: nfs_fh4,
}

impl Xdr for GETFH4resok {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.object);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETFH4resok {
            object: input.opaque(128)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GETFH4res {
    NFS4_OK(GETFH4resok),
    /// Any other.
    default(nfsstat4),
}

impl GETFH4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            GETFH4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            GETFH4res::default(other) => *other,
        }
    }
}

impl Xdr for GETFH4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            GETFH4res::NFS4_OK(it) => {
                it.encode(out);
            }
            GETFH4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => GETFH4res::NFS4_OK(GETFH4resok::decode(input)?),
            other => GETFH4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LINK4args {
    pub newname: component4,
}

impl Xdr for LINK4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.newname);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LINK4args {
            newname: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LINK4resok {
    pub cinfo: change_info4,
}

impl Xdr for LINK4resok {
    fn encode(&self, out: &mut Encoder) {
        self.cinfo.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LINK4resok {
            cinfo: change_info4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LINK4res {
    NFS4_OK(LINK4resok),
    /// Any other.
    default(nfsstat4),
}

impl LINK4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            LINK4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LINK4res::default(other) => *other,
        }
    }
}

impl Xdr for LINK4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            LINK4res::NFS4_OK(it) => {
                it.encode(out);
            }
            LINK4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LINK4res::NFS4_OK(LINK4resok::decode(input)?),
            other => LINK4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct open_to_lock_owner4 {
    pub open_seqid: seqid4,
    pub open_stateid: stateid4,
    pub lock_seqid: seqid4,
    pub lock_owner: lock_owner4,
}

impl Xdr for open_to_lock_owner4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.open_seqid);
        self.open_stateid.encode(out);
        out.u32(self.lock_seqid);
        self.lock_owner.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(open_to_lock_owner4 {
            open_seqid: input.u32()?,
            open_stateid: stateid4::decode(input)?,
            lock_seqid: input.u32()?,
            lock_owner: state_owner4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct exist_lock_owner4 {
    pub lock_stateid: stateid4,
    pub lock_seqid: seqid4,
}

impl Xdr for exist_lock_owner4 {
    fn encode(&self, out: &mut Encoder) {
        self.lock_stateid.encode(out);
        out.u32(self.lock_seqid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(exist_lock_owner4 {
            lock_stateid: stateid4::decode(input)?,
            lock_seqid: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum locker4 {
    TRUE(open_to_lock_owner4),
    FALSE(exist_lock_owner4),
}

impl locker4 {
    /// Which of them it is.
    pub fn new_lock_owner(&self) -> bool {
        match self {
            locker4::TRUE(_) => true,
            locker4::FALSE(_) => false,
        }
    }
}

impl Xdr for locker4 {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.new_lock_owner());
        match self {
            locker4::TRUE(it) => {
                it.encode(out);
            }
            locker4::FALSE(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.bool()? {
            true => locker4::TRUE(open_to_lock_owner4::decode(input)?),
            false => locker4::FALSE(exist_lock_owner4::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOCK4args {
    pub locktype: nfs_lock_type4,
    pub reclaim: bool,
    pub offset: offset4,
    pub length: length4,
    pub locker: locker4,
}

impl Xdr for LOCK4args {
    fn encode(&self, out: &mut Encoder) {
        self.locktype.encode(out);
        out.bool(self.reclaim);
        out.u64(self.offset);
        out.u64(self.length);
        self.locker.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOCK4args {
            locktype: nfs_lock_type4::decode(input)?,
            reclaim: input.bool()?,
            offset: input.u64()?,
            length: input.u64()?,
            locker: locker4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOCK4denied {
    pub offset: offset4,
    pub length: length4,
    pub locktype: nfs_lock_type4,
    pub owner: lock_owner4,
}

impl Xdr for LOCK4denied {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.offset);
        out.u64(self.length);
        self.locktype.encode(out);
        self.owner.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOCK4denied {
            offset: input.u64()?,
            length: input.u64()?,
            locktype: nfs_lock_type4::decode(input)?,
            owner: state_owner4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOCK4resok {
    pub lock_stateid: stateid4,
}

impl Xdr for LOCK4resok {
    fn encode(&self, out: &mut Encoder) {
        self.lock_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOCK4resok {
            lock_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LOCK4res {
    NFS4_OK(LOCK4resok),
    NFS4ERR_DENIED(LOCK4denied),
    /// Any other.
    default(nfsstat4),
}

impl LOCK4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            LOCK4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LOCK4res::NFS4ERR_DENIED(_) => nfsstat4::NFS4ERR_DENIED,
            LOCK4res::default(other) => *other,
        }
    }
}

impl Xdr for LOCK4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            LOCK4res::NFS4_OK(it) => {
                it.encode(out);
            }
            LOCK4res::NFS4ERR_DENIED(it) => {
                it.encode(out);
            }
            LOCK4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LOCK4res::NFS4_OK(LOCK4resok::decode(input)?),
            nfsstat4::NFS4ERR_DENIED => LOCK4res::NFS4ERR_DENIED(LOCK4denied::decode(input)?),
            other => LOCK4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOCKT4args {
    pub locktype: nfs_lock_type4,
    pub offset: offset4,
    pub length: length4,
    pub owner: lock_owner4,
}

impl Xdr for LOCKT4args {
    fn encode(&self, out: &mut Encoder) {
        self.locktype.encode(out);
        out.u64(self.offset);
        out.u64(self.length);
        self.owner.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOCKT4args {
            locktype: nfs_lock_type4::decode(input)?,
            offset: input.u64()?,
            length: input.u64()?,
            owner: state_owner4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LOCKT4res {
    NFS4ERR_DENIED(LOCK4denied),
    NFS4_OK,
    /// Any other.
    default(nfsstat4),
}

impl LOCKT4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            LOCKT4res::NFS4ERR_DENIED(_) => nfsstat4::NFS4ERR_DENIED,
            LOCKT4res::NFS4_OK => nfsstat4::NFS4_OK,
            LOCKT4res::default(other) => *other,
        }
    }
}

impl Xdr for LOCKT4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            LOCKT4res::NFS4ERR_DENIED(it) => {
                it.encode(out);
            }
            LOCKT4res::NFS4_OK => {}
            LOCKT4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4ERR_DENIED => LOCKT4res::NFS4ERR_DENIED(LOCK4denied::decode(input)?),
            nfsstat4::NFS4_OK => LOCKT4res::NFS4_OK,
            other => LOCKT4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOCKU4args {
    pub locktype: nfs_lock_type4,
    pub seqid: seqid4,
    pub lock_stateid: stateid4,
    pub offset: offset4,
    pub length: length4,
}

impl Xdr for LOCKU4args {
    fn encode(&self, out: &mut Encoder) {
        self.locktype.encode(out);
        out.u32(self.seqid);
        self.lock_stateid.encode(out);
        out.u64(self.offset);
        out.u64(self.length);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOCKU4args {
            locktype: nfs_lock_type4::decode(input)?,
            seqid: input.u32()?,
            lock_stateid: stateid4::decode(input)?,
            offset: input.u64()?,
            length: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LOCKU4res {
    NFS4_OK(stateid4),
    /// Any other.
    default(nfsstat4),
}

impl LOCKU4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            LOCKU4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LOCKU4res::default(other) => *other,
        }
    }
}

impl Xdr for LOCKU4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            LOCKU4res::NFS4_OK(it) => {
                it.encode(out);
            }
            LOCKU4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LOCKU4res::NFS4_OK(stateid4::decode(input)?),
            other => LOCKU4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOOKUP4args {
    pub objname: component4,
}

impl Xdr for LOOKUP4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.objname);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOOKUP4args {
            objname: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOOKUP4res {
    pub status: nfsstat4,
}

impl Xdr for LOOKUP4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOOKUP4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LOOKUPP4res {
    pub status: nfsstat4,
}

impl Xdr for LOOKUPP4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LOOKUPP4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NVERIFY4args {
    pub obj_attributes: fattr4,
}

impl Xdr for NVERIFY4args {
    fn encode(&self, out: &mut Encoder) {
        self.obj_attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(NVERIFY4args {
            obj_attributes: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NVERIFY4res {
    pub status: nfsstat4,
}

impl Xdr for NVERIFY4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(NVERIFY4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum createmode4 {
    UNCHECKED4 = 0,
    GUARDED4 = 1,
    EXCLUSIVE4 = 2,
    EXCLUSIVE4_1 = 3,
}

impl createmode4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<createmode4> {
        Some(match value {
            0 => createmode4::UNCHECKED4,
            1 => createmode4::GUARDED4,
            2 => createmode4::EXCLUSIVE4,
            3 => createmode4::EXCLUSIVE4_1,
            _ => return None,
        })
    }
}

impl Xdr for createmode4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        createmode4::from_wire(value).ok_or(DecodeError::Member {
            of: "createmode4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct creatverfattr {
    pub cva_verf: verifier4,
    pub cva_attrs: fattr4,
}

impl Xdr for creatverfattr {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.cva_verf);
        self.cva_attrs.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(creatverfattr {
            cva_verf: input.fixed::<8>()?,
            cva_attrs: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum createhow4 {
    UNCHECKED4(fattr4),
    GUARDED4(fattr4),
    EXCLUSIVE4(verifier4),
    EXCLUSIVE4_1(creatverfattr),
}

impl createhow4 {
    /// Which of them it is.
    pub fn mode(&self) -> createmode4 {
        match self {
            createhow4::UNCHECKED4(_) => createmode4::UNCHECKED4,
            createhow4::GUARDED4(_) => createmode4::GUARDED4,
            createhow4::EXCLUSIVE4(_) => createmode4::EXCLUSIVE4,
            createhow4::EXCLUSIVE4_1(_) => createmode4::EXCLUSIVE4_1,
        }
    }
}

impl Xdr for createhow4 {
    fn encode(&self, out: &mut Encoder) {
        self.mode().encode(out);
        match self {
            createhow4::UNCHECKED4(it) => {
                it.encode(out);
            }
            createhow4::GUARDED4(it) => {
                it.encode(out);
            }
            createhow4::EXCLUSIVE4(it) => {
                out.fixed(it);
            }
            createhow4::EXCLUSIVE4_1(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match createmode4::decode(input)? {
            createmode4::UNCHECKED4 => createhow4::UNCHECKED4(fattr4::decode(input)?),
            createmode4::GUARDED4 => createhow4::GUARDED4(fattr4::decode(input)?),
            createmode4::EXCLUSIVE4 => createhow4::EXCLUSIVE4(input.fixed::<8>()?),
            createmode4::EXCLUSIVE4_1 => createhow4::EXCLUSIVE4_1(creatverfattr::decode(input)?),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum opentype4 {
    OPEN4_NOCREATE = 0,
    OPEN4_CREATE = 1,
}

impl opentype4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<opentype4> {
        Some(match value {
            0 => opentype4::OPEN4_NOCREATE,
            1 => opentype4::OPEN4_CREATE,
            _ => return None,
        })
    }
}

impl Xdr for opentype4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        opentype4::from_wire(value).ok_or(DecodeError::Member {
            of: "opentype4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum openflag4 {
    OPEN4_CREATE(createhow4),
    /// Any other.
    default(opentype4),
}

impl openflag4 {
    /// Which of them it is.
    pub fn opentype(&self) -> opentype4 {
        match self {
            openflag4::OPEN4_CREATE(_) => opentype4::OPEN4_CREATE,
            openflag4::default(other) => *other,
        }
    }
}

impl Xdr for openflag4 {
    fn encode(&self, out: &mut Encoder) {
        self.opentype().encode(out);
        match self {
            openflag4::OPEN4_CREATE(it) => {
                it.encode(out);
            }
            openflag4::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match opentype4::decode(input)? {
            opentype4::OPEN4_CREATE => openflag4::OPEN4_CREATE(createhow4::decode(input)?),
            other => openflag4::default(other),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum limit_by4 {
    NFS_LIMIT_SIZE = 1,
    NFS_LIMIT_BLOCKS = 2,
}

impl limit_by4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<limit_by4> {
        Some(match value {
            1 => limit_by4::NFS_LIMIT_SIZE,
            2 => limit_by4::NFS_LIMIT_BLOCKS,
            _ => return None,
        })
    }
}

impl Xdr for limit_by4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        limit_by4::from_wire(value).ok_or(DecodeError::Member {
            of: "limit_by4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct nfs_modified_limit4 {
    pub num_blocks: u32,
    pub bytes_per_block: u32,
}

impl Xdr for nfs_modified_limit4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.num_blocks);
        out.u32(self.bytes_per_block);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(nfs_modified_limit4 {
            num_blocks: input.u32()?,
            bytes_per_block: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum nfs_space_limit4 {
    NFS_LIMIT_SIZE(u64),
    NFS_LIMIT_BLOCKS(nfs_modified_limit4),
}

impl nfs_space_limit4 {
    /// Which of them it is.
    pub fn limitby(&self) -> limit_by4 {
        match self {
            nfs_space_limit4::NFS_LIMIT_SIZE(_) => limit_by4::NFS_LIMIT_SIZE,
            nfs_space_limit4::NFS_LIMIT_BLOCKS(_) => limit_by4::NFS_LIMIT_BLOCKS,
        }
    }
}

impl Xdr for nfs_space_limit4 {
    fn encode(&self, out: &mut Encoder) {
        self.limitby().encode(out);
        match self {
            nfs_space_limit4::NFS_LIMIT_SIZE(it) => {
                out.u64(*it);
            }
            nfs_space_limit4::NFS_LIMIT_BLOCKS(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match limit_by4::decode(input)? {
            limit_by4::NFS_LIMIT_SIZE => nfs_space_limit4::NFS_LIMIT_SIZE(input.u64()?),
            limit_by4::NFS_LIMIT_BLOCKS => {
                nfs_space_limit4::NFS_LIMIT_BLOCKS(nfs_modified_limit4::decode(input)?)
            }
        })
    }
}

pub const OPEN4_SHARE_ACCESS_READ: u32 = 1;

pub const OPEN4_SHARE_ACCESS_WRITE: u32 = 2;

pub const OPEN4_SHARE_ACCESS_BOTH: u32 = 3;

pub const OPEN4_SHARE_DENY_NONE: u32 = 0;

pub const OPEN4_SHARE_DENY_READ: u32 = 1;

pub const OPEN4_SHARE_DENY_WRITE: u32 = 2;

pub const OPEN4_SHARE_DENY_BOTH: u32 = 3;

pub const OPEN4_SHARE_ACCESS_WANT_DELEG_MASK: u32 = 65280;

pub const OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE: u32 = 0;

pub const OPEN4_SHARE_ACCESS_WANT_READ_DELEG: u32 = 256;

pub const OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG: u32 = 512;

pub const OPEN4_SHARE_ACCESS_WANT_ANY_DELEG: u32 = 768;

pub const OPEN4_SHARE_ACCESS_WANT_NO_DELEG: u32 = 1024;

pub const OPEN4_SHARE_ACCESS_WANT_CANCEL: u32 = 1280;

pub const OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: u32 = 65536;

pub const OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED: u32 = 131072;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum open_delegation_type4 {
    OPEN_DELEGATE_NONE = 0,
    OPEN_DELEGATE_READ = 1,
    OPEN_DELEGATE_WRITE = 2,
    OPEN_DELEGATE_NONE_EXT = 3,
}

impl open_delegation_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<open_delegation_type4> {
        Some(match value {
            0 => open_delegation_type4::OPEN_DELEGATE_NONE,
            1 => open_delegation_type4::OPEN_DELEGATE_READ,
            2 => open_delegation_type4::OPEN_DELEGATE_WRITE,
            3 => open_delegation_type4::OPEN_DELEGATE_NONE_EXT,
            _ => return None,
        })
    }
}

impl Xdr for open_delegation_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        open_delegation_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "open_delegation_type4",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum open_claim_type4 {
    CLAIM_NULL = 0,
    CLAIM_PREVIOUS = 1,
    CLAIM_DELEGATE_CUR = 2,
    CLAIM_DELEGATE_PREV = 3,
    CLAIM_FH = 4,
    CLAIM_DELEG_CUR_FH = 5,
    CLAIM_DELEG_PREV_FH = 6,
}

impl open_claim_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<open_claim_type4> {
        Some(match value {
            0 => open_claim_type4::CLAIM_NULL,
            1 => open_claim_type4::CLAIM_PREVIOUS,
            2 => open_claim_type4::CLAIM_DELEGATE_CUR,
            3 => open_claim_type4::CLAIM_DELEGATE_PREV,
            4 => open_claim_type4::CLAIM_FH,
            5 => open_claim_type4::CLAIM_DELEG_CUR_FH,
            6 => open_claim_type4::CLAIM_DELEG_PREV_FH,
            _ => return None,
        })
    }
}

impl Xdr for open_claim_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        open_claim_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "open_claim_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct open_claim_delegate_cur4 {
    pub delegate_stateid: stateid4,
    pub file: component4,
}

impl Xdr for open_claim_delegate_cur4 {
    fn encode(&self, out: &mut Encoder) {
        self.delegate_stateid.encode(out);
        out.opaque(u32::MAX, &self.file);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(open_claim_delegate_cur4 {
            delegate_stateid: stateid4::decode(input)?,
            file: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum open_claim4 {
    CLAIM_NULL(component4),
    CLAIM_PREVIOUS(open_delegation_type4),
    CLAIM_DELEGATE_CUR(open_claim_delegate_cur4),
    CLAIM_DELEGATE_PREV(component4),
    CLAIM_FH,
    CLAIM_DELEG_PREV_FH,
    CLAIM_DELEG_CUR_FH(stateid4),
}

impl open_claim4 {
    /// Which of them it is.
    pub fn claim(&self) -> open_claim_type4 {
        match self {
            open_claim4::CLAIM_NULL(_) => open_claim_type4::CLAIM_NULL,
            open_claim4::CLAIM_PREVIOUS(_) => open_claim_type4::CLAIM_PREVIOUS,
            open_claim4::CLAIM_DELEGATE_CUR(_) => open_claim_type4::CLAIM_DELEGATE_CUR,
            open_claim4::CLAIM_DELEGATE_PREV(_) => open_claim_type4::CLAIM_DELEGATE_PREV,
            open_claim4::CLAIM_FH => open_claim_type4::CLAIM_FH,
            open_claim4::CLAIM_DELEG_PREV_FH => open_claim_type4::CLAIM_DELEG_PREV_FH,
            open_claim4::CLAIM_DELEG_CUR_FH(_) => open_claim_type4::CLAIM_DELEG_CUR_FH,
        }
    }
}

impl Xdr for open_claim4 {
    fn encode(&self, out: &mut Encoder) {
        self.claim().encode(out);
        match self {
            open_claim4::CLAIM_NULL(it) => {
                out.opaque(u32::MAX, it);
            }
            open_claim4::CLAIM_PREVIOUS(it) => {
                it.encode(out);
            }
            open_claim4::CLAIM_DELEGATE_CUR(it) => {
                it.encode(out);
            }
            open_claim4::CLAIM_DELEGATE_PREV(it) => {
                out.opaque(u32::MAX, it);
            }
            open_claim4::CLAIM_FH => {}
            open_claim4::CLAIM_DELEG_PREV_FH => {}
            open_claim4::CLAIM_DELEG_CUR_FH(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match open_claim_type4::decode(input)? {
            open_claim_type4::CLAIM_NULL => open_claim4::CLAIM_NULL(input.opaque(u32::MAX)?),
            open_claim_type4::CLAIM_PREVIOUS => {
                open_claim4::CLAIM_PREVIOUS(open_delegation_type4::decode(input)?)
            }
            open_claim_type4::CLAIM_DELEGATE_CUR => {
                open_claim4::CLAIM_DELEGATE_CUR(open_claim_delegate_cur4::decode(input)?)
            }
            open_claim_type4::CLAIM_DELEGATE_PREV => {
                open_claim4::CLAIM_DELEGATE_PREV(input.opaque(u32::MAX)?)
            }
            open_claim_type4::CLAIM_FH => open_claim4::CLAIM_FH,
            open_claim_type4::CLAIM_DELEG_PREV_FH => open_claim4::CLAIM_DELEG_PREV_FH,
            open_claim_type4::CLAIM_DELEG_CUR_FH => {
                open_claim4::CLAIM_DELEG_CUR_FH(stateid4::decode(input)?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPEN4args {
    pub seqid: seqid4,
    pub share_access: u32,
    pub share_deny: u32,
    pub owner: open_owner4,
    pub openhow: openflag4,
    pub claim: open_claim4,
}

impl Xdr for OPEN4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.seqid);
        out.u32(self.share_access);
        out.u32(self.share_deny);
        self.owner.encode(out);
        self.openhow.encode(out);
        self.claim.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPEN4args {
            seqid: input.u32()?,
            share_access: input.u32()?,
            share_deny: input.u32()?,
            owner: state_owner4::decode(input)?,
            openhow: openflag4::decode(input)?,
            claim: open_claim4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct open_read_delegation4 {
    pub stateid: stateid4,
    pub recall: bool,
    pub permissions: nfsace4,
}

impl Xdr for open_read_delegation4 {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        out.bool(self.recall);
        self.permissions.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(open_read_delegation4 {
            stateid: stateid4::decode(input)?,
            recall: input.bool()?,
            permissions: nfsace4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct open_write_delegation4 {
    pub stateid: stateid4,
    pub recall: bool,
    pub space_limit: nfs_space_limit4,
    pub permissions: nfsace4,
}

impl Xdr for open_write_delegation4 {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        out.bool(self.recall);
        self.space_limit.encode(out);
        self.permissions.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(open_write_delegation4 {
            stateid: stateid4::decode(input)?,
            recall: input.bool()?,
            space_limit: nfs_space_limit4::decode(input)?,
            permissions: nfsace4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum why_no_delegation4 {
    WND4_NOT_WANTED = 0,
    WND4_CONTENTION = 1,
    WND4_RESOURCE = 2,
    WND4_NOT_SUPP_FTYPE = 3,
    WND4_WRITE_DELEG_NOT_SUPP_FTYPE = 4,
    WND4_NOT_SUPP_UPGRADE = 5,
    WND4_NOT_SUPP_DOWNGRADE = 6,
    WND4_CANCELLED = 7,
    WND4_IS_DIR = 8,
}

impl why_no_delegation4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<why_no_delegation4> {
        Some(match value {
            0 => why_no_delegation4::WND4_NOT_WANTED,
            1 => why_no_delegation4::WND4_CONTENTION,
            2 => why_no_delegation4::WND4_RESOURCE,
            3 => why_no_delegation4::WND4_NOT_SUPP_FTYPE,
            4 => why_no_delegation4::WND4_WRITE_DELEG_NOT_SUPP_FTYPE,
            5 => why_no_delegation4::WND4_NOT_SUPP_UPGRADE,
            6 => why_no_delegation4::WND4_NOT_SUPP_DOWNGRADE,
            7 => why_no_delegation4::WND4_CANCELLED,
            8 => why_no_delegation4::WND4_IS_DIR,
            _ => return None,
        })
    }
}

impl Xdr for why_no_delegation4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        why_no_delegation4::from_wire(value).ok_or(DecodeError::Member {
            of: "why_no_delegation4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum open_none_delegation4 {
    WND4_CONTENTION(bool),
    WND4_RESOURCE(bool),
    /// Any other.
    default(why_no_delegation4),
}

impl open_none_delegation4 {
    /// Which of them it is.
    pub fn ond_why(&self) -> why_no_delegation4 {
        match self {
            open_none_delegation4::WND4_CONTENTION(_) => why_no_delegation4::WND4_CONTENTION,
            open_none_delegation4::WND4_RESOURCE(_) => why_no_delegation4::WND4_RESOURCE,
            open_none_delegation4::default(other) => *other,
        }
    }
}

impl Xdr for open_none_delegation4 {
    fn encode(&self, out: &mut Encoder) {
        self.ond_why().encode(out);
        match self {
            open_none_delegation4::WND4_CONTENTION(it) => {
                out.bool(*it);
            }
            open_none_delegation4::WND4_RESOURCE(it) => {
                out.bool(*it);
            }
            open_none_delegation4::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match why_no_delegation4::decode(input)? {
            why_no_delegation4::WND4_CONTENTION => {
                open_none_delegation4::WND4_CONTENTION(input.bool()?)
            }
            why_no_delegation4::WND4_RESOURCE => {
                open_none_delegation4::WND4_RESOURCE(input.bool()?)
            }
            other => open_none_delegation4::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum open_delegation4 {
    OPEN_DELEGATE_NONE,
    OPEN_DELEGATE_READ(open_read_delegation4),
    OPEN_DELEGATE_WRITE(open_write_delegation4),
    OPEN_DELEGATE_NONE_EXT(open_none_delegation4),
}

impl open_delegation4 {
    /// Which of them it is.
    pub fn delegation_type(&self) -> open_delegation_type4 {
        match self {
            open_delegation4::OPEN_DELEGATE_NONE => open_delegation_type4::OPEN_DELEGATE_NONE,
            open_delegation4::OPEN_DELEGATE_READ(_) => open_delegation_type4::OPEN_DELEGATE_READ,
            open_delegation4::OPEN_DELEGATE_WRITE(_) => open_delegation_type4::OPEN_DELEGATE_WRITE,
            open_delegation4::OPEN_DELEGATE_NONE_EXT(_) => {
                open_delegation_type4::OPEN_DELEGATE_NONE_EXT
            }
        }
    }
}

impl Xdr for open_delegation4 {
    fn encode(&self, out: &mut Encoder) {
        self.delegation_type().encode(out);
        match self {
            open_delegation4::OPEN_DELEGATE_NONE => {}
            open_delegation4::OPEN_DELEGATE_READ(it) => {
                it.encode(out);
            }
            open_delegation4::OPEN_DELEGATE_WRITE(it) => {
                it.encode(out);
            }
            open_delegation4::OPEN_DELEGATE_NONE_EXT(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match open_delegation_type4::decode(input)? {
            open_delegation_type4::OPEN_DELEGATE_NONE => open_delegation4::OPEN_DELEGATE_NONE,
            open_delegation_type4::OPEN_DELEGATE_READ => {
                open_delegation4::OPEN_DELEGATE_READ(open_read_delegation4::decode(input)?)
            }
            open_delegation_type4::OPEN_DELEGATE_WRITE => {
                open_delegation4::OPEN_DELEGATE_WRITE(open_write_delegation4::decode(input)?)
            }
            open_delegation_type4::OPEN_DELEGATE_NONE_EXT => {
                open_delegation4::OPEN_DELEGATE_NONE_EXT(open_none_delegation4::decode(input)?)
            }
        })
    }
}

pub const OPEN4_RESULT_CONFIRM: u32 = 2;

pub const OPEN4_RESULT_LOCKTYPE_POSIX: u32 = 4;

pub const OPEN4_RESULT_PRESERVE_UNLINKED: u32 = 8;

pub const OPEN4_RESULT_MAY_NOTIFY_LOCK: u32 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPEN4resok {
    pub stateid: stateid4,
    pub cinfo: change_info4,
    pub rflags: u32,
    pub attrset: bitmap4,
    pub delegation: open_delegation4,
}

impl Xdr for OPEN4resok {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        self.cinfo.encode(out);
        out.u32(self.rflags);
        out.vec(u32::MAX, &self.attrset, |out, item| {
            out.u32(*item);
        });
        self.delegation.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPEN4resok {
            stateid: stateid4::decode(input)?,
            cinfo: change_info4::decode(input)?,
            rflags: input.u32()?,
            attrset: input.vec(u32::MAX, 4, Decoder::u32)?,
            delegation: open_delegation4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OPEN4res {
    NFS4_OK(OPEN4resok),
    /// Any other.
    default(nfsstat4),
}

impl OPEN4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            OPEN4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            OPEN4res::default(other) => *other,
        }
    }
}

impl Xdr for OPEN4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            OPEN4res::NFS4_OK(it) => {
                it.encode(out);
            }
            OPEN4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => OPEN4res::NFS4_OK(OPEN4resok::decode(input)?),
            other => OPEN4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPENATTR4args {
    pub createdir: bool,
}

impl Xdr for OPENATTR4args {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.createdir);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPENATTR4args {
            createdir: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPENATTR4res {
    pub status: nfsstat4,
}

impl Xdr for OPENATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPENATTR4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPEN_CONFIRM4args {
    pub open_stateid: stateid4,
    pub seqid: seqid4,
}

impl Xdr for OPEN_CONFIRM4args {
    fn encode(&self, out: &mut Encoder) {
        self.open_stateid.encode(out);
        out.u32(self.seqid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPEN_CONFIRM4args {
            open_stateid: stateid4::decode(input)?,
            seqid: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPEN_CONFIRM4resok {
    pub open_stateid: stateid4,
}

impl Xdr for OPEN_CONFIRM4resok {
    fn encode(&self, out: &mut Encoder) {
        self.open_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPEN_CONFIRM4resok {
            open_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OPEN_CONFIRM4res {
    NFS4_OK(OPEN_CONFIRM4resok),
    /// Any other.
    default(nfsstat4),
}

impl OPEN_CONFIRM4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            OPEN_CONFIRM4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            OPEN_CONFIRM4res::default(other) => *other,
        }
    }
}

impl Xdr for OPEN_CONFIRM4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            OPEN_CONFIRM4res::NFS4_OK(it) => {
                it.encode(out);
            }
            OPEN_CONFIRM4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => OPEN_CONFIRM4res::NFS4_OK(OPEN_CONFIRM4resok::decode(input)?),
            other => OPEN_CONFIRM4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPEN_DOWNGRADE4args {
    pub open_stateid: stateid4,
    pub seqid: seqid4,
    pub share_access: u32,
    pub share_deny: u32,
}

impl Xdr for OPEN_DOWNGRADE4args {
    fn encode(&self, out: &mut Encoder) {
        self.open_stateid.encode(out);
        out.u32(self.seqid);
        out.u32(self.share_access);
        out.u32(self.share_deny);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPEN_DOWNGRADE4args {
            open_stateid: stateid4::decode(input)?,
            seqid: input.u32()?,
            share_access: input.u32()?,
            share_deny: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OPEN_DOWNGRADE4resok {
    pub open_stateid: stateid4,
}

impl Xdr for OPEN_DOWNGRADE4resok {
    fn encode(&self, out: &mut Encoder) {
        self.open_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OPEN_DOWNGRADE4resok {
            open_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OPEN_DOWNGRADE4res {
    NFS4_OK(OPEN_DOWNGRADE4resok),
    /// Any other.
    default(nfsstat4),
}

impl OPEN_DOWNGRADE4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            OPEN_DOWNGRADE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            OPEN_DOWNGRADE4res::default(other) => *other,
        }
    }
}

impl Xdr for OPEN_DOWNGRADE4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            OPEN_DOWNGRADE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            OPEN_DOWNGRADE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => OPEN_DOWNGRADE4res::NFS4_OK(OPEN_DOWNGRADE4resok::decode(input)?),
            other => OPEN_DOWNGRADE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PUTFH4args {
    pub object: nfs_fh4,
}

impl Xdr for PUTFH4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.object);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PUTFH4args {
            object: input.opaque(128)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PUTFH4res {
    pub status: nfsstat4,
}

impl Xdr for PUTFH4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PUTFH4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PUTPUBFH4res {
    pub status: nfsstat4,
}

impl Xdr for PUTPUBFH4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PUTPUBFH4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PUTROOTFH4res {
    pub status: nfsstat4,
}

impl Xdr for PUTROOTFH4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(PUTROOTFH4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READ4args {
    pub stateid: stateid4,
    pub offset: offset4,
    pub count: count4,
}

impl Xdr for READ4args {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        out.u64(self.offset);
        out.u32(self.count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READ4args {
            stateid: stateid4::decode(input)?,
            offset: input.u64()?,
            count: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READ4resok {
    pub eof: bool,
    pub data: Bytes,
}

impl Xdr for READ4resok {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.eof);
        out.opaque(u32::MAX, &self.data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READ4resok {
            eof: input.bool()?,
            data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READ4res {
    NFS4_OK(READ4resok),
    /// Any other.
    default(nfsstat4),
}

impl READ4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            READ4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            READ4res::default(other) => *other,
        }
    }
}

impl Xdr for READ4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READ4res::NFS4_OK(it) => {
                it.encode(out);
            }
            READ4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => READ4res::NFS4_OK(READ4resok::decode(input)?),
            other => READ4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIR4args {
    pub cookie: nfs_cookie4,
    pub cookieverf: verifier4,
    pub dircount: count4,
    pub maxcount: count4,
    pub attr_request: bitmap4,
}

impl Xdr for READDIR4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.cookie);
        out.fixed(&self.cookieverf);
        out.u32(self.dircount);
        out.u32(self.maxcount);
        out.vec(u32::MAX, &self.attr_request, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIR4args {
            cookie: input.u64()?,
            cookieverf: input.fixed::<8>()?,
            dircount: input.u32()?,
            maxcount: input.u32()?,
            attr_request: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

/// One of a list: whether another follows is written between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct entry4 {
    pub cookie: nfs_cookie4,
    pub name: component4,
    pub attrs: fattr4,
}

impl Xdr for entry4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.cookie);
        out.opaque(u32::MAX, &self.name);
        self.attrs.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(entry4 {
            cookie: input.u64()?,
            name: input.opaque(u32::MAX)?,
            attrs: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct dirlist4 {
    pub entries: Vec<entry4>,
    pub eof: bool,
}

impl Xdr for dirlist4 {
    fn encode(&self, out: &mut Encoder) {
        out.list(&self.entries);
        out.bool(self.eof);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(dirlist4 {
            entries: input.list(entry4::decode)?,
            eof: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READDIR4resok {
    pub cookieverf: verifier4,
    pub reply: dirlist4,
}

impl Xdr for READDIR4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.cookieverf);
        self.reply.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READDIR4resok {
            cookieverf: input.fixed::<8>()?,
            reply: dirlist4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READDIR4res {
    NFS4_OK(READDIR4resok),
    /// Any other.
    default(nfsstat4),
}

impl READDIR4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            READDIR4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            READDIR4res::default(other) => *other,
        }
    }
}

impl Xdr for READDIR4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READDIR4res::NFS4_OK(it) => {
                it.encode(out);
            }
            READDIR4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => READDIR4res::NFS4_OK(READDIR4resok::decode(input)?),
            other => READDIR4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READLINK4resok {
    pub link: linktext4,
}

impl Xdr for READLINK4resok {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.link);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READLINK4resok {
            link: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READLINK4res {
    NFS4_OK(READLINK4resok),
    /// Any other.
    default(nfsstat4),
}

impl READLINK4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            READLINK4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            READLINK4res::default(other) => *other,
        }
    }
}

impl Xdr for READLINK4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            READLINK4res::NFS4_OK(it) => {
                it.encode(out);
            }
            READLINK4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => READLINK4res::NFS4_OK(READLINK4resok::decode(input)?),
            other => READLINK4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct REMOVE4args {
    pub target: component4,
}

impl Xdr for REMOVE4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.target);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(REMOVE4args {
            target: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct REMOVE4resok {
    pub cinfo: change_info4,
}

impl Xdr for REMOVE4resok {
    fn encode(&self, out: &mut Encoder) {
        self.cinfo.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(REMOVE4resok {
            cinfo: change_info4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum REMOVE4res {
    NFS4_OK(REMOVE4resok),
    /// Any other.
    default(nfsstat4),
}

impl REMOVE4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            REMOVE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            REMOVE4res::default(other) => *other,
        }
    }
}

impl Xdr for REMOVE4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            REMOVE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            REMOVE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => REMOVE4res::NFS4_OK(REMOVE4resok::decode(input)?),
            other => REMOVE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENAME4args {
    pub oldname: component4,
    pub newname: component4,
}

impl Xdr for RENAME4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.oldname);
        out.opaque(u32::MAX, &self.newname);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENAME4args {
            oldname: input.opaque(u32::MAX)?,
            newname: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENAME4resok {
    pub source_cinfo: change_info4,
    pub target_cinfo: change_info4,
}

impl Xdr for RENAME4resok {
    fn encode(&self, out: &mut Encoder) {
        self.source_cinfo.encode(out);
        self.target_cinfo.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENAME4resok {
            source_cinfo: change_info4::decode(input)?,
            target_cinfo: change_info4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RENAME4res {
    NFS4_OK(RENAME4resok),
    /// Any other.
    default(nfsstat4),
}

impl RENAME4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            RENAME4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            RENAME4res::default(other) => *other,
        }
    }
}

impl Xdr for RENAME4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            RENAME4res::NFS4_OK(it) => {
                it.encode(out);
            }
            RENAME4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => RENAME4res::NFS4_OK(RENAME4resok::decode(input)?),
            other => RENAME4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENEW4args {
    pub clientid: clientid4,
}

impl Xdr for RENEW4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.clientid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENEW4args {
            clientid: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RENEW4res {
    pub status: nfsstat4,
}

impl Xdr for RENEW4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RENEW4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RESTOREFH4res {
    pub status: nfsstat4,
}

impl Xdr for RESTOREFH4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RESTOREFH4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SAVEFH4res {
    pub status: nfsstat4,
}

impl Xdr for SAVEFH4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SAVEFH4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SECINFO4args {
    pub name: component4,
}

impl Xdr for SECINFO4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.name);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SECINFO4args {
            name: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum rpc_gss_svc_t {
    RPC_GSS_SVC_NONE = 1,
    RPC_GSS_SVC_INTEGRITY = 2,
    RPC_GSS_SVC_PRIVACY = 3,
}

impl rpc_gss_svc_t {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<rpc_gss_svc_t> {
        Some(match value {
            1 => rpc_gss_svc_t::RPC_GSS_SVC_NONE,
            2 => rpc_gss_svc_t::RPC_GSS_SVC_INTEGRITY,
            3 => rpc_gss_svc_t::RPC_GSS_SVC_PRIVACY,
            _ => return None,
        })
    }
}

impl Xdr for rpc_gss_svc_t {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        rpc_gss_svc_t::from_wire(value).ok_or(DecodeError::Member {
            of: "rpc_gss_svc_t",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct rpcsec_gss_info {
    pub oid: sec_oid4,
    pub qop: qop4,
    pub service: rpc_gss_svc_t,
}

impl Xdr for rpcsec_gss_info {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.oid);
        out.u32(self.qop);
        self.service.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(rpcsec_gss_info {
            oid: input.opaque(u32::MAX)?,
            qop: input.u32()?,
            service: rpc_gss_svc_t::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum secinfo4 {
    RPCSEC_GSS(rpcsec_gss_info),
    /// Any other.
    default(u32),
}

impl secinfo4 {
    /// Which of them it is.
    pub fn flavor(&self) -> u32 {
        match self {
            secinfo4::RPCSEC_GSS(_) => 6,
            secinfo4::default(other) => *other,
        }
    }
}

impl Xdr for secinfo4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.flavor());
        match self {
            secinfo4::RPCSEC_GSS(it) => {
                it.encode(out);
            }
            secinfo4::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.u32()? {
            6 => secinfo4::RPCSEC_GSS(rpcsec_gss_info::decode(input)?),
            other => secinfo4::default(other),
        })
    }
}

pub type SECINFO4resok = Vec<secinfo4>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SECINFO4res {
    NFS4_OK(SECINFO4resok),
    /// Any other.
    default(nfsstat4),
}

impl SECINFO4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            SECINFO4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            SECINFO4res::default(other) => *other,
        }
    }
}

impl Xdr for SECINFO4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            SECINFO4res::NFS4_OK(it) => {
                out.vec(u32::MAX, it, |out, item| {
                    item.encode(out);
                });
            }
            SECINFO4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => SECINFO4res::NFS4_OK(input.vec(u32::MAX, 4, secinfo4::decode)?),
            other => SECINFO4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETATTR4args {
    pub stateid: stateid4,
    pub obj_attributes: fattr4,
}

impl Xdr for SETATTR4args {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        self.obj_attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETATTR4args {
            stateid: stateid4::decode(input)?,
            obj_attributes: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETATTR4res {
    pub status: nfsstat4,
    pub attrsset: bitmap4,
}

impl Xdr for SETATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
        out.vec(u32::MAX, &self.attrsset, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETATTR4res {
            status: nfsstat4::decode(input)?,
            attrsset: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETCLIENTID4args {
    pub client: nfs_client_id4,
    pub callback: cb_client4,
    pub callback_ident: u32,
}

impl Xdr for SETCLIENTID4args {
    fn encode(&self, out: &mut Encoder) {
        self.client.encode(out);
        self.callback.encode(out);
        out.u32(self.callback_ident);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETCLIENTID4args {
            client: nfs_client_id4::decode(input)?,
            callback: cb_client4::decode(input)?,
            callback_ident: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETCLIENTID4resok {
    pub clientid: clientid4,
    pub setclientid_confirm: verifier4,
}

impl Xdr for SETCLIENTID4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.clientid);
        out.fixed(&self.setclientid_confirm);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETCLIENTID4resok {
            clientid: input.u64()?,
            setclientid_confirm: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SETCLIENTID4res {
    NFS4_OK(SETCLIENTID4resok),
    NFS4ERR_CLID_INUSE(clientaddr4),
    /// Any other.
    default(nfsstat4),
}

impl SETCLIENTID4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            SETCLIENTID4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            SETCLIENTID4res::NFS4ERR_CLID_INUSE(_) => nfsstat4::NFS4ERR_CLID_INUSE,
            SETCLIENTID4res::default(other) => *other,
        }
    }
}

impl Xdr for SETCLIENTID4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            SETCLIENTID4res::NFS4_OK(it) => {
                it.encode(out);
            }
            SETCLIENTID4res::NFS4ERR_CLID_INUSE(it) => {
                it.encode(out);
            }
            SETCLIENTID4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => SETCLIENTID4res::NFS4_OK(SETCLIENTID4resok::decode(input)?),
            nfsstat4::NFS4ERR_CLID_INUSE => {
                SETCLIENTID4res::NFS4ERR_CLID_INUSE(netaddr4::decode(input)?)
            }
            other => SETCLIENTID4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETCLIENTID_CONFIRM4args {
    pub clientid: clientid4,
    pub setclientid_confirm: verifier4,
}

impl Xdr for SETCLIENTID_CONFIRM4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.clientid);
        out.fixed(&self.setclientid_confirm);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETCLIENTID_CONFIRM4args {
            clientid: input.u64()?,
            setclientid_confirm: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETCLIENTID_CONFIRM4res {
    pub status: nfsstat4,
}

impl Xdr for SETCLIENTID_CONFIRM4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETCLIENTID_CONFIRM4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VERIFY4args {
    pub obj_attributes: fattr4,
}

impl Xdr for VERIFY4args {
    fn encode(&self, out: &mut Encoder) {
        self.obj_attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(VERIFY4args {
            obj_attributes: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VERIFY4res {
    pub status: nfsstat4,
}

impl Xdr for VERIFY4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(VERIFY4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WRITE4args {
    pub stateid: stateid4,
    pub offset: offset4,
    pub stable: stable_how4,
    pub data: Bytes,
}

impl Xdr for WRITE4args {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        out.u64(self.offset);
        self.stable.encode(out);
        out.opaque(u32::MAX, &self.data);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WRITE4args {
            stateid: stateid4::decode(input)?,
            offset: input.u64()?,
            stable: stable_how4::decode(input)?,
            data: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WRITE4resok {
    pub count: count4,
    pub committed: stable_how4,
    pub writeverf: verifier4,
}

impl Xdr for WRITE4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.count);
        self.committed.encode(out);
        out.fixed(&self.writeverf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WRITE4resok {
            count: input.u32()?,
            committed: stable_how4::decode(input)?,
            writeverf: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WRITE4res {
    NFS4_OK(WRITE4resok),
    /// Any other.
    default(nfsstat4),
}

impl WRITE4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            WRITE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            WRITE4res::default(other) => *other,
        }
    }
}

impl Xdr for WRITE4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            WRITE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            WRITE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => WRITE4res::NFS4_OK(WRITE4resok::decode(input)?),
            other => WRITE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RELEASE_LOCKOWNER4args {
    pub lock_owner: lock_owner4,
}

impl Xdr for RELEASE_LOCKOWNER4args {
    fn encode(&self, out: &mut Encoder) {
        self.lock_owner.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RELEASE_LOCKOWNER4args {
            lock_owner: state_owner4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RELEASE_LOCKOWNER4res {
    pub status: nfsstat4,
}

impl Xdr for RELEASE_LOCKOWNER4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RELEASE_LOCKOWNER4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ILLEGAL4res {
    pub status: nfsstat4,
}

impl Xdr for ILLEGAL4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ILLEGAL4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

pub type gsshandle4_t = Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct gss_cb_handles4 {
    pub gcbp_service: rpc_gss_svc_t,
    pub gcbp_handle_from_server: gsshandle4_t,
    pub gcbp_handle_from_client: gsshandle4_t,
}

impl Xdr for gss_cb_handles4 {
    fn encode(&self, out: &mut Encoder) {
        self.gcbp_service.encode(out);
        out.opaque(u32::MAX, &self.gcbp_handle_from_server);
        out.opaque(u32::MAX, &self.gcbp_handle_from_client);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(gss_cb_handles4 {
            gcbp_service: rpc_gss_svc_t::decode(input)?,
            gcbp_handle_from_server: input.opaque(u32::MAX)?,
            gcbp_handle_from_client: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum callback_sec_parms4 {
    AUTH_NONE,
    AUTH_SYS(authsys_parms),
    RPCSEC_GSS(gss_cb_handles4),
}

impl callback_sec_parms4 {
    /// Which of them it is.
    pub fn cb_secflavor(&self) -> u32 {
        match self {
            callback_sec_parms4::AUTH_NONE => 0,
            callback_sec_parms4::AUTH_SYS(_) => 1,
            callback_sec_parms4::RPCSEC_GSS(_) => 6,
        }
    }
}

impl Xdr for callback_sec_parms4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.cb_secflavor());
        match self {
            callback_sec_parms4::AUTH_NONE => {}
            callback_sec_parms4::AUTH_SYS(it) => {
                it.encode(out);
            }
            callback_sec_parms4::RPCSEC_GSS(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.u32()? {
            0 => callback_sec_parms4::AUTH_NONE,
            1 => callback_sec_parms4::AUTH_SYS(authsys_parms::decode(input)?),
            6 => callback_sec_parms4::RPCSEC_GSS(gss_cb_handles4::decode(input)?),
            other => {
                return Err(DecodeError::Arm {
                    of: "callback_sec_parms4",
                    value: other as i32,
                });
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BACKCHANNEL_CTL4args {
    pub bca_cb_program: u32,
    pub bca_sec_parms: Vec<callback_sec_parms4>,
}

impl Xdr for BACKCHANNEL_CTL4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.bca_cb_program);
        out.vec(u32::MAX, &self.bca_sec_parms, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(BACKCHANNEL_CTL4args {
            bca_cb_program: input.u32()?,
            bca_sec_parms: input.vec(u32::MAX, 4, callback_sec_parms4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BACKCHANNEL_CTL4res {
    pub bcr_status: nfsstat4,
}

impl Xdr for BACKCHANNEL_CTL4res {
    fn encode(&self, out: &mut Encoder) {
        self.bcr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(BACKCHANNEL_CTL4res {
            bcr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum channel_dir_from_client4 {
    CDFC4_FORE = 1,
    CDFC4_BACK = 2,
    CDFC4_FORE_OR_BOTH = 3,
    CDFC4_BACK_OR_BOTH = 7,
}

impl channel_dir_from_client4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<channel_dir_from_client4> {
        Some(match value {
            1 => channel_dir_from_client4::CDFC4_FORE,
            2 => channel_dir_from_client4::CDFC4_BACK,
            3 => channel_dir_from_client4::CDFC4_FORE_OR_BOTH,
            7 => channel_dir_from_client4::CDFC4_BACK_OR_BOTH,
            _ => return None,
        })
    }
}

impl Xdr for channel_dir_from_client4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        channel_dir_from_client4::from_wire(value).ok_or(DecodeError::Member {
            of: "channel_dir_from_client4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BIND_CONN_TO_SESSION4args {
    pub bctsa_sessid: sessionid4,
    pub bctsa_dir: channel_dir_from_client4,
    pub bctsa_use_conn_in_rdma_mode: bool,
}

impl Xdr for BIND_CONN_TO_SESSION4args {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.bctsa_sessid);
        self.bctsa_dir.encode(out);
        out.bool(self.bctsa_use_conn_in_rdma_mode);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(BIND_CONN_TO_SESSION4args {
            bctsa_sessid: input.fixed::<16>()?,
            bctsa_dir: channel_dir_from_client4::decode(input)?,
            bctsa_use_conn_in_rdma_mode: input.bool()?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum channel_dir_from_server4 {
    CDFS4_FORE = 1,
    CDFS4_BACK = 2,
    CDFS4_BOTH = 3,
}

impl channel_dir_from_server4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<channel_dir_from_server4> {
        Some(match value {
            1 => channel_dir_from_server4::CDFS4_FORE,
            2 => channel_dir_from_server4::CDFS4_BACK,
            3 => channel_dir_from_server4::CDFS4_BOTH,
            _ => return None,
        })
    }
}

impl Xdr for channel_dir_from_server4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        channel_dir_from_server4::from_wire(value).ok_or(DecodeError::Member {
            of: "channel_dir_from_server4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BIND_CONN_TO_SESSION4resok {
    pub bctsr_sessid: sessionid4,
    pub bctsr_dir: channel_dir_from_server4,
    pub bctsr_use_conn_in_rdma_mode: bool,
}

impl Xdr for BIND_CONN_TO_SESSION4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.bctsr_sessid);
        self.bctsr_dir.encode(out);
        out.bool(self.bctsr_use_conn_in_rdma_mode);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(BIND_CONN_TO_SESSION4resok {
            bctsr_sessid: input.fixed::<16>()?,
            bctsr_dir: channel_dir_from_server4::decode(input)?,
            bctsr_use_conn_in_rdma_mode: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BIND_CONN_TO_SESSION4res {
    NFS4_OK(BIND_CONN_TO_SESSION4resok),
    /// Any other.
    default(nfsstat4),
}

impl BIND_CONN_TO_SESSION4res {
    /// Which of them it is.
    pub fn bctsr_status(&self) -> nfsstat4 {
        match self {
            BIND_CONN_TO_SESSION4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            BIND_CONN_TO_SESSION4res::default(other) => *other,
        }
    }
}

impl Xdr for BIND_CONN_TO_SESSION4res {
    fn encode(&self, out: &mut Encoder) {
        self.bctsr_status().encode(out);
        match self {
            BIND_CONN_TO_SESSION4res::NFS4_OK(it) => {
                it.encode(out);
            }
            BIND_CONN_TO_SESSION4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => {
                BIND_CONN_TO_SESSION4res::NFS4_OK(BIND_CONN_TO_SESSION4resok::decode(input)?)
            }
            other => BIND_CONN_TO_SESSION4res::default(other),
        })
    }
}

pub const EXCHGID4_FLAG_SUPP_MOVED_REFER: u32 = 1;

pub const EXCHGID4_FLAG_SUPP_MOVED_MIGR: u32 = 2;

pub const EXCHGID4_FLAG_SUPP_FENCE_OPS: u32 = 4;

pub const EXCHGID4_FLAG_BIND_PRINC_STATEID: u32 = 256;

pub const EXCHGID4_FLAG_USE_NON_PNFS: u32 = 65536;

pub const EXCHGID4_FLAG_USE_PNFS_MDS: u32 = 131072;

pub const EXCHGID4_FLAG_USE_PNFS_DS: u32 = 262144;

pub const EXCHGID4_FLAG_MASK_PNFS: u32 = 458752;

pub const EXCHGID4_FLAG_UPD_CONFIRMED_REC_A: u32 = 0x40000000;

pub const EXCHGID4_FLAG_CONFIRMED_R: u32 = 0x80000000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct state_protect_ops4 {
    pub spo_must_enforce: bitmap4,
    pub spo_must_allow: bitmap4,
}

impl Xdr for state_protect_ops4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.spo_must_enforce, |out, item| {
            out.u32(*item);
        });
        out.vec(u32::MAX, &self.spo_must_allow, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(state_protect_ops4 {
            spo_must_enforce: input.vec(u32::MAX, 4, Decoder::u32)?,
            spo_must_allow: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssv_sp_parms4 {
    pub ssp_ops: state_protect_ops4,
    pub ssp_hash_algs: Vec<sec_oid4>,
    pub ssp_encr_algs: Vec<sec_oid4>,
    pub ssp_window: u32,
    pub ssp_num_gss_handles: u32,
}

impl Xdr for ssv_sp_parms4 {
    fn encode(&self, out: &mut Encoder) {
        self.ssp_ops.encode(out);
        out.vec(u32::MAX, &self.ssp_hash_algs, |out, item| {
            out.opaque(u32::MAX, item);
        });
        out.vec(u32::MAX, &self.ssp_encr_algs, |out, item| {
            out.opaque(u32::MAX, item);
        });
        out.u32(self.ssp_window);
        out.u32(self.ssp_num_gss_handles);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssv_sp_parms4 {
            ssp_ops: state_protect_ops4::decode(input)?,
            ssp_hash_algs: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
            ssp_encr_algs: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
            ssp_window: input.u32()?,
            ssp_num_gss_handles: input.u32()?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum state_protect_how4 {
    SP4_NONE = 0,
    SP4_MACH_CRED = 1,
    SP4_SSV = 2,
}

impl state_protect_how4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<state_protect_how4> {
        Some(match value {
            0 => state_protect_how4::SP4_NONE,
            1 => state_protect_how4::SP4_MACH_CRED,
            2 => state_protect_how4::SP4_SSV,
            _ => return None,
        })
    }
}

impl Xdr for state_protect_how4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        state_protect_how4::from_wire(value).ok_or(DecodeError::Member {
            of: "state_protect_how4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum state_protect4_a {
    SP4_NONE,
    SP4_MACH_CRED(state_protect_ops4),
    SP4_SSV(ssv_sp_parms4),
}

impl state_protect4_a {
    /// Which of them it is.
    pub fn spa_how(&self) -> state_protect_how4 {
        match self {
            state_protect4_a::SP4_NONE => state_protect_how4::SP4_NONE,
            state_protect4_a::SP4_MACH_CRED(_) => state_protect_how4::SP4_MACH_CRED,
            state_protect4_a::SP4_SSV(_) => state_protect_how4::SP4_SSV,
        }
    }
}

impl Xdr for state_protect4_a {
    fn encode(&self, out: &mut Encoder) {
        self.spa_how().encode(out);
        match self {
            state_protect4_a::SP4_NONE => {}
            state_protect4_a::SP4_MACH_CRED(it) => {
                it.encode(out);
            }
            state_protect4_a::SP4_SSV(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match state_protect_how4::decode(input)? {
            state_protect_how4::SP4_NONE => state_protect4_a::SP4_NONE,
            state_protect_how4::SP4_MACH_CRED => {
                state_protect4_a::SP4_MACH_CRED(state_protect_ops4::decode(input)?)
            }
            state_protect_how4::SP4_SSV => state_protect4_a::SP4_SSV(ssv_sp_parms4::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EXCHANGE_ID4args {
    pub eia_clientowner: client_owner4,
    pub eia_flags: u32,
    pub eia_state_protect: state_protect4_a,
    /// At most 1.
    pub eia_client_impl_id: Vec<nfs_impl_id4>,
}

impl Xdr for EXCHANGE_ID4args {
    fn encode(&self, out: &mut Encoder) {
        self.eia_clientowner.encode(out);
        out.u32(self.eia_flags);
        self.eia_state_protect.encode(out);
        out.vec(1, &self.eia_client_impl_id, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(EXCHANGE_ID4args {
            eia_clientowner: client_owner4::decode(input)?,
            eia_flags: input.u32()?,
            eia_state_protect: state_protect4_a::decode(input)?,
            eia_client_impl_id: input.vec(1, 20, nfs_impl_id4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssv_prot_info4 {
    pub spi_ops: state_protect_ops4,
    pub spi_hash_alg: u32,
    pub spi_encr_alg: u32,
    pub spi_ssv_len: u32,
    pub spi_window: u32,
    pub spi_handles: Vec<gsshandle4_t>,
}

impl Xdr for ssv_prot_info4 {
    fn encode(&self, out: &mut Encoder) {
        self.spi_ops.encode(out);
        out.u32(self.spi_hash_alg);
        out.u32(self.spi_encr_alg);
        out.u32(self.spi_ssv_len);
        out.u32(self.spi_window);
        out.vec(u32::MAX, &self.spi_handles, |out, item| {
            out.opaque(u32::MAX, item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssv_prot_info4 {
            spi_ops: state_protect_ops4::decode(input)?,
            spi_hash_alg: input.u32()?,
            spi_encr_alg: input.u32()?,
            spi_ssv_len: input.u32()?,
            spi_window: input.u32()?,
            spi_handles: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum state_protect4_r {
    SP4_NONE,
    SP4_MACH_CRED(state_protect_ops4),
    SP4_SSV(ssv_prot_info4),
}

impl state_protect4_r {
    /// Which of them it is.
    pub fn spr_how(&self) -> state_protect_how4 {
        match self {
            state_protect4_r::SP4_NONE => state_protect_how4::SP4_NONE,
            state_protect4_r::SP4_MACH_CRED(_) => state_protect_how4::SP4_MACH_CRED,
            state_protect4_r::SP4_SSV(_) => state_protect_how4::SP4_SSV,
        }
    }
}

impl Xdr for state_protect4_r {
    fn encode(&self, out: &mut Encoder) {
        self.spr_how().encode(out);
        match self {
            state_protect4_r::SP4_NONE => {}
            state_protect4_r::SP4_MACH_CRED(it) => {
                it.encode(out);
            }
            state_protect4_r::SP4_SSV(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match state_protect_how4::decode(input)? {
            state_protect_how4::SP4_NONE => state_protect4_r::SP4_NONE,
            state_protect_how4::SP4_MACH_CRED => {
                state_protect4_r::SP4_MACH_CRED(state_protect_ops4::decode(input)?)
            }
            state_protect_how4::SP4_SSV => {
                state_protect4_r::SP4_SSV(ssv_prot_info4::decode(input)?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EXCHANGE_ID4resok {
    pub eir_clientid: clientid4,
    pub eir_sequenceid: sequenceid4,
    pub eir_flags: u32,
    pub eir_state_protect: state_protect4_r,
    pub eir_server_owner: server_owner4,
    /// At most 1024 bytes.
    pub eir_server_scope: Bytes,
    /// At most 1.
    pub eir_server_impl_id: Vec<nfs_impl_id4>,
}

impl Xdr for EXCHANGE_ID4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.eir_clientid);
        out.u32(self.eir_sequenceid);
        out.u32(self.eir_flags);
        self.eir_state_protect.encode(out);
        self.eir_server_owner.encode(out);
        out.opaque(1024, &self.eir_server_scope);
        out.vec(1, &self.eir_server_impl_id, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(EXCHANGE_ID4resok {
            eir_clientid: input.u64()?,
            eir_sequenceid: input.u32()?,
            eir_flags: input.u32()?,
            eir_state_protect: state_protect4_r::decode(input)?,
            eir_server_owner: server_owner4::decode(input)?,
            eir_server_scope: input.opaque(1024)?,
            eir_server_impl_id: input.vec(1, 20, nfs_impl_id4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EXCHANGE_ID4res {
    NFS4_OK(EXCHANGE_ID4resok),
    /// Any other.
    default(nfsstat4),
}

impl EXCHANGE_ID4res {
    /// Which of them it is.
    pub fn eir_status(&self) -> nfsstat4 {
        match self {
            EXCHANGE_ID4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            EXCHANGE_ID4res::default(other) => *other,
        }
    }
}

impl Xdr for EXCHANGE_ID4res {
    fn encode(&self, out: &mut Encoder) {
        self.eir_status().encode(out);
        match self {
            EXCHANGE_ID4res::NFS4_OK(it) => {
                it.encode(out);
            }
            EXCHANGE_ID4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => EXCHANGE_ID4res::NFS4_OK(EXCHANGE_ID4resok::decode(input)?),
            other => EXCHANGE_ID4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct channel_attrs4 {
    pub ca_headerpadsize: count4,
    pub ca_maxrequestsize: count4,
    pub ca_maxresponsesize: count4,
    pub ca_maxresponsesize_cached: count4,
    pub ca_maxoperations: count4,
    pub ca_maxrequests: count4,
    /// At most 1.
    pub ca_rdma_ird: Vec<u32>,
}

impl Xdr for channel_attrs4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.ca_headerpadsize);
        out.u32(self.ca_maxrequestsize);
        out.u32(self.ca_maxresponsesize);
        out.u32(self.ca_maxresponsesize_cached);
        out.u32(self.ca_maxoperations);
        out.u32(self.ca_maxrequests);
        out.vec(1, &self.ca_rdma_ird, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(channel_attrs4 {
            ca_headerpadsize: input.u32()?,
            ca_maxrequestsize: input.u32()?,
            ca_maxresponsesize: input.u32()?,
            ca_maxresponsesize_cached: input.u32()?,
            ca_maxoperations: input.u32()?,
            ca_maxrequests: input.u32()?,
            ca_rdma_ird: input.vec(1, 4, Decoder::u32)?,
        })
    }
}

pub const CREATE_SESSION4_FLAG_PERSIST: u32 = 1;

pub const CREATE_SESSION4_FLAG_CONN_BACK_CHAN: u32 = 2;

pub const CREATE_SESSION4_FLAG_CONN_RDMA: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE_SESSION4args {
    pub csa_clientid: clientid4,
    pub csa_sequence: sequenceid4,
    pub csa_flags: u32,
    pub csa_fore_chan_attrs: channel_attrs4,
    pub csa_back_chan_attrs: channel_attrs4,
    pub csa_cb_program: u32,
    pub csa_sec_parms: Vec<callback_sec_parms4>,
}

impl Xdr for CREATE_SESSION4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.csa_clientid);
        out.u32(self.csa_sequence);
        out.u32(self.csa_flags);
        self.csa_fore_chan_attrs.encode(out);
        self.csa_back_chan_attrs.encode(out);
        out.u32(self.csa_cb_program);
        out.vec(u32::MAX, &self.csa_sec_parms, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE_SESSION4args {
            csa_clientid: input.u64()?,
            csa_sequence: input.u32()?,
            csa_flags: input.u32()?,
            csa_fore_chan_attrs: channel_attrs4::decode(input)?,
            csa_back_chan_attrs: channel_attrs4::decode(input)?,
            csa_cb_program: input.u32()?,
            csa_sec_parms: input.vec(u32::MAX, 4, callback_sec_parms4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CREATE_SESSION4resok {
    pub csr_sessionid: sessionid4,
    pub csr_sequence: sequenceid4,
    pub csr_flags: u32,
    pub csr_fore_chan_attrs: channel_attrs4,
    pub csr_back_chan_attrs: channel_attrs4,
}

impl Xdr for CREATE_SESSION4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.csr_sessionid);
        out.u32(self.csr_sequence);
        out.u32(self.csr_flags);
        self.csr_fore_chan_attrs.encode(out);
        self.csr_back_chan_attrs.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CREATE_SESSION4resok {
            csr_sessionid: input.fixed::<16>()?,
            csr_sequence: input.u32()?,
            csr_flags: input.u32()?,
            csr_fore_chan_attrs: channel_attrs4::decode(input)?,
            csr_back_chan_attrs: channel_attrs4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CREATE_SESSION4res {
    NFS4_OK(CREATE_SESSION4resok),
    /// Any other.
    default(nfsstat4),
}

impl CREATE_SESSION4res {
    /// Which of them it is.
    pub fn csr_status(&self) -> nfsstat4 {
        match self {
            CREATE_SESSION4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            CREATE_SESSION4res::default(other) => *other,
        }
    }
}

impl Xdr for CREATE_SESSION4res {
    fn encode(&self, out: &mut Encoder) {
        self.csr_status().encode(out);
        match self {
            CREATE_SESSION4res::NFS4_OK(it) => {
                it.encode(out);
            }
            CREATE_SESSION4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => CREATE_SESSION4res::NFS4_OK(CREATE_SESSION4resok::decode(input)?),
            other => CREATE_SESSION4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DESTROY_SESSION4args {
    pub dsa_sessionid: sessionid4,
}

impl Xdr for DESTROY_SESSION4args {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.dsa_sessionid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DESTROY_SESSION4args {
            dsa_sessionid: input.fixed::<16>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DESTROY_SESSION4res {
    pub dsr_status: nfsstat4,
}

impl Xdr for DESTROY_SESSION4res {
    fn encode(&self, out: &mut Encoder) {
        self.dsr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DESTROY_SESSION4res {
            dsr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FREE_STATEID4args {
    pub fsa_stateid: stateid4,
}

impl Xdr for FREE_STATEID4args {
    fn encode(&self, out: &mut Encoder) {
        self.fsa_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FREE_STATEID4args {
            fsa_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FREE_STATEID4res {
    pub fsr_status: nfsstat4,
}

impl Xdr for FREE_STATEID4res {
    fn encode(&self, out: &mut Encoder) {
        self.fsr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(FREE_STATEID4res {
            fsr_status: nfsstat4::decode(input)?,
        })
    }
}

pub type attr_notice4 = nfstime4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GET_DIR_DELEGATION4args {
    pub gdda_signal_deleg_avail: bool,
    pub gdda_notification_types: bitmap4,
    pub gdda_child_attr_delay: attr_notice4,
    pub gdda_dir_attr_delay: attr_notice4,
    pub gdda_child_attributes: bitmap4,
    pub gdda_dir_attributes: bitmap4,
}

impl Xdr for GET_DIR_DELEGATION4args {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.gdda_signal_deleg_avail);
        out.vec(u32::MAX, &self.gdda_notification_types, |out, item| {
            out.u32(*item);
        });
        self.gdda_child_attr_delay.encode(out);
        self.gdda_dir_attr_delay.encode(out);
        out.vec(u32::MAX, &self.gdda_child_attributes, |out, item| {
            out.u32(*item);
        });
        out.vec(u32::MAX, &self.gdda_dir_attributes, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GET_DIR_DELEGATION4args {
            gdda_signal_deleg_avail: input.bool()?,
            gdda_notification_types: input.vec(u32::MAX, 4, Decoder::u32)?,
            gdda_child_attr_delay: nfstime4::decode(input)?,
            gdda_dir_attr_delay: nfstime4::decode(input)?,
            gdda_child_attributes: input.vec(u32::MAX, 4, Decoder::u32)?,
            gdda_dir_attributes: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GET_DIR_DELEGATION4resok {
    pub gddr_cookieverf: verifier4,
    pub gddr_stateid: stateid4,
    pub gddr_notification: bitmap4,
    pub gddr_child_attributes: bitmap4,
    pub gddr_dir_attributes: bitmap4,
}

impl Xdr for GET_DIR_DELEGATION4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.gddr_cookieverf);
        self.gddr_stateid.encode(out);
        out.vec(u32::MAX, &self.gddr_notification, |out, item| {
            out.u32(*item);
        });
        out.vec(u32::MAX, &self.gddr_child_attributes, |out, item| {
            out.u32(*item);
        });
        out.vec(u32::MAX, &self.gddr_dir_attributes, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GET_DIR_DELEGATION4resok {
            gddr_cookieverf: input.fixed::<8>()?,
            gddr_stateid: stateid4::decode(input)?,
            gddr_notification: input.vec(u32::MAX, 4, Decoder::u32)?,
            gddr_child_attributes: input.vec(u32::MAX, 4, Decoder::u32)?,
            gddr_dir_attributes: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum gddrnf4_status {
    GDD4_OK = 0,
    GDD4_UNAVAIL = 1,
}

impl gddrnf4_status {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<gddrnf4_status> {
        Some(match value {
            0 => gddrnf4_status::GDD4_OK,
            1 => gddrnf4_status::GDD4_UNAVAIL,
            _ => return None,
        })
    }
}

impl Xdr for gddrnf4_status {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        gddrnf4_status::from_wire(value).ok_or(DecodeError::Member {
            of: "gddrnf4_status",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GET_DIR_DELEGATION4res_non_fatal {
    GDD4_OK(GET_DIR_DELEGATION4resok),
    GDD4_UNAVAIL(bool),
}

impl GET_DIR_DELEGATION4res_non_fatal {
    /// Which of them it is.
    pub fn gddrnf_status(&self) -> gddrnf4_status {
        match self {
            GET_DIR_DELEGATION4res_non_fatal::GDD4_OK(_) => gddrnf4_status::GDD4_OK,
            GET_DIR_DELEGATION4res_non_fatal::GDD4_UNAVAIL(_) => gddrnf4_status::GDD4_UNAVAIL,
        }
    }
}

impl Xdr for GET_DIR_DELEGATION4res_non_fatal {
    fn encode(&self, out: &mut Encoder) {
        self.gddrnf_status().encode(out);
        match self {
            GET_DIR_DELEGATION4res_non_fatal::GDD4_OK(it) => {
                it.encode(out);
            }
            GET_DIR_DELEGATION4res_non_fatal::GDD4_UNAVAIL(it) => {
                out.bool(*it);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match gddrnf4_status::decode(input)? {
            gddrnf4_status::GDD4_OK => {
                GET_DIR_DELEGATION4res_non_fatal::GDD4_OK(GET_DIR_DELEGATION4resok::decode(input)?)
            }
            gddrnf4_status::GDD4_UNAVAIL => {
                GET_DIR_DELEGATION4res_non_fatal::GDD4_UNAVAIL(input.bool()?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GET_DIR_DELEGATION4res {
    NFS4_OK(GET_DIR_DELEGATION4res_non_fatal),
    /// Any other.
    default(nfsstat4),
}

impl GET_DIR_DELEGATION4res {
    /// Which of them it is.
    pub fn gddr_status(&self) -> nfsstat4 {
        match self {
            GET_DIR_DELEGATION4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            GET_DIR_DELEGATION4res::default(other) => *other,
        }
    }
}

impl Xdr for GET_DIR_DELEGATION4res {
    fn encode(&self, out: &mut Encoder) {
        self.gddr_status().encode(out);
        match self {
            GET_DIR_DELEGATION4res::NFS4_OK(it) => {
                it.encode(out);
            }
            GET_DIR_DELEGATION4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => {
                GET_DIR_DELEGATION4res::NFS4_OK(GET_DIR_DELEGATION4res_non_fatal::decode(input)?)
            }
            other => GET_DIR_DELEGATION4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETDEVICEINFO4args {
    pub gdia_device_id: deviceid4,
    pub gdia_layout_type: layouttype4,
    pub gdia_maxcount: count4,
    pub gdia_notify_types: bitmap4,
}

impl Xdr for GETDEVICEINFO4args {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.gdia_device_id);
        self.gdia_layout_type.encode(out);
        out.u32(self.gdia_maxcount);
        out.vec(u32::MAX, &self.gdia_notify_types, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETDEVICEINFO4args {
            gdia_device_id: input.fixed::<16>()?,
            gdia_layout_type: layouttype4::decode(input)?,
            gdia_maxcount: input.u32()?,
            gdia_notify_types: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETDEVICEINFO4resok {
    pub gdir_device_addr: device_addr4,
    pub gdir_notification: bitmap4,
}

impl Xdr for GETDEVICEINFO4resok {
    fn encode(&self, out: &mut Encoder) {
        self.gdir_device_addr.encode(out);
        out.vec(u32::MAX, &self.gdir_notification, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETDEVICEINFO4resok {
            gdir_device_addr: device_addr4::decode(input)?,
            gdir_notification: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GETDEVICEINFO4res {
    NFS4_OK(GETDEVICEINFO4resok),
    NFS4ERR_TOOSMALL(count4),
    /// Any other.
    default(nfsstat4),
}

impl GETDEVICEINFO4res {
    /// Which of them it is.
    pub fn gdir_status(&self) -> nfsstat4 {
        match self {
            GETDEVICEINFO4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            GETDEVICEINFO4res::NFS4ERR_TOOSMALL(_) => nfsstat4::NFS4ERR_TOOSMALL,
            GETDEVICEINFO4res::default(other) => *other,
        }
    }
}

impl Xdr for GETDEVICEINFO4res {
    fn encode(&self, out: &mut Encoder) {
        self.gdir_status().encode(out);
        match self {
            GETDEVICEINFO4res::NFS4_OK(it) => {
                it.encode(out);
            }
            GETDEVICEINFO4res::NFS4ERR_TOOSMALL(it) => {
                out.u32(*it);
            }
            GETDEVICEINFO4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => GETDEVICEINFO4res::NFS4_OK(GETDEVICEINFO4resok::decode(input)?),
            nfsstat4::NFS4ERR_TOOSMALL => GETDEVICEINFO4res::NFS4ERR_TOOSMALL(input.u32()?),
            other => GETDEVICEINFO4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETDEVICELIST4args {
    pub gdla_layout_type: layouttype4,
    pub gdla_maxdevices: count4,
    pub gdla_cookie: nfs_cookie4,
    pub gdla_cookieverf: verifier4,
}

impl Xdr for GETDEVICELIST4args {
    fn encode(&self, out: &mut Encoder) {
        self.gdla_layout_type.encode(out);
        out.u32(self.gdla_maxdevices);
        out.u64(self.gdla_cookie);
        out.fixed(&self.gdla_cookieverf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETDEVICELIST4args {
            gdla_layout_type: layouttype4::decode(input)?,
            gdla_maxdevices: input.u32()?,
            gdla_cookie: input.u64()?,
            gdla_cookieverf: input.fixed::<8>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETDEVICELIST4resok {
    pub gdlr_cookie: nfs_cookie4,
    pub gdlr_cookieverf: verifier4,
    pub gdlr_deviceid_list: Vec<deviceid4>,
    pub gdlr_eof: bool,
}

impl Xdr for GETDEVICELIST4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.gdlr_cookie);
        out.fixed(&self.gdlr_cookieverf);
        out.vec(u32::MAX, &self.gdlr_deviceid_list, |out, item| {
            out.fixed(item);
        });
        out.bool(self.gdlr_eof);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETDEVICELIST4resok {
            gdlr_cookie: input.u64()?,
            gdlr_cookieverf: input.fixed::<8>()?,
            gdlr_deviceid_list: input.vec(u32::MAX, 16, Decoder::fixed::<16>)?,
            gdlr_eof: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GETDEVICELIST4res {
    NFS4_OK(GETDEVICELIST4resok),
    /// Any other.
    default(nfsstat4),
}

impl GETDEVICELIST4res {
    /// Which of them it is.
    pub fn gdlr_status(&self) -> nfsstat4 {
        match self {
            GETDEVICELIST4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            GETDEVICELIST4res::default(other) => *other,
        }
    }
}

impl Xdr for GETDEVICELIST4res {
    fn encode(&self, out: &mut Encoder) {
        self.gdlr_status().encode(out);
        match self {
            GETDEVICELIST4res::NFS4_OK(it) => {
                it.encode(out);
            }
            GETDEVICELIST4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => GETDEVICELIST4res::NFS4_OK(GETDEVICELIST4resok::decode(input)?),
            other => GETDEVICELIST4res::default(other),
        })
    }
}

/// `nt_timechanged`: there or not.
pub type newtime4 = Option<nfstime4>;

/// `no_newoffset`: there or not.
pub type newoffset4 = Option<offset4>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTCOMMIT4args {
    pub loca_offset: offset4,
    pub loca_length: length4,
    pub loca_reclaim: bool,
    pub loca_stateid: stateid4,
    pub loca_last_write_offset: newoffset4,
    pub loca_time_modify: newtime4,
    pub loca_layoutupdate: layoutupdate4,
}

impl Xdr for LAYOUTCOMMIT4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.loca_offset);
        out.u64(self.loca_length);
        out.bool(self.loca_reclaim);
        self.loca_stateid.encode(out);
        out.option(self.loca_last_write_offset.as_ref(), |out, item| {
            out.u64(*item);
        });
        out.option(self.loca_time_modify.as_ref(), |out, item| {
            item.encode(out);
        });
        self.loca_layoutupdate.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTCOMMIT4args {
            loca_offset: input.u64()?,
            loca_length: input.u64()?,
            loca_reclaim: input.bool()?,
            loca_stateid: stateid4::decode(input)?,
            loca_last_write_offset: input.option(Decoder::u64)?,
            loca_time_modify: input.option(nfstime4::decode)?,
            loca_layoutupdate: layoutupdate4::decode(input)?,
        })
    }
}

/// `ns_sizechanged`: there or not.
pub type newsize4 = Option<length4>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTCOMMIT4resok {
    pub locr_newsize: newsize4,
}

impl Xdr for LAYOUTCOMMIT4resok {
    fn encode(&self, out: &mut Encoder) {
        out.option(self.locr_newsize.as_ref(), |out, item| {
            out.u64(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTCOMMIT4resok {
            locr_newsize: input.option(Decoder::u64)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LAYOUTCOMMIT4res {
    NFS4_OK(LAYOUTCOMMIT4resok),
    /// Any other.
    default(nfsstat4),
}

impl LAYOUTCOMMIT4res {
    /// Which of them it is.
    pub fn locr_status(&self) -> nfsstat4 {
        match self {
            LAYOUTCOMMIT4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LAYOUTCOMMIT4res::default(other) => *other,
        }
    }
}

impl Xdr for LAYOUTCOMMIT4res {
    fn encode(&self, out: &mut Encoder) {
        self.locr_status().encode(out);
        match self {
            LAYOUTCOMMIT4res::NFS4_OK(it) => {
                it.encode(out);
            }
            LAYOUTCOMMIT4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LAYOUTCOMMIT4res::NFS4_OK(LAYOUTCOMMIT4resok::decode(input)?),
            other => LAYOUTCOMMIT4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTGET4args {
    pub loga_signal_layout_avail: bool,
    pub loga_layout_type: layouttype4,
    pub loga_iomode: layoutiomode4,
    pub loga_offset: offset4,
    pub loga_length: length4,
    pub loga_minlength: length4,
    pub loga_stateid: stateid4,
    pub loga_maxcount: count4,
}

impl Xdr for LAYOUTGET4args {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.loga_signal_layout_avail);
        self.loga_layout_type.encode(out);
        self.loga_iomode.encode(out);
        out.u64(self.loga_offset);
        out.u64(self.loga_length);
        out.u64(self.loga_minlength);
        self.loga_stateid.encode(out);
        out.u32(self.loga_maxcount);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTGET4args {
            loga_signal_layout_avail: input.bool()?,
            loga_layout_type: layouttype4::decode(input)?,
            loga_iomode: layoutiomode4::decode(input)?,
            loga_offset: input.u64()?,
            loga_length: input.u64()?,
            loga_minlength: input.u64()?,
            loga_stateid: stateid4::decode(input)?,
            loga_maxcount: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTGET4resok {
    pub logr_return_on_close: bool,
    pub logr_stateid: stateid4,
    pub logr_layout: Vec<layout4>,
}

impl Xdr for LAYOUTGET4resok {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.logr_return_on_close);
        self.logr_stateid.encode(out);
        out.vec(u32::MAX, &self.logr_layout, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTGET4resok {
            logr_return_on_close: input.bool()?,
            logr_stateid: stateid4::decode(input)?,
            logr_layout: input.vec(u32::MAX, 28, layout4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LAYOUTGET4res {
    NFS4_OK(LAYOUTGET4resok),
    NFS4ERR_LAYOUTTRYLATER(bool),
    /// Any other.
    default(nfsstat4),
}

impl LAYOUTGET4res {
    /// Which of them it is.
    pub fn logr_status(&self) -> nfsstat4 {
        match self {
            LAYOUTGET4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LAYOUTGET4res::NFS4ERR_LAYOUTTRYLATER(_) => nfsstat4::NFS4ERR_LAYOUTTRYLATER,
            LAYOUTGET4res::default(other) => *other,
        }
    }
}

impl Xdr for LAYOUTGET4res {
    fn encode(&self, out: &mut Encoder) {
        self.logr_status().encode(out);
        match self {
            LAYOUTGET4res::NFS4_OK(it) => {
                it.encode(out);
            }
            LAYOUTGET4res::NFS4ERR_LAYOUTTRYLATER(it) => {
                out.bool(*it);
            }
            LAYOUTGET4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LAYOUTGET4res::NFS4_OK(LAYOUTGET4resok::decode(input)?),
            nfsstat4::NFS4ERR_LAYOUTTRYLATER => {
                LAYOUTGET4res::NFS4ERR_LAYOUTTRYLATER(input.bool()?)
            }
            other => LAYOUTGET4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTRETURN4args {
    pub lora_reclaim: bool,
    pub lora_layout_type: layouttype4,
    pub lora_iomode: layoutiomode4,
    pub lora_layoutreturn: layoutreturn4,
}

impl Xdr for LAYOUTRETURN4args {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.lora_reclaim);
        self.lora_layout_type.encode(out);
        self.lora_iomode.encode(out);
        self.lora_layoutreturn.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTRETURN4args {
            lora_reclaim: input.bool()?,
            lora_layout_type: layouttype4::decode(input)?,
            lora_iomode: layoutiomode4::decode(input)?,
            lora_layoutreturn: layoutreturn4::decode(input)?,
        })
    }
}

/// `lrs_present`: there or not.
pub type layoutreturn_stateid = Option<stateid4>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LAYOUTRETURN4res {
    NFS4_OK(layoutreturn_stateid),
    /// Any other.
    default(nfsstat4),
}

impl LAYOUTRETURN4res {
    /// Which of them it is.
    pub fn lorr_status(&self) -> nfsstat4 {
        match self {
            LAYOUTRETURN4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LAYOUTRETURN4res::default(other) => *other,
        }
    }
}

impl Xdr for LAYOUTRETURN4res {
    fn encode(&self, out: &mut Encoder) {
        self.lorr_status().encode(out);
        match self {
            LAYOUTRETURN4res::NFS4_OK(it) => {
                out.option(it.as_ref(), |out, item| {
                    item.encode(out);
                });
            }
            LAYOUTRETURN4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LAYOUTRETURN4res::NFS4_OK(input.option(stateid4::decode)?),
            other => LAYOUTRETURN4res::default(other),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum secinfo_style4 {
    SECINFO_STYLE4_CURRENT_FH = 0,
    SECINFO_STYLE4_PARENT = 1,
}

impl secinfo_style4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<secinfo_style4> {
        Some(match value {
            0 => secinfo_style4::SECINFO_STYLE4_CURRENT_FH,
            1 => secinfo_style4::SECINFO_STYLE4_PARENT,
            _ => return None,
        })
    }
}

impl Xdr for secinfo_style4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        secinfo_style4::from_wire(value).ok_or(DecodeError::Member {
            of: "secinfo_style4",
            value,
        })
    }
}

pub type SECINFO_NO_NAME4args = secinfo_style4;

pub type SECINFO_NO_NAME4res = SECINFO4res;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SEQUENCE4args {
    pub sa_sessionid: sessionid4,
    pub sa_sequenceid: sequenceid4,
    pub sa_slotid: slotid4,
    pub sa_highest_slotid: slotid4,
    pub sa_cachethis: bool,
}

impl Xdr for SEQUENCE4args {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.sa_sessionid);
        out.u32(self.sa_sequenceid);
        out.u32(self.sa_slotid);
        out.u32(self.sa_highest_slotid);
        out.bool(self.sa_cachethis);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SEQUENCE4args {
            sa_sessionid: input.fixed::<16>()?,
            sa_sequenceid: input.u32()?,
            sa_slotid: input.u32()?,
            sa_highest_slotid: input.u32()?,
            sa_cachethis: input.bool()?,
        })
    }
}

pub const SEQ4_STATUS_CB_PATH_DOWN: u32 = 1;

pub const SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING: u32 = 2;

pub const SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED: u32 = 4;

pub const SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED: u32 = 8;

pub const SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED: u32 = 16;

pub const SEQ4_STATUS_ADMIN_STATE_REVOKED: u32 = 32;

pub const SEQ4_STATUS_RECALLABLE_STATE_REVOKED: u32 = 64;

pub const SEQ4_STATUS_LEASE_MOVED: u32 = 128;

pub const SEQ4_STATUS_RESTART_RECLAIM_NEEDED: u32 = 256;

pub const SEQ4_STATUS_CB_PATH_DOWN_SESSION: u32 = 512;

pub const SEQ4_STATUS_BACKCHANNEL_FAULT: u32 = 1024;

pub const SEQ4_STATUS_DEVID_CHANGED: u32 = 2048;

pub const SEQ4_STATUS_DEVID_DELETED: u32 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SEQUENCE4resok {
    pub sr_sessionid: sessionid4,
    pub sr_sequenceid: sequenceid4,
    pub sr_slotid: slotid4,
    pub sr_highest_slotid: slotid4,
    pub sr_target_highest_slotid: slotid4,
    pub sr_status_flags: u32,
}

impl Xdr for SEQUENCE4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.sr_sessionid);
        out.u32(self.sr_sequenceid);
        out.u32(self.sr_slotid);
        out.u32(self.sr_highest_slotid);
        out.u32(self.sr_target_highest_slotid);
        out.u32(self.sr_status_flags);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SEQUENCE4resok {
            sr_sessionid: input.fixed::<16>()?,
            sr_sequenceid: input.u32()?,
            sr_slotid: input.u32()?,
            sr_highest_slotid: input.u32()?,
            sr_target_highest_slotid: input.u32()?,
            sr_status_flags: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SEQUENCE4res {
    NFS4_OK(SEQUENCE4resok),
    /// Any other.
    default(nfsstat4),
}

impl SEQUENCE4res {
    /// Which of them it is.
    pub fn sr_status(&self) -> nfsstat4 {
        match self {
            SEQUENCE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            SEQUENCE4res::default(other) => *other,
        }
    }
}

impl Xdr for SEQUENCE4res {
    fn encode(&self, out: &mut Encoder) {
        self.sr_status().encode(out);
        match self {
            SEQUENCE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            SEQUENCE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => SEQUENCE4res::NFS4_OK(SEQUENCE4resok::decode(input)?),
            other => SEQUENCE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssa_digest_input4 {
    pub sdi_seqargs: SEQUENCE4args,
}

impl Xdr for ssa_digest_input4 {
    fn encode(&self, out: &mut Encoder) {
        self.sdi_seqargs.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssa_digest_input4 {
            sdi_seqargs: SEQUENCE4args::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SET_SSV4args {
    pub ssa_ssv: Bytes,
    pub ssa_digest: Bytes,
}

impl Xdr for SET_SSV4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.ssa_ssv);
        out.opaque(u32::MAX, &self.ssa_digest);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SET_SSV4args {
            ssa_ssv: input.opaque(u32::MAX)?,
            ssa_digest: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ssr_digest_input4 {
    pub sdi_seqres: SEQUENCE4res,
}

impl Xdr for ssr_digest_input4 {
    fn encode(&self, out: &mut Encoder) {
        self.sdi_seqres.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ssr_digest_input4 {
            sdi_seqres: SEQUENCE4res::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SET_SSV4resok {
    pub ssr_digest: Bytes,
}

impl Xdr for SET_SSV4resok {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.ssr_digest);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SET_SSV4resok {
            ssr_digest: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SET_SSV4res {
    NFS4_OK(SET_SSV4resok),
    /// Any other.
    default(nfsstat4),
}

impl SET_SSV4res {
    /// Which of them it is.
    pub fn ssr_status(&self) -> nfsstat4 {
        match self {
            SET_SSV4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            SET_SSV4res::default(other) => *other,
        }
    }
}

impl Xdr for SET_SSV4res {
    fn encode(&self, out: &mut Encoder) {
        self.ssr_status().encode(out);
        match self {
            SET_SSV4res::NFS4_OK(it) => {
                it.encode(out);
            }
            SET_SSV4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => SET_SSV4res::NFS4_OK(SET_SSV4resok::decode(input)?),
            other => SET_SSV4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TEST_STATEID4args {
    pub ts_stateids: Vec<stateid4>,
}

impl Xdr for TEST_STATEID4args {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.ts_stateids, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(TEST_STATEID4args {
            ts_stateids: input.vec(u32::MAX, 16, stateid4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TEST_STATEID4resok {
    pub tsr_status_codes: Vec<nfsstat4>,
}

impl Xdr for TEST_STATEID4resok {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.tsr_status_codes, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(TEST_STATEID4resok {
            tsr_status_codes: input.vec(u32::MAX, 4, nfsstat4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TEST_STATEID4res {
    NFS4_OK(TEST_STATEID4resok),
    /// Any other.
    default(nfsstat4),
}

impl TEST_STATEID4res {
    /// Which of them it is.
    pub fn tsr_status(&self) -> nfsstat4 {
        match self {
            TEST_STATEID4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            TEST_STATEID4res::default(other) => *other,
        }
    }
}

impl Xdr for TEST_STATEID4res {
    fn encode(&self, out: &mut Encoder) {
        self.tsr_status().encode(out);
        match self {
            TEST_STATEID4res::NFS4_OK(it) => {
                it.encode(out);
            }
            TEST_STATEID4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => TEST_STATEID4res::NFS4_OK(TEST_STATEID4resok::decode(input)?),
            other => TEST_STATEID4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum deleg_claim4 {
    CLAIM_FH,
    CLAIM_DELEG_PREV_FH,
    CLAIM_PREVIOUS(open_delegation_type4),
}

impl deleg_claim4 {
    /// Which of them it is.
    pub fn dc_claim(&self) -> open_claim_type4 {
        match self {
            deleg_claim4::CLAIM_FH => open_claim_type4::CLAIM_FH,
            deleg_claim4::CLAIM_DELEG_PREV_FH => open_claim_type4::CLAIM_DELEG_PREV_FH,
            deleg_claim4::CLAIM_PREVIOUS(_) => open_claim_type4::CLAIM_PREVIOUS,
        }
    }
}

impl Xdr for deleg_claim4 {
    fn encode(&self, out: &mut Encoder) {
        self.dc_claim().encode(out);
        match self {
            deleg_claim4::CLAIM_FH => {}
            deleg_claim4::CLAIM_DELEG_PREV_FH => {}
            deleg_claim4::CLAIM_PREVIOUS(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match open_claim_type4::decode(input)? {
            open_claim_type4::CLAIM_FH => deleg_claim4::CLAIM_FH,
            open_claim_type4::CLAIM_DELEG_PREV_FH => deleg_claim4::CLAIM_DELEG_PREV_FH,
            open_claim_type4::CLAIM_PREVIOUS => {
                deleg_claim4::CLAIM_PREVIOUS(open_delegation_type4::decode(input)?)
            }
            other => {
                return Err(DecodeError::Arm {
                    of: "deleg_claim4",
                    value: other as i32,
                });
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WANT_DELEGATION4args {
    pub wda_want: u32,
    pub wda_claim: deleg_claim4,
}

impl Xdr for WANT_DELEGATION4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.wda_want);
        self.wda_claim.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WANT_DELEGATION4args {
            wda_want: input.u32()?,
            wda_claim: deleg_claim4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WANT_DELEGATION4res {
    NFS4_OK(open_delegation4),
    /// Any other.
    default(nfsstat4),
}

impl WANT_DELEGATION4res {
    /// Which of them it is.
    pub fn wdr_status(&self) -> nfsstat4 {
        match self {
            WANT_DELEGATION4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            WANT_DELEGATION4res::default(other) => *other,
        }
    }
}

impl Xdr for WANT_DELEGATION4res {
    fn encode(&self, out: &mut Encoder) {
        self.wdr_status().encode(out);
        match self {
            WANT_DELEGATION4res::NFS4_OK(it) => {
                it.encode(out);
            }
            WANT_DELEGATION4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => WANT_DELEGATION4res::NFS4_OK(open_delegation4::decode(input)?),
            other => WANT_DELEGATION4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DESTROY_CLIENTID4args {
    pub dca_clientid: clientid4,
}

impl Xdr for DESTROY_CLIENTID4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.dca_clientid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DESTROY_CLIENTID4args {
            dca_clientid: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DESTROY_CLIENTID4res {
    pub dcr_status: nfsstat4,
}

impl Xdr for DESTROY_CLIENTID4res {
    fn encode(&self, out: &mut Encoder) {
        self.dcr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DESTROY_CLIENTID4res {
            dcr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RECLAIM_COMPLETE4args {
    pub rca_one_fs: bool,
}

impl Xdr for RECLAIM_COMPLETE4args {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.rca_one_fs);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RECLAIM_COMPLETE4args {
            rca_one_fs: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RECLAIM_COMPLETE4res {
    pub rcr_status: nfsstat4,
}

impl Xdr for RECLAIM_COMPLETE4res {
    fn encode(&self, out: &mut Encoder) {
        self.rcr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(RECLAIM_COMPLETE4res {
            rcr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COPY4args {
    pub ca_src_stateid: stateid4,
    pub ca_dst_stateid: stateid4,
    pub ca_src_offset: offset4,
    pub ca_dst_offset: offset4,
    pub ca_count: length4,
    pub ca_consecutive: bool,
    pub ca_synchronous: bool,
    pub ca_source_server: Vec<netloc4>,
}

impl Xdr for COPY4args {
    fn encode(&self, out: &mut Encoder) {
        self.ca_src_stateid.encode(out);
        self.ca_dst_stateid.encode(out);
        out.u64(self.ca_src_offset);
        out.u64(self.ca_dst_offset);
        out.u64(self.ca_count);
        out.bool(self.ca_consecutive);
        out.bool(self.ca_synchronous);
        out.vec(u32::MAX, &self.ca_source_server, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COPY4args {
            ca_src_stateid: stateid4::decode(input)?,
            ca_dst_stateid: stateid4::decode(input)?,
            ca_src_offset: input.u64()?,
            ca_dst_offset: input.u64()?,
            ca_count: input.u64()?,
            ca_consecutive: input.bool()?,
            ca_synchronous: input.bool()?,
            ca_source_server: input.vec(u32::MAX, 8, netloc4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct copy_requirements4 {
    pub cr_consecutive: bool,
    pub cr_synchronous: bool,
}

impl Xdr for copy_requirements4 {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.cr_consecutive);
        out.bool(self.cr_synchronous);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(copy_requirements4 {
            cr_consecutive: input.bool()?,
            cr_synchronous: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COPY4resok {
    pub cr_response: write_response4,
    pub cr_requirements: copy_requirements4,
}

impl Xdr for COPY4resok {
    fn encode(&self, out: &mut Encoder) {
        self.cr_response.encode(out);
        self.cr_requirements.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COPY4resok {
            cr_response: write_response4::decode(input)?,
            cr_requirements: copy_requirements4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum COPY4res {
    NFS4_OK(COPY4resok),
    NFS4ERR_OFFLOAD_NO_REQS(copy_requirements4),
    /// Any other.
    default(nfsstat4),
}

impl COPY4res {
    /// Which of them it is.
    pub fn cr_status(&self) -> nfsstat4 {
        match self {
            COPY4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            COPY4res::NFS4ERR_OFFLOAD_NO_REQS(_) => nfsstat4::NFS4ERR_OFFLOAD_NO_REQS,
            COPY4res::default(other) => *other,
        }
    }
}

impl Xdr for COPY4res {
    fn encode(&self, out: &mut Encoder) {
        self.cr_status().encode(out);
        match self {
            COPY4res::NFS4_OK(it) => {
                it.encode(out);
            }
            COPY4res::NFS4ERR_OFFLOAD_NO_REQS(it) => {
                it.encode(out);
            }
            COPY4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => COPY4res::NFS4_OK(COPY4resok::decode(input)?),
            nfsstat4::NFS4ERR_OFFLOAD_NO_REQS => {
                COPY4res::NFS4ERR_OFFLOAD_NO_REQS(copy_requirements4::decode(input)?)
            }
            other => COPY4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COPY_NOTIFY4args {
    pub cna_src_stateid: stateid4,
    pub cna_destination_server: netloc4,
}

impl Xdr for COPY_NOTIFY4args {
    fn encode(&self, out: &mut Encoder) {
        self.cna_src_stateid.encode(out);
        self.cna_destination_server.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COPY_NOTIFY4args {
            cna_src_stateid: stateid4::decode(input)?,
            cna_destination_server: netloc4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COPY_NOTIFY4resok {
    pub cnr_lease_time: nfstime4,
    pub cnr_stateid: stateid4,
    pub cnr_source_server: Vec<netloc4>,
}

impl Xdr for COPY_NOTIFY4resok {
    fn encode(&self, out: &mut Encoder) {
        self.cnr_lease_time.encode(out);
        self.cnr_stateid.encode(out);
        out.vec(u32::MAX, &self.cnr_source_server, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COPY_NOTIFY4resok {
            cnr_lease_time: nfstime4::decode(input)?,
            cnr_stateid: stateid4::decode(input)?,
            cnr_source_server: input.vec(u32::MAX, 8, netloc4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum COPY_NOTIFY4res {
    NFS4_OK(COPY_NOTIFY4resok),
    /// Any other.
    default(nfsstat4),
}

impl COPY_NOTIFY4res {
    /// Which of them it is.
    pub fn cnr_status(&self) -> nfsstat4 {
        match self {
            COPY_NOTIFY4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            COPY_NOTIFY4res::default(other) => *other,
        }
    }
}

impl Xdr for COPY_NOTIFY4res {
    fn encode(&self, out: &mut Encoder) {
        self.cnr_status().encode(out);
        match self {
            COPY_NOTIFY4res::NFS4_OK(it) => {
                it.encode(out);
            }
            COPY_NOTIFY4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => COPY_NOTIFY4res::NFS4_OK(COPY_NOTIFY4resok::decode(input)?),
            other => COPY_NOTIFY4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OFFLOAD_CANCEL4args {
    pub oca_stateid: stateid4,
}

impl Xdr for OFFLOAD_CANCEL4args {
    fn encode(&self, out: &mut Encoder) {
        self.oca_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OFFLOAD_CANCEL4args {
            oca_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OFFLOAD_CANCEL4res {
    pub ocr_status: nfsstat4,
}

impl Xdr for OFFLOAD_CANCEL4res {
    fn encode(&self, out: &mut Encoder) {
        self.ocr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OFFLOAD_CANCEL4res {
            ocr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OFFLOAD_STATUS4args {
    pub osa_stateid: stateid4,
}

impl Xdr for OFFLOAD_STATUS4args {
    fn encode(&self, out: &mut Encoder) {
        self.osa_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OFFLOAD_STATUS4args {
            osa_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OFFLOAD_STATUS4resok {
    pub osr_count: length4,
    /// At most 1.
    pub osr_complete: Vec<nfsstat4>,
}

impl Xdr for OFFLOAD_STATUS4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.osr_count);
        out.vec(1, &self.osr_complete, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(OFFLOAD_STATUS4resok {
            osr_count: input.u64()?,
            osr_complete: input.vec(1, 4, nfsstat4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OFFLOAD_STATUS4res {
    NFS4_OK(OFFLOAD_STATUS4resok),
    /// Any other.
    default(nfsstat4),
}

impl OFFLOAD_STATUS4res {
    /// Which of them it is.
    pub fn osr_status(&self) -> nfsstat4 {
        match self {
            OFFLOAD_STATUS4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            OFFLOAD_STATUS4res::default(other) => *other,
        }
    }
}

impl Xdr for OFFLOAD_STATUS4res {
    fn encode(&self, out: &mut Encoder) {
        self.osr_status().encode(out);
        match self {
            OFFLOAD_STATUS4res::NFS4_OK(it) => {
                it.encode(out);
            }
            OFFLOAD_STATUS4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => OFFLOAD_STATUS4res::NFS4_OK(OFFLOAD_STATUS4resok::decode(input)?),
            other => OFFLOAD_STATUS4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ALLOCATE4args {
    pub aa_stateid: stateid4,
    pub aa_offset: offset4,
    pub aa_length: length4,
}

impl Xdr for ALLOCATE4args {
    fn encode(&self, out: &mut Encoder) {
        self.aa_stateid.encode(out);
        out.u64(self.aa_offset);
        out.u64(self.aa_length);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ALLOCATE4args {
            aa_stateid: stateid4::decode(input)?,
            aa_offset: input.u64()?,
            aa_length: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ALLOCATE4res {
    pub ar_status: nfsstat4,
}

impl Xdr for ALLOCATE4res {
    fn encode(&self, out: &mut Encoder) {
        self.ar_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(ALLOCATE4res {
            ar_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DEALLOCATE4args {
    pub da_stateid: stateid4,
    pub da_offset: offset4,
    pub da_length: length4,
}

impl Xdr for DEALLOCATE4args {
    fn encode(&self, out: &mut Encoder) {
        self.da_stateid.encode(out);
        out.u64(self.da_offset);
        out.u64(self.da_length);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DEALLOCATE4args {
            da_stateid: stateid4::decode(input)?,
            da_offset: input.u64()?,
            da_length: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DEALLOCATE4res {
    pub dr_status: nfsstat4,
}

impl Xdr for DEALLOCATE4res {
    fn encode(&self, out: &mut Encoder) {
        self.dr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(DEALLOCATE4res {
            dr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum IO_ADVISE_type4 {
    IO_ADVISE4_NORMAL = 0,
    IO_ADVISE4_SEQUENTIAL = 1,
    IO_ADVISE4_SEQUENTIAL_BACKWARDS = 2,
    IO_ADVISE4_RANDOM = 3,
    IO_ADVISE4_WILLNEED = 4,
    IO_ADVISE4_WILLNEED_OPPORTUNISTIC = 5,
    IO_ADVISE4_DONTNEED = 6,
    IO_ADVISE4_NOREUSE = 7,
    IO_ADVISE4_READ = 8,
    IO_ADVISE4_WRITE = 9,
    IO_ADVISE4_INIT_PROXIMITY = 10,
}

impl IO_ADVISE_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<IO_ADVISE_type4> {
        Some(match value {
            0 => IO_ADVISE_type4::IO_ADVISE4_NORMAL,
            1 => IO_ADVISE_type4::IO_ADVISE4_SEQUENTIAL,
            2 => IO_ADVISE_type4::IO_ADVISE4_SEQUENTIAL_BACKWARDS,
            3 => IO_ADVISE_type4::IO_ADVISE4_RANDOM,
            4 => IO_ADVISE_type4::IO_ADVISE4_WILLNEED,
            5 => IO_ADVISE_type4::IO_ADVISE4_WILLNEED_OPPORTUNISTIC,
            6 => IO_ADVISE_type4::IO_ADVISE4_DONTNEED,
            7 => IO_ADVISE_type4::IO_ADVISE4_NOREUSE,
            8 => IO_ADVISE_type4::IO_ADVISE4_READ,
            9 => IO_ADVISE_type4::IO_ADVISE4_WRITE,
            10 => IO_ADVISE_type4::IO_ADVISE4_INIT_PROXIMITY,
            _ => return None,
        })
    }
}

impl Xdr for IO_ADVISE_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        IO_ADVISE_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "IO_ADVISE_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IO_ADVISE4args {
    pub iaa_stateid: stateid4,
    pub iaa_offset: offset4,
    pub iaa_count: length4,
    pub iaa_hints: bitmap4,
}

impl Xdr for IO_ADVISE4args {
    fn encode(&self, out: &mut Encoder) {
        self.iaa_stateid.encode(out);
        out.u64(self.iaa_offset);
        out.u64(self.iaa_count);
        out.vec(u32::MAX, &self.iaa_hints, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(IO_ADVISE4args {
            iaa_stateid: stateid4::decode(input)?,
            iaa_offset: input.u64()?,
            iaa_count: input.u64()?,
            iaa_hints: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IO_ADVISE4resok {
    pub ior_hints: bitmap4,
}

impl Xdr for IO_ADVISE4resok {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.ior_hints, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(IO_ADVISE4resok {
            ior_hints: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IO_ADVISE4res {
    NFS4_OK(IO_ADVISE4resok),
    /// Any other.
    default(nfsstat4),
}

impl IO_ADVISE4res {
    /// Which of them it is.
    pub fn ior_status(&self) -> nfsstat4 {
        match self {
            IO_ADVISE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            IO_ADVISE4res::default(other) => *other,
        }
    }
}

impl Xdr for IO_ADVISE4res {
    fn encode(&self, out: &mut Encoder) {
        self.ior_status().encode(out);
        match self {
            IO_ADVISE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            IO_ADVISE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => IO_ADVISE4res::NFS4_OK(IO_ADVISE4resok::decode(input)?),
            other => IO_ADVISE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct device_error4 {
    pub de_deviceid: deviceid4,
    pub de_status: nfsstat4,
    pub de_opnum: nfs_opnum4,
}

impl Xdr for device_error4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.de_deviceid);
        self.de_status.encode(out);
        self.de_opnum.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(device_error4 {
            de_deviceid: input.fixed::<16>()?,
            de_status: nfsstat4::decode(input)?,
            de_opnum: nfs_opnum4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTERROR4args {
    pub lea_offset: offset4,
    pub lea_length: length4,
    pub lea_stateid: stateid4,
    pub lea_errors: Vec<device_error4>,
}

impl Xdr for LAYOUTERROR4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.lea_offset);
        out.u64(self.lea_length);
        self.lea_stateid.encode(out);
        out.vec(u32::MAX, &self.lea_errors, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTERROR4args {
            lea_offset: input.u64()?,
            lea_length: input.u64()?,
            lea_stateid: stateid4::decode(input)?,
            lea_errors: input.vec(u32::MAX, 24, device_error4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTERROR4res {
    pub ler_status: nfsstat4,
}

impl Xdr for LAYOUTERROR4res {
    fn encode(&self, out: &mut Encoder) {
        self.ler_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTERROR4res {
            ler_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct io_info4 {
    pub ii_count: u64,
    pub ii_bytes: u64,
}

impl Xdr for io_info4 {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.ii_count);
        out.u64(self.ii_bytes);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(io_info4 {
            ii_count: input.u64()?,
            ii_bytes: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTSTATS4args {
    pub lsa_offset: offset4,
    pub lsa_length: length4,
    pub lsa_stateid: stateid4,
    pub lsa_read: io_info4,
    pub lsa_write: io_info4,
    pub lsa_deviceid: deviceid4,
    pub lsa_layoutupdate: layoutupdate4,
}

impl Xdr for LAYOUTSTATS4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.lsa_offset);
        out.u64(self.lsa_length);
        self.lsa_stateid.encode(out);
        self.lsa_read.encode(out);
        self.lsa_write.encode(out);
        out.fixed(&self.lsa_deviceid);
        self.lsa_layoutupdate.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTSTATS4args {
            lsa_offset: input.u64()?,
            lsa_length: input.u64()?,
            lsa_stateid: stateid4::decode(input)?,
            lsa_read: io_info4::decode(input)?,
            lsa_write: io_info4::decode(input)?,
            lsa_deviceid: input.fixed::<16>()?,
            lsa_layoutupdate: layoutupdate4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LAYOUTSTATS4res {
    pub lsr_status: nfsstat4,
}

impl Xdr for LAYOUTSTATS4res {
    fn encode(&self, out: &mut Encoder) {
        self.lsr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LAYOUTSTATS4res {
            lsr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct READ_PLUS4args {
    pub rpa_stateid: stateid4,
    pub rpa_offset: offset4,
    pub rpa_count: count4,
}

impl Xdr for READ_PLUS4args {
    fn encode(&self, out: &mut Encoder) {
        self.rpa_stateid.encode(out);
        out.u64(self.rpa_offset);
        out.u32(self.rpa_count);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(READ_PLUS4args {
            rpa_stateid: stateid4::decode(input)?,
            rpa_offset: input.u64()?,
            rpa_count: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum read_plus_content {
    NFS4_CONTENT_DATA(data4),
    NFS4_CONTENT_HOLE(data_info4),
}

impl read_plus_content {
    /// Which of them it is.
    pub fn rpc_content(&self) -> data_content4 {
        match self {
            read_plus_content::NFS4_CONTENT_DATA(_) => data_content4::NFS4_CONTENT_DATA,
            read_plus_content::NFS4_CONTENT_HOLE(_) => data_content4::NFS4_CONTENT_HOLE,
        }
    }
}

impl Xdr for read_plus_content {
    fn encode(&self, out: &mut Encoder) {
        self.rpc_content().encode(out);
        match self {
            read_plus_content::NFS4_CONTENT_DATA(it) => {
                it.encode(out);
            }
            read_plus_content::NFS4_CONTENT_HOLE(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match data_content4::decode(input)? {
            data_content4::NFS4_CONTENT_DATA => {
                read_plus_content::NFS4_CONTENT_DATA(data4::decode(input)?)
            }
            data_content4::NFS4_CONTENT_HOLE => {
                read_plus_content::NFS4_CONTENT_HOLE(data_info4::decode(input)?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct read_plus_res4 {
    pub rpr_eof: bool,
    pub rpr_contents: Vec<read_plus_content>,
}

impl Xdr for read_plus_res4 {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.rpr_eof);
        out.vec(u32::MAX, &self.rpr_contents, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(read_plus_res4 {
            rpr_eof: input.bool()?,
            rpr_contents: input.vec(u32::MAX, 4, read_plus_content::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum READ_PLUS4res {
    NFS4_OK(read_plus_res4),
    /// Any other.
    default(nfsstat4),
}

impl READ_PLUS4res {
    /// Which of them it is.
    pub fn rp_status(&self) -> nfsstat4 {
        match self {
            READ_PLUS4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            READ_PLUS4res::default(other) => *other,
        }
    }
}

impl Xdr for READ_PLUS4res {
    fn encode(&self, out: &mut Encoder) {
        self.rp_status().encode(out);
        match self {
            READ_PLUS4res::NFS4_OK(it) => {
                it.encode(out);
            }
            READ_PLUS4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => READ_PLUS4res::NFS4_OK(read_plus_res4::decode(input)?),
            other => READ_PLUS4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SEEK4args {
    pub sa_stateid: stateid4,
    pub sa_offset: offset4,
    pub sa_what: data_content4,
}

impl Xdr for SEEK4args {
    fn encode(&self, out: &mut Encoder) {
        self.sa_stateid.encode(out);
        out.u64(self.sa_offset);
        self.sa_what.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SEEK4args {
            sa_stateid: stateid4::decode(input)?,
            sa_offset: input.u64()?,
            sa_what: data_content4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct seek_res4 {
    pub sr_eof: bool,
    pub sr_offset: offset4,
}

impl Xdr for seek_res4 {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.sr_eof);
        out.u64(self.sr_offset);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(seek_res4 {
            sr_eof: input.bool()?,
            sr_offset: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SEEK4res {
    NFS4_OK(seek_res4),
    /// Any other.
    default(nfsstat4),
}

impl SEEK4res {
    /// Which of them it is.
    pub fn sa_status(&self) -> nfsstat4 {
        match self {
            SEEK4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            SEEK4res::default(other) => *other,
        }
    }
}

impl Xdr for SEEK4res {
    fn encode(&self, out: &mut Encoder) {
        self.sa_status().encode(out);
        match self {
            SEEK4res::NFS4_OK(it) => {
                it.encode(out);
            }
            SEEK4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => SEEK4res::NFS4_OK(seek_res4::decode(input)?),
            other => SEEK4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WRITE_SAME4args {
    pub wsa_stateid: stateid4,
    pub wsa_stable: stable_how4,
    pub wsa_adb: app_data_block4,
}

impl Xdr for WRITE_SAME4args {
    fn encode(&self, out: &mut Encoder) {
        self.wsa_stateid.encode(out);
        self.wsa_stable.encode(out);
        self.wsa_adb.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(WRITE_SAME4args {
            wsa_stateid: stateid4::decode(input)?,
            wsa_stable: stable_how4::decode(input)?,
            wsa_adb: app_data_block4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WRITE_SAME4res {
    NFS4_OK(write_response4),
    /// Any other.
    default(nfsstat4),
}

impl WRITE_SAME4res {
    /// Which of them it is.
    pub fn wsr_status(&self) -> nfsstat4 {
        match self {
            WRITE_SAME4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            WRITE_SAME4res::default(other) => *other,
        }
    }
}

impl Xdr for WRITE_SAME4res {
    fn encode(&self, out: &mut Encoder) {
        self.wsr_status().encode(out);
        match self {
            WRITE_SAME4res::NFS4_OK(it) => {
                it.encode(out);
            }
            WRITE_SAME4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => WRITE_SAME4res::NFS4_OK(write_response4::decode(input)?),
            other => WRITE_SAME4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum nfs_argop4 {
    OP_ACCESS(ACCESS4args),
    OP_CLOSE(CLOSE4args),
    OP_COMMIT(COMMIT4args),
    OP_CREATE(CREATE4args),
    OP_DELEGPURGE(DELEGPURGE4args),
    OP_DELEGRETURN(DELEGRETURN4args),
    OP_GETATTR(GETATTR4args),
    OP_GETFH,
    OP_LINK(LINK4args),
    OP_LOCK(LOCK4args),
    OP_LOCKT(LOCKT4args),
    OP_LOCKU(LOCKU4args),
    OP_LOOKUP(LOOKUP4args),
    OP_LOOKUPP,
    OP_NVERIFY(NVERIFY4args),
    OP_OPEN(OPEN4args),
    OP_OPENATTR(OPENATTR4args),
    OP_OPEN_CONFIRM(OPEN_CONFIRM4args),
    OP_OPEN_DOWNGRADE(OPEN_DOWNGRADE4args),
    OP_PUTFH(PUTFH4args),
    OP_PUTPUBFH,
    OP_PUTROOTFH,
    OP_READ(READ4args),
    OP_READDIR(READDIR4args),
    OP_READLINK,
    OP_REMOVE(REMOVE4args),
    OP_RENAME(RENAME4args),
    OP_RENEW(RENEW4args),
    OP_RESTOREFH,
    OP_SAVEFH,
    OP_SECINFO(SECINFO4args),
    OP_SETATTR(SETATTR4args),
    OP_SETCLIENTID(SETCLIENTID4args),
    OP_SETCLIENTID_CONFIRM(SETCLIENTID_CONFIRM4args),
    OP_VERIFY(VERIFY4args),
    OP_WRITE(WRITE4args),
    OP_RELEASE_LOCKOWNER(RELEASE_LOCKOWNER4args),
    OP_BACKCHANNEL_CTL(BACKCHANNEL_CTL4args),
    OP_BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args),
    OP_EXCHANGE_ID(EXCHANGE_ID4args),
    OP_CREATE_SESSION(CREATE_SESSION4args),
    OP_DESTROY_SESSION(DESTROY_SESSION4args),
    OP_FREE_STATEID(FREE_STATEID4args),
    OP_GET_DIR_DELEGATION(GET_DIR_DELEGATION4args),
    OP_GETDEVICEINFO(GETDEVICEINFO4args),
    OP_GETDEVICELIST(GETDEVICELIST4args),
    OP_LAYOUTCOMMIT(LAYOUTCOMMIT4args),
    OP_LAYOUTGET(LAYOUTGET4args),
    OP_LAYOUTRETURN(LAYOUTRETURN4args),
    OP_SECINFO_NO_NAME(SECINFO_NO_NAME4args),
    OP_SEQUENCE(SEQUENCE4args),
    OP_SET_SSV(SET_SSV4args),
    OP_TEST_STATEID(TEST_STATEID4args),
    OP_WANT_DELEGATION(WANT_DELEGATION4args),
    OP_DESTROY_CLIENTID(DESTROY_CLIENTID4args),
    OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4args),
    OP_ALLOCATE(ALLOCATE4args),
    OP_COPY(COPY4args),
    OP_COPY_NOTIFY(COPY_NOTIFY4args),
    OP_DEALLOCATE(DEALLOCATE4args),
    OP_IO_ADVISE(IO_ADVISE4args),
    OP_LAYOUTERROR(LAYOUTERROR4args),
    OP_LAYOUTSTATS(LAYOUTSTATS4args),
    OP_OFFLOAD_CANCEL(OFFLOAD_CANCEL4args),
    OP_OFFLOAD_STATUS(OFFLOAD_STATUS4args),
    OP_READ_PLUS(READ_PLUS4args),
    OP_SEEK(SEEK4args),
    OP_WRITE_SAME(WRITE_SAME4args),
    OP_CLONE(CLONE4args),
    OP_ILLEGAL,
    OP_GETXATTR(GETXATTR4args),
    OP_SETXATTR(SETXATTR4args),
    OP_LISTXATTRS(LISTXATTRS4args),
    OP_REMOVEXATTR(REMOVEXATTR4args),
}

impl nfs_argop4 {
    /// Which of them it is.
    pub fn argop(&self) -> nfs_opnum4 {
        match self {
            nfs_argop4::OP_ACCESS(_) => nfs_opnum4::OP_ACCESS,
            nfs_argop4::OP_CLOSE(_) => nfs_opnum4::OP_CLOSE,
            nfs_argop4::OP_COMMIT(_) => nfs_opnum4::OP_COMMIT,
            nfs_argop4::OP_CREATE(_) => nfs_opnum4::OP_CREATE,
            nfs_argop4::OP_DELEGPURGE(_) => nfs_opnum4::OP_DELEGPURGE,
            nfs_argop4::OP_DELEGRETURN(_) => nfs_opnum4::OP_DELEGRETURN,
            nfs_argop4::OP_GETATTR(_) => nfs_opnum4::OP_GETATTR,
            nfs_argop4::OP_GETFH => nfs_opnum4::OP_GETFH,
            nfs_argop4::OP_LINK(_) => nfs_opnum4::OP_LINK,
            nfs_argop4::OP_LOCK(_) => nfs_opnum4::OP_LOCK,
            nfs_argop4::OP_LOCKT(_) => nfs_opnum4::OP_LOCKT,
            nfs_argop4::OP_LOCKU(_) => nfs_opnum4::OP_LOCKU,
            nfs_argop4::OP_LOOKUP(_) => nfs_opnum4::OP_LOOKUP,
            nfs_argop4::OP_LOOKUPP => nfs_opnum4::OP_LOOKUPP,
            nfs_argop4::OP_NVERIFY(_) => nfs_opnum4::OP_NVERIFY,
            nfs_argop4::OP_OPEN(_) => nfs_opnum4::OP_OPEN,
            nfs_argop4::OP_OPENATTR(_) => nfs_opnum4::OP_OPENATTR,
            nfs_argop4::OP_OPEN_CONFIRM(_) => nfs_opnum4::OP_OPEN_CONFIRM,
            nfs_argop4::OP_OPEN_DOWNGRADE(_) => nfs_opnum4::OP_OPEN_DOWNGRADE,
            nfs_argop4::OP_PUTFH(_) => nfs_opnum4::OP_PUTFH,
            nfs_argop4::OP_PUTPUBFH => nfs_opnum4::OP_PUTPUBFH,
            nfs_argop4::OP_PUTROOTFH => nfs_opnum4::OP_PUTROOTFH,
            nfs_argop4::OP_READ(_) => nfs_opnum4::OP_READ,
            nfs_argop4::OP_READDIR(_) => nfs_opnum4::OP_READDIR,
            nfs_argop4::OP_READLINK => nfs_opnum4::OP_READLINK,
            nfs_argop4::OP_REMOVE(_) => nfs_opnum4::OP_REMOVE,
            nfs_argop4::OP_RENAME(_) => nfs_opnum4::OP_RENAME,
            nfs_argop4::OP_RENEW(_) => nfs_opnum4::OP_RENEW,
            nfs_argop4::OP_RESTOREFH => nfs_opnum4::OP_RESTOREFH,
            nfs_argop4::OP_SAVEFH => nfs_opnum4::OP_SAVEFH,
            nfs_argop4::OP_SECINFO(_) => nfs_opnum4::OP_SECINFO,
            nfs_argop4::OP_SETATTR(_) => nfs_opnum4::OP_SETATTR,
            nfs_argop4::OP_SETCLIENTID(_) => nfs_opnum4::OP_SETCLIENTID,
            nfs_argop4::OP_SETCLIENTID_CONFIRM(_) => nfs_opnum4::OP_SETCLIENTID_CONFIRM,
            nfs_argop4::OP_VERIFY(_) => nfs_opnum4::OP_VERIFY,
            nfs_argop4::OP_WRITE(_) => nfs_opnum4::OP_WRITE,
            nfs_argop4::OP_RELEASE_LOCKOWNER(_) => nfs_opnum4::OP_RELEASE_LOCKOWNER,
            nfs_argop4::OP_BACKCHANNEL_CTL(_) => nfs_opnum4::OP_BACKCHANNEL_CTL,
            nfs_argop4::OP_BIND_CONN_TO_SESSION(_) => nfs_opnum4::OP_BIND_CONN_TO_SESSION,
            nfs_argop4::OP_EXCHANGE_ID(_) => nfs_opnum4::OP_EXCHANGE_ID,
            nfs_argop4::OP_CREATE_SESSION(_) => nfs_opnum4::OP_CREATE_SESSION,
            nfs_argop4::OP_DESTROY_SESSION(_) => nfs_opnum4::OP_DESTROY_SESSION,
            nfs_argop4::OP_FREE_STATEID(_) => nfs_opnum4::OP_FREE_STATEID,
            nfs_argop4::OP_GET_DIR_DELEGATION(_) => nfs_opnum4::OP_GET_DIR_DELEGATION,
            nfs_argop4::OP_GETDEVICEINFO(_) => nfs_opnum4::OP_GETDEVICEINFO,
            nfs_argop4::OP_GETDEVICELIST(_) => nfs_opnum4::OP_GETDEVICELIST,
            nfs_argop4::OP_LAYOUTCOMMIT(_) => nfs_opnum4::OP_LAYOUTCOMMIT,
            nfs_argop4::OP_LAYOUTGET(_) => nfs_opnum4::OP_LAYOUTGET,
            nfs_argop4::OP_LAYOUTRETURN(_) => nfs_opnum4::OP_LAYOUTRETURN,
            nfs_argop4::OP_SECINFO_NO_NAME(_) => nfs_opnum4::OP_SECINFO_NO_NAME,
            nfs_argop4::OP_SEQUENCE(_) => nfs_opnum4::OP_SEQUENCE,
            nfs_argop4::OP_SET_SSV(_) => nfs_opnum4::OP_SET_SSV,
            nfs_argop4::OP_TEST_STATEID(_) => nfs_opnum4::OP_TEST_STATEID,
            nfs_argop4::OP_WANT_DELEGATION(_) => nfs_opnum4::OP_WANT_DELEGATION,
            nfs_argop4::OP_DESTROY_CLIENTID(_) => nfs_opnum4::OP_DESTROY_CLIENTID,
            nfs_argop4::OP_RECLAIM_COMPLETE(_) => nfs_opnum4::OP_RECLAIM_COMPLETE,
            nfs_argop4::OP_ALLOCATE(_) => nfs_opnum4::OP_ALLOCATE,
            nfs_argop4::OP_COPY(_) => nfs_opnum4::OP_COPY,
            nfs_argop4::OP_COPY_NOTIFY(_) => nfs_opnum4::OP_COPY_NOTIFY,
            nfs_argop4::OP_DEALLOCATE(_) => nfs_opnum4::OP_DEALLOCATE,
            nfs_argop4::OP_IO_ADVISE(_) => nfs_opnum4::OP_IO_ADVISE,
            nfs_argop4::OP_LAYOUTERROR(_) => nfs_opnum4::OP_LAYOUTERROR,
            nfs_argop4::OP_LAYOUTSTATS(_) => nfs_opnum4::OP_LAYOUTSTATS,
            nfs_argop4::OP_OFFLOAD_CANCEL(_) => nfs_opnum4::OP_OFFLOAD_CANCEL,
            nfs_argop4::OP_OFFLOAD_STATUS(_) => nfs_opnum4::OP_OFFLOAD_STATUS,
            nfs_argop4::OP_READ_PLUS(_) => nfs_opnum4::OP_READ_PLUS,
            nfs_argop4::OP_SEEK(_) => nfs_opnum4::OP_SEEK,
            nfs_argop4::OP_WRITE_SAME(_) => nfs_opnum4::OP_WRITE_SAME,
            nfs_argop4::OP_CLONE(_) => nfs_opnum4::OP_CLONE,
            nfs_argop4::OP_ILLEGAL => nfs_opnum4::OP_ILLEGAL,
            nfs_argop4::OP_GETXATTR(_) => nfs_opnum4::OP_GETXATTR,
            nfs_argop4::OP_SETXATTR(_) => nfs_opnum4::OP_SETXATTR,
            nfs_argop4::OP_LISTXATTRS(_) => nfs_opnum4::OP_LISTXATTRS,
            nfs_argop4::OP_REMOVEXATTR(_) => nfs_opnum4::OP_REMOVEXATTR,
        }
    }
}

impl Xdr for nfs_argop4 {
    fn encode(&self, out: &mut Encoder) {
        self.argop().encode(out);
        match self {
            nfs_argop4::OP_ACCESS(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_CLOSE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_COMMIT(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_CREATE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_DELEGPURGE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_DELEGRETURN(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_GETATTR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_GETFH => {}
            nfs_argop4::OP_LINK(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LOCK(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LOCKT(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LOCKU(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LOOKUP(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LOOKUPP => {}
            nfs_argop4::OP_NVERIFY(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_OPEN(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_OPENATTR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_OPEN_CONFIRM(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_OPEN_DOWNGRADE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_PUTFH(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_PUTPUBFH => {}
            nfs_argop4::OP_PUTROOTFH => {}
            nfs_argop4::OP_READ(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_READDIR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_READLINK => {}
            nfs_argop4::OP_REMOVE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_RENAME(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_RENEW(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_RESTOREFH => {}
            nfs_argop4::OP_SAVEFH => {}
            nfs_argop4::OP_SECINFO(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SETATTR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SETCLIENTID(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SETCLIENTID_CONFIRM(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_VERIFY(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_WRITE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_RELEASE_LOCKOWNER(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_BACKCHANNEL_CTL(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_BIND_CONN_TO_SESSION(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_EXCHANGE_ID(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_CREATE_SESSION(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_DESTROY_SESSION(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_FREE_STATEID(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_GET_DIR_DELEGATION(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_GETDEVICEINFO(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_GETDEVICELIST(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LAYOUTCOMMIT(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LAYOUTGET(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LAYOUTRETURN(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SECINFO_NO_NAME(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SEQUENCE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SET_SSV(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_TEST_STATEID(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_WANT_DELEGATION(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_DESTROY_CLIENTID(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_RECLAIM_COMPLETE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_ALLOCATE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_COPY(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_COPY_NOTIFY(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_DEALLOCATE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_IO_ADVISE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LAYOUTERROR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LAYOUTSTATS(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_OFFLOAD_CANCEL(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_OFFLOAD_STATUS(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_READ_PLUS(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SEEK(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_WRITE_SAME(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_CLONE(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_ILLEGAL => {}
            nfs_argop4::OP_GETXATTR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_SETXATTR(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_LISTXATTRS(it) => {
                it.encode(out);
            }
            nfs_argop4::OP_REMOVEXATTR(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfs_opnum4::decode(input)? {
            nfs_opnum4::OP_ACCESS => nfs_argop4::OP_ACCESS(ACCESS4args::decode(input)?),
            nfs_opnum4::OP_CLOSE => nfs_argop4::OP_CLOSE(CLOSE4args::decode(input)?),
            nfs_opnum4::OP_COMMIT => nfs_argop4::OP_COMMIT(COMMIT4args::decode(input)?),
            nfs_opnum4::OP_CREATE => nfs_argop4::OP_CREATE(CREATE4args::decode(input)?),
            nfs_opnum4::OP_DELEGPURGE => nfs_argop4::OP_DELEGPURGE(DELEGPURGE4args::decode(input)?),
            nfs_opnum4::OP_DELEGRETURN => {
                nfs_argop4::OP_DELEGRETURN(DELEGRETURN4args::decode(input)?)
            }
            nfs_opnum4::OP_GETATTR => nfs_argop4::OP_GETATTR(GETATTR4args::decode(input)?),
            nfs_opnum4::OP_GETFH => nfs_argop4::OP_GETFH,
            nfs_opnum4::OP_LINK => nfs_argop4::OP_LINK(LINK4args::decode(input)?),
            nfs_opnum4::OP_LOCK => nfs_argop4::OP_LOCK(LOCK4args::decode(input)?),
            nfs_opnum4::OP_LOCKT => nfs_argop4::OP_LOCKT(LOCKT4args::decode(input)?),
            nfs_opnum4::OP_LOCKU => nfs_argop4::OP_LOCKU(LOCKU4args::decode(input)?),
            nfs_opnum4::OP_LOOKUP => nfs_argop4::OP_LOOKUP(LOOKUP4args::decode(input)?),
            nfs_opnum4::OP_LOOKUPP => nfs_argop4::OP_LOOKUPP,
            nfs_opnum4::OP_NVERIFY => nfs_argop4::OP_NVERIFY(NVERIFY4args::decode(input)?),
            nfs_opnum4::OP_OPEN => nfs_argop4::OP_OPEN(OPEN4args::decode(input)?),
            nfs_opnum4::OP_OPENATTR => nfs_argop4::OP_OPENATTR(OPENATTR4args::decode(input)?),
            nfs_opnum4::OP_OPEN_CONFIRM => {
                nfs_argop4::OP_OPEN_CONFIRM(OPEN_CONFIRM4args::decode(input)?)
            }
            nfs_opnum4::OP_OPEN_DOWNGRADE => {
                nfs_argop4::OP_OPEN_DOWNGRADE(OPEN_DOWNGRADE4args::decode(input)?)
            }
            nfs_opnum4::OP_PUTFH => nfs_argop4::OP_PUTFH(PUTFH4args::decode(input)?),
            nfs_opnum4::OP_PUTPUBFH => nfs_argop4::OP_PUTPUBFH,
            nfs_opnum4::OP_PUTROOTFH => nfs_argop4::OP_PUTROOTFH,
            nfs_opnum4::OP_READ => nfs_argop4::OP_READ(READ4args::decode(input)?),
            nfs_opnum4::OP_READDIR => nfs_argop4::OP_READDIR(READDIR4args::decode(input)?),
            nfs_opnum4::OP_READLINK => nfs_argop4::OP_READLINK,
            nfs_opnum4::OP_REMOVE => nfs_argop4::OP_REMOVE(REMOVE4args::decode(input)?),
            nfs_opnum4::OP_RENAME => nfs_argop4::OP_RENAME(RENAME4args::decode(input)?),
            nfs_opnum4::OP_RENEW => nfs_argop4::OP_RENEW(RENEW4args::decode(input)?),
            nfs_opnum4::OP_RESTOREFH => nfs_argop4::OP_RESTOREFH,
            nfs_opnum4::OP_SAVEFH => nfs_argop4::OP_SAVEFH,
            nfs_opnum4::OP_SECINFO => nfs_argop4::OP_SECINFO(SECINFO4args::decode(input)?),
            nfs_opnum4::OP_SETATTR => nfs_argop4::OP_SETATTR(SETATTR4args::decode(input)?),
            nfs_opnum4::OP_SETCLIENTID => {
                nfs_argop4::OP_SETCLIENTID(SETCLIENTID4args::decode(input)?)
            }
            nfs_opnum4::OP_SETCLIENTID_CONFIRM => {
                nfs_argop4::OP_SETCLIENTID_CONFIRM(SETCLIENTID_CONFIRM4args::decode(input)?)
            }
            nfs_opnum4::OP_VERIFY => nfs_argop4::OP_VERIFY(VERIFY4args::decode(input)?),
            nfs_opnum4::OP_WRITE => nfs_argop4::OP_WRITE(WRITE4args::decode(input)?),
            nfs_opnum4::OP_RELEASE_LOCKOWNER => {
                nfs_argop4::OP_RELEASE_LOCKOWNER(RELEASE_LOCKOWNER4args::decode(input)?)
            }
            nfs_opnum4::OP_BACKCHANNEL_CTL => {
                nfs_argop4::OP_BACKCHANNEL_CTL(BACKCHANNEL_CTL4args::decode(input)?)
            }
            nfs_opnum4::OP_BIND_CONN_TO_SESSION => {
                nfs_argop4::OP_BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args::decode(input)?)
            }
            nfs_opnum4::OP_EXCHANGE_ID => {
                nfs_argop4::OP_EXCHANGE_ID(EXCHANGE_ID4args::decode(input)?)
            }
            nfs_opnum4::OP_CREATE_SESSION => {
                nfs_argop4::OP_CREATE_SESSION(CREATE_SESSION4args::decode(input)?)
            }
            nfs_opnum4::OP_DESTROY_SESSION => {
                nfs_argop4::OP_DESTROY_SESSION(DESTROY_SESSION4args::decode(input)?)
            }
            nfs_opnum4::OP_FREE_STATEID => {
                nfs_argop4::OP_FREE_STATEID(FREE_STATEID4args::decode(input)?)
            }
            nfs_opnum4::OP_GET_DIR_DELEGATION => {
                nfs_argop4::OP_GET_DIR_DELEGATION(GET_DIR_DELEGATION4args::decode(input)?)
            }
            nfs_opnum4::OP_GETDEVICEINFO => {
                nfs_argop4::OP_GETDEVICEINFO(GETDEVICEINFO4args::decode(input)?)
            }
            nfs_opnum4::OP_GETDEVICELIST => {
                nfs_argop4::OP_GETDEVICELIST(GETDEVICELIST4args::decode(input)?)
            }
            nfs_opnum4::OP_LAYOUTCOMMIT => {
                nfs_argop4::OP_LAYOUTCOMMIT(LAYOUTCOMMIT4args::decode(input)?)
            }
            nfs_opnum4::OP_LAYOUTGET => nfs_argop4::OP_LAYOUTGET(LAYOUTGET4args::decode(input)?),
            nfs_opnum4::OP_LAYOUTRETURN => {
                nfs_argop4::OP_LAYOUTRETURN(LAYOUTRETURN4args::decode(input)?)
            }
            nfs_opnum4::OP_SECINFO_NO_NAME => {
                nfs_argop4::OP_SECINFO_NO_NAME(secinfo_style4::decode(input)?)
            }
            nfs_opnum4::OP_SEQUENCE => nfs_argop4::OP_SEQUENCE(SEQUENCE4args::decode(input)?),
            nfs_opnum4::OP_SET_SSV => nfs_argop4::OP_SET_SSV(SET_SSV4args::decode(input)?),
            nfs_opnum4::OP_TEST_STATEID => {
                nfs_argop4::OP_TEST_STATEID(TEST_STATEID4args::decode(input)?)
            }
            nfs_opnum4::OP_WANT_DELEGATION => {
                nfs_argop4::OP_WANT_DELEGATION(WANT_DELEGATION4args::decode(input)?)
            }
            nfs_opnum4::OP_DESTROY_CLIENTID => {
                nfs_argop4::OP_DESTROY_CLIENTID(DESTROY_CLIENTID4args::decode(input)?)
            }
            nfs_opnum4::OP_RECLAIM_COMPLETE => {
                nfs_argop4::OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4args::decode(input)?)
            }
            nfs_opnum4::OP_ALLOCATE => nfs_argop4::OP_ALLOCATE(ALLOCATE4args::decode(input)?),
            nfs_opnum4::OP_COPY => nfs_argop4::OP_COPY(COPY4args::decode(input)?),
            nfs_opnum4::OP_COPY_NOTIFY => {
                nfs_argop4::OP_COPY_NOTIFY(COPY_NOTIFY4args::decode(input)?)
            }
            nfs_opnum4::OP_DEALLOCATE => nfs_argop4::OP_DEALLOCATE(DEALLOCATE4args::decode(input)?),
            nfs_opnum4::OP_IO_ADVISE => nfs_argop4::OP_IO_ADVISE(IO_ADVISE4args::decode(input)?),
            nfs_opnum4::OP_LAYOUTERROR => {
                nfs_argop4::OP_LAYOUTERROR(LAYOUTERROR4args::decode(input)?)
            }
            nfs_opnum4::OP_LAYOUTSTATS => {
                nfs_argop4::OP_LAYOUTSTATS(LAYOUTSTATS4args::decode(input)?)
            }
            nfs_opnum4::OP_OFFLOAD_CANCEL => {
                nfs_argop4::OP_OFFLOAD_CANCEL(OFFLOAD_CANCEL4args::decode(input)?)
            }
            nfs_opnum4::OP_OFFLOAD_STATUS => {
                nfs_argop4::OP_OFFLOAD_STATUS(OFFLOAD_STATUS4args::decode(input)?)
            }
            nfs_opnum4::OP_READ_PLUS => nfs_argop4::OP_READ_PLUS(READ_PLUS4args::decode(input)?),
            nfs_opnum4::OP_SEEK => nfs_argop4::OP_SEEK(SEEK4args::decode(input)?),
            nfs_opnum4::OP_WRITE_SAME => nfs_argop4::OP_WRITE_SAME(WRITE_SAME4args::decode(input)?),
            nfs_opnum4::OP_CLONE => nfs_argop4::OP_CLONE(CLONE4args::decode(input)?),
            nfs_opnum4::OP_ILLEGAL => nfs_argop4::OP_ILLEGAL,
            nfs_opnum4::OP_GETXATTR => nfs_argop4::OP_GETXATTR(GETXATTR4args::decode(input)?),
            nfs_opnum4::OP_SETXATTR => nfs_argop4::OP_SETXATTR(SETXATTR4args::decode(input)?),
            nfs_opnum4::OP_LISTXATTRS => nfs_argop4::OP_LISTXATTRS(LISTXATTRS4args::decode(input)?),
            nfs_opnum4::OP_REMOVEXATTR => {
                nfs_argop4::OP_REMOVEXATTR(REMOVEXATTR4args::decode(input)?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum nfs_resop4 {
    OP_ACCESS(ACCESS4res),
    OP_CLOSE(CLOSE4res),
    OP_COMMIT(COMMIT4res),
    OP_CREATE(CREATE4res),
    OP_DELEGPURGE(DELEGPURGE4res),
    OP_DELEGRETURN(DELEGRETURN4res),
    OP_GETATTR(GETATTR4res),
    OP_GETFH(GETFH4res),
    OP_LINK(LINK4res),
    OP_LOCK(LOCK4res),
    OP_LOCKT(LOCKT4res),
    OP_LOCKU(LOCKU4res),
    OP_LOOKUP(LOOKUP4res),
    OP_LOOKUPP(LOOKUPP4res),
    OP_NVERIFY(NVERIFY4res),
    OP_OPEN(OPEN4res),
    OP_OPENATTR(OPENATTR4res),
    OP_OPEN_CONFIRM(OPEN_CONFIRM4res),
    OP_OPEN_DOWNGRADE(OPEN_DOWNGRADE4res),
    OP_PUTFH(PUTFH4res),
    OP_PUTPUBFH(PUTPUBFH4res),
    OP_PUTROOTFH(PUTROOTFH4res),
    OP_READ(READ4res),
    OP_READDIR(READDIR4res),
    OP_READLINK(READLINK4res),
    OP_REMOVE(REMOVE4res),
    OP_RENAME(RENAME4res),
    OP_RENEW(RENEW4res),
    OP_RESTOREFH(RESTOREFH4res),
    OP_SAVEFH(SAVEFH4res),
    OP_SECINFO(SECINFO4res),
    OP_SETATTR(SETATTR4res),
    OP_SETCLIENTID(SETCLIENTID4res),
    OP_SETCLIENTID_CONFIRM(SETCLIENTID_CONFIRM4res),
    OP_VERIFY(VERIFY4res),
    OP_WRITE(WRITE4res),
    OP_RELEASE_LOCKOWNER(RELEASE_LOCKOWNER4res),
    OP_BACKCHANNEL_CTL(BACKCHANNEL_CTL4res),
    OP_BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4res),
    OP_EXCHANGE_ID(EXCHANGE_ID4res),
    OP_CREATE_SESSION(CREATE_SESSION4res),
    OP_DESTROY_SESSION(DESTROY_SESSION4res),
    OP_FREE_STATEID(FREE_STATEID4res),
    OP_GET_DIR_DELEGATION(GET_DIR_DELEGATION4res),
    OP_GETDEVICEINFO(GETDEVICEINFO4res),
    OP_GETDEVICELIST(GETDEVICELIST4res),
    OP_LAYOUTCOMMIT(LAYOUTCOMMIT4res),
    OP_LAYOUTGET(LAYOUTGET4res),
    OP_LAYOUTRETURN(LAYOUTRETURN4res),
    OP_SECINFO_NO_NAME(SECINFO_NO_NAME4res),
    OP_SEQUENCE(SEQUENCE4res),
    OP_SET_SSV(SET_SSV4res),
    OP_TEST_STATEID(TEST_STATEID4res),
    OP_WANT_DELEGATION(WANT_DELEGATION4res),
    OP_DESTROY_CLIENTID(DESTROY_CLIENTID4res),
    OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4res),
    OP_ALLOCATE(ALLOCATE4res),
    OP_COPY(COPY4res),
    OP_COPY_NOTIFY(COPY_NOTIFY4res),
    OP_DEALLOCATE(DEALLOCATE4res),
    OP_IO_ADVISE(IO_ADVISE4res),
    OP_LAYOUTERROR(LAYOUTERROR4res),
    OP_LAYOUTSTATS(LAYOUTSTATS4res),
    OP_OFFLOAD_CANCEL(OFFLOAD_CANCEL4res),
    OP_OFFLOAD_STATUS(OFFLOAD_STATUS4res),
    OP_READ_PLUS(READ_PLUS4res),
    OP_SEEK(SEEK4res),
    OP_WRITE_SAME(WRITE_SAME4res),
    OP_CLONE(CLONE4res),
    OP_ILLEGAL(ILLEGAL4res),
    OP_GETXATTR(GETXATTR4res),
    OP_SETXATTR(SETXATTR4res),
    OP_LISTXATTRS(LISTXATTRS4res),
    OP_REMOVEXATTR(REMOVEXATTR4res),
}

impl nfs_resop4 {
    /// Which of them it is.
    pub fn resop(&self) -> nfs_opnum4 {
        match self {
            nfs_resop4::OP_ACCESS(_) => nfs_opnum4::OP_ACCESS,
            nfs_resop4::OP_CLOSE(_) => nfs_opnum4::OP_CLOSE,
            nfs_resop4::OP_COMMIT(_) => nfs_opnum4::OP_COMMIT,
            nfs_resop4::OP_CREATE(_) => nfs_opnum4::OP_CREATE,
            nfs_resop4::OP_DELEGPURGE(_) => nfs_opnum4::OP_DELEGPURGE,
            nfs_resop4::OP_DELEGRETURN(_) => nfs_opnum4::OP_DELEGRETURN,
            nfs_resop4::OP_GETATTR(_) => nfs_opnum4::OP_GETATTR,
            nfs_resop4::OP_GETFH(_) => nfs_opnum4::OP_GETFH,
            nfs_resop4::OP_LINK(_) => nfs_opnum4::OP_LINK,
            nfs_resop4::OP_LOCK(_) => nfs_opnum4::OP_LOCK,
            nfs_resop4::OP_LOCKT(_) => nfs_opnum4::OP_LOCKT,
            nfs_resop4::OP_LOCKU(_) => nfs_opnum4::OP_LOCKU,
            nfs_resop4::OP_LOOKUP(_) => nfs_opnum4::OP_LOOKUP,
            nfs_resop4::OP_LOOKUPP(_) => nfs_opnum4::OP_LOOKUPP,
            nfs_resop4::OP_NVERIFY(_) => nfs_opnum4::OP_NVERIFY,
            nfs_resop4::OP_OPEN(_) => nfs_opnum4::OP_OPEN,
            nfs_resop4::OP_OPENATTR(_) => nfs_opnum4::OP_OPENATTR,
            nfs_resop4::OP_OPEN_CONFIRM(_) => nfs_opnum4::OP_OPEN_CONFIRM,
            nfs_resop4::OP_OPEN_DOWNGRADE(_) => nfs_opnum4::OP_OPEN_DOWNGRADE,
            nfs_resop4::OP_PUTFH(_) => nfs_opnum4::OP_PUTFH,
            nfs_resop4::OP_PUTPUBFH(_) => nfs_opnum4::OP_PUTPUBFH,
            nfs_resop4::OP_PUTROOTFH(_) => nfs_opnum4::OP_PUTROOTFH,
            nfs_resop4::OP_READ(_) => nfs_opnum4::OP_READ,
            nfs_resop4::OP_READDIR(_) => nfs_opnum4::OP_READDIR,
            nfs_resop4::OP_READLINK(_) => nfs_opnum4::OP_READLINK,
            nfs_resop4::OP_REMOVE(_) => nfs_opnum4::OP_REMOVE,
            nfs_resop4::OP_RENAME(_) => nfs_opnum4::OP_RENAME,
            nfs_resop4::OP_RENEW(_) => nfs_opnum4::OP_RENEW,
            nfs_resop4::OP_RESTOREFH(_) => nfs_opnum4::OP_RESTOREFH,
            nfs_resop4::OP_SAVEFH(_) => nfs_opnum4::OP_SAVEFH,
            nfs_resop4::OP_SECINFO(_) => nfs_opnum4::OP_SECINFO,
            nfs_resop4::OP_SETATTR(_) => nfs_opnum4::OP_SETATTR,
            nfs_resop4::OP_SETCLIENTID(_) => nfs_opnum4::OP_SETCLIENTID,
            nfs_resop4::OP_SETCLIENTID_CONFIRM(_) => nfs_opnum4::OP_SETCLIENTID_CONFIRM,
            nfs_resop4::OP_VERIFY(_) => nfs_opnum4::OP_VERIFY,
            nfs_resop4::OP_WRITE(_) => nfs_opnum4::OP_WRITE,
            nfs_resop4::OP_RELEASE_LOCKOWNER(_) => nfs_opnum4::OP_RELEASE_LOCKOWNER,
            nfs_resop4::OP_BACKCHANNEL_CTL(_) => nfs_opnum4::OP_BACKCHANNEL_CTL,
            nfs_resop4::OP_BIND_CONN_TO_SESSION(_) => nfs_opnum4::OP_BIND_CONN_TO_SESSION,
            nfs_resop4::OP_EXCHANGE_ID(_) => nfs_opnum4::OP_EXCHANGE_ID,
            nfs_resop4::OP_CREATE_SESSION(_) => nfs_opnum4::OP_CREATE_SESSION,
            nfs_resop4::OP_DESTROY_SESSION(_) => nfs_opnum4::OP_DESTROY_SESSION,
            nfs_resop4::OP_FREE_STATEID(_) => nfs_opnum4::OP_FREE_STATEID,
            nfs_resop4::OP_GET_DIR_DELEGATION(_) => nfs_opnum4::OP_GET_DIR_DELEGATION,
            nfs_resop4::OP_GETDEVICEINFO(_) => nfs_opnum4::OP_GETDEVICEINFO,
            nfs_resop4::OP_GETDEVICELIST(_) => nfs_opnum4::OP_GETDEVICELIST,
            nfs_resop4::OP_LAYOUTCOMMIT(_) => nfs_opnum4::OP_LAYOUTCOMMIT,
            nfs_resop4::OP_LAYOUTGET(_) => nfs_opnum4::OP_LAYOUTGET,
            nfs_resop4::OP_LAYOUTRETURN(_) => nfs_opnum4::OP_LAYOUTRETURN,
            nfs_resop4::OP_SECINFO_NO_NAME(_) => nfs_opnum4::OP_SECINFO_NO_NAME,
            nfs_resop4::OP_SEQUENCE(_) => nfs_opnum4::OP_SEQUENCE,
            nfs_resop4::OP_SET_SSV(_) => nfs_opnum4::OP_SET_SSV,
            nfs_resop4::OP_TEST_STATEID(_) => nfs_opnum4::OP_TEST_STATEID,
            nfs_resop4::OP_WANT_DELEGATION(_) => nfs_opnum4::OP_WANT_DELEGATION,
            nfs_resop4::OP_DESTROY_CLIENTID(_) => nfs_opnum4::OP_DESTROY_CLIENTID,
            nfs_resop4::OP_RECLAIM_COMPLETE(_) => nfs_opnum4::OP_RECLAIM_COMPLETE,
            nfs_resop4::OP_ALLOCATE(_) => nfs_opnum4::OP_ALLOCATE,
            nfs_resop4::OP_COPY(_) => nfs_opnum4::OP_COPY,
            nfs_resop4::OP_COPY_NOTIFY(_) => nfs_opnum4::OP_COPY_NOTIFY,
            nfs_resop4::OP_DEALLOCATE(_) => nfs_opnum4::OP_DEALLOCATE,
            nfs_resop4::OP_IO_ADVISE(_) => nfs_opnum4::OP_IO_ADVISE,
            nfs_resop4::OP_LAYOUTERROR(_) => nfs_opnum4::OP_LAYOUTERROR,
            nfs_resop4::OP_LAYOUTSTATS(_) => nfs_opnum4::OP_LAYOUTSTATS,
            nfs_resop4::OP_OFFLOAD_CANCEL(_) => nfs_opnum4::OP_OFFLOAD_CANCEL,
            nfs_resop4::OP_OFFLOAD_STATUS(_) => nfs_opnum4::OP_OFFLOAD_STATUS,
            nfs_resop4::OP_READ_PLUS(_) => nfs_opnum4::OP_READ_PLUS,
            nfs_resop4::OP_SEEK(_) => nfs_opnum4::OP_SEEK,
            nfs_resop4::OP_WRITE_SAME(_) => nfs_opnum4::OP_WRITE_SAME,
            nfs_resop4::OP_CLONE(_) => nfs_opnum4::OP_CLONE,
            nfs_resop4::OP_ILLEGAL(_) => nfs_opnum4::OP_ILLEGAL,
            nfs_resop4::OP_GETXATTR(_) => nfs_opnum4::OP_GETXATTR,
            nfs_resop4::OP_SETXATTR(_) => nfs_opnum4::OP_SETXATTR,
            nfs_resop4::OP_LISTXATTRS(_) => nfs_opnum4::OP_LISTXATTRS,
            nfs_resop4::OP_REMOVEXATTR(_) => nfs_opnum4::OP_REMOVEXATTR,
        }
    }
}

impl Xdr for nfs_resop4 {
    fn encode(&self, out: &mut Encoder) {
        self.resop().encode(out);
        match self {
            nfs_resop4::OP_ACCESS(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_CLOSE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_COMMIT(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_CREATE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_DELEGPURGE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_DELEGRETURN(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_GETATTR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_GETFH(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LINK(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LOCK(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LOCKT(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LOCKU(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LOOKUP(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LOOKUPP(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_NVERIFY(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_OPEN(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_OPENATTR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_OPEN_CONFIRM(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_OPEN_DOWNGRADE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_PUTFH(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_PUTPUBFH(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_PUTROOTFH(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_READ(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_READDIR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_READLINK(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_REMOVE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_RENAME(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_RENEW(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_RESTOREFH(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SAVEFH(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SECINFO(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SETATTR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SETCLIENTID(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SETCLIENTID_CONFIRM(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_VERIFY(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_WRITE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_RELEASE_LOCKOWNER(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_BACKCHANNEL_CTL(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_BIND_CONN_TO_SESSION(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_EXCHANGE_ID(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_CREATE_SESSION(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_DESTROY_SESSION(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_FREE_STATEID(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_GET_DIR_DELEGATION(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_GETDEVICEINFO(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_GETDEVICELIST(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LAYOUTCOMMIT(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LAYOUTGET(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LAYOUTRETURN(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SECINFO_NO_NAME(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SEQUENCE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SET_SSV(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_TEST_STATEID(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_WANT_DELEGATION(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_DESTROY_CLIENTID(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_RECLAIM_COMPLETE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_ALLOCATE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_COPY(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_COPY_NOTIFY(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_DEALLOCATE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_IO_ADVISE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LAYOUTERROR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LAYOUTSTATS(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_OFFLOAD_CANCEL(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_OFFLOAD_STATUS(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_READ_PLUS(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SEEK(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_WRITE_SAME(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_CLONE(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_ILLEGAL(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_GETXATTR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_SETXATTR(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_LISTXATTRS(it) => {
                it.encode(out);
            }
            nfs_resop4::OP_REMOVEXATTR(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfs_opnum4::decode(input)? {
            nfs_opnum4::OP_ACCESS => nfs_resop4::OP_ACCESS(ACCESS4res::decode(input)?),
            nfs_opnum4::OP_CLOSE => nfs_resop4::OP_CLOSE(CLOSE4res::decode(input)?),
            nfs_opnum4::OP_COMMIT => nfs_resop4::OP_COMMIT(COMMIT4res::decode(input)?),
            nfs_opnum4::OP_CREATE => nfs_resop4::OP_CREATE(CREATE4res::decode(input)?),
            nfs_opnum4::OP_DELEGPURGE => nfs_resop4::OP_DELEGPURGE(DELEGPURGE4res::decode(input)?),
            nfs_opnum4::OP_DELEGRETURN => {
                nfs_resop4::OP_DELEGRETURN(DELEGRETURN4res::decode(input)?)
            }
            nfs_opnum4::OP_GETATTR => nfs_resop4::OP_GETATTR(GETATTR4res::decode(input)?),
            nfs_opnum4::OP_GETFH => nfs_resop4::OP_GETFH(GETFH4res::decode(input)?),
            nfs_opnum4::OP_LINK => nfs_resop4::OP_LINK(LINK4res::decode(input)?),
            nfs_opnum4::OP_LOCK => nfs_resop4::OP_LOCK(LOCK4res::decode(input)?),
            nfs_opnum4::OP_LOCKT => nfs_resop4::OP_LOCKT(LOCKT4res::decode(input)?),
            nfs_opnum4::OP_LOCKU => nfs_resop4::OP_LOCKU(LOCKU4res::decode(input)?),
            nfs_opnum4::OP_LOOKUP => nfs_resop4::OP_LOOKUP(LOOKUP4res::decode(input)?),
            nfs_opnum4::OP_LOOKUPP => nfs_resop4::OP_LOOKUPP(LOOKUPP4res::decode(input)?),
            nfs_opnum4::OP_NVERIFY => nfs_resop4::OP_NVERIFY(NVERIFY4res::decode(input)?),
            nfs_opnum4::OP_OPEN => nfs_resop4::OP_OPEN(OPEN4res::decode(input)?),
            nfs_opnum4::OP_OPENATTR => nfs_resop4::OP_OPENATTR(OPENATTR4res::decode(input)?),
            nfs_opnum4::OP_OPEN_CONFIRM => {
                nfs_resop4::OP_OPEN_CONFIRM(OPEN_CONFIRM4res::decode(input)?)
            }
            nfs_opnum4::OP_OPEN_DOWNGRADE => {
                nfs_resop4::OP_OPEN_DOWNGRADE(OPEN_DOWNGRADE4res::decode(input)?)
            }
            nfs_opnum4::OP_PUTFH => nfs_resop4::OP_PUTFH(PUTFH4res::decode(input)?),
            nfs_opnum4::OP_PUTPUBFH => nfs_resop4::OP_PUTPUBFH(PUTPUBFH4res::decode(input)?),
            nfs_opnum4::OP_PUTROOTFH => nfs_resop4::OP_PUTROOTFH(PUTROOTFH4res::decode(input)?),
            nfs_opnum4::OP_READ => nfs_resop4::OP_READ(READ4res::decode(input)?),
            nfs_opnum4::OP_READDIR => nfs_resop4::OP_READDIR(READDIR4res::decode(input)?),
            nfs_opnum4::OP_READLINK => nfs_resop4::OP_READLINK(READLINK4res::decode(input)?),
            nfs_opnum4::OP_REMOVE => nfs_resop4::OP_REMOVE(REMOVE4res::decode(input)?),
            nfs_opnum4::OP_RENAME => nfs_resop4::OP_RENAME(RENAME4res::decode(input)?),
            nfs_opnum4::OP_RENEW => nfs_resop4::OP_RENEW(RENEW4res::decode(input)?),
            nfs_opnum4::OP_RESTOREFH => nfs_resop4::OP_RESTOREFH(RESTOREFH4res::decode(input)?),
            nfs_opnum4::OP_SAVEFH => nfs_resop4::OP_SAVEFH(SAVEFH4res::decode(input)?),
            nfs_opnum4::OP_SECINFO => nfs_resop4::OP_SECINFO(SECINFO4res::decode(input)?),
            nfs_opnum4::OP_SETATTR => nfs_resop4::OP_SETATTR(SETATTR4res::decode(input)?),
            nfs_opnum4::OP_SETCLIENTID => {
                nfs_resop4::OP_SETCLIENTID(SETCLIENTID4res::decode(input)?)
            }
            nfs_opnum4::OP_SETCLIENTID_CONFIRM => {
                nfs_resop4::OP_SETCLIENTID_CONFIRM(SETCLIENTID_CONFIRM4res::decode(input)?)
            }
            nfs_opnum4::OP_VERIFY => nfs_resop4::OP_VERIFY(VERIFY4res::decode(input)?),
            nfs_opnum4::OP_WRITE => nfs_resop4::OP_WRITE(WRITE4res::decode(input)?),
            nfs_opnum4::OP_RELEASE_LOCKOWNER => {
                nfs_resop4::OP_RELEASE_LOCKOWNER(RELEASE_LOCKOWNER4res::decode(input)?)
            }
            nfs_opnum4::OP_BACKCHANNEL_CTL => {
                nfs_resop4::OP_BACKCHANNEL_CTL(BACKCHANNEL_CTL4res::decode(input)?)
            }
            nfs_opnum4::OP_BIND_CONN_TO_SESSION => {
                nfs_resop4::OP_BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4res::decode(input)?)
            }
            nfs_opnum4::OP_EXCHANGE_ID => {
                nfs_resop4::OP_EXCHANGE_ID(EXCHANGE_ID4res::decode(input)?)
            }
            nfs_opnum4::OP_CREATE_SESSION => {
                nfs_resop4::OP_CREATE_SESSION(CREATE_SESSION4res::decode(input)?)
            }
            nfs_opnum4::OP_DESTROY_SESSION => {
                nfs_resop4::OP_DESTROY_SESSION(DESTROY_SESSION4res::decode(input)?)
            }
            nfs_opnum4::OP_FREE_STATEID => {
                nfs_resop4::OP_FREE_STATEID(FREE_STATEID4res::decode(input)?)
            }
            nfs_opnum4::OP_GET_DIR_DELEGATION => {
                nfs_resop4::OP_GET_DIR_DELEGATION(GET_DIR_DELEGATION4res::decode(input)?)
            }
            nfs_opnum4::OP_GETDEVICEINFO => {
                nfs_resop4::OP_GETDEVICEINFO(GETDEVICEINFO4res::decode(input)?)
            }
            nfs_opnum4::OP_GETDEVICELIST => {
                nfs_resop4::OP_GETDEVICELIST(GETDEVICELIST4res::decode(input)?)
            }
            nfs_opnum4::OP_LAYOUTCOMMIT => {
                nfs_resop4::OP_LAYOUTCOMMIT(LAYOUTCOMMIT4res::decode(input)?)
            }
            nfs_opnum4::OP_LAYOUTGET => nfs_resop4::OP_LAYOUTGET(LAYOUTGET4res::decode(input)?),
            nfs_opnum4::OP_LAYOUTRETURN => {
                nfs_resop4::OP_LAYOUTRETURN(LAYOUTRETURN4res::decode(input)?)
            }
            nfs_opnum4::OP_SECINFO_NO_NAME => {
                nfs_resop4::OP_SECINFO_NO_NAME(SECINFO4res::decode(input)?)
            }
            nfs_opnum4::OP_SEQUENCE => nfs_resop4::OP_SEQUENCE(SEQUENCE4res::decode(input)?),
            nfs_opnum4::OP_SET_SSV => nfs_resop4::OP_SET_SSV(SET_SSV4res::decode(input)?),
            nfs_opnum4::OP_TEST_STATEID => {
                nfs_resop4::OP_TEST_STATEID(TEST_STATEID4res::decode(input)?)
            }
            nfs_opnum4::OP_WANT_DELEGATION => {
                nfs_resop4::OP_WANT_DELEGATION(WANT_DELEGATION4res::decode(input)?)
            }
            nfs_opnum4::OP_DESTROY_CLIENTID => {
                nfs_resop4::OP_DESTROY_CLIENTID(DESTROY_CLIENTID4res::decode(input)?)
            }
            nfs_opnum4::OP_RECLAIM_COMPLETE => {
                nfs_resop4::OP_RECLAIM_COMPLETE(RECLAIM_COMPLETE4res::decode(input)?)
            }
            nfs_opnum4::OP_ALLOCATE => nfs_resop4::OP_ALLOCATE(ALLOCATE4res::decode(input)?),
            nfs_opnum4::OP_COPY => nfs_resop4::OP_COPY(COPY4res::decode(input)?),
            nfs_opnum4::OP_COPY_NOTIFY => {
                nfs_resop4::OP_COPY_NOTIFY(COPY_NOTIFY4res::decode(input)?)
            }
            nfs_opnum4::OP_DEALLOCATE => nfs_resop4::OP_DEALLOCATE(DEALLOCATE4res::decode(input)?),
            nfs_opnum4::OP_IO_ADVISE => nfs_resop4::OP_IO_ADVISE(IO_ADVISE4res::decode(input)?),
            nfs_opnum4::OP_LAYOUTERROR => {
                nfs_resop4::OP_LAYOUTERROR(LAYOUTERROR4res::decode(input)?)
            }
            nfs_opnum4::OP_LAYOUTSTATS => {
                nfs_resop4::OP_LAYOUTSTATS(LAYOUTSTATS4res::decode(input)?)
            }
            nfs_opnum4::OP_OFFLOAD_CANCEL => {
                nfs_resop4::OP_OFFLOAD_CANCEL(OFFLOAD_CANCEL4res::decode(input)?)
            }
            nfs_opnum4::OP_OFFLOAD_STATUS => {
                nfs_resop4::OP_OFFLOAD_STATUS(OFFLOAD_STATUS4res::decode(input)?)
            }
            nfs_opnum4::OP_READ_PLUS => nfs_resop4::OP_READ_PLUS(READ_PLUS4res::decode(input)?),
            nfs_opnum4::OP_SEEK => nfs_resop4::OP_SEEK(SEEK4res::decode(input)?),
            nfs_opnum4::OP_WRITE_SAME => nfs_resop4::OP_WRITE_SAME(WRITE_SAME4res::decode(input)?),
            nfs_opnum4::OP_CLONE => nfs_resop4::OP_CLONE(CLONE4res::decode(input)?),
            nfs_opnum4::OP_ILLEGAL => nfs_resop4::OP_ILLEGAL(ILLEGAL4res::decode(input)?),
            nfs_opnum4::OP_GETXATTR => nfs_resop4::OP_GETXATTR(GETXATTR4res::decode(input)?),
            nfs_opnum4::OP_SETXATTR => nfs_resop4::OP_SETXATTR(SETXATTR4res::decode(input)?),
            nfs_opnum4::OP_LISTXATTRS => nfs_resop4::OP_LISTXATTRS(LISTXATTRS4res::decode(input)?),
            nfs_opnum4::OP_REMOVEXATTR => {
                nfs_resop4::OP_REMOVEXATTR(REMOVEXATTR4res::decode(input)?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMPOUND4args {
    pub tag: utf8str_cs,
    pub minorversion: u32,
    pub argarray: Vec<nfs_argop4>,
}

impl Xdr for COMPOUND4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.tag);
        out.u32(self.minorversion);
        out.vec(u32::MAX, &self.argarray, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMPOUND4args {
            tag: input.opaque(u32::MAX)?,
            minorversion: input.u32()?,
            argarray: input.vec(u32::MAX, 4, nfs_argop4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct COMPOUND4res {
    pub status: nfsstat4,
    pub tag: utf8str_cs,
    pub resarray: Vec<nfs_resop4>,
}

impl Xdr for COMPOUND4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
        out.opaque(u32::MAX, &self.tag);
        out.vec(u32::MAX, &self.resarray, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(COMPOUND4res {
            status: nfsstat4::decode(input)?,
            tag: input.opaque(u32::MAX)?,
            resarray: input.vec(u32::MAX, 8, nfs_resop4::decode)?,
        })
    }
}

pub const NFS4_PROGRAM: u32 = 100003;
pub const NFS_V4: u32 = 4;

pub struct NFSPROC4_NULL;

impl Procedure for NFSPROC4_NULL {
    const PROGRAM: u32 = NFS4_PROGRAM;
    const VERSION: u32 = NFS_V4;
    const NUMBER: u32 = 0;
    const NAME: &'static str = "NFSPROC4_NULL";
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

pub struct NFSPROC4_COMPOUND;

impl Procedure for NFSPROC4_COMPOUND {
    const PROGRAM: u32 = NFS4_PROGRAM;
    const VERSION: u32 = NFS_V4;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "NFSPROC4_COMPOUND";
    type Arguments = COMPOUND4args;
    type Results = COMPOUND4res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        COMPOUND4args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        COMPOUND4res::decode(input)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_GETATTR4args {
    pub fh: nfs_fh4,
    pub attr_request: bitmap4,
}

impl Xdr for CB_GETATTR4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.fh);
        out.vec(u32::MAX, &self.attr_request, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_GETATTR4args {
            fh: input.opaque(128)?,
            attr_request: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_GETATTR4resok {
    pub obj_attributes: fattr4,
}

impl Xdr for CB_GETATTR4resok {
    fn encode(&self, out: &mut Encoder) {
        self.obj_attributes.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_GETATTR4resok {
            obj_attributes: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CB_GETATTR4res {
    NFS4_OK(CB_GETATTR4resok),
    /// Any other.
    default(nfsstat4),
}

impl CB_GETATTR4res {
    /// Which of them it is.
    pub fn status(&self) -> nfsstat4 {
        match self {
            CB_GETATTR4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            CB_GETATTR4res::default(other) => *other,
        }
    }
}

impl Xdr for CB_GETATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.status().encode(out);
        match self {
            CB_GETATTR4res::NFS4_OK(it) => {
                it.encode(out);
            }
            CB_GETATTR4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => CB_GETATTR4res::NFS4_OK(CB_GETATTR4resok::decode(input)?),
            other => CB_GETATTR4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALL4args {
    pub stateid: stateid4,
    pub truncate: bool,
    pub fh: nfs_fh4,
}

impl Xdr for CB_RECALL4args {
    fn encode(&self, out: &mut Encoder) {
        self.stateid.encode(out);
        out.bool(self.truncate);
        out.opaque(128, &self.fh);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALL4args {
            stateid: stateid4::decode(input)?,
            truncate: input.bool()?,
            fh: input.opaque(128)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALL4res {
    pub status: nfsstat4,
}

impl Xdr for CB_RECALL4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALL4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_ILLEGAL4res {
    pub status: nfsstat4,
}

impl Xdr for CB_ILLEGAL4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_ILLEGAL4res {
            status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum layoutrecall_type4 {
    LAYOUTRECALL4_FILE = 1,
    LAYOUTRECALL4_FSID = 2,
    LAYOUTRECALL4_ALL = 3,
}

impl layoutrecall_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<layoutrecall_type4> {
        Some(match value {
            1 => layoutrecall_type4::LAYOUTRECALL4_FILE,
            2 => layoutrecall_type4::LAYOUTRECALL4_FSID,
            3 => layoutrecall_type4::LAYOUTRECALL4_ALL,
            _ => return None,
        })
    }
}

impl Xdr for layoutrecall_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        layoutrecall_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "layoutrecall_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct layoutrecall_file4 {
    pub lor_fh: nfs_fh4,
    pub lor_offset: offset4,
    pub lor_length: length4,
    pub lor_stateid: stateid4,
}

impl Xdr for layoutrecall_file4 {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.lor_fh);
        out.u64(self.lor_offset);
        out.u64(self.lor_length);
        self.lor_stateid.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(layoutrecall_file4 {
            lor_fh: input.opaque(128)?,
            lor_offset: input.u64()?,
            lor_length: input.u64()?,
            lor_stateid: stateid4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum layoutrecall4 {
    LAYOUTRECALL4_FILE(layoutrecall_file4),
    LAYOUTRECALL4_FSID(fsid4),
    LAYOUTRECALL4_ALL,
}

impl layoutrecall4 {
    /// Which of them it is.
    pub fn lor_recalltype(&self) -> layoutrecall_type4 {
        match self {
            layoutrecall4::LAYOUTRECALL4_FILE(_) => layoutrecall_type4::LAYOUTRECALL4_FILE,
            layoutrecall4::LAYOUTRECALL4_FSID(_) => layoutrecall_type4::LAYOUTRECALL4_FSID,
            layoutrecall4::LAYOUTRECALL4_ALL => layoutrecall_type4::LAYOUTRECALL4_ALL,
        }
    }
}

impl Xdr for layoutrecall4 {
    fn encode(&self, out: &mut Encoder) {
        self.lor_recalltype().encode(out);
        match self {
            layoutrecall4::LAYOUTRECALL4_FILE(it) => {
                it.encode(out);
            }
            layoutrecall4::LAYOUTRECALL4_FSID(it) => {
                it.encode(out);
            }
            layoutrecall4::LAYOUTRECALL4_ALL => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match layoutrecall_type4::decode(input)? {
            layoutrecall_type4::LAYOUTRECALL4_FILE => {
                layoutrecall4::LAYOUTRECALL4_FILE(layoutrecall_file4::decode(input)?)
            }
            layoutrecall_type4::LAYOUTRECALL4_FSID => {
                layoutrecall4::LAYOUTRECALL4_FSID(fsid4::decode(input)?)
            }
            layoutrecall_type4::LAYOUTRECALL4_ALL => layoutrecall4::LAYOUTRECALL4_ALL,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_LAYOUTRECALL4args {
    pub clora_type: layouttype4,
    pub clora_iomode: layoutiomode4,
    pub clora_changed: bool,
    pub clora_recall: layoutrecall4,
}

impl Xdr for CB_LAYOUTRECALL4args {
    fn encode(&self, out: &mut Encoder) {
        self.clora_type.encode(out);
        self.clora_iomode.encode(out);
        out.bool(self.clora_changed);
        self.clora_recall.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_LAYOUTRECALL4args {
            clora_type: layouttype4::decode(input)?,
            clora_iomode: layoutiomode4::decode(input)?,
            clora_changed: input.bool()?,
            clora_recall: layoutrecall4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_LAYOUTRECALL4res {
    pub clorr_status: nfsstat4,
}

impl Xdr for CB_LAYOUTRECALL4res {
    fn encode(&self, out: &mut Encoder) {
        self.clorr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_LAYOUTRECALL4res {
            clorr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum notify_type4 {
    NOTIFY4_CHANGE_CHILD_ATTRS = 0,
    NOTIFY4_CHANGE_DIR_ATTRS = 1,
    NOTIFY4_REMOVE_ENTRY = 2,
    NOTIFY4_ADD_ENTRY = 3,
    NOTIFY4_RENAME_ENTRY = 4,
    NOTIFY4_CHANGE_COOKIE_VERIFIER = 5,
}

impl notify_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<notify_type4> {
        Some(match value {
            0 => notify_type4::NOTIFY4_CHANGE_CHILD_ATTRS,
            1 => notify_type4::NOTIFY4_CHANGE_DIR_ATTRS,
            2 => notify_type4::NOTIFY4_REMOVE_ENTRY,
            3 => notify_type4::NOTIFY4_ADD_ENTRY,
            4 => notify_type4::NOTIFY4_RENAME_ENTRY,
            5 => notify_type4::NOTIFY4_CHANGE_COOKIE_VERIFIER,
            _ => return None,
        })
    }
}

impl Xdr for notify_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        notify_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "notify_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_entry4 {
    pub ne_file: component4,
    pub ne_attrs: fattr4,
}

impl Xdr for notify_entry4 {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.ne_file);
        self.ne_attrs.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_entry4 {
            ne_file: input.opaque(u32::MAX)?,
            ne_attrs: fattr4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct prev_entry4 {
    pub pe_prev_entry: notify_entry4,
    pub pe_prev_entry_cookie: nfs_cookie4,
}

impl Xdr for prev_entry4 {
    fn encode(&self, out: &mut Encoder) {
        self.pe_prev_entry.encode(out);
        out.u64(self.pe_prev_entry_cookie);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(prev_entry4 {
            pe_prev_entry: notify_entry4::decode(input)?,
            pe_prev_entry_cookie: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_remove4 {
    pub nrm_old_entry: notify_entry4,
    pub nrm_old_entry_cookie: nfs_cookie4,
}

impl Xdr for notify_remove4 {
    fn encode(&self, out: &mut Encoder) {
        self.nrm_old_entry.encode(out);
        out.u64(self.nrm_old_entry_cookie);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_remove4 {
            nrm_old_entry: notify_entry4::decode(input)?,
            nrm_old_entry_cookie: input.u64()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_add4 {
    /// At most 1.
    pub nad_old_entry: Vec<notify_remove4>,
    pub nad_new_entry: notify_entry4,
    /// At most 1.
    pub nad_new_entry_cookie: Vec<nfs_cookie4>,
    /// At most 1.
    pub nad_prev_entry: Vec<prev_entry4>,
    pub nad_last_entry: bool,
}

impl Xdr for notify_add4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(1, &self.nad_old_entry, |out, item| {
            item.encode(out);
        });
        self.nad_new_entry.encode(out);
        out.vec(1, &self.nad_new_entry_cookie, |out, item| {
            out.u64(*item);
        });
        out.vec(1, &self.nad_prev_entry, |out, item| {
            item.encode(out);
        });
        out.bool(self.nad_last_entry);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_add4 {
            nad_old_entry: input.vec(1, 20, notify_remove4::decode)?,
            nad_new_entry: notify_entry4::decode(input)?,
            nad_new_entry_cookie: input.vec(1, 8, Decoder::u64)?,
            nad_prev_entry: input.vec(1, 20, prev_entry4::decode)?,
            nad_last_entry: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_attr4 {
    pub na_changed_entry: notify_entry4,
}

impl Xdr for notify_attr4 {
    fn encode(&self, out: &mut Encoder) {
        self.na_changed_entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_attr4 {
            na_changed_entry: notify_entry4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_rename4 {
    pub nrn_old_entry: notify_remove4,
    pub nrn_new_entry: notify_add4,
}

impl Xdr for notify_rename4 {
    fn encode(&self, out: &mut Encoder) {
        self.nrn_old_entry.encode(out);
        self.nrn_new_entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_rename4 {
            nrn_old_entry: notify_remove4::decode(input)?,
            nrn_new_entry: notify_add4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_verifier4 {
    pub nv_old_cookieverf: verifier4,
    pub nv_new_cookieverf: verifier4,
}

impl Xdr for notify_verifier4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.nv_old_cookieverf);
        out.fixed(&self.nv_new_cookieverf);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_verifier4 {
            nv_old_cookieverf: input.fixed::<8>()?,
            nv_new_cookieverf: input.fixed::<8>()?,
        })
    }
}

pub type notifylist4 = Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify4 {
    pub notify_mask: bitmap4,
    pub notify_vals: notifylist4,
}

impl Xdr for notify4 {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.notify_mask, |out, item| {
            out.u32(*item);
        });
        out.opaque(u32::MAX, &self.notify_vals);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify4 {
            notify_mask: input.vec(u32::MAX, 4, Decoder::u32)?,
            notify_vals: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_NOTIFY4args {
    pub cna_stateid: stateid4,
    pub cna_fh: nfs_fh4,
    pub cna_changes: Vec<notify4>,
}

impl Xdr for CB_NOTIFY4args {
    fn encode(&self, out: &mut Encoder) {
        self.cna_stateid.encode(out);
        out.opaque(128, &self.cna_fh);
        out.vec(u32::MAX, &self.cna_changes, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_NOTIFY4args {
            cna_stateid: stateid4::decode(input)?,
            cna_fh: input.opaque(128)?,
            cna_changes: input.vec(u32::MAX, 8, notify4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_NOTIFY4res {
    pub cnr_status: nfsstat4,
}

impl Xdr for CB_NOTIFY4res {
    fn encode(&self, out: &mut Encoder) {
        self.cnr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_NOTIFY4res {
            cnr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_PUSH_DELEG4args {
    pub cpda_fh: nfs_fh4,
    pub cpda_delegation: open_delegation4,
}

impl Xdr for CB_PUSH_DELEG4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.cpda_fh);
        self.cpda_delegation.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_PUSH_DELEG4args {
            cpda_fh: input.opaque(128)?,
            cpda_delegation: open_delegation4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_PUSH_DELEG4res {
    pub cpdr_status: nfsstat4,
}

impl Xdr for CB_PUSH_DELEG4res {
    fn encode(&self, out: &mut Encoder) {
        self.cpdr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_PUSH_DELEG4res {
            cpdr_status: nfsstat4::decode(input)?,
        })
    }
}

pub const RCA4_TYPE_MASK_RDATA_DLG: u32 = 0;

pub const RCA4_TYPE_MASK_WDATA_DLG: u32 = 1;

pub const RCA4_TYPE_MASK_DIR_DLG: u32 = 2;

pub const RCA4_TYPE_MASK_FILE_LAYOUT: u32 = 3;

pub const RCA4_TYPE_MASK_BLK_LAYOUT: u32 = 4;

pub const RCA4_TYPE_MASK_OBJ_LAYOUT_MIN: u32 = 8;

pub const RCA4_TYPE_MASK_OBJ_LAYOUT_MAX: u32 = 9;

pub const RCA4_TYPE_MASK_OTHER_LAYOUT_MIN: u32 = 12;

pub const RCA4_TYPE_MASK_OTHER_LAYOUT_MAX: u32 = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALL_ANY4args {
    pub craa_objects_to_keep: u32,
    pub craa_type_mask: bitmap4,
}

impl Xdr for CB_RECALL_ANY4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.craa_objects_to_keep);
        out.vec(u32::MAX, &self.craa_type_mask, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALL_ANY4args {
            craa_objects_to_keep: input.u32()?,
            craa_type_mask: input.vec(u32::MAX, 4, Decoder::u32)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALL_ANY4res {
    pub crar_status: nfsstat4,
}

impl Xdr for CB_RECALL_ANY4res {
    fn encode(&self, out: &mut Encoder) {
        self.crar_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALL_ANY4res {
            crar_status: nfsstat4::decode(input)?,
        })
    }
}

pub type CB_RECALLABLE_OBJ_AVAIL4args = CB_RECALL_ANY4args;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALLABLE_OBJ_AVAIL4res {
    pub croa_status: nfsstat4,
}

impl Xdr for CB_RECALLABLE_OBJ_AVAIL4res {
    fn encode(&self, out: &mut Encoder) {
        self.croa_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALLABLE_OBJ_AVAIL4res {
            croa_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALL_SLOT4args {
    pub rsa_target_highest_slotid: slotid4,
}

impl Xdr for CB_RECALL_SLOT4args {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.rsa_target_highest_slotid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALL_SLOT4args {
            rsa_target_highest_slotid: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_RECALL_SLOT4res {
    pub rsr_status: nfsstat4,
}

impl Xdr for CB_RECALL_SLOT4res {
    fn encode(&self, out: &mut Encoder) {
        self.rsr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_RECALL_SLOT4res {
            rsr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct referring_call4 {
    pub rc_sequenceid: sequenceid4,
    pub rc_slotid: slotid4,
}

impl Xdr for referring_call4 {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.rc_sequenceid);
        out.u32(self.rc_slotid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(referring_call4 {
            rc_sequenceid: input.u32()?,
            rc_slotid: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct referring_call_list4 {
    pub rcl_sessionid: sessionid4,
    pub rcl_referring_calls: Vec<referring_call4>,
}

impl Xdr for referring_call_list4 {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.rcl_sessionid);
        out.vec(u32::MAX, &self.rcl_referring_calls, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(referring_call_list4 {
            rcl_sessionid: input.fixed::<16>()?,
            rcl_referring_calls: input.vec(u32::MAX, 8, referring_call4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_SEQUENCE4args {
    pub csa_sessionid: sessionid4,
    pub csa_sequenceid: sequenceid4,
    pub csa_slotid: slotid4,
    pub csa_highest_slotid: slotid4,
    pub csa_cachethis: bool,
    pub csa_referring_call_lists: Vec<referring_call_list4>,
}

impl Xdr for CB_SEQUENCE4args {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.csa_sessionid);
        out.u32(self.csa_sequenceid);
        out.u32(self.csa_slotid);
        out.u32(self.csa_highest_slotid);
        out.bool(self.csa_cachethis);
        out.vec(u32::MAX, &self.csa_referring_call_lists, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_SEQUENCE4args {
            csa_sessionid: input.fixed::<16>()?,
            csa_sequenceid: input.u32()?,
            csa_slotid: input.u32()?,
            csa_highest_slotid: input.u32()?,
            csa_cachethis: input.bool()?,
            csa_referring_call_lists: input.vec(u32::MAX, 20, referring_call_list4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_SEQUENCE4resok {
    pub csr_sessionid: sessionid4,
    pub csr_sequenceid: sequenceid4,
    pub csr_slotid: slotid4,
    pub csr_highest_slotid: slotid4,
    pub csr_target_highest_slotid: slotid4,
}

impl Xdr for CB_SEQUENCE4resok {
    fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.csr_sessionid);
        out.u32(self.csr_sequenceid);
        out.u32(self.csr_slotid);
        out.u32(self.csr_highest_slotid);
        out.u32(self.csr_target_highest_slotid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_SEQUENCE4resok {
            csr_sessionid: input.fixed::<16>()?,
            csr_sequenceid: input.u32()?,
            csr_slotid: input.u32()?,
            csr_highest_slotid: input.u32()?,
            csr_target_highest_slotid: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CB_SEQUENCE4res {
    NFS4_OK(CB_SEQUENCE4resok),
    /// Any other.
    default(nfsstat4),
}

impl CB_SEQUENCE4res {
    /// Which of them it is.
    pub fn csr_status(&self) -> nfsstat4 {
        match self {
            CB_SEQUENCE4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            CB_SEQUENCE4res::default(other) => *other,
        }
    }
}

impl Xdr for CB_SEQUENCE4res {
    fn encode(&self, out: &mut Encoder) {
        self.csr_status().encode(out);
        match self {
            CB_SEQUENCE4res::NFS4_OK(it) => {
                it.encode(out);
            }
            CB_SEQUENCE4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => CB_SEQUENCE4res::NFS4_OK(CB_SEQUENCE4resok::decode(input)?),
            other => CB_SEQUENCE4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_WANTS_CANCELLED4args {
    pub cwca_contended_wants_cancelled: bool,
    pub cwca_resourced_wants_cancelled: bool,
}

impl Xdr for CB_WANTS_CANCELLED4args {
    fn encode(&self, out: &mut Encoder) {
        out.bool(self.cwca_contended_wants_cancelled);
        out.bool(self.cwca_resourced_wants_cancelled);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_WANTS_CANCELLED4args {
            cwca_contended_wants_cancelled: input.bool()?,
            cwca_resourced_wants_cancelled: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_WANTS_CANCELLED4res {
    pub cwcr_status: nfsstat4,
}

impl Xdr for CB_WANTS_CANCELLED4res {
    fn encode(&self, out: &mut Encoder) {
        self.cwcr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_WANTS_CANCELLED4res {
            cwcr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_NOTIFY_LOCK4args {
    pub cnla_fh: nfs_fh4,
    pub cnla_lock_owner: lock_owner4,
}

impl Xdr for CB_NOTIFY_LOCK4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.cnla_fh);
        self.cnla_lock_owner.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_NOTIFY_LOCK4args {
            cnla_fh: input.opaque(128)?,
            cnla_lock_owner: state_owner4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_NOTIFY_LOCK4res {
    pub cnlr_status: nfsstat4,
}

impl Xdr for CB_NOTIFY_LOCK4res {
    fn encode(&self, out: &mut Encoder) {
        self.cnlr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_NOTIFY_LOCK4res {
            cnlr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum notify_deviceid_type4 {
    NOTIFY_DEVICEID4_CHANGE = 1,
    NOTIFY_DEVICEID4_DELETE = 2,
}

impl notify_deviceid_type4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<notify_deviceid_type4> {
        Some(match value {
            1 => notify_deviceid_type4::NOTIFY_DEVICEID4_CHANGE,
            2 => notify_deviceid_type4::NOTIFY_DEVICEID4_DELETE,
            _ => return None,
        })
    }
}

impl Xdr for notify_deviceid_type4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        notify_deviceid_type4::from_wire(value).ok_or(DecodeError::Member {
            of: "notify_deviceid_type4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_deviceid_delete4 {
    pub ndd_layouttype: layouttype4,
    pub ndd_deviceid: deviceid4,
}

impl Xdr for notify_deviceid_delete4 {
    fn encode(&self, out: &mut Encoder) {
        self.ndd_layouttype.encode(out);
        out.fixed(&self.ndd_deviceid);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_deviceid_delete4 {
            ndd_layouttype: layouttype4::decode(input)?,
            ndd_deviceid: input.fixed::<16>()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct notify_deviceid_change4 {
    pub ndc_layouttype: layouttype4,
    pub ndc_deviceid: deviceid4,
    pub ndc_immediate: bool,
}

impl Xdr for notify_deviceid_change4 {
    fn encode(&self, out: &mut Encoder) {
        self.ndc_layouttype.encode(out);
        out.fixed(&self.ndc_deviceid);
        out.bool(self.ndc_immediate);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(notify_deviceid_change4 {
            ndc_layouttype: layouttype4::decode(input)?,
            ndc_deviceid: input.fixed::<16>()?,
            ndc_immediate: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_NOTIFY_DEVICEID4args {
    pub cnda_changes: Vec<notify4>,
}

impl Xdr for CB_NOTIFY_DEVICEID4args {
    fn encode(&self, out: &mut Encoder) {
        out.vec(u32::MAX, &self.cnda_changes, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_NOTIFY_DEVICEID4args {
            cnda_changes: input.vec(u32::MAX, 8, notify4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_NOTIFY_DEVICEID4res {
    pub cndr_status: nfsstat4,
}

impl Xdr for CB_NOTIFY_DEVICEID4res {
    fn encode(&self, out: &mut Encoder) {
        self.cndr_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_NOTIFY_DEVICEID4res {
            cndr_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum offload_info4 {
    NFS4_OK(write_response4),
    /// Any other.
    default(nfsstat4, length4),
}

impl offload_info4 {
    /// Which of them it is.
    pub fn coa_status(&self) -> nfsstat4 {
        match self {
            offload_info4::NFS4_OK(_) => nfsstat4::NFS4_OK,
            offload_info4::default(other, _) => *other,
        }
    }
}

impl Xdr for offload_info4 {
    fn encode(&self, out: &mut Encoder) {
        self.coa_status().encode(out);
        match self {
            offload_info4::NFS4_OK(it) => {
                it.encode(out);
            }
            offload_info4::default(_, it) => {
                out.u64(*it);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => offload_info4::NFS4_OK(write_response4::decode(input)?),
            other => offload_info4::default(other, input.u64()?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_OFFLOAD4args {
    pub coa_fh: nfs_fh4,
    pub coa_stateid: stateid4,
    pub coa_offload_info: offload_info4,
}

impl Xdr for CB_OFFLOAD4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(128, &self.coa_fh);
        self.coa_stateid.encode(out);
        self.coa_offload_info.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_OFFLOAD4args {
            coa_fh: input.opaque(128)?,
            coa_stateid: stateid4::decode(input)?,
            coa_offload_info: offload_info4::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_OFFLOAD4res {
    pub cor_status: nfsstat4,
}

impl Xdr for CB_OFFLOAD4res {
    fn encode(&self, out: &mut Encoder) {
        self.cor_status.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_OFFLOAD4res {
            cor_status: nfsstat4::decode(input)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum nfs_cb_opnum4 {
    OP_CB_GETATTR = 3,
    OP_CB_RECALL = 4,
    OP_CB_LAYOUTRECALL = 5,
    OP_CB_NOTIFY = 6,
    OP_CB_PUSH_DELEG = 7,
    OP_CB_RECALL_ANY = 8,
    OP_CB_RECALLABLE_OBJ_AVAIL = 9,
    OP_CB_RECALL_SLOT = 10,
    OP_CB_SEQUENCE = 11,
    OP_CB_WANTS_CANCELLED = 12,
    OP_CB_NOTIFY_LOCK = 13,
    OP_CB_NOTIFY_DEVICEID = 14,
    OP_CB_OFFLOAD = 15,
    OP_CB_ILLEGAL = 10044,
}

impl nfs_cb_opnum4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<nfs_cb_opnum4> {
        Some(match value {
            3 => nfs_cb_opnum4::OP_CB_GETATTR,
            4 => nfs_cb_opnum4::OP_CB_RECALL,
            5 => nfs_cb_opnum4::OP_CB_LAYOUTRECALL,
            6 => nfs_cb_opnum4::OP_CB_NOTIFY,
            7 => nfs_cb_opnum4::OP_CB_PUSH_DELEG,
            8 => nfs_cb_opnum4::OP_CB_RECALL_ANY,
            9 => nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL,
            10 => nfs_cb_opnum4::OP_CB_RECALL_SLOT,
            11 => nfs_cb_opnum4::OP_CB_SEQUENCE,
            12 => nfs_cb_opnum4::OP_CB_WANTS_CANCELLED,
            13 => nfs_cb_opnum4::OP_CB_NOTIFY_LOCK,
            14 => nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID,
            15 => nfs_cb_opnum4::OP_CB_OFFLOAD,
            10044 => nfs_cb_opnum4::OP_CB_ILLEGAL,
            _ => return None,
        })
    }
}

impl Xdr for nfs_cb_opnum4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        nfs_cb_opnum4::from_wire(value).ok_or(DecodeError::Member {
            of: "nfs_cb_opnum4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum nfs_cb_argop4 {
    OP_CB_GETATTR(CB_GETATTR4args),
    OP_CB_RECALL(CB_RECALL4args),
    OP_CB_LAYOUTRECALL(CB_LAYOUTRECALL4args),
    OP_CB_NOTIFY(CB_NOTIFY4args),
    OP_CB_PUSH_DELEG(CB_PUSH_DELEG4args),
    OP_CB_RECALL_ANY(CB_RECALL_ANY4args),
    OP_CB_RECALLABLE_OBJ_AVAIL(CB_RECALLABLE_OBJ_AVAIL4args),
    OP_CB_RECALL_SLOT(CB_RECALL_SLOT4args),
    OP_CB_SEQUENCE(CB_SEQUENCE4args),
    OP_CB_WANTS_CANCELLED(CB_WANTS_CANCELLED4args),
    OP_CB_NOTIFY_LOCK(CB_NOTIFY_LOCK4args),
    OP_CB_NOTIFY_DEVICEID(CB_NOTIFY_DEVICEID4args),
    OP_CB_OFFLOAD(CB_OFFLOAD4args),
    OP_CB_ILLEGAL,
}

impl nfs_cb_argop4 {
    /// Which of them it is.
    pub fn argop(&self) -> nfs_cb_opnum4 {
        match self {
            nfs_cb_argop4::OP_CB_GETATTR(_) => nfs_cb_opnum4::OP_CB_GETATTR,
            nfs_cb_argop4::OP_CB_RECALL(_) => nfs_cb_opnum4::OP_CB_RECALL,
            nfs_cb_argop4::OP_CB_LAYOUTRECALL(_) => nfs_cb_opnum4::OP_CB_LAYOUTRECALL,
            nfs_cb_argop4::OP_CB_NOTIFY(_) => nfs_cb_opnum4::OP_CB_NOTIFY,
            nfs_cb_argop4::OP_CB_PUSH_DELEG(_) => nfs_cb_opnum4::OP_CB_PUSH_DELEG,
            nfs_cb_argop4::OP_CB_RECALL_ANY(_) => nfs_cb_opnum4::OP_CB_RECALL_ANY,
            nfs_cb_argop4::OP_CB_RECALLABLE_OBJ_AVAIL(_) => {
                nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL
            }
            nfs_cb_argop4::OP_CB_RECALL_SLOT(_) => nfs_cb_opnum4::OP_CB_RECALL_SLOT,
            nfs_cb_argop4::OP_CB_SEQUENCE(_) => nfs_cb_opnum4::OP_CB_SEQUENCE,
            nfs_cb_argop4::OP_CB_WANTS_CANCELLED(_) => nfs_cb_opnum4::OP_CB_WANTS_CANCELLED,
            nfs_cb_argop4::OP_CB_NOTIFY_LOCK(_) => nfs_cb_opnum4::OP_CB_NOTIFY_LOCK,
            nfs_cb_argop4::OP_CB_NOTIFY_DEVICEID(_) => nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID,
            nfs_cb_argop4::OP_CB_OFFLOAD(_) => nfs_cb_opnum4::OP_CB_OFFLOAD,
            nfs_cb_argop4::OP_CB_ILLEGAL => nfs_cb_opnum4::OP_CB_ILLEGAL,
        }
    }
}

impl Xdr for nfs_cb_argop4 {
    fn encode(&self, out: &mut Encoder) {
        self.argop().encode(out);
        match self {
            nfs_cb_argop4::OP_CB_GETATTR(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_RECALL(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_LAYOUTRECALL(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_NOTIFY(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_PUSH_DELEG(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_RECALL_ANY(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_RECALLABLE_OBJ_AVAIL(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_RECALL_SLOT(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_SEQUENCE(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_WANTS_CANCELLED(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_NOTIFY_LOCK(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_NOTIFY_DEVICEID(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_OFFLOAD(it) => {
                it.encode(out);
            }
            nfs_cb_argop4::OP_CB_ILLEGAL => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfs_cb_opnum4::decode(input)? {
            nfs_cb_opnum4::OP_CB_GETATTR => {
                nfs_cb_argop4::OP_CB_GETATTR(CB_GETATTR4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALL => {
                nfs_cb_argop4::OP_CB_RECALL(CB_RECALL4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_LAYOUTRECALL => {
                nfs_cb_argop4::OP_CB_LAYOUTRECALL(CB_LAYOUTRECALL4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_NOTIFY => {
                nfs_cb_argop4::OP_CB_NOTIFY(CB_NOTIFY4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_PUSH_DELEG => {
                nfs_cb_argop4::OP_CB_PUSH_DELEG(CB_PUSH_DELEG4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALL_ANY => {
                nfs_cb_argop4::OP_CB_RECALL_ANY(CB_RECALL_ANY4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL => {
                nfs_cb_argop4::OP_CB_RECALLABLE_OBJ_AVAIL(CB_RECALL_ANY4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALL_SLOT => {
                nfs_cb_argop4::OP_CB_RECALL_SLOT(CB_RECALL_SLOT4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_SEQUENCE => {
                nfs_cb_argop4::OP_CB_SEQUENCE(CB_SEQUENCE4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_WANTS_CANCELLED => {
                nfs_cb_argop4::OP_CB_WANTS_CANCELLED(CB_WANTS_CANCELLED4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_NOTIFY_LOCK => {
                nfs_cb_argop4::OP_CB_NOTIFY_LOCK(CB_NOTIFY_LOCK4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID => {
                nfs_cb_argop4::OP_CB_NOTIFY_DEVICEID(CB_NOTIFY_DEVICEID4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_OFFLOAD => {
                nfs_cb_argop4::OP_CB_OFFLOAD(CB_OFFLOAD4args::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_ILLEGAL => nfs_cb_argop4::OP_CB_ILLEGAL,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum nfs_cb_resop4 {
    OP_CB_GETATTR(CB_GETATTR4res),
    OP_CB_RECALL(CB_RECALL4res),
    OP_CB_LAYOUTRECALL(CB_LAYOUTRECALL4res),
    OP_CB_NOTIFY(CB_NOTIFY4res),
    OP_CB_PUSH_DELEG(CB_PUSH_DELEG4res),
    OP_CB_RECALL_ANY(CB_RECALL_ANY4res),
    OP_CB_RECALLABLE_OBJ_AVAIL(CB_RECALLABLE_OBJ_AVAIL4res),
    OP_CB_RECALL_SLOT(CB_RECALL_SLOT4res),
    OP_CB_SEQUENCE(CB_SEQUENCE4res),
    OP_CB_WANTS_CANCELLED(CB_WANTS_CANCELLED4res),
    OP_CB_NOTIFY_LOCK(CB_NOTIFY_LOCK4res),
    OP_CB_NOTIFY_DEVICEID(CB_NOTIFY_DEVICEID4res),
    OP_CB_OFFLOAD(CB_OFFLOAD4res),
    OP_CB_ILLEGAL(CB_ILLEGAL4res),
}

impl nfs_cb_resop4 {
    /// Which of them it is.
    pub fn resop(&self) -> nfs_cb_opnum4 {
        match self {
            nfs_cb_resop4::OP_CB_GETATTR(_) => nfs_cb_opnum4::OP_CB_GETATTR,
            nfs_cb_resop4::OP_CB_RECALL(_) => nfs_cb_opnum4::OP_CB_RECALL,
            nfs_cb_resop4::OP_CB_LAYOUTRECALL(_) => nfs_cb_opnum4::OP_CB_LAYOUTRECALL,
            nfs_cb_resop4::OP_CB_NOTIFY(_) => nfs_cb_opnum4::OP_CB_NOTIFY,
            nfs_cb_resop4::OP_CB_PUSH_DELEG(_) => nfs_cb_opnum4::OP_CB_PUSH_DELEG,
            nfs_cb_resop4::OP_CB_RECALL_ANY(_) => nfs_cb_opnum4::OP_CB_RECALL_ANY,
            nfs_cb_resop4::OP_CB_RECALLABLE_OBJ_AVAIL(_) => {
                nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL
            }
            nfs_cb_resop4::OP_CB_RECALL_SLOT(_) => nfs_cb_opnum4::OP_CB_RECALL_SLOT,
            nfs_cb_resop4::OP_CB_SEQUENCE(_) => nfs_cb_opnum4::OP_CB_SEQUENCE,
            nfs_cb_resop4::OP_CB_WANTS_CANCELLED(_) => nfs_cb_opnum4::OP_CB_WANTS_CANCELLED,
            nfs_cb_resop4::OP_CB_NOTIFY_LOCK(_) => nfs_cb_opnum4::OP_CB_NOTIFY_LOCK,
            nfs_cb_resop4::OP_CB_NOTIFY_DEVICEID(_) => nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID,
            nfs_cb_resop4::OP_CB_OFFLOAD(_) => nfs_cb_opnum4::OP_CB_OFFLOAD,
            nfs_cb_resop4::OP_CB_ILLEGAL(_) => nfs_cb_opnum4::OP_CB_ILLEGAL,
        }
    }
}

impl Xdr for nfs_cb_resop4 {
    fn encode(&self, out: &mut Encoder) {
        self.resop().encode(out);
        match self {
            nfs_cb_resop4::OP_CB_GETATTR(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_RECALL(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_LAYOUTRECALL(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_NOTIFY(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_PUSH_DELEG(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_RECALL_ANY(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_RECALLABLE_OBJ_AVAIL(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_RECALL_SLOT(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_SEQUENCE(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_WANTS_CANCELLED(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_NOTIFY_LOCK(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_NOTIFY_DEVICEID(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_OFFLOAD(it) => {
                it.encode(out);
            }
            nfs_cb_resop4::OP_CB_ILLEGAL(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfs_cb_opnum4::decode(input)? {
            nfs_cb_opnum4::OP_CB_GETATTR => {
                nfs_cb_resop4::OP_CB_GETATTR(CB_GETATTR4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALL => {
                nfs_cb_resop4::OP_CB_RECALL(CB_RECALL4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_LAYOUTRECALL => {
                nfs_cb_resop4::OP_CB_LAYOUTRECALL(CB_LAYOUTRECALL4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_NOTIFY => {
                nfs_cb_resop4::OP_CB_NOTIFY(CB_NOTIFY4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_PUSH_DELEG => {
                nfs_cb_resop4::OP_CB_PUSH_DELEG(CB_PUSH_DELEG4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALL_ANY => {
                nfs_cb_resop4::OP_CB_RECALL_ANY(CB_RECALL_ANY4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL => nfs_cb_resop4::OP_CB_RECALLABLE_OBJ_AVAIL(
                CB_RECALLABLE_OBJ_AVAIL4res::decode(input)?,
            ),
            nfs_cb_opnum4::OP_CB_RECALL_SLOT => {
                nfs_cb_resop4::OP_CB_RECALL_SLOT(CB_RECALL_SLOT4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_SEQUENCE => {
                nfs_cb_resop4::OP_CB_SEQUENCE(CB_SEQUENCE4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_WANTS_CANCELLED => {
                nfs_cb_resop4::OP_CB_WANTS_CANCELLED(CB_WANTS_CANCELLED4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_NOTIFY_LOCK => {
                nfs_cb_resop4::OP_CB_NOTIFY_LOCK(CB_NOTIFY_LOCK4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID => {
                nfs_cb_resop4::OP_CB_NOTIFY_DEVICEID(CB_NOTIFY_DEVICEID4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_OFFLOAD => {
                nfs_cb_resop4::OP_CB_OFFLOAD(CB_OFFLOAD4res::decode(input)?)
            }
            nfs_cb_opnum4::OP_CB_ILLEGAL => {
                nfs_cb_resop4::OP_CB_ILLEGAL(CB_ILLEGAL4res::decode(input)?)
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_COMPOUND4args {
    pub tag: utf8str_cs,
    pub minorversion: u32,
    pub callback_ident: u32,
    pub argarray: Vec<nfs_cb_argop4>,
}

impl Xdr for CB_COMPOUND4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.tag);
        out.u32(self.minorversion);
        out.u32(self.callback_ident);
        out.vec(u32::MAX, &self.argarray, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_COMPOUND4args {
            tag: input.opaque(u32::MAX)?,
            minorversion: input.u32()?,
            callback_ident: input.u32()?,
            argarray: input.vec(u32::MAX, 4, nfs_cb_argop4::decode)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CB_COMPOUND4res {
    pub status: nfsstat4,
    pub tag: utf8str_cs,
    pub resarray: Vec<nfs_cb_resop4>,
}

impl Xdr for CB_COMPOUND4res {
    fn encode(&self, out: &mut Encoder) {
        self.status.encode(out);
        out.opaque(u32::MAX, &self.tag);
        out.vec(u32::MAX, &self.resarray, |out, item| {
            item.encode(out);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(CB_COMPOUND4res {
            status: nfsstat4::decode(input)?,
            tag: input.opaque(u32::MAX)?,
            resarray: input.vec(u32::MAX, 8, nfs_cb_resop4::decode)?,
        })
    }
}

pub const NFS4_CALLBACK: u32 = 0x40000000;
pub const NFS_CB: u32 = 1;

pub struct CB_NULL;

impl Procedure for CB_NULL {
    const PROGRAM: u32 = NFS4_CALLBACK;
    const VERSION: u32 = NFS_CB;
    const NUMBER: u32 = 0;
    const NAME: &'static str = "CB_NULL";
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

pub struct CB_COMPOUND;

impl Procedure for CB_COMPOUND {
    const PROGRAM: u32 = NFS4_CALLBACK;
    const VERSION: u32 = NFS_CB;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "CB_COMPOUND";
    type Arguments = CB_COMPOUND4args;
    type Results = CB_COMPOUND4res;

    fn encode_arguments(it: &Self::Arguments, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError> {
        CB_COMPOUND4args::decode(input)
    }

    fn encode_results(it: &Self::Results, out: &mut Encoder) {
        it.encode(out);
    }

    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError> {
        CB_COMPOUND4res::decode(input)
    }
}

pub type xattrkey4 = component4;

pub type xattrvalue4 = Bytes;

pub type fattr4_xattr_support = bool;

pub const FATTR4_XATTR_SUPPORT: u32 = 82;

pub const ACCESS4_XAREAD: u32 = 64;

pub const ACCESS4_XAWRITE: u32 = 128;

pub const ACCESS4_XALIST: u32 = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GETXATTR4args {
    pub gxa_name: xattrkey4,
}

impl Xdr for GETXATTR4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.gxa_name);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(GETXATTR4args {
            gxa_name: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GETXATTR4res {
    NFS4_OK(xattrvalue4),
    /// Any other.
    default(nfsstat4),
}

impl GETXATTR4res {
    /// Which of them it is.
    pub fn gxr_status(&self) -> nfsstat4 {
        match self {
            GETXATTR4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            GETXATTR4res::default(other) => *other,
        }
    }
}

impl Xdr for GETXATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.gxr_status().encode(out);
        match self {
            GETXATTR4res::NFS4_OK(it) => {
                out.opaque(u32::MAX, it);
            }
            GETXATTR4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => GETXATTR4res::NFS4_OK(input.opaque(u32::MAX)?),
            other => GETXATTR4res::default(other),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum setxattr_option4 {
    SETXATTR4_EITHER = 0,
    SETXATTR4_CREATE = 1,
    SETXATTR4_REPLACE = 2,
}

impl setxattr_option4 {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<setxattr_option4> {
        Some(match value {
            0 => setxattr_option4::SETXATTR4_EITHER,
            1 => setxattr_option4::SETXATTR4_CREATE,
            2 => setxattr_option4::SETXATTR4_REPLACE,
            _ => return None,
        })
    }
}

impl Xdr for setxattr_option4 {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        setxattr_option4::from_wire(value).ok_or(DecodeError::Member {
            of: "setxattr_option4",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SETXATTR4args {
    pub sxa_option: setxattr_option4,
    pub sxa_key: xattrkey4,
    pub sxa_value: xattrvalue4,
}

impl Xdr for SETXATTR4args {
    fn encode(&self, out: &mut Encoder) {
        self.sxa_option.encode(out);
        out.opaque(u32::MAX, &self.sxa_key);
        out.opaque(u32::MAX, &self.sxa_value);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(SETXATTR4args {
            sxa_option: setxattr_option4::decode(input)?,
            sxa_key: input.opaque(u32::MAX)?,
            sxa_value: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SETXATTR4res {
    NFS4_OK(change_info4),
    /// Any other.
    default(nfsstat4),
}

impl SETXATTR4res {
    /// Which of them it is.
    pub fn sxr_status(&self) -> nfsstat4 {
        match self {
            SETXATTR4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            SETXATTR4res::default(other) => *other,
        }
    }
}

impl Xdr for SETXATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.sxr_status().encode(out);
        match self {
            SETXATTR4res::NFS4_OK(it) => {
                it.encode(out);
            }
            SETXATTR4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => SETXATTR4res::NFS4_OK(change_info4::decode(input)?),
            other => SETXATTR4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LISTXATTRS4args {
    pub lxa_cookie: nfs_cookie4,
    pub lxa_maxcount: count4,
}

impl Xdr for LISTXATTRS4args {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.lxa_cookie);
        out.u32(self.lxa_maxcount);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LISTXATTRS4args {
            lxa_cookie: input.u64()?,
            lxa_maxcount: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LISTXATTRS4resok {
    pub lxr_cookie: nfs_cookie4,
    pub lxr_names: Vec<xattrkey4>,
    pub lxr_eof: bool,
}

impl Xdr for LISTXATTRS4resok {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.lxr_cookie);
        out.vec(u32::MAX, &self.lxr_names, |out, item| {
            out.opaque(u32::MAX, item);
        });
        out.bool(self.lxr_eof);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(LISTXATTRS4resok {
            lxr_cookie: input.u64()?,
            lxr_names: input.vec(u32::MAX, 4, |input| input.opaque(u32::MAX))?,
            lxr_eof: input.bool()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LISTXATTRS4res {
    NFS4_OK(LISTXATTRS4resok),
    /// Any other.
    default(nfsstat4),
}

impl LISTXATTRS4res {
    /// Which of them it is.
    pub fn lxr_status(&self) -> nfsstat4 {
        match self {
            LISTXATTRS4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            LISTXATTRS4res::default(other) => *other,
        }
    }
}

impl Xdr for LISTXATTRS4res {
    fn encode(&self, out: &mut Encoder) {
        self.lxr_status().encode(out);
        match self {
            LISTXATTRS4res::NFS4_OK(it) => {
                it.encode(out);
            }
            LISTXATTRS4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => LISTXATTRS4res::NFS4_OK(LISTXATTRS4resok::decode(input)?),
            other => LISTXATTRS4res::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct REMOVEXATTR4args {
    pub rxa_name: xattrkey4,
}

impl Xdr for REMOVEXATTR4args {
    fn encode(&self, out: &mut Encoder) {
        out.opaque(u32::MAX, &self.rxa_name);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(REMOVEXATTR4args {
            rxa_name: input.opaque(u32::MAX)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum REMOVEXATTR4res {
    NFS4_OK(change_info4),
    /// Any other.
    default(nfsstat4),
}

impl REMOVEXATTR4res {
    /// Which of them it is.
    pub fn rxr_status(&self) -> nfsstat4 {
        match self {
            REMOVEXATTR4res::NFS4_OK(_) => nfsstat4::NFS4_OK,
            REMOVEXATTR4res::default(other) => *other,
        }
    }
}

impl Xdr for REMOVEXATTR4res {
    fn encode(&self, out: &mut Encoder) {
        self.rxr_status().encode(out);
        match self {
            REMOVEXATTR4res::NFS4_OK(it) => {
                it.encode(out);
            }
            REMOVEXATTR4res::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match nfsstat4::decode(input)? {
            nfsstat4::NFS4_OK => REMOVEXATTR4res::NFS4_OK(change_info4::decode(input)?),
            other => REMOVEXATTR4res::default(other),
        })
    }
}

/// Shows `visitor` the procedure with these numbers, if there is one.
pub fn visit<V: Visitor>(program: u32, version: u32, number: u32, visitor: V) -> Option<V::Output> {
    Some(match (program, version, number) {
        (NFSPROC4_NULL::PROGRAM, NFSPROC4_NULL::VERSION, NFSPROC4_NULL::NUMBER) => {
            visitor.visit::<NFSPROC4_NULL>()
        }
        (NFSPROC4_COMPOUND::PROGRAM, NFSPROC4_COMPOUND::VERSION, NFSPROC4_COMPOUND::NUMBER) => {
            visitor.visit::<NFSPROC4_COMPOUND>()
        }
        (CB_NULL::PROGRAM, CB_NULL::VERSION, CB_NULL::NUMBER) => visitor.visit::<CB_NULL>(),
        (CB_COMPOUND::PROGRAM, CB_COMPOUND::VERSION, CB_COMPOUND::NUMBER) => {
            visitor.visit::<CB_COMPOUND>()
        }
        _ => return None,
    })
}
