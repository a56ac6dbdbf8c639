//! Second copies that this member owes: writes that were answered when it had them alone
//! (docs/protocols/duplication.md, `server-async`), and how much of that there may be.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_pair::Now;
use weft_types::ObjectId;

struct Write {
    object: ObjectId,
    bytes: u64,
    since: Now,
}

#[derive(Default)]
struct Inner {
    /// In the order in which they began to be owed.
    writes: BTreeMap<u64, Write>,
    next: u64,
    bytes: u64,
    held: Held,
}

/// How long writes were on one member only: of those for which that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub writes: u64,
    /// Of all of them together.
    pub time: Duration,
}

impl Held {
    /// One more, that was so for `time`.
    pub fn add(&mut self, time: Duration) {
        self.writes += 1;
        self.time += time;
    }
}

/// What is owed now.
pub(crate) struct Owed {
    bytes_max: u64,
    age_max: Duration,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    inner: RefCell<Inner>,
    /// Wakes one of those that wait until they may owe.
    less: Notify,
}

/// One second copy that is owed, until it is dropped.
pub(crate) struct Debt {
    shared: Rc<Shared>,
    number: u64,
}

/// What one member alone is known to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exposure {
    pub bytes: u64,
    pub objects: u64,
    /// Age of the oldest.
    pub oldest: Duration,
}

impl Owed {
    /// Nothing is owed yet. Never more than `bytes_max` will be, or anything new while the oldest
    /// is older than `age_max`.
    pub fn new(bytes_max: u64, age_max: Duration) -> Owed {
        Owed {
            bytes_max,
            age_max,
            shared: Rc::default(),
        }
    }

    /// So many bytes of an object are owed from the moment on at which there may be more. For ever, if
    /// they are more than may ever be.
    pub async fn when_allowed(&self, object: ObjectId, bytes: u64, now: impl Fn() -> Now) -> Debt {
        loop {
            if let Some(debt) = self.begin(object, bytes, now()) {
                // There may be room for the next one, too.
                self.shared.less.notify_one();
                return debt;
            }
            self.shared.less.notified().await;
        }
    }

    /// So many bytes of an object are owed from now on, if there may be more.
    fn begin(&self, object: ObjectId, bytes: u64, now: Now) -> Option<Debt> {
        let inner = &mut *self.shared.inner.borrow_mut();
        let oldest = inner.writes.first_key_value();
        if oldest.is_some_and(|(_, write)| now >= write.since + self.age_max)
            || inner.bytes + bytes > self.bytes_max
        {
            return None;
        }
        let number = inner.next;
        inner.next += 1;
        inner.bytes += bytes;
        let write = Write {
            object,
            bytes,
            since: now,
        };
        inner.writes.insert(number, write);
        Some(Debt {
            shared: self.shared.clone(),
            number,
        })
    }

    /// How long this member owed second copies that it has made since.
    pub fn held(&self) -> Held {
        self.shared.inner.borrow().held
    }

    /// What would be lost with this member if no client had kept it: what it owes, and what clients
    /// owe (`theirs`: object, since when, bytes).
    pub fn exposure(&self, theirs: Vec<(ObjectId, Now, u64)>, now: Now) -> Exposure {
        let inner = self.shared.inner.borrow();
        let ours = inner.writes.values();
        let ours = ours.map(|write| (write.object, write.since, write.bytes));
        let mut objects = BTreeSet::new();
        let mut exposure = Exposure::default();
        for (object, since, bytes) in ours.chain(theirs) {
            objects.insert(object);
            exposure.bytes += bytes;
            exposure.oldest = exposure.oldest.max(now.saturating_sub(since));
        }
        exposure.objects = objects.len() as u64;
        exposure
    }
}

impl Debt {
    /// The second copy is made.
    pub fn paid(self, now: Now) {
        let inner = &mut *self.shared.inner.borrow_mut();
        if let Some(write) = inner.writes.get(&self.number) {
            inner.held.add(now.saturating_sub(write.since));
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        let inner = &mut *self.shared.inner.borrow_mut();
        if let Some(write) = inner.writes.remove(&self.number) {
            inner.bytes -= write.bytes;
        }
        self.shared.less.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use weft_types::Ino;

    fn object(ino: u64) -> ObjectId {
        ObjectId {
            ino: Ino(ino),
            generation: 0,
        }
    }

    #[test]
    fn what_could_not_be_owed_is_when_less_is() {
        let owed = Owed::new(100, Duration::from_secs(1));
        let first = owed.begin(object(1), 60, Now::ZERO).unwrap();
        let second = owed.begin(object(1), 40, Now::ZERO).unwrap();
        let now = || Now::ZERO;
        let mut third = pin!(owed.when_allowed(object(2), 30, now));
        let mut fourth = pin!(owed.when_allowed(object(2), 10, now));
        assert!((&mut third).now_or_never().is_none());
        assert!((&mut fourth).now_or_never().is_none());
        drop(second);
        // One after the other, as long as there is room.
        let third = third.now_or_never().unwrap();
        let fourth = fourth.now_or_never().unwrap();
        assert!(owed.begin(object(2), 1, Now::ZERO).is_none());
        drop((first, third, fourth));
        let never = Owed::new(0, Duration::from_secs(1));
        let never = never.when_allowed(object(2), 1, now);
        assert!(never.now_or_never().is_none());
    }

    #[test]
    fn no_more_is_owed_than_the_bounds_allow() {
        let second = Duration::from_secs(1);
        let owed = Owed::new(100, second);
        let first = owed.begin(object(1), 60, Now::ZERO).unwrap();
        let later = second / 2;
        assert!(owed.begin(object(2), 41, later).is_none(), "too much");
        let _second = owed.begin(object(2), 40, later).unwrap();
        let exposure = Exposure {
            bytes: 100,
            objects: 2,
            oldest: later,
        };
        assert_eq!(owed.exposure(Vec::new(), later), exposure);
        let theirs = vec![(object(2), Now::ZERO, 5), (object(3), later, 5)];
        let with_theirs = Exposure {
            bytes: 110,
            objects: 3,
            ..exposure
        };
        assert_eq!(owed.exposure(theirs, later), with_theirs);
        first.paid(later);
        let held = Held {
            writes: 1,
            time: later,
        };
        assert_eq!(owed.held(), held);
        assert!(owed.begin(object(3), 60, later).is_some());
        assert_eq!(owed.held(), held, "given up, not paid");
        assert_eq!(
            owed.exposure(Vec::new(), later).bytes,
            40,
            "dropped at once"
        );
        let old = later + second;
        assert!(owed.begin(object(3), 1, old).is_none(), "too old");
    }

    #[test]
    fn a_bound_of_nothing_is_the_synchronous_protocol() {
        let owed = Owed::new(0, Duration::from_secs(1));
        assert!(owed.begin(object(1), 1, Now::ZERO).is_none());
    }
}
