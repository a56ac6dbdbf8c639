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
    /// Another process has the directory's store open.
    #[error(
        "{}: another server runs in this directory. Give this one a directory of its own, or stop that one first",
        .0.display()
    )]
    Locked(PathBuf),
    /// The directory is not that of this server. Nothing was changed.
    #[error("{}: {reason}", path.display())]
    Misplaced {
        /// The directory.
        path: PathBuf,
        /// What was found, what was expected, and what to do.
        reason: String,
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

/// What an error of the operating system says about the disk. One table: [`Failure::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Something cannot be read. What the twin has can still be told.
    Read,
    /// Something cannot be written: what the twin is given now, this store will not have.
    Write,
    /// What was written before may be gone, though it was acknowledged: the kernel may have dropped it, and
    /// tells so once only. No later sync can be believed.
    Sync,
}

/// Errors by which the disk does as it should, and does not fail.
const NOT_OF_THE_DISK: [(i32, &str); 8] = [
    // What fits is for the application to decide: it may remove something. The twin is as full, mostly.
    (libc::ENOSPC, "the file system is full"),
    (
        libc::EDQUOT,
        "the quota of whom the server runs as is used up",
    ),
    (libc::EFBIG, "longer than the file system lets a file be"),
    // This process lacks something for a moment. It will do if it is tried again.
    (libc::EMFILE, "the process has too many files open"),
    (libc::ENFILE, "the machine has too many files open"),
    (libc::ENOMEM, "the machine lacks memory"),
    (libc::EINTR, "interrupted"),
    (libc::EAGAIN, "not now"),
];

/// What is done to a file without changing it, as [`Error::Io`] calls it.
const READING: [&str; 5] = ["open", "read", "stat", "seek in", "list"];

impl Failure {
    /// What this error says. `None`: nothing against the disk.
    ///
    /// Whatever is not known to be harmless counts, EIO as EROFS (a file system that has given up), EUCLEAN,
    /// ENODEV or EACCES: a member that cannot do what it is told is of no use, whyever, and its twin can.
    fn of(doing: &str, source: &io::Error) -> Option<Failure> {
        let errno = source.raw_os_error().unwrap_or(libc::EIO);
        if NOT_OF_THE_DISK.iter().any(|(known, _)| *known == errno) {
            return None;
        }
        Some(match doing {
            // It was opened to be written, too.
            _ if errno == libc::EROFS => Failure::Write,
            doing if READING.contains(&doing) => Failure::Read,
            "sync" => Failure::Sync,
            _ => Failure::Write,
        })
    }
}

/// Whether a read failed for what is at that place: another place, and the twin, may do.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error().is_some() && Failure::of("read", error) == Some(Failure::Read)
}

impl Error {
    /// The disk does not do what it is told; how.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Error::Io { doing, source, .. } => Failure::of(doing, source),
            _ => None,
        }
    }

    /// The Linux errno that an application is to see.
    pub fn errno(&self) -> i32 {
        match self {
            Error::BadBlocks { .. }
            | Error::Format { .. }
            | Error::Locked(_)
            | Error::Misplaced { .. } => libc::EIO,
            // What else a disk says is about this store's files, of which applications know nothing.
            Error::Io { source, .. } => match source.raw_os_error() {
                Some(
                    told @ (libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EROFS | libc::ENOMEM),
                ) => told,
                _ => libc::EIO,
            },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_say_of_the_disk() {
        use Failure::{Read, Sync, Write};
        for (doing, errno, says) in [
            ("write", libc::ENOSPC, None),
            ("sync", libc::EDQUOT, None),
            ("open", libc::EMFILE, None),
            ("write", libc::EIO, Some(Write)),
            ("punch", libc::EROFS, Some(Write)),
            ("open", libc::EROFS, Some(Write)),
            ("make", libc::EACCES, Some(Write)),
            ("remove", libc::EUCLEAN, Some(Write)),
            ("open", libc::EIO, Some(Read)),
            ("read", libc::ENODATA, Some(Read)),
            ("sync", libc::EIO, Some(Sync)),
        ] {
            let error = Error::Io {
                doing,
                path: "x".into(),
                source: io::Error::from_raw_os_error(errno),
            };
            assert_eq!(error.failure(), says, "{error}");
        }
    }
}
