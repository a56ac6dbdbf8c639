//! Headers of calls and replies, and credentials.

use bytes::Bytes;
use thiserror::Error;
use weft_xdr::rpc::{accept_stat, auth_flavor, auth_stat, authsys_parms, msg_type};
use weft_xdr::rpc::{reject_stat, reply_stat};
use weft_xdr::{DecodeError, Decoder, Encoder, Xdr};

/// The version of the RPC protocol, the only one there is.
pub(crate) const RPC_VERSION: u32 = 2;
/// Bytes of a credential's or verifier's body (RFC 5531, section 8.2).
const AUTH_BYTES_MAX: u32 = 400;

/// Who a caller says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Nobody.
    None,
    /// A user of the caller's machine, as that machine says.
    Sys(authsys_parms),
}

/// The head of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallHeader {
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub credential: Credential,
}

/// What a record begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A call that is served or refused.
    Call(u32, Result<CallHeader, Denied>),
    /// A reply to a call of ours.
    Reply(u32),
}

/// Why a call is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    RpcVersion,
    Auth(auth_stat),
}

/// A record that is no message: who sends this does not speak RPC.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// It ends before its header does.
    #[error("a record is no RPC message: {0}")]
    Decode(#[from] DecodeError),
    /// Neither call nor reply.
    #[error("a record is neither call nor reply, but {0}")]
    Type(u32),
}

fn auth(
    input: &mut Decoder,
    too_long: auth_stat,
) -> Result<(u32, Result<Bytes, Denied>), DecodeError> {
    let flavor = input.u32()?;
    match input.opaque(AUTH_BYTES_MAX) {
        Ok(body) => Ok((flavor, Ok(body))),
        Err(DecodeError::TooLong { .. }) => Ok((flavor, Err(Denied::Auth(too_long)))),
        Err(error) => Err(error),
    }
}

impl Credential {
    /// A flavour that is not known is refused as a bad credential, as other servers do: this is also the answer for a
    /// client that asks whether TLS is spoken.
    fn of(flavor: u32, body: Bytes) -> Result<Credential, Denied> {
        let bad = Denied::Auth(auth_stat::AUTH_BADCRED);
        match i32::try_from(flavor).ok().and_then(auth_flavor::from_wire) {
            Some(auth_flavor::AUTH_NONE) => Ok(Credential::None),
            Some(auth_flavor::AUTH_SYS) => authsys_parms::from_bytes(body)
                .map(Credential::Sys)
                .map_err(|_| bad),
            _ => Err(bad),
        }
    }

    fn encode(&self, out: &mut Encoder) {
        match self {
            Credential::None => encode_none(out),
            Credential::Sys(user) => {
                auth_flavor::AUTH_SYS.encode(out);
                out.opaque(AUTH_BYTES_MAX, &user.to_bytes());
            }
        }
    }
}

/// AUTH_NONE, as a credential or a verifier.
fn encode_none(out: &mut Encoder) {
    auth_flavor::AUTH_NONE.encode(out);
    out.u32(0);
}

impl Header {
    /// Takes a record's header.
    pub(crate) fn decode(input: &mut Decoder) -> Result<Header, HeaderError> {
        let xid = input.u32()?;
        match input.u32()? {
            kind if kind == msg_type::REPLY as u32 => return Ok(Header::Reply(xid)),
            kind if kind == msg_type::CALL as u32 => {}
            kind => return Err(HeaderError::Type(kind)),
        }
        if input.u32()? != RPC_VERSION {
            return Ok(Header::Call(xid, Err(Denied::RpcVersion)));
        }
        let (program, version, procedure) = (input.u32()?, input.u32()?, input.u32()?);
        let (flavor, body) = auth(input, auth_stat::AUTH_BADCRED)?;
        let credential = match body.and_then(|body| Credential::of(flavor, body)) {
            Ok(credential) => credential,
            Err(denied) => return Ok(Header::Call(xid, Err(denied))),
        };
        if let (_, Err(denied)) = auth(input, auth_stat::AUTH_BADVERF)? {
            return Ok(Header::Call(xid, Err(denied)));
        }
        let header = CallHeader {
            program,
            version,
            procedure,
            credential,
        };
        Ok(Header::Call(xid, Ok(header)))
    }
}

/// Whether these bytes begin with the header of a message. For fuzzing: it must say so of any bytes.
///
/// # Errors
/// If they do not.
pub fn header_of(bytes: Bytes) -> Result<(), HeaderError> {
    Header::decode(&mut Decoder::new(bytes)).map(|_| ())
}

/// Where a call's arguments begin: program, version, procedure and the place. None if these bytes do not say.
pub(crate) fn arguments_of(head: &[u8]) -> Option<(u32, u32, u32, usize)> {
    let word = |at: usize| {
        let bytes = head.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*bytes))
    };
    // xid, type, RPC version, program, version, procedure, credential, verifier.
    if word(4)? != msg_type::CALL as u32 {
        return None;
    }
    let mut at = 24;
    for _ in 0..2 {
        let length = word(at + 4)?;
        if length > AUTH_BYTES_MAX {
            return None;
        }
        at += 8 + (length as usize).next_multiple_of(4);
    }
    Some((word(12)?, word(16)?, word(20)?, at))
}

