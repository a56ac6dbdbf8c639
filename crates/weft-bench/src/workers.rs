//! Runs one workload on several threads at once and makes a figure of it.

use crate::cpu::own_seconds;
use crate::figure::{Figure, Latency};
use crate::{Bench, BenchError};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What one worker did.
#[derive(Default)]
pub(crate) struct Tally {
    pub work: f64,
    pub errors: u64,
    pub latencies: Vec<Duration>,
}

impl Tally {
    /// Times one operation and counts its work, or its failure.
    pub(crate) fn time<T, E>(
        &mut self,
        work: f64,
        operation: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let start = Instant::now();
        let result = operation();
        self.latencies.push(start.elapsed());
        match result {
            Ok(value) => {
                self.work += work;
                Some(value)
            }
            Err(_) => {
                self.errors += 1;
                None
            }
        }
    }
}

/// What the figure is called and how it is counted.
pub(crate) struct Name<'a> {
    pub figure: &'a str,
    pub case: &'a str,
    /// `s` reports the time taken; anything else work for each second.
    pub unit: &'static str,
}

/// Runs `worker(index)` on `count` threads that start together; the slowest decides.
pub(crate) fn measure(
    bench: &mut Bench<'_>,
    name: &Name<'_>,
    count: usize,
    worker: impl Fn(usize, &mut Tally) -> Result<(), BenchError> + Sync,
) -> Result<(), BenchError> {
    let barrier = Barrier::new(count + 1);
    let (cluster, caller) = (bench.processes.seconds(), own_seconds());
    let (elapsed, tallies) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count)
            .map(|index| {
                let (barrier, worker) = (&barrier, &worker);
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    barrier.wait();
                    worker(index, &mut tally).map(|()| (Instant::now(), tally))
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let results: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(BenchError::Program("a worker panicked".into())))
            })
            .collect();
        let mut end = start;
        let mut tallies = Vec::new();
        for result in results {
            let (ended, tally) = result?;
            end = end.max(ended);
            tallies.push(tally);
        }
        Ok::<_, BenchError>((end - start, tallies))
    })?;
    let mut all = Tally::default();
    for tally in tallies {
        all.work += tally.work;
        all.errors += tally.errors;
        all.latencies.extend(tally.latencies);
    }
    let seconds = elapsed.as_secs_f64().max(1e-9);
    (bench.report)(Figure {
        figure: name.figure.to_owned(),
        case: name.case.to_owned(),
        value: if name.unit == "s" {
            seconds
        } else {
            all.work / seconds
        },
        unit: name.unit,
        seconds,
        work: all.work,
        latency: Latency::of(all.latencies),
        cpu_cluster_s: bench.processes.seconds() - cluster,
        cpu_caller_s: own_seconds() - caller,
        errors: all.errors,
    });
    Ok(())
}
