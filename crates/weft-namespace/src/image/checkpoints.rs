//! Checkpoints in an image: the list, the cuts, and what they hold.

use super::load::{Loader, Wrong, demand};
use crate::checkpoints::{Checkpoints, Cut, Held, is_name};
use crate::restoring::{Closed, Stage};
use crate::slots::SlotSet;
use crate::state::State;
use weft_types::{Ino, PairId, SLOTS, Slot};
use weft_wire::proto::checkpoint::Stage as Listed;
use weft_wire::proto::image_record::Record;
use weft_wire::proto::{self, ImageCheckpoints, ImageCut, ImageHeld};

/// All records; none if there has never been a checkpoint.
pub(super) fn records(state: &State) -> impl Iterator<Item = Record> + '_ {
    let known = &state.checkpoints;
    let head = (*known != Checkpoints::default()).then(|| head(known));
    let list = known.list.values().cloned().map(Record::Checkpoint);
    let cuts = known.cuts.iter().map(move |(id, cut)| {
        Record::Cut(ImageCut {
            id: *id,
            is_dropped: cut.is_dropped,
            counted_slots: cut.counters.keys().map(|slot| u32::from(slot.0)).collect(),
            next_counters: cut.counters.values().copied().collect(),
            pairs: cut.pairs.iter().map(|pair| pair.0).collect(),
            slots: cut.slots.ranges(state.group.0),
        })
    });
    let held = known.held.iter().map(|((cut, ino), held)| {
        Record::Held(ImageHeld {
            cut: *cut,
            ino: ino.0,
            generation: held.generation,
            pairs: held.pairs.iter().map(|pair| pair.0).collect(),
        })
    });
    head.into_iter().chain(list).chain(cuts).chain(held)
}

fn head(known: &Checkpoints) -> Record {
    let stage = known.closed.as_ref().map(|closed| &closed.stage);
    let (progress, digest) = stage.map_or((0, 0), Stage::progress);
    Record::Checkpoints(ImageCheckpoints {
        last_checkpoint: known.last,
        last_cut: known.last_cut,
        top_generation: known.top_generation,
        last_restore: known.last_restore,
        restoring: known.restoring,
        restored: known.restored,
        closed: known.closed.as_ref().map(|closed| closed.restore),
        is_done: stage == Some(&Stage::Done),
        progress,
        progress_high: (digest >> 64) as u64,
        progress_low: digest as u64,
    })
}

impl Loader {
    pub(super) fn checkpoints(&mut self, record: ImageCheckpoints) -> Result<(), Wrong> {
        demand!(
            self.state.checkpoints == Checkpoints::default(),
            "checkpoints twice"
        );
        demand!(
            (record.progress, record.progress_high, record.progress_low) == (0, 0, 0),
            "an image of a name space that is being replaced"
        );
        let stage = match record.is_done {
            true => Stage::Done,
            false => Stage::Closed,
        };
        self.state.checkpoints = Checkpoints {
            last: record.last_checkpoint,
            last_cut: record.last_cut,
            top_generation: record.top_generation,
            last_restore: record.last_restore,
            restoring: record.restoring,
            restored: record.restored,
            closed: record.closed.map(|restore| Closed { restore, stage }),
            ..Checkpoints::default()
        };
        Ok(())
    }

    pub(super) fn checkpoint(&mut self, record: proto::Checkpoint) -> Result<(), Wrong> {
        let known = &mut self.state.checkpoints;
        let id = record.id;
        demand!(
            (1..=known.last).contains(&id),
            "checkpoint {id} was never made"
        );
        demand!(
            is_name(&record.name) && record.stage() != Listed::Unspecified && record.time.is_some(),
            "checkpoint {id} makes no sense"
        );
        let double = known.list.insert(id, record);
        demand!(double.is_none(), "checkpoint {id} twice");
        Ok(())
    }

    pub(super) fn cut(&mut self, record: ImageCut) -> Result<(), Wrong> {
        let known = &mut self.state.checkpoints;
        let id = record.id;
        demand!(
            (1..=known.last_cut).contains(&id),
            "cut {id} was never made"
        );
        demand!(
            record.counted_slots.len() == record.next_counters.len()
                && record
                    .counted_slots
                    .iter()
                    .all(|slot| *slot < u32::from(SLOTS)),
            "the numbers of cut {id}"
        );
        let slots = record.counted_slots.iter().map(|slot| Slot(*slot as u16));
        let cut = Cut {
            is_dropped: record.is_dropped,
            counters: slots.zip(record.next_counters).collect(),
            pairs: record.pairs.into_iter().map(PairId).collect(),
            slots: SlotSet::of_ranges(&record.slots).ok_or("the slots of a cut")?,
        };
        let double = known.cuts.insert(id, cut);
        demand!(double.is_none(), "cut {id} twice");
        Ok(())
    }

    pub(super) fn held(&mut self, record: ImageHeld) -> Result<(), Wrong> {
        let ino = Ino(record.ino);
        let known = &mut self.state.checkpoints;
        demand!(
            known.cuts.contains_key(&record.cut) && record.generation > 0,
            "objects of {ino} that nobody holds"
        );
        let held = Held {
            generation: record.generation,
            pairs: record.pairs.into_iter().map(PairId).collect(),
        };
        let double = known.held.insert((record.cut, ino), held);
        demand!(double.is_none(), "objects of {ino} are held twice");
        Ok(())
    }
}
