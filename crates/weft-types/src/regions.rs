//! Regions of objects in sets, as sorted runs: many that follow one another take no more room than one.

use crate::{ObjectId, REGION_BYTES};
use std::ops::Range;

/// A region of an object: bytes `REGION_BYTES * index` and on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The object.
    pub object: ObjectId,
    /// Which region of it.
    pub index: u32,
}

/// Regions of an object that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The object.
    pub object: ObjectId,
    /// Which regions of it.
    pub regions: Range<u32>,
}

impl Region {
    /// The region alone.
    pub fn run(self) -> Run {
        Run {
            object: self.object,
            regions: self.index..self.index.saturating_add(1),
        }
    }
}

impl Run {
    /// The first region; of an empty run the one at which it would begin.
    pub fn first(&self) -> Region {
        Region {
            object: self.object,
            index: self.regions.start,
        }
    }

    /// The bytes of its regions.
    pub fn span(&self) -> Range<u64> {
        u64::from(self.regions.start) * REGION_BYTES..u64::from(self.regions.end) * REGION_BYTES
    }
}

/// A set of region numbers: runs that ascend and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions(Vec<Range<u32>>);

impl Regions {
    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is in it: runs that ascend and do not touch.
    pub fn runs(&self) -> &[Range<u32>] {
        &self.0
    }

    /// How many regions are in it.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .map(|run| u64::from(run.end - run.start))
            .sum()
    }

    /// This region is in it.
    pub fn contains(&self, region: u32) -> bool {
        let after = self.0.partition_point(|run| run.start <= region);
        after > 0 && region < self.0[after - 1].end
    }

    /// Puts a range in.
    pub fn insert(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|run| run.end < range.start);
        let to = self.0.partition_point(|run| run.start <= range.end);
        let mut joined = range;
        if from < to {
            joined.start = joined.start.min(self.0[from].start);
            joined.end = joined.end.max(self.0[to - 1].end);
        }
        self.0.splice(from..to, [joined]);
    }

    /// Takes the range out; returns which regions of it were in.
    pub fn remove(&mut self, range: Range<u32>) -> Vec<Range<u32>> {
        let from = self.0.partition_point(|run| run.end <= range.start);
        let to = self.0.partition_point(|run| run.start < range.end);
        if range.is_empty() || from >= to {
            return Vec::new();
        }
        let head = self.0[from].start..range.start;
        let tail = range.end..self.0[to - 1].end;
        let kept = [head, tail].into_iter().filter(|run| !run.is_empty());
        let kept: Vec<Range<u32>> = kept.collect();
        self.0
            .splice(from..to, kept)
            .map(|run| run.start.max(range.start)..run.end.min(range.end))
            .collect()
    }

    /// The parts of the range that are in.
    pub fn within(&self, range: Range<u32>) -> Vec<Range<u32>> {
        let from = self.0.partition_point(|run| run.end <= range.start);
        let to = self.0.partition_point(|run| run.start < range.end);
        if range.is_empty() || from >= to {
            return Vec::new();
        }
        self.0[from..to]
            .iter()
            .map(|run| run.start.max(range.start)..run.end.min(range.end))
            .collect()
    }

    /// The first of those, if any.
    pub fn first_within(&self, range: Range<u32>) -> Option<Range<u32>> {
        let at = self.0.partition_point(|run| run.end <= range.start);
        let run = self.0.get(at).filter(|run| run.start < range.end)?;
        Some(run.start.max(range.start)..run.end.min(range.end)).filter(|run| !run.is_empty())
    }

    /// The parts of the range that are not in.
    pub fn missing(&self, range: Range<u32>) -> Vec<Range<u32>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        let from = self.0.partition_point(|run| run.end <= range.start);
        for run in &self.0[from..] {
            if run.start >= range.end {
                break;
            }
            if at < run.start {
                missing.push(at..run.start);
            }
            at = at.max(run.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

impl FromIterator<Range<u32>> for Regions {
    fn from_iter<I: IntoIterator<Item = Range<u32>>>(ranges: I) -> Regions {
        let mut regions = Regions::default();
        ranges.into_iter().for_each(|range| regions.insert(range));
        regions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..12), 1..60)) {
            let mut regions = Regions::default();
            let mut reference = BTreeSet::new();
            for (add, start, length) in steps {
                let range = start..start + length;
                let missing: Vec<u32> = regions.missing(range.clone()).into_iter().flatten().collect();
                let expected: Vec<u32> = range.clone().filter(|r| !reference.contains(r)).collect();
                prop_assert_eq!(missing, expected);
                let within = regions.within(range.clone());
                prop_assert_eq!(regions.first_within(range.clone()), within.first().cloned());
                let within: Vec<u32> = within.into_iter().flatten().collect();
                let expected: Vec<u32> = range.clone().filter(|r| reference.contains(r)).collect();
                prop_assert_eq!(within, expected);
                if add {
                    regions.insert(range.clone());
                    reference.extend(range);
                } else {
                    let removed: Vec<u32> = regions.remove(range.clone()).into_iter().flatten().collect();
                    let expected: Vec<u32> = range.clone().filter(|r| reference.remove(r)).collect();
                    prop_assert_eq!(removed, expected);
                }
                let all: Vec<u32> = regions.runs().iter().cloned().flatten().collect();
                prop_assert_eq!(&all, &reference.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(regions.count(), reference.len() as u64);
                prop_assert!(regions.runs().windows(2).all(|two| two[0].end < two[1].start));
                for region in 0..60 {
                    prop_assert_eq!(regions.contains(region), reference.contains(&region));
                }
            }
        }
    }
}
