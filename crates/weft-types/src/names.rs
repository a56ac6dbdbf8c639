//! Names of directory entries: their hash, and which shard of a spread directory has them
//! (`docs/protocols/spread.md`).

use siphasher::sip::SipHasher13;

/// Shards of one directory at most.
pub const SHARDS_MAX: usize = 128;

/// A shard's own cookies have its number, counted from 1, above so many bits; those of other directories are
/// below them.
pub const COOKIE_BITS: u32 = 48;

/// The hash of a name, by which the shards of a directory are found: it stands for names on disks of all
/// servers, so it never changes. It is keyed (though everybody knows the key), since among hashes that are only
/// fast whole sets of names of one shard are found without trying.
pub fn name_hash(name: &[u8]) -> u64 {
    SipHasher13::new_with_keys(0x7765_6674, 0x6e61_6d65).hash(name)
}

/// Which of so many shards, a power of two, has the names of this hash: by its first bits.
pub fn shard_of_hash(hash: u64, shards: usize) -> usize {
    debug_assert!(shards == 0 || shards.is_power_of_two());
    match shards {
        0 | 1 => 0,
        shards => (hash >> (u64::BITS - shards.trailing_zeros())) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it another one, names would be sought where they are not.
    #[test]
    fn the_hash_of_a_name_is_what_it_was() {
        assert_eq!(name_hash(b""), 10_404_519_366_651_456_775);
        assert_eq!(name_hash(b"a"), 11_106_272_594_268_370_709);
        assert_eq!(
            name_hash(b"a name that is longer than a word"),
            14_545_660_938_042_307_489
        );
    }

    #[test]
    fn shards_share_the_hashes_in_order() {
        assert_eq!(shard_of_hash(u64::MAX, 1), 0);
        for shards in [2usize, 16, SHARDS_MAX] {
            let first = |of: usize| (of as u64) << (64 - shards.trailing_zeros());
            for shard in 0..shards {
                assert_eq!(shard_of_hash(first(shard), shards), shard);
                let last = first(shard) + (first(1) - 1);
                assert_eq!(shard_of_hash(last, shards), shard);
            }
        }
        let of = |number: u32| shard_of_hash(name_hash(format!("f{number}").as_bytes()), 16);
        let mut counts = [0; 16];
        for number in 0..16_000 {
            counts[of(number)] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1_150).contains(count)),
            "{counts:?}"
        );
    }
}
