//! `weft losses`: what died with a data server and the client that wrote through it, file by file and
//! range by range; and an operator's word that its present content is to be read again.

use crate::error::{Error, Result};
use crate::groups::{self, Groups};
use crate::mounts;
use crate::output::{say, show};
use crate::table;
use crate::tool::{Where, connect_first};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use weft_env::Env;
use weft_fsck::Survey;
use weft_types::{FIRST_GROUP, GroupId, Ino};
use weft_wire::proto::{AcknowledgeRequest, Loss, LossesReply, LossesRequest};

/// Names of each group that are looked at for the paths of lost files: some seconds.
const NAMES_MAX: u64 = 2_000_000;

/// `weft losses`
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Under an asynchronous protocol data is lost if a data server dies, and with it, before it has sent again what only \
                  that server had, the client. Such ranges are named here, and reading them fails with EIO, until they are written \
                  anew, cut off, acknowledged, or back with the server. Nothing that fsync has returned for is missing from them: \
                  the other server has it, and the ranges are wider than what was lost."
)]
pub struct LossesCommand {
    #[command(subcommand)]
    what: Option<What>,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Where,
}

#[derive(Subcommand)]
enum What {
    /// Lets the ranges be read as they are now: what was there before, or zeros.
    Acknowledge(AcknowledgeOptions),
}

#[derive(Args)]
struct AcknowledgeOptions {
    /// A file on a mount.
    #[arg(required_unless_present_any = ["all", "ino"], conflicts_with_all = ["all", "ino"])]
    file: Option<PathBuf>,
    /// All files.
    #[arg(long, conflicts_with = "ino")]
    all: bool,
    /// A file by its inode number, as `weft losses` shows it: also one without a name.
    #[arg(long, value_name = "NUMBER", value_parser = parse_ino)]
    ino: Option<u64>,
    #[command(flatten)]
    cluster: Where,
}

fn parse_ino(text: &str) -> std::result::Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give the number of an inode, as weft losses shows it".into()),
        Ok(ino) => Ok(ino),
    }
}

/// Runs `weft losses`.
///
/// # Errors
/// [`Error::Unsound`] if pairs could not be asked; if no metadata server answers.
pub async fn run(env: Env, command: LossesCommand) -> Result<()> {
    if let Some(What::Acknowledge(options)) = command.what {
        return acknowledge(env, options).await;
    }
    let groups = Groups::of(command.cluster.connect(&env).await?).await?;
    let first = groups.tool(FIRST_GROUP).await?;
    let mut reply = first.call(&LossesRequest {}).await?;
    if groups.are_several() {
        locate(&groups, &mut reply.losses).await?;
    }
    if command.json {
        say!("{}", to_json(&reply))?;
    } else {
        show!("{}", to_text(&reply))?;
    }
    unknown(&reply.unknown_pairs)
}

/// The first group knows of its own files only where in them a range is, and no path that leads through others:
/// each group is asked about its files, and the names are looked for in all.
async fn locate(groups: &Groups, losses: &mut [Loss]) -> Result<()> {
    let ino_of = |loss: &Loss| Ino(loss.object.unwrap_or_default().ino);
    let wanted: BTreeSet<Ino> = losses.iter().map(ino_of).collect();
    let holders: BTreeSet<GroupId> = wanted
        .iter()
        .map(|ino| groups::of_inode(&groups.view, *ino))
        .filter(|group| *group != FIRST_GROUP)
        .collect();
    for group in holders {
        let told = groups.tool(group).await?.call(&LossesRequest {}).await?;
        let is_same = |loss: &Loss, other: &Loss| {
            let range = |loss: &Loss| (loss.pair, loss.object, loss.start, loss.end);
            range(loss) == range(other)
        };
        let of_group = losses.iter_mut();
        let of_group =
            of_group.filter(|loss| groups::of_inode(&groups.view, ino_of(loss)) == group);
        for loss in of_group {
            if let Some(same) = told.losses.iter().find(|other| is_same(loss, other)) {
                (loss.file_start, loss.file_end) = (same.file_start, same.file_end);
            }
        }
    }
    let unnamed = losses.iter().filter(|loss| loss.path.is_empty());
    let unnamed: BTreeSet<Ino> = unnamed.map(ino_of).collect();
    if unnamed.is_empty() {
        return Ok(());
    }
    let survey = Survey::of(groups, &groups.ids()).await?;
    let named = weft_fsck::find_names(&survey, &unnamed, NAMES_MAX).await?;
    let mut paths: BTreeMap<Ino, Vec<u8>> = BTreeMap::new();
    for (ino, name) in named {
        if let Some(mut path) = weft_fsck::path_of(&survey, Ino(name.directory)).await? {
            path.push(b'/');
            path.extend_from_slice(&name.name);
            paths.insert(ino, path);
        }
    }
    for loss in losses.iter_mut() {
        if let Some(path) = paths.get(&ino_of(loss)) {
            loss.path = path.clone().into();
        }
    }
    Ok(())
}

