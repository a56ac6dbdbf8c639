//! Names (fs/namei.c, fs/dcache.c, fs/fuse/dir.c), and the system calls on them.
//!
//! A name is given with its directory, as `openat` and its kin take it.

use super::Thread;
use super::connection::{Connection, Key};
use super::inode::{Inode, Stat};
use super::wire::{self, Entry};
use crate::oracle::history::Kind;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::{Notify, RwLockWriteGuard};
use weft_client::Errno;
use weft_mount::abi::Call;

/// What an O_PATH descriptor holds.
#[derive(Clone)]
pub struct Held {
    pub(super) inode: Rc<Inode>,
    pub(super) dentry: Option<Rc<Dentry>>,
}

impl Held {
    /// Its number.
    pub fn ino(&self) -> u64 {
        self.inode.node
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.inode.kind()
    }
}

/// struct dentry. Without an inode: the name is not there.
pub(super) struct Dentry {
    key: RefCell<Key>,
    parent: RefCell<Rc<Inode>>,
    pub inode: RefCell<Option<Rc<Inode>>>,
    /// Until when it holds.
    time: Cell<u64>,
    epoch: Cell<u64>,
}

impl Dentry {
    fn inode(&self) -> Option<Rc<Inode>> {
        self.inode.borrow().clone()
    }
}

/// Flags of a lookup.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    /// LOOKUP_REVAL: the second attempt, after ESTALE.
    pub revalidate: bool,
    /// LOOKUP_EXCL or LOOKUP_RENAME_TARGET.
    pub target: bool,
}

impl Connection {
    pub(super) fn find(&self, dir: &Inode, name: &[u8]) -> Option<Rc<Dentry>> {
        let key = (dir.node, name.to_vec());
        self.dentries.borrow().get(&key).cloned()
    }

    /// d_drop.
    pub(super) fn unhash(&self, dentry: &Rc<Dentry>) {
        let key = dentry.key.borrow().clone();
        let mut dentries = self.dentries.borrow_mut();
        let is_hashed = dentries
            .get(&key)
            .is_some_and(|found| Rc::ptr_eq(found, dentry));
        // It may hold the last reference to an inode, which is forgotten then.
        let dropped = is_hashed.then(|| dentries.remove(&key));
        drop(dentries);
        drop(dropped);
    }

    /// dput: what holds no more is not kept (fuse_dentry_delete).
    pub(super) fn put(&self, dentry: Rc<Dentry>) {
        let is_last = Rc::strong_count(&dentry) == 2;
        if is_last && self.is_over(dentry.time.get()) {
            self.unhash(&dentry);
        }
    }

    /// d_splice_alias, and the entry's timeout. A directory has one name at most.
    pub(super) fn splice(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        inode: Option<Rc<Inode>>,
        (valid, epoch): (u64, u64),
    ) -> Rc<Dentry> {
        if let Some(inode) = inode
            .as_ref()
            .filter(|inode| inode.kind() == Kind::Directory)
        {
            let is_alias = |dentry: &&Rc<Dentry>| {
                let of = dentry.inode();
                of.is_some_and(|of| Rc::ptr_eq(&of, inode))
            };
            let alias = self.dentries.borrow().values().find(is_alias).cloned();
            if let Some(alias) = alias {
                self.unhash(&alias);
            }
        }
        let key = (dir.node, name.to_vec());
        let dentry = Rc::new(Dentry {
            key: RefCell::new(key.clone()),
            parent: RefCell::new(dir.clone()),
            inode: RefCell::new(inode),
            time: Cell::new(self.deadline(valid)),
            epoch: Cell::new(epoch),
        });
        let before = self.dentries.borrow_mut().insert(key, dentry.clone());
        drop(before);
        dentry
    }

    /// fuse_change_entry_timeout, as READDIRPLUS does it.
    pub(super) fn renew(&self, dentry: &Dentry, valid: u64, epoch: u64) {
        dentry.time.set(self.deadline(valid));
        dentry.epoch.set(epoch);
    }

    /// d_move: `from` takes the place of `to`.
    fn rehash(&self, from: &Rc<Dentry>, to: &Rc<Dentry>) {
        self.unhash(to);
        self.unhash(from);
        let key = to.key.borrow().clone();
        *from.key.borrow_mut() = key.clone();
        let parent = to.parent.borrow().clone();
        let before = from.parent.replace(parent);
        let replaced = self.dentries.borrow_mut().insert(key, from.clone());
        drop((before, replaced));
    }
}

impl Thread {
    /// The root directory.
    pub fn root(&self) -> Held {
        Held {
            inode: self.root.clone(),
            dentry: None,
        }
    }

