//! Renewing: how long it takes until a member that was away counts again, by what it lacks (figure 12 of
//! the paper): entries of the journal, or all, when it takes an image first. And how fast a journal is read.

use super::members::{Kind, Members, ask, binary, number};
use super::plot::{Series, points};
use super::{BENCH, Setting, add, at_least, at_most};
use crate::bench::report::Line;
use crate::run::Outcome;
use std::path::Path;
use std::time::{Duration, Instant};

/// Members of the groups.
const MEMBERS: usize = 3;
/// What the paper handed over in the end, and in how many milliseconds.
const HAND_OVER: u64 = 10_000;
const HAND_OVER_PAPER: f64 = 22.8;
/// Milliseconds: a single figure.
const HAND_OVER_GOAL: f64 = 10.0;
/// Bytes of the entries of the second journal that is read; those of the first are creates.
const BYTES: usize = 1024;
/// Of reading a journal, whichever is lower.
const READ_GOAL_ENTRIES: f64 = 1e6;
const READ_GOAL_MB: f64 = 200.0;
/// MB/s.
const READ_PAPER: f64 = 22.0;
/// Entries after which an image is written.
const IMAGE_EVERY: u64 = 20_000;
/// The journal before an image is gone by then.
const IMAGE_PATIENCE: Duration = Duration::from_secs(120);
/// The first segment of a journal.
const FIRST_SEGMENT: &str = "00000000000000000001.journal";

/// Milliseconds of a member's return.
struct Renewed {
    /// Its own image and journal were read.
    read: f64,
    /// From the connection until it counted.
    handed_over: f64,
    /// From its start until it counted.
    all: f64,
}

/// Journals of each length, images of each size, and the reading of a journal.
///
/// # Errors
/// If a member does not come up, or does not count again.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let kind = |image_every| -> Result<Kind, String> {
        Ok(Kind {
            binary: binary(setting)?,
            parent: setting.parent.clone(),
            sync: options.sync,
            image_every,
        })
    };
    let without_images = kind(u64::MAX)?;
    reading(
        &without_images,
        options.entries.iter().copied().max(),
        lines,
    )?;
    let mut by_journal = Vec::new();
    let mut members = Members::up(&without_images, MEMBERS)?;
    for &entries in &options.entries {
        let renewed = by_entries(&mut members, entries)?;
        tell("entries lacking", entries, &renewed, lines)?;
        by_journal.push((entries as f64, renewed.all / 1e3));
    }
    members.down()?;
    let mut by_image = Vec::new();
    for &inodes in &options.entries {
        let mut members = Members::up(&kind(IMAGE_EVERY)?, MEMBERS)?;
        let renewed = by_inodes(&mut members, inodes)?;
        members.down()?;
        tell("inodes, by an image", inodes, &renewed, lines)?;
        by_image.push((inodes as f64, renewed.all / 1e3));
    }
    let report = &options.report;
    std::fs::create_dir_all(report).map_err(|error| format!("{}: {error}", report.display()))?;
    let all = [
        ("entries lacking", by_journal),
        ("inodes, by an image", by_image),
    ];
    let all = all.map(|(name, values)| Series {
        name: name.into(),
        values,
    });
    points(
        "until a member counts again (seconds)",
        ("entries, inodes", "seconds"),
        &all,
        &report.join("renewing.svg"),
    )
}

/// A standby is killed, misses so many entries, and comes back.
fn by_entries(members: &mut Members, entries: u64) -> Result<Renewed, String> {
    let standby = members.standby()?;
    members.kill(standby);
    let leader = members.leader()?;
    ask(members.of(leader)?, &format!("fill {entries}"))?;
    comes_back(members, leader, standby)
}

/// A standby's directory is emptied: it takes another's image, and the journal after that.
fn by_inodes(members: &mut Members, inodes: u64) -> Result<Renewed, String> {
    let leader = members.leader()?;
    ask(members.of(leader)?, &format!("fill {inodes}"))?;
    let standby = members.standby()?;
    forget_journals(members, leader, standby)?;
    members.kill(standby);
    let place = members.place(standby);
    let removed = std::fs::remove_dir_all(&place);
    removed.map_err(|error| format!("{}: {error}", place.display()))?;
    let leader = members.leader()?;
    comes_back(members, leader, standby)
}

fn comes_back(members: &mut Members, leader: usize, standby: usize) -> Result<Renewed, String> {
    let begun = Instant::now();
    members.of(leader)?.say(&format!("watch {standby}"))?;
    let read = members.start(standby)?;
    let told = super::members::answer(members.of(leader)?)?;
    let all = begun.elapsed().as_secs_f64();
    let connected = number(&told, "connected_ms")?;
    Ok(Renewed {
        read: read * 1e3,
        handed_over: number(&told, "counted_ms")? - connected,
        all: all * 1e3,
    })
}

