//! Random numbers from the seed, in streams.
//!
//! Every purpose (the scheduler, each link, each disk, each node's own draws) has a stream of its
//! own, derived from the seed and the purpose's name, so that one more draw in one place does not
//! shift what all the others get: a seed that found a bug still finds it after a small change.

use std::ops::Range;

/// One stream: xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Folds `word` into `hash`: the mixing of the streams' seeds and of the run's digest.
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    let mut state = hash ^ word.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    splitmix(&mut state)
}

impl Rng {
    /// The stream of `purpose` (and `index`, where there are several of a kind) under `seed`.
    pub fn stream(seed: u64, purpose: &str, index: u64) -> Rng {
        let mut hash = fold(seed, index);
        for byte in purpose.bytes() {
            hash = fold(hash, u64::from(byte));
        }
        Rng([
            splitmix(&mut hash),
            splitmix(&mut hash),
            splitmix(&mut hash),
            splitmix(&mut hash) | 1,
        ])
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Below `bound`; 0 if `bound` is 0. (Multiply and shift: the bias is far below what a
    /// simulation can see.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// In `range`; its start if it is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// True `parts` times in a million.
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        parts_per_million > 0 && self.below(1_000_000) < u64::from(parts_per_million)
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `items`; `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// An index drawn with these weights. The sum must not be zero.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut at = self.below(total);
        for (index, &weight) in weights.iter().enumerate() {
            if at < u64::from(weight) {
                return index;
            }
            at -= u64::from(weight);
        }
        weights.len() - 1
    }

    /// Fills with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let word = self.bits().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_apart() {
        let draw = |seed, purpose, index| {
            let mut rng = Rng::stream(seed, purpose, index);
            [rng.bits(), rng.bits(), rng.bits()]
        };
        assert_eq!(draw(1, "a", 0), draw(1, "a", 0));
        assert_ne!(draw(1, "a", 0), draw(2, "a", 0));
        assert_ne!(draw(1, "a", 0), draw(1, "b", 0));
        assert_ne!(draw(1, "a", 0), draw(1, "a", 1));
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::stream(7, "bounds", 0);
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[rng.below(5) as usize] += 1;
            assert!((3..9).contains(&rng.within(3..9)));
            assert_ne!(rng.weighted(&[1, 0, 2]), 1);
        }
        assert!(seen.iter().all(|&n| n > 800), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0));
        assert!(rng.chance(1_000_000));
    }
}
