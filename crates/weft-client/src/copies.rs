//! What a data server says, after its answer, of writes that it answered without their second copy
//! (docs/protocols/duplication.md, `server-async`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use tokio::sync::Notify;
use weft_wire::Failed;
use weft_wire::proto::Copied;

/// The writes of one client at one member, by their numbers.
#[derive(Default)]
pub(crate) struct Copies {
    /// None: not said yet.
    awaited: RefCell<BTreeMap<u64, Option<Result<(), Failed>>>>,
    told: Notify,
}

/// A write that may be answered before its second copy is made.
pub(crate) struct Awaited<'a>(&'a Copies, u64);

impl Copies {
    /// From now on what is said of this write is kept, until the guard is dropped. To be called
    /// before the write is sent: what is said may come together with the answer.
    pub fn await_copy(&self, number: u64) -> Awaited<'_> {
        self.awaited.borrow_mut().insert(number, None);
        Awaited(self, number)
    }

    /// The member has said how a write ended. Of what nobody waits for, nothing is kept.
    pub fn told(&self, copied: Copied) {
        if let Some(said) = self.awaited.borrow_mut().get_mut(&copied.operation) {
            *said = Some(copied.failure.map_or(Ok(()), |failure| Err(failure.into())));
            self.told.notify_waiters();
        }
    }
}

impl Awaited<'_> {
    /// Waits until it is said.
    ///
    /// # Errors
    /// As if the write had been answered so.
    pub async fn said(&self) -> Result<(), Failed> {
        loop {
            let told = self.0.told.notified();
            let said = self.0.awaited.borrow().get(&self.1).cloned().flatten();
            if let Some(said) = said {
                return said;
            }
            told.await;
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.awaited.borrow_mut().remove(&self.1);
    }
}
