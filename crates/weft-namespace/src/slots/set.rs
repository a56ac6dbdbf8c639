//! A set of slots.

use weft_types::{SLOTS, Slot};
use weft_wire::proto::SlotRange;

const WORDS: usize = SLOTS as usize / 64;

/// A set of slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotSet {
    words: Box<[u64; WORDS]>,
    /// Derived: nothing is foreign then.
    is_all: bool,
}

impl SlotSet {
    pub(crate) fn all() -> SlotSet {
        SlotSet {
            words: Box::new([u64::MAX; WORDS]),
            is_all: true,
        }
    }

    /// The slots of these ranges. None: a range makes no sense, or there is nothing in them.
    pub(crate) fn of_ranges(ranges: &[SlotRange]) -> Option<SlotSet> {
        let mut words = Box::new([0u64; WORDS]);
        for range in ranges {
            if range.first > range.last || range.last >= u32::from(SLOTS) {
                return None;
            }
            for slot in range.first..=range.last {
                words[slot as usize / 64] |= 1 << (slot % 64);
            }
        }
        let is_all = words.iter().all(|word| *word == u64::MAX);
        let is_empty = words.iter().all(|word| *word == 0);
        (!is_empty).then_some(SlotSet { words, is_all })
    }

    pub(crate) fn none() -> SlotSet {
        SlotSet {
            words: Box::new([0; WORDS]),
            is_all: false,
        }
    }

    pub(crate) fn insert(&mut self, slot: Slot) {
        self.words[usize::from(slot.0 % SLOTS) / 64] |= 1 << (slot.0 % 64);
        self.is_all = self.words.iter().all(|word| *word == u64::MAX);
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.words[usize::from(slot.0 % SLOTS) / 64] &= !(1 << (slot.0 % 64));
        self.is_all = false;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn is_all(&self) -> bool {
        self.is_all
    }

    pub(crate) fn has(&self, slot: Slot) -> bool {
        let slot = usize::from(slot.0);
        let word = self.words.get(slot / 64).copied().unwrap_or(0);
        word >> (slot % 64) & 1 == 1
    }

    /// The same as ranges, in order, as few as can be.
    pub(crate) fn ranges(&self, group: u32) -> Vec<SlotRange> {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.has(Slot(*slot))) {
            let slot = u32::from(slot);
            match ranges.last_mut().filter(|range| range.last + 1 == slot) {
                Some(range) => range.last = slot,
                None => ranges.push(SlotRange {
                    first: slot,
                    last: slot,
                    group,
                }),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, last: u32) -> SlotRange {
        SlotRange {
            first,
            last,
            group: 3,
        }
    }

    #[test]
    fn a_set_is_the_slots_of_its_ranges() {
        let said = [range(0, 0), range(63, 65), range(66, 70), range(4095, 4095)];
        let set = SlotSet::of_ranges(&said).unwrap();
        let has: Vec<u16> = (0..SLOTS).filter(|slot| set.has(Slot(*slot))).collect();
        assert_eq!(has, [0, 63, 64, 65, 66, 67, 68, 69, 70, 4095]);
        assert_eq!(set.ranges(3), [said[0], range(63, 70), said[3]]);
        assert!(!set.is_all());
        let all = SlotSet::of_ranges(&[range(0, 4095)]).unwrap();
        assert!(all.is_all() && all == SlotSet::all());
    }

    #[test]
    fn slots_come_and_go() {
        let mut set = SlotSet::none();
        assert!(set.is_empty() && set.ranges(3).is_empty());
        (0..SLOTS).for_each(|slot| set.insert(Slot(slot)));
        assert!(set == SlotSet::all() && !set.is_empty());
        set.remove(Slot(64));
        assert_eq!(set.ranges(3), [range(0, 63), range(65, 4095)]);
        assert!(!set.is_all() && !set.has(Slot(64)));
    }

    #[test]
    fn what_is_no_set_of_slots_is_refused() {
        for bad in [&[range(2, 1)][..], &[range(0, 4096)], &[]] {
            assert!(SlotSet::of_ranges(bad).is_none());
        }
    }
}
