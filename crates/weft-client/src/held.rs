//! Written bytes under a change that would destroy them and may be refused: they are kept back until it is answered
//! (`docs/protocols/leases.md`, "Cutting a file").
//!
//! Keeps true: what waits in a range that is kept back is neither sent nor dropped, and reads see it; nothing is on
//! its way there once [`Core::keep_back`] has returned; no write begins until the change is decided. Made, the change
//! makes the bytes void; refused, it leaves them where they were.

use crate::core::Core;
use crate::node::{Buffer, Node};
use crate::session::Unacknowledged;
use crate::types::Result;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Whoever asks for the lease waits so long for a change of this client's that is on its way: what it makes void need
/// not be written. (A reply that waits for its commit comes within this.)
const DECISION_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that are kept back. Dropped, they are sent like any.
pub(crate) struct KeptBack {
    core: Rc<Core>,
    node: Rc<Node>,
    range: Range<u64>,
    /// They may have to be written before the change is answered, though it has been made. Until that has
    /// ended the service is not told that the answer has come: it would drop the objects that they go to.
    pub unacknowledged: Option<Unacknowledged>,
}

impl KeptBack {
    /// The change was made: the bytes are void. Nothing is on its way there afterwards.
    pub async fn make_void(self) {
        let KeptBack {
            core, node, range, ..
        } = &self;
        core.discard(node, range.clone()).await;
    }
}

impl Drop for KeptBack {
    fn drop(&mut self) {
        let is_ours = self.node.state.borrow().buffer.kept_back.as_ref() == Some(&self.range);
        if is_ours {
            self.core.keep_back_no_more(&self.node);
        }
    }
}

impl Buffer {
    /// The first byte of `start..end` that may be sent: it is not on its way, nor kept back.
    pub fn first_free(&self, start: u64, end: u64) -> Option<u64> {
        let mut at = start;
        loop {
            let before = at;
            for (from, to) in self.flying.ranges(at) {
                if from > at {
                    break;
                }
                at = at.max(to);
            }
            if let Some(kept) = self.kept_back.as_ref().filter(|kept| kept.contains(&at)) {
                at = kept.end;
            }
            if at == before {
                return (at < end).then_some(at);
            }
        }
    }

    /// Where what may be sent from `at` on ends: that byte may be.
    pub fn free_until(&self, at: u64) -> u64 {
        let flying = self.flying.ranges(at).next();
        let kept = self.kept_back.as_ref().filter(|kept| kept.start > at);
        let flying = flying.map_or(u64::MAX, |(from, _)| from);
        kept.map_or(flying, |kept| flying.min(kept.start))
    }

    /// All of `start..end` may be sent.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.first_free(start, end) == Some(start) && self.free_until(start) >= end
    }
}

impl Core {
    /// Keeps back what waits in `range` and waits for what is on its way there. The caller has a WRITE use.
    ///
    /// # Errors
    /// EIO if another change of the file's is not decided for longer than the patience.
    pub async fn keep_back(
        self: &Rc<Self>,
        node: &Rc<Node>,
        range: Range<u64>,
    ) -> Result<KeptBack> {
        let kept = self
            .patiently(async {
                loop {
                    let wake = node.wake.notified();
                    let is_first = {
                        let kept_back = &mut node.state.borrow_mut().buffer.kept_back;
                        let is_first = kept_back.is_none();
                        kept_back.get_or_insert_with(|| range.clone());
                        is_first
                    };
                    if is_first {
                        return Ok(KeptBack {
                            core: self.clone(),
                            node: node.clone(),
                            range: range.clone(),
                            unacknowledged: None,
                        });
                    }
                    wake.await;
                }
            })
            .await?;
        loop {
            let wake = node.wake.notified();
            if !node
                .state
                .borrow()
                .buffer
                .flying
                .touches(range.start, range.end)
            {
                return Ok(kept);
            }
            wake.await;
        }
    }

    /// What is kept back is sent after all when it is wanted.
    fn keep_back_no_more(self: &Rc<Self>, node: &Rc<Node>) {
        {
            let mut state = node.state.borrow_mut();
            state.buffer.kept_back = None;
            self.writeback.enqueue(node, &mut state);
        }
        node.wake.notify_waiters();
        self.pump();
    }

    /// The lease is to be given back: what is kept back has to be written before that, unless it becomes void soon.
    /// Should the change be made after all, whoever writes next trims what was written.
    pub async fn kept_back_is_decided(self: &Rc<Self>, node: &Rc<Node>) {
        if node.state.borrow().buffer.kept_back.is_none() {
            return;
        }
        let decided = async {
            loop {
                let wake = node.wake.notified();
                if node.state.borrow().buffer.kept_back.is_none() {
                    return;
                }
                wake.await;
            }
        };
        if self.env.timeout(DECISION_PATIENCE, decided).await.is_err() {
            self.keep_back_no_more(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn what_is_kept_back_or_on_its_way_is_not_free() {
        let mut buffer = Buffer::default();
        let put = |map: &mut crate::extents::ExtentMap, from: u64, to: u64| {
            map.insert(from, Bytes::from(vec![1; (to - from) as usize]), 0);
        };
        put(&mut buffer.flying, 10, 20);
        put(&mut buffer.flying, 30, 40);
        buffer.kept_back = Some(20..30);
        assert_eq!(buffer.first_free(0, 100), Some(0));
        assert_eq!(buffer.free_until(0), 10);
        assert_eq!(buffer.first_free(15, 100), Some(40));
        assert_eq!(buffer.first_free(15, 40), None);
        assert_eq!(buffer.first_free(20, 30), None);
        assert!(buffer.is_free(0, 10) && !buffer.is_free(0, 11) && !buffer.is_free(25, 26));
        assert!(buffer.is_free(40, u64::MAX));
        buffer.kept_back = Some(50..u64::MAX);
        assert_eq!(
            (buffer.first_free(40, 60), buffer.free_until(40)),
            (Some(40), 50)
        );
        assert_eq!(buffer.first_free(50, u64::MAX), None);
    }
}
