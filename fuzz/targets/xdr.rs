//! XDR: the first bytes choose a procedure or a type; the rest is read, written and read again.
#![no_main]

use weft_xdr::again::{procedure_again, type_again};

/// Program and version; a further choice is for types that stand alone.
const PROGRAMS: &[(u32, u32)] = &[
    (100_000, 2),
    (100_005, 3),
    (100_003, 3),
    (100_003, 4),
    (0x4000_0000, 1),
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [which, number, is_results, value @ ..] = bytes else {
        return;
    };
    let value = bytes::Bytes::copy_from_slice(value);
    match PROGRAMS.get(usize::from(*which)) {
        Some(&(program, version)) => {
            let numbers = (program, version, u32::from(*number));
            let _ = procedure_again(numbers, is_results % 2 == 1, value);
        }
        None => {
            let _ = type_again(*number, value);
        }
    }
});
