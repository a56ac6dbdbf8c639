//! One life of a member: the engine, and what it wants done.

use super::batches::Batches;
use super::follower::Follower;
use super::gate::Gate;
use super::message::decode;
use super::peers::Peers;
use super::superblock::Superblock;
use super::view::group_of;
use super::writer::{self, Writer};
use super::{place, restore, view, watermarks};
use crate::checkpoints::{self, Kept};
use crate::images::Shadow;
use crate::metrics::{Metrics, gauge_of};
use crate::reign::{Inherited, Meta};
use crate::{MetaError, Settings, images, startup};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use weft_coordinator::{Coordinator, CoordinatorError};
use weft_env::{Env, Mono, Task};
use weft_group::{Engine, Input, MemberId, Now, Output, Record, Shape, Steadiness};
use weft_journal::{Journal, JournalError, Sealed};
use weft_rpc::{Connection, Request};
use weft_types::{Epoch, NameSpaceId, Sn};
use weft_wire::Failed;
use weft_wire::proto::{Batch, GroupMember, GroupMessage, View};

/// A coordinator that has answered nonsense is asked again after this.
const VIEW_RETRY: Duration = Duration::from_secs(1);

/// Others may say at any time that there is a later reign: the coordinator is asked for the record once in this time at
/// most, and somebody who says so without end costs it no more than that.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The engine's time begins here: with the process's clock, so that what one life has seen another may use.
const ORIGIN: Mono = Mono(0);

/// Timers are late by up to a millisecond or two, and say nothing by that.
const LATE_MIN: Duration = Duration::from_millis(3);

/// Why a life is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It led, and does not any more: what it has applied may be void.
    SteppedDown,
    /// What it has applied was discarded.
    Discarded,
    /// Another's image is there, of this batch: the journal begins anew after it.
    Restored(Sn),
    /// What it was to begin a reign with makes no sense.
    Unfit,
    /// An operator wants another to lead: it has given its place up for that.
    Yielded,
    /// It is no member any more.
    Removed,
}

/// See the module.
pub(crate) struct Member {
    pub env: Env,
    pub settings: Rc<Settings>,
    pub coordinator: Rc<dyn Coordinator>,
    pub metrics: Rc<Metrics>,
    /// Entries of the journal since the newest image.
    pub entries_since_image: Cell<u64>,
    /// Where this member is reached.
    pub(super) address: String,
    /// The number of its directory.
    pub(super) store: u64,
    pub(super) view: RefCell<View>,
    /// The view is another.
    pub(super) viewed: Notify,
    /// The record is to be read again; and somebody does so.
    is_to_look: Cell<bool>,
    is_looking: Cell<bool>,
    /// The view has had it as a member in this life.
    is_member: Cell<bool>,
    /// Who is being let in, for the view.
    pub(super) admitted: RefCell<Vec<GroupMember>>,
    /// It gives its place up.
    yields: Cell<bool>,
    /// An operator has it lead with what it has.
    pub(super) is_forced: Cell<bool>,
    /// Bytes of an image that have come, and of the whole.
    pub(super) image_progress: Cell<(u64, u64)>,
    pub(super) peers: Peers,
    pub(super) writer: Writer,
    pub(super) batches: RefCell<Batches>,
    /// When the writer does not have it.
    pub(super) journal: RefCell<Option<Journal>>,
    engine: RefCell<Engine>,
    gate: Rc<Gate>,
    /// The name space, while this member does not lead.
    follower: RefCell<Option<Follower>>,
    /// What the follower had applied is not in the journal any more: the life ends when this has been written.
    rebuilds_after: Cell<Option<u64>>,
    reign: RefCell<Option<Rc<Meta>>>,
    over: OnceCell<Ended>,
    /// Something is different: the life may be over, or the member leads.
    pub(super) changed: Notify,
    /// A batch waits for the follower.
    taken: Notify,
    /// When the clock wakes, by the engine's time.
    wakes_at: Cell<Now>,
    clock: Notify,
    /// An image is being fetched.
    pub(super) is_restoring: Cell<bool>,
    /// It stands in the directory that the disk has all that it said it had.
    has_noted_intact: Cell<bool>,
    /// The images that are kept for checkpoints.
    pub kept: Kept,
    tasks: RefCell<Vec<Task>>,
}

