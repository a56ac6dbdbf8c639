//! Giving leases and getting them back; what waits for that meanwhile.
//!
//! The rules are in `docs/protocols/leases.md`, the table is `leases.rs`. A request that cannot go on is
//! parked by the inode whose lease it waits for and handled anew, from its beginning, when that has
//! come back; nobody else waits.

use crate::leases::{Ask, Held, Revocation};
use crate::ranges::{self, BEYOND, Kept, WHOLE};
use crate::reads::refuse_gone;
use crate::reign::{Core, Meta};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use weft_rpc::{Connection, Payload, Replier};
use weft_types::{Ino, SessionId, Slot, TransactionId};
use weft_wire::Failed;
use weft_wire::proto::{
    self, Lease, LeaseMode, LeaseRangeReply, LeaseRangeRequest, RevokeReply, RevokeRequest, op,
};

/// Requests that may be parked. Clients bound what they have outstanding; a hostile one must not fill
/// the memory.
const PARKED_MAX: usize = 1 << 16;

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Conflict {
    /// A lease on this inode has to come back.
    Inode(Ino),
    /// What is kept of this inode has to be taken over, or to go: that may take long, and nothing that those need for
    /// whom it is kept may be held back meanwhile.
    Kept {
        ino: Ino,
        /// Who asks is to come again, and holds nothing back where it is either.
        comes_again: bool,
    },
    /// A session of an earlier reign has to take itself up again, or end.
    Return,
    /// A transaction has to end.
    Transaction(TransactionId),
    /// A slot has to come, or to go.
    Slot(Slot),
    /// It has to be known who the guests are.
    Guest,
}

/// Whether an inode is open at a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    No,
    /// A reply that opens it has crossed the question.
    Perhaps,
    Yes,
}

pub(crate) type Again = Box<dyn FnOnce(&Rc<Meta>, &mut Core)>;

struct Parked {
    /// All that it needs others to have given back, not only what it is parked by.
    wants: Vec<Ino>,
    /// Bytes of what it is parked by that nobody who comes later is given before it.
    claim: Range<u64>,
    again: Again,
}

/// Requests that wait, in order of arrival.
#[derive(Default)]
pub(crate) struct Parking {
    by_inode: BTreeMap<Ino, Vec<Parked>>,
    by_kept: BTreeMap<Ino, Vec<Again>>,
    for_return: Vec<Again>,
    by_transaction: BTreeMap<TransactionId, Vec<Again>>,
    by_slot: BTreeMap<Slot, Vec<Again>>,
    for_guests: Vec<Again>,
    /// How many of those parked by an inode want this one.
    wanted: BTreeMap<Ino, usize>,
    count: usize,
}

impl Parking {
    /// A request waits that wants this inode.
    fn wants(&self, ino: Ino) -> bool {
        !self.wanted.is_empty() && self.wanted.contains_key(&ino)
    }

    /// A request waits, by this inode, that claims some of these bytes.
    fn is_claimed(&self, ino: Ino, span: &Range<u64>) -> bool {
        let mut waiting = self.by_inode.get(&ino).into_iter().flatten();
        waiting.any(|parked| parked.claim.start < span.end && span.start < parked.claim.end)
    }

    fn park(&mut self, ino: Ino, mut wants: Vec<Ino>, claim: Range<u64>, again: Again) {
        wants.push(ino);
        for ino in &wants {
            *self.wanted.entry(*ino).or_default() += 1;
        }
        let parked = Parked {
            wants,
            claim,
            again,
        };
        self.by_inode.entry(ino).or_default().push(parked);
    }

    /// Takes out what is parked by this inode.
    fn take(&mut self, ino: Ino) -> Vec<Again> {
        let waiting = self.by_inode.remove(&ino).unwrap_or_default();
        let by_kept = self.by_kept.remove(&ino).unwrap_or_default();
        self.count -= waiting.len() + by_kept.len();
        for ino in waiting.iter().flat_map(|parked| &parked.wants) {
            if let Some(count) = self.wanted.get_mut(ino) {
                *count -= 1;
                if *count == 0 {
                    self.wanted.remove(ino);
                }
            }
        }
        let waiting = waiting.into_iter().map(|parked| parked.again);
        waiting.chain(by_kept).collect()
    }

