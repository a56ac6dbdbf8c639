//! What can go wrong in a store, by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use weft_types::ObjectId;

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done.
#[derive(Debug, Error)]
pub enum Error {
    /// Blocks whose content answers to neither of their checksums (or cannot be read at all). Fetch
    /// them from the twin, give them to [`crate::Store::fill`], and ask again.
    #[error("object {object}: {} bad blocks, first {}", blocks.len(), blocks.first().unwrap_or(&0))]
    BadBlocks {
        /// The object.
        object: ObjectId,
        /// Indices of the bad blocks in the object, ascending.
        blocks: Vec<u64>,
    },
    /// The operating system refused (ENOSPC, EIO, ...). What was acknowledged before is unharmed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The directory or a file in it is not what this version of Weft wrote. An operator must look.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The request cannot be served by any store: beyond [`crate::OBJECT_BYTES_MAX`].
    #[error("offset {offset} is beyond the largest object")]
    TooLarge {
        /// The end of what was asked for.
        offset: u64,
    },
    /// The request contradicts itself.
    #[error("refused: {0}")]
    Refused(&'static str),
}

impl Error {
    /// The Linux errno that an application is to see.
    pub fn errno(&self) -> i32 {
        match self {
            Error::BadBlocks { .. } | Error::Format { .. } => libc::EIO,
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::TooLarge { .. } => libc::EFBIG,
            Error::Refused(_) => libc::EINVAL,
        }
    }
}

/// Adds to an [`io::Error`] what was being done to which file.
pub(crate) trait IoContext<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing,
            path: path.to_owned(),
            source,
        })
    }
}
