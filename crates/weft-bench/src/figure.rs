//! One measured figure.

use serde::Serialize;
use std::time::Duration;

/// One measured figure, with what it cost.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was measured, such as `seq_write`.
    pub figure: String,
    /// A variant of it, such as `4 writers`; empty if there is one only.
    pub case: String,
    /// The figure.
    pub value: f64,
    /// Its unit: `MiB/s`, `op/s`, `file/s`, `s`.
    pub unit: &'static str,
    /// How long the measured part took, in seconds.
    pub seconds: f64,
    /// Units of work in it: MiB or operations.
    pub work: f64,
    /// How the single operations were spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Processor seconds of the file system's processes.
    pub cpu_cluster_s: f64,
    /// Processor seconds of the workload itself, its system calls included.
    pub cpu_caller_s: f64,
    /// Operations that failed.
    pub errors: u64,
}

impl Figure {
    /// Processor seconds of the file system for each GiB (units of MiB) or 10,000 operations.
    pub fn cluster_cost(&self) -> f64 {
        let per = if self.unit == "MiB/s" {
            1024.0
        } else {
            10_000.0
        };
        if self.work > 0.0 {
            self.cpu_cluster_s / self.work * per
        } else {
            0.0
        }
    }
}

/// How long single operations took, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Latency {
    /// From all single durations; None if there are none.
    pub fn of(mut all: Vec<Duration>) -> Option<Latency> {
        all.sort_unstable();
        let last = all.len().checked_sub(1)?;
        let at = |share: f64| all[(last as f64 * share).round() as usize].as_secs_f64() * 1e6;
        Some(Latency {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: at(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_durations() {
        let all = (1..=1000).rev().map(Duration::from_micros).collect();
        let latency = Latency::of(all).unwrap();
        assert!((latency.p50_us - 501.0).abs() < 1.5);
        assert!((latency.p99_us - 990.0).abs() < 1.5);
        assert!((latency.max_us - 1000.0).abs() < 0.01);
        assert!(Latency::of(Vec::new()).is_none());
    }
}