/// What comes with an event: the batches that it speaks of.
#[derive(Default)]
struct Carried {
    sealed: Vec<Sealed>,
    /// The same, for the follower; none of what this member proposes.
    read: Vec<Batch>,
}

impl Member {
    /// Reads what is there and begins a life. The member can be reached at `address` already.
    ///
    /// # Errors
    /// If files or the view cannot be read, or do not belong together; what to do is in the message.
    pub(crate) async fn begin(
        env: &Env,
        settings: &Rc<Settings>,
        coordinator: &Rc<dyn Coordinator>,
        metrics: &Rc<Metrics>,
        (address, seen): (&str, Option<Steadiness>),
    ) -> Result<Rc<Member>, MetaError> {
        let loaded = startup::load(env, settings).await?;
        let (journal_epoch, last) = loaded.shape.rank();
        let applicant = place::Applicant {
            address,
            found: Superblock::load(env, settings).await?,
            journal_epoch,
            is_empty: last == Sn(0),
        };
        let place::Entered { view, store } =
            place::enter(env, &**coordinator, settings, applicant).await?;
        let journal = startup::open(env, settings, loaded.tail).await?;
        let me = MemberId(settings.member);
        let record = record_in(&view, settings, store);
        let known = place::entry(&view, settings, store).map(|known| Sn(known.has));
        if known.is_none() {
            tracing::warn!(group = settings.group, member = %me,
                "this server is no member of its group yet: let it in with `weft group add {address}`");
        }
        let has = known.unwrap_or_default();
        let is_intact = is_intact(env, settings, &record, (last, has)).await?;
        let shadow = Shadow::new(
            loaded.imaged,
            loaded.shape.base(),
            image_epoch(&loaded.shape),
        );
        let follower = Follower::new(loaded.state, last, loaded.last_time);
        let now = env.now().since(ORIGIN);
        let shape = (loaded.shape, is_intact);
        let mut engine = Engine::new(me, settings.group_terms.terms(), record, shape, now);
        if let Some(seen) = seen {
            engine.recall(seen);
        }
        let member = Rc::new(Member {
            env: env.clone(),
            settings: settings.clone(),
            coordinator: coordinator.clone(),
            metrics: metrics.clone(),
            entries_since_image: Cell::new(loaded.entries_since_image),
            address: address.to_owned(),
            store,
            view: RefCell::new(view),
            viewed: Notify::new(),
            is_to_look: Cell::new(false),
            is_looking: Cell::new(false),
            is_member: Cell::new(known.is_some()),
            admitted: RefCell::default(),
            yields: Cell::new(false),
            is_forced: Cell::new(false),
            image_progress: Cell::default(),
            peers: Peers::default(),
            writer: Writer::default(),
            batches: RefCell::default(),
            journal: RefCell::default(),
            engine: RefCell::new(engine),
            gate: Rc::new(Gate::new(env)),
            follower: RefCell::new(Some(follower)),
            rebuilds_after: Cell::new(None),
            reign: RefCell::default(),
            over: OnceCell::new(),
            changed: Notify::new(),
            taken: Notify::new(),
            wakes_at: Cell::new(Now::ZERO),
            clock: Notify::new(),
            is_restoring: Cell::new(false),
            has_noted_intact: Cell::new(false),
            kept: Kept::default(),
            tasks: RefCell::default(),
        });
        // Not ended with the others: what was begun is written to its end.
        env.spawn("journal", writer::run(member.clone(), journal));
        member.spawn("view", watch_view(member.clone()));
        member.spawn("watermarks", watermarks::keep(member.clone()));
        member.spawn("group clock", run_clock(member.clone()));
        member.spawn("follower", follow(member.clone()));
        member.kept.pass(shadow.last_cut());
        member.spawn("images", images::run(member.clone(), shadow));
        member.spawn("kept images", checkpoints::look_after(member.clone()));
        member.set_peers();
        member.drive(Input::Tick);
        Ok(member)
    }

