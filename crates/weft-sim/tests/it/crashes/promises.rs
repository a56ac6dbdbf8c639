//! What a store has promised to whoever called it, and whether a store that is opened keeps it.

use std::collections::BTreeMap;
use weft_objects::{Loss, Store};
use weft_types::{Epoch, Mode, ObjectId};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// kill -9: what the operating system was given stays.
    Kill,
    /// What was not synced may be there, in part or not at all.
    PowerCut,
}

/// What [`Store::record_state`] was given.
pub type State = (Epoch, Option<Mode>, bool, bool);

/// What must be true of a store whenever it is opened.
#[derive(Default)]
pub struct Promises {
    /// Regions whose mark has returned and whose clear has not begun; true: it survives a power cut.
    marks: BTreeMap<(ObjectId, u32), bool>,
    /// Everything may differ: so it was found, and nobody has cleared it.
    everything: bool,
    /// It was cleared: the disk may not know it yet.
    was_everything: bool,
    /// A power cut may take records that have others behind them: a gap is taken for damage.
    gaps: bool,
    /// By where they begin; true: noted, false: may be there or not.
    losses: BTreeMap<(ObjectId, u64), bool>,
    /// The last is what was recorded or is being recorded; those before may stand still.
    states: Vec<State>,
}

impl Promises {
    /// The list has been damaged or taken away: every region must be taken for different.
    pub fn expect_everything(&mut self) {
        self.everything = true;
        self.marks.clear();
    }

    /// Power cuts may meet several records that are not stable.
    pub fn expect_gaps(&mut self) {
        self.gaps = true;
    }

    /// A mark has returned.
    pub fn marked(&mut self, id: ObjectId, regions: std::ops::Range<u32>, durable: bool) {
        for region in regions {
            *self.marks.entry((id, region)).or_default() |= durable;
        }
    }

    /// A clear begins.
    pub fn clears(&mut self, id: ObjectId, regions: std::ops::Range<u32>) {
        for region in regions {
            self.marks.remove(&(id, region));
        }
    }

    /// "Everything" is being cleared.
    pub fn clears_everything(&mut self) {
        self.was_everything |= std::mem::take(&mut self.everything);
    }

    /// Losses are being noted or cleared.
    pub fn changes_loss(&mut self, id: ObjectId, start: u64) {
        self.losses.insert((id, start), false);
    }

    /// A loss was noted.
    pub fn noted_loss(&mut self, id: ObjectId, start: u64) {
        self.losses.insert((id, start), true);
    }

    /// A loss was cleared.
    pub fn cleared_loss(&mut self, id: ObjectId, start: u64) {
        self.losses.remove(&(id, start));
    }

    /// A state is being recorded.
    pub fn records(&mut self, state: State) {
        self.states.push(state);
    }

    /// The last state was recorded.
    pub fn recorded(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Regions that the list must name.
    pub fn marks(&self) -> usize {
        self.marks.len()
    }

    /// Compares with a store that was opened after `death`. What was open then counts as it was found.
    ///
    /// # Panics
    /// If a promise is broken.
    pub fn check(&mut self, store: &Store, death: Death, what: &str) {
        let cut = death == Death::PowerCut;
        if cut {
            self.marks.retain(|_, durable| *durable);
            let is_new = self.states.is_empty();
            assert!(
                is_new || !store.is_intact(),
                "{what}: intact after a power cut"
            );
        }
        let everything = store.everything_dirty();
        if self.everything {
            assert!(
                everything,
                "{what}: the list forgot that everything may differ"
            );
        } else if !(cut && self.gaps || self.was_everything) {
            assert!(!everything, "{what}: taken for damaged");
        }
        self.everything = everything;
        self.was_everything &= everything;
        for &(id, region) in self.marks.keys() {
            assert!(
                everything || store.is_dirty(id, region),
                "{what}: the mark of {id} region {region} is lost"
            );
        }
        // Who compares everything compares these.
        self.marks
            .retain(|&(id, region), _| store.is_dirty(id, region));
        let named: u64 = store
            .dirty(None, usize::MAX)
            .into_iter()
            .flat_map(|(_, runs)| runs)
            .map(|run| u64::from(run.end - run.start))
            .sum();
        assert_eq!(named, store.dirty_region_count(), "{what}");

        let found: Vec<Loss> = store.losses(None);
        let found: BTreeMap<(ObjectId, u64), bool> = found
            .into_iter()
            .map(|loss| ((loss.object, loss.range.start), true))
            .collect();
        for (key, noted) in &self.losses {
            assert!(
                !noted || found.contains_key(key),
                "{what}: the loss {key:?} is forgotten"
            );
        }
        for key in found.keys() {
            assert!(
                self.losses.contains_key(key),
                "{what}: nobody noted {key:?}"
            );
        }
        self.losses = found;

        let identity = store.identity();
        let state = (
            identity.last_epoch,
            identity.last_mode,
            identity.was_serving,
            identity.was_settled_alone,
        );
        if self.states.is_empty() {
            self.states.push((Epoch(0), None, false, false));
        }
        assert!(
            self.states.contains(&state),
            "{what}: {state:?} was not recorded, of {:?}",
            self.states
        );
        self.states = vec![state];
    }
}
