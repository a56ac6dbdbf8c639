//! Changes: `ChangeRequest`.
//!
//! A change is checked (epoch, session, repetition), what others may have cached of what it touches is
//! revoked, it is applied, and it is answered when it is committed.

use crate::partition::{self, Asked};
use crate::ranges::{self, WHOLE};
use crate::reads::refuse_gone;
use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use std::ops::Range;
use std::rc::Rc;
use weft_namespace::{Locked, State, Touch};
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, Operation, SessionId};
use weft_wire::Failed;
use weft_wire::proto::file_lock::Kind;
use weft_wire::proto::{
    self, ChangeReply, ChangeRequest, Entry, Lease, LeaseMode, OpReply, Protocol, op::Op,
};

/// No session.
const NOBODY: SessionId = SessionId(0);

/// What `entry` changes, for those that read it before it is committed. False: more than is named.
pub(crate) fn concerned(state: &State, entry: &Entry, inos: &mut Vec<Ino>) -> bool {
    let Some(op) = entry.op.as_ref().and_then(|op| op.op.as_ref()) else {
        return true;
    };
    match op {
        Op::SetLock(op) => inos.push(Ino(op.ino)),
        Op::SetOpen(op) => inos.push(Ino(op.ino)),
        Op::DropLease(op) => inos.push(Ino(op.ino)),
        Op::TrimDone(op) => inos.push(Ino(op.ino)),
        Op::Orphan(op) => inos.push(Ino(op.ino)),
        Op::LetGo(op) => inos.extend(op.inos.iter().copied().map(Ino)),
        Op::Release(op) => inos.push(Ino(op.ino)),
        // A create of something new, by far the most frequent, needs no second look at the state.
        Op::Create(op) => inos.push(Ino(op.parent)),
        // Clients cache nothing of these.
        Op::SetPairState(_) | Op::Dropped(_) | Op::NewReign(_) | Op::AddPair(_) => {}
        Op::RelayoutBegin(_) | Op::RelayoutEnd(_) | Op::GivePolicy(_) => {}
        Op::StartJob(_) | Op::MarkJob(_) | Op::EndJob(_) => {}
        Op::RemovePair(_) | Op::AdmitPair(_) | Op::RetireStore(_) => {}
        Op::NoteLife(_) | Op::SkipNumbers(_) => {}
        Op::Relayout(op) => inos.push(Ino(op.ino)),
        Op::OpenSession(_) | Op::Receive(_) | Op::Discard(_) | Op::TakeNumbers(_) => {}
        op if crate::checkpoints::is_entry(op) => {}
        Op::CloseSession(_) | Op::DropKept(_) | Op::Give(_) | Op::Own(_) | Op::Adopt(_) => {
            return false;
        }
        _ => inos.extend(state.touches(entry).iter().map(|touch| touch.ino)),
    }
    true
}

/// What only gives something back: a lock, a lease, an inode that was kept open, sizes and times that are owed, a copy
/// that nobody else can begin.
fn gives_back(op: &Op) -> bool {
    match op {
        Op::RelayoutEnd(_) => true,
        Op::Release(_) | Op::DropLease(_) => true,
        Op::Setattr(op) => op.owed,
        Op::SetLock(op) => op.lock.is_some_and(|lock| lock.kind() == Kind::Unlock),
        Op::SetOpen(op) => op.access | op.deny | op.kept == 0,
        Op::DropKept(_) => true,
        _ => false,
    }
}

/// What leaves less than there was. (A file is cut under the lease to write it. What has lost its name is kept for whoever
/// uses it: to refuse that would take it away.)
fn makes_room(state: &State, op: &Op) -> bool {
    match op {
        Op::Unlink(_) | Op::Rmdir(_) | Op::Removexattr(_) | Op::WriteLease(_) => true,
        Op::Orphan(_) => true,
        Op::Setattr(op) => op
            .size
            .is_some_and(|size| size < state.file_size(Ino(op.ino))),
        _ => false,
    }
}

