//! Setattr: mode, owner, times, size; and what the holder of a write lease owes.

use super::Touch;
use crate::access::{self, SET_GID, SET_UID, WRITE};
use crate::errno::Errno;
use crate::inode::{Body, Inode, Stamp};
use crate::state::{Context, State};
use weft_types::{BLOCK_BYTES, FILE_BYTES_MAX, Ino};
use weft_wire::proto::{self, OpReply};

pub(crate) enum Plan {
    /// Asked for by an application.
    Set {
        mode: u16,
        uid: u32,
        gid: u32,
        atime: Option<Stamp>,
        mtime: Option<Stamp>,
    },
    /// Told by who holds the write lease.
    Owed {
        atime: Option<Stamp>,
        mtime: Option<Stamp>,
    },
    /// The file was read at this time.
    Read { atime: Stamp },
}

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Setattr) -> Result<Plan, Errno> {
    // What is owed of an inode that lingers is taken: a client may yet say that it holds it.
    let is_known = state.inodes.contains_key(&Ino(op.ino));
    if !is_known {
        return Err(Errno::ESTALE);
    }
    let atime = stamp(ctx, op.atime.as_ref(), op.atime_now)?;
    let mtime = stamp(ctx, op.mtime.as_ref(), op.mtime_now)?;
    if op.owed {
        return check_owed(state, ctx, op, atime, mtime);
    }
    state.check_stands_alone(Ino(op.ino))?;
    check_set(state, ctx, op)
}

/// The same for what an application asks for, whoever is to do it.
pub(crate) fn check_set(state: &State, ctx: &Context, op: &proto::Setattr) -> Result<Plan, Errno> {
    let inode = state.get(Ino(op.ino))?;
    let atime = stamp(ctx, op.atime.as_ref(), op.atime_now)?;
    let mtime = stamp(ctx, op.mtime.as_ref(), op.mtime_now)?;
    if op.allocated.is_some() || op.allocated_more.is_some() {
        return Err(Errno::EINVAL);
    }
    if let Some(size) = op.size {
        check_size(state, ctx, op, size)?;
    }
    check_owner(ctx, op, inode)?;
    let mode = check_mode(ctx, op, inode)?;
    check_times(ctx, op, inode)?;
    // Who may write but does not own the file cannot choose its time.
    let mtime = mtime.map(|told| {
        if access::owns(ctx.cred, inode) {
            told
        } else {
            ctx.now
        }
    });
    let (uid, gid) = (op.uid.unwrap_or(inode.uid), op.gid.unwrap_or(inode.gid));
    Ok(Plan::Set {
        mode,
        uid,
        gid,
        atime,
        mtime,
    })
}

fn stamp(ctx: &Context, told: Option<&proto::Time>, now: bool) -> Result<Option<Stamp>, Errno> {
    match told {
        _ if now => Ok(Some(ctx.now)),
        Some(time) => Stamp::new(time).map(Some).ok_or(Errno::EINVAL),
        None => Ok(None),
    }
}

fn check_owed(
    state: &State,
    ctx: &Context,
    op: &proto::Setattr,
    atime: Option<Stamp>,
    mtime: Option<Stamp>,
) -> Result<Plan, Errno> {
    if op.mode.is_some() || op.uid.is_some() || op.gid.is_some() {
        return Err(Errno::EINVAL);
    }
    if let (Some(atime), None, None, None) = (atime, mtime, op.size, op.allocated) {
        return Ok(Plan::Read { atime });
    }
    if ctx.session.0 == 0 || !state.writes(Ino(op.ino), ctx.session) {
        return Err(Errno::ESTALE);
    }
    if op.size.is_some_and(|size| size > FILE_BYTES_MAX) {
        return Err(Errno::EFBIG);
    }
    Ok(Plan::Owed { atime, mtime })
}

fn check_size(state: &State, ctx: &Context, op: &proto::Setattr, size: u64) -> Result<(), Errno> {
    let (inode, _) = state.file(Ino(op.ino))?;
    if !op.by_handle {
        access::check(ctx.cred, inode, WRITE)?;
    }
    if size > FILE_BYTES_MAX {
        Err(Errno::EFBIG)
    } else {
        Ok(())
    }
}

/// chown(2): root gives files away; an owner may choose among the groups that he is in.
fn check_owner(ctx: &Context, op: &proto::Setattr, inode: &Inode) -> Result<(), Errno> {
    // All ones means "as it is" in system calls, and is no id.
    if op.uid == Some(u32::MAX) || op.gid == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    if access::is_root(ctx.cred) {
        return Ok(());
    }
    let owner = ctx.cred.uid == inode.uid;
    if op.uid.is_some_and(|uid| !owner || uid != inode.uid) {
        return Err(Errno::EPERM);
    }
    let allowed = |gid| owner && (gid == inode.gid || access::in_group(ctx.cred, gid));
    if op.gid.is_some_and(|gid| !allowed(gid)) {
        Err(Errno::EPERM)
    } else {
        Ok(())
    }
}

