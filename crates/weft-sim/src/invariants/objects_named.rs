//! No object is left behind: each one on a data server is a file's or a copy's that is being made, or
//! its removal is queued. A pair that has been drained and removed has none at all.

use super::copies_equal::list;
use crate::cluster::builder::Cluster;
use std::time::Duration;

/// What the service says of a change that is not committed yet is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// Compares the stores of all pairs with the name space.
///
/// # Errors
/// The first object that is nobody's.
pub async fn check(cluster: &Cluster) -> Result<(), String> {
    for pair in 0..cluster.data.len() {
        for member in 0..2 {
            let Some(store) = cluster.store_at(pair, member) else {
                return Err(format!("member {member} of pair {pair} does not run"));
            };
            for (id, length) in list(&store).await? {
                let is_named = loop {
                    match cluster.names_object(pair, id) {
                        Some(is_named) => break is_named,
                        None => cluster.world.sleep(ASK_AGAIN).await,
                    }
                };
                // It may have been dropped since it was listed.
                if !is_named && store.exists(id) {
                    return Err(format!(
                        "object {id} ({length} bytes) on member {member} of pair {pair} is nobody's"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Looks at a pair that has been removed. A member that was away then may have some objects left: when the pair is let in
/// again it becomes a copy of the one that served last, which has none.
///
/// # Errors
/// The first object that that one has.
pub async fn check_empty(cluster: &Cluster, pair: usize) -> Result<(), String> {
    let Some(last) = cluster.served_last(pair) else {
        return Err(format!("nobody knows who served pair {pair} last"));
    };
    let Some(store) = cluster.store_at(pair, last) else {
        // Its disk was lost, and it waits for a place.
        return Ok(());
    };
    match list(&store).await?.first() {
        None => Ok(()),
        Some((id, length)) => Err(format!(
            "pair {pair} was drained and removed, and member {last}, which served last, has object {id} ({length} bytes)"
        )),
    }
}
