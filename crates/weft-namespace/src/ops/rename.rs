//! Rename: moves a name, over another if there is one, or exchanges two.

use super::Touch;
use crate::access::{self, WRITE};
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::names::Name;
use crate::state::{Context, DIRECTORY_LINKS_MAX, State};
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::{self, OpReply};

pub(super) enum Plan {
    /// Both names are of one inode: nothing to do.
    Same { ino: Ino },
    Move {
        source: Ino,
        cookie: u64,
        target: Option<(u64, Ino)>,
        /// What the old name is to stand for.
        whiteout: Option<Ino>,
    },
    Exchange {
        source: (u64, Ino),
        target: (u64, Ino),
    },
}

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Rename) -> Result<Plan, Errno> {
    if op.exchange && (op.no_replace || op.whiteout) {
        return Err(Errno::EINVAL);
    }
    let (old_ino, new_ino) = (Ino(op.parent), Ino(op.new_parent));
    let (old_parent, old_directory) = state.searchable(ctx.cred, old_ino)?;
    let (new_parent, new_directory) = state.searchable(ctx.cred, new_ino)?;
    let dots = |name: &[u8]| matches!(Name::parse(name), Ok(Name::Dot | Name::DotDot));
    if dots(&op.name) {
        return Err(Errno::EBUSY);
    }
    if dots(&op.new_name) {
        return Err(if op.no_replace {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        });
    }
    let (cookie, source) = state
        .find_in(old_directory, &op.name)?
        .ok_or(Errno::ENOENT)?;
    let target = state.find_in(new_directory, &op.new_name)?;
    match target {
        Some(_) if op.no_replace => return Err(Errno::EEXIST),
        None if op.exchange => return Err(Errno::ENOENT),
        _ => {}
    }
    // A directory cannot go below itself, nor can the place it is in be replaced.
    if is_within(state, new_ino, source) {
        return Err(Errno::EINVAL);
    }
    if let Some((_, target)) = target {
        if target != source && is_within(state, old_ino, target) {
            return Err(if op.exchange {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            });
        }
        if target == source {
            return Ok(Plan::Same { ino: source });
        }
    }

    let moved = state.get(source)?;
    let is_directory = moved.is_directory();
    state.check_may_delete(ctx.cred, old_parent, source, is_directory)?;
    match target {
        None => state.check_may_create(ctx.cred, new_parent)?,
        Some((_, target)) => {
            let as_directory = if op.exchange {
                state.get(target)?.is_directory()
            } else {
                is_directory
            };
            state.check_may_delete(ctx.cred, new_parent, target, as_directory)?;
        }
    }
    let replaced = target.map(|(_, target)| state.get(target)).transpose()?;
    let replaced_directory = replaced.is_some_and(|inode| inode.is_directory());
    if state.whole(old_ino) != state.whole(new_ino) {
        // Its ".." is rewritten.
        if is_directory {
            access::check(ctx.cred, moved, WRITE)?;
        }
        if let Some(other) = replaced.filter(|_| op.exchange && replaced_directory) {
            access::check(ctx.cred, other, WRITE)?;
        }
        if is_directory && !replaced_directory && new_parent.nlink >= DIRECTORY_LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        if op.exchange
            && !is_directory
            && replaced_directory
            && old_parent.nlink >= DIRECTORY_LINKS_MAX
        {
            return Err(Errno::EMLINK);
        }
    }
    if op.exchange {
        let target = target.ok_or(Errno::ENOENT)?;
        return Ok(Plan::Exchange {
            source: (cookie, source),
            target,
        });
    }
    if let Some((_, target)) = target.filter(|_| replaced_directory) {
        state.check_goes_alone(target)?;
    }
    let whiteout = match op.whiteout {
        true => Some(state.next_ino(old_ino.slot()).ok_or(Errno::ENOSPC)?),
        false => None,
    };
    Ok(Plan::Move {
        source,
        cookie,
        target,
        whiteout,
    })
}

