//! Records (RFC 5531, section 11): from bytes of a stream to calls and replies.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-------------------------------------------------------------+
//! |L|                     bytes of the fragment                   |   L: it is the record's last
//! +-+-------------------------------------------------------------+
//! ```
//!
//! A short record is a slice of what the socket gave. Of a long one the head is read first, and its payload goes from
//! the socket into a buffer of its own. What is kept of a record that is not whole is counted by the pool.

use crate::pool::{Buffer, Pool, Room};
use crate::program::Payload;
use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use thiserror::Error;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes asked of the socket at a time: many short records come in one call.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes asked of the socket behind a record with a payload of its own: the head of another such record, and little
/// of its payload, which would have to be copied.
const HEAD_READ_BYTES: usize = 512;
/// Records from this length on go into a buffer of the pool. Shorter ones are as well copied.
const PLACED_BYTES_MIN: usize = 16 << 10;
/// A payload that comes more slowly than it is read is handed on in multiples of this: whole blocks of files, and enough
/// to be worth a message of its own.
const PART_BYTES: usize = 32 << 10;
/// Who has not said where the payload is when it has seen so much of a record is not asked again.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Fragments of one record. A sender that cuts the longest record at every 1.5 KiB needs fewer.
const FRAGMENTS_MAX: u32 = 1024;

/// Why a stream cannot be read on. All of it is the other side's doing, or the network's.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Longer than is allowed: nothing behind it could be found without reading it.
    #[error("a record of {bytes} bytes or more, where at most {bound} are allowed")]
    TooLong {
        /// What is announced.
        bytes: usize,
        /// What is allowed.
        bound: usize,
    },
    /// Cut into too many pieces.
    #[error("a record of more than {FRAGMENTS_MAX} fragments")]
    Fragments,
    /// The stream ends in the middle of a record.
    #[error("ended in the middle of a record")]
    Cut,
    /// The stream itself.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A record: what is before the payload, the payload, what is behind it. Any of them may be empty.
#[derive(Clone, Debug)]
pub struct Record(pub [Bytes; 3]);

impl Record {
    fn whole(bytes: Bytes) -> Record {
        Record([bytes, Bytes::new(), Bytes::new()])
    }
}

/// What the reader came to.
pub(crate) enum Step {
    /// A record.
    Record(Record),
    /// More bytes are needed: [`Records::poll_fill`].
    Bytes,
    /// The pool has nothing to lend; the task is woken when it has.
    Room,
}

