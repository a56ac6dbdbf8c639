//! Why a journal or image cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What went wrong, by what the caller can do.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The disk is full. Nothing was appended; appending again may succeed when there is room.
    #[error("{path}: no room left: {source}")]
    Full {
        /// The file.
        path: PathBuf,
        /// ENOSPC or EDQUOT.
        source: io::Error,
    },
    /// The disk failed. Whether the last append will be read back is unknown; nothing more is
    /// appended by this process.
    #[error("{path}: {action}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// As the operating system said it.
        source: io::Error,
    },
    /// The content is not what was written. An operator must decide.
    #[error("{path} is damaged at byte {offset}: {what}. {advice}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the part begins that is not as it was written.
        offset: u64,
        /// What is wrong.
        what: String,
        /// What can be done.
        advice: String,
    },
    /// The file belongs to another cluster or group, or was written by a newer version.
    #[error("{path}: {what}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        what: String,
    },
    /// What was asked for cannot be done with what is there. Nothing was changed; another member's
    /// image and batches may help.
    #[error("{path}: {what}")]
    Refused {
        /// The directory.
        path: PathBuf,
        /// Why not.
        what: String,
    },
}

impl JournalError {
    /// Sorts an error of the operating system.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> JournalError {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => JournalError::Full { path, source },
            _ => JournalError::Io {
                path,
                action,
                source,
            },
        }
    }

    /// What becomes of an error after some of several changes were made: never `Full`, which would
    /// say that nothing happened.
    pub(crate) fn half_done(self) -> JournalError {
        match self {
            JournalError::Full { path, source } => JournalError::Io {
                path,
                action: "changing the journal",
                source,
            },
            other => other,
        }
    }
}
