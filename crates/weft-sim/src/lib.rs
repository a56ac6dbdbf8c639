//! A whole cluster inside one thread, from one seed.
//!
//! [`World`] is `weft-env` simulated: an executor with virtual time that picks among ready tasks at
//! random, a network of byte streams with delays and cuts, disks that keep apart what is written
//! and what survives a power cut. Nothing in it depends on the machine, on addresses or on the
//! order of a hash map: the same seed gives the same run, event by event, and [`World::digest`]
//! says so.
//!
//! What runs inside is the real code of servers and clients; it cannot tell the difference.

pub mod ceft;
pub mod cluster;
mod coordinator;
mod disk;
mod driver;
mod executor;
pub mod growth;
pub mod invariants;
pub mod kernel;
mod logs;
pub mod mams;
mod net;
pub mod oracle;
mod rng;
mod world;

pub use cluster::faults::{Happened, Kind as Fault};
pub use cluster::run::{Options, Report, run};
pub use coordinator::{CoordinatorClient, CoordinatorFaults, CoordinatorService, SimCoordinator};
pub use disk::{Disk, DiskCopy, DiskFaults};
pub use logs::{LogLine, Logs, current_place};
pub use net::{Link, Network, Pace};
pub use rng::Rng;
pub use world::{Clock, Node, World};
