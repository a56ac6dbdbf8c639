//! Open files and directories of this client.

use crate::bounds::Bounds;
use crate::node::Node;
use crate::readahead::Readahead;
use crate::types::{DirEntry, Errno, FileKind, HandleId, OpenFlags, Result};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use weft_types::FixedMap;

/// An open file. Dropping the last reference closes it.
pub(crate) struct FileHandle {
    pub node: Rc<Node>,
    pub flags: OpenFlags,
    /// Flush failures of the node that this handle has told of, when it was synced.
    pub seen_failures: Cell<u64>,
    /// Those that a write has told of. An fsync tells them again: a kernel that sends one write in several steps tells
    /// its program how far they went, not why they ended.
    told_by_writes: Cell<u64>,
    /// A lock that was taken by way of it has been lost: others may have had it since.
    pub lost_lock: Cell<bool>,
    pub readahead: RefCell<Readahead>,
}

impl FileHandle {
    /// An errno that a flush left, for who writes: once, and not if a sync has told it.
    pub fn check_failures(&self) -> Result<()> {
        let told = self.told_by_writes.get().max(self.seen_failures.get());
        self.told_by_writes.set(told);
        self.node.failure_since(&self.told_by_writes)
    }

    /// EIO once a lock has been lost. To be asked when the operation has its lease: under the session that counts.
    pub fn check_lock(&self) -> Result<()> {
        match self.lost_lock.get() {
            true => Err(Errno(libc::EIO)),
            false => Ok(()),
        }
    }
}

/// An open directory.
pub(crate) struct DirHandle {
    pub node: Rc<Node>,
    pub pages: RefCell<Pages>,
    /// One page is fetched at a time.
    pub fetching: Cell<bool>,
    pub wake: tokio::sync::Notify,
}

/// An entry of a page: a name, and nothing yet of what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct PageEntry {
    pub name: Bytes,
    pub ino: u64,
    pub kind: FileKind,
    pub cookie: u64,
}

impl PageEntry {
    pub fn hand_out(&self) -> DirEntry {
        DirEntry {
            name: self.name.clone(),
            ino: self.ino,
            kind: self.kind,
            cookie: self.cookie,
            known: None,
            name_leased: false,
        }
    }
}

/// Entries that were fetched and not yet handed out.
#[derive(Default)]
pub(crate) struct Pages {
    /// In the order of their cookies; handed out from the front.
    pub entries: VecDeque<PageEntry>,
    /// The cookie after which `entries` begins.
    pub after: u64,
    /// The cookie after which the next page begins.
    pub next: u64,
    pub end: bool,
    pub plus: bool,
    /// The directory's lease losses when the listing began at the start; None if it did not, or if
    /// it cannot become complete any more.
    pub listing: Option<u64>,
    /// Where the listing ends, once it has begun at the start.
    pub bounds: Option<Bounds>,
    pub parent: u64,
    /// Counts jumps, so that a page fetched for another place is not mixed in.
    pub jump: u64,
    pub failed: Option<Errno>,
}

fn is_mappable(flags: OpenFlags) -> bool {
    flags.read && flags.write
}

#[derive(Default)]
pub(crate) struct Handles {
    files: RefCell<FixedMap<u64, Rc<FileHandle>>>,
    dirs: RefCell<FixedMap<u64, Rc<DirHandle>>>,
    next: Cell<u64>,
}

impl Handles {
    fn id(&self) -> u64 {
        let id = self.next.get() + 1;
        self.next.set(id);
        id
    }

    /// Opens a file under a session. The node counts the handle, which tells of the failures that come
    /// from now on, and of the last one before if nobody has been told of that yet: as with Linux's
    /// own write-back (`errseq_t`), an fsync that answers well is the word that nothing was lost unheard.
    pub fn add_file(&self, node: Rc<Node>, flags: OpenFlags, session: u64) -> HandleId {
        let id = self.id();
        node.opens.set(node.opens.get() + 1);
        node.opened_in.set(session);
        node.mappable
            .set(node.mappable.get() + u32::from(is_mappable(flags)));
        let failures = node.state.borrow().buffer.failures_told();
        let handle = FileHandle {
            node,
            flags,
            seen_failures: Cell::new(failures),
            told_by_writes: Cell::new(failures),
            lost_lock: Cell::new(false),
            readahead: RefCell::default(),
        };
        self.files.borrow_mut().insert(id, Rc::new(handle));
        HandleId(id)
    }

    /// Any file is open.
    pub fn any_file(&self) -> bool {
        !self.files.borrow().is_empty()
    }

    pub fn file(&self, id: HandleId) -> Result<Rc<FileHandle>> {
        self.files
            .borrow()
            .get(&id.0)
            .cloned()
            .ok_or(Errno(libc::EBADF))
    }

    /// Closes a file; true with the node if that was its last handle.
    pub fn remove_file(&self, id: HandleId) -> Option<(Rc<FileHandle>, bool)> {
        let handle = self.files.borrow_mut().remove(&id.0)?;
        let opens = handle.node.opens.get() - 1;
        handle.node.opens.set(opens);
        let mappable = handle.node.mappable.get() - u32::from(is_mappable(handle.flags));
        handle.node.mappable.set(mappable);
        Some((handle, opens == 0))
    }

    pub fn add_dir(&self, node: Rc<Node>) -> HandleId {
        let id = self.id();
        let handle = DirHandle {
            node,
            pages: RefCell::default(),
            fetching: Cell::new(false),
            wake: tokio::sync::Notify::new(),
        };
        self.dirs.borrow_mut().insert(id, Rc::new(handle));
        HandleId(id)
    }

    pub fn dir(&self, id: HandleId) -> Result<Rc<DirHandle>> {
        self.dirs
            .borrow()
            .get(&id.0)
            .cloned()
            .ok_or(Errno(libc::EBADF))
    }

    pub fn remove_dir(&self, id: HandleId) {
        self.dirs.borrow_mut().remove(&id.0);
    }
}
