//! Faults from the seed, and only such as the cluster must survive.
//!
//! Every run draws a few kinds of faults and how often they come. Each fault has an end; several
//! may be in force at a time. What takes data away (a power cut, a flipped bit, a new disk) only
//! hits a member whose twin is there and current.
//!
//! Of several metadata servers half of the faults hit the one that leads. Mostly a majority is left; where
//! not, it is there again a few seconds later. A disk that loses what it held belongs to one of a whole
//! group only.

use super::builder::Cluster;
use crate::rng::Rng;
use crate::{CoordinatorFaults, DiskFaults, Pace};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the scenario looks at the clock, at most.
const TICK: Duration = Duration::from_millis(50);
/// A kind of fault. Each is a column of the table of what was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    MetaKill,
    MetaPower,
    MetaPause,
    ClientKill,
    ClientPause,
    ClientCut,
    Cut,
    OneWayCut,
    Slow,
    Reset,
    ClockJump,
    DataKill,
    DataPower,
    DataPause,
    DataCut,
    Wipe,
    DiskFull,
    DiskError,
    DiskHang,
    BitFlip,
    MetaMany,
    MetaCut,
    MetaFull,
    MetaDiskError,
    MetaHang,
    MetaSlowDisk,
    MetaWipe,
    Coordinator,
}

/// The kinds that there are with one metadata server.
pub const KINDS: &[Kind] = &[
    Kind::MetaKill,
    Kind::MetaPower,
    Kind::MetaPause,
    Kind::ClientKill,
    Kind::ClientPause,
    Kind::ClientCut,
    Kind::Cut,
    Kind::OneWayCut,
    Kind::Slow,
    Kind::Reset,
    Kind::ClockJump,
    Kind::DataKill,
    Kind::DataPower,
    Kind::DataPause,
    Kind::DataCut,
    Kind::Wipe,
    Kind::DiskFull,
    Kind::DiskError,
    Kind::DiskHang,
    Kind::BitFlip,
];

/// And besides these with several.
pub const GROUP_KINDS: &[Kind] = &[
    Kind::MetaMany,
    Kind::MetaCut,
    Kind::MetaFull,
    Kind::MetaDiskError,
    Kind::MetaHang,
    Kind::MetaSlowDisk,
    Kind::MetaWipe,
    Kind::Coordinator,
];

/// The kinds that there are with so many metadata servers.
pub fn all(members: u32) -> impl Iterator<Item = Kind> {
    let of_group = if members > 1 { GROUP_KINDS } else { &[] };
    KINDS.iter().chain(of_group).copied()
}

/// A majority of the metadata servers is not taken away again before it was there for this long.
const MAJORITY_FOR: u64 = 8_000_000_000;
/// One fault in so many may take the majority away.
const MINORITY_ONCE_IN: u64 = 4;
/// A metadata server's disk has this much room.
const META_ROOM: u64 = 1 << 40;
/// An operator starts a server with a failed disk again so long after the disk has been mended.
const MENDED_MS: u64 = 100;

impl Kind {
    fn is_of_data(self) -> bool {
        (Kind::DataKill..=Kind::BitFlip).contains(&self)
    }

    /// By which another metadata server may take over. For clients that is what a death of the only one is.
    pub fn takes_over(self) -> bool {
        matches!(
            self,
            Kind::MetaPause | Kind::Cut | Kind::OneWayCut | Kind::Slow | Kind::Reset
        ) || GROUP_KINDS.contains(&self)
    }

    /// The weak member has bad blocks, or may have: its twin must be there.
    fn needs_twin(self) -> bool {
        matches!(self, Kind::BitFlip | Kind::DiskError)
    }

    /// The kind that is called this in code, as in the line that says how to see a run again.
    pub fn called(name: &str) -> Option<Kind> {
        KINDS
            .iter()
            .chain(GROUP_KINDS)
            .copied()
            .find(|kind| format!("{kind:?}") == name)
    }

