//! A `weft dev` for chores: brought up, given orders, ended.

use crate::run::{Outcome, cargo, root, step};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A cluster that does not come up by then has failed.
const UP_PATIENCE: Duration = Duration::from_secs(120);
/// Ending includes writing back.
const DOWN_PATIENCE: Duration = Duration::from_secs(120);

/// Builds the binary in release and says where it is.
pub fn build_weft() -> Result<PathBuf, String> {
    step(
        "build weft",
        cargo().args(["build", "--release", "--locked", "--package", "weft"]),
    )?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/weft"))
}

/// Why nothing can be mounted here; None if it can.
pub fn cannot_mount() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("this machine has no /dev/fuse");
    }
    // Opening needs no privilege on an ordinary system, but may be forbidden in a container.
    if std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .is_err()
    {
        return Some("/dev/fuse cannot be opened");
    }
    None
}

/// A running cluster, ended when dropped.
pub struct Cluster {
    weft: PathBuf,
    directory: PathBuf,
    child: Child,
}

impl Cluster {
    /// Brings it up, mounted there, and waits until it says that it is.
    pub fn up(
        weft: &Path,
        directory: &Path,
        mount: &Path,
        more: &[&str],
    ) -> Result<Cluster, String> {
        let mut command = Command::new(weft);
        command.arg("dev").arg("--dir").arg(directory);
        command.arg("--mount").arg(mount).args(more);
        Cluster::wait_up(weft, directory, command)
    }

    /// The same, not mounted.
    pub fn up_unmounted(weft: &Path, directory: &Path, more: &[&str]) -> Result<Cluster, String> {
        let mut command = Command::new(weft);
        command.arg("dev").arg("--dir").arg(directory);
        command.arg("--no-mount").args(more);
        Cluster::wait_up(weft, directory, command)
    }

    fn wait_up(weft: &Path, directory: &Path, mut command: Command) -> Result<Cluster, String> {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", weft.display()))?;
        let Some(stdout) = child.stdout.take() else {
            return Err("weft dev has no output".into());
        };
        let (sender, lines) = mpsc::channel();
        // Reads on so that weft dev never waits for us; ends with it.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Nobody listens once it is up.
                let _: Result<(), _> = sender.send(line);
            }
        });
        let mut cluster = Cluster {
            weft: weft.to_owned(),
            directory: directory.to_owned(),
            child,
        };
        let deadline = Instant::now() + UP_PATIENCE;
        loop {
            match lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) if line.starts_with("Weft is up") => return Ok(cluster),
                Ok(_) | Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                _ => {
                    end(&mut cluster.child);
                    return Err("weft dev did not come up; what it said stands above".into());
                }
            }
        }
    }

    /// Where its gateways listen, so many of them.
    pub fn gateways(&self, count: usize) -> Result<Vec<SocketAddr>, String> {
        let read = |number: usize| {
            let config = self.directory.join(format!("nfs-{number}.toml"));
            let failed = |why: &str| format!("{}: {why}", config.display());
            let text = fs::read_to_string(&config).map_err(|error| failed(&error.to_string()))?;
            let listen = text.lines().find_map(|line| line.strip_prefix("listen = "));
            let address = listen.and_then(|address| address.trim_matches('"').parse().ok());
            address.ok_or_else(|| failed("says no address"))
        };
        (1..=count).map(read).collect()
    }

    /// `weft dev ORDER NAME`.
    pub fn order(&self, order: &str, name: &str) -> Result<String, String> {
        let output = Command::new(&self.weft)
            .args(["dev", order, name, "--dir"])
            .arg(&self.directory)
            .output()
            .map_err(|error| format!("cannot start weft: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    /// Any tool with `--dir` of this cluster.
    pub fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.weft);
        command.args(arguments).arg("--dir").arg(&self.directory);
        command
    }

    /// `weft status --json`, None if nobody answers.
    pub fn status(&self) -> Option<Value> {
        let output = self.tool(&["status", "--json"]).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The state of a pair, as `both`.
    pub fn pair_state(&self, pair: u32) -> Option<String> {
        let status = self.status()?;
        status["pairs"][pair as usize]["state"]
            .as_str()
            .map(str::to_owned)
    }

    /// Files made in this directory of a mount from now on have this protocol.
    pub fn set_protocol(&self, directory: &Path, protocol: &str) -> Outcome {
        step(
            &format!("policy of {protocol}"),
            Command::new(&self.weft)
                .args(["policy", "set", "--protocol", protocol])
                .arg(directory),
        )
    }

    /// The configuration of a further mount there.
    pub fn mount_config(&self, at: &Path) -> Result<String, String> {
        let first = self.directory.join("mount.toml");
        let config =
            fs::read_to_string(&first).map_err(|error| format!("{}: {error}", first.display()))?;
        let line_of = |line: &str| match line.split(" = ").next() {
            Some("mountpoint") => Some(format!("mountpoint = {at:?}\n")),
            // Two cannot listen on one address.
            Some("metrics_listen") => None,
            _ => Some(format!("{line}\n")),
        };
        Ok(config.lines().filter_map(line_of).collect())
    }

    /// Mounts it a second time, at a directory that is there.
    pub fn mount_again(&self, at: &Path) -> Result<Mount, String> {
        let config = self.mount_config(at)?;
        let own = self.directory.join("second-mount.toml");
        fs::write(&own, config).map_err(|error| format!("{}: {error}", own.display()))?;
        let outside = device_of(at)?;
        let child = Command::new(&self.weft)
            .arg("mount")
            .arg("--config")
            .arg(&own)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.weft.display()))?;
        let mut mount = Mount {
            at: at.to_owned(),
            child,
        };
        let deadline = Instant::now() + UP_PATIENCE;
        while device_of(at)? == outside {
            let has_ended = matches!(mount.child.try_wait(), Ok(Some(_)));
            if has_ended || Instant::now() > deadline {
                let at = at.display();
                return Err(format!("{at} was not mounted; why stands above"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(mount)
    }

    /// Waits until both members of a pair have everything; how long that took.
    pub fn wait_both(&self, pair: u32, patience: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        loop {
            let state = self.pair_state(pair);
            if state.as_deref() == Some("both") {
                return Ok(start.elapsed());
            }
            if start.elapsed() > patience {
                return Err(format!(
                    "pair {pair} is {} after {} s",
                    state.as_deref().unwrap_or("unknown"),
                    patience.as_secs()
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it as Ctrl-C does.
    pub fn down(mut self) -> Result<(), String> {
        if end(&mut self.child) {
            Ok(())
        } else {
            Err("weft dev did not end".into())
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A further mount of a cluster, unmounted when dropped.
pub struct Mount {
    at: PathBuf,
    child: Child,
}

impl Mount {
    /// Where it is.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Ends it as Ctrl-C does.
    pub fn down(mut self) -> Result<(), String> {
        match end(&mut self.child) {
            true => Ok(()),
            false => Err(format!("{} was not unmounted", self.at.display())),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn device_of(directory: &Path) -> Result<u64, String> {
    let found = fs::metadata(directory);
    found
        .map(|found| found.dev())
        .map_err(|error| format!("{}: {error}", directory.display()))
}

/// Asks a process to end and waits for it; false if it had to be killed.
fn end(child: &mut Child) -> bool {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return true;
    }
    // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let deadline = Instant::now() + DOWN_PATIENCE;
    while Instant::now() < deadline {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // Its children die with it.
    let _: std::io::Result<()> = child.kill();
    let _: std::io::Result<_> = child.wait();
    false
}
