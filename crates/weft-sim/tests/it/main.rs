//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::single_range_in_vec_init,
    clippy::unwrap_used,
    reason = "tests"
)]

mod bad_input;
mod ceft;
mod checkpoints;
mod cluster;
mod compounds;
mod coordinator;
mod crashes;
mod disk;
mod doubt;
mod forged;
mod fsck;
mod gates;
mod gateways;
mod gateways4;
mod group;
mod kernel_cache;
mod links;
mod listing;
mod mams;
mod members;
mod membership;
mod mutations;
mod net;
mod nfs;
mod nfs4;
mod nfs4_reclaim;
mod roaming;
mod silence;
mod slots;
mod slow;
mod spread;
mod store;
mod table3;
mod takeovers;
mod tokens;
mod world;