    /// Its column's title.
    pub fn name(self) -> &'static str {
        match self {
            Kind::MetaKill => "meta kill",
            Kind::MetaPower => "meta power",
            Kind::MetaPause => "meta stop",
            Kind::ClientKill => "client kill",
            Kind::ClientPause => "client stop",
            Kind::ClientCut => "client cut",
            Kind::Cut => "cut",
            Kind::OneWayCut => "one-way cut",
            Kind::Slow => "slow link",
            Kind::Reset => "reset",
            Kind::ClockJump => "clock jump",
            Kind::DataKill => "data kill",
            Kind::DataPower => "data power",
            Kind::DataPause => "data stop",
            Kind::DataCut => "data cut",
            Kind::Wipe => "new disk",
            Kind::DiskFull => "disk full",
            Kind::DiskError => "disk error",
            Kind::DiskHang => "disk hang",
            Kind::BitFlip => "bit flip",
            Kind::MetaMany => "meta many",
            Kind::MetaCut => "meta cut",
            Kind::MetaFull => "meta full",
            Kind::MetaDiskError => "meta error",
            Kind::MetaHang => "meta hang",
            Kind::MetaSlowDisk => "meta slow",
            Kind::MetaWipe => "meta new disk",
            Kind::Coordinator => "coordinator",
        }
    }
}

/// What ends a fault.
#[derive(Clone, Debug)]
enum End {
    StartMetas(Vec<usize>),
    ResumeMeta(usize),
    SoundMeta(usize),
    RestartMeta(usize),
    Rejoin(usize),
    Coordinator,
    StartClient(usize),
    ResumeClient(usize),
    Heal(String, String),
    Pace(String, String),
    StartData(usize, usize),
    ResumeData(usize, usize),
    Reconnect(String),
    Room(usize, usize),
    Sound(usize, usize),
    Thaw(usize, usize),
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
    /// Faults in force at each metadata server.
    metas: Vec<u32>,
    /// There is no majority of metadata servers until then.
    minority_until: u64,
    count: u64,
    happened: Vec<Happened>,
}