/// Bytes that were joined, for as long as somebody has a slice of them.
struct Joined(BytesMut, #[allow(dead_code)] Vec<Room>);

impl AsRef<[u8]> for Joined {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

enum State {
    /// A mark is next.
    Mark,
    /// The rest of a fragment is next, of several.
    Fragment { left: usize, is_last: bool },
    /// The rest of a payload is next, and behind it so many bytes.
    Payload {
        head: Bytes,
        buffer: Buffer,
        behind: usize,
        /// It may be handed on in parts.
        in_parts: bool,
    },
    /// What is behind the payload is next.
    Behind {
        head: Bytes,
        payload: Bytes,
        behind: usize,
    },
}

/// Reads records from a stream.
pub struct Records {
    buffer: BytesMut,
    state: State,
    joined: BytesMut,
    rooms: Vec<Room>,
    fragments: u32,
    bytes_max: usize,
    /// Bytes to ask of the socket.
    ask: usize,
    pool: Pool,
}

impl Records {
    /// Reads records of at most so many bytes.
    pub fn new(bytes_max: usize, pool: Pool) -> Records {
        Records {
            buffer: BytesMut::new(),
            state: State::Mark,
            joined: BytesMut::new(),
            rooms: Vec::new(),
            fragments: 0,
            bytes_max,
            ask: READ_BYTES,
            pool,
        }
    }

    /// True if the other side owes the rest of a record.
    pub(crate) fn is_inside(&self) -> bool {
        !self.buffer.is_empty() || self.fragments > 0 || !matches!(self.state, State::Mark)
    }

    /// The next record, if enough bytes are there. `place` is shown the beginning of a long one.
    ///
    /// # Errors
    /// If there is none, ever.
    pub(crate) fn next(
        &mut self,
        cx: &mut Context<'_>,
        place: &dyn Fn(&[u8]) -> Payload,
    ) -> Result<Step, RecordError> {
        loop {
            match &mut self.state {
                State::Mark => {
                    if let Some(step) = self.on_mark(cx, place)? {
                        return Ok(step);
                    }
                }
                State::Fragment { left, is_last } => {
                    let there = (*left).min(self.buffer.len());
                    self.joined.extend_from_slice(&self.buffer[..there]);
                    self.buffer.advance(there);
                    *left -= there;
                    if *left > 0 {
                        return Ok(Step::Bytes);
                    }
                    let is_whole = *is_last;
                    self.state = State::Mark;
                    if is_whole {
                        self.fragments = 0;
                        let bytes = std::mem::take(&mut self.joined);
                        let rooms = std::mem::take(&mut self.rooms);
                        let joined = Bytes::from_owner(Joined(bytes, rooms));
                        return Ok(Step::Record(Record::whole(joined)));
                    }
                }
                State::Payload { buffer, .. } => {
                    if !buffer.is_full() {
                        return Ok(Step::Bytes);
                    }
                    let filled = std::mem::replace(&mut self.state, State::Mark);
                    if let State::Payload {
                        head,
                        mut buffer,
                        behind,
                        ..
                    } = filled
                    {
                        let payload = buffer.take(buffer.there());
                        self.state = State::Behind {
                            head,
                            payload,
                            behind,
                        };
                    }
                }
                State::Behind { behind, .. } => {
                    if self.buffer.len() < *behind {
                        return Ok(Step::Bytes);
                    }
                    let whole = std::mem::replace(&mut self.state, State::Mark);
                    if let State::Behind {
                        head,
                        payload,
                        behind,
                    } = whole
                    {
                        let rest = self.buffer.split_to(behind).freeze();
                        self.ask = HEAD_READ_BYTES;
                        return Ok(Step::Record(Record([head, payload, rest])));
                    }
                }
            }
        }
    }

    /// At a mark: a step, or another state.
    fn on_mark(
        &mut self,
        cx: &mut Context<'_>,
        place: &dyn Fn(&[u8]) -> Payload,
    ) -> Result<Option<Step>, RecordError> {
        let Some(mark) = self.buffer.first_chunk::<4>() else {
            return Ok(Some(Step::Bytes));
        };
        let mark = u32::from_be_bytes(*mark);
        let (is_last, length) = (mark >> 31 == 1, (mark & 0x7fff_ffff) as usize);
        let bytes = self.joined.len() + length;
        if bytes > self.bytes_max {
            let bound = self.bytes_max;
            return Err(RecordError::TooLong { bytes, bound });
        }
        if self.fragments == FRAGMENTS_MAX {
            return Err(RecordError::Fragments);
        }
        if !is_last || self.fragments > 0 {
            if length > 0 {
                let Poll::Ready(room) = self.pool.poll_room(length, cx) else {
                    return Ok(Some(Step::Room));
                };
                self.rooms.push(room);
            }
            self.buffer.advance(4);
            self.fragments += 1;
            self.ask = READ_BYTES;
            self.state = State::Fragment {
                left: length,
                is_last,
            };
            return Ok(None);
        }
        let there = &self.buffer[4..];
        if there.len() >= length {
            self.buffer.advance(4);
            self.ask = READ_BYTES;
            let bytes = self.buffer.split_to(length).freeze();
            return Ok(Some(Step::Record(Record::whole(bytes))));
        }
        if length < PLACED_BYTES_MIN {
            self.ask = READ_BYTES;
            return Ok(Some(Step::Bytes));
        }
        let placed = place(there);
        let (start, payload) = match placed {
            Payload::More if there.len() < HEAD_BYTES_MAX => {
                self.ask = self.ask.max(HEAD_READ_BYTES);
                return Ok(Some(Step::Bytes));
            }
            Payload::At {
                start,
                length: payload,
            }
            | Payload::InParts {
                start,
                length: payload,
            } if start <= there.len() && payload > 0 && payload <= length - start => {
                (start, payload)
            }
            // All of it, then.
            _ => (0, length),
        };
        let behind = length - start - payload;
        let is_last = behind == payload.next_multiple_of(4) - payload;
        let in_parts = matches!(placed, Payload::InParts { .. }) && start > 0 && is_last;
        let Poll::Ready(mut buffer) = self.pool.poll_buffer(payload, cx) else {
            return Ok(Some(Step::Room));
        };
        self.buffer.advance(4);
        let head = self.buffer.split_to(start).freeze();
        let filled = payload.min(self.buffer.len());
        buffer.room()[..filled].copy_from_slice(&self.buffer[..filled]);
        buffer.advance(filled);
        self.buffer.advance(filled);
        self.state = State::Payload {
            head,
            buffer,
            behind,
            in_parts,
        };
        Ok(None)
    }

    /// A payload is coming that may be handed on in parts.
    pub(crate) fn takes_parts(&self) -> bool {
        matches!(self.state, State::Payload { in_parts: true, .. })
    }

    /// What stands before a payload of which a part can be taken now, though more of it is to come.
    pub(crate) fn before_part(&self) -> Option<&Bytes> {
        match &self.state {
            State::Payload {
                head,
                buffer,
                in_parts: true,
                ..
            } if buffer.there() >= PART_BYTES && !buffer.is_full() => Some(head),
            _ => None,
        }
    }

    /// Takes that part: the record that follows has only what comes behind it.
    pub(crate) fn take_part(&mut self) -> Bytes {
        match &mut self.state {
            State::Payload { buffer, .. } => buffer.take(buffer.there() / PART_BYTES * PART_BYTES),
            _ => Bytes::new(),
        }
    }

    /// This payload is not to be handed on in parts.
    pub(crate) fn keep_whole(&mut self) {
        if let State::Payload { in_parts, .. } = &mut self.state {
            *in_parts = false;
        }
    }

    /// Asks the stream for bytes. `scratch` is what many readers share, so that one that waits keeps no room.
    ///
    /// True if some came, false at the end of the stream between two records.
    pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, RecordError>> {
        let read = |room: &mut [u8], stream: &mut S, cx: &mut Context<'_>| {
            let mut room = ReadBuf::new(room);
            match Pin::new(stream).poll_read(cx, &mut room) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(())) => Poll::Ready(Ok(room.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            }
        };
        let got = match &mut self.state {
            State::Payload { buffer, .. } if !buffer.is_full() => {
                let got = read(buffer.room(), stream, cx);
                if let Poll::Ready(Ok(got)) = got {
                    buffer.advance(got);
                }
                got
            }
            state => {
                let ask = match state {
                    // Not into the next record's payload.
                    State::Behind { behind, .. } => *behind - self.buffer.len() + HEAD_READ_BYTES,
                    _ => self.ask,
                };
                let ask = ask.min(scratch.len());
                let got = read(&mut scratch[..ask], stream, cx);
                if let Poll::Ready(Ok(got)) = got {
                    self.buffer.extend_from_slice(&scratch[..got]);
                }
                got
            }
        };
        match got {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(0)) if self.is_inside() => Poll::Ready(Err(RecordError::Cut)),
            Poll::Ready(Ok(got)) => Poll::Ready(Ok(got > 0)),
        }
    }

    /// The next record; None at the end of the stream. For who waits for one record at a time, as tests and fuzzing
    /// do.
    ///
    /// # Errors
    /// If there is none, ever.
    pub async fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        place: &dyn Fn(&[u8]) -> Payload,
    ) -> Result<Option<Record>, RecordError> {
        let mut scratch = vec![0; READ_BYTES];
        std::future::poll_fn(|cx| {
            loop {
                match self.next(cx, place)? {
                    Step::Record(record) => return Poll::Ready(Ok(Some(record))),
                    Step::Room => return Poll::Pending,
                    Step::Bytes => match self.poll_fill(stream, &mut scratch, cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Ok(true)) => {}
                        Poll::Ready(Ok(false)) => return Poll::Ready(Ok(None)),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    },
                }
            }
        })
        .await
    }
}
