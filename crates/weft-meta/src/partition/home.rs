//! A change of several groups at its home: planned, prepared, decided; then the others are told.
//!
//! ```text
//! plan --> lock here, have others prepare --> (walk) --> Commit in the journal --> others finish --> forget
//!   ^            | locked by another, or away
//!   \--- pause <-/ give up: others are told
//! ```
//! The client is answered when `Commit` is committed. Before that entry nothing has happened, whatever is
//! lost; after it all will have.

use crate::changes;
use crate::crash_points::reach;
use crate::reign::{Core, Meta};
use crate::revocations::{Again, Conflict};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;
use weft_namespace::{Errno, Locked, Plan, Step, Walk, told, transaction_to};
use weft_rpc::{Connection, Replier};
use weft_types::{GroupId, Ino, Operation, SessionId, Slot, Sn, TransactionId};
use weft_wire::Failed;
use weft_wire::proto::part::Part as Kind;
use weft_wire::proto::walk_reply::Led;
use weft_wire::proto::{
    self, ChangeRequest, Commit, Cred, Entry, FinishRequest, Forget, Lease, OpReply, Part,
    PartReply, PrepareRequest, TakeNumbers, Told, WalkRequest, op::Op,
};

/// Another group may have to get leases back before it can answer, and some of those come only with the
/// end of a session.
const PREPARE_PATIENCE: Duration = Duration::from_secs(20);
/// What takes a look, or a journal write.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pauses between two attempts, drawn from up to so much: the first about what a transaction takes.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];
/// Who asked for a change is told that it cannot be done now after this, and may ask again.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
/// Others that were told in vain that a transaction was given up; they ask by themselves after a while.
const TOLD_VOID_MAX: u32 = 3;

/// A change as it was asked for.
pub(crate) struct Asked {
    /// None: nobody asked, the service does it by itself.
    pub connection: Option<Connection>,
    pub session: SessionId,
    pub request: ChangeRequest,
    /// See `Meta::revoke`.
    pub since: u64,
}

impl Asked {
    fn key(&self) -> (SessionId, Operation) {
        (self.session, Operation(self.request.operation))
    }

    fn op(&self) -> Option<&Op> {
        self.request.op.as_ref()?.op.as_ref()
    }

    fn cred(&self) -> Cred {
        crate::reads::cred_of(self.request.cred.clone())
    }

    /// Handles it from its beginning.
    fn anew(self, meta: &Rc<Meta>, core: &mut Core, replier: Replier) {
        let Asked {
            connection,
            request,
            since,
            ..
        } = self;
        if let Some(connection) = connection {
            changes::change(meta, core, &connection, request, (since, replier));
        }
    }

    /// Something has been done under its number meanwhile, if only to find out whether it will be. This is the answer
    /// then, and it is not done any more.
    fn answered(&self, meta: &Meta) -> Option<End> {
        let core = meta.core.borrow();
        let (session, operation) = self.key();
        let reply = core.state.answered(session, operation)?;
        let newest = core.commits.newest();
        Some(End::Answer(Box::new(reply), Vec::new(), newest))
    }

    /// Who asked is there still.
    fn is_wanted(&self, core: &Core) -> bool {
        match self.connection {
            Some(_) => core.is_open(self.session),
            None => core.state.closed().is_none(),
        }
    }
}

/// How it ended.
enum End {
    /// The reply, with leases, when this batch is committed.
    Answer(Box<OpReply>, Vec<Lease>, Sn),
    /// One group can do it now.
    Alone,
    Failed(Failed),
}

/// Why an attempt ended without a decision.
enum Stop {
    /// Refused, for good.
    Errno(Errno),
    /// Another transaction was in its way, or a group could not be asked.
    Again(String),
    /// Nobody waits for it any more, or nothing can be decided here.
    Failed(Failed),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        match errno {
            Errno::EAGAIN => Stop::Again("something is locked".into()),
            errno => Stop::Errno(errno),
        }
    }
}

