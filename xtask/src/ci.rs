//! What every change must pass.

use std::process::Command;

use crate::run::{self, Outcome, has, root, step};

/// Bytes that lints and tests of a new clone need: build products, and what the tests write.
const DISK: u64 = 12 << 30;

/// Format, lints, tests. Writes nothing but build products.
pub fn ci() -> Outcome {
    warn_of_little_room();
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

/// Cargo without incremental compilation, which here would only fill the disk: everything is built once.
fn cargo() -> Command {
    let mut cargo = run::cargo();
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo
}

/// Says so if the disk may be too small. Not an error: some of it may be built already.
fn warn_of_little_room() {
    if let Ok(stat) = rustix::fs::statvfs(root()) {
        let free = stat.f_bavail * stat.f_frsize;
        if free < DISK {
            println!(
                "== {} GB are free here; a new clone needs {} GB (target/incremental and other builds may go)",
                free >> 30,
                DISK >> 30
            );
        }
    }
}

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
