//! Layouts and the policies they come from.
//!
//! Files that lie alike share one [`Shape`]: without sharing, the list of pairs would be the largest
//! part of an inode.

use crate::directory::EffectivePolicy;
use crate::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_types::{PairId, STRIPE_UNIT_MAX, STRIPE_UNIT_MIN};
use weft_wire::proto::pair_state::Mode;
use weft_wire::proto::{self, Durability, PairState, Protocol};

/// Most pairs that one file uses. More would add no speed that one client or one network could use,
/// and every pair costs an object for each file and a message for each removal.
pub const WIDTH_MAX: u32 = 64;

/// The policy of a new root directory.
pub(crate) const DEFAULT_POLICY: EffectivePolicy = EffectivePolicy {
    stripe_unit: 1 << 20,
    width: 0,
    protocol: Protocol::ServerSync,
    durability: Durability::Memory,
};

/// A layout without its generation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Shape {
    pub stripe_unit: u32,
    pub pairs: Box<[PairId]>,
    pub protocol: Protocol,
    pub durability: Durability,
}

impl Shape {
    pub(crate) fn to_proto(&self, generation: u32) -> proto::Layout {
        proto::Layout {
            stripe_unit: self.stripe_unit,
            pairs: self.pairs.iter().map(|p| p.0).collect(),
            protocol: self.protocol as i32,
            durability: self.durability as i32,
            generation,
        }
    }
}

/// The shapes in use. Never shrinks: there are only as many as policies times pairs to begin at.
#[derive(Clone, Default, Debug)]
pub(crate) struct Shapes(BTreeSet<Rc<Shape>>);

/// Which shapes have been seen is history, not state.
impl PartialEq for Shapes {
    fn eq(&self, _: &Shapes) -> bool {
        true
    }
}

impl Shapes {
    pub(crate) fn intern(&mut self, shape: Shape) -> Rc<Shape> {
        if let Some(known) = self.0.get(&shape) {
            return Rc::clone(known);
        }
        let shape = Rc::new(shape);
        self.0.insert(Rc::clone(&shape));
        shape
    }
}

/// The pairs there are, and those on which nothing new is to lie.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub pairs: &'a BTreeMap<PairId, PairState>,
    pub draining: &'a BTreeSet<PairId>,
    /// They have little room; by number, in order.
    pub full: &'a [u32],
}

/// The pairs on which new files lie.
enum Eligible {
    /// As most of the time.
    All,
    These(Vec<PairId>),
}

impl Choice<'_> {
    /// `width` pairs, one after the other, beginning where `random` says. Those that are down, or have little room, are left
    /// out while there are others: a new file need not wait for them, nor fill them. Those that are being drained are left
    /// out always: a job that found nothing on them relies on that. (There is always another one.)
    pub(crate) fn take(self, width: u32, random: u64) -> Box<[PairId]> {
        match self.eligible() {
            Eligible::All => take_pairs(self.pairs.keys().copied(), width, random),
            Eligible::These(these) => take_pairs(these.into_iter(), width, random),
        }
    }

    /// Of how many pairs one is that at which [`Choice::take`] begins.
    pub(crate) fn count(self) -> usize {
        match self.eligible() {
            Eligible::All => self.pairs.len(),
            Eligible::These(these) => these.len(),
        }
    }

    /// Pairs that files may be moved to.
    pub(crate) fn usable(self) -> Vec<PairId> {
        let is_usable = |(id, state): &(&PairId, &PairState)| {
            is_up(state) && !self.draining.contains(id) && !self.is_full(**id)
        };
        let all = self.pairs.iter();
        all.filter(is_usable).map(|(id, _)| *id).collect()
    }

    pub(crate) fn is_full(self, pair: PairId) -> bool {
        self.full.binary_search(&pair.0).is_ok()
    }

    fn eligible(self) -> Eligible {
        let up = self.pairs.values().filter(|state| is_up(state)).count();
        let all_alike = up == 0 || up == self.pairs.len();
        if self.draining.is_empty() && self.full.is_empty() && all_alike {
            return Eligible::All;
        }
        let staying = || {
            let all = self.pairs.iter();
            all.filter(|(id, _)| !self.draining.contains(id))
        };
        let up = || staying().filter(|(_, state)| is_up(state));
        let ids = |some: &mut dyn Iterator<Item = (&PairId, &PairState)>| -> Vec<PairId> {
            some.map(|(id, _)| *id).collect()
        };
        let roomy = ids(&mut up().filter(|(id, _)| !self.is_full(**id)));
        if !roomy.is_empty() {
            return Eligible::These(roomy);
        }
        let up = ids(&mut up());
        match up.is_empty() {
            true => Eligible::These(ids(&mut staying())),
            false => Eligible::These(up),
        }
    }
}

fn is_up(state: &PairState) -> bool {
    state.mode() != Mode::Down
}

fn take_pairs(
    pairs: impl ExactSizeIterator<Item = PairId> + Clone,
    width: u32,
    random: u64,
) -> Box<[PairId]> {
    let count = pairs.len();
    if count == 0 {
        return Box::default();
    }
    let wanted = if width == 0 {
        WIDTH_MAX
    } else {
        width.min(WIDTH_MAX)
    } as usize;
    let begin = (random % count as u64) as usize;
    pairs
        .clone()
        .skip(begin)
        .chain(pairs)
        .take(wanted.min(count))
        .collect()
}

