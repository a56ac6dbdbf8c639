//! What waits to be sent: records, as parts that are never joined.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;
use weft_xdr::Encoder;

/// Slices handed to the socket in one call (Linux takes up to 1024).
const SLICES_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Outgoing {
    /// Records that were encoded since the last `writev`.
    encoder: Encoder,
    parts: VecDeque<Bytes>,
    parts_bytes: usize,
}

impl Outgoing {
    /// Appends a record.
    pub(crate) fn record(&mut self, write: impl FnOnce(&mut Encoder)) {
        let before = self.encoder.len();
        let gap = self.encoder.gap();
        write(&mut self.encoder);
        let bytes = self.encoder.len() - before - 4;
        assert!(bytes >> 31 == 0, "a record of ours has {bytes} bytes");
        // All in one fragment.
        self.encoder.set_u32(gap, bytes as u32 | 1 << 31);
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.encoder.len() + self.parts_bytes
    }

    /// Calls `write` with what is first, as long as something waits and it takes some. Returns what it returned last.
    pub(crate) fn send<T>(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> Sent<T>,
    ) -> Option<T> {
        loop {
            if !self.encoder.is_empty() {
                self.parts_bytes += self.encoder.len();
                self.encoder.drain_into(&mut self.parts);
            }
            if self.parts.is_empty() {
                return None;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.parts.len().min(SLICES_MAX);
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                *slice = IoSlice::new(part);
            }
            match write(&slices[..count]) {
                Sent::Bytes(bytes) => self.forget(bytes),
                Sent::No(why) => return Some(why),
            }
        }
    }

    fn forget(&mut self, mut bytes: usize) {
        self.parts_bytes -= bytes;
        while let Some(first) = self.parts.front_mut() {
            if bytes < first.len() {
                first.advance(bytes);
                return;
            }
            bytes -= first.len();
            self.parts.pop_front();
        }
    }
}

/// What came of handing bytes over.
pub(crate) enum Sent<T> {
    /// So many were taken.
    Bytes(usize),
    /// None now.
    No(T),
}