/// A change that several groups take part in arrives at its home.
pub(crate) fn begin(meta: &Rc<Meta>, core: &mut Core, asked: Asked, replier: Replier) {
    let key = asked.key();
    let mut given = Some((asked, replier));
    let is_new = core.running.enter(key, || {
        let given = given.take();
        let again: Again = Box::new(move |meta, core| {
            if let Some((asked, replier)) = given {
                asked.anew(meta, core, replier);
            }
        });
        again
    });
    if let Some((asked, replier)) = given.filter(|_| is_new) {
        meta.spawn("transaction", run(meta.clone(), asked, replier));
    }
}

async fn run(meta: Rc<Meta>, asked: Asked, replier: Replier) {
    let end = transact(&meta, &asked).await;
    let core = &mut *meta.core.borrow_mut();
    let copies = core.running.leave(asked.key());
    match end {
        End::Answer(reply, leases, sn) => meta.when_committed(core, sn, move |_, _, result| {
            changes::respond(replier, (*reply, leases, 0), result);
        }),
        End::Alone => asked.anew(&meta, core, replier),
        End::Failed(failed) => replier.fail(failed),
    }
    for again in copies {
        again(&meta, core);
    }
}

/// Does a change of the service's own, at once or not at all. False: it was not done.
pub(crate) async fn do_own(meta: &Rc<Meta>, op: Op) -> bool {
    let asked = {
        let core = &mut *meta.core.borrow_mut();
        Asked {
            connection: None,
            session: SessionId(0),
            request: ChangeRequest {
                cred: Some(Cred::default()),
                op: Some(proto::Op { op: Some(op) }),
                ..ChangeRequest::default()
            },
            since: core.leases.next_seq(),
        }
    };
    match transact(meta, &asked).await {
        End::Answer(reply, _, sn) => reply.failure_errno == 0 && meta.committed(sn).await.is_ok(),
        End::Alone => false,
        End::Failed(failed) => {
            tracing::debug!(%failed, "a change of the service's own is put off");
            false
        }
    }
}

/// Attempts it until it has ended.
async fn transact(meta: &Rc<Meta>, asked: &Asked) -> End {
    let begun = meta.env.now();
    let mut pause = PAUSES[0];
    loop {
        let mut transaction = Transaction::begin(meta, asked);
        let stop = match transaction.attempt().await {
            Ok(end) => return end,
            Err(stop) => stop,
        };
        transaction.give_up();
        let why = match stop {
            Stop::Errno(errno) => {
                let reply = OpReply {
                    failure_errno: errno.0 as u32,
                    ..OpReply::default()
                };
                let newest = meta.core.borrow().commits.newest();
                return End::Answer(Box::new(reply), Vec::new(), newest);
            }
            Stop::Failed(failed) => return End::Failed(failed),
            Stop::Again(why) => why,
        };
        tracing::debug!(id = %transaction.id, why, "a transaction is begun anew");
        if meta.env.now().since(begun) > GIVE_UP_AFTER {
            return End::Failed(Failed::Unavailable(why));
        }
        let drawn = meta.env.random() % (pause.as_nanos() as u64).max(1);
        meta.env.sleep(Duration::from_nanos(drawn)).await;
        pause = (pause * 2).min(PAUSES[1]);
        let core = meta.core.borrow();
        if !asked.op().is_some_and(|op| core.state.spans_groups(op)) {
            return End::Alone;
        }
    }
}

/// One attempt.
struct Transaction<'a> {
    meta: &'a Rc<Meta>,
    asked: &'a Asked,
    id: TransactionId,
    /// This group's parts.
    own: Vec<Part>,
    /// Groups that may have prepared.
    others: BTreeSet<GroupId>,
    /// What they have told for the client.
    told: Vec<Told>,
    /// The last restore that this group has behind it.
    restored: u64,
}

