//! The frame: a fixed header, a protobuf message, an optional raw payload.
//!
//! ```text
//!  0        4      5      6        8                16         20           24          28        32
//!  +--------+------+------+--------+----------------+----------+------------+-----------+---------+
//!  | "WEFT" | ver  | kind | method | request id     | message  | payload    | payload   | header  |
//!  |        | u8   | u8   | u16    | u64            | bytes u32| bytes u32  | crc32c u32| + msg   |
//!  |        |      |      |        |                |          |            |           | crc32c  |
//!  +--------+------+------+--------+----------------+----------+------------+-----------+---------+
//!  | message ...                                                                                   |
//!  | payload ...                                                                                   |
//! ```
//!
//! All numbers are little-endian. The last field is the CRC-32C of bytes 0..28 and of the message;
//! the payload has its own, so that it can be handed on without being summed again. A payload
//! checksum of 0 with a payload means that it was not computed: the payload carries block
//! checksums of its own.

use bytes::Bytes;
use thiserror::Error;

/// Size of the fixed header in bytes.
pub const HEADER_BYTES: usize = 32;
/// Version of the frame format.
pub const FRAME_VERSION: u8 = 1;
/// Longest message in bytes: a page of directory entries with attributes fits many times over.
pub const MESSAGE_MAX: usize = 4 << 20;
/// Longest payload in bytes: one piece of data, with room for the alignment of its ends.
pub const PAYLOAD_MAX: usize = weft_types::PAYLOAD_MAX + 2 * weft_types::BLOCK_BYTES as usize;

const MAGIC: [u8; 4] = *b"WEFT";

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First frame of a connection: `Hello`, answered by `Welcome`.
    Handshake = 1,
    /// Wants a response with the same request id.
    Request = 2,
    /// The reply to a request.
    Response = 3,
    /// The request was not done: the message is a `Failure`.
    Failure = 4,
    /// Wants no response.
    OneWay = 5,
}

/// The decoded fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// Which message follows (see [`crate::Rpc::METHOD`]); 0 for failures and handshakes.
    pub method: u16,
    /// Joins a response to its request; chosen by the requester, unique on the connection.
    pub request_id: u64,
    /// Bytes of the message.
    pub message_bytes: u32,
    /// Bytes of the payload.
    pub payload_bytes: u32,
    /// CRC-32C of the payload, 0 if none was computed.
    pub payload_crc: u32,
    header_crc: u32,
}

/// A frame whose message is still encoded.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The fixed part.
    pub header: Header,
    /// The encoded message.
    pub message: Bytes,
    /// The payload.
    pub payload: Bytes,
}

/// Why bytes are no frame. The connection they came by cannot be used further.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// Something other than Weft talks to this port.
    #[error("not a Weft frame (it begins with {0:02x?})")]
    Magic([u8; 4]),
    /// A later format.
    #[error("frame version {0}; this build knows version {FRAME_VERSION}")]
    Version(u8),
    /// No such kind.
    #[error("frame kind {0}")]
    Kind(u8),
    /// Longer than any message or payload may be.
    #[error("a {0} of {1} bytes is too long")]
    Length(&'static str, u32),
    /// Damaged on the way.
    #[error("checksum of the {0} is wrong")]
    Checksum(&'static str),
    /// The message does not decode.
    #[error("message of method {0} does not decode")]
    Message(u16),
}

impl Header {
    /// Encodes the header of a frame with this message.
    pub fn encode(
        kind: Kind,
        method: u16,
        request_id: u64,
        message: &[u8],
        payload_bytes: u32,
        payload_crc: u32,
    ) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = FRAME_VERSION;
        out[5] = kind as u8;
        out[6..8].copy_from_slice(&method.to_le_bytes());
        out[8..16].copy_from_slice(&request_id.to_le_bytes());
        out[16..20].copy_from_slice(&(message.len() as u32).to_le_bytes());
        out[20..24].copy_from_slice(&payload_bytes.to_le_bytes());
        out[24..28].copy_from_slice(&payload_crc.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..28]), message);
        out[28..32].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes and checks everything that the header alone tells.
    ///
    /// # Errors
    /// [`FrameError`] if these are not the first bytes of a frame that this build understands.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        if bytes[4] != FRAME_VERSION {
            return Err(FrameError::Version(bytes[4]));
        }
        let kind = match bytes[5] {
            1 => Kind::Handshake,
            2 => Kind::Request,
            3 => Kind::Response,
            4 => Kind::Failure,
            5 => Kind::OneWay,
            other => return Err(FrameError::Kind(other)),
        };
        let header = Header {
            kind,
            method: u16::from_le_bytes([bytes[6], bytes[7]]),
            request_id: u64::from(word(8)) | u64::from(word(12)) << 32,
            message_bytes: word(16),
            payload_bytes: word(20),
            payload_crc: word(24),
            header_crc: word(28),
        };
        if header.message_bytes as usize > MESSAGE_MAX {
            return Err(FrameError::Length("message", header.message_bytes));
        }
        if header.payload_bytes as usize > PAYLOAD_MAX {
            return Err(FrameError::Length("payload", header.payload_bytes));
        }
        Ok(header)
    }

    /// Checks the header and the message against their checksum.
    ///
    /// # Errors
    /// [`FrameError::Checksum`] if they were damaged.
    pub fn check(&self, header: &[u8; HEADER_BYTES], message: &[u8]) -> Result<(), FrameError> {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..28]), message);
        (crc == self.header_crc)
            .then_some(())
            .ok_or(FrameError::Checksum("message"))
    }
}

/// Decodes one frame from the front of `bytes`, for tests and tools. Returns the frame and how many
/// bytes it took, or None if more bytes are needed.
///
/// # Errors
/// [`FrameError`] if the bytes are no frame.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let header = Header::decode(head)?;
    let message_end = HEADER_BYTES + header.message_bytes as usize;
    let end = message_end + header.payload_bytes as usize;
    if bytes.len() < end {
        return Ok(None);
    }
    let message = &bytes[HEADER_BYTES..message_end];
    header.check(head, message)?;
    let payload = &bytes[message_end..end];
    if header.payload_crc != 0 && crc32c::crc32c(payload) != header.payload_crc {
        return Err(FrameError::Checksum("payload"));
    }
    let frame = Frame {
        header,
        message: Bytes::copy_from_slice(message),
        payload: Bytes::copy_from_slice(payload),
    };
    Ok(Some((frame, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: &[u8], payload: &[u8]) -> Vec<u8> {
        let crc = crc32c::crc32c(payload);
        let mut bytes = Header::encode(
            Kind::Request,
            7,
            1 << 40 | 9,
            message,
            payload.len() as u32,
            crc,
        )
        .to_vec();
        bytes.extend_from_slice(message);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let bytes = frame(b"message", b"payload");
        let (frame, used) = decode(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(frame.header.request_id, 1 << 40 | 9);
        assert_eq!(frame.header.method, 7);
        assert_eq!(&frame.message[..], b"message");
        assert_eq!(&frame.payload[..], b"payload");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = frame(b"message", b"payload");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // A longer length leaves the decoder waiting for bytes that never come; anything else
            // is an error.
            if let Ok(Some(_)) = decode(&bad) {
                panic!("bit {bit} changed and nobody noticed");
            }
        }
    }

    #[test]
    fn a_cut_frame_asks_for_more() {
        let bytes = frame(b"message", b"payload");
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).unwrap().is_none());
        }
    }
}
