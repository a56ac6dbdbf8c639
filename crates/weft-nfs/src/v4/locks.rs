//! Byte-range locks as clients name and hold them; who has which is the metadata service's to say.

use super::opens::Open;
use super::stateids::{Name, next};
use bytes::Bytes;
use rangemap::RangeMap;
use siphasher::sip::SipHasher13;
use std::cell::{Cell, RefCell};
use std::hash::Hasher;
use std::ops::Range;
use std::rc::Rc;
use weft_xdr::nfs4::{nfsstat4, stateid4};

/// Bytes of a file: the last one is within. To the end, however far it goes: `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u64,
    pub last: u64,
}

impl Span {
    /// As the protocol says it: `u64::MAX` bytes are all that follow.
    ///
    /// # Errors
    /// INVAL: no byte, or such as no file has.
    pub(super) fn of(start: u64, length: u64) -> Result<Span, nfsstat4> {
        let last = match length {
            0 => None,
            u64::MAX => Some(u64::MAX),
            length => start.checked_add(length - 1),
        };
        match last {
            Some(last) => Ok(Span { start, last }),
            None => Err(nfsstat4::NFS4ERR_INVAL),
        }
    }

    pub(super) fn length(self) -> u64 {
        match self.last {
            u64::MAX => u64::MAX,
            last => last - self.start + 1,
        }
    }

    fn range(self) -> Range<u64> {
        // The very last byte of all, which no file can have, is left out.
        self.start.min(u64::MAX - 1)..self.last.saturating_add(1)
    }
}

/// What an owner has locked of an open file.
#[derive(Debug)]
pub(super) struct Lock {
    pub number: u32,
    pub open: Rc<Open>,
    pub owner: Bytes,
    /// As whom the metadata service knows the owner, and its client.
    pub hash: u64,
    pub behalf: u64,
    /// The gateway's session with the metadata service that has them: with another one they have to be reclaimed.
    pub session: Cell<u64>,
    /// They could not be.
    pub is_lost: Cell<bool>,
    /// What is locked, and whether for itself alone.
    ranges: RefCell<RangeMap<u64, bool>>,
    seqid: Cell<u32>,
}

/// As whom the metadata service knows an owner of a client, which it knows as `behalf`: the same at all gateways.
pub(super) fn owner_hash(behalf: u64, owner: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(behalf);
    hasher.write(owner);
    hasher.finish()
}

impl Lock {
    pub(super) fn new(number: u32, open: &Rc<Open>, owner: &Bytes, session: u64) -> Lock {
        Lock {
            number,
            hash: owner_hash(open.behalf, owner),
            behalf: open.behalf,
            is_lost: Cell::new(false),
            open: open.clone(),
            owner: owner.clone(),
            session: Cell::new(session),
            ranges: RefCell::default(),
            seqid: Cell::new(0),
        }
    }

    pub(super) fn name(&self) -> Name {
        Name {
            client: self.open.client,
            number: self.number,
            seqid: self.seqid.get(),
        }
    }

    pub(super) fn stateid(&self) -> stateid4 {
        self.name().stateid()
    }

    pub(super) fn locked(&self, span: Span, is_exclusive: bool) {
        self.ranges.borrow_mut().insert(span.range(), is_exclusive);
        self.seqid.set(next(self.seqid.get()));
    }

    pub(super) fn unlocked(&self, span: Span) {
        self.ranges.borrow_mut().remove(span.range());
        self.seqid.set(next(self.seqid.get()));
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.ranges.borrow().is_empty()
    }

    /// All that is locked, and whether for itself alone.
    pub(super) fn spans(&self) -> Vec<(Span, bool)> {
        let ranges = self.ranges.borrow();
        ranges
            .iter()
            .map(|(range, is_exclusive)| {
                let last = match range.end {
                    u64::MAX => u64::MAX,
                    end => end - 1,
                };
                let span = Span {
                    start: range.start,
                    last,
                };
                (span, *is_exclusive)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_bytes_and_an_end() {
        let span = |start, length| Span::of(start, length).map(|it| (it.start, it.last));
        assert_eq!(span(5, 1), Ok((5, 5)));
        assert_eq!(span(5, u64::MAX), Ok((5, u64::MAX)));
        assert_eq!(span(u64::MAX, 1), Ok((u64::MAX, u64::MAX)));
        assert_eq!(span(u64::MAX - 4, 5), Ok((u64::MAX - 4, u64::MAX)));
        for (start, length) in [(5, 0), (3, u64::MAX - 1), (u64::MAX, 2)] {
            assert_eq!(span(start, length), Err(nfsstat4::NFS4ERR_INVAL));
        }
        for (start, length) in [(0, 1), (7, 9), (3, u64::MAX)] {
            assert_eq!(Span::of(start, length).unwrap().length(), length);
        }
    }
}
