//! Chains that move by one level at a time: exact elimination from below.
//!
//! On a tridiagonal system Gaussian elimination needs no pivots, and written in terms of
//! probabilities it has no subtraction: every term is positive, so the result keeps the full precision
//! of its inputs however far the rates lie apart (Grassmann, Taksar and Heyman's arrangement). This is
//! not linear algebra in general; that is `solve`'s.

/// The rates out of one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// To the next one.
    pub up: f64,
    /// To the one below.
    pub down: f64,
    /// To the end.
    pub lost: f64,
}

/// Mean time from level 0 to the end. From the last level nothing goes up.
pub(crate) fn mean_time_to_end(levels: impl IntoIterator<Item = Level>) -> f64 {
    // Of a visit that begins at a level: the mean time until it leaves for the next level or the end, and
    // the probability that it is the end.
    let (mut time, mut ends) = (0.0, 0.0);
    // The probability to come as far as this level.
    let mut reached = 1.0;
    let mut total = 0.0;
    for level in levels {
        let leaves = level.up + level.lost + level.down * ends;
        time = (1.0 + level.down * time) / leaves;
        total += reached * time;
        reached *= level.up / leaves;
        ends = (level.lost + level.down * ends) / leaves;
    }
    total
}
