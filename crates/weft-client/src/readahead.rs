//! Reading ahead of a sequential reader: one window of chunks for each handle.
//!
//! The kernel reads ahead, too, but not further than its own window, and faces without a kernel not
//! at all. Chunks are fetched under the same lease as reads, belong to one version of the node (its
//! writes, cuts and losses of the lease), and are dropped when that is past.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;

/// Bytes fetched ahead at a time.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;
/// A reader is sequential after this many bytes without a jump: short files are read before it
/// begins.
const SEQUENTIAL_BYTES: u64 = 256 << 10;

/// A chunk on its way or here.
pub(crate) struct Chunk {
    pub start: u64,
    pub length: u64,
    pub version: u64,
    /// None while on its way; `Some(None)` if it could not be had.
    pub parts: RefCell<Option<Option<Vec<Bytes>>>>,
    pub wake: Notify,
}

#[derive(Default)]
pub(crate) struct Readahead {
    chunks: VecDeque<Rc<Chunk>>,
    /// Where a sequential reader reads next, and for how many bytes it has been one.
    next: u64,
    run: u64,
}

impl Readahead {
    /// A read of `offset..offset + length` begins; `version` is the node's. Returns the chunks that
    /// are to be fetched now, up to `window` bytes ahead and not beyond `size`.
    pub fn advance(
        &mut self,
        offset: u64,
        length: u64,
        version: u64,
        window: u64,
        size: u64,
    ) -> Vec<Rc<Chunk>> {
        // The kernel sends a sequential stream's requests a little out of order.
        let is_next = offset <= self.next + CHUNK_BYTES && offset + 2 * CHUNK_BYTES >= self.next;
        if is_next {
            self.run += length;
        } else {
            self.run = 0;
            self.chunks.clear();
        }
        self.next = if is_next {
            self.next.max(offset + length)
        } else {
            offset + length
        };
        self.chunks.retain(|chunk| {
            chunk.version == version && chunk.start + chunk.length + CHUNK_BYTES > self.next
        });
        let mut wanted = Vec::new();
        if self.run < SEQUENTIAL_BYTES || window == 0 {
            return wanted;
        }
        let mut at = self
            .chunks
            .back()
            .map_or(self.next, |chunk| chunk.start + chunk.length)
            .max(self.next);
        let end = size.min(self.next + window);
        while at < end && (at + CHUNK_BYTES <= end || end == size) {
            let length = (CHUNK_BYTES - at % CHUNK_BYTES).min(end - at);
            let chunk = Rc::new(Chunk {
                start: at,
                length,
                version,
                parts: RefCell::default(),
                wake: Notify::new(),
            });
            self.chunks.push_back(chunk.clone());
            wanted.push(chunk);
            at += length;
        }
        wanted
    }

    /// The chunks that together hold all of a range, None if they do not.
    pub fn covering(&self, offset: u64, length: u64, version: u64) -> Option<Vec<Rc<Chunk>>> {
        let mut at = offset;
        let mut found = Vec::new();
        for chunk in &self.chunks {
            if at >= offset + length {
                break;
            }
            if chunk.version == version && chunk.start <= at && at < chunk.start + chunk.length {
                at = chunk.start + chunk.length;
                found.push(chunk.clone());
            }
        }
        (length > 0 && at >= offset + length).then_some(found)
    }
}

/// The part of a chunk's bytes that lies in `start..end` (within the chunk).
pub(crate) fn slice_parts(parts: &[Bytes], start: u64, end: u64) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in parts {
        let next = at + part.len() as u64;
        let (from, to) = (start.max(at), end.min(next));
        if from < to {
            found.push(part.slice((from - at) as usize..(to - at) as usize));
        }
        at = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    #[test]
    fn a_sequential_reader_is_read_ahead_of_and_a_jumping_one_is_not() {
        let mut ahead = Readahead::default();
        let size = 64 << 20;
        assert!(ahead.advance(0, 128 * K, 1, 4 << 20, size).is_empty());
        let first = ahead.advance(128 * K, 128 * K, 1, 4 << 20, size);
        assert_eq!(first.first().unwrap().start, 256 * K);
        let end = first.last().map(|c| c.start + c.length).unwrap();
        assert!((3 << 20..=256 * K + (4 << 20)).contains(&end));
        assert!(ahead.covering(256 * K, 128 * K, 1).is_some());
        assert!(
            ahead.covering(256 * K, 128 * K, 2).is_none(),
            "written since"
        );
        assert!(ahead.covering(32 << 20, 4 * K, 1).is_none());
        for i in 0..100 {
            let at = (i * 7919 % 64) << 20;
            assert!(ahead.advance(at, 4 * K, 1, 4 << 20, size).is_empty() || i == 0);
        }
    }

    #[test]
    fn the_window_ends_with_the_file() {
        let mut ahead = Readahead::default();
        let size = 1000 * K;
        ahead.advance(0, 256 * K, 1, 4 << 20, size);
        let chunks = ahead.advance(256 * K, 128 * K, 1, 4 << 20, size);
        let all: Vec<_> = ahead.chunks.iter().collect();
        assert_eq!(all.last().unwrap().start + all.last().unwrap().length, size);
        assert!(chunks.len() <= 1);
    }

    #[test]
    fn parts_are_cut_to_the_range() {
        let parts = [Bytes::from_static(b"abc"), Bytes::from_static(b"defg")];
        let cut: Vec<u8> = slice_parts(&parts, 1, 5).concat();
        assert_eq!(cut, b"bcde");
    }
}
