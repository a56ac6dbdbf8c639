//! The agreed record of who is what: the view, and the services that can keep it.
//!
//! A coordinator keeps one [`View`] and changes it only by compare-and-set on its version, so that of
//! two servers that both want to lead one loses. Metadata servers take their epoch here and record
//! the addresses of data servers; nothing is asked from it while a cluster runs undisturbed.
//!
//! [`Embedded`] keeps the view in a file beside a single metadata server. Other services implement
//! [`Coordinator`] and pass [`suite::run`].

mod embedded;
pub mod suite;

pub use embedded::Embedded;

use futures_util::future::LocalBoxFuture;
use thiserror::Error;
use weft_wire::proto::View;

/// Why the view was not read or changed, by what the caller can do.
#[derive(Debug, Error)]
pub enum CoordinatorError {
    /// Someone else changed the view first: look at it again.
    #[error("the view has version {current} meanwhile")]
    Conflict {
        /// The version it has now.
        current: u64,
    },
    /// The service does not answer or cannot write: whether the view was changed is unknown.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
    /// What it keeps is no view of this version of Weft, or was changed by something else.
    #[error("{0}")]
    Corrupt(String),
}

/// Keeps the view.
pub trait Coordinator {
    /// The view; one of version 0 with nothing in it if none was ever set.
    fn view(&self) -> LocalBoxFuture<'_, Result<View, CoordinatorError>>;

    /// Replaces the view if its version is still the one below `view.version`.
    fn compare_and_set(&self, view: View) -> LocalBoxFuture<'_, Result<(), CoordinatorError>>;

    /// Returns the view once its version is above `version`.
    fn watch(&self, version: u64) -> LocalBoxFuture<'_, Result<View, CoordinatorError>>;
}
