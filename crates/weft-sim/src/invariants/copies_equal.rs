//! Both copies of every object are equal, block by block, once a pair is BOTH and at rest
//! (design.md section 6: "at the end both copies are equal, byte by byte").
//!
//! Read from the stores themselves, not through the servers: a server would heal what it reads.

use crate::cluster::builder::Cluster;
use weft_objects::Store;
use weft_types::{ObjectId, REGION_BYTES};

/// Objects of a store at a time.
const LIST_MAX: usize = 1_000;

/// Compares the members of every pair.
///
/// # Errors
/// The first difference.
pub async fn check(cluster: &Cluster) -> Result<(), String> {
    for pair in 0..cluster.data.len() {
        let (Some(zero), Some(one)) = (cluster.store_at(pair, 0), cluster.store_at(pair, 1)) else {
            return Err(format!("a member of pair {pair} does not run"));
        };
        let (of_zero, of_one) = (list(&zero).await?, list(&one).await?);
        for &(id, length) in &of_zero {
            match of_one.iter().find(|(other, _)| *other == id) {
                None => {
                    return Err(format!(
                        "pair {pair}: only member 0 has object {id} ({length} bytes)"
                    ));
                }
                Some(&(_, other)) if other != length => {
                    return Err(format!(
                        "pair {pair}: object {id} has {length} bytes on member 0, {other} on member 1"
                    ));
                }
                Some(_) => {}
            }
            compare(pair, id, length, &zero, &one).await?;
        }
        for (id, length) in of_one {
            if !of_zero.iter().any(|(other, _)| *other == id) {
                return Err(format!(
                    "pair {pair}: only member 1 has object {id} ({length} bytes)"
                ));
            }
        }
    }
    Ok(())
}

/// All objects of a store with their lengths.
pub(super) async fn list(store: &Store) -> Result<Vec<(ObjectId, u64)>, String> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|&(id, _)| id);
        let page = store
            .list(after, LIST_MAX)
            .await
            .map_err(|error| format!("listing a store: {error}"))?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

async fn compare(
    pair: usize,
    id: ObjectId,
    length: u64,
    zero: &Store,
    one: &Store,
) -> Result<(), String> {
    for region in 0..length.div_ceil(REGION_BYTES) as u32 {
        let mut sums = Vec::new();
        for store in [zero, one] {
            let found = store
                .checksums(id, region)
                .await
                .map_err(|error| format!("reading object {id}: {error}"))?;
            sums.push(found.checksums);
        }
        let longest = sums[0].len().max(sums[1].len());
        for block in 0..longest {
            let [a, b] = [0, 1].map(|member: usize| sums[member].get(block).copied().unwrap_or(0));
            if a != b {
                let dirty = [zero, one].map(|store| store.is_dirty(id, region));
                return Err(format!(
                    "pair {pair}: block {block} of region {region} of object {id} ({length} bytes) \
                     differs: {a:08x} on member 0, {b:08x} on member 1 (0 a hole, 1 a bad block); \
                     in the modified lists: {dirty:?}"
                ));
            }
        }
    }
    Ok(())
}
