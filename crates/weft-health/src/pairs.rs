//! What is wrong with pairs of data servers, by what the first group knows of them.

use crate::check::{Check, Finding, Severity};
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{MemberReport, MemberStatus, PairState, PairStatus};

/// Less than a twentieth: what is written meanwhile may fill the rest before anybody has seen to it.
const ROOM_PARTS: u64 = 20;
/// Clocks that are apart by less do no harm that anybody sees.
const CLOCKS_MS: u64 = 1_000;
/// Stores of fewer objects than that are not compared: some may be on their way.
const OBJECTS_MIN: u64 = 1_000;

const UNREADABLE: &str =
    "what lies on the pair can be neither read nor written; accesses wait, and fail in the end";
const ONE_COPY: &str =
    "all of it is read and written; the next failure of this member takes it away";
const NOT_YET: &str = "nothing, yet";

/// Of all pairs. `version` is that of the server that judges.
pub fn of_pairs(pairs: &[PairStatus], version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pair in pairs {
        let state = pair.state.unwrap_or_default();
        let seen = Seen { pair, state };
        findings.extend(seen.serves());
        for member in &pair.members {
            if let Some(report) = &member.report {
                seen.of_report(member, report, version, &mut findings);
            }
        }
        findings.extend(seen.shrunk());
    }
    findings
}

struct Seen<'a> {
    pair: &'a PairStatus,
    state: PairState,
}

