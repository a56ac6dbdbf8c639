//! Checkpoints: the list that the first group keeps, the cuts of every group, and the objects that these
//! hold (`docs/protocols/checkpoints.md`). How a group comes back to one is in `restoring.rs`.
//!
//! An object of a file is named by a cut if the file is older than the cut and the object's generation was the
//! file's then. Generations only go by `State::queue_objects`, so the first one of a file that goes after a cut
//! is the one that the cut names: it is held, and whatever goes later is not.

use crate::inode::File;
use crate::restoring::Closed;
use crate::slots::SlotSet;
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};
use weft_types::{INO_COUNTER_BITS, Ino, ObjectId, PairId, Slot};
use weft_wire::proto::checkpoint::Stage;
use weft_wire::proto::{Checkpoint, Restore};

/// Checkpoints that there may be: each costs some tens of KiB in every image of every group, and a look at
/// every removal of a file.
pub const CHECKPOINTS_MAX: usize = 32;

/// Longest name of a checkpoint, in bytes.
pub const CHECKPOINT_NAME_MAX: usize = 64;

/// What a group keeps of checkpoints.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Checkpoints {
    /// The first group's list.
    pub list: BTreeMap<u64, Checkpoint>,
    pub last: u64,
    pub cuts: BTreeMap<u64, Cut>,
    /// No cut of this number or a lower one is made any more.
    pub last_cut: u64,
    /// What cuts hold, by cut and file: one generation of a file each.
    pub held: BTreeMap<(u64, Ino), Held>,
    /// The highest generation that was given since there is a cut.
    pub top_generation: u32,
    /// Restores that were begun, in the first group.
    pub last_restore: u64,
    pub restoring: Option<Restore>,
    /// The last restore that this group has behind it.
    pub restored: u64,
    /// Clients are not served.
    pub closed: Option<Closed>,
}

/// A group's part of a checkpoint.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Cut {
    /// Nobody needs it any more: what it holds goes.
    pub is_dropped: bool,
    /// The next inode counter of each slot.
    pub counters: BTreeMap<Slot, u64>,
    pub pairs: BTreeSet<PairId>,
    pub slots: SlotSet,
}

/// Objects that would have been dropped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub generation: u32,
    pub pairs: Box<[PairId]>,
}

impl Cut {
    /// The inode's number had been given.
    pub(crate) fn has_given(&self, ino: Ino) -> bool {
        let counter = ino.0 & ((1 << INO_COUNTER_BITS) - 1);
        let next = self.counters.get(&ino.slot());
        next.is_some_and(|next| counter < *next)
    }
}

impl Checkpoints {
    /// Cuts hold these objects, which else would go now. False: none does.
    pub(crate) fn hold(&mut self, ino: Ino, file: &File) -> bool {
        let mut is_held = false;
        for (id, cut) in &self.cuts {
            if !cut.is_dropped && cut.has_given(ino) && !self.held.contains_key(&(*id, ino)) {
                let held = Held {
                    generation: file.generation,
                    pairs: file.shape.pairs.clone(),
                };
                self.held.insert((*id, ino), held);
                is_held = true;
            }
        }
        is_held
    }

    /// Another cut than this one holds the objects of this generation.
    pub(crate) fn is_held_beside(&self, but: u64, ino: Ino, generation: u32) -> bool {
        let mut others = self.cuts.keys().filter(|id| **id != but);
        others.any(|id| {
            let held = self.held.get(&(*id, ino));
            held.is_some_and(|held| held.generation == generation)
        })
    }

    /// A generation was given to a file or to a copy of it.
    pub(crate) fn note_generation(&mut self, generation: u32) {
        if !self.cuts.is_empty() {
            self.top_generation = self.top_generation.max(generation);
        }
    }

    /// The list has one of this name that is not about to go.
    pub(crate) fn of_name(&self, name: &str) -> Option<&Checkpoint> {
        let mut listed = self.list.values();
        listed.find(|it| it.name == name && it.stage() != Stage::Ending)
    }
}

/// Letters, digits, `.`, `_` and `-`, beginning with a letter or a digit.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= CHECKPOINT_NAME_MAX
        && name.bytes().all(plain)
        && name
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
}

impl State {
    /// What a cut has held is held no more by it: it goes, unless another one holds it.
    pub(crate) fn let_go(&mut self, cut: u64, ino: Ino) {
        let Some(held) = self.checkpoints.held.remove(&(cut, ino)) else {
            return;
        };
        if self.checkpoints.is_held_beside(cut, ino, held.generation) {
            return;
        }
        let object = ObjectId {
            ino,
            generation: held.generation,
        };
        for pair in held.pairs {
            self.deletions.insert(self.next_deletion, (pair, object));
            self.next_deletion += 1;
        }
    }

    /// The files of which a cut holds something, the first `max` of them.
    pub(crate) fn held_by(&self, cut: u64, max: usize) -> Vec<Ino> {
        let held = self
            .checkpoints
            .held
            .range((cut, Ino(0))..=(cut, Ino(u64::MAX)));
        held.map(|((_, ino), _)| *ino).take(max).collect()
    }

