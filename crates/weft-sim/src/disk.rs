//! Disks: what is written, and what survives a power cut.
//!
//! A file is pages, as processes see them, and beside them the durable state of those pages that
//! differ from it. `sync_data` makes durable what had been written when it was called. Names work
//! alike: creations, renames and removals are pending until the directory is synced.
//!
//! A killed process loses nothing but what it had under way: of a write in flight any first pages
//! may be done. A power cut keeps, of everything pending, what it likes: each page old, new, or
//! torn at sectors; each name operation done or not (in an order that a file system could produce).

use crate::driver::dead;
use crate::executor::{Mark, Sleep};
use crate::rng::Rng;
use crate::world::Inner;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use weft_env::{DirItem, File, FileDriver, OpenMode, SpaceReport};

const PAGE: u64 = 4096;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

type Page = Rc<[u8; PAGE as usize]>;

/// What a disk does wrong, and how quick it is. All chances are in parts per million of the
/// operations.
#[derive(Clone, Debug)]
pub struct DiskFaults {
    /// Reads that fail with EIO.
    pub read_error_ppm: u32,
    /// Writes that fail with EIO, having written any part.
    pub write_error_ppm: u32,
    /// Syncs that fail with EIO: what they should have made durable never will be.
    pub sync_error_ppm: u32,
    /// Nanoseconds of a read that the page cache does not have (one in four).
    pub read_nanos: Range<u64>,
    /// Nanoseconds of a write into the page cache.
    pub write_nanos: Range<u64>,
    /// Nanoseconds of a sync.
    pub sync_nanos: Range<u64>,
}

impl Default for DiskFaults {
    /// No faults; an SSD.
    fn default() -> DiskFaults {
        DiskFaults {
            read_error_ppm: 0,
            write_error_ppm: 0,
            sync_error_ppm: 0,
            read_nanos: 50_000..300_000,
            write_nanos: 3_000..60_000,
            sync_nanos: 200_000..4_000_000,
        }
    }
}

#[derive(Default)]
struct FileState {
    pages: BTreeMap<u64, Page>,
    length: u64,
    /// Pages whose durable content is another (or none).
    differing: BTreeMap<u64, Option<Page>>,
    durable_length: u64,
    /// Pages that a failed sync has lost: a later sync does not make them durable.
    lost: BTreeSet<u64>,
    names: u32,
    open: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Directory,
    File(u64),
}

/// A name operation that is not durable yet: what each path holds afterwards.
struct NameChange {
    after: Vec<(PathBuf, Option<Entry>)>,
}

impl NameChange {
    fn directories(&self) -> impl Iterator<Item = &Path> {
        self.after.iter().filter_map(|(path, _)| path.parent())
    }
}

struct WriteInFlight {
    file: u64,
    offset: u64,
    data: Vec<u8>,
}

struct DiskState {
    files: BTreeMap<u64, FileState>,
    names: BTreeMap<PathBuf, Entry>,
    durable_names: BTreeMap<PathBuf, Entry>,
    pending_names: Vec<NameChange>,
    in_flight: BTreeMap<u64, WriteInFlight>,
    next_file: u64,
    capacity: u64,
    used: u64,
    /// The device answers nothing for as long as this is set.
    hung: bool,
    waiting: Vec<Waker>,
    faults: DiskFaults,
    rng: Rng,
    timing: Rng,
    faulty: Rng,
}

