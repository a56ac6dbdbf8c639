//! What scenarios see of a disk and do to it.

use super::state::{DiskState, Entry};
use super::{DiskFaults, PAGE, Page};
use crate::executor::Mark;
use crate::world::Inner;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Waker;

/// What a disk had once. A directory has no content.
#[derive(Clone, Debug)]
pub struct DiskCopy(BTreeMap<PathBuf, Option<Bytes>>);

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

    /// Changes that processes have asked it for so far: writes and syncs, names made, changed and
    /// removed, files cut and punched.
    pub fn changes(&self) -> u64 {
        self.with(|disk| disk.changes)
    }

    /// It stops in the `number`th change from now (0: the next): that one may be made, in part or not
    /// at all, nothing later is, and no process hears of either. So it stays until the process is
    /// dead; `None` takes it back.
    pub fn stop_at(&self, number: Option<u64>) {
        self.inner.executor.mark(Mark::Fault, self.node, 0x205);
        self.with(|disk| disk.stop_at = number.map(|number| disk.changes + number));
    }

    /// Whether it has stopped, and its process has not been ended since.
    pub fn has_stopped(&self) -> bool {
        self.with(|disk| disk.stopped)
    }

    /// From now on a kill cuts writes short at multiples of so many bytes (not where pages end), and
    /// a power cut tears a page once, there, among the bytes that differ (not at sectors).
    pub fn tear_at(&self, grain: usize) {
        self.inner.executor.mark(Mark::Fault, self.node, 0x206);
        self.with(|disk| disk.grain = Some(grain.max(1)));
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

    /// From now on equal pages that are written one after the other take memory once: for large files
    /// of a repeated content.
    pub fn share_equal_pages(&self) {
        self.with(|disk| {
            let zeros = || Rc::new([0; PAGE as usize]);
            disk.shared.get_or_insert_with(zeros);
        });
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

    /// What a process would read now, of everything.
    pub fn copy(&self) -> DiskCopy {
        let read = |disk: &DiskState, entry: &Entry| match entry {
            Entry::Directory => None,
            Entry::File(id) => {
                let file = &disk.files[id];
                Some(file.read(0, file.length as usize))
            }
        };
        self.with(|disk| {
            let names = disk.names.iter();
            DiskCopy(
                names
                    .map(|(path, entry)| (path.clone(), read(disk, entry)))
                    .collect(),
            )
        })
    }

    /// Puts a disk in its place that has what was copied, and nothing else. The process must be dead.
    ///
    /// # Panics
    /// If the node runs.
    pub fn put_back(&self, copy: &DiskCopy) {
        self.wipe();
        self.with(|disk| {
            for (path, content) in &copy.0 {
                let entry = match content {
                    None => Entry::Directory,
                    Some(content) => disk.add_durable(content),
                };
                disk.names.insert(path.clone(), entry);
                disk.durable_names.insert(path.clone(), entry);
            }
        });
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
