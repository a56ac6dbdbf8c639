//! Which replica group keeps an inode, and where that group is, as the view says it.
//!
//! Pure. A cluster of one group needs no table: everything is the first group's.

use std::collections::BTreeSet;
use weft_types::{Ino, SLOTS};
use weft_wire::proto::View;

/// The group that has the root directory, and decides about pairs.
pub(crate) const FIRST: u32 = 0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Of the view that this is from. None: no view has been told.
    version: Option<u64>,
    /// The group of each slot; empty where all are the first's.
    groups: Vec<u32>,
    /// The addresses of the members of each group.
    members: Vec<(u32, Vec<String>)>,
    /// Slots of which the group that had them has said who has them. No view says anything of these any
    /// more: it is not known which of both is newer.
    told: BTreeSet<u16>,
}

/// A slot, the group that had it, and the one that has it.
pub(crate) type Move = (u16, u32, u32);

impl Slots {
    /// Takes over what a view says, unless a newer one is known. Answers which slots have moved since the one
    /// before.
    pub fn learn(&mut self, view: &View) -> Vec<Move> {
        if self.version.is_some_and(|version| version >= view.version) {
            return Vec::new();
        }
        let is_first = self.version.is_none();
        self.version = Some(view.version);
        let of_group = |group: &weft_wire::proto::Group| {
            let members = group.members.iter();
            (group.id, members.map(|it| it.address.clone()).collect())
        };
        self.members = view.groups.iter().map(of_group).collect();
        let before = std::mem::take(&mut self.groups);
        self.groups = groups_of(view);
        let group = |of: &[u32], slot: u16| of.get(usize::from(slot)).copied().unwrap_or(FIRST);
        for slot in &self.told {
            put(&mut self.groups, *slot, group(&before, *slot));
        }
        if is_first || before == self.groups {
            return Vec::new();
        }
        let slots = (0..SLOTS).map(|slot| (slot, group(&before, slot), group(&self.groups, slot)));
        slots.filter(|(_, from, to)| from != to).collect()
    }

    /// The group that has a slot says that another one has it now. False: it is not the one that has it, by
    /// what is known.
    pub fn moved(&mut self, slot: u16, (from, to): (u32, u32)) -> bool {
        let known = self.group_of(Ino::new(weft_types::Slot(slot), 0).0);
        if known != from || from == to {
            return false;
        }
        self.told.insert(slot);
        put(&mut self.groups, slot, to);
        true
    }

    /// Where a group's members are, if the view does not say.
    pub fn learn_members(&mut self, group: u32, members: &[String]) {
        let is_known = |(id, known): &(u32, Vec<String>)| *id == group && !known.is_empty();
        if !members.is_empty() && !self.members.iter().any(is_known) {
            self.members.push((group, members.to_vec()));
        }
    }

    /// The group that keeps an inode.
    pub fn group_of(&self, ino: u64) -> u32 {
        if self.groups.is_empty() {
            return FIRST;
        }
        let slot = usize::from(Ino(ino).slot().0);
        self.groups.get(slot).copied().unwrap_or(FIRST)
    }

    /// The addresses of a group's members, if the view names it.
    pub fn members(&self, group: u32) -> Vec<String> {
        let mut all = self.members.iter();
        let of_group = all.find(|(id, _)| *id == group);
        of_group.map_or_else(Vec::new, |(_, members)| members.clone())
    }
}

fn put(groups: &mut Vec<u32>, slot: u16, group: u32) {
    if groups.is_empty() && group != FIRST {
        groups.resize(usize::from(SLOTS), FIRST);
    }
    if let Some(of) = groups.get_mut(usize::from(slot)) {
        *of = group;
    }
}

