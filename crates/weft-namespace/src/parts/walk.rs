//! The way up from a directory: whether it lies within another one.

use crate::state::State;
use weft_types::{Ino, ROOT_INO, TransactionId};

/// Where a way up has led.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// To the directory that was sought.
    Found,
    /// To the root, or to a directory that is not there any more.
    Ended,
    /// To this directory, which is another group's.
    Elsewhere(Ino),
    /// To one that this transaction is moving.
    Moving(TransactionId),
}

impl Walk {
    pub(super) fn is_elsewhere(self) -> bool {
        matches!(self, Walk::Elsewhere(_))
    }
}

impl State {
    /// Goes up from a directory of this group until it meets the one that is sought, as far as this
    /// group's directories go.
    pub(super) fn walk_up(&self, from: Ino, sought: Ino) -> Walk {
        let mut at = from;
        loop {
            if at == sought {
                return Walk::Found;
            }
            if at == ROOT_INO {
                return Walk::Ended;
            }
            if !self.slots.has(at.slot()) {
                return Walk::Elsewhere(at);
            }
            match self.directory(at) {
                Ok((_, directory)) => at = directory.parent,
                Err(_) => return Walk::Ended,
            }
        }
    }

    /// The same for a transaction: it does not go past a directory that another one is about to move, in
    /// the state or in `own`.
    pub fn walk(&self, own: &super::Locked, from: Ino, sought: Ino, by: TransactionId) -> Walk {
        let mut at = from;
        loop {
            // The one that is sought is locked by who seeks.
            if at == sought {
                return Walk::Found;
            }
            let moving = self.locked.moving(at).or_else(|| own.moving(at));
            if let Some(other) = moving.filter(|other| *other != by) {
                return Walk::Moving(other);
            }
            let Ok((_, directory)) = self.directory(at) else {
                break;
            };
            if at == ROOT_INO {
                break;
            }
            at = directory.parent;
        }
        self.walk_up(at, sought)
    }
}
