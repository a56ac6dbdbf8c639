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
        };
        Ok(Wanted {
            kind,
            flock: lock.flock,
            range,
        })
    }

    fn is_hindered_by(&self, held: &Range) -> bool {
        self.kind != Kind::Unlock
            && held.owner != self.range.owner
            && (held.exclusive || self.range.exclusive)
            && held.start <= self.range.last
            && self.range.start <= held.last
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

    fn whole_ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.whole.iter().map(|(owner, (exclusive, pid))| Range {
            start: 0,
            last: u64::MAX,
            owner: *owner,
            exclusive: *exclusive,
            pid: *pid,
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
            let alike = wanted.kind != Kind::Unlock && held.exclusive == new.exclusive;
            let overlaps = held.start <= new.last && new.start <= held.last;
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
