//! What standbys cost in virtual time, where processors cost nothing: runs the simulator's example.

use super::cost::GOAL_OF_A_STANDBY;
use super::{BENCH, Setting, add};
use crate::bench::report::Line;
use crate::run::{Outcome, cargo};

/// Microseconds of a flush, from and to: disks that are all alike, and those of the simulator, of which the
/// slower of two is slower than one.
const FLUSHES: [&str; 2] = ["500,501", "200,4000"];

/// Each kind of disk with each number of standbys and clients.
///
/// # Errors
/// If the example cannot be built, or fails.
pub fn run(setting: &Setting<'_>, lines: &mut Vec<Line>) -> Outcome {
    let options = setting.options;
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        numbers.join(",")
    };
    for flush in FLUSHES {
        let output = cargo()
            .args(["run", "--release", "--locked", "--quiet"])
            .args(["--package", "weft-sim", "--example", "mams", "--"])
            .args(["--standbys", &list(&options.standbys)])
            .args(["--clients", &list(&options.clients)])
            .args(["--flush", flush])
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            return Err("the simulation failed: why stands above".into());
        }
        let mut before: Option<Line> = None;
        for text in String::from_utf8_lossy(&output.stdout).lines() {
            let line =
                Line::parse(BENCH, text).ok_or_else(|| format!("the simulation said {text:?}"))?;
            add(lines, line.clone())?;
            if let Some(before) = before.filter(|before| before.case == line.case) {
                let goal = Some(GOAL_OF_A_STANDBY);
                add(lines, line.beside(&before.system, before.value, goal))?;
            }
            before = Some(line);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_simulation_is_one_of_the_report() {
        let line = r#"{"bench":"mams","case":"8 clients","figure":"create, simulated","system":"1A1S","unit":"op/s","value":23.5}"#;
        let parsed = Line::parse(BENCH, line).unwrap();
        assert_eq!((parsed.system.as_str(), parsed.value), ("1A1S", 23.5));
        assert!(Line::parse(BENCH, "{}").is_none());
        assert!(Line::parse(BENCH, "23.5").is_none());
    }
}
