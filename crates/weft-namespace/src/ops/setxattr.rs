//! Setxattr, and the rules on extended attributes that all their operations share.
//!
//! Name spaces as on Linux: `user.` by file permission on regular files and directories, `trusted.`
//! for root only, `security.` readable by all and written by root. ACLs (`system.posix_acl_*`) are
//! not supported.

use crate::access::{self, READ, STICKY, WRITE};
use crate::errno::Errno;
use crate::inode::{Body, Inode};
use crate::state::{Context, State};
use weft_types::Ino;
use weft_wire::proto::{self, Cred, OpReply};

/// Longest name (Linux XATTR_NAME_MAX).
pub const XATTR_NAME_MAX: usize = 255;
/// Longest value (Linux XATTR_SIZE_MAX).
pub const XATTR_VALUE_MAX: usize = 64 << 10;
/// Longest list of one inode's names, each with its NUL (Linux XATTR_LIST_MAX).
pub const XATTR_LIST_MAX: usize = 64 << 10;
/// Names and values of one inode together: they are kept in memory on every member.
pub const XATTR_TOTAL_MAX: usize = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    User,
    Trusted,
    Security,
}

/// The name space of an attribute's name, which must be well-formed.
pub(crate) fn space(name: &[u8]) -> Result<Space, Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Errno::ERANGE);
    }
    if name.contains(&0) {
        return Err(Errno::EINVAL);
    }
    let spaces: [(&[u8], Space); 3] = [
        (b"user.", Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ];
    for (prefix, space) in spaces {
        if let Some(rest) = name.strip_prefix(prefix) {
            return if rest.is_empty() {
                Err(Errno::EINVAL)
            } else {
                Ok(space)
            };
        }
    }
    Err(Errno::EOPNOTSUPP)
}

/// May the caller read this attribute? ENODATA hides what is not for him.
pub(crate) fn check_readable(cred: &Cred, inode: &Inode, space: Space) -> Result<(), Errno> {
    match space {
        Space::Security => Ok(()),
        Space::Trusted if access::is_root(cred) => Ok(()),
        Space::Trusted => Err(Errno::ENODATA),
        Space::User if has_user_xattrs(inode) => access::check(cred, inode, READ),
        Space::User => Err(Errno::ENODATA),
    }
}

/// May the caller set or remove this attribute?
pub(crate) fn check_writable(cred: &Cred, inode: &Inode, space: Space) -> Result<(), Errno> {
    match space {
        Space::Security | Space::Trusted if access::is_root(cred) => Ok(()),
        Space::Security | Space::Trusted => Err(Errno::EPERM),
        Space::User if !has_user_xattrs(inode) => Err(Errno::EPERM),
        // Else anybody could fill up a directory like /tmp.
        Space::User
            if inode.is_directory() && inode.mode & STICKY != 0 && !access::owns(cred, inode) =>
        {
            Err(Errno::EPERM)
        }
        Space::User => access::check(cred, inode, WRITE),
    }
}

fn has_user_xattrs(inode: &Inode) -> bool {
    matches!(inode.body, Body::File(_) | Body::Directory(_))
}

pub(super) fn check(state: &State, ctx: &Context, op: &proto::Setxattr) -> Result<(), Errno> {
    let inode = state.get(Ino(op.ino))?;
    if op.create_only && op.replace_only {
        return Err(Errno::EINVAL);
    }
    if op.value.len() > XATTR_VALUE_MAX {
        return Err(Errno::E2BIG);
    }
    check_writable(ctx.cred, inode, space(&op.name)?)?;
    let existing = state.xattrs.get(&Ino(op.ino));
    let old = existing.and_then(|xattrs| xattrs.get(&op.name[..]));
    match old {
        Some(_) if op.create_only => return Err(Errno::EEXIST),
        None if op.replace_only => return Err(Errno::ENODATA),
        _ => {}
    }
    let others = existing
        .into_iter()
        .flatten()
        .filter(|(name, _)| ***name != op.name[..]);
    let (mut list, mut total) = (op.name.len() + 1, op.name.len() + op.value.len());
    for (name, value) in others {
        list += name.len() + 1;
        total += name.len() + value.len();
    }
    if list > XATTR_LIST_MAX || total > XATTR_TOTAL_MAX {
        Err(Errno::ENOSPC)
    } else {
        Ok(())
    }
}

pub(super) fn commit(state: &mut State, ctx: &Context, op: &proto::Setxattr) -> OpReply {
    let ino = Ino(op.ino);
    let xattrs = state.xattrs.entry(ino).or_default();
    let old = xattrs.insert(op.name[..].into(), op.value[..].into());
    match old {
        Some(old) => state.counts.xattr_bytes -= old.len() as u64,
        None => {
            state.counts.xattrs += 1;
            state.counts.xattr_bytes += op.name.len() as u64;
        }
    }
    state.counts.xattr_bytes += op.value.len() as u64;
    if let Some(inode) = state.get_mut(ino) {
        inode.touch(ctx.now);
    }
    OpReply {
        attr: state.attr(ino),
        ..OpReply::default()
    }
}
