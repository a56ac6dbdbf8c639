//! A value for every offset, stored by runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// A total map from offsets to values; equal neighbours are one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intervals<T>(BTreeMap<u64, T>);

impl<T: Clone + PartialEq> Intervals<T> {
    /// `value` everywhere.
    pub fn new(value: T) -> Intervals<T> {
        Intervals(BTreeMap::from([(0, value)]))
    }

    /// The value at `offset`.
    pub fn at(&self, offset: u64) -> &T {
        self.0
            .range(..=offset)
            .next_back()
            .expect("offset 0 always has a run")
            .1
    }

    /// True if `test` holds at every offset for the two values there.
    pub fn all_with(&self, other: &Intervals<T>, test: impl Fn(&T, &T) -> bool) -> bool {
        let starts = self.0.keys().chain(other.0.keys());
        starts
            .into_iter()
            .all(|&at| test(self.at(at), other.at(at)))
    }

    /// The runs within `range`, clipped to it.
    pub fn runs(&self, range: Range<u64>) -> Vec<(Range<u64>, T)> {
        let mut runs = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = self
                .0
                .range(at + 1..)
                .next()
                .map_or(range.end, |(&start, _)| start.min(range.end));
            runs.push((at..end, self.at(at).clone()));
            at = end;
        }
        runs
    }

    /// Replaces the values within `range` by what `change` makes of them.
    pub fn edit(&mut self, range: Range<u64>, mut change: impl FnMut(Range<u64>, &T) -> T) {
        if range.is_empty() {
            return;
        }
        let runs = self.runs(range.clone());
        let after = (range.end < u64::MAX).then(|| self.at(range.end).clone());
        let inside: Vec<u64> = self.0.range(range.clone()).map(|(&at, _)| at).collect();
        for at in inside {
            self.0.remove(&at);
        }
        for (run, value) in runs {
            let value = change(run.clone(), &value);
            self.put(run.start, value);
        }
        if let Some(after) = after {
            self.put(range.end, after);
        }
    }

    /// Sets the values within `range`.
    pub fn set(&mut self, range: Range<u64>, value: T) {
        self.edit(range, |_, _| value.clone());
    }

    /// Begins a run at `at`, unless it goes on with the value before; a run that begins there is
    /// replaced, and one after it that becomes equal is joined.
    fn put(&mut self, at: u64, value: T) {
        self.0.remove(&at);
        let same = self
            .0
            .range(..at)
            .next_back()
            .is_some_and(|(_, before)| *before == value);
        if !same {
            self.0.insert(at, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn agrees_with_an_array() {
        let mut rng = Rng::stream(1, "intervals", 0);
        for _ in 0..200 {
            let mut map = Intervals::new(0u64);
            let mut array = [0u64; 50];
            for _ in 0..30 {
                let start = rng.below(50);
                let end = start + rng.below(51 - start);
                let add = rng.below(3);
                map.edit(start..end, |_, &old| (old + add) % 3);
                for value in &mut array[start as usize..end as usize] {
                    *value = (*value + add) % 3;
                }
            }
            for (at, &value) in array.iter().enumerate() {
                assert_eq!(*map.at(at as u64), value);
            }
            let runs = map.runs(0..50);
            assert!(runs.windows(2).all(|pair| pair[0].1 != pair[1].1));
            assert_eq!(
                runs.iter().map(|(run, _)| run.end - run.start).sum::<u64>(),
                50
            );
        }
    }
}
