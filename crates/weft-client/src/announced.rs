//! Where both members of a pair know that this client writes (docs/protocols/losses.md). Under the
//! asynchronous protocols it goes on with what one of them has nowhere else: the other one could not
//! tell what is lost with the two. Nor does it where it has sent earlier bytes to both itself without
//! being sure that they know that both have them: the one that stays behind would take its bytes for the
//! newest.

use crate::pairs::Object;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tokio::sync::Notify;
use weft_types::{ANNOUNCED_AHEAD, ANNOUNCED_OPERATIONS, Member, REGION_BYTES};
use weft_wire::proto::Extent;

/// More entries than this are looked through for old ones.
const ENTRIES_MAX: usize = 4_096;
/// Writes of which the members may not know that both have them. Usually those of one way there and
/// back; beyond it nobody goes on until they know.
const UNTOLD_MAX: usize = 4_096;

/// The bytes that a write changes, and the regions that they are in.
pub(crate) struct Places {
    object: Object,
    regions: BTreeSet<u32>,
    bytes: Vec<Range<u64>>,
}

impl Places {
    /// Of a write of these extents.
    pub fn of(object: Object, extents: &[Extent]) -> Places {
        let region = |at: u64| u32::try_from(at / REGION_BYTES).unwrap_or(u32::MAX);
        let regions = extents.iter().flat_map(|extent| {
            let last = extent.offset + u64::from(extent.length.max(1)) - 1;
            region(extent.offset)..=region(last)
        });
        let bytes = extents
            .iter()
            .map(|extent| extent.offset..extent.offset + u64::from(extent.length));
        Places {
            object,
            regions: regions.collect(),
            bytes: bytes.collect(),
        }
    }
}

/// A write that both members have, each from the client.
struct Untold {
    operation: u64,
    object: Object,
    bytes: Vec<Range<u64>>,
}

impl Untold {
    fn overlaps(&self, places: &Places) -> bool {
        let overlap = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        self.object == places.object
            && self
                .bytes
                .iter()
                .any(|a| places.bytes.iter().any(|b| overlap(a, b)))
    }
}

#[derive(Default)]
struct Inner {
    /// The pair's epoch under which all of it was said.
    epoch: u64,
    /// The newest operation of each region that both members have.
    operations: BTreeMap<(Object, u32), u64>,
    /// Each member knows of operations below that they are on both.
    told_below: [u64; 2],
    /// The others that the client has sent to both itself.
    untold: Vec<Untold>,
    /// There were too many to keep all below this one.
    forgotten_below: u64,
}

impl Inner {
    /// What was said under an older state does not count. False if this one is older.
    fn is_of(&mut self, epoch: u64) -> bool {
        if epoch > self.epoch {
            *self = Inner {
                epoch,
                ..Inner::default()
            };
        }
        epoch == self.epoch
    }

    fn all_told_below(&self) -> u64 {
        self.told_below[0].min(self.told_below[1])
    }
}

/// Of one pair.
#[derive(Default)]
pub(crate) struct Announced {
    inner: RefCell<Inner>,
    more: Notify,
}

impl Announced {
    /// Both members have taken this write under this epoch.
    pub fn both_have(&self, places: &Places, epoch: u64, operation: u64) {
        {
            let inner = &mut *self.inner.borrow_mut();
            if !inner.is_of(epoch) {
                return;
            }
            for region in &places.regions {
                let newest = inner
                    .operations
                    .entry((places.object, *region))
                    .or_default();
                *newest = operation.max(*newest);
            }
            if inner.operations.len() > ENTRIES_MAX {
                let is_recent =
                    |_: &(Object, u32), of: &mut u64| *of + ANNOUNCED_OPERATIONS >= operation;
                inner.operations.retain(is_recent);
            }
        }
        self.more.notify_waiters();
    }

    /// The client has sent this write to both members itself, and both have it: they do not know that
    /// until they are told.
    pub fn sent_to_both(&self, places: &Places, epoch: u64, operation: u64) {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.is_of(epoch) || operation < inner.all_told_below() {
            return;
        }
        inner.untold.push(Untold {
            operation,
            object: places.object,
            bytes: places.bytes.clone(),
        });
        if inner.untold.len() > UNTOLD_MAX {
            inner.forgotten_below = inner.forgotten_below.max(operation + 1);
            inner.untold.clear();
        }
    }

