//! What goes over a connection: frames, messages, the handshake. Bytes in, messages out; no socket.
//!
//! The messages are generated from `proto/` (the one definition, also for other languages); the
//! frame is drawn in [`frame`].

/// What stands in `ChecksumsReply` where a block has no checksum.
pub mod checksum {
    /// A hole; so are blocks beyond the last one that is named.
    pub const HOLE: u32 = 0;
    /// A block whose content does not match its checksum.
    pub const BAD: u32 = 1;
}
pub mod frame;
mod message;

/// Messages generated from `proto/*.proto`.
#[allow(clippy::all, clippy::disallowed_types, missing_docs)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/weft.rs"));
}

pub use frame::{Frame, FrameError, HEADER_BYTES, Header, Kind};
pub use message::{
    ADDRESS_BYTES_MAX, Failed, MEMBERS_MAX, Rpc, bounded_addresses, decodes, method_name,
};

/// The version of the protocol that this build speaks. A peer with another one is refused.
pub const PROTOCOL_VERSION: u32 = 1;
