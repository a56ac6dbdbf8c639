//! The group's record in the coordinator's view.

use crate::{MetaError, Settings};
use std::collections::BTreeSet;
use weft_coordinator::{Coordinator, CoordinatorError, written_by};
use weft_env::Env;
use weft_group::{MemberId, Record};
use weft_types::{Epoch, SLOTS};
use weft_wire::proto::{Group, GroupMember, SlotRange, View, group_member::Role};

/// Who asks again what the coordinator has not answered waits this long.
const RETRY: std::time::Duration = std::time::Duration::from_millis(20);

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

/// Writes who counts into the view. Addresses of those that stay are kept.
fn put_record(view: &mut View, group: u32, record: &Record) {
    let Some(group) = view.groups.iter_mut().find(|known| known.id == group) else {
        return;
    };
    group.epoch = record.epoch.0;
    group.active = record.active.0;
    let before = std::mem::take(&mut group.members);
    group.members = record
        .members()
        .map(|id| {
            let known = before.iter().find(|member| member.id == id.0);
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
            }
        })
        .collect();
    group.members.sort_by_key(|member| member.id);
}

/// The addresses of a group's members, and of who leads; only of those that have told theirs.
pub(super) fn addresses(view: &View, group: u32) -> (Option<String>, Vec<String>) {
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

/// Changes the view as `change` does, as often as it takes until the outcome is known. `change` answers
/// false if nothing is to be changed; the view as it is then is answered.
pub(super) async fn change(
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

/// Changes the record from one to another, if it is the first still. Answers the view then.
pub(super) async fn change_record(
    env: &Env,
    coordinator: &dyn Coordinator,
    group: u32,
    from: &Record,
    to: &Record,
) -> Result<View, MetaError> {
    change(env, coordinator, |view| {
        let is_first = record_of(view, group).as_ref() == Some(from);
        if is_first {
            put_record(view, group, to);
        }
        Ok(is_first)
    })
    .await
}

/// Enters this member's address; founds the group if there is none and the journal is empty.
///
/// # Errors
/// If the view is another cluster's, or not this journal's; what to do is in the message.
pub(super) async fn enter(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
    address: &str,
    journal_epoch: Epoch,
) -> Result<View, MetaError> {
    change(env, coordinator, |view| {
        let before = view.clone();
        if view.version == 0 {
            view.cluster_id = settings.cluster_id.clone();
            view.slots = vec![SlotRange {
                first: 0,
                last: u32::from(SLOTS) - 1,
                group: settings.group,
            }];
        }
        if view.cluster_id != settings.cluster_id {
            return Err(MetaError::Settings(format!(
                "cluster_id is {:?}, but {} belongs to cluster {:?}",
                settings.cluster_id,
                settings.dir.display(),
                view.cluster_id
            )));
        }
        let epoch = group_of(view, settings.group).map_or(0, |group| group.epoch);
        if journal_epoch.0 > epoch {
            return Err(MetaError::Corrupt(format!(
                "the journal has been written in epoch {journal_epoch} but the view has just reached \
                 {epoch}: the view is not that of the journal in {}; put the right one back",
                settings.dir.display()
            )));
        }
        found(view, settings);
        let groups = view.groups.iter_mut();
        for group in groups.filter(|group| group.id == settings.group) {
            for member in &mut group.members {
                if member.id == settings.member {
                    address.clone_into(&mut member.address);
                }
            }
        }
        Ok(*view != before)
    })
    .await
}

/// Adds the group if it is not there: this member is its only voter, the others that it is to have are
/// juniors. (A group that has no members was left by a server that stopped before it had served.)
fn found(view: &mut View, settings: &Settings) {
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
    put_record(view, settings.group, &record);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(member: u32) -> Settings {
        Settings {
            member,
            members: vec![1, 2, 3],
            ..Settings::default()
        }
    }

    #[test]
    fn a_record_is_found_again_in_the_view() {
        let mut view = View::default();
        assert_eq!(record_of(&view, 0), None);
        found(&mut view, &settings(2));
        let founded = record_of(&view, 0).expect("it was founded");
        assert_eq!(founded.voters, BTreeSet::from([MemberId(2)]));
        assert_eq!(founded.juniors, BTreeSet::from([MemberId(1), MemberId(3)]));
        found(&mut view, &settings(1));
        assert_eq!(record_of(&view, 0), Some(founded.clone()), "once");
        view.groups[0].members[1].address = "here:1".into();

        let mut next = founded.claimed_by(MemberId(1));
        next.voters.insert(MemberId(3));
        next.juniors.remove(&MemberId(3));
        put_record(&mut view, 0, &next);
        assert_eq!(record_of(&view, 0), Some(next));
        assert_eq!(addresses(&view, 0), (None, vec!["here:1".to_owned()]));
        assert_eq!(
            view.groups[0].members[0].role(),
            Role::Junior,
            "it leads, and does not count"
        );
    }
}
