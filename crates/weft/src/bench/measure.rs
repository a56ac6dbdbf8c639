//! Timing operations on several threads, counting processor time, printing figures.

use crate::error::{Error, Result};
use crate::log::tell;
use crate::output::say;
use serde_json::json;
use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What is counted in a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// MiB/s, processor time for each GiB.
    Bytes,
    /// op/s, processor time for each 10,000.
    Operations,
    /// The whole time in seconds (less is better), processor time in all.
    Time,
}

/// The outcome of one figure.
pub struct Measured {
    elapsed: Duration,
    operations: u64,
    bytes: u64,
    /// Nanoseconds of each operation, sorted.
    latencies: Vec<u64>,
    cluster_cpu: Option<f64>,
    own_cpu: f64,
}

/// One thread's work: calls `tick` around each operation.
pub struct Job {
    /// Which one, from 0.
    pub index: usize,
    start: Instant,
    latencies: Vec<u64>,
    bytes: u64,
}

impl Job {
    /// Does and times one operation that moves this many bytes.
    pub fn operation<T>(
        &mut self,
        bytes: u64,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let start = Instant::now();
        let out = work()?;
        self.latencies.push(start.elapsed().as_nanos() as u64);
        self.bytes += bytes;
        Ok(out)
    }

    /// Time since all jobs began.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Prints figures as they come.
pub struct Report {
    json: bool,
    cpu_of: Vec<String>,
    only: Vec<String>,
    warm_memory: u64,
}

impl Report {
    /// `cpu_of`: names of processes; `only`: figures, all if empty; `warm_memory`: MiB of free
    /// memory that are touched before each figure.
    pub fn new(json: bool, cpu_of: Vec<String>, only: Vec<String>, warm_memory: u64) -> Report {
        Report {
            json,
            cpu_of,
            only,
            warm_memory,
        }
    }

    /// True if the figure was asked for.
    pub fn wants(&self, figure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == figure)
    }

    /// Runs `work` on `jobs` threads at the same time and prints what came out.
    ///
    /// # Errors
    /// The first error of a job.
    pub fn figure(
        &self,
        bench: &str,
        figure: &str,
        case: &str,
        count: Count,
        jobs: usize,
        work: impl Fn(&mut Job) -> io::Result<()> + Sync,
    ) -> Result<()> {
        warm_memory(self.warm_memory);
        let measured = measure(&self.cpu_of, jobs, &work)
            .map_err(|error| Error::Failed(format!("{bench} {figure} ({case}): {error}")))?;
        self.print(bench, figure, case, count, &measured)
    }

    fn print(
        &self,
        bench: &str,
        figure: &str,
        case: &str,
        count: Count,
        measured: &Measured,
    ) -> Result<()> {
        let seconds = measured.elapsed.as_secs_f64();
        let (value, unit, per, per_unit) = match count {
            Count::Bytes => (
                measured.bytes as f64 / (1 << 20) as f64 / seconds,
                "MiB/s",
                measured.bytes as f64 / (1u64 << 30) as f64,
                "cpu_s_per_gib",
            ),
            Count::Operations => (
                measured.operations as f64 / seconds,
                "op/s",
                measured.operations as f64 / 1e4,
                "cpu_s_per_10k",
            ),
            Count::Time => (seconds, "s", 1.0, "cpu_s"),
        };
        let percentile = |share: f64| {
            let last = measured.latencies.len().saturating_sub(1);
            let at = (last as f64 * share).round() as usize;
            measured
                .latencies
                .get(at)
                .map_or(0.0, |&ns| ns as f64 / 1e3)
        };
        let cpu = measured.cluster_cpu.map(|cpu| cpu / per);
        if self.json {
            let mut line = json!({
                "bench": bench,
                "figure": figure,
                "case": case,
                "value": round(value),
                "unit": unit,
                "seconds": round(seconds),
                "operations": measured.operations,
                "p50_us": round(percentile(0.5)),
                "p90_us": round(percentile(0.9)),
                "p99_us": round(percentile(0.99)),
                "max_us": round(percentile(1.0)),
                "caller_cpu_s": round(measured.own_cpu),
            });
            if let Some(cpu) = cpu {
                line[per_unit] = json!(round(cpu));
            }
            say!("{line}")
        } else {
            let cpu = cpu.map_or_else(String::new, |cpu| format!("  {cpu:8.3} {per_unit}"));
            say!(
                "{bench:<5} {figure:<16} {case:<12} {value:>10.1} {unit:<6} p50 {:>9.1} us  p99 {:>9.1} us{cpu}",
                percentile(0.5),
                percentile(0.99)
            )
        }
    }
}

