//! Remote procedure calls, version 2 (RFC 5531), and AUTH_SYS.
//!
//! Written by `cargo xtask xdr` from `x/rpc.x`: change these, not this.

#![allow(non_camel_case_types, missing_docs)]

use crate::{DecodeError, Decoder, Encoder, Xdr};
use bytes::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum auth_flavor {
    AUTH_NONE = 0,
    AUTH_SYS = 1,
    AUTH_SHORT = 2,
    AUTH_DH = 3,
    RPCSEC_GSS = 6,
}

impl auth_flavor {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<auth_flavor> {
        Some(match value {
            0 => auth_flavor::AUTH_NONE,
            1 => auth_flavor::AUTH_SYS,
            2 => auth_flavor::AUTH_SHORT,
            3 => auth_flavor::AUTH_DH,
            6 => auth_flavor::RPCSEC_GSS,
            _ => return None,
        })
    }
}

impl Xdr for auth_flavor {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        auth_flavor::from_wire(value).ok_or(DecodeError::Member {
            of: "auth_flavor",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct opaque_auth {
    pub flavor: auth_flavor,
    /// At most 400 bytes.
    pub body: Bytes,
}

impl Xdr for opaque_auth {
    fn encode(&self, out: &mut Encoder) {
        self.flavor.encode(out);
        out.opaque(400, &self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(opaque_auth {
            flavor: auth_flavor::decode(input)?,
            body: input.opaque(400)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum msg_type {
    CALL = 0,
    REPLY = 1,
}

impl msg_type {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<msg_type> {
        Some(match value {
            0 => msg_type::CALL,
            1 => msg_type::REPLY,
            _ => return None,
        })
    }
}

impl Xdr for msg_type {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        msg_type::from_wire(value).ok_or(DecodeError::Member {
            of: "msg_type",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum reply_stat {
    MSG_ACCEPTED = 0,
    MSG_DENIED = 1,
}

impl reply_stat {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<reply_stat> {
        Some(match value {
            0 => reply_stat::MSG_ACCEPTED,
            1 => reply_stat::MSG_DENIED,
            _ => return None,
        })
    }
}

impl Xdr for reply_stat {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        reply_stat::from_wire(value).ok_or(DecodeError::Member {
            of: "reply_stat",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum accept_stat {
    SUCCESS = 0,
    PROG_UNAVAIL = 1,
    PROG_MISMATCH = 2,
    PROC_UNAVAIL = 3,
    GARBAGE_ARGS = 4,
    SYSTEM_ERR = 5,
}

impl accept_stat {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<accept_stat> {
        Some(match value {
            0 => accept_stat::SUCCESS,
            1 => accept_stat::PROG_UNAVAIL,
            2 => accept_stat::PROG_MISMATCH,
            3 => accept_stat::PROC_UNAVAIL,
            4 => accept_stat::GARBAGE_ARGS,
            5 => accept_stat::SYSTEM_ERR,
            _ => return None,
        })
    }
}

impl Xdr for accept_stat {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        accept_stat::from_wire(value).ok_or(DecodeError::Member {
            of: "accept_stat",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum reject_stat {
    RPC_MISMATCH = 0,
    AUTH_ERROR = 1,
}

impl reject_stat {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<reject_stat> {
        Some(match value {
            0 => reject_stat::RPC_MISMATCH,
            1 => reject_stat::AUTH_ERROR,
            _ => return None,
        })
    }
}

impl Xdr for reject_stat {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        reject_stat::from_wire(value).ok_or(DecodeError::Member {
            of: "reject_stat",
            value,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum auth_stat {
    AUTH_OK = 0,
    AUTH_BADCRED = 1,
    AUTH_REJECTEDCRED = 2,
    AUTH_BADVERF = 3,
    AUTH_REJECTEDVERF = 4,
    AUTH_TOOWEAK = 5,
    AUTH_INVALIDRESP = 6,
    AUTH_FAILED = 7,
    AUTH_KERB_GENERIC = 8,
    AUTH_TIMEEXPIRE = 9,
    AUTH_TKT_FILE = 10,
    AUTH_DECODE = 11,
    AUTH_NET_ADDR = 12,
    RPCSEC_GSS_CREDPROBLEM = 13,
    RPCSEC_GSS_CTXPROBLEM = 14,
}

impl auth_stat {
    /// The member with this value on the wire.
    pub const fn from_wire(value: i32) -> Option<auth_stat> {
        Some(match value {
            0 => auth_stat::AUTH_OK,
            1 => auth_stat::AUTH_BADCRED,
            2 => auth_stat::AUTH_REJECTEDCRED,
            3 => auth_stat::AUTH_BADVERF,
            4 => auth_stat::AUTH_REJECTEDVERF,
            5 => auth_stat::AUTH_TOOWEAK,
            6 => auth_stat::AUTH_INVALIDRESP,
            7 => auth_stat::AUTH_FAILED,
            8 => auth_stat::AUTH_KERB_GENERIC,
            9 => auth_stat::AUTH_TIMEEXPIRE,
            10 => auth_stat::AUTH_TKT_FILE,
            11 => auth_stat::AUTH_DECODE,
            12 => auth_stat::AUTH_NET_ADDR,
            13 => auth_stat::RPCSEC_GSS_CREDPROBLEM,
            14 => auth_stat::RPCSEC_GSS_CTXPROBLEM,
            _ => return None,
        })
    }
}

impl Xdr for auth_stat {
    fn encode(&self, out: &mut Encoder) {
        out.i32(*self as i32);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = input.i32()?;
        auth_stat::from_wire(value).ok_or(DecodeError::Member {
            of: "auth_stat",
            value,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum rpc_msg_body {
    CALL(call_body),
    REPLY(reply_body),
}

impl rpc_msg_body {
    /// Which of them it is.
    pub fn mtype(&self) -> msg_type {
        match self {
            rpc_msg_body::CALL(_) => msg_type::CALL,
            rpc_msg_body::REPLY(_) => msg_type::REPLY,
        }
    }
}

impl Xdr for rpc_msg_body {
    fn encode(&self, out: &mut Encoder) {
        self.mtype().encode(out);
        match self {
            rpc_msg_body::CALL(it) => {
                it.encode(out);
            }
            rpc_msg_body::REPLY(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match msg_type::decode(input)? {
            msg_type::CALL => rpc_msg_body::CALL(call_body::decode(input)?),
            msg_type::REPLY => rpc_msg_body::REPLY(reply_body::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct rpc_msg {
    pub xid: u32,
    pub body: rpc_msg_body,
}

impl Xdr for rpc_msg {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.xid);
        self.body.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(rpc_msg {
            xid: input.u32()?,
            body: rpc_msg_body::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct call_body {
    pub rpcvers: u32,
    pub prog: u32,
    pub vers: u32,
    pub proc: u32,
    pub cred: opaque_auth,
    pub verf: opaque_auth,
}

impl Xdr for call_body {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.rpcvers);
        out.u32(self.prog);
        out.u32(self.vers);
        out.u32(self.proc);
        self.cred.encode(out);
        self.verf.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(call_body {
            rpcvers: input.u32()?,
            prog: input.u32()?,
            vers: input.u32()?,
            proc: input.u32()?,
            cred: opaque_auth::decode(input)?,
            verf: opaque_auth::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum reply_body {
    MSG_ACCEPTED(accepted_reply),
    MSG_DENIED(rejected_reply),
}

impl reply_body {
    /// Which of them it is.
    pub fn stat(&self) -> reply_stat {
        match self {
            reply_body::MSG_ACCEPTED(_) => reply_stat::MSG_ACCEPTED,
            reply_body::MSG_DENIED(_) => reply_stat::MSG_DENIED,
        }
    }
}

impl Xdr for reply_body {
    fn encode(&self, out: &mut Encoder) {
        self.stat().encode(out);
        match self {
            reply_body::MSG_ACCEPTED(it) => {
                it.encode(out);
            }
            reply_body::MSG_DENIED(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match reply_stat::decode(input)? {
            reply_stat::MSG_ACCEPTED => reply_body::MSG_ACCEPTED(accepted_reply::decode(input)?),
            reply_stat::MSG_DENIED => reply_body::MSG_DENIED(rejected_reply::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct accepted_reply_mismatch_info {
    pub low: u32,
    pub high: u32,
}

impl Xdr for accepted_reply_mismatch_info {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.low);
        out.u32(self.high);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(accepted_reply_mismatch_info {
            low: input.u32()?,
            high: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum accepted_reply_reply_data {
    SUCCESS([u8; 0]),
    PROG_MISMATCH(accepted_reply_mismatch_info),
    /// Any other.
    default(accept_stat),
}

impl accepted_reply_reply_data {
    /// Which of them it is.
    pub fn stat(&self) -> accept_stat {
        match self {
            accepted_reply_reply_data::SUCCESS(_) => accept_stat::SUCCESS,
            accepted_reply_reply_data::PROG_MISMATCH(_) => accept_stat::PROG_MISMATCH,
            accepted_reply_reply_data::default(other) => *other,
        }
    }
}

impl Xdr for accepted_reply_reply_data {
    fn encode(&self, out: &mut Encoder) {
        self.stat().encode(out);
        match self {
            accepted_reply_reply_data::SUCCESS(it) => {
                out.fixed(it);
            }
            accepted_reply_reply_data::PROG_MISMATCH(it) => {
                it.encode(out);
            }
            accepted_reply_reply_data::default(_) => {}
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match accept_stat::decode(input)? {
            accept_stat::SUCCESS => accepted_reply_reply_data::SUCCESS(input.fixed::<0>()?),
            accept_stat::PROG_MISMATCH => accepted_reply_reply_data::PROG_MISMATCH(
                accepted_reply_mismatch_info::decode(input)?,
            ),
            other => accepted_reply_reply_data::default(other),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct accepted_reply {
    pub verf: opaque_auth,
    pub reply_data: accepted_reply_reply_data,
}

impl Xdr for accepted_reply {
    fn encode(&self, out: &mut Encoder) {
        self.verf.encode(out);
        self.reply_data.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(accepted_reply {
            verf: opaque_auth::decode(input)?,
            reply_data: accepted_reply_reply_data::decode(input)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct rejected_reply_mismatch_info {
    pub low: u32,
    pub high: u32,
}

impl Xdr for rejected_reply_mismatch_info {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.low);
        out.u32(self.high);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(rejected_reply_mismatch_info {
            low: input.u32()?,
            high: input.u32()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum rejected_reply {
    RPC_MISMATCH(rejected_reply_mismatch_info),
    AUTH_ERROR(auth_stat),
}

impl rejected_reply {
    /// Which of them it is.
    pub fn stat(&self) -> reject_stat {
        match self {
            rejected_reply::RPC_MISMATCH(_) => reject_stat::RPC_MISMATCH,
            rejected_reply::AUTH_ERROR(_) => reject_stat::AUTH_ERROR,
        }
    }
}

impl Xdr for rejected_reply {
    fn encode(&self, out: &mut Encoder) {
        self.stat().encode(out);
        match self {
            rejected_reply::RPC_MISMATCH(it) => {
                it.encode(out);
            }
            rejected_reply::AUTH_ERROR(it) => {
                it.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match reject_stat::decode(input)? {
            reject_stat::RPC_MISMATCH => {
                rejected_reply::RPC_MISMATCH(rejected_reply_mismatch_info::decode(input)?)
            }
            reject_stat::AUTH_ERROR => rejected_reply::AUTH_ERROR(auth_stat::decode(input)?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct authsys_parms {
    pub stamp: u32,
    /// At most 255 bytes.
    pub machinename: Bytes,
    pub uid: u32,
    pub gid: u32,
    /// At most 16.
    pub gids: Vec<u32>,
}

impl Xdr for authsys_parms {
    fn encode(&self, out: &mut Encoder) {
        out.u32(self.stamp);
        out.opaque(255, &self.machinename);
        out.u32(self.uid);
        out.u32(self.gid);
        out.vec(16, &self.gids, |out, item| {
            out.u32(*item);
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(authsys_parms {
            stamp: input.u32()?,
            machinename: input.opaque(255)?,
            uid: input.u32()?,
            gid: input.u32()?,
            gids: input.vec(16, 4, Decoder::u32)?,
        })
    }
}
