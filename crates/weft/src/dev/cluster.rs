//! The directory of a development cluster: what it is made of, chosen once and kept.
//!
//! ```text
//! D/cluster.toml     id, addresses, number of pairs: written once
//! D/lock             held by the running `weft dev`
//! D/control.sock     where `weft dev kill` and the others talk to it
//! D/meta-1.toml      configuration of a server, written at each start (of group 1: meta-1.1.toml)
//! D/meta-1.log       what it logs, appended
//! D/meta-1/          what it keeps
//! D/data-0.0 ...     the same for each data server
//! D/nfs-1.toml ...   the same for each NFS gateway
//! D/mount.toml, D/mount.log, D/mnt
//! ```

use super::ports::Ports;
use crate::error::{Error, Result, Tried};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use weft_env::{Env, private};

/// Most pairs on one machine; each is two processes.
pub const PAIRS_MAX: u32 = 64;
/// Metadata members of a development cluster unless told otherwise: one of them may be killed at any time.
pub const MEMBERS: u32 = 3;
/// Metadata members of each group of a development cluster at most.
pub const MEMBERS_MAX: u32 = 5;
/// Groups of metadata servers of a development cluster at most.
pub const GROUPS_MAX: u32 = 8;
/// NFS gateways of a development cluster at most.
pub const GATEWAYS_MAX: u32 = 16;

/// Version of cluster.toml.
const VERSION: u32 = 1;

/// A process of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Name {
    /// Group and member: `meta:1` of the first group, `meta:1.2` of another.
    Meta(u32, u32),
    /// `active`, `active:1`: whichever metadata member leads the group now.
    Active(u32),
    /// `data:0.1`: pair and member.
    Data(u32, u32),
    /// `nfs:1`: a gateway.
    Nfs(u32),
    /// `mount`
    Mount,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Meta(0, member) => write!(f, "meta:{member}"),
            Name::Meta(group, member) => write!(f, "meta:{group}.{member}"),
            Name::Active(0) => f.write_str("active"),
            Name::Active(group) => write!(f, "active:{group}"),
            Name::Data(pair, member) => write!(f, "data:{pair}.{member}"),
            Name::Nfs(number) => write!(f, "nfs:{number}"),
            Name::Mount => f.write_str("mount"),
        }
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Name, String> {
        let both = |place: &str| {
            let (first, second) = place.split_once('.')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let parsed = match text.split_once(':') {
            None if text == "mount" => Some(Name::Mount),
            None if text == "active" => Some(Name::Active(0)),
            Some(("active", group)) => group.parse().ok().map(Name::Active),
            Some(("meta", place)) => match place.parse() {
                Ok(member) => Some(Name::Meta(0, member)),
                Err(_) => both(place).map(|(group, member)| Name::Meta(group, member)),
            },
            Some(("data", place)) => both(place).map(|(pair, member)| Name::Data(pair, member)),
            Some(("nfs", number)) => number.parse().ok().map(Name::Nfs),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!("no process is called {text:?}: names are meta:MEMBER as in meta:1 (of other groups meta:GROUP.MEMBER), active (active:GROUP), data:PAIR.MEMBER as in data:0.1, nfs:NUMBER as in nfs:1, and mount")
        })
    }
}

/// Where a server listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// For clients and other servers.
    pub address: String,
    /// For Prometheus.
    pub metrics: String,
}

/// What the cluster is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    version: u32,
    /// Clients and servers of another cluster are refused.
    pub id: String,
    /// Where the mount shows its metrics; clusters made by earlier builds have none.
    #[serde(default)]
    mount_metrics: Option<String>,
    /// Groups of metadata servers; clusters made by earlier builds do not say.
    #[serde(default = "one")]
    pub groups: u32,
    /// Metadata members, from 1, group by group.
    pub meta: Vec<Endpoint>,
    /// Pairs, from 0: member 0 and member 1.
    pub data: Vec<[Endpoint; 2]>,
    /// Addresses of NFS gateways, from 1.
    #[serde(default)]
    pub nfs: Vec<String>,
}

