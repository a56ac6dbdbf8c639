//! A slot leaves: copied, recalled, frozen, given.

use super::sender::Sender;
use super::{Current, Wish};
use crate::crash_points::reach;
use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_namespace::{Attempt, slot_of};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{GroupId, Ino, SessionId, Slot};
use weft_wire::Failed;
use weft_wire::proto::slot_outcome_reply::Outcome;
use weft_wire::proto::{
    Give, LeaseMode, OwnSlotRequest, SlotMoved, SlotOutcomeReply, SlotOutcomeRequest, op::Op,
};

/// Walks before the slot is frozen.
const WALKS_MAX: usize = 3;
/// A walk that finds no more than so many pieces is the last one before.
const FEW: usize = 64;
/// Leases that are asked back while the slot is served are waited for so long: longer than a session's term.
const RECALL_PATIENCE: Duration = Duration::from_secs(10);
/// And so often it is looked whether they have come.
const RECALL_PAUSE: Duration = Duration::from_millis(5);
/// A slot is frozen for so long before it is given, or thaws.
const FROZEN_MAX: Duration = Duration::from_secs(2);
/// What it waits for is looked at so often.
const FROZEN_PAUSE: Duration = Duration::from_millis(1);
/// An attempt in vain is followed by another one after this, times how many there were, up to 16.
const AGAIN: Duration = Duration::from_millis(250);
/// Inodes whose leases are asked back at a time.
const RECALLED_AT_ONCE: usize = 500;
/// The other group answers when a journal write is done.
const OWN_PATIENCE: Duration = Duration::from_secs(2);
/// One that does not is asked again after this.
const OWN_RETRY: Duration = Duration::from_millis(20);

/// Moves slots as long as the reign lasts. What earlier reigns have given is brought to its end beside that.
pub(super) async fn run(meta: Rc<Meta>) {
    let given: Vec<_> = meta.core.borrow().state.given().collect();
    for (slot, given) in given {
        let holder = crate::group::holder(&meta.core.borrow().view, slot);
        // Or whoever owns it has said so already.
        if holder.is_none_or(|holder| holder.0 == meta.settings.group) {
            let ending = bring(meta.clone(), slot, given.to, given.attempt);
            meta.spawn("slot given", ending);
        }
    }
    loop {
        let wished = meta.slots.wished.notified();
        let next = next_due(&meta.core.borrow());
        match next {
            Some((slot, to, due)) if due <= meta.env.now() => {
                let why_not = move_slot(&meta, slot, to).await.err();
                ended(&meta, slot, to, why_not);
            }
            Some((_, _, due)) => {
                let wait = due.since(meta.env.now());
                // Either way it is looked again.
                let _: Result<(), _> = meta.env.timeout(wait, wished).await;
            }
            None => wished.await,
        }
    }
}

fn next_due(core: &Core) -> Option<(Slot, GroupId, Mono)> {
    let wishes = core.slots.wishes.iter();
    let due = wishes.map(|(slot, wish)| (*slot, wish.to, wish.due));
    due.min_by_key(|(slot, _, due)| (*due, *slot))
}

fn ended(meta: &Rc<Meta>, slot: Slot, to: GroupId, why_not: Option<String>) {
    let core = &mut *meta.core.borrow_mut();
    core.slots.current = None;
    thaw(meta, core, slot);
    let Some(why_not) = why_not else {
        core.slots.moved += 1;
        core.slots.wishes.remove(&slot);
        return;
    };
    tracing::info!(%slot, %to, why_not, "a slot does not move now");
    if !core.state.has_slot(slot) {
        core.slots.wishes.remove(&slot);
    } else if let Some(wish) = core.slots.wishes.get_mut(&slot) {
        wish.why_not = why_not;
        wish.attempts += 1;
        wish.due = meta.env.now() + AGAIN * wish.attempts.min(16);
    }
}

fn thaw(meta: &Rc<Meta>, core: &mut Core, slot: Slot) {
    if core
        .slots
        .frozen
        .take_if(|frozen| *frozen == slot)
        .is_some()
    {
        meta.retry_for(core, Conflict::Slot(slot));
    }
}

impl Wish {
    pub(super) fn new(to: GroupId, now: Mono) -> Wish {
        Wish {
            to,
            due: now,
            attempts: 0,
            why_not: String::new(),
        }
    }
}

