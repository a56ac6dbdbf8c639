//! A gateway in a simulated cluster: whatever is called, it goes on, and answers what decodes and is no more than was
//! agreed. What the bytes stand for is told in `crates/weft-sim/tests/it/mutations/`, which a test of every run shares.
#![no_main]
#![allow(clippy::unwrap_used)]

#[path = "../../crates/weft-sim/tests/it/compounds/mod.rs"]
mod compounds;
#[path = "../../crates/weft-sim/tests/it/gates/mod.rs"]
mod gates;
#[path = "../../crates/weft-sim/tests/it/group/mod.rs"]
mod group;
#[path = "../../crates/weft-sim/tests/it/mutations/mod.rs"]
mod mutations;

use mutations::Gauntlet;
use std::cell::RefCell;

/// Calls that one cluster serves before another one takes its place: what they have made adds up.
const CALLS_MAX: u32 = 500;

thread_local! {
    static GAUNTLET: RefCell<Option<(Gauntlet, u32)>> = const { RefCell::new(None) };
}

libfuzzer_sys::fuzz_target!(
    init: {
        // Calls that make sense, to begin with.
        if let Some(corpus) = std::env::var_os("WEFT_FUZZ_CORPUS") {
            for (at, call) in mutations::valid().iter().enumerate() {
                let path = std::path::Path::new(&corpus).join(format!("valid-{at}"));
                std::fs::write(path, call).unwrap();
            }
        }
    },
    |bytes: &[u8]| {
        GAUNTLET.with_borrow_mut(|kept| {
            let (gauntlet, calls) = kept.get_or_insert_with(|| (Gauntlet::new(1), 0));
            gauntlet.feed(bytes);
            *calls += 1;
            if *calls == CALLS_MAX {
                gauntlet.serves_others();
                *kept = None;
            }
        });
    }
);
