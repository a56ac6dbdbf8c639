//! A reign: what the active of a group has, and which of its requests goes where.
//!
//! All state is in one [`Core`]; a request gets hold of it, is handled to its end or put aside, and
//! lets go. No borrow lives across a wait. A reign knows nothing of the other members: it hands each
//! batch to whoever began it, and is told when that is committed.

use crate::checkpoints::{self, Checkpointing};
use crate::committer::{self, Commits};
use crate::contention::Contention;
use crate::dealing::{self, Dealing};
use crate::health::Health;
use crate::jobs::Jobs;
use crate::leases::{LEASES_MAX, Leases};
use crate::locks::LockWaiters;
use crate::metrics::Metrics;
use crate::pairs::Pairs;
use crate::partition::{self, Links, Running};
use crate::ranges::Ranges;
use crate::remnants::Gone;
use crate::revocations::Parking;
use crate::sessions::Live;
use crate::settle::Settling;
use crate::slots::{self, Slots, Wakes};
use crate::{MetaError, Settings};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Notify;
use weft_coordinator::Coordinator;
use weft_env::{Env, Task};
use weft_namespace::State;
use weft_rpc::{Connection, Payload, Replier, Request};
use weft_types::{Epoch, FIRST_GROUP, Ino, Operation, ROOT_INO, SessionId, Sn};
use weft_wire::proto::{self, Batch, Entry, OpReply, View, op};
use weft_wire::{Failed, Rpc};

/// Grants and revocations of a reign are numbered from `epoch << SEQ_EPOCH_SHIFT` on, so that they
/// are above those of every earlier reign.
const SEQ_EPOCH_SHIFT: u32 = 40;

/// Tasks that have ended are let go of when there are so many, or twice as many as then still go on.
const TASKS_MIN: usize = 64;

/// What every task of the reign shares.
pub(crate) struct Meta {
    pub env: Env,
    pub settings: Rc<Settings>,
    pub coordinator: Rc<dyn Coordinator>,
    pub core: RefCell<Core>,
    /// An entry waits for the committer, or there is room on the way to the journal.
    pub gathered: Notify,
    /// Nothing waits for the journal any more, and the reign is to end.
    pub drained: Notify,
    /// A pair or its members changed: the pairs' clock looks again when it has to wake.
    pub pairs_changed: Notify,
    /// Other groups have to hear of a pair.
    pub pairs_published: Notify,
    /// Objects may be waiting to be dropped.
    pub deletions_changed: Notify,
    /// A job, or how far it is, has changed.
    pub jobs_changed: Notify,
    pub stopping: Cell<bool>,
    /// Takes each batch on its way to the journals.
    pub propose: Box<dyn Fn(Batch)>,
    /// To the actives of other groups.
    pub links: Links,
    /// What works on slots that move.
    pub slots: Wakes,
    /// Some directory's entries are going to its shards.
    pub is_splitting: Cell<bool>,
    tasks: RefCell<Vec<Task>>,
    /// Tasks that there may be before those that have ended are let go of.
    tasks_max: Cell<usize>,
}

/// What a reign keeps. See the module.
pub(crate) struct Core {
    pub state: State,
    pub epoch: Epoch,
    pub commits: Commits,
    pub leases: Leases,
    pub contention: Contention,
    pub parking: Parking,
    /// Which bytes each session has of the files that several write.
    pub ranges: Ranges,
    pub settling: Settling,
    pub sessions: BTreeMap<SessionId, Live>,
    /// Sessions of an earlier reign that are neither back nor ending.
    pub away: usize,
    pub lock_waiters: LockWaiters,
    /// Who has come to another gateway.
    pub gone: Gone,
    pub pairs: Pairs,
    pub jobs: Jobs,
    /// Transactions that are under way.
    pub running: Running,
    pub checkpoints: Checkpointing,
    /// Slots that move.
    pub slots: Slots,
    /// Directories that have grown, and are being spread.
    pub spreading: BTreeSet<Ino>,
    /// How often entries of one have gone to a shard, counted from `epoch << SEQ_EPOCH_SHIFT` on.
    pub splits: u64,
    pub view: View,
    pub metrics: Rc<Metrics>,
    /// Time of the last entry, in nanoseconds: entries never go back in time.
    pub last_time: i128,
    /// At which pairs the next files begin.
    pub dealing: Dealing,
    pub health: Health,
}

