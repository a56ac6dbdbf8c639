//! Under which names the kernel may believe that it knows an inode. Pure; `fs.rs` acts on it.
//!
//! Linux does nothing for a rename whose source and target are one inode, and says that it has been done
//! (`vfs_rename`, fs/namei.c). It takes them for one inode if a name that it has looked up before has since been
//! renamed, by another mount, to the very name that it looks up as the target: it has just checked the old name, and is
//! told of the inode under the new one. So both mounts are told that they have renamed it.
//!
//! Kept true: to a thread that may be in a rename an inode is told under a second name only if the first is known to stand
//! for it, or if the thread was sent back a moment ago. It is sent back by ESTALE, upon which Linux begins its system call
//! again, once, and asks for every name of the path (`LOOKUP_REVAL`), and so finds that the old one has gone. In that
//! second pass it is not sent back again, or the program would be told ESTALE: but for the one case that is to be seen, an
//! inode that it was told of in this very pass under a name that does not stand any more. If it is known to be in a rename
//! (rather than not known), it is told then that the second name is not there: that ends the rename with ENOENT, as the
//! first name's having gone does, or has the service be asked for it.
//!
//! No request says where a second pass ends and the thread's next system call begins, which has names of its own that it
//! took from the kernel. So a pass is good for what is asked in one: a first name that is no directory's, and, if one of
//! the two is what it was sent back for, the name after it. It ends with a request for anything but names (`fs.rs`), and if
//! the thread is seen to be in another system call.

use bytes::Bytes;
use std::time::Duration;
use weft_env::Mono;
use weft_types::FixedMap;

/// Names of one inode that are remembered. Only a file with several hard links has more than one for long; of more
/// names than these the oldest may be renamed twice as told above.
const NAMES_MAX: usize = 8;

/// Threads in their second pass. Only a bound on memory: who was forgotten is sent back once more.
const PASSES_MAX: usize = 1024;

/// A second pass is over if nothing is asked for so long after the answer that began it.
const PASS: Duration = Duration::from_secs(1);

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The directory's inode.
    pub parent: u64,
    /// The name in it.
    pub name: Bytes,
}

/// What the kernel is told of a name that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// What it stands for.
    Entry,
    /// To begin its system call again.
    Again,
    /// That it is not there.
    Absent,
}

/// A thread's second pass.
struct Pass {
    began: Mono,
    /// It is known to be a rename's.
    is_rename: bool,
    /// What it was sent back for.
    of: Name,
    /// What it was told first in it.
    first: Option<(u64, Name)>,
}

/// Names that the kernel was told of, by inode.
#[derive(Default)]
pub struct Aliases {
    names: FixedMap<u64, Vec<Name>>,
    passes: FixedMap<u32, Pass>,
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

    /// The names by which the kernel may know an inode.
    pub fn names(&self, ino: u64) -> &[Name] {
        self.names.get(&ino).map_or(&[], |names| names)
    }

    /// A thread, which asked at `asked`, has looked up a name and found an inode: what it may be told. `stands` says of
    /// another name whether it is known to stand for the inode; `is_renaming`, whether the thread is in a rename, as far
    /// as is known.
    pub fn may_tell(
        &mut self,
        (thread, is_renaming): (u32, impl FnOnce() -> Option<bool>),
        (asked, now): (Mono, Mono),
        ino: u64,
        name: &Name,
        stands: impl Fn(&Name) -> bool,
    ) -> Telling {
        let is_stale = |other: &Name| other != name && !stands(other);
        let is_second = self.names(ino).iter().any(is_stale);
        let pass = self.passes.remove(&thread);
        if pass.is_none() && !is_second {
            return Telling::Entry;
        }
        let renames = is_renaming();
        if renames == Some(false) {
            return Telling::Entry;
        }
        let is_rename = renames.is_some();
        let Some(mut pass) = pass.filter(|pass| pass.began + PASS >= asked) else {
            if is_second {
                self.send_back((thread, is_rename), now, name);
                return Telling::Again;
            }
            return Telling::Entry;
        };
        if let Some((first_ino, first)) = &pass.first {
            let is_of_this_pass = *first == pass.of || *name == pass.of;
            let source_has_gone = *first_ino == ino && is_stale(first);
            if source_has_gone && is_of_this_pass && is_rename && pass.is_rename {
                // The kernel asks once more if it believed the name to stand for something else.
                self.passes.insert(thread, pass);
                return Telling::Absent;
            }
            if source_has_gone || (is_second && !is_of_this_pass) {
                self.send_back((thread, is_rename), now, name);
                return Telling::Again;
            }
        }
        if let Some(names) = self.names.get_mut(&ino) {
            // It asks for every name that it goes by.
            names.retain(|other| !is_stale(other));
        }
        if pass.first.is_none() {
            pass.first = Some((ino, name.clone()));
            self.passes.insert(thread, pass);
        }
        Telling::Entry
    }

