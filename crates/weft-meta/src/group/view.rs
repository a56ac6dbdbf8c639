//! The group's record in the coordinator's view.

use crate::{MetaError, Settings};
use std::collections::BTreeSet;
use weft_coordinator::{Coordinator, CoordinatorError, written_by};
use weft_env::Env;
use weft_group::{MemberId, Record};
use weft_types::{Epoch, GroupId, NameSpaceId, SLOTS, Slot};
use weft_wire::proto::{Group, GroupMember, SlotRange, View, group_member::Role};

/// Who asks again what the coordinator has not answered waits this long.
const RETRY: std::time::Duration = std::time::Duration::from_millis(20);

/// The name space that the view is of. None: it has not been founded.
pub(crate) fn id_of(view: &View) -> Option<NameSpaceId> {
    NameSpaceId::from_bytes(&view.name_space)
}

/// The group of that number.
pub(super) fn group_of(view: &View, group: u32) -> Option<&Group> {
    view.groups.iter().find(|known| known.id == group)
}

/// Who counts, as the view says. None: there is no such group.
pub(super) fn record_of(view: &View, group: u32) -> Option<Record> {
    let group = group_of(view, group)?;
    let of = |juniors: bool| -> BTreeSet<MemberId> {
        let members = group.members.iter();
        members
            .filter(|member| matches!(member.role(), Role::Junior | Role::Unspecified) == juniors)
            .map(|member| MemberId(member.id))
            .collect()
    };
    Some(Record {
        epoch: Epoch(group.epoch),
        active: MemberId(group.active),
        voters: of(false),
        juniors: of(true),
    })
}

/// Writes who counts into the view. What is known of those that stay is kept; `new` has what is known of others.
fn put_record(view: &mut View, group: u32, record: &Record, new: &[GroupMember]) {
    let Some(group) = view.groups.iter_mut().find(|known| known.id == group) else {
        return;
    };
    group.epoch = record.epoch.0;
    group.active = record.active.0;
    let before = std::mem::take(&mut group.members);
    group.members = record
        .members()
        .map(|id| {
            let mut all = before.iter().chain(new);
            let known = all.find(|member| member.id == id.0);
            let role = match record.voters.contains(&id) {
                true if record.active == id => Role::Active,
                true => Role::Standby,
                false => Role::Junior,
            };
            GroupMember {
                id: id.0,
                address: known
                    .map(|member| member.address.clone())
                    .unwrap_or_default(),
                role: role as i32,
                store: known.map_or(0, |member| member.store),
                lost: known.map_or(0, |member| member.lost),
                has: known.map_or(0, |member| member.has),
            }
        })
        .collect();
    group.members.sort_by_key(|member| member.id);
}

/// The addresses of a group's members, and of who leads; only of those that have told theirs.
pub(crate) fn addresses(view: &View, group: u32) -> (Option<String>, Vec<String>) {
    let Some(group) = group_of(view, group) else {
        return (None, Vec::new());
    };
    let known = || {
        group
            .members
            .iter()
            .filter(|member| !member.address.is_empty())
    };
    let active = known().find(|member| member.id == group.active);
    (
        active.map(|member| member.address.clone()),
        known().map(|member| member.address.clone()).collect(),
    )
}

/// The members of a group that count, with their addresses (empty: not told yet).
pub(crate) fn voters(view: &View, group: u32) -> Vec<(u32, String)> {
    let members = group_of(view, group).into_iter().flat_map(|it| &it.members);
    let counts = |it: &&GroupMember| matches!(it.role(), Role::Active | Role::Standby);
    let voters = members.filter(counts);
    voters.map(|it| (it.id, it.address.clone())).collect()
}

/// The group that has a slot.
pub(crate) fn holder(view: &View, slot: Slot) -> Option<GroupId> {
    let slot = u32::from(slot.0);
    let mut ranges = view.slots.iter();
    let range = ranges.find(|range| (range.first..=range.last).contains(&slot))?;
    Some(GroupId(range.group))
}

