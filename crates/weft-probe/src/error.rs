//! Why nothing was measured, by what the user can do about it.

use thiserror::Error;

/// What the probe returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why nothing was measured.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// Nobody listens there, or cannot be reached: start a peer, or open the port.
    #[error(
        "no peer answers at {address}: {why}. Start one there: weft bench net serve --listen {address}"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        why: String,
    },
    /// Something else of Weft's is there: a cluster's servers are not measured.
    #[error(
        "{address} is a {what} of a cluster, not a peer of the probe: start one beside it, on another port: \
         weft bench net serve --listen HOST:PORT"
    )]
    NotAPeer {
        /// Where.
        address: String,
        /// What it is.
        what: &'static str,
    },
    /// Another build: take the same one on both.
    #[error("{address}: {why}. Use the same build of weft on all nodes")]
    Version {
        /// Where.
        address: String,
        /// Both versions.
        why: String,
    },
    /// A peer cannot reach another, or lost it.
    #[error("{from}: {why}")]
    Between {
        /// The peer that was to send.
        from: String,
        /// What it said.
        why: String,
    },
    /// A peer was there and is no more.
    #[error("{address} went away: {why}")]
    Lost {
        /// Where.
        address: String,
        /// What is known.
        why: String,
    },
    /// What was asked for cannot be measured.
    #[error("{0}")]
    Asked(String),
    /// The other side of a lane does not speak as a peer does, or is too late.
    #[error("{peer}: {why}")]
    Lane {
        /// The other side.
        peer: String,
        /// What it did.
        why: String,
    },
}
