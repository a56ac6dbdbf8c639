//! Orders a scrub of every pair, as an operator does: what bit flips and failing disks have left is
//! to be healed from the twin before the copies are compared.

use super::builder::Cluster;
use super::orders::{self, ask};
use std::time::Duration;
use weft_rpc::Connection;
use weft_wire::proto::{StartScrubRequest, StatusReply, StatusRequest};

/// The scrub of the few files of a run takes no longer, at the default rate.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Scrubs all pairs, to the end.
///
/// # Errors
/// If it does not end in bounded time, or nobody takes the order.
pub async fn run(cluster: &Cluster) -> Result<(), String> {
    let env = cluster.world.node("operator").env();
    let active = cluster.active_address().ok_or("nobody leads")?;
    let connection = orders::connect(cluster, &active, 0).await?;
    let work = async {
        for pair in 0..cluster.data.len() as u32 {
            order(cluster, &connection, pair).await;
            while is_busy(&ask(&connection, &StatusRequest {}).await?) {
                cluster.world.sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    };
    let result = env.timeout(PATIENCE, work).await;
    connection.close("the operator is done");
    result.unwrap_or_else(|_| Err("a scrub does not come to its end".into()))
}

/// A member may be busy with a recovery: then it is asked again.
async fn order(cluster: &Cluster, connection: &Connection, pair: u32) {
    let request = StartScrubRequest {
        pair,
        compare: false,
    };
    while let Err(why) = ask(connection, &request).await {
        tracing::info!(pair, why, "the scrub cannot begin yet");
        cluster.world.sleep(LOOK_EVERY).await;
    }
    // Until the members have told that they are at it.
    cluster.world.sleep(Duration::from_secs(2)).await;
}

fn is_busy(status: &StatusReply) -> bool {
    status
        .pairs
        .iter()
        .flat_map(|pair| &pair.members)
        .filter_map(|member| member.report.as_ref())
        .any(|report| !report.job.is_empty())
}