    /// A member has answered what said that operations below this one are on both.
    pub fn told(&self, member: Member, epoch: u64, below: u64) {
        {
            let inner = &mut *self.inner.borrow_mut();
            if !inner.is_of(epoch) || below <= inner.told_below[member.index()] {
                return;
            }
            inner.told_below[member.index()] = below;
            let below = inner.all_told_below();
            inner.untold.retain(|untold| untold.operation >= below);
        }
        self.more.notify_waiters();
    }

    /// Returns once both members know that this client writes there, under this epoch, and take nothing
    /// that they have there for newer than this write.
    pub async fn known(&self, places: &Places, epoch: u64, operation: u64) {
        loop {
            let more = self.more.notified();
            if self.is_known(places, epoch, operation) {
                return;
            }
            more.await;
        }
    }

    fn is_known(&self, places: &Places, epoch: u64, operation: u64) -> bool {
        let inner = self.inner.borrow();
        let object = places.object;
        inner.epoch == epoch
            && inner.forgotten_below <= inner.all_told_below()
            && !inner.untold.iter().any(|untold| untold.overlaps(places))
            && places.regions.iter().all(|region| {
                let first = region.saturating_sub(ANNOUNCED_AHEAD);
                let mut near = inner.operations.range((object, first)..=(object, *region));
                near.any(|(_, of)| *of + ANNOUNCED_OPERATIONS >= operation)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: Object = Object {
        pair: 0,
        ino: 5,
        generation: 1,
    };

    fn places(offset: u64, length: u32) -> Places {
        Places::of(OBJECT, &[Extent { offset, length }])
    }

    #[test]
    fn a_client_goes_on_at_and_behind_what_both_have_had_lately() {
        let announced = Announced::default();
        let at = |region: u32| places(u64::from(region) * REGION_BYTES, 10);
        assert!(!announced.is_known(&at(3), 2, 10));
        announced.both_have(&at(3), 2, 9);
        assert!(announced.is_known(&at(3), 2, 10));
        assert!(announced.is_known(&at(3 + ANNOUNCED_AHEAD), 2, 10));
        assert!(!announced.is_known(&at(4 + ANNOUNCED_AHEAD), 2, 10));
        assert!(!announced.is_known(&at(2), 2, 10), "before it");
        // One that reaches out of it.
        let wide = places(0, 4 << 20);
        assert_eq!(wide.regions.len(), 4);
        assert!(!announced.is_known(&wide, 2, 10));
        assert!(announced.is_known(&at(3), 2, 9 + ANNOUNCED_OPERATIONS));
        assert!(!announced.is_known(&at(3), 2, 10 + ANNOUNCED_OPERATIONS));
        // Another state: the members may have forgotten it.
        assert!(!announced.is_known(&at(3), 3, 10));
        announced.both_have(&at(7), 3, 11);
        assert!(!announced.is_known(&at(3), 3, 12));
        announced.both_have(&at(3), 2, 13);
        assert!(!announced.is_known(&at(3), 3, 14), "said too late");
    }

    #[test]
    fn a_client_goes_on_over_what_it_sent_to_both_when_they_know_that_both_have_it() {
        let announced = Announced::default();
        let (here, beside) = (places(100, 50), places(150, 50));
        announced.both_have(&here, 2, 9);
        announced.sent_to_both(&here, 2, 9);
        assert!(!announced.is_known(&places(149, 1), 2, 10));
        assert!(announced.is_known(&beside, 2, 10));
        announced.told(Member::Zero, 2, 10);
        assert!(!announced.is_known(&here, 2, 10), "the other does not");
        announced.told(Member::One, 2, 9);
        assert!(!announced.is_known(&here, 2, 10), "of an earlier one");
        announced.told(Member::One, 2, 10);
        assert!(announced.is_known(&here, 2, 11));
        // Too many to remember them all.
        for operation in 10..=10 + UNTOLD_MAX as u64 {
            announced.sent_to_both(&here, 2, operation);
        }
        let next = 11 + UNTOLD_MAX as u64;
        assert!(!announced.is_known(&beside, 2, 200));
        announced.told(Member::Zero, 2, next);
        announced.told(Member::One, 2, next);
        assert!(announced.is_known(&beside, 2, 200));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let announced = Announced::default();
        for operation in 0..3 * ENTRIES_MAX as u64 {
            announced.both_have(&places(operation * 2 * REGION_BYTES, 1), 1, operation);
        }
        assert!(announced.inner.borrow().operations.len() <= ENTRIES_MAX + 1);
    }
}
