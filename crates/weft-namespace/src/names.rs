//! Names of directory entries: what is one, and what each operation says to `.` and `..`.

use crate::errno::Errno;
use weft_types::NAME_MAX;

/// A name that arrived, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name<'a> {
    Dot,
    DotDot,
    Plain(&'a [u8]),
}

impl<'a> Name<'a> {
    pub(crate) fn parse(name: &'a [u8]) -> Result<Name<'a>, Errno> {
        match name {
            b"" => Err(Errno::ENOENT),
            b"." => Ok(Name::Dot),
            b".." => Ok(Name::DotDot),
            _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
            _ if name.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Errno::EINVAL),
            _ => Ok(Name::Plain(name)),
        }
    }
}
