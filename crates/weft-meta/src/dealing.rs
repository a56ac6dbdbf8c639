//! Where the next file begins: pairs are dealt like cards.
//!
//! A file that is shorter than a stripe unit lies on one pair, the one at which it begins, and whoever writes many such
//! files has as many pairs' worth of bandwidth as his files of a moment begin at. Drawn anew for each file, two of
//! four begin at the same pair more often than not. So each pair is dealt once before one is dealt again; in another
//! order each round, or who makes files in groups (a large one and its index, say) would have all large ones on some
//! of the pairs. Only the reign's own: what is dealt goes into the entry, and the next reign deals anew.

use weft_wire::proto::op::Op;
use weft_wire::proto::{self, Entry, FileKind};

/// A round of cards.
#[derive(Default)]
pub(crate) struct Dealing {
    /// Not dealt yet, the last one next.
    left: Vec<u64>,
    /// Cards of the round.
    of: usize,
}

impl Dealing {
    /// A number below `of`, or 0 if there is none. When `of` is another one than before, a round begins.
    pub(crate) fn deal(&mut self, of: usize, mut random: impl FnMut() -> u64) -> u64 {
        if self.of != of || self.left.is_empty() {
            self.of = of;
            self.left = (0..of as u64).collect();
            for at in (1..of).rev() {
                let other = random() % (at as u64 + 1);
                self.left.swap(at, other as usize);
            }
        }
        self.left.pop().unwrap_or_default()
    }
}

/// The entry makes a file that will lie on pairs.
pub(crate) fn makes_file(entry: &Entry) -> bool {
    let op = entry.op.as_ref().and_then(|op| op.op.as_ref());
    matches!(op, Some(Op::Create(create)) if is_regular(create))
}

fn is_regular(create: &proto::Create) -> bool {
    matches!(create.kind(), FileKind::Regular | FileKind::Unspecified)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A random number after another, the same in each run.
    fn numbers() -> impl FnMut() -> u64 {
        let mut state: u64 = 1;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        }
    }

    #[test]
    fn each_is_dealt_once_before_one_is_dealt_again_and_not_always_in_one_order() {
        let (mut dealing, mut random) = (Dealing::default(), numbers());
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let round: Vec<u64> = (0..3).map(|_| dealing.deal(3, &mut random)).collect();
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
            orders.insert(round);
        }
        assert_eq!(orders.len(), 6, "every order comes");
    }

    #[test]
    fn another_number_of_cards_begins_a_round() {
        let (mut dealing, mut random) = (Dealing::default(), numbers());
        assert_eq!(dealing.deal(0, &mut random), 0, "no pairs yet");
        dealing.deal(4, &mut random);
        let mut round: Vec<u64> = (0..2).map(|_| dealing.deal(2, &mut random)).collect();
        round.sort_unstable();
        assert_eq!(round, [0, 1]);
        assert_eq!(dealing.deal(1, &mut random), 0);
        assert_eq!(dealing.deal(1, &mut random), 0);
    }
}