pub(crate) struct Disks(RefCell<Vec<DiskState>>);

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl FileState {
    fn dirty(&mut self, page: u64) {
        self.lost.remove(&page);
        if !self.differing.contains_key(&page) {
            self.differing.insert(page, self.pages.get(&page).cloned());
        }
    }

    /// Writes within the pages; returns how many pages were added.
    fn write(&mut self, offset: u64, data: &[u8]) -> u64 {
        let mut added = 0;
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let (index, within) = (at / PAGE, (at % PAGE) as usize);
            let part = rest.len().min(PAGE as usize - within);
            self.dirty(index);
            let page = self.pages.entry(index).or_insert_with(|| {
                added += 1;
                Rc::new([0; PAGE as usize])
            });
            Rc::make_mut(page)[within..within + part].copy_from_slice(&rest[..part]);
            rest = &rest[part..];
            at += part as u64;
        }
        self.length = self.length.max(at);
        added
    }

    /// Zeros `start..end`; whole pages become holes. Returns how many pages were taken away.
    fn zero(&mut self, start: u64, end: u64) -> u64 {
        let mut taken = 0;
        let indices: Vec<u64> = self
            .pages
            .range(start / PAGE..end.div_ceil(PAGE))
            .map(|(&index, _)| index)
            .collect();
        for index in indices {
            self.dirty(index);
            let from = start.saturating_sub(index * PAGE).min(PAGE) as usize;
            let to = end.saturating_sub(index * PAGE).min(PAGE) as usize;
            if from == 0 && to == PAGE as usize {
                self.pages.remove(&index);
                taken += 1;
            } else if let Some(page) = self.pages.get_mut(&index) {
                Rc::make_mut(page)[from..to].fill(0);
            }
        }
        taken
    }

    fn read(&self, offset: u64, length: usize) -> Bytes {
        let end = self.length.min(offset.saturating_add(length as u64));
        if offset >= end {
            return Bytes::new();
        }
        let mut data = vec![0; (end - offset) as usize];
        for (&index, page) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let begin = (index * PAGE).max(offset);
            let finish = ((index + 1) * PAGE).min(end);
            if begin < finish {
                data[(begin - offset) as usize..(finish - offset) as usize].copy_from_slice(
                    &page[(begin - index * PAGE) as usize..(finish - index * PAGE) as usize],
                );
            }
        }
        data.into()
    }

    /// Leaves what a power cut leaves.
    fn lose_power(&mut self, rng: &mut Rng) {
        let cut_short = self.length < self.durable_length;
        let length = match rng.below(3) {
            0 => self.durable_length,
            1 if !cut_short => rng.within(self.durable_length..self.length + 1),
            _ => self.length,
        };
        for (index, durable) in std::mem::take(&mut self.differing) {
            let lost = self.lost.contains(&index);
            let choice = if lost { 0 } else { rng.below(3) };
            let kept = match choice {
                0 => durable,
                1 => self.pages.get(&index).cloned(),
                _ => {
                    let empty = Rc::new([0; PAGE as usize]);
                    let old = durable.unwrap_or_else(|| empty.clone());
                    let new = self.pages.get(&index).cloned().unwrap_or(empty);
                    let mut torn = *old;
                    for at in (0..PAGE as usize).step_by(SECTOR) {
                        if rng.once_in(2) {
                            torn[at..at + SECTOR].copy_from_slice(&new[at..at + SECTOR]);
                        }
                    }
                    Some(Rc::new(torn))
                }
            };
            match kept {
                Some(page) => self.pages.insert(index, page),
                None => self.pages.remove(&index),
            };
        }
        self.lost.clear();
        self.pages.split_off(&length.div_ceil(PAGE));
        if !length.is_multiple_of(PAGE)
            && let Some(page) = self.pages.get_mut(&(length / PAGE))
        {
            Rc::make_mut(page)[(length % PAGE) as usize..].fill(0);
        }
        self.length = length;
        self.durable_length = length;
    }
}

impl DiskState {
    fn entry(&self, path: &Path) -> Option<Entry> {
        match self.names.get(path) {
            Some(&entry) => Some(entry),
            None if path == Path::new("/") || path == Path::new("") => Some(Entry::Directory),
            None => None,
        }
    }

