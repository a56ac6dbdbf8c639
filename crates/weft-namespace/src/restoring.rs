//! How a group comes back to a cut: records of the kept image become a second name space, that becomes the
//! name space, and what was there before is gone through.
//!
//! No step takes long, however large the name space is: `TakeLoaded` exchanges tables, and `SweepReplaced`
//! looks at some inodes at a time.

use crate::errno::Errno;
use crate::image::{ImageError, Loader};
use crate::inode::{Body, Inode};
use crate::state::{State, Trim};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use weft_types::Ino;
use weft_wire::proto::Restore;

/// Clients are not served: this group comes back to a cut, or waits for others that do.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Closed {
    pub restore: Restore,
    pub stage: Stage,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Stage {
    /// Nothing has been loaded.
    Closed,
    Loading(Box<Loader>),
    Sweeping(Box<Replaced>),
    /// All is as in the cut.
    Done,
}

/// What was there before, as far as it has not been gone through.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Replaced {
    inodes: BTreeMap<Ino, Box<Inode>>,
    reserved: BTreeMap<Ino, u32>,
    /// The last of the inodes of now that has been looked at.
    after: Ino,
    /// All of them have been.
    is_past: bool,
}

impl Stage {
    /// How far it is, and what that looks like, for digests.
    pub(crate) fn progress(&self) -> (u64, u128) {
        match self {
            Stage::Closed | Stage::Done => (0, 0),
            Stage::Loading(loader) => loader.progress(),
            Stage::Sweeping(replaced) => {
                let left = replaced.inodes.len() as u128;
                (replaced.after.0, left << 1 | u128::from(replaced.is_past))
            }
        }
    }
}

impl State {
    /// The restore that this group is closed for, if it is: clients are not served.
    pub fn closed(&self) -> Option<Restore> {
        Some(self.checkpoints.closed.as_ref()?.restore)
    }

    /// What has been loaded for the present restore: that many records. None: nothing is being loaded.
    pub fn loaded(&self) -> Option<u64> {
        match &self.checkpoints.closed.as_ref()?.stage {
            Stage::Closed => Some(0),
            Stage::Loading(loader) => Some(loader.progress().0),
            Stage::Sweeping(_) | Stage::Done => None,
        }
    }

    /// What was there before a restore is being gone through.
    pub fn is_sweeping(&self) -> bool {
        let closed = self.checkpoints.closed.as_ref();
        closed.is_some_and(|closed| matches!(closed.stage, Stage::Sweeping(_)))
    }

    /// It has come back to the cut, and waits for the others.
    pub fn is_brought_back(&self) -> bool {
        let closed = self.checkpoints.closed.as_ref();
        closed.is_some_and(|closed| closed.stage == Stage::Done)
    }

    /// Between two name spaces: what there is in memory cannot be written as an image.
    pub fn is_between(&self) -> bool {
        self.is_sweeping() || self.loaded().is_some_and(|records| records > 0)
    }

    fn stage_of(&mut self, restore: u64) -> Result<&mut Stage, Errno> {
        let closed = self.checkpoints.closed.as_mut();
        let closed = closed.filter(|closed| closed.restore.restore == restore);
        Ok(&mut closed.ok_or(Errno::ESTALE)?.stage)
    }

