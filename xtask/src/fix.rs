//! What mends itself.

use crate::run::{self, Outcome, step};

/// Formats and mends.
pub fn fix() -> Outcome {
    step(
        "clippy --fix",
        run::cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--fix",
            "--allow-dirty",
            "--allow-staged",
        ]),
    )?;
    step("format", run::cargo().args(["fmt", "--all"]))
}
