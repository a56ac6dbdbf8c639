//! `weft status`: pairs, states, epochs, space, rates, recovery.

use crate::error::Result;
use crate::groups::Groups;
use crate::health::Health;
use crate::output::{say, show};
use crate::table;
use crate::tool::Where;
use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_env::Env;
use weft_types::FIRST_GROUP;
use weft_wire::proto::group_member::Role;
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{
    Group, MemberReport, MemberStatus, PairState, PairStatus, StatusReply, View,
};

/// Between the two looks at the counters from which rates are computed: some ten beats.
const RATE_INTERVAL: Duration = Duration::from_millis(500);

/// `weft status`
#[derive(Args)]
pub struct StatusCommand {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Where,
}

/// Runs `weft status`.
///
/// # Errors
/// If no metadata server answers.
pub async fn run(env: Env, command: StatusCommand) -> Result<()> {
    let groups = Groups::of(command.cluster.connect(&env).await?).await?;
    let start = env.now();
    env.sleep(RATE_INTERVAL).await;
    let reply = groups.tool(FIRST_GROUP).await?.status().await?;
    let before = &groups.status;
    let elapsed = env.now().since(start).as_secs_f64();
    let rates = rates(before, &reply, elapsed);
    let others = others(&groups).await;
    let health = Health::of_groups(&groups).await?;
    if command.json {
        let mut object = to_json_with(&reply, &others);
        object["health"] = health.to_json();
        for (pair, rates) in rates.iter().enumerate() {
            object["pairs"][pair]["read_bytes_per_second"] = json!(rates.0);
            object["pairs"][pair]["written_bytes_per_second"] = json!(rates.1);
        }
        say!("{object}")?;
    } else {
        show!("{}{}", health.heads(), to_text_with(&reply, &others))?;
        for (pair, (read, written)) in reply.pairs.iter().zip(rates) {
            say!(
                "pair {}: {}/s read, {}/s written",
                state_of(pair).pair,
                table::bytes(read),
                table::bytes(written)
            )?;
        }
    }
    Ok(())
}

/// What the groups besides the first say of themselves, or why they do not.
type Others = BTreeMap<u32, std::result::Result<StatusReply, String>>;

/// Asks them all at once.
async fn others(groups: &Groups) -> Others {
    let others = groups.ids().into_iter();
    let others = others.filter(|group| *group != FIRST_GROUP);
    let asked = others.map(|group| async move {
        let asking = async { groups.tool(group).await?.status().await };
        (group.0, asking.await.map_err(|error| error.to_string()))
    });
    join_all(asked).await.into_iter().collect()
}

/// Bytes a second read from and written to each pair; a copy counts as written once.
fn rates(before: &StatusReply, after: &StatusReply, seconds: f64) -> Vec<(u64, u64)> {
    let sums = |pair: Option<&PairStatus>| {
        let reports = pair
            .into_iter()
            .flat_map(|pair| &pair.members)
            .filter_map(|member| member.report.as_ref());
        reports.fold((0, 0), |(read, written), report| {
            (read + report.bytes_read, report.bytes_written.max(written))
        })
    };
    let rate = |before: u64, after: u64| (after.saturating_sub(before) as f64 / seconds) as u64;
    after
        .pairs
        .iter()
        .enumerate()
        .map(|(at, pair)| {
            let (old, new) = (sums(before.pairs.get(at)), sums(Some(pair)));
            (rate(old.0, new.0), rate(old.1, new.1))
        })
        .collect()
}

fn state_of(pair: &PairStatus) -> PairState {
    pair.state.unwrap_or_default()
}

/// True if some member of the pair serves and is there.
pub fn pair_serves(pair: &PairStatus) -> bool {
    let state = state_of(pair);
    let alive = |member: u32| {
        pair.members
            .iter()
            .any(|one| one.member == member && one.alive)
    };
    match state.mode() {
        _ if state.uncertain => false,
        Mode::Both => alive(0) && alive(1),
        Mode::Only | Mode::Recovering => alive(state.serving),
        Mode::Down | Mode::Unspecified => false,
    }
}

