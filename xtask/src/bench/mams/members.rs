//! Members of a replica group as processes of their own, without clients: `crates/weft-meta/examples/members/`.

use super::{Setting, Sync};
use crate::bench::client::Client;
use crate::run::{Outcome, cargo, root, step};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A group that is not whole by then has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked who leads.
const LOOK: Duration = Duration::from_millis(20);

/// The binary: the one given, or one that is built.
///
/// # Errors
/// If it cannot be built.
pub fn binary(setting: &Setting<'_>) -> Result<PathBuf, String> {
    if let Some(given) = &setting.options.members_bin {
        return Ok(given.clone());
    }
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "weft-meta"]);
    step("build members", build.args(["--example", "members"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/examples/members"))
}

/// What all processes of a run have in common.
#[derive(Clone, Debug)]
pub struct Kind {
    /// See [`binary`].
    pub binary: PathBuf,
    /// Where journals are.
    pub parent: PathBuf,
    /// `journal.sync`
    pub sync: Sync,
    /// `image_every_entries`
    pub image_every: u64,
}

/// A directory of a run's own, removed when dropped.
fn directory(parent: &Path) -> Result<TempDir, String> {
    tempfile::Builder::new()
        .prefix("weft-members-")
        .tempdir_in(parent)
        .map_err(|error| format!("no directory in {}: {error}", parent.display()))
}

/// An answer as JSON.
///
/// # Errors
/// If the process has ended, or says something else.
pub fn ask(client: &mut Client, order: &str) -> Result<Value, String> {
    client.say(order)?;
    answer(client)
}

/// The answer to what was said before.
///
/// # Errors
/// As [`ask`].
pub fn answer(client: &mut Client) -> Result<Value, String> {
    let line = client.line()?;
    serde_json::from_str(&line).map_err(|error| format!("a member said {line:?}: {error}"))
}

/// A number of an answer.
///
/// # Errors
/// If it has none.
pub fn number(answer: &Value, key: &str) -> Result<f64, String> {
    let found = answer[key].as_f64();
    found.ok_or_else(|| format!("a member said {answer}, without {key}"))
}

/// A replica group; its processes end when it is dropped.
pub struct Members {
    kind: Kind,
    // By number, from 1. None: it does not run.
    all: Vec<Option<Client>>,
    directory: TempDir,
}

impl Members {
    /// Brings a group of so many up.
    ///
    /// # Errors
    /// If it does not get whole.
    pub fn up(kind: &Kind, count: usize) -> Result<Members, String> {
        let mut members = Members {
            kind: kind.clone(),
            all: Vec::new(),
            directory: directory(&kind.parent)?,
        };
        for id in 1..=count {
            let started = members.process(id, count)?;
            members.all.push(Some(started));
        }
        for member in members.all.iter_mut().flatten() {
            member.wait_ready()?;
        }
        members.leader()?;
        Ok(members)
    }

    /// Where a member keeps what it has.
    pub fn place(&self, id: usize) -> PathBuf {
        self.directory.path().join(format!("{id}"))
    }

    fn process(&self, id: usize, count: usize) -> Result<Client, String> {
        let coordinator = self.directory.path().join("coordinator");
        let mut command = Command::new(&self.kind.binary);
        command.args(["--sync", &self.kind.sync.to_string(), "--dir"]);
        command.arg(self.place(id)).arg("member");
        command.args(["--coordinator", &format!("file:{}", coordinator.display())]);
        command.args(["--member", &id.to_string()]);
        command.args(["--members", &count.to_string()]);
        command.args(["--image-every", &self.kind.image_every.to_string()]);
        Client::start(command)
    }

    /// Who leads, when all that run count: its number.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn leader(&mut self) -> Result<usize, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let running = self.all.iter().flatten().count();
            for (at, member) in self.all.iter_mut().enumerate() {
                let Some(member) = member else { continue };
                let seen = ask(member, "look")?;
                if seen["leads"] == true && seen["voters"] == running {
                    return Ok(at + 1);
                }
            }
            if Instant::now() > end {
                return Err(format!("not all members count after {PATIENCE:?}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// One that runs.
    ///
    /// # Errors
    /// If it does not.
    pub fn of(&mut self, id: usize) -> Result<&mut Client, String> {
        let found = self.all.get_mut(id - 1).and_then(Option::as_mut);
        found.ok_or_else(|| format!("member {id} does not run"))
    }

    /// Kills one (SIGKILL).
    pub fn kill(&mut self, id: usize) {
        if let Some(member) = self.all.get_mut(id - 1) {
            member.take();
        }
    }

    /// Starts one that was killed; when it has read its journal this returns how long that took (seconds).
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start(&mut self, id: usize) -> Result<f64, String> {
        let mut member = self.process(id, self.all.len())?;
        member.wait_ready()?;
        let seen = ask(&mut member, "look")?;
        self.all[id - 1] = Some(member);
        number(&seen, "started_s")
    }

    /// Somebody who does not lead, and runs.
    ///
    /// # Errors
    /// If there is nobody.
    pub fn standby(&mut self) -> Result<usize, String> {
        let leader = self.leader()?;
        let others = (1..=self.all.len()).rev().filter(|id| *id != leader);
        let mut running = others.filter(|id| self.all[id - 1].is_some());
        running.next().ok_or_else(|| "no standby runs".into())
    }

    /// Ends all.
    pub fn down(self) -> Outcome {
        drop(self.all);
        let path = self.directory.path().to_owned();
        let closed = self.directory.close();
        closed.map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// A coordinator of two-phase commit with participants.
pub struct TwoPhase {
    /// Takes orders.
    pub coordinator: Client,
    // End when it is dropped.
    _participants: Vec<Client>,
    _directory: TempDir,
}

impl TwoPhase {
    /// So many processes keep a log, the coordinator among them.
    ///
    /// # Errors
    /// If one does not come up.
    pub fn up(kind: &Kind, count: usize) -> Result<TwoPhase, String> {
        let directory = directory(&kind.parent)?;
        let command = |name: &str| {
            let mut command = Command::new(&kind.binary);
            command.args(["--sync", &kind.sync.to_string(), "--dir"]);
            command.arg(directory.path().join(name));
            command
        };
        let mut participants = Vec::new();
        let mut addresses = Vec::new();
        for number in 1..count {
            let mut command = command(&number.to_string());
            command.arg("participant");
            let mut participant = Client::start(command)?;
            let told = answer(&mut participant)?;
            let address = told["address"].as_str();
            addresses.push(address.ok_or("a participant has no address")?.to_owned());
            participants.push(participant);
        }
        let mut command = command("coordinator");
        command.arg("two-phase");
        if !addresses.is_empty() {
            command.args(["--with", &addresses.join(",")]);
        }
        let mut coordinator = Client::start(command)?;
        coordinator.wait_ready()?;
        Ok(TwoPhase {
            coordinator,
            _participants: participants,
            _directory: directory,
        })
    }
}
