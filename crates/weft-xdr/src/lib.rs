//! XDR (RFC 4506), and the types of the protocols that are written in it: remote procedure calls, port mapper, MOUNT,
//! NFS and the flexible files layout.
//!
//! The types are written by `cargo xtask xdr` from the RFCs' definitions (`x/`), under the RFCs' names. What a decoder
//! returns holds slices of the record that it was decoded from: names, handles and data are never copied. Nothing here
//! trusts a length: see [`Decoder`].
//!
//! This crate knows nothing: no socket, no clock, no other crate of Weft's.

pub mod again;
mod decode;
mod encode;
mod generated;

pub use decode::{DecodeError, Decoder};
pub use encode::{CUT_BYTES, Encoder};
pub use generated::{flexfiles, mount3, nfs3, nfs4, portmap2, rpc};

use bytes::Bytes;

/// A type that XDR describes.
pub trait Xdr: Sized {
    /// Appends it.
    fn encode(&self, out: &mut Encoder);

    /// Takes it from the input.
    ///
    /// # Errors
    /// If the input is no such thing.
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError>;

    /// The value that these bytes are, all of them.
    ///
    /// # Errors
    /// If they are no such thing, or more than it.
    fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut input = Decoder::new(bytes);
        let value = Self::decode(&mut input)?;
        input.finish()?;
        Ok(value)
    }

    /// Its bytes.
    fn to_bytes(&self) -> Bytes {
        let mut out = Encoder::default();
        self.encode(&mut out);
        out.joined()
    }
}

/// A remote procedure: its numbers, and what goes in and out.
pub trait Procedure {
    /// The program's number.
    const PROGRAM: u32;
    /// The version's.
    const VERSION: u32;
    /// Its own.
    const NUMBER: u32;
    /// For logs.
    const NAME: &'static str;
    /// What a call brings.
    type Arguments: PartialEq + std::fmt::Debug;
    /// What it returns.
    type Results: PartialEq + std::fmt::Debug;

    /// Appends arguments.
    fn encode_arguments(arguments: &Self::Arguments, out: &mut Encoder);
    /// Takes arguments from the input.
    ///
    /// # Errors
    /// If the input is no such thing.
    fn decode_arguments(input: &mut Decoder) -> Result<Self::Arguments, DecodeError>;
    /// Appends results.
    fn encode_results(results: &Self::Results, out: &mut Encoder);
    /// Takes results from the input.
    ///
    /// # Errors
    /// If the input is no such thing.
    fn decode_results(input: &mut Decoder) -> Result<Self::Results, DecodeError>;
}

/// Something to do with a procedure that is known by its numbers only.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<P: Procedure>(self) -> Self::Output;
}
