//! Linux error numbers, the only failures that this state machine has.

use weft_wire::Failed;

/// Why an operation was refused, as an application will see it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
#[error("errno {0}")]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*

            /// The symbol, for logs and tools; "E?" for a number that this crate never answers.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $(libc::$name => stringify!($name),)*
                    _ => "E?",
                }
            }
        }
    };
}

errnos! {
    EPERM ENOENT EACCES EBUSY EEXIST EXDEV ENOTDIR EISDIR EINVAL EFBIG ENOSPC EMLINK ERANGE
    ENAMETOOLONG ENOLCK ENOTEMPTY ELOOP ENODATA EOPNOTSUPP ENOBUFS ESTALE EAGAIN E2BIG EALREADY
    EREMCHG
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Failed {
        Failed::Errno(errno.0)
    }
}
