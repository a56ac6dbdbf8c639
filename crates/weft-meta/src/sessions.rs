//! Sessions: opened, renewed, taken up again, said goodbye to. How they end by themselves is in
//! `expiry.rs`; the rules are in `docs/protocols/leases.md`.

use crate::ranges::{self, Kept};
use crate::reign::{Core, Meta, ROOT};
use crate::remnants::KEEP_MAX;
use crate::slots;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_namespace::State;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, Operation, PairId, SessionId, Sn};
use weft_wire::Failed;
use weft_wire::proto::{
    self, ChangeReply, ChangeRequest, Identity, PairEpoch, RenewReply, RenewRequest, SessionReply,
    SessionRequest, View, identity::Role, op,
};

/// Sessions that may be open: far more than a cluster has clients; each costs a few hundred bytes in
/// every image.
const SESSIONS_MAX: usize = 100_000;

/// No client's session ends sooner: it renews three times in a term.
const SHORTEST_TERM: Duration = Duration::from_millis(500);

/// Pairs of which a client's word is kept: more than a cluster has.
const PAIRS_MAX: usize = 4_096;

/// How far the end of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is served.
    Open,
    /// It has not given back what was asked for, and is not served any more. But it may not have heard
    /// that, and may believe in what it holds until the term of its last renewal is over.
    Refused,
    /// It believes in nothing any more; what it was writing is being settled.
    Ending,
}

/// What is known of a session besides its journaled part.
pub(crate) struct Live {
    /// Where it is reached; None while it is away.
    pub connection: Option<Connection>,
    /// For so long after a renewal.
    pub term: Duration,
    /// Not renewed by then, it ends.
    pub deadline: Mono,
    /// It has been opened or taken up in this reign. Until then it counts as holding READ on
    /// everything.
    pub is_back: bool,
    pub stage: Stage,
    /// Batch with what it told when it last gave a WRITE lease back. Its renewals are answered after
    /// that: an answered renewal tells the client that what it told before is safe.
    pub told: Sn,
    /// By pair, the epoch that the client said last: everything that it sent under an earlier one has
    /// ended. Not told in this reign: unknown.
    pub settled: BTreeMap<PairId, u64>,
    /// The client's sessions with other groups, as it has said last.
    pub siblings: Vec<u64>,
    /// It has the answers of all changes below this, as it has said with its last renewal.
    pub acknowledged_below: Operation,
}

impl Live {
    /// What the client said last of a pair; 0: nothing.
    pub(crate) fn settled_epoch(&self, pair: PairId) -> u64 {
        self.settled.get(&pair).copied().unwrap_or(0)
    }

    /// The client says it anew.
    fn settles(&mut self, told: &[PairEpoch]) {
        for one in told.iter().take(PAIRS_MAX) {
            if self.settled.len() >= PAIRS_MAX && !self.settled.contains_key(&PairId(one.pair)) {
                return;
            }
            let known = self.settled.entry(PairId(one.pair)).or_default();
            *known = one.epoch.max(*known);
        }
    }

    /// The sessions that were open when this reign began. `own`: the service's term.
    pub(crate) fn of_earlier_reign(
        state: &State,
        own: Duration,
        now: Mono,
    ) -> BTreeMap<SessionId, Live> {
        let live = |term: Duration| Live {
            connection: None,
            term,
            deadline: now + term,
            is_back: false,
            stage: Stage::Open,
            told: Sn(0),
            settled: BTreeMap::new(),
            siblings: Vec::new(),
            acknowledged_below: Operation(0),
        };
        state
            .sessions()
            .map(|summary| (summary.session, live(self::term(own, summary.term_ms))))
            .collect()
    }
}

