//! What can be wrong, in words.

use std::fmt;
use weft_types::{GroupId, Ino, Slot, TransactionId};
use weft_wire::proto::{FileKind, SurveyedName};

/// Something that is not as it must be.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// A slot that not exactly one group has.
    Slot(Slot, Vec<GroupId>),
    /// An inode that a group keeps which does not have its slot.
    Stray(Ino, GroupId),
    /// An entry that names an inode which is not there.
    NamesNothing(SurveyedName),
    /// An entry that names something of another kind than it says.
    OtherKind(SurveyedName, FileKind),
    /// An entry that names a directory which says that it is in another one.
    SecondPlace(SurveyedName, Ino),
    /// A directory of which the one that it says it is in has not exactly one entry.
    NotInParent {
        /// The directory.
        ino: Ino,
        /// Where it says it is.
        parent: Ino,
        /// So many entries of it are there.
        names: u64,
    },
    /// A directory whose links are not two more than its subdirectories.
    Subdirectories {
        /// The directory.
        ino: Ino,
        /// Its links.
        nlink: u32,
        /// Its entries that are directories.
        subdirectories: u64,
    },
    /// What is no directory has not as many names as it says.
    Links {
        /// The inode.
        ino: Ino,
        /// Its links.
        nlink: u32,
        /// Its names, in all groups.
        names: u64,
        /// Its `change` when they were counted.
        change: u64,
        /// One of these.
        first: Option<SurveyedName>,
    },
    /// An inode without a name that nobody keeps open.
    Nameless {
        /// The inode.
        ino: Ino,
        /// Its `change` when it had none.
        change: u64,
    },
    /// Directories that lie within each other, one of them being this, and not below the root.
    Circle(Ino),
}

impl Finding {
    /// A short word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Finding::Slot(..) => "slot",
            Finding::Stray(..) => "stray",
            Finding::NamesNothing(_) => "names_nothing",
            Finding::OtherKind(..) => "other_kind",
            Finding::SecondPlace(..) => "second_place",
            Finding::NotInParent { .. } => "not_in_parent",
            Finding::Subdirectories { .. } => "subdirectories",
            Finding::Links { .. } => "links",
            Finding::Nameless { .. } => "nameless",
            Finding::Circle(_) => "circle",
        }
    }

    /// The entry that it is about, or one of them.
    pub fn name(&self) -> Option<&SurveyedName> {
        match self {
            Finding::NamesNothing(name)
            | Finding::OtherKind(name, _)
            | Finding::SecondPlace(name, _) => Some(name),
            Finding::Links { first, .. } => first.as_ref(),
            _ => None,
        }
    }

    /// The directory that it is about, where it is about one.
    pub fn directory(&self) -> Option<Ino> {
        match self {
            Finding::Subdirectories { ino, .. } => Some(*ino),
            Finding::NotInParent { parent, .. } => Some(*parent),
            _ => None,
        }
    }

    /// What [`crate::repair`] does about it.
    ///
    /// # Errors
    /// It does nothing: what is to be done by whoever reads it.
    pub fn remedy(&self) -> Result<&'static str, &'static str> {
        match self {
            Finding::Slot(_, groups) if groups.is_empty() => Err(
                "nothing is repaired while a slot is no group's: see whether one is moving (weft slots), and start all members of all groups",
            ),
            Finding::Slot(..) => Err(
                "nothing is repaired while two groups have a slot: keep the journals and images of both, and report it",
            ),
            Finding::Stray(..) => Err(
                "nothing is repaired while a group keeps what is another one's: keep the journals and images of both, and report it",
            ),
            Finding::NamesNothing(_) => Ok("the entry is removed"),
            Finding::OtherKind(..) => Ok("the entry names it as what it is"),
            Finding::SecondPlace(..) => Ok(
                "the entry is removed, or, if it is the directory's only one, the directory is said to be here",
            ),
            Finding::NotInParent { names: 0, .. } => {
                Ok("it gets the name that it has elsewhere, or one in /lost+found")
            }
            Finding::NotInParent { .. } => Ok("all entries of it but the oldest are removed"),
            Finding::Subdirectories { .. } => Ok("the links are set to what there is"),
            Finding::Links { names: 0, .. } | Finding::Nameless { .. } => {
                Ok("it gets a name in /lost+found")
            }
            Finding::Links { .. } => Ok("the links are set to the names that there are"),
            Finding::Circle(_) => {
                Ok("the one of these directories that has the smallest number goes to /lost+found")
            }
        }
    }

    /// The inode that it is about; none where it is about a slot.
    pub fn ino(&self) -> Option<Ino> {
        match self {
            Finding::Slot(..) => None,
            Finding::NamesNothing(name)
            | Finding::OtherKind(name, _)
            | Finding::SecondPlace(name, _) => Some(Ino(name.ino)),
            Finding::Stray(ino, _)
            | Finding::NotInParent { ino, .. }
            | Finding::Subdirectories { ino, .. }
            | Finding::Links { ino, .. }
            | Finding::Nameless { ino, .. }
            | Finding::Circle(ino) => Some(*ino),
        }
    }
}

