//! A `weft dev` for chores: brought up, given orders, ended.

use crate::run::{cargo, root, step};
use serde_json::Value;
use std::io::{BufRead, BufReader};
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
    /// Brings it up and waits until it says that it is.
    pub fn up(
        weft: &Path,
        directory: &Path,
        mount: &Path,
        more: &[&str],
    ) -> Result<Cluster, String> {
        let mut child = Command::new(weft)
            .arg("dev")
            .arg("--dir")
            .arg(directory)
            .arg("--mount")
            .arg(mount)
            .args(more)
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
                    cluster.end();
                    return Err("weft dev did not come up; what it said stands above".into());
                }
            }
        }
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
        if self.end() {
            Ok(())
        } else {
            Err("weft dev did not end".into())
        }
    }

    fn end(&mut self) -> bool {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return true;
        }
        // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let deadline = Instant::now() + DOWN_PATIENCE;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // Its children die with it.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<_> = self.child.wait();
        false
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end();
    }
}
