//! Messages: the first byte chooses a method, the rest is decoded as its request and its reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((&method, message)) = bytes.split_first() {
        let _ = weft_wire::decodes(u16::from(method), message);
    }
});
