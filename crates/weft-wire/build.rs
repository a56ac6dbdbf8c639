//! Compiles proto/*.proto without a system protoc.

#![allow(clippy::disallowed_macros)] // a build script speaks to cargo by printing

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let files = [
        "checkpoint.proto",
        "common.proto",
        "transaction.proto",
        "slots.proto",
        "repair.proto",
        "meta.proto",
        "data.proto",
        "image.proto",
        "group.proto",
        "survey.proto",
        "probe.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed={}", root.join(file).display());
    }
    let descriptors = protox::compile(files, [&root])?;
    prost_build::Config::new()
        .bytes([".weft"])
        .compile_fds(descriptors)?;
    Ok(())
}