    /// Takes out what waits for this.
    pub(crate) fn take_for(&mut self, conflict: Conflict) -> Vec<Again> {
        let waiting = match conflict {
            Conflict::Inode(ino) | Conflict::Kept { ino, .. } => return self.take(ino),
            Conflict::Return => std::mem::take(&mut self.for_return),
            Conflict::Transaction(id) => self.by_transaction.remove(&id).unwrap_or_default(),
            Conflict::Slot(slot) => self.by_slot.remove(&slot).unwrap_or_default(),
            Conflict::Guest => std::mem::take(&mut self.for_guests),
        };
        self.count -= waiting.len();
        waiting
    }

    /// No more may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= PARKED_MAX
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Meta {
    /// Parks a request, or has who asks come again. `again` handles it anew. Nobody is given a READ lease on what it `wants`
    /// meanwhile, nor bytes that it `claims` of what it is parked by: or what had come back first
    /// would be lent again before the last has, without end.
    pub(crate) fn wait_for(
        &self,
        core: &mut Core,
        conflict: Conflict,
        waits: (Vec<Ino>, Range<u64>),
        replier: Replier,
        again: impl FnOnce(&Rc<Meta>, &mut Core, Replier) + 'static,
    ) {
        if let Conflict::Kept {
            comes_again: true, ..
        } = conflict
        {
            return replier.fail(Failed::Errno(libc::EBUSY));
        }
        if core.parking.is_full() {
            let why = "too many requests wait for leases".into();
            return replier.fail(Failed::Unavailable(why));
        }
        let again: Again = Box::new(move |meta, core| again(meta, core, replier));
        self.park(core, conflict, waits, again);
    }

    /// The same for what is no request; the caller has seen that there is room.
    pub(crate) fn park(
        &self,
        core: &mut Core,
        conflict: Conflict,
        (wants, claim): (Vec<Ino>, Range<u64>),
        again: Again,
    ) {
        let parking = &mut core.parking;
        parking.count += 1;
        match conflict {
            Conflict::Inode(ino) => parking.park(ino, wants, claim, again),
            Conflict::Kept { ino, .. } => parking.by_kept.entry(ino).or_default().push(again),
            Conflict::Return => parking.for_return.push(again),
            Conflict::Transaction(id) => {
                parking.by_transaction.entry(id).or_default().push(again);
            }
            Conflict::Slot(slot) => parking.by_slot.entry(slot).or_default().push(again),
            Conflict::Guest => parking.for_guests.push(again),
        }
    }

    /// Handles anew what waited for this inode.
    pub(crate) fn retry(self: &Rc<Self>, core: &mut Core, ino: Ino) {
        for again in core.parking.take(ino) {
            again(self, core);
        }
    }

    /// Handles anew what waited for sessions of an earlier reign.
    pub(crate) fn retry_returned(self: &Rc<Self>, core: &mut Core) {
        for again in core.parking.take_for(Conflict::Return) {
            again(self, core);
        }
    }

    /// Asks all sessions but one to give back what goes beyond `to` on an inode. None: nobody has
    /// anything that does; with READ, size and times are what they were at some moment since `since`.
    pub(crate) fn revoke(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
        (to, since): (LeaseMode, u64),
        unlinking: bool,
    ) -> Option<Conflict> {
        if core.settling.has(ino) {
            return Some(Conflict::Inode(ino));
        }
        let mut conflict = None;
        if let Some(writer) = core.writer_beside(ino, but) {
            self.begin_revocation(core, ino, writer, Ask::Down(to), unlinking);
            conflict = Some(Conflict::Inode(ino));
        }
        if to == LeaseMode::LeaseRead {
            return conflict.or_else(|| self.ask_sizes(core, ino, but, since));
        }
        let mut asked: Vec<SessionId> = core.state.sharers(ino).collect();
        asked.retain(|session| *session != but);
        for (session, held) in core.leases.others(ino, but) {
            if held != Held::Open || unlinking {
                asked.push(session);
            }
        }
        if unlinking && core.leases.is_being_opened(ino, but) {
            // Who opens it is asked when it knows that.
            conflict = Some(Conflict::Inode(ino));
        }
        for session in asked {
            let ask = Ask::Down(LeaseMode::LeaseNone);
            self.begin_revocation(core, ino, session, ask, unlinking);
            conflict = Some(Conflict::Inode(ino));
        }
        if conflict.is_none() && core.away > 0 {
            conflict = Some(Conflict::Return);
        }
        conflict
    }

    /// Asks others for size and times, and takes nothing from who writes alone. None: they are what they
    /// were at some moment since `since`.
    pub(crate) fn hear(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
        since: u64,
    ) -> Option<Conflict> {
        if core.settling.has(ino) {
            return Some(Conflict::Inode(ino));
        }
        match core.writer_beside(ino, but) {
            Some(writer) if core.leases.is_heard(ino, writer, since) => None,
            Some(writer) => {
                self.begin_revocation(core, ino, writer, Ask::Report, false);
                Some(Conflict::Inode(ino))
            }
            None => self.ask_sizes(core, ino, but, since),
        }
    }

    /// Asks who writes alone to let another have the file open, and to keep the bytes that it uses. Then
    /// as [`Meta::hear`].
    pub(crate) fn share(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
        since: u64,
    ) -> Option<Conflict> {
        self.end_alone(core, ino, but)
            .or_else(|| self.hear(core, ino, but, since))
    }

    /// Asks who writes alone to share the file. None: nobody but `but` does.
    pub(crate) fn end_alone(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
    ) -> Option<Conflict> {
        let writer = core.writer_beside(ino, but)?;
        let ask = Ask::Part {
            span: BEYOND,
            write: false,
        };
        self.begin_revocation(core, ino, writer, ask, false);
        Some(Conflict::Inode(ino))
    }

    /// Asks those that write a file, besides `but`, how large they have made it.
    fn ask_sizes(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
        since: u64,
    ) -> Option<Conflict> {
        if !core.state.is_shared(ino) {
            return None;
        }
        if !core.sharers_are_back(ino, but) {
            return Some(Conflict::Return);
        }
        let unheard = core
            .ranges
            .unheard(ino, but, core.state.file_size(ino), since);
        for session in &unheard {
            self.begin_revocation(core, ino, *session, Ask::Report, false);
        }
        (!unheard.is_empty()).then_some(Conflict::Inode(ino))
    }

    /// Asks all sessions but one to give back what stands against some bytes of a file being read, or
    /// written, by that one. None: nothing does.
    pub(crate) fn clear_range(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
        span: &Range<u64>,
        write: bool,
    ) -> Option<Conflict> {
        // What was asked before comes first; and its own lease must not be growing while it shrinks.
        if core.settling.has(ino)
            || core.parking.is_claimed(ino, span)
            || core.leases.is_revoking(ino, but)
        {
            return Some(Conflict::Inode(ino));
        }
        if let Some(kept) = core.kept_from(but, ino, write) {
            return Some(kept);
        }
        if !core.sharers_are_back(ino, but) || write && core.away > 0 {
            return Some(Conflict::Return);
        }
        let mut readers: Vec<SessionId> = Vec::new();
        if write {
            let others = core.leases.others(ino, but).into_iter();
            let reads = others.filter(|(_, held)| *held == Held::Read);
            readers.extend(reads.map(|(session, _)| session));
        }
        let alone = core.state.write_lease(ino);
        let mut holders = core.ranges.conflicting(ino, but, span, write);
        holders.extend(alone.filter(|writer| *writer != but));
        if readers.is_empty() && holders.is_empty() {
            return if write {
                self.clear_own_read(core, ino, but, span)
            } else {
                None
            };
        }
        let ask = || Ask::Part {
            span: span.clone(),
            write,
        };
        let mut disputes = false;
        for session in holders {
            disputes |= self.begin_revocation(core, ino, session, ask(), false);
        }
        for session in readers {
            self.begin_revocation(core, ino, session, ask(), false);
        }
        if disputes {
            core.ranges.disputed(ino);
        }
        Some(Conflict::Inode(ino))
    }

    /// Who has a READ lease has it on the whole, and keeps what it has read until it is told that it has
    /// less: before it may write a part beside others it gives that back. None: it need not.
    fn clear_own_read(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        span: &Range<u64>,
    ) -> Option<Conflict> {
        let is_cut = core.leases.reads(ino, session) && core.shares(&(ino, span.clone()), session);
        if !is_cut {
            return None;
        }
        let ask = Ask::Part {
            span: WHOLE,
            write: true,
        };
        self.begin_revocation(core, ino, session, ask, false);
        Some(Conflict::Inode(ino))
    }

    /// False: something is asked of the session already.
    fn begin_revocation(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        ask: Ask,
        unlinking: bool,
    ) -> bool {
        let now = self.env.now();
        let is_new = core
            .leases
            .begin_revocation(ino, session, ask, unlinking, now);
        if is_new {
            core.metrics.revocations.inc();
            if core.state.is_directory(ino) {
                core.contention.loses(ino, session, now);
            }
            self.send_revocation(core, ino, session);
        }
        is_new
    }

    /// Sends a revocation that is on its way, if the session has a connection now. (If it has none, it
    /// is sent when the session is back.)
    fn send_revocation(self: &Rc<Self>, core: &mut Core, ino: Ino, session: SessionId) {
        let Some(connection) = core
            .sessions
            .get(&session)
            .and_then(|live| live.connection.clone())
        else {
            return;
        };
        let Some(revocation) = core.leases.revocation(ino, session) else {
            return;
        };
        let held = match core.state.write_lease(ino) {
            Some(writer) if writer == session => LeaseMode::LeaseWrite,
            _ if core.state.is_shared(ino) => LeaseMode::LeaseShared,
            _ => LeaseMode::LeaseRead,
        };
        let (span, write) = match &revocation.ask {
            Ask::Part { span, write } => (span.clone(), *write),
            Ask::Down(_) | Ask::Report => (0..0, false),
        };
        let request = RevokeRequest {
            ino: ino.0,
            held: held as i32,
            to: revocation.ask.to() as i32,
            seq: revocation.seq,
            unlinking: revocation.unlinking,
            start: span.start,
            end: span.end,
            write,
            granted: core.ranges.granted(ino, session),
            contested: core.ranges.is_contested(ino),
        };
        let (meta, seq) = (self.clone(), revocation.seq);
        // The client may renew or say goodbye right after its answer: what it told with that comes
        // first. (If it is lost, it is asked for again when the session is taken up, or ends with it.)
        connection.call_in_order(&request, move |answer| match answer {
            Ok((reply, _)) => {
                let core = &mut *meta.core.borrow_mut();
                if let Some(ended) = core.leases.end_revocation(ino, session, seq) {
                    meta.given_back(core, ino, session, ended, reply);
                }
            }
            Err(failed) => {
                tracing::warn!(%session, %ino, %failed,
                    "a client refuses to give a lease back; its session will end");
            }
        });
    }

    /// Sends again what a session was asked for over a connection that broke. Its READ leases it gave
    /// back by coming back.
    pub(crate) fn resume_revocations(self: &Rc<Self>, core: &mut Core, session: SessionId) {
        let pending: Vec<_> = core.leases.revocations_of(session).collect();
        for (ino, _) in pending {
            self.send_revocation(core, ino, session);
        }
    }

    /// The session has given its lease on an inode back, or a part of it.
    fn given_back(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        mut revocation: Revocation,
        reply: RevokeReply,
    ) {
        tracing::trace!(%session, %ino, ?revocation, ?reply, "a lease is given back");
        let is_alone = core.state.write_lease(ino) == Some(session);
        if reply.done && is_alone && revocation.ask == Ask::Report {
            revocation.ask = Ask::Down(LeaseMode::LeaseRead);
        }
        let kept = Kept {
            write: ranges::set_of(&reply.kept_write),
            read: ranges::set_of(&reply.kept_read),
        };
        if core.state.writes(ino, session) {
            self.take_owed(core, ino, session, revocation.seq, reply.owed);
            self.shrink(core, ino, session, &revocation.ask, &kept);
        }
        match revocation.ask {
            Ask::Report if is_alone => {
                core.leases.note_heard(ino, session, revocation.seq);
            }
            // What it had else stays.
            Ask::Report => core.ranges.keep(ino, session, kept),
            Ask::Part { .. } => {
                core.ranges.keep(ino, session, kept);
                core.leases.grant_shared(ino, session);
            }
            Ask::Down(LeaseMode::LeaseRead) => {
                core.leases.grant(ino, session);
            }
            Ask::Down(_) => {
                core.ranges.remove(ino, session);
                let open = if reply.open {
                    Open::Yes
                } else if core.leases.opens_meanwhile(ino, session, &revocation) {
                    Open::Perhaps
                } else {
                    Open::No
                };
                self.given_up(core, ino, session, open, revocation.unlinking);
            }
        }
        self.retry(core, ino);
    }

    /// Takes what a writer owed and told with an answer.
    fn take_owed(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        asked: u64,
        owed: Option<proto::Setattr>,
    ) {
        let before = core.state.file_size(ino);
        if let Some(mut owed) = owed {
            owed.ino = ino.0;
            owed.owed = true;
            let (told, sn) = self.apply_for(core, session, op::Op::Setattr(owed));
            if told.failure_errno != 0 {
                tracing::warn!(%session, %ino, errno = told.failure_errno,
                    "what a client owed of a file cannot be taken");
            }
            core.told_by(session, sn);
        }
        core.note_told(ino, session, asked, before);
    }

    /// A writer keeps only a part of what it wrote, or nothing.
    fn shrink(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        ask: &Ask,
        kept: &Kept,
    ) {
        let is_alone = core.state.write_lease(ino) == Some(session);
        let op = match ask {
            Ask::Report => return,
            Ask::Part { .. } if !kept.write.is_empty() => {
                if !is_alone {
                    return;
                }
                core.ranges.restore(ino, session, kept.clone());
                op::Op::WriteLease(proto::WriteLease {
                    ino: ino.0,
                    shared: true,
                    ..Default::default()
                })
            }
            Ask::Part { .. } | Ask::Down(_) => op::Op::DropLease(proto::DropLease { ino: ino.0 }),
        };
        let (_, sn) = self.apply_for(core, session, op);
        core.told_by(session, sn);
    }

    /// The session has nothing of an inode any more, but may have it open.
    fn given_up(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        open: Open,
        unlinking: bool,
    ) {
        if open == Open::Yes && unlinking {
            // From now on the inode lives until the session releases it, name or no name.
            let orphan = proto::Orphan {
                ino: ino.0,
                session: session.0,
            };
            self.apply_own(core, op::Op::Orphan(orphan));
            core.leases.remove(ino, session);
        } else if open != Open::No {
            // It is asked when the name goes; if that is now, again.
            core.leases.note_open(ino, session);
        } else {
            core.leases.remove(ino, session);
        }
    }

    /// A session that has lost its connection had been asked for a lease that it does not write
    /// under; it comes back without any.
    pub(crate) fn answered_by_return(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        open: bool,
    ) {
        if let Some(revocation) = core.leases.revocation(ino, session)
            && let Some(ended) = core.leases.end_revocation(ino, session, revocation.seq)
        {
            core.ranges.remove(ino, session);
            // A reply that opened it may have been lost.
            let open = if open { Open::Yes } else { Open::Perhaps };
            self.given_up(core, ino, session, open, ended.unlinking);
            self.retry(core, ino);
        }
    }

    /// Grants what the session may have on an inode with a reply: its own WRITE lease, SHARED where
    /// several write, or READ if nobody stands against it.
    pub(crate) fn grant(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
    ) -> Option<Lease> {
        let denied = core.state.is_denied(ino);
        let lease = |mode, seq| Lease {
            ino: ino.0,
            mode: mode as i32,
            seq,
            start: 0,
            end: if mode == LeaseMode::LeaseShared {
                0
            } else {
                u64::MAX
            },
            write: false,
            denied,
        };
        if core.settling.has(ino)
            || core.slots.is_frozen(ino.slot())
            || !core.is_there_for(ino, session)
        {
            return None;
        }
        match core.state.write_lease(ino) {
            Some(writer) if writer == session => {
                let disputed = core.leases.is_revoking(ino, session);
                return (!disputed).then(|| lease(LeaseMode::LeaseWrite, core.leases.next_seq()));
            }
            Some(_) => return None,
            None => {}
        }
        if core.leases.is_disputed(ino) || core.parking.wants(ino) || core.locked_by(ino).is_some()
        {
            return None;
        }
        if core.kept_from(session, ino, false).is_some() {
            return None;
        }
        let (mode, (seq, too_many)) = match core.state.is_shared(ino) {
            true => (
                LeaseMode::LeaseShared,
                core.leases.grant_shared(ino, session),
            ),
            false if core.contention.pauses(ino, session, self.env.now()) => return None,
            false => (LeaseMode::LeaseRead, core.leases.grant(ino, session)),
        };
        tracing::trace!(%session, %ino, ?mode, seq, "lease");
        self.take_oldest(core, session, too_many);
        Some(lease(mode, seq))
    }

    /// The session keeps an inode no longer: what it has of one that lives on for others goes with that,
    /// or it would write to a file that may go any time.
    pub(crate) fn take_from(self: &Rc<Self>, core: &mut Core, ino: Ino, session: SessionId) {
        let has_any = core.state.writes(ino, session) || core.leases.reads(ino, session);
        if has_any && !core.is_there_for(ino, session) {
            self.begin_revocation(core, ino, session, Ask::Down(LeaseMode::LeaseNone), false);
        }
    }

    /// The session has too many leases: it is to give back this one.
    fn take_oldest(self: &Rc<Self>, core: &mut Core, session: SessionId, oldest: Option<Ino>) {
        if let Some(oldest) = oldest {
            let ask = Ask::Down(LeaseMode::LeaseNone);
            self.begin_revocation(core, oldest, session, ask, false);
        }
    }

    /// Grants bytes of a file that several sessions write; nothing stands against it.
    pub(crate) fn grant_range(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        span: &Range<u64>,
        write: bool,
    ) -> Lease {
        let (seq, too_many) = core.leases.grant_shared(ino, session);
        self.take_oldest(core, session, too_many);
        let (granted, fits) = core.ranges.grant(ino, session, span, write, seq);
        tracing::trace!(%session, %ino, ?granted, write, seq, "lease on bytes");
        if !fits {
            let ask = Ask::Part { span: WHOLE, write };
            self.begin_revocation(core, ino, session, ask, false);
        }
        Lease {
            ino: ino.0,
            mode: LeaseMode::LeaseShared as i32,
            seq,
            start: granted.start,
            end: granted.end,
            write,
            denied: core.state.is_denied(ino),
        }
    }
}

impl Core {
    /// An inode without a name is there only for those for whom it is kept, as it goes when they let it go,
    /// whatever leases others have; and for who is to move it, which changes nothing of it.
    pub(crate) fn is_there_for(&self, ino: Ino, session: SessionId) -> bool {
        self.state.is_there_for(ino, session) || self.jobs.is_given(ino, session)
    }

