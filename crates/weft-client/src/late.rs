//! Changes of objects that were given up, and may still reach a data server (`docs/protocols/pairs.md`, "Late writes").
//!
//! Kept true: while one may, no lease of this client's is given back. A data server does nothing that comes over an older
//! connection of a session than it has heard last; so a change is over when each member that serves has answered over a
//! connection that was made since.

use crate::core::Core;
use crate::pairs::{Object, Pair, Pairs};
use crate::session::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_rpc::Payload;
use weft_types::Member;
use weft_wire::proto::SyncRequest;

/// A member that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(50);

/// What may come late.
#[derive(Default)]
pub(crate) struct Late {
    /// By pair and session: whether more was given up since its members were last asked.
    of: RefCell<BTreeMap<(u32, u64), bool>>,
    over: Notify,
}

impl Late {
    pub fn is_any(&self) -> bool {
        !self.of.borrow().is_empty()
    }

    /// Waits until nothing may.
    pub async fn none(&self) {
        loop {
            let over = self.over.notified();
            if !self.is_any() {
                return;
            }
            over.await;
        }
    }

    /// Something was given up. Says whether nobody sees to that pair and session yet.
    fn note(&self, of: (u32, u64)) -> bool {
        let known = self.of.borrow_mut().insert(of, true);
        known.is_none()
    }

    /// What was given up until now is seen to.
    fn begin(&self, of: (u32, u64)) {
        self.of.borrow_mut().insert(of, false);
    }

    /// What was seen to is over. Says whether that was all.
    fn end(&self, of: (u32, u64)) -> bool {
        let mut all = self.of.borrow_mut();
        if all.get(&of) == Some(&true) {
            return false;
        }
        all.remove(&of);
        self.over.notify_waiters();
        true
    }
}

impl Pairs {
    /// A change of this object was given up. Sees to it that it is over some time.
    pub(super) fn may_come_late(&self, core: &Rc<Core>, object: Object) {
        let with = core.session_of(object.ino);
        let of = (object.pair, with.id());
        if !self.late.note(of) {
            return;
        }
        let core = core.clone();
        self.env.spawn("late changes", async move {
            let pairs = &core.pairs;
            let pair = pairs.pair(object.pair);
            loop {
                pairs.late.begin(of);
                let given_up = pairs.given_up(of);
                for member in [Member::Zero, Member::One] {
                    pair.leave_connection(member);
                }
                for member in [Member::Zero, Member::One] {
                    pairs.heard_anew(&pair, member, (&*with, of)).await;
                }
                let under = (&*with, of.1);
                pairs.say_given_up(&core, &pair, under, given_up).await;
                if pairs.late.end(of) {
                    return;
                }
            }
        });
    }

    /// Waits until a member has answered under this session, is out of service, or the session is over.
    async fn heard_anew(
        &self,
        pair: &Pair,
        member: Member,
        (with, (id, session)): (&Session, (u32, u64)),
    ) {
        while with.id() == session && !with.is_closed() && pair.serves(member) {
            // What it is doing for the older connection holds its bytes locked until it is done.
            let request = SyncRequest {
                session,
                epoch: pair.epoch(),
                pair: id,
                objects: Vec::new(),
            };
            let asked = self.ask(pair, member, session, &request, Payload::none());
            if asked.await.is_ok() {
                return;
            }
            self.env.sleep(AGAIN).await;
        }
    }
}