    /// Starts a task that ends with this life.
    pub(super) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let task = self.env.spawn(name, task);
        self.tasks.borrow_mut().push(task);
    }

    fn now(&self) -> Now {
        self.env.now().since(ORIGIN)
    }

    /// How many groups the cluster has.
    pub(super) fn groups(&self) -> usize {
        self.view.borrow().groups.len()
    }

    /// The members' directories, as far as the view is known here.
    pub(super) fn stores(&self) -> BTreeMap<u32, u64> {
        let view = self.view.borrow();
        let members = group_of(&view, self.settings.group).map(|group| group.members.iter());
        let members = members.into_iter().flatten();
        members.map(|member| (member.id, member.store)).collect()
    }

    /// The reign, while this member leads.
    pub(crate) fn reign(&self) -> Option<Rc<Meta>> {
        self.reign.borrow().clone()
    }

    /// It leads, and answers.
    pub(crate) fn answers(&self) -> bool {
        self.reign.borrow().is_some() && weft_rpc::Gate::is_open(&*self.gate)
    }

    /// The name space that it is of, as the view says.
    pub(crate) fn name_space(&self) -> Option<NameSpaceId> {
        view::id_of(&self.view.borrow())
    }

    /// The view has it as a member.
    pub(super) fn is_member(&self) -> bool {
        self.is_member.get()
    }

    /// Through which the answers of a reign leave.
    pub(crate) fn gate(&self) -> Rc<Gate> {
        self.gate.clone()
    }

    /// All up to this batch is committed, as far as this member knows.
    pub(crate) fn committed(&self) -> Sn {
        self.engine.borrow().committed()
    }

    /// All up to this batch is committed, and on this member's disk.
    pub(crate) fn imageable(&self) -> Sn {
        let engine = self.engine.borrow();
        engine.committed().min(engine.durable())
    }

    /// An image of this batch, or of a later one, is to take the journal's place.
    pub(super) fn wants_image(&self) -> Option<Sn> {
        self.engine.borrow().wants_image()
    }

    /// Its disk has all that this member has ever told others that it had.
    pub(crate) fn is_intact(&self) -> bool {
        self.engine.borrow().is_intact()
    }

    /// The digest of the name space, if that is as after batch `sn` and has no more than so many inodes.
    pub(crate) fn digest_at(&self, sn: Sn, inodes_max: u64) -> Option<u128> {
        let digest = |state: &weft_namespace::State| {
            let is_small = state.statistics().inodes <= inodes_max;
            is_small.then(|| state.digest())
        };
        if let Some(reign) = &*self.reign.borrow() {
            let core = reign.core.borrow();
            let is_there = core.commits.is_at_rest() && core.commits.committed() == sn;
            return is_there.then(|| digest(&core.state)).flatten();
        }
        let follower = self.follower.borrow();
        let follower = follower
            .as_ref()
            .filter(|follower| follower.applied() == sn)?;
        digest(follower.state())
    }

    /// The cuts that the name space needs, and the last one that was made or dropped. None: this member has no
    /// name space now.
    pub(crate) fn cuts(&self) -> Option<(BTreeSet<u64>, u64)> {
        let of = |state: &weft_namespace::State| (state.cuts().collect(), state.last_cut());
        if let Some(reign) = &*self.reign.borrow() {
            return Some(of(&reign.core.borrow().state));
        }
        let follower = self.follower.borrow();
        follower.as_ref().map(|follower| of(follower.state()))
    }

    /// The name space needs this cut. None: this member has none now.
    pub(crate) fn has_cut(&self, id: u64) -> Option<bool> {
        let (needed, last) = self.cuts()?;
        Some(needed.contains(&id) || last < id)
    }

    /// The addresses of the other members.
    pub(crate) fn others(&self) -> Vec<String> {
        let (_, addresses) = view::addresses(&self.view.borrow(), self.settings.group);
        let others = addresses.into_iter();
        others.filter(|address| *address != self.address).collect()
    }

    /// What this member knows of who leads a group, its own or another: the address, and those of all
    /// members.
    pub(crate) fn who_leads(&self, group: u32) -> Failed {
        let (active, members) = view::addresses(&self.view.borrow(), group);
        Failed::NotActive {
            active: active
                .filter(|active| *active != self.address)
                .unwrap_or_default(),
            members,
        }
    }

    /// The value of a gauge.
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        if let Some(reign) = &*self.reign.borrow() {
            return reign.core.borrow().gauge(name);
        }
        match name {
            "weft_meta_epoch" => self.engine.borrow().floor().0,
            "weft_meta_sn" => self.committed().0,
            _ => self
                .follower
                .borrow()
                .as_ref()
                .map_or(0, |follower| gauge_of(&follower.state().statistics(), name)),
        }
    }

    /// What it is doing, for a person.
    pub(crate) fn describe(&self) -> String {
        let engine = self.engine.borrow();
        let applied = self.follower.borrow().as_ref().map(Follower::applied);
        format!(
            "epoch {}, following {:?}, journal to {}, on the disk to {}, committed {}, applied {:?}, {}",
            engine.floor(),
            engine.following(),
            engine.shape().last(),
            engine.durable(),
            engine.committed(),
            applied,
            if self.reign.borrow().is_some() {
                "leads"
            } else {
                "follows"
            },
        )
    }

    /// True if nobody else can lead the group.
    pub(crate) fn is_alone(&self) -> bool {
        let engine = self.engine.borrow();
        let voters = &engine.record().voters;
        voters.len() == 1 && voters.contains(&engine.me())
    }

    /// Returns when this member leads and answers, or its life is over.
    pub(crate) async fn serving(&self) {
        loop {
            let changed = self.changed.notified();
            if self.over.get().is_some() || self.answers() {
                return;
            }
            changed.await;
        }
    }

    /// Returns when the life is over; says why.
    pub(crate) async fn over(&self) -> Ended {
        loop {
            let changed = self.changed.notified();
            if let Some(ended) = self.over.get() {
                return *ended;
            }
            changed.await;
        }
    }

    /// The life is over: no answer leaves from now on.
    pub(super) fn end(&self, why: Ended) {
        if self.over.set(why).is_ok() {
            self.gate.shut();
            self.changed.notify_waiters();
        }
    }

    /// Lets go of everything. Nobody is answered any more when connections to others end.
    pub(crate) async fn finish(&self) -> Option<Journal> {
        self.gate.shut();
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        if let Some(reign) = self.reign.take() {
            reign.end();
        }
        self.peers.close("this member begins anew, or ends");
        self.writer.stop().await;
        self.journal.take()
    }

    /// What this life and those before it have seen of how steady the members are: for the next.
    pub(crate) fn steadiness(&self) -> Steadiness {
        self.engine.borrow().steadiness().clone()
    }

    /// Another is to lead, if this one does: its process is about to end.
    pub(crate) fn withdraw(self: &Rc<Self>) {
        self.drive(Input::Withdraw);
    }

    /// Another is to lead, for an operator has said so: the life ends, and the next one begins when another has
    /// had time to take over.
    pub(super) fn give_way(self: &Rc<Self>) {
        self.yields.set(true);
        self.withdraw();
    }

    /// It follows an active, and hears it.
    fn hears_another(&self) -> bool {
        self.look(|engine, now| engine.following().is_some() && engine.hears(now))
    }

    /// What of the engine concerns who asks for the state of this member.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Engine, Now) -> T) -> T {
        look(&self.engine.borrow(), self.now())
    }

    /// The journal's segments up to this batch have been removed.
    pub(crate) fn forget(self: &Rc<Self>, sn: Sn) {
        self.drive(Input::Forgotten(sn));
    }

    /// Another member has made a connection.
    pub(crate) fn on_connection(self: &Rc<Self>, connection: &Connection) {
        Peers::begun(self, connection);
    }

    /// A connection from another member has ended.
    pub(crate) fn on_disconnect(self: &Rc<Self>, connection: &Connection) {
        Peers::ended(self, connection);
    }

    /// Another member says something.
    pub(crate) fn on_message(self: &Rc<Self>, connection: &Connection, request: &Request) {
        match request.decode::<GroupMessage>() {
            Ok(message) => Peers::heard(self, connection, message),
            Err(failed) => {
                tracing::warn!(peer = connection.peer(), %failed, "no message of a member");
                connection.close("that made no sense");
            }
        }
    }

    pub(super) fn on_group_message(self: &Rc<Self>, from: MemberId, message: GroupMessage) {
        let arrived = match message.group == self.settings.group {
            true => decode(message),
            false => Err(format!("it is of group {}", message.group)),
        };
        match arrived {
            Ok(arrived) => {
                let (sealed, read) = arrived.batches.into_iter().unzip();
                self.drive_with(
                    Input::Message(from, arrived.message),
                    Carried { sealed, read },
                );
            }
            Err(why) => {
                tracing::warn!(member = %from, why, "what a member says makes no sense");
                self.peers.refuse(from);
            }
        }
    }

    /// The reign has gathered a batch.
    fn propose(self: &Rc<Self>, batch: &Batch) {
        self.count_entries(batch);
        let carried = Carried {
            sealed: vec![Sealed::new(batch)],
            read: Vec::new(),
        };
        self.drive_with(Input::Propose, carried);
    }

    fn count_entries(&self, batch: &Batch) {
        let entries = self.entries_since_image.get() + batch.entries.len() as u64;
        self.entries_since_image.set(entries);
        let last = batch
            .entries
            .last()
            .and_then(|last| last.op.as_ref()?.op.as_ref());
        if last.is_some_and(checkpoints::ends_batch) {
            self.kept.changed.notify_waiters();
        }
    }

    /// Tells the engine, and does what it wants.
    pub(super) fn drive(self: &Rc<Self>, input: Input) {
        self.drive_with(input, Carried::default());
    }

    fn drive_with(self: &Rc<Self>, input: Input, mut carried: Carried) {
        if self.over.get().is_some() {
            return;
        }
        let written = match input {
            Input::Written(number) => Some(number),
            _ => None,
        };
        let now = self.now();
        let mut outputs = Vec::new();
        // Before anything else is judged by the time: what others said meanwhile waits to be read.
        if let Some(late) = self.stalled(now) {
            outputs = self.engine.borrow_mut().on(now, Input::Stalled(late));
        }
        outputs.append(&mut self.engine.borrow_mut().on(now, input));
        for output in outputs {
            tracing::trace!(?output, "group");
            match output {
                Output::Send(to, message) => self.peers.send(self, to, message),
                Output::Take { number, batches } => self.take(number, &batches, &mut carried),
                Output::Change { from, to } => {
                    self.spawn("view change", change_view(self.clone(), from, to));
                }
                Output::Committed(sn) => {
                    if let Some(reign) = self.reign() {
                        reign.on_committed(sn);
                    }
                }
                Output::Lead(epoch, last) => self.lead(epoch, last),
                Output::StepDown => self.end(match self.yields.get() {
                    true => Ended::Yielded,
                    false => Ended::SteppedDown,
                }),
                Output::Restore(base) => {
                    if !self.is_restoring.replace(true) {
                        tracing::info!(%base, "what is missing here is in images only");
                        self.spawn("restore", restore::run(self.clone()));
                    }
                }
                Output::Look => self.look_at_record(),
                Output::Refuse(from, why) => {
                    tracing::warn!(member = %from, why, "what a member says cannot be so");
                    self.peers.refuse(from);
                }
                Output::Contradicted(after) => {
                    tracing::error!(%after, "what was committed here is not in the journal of the active, which \
                        an operator has forced to lead: it is given up. If this is said again, start this \
                        member with an empty directory");
                    self.end(Ended::Discarded);
                }
            }
        }
        if let (Some(after), Some(written)) = (self.rebuilds_after.get(), written)
            && written >= after
        {
            self.end(Ended::Discarded);
        }
        self.look_around();
    }

    /// Reads the coordinator's record, soon.
    fn look_at_record(self: &Rc<Self>) {
        self.is_to_look.set(true);
        if !self.is_looking.replace(true) {
            self.spawn("look", look(self.clone()));
        }
    }

    /// For how long this process has stood still since the engine was to be woken.
    fn stalled(&self, now: Now) -> Option<Duration> {
        let asked = Some(self.wakes_at.get()).filter(|at| *at != Now::ZERO);
        now.checked_sub(asked?).filter(|late| *late >= LATE_MIN)
    }

    /// What follows from how the engine is now.
    fn look_around(self: &Rc<Self>) {
        if self.over.get().is_some() {
            return;
        }
        let (now, engine) = (self.now(), self.engine.borrow());
        self.batches.borrow_mut().trim(engine.durable());
        let until = engine.reads_until(now);
        let wakes_at = engine.wakes_at(now);
        let is_intact = engine.is_intact();
        drop(engine);
        let was_open = weft_rpc::Gate::is_open(&*self.gate);
        self.gate.open_until(until.map(|until| ORIGIN + until));
        if !was_open && until.is_some() {
            self.changed.notify_waiters();
        }
        if wakes_at < self.wakes_at.replace(wakes_at) {
            self.clock.notify_one();
        }
        if is_intact && !self.has_noted_intact.replace(true) {
            self.spawn("intact", note_intact(self.clone()));
        }
    }

    /// The journal goes on with the batches after the base.
    fn take(&self, number: u64, shape: &Shape, carried: &mut Carried) {
        let (base, last) = (shape.base(), shape.last());
        let sealed: Vec<Sealed> = std::mem::take(&mut carried.sealed)
            .into_iter()
            .filter(|batch| batch.sn() > base && batch.sn() <= last)
            .collect();
        {
            let mut batches = self.batches.borrow_mut();
            batches.cut_after(base);
            for batch in &sealed {
                batches.push(batch.clone());
            }
        }
        let mut following = self.follower.borrow_mut();
        if following.as_mut().is_some_and(|it| !it.cut_after(base)) {
            tracing::info!(after = %base, "discarding what was applied");
            self.rebuilds_after.set(Some(number));
            // It is no state of this journal: nothing more is applied to it, and nobody may look at it.
            following.take();
        }
        if let Some(follower) = &mut *following {
            for batch in std::mem::take(&mut carried.read) {
                if batch.sn > base.0 && batch.sn <= last.0 {
                    self.count_entries(&batch);
                    follower.push(batch);
                }
            }
            self.taken.notify_one();
        }
        drop(following);
        self.writer.write(number, base, sealed);
    }

    /// The reign begins, with the name space that has followed.
    fn lead(self: &Rc<Self>, epoch: Epoch, last: Sn) {
        if self.rebuilds_after.get().is_some() {
            // Not with this name space. Others need not wait until what is being discarded is: they look for
            // another active as soon as this life is over.
            return self.end(Ended::Discarded);
        }
        let Some(follower) = self.follower.take() else {
            return;
        };
        let (state, last_time) = follower.into_state();
        let inherited = Inherited {
            state,
            epoch,
            last,
            last_time,
            view: self.view.borrow().clone(),
        };
        let of = Rc::downgrade(self);
        let propose = move |batch: Batch| {
            if let Some(member) = of.upgrade() {
                member.propose(&batch);
            }
        };
        let (settings, coordinator) = (&self.settings, &self.coordinator);
        match Meta::begin(
            &self.env,
            settings,
            coordinator,
            &self.metrics,
            inherited,
            propose,
        ) {
            Ok(reign) => {
                self.reign.replace(Some(reign));
                self.changed.notify_waiters();
            }
            Err(error) => {
                tracing::error!(%error, "this server cannot lead");
                self.end(Ended::Unfit);
            }
        }
    }

    /// The journal's disk has no room.
    pub(super) fn on_journal_full(&self) {
        if let Some(reign) = self.reign() {
            reign.core.borrow_mut().commits.set_room(0);
        }
    }

    /// The journal's disk has failed: this member does not lead any more, if another can.
    pub(super) fn on_journal_failed(self: &Rc<Self>, error: &JournalError) {
        if !self.is_alone() {
            self.withdraw();
        } else if let Some(reign) = self.reign() {
            reign.on_journal_failed(error.to_string());
        }
    }

    /// The view has changed.
    fn on_view(self: &Rc<Self>, view: View) {
        if view.version <= self.view.borrow().version {
            return;
        }
        let record = record_in(&view, &self.settings, self.store);
        self.take_view(view);
        self.drive(Input::Record(record));
    }

    /// A newer view: whoever is new there is dialed, and if this server is no member any more it takes no part.
    fn take_view(self: &Rc<Self>, view: View) {
        let is_member = place::entry(&view, &self.settings, self.store).is_some();
        let was_member = self.is_member.replace(is_member);
        if let Some(reign) = self.reign() {
            reign.core.borrow_mut().view.clone_from(&view);
        }
        self.view.replace(view);
        self.viewed.notify_waiters();
        match (was_member, is_member) {
            (true, false) => return self.end(Ended::Removed),
            (false, true) => tracing::info!("this server is a member of its group now"),
            _ => {}
        }
        self.set_peers();
    }

    fn set_peers(self: &Rc<Self>) {
        let record = record_in(&self.view.borrow(), &self.settings, self.store);
        let me = MemberId(self.settings.member);
        let takes_part = self.is_member.get();
        let others = record.members().filter(|other| takes_part && *other != me);
        for gone in Peers::set(self, others) {
            self.drive(Input::Lost(gone));
        }
    }
}

