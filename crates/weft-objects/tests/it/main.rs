//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::single_range_in_vec_init,
    clippy::unwrap_used,
    reason = "tests"
)]

mod common;
mod compat;
mod crash;
mod faults;
mod store;
