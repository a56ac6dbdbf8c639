//! The metadata servers of a cluster: started, stopped and looked at from outside.

use super::{CLUSTER, Cluster, Slot, stop};
use crate::Node;
use crate::cluster::orders;
use crate::invariants::no_two_lead::MemberStance;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use weft_types::{ObjectId, PairId, Sn};
use weft_wire::proto::group_member::Role;

/// Where each keeps what it has.
pub(super) const DIR: &str = "/srv/meta";
/// They are all the same within this time after the last fault.
const SAME_WITHIN: Duration = Duration::from_secs(60);

impl Cluster {
    fn meta_settings(&self, member: usize) -> weft_meta::Settings {
        let settings = weft_meta::Settings {
            dir: DIR.into(),
            listen: self.meta_address(member),
            cluster_id: CLUSTER.into(),
            session_term_ms: self.shape.session_term.as_millis() as u64,
            ..self.shape.meta.clone()
        };
        let members = self.shape.members;
        match self.meta.len() {
            1 => settings,
            _ => weft_meta::Settings {
                group: self.group_of(member) as u32,
                groups: self.shape.groups,
                member: member as u32 % members + 1,
                members: (1..=members).collect(),
                coordinator: "the simulated one".into(),
                ..settings
            },
        }
    }

    /// How many replica groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.shape.groups as usize
    }

    /// The group of a metadata server.
    pub(crate) fn group_of(&self, member: usize) -> usize {
        member / self.shape.members as usize
    }

    /// The metadata servers of a group.
    pub(crate) fn members_of(&self, group: usize) -> Range<usize> {
        let members = self.shape.members as usize;
        group * members..(group + 1) * members
    }

    fn meta_address(&self, member: usize) -> String {
        format!("{}:7400", self.meta[member].name())
    }

    /// Where the metadata servers listen, beginning with one that differs from reader to reader.
    pub(in crate::cluster) fn meta_addresses(&self, first: usize) -> Vec<String> {
        let count = self.meta.len();
        (0..count)
            .map(|number| self.meta_address((first + number) % count))
            .collect()
    }

    /// Where whoever leads the first group listens. None: nobody does.
    pub(in crate::cluster) fn active_address(&self) -> Option<String> {
        // Of one alone all know where it is.
        let only = self.coordinator.is_none().then_some(0);
        only.or_else(|| self.active(0))
            .map(|member| self.meta_address(member))
    }

    /// The same for any group, of several.
    pub(crate) fn active_address_of(&self, group: usize) -> Option<String> {
        let active = self.active(group)?;
        Some(self.meta_address(active))
    }

    /// Founds the name space, as an operator does before any server runs.
    pub(super) async fn found(&self) -> Result<(), String> {
        let settings = self.meta_settings(0);
        let founded = match &self.coordinator {
            None => weft_meta::found(&self.meta[0].env(), &settings).await,
            Some(service) => {
                let env = self.world.node("admin").env();
                let coordinator = Rc::new(service.open(&env));
                weft_meta::found_with(&env, &settings, coordinator).await
            }
        };
        founded.map(drop).map_err(|error| error.to_string())
    }

    /// Starts (or starts again) a metadata server.
    pub fn start_meta(&self, member: usize) {
        let settings = self.meta_settings(member);
        let slot = self.meta_servers[member].clone();
        let exits = self.exits.clone();
        let node = &self.meta[member];
        if node.is_running() {
            self.stop_meta(member, false);
        }
        let (watch, clock) = (self.watch.clone(), self.shared.clock.clone());
        // One of several may have less on its disk than the others have committed, and more.
        let is_judged = self.coordinator.is_none() && self.has_begun.replace(true);
        let (coordinator, name) = (self.coordinator.clone(), node.name());
        node.start(|env| async move {
            if is_judged {
                let found = weft_meta::on_disk(&env, &settings).await;
                let found = found.map_err(|error| error.to_string());
                watch.recovered(clock.now() as f64 / 1e9, 0, found);
            }
            let started = match coordinator {
                None => weft_meta::start(env, settings).await,
                Some(service) => {
                    let coordinator = Rc::new(service.open(&env));
                    weft_meta::start_with(env, settings, coordinator).await
                }
            };
            match started {
                Ok(server) => {
                    slot.replace(Some(server));
                }
                Err(error) => exits.borrow_mut().push((name, error.to_string())),
            }
        });
    }

    /// Kills a metadata server, or cuts its machine's power.
    pub fn stop_meta(&self, member: usize, power: bool) {
        stop(&self.meta[member], power);
        // Only now, when nothing that its destructors do has an effect.
        self.meta_servers[member].take();
    }

    /// A metadata server's machine gets another disk, with nothing on it. It does not run.
    pub fn wipe_meta(&self, member: usize) {
        let disk = self.meta[member].disk();
        disk.wipe();
        disk.make_durable_dir(DIR);
    }

    /// Has an empty disk take the place of a lost one, as an operator does, and starts the server: when somebody leads its
    /// group.
    pub async fn replace_meta(&self, member: usize) {
        while let Err(why) = orders::vacate(self, member).await {
            tracing::info!(member, why, "its place cannot be vacated yet");
            self.world.sleep(Duration::from_millis(100)).await;
        }
        self.start_meta(member);
    }

    /// Starts all metadata servers.
    pub fn start_metas(&self) {
        (0..self.meta.len()).for_each(|member| self.start_meta(member));
    }

    /// The metadata server of a group that leads and answers, if one does. One that stands still may believe
    /// so.
    pub fn active(&self, group: usize) -> Option<usize> {
        self.members_of(group).find(|member| {
            let server = self.meta_servers[*member].borrow();
            server.as_ref().is_some_and(weft_meta::Server::leads)
        })
    }

    /// Looks at the metadata server that leads a group, if one does.
    pub(super) fn at_active<T>(
        &self,
        group: usize,
        look: impl FnOnce(&weft_meta::Server) -> T,
    ) -> Option<T> {
        let server = self.meta_servers[self.active(group)?].borrow();
        server.as_ref().map(look)
    }

    /// Has whoever leads a group refuse some changes from now on, or none.
    pub(in crate::cluster) fn refuse_changes(&self, refusals: Option<weft_meta::Refusals>) {
        for server in &self.meta_servers {
            if let Some(server) = &*server.borrow() {
                server.set_refusals(refusals.clone());
            }
        }
    }

    /// What each metadata server of a group that runs says of itself.
    pub(crate) fn stances(&self, group: usize) -> Vec<MemberStance> {
        let of = |(member, server): (usize, &Slot<weft_meta::Server>)| {
            let server = server.borrow();
            let server = server.as_ref()?;
            Some(MemberStance {
                member,
                leads: server.leads(),
                epoch: server.reigns_in(),
                committed: server.committed(),
            })
        };
        let servers = self.members_of(group);
        let servers = servers.map(|member| (member, &self.meta_servers[member]));
        servers.filter_map(of).collect()
    }

    /// True while a metadata server of each group serves.
    pub fn meta_serves(&self) -> bool {
        let serves = |group: usize| {
            self.active(group).is_some_and(|member| {
                let node = &self.meta[member];
                node.is_running() && !node.is_paused()
            })
        };
        (0..self.groups()).all(serves)
    }

    /// All metadata servers run, each is a voter of its group, each has on its disk what it is to have there,
    /// and all of a group have the same name space.
    pub async fn members_are_whole(&self) -> bool {
        let Some(service) = &self.coordinator else {
            return self.meta_serves();
        };
        let coordinator = service.open(&self.world.env());
        let Ok(view) = weft_coordinator::Coordinator::view(&coordinator).await else {
            return false;
        };
        let roles = view.groups.iter().flat_map(|group| &group.members);
        let voters = roles.filter(|member| matches!(member.role(), Role::Active | Role::Standby));
        let (voters, members) = (voters.count(), self.meta.len());
        let is_same = |group: usize| {
            let mut replicas = self.members_of(group).map(|member| self.replica(member));
            let first = replicas.next().flatten();
            first.is_some() && replicas.all(|replica| replica == first)
        };
        voters == members
            && self.meta_serves()
            && (0..members).all(|member| self.disk_is_whole(member))
            && (0..self.groups()).all(is_same)
    }

    /// The last batch that a metadata server knows to be committed. None while it does not run, or is between
    /// two lives.
    pub(crate) fn committed(&self, member: usize) -> Option<Sn> {
        let server = self.meta_servers[member].borrow();
        let committed = server.as_ref().map(weft_meta::Server::committed);
        committed.filter(|sn| *sn > Sn(0))
    }

    /// That batch, and the digest of the name space after it. None also while it has applied more, or less.
    pub(crate) fn replica(&self, member: usize) -> Option<(Sn, u128)> {
        let server = self.meta_servers[member].borrow();
        server.as_ref().and_then(weft_meta::Server::replica)
    }

    /// See [`weft_meta::Server::removed_pairs`]; none while no metadata server leads, too.
    pub fn removed_pairs(&self) -> Option<Vec<usize>> {
        let removed = self.at_active(0, weft_meta::Server::removed_pairs)??;
        Some(
            removed
                .into_iter()
                .map(|(pair, _)| pair.0 as usize)
                .collect(),
        )
    }

    /// The member that served a removed pair last, and has dropped all that was there.
    pub fn served_last(&self, pair: usize) -> Option<usize> {
        let removed = self.at_active(0, weft_meta::Server::removed_pairs)??;
        let of = removed
            .into_iter()
            .find(|(removed, _)| removed.0 as usize == pair)?;
        Some(of.1?.index())
    }

    /// See [`weft_meta::Server::names_object`]; none while no metadata server leads, too.
    pub fn names_object(&self, pair: usize, object: ObjectId) -> Option<bool> {
        // A slot may have moved, and what is to be dropped stays where it was.
        let mut is_named = false;
        for group in 0..self.groups() {
            is_named |= self.at_active(group, |server| {
                server.names_object(PairId(pair as u32), object)
            })??;
        }
        Some(is_named)
    }

    /// Its disk has all that it must have; false while it does not run, too.
    fn disk_is_whole(&self, member: usize) -> bool {
        let server = self.meta_servers[member].borrow();
        server
            .as_ref()
            .is_some_and(|server| server.is_intact() && server.has_stored_all())
    }

    /// Waits until all metadata servers are voters with one name space.
    ///
    /// # Errors
    /// If they do not come to that in bounded time.
    pub async fn members_become_whole(&self) -> Result<(), String> {
        let until = self.world.now() + SAME_WITHIN;
        while !self.members_are_whole().await {
            if self.world.now() > until {
                return Err(format!(
                    "the metadata servers do not become the same: {}",
                    self.describe_members()
                ));
            }
            self.world.sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Compares what the journals of the metadata servers hold, none of which runs.
    ///
    /// # Errors
    /// The first that differs from what ran.
    pub async fn compare_disks(&self) -> Result<(), String> {
        for (member, node) in self.meta.iter().enumerate() {
            let settings = self.meta_settings(member);
            let found = weft_meta::on_disk(&node.env(), &settings).await;
            let found = found.map_err(|error| format!("{}: {error}", node.name()));
            let seconds = self.world.now().as_secs_f64();
            self.watch.recovered(seconds, self.group_of(member), found);
        }
        self.verdict()
    }

    /// What each metadata server is doing, for reports.
    pub fn describe_members(&self) -> String {
        let of = |(member, node): (usize, &Node)| {
            let server = self.meta_servers[member].borrow();
            let described = server.as_ref().map(weft_meta::Server::describe);
            format!("{}: {described:?}, {:?}", node.name(), self.replica(member))
        };
        let all: Vec<String> = self.meta.iter().enumerate().map(of).collect();
        all.join("; ")
    }
}