/// Several groups have a part of the name space each.
pub(crate) fn is_partitioned(view: &View) -> bool {
    let first = view.slots.first();
    first.is_some_and(|first| view.slots.iter().any(|range| range.group != first.group))
}

/// The slots of a cluster that begins with so many groups: to each the same number, or one more.
pub(crate) fn shared_out(groups: u32) -> Vec<SlotRange> {
    let bound = |group: u32| u32::from(SLOTS) * group / groups;
    let range = |group| SlotRange {
        first: bound(group),
        last: bound(group + 1) - 1,
        group,
    };
    (0..groups).map(range).collect()
}

/// Changes the view as `change` does, as often as it takes until the outcome is known. `change` answers
/// false if nothing is to be changed; the view as it is then is answered.
pub(crate) async fn change(
    env: &Env,
    coordinator: &dyn Coordinator,
    mut change: impl FnMut(&mut View) -> Result<bool, MetaError>,
) -> Result<View, MetaError> {
    loop {
        let mut view = match coordinator.view().await {
            Err(CoordinatorError::Unavailable(why)) => {
                tracing::debug!(why, "the coordinator does not answer");
                env.sleep(RETRY).await;
                continue;
            }
            answer => answer?,
        };
        if !change(&mut view)? {
            return Ok(view);
        }
        view.version += 1;
        match coordinator.compare_and_set(view).await {
            Ok(view) => return Ok(view),
            Err(CoordinatorError::Conflict { .. }) => {}
            Err(CoordinatorError::Unavailable(_)) => env.sleep(RETRY).await,
            Err(CoordinatorError::Unknown { version, mark, why }) => {
                tracing::debug!(version, why, "whether the view was changed is unknown");
                if let Some(view) = outcome(env, coordinator, version, mark).await? {
                    return Ok(view);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Finds out whether a change of the view was made. None: it was not, and never will be; or nobody can
/// tell any more, when whoever wants it has to look at the view again anyway.
async fn outcome(
    env: &Env,
    coordinator: &dyn Coordinator,
    version: u64,
    mark: u64,
) -> Result<Option<View>, MetaError> {
    loop {
        match coordinator.view().await {
            Ok(view) if view.version >= version => {
                let was = written_by(&view, version, mark).unwrap_or(false);
                return Ok(was.then_some(view));
            }
            Ok(_) | Err(CoordinatorError::Unavailable(_)) => env.sleep(RETRY).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns when another than this member leads by the view, or `patience` is over.
pub(crate) async fn another_leads(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
    patience: std::time::Duration,
) {
    let looking = async {
        loop {
            let view = coordinator.view().await;
            let is_other = |group: &Group| group.active != settings.member;
            if view.is_ok_and(|view| group_of(&view, settings.group).is_some_and(is_other)) {
                return;
            }
            env.sleep(RETRY).await;
        }
    };
    // Either way it goes on.
    let _: Result<(), _> = env.timeout(patience, looking).await;
}

/// A change of a group's record.
pub(super) struct Change<'a> {
    pub from: &'a Record,
    pub to: &'a Record,
    /// What is known of members that are not there yet.
    pub new: &'a [GroupMember],
    /// An operator has this member lead with what it has.
    pub is_forced: bool,
}

/// Changes the record from one to another, if it is the first still and that is still wanted when the coordinator
/// can be reached. Answers the view then.
pub(super) async fn change_record(
    env: &Env,
    coordinator: &dyn Coordinator,
    group: u32,
    wanted: &Change<'_>,
    is_wanted: impl Fn() -> bool,
) -> Result<View, MetaError> {
    change(env, coordinator, |view| {
        let is_due = record_of(view, group).as_ref() == Some(wanted.from) && is_wanted();
        if is_due {
            put_record(view, group, wanted.to, wanted.new);
            let group = view.groups.iter_mut().find(|known| known.id == group);
            if let Some(group) = group.filter(|_| wanted.is_forced) {
                group.forced = wanted.to.epoch.0;
                // What only others had is lost, and its numbers are given to other batches.
                group.members.iter_mut().for_each(|member| member.has = 0);
            }
        }
        Ok(is_due)
    })
    .await
}

/// Adds the group if nobody of it has started yet: this member is its only voter, the others that it is to have are
/// juniors.
pub(super) fn begin_group(view: &mut View, settings: &Settings) {
    if group_of(view, settings.group).is_none() {
        view.groups.push(Group {
            id: settings.group,
            ..Group::default()
        });
    }
    let Some(mut record) = record_of(view, settings.group) else {
        return;
    };
    if record.members().next().is_some() {
        return;
    }
    record.voters.insert(MemberId(settings.member));
    let others = settings.members.iter().copied().map(MemberId);
    record.juniors = others.filter(|other| other.0 != settings.member).collect();
    put_record(view, settings.group, &record, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::{FIRST_GROUP, ROOT_INO};

    fn settings(member: u32) -> Settings {
        Settings {
            member,
            members: vec![1, 2, 3],
            ..Settings::default()
        }
    }

    #[test]
    fn every_slot_is_one_groups_and_no_group_has_many_more_than_another() {
        for groups in [1, 2, 3, 7, 64, 4096] {
            let view = View {
                slots: shared_out(groups),
                ..View::default()
            };
            let mut counts = vec![0; groups as usize];
            for slot in 0..SLOTS {
                let held = view
                    .slots
                    .iter()
                    .filter(|range| (range.first..=range.last).contains(&u32::from(slot)));
                assert_eq!(held.count(), 1, "slot {slot} of {groups} groups");
                let holder = holder(&view, Slot(slot)).expect("somebody has it");
                counts[holder.0 as usize] += 1;
            }
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(most.copied().unwrap_or(0) <= least.copied().unwrap_or(0) + 1);
            assert_eq!(is_partitioned(&view), groups > 1);
            assert_eq!(holder(&view, ROOT_INO.slot()), Some(FIRST_GROUP));
        }
    }

    #[test]
    fn a_record_is_found_again_in_the_view() {
        let mut view = View::default();
        assert_eq!(record_of(&view, 0), None);
        begin_group(&mut view, &settings(2));
        let founded = record_of(&view, 0).expect("it was founded");
        assert_eq!(founded.voters, BTreeSet::from([MemberId(2)]));
        assert_eq!(founded.juniors, BTreeSet::from([MemberId(1), MemberId(3)]));
        begin_group(&mut view, &settings(1));
        assert_eq!(record_of(&view, 0), Some(founded.clone()), "once");
        view.groups[0].members[1].address = "here:1".into();

        let mut next = founded.claimed_by(MemberId(1));
        next.voters.insert(MemberId(3));
        next.juniors.remove(&MemberId(3));
        put_record(&mut view, 0, &next, &[]);
        assert_eq!(record_of(&view, 0), Some(next));
        assert_eq!(addresses(&view, 0), (None, vec!["here:1".to_owned()]));
        assert_eq!(
            view.groups[0].members[0].role(),
            Role::Junior,
            "it leads, and does not count"
        );
    }

    #[test]
    fn who_is_let_in_has_an_address_and_what_was_known_is_kept() {
        let mut view = View::default();
        begin_group(&mut view, &settings(1));
        view.groups[0].members[0].address = "here:1".into();
        view.groups[0].members[0].store = 11;
        let mut next = record_of(&view, 0).expect("it was founded");
        next.juniors.insert(MemberId(4));
        let new = GroupMember {
            id: 4,
            address: "there:4".into(),
            store: 44,
            ..GroupMember::default()
        };
        put_record(&mut view, 0, &next, &[new]);
        let known = |at: usize| {
            let member = &view.groups[0].members[at];
            (member.id, member.address.as_str(), member.store)
        };
        assert_eq!(known(0), (1, "here:1", 11));
        assert_eq!(known(3), (4, "there:4", 44));
    }
}
