//! SetOpen: a session has a file open on behalf of somebody who denies others something or keeps it as it is, or no
//! longer has.

use crate::errno::Errno;
use crate::locks::{Owner, Range};
use crate::opens::{KEPT_TO_CHANGE, OPENS_MAX, Opened};
use crate::state::{Context, State};
use weft_types::{Ino, SessionId};
use weft_wire::proto::{self, OpReply};

pub(super) fn apply(
    state: &mut State,
    ctx: &Context,
    op: &proto::SetOpen,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    state.get(ino)?;
    let wanted = Opened::new(op)?;
    let owner = Owner {
        session: ctx.session,
        owner: op.owner,
    };
    if wanted.is_nothing() {
        state.close_for(ino, owner);
    } else {
        let having = check(state, ino, (owner, &wanted), op.reclaim)?;
        for session in &having {
            let other = Owner {
                session: *session,
                ..owner
            };
            state.close_for(ino, other);
        }
        state.open_for(ino, owner, wanted);
        let is_nameless = state.get(ino)?.nlink == 0;
        if op.reclaim && is_nameless {
            // Kept for who had it open, of which this is one.
            state.hold(ino, ctx.session);
        }
        for session in having {
            state.forget_empty_remnant(session);
        }
    }
    Ok(OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    })
}

/// Whether somebody may have the file open so. Answers the sessions from which it is taken over.
fn check(
    state: &State,
    ino: Ino,
    (owner, wanted): (Owner, &Opened),
    reclaim: bool,
) -> Result<Vec<SessionId>, Errno> {
    // Who keeps a file locks it by himself: to read, or in any way. By way of another session that goes on even the same client
    // is another one: it knows nothing there of what it has locked here.
    let is_own = |held: &Range| {
        held.behalf == wanted.behalf && (reclaim || held.owner.session == owner.session)
    };
    let reads_only = wanted.kept & KEPT_TO_CHANGE == 0;
    let locks = state.locks.get(&ino).filter(|_| wanted.kept != 0);
    if locks.is_some_and(|locks| locks.are_beside(is_own, reads_only)) {
        return Err(Errno::EAGAIN);
    }
    let Some(opens) = state.opens.get(&ino) else {
        // What only uses the file needs no record of before.
        let is_had = wanted.deny | wanted.kept == 0;
        return match !reclaim || is_had {
            true => Ok(Vec::new()),
            false => Err(Errno::ENOENT),
        };
    };
    if opens.is_excluded(owner, wanted) {
        return Err(Errno::EAGAIN);
    }
    let own = opens.get(owner);
    if own.is_none() && opens.len() >= OPENS_MAX {
        return Err(Errno::ENOLCK);
    }
    if !reclaim {
        return Ok(Vec::new());
    }
    let elsewhere = opens.elsewhere(owner, wanted);
    let had = elsewhere.iter().map(|(_, opened)| *opened).chain(own);
    let (deny, kept) = had.fold((0, 0), |(deny, kept), it| (deny | it.deny, kept | it.kept));
    match (wanted.deny & !deny) | (wanted.kept & !kept) {
        0 => Ok(elsewhere.into_iter().map(|(session, _)| session).collect()),
        _ => Err(Errno::ENOENT),
    }
}
