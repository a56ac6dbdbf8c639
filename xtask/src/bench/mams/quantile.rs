//! Percentiles, and classes of a histogram.

/// The value at this share (0 to 1): the least that so many of all are not above. None of none.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Bounds of a histogram's classes, each `CLASSES_PER_DOUBLING` of them twice the one before, from below
/// the least value to above the greatest; and how many values are in each. Values must be above 0.
pub fn classes(values: &[f64]) -> Vec<(f64, f64, usize)> {
    let index = |value: f64| (value.log2() * CLASSES_PER_DOUBLING).floor() as i32;
    let bound = |index: i32| (f64::from(index) / CLASSES_PER_DOUBLING).exp2();
    let indices: Vec<i32> = values.iter().map(|&value| index(value)).collect();
    let (Some(&first), Some(&last)) = (indices.iter().min(), indices.iter().max()) else {
        return Vec::new();
    };
    (first..=last)
        .map(|class| {
            let count = indices.iter().filter(|&&index| index == class).count();
            (bound(class), bound(class + 1), count)
        })
        .collect()
}

/// Pauses differ by factors.
const CLASSES_PER_DOUBLING: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<f64> = (1..=50).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(25.0));
        assert_eq!(percentile(&values, 0.9), Some(45.0));
        assert_eq!(percentile(&values, 0.99), Some(50.0));
        assert_eq!(percentile(&values, 1.0), Some(50.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn every_value_is_in_the_class_whose_bounds_it_lies_between() {
        let values = [1.0, 1.1, 8.0, 8.1, 9.9, 64.0];
        let classes = classes(&values);
        let all: usize = classes.iter().map(|(_, _, count)| count).sum();
        assert_eq!(all, values.len());
        for (from, to, count) in &classes {
            let within = values.iter().filter(|&value| from <= value && value < to);
            assert_eq!(within.count(), *count, "{from} to {to}");
        }
        for two in classes.windows(2) {
            assert_eq!(two[0].1, two[1].0);
        }
        assert!(super::classes(&[]).is_empty());
    }
}
