//! A cluster in the simulated world, with clients that work on it.

pub mod builder;
pub mod coverage;
pub mod damage;
pub mod faults;
pub mod operator;
mod orders;
pub mod run;
pub mod scrub;
#[cfg(test)]
mod session_tests;
pub mod slots;
pub mod workload;
