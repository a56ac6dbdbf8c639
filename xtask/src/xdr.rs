//! `cargo xtask xdr`: the types of weft-xdr, from the RFCs' definitions.

use crate::run::{Outcome, root};
use std::fs;

/// Writes the files, or (`check`) says which are not what would be written.
pub fn xdr(check: bool) -> Outcome {
    let crate_root = root().join("crates/weft-xdr");
    let mut stale = Vec::new();
    for (path, rust) in weft_xdrgen::generate(&crate_root)? {
        if fs::read_to_string(&path).is_ok_and(|there| there == rust) {
            continue;
        }
        if check {
            stale.push(path.display().to_string());
            continue;
        }
        println!("writes {}", path.display());
        fs::write(&path, rust).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    match stale.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "not what `cargo xtask xdr` writes: {}. Run it, and commit what it changes",
            stale.join(", ")
        )),
    }
}
