//! The chain over both groups as a sparse linear system, solved by a library.

use crate::Error;
use crate::chain::Chain;
use faer::linalg::solvers::SolveCore;
use faer::sparse::{SparseColMat, Triplet};
use faer::{Col, Conj, Side};

/// Mean time from the first state to data loss (CEFT 6.3, equations 12 and 13).
///
/// With G the rates between working states, the diagonal being minus the rate out of a state, MTTDL is the sum
/// of the first row of (-G)^-1: the paper's (I - Q)^-1 with the time of one step taken out.
///
/// The chain is reversible: around each square of states the product of the rates is the same in both
/// directions (failures and repairs of one group do not depend on the other's but by a
/// factor of m + n). So with w(i)^2 the weight of state i under detailed balance, diag(w) (-G) diag(w)^-1 is
/// symmetric, has -sqrt(q_ij q_ji) beside its diagonal, and is positive definite. Cholesky's factors need no pivots
/// and fill less than LU's. Of the inverse only the first row is needed: one right side.
pub(crate) fn mean_time_to_loss(chain: &Chain) -> Result<f64, Error> {
    let pairs = chain.pairs;
    let states = state(pairs, pairs) + 1;
    let mut entries = Vec::with_capacity(3 * states);
    let mut weights = vec![1.0_f64; states];
    for m in 0..=pairs {
        for n in 0..=pairs - m {
            let (from, rates) = (state(m + n, n), chain.rates(m, n));
            let out = rates.primary_fails + rates.backup_fails + rates.lost + rates.repairs();
            entries.push(Triplet::new(from as u32, from as u32, out));
            if m + n == pairs {
                continue;
            }
            let next = [
                (rates.primary_fails, m + 1, state(m + n + 1, n)),
                (rates.backup_fails, n + 1, state(m + n + 1, n + 1)),
            ];
            for (there, failed, to) in next {
                let back = f64::from(failed) * chain.repair;
                weights[to] = weights[from] * (there / back).sqrt();
                let entry = -(there * back).sqrt();
                entries.push(Triplet::new(to as u32, from as u32, entry));
            }
        }
    }
    let matrix = SparseColMat::<u32, f64>::try_new_from_triplets(states, states, &entries)
        .map_err(|_| Error::Unsolvable)?;
    drop(entries);
    // Fails where rounding has made a pivot negative.
    let factors = matrix
        .sp_cholesky(Side::Lower)
        .map_err(|_| Error::Unsolvable)?;
    let mut times = Col::<f64>::zeros(states);
    times[0] = 1.0;
    factors.solve_in_place_with_conj(Conj::No, times.as_mat_mut());
    let total = (0..states).map(|at| times[at] * weights[at]).sum::<f64>();
    if total.is_finite() && total > 0.0 {
        Ok(total)
    } else {
        Err(Error::Unsolvable)
    }
}

/// The index of a state with `failed` failures, `n` of them in the backup group, from 0 (CEFT 6.2, equation
/// 2, from 1 there).
fn state(failed: u32, n: u32) -> usize {
    let failed = failed as usize;
    failed * (failed + 1) / 2 + n as usize
}
