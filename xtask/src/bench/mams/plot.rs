//! Histograms.

use super::quantile::classes;
use crate::bench::report::COLORS;
use plotters::prelude::*;
use std::path::Path;

/// A curve of a plot: what it is called, and its values (milliseconds).
pub struct Series {
    /// What it is called.
    pub name: String,
    /// What was measured.
    pub values: Vec<f64>,
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
}
