//! A bed: its network, the processes in it, and the keeper that removes it all.

use super::keeper::{self, Keeper};
use super::network::{self, Network, Rate, Way};
use crate::run::Outcome;
use crate::spaces;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that does not end by then after SIGTERM is killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// A relay answers an order at once.
const RELAY_PORT: u16 = 7500;

/// See the module. Dropping it ends and removes everything.
pub struct Bed {
    network: Network,
    directory: PathBuf,
    /// By name: that of their node, for what the node is there for.
    processes: BTreeMap<String, Process>,
    relays: BTreeMap<String, Relay>,
    // Last: it removes what the others use.
    _keeper: Keeper,
}

/// Something that runs in a node, and how to start it again.
struct Process {
    node: String,
    child: Child,
    program: PathBuf,
    arguments: Vec<String>,
}

/// A relay before one node.
struct Relay {
    child: Child,
    orders: std::process::ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
}

impl Relay {
    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match read {
            Ok(length) if length > 0 => Ok(line.trim_end().to_owned()),
            Ok(_) => Err("the relay has ended; what it said stands above".into()),
            Err(error) => Err(format!("the relay does not answer: {error}")),
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            signal(&process.child, libc::SIGTERM);
        }
        let end = Instant::now() + END_PATIENCE;
        for process in self.processes.values_mut() {
            wait(&mut process.child, end);
        }
        for relay in self.relays.values_mut() {
            let _: std::io::Result<()> = relay.child.kill();
            let _: std::io::Result<_> = relay.child.wait();
        }
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

fn wait(child: &mut Child, end: Instant) {
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > end {
            let _: std::io::Result<()> = child.kill();
            let _: std::io::Result<_> = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Bed {
    /// An empty bed. Its directory is made in `parent`.
    ///
    /// # Errors
    /// If it cannot be made here: not root, a program or a part of the kernel is missing.
    pub fn new(parent: &Path) -> Result<Bed, String> {
        network::check()?;
        keeper::sweep_orphans();
        let prefix = format!("{}{}", keeper::PREFIX, std::process::id());
        let parent = parent
            .canonicalize()
            .map_err(|error| format!("{}: {error}", parent.display()))?;
        let directory = parent.join(&prefix);
        let keeper = Keeper::start(&prefix, &directory)?;
        Ok(Bed {
            network: Network::new(&prefix)?,
            directory,
            processes: BTreeMap::new(),
            relays: BTreeMap::new(),
            _keeper: keeper,
        })
    }

    /// Where everything of the bed lies.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Links and addresses.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Adds a node.
    ///
    /// # Errors
    /// See [`Network::add`].
    pub fn add(&mut self, node: &str, rate: Option<Rate>) -> Outcome {
        self.network.add(node, rate)
    }

    /// A node's address.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn address(&self, node: &str) -> Result<Ipv4Addr, String> {
        Ok(self.network.node(node)?.address)
    }

    /// Changes what a node's link carries.
    ///
    /// # Errors
    /// See [`Network::set_rate`].
    pub fn set_rate(&mut self, node: &str, rate: Option<Rate>) -> Outcome {
        self.network.set_rate(node, rate)
    }

    /// Cuts a node's link.
    ///
    /// # Errors
    /// See [`Network::cut`].
    pub fn cut(&mut self, node: &str, way: Way) -> Outcome {
        self.network.cut(node, way)
    }

    /// Ends the cut of a node's link.
    ///
    /// # Errors
    /// See [`Network::heal`].
    pub fn heal(&mut self, node: &str) -> Outcome {
        self.network.heal(node)
    }

    /// A command inside a node. It is ended with the bed at the latest.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command, String> {
        Ok(spaces::command(&self.network.node(node)?.space, program))
    }

    /// Starts something in a node, under the node's name or another one. What it says goes to
    /// `NAME.log` in the bed's directory.
    ///
    /// # Errors
    /// If something of this name runs already, or it cannot be started.
    pub fn start(
        &mut self,
        node: &str,
        name: &str,
        program: &Path,
        arguments: Vec<String>,
    ) -> Outcome {
        if let Some(process) = self.processes.get_mut(name)
            && matches!(process.child.try_wait(), Ok(None))
        {
            return Err(format!("{name} runs already"));
        }
        let io = |error: std::io::Error| format!("{name}: {error}");
        let log = self.directory.join(format!("{name}.log"));
        let file = fs::OpenOptions::new().create(true).append(true).open(log);
        let file = file.map_err(io)?;
        let mut command = self.command(node, program)?;
        command
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(io)?)
            .stderr(file);
        let process = Process {
            node: node.to_owned(),
            child: command.spawn().map_err(io)?,
            program: program.to_owned(),
            arguments,
        };
        self.processes.insert(name.to_owned(), process);
        Ok(())
    }

