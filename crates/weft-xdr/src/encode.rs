//! From values to bytes.

use crate::Xdr;
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::VecDeque;

/// Opaque bytes from this length on are not copied: the slice itself becomes a part of what is written. Below it,
/// copying costs less than one more part for the socket.
pub const CUT_BYTES: usize = 4 << 10;

/// Appends values to a buffer, and keeps long opaque bytes beside it.
///
/// What it makes is a sequence of parts: [`Encoder::drain_into`]. Several messages may be encoded one behind the
/// other, so that many small ones are one part.
#[derive(Debug, Default)]
pub struct Encoder {
    buffer: BytesMut,
    /// Bytes that belong in front of the buffer's byte at that place, in order.
    cuts: Vec<(usize, Bytes)>,
    cut_bytes: usize,
}

impl Encoder {
    /// Bytes encoded so far, in all parts.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.cut_bytes
    }

    /// True before anything is encoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A place whose four bytes are written later, by [`Encoder::set_u32`].
    pub fn gap(&mut self) -> usize {
        let at = self.buffer.len();
        self.u32(0);
        at
    }

    /// Writes into a gap.
    pub fn set_u32(&mut self, gap: usize, value: u32) {
        self.buffer[gap..gap + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Forgets everything behind a mark that [`Encoder::mark`] gave.
    pub fn rewind(&mut self, mark: (usize, usize)) {
        self.buffer.truncate(mark.0);
        for (_, bytes) in self.cuts.drain(mark.1..) {
            self.cut_bytes -= bytes.len();
        }
    }

    /// This place, for [`Encoder::rewind`].
    pub fn mark(&self) -> (usize, usize) {
        (self.buffer.len(), self.cuts.len())
    }

    /// Moves everything to the end of a queue of parts. The buffer's room that is left is used again.
    pub fn drain_into(&mut self, parts: &mut VecDeque<Bytes>) {
        let mut done = 0;
        for (at, bytes) in self.cuts.drain(..) {
            if at > done {
                parts.push_back(self.buffer.split_to(at - done).freeze());
                done = at;
            }
            parts.push_back(bytes);
        }
        if !self.buffer.is_empty() {
            parts.push_back(self.buffer.split().freeze());
        }
        self.cut_bytes = 0;
    }

    /// Appends what another one holds; its parts stay parts.
    pub fn absorb(&mut self, other: Encoder) {
        let base = self.buffer.len();
        self.buffer.put_slice(&other.buffer);
        let cuts = other.cuts.into_iter();
        self.cuts.extend(cuts.map(|(at, bytes)| (base + at, bytes)));
        self.cut_bytes += other.cut_bytes;
    }

    /// Everything in one piece, copied if there are several parts.
    pub fn joined(mut self) -> Bytes {
        let mut parts = VecDeque::new();
        self.drain_into(&mut parts);
        match parts.len() {
            0 => Bytes::new(),
            1 => parts.remove(0).unwrap_or_default(),
            _ => {
                let mut whole = BytesMut::new();
                for part in parts {
                    whole.extend_from_slice(&part);
                }
                whole.freeze()
            }
        }
    }

    /// An unsigned int.
    pub fn u32(&mut self, value: u32) {
        self.buffer.put_u32(value);
    }

    /// An int.
    pub fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    /// An unsigned hyper.
    pub fn u64(&mut self, value: u64) {
        self.buffer.put_u64(value);
    }

    /// A hyper.
    pub fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    /// A bool.
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Opaque bytes of a length that is not written.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.buffer.put_slice(bytes);
        self.pad(bytes.len());
    }

    /// Opaque bytes, at most `bound`: that there are no more is for the caller to see to.
    pub fn opaque(&mut self, bound: u32, bytes: &Bytes) {
        self.u32(length(bytes.len(), bound));
        self.append(bytes);
        self.pad(bytes.len());
    }

    /// Opaque bytes that are in several pieces, at most `bound` together: that there are no more is for the caller to
    /// see to.
    pub fn opaque_parts(&mut self, bound: u32, parts: &[Bytes]) {
        let all = parts.iter().map(Bytes::len).sum();
        self.u32(length(all, bound));
        for part in parts {
            self.append(part);
        }
        self.pad(all);
    }

    fn append(&mut self, bytes: &Bytes) {
        if bytes.len() < CUT_BYTES {
            self.buffer.put_slice(bytes);
        } else {
            self.cuts.push((self.buffer.len(), bytes.clone()));
            self.cut_bytes += bytes.len();
        }
    }

    /// At most `bound` elements: that there are no more is for the caller to see to.
    pub fn vec<T>(&mut self, bound: u32, elements: &[T], mut each: impl FnMut(&mut Encoder, &T)) {
        self.u32(length(elements.len(), bound));
        for element in elements {
            each(self, element);
        }
    }

    /// Elements of a number that is not written.
    pub fn array<T>(&mut self, elements: &[T], mut each: impl FnMut(&mut Encoder, &T)) {
        for element in elements {
            each(self, element);
        }
    }

    /// What is there or not.
    pub fn option<T>(&mut self, value: Option<&T>, each: impl FnOnce(&mut Encoder, &T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            each(self, value);
        }
    }

    /// Elements, each behind a bool that says that it is there.
    pub fn list<T: Xdr>(&mut self, elements: &[T]) {
        for element in elements {
            self.bool(true);
            element.encode(self);
        }
        self.bool(false);
    }

    fn pad(&mut self, length: usize) {
        self.buffer
            .put_bytes(0, length.next_multiple_of(4) - length);
    }
}

/// A length of ours as it is written. One past its bound would be refused by every reader.
fn length(length: usize, bound: u32) -> u32 {
    match u32::try_from(length) {
        Ok(fits) if fits <= bound => fits,
        _ => panic!("{length} where at most {bound} are allowed: the caller did not look"),
    }
}
