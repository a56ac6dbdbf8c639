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

/// Looks at the stores of a pair that has been removed.
///
/// # Errors
/// The first object there is.
pub async fn check_empty(cluster: &Cluster, pair: usize) -> Result<(), String> {
    for member in 0..2 {
        let Some(store) = cluster.store_at(pair, member) else {
            return Err(format!("member {member} of pair {pair} does not run"));
        };
        if let Some((id, length)) = list(&store).await?.first() {
            return Err(format!(
                "pair {pair} was drained and removed, and member {member} has object {id} ({length} bytes)"
            ));
        }
    }
    Ok(())
}
