//! No two clients believe at the same time that they hold leases that exclude each other: one WRITE,
//! or any number of READ on one inode (`docs/protocols/leases.md`). What a client believes ends with
//! its session's term by its own clock; a client that stands still believes what its clock lets it.

use crate::cluster::builder::Cluster;
use std::collections::BTreeMap;

/// Looks at what the clients believe now.
///
/// # Errors
/// The inode and the clients.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    judge(cluster.believed_leases())
}

/// `(client, inode, it is WRITE)`.
fn judge(held: impl IntoIterator<Item = (usize, u64, bool)>) -> Result<(), String> {
    // Who holds the inode: the first one, and whether with WRITE.
    let mut holders: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
    for (client, ino, write) in held {
        match holders.get(&ino) {
            Some(&(other, other_write)) if write || other_write => {
                let name = |write| if write { "WRITE" } else { "READ" };
                return Err(format!(
                    "inode {ino:x}: client {client} believes in {}, client {other} in {}",
                    name(write),
                    name(other_write)
                ));
            }
            Some(_) => {}
            None => {
                holders.insert(ino, (client, write));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_lease_stands_alone() {
        assert!(judge([(0, 1, false), (1, 1, false), (2, 1, false), (0, 2, true)]).is_ok());
        assert!(judge([(0, 1, true), (1, 1, false)]).is_err());
        assert!(judge([(0, 1, false), (1, 2, false), (2, 1, true)]).is_err());
        assert!(judge([(0, 1, true), (1, 1, true)]).is_err());
    }
}
