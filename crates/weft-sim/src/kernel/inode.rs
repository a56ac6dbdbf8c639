//! Inodes and their attributes (fs/fuse/inode.c; fuse_do_getattr and fuse_do_setattr of fs/fuse/dir.c).

use super::Thread;
use super::connection::Connection;
use super::pages::Pages;
use super::wire::{self, Attr, Entry};
use crate::oracle::history::{Kind, Seen};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use tokio::sync::RwLock;
use weft_client::Errno;
use weft_mount::abi::{Call, SetattrIn, fattr};
use weft_types::ROOT_INO;

/// STATX_BASIC_STATS, and what of it a write changes (FUSE_STATX_MODSIZE).
const BASIC: u32 = libc::STATX_BASIC_STATS;
const MODSIZE: u32 = libc::STATX_MTIME | libc::STATX_CTIME | libc::STATX_BLOCKS | libc::STATX_SIZE;

/// What stat tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub ino: u64,
    pub size: u64,
    pub mode: u32,
    pub nlink: u32,
}

impl From<Attr> for Stat {
    fn from(attr: Attr) -> Stat {
        Stat {
            ino: attr.ino,
            size: attr.size,
            mode: attr.mode,
            nlink: attr.nlink,
        }
    }
}

impl Stat {
    /// For the history.
    pub fn seen(&self) -> Seen {
        Seen {
            ino: self.ino,
            kind: kind_of(self.mode),
            mode: self.mode & 0o7777,
            nlink: self.nlink,
            size: self.size,
        }
    }
}

/// The kind that a mode says.
pub(super) fn kind_of(mode: u32) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFLNK => Kind::Symlink,
        libc::S_IFIFO => Kind::Fifo,
        _ => Kind::File,
    }
}

/// struct inode and fuse_inode.
pub(super) struct Inode {
    connection: Weak<Connection>,
    pub node: u64,
    nlookup: Cell<u64>,
    /// i_rwsem.
    pub rwsem: RwLock<()>,
    attr: Cell<Attr>,
    pub i_size: Cell<u64>,
    /// Until when attributes hold.
    i_time: Cell<u64>,
    /// Attributes that do not hold though the time has not come.
    inval_mask: Cell<u32>,
    pub attr_version: Cell<u64>,
    /// FUSE_I_SIZE_UNSTABLE.
    pub size_unstable: Cell<bool>,
    pub pages: Pages,
    /// Opens that go by way of the page cache (FUSE_I_CACHE_IO_MODE while there are any).
    pub cached_opens: Cell<u32>,
}

impl Inode {
    pub fn kind(&self) -> Kind {
        kind_of(self.attr.get().mode)
    }

    fn invalidate_mask(&self, mask: u32) {
        self.inval_mask.set(self.inval_mask.get() | mask);
    }

    /// fuse_invalidate_attr.
    pub fn invalidate_attributes(&self) {
        self.invalidate_mask(BASIC);
    }

    /// fuse_invalidate_atime.
    pub fn invalidate_atime(&self) {
        self.invalidate_mask(libc::STATX_ATIME);
    }

    /// fuse_update_ctime.
    pub fn changed(&self) {
        self.invalidate_mask(libc::STATX_CTIME);
    }
}

/// fuse_evict_inode: FUSE keeps no inode that nobody uses (`drop_inode` is generic_delete_inode).
impl Drop for Inode {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.inodes.borrow_mut().remove(&self.node);
            if self.node != ROOT_INO.0 {
                connection.forget(self.node, self.nlookup.get());
            }
        }
    }
}

impl Connection {
    fn new_inode(self: &Rc<Self>, node: u64, attr: Attr) -> Rc<Inode> {
        let inode = Rc::new(Inode {
            connection: Rc::downgrade(self),
            node,
            nlookup: Cell::new(0),
            rwsem: RwLock::new(()),
            attr: Cell::new(attr),
            i_size: Cell::new(attr.size),
            i_time: Cell::new(0),
            inval_mask: Cell::new(0),
            attr_version: Cell::new(0),
            size_unstable: Cell::new(false),
            pages: Pages::default(),
            cached_opens: Cell::new(0),
        });
        let weak = Rc::downgrade(&inode);
        self.inodes.borrow_mut().insert(node, weak);
        inode
    }

    /// fuse_get_root_inode.
    pub fn root(self: &Rc<Self>) -> Rc<Inode> {
        let attr = Attr {
            ino: ROOT_INO.0,
            mode: libc::S_IFDIR,
            nlink: 1,
            size: 0,
        };
        self.new_inode(ROOT_INO.0, attr)
    }

    /// fuse_ilookup.
    pub fn find_inode(&self, node: u64) -> Option<Rc<Inode>> {
        self.inodes.borrow().get(&node).and_then(Weak::upgrade)
    }

    /// fuse_iget: the inode of an answer that counts as a lookup. `version` 0 believes its attributes in any case.
    pub async fn iget(self: &Rc<Self>, entry: &Entry, version: u64) -> Rc<Inode> {
        let found = self.find_inode(entry.node);
        let inode = found.unwrap_or_else(|| self.new_inode(entry.node, entry.attr));
        self.looked_up(&inode);
        self.change_attributes(&inode, &entry.attr, entry.attr_valid, version)
            .await;
        inode
    }

    pub fn looked_up(&self, inode: &Inode) {
        inode.nlookup.set(inode.nlookup.get() + 1);
    }