    /// Sets what paths hold, now; durable only later.
    fn change_names(&mut self, after: Vec<(PathBuf, Option<Entry>)>) {
        for (path, entry) in &after {
            let before = match entry {
                Some(entry) => self.names.insert(path.clone(), *entry),
                None => self.names.remove(path),
            };
            if let Some(Entry::File(id)) = entry
                && let Some(file) = self.files.get_mut(id)
            {
                file.names += 1;
            }
            if let Some(Entry::File(id)) = before
                && let Some(file) = self.files.get_mut(&id)
            {
                file.names -= 1;
                self.let_go(id);
            }
        }
        self.pending_names.push(NameChange { after });
    }

    /// Gives back the room of a file that nothing names and nobody has open.
    fn let_go(&mut self, id: u64) {
        let Some(file) = self.files.get(&id) else {
            return;
        };
        if file.names > 0 || file.open > 0 {
            return;
        }
        self.used = self.used.saturating_sub(file.pages.len() as u64 * PAGE);
        let still_durable = self
            .durable_names
            .values()
            .any(|&entry| entry == Entry::File(id))
            || self.pending_names.iter().any(|change| {
                change
                    .after
                    .iter()
                    .any(|(_, entry)| *entry == Some(Entry::File(id)))
            });
        if !still_durable {
            self.files.remove(&id);
        }
    }

    /// Makes the marked pending name changes durable, and those they rest on.
    fn settle_names(&mut self, wanted: impl FnMut(&NameChange) -> bool) {
        let mut wanted = wanted;
        let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
        let mut marks = vec![false; self.pending_names.len()];
        for (index, change) in self.pending_names.iter().enumerate().rev() {
            if wanted(change) || change.directories().any(|path| directories.contains(path)) {
                marks[index] = true;
                directories.extend(change.directories().map(Path::to_owned));
            }
        }
        let mut marks = marks.into_iter();
        let mut rest = Vec::new();
        for change in self.pending_names.drain(..) {
            if marks.next() == Some(true) {
                for (path, entry) in change.after {
                    match entry {
                        Some(entry) => self.durable_names.insert(path, entry),
                        None => self.durable_names.remove(&path),
                    };
                }
            } else {
                rest.push(change);
            }
        }
        self.pending_names = rest;
        let named: BTreeSet<u64> = self
            .durable_names
            .values()
            .chain(self.names.values())
            .chain(
                self.pending_names
                    .iter()
                    .flat_map(|change| change.after.iter().filter_map(|(_, entry)| entry.as_ref())),
            )
            .filter_map(|entry| match entry {
                Entry::File(id) => Some(*id),
                Entry::Directory => None,
            })
            .collect();
        self.files
            .retain(|id, file| file.open > 0 || named.contains(id));
    }

    fn add_pages_for(&mut self, file: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some(state) = self.files.get(&file) else {
            return Err(eio());
        };
        let end = offset + data.len() as u64;
        let there = state.pages.range(offset / PAGE..end.div_ceil(PAGE)).count() as u64;
        let needed = (end.div_ceil(PAGE) - offset / PAGE - there) * PAGE;
        if data.is_empty() || self.used + needed <= self.capacity {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    }

    fn apply_write(&mut self, file: u64, offset: u64, data: &[u8]) {
        if let Some(state) = self.files.get_mut(&file) {
            let added = state.write(offset, data);
            self.used += added * PAGE;
        }
    }

    fn finish_write(&mut self, op: u64) -> io::Result<()> {
        let Some(write) = self.in_flight.remove(&op) else {
            return Err(dead());
        };
        let room = self.add_pages_for(write.file, write.offset, &write.data);
        let failed = match room {
            Err(full) => Some(full),
            Ok(()) if self.faulty.chance(self.faults.write_error_ppm) => Some(eio()),
            Ok(()) => None,
        };
        if let Some(error) = failed {
            // A first part that fits may have been written, in whole pages.
            let whole = |part: usize| {
                let end = (write.offset + part as u64) / PAGE * PAGE;
                end.saturating_sub(write.offset) as usize
            };
            let mut part = whole(self.faulty.below(write.data.len() as u64 + 1) as usize);
            while self
                .add_pages_for(write.file, write.offset, &write.data[..part])
                .is_err()
            {
                part = whole(part / 2);
            }
            self.apply_write(write.file, write.offset, &write.data[..part]);
            return Err(error);
        }
        self.apply_write(write.file, write.offset, &write.data);
        Ok(())
    }
}

impl Disks {
    pub(crate) fn new(_seed: u64) -> Disks {
        Disks(RefCell::default())
    }