/// The word of docs/protocols/pairs.md.
pub fn mode_name(state: &PairState) -> String {
    match state.mode() {
        _ if state.uncertain => "uncertain".into(),
        Mode::Unspecified => "unknown".into(),
        Mode::Both => "both".into(),
        Mode::Only => format!("only {}", state.serving),
        Mode::Recovering => format!("recovering {}", 1 - state.serving.min(1)),
        Mode::Down => "down".into(),
    }
}

/// The groups by number: in the view they stand as they were entered.
fn in_order(view: &View) -> Vec<&Group> {
    let mut groups: Vec<&Group> = view.groups.iter().collect();
    groups.sort_unstable_by_key(|group| group.id);
    groups
}

/// The word of docs/protocols/groups.md.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Active => "active",
        Role::Standby => "standby",
        Role::Junior | Role::Unspecified => "junior",
    }
}

/// True if whoever of the group leads is killed, another can take over: no member is a junior.
pub fn all_count(group: &Group) -> bool {
    let is_junior = |role| matches!(role, Role::Junior | Role::Unspecified);
    !group.members.iter().any(|member| is_junior(member.role()))
}

fn group_to_json(group: &Group) -> Value {
    let members = group.members.iter().map(|member| {
        json!({
            "id": member.id,
            "address": member.address,
            "role": role_name(member.role()),
        })
    });
    json!({
        "group": group.id,
        "epoch": group.epoch,
        "members": members.collect::<Vec<Value>>(),
    })
}

/// Whether a member's copy is the pair's truth.
fn copy_of(state: &PairState, member: &MemberStatus) -> &'static str {
    match state.mode() {
        Mode::Both => "current",
        Mode::Only | Mode::Down if state.serving == member.member => "current",
        Mode::Recovering if state.serving == member.member => "current",
        Mode::Recovering => "being filled",
        Mode::Only | Mode::Down => "behind",
        Mode::Unspecified => "unknown",
    }
}

fn job_in_words(report: &MemberReport) -> String {
    if report.job.is_empty() {
        return String::new();
    }
    let mut words = report.job.clone();
    if report.job_total > 0 {
        words += &format!(
            " {:.0} % of {}",
            report.job_done.min(report.job_total) as f64 * 100.0 / report.job_total as f64,
            table::bytes(report.job_total)
        );
    }
    if report.job_rate_bytes > 0 {
        words += &format!(", {}/s", table::bytes(report.job_rate_bytes));
        if let Some(left) = seconds_left(report) {
            words += &format!(", {} left", table::seconds(left));
        }
    }
    words
}

/// What only this member has, of what it acknowledged (docs/protocols/duplication.md).
fn owed_in_words(report: &MemberReport) -> String {
    format!(
        "owes {} of {} objects, the oldest for {}",
        table::bytes(report.owed_bytes),
        report.owed_objects,
        table::seconds(report.owed_ms as f64 / 1e3)
    )
}

/// What is known to be lost (docs/protocols/losses.md).
fn lost_in_words(report: &MemberReport) -> String {
    format!(
        "{} of {} objects lost: see weft losses",
        table::bytes(report.lost_bytes),
        report.lost_objects
    )
}

fn seconds_left(report: &MemberReport) -> Option<f64> {
    (report.job_rate_bytes > 0 && report.job_total > 0).then(|| {
        report.job_total.saturating_sub(report.job_done) as f64 / report.job_rate_bytes as f64
    })
}

/// For people.
pub fn to_text(reply: &StatusReply) -> String {
    to_text_with(reply, &Others::new())
}

/// What there is in one group, or in all.
fn counts_in_words(reply: &StatusReply) -> String {
    let held = match reply.held {
        0 => String::new(),
        held => format!(" (checkpoints keep what {held} files were)"),
    };
    format!(
        "{} inodes, {} sessions, {} objects to be deleted{held}, {} of memory",
        reply.inodes,
        reply.sessions,
        reply.deletions_queued,
        table::bytes(reply.memory_bytes),
    )
}

/// What there is in all groups that answer. A client has a session with the first group, and with those others
/// that it has needed: the first one's are the number of clients.
fn sum(reply: &StatusReply, others: &Others) -> StatusReply {
    let mut sum = StatusReply {
        inodes: reply.inodes,
        sessions: reply.sessions,
        deletions_queued: reply.deletions_queued,
        memory_bytes: reply.memory_bytes,
        held: reply.held,
        ..StatusReply::default()
    };
    for other in others.values().flatten() {
        sum.inodes += other.inodes;
        sum.deletions_queued += other.deletions_queued;
        sum.memory_bytes += other.memory_bytes;
        sum.held += other.held;
    }
    sum
}

