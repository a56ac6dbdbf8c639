//! The data server: keeps objects in a directory, mirrors what it is written to its twin, serves
//! reads, brings a twin that returns up to date.
//!
//! One owner loop in one thread drives the pure crates over weft-env: weft-pair says what this
//! member may do (docs/protocols/pairs.md), weft-objects keeps the bytes. The binary starts a
//! server with [`start`] and stops it by [`Server::stop`]; the metadata service decides everything
//! else over the connections that `registration.rs` and `attend.rs` keep.
//!
//! | file | what it is about |
//! |---|---|
//! | `server.rs` | the server as a whole: its state in force, who is asked what |
//! | `place.rs` | a place for an empty directory |
//! | `life.rs` | by what an older copy of the store is known |
//! | `contact.rs` | the connection to the active of a replica group |
//! | `registration.rs` | the first group, which decides about the pair: registering, beats |
//! | `attend.rs` | the other groups |
//! | `orders.rs` | what a group may order |
//! | `disk.rs` | what it has found of its disk, and what follows when that fails |
//! | `link.rs` | the connection to the twin |
//! | `locks.rs` | which operations on an object may run at the same time |
//! | `marks.rs` | which regions may differ from the twin, and when that is over |
//! | `sessions.rs` | which clients are refused |
//! | `write.rs` | what this member leads: writes, shapes, removals, syncs |
//! | `forward.rs` | what the twin asks |
//! | `gone.rs` | what somebody else cut off an object's file, or removed with it |
//! | `read.rs` | reads and maps; healing of bad blocks |
//! | `settle.rs` | making a region equal on both members |
//! | `recovery.rs` | bringing the twin up to date |
//! | `fence.rs` | the end of a session |
//! | `scrub.rs` | looking for bad blocks and for copies that differ |

mod alone;
mod attend;
mod contact;
mod disk;
mod fence;
mod forward;
mod gone;
mod intake;
mod life;
mod link;
mod listed;
mod locks;
mod losses;
mod marks;
mod metrics;
mod orders;
mod owed;
mod place;
mod read;
mod recovery;
mod registration;
mod runs;
mod scrub;
mod server;
mod sessions;
mod settings;
mod settle;
mod tools;
mod write;

pub use server::{DataError, Server, start};
pub use settings::Settings;
