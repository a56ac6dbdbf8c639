//! Why a metadata server does not start.

use thiserror::Error;
use weft_coordinator::CoordinatorError;
use weft_journal::JournalError;

/// By what the caller can do.
#[derive(Debug, Error)]
pub enum MetaError {
    /// A setting cannot work: change it.
    #[error("settings: {0}")]
    Settings(String),
    /// Journal or images cannot be read or written: the message says what to do.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The view cannot be had, or another server took the lead.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    /// This server is not to run in this directory: another one does, or the directory is not the member's, or the
    /// server is no member of its group any more. Nothing was changed, and being started again does not help.
    #[error("{0}")]
    Refused(String),
    /// What was read makes no sense: an operator must look.
    #[error("{0}")]
    Corrupt(String),
    /// An address cannot be listened on, or a directory not be used.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// As the operating system said it.
        source: std::io::Error,
    },
}
