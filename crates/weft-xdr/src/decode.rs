//! From bytes to values.

use bytes::Bytes;
use std::collections::VecDeque;
use thiserror::Error;

/// Elements that room is made for before the first is decoded; more as they come. An element takes as little as four
/// bytes of the record and up to some hundred here, so that a count alone must not make room.
const ROOM_MAX: usize = 32;

/// Why bytes are not what they should be. All of it is the sender's doing.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The record ends before the value does.
    #[error("the record ends too early")]
    Short,
    /// More elements or bytes than the protocol allows.
    #[error("{length} where at most {bound} are allowed")]
    TooLong {
        /// What is announced.
        length: u32,
        /// What is allowed.
        bound: u32,
    },
    /// A bool that is neither 0 nor 1.
    #[error("{0} is no bool")]
    Bool(u32),
    /// A value that the enum does not have.
    #[error("{of} has no member {value}")]
    Member {
        /// The enum.
        of: &'static str,
        /// The value.
        value: i32,
    },
    /// A member for which the union has no arm.
    #[error("{of} has no arm {value}")]
    Arm {
        /// The union.
        of: &'static str,
        /// The value.
        value: i32,
    },
    /// Something is left when all is decoded.
    #[error("{0} bytes are left over")]
    LeftOver(usize),
    /// A value lies on both sides of a place where the record was cut.
    #[error("a value lies across the record's parts")]
    Split,
}

/// Takes values from a record, which may come in several parts.
///
/// A length is compared with its bound and with what is left of the record before anything is done about it, and
/// room is made as elements are decoded. Opaque bytes are slices of a part; they never lie across two.
#[derive(Clone, Debug)]
pub struct Decoder {
    part: Bytes,
    at: usize,
    later: VecDeque<Bytes>,
    later_bytes: usize,
}

impl Decoder {
    /// A record in one part.
    pub fn new(record: Bytes) -> Decoder {
        Decoder {
            part: record,
            at: 0,
            later: VecDeque::new(),
            later_bytes: 0,
        }
    }

    /// A record in several parts, one behind the other.
    pub fn of_parts(parts: impl IntoIterator<Item = Bytes>) -> Decoder {
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        let part = parts.next().unwrap_or_default();
        let later: VecDeque<Bytes> = parts.collect();
        let later_bytes = later.iter().map(Bytes::len).sum();
        Decoder {
            part,
            at: 0,
            later,
            later_bytes,
        }
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.part.len() - self.at + self.later_bytes
    }

    /// What comes next, as far as it lies in one piece. Nothing is taken.
    pub fn ahead(&self) -> &[u8] {
        match (&self.part[self.at..], self.later.front()) {
            ([], Some(next)) => next,
            (here, _) => here,
        }
    }

    /// Goes to the part in which the next byte is.
    fn turn(&mut self) {
        if self.at == self.part.len()
            && let Some(next) = self.later.pop_front()
        {
            self.later_bytes -= next.len();
            self.part = next;
            self.at = 0;
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.turn();
        match self.part[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None if self.remaining() < N => Err(DecodeError::Short),
            None => Err(DecodeError::Split),
        }
    }

    /// An unsigned int.
    ///
    /// # Errors
    /// [`DecodeError::Short`], [`DecodeError::Split`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_be_bytes)
    }

    /// An int.
    ///
    /// # Errors
    /// As [`Decoder::u32`].
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.take().map(i32::from_be_bytes)
    }

    /// An unsigned hyper.
    ///
    /// # Errors
    /// As [`Decoder::u32`].
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_be_bytes)
    }

    /// A hyper.
    ///
    /// # Errors
    /// As [`Decoder::u32`].
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.take().map(i64::from_be_bytes)
    }

    /// A bool.
    ///
    /// # Errors
    /// As [`Decoder::u32`], and [`DecodeError::Bool`].
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Bool(other)),
        }
    }

    /// Opaque bytes, always `N`.
    ///
    /// # Errors
    /// As [`Decoder::u32`].
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        if N == 0 {
            return Ok([0; N]);
        }
        let bytes = self.take()?;
        self.skip_padding(N)?;
        Ok(bytes)
    }

    /// Opaque bytes, at most `bound`: a slice of the record.
    ///
    /// # Errors
    /// As [`Decoder::u32`], and [`DecodeError::TooLong`].
    pub fn opaque(&mut self, bound: u32) -> Result<Bytes, DecodeError> {
        let length = self.u32()?;
        if length > bound {
            return Err(DecodeError::TooLong { length, bound });
        }
        let length = length as usize;
        if length == 0 {
            return Ok(Bytes::new());
        }
        if length > self.remaining() {
            return Err(DecodeError::Short);
        }
        self.turn();
        let end = self.at + length;
        if end > self.part.len() {
            return Err(DecodeError::Split);
        }
        let bytes = self.part.slice(self.at..end);
        self.at = end;
        self.skip_padding(length)?;
        Ok(bytes)
    }

    /// What fills up to a multiple of four. Senders should write zeros; nothing depends on it.
    fn skip_padding(&mut self, length: usize) -> Result<(), DecodeError> {
        for _ in length..length.next_multiple_of(4) {
            self.take::<1>()?;
        }
        Ok(())
    }

    /// At most `bound` elements, each of which takes `bytes_min` bytes or more.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`]; [`DecodeError::Short`] if the record cannot have so many; as `each`.
    pub fn vec<T>(
        &mut self,
        bound: u32,
        bytes_min: usize,
        mut each: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let length = self.u32()?;
        if length > bound {
            return Err(DecodeError::TooLong { length, bound });
        }
        let length = length as usize;
        if length > self.remaining() / bytes_min.max(1) {
            return Err(DecodeError::Short);
        }
        let mut elements = Vec::with_capacity(length.min(ROOM_MAX));
        for _ in 0..length {
            elements.push(each(self)?);
        }
        Ok(elements)
    }

    /// Always `N` elements.
    ///
    /// # Errors
    /// As `each`.
    pub fn array<T, const N: usize>(
        &mut self,
        mut each: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<[T; N], DecodeError> {
        let mut elements = Vec::with_capacity(N);
        for _ in 0..N {
            elements.push(each(self)?);
        }
        elements.try_into().map_err(|_| DecodeError::Short)
    }

    /// What is there or not.
    ///
    /// # Errors
    /// As [`Decoder::bool`] and `each`.
    pub fn option<T>(
        &mut self,
        each: impl FnOnce(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        match self.bool()? {
            true => each(self).map(Some),
            false => Ok(None),
        }
    }

    /// Elements, each behind a bool that says that it is there.
    ///
    /// # Errors
    /// As [`Decoder::bool`] and `each`.
    pub fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let mut elements = Vec::new();
        while self.bool()? {
            elements.push(each(self)?);
        }
        Ok(elements)
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// [`DecodeError::LeftOver`].
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(DecodeError::LeftOver(left)),
        }
    }
}
