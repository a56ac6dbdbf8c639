//! What the members of a pair know of what this client writes under one session. They keep it by session:
//! what was said under one says nothing of another's writes.

use crate::announced::Announced;
use std::cell::Cell;

/// Of one pair, under the session with one group.
#[derive(Default)]
pub(crate) struct Written {
    /// Where both members know that this client writes.
    pub announced: Announced,
    /// Highest number of a client-driven change that has ended.
    pub driven: Cell<u64>,
    /// Somebody sees to it that a member hears that it has.
    pub confirming: [Cell<bool>; 2],
}
