//! The two ends of an announcement: the handle of whoever announced itself, and what keeps it alive.

use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    /// The handle is gone: the service is to be told.
    Withdrawing,
    /// Nothing keeps it alive any more.
    Ended,
}

struct Shared {
    state: Cell<State>,
    changed: Notify,
}

impl Shared {
    fn set(&self, state: State) {
        self.state.set(state);
        self.changed.notify_waiters();
    }

    async fn until(&self, reached: impl Fn(State) -> bool) {
        loop {
            let changed = self.changed.notified();
            if reached(self.state.get()) {
                return;
            }
            changed.await;
        }
    }
}

/// A name that is announced. Dropping it withdraws it as soon as the service can be told.
pub struct Announcement {
    name: String,
    incarnation: u64,
    term_ms: u64,
    shared: Rc<Shared>,
}

impl Announcement {
    /// The handle, and the end that the service keeps.
    pub fn new(name: &str, incarnation: u64, term_ms: u64) -> (Announcement, Holder) {
        let shared = Rc::new(Shared {
            state: Cell::new(State::Held),
            changed: Notify::new(),
        });
        let announcement = Announcement {
            name: name.to_owned(),
            incarnation,
            term_ms,
            shared: shared.clone(),
        };
        (announcement, Holder(shared))
    }

    /// What was announced.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Greater than that of any earlier announcement of the name.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Milliseconds after which it vanishes if the service does not hear of this process: what was asked
    /// for, or more where the service has bounds or steps. 0: at once.
    pub fn term_ms(&self) -> u64 {
        self.term_ms
    }

    /// Returns when the service has ended it, so that another may have the name: announce it again. While
    /// the service does not answer this is not known, and it does not return.
    pub async fn lost(&self) {
        self.shared.until(|state| state == State::Ended).await;
    }

    /// True once [`Announcement::lost`] returns.
    pub fn is_lost(&self) -> bool {
        self.shared.state.get() == State::Ended
    }

    /// Withdraws it and waits until the service was told. Where it does not answer that is given up, and
    /// the announcement vanishes with its term.
    pub async fn withdraw(self) {
        if self.shared.state.get() == State::Held {
            self.shared.set(State::Withdrawing);
        }
        self.shared.until(|state| state == State::Ended).await;
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if self.shared.state.get() == State::Held {
            self.shared.set(State::Withdrawing);
        }
    }
}

/// The service's end of an announcement: kept as long as it stands. Dropping it tells the holder that
/// it was lost, or whoever withdrew it that this is done.
pub struct Holder(Rc<Shared>);

impl Holder {
    /// Returns when the announcement is to be withdrawn.
    pub async fn withdrawing(&self) {
        self.0.until(|state| state != State::Held).await;
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.set(State::Ended);
    }
}
