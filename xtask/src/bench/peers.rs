//! Weft beside its peers and beside the machine's limit, in one run.

use super::PeersOptions;
use super::report::{self, Line};
use super::start::{self, System};
use crate::run::{Outcome, cargo, root, step};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where less is better a goal is an upper bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// A bar: Weft's figure against the same figure of a baseline.
struct Goal {
    figure: &'static str,
    case: &'static str,
    baseline: &'static str,
    ratio: f64,
    better: Better,
}

const fn goal(
    figure: &'static str,
    case: &'static str,
    baseline: &'static str,
    ratio: f64,
    better: Better,
) -> Goal {
    Goal {
        figure,
        case,
        baseline,
        ratio,
        better,
    }
}

/// The bars of the first milestone. An empty case means each case.
const GOALS: &[Goal] = &[
    goal("seq_write", "", "moosefs", 1.5, Better::More),
    goal("par_files_write", "", "moosefs", 1.5, Better::More),
    goal("one_file_write", "", "moosefs", 1.5, Better::More),
    goal("seq_read", "", "moosefs", 1.3, Better::More),
    goal("rand_read_4k", "", "moosefs", 1.5, Better::More),
    goal("rand_write_4k", "", "moosefs", 5.0, Better::More),
    goal("create", "", "moosefs", 1.5, Better::More),
    goal("stat_cold", "", "moosefs", 2.0, Better::More),
    goal("small_write", "", "moosefs", 2.0, Better::More),
    goal("small_read", "", "moosefs", 1.5, Better::More),
    goal("unpack", "", "moosefs", 0.5, Better::Less),
    goal("find", "", "moosefs", 1.0, Better::Less),
    goal("grep", "", "moosefs", 1.0, Better::Less),
    goal("remove", "", "moosefs", 1.0, Better::Less),
    goal("seq_write", "", "relay", 0.5, Better::More),
    goal("seq_write", "", "passthrough", 0.5, Better::More),
    goal("create", "", "passthrough", 0.5, Better::More),
    goal("seq_write cpu", "", "moosefs", 0.6, Better::Less),
    goal("create cpu", "", "moosefs", 0.6, Better::Less),
];

/// 128 files for each client may take this many times as long as one.
const SPLIT_GOAL: f64 = 1.5;

/// Runs all systems that were asked for, in turns, and reports.
pub fn run(options: &PeersOptions) -> Outcome {
    start::prepare()?;
    step("build", cargo().args(["build", "--release", "-p", "weft"]))?;
    let weft = root().join("target/release/weft");
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        for system in &options.systems {
            println!("== {system}, round {round} of {}", options.rounds);
            // What was measured before something failed is measured.
            if let Err(why) = measure(system, &weft, options, &mut lines) {
                failures.push(format!("{system}: {why}"));
            }
        }
    }
    let mut lines = report::medians(lines);
    set_goals(&mut lines);
    report::write(&lines, &options.report, options.json.as_deref())?;
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

fn measure(name: &str, weft: &Path, options: &PeersOptions, lines: &mut Vec<Line>) -> Outcome {
    if name == "relay" {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let value = super::relay::measure(directory.path(), options.size)
            .map_err(|error| error.to_string())?;
        println!("seq_write 1 job: {value:.1} MiB/s");
        lines.push(Line::new("relay", "seq_write", "1 job", value, "MiB/s"));
        return Ok(());
    }
    let system = System::start(name, weft)?;
    let (size, files) = (options.size.to_string(), options.files.to_string());
    // Two copies, and what else a system keeps for a while.
    let warm = (options.size * 5 / 2).to_string();
    let runs: [Vec<&str>; 3] = [
        vec!["io", "--size", &size],
        vec!["meta", "--files", &files],
        vec!["tree"],
    ];
    for run in runs {
        let mut command = Command::new(weft);
        command
            .arg("bench")
            .arg(run[0])
            .arg(&system.mount)
            .args(&run[1..])
            .args(["--json", "--warm-memory", &warm]);
        if !system.processes.is_empty() {
            command.arg("--cpu-of").arg(system.processes.join(","));
        }
        if !options.only.is_empty() {
            command.arg("--only").arg(options.only.join(","));
        }
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("weft bench: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        lines.extend(text.lines().flat_map(|line| parse(name, line)));
        if !output.status.success() {
            return Err(format!(
                "weft bench {} ended with {}",
                run[0], output.status
            ));
        }
    }
    Ok(())
}

/// A figure of `weft bench`, and its cost as a figure of its own.
pub fn parse(system: &str, line: &str) -> Vec<Line> {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return Vec::new();
    };
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let Some(number) = value["value"].as_f64() else {
        return Vec::new();
    };
    let (figure, case) = (text("figure"), text("case"));
    let mut lines = vec![Line::new(system, &figure, &case, number, &text("unit"))];
    for (key, unit) in [
        ("cpu_s_per_gib", "cpu s/GiB"),
        ("cpu_s_per_10k", "cpu s/10k"),
    ] {
        if let Some(cost) = value[key].as_f64() {
            lines.push(Line::new(
                system,
                &format!("{figure} cpu"),
                &case,
                cost,
                unit,
            ));
        }
    }
    lines
}

fn set_goals(lines: &mut Vec<Line>) {
    let find = |lines: &[Line], system: &str, figure: &str, case: &str| {
        lines
            .iter()
            .find(|line| line.system == system && line.figure == figure && line.case == case)
            .map(|line| line.value)
    };
    let mut judged = Vec::new();
    for line in lines.iter().filter(|line| line.system == "weft") {
        for goal in GOALS {
            if goal.figure != line.figure || (!goal.case.is_empty() && goal.case != line.case) {
                continue;
            }
            let Some(base) = find(lines, goal.baseline, &line.figure, &line.case) else {
                continue;
            };
            judged.push(judge(line, goal.baseline, base, goal.ratio, goal.better));
        }
        if line.figure == "split"
            && line.case != "1 files"
            && let Some(base) = find(lines, "weft", "split", "1 files")
        {
            judged.push(judge(line, "1 file", base, SPLIT_GOAL, Better::Less));
        }
    }
    lines.extend(judged);
}

fn judge(line: &Line, baseline: &str, base: f64, bar: f64, better: Better) -> Line {
    let ratio = line.value / base;
    let mut judged = line.clone();
    judged.baseline = Some(baseline.to_owned());
    judged.ratio = Some(ratio);
    judged.goal = Some(bar);
    judged.ok = Some(if better == Better::More {
        ratio >= bar
    } else {
        ratio <= bar
    });
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_goals_are_of_all_rounds() {
        let line = |system, value| Line::new(system, "seq_write", "1 job", value, "MiB/s");
        let mut lines = report::medians(vec![
            line("moosefs", 100.0),
            line("weft", 10.0),
            line("weft", 200.0),
            line("weft", 149.0),
        ]);
        set_goals(&mut lines);
        let judged: Vec<&Line> = lines.iter().filter(|line| line.goal.is_some()).collect();
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].ratio, Some(1.49));
        assert_eq!(judged[0].ok, Some(false));
    }

    #[test]
    fn a_line_of_weft_bench_gives_the_figure_and_its_cost() {
        let line =
            r#"{"figure":"create","case":"1 job","value":5.0,"unit":"op/s","cpu_s_per_10k":2.5}"#;
        let lines = parse("weft", line);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].figure, "create cpu");
        assert_eq!(lines[1].value, 2.5);
        assert!(parse("weft", "not json").is_empty());
    }
}
