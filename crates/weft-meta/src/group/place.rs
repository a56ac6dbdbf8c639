//! A server's place in its group: the number of its settings, as long as it is this directory's.
//!
//! A number alone does not say who somebody is: a removed member may be started again when its number is another's, and
//! a directory may be empty because its disk is not mounted. So each directory draws a number of its own when it takes a
//! place, its *store*, which the view has beside the member's. A place is taken once: a server whose store is not the
//! view's has no part in the group. A place is *vacant* before its first server has started, and again when an operator
//! has said that its directory is lost (`weft group replace`); then the next empty directory takes it.
//! `docs/protocols/founding.md` has the life of a start.

use super::superblock::{Found, Superblock};
use super::view::{self, change};
use super::{orders, view::group_of};
use crate::{MetaError, Settings, founding};
use bytes::Bytes;
use weft_coordinator::Coordinator;
use weft_env::Env;
use weft_types::{Epoch, NameSpaceId};
use weft_wire::proto::{GroupMember, View};

/// Who wants a place.
pub(super) struct Applicant<'a> {
    pub address: &'a str,
    /// Whose its directory is; None: nobody's yet.
    pub found: Option<Found>,
    /// Of the last batch of its journal.
    pub journal_epoch: Epoch,
    /// There is nothing in its directory.
    pub is_empty: bool,
}

/// The entry of this member, if it is this directory's.
pub(super) fn entry<'a>(
    view: &'a View,
    settings: &Settings,
    store: u64,
) -> Option<&'a GroupMember> {
    let members = group_of(view, settings.group)?.members.iter();
    members
        .filter(|member| member.id == settings.member)
        .find(|member| member.store == store || member.store == 0)
}

/// A place that was entered.
pub(super) struct Entered {
    pub view: View,
    pub store: u64,
}

/// Enters this member's address, and makes the directory the member's if the place is vacant. Until that is certain nothing
/// is written to the directory.
///
/// # Errors
/// [`MetaError::Refused`] if the cluster has not been founded, the directory is of another name space, has no place in the
/// group, or another server has it; [`MetaError::Corrupt`] if the view is not this journal's. What to do is in the
/// message.
pub(super) async fn enter(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
    applicant: Applicant<'_>,
) -> Result<Entered, MetaError> {
    // A directory that is to be refused is not written to: the view is read first.
    let name_space = look(env, coordinator, settings, &applicant).await?;
    let known = applicant.found.map(Found::store);
    let store = known.unwrap_or_else(|| env.random().max(1));
    if !matches!(applicant.found, Some(Found::Superblock(_))) {
        let superblock = Superblock::of(settings, name_space, store);
        superblock.save(env, settings).await?;
    }
    // Where nobody has answered.
    let mut deserted = String::new();
    loop {
        let mut rival = None;
        let view = change(env, coordinator, |view| {
            let before = view.clone();
            prepare(view, settings, &applicant)?;
            rival =
                take_place(view, settings, &applicant, Some(store))?.filter(|at| *at != deserted);
            Ok(rival.is_none() && *view != before)
        })
        .await?;
        let Some(rival) = rival else {
            return Ok(Entered { view, store });
        };
        match orders::who_is_at(env, settings, &rival).await {
            Ok(found) if found.group == settings.group && found.member == settings.member => {
                return Err(MetaError::Refused(format!(
                    "member {} of group {} is alive at {rival}: two servers cannot have one number. Give \
                     this one another `member`, or stop that one first",
                    settings.member, settings.group
                )));
            }
            Ok(_) | Err(_) => deserted = rival,
        }
    }
}

/// Looks whether a directory that is not there yet may be made, and take the member's place.
///
/// # Errors
/// As [`enter`].
pub(crate) async fn check_vacant(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
) -> Result<(), MetaError> {
    let nobody = Applicant {
        address: &settings.listen,
        found: None,
        journal_epoch: Epoch(0),
        is_empty: true,
    };
    look(env, coordinator, settings, &nobody).await.map(drop)
}

/// Whether the applicant may have the place now. Answers the name space that it is in.
async fn look(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
    applicant: &Applicant<'_>,
) -> Result<NameSpaceId, MetaError> {
    identify(env, coordinator, settings, applicant).await?;
    let mut name_space = None;
    let known = applicant.found.map(Found::store);
    change(env, coordinator, |view| {
        let mut view = view.clone();
        name_space = Some(prepare(&mut view, settings, applicant)?);
        take_place(&mut view, settings, applicant, known)?;
        Ok(false)
    })
    .await?;
    name_space.ok_or_else(|| not_founded(settings))
}

/// A view of before name spaces had a number gets one: that of the directory, if it has one. (A metadata server of before
/// that changes the view takes the number out of it.)
async fn identify(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
    applicant: &Applicant<'_>,
) -> Result<(), MetaError> {
    let number = match &applicant.found {
        Some(Found::Superblock(superblock)) => superblock.name_space,
        _ => founding::draw(env),
    };
    change(env, coordinator, |view| {
        let is_ours = view.cluster_id == settings.cluster_id;
        let is_before = is_ours && view.version > 0 && view::id_of(view).is_none();
        if is_before {
            view.name_space = Bytes::copy_from_slice(&number.to_bytes());
        }
        Ok(is_before)
    })
    .await
    .map(drop)
}

