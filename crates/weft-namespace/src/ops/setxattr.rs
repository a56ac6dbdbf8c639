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
enum Space {
    User,
    Trusted,
    Security,
    /// `system.`, of which nothing is supported.
    System,
    /// What no name space of Linux is.
    Other,
}

/// The name space of an attribute's name, and the name in it.
fn space(name: &[u8]) -> Result<(Space, &[u8]), Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Errno::ERANGE);
    }
    if name.contains(&0) {
        return Err(Errno::EINVAL);
    }
    let spaces: [(&[u8], Space); 4] = [
        (b"user.", Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
        (b"system.", Space::System),
    ];
    let found = spaces
        .iter()
        .find_map(|(prefix, space)| Some((*space, name.strip_prefix(*prefix)?)));
    Ok(found.unwrap_or((Space::Other, name)))
}

/// Is this a name that an attribute can have?
pub(crate) fn is_name(name: &[u8]) -> bool {
    space(name).is_ok_and(|(space, rest)| check_supported(space, rest).is_ok())
}

/// What Linux finds out only after the permissions.
fn check_supported(space: Space, rest: &[u8]) -> Result<(), Errno> {
    match space {
        Space::System | Space::Other => Err(Errno::EOPNOTSUPP),
        Space::User | Space::Trusted | Space::Security if rest.is_empty() => Err(Errno::EINVAL),
        Space::User | Space::Trusted | Space::Security => Ok(()),
    }
}

/// May the caller read this attribute? ENODATA hides what is not for him.
pub(crate) fn check_readable(cred: &Cred, inode: &Inode, name: &[u8]) -> Result<(), Errno> {
    let (space, rest) = space(name)?;
    match space {
        Space::Trusted if !access::is_root(cred) => return Err(Errno::ENODATA),
        Space::User if !has_user_xattrs(inode) => return Err(Errno::ENODATA),
        Space::User | Space::Other => access::check(cred, inode, READ)?,
        Space::Trusted | Space::Security | Space::System => {}
    }
    check_supported(space, rest)
}

/// May the caller set or remove this attribute?
pub(crate) fn check_writable(cred: &Cred, inode: &Inode, name: &[u8]) -> Result<(), Errno> {
    let (space, rest) = space(name)?;
    match space {
        Space::Security | Space::Trusted if !access::is_root(cred) => return Err(Errno::EPERM),
        Space::User if !has_user_xattrs(inode) => return Err(Errno::EPERM),
        // Else anybody could fill up a directory like /tmp.
        Space::User
            if inode.is_directory() && inode.mode & STICKY != 0 && !access::owns(cred, inode) =>
        {
            return Err(Errno::EPERM);
        }
        Space::User | Space::Other => access::check(cred, inode, WRITE)?,
        Space::Security | Space::Trusted | Space::System => {}
    }
    check_supported(space, rest)
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
    check_writable(ctx.cred, inode, &op.name)?;
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
