//! Under which names the kernel may believe that it knows an inode. Pure; `fs.rs` acts on it.
//!
//! Linux does nothing for a rename whose source and target are one inode, and says that it has been done
//! (`vfs_rename`, fs/namei.c). It takes them for one inode if a name that it has looked up before has since been
//! renamed, by another mount, to the very name that it looks up as the target: it has just checked the old name, and is
//! told of the inode under the new one. So both mounts are told that they have renamed it.
//!
//! Kept true: an inode is told to the kernel under a second name only if the first is known to stand for it, or if the
//! thread that asks was sent back a moment ago. It is sent back by ESTALE, upon which Linux begins its system call again,
//! once, and asks for every name of the path (`LOOKUP_REVAL`), and so finds that the old one has gone. In that second
//! pass it is not sent back again, or the program would be told ESTALE: but for the one case that is to be seen, an inode
//! that it was told of in this very pass under a name that does not stand any more.
//!
//! Nothing says where a second pass ends and the thread's next system call begins, which has names of its own that it
//! took from the kernel. So a pass is good for what is asked in one: a first name that is no directory's, and, if one of
//! the two is what it was sent back for, the name after it.

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

/// A thread's second pass.
struct Pass {
    began: Mono,
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

    /// A thread, which asked at `asked`, has looked up a name and found an inode: true if it may be told. `stands` says of
    /// another name whether it is known to stand for the inode.
    pub fn may_tell(
        &mut self,
        thread: u32,
        (asked, now): (Mono, Mono),
        ino: u64,
        name: &Name,
        stands: impl Fn(&Name) -> bool,
    ) -> bool {
        let others = self.names.get_mut(&ino);
        let is_second = |names: &Vec<Name>| names.iter().any(|it| it != name && !stands(it));
        let second = others.filter(|names| is_second(names));
        let pass = self.passes.remove(&thread);
        let pass = pass.filter(|pass| pass.began + PASS >= asked);
        let is_source = |(of, told): &(u64, Name)| *of == ino && told != name && !stands(told);
        let may = match &pass {
            None => second.is_none(),
            Some(Pass { first: None, .. }) => true,
            Some(Pass {
                of,
                first: Some(first),
                ..
            }) => {
                let is_of_this_pass = first.1 == *of || name == of;
                !is_source(first) && (is_of_this_pass || second.is_none())
            }
        };
        if !may {
            self.send_back(thread, now, name);
            return false;
        }
        let Some(mut pass) = pass else { return true };
        if let Some(names) = second {
            // It asks for every name that it goes by.
            names.retain(|other| other == name || stands(other));
        }
        if pass.first.is_none() {
            pass.first = Some((ino, name.clone()));
            self.passes.insert(thread, pass);
        }
        true
    }

    /// A thread has looked up a name that is not there. That ends a system call, or is the last name of one.
    pub fn absent(&mut self, thread: u32) {
        self.passes.remove(&thread);
    }

