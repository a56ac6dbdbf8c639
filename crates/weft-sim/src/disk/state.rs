//! A disk: its files, its names and which of them are durable, what is under way.

use super::file_state::FileState;
use super::{DiskFaults, PAGE, Page, eio};
use crate::driver::dead;
use crate::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::task::Waker;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Directory,
    File(u64),
}

/// A name operation that is not durable yet: what each path holds afterwards.
pub(super) struct NameChange {
    pub(super) after: Vec<(PathBuf, Option<Entry>)>,
}

impl NameChange {
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.after.iter().filter_map(|(path, _)| path.parent())
    }
}

pub(super) struct WriteInFlight {
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
}

/// What becomes of a change that is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is made.
    Works,
    /// The device stops in it: it may be made, in part or not at all, and nobody hears of it.
    Stops,
    /// The device has stopped before.
    Late,
}

fn fails_with(errno: Option<i32>) -> io::Result<()> {
    match errno {
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Ok(()),
    }
}

pub(super) struct DiskState {
    pub(super) files: BTreeMap<u64, FileState>,
    pub(super) names: BTreeMap<PathBuf, Entry>,
    pub(super) durable_names: BTreeMap<PathBuf, Entry>,
    pub(super) pending_names: Vec<NameChange>,
    pub(super) in_flight: BTreeMap<u64, WriteInFlight>,
    pub(super) next_file: u64,
    pub(super) capacity: u64,
    pub(super) used: u64,
    /// The device answers nothing for as long as this is set.
    pub(super) hung: bool,
    pub(super) waiting: Vec<Waker>,
    /// Changes that processes have asked for: writes, syncs, names made, changed and removed, files
    /// cut and punched.
    pub(super) changes: u64,
    /// The device stops in this one, until the process that asked for it is dead.
    pub(super) stop_at: Option<u64>,
    pub(super) stopped: bool,
    /// Bytes at whose multiples a write is cut short; otherwise at pages (a kill) or sectors.
    pub(super) grain: Option<usize>,
    /// The last page that was written whole, where equal ones are to be held in memory once.
    pub(super) shared: Option<Page>,
    pub(super) faults: DiskFaults,
    pub(super) rng: Rng,
    pub(super) timing: Rng,
    pub(super) faulty: Rng,
}

impl DiskState {
    /// Counts a change that is asked for.
    pub(super) fn begin_change(&mut self) -> Turn {
        if self.stopped {
            return Turn::Late;
        }
        let number = self.changes;
        self.changes += 1;
        if self.stop_at != Some(number) {
            return Turn::Works;
        }
        self.stopped = true;
        Turn::Stops
    }

    /// # Errors
    /// What every change fails with.
    pub(super) fn works_for_changes(&self) -> io::Result<()> {
        fails_with(self.faults.changes_fail)
    }

    /// # Errors
    /// What every read fails with.
    pub(super) fn works_for_reads(&self) -> io::Result<()> {
        fails_with(self.faults.reads_fail)
    }

    /// A change that is made at once, as a whole or not at all.
    pub(super) fn change_at_once<T>(
        &mut self,
        change: impl FnOnce(&mut DiskState) -> io::Result<T>,
    ) -> io::Result<T> {
        let turn = self.begin_change();
        if turn == Turn::Works {
            self.works_for_changes()?;
        }
        match turn {
            Turn::Works => change(self),
            Turn::Stops => {
                if self.rng.once_in(2) {
                    change(self)?;
                }
                Err(dead())
            }
            Turn::Late => Err(dead()),
        }
    }

    pub(super) fn entry(&self, path: &Path) -> Option<Entry> {
        match self.names.get(path) {
            Some(&entry) => Some(entry),
            None if path == Path::new("/") || path == Path::new("") => Some(Entry::Directory),
            None => None,
        }
    }

    /// Sets what paths hold, now; durable only later.
    pub(super) fn change_names(&mut self, after: Vec<(PathBuf, Option<Entry>)>) {
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
    pub(super) fn let_go(&mut self, id: u64) {
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
    pub(super) fn settle_names(&mut self, wanted: impl FnMut(&NameChange) -> bool) {
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

    pub(super) fn add_pages_for(&mut self, file: u64, offset: u64, data: &[u8]) -> io::Result<()> {
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

    /// A file that is on the disk whole, with one name that the caller gives it.
    pub(super) fn add_durable(&mut self, content: &[u8]) -> Entry {
        let id = self.next_file;
        self.next_file += 1;
        let mut file = FileState::default();
        self.used += file.write(0, content, None) * PAGE;
        file.differing.clear();
        file.durable_length = file.length;
        file.names = 1;
        self.files.insert(id, file);
        Entry::File(id)
    }

    pub(super) fn apply_write(&mut self, file: u64, offset: u64, data: &[u8]) {
        if let Some(state) = self.files.get_mut(&file) {
            let added = state.write(offset, data, self.shared.as_mut());
            self.used += added * PAGE;
        }
    }

    pub(super) fn finish_write(&mut self, op: u64) -> io::Result<()> {
        let Some(write) = self.in_flight.remove(&op) else {
            return Err(dead());
        };
        let room = self.add_pages_for(write.file, write.offset, &write.data);
        let failed = match room {
            _ if self.works_for_changes().is_err() => self.works_for_changes().err(),
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
