//! `weft health`: what is wrong, since when, what it means and what to do, worst first (`docs/protocols/health.md`).
//!
//! Each group's active is asked what it finds. That one does not answer only the tool can find.

use crate::error::{Error, Result};
use crate::groups::Groups;
use crate::output::{say, show};
use crate::table;
use crate::tool::{Tool, Where};
use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use weft_env::Env;
use weft_health::{Check, Finding as Found, Severity, Verdict};
use weft_types::{FIRST_GROUP, GroupId};
use weft_wire::proto::finding;
use weft_wire::proto::{Finding, GroupStatusReply, GroupStatusRequest, HealthReply, HealthRequest};

/// The first group answers by then, or not.
const FIRST_PATIENCE: Duration = Duration::from_millis(2_000);
/// A group besides it, and a server that is asked where it stands. With the above, all is told within 5 s.
const OTHERS_PATIENCE: Duration = Duration::from_millis(1_500);
/// While nobody leads: takeovers take less.
const LEADER_PATIENCE: Duration = Duration::from_millis(1_500);
/// Between two looks of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// `weft health`
#[derive(Args)]
pub struct HealthCommand {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    /// Looks again and again, and tells what has changed.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    cluster: Where,
}

/// What was found, worst first.
pub struct Health {
    /// The exit code.
    pub verdict: Verdict,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Runs `weft health`.
///
/// # Errors
/// [`Error::Verdict`] if anything is wrong.
pub async fn run(env: Env, command: HealthCommand) -> Result<()> {
    let mut before: Option<Vec<(String, String, String)>> = None;
    loop {
        let health = look(&env, &command.cluster).await;
        // How long it has been so is no change.
        let named = |it: &Finding| (it.check.clone(), it.subject.clone(), it.what.clone());
        let now: Vec<(String, String, String)> = health.findings.iter().map(named).collect();
        if before.as_ref() != Some(&now) {
            match command.json {
                true => say!("{}", health.to_json())?,
                false => show!("{}", health.to_text())?,
            }
        }
        before = Some(now);
        if !command.watch {
            return match health.verdict {
                Verdict::Well => Ok(()),
                wrong => Err(Error::Verdict(wrong as u8)),
            };
        }
        env.sleep(WATCH_EVERY).await;
    }
}

/// Asks everybody. Whatever does not answer is a finding.
async fn look(env: &Env, cluster: &Where) -> Health {
    let addresses = match cluster.meta_addresses() {
        Ok(addresses) => addresses,
        Err(error) => return Health::unknown(error.to_string()),
    };
    let asking = async {
        let tool = cluster.connect(env).await?.impatient(LEADER_PATIENCE);
        let reply = tool.call(&HealthRequest {}).await?;
        Ok::<_, Error>((tool, reply))
    };
    let (tool, first) = match env.timeout(FIRST_PATIENCE, asking).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => return without_first(env, &addresses, error.to_string()).await,
        Err(_) => {
            let why = format!("no answer within {FIRST_PATIENCE:?}");
            return without_first(env, &addresses, why).await;
        }
    };
    let others = first.groups.iter().filter(|group| **group != FIRST_GROUP.0);
    let asked = others.map(|group| async {
        let asking = async {
            let of = tool.of_group(GroupId(*group)).await?;
            of.impatient(LEADER_PATIENCE).call(&HealthRequest {}).await
        };
        let answer = env.timeout(OTHERS_PATIENCE, asking).await;
        let answer = answer.unwrap_or_else(|_| {
            let why = format!("no answer within {OTHERS_PATIENCE:?}");
            Err(Error::Unreachable(why))
        });
        (*group, answer)
    });
    let others = join_all(asked).await;
    Health::of(first, others)
}