/// What the view says of this member's group. Another server under this one's number is not this one.
fn record_in(view: &View, settings: &Settings, store: u64) -> Record {
    let mut record = view::record_of(view, settings.group).unwrap_or_else(|| Record {
        epoch: Epoch(0),
        active: MemberId(0),
        voters: Default::default(),
        juniors: Default::default(),
    });
    if place::entry(view, settings, store).is_none() {
        let me = MemberId(settings.member);
        record.voters.remove(&me);
        record.juniors.remove(&me);
    }
    record
}

/// Whether the disk has all that this member has ever told others that it had, as far as that matters. `last`: of
/// its journal; `has`: what the view says that it has.
async fn is_intact(
    env: &Env,
    settings: &Settings,
    record: &Record,
    (last, has): (Sn, Sn),
) -> Result<bool, MetaError> {
    let io = |source| MetaError::Io {
        what: format!("noting in {} that it is whole", settings.dir.display()),
        source,
    };
    let me = MemberId(settings.member);
    if record.epoch == Epoch(0) {
        // Nobody has promised anything yet. Noted before anybody can.
        startup::note_intact(env, settings).await.map_err(io)?;
        return Ok(true);
    }
    if !record.voters.contains(&me) {
        return Ok(true);
    }
    let is_intact = startup::is_intact(env, settings).await?;
    let is_alone = record.voters.len() == 1;
    // A journal that is not flushed loses its end with the power.
    let is_older = last < has && is_intact;
    if is_older && is_alone {
        tracing::error!(group = settings.group, member = %me, dir = %settings.dir.display(), %last, %has,
            "this directory is older than what this member had, and no other one counts: it does not lead. Put the newest \
             directory back; or choose who is to lead with what it has (`weft group force`)");
    } else if is_older {
        tracing::warn!(group = settings.group, member = %me, dir = %settings.dir.display(), %last, %has,
            "this directory is older than what this member had: it counts when it has the rest from another one");
    }
    if is_intact {
        return Ok(!is_older);
    }
    if last < has && is_alone {
        tracing::warn!(group = settings.group, member = %me, %last, %has,
            "the journal has lost its end with the power (`journal.sync`), or this directory is an older copy");
    }
    // Who is alone has nobody to get anything from. But a directory that is new has nothing of what the group had:
    // juniors may have some of it, or the former directory is found.
    let is_new = last == Sn(0) && !startup::has_been_intact(env, settings).await?;
    if is_alone && is_new {
        tracing::error!(group = settings.group, member = %me, dir = %settings.dir.display(),
            "this directory is new, and this member was the only one that counted: it does not lead with nothing. \
             Put the former directory back; or choose who is to lead with what it has (`weft group force`)");
    }
    Ok(is_alone && !is_new)
}