    fn send_back(&mut self, thread: u32, now: Mono, of: &Name) {
        if self.passes.len() >= PASSES_MAX {
            self.passes.retain(|_, pass| pass.began + PASS >= now);
        }
        if self.passes.len() >= PASSES_MAX {
            self.passes.clear();
        }
        let pass = Pass {
            began: now,
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

    #[test]
    fn a_second_name_is_told_to_who_comes_again() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "new"));
        let cur = name(2, "cur");
        // The name that it was told of is known to stand.
        assert!(aliases.may_tell(50, (at(0), at(0)), 7, &cur, |_| true));
        // It is not: each thread is sent back once.
        assert!(!aliases.may_tell(50, (at(0), at(0)), 7, &cur, |_| false));
        assert!(!aliases.may_tell(51, (at(0), at(0)), 7, &cur, |_| false));
        assert!(aliases.may_tell(50, (at(1), at(1)), 7, &cur, |_| false));
        aliases.told(7, cur.clone());
        // The old name has gone: nobody is sent back for it.
        assert!(aliases.may_tell(52, (at(1), at(1)), 7, &cur, |_| false));
        // What is not known, or forgotten, has no other name.
        assert!(aliases.may_tell(53, (at(1), at(1)), 8, &cur, |_| false));
        aliases.forgot(7);
        assert!(aliases.may_tell(53, (at(1), at(1)), 7, &name(3, "third"), |_| false));
    }

    /// Linux begins a system call again once: the names of a rename's source and target may both be second ones.
    #[test]
    fn a_thread_is_sent_back_once_for_all_names_of_a_system_call() {
        let mut aliases = Aliases::default();
        aliases.told(3, name(1, "a-old"));
        aliases.told(7, name(1, "c-old"));
        let (a, c) = (name(1, "a"), name(1, "c"));
        assert!(!aliases.may_tell(50, (at(0), at(0)), 3, &a, |_| false));
        assert!(aliases.may_tell(50, (at(1), at(1)), 3, &a, |_| false));
        assert!(aliases.may_tell(50, (at(2), at(2)), 7, &c, |_| false));
        // But not if source and target are one: the source has gone since it was told.
        aliases.told(3, a);
        assert!(!aliases.may_tell(51, (at(3), at(3)), 3, &name(1, "b"), |_| false));
        assert!(aliases.may_tell(51, (at(4), at(4)), 3, &name(1, "b"), |_| false));
        assert!(!aliases.may_tell(51, (at(5), at(5)), 3, &c, |_| false));
        assert!(aliases.may_tell(51, (at(6), at(6)), 3, &c, |_| false));
        // Much later is another system call.
        aliases.told(9, name(1, "e-old"));
        let later = at(6) + PASS + Duration::from_millis(1);
        assert!(!aliases.may_tell(51, (later, later), 9, &name(1, "e"), |_| false));
    }

    /// The next system call of a thread that was sent back, at once, with a source that the kernel knew.
    #[test]
    fn a_second_pass_ends() {
        let mut aliases = Aliases::default();
        aliases.told(3, name(1, "from-3"));
        aliases.told(7, name(1, "from-7"));
        let (three, seven) = (name(1, "to-3"), name(1, "to-7"));
        // A link: the source stands, and so does the target.
        assert!(!aliases.may_tell(50, (at(0), at(0)), 3, &three, |_| false));
        assert!(aliases.may_tell(50, (at(0), at(0)), 9, &name(1, "other"), |_| false));
        assert!(aliases.may_tell(50, (at(0), at(0)), 3, &three, |_| false));
        assert!(!aliases.may_tell(50, (at(0), at(0)), 7, &seven, |_| false));
        // A rename: the source has gone.
        aliases.told(7, name(1, "from-7"));
        assert!(!aliases.may_tell(51, (at(0), at(0)), 7, &seven, |_| false));
        aliases.absent(51);
        assert!(!aliases.may_tell(51, (at(0), at(0)), 7, &seven, |_| false));
        // It was sent back for neither of the two names that it goes by then.
        assert!(!aliases.may_tell(52, (at(0), at(0)), 7, &seven, |_| false));
        assert!(aliases.may_tell(52, (at(0), at(0)), 9, &name(1, "other"), |_| false));
        aliases.told(3, name(1, "from-3"));
        assert!(!aliases.may_tell(52, (at(0), at(0)), 3, &name(1, "to"), |_| false));
    }

    /// However long the answers take.
    #[test]
    fn a_second_pass_is_as_long_as_its_questions() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "from"));
        let (to, minute) = (name(1, "to"), 60_000);
        assert!(!aliases.may_tell(50, (at(0), at(minute)), 7, &to, |_| false));
        let again = (at(minute), at(2 * minute));
        assert!(aliases.may_tell(50, again, 7, &to, |_| false));
    }

    #[test]
    fn what_the_kernel_renames_itself_has_its_new_name_only() {
        let mut aliases = Aliases::default();
        aliases.told(7, name(1, "a"));
        aliases.renamed(7, &name(1, "a"), name(1, "b"));
        assert!(aliases.may_tell(50, (at(0), at(0)), 7, &name(1, "b"), |_| false));
        assert!(!aliases.may_tell(50, (at(0), at(0)), 7, &name(1, "a"), |_| false));
    }

    #[test]
    fn memory_is_bounded() {
        let mut aliases = Aliases::default();
        for n in 0..100u64 {
            aliases.told(7, name(n, "a"));
        }
        assert_eq!(aliases.names[&7].len(), NAMES_MAX);
        for thread in 0..10_000 {
            assert!(!aliases.may_tell(thread, (at(0), at(0)), 7, &name(1, "b"), |_| false));
        }
        assert!(aliases.passes.len() <= PASSES_MAX);
    }
}
