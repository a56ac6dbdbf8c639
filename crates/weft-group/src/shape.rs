//! Which batches a journal holds, told by epochs.
//!
//! An active writes an sn once in its epoch, and a member takes a batch only after the same
//! predecessor. So two journals that have the same epoch at an sn are equal up to there, and a few
//! numbers tell how far that is.

use weft_types::{Epoch, Sn};

/// Batches one after the other that were written in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// When they were written.
    pub epoch: Epoch,
    /// The first of them.
    pub first: Sn,
}

/// See the module. The first run begins with the batch that precedes those that are still there: it
/// is committed, and in an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    runs: Vec<Run>,
    last: Sn,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape::after(Epoch(0), Sn(0))
    }
}

impl Shape {
    /// A journal that begins after `base`, a committed batch of `epoch`. Before the first batch ever is
    /// sn 0, of epoch 0.
    pub fn after(epoch: Epoch, base: Sn) -> Shape {
        Shape {
            runs: vec![Run { epoch, first: base }],
            last: base,
        }
    }

    /// A shape that was told. None: it is none, for its runs are not in order or it has none.
    pub fn told(runs: Vec<Run>, last: Sn) -> Option<Shape> {
        let rise = runs
            .windows(2)
            .all(|two| two[0].epoch < two[1].epoch && two[0].first < two[1].first);
        (rise && runs.last()?.first <= last).then_some(Shape { runs, last })
    }

    /// Its runs, in order, and its last batch.
    pub fn parts(&self) -> (&[Run], Sn) {
        (&self.runs, self.last)
    }

    /// What precedes the first batch that is still there.
    pub fn base(&self) -> Sn {
        self.runs[0].first
    }

    /// The last batch.
    pub fn last(&self) -> Sn {
        self.last
    }

    /// What decides which of two journals is the greater one (design.md, section 5).
    pub fn rank(&self) -> (Epoch, Sn) {
        (self.last_epoch(), self.last)
    }

    fn last_epoch(&self) -> Epoch {
        self.runs[self.runs.len() - 1].epoch
    }

    /// In which epoch a batch was written. None: it is not there, nor the base.
    pub fn epoch_at(&self, sn: Sn) -> Option<Epoch> {
        if sn > self.last {
            return None;
        }
        let after = self.runs.partition_point(|run| run.first <= sn);
        Some(self.runs[after.checked_sub(1)?].epoch)
    }

    /// Batches up to `last` follow, written in `epoch`, which is not below the last one's.
    pub fn extend(&mut self, epoch: Epoch, last: Sn) {
        debug_assert!(epoch >= self.last_epoch(), "epochs do not fall");
        if last <= self.last {
            return;
        }
        if epoch > self.last_epoch() {
            let first = Sn(self.last.0 + 1);
            self.runs.push(Run { epoch, first });
        }
        self.last = last;
    }

    /// Discards what is after `sn`, which is not before the base.
    fn cut_after(&mut self, sn: Sn) {
        debug_assert!(sn >= self.base(), "what is committed is not discarded");
        self.last = self.last.min(sn);
        self.runs.retain(|run| run.first <= sn);
    }

    /// What is up to `sn` has been removed: it is committed, and in an image.
    pub fn forget(&mut self, sn: Sn) {
        let Some(epoch) = self.epoch_at(sn).filter(|_| sn > self.base()) else {
            return;
        };
        self.runs.retain(|run| run.first > sn);
        self.runs.insert(0, Run { epoch, first: sn });
    }

    /// What follows `sn`, up to `last`. None: some of that is not there.
    pub fn slice(&self, sn: Sn, last: Sn) -> Option<Shape> {
        let epoch = self
            .epoch_at(sn)
            .filter(|_| sn <= last && last <= self.last)?;
        let mut runs = vec![Run { epoch, first: sn }];
        runs.extend(
            self.runs
                .iter()
                .filter(|run| run.first > sn && run.first <= last),
        );
        Some(Shape { runs, last })
    }

    /// Discards what is after the base of `next`, and has `next` follow. False, and nothing is done: that is
    /// no place where it fits.
    pub fn splice(&mut self, next: &Shape) -> bool {
        let Run { epoch, first } = next.runs[0];
        if self.epoch_at(first) != Some(epoch) {
            return false;
        }
        self.cut_after(first);
        self.runs.extend(&next.runs[1..]);
        self.last = next.last;
        true
    }

