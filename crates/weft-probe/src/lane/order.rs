//! What goes over a lane. Pure: bytes in, orders out.
//!
//! ```text
//! both ways first:   greeting   "WEFTLANE" version:u32le
//! then to the echo:  message    one of the bytes `m` `l`, then message_bytes - 1 bytes of anything
//!                    'm' more follow    'l' the last: one byte is wanted back
//!                    size       's' message_bytes:u32le; one byte is wanted back
//!                    give       'g'; one message is wanted back
//! ```
//!
//! The echo keeps how long a message is, how much of this one is still to come, and up to four bytes of a size: nothing
//! that the other side sends makes it keep more.

use crate::VERSION;
use crate::bounds::MESSAGE_BYTES_MAX;
use thiserror::Error;

/// A message that others follow.
pub const MORE: u8 = b'm';
/// A message that is to be answered.
pub const LAST: u8 = b'l';
/// A message is wanted.
pub const GIVE: u8 = b'g';
/// Messages have another size from now on.
pub const SIZE: u8 = b's';
/// What the echo answers.
pub const DONE: u8 = b'd';

const MAGIC: [u8; 8] = *b"WEFTLANE";
/// Bytes of a greeting.
pub const GREETING_BYTES: usize = 12;

/// What the other side does is not what a peer of this version does.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BadLane {
    /// It is something else.
    #[error("what answers is no lane of a peer")]
    Stranger,
    /// It is another build.
    #[error("it speaks version {0} of the probe, this is {VERSION}")]
    Version(u32),
    /// An order that there is not.
    #[error("byte {0:#04x} is no order")]
    Order(u8),
    /// A message longer than allowed, or of nothing.
    #[error("messages have 1 to {MESSAGE_BYTES_MAX} bytes, not {0}")]
    Size(u32),
}

/// What both sides say first.
pub fn greeting() -> [u8; GREETING_BYTES] {
    greeting_of(VERSION)
}

fn greeting_of(version: u32) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Checks the other side's.
///
/// # Errors
/// If it is no peer, or one of another version.
pub fn check_greeting(bytes: [u8; GREETING_BYTES]) -> Result<(), BadLane> {
    let [a, b, c, d] = [bytes[8], bytes[9], bytes[10], bytes[11]];
    let version = u32::from_le_bytes([a, b, c, d]);
    match bytes {
        _ if bytes[..8] != MAGIC => Err(BadLane::Stranger),
        _ if version != VERSION => Err(BadLane::Version(version)),
        _ => Ok(()),
    }
}

/// A size as it is sent.
pub fn size(message_bytes: u32) -> [u8; 5] {
    let [a, b, c, d] = message_bytes.to_le_bytes();
    [SIZE, a, b, c, d]
}

/// Something that the echo is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Answer with one byte.
    Answer,
    /// Answer with one message of so many bytes.
    Give(u32),
}

/// Where in the stream the echo is.
pub struct Reading {
    message_bytes: u32,
    /// Bytes of a message that are still to come, and whether that is a last one.
    left: (usize, bool),
    /// Bytes of a size that have come.
    size: Option<([u8; 4], usize)>,
}

impl Reading {
    /// At the beginning: messages have one byte.
    pub fn new() -> Reading {
        Reading {
            message_bytes: 1,
            left: (0, false),
            size: None,
        }
    }

    /// Takes bytes from the front until there is something to do or none is left.
    ///
    /// # Errors
    /// If these are no orders: the lane is of no use any more.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Order>, BadLane> {
        while let Some((&first, rest)) = bytes.split_first() {
            if let (left @ 1.., is_last) = self.left {
                let taken = left.min(bytes.len());
                *bytes = &bytes[taken..];
                self.left.0 = left - taken;
                if is_last && self.left.0 == 0 {
                    return Ok(Some(Order::Answer));
                }
                continue;
            }
            *bytes = rest;
            if let Some((mut size, at)) = self.size.take() {
                size[at] = first;
                if at < 3 {
                    self.size = Some((size, at + 1));
                    continue;
                }
                let message_bytes = u32::from_le_bytes(size);
                if !(1..=MESSAGE_BYTES_MAX).contains(&message_bytes) {
                    return Err(BadLane::Size(message_bytes));
                }
                self.message_bytes = message_bytes;
                return Ok(Some(Order::Answer));
            }
            match first {
                MORE => self.left = (self.message_bytes as usize - 1, false),
                LAST if self.message_bytes == 1 => return Ok(Some(Order::Answer)),
                LAST => self.left = (self.message_bytes as usize - 1, true),
                GIVE => return Ok(Some(Order::Give(self.message_bytes))),
                SIZE => self.size = Some(([0; 4], 0)),
                other => return Err(BadLane::Order(other)),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All orders in bytes that come in pieces of at most so many.
    fn orders(bytes: &[u8], piece: usize) -> Result<Vec<Order>, BadLane> {
        let (mut reading, mut found) = (Reading::new(), Vec::new());
        for mut piece in bytes.chunks(piece) {
            while let Some(order) = reading.next(&mut piece)? {
                found.push(order);
            }
            assert!(piece.is_empty());
        }
        Ok(found)
    }

    #[test]
    fn orders_are_found_however_they_are_cut() {
        let mut bytes = vec![MORE, MORE, LAST, GIVE];
        bytes.extend(size(300));
        for flag in [MORE, LAST] {
            bytes.push(flag);
            // What looks like orders within a message is none.
            bytes.extend([[SIZE, GIVE, LAST].as_slice(); 99].concat());
            bytes.extend([0, 1]);
        }
        bytes.push(GIVE);
        let expected = [
            Order::Answer,
            Order::Give(1),
            Order::Answer,
            Order::Answer,
            Order::Give(300),
        ];
        for piece in 1..=bytes.len() {
            assert_eq!(orders(&bytes, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for byte in 0..=255 {
            let known = [MORE, LAST, GIVE, SIZE].contains(&byte);
            assert_eq!(orders(&[byte], 1).is_ok(), known, "{byte}");
        }
        for bad in [0, MESSAGE_BYTES_MAX + 1, u32::MAX] {
            assert_eq!(orders(&size(bad), 2), Err(BadLane::Size(bad)));
        }
        for good in [1, MESSAGE_BYTES_MAX] {
            assert_eq!(orders(&size(good), 2), Ok(vec![Order::Answer]));
        }
    }

    #[test]
    fn a_greeting_names_the_version() {
        assert_eq!(check_greeting(greeting()), Ok(()));
        let newer = greeting_of(VERSION + 1);
        assert_eq!(check_greeting(newer), Err(BadLane::Version(VERSION + 1)));
        let mut other = greeting();
        other[3] = b'X';
        assert_eq!(check_greeting(other), Err(BadLane::Stranger));
    }

    proptest! {
        #[test]
        fn any_bytes_are_orders_or_refused(
            bytes in proptest::collection::vec(prop_oneof![
                Just(MORE), Just(LAST), Just(GIVE), Just(SIZE), any::<u8>()
            ], 0..200),
            piece in 1usize..20,
        ) {
            // However they are cut, the same is found.
            prop_assert_eq!(orders(&bytes, piece), orders(&bytes, 200));
        }
    }
}