/// Who is there, where none of those who were asked leads the first group.
async fn without_first(env: &Env, addresses: &[String], why: String) -> Health {
    let asked = addresses.iter().map(|address| async move {
        let asking = async {
            let tool = Tool::connect(env, address).await?;
            tool.call(&GroupStatusRequest {}).await
        };
        let answer = env.timeout(OTHERS_PATIENCE, asking).await;
        (address, answer.ok().and_then(Result::ok))
    });
    let said = join_all(asked).await;
    if said.iter().all(|(_, answer)| answer.is_none()) {
        return Health::unknown(format!(
            "no metadata server answers (asked: {}): {why}",
            addresses.join(", ")
        ));
    }
    let each = said.iter().map(|(address, answer)| match answer {
        None => format!("{address} does not answer"),
        Some(answer) => format!("{address} {}", stands(answer)),
    });
    let each: Vec<String> = each.collect();
    let found = does_not_lead(FIRST_GROUP.0, &format!("{why}; {}", each.join("; ")));
    Health {
        verdict: Verdict::Critical,
        findings: vec![found],
    }
}

/// Where a member stands, in words.
fn stands(answer: &GroupStatusReply) -> String {
    let id = format!("(meta:{}.{})", answer.group, answer.member);
    match answer.hears {
        _ if answer.leads => format!("{id} leads"),
        0 => format!("{id} hears nobody who leads"),
        other => format!("{id} follows member {other}"),
    }
}

fn does_not_lead(group: u32, why: &str) -> Finding {
    let found = Found {
        check: Check::Metadata,
        severity: Severity::Critical,
        subject: format!("group {group}"),
        what: format!("nobody who leads it answers: {why}"),
        means: "its part of the name space can be neither read nor changed; accesses wait, and fail in the end",
        todo: "start its metadata servers: a majority of them is needed".into(),
    };
    found.to_proto(0)
}

impl Health {
    fn of(first: HealthReply, others: Vec<(u32, Result<HealthReply>)>) -> Health {
        let version = first.version;
        let mut findings = first.findings;
        for (group, answer) in others {
            match answer {
                Ok(answer) => {
                    if answer.version != version {
                        findings.push(differs(group, &answer.version, &version));
                    }
                    findings.extend(answer.findings);
                }
                Err(error) => findings.push(does_not_lead(group, &error.to_string())),
            }
        }
        // What a later version may add is no better than the worst.
        let rank = |it: &Finding| match it.severity() {
            finding::Severity::Degraded => 1,
            finding::Severity::Critical | finding::Severity::Unspecified => 0,
        };
        findings.sort_by_key(rank);
        Health {
            verdict: Verdict::of(&findings),
            findings,
        }
    }

    /// What all groups find that answer.
    pub async fn of_groups(groups: &Groups) -> Result<Health> {
        let first = groups.tool(FIRST_GROUP).await?;
        let first = first.call(&HealthRequest {}).await?;
        let others = groups.ids().into_iter().filter(|it| *it != FIRST_GROUP);
        let asked = others.map(|group| async move {
            let asking = async { groups.tool(group).await?.call(&HealthRequest {}).await };
            (group.0, asking.await)
        });
        let others = join_all(asked).await;
        Ok(Health::of(first, others))
    }

    /// Nobody answers who could tell.
    fn unknown(why: String) -> Health {
        let found = Found {
            check: Check::Metadata,
            severity: Severity::Critical,
            subject: "cluster".into(),
            what: why,
            means: "whether data can be read is not known",
            todo: "start the metadata servers, or name others: `--meta HOST:PORT,...`".into(),
        };
        Health {
            verdict: Verdict::Unknown,
            findings: vec![found.to_proto(0)],
        }
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.in_a_line());
        for found in &self.findings {
            out += &format!("{}\n", head(found));
            out += &format!("    means: {}\n", found.means);
            out += &format!(
                "    do:    {} (docs/operating/{})\n",
                found.todo, found.page
            );
        }
        out
    }

    /// At the head of `weft status`.
    pub fn heads(&self) -> String {
        let mut out = format!("health: {}\n", self.in_a_line());
        for found in &self.findings {
            out += &format!("  {}\n", head(found));
        }
        out
    }

    fn in_a_line(&self) -> String {
        match (self.verdict, self.findings.len()) {
            (Verdict::Well, _) => "well".into(),
            (verdict, 1) => format!("{}: one thing is wrong", verdict.name()),
            (verdict, many) => format!("{}: {many} things are wrong", verdict.name()),
        }
    }

    /// For programs: the names of keys and checks are stable.
    pub fn to_json(&self) -> Value {
        let each = |found: &Finding| {
            json!({
                "check": found.check,
                "severity": severity(found),
                "subject": found.subject,
                "what": found.what,
                "means": found.means,
                "todo": found.todo,
                "page": found.page,
                "for_ms": found.for_ms,
            })
        };
        json!({
            "verdict": self.verdict.name(),
            "exit_code": self.verdict as u8,
            "findings": self.findings.iter().map(each).collect::<Vec<Value>>(),
        })
    }
}