    /// The last batch up to which both are known to be the same. None: what one still has begins after
    /// where they are.
    pub fn common(&self, other: &Shape) -> Option<Sn> {
        let ends = |shape: &Shape, at: usize| match shape.runs.get(at + 1) {
            Some(next) => Sn(next.first.0 - 1),
            None => shape.last,
        };
        self.runs
            .iter()
            .enumerate()
            .filter_map(|(at, run)| {
                let found = other.runs.binary_search_by_key(&run.epoch, |run| run.epoch);
                let its = found.ok()?;
                let end = ends(self, at).min(ends(other, its));
                (end >= run.first.max(other.runs[its].first)).then_some(end)
            })
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The epochs of its batches, from sn 1 on.
    fn shape(epochs: &[u64]) -> Shape {
        let mut shape = Shape::default();
        for (at, epoch) in epochs.iter().enumerate() {
            shape.extend(Epoch(*epoch), Sn(at as u64 + 1));
        }
        shape
    }

    #[test]
    fn what_two_journals_have_in_common() {
        let one = shape(&[1, 1, 2, 2, 4]);
        assert_eq!(one.common(&one), Some(Sn(5)));
        assert_eq!(one.common(&shape(&[1, 1, 2, 3])), Some(Sn(3)));
        assert_eq!(one.common(&shape(&[1, 1])), Some(Sn(2)));
        assert_eq!(one.common(&shape(&[])), Some(Sn(0)));
        assert_eq!(one.common(&shape(&[3])), Some(Sn(0)));
        let mut later = one.clone();
        later.forget(Sn(3));
        assert_eq!(later.base(), Sn(3));
        assert_eq!(later.common(&shape(&[1, 1, 2, 3])), Some(Sn(3)));
        assert_eq!(later.common(&shape(&[1, 1])), None);
        assert_eq!(later.epoch_at(Sn(2)), None);
        assert_eq!(later.epoch_at(Sn(4)), Some(Epoch(2)));
        assert_eq!(later.rank(), (Epoch(4), Sn(5)));
    }

    #[test]
    fn parts_that_are_no_shape_are_refused() {
        let (runs, last) = (vec![(2, 3), (4, 5)], 6);
        let told = |runs: &[(u64, u64)], last| {
            let run = |(epoch, first): &(u64, u64)| Run {
                epoch: Epoch(*epoch),
                first: Sn(*first),
            };
            Shape::told(runs.iter().map(run).collect(), Sn(last))
        };
        let good = told(&runs, last).expect("it is one");
        assert_eq!(
            Shape::told(good.parts().0.to_vec(), good.parts().1),
            Some(good)
        );
        assert_eq!(told(&[], 0), None);
        assert_eq!(told(&runs, 4), None);
        assert_eq!(told(&[(2, 3), (2, 5)], 6), None);
        assert_eq!(told(&[(2, 3), (4, 3)], 6), None);
    }

    proptest! {
        /// Against journals written out batch by batch.
        #[test]
        fn is_what_the_epochs_say(
            mut one in proptest::collection::vec(1..5_u64, 0..12),
            mut other in proptest::collection::vec(1..5_u64, 0..12),
            cut in 0..12_u64,
        ) {
            one.sort_unstable();
            other.sort_unstable();
            // An active writes an sn once: journals are equal below where they have the same epoch.
            if let Some(at) = (0..one.len().min(other.len())).rev().find(|at| one[*at] == other[*at]) {
                other[..at].copy_from_slice(&one[..at]);
            }
            let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
            let (mut a, b) = (shape(&one), shape(&other));
            prop_assert_eq!(a.common(&b), Some(Sn(same as u64)));
            prop_assert_eq!(b.common(&a), Some(Sn(same as u64)));
            for (at, epoch) in one.iter().enumerate() {
                prop_assert_eq!(a.epoch_at(Sn(at as u64 + 1)), Some(Epoch(*epoch)));
            }
            let rest = a.slice(Sn(cut), a.last());
            prop_assert_eq!(rest.is_some(), cut <= a.last().0);
            if let Some(rest) = rest {
                for sn in cut..=a.last().0 {
                    prop_assert_eq!(rest.epoch_at(Sn(sn)), a.epoch_at(Sn(sn)));
                }
                let mut joined = b.clone();
                prop_assert_eq!(joined.splice(&rest), cut as usize <= same);
                prop_assert_eq!(joined, if cut as usize <= same { a.clone() } else { b });
            }
            a.cut_after(Sn(cut));
            one.truncate(cut as usize);
            prop_assert_eq!(a, shape(&one));
        }
    }
}
