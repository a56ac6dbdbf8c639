//! Sets of regions of one object, as sorted runs.

use std::ops::Range;

/// A set of region numbers: runs that ascend and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regions(Vec<Range<u32>>);

impl Regions {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

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

    pub fn contains(&self, region: u32) -> bool {
        let after = self.0.partition_point(|run| run.start <= region);
        after > 0 && region < self.0[after - 1].end
    }

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