    pub(crate) fn add(&self, seed: u64, node: usize) {
        self.0.borrow_mut().push(DiskState {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            in_flight: BTreeMap::new(),
            next_file: 1,
            capacity: 1 << 40,
            used: 0,
            hung: false,
            waiting: Vec::new(),
            faults: DiskFaults::default(),
            rng: Rng::stream(seed, "disk", node as u64),
            timing: Rng::stream(seed, "disk timing", node as u64),
            faulty: Rng::stream(seed, "disk faults", node as u64),
        });
    }

    fn with<T>(&self, node: usize, body: impl FnOnce(&mut DiskState) -> T) -> T {
        body(&mut self.0.borrow_mut()[node])
    }

    pub(crate) fn open(
        &self,
        inner: &Rc<Inner>,
        node: usize,
        life: u64,
        path: &Path,
        mode: OpenMode,
    ) -> io::Result<File> {
        self.with(node, |disk| {
            let parent = path.parent().unwrap_or(Path::new("/"));
            let id = match disk.entry(path) {
                Some(Entry::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
                Some(Entry::File(id)) => id,
                None if matches!(mode, OpenMode::Create | OpenMode::CreateEmpty) => {
                    if disk.entry(parent) != Some(Entry::Directory) {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    let id = disk.next_file;
                    disk.next_file += 1;
                    disk.files.insert(id, FileState::default());
                    disk.change_names(vec![(path.to_owned(), Some(Entry::File(id)))]);
                    id
                }
                None => return Err(io::ErrorKind::NotFound.into()),
            };
            let Some(file) = disk.files.get_mut(&id) else {
                return Err(eio());
            };
            file.open += 1;
            if mode == OpenMode::CreateEmpty {
                let taken = file.zero(0, file.length.div_ceil(PAGE) * PAGE);
                file.length = 0;
                disk.used = disk.used.saturating_sub(taken * PAGE);
            }
            Ok(File::new(SimFile {
                inner: Rc::downgrade(inner),
                node,
                life,
                id,
                writable: mode != OpenMode::Read,
            }))
        })
    }

    pub(crate) fn read_dir(&self, node: usize, path: &Path) -> io::Result<Vec<DirItem>> {
        self.with(node, |disk| {
            match disk.entry(path) {
                None => return Err(io::ErrorKind::NotFound.into()),
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                Some(Entry::Directory) => {}
            }
            let mut items = Vec::new();
            for (child, entry) in disk.names.range(path.to_owned()..) {
                if !child.starts_with(path) {
                    break;
                }
                if child.parent() == Some(path)
                    && let Some(name) = child.file_name()
                {
                    items.push(DirItem {
                        name: name.to_string_lossy().into_owned(),
                        is_dir: *entry == Entry::Directory,
                    });
                }
            }
            items.sort();
            Ok(items)
        })
    }

    pub(crate) fn create_dir_all(&self, node: usize, path: &Path) -> io::Result<()> {
        self.with(node, |disk| {
            let mut ancestors: Vec<&Path> = path.ancestors().collect();
            ancestors.reverse();
            for directory in ancestors {
                match disk.entry(directory) {
                    Some(Entry::Directory) => {}
                    Some(Entry::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
                    None => {
                        disk.change_names(vec![(directory.to_owned(), Some(Entry::Directory))]);
                    }
                }
            }
            Ok(())
        })
    }

    pub(crate) fn remove_file(&self, node: usize, path: &Path) -> io::Result<()> {
        self.with(node, |disk| match disk.entry(path) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(Entry::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Some(Entry::File(_)) => {
                disk.change_names(vec![(path.to_owned(), None)]);
                Ok(())
            }
        })
    }

    pub(crate) fn rename(&self, node: usize, from: &Path, to: &Path) -> io::Result<()> {
        self.with(node, |disk| {
            let Some(entry @ Entry::File(_)) = disk.entry(from) else {
                // Directories are never renamed by Weft's servers.
                return Err(io::ErrorKind::NotFound.into());
            };
            let parent = to.parent().unwrap_or(Path::new("/"));
            if disk.entry(parent) != Some(Entry::Directory) {
                return Err(io::ErrorKind::NotFound.into());
            }
            if disk.entry(to) == Some(Entry::Directory) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if from != to {
                disk.change_names(vec![(to.to_owned(), Some(entry)), (from.to_owned(), None)]);
            }
            Ok(())
        })
    }

    pub(crate) fn sync_dir(
        &self,
        inner: &Rc<Inner>,
        node: usize,
        life: u64,
        path: &Path,
    ) -> LocalBoxFuture<'static, io::Result<()>> {
        let (pause, exists) = self.with(node, |disk| {
            let nanos = disk.faults.sync_nanos.clone();
            (disk.timing.within(nanos), disk.entry(path).is_some())
        });
        if !exists {
            return std::future::ready(Err(io::ErrorKind::NotFound.into())).boxed_local();
        }
        let path = path.to_owned();
        after(inner, node, life, pause, move |disk, _| {
            if disk.faulty.chance(disk.faults.sync_error_ppm) {
                return Err(eio());
            }
            disk.settle_names(|change| change.directories().any(|parent| parent == path));
            Ok(())
        })
    }

    pub(crate) fn space(&self, node: usize) -> SpaceReport {
        self.with(node, |disk| SpaceReport {
            total: disk.capacity,
            free: disk.capacity.saturating_sub(disk.used),
        })
    }

    /// Of every write that was under way a first part is done; open files are closed.
    pub(crate) fn process_died(&self, node: usize) {
        self.with(node, |disk| {
            for (_, write) in std::mem::take(&mut disk.in_flight) {
                let length = write.data.len() as u64;
                let part = match disk.rng.below(3) {
                    0 => 0,
                    // A kernel stops between pages.
                    1 => {
                        let end = write.offset + disk.rng.below(length + 1);
                        (end / PAGE * PAGE).saturating_sub(write.offset)
                    }
                    _ => length,
                } as usize;
                if disk
                    .add_pages_for(write.file, write.offset, &write.data[..part])
                    .is_ok()
                {
                    disk.apply_write(write.file, write.offset, &write.data[..part]);
                }
            }
            let opened: Vec<u64> = disk
                .files
                .iter_mut()
                .filter(|(_, file)| file.open > 0)
                .map(|(&id, file)| {
                    file.open = 0;
                    id
                })
                .collect();
            for id in opened {
                disk.let_go(id);
            }
        });
    }

    pub(crate) fn power_cut(&self, node: usize) {
        self.with(node, |disk| {
            let mut rng = disk.rng.clone();
            disk.settle_names(|_| rng.once_in(2));
            disk.pending_names.clear();
            for file in disk.files.values_mut() {
                file.lose_power(&mut rng);
                file.names = 0;
            }
            disk.rng = rng;
            disk.names = disk.durable_names.clone();
            // A name in a directory that was not made durable is not reachable.
            let names = disk.names.clone();
            disk.names.retain(|path, _| {
                path.ancestors().skip(1).all(|above| {
                    above == Path::new("/")
                        || above == Path::new("")
                        || names.get(above) == Some(&Entry::Directory)
                })
            });
            disk.durable_names = disk.names.clone();
            for entry in disk.names.values() {
                if let Entry::File(id) = entry
                    && let Some(file) = disk.files.get_mut(id)
                {
                    file.names += 1;
                }
            }
            disk.files.retain(|_, file| file.names > 0);
            disk.used = disk
                .files
                .values()
                .map(|file| file.pages.len() as u64 * PAGE)
                .sum();
            disk.hung = false;
        });
    }
}

/// Has `action` done on the disk after `pause`, whether or not anyone still waits for it.
fn after<T: 'static>(
    inner: &Rc<Inner>,
    node: usize,
    life: u64,
    pause: u64,
    action: impl FnOnce(&mut DiskState, &Rc<Inner>) -> io::Result<T> + 'static,
) -> LocalBoxFuture<'static, io::Result<T>> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let id = inner.executor.take_id();
    inner.executor.mark(Mark::Disk, node, id);
    let weak = Rc::downgrade(inner);
    // The device works on by itself: a task of the world, not of the process.
    let work = async move {
        let Some(sleep) = weak.upgrade().map(|inner| Sleep::exactly(&inner, pause)) else {
            return;
        };
        sleep.await;
        std::future::poll_fn(|cx| {
            let Some(inner) = weak.upgrade() else {
                return Poll::Ready(());
            };
            inner.disks.with(node, |disk| {
                if disk.hung && inner.is_alive(node, life) {
                    disk.waiting.push(cx.waker().clone());
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
        })
        .await;
        if let Some(inner) = weak.upgrade()
            && inner.is_alive(node, life)
        {
            let result = inner.disks.with(node, |disk| action(disk, &inner));
            // The asker may have gone on without it.
            let _ = tell.send(result);
        }
    };
    let inner_weak = inner.weak();
    inner
        .executor
        .spawn(&inner_weak, 0, "disk", work.boxed_local());
    async move {
        match told.await {
            Ok(result) => result,
            Err(_) => std::future::pending().await,
        }
    }
    .boxed_local()
}

struct SimFile {
    inner: Weak<Inner>,
    node: usize,
    life: u64,
    id: u64,
    writable: bool,
}

impl SimFile {
    fn living(&self) -> io::Result<Rc<Inner>> {
        match self.inner.upgrade() {
            Some(inner) if inner.is_alive(self.node, self.life) => Ok(inner),
            _ => Err(dead()),
        }
    }

    fn with_file<T>(&self, body: impl FnOnce(&mut FileState) -> T) -> io::Result<T> {
        self.living()?.disks.with(self.node, |disk| {
            disk.files.get_mut(&self.id).map(body).ok_or_else(eio)
        })
    }

    fn begin_write(
        &self,
        offset: u64,
        parts: Vec<Bytes>,
    ) -> io::Result<LocalBoxFuture<'static, io::Result<()>>> {
        let inner = self.living()?;
        if !self.writable {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let op = inner.executor.take_id();
        let pause = inner.disks.with(self.node, |disk| {
            let write = WriteInFlight {
                file: self.id,
                offset,
                data: parts.concat(),
            };
            disk.in_flight.insert(op, write);
            let nanos = disk.faults.write_nanos.clone();
            disk.timing.within(nanos)
        });
        Ok(after(
            &inner,
            self.node,
            self.life,
            pause,
            move |disk, _| disk.finish_write(op),
        ))
    }

    fn begin_read(
        &self,
        offset: u64,
        length: usize,
    ) -> io::Result<LocalBoxFuture<'static, io::Result<Bytes>>> {
        let inner = self.living()?;
        let pause = inner.disks.with(self.node, |disk| {
            if disk.timing.once_in(4) {
                let nanos = disk.faults.read_nanos.clone();
                disk.timing.within(nanos)
            } else {
                disk.timing.within(1_000..10_000)
            }
        });
        let id = self.id;
        Ok(after(
            &inner,
            self.node,
            self.life,
            pause,
            move |disk, _| {
                if disk.faulty.chance(disk.faults.read_error_ppm) {
                    return Err(eio());
                }
                let file = disk.files.get(&id).ok_or_else(eio)?;
                Ok(file.read(offset, length))
            },
        ))
    }

    fn begin_sync(&self) -> io::Result<LocalBoxFuture<'static, io::Result<()>>> {
        let inner = self.living()?;
        let id = self.id;
        let (pause, now) = inner.disks.with(self.node, |disk| {
            let nanos = disk.faults.sync_nanos.clone();
            let pause = disk.timing.within(nanos);
            let snapshot = disk.files.get(&id).map(|file| {
                let pages: BTreeMap<u64, Option<Page>> = file
                    .differing
                    .keys()
                    .map(|&index| (index, file.pages.get(&index).cloned()))
                    .collect();
                (pages, file.length)
            });
            (pause, snapshot)
        });
        let (pages, length) = now.ok_or_else(eio)?;
        Ok(after(
            &inner,
            self.node,
            self.life,
            pause,
            move |disk, _| {
                let failed = disk.faulty.chance(disk.faults.sync_error_ppm);
                let file = disk.files.get_mut(&id).ok_or_else(eio)?;
                if failed {
                    file.lost.extend(pages.into_keys());
                    return Err(eio());
                }
                for (index, snapshot) in pages {
                    if file.lost.contains(&index) {
                        continue;
                    }
                    let same = match (&snapshot, file.pages.get(&index)) {
                        (None, None) => true,
                        (Some(old), Some(new)) => Rc::ptr_eq(old, new),
                        _ => false,
                    };
                    if same {
                        file.differing.remove(&index);
                    } else {
                        file.differing.insert(index, snapshot);
                    }
                }
                file.durable_length = length;
                Ok(())
            },
        ))
    }
}

fn flatten<T: 'static>(
    begun: io::Result<LocalBoxFuture<'static, io::Result<T>>>,
) -> LocalBoxFuture<'static, io::Result<T>> {
    begun.unwrap_or_else(|error| std::future::ready(Err(error)).boxed_local())
}

