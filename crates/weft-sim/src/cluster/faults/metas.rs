//! Faults of metadata servers, and of the coordinator that several of them have.
//!
//! Of several, half of the faults hit the one that leads. Mostly enough are left to elect another one; where
//! not, they are there again a few seconds later. A disk that loses what it held belongs to one of a whole
//! group only.

use super::Kind;
use crate::cluster::builder::Cluster;
use crate::cluster::orders;
use crate::rng::Rng;
use crate::{CoordinatorFaults, Disk, DiskFaults};

/// An election quorum is not taken away again before there was one for this long.
const QUORUM_FOR: u64 = 8_000_000_000;
/// One fault in so many may take it away.
const NO_QUORUM_ONCE_IN: u64 = 4;
/// A disk has this much room.
const ROOM: u64 = 1 << 40;
/// An operator starts a server with a failed disk again so long after the disk has been mended.
const MENDED_NANOS: u64 = 100_000_000;
/// Whoever led and was killed for that is started again within this time: the next one is killed soon.
const ACTIVE_AWAY_MS: u64 = 500;

/// What ends a fault.
#[derive(Clone, Debug)]
pub(super) enum End {
    Start(Vec<usize>),
    /// An operator lets an empty disk take the place of the one that is lost.
    Replace(usize),
    Resume(usize),
    Rejoin(usize),
    Room(usize),
    Thaw(usize),
    Pace(usize),
    Mend(usize),
    Coordinator,
}

/// The metadata servers, as far as faults are concerned.
pub(super) struct Metas {
    /// Faults in force at each.
    faults: Vec<u32>,
    /// Too few of some group are left to elect one until then.
    no_quorum_until: u64,
}

impl Metas {
    pub(super) fn new(cluster: &Cluster) -> Metas {
        Metas {
            faults: vec![0; cluster.meta.len()],
            no_quorum_until: 0,
        }
    }

    /// A fault, with what ends it and after how many milliseconds; none if there is no fit one now.
    /// `length_ms`: what was drawn for that.
    pub(super) async fn begin(
        &mut self,
        cluster: &Cluster,
        rng: &mut Rng,
        kind: Kind,
        length_ms: u64,
    ) -> Option<(End, u64)> {
        if kind == Kind::Coordinator {
            disturb_coordinator(cluster, rng)?;
            return Some((End::Coordinator, length_ms));
        }
        let takes_data = matches!(kind, Kind::MetaWipe | Kind::MetaDiskError);
        let is_free = self.faults.iter().all(|faults| *faults == 0);
        if takes_data && !(is_free && cluster.members_are_whole().await) {
            return None;
        }
        let length_ms = match kind {
            Kind::ActiveKill => length_ms.min(ACTIVE_AWAY_MS),
            _ => length_ms,
        };
        let members = choose(cluster, rng, kind);
        let until = cluster.shared.clock.now() + length_ms * 1_000_000;
        if members.is_empty() || !self.may_spare(cluster, rng, kind, &members, until) {
            return None;
        }
        let end = strike(cluster, rng, kind, &members)?;
        for member in members {
            self.faults[member] += 1;
        }
        Some((end, length_ms))
    }

    /// Ends a fault, or says what is left to be done of that and when.
    pub(super) async fn end(&mut self, cluster: &Cluster, end: End) -> Option<(End, u64)> {
        let disk = |member: usize| cluster.meta[member].disk();
        let over = match end {
            End::Start(members) => {
                for member in members {
                    self.faults[member] -= 1;
                    cluster.start_meta(member);
                }
                return None;
            }
            End::Replace(member) => {
                if let Err(why) = orders::vacate(cluster, member).await {
                    tracing::info!(member, why, "its place cannot be vacated yet");
                    cluster.world.sleep(orders::AGAIN).await;
                    return Some((end, cluster.shared.clock.now()));
                }
                self.faults[member] -= 1;
                cluster.start_meta(member);
                return None;
            }
            End::Mend(member) => {
                disk(member).set_faults(DiskFaults::default());
                let at = cluster.shared.clock.now() + MENDED_NANOS;
                return Some((End::Start(vec![member]), at));
            }
            End::Coordinator => {
                if let Some(service) = &cluster.coordinator {
                    service.resume();
                    service.set_faults(CoordinatorFaults::none());
                }
                return None;
            }
            End::Resume(member) => {
                cluster.meta[member].resume();
                member
            }
            End::Rejoin(member) => {
                super::rejoin(cluster, &cluster.meta[member].name());
                member
            }
            End::Room(member) => {
                disk(member).set_capacity(ROOM);
                member
            }
            End::Thaw(member) => {
                disk(member).set_hung(false);
                member
            }
            End::Pace(member) => {
                disk(member).set_faults(DiskFaults::default());
                member
            }
        };
        self.faults[over] -= 1;
        None
    }

