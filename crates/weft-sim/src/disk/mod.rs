//! Disks: what is written, and what survives a power cut.
//!
//! A file is pages, as processes see them, and beside them the durable state of those pages that
//! differ from it. `sync_data` makes durable what had been written when it was called. Names work
//! alike: creations, renames and removals are pending until the directory is synced.
//!
//! A killed process loses nothing but what it had under way: of a write in flight any first pages
//! may be done. A power cut keeps, of everything pending, what it likes: each page old, new, or
//! torn at sectors; each name operation done or not (in an order that a file system could produce).
mod file_state;
mod handle;
mod open_file;
mod state;

pub use handle::{Disk, DiskCopy};

use crate::rng::Rng;
use crate::world::Inner;
use file_state::FileState;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use open_file::{SimFile, after};
use state::{DiskState, Entry};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::task::Waker;
use weft_env::{DirItem, File, OpenMode, SpaceReport};

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
    /// What every read fails with.
    pub reads_fail: Option<i32>,
    /// What every change fails with: writes and syncs, names, cuts and holes.
    pub changes_fail: Option<i32>,
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
            reads_fail: None,
            changes_fail: None,
            read_nanos: 50_000..300_000,
            write_nanos: 3_000..60_000,
            sync_nanos: 200_000..4_000_000,
        }
    }
}

pub(crate) struct Disks(RefCell<Vec<DiskState>>);

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
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
            changes: 0,
            stop_at: None,
            stopped: false,
            grain: None,
            shared: None,
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
            let there = disk.entry(path);
            let id = match (there, mode) {
                (Some(Entry::Directory), _) => return Err(io::ErrorKind::IsADirectory.into()),
                (Some(Entry::File(id)), OpenMode::CreateEmpty) => disk.change_at_once(|disk| {
                    let Some(file) = disk.files.get_mut(&id) else {
                        return Err(eio());
                    };
                    let taken = file.zero(0, file.length.div_ceil(PAGE) * PAGE);
                    file.length = 0;
                    disk.used = disk.used.saturating_sub(taken * PAGE);
                    Ok(id)
                })?,
                (Some(Entry::File(id)), _) => id,
                (None, OpenMode::Create | OpenMode::CreateEmpty) => {
                    let parent = path.parent().unwrap_or(Path::new("/"));
                    if disk.entry(parent) != Some(Entry::Directory) {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    disk.change_at_once(|disk| {
                        let id = disk.next_file;
                        disk.next_file += 1;
                        disk.files.insert(id, FileState::default());
                        disk.change_names(vec![(path.to_owned(), Some(Entry::File(id)))]);
                        Ok(id)
                    })?
                }
                (None, _) => return Err(io::ErrorKind::NotFound.into()),
            };
            let Some(file) = disk.files.get_mut(&id) else {
                return Err(eio());
            };
            file.open += 1;
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
                    None => disk.change_at_once(|disk| {
                        disk.change_names(vec![(directory.to_owned(), Some(Entry::Directory))]);
                        Ok(())
                    })?,
                }
            }
            Ok(())
        })
    }

    pub(crate) fn remove_file(&self, node: usize, path: &Path) -> io::Result<()> {
        self.with(node, |disk| match disk.entry(path) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(Entry::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Some(Entry::File(_)) => disk.change_at_once(|disk| {
                disk.change_names(vec![(path.to_owned(), None)]);
                Ok(())
            }),
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
            if from == to {
                return Ok(());
            }
            disk.change_at_once(|disk| {
                disk.change_names(vec![(to.to_owned(), Some(entry)), (from.to_owned(), None)]);
                Ok(())
            })
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
        self.with(node, DiskState::begin_change);
        let path = path.to_owned();
        after(inner, node, life, pause, move |disk, _| {
            disk.works_for_changes()?;
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

    /// Of every write that was under way a first part is done; open files are closed. A device that
    /// was to stop at a change works on.
    pub(crate) fn process_died(&self, node: usize) {
        let waiting = self.with(node, |disk| {
            disk.stop_at = None;
            let grain = disk.grain.unwrap_or(PAGE as usize) as u64;
            for (_, write) in std::mem::take(&mut disk.in_flight) {
                let length = write.data.len() as u64;
                let part = match disk.rng.below(3) {
                    0 => 0,
                    // A kernel stops between pages.
                    1 => {
                        let end = write.offset + disk.rng.below(length + 1);
                        (end / grain * grain).saturating_sub(write.offset)
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
            // What waited for a stopped device is over; what waits for a hung one goes on waiting.
            match std::mem::take(&mut disk.stopped) {
                true => std::mem::take(&mut disk.waiting),
                false => Vec::new(),
            }
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn power_cut(&self, node: usize) {
        self.with(node, |disk| {
            let mut rng = disk.rng.clone();
            let grain = disk.grain;
            disk.settle_names(|_| rng.once_in(2));
            disk.pending_names.clear();
            for file in disk.files.values_mut() {
                file.lose_power(&mut rng, grain);
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
