//! Writes figures as JSON lines, a table and plots.

use crate::run::Outcome;
use plotters::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// One JSON line. Absent goals are absent, never true.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Which benchmark.
    pub bench: &'static str,
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
    /// A figure of `bench peers` without a goal.
    pub fn new(system: &str, figure: &str, case: &str, value: f64, unit: &str) -> Line {
        Line::of("peers", system, figure, case, value, unit)
    }

    /// A figure without a goal, as the simulator's examples print them. None: it is none.
    pub fn parse(bench: &'static str, line: &str) -> Option<Line> {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| line[key].as_str();
        let value = line["value"].as_f64()?;
        Some(Line::of(
            bench,
            text("system")?,
            text("figure")?,
            text("case")?,
            value,
            text("unit")?,
        ))
    }

    /// A figure without a goal.
    pub fn of(
        bench: &'static str,
        system: &str,
        figure: &str,
        case: &str,
        value: f64,
        unit: &str,
    ) -> Line {
        Line {
            bench,
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

    /// The same with a comparison. `goal`: what the ratio should reach.
    pub fn beside(&self, baseline: &str, value: f64, goal: Option<f64>) -> Line {
        let ratio = self.value / value;
        Line {
            baseline: Some(baseline.into()),
            ratio: Some(ratio),
            goal,
            ok: goal.map(|goal| ratio >= goal),
            ..self.clone()
        }
    }

    /// The same where less is better. `goal`: what the ratio should not pass.
    pub fn beside_at_most(&self, baseline: &str, value: f64, goal: Option<f64>) -> Line {
        let beside = self.beside(baseline, value, None);
        Line {
            goal,
            ok: goal.and_then(|goal| beside.ratio.map(|ratio| ratio <= goal)),
            ..beside
        }
    }

    /// What makes two lines rounds of one figure.
    pub fn key(&self) -> (String, String, String) {
        (self.system.clone(), self.figure.clone(), self.case.clone())
    }
}

/// One line for each figure: the median of its rounds, in the order of first appearance.
pub fn medians(lines: Vec<Line>) -> Vec<Line> {
    let mut order: Vec<Line> = Vec::new();
    let mut values: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    for line in lines {
        let all = values.entry(line.key()).or_default();
        all.push(line.value);
        if all.len() == 1 {
            order.push(line);
        }
    }
    for line in &mut order {
        let all = values.entry(line.key()).or_default();
        all.sort_by(f64::total_cmp);
        line.value = all[all.len() / 2];
    }
    order
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
        let points: Vec<&Line> = lines
            .iter()
            .filter(|line| line.figure == figure && line.ratio.is_none())
            .collect();
        // Growing numbers of clients make a curve.
        let drawn = match points.iter().all(|line| clients(&line.case).is_some()) {
            true => curves(&points, &figure, &unit, &path),
            false => plot(lines, &figure, &unit, &path),
        };
        drawn.map_err(|error| format!("{}: {error}", path.display()))?;
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
                    .find(|line| line.system == *system && line.ratio.is_none())
                    .map_or("-".into(), |line| number(line.value))
            })
            .collect();
        let goals: Vec<String> = of_row()
            .filter_map(|line| {
                let (ratio, baseline) = (line.ratio?, line.baseline.as_ref()?);
                let Some(goal) = line.goal else {
                    return Some(format!("{}: {ratio:.2}x {baseline}", line.system));
                };
                let word = if line.ok? { "met" } else { "MISSED" };
                let who = match line.bench {
                    // There is one whose goals they are.
                    "peers" => String::new(),
                    _ => format!("{}: ", line.system),
                };
                Some(format!("{who}{ratio:.2}x {baseline} (goal {goal}): {word}"))
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
        .filter(|line| line.figure == figure && line.ratio.is_none())
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

/// The number in a case like `8 clients`.
fn clients(case: &str) -> Option<u32> {
    let (number, what) = case.split_once(' ')?;
    what.starts_with("client").then(|| number.parse().ok())?
}

/// Of the systems of a plot, in order.
pub const COLORS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(192, 80, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(188, 160, 34),
    RGBColor(120, 130, 150),
    RGBColor(60, 66, 75),
    RGBColor(23, 160, 170),
];

/// One line for each system, over the number of clients.
fn curves(
    points: &[&Line],
    figure: &str,
    unit: &str,
    path: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let of = |line: &Line| (f64::from(clients(&line.case).unwrap_or(1)), line.value);
    let greatest = |pick: fn((f64, f64)) -> f64| {
        let values = points.iter().map(|line| pick(of(line)));
        values.fold(f64::MIN_POSITIVE, f64::max)
    };
    let (most, top) = (greatest(|at| at.0).max(2.0), greatest(|at| at.1));
    let area = SVGBackend::new(path, (WIDTH as u32, 440)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{figure} ({unit}), by clients"), ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d((1.0..most).log_scale().base(2.0), 0.0..top * 1.35)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_label_formatter(&|clients| format!("{clients:.0}"))
        .draw()?;
    let systems: Vec<Line> = points.iter().map(|&line| line.clone()).collect();
    for (system, color) in self::systems(&systems).iter().zip(COLORS.iter().cycle()) {
        let line = color.stroke_width(2);
        let points: Vec<(f64, f64)> = points
            .iter()
            .filter(|line| line.system == *system)
            .map(|line| of(line))
            .collect();
        chart.draw_series(points.iter().map(|&at| Circle::new(at, 3, color.filled())))?;
        chart
            .draw_series(std::iter::once(PathElement::new(points, line)))?
            .label(system)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], line));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
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

    #[test]
    fn numbers_of_clients_make_a_curve_and_ratios_without_a_goal_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let line = |system, case, value| Line::of("ceft", system, "4+4 raw", case, value, "MB/s");
        let lines = [
            line("half", "1 client", 10.0),
            line("half", "2 clients", 20.0),
            line("client-sync", "1 client", 5.0),
            line("client-sync", "1 client", 5.0).beside("half", 10.0, None),
            line("client-sync", "2 clients", 19.0).beside("half", 20.0, Some(0.96)),
        ];
        write(&lines, directory.path(), None).unwrap();
        let read = |name| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("4+4_raw.svg").contains("by clients"));
        let table = read("table.md");
        assert!(table.contains("client-sync: 0.50x half |"), "{table}");
        assert!(table.contains("0.95x half (goal 0.96): MISSED"), "{table}");
        assert!(!read("figures.jsonl").contains("\"ok\":true"));
    }
}
