//! What one side allows the other to make it keep.

use std::time::Duration;

/// Bounds of connections. `docs/protocols/nfs.md` says what happens at each.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the longest record.
    pub record_bytes: usize,
    /// Calls of a connection that are not answered.
    pub calls: usize,
    /// Bytes of a connection's replies and calls that are not sent.
    pub unsent_bytes: usize,
    /// Bytes of payload buffers, of all connections that share a pool.
    pub payload_bytes: usize,
    /// Connections of a server.
    pub connections: usize,
    /// For how long a peer may be silent in the middle of a record, or not take what is sent.
    pub stall: Duration,
    /// For how long nothing at all may happen on a connection.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // The largest WRITE that is offered to clients, and everything else of a COMPOUND.
            record_bytes: (1 << 20) + (64 << 10),
            // A Linux client has as many slots in a session.
            calls: 64,
            // Four of the largest READ replies, so that the socket does not run dry between two.
            unsent_bytes: 4 << 20,
            payload_bytes: 256 << 20,
            connections: 16_384,
            stall: Duration::from_secs(60),
            // As other servers do; clients connect again when they have something to ask.
            idle: Duration::from_secs(360),
        }
    }
}