impl Core {
    /// May this request be served? Every request of a session passes here first.
    pub(crate) fn check(
        &self,
        connection: &Connection,
        session: u64,
        epoch: u64,
    ) -> Result<SessionId, Failed> {
        if epoch != self.epoch.0 {
            return Err(Failed::Stale(self.epoch.0));
        }
        let id = SessionId(session);
        match self.sessions.get(&id) {
            Some(live) if live.stage == Stage::Refused => {
                Err(Failed::Fenced("a lease was not given back in time".into()))
            }
            Some(live) if live.stage == Stage::Ending => {
                Err(Failed::Fenced("the session was not renewed in time".into()))
            }
            Some(live) if live.connection.as_ref().is_some_and(|c| c.same(connection)) => Ok(id),
            Some(_) => {
                let why = "the session has to be taken up over this connection first";
                Err(Failed::Unavailable(why.into()))
            }
            None => Err(Failed::Fenced("there is no such session".into())),
        }
    }

    /// The session is served.
    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        let live = self.sessions.get(&session);
        live.is_some_and(|live| live.stage == Stage::Open)
    }

    fn session_reply(
        &self,
        meta: &Meta,
        session: SessionId,
        (write_leases, shared_leases): (Vec<u64>, Vec<u64>),
    ) -> SessionReply {
        let term = match self.sessions.get(&session) {
            Some(live) => live.term,
            None => meta.settings.session_term(),
        };
        // Addresses as the servers told them: the coordinator's view learns them one after the other,
        // and nobody would tell the client later.
        let mut view = View {
            pairs: self.pairs.addresses(),
            ..self.view.clone()
        };
        let mut pairs = self.pairs.published();
        if !self.pairs.decides() {
            // The first group tells the client, and what it tells is never older than what is known here.
            view.pairs.clear();
            pairs.clear();
        }
        SessionReply {
            session: session.0,
            epoch: self.epoch.0,
            view: Some(view),
            pairs,
            term_ms: term.as_millis() as u64,
            root_ino: ROOT,
            write_leases,
            shared_leases,
            kept_open: slots::kept_open(self, session),
        }
    }
}

pub(crate) fn on_session(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: SessionRequest,
    replier: Replier,
) {
    if core.state.closed().is_some() && request.session == 0 {
        // It believes in nothing of its last session any more.
        if let Some(live) = core.sessions.get_mut(&SessionId(request.ended)) {
            live.deadline = Mono(0);
        }
        return replier.fail(crate::checkpoints::is_closed());
    }
    if request.session == 0 {
        open(meta, core, connection, request, replier);
    } else {
        take_up(meta, core, connection, request, replier);
    }
}

