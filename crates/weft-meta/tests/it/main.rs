//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests"
)]

mod compat;
mod disk;
mod images;
mod leases;
mod metrics;
mod names;
mod pairs;
mod partition;
mod support;
