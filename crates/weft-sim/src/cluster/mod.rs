//! A cluster in the simulated world, with clients that work on it.

pub mod coverage;
pub mod workload;
