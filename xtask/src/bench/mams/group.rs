//! Replica groups on this machine: `weft dev` without a mount, and who is what in them.

use super::Sync;
use crate::bench::machine::cpu_of;
use crate::cluster::Cluster;
use crate::run::Outcome;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A member that is started again and has not caught up by then has failed.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked who is what.
const LOOK: Duration = Duration::from_millis(100);

/// A metadata server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// From 0.
    pub group: u32,
    /// From 1.
    pub id: u32,
    /// As the group's view says.
    pub role: Role,
    /// None: it does not run.
    pub pid: Option<u32>,
    /// For clients.
    pub address: String,
}

impl Member {
    /// As orders call it.
    pub fn name(&self) -> String {
        match self.group {
            0 => format!("meta:{}", self.id),
            group => format!("meta:{group}.{}", self.id),
        }
    }
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Active,
    /// It is counted, and could lead.
    Standby,
    /// It lacks something, or is away.
    Junior,
}

/// The group and the number in it of `meta:1`, or `meta:1.2`. None: it is no metadata server.
fn place_of(name: &str) -> Option<Result<(u32, u32), String>> {
    let place = name.strip_prefix("meta:")?;
    let (group, id) = place.split_once('.').unwrap_or(("0", place));
    let number = |text: &str| text.parse().map_err(|_| format!("no member: {name}"));
    Some(number(group).and_then(|group| Ok((group, number(id)?))))
}

/// Reads `weft dev status --json`. A single server is an active, whatever it says of a group.
///
/// # Errors
/// If it says nothing of the service, or something that is not understood.
fn members_of(status: &Value) -> Result<Vec<Member>, String> {
    let processes = status["processes"].as_array().ok_or("no processes")?;
    let groups = status["service"]["groups"].as_array();
    let role_of = |group: u32, id: u32| {
        let mut all = groups?.iter();
        let of = all.find(|one| one["group"] == group)?;
        let own = of["members"].as_array()?;
        own.iter().find(|one| one["id"] == id)?["role"].as_str()
    };
    let mut members = Vec::new();
    for process in processes {
        let name = process["name"].as_str().unwrap_or_default();
        let Some(place) = place_of(name) else {
            continue;
        };
        let (group, id) = place?;
        let role = match role_of(group, id) {
            Some("active") => Role::Active,
            Some("standby") => Role::Standby,
            Some("junior") => Role::Junior,
            None if status["service"]["epoch"].is_u64() => Role::Active,
            _ => return Err(format!("nobody says what {name} is: {status}")),
        };
        members.push(Member {
            group,
            id,
            role,
            pid: process["pid"].as_u64().map(|pid| pid as u32),
            address: process["address"].as_str().unwrap_or_default().to_owned(),
        });
    }
    Ok(members)
}

/// Whether in each group one leads and all others could.
fn is_whole(members: &[Member]) -> bool {
    let is_led = |group: u32| {
        let own = members.iter().filter(|member| member.group == group);
        let actives = own.filter(|member| member.role == Role::Active);
        actives.count() == 1
    };
    members
        .iter()
        .all(|member| member.pid.is_some() && member.role != Role::Junior && is_led(member.group))
}

/// Processor seconds that have been used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// By the active, or all actives together.
    pub active: f64,
    /// By all standbys together.
    pub standbys: f64,
}

/// What these members have used of the processors.
pub fn cpu_by_role(members: &[Member]) -> Cpu {
    let of = |role| {
        let own = members.iter().filter(|member| member.role == role);
        cpu_of(&own.filter_map(|member| member.pid).collect::<Vec<u32>>())
    };
    Cpu {
        active: of(Role::Active),
        standbys: of(Role::Standby),
    }
}

/// What is brought up.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Groups of metadata servers.
    pub groups: u32,
    /// Members of each.
    pub members: u32,
}

impl Size {
    /// One group.
    pub fn one(members: u32) -> Size {
        Size { groups: 1, members }
    }

    /// As the paper names it: so many actives, so many standbys of all groups.
    pub fn name(self) -> String {
        let standbys = self.groups * self.members.saturating_sub(1);
        format!("{}A{standbys}S", self.groups)
    }
}

/// Ended when dropped, and its directory removed.
pub struct Group {
    // Ends before its directory goes.
    cluster: Cluster,
    weft: PathBuf,
    addresses: Vec<String>,
    _directory: TempDir,
}