/// What a reign begins with.
pub(crate) struct Inherited {
    pub state: State,
    pub epoch: Epoch,
    /// The last batch of the journal.
    pub last: Sn,
    /// Time of its last entry, in nanoseconds since 1970.
    pub last_time: i128,
    pub view: View,
}

impl Meta {
    /// Begins a reign; its first entry is on its way to the journal when this returns.
    ///
    /// # Errors
    /// If the state of a pair makes no sense.
    pub(crate) fn begin(
        env: &Env,
        settings: &Rc<Settings>,
        coordinator: &Rc<dyn Coordinator>,
        metrics: &Rc<Metrics>,
        inherited: Inherited,
        propose: impl Fn(Batch) + 'static,
    ) -> Result<Rc<Meta>, MetaError> {
        let Inherited {
            state,
            epoch,
            last,
            last_time,
            view,
        } = inherited;
        tracing::info!(group = settings.group, %epoch, sn = %last,
            inodes = state.statistics().inodes, "leading");
        let now = env.now();
        let is_untouched = state.is_untouched();
        let is_first = settings.group == FIRST_GROUP.0;
        let mut pairs = Pairs::new(&state, is_first.then(|| settings.terms()), now)?;
        pairs.take_addresses(&view);
        let sessions = Live::of_earlier_reign(&state, settings.session_term(), now);
        let core = Core {
            commits: Commits::new(settings.journal.sync, Sn(last.0 + 1)),
            away: sessions.len(),
            sessions,
            pairs,
            state,
            epoch,
            dealing: Dealing::default(),
            health: Health::new(env.now()),
            contention: Contention::default(),
            leases: Leases::new(epoch.0 << SEQ_EPOCH_SHIFT, LEASES_MAX),
            parking: Parking::default(),
            ranges: Ranges::default(),
            settling: Settling::default(),
            jobs: Jobs::default(),
            running: Running::default(),
            checkpoints: Checkpointing::default(),
            slots: Slots::default(),
            spreading: BTreeSet::new(),
            splits: epoch.0 << SEQ_EPOCH_SHIFT,
            lock_waiters: LockWaiters::default(),
            gone: Gone::default(),
            view,
            metrics: metrics.clone(),
            last_time,
        };
        let meta = Rc::new(Meta {
            env: env.clone(),
            settings: settings.clone(),
            coordinator: coordinator.clone(),
            core: RefCell::new(core),
            gathered: Notify::new(),
            drained: Notify::new(),
            pairs_changed: Notify::new(),
            pairs_published: Notify::new(),
            deletions_changed: Notify::new(),
            jobs_changed: Notify::new(),
            stopping: Cell::new(false),
            propose: Box::new(propose),
            links: Links::default(),
            slots: Wakes::default(),
            is_splitting: Cell::new(false),
            tasks: RefCell::default(),
            tasks_max: Cell::new(TASKS_MIN),
        });
        meta.spawn("committer", committer::run(meta.clone()));
        meta.spawn("journal room", committer::watch_room(meta.clone()));
        {
            let core = &mut *meta.core.borrow_mut();
            let new_reign = op::Op::NewReign(proto::NewReign { epoch: epoch.0 });
            let (_, first) = meta.apply_own(core, new_reign);
            meta.when_committed(core, first, |meta, core, result| {
                if result.is_ok() {
                    crate::pairs::inherited(meta, core);
                }
            });
            if is_untouched {
                meta.begin_name_space(core);
            }
            meta.skip_lost_numbers(core);
            if core.state.closed().is_none() {
                partition::finish_decided(&meta, core);
            }
            crate::spread::begin(&meta, core);
            crate::health::tick(&meta, core);
        }
        if slots::are_several(&meta.core.borrow()) {
            slots::begin(&meta);
        }
        crate::remnants::begin(&meta);
        meta.spawn("session clock", crate::expiry::run(meta.clone()));
        match is_first {
            true => meta.spawn("pair clock", crate::pairs::run_clock(meta.clone())),
            false => meta.spawn("pairs", crate::pairs::follow(meta.clone())),
        }
        meta.spawn("deletions", crate::deletions::run(meta.clone()));
        meta.spawn("lingering", crate::lingering::run(meta.clone()));
        meta.spawn("jobs", crate::jobs::run(meta.clone()));
        checkpoints::begin(&meta);
        Ok(meta)
    }

