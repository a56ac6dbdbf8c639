//! How much each client may have under way here (docs/protocols/a-write.md, "Windows").
//!
//! What waits in a server's sockets and memory makes nothing faster, but everything behind it later: the
//! twin's copies, heartbeats, a small write behind a large one. And a leader that takes more from clients
//! than it can pass on fills its own link while its twin's is idle. So all clients together
//! have about as much under way as keeps links and disks busy, each an equal part.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_pair::Now;

/// A session counts as one that writes for this long after each of its writes.
const WRITES: Duration = Duration::from_secs(1);
/// Nobody is told less: one message of the largest usual size.
const WINDOW_MIN: u64 = 256 << 10;

/// Shares what may be under way among those that write.
pub(crate) struct Intake {
    bytes: u64,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Sessions by the time of their last write.
    writers: BTreeMap<u64, Now>,
    looked: Now,
}

impl Intake {
    /// `bytes` are for all clients together.
    pub fn new(bytes: u64) -> Intake {
        Intake {
            bytes,
            inner: RefCell::default(),
        }
    }

    /// A session has written: how many bytes it may have under way from now on.
    pub fn window(&self, session: u64, now: Now) -> u64 {
        let inner = &mut *self.inner.borrow_mut();
        inner.writers.insert(session, now);
        // Now and then, so that the work for each write does not grow with the number of clients.
        if now >= inner.looked + WRITES / 10 {
            inner.looked = now;
            inner.writers.retain(|_, last| now < *last + WRITES);
        }
        (self.bytes / inner.writers.len() as u64).max(WINDOW_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn those_that_write_share_and_who_stops_gives_its_part_back() {
        let intake = Intake::new(4 * MIB);
        let at = |millis| Duration::from_millis(millis);
        assert_eq!(intake.window(1, at(0)), 4 * MIB);
        assert_eq!(intake.window(2, at(10)), 2 * MIB);
        assert_eq!(intake.window(1, at(900)), 2 * MIB);
        assert_eq!(intake.window(1, at(1_100)), 4 * MIB);
        for session in 0..1_000 {
            assert!(intake.window(session, at(1_200)) >= WINDOW_MIN);
        }
        assert_eq!(intake.window(1, at(1_200)), WINDOW_MIN);
    }
}