    /// fuse_dentry_revalidate.
    async fn revalidate(&self, dentry: &Rc<Dentry>, how: How) -> bool {
        let connection = &self.connection;
        if dentry.epoch.get() < connection.epoch.get() {
            return false;
        }
        let inode = dentry.inode();
        let is_over = connection.is_over(dentry.time.get());
        if !is_over && !how.revalidate && !how.target {
            return true;
        }
        let Some(inode) = inode else {
            return false;
        };
        let version = connection.version();
        let (parent, name) = dentry.key.borrow().clone();
        let answer = self.ask(parent, Call::Lookup { name: name.into() }).await;
        let Ok(entry) = answer.and_then(wire::entry) else {
            return false;
        };
        if entry.node == 0 {
            return false;
        }
        if entry.node != inode.node {
            connection.forget(entry.node, 1);
            return false;
        }
        connection.looked_up(&inode);
        connection
            .change_attributes(&inode, &entry.attr, entry.attr_valid, version)
            .await;
        dentry.time.set(connection.deadline(entry.entry_valid));
        true
    }

    /// fuse_lookup.
    async fn ask_for(&self, dir: &Rc<Inode>, name: &[u8]) -> Result<Rc<Dentry>, Errno> {
        let connection = &self.connection;
        let (epoch, version) = (connection.epoch.get(), connection.version());
        let call = Call::Lookup {
            name: name.to_vec().into(),
        };
        let (inode, valid) = match self.ask(dir.node, call).await {
            Err(Errno(libc::ENOENT)) => (None, 0),
            Err(errno) => return Err(errno),
            Ok(answer) => {
                let entry = wire::entry(answer)?;
                let inode = match entry.node {
                    0 => None,
                    _ => Some(connection.iget(&entry, version).await),
                };
                (inode, entry.entry_valid)
            }
        };
        Ok(connection.splice(dir, name, inode, (valid, epoch)))
    }

    /// __lookup_slow and lookup_one_qstr_excl: under the directory's lock, shared or not.
    pub(super) async fn lookup_locked(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        how: How,
    ) -> Result<Rc<Dentry>, Errno> {
        let connection = &self.connection;
        let key = (dir.node, name.to_vec());
        loop {
            if let Some(found) = connection.find(dir, name) {
                if self.revalidate(&found, how).await {
                    return Ok(found);
                }
                connection.unhash(&found);
                continue;
            }
            let other = connection.in_lookup.borrow().get(&key).cloned();
            if let Some(other) = other {
                other.notified().await;
                continue;
            }
            let own = Rc::new(Notify::new());
            let begun = (key.clone(), own.clone());
            connection.in_lookup.borrow_mut().extend([begun]);
            let found = self.ask_for(dir, name).await;
            connection.in_lookup.borrow_mut().remove(&key);
            own.notify_waiters();
            return found;
        }
    }

    /// walk_component: lookup_fast, then lookup_slow.
    pub(super) async fn lookup(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        how: How,
    ) -> Result<Rc<Dentry>, Errno> {
        self.permission(dir).await?;
        if let Some(found) = self.connection.find(dir, name) {
            if self.revalidate(&found, how).await {
                return Ok(found);
            }
            self.connection.unhash(&found);
        }
        let _shared = dir.rwsem.read().await;
        self.lookup_locked(dir, name, how).await
    }

    /// What the VFS begins again after ESTALE, once, asking for each name (retry_estale).
    pub(super) async fn retrying<T>(
        &self,
        call: impl AsyncFn(How) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let again = How {
            revalidate: true,
            target: false,
        };
        match call(How::default()).await {
            Err(Errno(libc::ESTALE)) => call(again).await,
            result => result,
        }
    }

    /// filename_lookup, which begins again after ESTALE by itself.
    async fn resolve(&self, dir: &Held, name: &[u8], how: How) -> Result<Held, Errno> {
        let found = match self.lookup(&dir.inode, name, how).await {
            Err(Errno(libc::ESTALE)) if !how.revalidate => {
                let how = How {
                    revalidate: true,
                    ..how
                };
                self.lookup(&dir.inode, name, how).await
            }
            found => found,
        }?;
        let inode = found.inode();
        match inode {
            Some(inode) => Ok(Held {
                inode,
                dentry: Some(found),
            }),
            None => {
                self.connection.put(found);
                Err(Errno(libc::ENOENT))
            }
        }
    }

    /// Lets go of what a descriptor holds.
    pub fn release(&self, held: Held) {
        if let Some(dentry) = held.dentry {
            self.connection.put(dentry);
        }
    }

