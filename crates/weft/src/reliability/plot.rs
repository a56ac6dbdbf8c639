//! The plot of `weft reliability`: on the left how many times as long as without mirrors, as CEFT's figure 16
//! compares it; on the right for how long, by the number of pairs.

use super::{Plan, YEAR};
use plotters::prelude::*;
use weft_model::Scheme;

/// CEFT's configurations, beside the one that was asked for.
const PAPERS_PAIRS: [u32; 3] = [8, 16, 32];
/// The curves reach at least to the last of them.
const CURVE_PAIRS_MIN: u32 = 32;
/// Between two points of a curve, as a factor.
const CURVE_STEP: f64 = 1.5;

const SIZE: (u32, u32) = (1180, 460);
const BARE: RGBColor = RGBColor(120, 130, 150);
const WEFT: RGBColor = RGBColor(192, 80, 40);
const CEFT: [RGBColor; 5] = [
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(188, 160, 34),
    RGBColor(23, 160, 170),
];

/// One line of the plot: a name, a colour, and a value for each number of pairs.
struct Series {
    name: String,
    color: RGBColor,
    values: Vec<(u32, f64)>,
}

type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The plot as SVG.
///
/// # Errors
/// If the model has no answer for some number of pairs.
pub fn draw(plan: &Plan) -> Outcome<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(SIZE.0 / 2);
        bars(&left, plan)?;
        curves(&right, plan)?;
        area.present()?;
    }
    Ok(svg)
}

/// MTTDL in years of each protocol in CEFT, and of the least reliable of them in Weft.
fn series(plan: &Plan, pairs: &[u32]) -> Outcome<Vec<Series>> {
    let of = |name: String, color, mttdl: &dyn Fn(&Plan) -> crate::error::Result<f64>| {
        let value = |&pairs: &u32| Ok((pairs, mttdl(&plan.with_pairs(pairs))? / YEAR));
        Ok::<_, crate::error::Error>(Series {
            name,
            color,
            values: pairs
                .iter()
                .map(value)
                .collect::<crate::error::Result<_>>()?,
        })
    };
    let mut all = Vec::new();
    for (protocol, color) in plan.protocols.iter().zip(CEFT) {
        all.push(of(
            format!("CEFT, {}", protocol.name()),
            color,
            &|plan: &Plan| Ok(plan.forecast(*protocol, Scheme::Ceft)?.mttdl),
        )?);
    }
    all.push(of("Weft, least of these".into(), WEFT, &|plan: &Plan| {
        plan.protocols.iter().try_fold(f64::INFINITY, |least, one| {
            Ok(least.min(plan.forecast(*one, Scheme::Weft)?.mttdl))
        })
    })?);
    Ok(all)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn bars(area: &Area<'_>, plan: &Plan) -> Outcome<()> {
    let mut pairs = PAPERS_PAIRS.to_vec();
    pairs.push(plan.assumed.pairs);
    pairs.sort_unstable();
    pairs.dedup();
    let mut series = series(plan, &pairs)?;
    for one in &mut series {
        for (pairs, value) in &mut one.values {
            *value *= YEAR / plan.with_pairs(*pairs).striping();
        }
    }
    let most = greatest(&series);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "times as long as the same nodes without mirrors",
            ("sans-serif", 15),
        )
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..pairs.len() as f64, 0.0..most * 1.35)?;
    let name = |at: &f64| {
        let group = at.floor();
        // Only the middle of a group has a name.
        if (at - group - 0.5).abs() < 0.01 {
            format!("{} pairs", pairs[group as usize])
        } else {
            String::new()
        }
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_labels(2 * pairs.len() + 1)
        .x_label_formatter(&name)
        .draw()?;
    let width = 0.8 / series.len() as f64;
    for (at, one) in series.iter().enumerate() {
        let color = one.color;
        let bar = |(group, (_, value)): (usize, &(u32, f64))| {
            let left = group as f64 + 0.1 + width * at as f64;
            Rectangle::new([(left, 0.0), (left + width * 0.9, *value)], color.filled())
        };
        chart
            .draw_series(one.values.iter().enumerate().map(bar))?
            .label(&one.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

fn curves(area: &Area<'_>, plan: &Plan) -> Outcome<()> {
    let last = plan.assumed.pairs.max(CURVE_PAIRS_MIN);
    let pairs = steps(last);
    let mut series = series(plan, &pairs)?;
    series.push(Series {
        name: "no mirrors".into(),
        color: BARE,
        values: pairs
            .iter()
            .map(|&pairs| (pairs, plan.with_pairs(pairs).striping() / YEAR))
            .collect(),
    });
    let least = series
        .iter()
        .flat_map(|one| &one.values)
        .map(|(_, value)| *value)
        .fold(f64::INFINITY, f64::min);
    let mut chart = ChartBuilder::on(area)
        .caption("mean years to data loss, by pairs", ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (1.0..f64::from(last)).log_scale(),
            (least * 0.7..greatest(&series) * 1.5).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_label_formatter(&|pairs| format!("{pairs:.0}"))
        .y_label_formatter(&|years| years.to_string())
        .draw()?;
    for one in &series {
        let color = one.color;
        let points: Vec<(f64, f64)> = one
            .values
            .iter()
            .map(|(pairs, value)| (f64::from(*pairs), *value))
            .collect();
        // Weft's lies over the synchronous ones: a broad pale line under them shows that it does.
        let line = if color == WEFT {
            color.mix(0.4).stroke_width(7)
        } else {
            color.stroke_width(2)
        };
        chart
            .draw_series(std::iter::once(PathElement::new(points, line)))?
            .label(&one.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], line));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

fn greatest(series: &[Series]) -> f64 {
    series
        .iter()
        .flat_map(|one| &one.values)
        .map(|(_, value)| *value)
        .fold(f64::MIN_POSITIVE, f64::max)
}

/// From 1 to `last`, both included, at about equal distances on a logarithmic scale.
fn steps(last: u32) -> Vec<u32> {
    let mut steps = vec![1];
    let mut next = 1.0;
    while next < f64::from(last) {
        next = f64::min(next * CURVE_STEP, f64::from(last));
        steps.push(next.round() as u32);
    }
    steps.dedup();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_reach_from_one_pair_to_the_last() {
        assert_eq!(steps(1), [1]);
        let steps = steps(1000);
        assert_eq!((steps[0], steps[steps.len() - 1]), (1, 1000));
        assert!(steps.is_sorted() && steps.len() < 25);
    }
}
