//! `weft scrub`: every data server reads all it keeps, checks it and heals what is bad.

use crate::error::{Error, Result};
use crate::log::tell;
use crate::output::say;
use crate::table;
use crate::tool::Where;
use clap::Args;
use serde_json::json;
use std::time::Duration;
use weft_env::Env;
use weft_wire::proto::{StartScrubRequest, StatusReply};

/// How often progress is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A data server says in its next beats that it has begun.
const BEGIN_PATIENCE: Duration = Duration::from_secs(2);

/// `weft scrub`
#[derive(Args)]
pub struct ScrubCommand {
    /// Only this pair.
    #[arg(long)]
    pair: Option<u32>,
    /// As one JSON object, at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: Where,
}

/// What the members of some pairs say of their work.
#[derive(Default, Clone, Copy)]
struct Totals {
    running: bool,
    done: u64,
    total: u64,
    bad: u64,
    healed: u64,
}

fn totals(reply: &StatusReply, pair: Option<u32>) -> Totals {
    let mut sums = Totals::default();
    let chosen = reply
        .pairs
        .iter()
        .filter(|one| pair.is_none_or(|pair| one.state.unwrap_or_default().pair == pair));
    for report in chosen
        .flat_map(|one| &one.members)
        .filter_map(|member| member.report.as_ref())
    {
        if report.job == "scrub" {
            sums.running = true;
            sums.done += report.job_done;
            sums.total += report.job_total;
        }
        sums.bad += report.bad_blocks;
        sums.healed += report.healed_blocks;
    }
    sums
}

/// Runs `weft scrub`, to its end.
///
/// # Errors
/// [`Error::Unsound`] if a block is bad in both copies.
pub async fn run(env: Env, command: ScrubCommand) -> Result<()> {
    let tool = command.cluster.connect(&env).await?;
    let before = tool.status().await?;
    let pairs: Vec<u32> = before
        .pairs
        .iter()
        .map(|one| one.state.unwrap_or_default().pair)
        .filter(|&pair| command.pair.is_none_or(|only| only == pair))
        .collect();
    if pairs.is_empty() {
        return Err(Error::Usage("the cluster has no such pair".into()));
    }
    for &pair in &pairs {
        let request = StartScrubRequest {
            pair,
            compare: false,
        };
        tool.call(&request).await?;
    }
    let was = totals(&before, command.pair);
    let start = env.now();
    let mut begun = false;
    let now = loop {
        env.sleep(LOOK_EVERY).await;
        let now = totals(&tool.status().await?, command.pair);
        begun |= now.running;
        if !now.running && (begun || env.now().since(start) > BEGIN_PATIENCE) {
            break now;
        }
        if now.running && !command.json && now.total > 0 {
            tell!(
                "{} of {} read",
                table::bytes(now.done),
                table::bytes(now.total)
            );
        }
    };
    let bad = now.bad.saturating_sub(was.bad);
    let healed = now.healed.saturating_sub(was.healed);
    let took = env.now().since(start).as_secs_f64();
    if command.json {
        say!(
            "{}",
            json!({ "pairs": pairs, "bad_blocks": bad, "healed_blocks": healed, "seconds": took })
        )?;
    } else {
        say!(
            "{} pair(s) scrubbed in {}: {bad} bad blocks, {healed} of them healed",
            pairs.len(),
            table::seconds(took)
        )?;
    }
    if bad > healed {
        return Err(Error::Unsound(format!(
            "{} blocks are bad in both copies: the files that hold them answer EIO there",
            bad - healed
        )));
    }
    Ok(())
}