/// An entry, for people.
pub(crate) struct Entry<'a>(pub &'a SurveyedName);

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.0.name);
        write!(f, "entry {name:?} of directory {:#x}", self.0.directory)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Slot(slot, groups) if groups.is_empty() => {
                write!(f, "slot {slot} is no group's")
            }
            Finding::Slot(slot, groups) => {
                let groups: Vec<String> = groups.iter().map(GroupId::to_string).collect();
                write!(f, "slot {slot} is that of groups {}", groups.join(" and "))
            }
            Finding::Stray(ino, group) => {
                write!(
                    f,
                    "inode {ino:#x} is kept by group {group}, which does not have its slot",
                    ino = ino.0
                )
            }
            Finding::NamesNothing(name) => {
                write!(
                    f,
                    "{} names inode {:#x}, which is not there",
                    Entry(name),
                    name.ino
                )
            }
            Finding::OtherKind(name, kind) => write!(
                f,
                "{} names inode {:#x} as a {}, and it is a {}",
                Entry(name),
                name.ino,
                kind_name(name.kind()),
                kind_name(*kind)
            ),
            Finding::SecondPlace(name, parent) => write!(
                f,
                "{} names directory {:#x}, which says that it is in directory {:#x}",
                Entry(name),
                name.ino,
                parent.0
            ),
            Finding::NotInParent { ino, parent, names } => write!(
                f,
                "directory {:#x} says that it is in directory {:#x}, which has {names} entries of it",
                ino.0, parent.0
            ),
            Finding::Subdirectories {
                ino,
                nlink,
                subdirectories,
            } => write!(
                f,
                "directory {:#x} has {nlink} links, and {subdirectories} subdirectories",
                ino.0
            ),
            Finding::Links {
                ino,
                nlink,
                names,
                first,
                ..
            } => {
                write!(f, "inode {:#x} has {nlink} links, and {names} names", ino.0)?;
                match first {
                    Some(name) => write!(f, ", one of them {}", Entry(name)),
                    None => Ok(()),
                }
            }
            Finding::Nameless { ino, .. } => {
                write!(
                    f,
                    "inode {:#x} has no name, and nobody keeps it open",
                    ino.0
                )
            }
            Finding::Circle(ino) => {
                write!(
                    f,
                    "directory {:#x} is inside itself, and not below the root",
                    ino.0
                )
            }
        }
    }
}

/// A kind, for people.
pub(crate) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Unspecified => "thing of unknown kind",
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

/// A transaction that has not ended for long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Which.
    pub transaction: TransactionId,
    /// Where it has not ended.
    pub group: GroupId,
    /// In which stage: `prepared`, `undecided` or `telling`.
    pub stage: &'static str,
    /// For how long, in milliseconds.
    pub age_ms: u64,
    /// Whom that group asks, or tells.
    pub asked: Vec<GroupId>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked: Vec<String> = self.asked.iter().map(GroupId::to_string).collect();
        let (asked, seconds) = (asked.join(", "), self.age_ms / 1_000);
        let (id, group) = (self.transaction, self.group);
        match self.stage {
            "prepared" => write!(
                f,
                "transaction {id} has been prepared in group {group} for {seconds} s; group {asked} is asked what became of it"
            ),
            "telling" => write!(
                f,
                "transaction {id} of group {group} is done, and group {asked} has not taken that for {seconds} s"
            ),
            _ => write!(
                f,
                "transaction {id} of group {group} has not been decided for {seconds} s"
            ),
        }
    }
}
