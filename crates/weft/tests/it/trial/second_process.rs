//! A server is started a second time, on the directory of one that runs.

use super::{REFUSED, started};
use crate::support::Dev;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below: what a server that is refused must leave as it is. (The one that runs replaces some now and then.)
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false if entry.file_name().to_string_lossy().ends_with(".new") => {}
            false => all.push(entry.path()),
        }
    }
    all.sort();
    all
}

#[test]
fn a_server_on_a_directory_that_is_in_use_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let dev = Dev::up(
        &base.path().join("c"),
        &["--no-mount", "--pairs", "1", "--members", "1"],
    );
    for (kind, name) in [("data", "data-0.0"), ("meta", "meta-1")] {
        let dir = dev.directory.join(name);
        let before = files(&dir);
        let (code, said) = started(kind, &dev.directory.join(format!("{name}.toml")));
        assert_eq!(code, Some(REFUSED), "{said}");
        let expected = format!("{}: another server runs in this directory", dir.display());
        assert!(said.contains(&expected), "{said}");
        assert_eq!(files(&dir), before);
    }
    let status = dev.done(&["status"]);
    assert!(status.contains("both"), "{status}");
}
