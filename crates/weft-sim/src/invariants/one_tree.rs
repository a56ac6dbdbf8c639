//! The name space of all groups is one tree: every name has its inode, every inode its names
//! (`docs/protocols/fsck.md`). What `weft fsck --meta` asks is asked here in the same way.

use crate::cluster::builder::{CLUSTER, Cluster};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Env;
use weft_fsck::{Ask, Finding, Report, Terms};
use weft_rpc::{Connection, Handler, Local, Payload};
use weft_types::GroupId;
use weft_wire::proto::{Identity, identity::Role};
use weft_wire::{Failed, Rpc};

/// An active that does not answer by then is away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two checks while clients work.
const PAUSE: Duration = Duration::from_millis(300);

/// The actives of a cluster's groups.
pub(crate) struct Actives<'a> {
    env: Env,
    cluster: &'a Cluster,
    connections: RefCell<BTreeMap<GroupId, Connection>>,
}

impl Actives<'_> {
    /// Those of `cluster`, asked from a node of this name.
    pub(crate) fn of<'a>(cluster: &'a Cluster, from: &str) -> Actives<'a> {
        Actives {
            env: cluster.world.node(from).env(),
            cluster,
            connections: RefCell::default(),
        }
    }

    /// Nothing more is asked.
    pub(crate) fn close(self) {
        for connection in self.connections.into_inner().values() {
            connection.close("all has been asked");
        }
    }

    async fn connection(&self, group: GroupId) -> Result<Connection, String> {
        let known = self.connections.borrow().get(&group).cloned();
        if let Some(known) = known.filter(Connection::is_open) {
            return Ok(known);
        }
        let local = Local::new(
            CLUSTER.into(),
            Identity {
                role: Role::Tool as i32,
                id: 0,
                incarnation: 1,
                group: group.0,
            },
        );
        let refuse: Handler = Rc::new(|_, request| {
            let why = "a check answers nothing".into();
            request.replier.fail(Failed::Refused(why));
        });
        let active = self.cluster.active_address_of(group.0 as usize);
        let active = active.ok_or_else(|| format!("nobody leads group {group}"))?;
        let connecting = weft_rpc::connect(&self.env, &active, &local, refuse);
        let connection = self.env.timeout(PATIENCE, connecting).await;
        let connection = connection
            .map_err(|_| format!("group {group} does not answer"))?
            .map_err(|error| format!("group {group}: {error}"))?;
        self.connections
            .borrow_mut()
            .insert(group, connection.clone());
        Ok(connection)
    }
}

impl Ask for Actives<'_> {
    type Error = String;

    async fn ask<R: Rpc>(&self, group: GroupId, request: &R) -> Result<R::Reply, String> {
        let connection = self.connection(group).await?;
        let call = connection.call(request, Payload::none());
        let why = match self.env.timeout(PATIENCE, call).await {
            Ok(Ok((reply, _))) => return Ok(reply),
            Ok(Err(error)) => format!("group {group}, {}: {error}", R::NAME),
            Err(_) => format!("group {group} does not answer {}", R::NAME),
        };
        connection.close("no answer");
        Err(why)
    }
}

async fn checked(cluster: &Cluster) -> Result<Report, String> {
    let actives = Actives::of(cluster, "checker");
    let groups: Vec<GroupId> = (0..cluster.groups())
        .map(|group| GroupId(group as u32))
        .collect();
    let report = weft_fsck::check(&actives.env, &actives, &groups, &Terms::default()).await;
    actives.close();
    report
}

fn in_words(wrong: &[Finding]) -> String {
    let words: Vec<String> = wrong.iter().map(Finding::to_string).collect();
    format!("the name space is not one tree: {}", words.join("; "))
}

/// Checks a cluster that is at rest.
///
/// # Errors
/// What is wrong, or could not be decided although nothing changes.
pub async fn check(cluster: &Cluster) -> Result<(), String> {
    let report = checked(cluster).await?;
    if !report.wrong.is_empty() {
        return Err(in_words(&report.wrong));
    }
    match report.is_sound() && report.is_complete() {
        true => Ok(()),
        false => Err(format!("the name space is not at rest: {report:?}")),
    }
}

/// Checks it again and again while clients work, until they are done or `until` has come. A group may be away now and then.
///
/// # Errors
/// What is wrong.
pub async fn while_clients_work(cluster: &Cluster, until: Duration) -> Result<(), String> {
    while !cluster.clients_are_done() && cluster.world.now() < until {
        match checked(cluster).await {
            Ok(report) if !report.wrong.is_empty() => return Err(in_words(&report.wrong)),
            Ok(report) => tracing::info!(
                inodes = report.inodes,
                suspects = report.suspects,
                undecided = report.undecided.len(),
                "the name space was checked"
            ),
            Err(why) => tracing::info!(why, "the name space could not be checked"),
        }
        cluster.world.sleep(PAUSE).await;
    }
    Ok(())
}
