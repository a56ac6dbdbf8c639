//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(clippy::disallowed_macros, clippy::unwrap_used, reason = "tests")]

mod close;
mod cluster;
mod finding;
mod groups;
mod protocols;
mod shared;
mod speed;
mod support;
