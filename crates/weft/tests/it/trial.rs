//! Mistakes that people make with directories, disks and settings, made with real processes: what the error says, the
//! exit code, and that every byte is there afterwards. `cargo xtask trial` runs these.

mod data_directory;
mod empty_directory;
mod not_founded;
mod second_process;
mod went_back;

use crate::support::{Process, WEFT};
use std::fs;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A server that is not to run where it was started. What it was told to do.
const REFUSED: i32 = 5;

/// Moves a directory away and leaves an empty one; answers where it is.
fn unmount(dir: &Path) -> PathBuf {
    let away = dir.with_extension("away");
    fs::rename(dir, &away).unwrap();
    fs::create_dir(dir).unwrap();
    away
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

/// Starts a server that must end by itself at once: its exit code, and what it said.
fn started(kind: &str, config: &Path) -> (Option<i32>, String) {
    let mut said = tempfile::tempfile().unwrap();
    let mut command = Command::new(WEFT);
    command.args([kind, "--config"]).arg(config);
    let command = command.stderr(said.try_clone().unwrap());
    let mut process = Process(command.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    let code = loop {
        if let Some(status) = process.0.try_wait().unwrap() {
            break status.code();
        }
        assert!(Instant::now() < deadline, "it runs, and was to be refused");
        std::thread::sleep(Duration::from_millis(20));
    };
    said.rewind().unwrap();
    (code, std::io::read_to_string(said).unwrap())
}
