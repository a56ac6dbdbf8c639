//! The name space of one replica group as a pure state machine: `apply(state, entry) -> reply`.
//!
//! No I/O, no clock, no randomness, no async: times, random bits and everything else that could
//! differ between two servers stand in the entry. Who applies the same entries to the same state has
//! the same state and has given the same replies; `digest` tells whether that is so.
//!
//! The metadata server drives it. The active, for each change of a client:
//! 1. asks [`State::answered`] whether it has been done, and then answers that;
//! 2. asks [`State::touches`] what other sessions may have cached of it, and revokes that first;
//! 3. makes an entry of it and calls [`State::apply`];
//! 4. journals the entry **whatever the reply was**: a refused change is kept in the session's
//!    replies too, and a replica that had not seen it would differ;
//! 5. answers when the entry is committed.
//!
//! Restarts and other members call `apply` with the entries of the journal, upon [`State::load`] of
//! an image. Entries may hold anything: what makes no sense is refused with an errno, and a reply
//! with `failure_errno` set means that nothing has changed (but for that reply being kept).
//!
//! One file per operation under `ops/`; each first checks everything, in the order of Linux's VFS so
//! that the errno is the one that Linux gives, and then commits without being able to fail.

mod access;
mod checkpoints;
#[cfg(feature = "damage")]
mod damage;
mod directory;
mod errno;
mod image;
mod inode;
mod layouts;
mod lingering;
mod locks;
mod moves;
mod names;
mod opens;
mod ops;
mod parts;
mod read;
mod remnants;
mod resolve;
mod restoring;
mod sessions;
mod slots;
mod spread;
mod state;
mod survey;
#[cfg(test)]
mod tests;

pub use access::{EXECUTE, READ, WRITE};
pub use checkpoints::{CHECKPOINT_NAME_MAX, CHECKPOINTS_MAX};
pub use errno::Errno;
pub use image::{ImageCheck, ImageError, Loader, Records};
pub use layouts::WIDTH_MAX;
pub use locks::LOCKS_MAX;
pub use moves::{Candidate, Cursor, ENDED_JOBS_MAX, JOBS_MAX, Look, Usage};
pub use opens::OPENS_MAX;
pub use ops::Touch;
pub use ops::repair::{LOST_AND_FOUND, repaired};
pub use ops::setxattr::{XATTR_LIST_MAX, XATTR_NAME_MAX, XATTR_TOTAL_MAX, XATTR_VALUE_MAX};
pub use parts::{Locked, Plan, Step, Walk, told, transaction_of, transaction_to};
pub use read::{Deletion, SessionSummary, Statistics};
pub use resolve::Resolved;
pub use sessions::{REPLIES_MAX, SESSION_NAME_MAX};
pub use slots::{Attempt, Given, Hashes, Key, Places, slot_of};
pub use state::{DIRECTORY_LINKS_MAX, LINKS_MAX, Life, State};

use weft_wire::proto::OpReply;

/// The reply of a change that was refused.
pub(crate) fn failure(errno: Errno) -> OpReply {
    OpReply {
        failure_errno: errno.0 as u32,
        ..OpReply::default()
    }
}
