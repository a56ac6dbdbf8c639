//! Open files (fs/fuse/file.c, and filemap_read of mm/filemap.c), and the system calls on them.

use super::Thread;
use super::connection::Connection;
use super::inode::{Inode, Stat};
use super::names::{Dentry, Held, How};
use super::pages::{PAGE, Page};
use super::wire::{self, Opened};
use crate::oracle::history::Kind;
use crate::oracle::seams::ByCache;
use bytes::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::oneshot;
use weft_client::Errno;
use weft_mount::abi::{self, Call, SetattrIn, fattr, fopen};
use weft_mount::device::DATA_MAX;

/// Pages that a read takes at once (PAGEVEC_SIZE).
const BATCH: usize = 15;
/// Pages that are read ahead at most beyond those that are asked for.
const AHEAD: u64 = 8;

/// An open file.
pub struct File {
    inode: Rc<Inode>,
    /// It keeps its name in the cache (f_path).
    dentry: Option<Rc<Dentry>>,
    fh: u64,
    flags: i32,
    is_direct: bool,
    is_parallel: bool,
    /// Where `read` goes on (f_pos).
    position: Cell<u64>,
}

impl File {
    /// Its number.
    pub fn ino(&self) -> u64 {
        self.inode.node
    }

    /// An O_PATH descriptor of the same.
    pub fn held(&self) -> Held {
        Held {
            inode: self.inode.clone(),
            dentry: self.dentry.clone(),
        }
    }

    /// It goes past the page cache (FOPEN_DIRECT_IO).
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }
}

/// What SETATTR changes if nothing else is said.
fn set(valid: u32) -> SetattrIn {
    SetattrIn {
        valid,
        fh: 0,
        size: 0,
        atime: (0, 0),
        mtime: (0, 0),
        mode: 0,
        uid: 0,
        gid: 0,
    }
}

impl Thread {
    /// openat. `flags`: those of the system call; `mode` counts with O_CREAT.
    pub async fn open(
        &self,
        dir: &Held,
        name: &[u8],
        flags: i32,
        mode: u32,
    ) -> Result<File, Errno> {
        self.retrying(async |how| {
            if flags & libc::O_CREAT != 0 {
                return self.open_or_create(dir, name, (flags, mode), how).await;
            }
            let dentry = self.lookup(&dir.inode, name, how).await?;
            self.open_entry(dentry, flags).await
        })
        .await
    }

    /// open of what an O_PATH descriptor holds, by way of /proc/self/fd.
    pub async fn open_held(&self, held: &Held, flags: i32) -> Result<File, Errno> {
        self.do_open(&held.inode, held.dentry.clone(), flags).await
    }

    async fn open_entry(&self, dentry: Rc<Dentry>, flags: i32) -> Result<File, Errno> {
        let inode = dentry.inode.borrow().clone();
        let Some(inode) = inode else {
            self.connection.put(dentry);
            return Err(Errno(libc::ENOENT));
        };
        let opened = self.do_open(&inode, Some(dentry.clone()), flags).await;
        self.connection.put(dentry);
        opened
    }

    /// lookup_open under O_CREAT, and fuse_atomic_open.
    async fn open_or_create(
        &self,
        dir: &Held,
        name: &[u8],
        (flags, mode): (i32, u32),
        how: How,
    ) -> Result<File, Errno> {
        let connection = &self.connection;
        let is_exclusive = flags & libc::O_EXCL != 0;
        self.permission(&dir.inode).await?;
        let how = How {
            target: is_exclusive,
            ..how
        };
        let lock = dir.inode.rwsem.write().await;
        let dentry = self.lookup_locked(&dir.inode, name, how).await?;
        if dentry.inode.borrow().is_some() {
            drop(lock);
            if is_exclusive {
                connection.put(dentry);
                return Err(Errno(libc::EEXIST));
            }
            return self.open_entry(dentry, flags).await;
        }
        let epoch = connection.epoch.get();
        let call = Call::Create {
            name: name.to_vec().into(),
            flags: flags as u32,
            mode: libc::S_IFREG | mode,
            kill_suidgid: false,
        };
        let created = self.ask(dir.inode.node, call).await.and_then(wire::create);
        let (entry, opened) = match created {
            Ok(created) => created,
            Err(errno) => {
                if errno == Errno(libc::EEXIST) {
                    connection.unhash(&dentry);
                }
                return Err(errno);
            }
        };
        let inode = connection.iget(&entry, 0).await;
        let times = (entry.entry_valid, epoch);
        let dentry = connection.splice(&dir.inode, name, Some(inode.clone()), times);
        dir.inode.invalidate_attributes();
        Ok(self.finish_open(&inode, Some(dentry), flags, opened).await)
    }

