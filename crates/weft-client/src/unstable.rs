//! What pairs have taken of a file and have not been asked to make stable, and whether a power cut may have taken it
//! from them since (docs/protocols/pairs.md, "Forgotten").

use crate::pairs::Pairs;
use std::collections::BTreeMap;
use weft_types::{Epoch, PairId};

/// Of each pair that has taken something since the last sync: what it had forgotten when the oldest of that was sent.
#[derive(Debug, Default)]
pub(crate) struct Unstable(BTreeMap<PairId, Epoch>);

impl Unstable {
    /// A pair has taken what was sent when it had forgotten so much.
    pub fn took(&mut self, (pair, forgot): (PairId, Epoch)) {
        let oldest = self.0.entry(pair).or_insert(forgot);
        *oldest = forgot.min(*oldest);
    }

    /// Pairs have taken this, too.
    pub fn join(&mut self, other: Unstable) {
        other.0.into_iter().for_each(|one| self.took(one));
    }

    /// The pair has something of it.
    pub fn is_at(&self, pair: PairId) -> bool {
        self.0.contains_key(&pair)
    }

    /// A pair may have forgotten some of it. Also one from which the file has been moved since: what was copied was
    /// perhaps what it had left.
    pub fn is_forgotten(&self, pairs: &Pairs) -> bool {
        let mut taken = self.0.iter();
        taken.any(|(pair, before)| pairs.forgot(*pair) > *before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_until_it_is_synced() {
        let mut unstable = Unstable::default();
        unstable.took((PairId(1), Epoch(7)));
        unstable.took((PairId(1), Epoch(3)));
        unstable.took((PairId(1), Epoch(5)));
        let mut later = Unstable::default();
        later.took((PairId(1), Epoch(9)));
        later.took((PairId(2), Epoch(9)));
        later.join(std::mem::take(&mut unstable));
        assert_eq!(
            later.0,
            BTreeMap::from([(PairId(1), Epoch(3)), (PairId(2), Epoch(9))])
        );
        assert!(later.is_at(PairId(2)) && !later.is_at(PairId(0)) && !unstable.is_at(PairId(1)));
    }
}
