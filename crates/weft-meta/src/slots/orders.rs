//! What tools ask, and order.

use super::{Wish, begin};
use crate::reign::{Core, Meta};
use std::rc::Rc;
use weft_namespace::slot_of;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{GroupId, ROOT_INO, Slot};
use weft_wire::Failed;
use weft_wire::proto::{MoveSlotsReply, MoveSlotsRequest, SlotMove, SlotsReply, SlotsRequest};

/// Moves that are told.
const MOVES_MAX: usize = 64;

/// Why slots cannot be moved so.
fn refusal(core: &Core, slots: &std::ops::RangeInclusive<Slot>, to: GroupId) -> Option<String> {
    if slots.contains(&ROOT_INO.slot()) {
        return Some("slot 0, which has the root directory, stays with the first group".into());
    }
    if let Some(why) = core.state.hinders_slots() {
        return Some(why);
    }
    let is_known = core.view.groups.iter().any(|group| group.id == to.0);
    if !is_known {
        return Some(format!("there is no group {to}"));
    }
    if crate::group::addresses(&core.view, to.0).0.is_none() {
        return Some(format!(
            "group {to} has no active: see `weft group status --group {to}`"
        ));
    }
    let current = core.slots.current.as_ref()?;
    let is_other = slots.contains(&current.slot) && current.to != to;
    is_other.then(|| {
        format!(
            "slot {} is moving to group {}: wait until it is there",
            current.slot, current.to
        )
    })
}

/// METHOD 126, from tools.
pub(crate) fn on_move(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: MoveSlotsRequest,
    replier: Replier,
) {
    let bounds = slot_of(request.first).zip(slot_of(request.last));
    let Some((first, last)) = bounds.filter(|(first, last)| first <= last) else {
        let why = format!("{}-{} are no slots", request.first, request.last);
        return replier.fail(Failed::Refused(why));
    };
    let (slots, to) = (first..=last, GroupId(request.to));
    if let Some(why) = refusal(core, &slots, to) {
        return replier.fail(Failed::Refused(why));
    }
    let mut wanted = 0;
    for slot in (first.0..=last.0).map(Slot) {
        if !core.state.has_slot(slot) {
            continue;
        }
        if to == core.state.group() {
            core.slots.wishes.remove(&slot);
            continue;
        }
        wanted += 1;
        let wish = core.slots.wishes.get(&slot);
        if wish.is_none_or(|wish| wish.to != to) {
            let wish = Wish::new(to, meta.env.now());
            core.slots.wishes.insert(slot, wish);
        }
    }
    if wanted > 0 {
        begin(meta);
        meta.slots.wished.notify_one();
    }
    let reply = MoveSlotsReply { slots: wanted };
    replier.send::<MoveSlotsRequest>(&reply, Payload::none());
}

/// METHOD 127, from tools.
pub(crate) fn on_slots(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: SlotsRequest,
    replier: Replier,
) {
    let current = core.slots.current.as_ref();
    let now = current.map(|current| SlotMove {
        slot: u32::from(current.slot.0),
        to: current.to.0,
        stage: current.stage.into(),
        pieces: current.pieces,
        attempts: core
            .slots
            .wishes
            .get(&current.slot)
            .map_or(1, |wish| wish.attempts + 1),
    });
    let is_current = |slot: Slot| current.is_some_and(|current| current.slot == slot);
    let waiting = core.slots.wishes.iter();
    let waiting = waiting.filter(|(slot, _)| !is_current(**slot));
    let waiting = waiting.map(|(slot, wish)| SlotMove {
        slot: u32::from(slot.0),
        to: wish.to.0,
        stage: match wish.why_not.as_str() {
            "" => "waiting".into(),
            why => format!("waiting: {why}"),
        },
        pieces: 0,
        attempts: wish.attempts,
    });
    let reply = SlotsReply {
        group: meta.settings.group,
        slots: core.state.slot_ranges(),
        inodes: core.state.statistics().inodes,
        moves: now.into_iter().chain(waiting).take(MOVES_MAX).collect(),
        arriving: core
            .state
            .arriving()
            .map(|slot| u32::from(slot.0))
            .collect(),
        guests: u32::try_from(core.state.guests().count()).unwrap_or(u32::MAX),
        moved: core.slots.moved,
    };
    let newest = core.commits.newest();
    meta.when_committed(core, newest, move |_, _, result| match result {
        Ok(()) => replier.send::<SlotsRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}
