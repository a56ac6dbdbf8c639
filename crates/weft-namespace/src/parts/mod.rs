//! Transactions between groups: what one group checks, locks and does of them
//! (`docs/protocols/transactions.md`).
//!
//! A part is checked when it is prepared, and cannot fail afterwards: what it has found is locked
//! until it takes effect or is void.

mod blocked;
mod check;
mod effect;
mod locked;
mod plan;
mod spans;
mod split;
mod spread;
mod walk;

pub use locked::Locked;
pub use plan::{Plan, Step, told};
pub use walk::Walk;

use crate::inode::Stamp;
use std::collections::BTreeMap;
use weft_types::{Epoch, GroupId, Ino, TransactionId};
use weft_wire::proto::{self, FileKind};

/// An inode of another group that entries of this one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign {
    pub kind: FileKind,
    /// Derived: entries that name it.
    pub names: u32,
}

/// A part that waits for the outcome of its transaction, and when it was prepared.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Prepared {
    pub part: proto::Part,
    pub time: Stamp,
}

/// Inodes of other groups, by number.
pub(crate) type Foreigners = BTreeMap<Ino, Foreign>;

/// The number of a transaction as messages have it. None: it makes no sense.
pub fn transaction_of(id: Option<&proto::TransactionId>) -> Option<TransactionId> {
    let id = id.filter(|id| id.epoch > 0 && id.number > 0)?;
    Some(TransactionId {
        home: GroupId(id.home),
        epoch: Epoch(id.epoch),
        number: id.number,
    })
}

/// The same for messages.
pub fn transaction_to(id: TransactionId) -> proto::TransactionId {
    proto::TransactionId {
        home: id.home.0,
        epoch: id.epoch.0,
        number: id.number,
    }
}
