//! The newest batches of the journal, in memory: what others lack is mostly among them.

use std::collections::VecDeque;
use weft_journal::Sealed;
use weft_types::Sn;

/// Bytes of batches that are kept although they are on the disk. A member that was away for a second under
/// full load lacks less.
const KEPT_BYTES: usize = 32 << 20;

/// See the module. They follow one another.
#[derive(Default)]
pub(super) struct Batches {
    all: VecDeque<Sealed>,
    bytes: usize,
}

impl Batches {
    /// Adds one; what does not precede it is not kept.
    pub(super) fn push(&mut self, batch: Sealed) {
        let follows = self
            .all
            .back()
            .is_none_or(|last| last.sn().0 + 1 == batch.sn().0);
        if !follows {
            self.all.clear();
            self.bytes = 0;
        }
        self.bytes += batch.content().len();
        self.all.push_back(batch);
    }

    /// Forgets what is after `sn`.
    pub(super) fn cut_after(&mut self, sn: Sn) {
        while let Some(last) = self.all.pop_back_if(|last| last.sn() > sn) {
            self.bytes -= last.content().len();
        }
    }

    /// One of them. None: it is not here (any more).
    pub(super) fn get(&self, sn: Sn) -> Option<&Sealed> {
        let first = self.all.front()?.sn().0;
        self.all
            .get(usize::try_from(sn.0.checked_sub(first)?).ok()?)
    }

    /// Forgets the oldest where there are too many, of those that are on the disk.
    pub(super) fn trim(&mut self, durable: Sn) {
        while self.bytes > KEPT_BYTES {
            let Some(first) = self.all.pop_front_if(|first| first.sn() <= durable) else {
                return;
            };
            self.bytes -= first.content().len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::Batch;

    fn batch(sn: u64) -> Sealed {
        Sealed::new(&Batch {
            epoch: 1,
            sn,
            entries: Vec::new(),
        })
    }

    #[test]
    fn holds_what_follows_one_another() {
        let mut batches = Batches::default();
        for sn in 5..=9 {
            batches.push(batch(sn));
        }
        assert_eq!(batches.get(Sn(4)), None);
        assert_eq!(batches.get(Sn(5)), Some(&batch(5)));
        assert_eq!(batches.get(Sn(9)), Some(&batch(9)));
        assert_eq!(batches.get(Sn(10)), None);
        batches.cut_after(Sn(7));
        assert_eq!(batches.get(Sn(8)), None);
        batches.push(batch(8));
        assert_eq!(batches.get(Sn(8)), Some(&batch(8)));
        batches.push(batch(20));
        assert_eq!(batches.get(Sn(8)), None);
        assert_eq!(batches.get(Sn(20)), Some(&batch(20)));
        batches.cut_after(Sn(0));
        assert_eq!((batches.get(Sn(20)), batches.bytes), (None, 0));
    }

    #[test]
    fn what_is_not_on_the_disk_stays() {
        let mut batches = Batches::default();
        for sn in 1..=4 {
            batches.push(batch(sn));
        }
        batches.bytes += KEPT_BYTES;
        batches.trim(Sn(2));
        assert_eq!(batches.get(Sn(2)), None);
        assert_eq!(batches.get(Sn(3)), Some(&batch(3)));
    }
}
