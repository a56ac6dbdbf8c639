//! The network probe: what the network between nodes carries, as parametrised LogP says it.
//!
//! A *peer* ([`serve`]) runs on each node. Who drives the measurement ([`Driver`]) asks peers over weft-rpc's
//! connections; they measure between each other over *lanes*, plain streams of weft-env, which are what Weft's own
//! transport uses. The driver's own link carries a few small frames and is not measured.
//!
//! Parameters are computed from samples by [`model`], and what they mean for a cluster by [`limit`]: both are pure. The
//! protocol, and whose method it is, is told in docs/protocols/bench-net.md.
//!
//! A crate of its own so that the simulator, where latency and rate are known, can run it.

mod bounds;
mod driver;
mod error;
mod lane;
pub mod limit;
pub mod model;
mod peer;

pub use bounds::{MESSAGE_BYTES_MAX, PEERS_MAX, ROUNDS_MAX, RUN_NANOS_MAX};
pub use driver::{Carried, Driver, Flow, Plan, Route};
pub use error::{Error, Result};
pub use peer::{Serving, serve};

/// The version of the probe's messages and lanes. Peers of another one are refused.
pub const VERSION: u32 = 1;
