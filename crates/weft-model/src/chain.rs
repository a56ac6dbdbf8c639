//! CEFT's Markov chain (section 6.2): states mPnB, m failed members of the primary group and n of the
//! backup group, no pair without a member; and the end, data loss.

use crate::consistency::Exposure;
use crate::inputs::{Assumed, Measured};
use crate::levels::{self, Level};
use crate::{Error, solve};

/// How likely it is that the next failure hits the partner of a failed member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Safety {
    /// As the paper has it (6.2, equations 5 to 7): by the number of failures, wherever they are.
    Counted,
    /// By where they are: with n failed backups, n of the primaries alive are the last of their pairs. This is
    /// what N independent pairs do. For all nodes together both come to the same probability; they part
    /// where the groups' members are not equally exposed. The paper's then loses data where no pair has two
    /// failures: with m = 0 the death of another backup cannot be a pair's second, yet by count it may.
    Placed,
}

/// The chain with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// N.
    pub pairs: u32,
    /// Failures of a node (lambda).
    pub failure: f64,
    /// Repairs of a node (mu). Each failed node is repaired on its own.
    pub repair: f64,
    /// Failures of the network (lambda_s).
    pub switch: f64,
    /// 1 - Pc for the primary group; the backup's is 0 in the paper.
    pub exposure: Exposure,
    /// P_ij and P_ik.
    pub safety: Safety,
}

/// The rates out of one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// To (m+1)PnB.
    pub primary_fails: f64,
    /// To mP(n+1)B.
    pub backup_fails: f64,
    /// To (m-1)PnB.
    pub primary_repaired: f64,
    /// To mP(n-1)B.
    pub backup_repaired: f64,
    /// To data loss.
    pub lost: f64,
}

impl Rates {
    /// Towards fewer failures.
    pub fn repairs(&self) -> f64 {
        self.primary_repaired + self.backup_repaired
    }
}

impl Chain {
    /// # Errors
    /// If the model says nothing about such a cluster or load.
    pub fn new(
        assumed: &Assumed,
        load: &Measured,
        exposure: Exposure,
        safety: Safety,
    ) -> Result<Chain, Error> {
        assumed.check()?;
        load.check()?;
        if load.repair > assumed.mttf_node {
            return Err(Error::RepairTooSlow);
        }
        Ok(Chain {
            pairs: assumed.pairs,
            failure: 1.0 / assumed.mttf_node,
            repair: 1.0 / load.repair,
            switch: 1.0 / assumed.mttf_switch,
            exposure,
            safety,
        })
    }

    /// P_ij and P_ik: the probabilities that a further failure in the primary or the backup group leaves
    /// every pair a member.
    ///
    /// Counted: P(mPnB) = C(N, k) 2^k / C(2N, k) with k = m + n (equation 6), so that either quotient of
    /// equations 5 and 7 is 2 (N - k)/(2N - k).
    fn safe(&self, m: u32, n: u32) -> (f64, f64) {
        let (pairs, m, n) = (f64::from(self.pairs), f64::from(m), f64::from(n));
        match self.safety {
            Safety::Counted => {
                let safe = 2.0 * (pairs - m - n) / (2.0 * pairs - m - n);
                (safe, safe)
            }
            Safety::Placed => {
                let of = |alive: f64, partners_failed: f64| {
                    if alive == 0.0 {
                        0.0
                    } else {
                        (alive - partners_failed) / alive
                    }
                };
                (of(pairs - m, n), of(pairs - n, m))
            }
        }
    }

    /// The rates out of mPnB (equations 8 to 10).
    pub fn rates(&self, m: u32, n: u32) -> Rates {
        let (safe_primary, safe_backup) = self.safe(m, n);
        let primaries = f64::from(self.pairs - m) * self.failure;
        let backups = f64::from(self.pairs - n) * self.failure;
        let kept_primary = safe_primary * (1.0 - self.exposure.primary);
        let kept_backup = safe_backup * (1.0 - self.exposure.backup);
        // 1 - kept, without losing small exposures to rounding.
        let lost_primary = (1.0 - safe_primary) + safe_primary * self.exposure.primary;
        let lost_backup = (1.0 - safe_backup) + safe_backup * self.exposure.backup;
        Rates {
            primary_fails: primaries * kept_primary,
            backup_fails: backups * kept_backup,
            primary_repaired: f64::from(m) * self.repair,
            backup_repaired: f64::from(n) * self.repair,
            lost: primaries * lost_primary + backups * lost_backup + self.switch,
        }
    }

    /// Mean time to data loss, in seconds, from the state without failures.
    ///
    /// All states with k = m + n failures are one level where their rates into data loss are equal, and then
    /// the chain is solved exactly level by level. They are if both groups are equally exposed. They are also if
    /// safety is placed: N - k pairs are whole, and of each one member or the other dies. Only the paper's chain for asynchronous
    /// protocols needs all states.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] if rounding makes the answer useless.
    pub fn mttdl(&self) -> Result<f64, Error> {
        let same = self.exposure.primary == self.exposure.backup;
        if same || self.safety == Safety::Placed {
            Ok(self.mttdl_by_levels())
        } else {
            self.mttdl_by_states()
        }
    }

    /// As [`Self::mttdl`], always over all (N+1)(N+2)/2 states.
    ///
    /// # Errors
    /// As [`Self::mttdl`].
    pub fn mttdl_by_states(&self) -> Result<f64, Error> {
        solve::mean_time_to_loss(self)
    }

    fn mttdl_by_levels(&self) -> f64 {
        let exposure = f64::midpoint(self.exposure.primary, self.exposure.backup);
        levels::mean_time_to_end((0..=self.pairs).map(|failed| {
            let whole = 2.0 * f64::from(self.pairs - failed) * self.failure;
            let failed = f64::from(failed);
            Level {
                up: whole * (1.0 - exposure),
                down: failed * self.repair,
                lost: failed * self.failure + whole * exposure + self.switch,
            }
        }))
    }
}
