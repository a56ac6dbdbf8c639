//! Whose fcntl locks end when an open file is closed for the last time.
//!
//! A lock of a process ends when that closes any descriptor of the file: the kernel says so by a FLUSH that names the
//! process's table of descriptors, which is the lock's owner. A lock of an open file description (F_OFD_SETLK) comes as
//! an fcntl lock like any other, and no message says that it ends: its owner is the description, which goes with the
//! RELEASE of its handle. Each process that has locked through a handle has flushed it before that comes, so an owner
//! that has locked through it and not flushed it is the description itself.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The owners that may hold fcntl locks through each handle, and have not flushed it since.
#[derive(Default)]
pub struct LockOwners(RefCell<BTreeMap<u64, Vec<u64>>>);

impl LockOwners {
    /// The owner asks for a lock through the handle.
    pub fn locked(&self, handle: u64, owner: u64) {
        let mut all = self.0.borrow_mut();
        let owners = all.entry(handle).or_default();
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }

    /// A process closes a descriptor of the handle.
    pub fn flushed(&self, handle: u64, owner: u64) {
        if let Some(owners) = self.0.borrow_mut().get_mut(&handle) {
            owners.retain(|known| *known != owner);
        }
    }

    /// The handle is closed for the last time: whose locks end with it.
    pub fn released(&self, handle: u64) -> Vec<u64> {
        self.0.borrow_mut().remove(&handle).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_never_flushed_the_handle_is_its_description() {
        let owners = LockOwners::default();
        let (process, child, description) = (1, 2, 3);
        for owner in [process, description, process, child] {
            owners.locked(7, owner);
        }
        owners.locked(8, process);
        owners.flushed(7, process);
        owners.flushed(7, child);
        owners.flushed(9, child);
        assert_eq!(owners.released(7), [description]);
        assert!(owners.released(7).is_empty());
        // It may hold locks through the other one.
        assert_eq!(owners.released(8), [process]);
    }
}
