//! Requests over weft-env's streams: many at a time on one connection, in both directions.
//!
//! A [`Connection`] begins with a handshake (protocol version, cluster, identity). After it both
//! sides may send requests and answer the other's; frames arrive in the order in which they were
//! sent. A dropped call is forgotten, not cancelled: its effect is unknown to the caller.
//!
//! Deadlines and retries belong to callers, who know what a request means; see
//! `Env::timeout`.

mod connection;
mod doubt;
mod listen;
mod search;

pub use connection::{CallError, Connection, Gate, Handler, Payload, Replier, Request};
pub use doubt::while_active;
pub use listen::{Local, Strangers, connect, is_misplaced, serve, serve_task};
pub use search::{Attempts, PATIENCE_BEFORE_NEXT, PAUSE_MIN, Search, Step, Terms};
