//! All inodes and how often each is named, and what of that does not fit together. Pure.

use std::collections::BTreeSet;
use weft_types::{Ino, ROOT_INO};
use weft_wire::proto::{FileKind, SurveyedInode, SurveyedName};

const KEPT_OPEN: u8 = 1;
/// The walk upwards that goes on has come through it.
const ON_WAY: u8 = 2;
/// An earlier one has.
const WALKED: u8 = 4;

/// One inode, in 32 bytes: there may be many.
struct Record {
    ino: Ino,
    parent: Ino,
    nlink: u32,
    names: u32,
    subdirectories: u32,
    kind: u8,
    flags: u8,
}

impl Record {
    fn is_directory(&self) -> bool {
        i32::from(self.kind) == FileKind::Directory as i32
    }
}

/// What is to be looked at again.
#[derive(Default)]
pub(crate) struct Suspects {
    /// Entries that may name nothing, or something else than they say, or what is in another place.
    pub entries: Vec<SurveyedName>,
    /// Directories whose names or links may be wrong.
    pub directories: BTreeSet<Ino>,
    /// The same of what is no directory.
    pub files: BTreeSet<Ino>,
    /// Of each circle one directory.
    pub circles: BTreeSet<Ino>,
    /// What there was no room for.
    pub left_out: u64,
    max: usize,
}

impl Suspects {
    pub(crate) fn new(max: usize) -> Suspects {
        Suspects {
            max,
            ..Suspects::default()
        }
    }

    pub(crate) fn count(&self) -> u64 {
        let inodes = self.directories.len() + self.files.len() + self.circles.len();
        (self.entries.len() + inodes) as u64 + self.left_out
    }

    fn entry(&mut self, name: SurveyedName) {
        match self.entries.len() < self.max {
            true => self.entries.push(name),
            false => self.left_out += 1,
        }
    }

    pub(crate) fn file(&mut self, ino: Ino) {
        let inodes = self.directories.len() + self.files.len() + self.circles.len();
        match inodes < self.max || self.files.contains(&ino) {
            true => drop(self.files.insert(ino)),
            false => self.left_out += 1,
        }
    }

    fn directory(&mut self, ino: Ino) {
        let inodes = self.directories.len() + self.files.len() + self.circles.len();
        match inodes < self.max || self.directories.contains(&ino) {
            true => drop(self.directories.insert(ino)),
            false => self.left_out += 1,
        }
    }
}

/// All inodes.
#[derive(Default)]
pub(crate) struct Table {
    records: Vec<Record>,
}

impl Table {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    pub(crate) fn add(&mut self, inode: &SurveyedInode) {
        self.records.push(Record {
            ino: Ino(inode.ino),
            parent: Ino(inode.parent),
            nlink: inode.nlink,
            names: 0,
            subdirectories: 0,
            kind: u8::try_from(inode.kind).unwrap_or(u8::MAX),
            flags: u8::from(inode.kept_open) * KEPT_OPEN,
        });
    }

    /// All have been added.
    pub(crate) fn sort(&mut self) {
        self.records.sort_unstable_by_key(|record| record.ino);
    }

    fn find(&self, ino: Ino) -> Option<usize> {
        let found = self.records.binary_search_by_key(&ino, |record| record.ino);
        found.ok()
    }

    /// Counts an entry.
    pub(crate) fn name(&mut self, name: SurveyedName, suspects: &mut Suspects) {
        let directory = Ino(name.directory);
        let is_directory = name.kind() == FileKind::Directory;
        if is_directory && let Some(at) = self.find(directory) {
            let record = &mut self.records[at];
            record.subdirectories = record.subdirectories.saturating_add(1);
        }
        let Some(at) = self.find(Ino(name.ino)) else {
            return suspects.entry(name);
        };
        let record = &mut self.records[at];
        record.names = record.names.saturating_add(1);
        let is_elsewhere = record.is_directory() && record.parent != directory;
        if i32::from(record.kind) != name.kind || is_elsewhere || record.ino == ROOT_INO {
            suspects.entry(name);
        }
    }

    /// All entries have been counted.
    pub(crate) fn judge(&mut self, suspects: &mut Suspects) {
        for record in &self.records {
            let is_kept_or_named = record.nlink > 0 || record.flags & KEPT_OPEN != 0;
            if !record.is_directory() {
                if !is_kept_or_named || record.names != record.nlink {
                    suspects.file(record.ino);
                }
                continue;
            }
            let (names, links) = match record.nlink {
                0 => (0, 0),
                _ => (
                    u32::from(record.ino != ROOT_INO),
                    record.subdirectories.saturating_add(2),
                ),
            };
            let is_right = is_kept_or_named && record.names == names && record.nlink == links;
            let is_root_elsewhere = record.ino == ROOT_INO && record.parent != ROOT_INO;
            if !is_right || is_root_elsewhere {
                suspects.directory(record.ino);
            }
        }
        self.find_circles(suspects);
    }