    /// do_open: may_open, fuse_open, handle_truncate.
    async fn do_open(
        &self,
        inode: &Rc<Inode>,
        dentry: Option<Rc<Dentry>>,
        flags: i32,
    ) -> Result<File, Errno> {
        if inode.kind() == Kind::Directory {
            return Err(Errno(libc::EISDIR));
        }
        self.connection.step().await;
        self.permission(inode).await?;
        let asked = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_NOCTTY | libc::O_TRUNC);
        let call = Call::Open {
            flags: asked as u32,
        };
        let opened = wire::open(self.ask(inode.node, call).await?)?;
        let file = self.finish_open(inode, dentry, flags, opened).await;
        if flags & libc::O_TRUNC != 0 {
            let valid = fattr::SIZE | fattr::MTIME | fattr::MTIME_NOW;
            if let Err(errno) = self.setattr(inode, set(valid)).await {
                let _ = self.close(file).await;
                return Err(errno);
            }
        }
        Ok(file)
    }

    /// fuse_finish_open.
    async fn finish_open(
        &self,
        inode: &Rc<Inode>,
        dentry: Option<Rc<Dentry>>,
        flags: i32,
        opened: Opened,
    ) -> File {
        let is_direct = opened.flags & fopen::DIRECT_IO != 0;
        if !is_direct {
            inode.cached_opens.set(inode.cached_opens.get() + 1);
        }
        if opened.flags & fopen::KEEP_CACHE == 0 {
            inode.pages.invalidate(0, u64::MAX, |_| ()).await;
        }
        File {
            inode: inode.clone(),
            dentry,
            fh: opened.fh,
            flags,
            is_direct,
            is_parallel: opened.flags & fopen::PARALLEL_DIRECT_WRITES != 0,
            position: Cell::new(0),
        }
    }

    /// close: fuse_flush and fuse_release.
    pub async fn close(&self, file: File) -> Result<(), Errno> {
        let call = Call::Flush {
            fh: file.fh,
            lock_owner: u64::from(self.pid),
        };
        let flushed = self.ask(file.inode.node, call).await;
        if !file.is_direct {
            let opens = file.inode.cached_opens.get();
            file.inode.cached_opens.set(opens.saturating_sub(1));
        }
        let call = Call::Release {
            fh: file.fh,
            flags: 0,
            lock_owner: 0,
        };
        // Nobody waits for it; the inode is kept until it is answered.
        let inode = file.inode.clone();
        let then = Box::new(move |_: super::connection::Answer| drop(inode));
        self.connection.send(file.inode.node, self.pid, call, then);
        flushed.map(drop)
    }

    /// fstat.
    pub async fn fstat(&self, file: &File) -> Result<Stat, Errno> {
        self.getattr(&file.inode).await
    }

    /// ftruncate.
    pub async fn ftruncate(&self, file: &File, size: u64) -> Result<Stat, Errno> {
        let valid = fattr::SIZE | fattr::FH;
        let set = SetattrIn {
            fh: file.fh,
            size,
            ..set(valid)
        };
        self.setattr(&file.inode, set).await
    }

    /// truncate of what an O_PATH descriptor holds.
    pub async fn truncate(&self, held: &Held, size: u64) -> Result<Stat, Errno> {
        if held.kind() != Kind::File {
            return Err(Errno(libc::EINVAL));
        }
        let set = SetattrIn {
            size,
            ..set(fattr::SIZE)
        };
        self.setattr(&held.inode, set).await
    }

    /// chmod of what an O_PATH descriptor holds.
    pub async fn chmod(&self, held: &Held, mode: u32) -> Result<Stat, Errno> {
        let set = SetattrIn {
            mode,
            ..set(fattr::MODE)
        };
        self.setattr(&held.inode, set).await
    }

    /// fchmodat.
    pub async fn chmod_name(&self, dir: &Held, name: &[u8], mode: u32) -> Result<(), Errno> {
        self.retrying(async |how| {
            let dentry = self.lookup(&dir.inode, name, how).await?;
            let inode = dentry.inode.borrow().clone();
            let inode = inode.ok_or(Errno(libc::ENOENT))?;
            let set = SetattrIn {
                mode,
                ..set(fattr::MODE)
            };
            let changed = self.setattr(&inode, set).await;
            drop(inode);
            self.connection.put(dentry);
            changed.map(drop)
        })
        .await
    }

    /// fsync.
    pub async fn fsync(&self, file: &File, data_only: bool) -> Result<(), Errno> {
        let _lock = file.inode.rwsem.write().await;
        let call = Call::Fsync {
            fh: file.fh,
            data_only,
        };
        self.ask(file.inode.node, call).await.map(drop)
    }

    /// read: as pread at the descriptor's offset, which goes on.
    pub async fn read(&self, file: &File, length: usize) -> Result<Vec<u8>, Errno> {
        let bytes = self.pread(file, file.position.get(), length).await?;
        file.position.set(file.position.get() + bytes.len() as u64);
        Ok(bytes)
    }

    /// pread.
    pub async fn pread(&self, file: &File, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let (bytes, _) = self.pread_and_how(file, offset, length).await?;
        Ok(bytes)
    }

    /// pread, and how it went if it went by way of the page cache.
    pub async fn pread_and_how(
        &self,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, Option<ByCache>), Errno> {
        self.connection.step().await;
        if file.is_direct {
            let bytes = self.direct_read(file, offset, length).await?;
            return Ok((bytes, None));
        }
        let (bytes, how) = self.cached_read(file, offset, length).await?;
        Ok((bytes, Some(how)))
    }

    /// Eight bytes of one page, read by way of a shared mapping (filemap_fault). Whoever asked for the page may look at it
    /// once it holds what it is to hold, before one that waits for its lock takes it away.
    pub async fn load(&self, file: &File, offset: u64) -> Result<[u8; 8], Errno> {
        self.connection.step().await;
        let within = (offset % PAGE) as usize;
        loop {
            let pages = self.get_pages(file, offset, offset + 8).await?;
            self.connection.step().await;
            let page = pages.first().filter(|page| page.is_mapped.get());
            let loaded = page.and_then(|page| {
                let data = page.data.borrow();
                data[within..].first_chunk().copied()
            });
            if let Some(bytes) = loaded {
                return Ok(bytes);
            }
        }
    }

    fn read_call(&self, file: &File, offset: u64, length: usize, flags: u32) -> Call {
        Call::Read {
            fh: file.fh,
            offset,
            size: length as u32,
            flags,
        }
    }

    /// fuse_direct_io. It never looks at i_size.
    async fn direct_read(&self, file: &File, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let part = (length - bytes.len()).min(DATA_MAX);
            let at = offset + bytes.len() as u64;
            let call = self.read_call(file, at, part, abi::READ_LOCKOWNER);
            match self.ask(file.inode.node, call).await {
                Ok(read) => {
                    bytes.extend_from_slice(&read);
                    if read.len() < part {
                        break;
                    }
                }
                Err(errno) if bytes.is_empty() => return Err(errno),
                Err(_) => break,
            }
        }
        file.inode.invalidate_atime();
        Ok(bytes)
    }

    /// fuse_cache_read_iter and filemap_read.
    async fn cached_read(
        &self,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, ByCache), Errno> {
        let (inode, began) = (&file.inode, self.connection.now());
        let end = offset.saturating_add(length as u64);
        let mut how = ByCache {
            saw_end: true,
            made_up_from: u64::MAX,
        };
        if end > inode.i_size.get() {
            how.saw_end = self.update_size(inode).await?;
        }
        let (mut position, mut bytes) = (offset, Vec::new());
        while position < end && position < inode.i_size.get() {
            let pages = match self.get_pages(file, position, end).await {
                Ok(pages) => pages,
                Err(errno) if bytes.is_empty() => return Err(errno),
                Err(_) => {
                    how.saw_end = false;
                    break;
                }
            };
            self.connection.step().await;
            // i_size is looked at once the pages are known to hold what they are to hold.
            let size = inode.i_size.get();
            if position >= size {
                break;
            }
            self.connection.step().await;
            let stop = size.min(end);
            for page in pages {
                let start = page.index * PAGE;
                if position >= stop {
                    break;
                }
                let (from, to) = (position - start, (stop - start).min(PAGE));
                if let Some((at, made)) = page.padded.get()
                    && made >= began
                {
                    how.made_up_from = how.made_up_from.min((start + at).max(offset));
                }
                bytes.extend_from_slice(&page.data.borrow()[from as usize..to as usize]);
                position = start + to;
            }
            if position >= size {
                break;
            }
        }
        Ok((bytes, how))
    }

    /// filemap_get_pages: some that hold what they are to hold, from the one of `position` on.
    async fn get_pages(
        &self,
        file: &File,
        position: u64,
        end: u64,
    ) -> Result<Vec<Rc<Page>>, Errno> {
        let inode = &file.inode;
        let (index, last) = (position / PAGE, (end - 1) / PAGE);
        let page = loop {
            if inode.pages.get(index).is_none() {
                self.read_ahead(file, index, last);
                self.connection.step().await;
            }
            let Some(page) = inode.pages.get(index) else {
                // filemap_create_folio.
                let page = inode.pages.add(index);
                self.read_page(file, &page).await?;
                break page;
            };
            if page.is_uptodate.get() {
                break page;
            }
            // filemap_update_page.
            page.lock().await;
            self.connection.step().await;
            if !page.is_mapped.get() {
                page.unlock();
                continue;
            }
            if page.is_uptodate.get() {
                page.unlock();
            } else {
                self.read_page(file, &page).await?;
            }
            break page;
        };
        let mut pages = vec![page];
        for index in index + 1..=last {
            match inode.pages.get(index) {
                Some(page) if page.is_uptodate.get() && pages.len() < BATCH => pages.push(page),
                _ => break,
            }
        }
        Ok(pages)
    }

    /// fuse_read_folio: into a page that is locked, which it unlocks.
    async fn read_page(&self, file: &File, page: &Rc<Page>) -> Result<(), Errno> {
        let (connection, inode) = (&self.connection, &file.inode);
        let version = connection.version();
        let (answered, answer) = oneshot::channel();
        let filled = page.clone();
        let then = move |answer: super::connection::Answer| {
            let length = answer.map(|bytes| {
                filled.fill(&bytes);
                bytes.len() as u64
            });
            let _ = answered.send(length);
        };
        let call = self.read_call(file, page.index * PAGE, PAGE as usize, 0);
        connection.send(inode.node, self.pid, call, Box::new(then));
        let length = answer.await.unwrap_or(Err(Errno(libc::ENOTCONN)));
        connection.step().await;
        let read = length.map(|length| {
            if length < PAGE && !connection.read_update(inode, page.index * PAGE + length, version)
            {
                page.padded.set(Some((length, connection.now())));
            }
            page.is_uptodate.set(true);
        });
        inode.invalidate_atime();
        page.unlock();
        read
    }

    /// page_cache_ra_unbounded and fuse_readahead: what is not there of pages up to `last` and a few more, but for
    /// what lies beyond i_size.
    fn read_ahead(&self, file: &File, index: u64, last: u64) {
        let (connection, inode) = (&self.connection, &file.inode);
        let Some(final_byte) = inode.i_size.get().checked_sub(1) else {
            return;
        };
        let last = (last + connection.draw(AHEAD)).min(final_byte / PAGE);
        let mut pages: Vec<Rc<Page>> = Vec::new();
        for index in index..=last {
            match inode.pages.get(index) {
                None => pages.push(inode.pages.add(index)),
                Some(_) => self.send_read_ahead(file, std::mem::take(&mut pages)),
            }
            if pages.len() * PAGE as usize == DATA_MAX {
                self.send_read_ahead(file, std::mem::take(&mut pages));
            }
        }
        self.send_read_ahead(file, pages);
    }

    /// fuse_send_readpages; fuse_readpages_end runs in the thread of whoever answers.
    fn send_read_ahead(&self, file: &File, pages: Vec<Rc<Page>>) {
        let Some(first) = pages.first().map(|page| page.index) else {
            return;
        };
        let connection = self.connection.clone();
        let (inode, version) = (file.inode.clone(), connection.version());
        let length = pages.len() * PAGE as usize;
        let call = self.read_call(file, first * PAGE, length, 0);
        let then = move |answer: super::connection::Answer| {
            if let Ok(bytes) = &answer {
                for (number, page) in pages.iter().enumerate() {
                    let from = bytes.len().min(number * PAGE as usize);
                    page.fill(&bytes[from..]);
                }
                let end = first * PAGE + bytes.len() as u64;
                if bytes.len() < length && !connection.read_update(&inode, end, version) {
                    let last = pages.iter().filter(|page| end < (page.index + 1) * PAGE);
                    for page in last {
                        let at = end.saturating_sub(page.index * PAGE);
                        page.padded.set(Some((at, connection.now())));
                    }
                }
            }
            inode.invalidate_atime();
            for page in &pages {
                page.is_uptodate.set(answer.is_ok());
                page.unlock();
            }
        };
        let node = file.inode.node;
        self.connection.send(node, self.pid, call, Box::new(then));
    }

    /// pwrite; with O_APPEND the bytes go to the end. Returns where the kernel believes they went, and how many.
    pub async fn pwrite(
        &self,
        file: &File,
        offset: u64,
        data: Bytes,
    ) -> Result<(u64, usize), Errno> {
        self.pwrite_telling(file, offset, data, &|_| ()).await
    }

    /// pwrite; `sent` is told where each WRITE by way of the page cache ends that others follow.
    pub async fn pwrite_telling(
        &self,
        file: &File,
        offset: u64,
        data: Bytes,
        sent: &dyn Fn(u64),
    ) -> Result<(u64, usize), Errno> {
        self.connection.step().await;
        if file.is_direct {
            return self.direct_write(file, offset, data).await;
        }
        self.cached_write(file, offset, data, sent).await
    }

    fn write_call(&self, file: &File, offset: u64, data: Bytes) -> Call {
        Call::Write {
            fh: file.fh,
            offset,
            flags: 0,
            open_flags: file.flags as u32,
            data,
        }
    }

    /// generic_write_checks.
    fn place(&self, file: &File, offset: u64) -> u64 {
        match file.flags & libc::O_APPEND {
            0 => offset,
            _ => file.inode.i_size.get(),
        }
    }

    /// fuse_cache_write_iter and fuse_perform_write: through the pages.
    async fn cached_write(
        &self,
        file: &File,
        offset: u64,
        data: Bytes,
        sent: &dyn Fn(u64),
    ) -> Result<(u64, usize), Errno> {
        let (connection, inode) = (&self.connection, &file.inode);
        let _lock = inode.rwsem.write().await;
        connection.step().await;
        let start = self.place(file, offset);
        if inode.i_size.get() < start + data.len() as u64 {
            inode.size_unstable.set(true);
        }
        let (mut written, mut failure) = (0, None);
        while written < data.len() && failure.is_none() {
            let left = data.slice(written..);
            let from = start + written as u64;
            match self.write_pages(file, from, left, sent).await {
                Ok((taken, count)) => {
                    written += taken;
                    if taken != count {
                        failure = Some(Errno(libc::EIO));
                    }
                }
                Err(errno) => failure = Some(errno),
            }
        }
        connection.write_update(inode, start + written as u64, written);
        inode.size_unstable.set(false);
        match failure {
            Some(errno) if written == 0 => Err(errno),
            _ => Ok((start, written)),
        }
    }

    /// fuse_fill_write_pages and fuse_send_write_pages: as much as one WRITE takes. Returns what was taken of what was
    /// sent.
    async fn write_pages(
        &self,
        file: &File,
        start: u64,
        data: Bytes,
        sent: &dyn Fn(u64),
    ) -> Result<(usize, usize), Errno> {
        let inode = &file.inode;
        let (mut pages, mut count, mut locked) = (Vec::new(), 0, None);
        while count < data.len().min(DATA_MAX) {
            let at = start + count as u64;
            let from = (at % PAGE) as usize;
            let length = (PAGE as usize - from).min(data.len().min(DATA_MAX) - count);
            let page = inode.pages.grab(at / PAGE).await;
            page.write(from, &data[count..count + length]);
            if length == PAGE as usize {
                page.is_uptodate.set(true);
            }
            count += length;
            pages.push((page.clone(), length));
            if page.is_uptodate.get() {
                page.unlock();
            } else {
                // It stays locked until the answer has come.
                locked = Some(page);
                break;
            }
            self.connection.step().await;
        }
        if count < data.len() {
            sent(start + count as u64);
        }
        let call = self.write_call(file, start, data.slice(..count));
        let answer = self.ask(inode.node, call).await.and_then(wire::written);
        let mut left = answer.unwrap_or(0);
        for (page, length) in &pages {
            if left < *length {
                page.is_uptodate.set(false);
            }
            left = left.saturating_sub(*length);
        }
        if let Some(page) = locked {
            page.unlock();
        }
        Ok((answer?, count))
    }

    /// fuse_direct_write_iter and fuse_direct_io.
    async fn direct_write(
        &self,
        file: &File,
        offset: u64,
        data: Bytes,
    ) -> Result<(u64, usize), Errno> {
        let inode = &file.inode;
        let is_append = file.flags & libc::O_APPEND != 0;
        let end = offset + data.len() as u64;
        // fuse_dio_wr_exclusive_lock.
        let is_exclusive = !file.is_parallel
            || is_append
            || end > inode.i_size.get()
            || inode.cached_opens.get() > 0;
        if is_exclusive {
            let _lock = inode.rwsem.write().await;
            self.write_past_cache(file, offset, data).await
        } else {
            let _lock = inode.rwsem.read().await;
            self.write_past_cache(file, offset, data).await
        }
    }

    async fn write_past_cache(
        &self,
        file: &File,
        offset: u64,
        data: Bytes,
    ) -> Result<(u64, usize), Errno> {
        let (connection, inode): (&Rc<Connection>, _) = (&self.connection, &file.inode);
        connection.step().await;
        let start = self.place(file, offset);
        if data.is_empty() {
            return Ok((start, 0));
        }
        let (first, last) = (start / PAGE, (start + data.len() as u64 - 1) / PAGE);
        inode.pages.invalidate(first, last, |_| ()).await;
        let (mut written, mut failure) = (0, None);
        while written < data.len() && failure.is_none() {
            let part = data.slice(written..data.len().min(written + DATA_MAX));
            let sent = part.len();
            let call = self.write_call(file, start + written as u64, part);
            match self.ask(inode.node, call).await.and_then(wire::written) {
                Ok(taken) => {
                    written += taken;
                    if taken < sent {
                        break;
                    }
                }
                Err(errno) => failure = Some(errno),
            }
        }
        if written > 0 {
            inode.pages.invalidate(first, last, |_| ()).await;
        }
        connection.write_update(inode, start + written as u64, written);
        match failure {
            Some(errno) if written == 0 => Err(errno),
            _ => Ok((start, written)),
        }
    }
}
