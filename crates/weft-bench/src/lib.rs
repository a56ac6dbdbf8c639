//! Workloads that measure a directory of any file system, and what they cost.
//!
//! Used by `weft bench` on a mount of Weft and by `cargo xtask bench peers`, which runs the same code
//! on every file system that it sets side by side. A measuring tool, not a part of the file system:
//! it stands outside weft-env and uses real files, threads and clocks on purpose.
//!
//! Every figure says how long it took, how the single operations were spread, how many failed, and
//! how many seconds of processor the file system's own processes and the workload used meanwhile.
#![allow(clippy::disallowed_methods)] // a measuring tool: see above

mod cpu;
mod figure;
mod io;
mod meta;
mod random;
mod tree;
mod workers;

pub use cpu::Processes;
pub use figure::{Figure, Latency};
pub use io::{Direct, IoPlan, run_io};
pub use meta::{MetaPlan, run_meta};
pub use tree::{TreePlan, run_split, run_tree};

use std::io as stdio;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a workload could not be run. Operations that fail are counted in the figure instead.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Preparing or cleaning up failed.
    #[error("{path}: {source}")]
    File {
        /// What was being worked on.
        path: PathBuf,
        /// The operating system's answer.
        source: stdio::Error,
    },
    /// A program that a workload runs (tar, find, grep) could not be started or failed.
    #[error("{0}")]
    Program(String),
}

pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, BenchError>;
}

impl<T> At<T> for stdio::Result<T> {
    fn at(self, path: &Path) -> Result<T, BenchError> {
        self.map_err(|source| BenchError::File {
            path: path.to_owned(),
            source,
        })
    }
}

/// What all workloads share.
pub struct Bench<'a> {
    /// The directory to work in; a subdirectory of its own is made and removed.
    pub directory: &'a Path,
    /// The processes of the file system, for their processor time.
    pub processes: &'a Processes,
    /// Drop the machine's caches before what is to be read cold (as root).
    pub cold: bool,
    /// Called with each figure when it is known.
    pub report: &'a mut dyn FnMut(Figure),
}

impl Bench<'_> {
    /// Writes back and forgets what the kernel caches, so that the next reads are cold. Needs root:
    /// without it the figures are warm.
    fn cool(&self) {
        if self.cold {
            rustix::fs::sync();
            // Refused without root, which `cold` says.
            let _: stdio::Result<()> = std::fs::write("/proc/sys/vm/drop_caches", "3");
        }
    }
}