    /// Starts again what ran in a node.
    ///
    /// # Errors
    /// If nothing ever did, or it still runs.
    pub fn start_again(&mut self, name: &str) -> Outcome {
        let process = self
            .processes
            .get(name)
            .ok_or_else(|| format!("nothing has run in {name}"))?;
        let (node, program) = (process.node.clone(), process.program.clone());
        let arguments = process.arguments.clone();
        self.start(&node, name, &program, arguments)
    }

    /// Ends what runs in a node, by SIGTERM or at once, and waits for it.
    ///
    /// # Errors
    /// If nothing runs there.
    pub fn end(&mut self, node: &str, at_once: bool) -> Outcome {
        let process = self
            .processes
            .get_mut(node)
            .and_then(|process| match process.child.try_wait() {
                Ok(Some(_)) => None,
                Err(_) | Ok(None) => Some(process),
            })
            .ok_or_else(|| format!("nothing runs in {node}"))?;
        signal(
            &process.child,
            if at_once {
                libc::SIGKILL
            } else {
                libc::SIGTERM
            },
        );
        wait(&mut process.child, Instant::now() + END_PATIENCE);
        Ok(())
    }

    /// What runs in a node has ended by itself: its last words.
    pub fn has_ended(&mut self, node: &str) -> Option<String> {
        let process = self.processes.get_mut(node)?;
        let status = process.child.try_wait().ok()??;
        Some(format!(
            "{node} ended with {status}:\n{}",
            self.last_words(node)
        ))
    }

    /// The last lines of what something in the bed has said.
    pub fn last_words(&self, name: &str) -> String {
        let log = self.directory.join(format!("{name}.log"));
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Pids of what runs in nodes.
    pub fn pids(&mut self) -> Vec<u32> {
        let running = |process: &mut Process| {
            matches!(process.child.try_wait(), Ok(None)).then(|| process.child.id())
        };
        self.processes.values_mut().filter_map(running).collect()
    }

    /// Puts a relay before a node's server; returns where clients are to connect instead.
    ///
    /// # Errors
    /// If it does not start.
    pub fn add_relay(&mut self, node: &str, port: u16) -> Result<String, String> {
        let place = format!("{node}-relay");
        self.network.add(&place, None)?;
        let listen = format!("{}:{RELAY_PORT}", self.address(&place)?);
        let target = format!("{}:{port}", self.address(node)?);
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = self
            .command(&place, own)?
            .args(["testbed", "relay", "--listen", &listen, "--target", &target])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a relay: {error}"))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the relay has no pipes".into());
        };
        let mut relay = Relay {
            child,
            orders,
            answers: BufReader::new(answers),
        };
        relay.answer()?;
        self.relays.insert(node.to_owned(), relay);
        Ok(listen)
    }

    /// Gives an order (see `relay.rs`) to the relay before a node.
    ///
    /// # Errors
    /// If there is none, or it refuses the order.
    pub fn order_relay(&mut self, node: &str, order: &str) -> Outcome {
        let relay = self.relays.get_mut(node).ok_or_else(|| {
            format!("there is no relay before {node}: start the bed with --relay")
        })?;
        writeln!(relay.orders, "{order}").map_err(|error| format!("the relay: {error}"))?;
        match relay.answer()?.as_str() {
            "ok" => Ok(()),
            why => Err(why.to_owned()),
        }
    }
}
