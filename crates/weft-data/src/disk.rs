//! What this member has found of its disk, and what it does when that fails
//! (docs/protocols/pairs.md, "Disks that fail").
//!
//! A disk that does not do what it is told makes its member leave the pair: it says so in its next beat,
//! which it sends at once, and the metadata service makes the other one the only server. What was asked of
//! this one meanwhile, and not done, is held until then and goes to the other one, so that no application
//! hears of it. What was found stays so for as long as the process lives: a disk that fails now and then is
//! not to be trusted, and the copy lacks what it did not take. A member that serves alone is left where it
//! is: what it has, nobody else has.

use crate::server::Node;
use crate::write::HEALS;
use std::cell::{Cell, RefCell};
use weft_objects::Failure;
use weft_types::{Epoch, ObjectId};
use weft_wire::Failed;

/// What is said of a disk that takes what heals a block, and cannot read it then.
pub(crate) const HEALED: &str = "blocks that were healed cannot be read";

/// What was found since the process started.
#[derive(Default)]
pub(crate) struct Disk {
    found: Cell<weft_pair::Disk>,
    /// The block that the twin was asked for last, and how often in a row.
    bad: Cell<Option<(ObjectId, u64, u32)>>,
    /// The first error of the worst kind.
    words: RefCell<String>,
}

impl Disk {
    /// As the metadata service is told.
    pub fn health(&self) -> weft_pair::Disk {
        self.found.get()
    }

    /// The error, for people; empty: it works.
    pub fn words(&self) -> String {
        self.words.borrow().clone()
    }

    /// The twin is to give this block, and has given it before, as often as that is tried.
    pub fn is_still_bad(&self, object: ObjectId, block: u64) -> bool {
        let times = match self.bad.get() {
            Some((of, at, times)) if (of, at) == (object, block) => times + 1,
            _ => 1,
        };
        self.bad.set(Some((object, block, times)));
        times >= HEALS
    }

    fn note(&self, health: weft_pair::Disk, words: &str) -> bool {
        if health <= self.found.get() {
            return false;
        }
        self.found.set(health);
        words.clone_into(&mut self.words.borrow_mut());
        true
    }
}

impl Node {
    /// The disk has failed in this way.
    pub fn disk_fails(&self, failure: Failure, words: &str) {
        let health = match failure {
            Failure::Write | Failure::Sync => weft_pair::Disk::CannotWrite,
            Failure::Read => weft_pair::Disk::CannotRead,
        };
        if self.disk.note(health, words) {
            tracing::error!(
                why = words,
                ?health,
                "the disk fails: this member is to leave the pair"
            );
            self.metrics.disk_failed.set(1);
            self.report_anew();
            self.registration.beat_now();
        }
    }

    /// The answer to who asked for something under `epoch` that the store did not do. What the disk fails to
    /// do is answered when the state has left this member behind: [`Failed::Stale`], and the other one does it.
    pub async fn not_done(&self, error: weft_objects::Error, epoch: Epoch) -> Failed {
        let fails = error.failure().is_some();
        let failed = self.store_failed(error);
        match fails {
            true => self.when_left_behind(epoch, failed).await,
            false => failed,
        }
    }

    /// Waits until another state than that of `epoch` is in force, and says so; `failed` if this member is the
    /// only one that serves.
    pub async fn when_left_behind(&self, epoch: Epoch, failed: Failed) -> Failed {
        loop {
            let state = self.side.borrow().state();
            match state {
                Some(state) if state.mode.sole() == Some(self.me) => return failed,
                Some(state) if state.epoch > epoch => return Failed::Stale(state.epoch.0),
                _ => {
                    self.state_beyond(epoch).await;
                }
            }
        }
    }
}
