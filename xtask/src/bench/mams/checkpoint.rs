//! How long it takes to make a checkpoint of all groups, for how long changes wait for that, and how long it
//! takes to bring all groups back to it (figure 13 of the paper: snapshot and recovery).

use super::group::{Group, Size};
use super::quantile::percentile;
use super::{BENCH, Setting, add, at_most, recovery};
use crate::bench::report::Line;
use crate::run::Outcome;
use serde_json::Value;
use std::time::Instant;

/// How often, at most.
const TRIALS_MAX: u32 = 10;
/// Changes may wait no longer, in milliseconds.
const HELD_MAX: f64 = 50.0;

#[derive(Clone, Copy)]
struct Trial {
    /// Seconds until the checkpoint was kept.
    create: f64,
    /// Milliseconds that changes waited.
    held: f64,
    /// Seconds until all groups served as they had at the checkpoint.
    restore: f64,
}

/// Every number of groups, one cluster after the other.
///
/// # Errors
/// If a cluster does not come up, or a checkpoint cannot be made or restored.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let files = options.files.first().copied().unwrap_or(10_000);
    for &groups in &options.groups {
        let members = options.members;
        let size = Size { groups, members };
        let group = Group::up(&setting.weft, &setting.parent, size, options.sync)?;
        recovery::fill(&group, files)?;
        let mut trials = Vec::new();
        for number in 0..options.trials.min(TRIALS_MAX) {
            let trial = trial(&group, number)
                .map_err(|why| format!("{}, checkpoint {number}: {why}", size.name()))?;
            println!(
                "{}, checkpoint {number}: made in {:.3} s (changes waited {:.2} ms), restored in {:.3} s",
                size.name(),
                trial.create,
                trial.held,
                trial.restore
            );
            trials.push(trial);
        }
        group.down()?;
        tell(&trials, size, files, lines)?;
    }
    Ok(())
}

fn trial(group: &Group, number: u32) -> Result<Trial, String> {
    let name = format!("bench{number}");
    let begun = Instant::now();
    let made = group.tool(&["checkpoint", "create", &name, "--json"])?;
    let create = begun.elapsed().as_secs_f64();
    let held = held_of(&made)?;
    let begun = Instant::now();
    group.tool(&["checkpoint", "restore", &name, "--yes"])?;
    let restore = begun.elapsed().as_secs_f64();
    group.tool(&["checkpoint", "delete", &name])?;
    Ok(Trial {
        create,
        held,
        restore,
    })
}

/// Milliseconds, of what `weft checkpoint create` says.
fn held_of(said: &str) -> Result<f64, String> {
    let told: Value =
        serde_json::from_str(said).map_err(|error| format!("the tool said {said:?}: {error}"))?;
    let held = told["held_us"].as_f64();
    held.map(|held| held / 1e3)
        .ok_or_else(|| format!("the tool does not say how long changes waited: {said}"))
}

fn tell(trials: &[Trial], size: Size, files: u64, lines: &mut Vec<Line>) -> Outcome {
    let case = format!("{files} files");
    for (what, unit, of) in [
        (
            "checkpoint made",
            "s",
            (|it: &Trial| it.create) as fn(&Trial) -> f64,
        ),
        ("changes waited", "ms", |it: &Trial| it.held),
        ("checkpoint restored", "s", |it: &Trial| it.restore),
    ] {
        let values: Vec<f64> = trials.iter().map(of).collect();
        for (share, word) in [(0.5, "p50"), (1.0, "max")] {
            let Some(value) = percentile(&values, share) else {
                continue;
            };
            let figure = format!("{what}, {word}");
            let line = Line::of(BENCH, &size.name(), &figure, &case, value, unit);
            match (unit, share) {
                ("ms", 1.0) => add(lines, at_most(&line, HELD_MAX))?,
                _ => add(lines, line)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tool_says_is_read_and_judged() {
        assert_eq!(held_of(r#"{"held_us":1500}"#), Ok(1.5));
        assert!(held_of("{}").is_err() && held_of("kept").is_err());
        let trials = [0.4, 60.0].map(|held| Trial {
            create: 0.1,
            held,
            restore: 0.2,
        });
        let size = Size {
            groups: 2,
            members: 3,
        };
        let mut lines = Vec::new();
        tell(&trials, size, 1_000, &mut lines).unwrap();
        assert_eq!(lines.len(), 6);
        let judged = lines.iter().find(|line| line.ok.is_some()).unwrap();
        assert_eq!((judged.value, judged.ok), (60.0, Some(false)));
    }
}