/// What only the service does.
fn is_own(op: &Op) -> bool {
    matches!(
        op,
        Op::OpenSession(_)
            | Op::CloseSession(_)
            | Op::SetPairState(_)
            | Op::Dropped(_)
            | Op::SettledSize(_)
            | Op::NewReign(_)
            | Op::AddPair(_)
            | Op::LetGo(_)
            | Op::StartJob(_)
            | Op::MarkJob(_)
            | Op::EndJob(_)
            | Op::RemovePair(_)
            | Op::AdmitPair(_)
            | Op::GivePolicy(_)
            | Op::RetireStore(_)
            | Op::NoteLife(_)
            | Op::SkipNumbers(_)
            | Op::Found(_)
            | Op::Prepare(_)
            | Op::Commit(_)
            | Op::Finish(_)
            | Op::Forget(_)
            | Op::Receive(_)
            | Op::Give(_)
            | Op::Own(_)
            | Op::Discard(_)
            | Op::Adopt(_)
            | Op::Repair(_)
            | Op::TakeNumbers(_)
            | Op::Split(_)
    ) || crate::checkpoints::is_entry(op)
}

pub(crate) fn on_change(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    mut request: ChangeRequest,
    replier: Replier,
) {
    if let Err(failed) = core.complete_spread(&mut request) {
        return replier.fail(failed);
    }
    if let Some(Op::Orphan(orphan)) = request.op.as_mut().and_then(|op| op.op.as_mut()) {
        // Nobody says so of another.
        orphan.session = request.session;
    }
    let since = core.leases.next_seq();
    change(meta, core, connection, request, (since, replier));
}