    /// Who writes an inode alone, if it is another than `but`.
    fn writer_beside(&self, ino: Ino, but: SessionId) -> Option<SessionId> {
        let writer = self.state.write_lease(ino);
        writer.filter(|writer| *writer != but)
    }

    /// What a session has told is in this batch; its renewals are answered after that.
    fn told_by(&mut self, session: SessionId, sn: weft_types::Sn) {
        if let Some(live) = self.sessions.get_mut(&session) {
            live.told = sn;
        }
    }

    /// A writer has told what it owed, as it was at `asked` or later; the size was `before`.
    pub(crate) fn note_told(&mut self, ino: Ino, session: SessionId, asked: u64, before: u64) {
        let grown = (self.state.file_size(ino) != before).then(|| self.leases.next_seq());
        self.ranges.told(ino, session, asked, grown);
    }

    /// It is known which bytes the others that write it may write: all have come back since this
    /// reign began.
    fn sharers_are_back(&self, ino: Ino, but: SessionId) -> bool {
        let is_back = |session| {
            let live = self.sessions.get(&session);
            session == but || live.is_some_and(|live| live.is_back)
        };
        self.state.sharers(ino).all(is_back)
    }
}

/// METHOD 32, from a client.
pub(crate) fn on_lease_range(
    meta: &Rc<Meta>,
    core: &mut Core,
    connection: &Connection,
    request: LeaseRangeRequest,
    replier: Replier,
) {
    let session = match core.check(connection, request.session, request.epoch) {
        Ok(session) => session,
        Err(failed) => return replier.fail(failed),
    };
    let ino = Ino(request.ino);
    let Some(span) = ranges::blocks(request.start..request.end) else {
        return replier.fail(Failed::Refused("a lease on no bytes".into()));
    };
    if let Some(why) = core.look_is_not_here(ino) {
        let connection = connection.clone();
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_lease_range(meta, core, &connection, request, replier);
        };
        return meta.turn_away(core, why, replier, again);
    }
    if let Some(by) = core.locked_by(ino) {
        let (connection, waits) = (connection.clone(), (Vec::new(), 0..0));
        let again = move |meta: &Rc<Meta>, core: &mut Core, replier| {
            on_lease_range(meta, core, &connection, request, replier);
        };
        return meta.wait_for(core, Conflict::Transaction(by), waits, replier, again);
    }
    if !core.is_there_for(ino, session) {
        return refuse_gone(meta, core, ino, replier);
    }
    // Who writes alone, or reads what nobody writes, has or gets a lease on the whole.
    let asked = (ino, span);
    let is_whole = match request.write {
        true => !core.state.shares(ino, session) || !core.shares(&asked, session),
        false => !core.state.is_shared(ino),
    };
    let (_, span) = asked;
    let mut leases = Vec::new();
    if !is_whole {
        if let Some(conflict) = meta.clear_range(core, ino, session, &span, request.write) {
            let connection = connection.clone();
            return meta.wait_for(
                core,
                conflict,
                (Vec::new(), span),
                replier,
                move |meta, core, replier| {
                    on_lease_range(meta, core, &connection, request, replier);
                },
            );
        }
        leases.push(meta.grant_range(core, ino, session, &span, request.write));
    }
    let seen = core.commits.seen([ino]);
    // While it had no bytes of the file, that may have been laid otherwise, or trimmed.
    let inode = core.state.inode(ino).unwrap_or_default();
    let reply = LeaseRangeReply {
        leases,
        layout: inode.layout,
        trim_seq: inode.trim_seq,
        trim_from: inode.trim_from,
    };
    meta.when_committed(core, seen, move |_, _, result| match result {
        Ok(()) => replier.send::<LeaseRangeRequest>(&reply, Payload::none()),
        Err(failed) => replier.fail(failed),
    });
}
