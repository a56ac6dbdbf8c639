//! SetPolicy: how files that are made in a directory from now on will lie.

use crate::access;
use crate::directory::EffectivePolicy;
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::layouts::{DEFAULT_POLICY, merge_policy};
use crate::state::{Context, State};
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::{self, Cred, OpReply};

pub(super) fn check(
    state: &State,
    ctx: &Context,
    op: &proto::SetPolicy,
) -> Result<EffectivePolicy, Errno> {
    state.check_stands_alone(Ino(op.ino))?;
    check_set(state, ctx.cred, op)
}

/// The same, whoever is to do it.
pub(crate) fn check_set(
    state: &State,
    cred: &Cred,
    op: &proto::SetPolicy,
) -> Result<EffectivePolicy, Errno> {
    let ino = Ino(op.ino);
    let (inode, directory) = state.directory(ino)?;
    if !access::owns(cred, inode) {
        return Err(Errno::EPERM);
    }
    let inherited = match state.directory(directory.parent) {
        Ok((_, parent)) if ino != ROOT_INO => parent.policy,
        _ => DEFAULT_POLICY,
    };
    merge_policy(op.policy.as_ref().ok_or(Errno::EINVAL)?, inherited)
}

pub(super) fn commit(
    state: &mut State,
    ctx: &Context,
    op: &proto::SetPolicy,
    policy: EffectivePolicy,
) -> OpReply {
    let ino = Ino(op.ino);
    if let Some(inode) = state.get_mut(ino) {
        inode.touch(ctx.now);
        if let Inode {
            body: Body::Directory(directory),
            ..
        } = inode
        {
            directory.policy = policy;
        }
    }
    OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    }
}
