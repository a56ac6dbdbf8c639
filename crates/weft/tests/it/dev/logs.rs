//! Processes of every kind whose log cannot be written go on serving, and say afterwards what is missing; one that
//! panics ends at once.

use crate::support::{Dev, Process, WEFT, can_mount};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// In the order in which they are started.
const ROLES: [&str; 4] = ["meta:1", "data:0.0", "nfs:1", "mount"];

/// Where a log goes.
#[derive(Clone, Copy, Debug)]
enum Log {
    /// A disk without room.
    Full,
    /// A pipe whose reader has gone.
    Gone,
    /// A pipe whose reader does not read.
    Unread,
}

struct Cluster {
    dev: Dev,
    mount: PathBuf,
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Cluster {
    fn up(base: &Path) -> Cluster {
        let mount = base.join("mnt");
        let mut starter = Command::new(WEFT);
        // It tells of processes that end there.
        starter.stderr(
            fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        );
        // Whatever the umask is, all of it is its user's alone.
        // SAFETY: between fork and exec only umask is called, which is async-signal-safe.
        unsafe {
            starter.pre_exec(|| {
                libc::umask(0);
                Ok(())
            });
        }
        let wanted = ["--members", "1", "--pairs", "1", "--nfs", "1", "--mount"];
        let wanted = [&wanted[..], &[mount.to_str().unwrap()]].concat();
        let dev = Dev::start_by(starter, &base.join("cluster"), &wanted);
        dev.wait_up();
        Cluster { dev, mount }
    }

    fn process(&self, name: &str) -> serde_json::Value {
        let status: serde_json::Value =
            serde_json::from_str(&self.dev.done(&["dev", "status", "--json"])).unwrap();
        let processes = status["processes"].as_array().unwrap();
        let found = processes.iter().find(|process| process["name"] == name);
        found.unwrap().clone()
    }

    /// Ends a process, not by an order, so that `weft dev` has something to tell.
    fn kill(&self, name: &str) {
        let pid = self.process(name)["pid"].as_i64().unwrap() as i32;
        // SAFETY: kill takes plain numbers; the pid is that of a child of a process that is waiting for it.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        wait_until("it ends", || self.process(name)["pid"].is_null());
    }

    /// A process as `weft dev` starts it, but for its log.
    fn command(&self, name: &str) -> Command {
        if name == "mount" {
            // What a killed one leaves is not there any more after this.
            let unmounted = Command::new("umount").arg("-l").arg(&self.mount).output();
            unmounted.unwrap();
        }
        let role = name.split(':').next().unwrap();
        let config = self
            .dev
            .directory
            .join(format!("{}.toml", name.replace(':', "-")));
        let mut command = Command::new(WEFT);
        command
            .arg(role)
            .arg("--config")
            .arg(config)
            .env("WEFT_LOG", "trace");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn start(&self, name: &str, log: Log) -> Process {
        let mut command = self.command(name);
        match log {
            Log::Full => {
                let full = fs::OpenOptions::new()
                    .write(true)
                    .open("/dev/full")
                    .unwrap();
                command.stderr(full);
            }
            Log::Gone | Log::Unread => {
                command.stderr(Stdio::piped());
            }
        }
        let mut child = command.spawn().unwrap();
        if let Log::Gone = log {
            child.stderr.take();
        }
        Process(child)
    }

    /// Everything serves: names, both copies, the gateway, the mount.
    fn serves(&self, round: &str) {
        let path = self.mount.join(round);
        let point = format!(" {} fuse", self.mount.display());
        wait_until("it is mounted", || {
            fs::read_to_string("/proc/self/mounts")
                .unwrap()
                .contains(&point)
        });
        wait_until("the mount serves", || fs::write(&path, round).is_ok());
        for at in 0..200 {
            let each = self.mount.join(format!("{round}.{at}"));
            let mut file = fs::File::create(&each).unwrap();
            file.write_all(&[at as u8; 5_000]).unwrap();
            file.sync_all().unwrap();
            assert_eq!(fs::read(&each).unwrap(), [at as u8; 5_000]);
        }
        wait_until("the pair serves with both", || {
            self.dev
                .done(&["status", "--json"])
                .contains("\"state\":\"both\"")
        });
        wait_until("the gateway answers", || self.gateway_answers().is_ok());
    }

    /// Nobody else may read or write anything of it.
    fn is_private(&self) {
        let mut left = vec![self.dev.directory.clone()];
        let mut seen = 0;
        while let Some(path) = left.pop() {
            // Some are replaced all the time.
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            let mode = found.mode() & 0o7777;
            let most = if found.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode & !most, 0, "{}: mode {mode:o}", path.display());
            seen += 1;
            if found.is_dir() {
                let inside = fs::read_dir(&path).unwrap();
                left.extend(inside.map(|entry| entry.unwrap().path()));
            }
        }
        // Settings, logs, stores of each kind with what is in them.
        assert!(seen > 30, "{seen} files and directories");
    }

    /// NFS version 3, NULL.
    fn gateway_answers(&self) -> std::io::Result<()> {
        let address = self.process("nfs:1")["address"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let words: [u32; 11] = [0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
        let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        stream.write_all(&call)?;
        let mut reply = [0; 28];
        stream.read_exact(&mut reply)?;
        assert_eq!(reply[4..8], 7_u32.to_be_bytes());
        Ok(())
    }

    /// Lines that a process could not log, as its metrics say; `weft dev` has gateways show none.
    fn lost(&self, name: &str) -> Option<u64> {
        let address = self.process(name)["metrics"].as_str()?.to_owned();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("weft_log_lines_lost_total "));
        let count = line.unwrap_or_else(|| panic!("{page}"));
        Some(count.parse().unwrap())
    }
}

/// What is to be read by now of a log that nobody has read, and a little later.
fn read_late(child: &mut Child) -> String {
    let mut log = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = Vec::new();
        // Until the process ends.
        log.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    std::thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    reading.join().unwrap()
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    if !can_mount() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let cluster = Cluster::up(base.path());
    for name in ROLES {
        cluster.kill(name);
    }
    for (round, logs) in [
        // Each kind of process meets each kind of log.
        [Log::Full, Log::Gone, Log::Unread, Log::Full],
        [Log::Unread, Log::Full, Log::Gone, Log::Unread],
        [Log::Gone, Log::Unread, Log::Full, Log::Gone],
    ]
    .into_iter()
    .enumerate()
    {
        let starting = ROLES.iter().zip(logs);
        let mut processes: Vec<Process> = starting
            .map(|(name, log)| cluster.start(name, log))
            .collect();
        cluster.serves(&format!("round{round}"));
        for ((name, log), process) in ROLES.iter().zip(logs).zip(&mut processes).rev() {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{name} with its log {log:?}: {ended:?}");
            if !matches!(log, Log::Unread) {
                assert_ne!(cluster.lost(name), Some(0), "{name} with its log {log:?}");
            }
        }
        // A full pipe does not keep a process from ending, nor does it hide that lines are missing.
        let left = ROLES.iter().zip(logs).zip(&mut processes);
        for ((name, log), process) in left.collect::<Vec<_>>().into_iter().rev() {
            if matches!(log, Log::Unread) && cluster.lost(name) > Some(0) {
                let text = read_late(&mut process.0);
                assert!(text.contains(" lines could not be logged"), "{name}");
            }
            process.signal(libc::SIGTERM);
            wait_until("it ends when it is told to", || {
                process.0.try_wait().unwrap().is_some()
            });
        }
    }
    for name in ROLES {
        cluster.dev.done(&["dev", "start", name]);
    }
    cluster.serves("again");
    cluster.is_private();
    cluster.dev.end();
}

#[test]
fn a_panic_ends_the_process_at_once_and_says_where() {
    if !can_mount() || !cfg!(debug_assertions) {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let cluster = Cluster::up(base.path());
    for name in ROLES {
        cluster.kill(name);
        let armed = base.path().join(format!("panic-{name}"));
        let mut command = cluster.command(name);
        command
            .env("WEFT_PANIC", &armed)
            .env("WEFT_LOG", "warn")
            .env_remove("RUST_BACKTRACE")
            .stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        std::thread::sleep(Duration::from_millis(500));
        fs::write(&armed, "").unwrap();
        let mut told = String::new();
        process
            .0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        let status = process.0.wait().unwrap();
        assert_eq!(status.code(), Some(101), "{name}: {told}");
        let line = told.lines().last().unwrap_or_default();
        let place = " ERROR weft: panic at crates/weft/src/server.rs:";
        assert!(
            line.contains(place) && line.contains("for a test"),
            "{name}: {told}"
        );
        assert_eq!(told.matches("panic").count(), 1, "{name}: {told}");
        if name == "mount" {
            cluster.command(name);
        }
        cluster.dev.done(&["dev", "start", name]);
    }
    cluster.serves("after");
    cluster.dev.end();
}
