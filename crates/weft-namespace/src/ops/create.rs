//! Create: a new inode under a new name (open with O_CREAT, mkdir, symlink, mknod).

use super::Touch;
use crate::access::{self, SET_GID, STICKY, WRITE};
use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::{Body, File, Inode};
use crate::layouts::Shape;
use crate::names::Name;
use crate::state::{Context, DIRECTORY_LINKS_MAX, State};
use weft_types::{Ino, TARGET_MAX};
use weft_wire::proto::{self, Cred, FileKind, OpReply};

pub(super) enum Plan {
    /// The name is there: its inode is the answer, cut if `truncate`.
    Existing { ino: Ino, truncate: bool },
    /// The name is there, and its inode is another group's.
    Elsewhere { ino: Ino, kind: FileKind },
    New {
        ino: Ino,
        kind: FileKind,
        mode: u16,
        gid: u32,
    },
    /// A file without a name, which the session holds.
    Unnamed { ino: Ino, mode: u16, gid: u32 },
}

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Create) -> Result<Plan, Errno> {
    if op.unnamed {
        return check_unnamed(state, ctx, op);
    }
    let kind = FileKind::try_from(op.kind).map_err(|_| Errno::EINVAL)?;
    let exclusive = op.exclusive || kind != FileKind::Regular;
    let (parent, directory) = state.searchable(ctx.cred, Ino(op.parent))?;
    let name = match Name::parse(&op.name)? {
        Name::Plain(name) => name,
        Name::Dot | Name::DotDot if exclusive => return Err(Errno::EEXIST),
        Name::Dot | Name::DotDot => return Err(Errno::EISDIR),
    };
    if let Some((_, ino)) = directory.find(name) {
        if exclusive {
            return Err(Errno::EEXIST);
        }
        return check_existing(state, ctx.cred, op, ino);
    }
    state.check_may_create(ctx.cred, parent)?;

    let slot = match kind {
        FileKind::Directory => State::directory_slot(Ino(op.parent), name),
        _ => Ino(op.parent).slot(),
    };
    match kind {
        FileKind::Unspecified => return Err(Errno::EINVAL),
        FileKind::Directory if parent.nlink >= DIRECTORY_LINKS_MAX => return Err(Errno::EMLINK),
        FileKind::Symlink if op.target.is_empty() => return Err(Errno::ENOENT),
        FileKind::Symlink if op.target.len() > TARGET_MAX => return Err(Errno::ENAMETOOLONG),
        FileKind::Symlink if op.target.contains(&0) => return Err(Errno::EINVAL),
        // A character device 0:0 is overlayfs' mark for a removed file; anybody may make one.
        FileKind::CharDevice if op.rdev == 0 => {}
        FileKind::CharDevice | FileKind::BlockDevice if !access::is_root(ctx.cred) => {
            return Err(Errno::EPERM);
        }
        FileKind::Regular if state.pairs.is_empty() => return Err(Errno::ENOSPC),
        _ => {}
    }
    let (mode, gid) = mode_and_group(ctx.cred, parent, kind, op.mode);
    if !state.slots.has(slot) {
        // Done by several groups, or not at all.
        return Err(Errno::EXDEV);
    }
    let ino = state.next_ino(slot).ok_or(Errno::ENOSPC)?;
    Ok(Plan::New {
        ino,
        kind,
        mode,
        gid,
    })
}

/// open(2) with O_TMPFILE.
fn check_unnamed(state: &State, ctx: &Context, op: &proto::Create) -> Result<Plan, Errno> {
    // Who does not hold it would have made nothing.
    if op.kind() != FileKind::Regular || !state.session_exists(ctx.session) {
        return Err(Errno::EINVAL);
    }
    let (parent, _) = state.searchable(ctx.cred, Ino(op.parent))?;
    state.check_may_create(ctx.cred, parent)?;
    if state.pairs.is_empty() {
        return Err(Errno::ENOSPC);
    }
    let (mode, gid) = mode_and_group(ctx.cred, parent, FileKind::Regular, op.mode);
    let ino = state.next_ino(Ino(op.parent).slot()).ok_or(Errno::ENOSPC)?;
    Ok(Plan::Unnamed { ino, mode, gid })
}

/// open(2) with O_CREAT of a name that is there.
fn check_existing(state: &State, cred: &Cred, op: &proto::Create, ino: Ino) -> Result<Plan, Errno> {
    if let Some(foreign) = state.foreign.get(&ino) {
        return match foreign.kind {
            FileKind::Directory => Err(Errno::EISDIR),
            kind => Ok(Plan::Elsewhere { ino, kind }),
        };
    }
    let inode = state.get(ino)?;
    match inode.body {
        Body::Directory(_) => return Err(Errno::EISDIR),
        // The caller walks on from its target; its own mode means nothing.
        Body::Symlink(_) => {
            return Ok(Plan::Existing {
                ino,
                truncate: false,
            });
        }
        _ => {}
    }
    let is_file = matches!(inode.body, Body::File(_));
    let truncate = op.truncate && is_file;
    let mask = op.open_access | if truncate { WRITE } else { 0 };
    access::check(cred, inode, mask)?;
    Ok(Plan::Existing { ino, truncate })
}

