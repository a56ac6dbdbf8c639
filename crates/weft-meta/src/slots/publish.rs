//! The view says which slots this group has, by and by.

use crate::reign::{Core, Meta};
use std::rc::Rc;
use std::time::Duration;
use weft_types::{GroupId, SLOTS, Slot};
use weft_wire::proto::{SlotRange, View};

/// A view that cannot be changed is looked at again after this.
const RETRY: Duration = Duration::from_secs(1);

/// The slots that this group has and the view gives to another.
fn missing(core: &Core, view: &View) -> Vec<Slot> {
    let own = core.state.group();
    let slots = (0..SLOTS).map(Slot);
    let has = slots.filter(|slot| core.state.has_slot(*slot));
    has.filter(|slot| crate::group::holder(view, *slot) != Some(own))
        .collect()
}

/// Gives slots to a group.
fn put(view: &mut View, slots: &[Slot], group: GroupId) {
    let holder = |slot: Slot| match slots.contains(&slot) {
        true => group.0,
        false => crate::group::holder(view, slot).map_or(0, |group| group.0),
    };
    let mut ranges: Vec<SlotRange> = Vec::new();
    for slot in 0..SLOTS {
        let (number, group) = (u32::from(slot), holder(Slot(slot)));
        match ranges.last_mut().filter(|range| range.group == group) {
            Some(range) => range.last = number,
            None => ranges.push(SlotRange {
                first: number,
                last: number,
                group,
            }),
        }
    }
    view.slots = ranges;
}

/// Puts what the group owns into the view, as long as the reign lasts.
pub(super) async fn run(meta: Rc<Meta>) {
    loop {
        let owned = meta.slots.owned.notified();
        let (mine, newest) = {
            let core = meta.core.borrow();
            (missing(&core, &core.view), core.commits.newest())
        };
        if mine.is_empty() {
            owned.await;
            continue;
        }
        // What is not committed may be void.
        if meta.committed(newest).await.is_err() {
            return;
        }
        let group = GroupId(meta.settings.group);
        let changed = crate::group::change(&meta.env, &*meta.coordinator, |view| {
            let core = meta.core.borrow();
            let mut slots = missing(&core, view);
            slots.retain(|slot| mine.contains(slot));
            if slots.is_empty() {
                return Ok(false);
            }
            put(view, &slots, group);
            Ok(true)
        });
        match changed.await {
            Ok(view) => {
                let core = &mut *meta.core.borrow_mut();
                if core.view.version < view.version {
                    core.view = view;
                }
            }
            Err(error) => {
                tracing::error!(%error, "the view does not say which slots this group has");
                meta.env.sleep(RETRY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_to_a_group_and_the_others_stay_where_they_are() {
        let range = |first, last, group| SlotRange { first, last, group };
        let mut view = View {
            slots: vec![range(0, 2047, 0), range(2048, 4095, 1)],
            ..View::default()
        };
        put(&mut view, &[Slot(7), Slot(8), Slot(2047)], GroupId(1));
        let split = [
            range(0, 6, 0),
            range(7, 8, 1),
            range(9, 2046, 0),
            range(2047, 4095, 1),
        ];
        assert_eq!(view.slots, split);
        put(&mut view, &[Slot(7), Slot(8)], GroupId(0));
        assert_eq!(view.slots, [range(0, 2046, 0), range(2047, 4095, 1)]);
        // One group that has all, and whose view does not say so.
        let mut view = View::default();
        put(&mut view, &[Slot(4095)], GroupId(2));
        assert_eq!(view.slots, [range(0, 4094, 0), range(4095, 4095, 2)]);
    }
}
