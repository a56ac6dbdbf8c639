//! A replica group on the test bed, every member in a network name space of its own, so that the link of one can
//! be cut: to the others it is as if it were not there, and none of its connections ends.

use super::Sync;
use crate::run::Outcome;
use crate::testbed::{Bed, Way};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The name of the cluster.
const CLUSTER: &str = "cuts";
/// Every server has an address of its own.
const META_PORT: u16 = 7400;
const DATA_PORT: u16 = 7410;
/// Where the clients are.
const CLIENT: &str = "client";
/// A group that is not whole by then has failed: who was cut off has to catch up.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked who is what.
const LOOK: Duration = Duration::from_millis(100);

/// See the module. Its processes and name spaces go when it is dropped.
pub struct CutGroup {
    bed: Bed,
    weft: PathBuf,
    /// Where each member listens, in order.
    addresses: Vec<String>,
}

fn node_of(id: u32) -> String {
    format!("meta{id}")
}

/// Who leads, if all members could. None: not all can, or nobody leads.
fn whole(status: &Value, members: usize) -> Option<u32> {
    let groups = status["groups"].as_array()?;
    let group = groups.iter().find(|group| group["group"] == 0)?;
    let all = group["members"].as_array()?;
    let is_able = |member: &&Value| matches!(member["role"].as_str(), Some("active" | "standby"));
    let mut actives = all.iter().filter(|member| member["role"] == "active");
    let (active, more) = (actives.next()?, actives.next());
    let is_whole = all.iter().filter(is_able).count() == members && more.is_none();
    let id = active["id"].as_u64().filter(|_| is_whole)?;
    u32::try_from(id).ok()
}

impl CutGroup {
    /// Brings a group of so many members up, with a pair of data servers.
    ///
    /// # Errors
    /// If there can be no test bed here, or a server does not come up.
    pub fn up(weft: &Path, parent: &Path, members: u32, sync: Sync) -> Result<CutGroup, String> {
        let mut bed = Bed::new(parent)?;
        let data = ["data0.0", "data0.1"];
        let nodes = (1..=members).map(node_of);
        for node in nodes.chain(data.iter().map(ToString::to_string)) {
            bed.add(&node, None)?;
        }
        bed.add(CLIENT, None)?;
        let addresses: Result<Vec<String>, String> = (1..=members)
            .map(|id| Ok(format!("{}:{META_PORT}", bed.address(&node_of(id))?)))
            .collect();
        let mut group = CutGroup {
            bed,
            weft: weft.to_owned(),
            addresses: addresses?,
        };
        let all: Vec<u32> = (1..=members).collect();
        for (id, address) in all.iter().zip(group.addresses.clone()) {
            let settings = format!(
                "listen = {address:?}\ncoordinator = \"file:{}\"\nmember = {id}\nmembers = {all:?}\n\
                 [journal]\nsync = \"{sync}\"\n",
                group.bed.directory().join("view").display(),
            );
            if *id == 1 {
                let config = group.bed.directory().join("init.toml");
                let settings = format!("cluster_id = {CLUSTER:?}\n{settings}");
                crate::testbed::found(&group.weft, &config, &settings)?;
            }
            group.start("meta", &node_of(*id), &settings)?;
        }
        for (member, node) in data.iter().enumerate() {
            let listen = format!("{}:{DATA_PORT}", group.bed.address(node)?);
            let settings = format!(
                "listen = {listen:?}\nmeta = {:?}\npair = 0\nmember = {member}\n",
                group.addresses
            );
            group.start("data", node, &settings)?;
        }
        group.active()?;
        group.wait("the pair does not serve", |status| {
            let pairs = status["pairs"].as_array()?;
            pairs
                .iter()
                .any(|pair| pair["state"] == "both")
                .then_some(())
        })?;
        Ok(group)
    }

    fn start(&mut self, kind: &str, node: &str, settings: &str) -> Outcome {
        let directory = self.bed.directory();
        let config = directory.join(format!("{node}.toml"));
        let store = directory.join(node);
        let settings = format!("cluster_id = {CLUSTER:?}\ndir = {store:?}\n{settings}");
        fs::write(&config, settings).map_err(|error| format!("{}: {error}", config.display()))?;
        let config = config.to_string_lossy().into_owned();
        let arguments = vec![kind.into(), "--config".into(), config];
        let weft = self.weft.clone();
        self.bed.start(node, node, &weft, arguments)
    }

    /// What `weft status` says, of whichever member answers.
    fn status(&self) -> Option<Value> {
        self.addresses.iter().find_map(|address| {
            let mut command = self.bed.command(CLIENT, &self.weft).ok()?;
            command.args(["status", "--json", "--meta", address]);
            let output = command.output().ok()?;
            serde_json::from_slice(&output.stdout).ok()
        })
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if let Some(found) = status.as_ref().and_then(&look) {
                return Ok(found);
            }
            if Instant::now() > end {
                let words: Vec<String> = (1..=self.addresses.len() as u32)
                    .map(|id| self.bed.last_words(&node_of(id)))
                    .collect();
                let words = words.join("\n");
                return Err(format!("{what} after {PATIENCE:?}: {status:?}\n{words}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Who leads, when all are whole.
    ///
    /// # Errors
    /// If they do not get whole.
    pub fn active(&self) -> Result<u32, String> {
        let members = self.addresses.len();
        self.wait("not all members are standbys", |status| {
            whole(status, members)
        })
    }

    /// Cuts the link of a member, both ways.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn cut(&mut self, id: u32) -> Outcome {
        self.bed.cut(&node_of(id), Way::Both)
    }

    /// Ends the cut.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn heal(&mut self, id: u32) -> Outcome {
        self.bed.heal(&node_of(id))
    }

    /// `weft bench names WHAT`, on this group.
    ///
    /// # Errors
    /// If the bed has lost its node for clients.
    pub fn names(&self, what: &str, under: &str) -> Result<Command, String> {
        let mut command = self.bed.command(CLIENT, &self.weft)?;
        command.args(["bench", "names", what, "--under", under]);
        command.args(["--meta", &self.addresses.join(",")]);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_group_is_whole_if_one_leads_and_all_others_could() {
        let status = |roles: [&str; 3]| {
            let members: Vec<Value> = roles
                .iter()
                .enumerate()
                .map(|(at, role)| json!({ "id": at + 1, "role": role }))
                .collect();
            json!({ "groups": [{ "group": 0, "members": members }] })
        };
        assert_eq!(whole(&status(["standby", "active", "standby"]), 3), Some(2));
        assert_eq!(whole(&status(["standby", "active", "junior"]), 3), None);
        assert_eq!(whole(&status(["standby", "standby", "standby"]), 3), None);
        assert_eq!(whole(&status(["active", "active", "standby"]), 3), None);
        assert_eq!(whole(&status(["standby", "active", "standby"]), 4), None);
        assert_eq!(whole(&json!({}), 3), None);
    }
}