/// Mode and group of a new inode: a set-group-id directory gives its group, and to directories the
/// bit too. A program that would run with that group can only be made by a member.
pub(crate) fn mode_and_group(
    cred: &Cred,
    parent: &Inode,
    kind: FileKind,
    wanted: u32,
) -> (u16, u32) {
    let inherits = parent.mode & SET_GID != 0;
    let gid = if inherits { parent.gid } else { cred.gid };
    let wanted = (wanted & 0o7777) as u16;
    let mode = match kind {
        FileKind::Symlink => 0o777,
        FileKind::Directory => (wanted & (0o777 | STICKY)) | if inherits { SET_GID } else { 0 },
        _ => {
            let runs_as_group = wanted & 0o2010 == 0o2010;
            if inherits
                && runs_as_group
                && !access::is_root(cred)
                && !access::in_group(cred, parent.gid)
            {
                wanted & !SET_GID
            } else {
                wanted
            }
        }
    };
    (mode, gid)
}

pub(super) fn touches(state: &State, ctx: &Context, op: &proto::Create, plan: &Plan) -> Vec<Touch> {
    match plan {
        Plan::New { .. } => vec![Touch::change(Ino(op.parent))],
        Plan::Elsewhere { .. } | Plan::Unnamed { .. } => Vec::new(),
        Plan::Existing { ino, truncate } => {
            let written = state.check_no_other_writer(*ino, ctx.session).is_err();
            if *truncate || written {
                vec![Touch {
                    own: *truncate && Ino(op.cuts) != *ino,
                    ..Touch::change(*ino)
                }]
            } else {
                Vec::new()
            }
        }
    }
}

pub(super) fn commit(
    state: &mut State,
    ctx: &Context,
    op: &proto::Create,
    plan: Plan,
) -> Result<OpReply, Errno> {
    match plan {
        Plan::Existing { ino, truncate } => {
            if truncate {
                state.check_no_other_writer(ino, ctx.session)?;
                state.set_size(ino, 0, ctx.session);
                if let Some(inode) = state.get_mut(ino) {
                    inode.mode = access::mode_after_write(ctx.cred, inode.mode, inode.gid);
                    inode.touch_content(ctx.now);
                }
            }
            Ok(OpReply {
                parent: state.attr(Ino(op.parent)),
                ..state.file_reply(ino)
            })
        }
        Plan::Elsewhere { ino, kind } => Ok(OpReply {
            attr: Some(State::foreign_attr(ino, kind)),
            parent: state.attr(Ino(op.parent)),
            elsewhere: true,
            ..OpReply::default()
        }),
        Plan::New {
            ino,
            kind,
            mode,
            gid,
        } => Ok(make(state, ctx, op, ino, kind, mode, gid)),
        Plan::Unnamed { ino, mode, gid } => Ok(make_unnamed(state, ctx, op, ino, mode, gid)),
    }
}

/// An empty file by the policy of its directory.
fn new_file(state: &mut State, ctx: &Context, parent: Ino) -> Body {
    let policy = state.directory(parent).expect("found by check").1.policy;
    let shape = Shape {
        stripe_unit: policy.stripe_unit,
        pairs: state.choice(ctx.avoid).take(policy.width, ctx.random),
        protocol: policy.protocol,
        durability: policy.durability,
    };
    let shape = state.shapes.intern(shape);
    Body::File(File {
        size: 0,
        allocated: 0,
        shape,
        generation: 1,
        exposed: false,
    })
}

fn make_unnamed(
    state: &mut State,
    ctx: &Context,
    op: &proto::Create,
    ino: Ino,
    mode: u16,
    gid: u32,
) -> OpReply {
    let inode = Inode {
        mode,
        nlink: 0,
        uid: ctx.cred.uid,
        gid,
        atime: ctx.now,
        mtime: ctx.now,
        ctime: ctx.now,
        change: 1,
        body: new_file(state, ctx, Ino(op.parent)),
    };
    state.use_ino(ino);
    state.put_inode(ino, inode);
    state.hold(ino, ctx.session);
    state.give_write_lease(ino, ctx.session);
    OpReply {
        created: true,
        ..state.file_reply(ino)
    }
}

fn make(
    state: &mut State,
    ctx: &Context,
    op: &proto::Create,
    ino: Ino,
    kind: FileKind,
    mode: u16,
    gid: u32,
) -> OpReply {
    let parent = Ino(op.parent);
    let policy = state.directory(parent).expect("found by check").1.policy;
    let body = match kind {
        FileKind::Directory => Body::Directory(Box::new(Directory::new(parent, policy))),
        FileKind::Symlink => Body::Symlink(op.target[..].into()),
        FileKind::Fifo => Body::Fifo,
        FileKind::Socket => Body::Socket,
        FileKind::CharDevice => Body::CharDevice(op.rdev),
        FileKind::BlockDevice => Body::BlockDevice(op.rdev),
        FileKind::Regular | FileKind::Unspecified => new_file(state, ctx, parent),
    };
    let is_directory = kind == FileKind::Directory;
    let inode = Inode {
        mode,
        nlink: if is_directory { 2 } else { 1 },
        uid: ctx.cred.uid,
        gid,
        atime: ctx.now,
        mtime: ctx.now,
        ctime: ctx.now,
        change: 1,
        body,
    };
    state.use_ino(ino);
    state.put_inode(ino, inode);
    state.add_entry(parent, &op.name, ino);
    state.touch_directory(parent, ctx.now, i32::from(is_directory));
    if kind == FileKind::Regular && ctx.session.0 != 0 {
        state.give_write_lease(ino, ctx.session);
    }
    OpReply {
        parent: state.attr(parent),
        created: true,
        ..state.file_reply(ino)
    }
}