/// chmod(2), and what a change of owner or content leaves of the set-id bits.
fn check_mode(ctx: &Context, op: &proto::Setattr, inode: &Inode) -> Result<u16, Errno> {
    let mut mode = inode.mode;
    if let Some(wanted) = op.mode {
        if matches!(inode.body, Body::Symlink(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        mode = (wanted & 0o7777) as u16;
        if !access::owns(ctx.cred, inode) && !only_drops_set_id(op, inode, mode) {
            return Err(Errno::EPERM);
        }
        let gid = op.gid.unwrap_or(inode.gid);
        if !access::is_root(ctx.cred) && !access::in_group(ctx.cred, gid) {
            mode &= !SET_GID;
        }
    }
    if (op.uid.is_some() || op.gid.is_some()) && !inode.is_directory() {
        mode = access::mode_after_chown(ctx.cred, mode, inode.gid);
    }
    if op.size.is_some() {
        mode = access::mode_after_write(ctx.cred, mode, inode.gid);
    }
    Ok(mode)
}

/// Who writes a file takes its set-id bits away by writing: his client says so for the descriptor
/// that he writes to, by a change of mode that does just that.
fn only_drops_set_id(op: &proto::Setattr, inode: &Inode, mode: u16) -> bool {
    let dropped = inode.mode & !mode;
    op.by_handle
        && matches!(inode.body, Body::File(_))
        && mode & !inode.mode == 0
        && dropped != 0
        && dropped & !(SET_UID | SET_GID) == 0
}

/// utimensat(2): both times "now" needs write permission, anything else ownership. A time of change
/// that comes with a size is part of the truncation.
fn check_times(ctx: &Context, op: &proto::Setattr, inode: &Inode) -> Result<(), Errno> {
    let sets_atime = op.atime_now || op.atime.is_some();
    let sets_mtime = (op.mtime_now || op.mtime.is_some()) && op.size.is_none();
    if access::owns(ctx.cred, inode) || !(sets_atime || sets_mtime) {
        return Ok(());
    }
    if op.atime_now && op.mtime_now {
        return access::check(ctx.cred, inode, WRITE);
    }
    Err(Errno::EPERM)
}

/// A time of reading goes to nobody else: it would cost every reader its cache, for each other's
/// reading.
pub(super) fn touches(ino: Ino, plan: &Plan) -> Vec<Touch> {
    match plan {
        Plan::Read { .. } => Vec::new(),
        Plan::Set { .. } | Plan::Owed { .. } => vec![Touch::change(ino)],
    }
}

pub(super) fn commit(
    state: &mut State,
    ctx: &Context,
    op: &proto::Setattr,
    plan: Plan,
) -> Result<OpReply, Errno> {
    let ino = Ino(op.ino);
    let mut is_cut = false;
    match plan {
        Plan::Read { atime } => {
            if let Some(inode) = state.get_mut(ino) {
                inode.atime = inode.atime.max(atime);
            }
        }
        Plan::Owed { atime, mtime } => owe(state, ctx, op, atime, mtime),
        Plan::Set {
            mode,
            uid,
            gid,
            atime,
            mtime,
        } => {
            if let Some(size) = op.size {
                state.check_no_other_writer(ino, ctx.session)?;
                if is_idle(state, ctx, op, size, mode) {
                    return Ok(state.file_reply(ino));
                }
                is_cut = state.set_size(ino, size, ctx.session);
            }
            if let Some(inode) = state.get_mut(ino) {
                if op.size.is_some() {
                    inode.mtime = ctx.now;
                }
                inode.touch(ctx.now);
                (inode.mode, inode.uid, inode.gid) = (mode, uid, gid);
                inode.atime = atime.unwrap_or(inode.atime);
                inode.mtime = mtime.unwrap_or(inode.mtime);
            }
        }
    }
    Ok(OpReply {
        cut: is_cut,
        ..state.file_reply(ino)
    })
}

/// truncate(2) to the size that a file has leaves its times alone; ftruncate(2) and open(2) do not.
/// The size of a file that is being written is only known to its writer.
fn is_idle(state: &State, ctx: &Context, op: &proto::Setattr, size: u64, mode: u16) -> bool {
    let ino = Ino(op.ino);
    let only_size = proto::Setattr {
        ino: op.ino,
        size: op.size,
        ..proto::Setattr::default()
    };
    *op == only_size
        && !state.writes(ino, ctx.session)
        && matches!(state.file(ino), Ok((inode, file)) if file.size == size && inode.mode == mode)
}

fn owe(
    state: &mut State,
    ctx: &Context,
    op: &proto::Setattr,
    atime: Option<Stamp>,
    mtime: Option<Stamp>,
) {
    let ino = Ino(op.ino);
    if let (Some(trim), Some(size)) = (state.trims.get_mut(&ino), op.size) {
        trim.from = trim.from.min(size);
    }
    // Who was one of several when this was sent knows less than the file is.
    let is_shared = op.beside_others || state.is_shared(ino);
    let Some(inode) = state.get_mut(ino) else {
        return;
    };
    if is_shared {
        join(inode, op, atime, mtime);
    } else {
        if let Body::File(file) = &mut inode.body {
            file.size = op.size.unwrap_or(file.size);
            file.allocated = op.allocated.unwrap_or(file.allocated);
        }
        inode.atime = atime.unwrap_or(inode.atime);
        inode.mtime = mtime.unwrap_or(inode.mtime);
    }
    // The write was when its holder says; a chmod since then was later.
    let ctime = inode.ctime.max(mtime.unwrap_or(ctx.now));
    inode.touch(ctime);
}

/// What one of several writers tells, beside what the others have: a file does not shrink by writing.
fn join(inode: &mut Inode, op: &proto::Setattr, atime: Option<Stamp>, mtime: Option<Stamp>) {
    if let Body::File(file) = &mut inode.body {
        file.size = file.size.max(op.size.unwrap_or(0));
        let more = op.allocated_more.unwrap_or(0);
        // Nobody knows which blocks others have filled: the size bounds the figure.
        let most = file.size.next_multiple_of(BLOCK_BYTES);
        file.allocated = file
            .allocated
            .saturating_add(more)
            .min(most.max(file.allocated));
    }
    inode.atime = inode.atime.max(atime.unwrap_or(inode.atime));
    inode.mtime = inode.mtime.max(mtime.unwrap_or(inode.mtime));
}
