//! Commit: entries of 1 KB at rising rates through the journals of one to four members, beside plain
//! two-phase commit of the same entries into the same journals; and what a member that is killed changes.
//! Entries come from the active's own process, members are processes on loopback, all journals are on one
//! disk.

use super::members::{Kind, Members, TwoPhase, answer, ask, binary, number};
use super::plot::{Series, curves};
use super::{BENCH, Setting, add, at_least, at_most};
use crate::bench::report::Line;
use crate::run::Outcome;
use serde_json::Value;
use std::time::Duration;

/// Bytes of an entry.
const BYTES: usize = 1024;
/// Of a run with failures: seconds, and when members are killed.
const SECONDS_KILLED: u64 = 9;
const KILLED_AT: Duration = Duration::from_secs(3);
/// Of its course.
const STEP: Duration = Duration::from_millis(100);
/// Entries a second of that run.
const RATE_KILLED: u64 = 5_000;
/// Replicas that goals are for, and that others were measured with.
const GOAL_REPLICAS: usize = 3;
/// Entries a second at least, where as many are offered as are committed.
const GOAL_SATURATED: f64 = 100_000.0;
/// Entries a second of the goals for latencies.
const GOAL_RATE: u64 = 20_000;
/// Microseconds.
const GOAL_P50: f64 = 1_500.0;
const GOAL_P99: f64 = 10_000.0;
/// Figures of others, on machines of this kind, three replicas, all flushed: entries a second at most; at
/// 10,000 a second p50 and p99 in microseconds.
const OTHERS: [(&str, f64, f64, f64); 2] = [
    ("Hadoop QJM", 36_000.0, 2_600.0, 55_000.0),
    ("BookKeeper", 41_000.0, 3_400.0, 187_000.0),
];
/// Entries a second of their latencies.
const OTHERS_RATE: u64 = 10_000;

/// The systems.
const WEFT: &str = "weft";
const TWO_PHASE: &str = "two-phase";

/// Both systems with each number of replicas, then with failures.
///
/// # Errors
/// If a process does not come up, or ends, or an entry is not committed.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let kind = Kind {
        binary: binary(setting)?,
        parent: setting.parent.clone(),
        sync: options.sync,
        // The name space does not grow: no image is worth its while.
        image_every: u64::MAX,
    };
    for &replicas in &options.replicas {
        let replicas = replicas as usize;
        let load = |rate: u64| format!("load {rate} {} {BYTES}", options.seconds);
        let mut two = TwoPhase::up(&kind, replicas)?;
        for &rate in &options.rates {
            let told = ask(&mut two.coordinator, &load(rate))?;
            tell(TWO_PHASE, replicas, rate, &told, lines)?;
        }
        drop(two);
        let mut members = Members::up(&kind, replicas)?;
        for &rate in &options.rates {
            let leader = members.leader()?;
            let told = ask(members.of(leader)?, &load(rate))?;
            tell(WEFT, replicas, rate, &told, lines)?;
        }
        members.down()?;
    }
    let mut all = Vec::new();
    for &replicas in options.replicas.iter().filter(|replicas| **replicas > 2) {
        let course = with_failures(&kind, replicas as usize, lines)?;
        all.push(Series {
            name: format!("{replicas} replicas"),
            values: course,
        });
    }
    if all.is_empty() {
        return Ok(());
    }
    let report = &options.report;
    std::fs::create_dir_all(report).map_err(|error| format!("{}: {error}", report.display()))?;
    curves(
        "entries committed while two members are killed",
        ("tenths of a second", "entries"),
        &all,
        &report.join("commit_with_failures.svg"),
    )
}

fn figure(rate: u64, what: &str) -> String {
    match rate {
        0 => format!("commit, saturated{what}"),
        _ => format!("commit at {rate} a second{what}"),
    }
}

fn case_of(replicas: usize) -> String {
    match replicas {
        1 => "1 replica".into(),
        _ => format!("{replicas} replicas"),
    }
}

fn tell(system: &str, replicas: usize, rate: u64, told: &Value, lines: &mut Vec<Line>) -> Outcome {
    let case = case_of(replicas);
    let committed = number(told, "committed")? / number(told, "seconds")?;
    let mut figures = vec![(figure(rate, ""), committed, "entries/s")];
    for (key, what) in [
        ("p50_us", ", p50"),
        ("p99_us", ", p99"),
        ("max_us", ", max"),
    ] {
        figures.push((figure(rate, what), number(told, key)?, "us"));
    }
    for (figure, value, unit) in figures {
        let line = Line::of(BENCH, system, &figure, &case, value, unit);
        let other = lines
            .iter()
            .find(|known| known.system == TWO_PHASE && known.figure == figure && known.case == case)
            .map(|known| known.value);
        add(lines, line.clone())?;
        if system != WEFT {
            continue;
        }
        if let Some(other) = other {
            add(lines, line.beside(TWO_PHASE, other, None))?;
        }
        if replicas == GOAL_REPLICAS {
            beside_others(&line, rate, lines)?;
        }
    }
    Ok(())
}

