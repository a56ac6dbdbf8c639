//! `weft checkpoint`: the name space as it was at one moment, and the way back to it
//! (`docs/protocols/checkpoints.md`).

use crate::error::{Error, Result};
use crate::log::tell;
use crate::output::say;
use crate::table;
use crate::tool::{Tool, Where};
use clap::{Args, Subcommand};
use serde_json::json;
use std::time::Duration;
use weft_env::Env;
use weft_wire::proto::checkpoint::Stage;
use weft_wire::proto::{
    Checkpoint, CheckpointsReply, CheckpointsRequest, CreateCheckpointRequest,
    DeleteCheckpointRequest, RestoreCheckpointRequest,
};

/// How often it is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// `weft checkpoint ...`
#[derive(Args)]
pub struct CheckpointCommand {
    #[command(subcommand)]
    what: CheckpointWhat,
}

#[derive(Subcommand)]
enum CheckpointWhat {
    /// Keeps the name space as it is now, and what files have now, under a name.
    Create {
        /// Letters, digits, '.', '_' and '-'.
        name: String,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// The checkpoints there are, and what they hold.
    List {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Brings the whole name space back to a checkpoint. What was made since is gone, all clients lose what they have
    /// open.
    Restore {
        /// Of the checkpoint.
        name: String,
        /// Does it; without, it is only said what would be lost.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Deletes a checkpoint; what only it has held is dropped.
    Delete {
        /// Of the checkpoint.
        name: String,
        #[command(flatten)]
        cluster: Where,
    },
}

/// Runs it.
///
/// # Errors
/// If no metadata server answers, or the cluster refuses (the message says why).
pub async fn run(env: Env, command: CheckpointCommand) -> Result<()> {
    match command.what {
        CheckpointWhat::Create {
            name,
            json,
            cluster,
        } => create(&env, &cluster.connect(&env).await?, name, json).await,
        CheckpointWhat::List { json, cluster } => {
            let reply = cluster
                .connect(&env)
                .await?
                .call(&CheckpointsRequest {})
                .await?;
            match json {
                true => say!("{}", to_json(&reply)),
                false => lines(&reply).iter().try_for_each(|line| say!("{line}")),
            }
        }
        CheckpointWhat::Restore { name, yes, cluster } => {
            restore(&env, &cluster.connect(&env).await?, name, yes).await
        }
        CheckpointWhat::Delete { name, cluster } => {
            let tool = cluster.connect(&env).await?;
            tool.call(&DeleteCheckpointRequest { name: name.clone() })
                .await?;
            say!("checkpoint {name} is deleted")
        }
    }
}

async fn create(env: &Env, tool: &Tool, name: String, as_json: bool) -> Result<()> {
    let begun = env.now();
    let request = CreateCheckpointRequest { name: name.clone() };
    let made = tool.call(&request).await?;
    // The images are written in the background, however long that takes.
    loop {
        let reply = tool.call(&CheckpointsRequest {}).await?;
        let mut listed = reply.checkpoints.iter().filter(|it| it.id == made.id);
        match listed.next().map(Checkpoint::stage) {
            Some(Stage::Kept) => break,
            Some(Stage::Making) => env.sleep(ASK_EVERY).await,
            _ => {
                return Err(Error::Failed(format!(
                    "checkpoint {name} could not be made: a group has lost its active, or its images do not get \
                     written (the metadata servers' logs say more). Try again"
                )));
            }
        }
    }
    let took = env.now().since(begun).as_secs_f64();
    if as_json {
        return say!(
            "{}",
            json!({
                "name": name,
                "id": made.id,
                "held_us": made.held_us,
                "attempts": made.attempts,
                "unwritten": made.unwritten,
                "seconds": took,
            })
        );
    }
    let held = made.held_us as f64 / 1000.0;
    say!(
        "checkpoint {name} is kept (in {}; changes waited for {held:.1} ms)",
        table::seconds(took)
    )?;
    match made.unwritten {
        0 => Ok(()),
        files => say!(
            "{files} file(s) were being written all the time: of these it has what was told by then"
        ),
    }
}

async fn restore(env: &Env, tool: &Tool, name: String, yes: bool) -> Result<()> {
    let reply = tool.call(&CheckpointsRequest {}).await?;
    let Some(found) = reply.checkpoints.iter().find(|it| it.name == name) else {
        return Err(Error::Failed(format!(
            "there is no checkpoint {name} (weft checkpoint list)"
        )));
    };
    if !yes {
        let time = moment(found);
        return Err(Error::Usage(format!(
            "this brings the whole name space back to {time}: all that was made or changed since is lost, and whoever \
             has files open gets ESTALE. To keep what there is, make another checkpoint first. Say --yes if that is \
             meant"
        )));
    }
    let begun = env.now();
    let request = RestoreCheckpointRequest { name: name.clone() };
    let restore = tool.call(&request).await?.restore;
    let mut told = String::new();
    loop {
        let reply = tool.call(&CheckpointsRequest {}).await?;
        let lasts = reply
            .restoring
            .filter(|restoring| restoring.restore == restore);
        if lasts.is_none() {
            break;
        }
        // Counts change all the time: what it waits for is said once a second at most.
        if reply.waits != told && !reply.waits.is_empty() {
            tell!("{}", reply.waits);
            told = reply.waits;
            env.sleep(Duration::from_secs(1)).await;
        }
        env.sleep(ASK_EVERY).await;
    }
    let took = env.now().since(begun).as_secs_f64();
    say!(
        "checkpoint {name} is restored (in {})",
        table::seconds(took)
    )
}

/// When it was made, for people: UTC.
fn moment(checkpoint: &Checkpoint) -> String {
    let seconds = checkpoint.time.map_or(0, |time| time.seconds);
    table::moment(seconds)
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Kept => "kept",
        Stage::Making => "unfinished",
        Stage::Ending => "going",
        Stage::Unspecified => "unknown",
    }
}

fn lines(reply: &CheckpointsReply) -> Vec<String> {
    let mut lines = Vec::new();
    if reply.checkpoints.is_empty() {
        lines.push("no checkpoints".to_owned());
    }
    for (at, checkpoint) in reply.checkpoints.iter().enumerate() {
        let held = reply.held.get(at).copied().unwrap_or(0);
        lines.push(format!(
            "{}  {}  {}, {held} file(s) of which it keeps what is gone",
            checkpoint.name,
            moment(checkpoint),
            stage_name(checkpoint.stage())
        ));
    }
    if let Some(restoring) = &reply.restoring {
        let mut listed = reply.checkpoints.iter();
        let name = listed.find(|it| it.id == restoring.checkpoint);
        lines.push(format!(
            "{} is being restored: {}",
            name.map_or("a checkpoint", |it| &it.name),
            reply.waits
        ));
    }
    lines
}

fn to_json(reply: &CheckpointsReply) -> serde_json::Value {
    let checkpoints = reply
        .checkpoints
        .iter()
        .enumerate()
        .map(|(at, checkpoint)| {
            json!({
                "name": checkpoint.name,
                "id": checkpoint.id,
                "made": checkpoint.time.map(|time| time.seconds),
                "stage": stage_name(checkpoint.stage()),
                "held": reply.held.get(at),
            })
        });
    json!({
        "checkpoints": checkpoints.collect::<Vec<serde_json::Value>>(),
        "restoring": reply.restoring.map(|restoring| restoring.checkpoint),
        "waits": reply.waits,
        "restores": reply.last_restore,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::{Restore, Time};

    #[test]
    fn the_list_says_what_each_is_and_what_is_under_way() {
        let empty = CheckpointsReply::default();
        assert_eq!(lines(&empty), ["no checkpoints"]);
        let checkpoint = |id, name: &str, stage| Checkpoint {
            id,
            name: name.to_owned(),
            time: Some(Time {
                seconds: 1_700_000_000,
                nanos: 0,
            }),
            stage: stage as i32,
        };
        let reply = CheckpointsReply {
            checkpoints: vec![
                checkpoint(1, "monday", Stage::Kept),
                checkpoint(4, "tuesday", Stage::Making),
            ],
            held: vec![7, 0],
            restoring: Some(Restore {
                restore: 3,
                checkpoint: 1,
                time: None,
            }),
            waits: "group 1: 5 sessions end".into(),
            last_restore: 3,
        };
        let said = lines(&reply).join("\n");
        for part in [
            "monday  2023-11-14 22:13:20",
            "kept, 7 file(s)",
            "unfinished, 0 file(s)",
            "monday is being restored: group 1: 5 sessions end",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let json = to_json(&reply);
        assert_eq!(json["checkpoints"][0]["held"], 7);
        assert_eq!(json["checkpoints"][1]["stage"], "unfinished");
        assert_eq!(json["restoring"], 1);
    }
}
