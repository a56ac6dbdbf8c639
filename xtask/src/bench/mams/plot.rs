//! Histograms, and curves.

use super::quantile::classes;
use crate::bench::report::COLORS;
use plotters::prelude::*;
use std::path::Path;

/// What a plot shows beside others of its kind.
pub struct Series<T = f64> {
    /// What it is called.
    pub name: String,
    /// What was measured: of a histogram, milliseconds; of a curve, its height at each step, or its points.
    pub values: Vec<T>,
}

const SIZE: (u32, u32) = (760, 440);

/// Writes an SVG: how many trials had how long a pause, a series beside the other.
///
/// # Errors
/// If it cannot be drawn or written, in words.
pub fn histogram(title: &str, series: &[Series], path: &Path) -> Result<(), String> {
    draw(title, series, path).map_err(|error| format!("{}: {error}", path.display()))
}

fn draw(title: &str, series: &[Series], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // Not above 0 would be no time at all; logarithms want none.
    let positive = |values: &[f64]| -> Vec<f64> {
        let values = values.iter().map(|value| value.max(1e-3));
        values.collect()
    };
    let all: Vec<_> = series
        .iter()
        .map(|series| classes(&positive(&series.values)))
        .collect();
    let flat = || all.iter().flatten();
    let least = flat().map(|class| class.0).fold(f64::MAX, f64::min);
    let greatest = flat()
        .map(|class| class.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let most = flat().map(|class| class.2).max().unwrap_or(1);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    if least > greatest {
        area.present()?;
        return Ok(());
    }
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(40)
        .build_cartesian_2d(
            (least..greatest).log_scale().base(2.0),
            0.0..most as f64 * 1.3,
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .x_desc("milliseconds")
        .y_desc("trials")
        .draw()?;
    for ((series, classes), color) in series.iter().zip(&all).zip(COLORS.iter().cycle()) {
        let bars = classes.iter().filter(|class| class.2 > 0);
        let bars = bars.map(|&(from, to, count)| {
            let corners = [(from, 0.0), (to, count as f64)];
            Rectangle::new(corners, color.mix(0.45).filled())
        });
        chart
            .draw_series(bars)?
            .label(&series.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Writes an SVG: curves whose points follow one another at equal distances, from 0 on.
///
/// # Errors
/// If it cannot be drawn or written, in words.
pub fn curves(
    title: &str,
    axes: (&str, &str),
    series: &[Series],
    path: &Path,
) -> Result<(), String> {
    let series = series.iter().map(|series| Series {
        name: series.name.clone(),
        values: (0..)
            .map(f64::from)
            .zip(series.values.iter().copied())
            .collect(),
    });
    points(title, axes, &series.collect::<Vec<_>>(), path)
}

/// The same of curves whose points are given.
///
/// # Errors
/// As [`curves`].
pub fn points(
    title: &str,
    axes: (&str, &str),
    series: &[Series<(f64, f64)>],
    path: &Path,
) -> Result<(), String> {
    draw_points(title, axes, series, path).map_err(|error| format!("{}: {error}", path.display()))
}

fn draw_points(
    title: &str,
    (x_desc, y_desc): (&str, &str),
    series: &[Series<(f64, f64)>],
    path: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || series.iter().flat_map(|series| series.values.iter());
    let right = all().map(|at| at.0).fold(1.0, f64::max);
    let top = all().map(|at| at.1).fold(f64::MIN_POSITIVE, f64::max);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, 0.0..top * 1.3)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(x_desc)
        .y_desc(y_desc)
        .draw()?;
    for (series, color) in series.iter().zip(COLORS.iter().cycle()) {
        let line = color.stroke_width(2);
        let points = series.values.iter().copied();
        chart
            .draw_series(std::iter::once(PathElement::new(
                points.collect::<Vec<_>>(),
                line,
            )))?
            .label(&series.name)
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
    fn a_histogram_is_drawn_also_of_one_value_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plot.svg");
        for values in [vec![], vec![20.0], vec![0.0, 20.0, 21.0, 300.0]] {
            let name = "10,000 files".to_owned();
            histogram("away", &[Series { name, values }], &path).unwrap();
            let drawn = std::fs::read_to_string(&path).unwrap();
            assert!(drawn.starts_with("<svg"));
        }
    }

    #[test]
    fn a_curve_is_drawn_also_of_one_point_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("curve.svg");
        for values in [vec![], vec![20.0], vec![0.0, 20.0, 5.0]] {
            let name = "3 replicas".to_owned();
            curves("entries", ("x", "y"), &[Series { name, values }], &path).unwrap();
            let drawn = std::fs::read_to_string(&path).unwrap();
            assert!(drawn.contains("3 replicas"));
        }
    }
}
