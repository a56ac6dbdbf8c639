//! What is under way of transactions in this reign. Nothing of it outlives the reign: a transaction of this
//! group's that is not decided then never is.

use crate::reign::Core;
use crate::revocations::Again;
use std::collections::{BTreeMap, BTreeSet};
use weft_env::Mono;
use weft_namespace::Locked;
use weft_types::{Epoch, GroupId, Ino, Operation, SessionId, TransactionId};

/// See the module.
#[derive(Default)]
pub(crate) struct Running {
    /// What this group's own transactions have locked here.
    pub own: Locked,
    last: u64,
    undecided: BTreeSet<TransactionId>,
    /// Changes that are transactions now, and copies of them that have come since.
    changes: BTreeMap<(SessionId, Operation), Vec<Again>>,
    /// Since when parts of other groups' transactions wait here for the outcome, or when it was asked for last.
    pub waiting: BTreeMap<TransactionId, Mono>,
}

impl Running {
    /// Numbers a new transaction.
    pub(super) fn begin(&mut self, home: GroupId, epoch: Epoch) -> TransactionId {
        self.last += 1;
        let id = TransactionId {
            home,
            epoch,
            number: self.last,
        };
        self.undecided.insert(id);
        id
    }

    /// It is decided, or given up.
    pub(super) fn end(&mut self, id: TransactionId) {
        self.undecided.remove(&id);
        self.own.free(id);
    }

    /// Nobody knows yet what becomes of it.
    pub(super) fn is_undecided(&self, id: TransactionId) -> bool {
        self.undecided.contains(&id)
    }

    /// Notes a change as being a transaction from now on. If it is one already `again` is kept, to be
    /// called when that has ended: false.
    pub(super) fn enter(
        &mut self,
        change: (SessionId, Operation),
        again: impl FnOnce() -> Again,
    ) -> bool {
        if let Some(copies) = self.changes.get_mut(&change) {
            copies.push(again());
            return false;
        }
        self.changes.insert(change, Vec::new());
        true
    }

    /// The change is no transaction any more. Answers what waited for that.
    pub(super) fn leave(&mut self, change: (SessionId, Operation)) -> Vec<Again> {
        self.changes.remove(&change).unwrap_or_default()
    }
}

impl Core {
    /// The transaction, of whatever group, that has locked this inode here or names in it.
    pub(crate) fn locked_by(&self, ino: Ino) -> Option<TransactionId> {
        self.state.locks(&self.running.own, ino)
    }
}
