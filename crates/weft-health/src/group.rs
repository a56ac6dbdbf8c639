//! What is wrong with a metadata group, by what its active knows.

use crate::check::{Check, Finding, Severity};
use std::time::Duration;
use weft_wire::proto::group_member::Role;
use weft_wire::proto::{Group, JobStatus};

/// As for data servers.
const ROOM_PARTS: u64 = 20;
/// A batch that takes longer is late: syncs of a disk that works take milliseconds.
const JOURNAL_LATE: Duration = Duration::from_secs(2);

/// What a server that leads knows of itself.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Which member it is.
    pub member: u32,
    /// Whole and free room of the file system with its journal, in bytes. 0: not known.
    pub room: (u64, u64),
    /// For how long changes wait to be committed, the oldest of them.
    pub waits: Duration,
    /// Why the coordinator did not answer when it was asked last.
    pub coordinator: Option<String>,
}

/// Of one group. Without a record it has not been founded.
pub fn of_group(group: &Group, own: &Own, jobs: &[JobStatus]) -> Vec<Finding> {
    let mut findings = members(group);
    let me = format!("meta:{}.{}", group.id, own.member);
    let (total, free) = own.room;
    if total > 0 && free < total / ROOM_PARTS {
        findings.push(Finding {
            check: Check::Room,
            severity: Severity::Degraded,
            subject: me.clone(),
            what: format!(
                "{} % of the disk with its journal are free ({} MiB)",
                free.saturating_mul(100) / total,
                free >> 20
            ),
            means: "when it is full nothing can be changed any more",
            todo: "make room on that file system".into(),
        });
    }
    if own.waits > JOURNAL_LATE {
        findings.push(Finding {
            check: Check::Journal,
            severity: Severity::Critical,
            subject: me.clone(),
            what: format!("changes wait to be stable for {} s", own.waits.as_secs()),
            means: "who changes names waits",
            todo: "look at the disks of the group's members, and at the links between them".into(),
        });
    }
    if let Some(why) = &own.coordinator {
        findings.push(Finding {
            check: Check::Coordinator,
            severity: Severity::Degraded,
            subject: format!("group {}", group.id),
            what: format!("the coordinator does not answer: {why}"),
            means: "nothing, as long as the server that leads lives: no other one can take over",
            todo: "see to the coordinator".into(),
        });
    }
    let waiting = jobs.iter().filter(|job| !job.waits.is_empty());
    findings.extend(waiting.map(|status| {
        let job = status.job.as_ref().map_or(0, |job| job.id);
        Finding {
            check: Check::Jobs,
            severity: Severity::Degraded,
            subject: format!("job {job}"),
            what: format!("it waits: {}", status.waits),
            means: "what it is to do is not done; files stay in use",
            todo: "`weft pair status` shows it".into(),
        }
    }));
    findings
}

fn members(group: &Group) -> Vec<Finding> {
    let is_junior = |role| matches!(role, Role::Junior | Role::Unspecified);
    let juniors = group.members.iter().filter(|it| is_junior(it.role()));
    let voters = group.members.iter().filter(|it| !is_junior(it.role()));
    let voters = voters.count();
    let means = match voters {
        0 | 1 => "no other one can take over",
        2 => "another one can take over; after that the group must have all that are left",
        _ => "another one can take over",
    };
    juniors
        .map(|member| {
            let name = format!("meta:{}.{}", group.id, member.id);
            let (what, todo) = match (member.store, member.address.is_empty()) {
                (0, true) => (
                    "it has never been started".to_owned(),
                    format!("start {name}, or `weft group remove {}`", member.id),
                ),
                (0, false) => (
                    "its place is vacant".to_owned(),
                    format!("start {name} with an empty directory"),
                ),
                _ => (
                    "it does not count: it is away, or has not all that is committed yet"
                        .to_owned(),
                    format!(
                        "`weft group status --group {}` shows whether it answers; start it if not",
                        group.id
                    ),
                ),
            };
            Finding {
                check: Check::Members,
                severity: Severity::Degraded,
                subject: name,
                what,
                means,
                todo,
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