impl<'a> Transaction<'a> {
    fn begin(meta: &'a Rc<Meta>, asked: &'a Asked) -> Transaction<'a> {
        let core = &mut *meta.core.borrow_mut();
        let home = GroupId(meta.settings.group);
        Transaction {
            meta,
            asked,
            id: core.running.begin(home, core.epoch, meta.env.now()),
            own: Vec::new(),
            others: BTreeSet::new(),
            told: Vec::new(),
            restored: core.state.restored(),
        }
    }

    async fn attempt(&mut self) -> Result<End, Stop> {
        let op = self.asked.op().ok_or(Stop::Errno(Errno::EINVAL))?;
        if !self.is_home() {
            self.give_up();
            return Ok(End::Alone);
        }
        if let Some(end) = self.asked.answered(self.meta) {
            self.give_up();
            return Ok(end);
        }
        let (mut plan, mut step) = {
            let core = self.meta.core.borrow();
            if !self.asked.is_wanted(&core) {
                return Err(Stop::Failed(Failed::Fenced("the session has ended".into())));
            }
            if let Some(by) = core.state.blocked(&Locked::default(), op) {
                // What it has done, if it is done, is not here yet.
                return Err(Stop::Again(format!("{by} may be done")));
            }
            Plan::begin(&core.state, &self.asked.cred(), op)?
        };
        loop {
            step = match step {
                Step::Prepare(parts) => {
                    let replies = self.prepare(&parts).await?;
                    plan.prepared(&replies)?
                }
                Step::Walk(from, sought) => plan.walked(self.is_within(from, sought).await?)?,
                Step::Decide => {
                    if let Some(end) = self.asked.answered(self.meta) {
                        self.give_up();
                        return Ok(end);
                    }
                    return self.decide(&plan);
                }
                Step::Answer(reply) => {
                    self.give_up();
                    let newest = self.meta.core.borrow().commits.newest();
                    return Ok(End::Answer(reply, Vec::new(), newest));
                }
            };
        }
    }

    /// The slot of the change's first directory has not gone to another group.
    fn is_home(&self) -> bool {
        let core = self.meta.core.borrow();
        let home = self.asked.op().and_then(|op| core.state.places(op).home());
        home.is_none_or(|slot| core.state.has_slot(slot))
    }

    fn group_of(&self, slot: Slot) -> Result<GroupId, Stop> {
        let core = self.meta.core.borrow();
        let holder = core.holder(slot);
        holder.ok_or_else(|| Stop::Again(format!("nobody is known to have slot {slot}")))
    }

    /// Has parts checked and locked, this group's own first. Answers the replies in the parts' order.
    async fn prepare(&mut self, parts: &[Part]) -> Result<Vec<PartReply>, Stop> {
        let home = self.id.home;
        if !self.is_home() {
            // What is this group's by the plan would be another's.
            return Err(Stop::Again("another group is its home now".into()));
        }
        let parts = &self.numbered(parts)?;
        let mut replies: Vec<Option<PartReply>> = vec![None; parts.len()];
        let mut elsewhere: BTreeMap<GroupId, Vec<usize>> = BTreeMap::new();
        for (at, part) in parts.iter().enumerate() {
            match self.group_of(Plan::place(part))? {
                group if group == home => replies[at] = Some(self.lock(part).await?),
                group => elsewhere.entry(group).or_default().push(at),
            }
        }
        if !elsewhere.is_empty() {
            reach(self.meta, "home-asks");
        }
        // Whoever is asked may have prepared, though no answer comes.
        self.others.extend(elsewhere.keys());
        let (meta, transaction, cred) = (self.meta, transaction_to(self.id), self.asked.cred());
        let asked = elsewhere.into_iter().map(|(group, places)| {
            let request = PrepareRequest {
                transaction: Some(transaction),
                cred: Some(cred.clone()),
                parts: places.iter().map(|at| parts[*at].clone()).collect(),
                restored: self.restored,
            };
            async move {
                let answer = meta.ask_group(group, &request, PREPARE_PATIENCE).await;
                (request.parts, places, answer)
            }
        });
        for (asked, places, answer) in join_all(asked).await {
            let reply = answer.map_err(stopped_by)?;
            match reply.failure_errno {
                0 if reply.parts.len() == places.len() => {}
                0 => return Err(Stop::Again("a group has answered for other parts".into())),
                errno => return Err(Errno(errno as i32).into()),
            }
            self.told.extend(told(&asked, &reply.parts));
            for (at, reply) in places.into_iter().zip(reply.parts) {
                replies[at] = Some(reply);
            }
        }
        // All are there: each place was asked for once.
        Ok(replies.into_iter().flatten().collect())
    }

    /// The parts with a number for each directory that this group is to make.
    fn numbered(&self, parts: &[Part]) -> Result<Vec<Part>, Stop> {
        let mut parts = parts.to_vec();
        let mut makes = Vec::new();
        for part in &mut parts {
            if let Some(Kind::Make(make)) = &mut part.part
                && let Some(slot) = weft_namespace::slot_of(make.slot)
                && self.group_of(slot)? == self.id.home
            {
                makes.push(make);
            }
        }
        if !makes.is_empty() {
            let slots = makes.iter().map(|make| make.slot).collect();
            let core = &mut *self.meta.core.borrow_mut();
            let take = Op::TakeNumbers(TakeNumbers { slots });
            let (reply, _) = self.meta.apply_own(core, take);
            if reply.failure_errno != 0 {
                return Err(Errno(reply.failure_errno as i32).into());
            }
            for (make, taken) in makes.into_iter().zip(&reply.parts) {
                make.ino = taken.found;
            }
        }
        Ok(parts)
    }

    /// Locks one of this group's own parts.
    async fn lock(&mut self, part: &Part) -> Result<PartReply, Stop> {
        let (tell, told) = oneshot::channel();
        let wanted = Wanted {
            id: self.id,
            session: self.asked.session,
            cred: self.asked.cred(),
            part: part.clone(),
            since: self.asked.since,
        };
        lock_own(self.meta, &mut self.meta.core.borrow_mut(), wanted, tell);
        let ended = || Stop::Failed(Failed::Unavailable("the reign has ended".into()));
        let reply = told.await.map_err(|_| ended())??;
        self.own.push(part.clone());
        Ok(reply)
    }

    /// Whether a directory lies within another one, or is it.
    async fn is_within(&self, from: Ino, sought: Ino) -> Result<bool, Stop> {
        let moving = || Stop::Again("a directory on the way up is being moved".into());
        let mut at = from;
        loop {
            let group = self.group_of(at.slot())?;
            if group == self.id.home {
                let core = self.meta.core.borrow();
                match core.state.walk(&core.running.own, at, sought, self.id) {
                    Walk::Found => return Ok(true),
                    Walk::Ended => return Ok(false),
                    Walk::Elsewhere(next) => at = next,
                    Walk::Moving(_) => return Err(moving()),
                }
                continue;
            }
            let request = WalkRequest {
                transaction: Some(transaction_to(self.id)),
                from: at.0,
                sought: sought.0,
                restored: self.restored,
            };
            let answer = self.meta.ask_group(group, &request, PATIENCE).await;
            let reply = answer.map_err(stopped_by)?;
            match reply.led() {
                Led::Within => return Ok(true),
                Led::Outside => return Ok(false),
                Led::Elsewhere if reply.ino == at.0 => {
                    let why = format!("group {group} does not have slot {}", at.slot());
                    return Err(Stop::Again(why));
                }
                Led::Elsewhere => at = Ino(reply.ino),
                Led::Moving | Led::Unspecified => return Err(moving()),
            }
        }
    }

    /// All is prepared: with this entry it is done.
    fn decide(&mut self, plan: &Plan) -> Result<End, Stop> {
        let (meta, asked) = (self.meta, self.asked);
        let core = &mut *meta.core.borrow_mut();
        if meta.stopping.get() {
            let why = "the server is stopping".to_owned();
            return Err(Stop::Failed(Failed::Unavailable(why)));
        }
        if !asked.is_wanted(core) {
            return Err(Stop::Failed(Failed::Fenced("the session has ended".into())));
        }
        if core.state.restored() != self.restored {
            // What others have prepared went with the time that was taken back. (Sessions end with that; the
            // service's own changes have none.)
            return Err(Stop::Again("a checkpoint was restored meanwhile".into()));
        }
        if let Some(failed) = core.commits.refusal() {
            return Err(Stop::Failed(failed));
        }
        reach(meta, "home-is-ready");
        plan.completed(&mut self.own);
        let commit = Commit {
            transaction: Some(transaction_to(self.id)),
            parts: self.own.clone(),
            told: std::mem::take(&mut self.told),
            others: self.others.iter().map(|group| group.0).collect(),
            created: matches!(asked.op(), Some(Op::Create(_))),
        };
        let entry = Entry {
            session: asked.session.0,
            operation: asked.request.operation,
            acknowledged_below: asked.request.acknowledged_below,
            cred: Some(asked.cred()),
            op: Some(proto::Op {
                op: Some(Op::Commit(commit)),
            }),
            ..Entry::default()
        };
        let touched = core.state.touches(&entry);
        let (reply, sn) = meta.apply(core, entry);
        if reply.failure_errno != 0 {
            // Too many changes of the session are outstanding; what is locked has not changed.
            return Err(Errno(reply.failure_errno as i32).into());
        }
        reach(meta, "home-decides");
        core.splits += u64::from(matches!(asked.op(), Some(Op::Split(_))));
        core.running.end(self.id);
        core.running.tells(self.id, meta.env.now());
        let grants: Vec<Ino> = touched
            .iter()
            .filter(|touch| !touch.unlinking)
            .map(|touch| touch.ino)
            .collect();
        let wanted = asked.request.want_leases;
        let leases = changes::leases_for(meta, core, asked.session, wanted, &grants, &reply);
        // Not before that: who has waited changes at once what the reply tells of, and a lease would make it believed.
        meta.retry_transaction(core, self.id);
        crate::spread::begin(meta, core);
        let (id, others) = (self.id, std::mem::take(&mut self.others));
        meta.when_committed(core, sn, move |meta, _, result| {
            if result.is_ok() {
                reach(meta, "home-decided");
                meta.deletions_changed.notify_one();
                meta.spawn("finish", finish(meta.clone(), id, others, true));
            }
        });
        Ok(End::Answer(Box::new(reply), leases, sn))
    }

    /// It is not done. Who has prepared is told.
    fn give_up(&mut self) {
        let core = &mut *self.meta.core.borrow_mut();
        core.running.end(self.id);
        self.meta.retry_transaction(core, self.id);
        let others = std::mem::take(&mut self.others);
        if !others.is_empty() {
            let telling = finish(self.meta.clone(), self.id, others, false);
            self.meta.spawn("give up", telling);
        }
    }
}

