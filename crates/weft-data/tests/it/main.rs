//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::single_range_in_vec_init,
    clippy::unwrap_used,
    reason = "tests"
)]

mod attending;
mod bed;
mod finding;
mod losses;
mod outages;
mod serving;
mod simulated;
mod simulated_groups;
