//! The processes of a development cluster: started, watched, ended. One loop owns them all.
//!
//! Keeps true: every process that was started is ended before `weft dev` returns, and by the kernel
//! if `weft dev` itself is killed. Nothing is restarted by itself: what was killed stays away until
//! somebody asks for it, which is what a test of a failure needs.

use super::cluster::{Cluster, Name};
use super::configs::{Chosen, coordinator, write_config};
use super::control::{Answer, Order, Process};
use crate::error::{Error, Result, Tried};
use crate::log::tell;
use crate::mounts;
use crate::tool::Tool;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;
use weft_coordinator::CoordinatorError;
use weft_env::{Env, Mono, private};
use weft_wire::proto::ReplaceMemberRequest;

/// A server reads its journal or its list of objects first; more than this on one machine means
/// that something is wrong.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How often a starting process is looked at: far below what a person notices.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A mount writes back what applications left with it before it ends.
const MOUNT_STOP_PATIENCE: Duration = Duration::from_secs(60);
/// A server has nothing to write back; what it acknowledged is on its disk or its twin.
const SERVER_STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Lines of a log that are shown when its process fails to start.
const LOG_TAIL_BYTES: u64 = 2_000;
/// The exit code of a server that is not to run with what is in its directory.
const REFUSED: i32 = 5;
/// Ends of processes not yet looked at; there are never more than processes.
const ENDS_MAX: usize = 1_024;

/// A process that ended.
struct Ended {
    name: Name,
    start: u64,
    how: String,
    /// With [`REFUSED`].
    is_refused: bool,
}

enum State {
    Running { pid: i32, start: u64, stopped: bool },
    Ended { how: String, is_refused: bool },
}

/// Owner of the processes.
pub struct Supervisor {
    env: Env,
    directory: PathBuf,
    cluster: Cluster,
    chosen: Chosen,
    states: BTreeMap<Name, State>,
    /// Processes that somebody asked to end.
    expected: BTreeSet<Name>,
    starts: u64,
    ends: mpsc::Receiver<Ended>,
    ends_sender: mpsc::Sender<Ended>,
}

impl Supervisor {
    /// Nothing is started yet.
    pub fn new(env: Env, directory: PathBuf, cluster: Cluster, chosen: Chosen) -> Supervisor {
        let (ends_sender, ends) = mpsc::channel(ENDS_MAX);
        Supervisor {
            env,
            directory,
            cluster,
            chosen,
            states: BTreeMap::new(),
            expected: BTreeSet::new(),
            starts: 0,
            ends,
            ends_sender,
        }
    }

    /// Starts everything, in order, and waits until it serves.
    ///
    /// # Errors
    /// If a process ends or does not serve in time; the message has the end of its log.
    pub async fn start_all(&mut self) -> Result<()> {
        let removed = self.removed_members().await?;
        for name in &removed {
            tell!("weft dev: {name} was removed from its group: it is not started");
            let how = "was removed from its group".to_owned();
            let is_refused = false;
            self.states.insert(*name, State::Ended { how, is_refused });
        }
        let mut names = self.cluster.servers();
        names.retain(|name| !removed.contains(name));
        // The others find the metadata service when they start.
        let wave_of = |wave: fn(&Name) -> bool| names.iter().copied().filter(wave).collect();
        let waves: [Vec<Name>; 3] = [
            wave_of(|name| matches!(name, Name::Meta(..))),
            wave_of(|name| matches!(name, Name::Data(..))),
            wave_of(|name| matches!(name, Name::Nfs(..))),
        ];
        for wave in waves {
            for &name in &wave {
                self.spawn(name)?;
            }
            let mut serve = 0;
            let mut refused = None;
            for &name in &wave {
                match self.wait_serving(name).await {
                    Ok(()) => serve += 1,
                    // The others go on, and what is to be done about it may need them.
                    Err(why) if self.was_refused(name) => {
                        tell!("weft dev: {why}");
                        refused = Some(why);
                    }
                    Err(why) => return Err(why),
                }
            }
            if let Some(why) = refused.filter(|_| serve == 0) {
                return Err(why);
            }
        }
        if self.chosen.mount_point.is_some() {
            self.spawn(Name::Mount)?;
            self.wait_serving(Name::Mount).await?;
        }
        Ok(())
    }

