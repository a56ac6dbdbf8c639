//! Faults from the seed, and only such as the cluster must survive.
//!
//! Every run draws a few kinds of faults and how often they come. Each fault has an end; several
//! may be in force at a time. What takes data away (a power cut, a flipped bit, a new disk) only
//! hits a member whose twin is there and current.
//!
//! What befalls metadata servers is in `metas.rs`.

mod kind;
mod metas;

pub use kind::{GROUP_KINDS, KINDS, Kind, STORM_KINDS, all};

use super::builder::{Cluster, DATA_DIR};
use super::orders;
use crate::rng::Rng;
use crate::{DiskFaults, Pace};
use metas::Metas;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_meta::Refusals;

/// How often the scenario looks at the clock, at most.
const TICK: Duration = Duration::from_millis(50);

/// So much longer than a session's term clients are cut off, at least and at most, in milliseconds: what they sent
/// arrives before anybody takes it for too late.
const BEYOND_TERM_MS: std::ops::Range<u64> = 1_000..6_000;

/// So much longer than its patience a client hears nothing, at least and at most, in milliseconds: seldom for so long
/// that its session ends.
const BEYOND_PATIENCE_MS: std::ops::Range<u64> = 100..4_000;

/// No client is killed while so many changes of dead clients may still take effect: with each of them there are twice as
/// many orders, and beyond some dozen nobody can try them all.
const IN_DOUBT_MAX: usize = 6;

/// With what the metadata service refuses changes that it could do.
const REFUSED_WITH: [i32; 3] = [libc::ENOSPC, libc::EDQUOT, libc::EIO];

/// What ends a fault.
#[derive(Clone, Debug)]
enum End {
    Meta(metas::End),
    StartClient(usize),
    ResumeClient(usize),
    Heal(String, String),
    HealAll(String, Vec<String>),
    Pace(String, String),
    StartData(usize, usize),
    /// An operator lets an empty disk take the place of the one that is lost.
    ReplaceData(usize, usize),
    ResumeData(usize, usize),
    Reconnect(String),
    Room(usize, usize),
    /// Nobody believes that the disk works again before the server is started anew.
    Sound(usize, usize),
    Thaw(usize, usize),
    NoRefusals,
    Nothing,
}

/// A pair, as far as faults are concerned.
#[derive(Clone, Default)]
struct PairTrouble {
    /// The member that may lose data. Its twin never does.
    weak: usize,
    /// The weak member has lost something and the pair was not whole since: the twin is spared.
    spare_twin: bool,
    /// Members whose disks are slow, full or failing.
    disks: u32,
}

/// A fault that was done.
#[derive(Clone, Copy, Debug)]
pub struct Happened {
    /// Its kind.
    pub kind: Kind,
    /// Virtual nanoseconds when it began.
    pub from: u64,
}

/// The faults of one run.
pub struct Faults<'a> {
    cluster: &'a Cluster,
    rng: Rng,
    kinds: Vec<Kind>,
    mean_pause_ms: u64,
    ends: BTreeMap<(u64, u64), (Kind, End)>,
    next: u64,
    pairs: Vec<PairTrouble>,
    metas: Metas,
    count: u64,
    happened: Vec<Happened>,
}

