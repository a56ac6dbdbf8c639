//! The agreed record of who is what, the view, and the services that can keep it.
//!
//! A coordinator keeps one [`View`] and changes it only by compare-and-set on its version, so that of
//! two servers that both want to lead one loses. Besides, processes announce themselves for as long as
//! they live. Metadata servers take their epoch here and record the addresses of data servers; nothing
//! is asked from it while a cluster runs undisturbed. The life of a change and of an announcement is
//! told in docs/protocols/coordinator.md.
//!
//! [`Embedded`] keeps the view in a file, for the processes of one machine; [`Etcd`] and
//! [`ZooKeeper`] keep it in those services; [`connect`] chooses by a string. What is hard about it
//! (outcomes that are unknown, watches that miss nothing) is done once, in [`ViewKeeper`], over the few
//! operations that a [`Service`] has. Every coordinator passes [`suite::run`].
//!
//! The clients of etcd and ZooKeeper open their sockets themselves, beside `weft-env`: there is no door
//! for a library's connections. So these two work in the real world only. Time, tasks and randomness are
//! `weft-env`'s here as everywhere, and the simulator has a service of its own under the same keeper.

mod announcement;
mod embedded;
mod etcd;
mod keeper;
#[cfg(test)]
mod keeper_tests;
mod name;
mod place;
mod record;
mod service;
pub mod suite;
mod zookeeper;

pub use announcement::{Announcement, Holder};
pub use embedded::Embedded;
pub use etcd::Etcd;
pub use keeper::ViewKeeper;
pub use place::{Limits, Place, Servers, connect};
pub use record::{decode, written_by};
pub use service::{Listing, Record, Reply, Service, Unanswered};
pub use zookeeper::ZooKeeper;

use futures_util::future::LocalBoxFuture;
use std::collections::BTreeMap;
use thiserror::Error;
use weft_wire::proto::View;

/// Why a coordinator did not do what it was asked, by what the caller can do.
#[derive(Debug, Error)]
pub enum CoordinatorError {
    /// Someone else changed the view first: look at it again.
    #[error("the view has version {current} meanwhile")]
    Conflict {
        /// The version it has now.
        current: u64,
    },
    /// The service does not answer. Nothing was changed: ask again.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
    /// A change was sent and not answered. It may have been made, and may yet be made: read the view and
    /// ask [`written_by`].
    #[error("whether version {version} of the view was written is unknown: {why}")]
    Unknown {
        /// The version that was to be written.
        version: u64,
        /// What it was marked with.
        mark: u64,
        /// What happened instead of an answer.
        why: String,
    },
    /// The name is announced: wait with [`Coordinator::watch_announced`] until it is not.
    #[error("{name:?} is announced by another process, or by an earlier life of this one")]
    Taken {
        /// The name.
        name: String,
    },
    /// What the service keeps is no view of this version of Weft, or was changed by something else.
    #[error("{0}")]
    Corrupt(String),
    /// The view has grown beyond what every service takes.
    #[error("a view of {bytes} bytes is larger than the {max} that a coordinator takes")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// What was asked makes no sense; the message says what does.
    #[error("{0}")]
    Settings(String),
}

/// What a coordinator's operations return.
pub type Answer<'a, T> = LocalBoxFuture<'a, Result<T, CoordinatorError>>;

/// Who is announced: the incarnation of each name.
pub type Announced = BTreeMap<String, u64>;

/// Keeps the view, and a list of who is there.
///
/// A handle belongs to one thread. Operations may run side by side on one handle. Unless said otherwise
/// they end within the time that the handle was opened with ([`Limits`], 5 s by default).
pub trait Coordinator {
    /// The view; one of version 0 with nothing in it if none was ever set.
    ///
    /// It shows every change that was answered before the call (for ZooKeeper see
    /// docs/protocols/coordinator.md) and is never older than what this handle has told before.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    fn view(&self) -> Answer<'_, View>;

    /// Why the view could not be read when that was tried last. `None`: it could, or has not been tried. Who watches tries every
    /// few seconds.
    fn trouble(&self) -> Option<String>;

    /// Replaces the view if its version is still the one below `view.version`, and returns it as it was
    /// written: with the marks by which it can be known again ([`written_by`]). Marks that the caller
    /// passes do not count.
    ///
    /// Of several calls with the same version, from whichever handles, at most one succeeds. An answer
    /// that was lost is found out here as long as time allows. Dropping the future leaves the outcome
    /// unknown.
    ///
    /// # Errors
    /// `Conflict`, `Unavailable`, `Corrupt`, `TooLarge`: nothing was or will be changed. `Unknown`: it may
    /// have been changed, or may yet be.
    fn compare_and_set(&self, view: View) -> Answer<'_, View>;

    /// Returns the view once its version is above `version`: the newest that there is, of several
    /// changes only the last. However long that takes: it waits as well while the service does not
    /// answer.
    ///
    /// # Errors
    /// `Corrupt`.
    fn watch(&self, version: u64) -> Answer<'_, View>;

    /// Announces `name` (1 to 80 letters, digits and `-_./:`) until the announcement is dropped or this
    /// process is gone, in the latter case for up to `term_ms` milliseconds longer. Services have bounds
    /// and steps for that: the term in force is the announcement's.
    ///
    /// # Errors
    /// `Taken`: another announcement of that name stands. `Unavailable`: it was not announced, but the
    /// name may be taken for a term. `Settings`: the name cannot be used.
    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement>;

    /// Who is announced. It shows what was announced or withdrawn before the call.
    ///
    /// # Errors
    /// `Unavailable`.
    fn announced(&self) -> Answer<'_, Announced>;

    /// Returns who is announced once that differs from `known`. However long that takes: it waits as
    /// well while the service does not answer. Who comes and goes between two calls may not be seen; who
    /// goes and comes back is, by a greater incarnation.
    ///
    /// # Errors
    /// None that is not said to be for good: it goes on by itself.
    fn watch_announced<'a>(&'a self, known: &'a Announced) -> Answer<'a, Announced>;
}