    /// Whether these may be away until then, too.
    fn may_spare(
        &mut self,
        cluster: &Cluster,
        rng: &mut Rng,
        kind: Kind,
        members: &[usize],
        until: u64,
    ) -> bool {
        let count = cluster.shape.members as usize;
        let is_left = |member: &usize| !members.contains(member) && self.faults[*member] == 0;
        let has_quorum = |group: usize| {
            let left = cluster.members_of(group).filter(is_left).count();
            left >= count - count / 2
        };
        if count == 1 || (0..cluster.groups()).all(has_quorum) {
            return true;
        }
        let is_drawn = kind == Kind::MetaMany || rng.once_in(NO_QUORUM_ONCE_IN);
        if !is_drawn || cluster.shared.clock.now() < self.no_quorum_until + QUORUM_FOR {
            return false;
        }
        self.no_quorum_until = until;
        true
    }
}

/// The metadata servers that a fault is to hit, all of which run.
fn choose(cluster: &Cluster, rng: &mut Rng, kind: Kind) -> Vec<usize> {
    let (groups, count) = (cluster.groups(), cluster.shape.members as usize);
    // With one group nothing is drawn: seeds go on to mean what they did.
    let group = match groups {
        1 => 0,
        _ => rng.below(groups as u64) as usize,
    };
    let base = group * count;
    let first = match count {
        1 => 0,
        _ => {
            let any = rng.below(count as u64) as usize;
            let is_wanted = kind == Kind::ActiveKill || rng.once_in(2);
            match cluster.active(group) {
                Some(active) if is_wanted => active - base,
                None if kind == Kind::ActiveKill => return Vec::new(),
                _ => any,
            }
        }
    };
    let more = match kind {
        Kind::MetaMany => rng.below(count as u64) as usize,
        _ => 0,
    };
    let all = (first..=first + more).map(|member| member % count);
    all.map(|member| base + member)
        .filter(|member| {
            let node = &cluster.meta[*member];
            node.is_running() && !node.is_paused()
        })
        .collect()
}

/// Does it; answers what ends it.
fn strike(cluster: &Cluster, rng: &mut Rng, kind: Kind, members: &[usize]) -> Option<End> {
    let first = *members.first()?;
    let node = &cluster.meta[first];
    match kind {
        Kind::MetaKill | Kind::ActiveKill | Kind::MetaPower | Kind::MetaMany => {
            let is_power = kind == Kind::MetaPower || (kind == Kind::MetaMany && rng.once_in(2));
            for member in members {
                cluster.stop_meta(*member, is_power);
            }
            Some(End::Start(members.to_vec()))
        }
        Kind::MetaWipe => {
            cluster.stop_meta(first, true);
            cluster.wipe_meta(first);
            Some(End::Replace(first))
        }
        Kind::MetaPause => {
            node.pause();
            Some(End::Resume(first))
        }
        Kind::MetaCut => {
            cut_off(cluster, rng, &node.name());
            Some(End::Rejoin(first))
        }
        Kind::MetaFull | Kind::MetaDiskError | Kind::MetaHang | Kind::MetaSlowDisk => {
            Some(strike_disk(node.disk(), rng, kind, first))
        }
        _ => None,
    }
}

fn strike_disk(disk: Disk, rng: &mut Rng, kind: Kind, member: usize) -> End {
    match kind {
        Kind::MetaFull => {
            disk.set_capacity(disk.used() + rng.below(100_000));
            End::Room(member)
        }
        Kind::MetaHang => {
            disk.set_hung(true);
            End::Thaw(member)
        }
        Kind::MetaSlowDisk => {
            let slow = rng.within(1_000_000..300_000_000);
            disk.set_faults(DiskFaults {
                sync_nanos: slow / 2..slow,
                ..DiskFaults::default()
            });
            End::Pace(member)
        }
        _ => {
            disk.set_faults(super::failing(rng));
            End::Mend(member)
        }
    }
}

/// Cuts a metadata server off: from all, from the other members, from everybody else, or from the other
/// members in one direction.
fn cut_off(cluster: &Cluster, rng: &mut Rng, name: &str) {
    let net = cluster.world.net();
    let is_meta = |other: &str| cluster.meta.iter().any(|node| node.name() == other);
    let manner = rng.below(5);
    let others = super::all_nodes(cluster).into_iter();
    for other in others.filter(|other| other != name) {
        match (manner, is_meta(&other)) {
            (0, _) | (1, true) | (2, false) => net.cut(name, &other),
            (3, true) => net.cut_one_way(name, &other),
            (4, true) => net.cut_one_way(&other, name),
            _ => {}
        }
    }
}

/// It is away, or loses requests, answers and news. None: there is none.
fn disturb_coordinator(cluster: &Cluster, rng: &mut Rng) -> Option<()> {
    let service = cluster.coordinator.as_ref()?;
    if rng.once_in(2) {
        service.stop();
    } else {
        let mut chance = || 1 << rng.within(10..19);
        service.set_faults(CoordinatorFaults {
            lose_request: chance(),
            late_request: chance(),
            lose_answer: chance(),
            lose_wake: chance(),
            ..CoordinatorFaults::none()
        });
    }
    Some(())
}