/// True if `inner` is `outer` or lies somewhere below it.
fn is_within(state: &State, mut inner: Ino, outer: Ino) -> bool {
    loop {
        if inner == outer {
            return true;
        }
        match state.directory(inner) {
            Ok((_, directory)) if inner != ROOT_INO => inner = directory.parent,
            _ => return false,
        }
    }
}

pub(super) fn touches(state: &State, op: &proto::Rename, plan: &Plan) -> Vec<Touch> {
    let mut touched = vec![
        Touch::change(Ino(op.parent)),
        Touch::change(Ino(op.new_parent)),
    ];
    match plan {
        Plan::Same { .. } => touched.clear(),
        Plan::Move { source, target, .. } => {
            touched.push(Touch::change(*source));
            touched.extend(target.map(|(_, target)| state.victim(target)));
        }
        Plan::Exchange { source, target } => {
            touched.push(Touch::change(source.1));
            touched.push(Touch::change(target.1));
        }
    }
    touched
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::Rename, plan: Plan) -> OpReply {
    let (old, new) = (Ino(op.parent), Ino(op.new_parent));
    let is_directory =
        |state: &State, ino| i32::from(state.get(ino).is_ok_and(|i| i.is_directory()));
    let (moved, victim) = match plan {
        // Says that both names are there still.
        Plan::Same { ino } => (ino, state.attr(ino)),
        Plan::Move {
            source,
            cookie,
            target,
            whiteout,
        } => {
            let moves = is_directory(state, source);
            let goes = target.map_or(0, |(_, target)| is_directory(state, target));
            match whiteout {
                Some(ino) => {
                    make_whiteout(state, ctx, ino);
                    state.replace_entry(old, cookie, ino);
                }
                None => state.remove_entry(old, cookie, &op.name),
            }
            match target {
                // The name keeps its place in the listing, as it keeps existing all the time.
                Some((target_cookie, _)) => state.replace_entry(new, target_cookie, source),
                None => state.add_entry(new, &op.new_name, source),
            }
            touch_parents(state, ctx, old, -moves, new, moves - goes);
            arrive(state, ctx, source, new);
            let victim = target.and_then(|(_, target)| {
                let is_another = op.victim.is_some_and(|told| told != target.0);
                let keep = (op.keep_open || is_another).then_some(ctx.session);
                state.drop_link(target, (ctx.now, ctx.unkept), keep)
            });
            (source, victim)
        }
        Plan::Exchange { source, target } => {
            let shift = is_directory(state, target.1) - is_directory(state, source.1);
            state.replace_entry(old, source.0, target.1);
            state.replace_entry(new, target.0, source.1);
            touch_parents(state, ctx, old, shift, new, -shift);
            arrive(state, ctx, source.1, new);
            arrive(state, ctx, target.1, old);
            (source.1, state.attr(target.1))
        }
    };
    OpReply {
        attr: state.attr(moved),
        parent: state.attr(old),
        new_parent: (old != new).then(|| state.attr(new)).flatten(),
        victim,
        ..OpReply::default()
    }
}

/// A character device 0:0, which nobody may use.
fn make_whiteout(state: &mut State, ctx: &Context, ino: Ino) {
    let inode = Inode {
        mode: 0,
        nlink: 1,
        uid: ctx.cred.uid,
        gid: ctx.cred.gid,
        atime: ctx.now,
        mtime: ctx.now,
        ctime: ctx.now,
        change: 1,
        body: Body::CharDevice(0),
    };
    state.use_ino(ino);
    state.put_inode(ino, inode);
}

fn touch_parents(
    state: &mut State,
    ctx: &Context,
    old: Ino,
    old_directories: i32,
    new: Ino,
    new_directories: i32,
) {
    if old == new {
        state.touch_directory(old, ctx.now, old_directories + new_directories);
    } else {
        state.touch_directory(old, ctx.now, old_directories);
        state.touch_directory(new, ctx.now, new_directories);
    }
}

fn arrive(state: &mut State, ctx: &Context, ino: Ino, parent: Ino) {
    state.set_parent(ino, parent);
    if let Some(inode) = state.get_mut(ino) {
        inode.touch(ctx.now);
    }
}
