//! What can be true of what was read, from when writes and reads began and ended: linearizability of one value.

use crate::Fault;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Moments, all different.
#[derive(Default)]
pub struct Clock(AtomicU64);

impl Clock {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// A value that many write and read. What is written is the moment at which that write began, so that no two are the
/// same; 0 is what is there at first.
#[derive(Default)]
pub struct Register {
    /// When each write ended, by when it began.
    writes: Mutex<BTreeMap<u64, u64>>,
    /// The latest value that is known to have been there.
    floor: AtomicU64,
}

/// What was known when a read began.
#[derive(Clone, Copy)]
pub struct Floor(u64);

impl Register {
    pub fn write(
        &self,
        clock: &Clock,
        act: impl FnOnce(u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let begun = clock.tick();
        locked(&self.writes).insert(begun, u64::MAX);
        act(begun)?;
        locked(&self.writes).insert(begun, clock.tick());
        self.floor.fetch_max(begun, Ordering::SeqCst);
        Ok(())
    }

    /// When the write of a value ended, if anybody wrote it; for one that is under way, at the end of time.
    fn ended(&self, value: u64) -> Option<u64> {
        match value {
            0 => Some(0),
            _ => locked(&self.writes).get(&value).copied(),
        }
    }

    /// To be taken before a read begins.
    pub fn floor(&self) -> Floor {
        Floor(self.floor.load(Ordering::SeqCst))
    }

    /// Judges what a read has found: not a value whose write had ended before another one began that had ended before this
    /// read began. (A write that is under way may be seen by one and not yet by another: docs/posix.md.)
    pub fn found(&self, floor: Floor, value: u64) -> Result<(), Fault> {
        let ended = self
            .ended(value)
            .ok_or_else(|| format!("nobody has written {value:#x}"))?;
        if ended < floor.0 {
            let later = match self.ended(floor.0) {
                None | Some(u64::MAX) => "seen, and still being written",
                Some(_) => "written",
            };
            return Err(format!(
                "read {value}, whose write ended at {ended}, after {} was {later}",
                floor.0
            ));
        }
        if ended != u64::MAX {
            self.floor.fetch_max(value, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Tells a reader whether a state was left alone while it looked. One thread changes it.
#[derive(Default)]
pub struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Changes {
    pub fn change(&self, act: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        act()?;
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// How many changes there were, if none is under way.
    pub fn settled(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }
}

/// Who panicked has been told of already.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_is_not_read_afterwards() {
        let (clock, register) = (Clock::default(), Register::default());
        register.write(&clock, |_| Ok(())).unwrap();
        let first = register.floor();
        register.found(first, 1).unwrap();
        let mut during = None;
        register
            .write(&clock, |value| {
                register.found(register.floor(), 1).unwrap();
                register.found(register.floor(), value).unwrap();
                during = Some((register.floor(), value));
                Ok(())
            })
            .unwrap();
        let (floor, value) = during.unwrap();
        // While the write was under way both were there for somebody.
        register.found(floor, 1).unwrap();
        assert!(register.found(register.floor(), 1).is_err());
        register.found(first, 1).unwrap();
        register.found(floor, value).unwrap();
        assert!(register.found(floor, 77).is_err());
        assert!(register.found(floor, 0).is_err());
    }

    #[test]
    fn values_of_writes_at_once_are_read_in_any_order() {
        let (clock, register) = (Clock::default(), Register::default());
        register
            .write(&clock, |outer| {
                register.write(&clock, |inner| {
                    register.found(register.floor(), inner)?;
                    register.found(register.floor(), outer)
                })?;
                register.found(register.floor(), outer)
            })
            .unwrap();
    }
}
