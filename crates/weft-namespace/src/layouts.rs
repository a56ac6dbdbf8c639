//! Layouts and the policies they come from.
//!
//! Files that lie alike share one [`Shape`]: without sharing, the list of pairs would be the largest
//! part of an inode.

use crate::directory::EffectivePolicy;
use crate::errno::Errno;
use std::collections::BTreeSet;
use std::rc::Rc;
use weft_types::{PairId, STRIPE_UNIT_MAX, STRIPE_UNIT_MIN};
use weft_wire::proto::{self, Durability, Protocol};

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

/// `width` pairs of the sorted list, one after the other, beginning where `random` says.
pub(crate) fn choose_pairs(
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
        let list: Vec<PairId> = list.iter().map(|p| PairId(*p)).collect();
        choose_pairs(list.iter().copied(), width, random)
            .iter()
            .map(|p| p.0)
            .collect()
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
