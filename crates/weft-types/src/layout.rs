//! Layout arithmetic: which pair and object offset hold each byte of a file.
//!
//! A file is cut into stripes of `unit` bytes. Stripe `s` lies on the `s mod width`-th pair of the
//! layout, as the `s div width`-th unit of the object there (CEFT section 3.2). Leadership turns
//! with the stripe within each pair: the member that leads is the parity of `s div width`, so that
//! a file on any number of pairs loads both groups alike.

use crate::{FILE_BYTES_MAX, Member, PairId};
use std::ops::Range;

/// How far clients write into an object, in bytes. A data server keeps it in one file, and of the file systems that
/// stores are on ext4 has the smallest largest file: 16 TiB with blocks of 4 KiB, of which checksum pages take a part.
pub const OBJECT_REACH: u64 = 15 << 40;

/// How far a file on so many pairs can reach: what is beyond has no place.
pub fn reach_of(pairs: usize) -> u64 {
    OBJECT_REACH
        .saturating_mul(pairs as u64)
        .min(FILE_BYTES_MAX)
}

/// The geometry of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeMap {
    unit: u64,
    pairs: Vec<PairId>,
}

/// A run of file bytes that lies in one unit of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The pair that holds it.
    pub pair: PairId,
    /// Which pair of the layout that is.
    pub pair_index: usize,
    /// The member that leads its stripe while both serve.
    pub leader: Member,
    /// Where it begins in the file.
    pub file_offset: u64,
    /// Where it begins in the object.
    pub object_offset: u64,
    /// Bytes.
    pub length: u64,
}

impl StripeMap {
    /// `unit` must be a power of two and `pairs` not empty: checked where layouts are decoded.
    /// Returns None otherwise.
    pub fn new(unit: u32, pairs: Vec<PairId>) -> Option<StripeMap> {
        (unit.is_power_of_two() && !pairs.is_empty()).then_some(StripeMap {
            unit: u64::from(unit),
            pairs,
        })
    }

    /// Bytes laid on one pair before the next.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The pairs in stripe order.
    pub fn pairs(&self) -> &[PairId] {
        &self.pairs
    }

    /// Bytes that the file can have at most.
    pub fn reach(&self) -> u64 {
        reach_of(self.pairs.len())
    }

    /// The piece that begins at `offset` and is at most `length` long.
    pub fn piece_at(&self, offset: u64, length: u64) -> Piece {
        let width = self.pairs.len() as u64;
        let stripe = offset / self.unit;
        let within = offset % self.unit;
        let row = stripe / width;
        let pair_index = (stripe % width) as usize;
        Piece {
            pair: self.pairs[pair_index],
            pair_index,
            leader: if row.is_multiple_of(2) {
                Member::Zero
            } else {
                Member::One
            },
            file_offset: offset,
            object_offset: row * self.unit + within,
            length: length.min(self.unit - within),
        }
    }

    /// How long the object on the `pair_index`-th pair is when the file has `size` bytes.
    pub fn object_length(&self, pair_index: usize, size: u64) -> u64 {
        let width = self.pairs.len() as u64;
        let full_rows = size / (self.unit * width);
        let rest = size % (self.unit * width);
        let before = pair_index as u64 * self.unit;
        full_rows * self.unit + rest.saturating_sub(before).min(self.unit)
    }

    /// What the object on the `pair_index`-th pair holds of `start..end` of the file: one range, perhaps an empty one,
    /// however many units that is.
    pub fn object_range(&self, pair_index: usize, start: u64, end: u64) -> Range<u64> {
        self.object_length(pair_index, start)..self.object_length(pair_index, end)
    }

    /// The file size that an object of `length` bytes on the `pair_index`-th pair proves.
    pub fn size_from_object(&self, pair_index: usize, length: u64) -> u64 {
        if length == 0 {
            return 0;
        }
        self.file_offset(pair_index, length - 1) + 1
    }

    /// The file offset of an object's byte.
    pub fn file_offset(&self, pair_index: usize, object_offset: u64) -> u64 {
        let width = self.pairs.len() as u64;
        let row = object_offset / self.unit;
        (row * width + pair_index as u64) * self.unit + object_offset % self.unit
    }

