//! Jobs: draining a pair, filling pairs evenly, laying a tree otherwise (`docs/protocols/relayout.md`).
//!
//! What is journaled is only that there is a job and how much it has moved. What it still has to do is
//! found by walking the name space, a slice at a time, round after round until a round finds nothing: so
//! a new reign has nothing to remember, and a file that was in use comes up again. The files are moved by
//! clients that ask for work (`weft-mover`); each is given to one of them until it reports, or its
//! session ends.
//!
//! A drained pair is removed when a whole round found nothing on it. That is proof: files are neither
//! made nor moved there since the job began. And when both members have dropped what was there: one that
//! missed that would bring it back, nobody's, should the pair be let in again.

use crate::reign::{Core, Meta};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_namespace::{Candidate, Cursor, State, Usage};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, PairId, SessionId};
use weft_wire::Failed;
use weft_wire::proto::job::What;
use weft_wire::proto::{
    self, AdmitPairReply, AdmitPairRequest, CancelJobReply, CancelJobRequest, Job, JobStatus,
    JobsReply, JobsRequest, MoveOrder, MoveReport, MoveWorkReply, MoveWorkRequest, StartJobReply,
    StartJobRequest, op,
};

/// Inodes (or entries) looked at in one go: some hundreds of microseconds.
const STEPS: usize = 2_000;
/// Between two goes: what others need of this server comes first.
const PAUSE: Duration = Duration::from_millis(2);
/// With nothing to walk over it is looked this often whether that has changed.
const IDLE: Duration = Duration::from_millis(250);
/// Files that are found ahead of those who move them.
const QUEUE_MAX: usize = 1_024;
/// Files given to one mover at a time; it may ask for fewer.
const ORDERS_MAX: usize = 64;
/// After a round in which nothing could be moved the next begins only after this.
const FRUITLESS_PAUSE: Duration = Duration::from_secs(2);
/// The rate that is shown is that of so much time.
const RATE_SPAN: Duration = Duration::from_secs(10);
/// Work that nobody has asked for so long waits for a mover.
const UNASKED: Duration = Duration::from_secs(10);
/// Why a file cannot be moved that nobody need look at: it is in use, or a pair of its new place is being
/// drained meanwhile. The next round sees what is true.
const ORDINARY: [i32; 2] = [libc::EBUSY, libc::EAGAIN];
/// Bytes of a failure that are kept for people.
const FAILURE_BYTES_MAX: usize = 200;
/// The stage of a tree's job in which all its directories have the policy.
const STAGE_FILES: u32 = 1;

/// Where a job is in its round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Adds up what lies on each pair (to fill them evenly).
    Usage,
    /// Counts what there is to do, for people.
    Counting,
    /// Finds files.
    Walking,
    /// All have been found: the last ones are being moved.
    Ending,
    /// Nothing was found.
    Finished,
}

/// A file that somebody moves.
struct Given {
    session: SessionId,
    candidate: Candidate,
}

/// How far one job is.
struct Progress {
    phase: Phase,
    cursor: Cursor,
    usage: Usage,
    /// As the last count of it found it.
    counted_usage: Usage,
    files_left: u64,
    bytes_left: u64,
    is_counted: bool,
    queue: VecDeque<Candidate>,
    given: BTreeMap<Ino, Given>,
    /// Of this round.
    found: u64,
    moved: u64,
    /// The next round does not begin before.
    rests_until: Mono,
    /// Bytes that were moved, and when.
    recent: VecDeque<(Mono, u64)>,
    asked: Mono,
    failures: u64,
    last_failure: String,
    waits: String,
}

impl Progress {
    fn new(job: &Job, now: Mono) -> Progress {
        Progress {
            phase: first_phase(job),
            cursor: Cursor::default(),
            usage: Usage::new(),
            counted_usage: Usage::new(),
            files_left: 0,
            bytes_left: 0,
            is_counted: false,
            queue: VecDeque::new(),
            given: BTreeMap::new(),
            found: 0,
            moved: 0,
            rests_until: now,
            recent: VecDeque::new(),
            asked: now,
            failures: 0,
            last_failure: String::new(),
            waits: String::new(),
        }
    }

