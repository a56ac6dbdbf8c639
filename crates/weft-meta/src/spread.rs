//! Directories that are spread: how many shards they get, and in which slots, which ones are spread by themselves, and
//! that their entries go to the shards (`docs/protocols/spread.md`). What else it takes is a transaction's matter.

use crate::partition;
use crate::reign::{Core, Meta};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_types::{GroupId, Ino, SHARDS_MAX, SLOTS, Slot, name_hash};
use weft_wire::Failed;
use weft_wire::proto::{self, ChangeRequest, Split, Spread, op::Op};

/// Shards of a directory where nobody says how many, and how many of them each group gets at least.
const SHARDS: (usize, usize) = (16, 4);

/// Nothing could be moved: a group may be without an active, or its slot about to go.
const RETRY: Duration = Duration::from_millis(200);

/// Something was made in a directory: if it has grown past the bound it is spread.
pub(crate) fn grown(meta: &Rc<Meta>, core: &mut Core, directory: Ino) {
    let bound = meta.settings.spread_entries;
    let is_due = bound > 0
        && core.state.is_as_large(directory, bound)
        && crate::slots::are_several(core)
        && !core.spreading.contains(&directory);
    if is_due {
        core.spreading.insert(directory);
        meta.spawn("spread", spread(meta.clone(), directory));
    }
}

async fn spread(meta: Rc<Meta>, directory: Ino) {
    let mut request = ChangeRequest {
        op: Some(proto::Op {
            op: Some(Op::Spread(Spread {
                ino: directory.0,
                ..Spread::default()
            })),
        }),
        ..ChangeRequest::default()
    };
    let completed = meta.core.borrow().complete_spread(&mut request);
    let op = request.op.and_then(|op| op.op);
    let is_spread = match (completed, op) {
        (Ok(()), Some(op)) => partition::do_own(&meta, op).await,
        _ => false,
    };
    if is_spread {
        tracing::info!(ino = %directory, "a directory has grown, and is spread");
    }
    // Else the next entry has it tried again.
    meta.core.borrow_mut().spreading.remove(&directory);
}

/// Has entries of spread directories go to their shards, as long as there are any. Once is enough.
pub(crate) fn begin(meta: &Rc<Meta>, core: &Core) {
    if core.state.splitting_after(Ino(0)).is_some() && !meta.is_splitting.replace(true) {
        meta.spawn("split", split(meta.clone()));
    }
}

/// Takes directories in turn, some entries each time. Pauses as long as it works, for who works in them.
async fn split(meta: Rc<Meta>) {
    let mut at = Ino(0);
    loop {
        let next = meta.core.borrow().state.splitting_after(at);
        let Some(ino) = next else {
            meta.is_splitting.set(false);
            return;
        };
        at = ino;
        let begun = meta.env.now();
        let pause = match partition::do_own(&meta, Op::Split(Split { ino: ino.0 })).await {
            true => meta.env.now().since(begun),
            false => RETRY,
        };
        meta.env.sleep(pause).await;
    }
}

/// How many shards are made of it.
///
/// # Errors
/// Why there cannot be so many.
fn count(wanted: u32, groups: usize) -> Result<usize, String> {
    let suits = (groups * SHARDS.1).next_power_of_two();
    match wanted as usize {
        0 => Ok(suits.clamp(SHARDS.0, SHARDS_MAX)),
        wanted if wanted.is_power_of_two() && (2..=SHARDS_MAX).contains(&wanted) => Ok(wanted),
        wanted => Err(format!(
            "a directory cannot have {wanted} shards: a power of two from 2 to {SHARDS_MAX}"
        )),
    }
}

/// The slots of the shards: of each group the same number, as nearly as can be. The order in which all slots are
/// gone through is the directory's own, so that shards of several directories are not in the same ones.
fn slots_for(ino: Ino, count: usize, holder: impl Fn(Slot) -> Option<GroupId>) -> Vec<u32> {
    let seed = name_hash(&ino.0.to_le_bytes());
    let slots = u64::from(SLOTS);
    // An odd step meets all of a power of two.
    let (first, step) = (seed % slots, (seed >> 32) | 1);
    let at = |number: u64| Slot((first.wrapping_add(number.wrapping_mul(step)) % slots) as u16);
    let mut of_groups: BTreeMap<GroupId, Vec<Slot>> = BTreeMap::new();
    for slot in (0..slots).map(at) {
        if let Some(group) = holder(slot) {
            let of_group = of_groups.entry(group).or_default();
            if of_group.len() < count {
                of_group.push(slot);
            }
        }
    }
    let rounds = (0..count).flat_map(|round| {
        let of_groups = of_groups.values();
        of_groups.filter_map(move |of_group| of_group.get(round))
    });
    rounds.take(count).map(|slot| u32::from(slot.0)).collect()
}

impl Core {
    /// Completes what a client asks for: it does not know the slots.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub(crate) fn complete_spread(&self, request: &mut ChangeRequest) -> Result<(), Failed> {
        let op = request.op.as_mut().and_then(|op| op.op.as_mut());
        let Some(Op::Spread(Spread { ino, shards, slots })) = op else {
            return Ok(());
        };
        let groups = self.view.groups.len().max(1);
        let count = count(*shards, groups).map_err(Failed::Refused)?;
        *slots = slots_for(Ino(*ino), count, |slot| self.holder(slot));
        match slots.len() == count {
            true => Ok(()),
            false => Err(Failed::Unavailable(
                "nobody is known to have the slots".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn shards_are_as_many_as_suit_the_groups_or_as_is_said() {
        assert_eq!(count(0, 1), Ok(16));
        assert_eq!(count(0, 5), Ok(32));
        assert_eq!(count(0, 1_000), Ok(SHARDS_MAX));
        assert_eq!(count(4, 1_000), Ok(4));
        for wrong in [1, 3, 256, u32::MAX] {
            assert!(count(wrong, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_group_gets_as_many_shards_as_any_other() {
        // Of very different numbers of slots.
        let holder = |slot: Slot| match slot.0 {
            0..100 => Some(GroupId(0)),
            100..4000 => Some(GroupId(1)),
            4000..4090 => Some(GroupId(2)),
            _ => None,
        };
        for ino in 1..50 {
            let slots = slots_for(Ino(ino), 16, holder);
            assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), 16);
            let of = |group: u32| {
                let has = |slot: &&u32| holder(Slot(**slot as u16)) == Some(GroupId(group));
                slots.iter().filter(has).count()
            };
            assert_eq!([of(0), of(1), of(2)], [6, 5, 5]);
        }
        let others = slots_for(Ino(51), 16, holder);
        assert_ne!(others, slots_for(Ino(50), 16, holder));
        let few = |slot: Slot| (slot.0 < 3).then_some(GroupId(0));
        assert_eq!(slots_for(Ino(1), 4, few).len(), 3);
    }
}