    /// The member that leads the stripe at this offset of an object.
    pub fn leader(&self, object_offset: u64) -> Member {
        if (object_offset / self.unit).is_multiple_of(2) {
            Member::Zero
        } else {
            Member::One
        }
    }
}

/// The pieces of `start..end` in order.
pub fn pieces(map: &StripeMap, start: u64, end: u64) -> impl Iterator<Item = Piece> + '_ {
    let mut at = start;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let piece = map.piece_at(at, end - at);
            at += piece.length;
            piece
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{STRIPE_UNIT_MAX, STRIPE_UNIT_MIN};

    #[test]
    fn what_an_object_holds_of_a_range_is_one_range() {
        for width in 1..=3u32 {
            let map = StripeMap::new(4, (0..width).map(PairId).collect()).unwrap();
            for (start, end) in (0..40).flat_map(|start| (start..40).map(move |end| (start, end))) {
                for index in 0..width as usize {
                    let of_pair = pieces(&map, start, end).filter(|it| it.pair_index == index);
                    let bytes: Vec<u64> = of_pair
                        .flat_map(|it| it.object_offset..it.object_offset + it.length)
                        .collect();
                    let range = map.object_range(index, start, end);
                    assert_eq!(range.collect::<Vec<u64>>(), bytes, "{start}..{end}");
                }
            }
            // Of as many units as there can be.
            let all = map.object_range(0, 0, u64::MAX);
            assert!(all.end >= u64::MAX / u64::from(width) - 4);
        }
    }

    #[test]
    fn a_file_reaches_as_far_as_all_its_objects_do() {
        for width in 1..=3u32 {
            for unit in [STRIPE_UNIT_MIN, STRIPE_UNIT_MAX] {
                let map = StripeMap::new(unit, (0..width).map(PairId).collect()).unwrap();
                let ends = (0..width as usize).map(|index| map.object_length(index, map.reach()));
                assert!(ends.into_iter().all(|end| end == OBJECT_REACH));
            }
        }
        assert_eq!(reach_of(usize::MAX), FILE_BYTES_MAX);
    }

    #[test]
    fn every_byte_has_one_place_and_the_way_back() {
        for width in 1..=3u32 {
            let map = StripeMap::new(4, (0..width).map(PairId).collect()).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for offset in 0..64 {
                let piece = map.piece_at(offset, 1);
                assert!(seen.insert((piece.pair, piece.object_offset)));
                assert_eq!(
                    map.file_offset(piece.pair_index, piece.object_offset),
                    offset
                );
                assert_eq!(map.leader(piece.object_offset), piece.leader);
            }
            for size in 0..64 {
                let lengths: Vec<u64> = (0..width as usize)
                    .map(|i| map.object_length(i, size))
                    .collect();
                assert_eq!(lengths.iter().sum::<u64>(), size);
                let found = lengths
                    .iter()
                    .enumerate()
                    .map(|(i, &l)| map.size_from_object(i, l))
                    .max()
                    .unwrap();
                assert_eq!(found, size);
            }
        }
    }

    #[test]
    fn pieces_cover_a_range_without_gap() {
        let map = StripeMap::new(8, vec![PairId(3), PairId(1)]).unwrap();
        let all: Vec<Piece> = pieces(&map, 5, 30).collect();
        assert_eq!(all.iter().map(|p| p.length).sum::<u64>(), 25);
        assert_eq!(
            all.iter().map(|p| p.length).collect::<Vec<_>>(),
            [3, 8, 8, 6]
        );
        assert_eq!(all[0].pair, PairId(3));
        assert_eq!(all[1].pair, PairId(1));
        assert_eq!(all[2].leader, Member::One);
    }

    #[test]
    fn a_unit_that_is_no_power_of_two_is_refused() {
        assert!(StripeMap::new(3, vec![PairId(0)]).is_none());
        assert!(StripeMap::new(4, vec![]).is_none());
    }
}