impl FileDriver for SimFile {
    fn read_at(&self, offset: u64, length: usize) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        flatten(self.begin_read(offset, length))
    }

    fn write_at(&self, offset: u64, parts: Vec<Bytes>) -> LocalBoxFuture<'static, io::Result<()>> {
        flatten(self.begin_write(offset, parts))
    }

    fn sync_data(&self) -> LocalBoxFuture<'static, io::Result<()>> {
        flatten(self.begin_sync())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let taken = self.with_file(|file| {
            let taken = if length < file.length {
                file.zero(length, file.length.div_ceil(PAGE) * PAGE)
            } else {
                0
            };
            file.length = length;
            taken
        })?;
        self.living()?.disks.with(self.node, |disk| {
            disk.used = disk.used.saturating_sub(taken * PAGE);
        });
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let taken = self.with_file(|file| file.zero(offset, offset.saturating_add(length)))?;
        self.living()?.disks.with(self.node, |disk| {
            disk.used = disk.used.saturating_sub(taken * PAGE);
        });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.with_file(|file| file.length)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let Ok(inner) = self.living() {
            inner.disks.with(self.node, |disk| {
                if let Some(file) = disk.files.get_mut(&self.id) {
                    file.open = file.open.saturating_sub(1);
                    disk.let_go(self.id);
                }
            });
        }
    }
}