/// Handles a change, from its beginning.
pub(crate) fn change(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: ChangeRequest,
    (since, replier): (u64, Replier),
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let want_leases = request.want_leases;
    if let Some(reply) = core.state.answered(session, Operation(request.operation)) {
        // Done before, perhaps a moment ago: its batch is not known any more, the newest is no older.
        let sn = core.commits.newest();
        let opens = request.op.as_ref().is_some_and(opens);
        let opened = core.note_opened(session, opens, &reply);
        return meta.when_committed(core, sn, move |meta, core, result| {
            respond(replier, (reply, Vec::new(), 0), result);
            meta.told_opened(core, opened, session);
        });
    }
    let Some(op) = request.op.as_ref().and_then(|op| op.op.as_ref()) else {
        return replier.fail(Failed::Refused("a change without an operation".into()));
    };
    if request.operation == 0 || is_own(op) && !matches!(op, Op::CloseSession(_)) {
        return replier.fail(Failed::Refused(
            "an operation that clients do not ask for".into(),
        ));
    }
    if let Op::CloseSession(close) = op {
        if close.session != session.0 {
            return replier.fail(Failed::Errno(libc::EPERM));
        }
        return crate::sessions::on_goodbye(meta, core, session, replier);
    }
    let for_a_test = || core.commits.refused_for_a_test(|| meta.env.random());
    let refusal = if gives_back(op) {
        core.commits.refusal_to_give_back()
    } else if makes_room(&core.state, op) {
        core.commits.refusal_to_make_room().or_else(for_a_test)
    } else {
        core.commits.refusal().or_else(for_a_test)
    };
    if let Some(failed) = refusal {
        return replier.fail(failed);
    }
    // That remains are trimmed is told under a use of the lease that is asked back.
    let gives = gives_back(op) || matches!(op, Op::TrimDone(_));
    if let Some(why) = core.change_is_not_here(op, gives) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            change(meta, core, &connection, request, (since, replier));
        };
        return meta.turn_away(core, why, replier, again);
    }
    if core.state.is_misplaced(op) {
        let newest = core.commits.newest();
        return meta.when_committed(core, newest, move |_, _, result| {
            let failed = Failed::Errno(libc::EREMCHG);
            replier.fail(result.err().unwrap_or(failed));
        });
    }
    if let Op::Relayout(relayout) = op
        && core.settling.has(Ino(relayout.ino))
    {
        // Its size is being found from the objects that it has now.
        return replier.fail(Failed::Errno(libc::EBUSY));
    }
    let spans = core.state.spans_groups(op);
    // Who takes part in a transaction himself waits for those of other groups only, with nothing locked: they
    // may be done, and their effect may not be here yet.
    let waits_for = match spans {
        true => core.state.blocked(&Locked::default(), op),
        false => core.state.blocked(&core.running.own, op),
    };
    if let Some(by) = waits_for {
        let (connection, waits) = (connection.clone(), (Vec::new(), 0..0));
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            change(meta, core, &connection, request, (since, replier));
        };
        return meta.wait_for(core, Conflict::Transaction(by), waits, replier, again);
    }
    if spans {
        let asked = Asked {
            connection: Some(connection.clone()),
            session,
            request,
            since,
        };
        return partition::begin(meta, core, asked, replier);
    }
    let mut entry = Entry {
        session: session.0,
        operation: request.operation,
        acknowledged_below: request.acknowledged_below,
        cred: request.cred,
        op: request.op,
        ..Entry::default()
    };
    let asked = match core.bytes_asked(&entry) {
        Ok(asked) => asked,
        Err(failed) => return replier.fail(failed),
    };
    if let Some(ino) = changed(&entry)
        && !core.is_there_for(ino, session)
    {
        return refuse_gone(meta, core, ino, replier);
    }
    let touched = core.touched(&entry);
    let conflict = match &asked {
        Some((ino, span)) => meta.clear_range(core, *ino, session, span, true),
        None => conflicts(meta, core, session, &entry, &touched, since),
    };
    if let Some(conflict) = conflict {
        let request = ChangeRequest {
            session: entry.session,
            epoch: request.epoch,
            operation: entry.operation,
            acknowledged_below: entry.acknowledged_below,
            cred: entry.cred,
            op: entry.op,
            want_leases,
        };
        let connection = connection.clone();
        let wants = touched.iter().map(|touch| touch.ino).collect();
        let claim = asked.map_or(WHOLE, |(_, span)| span);
        return meta.wait_for(
            core,
            conflict,
            (wants, claim),
            replier,
            move |meta, core, replier| {
                change(meta, core, &connection, request, (since, replier));
            },
        );
    }
    let shares = asked
        .as_ref()
        .is_some_and(|asked| core.shares(asked, session));
    journaled(&mut entry, shares);
    let left = left_behind(meta, core, session, &mut entry);
    let owed = core.owed_by_sharer(&entry);
    let lock = match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
        Some(Op::SetLock(lock)) => Some(*lock),
        _ => None,
    };
    let grants = grants(&entry, &touched);
    let opens = entry.op.as_ref().is_some_and(opens);
    let releases = match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
        Some(Op::Release(release)) => Some(Ino(release.ino)),
        _ => None,
    };
    let drops = match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
        Some(Op::DropLease(drop)) => Some(Ino(drop.ino)),
        _ => None,
    };
    let made_in = match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
        Some(Op::Create(create)) => Some(Ino(create.parent)),
        _ => None,
    };
    let (mut reply, sn) = meta.apply(core, entry);
    if let Some(directory) = made_in.filter(|_| reply.created) {
        crate::spread::grown(meta, core, directory);
    }
    if let Some((ino, before)) = owed {
        core.note_told(ino, session, 0, before);
    }
    if let Some(ino) = drops {
        core.ranges.remove(ino, session);
    }
    if let Some(ino) = releases {
        meta.take_from(core, ino, session);
    }
    let mut leases = Vec::new();
    match asked.filter(|_| reply.failure_errno == 0) {
        Some((ino, span)) if shares => {
            leases.push(meta.grant_range(core, ino, session, &span, true));
        }
        alone => {
            if let Some((ino, _)) = alone {
                core.ranges.remove(ino, session);
            }
            leases = leases_for(meta, core, session, want_leases, &grants, &reply);
        }
    }
    // Not before leases: who has waited changes at once what the reply tells of.
    if let Some(Left { locked, kept }) = left.filter(|_| reply.failure_errno == 0) {
        crate::remnants::wake(meta, core, &locked, &kept);
    }
    let opened = core.note_opened(session, opens, &reply);
    if let Some(lock) = &lock {
        core.on_lock_reply(session, lock, &mut reply, meta.env.now());
    }
    let lock = lock.map(|lock| Ino(lock.ino));
    let layout = reply.layout.as_ref();
    let writers = match layout.is_some_and(|layout| layout.protocol() == Protocol::Hybrid) {
        true => core.state.writers(),
        false => 0,
    };
    meta.when_committed(core, sn, move |meta, core, result| {
        if let (Some(ino), Ok(()), true) = (lock, &result, reply.wake_waiters) {
            core.tell_lock_freed(ino);
        }
        if reply.failure_errno == 0 {
            meta.deletions_changed.notify_one();
        }
        respond(replier, (reply, leases, writers), result);
        meta.told_opened(core, opened, session);
    });
}

