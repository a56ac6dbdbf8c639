//! Writes the types of `weft-xdr` from the RFCs' `.x` definitions, for `cargo xtask xdr`.
//!
//! Words (`lex.rs`) become definitions (`parse.rs`); names, constants and lists are looked up (`names.rs`); Rust is
//! written (`write.rs`) and laid out by rustfmt. What is written is checked in, so that it can be read and reviewed,
//! and so that building Weft does not run the generator. A test of `weft-xdr` compares the two.
//!
//! A tool of developers: it reads files and runs rustfmt, so the rules that keep servers inside weft-env do not hold.
#![allow(clippy::disallowed_methods)]

mod lex;
mod names;
mod parse;
mod write;

use lex::Wrong;
use names::Names;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One file of Rust, and what it is made of.
struct Module {
    name: &'static str,
    about: &'static str,
    /// Files in `crates/weft-xdr/x`. An enum or a union that a later one declares again is extended, which is how
    /// RFC 8178 lets protocols grow.
    files: &'static [&'static str],
    /// Modules whose types it uses.
    uses: &'static [&'static str],
}

const MODULES: &[Module] = &[
    Module {
        name: "rpc",
        about: "Remote procedure calls, version 2 (RFC 5531), and AUTH_SYS",
        files: &["rpc.x"],
        uses: &[],
    },
    Module {
        name: "portmap2",
        about: "Port mapper, version 2 (RFC 1833)",
        files: &["portmap2.x"],
        uses: &[],
    },
    Module {
        name: "mount3",
        about: "MOUNT, version 3 (RFC 1813, appendix I)",
        files: &["mount3.x"],
        uses: &[],
    },
    Module {
        name: "nfs3",
        about: "NFS, version 3 (RFC 1813)",
        files: &["nfs3.x"],
        uses: &[],
    },
    Module {
        name: "nfs4",
        about: "NFS, version 4, minor versions 0 to 2 (RFC 7863), and extended attributes (RFC 8276)",
        files: &["nfs4.x", "xattr.x"],
        uses: &["rpc"],
    },
    Module {
        name: "flexfiles",
        about: "The flexible files layout (RFC 8435)",
        files: &["flexfiles.x"],
        uses: &["nfs4"],
    },
];

/// The files of the crate at `crate_root` and what they should hold.
///
/// # Errors
/// A definition that cannot be read or written as Rust, with its file and line; rustfmt is not there.
pub fn generate(crate_root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let mut done: Vec<(&str, Names)> = Vec::new();
    let mut files = Vec::new();
    for module in MODULES {
        let mut names = Names::default();
        for &used in module.uses {
            let (_, its) = done
                .iter()
                .find(|(name, _)| *name == used)
                .ok_or_else(|| format!("{}: {used} has to come before it", module.name))?;
            names.import(used, its);
        }
        for file in module.files {
            let path = crate_root.join("x").join(file);
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            take_in(&mut names, &text)
                .map_err(|wrong| format!("x/{file}:{}: {}", wrong.line, wrong.what))?;
        }
        let rust = write::module(module.about, module.files, &names)
            .map_err(|why| format!("{}: {why}", module.name))?;
        let path = crate_root
            .join("src/generated")
            .join(format!("{}.rs", module.name));
        files.push((path, laid_out(&rust)?));
        done.push((module.name, names));
    }
    Ok(files)
}

fn take_in(names: &mut Names, text: &str) -> Result<(), Wrong> {
    names.add(parse::definitions(text)?)
}

/// Rust for the definitions of one text, not laid out.
///
/// # Errors
/// The first thing that is wrong with it, with its line where it has one.
pub fn rust_for(text: &str) -> Result<String, String> {
    let mut names = Names::default();
    take_in(&mut names, text).map_err(|wrong| format!("{}: {}", wrong.line, wrong.what))?;
    write::module("A text", &[], &names)
}

/// As `cargo fmt` would have it.
fn laid_out(rust: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("rustfmt: {error}");
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let text = rust.to_owned();
    let mut stdin = child.stdin.take().ok_or("rustfmt has no input")?;
    // From a thread: it begins to answer before it has read all.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    let written = writer.join().map_err(|_| "rustfmt's input was lost")?;
    if !output.status.success() {
        return Err("rustfmt refuses what was written".into());
    }
    written.map_err(failed)?;
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