/// A node's disk: its faults, and what is on it.
#[derive(Clone)]
pub struct Disk {
    pub(crate) inner: Rc<Inner>,
    pub(crate) node: usize,
}

impl Disk {
    fn with<T>(&self, body: impl FnOnce(&mut DiskState) -> T) -> T {
        self.inner.disks.with(self.node, body)
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.inner.executor.mark(Mark::Fault, self.node, 0x200);
        self.with(|disk| disk.faults = faults);
    }

    /// Bytes that fit on it. What is there stays, even if it is more.
    pub fn set_capacity(&self, bytes: u64) {
        self.inner.executor.mark(Mark::Fault, self.node, 0x201);
        self.with(|disk| disk.capacity = bytes);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.with(|disk| disk.used)
    }

    /// The device stops answering, or answers again.
    pub fn set_hung(&self, hung: bool) {
        self.inner.executor.mark(Mark::Fault, self.node, 0x202);
        let waiting = self.with(|disk| {
            disk.hung = hung;
            if hung {
                Vec::new()
            } else {
                std::mem::take(&mut disk.waiting)
            }
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Flips one random bit in a page that is written, of a random file under `prefix` that
    /// `wanted` accepts. Returns what it hit; `None` if there is nothing.
    pub fn flip_bit(
        &self,
        prefix: impl AsRef<Path>,
        wanted: impl Fn(&Path) -> bool,
    ) -> Option<(PathBuf, u64)> {
        self.inner.executor.mark(Mark::Fault, self.node, 0x203);
        self.with(|disk| {
            let candidates: Vec<(PathBuf, u64)> = disk
                .names
                .iter()
                .filter(|(path, _)| path.starts_with(prefix.as_ref()) && wanted(path))
                .filter_map(|(path, entry)| match entry {
                    Entry::File(id) if !disk.files.get(id)?.pages.is_empty() => {
                        Some((path.clone(), *id))
                    }
                    _ => None,
                })
                .collect();
            let (path, id) = disk.rng.choose(&candidates)?.clone();
            let file = disk.files.get_mut(&id)?;
            let pages: Vec<u64> = file.pages.keys().copied().collect();
            let index = *disk.rng.choose(&pages)?;
            let end = file.length.saturating_sub(index * PAGE).clamp(1, PAGE);
            let at = disk.rng.below(end) as usize;
            let bit = 1u8 << disk.rng.below(8);
            let flip = |page: &mut Page| Rc::make_mut(page)[at] ^= bit;
            file.pages.get_mut(&index).map(flip)?;
            if let Some(Some(durable)) = file.differing.get_mut(&index) {
                flip(durable);
            }
            Some((path, index * PAGE + at as u64))
        })
    }

    /// Makes a directory that survives everything: what is there before servers are installed.
    pub fn make_durable_dir(&self, path: impl AsRef<Path>) {
        self.with(|disk| {
            for directory in path.as_ref().ancestors() {
                disk.names.insert(directory.to_owned(), Entry::Directory);
                disk.durable_names
                    .insert(directory.to_owned(), Entry::Directory);
            }
        });
    }

    /// Paths of all files, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        self.with(|disk| {
            disk.names
                .iter()
                .filter(|(_, entry)| matches!(entry, Entry::File(_)))
                .map(|(path, _)| path.clone())
                .collect()
        })
    }

    /// What a process would read from a file now.
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Bytes> {
        self.with(|disk| match disk.entry(path.as_ref())? {
            Entry::File(id) => {
                let file = disk.files.get(&id)?;
                Some(file.read(0, file.length as usize))
            }
            Entry::Directory => None,
        })
    }

    /// Puts a new, empty disk in its place. The process must be dead.
    ///
    /// # Panics
    /// If the node runs.
    pub fn wipe(&self) {
        assert!(
            !self.inner.nodes.borrow()[self.node].running,
            "a disk is replaced while its node runs"
        );
        self.inner.executor.mark(Mark::Fault, self.node, 0x204);
        self.with(|disk| {
            disk.files.clear();
            disk.names.clear();
            disk.durable_names.clear();
            disk.pending_names.clear();
            disk.in_flight.clear();
            disk.used = 0;
            disk.hung = false;
        });
    }
}
