//! Which operations on an object may run at the same time.
//!
//! Operations take byte ranges, in the order in which they arrived; those that share a byte wait
//! for one another unless both only read. An operation of the twin's waits only for those that have
//! begun, not for those that wait: what waits here has not been sent to the twin, so that the
//! order is the same on both members.
//!
//! Two operations that share a byte, one led by each member, would wait for each other for ever:
//! each holds the range at home and asks for it at the other's. Then member 0 answers the request
//! of member 1 with EDEADLK, and member 1 lets go and begins again ([`Locks::would_deadlock`]).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use tokio::sync::Notify;
use weft_types::{BLOCK_BYTES, ObjectId};

/// All of an object.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;

/// On whose behalf a range is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads for a client of this member.
    Read,
    /// A change that this member leads; the twin will be asked for the same range.
    Led,
    /// A change that the twin leads.
    TwinChange,
    /// The twin reads.
    TwinRead,
}

impl Kind {
    fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::TwinRead)
    }

    fn of_twin(self) -> bool {
        matches!(self, Kind::TwinChange | Kind::TwinRead)
    }
}

struct Entry {
    spans: Vec<Range<u64>>,
    kind: Kind,
    granted: Cell<bool>,
    wake: Notify,
}

impl Entry {
    fn conflicts(&self, other: &Entry) -> bool {
        !(self.kind.reads() && other.kind.reads()) && overlap(&self.spans, &other.spans)
    }
}

fn overlap(a: &[Range<u64>], b: &[Range<u64>]) -> bool {
    a.iter()
        .any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end))
}

/// The whole blocks that a byte range touches.
pub(crate) fn blocks_around(start: u64, end: u64) -> Range<u64> {
    let end = end
        .checked_next_multiple_of(BLOCK_BYTES)
        .unwrap_or(u64::MAX);
    start / BLOCK_BYTES * BLOCK_BYTES..end
}

type Queue = VecDeque<Rc<Entry>>;

/// The operations that run or wait, by object.
#[derive(Clone, Default)]
pub(crate) struct Locks(Rc<RefCell<BTreeMap<ObjectId, Queue>>>);

impl Locks {
    /// Takes a place in the queue. The ranges are held once [`Ticket::granted`] returns, until the
    /// ticket is dropped.
    pub fn enqueue(&self, object: ObjectId, spans: Vec<Range<u64>>, kind: Kind) -> Ticket {
        let entry = Rc::new(Entry {
            spans,
            kind,
            granted: Cell::new(false),
            wake: Notify::new(),
        });
        let mut objects = self.0.borrow_mut();
        let queue = objects.entry(object).or_default();
        queue.push_back(entry.clone());
        entry.granted.set(may_begin(queue, queue.len() - 1));
        drop(objects);
        Ticket {
            locks: self.clone(),
            object,
            entry,
        }
    }

    /// An operation of the twin's on these ranges would wait for one that this member leads and
    /// that has begun.
    pub fn would_deadlock(&self, object: ObjectId, spans: &[Range<u64>], kind: Kind) -> bool {
        let objects = self.0.borrow();
        objects.get(&object).is_some_and(|queue| {
            queue.iter().any(|entry| {
                entry.kind == Kind::Led
                    && entry.granted.get()
                    && !(kind.reads() && entry.kind.reads())
                    && overlap(&entry.spans, spans)
            })
        })
    }
}

/// The entry at `at` waits for nobody.
fn may_begin(queue: &Queue, at: usize) -> bool {
    let entry = &queue[at];
    queue.iter().enumerate().all(|(i, other)| {
        if i == at || !entry.conflicts(other) {
            return true;
        }
        if other.granted.get() {
            return false;
        }
        // Neither has begun: the earlier one goes first, but the twin's go before ours.
        match (entry.kind.of_twin(), other.kind.of_twin()) {
            (true, false) => true,
            (false, true) => false,
            _ => i > at,
        }
    })
}

/// A place in the queue of an object.
pub(crate) struct Ticket {
    locks: Locks,
    object: ObjectId,
    entry: Rc<Entry>,
}

