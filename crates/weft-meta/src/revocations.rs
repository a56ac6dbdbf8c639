//! Giving leases and getting them back; what waits for that meanwhile.
//!
//! The rules are in `docs/protocols/leases.md`, the table is `leases.rs`. A request that cannot go on is
//! parked by the inode whose lease it waits for and handled anew, from its beginning, when that has
//! come back; nobody else waits.

use crate::leases::{Held, Revocation};
use crate::server::{Core, Meta};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_rpc::Replier;
use weft_types::{Ino, SessionId};
use weft_wire::Failed;
use weft_wire::proto::{self, Lease, LeaseMode, RevokeReply, RevokeRequest, op};

/// Requests that may be parked. Clients bound what they have outstanding; a hostile one must not fill
/// the memory.
const PARKED_MAX: usize = 1 << 16;

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Conflict {
    /// A lease on this inode has to come back.
    Inode(Ino),
    /// A session of an earlier reign has to take itself up again, or end.
    Return,
}

type Again = Box<dyn FnOnce(&Rc<Meta>, &mut Core)>;

struct Parked {
    /// All that it needs others to have given back, not only what it is parked by.
    wants: Vec<Ino>,
    again: Again,
}

/// Requests that wait, in order of arrival.
#[derive(Default)]
pub(crate) struct Parking {
    by_inode: BTreeMap<Ino, Vec<Parked>>,
    for_return: Vec<Again>,
    /// How many of those parked by an inode want this one.
    wanted: BTreeMap<Ino, usize>,
    count: usize,
}

impl Parking {
    /// A request waits that wants this inode.
    fn wants(&self, ino: Ino) -> bool {
        !self.wanted.is_empty() && self.wanted.contains_key(&ino)
    }

    fn park(&mut self, ino: Ino, mut wants: Vec<Ino>, again: Again) {
        wants.push(ino);
        for ino in &wants {
            *self.wanted.entry(*ino).or_default() += 1;
        }
        let parked = Parked { wants, again };
        self.by_inode.entry(ino).or_default().push(parked);
    }

