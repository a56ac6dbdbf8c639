//! XDR: the first byte chooses arguments or results of a procedure, or a type; the rest is read, written and read
//! again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let [choice, value @ ..] = bytes {
        let value = bytes::Bytes::copy_from_slice(value);
        let _ = weft_xdr::again::choice_again(*choice, value);
    }
});
