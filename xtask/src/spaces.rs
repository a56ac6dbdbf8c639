//! Network name spaces: made, entered, and removed with all that runs in them.
//!
//! Used by the test bed and by benchmarks of other projects' servers: what runs inside cannot be
//! reached from outside, and cannot reach out.

use crate::run::{Outcome, quiet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Where `ip netns` keeps them.
const PLACE: &str = "/run/netns";

/// Makes a name space with its loopback up.
///
/// # Errors
/// In words, if the system refuses.
pub fn add(name: &str) -> Outcome {
    quiet(Command::new("ip").args(["netns", "add", name]))?;
    quiet(Command::new("ip").args(["-n", name, "link", "set", "lo", "up"]))
}

/// A command inside. Not by `ip netns exec`: that would hide the mounts as well.
pub fn command(name: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={PLACE}/{name}")).arg(program);
    command
}

/// The names that begin so.
pub fn with_prefix(prefix: &str) -> Vec<String> {
    // Nothing there: none was ever made.
    let Ok(entries) = fs::read_dir(PLACE) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

/// What runs in any of them, from one look at all processes.
fn pids(names: &[String]) -> Vec<i32> {
    let identity = |path: &Path| {
        let data = fs::metadata(path).ok()?;
        Some((data.dev(), data.ino()))
    };
    let spaces: Vec<(u64, u64)> = names
        .iter()
        .filter_map(|name| identity(&Path::new(PLACE).join(name)))
        .collect();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            // A process may end while we look.
            let space = identity(&entry.path().join("ns/net"))?;
            spaces.contains(&space).then_some(pid)
        })
        .collect()
}

/// Ends all that runs in them (by SIGTERM, and after `patience` by SIGKILL), and removes them.
///
/// # Errors
/// The names that stay, and why.
pub fn remove(names: &[String], patience: Duration) -> Outcome {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let end = Instant::now() + patience;
        for pid in pids(names) {
            // SAFETY: kill takes plain numbers. The process may have ended meanwhile, which is as
            // well.
            unsafe { libc::kill(pid, signal) };
        }
        while !pids(names).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let stay: Vec<String> = names
        .iter()
        .filter_map(|name| {
            quiet(Command::new("ip").args(["netns", "del", name]))
                .err()
                .map(|why| format!("the network name space {name} stays: {why}"))
        })
        .collect();
    if stay.is_empty() {
        Ok(())
    } else {
        Err(stay.join("\n"))
    }
}
