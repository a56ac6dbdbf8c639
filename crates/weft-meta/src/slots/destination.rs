//! A slot comes: received beside what is served, owned when it was given.

use super::begin;
use crate::crash_points::reach;
use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use std::rc::Rc;
use std::time::Duration;
use weft_namespace::{Attempt, slot_of};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{GroupId, SessionId, Slot, Sn};
use weft_wire::Failed;
use weft_wire::proto::slot_outcome_reply::Outcome;
use weft_wire::proto::{
    CheckSlotReply, CheckSlotRequest, Discard, Own, OwnSlotReply, OwnSlotRequest, ReceiveSlotReply,
    ReceiveSlotRequest, SlotOutcomeRequest, op::Op,
};

/// Who has heard nothing of a slot that it received for this long asks.
const DOUBT_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked whether to ask.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The source answers from memory, when what it knows is committed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pieces of one request: far more than are sent.
const PIECES_MAX: usize = 100_000;

fn named(
    slot: u32,
    attempt: Option<&weft_wire::proto::SlotAttempt>,
) -> Result<(Slot, Attempt), Failed> {
    let named = slot_of(slot).zip(Attempt::of(attempt));
    named.ok_or_else(|| Failed::Refused("no attempt to move a slot".into()))
}

/// METHOD 114.
pub(crate) fn on_receive(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: ReceiveSlotRequest,
    replier: Replier,
) {
    let receive = request.receive.unwrap_or_default();
    let slot = match named(receive.slot, receive.attempt.as_ref()) {
        Ok((slot, _)) if receive.pieces.len() <= PIECES_MAX => slot,
        Ok(_) => return replier.fail(Failed::Refused("too many pieces of a slot".into())),
        Err(failed) => return replier.fail(failed),
    };
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    begin(meta);
    core.slots.heard.insert(slot, meta.env.now());
    let (reply, sn) = meta.apply_own(core, Op::Receive(receive));
    reach(meta, "slot-comes");
    let reply = ReceiveSlotReply {
        failure_errno: reply.failure_errno,
    };
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<ReceiveSlotRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// METHOD 115.
pub(crate) fn on_check(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: CheckSlotRequest,
    replier: Replier,
) {
    let (slot, attempt) = match named(request.slot, request.attempt.as_ref()) {
        Ok(named) => named,
        Err(failed) => return replier.fail(failed),
    };
    core.slots.heard.insert(slot, meta.env.now());
    let reply = match core.state.check_received(slot, attempt) {
        Ok(digest) => CheckSlotReply {
            why_not: String::new(),
            digest_high: (digest >> 64) as u64,
            digest_low: digest as u64,
        },
        Err(why_not) => CheckSlotReply {
            why_not,
            ..CheckSlotReply::default()
        },
    };
    reach(meta, "slot-is-checked");
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<CheckSlotRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// METHOD 116.
pub(crate) fn on_own(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: OwnSlotRequest,
    replier: Replier,
) {
    let (slot, attempt) = match named(request.slot, request.attempt.as_ref()) {
        Ok(named) => named,
        Err(failed) => return replier.fail(failed),
    };
    // It is sent again when the answer was lost; by then the slot may have been given on.
    let was_owned = core.state.has_slot(slot) || core.state.given_to(slot).is_some();
    let sn = own(meta, core, slot, attempt);
    reach(meta, "slot-is-owned");
    let sn = match sn {
        Ok(sn) => sn,
        Err(_) if was_owned => core.commits.newest(),
        Err(why) => return replier.fail(Failed::Refused(why)),
    };
    meta.when_committed(core, sn, move |meta, _, result| match result {
        Ok(()) => {
            reach(meta, "slot-was-owned");
            replier.send::<OwnSlotRequest>(&OwnSlotReply {}, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    });
}

/// The slot was given, and that is committed.
fn own(meta: &Rc<Meta>, core: &mut Core, slot: Slot, attempt: Attempt) -> Result<Sn, String> {
    let arrives = core.state.arrives_from(slot);
    let Some((from, _)) = arrives.filter(|(_, of)| *of == attempt) else {
        return Err(format!("slot {slot} was not received"));
    };
    let own = Own {
        slot: u32::from(slot.0),
        attempt: Some(attempt.to_proto()),
    };
    let (reply, sn) = meta.apply_own(core, Op::Own(own));
    if reply.failure_errno != 0 {
        let errno = reply.failure_errno;
        return Err(format!("slot {slot} cannot be owned: errno {errno}"));
    }
    core.slots.heard.remove(&slot);
    tracing::info!(%slot, %from, "a slot has come");
    crate::spread::begin(meta, core);
    // Clients that have said who else they are.
    let known: Vec<(SessionId, Vec<u64>)> = core
        .sessions
        .iter()
        .filter(|(_, live)| !live.siblings.is_empty())
        .map(|(session, live)| (*session, live.siblings.clone()))
        .collect();
    for (session, siblings) in known {
        super::adopt(meta, core, session, &siblings);
    }
    meta.slots.owned.notify_one();
    meta.slots.guests.notify_one();
    meta.retry_for(core, Conflict::Slot(slot));
    Ok(sn)
}

/// Asks what became of slots of which nothing is heard, as long as the reign lasts.
pub(super) async fn run(meta: Rc<Meta>) {
    loop {
        let doubted = {
            let core = &mut *meta.core.borrow_mut();
            let now = meta.env.now();
            let arriving: Vec<Slot> = core.state.arriving().collect();
            let mut doubted: Vec<(Slot, GroupId, Attempt)> = Vec::new();
            for slot in arriving {
                // What an earlier reign has received is heard of from now on.
                let heard = *core.slots.heard.entry(slot).or_insert(now);
                if now.since(heard) < DOUBT_AFTER {
                    continue;
                }
                if let Some((from, attempt)) = core.state.arrives_from(slot) {
                    doubted.push((slot, from, attempt));
                }
            }
            doubted
        };
        for (slot, from, attempt) in doubted {
            let request = SlotOutcomeRequest {
                slot: u32::from(slot.0),
                attempt: Some(attempt.to_proto()),
            };
            let answer = meta.ask_group(from, &request, PATIENCE).await;
            let core = &mut *meta.core.borrow_mut();
            core.slots.heard.insert(slot, meta.env.now());
            if core.state.arrives_from(slot) != Some((from, attempt)) {
                continue;
            }
            match answer.map(|reply| reply.outcome()) {
                Ok(Outcome::Given) => {
                    if let Err(why) = own(&meta, core, slot, attempt) {
                        tracing::error!(%slot, why, "a slot that was given is not owned");
                    }
                }
                Ok(Outcome::Void) => {
                    let discard = Discard {
                        slot: request.slot,
                        attempt: request.attempt,
                    };
                    meta.apply_own(core, Op::Discard(discard));
                    core.slots.heard.remove(&slot);
                    meta.retry_for(core, Conflict::Slot(slot));
                }
                Ok(Outcome::UnderWay | Outcome::Unspecified) => {}
                Err(failed) => tracing::debug!(%slot, %from, %failed, "in doubt about a slot"),
            }
        }
        meta.env.sleep(LOOK_EVERY).await;
    }
}
