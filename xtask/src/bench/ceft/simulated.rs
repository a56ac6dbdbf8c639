//! The same curves in virtual time: runs the simulator's example and sets what it prints beside the
//! paper's.

use super::{ALL, CeftOptions, HALF, paper, set_goals, steps};
use crate::bench::report::{self, Line};
use crate::run::{Outcome, cargo};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Runs it for each set of servers and reports.
///
/// # Errors
/// If the example cannot be built or printed nothing. What some points lack is told and left out.
pub fn run(options: &CeftOptions, servers: &[usize]) -> Outcome {
    let mut lines = Vec::new();
    let mut is_whole = true;
    for &servers in servers {
        let most = options.clients.unwrap_or(2 * servers).max(1);
        let clients = steps(most, options.quick);
        is_whole &= run_set(options, servers / 2, &clients, &mut lines)?;
    }
    if lines.is_empty() {
        return Err("nothing could be measured".into());
    }
    set_goals(&mut lines);
    lines.extend(paper::beside(&lines));
    report::write(&lines, &options.report, options.json.as_deref())?;
    match is_whole {
        true => Ok(()),
        false => Err("some points are absent: see above".into()),
    }
}

/// True if all points came.
fn run_set(
    options: &CeftOptions,
    pairs: usize,
    clients: &[usize],
    lines: &mut Vec<Line>,
) -> Result<bool, String> {
    let clients: Vec<String> = clients.iter().map(usize::to_string).collect();
    let systems = [HALF, ALL].map(str::to_owned);
    let mut child = cargo()
        .args([
            "run",
            "--release",
            "--locked",
            "--quiet",
            "--package",
            "weft-sim",
        ])
        .args(["--example", "ceft", "--", "--pairs", &pairs.to_string()])
        .args(["--clients", &clients.join(",")])
        .args(["--rate", &options.rate.to_string()])
        .args(
            options
                .protocols
                .iter()
                .chain(&systems)
                .flat_map(|system| ["--system", system]),
        )
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let output = child.stdout.take().ok_or("the simulation has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("the simulation: {error}"))?;
        lines.push(parse(&line).ok_or_else(|| format!("the simulation said {line:?}"))?);
    }
    let status = child
        .wait()
        .map_err(|error| format!("the simulation: {error}"))?;
    Ok(status.success())
}

/// A line as the example prints them.
fn parse(line: &str) -> Option<Line> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| line[key].as_str();
    Some(Line::of(
        "ceft",
        text("system")?,
        text("figure")?,
        text("case")?,
        line["value"].as_f64()?,
        text("unit")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_simulation_is_one_of_the_report() {
        let line = r#"{"bench":"ceft","case":"8 clients","figure":"4+4 raw, different files","system":"hybrid","unit":"MB/s","value":23.5}"#;
        let parsed = parse(line).unwrap();
        assert_eq!(parsed.key().1, "4+4 raw, different files");
        assert_eq!((parsed.value, parsed.unit.as_str()), (23.5, "MB/s"));
        let shown: Value = serde_json::to_value(&parsed).unwrap();
        assert_eq!(shown, serde_json::from_str::<Value>(line).unwrap());
        assert!(parse("{}").is_none());
        assert!(parse("overall 3").is_none());
    }
}