fn to_text_with(reply: &StatusReply, others: &Others) -> String {
    let view = reply.view.clone().unwrap_or_default();
    let mut out = if others.is_empty() {
        format!(
            "cluster {}, metadata epoch {}, sn {}: {}\n",
            view.cluster_id,
            reply.epoch,
            reply.sn,
            counts_in_words(reply)
        )
    } else {
        let silent = others.values().filter(|other| other.is_err()).count();
        let without = match silent {
            0 => String::new(),
            silent => format!(" (without {silent} groups, which do not answer)"),
        };
        format!(
            "cluster {}, {} metadata groups: {}{without}\n",
            view.cluster_id,
            others.len() + 1,
            counts_in_words(&sum(reply, others))
        )
    };
    for group in in_order(&view) {
        let members = group.members.iter().map(|member| {
            let role = role_name(member.role());
            format!("{} {role} ({})", member.id, member.address)
        });
        let members: Vec<String> = members.collect();
        out += &format!("metadata group {}: {}\n", group.id, members.join(", "));
        let said = match group.id {
            _ if others.is_empty() => continue,
            id if id == FIRST_GROUP.0 => Ok(reply),
            id => others.get(&id).map_or(Ok(reply), |other| other.as_ref()),
        };
        out += &match said {
            Ok(said) => format!(
                "  epoch {}, sn {}: {}\n",
                said.epoch,
                said.sn,
                counts_in_words(said)
            ),
            Err(why) => format!("  DOES NOT ANSWER: {why}\n"),
        };
    }
    out += "\n";
    let mut rows = Vec::new();
    for pair in &reply.pairs {
        let state = state_of(pair);
        for (at, member) in pair.members.iter().enumerate() {
            let first = |cell: String| if at == 0 { cell } else { String::new() };
            let report = member.report.clone().unwrap_or_default();
            let mut notes = vec![job_in_words(&report)];
            if member.is_awaited {
                notes.push("AWAITED: it may know who served last".into());
            }
            if member.is_replaced {
                notes.push("is being replaced: waits for a server with an empty directory".into());
            }
            if !report.disk_error.is_empty() {
                notes.push(format!("DISK FAILS: {}", report.disk_error));
            }
            if report.owed_bytes > 0 {
                notes.push(owed_in_words(&report));
            }
            if report.lost_ranges > 0 {
                notes.push(lost_in_words(&report));
            }
            if report.dirty_regions > 0 {
                notes.push(format!("{} regions may differ", report.dirty_regions));
            }
            if report.bad_blocks > 0 {
                notes.push(format!(
                    "{} bad blocks, {} healed",
                    report.bad_blocks, report.healed_blocks
                ));
            }
            if report.mismatches > 0 {
                notes.push(format!("{} mismatches", report.mismatches));
            }
            notes.retain(|note| !note.is_empty());
            rows.push(vec![
                first(state.pair.to_string()),
                first(mode_name(&state)),
                first(state.epoch.to_string()),
                format!("data:{}.{}", state.pair, member.member),
                if member.alive {
                    "up".into()
                } else if member.address.is_empty() {
                    "never seen".into()
                } else {
                    let silent = table::seconds(member.silent_ms as f64 / 1e3);
                    match member.is_silent_longer {
                        true => format!("away {silent} or more"),
                        false => format!("away {silent}"),
                    }
                },
                copy_of(&state, member).into(),
                table::bytes(report.free_bytes),
                report.objects.to_string(),
                notes.join("; "),
            ]);
        }
    }
    out += &table::render(
        &[
            "pair", "state", "epoch", "member", "process", "copy", "free", "objects", "notes",
        ],
        rows,
    );
    for job in &reply.jobs {
        out += &format!("{}\n", crate::jobs::in_words(job));
    }
    out
}

/// For programs.
pub fn to_json(reply: &StatusReply) -> Value {
    to_json_with(reply, &Others::new())
}

