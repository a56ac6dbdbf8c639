//! `weft exposure`: what each data server alone has, and so what its death could cost now.

use crate::error::Result;
use crate::output::{say, show};
use crate::table;
use crate::tool::Where;
use clap::Args;
use serde_json::{Value, json};
use weft_env::Env;
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{MemberStatus, PairState, StatusReply};

/// `weft exposure`
#[derive(Args)]
#[command(
    after_help = "Counted is what an asynchronous protocol has let a client go on with while one server alone has it. \
                  The client keeps it until both have it and sends it again if the server dies: it is lost if the server and \
                  the clients that wrote it die together. Nothing that fsync has returned for is ever among it."
)]
pub struct ExposureCommand {
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Where,
}

/// Runs `weft exposure`.
///
/// # Errors
/// If no metadata server answers.
pub async fn run(env: Env, command: ExposureCommand) -> Result<()> {
    let tool = command.cluster.connect(&env).await?;
    let reply = tool.status().await?;
    let servers = exposures(&reply);
    if command.json {
        say!("{}", to_json(&servers))
    } else {
        show!("{}", to_text(&servers))
    }
}

/// What one data server alone has, as of its last beat.
#[derive(Debug, PartialEq)]
struct Exposure {
    name: String,
    /// It has been heard of lately: the figures are of now.
    is_there: bool,
    files: u64,
    bytes: u64,
    oldest_ms: u64,
    /// No other member of the pair is current: everything on it is on this server alone.
    is_only_copy: bool,
}

fn exposures(reply: &StatusReply) -> Vec<Exposure> {
    let mut servers = Vec::new();
    for pair in &reply.pairs {
        let state = pair.state.unwrap_or_default();
        for member in &pair.members {
            servers.push(of_member(&state, member));
        }
    }
    servers
}

fn of_member(state: &PairState, member: &MemberStatus) -> Exposure {
    let report = member.report.clone().unwrap_or_default();
    let serves_alone = matches!(state.mode(), Mode::Only | Mode::Recovering | Mode::Down);
    Exposure {
        name: format!("data:{}.{}", state.pair, member.member),
        is_there: member.alive,
        files: report.owed_objects,
        bytes: report.owed_bytes,
        oldest_ms: report.owed_ms,
        is_only_copy: serves_alone && state.serving == member.member,
    }
}

fn note(server: &Exposure) -> String {
    match (server.is_only_copy, server.is_there) {
        (true, true) => "the only current copy of its pair".into(),
        (true, false) => "away, with the only current copy of its pair".into(),
        (false, false) => "away".into(),
        (false, true) => String::new(),
    }
}

fn to_text(servers: &[Exposure]) -> String {
    let rows = servers
        .iter()
        .map(|server| {
            vec![
                server.name.clone(),
                server.files.to_string(),
                table::bytes(server.bytes),
                if server.bytes > 0 {
                    table::seconds(server.oldest_ms as f64 / 1e3)
                } else {
                    "-".into()
                },
                note(server),
            ]
        })
        .collect();
    let mut out = table::render(&["server", "files", "on it alone", "oldest", "note"], rows);
    let bytes: u64 = servers.iter().map(|server| server.bytes).sum();
    out += &match bytes {
        0 => "No server alone has anything that a client went on with.\n".to_owned(),
        _ => format!(
            "In all {}: lost only if a server and the clients that wrote through it died now.\n",
            table::bytes(bytes)
        ),
    };
    out
}

fn to_json(servers: &[Exposure]) -> Value {
    let one = |server: &Exposure| {
        json!({
            "server": server.name,
            "there": server.is_there,
            "files": server.files,
            "bytes": server.bytes,
            "oldest_ms": server.oldest_ms,
            "only_copy": server.is_only_copy,
        })
    };
    json!({
        "bytes": servers.iter().map(|server| server.bytes).sum::<u64>(),
        "servers": servers.iter().map(one).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::{MemberReport, PairStatus};

    fn status(mode: Mode) -> StatusReply {
        let member = |member, owed_bytes| MemberStatus {
            member,
            alive: true,
            report: Some(MemberReport {
                owed_bytes,
                owed_objects: owed_bytes.min(2),
                owed_ms: 30,
                ..MemberReport::default()
            }),
            ..MemberStatus::default()
        };
        StatusReply {
            pairs: vec![PairStatus {
                state: Some(PairState {
                    pair: 3,
                    mode: mode as i32,
                    serving: 1,
                    ..PairState::default()
                }),
                members: vec![member(0, 0), member(1, 5 << 20)],
            }],
            ..StatusReply::default()
        }
    }

    #[test]
    fn every_server_is_told_with_what_it_alone_has() {
        let servers = exposures(&status(Mode::Both));
        let json = to_json(&servers);
        assert_eq!(json["bytes"], 5 << 20);
        assert_eq!(json["servers"][1]["server"], "data:3.1");
        assert_eq!(json["servers"][1]["files"], 2);
        assert_eq!(json["servers"][1]["only_copy"], false);
        let text = to_text(&servers);
        assert!(text.contains("5.0 MiB") && text.contains("30 ms"), "{text}");
        assert!(!text.contains("only current copy"), "{text}");
    }

    #[test]
    fn a_member_that_serves_alone_is_told_as_the_only_copy() {
        let servers = exposures(&status(Mode::Recovering));
        let alone: Vec<bool> = servers.iter().map(|server| server.is_only_copy).collect();
        assert_eq!(alone, [false, true]);
        assert!(to_text(&servers).contains("the only current copy of its pair"));
    }
}