/// Why another group did not do what it was asked.
fn stopped_by(failed: Failed) -> Stop {
    match failed {
        Failed::Errno(errno) => Errno(errno).into(),
        Failed::Refused(why) => {
            tracing::error!(why, "another group refuses a part of a change");
            Stop::Errno(Errno(libc::EIO))
        }
        other => Stop::Again(other.to_string()),
    }
}

/// A part that is to be locked here.
struct Wanted {
    id: TransactionId,
    session: SessionId,
    cred: Cred,
    part: Part,
    since: u64,
}

/// Checks and locks a part when nobody else has a lease that stands against it.
fn lock_own(
    meta: &Rc<Meta>,
    core: &mut Core,
    wanted: Wanted,
    tell: oneshot::Sender<Result<PartReply, Errno>>,
) {
    let (id, part) = (wanted.id, &wanted.part);
    let is_locked = core.running.own.against(part, id).is_some()
        || core.state.locked_against(part, id).is_some()
        || core.part_is_not_here(part);
    let result = if is_locked || core.parking.is_full() {
        Err(Errno::EAGAIN)
    } else {
        let commit = Commit {
            parts: vec![part.clone()],
            ..Commit::default()
        };
        let entry = Entry {
            session: wanted.session.0,
            op: Some(proto::Op {
                op: Some(Op::Commit(commit)),
            }),
            ..Entry::default()
        };
        let touched = core.state.touches(&entry);
        let since = wanted.since;
        // Who takes a name away says whether he has the inode open as everybody else does: the part has no
        // place for it. The answer to who spreads a directory, or sets what its shards have, says nothing of
        // these, and not what the directory's names are now.
        let session = match part.part {
            Some(Kind::Drop(_) | Kind::Spread(_) | Kind::Set(_)) => SessionId(0),
            _ => wanted.session,
        };
        if let Some(conflict) = changes::conflicts(meta, core, session, &entry, &touched, since) {
            let wants = touched.iter().map(|touch| touch.ino).collect();
            let again: Again = Box::new(move |meta, core| lock_own(meta, core, wanted, tell));
            return meta.park(core, conflict, (wants, 0..0), again);
        }
        let checked = core.state.check_part(&wanted.cred, part);
        if checked.is_ok() {
            core.running.own.lock(part, id);
        }
        checked
    };
    // Whoever does not wait any more has ended with the reign.
    let _: Result<(), _> = tell.send(result);
}

