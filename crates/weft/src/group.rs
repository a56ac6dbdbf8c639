//! `weft group`: the metadata servers of a replica group, how far each is, who comes, who goes, and who leads where
//! nobody can be elected any more.

use crate::error::{Error, Result};
use crate::groups;
use crate::output::{say, show};
use crate::status::role_name;
use crate::table;
use crate::tool::{Tool, Where};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_env::Env;
use weft_types::GroupId;
use weft_wire::proto::group_member::Role;
use weft_wire::proto::{
    AdmitMemberRequest, DismissMemberRequest, ForceMemberRequest, Group, GroupMember,
    GroupStatusReply, GroupStatusRequest, VacateMemberRequest,
};

/// A member that has not said how far it is by then does not answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How often progress is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An active that is removed gives its place up; another has it within this time, or the removal has failed.
const TAKEOVER_PATIENCE: Duration = Duration::from_secs(15);

/// `weft group ...`
#[derive(Args)]
pub struct GroupCommand {
    #[command(subcommand)]
    what: GroupWhat,
    /// Which replica group, where there are several.
    #[arg(long, global = true, value_name = "NUMBER", default_value_t = 0)]
    group: u32,
}

#[derive(Subcommand)]
enum GroupWhat {
    /// The members: who leads, who is ready to, and how far each journal is.
    #[command(alias = "list")]
    Status {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Lets a metadata server in that has been started with an empty directory.
    Add {
        /// Where it listens (host:port).
        address: String,
        /// Shows how far it is until it is a standby.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Removes a member; if it leads, another takes over first.
    Remove {
        /// Its number.
        member: u32,
        #[command(flatten)]
        cluster: Where,
    },
    /// Says that a member's directory is lost: an empty one takes its place when the server is started.
    Replace {
        /// Its number.
        member: u32,
        #[command(flatten)]
        cluster: Where,
    },
    /// Has a member lead with what it has, when too many others are gone for good.
    Force {
        /// Its number.
        member: u32,
        /// What may be lost has been read, and is given up.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        cluster: Where,
    },
}

/// Runs `weft group ...`.
///
/// # Errors
/// If no metadata server answers, or the group refuses (the message says why, and what to do).
pub async fn run(env: Env, command: GroupCommand) -> Result<()> {
    let group = GroupId(command.group);
    match command.what {
        GroupWhat::Status { json, cluster } => {
            let known = Known::of(&env, &cluster, group).await?;
            match json {
                true => say!("{}", known.to_json()),
                false => show!("{}", known.to_text()),
            }
        }
        GroupWhat::Add {
            address,
            wait,
            cluster,
        } => add(&env, (&cluster, group), address, wait).await,
        GroupWhat::Remove { member, cluster } => remove(&env, (&cluster, group), member).await,
        GroupWhat::Replace { member, cluster } => replace(&env, (&cluster, group), member).await,
        GroupWhat::Force {
            member,
            yes,
            cluster,
        } => force(&env, (&cluster, group), member, yes).await,
    }
}

/// What is known of a group: the newest record that a member has told, and what each says of itself.
struct Known {
    record: Group,
    said: BTreeMap<u32, GroupStatusReply>,
}

/// What the server at an address says of itself. None: it does not answer.
async fn ask(env: &Env, address: &str) -> Option<GroupStatusReply> {
    let asking = async {
        let tool = Tool::connect(env, address).await.ok()?;
        tool.call(&GroupStatusRequest {}).await.ok()
    };
    env.timeout(ANSWER_PATIENCE, asking).await.ok().flatten()
}

impl Known {
    /// Asks all members of a group that can be found.
    async fn of(env: &Env, cluster: &Where, group: GroupId) -> Result<Known> {
        let known = Known::among(env, cluster.meta_addresses()?, group).await?;
        if !known.said.is_empty() {
            return Ok(known);
        }
        // Those that were named are of other groups: the view says where this one's are.
        let view = cluster.connect(env).await?.status().await?.view;
        let view = view.unwrap_or_default();
        let Some(record) = view.groups.iter().find(|of| of.id == group.0) else {
            let ids: Vec<String> = groups::ids(&view).iter().map(GroupId::to_string).collect();
            return Err(Error::Usage(format!(
                "the cluster has no group {group}; it has {}",
                ids.join(", ")
            )));
        };
        let members = record.members.iter();
        let named = members.map(|member| member.address.clone()).collect();
        let mut known = Known::among(env, named, group).await?;
        if known.said.is_empty() {
            known.record = record.clone();
        }
        Ok(known)
    }

    /// Asks those that are named, and those that they name. None may be of this group.
    async fn among(env: &Env, named: Vec<String>, group: GroupId) -> Result<Known> {
        let mut answers_at_all = false;
        let mut known = Known {
            record: Group::default(),
            said: BTreeMap::new(),
        };
        let mut version = 0;
        let mut asked = BTreeSet::new();
        let mut next: Vec<String> = named.clone();
        while !next.is_empty() {
            asked.extend(next.iter().cloned());
            let answers = next.iter().map(|address| ask(env, address));
            for reply in futures_util::future::join_all(answers).await {
                let Some(reply) = reply else { continue };
                answers_at_all = true;
                // Members of other groups have the same numbers.
                if reply.group != group.0 {
                    continue;
                }
                if let Some(record) = &reply.record
                    && reply.view_version >= version
                {
                    known.record = record.clone();
                    version = reply.view_version;
                }
                known.said.insert(reply.member, reply);
            }
            let members = known.record.members.iter();
            let addresses = members.map(|member| member.address.clone());
            next = addresses
                .filter(|address| !address.is_empty() && !asked.contains(address))
                .collect();
        }
        if !answers_at_all {
            return Err(Error::Unreachable(format!(
                "no metadata server answers (asked: {})",
                named.join(", ")
            )));
        }
        Ok(known)
    }

    fn member(&self, id: u32) -> Result<&GroupMember> {
        let found = self.record.members.iter().find(|member| member.id == id);
        found.ok_or_else(|| {
            let ids: Vec<String> = self
                .record
                .members
                .iter()
                .map(|it| it.id.to_string())
                .collect();
            Error::Usage(format!(
                "group {} has no member {id}; it has {}",
                self.record.id,
                ids.join(", ")
            ))
        })
    }

    /// What a member says, if it answers. (Another server may have its number, or had it.)
    fn of_member(&self, member: &GroupMember) -> Option<&GroupStatusReply> {
        let said = self.said.get(&member.id)?;
        (said.store == member.store || member.store == 0).then_some(said)
    }

    fn answering(&self) -> impl Iterator<Item = &GroupStatusReply> {
        let members = self.record.members.iter();
        members.filter_map(|member| self.of_member(member))
    }

    /// Who leads, and answers.
    fn active(&self) -> Option<&GroupStatusReply> {
        self.answering().find(|said| said.leads)
    }

    /// The end of the journal: the active's, or the greatest that there is.
    fn end(&self) -> u64 {
        let greatest = || self.answering().max_by_key(|said| rank(said));
        let said = self.active().or_else(greatest);
        said.map_or(0, |said| said.last)
    }

    fn behind(&self, said: &GroupStatusReply) -> u64 {
        self.end().saturating_sub(said.durable)
    }

    fn to_text(&self) -> String {
        let active = self.active();
        let leads = match active {
            Some(said) => format!("led by member {}", said.member),
            None => "nobody leads".into(),
        };
        let mut out = format!(
            "group {}, epoch {}, {leads}, sn {}\n",
            self.record.id,
            self.record.epoch,
            self.end()
        );
        let rows = self.record.members.iter().map(|member| {
            let said = self.of_member(member);
            let cell = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
            vec![
                member.id.to_string(),
                role_name(member.role()).into(),
                match (said, member.address.as_str()) {
                    (Some(_), _) => "up".into(),
                    (None, "") => "vacant".into(),
                    (None, _) => "does not answer".into(),
                },
                cell(said.map(|said| said.epoch)),
                cell(said.map(|said| said.durable)),
                cell(said.map(|said| self.behind(said))),
                member.address.clone(),
                said.map_or(String::new(), notes),
            ]
        });
        out += &table::render(
            &[
                "member", "role", "process", "epoch", "last sn", "behind", "address", "notes",
            ],
            rows.collect(),
        );
        out
    }

    fn to_json(&self) -> Value {
        let members = self.record.members.iter().map(|member| {
            let said = self.of_member(member);
            json!({
                "id": member.id,
                "role": role_name(member.role()),
                "address": member.address,
                "answers": said.is_some(),
                "leads": said.is_some_and(|said| said.leads),
                "epoch": said.map(|said| said.epoch),
                "sn": said.map(|said| said.durable),
                "committed": said.map(|said| said.committed),
                "behind": said.map(|said| self.behind(said)),
                "image_bytes": said.map(|said| said.image_bytes),
                "image_total_bytes": said.map(|said| said.image_total_bytes),
                "is_intact": said.map(|said| said.is_intact),
            })
        });
        json!({
            "group": self.record.id,
            "epoch": self.record.epoch,
            "active": self.active().map(|said| said.member),
            "sn": self.end(),
            "members": members.collect::<Vec<Value>>(),
        })
    }
}

/// What decides which of two journals is the greater one.
fn rank(said: &GroupStatusReply) -> (u64, u64) {
    (said.last_epoch, said.last)
}

/// What is unusual about a member.
fn notes(said: &GroupStatusReply) -> String {
    let mut notes = Vec::new();
    if said.image_total_bytes > 0 {
        notes.push(format!(
            "image {} of {}",
            table::bytes(said.image_bytes),
            table::bytes(said.image_total_bytes)
        ));
    }
    if !said.is_intact {
        notes.push(
            "its disk may have lost something: it does not count before it has all again".into(),
        );
    }
    if !said.leads && said.hears == 0 {
        notes.push("hears no active".into());
    }
    notes.join("; ")
}

/// Which cluster, and which of its groups.
type Which<'a> = (&'a Where, GroupId);

/// What asks the group's active.
async fn tool_of(env: &Env, (cluster, group): Which<'_>) -> Result<Tool> {
    cluster.connect(env).await?.of_group(group).await
}

async fn add(env: &Env, which: Which<'_>, address: String, wait: bool) -> Result<()> {
    let tool = tool_of(env, which).await?;
    let request = AdmitMemberRequest {
        address: address.clone(),
    };
    let reply = tool.call(&request).await?;
    let id = reply.member;
    match reply.is_known {
        true => say!("member {id} ({address}) belongs to the group already")?,
        false => say!("member {id} ({address}) is let in")?,
    }
    if !wait {
        return say!(
            "it takes by itself what it lacks, and counts when it has all: `weft group status` shows how far it is"
        );
    }
    let mut shown = String::new();
    loop {
        let known = Known::of(env, which.0, which.1).await?;
        let member = known.member(id)?;
        if member.role() != Role::Junior {
            return say!("member {id} is a standby: it has all, and counts");
        }
        let line = match known.of_member(member) {
            None => format!("member {id} does not answer: is the server at {address} still there?"),
            Some(said) => {
                let behind = format!("member {id}: {} batches behind", known.behind(said));
                let notes = notes(said);
                match notes.as_str() {
                    "" => behind,
                    _ => format!("{behind}, {notes}"),
                }
            }
        };
        if line != shown {
            say!("{line}")?;
            shown = line;
        }
        env.sleep(LOOK_EVERY).await;
    }
}

async fn remove(env: &Env, which: Which<'_>, member: u32) -> Result<()> {
    let address = Known::of(env, which.0, which.1)
        .await?
        .member(member)?
        .address
        .clone();
    let deadline = env.now() + TAKEOVER_PATIENCE;
    let mut has_yielded = false;
    loop {
        let asked = async {
            let tool = tool_of(env, which).await?;
            tool.call(&DismissMemberRequest { member }).await
        };
        match asked.await {
            Ok(reply) if !reply.yields => break,
            Ok(_) if env.now() > deadline => {
                return Err(Error::Failed(format!(
                    "member {member} has given its place up, and has it again: look at `weft group status`"
                )));
            }
            Ok(_) => {
                if !has_yielded {
                    say!("member {member} leads: another takes over first")?;
                }
                has_yielded = true;
            }
            // It takes a moment until another leads.
            Err(Error::Unreachable(_)) if has_yielded && env.now() < deadline => {}
            Err(error) => return Err(error),
        }
        env.sleep(LOOK_EVERY).await;
    }
    let at = match address.as_str() {
        "" => String::new(),
        address => format!(" ({address})"),
    };
    say!(
        "member {member}{at} is removed. Its process ends by itself if it runs, and its directory is of no use any more: \
         delete it"
    )
}

async fn replace(env: &Env, which: Which<'_>, member: u32) -> Result<()> {
    let known = Known::of(env, which.0, which.1).await?;
    let at = match known.member(member)?.address.as_str() {
        "" => String::new(),
        address => format!(", last at {address}"),
    };
    if known.active().is_none() {
        return Err(Error::Unreachable(format!(
            "nobody leads group {}, so nobody can let another directory in: start the members that are missing; if too many \
             are gone for good, `weft group force` first",
            known.record.id
        )));
    }
    let tool = tool_of(env, which).await?;
    let reply = tool.call(&VacateMemberRequest { member }).await?;
    match reply.was_vacant {
        true => say!("the place of member {member} was vacant already")?,
        false => say!(
            "the directory of member {member}{at} counts as lost: should it come back when another one has its place, its server will be refused"
        )?,
    }
    say!(
        "start member {member} with an empty directory: it takes by itself what it lacks, and counts when it has all (`weft \
         group status`)"
    )
}

async fn force(env: &Env, which: Which<'_>, member: u32, yes: bool) -> Result<()> {
    let known = Known::of(env, which.0, which.1).await?;
    let named = known.member(member)?;
    if let Some(active) = known.active() {
        return Err(Error::Usage(format!(
            "member {} leads: nobody need be forced",
            active.member
        )));
    }
    let Some(said) = known.of_member(named) else {
        return Err(Error::Unreachable(format!(
            "member {member} does not answer at {:?}: start it first",
            named.address
        )));
    };
    if let Some(greater) = known.answering().find(|other| rank(other) > rank(said)) {
        return Err(Error::Usage(format!(
            "member {} has more ({}) than member {member} ({}): force that one instead, or stop it first",
            greater.member,
            journal_of(greater),
            journal_of(said)
        )));
    }
    show!("{}", what_may_be_lost(&known, named, said))?;
    if !yes {
        return Err(Error::Usage(
            "nothing was done: start the members that are missing if that can be, or say --yes"
                .into(),
        ));
    }
    let tool = Tool::connect_of(env, which.1, &named.address).await?;
    let reply = tool.call(&ForceMemberRequest { member }).await?;
    say!(
        "member {member} leads since epoch {}, with all up to batch {}. The others are juniors now: those that come \
         back become standbys by themselves; remove the rest (`weft group remove`)",
        reply.epoch,
        reply.sn
    )
}

fn journal_of(said: &GroupStatusReply) -> String {
    format!("batch {} of epoch {}", said.last, said.last_epoch)
}

/// What forcing a member to lead may cost.
fn what_may_be_lost(known: &Known, named: &GroupMember, said: &GroupStatusReply) -> String {
    let mut out = format!(
        "member {} has the journal up to {}, and knows that all up to batch {} is committed\n",
        named.id,
        journal_of(said),
        said.committed
    );
    let others = known.record.members.iter().filter(|one| one.id != named.id);
    for other in others {
        let counts = match other.role() {
            Role::Active | Role::Standby => "",
            Role::Junior | Role::Unspecified => " (a junior, which did not count)",
        };
        out += &match known.of_member(other) {
            Some(said) => format!(
                "member {} answers and has {}: nothing of it is lost\n",
                other.id,
                journal_of(said)
            ),
            None => format!(
                "member {}{counts} does not answer: changes that were acknowledged and that only it and others \
                 that do not answer have are LOST\n",
                other.id
            ),
        };
    }
    if !said.is_intact {
        out += &format!(
            "member {}'s own disk may have lost what it said it had (its directory is new; or its machine was started \
             again, and journal.sync is never): that would be LOST, too\n",
            named.id
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(member: u32, last: u64) -> GroupStatusReply {
        GroupStatusReply {
            member,
            store: u64::from(member) + 10,
            epoch: 2,
            last,
            last_epoch: 2,
            durable: last,
            committed: last - 1,
            is_intact: true,
            hears: 1,
            ..GroupStatusReply::default()
        }
    }

    fn known() -> Known {
        let members = [Role::Active, Role::Standby, Role::Junior];
        let members = members.iter().zip(1..).map(|(role, id)| GroupMember {
            id,
            address: format!("host{id}:7400"),
            role: *role as i32,
            store: u64::from(id) + 10,
            ..GroupMember::default()
        });
        let mut active = said(1, 50);
        active.leads = true;
        active.hears = 0;
        let mut junior = said(3, 10);
        junior.image_bytes = 1 << 20;
        junior.image_total_bytes = 2 << 20;
        Known {
            record: Group {
                id: 0,
                epoch: 2,
                members: members.collect(),
                active: 1,
                forced: 0,
            },
            said: BTreeMap::from([(1, active), (3, junior)]),
        }
    }

    #[test]
    fn each_member_is_shown_with_how_far_it_is() {
        let text = known().to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "group 0, epoch 2, led by member 1, sn 50");
        let cells = |at: usize| lines[at].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cells(2), "1 active up 2 50 0 host1:7400");
        assert_eq!(cells(3), "2 standby does not answer - - - host2:7400");
        assert_eq!(
            cells(4),
            "3 junior up 2 10 40 host3:7400 image 1.0 MiB of 2.0 MiB"
        );
        let json = known().to_json();
        assert_eq!(json["active"], 1);
        assert_eq!(json["members"][1]["answers"], false);
        assert_eq!(json["members"][2]["behind"], 40);
    }

    #[test]
    fn a_server_that_only_has_the_number_is_not_the_member() {
        let mut known = known();
        known.record.members[2].store = 99;
        assert!(
            known.to_text().contains("junior   does not answer"),
            "{}",
            known.to_text()
        );
        assert_eq!(known.end(), 50);
    }

    #[test]
    fn what_may_be_lost_names_who_is_missing() {
        let known = known();
        let named = known.member(1).unwrap();
        let text = what_may_be_lost(&known, named, &known.said[&1]);
        assert!(text.contains("up to batch 50 of epoch 2"), "{text}");
        assert!(text.contains("member 2 does not answer"), "{text}");
        assert!(text.contains("member 3 answers and has batch 10"), "{text}");
        assert!(known.member(7).is_err());
    }
}
