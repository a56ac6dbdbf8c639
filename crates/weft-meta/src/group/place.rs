//! A server's place in its group: the number of its settings, as long as it is this directory's.
//!
//! A number alone does not say who somebody is: a removed member may be started again when its number is
//! another's. So each directory draws a number of its own when it is made, its *store*, which the view has
//! beside the member's. A server whose store is not the view's has no part in the group, unless its directory
//! is empty: then it takes the place of a member that is away, as its new disk.

use super::view::{self, change};
use super::{orders, view::group_of};
use crate::{MetaError, Settings};
use std::path::PathBuf;
use weft_coordinator::Coordinator;
use weft_env::Env;
use weft_types::Epoch;
use weft_wire::proto::{GroupMember, View};

/// Holds the number of the directory: 8 bytes.
fn store_path(settings: &Settings) -> PathBuf {
    settings.dir.join("store")
}

/// The number of the directory; drawn if it has none. Never 0.
pub(super) async fn store(env: &Env, settings: &Settings) -> Result<u64, MetaError> {
    let path = store_path(settings);
    let io = |what: &str| {
        let what = format!("{what} {}", path.display());
        move |source| MetaError::Io { what, source }
    };
    if let Some(found) = env.read_file(&path).await.map_err(io("reading"))? {
        let found = <[u8; 8]>::try_from(found.as_slice()).ok();
        let store = found.map(u64::from_le_bytes).filter(|store| *store != 0);
        return store.ok_or_else(|| {
            MetaError::Corrupt(format!(
                "{} does not hold a number of 8 bytes: put it back from a copy, or start this member with \
                 an empty directory",
                path.display()
            ))
        });
    }
    let store = env.random().max(1);
    let bytes = store.to_le_bytes().to_vec();
    env.replace_file(&path, bytes).await.map_err(io("making"))?;
    Ok(store)
}

/// Who wants a place.
pub(super) struct Applicant<'a> {
    pub address: &'a str,
    pub store: u64,
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

/// Enters this member's address; founds the group if there is none and the journal is empty.
///
/// # Errors
/// If the view is another cluster's, or not this journal's, if this directory has no place in the group, or
/// another server has it; what to do is in the message.
pub(super) async fn enter(
    env: &Env,
    coordinator: &dyn Coordinator,
    settings: &Settings,
    applicant: Applicant<'_>,
) -> Result<View, MetaError> {
    // Where nobody has answered.
    let mut deserted = String::new();
    loop {
        let mut rival = None;
        let view = change(env, coordinator, |view| {
            let before = view.clone();
            prepare(view, settings, applicant.journal_epoch)?;
            rival = take_place(view, settings, &applicant)?.filter(|at| *at != deserted);
            Ok(rival.is_none() && *view != before)
        })
        .await?;
        let Some(rival) = rival else { return Ok(view) };
        match orders::who_is_at(env, settings, &rival).await {
            Ok(found) if found.group == settings.group && found.member == settings.member => {
                return Err(MetaError::Settings(format!(
                    "member {} of group {} is alive at {rival}: two servers cannot have one number. Give \
                     this one another `member`, or stop that one first",
                    settings.member, settings.group
                )));
            }
            Ok(_) | Err(_) => deserted = rival,
        }
    }
}

/// The view is this cluster's, and has the group.
fn prepare(view: &mut View, settings: &Settings, journal_epoch: Epoch) -> Result<(), MetaError> {
    if view.version == 0 {
        view.cluster_id = settings.cluster_id.clone();
        view.slots = view::shared_out(settings.groups);
    }
    if view.cluster_id != settings.cluster_id {
        return Err(MetaError::Settings(format!(
            "cluster_id is {:?}, but {} belongs to cluster {:?}",
            settings.cluster_id,
            settings.dir.display(),
            view.cluster_id
        )));
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
    if journal_epoch.0 > epoch {
        return Err(MetaError::Corrupt(format!(
            "the journal has been written in epoch {journal_epoch} but the view has just reached \
             {epoch}: the view is not that of the journal in {}; put the right one back",
            settings.dir.display()
        )));
    }
    view::found(view, settings);
    Ok(())
}

/// Enters address and store where that is right, or answers where another server may be that has the number.
fn take_place(
    view: &mut View,
    settings: &Settings,
    applicant: &Applicant<'_>,
) -> Result<Option<String>, MetaError> {
    let (group, number) = (settings.group, settings.member);
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
    let is_known = member.store == applicant.store || member.store == 0;
    if !is_known && !applicant.is_empty {
        return Err(MetaError::NoMember(format!(
            "member {number} of group {group} has another directory than {} now, and is to be found at {}: this \
             one was removed, or replaced. To let this server in, give it another `member` and an empty \
             directory, and let it in with `weft group add`",
            settings.dir.display(),
            member.address
        )));
    }
    if !member.address.is_empty() && member.address != applicant.address {
        let rival = member.address.clone();
        applicant.address.clone_into(&mut member.address);
        member.store = applicant.store;
        return Ok(Some(rival));
    }
    applicant.address.clone_into(&mut member.address);
    member.store = applicant.store;
    Ok(None)
}

/// It was a member, and is none.
pub(crate) fn removed(settings: &Settings) -> MetaError {
    MetaError::NoMember(format!(
        "member {} was removed from group {}: this server takes no part in it any more. Stop it; to let it in \
         again, start it with an empty directory instead of {}, and let it in with `weft group add`",
        settings.member,
        settings.group,
        settings.dir.display()
    ))
}