    /// Metadata servers that `weft group remove` has removed: they would not start.
    async fn removed_members(&self) -> Result<Vec<Name>> {
        let Some(place) = coordinator(&self.directory, &self.cluster) else {
            return Ok(Vec::new());
        };
        let failed = |error: CoordinatorError| Error::Failed(error.to_string());
        let connecting = weft_coordinator::connect(&self.env, &self.cluster.id, &place);
        let view = connecting
            .await
            .map_err(failed)?
            .view()
            .await
            .map_err(failed)?;
        let is_removed = |name: &Name| {
            let Name::Meta(group, number) = *name else {
                return false;
            };
            let mut groups = view.groups.iter().filter(|known| known.id == group);
            // Before it is founded a group has no members.
            groups.any(|group| {
                !group.members.is_empty() && group.members.iter().all(|it| it.id != number)
            })
        };
        let servers = self.cluster.servers().into_iter();
        Ok(servers.filter(is_removed).collect())
    }

    /// A server that was removed would answer for a moment, and end. With an empty directory it waits to be let in.
    async fn refuse_removed(&self, name: Name) -> Result<()> {
        let Name::Meta(group, _) = name else {
            return Ok(());
        };
        let store = name.place(&self.directory).store;
        let has_store = fs::read_dir(&store).is_ok_and(|mut entries| entries.next().is_some());
        if !has_store || !self.removed_members().await?.contains(&name) {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "{name} was removed from group {group}: to let it in again, empty {}, start it, and say `weft group add`",
            store.display()
        )))
    }

    /// The next process that ends without having been asked to; handles the others.
    pub async fn next_unexpected_end(&mut self) -> (Name, String) {
        loop {
            let Some(ended) = self.ends.recv().await else {
                // We hold a sender ourselves.
                return std::future::pending().await;
            };
            if let Some(unexpected) = self.on_ended(ended) {
                return unexpected;
            }
        }
    }

    fn on_ended(&mut self, ended: Ended) -> Option<(Name, String)> {
        let Ended {
            name,
            start,
            how,
            is_refused,
        } = ended;
        match self.states.get(&name) {
            Some(State::Running { start: current, .. }) if *current == start => {}
            _ => return None,
        }
        let state = State::Ended {
            how: how.clone(),
            is_refused,
        };
        self.states.insert(name, state);
        (!self.expected.remove(&name)).then_some((name, how))
    }

    fn drain_ends(&mut self) {
        while let Ok(ended) = self.ends.try_recv() {
            if let Some((name, how)) = self.on_ended(ended) {
                report_end(&self.directory, name, &how);
            }
        }
    }

    fn spawn(&mut self, name: Name) -> Result<()> {
        write_config(&self.directory, &self.cluster, &self.chosen, name)?;
        let place = name.place(&self.directory);
        if name == Name::Mount
            && let Some(point) = &self.chosen.mount_point
        {
            // What a killed mount leaves behind answers every access with ENOTCONN.
            mounts::clear_dead(point)?;
            match point.starts_with(&self.directory) {
                true => private::create_dir_all(point),
                // A place that the user has chosen, where others may go.
                false => fs::create_dir_all(point),
            }
            .tried_on("cannot make the mount point", point)?;
            if let Some(names) = weft_mount::occupied::hidden(point) {
                let point = point.display();
                tell!(
                    "weft dev: {point} is not empty: {names} cannot be seen in it while the cluster is mounted there"
                );
            }
        }
        let mut options = private::options();
        options.create(true).append(true);
        let log =
            private::open(&options, &place.log).tried_on("cannot open the log", &place.log)?;
        private::close_file(&log).tried_on("cannot close to others", &place.log)?;
        let program = std::env::current_exe().tried(|| "cannot find this program".into())?;
        let mut command = tokio::process::Command::new(program);
        command
            .arg(name.subcommand())
            .arg("--config")
            .arg(&place.config)
            .stdin(Stdio::null())
            .stdout(
                log.try_clone()
                    .tried_on("cannot open the log", &place.log)?,
            )
            .stderr(log)
            // Ctrl-C in a terminal goes to its whole process group; the order of ending is ours.
            .process_group(0);
        // The mount unmounts when it is asked to end, and a gateway writes back; a server needs no farewell.
        let on_parent_death = match name {
            Name::Mount | Name::Nfs(_) => libc::SIGTERM,
            _ => libc::SIGKILL,
        };
        let parent = std::process::id();
        // SAFETY: between fork and exec only prctl and getppid are called, which are
        // async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, on_parent_death) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                if libc::getppid() as u32 != parent {
                    return Err(std::io::Error::other("weft dev is gone"));
                }
                Ok(())
            });
        }
        let mut child = command.spawn().tried(|| format!("cannot start {name}"))?;
        let pid = child.id().unwrap_or_default() as i32;
        self.starts += 1;
        let start = self.starts;
        let sender = self.ends_sender.clone();
        self.env.spawn("child", async move {
            let status = child.wait().await;
            let is_refused = status.as_ref().is_ok_and(|it| it.code() == Some(REFUSED));
            let how = match status {
                Ok(status) => in_words(status),
                Err(error) => format!("cannot be waited for: {error}"),
            };
            let ended = Ended {
                name,
                start,
                how,
                is_refused,
            };
            // The receiver goes away with the cluster.
            let _: std::result::Result<(), _> = sender.send(ended).await;
        });
        self.expected.remove(&name);
        let stopped = false;
        self.states.insert(
            name,
            State::Running {
                pid,
                start,
                stopped,
            },
        );
        Ok(())
    }

    /// It has ended, because it is not to run with what is in its directory.
    fn was_refused(&self, name: Name) -> bool {
        let state = self.states.get(&name);
        matches!(
            state,
            Some(State::Ended {
                is_refused: true,
                ..
            })
        )
    }

    async fn wait_serving(&mut self, name: Name) -> Result<()> {
        let deadline = self.env.now() + START_PATIENCE;
        // Its end is told here, with what it said.
        self.expected.insert(name);
        loop {
            self.drain_ends();
            let place = name.place(&self.directory);
            if let Some(State::Ended { how, .. }) = self.states.get(&name) {
                return Err(Error::Failed(format!(
                    "{name} {how} while starting; {} ends with:\n{}",
                    place.log.display(),
                    log_tail(&place.log)
                )));
            }
            let serving = match (name, &self.chosen.mount_point) {
                (Name::Mount, Some(point)) => mounts::is_mounted(point),
                (Name::Mount, None) => true,
                (Name::Nfs(_), _) => match self.cluster.address(name) {
                    Some(address) => self.env.connect(address).await.is_ok(),
                    None => true,
                },
                _ => match self.cluster.endpoint(name) {
                    Some(endpoint) => Tool::connect(&self.env, &endpoint.address).await.is_ok(),
                    None => true,
                },
            };
            if serving {
                self.expected.remove(&name);
                return Ok(());
            }
            if self.env.now() > deadline {
                return Err(Error::Failed(format!(
                    "{name} does not serve after {} s; {} ends with:\n{}",
                    START_PATIENCE.as_secs(),
                    place.log.display(),
                    log_tail(&place.log)
                )));
            }
            self.env.sleep(LOOK_EVERY).await;
        }
    }

    /// Which metadata member leads the group.
    async fn active(&self, group: u32) -> Result<Name> {
        if self.cluster.members() == 1 {
            return Ok(Name::Meta(group, 1));
        }
        let tool = crate::tool::connect_first(&self.env, &self.cluster.meta_addresses()).await?;
        let view = tool.status().await?.view.unwrap_or_default();
        match view.groups.iter().find(|known| known.id == group) {
            Some(known) => Ok(Name::Meta(group, known.active)),
            None => Err(Error::Failed("no metadata server leads".into())),
        }
    }

    /// The only metadata member of the group of which that is true: by then another one leads.
    fn only_meta(&self, group: u32, what: &str, is_it: impl Fn(&State) -> bool) -> Result<Name> {
        let is_member = |name: &Name| matches!(name, Name::Meta(of, _) if *of == group);
        let all = self.states.iter();
        let found: Vec<Name> = all
            .filter(|(name, state)| is_member(name) && is_it(state))
            .map(|(name, _)| *name)
            .collect();
        match found[..] {
            [only] => Ok(only),
            [] => Err(Error::Usage(format!("no metadata server {what}"))),
            _ => {
                let names: Vec<String> = found.iter().map(Name::to_string).collect();
                Err(Error::Usage(format!(
                    "more than one metadata server {what}: say {}",
                    names.join(" or ")
                )))
            }
        }
    }

    /// Does what was asked through the control socket.
    pub async fn on_order(&mut self, order: Order) -> Answer {
        self.drain_ends();
        match self.obey(order).await {
            Ok(answer) => answer,
            Err(error) => Answer::Refused {
                why: error.to_string(),
            },
        }
    }

    async fn obey(&mut self, order: Order) -> Result<Answer> {
        let Some(name) = order.name().map_err(Error::Usage)? else {
            return Ok(self.report());
        };
        let name = match (name, &order) {
            (Name::Active(group), Order::Start { .. }) => {
                let has_ended = |state: &State| matches!(state, State::Ended { .. });
                self.only_meta(group, "has ended", has_ended)?
            }
            (Name::Active(group), Order::Cont { .. }) => {
                self.only_meta(group, "hangs", |state| {
                    matches!(state, State::Running { stopped: true, .. })
                })?
            }
            (Name::Active(group), _) => self.active(group).await?,
            (name, _) => name,
        };
        if !self.states.contains_key(&name) {
            let names: Vec<String> = self.states.keys().map(Name::to_string).collect();
            return Err(Error::Usage(format!(
                "this cluster has no {name}; it has {}",
                names.join(", ")
            )));
        }
        let done = |what: String| Ok(Answer::Done { what });
        match order {
            Order::Status => Ok(self.report()),
            Order::Kill { .. } => {
                let pid = self.pid(name)?;
                self.expected.insert(name);
                send_signal(pid, libc::SIGKILL)?;
                self.abort_mount(name);
                let deadline = self.env.now() + SERVER_STOP_PATIENCE;
                if !self.wait_ended(&[name], deadline).await {
                    return Err(Error::Failed(format!("{name} (pid {pid}) does not die")));
                }
                done(format!("{name} (pid {pid}) was killed"))
            }
            Order::Stop { .. } => {
                let pid = self.pid(name)?;
                send_signal(pid, libc::SIGSTOP)?;
                self.set_stopped(name, true);
                done(format!(
                    "{name} (pid {pid}) is stopped: it hangs until `cont {name}`"
                ))
            }
            Order::Cont { .. } => {
                let pid = self.pid(name)?;
                send_signal(pid, libc::SIGCONT)?;
                self.set_stopped(name, false);
                done(format!("{name} (pid {pid}) goes on"))
            }
            Order::Start { .. } => {
                if let Some(State::Running { pid, .. }) = self.states.get(&name) {
                    return Err(Error::Usage(format!("{name} runs already (pid {pid})")));
                }
                self.refuse_removed(name).await?;
                self.spawn(name)?;
                self.wait_serving(name).await?;
                let pid = self.pid(name)?;
                done(format!("{name} serves (pid {pid})"))
            }
            Order::Wipe { .. } => {
                if !matches!(name, Name::Data(..)) {
                    return Err(Error::Usage(format!(
                        "{name} is no data server: what it keeps has no second copy, and is not wiped"
                    )));
                }
                if let Some(State::Running { .. }) = self.states.get(&name) {
                    return Err(Error::Usage(format!("{name} runs: kill it first")));
                }
                self.give_up_store(name).await?;
                let store = name.place(&self.directory).store;
                if store.exists() {
                    fs::remove_dir_all(&store).tried_on("cannot remove", &store)?;
                }
                done(format!(
                    "{} was removed; `start {name}` fills it from its twin",
                    store.display()
                ))
            }
        }
    }

    /// Says that a data server's store is lost: without that an empty directory is refused.
    async fn give_up_store(&self, name: Name) -> Result<()> {
        let Name::Data(pair, member) = name else {
            return Ok(());
        };
        let addresses = self.cluster.meta_addresses();
        let tool = crate::tool::connect_first(&self.env, &addresses).await?;
        let request = ReplaceMemberRequest {
            pair,
            member,
            cancel: false,
        };
        tool.call(&request).await.map(drop)
    }

    fn set_stopped(&mut self, name: Name, value: bool) {
        if let Some(State::Running { stopped, .. }) = self.states.get_mut(&name) {
            *stopped = value;
        }
    }

    fn pid(&self, name: Name) -> Result<i32> {
        match self.states.get(&name) {
            Some(State::Running { pid, .. }) => Ok(*pid),
            Some(State::Ended { how, .. }) => Err(Error::Usage(format!(
                "{name} does not run: it {how} (start it with `start {name}`)"
            ))),
            None => Err(Error::Usage(format!("this cluster has no {name}"))),
        }
    }

    fn report(&self) -> Answer {
        let process = |(name, state): (&Name, &State)| Process {
            name: name.to_string(),
            pid: match state {
                State::Running { pid, .. } => Some(*pid),
                State::Ended { .. } => None,
            },
            state: match state {
                State::Running { stopped: false, .. } => "running".into(),
                State::Running { stopped: true, .. } => "stopped".into(),
                State::Ended { how, .. } => how.clone(),
            },
            address: self.cluster.address(*name).map(str::to_owned),
            metrics: self.cluster.metrics(*name).map(str::to_owned),
            log: name.place(&self.directory).log.display().to_string(),
        };
        Answer::Processes {
            processes: self.states.iter().map(process).collect(),
            mount_point: self
                .chosen
                .mount_point
                .as_ref()
                .map(|point| point.display().to_string()),
        }
    }

    /// Waits until all of them have ended; false if the deadline came first.
    async fn wait_ended(&mut self, names: &[Name], deadline: Mono) -> bool {
        loop {
            self.drain_ends();
            let running = |name| matches!(self.states.get(name), Some(State::Running { .. }));
            if !names.iter().any(running) {
                return true;
            }
            if self.env.now() > deadline {
                return false;
            }
            self.env.sleep(LOOK_EVERY).await;
        }
    }

    /// Ends everything: the mount first, so that it can write back; then the metadata service, so that
    /// it does not take the end of one member of a pair for a failure that leaves the other alone.
    pub async fn stop_all(&mut self) {
        let running: Vec<Name> = self
            .states
            .iter()
            .filter(|(_, state)| matches!(state, State::Running { .. }))
            .map(|(name, _)| *name)
            .collect();
        let of_kind = |kind: &str| -> Vec<Name> {
            let same = running.iter().filter(|name| name.subcommand() == kind);
            same.copied().collect()
        };
        for (kind, patience) in [
            ("mount", MOUNT_STOP_PATIENCE),
            ("nfs", MOUNT_STOP_PATIENCE),
            ("meta", SERVER_STOP_PATIENCE),
            ("data", SERVER_STOP_PATIENCE),
        ] {
            self.stop_wave(&of_kind(kind), patience).await;
        }
        if let Some(point) = &self.chosen.mount_point
            && let Err(error) = mounts::clear_dead(point)
        {
            tell!("weft dev: {error}");
        }
    }

    async fn stop_wave(&mut self, wave: &[Name], patience: Duration) {
        for &name in wave {
            self.expected.insert(name);
            if let Ok(pid) = self.pid(name) {
                // It may have ended in this moment, which is as good.
                let _: Result<()> = send_signal(pid, libc::SIGTERM);
                let _: Result<()> = send_signal(pid, libc::SIGCONT);
            }
        }
        let deadline = self.env.now() + patience;
        if self.wait_ended(wave, deadline).await {
            return;
        }
        self.kill(wave);
        let deadline = self.env.now() + SERVER_STOP_PATIENCE;
        self.wait_ended(wave, deadline).await;
    }

    /// SIGKILL to all that still run among them.
    fn kill(&mut self, names: &[Name]) {
        for &name in names {
            if let Ok(pid) = self.pid(name) {
                tell!("weft dev: {name} (pid {pid}) does not end by itself: killed");
                self.expected.insert(name);
                let _: Result<()> = send_signal(pid, libc::SIGKILL);
                self.abort_mount(name);
            }
        }
    }

    /// The mount's process has been killed: what it had of the kernel ends, too.
    fn abort_mount(&self, name: Name) {
        if name == Name::Mount
            && let Some(point) = &self.chosen.mount_point
        {
            mounts::abort(point);
        }
    }

    /// Ends everything at once, without a farewell.
    pub async fn kill_all(&mut self) {
        let names: Vec<Name> = self.states.keys().copied().collect();
        self.kill(&names);
        let deadline = self.env.now() + SERVER_STOP_PATIENCE;
        self.wait_ended(&names, deadline).await;
        if let Some(point) = &self.chosen.mount_point
            && let Err(error) = mounts::clear_dead(point)
        {
            tell!("weft dev: {error}");
        }
    }
}

/// Tells the user of a process that ended by itself.
pub fn report_end(directory: &Path, name: Name, how: &str) {
    let log = name.place(directory).log;
    tell!(
        "weft dev: {name} {how}. Its log: {}. It stays away until: weft dev --dir {} start {name}",
        log.display(),
        directory.display()
    );
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(libc::SIGKILL)) => "was killed (SIGKILL)".into(),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

fn send_signal(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: kill takes plain numbers; the pid is that of a child that has not been waited for.
    if unsafe { libc::kill(pid, signal) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error()).tried(|| format!("cannot signal pid {pid}"))
    }
}

fn log_tail(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    read().unwrap_or_else(|error| format!("(the log cannot be read: {error})"))
}