    /// The phase is over, and the next begins at the first inode.
    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.cursor = Cursor::default();
        self.usage = self.counted_usage.clone();
    }

    fn rate(&mut self, now: Mono) -> u64 {
        while let Some((at, _)) = self.recent.front()
            && now.since(*at) > RATE_SPAN
        {
            self.recent.pop_front();
        }
        let bytes: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
        let since = self
            .recent
            .front()
            .map_or(Duration::ZERO, |(at, _)| now.since(*at));
        (bytes as f64 / since.max(Duration::from_secs(1)).as_secs_f64()) as u64
    }
}

fn first_phase(job: &Job) -> Phase {
    match job.what {
        Some(What::Rebalance(_)) => Phase::Usage,
        _ => Phase::Counting,
    }
}

/// What is known of the jobs that run, besides what is journaled.
#[derive(Default)]
pub(crate) struct Jobs {
    by_id: BTreeMap<u64, Progress>,
}

impl Jobs {
    /// Whatever the session was moving is given to others.
    pub(crate) fn session_ended(&mut self, session: SessionId) {
        self.take_back(session, &BTreeSet::new());
    }

    /// What was given to a session is free again, except these files.
    fn take_back(&mut self, session: SessionId, except: &BTreeSet<Ino>) {
        for progress in self.by_id.values_mut() {
            let is_lost =
                |ino: &Ino, given: &mut Given| given.session == session && !except.contains(ino);
            for (_, given) in progress.given.extract_if(.., is_lost) {
                progress.queue.push_front(given.candidate);
            }
        }
    }

    /// All files that sessions are to move.
    fn given(&self) -> BTreeSet<Ino> {
        let all = self.by_id.values();
        all.flat_map(|job| job.given.keys().copied()).collect()
    }

    /// The session is to move the file.
    pub(crate) fn is_given(&self, ino: Ino, session: SessionId) -> bool {
        let mut given = self.by_id.values().filter_map(|job| job.given.get(&ino));
        given.any(|given| given.session == session)
    }

    fn wants_movers(&self) -> bool {
        let mut all = self.by_id.values();
        all.any(|progress| !progress.queue.is_empty())
    }

    /// What tools are shown, by number.
    pub(crate) fn statuses(&mut self, state: &State, now: Mono) -> Vec<JobStatus> {
        let status = |job: &Job| {
            let mut status = JobStatus {
                job: Some(*job),
                is_counted: true,
                ..JobStatus::default()
            };
            if let Some(progress) = self.by_id.get_mut(&job.id) {
                status.files_left = progress.files_left;
                status.bytes_left = progress.bytes_left;
                status.is_counted = progress.is_counted;
                status.bytes_per_second = progress.rate(now);
                status.failures = progress.failures;
                status.last_failure = progress.last_failure.clone();
                status.moving = progress.given.len() as u64;
                status.waits = progress.waits.clone();
                let is_unasked = !progress.queue.is_empty() && progress.given.is_empty();
                if is_unasked && now.since(progress.asked) > UNASKED {
                    status.waits = "no data server asks for files to move".into();
                }
            }
            status
        };
        state.jobs().map(status).collect()
    }
}

/// Walks for the jobs until the server stops.
pub(crate) async fn run(meta: Rc<Meta>) {
    loop {
        let (walks, is_idle) = {
            let core = &mut *meta.core.borrow_mut();
            let walks = step(&meta, core);
            (walks, core.jobs.by_id.is_empty())
        };
        if walks {
            meta.env.sleep(PAUSE).await;
        } else if is_idle {
            meta.jobs_changed.notified().await;
        } else {
            let _: Result<(), _> = meta.env.timeout(IDLE, meta.jobs_changed.notified()).await;
        }
    }
}

