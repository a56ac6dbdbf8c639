//! The name space as the journal says, while another member leads.

use crate::startup;
use std::collections::VecDeque;
use weft_namespace::State;
use weft_types::Sn;
use weft_wire::proto::Batch;

/// Batches that are applied at a time before others may work.
pub(super) const APPLIED_AT_ONCE: usize = 4;

/// See the module. It applies what the member has taken, committed or not.
pub(super) struct Follower {
    state: State,
    /// The last batch that it has applied.
    applied: Sn,
    /// What follows, in order.
    waiting: VecDeque<Batch>,
    /// Time of the last entry, in nanoseconds since 1970.
    last_time: i128,
}

impl Follower {
    pub(super) fn new(state: State, applied: Sn, last_time: i128) -> Follower {
        Follower {
            state,
            applied,
            waiting: VecDeque::new(),
            last_time,
        }
    }

    /// The journal goes on with this batch.
    pub(super) fn push(&mut self, batch: Batch) {
        self.waiting.push_back(batch);
    }

    /// What is after `sn` is discarded. False: some of it has been applied.
    pub(super) fn cut_after(&mut self, sn: Sn) -> bool {
        while self.waiting.pop_back_if(|last| last.sn > sn.0).is_some() {}
        self.applied <= sn
    }

    /// Applies some of what waits. False: nothing does.
    pub(super) fn apply_some(&mut self) -> bool {
        for _ in 0..APPLIED_AT_ONCE {
            let Some(batch) = self.waiting.pop_front() else {
                return false;
            };
            self.last_time = self.last_time.max(startup::replay(&mut self.state, &batch));
            self.applied = Sn(batch.sn);
        }
        true
    }

    /// The state after the last batch, and the time of its last entry.
    pub(super) fn into_state(mut self) -> (State, i128) {
        while self.apply_some() {}
        (self.state, self.last_time)
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn applied(&self) -> Sn {
        self.applied
    }
}