/// Of the image that a journal begins with.
fn image_epoch(shape: &Shape) -> Epoch {
    shape.epoch_at(shape.base()).unwrap_or_default()
}

/// Has the engine look at the time whenever something is due.
async fn run_clock(member: Rc<Member>) {
    loop {
        let at = member.wakes_at.get();
        let now = member.now();
        if now >= at {
            member.drive(Input::Tick);
            // While the life goes on the engine has said when it is due again.
            if member.over.get().is_some() {
                member.wakes_at.set(Now::MAX);
            }
            continue;
        }
        let woken = member.clock.notified();
        // Either way it is looked again.
        let _: Result<(), _> = member.env.timeout(at - now, woken).await;
    }
}

/// Applies what was taken, a little at a time.
async fn follow(member: Rc<Member>) {
    loop {
        let applied = match &mut *member.follower.borrow_mut() {
            Some(follower) => follower.apply_some(),
            None => return,
        };
        match applied {
            true => member.env.sleep(Duration::ZERO).await,
            false => member.taken.notified().await,
        }
    }
}

/// Follows the view.
async fn watch_view(member: Rc<Member>) {
    loop {
        let known = member.view.borrow().version;
        match member.coordinator.watch(known).await {
            Ok(view) => member.on_view(view),
            Err(error) => {
                tracing::error!(%error, "the view cannot be followed");
                member.env.sleep(VIEW_RETRY).await;
            }
        }
    }
}