/// One slice of each job. True: some have more to walk over.
fn step(meta: &Rc<Meta>, core: &mut Core) -> bool {
    let running: Vec<Job> = core
        .state
        .jobs()
        .filter(|job| job.ended.is_none())
        .copied()
        .collect();
    let ids: BTreeSet<u64> = running.iter().map(|job| job.id).collect();
    core.jobs.by_id.retain(|id, _| ids.contains(id));
    if core.commits.refusal().is_some() {
        // Nothing could be journaled. The walk goes on when that is over.
        return !ids.is_empty();
    }
    let full = core.pairs.full().to_vec();
    let mut walks = false;
    for job in running {
        let now = meta.env.now();
        let entry = core.jobs.by_id.entry(job.id);
        let progress = entry.or_insert_with(|| Progress::new(&job, now));
        let effect = advance(&core.state, progress, &job, &full, now);
        walks |= matches!(
            progress.phase,
            Phase::Usage | Phase::Counting | Phase::Walking
        ) && progress.queue.len() < QUEUE_MAX;
        perform(meta, core, &job, effect);
    }
    walks
}

/// What a slice asks the server to do.
#[derive(Default)]
struct Effect {
    directories: Vec<Ino>,
    stage: Option<u32>,
    finishes: bool,
}

/// One slice of one job.
fn advance(state: &State, progress: &mut Progress, job: &Job, full: &[u32], now: Mono) -> Effect {
    let mut effect = Effect::default();
    match progress.phase {
        Phase::Usage => match state.count_usage(&mut progress.usage, progress.cursor, STEPS) {
            Some(next) => progress.cursor = next,
            None => {
                progress.counted_usage = std::mem::take(&mut progress.usage);
                let is_counted = progress.is_counted;
                progress.turn(if is_counted {
                    Phase::Walking
                } else {
                    Phase::Counting
                });
            }
        },
        Phase::Counting => {
            let look = state.look(job, &mut progress.usage, full, progress.cursor, STEPS);
            progress.files_left += look.files.len() as u64;
            progress.bytes_left += look.files.iter().map(|file| file.bytes).sum::<u64>();
            match look.next {
                Some(next) => progress.cursor = next,
                None => {
                    progress.is_counted = true;
                    progress.turn(Phase::Walking);
                }
            }
        }
        Phase::Walking if progress.queue.len() >= QUEUE_MAX || now < progress.rests_until => {}
        Phase::Walking => {
            let look = state.look(job, &mut progress.usage, full, progress.cursor, STEPS);
            progress.found += look.files.len() as u64;
            for file in look.files {
                if !progress.given.contains_key(&file.ino) {
                    progress.queue.push_back(file);
                }
            }
            if job.stage < STAGE_FILES {
                effect.directories = look.directories;
            }
            match look.next {
                Some(next) => progress.cursor = next,
                None => {
                    effect.stage = (job.stage < STAGE_FILES).then_some(STAGE_FILES);
                    progress.phase = Phase::Ending;
                }
            }
        }
        Phase::Ending if !progress.queue.is_empty() || !progress.given.is_empty() => {}
        Phase::Ending if progress.found == 0 => progress.phase = Phase::Finished,
        Phase::Ending => {
            if progress.moved == 0 {
                progress.rests_until = now + FRUITLESS_PAUSE;
            }
            (progress.found, progress.moved) = (0, 0);
            progress.usage.clear();
            let is_evened = matches!(job.what, Some(What::Rebalance(_)));
            progress.phase = if is_evened {
                Phase::Usage
            } else {
                Phase::Walking
            };
            progress.cursor = Cursor::default();
        }
        Phase::Finished => effect.finishes = true,
    }
    effect
}

fn perform(meta: &Rc<Meta>, core: &mut Core, job: &Job, effect: Effect) {
    if let Some(What::Relay(tree)) = &job.what {
        for ino in effect.directories {
            let give = proto::GivePolicy {
                ino: ino.0,
                policy: tree.policy,
                job: job.id,
            };
            meta.apply_own(core, op::Op::GivePolicy(give));
        }
    }
    if let Some(stage) = effect.stage {
        let mark = proto::MarkJob { job: job.id, stage };
        meta.apply_own(core, op::Op::MarkJob(mark));
    }
    if effect.finishes {
        finish(meta, core, job);
    }
}

