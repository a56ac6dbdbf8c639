//! Remnants: sessions that have ended, of which is left what they held on behalf of others, and inodes without a name
//! that they had open. A gateway's NFS clients find there, by way of another gateway, what they had.
//!
//! A remnant does nothing and is asked nothing: it is there until everything of it was taken over or dropped, or until
//! the service, which counts the time, closes it once more.

use crate::locks::Owner;
use crate::opens::{Opened, kept_from};
use crate::sessions::Session;
use crate::state::State;
use weft_types::{Ino, SessionId};

impl State {
    /// The session has ended, and something of it is kept.
    pub fn is_remnant(&self, session: SessionId) -> bool {
        let known = self.sessions.get(&session);
        known.is_some_and(|known| known.is_ended)
    }

    /// All remnants, and for how many milliseconds after their end they are kept, in order.
    pub fn remnants(&self) -> impl Iterator<Item = (SessionId, u64)> + '_ {
        let ended = self.sessions.iter().filter(|(_, known)| known.is_ended);
        ended.map(|(id, known)| (*id, known.keep_ms))
    }

    /// For how many milliseconds what the session holds on behalf of others is to be kept.
    pub fn keep_ms(&self, session: SessionId) -> u64 {
        self.sessions.get(&session).map_or(0, |known| known.keep_ms)
    }

    /// The session, be it open or a remnant, has something on behalf of somebody.
    pub fn has_behalf(&self, session: SessionId, behalf: u64) -> bool {
        let Some(known) = self.sessions.get(&session) else {
            return false;
        };
        let locked = known.locks.iter().filter_map(|ino| self.locks.get(ino));
        let opened = known.opens.iter().filter_map(|ino| self.opens.get(ino));
        locked.into_iter().any(|it| it.has_behalf(session, behalf))
            || opened.into_iter().any(|it| it.has_behalf(session, behalf))
    }

    /// The sessions, open or remnants, that have something on behalf of somebody, in order.
    pub fn sessions_for(&self, behalf: u64) -> Vec<SessionId> {
        let all = self.sessions.keys().copied();
        all.filter(|session| self.has_behalf(*session, behalf))
            .collect()
    }

    /// A session that ends, of which is kept what it had on behalf of others but `gone`. What it wrote has been settled.
    pub(crate) fn make_remnant(&mut self, id: SessionId, gone: &[u64]) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        let mut remnant = Session::new(&session.name);
        remnant.is_ended = true;
        remnant.keep_ms = session.keep_ms;
        remnant.holds = session.holds;
        for ino in session.locks {
            if let Some(locks) = self.locks.get_mut(&ino) {
                locks.keep_behalf(id, gone);
                if locks.has_session(id) {
                    remnant.locks.insert(ino);
                }
                if locks.is_empty() {
                    self.locks.remove(&ino);
                }
            }
        }
        for ino in session.opens {
            if let Some(opens) = self.opens.get_mut(&ino) {
                opens.keep_behalf(id, gone);
                if opens.has_session(id) {
                    remnant.opens.insert(ino);
                }
                if opens.is_empty() {
                    self.opens.remove(&ino);
                }
            }
        }
        self.sessions.insert(id, remnant);
        self.forget_empty_remnant(id);
    }

    /// Drops what a remnant has on behalf of somebody.
    pub(crate) fn drop_kept(&mut self, session: SessionId, behalf: u64) {
        let Some(remnant) = self.sessions.get_mut(&session).filter(|it| it.is_ended) else {
            return;
        };
        let (locks, opens) = (&mut self.locks, &mut self.opens);
        remnant.locks.retain(|ino| {
            locks.get_mut(ino).is_some_and(|held| {
                held.drop_behalf(session, behalf);
                held.has_session(session)
            })
        });
        remnant.opens.retain(|ino| {
            opens.get_mut(ino).is_some_and(|held| {
                held.keep_behalf(session, &[behalf]);
                held.has_session(session)
            })
        });
        locks.retain(|_, held| !held.is_empty());
        opens.retain(|_, held| !held.is_empty());
        self.forget_empty_remnant(session);
    }

    /// A remnant of which nothing is left is none.
    pub(crate) fn forget_empty_remnant(&mut self, session: SessionId) {
        let is_empty = |known: &Session| {
            known.is_ended
                && known.locks.is_empty()
                && known.opens.is_empty()
                && known.holds.is_empty()
        };
        if self.sessions.get(&session).is_some_and(is_empty) {
            self.sessions.remove(&session);
        }
    }

    /// Somebody has the file open so, by way of a session.
    pub(crate) fn open_for(&mut self, ino: Ino, owner: Owner, opened: Opened) {
        if let Some(session) = self.sessions.get_mut(&owner.session) {
            session.opens.insert(ino);
            self.opens.entry(ino).or_default().insert(owner, opened);
        }
    }

    /// Somebody has it open no more.
    pub(crate) fn close_for(&mut self, ino: Ino, owner: Owner) {
        let Some(opens) = self.opens.get_mut(&ino) else {
            return;
        };
        opens.remove(owner);
        if !opens.has_session(owner.session)
            && let Some(session) = self.sessions.get_mut(&owner.session)
        {
            session.opens.remove(&ino);
        }
        if opens.is_empty() {
            self.opens.remove(&ino);
        }
    }

    /// Somebody who has the file open denies others something.
    pub fn is_denied(&self, ino: Ino) -> bool {
        self.opens.get(&ino).is_some_and(|opens| opens.deny_any())
    }

    /// What remnants keep of the file as it is, and sessions of which `is_ending` says that they are about to be remnants: a
    /// session may not change it, or not even look at it, before that is over; unless it is the one by which somebody
    /// for whom it is kept has opened the file again.
    pub fn is_kept_from(
        &self,
        session: SessionId,
        ino: Ino,
        changing: bool,
        is_ending: impl Fn(SessionId) -> bool,
    ) -> bool {
        let Some(opens) = self.opens.get(&ino) else {
            return false;
        };
        opens
            .iter()
            .filter(|(_, opened)| opened.kept & kept_from(changing) != 0)
            .filter(|(owner, _)| self.is_remnant(owner.session) || is_ending(owner.session))
            .any(|(_, kept)| !opens.has_behalf(session, kept.behalf))
    }

    /// The same keep the file for somebody else than `but`, in the way of who has it for himself alone (`exclusive`) or
    /// reads it: the others may have locked it so by themselves.
    pub fn is_kept_from_others(
        &self,
        ino: Ino,
        (but, exclusive): (u64, bool),
        is_ending: impl Fn(SessionId) -> bool,
    ) -> bool {
        self.keepers(ino, exclusive).any(|(session, behalf)| {
            behalf != but && (self.is_remnant(session) || is_ending(session))
        })
    }

    /// The same of sessions that go on, but this one: who keeps the file by way of them has to be asked for it, be it the
    /// same client.
    pub fn is_kept_beside(&self, ino: Ino, exclusive: bool, session: SessionId) -> bool {
        let mut keepers = self.keepers(ino, exclusive);
        keepers.any(|(other, _)| other != session && !self.is_remnant(other))
    }

    /// By way of which sessions, and on whose behalf, the file is kept from who locks it so.
    fn keepers(&self, ino: Ino, exclusive: bool) -> impl Iterator<Item = (SessionId, u64)> + '_ {
        let opens = self.opens.get(&ino).into_iter();
        let all = opens.flat_map(|opens| opens.iter());
        let keepers = all.filter(move |(_, opened)| opened.kept & kept_from(exclusive) != 0);
        keepers.map(|(owner, opened)| (owner.session, opened.behalf))
    }

    /// What somebody keeps of the file by way of other sessions than `but`.
    pub(crate) fn kept_elsewhere(&self, ino: Ino, behalf: u64, but: SessionId) -> u32 {
        let opens = self.opens.get(&ino).into_iter();
        let kept = opens
            .flat_map(|opens| opens.iter())
            .filter(|(owner, opened)| opened.behalf == behalf && owner.session != but);
        kept.fold(0, |kept, (_, opened)| kept | opened.kept)
    }

    /// The inodes of which a session keeps something, in order: who waits for them may go on when it ends.
    pub fn kept_by(&self, session: SessionId) -> Vec<Ino> {
        let known = self.sessions.get(&session);
        known
            .map(|known| known.opens.iter().copied().collect())
            .unwrap_or_default()
    }
}
