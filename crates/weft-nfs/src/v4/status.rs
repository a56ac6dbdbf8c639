//! Errnos, and what version 3 says, as version 4 says them.

use crate::status::Status;
use weft_client::Errno;
use weft_xdr::nfs4::{LOCK4denied, nfsstat4};

/// Why an operation failed.
#[derive(Debug)]
pub(super) enum Fail {
    Status(nfsstat4),
    /// A lock is in the way.
    Denied(Box<LOCK4denied>),
}

impl Fail {
    pub(super) fn status(&self) -> nfsstat4 {
        match self {
            Fail::Status(status) => *status,
            Fail::Denied(_) => nfsstat4::NFS4ERR_DENIED,
        }
    }
}

impl From<nfsstat4> for Fail {
    fn from(status: nfsstat4) -> Fail {
        Fail::Status(status)
    }
}

impl From<Status> for Fail {
    fn from(Status(status): Status) -> Fail {
        // What both have has the same number.
        let same = nfsstat4::from_wire(status as i32);
        Fail::Status(same.unwrap_or(nfsstat4::NFS4ERR_SERVERFAULT))
    }
}

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Fail {
        Fail::Status(match errno.0 {
            libc::ENODATA => nfsstat4::NFS4ERR_NOXATTR,
            libc::E2BIG | libc::ERANGE => nfsstat4::NFS4ERR_XATTR2BIG,
            libc::EDEADLK => nfsstat4::NFS4ERR_DEADLOCK,
            _ => return Status::from(errno).into(),
        })
    }
}

pub(super) type Result<T> = std::result::Result<T, Fail>;