/// Answers a change whose batch is committed, or never will be.
pub(crate) fn respond(
    replier: Replier,
    (reply, leases, writers): (OpReply, Vec<Lease>, u32),
    result: Result<(), Failed>,
) {
    match result {
        Ok(()) => {
            let reply = ChangeReply {
                reply: Some(reply),
                leases,
                writers,
            };
            replier.send::<ChangeRequest>(&reply, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    }
}

/// A file is opened by it.
fn opens(op: &proto::Op) -> bool {
    matches!(&op.op, Some(Op::Create(create)) if create.open_access != 0)
}

/// The inode, if the entry changes one by its number that the session must have open, or name. (What is
/// owed is told under a lease.)
fn changed(entry: &Entry) -> Option<Ino> {
    let ino = match entry.op.as_ref().and_then(|op| op.op.as_ref())? {
        Op::Setattr(op) if !op.owed => op.ino,
        Op::WriteLease(op) => op.ino,
        Op::Setxattr(op) => op.ino,
        Op::Removexattr(op) => op.ino,
        _ => return None,
    };
    Some(Ino(ino))
}

/// A lock that an entry takes.
struct WantedLock {
    ino: Ino,
    /// 0: nobody's.
    behalf: u64,
    exclusive: bool,
    /// flock's.
    whole: bool,
    /// It was had by way of another session.
    reclaim: bool,
}

impl WantedLock {
    fn of(op: &Op) -> Option<WantedLock> {
        match op {
            Op::SetLock(set) if !gives_back(op) => {
                let lock = set.lock?;
                Some(WantedLock {
                    ino: Ino(set.ino),
                    behalf: lock.behalf,
                    exclusive: lock.kind() == Kind::Exclusive,
                    whole: lock.flock,
                    reclaim: set.reclaim,
                })
            }
            _ => None,
        }
    }
}

/// On what the asking session may have leases with the reply: what it touched and does not take away.
fn grants(entry: &Entry, touched: &[Touch]) -> Vec<Ino> {
    let mut inos: Vec<Ino> = touched
        .iter()
        .filter(|touch| !touch.unlinking)
        .map(|touch| touch.ino)
        .collect();
    match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
        Some(Op::Create(op)) => inos.push(Ino(op.parent)),
        Some(Op::WriteLease(op)) => inos.push(Ino(op.ino)),
        _ => {}
    }
    inos
}

/// The leases that leave with the reply of a change that was done.
pub(crate) fn leases_for(
    meta: &Rc<Meta>,
    core: &mut Core,
    session: SessionId,
    wanted: bool,
    grants: &[Ino],
    reply: &OpReply,
) -> Vec<Lease> {
    if reply.failure_errno != 0 {
        return Vec::new();
    }
    let made = reply.attr.as_ref().map(|attr| Ino(attr.ino));
    let mut inos: Vec<Ino> = grants.iter().copied().chain(made).collect();
    inos.sort_unstable();
    inos.dedup();
    let mut leases = Vec::new();
    for ino in inos {
        // The write lease that came with a creation, or was asked for, is told in any case.
        if wanted || core.state.write_lease(ino) == Some(session) {
            leases.extend(meta.grant(core, ino, session));
        }
    }
    leases
}

/// Makes of what a client asks for what stands in the journal: which bytes it will write is not, whether
/// others write them too is.
fn journaled(entry: &mut Entry, shares: bool) {
    if let Some(Op::WriteLease(lease)) = entry.op.as_mut().and_then(|op| op.op.as_mut()) {
        (lease.start, lease.end, lease.shared) = (0, 0, shares);
    }
}

/// What others may go on with when this entry has taken from what is kept of sessions that have ended.
struct Left {
    locked: Vec<Ino>,
    kept: Vec<Ino>,
}

/// Says what an entry drops that is kept of sessions that have ended.
fn left_behind(
    meta: &Meta,
    core: &mut Core,
    session: SessionId,
    entry: &mut Entry,
) -> Option<Left> {
    match entry.op.as_mut().and_then(|op| op.op.as_mut())? {
        Op::DropKept(drop) => {
            crate::remnants::complete(core, session, drop, meta.env.now());
            let remnants = drop.sessions.iter().copied().map(SessionId);
            let mut left = Left {
                locked: Vec::new(),
                kept: Vec::new(),
            };
            for remnant in remnants {
                left.locked.extend(core.state.locks_of(remnant));
                left.kept.extend(core.state.kept_by(remnant));
            }
            Some(left)
        }
        Op::SetOpen(open) if open.reclaim => Some(Left {
            locked: Vec::new(),
            kept: vec![Ino(open.ino)],
        }),
        _ => None,
    }
}

impl Meta {
    /// The reply that opens a file has left: who waits for that to take its name away goes on.
    fn told_opened(self: &Rc<Self>, core: &mut Core, opened: Option<Ino>, session: SessionId) {
        if let Some(ino) = opened {
            core.leases.end_opening(ino, session);
            self.retry(core, ino);
        }
    }
}

impl Core {
    /// The bytes that a request for a WRITE lease needs: all that were asked for; the whole file where
    /// remains of a longer one are to be trimmed first, which nobody must do twice.
    fn bytes_asked(&self, entry: &Entry) -> Result<Option<(Ino, Range<u64>)>, Failed> {
        let Some(Op::WriteLease(lease)) = entry.op.as_ref().and_then(|op| op.op.as_ref()) else {
            return Ok(None);
        };
        let ino = Ino(lease.ino);
        let asks_all = (lease.start, lease.end) == (0, 0);
        if asks_all || self.state.has_remains(ino) {
            return Ok(Some((ino, WHOLE)));
        }
        match ranges::blocks(lease.start..lease.end) {
            Some(span) => Ok(Some((ino, span))),
            None => Err(Failed::Refused("a lease on no bytes".into())),
        }
    }

    /// Other sessions have bytes of the file, or may write it.
    fn is_written_by_others(&self, ino: Ino, session: SessionId) -> bool {
        let mut sharers = self.state.sharers(ino);
        sharers.any(|sharer| sharer != session) || self.ranges.has_others(ino, session)
    }

    /// A request for these bytes is granted as a part of the file, not the whole. (Who has a READ lease
    /// has it on the whole: that writers were in each other's way is no reason to cut it.)
    pub(crate) fn shares(&self, (ino, span): &(Ino, Range<u64>), session: SessionId) -> bool {
        let reads = self.leases.reads(*ino, session);
        let is_contested = *span != WHOLE && self.ranges.is_contested(*ino) && !reads;
        is_contested || self.is_written_by_others(*ino, session)
    }

    /// The file, and its size, of which one of several writers tells with this entry.
    fn owed_by_sharer(&self, entry: &Entry) -> Option<(Ino, u64)> {
        match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
            Some(Op::Setattr(op)) if op.owed && self.state.is_shared(Ino(op.ino)) => {
                Some((Ino(op.ino), self.state.file_size(Ino(op.ino))))
            }
            _ => None,
        }
    }

    /// Whoever gets this reply has a file open: it is asked when the last name goes, lease or no lease.
    /// Answers the file.
    fn note_opened(&mut self, session: SessionId, opens: bool, reply: &OpReply) -> Option<Ino> {
        let attr = reply.attr.as_ref();
        let ino = attr.filter(|_| opens && reply.failure_errno == 0);
        let ino = ino.map(|attr| Ino(attr.ino));
        let ino = ino.filter(|ino| self.state.inode(*ino).is_ok())?;
        self.leases.begin_opening(ino, session);
        // The holder of the WRITE lease is asked in any case.
        if !self.state.writes(ino, session) {
            self.leases.note_opened(ino, session);
        }
        Some(ino)
    }

    /// What other sessions have to give back before this entry. Owed attributes are told under a
    /// lease that excludes others (or are an atime, for which nobody's cache is worth dropping).
    fn touched(&self, entry: &Entry) -> Vec<Touch> {
        match entry.op.as_ref().and_then(|op| op.op.as_ref()) {
            Some(Op::Setattr(op)) if op.owed => Vec::new(),
            _ => self.state.touches(entry),
        }
    }
}

