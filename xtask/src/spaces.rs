//! Network name spaces: made, entered, and removed with all that runs in them.
//!
//! Used by the test bed and by benchmarks of other projects' servers: what runs inside cannot be
//! reached from outside, and cannot reach out.

use crate::run::{Outcome, quiet};
use std::collections::BTreeSet;
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

/// Has the thread that calls be inside, for as long as it lives: threads that begin something for it there should be its
/// own.
///
/// # Errors
/// In words, if there is no such name space, or it may not be entered.
pub fn enter(name: &str) -> Outcome {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let path = Path::new(PLACE).join(name);
    let failed = |why: String| format!("the network name space {name}: {why}");
    let space = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&space), kind)
        .map_err(|error| failed(error.to_string()))
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

/// Which name space it is, whether or not a name still leads to it.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino()))
}

/// What runs in any of them, from one look at all processes.
fn pids(spaces: &[Identity]) -> Vec<i32> {
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

/// Ends all that runs in them, by SIGTERM, and what is still there after `patience` by SIGKILL.
fn end(spaces: &[Identity], patience: Duration) {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let over = Instant::now() + patience;
        let mut told = BTreeSet::new();
        loop {
            let there = pids(spaces);
            // Others may enter meanwhile; who is told twice may take it for impatience.
            for pid in there.iter().filter(|pid| told.insert(**pid)) {
                // SAFETY: kill takes plain numbers. The process may have ended meanwhile, which is
                // as well.
                unsafe { libc::kill(*pid, signal) };
            }
            if there.is_empty() || Instant::now() >= over {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends all that runs in them (by SIGTERM, and after `patience` by SIGKILL), and removes them.
///
/// # Errors
/// The names that stay, and why.
pub fn remove(names: &[String], patience: Duration) -> Outcome {
    // Held until the end: a name space that is gone would leave its identity to another.
    let held: Vec<(fs::File, Identity)> = names
        .iter()
        .filter_map(|name| {
            let path = Path::new(PLACE).join(name);
            Some((fs::File::open(&path).ok()?, identity(&path)?))
        })
        .collect();
    let spaces: Vec<Identity> = held.iter().map(|(_, space)| *space).collect();
    end(&spaces, patience);
    let stay: Vec<String> = names
        .iter()
        .filter_map(|name| {
            quiet(Command::new("ip").args(["netns", "del", name]))
                .err()
                .map(|why| format!("the network name space {name} stays: {why}"))
        })
        .collect();
    // Who entered between the last look and the end of the name; nobody can any more.
    end(&spaces, patience);
    if stay.is_empty() {
        Ok(())
    } else {
        Err(stay.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn who_enters_as_it_is_removed_is_ended() {
        let prefix = format!("weft-try-{}-spaces-", std::process::id());
        let names: Vec<String> = (0..8).map(|part| format!("{prefix}{part}")).collect();
        if let Some(why) = names.iter().find_map(|name| add(name).err()) {
            println!("left out: no network name spaces can be made here: {why}");
            let _: Outcome = remove(&with_prefix(&prefix), Duration::ZERO);
            return;
        }
        // They are removed one after another: the first is gone, the last is still there.
        let (first, last) = (Path::new(PLACE).join(&names[0]), names[7].clone());
        let entering = std::thread::spawn(move || {
            while first.exists() {
                std::thread::yield_now();
            }
            let mut entering = command(&last, "sleep");
            let quiet = entering.arg("600").stderr(Stdio::null());
            quiet.spawn().unwrap()
        });
        remove(&names, Duration::from_secs(5)).unwrap();
        let mut entered = entering.join().unwrap();
        let over = Instant::now() + Duration::from_secs(5);
        while entered.try_wait().unwrap().is_none() {
            if Instant::now() >= over {
                entered.kill().unwrap();
                entered.wait().unwrap();
                panic!("it runs on in a name space without a name");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
