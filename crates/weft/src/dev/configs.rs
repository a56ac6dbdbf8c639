//! Configuration files of a development cluster's processes, written at each start.

use super::cluster::{Cluster, Name};
use super::{JournalSync, NfsSquash};
use crate::error::{Error, Result, Tried};
use crate::init::of_meta;
use serde::Serialize;
use std::path::{Path, PathBuf};
use weft_env::{Env, private};

/// What the command line chose.
pub struct Chosen {
    /// None: not mounted.
    pub mount_point: Option<PathBuf>,
    /// `journal.sync`
    pub journal_sync: JournalSync,
    /// Whom the gateways do not believe.
    pub nfs_squash: NfsSquash,
}

/// Where the members of a cluster with several metadata servers find each other.
pub fn coordinator(directory: &Path, cluster: &Cluster) -> Option<String> {
    let place = directory.join("coordinator");
    (cluster.meta.len() > 1).then(|| format!("file:{}", place.display()))
}

/// The settings of a metadata server. None: the cluster has no such member.
fn meta_settings(
    directory: &Path,
    cluster: &Cluster,
    chosen: &Chosen,
    (group, member): (u32, u32),
) -> Option<weft_meta::Settings> {
    let name = Name::Meta(group, member);
    let endpoint = cluster.endpoint(name)?;
    let mut settings = weft_meta::Settings {
        dir: name.place(directory).store,
        coordinator: coordinator(directory, cluster).unwrap_or_default(),
        group,
        groups: cluster.groups,
        members: (1..=cluster.members()).collect(),
        listen: endpoint.address.clone(),
        metrics_listen: Some(endpoint.metrics.clone()),
        cluster_id: cluster.id.clone(),
        member,
        // Who starts a cluster for himself can write in it.
        root_uid: rustix::process::geteuid().as_raw(),
        root_gid: rustix::process::getegid().as_raw(),
        ..weft_meta::Settings::default()
    };
    settings.journal.sync = match chosen.journal_sync {
        JournalSync::Always => weft_journal::SyncPolicy::Always,
        JournalSync::Group => weft_journal::SyncPolicy::Group,
        JournalSync::Never => weft_journal::SyncPolicy::Never,
    };
    Some(settings)
}

/// Founds the name space of a cluster that is new.
///
/// # Errors
/// [`Error::Refused`] if there is one in this directory.
pub async fn found(env: &Env, directory: &Path, cluster: &Cluster, chosen: &Chosen) -> Result<()> {
    let settings = meta_settings(directory, cluster, chosen, (0, 1))
        .ok_or_else(|| Error::Usage("a cluster has a metadata server".into()))?;
    let founded = weft_meta::found(env, &settings).await;
    founded.map(drop).map_err(of_meta)
}

/// Whether that was done.
///
/// # Errors
/// If the view cannot be read.
pub async fn is_founded(
    env: &Env,
    directory: &Path,
    cluster: &Cluster,
    chosen: &Chosen,
) -> Result<bool> {
    let settings = meta_settings(directory, cluster, chosen, (0, 1))
        .ok_or_else(|| Error::Usage("a cluster has a metadata server".into()))?;
    weft_meta::is_founded(env, &settings).await.map_err(of_meta)
}

/// Writes the configuration of one process.
///
/// # Errors
/// If the file cannot be written.
pub fn write_config(
    directory: &Path,
    cluster: &Cluster,
    chosen: &Chosen,
    name: Name,
) -> Result<()> {
    let place = name.place(directory);
    let unknown = || Error::Usage(format!("this cluster has no {name}"));
    let text = match name {
        Name::Meta(group, member) => {
            let settings = meta_settings(directory, cluster, chosen, (group, member));
            to_toml(&settings.ok_or_else(unknown)?)?
        }
        Name::Data(pair, member) => {
            let endpoint = cluster.endpoint(name).ok_or_else(unknown)?;
            to_toml(&weft_data::Settings {
                dir: place.store,
                listen: endpoint.address.clone(),
                metrics_listen: endpoint.metrics.clone(),
                cluster_id: cluster.id.clone(),
                meta: cluster.meta_addresses(),
                pair,
                member,
                ..weft_data::Settings::default()
            })?
        }
        Name::Active(_) => return Err(unknown()),
        Name::Nfs(number) => {
            let address = cluster.address(name).ok_or_else(unknown)?;
            let rule = nfs_rule(chosen.nfs_squash);
            let mut settings = weft_nfs::Settings {
                listen: address.to_owned(),
                exports: vec![weft_nfs::ExportSettings {
                    path: "/".into(),
                    id: None,
                    rules: vec![rule],
                }],
                ..weft_nfs::Settings::default()
            };
            settings.client.meta = cluster.meta_addresses();
            settings.client.cluster_id = cluster.id.clone();
            settings.client.name = format!("weft dev: nfs {number}");
            to_toml(&settings)?
        }
        Name::Mount => {
            let point = chosen.mount_point.clone().ok_or_else(unknown)?;
            let mut settings = weft_mount::Settings {
                mountpoint: point,
                metrics_listen: cluster.metrics(name).unwrap_or_default().to_owned(),
                ..weft_mount::Settings::default()
            };
            settings.client.meta = cluster.meta_addresses();
            settings.client.cluster_id = cluster.id.clone();
            settings.client.name = "weft dev".into();
            to_toml(&settings)?
        }
    };
    let text = format!("# Written by `weft dev` at each start of {name}.\n{text}");
    private::write(&place.config, text.as_bytes()).tried_on("cannot write", &place.config)
}

/// This machine's processes only (a gateway listens on the loopback address), from whatever port: that a caller is root of
/// this machine means nothing here, since whoever comes is the user whose cluster it is, unless that was said otherwise.
fn nfs_rule(squash: NfsSquash) -> weft_nfs::Rule {
    let rule = weft_nfs::Rule {
        clients: vec!["127.0.0.0/8".into(), "::1".into()],
        privileged_ports: false,
        ..weft_nfs::Rule::default()
    };
    match squash {
        NfsSquash::All => weft_nfs::Rule {
            squash: weft_nfs::Squash::All,
            anonymous_uid: rustix::process::geteuid().as_raw(),
            anonymous_gid: rustix::process::getegid().as_raw(),
            ..rule
        },
        NfsSquash::Root => weft_nfs::Rule {
            squash: weft_nfs::Squash::Root,
            ..rule
        },
        NfsSquash::None => weft_nfs::Rule {
            squash: weft_nfs::Squash::None,
            ..rule
        },
    }
}

fn to_toml(settings: &impl Serialize) -> Result<String> {
    toml::to_string_pretty(settings)
        .map_err(|error| Error::Failed(format!("cannot write settings down: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateways_of_a_development_cluster_serve_who_started_it() {
        let rule = nfs_rule(NfsSquash::All);
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        assert_eq!(rule.squash, weft_nfs::Squash::All);
        assert_eq!(rule.anonymous_uid, uid.as_raw());
        assert_eq!(rule.anonymous_gid, gid.as_raw());
        for squash in [NfsSquash::All, NfsSquash::Root, NfsSquash::None] {
            let rule = nfs_rule(squash);
            assert_eq!(rule.clients, ["127.0.0.0/8", "::1"]);
        }
    }
}
