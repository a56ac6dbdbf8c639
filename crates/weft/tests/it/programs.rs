//! Programs on two mounts that judge what they see (crates/weft-programs), for a few seconds.
//!
//! Left out, with a plain message, where nothing can be mounted.

use crate::support::mounts::Mounts;
use std::time::Duration;

/// A turn for each of them.
const LASTING: Duration = Duration::from_secs(6);

#[test]
fn programs_on_two_mounts_see_what_is_so() {
    let Some(mounts) = Mounts::up() else { return };
    match weft_programs::run([&mounts.a, &mounts.b], LASTING) {
        Ok(done) => println!("{done:?}"),
        Err(fault) => panic!("{fault}"),
    }
}