/// Nothing is left to be moved.
fn finish(meta: &Rc<Meta>, core: &mut Core, job: &Job) {
    let Some(What::Drain(drain)) = job.what else {
        let end = proto::EndJob {
            job: job.id,
            cancelled: false,
        };
        meta.apply_own(core, op::Op::EndJob(end));
        tracing::info!(
            job = job.id,
            files = job.files,
            bytes = job.bytes,
            "job done"
        );
        return;
    };
    let pair = PairId(drain.pair);
    let waits_for_member = || {
        let missing = core.pairs.missing_member(pair)?;
        let is_given_up = core.state.retired_store(pair, missing).is_some();
        (!is_given_up)
            .then_some("a member that is away has objects yet: start it, or `weft pair replace` it")
    };
    if let Some(why) = core.state.keeps_pair(pair).or_else(waits_for_member) {
        if let Some(progress) = core.jobs.by_id.get_mut(&job.id) {
            progress.waits = why.into();
        }
        return;
    }
    let remove = proto::RemovePair { pair: pair.0 };
    let (reply, sn) = meta.apply_own(core, op::Op::RemovePair(remove));
    if reply.failure_errno != 0 {
        tracing::error!(%pair, errno = reply.failure_errno, "a drained pair cannot be removed");
        return;
    }
    tracing::info!(%pair, files = job.files, bytes = job.bytes, "pair drained and removed");
    meta.when_committed(core, sn, move |meta, core, result| {
        if result.is_ok() {
            crate::pairs::removed(meta, core, pair);
        }
    });
}

// ---- what tools and movers ask ----