    /// Where an operator had a member lead with what it had, numbers that may be given in what is lost are given no more.
    fn skip_lost_numbers(&self, core: &mut Core) {
        let group = core
            .view
            .groups
            .iter()
            .find(|it| it.id == self.settings.group);
        let forced = group.map_or(0, |group| group.forced);
        if forced > core.state.skipped_for() {
            tracing::warn!(
                epoch = forced,
                "an operator had a member lead with what it had: numbers go on above those that may be lost"
            );
            let skip = proto::SkipNumbers { forced };
            self.apply_own(core, op::Op::SkipNumbers(skip));
            core.pairs.may_have_lost();
        }
    }

    /// Returns when all that has been applied is committed, or never will be. Nothing new is taken.
    pub(crate) async fn drain(&self) {
        self.stopping.set(true);
        let drained = self.drained.notified();
        self.gathered.notify_one();
        drained.await;
    }

    /// Ends the reign: what has been applied and is not committed is void. Who still waits for an answer
    /// gets none from here.
    pub(crate) fn end(&self) {
        self.stopping.set(true);
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        let (parking, waiters) = {
            let core = &mut *self.core.borrow_mut();
            core.sessions.clear();
            core.metrics.judges_no_more();
            let failed = "another metadata server leads".to_owned();
            (std::mem::take(&mut core.parking), core.commits.fail(failed))
        };
        // They hold the reign, and give their requests up as they go.
        drop((parking, waiters));
    }

