//! `weft pair` and `weft rebalance`: pairs come, go and are filled evenly while files are in use.

use crate::error::{Error, Result};
use crate::jobs;
use crate::output::say;
use crate::status::mode_name;
use crate::table;
use crate::tool::Where;
use clap::{Args, Subcommand};
use serde_json::json;
use weft_env::Env;
use weft_wire::proto::job::What;
use weft_wire::proto::{
    AdmitPairRequest, CancelJobRequest, DrainPair, Rebalance, ReplaceMemberRequest,
};

/// `weft pair ...`
#[derive(Args)]
pub struct PairCommand {
    #[command(subcommand)]
    what: PairWhat,
}

#[derive(Subcommand)]
enum PairWhat {
    /// The pairs, and the jobs that move files between them.
    #[command(alias = "list")]
    Status {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Lets a pair in; says how its servers are started.
    Add {
        /// Number of the pair.
        pair: u32,
        #[command(flatten)]
        cluster: Where,
    },
    /// Gives a member's store up: a server with an empty one takes its place and is filled.
    Replace {
        /// Number of the pair.
        pair: u32,
        /// The member, 0 or 1.
        #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1))]
        member: u32,
        /// Takes the store back, as long as no other one has come in its place.
        #[arg(long)]
        cancel: bool,
        #[command(flatten)]
        cluster: Where,
    },
    /// Moves everything off a pair while it is in use, then removes it.
    Drain {
        /// Number of the pair.
        pair: u32,
        /// Ends the draining: what has been moved stays where it is.
        #[arg(long)]
        cancel: bool,
        /// Shows progress until the pair is empty and removed.
        #[arg(long, conflicts_with = "cancel")]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Where,
    },
}

/// `weft rebalance`
#[derive(Args)]
pub struct RebalanceCommand {
    /// A pair may have so many per cent more than the mean.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    within: u32,
    /// Ends it: what has been moved stays where it is.
    #[arg(long)]
    cancel: bool,
    /// Shows progress until it is done.
    #[arg(long, conflicts_with = "cancel")]
    wait: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Where,
}

/// Runs `weft pair ...`.
///
/// # Errors
/// If no metadata server answers, or the cluster refuses (the message says why).
pub async fn run(env: Env, command: PairCommand) -> Result<()> {
    match command.what {
        PairWhat::Status { json, cluster } => status(&env, &cluster, json).await,
        PairWhat::Add { pair, cluster } => add(&env, pair, &cluster).await,
        PairWhat::Replace {
            pair,
            member,
            cancel,
            cluster,
        } => {
            let tool = cluster.connect(&env).await?;
            let request = ReplaceMemberRequest {
                pair,
                member,
                cancel,
            };
            tool.call(&request).await?;
            match cancel {
                true => say!("data:{pair}.{member} is taken back with what it has"),
                false => say!(
                    "data:{pair}.{member} is given up: stop it, and start a data server with `pair = {pair}`, `member = {member}` and \
                     an empty directory, here or on another machine. `weft status` shows how it is filled"
                ),
            }
        }
        PairWhat::Drain {
            pair,
            cancel,
            wait,
            json,
            cluster,
        } => {
            let drain = What::Drain(DrainPair { pair });
            if cancel {
                let none = format!("pair {pair} is not being drained");
                let is_meant = |what: &What| *what == drain;
                return cancel_job(&env, &cluster, is_meant, none).await;
            }
            let tool = cluster.connect(&env).await?;
            jobs::run(&env, &tool, drain, wait, json).await
        }
    }
}

/// Runs `weft rebalance`.
///
/// # Errors
/// As [`run`].
pub async fn rebalance(env: Env, command: RebalanceCommand) -> Result<()> {
    if command.cancel {
        let is_meant = |what: &What| matches!(what, What::Rebalance(_));
        let none = "the pairs are not being rebalanced".into();
        return cancel_job(&env, &command.cluster, is_meant, none).await;
    }
    let tool = command.cluster.connect(&env).await?;
    let what = What::Rebalance(Rebalance {
        within_percent: command.within,
    });
    jobs::run(&env, &tool, what, command.wait, command.json).await
}

async fn cancel_job(
    env: &Env,
    cluster: &Where,
    is_meant: impl Fn(&What) -> bool,
    none: String,
) -> Result<()> {
    let tool = cluster.connect(env).await?;
    let status = tool.status().await?;
    let mut running = status.jobs.iter().filter_map(|status| status.job);
    let meant = running.find(|job| job.ended.is_none() && job.what.as_ref().is_some_and(&is_meant));
    let job = meant.ok_or(Error::Usage(none))?;
    tool.call(&CancelJobRequest { job: job.id }).await?;
    say!(
        "job {} is cancelled; what has been moved stays where it is",
        job.id
    )
}

async fn status(env: &Env, cluster: &Where, as_json: bool) -> Result<()> {
    let tool = cluster.connect(env).await?;
    let reply = tool.status().await?;
    if as_json {
        let pairs: Vec<_> = reply
            .pairs
            .iter()
            .map(|pair| {
                let state = pair.state.unwrap_or_default();
                let reports = pair.members.iter().filter_map(|one| one.report.as_ref());
                json!({
                    "pair": state.pair,
                    "state": mode_name(&state),
                    "draining": jobs::draining(&reply.jobs, state.pair).is_some(),
                    "objects": reports.map(|report| report.objects).max(),
                })
            })
            .collect();
        let jobs: Vec<_> = reply.jobs.iter().map(jobs::to_json).collect();
        return say!("{}", json!({ "pairs": pairs, "jobs": jobs }));
    }
    let mut rows = Vec::new();
    for pair in &reply.pairs {
        let state = pair.state.unwrap_or_default();
        let reports = || pair.members.iter().filter_map(|one| one.report.as_ref());
        rows.push(vec![
            state.pair.to_string(),
            match jobs::draining(&reply.jobs, state.pair) {
                Some(_) => format!("{}, draining", mode_name(&state)),
                None => mode_name(&state),
            },
            reports()
                .map(|report| report.objects)
                .max()
                .unwrap_or(0)
                .to_string(),
            table::bytes(reports().map(|report| report.free_bytes).min().unwrap_or(0)),
        ]);
    }
    say!(
        "{}",
        table::render(&["pair", "state", "objects", "free"], rows).trim_end()
    )?;
    for job in &reply.jobs {
        say!("{}", jobs::in_words(job))?;
    }
    Ok(())
}

async fn add(env: &Env, pair: u32, cluster: &Where) -> Result<()> {
    let tool = cluster.connect(env).await?;
    let reply = tool.call(&AdmitPairRequest { pair }).await?;
    if reply.is_known {
        return say!("pair {pair} is there; `weft rebalance` moves files to it");
    }
    if reply.was_removed {
        say!("pair {pair} had been drained and removed; it may come again")?;
    }
    say!(
        "start two data servers, on two machines, with `pair = {pair}` and `member = 0` or `member = 1` in their \
         configurations (`weft data --config FILE`). The pair is there when both have registered; new files \
         use it at once, and `weft rebalance` moves files to it"
    )
}