/// Appends a call's header; its arguments follow.
pub(crate) fn encode_call(
    xid: u32,
    (program, version, procedure): (u32, u32, u32),
    credential: &Credential,
    out: &mut Encoder,
) {
    out.u32(xid);
    msg_type::CALL.encode(out);
    for word in [RPC_VERSION, program, version, procedure] {
        out.u32(word);
    }
    credential.encode(out);
    encode_none(out);
}

/// Appends the header of a reply to a call that was looked at; results follow if it succeeded.
pub(crate) fn encode_accepted(xid: u32, outcome: accept_stat, out: &mut Encoder) {
    out.u32(xid);
    msg_type::REPLY.encode(out);
    reply_stat::MSG_ACCEPTED.encode(out);
    encode_none(out);
    outcome.encode(out);
}

/// Appends the reply to a call that was not looked at.
pub(crate) fn encode_denied(xid: u32, denied: Denied, out: &mut Encoder) {
    out.u32(xid);
    msg_type::REPLY.encode(out);
    reply_stat::MSG_DENIED.encode(out);
    match denied {
        Denied::RpcVersion => {
            reject_stat::RPC_MISMATCH.encode(out);
            out.u32(RPC_VERSION);
            out.u32(RPC_VERSION);
        }
        Denied::Auth(why) => {
            reject_stat::AUTH_ERROR.encode(out);
            why.encode(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_xdr::rpc;

    fn written(write: impl FnOnce(&mut Encoder)) -> rpc::rpc_msg {
        let mut out = Encoder::default();
        write(&mut out);
        rpc::rpc_msg::from_bytes(out.joined()).unwrap()
    }

    fn reply(xid: u32, body: rpc::reply_body) -> rpc::rpc_msg {
        let body = rpc::rpc_msg_body::REPLY(body);
        rpc::rpc_msg { xid, body }
    }

    fn none() -> rpc::opaque_auth {
        rpc::opaque_auth {
            flavor: auth_flavor::AUTH_NONE,
            body: Bytes::new(),
        }
    }

    /// Headers are written and read by hand, so that a bad credential is not a bad message; what is good must be what
    /// the RFC's definition says.
    #[test]
    fn headers_are_what_the_definition_says() {
        let user = authsys_parms {
            stamp: 1,
            machinename: Bytes::from_static(b"host"),
            uid: 2,
            gid: 3,
            gids: vec![4, 5],
        };
        for credential in [Credential::None, Credential::Sys(user)] {
            let cred = match &credential {
                Credential::None => none(),
                Credential::Sys(user) => rpc::opaque_auth {
                    flavor: auth_flavor::AUTH_SYS,
                    body: user.to_bytes(),
                },
            };
            let message = rpc::rpc_msg {
                xid: 9,
                body: rpc::rpc_msg_body::CALL(rpc::call_body {
                    rpcvers: 2,
                    prog: 10,
                    vers: 11,
                    proc: 12,
                    cred,
                    verf: none(),
                }),
            };
            assert_eq!(
                written(|out| encode_call(9, (10, 11, 12), &credential, out)),
                message
            );
            let bytes = message.to_bytes();
            assert_eq!(arguments_of(&bytes), Some((10, 11, 12, bytes.len())));
            for length in 0..bytes.len() {
                let place = arguments_of(&bytes[..length]);
                assert!(
                    place.is_none_or(|(.., at)| at > length),
                    "{length}: {place:?}"
                );
            }
            let header = CallHeader {
                program: 10,
                version: 11,
                procedure: 12,
                credential,
            };
            let decoded = Header::decode(&mut Decoder::new(bytes));
            assert_eq!(decoded, Ok(Header::Call(9, Ok(header))));
        }
        let outcome = rpc::accepted_reply_reply_data::default(accept_stat::GARBAGE_ARGS);
        assert_eq!(
            written(|out| encode_accepted(9, accept_stat::GARBAGE_ARGS, out)),
            reply(
                9,
                rpc::reply_body::MSG_ACCEPTED(rpc::accepted_reply {
                    verf: none(),
                    reply_data: outcome
                })
            )
        );
        let low_high = rpc::rejected_reply_mismatch_info { low: 2, high: 2 };
        for (denied, rejected) in [
            (
                Denied::RpcVersion,
                rpc::rejected_reply::RPC_MISMATCH(low_high),
            ),
            (
                Denied::Auth(auth_stat::AUTH_BADCRED),
                rpc::rejected_reply::AUTH_ERROR(auth_stat::AUTH_BADCRED),
            ),
        ] {
            assert_eq!(
                written(|out| encode_denied(9, denied, out)),
                reply(9, rpc::reply_body::MSG_DENIED(rejected))
            );
        }
    }
}
