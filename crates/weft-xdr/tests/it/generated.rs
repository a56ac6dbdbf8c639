//! What is checked in is what the generator writes.

use std::path::Path;

#[test]
#[allow(clippy::disallowed_methods, reason = "reads the source")]
fn the_types_are_what_the_definitions_say() {
    let files = weft_xdrgen::generate(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert!(files.len() >= 6);
    for (path, rust) in files {
        let there = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        assert!(
            there == rust,
            "{} is not what the generator writes: run `cargo xtask xdr`",
            path.display()
        );
    }
}
