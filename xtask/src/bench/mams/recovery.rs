//! All metadata servers are killed at once and started again: how long it takes until every client has
//! made a file again (figure 13 of the paper), with one group and with several.

use super::group::{Group, Member, Size};
use super::quantile::percentile;
use super::{BENCH, Setting, add};
use crate::bench::client::Client;
use crate::bench::report::Line;
use crate::run::Outcome;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Clients of the load, each in a directory of its own: with so many directories every group has some.
const CLIENTS: u32 = 16;
/// How often, at most: each takes some seconds.
const TRIALS_MAX: u32 = 10;
/// The directory of the name space's files.
const FILES: &str = "files";
/// The load is steady by then.
const WARM: Duration = Duration::from_millis(500);
/// After the groups are whole again: the last client has found its active by then.
const AFTER: Duration = Duration::from_millis(1_500);

/// Seconds.
#[derive(Clone, Copy)]
struct Trial {
    /// From the first order to start until every client had made a file.
    back: f64,
    /// Of these until all servers ran: a process each, started one after the other.
    started: f64,
}

/// Every number of groups, one cluster after the other.
///
/// # Errors
/// If a cluster does not come up, now or again, or a client fails.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let files = options.files.first().copied().unwrap_or(10_000);
    for &groups in &options.groups {
        let members = options.members;
        let size = Size { groups, members };
        let group = Group::up(&setting.weft, &setting.parent, size, options.sync)?;
        fill(&group, files)?;
        let mut trials = Vec::new();
        for number in 0..options.trials.min(TRIALS_MAX) {
            let trial = trial(&group)
                .map_err(|why| format!("{}, recovery {number}: {why}", size.name()))?;
            println!(
                "{}, recovery {number}: {:.3} s, all started after {:.3} s",
                size.name(),
                trial.back,
                trial.started
            );
            trials.push(trial);
        }
        group.down()?;
        tell(&trials, size, files, lines)?;
    }
    Ok(())
}

/// Makes so many files.
///
/// # Errors
/// If a client fails.
pub(super) fn fill(group: &Group, files: u64) -> Outcome {
    let mut command = group.names("fill", FILES);
    command.args(["--clients", "4", "--each", &(files / 4).to_string()]);
    let mut client = Client::start(command)?;
    client.wait_ready()?;
    client.go()?;
    client.line().map(drop)
}

fn trial(group: &Group) -> Result<Trial, String> {
    let members = group.wait_whole()?;
    let mut command = group.names("load", FILES);
    command.args(["--clients", &CLIENTS.to_string()]);
    let mut load = Client::start(command)?;
    load.wait_ready()?;
    load.go()?;
    std::thread::sleep(WARM);
    order_all(group, "kill", &members)?;
    // Nobody is there to answer.
    load.say("mark")?;
    let begun = Instant::now();
    order_all(group, "start", &members)?;
    let started = begun.elapsed().as_secs_f64();
    group.wait_whole()?;
    std::thread::sleep(AFTER);
    load.say("end")?;
    let back = back_of(&load.line()?)?;
    Ok(Trial { back, started })
}

/// Gives all their orders at the same time; `weft dev` obeys one after the other.
fn order_all(group: &Group, order: &str, members: &[Member]) -> Outcome {
    std::thread::scope(|scope| {
        let orders: Vec<_> = members
            .iter()
            .map(|member| scope.spawn(move || group.order_member(order, member)))
            .collect();
        orders.into_iter().try_for_each(|order| {
            let ended = order.join();
            ended.unwrap_or_else(|_| Err("an order was not given".into()))
        })
    })
}

/// Seconds, of what `weft bench names load` says.
fn back_of(line: &str) -> Result<f64, String> {
    let told: Value =
        serde_json::from_str(line).map_err(|error| format!("the load said {line:?}: {error}"))?;
    let back = told["back_ms"].as_f64();
    back.map(|back| back / 1e3)
        .ok_or_else(|| format!("a client has made no file since; the load said {line}"))
}

fn tell(trials: &[Trial], size: Size, files: u64, lines: &mut Vec<Line>) -> Outcome {
    let case = format!("{files} files");
    let baseline = Size { groups: 1, ..size };
    for (what, of) in [
        ("", (|trial: &Trial| trial.back) as fn(&Trial) -> f64),
        (", until all servers ran", |trial: &Trial| trial.started),
    ] {
        let values: Vec<f64> = trials.iter().map(of).collect();
        for (share, word) in [(0.5, "p50"), (1.0, "max")] {
            let Some(value) = percentile(&values, share) else {
                continue;
            };
            let figure = format!("global recovery{what}, {word}");
            let line = Line::of(BENCH, &size.name(), &figure, &case, value, "s");
            let one = lines
                .iter()
                .find(|line| {
                    (&line.figure, &line.case) == (&figure, &case) && line.system == baseline.name()
                })
                .map(|line| line.value);
            add(lines, line.clone())?;
            if let (Some(one), true) = (one, size.groups > 1) {
                add(lines, line.beside(&baseline.name(), one, None))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_not_back_is_an_error() {
        assert_eq!(back_of(r#"{"back_ms":1500.0}"#), Ok(1.5));
        assert!(back_of(r#"{"gap_ms":1.0,"back_ms":null}"#).is_err());
        assert!(back_of("ready").is_err());
    }

    #[test]
    fn several_groups_stand_beside_one() {
        let trials = |back| {
            [1.0, 2.0, 3.0].map(|factor| Trial {
                back: factor * back,
                started: 0.5,
            })
        };
        let size = |groups| Size { groups, members: 3 };
        let mut lines = Vec::new();
        tell(&trials(1.0), size(1), 1_000, &mut lines).unwrap();
        tell(&trials(1.5), size(3), 1_000, &mut lines).unwrap();
        let ratio = lines.iter().find(|line| line.ratio.is_some()).unwrap();
        assert_eq!((ratio.system.as_str(), ratio.value), ("3A6S", 3.0));
        assert_eq!(ratio.ratio, Some(1.5));
    }
}