async fn acknowledge(env: Env, options: AcknowledgeOptions) -> Result<()> {
    let mut request = AcknowledgeRequest {
        ino: options.ino.unwrap_or(0),
        ..AcknowledgeRequest::default()
    };
    let tool = match &options.file {
        Some(file) => {
            let (mount, inside) = mounts::of_path(file)?;
            let tool = connect_first(&env, &mount.meta_addresses()).await?;
            let groups = Groups::of(tool).await?;
            let (found, _) = groups.explain(inside.as_os_str().as_bytes()).await?;
            let attr = found.inode.and_then(|inode| inode.attr);
            request.ino = attr.map_or(0, |attr| attr.ino);
            if request.ino == 0 {
                // It would mean all files.
                return Err(Error::Failed(format!(
                    "the metadata service does not say which inode {} is",
                    file.display()
                )));
            }
            // Its servers' answers are the same whichever group asks them.
            groups.tool(FIRST_GROUP).await?
        }
        None => Rc::new(options.cluster.connect(&env).await?),
    };
    let reply = tool.call(&request).await?;
    match reply.ranges {
        0 => say!("nothing of it was lost")?,
        ranges => say!("{ranges} ranges are read as they are now")?,
    }
    unknown(&reply.unknown_pairs)
}

/// Pairs that nobody could be asked about.
fn unknown(pairs: &[u32]) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let pairs: Vec<String> = pairs.iter().map(u32::to_string).collect();
    Err(Error::Unsound(format!(
        "no serving member of pair {} could be asked: look at weft status, and ask again when it serves",
        pairs.join(", ")
    )))
}

fn name_of(loss: &Loss) -> String {
    let ino = loss.object.unwrap_or_default().ino;
    match loss.path.is_empty() {
        true => format!("inode {ino}"),
        false => String::from_utf8_lossy(&loss.path).into_owned(),
    }
}

fn time_of(loss: &Loss) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(loss.noted);
    humantime::format_rfc3339_seconds(at).to_string()
}

/// For people.
fn to_text(reply: &LossesReply) -> String {
    if reply.losses.is_empty() {
        return "Nothing is known to be lost.\n".into();
    }
    let rows = reply
        .losses
        .iter()
        .map(|loss| {
            vec![
                name_of(loss),
                format!("{}-{}", loss.file_start, loss.file_end),
                format!("{}-{}", loss.start, loss.end),
                time_of(loss),
                loss.session.to_string(),
                format!("data:{}.{}", loss.pair, loss.member),
                match loss.can_return {
                    true => "may come back with it".into(),
                    false => String::new(),
                },
            ]
        })
        .collect();
    let mut out = table::render(
        &[
            "file",
            "bytes",
            "of the object",
            "noted",
            "session",
            "server",
            "note",
        ],
        rows,
    );
    out += "Reading these bytes (as far as they lie on the server's pair) fails until they are written, acknowledged (weft losses acknowledge FILE), or back.\n";
    out
}

/// For programs.
fn to_json(reply: &LossesReply) -> Value {
    let one = |loss: &Loss| {
        let object = loss.object.unwrap_or_default();
        json!({
            "ino": object.ino,
            "generation": object.generation,
            "path": (!loss.path.is_empty()).then(|| String::from_utf8_lossy(&loss.path)),
            "pair": loss.pair,
            "object_start": loss.start,
            "object_end": loss.end,
            "file_start": loss.file_start,
            "file_end": loss.file_end,
            "noted": time_of(loss),
            "session": loss.session,
            "server": format!("data:{}.{}", loss.pair, loss.member),
            "can_return": loss.can_return,
            "epoch": loss.epoch,
        })
    };
    json!({
        "losses": reply.losses.iter().map(one).collect::<Vec<Value>>(),
        "unknown_pairs": reply.unknown_pairs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use weft_wire::proto::ObjectName;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: LossesCommand,
    }

    fn loss() -> Loss {
        Loss {
            pair: 1,
            object: Some(ObjectName {
                ino: 4711,
                generation: 2,
            }),
            start: 1 << 20,
            end: 2 << 20,
            session: 9,
            can_return: true,
            noted: 1_000_000_000_000_000_000,
            file_start: 3 << 20,
            file_end: 4 << 20,
            ..Loss::default()
        }
    }

    #[test]
    fn a_loss_is_told_with_file_range_time_session_and_server() {
        let mut reply = LossesReply {
            losses: vec![loss()],
            unknown_pairs: Vec::new(),
        };
        let text = to_text(&reply);
        for part in [
            "inode 4711",
            "3145728-4194304",
            "2001-09-09T01:46:40Z",
            "data:1.0",
            "may come back",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        reply.losses[0].path = b"/a/b".to_vec().into();
        assert!(to_text(&reply).contains("/a/b"));
        let json = to_json(&reply);
        assert_eq!(json["losses"][0]["path"], "/a/b");
        assert_eq!(json["losses"][0]["object_start"], 1 << 20);
        assert_eq!(json["losses"][0]["session"], 9);
        let none = to_text(&LossesReply::default());
        assert_eq!(none, "Nothing is known to be lost.\n");
    }

    #[test]
    fn pairs_that_could_not_be_asked_are_an_error_with_what_to_do() {
        assert!(unknown(&[]).is_ok());
        let why = unknown(&[3, 4]).unwrap_err().to_string();
        assert!(
            why.contains("pair 3, 4") && why.contains("weft status"),
            "{why}"
        );
    }

    #[test]
    fn what_to_acknowledge_has_to_be_said() {
        let parse = |arguments: &[&str]| Line::try_parse_from(["weft"].iter().chain(arguments));
        assert!(parse(&["--json"]).is_ok());
        assert!(parse(&["acknowledge", "--all"]).is_ok());
        assert!(parse(&["acknowledge", "some/file"]).is_ok());
        assert!(parse(&["acknowledge"]).is_err());
        assert!(parse(&["acknowledge", "some/file", "--all"]).is_err());
        let why = parse(&["acknowledge", "--ino", "0"]).err().unwrap();
        assert!(why.to_string().contains("weft losses"), "{why}");
    }
}
