//! A virtual machine that does what it is told.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The program that starts virtual machines is named by this variable of the environment.
pub const PROGRAM: &str = "WEFT_GUEST";

/// The host in the user network of QEMU; its loopback addresses are reached there.
pub const HOST: &str = "10.0.2.2";

/// Orders that a guest carries out at the same time.
const CHANNELS: usize = 6;
/// A guest that has not started its agent by then has failed.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);
/// A guest that is forgotten ends by itself.
const LIFE: Duration = Duration::from_secs(4 * 3600);
/// How much longer than its script an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// A running virtual machine with a Linux kernel that has an NFS client. It sees the files of this machine, which
/// it cannot change. Ends when dropped.
pub struct Guest {
    name: &'static str,
    child: Child,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
    returned: Condvar,
}

impl Guest {
    /// Starts one; what it says goes to a file.
    ///
    /// `WEFT_GUEST run --name NAME --timeout SECONDS --log FILE SCRIPT ARGS...` is to run the script on it as root.
    pub fn start(program: &Path, name: &'static str, logs: &Path) -> Result<Guest, String> {
        let failed = |error| format!("guest {name}: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let output = std::fs::File::create(logs.join(format!("{name}.log"))).map_err(failed)?;
        let child = Command::new(program)
            .args(["run", "--name", name, "--timeout"])
            .arg(LIFE.as_secs().to_string())
            .arg("--log")
            .arg(logs.join(format!("{name}-kernel.log")))
            .arg(script("agent.py"))
            .args([HOST, &port.to_string(), &CHANNELS.to_string()])
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut guest = Guest {
            name,
            child,
            idle: Mutex::default(),
            returned: Condvar::new(),
        };
        let deadline = Instant::now() + BOOT_PATIENCE;
        let mut channels = Vec::new();
        while channels.len() < CHANNELS {
            match listener.accept() {
                Ok((channel, _)) => {
                    channel.set_nonblocking(false).map_err(failed)?;
                    channels.push(BufReader::new(channel));
                }
                Err(_) => {
                    let ended = guest.child.try_wait().map_err(failed)?;
                    if ended.is_some() || Instant::now() > deadline {
                        let logs = logs.display();
                        return Err(format!("guest {name} did not start: see {logs}/{name}.log"));
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
        guest.idle = Mutex::new(channels);
        Ok(guest)
    }

    /// Runs a shell script as root, which may take that long; what it printed. Waits if too many run already.
    ///
    /// # Errors
    /// Its status, and the end of what it printed.
    pub fn run(&self, script: &str, patience: Duration) -> Result<String, String> {
        match self.status(script, patience)? {
            (0, output) => Ok(output),
            (status, output) => {
                let tail: Vec<&str> = output.lines().rev().take(12).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                Err(format!(
                    "{}: status {status}\n{}",
                    self.name,
                    tail.join("\n")
                ))
            }
        }
    }

    /// The same, with whatever status it ends.
    pub fn status(&self, script: &str, patience: Duration) -> Result<(i64, String), String> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut channel = loop {
            match idle.pop() {
                Some(channel) => break channel,
                None => {
                    let waited = self.returned.wait(idle);
                    idle = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(idle);
        let answer = ask(&mut channel, script, patience);
        // One that failed would answer what it was not asked.
        if answer.is_ok() {
            let idle = self.idle.lock();
            idle.unwrap_or_else(PoisonError::into_inner).push(channel);
            self.returned.notify_one();
        }
        answer.map_err(|error| format!("guest {}: {error}", self.name))
    }
}

fn ask(
    channel: &mut BufReader<TcpStream>,
    script: &str,
    patience: Duration,
) -> Result<(i64, String), String> {
    let order = json!({"script": script, "seconds": patience.as_secs_f64()});
    let mut line = String::new();
    channel
        .get_ref()
        .set_read_timeout(Some(patience + ANSWER_PATIENCE))
        .and_then(|()| channel.get_ref().write_all(format!("{order}\n").as_bytes()))
        .and_then(|()| channel.read_line(&mut line))
        .map_err(|error| error.to_string())?;
    let answer: Value =
        serde_json::from_str(&line).map_err(|_| "it ended, or says what is no answer")?;
    match (answer["status"].as_i64(), answer["output"].as_str()) {
        (Some(status), Some(output)) => Ok((status, output.to_owned())),
        _ => Err("it says what is no answer".into()),
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _: std::io::Result<_> = self.child.wait();
    }
}

/// Where a script for guests lies.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/guests")
        .join(name)
}
