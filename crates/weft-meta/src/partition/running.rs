//! What is under way of transactions in this reign. Nothing of it outlives the reign: a transaction of this
//! group's that is not decided then never is.

use crate::reign::Core;
use crate::revocations::Again;
use std::collections::BTreeMap;
use weft_env::Mono;
use weft_namespace::Locked;
use weft_types::{Epoch, GroupId, Ino, Operation, SessionId, TransactionId};

/// See the module.
#[derive(Default)]
pub(crate) struct Running {
    /// What this group's own transactions have locked here.
    pub own: Locked,
    last: u64,
    /// Since when each is attempted.
    undecided: BTreeMap<TransactionId, Mono>,
    /// Since when others are told of what is decided, or were begun to be told by this reign.
    decided: BTreeMap<TransactionId, Mono>,
    /// Changes that are transactions now, and copies of them that have come since.
    changes: BTreeMap<(SessionId, Operation), Vec<Again>>,
    /// Since when parts of other groups' transactions wait here for the outcome, or when it was asked for last.
    pub waiting: BTreeMap<TransactionId, Mono>,
}

impl Running {
    /// Numbers a new transaction.
    pub(super) fn begin(&mut self, home: GroupId, epoch: Epoch, now: Mono) -> TransactionId {
        self.last += 1;
        let id = TransactionId {
            home,
            epoch,
            number: self.last,
        };
        self.undecided.insert(id, now);
        id
    }

    /// It is decided, or given up.
    pub(super) fn end(&mut self, id: TransactionId) {
        self.undecided.remove(&id);
        self.own.free(id);
    }

    /// Nobody knows yet what becomes of it.
    pub(super) fn is_undecided(&self, id: TransactionId) -> bool {
        self.undecided.contains_key(&id)
    }

    /// Others are told of it from now on.
    pub(super) fn tells(&mut self, id: TransactionId, now: Mono) {
        self.decided.insert(id, now);
    }

    /// All have been told.
    pub(super) fn told(&mut self, id: TransactionId) {
        self.decided.remove(&id);
    }

    /// What this group has not decided yet, and since when each is attempted.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = (TransactionId, Mono)> + '_ {
        self.undecided.iter().map(|(id, since)| (*id, *since))
    }

    /// Since when others are told of what this group has decided.
    pub(crate) fn decided_at(&self, id: TransactionId) -> Option<Mono> {
        self.decided.get(&id).copied()
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