/// Looks at the view as long as there is reason to.
async fn look(member: Rc<Member>) {
    while member.is_to_look.replace(false) {
        match member.coordinator.view().await {
            Ok(view) => member.on_view(view),
            // It is followed besides.
            Err(error) => tracing::debug!(%error, "the view cannot be read"),
        }
        member.env.sleep(LOOK_PAUSE).await;
    }
    member.is_looking.set(false);
}

/// Changes the record as the engine wants, and tells it the outcome.
async fn change_view(member: Rc<Member>, from: Record, to: Record) {
    let (env, group) = (&member.env, member.settings.group);
    loop {
        let admitted = member.admitted.borrow().clone();
        // Who was cut off from the coordinator, too, may hear the active again before it can claim.
        let is_claim = to.epoch > from.epoch;
        let change = view::Change {
            from: &from,
            to: &to,
            new: &admitted,
            is_forced: is_claim && member.is_forced.get(),
        };
        let is_wanted = || !is_claim || !member.hears_another();
        let coordinator = &*member.coordinator;
        match view::change_record(env, coordinator, group, &change, is_wanted).await {
            Ok(view) => {
                let record = record_in(&view, &member.settings, member.store);
                // The view first: whoever is new there is dialed.
                if view.version > member.view.borrow().version {
                    member.take_view(view);
                }
                return member.drive(Input::ChangeEnded(record));
            }
            Err(MetaError::Coordinator(CoordinatorError::Unavailable(_))) => {}
            Err(error) => {
                tracing::error!(%error, "the view cannot be changed");
                env.sleep(VIEW_RETRY).await;
            }
        }
    }
}

/// Notes in the directory that the disk has all that it said it had.
async fn note_intact(member: Rc<Member>) {
    if let Err(error) = startup::note_intact(&member.env, &member.settings).await {
        tracing::warn!(%error, "a restart of this server will not count until it has caught up");
        member.has_noted_intact.set(false);
    }
}
