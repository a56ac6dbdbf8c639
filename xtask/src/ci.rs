//! What every change must pass.

use crate::run::{Outcome, cargo, has, step};

/// Format, lints, tests. Writes nothing but build products.
pub fn ci() -> Outcome {
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    step(
        "lints",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    if has("cargo-deny", "--version") {
        step(
            "licences and bans",
            cargo().args(["deny", "check", "licenses", "bans", "sources"]),
        )?;
    } else {
        println!("== licences and bans: cargo-deny is not installed, left out");
    }
    step("tests", cargo().args(["test", "--workspace", "--locked"]))
}

/// Formats and mends.
pub fn fix() -> Outcome {
    step(
        "clippy --fix",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--fix",
            "--allow-dirty",
            "--allow-staged",
        ]),
    )?;
    step("format", cargo().args(["fmt", "--all"]))
}
