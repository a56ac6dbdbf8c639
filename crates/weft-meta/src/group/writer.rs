//! The journal's end: the only one that writes there.

use super::Member;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_group::Input;
use weft_journal::{Journal, JournalError, Sealed};
use weft_types::Sn;

/// A full disk is tried again this often.
const FULL_RETRY: Duration = Duration::from_millis(200);
/// Bytes that are written together at most.
const TOGETHER_BYTES: usize = 8 << 20;

/// What the engine wants written.
struct Write {
    number: u64,
    /// All after this batch is discarded first.
    after: Sn,
    batches: Vec<Sealed>,
}

/// What waits to be written.
#[derive(Default)]
pub(super) struct Writer {
    waiting: RefCell<VecDeque<Write>>,
    filled: Notify,
    /// The life is over: nothing more is begun.
    is_stopped: Cell<bool>,
    has_ended: Cell<bool>,
    ended: Notify,
}

/// What is written together.
struct Together {
    number: u64,
    after: Sn,
    batches: Vec<Sealed>,
}

impl Writer {
    /// Has batches written after `after`, when all that was passed before is.
    pub(super) fn write(&self, number: u64, after: Sn, batches: Vec<Sealed>) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push_back(Write {
            number,
            after,
            batches,
        });
        drop(waiting);
        self.filled.notify_one();
    }

    /// Begins nothing more, and returns when what was begun has ended. What waits is not written.
    pub(super) async fn stop(&self) {
        self.is_stopped.set(true);
        self.filled.notify_one();
        while !self.has_ended.get() {
            let ended = self.ended.notified();
            if !self.has_ended.get() {
                ended.await;
            }
        }
    }

    /// The next that are to be written, as many as follow one another.
    fn take(&self) -> Option<Together> {
        let mut waiting = self.waiting.borrow_mut();
        let Write {
            number,
            after,
            batches,
        } = waiting.pop_front()?;
        let mut together = Together {
            number,
            after,
            batches,
        };
        let mut bytes: usize = together.batches.iter().map(|it| it.content().len()).sum();
        let mut last = together.batches.last().map_or(after, Sealed::sn);
        while bytes < TOGETHER_BYTES
            && let Some(next) = waiting.pop_front_if(|next| next.after == last)
        {
            together.number = next.number;
            bytes += next
                .batches
                .iter()
                .map(|it| it.content().len())
                .sum::<usize>();
            together.batches.extend(next.batches);
            last = together.batches.last().map_or(last, Sealed::sn);
        }
        Some(together)
    }

    fn end(&self) {
        self.has_ended.set(true);
        self.ended.notify_waiters();
    }
}

/// Writes what waits until the life ends or the disk fails. Gives the journal back.
pub(super) async fn run(member: Rc<Member>, mut journal: Journal) {
    let writer = &member.writer;
    while !writer.is_stopped.get() {
        let Some(together) = writer.take() else {
            writer.filled.notified().await;
            continue;
        };
        match write(&member, &mut journal, &together).await {
            Ok(true) => member.drive(Input::Written(together.number)),
            Ok(false) => break,
            Err(error) => {
                tracing::error!(%error, "the journal cannot be written: this server acknowledges \
                    nothing until it has been started again");
                member.on_journal_failed(&error);
                break;
            }
        }
    }
    member.journal.replace(Some(journal));
    writer.end();
}

/// Writes, as often as it takes while the disk is full. False: the life has ended meanwhile.
async fn write(
    member: &Member,
    journal: &mut Journal,
    together: &Together,
) -> Result<bool, JournalError> {
    journal.cut_after(together.after).await?;
    loop {
        match journal.append(&together.batches).await {
            Err(JournalError::Full { .. }) => {
                member.on_journal_full();
                member.env.sleep(FULL_RETRY).await;
                if member.writer.is_stopped.get() {
                    return Ok(false);
                }
            }
            result => return result.map(|()| true),
        }
    }
}