/// One attempt.
async fn move_slot(meta: &Rc<Meta>, slot: Slot, to: GroupId) -> Result<(), String> {
    let attempt = {
        let core = &mut *meta.core.borrow_mut();
        if !core.state.has_slot(slot) {
            return Err("it is not this group's any more".into());
        }
        if let Some(why) = core.state.hinders_slots() {
            return Err(why);
        }
        core.slots.last_attempt += 1;
        let attempt = Attempt {
            epoch: core.epoch,
            number: core.slots.last_attempt,
        };
        core.slots.current = Some(Current {
            slot,
            to,
            attempt,
            stage: "copying",
            pieces: 0,
        });
        attempt
    };
    let begun = meta.env.now();
    let mut sender = Sender::new(meta, slot, to, attempt);
    sender.walk().await?;
    stage(meta, "recalling", &sender);
    recall(meta, slot).await?;
    stage(meta, "copying", &sender);
    for _ in 1..WALKS_MAX {
        if sender.walk().await? <= FEW {
            break;
        }
    }
    let frozen_at = meta.env.now();
    meta.core.borrow_mut().slots.frozen = Some(slot);
    stage(meta, "frozen", &sender);
    reach(meta, "slot-is-frozen");
    let giving = give(meta, &mut sender);
    match meta.env.timeout(FROZEN_MAX, giving).await {
        Ok(given) => given?,
        Err(_) => {
            let core = &mut *meta.core.borrow_mut();
            if core.state.has_slot(slot) {
                return Err(what_stands(core, slot).unwrap_or_else(|| "it takes too long".into()));
            }
        }
    }
    stage(meta, "given", &sender);
    reach(meta, "slot-is-given");
    let newest = meta.core.borrow().commits.newest();
    meta.committed(newest)
        .await
        .map_err(|why| why.to_string())?;
    reach(meta, "slot-was-given");
    bring(meta.clone(), slot, to, attempt).await;
    reach(meta, "slot-has-moved");
    let now = meta.env.now();
    tracing::info!(%slot, %to, pieces = sender.pieces(), took = ?now.since(begun),
        paused = ?now.since(frozen_at), "a slot has moved");
    Ok(())
}

fn stage(meta: &Rc<Meta>, stage: &'static str, sender: &Sender) {
    if let Some(current) = &mut meta.core.borrow_mut().slots.current {
        (current.stage, current.pieces) = (stage, sender.pieces());
    }
}

/// Asks all leases on a slot's inodes back once, while it is served, and waits for what was asked.
async fn recall(meta: &Rc<Meta>, slot: Slot) -> Result<(), String> {
    let until = meta.env.now() + RECALL_PATIENCE;
    let mut after = Ino(0);
    loop {
        let asked = {
            let core = &mut *meta.core.borrow_mut();
            let inos = core.state.inodes_of_slot(slot, after, RECALLED_AT_ONCE);
            inos.into_iter()
                .inspect(|ino| after = *ino)
                .filter(|ino| ask_back(meta, core, *ino).is_some())
                .collect::<Vec<Ino>>()
        };
        for ino in &asked {
            while is_revoking(&meta.core.borrow(), *ino) {
                if meta.env.now() > until {
                    let core = meta.core.borrow();
                    return Err(what_stands(&core, slot).unwrap_or_default());
                }
                meta.env.sleep(RECALL_PAUSE).await;
            }
        }
        if meta
            .core
            .borrow()
            .state
            .inodes_of_slot(slot, after, 1)
            .is_empty()
        {
            return Ok(());
        }
    }
}

fn ask_back(meta: &Rc<Meta>, core: &mut Core, ino: Ino) -> Option<Conflict> {
    meta.revoke(core, ino, SessionId(0), (LeaseMode::LeaseNone, 0), false)
}

fn is_revoking(core: &Core, ino: Ino) -> bool {
    let inos = ino..=ino;
    core.leases.revoking_within(inos).is_some()
}

/// Takes the slot, which is frozen, to where it can be given, and gives it.
async fn give(meta: &Rc<Meta>, sender: &mut Sender) -> Result<(), String> {
    let slot = sender.slot;
    let mut left: BTreeSet<Ino> = {
        let core = meta.core.borrow();
        let inos = core.state.inodes_of_slot(slot, Ino(0), usize::MAX);
        inos.into_iter().collect()
    };
    loop {
        // Nothing is granted any more: what is free stays free.
        let stands = {
            let core = &mut *meta.core.borrow_mut();
            left.retain(|ino| ask_back(meta, core, *ino).is_some());
            !left.is_empty() || what_stands(core, slot).is_some()
        };
        if stands {
            meta.env.sleep(FROZEN_PAUSE).await;
            continue;
        }
        sender.walk().await?;
        sender.check().await?;
        let core = &mut *meta.core.borrow_mut();
        if what_stands(core, slot).is_none() && sender.has_sent_all(core) {
            return take_out(meta, core, sender);
        }
    }
}