fn one() -> u32 {
    1
}

/// How many of what a cluster is made of.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Groups of metadata servers.
    pub groups: u32,
    /// Metadata servers of each.
    pub members: u32,
    /// Pairs of data servers.
    pub pairs: u32,
    /// NFS gateways.
    pub gateways: u32,
}

impl Cluster {
    /// The file of a directory.
    pub fn file(directory: &Path) -> PathBuf {
        directory.join("cluster.toml")
    }

    /// Reads the cluster of a directory; None if there is none.
    ///
    /// # Errors
    /// If the file cannot be read or understood.
    pub fn load(directory: &Path) -> Result<Option<Cluster>> {
        let path = Cluster::file(directory);
        if !path.exists() {
            return Ok(None);
        }
        let cluster: Cluster = crate::config::load(&path)?;
        if cluster.version != VERSION {
            return Err(Error::Usage(format!(
                "{} has version {}; this build knows version {VERSION}",
                path.display(),
                cluster.version
            )));
        }
        Ok(Some(cluster))
    }

    /// A new cluster: draws ports and an id.
    ///
    /// # Errors
    /// If no ports are free.
    pub fn draw(env: &Env, counts: Counts, ports: &mut Ports) -> Result<Cluster> {
        let mut address = || ports.draw(env);
        let mut endpoint = || {
            Ok::<_, Error>(Endpoint {
                address: address()?,
                metrics: address()?,
            })
        };
        let meta = (0..counts.groups * counts.members)
            .map(|_| endpoint())
            .collect::<Result<Vec<_>>>()?;
        let data = (0..counts.pairs)
            .map(|_| Ok([endpoint()?, endpoint()?]))
            .collect::<Result<Vec<_>>>()?;
        let mount_metrics = Some(address()?);
        let nfs: Result<Vec<String>> = (0..counts.gateways).map(|_| address()).collect();
        Ok(Cluster {
            version: VERSION,
            id: format!("{:016x}", env.random()),
            mount_metrics,
            groups: counts.groups,
            meta,
            data,
            nfs: nfs?,
        })
    }

