//! What the chain must come to where it becomes simple.

use crate::inputs::Assumed;
use crate::levels::{self, Level};

/// PVFS: stripes without mirrors over `nodes` nodes behind one network. The first failure loses data.
///
/// The paper compares with as many nodes in all as CEFT has, 2N (its availabilities, 6.5, tell so).
pub fn striping(nodes: u32, mttf_node: f64, mttf_switch: f64) -> f64 {
    1.0 / (f64::from(nodes) / mttf_node + 1.0 / mttf_switch)
}

/// RAID-0 over N nodes: what CEFT is if nothing is ever duplicated and the network holds (6.3).
pub fn raid0(assumed: &Assumed) -> f64 {
    assumed.mttf_node / f64::from(assumed.pairs)
}

/// RAID-1: what CEFT is if everything is duplicated at once and the network holds (6.3, figure 14). For one
/// pair it is (3 lambda + mu) / (2 lambda^2).
pub fn raid1(assumed: &Assumed, mttr_node: f64) -> f64 {
    let (failure, repair) = (1.0 / assumed.mttf_node, 1.0 / mttr_node);
    levels::mean_time_to_end((0..=assumed.pairs).map(|failed| Level {
        up: 2.0 * f64::from(assumed.pairs - failed) * failure,
        down: f64::from(failed) * repair,
        lost: f64::from(failed) * failure,
    }))
}
