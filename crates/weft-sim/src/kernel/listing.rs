//! Listings (fs/fuse/readdir.c).

use super::Thread;
use super::connection::Answer;
use super::inode::{Inode, kind_of};
use super::names::Held;
use super::wire::{self, Listed};
use crate::oracle::history::Kind;
use std::rc::Rc;
use weft_client::Errno;
use weft_mount::abi::Call;

/// Bytes that are asked for at once.
const BUFFER: u32 = 4096;

impl Thread {
    /// opendir, readdir to the end, closedir; without `.` and `..`.
    pub async fn list(&self, dir: &Held) -> Result<Vec<(Vec<u8>, u64, Kind)>, Errno> {
        let inode = &dir.inode;
        self.permission(inode).await?;
        let call = Call::Opendir { flags: 0 };
        let fh = wire::open(self.ask(inode.node, call).await?)?.fh;
        let listed = self.read_all(inode, fh).await;
        let done = Box::new(|_: Answer| ());
        let call = Call::Releasedir { fh };
        self.connection.send(inode.node, self.pid, call, done);
        listed
    }

    async fn read_all(&self, dir: &Rc<Inode>, fh: u64) -> Result<Vec<(Vec<u8>, u64, Kind)>, Errno> {
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let _shared = dir.rwsem.read().await;
            // fuse_use_readdirplus: at the beginning always.
            let plus = offset == 0;
            let version = self.connection.version();
            let call = Call::Readdir {
                fh,
                offset,
                size: BUFFER,
                plus,
            };
            let page = wire::listing(self.ask(dir.node, call).await?, plus)?;
            let Some(last) = page.last() else {
                return Ok(all);
            };
            offset = last.cookie;
            for entry in page {
                if matches!(&entry.name[..], b"." | b"..") {
                    continue;
                }
                self.link_listed(dir, &entry, version).await;
                let kind = kind_of(entry.kind << 12);
                all.push((entry.name, entry.ino, kind));
            }
        }
    }

    /// fuse_direntplus_link. The epoch is that of now, not that of when the listing was asked for.
    async fn link_listed(&self, dir: &Rc<Inode>, listed: &Listed, version: u64) {
        let connection = &self.connection;
        let Some(entry) = listed.entry.filter(|entry| entry.node != 0) else {
            return;
        };
        connection.step().await;
        let epoch = connection.epoch.get();
        if let Some(found) = connection.find(dir, &listed.name) {
            let inode = found.inode.borrow().clone();
            if let Some(inode) = inode.filter(|inode| inode.node == entry.node) {
                connection.looked_up(&inode);
                connection
                    .change_attributes(&inode, &entry.attr, entry.attr_valid, version)
                    .await;
                connection.renew(&found, entry.entry_valid, epoch);
                return;
            }
            connection.unhash(&found);
        }
        let key = (dir.node, listed.name.clone());
        if connection.in_lookup.borrow().contains_key(&key) {
            // It would wait for that lookup; what that finds is as good.
            connection.forget(entry.node, 1);
            return;
        }
        let inode = connection.iget(&entry, version).await;
        let times = (entry.entry_valid, epoch);
        let dentry = connection.splice(dir, &listed.name, Some(inode), times);
        connection.put(dentry);
    }
}
