//! The frame of version 1, kept as bytes: a later build must still read it.

#![allow(clippy::unwrap_used)]

use prost::Message;
use weft_wire::proto::{Extent, ObjectName, Protocol, WriteRequest};
use weft_wire::{Header, Kind, Rpc, frame};

const KEPT: &[u8] = include_bytes!("../../../tests/compat/frame-v1/write.bin");

fn request() -> WriteRequest {
    WriteRequest {
        session: 7,
        epoch: 3,
        pair: 1,
        object: Some(ObjectName {
            ino: 0x0123_0000_0000_0045,
            generation: 2,
        }),
        extents: vec![Extent {
            offset: 8192,
            length: 5,
        }],
        protocol: Protocol::ServerSync as i32,
        operation: 99,
        confirmed_below: 0,
    }
}

#[test]
fn a_frame_of_version_1_is_read() {
    let (frame, used) = frame::decode(KEPT).unwrap().unwrap();
    assert_eq!(used, KEPT.len());
    assert_eq!(frame.header.kind, Kind::Request);
    assert_eq!(frame.header.method, WriteRequest::METHOD);
    assert_eq!(frame.header.request_id, 0x1122_3344_5566_7788);
    assert_eq!(WriteRequest::decode(frame.message).unwrap(), request());
    assert_eq!(&frame.payload[..], b"hello");
}

/// While this build writes version 1, it writes it bit by bit as kept.
#[test]
fn a_frame_is_written_as_kept() {
    let message = request().encode_to_vec();
    let id = 0x1122_3344_5566_7788;
    let crc = crc32c::crc32c(b"hello");
    let mut bytes =
        Header::encode(Kind::Request, WriteRequest::METHOD, id, &message, 5, crc).to_vec();
    bytes.extend_from_slice(&message);
    bytes.extend_from_slice(b"hello");
    if let Some(path) = option_env!("WEFT_KEEP_FRAME") {
        // How the fixture was made: WEFT_KEEP_FRAME=tests/compat/frame-v1/write.bin cargo test.
        #[allow(clippy::disallowed_methods)]
        std::fs::write(path, &bytes).unwrap();
    }
    assert_eq!(bytes, KEPT);
}