/// The policy that results from setting `wanted` on a directory whose parent has `inherited`.
pub(crate) fn merge_policy(
    wanted: &proto::Policy,
    inherited: EffectivePolicy,
) -> Result<EffectivePolicy, Errno> {
    let mut policy = inherited;
    if wanted.stripe_unit != 0 {
        policy.stripe_unit = stripe_unit(wanted.stripe_unit).ok_or(Errno::EINVAL)?;
    }
    if wanted.width != 0 {
        policy.width = (wanted.width <= WIDTH_MAX)
            .then_some(wanted.width)
            .ok_or(Errno::EINVAL)?;
    }
    match Protocol::try_from(wanted.protocol) {
        Ok(Protocol::Unspecified) => {}
        Ok(protocol) => policy.protocol = protocol,
        Err(_) => return Err(Errno::EINVAL),
    }
    match Durability::try_from(wanted.durability) {
        Ok(Durability::Unspecified) => {}
        Ok(durability) => policy.durability = durability,
        Err(_) => return Err(Errno::EINVAL),
    }
    Ok(policy)
}

/// None if files cannot be cut into units of this size.
pub(crate) fn stripe_unit(bytes: u32) -> Option<u32> {
    (bytes.is_power_of_two() && (STRIPE_UNIT_MIN..=STRIPE_UNIT_MAX).contains(&bytes))
        .then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[u32], width: u32, random: u64) -> Vec<u32> {
        chosen(list, &[], width, random)
    }

    fn chosen(list: &[u32], down: &[u32], width: u32, random: u64) -> Vec<u32> {
        without_full(list, down, &[], width, random)
    }

    fn without_full(list: &[u32], down: &[u32], full: &[u32], width: u32, random: u64) -> Vec<u32> {
        let state = |pair: &u32| {
            let mode = match down.contains(pair) {
                true => Mode::Down,
                false => Mode::Both,
            };
            let state = PairState {
                pair: *pair,
                mode: mode.into(),
                ..PairState::default()
            };
            (PairId(*pair), state)
        };
        let choice = Choice {
            pairs: &list.iter().map(state).collect(),
            draining: &BTreeSet::new(),
            full,
        };
        let taken = choice.take(width, random);
        assert!(taken.len() <= choice.count());
        taken.iter().map(|p| p.0).collect()
    }

    #[test]
    fn pairs_with_little_room_get_no_new_files_while_others_have_more() {
        assert_eq!(without_full(&[1, 4, 7], &[], &[4], 0, 0), [1, 7]);
        assert_eq!(without_full(&[1, 4, 7], &[], &[1, 7], 2, 5), [4]);
        // One that is down is worse than one that is full.
        assert_eq!(without_full(&[1, 4, 7], &[1], &[4], 0, 0), [7]);
        assert_eq!(without_full(&[1, 4, 7], &[1], &[4, 7], 0, 0), [4, 7]);
        assert_eq!(without_full(&[1, 4], &[], &[1, 4], 0, 1), [4, 1]);
    }

    #[test]
    fn pairs_that_are_down_get_no_new_files_while_others_are_up() {
        assert_eq!(chosen(&[1, 4, 7], &[4], 2, 0), [1, 7]);
        assert_eq!(chosen(&[1, 4, 7], &[4], 0, 3), [7, 1]);
        assert_eq!(chosen(&[1, 4, 7], &[1, 7], 3, 5), [4]);
        assert_eq!(chosen(&[1, 4], &[1, 4], 2, 1), [4, 1]);
    }

    #[test]
    fn pairs_are_consecutive_and_begin_at_random() {
        assert_eq!(pairs(&[1, 4, 7], 2, 2), [7, 1]);
        assert_eq!(pairs(&[1, 4, 7], 0, 4), [4, 7, 1]);
        assert_eq!(pairs(&[1, 4, 7], 9, 3), [1, 4, 7]);
        assert!(pairs(&[], 2, 2).is_empty());
        let many: Vec<u32> = (0..100).collect();
        assert_eq!(pairs(&many, 0, 99).len(), WIDTH_MAX as usize);
    }

    #[test]
    fn a_policy_takes_from_above_what_it_does_not_say() {
        let wanted = proto::Policy {
            stripe_unit: 1 << 16,
            ..Default::default()
        };
        let merged = merge_policy(&wanted, DEFAULT_POLICY).unwrap();
        assert_eq!(
            merged,
            EffectivePolicy {
                stripe_unit: 1 << 16,
                ..DEFAULT_POLICY
            }
        );
        for bad in [
            proto::Policy {
                stripe_unit: 1 << 15,
                ..Default::default()
            },
            proto::Policy {
                stripe_unit: (1 << 16) + 1,
                ..Default::default()
            },
            proto::Policy {
                stripe_unit: 1 << 25,
                ..Default::default()
            },
            proto::Policy {
                width: WIDTH_MAX + 1,
                ..Default::default()
            },
            proto::Policy {
                protocol: 77,
                ..Default::default()
            },
            proto::Policy {
                durability: -1,
                ..Default::default()
            },
        ] {
            assert_eq!(merge_policy(&bad, DEFAULT_POLICY), Err(Errno::EINVAL));
        }
    }
}