    // ---- what the service asks ----

    /// The list of checkpoints, by number; only the first group has one.
    pub fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> + '_ {
        self.checkpoints.list.values()
    }

    /// The checkpoint of this name, if it is not about to go.
    pub fn checkpoint_of_name(&self, name: &str) -> Option<&Checkpoint> {
        self.checkpoints.of_name(name)
    }

    /// The restore that all groups are in, as the first one has journaled it.
    pub fn restoring(&self) -> Option<Restore> {
        self.checkpoints.restoring
    }

    /// The last restore that was begun, as the first group has journaled it.
    pub fn last_restore(&self) -> u64 {
        self.checkpoints.last_restore
    }

    /// The numbers of this group's cuts that are needed.
    pub fn cuts(&self) -> impl Iterator<Item = u64> + '_ {
        let cuts = self.checkpoints.cuts.iter();
        cuts.filter(|(_, cut)| !cut.is_dropped).map(|(id, _)| *id)
    }

    /// This group's cut of a checkpoint is there, and needed.
    pub fn has_cut(&self, id: u64) -> bool {
        let cut = self.checkpoints.cuts.get(&id);
        cut.is_some_and(|cut| !cut.is_dropped)
    }

    /// Why this group could not come back to a cut now, in words. None: it could.
    pub fn hinders_restore(&self, id: u64) -> Option<String> {
        let Some(cut) = self.checkpoints.cuts.get(&id).filter(|cut| !cut.is_dropped) else {
            return Some("it has no cut of this checkpoint".into());
        };
        if cut.slots != self.slots {
            return Some("slots have moved to or from it since".into());
        }
        if let Some(pair) = cut.pairs.iter().find(|pair| !self.pairs.contains_key(pair)) {
            return Some(format!(
                "pair {pair}, which the checkpoint names, is not there any more"
            ));
        }
        if let Some(job) = self.jobs.values().find(|job| job.ended.is_none()) {
            return Some(format!(
                "job {} runs: wait for its end, or cancel it",
                job.id
            ));
        }
        None
    }

    /// Why this group makes no cut now, in words. None: it can.
    pub fn hinders_cut(&self) -> Option<String> {
        if self.checkpoints.closed.is_some() || self.checkpoints.restoring.is_some() {
            return Some("a checkpoint is being restored".into());
        }
        if let Some(slot) = self.arriving().next() {
            // Given by the other group before its cut, and not owned here, it would be in no cut at all.
            return Some(format!("slot {slot} is moving here: wait for its end"));
        }
        let pair = self.draining.iter().next()?;
        Some(format!(
            "pair {pair} is being drained: wait for its end, or cancel it"
        ))
    }

    /// Why no slot leaves this group now, in words. None: slots may.
    pub fn hinders_slots(&self) -> Option<String> {
        if self.checkpoints.closed.is_some() {
            return Some("a checkpoint is being restored".into());
        }
        // The cuts say what to hold of the slots that each group had.
        self.cuts().next().map(|_| {
            "a checkpoint is kept: slots move when all have been deleted (weft checkpoint list)"
                .into()
        })
    }

    /// The cut that names this pair, if one does.
    pub fn cut_with_pair(&self, pair: PairId) -> Option<u64> {
        let mut cuts = self.checkpoints.cuts.iter();
        cuts.find(|(_, cut)| cut.pairs.contains(&pair))
            .map(|(id, _)| *id)
    }

    /// Objects' generations that are not dropped because cuts hold them, and how many of them this one does.
    pub fn held(&self, cut: Option<u64>) -> u64 {
        match cut {
            None => self.checkpoints.held.len() as u64,
            Some(cut) => {
                let of_cut = (cut, Ino(0))..=(cut, Ino(u64::MAX));
                self.checkpoints.held.range(of_cut).count() as u64
            }
        }
    }

    /// No cut of this number or a lower one is made any more.
    pub fn last_cut(&self) -> u64 {
        self.checkpoints.last_cut
    }

    /// Cuts have been dropped that still hold something, or have not been forgotten.
    pub fn has_dropped_cuts(&self) -> bool {
        self.checkpoints.cuts.values().any(|cut| cut.is_dropped)
    }

    /// The last restore that this group has behind it.
    pub fn restored(&self) -> u64 {
        self.checkpoints.restored
    }

    /// Files that somebody writes, as far as the state knows; the first `max` of them.
    pub fn written_files(&self, max: usize) -> Vec<Ino> {
        let alone = self.write_leases.keys();
        alone
            .chain(self.sharers.keys())
            .copied()
            .take(max)
            .collect()
    }

    /// A cut holds this object on this pair.
    pub(crate) fn holds_object(&self, pair: PairId, object: ObjectId) -> bool {
        let mut cuts = self.checkpoints.cuts.keys();
        cuts.any(|cut| {
            let held = self.checkpoints.held.get(&(*cut, object.ino));
            held.is_some_and(|held| {
                held.generation == object.generation && held.pairs.contains(&pair)
            })
        })
    }
}
