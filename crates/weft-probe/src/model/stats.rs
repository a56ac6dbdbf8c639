//! Medians, outliers, and a line through points.

use serde::Serialize;

/// Farther from the median than so many scaled median deviations a sample counts as an outlier (Iglewicz and Hoaglin).
const OUTLIER_DEVIATIONS: f64 = 3.5;
/// Makes the median deviation of a normal distribution its standard deviation.
const DEVIATION_SCALE: f64 = 1.4826;
/// Samples that are alike to this share are not told apart: clocks are not that good.
const ALIKE: f64 = 0.02;
/// Points that are so much farther off a line than the median one are left out of the second fit.
const OFF_LINE: f64 = 4.0;
/// And at least so far off, as a share of their value.
const OFF_LINE_MIN: f64 = 0.1;

/// What many samples of one thing say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Half of the samples are less.
    pub median: f64,
    /// A quarter is less.
    pub low: f64,
    /// A quarter is more.
    pub high: f64,
    /// How many there were.
    pub count: usize,
    /// How many of them met something else: they stay in the median, which they do not move.
    pub outliers: usize,
}

impl Summary {
    /// None of no sample; what is no number counts for nothing.
    pub fn of(mut values: Vec<f64>) -> Option<Summary> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let median = at_share(&values, 0.5)?;
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        let typical = at_share(&deviations, 0.5)? * DEVIATION_SCALE;
        let far = OUTLIER_DEVIATIONS * typical.max(ALIKE * median.abs());
        Some(Summary {
            median,
            low: at_share(&values, 0.25)?,
            high: at_share(&values, 0.75)?,
            count: values.len(),
            outliers: deviations.iter().filter(|&&off| off > far).count(),
        })
    }
}

/// The value below which this share of the sorted ones lies, between two of them in proportion.
fn at_share(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its height at 0.
    pub at_zero: f64,
    /// How steep it is.
    pub slope: f64,
    /// How far the points are off it, as a share of their heights (root of the mean square), outliers included.
    pub error: f64,
}

/// The line of least squares through points (x, y), each weighed by 1/y²: a share of a small value counts as much as the
/// same share of a large one, or the longest message alone would decide. Then once more without points that are far off.
/// None of fewer than two different x, if some y is not positive, or if the line does not rise.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    if points.iter().any(|&(x, y)| !x.is_finite() || y <= 0.0) {
        return None;
    }
    let all = least_squares(points)?;
    let mut off: Vec<f64> = points.iter().map(|&at| all.off(at)).collect();
    off.sort_by(f64::total_cmp);
    let far = (at_share(&off, 0.5)? * OFF_LINE).max(OFF_LINE_MIN);
    let near: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|&at| all.off(at) <= far)
        .collect();
    // Two points have a line that says nothing of any other.
    let mut line = match near.len() {
        3.. => least_squares(&near).unwrap_or(all),
        _ => all,
    };
    let squares = points.iter().map(|&at| line.off(at).powi(2));
    line.error = (squares.sum::<f64>() / points.len() as f64).sqrt();
    (line.slope > 0.0).then_some(line)
}

impl Line {
    fn off(&self, (x, y): (f64, f64)) -> f64 {
        ((self.at_zero + self.slope * x - y) / y).abs()
    }
}

fn least_squares(points: &[(f64, f64)]) -> Option<Line> {
    let weighed = |value: fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|&(x, y)| value(x, y) / (y * y)).sum()
    };
    let weight = weighed(|_, _| 1.0);
    let (x, y) = (weighed(|x, _| x) / weight, weighed(|_, y| y) / weight);
    let (mut together, mut alone) = (0.0, 0.0);
    for &(at, height) in points {
        let weight = 1.0 / (height * height);
        together += weight * (at - x) * (height - y);
        alone += weight * (at - x).powi(2);
    }
    // All in one place: no line.
    if alone.is_nan() || alone <= 0.0 {
        return None;
    }
    let slope = together / alone;
    Some(Line {
        at_zero: y - slope * x,
        slope,
        error: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_summary_has_quartiles_and_counts_what_is_far_off() {
        let all = Summary::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((all.low, all.median, all.high), (2.0, 3.0, 4.0));
        assert_eq!((all.count, all.outliers), (5, 0));
        let even = Summary::of(vec![1.0, 2.0, 3.0, 10.0]).unwrap();
        assert_eq!(even.median, 2.5);
        let one = Summary::of(vec![7.0]).unwrap();
        assert_eq!((one.low, one.high, one.outliers), (7.0, 7.0, 0));
        // Alike to a clock; and one that is not.
        let flat = Summary::of(vec![100.0, 100.5, 100.0, 100.0, 150.0, f64::NAN]).unwrap();
        assert_eq!((flat.count, flat.outliers), (5, 1));
        assert_eq!(Summary::of(vec![]), None);
        assert_eq!(Summary::of(vec![f64::INFINITY]), None);
    }

    #[test]
    fn one_point_far_off_does_not_turn_the_line() {
        let mut points: Vec<(f64, f64)> = (0..8)
            .map(|step| f64::from(4u32.pow(step)))
            .map(|x| (x, 5.0 + 0.5 * x))
            .collect();
        points[3].1 *= 4.0;
        let found = line(&points).unwrap();
        assert!((found.slope / 0.5 - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.at_zero / 5.0 - 1.0).abs() < 1e-9, "{found:?}");
        // It is said all the same that there is one.
        assert!(found.error > 0.2, "{found:?}");
    }

    #[test]
    fn no_line_without_two_places_or_through_nothing() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(line(&[(1.0, 2.0), (2.0, 0.0)]), None);
        assert_eq!(line(&[(1.0, 2.0), (f64::NAN, 3.0)]), None);
        // The more bytes the sooner: nothing that has a gap for each.
        assert_eq!(line(&[(1.0, 3.0), (2.0, 2.0)]), None);
    }

    proptest! {
        #[test]
        fn a_line_is_found_through_noise(
            at_zero in 1e-7..1e-3f64,
            slope in 1e-11..1e-6f64,
            noise in proptest::collection::vec(-0.01..0.01f64, 8),
        ) {
            let points: Vec<(f64, f64)> = noise
                .iter()
                .enumerate()
                .map(|(step, noise)| {
                    let x = f64::from(8u32.pow(step as u32));
                    (x, (at_zero + slope * x) * (1.0 + noise))
                })
                .collect();
            let found = line(&points).unwrap();
            // Where even the longest message shows hardly any slope, none can be found.
            let share = slope * points[7].0 / at_zero;
            prop_assume!(share > 1.0);
            prop_assert!((found.slope / slope - 1.0).abs() < 0.06, "{found:?}");
            prop_assert!(found.error < 0.02);
        }
    }
}
