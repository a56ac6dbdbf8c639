//! Access checks that need no server: for answers from the cache, and for open.

use crate::types::{Attr, Cred, Errno, Result};

/// Read, write and execute (or search) as access(2) numbers them.
pub(crate) const READ: u32 = 4;
/// See [`READ`].
pub(crate) const WRITE: u32 = 2;
/// See [`READ`].
pub(crate) const EXECUTE: u32 = 1;

/// The caller is in the group.
pub(crate) fn in_group(cred: &Cred, gid: u32) -> bool {
    cred.gid == gid || cred.groups.contains(&gid)
}

/// Checks a mask of [`READ`], [`WRITE`], [`EXECUTE`] by mode bits. Root may do everything but execute
/// what nobody may execute.
///
/// # Errors
/// EACCES.
pub(crate) fn check(attr: &Attr, cred: &Cred, mask: u32) -> Result<()> {
    if cred.uid == 0 {
        let is_dir = attr.kind == crate::types::FileKind::Directory as i32;
        let nobody = mask & EXECUTE != 0 && !is_dir && attr.mode & 0o111 == 0;
        return if nobody {
            Err(Errno(libc::EACCES))
        } else {
            Ok(())
        };
    }
    let shift = if cred.uid == attr.uid {
        6
    } else if in_group(cred, attr.gid) {
        3
    } else {
        0
    };
    if (attr.mode >> shift) & mask == mask {
        Ok(())
    } else {
        Err(Errno(libc::EACCES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_fits_decides() {
        let attr = Attr {
            mode: 0o470,
            uid: 5,
            gid: 6,
            ..Attr::default()
        };
        let cred = |uid, gid, groups: &[u32]| Cred {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        assert!(check(&attr, &cred(5, 6, &[]), WRITE).is_err(), "owner");
        assert!(check(&attr, &cred(7, 6, &[]), WRITE | EXECUTE).is_ok());
        assert!(check(&attr, &cred(7, 1, &[6]), READ).is_ok());
        assert!(check(&attr, &cred(7, 1, &[2]), READ).is_err());
        assert!(check(&attr, &cred(0, 0, &[]), READ | WRITE).is_ok());
        let plain = Attr {
            mode: 0o644,
            ..attr
        };
        assert!(check(&plain, &cred(0, 0, &[]), EXECUTE).is_err());
    }
}
