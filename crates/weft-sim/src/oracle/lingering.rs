//! Inodes without a name, where clients are mounts (`docs/protocols/leases.md`, "What the kernel still has").
//!
//! A kernel comes with the number of an inode that it holds, whatever became of the name. For a second at least the
//! inode is there for it; from the first operation on that was done it is there as long as the kernel holds it. After
//! that it is either there as it was, or gone: then it has attributes that the mount makes up (a ghost), and nothing in
//! it.
//!
//! Keeps true: whatever is read of such an inode is what it holds; no name leads to it.

use super::history::{ClientId, Kind, Op, Record, Reply};
use super::model::{Effect, GONE, Id, State};

/// An inode that has lost its last name lingers for as long as this, unless a session ends.
const LINGERS: u64 = 1_000_000_000;

/// What is known of a history in which inodes linger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lingering {
    /// The first end of a session, which lets go at once of what that one alone held.
    first_end: u64,
}

impl Lingering {
    /// None: no client is a mount.
    pub(super) fn of(records: &[Record]) -> Option<Lingering> {
        let ends = |record: &&Record| matches!(record.op, Op::Loses | Op::Dies | Op::SessionEnds);
        let begun = records.iter().filter(ends).map(|record| record.invoked);
        records
            .iter()
            .any(|record| record.by_kernel)
            .then(|| Lingering {
                first_end: begun.min().unwrap_or(u64::MAX),
            })
    }
}

impl State {
    /// It stays though nobody has it open: a mount may come with its number.
    pub(super) fn may_linger(&self, id: Id) -> bool {
        self.lingering.is_some() && self.get(id).kind != Kind::Directory
    }

    /// It may have gone for this client: what that one is told of its attributes is made up.
    pub(super) fn may_be_ghost(&self, client: ClientId, id: Id) -> bool {
        self.lingering.is_some() && self.get(id).names == 0 && !self.has_open(client, id)
    }

    /// Whoever asks may have an inode without a name kept for it.
    pub(super) fn may_claim(&self, record: &Record) -> bool {
        self.lingering.is_some() && record.by_kernel
    }

    /// A change of mode that only the mount itself may have noted.
    pub(super) fn may_be_done_by_a_ghost(&self, record: &Record) -> bool {
        let Op::Chmod { ino, .. } = record.op else {
            return false;
        };
        let id = self.find(ino);
        record.by_kernel && id.is_ok_and(|id| self.may_be_ghost(record.client, id))
    }

    /// Whoever keeps the number of an inode that nobody has open, as no kernel does, is told what means nothing: of the
    /// inode, if it is still there, or of none.
    pub(super) fn means_nothing(&self, record: &Record) -> bool {
        let found = record.op.inode().map(|ino| self.find(ino));
        let is_nobodys = |id: Id| self.get(id).names == 0 && !self.is_open(id);
        let Some(Ok(id)) = found else {
            return false;
        };
        self.lingering.is_some() && !record.by_kernel && is_nobodys(id)
    }

    /// What an operation does to an inode without a name that its caller does not have open, where that differs
    /// from what it does to any.
    pub(super) fn of_nameless(&self, record: &Record, reply: Option<&Reply>) -> Option<Effect> {
        let lingering = self.lingering?;
        if let (Op::List { dir }, Some(Reply::Listing(seen))) = (&record.op, reply) {
            // In a directory that is gone there is nothing.
            let is_gone = record.by_kernel && self.find(*dir).is_err();
            return (is_gone && seen.is_empty()).then(|| Ok(self.clone()));
        }
        let id = self.find(record.op.inode()?).ok()?;
        let inode = self.get(id);
        if inode.names > 0 || self.has_open(record.client, id) {
            return None;
        }
        let Some(Reply::Error(errno)) = reply else {
            return None;
        };
        if !GONE.contains(errno) || matches!(record.op, Op::Link { .. }) {
            return None;
        }
        let by_number = matches!(
            record.op,
            Op::Open { .. } | Op::Getattr { .. } | Op::Chmod { .. } | Op::Truncate { .. }
        );
        let must_be_there = record.by_kernel
            && by_number
            && record.returned < inode.left_at.saturating_add(LINGERS)
            && record.returned < lingering.first_end;
        Some(Err(match must_be_there {
            true => Vec::new(),
            false => GONE.to_vec(),
        }))
    }
}
