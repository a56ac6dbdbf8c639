//! The FUSE face: kernel requests become calls of weft-client, answers go back. Little else.
//!
//! A mount is one thread: it reads the kernel's device, runs the client and writes the replies.
//! [`fs`] translates operations, [`translate`] numbers, [`errno`] failures, [`abi`] knows the
//! kernel's messages, [`kernel`] is what is wanted of a kernel, [`device`] and [`notify`] the real one,
//! [`invalidate`] makes it forget what a lease no longer covers, [`metrics`] counts, [`owners`] knows
//! whose locks end with a close, [`narrow`] shows numbers that fit into 32 bits, [`mountpoint`]
//! mounts ([`occupied`]: what is there before, [`refused`]: why it cannot, [`table`]: what is mounted), [`run`] is a mount's
//! life.
//!
//! Kept true: what the kernel keeps, a lease covers (docs/protocols/leases.md, "The kernel's
//! cache"); every request gets one answer; nothing here waits for the kernel on the client's
//! thread. What POSIX gets from a mount is in docs/posix.md.

pub mod abi;
mod aliases;
mod believed;
mod callers;
pub mod departures;
pub mod device;
pub mod errno;
mod fills;
pub mod fs;
mod gone;
pub mod holds;
pub mod invalidate;
pub mod kernel;
mod listed;
pub mod metrics;
pub mod mountpoint;
mod narrow;
pub mod notify;
pub mod occupied;
mod owners;
mod refused;
pub mod run;
mod settings;
mod sizes;
pub mod table;
mod told;
pub mod translate;
mod uncached;

pub use run::{MountError, run, serve};
pub use settings::{Options, Settings};
