//! flock and fcntl locks of one inode.
//!
//! The two kinds know nothing of each other, as on Linux. A flock lock covers the file and belongs
//! to an open file description; fcntl locks cover ranges and belong to a process: both are named by
//! (session, owner). Setting a lock replaces what the same owner had there, splitting and joining
//! ranges; a lock that conflicts with another owner's changes nothing.

use crate::errno::Errno;
use std::collections::BTreeMap;
use weft_types::SessionId;
use weft_wire::proto::FileLock;
use weft_wire::proto::file_lock::Kind;

/// Most locks on one inode. fcntl locks are kept in one list that is searched from end to end, and
/// whoever locks single bytes of a file must not fill the memory of the servers.
pub const LOCKS_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Owner {
    pub session: SessionId,
    pub owner: u64,
}

/// A lock held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Range {
    pub start: u64,
    /// Inclusive.
    pub last: u64,
    pub owner: Owner,
    pub exclusive: bool,
    pub pid: u32,
    /// On whose behalf the session holds it; 0: nobody's.
    pub behalf: u64,
}

impl Range {
    /// Held by the same owner on behalf of the same, perhaps by way of another session.
    fn is_same_owners(&self, other: &Range) -> bool {
        let is_one = self.behalf != 0 && self.behalf == other.behalf;
        self.owner == other.owner || is_one && self.owner.owner == other.owner.owner
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.start <= other.last && other.start <= self.last
    }
}

#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Locks {
    whole: BTreeMap<Owner, (bool, u32)>,
    /// Sorted; the ranges of one owner do not overlap.
    ranges: Vec<Range>,
}

/// A lock that a request asks for, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub kind: Kind,
    pub flock: bool,
    pub range: Range,
}

impl Wanted {
    pub(crate) fn new(session: SessionId, lock: &FileLock) -> Result<Wanted, Errno> {
        let kind = Kind::try_from(lock.kind).map_err(|_| Errno::EINVAL)?;
        let (start, last) = if lock.flock {
            (0, u64::MAX)
        } else {
            (lock.start, lock.last)
        };
        if start > last {
            return Err(Errno::EINVAL);
        }
        let owner = Owner {
            session,
            owner: lock.owner,
        };
        let exclusive = kind == Kind::Exclusive;
        let range = Range {
            start,
            last,
            owner,
            exclusive,
            pid: lock.pid,
            behalf: lock.behalf,
        };
        Ok(Wanted {
            kind,
            flock: lock.flock,
            range,
        })
    }

    fn is_hindered_by(&self, held: &Range) -> bool {
        self.kind != Kind::Unlock
            && !held.is_same_owners(&self.range)
            && (held.exclusive || self.range.exclusive)
            && held.overlaps(&self.range)
    }
}

impl Range {
    pub(crate) fn to_proto(self, flock: bool) -> FileLock {
        FileLock {
            kind: if self.exclusive {
                Kind::Exclusive
            } else {
                Kind::Shared
            } as i32,
            flock,
            owner: self.owner.owner,
            start: self.start,
            last: self.last,
            pid: self.pid,
            behalf: self.behalf,
        }
    }
}