    /// Walks up from every directory. A way that ends at none is its last directory's matter: that has no
    /// name there.
    fn find_circles(&mut self, suspects: &mut Suspects) {
        let mut way: Vec<usize> = Vec::new();
        for begin in 0..self.records.len() {
            let mut at = Some(begin);
            while let Some(here) = at {
                let record = &mut self.records[here];
                let hangs = record.ino == ROOT_INO || record.flags & WALKED != 0;
                if !record.is_directory() || record.nlink == 0 || hangs {
                    break;
                }
                if record.flags & ON_WAY != 0 {
                    suspects.circles.insert(record.ino);
                    break;
                }
                record.flags |= ON_WAY;
                way.push(here);
                let parent = record.parent;
                at = self.find(parent);
            }
            for walked in way.drain(..) {
                let record = &mut self.records[walked];
                record.flags = record.flags & !ON_WAY | WALKED;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record>(), 32);
    }

    fn inode(ino: u64, kind: FileKind, nlink: u32, parent: u64) -> SurveyedInode {
        SurveyedInode {
            ino,
            kind: kind as i32,
            nlink,
            parent,
            ..SurveyedInode::default()
        }
    }

    fn name(directory: u64, name: &str, ino: u64, kind: FileKind) -> SurveyedName {
        SurveyedName {
            directory,
            name: name.to_owned().into(),
            ino,
            kind: kind as i32,
        }
    }

    /// Root 1 with directory 2, in which are file 3 with two names and directory 4.
    fn whole() -> (Vec<SurveyedInode>, Vec<SurveyedName>) {
        use FileKind::{Directory, Regular};
        let inodes = vec![
            inode(1, Directory, 3, 1),
            inode(2, Directory, 3, 1),
            inode(3, Regular, 2, 0),
            inode(4, Directory, 2, 2),
        ];
        let names = vec![
            name(1, "d", 2, Directory),
            name(2, "f", 3, Regular),
            name(1, "g", 3, Regular),
            name(2, "e", 4, Directory),
        ];
        (inodes, names)
    }

    fn judged((inodes, names): (Vec<SurveyedInode>, Vec<SurveyedName>), max: usize) -> Suspects {
        let mut table = Table::default();
        // Groups come one after the other, and their inodes are no order of all.
        inodes.iter().rev().for_each(|inode| table.add(inode));
        table.sort();
        let mut suspects = Suspects::new(max);
        names
            .into_iter()
            .for_each(|name| table.name(name, &mut suspects));
        table.judge(&mut suspects);
        suspects
    }

    /// What is suspicious after a change of what is whole: entries by name, directories, files, circles.
    fn after(
        change: impl FnOnce(&mut Vec<SurveyedInode>, &mut Vec<SurveyedName>),
    ) -> (Vec<String>, Vec<u64>, Vec<u64>, usize) {
        let (mut inodes, mut names) = whole();
        change(&mut inodes, &mut names);
        let suspects = judged((inodes, names), 100);
        let entries = suspects.entries.iter();
        let numbers = |inos: &BTreeSet<Ino>| inos.iter().map(|ino| ino.0).collect();
        (
            entries
                .map(|name| String::from_utf8_lossy(&name.name).into_owned())
                .collect(),
            numbers(&suspects.directories),
            numbers(&suspects.files),
            suspects.circles.len(),
        )
    }

    #[test]
    fn a_whole_tree_is_not_suspicious() {
        assert_eq!(after(|_, _| {}), (vec![], vec![], vec![], 0));
        // Removed, and open.
        let kept = |kind, ino, parent| SurveyedInode {
            kept_open: true,
            ..inode(ino, kind, 0, parent)
        };
        let with_kept = after(|inodes, _| {
            inodes.push(kept(FileKind::Regular, 8, 0));
            // Where it was may be gone.
            inodes.push(kept(FileKind::Directory, 9, 77));
        });
        assert_eq!(with_kept, (vec![], vec![], vec![], 0));
    }

    #[test]
    fn each_kind_of_damage_is_suspicious() {
        use FileKind::{Directory, Regular, Symlink};
        let none: Vec<String> = Vec::new();
        let entry = |name: &str| vec![name.to_owned()];
        // A name of nothing.
        let found = after(|_, names| names.push(name(2, "n", 99, Regular)));
        assert_eq!(found, (entry("n"), vec![], vec![], 0));
        // A kind.
        let found = after(|inodes, _| inodes[2].kind = Symlink as i32);
        assert_eq!(found.0, ["f", "g"]);
        // A link count.
        let found = after(|inodes, _| inodes[2].nlink = 1);
        assert_eq!(found, (none.clone(), vec![], vec![3], 0));
        // A name that is missing.
        let found = after(|_, names| drop(names.remove(1)));
        assert_eq!(found, (none.clone(), vec![], vec![3], 0));
        // The only name of a directory is missing: its parent has a link too many, too.
        let found = after(|_, names| drop(names.remove(3)));
        assert_eq!(found, (none.clone(), vec![2, 4], vec![], 0));
        // A directory with two names.
        let found = after(|_, names| names.push(name(1, "h", 4, Directory)));
        assert_eq!(found, (entry("h"), vec![1, 4], vec![], 0));
        // Another parent than the one that names it.
        let found = after(|inodes, _| inodes[3].parent = 1);
        assert_eq!(found, (entry("e"), vec![], vec![], 0));
        // The root has a name.
        let found = after(|_, names| names.push(name(2, "r", 1, Directory)));
        assert_eq!(found, (entry("r"), vec![1, 2], vec![], 0));
        // Nobody keeps what has no name.
        let found = after(|inodes, _| inodes.push(inode(9, Regular, 0, 0)));
        assert_eq!(found, (none.clone(), vec![], vec![9], 0));
        // Two directories within each other.
        let found = after(|inodes, names| {
            inodes.push(inode(10, Directory, 3, 11));
            inodes.push(inode(11, Directory, 3, 10));
            names.push(name(10, "a", 11, Directory));
            names.push(name(11, "b", 10, Directory));
            // And one below them is none of that.
            inodes[3].parent = 10;
        });
        assert_eq!((found.1, found.3), (vec![], 1));
    }

    #[test]
    fn what_is_suspicious_is_bounded() {
        let (inodes, mut names) = whole();
        for number in 0..10 {
            names.push(name(
                2,
                &number.to_string(),
                100 + number,
                FileKind::Regular,
            ));
        }
        let suspects = judged((inodes, names), 4);
        assert_eq!((suspects.entries.len(), suspects.left_out), (4, 6));
        assert_eq!(suspects.count(), 10);
    }
}