/// Has the others write so much that they remove the beginnings of their journals: a member that has nothing
/// needs an image then.
fn forget_journals(members: &mut Members, leader: usize, standby: usize) -> Outcome {
    let end = Instant::now() + IMAGE_PATIENCE;
    let others = (1..=MEMBERS).filter(|id| *id != standby);
    let firsts: Vec<_> = others
        .map(|id| members.place(id).join("journal").join(FIRST_SEGMENT))
        .collect();
    while firsts.iter().any(|first| first.exists()) {
        if Instant::now() > end {
            return Err(format!(
                "journals keep their beginnings for {IMAGE_PATIENCE:?}"
            ));
        }
        ask(members.of(leader)?, &format!("load 0 1 {BYTES}"))?;
    }
    Ok(())
}

fn tell(what: &str, count: u64, renewed: &Renewed, lines: &mut Vec<Line>) -> Outcome {
    let case = format!("{count} {what}");
    let line = |figure: &str, value| Line::of(BENCH, "1A2S", figure, &case, value, "ms");
    add(lines, line("renewing", renewed.all))?;
    add(lines, line("renewing, own journal read", renewed.read))?;
    let handed_over = line("renewing, connected until it counts", renewed.handed_over);
    add(lines, handed_over.clone())?;
    if count == HAND_OVER && what.starts_with("entries") {
        add(lines, at_most(&handed_over, HAND_OVER_GOAL))?;
        add(
            lines,
            handed_over.beside("the paper", HAND_OVER_PAPER, None),
        )?;
    }
    Ok(())
}

/// A server that is alone starts again, with a journal and no image: creates, and entries of 1 KB.
fn reading(kind: &Kind, entries: Option<u64>, lines: &mut Vec<Line>) -> Outcome {
    let entries = entries.unwrap_or(HAND_OVER);
    for (what, is_create) in [("creates", true), ("entries of 1 KB", false)] {
        let mut members = Members::up(kind, 1)?;
        let order = match is_create {
            true => format!("fill {entries}"),
            // As many as fit into this time; the figure is by entry.
            false => format!("load 0 3 {BYTES}"),
        };
        let told = ask(members.of(1)?, &order)?;
        let count = match is_create {
            true => entries as f64,
            false => number(&told, "committed")?,
        };
        members.kill(1);
        let bytes = bytes_in(&members.place(1).join("journal"))?;
        let seconds = members.start(1)?;
        members.down()?;
        tell_reading(what, count, bytes, seconds, lines)?;
    }
    Ok(())
}

fn tell_reading(
    what: &str,
    count: f64,
    bytes: u64,
    seconds: f64,
    lines: &mut Vec<Line>,
) -> Outcome {
    let line = |figure: &str, value, unit| Line::of(BENCH, "1A0S", figure, what, value, unit);
    let rate = line("journal read", count / seconds, "entries/s");
    let megabytes = line("journal read, bytes", bytes as f64 / 1e6 / seconds, "MB/s");
    add(lines, rate.clone())?;
    add(lines, megabytes.clone())?;
    // Small entries are many, large ones are long.
    let judged = match READ_GOAL_ENTRIES * bytes as f64 / count < READ_GOAL_MB * 1e6 {
        true => at_least(&rate, READ_GOAL_ENTRIES),
        false => at_least(&megabytes, READ_GOAL_MB),
    };
    add(lines, judged)?;
    add(lines, megabytes.beside("the paper", READ_PAPER, None))
}

fn bytes_in(directory: &Path) -> Result<u64, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut bytes = 0;
    for file in std::fs::read_dir(directory).map_err(failed)? {
        let length = file.and_then(|file| file.metadata()).map_err(failed)?;
        bytes += length.len();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_judged_by_whichever_goal_is_lower() {
        let mut lines = Vec::new();
        // 120 bytes each: a million a second are 120 MB.
        tell_reading("creates", 1e6, 120_000_000, 0.9, &mut lines).unwrap();
        tell_reading("long", 1e5, 102_400_000, 0.6, &mut lines).unwrap();
        let judged: Vec<_> = lines.iter().filter(|line| line.ok.is_some()).collect();
        assert_eq!(judged.len(), 2);
        assert_eq!(
            (judged[0].unit.as_str(), judged[0].ok),
            ("entries/s", Some(true))
        );
        assert_eq!(
            (judged[1].unit.as_str(), judged[1].ok),
            ("MB/s", Some(false))
        );
    }

    #[test]
    fn only_the_papers_hand_over_is_judged() {
        let renewed = |handed_over| Renewed {
            read: 1.0,
            handed_over,
            all: 100.0,
        };
        let mut lines = Vec::new();
        tell("entries lacking", HAND_OVER, &renewed(9.0), &mut lines).unwrap();
        tell("entries lacking", 500_000, &renewed(90.0), &mut lines).unwrap();
        tell("inodes, by an image", HAND_OVER, &renewed(90.0), &mut lines).unwrap();
        let judged: Vec<_> = lines.iter().filter(|line| line.ok.is_some()).collect();
        assert_eq!(judged.len(), 1);
        assert_eq!((judged[0].value, judged[0].ok), (9.0, Some(true)));
    }
}
