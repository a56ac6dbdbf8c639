//! What the test itself knows of who may write a locked range, and of what was counted there.

use crate::roaming::Health;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::roamer::Roamer;

/// Who has a range, as far as clients were told.
struct Holder {
    who: Rc<Roamer>,
    gateway: usize,
    lives: u8,
    /// When it asked for it.
    since: Duration,
}

impl Holder {
    /// Whether it may have lost the range without having been told (`docs/protocols/nfs4.md`, "Who has a lock"): its
    /// gateway has not been alive and in touch with the metadata service all the time since, or has not heard of it
    /// for its lease.
    fn may_have_lost(&self, health: &[Health], lease: Duration) -> bool {
        let is_another_life = self.who.lives.get() != self.lives;
        is_another_life
            || !health[self.gateway].is_well_since(self.since)
            || !self.who.has_heard_within(lease)
    }
}

/// A range that is locked to be changed.
#[derive(Default)]
pub struct Range {
    holder: RefCell<Option<Holder>>,
    /// Increments that were begun; each has its number.
    pub begun: Cell<u64>,
    /// Those that were acknowledged.
    pub done: RefCell<BTreeSet<u64>>,
    /// Holders so far, and such as had to be taken for holders no more.
    pub holders: Cell<u64>,
    pub lost: Cell<u64>,
}

impl Range {
    /// A LOCK was acknowledged that was asked for at `since`.
    pub fn locked(&self, who: &Rc<Roamer>, since: Duration, health: &[Health], lease: Duration) {
        let new = Holder {
            who: who.clone(),
            gateway: who.gateway(),
            lives: who.lives.get(),
            since,
        };
        self.holders.set(self.holders.get() + 1);
        if let Some(old) = self.holder.replace(Some(new)) {
            assert!(
                old.may_have_lost(health, lease),
                "{} has what {} has locked by gateway {}",
                who.name,
                old.who.name,
                old.gateway
            );
            self.lost.set(self.lost.get() + 1);
        }
    }

    /// Who had it is about to unlock it, or knows that it has it no more.
    pub fn unlocks(&self, who: &Rc<Roamer>) {
        let mut holder = self.holder.borrow_mut();
        if holder.as_ref().is_some_and(|it| Rc::ptr_eq(&it.who, who)) {
            holder.take();
        }
    }
}
