//! Why a command failed, by what the user can do about it, and the exit code that says so.

use std::io;
use std::path::Path;
use thiserror::Error;

/// What commands return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command failed. The message says what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// The command line or a configuration file is wrong: change it. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// No server answered: start the cluster, or name another one. Exit code 3.
    #[error("{0}")]
    Unreachable(String),
    /// The command ran and found the cluster not as it should be. Exit code 4.
    #[error("{0}")]
    Unsound(String),
    /// This server is not to run in this directory. Nothing was changed, and nobody need start it again before somebody
    /// has done what the message says. Exit code 5.
    #[error("{0}")]
    Refused(String),
    /// What `weft health` has told already, and the exit code for that.
    #[error("the cluster is not well")]
    Verdict(u8),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The answer.
        source: io::Error,
    },
    /// Another group has what was asked about: ask that one. Exit code 1.
    #[error("slot {slot} has moved to group {group}: ask again")]
    Moved {
        /// The slot.
        slot: u32,
        /// Who has it.
        group: u32,
    },
    /// Anything else. Exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// What the process ends with: 1 failed, 2 wrong usage, 3 no cluster, 4 found unsound, 5 refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Io { .. } | Error::Moved { .. } | Error::Failed(_) => 1,
            Error::Usage(_) => 2,
            Error::Unreachable(_) => 3,
            Error::Unsound(_) => 4,
            Error::Refused(_) => 5,
            Error::Verdict(code) => *code,
        }
    }
}

/// Says what was tried when the operating system refused.
pub trait Tried<T> {
    /// `what` as in "cannot read weft.toml".
    fn tried(self, what: impl FnOnce() -> String) -> Result<T>;

    /// As `tried`, with a path at the end.
    fn tried_on(self, what: &str, path: &Path) -> Result<T>
    where
        Self: Sized,
    {
        self.tried(|| format!("{what} {}", path.display()))
    }
}

impl<T> Tried<T> for io::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what(),
            source,
        })
    }
}

impl<T> Tried<T> for rustix::io::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(io::Error::from).tried(what)
    }
}
