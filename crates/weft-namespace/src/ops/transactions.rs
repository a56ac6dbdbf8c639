//! Found, Prepare, Commit, Finish, Forget: changes that several groups take part in
//! (`docs/protocols/transactions.md`).

use super::Touch;
use crate::errno::Errno;
use crate::parts::{Prepared, transaction_of};
use crate::slots::{SlotSet, slot_of};
use crate::state::{Context, State};
use std::collections::BTreeSet;
use weft_types::{FIRST_GROUP, GroupId, Ino, ROOT_INO, SLOTS, SessionId, Slot, TransactionId};
use weft_wire::proto::part::{Part as Kind, Tells};
use weft_wire::proto::{self, Attr, OpReply, Part, PartReply};

/// The name space gets its place among those of the groups.
pub(super) fn found(state: &mut State, ctx: &Context, op: &proto::Found) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let is_first = state.slots.is_all() && state.group == GroupId(0) && state.sessions.is_empty();
    if !is_first || !state.is_untouched() || op.group >= u32::from(SLOTS) {
        return Err(Errno::EINVAL);
    }
    let slots = match op.slots.is_empty() && op.group != FIRST_GROUP.0 {
        // It comes to a cluster whose slots others have.
        true => SlotSet::none(),
        false => SlotSet::of_ranges(&op.slots).ok_or(Errno::EINVAL)?,
    };
    let is_root_here = slots.has(ROOT_INO.slot());
    state.group = GroupId(op.group);
    state.slots = slots;
    state.next_session = SessionId::first_of(state.group).0;
    if !is_root_here {
        state.remove_root();
    }
    Ok(OpReply::default())
}

/// Another group's transaction: its parts are checked, and what they touch is locked.
pub(super) fn prepare(
    state: &mut State,
    ctx: &Context,
    op: &proto::Prepare,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let by = transaction_of(op.transaction.as_ref()).ok_or(Errno::EINVAL)?;
    let is_own = by.home == state.group;
    let slots: Vec<u32> = op.parts.iter().filter_map(made_in).collect();
    // Each gets the next number of its slot.
    let are_different = slots.iter().collect::<BTreeSet<_>>().len() == slots.len();
    if is_own || !are_different {
        return Err(Errno::EINVAL);
    }
    let mut replies = Vec::with_capacity(op.parts.len());
    for part in &op.parts {
        if state.locked.against(part, by).is_some() {
            return Err(Errno::EAGAIN);
        }
        replies.push(state.check_part_at(ctx.cred, part, ctx.now)?);
    }
    let mut parts = op.parts.clone();
    for (part, reply) in parts.iter_mut().zip(&replies) {
        if let (Some(Kind::Make(make)), Some(attr)) = (&mut part.part, &reply.attr) {
            make.ino = attr.ino;
            state.use_ino(Ino(attr.ino));
        }
        state.locked.lock(part, by);
    }
    let prepared = parts.into_iter().map(|part| Prepared {
        part,
        time: ctx.now,
    });
    state.prepared.entry(by).or_default().extend(prepared);
    Ok(OpReply {
        parts: replies,
        ..OpReply::default()
    })
}

/// The slot in which a part makes a directory.
fn made_in(part: &Part) -> Option<u32> {
    match &part.part {
        Some(Kind::Make(make)) => Some(make.slot),
        _ => None,
    }
}

/// Numbers for directories that this group is to make as the home of a transaction.
pub(super) fn take_numbers(
    state: &mut State,
    ctx: &Context,
    op: &proto::TakeNumbers,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let slots: Option<Vec<Slot>> = op.slots.iter().map(|slot| slot_of(*slot)).collect();
    let slots = slots.ok_or(Errno::EINVAL)?;
    let are_different = slots.iter().collect::<BTreeSet<_>>().len() == slots.len();
    if !are_different || !slots.iter().all(|slot| state.slots.has(*slot)) {
        return Err(Errno::EINVAL);
    }
    let inos: Option<Vec<Ino>> = slots.iter().map(|slot| state.next_ino(*slot)).collect();
    let inos = inos.ok_or(Errno::ENOSPC)?;
    let taken = inos.iter().map(|ino| PartReply {
        found: ino.0,
        ..PartReply::default()
    });
    let reply = OpReply {
        parts: taken.collect(),
        ..OpReply::default()
    };
    for ino in inos {
        state.use_ino(ino);
    }
    Ok(reply)
}

