//! Listing a spread directory: page by page through its shards, in the order of cookies.
//!
//! What a shard has made itself has cookies above those of the shard before it, so the shards are listed one after
//! the other. What came to them from the directory has the cookies that it had there: it is listed before, of all
//! shards and the directory at once. What is small is of one moment, if all leases that came with the answers stand
//! when the last has come.

use super::MOMENT_TRIES;
use crate::core::Core;
use crate::dirs::Listed;
use crate::types::*;
use futures_util::future::join_all;
use std::rc::Rc;
use weft_types::COOKIE_BITS;

/// Entries up to which a listing is tried to be of one moment: each try costs all of them.
const MOMENT_ENTRIES: usize = 1_000;
/// Shards are asked on until a page has so many entries.
const ENOUGH: usize = 512;

/// The shard, counted from 0, in which a listing goes on after a cookie.
fn shard_after(cookie: u64) -> usize {
    (cookie >> COOKIE_BITS).saturating_sub(1) as usize
}

/// A cookie as one after which a shard has only what it has made itself: what has come to it from the directory is
/// listed before.
fn own_after(shard: usize, after: u64) -> u64 {
    after.max(((shard as u64 + 1) << COOKIE_BITS) - 1)
}

/// Pages of all parts of a directory as one, up to where the first of them ends.
fn merged(parts: Vec<Listed>) -> Listed {
    let last = |listed: &Listed| listed.entries.last().map(|entry| entry.cookie);
    let open = parts.iter().filter(|listed| !listed.end);
    let up_to = open.filter_map(last).min();
    let mut parts = parts.into_iter();
    let mut page = parts.next().unwrap_or_else(Listed::nothing);
    for listed in parts {
        page.bounds.join(&listed.bounds);
        page.entries.extend(listed.entries);
    }
    // Stable: of one that is in two places the directory's word comes first.
    page.entries.sort_by_key(|entry| entry.cookie);
    page.entries.dedup_by_key(|entry| entry.cookie);
    if let Some(up_to) = up_to {
        page.entries.retain(|entry| entry.cookie <= up_to);
    }
    page.end = up_to.is_none();
    page
}

impl Core {
    /// A page of a spread directory after a cookie of the service.
    pub(crate) async fn list_spread(
        self: &Rc<Self>,
        dir: u64,
        shards: &[u64],
        (after, plus): (u64, bool),
    ) -> Result<Listed> {
        if after >> COOKIE_BITS != 0 {
            return match self.list_on(shards, (after, plus)).await {
                // The directory says why.
                Err(Errno(libc::ESTALE)) => self.list_one(dir, after, plus).await,
                listed => listed,
            };
        }
        let mut tries = 0;
        loop {
            // The directory first: what goes to a shard meanwhile is seen in one of both, or in both.
            let of_dir = self.list_one(dir, after, plus).await?;
            if of_dir.shards == 0 {
                // It has lost its last name, and its shards with that.
                return Ok(of_dir);
            }
            let asked = shards
                .iter()
                .map(|shard| self.list_one(*shard, after, plus));
            let of_shards: Result<Vec<Listed>> = join_all(asked).await.into_iter().collect();
            let parts = match of_shards {
                Ok(of_shards) => {
                    let mut parts = vec![of_dir];
                    parts.extend(of_shards);
                    parts
                }
                Err(Errno(libc::ESTALE)) if tries < MOMENT_TRIES => {
                    // They go with the directory, which says so.
                    tries += 1;
                    self.moment_pause(tries).await;
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            let is_whole = parts.iter().all(|listed| listed.end);
            let count: usize = parts.iter().map(|listed| listed.entries.len()).sum();
            let is_small = is_whole && count <= MOMENT_ENTRIES && tries < MOMENT_TRIES;
            if !is_small || parts.iter().all(|listed| self.still_stands(listed)) {
                return Ok(merged(parts));
            }
            tries += 1;
            self.moment_pause(tries).await;
        }
    }

    /// The same where a shard's own entries come next.
    async fn list_on(
        self: &Rc<Self>,
        shards: &[u64],
        (after, plus): (u64, bool),
    ) -> Result<Listed> {
        let mut page = Listed::nothing();
        for (at, shard) in shards.iter().enumerate().skip(shard_after(after)) {
            let listed = self.list_one(*shard, own_after(at, after), plus).await?;
            page.entries.extend(listed.entries);
            page.end = listed.end && at + 1 == shards.len();
            if !listed.end || page.entries.len() >= ENOUGH {
                break;
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::PageEntry;

    #[test]
    fn pages_are_merged_by_cookie_up_to_where_one_of_them_ends() {
        let listed = |cookies: &[u64], end| Listed {
            entries: cookies
                .iter()
                .map(|cookie| PageEntry {
                    name: format!("{cookie}").into(),
                    ino: *cookie,
                    kind: FileKind::Regular,
                    cookie: *cookie,
                })
                .collect(),
            end,
            ..Listed::nothing()
        };
        let cookies = |parts: Vec<Listed>| {
            let page = merged(parts);
            let of = page.entries.iter().map(|entry| entry.cookie);
            (of.collect::<Vec<_>>(), page.end)
        };
        let (a, b) = (
            |end| listed(&[3, 5, 9], end),
            |end| listed(&[4, 5, 20], end),
        );
        assert_eq!(
            cookies(vec![a(true), b(true)]),
            (vec![3, 4, 5, 9, 20], true)
        );
        assert_eq!(cookies(vec![a(false), b(true)]), (vec![3, 4, 5, 9], false));
        assert_eq!(
            cookies(vec![a(false), b(false), listed(&[], true)]),
            (vec![3, 4, 5, 9], false)
        );
        assert_eq!(
            cookies(vec![listed(&[], true), listed(&[], true)]),
            (vec![], true)
        );
    }

    #[test]
    fn a_cookie_says_which_shard_comes_next() {
        assert_eq!(shard_after(0), 0);
        assert_eq!(shard_after((1 << COOKIE_BITS) + 5), 0);
        assert_eq!(shard_after(2 << COOKIE_BITS), 1);
        assert_eq!(shard_after((128 << COOKIE_BITS) + 7), 127);
        // What came from the directory has smaller cookies, in every shard.
        let after = (1 << COOKIE_BITS) + 5;
        assert_eq!(own_after(0, after), after);
        assert_eq!(own_after(1, after), (2 << COOKIE_BITS) - 1);
        assert_eq!(own_after(127, after), (128 << COOKIE_BITS) - 1);
    }
}