/// Nobody has founded what these settings name.
pub(crate) fn not_founded(settings: &Settings) -> MetaError {
    MetaError::Refused(format!(
        "cluster {:?} has not been founded at {}: no server founds it by starting. If it is there, set `coordinator` \
         to where its other servers have theirs, or mount what is to be there; to found it: `weft init --config FILE`, once, \
         with the settings of any metadata server",
        settings.cluster_id,
        founding::place_of(settings)
    ))
}

/// The view is this cluster's, has been founded, and has the group.
fn prepare(
    view: &mut View,
    settings: &Settings,
    applicant: &Applicant<'_>,
) -> Result<NameSpaceId, MetaError> {
    let Some(name_space) = view::id_of(view) else {
        return Err(not_founded(settings));
    };
    let dir = settings.dir.display();
    if view.cluster_id != settings.cluster_id {
        return Err(MetaError::Refused(format!(
            "`cluster_id` is {:?}, but the view at {} is of cluster {:?}: set `cluster_id` or `coordinator` to what this \
             server is to belong to",
            settings.cluster_id,
            founding::place_of(settings),
            view.cluster_id
        )));
    }
    if let Some(Found::Superblock(superblock)) = &applicant.found {
        superblock.check(settings, name_space)?;
    }
    // One that is there may have given all its slots to others.
    let is_there = group_of(view, settings.group).is_some_and(|group| !group.members.is_empty());
    if !is_there && !view.slots.iter().any(|range| range.group == settings.group) {
        let groups = view.slots.iter().map(|range| range.group).max();
        return Err(MetaError::Settings(format!(
            "group {} has no part of the name space: the cluster was founded with groups 0 to {}; set `group` \
             to one of them",
            settings.group,
            groups.unwrap_or_default()
        )));
    }
    let epoch = group_of(view, settings.group).map_or(0, |group| group.epoch);
    let journal_epoch = applicant.journal_epoch;
    if journal_epoch.0 > epoch {
        return Err(MetaError::Corrupt(format!(
            "the journal has been written in epoch {journal_epoch} but the view has just reached \
             {epoch}: the view is not that of the journal in {dir}; put the right one back"
        )));
    }
    view::begin_group(view, settings);
    Ok(name_space)
}

/// Enters address and store where that is right, or answers where another server may be that has the number. `store`: None
/// if the directory has none yet.
fn take_place(
    view: &mut View,
    settings: &Settings,
    applicant: &Applicant<'_>,
    store: Option<u64>,
) -> Result<Option<String>, MetaError> {
    let (group, number) = (settings.group, settings.member);
    let is_before = view.founded.is_none();
    let groups = view.groups.iter_mut();
    let member = groups
        .filter(|known| known.id == group)
        .flat_map(|known| &mut known.members)
        .find(|member| member.id == number);
    let Some(member) = member else {
        return match applicant.is_empty {
            // It waits to be let in.
            true => Ok(None),
            false => Err(removed(settings)),
        };
    };
    let is_vacant = member.store == 0;
    // What others than the last one had of this place is older than what the last one has told.
    // (In a cluster of before, directories had places that the view did not know of.)
    let is_first = member.lost == 0 && is_before;
    let may_take = applicant.is_empty || is_first || Some(member.lost) == store;
    if !(is_vacant && may_take || !is_vacant && Some(member.store) == store) {
        return Err(taken(settings, member, applicant.is_empty));
    }
    if is_vacant && Some(member.lost) != store {
        member.has = 0;
    }
    member.lost = 0;
    let before = std::mem::replace(&mut member.address, applicant.address.to_owned());
    member.store = store.unwrap_or_default();
    let is_elsewhere = !before.is_empty() && before != applicant.address;
    Ok(is_elsewhere.then_some(before))
}

/// The place is another directory's.
fn taken(settings: &Settings, member: &GroupMember, is_empty: bool) -> MetaError {
    let (group, number, dir) = (settings.group, settings.member, settings.dir.display());
    let at = match member.address.as_str() {
        "" => String::new(),
        address => format!(", last at {address}"),
    };
    let of_group = orders::of_group(group);
    MetaError::Refused(match is_empty {
        true => format!(
            "{dir} is empty, and member {number} of group {group} has its journal in another directory{at}. If that is a \
             disk that is not mounted, mount it. If it is lost, let an empty directory take its place: `weft group replace \
             {number}{of_group}`, then start this server again. Nothing was changed"
        ),
        false => format!(
            "member {number} of group {group} has another directory than {dir} now{at}: this one was removed, or \
             replaced. To let this server in, give it another `member` and an empty directory, and let it in with `weft group \
             add`"
        ),
    })
}

/// It was a member, and is none.
pub(crate) fn removed(settings: &Settings) -> MetaError {
    MetaError::Refused(format!(
        "member {} was removed from group {}: this server takes no part in it any more. Stop it; to let it in \
         again, start it with an empty directory instead of {}, and let it in with `weft group add`",
        settings.member,
        settings.group,
        settings.dir.display()
    ))
}
