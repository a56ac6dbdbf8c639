//! SetLock: takes, changes or frees a flock or fcntl lock. Never waits: who must, asks again when
//! told that a lock was freed. Reclaiming takes over what the same owner holds by way of a session that has ended, or
//! is about to.

use crate::errno::Errno;
use crate::locks::{LOCKS_MAX, Wanted};
use crate::opens::kept_to_lock;
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::SetLock,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    state.get(ino)?;
    let wanted = Wanted::new(ctx.session, op.lock.as_ref().ok_or(Errno::EINVAL)?)?;
    if op.reclaim {
        return reclaim(state, ctx, ino, &wanted);
    }
    let held = state.locks.get(&ino);
    if let Some(conflict) = held.and_then(|locks| locks.conflict(&wanted)) {
        return Ok(OpReply {
            conflict: Some(conflict),
            ..crate::failure(Errno::EAGAIN)
        });
    }
    // Freeing a piece out of the middle of a lock makes two of it.
    let frees_all = wanted.kind == Kind::Unlock && wanted.range.start == 0;
    if !frees_all && held.is_some_and(|locks| locks.len() >= LOCKS_MAX) {
        return Err(Errno::ENOLCK);
    }
    let locks = state.locks.entry(ino).or_default();
    let gained = locks.set(&wanted);
    let holds = locks.has_session(ctx.session);
    if locks.is_empty() {
        state.locks.remove(&ino);
    }
    if let Some(session) = state.sessions.get_mut(&ctx.session) {
        if holds {
            session.locks.insert(ino);
        } else {
            session.locks.remove(&ino);
        }
    }
    Ok(OpReply {
        attr: state.attr(ino),
        wake_waiters: gained,
        ..OpReply::default()
    })
}

fn reclaim(state: &mut State, ctx: &Context, ino: Ino, wanted: &Wanted) -> Result<OpReply, Errno> {
    if wanted.flock || wanted.kind == Kind::Unlock || wanted.range.behalf == 0 {
        return Err(Errno::EINVAL);
    }
    // Who kept the file locked it by itself, too; nobody else can have since.
    let kept = state.kept_elsewhere(ino, wanted.range.behalf, ctx.session);
    let was_kept = kept & kept_to_lock(wanted.range.exclusive) != 0;
    let locks = state.locks.entry(ino).or_default();
    let having = match locks.reclaim(wanted) {
        Some(having) => having,
        None if was_kept && locks.conflict(wanted).is_none() && locks.len() < LOCKS_MAX => {
            locks.set(wanted);
            Vec::new()
        }
        None => {
            if locks.is_empty() {
                state.locks.remove(&ino);
            }
            return Err(Errno::ENOENT);
        }
    };
    let without: Vec<_> = having
        .iter()
        .filter(|session| !locks.has_session(**session))
        .collect();
    for session in without {
        if let Some(session) = state.sessions.get_mut(session) {
            session.locks.remove(&ino);
        }
    }
    if let Some(session) = state.sessions.get_mut(&ctx.session) {
        session.locks.insert(ino);
    }
    for session in having {
        state.forget_empty_remnant(session);
    }
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}
