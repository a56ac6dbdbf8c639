//! Values of regions, kept for runs of them: what happens to all of a long object at once takes no
//! more room than what happens to one region.

use std::collections::BTreeMap;
use std::ops::Range;
use weft_types::{Region, Run};

/// A map from regions to values. Neighbours with values of their own are runs of their own, also if the
/// values are the same.
#[derive(Debug)]
pub(crate) struct RunMap<T>(BTreeMap<Region, Valued<T>>);

#[derive(Debug)]
struct Valued<T> {
    end: u32,
    value: T,
}

impl<T> Default for RunMap<T> {
    fn default() -> RunMap<T> {
        RunMap(BTreeMap::new())
    }
}

fn end_of(run: &Run) -> Region {
    Region {
        object: run.object,
        index: run.regions.end,
    }
}

impl<T: Clone> RunMap<T> {
    pub fn get(&self, region: Region) -> Option<&T> {
        self.within(&region.run()).next().map(|(_, value)| value)
    }

    /// The values within a run, and of which of its regions they are.
    pub fn within(&self, run: &Run) -> impl Iterator<Item = (Range<u32>, &T)> {
        let Range { start, end } = run.regions;
        let before = self.0.range(..run.first()).next_back();
        let reaches = move |(first, valued): &(&Region, &Valued<T>)| {
            first.object == run.object && valued.end > start
        };
        let first = before
            .filter(reaches)
            .map_or(run.first(), |(first, _)| *first);
        let found = self.0.range(first..end_of(run).max(first));
        found.map(move |(first, valued)| {
            (first.index.max(start)..valued.end.min(end), &valued.value)
        })
    }

    /// The same for changing: they are of no other regions then.
    pub fn within_mut(&mut self, run: &Run) -> impl Iterator<Item = (Range<u32>, &mut T)> {
        self.cut(run.first());
        self.cut(end_of(run));
        let found = self.0.range_mut(run.first()..end_of(run).max(run.first()));
        found.map(|(first, valued)| (first.index..valued.end, &mut valued.value))
    }

    /// The parts of a run that have no value.
    pub fn gaps(&self, run: &Run) -> Vec<Range<u32>> {
        let mut gaps = Vec::new();
        let mut at = run.regions.start;
        for (known, _) in self.within(run) {
            if at < known.start {
                gaps.push(at..known.start);
            }
            at = known.end;
        }
        if at < run.regions.end {
            gaps.push(at..run.regions.end);
        }
        gaps
    }

    /// Gives a value to regions that have none.
    pub fn insert(&mut self, run: Run, value: T) {
        debug_assert!(self.within(&run).next().is_none(), "{run:?} has a value");
        if !run.regions.is_empty() {
            let end = run.regions.end;
            self.0.insert(run.first(), Valued { end, value });
        }
    }

    /// Takes the values of these regions out.
    pub fn remove(&mut self, run: &Run) {
        self.cut(run.first());
        self.cut(end_of(run));
        while let Some((&first, _)) = self.0.range(run.first()..end_of(run)).next() {
            self.0.remove(&first);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Run, &T)> {
        self.0.iter().map(|(first, valued)| {
            let run = Run {
                object: first.object,
                regions: first.index..valued.end,
            };
            (run, &valued.value)
        })
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().map(|valued| &mut valued.value)
    }

    /// Sees to it that no run reaches over the beginning of `at`.
    fn cut(&mut self, at: Region) {
        let Some((first, valued)) = self.0.range_mut(..at).next_back() else {
            return;
        };
        if first.object == at.object && valued.end > at.index {
            let end = std::mem::replace(&mut valued.end, at.index);
            let value = valued.value.clone();
            self.0.insert(at, Valued { end, value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_types::{Ino, ObjectId};

    fn run(ino: u64, regions: Range<u32>) -> Run {
        let object = ObjectId {
            ino: Ino(ino),
            generation: 0,
        };
        Run { object, regions }
    }

    proptest! {
        #[test]
        fn behaves_like_a_map_of_single_regions(
            steps in prop::collection::vec((0u8..3, 1u64..3, 0u32..20, 0u32..12, any::<u16>()), 1..60)
        ) {
            let mut runs: RunMap<u16> = RunMap::default();
            let mut reference: BTreeMap<Region, u16> = BTreeMap::new();
            for (what, ino, start, length, value) in steps {
                let run = run(ino, start..start + length);
                let regions = || run.regions.clone().map(|index| Region { object: run.object, index });
                let gaps: Vec<u32> = runs.gaps(&run).into_iter().flatten().collect();
                let missing = regions().filter(|region| !reference.contains_key(region));
                prop_assert_eq!(&gaps, &missing.map(|region| region.index).collect::<Vec<_>>());
                match what {
                    0 => {
                        for regions in runs.gaps(&run) {
                            runs.insert(Run { object: run.object, regions }, value);
                        }
                        regions().for_each(|region| {
                            reference.entry(region).or_insert(value);
                        });
                    }
                    1 => {
                        runs.within_mut(&run).for_each(|(_, known)| *known ^= value);
                        regions().for_each(|region| {
                            reference.entry(region).and_modify(|known| *known ^= value);
                        });
                    }
                    _ => {
                        runs.remove(&run);
                        regions().for_each(|region| {
                            reference.remove(&region);
                        });
                    }
                }
                let within = runs.within(&run);
                let within: Vec<(u32, u16)> = within
                    .flat_map(|(regions, value)| regions.map(|index| (index, *value)))
                    .collect();
                let expected = regions().filter_map(|region| Some((region.index, *reference.get(&region)?)));
                prop_assert_eq!(within, expected.collect::<Vec<_>>());
                let all = runs.iter().flat_map(|(run, value)| {
                    run.regions.map(move |index| (Region { object: run.object, index }, *value))
                });
                prop_assert_eq!(all.collect::<BTreeMap<_, _>>(), reference.clone());
                for region in regions() {
                    prop_assert_eq!(runs.get(region), reference.get(&region));
                }
            }
        }
    }

    #[test]
    fn long_runs_take_no_more_room_than_short_ones() {
        let mut runs = RunMap::default();
        runs.insert(run(1, 0..u32::MAX), 7);
        runs.within_mut(&run(1, 9..10))
            .for_each(|(_, value)| *value = 8);
        let all: Vec<(Run, i32)> = runs.iter().map(|(run, value)| (run, *value)).collect();
        let rest = run(1, 10..u32::MAX);
        assert_eq!(all, [(run(1, 0..9), 7), (run(1, 9..10), 8), (rest, 7)]);
    }
}
