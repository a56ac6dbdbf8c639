//! Changes of objects that were given up, and may still reach a data server (`docs/protocols/pairs.md`, "Late writes").
//!
//! Kept true: while one may, no lease of this client's is given back. A data server does nothing that comes over an older
//! connection of a session than it has heard last; so a change is over when each member that serves has answered over a
//! connection that was made since.

use crate::core::Core;
use crate::pairs::{Object, Pair, Pairs};
use crate::session::Session;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_rpc::Payload;
use weft_types::Member;
use weft_wire::proto::SyncRequest;

/// A member that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(20);

/// How many changes may come late, of all pairs.
#[derive(Default)]
pub(crate) struct Late {
    count: Cell<usize>,
    over: Notify,
}

impl Late {
    pub fn is_any(&self) -> bool {
        self.count.get() > 0
    }

    /// Waits until none may.
    pub async fn none(&self) {
        loop {
            let over = self.over.notified();
            if !self.is_any() {
                return;
            }
            over.await;
        }
    }
}

impl Pairs {
    /// A change of this object was given up. Sees to it that it is over some time.
    pub(super) fn may_come_late(&self, core: &Rc<Core>, object: Object) {
        let with = core.session_of(object.ino);
        let session = with.id();
        let late = &self.late;
        late.count.set(late.count.get() + 1);
        let core = core.clone();
        self.env.spawn("late changes", async move {
            let pairs = &core.pairs;
            let pair = pairs.pair(object.pair);
            for member in [Member::Zero, Member::One] {
                pair.leave_connection(member);
            }
            for member in [Member::Zero, Member::One] {
                pairs
                    .heard_anew(&pair, member, (&*with, session), object)
                    .await;
            }
            let late = &pairs.late;
            late.count.set(late.count.get() - 1);
            late.over.notify_waiters();
        });
    }

    /// Waits until a member has answered under this session, is out of service, or the session is over.
    async fn heard_anew(
        &self,
        pair: &Pair,
        member: Member,
        (with, session): (&Session, u64),
        object: Object,
    ) {
        while with.id() == session && !with.is_closed() && pair.serves(member) {
            // What it is doing for the older connection holds its bytes locked until it is done.
            let request = SyncRequest {
                session,
                epoch: pair.epoch(),
                pair: object.pair,
                objects: Vec::new(),
            };
            let asked = self.call(pair, member, session, &request, Payload::none());
            if asked.await.is_ok() {
                return;
            }
            self.env.sleep(AGAIN).await;
        }
    }
}