/// What the slot has to wait for, in words. Leases but for those that are being asked back are not looked for.
fn what_stands(core: &Core, slot: Slot) -> Option<String> {
    let inos = Ino::all_of(slot);
    let client = |session: SessionId| {
        let name = core.state.session_name(session);
        format!("client {name} (session {session})")
    };
    if core.away > 0 {
        return Some(format!(
            "{} sessions of the last reign are not back",
            core.away
        ));
    }
    if let Some((ino, session)) = core.leases.revoking_within(inos.clone()) {
        return Some(format!(
            "{} has not given back inode {ino}",
            client(session)
        ));
    }
    if core.settling.is_any_within(inos) {
        return Some("the size of a file is being found".into());
    }
    if core.running.own.in_slot(slot)
        || core.state.check_give(slot) == Err(weft_namespace::Errno::EAGAIN)
    {
        return Some("a transaction has locked something".into());
    }
    let errno = core.state.check_give(slot).err()?;
    Some(format!(
        "a file is being written or copied (errno {})",
        errno.0
    ))
}

/// The slot goes, now.
fn take_out(meta: &Rc<Meta>, core: &mut Core, sender: &Sender) -> Result<(), String> {
    if meta.stopping.get() {
        return Err("the server is stopping".into());
    }
    if let Some(failed) = core.commits.refusal() {
        return Err(failed.to_string());
    }
    let slot = sender.slot;
    let inos = core.state.inodes_of_slot(slot, Ino(0), usize::MAX);
    let mut concerned: BTreeSet<SessionId> = BTreeSet::new();
    for ino in &inos {
        let open = core.leases.others(*ino, SessionId(0));
        concerned.extend(open.into_iter().map(|(session, _)| session));
        concerned.extend(core.state.has_something_of(*ino));
    }
    let give = Give {
        slot: u32::from(slot.0),
        to: sender.to.0,
        attempt: Some(sender.attempt.to_proto()),
    };
    let (reply, sn) = meta.apply_own(core, Op::Give(give));
    if reply.failure_errno != 0 {
        return Err(format!("errno {}", reply.failure_errno));
    }
    for ino in &inos {
        core.leases.forget_inode(*ino);
        // Whoever waits for a lock there asks again, and is told where it is.
        core.tell_lock_freed(*ino);
    }
    let to = sender.to;
    meta.when_committed(core, sn, move |_, core, result| {
        if result.is_ok() {
            for session in concerned {
                tell_moved(core, session, slot, to);
            }
        }
    });
    thaw(meta, core, slot);
    Ok(())
}

/// Tells a client where a slot is, if it is connected.
pub(super) fn tell_moved(core: &Core, session: SessionId, slot: Slot, to: GroupId) {
    let live = core.sessions.get(&session);
    if let Some(connection) = live.and_then(|live| live.connection.as_ref()) {
        connection.notify(&SlotMoved {
            slot: u32::from(slot.0),
            group: to.0,
            members: crate::group::addresses(&core.view, to.0).1,
        });
    }
}

/// Tells the other group that the slot is its own, until it says so.
async fn bring(meta: Rc<Meta>, slot: Slot, to: GroupId, attempt: Attempt) {
    let request = OwnSlotRequest {
        slot: u32::from(slot.0),
        attempt: Some(attempt.to_proto()),
    };
    let newest = meta.core.borrow().commits.newest();
    if meta.committed(newest).await.is_err() {
        return;
    }
    loop {
        match meta.ask_group(to, &request, OWN_PATIENCE).await {
            Ok(_) => return,
            Err(Failed::Refused(why)) => {
                tracing::error!(%slot, %to, why, "a slot was given and is not taken");
            }
            Err(failed) => {
                tracing::debug!(%slot, %to, %failed, "a slot that was given is not owned yet");
            }
        }
        meta.env.sleep(OWN_RETRY).await;
    }
}

/// METHOD 117.
pub(crate) fn on_outcome(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: SlotOutcomeRequest,
    replier: Replier,
) {
    let asked = slot_of(request.slot).zip(Attempt::of(request.attempt.as_ref()));
    let Some((slot, attempt)) = asked else {
        return replier.fail(Failed::Refused("no attempt to move a slot".into()));
    };
    if attempt.epoch > core.epoch {
        let why = "that was not begun by this server's reign, nor before it";
        return replier.fail(Failed::Unavailable(why.into()));
    }
    let given = core.state.given_to(slot);
    let current = core.slots.current.as_ref();
    // What is neither given nor under way never will be: an earlier reign's entries are all here.
    let outcome = if given.is_some_and(|given| given.attempt == attempt) {
        Outcome::Given
    } else if current.is_some_and(|current| current.attempt == attempt) {
        Outcome::UnderWay
    } else {
        Outcome::Void
    };
    let reply = SlotOutcomeReply {
        outcome: outcome as i32,
    };
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<SlotOutcomeRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}
