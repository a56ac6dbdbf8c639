//! Messages between gateways and the metadata service for each operation, with tokens, without, and as they would be
//! if attributes were fetched once: counted in the simulator, so that no machine has a say in it.

use super::BENCH;
use crate::bench::report::Line;
use crate::run::{Outcome, cargo};

/// With tokens: messages of all operations on one's own files, of those without.
const OWN_GOAL: f64 = 0.5;
/// Messages of a GETATTR of what another writes, of those without: to the server and the holder, and back.
const WRITTEN_GOAL: f64 = 2.0;

/// Runs the simulator's example.
///
/// # Errors
/// If it cannot be built, or fails.
pub fn run(lines: &mut Vec<Line>) -> Outcome {
    let output = cargo()
        // Nothing in it is timed.
        .args(["run", "--locked", "--quiet"])
        .args(["--package", "weft-sim", "--example", "tokens"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("the simulation failed: why stands above".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let parsed = text.lines().map(|line| {
        Line::parse(BENCH, line).ok_or_else(|| format!("the simulation said {line:?}"))
    });
    let counted: Vec<Line> = parsed.collect::<Result<_, _>>()?;
    lines.extend(compared(&counted));
    Ok(())
}

/// The lines, and each number of messages with tokens beside that without.
fn compared(counted: &[Line]) -> Vec<Line> {
    let mut all = Vec::new();
    for line in counted {
        all.push(line.clone());
        let is_baseline = |its: &&Line| {
            its.system == "nothing kept" && its.figure == line.figure && its.case == line.case
        };
        let baseline = counted.iter().find(is_baseline);
        let Some(baseline) = baseline.filter(|_| line.system == "tokens") else {
            continue;
        };
        if baseline.value > 0.0 {
            let goal = goal(&line.figure, &line.case);
            all.push(line.beside_at_most(&baseline.system, baseline.value, goal));
        }
    }
    all
}

fn goal(figure: &str, case: &str) -> Option<f64> {
    match case {
        "all" if figure.starts_with("own files") => Some(OWN_GOAL),
        "GETATTR" if figure.contains("goes on writing") => Some(WRITTEN_GOAL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_held_against_what_it_costs_without() {
        let line = |system, figure, case, value| {
            Line::of(BENCH, system, figure, case, value, "messages/op")
        };
        let counted = [
            line("nothing kept", "own files, 1 gateways", "all", 4.0),
            line("tokens", "own files, 1 gateways", "all", 1.0),
            line(
                "nothing kept",
                "files that one goes on writing, 2 gateways",
                "GETATTR",
                2.0,
            ),
            line(
                "tokens",
                "files that one goes on writing, 2 gateways",
                "GETATTR",
                5.0,
            ),
        ];
        let judged: Vec<(Option<f64>, Option<bool>)> = compared(&counted)
            .iter()
            .filter(|line| line.ratio.is_some())
            .map(|line| (line.ratio, line.ok))
            .collect();
        assert_eq!(judged, [(Some(0.25), Some(true)), (Some(2.5), Some(false))]);
        assert_eq!(compared(&counted).len(), 6);
    }

    #[test]
    fn what_is_no_line_is_not_taken_for_one() {
        assert!(Line::parse(BENCH, "warning: something").is_none());
        assert!(Line::parse(BENCH, r#"{"system": "tokens", "value": 1}"#).is_none());
    }
}
