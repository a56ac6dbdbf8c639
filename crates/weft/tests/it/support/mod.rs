//! A real cluster for tests of the binary. Everything that is started is ended by its id.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "acts on real processes and files; not every test needs all of it"
)]

pub mod mounts;
pub mod pages;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A process that is told to end, and waited for, when dropped.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(30);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Its children die with it.
        let _: std::io::Result<()> = self.0.kill();
        let _: std::io::Result<_> = self.0.wait();
    }
}

/// A running `weft dev`, ended when dropped.
pub struct Dev {
    pub directory: PathBuf,
    pub process: Process,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Dev {
    /// Starts it; it may not serve yet.
    pub fn start(directory: &Path, more: &[&str]) -> Dev {
        Dev::start_by(Command::new(WEFT), directory, more)
    }

    /// The same, by a command to which `dev` and its arguments are given.
    pub fn start_by(mut starter: Command, directory: &Path, more: &[&str]) -> Dev {
        let mut child = starter
            .args(["dev", "--dir"])
            .arg(directory)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _: Result<(), _> = sender.send(line);
            }
        });
        Dev {
            directory: directory.to_owned(),
            process: Process(child),
            lines,
        }
    }

    /// Starts it, and waits until it serves.
    pub fn up(directory: &Path, more: &[&str]) -> Dev {
        let dev = Dev::start(directory, more);
        dev.wait_up();
        dev
    }

    /// Waits until it serves.
    pub fn wait_up(&self) {
        let dev = self;
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match dev.lines.recv_timeout(left) {
                Ok(line) if line.starts_with("Weft is up") => return,
                Ok(_) => {}
                Err(error) => panic!("weft dev did not come up: {error}; logs:\n{}", dev.logs()),
            }
        }
    }

    /// The last lines of each log.
    pub fn logs(&self) -> String {
        let mut all = String::new();
        for entry in fs::read_dir(&self.directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = fs::read_to_string(&path).unwrap();
                let tail: Vec<&str> = text.lines().rev().take(15).collect();
                all += &format!("== {}\n", path.display());
                for line in tail.iter().rev() {
                    all += line;
                    all.push('\n');
                }
            }
        }
        all
    }

    /// Runs a tool on it.
    pub fn tool(&self, arguments: &[&str]) -> Output {
        Command::new(WEFT)
            .args(arguments)
            .arg("--dir")
            .arg(&self.directory)
            .output()
            .unwrap()
    }

    /// Runs a tool that must succeed; what it printed.
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.tool(arguments);
        assert!(
            output.status.success(),
            "weft {arguments:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.logs()
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ends it, which must go well.
    pub fn end(mut self) {
        self.process.signal(libc::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.process.0.try_wait().unwrap() {
                assert!(status.success(), "weft dev ended with {status}");
                return;
            }
            assert!(Instant::now() < deadline, "weft dev does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// False, with a message, where nothing can be mounted.
pub fn can_mount() -> bool {
    let openable = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .is_ok();
    if !openable {
        println!("left out: /dev/fuse is missing or cannot be opened");
    }
    openable
}

/// Tells others to stop when it goes, also by a panic: or they would be waited for without end.
pub struct Stopping<'a>(pub &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
