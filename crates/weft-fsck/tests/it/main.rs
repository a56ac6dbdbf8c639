//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::disallowed_macros,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod cluster;
mod damage;
mod repair;
