//! The one table from errors to the errnos that applications see.
//!
//! The client answers errnos already; here stands what else can go wrong in the face.

use weft_client::Errno;

/// A handle, inode or flag that the kernel cannot have got from us.
pub const BAD_HANDLE: Errno = Errno(libc::EBADF);
/// A message that breaks the protocol.
pub const MALFORMED: Errno = Errno(libc::EINVAL);
/// An operation that is not served; the kernel does not ask again.
pub const NOT_SERVED: Errno = Errno(libc::ENOSYS);
/// A value larger than the caller's buffer.
pub const TOO_SMALL: Errno = Errno(libc::ERANGE);
/// A kind of attribute or mode of fallocate that Weft does not have.
pub const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
/// What the kernel knows of names is perhaps old: it is to ask for all of them, as it does upon ESTALE. No errno, so that
/// it is not taken for what the service says of an inode that has gone.
pub const ASK_AGAIN: Errno = Errno(i32::MAX);
/// What was read ahead is of no use: the kernel is to read it again. No errno, so that nobody else says it.
pub const READ_ANEW: Errno = Errno(i32::MAX - 1);
/// A wait that a signal ended.
pub const INTERRUPTED: Errno = Errno(libc::EINTR);
/// More processes wait for locks than [`crate::fs::LOCK_WAITS_MAX`].
pub const TOO_MANY_WAITS: Errno = Errno(libc::ENOLCK);

/// True if more groups of the caller could change the answer.
pub fn is_denial(errno: Errno) -> bool {
    matches!(errno.0, libc::EACCES | libc::EPERM)
}

/// What goes on the wire: a positive errno that the kernel accepts (it refuses its own internal
/// ones, from 512 up, and then the caller would hang).
pub fn to_kernel(errno: Errno) -> i32 {
    match errno.0 {
        1..512 => errno.0,
        _ if errno == ASK_AGAIN => libc::ESTALE,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_never_gets_an_errno_that_it_refuses() {
        assert_eq!(to_kernel(Errno(libc::ENOENT)), libc::ENOENT);
        assert_eq!(to_kernel(ASK_AGAIN), libc::ESTALE);
        for odd in [0, -1, 512, 524, i32::MIN] {
            assert_eq!(to_kernel(Errno(odd)), libc::EIO);
        }
    }
}