pub(crate) fn on_jobs(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    _request: JobsRequest,
    replier: Replier,
) {
    let reply = JobsReply {
        jobs: core.jobs.statuses(&core.state, meta.env.now()),
        wants_movers: core.jobs.wants_movers(),
    };
    let sn = core.commits.newest();
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<JobsRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

/// Why a job is not begun, in words that say what to do.
fn refusal(what: Option<&What>, errno: u32) -> Failed {
    let why = match (what, errno as i32) {
        (Some(What::Drain(drain)), libc::ENOENT) => format!("there is no pair {}", drain.pair),
        (Some(What::Drain(drain)), libc::EALREADY) => {
            format!("pair {} is being drained already", drain.pair)
        }
        (Some(What::Drain(drain)), libc::EBUSY) => format!(
            "a checkpoint names pair {}: what is moved off it would be kept there. Delete it first (weft checkpoint list)",
            drain.pair
        ),
        (Some(What::Drain(_)), libc::ENOSPC) => {
            "it is the last pair that files could go to: add another one first".into()
        }
        (Some(What::Rebalance(_)), libc::EALREADY) => {
            "the pairs are being rebalanced already".into()
        }
        (_, libc::EAGAIN) => "too many jobs run: wait for one to end, or cancel one".into(),
        (_, errno) => return Failed::Errno(errno),
    };
    Failed::Refused(why)
}

pub(crate) fn on_start(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: StartJobRequest,
    replier: Replier,
) {
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    if crate::group::is_partitioned(&core.view) {
        let why = "jobs walk over one group's files only, and this cluster has several groups";
        return replier.fail(Failed::Refused(why.into()));
    }
    let mut what = request.job.and_then(|job| job.what);
    if let Some(What::Relay(tree)) = &mut what {
        match core.state.laying(Ino(tree.root)) {
            Ok(None) => {}
            Ok(Some(job)) => {
                let why = format!(
                    "job {job} lays something of this tree otherwise: wait for its end, or cancel it"
                );
                return replier.fail(Failed::Refused(why));
            }
            Err(errno) => return replier.fail(errno.into()),
        }
        let wanted = tree.policy.unwrap_or_default();
        match core.state.policy_with(Ino(tree.root), &wanted) {
            Ok(policy) => tree.policy = Some(policy),
            Err(errno) => return replier.fail(errno.into()),
        }
    }
    let job = Job {
        what,
        ..Job::default()
    };
    let start = proto::StartJob { job: Some(job) };
    let (reply, sn) = meta.apply_own(core, op::Op::StartJob(start));
    if reply.failure_errno != 0 {
        return replier.fail(refusal(what.as_ref(), reply.failure_errno));
    }
    let id = reply.session;
    tracing::info!(job = id, ?what, "job begins");
    meta.when_committed(core, sn, move |meta, _, result| match result {
        Ok(()) => {
            meta.jobs_changed.notify_one();
            let reply = StartJobReply { job: id };
            replier.send::<StartJobRequest>(&reply, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    });
}

pub(crate) fn on_cancel(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: CancelJobRequest,
    replier: Replier,
) {
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    let end = proto::EndJob {
        job: request.job,
        cancelled: true,
    };
    let (reply, sn) = meta.apply_own(core, op::Op::EndJob(end));
    if reply.failure_errno != 0 {
        let why = format!("no job {} is running", request.job);
        return replier.fail(Failed::Refused(why));
    }
    core.jobs.by_id.remove(&request.job);
    tracing::info!(job = request.job, "job cancelled");
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<CancelJobRequest>(&CancelJobReply {}, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

pub(crate) fn on_admit(
    meta: &Rc<Meta>,
    core: &mut Core,
    _connection: &Connection,
    request: AdmitPairRequest,
    replier: Replier,
) {
    let pair = PairId(request.pair);
    let was_removed = core.state.is_removed(pair);
    let reply = AdmitPairReply {
        was_removed,
        is_known: core.state.pair_state(pair).is_some(),
    };
    if !was_removed {
        return replier.send::<AdmitPairRequest>(&reply, Payload::none());
    }
    if let Some(failed) = core.commits.refusal() {
        return replier.fail(failed);
    }
    let admit = proto::AdmitPair { pair: pair.0 };
    let (_, sn) = meta.apply_own(core, op::Op::AdmitPair(admit));
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<AdmitPairRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

pub(crate) fn on_work(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: MoveWorkRequest,
    replier: Replier,
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let now = meta.env.now();
    for report in &request.reports {
        take_report(&mut core.jobs, report, now);
    }
    let working: BTreeSet<Ino> = request.working.iter().copied().map(Ino).collect();
    core.jobs.take_back(session, &working);
    let max = (request.max as usize).min(ORDERS_MAX);
    let mut orders = Vec::new();
    let mut given = core.jobs.given();
    given.extend(working);
    for (id, progress) in &mut core.jobs.by_id {
        progress.asked = now;
        while orders.len() < max
            && let Some(candidate) = progress.queue.pop_front()
        {
            // In two jobs at once, or twice in one by two names: the next round finds it again.
            if !given.insert(candidate.ino) {
                continue;
            }
            orders.push(MoveOrder {
                job: *id,
                ino: candidate.ino.0,
                layout: Some(candidate.layout.clone()),
            });
            progress
                .given
                .insert(candidate.ino, Given { session, candidate });
        }
    }
    meta.jobs_changed.notify_one();
    // A job whose beginning could be undone has no orders to give.
    let reply = MoveWorkReply {
        idle: core.jobs.by_id.is_empty(),
        orders,
    };
    let sn = core.commits.newest();
    meta.when_committed(core, sn, move |_, _, result| match result {
        Ok(()) => replier.send::<MoveWorkRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}

fn take_report(jobs: &mut Jobs, report: &MoveReport, now: Mono) {
    let Some(progress) = jobs.by_id.get_mut(&report.job) else {
        return;
    };
    let Some(given) = progress.given.remove(&Ino(report.ino)) else {
        // Told before.
        return;
    };
    if report.bytes > 0 {
        progress.recent.push_back((now, report.bytes));
    }
    if report.errno == 0 {
        progress.moved += 1;
        progress.files_left = progress.files_left.saturating_sub(1);
        progress.bytes_left = progress.bytes_left.saturating_sub(given.candidate.bytes);
        return;
    }
    progress.failures += 1;
    let error = std::io::Error::from_raw_os_error(report.errno as i32);
    let hint = match report.errno as i32 {
        libc::EIO => {
            "; if `weft status` names it as lost in part, write that anew or acknowledge it"
        }
        _ => "",
    };
    let mut why = format!("inode {}: {error}{hint}", report.ino);
    why.truncate(FAILURE_BYTES_MAX);
    if !ORDINARY.contains(&(report.errno as i32)) && why != progress.last_failure {
        tracing::warn!(job = report.job, why, "a file cannot be moved now");
    }
    progress.last_failure = why;
}
