//! Equal sn, equal digest (design.md section 5): each metadata server that has applied what is committed,
//! and no more, has the state that every other one has, or had, after that batch. The state that image and
//! journal of an only server give is the one that ran, whenever it was killed, and holds everything that
//! had been committed.

use crate::cluster::builder::Cluster;
use std::collections::BTreeMap;
use weft_types::Sn;

/// Digests by the batch that they speak of.
#[derive(Default)]
pub struct Digests {
    known: BTreeMap<Sn, u128>,
    /// The batch after which each server was looked at last: a digest costs a walk through all inodes.
    looked: BTreeMap<usize, Sn>,
}

/// Compares the digests of the metadata servers of a group that run with what was seen of others, or earlier.
///
/// # Errors
/// If another one was seen for that batch.
pub fn check(cluster: &Cluster, group: usize, digests: &mut Digests) -> Result<(), String> {
    for member in cluster.members_of(group) {
        // A server that was started again has read its state anew.
        let Some(committed) = cluster.committed(member) else {
            digests.looked.remove(&member);
            continue;
        };
        if digests.looked.get(&member) == Some(&committed) {
            continue;
        }
        if let Some((sn, digest)) = cluster.replica(member) {
            digests.looked.insert(member, sn);
            let judged = digests.ran(sn, digest);
            judged.map_err(|why| format!("{}: {why}", cluster.meta[member].name()))?;
        }
    }
    Ok(())
}

impl Digests {
    /// The state that runs is this one; everything in it is committed.
    fn ran(&mut self, sn: Sn, digest: u128) -> Result<(), String> {
        let known = *self.known.entry(sn).or_insert(digest);
        if known == digest {
            Ok(())
        } else {
            Err(format!(
                "batch {sn} is digest {digest:032x}, and was {known:032x}"
            ))
        }
    }

    /// Image and journal say this.
    pub fn found(&mut self, sn: Sn, digest: u128) -> Result<(), String> {
        let newest = self.known.keys().next_back().copied().unwrap_or_default();
        if sn < newest {
            return Err(format!(
                "image and journal end with batch {sn}, but {newest} was committed"
            ));
        }
        self.ran(sn, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_ran_and_all_of_it() {
        let mut digests = Digests::default();
        assert!(digests.ran(Sn(7), 70).is_ok());
        assert!(digests.found(Sn(7), 70).is_ok());
        assert!(digests.found(Sn(7), 71).is_err());
        assert!(digests.found(Sn(6), 60).is_err(), "a committed batch less");
        // Written, though nobody had been told yet.
        assert!(digests.found(Sn(8), 80).is_ok());
        assert!(digests.ran(Sn(8), 81).is_err());
    }
}