    /// Takes records, of which there are `at` before.
    pub(crate) fn load_records<R: AsRef<[u8]>>(
        &mut self,
        restore: u64,
        at: u64,
        records: &[R],
    ) -> Result<(), Errno> {
        let has_sessions = !self.sessions.is_empty();
        let stage = self.stage_of(restore)?;
        if has_sessions {
            return Err(Errno::EBUSY);
        }
        if at == 0 && matches!(stage, Stage::Closed | Stage::Loading(_)) {
            *stage = Stage::Loading(Box::default());
        }
        let Stage::Loading(loader) = stage else {
            return Err(Errno::EINVAL);
        };
        if loader.progress().0 != at {
            return Err(Errno::EINVAL);
        }
        let push = |record: &R| loader.push(record.as_ref());
        let pushed: Result<(), ImageError> = records.iter().try_for_each(push);
        if pushed.is_err() {
            *stage = Stage::Closed;
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// What was loaded is the name space.
    pub(crate) fn take_loaded(&mut self, restore: u64) -> Result<(), Errno> {
        let stage = self.stage_of(restore)?;
        let Stage::Loading(loader) = std::mem::replace(stage, Stage::Closed) else {
            return Err(Errno::EINVAL);
        };
        let loaded = loader.finish_known().map_err(|_| Errno::EINVAL)?;
        if loaded.slots != self.slots || loaded.group != self.group || !self.moves.is_empty() {
            return Err(Errno::EINVAL);
        }
        let replaced = Replaced {
            inodes: std::mem::replace(&mut self.inodes, loaded.inodes),
            reserved: std::mem::replace(&mut self.reserved, loaded.reserved),
            after: Ino(0),
            is_past: false,
        };
        self.xattrs = loaded.xattrs;
        self.trims = loaded.trims;
        self.next_trim = self.next_trim.max(loaded.next_trim);
        self.shapes = loaded.shapes;
        self.foreign = loaded.foreign;
        self.prepared = loaded.prepared;
        self.decided = loaded.decided;
        self.locked = loaded.locked;
        self.strays = loaded.strays;
        self.splitting = loaded.splitting;
        self.lingering = loaded.lingering;
        self.counts = loaded.counts;
        for (slot, next) in loaded.counters {
            let known = self.counters.entry(slot).or_insert(next);
            *known = next.max(*known);
        }
        *self.stage_of(restore)? = Stage::Sweeping(Box::new(replaced));
        Ok(())
    }

    /// Goes through some of what was there before, and of what is there now. True: there is more.
    pub(crate) fn sweep_replaced(&mut self, restore: u64, max: usize) -> Result<bool, Errno> {
        let stage = self.stage_of(restore)?;
        if *stage == Stage::Done {
            return Ok(false);
        }
        let mut replaced = match std::mem::replace(stage, Stage::Done) {
            Stage::Sweeping(replaced) => replaced,
            other => {
                *stage = other;
                return Err(Errno::EINVAL);
            }
        };
        let cut = self.checkpoints.closed.as_ref();
        let cut = cut.map_or(0, |closed| closed.restore.checkpoint);
        if !replaced.is_past {
            let rest = (Excluded(replaced.after), Unbounded);
            let some: Vec<Ino> = self
                .inodes
                .range(rest)
                .map(|(ino, _)| *ino)
                .take(max)
                .collect();
            replaced.is_past = some.len() < max;
            replaced.after = some.last().copied().unwrap_or(replaced.after);
            for ino in some {
                let old = replaced.inodes.remove(&ino);
                let reserved = replaced.reserved.remove(&ino).unwrap_or(0);
                self.bring_back(cut, ino, (old.as_deref(), reserved));
            }
        } else if !replaced.inodes.is_empty() {
            for _ in 0..max {
                let Some((ino, old)) = replaced.inodes.pop_first() else {
                    break;
                };
                if let Body::File(file) = &old.body {
                    self.queue_objects(ino, file);
                }
            }
        } else {
            // What had no name at the cut has gone again.
            let left = self.held_by(cut, max);
            for ino in &left {
                self.let_go(cut, *ino);
            }
            if left.len() < max {
                return Ok(false);
            }
        }
        *self.stage_of(restore)? = Stage::Sweeping(replaced);
        Ok(true)
    }

    /// An inode is as in the cut; `old` is how it was before, with the last generation that had been given to a
    /// copy. What must not go back is put above what it was.
    fn bring_back(&mut self, cut: u64, ino: Ino, (old, reserved): (Option<&Inode>, u32)) {
        let Some(inode) = self.inodes.get(&ino) else {
            return;
        };
        if inode.nlink == 0 {
            if let Some(Body::File(file)) = old.map(|old| &old.body) {
                self.queue_objects(ino, file);
            }
            return self.remove_nameless(ino);
        }
        let is_same = old.is_some_and(|old| old.change == inode.change);
        let old_file = old.and_then(|old| match &old.body {
            Body::File(file) => Some(file.clone()),
            _ => None,
        });
        let mut given = reserved;
        if let (Body::File(file), Some(before)) = (&inode.body, &old_file) {
            given = given.max(before.generation);
            if before.generation != file.generation {
                // First: what the cut has held of this file is what it names.
                self.queue_objects(ino, before);
            }
        }
        let generation = match self.inodes.get(&ino).map(|inode| &inode.body) {
            Some(Body::File(file)) => file.generation,
            _ => 0,
        };
        let is_held = generation > 0 && self.take_back(cut, ino, generation);
        let change = old.map_or(0, |old| old.change);
        let is_kept = |file: &crate::inode::File| file.exposed && file.generation == generation;
        let is_exposed = is_held || old_file.as_ref().is_some_and(is_kept);
        let old_cookie = old.and_then(|old| match &old.body {
            Body::Directory(directory) => Some(directory.next_cookie()),
            _ => None,
        });
        let Some(inode) = self.inodes.get_mut(&ino) else {
            return;
        };
        if !is_same {
            inode.change = inode.change.max(change) + 1;
        }
        match &mut inode.body {
            Body::Directory(directory) => {
                let next = directory.next_cookie().max(old_cookie.unwrap_or(0));
                directory.set_next_cookie(next);
            }
            Body::File(file) => {
                file.exposed |= is_exposed;
                let (size, exposed) = (file.size, file.exposed);
                if exposed && !is_same {
                    // It may have been longer since.
                    let seq = self.next_trim;
                    self.next_trim += 1;
                    let trim = self.trims.entry(ino).or_insert(Trim { seq, from: size });
                    *trim = Trim {
                        seq,
                        from: trim.from.min(size),
                    };
                }
                if !is_same {
                    given = given.max(self.checkpoints.top_generation);
                }
                let reserved = given.max(self.reserved.get(&ino).copied().unwrap_or(0));
                if reserved > generation {
                    self.reserved.insert(ino, reserved);
                }
            }
            _ => {}
        }
    }

    /// What cuts hold of this generation is the file's own again. True: one held it. If the cut that is restored
    /// holds another generation, it does not name that.
    fn take_back(&mut self, cut: u64, ino: Ino, generation: u32) -> bool {
        let held = self.checkpoints.held.get(&(cut, ino));
        if held.is_some_and(|held| held.generation != generation) {
            self.let_go(cut, ino);
        }
        let mut is_held = false;
        let cuts: Vec<u64> = self.checkpoints.cuts.keys().copied().collect();
        for id in cuts {
            let held = self.checkpoints.held.get(&(id, ino));
            if held.is_some_and(|held| held.generation == generation) {
                self.checkpoints.held.remove(&(id, ino));
                is_held = true;
            }
        }
        is_held
    }

    /// Nobody has it open any more. Its objects have been queued or are held, or went before.
    fn remove_nameless(&mut self, ino: Ino) {
        if let Some(Inode {
            body: Body::File(file),
            ..
        }) = self.get_mut(ino)
        {
            file.exposed = false;
        }
        self.remove_if_unused(ino);
    }
}