/// Goals, and what others were measured at.
fn beside_others(line: &Line, rate: u64, lines: &mut Vec<Line>) -> Outcome {
    let is = |what: &str| line.figure == figure(rate, what);
    if rate == 0 && is("") {
        add(lines, at_least(line, GOAL_SATURATED))?;
    }
    if rate == GOAL_RATE && is(", p50") {
        add(lines, at_most(line, GOAL_P50))?;
    }
    if rate == GOAL_RATE && is(", p99") {
        add(lines, at_most(line, GOAL_P99))?;
    }
    for (other, saturated, p50, p99) in OTHERS {
        let value = match rate {
            0 if is("") => saturated,
            OTHERS_RATE if is(", p50") => p50,
            OTHERS_RATE if is(", p99") => p99,
            _ => continue,
        };
        add(lines, line.beside(other, value, None))?;
    }
    Ok(())
}

/// Two standbys are killed, one after the other, under a steady load. Answers the entries that were
/// committed in each tenth of a second.
fn with_failures(kind: &Kind, replicas: usize, lines: &mut Vec<Line>) -> Result<Vec<f64>, String> {
    let mut members = Members::up(kind, replicas)?;
    let leader = members.leader()?;
    let standbys: Vec<usize> = (1..=replicas).filter(|id| *id != leader).take(2).collect();
    let order = format!("load {RATE_KILLED} {SECONDS_KILLED} {BYTES}");
    members.of(leader)?.say(&order)?;
    for standby in standbys {
        std::thread::sleep(KILLED_AT);
        members.kill(standby);
    }
    let told = answer(members.of(leader)?)?;
    members.down()?;
    let course = course_of(&told)?;
    tell_phases(&course, &case_of(replicas), lines)?;
    Ok(course.into_iter().map(|step| step.0).collect())
}

/// What was committed before the first kill, after it, and after the second.
fn tell_phases(course: &[(f64, f64)], case: &str, lines: &mut Vec<Line>) -> Outcome {
    let steps = (KILLED_AT.as_millis() / STEP.as_millis()) as usize;
    for (phase, name) in course.chunks(steps).zip([
        "no member killed",
        "one member killed",
        "two members killed",
    ]) {
        let slowest = phase.iter().map(|step| step.1).fold(0.0, f64::max);
        let sum: f64 = phase.iter().map(|step| step.0).sum();
        let rate = sum / (phase.len() as f64 * STEP.as_secs_f64());
        let figure = format!("commit at {RATE_KILLED} a second, {name}");
        add(
            lines,
            Line::of(BENCH, WEFT, &figure, case, rate, "entries/s"),
        )?;
        let figure = format!("{figure}, max");
        add(lines, Line::of(BENCH, WEFT, &figure, case, slowest, "us"))?;
    }
    Ok(())
}

/// Of each tenth of a second: entries, and the longest latency (microseconds).
fn course_of(told: &Value) -> Result<Vec<(f64, f64)>, String> {
    let refused = || format!("a member said {told}, without a course");
    let steps = told["course"].as_array().ok_or_else(refused)?;
    let step = |step: &Value| Some((step[0].as_f64()?, step[1].as_f64()?));
    let course: Option<Vec<_>> = steps.iter().map(step).collect();
    course.ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(committed: u32, p50: f64, p99: f64) -> Value {
        json!({
            "committed": committed, "seconds": 2.0, "p50_us": p50, "p99_us": p99, "max_us": 9e5,
        })
    }

    #[test]
    fn three_replicas_have_goals_and_stand_beside_others() {
        let mut lines = Vec::new();
        tell(TWO_PHASE, 3, 0, &told(100_000, 1.0, 2.0), &mut lines).unwrap();
        tell(WEFT, 3, 0, &told(150_000, 1.0, 2.0), &mut lines).unwrap();
        tell(
            WEFT,
            3,
            GOAL_RATE,
            &told(40_000, 1_400.0, 11_000.0),
            &mut lines,
        )
        .unwrap();
        tell(WEFT, 2, 0, &told(10, 1.0, 2.0), &mut lines).unwrap();
        let judged: Vec<_> = lines.iter().filter(|line| line.ok.is_some()).collect();
        let oks: Vec<_> = judged.iter().map(|line| line.ok == Some(true)).collect();
        assert_eq!(oks, [false, true, false], "{judged:?}");
        let beside: Vec<_> = lines
            .iter()
            .filter(|line| line.figure == "commit, saturated" && line.ok.is_none())
            .filter_map(|line| Some((line.baseline.clone()?, line.ratio?)))
            .collect();
        assert_eq!(beside[0], (TWO_PHASE.to_owned(), 1.5));
        assert_eq!(beside.len(), 1 + OTHERS.len());
    }

    #[test]
    fn phases_are_between_the_kills() {
        let steps = [(10.0, 1.0); 30].into_iter().chain([(5.0, 7.0); 30]);
        let course: Vec<_> = steps.chain([(1.0, 3.0); 31]).collect();
        let mut lines = Vec::new();
        tell_phases(&course, "3 replicas", &mut lines).unwrap();
        let values: Vec<f64> = lines.iter().map(|line| line.value).collect();
        assert_eq!(values, [100.0, 1.0, 50.0, 7.0, 10.0, 3.0]);
        let told = json!({ "course": [[3, 4.5], [0, 0.0]] });
        assert_eq!(course_of(&told), Ok(vec![(3.0, 4.5), (0.0, 0.0)]));
        assert!(course_of(&json!({})).is_err());
    }
}