    /// A thread asks for no further name in its system call.
    pub fn end_pass(&mut self, thread: u32) {
        self.passes.remove(&thread);
    }

    fn send_back(&mut self, (thread, is_rename): (u32, bool), now: Mono, of: &Name) {
        if self.passes.len() >= PASSES_MAX {
            self.passes.retain(|_, pass| pass.began + PASS >= now);
        }
        if self.passes.len() >= PASSES_MAX {
            self.passes.clear();
        }
        let pass = Pass {
            began: now,
            is_rename,
            of: of.clone(),
            first: None,
        };
        self.passes.insert(thread, pass);
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

    fn at(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(ms)
    }

    const ENTRY: Telling = Telling::Entry;
    const AGAIN: Telling = Telling::Again;

    /// What a thread is told that is answered at once. `stands`: the other names.
    fn tell(
        aliases: &mut Aliases,
        thread: u32,
        at: Mono,
        ino: u64,
        name: &Name,
        stands: bool,
    ) -> Telling {
        aliases.may_tell((thread, || None), (at, at), ino, name, |_| stands)
    }

    #[test]
    fn a_second_name_is_told_to_who_comes_again() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "new"));
        let cur = name(2, "cur");
        // The name that it was told of is known to stand.
        assert_eq!(tell(&mut aliases, 50, at(0), 7, &cur, true), ENTRY);
        // It is not: each thread is sent back once.
        assert_eq!(tell(&mut aliases, 50, at(0), 7, &cur, false), AGAIN);
        assert_eq!(tell(&mut aliases, 51, at(0), 7, &cur, false), AGAIN);
        assert_eq!(tell(&mut aliases, 50, at(1), 7, &cur, false), ENTRY);
        aliases.told(7, cur.clone());
        // The old name has gone: nobody is sent back for it.
        assert_eq!(tell(&mut aliases, 52, at(1), 7, &cur, false), ENTRY);
        // What is not known, or forgotten, has no other name.
        assert_eq!(tell(&mut aliases, 53, at(1), 8, &cur, false), ENTRY);
        aliases.forgot(7);
        assert_eq!(
            tell(&mut aliases, 53, at(1), 7, &name(3, "third"), false),
            ENTRY
        );
    }

    /// Linux begins a system call again once: the names of a rename's source and target may both be second ones.
    #[test]
    fn a_thread_is_sent_back_once_for_all_names_of_a_system_call() {
        let mut aliases = Aliases::default();
        aliases.told(3, name(1, "a-old"));
        aliases.told(7, name(1, "c-old"));
        let (a, c) = (name(1, "a"), name(1, "c"));
        assert_eq!(tell(&mut aliases, 50, at(0), 3, &a, false), AGAIN);
        assert_eq!(tell(&mut aliases, 50, at(1), 3, &a, false), ENTRY);
        assert_eq!(tell(&mut aliases, 50, at(2), 7, &c, false), ENTRY);
        // But not if source and target are one: the source has gone since it was told.
        aliases.told(3, a);
        assert_eq!(
            tell(&mut aliases, 51, at(3), 3, &name(1, "b"), false),
            AGAIN
        );
        assert_eq!(
            tell(&mut aliases, 51, at(4), 3, &name(1, "b"), false),
            ENTRY
        );
        assert_eq!(tell(&mut aliases, 51, at(5), 3, &c, false), AGAIN);
        assert_eq!(tell(&mut aliases, 51, at(6), 3, &c, false), ENTRY);
        // Much later is another system call.
        aliases.told(9, name(1, "e-old"));
        let later = at(6) + PASS + Duration::from_millis(1);
        assert_eq!(
            tell(&mut aliases, 51, later, 9, &name(1, "e"), false),
            AGAIN
        );
    }

    /// The next system call of a thread that was sent back, at once, with a source that the kernel knew.
    #[test]
    fn a_second_pass_ends() {
        let mut aliases = Aliases::default();
        aliases.told(3, name(1, "from-3"));
        aliases.told(7, name(1, "from-7"));
        let (three, seven) = (name(1, "to-3"), name(1, "to-7"));
        // A link: the source stands, and so does the target.
        assert_eq!(tell(&mut aliases, 50, at(0), 3, &three, false), AGAIN);
        assert_eq!(
            tell(&mut aliases, 50, at(0), 9, &name(1, "other"), false),
            ENTRY
        );
        assert_eq!(tell(&mut aliases, 50, at(0), 3, &three, false), ENTRY);
        assert_eq!(tell(&mut aliases, 50, at(0), 7, &seven, false), AGAIN);
        // A rename: the source has gone.
        aliases.told(7, name(1, "from-7"));
        assert_eq!(tell(&mut aliases, 51, at(0), 7, &seven, false), AGAIN);
        aliases.end_pass(51);
        assert_eq!(tell(&mut aliases, 51, at(0), 7, &seven, false), AGAIN);
        // It was sent back for neither of the two names that it goes by then.
        assert_eq!(tell(&mut aliases, 52, at(0), 7, &seven, false), AGAIN);
        assert_eq!(
            tell(&mut aliases, 52, at(0), 9, &name(1, "other"), false),
            ENTRY
        );
        aliases.told(3, name(1, "from-3"));
        assert_eq!(
            tell(&mut aliases, 52, at(0), 3, &name(1, "to"), false),
            AGAIN
        );
    }

    /// An inode with links is renamed by another mount twice while this one renames: a program is told ENOENT, not ESTALE.
    #[test]
    fn a_rename_whose_source_goes_in_its_second_pass_is_told_that_the_target_is_not_there() {
        let (a, d) = (name(1, "a"), name(1, "d"));
        let now = (at(0), at(0));
        let second_pass = |first: Option<bool>, then: Option<bool>| {
            let mut aliases = Aliases::default();
            aliases.told(7, name(1, "old"));
            let told = aliases.may_tell((50, || first), now, 7, &a, |_| false);
            assert_eq!(told, Telling::Again);
            let told = aliases.may_tell((50, || then), now, 7, &a, |_| false);
            aliases.told(7, a.clone());
            (aliases, told)
        };
        let renames = Some(true);
        let (mut aliases, told) = second_pass(renames, renames);
        assert_eq!(told, Telling::Entry);
        // The kernel asks twice if it has known the target.
        for _ in 0..2 {
            let told = aliases.may_tell((50, || renames), now, 7, &d, |_| false);
            assert_eq!(told, Telling::Absent);
        }
        // Its request ends it: the next one has names of its own.
        aliases.end_pass(50);
        let told = aliases.may_tell((50, || renames), now, 7, &d, |_| false);
        assert_eq!(told, Telling::Again);
        // If it is not known whether all of this is one rename, the name is not told to be absent: stat(2) would fail.
        for (first, then, last) in [
            (None, renames, renames),
            (renames, None, None),
            (None, None, None),
        ] {
            let (mut aliases, told) = second_pass(first, then);
            assert_eq!(told, Telling::Entry);
            let told = aliases.may_tell((50, || last), now, 7, &d, |_| false);
            assert_eq!(told, Telling::Again, "{first:?} {then:?} {last:?}");
        }
    }

    /// A program that opens a name may be told ESTALE for the inode that it finds there, and then not for the name as well.
    #[test]
    fn who_is_known_not_to_rename_is_not_sent_back() {
        let (a, d) = (name(1, "a"), name(1, "d"));
        let now = (at(0), at(0));
        let mut aliases = Aliases::default();
        aliases.told(7, a.clone());
        let told = aliases.may_tell((50, || Some(false)), now, 7, &d, |_| false);
        assert_eq!(told, Telling::Entry);
        aliases.told(7, d.clone());
        // Who renames still is, and its second pass ends when it is seen to do something else.
        for other in [Some(false), Some(true)] {
            let told = aliases.may_tell((51, || Some(true)), now, 7, &d, |_| false);
            assert_eq!(told, Telling::Again);
            let told = aliases.may_tell((51, || other), now, 7, &d, |_| false);
            assert_eq!(told, Telling::Entry);
        }
    }

    /// However long the answers take.
    #[test]
    fn a_second_pass_is_as_long_as_its_questions() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "from"));
        let (to, minute) = (name(1, "to"), 60_000);
        let told = aliases.may_tell((50, || None), (at(0), at(minute)), 7, &to, |_| false);
        assert_eq!(told, AGAIN);
        let again = (at(minute), at(2 * minute));
        let told = aliases.may_tell((50, || None), again, 7, &to, |_| false);
        assert_eq!(told, ENTRY);
    }

    #[test]
    fn what_the_kernel_renames_itself_has_its_new_name_only() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "a"));
        aliases.renamed(7, &name(1, "a"), name(1, "b"));
        assert_eq!(
            tell(&mut aliases, 50, at(0), 7, &name(1, "b"), false),
            ENTRY
        );
        assert_eq!(
            tell(&mut aliases, 50, at(0), 7, &name(1, "a"), false),
            AGAIN
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut aliases = Aliases::default();
        for n in 0..100u64 {
            aliases.told(7, name(n, "a"));
        }
        assert_eq!(aliases.names[&7].len(), NAMES_MAX);
        for thread in 0..10_000 {
            assert_eq!(
                tell(&mut aliases, thread, at(0), 7, &name(1, "b"), false),
                AGAIN
            );
        }
        assert!(aliases.passes.len() <= PASSES_MAX);
    }
}
