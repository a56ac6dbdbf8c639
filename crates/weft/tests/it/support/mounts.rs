//! A cluster with two mounts, both real.

use super::{Dev, Process, WEFT, can_mount};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Nothing that is waited for takes this long.
const LONG: Duration = Duration::from_secs(60);

/// `client.patience_ms` of the second mount.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// A cluster with two mounts. The second mount ends first.
pub struct Mounts {
    pub a: PathBuf,
    pub b: PathBuf,
    pub second: Process,
    pub dev: Dev,
    base: tempfile::TempDir,
}

impl Mounts {
    /// None, with a message, where nothing can be mounted.
    pub fn up() -> Option<Mounts> {
        if !can_mount() {
            return None;
        }
        let base = tempfile::tempdir().unwrap();
        let (a, b) = (base.path().join("a"), base.path().join("b"));
        let cluster = base.path().join("cluster");
        let dev = Dev::up(&cluster, &["--mount", a.to_str().unwrap()]);
        let config = fs::read_to_string(cluster.join("mount.toml")).unwrap();
        // Two cannot listen on one address.
        let config: String = config
            .lines()
            .filter(|line| !line.starts_with("metrics_listen"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let [a_line, b_line] = [&a, &b].map(|at| format!("mountpoint = {at:?}"));
        assert!(config.contains(&a_line), "{config}");
        let second = base.path().join("second.toml");
        let config = config.replace(&a_line, &b_line);
        let was_patient = config.find("patience_ms = ").unwrap();
        let line_end = was_patient + config[was_patient..].find('\n').unwrap();
        let (before, after) = (&config[..was_patient], &config[line_end..]);
        let config = format!("{before}patience_ms = {}{after}", PATIENCE.as_millis());
        fs::write(&second, config).unwrap();
        fs::create_dir(&b).unwrap();
        let outside = fs::metadata(&b).unwrap().dev();
        let log = File::create(base.path().join("second.log")).unwrap();
        let second = Command::new(WEFT)
            .arg("mount")
            .arg("--config")
            .arg(&second)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let second = Process(second);
        until("the second mount is there", || {
            fs::metadata(&b).is_ok_and(|found| found.dev() != outside)
        });
        Some(Mounts {
            a,
            b,
            second,
            dev,
            base,
        })
    }

    pub fn both(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.a.join(name), self.b.join(name))
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // One that is absent says nothing.
            let second =
                fs::read_to_string(self.base.path().join("second.log")).unwrap_or_default();
            println!("{}== the second mount\n{second}", self.dev.logs());
        }
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
