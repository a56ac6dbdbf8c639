//! The control socket of a running `weft dev`: one JSON line asks, one JSON line answers.

use super::cluster::{Cluster, Name};
use crate::error::{Error, Result, Tried};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest that any order takes: unmounting waits for what is still owed to the servers.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest line: orders and answers are a few hundred bytes for each process.
pub const LINE_MAX: u64 = 1 << 20;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub enum Order {
    /// The processes.
    Status,
    /// SIGKILL.
    Kill {
        /// Which process.
        name: String,
    },
    /// SIGSTOP: it hangs.
    Stop {
        /// Which process.
        name: String,
    },
    /// SIGCONT: it goes on.
    Cont {
        /// Which process.
        name: String,
    },
    /// Starts one that has ended.
    Start {
        /// Which process.
        name: String,
    },
    /// Says that the store of a data server that has ended is lost, and removes it.
    Wipe {
        /// Which process.
        name: String,
    },
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// It was done; in words.
    Done {
        /// What was done.
        what: String,
    },
    /// It was not done.
    Refused {
        /// Why.
        why: String,
    },
    /// To [`Order::Status`].
    Processes {
        /// All of the cluster, in the order of starting.
        processes: Vec<Process>,
        /// Where it is mounted.
        mount_point: Option<String>,
    },
}

/// A process of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// As [`Name`] prints it.
    pub name: String,
    /// While it runs.
    pub pid: Option<i32>,
    /// running, stopped, or how it ended.
    pub state: String,
    /// Where it listens.
    pub address: Option<String>,
    /// Where its metrics are.
    pub metrics: Option<String>,
    /// What it logs.
    pub log: String,
}

/// Calls `use_path` with a path of the socket that is short enough for a socket address (108
/// bytes), whatever the length of the directory's own path.
pub fn with_socket_path<T>(
    directory: &Path,
    use_path: impl FnOnce(&Path) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let opened = std::fs::File::open(directory)?;
    use_path(Path::new(&format!(
        "/proc/self/fd/{}/control.sock",
        opened.as_raw_fd()
    )))
}

/// Asks the `weft dev` that runs on a directory.
///
/// # Errors
/// [`Error::Unreachable`] if none does.
pub fn ask(directory: &Path, order: &Order) -> Result<Answer> {
    let mut stream = match with_socket_path(directory, |path| UnixStream::connect(path)) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            let hint = if Cluster::file(directory).exists() {
                format!("start it with: weft dev --dir {}", directory.display())
            } else {
                "no cluster was ever made there; name its directory with --dir".into()
            };
            return Err(Error::Unreachable(format!(
                "no `weft dev` runs on {} ({hint})",
                directory.display()
            )));
        }
        Err(error) => return Err(error).tried_on("cannot reach the `weft dev` on", directory),
    };
    let talk = |stream: &mut UnixStream| -> std::io::Result<Answer> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(&*stream).read_line(&mut answer)?;
        if answer.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&answer)?)
    };
    talk(&mut stream).tried_on("no answer from the `weft dev` on", directory)
}

impl Order {
    /// The process that the order is about.
    ///
    /// # Errors
    /// If it has a name that no process can have.
    pub fn name(&self) -> std::result::Result<Option<Name>, String> {
        match self {
            Order::Status => Ok(None),
            Order::Kill { name }
            | Order::Stop { name }
            | Order::Cont { name }
            | Order::Start { name }
            | Order::Wipe { name } => name.parse().map(Some),
        }
    }
}
