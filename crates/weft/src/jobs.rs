//! Jobs of the cluster's own, as people see them: draining, rebalancing, laying trees otherwise.

use crate::error::{Error, Result};
use crate::output::say;
use crate::table;
use crate::tool::Tool;
use serde_json::{Value, json};
use std::time::Duration;
use weft_env::Env;
use weft_wire::proto::job::What;
use weft_wire::proto::{Job, JobStatus, JobsRequest, StartJobRequest};

/// How often progress is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a job does, in words.
fn what_of(job: &Job) -> String {
    match &job.what {
        Some(What::Drain(drain)) => format!("drain pair {}", drain.pair),
        Some(What::Rebalance(rebalance)) => format!("rebalance to {} %", rebalance.within_percent),
        Some(What::Relay(tree)) => format!("lay out tree of inode {}", tree.root),
        None => "unknown".into(),
    }
}

fn state_of(job: &Job) -> &'static str {
    match (job.ended.is_some(), job.cancelled) {
        (false, _) => "running",
        (true, true) => "cancelled",
        (true, false) => "done",
    }
}

/// How long it takes still, in seconds, if that can be told.
fn seconds_left(status: &JobStatus) -> Option<f64> {
    let is_known = status.is_counted && status.bytes_per_second > 0;
    is_known.then(|| status.bytes_left as f64 / status.bytes_per_second as f64)
}

/// One line about a job.
pub fn in_words(status: &JobStatus) -> String {
    let job = status.job.unwrap_or_default();
    let mut words = format!(
        "job {} ({}): {}, {} files and {} moved",
        job.id,
        what_of(&job),
        state_of(&job),
        job.files,
        table::bytes(job.bytes)
    );
    if job.ended.is_some() {
        return words;
    }
    if status.is_counted {
        words += &format!(
            ", {} files and {} left",
            status.files_left,
            table::bytes(status.bytes_left)
        );
    } else {
        words += ", counting what is left";
    }
    if status.bytes_per_second > 0 {
        words += &format!(", {}/s", table::bytes(status.bytes_per_second));
    }
    if let Some(left) = seconds_left(status) {
        words += &format!(", {} left", table::seconds(left));
    }
    if !status.waits.is_empty() {
        words += &format!("; waits: {}", status.waits);
    }
    if status.failures > 0 {
        words += &format!(
            "; {} attempts put off, the last: {}",
            status.failures, status.last_failure
        );
    }
    words
}

/// For programs.
pub fn to_json(status: &JobStatus) -> Value {
    let job = status.job.unwrap_or_default();
    json!({
        "job": job.id,
        "what": what_of(&job),
        "pair": match &job.what {
            Some(What::Drain(drain)) => Some(drain.pair),
            _ => None,
        },
        "state": state_of(&job),
        "files_moved": job.files,
        "bytes_moved": job.bytes,
        "files_left": status.files_left,
        "bytes_left": status.bytes_left,
        "counted": status.is_counted,
        "bytes_per_second": status.bytes_per_second,
        "seconds_left": seconds_left(status),
        "moving": status.moving,
        "failures": status.failures,
        "last_failure": status.last_failure,
        "waits": status.waits,
    })
}

/// The job that drains a pair, if one does.
pub fn draining(jobs: &[JobStatus], pair: u32) -> Option<&JobStatus> {
    jobs.iter().find(|status| {
        let job = status.job.unwrap_or_default();
        let drains = matches!(job.what, Some(What::Drain(drain)) if drain.pair == pair);
        drains && job.ended.is_none()
    })
}

/// Begins a job.
///
/// # Errors
/// If the cluster refuses it.
pub async fn start(tool: &Tool, what: What) -> Result<u64> {
    let job = Job {
        what: Some(what),
        ..Job::default()
    };
    let reply = tool.call(&StartJobRequest { job: Some(job) }).await?;
    Ok(reply.job)
}

/// Begins a job, and says how to follow it, or follows it to its end.
///
/// # Errors
/// If the cluster refuses it or, with `wait`, goes away.
pub async fn run(env: &Env, tool: &Tool, what: What, wait: bool, as_json: bool) -> Result<()> {
    let id = start(tool, what).await?;
    if !wait {
        if as_json {
            say!("{}", json!({ "job": id }))?;
        } else {
            say!(
                "job {id} ({}) has begun; it goes on by itself: `weft pair status` shows how far it is",
                what_of(&Job {
                    what: Some(what),
                    ..Job::default()
                })
            )?;
        }
        return Ok(());
    }
    follow(env, tool, id, as_json).await
}

/// Shows a job until it has ended.
async fn follow(env: &Env, tool: &Tool, id: u64, as_json: bool) -> Result<()> {
    let mut shown = String::new();
    loop {
        let jobs = tool.call(&JobsRequest {}).await?.jobs;
        let of_id = |status: &&JobStatus| status.job.is_some_and(|job| job.id == id);
        let Some(status) = jobs.iter().find(of_id) else {
            return Err(Error::Failed(format!("job {id} is not known any more")));
        };
        let job = status.job.unwrap_or_default();
        let words = in_words(status);
        if !as_json && words != shown {
            say!("{words}")?;
            shown = words;
        }
        if job.ended.is_some() {
            if as_json {
                say!("{}", to_json(status))?;
            }
            return match job.cancelled {
                true => Err(Error::Failed(format!("job {id} was cancelled"))),
                false => Ok(()),
            };
        }
        env.sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::proto::{DrainPair, Time};

    #[test]
    fn a_job_says_what_is_left_and_how_long_it_takes() {
        let job = Job {
            id: 3,
            what: Some(What::Drain(DrainPair { pair: 7 })),
            files: 2,
            bytes: 1 << 20,
            ..Job::default()
        };
        let mut status = JobStatus {
            job: Some(job),
            files_left: 5,
            bytes_left: 4 << 20,
            is_counted: true,
            bytes_per_second: 1 << 20,
            ..JobStatus::default()
        };
        assert_eq!(
            in_words(&status),
            "job 3 (drain pair 7): running, 2 files and 1.0 MiB moved, 5 files and 4.0 MiB left, \
             1.0 MiB/s, 4.0 s left"
        );
        assert!(draining(&[status.clone()], 7).is_some());
        assert!(draining(&[status.clone()], 6).is_none());
        if let Some(job) = &mut status.job {
            job.ended = Some(Time::default());
        }
        assert_eq!(
            in_words(&status),
            "job 3 (drain pair 7): done, 2 files and 1.0 MiB moved"
        );
        assert!(draining(&[status], 7).is_none());
    }
}
