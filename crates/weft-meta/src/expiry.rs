//! The end of sessions that are no longer renewed, and of those that do not give back what is asked.
//!
//! ```text
//! open --term passed-----------------------------> ending --fenced, files settled--> closed
//!   \--a lease not given back--> refused --term passed--^
//! ```
//! A refused session is not renewed any more. Whether it hears that nobody knows, so it keeps its
//! leases until the term of its last renewal is over. An ending session's requests are refused and its
//! READ leases are gone. Each inode that it held WRITE on is settled (`settle.rs`), then it is free for
//! others.

use crate::reign::{Core, Meta};
use crate::sessions::Stage;
use crate::settle::ORDER_PATIENCE;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_rpc::Payload;
use weft_types::{SessionId, Sn};
use weft_wire::proto::{self, FenceRequest, op};

/// How often terms are looked at: a fraction of the shortest term that may be set.
const CLOCK: Duration = Duration::from_millis(25);
/// Added to a term: clients count it by clocks of their own.
const MARGIN_DIVISOR: u32 = 20;
/// When the clock woke this much too late, this server stood still and renewals may wait in its
/// sockets: nobody ends before they are read, nor for want of an answer that could not be heard.
const STALL: Duration = Duration::from_millis(100);
/// For reading what came during a stall.
const STALL_CATCH_UP: Duration = Duration::from_millis(50);

/// Ends sessions whose time has come.
pub(crate) async fn run(meta: Rc<Meta>) {
    let term = meta.settings.session_term();
    let margin = term / MARGIN_DIVISOR;
    let mut pause = CLOCK;
    loop {
        let before = meta.env.now();
        meta.env.sleep(pause).await;
        let now = meta.env.now();
        let late = now.since(before).saturating_sub(pause);
        if late > STALL {
            meta.core.borrow_mut().leases.stood_still(now, late);
            // It may stand still in that time, too.
            pause = STALL_CATCH_UP;
            continue;
        }
        pause = CLOCK;
        let core = &mut *meta.core.borrow_mut();
        crate::health::tick(&meta, core);
        let over: Vec<SessionId> = core
            .sessions
            .iter()
            .filter(|(_, live)| live.stage != Stage::Ending)
            .filter(|(_, live)| live.deadline + live.term / MARGIN_DIVISOR < now)
            .map(|(session, _)| *session)
            .collect();
        let asked_before = Mono(now.0.saturating_sub((term + margin).as_nanos() as u64));
        for session in core.leases.silent_since(asked_before) {
            refuse_session(core, session);
        }
        for session in over {
            meta.end_session(core, session);
        }
    }
}

/// The session keeps others waiting: it is not served or renewed any more, so that its term ends.
fn refuse_session(core: &mut Core, session: SessionId) {
    let Some(live) = core.sessions.get_mut(&session) else {
        return;
    };
    if live.stage != Stage::Open {
        return;
    }
    let name = core.state.session_name(session);
    tracing::warn!(%session, name, "a session has not given a lease back in its term");
    live.stage = Stage::Refused;
    if let Some(connection) = live.connection.take() {
        connection.close("a lease was not given back in time");
    }
}

impl Meta {
    /// The session is over: nobody hears it any more, what it was writing is settled.
    fn end_session(self: &Rc<Self>, core: &mut Core, session: SessionId) {
        let Some(live) = core.sessions.get_mut(&session) else {
            return;
        };
        live.stage = Stage::Ending;
        let was_back = live.is_back;
        if let Some(connection) = live.connection.take() {
            connection.close("the session's term has passed");
        }
        let state = &core.state;
        let name = state.session_name(session);
        tracing::warn!(%session, name, writing = state.write_leases_of(session).len(),
            "session ends: not renewed in time");
        core.metrics.sessions_expired.inc();
        core.ranges
            .session_ended(session, |ino| state.writes(ino, session));
        for ino in core.leases.remove_session(session) {
            self.retry(core, ino);
        }
        if !was_back {
            core.away -= 1;
            self.retry_returned(core);
        }
        let meta = self.clone();
        self.spawn("session end", async move {
            // Those that it had given back have no writes of it under way; but who knows it as alive
            // need not.
            meta.fence_everywhere(session).await;
            let written = meta.core.borrow().state.write_leases_of(session);
            meta.settle(session, session, written).await;
            let sn = {
                let core = &mut *meta.core.borrow_mut();
                meta.close_session(core, session, false)
            };
            if meta.committed(sn).await.is_ok() {
                tracing::info!(%session, "session closed after its term");
            }
        });
    }

    /// Takes a session out of the state and the tables. Answers the batch.
    pub(crate) fn close_session(
        self: &Rc<Self>,
        core: &mut Core,
        session: SessionId,
        clean: bool,
    ) -> Sn {
        let mut locked = core.state.locks_of(session);
        let mut concerned = core.state.write_leases_of(session);
        let live = core.sessions.get(&session);
        // A term before its deadline.
        let last_heard = live.map_or(Mono(0), |live| {
            Mono(live.deadline.0.saturating_sub(live.term.as_nanos() as u64))
        });
        let close = proto::CloseSession {
            session: session.0,
            clean,
            // A gateway's clients may come to another one, or to its next life.
            keep: core.state.keep_ms(session) > 0,
            gone: core.gone.take(session, last_heard),
        };
        let (_, sn) = self.apply_own(core, op::Op::CloseSession(close));
        let still_locked = core.state.locks_of(session);
        locked.retain(|ino| still_locked.binary_search(ino).is_err());
        crate::remnants::count(self, core, session);
        core.sessions.remove(&session);
        core.ranges.session_ended(session, |_| false);
        core.jobs.session_ended(session);
        self.jobs_changed.notify_one();
        concerned.extend(core.leases.remove_session(session));
        core.forget_lock_waiter(session);
        for ino in concerned {
            self.retry(core, ino);
        }
        self.retry_returned(core);
        self.when_committed(core, sn, move |meta, core, result| {
            if result.is_ok() {
                for ino in locked {
                    core.tell_lock_freed(ino);
                }
                meta.deletions_changed.notify_one();
            }
        });
        sn
    }

    /// Tells all data servers that can be reached to refuse a session. Those that are away learn it
    /// when they register.
    pub(crate) async fn fence_everywhere(self: &Rc<Self>, session: SessionId) {
        let mut calls = Vec::new();
        {
            let core = self.core.borrow();
            for pair in core.pairs.ids() {
                for connection in core.pairs.connections(pair) {
                    let env = self.env.clone();
                    calls.push(async move {
                        let fence = FenceRequest {
                            session: session.0,
                            objects: Vec::new(),
                            refuse_only: true,
                            ..FenceRequest::default()
                        };
                        let call = connection.call(&fence, Payload::none());
                        match env.timeout(ORDER_PATIENCE, call).await {
                            Ok(Ok(_)) => {}
                            Ok(Err(error)) => {
                                tracing::info!(%pair, %session, %error, "fencing failed");
                            }
                            Err(_) => {
                                tracing::warn!(%pair, %session, "fencing is not answered");
                            }
                        }
                    });
                }
            }
        }
        futures_util::future::join_all(calls).await;
    }
}
