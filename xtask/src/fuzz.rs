//! `cargo xtask fuzz`: every decoder, and a gateway behind its own, a minute each.

use crate::run::{Outcome, cargo, has, root, step};
use std::fs;
use std::process::Command;

/// A kept file that a corpus begins with, behind a byte that the target wants first.
type Kept = (Option<u8>, &'static str);

/// Targets, and the kept files that their corpus begins with.
const TARGETS: &[(&str, &[Kept])] = &[
    ("frame", &[(None, "frame-v1/write.bin")]),
    ("messages", &[(Some(64), "frame-v1/write.bin")]),
    ("image", &[(None, "image-v1/image-00000000000000000007")]),
    (
        "journal",
        &[
            (Some(0), "journal-v1/00000000000000000001.journal"),
            (Some(0), "journal-v2/00000000000000000001.journal"),
            (Some(0), "journal-v3/00000000000000000001.journal"),
            (Some(1), "image-v1/image-00000000000000000007"),
        ],
    ),
    (
        "store",
        &[
            (Some(0), "object-v1/modified"),
            (Some(1), "object-v1/objects/70/0030000000000123.2"),
            (Some(2), "object-v1/store"),
        ],
    ),
    ("config", &[]),
    (
        "oncrpc",
        &[
            (Some(0x45), "nfs/calls.bin"),
            (Some(0), "frame-v1/write.bin"),
        ],
    ),
    // It writes down the calls that it begins with itself.
    ("gateway", &[]),
    (
        "xdr",
        &[
            (Some(40), "nfs/create-args.bin"),
            (Some(57), "nfs/readdir-results.bin"),
            (Some(70), "nfs/compound-args.bin"),
            (Some(78), "nfs/layout.bin"),
        ],
    ),
];

/// Runs all targets, or one, for so many seconds each.
pub fn fuzz(only: Option<&str>, seconds: u64) -> Outcome {
    if !has("cargo-fuzz", "--version") {
        step(
            "install cargo-fuzz",
            cargo().args(["install", "cargo-fuzz", "--locked"]),
        )?;
    }
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|(name, _)| only.is_none_or(|only| only == *name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no such target; there are {}", names.join(", ")));
    }
    for (name, seeds) in chosen {
        let corpus = root().join("fuzz/corpus").join(name);
        fs::create_dir_all(&corpus).map_err(|error| error.to_string())?;
        for (at, (first, file)) in seeds.iter().enumerate() {
            let mut bytes: Vec<u8> = first.iter().copied().collect();
            bytes.extend(
                fs::read(root().join("tests/compat").join(file))
                    .map_err(|error| format!("{file}: {error}"))?,
            );
            fs::write(corpus.join(format!("kept-{at}")), bytes)
                .map_err(|error| error.to_string())?;
        }
        // Not the pinned compiler: sanitizers need a nightly one. Rustup's variables of the cargo
        // that runs us would choose the pinned one again.
        let mut command = Command::new("cargo");
        command
            .current_dir(root())
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .env("RUSTUP_TOOLCHAIN", "nightly")
            .env("WEFT_FUZZ_CORPUS", &corpus)
            .args(["fuzz", "run", name, "--"])
            .arg(format!("-max_total_time={seconds}"))
            .args(["-rss_limit_mb=4096", "-timeout=20", "-print_final_stats=1"]);
        if *name == "gateway" {
            // A gateway ends with its process: what clients have of it when its world is taken down
            // holds it. The sanitizer looks for leaks once more when the process ends, and is told
            // so by its own variable.
            command.arg("-detect_leaks=0");
            command.env("ASAN_OPTIONS", "detect_leaks=0");
        }
        step(&format!("fuzz {name}"), &mut command)?;
    }
    Ok(())
}
