//! The metadata server: a member of a replica group. While it leads, one owner loop drives the name space
//! (`weft-namespace`), the leases of clients and the pairs of data servers (`weft-pair`); every change is in
//! the journals (`weft-journal`) of a majority of the group (`weft-group`) before anybody is told of it.
//!
//! Everything runs on one thread. Requests are handled to their end where they arrive; what has to wait
//! (for a commit, for a lease to come back) is put aside with what it needs to go on. The life of a
//! create, from here to the journal, is told in `docs/protocols/a-create.md`; what members do, in
//! `docs/protocols/members.md`.

mod changes;
mod checkpoints;
mod committer;
mod contention;
mod crash_points;
mod dealing;
mod deletions;
mod error;
mod expiry;
mod founding;
mod group;
mod health;
mod images;
mod jobs;
mod leases;
mod lingering;
mod locks;
mod losses;
mod metrics;
mod pairs;
mod partition;
mod ranges;
mod reads;
mod reign;
mod remnants;
mod repair;
mod revocations;
mod server;
mod sessions;
mod settings;
mod settle;
mod slots;
mod spread;
mod startup;
mod status;
mod survey;

pub use committer::Refusals;
pub use crash_points::CRASH_POINTS;
pub use error::MetaError;
pub use founding::{found, found_with, is_founded};
pub use metrics::METRICS;
pub use server::{Gone, Server, start, start_with};
pub use settings::{GroupTerms, JournalSettings, PairSettings, Settings};
pub use startup::on_disk;
