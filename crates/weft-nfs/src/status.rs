//! Errnos as NFS says them.

use weft_client::Errno;
use weft_xdr::nfs3::nfsstat3;

/// Why an operation of NFS version 3 failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub nfsstat3);

impl From<Errno> for Status {
    fn from(errno: Errno) -> Status {
        use nfsstat3::*;
        Status(match errno.0 {
            libc::EPERM => NFS3ERR_PERM,
            libc::ENOENT => NFS3ERR_NOENT,
            libc::EIO => NFS3ERR_IO,
            libc::ENXIO => NFS3ERR_NXIO,
            libc::EACCES => NFS3ERR_ACCES,
            libc::EEXIST => NFS3ERR_EXIST,
            libc::EXDEV => NFS3ERR_XDEV,
            libc::ENODEV => NFS3ERR_NODEV,
            libc::ENOTDIR => NFS3ERR_NOTDIR,
            libc::EISDIR => NFS3ERR_ISDIR,
            libc::EINVAL | libc::ELOOP => NFS3ERR_INVAL,
            libc::EFBIG => NFS3ERR_FBIG,
            libc::ENOSPC => NFS3ERR_NOSPC,
            libc::EROFS => NFS3ERR_ROFS,
            libc::EMLINK => NFS3ERR_MLINK,
            libc::ENAMETOOLONG => NFS3ERR_NAMETOOLONG,
            libc::ENOTEMPTY => NFS3ERR_NOTEMPTY,
            libc::EDQUOT => NFS3ERR_DQUOT,
            libc::ESTALE => NFS3ERR_STALE,
            libc::EOPNOTSUPP => NFS3ERR_NOTSUPP,
            // It may go the next time.
            libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ETIMEDOUT => NFS3ERR_JUKEBOX,
            other => {
                tracing::warn!(errno = other, "an error that NFS version 3 does not know");
                NFS3ERR_SERVERFAULT
            }
        })
    }
}

impl From<nfsstat3> for Status {
    fn from(status: nfsstat3) -> Status {
        Status(status)
    }
}