/// Asks others to give back what stands against this entry. None: nothing does.
pub(crate) fn conflicts(
    meta: &Rc<Meta>,
    core: &mut Core,
    session: SessionId,
    entry: &Entry,
    touched: &[Touch],
    since: u64,
) -> Option<Conflict> {
    let op = entry.op.as_ref().and_then(|op| op.op.as_ref());
    // To open an existing file for reading by a create only its size must be known.
    let looked_at = match op {
        Some(Op::Create(op)) if !op.truncate && op.open_access & weft_namespace::WRITE == 0 => {
            Some(Ino(op.parent))
        }
        _ => None,
    };
    let only_looks = |ino: Ino| looked_at.is_some_and(|parent| parent != ino);
    let wanted = op.and_then(WantedLock::of);
    // Nobody is asked for anything as long as it could not be done.
    for Touch { ino, .. } in touched {
        let kept = match op {
            // It is kept for who says so, perhaps, and he has not opened it here yet.
            Some(Op::SetOpen(open)) => core.kept_from_others(session, *ino, (open.behalf, true)),
            _ => core.kept_from(session, *ino, !only_looks(*ino)),
        };
        if kept.is_some() {
            return kept;
        }
    }
    // Others, for whom a file is kept, may have locked it by themselves.
    if let Some(wanted) = wanted.as_ref().filter(|wanted| !wanted.reclaim) {
        let lock = (wanted.behalf, wanted.exclusive);
        let kept = core.kept_from_others(session, wanted.ino, lock);
        if kept.is_some() {
            return kept;
        }
    }
    let mut first = None;
    for touch in touched {
        let to = if only_looks(touch.ino) {
            LeaseMode::LeaseRead
        } else {
            LeaseMode::LeaseNone
        };
        let but = if touch.own { NOBODY } else { session };
        let conflict = meta.revoke(core, touch.ino, but, (to, since), touch.unlinking);
        first = first.or(conflict);
    }
    let Some(wanted) = wanted else {
        return first;
    };
    // Who has a file alone may have passed that on, with the right to lock it unheard...
    let first = first.or_else(|| meta.end_alone(core, wanted.ino, session));
    // ... and who reads it, with the right to lock it to read.
    let (ino, exclusive) = (wanted.ino, wanted.exclusive);
    if wanted.whole || !core.state.is_kept_beside(ino, exclusive, session) {
        return first;
    }
    let to = (LeaseMode::LeaseNone, since);
    first.or_else(|| meta.revoke(core, ino, session, to, false))
}
