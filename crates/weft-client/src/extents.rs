//! Bytes of one file that are not on the data servers yet: non-overlapping extents by offset.
//!
//! Pure. The write buffer (`writeback.rs`) keeps two of these for each file: what waits and what is
//! on its way; a read lays both over what the servers hold. Extents share the buffers they came in
//! and are copied only when many small neighbours are joined.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// Neighbours are joined by copying while the result is at most this long: a file written in tiny
/// steps then keeps few buffers, and longer ones are not worth a copy.
const JOIN_BYTES: usize = 64 << 10;
/// Only writes shorter than this are joined to what precedes them.
const JOIN_SMALL_BYTES: usize = 4 << 10;

/// One run of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The content.
    pub bytes: Bytes,
    /// The oldest flush round that has to include it: see [`ExtentMap::oldest_round`].
    pub round: u64,
}

/// Non-overlapping extents by file offset.
#[derive(Clone, Debug, Default)]
pub struct ExtentMap {
    extents: BTreeMap<u64, Extent>,
    /// How many extents belong to each round.
    rounds: BTreeMap<u64, usize>,
    bytes: u64,
}

impl ExtentMap {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Extents held.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// The end of the last extent, 0 if there is none.
    pub fn end(&self) -> u64 {
        self.extents
            .last_key_value()
            .map_or(0, |(at, extent)| at + extent.bytes.len() as u64)
    }

    /// The oldest round any extent belongs to. A flush of round r is over when this is above r:
    /// bytes that replace older ones inherit the older round.
    pub fn oldest_round(&self) -> Option<u64> {
        self.rounds.first_key_value().map(|(round, _)| *round)
    }

    fn put(&mut self, at: u64, extent: Extent) {
        self.bytes += extent.bytes.len() as u64;
        *self.rounds.entry(extent.round).or_default() += 1;
        let before = self.extents.insert(at, extent);
        debug_assert!(before.is_none(), "extents overlap");
    }

    fn take_at(&mut self, at: u64) -> Option<Extent> {
        let extent = self.extents.remove(&at)?;
        self.bytes -= extent.bytes.len() as u64;
        if let Some(count) = self.rounds.get_mut(&extent.round) {
            *count -= 1;
            if *count == 0 {
                self.rounds.remove(&extent.round);
            }
        }
        Some(extent)
    }

    /// Removes what lies in `start..end` and returns it, in order.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<(u64, Extent)> {
        let mut removed = Vec::new();
        if start >= end {
            return removed;
        }
        if let Some((&at, extent)) = self.extents.range(..start).next_back()
            && at + extent.bytes.len() as u64 > start
            && let Some(Extent { mut bytes, round }) = self.take_at(at)
        {
            let mut rest = bytes.split_off((start - at) as usize);
            self.put(at, Extent { bytes, round });
            if (start + rest.len() as u64) > end {
                let bytes = rest.split_off((end - start) as usize);
                self.put(end, Extent { bytes, round });
            }
            removed.push((start, Extent { bytes: rest, round }));
        }
        while let Some((&at, _)) = self.extents.range(start..end).next() {
            let Some(Extent { mut bytes, round }) = self.take_at(at) else {
                break;
            };
            if at + bytes.len() as u64 > end {
                let bytes = bytes.split_off((end - at) as usize);
                self.put(end, Extent { bytes, round });
            }
            removed.push((at, Extent { bytes, round }));
        }
        removed
    }

    /// Puts bytes in place of whatever is there.
    pub fn insert(&mut self, offset: u64, bytes: Bytes, round: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        let mut round = round;
        // Sequential writers, the common case, overlap nothing.
        if offset < self.end() {
            for (_, old) in self.remove(offset, end) {
                round = round.min(old.round);
            }
        }
        let (mut at, mut bytes) = (offset, bytes);
        // Joining only with a neighbour of up to twice the length copies each byte few times.
        let small = bytes.len() < JOIN_SMALL_BYTES;
        while small
            && let Some((&before, extent)) = self.extents.range(..at).next_back()
            && before + extent.bytes.len() as u64 == at
            && extent.bytes.len() <= 2 * bytes.len()
            && extent.bytes.len() + bytes.len() <= JOIN_BYTES
            && let Some(old) = self.take_at(before)
        {
            let mut joined = BytesMut::with_capacity(old.bytes.len() + bytes.len());
            joined.extend_from_slice(&old.bytes);
            joined.extend_from_slice(&bytes);
            at = before;
            bytes = joined.freeze();
            round = round.min(old.round);
        }
        self.put(at, Extent { bytes, round });
    }

    /// Puts an extent where nothing is, as it is.
    pub fn insert_unjoined(&mut self, offset: u64, extent: Extent) {
        self.put(offset, extent);
    }

    /// What lies in `start..end`, in order, cut to it.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Bytes)> + '_ {
        let first = self
            .extents
            .range(..=start)
            .next_back()
            .map_or(start, |(&at, _)| at);
        self.extents
            .range(first..end.max(first))
            .filter_map(move |(&at, extent)| {
                let from = at.max(start);
                let to = (at + extent.bytes.len() as u64).min(end);
                (from < to).then(|| {
                    let bytes = extent.bytes.slice((from - at) as usize..(to - at) as usize);
                    (from, bytes)
                })
            })
    }

    /// Something lies in `start..end`.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        start < end
            && self
                .extents
                .range(..end)
                .next_back()
                .is_some_and(|(&at, extent)| at + extent.bytes.len() as u64 > start)
    }

    /// Every byte of `start..end` is held.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        // From the end backwards the usual gap (a unit just begun) shows first.
        if !self.touches(end.saturating_sub(1), end) {
            return start >= end;
        }
        while at < end {
            match self.extents.range(..=at).next_back() {
                Some((&from, extent)) if from + extent.bytes.len() as u64 > at => {
                    at = from + extent.bytes.len() as u64;
                }
                _ => return false,
            }
        }
        true
    }

    /// Where the extents lie, from `start` on: start and end of each.
    pub fn ranges(&self, start: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self
            .extents
            .range(..=start)
            .next_back()
            .map_or(start, |(&at, _)| at);
        self.extents
            .range(first..)
            .map(|(&at, extent)| (at, at + extent.bytes.len() as u64))
            .filter(move |(_, end)| *end > start)
    }
}

#[cfg(test)]
#[path = "extents_tests.rs"]
mod tests;