/// Touches so many MiB of memory and gives them back.
///
/// A virtual machine whose host takes free memory away pays for the first touch of each page
/// again, several times what all copying costs. The pages are touched here, so that it is the file
/// system that is measured. Left out where there is no memory file system to do it with.
fn warm_memory(mebibytes: u64) {
    const PLACE: &str = "/dev/shm";
    let path = std::path::Path::new(PLACE).join(format!("weft-bench.{}", std::process::id()));
    let touch = || -> io::Result<()> {
        let mut file = std::fs::File::create(&path)?;
        let block = vec![1; 1 << 20];
        (0..mebibytes).try_for_each(|_| io::Write::write_all(&mut file, &block))
    };
    if mebibytes > 0 {
        if let Err(error) = touch() {
            tell!("memory is not touched first: {error}");
        }
        // If it could not be made there is nothing to remove.
        let _: io::Result<()> = std::fs::remove_file(&path);
    }
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn measure(
    cpu_of: &[String],
    jobs: usize,
    work: &(impl Fn(&mut Job) -> io::Result<()> + Sync),
) -> io::Result<Measured> {
    let barrier = Barrier::new(jobs + 1);
    let (mut start, mut cpu, mut own) = (Instant::now(), None, 0.0);
    let outcomes: Vec<io::Result<Job>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs)
            .map(|index| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let mut job = Job {
                        index,
                        start: Instant::now(),
                        latencies: Vec::new(),
                        bytes: 0,
                    };
                    work(&mut job)?;
                    Ok(job)
                })
            })
            .collect();
        cpu = cpu_seconds(cpu_of);
        own = own_cpu();
        barrier.wait();
        start = Instant::now();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a job panicked")))
            })
            .collect()
    });
    let elapsed = start.elapsed();
    let cluster_cpu = match (cpu, cpu_seconds(cpu_of)) {
        (Some(before), Some(after)) => Some((after - before).max(0.0)),
        _ => None,
    };
    let own_cpu = own_cpu() - own;
    let (mut latencies, mut bytes) = (Vec::new(), 0);
    for outcome in outcomes {
        let job = outcome?;
        latencies.extend(job.latencies);
        bytes += job.bytes;
    }
    latencies.sort_unstable();
    Ok(Measured {
        elapsed,
        operations: latencies.len() as u64,
        bytes,
        latencies,
        cluster_cpu,
        own_cpu,
    })
}

/// Processor seconds that this process has used.
pub fn own_cpu() -> f64 {
    // SAFETY: an all-zero rusage is a valid one, and the pointer is to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Processor seconds that all other processes with these names have used; None if there are none.
fn cpu_seconds(names: &[String]) -> Option<f64> {
    let own = std::process::id().to_string();
    let ticks = std::fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter_map(|pid| {
            // A process may end while we look.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (head, tail) = stat.rsplit_once(") ")?;
            let (_, name) = head.split_once('(')?;
            if !names.iter().any(|one| one == name) {
                return None;
            }
            let fields: Vec<&str> = tail.split(' ').collect();
            let user: u64 = fields.get(11)?.parse().ok()?;
            let system: u64 = fields.get(12)?.parse().ok()?;
            Some(user + system)
        });
    let ticks: Vec<u64> = ticks.collect();
    // SAFETY: sysconf takes a plain number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    (!ticks.is_empty()).then(|| ticks.iter().sum::<u64>() as f64 / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_all_jobs_are_counted() {
        let measured = measure(&[], 3, &|job: &mut Job| {
            for _ in 0..5 {
                job.operation(10, || Ok(()))?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!((measured.operations, measured.bytes), (15, 150));
        assert!(measured.cluster_cpu.is_none());
    }

    #[test]
    fn a_job_that_fails_fails_the_figure() {
        let failed = measure(&[], 2, &|job: &mut Job| {
            if job.index == 1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        });
        assert!(failed.is_err());
    }
}
