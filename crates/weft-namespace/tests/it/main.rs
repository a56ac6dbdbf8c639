//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod checkpoints;
mod garbage;
mod groups;
mod model;
mod paths;
mod slots;
mod spread;
mod transactions;