fn open(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: SessionRequest,
    replier: Replier,
) {
    if let Some(failed) = core.commits.refusal_to_make_room() {
        return replier.fail(failed);
    }
    if core.sessions.len() >= SESSIONS_MAX {
        return replier.fail(Failed::Unavailable("too many sessions are open".into()));
    }
    let open = proto::OpenSession {
        name: request.name,
        keep_ms: request.keep_ms.min(KEEP_MAX.as_millis() as u64),
        term_ms: request.term_ms,
        only_moves: request.only_moves,
    };
    let name = open.name.clone();
    let (reply, sn) = meta.apply_own(core, op::Op::OpenSession(open));
    let session = SessionId(reply.session);
    let term = term(meta.settings.session_term(), request.term_ms);
    attach(meta, core, connection, session, term);
    // It has sent nothing yet.
    let now: Vec<PairEpoch> = core
        .pairs
        .published()
        .iter()
        .map(|state| PairEpoch {
            pair: state.pair,
            epoch: state.epoch,
        })
        .collect();
    if let Some(live) = core.sessions.get_mut(&session) {
        live.settles(&now);
    }
    tracing::info!(%session, name, peer = connection.peer(), "session opened");
    slots::adopt(meta, core, session, &request.siblings);
    let sn = sn.max(core.commits.newest());
    meta.when_committed(core, sn, move |meta, core, result| match result {
        Ok(()) => {
            let reply = core.session_reply(meta, session, (Vec::new(), Vec::new()));
            replier.send::<SessionRequest>(&reply, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    });
}

/// The term of a session whose client asks for one. `own`: the service's.
fn term(own: Duration, asked_ms: u64) -> Duration {
    match asked_ms {
        0 => own,
        asked => Duration::from_millis(asked).clamp(SHORTEST_TERM.min(own), own),
    }
}

/// The session is reached over this connection from now on.
fn attach(
    meta: &Meta,
    core: &mut Core,
    connection: &Connection,
    session: SessionId,
    term: Duration,
) {
    connection.set_identity(Identity {
        role: Role::Client as i32,
        id: session.0,
        incarnation: connection.identity().incarnation,
        group: meta.settings.group,
    });
    let live = Live {
        connection: Some(connection.clone()),
        term,
        deadline: meta.env.now() + term,
        is_back: true,
        stage: Stage::Open,
        told: core.sessions.get(&session).map_or(Sn(0), |live| live.told),
        settled: core
            .sessions
            .get(&session)
            .map(|live| live.settled.clone())
            .unwrap_or_default(),
        siblings: Vec::new(),
        acknowledged_below: Operation(0),
    };
    let Some(before) = core.sessions.insert(session, live) else {
        return;
    };
    core.away -= usize::from(!before.is_back);
    if let Some(old) = before.connection
        && !old.same(connection)
    {
        old.close("the session is taken up over another connection");
    }
}

fn take_up(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: SessionRequest,
    replier: Replier,
) {
    let session = SessionId(request.session);
    match core.sessions.get(&session) {
        Some(live) if live.stage == Stage::Open => {}
        _ => return replier.fail(Failed::Fenced("the session has ended".into())),
    }
    let was_back = core.sessions.get(&session).is_some_and(|live| live.is_back);
    let term = term(meta.settings.session_term(), request.term_ms);
    attach(meta, core, connection, session, term);
    if let Some(live) = core.sessions.get_mut(&session) {
        live.settles(&request.settled);
    }

    // By coming back it has given its READ leases back; what it has open must be asked about when it
    // is unlinked.
    let open: BTreeSet<Ino> = request.open_inodes.iter().copied().map(Ino).collect();
    core.leases.reads_to_open(session);
    for ino in &open {
        core.leases.note_open(*ino, session);
    }
    core.ranges.drop_reads(session);
    let declared: BTreeSet<Ino> = request.write_leases.iter().copied().map(Ino).collect();
    let shared = resume_shares(
        meta,
        core,
        session,
        was_back,
        &request.shared_leases,
        &declared,
    );
    let held = core.state.write_leases_of(session).into_iter();
    let unshared = held.filter(|ino| !shared.contains(ino));
    let (kept, lost): (Vec<Ino>, Vec<Ino>) = unshared
        .partition(|ino| declared.contains(ino) && core.state.write_lease(*ino) == Some(session));
    let answered: Vec<Ino> = core
        .leases
        .revocations_of(session)
        .map(|(ino, _)| ino)
        .filter(|ino| !core.state.writes(*ino, session))
        .collect();
    for ino in &answered {
        meta.answered_by_return(core, *ino, session, open.contains(ino));
    }
    tracing::info!(%session, peer = connection.peer(), write_leases = kept.len(),
        shared = shared.len(), open = open.len(), "session taken up");
    for ino in &lost {
        // Or the grant was lost, with the reply that opened the file.
        core.leases.note_opened(*ino, session);
        core.ranges.remove(*ino, session);
    }
    if !lost.is_empty() {
        // It gave them back, but its word was lost with the reign: how long the files are is found
        // again from the objects.
        meta.settle_given_back(core, session, lost);
    }
    let kept = kept.into_iter().map(|ino| ino.0).collect();
    let shared = shared.into_iter().map(|ino| ino.0).collect();
    // What its other sessions had it is told by a renewal, once that is committed.
    slots::adopt(meta, core, session, &request.siblings);
    let reply = SessionReply {
        kept_open: Vec::new(),
        ..core.session_reply(meta, session, (kept, shared))
    };
    replier.send::<SessionRequest>(&reply, Payload::none());
    meta.resume_revocations(core, session);
    meta.retry_returned(core);
}

/// The session names the ranges that it may write of files that others write, too. Answers the files.
fn resume_shares(
    meta: &Rc<Meta>,
    core: &mut Core,
    session: SessionId,
    was_back: bool,
    named: &[proto::SharedLease],
    alone: &BTreeSet<Ino>,
) -> BTreeSet<Ino> {
    let mut shared = BTreeSet::new();
    for lease in named {
        let ino = Ino(lease.ino);
        if core.state.write_lease(ino) == Some(session) && !alone.contains(&ino) {
            // It got the file for itself, and has not heard that: it goes on as it believes.
            let share = op::Op::WriteLease(proto::WriteLease {
                ino: ino.0,
                shared: true,
                ..Default::default()
            });
            meta.apply_for(core, session, share);
            core.ranges.restore(ino, session, named_ranges(lease));
            core.leases.asks_one_of_several(ino, session);
        }
        if !core.state.shares(ino, session) {
            continue;
        }
        // Of what this reign has granted it may name less, never more; an earlier one's is not known.
        match was_back {
            true => core.ranges.keep(ino, session, named_ranges(lease)),
            false => core.ranges.restore(ino, session, named_ranges(lease)),
        }
        core.leases.grant_shared(ino, session);
        shared.insert(ino);
    }
    shared
}

fn named_ranges(lease: &proto::SharedLease) -> Kept {
    Kept {
        write: ranges::set_of(&lease.write),
        ..Kept::default()
    }
}

pub(crate) fn on_renew(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: RenewRequest,
    replier: Replier,
) {
    match core.check(connection, request.session, request.epoch) {
        Ok(session) => {
            let mut told = Sn(0);
            let now = meta.env.now();
            for ino in request.giving_back {
                core.leases.still_given_back(Ino(ino), session, now);
            }
            if let Some(live) = core.sessions.get_mut(&session) {
                live.deadline = now + live.term;
                live.settles(&request.settled);
                let acknowledged_below = Operation(request.acknowledged_below);
                live.acknowledged_below = live.acknowledged_below.max(acknowledged_below);
                told = live.told;
            }
            slots::adopt(meta, core, session, &request.siblings);
            let mut reply = RenewReply::default();
            if request.claims {
                reply.kept_open = slots::kept_open(core, session);
                told = core.commits.newest();
            }
            meta.when_committed(core, told, move |_, _, result| match result {
                Ok(()) => replier.send::<RenewRequest>(&reply, Payload::none()),
                Err(failed) => replier.fail(failed),
            });
        }
        Err(failed) => replier.fail(failed),
    }
}

/// The client ends its session and has settled everything itself. Data servers are told, so that
/// nothing there waits for its word any more.
pub(crate) fn on_goodbye(meta: &Rc<Meta>, core: &mut Core, session: SessionId, replier: Replier) {
    if let Some(failed) = core.commits.refusal_to_give_back() {
        return replier.fail(failed);
    }
    let sn = meta.close_session(core, session, true);
    tracing::info!(%session, "session closed");
    meta.when_committed(core, sn, move |meta, _, result| match result {
        Ok(()) => {
            let fencing = meta.clone();
            meta.spawn("goodbye", async move {
                fencing.fence_everywhere(session).await;
            });
            let reply = proto::OpReply {
                session: session.0,
                ..Default::default()
            };
            let reply = ChangeReply {
                reply: Some(reply),
                ..ChangeReply::default()
            };
            replier.send::<ChangeRequest>(&reply, Payload::none());
        }
        Err(failed) => replier.fail(failed),
    });
}

/// A connection is gone: its session is away until it is taken up or ends.
pub(crate) fn on_disconnect(core: &mut Core, connection: &Connection) {
    let identity = connection.identity();
    if identity.role != Role::Client as i32 {
        return;
    }
    if let Some(live) = core.sessions.get_mut(&SessionId(identity.id))
        && live
            .connection
            .as_ref()
            .is_some_and(|of| of.same(connection))
    {
        live.connection = None;
    }
}
