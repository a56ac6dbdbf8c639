//! What has been repaired, in words.

use crate::finding::{Entry, kind_name};
use std::fmt;
use weft_types::Ino;
use weft_wire::proto::{FileKind, SurveyedName};

/// Something that was set right.
#[derive(Clone, PartialEq, Debug)]
pub enum Repaired {
    /// An entry that named nothing is removed.
    NamedNothing(SurveyedName),
    /// An entry of a directory is removed that has its name in another place.
    SecondName(SurveyedName),
    /// An entry names its inode as what it is.
    Kind(SurveyedName, FileKind),
    /// A link count is another one.
    Links {
        /// The inode.
        ino: Ino,
        /// What it was.
        from: u32,
        /// What it is.
        to: u32,
    },
    /// A directory says that it is where its name is.
    Parent {
        /// The directory.
        ino: Ino,
        /// Where it said it was.
        from: Ino,
        /// Where it is.
        to: Ino,
    },
    /// What had no name has one in /lost+found.
    Found {
        /// The inode.
        ino: Ino,
        /// What it is.
        kind: FileKind,
        /// Its name there.
        name: String,
    },
}

impl Repaired {
    /// A short word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Repaired::NamedNothing(_) => "entry_removed",
            Repaired::SecondName(_) => "second_name_removed",
            Repaired::Kind(..) => "kind_set",
            Repaired::Links { .. } => "links_set",
            Repaired::Parent { .. } => "parent_set",
            Repaired::Found { .. } => "put_in_lost_and_found",
        }
    }

    /// The inode that it is about.
    pub fn ino(&self) -> Ino {
        match self {
            Repaired::NamedNothing(name) | Repaired::SecondName(name) | Repaired::Kind(name, _) => {
                Ino(name.ino)
            }
            Repaired::Links { ino, .. }
            | Repaired::Parent { ino, .. }
            | Repaired::Found { ino, .. } => *ino,
        }
    }
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repaired::NamedNothing(name) => write!(
                f,
                "{} is removed, which named inode {:#x} that is not there",
                Entry(name),
                name.ino
            ),
            Repaired::SecondName(name) => write!(
                f,
                "{} is removed, which named directory {:#x} that has its name elsewhere",
                Entry(name),
                name.ino
            ),
            Repaired::Kind(name, kind) => write!(
                f,
                "{} names inode {:#x} as a {} now",
                Entry(name),
                name.ino,
                kind_name(*kind)
            ),
            Repaired::Links { ino, from, to } => {
                write!(f, "inode {:#x} has {to} links now, it had {from}", ino.0)
            }
            Repaired::Parent { ino, from, to } => write!(
                f,
                "directory {:#x} says now that it is in directory {:#x}, it said {:#x}",
                ino.0, to.0, from.0
            ),
            Repaired::Found { ino, kind, name } => write!(
                f,
                "inode {:#x}, a {}, had no name: it is /lost+found/{name} now",
                ino.0,
                kind_name(*kind)
            ),
        }
    }
}
