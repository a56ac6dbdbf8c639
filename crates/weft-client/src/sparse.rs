//! Reading with holes: who reads is told where nothing was written, and spared the zeros.
//!
//! What is read is of one moment, holes with bytes, as with any read (`file.rs`). The data servers are asked where
//! holes are only of a file that has fewer blocks than its length wants: to ask costs a way there and back.

use crate::core::Core;
use crate::handles::FileHandle;
use crate::types::{Errno, HandleId, Piece, Result};
use std::ops::Range;
use std::rc::Rc;
use weft_types::BLOCK_BYTES;

/// A part of what is read.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Data(Range<u64>),
    Hole(Range<u64>),
}

/// Cuts `span` into data and holes. `data`: where there is any, in order, not overlapping. A hole that is shorter than
/// `least` is not worth its mention.
fn parts(data: &[(u64, u64)], span: Range<u64>, least: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    // Where what is not yet in a part begins, and where the last data before ends.
    let (mut begun, mut at) = (span.start, span.start);
    let after = (span.end, span.end);
    for (from, to) in data.iter().chain([&after]) {
        let from = (*from).clamp(at, span.end);
        if from - at >= least.max(1) {
            if begun < at {
                parts.push(Part::Data(begun..at));
            }
            parts.push(Part::Hole(at..from));
            begun = from;
        }
        at = (*to).clamp(at, span.end);
    }
    if begun < span.end {
        parts.push(Part::Data(begun..span.end));
    }
    parts
}

impl Core {
    /// As [`Core::read`], with holes of at least `least` bytes left out.
    pub async fn read_sparse(
        self: &Rc<Self>,
        id: HandleId,
        (offset, length): (u64, usize),
        least: u64,
    ) -> Result<Vec<Piece>> {
        let handle = self.handles.file(id)?;
        if !handle.flags.read {
            return Err(Errno(libc::EBADF));
        }
        let node = &handle.node;
        self.announced(node).await;
        loop {
            let begun = self.begin_read(node, offset, length).await?;
            if !handle.flags.keep_atime {
                self.was_read(node);
            }
            let pieces = self.pieces_here(&handle, (offset, length), least).await;
            if self.has_stood(&begun) {
                return pieces;
            }
        }
    }

    /// Under a READ use of the caller's.
    async fn pieces_here(
        self: &Rc<Self>,
        handle: &FileHandle,
        (offset, length): (u64, usize),
        least: u64,
    ) -> Result<Vec<Piece>> {
        let node = &handle.node;
        let (attr, layout, trim) = {
            let state = node.state.borrow();
            let layout = state.layout.clone().ok_or(Errno(libc::EIO))?;
            let trim = state.trim.map_or(u64::MAX, |(_, from)| from);
            (state.attr.unwrap_or_default(), layout, trim)
        };
        let end = attr.size.min(offset.saturating_add(length as u64));
        if offset >= end {
            return Ok(Vec::new());
        }
        // The last block may be begun only.
        let is_full = attr.allocated >= attr.size - attr.size % BLOCK_BYTES;
        if is_full && trim == u64::MAX {
            let data = self.read_here(handle, offset, length).await?;
            return Ok(vec![Piece::Data(data)]);
        }
        let data = self.data_ranges(node, &layout, offset, end, trim).await?;
        let parts = parts(&data, offset..end, least);
        let read = parts.into_iter().map(async |part| {
            Ok(match part {
                Part::Data(span) => Piece::Data(self.read_range(node, span.start, span.end).await?),
                Part::Hole(span) => Piece::Hole(span.end - span.start),
            })
        });
        let read = futures_util::future::join_all(read).await;
        read.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets of data in a file of eight blocks, all spans of it, and several least holes: parts follow each other
    /// and cover the span, data is never in a hole, and what is told as a hole is one whole and long enough.
    #[test]
    fn parts_cover_what_was_asked_for_and_holes_are_holes() {
        for set in 0u32..256 {
            let is_data = |at: u64| set & 1 << at != 0;
            let mut data: Vec<(u64, u64)> = Vec::new();
            for at in (0..8).filter(|at| is_data(*at)) {
                match data.last_mut() {
                    Some(last) if last.1 == at => last.1 = at + 1,
                    _ => data.push((at, at + 1)),
                }
            }
            for (start, end, least) in (0..8)
                .flat_map(|start| (start + 1..9).map(move |end| (start, end)))
                .flat_map(|(start, end)| (1..4).map(move |least| (start, end, least)))
            {
                let mut at = start;
                let mut holes = 0;
                for part in parts(&data, start..end, least) {
                    let (span, is_hole) = match part {
                        Part::Data(span) => (span, false),
                        Part::Hole(span) => (span, true),
                    };
                    assert!(span.start == at && span.start < span.end);
                    if is_hole {
                        assert!(!span.clone().any(is_data) && span.end - span.start >= least);
                        let is_whole = |at: u64| at == start || is_data(at - 1);
                        assert!(is_whole(span.start) && (span.end == end || is_data(span.end)));
                        holes += 1;
                    }
                    at = span.end;
                }
                assert_eq!(at, end);
                let (mut expected, mut run) = (0, 0);
                for at in start..=end {
                    match at < end && !is_data(at) {
                        true => run += 1,
                        false => {
                            expected += u32::from(run >= least);
                            run = 0;
                        }
                    }
                }
                assert_eq!(holes, expected, "{set:b} {start}..{end} {least}");
            }
        }
    }
}
