//! Who of a pair serves.

use crate::Member;
use std::fmt;

/// Who may serve a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Both members, each while it has the right to (a lease from the metadata service).
    Both,
    /// This one; the other is away and lacks writes.
    Only(Member),
    /// This one; the other receives all writes and is being filled.
    Recovering(Member),
    /// Nobody: this one served last and is away.
    Down(Member),
}

impl Mode {
    /// The one member that serves without a right of limited time, if there is one.
    pub fn sole(self) -> Option<Member> {
        match self {
            Mode::Only(m) | Mode::Recovering(m) => Some(m),
            Mode::Both | Mode::Down(_) => None,
        }
    }

    /// The member that it names: the only one that serves, or that did last.
    pub fn names(self) -> Option<Member> {
        match self {
            Mode::Both => None,
            Mode::Only(m) | Mode::Recovering(m) | Mode::Down(m) => Some(m),
        }
    }

    /// In this mode `member` may be asked to serve clients.
    pub fn serves(self, member: Member) -> bool {
        self == Mode::Both || self.sole() == Some(member)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Both => f.write_str("BOTH"),
            Mode::Only(m) => write!(f, "ONLY({m})"),
            Mode::Recovering(m) => write!(f, "RECOVERING({m})"),
            Mode::Down(m) => write!(f, "DOWN({m})"),
        }
    }
}