    /// Takes out what is parked by this inode.
    fn take(&mut self, ino: Ino) -> Vec<Again> {
        let waiting = self.by_inode.remove(&ino).unwrap_or_default();
        self.count -= waiting.len();
        for ino in waiting.iter().flat_map(|parked| &parked.wants) {
            if let Some(count) = self.wanted.get_mut(ino) {
                *count -= 1;
                if *count == 0 {
                    self.wanted.remove(ino);
                }
            }
        }
        waiting.into_iter().map(|parked| parked.again).collect()
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Meta {
    /// Parks a request. `again` handles it anew. Nobody is given a READ lease on what it `wants`
    /// meanwhile: or what had come back first would be lent again before the last has, without end.
    pub(crate) fn wait_for(
        &self,
        core: &mut Core,
        conflict: Conflict,
        wants: Vec<Ino>,
        replier: Replier,
        again: impl FnOnce(&Rc<Meta>, &mut Core, Replier) + 'static,
    ) {
        let parking = &mut core.parking;
        if parking.count >= PARKED_MAX {
            let why = "too many requests wait for leases".into();
            return replier.fail(Failed::Unavailable(why));
        }
        parking.count += 1;
        let again: Again = Box::new(move |meta, core| again(meta, core, replier));
        match conflict {
            Conflict::Inode(ino) => parking.park(ino, wants, again),
            Conflict::Return => parking.for_return.push(again),
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
        let waiting = std::mem::take(&mut core.parking.for_return);
        core.parking.count -= waiting.len();
        for again in waiting {
            again(self, core);
        }
    }

    /// Asks all sessions but one to give back what goes beyond `to` on an inode. None: nobody has
    /// anything that does.
    pub(crate) fn revoke(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        but: SessionId,
        to: LeaseMode,
        unlinking: bool,
    ) -> Option<Conflict> {
        if core.settling.contains(&ino) {
            return Some(Conflict::Inode(ino));
        }
        let mut conflict = None;
        if let Some(writer) = core.state.write_lease(ino)
            && writer != but
        {
            self.begin_revocation(core, ino, writer, to, unlinking);
            conflict = Some(Conflict::Inode(ino));
        }
        if to == LeaseMode::LeaseRead {
            return conflict;
        }
        for (session, held) in core.leases.others(ino, but) {
            if held == Held::Read || unlinking {
                self.begin_revocation(core, ino, session, LeaseMode::LeaseNone, unlinking);
                conflict = Some(Conflict::Inode(ino));
            }
        }
        if conflict.is_none() && core.away > 0 {
            conflict = Some(Conflict::Return);
        }
        conflict
    }

    fn begin_revocation(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        to: LeaseMode,
        unlinking: bool,
    ) {
        let now = self.env.now();
        if core
            .leases
            .begin_revocation(ino, session, to, unlinking, now)
            .is_some()
        {
            core.metrics.revocations.inc();
            self.send_revocation(core, ino, session);
        }
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
        let held = if core.state.write_lease(ino) == Some(session) {
            LeaseMode::LeaseWrite
        } else {
            LeaseMode::LeaseRead
        };
        let request = RevokeRequest {
            ino: ino.0,
            held: held as i32,
            to: revocation.to as i32,
            seq: revocation.seq,
            unlinking: revocation.unlinking,
        };
        let meta = self.clone();
        // The client may renew or say goodbye right after its answer: what it told with that comes
        // first. (If it is lost, it is asked for again when the session is taken up, or ends with it.)
        connection.call_in_order(&request, move |answer| match answer {
            Ok((reply, _)) => {
                let core = &mut *meta.core.borrow_mut();
                if core.leases.end_revocation(ino, session, revocation.seq) {
                    meta.given_back(core, ino, session, revocation, reply);
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

    /// The session has given its lease on an inode back.
    fn given_back(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        revocation: Revocation,
        reply: RevokeReply,
    ) {
        if core.state.write_lease(ino) == Some(session) {
            if let Some(mut owed) = reply.owed {
                owed.ino = ino.0;
                owed.owed = true;
                let (told, _) = self.apply_for(core, session, op::Op::Setattr(owed));
                if told.failure_errno != 0 {
                    tracing::warn!(%session, %ino, errno = told.failure_errno,
                        "what a client owed of a file cannot be taken");
                }
            }
            let drop = proto::DropLease { ino: ino.0 };
            let (_, sn) = self.apply_for(core, session, op::Op::DropLease(drop));
            if let Some(live) = core.sessions.get_mut(&session) {
                live.told = sn;
            }
        }
        if revocation.to == LeaseMode::LeaseRead {
            core.leases.grant(ino, session);
        } else if reply.open && revocation.unlinking {
            // From now on the inode lives until the session releases it, name or no name.
            let orphan = proto::Orphan {
                ino: ino.0,
                session: session.0,
            };
            self.apply_own(core, op::Op::Orphan(orphan));
            core.leases.remove(ino, session);
        } else if reply.open {
            core.leases.note_open(ino, session);
        } else {
            core.leases.remove(ino, session);
        }
        self.retry(core, ino);
    }

    /// A session that has lost its connection had been asked for a READ lease; it comes back without
    /// any.
    pub(crate) fn answered_by_return(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
        open: bool,
    ) {
        if let Some(revocation) = core.leases.revocation(ino, session)
            && core.leases.end_revocation(ino, session, revocation.seq)
        {
            self.given_back(
                core,
                ino,
                session,
                revocation,
                RevokeReply { open, owed: None },
            );
        }
    }

    /// Grants what the session may have on an inode with a reply: its own WRITE lease, or READ if
    /// nobody stands against it.
    pub(crate) fn grant(
        self: &Rc<Self>,
        core: &mut Core,
        ino: Ino,
        session: SessionId,
    ) -> Option<Lease> {
        let lease = |mode, seq| Lease {
            ino: ino.0,
            mode: mode as i32,
            seq,
            start: 0,
            end: u64::MAX,
        };
        if core.settling.contains(&ino) {
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
        if core.leases.is_disputed(ino) || core.parking.wants(ino) {
            return None;
        }
        let (seq, too_many) = core.leases.grant(ino, session);
        if let Some(oldest) = too_many {
            self.begin_revocation(core, oldest, session, LeaseMode::LeaseNone, false);
        }
        Some(lease(LeaseMode::LeaseRead, seq))
    }
}
