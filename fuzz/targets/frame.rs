//! Frames: any bytes are a frame, the beginning of one, or refused; a frame is taken whole.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((frame, used))) = weft_wire::frame::decode(rest) {
        assert!(used <= rest.len() && used >= weft_wire::HEADER_BYTES);
        assert_eq!(frame.message.len(), frame.header.message_bytes as usize);
        assert_eq!(frame.payload.len(), frame.header.payload_bytes as usize);
        rest = &rest[used..];
    }
});
