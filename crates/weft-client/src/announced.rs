//! Where both members of a pair know that this client writes (docs/protocols/losses.md). Under the
//! asynchronous protocols it goes on with what one of them has nowhere else: the other one could not
//! tell what is lost with the two.

use crate::pairs::Object;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Notify;
use weft_types::{ANNOUNCED_AHEAD, ANNOUNCED_OPERATIONS, REGION_BYTES};
use weft_wire::proto::Extent;

/// More entries than this are looked through for old ones.
const ENTRIES_MAX: usize = 4_096;

/// The regions that a write touches.
pub(crate) struct Places {
    object: Object,
    regions: BTreeSet<u32>,
}

impl Places {
    /// Of a write of these extents.
    pub fn of(object: Object, extents: &[Extent]) -> Places {
        let region = |at: u64| u32::try_from(at / REGION_BYTES).unwrap_or(u32::MAX);
        let regions = extents.iter().flat_map(|extent| {
            let last = extent.offset + u64::from(extent.length.max(1)) - 1;
            region(extent.offset)..=region(last)
        });
        Places {
            object,
            regions: regions.collect(),
        }
    }
}

#[derive(Default)]
struct Inner {
    /// The pair's epoch under which all of it was said.
    epoch: u64,
    /// The newest operation of each region that both members have.
    operations: BTreeMap<(Object, u32), u64>,
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
            if epoch < inner.epoch {
                return;
            }
            if epoch > inner.epoch {
                *inner = Inner {
                    epoch,
                    ..Inner::default()
                };
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

    /// Returns once both members know that this client writes there, under this epoch.
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
    fn what_is_old_is_forgotten() {
        let announced = Announced::default();
        for operation in 0..3 * ENTRIES_MAX as u64 {
            announced.both_have(&places(operation * 2 * REGION_BYTES, 1), 1, operation);
        }
        assert!(announced.inner.borrow().operations.len() <= ENTRIES_MAX + 1);
    }
}