    /// Writes it down.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<()> {
        self.draft(directory)?;
        self.keep(directory)
    }

    /// Writes down what [`Cluster::keep`] makes the directory's cluster.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draft(&self, directory: &Path) -> Result<()> {
        let text = toml::to_string_pretty(self)
            .map_err(|error| Error::Failed(format!("cannot write down the cluster: {error}")))?;
        let draft = Cluster::draft_file(directory);
        private::write(&draft, text.as_bytes()).tried_on("cannot write", &draft)
    }

    /// # Errors
    /// If the file cannot be renamed.
    pub fn keep(&self, directory: &Path) -> Result<()> {
        let path = Cluster::file(directory);
        fs::rename(Cluster::draft_file(directory), &path).tried_on("cannot write", &path)
    }

    fn draft_file(directory: &Path) -> PathBuf {
        directory.join("cluster.toml.new")
    }

    /// What was written down and not kept. None: nothing that can be read.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn drawn(directory: &Path) -> Result<Option<Cluster>> {
        let draft = Cluster::draft_file(directory);
        match draft.exists() {
            true => Ok(crate::config::load(&draft).ok()),
            false => Ok(None),
        }
    }

    /// Has so many NFS gateways from now on. Those that stay keep their addresses.
    ///
    /// # Errors
    /// If no ports are free or the file cannot be written.
    pub fn set_gateways(
        &mut self,
        env: &Env,
        directory: &Path,
        count: u32,
        ports: &mut Ports,
    ) -> Result<()> {
        let before = self.nfs.len();
        self.nfs.truncate(count as usize);
        while self.nfs.len() < count as usize {
            self.nfs.push(ports.draw(env)?);
        }
        match self.nfs.len() == before {
            true => Ok(()),
            false => self.save(directory),
        }
    }

    /// The servers in the order in which they are started; the mount is not among them.
    pub fn servers(&self) -> Vec<Name> {
        let members = self.members();
        let meta = (0..self.groups)
            .flat_map(|group| (1..=members).map(move |member| Name::Meta(group, member)));
        let data =
            (0..self.data.len() as u32).flat_map(|pair| [Name::Data(pair, 0), Name::Data(pair, 1)]);
        let nfs = (1..=self.nfs.len() as u32).map(Name::Nfs);
        meta.chain(data).chain(nfs).collect()
    }

    /// Where a server listens; None for the mount and for servers that are not of this cluster.
    pub fn endpoint(&self, name: Name) -> Option<&Endpoint> {
        match name {
            Name::Meta(group, member) => {
                let members = self.members();
                let is_there = group < self.groups && (1..=members).contains(&member);
                let at = (group * members + member).checked_sub(1)?;
                self.meta.get(at as usize).filter(|_| is_there)
            }
            Name::Data(pair, member) => self.data.get(pair as usize)?.get(member as usize),
            Name::Active(_) | Name::Nfs(_) | Name::Mount => None,
        }
    }

    /// Where a process can be reached.
    pub fn address(&self, name: Name) -> Option<&str> {
        match name {
            Name::Nfs(number) => {
                let at = (number as usize).checked_sub(1)?;
                self.nfs.get(at).map(String::as_str)
            }
            _ => self.endpoint(name).map(|one| one.address.as_str()),
        }
    }

    /// Where a process shows its metrics.
    pub fn metrics(&self, name: Name) -> Option<&str> {
        match name {
            Name::Mount => self.mount_metrics.as_deref(),
            _ => self.endpoint(name).map(|one| one.metrics.as_str()),
        }
    }

    /// Claims the ports of a cluster that was made in an earlier run.
    ///
    /// # Errors
    /// If another cluster that runs has one of them.
    pub fn take_back(&self, ports: &mut Ports) -> Result<()> {
        let servers = self.meta.iter().chain(self.data.iter().flatten());
        servers
            .flat_map(|one| [&one.address, &one.metrics])
            .chain(&self.mount_metrics)
            .chain(&self.nfs)
            .try_for_each(|address| ports.take_back(address))
    }

    /// Metadata servers of each group.
    pub fn members(&self) -> u32 {
        self.meta.len() as u32 / self.groups.max(1)
    }

    /// Addresses of all metadata members.
    pub fn meta_addresses(&self) -> Vec<String> {
        self.meta.iter().map(|one| one.address.clone()).collect()
    }
}

/// Files of one process in the cluster's directory.
pub struct Place {
    /// Its configuration.
    pub config: PathBuf,
    /// What it logs.
    pub log: PathBuf,
    /// What it keeps.
    pub store: PathBuf,
}

impl Name {
    /// Where the process has its files.
    pub fn place(self, directory: &Path) -> Place {
        let stem = self.to_string().replace(':', "-");
        Place {
            config: directory.join(format!("{stem}.toml")),
            log: directory.join(format!("{stem}.log")),
            store: directory.join(stem),
        }
    }

    /// The subcommand of `weft` that runs it.
    pub fn subcommand(self) -> &'static str {
        match self {
            Name::Meta(..) | Name::Active(_) => "meta",
            Name::Data(..) => "data",
            Name::Nfs(_) => "nfs",
            Name::Mount => "mount",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for name in [
            Name::Meta(0, 1),
            Name::Meta(2, 3),
            Name::Active(0),
            Name::Active(1),
            Name::Data(12, 1),
            Name::Nfs(2),
            Name::Mount,
        ] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for wrong in [
            "", "data", "data:1", "data:x.0", "meta:", "meta:1.", "active:x", "mount:1",
            "disk:0.0", "nfs", "nfs:x",
        ] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong:?}");
        }
    }
}