impl Locks {
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.ranges.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.len() + self.ranges.len()
    }

    /// Somebody else has locked something for himself alone (`exclusive`), or at all. Of flock's locks those who keep a
    /// file know nothing.
    pub(crate) fn are_beside(&self, is_own: impl Fn(&Range) -> bool, exclusive: bool) -> bool {
        let mut others = self.ranges.iter().filter(|held| !is_own(held));
        others.any(|held| held.exclusive || !exclusive)
    }

    fn whole_ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.whole.iter().map(|(owner, (exclusive, pid))| Range {
            start: 0,
            last: u64::MAX,
            owner: *owner,
            exclusive: *exclusive,
            pid: *pid,
            behalf: 0,
        })
    }

    /// All locks with whether they are flock's, in a fixed order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (bool, Range)> + '_ {
        let whole = self.whole_ranges().map(|r| (true, r));
        whole.chain(self.ranges.iter().map(|r| (false, *r)))
    }

    /// The owners, by session and number, of all locks that keep this one from being set.
    pub(crate) fn holders(&self, wanted: &Wanted) -> Vec<(SessionId, u64)> {
        let held = self.iter().filter(|(flock, _)| *flock == wanted.flock);
        held.filter(|(_, held)| wanted.is_hindered_by(held))
            .map(|(_, held)| (held.owner.session, held.owner.owner))
            .collect()
    }

    /// The first lock of another owner that keeps this one from being set.
    pub(crate) fn conflict(&self, wanted: &Wanted) -> Option<FileLock> {
        let hinders = |held: &Range| wanted.is_hindered_by(held);
        let found = if wanted.flock {
            self.whole_ranges().find(hinders)
        } else {
            self.ranges.iter().copied().find(hinders)
        };
        found.map(|held| held.to_proto(wanted.flock))
    }

    /// Sets or frees a lock that conflicts with nobody. Answers whether others can gain by it: some
    /// byte was freed, or went from exclusive to shared.
    pub(crate) fn set(&mut self, wanted: &Wanted) -> bool {
        let owner = wanted.range.owner;
        if wanted.flock {
            let before = self.whole.get(&owner).map(|(exclusive, _)| *exclusive);
            if wanted.kind == Kind::Unlock {
                self.whole.remove(&owner);
                return before.is_some();
            }
            self.whole
                .insert(owner, (wanted.range.exclusive, wanted.range.pid));
            return before == Some(true) && !wanted.range.exclusive;
        }
        let mut new = wanted.range;
        let mut gained = false;
        let mut kept = Vec::with_capacity(self.ranges.len() + 2);
        for held in self.ranges.drain(..) {
            if held.owner != owner {
                kept.push(held);
                continue;
            }
            let alike = wanted.kind != Kind::Unlock
                && held.exclusive == new.exclusive
                && held.behalf == new.behalf;
            let overlaps = held.overlaps(&new);
            let touches = held.last.checked_add(1) == Some(new.start)
                || new.last.checked_add(1) == Some(held.start);
            if alike && (overlaps || touches) {
                new.start = new.start.min(held.start);
                new.last = new.last.max(held.last);
            } else if overlaps {
                gained |= wanted.kind == Kind::Unlock || (held.exclusive && !new.exclusive);
                if held.start < new.start {
                    kept.push(Range {
                        last: new.start - 1,
                        ..held
                    });
                }
                if held.last > new.last {
                    kept.push(Range {
                        start: new.last + 1,
                        ..held
                    });
                }
            } else {
                kept.push(held);
            }
        }
        if wanted.kind != Kind::Unlock {
            kept.push(new);
        }
        kept.sort_unstable();
        self.ranges = kept;
        gained
    }

    /// Takes over what the owner, on whose behalf it is, holds of the wanted range by way of other sessions. None: that
    /// and what it holds already is not all of the range, or less than is wanted. Else the sessions that had it.
    pub(crate) fn reclaim(&mut self, wanted: &Wanted) -> Option<Vec<SessionId>> {
        let new = wanted.range;
        let is_enough = |held: &Range| {
            held.is_same_owners(&new) && (held.exclusive || !new.exclusive) && held.overlaps(&new)
        };
        let mut next = Some(new.start);
        let mut having: Vec<SessionId> = Vec::new();
        // By start; of several sessions they may overlap.
        let mut held: Vec<Range> = self.ranges.iter().copied().filter(is_enough).collect();
        held.sort_unstable_by_key(|range| range.start);
        for range in held {
            having.push(range.owner.session);
            match next {
                Some(at) if range.start <= at => {
                    next = match range.last.checked_add(1) {
                        Some(after) if after > at => Some(after),
                        Some(_) => next,
                        None => None,
                    };
                }
                _ => {}
            }
        }
        if next.is_some_and(|next| next <= new.last) {
            return None;
        }
        having.sort_unstable();
        having.dedup();
        having.retain(|session| *session != new.owner.session);
        for session in &having {
            let owner = Owner {
                session: *session,
                ..new.owner
            };
            let range = Range { owner, ..new };
            self.set(&Wanted {
                kind: Kind::Unlock,
                flock: false,
                range,
            });
        }
        self.set(wanted);
        Some(having)
    }

    /// Of what a session holds only what it holds on behalf of others is left, but not of these.
    pub(crate) fn keep_behalf(&mut self, session: SessionId, gone: &[u64]) {
        let is_kept = |range: &Range| range.behalf != 0 && !gone.contains(&range.behalf);
        self.whole.retain(|owner, _| owner.session != session);
        self.ranges
            .retain(|range| range.owner.session != session || is_kept(range));
    }

    /// Frees what a session holds on behalf of somebody.
    pub(crate) fn drop_behalf(&mut self, session: SessionId, behalf: u64) {
        self.ranges
            .retain(|range| range.owner.session != session || range.behalf != behalf);
    }

    /// The session holds something on behalf of somebody.
    pub(crate) fn has_behalf(&self, session: SessionId, behalf: u64) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|range| range.owner.session == session && range.behalf == behalf)
    }

    /// Frees everything of a session.
    pub(crate) fn drop_session(&mut self, session: SessionId) {
        self.whole.retain(|owner, _| owner.session != session);
        self.ranges.retain(|range| range.owner.session != session);
    }

    /// All locks of a session are another one's. What that has already counts.
    pub(crate) fn rename(&mut self, from: SessionId, to: SessionId) {
        let of_session = self.iter().filter(|(_, range)| range.owner.session == from);
        let moved: Vec<(bool, Range)> = of_session.collect();
        self.drop_session(from);
        for (flock, mut range) in moved {
            range.owner.session = to;
            let is_new = !flock || !self.whole.contains_key(&range.owner);
            if is_new {
                let kind = match range.exclusive {
                    true => Kind::Exclusive,
                    false => Kind::Shared,
                };
                self.set(&Wanted { kind, flock, range });
            }
        }
    }

    /// True if the session holds any lock here.
    pub(crate) fn has_session(&self, session: SessionId) -> bool {
        self.iter().any(|(_, range)| range.owner.session == session)
    }

    /// Puts a lock of an image back. False if it conflicts with another or overlaps its owner's.
    pub(crate) fn restore(&mut self, flock: bool, range: Range) -> bool {
        let kind = if range.exclusive {
            Kind::Exclusive
        } else {
            Kind::Shared
        };
        let wanted = Wanted { kind, flock, range };
        if self.conflict(&wanted).is_some() || self.len() > LOCKS_MAX {
            return false;
        }
        if flock {
            self.whole
                .insert(range.owner, (range.exclusive, range.pid))
                .is_none()
        } else {
            let clear = self.ranges.iter().all(|held| {
                held.owner != range.owner || held.last < range.start || range.last < held.start
            });
            if clear {
                self.ranges.push(range);
                self.ranges.sort_unstable();
            }
            clear
        }
    }
}
