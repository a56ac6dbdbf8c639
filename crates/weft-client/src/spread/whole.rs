//! Attributes of a spread directory: those of all its parts, at one moment.

use super::MOMENT_TRIES;
use crate::core::Core;
use crate::node::{Node, later};
use crate::types::*;
use futures_util::future::join_all;
use std::rc::Rc;

/// The attributes of a directory and of its shards together, as those of one directory.
fn sum(dir: &Attr, shards: &[Attr]) -> Attr {
    let mut all = Attr { shards: 0, ..*dir };
    for shard in shards {
        all.nlink = all.nlink.saturating_add(shard.nlink.saturating_sub(2));
        all.change = all.change.saturating_add(shard.change);
        for (latest, of_shard) in [
            (&mut all.atime, shard.atime),
            (&mut all.mtime, shard.mtime),
            (&mut all.ctime, shard.ctime),
        ] {
            if later(of_shard, *latest) {
                *latest = of_shard;
            }
        }
    }
    all
}

impl Core {
    /// Attributes as everybody sees them, under leases if there are any, else asked for.
    ///
    /// # Errors
    /// ESTALE if it is gone, EIO if a group does not answer.
    pub async fn known(self: &Rc<Self>, ino: u64) -> Result<(Rc<Node>, Known)> {
        let (node, known) = self.known_here(ino).await?;
        if known.attr.shards == 0 {
            return Ok((node, known));
        }
        self.patiently(self.known_whole(ino)).await
    }

    async fn known_whole(self: &Rc<Self>, ino: u64) -> Result<(Rc<Node>, Known)> {
        let mut tries = 0;
        loop {
            let (node, known) = self.known_here(ino).await?;
            if known.attr.shards == 0 {
                // It has lost its last name, and its shards with that.
                return Ok((node, known));
            }
            let Some(shards) = self.spreads.shards(ino) else {
                self.learn_shards(ino).await?;
                continue;
            };
            let asked = shards.iter().map(|shard| self.known_here(*shard));
            let told: Result<Vec<_>> = join_all(asked).await.into_iter().collect();
            if let Some(known) = self.of_this_moment(ino, &shards) {
                return Ok((node, known));
            }
            tries += 1;
            match told {
                Ok(told) if tries >= MOMENT_TRIES => {
                    let told: Vec<Attr> = told.iter().map(|(_, known)| known.attr).collect();
                    let attr = sum(&known.attr, &told);
                    let leased = false;
                    return Ok((node, Known { attr, leased }));
                }
                Err(errno) if errno != Errno(libc::ESTALE) || tries >= MOMENT_TRIES => {
                    return Err(errno);
                }
                _ => self.moment_pause(tries).await,
            }
        }
    }

    /// The attributes, if those of all parts are held under leases now.
    fn of_this_moment(&self, ino: u64, shards: &[u64]) -> Option<Known> {
        let held = |ino: u64| self.known_now(ino).map(|(_, known)| known);
        let dir = held(ino)?;
        let shards: Vec<Known> = shards
            .iter()
            .map(|shard| held(*shard))
            .collect::<Option<_>>()?;
        let attrs: Vec<Attr> = shards.iter().map(|known| known.attr).collect();
        Some(Known {
            attr: sum(&dir.attr, &attrs),
            leased: dir.leased && shards.iter().all(|known| known.leased),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_directory_are_one_directory() {
        let at = |seconds| Some(Time { seconds, nanos: 0 });
        let attr = |nlink, mtime, ctime| Attr {
            nlink,
            change: 10,
            atime: at(1),
            mtime: at(mtime),
            ctime: at(ctime),
            mode: 0o750,
            ..Attr::default()
        };
        let dir = Attr {
            shards: 3,
            ..attr(2, 5, 9)
        };
        let all = sum(&dir, &[attr(2, 4, 4), attr(5, 7, 7), attr(3, 6, 6)]);
        let expected = Attr {
            change: 40,
            ..attr(6, 7, 9)
        };
        assert_eq!(all, expected);
    }
}
