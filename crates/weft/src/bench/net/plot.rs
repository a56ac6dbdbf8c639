//! The plot of `weft bench net`: times and bandwidth by size of message above; below, as in dNFSp's figures 4 and 5, gap
//! and bandwidth of each route when ever more pairs of nodes transfer at the same time.

use super::Report;
use plotters::prelude::*;
use std::ops::Range;
use weft_probe::Flow;
use weft_probe::model::AtSize;

const SIZE: (u32, u32) = (1180, 860);
const COLORS: [RGBColor; 4] = [
    RGBColor(31, 119, 180),
    RGBColor(192, 80, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
];
/// Points that lie beside each other.
const FAINT: f64 = 0.45;

/// Microseconds or MB/s that are drawn. A logarithm has no place for nothing, and an axis that has to reach a value
/// without end is never done.
const DRAWN: Range<f64> = 1e-6..1e12;

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// One line: a name and its points.
type Curve = (&'static str, Vec<(f64, f64)>);

/// The plot as SVG. What was not measured is left out.
///
/// # Errors
/// If it cannot be drawn.
pub fn draw(report: &Report) -> Outcome<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (top, bottom) = area.split_vertically(SIZE.1 / 2);
        if let Some(found) = &report.parameters {
            let (left, right) = top.split_horizontally(SIZE.0 / 2);
            let of = |name, value: fn(&AtSize) -> f64| -> Curve {
                let points = found.sizes.iter();
                let points = points.map(|at| (f64::from(at.bytes), value(at)));
                (name, points.filter(|at| DRAWN.contains(&at.1)).collect())
            };
            let times = [
                of("gap g(m)", |at| at.gap.median * 1e6),
                of("delivery T(m)", |at| at.delivery * 1e6),
                of("send overhead os(m)", |at| at.send.median * 1e6),
                of("receive overhead or(m)", |at| at.receive.median * 1e6),
            ];
            by_size(&left, "microseconds, by bytes of a message", &times)?;
            let rates = [
                of("one after another, m/g(m)", |at| at.bandwidth() / 1e6),
                of("one alone, m/T(m)", |at| at.bandwidth_alone() / 1e6),
            ];
            by_size(&right, "MB/s, by bytes of a message", &rates)?;
        }
        if !report.pairs.is_empty() {
            let (left, right) = bottom.split_horizontally(SIZE.0 / 2);
            let gap = "gap of each (ms), by pairs of nodes at the same time";
            by_pairs(&left, gap, report, |flow| flow.gap.median * 1e3)?;
            let rate = "bandwidth of each (MB/s), by pairs of nodes at the same time";
            by_pairs(&right, rate, report, |flow| flow.bandwidth / 1e6)?;
        }
        area.present()?;
    }
    Ok(svg)
}

fn by_size(area: &Area<'_>, title: &str, curves: &[Curve]) -> Outcome<()> {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let range = |value: fn(&(f64, f64)) -> f64| {
        let least = all().map(value).fold(f64::INFINITY, f64::min);
        (least, all().map(value).fold(least, f64::max))
    };
    let ((left, right), (low, high)) = (range(|at| at.0), range(|at| at.1));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (left..right.max(left * 2.0)).log_scale().base(2.0),
            // Room for the names above.
            (low * 0.7..high * 20.0).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_label_formatter(&|bytes| crate::table::bytes(*bytes as u64).replace(".0 ", " "))
        .y_label_formatter(&|value| value.to_string())
        .draw()?;
    for ((name, points), color) in curves.iter().zip(COLORS) {
        let line = color.stroke_width(2);
        chart.draw_series(points.iter().map(|&at| Circle::new(at, 3, color.filled())))?;
        chart
            .draw_series(std::iter::once(PathElement::new(points.clone(), line)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], line));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// A point for each route, and a line through the means.
fn by_pairs(area: &Area<'_>, title: &str, report: &Report, value: fn(&Flow) -> f64) -> Outcome<()> {
    let (mut points, mut means) = (Vec::new(), Vec::new());
    for together in &report.pairs {
        let at = together.flows.len() as f64;
        let values: Vec<f64> = together.flows.iter().map(value).collect();
        means.push((at, values.iter().sum::<f64>() / at));
        points.extend(values.into_iter().map(|value| (at, value)));
    }
    let top = points
        .iter()
        .map(|at| at.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let most = report.pairs.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(0.5..most + 0.5, 0.0..top * 1.3)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(report.pairs.len().min(16) + 1)
        .x_label_formatter(&|pairs| match (pairs - pairs.round()).abs() < 0.01 {
            true => format!("{pairs:.0}"),
            false => String::new(),
        })
        .draw()?;
    let (point, mean) = (COLORS[0].mix(FAINT).filled(), COLORS[1].stroke_width(2));
    chart
        .draw_series(points.iter().map(|&at| Circle::new(at, 4, point)))?
        .label("one pair of nodes")
        .legend(move |(x, y)| Circle::new((x + 7, y), 4, point));
    chart
        .draw_series(std::iter::once(PathElement::new(means, mean)))?
        .label("mean")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], mean));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::net::Together;
    use weft_probe::Route;
    use weft_probe::model::{Parameters, Summary};

    #[test]
    fn it_is_drawn_of_all_that_was_measured_and_of_nothing() {
        let empty = draw(&Report::default()).unwrap();
        assert!(empty.starts_with("<svg") && !empty.contains("gap"));
        let of = |value| Summary::of(vec![value]).unwrap();
        let at = |bytes: u32, delivery: f64| AtSize {
            bytes,
            round_trip: of(2e-4),
            // In the simulator nothing takes the processor time.
            send: of(0.0),
            receive: of(1e-6),
            gap: of(1e-6 + f64::from(bytes) * 1e-8),
            delivery,
            delivery_by_model: 1e-4,
        };
        let flow = Flow {
            route: Route { from: 0, to: 1 },
            round_trip: None,
            gap: of(1e-2),
            bandwidth: 1e8,
        };
        let report = Report {
            parameters: Some(Parameters {
                latency: 1e-4,
                gap: 1e-6,
                gap_per_byte: 1e-8,
                error: 0.0,
                // The second has a bandwidth without end.
                sizes: vec![at(1, 1e-4), at(64, f64::MIN_POSITIVE), at(1 << 20, 1e-4)],
            }),
            pairs: vec![Together::new(vec![flow]), Together::new(vec![flow; 2])],
            ..Report::default()
        };
        let drawn = draw(&report).unwrap();
        for text in [
            "gap g(m)",
            "one alone, m/T(m)",
            "gap of each",
            "mean",
            "1 MiB",
        ] {
            assert!(drawn.contains(text), "{text}");
        }
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }
}