    /// Starts a task that ends with the reign.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let task = self.env.spawn(name, task);
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() >= self.tasks_max.get() {
            tasks.retain(|task| !task.is_finished());
            self.tasks_max.set((tasks.len() * 2).max(TASKS_MIN));
        }
        tasks.push(task);
    }

    /// The first entries of a name space in which nothing has been done: its place among the groups, and
    /// who owns the root directory.
    fn begin_name_space(&self, core: &mut Core) {
        let group = self.settings.group;
        if group != FIRST_GROUP.0 || crate::group::is_partitioned(&core.view) {
            let slots = core.view.slots.iter().filter(|range| range.group == group);
            let slots = slots.copied().collect();
            self.apply_own(core, op::Op::Found(proto::Found { group, slots }));
        }
        if core.state.inode(ROOT_INO).is_ok() {
            self.apply(core, first_change(&self.settings));
        }
    }

    /// A connection has ended.
    pub(crate) fn on_disconnect(self: &Rc<Self>, connection: &Connection, why: &str) {
        let core = &mut *self.core.borrow_mut();
        crate::sessions::on_disconnect(core, connection);
        crate::pairs::on_disconnect(self, core, connection, why);
    }

    /// Every request of clients, data servers and tools arrives here while the server leads.
    pub(crate) fn on_request(self: &Rc<Self>, connection: &Connection, request: Request) {
        let core = &mut *self.core.borrow_mut();
        if core.state.closed().is_some() && !checkpoints::is_served_while_closed(request.method) {
            return request.replier.fail(checkpoints::is_closed());
        }
        let from = (self, core, connection);
        match request.method {
            proto::ChangeRequest::METHOD => dispatch(from, request, crate::changes::on_change),
            proto::LookupRequest::METHOD => dispatch(from, request, crate::reads::on_lookup),
            proto::GetInodeRequest::METHOD => dispatch(from, request, crate::reads::on_get_inode),
            proto::LeaseRangeRequest::METHOD => {
                dispatch(from, request, crate::revocations::on_lease_range);
            }
            proto::ReaddirRequest::METHOD => dispatch(from, request, crate::reads::on_readdir),
            proto::GetxattrRequest::METHOD => dispatch(from, request, crate::reads::on_getxattr),
            proto::GetLockRequest::METHOD => dispatch(from, request, crate::reads::on_get_lock),
            proto::StatfsRequest::METHOD => dispatch(from, request, crate::status::on_statfs),
            proto::SessionRequest::METHOD => dispatch(from, request, crate::sessions::on_session),
            proto::RenewRequest::METHOD => dispatch(from, request, crate::sessions::on_renew),
            proto::PrepareRequest::METHOD => dispatch(from, request, partition::on_prepare),
            proto::FinishRequest::METHOD => dispatch(from, request, partition::on_finish),
            proto::OutcomeRequest::METHOD => dispatch(from, request, partition::on_outcome),
            proto::WalkRequest::METHOD => dispatch(from, request, partition::on_walk),
            proto::CreateCheckpointRequest::METHOD => {
                dispatch(from, request, checkpoints::on_create);
            }
            proto::CheckpointsRequest::METHOD => dispatch(from, request, checkpoints::on_list),
            proto::RestoreCheckpointRequest::METHOD => {
                dispatch(from, request, checkpoints::on_restore);
            }
            proto::DeleteCheckpointRequest::METHOD => {
                dispatch(from, request, checkpoints::on_delete);
            }
            proto::CutRequest::METHOD => dispatch(from, request, checkpoints::on_cut),
            proto::GoOnRequest::METHOD => dispatch(from, request, checkpoints::on_go_on),
            proto::CutStatusRequest::METHOD => dispatch(from, request, checkpoints::on_cut_status),
            proto::DropCutRequest::METHOD => dispatch(from, request, checkpoints::on_drop_cut),
            proto::RestoreStepRequest::METHOD => dispatch(from, request, checkpoints::on_step),
            proto::WriteBackRequest::METHOD => dispatch(from, request, checkpoints::on_write_back),
            proto::ReceiveSlotRequest::METHOD => dispatch(from, request, slots::on_receive),
            proto::CheckSlotRequest::METHOD => dispatch(from, request, slots::on_check),
            proto::OwnSlotRequest::METHOD => dispatch(from, request, slots::on_own),
            proto::SlotOutcomeRequest::METHOD => dispatch(from, request, slots::on_outcome),
            proto::GuestsRequest::METHOD => dispatch(from, request, slots::on_guests),
            proto::MoveSlotsRequest::METHOD => dispatch(from, request, slots::on_move),
            proto::SlotsRequest::METHOD => dispatch(from, request, slots::on_slots),
            proto::FollowPairsRequest::METHOD => {
                dispatch(from, request, crate::pairs::on_follow);
            }
            proto::AttendRequest::METHOD => dispatch(from, request, crate::pairs::on_attend),
            proto::SuspectRequest::METHOD => dispatch(from, request, crate::pairs::on_suspect),
            // Whoever leads has it answered: the gate knows.
            proto::LeadsRequest::METHOD => request
                .replier
                .send::<proto::LeadsRequest>(&proto::LeadsReply {}, Payload::none()),
            proto::HealthRequest::METHOD => dispatch(from, request, crate::health::on_health),
            proto::StatusRequest::METHOD => dispatch(from, request, crate::status::on_status),
            proto::ExplainRequest::METHOD => dispatch(from, request, crate::status::on_explain),
            proto::SurveyInodesRequest::METHOD => dispatch(from, request, crate::survey::on_inodes),
            proto::SurveyNamesRequest::METHOD => dispatch(from, request, crate::survey::on_names),
            proto::SurveyLookRequest::METHOD => dispatch(from, request, crate::survey::on_look),
            proto::SurveyGroupRequest::METHOD => dispatch(from, request, crate::survey::on_group),
            proto::RepairRequest::METHOD => dispatch(from, request, crate::repair::on_repair),
            proto::UnsettledRequest::METHOD => dispatch(from, request, crate::losses::on_unsettled),
            proto::ReturnedRequest::METHOD => dispatch(from, request, crate::losses::on_returned),
            proto::LossesRequest::METHOD => dispatch(from, request, crate::losses::on_losses),
            proto::AcknowledgeRequest::METHOD => {
                dispatch(from, request, crate::losses::on_acknowledge);
            }
            proto::StartScrubRequest::METHOD => {
                dispatch(from, request, crate::status::on_start_scrub);
            }
            proto::StartJobRequest::METHOD => dispatch(from, request, crate::jobs::on_start),
            proto::JobsRequest::METHOD => dispatch(from, request, crate::jobs::on_jobs),
            proto::MoveWorkRequest::METHOD => dispatch(from, request, crate::jobs::on_work),
            proto::CancelJobRequest::METHOD => dispatch(from, request, crate::jobs::on_cancel),
            proto::AdmitPairRequest::METHOD => dispatch(from, request, crate::jobs::on_admit),
            proto::ReplaceMemberRequest::METHOD => {
                dispatch(from, request, crate::pairs::on_replace);
            }
            proto::RenewLifeRequest::METHOD => {
                dispatch(from, request, crate::pairs::on_renew);
            }
            proto::PlaceRequest::METHOD => dispatch(from, request, crate::pairs::on_place),
            proto::RegisterRequest::METHOD => dispatch(from, request, crate::pairs::on_register),
            proto::BeatRequest::METHOD => dispatch(from, request, crate::pairs::on_beat),
            proto::RecoveredRequest::METHOD => dispatch(from, request, crate::pairs::on_recovered),
            method => request.replier.fail(Failed::Refused(format!(
                "method {method} ({}) is not served here",
                weft_wire::method_name(method)
            ))),
        }
    }

    /// The time of the next entry.
    fn entry_time(&self, core: &mut Core) -> proto::Time {
        // Files should not change before they were made, whatever the clock does.
        core.last_time = core.last_time.max(self.env.wall().0);
        let time = weft_env::Wall(core.last_time);
        proto::Time {
            seconds: time.seconds(),
            nanos: time.subsecond_nanos(),
        }
    }

    /// Completes an entry and applies it; it joins the current batch. Answers the reply and the batch
    /// that has to be committed before anybody is told.
    pub(crate) fn apply(&self, core: &mut Core, mut entry: Entry) -> (OpReply, Sn) {
        entry.time = Some(self.entry_time(core));
        entry.random = match dealing::makes_file(&entry) {
            true => {
                entry.avoid = core.pairs.full().to_vec();
                let pairs = core.state.pairs_for_new_files(&entry.avoid);
                core.dealing.deal(pairs, || self.env.random())
            }
            false => self.env.random(),
        };
        entry.lingers = crate::lingering::may_begin(&entry);
        let mut inos: Vec<Ino> = Vec::new();
        let named = crate::changes::concerned(&core.state, &entry, &mut inos);
        // Else the answer would be that of before, and be taken for this one's.
        debug_assert!(
            core.state
                .answered(SessionId(entry.session), Operation(entry.operation))
                .is_none(),
            "a change is looked up before it is done",
        );
        let reply = core.state.apply(&entry);
        tracing::trace!(?entry, errno = reply.failure_errno, "change");
        if let Some(attr) = &reply.attr {
            inos.push(Ino(attr.ino));
        }
        let sn = core.commits.push(entry, named.then_some(&inos));
        self.gathered.notify_one();
        (reply, sn)
    }

    /// Applies an entry of the service's own.
    pub(crate) fn apply_own(&self, core: &mut Core, op: op::Op) -> (OpReply, Sn) {
        self.apply_for(core, SessionId(0), op)
    }

    /// Applies an entry of the service's own that concerns what a session has.
    pub(crate) fn apply_for(
        &self,
        core: &mut Core,
        session: SessionId,
        op: op::Op,
    ) -> (OpReply, Sn) {
        let entry = Entry {
            session: session.0,
            op: Some(proto::Op { op: Some(op) }),
            ..Entry::default()
        };
        self.apply(core, entry)
    }
}

/// What a request comes with.
type From<'a> = (&'a Rc<Meta>, &'a mut Core, &'a Connection);

fn dispatch<R: Rpc>(
    (meta, core, connection): From<'_>,
    request: Request,
    on: fn(&Rc<Meta>, &mut Core, &Connection, R, Replier),
) {
    match request.decode::<R>() {
        Ok(message) => on(meta, core, connection, message, request.replier),
        Err(failed) => {
            tracing::warn!(peer = connection.peer(), %failed, "refusing a request");
            request.replier.fail(failed);
        }
    }
}

/// What a new name space begins with: its root directory gets an owner, and is as old as itself.
fn first_change(settings: &Settings) -> Entry {
    let setattr = proto::Setattr {
        ino: ROOT,
        uid: Some(settings.root_uid),
        gid: Some(settings.root_gid),
        atime_now: true,
        mtime_now: true,
        ..Default::default()
    };
    Entry {
        cred: Some(proto::Cred::default()),
        op: Some(proto::Op {
            op: Some(op::Op::Setattr(setattr)),
        }),
        ..Entry::default()
    }
}

/// Where every session begins.
pub(crate) const ROOT: u64 = ROOT_INO.0;
