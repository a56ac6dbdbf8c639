//! RelayoutBegin, Relayout, RelayoutEnd: a file comes to lie otherwise (`docs/protocols/relayout.md`).

use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::layouts::Shape;
use crate::moves::{Move, bytes_of};
use crate::state::{Context, State};
use std::rc::Rc;
use weft_types::Ino;
use weft_wire::proto::{self, OpReply};

/// Gives a copy its generation. From now on it cannot be forgotten.
pub(super) fn begin(
    state: &mut State,
    ctx: &Context,
    op: &proto::RelayoutBegin,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    state.running(op.job)?;
    let (_, file) = state.file(ino)?;
    let shape = state.parse_layout(op.layout.as_ref().ok_or(Errno::EINVAL)?)?;
    if state.is_any_draining(&shape.pairs) {
        // Chosen before that was known.
        return Err(Errno::EAGAIN);
    }
    if *file.shape == shape {
        return Err(Errno::EALREADY);
    }
    if state.moves.contains_key(&ino) {
        return Err(Errno::EBUSY);
    }
    let generation = state.next_generation(ino, file).ok_or(Errno::ENOSPC)?;
    let copy = Move {
        session: ctx.session,
        job: op.job,
        from: file.generation,
        generation,
        shape: state.shapes.intern(shape),
    };
    let layout = copy.shape.to_proto(generation);
    state.reserved.insert(ino, generation);
    state.checkpoints.note_generation(generation);
    state.moves.insert(ino, copy);
    Ok(OpReply {
        attr: state.attr(ino),
        layout: Some(layout),
        ..OpReply::default()
    })
}

/// The copy becomes the file.
pub(super) fn commit(
    state: &mut State,
    ctx: &Context,
    op: &proto::Relayout,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    let (_, file) = state.file(ino)?;
    // Whoever holds it has excluded all others: nobody has any of its bytes. Who just has it open learns how it
    // lies with the first that it is granted.
    if state.write_lease(ino) != Some(ctx.session) {
        return Err(Errno::EBUSY);
    }
    if let Some(layout) = &op.layout {
        return commit_in_place(state, op, layout);
    }
    let copy = state.moves.get(&ino).ok_or(Errno::ESTALE)?;
    if copy.session != ctx.session || copy.generation != op.generation {
        return Err(Errno::ESTALE);
    }
    if file.generation != copy.from {
        // Cut to nothing meanwhile.
        return Err(Errno::ESTALE);
    }
    if state.trims.contains_key(&ino) {
        return Err(Errno::EBUSY);
    }
    if state.is_any_draining(&copy.shape.pairs) {
        return Err(Errno::EAGAIN);
    }
    let before = file.clone();
    let Some(copy) = state.moves.remove(&ino) else {
        return Err(Errno::ESTALE);
    };
    state.queue_objects(ino, &before);
    if state.reserved.get(&ino) == Some(&copy.generation) {
        state.reserved.remove(&ino);
    }
    state.count_move(copy.job, bytes_of(&before));
    lay(state, ino, copy.shape, copy.generation);
    Ok(state.file_reply(ino))
}

fn commit_in_place(
    state: &mut State,
    op: &proto::Relayout,
    layout: &proto::Layout,
) -> Result<OpReply, Errno> {
    let ino = Ino(op.ino);
    state.running(op.job)?;
    let (_, file) = state.file(ino)?;
    let shape = state.parse_layout(layout)?;
    if file.generation != op.generation {
        return Err(Errno::ESTALE);
    }
    if shape.pairs != file.shape.pairs || shape.stripe_unit != file.shape.stripe_unit {
        return Err(Errno::EINVAL);
    }
    if shape != *file.shape {
        let shape = state.shapes.intern(shape);
        state.count_move(op.job, 0);
        lay(state, ino, shape, op.generation);
    }
    Ok(state.file_reply(ino))
}

/// Nothing of the file changes that anybody could see but by asking for its layout: no times.
fn lay(state: &mut State, ino: Ino, shape: Rc<Shape>, generation: u32) {
    if let Some(inode) = state.get_mut(ino)
        && let Inode {
            body: Body::File(file),
            ..
        } = inode
    {
        (file.shape, file.generation) = (shape, generation);
        inode.change += 1;
    }
}

/// The copy is given up. Nothing to do if it is not the session's (any more).
pub(super) fn end(
    state: &mut State,
    ctx: &Context,
    op: &proto::RelayoutEnd,
) -> Result<OpReply, Errno> {
    ctx.check_session()?;
    let ino = Ino(op.ino);
    let is_own = |copy: &Move| copy.session == ctx.session && copy.generation == op.generation;
    if state.moves.get(&ino).is_some_and(is_own) {
        state.end_move(ino);
    }
    Ok(OpReply::default())
}