impl Seen<'_> {
    fn subject(&self) -> String {
        format!("pair {}", self.state.pair)
    }

    fn name(&self, member: u32) -> String {
        format!("data:{}.{member}", self.state.pair)
    }

    fn member(&self, member: u32) -> Option<&MemberStatus> {
        self.pair.members.iter().find(|it| it.member == member)
    }

    fn is_alive(&self, member: u32) -> bool {
        self.member(member).is_some_and(|it| it.alive)
    }

    fn down(&self, what: String, todo: String) -> Finding {
        Finding {
            check: Check::PairDown,
            severity: Severity::Critical,
            subject: self.subject(),
            what,
            means: UNREADABLE,
            todo,
        }
    }

    /// Whether the pair is served, and by both.
    fn serves(&self) -> Option<Finding> {
        if self.state.uncertain {
            return Some(self.uncertain());
        }
        let serving = self.state.serving;
        match self.state.mode() {
            Mode::Both => self.both(),
            Mode::Only | Mode::Recovering if !self.is_alive(serving) => {
                Some(self.served_last(serving))
            }
            Mode::Only => Some(self.alone(serving, 1 - serving.min(1))),
            Mode::Recovering => Some(self.recovering(serving, 1 - serving.min(1))),
            Mode::Down | Mode::Unspecified => Some(self.served_last(serving)),
        }
    }

    fn uncertain(&self) -> Finding {
        let awaited = self.pair.members.iter().filter(|it| it.is_awaited);
        let awaited: Vec<u32> = awaited.map(|it| it.member).collect();
        let names: Vec<String> = awaited.iter().map(|it| self.name(*it)).collect();
        let todo = match awaited.as_slice() {
            [one] => format!(
                "start {}; if its disk is lost for good, `weft pair replace {} --member {one}`",
                names.join(""),
                self.state.pair
            ),
            [] => "look at the log of the metadata server that leads".into(),
            _ => format!("start {}", names.join(" and ")),
        };
        self.down(
            format!(
                "the metadata service has lost what came last, and who served last is not certain before {} has said so",
                names.join(" and ")
            ),
            todo,
        )
    }

    fn served_last(&self, member: u32) -> Finding {
        let name = self.name(member);
        let twin = self.name(1 - member.min(1));
        self.down(
            format!("{name} served last and is away; what {twin} has is older"),
            format!("start {name}"),
        )
    }

    fn both(&self) -> Option<Finding> {
        match [self.is_alive(0), self.is_alive(1)] {
            [true, true] => None,
            [false, false] => Some(self.down(
                "both members are away".into(),
                format!("start {} and {}", self.name(0), self.name(1)),
            )),
            [zero, _] => {
                let (here, away) = if zero { (0, 1) } else { (1, 0) };
                // A new one, or the other one is waited for.
                let is_new = self.state.store_0 == 0 && self.state.store_1 == 0;
                let (what, means) = match is_new {
                    true => ("the pair is new", "nothing lies on the pair yet"),
                    false => ("who served last is not known", UNREADABLE),
                };
                Some(Finding {
                    check: Check::PairDown,
                    severity: Severity::Critical,
                    subject: self.subject(),
                    what: format!(
                        "{} is there, {} is not: {what}, and the other one is waited for",
                        self.name(here),
                        self.name(away)
                    ),
                    means,
                    todo: format!("start {}", self.name(away)),
                })
            }
        }
    }

    fn alone(&self, serving: u32, other: u32) -> Finding {
        let (name, server) = (self.name(other), self.name(serving));
        let member = self.member(other);
        let disk = member
            .and_then(|it| it.report.as_ref())
            .map(|report| report.disk_error.as_str())
            .filter(|error| !error.is_empty());
        let (why, todo) = match (member, disk) {
            (Some(it), _) if it.is_replaced => (
                format!("{name} is being replaced and waits for a server with an empty directory"),
                format!("start {name} with an empty directory"),
            ),
            (Some(it), Some(error)) if it.alive => (
                format!("{name} was taken out of service: {error}"),
                format!("see to the disk of {name}, then start it again"),
            ),
            (Some(it), _) if it.alive => (
                format!("{name} is there, and is not being filled yet"),
                "wait; if it stays so, look at the log of both: they may not reach each other"
                    .into(),
            ),
            (Some(it), _) if it.address.is_empty() => (
                format!("{name} has never been started"),
                format!("start {name}"),
            ),
            _ => (
                format!("{name} is away"),
                format!(
                    "start {name}; if its disk is lost for good, `weft pair replace {} --member {other}`",
                    self.state.pair
                ),
            ),
        };
        Finding {
            check: Check::OneCopy,
            severity: Severity::Critical,
            subject: self.subject(),
            what: format!("{server} serves alone: {why}"),
            means: ONE_COPY,
            todo,
        }
    }

    fn recovering(&self, serving: u32, other: u32) -> Finding {
        let report = self.member(serving).and_then(|it| it.report.as_ref());
        let so_far = match report {
            Some(report) if report.job_total > 0 => {
                let part = report.job_done.min(report.job_total) as f64 / report.job_total as f64;
                format!(", {:.0} % so far", part * 100.0)
            }
            _ => String::new(),
        };
        Finding {
            check: Check::OneCopy,
            severity: Severity::Critical,
            subject: self.subject(),
            what: format!(
                "{} is being filled from {}{so_far}",
                self.name(other),
                self.name(serving)
            ),
            means: "all of it is read and written; what has not been copied yet is at one member only",
            todo: "wait".into(),
        }
    }

    fn of_report(
        &self,
        member: &MemberStatus,
        report: &MemberReport,
        version: &str,
        findings: &mut Vec<Finding>,
    ) {
        let name = self.name(member.member);
        let mut found = |check, severity, what: String, means, todo: &str| {
            findings.push(Finding {
                check,
                severity,
                subject: name.clone(),
                what,
                means,
                todo: todo.to_owned(),
            });
        };
        if report.lost_ranges > 0 {
            found(
                Check::Losses,
                Severity::Critical,
                format!(
                    "{} bytes of {} objects are known to be lost",
                    report.lost_bytes, report.lost_objects
                ),
                "reads of these ranges fail with EIO",
                "`weft losses` names the files; write them anew, or acknowledge the losses",
            );
        }
        if !report.disk_error.is_empty() {
            found(
                Check::Disk,
                Severity::Degraded,
                format!("its disk fails: {}", report.disk_error),
                "the other member serves without it",
                "see to the disk, then start the server again",
            );
        } else if report.reads_of_twin > 0 {
            found(
                Check::Disk,
                Severity::Degraded,
                format!(
                    "{} reads were answered with the other member's bytes",
                    report.reads_of_twin
                ),
                NOT_YET,
                "see to the disk",
            );
        }
        if report.bad_blocks > 0 {
            let unhealed = report.bad_blocks.saturating_sub(report.healed_blocks);
            let (severity, means) = match unhealed {
                0 => (Severity::Degraded, NOT_YET),
                _ => (
                    Severity::Critical,
                    "reads of these blocks may fail with EIO",
                ),
            };
            found(
                Check::BadBlocks,
                severity,
                format!(
                    "{} blocks had other bytes than were written, {} were healed",
                    report.bad_blocks, report.healed_blocks
                ),
                means,
                "`weft scrub` looks at all blocks; a disk that returns more of them is to be replaced",
            );
        }
        if report.mismatches > 0 {
            found(
                Check::Copies,
                Severity::Degraded,
                format!(
                    "{} blocks differ from the other member's",
                    report.mismatches
                ),
                "two readers may see different bytes there",
                "`weft fsck --data --repair`",
            );
        }
        if report.total_bytes > 0 && report.free_bytes < report.total_bytes / ROOM_PARTS {
            found(
                Check::Room,
                Severity::Degraded,
                format!(
                    "{} % of its disk are free ({} of {} MiB)",
                    report.free_bytes * 100 / report.total_bytes.max(1),
                    report.free_bytes >> 20,
                    report.total_bytes >> 20
                ),
                "writes that need more room fail with ENOSPC",
                "add a pair and `weft rebalance`, or delete something; `weft checkpoint list` shows what checkpoints keep",
            );
        }
        if report.clock_off_ms.unsigned_abs() > CLOCKS_MS {
            found(
                Check::Clocks,
                Severity::Degraded,
                format!(
                    "its clock is {} s {} the metadata server's",
                    report.clock_off_ms.unsigned_abs() / 1_000,
                    if report.clock_off_ms > 0 {
                        "ahead of"
                    } else {
                        "behind"
                    }
                ),
                "times in logs do not fit together; nothing else depends on them",
                "see to the time service of the machine",
            );
        }
        if !report.version.is_empty() && report.version != version {
            found(
                Check::Versions,
                Severity::Degraded,
                format!(
                    "it is version {}, the metadata server {version}",
                    report.version
                ),
                NOT_YET,
                "finish the upgrade",
            );
        }
    }

    /// Both are said to have the same, and one has far less.
    fn shrunk(&self) -> Option<Finding> {
        if self.state.mode() != Mode::Both || self.state.uncertain {
            return None;
        }
        let objects = |member: u32| {
            let member = self.member(member).filter(|it| it.alive)?;
            Some(member.report.as_ref()?.objects)
        };
        let (zero, one) = (objects(0)?, objects(1)?);
        let (less, fewer, more) = match zero < one {
            true => (0, zero, one),
            false => (1, one, zero),
        };
        (more > OBJECTS_MIN && fewer < more / 2).then(|| Finding {
            check: Check::Shrunk,
            severity: Severity::Critical,
            subject: self.name(less),
            what: format!("it has {fewer} objects, and the other member has {more}"),
            means: "what it lacks is at one member only, and reads of it are answered by that one",
            todo: format!(
                "look at its directory: was something deleted there? Then `weft pair replace {} --member {less}`, and start \
                 it with an empty directory",
                self.state.pair
            ),
        })
    }
}

#[cfg(test)]
#[path = "pairs_tests.rs"]
mod tests;
