//! What uses this crate from outside to test it, in one program: each program more would be linked with everything again.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests"
)]

mod bench_net;
mod checkpoints;
mod crash_points;
mod dev;
mod founding;
mod group;
mod groups;
mod handles;
mod kills;
mod losses;
mod mount_helper;
mod nfs;
mod ordinary_user;
mod pages;
mod posix;
mod programs;
mod relayout;
mod reliability;
mod repair;
mod settings;
mod slots;
mod spread;
mod stream;
mod support;
mod trial;
mod two_mounts;
