//! `weft fsck --meta`: checks the whole name space, over all groups and while it is in use, and with `--repair` sets
//! right what it has found (`docs/protocols/fsck.md`; both are the crate weft-fsck).

use super::SHOWN_MAX;
use crate::error::{Error, Result};
use crate::groups::Groups;
use crate::output::say;
use crate::table;
use crate::tool::Where;
use serde_json::{Value, json};
use weft_env::Env;
use weft_fsck::{Finding, Mended, Report, Survey, Terms, path_of};
use weft_types::Ino;

/// Runs it.
///
/// # Errors
/// [`Error::Unsound`] if something is wrong, with `repair` in the end; [`Error::Unreachable`] if a group does not
/// answer.
pub(super) async fn run(env: &Env, cluster: &Where, as_json: bool, repair: bool) -> Result<()> {
    let groups = Groups::of(cluster.connect(env).await?).await?;
    let ids = groups.ids();
    let start = env.now();
    let terms = Terms::default();
    let report = weft_fsck::check(env, &groups, &ids, &terms).await?;
    let took = env.now().since(start).as_secs_f64();
    let survey = Survey::of(&groups, &ids).await?;
    let mut paths = Vec::new();
    for finding in report.wrong.iter().take(SHOWN_MAX) {
        paths.push(place_of(&survey, finding).await?);
    }
    if !as_json {
        for line in to_lines(&report, &paths) {
            say!("{line}")?;
        }
        say!("{}", summary(&report, took))?;
    }
    if !repair || report.wrong.is_empty() {
        if as_json {
            say!("{}", to_json(&report, &paths, took))?;
        }
        return verdict(&report);
    }
    drop(survey);
    let mut unsaid = Ok(());
    let told = |repaired: &weft_fsck::Repaired| {
        if !as_json && unsaid.is_ok() {
            unsaid = say!("repaired: {repaired}");
        }
    };
    let mended = weft_fsck::repair(env, &groups, &ids, &terms, &report, told).await?;
    unsaid?;
    let took = env.now().since(start).as_secs_f64();
    match as_json {
        true => say!("{}", mended_json(&report, &mended, &paths, took))?,
        false => {
            for line in left_lines(&mended) {
                say!("{line}")?;
            }
            say!("{}", summary(&mended.report, took))?;
        }
    }
    verdict(&mended.report)
}

/// What was not repaired, and why.
fn left_lines(mended: &Mended) -> Vec<String> {
    let left = mended.left.iter().take(SHOWN_MAX);
    let mut lines: Vec<String> = left
        .map(|(finding, why)| format!("not repaired: {finding}: {why}"))
        .collect();
    let hidden = mended.left.len() - lines.len();
    if hidden > 0 {
        lines.push(format!("... and {hidden} more"));
    }
    lines
}

/// What was found at first, what was done about it, and what is so in the end.
fn mended_json(first: &Report, mended: &Mended, paths: &[Option<String>], took: f64) -> Value {
    let repaired = mended
        .repaired
        .iter()
        .map(|one| json!({ "kind": one.kind(), "ino": one.ino().0, "what": one.to_string() }));
    let left = mended.left.iter().map(
        |(finding, why)| json!({ "kind": finding.kind(), "what": finding.to_string(), "why": why }),
    );
    let mut told = to_json(&mended.report, &[], took);
    told["found"] = json!(first.wrong.len());
    told["shown"] = shown(first, paths);
    told["repaired"] = repaired.collect();
    told["not_repaired"] = left.collect();
    told
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
        let place = path.as_ref().map(|path| format!(" ({path})"));
        let place = place.unwrap_or_default();
        lines.push(match finding.remedy() {
            Ok(remedy) => format!("{finding}{place}; with --repair {remedy}"),
            Err(why) => format!("{finding}{place}; {why}"),
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

/// The first things that are wrong.
fn shown(report: &Report, paths: &[Option<String>]) -> Value {
    let wrong = report.wrong.iter().zip(paths).map(|(finding, path)| {
        json!({
            "kind": finding.kind(),
            "ino": finding.ino().map(|ino| ino.0),
            "path": path,
            "what": finding.to_string(),
            "remedy": finding.remedy().ok(),
        })
    });
    wrong.collect()
}

fn to_json(report: &Report, paths: &[Option<String>], took: f64) -> Value {
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
        "shown": shown(report, paths),
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
            .map(|ino| Finding::Nameless {
                ino: Ino(ino),
                change: 1,
            })
            .collect();
        let mut paths = vec![None; SHOWN_MAX];
        paths[0] = Some("/a/b".to_owned());
        let lines = to_lines(&report, &paths).join("\n");
        for part in [
            "0x0 has no name, and nobody keeps it open (/a/b); with --repair it gets a name in /lost+found",
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

        let first = report.wrong[0].clone();
        let mended = Mended {
            repaired: vec![weft_fsck::Repaired::Links {
                ino: Ino(7),
                from: 2,
                to: 1,
            }],
            left: vec![(first, "somebody has it".to_owned())],
            report: Report::default(),
        };
        let json = mended_json(&report, &mended, &paths, 0.5);
        assert_eq!((&json["found"], &json["wrong"]), (&23.into(), &0.into()));
        assert_eq!(
            json["repaired"][0]["what"],
            "inode 0x7 has 1 links now, it had 2"
        );
        assert_eq!(json["not_repaired"][0]["why"], "somebody has it");
        assert_eq!(json["sound"], true);
        assert!(left_lines(&mended)[0].ends_with("nobody keeps it open: somebody has it"));
    }
}