    /// fuse_change_attributes_common.
    fn take_attributes(&self, inode: &Inode, attr: &Attr, valid: u64) {
        inode.attr_version.set(self.next_version());
        inode.inval_mask.set(inode.inval_mask.get() & !BASIC);
        inode.i_time.set(self.deadline(valid));
        inode.attr.set(*attr);
    }

    /// fuse_change_attributes: an answer that is older than what is known, or that comes while a write makes the file
    /// longer, is dropped: false.
    pub async fn change_attributes(
        &self,
        inode: &Inode,
        attr: &Attr,
        valid: u64,
        version: u64,
    ) -> bool {
        let is_old = version != 0 && inode.attr_version.get() > version;
        if is_old || inode.size_unstable.get() {
            return false;
        }
        self.take_attributes(inode, attr, valid);
        let old = inode.i_size.replace(attr.size);
        if inode.kind() == Kind::File && old != attr.size {
            self.step().await;
            inode.pages.truncate(attr.size).await;
        }
        true
    }

    /// fuse_write_update_attr.
    pub fn write_update(&self, inode: &Inode, end: u64, written: usize) {
        inode.attr_version.set(self.next_version());
        if written > 0 && end > inode.i_size.get() {
            inode.i_size.set(end);
        }
        inode.invalidate_mask(MODSIZE);
    }

    /// fuse_read_update_size: a READ that `version` is older than brought less than was asked for. False: the file is
    /// taken to be longer than that all the same.
    pub fn read_update(&self, inode: &Inode, size: u64, version: u64) -> bool {
        if size >= inode.i_size.get() {
            return true;
        }
        let is_taken = version >= inode.attr_version.get() && !inode.size_unstable.get();
        if is_taken {
            inode.attr_version.set(self.next_version());
            inode.i_size.set(size);
        }
        is_taken
    }

    /// fuse_entry_unlinked, of the inode.
    pub fn unlinked(&self, inode: &Inode) {
        inode.attr_version.set(self.next_version());
        let mut attr = inode.attr.get();
        attr.nlink = match inode.kind() {
            Kind::Directory => 0,
            _ => attr.nlink.saturating_sub(1),
        };
        inode.attr.set(attr);
        inode.changed();
    }
}

impl Thread {
    pub(super) async fn ask(&self, node: u64, call: Call) -> super::connection::Answer {
        self.connection.ask(node, self.pid, call).await
    }

    /// fuse_do_getattr. What stat tells is the answer's, whether it is kept or not: which is told, too.
    async fn do_getattr(&self, inode: &Inode) -> Result<(Attr, bool), Errno> {
        let version = self.connection.version();
        let answer = self.ask(inode.node, Call::Getattr { fh: None }).await?;
        let (attr, valid) = wire::attr(answer)?;
        let changing = self
            .connection
            .change_attributes(inode, &attr, valid, version);
        Ok((attr, changing.await))
    }

    /// fuse_update_get_attr.
    pub(super) async fn update_get_attr(&self, inode: &Inode, mask: u32) -> Result<Attr, Errno> {
        if self.is_void(inode, mask) {
            return Ok(self.do_getattr(inode).await?.0);
        }
        Ok(Attr {
            size: inode.i_size.get(),
            ..inode.attr.get()
        })
    }

    fn is_void(&self, inode: &Inode, mask: u32) -> bool {
        inode.inval_mask.get() & mask != 0 || self.connection.is_over(inode.i_time.get())
    }

    /// fuse_update_attributes, of the size. False: it was asked for, and the answer was dropped.
    pub(super) async fn update_size(&self, inode: &Inode) -> Result<bool, Errno> {
        match self.is_void(inode, libc::STATX_SIZE) {
            true => Ok(self.do_getattr(inode).await?.1),
            false => Ok(true),
        }
    }

    /// fuse_permission, under `default_permissions`: root may do everything, but mode and owner are asked for.
    pub(super) async fn permission(&self, inode: &Inode) -> Result<(), Errno> {
        let mask = libc::STATX_MODE | libc::STATX_UID | libc::STATX_GID;
        self.update_get_attr(inode, mask).await?;
        Ok(())
    }

    /// vfs_getattr.
    pub(super) async fn getattr(&self, inode: &Inode) -> Result<Stat, Errno> {
        Ok(self.update_get_attr(inode, BASIC).await?.into())
    }

    /// notify_change and fuse_do_setattr, under the inode's lock.
    pub(super) async fn setattr(&self, inode: &Inode, set: SetattrIn) -> Result<Stat, Errno> {
        let connection = &self.connection;
        let _lock = inode.rwsem.write().await;
        connection.step().await;
        let truncates = set.valid & fattr::SIZE != 0;
        if truncates {
            inode.size_unstable.set(true);
        }
        let answer = self.ask(inode.node, Call::Setattr(set)).await;
        let answer = answer.and_then(wire::attr);
        let (attr, valid) = match answer {
            Ok(answer) => answer,
            Err(errno) => {
                if truncates {
                    inode.size_unstable.set(false);
                }
                return Err(errno);
            }
        };
        connection.take_attributes(inode, &attr, valid);
        let old = inode.i_size.replace(attr.size);
        if inode.kind() == Kind::File && old != attr.size {
            connection.step().await;
            inode.pages.truncate(attr.size).await;
            inode.pages.invalidate(0, u64::MAX, |_| ()).await;
        }
        inode.size_unstable.set(false);
        Ok(attr.into())
    }
}