impl<'a> Faults<'a> {
    /// Draws the kinds and their rate, where `only` and `pause_ms` do not give them.
    pub fn new(cluster: &'a Cluster, only: Option<&[Kind]>, pause_ms: Option<u64>) -> Faults<'a> {
        let mut rng = cluster.world.rng("faults");
        let mut kinds: Vec<Kind> = match only {
            Some(only) => only.to_vec(),
            None => all(cluster.meta.len() as u32).collect(),
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
            metas: vec![0; cluster.meta.len()],
            minority_until: 0,
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
            self.cluster.watch_sessions();
            while let Some(entry) = self.ends.first_entry()
                && entry.key().0 <= now
            {
                let (kind, end) = entry.remove();
                self.end(kind, end);
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
            self.end(kind, end);
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
        let length_ms = match self.rng.below(4) {
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
            Kind::MetaKill | Kind::MetaPower | Kind::MetaPause => {
                match self.begin_on_meta(kind, length_ms) {
                    Some(end) => end,
                    None => return,
                }
            }
            kind if GROUP_KINDS.contains(&kind) => {
                let takes_data = matches!(kind, Kind::MetaWipe | Kind::MetaDiskError);
                let is_free = self.metas.iter().all(|faults| *faults == 0);
                if takes_data && !(is_free && cluster.members_are_whole().await) {
                    return;
                }
                match self.begin_on_meta(kind, length_ms) {
                    Some(end) => end,
                    None => return,
                }
            }
            Kind::ClientKill => {
                if !cluster.clients[client].is_running() || cluster.clients[client].is_paused() {
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
                };
                cluster.world.net().set_pace(&a, &b, pace);
                End::Pace(a, b)
            }
            Kind::Reset => {
                let (a, b) = self.any_two();
                cluster.world.net().reset(&a, &b);
                End::Nothing
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
        self.count += 1;
        let at = self.now() + length_ms * 1_000_000;
        self.ends.insert((at, self.count), (kind, end));
    }

    fn end(&mut self, kind: Kind, end: End) {
        let cluster = self.cluster;
        tracing::debug!(?kind, ?end, "fault ends");
        match end {
            End::StartMetas(members) => {
                for member in members {
                    self.metas[member] -= 1;
                    cluster.start_meta(member);
                }
            }
            End::ResumeMeta(member) => {
                self.metas[member] -= 1;
                cluster.meta[member].resume();
            }
            End::SoundMeta(member) => {
                let disk = cluster.meta[member].disk();
                disk.set_hung(false);
                disk.set_capacity(META_ROOM);
                disk.set_faults(DiskFaults::default());
                if kind == Kind::MetaDiskError {
                    let at = self.now() + MENDED_MS * 1_000_000;
                    self.count += 1;
                    let restart = (kind, End::RestartMeta(member));
                    self.ends.insert((at, self.count), restart);
                    return;
                }
                self.metas[member] -= 1;
            }
            End::RestartMeta(member) => {
                self.metas[member] -= 1;
                cluster.start_meta(member);
            }
            End::Rejoin(member) => {
                self.metas[member] -= 1;
                let name = cluster.meta[member].name();
                for other in self.all_nodes() {
                    if other != name {
                        cluster.world.net().heal_between(&name, &other);
                    }
                }
            }
            End::Coordinator => {
                if let Some(service) = &cluster.coordinator {
                    service.resume();
                    service.set_faults(CoordinatorFaults::none());
                }
            }
            End::StartClient(client) => cluster.start_client(client),
            End::ResumeClient(client) => cluster.clients[client].resume(),
            End::Heal(a, b) => cluster.world.net().heal_between(&a, &b),
            End::Pace(a, b) => cluster.world.net().clear_pace(&a, &b),
            End::StartData(pair, member) => cluster.start_data(pair, member),
            End::ResumeData(pair, member) => cluster.data[pair][member].resume(),
            End::Reconnect(name) => {
                for other in self.servers() {
                    if other != name {
                        cluster.world.net().heal_between(&name, &other);
                    }
                }
                for client in &cluster.clients {
                    cluster.world.net().heal_between(&name, &client.name());
                }
            }
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
            }
            End::Thaw(pair, member) => {
                cluster.data[pair][member].disk().set_hung(false);
                self.pairs[pair].disks -= 1;
            }
            End::Nothing => {}
        }
        cluster.shared.coverage.end(kind.name());
        cluster.look();
    }

    /// A metadata server: half of the time the one that leads.
    fn any_meta(&mut self) -> usize {
        let count = self.cluster.meta.len();
        if count == 1 {
            return 0;
        }
        let any = self.rng.below(count as u64) as usize;
        let active = self.cluster.active();
        active.filter(|_| self.rng.once_in(2)).unwrap_or(any)
    }

    /// Whether these may be away now, too, for so long.
    fn may_spare(&mut self, kind: Kind, members: &[usize], length_ms: u64) -> bool {
        let count = self.metas.len();
        let is_left = |member: &usize| !members.contains(member) && self.metas[*member] == 0;
        let left = (0..count).filter(is_left).count();
        if count == 1 || left >= count.div_ceil(2) {
            return true;
        }
        let now = self.now();
        let is_drawn = kind == Kind::MetaMany || self.rng.once_in(MINORITY_ONCE_IN);
        if !is_drawn || now < self.minority_until + MAJORITY_FOR {
            return false;
        }
        self.minority_until = now + length_ms * 1_000_000;
        true
    }

    /// A fault of metadata servers or what they need; none if there is no fit one now.
    fn begin_on_meta(&mut self, kind: Kind, length_ms: u64) -> Option<End> {
        let cluster = self.cluster;
        if kind == Kind::Coordinator {
            let service = cluster.coordinator.as_ref()?;
            if self.rng.once_in(2) {
                service.stop();
            } else {
                let mut chance = || 1 << self.rng.within(10..19);
                service.set_faults(CoordinatorFaults {
                    lose_request: chance(),
                    late_request: chance(),
                    lose_answer: chance(),
                    lose_wake: chance(),
                    ..CoordinatorFaults::none()
                });
            }
            return Some(End::Coordinator);
        }
        let first = self.any_meta();
        let mut members = vec![first];
        if kind == Kind::MetaMany {
            let (count, more) = (cluster.meta.len(), self.rng.below(cluster.meta.len() as u64));
            members.extend((1..=more as usize).map(|next| (first + next) % count));
            members.dedup();
        }
        let node = |member: &usize| &cluster.meta[*member];
        members.retain(|member| node(member).is_running() && !node(member).is_paused());
        if members.is_empty() || !self.may_spare(kind, &members, length_ms) {
            return None;
        }
        let only = node(members.first()?);
        let end = match kind {
            Kind::MetaKill | Kind::MetaPower | Kind::MetaMany => {
                let is_power = kind == Kind::MetaPower
                    || (kind == Kind::MetaMany && self.rng.once_in(2));
                for member in &members {
                    cluster.stop_meta(*member, is_power);
                }
                End::StartMetas(members.clone())
            }
            Kind::MetaWipe => {
                cluster.stop_meta(members[0], true);
                cluster.wipe_meta(members[0]);
                End::StartMetas(members.clone())
            }
            Kind::MetaPause => {
                only.pause();
                End::ResumeMeta(members[0])
            }
            Kind::MetaCut => {
                self.cut_off(&only.name());
                End::Rejoin(members[0])
            }
            Kind::MetaFull => {
                let room = self.rng.below(100_000);
                only.disk().set_capacity(only.disk().used() + room);
                End::SoundMeta(members[0])
            }
            Kind::MetaDiskError => {
                let mut chance = || 1 << self.rng.within(6..17);
                only.disk().set_faults(DiskFaults {
                    read_error_ppm: chance(),
                    write_error_ppm: chance(),
                    sync_error_ppm: chance(),
                    ..DiskFaults::default()
                });
                End::SoundMeta(members[0])
            }
            Kind::MetaHang => {
                only.disk().set_hung(true);
                End::SoundMeta(members[0])
            }
            Kind::MetaSlowDisk => {
                let slow = self.rng.within(1_000_000..300_000_000);
                only.disk().set_faults(DiskFaults {
                    sync_nanos: slow / 2..slow,
                    ..DiskFaults::default()
                });
                End::SoundMeta(members[0])
            }
            _ => return None,
        };
        for member in members {
            self.metas[member] += 1;
        }
        Some(end)
    }

    /// Cuts a metadata server off: from all, from the other members, from everybody else, or in one
    /// direction.
    fn cut_off(&mut self, name: &str) {
        let net = self.cluster.world.net();
        let is_meta = |other: &str| other.starts_with("meta");
        let others: Vec<String> = self
            .all_nodes()
            .into_iter()
            .filter(|other| other != name)
            .collect();
        let manner = self.rng.below(5);
        for other in others {
            match manner {
                0 => net.cut(name, &other),
                1 if is_meta(&other) => net.cut(name, &other),
                2 if !is_meta(&other) => net.cut(name, &other),
                3 if is_meta(&other) => net.cut_one_way(name, &other),
                4 if is_meta(&other) => net.cut_one_way(&other, name),
                _ => {}
            }
        }
    }

    /// A fault of a data server or its disk; none if there is no fit one now.
    fn begin_on_data(&mut self, kind: Kind) -> Option<End> {
        let cluster = self.cluster;
        let pair = self.rng.below(cluster.data.len() as u64) as usize;
        let any = self.rng.below(2) as usize;
        let trouble = &self.pairs[pair];
        let takes_data = matches!(
            kind,
            Kind::DataPower | Kind::Wipe | Kind::BitFlip | Kind::DiskError
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
                    node.disk().make_durable_dir("/srv/data");
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
                let mut chance = || 1 << self.rng.within(6..17);
                node.disk().set_faults(DiskFaults {
                    read_error_ppm: chance(),
                    write_error_ppm: chance(),
                    sync_error_ppm: chance(),
                    ..DiskFaults::default()
                });
                self.pairs[pair].disks += 1;
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
                let (path, offset) = node.disk().flip_bit("/srv/data", objects)?;
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

    fn servers(&self) -> Vec<String> {
        let data = self.cluster.data.iter().flatten();
        let metas = self.cluster.meta.iter();
        metas.chain(data).map(|node| node.name()).collect()
    }

    fn all_nodes(&self) -> Vec<String> {
        let mut all = self.servers();
        all.extend(self.cluster.clients.iter().map(|node| node.name()));
        all
    }

    fn any_server(&mut self) -> String {
        let servers = self.servers();
        servers[self.rng.below(servers.len() as u64) as usize].clone()
    }

    fn any_node(&mut self) -> String {
        let all = self.all_nodes();
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