/// This group's own transaction is done, for all.
pub(super) fn commit(
    state: &mut State,
    ctx: &Context,
    op: &proto::Commit,
) -> Result<OpReply, Errno> {
    let id = transaction_of(op.transaction.as_ref()).ok_or(Errno::EINVAL)?;
    if id.home != state.group || state.decided.contains_key(&id) {
        return Err(Errno::EINVAL);
    }
    for part in &op.parts {
        let is_numberless = matches!(&part.part, Some(Kind::Make(make)) if make.ino == 0);
        if is_numberless || state.locked.against(part, id).is_some() {
            return Err(Errno::EAGAIN);
        }
        state.check_part_at(ctx.cred, part, ctx.now)?;
    }
    let mut reply = OpReply {
        created: op.created,
        ..OpReply::default()
    };
    for told in &op.told {
        tell(&mut reply, told.tells(), told.attr);
    }
    let effect = |part: &Part| {
        let (part, time) = (part.clone(), ctx.now);
        (
            part.tells(),
            state.do_part(&Prepared { part, time }, ctx.unkept),
        )
    };
    let done: Vec<(Tells, Option<Attr>)> = op.parts.iter().map(effect).collect();
    for (tells, attr) in done {
        // A directory that two names of are in is as it is after both.
        let newest = attr.and_then(|attr| state.attr(Ino(attr.ino)));
        tell(&mut reply, tells, newest.or(attr));
    }
    let others = op.others.iter().map(|group| GroupId(*group)).collect();
    state.decided.insert(id, others);
    settle(state, id);
    Ok(reply)
}

fn tell(reply: &mut OpReply, tells: Tells, attr: Option<Attr>) {
    match tells {
        Tells::Nothing => {}
        Tells::Attr => reply.attr = attr,
        Tells::Parent => reply.parent = attr,
        Tells::NewParent => reply.new_parent = attr,
        Tells::Victim => reply.victim = attr,
    }
}

/// A transaction of which all have heard is forgotten.
fn settle(state: &mut State, id: TransactionId) {
    if state
        .decided
        .get(&id)
        .is_some_and(|others| others.is_empty())
    {
        state.decided.remove(&id);
    }
}

/// Another group's transaction has ended. One that is not known has ended before.
pub(super) fn finish(
    state: &mut State,
    ctx: &Context,
    op: &proto::Finish,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let id = transaction_of(op.transaction.as_ref()).ok_or(Errno::EINVAL)?;
    let parts = state.prepared.remove(&id).unwrap_or_default();
    state.locked.free(id);
    if op.done {
        for part in &parts {
            state.do_part(part, ctx.unkept);
        }
    }
    Ok(OpReply::default())
}

/// A group has heard of these.
pub(super) fn forget(
    state: &mut State,
    ctx: &Context,
    op: &proto::Forget,
) -> Result<OpReply, Errno> {
    ctx.check_service()?;
    let ids = op.transactions.iter().map(|id| transaction_of(Some(id)));
    let ids: Option<Vec<TransactionId>> = ids.collect();
    for id in ids.ok_or(Errno::EINVAL)? {
        if let Some(others) = state.decided.get_mut(&id) {
            others.remove(&GroupId(op.group));
        }
        settle(state, id);
    }
    Ok(OpReply::default())
}

/// What others have cached of these parts' directories and inodes.
pub(super) fn touches(state: &State, parts: &[Part]) -> Vec<Touch> {
    let touched = parts.iter().filter_map(|part| match part.part.as_ref()? {
        Kind::Name(part) => Some(Touch::change(Ino(part.directory))),
        Kind::Drop(part) => Some(state.victim(Ino(part.ino))),
        Kind::Add(part) => Some(Touch::change(Ino(part.ino))),
        Kind::Move(part) => Some(Touch::change(Ino(part.ino))),
        Kind::Make(part) => (part.ino != 0).then(|| Touch::change(Ino(part.ino))),
        Kind::Spread(part) => Some(Touch::change(Ino(part.ino))),
        Kind::Set(part) => Some(Touch::change(Ino(part.ino))),
        Kind::Take(part) => Some(Touch::change(Ino(part.ino))),
        Kind::Put(part) => Some(Touch::change(Ino(part.ino))),
    });
    touched.collect()
}

/// The same for a transaction that ends.
pub(super) fn finishes(state: &State, op: &proto::Finish) -> Vec<Touch> {
    let id = transaction_of(op.transaction.as_ref());
    let parts = id.and_then(|id| state.prepared.get(&id));
    let parts = parts.into_iter().flatten();
    let parts: Vec<Part> = parts.map(|prepared| prepared.part.clone()).collect();
    touches(state, &parts)
}
