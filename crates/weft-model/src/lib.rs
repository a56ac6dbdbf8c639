//! How long a cluster keeps its data, and how long its metadata service lives: Markov models.
//!
//! - [`inputs`]: what is assumed of the machines and what is measured of a load.
//! - [`consistency`]: what a member's death costs under each protocol, in CEFT and in Weft.
//! - [`chain`]: CEFT's Markov chain over all pairs, and its mean time to data loss.
//! - [`limits`]: no mirroring, and the limits that RAID-0 and RAID-1 are.
//! - [`group`]: a group of metadata servers of any size, after MAMS.
//! - [`forecast`]: all of it for one protocol.
//!
//! Papers are cited by name, section and equation. CEFT: Zhu, Jiang, J. Parallel Distrib. Comput. 2006. MAMS:
//! Zhou and others, IEEE TPDS 31(2), 2020. `docs/reliability.md` sets their figures beside ours, and says
//! where Weft differs.
//!
//! Pure: no I/O, no clock, no randomness. Times are seconds, rates are per second; what never happens has
//! the time [`NEVER`]. Called by `weft reliability`.

pub mod chain;
pub mod consistency;
pub mod forecast;
pub mod group;
pub mod inputs;
mod levels;
pub mod limits;
mod solve;

pub use chain::{Chain, Safety};
pub use consistency::Exposure;
pub use forecast::{Forecast, Scheme, forecast};
pub use group::{Group, Repair};
pub use inputs::{Assumed, Measured, Mttd, Protocol};

use thiserror::Error;

/// The mean time to what never happens.
pub const NEVER: f64 = f64::INFINITY;

/// More are refused: the chain has (N+1)(N+2)/2 states, half a million here, and its factors take some
/// 400 MB.
pub const PAIRS_MAX: u32 = 1000;

/// More are refused: no group of that size is run, and products of rates would leave the range of an f64.
pub const MEMBERS_MAX: u32 = 32;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Error {
    /// Give another number of pairs.
    #[error("{0} pairs: the model takes 1 to {PAIRS_MAX}")]
    Pairs(u32),
    /// Give another number of members.
    #[error("{0} members: the model takes groups of 1 to {MEMBERS_MAX}")]
    Members(u32),
    /// Give a time that is positive.
    #[error("{0} must be longer than nothing")]
    NotPositive(&'static str),
    /// Give a time that ends.
    #[error("{0} must have an end")]
    Endless(&'static str),
    /// Give a time that is none or longer.
    #[error("{0} cannot be negative")]
    Negative(&'static str),
    /// Give a share.
    #[error("{0} is a share: between 0 and 1")]
    NotAShare(&'static str),
    /// Repair must be quicker than failure: the model says nothing useful otherwise.
    #[error(
        "a node takes longer to be repaired than it lives; the model is for clusters that are mostly up"
    )]
    RepairTooSlow,
    /// The times differ by so many orders of magnitude that rounding decides the answer.
    #[error("these times are too far apart to be computed with: bring them nearer to each other")]
    Unsolvable,
}

/// Availability (CEFT 6.5, equation 14): the share of time in which the system is up.
pub fn availability(mean_time_to_failure: f64, mean_time_to_repair: f64) -> f64 {
    if mean_time_to_failure.is_infinite() {
        return 1.0;
    }
    mean_time_to_failure / (mean_time_to_failure + mean_time_to_repair)
}
