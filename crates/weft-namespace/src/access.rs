//! Who may do what: the permission checks of Linux's VFS (`inode_permission`, `may_create`,
//! `may_delete` and the set-id rules), for the credentials that come with each request.

use crate::errno::Errno;
use crate::inode::{Body, Inode};
use weft_wire::proto::Cred;

/// Bits of an access mask, as in access(2).
pub const EXECUTE: u32 = 1;
/// See [`EXECUTE`].
pub const WRITE: u32 = 2;
/// See [`EXECUTE`].
pub const READ: u32 = 4;

pub(crate) const SET_UID: u16 = 0o4000;
pub(crate) const SET_GID: u16 = 0o2000;
pub(crate) const STICKY: u16 = 0o1000;
pub(crate) const GROUP_EXECUTE: u16 = 0o010;

/// What a request without credentials may do when it comes from a client: nothing but what anybody
/// may. The service itself acts as root.
pub(crate) static NOBODY: Cred = Cred {
    uid: 65534,
    gid: 65534,
    groups: Vec::new(),
};
pub(crate) static ROOT: Cred = Cred {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// Root has every capability that Linux would ask for here.
pub(crate) fn is_root(cred: &Cred) -> bool {
    cred.uid == 0
}

pub(crate) fn in_group(cred: &Cred, gid: u32) -> bool {
    cred.gid == gid || cred.groups.contains(&gid)
}

/// The owner, or root: who may change mode, times, policy.
pub(crate) fn owns(cred: &Cred, inode: &Inode) -> bool {
    is_root(cred) || cred.uid == inode.uid
}

/// Checks read, write and execute/search permission. `mask` bits beyond the three are ignored.
pub(crate) fn check(cred: &Cred, inode: &Inode, mask: u32) -> Result<(), Errno> {
    let mask = mask & 0o7;
    if is_root(cred) {
        // Root may not execute a file that nobody may execute.
        let is_directory = matches!(inode.body, Body::Directory(_));
        if mask & EXECUTE != 0 && !is_directory && inode.mode & 0o111 == 0 {
            return Err(Errno::EACCES);
        }
        return Ok(());
    }
    let class = if cred.uid == inode.uid {
        inode.mode >> 6
    } else if in_group(cred, inode.gid) {
        inode.mode >> 3
    } else {
        inode.mode
    };
    if u32::from(class) & mask == mask {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// The sticky rule: in a sticky directory only the owner of the file, of the directory, or root
/// takes names away.
pub(crate) fn check_sticky(cred: &Cred, directory: &Inode, victim: &Inode) -> Result<(), Errno> {
    if directory.mode & STICKY == 0 || owns(cred, victim) || owns(cred, directory) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// The mode that is left when a file's owner changes: set-user-id goes, set-group-id goes where it
/// means execution or the caller is not of the group. Holds for root too; directories keep theirs.
pub(crate) fn mode_after_chown(cred: &Cred, mode: u16, gid: u32) -> u16 {
    let mut left = mode & !SET_UID;
    if mode & GROUP_EXECUTE != 0 || !(is_root(cred) || in_group(cred, gid)) {
        left &= !SET_GID;
    }
    left
}

/// The mode that is left when a file's content is cut by this caller: as for a change of owner,
/// but root leaves it alone.
pub(crate) fn mode_after_write(cred: &Cred, mode: u16, gid: u32) -> u16 {
    if is_root(cred) {
        mode
    } else {
        mode_after_chown(cred, mode, gid)
    }
}
