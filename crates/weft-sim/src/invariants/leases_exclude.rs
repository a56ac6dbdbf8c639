//! No two clients believe at the same time that they hold leases that exclude each other: of each byte
//! (with all of them, of attributes too) one may write, or any number read
//! (`docs/protocols/leases.md`). What a client believes ends with its session's term by its own clock;
//! a client that stands still believes what its clock lets it.

use crate::cluster::builder::Cluster;
use rangemap::RangeSet;
use std::collections::BTreeMap;
use weft_client::Believed;

/// Looks at what the clients believe now.
///
/// # Errors
/// The inode and the clients.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    judge(cluster.believed_leases())
}

/// Each client with what it believes.
fn judge(held: impl IntoIterator<Item = (usize, Believed)>) -> Result<(), String> {
    let mut holders: BTreeMap<u64, Vec<(usize, Believed)>> = BTreeMap::new();
    for (client, believed) in held {
        let others = holders.entry(believed.ino).or_default();
        for (other, theirs) in others.iter().filter(|(other, _)| *other != client) {
            let both = |a: &RangeSet<u64>, b: &RangeSet<u64>| a.intersection(b).next();
            let clash = both(&believed.write, &theirs.write)
                .or_else(|| both(&believed.write, &theirs.read))
                .or_else(|| both(&believed.read, &theirs.write));
            if let Some(bytes) = clash {
                return Err(format!(
                    "inode {:x}, bytes {bytes:?}: client {client} believes in {believed:?}, client \
                     {other} in {theirs:?}",
                    believed.ino
                ));
            }
        }
        others.push((client, believed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn believes(ino: u64, read: &[Range<u64>], write: &[Range<u64>]) -> Believed {
        Believed {
            ino,
            read: read.iter().cloned().collect(),
            write: write.iter().cloned().collect(),
        }
    }

    #[test]
    fn a_byte_is_written_by_one_that_stands_alone() {
        let all = || 0..u64::MAX;
        let reads = |client, ino| (client, believes(ino, &[all()], &[]));
        let writes = |client, ino| (client, believes(ino, &[], &[all()]));
        assert!(judge([reads(0, 1), reads(1, 1), reads(2, 1), writes(0, 2)]).is_ok());
        assert!(judge([writes(0, 1), reads(1, 1)]).is_err());
        assert!(judge([reads(0, 1), reads(1, 2), writes(2, 1)]).is_err());
        assert!(judge([writes(0, 1), writes(1, 1)]).is_err());
        let part = |client, read, write| (client, believes(1, &[read], &[write]));
        assert!(judge([part(0, 0..5, 5..9), part(1, 0..5, 9..12)]).is_ok());
        assert!(judge([part(0, 0..5, 5..9), part(1, 8..9, 9..12)]).is_err());
        assert!(judge([part(0, 0..5, 5..9), part(1, 0..4, 4..5)]).is_err());
        assert!(judge([part(0, 0..5, 5..9), reads(1, 1)]).is_err());
    }
}
