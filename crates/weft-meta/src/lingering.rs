//! Inodes without a name that nobody holds: how long they linger.
//!
//! The state says which they are (`weft-namespace`, `lingering.rs`); here the time is counted. Each lingers for one to two
//! rounds. A new reign begins a round with all that linger: nothing goes too early by that.

use crate::reign::Meta;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_types::Ino;
use weft_wire::proto::{self, Entry, op::Op};

/// An inode lingers for this long at least, and at most twice as long if the committer keeps up. A mount asks its kernel
/// after a quarter of a second what it still has (`crates/weft-mount/src/departures.rs`); the rest is for messages and busy
/// machines. Room is free a second or two after the removal.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// Inodes in one entry of the journal: a millisecond's work, so that others have their turn between two.
const INOS_MAX: usize = 1024;

/// Lets go what has lingered for long enough, until the server stops.
pub(crate) async fn run(meta: Rc<Meta>) {
    let mut before: BTreeSet<Ino> = BTreeSet::new();
    loop {
        meta.env.sleep(LINGER).await;
        let over: Vec<u64> = {
            let core = meta.core.borrow();
            let over = before.iter().filter(|ino| core.state.lingers(**ino));
            over.map(|ino| ino.0).collect()
        };
        for inos in over.chunks(INOS_MAX) {
            let sn = {
                let core = &mut *meta.core.borrow_mut();
                let inos = inos.to_vec();
                meta.apply_own(core, Op::LetGo(proto::LetGo { inos })).1
            };
            if meta.committed(sn).await.is_err() {
                return;
            }
            meta.deletions_changed.notify_one();
        }
        before = meta.core.borrow().state.lingering().collect();
    }
}

/// The entry may take an inode's last name, or its last holder, away.
pub(crate) fn may_begin(entry: &Entry) -> bool {
    matches!(
        entry.op.as_ref().and_then(|op| op.op.as_ref()),
        Some(Op::Unlink(_) | Op::Rename(_) | Op::Release(_) | Op::Commit(_) | Op::Finish(_))
    )
}
