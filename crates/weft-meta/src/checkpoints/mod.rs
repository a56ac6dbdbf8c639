//! Checkpoints: one cut through all groups, the images of it, and the way back (`docs/protocols/checkpoints.md`).
//!
//! `create.rs` and `restore.rs` are the first group's, which drives what all do; `steps.rs` is what each group does
//! of it, `loading.rs` how it brings its name space back, `files.rs` what each member keeps.

mod create;
mod files;
mod loading;
mod restore;
mod steps;

pub(crate) use create::{clear_away, on_create, on_delete};
pub(crate) use files::{Kept, keep, look_after};
pub(crate) use restore::{drive, on_list, on_restore};
pub(crate) use steps::{
    ends_batch, on_cut, on_cut_status, on_drop_cut, on_go_on, on_step, on_write_back, release_held,
};

use crate::reign::{Core, Meta};
use std::collections::BTreeSet;
use std::rc::Rc;
use steps::Hold;
use tokio::sync::Notify;
use weft_types::{FIRST_GROUP, GroupId};
use weft_wire::proto::{self, op::Op};
use weft_wire::{Failed, Rpc};

/// What a reign knows of checkpoints besides its state.
#[derive(Default)]
pub(crate) struct Checkpointing {
    /// Nothing goes to the journals now.
    pub hold: Option<Hold>,
    /// Kept images that have been read to their end, in this reign, and are good.
    verified: BTreeSet<u64>,
    /// One is being read, or fetched, or loaded.
    is_at_work: bool,
    /// What hinders that, in words.
    trouble: String,
    /// First group: the checkpoint that is being made.
    making: Option<u64>,
    is_making: bool,
    /// First group: what the restore waits for, in words.
    waits: String,
    /// There is something to do for the tasks of checkpoints.
    pub changed: Rc<Notify>,
}

/// Begins what goes on with checkpoints as long as a reign lasts.
pub(crate) fn begin(meta: &Rc<Meta>) {
    meta.spawn("held objects", release_held(meta.clone()));
    if meta.settings.group == FIRST_GROUP.0 {
        meta.spawn("checkpoints", clear_away(meta.clone()));
        meta.spawn("restore", drive(meta.clone()));
    }
}

/// Whether a request of this kind is answered while a checkpoint is being restored: what concerns pairs and their
/// servers, the state of things, and the restore itself.
pub(crate) fn is_served_while_closed(method: u16) -> bool {
    [
        proto::SessionRequest::METHOD,
        proto::LeadsRequest::METHOD,
        proto::StatusRequest::METHOD,
        proto::HealthRequest::METHOD,
        proto::SuspectRequest::METHOD,
        proto::PlaceRequest::METHOD,
        proto::RegisterRequest::METHOD,
        proto::BeatRequest::METHOD,
        proto::RecoveredRequest::METHOD,
        proto::AttendRequest::METHOD,
        proto::FollowPairsRequest::METHOD,
        proto::UnsettledRequest::METHOD,
        proto::ReturnedRequest::METHOD,
        proto::LossesRequest::METHOD,
        proto::AcknowledgeRequest::METHOD,
        proto::JobsRequest::METHOD,
        proto::CheckpointsRequest::METHOD,
        proto::RestoreCheckpointRequest::METHOD,
        proto::CreateCheckpointRequest::METHOD,
        proto::DeleteCheckpointRequest::METHOD,
        proto::GoOnRequest::METHOD,
        proto::CutStatusRequest::METHOD,
        proto::DropCutRequest::METHOD,
        proto::RestoreStepRequest::METHOD,
        proto::GuestsRequest::METHOD,
        proto::SlotOutcomeRequest::METHOD,
        proto::SlotsRequest::METHOD,
    ]
    .contains(&method)
}

/// Why clients are not served now.
pub(crate) fn is_closed() -> Failed {
    Failed::Unavailable("a checkpoint is being restored".into())
}

/// An entry of checkpoints: no client's, and it changes nothing that a client has cached.
pub(crate) fn is_entry(op: &Op) -> bool {
    matches!(
        op,
        Op::PlanCheckpoint(_)
            | Op::KeepCheckpoint(_)
            | Op::EndCheckpoint(_)
            | Op::ForgetCheckpoint(_)
            | Op::BeginRestore(_)
            | Op::EndRestore(_)
            | Op::Cut(_)
            | Op::DropCut(_)
            | Op::ReleaseHeld(_)
            | Op::CloseForRestore(_)
            | Op::LoadRecords(_)
            | Op::TakeLoaded(_)
            | Op::SweepReplaced(_)
            | Op::ReopenRestored(_)
    )
}

/// All groups, in order.
fn groups(core: &Core) -> Vec<GroupId> {
    let mut ids: Vec<GroupId> = core.view.groups.iter().map(|it| GroupId(it.id)).collect();
    ids.sort_unstable();
    ids
}

/// Refuses what only the first group does.
fn check_first(meta: &Meta) -> Result<(), Failed> {
    match meta.settings.group == FIRST_GROUP.0 {
        true => Ok(()),
        false => Err(Failed::Refused(
            "the first group keeps the checkpoints: ask that one".into(),
        )),
    }
}
