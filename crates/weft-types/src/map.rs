//! Hash maps whose hash is the same in every process and run.
//!
//! For places where nothing may depend on the order of iteration but a tree would cost too much.
//! The hash is not keyed: keys chosen by an outsider belong in a BTreeMap.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with a fixed hash. Iterate only where order cannot reach a reply, a journal or a log.
#[allow(clippy::disallowed_types)]
pub type FixedMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A hash set with a fixed hash; see [`FixedMap`].
#[allow(clippy::disallowed_types)]
pub type FixedSet<K> = std::collections::HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Multiply-and-fold over 64-bit words: quick for the ids that Weft uses as keys.
#[derive(Default, Clone)]
pub struct FixedHasher(u64);

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl FixedHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word).wrapping_mul(u128::from(MULTIPLIER) | 1 << 64);
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word) ^ (chunk.len() as u64).rotate_left(56));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        // hashbrown takes its bucket from the low bits and its tag from the high ones.
        self.0 ^ self.0.rotate_right(32)
    }
}
