//! Whether the records of an image make a name space together: every name has its inode, every inode
//! as many names as it says, and all directories hang on the root.

use super::load::demand;
use crate::inode::Body;
use crate::state::{LINKS_MAX, State};
use weft_types::{FixedMap, FixedSet, Ino, ROOT_INO};
use weft_wire::proto::FileKind;

/// Names and subdirectories that were found for an inode.
#[derive(Clone, Copy, Default)]
struct Found {
    names: u32,
    subdirectories: u32,
}

pub(super) fn whole(state: &mut State) -> Result<(), String> {
    if state.slots.has(ROOT_INO.slot()) {
        let root = state
            .directory(ROOT_INO)
            .map_err(|_| "there is no root directory")?;
        demand!(
            root.1.parent == ROOT_INO,
            "the root directory has another parent"
        );
    }
    let found = count_names(state)?;
    for (ino, foreign) in &mut state.foreign {
        foreign.names = found.get(ino).map_or(0, |found| found.names);
        demand!(foreign.names > 0, "no name of inode {ino} of another group");
    }
    let is_all = state.slots.is_all();
    for (ino, inode) in &state.inodes {
        let found = found.get(ino).copied().unwrap_or_default();
        demand!(
            state.slots.has(ino.slot()),
            "inode {ino} is another group's"
        );
        if inode.nlink == 0 {
            demand!(
                state.holds.contains_key(ino) || state.lingers(*ino),
                "inode {ino} has no name and no holder"
            );
        }
        if let Body::Directory(directory) = &inode.body {
            let is_named_here = *ino != ROOT_INO && state.slots.has(directory.parent.slot());
            let names = u32::from(inode.nlink != 0 && is_named_here);
            demand!(
                found.names == names,
                "directory {ino} has {} names",
                found.names
            );
            let links = if inode.nlink == 0 {
                0
            } else {
                found.subdirectories.saturating_add(2)
            };
            demand!(
                inode.nlink == links,
                "directory {ino} has {} links",
                inode.nlink
            );
            demand!(
                inode.nlink != 0 || (directory.is_empty() && *ino != ROOT_INO),
                "directory {ino} is removed but used"
            );
            state.check_shards(*ino, directory)?;
        } else {
            // Other names may be other groups'.
            demand!(
                found.names == inode.nlink || (!is_all && found.names < inode.nlink),
                "inode {ino} has {} names",
                found.names
            );
            demand!(inode.nlink <= LINKS_MAX, "inode {ino} has too many names");
        }
    }
    check_tree(state)
}

fn count_names(state: &State) -> Result<FixedMap<Ino, Found>, String> {
    let mut found: FixedMap<Ino, Found> = FixedMap::default();
    for (ino, inode) in &state.inodes {
        let Body::Directory(directory) = &inode.body else {
            continue;
        };
        for (_, entry) in directory.after(0) {
            let of_child = found.entry(entry.ino).or_default();
            of_child.names = of_child.names.saturating_add(1);
            if let Some(foreign) = state.foreign.get(&entry.ino) {
                let is_directory = foreign.kind == FileKind::Directory;
                found.entry(*ino).or_default().subdirectories += u32::from(is_directory);
                continue;
            }
            let child = state.get(entry.ino);
            let child = child.map_err(|_| format!("a name of unknown inode {}", entry.ino))?;
            if let Body::Directory(below) = &child.body {
                demand!(
                    below.parent == *ino,
                    "directory {} has another parent",
                    entry.ino
                );
                found.entry(*ino).or_default().subdirectories += 1;
            }
        }
    }
    Ok(found)
}

/// Walks up from every directory; a circle would never come to the root.
fn check_tree(state: &State) -> Result<(), String> {
    let mut hangs: FixedSet<Ino> = FixedSet::default();
    hangs.insert(ROOT_INO);
    for (ino, inode) in &state.inodes {
        if !inode.is_directory() || inode.nlink == 0 {
            continue;
        }
        let mut way = Vec::new();
        let mut way_set: FixedSet<Ino> = FixedSet::default();
        let mut at = *ino;
        while !hangs.contains(&at) && state.slots.has(at.slot()) {
            demand!(way_set.insert(at), "directory {at} is inside itself");
            way.push(at);
            let above = state.directory(at);
            at = above
                .map_err(|_| format!("the parent of directory {ino} is none"))?
                .1
                .parent;
        }
        hangs.extend(way);
    }
    Ok(())
}