/// The group of each slot by a view; none where all are the first's.
fn groups_of(view: &View) -> Vec<u32> {
    if view.slots.iter().all(|range| range.group == FIRST) {
        return Vec::new();
    }
    let mut groups = vec![FIRST; usize::from(SLOTS)];
    for range in &view.slots {
        let span = range.first as usize..(range.last as usize).saturating_add(1);
        match groups.get_mut(span) {
            Some(slots) => slots.fill(range.group),
            None => tracing::error!(?range, "the view names slots that there are not"),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::Slot;
    use weft_wire::proto::{Group, GroupMember, SlotRange};

    fn view(version: u64, ranges: &[(u32, u32, u32)]) -> View {
        let slots = ranges
            .iter()
            .map(|&(first, last, group)| SlotRange { first, last, group });
        View {
            version,
            slots: slots.collect(),
            ..View::default()
        }
    }

    fn group(slots: &Slots, slot: u16) -> u32 {
        slots.group_of(Ino::new(Slot(slot), 7).0)
    }

    #[test]
    fn without_slots_or_with_one_group_all_is_the_first_group_s() {
        let mut slots = Slots::default();
        assert_eq!(group(&slots, 4095), FIRST);
        slots.learn(&view(1, &[]));
        assert_eq!(group(&slots, 4095), FIRST);
        slots.learn(&view(2, &[(0, 4095, 0)]));
        assert_eq!((group(&slots, 1), group(&slots, 4095)), (FIRST, FIRST));
        assert!(slots.groups.is_empty(), "nothing to look at");
    }

    #[test]
    fn the_newest_view_says_the_group_of_a_slot() {
        let mut slots = Slots::default();
        slots.learn(&view(5, &[(0, 1023, 0), (1024, 2047, 2), (2048, 4095, 1)]));
        let all = |slots: &Slots| [0, 1023, 1024, 2047, 2048, 4095].map(|at| group(slots, at));
        assert_eq!(all(&slots), [0, 0, 2, 2, 1, 1]);
        // One that is older, or as old, says nothing.
        slots.learn(&view(4, &[(0, 4095, 1)]));
        slots.learn(&view(5, &[]));
        assert_eq!(all(&slots), [0, 0, 2, 2, 1, 1]);
        slots.learn(&view(6, &[(0, 2047, 0), (2048, 4095, 1)]));
        assert_eq!(all(&slots), [0, 0, 0, 0, 1, 1]);
        slots.learn(&view(7, &[]));
        assert_eq!(all(&slots), [0; 6]);
    }

    #[test]
    fn ranges_that_make_no_sense_are_left_out() {
        let mut slots = Slots::default();
        let odd = [(0, 9, 1), (4000, 4096, 2), (20, 10, 3), (7, u32::MAX, 4)];
        slots.learn(&view(1, &odd));
        let some = [0, 9, 10, 15, 20, 4000, 4095].map(|at| group(&slots, at));
        assert_eq!(some, [1, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_the_group_that_had_a_slot_says_counts_more_than_a_view() {
        let mut slots = Slots::default();
        assert!(slots.learn(&view(1, &[])).is_empty());
        assert!(!slots.moved(7, (1, 2)), "it is not the one that has it");
        assert!(slots.moved(7, (FIRST, 2)));
        assert_eq!((group(&slots, 7), group(&slots, 8)), (2, FIRST));
        let moved = slots.learn(&view(2, &[(0, 4089, 0), (4090, 4095, 1)]));
        assert_eq!(moved.len(), 6);
        assert_eq!(moved[0], (4090, FIRST, 1));
        assert_eq!((group(&slots, 7), group(&slots, 4090)), (2, 1));
        // Older than what was said, or newer: nobody knows.
        assert!(
            slots
                .learn(&view(3, &[(0, 4095, 1)]))
                .iter()
                .all(|it| it.0 != 7)
        );
        assert_eq!((group(&slots, 7), group(&slots, 0)), (2, 1));
        assert!(slots.moved(7, (2, 1)));
        assert_eq!(group(&slots, 7), 1);
    }

    #[test]
    fn where_a_group_is_that_no_view_has_named_may_be_said() {
        let mut slots = Slots::default();
        slots.learn_members(3, &[]);
        assert!(slots.members(3).is_empty());
        slots.learn_members(3, &["a:1".to_owned()]);
        assert_eq!(slots.members(3), ["a:1"]);
        slots.learn_members(3, &["b:1".to_owned()]);
        assert_eq!(slots.members(3), ["a:1"]);
    }

    #[test]
    fn the_view_names_the_members_of_a_group() {
        let member = |address: &str| GroupMember {
            address: address.into(),
            ..GroupMember::default()
        };
        let mut slots = Slots::default();
        slots.learn(&View {
            version: 1,
            groups: vec![Group {
                id: 3,
                members: vec![member("a:1"), member("b:1")],
                ..Group::default()
            }],
            ..View::default()
        });
        assert_eq!(slots.members(3), ["a:1", "b:1"]);
        assert!(slots.members(0).is_empty());
    }
}