impl<'a> Faults<'a> {
    /// Draws the kinds and their rate, where `only` and `pause_ms` do not give them.
    pub fn new(cluster: &'a Cluster, only: Option<&[Kind]>, pause_ms: Option<u64>) -> Faults<'a> {
        let mut rng = cluster.world.rng("faults");
        let mut kinds: Vec<Kind> = match only {
            Some(only) => only.to_vec(),
            None => all(cluster.shape.members).collect(),
        };
        if only.is_none() {
            // One run in ten is calm; the others have a few kinds each, so that each kind also
            // comes without all the others.
            let wanted = if rng.once_in(10) {
                0
            } else {
                1 + rng.below(5) as usize
            };
            while kinds.len() > wanted {
                let out = rng.below(kinds.len() as u64) as usize;
                kinds.remove(out);
            }
        }
        if cluster.data.is_empty() {
            kinds.retain(|kind| !kind.is_of_data());
        }
        let pairs = cluster
            .data
            .iter()
            .map(|_| PairTrouble {
                weak: rng.below(2) as usize,
                ..PairTrouble::default()
            })
            .collect();
        let drawn = [100, 300, 1_000, 3_000][rng.below(4) as usize];
        let mean_pause_ms = pause_ms.unwrap_or(drawn);
        Faults {
            cluster,
            rng,
            kinds,
            pairs,
            mean_pause_ms,
            metas: Metas::new(cluster),
            ends: BTreeMap::new(),
            next: 0,
            count: 0,
            happened: Vec::new(),
        }
    }

    /// The kinds of this run, for reports.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// All that was done so far.
    pub fn happened(&self) -> Vec<Happened> {
        self.happened.clone()
    }

    fn now(&self) -> u64 {
        self.cluster.shared.clock.now()
    }

    /// Injects faults until the clients are done or `until` has come, then ends them all.
    pub async fn run(&mut self, until: Duration) {
        self.plan_next();
        while self.cluster.world.now() < until && !self.cluster.clients_are_done() {
            let now = self.now();
            self.watch_pairs();
            self.restart_exited();
            while let Some(entry) = self.ends.first_entry()
                && entry.key().0 <= now
            {
                let (kind, end) = entry.remove();
                self.end(kind, end).await;
            }
            if now >= self.next {
                if let Some(&kind) = self.rng.choose(&self.kinds.clone()) {
                    self.begin(kind).await;
                }
                self.plan_next();
            }
            let tick = TICK.min(Duration::from_millis(self.mean_pause_ms));
            self.cluster.world.sleep(tick).await;
        }
        while let Some((_, (kind, end))) = self.ends.pop_first() {
            self.end(kind, end).await;
        }
        self.cluster.world.net().heal();
        self.restart_exited();
    }

    fn plan_next(&mut self) {
        let pause = self.rng.below(2 * self.mean_pause_ms) * 1_000_000;
        self.next = self.now() + pause;
    }

    fn restart_exited(&self) {
        for (node, why) in self.cluster.take_exits() {
            tracing::warn!(node, why, "a server could not be started: trying again");
            for (member, meta) in self.cluster.meta.iter().enumerate() {
                if meta.name() == node {
                    self.cluster.start_meta(member);
                }
            }
            for (pair, members) in self.cluster.data.iter().enumerate() {
                for (member, data) in members.iter().enumerate() {
                    if data.name() == node {
                        self.cluster.start_data(pair, member);
                    }
                }
            }
        }
    }

    async fn begin(&mut self, kind: Kind) {
        let cluster = self.cluster;
        let mut length_ms = match self.rng.below(4) {
            0 => self.rng.below(20),
            1..=2 => self.rng.below(800),
            _ => self.rng.below(4_000),
        };
        let client = self.rng.below(cluster.clients.len() as u64) as usize;
        let end = match kind {
            _ if kind.is_of_data() => match self.begin_on_data(kind) {
                Some(end) => end,
                None => return,
            },
            _ if kind.is_of_meta() => {
                let rng = &mut self.rng;
                match self.metas.begin(cluster, rng, kind, length_ms).await {
                    Some((end, length)) => {
                        length_ms = length;
                        End::Meta(end)
                    }
                    None => return,
                }
            }
            Kind::ClientKill => {
                if !cluster.clients[client].is_running() || cluster.clients[client].is_paused() {
                    return;
                }
                if cluster.shared.history.in_doubt(self.now()) >= IN_DOUBT_MAX {
                    return;
                }
                cluster.kill_client(client);
                End::StartClient(client)
            }
            Kind::ClientPause => {
                if !cluster.clients[client].is_running() || cluster.clients[client].is_paused() {
                    return;
                }
                cluster.clients[client].pause();
                End::ResumeClient(client)
            }
            Kind::ClientCut => {
                let name = cluster.clients[client].name();
                let other = self.any_server();
                cluster.world.net().cut(&name, &other);
                End::Heal(name, other)
            }
            Kind::CutOff | Kind::Unheard => match self.cut_off(client, kind) {
                Some((end, length)) => {
                    length_ms = length;
                    end
                }
                None => return,
            },
            Kind::Cut | Kind::OneWayCut => {
                let (a, b) = self.any_two();
                if kind == Kind::Cut {
                    cluster.world.net().cut(&a, &b);
                } else {
                    cluster.world.net().cut_one_way(&a, &b);
                }
                End::Heal(a, b)
            }
            Kind::Slow => {
                let (a, b) = self.any_two();
                let slow = self.rng.within(1_000_000..100_000_000);
                let pace = Pace {
                    latency: slow / 2..slow,
                    rate: 1 << self.rng.within(18..28),
                    ..Pace::default()
                };
                cluster.world.net().set_pace(&a, &b, pace);
                End::Pace(a, b)
            }
            Kind::Reset => {
                let (a, b) = self.any_two();
                cluster.world.net().reset(&a, &b);
                End::Nothing
            }
            Kind::Refusals => {
                cluster.refuse_changes(Some(Refusals {
                    one_in: self.rng.within(1..4),
                    errnos: REFUSED_WITH.to_vec(),
                }));
                End::NoRefusals
            }
            Kind::ClockJump => {
                let node = self.any_node();
                let hours = self.rng.below(7_200_000_000_000) as i128 - 3_600_000_000_000;
                cluster.world.node(&node).jump_wall(hours);
                End::Nothing
            }
            _ => return,
        };
        tracing::debug!(?kind, ?end, length_ms, "fault");
        cluster.shared.coverage.begin(kind.name());
        let from = self.now();
        self.happened.push(Happened { kind, from });
        cluster.look();
        self.end_at(self.now() + length_ms * 1_000_000, kind, end);
    }

    fn end_at(&mut self, at: u64, kind: Kind, end: End) {
        self.count += 1;
        self.ends.insert((at, self.count), (kind, end));
    }

    async fn end(&mut self, kind: Kind, end: End) {
        let cluster = self.cluster;
        tracing::debug!(?kind, ?end, "fault ends");
        match end {
            End::Meta(end) => {
                if let Some((rest, at)) = self.metas.end(cluster, end).await {
                    return self.end_at(at, kind, End::Meta(rest));
                }
            }
            End::StartClient(client) => cluster.start_client(client),
            End::ResumeClient(client) => cluster.clients[client].resume(),
            End::Heal(a, b) => cluster.world.net().heal_between(&a, &b),
            End::HealAll(name, servers) => {
                for server in servers {
                    cluster.world.net().heal_between(&name, &server);
                }
            }
            End::Pace(a, b) => cluster.world.net().clear_pace(&a, &b),
            End::StartData(pair, member) => cluster.start_data(pair, member),
            End::ReplaceData(pair, member) => {
                if let Err(why) = orders::replace(cluster, pair, member).await {
                    tracing::info!(pair, member, why, "its store cannot be given up yet");
                    cluster.world.sleep(orders::AGAIN).await;
                    return self.end_at(self.now(), kind, End::ReplaceData(pair, member));
                }
                cluster.start_data(pair, member);
            }
            End::ResumeData(pair, member) => cluster.data[pair][member].resume(),
            End::Reconnect(name) => rejoin(cluster, &name),
            End::Room(pair, member) => {
                cluster.data[pair][member]
                    .disk()
                    .set_capacity(cluster.shape.room);
                self.pairs[pair].disks -= 1;
            }
            End::Sound(pair, member) => {
                let disk = cluster.data[pair][member].disk();
                disk.set_faults(DiskFaults::default());
                self.pairs[pair].disks -= 1;
                // What it found of the disk stays for the life of the process.
                cluster.start_data(pair, member);
            }
            End::Thaw(pair, member) => {
                cluster.data[pair][member].disk().set_hung(false);
                self.pairs[pair].disks -= 1;
            }
            End::NoRefusals => cluster.refuse_changes(None),
            End::Nothing => {}
        }
        cluster.shared.coverage.end(kind.name());
        cluster.look();
    }

    /// Cuts a client off from all metadata servers, or from all data servers, for longer than a term; or it hears
    /// nothing from them, for longer than its patience. None if it is cut off from them. Answers for how many
    /// milliseconds, too.
    fn cut_off(&mut self, client: usize, kind: Kind) -> Option<(End, u64)> {
        let cluster = self.cluster;
        let name = cluster.clients[client].name();
        let servers: Vec<String> = match self.rng.once_in(3) {
            true => cluster
                .data
                .iter()
                .flatten()
                .map(|node| node.name())
                .collect(),
            false => cluster.meta.iter().map(|node| node.name()).collect(),
        };
        let net = cluster.world.net();
        if servers.iter().any(|server| net.is_disturbed(&name, server)) {
            return None;
        }
        let shape = &cluster.shape;
        let length_ms = if kind == Kind::Unheard {
            for server in &servers {
                net.cut_one_way(server, &name);
            }
            shape.client.patience_ms + self.rng.within(BEYOND_PATIENCE_MS)
        } else {
            for server in &servers {
                net.cut(&name, server);
            }
            shape.session_term.as_millis() as u64 + self.rng.within(BEYOND_TERM_MS)
        };
        Some((End::HealAll(name, servers), length_ms))
    }

    /// A data server may be cut off from the metadata service.
    fn is_unheard(&self, pair: usize, member: usize) -> bool {
        let (cluster, net) = (self.cluster, self.cluster.world.net());
        let name = cluster.data[pair][member].name();
        let mut servers = cluster.meta.iter();
        servers.any(|server| net.is_disturbed(&name, &server.name()))
    }

    /// A fault of a data server or its disk; none if there is no fit one now.
    fn begin_on_data(&mut self, kind: Kind) -> Option<End> {
        let cluster = self.cluster;
        let pair = self.rng.below(cluster.data.len() as u64) as usize;
        let any = self.rng.below(2) as usize;
        let trouble = &self.pairs[pair];
        let takes_data = matches!(
            kind,
            Kind::DataPower | Kind::Wipe | Kind::BitFlip | Kind::DiskError | Kind::DiskDies
        );
        let only_weak =
            takes_data || trouble.spare_twin || self.kinds.iter().any(|kind| kind.needs_twin());
        let member = if only_weak { trouble.weak } else { any };
        let node = &cluster.data[pair][member];
        if !node.is_running() || node.is_paused() {
            return None;
        }
        if takes_data && (!cluster.is_whole(pair) || trouble.disks > 0) {
            return None;
        }
        // One that loses for ever what it has, in the moment in which it is made the only one, since the service does not
        // hear the other, has taken all that there was with it. The two need not know yet that it was.
        let is_for_ever = matches!(kind, Kind::Wipe | Kind::BitFlip | Kind::DiskDies);
        if is_for_ever && (self.is_unheard(pair, 1 - member) || !cluster.stays_both(pair)) {
            return None;
        }
        match kind {
            Kind::DataKill => {
                cluster.stop_data(pair, member, false);
                Some(End::StartData(pair, member))
            }
            Kind::DataPower | Kind::Wipe => {
                self.pairs[pair].spare_twin = true;
                cluster.stop_data(pair, member, kind == Kind::DataPower);
                if kind == Kind::Wipe {
                    node.disk().wipe();
                    node.disk().make_durable_dir(DATA_DIR);
                    return Some(End::ReplaceData(pair, member));
                }
                Some(End::StartData(pair, member))
            }
            Kind::DataPause => {
                node.pause();
                Some(End::ResumeData(pair, member))
            }
            Kind::DataCut => {
                cluster.world.net().isolate(&node.name());
                Some(End::Reconnect(node.name()))
            }
            Kind::DiskFull => {
                let room = self.rng.below(200_000);
                node.disk().set_capacity(node.disk().used() + room);
                self.pairs[pair].disks += 1;
                Some(End::Room(pair, member))
            }
            Kind::DiskError => {
                node.disk().set_faults(failing(&mut self.rng));
                self.pairs[pair].disks += 1;
                Some(End::Sound(pair, member))
            }
            Kind::DiskDies => {
                // What only this member could read afterwards, nobody could.
                self.pairs[pair].spare_twin = true;
                self.pairs[pair].disks += 1;
                node.disk().set_faults(dead(&mut self.rng));
                Some(End::Sound(pair, member))
            }
            Kind::DiskHang => {
                node.disk().set_hung(true);
                self.pairs[pair].disks += 1;
                Some(End::Thaw(pair, member))
            }
            Kind::BitFlip => {
                let objects = |path: &std::path::Path| {
                    path.components().any(|part| part.as_os_str() == "objects")
                };
                let (path, offset) = node.disk().flip_bit(DATA_DIR, objects)?;
                tracing::debug!(node = node.name(), path = %path.display(), offset, "a bit flips");
                Some(End::Nothing)
            }
            _ => None,
        }
    }

    /// Once a pair is whole again, its strong member may suffer again.
    fn watch_pairs(&mut self) {
        for (pair, trouble) in self.pairs.iter_mut().enumerate() {
            if trouble.spare_twin && self.cluster.is_whole(pair) {
                trouble.spare_twin = false;
            }
        }
    }

    fn any_server(&mut self) -> String {
        let servers = servers(self.cluster);
        servers[self.rng.below(servers.len() as u64) as usize].clone()
    }

    fn any_node(&mut self) -> String {
        let all = all_nodes(self.cluster);
        all[self.rng.below(all.len() as u64) as usize].clone()
    }

    /// Two nodes of which one is a server.
    fn any_two(&mut self) -> (String, String) {
        loop {
            let (a, b) = (self.any_server(), self.any_node());
            if a != b {
                return if self.rng.once_in(2) { (a, b) } else { (b, a) };
            }
        }
    }
}

fn servers(cluster: &Cluster) -> Vec<String> {
    let data = cluster.data.iter().flatten();
    let all = cluster.meta.iter().chain(data);
    all.map(|node| node.name()).collect()
}

fn all_nodes(cluster: &Cluster) -> Vec<String> {
    let mut all = servers(cluster);
    all.extend(cluster.clients.iter().map(|node| node.name()));
    all
}

/// Ends the cuts between this node and all others.
fn rejoin(cluster: &Cluster, name: &str) {
    for other in all_nodes(cluster).iter().filter(|other| *other != name) {
        cluster.world.net().heal_between(name, other);
    }
}

/// A disk that fails for good.
fn dead(rng: &mut Rng) -> DiskFaults {
    let errno = [libc::EIO, libc::EROFS][rng.below(2) as usize];
    let (reads, changes) = match rng.below(3) {
        0 => (true, false),
        1 => (false, true),
        _ => (true, true),
    };
    DiskFaults {
        reads_fail: reads.then_some(libc::EIO),
        changes_fail: changes.then_some(errno),
        ..DiskFaults::default()
    }
}

/// A disk that fails now and then.
fn failing(rng: &mut Rng) -> DiskFaults {
    let mut chance = || 1 << rng.within(6..17);
    DiskFaults {
        read_error_ppm: chance(),
        write_error_ppm: chance(),
        sync_error_ppm: chance(),
        ..DiskFaults::default()
    }
}
