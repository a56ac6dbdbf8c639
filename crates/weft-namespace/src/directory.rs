//! The entries of one directory: found by name, listed by cookie.
//!
//! A cookie is an entry's place in the listing: it grows from entry to entry, is never used again in
//! its directory and survives restarts, so that a listing goes on where it was whatever happened
//! meanwhile. Names are found through their hash: 16 bytes an entry instead of a second copy of the
//! name. It is the hash by which shards have names (`spread.rs`), so that those of one come together.

use crate::spread::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use weft_types::{Ino, name_hash};
use weft_wire::proto::{Durability, Policy, Protocol};

/// The first cookie: 1 and 2 are left for `.` and `..`.
pub(crate) const FIRST_COOKIE: u64 = 3;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Directory {
    pub parent: Ino,
    pub policy: EffectivePolicy,
    /// Its shards are among the entries, too, under names that no file can have.
    pub role: Role,
    entries: BTreeMap<u64, DirectoryEntry>,
    /// (hash of the name, cookie)
    names: BTreeSet<(u64, u64)>,
    next_cookie: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DirectoryEntry {
    pub ino: Ino,
    pub name: Box<[u8]>,
}

/// The policy in force in a directory: every field is set, except that width 0 means all pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EffectivePolicy {
    pub stripe_unit: u32,
    pub width: u32,
    pub protocol: Protocol,
    pub durability: Durability,
}

impl EffectivePolicy {
    pub(crate) fn to_proto(self) -> Policy {
        Policy {
            stripe_unit: self.stripe_unit,
            width: self.width,
            protocol: self.protocol as i32,
            durability: self.durability as i32,
        }
    }
}

impl Directory {
    pub(crate) fn new(parent: Ino, policy: EffectivePolicy) -> Directory {
        Directory {
            parent,
            policy,
            role: Role::Plain,
            entries: BTreeMap::new(),
            names: BTreeSet::new(),
            next_cookie: FIRST_COOKIE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// There is nothing in it but its shards.
    pub(crate) fn is_vacant(&self) -> bool {
        self.entries.len() == self.role.shards().len()
    }

    pub(crate) fn next_cookie(&self) -> u64 {
        self.next_cookie
    }

    /// The cookie of the last entry.
    pub(crate) fn last_cookie(&self) -> Option<u64> {
        self.entries.last_key_value().map(|(cookie, _)| *cookie)
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<(u64, Ino)> {
        let hash = name_hash(name);
        self.names
            .range((hash, 0)..=(hash, u64::MAX))
            .find_map(|(_, cookie)| {
                let entry = self.entries.get(cookie)?;
                (*entry.name == *name).then_some((*cookie, entry.ino))
            })
    }

    /// Adds a name that is not there.
    pub(crate) fn insert(&mut self, name: &[u8], ino: Ino) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.restore(cookie, name, ino);
    }

    /// Points the entry at another inode; it keeps its place. Answers the one before.
    pub(crate) fn replace(&mut self, cookie: u64, ino: Ino) -> Option<Ino> {
        let entry = self.entries.get_mut(&cookie)?;
        Some(std::mem::replace(&mut entry.ino, ino))
    }

    /// Takes an entry away. Answers the inode that it named.
    pub(crate) fn remove(&mut self, cookie: u64) -> Option<Ino> {
        let entry = self.entries.remove(&cookie)?;
        self.names.remove(&(name_hash(&entry.name), cookie));
        Some(entry.ino)
    }

    /// The entries after a cookie, in order.
    pub(crate) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &DirectoryEntry)> {
        self.entries
            .range((Excluded(cookie), Unbounded))
            .map(|(c, e)| (*c, e))
    }

    /// The entries from a hash of their names on, in the order of the hashes: hash, cookie, entry.
    pub(crate) fn by_hash(
        &self,
        from: u64,
    ) -> impl Iterator<Item = (u64, u64, &DirectoryEntry)> + '_ {
        self.names
            .range((from, 0)..)
            .filter_map(|(hash, cookie)| Some((*hash, *cookie, self.entries.get(cookie)?)))
    }

    pub(crate) fn has_cookie(&self, cookie: u64) -> bool {
        self.entries.contains_key(&cookie)
    }

    /// Puts an entry of an image back in its place. The caller has checked cookie and name.
    pub(crate) fn restore(&mut self, cookie: u64, name: &[u8], ino: Ino) {
        self.names.insert((name_hash(name), cookie));
        self.entries.insert(
            cookie,
            DirectoryEntry {
                ino,
                name: name.into(),
            },
        );
    }

    /// For images: cookies below this are used up.
    pub(crate) fn set_next_cookie(&mut self, next: u64) {
        self.next_cookie = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::DEFAULT_POLICY;

    #[test]
    fn entries_are_found_by_name_and_listed_by_cookie() {
        let mut dir = Directory::new(Ino(1), DEFAULT_POLICY);
        for i in 0..100u64 {
            dir.insert(format!("n{i}").as_bytes(), Ino(i + 10));
        }
        let (cookie, ino) = dir.find(b"n50").unwrap();
        assert_eq!((cookie, ino), (53, Ino(60)));
        dir.remove(cookie);
        assert!(dir.find(b"n50").is_none());
        dir.insert(b"n50", Ino(7));
        assert_eq!(dir.find(b"n50"), Some((103, Ino(7))));
        dir.replace(103, Ino(8));
        assert_eq!(dir.find(b"n50"), Some((103, Ino(8))));
        assert_eq!(dir.len(), 100);
        let listed: Vec<u64> = dir.after(50).map(|(c, _)| c).collect();
        assert_eq!(listed[..4], [51, 52, 54, 55]);
        assert_eq!(dir.after(0).count(), 100);
        assert_eq!(dir.after(u64::MAX).count(), 0);
    }
}