/// With several groups: of each what is its own.
fn add_counts(object: &mut Value, said: std::result::Result<&StatusReply, &String>) {
    object["answers"] = json!(said.is_ok());
    match said {
        Ok(said) => {
            object["sn"] = json!(said.sn);
            object["inodes"] = json!(said.inodes);
            object["sessions"] = json!(said.sessions);
            object["deletions_queued"] = json!(said.deletions_queued);
            object["memory_bytes"] = json!(said.memory_bytes);
            object["held"] = json!(said.held);
            object["digest"] = json!(said.digest);
        }
        Err(why) => object["why"] = json!(why),
    }
}

fn to_json_with(reply: &StatusReply, others: &Others) -> Value {
    let view = reply.view.clone().unwrap_or_default();
    let member = |state: &PairState, one: &MemberStatus| {
        let report = one.report.clone().unwrap_or_default();
        json!({
            "member": one.member,
            "name": format!("data:{}.{}", state.pair, one.member),
            "address": one.address,
            "alive": one.alive,
            "copy": copy_of(state, one),
            "silent_ms": one.silent_ms,
            "is_silent_longer": one.is_silent_longer,
            "is_awaited": one.is_awaited,
            "is_replaced": one.is_replaced,
            "total_bytes": report.total_bytes,
            "free_bytes": report.free_bytes,
            "objects": report.objects,
            "bytes_read": report.bytes_read,
            "bytes_written": report.bytes_written,
            "bad_blocks": report.bad_blocks,
            "disk_error": report.disk_error,
            "reads_of_twin": report.reads_of_twin,
            "healed_blocks": report.healed_blocks,
            "dirty_regions": report.dirty_regions,
            "owed_bytes": report.owed_bytes,
            "owed_objects": report.owed_objects,
            "owed_ms": report.owed_ms,
            "lost_ranges": report.lost_ranges,
            "lost_bytes": report.lost_bytes,
            "lost_objects": report.lost_objects,
            "mismatches": report.mismatches,
            "job": report.job,
            "job_done": report.job_done,
            "job_total": report.job_total,
            "job_bytes_per_second": report.job_rate_bytes,
            "job_seconds_left": seconds_left(&report),
        })
    };
    let pairs: Vec<Value> = reply
        .pairs
        .iter()
        .map(|pair| {
            let state = state_of(pair);
            let members: Vec<Value> = pair.members.iter().map(|one| member(&state, one)).collect();
            json!({
                "pair": state.pair,
                "state": mode_name(&state),
                "epoch": state.epoch,
                "serves": pair_serves(pair),
                "members": members,
            })
        })
        .collect();
    let groups = in_order(&view).into_iter().map(|group| {
        let mut object = group_to_json(group);
        if group.id == FIRST_GROUP.0 && !others.is_empty() {
            add_counts(&mut object, Ok(reply));
        } else if let Some(other) = others.get(&group.id) {
            add_counts(&mut object, other.as_ref());
        }
        object
    });
    let sum = sum(reply, others);
    json!({
        "cluster": view.cluster_id,
        "epoch": reply.epoch,
        "sn": reply.sn,
        "inodes": sum.inodes,
        "sessions": sum.sessions,
        "deletions_queued": sum.deletions_queued,
        "memory_bytes": sum.memory_bytes,
        "held": sum.held,
        "digest": reply.digest,
        "groups": groups.collect::<Vec<Value>>(),
        "pairs": pairs,
        "jobs": reply.jobs.iter().map(crate::jobs::to_json).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::View;

    fn pair(mode: Mode, serving: u32, alive: [bool; 2]) -> PairStatus {
        let members = (0..2)
            .map(|member| MemberStatus {
                member,
                alive: alive[member as usize],
                address: "a".into(),
                ..MemberStatus::default()
            })
            .collect();
        let state = PairState {
            pair: 0,
            epoch: 1,
            mode: mode as i32,
            serving,
            ..PairState::default()
        };
        PairStatus {
            state: Some(state),
            members,
        }
    }

    #[test]
    fn a_pair_serves_if_the_member_that_may_is_there() {
        assert!(pair_serves(&pair(Mode::Both, 0, [true, true])));
        assert!(!pair_serves(&pair(Mode::Both, 0, [true, false])));
        assert!(pair_serves(&pair(Mode::Only, 1, [false, true])));
        assert!(!pair_serves(&pair(Mode::Only, 1, [true, false])));
        assert!(!pair_serves(&pair(Mode::Down, 0, [true, true])));
    }

    #[test]
    fn a_recovery_says_how_long_it_takes() {
        let report = MemberReport {
            job: "recovery".into(),
            job_done: 1 << 20,
            job_total: 4 << 20,
            job_rate_bytes: 1 << 20,
            ..MemberReport::default()
        };
        assert_eq!(
            job_in_words(&report),
            "recovery 25 % of 4.0 MiB, 1.0 MiB/s, 3.0 s left"
        );
    }

    #[test]
    fn what_a_member_owes_is_said() {
        let mut reply = StatusReply {
            pairs: vec![pair(Mode::Both, 0, [true, true])],
            ..StatusReply::default()
        };
        assert!(!to_text(&reply).contains("owes"));
        reply.pairs[0].members[1].report = Some(MemberReport {
            owed_bytes: 3 << 20,
            owed_objects: 2,
            owed_ms: 20,
            ..MemberReport::default()
        });
        let text = to_text(&reply);
        assert!(text.contains("owes 3.0 MiB of 2 objects"), "{text}");
        let json = to_json(&reply);
        assert_eq!(json["pairs"][0]["members"][1]["owed_ms"], 20);
    }

    #[test]
    fn what_is_lost_is_said() {
        let mut reply = StatusReply {
            pairs: vec![pair(Mode::Only, 0, [true, false])],
            ..StatusReply::default()
        };
        assert!(!to_text(&reply).contains("lost"));
        reply.pairs[0].members[0].report = Some(MemberReport {
            lost_ranges: 2,
            lost_bytes: 2 << 20,
            lost_objects: 1,
            ..MemberReport::default()
        });
        let text = to_text(&reply);
        assert!(text.contains("2.0 MiB of 1 objects lost"), "{text}");
        let json = to_json(&reply);
        assert_eq!(json["pairs"][0]["members"][0]["lost_ranges"], 2);
    }

    #[test]
    fn each_group_is_told_and_what_there_is_in_all() {
        let group = |id| Group {
            id,
            ..Group::default()
        };
        let reply = StatusReply {
            view: Some(View {
                cluster_id: "c".into(),
                groups: vec![group(0), group(1), group(2)],
                ..View::default()
            }),
            epoch: 3,
            sn: 40,
            inodes: 10,
            sessions: 2,
            deletions_queued: 1,
            ..StatusReply::default()
        };
        // As it was with one group.
        let alone = to_text(&reply);
        let words = "cluster c, metadata epoch 3, sn 40: 10 inodes, 2 sessions, 1 objects to be deleted, 0 B of memory\n";
        assert!(alone.starts_with(words), "{alone}");
        assert!(to_json(&reply)["groups"][0].get("answers").is_none());

        let second = StatusReply {
            epoch: 5,
            sn: 70,
            inodes: 5,
            sessions: 1,
            held: 4,
            ..StatusReply::default()
        };
        let others = Others::from([(1, Ok(second)), (2, Err("no one leads".into()))]);
        let text = to_text_with(&reply, &others);
        for part in [
            "3 metadata groups: 15 inodes, 2 sessions, 1 objects",
            "to be deleted (checkpoints keep what 4 files were), ",
            "without 1 groups",
            "  epoch 5, sn 70: 5 inodes, 1 sessions",
            "DOES NOT ANSWER: no one leads",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = to_json_with(&reply, &others);
        assert_eq!((&json["inodes"], &json["epoch"]), (&json!(15), &json!(3)));
        assert_eq!(json["groups"][0]["inodes"], 10);
        assert_eq!(json["groups"][1]["sn"], 70);
        assert_eq!(json["groups"][2]["answers"], false);
    }

    #[test]
    fn text_and_json_name_every_member() {
        let reply = StatusReply {
            pairs: vec![pair(Mode::Recovering, 1, [true, true])],
            ..StatusReply::default()
        };
        let text = to_text(&reply);
        assert!(
            text.contains("recovering 0") && text.contains("data:0.1"),
            "{text}"
        );
        let json = to_json(&reply);
        assert_eq!(json["pairs"][0]["members"][0]["copy"], "being filled");
    }
}
