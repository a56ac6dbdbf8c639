//! Under which names the kernel may believe that it knows an inode. Pure; `fs.rs` acts on it.
//!
//! Linux does nothing for a rename whose source and target are one inode, and says that it has been done
//! (`vfs_rename`, fs/namei.c). It takes them for one inode if a name that it has looked up before has since been
//! renamed, by another mount, to the very name that it looks up as the target: it has just checked the old name, and is
//! told of the inode under the new one. So both mounts are told that they have renamed it.
//!
//! Kept true: an inode is told to the kernel under a second name only if the first is known to stand for it, or if the
//! thread that asks has been sent back once. It is sent back by ESTALE, upon which Linux begins again and asks for
//! every name of the path (`LOOKUP_REVAL`), and so finds that the old one has gone.

use bytes::Bytes;
use std::collections::VecDeque;
use weft_types::FixedMap;

/// Names of one inode that are remembered. Only a file with several hard links has more than one for long; of more
/// names than these the oldest may be renamed twice as told above.
const NAMES_MAX: usize = 8;

/// Threads that were sent back and have not come again. Only a bound on memory: who was forgotten is sent back
/// once more.
const SENT_BACK_MAX: usize = 1024;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The directory's inode.
    pub parent: u64,
    /// The name in it.
    pub name: Bytes,
}

/// A thread that looks up a name and finds an inode.
#[derive(Clone, PartialEq, Eq)]
struct Look {
    thread: u32,
    name: Name,
    ino: u64,
}

/// Names that the kernel was told of, by inode.
#[derive(Default)]
pub struct Aliases {
    names: FixedMap<u64, Vec<Name>>,
    sent_back: VecDeque<Look>,
}

impl Aliases {
    /// The kernel is being told that a name stands for an inode.
    pub fn told(&mut self, ino: u64, name: Name) {
        let names = self.names.entry(ino).or_default();
        if names.contains(&name) {
            return;
        }
        if names.len() == NAMES_MAX {
            names.remove(0);
        }
        names.push(name);
    }

    /// A thread has looked up a name and found an inode: true if it may be told. `stands` says of another name whether it
    /// is known to stand for the inode.
    pub fn may_tell(
        &mut self,
        thread: u32,
        ino: u64,
        name: &Name,
        stands: impl Fn(&Name) -> bool,
    ) -> bool {
        let Some(names) = self.names.get_mut(&ino) else {
            return true;
        };
        if names.iter().all(|other| other == name || stands(other)) {
            return true;
        }
        let look = Look {
            thread,
            name: name.clone(),
            ino,
        };
        if let Some(at) = self.sent_back.iter().position(|other| *other == look) {
            self.sent_back.remove(at);
            // It has asked for every name again that it goes by.
            names.retain(|other| other == name || stands(other));
            return true;
        }
        if self.sent_back.len() == SENT_BACK_MAX {
            self.sent_back.pop_front();
        }
        self.sent_back.push_back(look);
        false
    }

    /// The kernel has renamed an inode itself.
    pub fn renamed(&mut self, ino: u64, from: &Name, to: Name) {
        if let Some(names) = self.names.get_mut(&ino) {
            names.retain(|name| name != from);
        }
        self.told(ino, to);
    }

    /// The kernel does not know the inode any more.
    pub fn forgot(&mut self, ino: u64) {
        self.names.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(parent: u64, name: &'static str) -> Name {
        Name {
            parent,
            name: Bytes::from_static(name.as_bytes()),
        }
    }

    #[test]
    fn a_second_name_is_told_to_who_comes_again() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "new"));
        let cur = name(2, "cur");
        // The name that it was told of is known to stand.
        assert!(aliases.may_tell(50, 7, &cur, |_| true));
        // It is not: each thread is sent back once.
        assert!(!aliases.may_tell(50, 7, &cur, |_| false));
        assert!(!aliases.may_tell(51, 7, &cur, |_| false));
        assert!(aliases.may_tell(50, 7, &cur, |_| false));
        aliases.told(7, cur.clone());
        // The old name has gone: nobody is sent back for it.
        assert!(aliases.may_tell(52, 7, &cur, |_| false));
        // What is not known, or forgotten, has no other name.
        assert!(aliases.may_tell(53, 8, &cur, |_| false));
        aliases.forgot(7);
        assert!(aliases.may_tell(53, 7, &name(3, "third"), |_| false));
    }

    #[test]
    fn what_the_kernel_renames_itself_has_its_new_name_only() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "a"));
        aliases.renamed(7, &name(1, "a"), name(1, "b"));
        assert!(aliases.may_tell(50, 7, &name(1, "b"), |_| false));
        assert!(!aliases.may_tell(50, 7, &name(1, "a"), |_| false));
    }

    #[test]
    fn memory_is_bounded() {
        let mut aliases = Aliases::default();
        for n in 0..100u64 {
            aliases.told(7, name(n, "a"));
        }
        assert_eq!(aliases.names[&7].len(), NAMES_MAX);
        for thread in 0..10_000 {
            assert!(!aliases.may_tell(thread, 7, &name(1, "b"), |_| false));
        }
        assert_eq!(aliases.sent_back.len(), SENT_BACK_MAX);
    }
}
