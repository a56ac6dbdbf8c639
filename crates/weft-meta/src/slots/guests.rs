//! Guests: what sessions of other groups have here, and who they are.

use super::source::tell_moved;
use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_namespace::slot_of;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{GroupId, Ino, SessionId};
use weft_wire::proto::{Adopt, CloseSession, GuestsReply, GuestsRequest, SlotGuest, op::Op};

/// Their groups are asked about guests so often, as long as there are any.
const ASK_EVERY: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(1);
/// Guests of one question, and siblings that are kept of a session: far more than there are groups.
const GUESTS_MAX: usize = 4_096;

/// What these sessions with other groups have had, of slots that have come from there, is this one's.
pub(crate) fn adopt(meta: &Rc<Meta>, core: &mut Core, session: SessionId, siblings: &[u64]) {
    if let Some(live) = core.sessions.get_mut(&session) {
        live.siblings = siblings.iter().take(GUESTS_MAX).copied().collect();
    }
    let mut has_adopted = false;
    for guest in siblings.iter().take(GUESTS_MAX).copied().map(SessionId) {
        if !core.state.has_guest(guest) {
            continue;
        }
        let locked = core.state.locks_of(guest);
        let adopt = Adopt {
            guest: guest.0,
            session: session.0,
        };
        let (reply, _) = meta.apply_own(core, Op::Adopt(adopt));
        tracing::debug!(%guest, %session, errno = reply.failure_errno, "a guest is known");
        has_adopted |= reply.failure_errno == 0;
        wake(core, &locked);
    }
    if has_adopted {
        meta.retry_for(core, Conflict::Guest);
    }
}

/// The inodes that are kept open for a session, for messages.
pub(crate) fn kept_open(core: &Core, session: SessionId) -> Vec<u64> {
    let kept = core.state.holds_of(session).into_iter();
    kept.map(|ino| ino.0).collect()
}

fn wake(core: &mut Core, locked: &[Ino]) {
    for ino in locked {
        core.tell_lock_freed(*ino);
    }
}

/// Asks who guests are, as long as there are any.
pub(super) async fn run(meta: Rc<Meta>) {
    loop {
        let mut of_groups: BTreeMap<GroupId, Vec<SlotGuest>> = BTreeMap::new();
        for (session, slot) in meta.core.borrow().state.guests().take(GUESTS_MAX) {
            of_groups
                .entry(session.group())
                .or_default()
                .push(SlotGuest {
                    session: session.0,
                    slot: u32::from(slot.0),
                });
        }
        if of_groups.is_empty() {
            meta.slots.guests.notified().await;
            continue;
        }
        let asked = of_groups.into_iter().map(|(group, guests)| {
            let request = GuestsRequest {
                group: meta.settings.group,
                guests,
            };
            let meta = &meta;
            async move { meta.ask_group(group, &request, PATIENCE).await }
        });
        for answer in futures_util::future::join_all(asked).await {
            match answer {
                Ok(reply) => end(&meta, &mut meta.core.borrow_mut(), &reply.ended),
                Err(failed) => tracing::debug!(%failed, "nobody says who guests are"),
            }
        }
        meta.env.sleep(ASK_EVERY).await;
    }
}

/// The sessions of these guests are over.
fn end(meta: &Rc<Meta>, core: &mut Core, ended: &[u64]) {
    for session in ended.iter().copied().map(SessionId) {
        if !core.state.has_guest(session) {
            continue;
        }
        let locked = core.state.locks_of(session);
        let close = CloseSession {
            session: session.0,
            clean: false,
            ..CloseSession::default()
        };
        meta.apply_own(core, Op::CloseSession(close));
        tracing::info!(guest = %session, "the session of a guest is over");
        wake(core, &locked);
    }
    meta.deletions_changed.notify_one();
    meta.retry_for(core, Conflict::Guest);
}

/// METHOD 118.
pub(crate) fn on_guests(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: GuestsRequest,
    replier: Replier,
) {
    let mut reply = GuestsReply::default();
    for guest in request.guests.iter().take(GUESTS_MAX) {
        let session = SessionId(guest.session);
        match slot_of(guest.slot) {
            Some(slot) if core.state.session_exists(session) => {
                tell_moved(core, session, slot, GroupId(request.group));
            }
            // One that ends is there until nothing of it is on its way to data servers any more.
            _ => reply.ended.push(guest.session),
        }
    }
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<GuestsRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}