/// Tells others the outcome, until they have it; then the transaction is forgotten. That one was given up
/// they need not hear: they ask.
async fn finish(meta: Rc<Meta>, id: TransactionId, others: BTreeSet<GroupId>, done: bool) {
    let restored = meta.core.borrow().state.restored();
    // What is decided may be taken back by a restore, which goes on with what it brings back.
    let is_over = |meta: &Meta| {
        let state = &meta.core.borrow().state;
        state.closed().is_some() || state.restored() != restored
    };
    let is_over = &is_over;
    if done {
        reach(&meta, "home-tells");
    }
    let told = others.into_iter().map(|group| {
        let meta = meta.clone();
        async move {
            let request = FinishRequest {
                transaction: Some(transaction_to(id)),
                done,
                restored,
            };
            let mut pause = PAUSES[0];
            let mut tries = 0;
            while let Err(failed) = meta.ask_group(group, &request, PATIENCE).await {
                tries += 1;
                tracing::debug!(%id, %group, %failed, "a group does not take an outcome");
                if !done && tries >= TOLD_VOID_MAX || is_over(&meta) {
                    return;
                }
                meta.env.sleep(pause).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
            if done && !is_over(&meta) {
                let forget = Forget {
                    group: group.0,
                    transactions: vec![transaction_to(id)],
                };
                reach(&meta, "home-has-told");
                let core = &mut *meta.core.borrow_mut();
                meta.apply_own(core, Op::Forget(forget));
                reach(&meta, "home-forgets");
                if !core.state.is_decided(id) {
                    core.running.told(id);
                }
            }
        }
    });
    join_all(told).await;
}

/// Goes on with what earlier reigns had decided, and others may not have heard. The last one may have had a decision in
/// its journal that nobody has committed yet: they hear of it when it is.
pub(crate) fn finish_decided(meta: &Rc<Meta>, core: &mut Core) {
    let newest = core.commits.newest();
    let decided: Vec<_> = core.state.decided().collect();
    for (id, others) in decided {
        core.running.tells(id, meta.env.now());
        let others = others.into_iter().collect();
        meta.when_committed(core, newest, move |meta, _, result| {
            if result.is_ok() {
                meta.spawn("finish", finish(meta.clone(), id, others, true));
            }
        });
    }
}

impl Meta {
    /// Handles anew what waited for this transaction.
    pub(super) fn retry_transaction(self: &Rc<Self>, core: &mut Core, id: TransactionId) {
        for again in core.parking.take_for(Conflict::Transaction(id)) {
            again(self, core);
        }
    }
}
