//! Writes figures as JSON lines, a table and plots.

use crate::run::Outcome;
use plotters::prelude::*;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// One JSON line. Absent goals are absent, never true.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    bench: &'static str,
    /// Which file system.
    pub system: String,
    /// What was measured.
    pub figure: String,
    /// A variant of it.
    pub case: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The figure divided by the baseline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// What the ratio should reach, or not pass where less is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// It does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
}

impl Line {
    /// A figure without a goal.
    pub fn new(system: &str, figure: &str, case: &str, value: f64, unit: &str) -> Line {
        Line {
            bench: "peers",
            system: system.into(),
            figure: figure.into(),
            case: case.into(),
            value,
            unit: unit.into(),
            baseline: None,
            ratio: None,
            goal: None,
            ok: None,
        }
    }

    /// What makes two lines rounds of one figure.
    pub fn key(&self) -> (String, String, String) {
        (self.system.clone(), self.figure.clone(), self.case.clone())
    }
}

/// Prints the table and writes `figures.jsonl`, `table.md` and one SVG for each figure.
///
/// # Errors
/// If a file cannot be written.
pub fn write(lines: &[Line], directory: &Path, json: Option<&Path>) -> Outcome {
    let io = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(io)?;
    let mut text = String::new();
    for line in lines {
        let line = serde_json::to_string(line).map_err(|error| error.to_string())?;
        text.push_str(&line);
        text.push('\n');
    }
    std::fs::write(directory.join("figures.jsonl"), &text).map_err(io)?;
    if let Some(path) = json {
        std::fs::write(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let table = table(lines);
    println!("{table}");
    std::fs::write(directory.join("table.md"), table).map_err(io)?;
    for (figure, unit) in figures(lines) {
        let path = directory.join(format!("{}.svg", figure.replace(' ', "_")));
        plot(lines, &figure, &unit, &path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("table, plots and figures are in {}", directory.display());
    Ok(())
}

fn figures(lines: &[Line]) -> Vec<(String, String)> {
    let mut figures: Vec<(String, String)> = Vec::new();
    for line in lines {
        if !figures.iter().any(|(figure, _)| *figure == line.figure) {
            figures.push((line.figure.clone(), line.unit.clone()));
        }
    }
    figures
}

fn systems(lines: &[Line]) -> Vec<String> {
    let mut systems: Vec<String> = Vec::new();
    for line in lines {
        if !systems.contains(&line.system) {
            systems.push(line.system.clone());
        }
    }
    systems
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn table(lines: &[Line]) -> String {
    let systems = systems(lines);
    let mut out = format!("\n| figure | {} | unit | goals |\n", systems.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(systems.len() + 3));
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for line in lines {
        if !rows.contains(&(&line.figure, &line.case)) {
            rows.push((&line.figure, &line.case));
        }
    }
    for (figure, case) in rows {
        let of_row = || {
            lines
                .iter()
                .filter(|line| line.figure == figure && line.case == case)
        };
        let cells: Vec<String> = systems
            .iter()
            .map(|system| {
                of_row()
                    .find(|line| line.system == *system && line.goal.is_none())
                    .map_or("-".into(), |line| number(line.value))
            })
            .collect();
        let goals: Vec<String> = of_row()
            .filter_map(|line| {
                let (ratio, goal, baseline) = (line.ratio?, line.goal?, line.baseline.as_ref()?);
                let word = if line.ok? { "met" } else { "MISSED" };
                Some(format!("{ratio:.2}x {baseline} (goal {goal}): {word}"))
            })
            .collect();
        let unit = of_row().next().map_or("", |line| line.unit.as_str());
        let _ = writeln!(
            out,
            "| {figure} {case} | {} | {unit} | {} |",
            cells.join(" | "),
            goals.join("; ")
        );
    }
    out
}

const BAR_HEIGHT: i32 = 18;
const LEFT: i32 = 220;
const WIDTH: i32 = 760;

fn plot(
    lines: &[Line],
    figure: &str,
    unit: &str,
    path: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let bars: Vec<&Line> = lines
        .iter()
        .filter(|line| line.figure == figure && line.goal.is_none())
        .collect();
    let greatest = bars
        .iter()
        .map(|line| line.value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = 40 + BAR_HEIGHT * bars.len() as i32;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let font = |size: f64| ("sans-serif", size).into_font().color(&BLACK);
    area.draw(&Text::new(format!("{figure} ({unit})"), (8, 8), font(16.0)))?;
    for (row, bar) in bars.iter().enumerate() {
        let top = 34 + BAR_HEIGHT * row as i32;
        let length = (f64::from(WIDTH - LEFT - 90) * bar.value / greatest) as i32;
        let color = if bar.system.starts_with("weft") {
            RGBColor(192, 80, 40)
        } else {
            RGBColor(120, 130, 150)
        };
        let shape = [(LEFT, top), (LEFT + length.max(1), top + BAR_HEIGHT - 4)];
        area.draw(&Rectangle::new(shape, color.filled()))?;
        area.draw(&Text::new(
            format!("{} {}", bar.system, bar.case),
            (8, top),
            font(12.0),
        ))?;
        area.draw(&Text::new(
            number(bar.value),
            (LEFT + length + 6, top),
            font(12.0),
        ))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_lines_a_table_and_plots() {
        let directory = tempfile::tempdir().unwrap();
        let mut judged = Line::new("weft", "create", "1 job", 200.0, "op/s");
        judged.baseline = Some("moosefs".into());
        judged.ratio = Some(2.0);
        judged.goal = Some(1.5);
        judged.ok = Some(true);
        let lines = [
            Line::new("moosefs", "create", "1 job", 100.0, "op/s"),
            Line::new("weft", "create", "1 job", 200.0, "op/s"),
            judged,
        ];
        write(&lines, directory.path(), None).unwrap();
        let read = |name| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("figures.jsonl").lines().count(), 3);
        assert!(
            !read("figures.jsonl")
                .lines()
                .next()
                .unwrap()
                .contains("\"ok\"")
        );
        assert!(read("table.md").contains("2.00x moosefs (goal 1.5): met"));
        assert!(read("create.svg").starts_with("<svg"));
    }
}
