//! Equal sn, equal digest (design.md section 5): the state that image and journal give is the one that
//! ran, whenever the metadata server was killed, and holds everything that had been committed.

use crate::cluster::builder::Cluster;
use std::collections::BTreeMap;
use weft_types::Sn;

/// Digests by the batch that they speak of.
#[derive(Default)]
pub struct Digests(BTreeMap<Sn, u128>);

/// Notes the digest of the metadata server that runs, if everything there is committed.
///
/// # Errors
/// If another one was seen for that batch.
pub fn check(cluster: &Cluster, digests: &mut Digests) -> Result<(), String> {
    match cluster.digest_unless(|sn| digests.0.contains_key(&sn)) {
        Some((sn, digest)) => digests.ran(sn, digest),
        None => Ok(()),
    }
}

impl Digests {
    /// The state that runs is this one; everything in it is committed.
    fn ran(&mut self, sn: Sn, digest: u128) -> Result<(), String> {
        let known = *self.0.entry(sn).or_insert(digest);
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
        let newest = self.0.keys().next_back().copied().unwrap_or_default();
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
