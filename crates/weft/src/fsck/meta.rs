//! `weft fsck --meta`: checks the whole name space, over all groups and while it is in use
//! (`docs/protocols/fsck.md`; the check itself is the crate weft-fsck).

use super::SHOWN_MAX;
use crate::error::{Error, Result};
use crate::groups::Groups;
use crate::output::say;
use crate::table;
use crate::tool::Where;
use serde_json::{Value, json};
use weft_env::Env;
use weft_fsck::{Finding, Report, Survey, Terms, path_of};
use weft_types::Ino;

/// Runs it.
///
/// # Errors
/// [`Error::Unsound`] if something is wrong; [`Error::Unreachable`] if a group does not answer.
pub(super) async fn run(env: &Env, cluster: &Where, as_json: bool) -> Result<()> {
    let groups = Groups::of(cluster.connect(env).await?).await?;
    let ids = groups.ids();
    let start = env.now();
    let report = weft_fsck::check(env, &groups, &ids, &Terms::default()).await?;
    let took = env.now().since(start).as_secs_f64();
    let survey = Survey::of(&groups, &ids).await?;
    let mut paths = Vec::new();
    for finding in report.wrong.iter().take(SHOWN_MAX) {
        paths.push(place_of(&survey, finding).await?);
    }
    match as_json {
        true => say!("{}", to_json(&report, &paths, took))?,
        false => {
            for line in to_lines(&report, &paths) {
                say!("{line}")?;
            }
            say!("{}", summary(&report, took))?;
        }
    }
    verdict(&report)
}

/// Where it is, for people: the path of the directory or of the entry that it is about.
async fn place_of(survey: &Survey<'_, Groups>, finding: &Finding) -> Result<Option<String>> {
    let name = finding.name();
    let directory = name.map(|name| Ino(name.directory));
    let Some(directory) = directory.or(finding.directory()) else {
        return Ok(None);
    };
    let Some(mut path) = path_of(survey, directory).await? else {
        return Ok(None);
    };
    if let Some(name) = name {
        path.push(b'/');
        path.extend_from_slice(&name.name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Ok(Some(String::from_utf8_lossy(&path).into_owned()))
}

fn to_lines(report: &Report, paths: &[Option<String>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (finding, path) in report.wrong.iter().zip(paths) {
        lines.push(match path {
            Some(path) => format!("{finding} ({path})"),
            None => finding.to_string(),
        });
    }
    let hidden = report.wrong.len() - lines.len();
    if hidden > 0 {
        lines.push(format!("... and {hidden} more"));
    }
    let waiting = report.waiting.iter().take(SHOWN_MAX);
    lines.extend(waiting.map(ToString::to_string));
    let undecided = report.undecided.iter().take(SHOWN_MAX);
    lines.extend(undecided.map(|what| {
        format!("{what}: changed, or was locked, whenever it was looked at: not decided")
    }));
    if report.unjudged > 0 {
        lines.push(format!(
            "{} more entries and inodes were suspicious than can be looked at again: run it again when less changes",
            report.unjudged
        ));
    }
    lines
}

fn summary(report: &Report, took: f64) -> String {
    let found = match (report.wrong.len(), report.undecided.len()) {
        (0, 0) => "nothing is wrong".to_owned(),
        (0, undecided) => format!("nothing is known to be wrong, {undecided} not decided"),
        (wrong, _) => format!("{wrong} wrong"),
    };
    format!(
        "{} group(s), {} inodes, {} entries: {found} (in {})",
        report.spans.len(),
        report.inodes,
        report.names,
        table::seconds(took)
    )
}

fn to_json(report: &Report, paths: &[Option<String>], took: f64) -> Value {
    let wrong = report.wrong.iter().zip(paths).map(|(finding, path)| {
        json!({
            "kind": finding.kind(),
            "ino": finding.ino().map(|ino| ino.0),
            "path": path,
            "what": finding.to_string(),
        })
    });
    let waiting = report.waiting.iter().map(|one| {
        json!({
            "transaction": one.transaction.to_string(),
            "group": one.group.0,
            "stage": one.stage,
            "age_ms": one.age_ms,
            "asked": one.asked.iter().map(|group| group.0).collect::<Vec<u32>>(),
        })
    });
    let groups = report.spans.iter().map(
        |(group, span)| json!({ "group": group.0, "first_sn": span.first, "last_sn": span.last }),
    );
    json!({
        "groups": groups.collect::<Vec<Value>>(),
        "inodes": report.inodes,
        "names": report.names,
        "suspects": report.suspects,
        "wrong": report.wrong.len(),
        "shown": wrong.collect::<Vec<Value>>(),
        "waiting": waiting.collect::<Vec<Value>>(),
        "undecided": report.undecided.len() as u64 + report.unjudged,
        "sound": report.is_sound(),
        "seconds": took,
    })
}

fn verdict(report: &Report) -> Result<()> {
    let what = match (report.wrong.len(), report.waiting.len()) {
        (0, 0) => return Ok(()),
        (0, waiting) => format!(
            "{waiting} transactions between groups wait for long: see which group does not answer (weft status)"
        ),
        (wrong, _) => format!(
            "{wrong} things in the name space are not as they must be: see docs/operating/name-space.md"
        ),
    };
    Err(Error::Unsound(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fsck::Waiting;
    use weft_types::{Epoch, GroupId, TransactionId};

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_an_exit_code() {
        let mut report = Report {
            inodes: 9,
            names: 8,
            ..Report::default()
        };
        assert!(verdict(&report).is_ok());
        assert!(summary(&report, 0.5).contains("9 inodes, 8 entries: nothing is wrong"));
        report.undecided.push("inode 0x7".into());
        assert!(verdict(&report).is_ok());
        assert!(summary(&report, 0.5).contains("1 not decided"));

        report.waiting.push(Waiting {
            transaction: TransactionId {
                home: GroupId(1),
                epoch: Epoch(2),
                number: 3,
            },
            group: GroupId(0),
            stage: "prepared",
            age_ms: 9_500,
            asked: vec![GroupId(1)],
        });
        assert_eq!(verdict(&report).unwrap_err().exit_code(), 4);
        report.wrong = (0..SHOWN_MAX as u64 + 3)
            .map(|ino| Finding::Nameless(Ino(ino)))
            .collect();
        let mut paths = vec![None; SHOWN_MAX];
        paths[0] = Some("/a/b".to_owned());
        let lines = to_lines(&report, &paths).join("\n");
        for part in [
            "0x0 has no name, and nobody keeps it open (/a/b)",
            "... and 3 more",
            "transaction 1.2.3 has been prepared in group 0 for 9 s; group 1 is asked",
            "inode 0x7: changed",
        ] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        let json = to_json(&report, &paths, 0.5);
        assert_eq!(json["wrong"], SHOWN_MAX + 3);
        assert_eq!(json["shown"][0]["path"], "/a/b");
        assert_eq!(json["waiting"][0]["asked"][0], 1);
        assert_eq!(json["sound"], false);
    }
}