fn severity(found: &Finding) -> &'static str {
    match found.severity() {
        finding::Severity::Degraded => "degraded",
        finding::Severity::Critical | finding::Severity::Unspecified => "critical",
    }
}

fn head(found: &Finding) -> String {
    let since = match found.for_ms {
        0..1_000 => String::new(),
        ms => format!(", for {}", table::seconds(ms as f64 / 1e3)),
    };
    format!(
        "{} {} {}{since}: {}",
        severity(found).to_uppercase(),
        found.check,
        found.subject,
        found.what
    )
}

fn differs(group: u32, version: &str, first: &str) -> Finding {
    let found = Found {
        check: Check::Versions,
        severity: Severity::Degraded,
        subject: format!("group {group}"),
        what: format!(
            "its server that leads is version {version}, that of the first group {first}"
        ),
        means: "nothing, yet",
        todo: "finish the upgrade".into(),
    };
    found.to_proto(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(version: &str, severities: &[i32]) -> HealthReply {
        let finding = |severity: &i32| Finding {
            check: "room".into(),
            severity: *severity,
            subject: "data:0.1".into(),
            what: "full".into(),
            for_ms: 61_000,
            ..Finding::default()
        };
        HealthReply {
            version: version.into(),
            findings: severities.iter().map(finding).collect(),
            groups: vec![0],
        }
    }

    #[test]
    fn the_worst_comes_first_and_what_does_not_answer_is_a_finding() {
        let health = Health::of(reply("1", &[]), Vec::new());
        assert_eq!(
            (health.verdict, health.to_text().as_str()),
            (Verdict::Well, "well\n")
        );
        let silent = Err(Error::Unreachable("gone".into()));
        let others = vec![(1, Ok(reply("2", &[1]))), (2, silent)];
        let health = Health::of(reply("1", &[1]), others);
        assert_eq!(health.verdict, Verdict::Critical);
        let subjects: Vec<&str> = health.findings.iter().map(|it| &*it.subject).collect();
        assert_eq!(subjects, ["group 2", "data:0.1", "group 1", "data:0.1"]);
        let text = health.to_text();
        assert!(
            text.starts_with("critical: 4 things are wrong\nCRITICAL metadata group 2: "),
            "{text}"
        );
        assert!(
            text.contains("DEGRADED room data:0.1, for 61.0 s: full"),
            "{text}"
        );
        let json = health.to_json();
        assert_eq!(
            (json["exit_code"].as_u64(), json["verdict"].as_str()),
            (Some(2), Some("critical"))
        );
    }

    #[test]
    fn where_nobody_answers_it_is_not_known_and_said_in_time() {
        weft_env::real::run(async |env| {
            let gone = env.listen("127.0.0.1:0").await.unwrap().address();
            let cluster = Where {
                meta: Some(format!("{gone},{gone}")),
                dir: None,
            };
            let began = env.now();
            let health = look(&env, &cluster).await;
            assert_eq!(health.verdict, Verdict::Unknown);
            assert!(health.findings[0].what.contains(&gone));
            assert!(env.now().since(began) < Duration::from_secs(5));
        })
        .unwrap();
    }
}
