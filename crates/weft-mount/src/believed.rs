//! What replies let the kernel believe: sizes, second names of inodes, names from listings. The rules and their reasons are
//! those of `sizes.rs`, `aliases.rs` and `listed.rs`; here they meet the kernel (docs/protocols/kernel-cache.md).

use crate::aliases::{Name, Telling};
use crate::holds::PAGE;
use crate::invalidate::KernelCache;
use std::ops::Range;
use std::rc::Rc;
use weft_env::Mono;

impl KernelCache {
    // ---- sizes ----

    /// A reply tells the size of a file.
    pub fn tells_size(&self, ino: u64, size: u64) {
        self.sizes.borrow_mut().told(ino, size);
    }

    /// The kernel may make up what follows `end`, where the answer to a read stops that came at `came`.
    pub fn may_make_up(&self, ino: u64, end: u64, came: Mono) -> bool {
        self.sizes.borrow().may_make_up(ino, end, came)
    }

    /// A read by way of the page cache, which came at `came`, is about to be answered with bytes up to `end`, or fewer than
    /// were asked for (`is_short`): sizes below that which the kernel has not taken yet it shall ignore.
    pub fn tells_bytes(&self, ino: u64, end: u64, is_short: bool, came: Mono) {
        if self.sizes.borrow_mut().read(ino, end, is_short, came) {
            self.void_attributes(ino);
        }
    }

    /// A write is answered: the kernel makes the file that long at least.
    pub fn tells_written(&self, ino: u64, end: u64) {
        self.sizes.borrow_mut().written(ino, end);
    }

    /// Waits for writes past the page cache that a size just learnt may count, while the kernel may have pages of before them.
    /// False if there were none: it was not waited.
    pub async fn awaits_overwritten(&self, ino: u64) -> bool {
        let Some(turn) = self.sizes.borrow().overwritten(ino) else {
            return false;
        };
        loop {
            let overwritten = self.overwritten.notified();
            if !self.sizes.borrow().is_overwritten(ino, turn) {
                return true;
            }
            overwritten.await;
        }
    }

    /// The kernel may have pages that do not show a write which the file's size counts already.
    pub fn is_overwritten(&self, ino: u64) -> bool {
        self.sizes.borrow().overwritten(ino).is_some()
    }

    /// A read or write by way of the page cache is answered.
    pub fn has_pages_of(&self, ino: u64) {
        self.sizes.borrow_mut().filled(ino);
    }

    /// A write past the page cache begins, which is over when what is returned is dropped.
    pub fn overwrite(self: &Rc<Self>, ino: u64) -> Overwriting {
        let turn = self.sizes.borrow_mut().begin_overwriting(ino);
        Overwriting {
            kernel: self.clone(),
            ino,
            turn,
        }
    }

    /// Request `unique` has written past the page cache: pages of before are forgotten, and reads that are under way are
    /// done again. (Linux does so itself for some such writes, for others it does not, and for none before others may be
    /// told of the new size.)
    pub async fn forget_overwritten(self: &Rc<Self>, ino: u64, unique: u64, written: Range<u64>) {
        if !self.sizes.borrow().has_pages(ino) {
            return;
        }
        let end = written.end.checked_next_multiple_of(PAGE);
        let pages = written.start - written.start % PAGE..end.unwrap_or(u64::MAX);
        self.outdate(ino, unique, &pages);
        self.forget_free(ino, vec![pages]).await;
    }

    // ---- names ----

    /// The kernel is being told that a name stands for an inode.
    pub fn tells_name(&self, ino: u64, name: Name) {
        self.aliases.borrow_mut().told(ino, name);
    }

    /// The names by which the kernel may know an inode.
    pub fn names_of(&self, ino: u64) -> Vec<Name> {
        self.aliases.borrow().names(ino).to_vec()
    }

    /// A thread that waits for an answer is in a rename; none if that is not to be seen.
    pub fn is_renaming(&self, thread: u32) -> Option<bool> {
        self.kernel.is_renaming(thread)
    }

    /// A thread, which asked at `asked`, has looked up a name and found an inode: what it may be told. `stands` says of
    /// another name whether it is known to stand for the inode; `is_renaming`, whether the thread is in a rename, as far
    /// as is known.
    pub fn may_tell_name(
        &self,
        (thread, is_renaming): (u32, impl FnOnce() -> Option<bool>),
        asked: Mono,
        ino: u64,
        name: &Name,
        stands: impl Fn(&Name) -> bool,
    ) -> Telling {
        let mut aliases = self.aliases.borrow_mut();
        let times = (asked, self.now());
        aliases.may_tell((thread, is_renaming), times, ino, name, stands)
    }

    /// A thread asks for no further name in its system call: it was told that one is not there, or it asks for something
    /// else.
    pub fn ends_pass(&self, thread: u32) {
        self.aliases.borrow_mut().end_pass(thread);
    }

    /// The kernel renames an inode itself when this is answered.
    pub fn tells_renamed(&self, ino: u64, from: &Name, to: Name) {
        self.aliases.borrow_mut().renamed(ino, from, to);
    }

    /// Others have changed the names of a directory lately.
    pub fn is_contended(&self, dir: u64) -> bool {
        self.listings.borrow().is_contended(dir, self.now())
    }

    /// A page of a directory's listing is to be answered: true if its names may be kept.
    pub fn may_keep_listed(&self, dir: u64) -> bool {
        let now = self.now();
        self.listings.borrow_mut().may_keep(dir, now)
    }
}

/// A write past the page cache.
pub struct Overwriting {
    kernel: Rc<KernelCache>,
    ino: u64,
    turn: u64,
}

impl Drop for Overwriting {
    fn drop(&mut self) {
        let mut sizes = self.kernel.sizes.borrow_mut();
        sizes.end_overwriting(self.ino, self.turn);
        drop(sizes);
        self.kernel.overwritten.notify_waiters();
    }
}