impl Ticket {
    /// Returns when the ranges are held.
    pub async fn granted(&self) {
        while !self.entry.granted.get() {
            self.entry.wake.notified().await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut objects = self.locks.0.borrow_mut();
        let Some(queue) = objects.get_mut(&self.object) else {
            return;
        };
        queue.retain(|entry| !Rc::ptr_eq(entry, &self.entry));
        if queue.is_empty() {
            objects.remove(&self.object);
            return;
        }
        // The twin's first: they may overtake.
        for of_twin in [true, false] {
            for at in 0..queue.len() {
                let entry = &queue[at];
                if entry.kind.of_twin() == of_twin && !entry.granted.get() && may_begin(queue, at) {
                    entry.granted.set(true);
                    entry.wake.notify_one();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::Ino;

    const OBJECT: ObjectId = ObjectId {
        ino: Ino(1),
        generation: 0,
    };

    fn take(locks: &Locks, range: Range<u64>, kind: Kind) -> Ticket {
        locks.enqueue(OBJECT, vec![range], kind)
    }

    fn held(ticket: &Ticket) -> bool {
        ticket.entry.granted.get()
    }

    #[test]
    fn disjoint_ranges_and_readers_run_together() {
        let locks = Locks::default();
        let first = take(&locks, 0..10, Kind::Led);
        let second = take(&locks, 10..20, Kind::Led);
        let readers = [20, 25].map(|at| take(&locks, at..30, Kind::Read));
        assert!(held(&first) && held(&second) && readers.iter().all(held));
    }

    #[test]
    fn overlapping_changes_come_in_order_of_arrival() {
        let locks = Locks::default();
        let first = take(&locks, 0..10, Kind::Led);
        let second = take(&locks, 5..15, Kind::Led);
        let third = take(&locks, 12..20, Kind::Led);
        let reader = take(&locks, 0..4, Kind::Read);
        assert!(!held(&second) && !held(&third) && !held(&reader));
        drop(first);
        assert!(held(&second) && !held(&third) && held(&reader));
        drop(second);
        assert!(held(&third));
        drop((third, reader));
        assert!(locks.0.borrow().is_empty());
    }

    #[test]
    fn the_twin_overtakes_what_waits_but_not_what_runs() {
        let locks = Locks::default();
        let runs = take(&locks, 0..10, Kind::Led);
        let waits = take(&locks, 5..20, Kind::Led);
        let beside = take(&locks, 15..16, Kind::TwinChange);
        let behind = take(&locks, 0..1, Kind::TwinChange);
        assert!(held(&beside) && !held(&behind) && !held(&waits));
        drop(runs);
        assert!(held(&behind) && !held(&waits));
        drop((beside, behind));
        assert!(held(&waits));
    }

    #[test]
    fn a_deadlock_is_seen_only_with_what_has_begun() {
        let locks = Locks::default();
        let _reads = take(&locks, 0..10, Kind::Read);
        let _waits = take(&locks, 0..10, Kind::Led);
        let spans = [Range { start: 0, end: 5 }];
        assert!(!locks.would_deadlock(OBJECT, &spans, Kind::TwinChange));
        let _runs = take(&locks, 10..20, Kind::Led);
        let spans = [Range { start: 19, end: 25 }];
        assert!(locks.would_deadlock(OBJECT, &spans, Kind::TwinRead));
    }

    #[test]
    fn a_ticket_that_is_given_up_lets_others_pass() {
        let locks = Locks::default();
        let runs = take(&locks, 0..10, Kind::Read);
        let waits = take(&locks, 0..10, Kind::Led);
        let reader = take(&locks, 0..10, Kind::Read);
        assert!(!held(&reader));
        drop(waits);
        assert!(held(&reader));
        drop(runs);
    }

    #[test]
    fn ranges_are_widened_to_blocks() {
        assert_eq!(blocks_around(1, 4097), 0..8192);
        assert_eq!(blocks_around(4096, u64::MAX), 4096..u64::MAX);
    }
}