impl Group {
    /// So many metadata servers, and a pair of data servers, which files need to have a place.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn up(weft: &Path, parent: &Path, size: Size, sync: Sync) -> Result<Group, String> {
        let directory = tempfile::Builder::new()
            .prefix("weft-mams-")
            .tempdir_in(parent)
            .map_err(|error| format!("no directory in {}: {error}", parent.display()))?;
        let (groups, members) = (size.groups.to_string(), size.members.to_string());
        let sync = sync.to_string();
        let more = [
            "--pairs",
            "1",
            "--groups",
            &groups,
            "--members",
            &members,
            "--journal-sync",
            &sync,
        ];
        let mut group = Group {
            cluster: Cluster::up_unmounted(weft, &directory.path().join("cluster"), &more)?,
            weft: weft.to_owned(),
            addresses: Vec::new(),
            _directory: directory,
        };
        let members = group.wait_whole()?;
        group.addresses = members.into_iter().map(|member| member.address).collect();
        Ok(group)
    }

    /// Who is what now.
    ///
    /// # Errors
    /// If nobody leads, or it cannot be asked.
    pub fn members(&self) -> Result<Vec<Member>, String> {
        let asked = self.cluster.tool(&["dev", "status", "--json"]).output();
        let output = asked.map_err(|error| format!("cannot start weft: {error}"))?;
        let status = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("weft dev status: {error}"))?;
        members_of(&status)
    }

    fn wait_for(
        &self,
        what: &str,
        is_so: impl Fn(&[Member]) -> bool,
    ) -> Result<Vec<Member>, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let members = self.members();
            if let Ok(members) = &members
                && is_so(members)
            {
                return Ok(members.clone());
            }
            if Instant::now() > end {
                return Err(format!("{what} after {PATIENCE:?}: {members:?}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until in each group one leads and all others could.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn wait_whole(&self) -> Result<Vec<Member>, String> {
        self.wait_for("not all members are standbys", is_whole)
    }

    /// Waits until the others of the first group count a dead one no more: then it is a standby again only when it has
    /// caught up.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn wait_junior(&self, id: u32) -> Outcome {
        let is_junior = |members: &[Member]| {
            let mut juniors = members.iter().filter(|one| one.role == Role::Junior);
            juniors.any(|one| (one.group, one.id) == (0, id))
        };
        self.wait_for("a dead member still counts", is_junior)
            .map(drop)
    }

    /// Who leads the first group, when all are whole.
    ///
    /// # Errors
    /// If it does not get whole.
    pub fn active(&self) -> Result<u32, String> {
        let members = self.wait_whole()?;
        let mut first = members.iter().filter(|member| member.group == 0);
        let active = first.find(|member| member.role == Role::Active);
        active
            .map(|one| one.id)
            .ok_or_else(|| "nobody leads".into())
    }

    /// `weft dev kill` and its like, to a member of the first group.
    ///
    /// # Errors
    /// If it is refused.
    pub fn order(&self, order: &str, id: u32) -> Outcome {
        self.cluster.order(order, &format!("meta:{id}")).map(drop)
    }

    /// The same, to a member of any group.
    ///
    /// # Errors
    /// If it is refused.
    pub fn order_member(&self, order: &str, member: &Member) -> Outcome {
        self.cluster.order(order, &member.name()).map(drop)
    }

    /// Runs a tool; what it says.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub fn tool(&self, arguments: &[&str]) -> Result<String, String> {
        let ran = self.cluster.tool(arguments).output();
        let output = ran.map_err(|error| format!("cannot start weft: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!(
                "weft {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }

    /// `weft bench stream`, on these groups.
    pub fn stream(&self) -> Command {
        let mut command = Command::new(&self.weft);
        command.args(["bench", "stream", "--meta", &self.addresses.join(",")]);
        command
    }

    /// `weft bench names WHAT`, on these groups.
    pub fn names(&self, what: &str, under: &str) -> Command {
        let mut command = Command::new(&self.weft);
        command.args(["bench", "names", what, "--under", under]);
        command.args(["--meta", &self.addresses.join(",")]);
        command
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it had to be killed.
    pub fn down(self) -> Outcome {
        self.cluster.down()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(roles: [&str; 2]) -> Value {
        json!({
            "processes": [
                { "name": "meta:1", "pid": 11, "address": "127.0.0.1:1" },
                { "name": "meta:2", "pid": null, "address": "127.0.0.1:2" },
                { "name": "meta:1.1", "pid": 14, "address": "127.0.0.1:4" },
                { "name": "data:0.0", "pid": 13, "address": "127.0.0.1:3" },
            ],
            "service": { "epoch": 3, "groups": [
                { "group": 1, "members": [{ "id": 1, "role": "active" }] },
                { "group": 0, "members": [
                    { "id": 2, "role": roles[1] },
                    { "id": 1, "role": roles[0] },
                ] },
            ] },
        })
    }

    #[test]
    fn members_are_those_of_the_view_with_their_processes() {
        let members = members_of(&status(["standby", "active"])).unwrap();
        assert_eq!(members.len(), 3);
        assert_eq!((members[0].id, members[0].role), (1, Role::Standby));
        assert_eq!((members[0].pid, members[1].pid), (Some(11), None));
        assert_eq!(members[1].role, Role::Active);
        assert_eq!(members[1].address, "127.0.0.1:2");
        assert_eq!((members[2].group, members[2].id), (1, 1));
        let names: Vec<String> = members.iter().map(Member::name).collect();
        assert_eq!(names, ["meta:1", "meta:2", "meta:1.1"]);
    }

    #[test]
    fn groups_are_whole_if_in_each_one_leads_and_all_others_could() {
        let whole = |roles, pids: [Option<u32>; 3]| {
            let mut members = members_of(&status(roles)).unwrap();
            for (member, pid) in members.iter_mut().zip(pids) {
                member.pid = pid;
            }
            is_whole(&members)
        };
        let run = [Some(1), Some(2), Some(3)];
        assert!(whole(["standby", "active"], run));
        assert!(!whole(["junior", "active"], run));
        assert!(!whole(["standby", "standby"], run));
        assert!(!whole(["standby", "active"], [None, Some(2), Some(3)]));
        assert!(!whole(["standby", "active"], [Some(1), Some(2), None]));
    }

    #[test]
    fn a_service_that_nobody_leads_is_told() {
        let mut status = status(["active", "standby"]);
        status["service"] = Value::Null;
        assert!(members_of(&status).is_err());
        assert!(place_of("meta:one").unwrap().is_err());
    }

    #[test]
    fn groups_are_named_as_in_the_paper() {
        assert_eq!(Size::one(1).name(), "1A0S");
        assert_eq!(Size::one(5).name(), "1A4S");
        let three = Size {
            groups: 3,
            members: 4,
        };
        assert_eq!(three.name(), "3A9S");
    }
}
