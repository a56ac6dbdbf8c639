//! What the tests share: the paper's machines, and comparison to a relative difference.

use weft_model::{Assumed, Measured, Mttd, NEVER};

pub const MINUTE: f64 = 60.0;
pub const DAY: f64 = 86_400.0;
pub const YEAR: f64 = 365.0 * DAY;

/// CEFT 6.4: nodes that fail once in a year, a switch once in three.
pub fn machines(pairs: u32) -> Assumed {
    Assumed {
        pairs,
        mttf_node: YEAR,
        mttf_switch: 3.0 * YEAR,
        mttf_client: YEAR,
    }
}

/// The same with a network that never fails.
pub fn machines_without_switch(pairs: u32) -> Assumed {
    Assumed {
        mttf_switch: NEVER,
        ..machines(pairs)
    }
}

/// CEFT 6.4: a write a minute, two days for a repair.
pub fn load(server_async: f64, client_async: f64) -> Measured {
    Measured {
        mttw: MINUTE,
        mttd: Mttd {
            server_async,
            client_async,
        },
        repair: 2.0 * DAY,
        async_share: 0.5,
        window: 15.0,
    }
}

#[track_caller]
pub fn assert_near(ours: f64, expected: f64, relative: f64) {
    let difference = (ours / expected - 1.0).abs();
    assert!(
        difference <= relative,
        "{ours} is not {expected}: off by {difference:.3e}"
    );
}
