//! What sessions leave behind that have ended: locks and open files that a gateway held on behalf of its NFS clients, who
//! come to another gateway and take them over there (`docs/protocols/nfs4.md`).
//!
//! The state keeps them (`weft-namespace`, `remnants.rs`); here the time is counted after which they go, and it is noted
//! who has come elsewhere and does not want the rest. A new reign counts anew: nothing goes too early by that.

use crate::reign::{Core, Meta};
use crate::revocations::Conflict;
use crate::sessions::Stage;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use weft_env::Mono;
use weft_types::{Ino, SessionId};
use weft_wire::proto::{CloseSession, DropKept, op};

/// What is kept of a session is kept no longer than that: longer than any NFS client is waited for.
pub(crate) const KEEP_MAX: Duration = Duration::from_secs(600);
/// Notes of who has come elsewhere. Beyond it what is not wanted any more stays for its time.
const NOTES_MAX: usize = 1 << 16;

/// Who has come to another gateway while the session by which it was there before was not yet over.
#[derive(Default)]
pub(crate) struct Gone(BTreeMap<(SessionId, u64), Mono>);

impl Gone {
    fn note(&mut self, session: SessionId, behalf: u64, now: Mono) {
        if self.0.len() < NOTES_MAX || self.0.contains_key(&(session, behalf)) {
            self.0.insert((session, behalf), now);
        }
    }

    /// On whose behalf nothing is kept of a session that ends: they came elsewhere after it was last heard of. (One that
    /// was heard of since has not died: its client may be at both.)
    pub(crate) fn take(&mut self, session: SessionId, last_heard: Mono) -> Vec<u64> {
        let of_session = (session, 0)..=(session, u64::MAX);
        let noted: Vec<((SessionId, u64), Mono)> = self
            .0
            .range(of_session)
            .map(|(key, at)| (*key, *at))
            .collect();
        for (key, _) in &noted {
            self.0.remove(key);
        }
        let after = noted.iter().filter(|(_, at)| *at >= last_heard);
        after.map(|((_, behalf), _)| *behalf).collect()
    }
}

/// A reign begins: the time of what is kept begins anew.
pub(crate) fn begin(meta: &Rc<Meta>) {
    let remnants: Vec<SessionId> = {
        let core = meta.core.borrow();
        core.state.remnants().map(|(session, _)| session).collect()
    };
    for session in remnants {
        count(meta, &meta.core.borrow(), session);
    }
}

/// After its time what is kept of a session goes.
pub(crate) fn count(meta: &Rc<Meta>, core: &Core, session: SessionId) {
    if !core.state.is_remnant(session) {
        return;
    }
    let keep = Duration::from_millis(core.state.keep_ms(session)).min(KEEP_MAX);
    let counting = meta.clone();
    meta.spawn("remnant", async move {
        counting.env.sleep(keep).await;
        let core = &mut *counting.core.borrow_mut();
        if core.state.is_remnant(session) {
            tracing::info!(%session, "what was kept of a session is dropped: nobody came for it");
            let close = CloseSession {
                session: session.0,
                ..CloseSession::default()
            };
            let (locked, kept) = (core.state.locks_of(session), core.state.kept_by(session));
            counting.apply_own(core, op::Op::CloseSession(close));
            wake(&counting, core, &locked, &kept);
        }
    });
}

/// What was kept may be less now: who waits for it goes on.
pub(crate) fn wake(meta: &Rc<Meta>, core: &mut Core, locked: &[Ino], kept: &[Ino]) {
    for ino in locked {
        core.tell_lock_freed(*ino);
    }
    for ino in kept {
        meta.retry(core, *ino);
    }
    meta.deletions_changed.notify_one();
}

/// What a request of this kind is to drop: what one session that has ended keeps on behalf of the asker's client. If it
/// is kept of several, it cannot be told which of them the client has come from, and which it will still come from.
pub(crate) fn complete(core: &mut Core, asker: SessionId, drop: &mut DropKept, now: Mono) {
    drop.sessions.clear();
    for session in core.state.sessions_for(drop.behalf) {
        if core.state.is_remnant(session) {
            drop.sessions.push(session.0);
        } else if session != asker {
            core.gone.note(session, drop.behalf, now);
        }
    }
    if drop.sessions.len() > 1 {
        drop.sessions.clear();
    }
}

impl Core {
    /// What is kept of a file by those whose gateway is gone stands in the session's way. From the moment when the gateway's
    /// session ends: until its files are settled it is no remnant yet, and holds nothing any more.
    pub(crate) fn kept_from(
        &self,
        session: SessionId,
        ino: Ino,
        changing: bool,
    ) -> Option<Conflict> {
        let is_ending = |other| self.is_ending(other);
        let is_kept = self.state.is_kept_from(session, ino, changing, is_ending);
        is_kept.then(|| self.kept(session, ino))
    }

    /// The same for who asks on somebody's behalf, to have the file for himself alone (`exclusive`) or to read.
    pub(crate) fn kept_from_others(
        &self,
        session: SessionId,
        ino: Ino,
        (behalf, exclusive): (u64, bool),
    ) -> Option<Conflict> {
        let is_ending = |other| self.is_ending(other);
        let is_kept = self
            .state
            .is_kept_from_others(ino, (behalf, exclusive), is_ending);
        is_kept.then(|| self.kept(session, ino))
    }

    /// Who asks on behalf of others is to come again: those for whom the file is kept may come to it, too, and what waited
    /// there would be in their way.
    fn kept(&self, session: SessionId, ino: Ino) -> Conflict {
        let comes_again = self.state.keep_ms(session) > 0;
        Conflict::Kept { ino, comes_again }
    }

    fn is_ending(&self, session: SessionId) -> bool {
        let live = self.sessions.get(&session);
        live.is_some_and(|live| live.stage == Stage::Ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_elsewhere_after_a_session_was_last_heard_of_is_gone() {
        let mut gone = Gone::default();
        let (one, two) = (SessionId(1), SessionId(2));
        gone.note(one, 7, Mono(10));
        gone.note(one, 8, Mono(20));
        gone.note(two, 7, Mono(30));
        assert_eq!(gone.take(one, Mono(15)), [8]);
        // It is asked once.
        assert!(gone.take(one, Mono(0)).is_empty());
        assert!(gone.take(two, Mono(31)).is_empty());
    }
}