    /// openat with O_PATH and O_NOFOLLOW.
    pub async fn open_path(&self, dir: &Held, name: &[u8]) -> Result<Held, Errno> {
        self.resolve(dir, name, How::default()).await
    }

    /// fstatat.
    pub async fn stat(&self, dir: &Held, name: &[u8]) -> Result<Stat, Errno> {
        self.retrying(async |how| {
            let held = self.resolve(dir, name, how).await?;
            self.connection.step().await;
            let stat = self.getattr(&held.inode).await;
            self.release(held);
            stat
        })
        .await
    }

    /// fstat of an O_PATH descriptor.
    pub async fn stat_held(&self, held: &Held) -> Result<Stat, Errno> {
        self.getattr(&held.inode).await
    }

    /// A name's directory is locked, and the name looked up to be made (filename_create).
    async fn to_make<'a>(
        &self,
        dir: &'a Held,
        name: &[u8],
        how: How,
    ) -> Result<RwLockWriteGuard<'a, ()>, Errno> {
        self.permission(&dir.inode).await?;
        let lock = dir.inode.rwsem.write().await;
        let how = How {
            target: true,
            ..how
        };
        let found = self.lookup_locked(&dir.inode, name, how).await?;
        let is_there = found.inode().is_some();
        self.connection.put(found);
        match is_there {
            true => Err(Errno(libc::EEXIST)),
            false => Ok(lock),
        }
    }

    /// create_new_entry.
    async fn make(&self, dir: &Held, name: &[u8], call: Call) -> Result<Entry, Errno> {
        let connection = &self.connection;
        let epoch = connection.epoch.get();
        let answer = self.ask(dir.inode.node, call).await;
        let entry = match answer.and_then(wire::entry) {
            Ok(entry) => entry,
            Err(errno) => {
                if let Some(found) = connection.find(&dir.inode, name)
                    && errno == Errno(libc::EEXIST)
                {
                    connection.unhash(&found);
                }
                return Err(errno);
            }
        };
        let inode = connection.iget(&entry, 0).await;
        let times = (entry.entry_valid, epoch);
        let dentry = connection.splice(&dir.inode, name, Some(inode), times);
        connection.put(dentry);
        dir.inode.invalidate_attributes();
        Ok(entry)
    }

    /// mkdirat.
    pub async fn mkdir(&self, dir: &Held, name: &[u8], mode: u32) -> Result<Stat, Errno> {
        self.retrying(async |how| {
            let _lock = self.to_make(dir, name, how).await?;
            let call = Call::Mkdir {
                name: name.to_vec().into(),
                mode,
            };
            Ok(self.make(dir, name, call).await?.attr.into())
        })
        .await
    }

    /// linkat of what a descriptor holds.
    pub async fn link(&self, held: &Held, dir: &Held, name: &[u8]) -> Result<Stat, Errno> {
        self.retrying(async |how| {
            let _lock = self.to_make(dir, name, how).await?;
            let _inode = held.inode.rwsem.write().await;
            let call = Call::Link {
                ino: held.inode.node,
                name: name.to_vec().into(),
            };
            let entry = self.make(dir, name, call).await?;
            held.inode.changed();
            Ok(entry.attr.into())
        })
        .await
    }

    /// unlinkat: vfs_unlink or vfs_rmdir.
    pub async fn remove(&self, dir: &Held, name: &[u8], is_dir: bool) -> Result<(), Errno> {
        self.retrying(async |how| {
            self.permission(&dir.inode).await?;
            let lock = dir.inode.rwsem.write().await;
            let dentry = self.lookup_locked(&dir.inode, name, how).await?;
            self.connection.step().await;
            let removed = self.remove_entry(dir, &dentry, is_dir).await;
            drop(lock);
            self.connection.put(dentry);
            removed
        })
        .await
    }

    async fn remove_entry(
        &self,
        dir: &Held,
        dentry: &Rc<Dentry>,
        is_dir: bool,
    ) -> Result<(), Errno> {
        let inode = dentry.inode().ok_or(Errno(libc::ENOENT))?;
        self.permission(&dir.inode).await?;
        match (inode.kind() == Kind::Directory, is_dir) {
            (true, false) => return Err(Errno(libc::EISDIR)),
            (false, true) => return Err(Errno(libc::ENOTDIR)),
            _ => {}
        }
        let _inode = inode.rwsem.write().await;
        let name = dentry.key.borrow().1.clone().into();
        let call = match is_dir {
            true => Call::Rmdir { name },
            false => Call::Unlink { name },
        };
        let removed = self.ask(dir.inode.node, call).await;
        match removed {
            Ok(_) => {
                dir.inode.invalidate_attributes();
                self.connection.unlinked(&inode);
                self.connection.unhash(dentry);
                Ok(())
            }
            Err(errno) => {
                if errno == Errno(libc::ENOENT) {
                    self.connection.unhash(dentry);
                }
                Err(errno)
            }
        }
    }

    /// renameat2. `flags`: those of the system call.
    pub async fn rename(
        &self,
        (dir, name): (&Held, &[u8]),
        (new_dir, new_name): (&Held, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        let renaming = &self.connection.renaming;
        renaming.borrow_mut().insert(self.pid);
        let renamed = self
            .retrying(async |how| {
                self.permission(&dir.inode).await?;
                self.permission(&new_dir.inode).await?;
                // lock_rename: both, always in the same order.
                let (first, second) = match dir.ino() <= new_dir.ino() {
                    true => (&dir.inode, &new_dir.inode),
                    false => (&new_dir.inode, &dir.inode),
                };
                let _first = first.rwsem.write().await;
                let _second = match first.node == second.node {
                    true => None,
                    false => Some(second.rwsem.write().await),
                };
                let source = self.lookup_locked(&dir.inode, name, how).await?;
                if source.inode().is_none() {
                    self.connection.put(source);
                    return Err(Errno(libc::ENOENT));
                }
                self.connection.step().await;
                let how = How {
                    target: true,
                    ..how
                };
                let target = self.lookup_locked(&new_dir.inode, new_name, how).await;
                let renamed = match &target {
                    Ok(target) => {
                        let dirs = (&dir.inode, &new_dir.inode);
                        self.rename_entries(dirs, &source, target, flags).await
                    }
                    Err(errno) => Err(*errno),
                };
                self.connection.put(source);
                if let Ok(target) = target {
                    self.connection.put(target);
                }
                renamed
            })
            .await;
        renaming.borrow_mut().remove(&self.pid);
        renamed
    }

    /// vfs_rename and fuse_rename_common.
    async fn rename_entries(
        &self,
        (dir, new_dir): (&Rc<Inode>, &Rc<Inode>),
        source: &Rc<Dentry>,
        target: &Rc<Dentry>,
        flags: u32,
    ) -> Result<(), Errno> {
        let connection = &self.connection;
        let moved = source.inode().ok_or(Errno(libc::ENOENT))?;
        let replaced = target.inode();
        let is_exchange = flags & libc::RENAME_EXCHANGE != 0;
        if replaced.is_some() && flags & libc::RENAME_NOREPLACE != 0 {
            return Err(Errno(libc::EEXIST));
        }
        if replaced.is_none() && is_exchange {
            return Err(Errno(libc::ENOENT));
        }
        // Two names of one file: nothing is to be done, and nobody is asked.
        if replaced
            .as_ref()
            .is_some_and(|other| Rc::ptr_eq(other, &moved))
        {
            return Ok(());
        }
        self.permission(dir).await?;
        self.permission(new_dir).await?;
        let is_dir = |inode: &Rc<Inode>| inode.kind() == Kind::Directory;
        if let Some(replaced) = replaced.as_ref().filter(|_| !is_exchange) {
            match (is_dir(&moved), is_dir(replaced)) {
                (true, false) => return Err(Errno(libc::ENOTDIR)),
                (false, true) => return Err(Errno(libc::EISDIR)),
                _ => {}
            }
        }
        let name = source.key.borrow().1.clone().into();
        let new_name = target.key.borrow().1.clone().into();
        let call = Call::Rename {
            name,
            new_parent: new_dir.node,
            new_name,
            flags,
        };
        match self.ask(dir.node, call).await {
            Ok(_) => {}
            Err(errno) => {
                if errno == Errno(libc::ENOENT) {
                    connection.unhash(source);
                    connection.unhash(target);
                }
                return Err(errno);
            }
        }
        moved.changed();
        dir.invalidate_attributes();
        new_dir.invalidate_attributes();
        match replaced {
            Some(other) if is_exchange => {
                other.changed();
                self.exchange(source, target);
            }
            replaced => {
                if let Some(replaced) = replaced {
                    connection.unlinked(&replaced);
                }
                connection.rehash(source, target);
            }
        }
        Ok(())
    }

    /// d_exchange.
    fn exchange(&self, one: &Rc<Dentry>, other: &Rc<Dentry>) {
        let connection = &self.connection;
        connection.unhash(one);
        connection.unhash(other);
        one.key.swap(&other.key);
        one.parent.swap(&other.parent);
        for dentry in [one, other] {
            let key = dentry.key.borrow().clone();
            let before = connection.dentries.borrow_mut().insert(key, dentry.clone());
            drop(before);
        }
    }
}
