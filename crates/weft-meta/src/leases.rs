//! The table of READ and SHARED leases and of revocations on their way. Pure; the rules are in
//! `docs/protocols/leases.md`.
//!
//! WRITE leases are in the journaled state. Besides leases the table remembers which inodes a session
//! had open when it gave its lease back: whoever unlinks such an inode has to ask that session too.
//!
//! What it keeps true: a session has at most one entry for an inode; a grant has a greater `seq` than
//! every grant and revocation before it; no session has more than its bound of entries for longer than
//! it takes to revoke the oldest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use weft_env::Mono;
use weft_types::{FixedMap, Ino, SessionId};
use weft_wire::proto::LeaseMode;

/// Most READ leases of one session: more than a build tree has files, and at about 100 bytes each 26
/// MiB of the server's memory. Beyond it the oldest is revoked.
pub(crate) const LEASES_MAX: usize = 1 << 18;

/// What a session has of an inode, besides WRITE leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// A READ lease.
    Read,
    /// A SHARED lease: it knows where the file lies, and may have ranges of it.
    Shared,
    /// No lease; but when it gave it back it had the inode open.
    Open,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    session: SessionId,
    seq: u64,
    held: Held,
}

/// What a revocation asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// All that goes beyond READ, or everything.
    Down(LeaseMode),
    /// All that goes beyond SHARED, and these bytes: to be read, or written, by another.
    Part { span: Range<u64>, write: bool },
    /// Nothing is given back, but size and times are told.
    Report,
}

impl Ask {
    /// What the lease is afterwards.
    pub(crate) fn to(&self) -> LeaseMode {
        match self {
            Ask::Down(to) => *to,
            Ask::Part { .. } | Ask::Report => LeaseMode::LeaseShared,
        }
    }
}

/// A revocation that has not been answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revocation {
    pub seq: u64,
    pub ask: Ask,
    pub unlinking: bool,
    /// A reply by which the session opens the inode left after it: the answer may not know of that.
    pub crossed: bool,
    /// When it was asked for, or the session last said that it waits for data servers only: one that
    /// has not answered in its term from then on ends.
    pub since: Mono,
}

/// See the module.
pub(crate) struct Leases {
    last_seq: u64,
    holders: FixedMap<Ino, Vec<Holder>>,
    /// Each session's entries, the oldest first.
    by_age: BTreeMap<SessionId, BTreeMap<u64, Ino>>,
    revoking: BTreeMap<(Ino, SessionId), Revocation>,
    /// How many replies by which a session opens an inode have not left yet.
    opening: BTreeMap<(Ino, SessionId), usize>,
    /// Who told last what it owes of a file that it writes alone, and when it was asked. Who waited for
    /// that is answered at once, so one is enough.
    heard: Option<(Ino, SessionId, u64)>,
    max: usize,
}

/// Where the sessions of an inode are, in a table by both.
pub(crate) fn all_of(ino: Ino) -> RangeInclusive<(Ino, SessionId)> {
    (ino, SessionId(0))..=(ino, SessionId(u64::MAX))
}

impl Leases {
    /// `first_seq` must be above every number that an earlier reign has given.
    pub(crate) fn new(first_seq: u64, max: usize) -> Leases {
        Leases {
            last_seq: first_seq,
            holders: FixedMap::default(),
            by_age: BTreeMap::new(),
            revoking: BTreeMap::new(),
            opening: BTreeMap::new(),
            heard: None,
            max,
        }
    }

    /// A session that writes the file alone told what it owes when it was asked at `asked`.
    pub(crate) fn note_heard(&mut self, ino: Ino, writer: SessionId, asked: u64) {
        self.heard = Some((ino, writer, asked));
    }

    /// The session, which writes the file alone, was asked what it owes at `since` or later, and has told it.
    pub(crate) fn is_heard(&self, ino: Ino, writer: SessionId, since: u64) -> bool {
        self.heard
            .is_some_and(|(of, by, asked)| of == ino && by == writer && asked >= since)
    }

    /// The next number of the one order of grants and revocations.
    pub(crate) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Gives a READ lease. Answers its seq, and an inode whose lease the session must give back for
    /// it, if it has too many.
    pub(crate) fn grant(&mut self, ino: Ino, session: SessionId) -> (u64, Option<Ino>) {
        self.grant_as(ino, session, Held::Read)
    }

    /// Gives a SHARED lease, as [`Leases::grant`] does READ.
    pub(crate) fn grant_shared(&mut self, ino: Ino, session: SessionId) -> (u64, Option<Ino>) {
        self.grant_as(ino, session, Held::Shared)
    }

    fn grant_as(&mut self, ino: Ino, session: SessionId, held: Held) -> (u64, Option<Ino>) {
        let seq = self.put(ino, session, held);
        let by_age = self.by_age.entry(session).or_default();
        let oldest = (by_age.len() > self.max)
            .then(|| by_age.values().copied().find(|old| *old != ino))
            .flatten();
        (seq, oldest)
    }

    /// The session has given its lease back but has the inode open.
    pub(crate) fn note_open(&mut self, ino: Ino, session: SessionId) {
        self.put(ino, session, Held::Open);
    }

    /// The session may have opened the inode, by a reply that grants nothing.
    pub(crate) fn note_opened(&mut self, ino: Ino, session: SessionId) {
        let holders = self.holders.get(&ino).into_iter().flatten();
        if holders.into_iter().all(|holder| holder.session != session) {
            self.note_open(ino, session);
        }
    }

    /// A reply by which the session opens the inode is going to leave.
    pub(crate) fn begin_opening(&mut self, ino: Ino, session: SessionId) {
        *self.opening.entry((ino, session)).or_default() += 1;
    }

    /// It has left.
    pub(crate) fn end_opening(&mut self, ino: Ino, session: SessionId) {
        if let Entry::Occupied(mut count) = self.opening.entry((ino, session)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if let Some(revocation) = self.revoking.get_mut(&(ino, session)) {
            revocation.crossed = true;
        }
    }

    /// A session other than `but` opens the inode by a reply that has not left yet.
    pub(crate) fn is_being_opened(&self, ino: Ino, but: SessionId) -> bool {
        let mut opening = self.opening.range(all_of(ino));
        opening.any(|((_, session), _)| *session != but)
    }

    /// The session opens the inode by a reply that it had not got when it was asked for this.
    pub(crate) fn opens_meanwhile(
        &self,
        ino: Ino,
        session: SessionId,
        revocation: &Revocation,
    ) -> bool {
        revocation.crossed || self.opening.contains_key(&(ino, session))
    }

    /// The session has given all its READ leases back. What it has open is not known: replies that
    /// opened files may have been lost.
    pub(crate) fn reads_to_open(&mut self, session: SessionId) {
        let inos = self
            .by_age
            .get(&session)
            .into_iter()
            .flat_map(BTreeMap::values);
        for ino in inos {
            let holders = self.holders.get_mut(ino).into_iter().flatten();
            for holder in holders.filter(|holder| holder.session == session) {
                holder.held = Held::Open;
            }
        }
    }

    fn put(&mut self, ino: Ino, session: SessionId, held: Held) -> u64 {
        let seq = self.next_seq();
        let holders = self.holders.entry(ino).or_default();
        let by_age = self.by_age.entry(session).or_default();
        match holders.iter_mut().find(|holder| holder.session == session) {
            Some(holder) => {
                by_age.remove(&holder.seq);
                *holder = Holder { session, seq, held };
            }
            None => holders.push(Holder { session, seq, held }),
        }
        by_age.insert(seq, ino);
        seq
    }

    /// Takes the session's entry for this inode away.
    pub(crate) fn remove(&mut self, ino: Ino, session: SessionId) {
        let Some(holders) = self.holders.get_mut(&ino) else {
            return;
        };
        if let Some(at) = holders.iter().position(|holder| holder.session == session) {
            let holder = holders.swap_remove(at);
            if let Some(by_age) = self.by_age.get_mut(&session) {
                by_age.remove(&holder.seq);
            }
        }
        if holders.is_empty() {
            self.holders.remove(&ino);
        }
    }

    /// Takes all entries of a session away, and its revocations. Answers the inodes concerned, in
    /// order.
    pub(crate) fn remove_session(&mut self, session: SessionId) -> Vec<Ino> {
        let entries = self.by_age.get(&session);
        let mut concerned: Vec<Ino> = entries
            .map(|by_age| by_age.values().copied().collect())
            .unwrap_or_default();
        self.drop_all(session);
        let revoked: Vec<Ino> = self.revocations_of(session).map(|(ino, _)| ino).collect();
        for ino in revoked {
            self.revoking.remove(&(ino, session));
            concerned.push(ino);
        }
        concerned.sort_unstable();
        concerned.dedup();
        concerned
    }

    /// Takes all entries of a session away; its revocations stay.
    fn drop_all(&mut self, session: SessionId) {
        for ino in self
            .by_age
            .remove(&session)
            .unwrap_or_default()
            .into_values()
        {
            if let Some(holders) = self.holders.get_mut(&ino) {
                holders.retain(|holder| holder.session != session);
                if holders.is_empty() {
                    self.holders.remove(&ino);
                }
            }
        }
    }

    /// The session does not write it any more: what was asked of it needs no answer.
    pub(crate) fn forget_revocation(&mut self, ino: Ino, session: SessionId) {
        self.revoking.remove(&(ino, session));
    }

    /// The sessions other than `but` that have something of this inode, in order.
    pub(crate) fn others(&self, ino: Ino, but: SessionId) -> Vec<(SessionId, Held)> {
        let Some(holders) = self.holders.get(&ino) else {
            return Vec::new();
        };
        let mut others: Vec<_> = holders
            .iter()
            .filter(|holder| holder.session != but)
            .map(|holder| (holder.session, holder.held))
            .collect();
        others.sort_unstable_by_key(|(session, _)| *session);
        others
    }

    /// The session has a READ lease on it.
    pub(crate) fn reads(&self, ino: Ino, session: SessionId) -> bool {
        self.holders.get(&ino).is_some_and(|holders| {
            holders
                .iter()
                .any(|holder| holder.session == session && holder.held == Held::Read)
        })
    }

    /// Notes that a lease is being revoked. False: something is asked of the session already.
    pub(crate) fn begin_revocation(
        &mut self,
        ino: Ino,
        session: SessionId,
        ask: Ask,
        unlinking: bool,
        now: Mono,
    ) -> bool {
        if self.revoking.contains_key(&(ino, session)) {
            return false;
        }
        let seq = self.next_seq();
        let revocation = Revocation {
            seq,
            ask,
            unlinking,
            crossed: false,
            since: now,
        };
        self.revoking.insert((ino, session), revocation);
        true
    }

    /// The session was asked as the only writer, and turns out to be one of several: these have no READ lease to come
    /// down to, and are asked for size and times only.
    pub(crate) fn asks_one_of_several(&mut self, ino: Ino, session: SessionId) {
        if let Some(revocation) = self.revoking.get_mut(&(ino, session))
            && revocation.ask == Ask::Down(LeaseMode::LeaseRead)
        {
            revocation.ask = Ask::Report;
        }
    }

    /// The revocation with this number has been answered (None: it is not on its way any more).
    pub(crate) fn end_revocation(
        &mut self,
        ino: Ino,
        session: SessionId,
        seq: u64,
    ) -> Option<Revocation> {
        match self.revoking.entry((ino, session)) {
            Entry::Occupied(known) if known.get().seq == seq => Some(known.remove()),
            _ => None,
        }
    }

    /// The revocation of the session's lease on it, if that is on its way.
    pub(crate) fn revocation(&self, ino: Ino, session: SessionId) -> Option<Revocation> {
        self.revoking.get(&(ino, session)).cloned()
    }

    /// The session's lease on it is being revoked.
    pub(crate) fn is_revoking(&self, ino: Ino, session: SessionId) -> bool {
        !self.revoking.is_empty() && self.revoking.contains_key(&(ino, session))
    }

    /// Somebody's lease on it is being revoked: no new ones are given meanwhile, or who waits for it
    /// could wait for ever.
    pub(crate) fn is_disputed(&self, ino: Ino) -> bool {
        !self.revoking.is_empty()
            && self
                .revoking
                .range(all_of(ino))
                .any(|(_, revocation)| revocation.ask != Ask::Report)
    }

    /// A revocation on its way, of one of these inodes, and whose lease it is.
    pub(crate) fn revoking_within(&self, inos: RangeInclusive<Ino>) -> Option<(Ino, SessionId)> {
        let (first, last) = (*inos.start(), *inos.end());
        let range = (first, SessionId(0))..=(last, SessionId(u64::MAX));
        let mut revoking = self.revoking.range(range);
        revoking.next().map(|(of, _)| *of)
    }

    /// Takes all entries of an inode away that is another group's now.
    pub(crate) fn forget_inode(&mut self, ino: Ino) {
        for (session, _) in self.others(ino, SessionId(0)) {
            self.remove(ino, session);
        }
    }

    /// The revocations that a session has not answered.
    pub(crate) fn revocations_of(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = (Ino, Revocation)> + '_ {
        self.revoking
            .iter()
            .filter(move |((_, of), _)| *of == session)
            .map(|((ino, _), revocation)| (*ino, revocation.clone()))
    }

    /// The session gives its lease on it back as fast as data servers let it: its term begins anew.
    pub(crate) fn still_given_back(&mut self, ino: Ino, session: SessionId, now: Mono) {
        if let Some(revocation) = self.revoking.get_mut(&(ino, session)) {
            revocation.since = now;
        }
    }

    /// This server stood still for so long: it neither heard answers nor could be asked again. That
    /// time does not count for what was asked before `now`.
    pub(crate) fn stood_still(&mut self, now: Mono, late: Duration) {
        for revocation in self.revoking.values_mut() {
            revocation.since = (revocation.since + late).min(now);
        }
    }

    /// Sessions that have let a revocation of before `since` unanswered, in order.
    pub(crate) fn silent_since(&self, since: Mono) -> Vec<SessionId> {
        let mut silent: Vec<SessionId> = self
            .revoking
            .iter()
            .filter(|(_, revocation)| revocation.since < since)
            .map(|((_, session), _)| *session)
            .collect();
        silent.sort_unstable();
        silent.dedup();
        silent
    }

    /// Entries of all sessions.
    pub(crate) fn len(&self) -> usize {
        self.by_age.values().map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    #[test]
    fn who_comes_back_is_asked_what_it_has_open() {
        let mut leases = Leases::new(0, 10);
        leases.grant(Ino(7), B);
        leases.note_opened(Ino(7), B);
        assert_eq!(leases.others(Ino(7), A), [(B, Held::Read)]);
        leases.reads_to_open(B);
        assert_eq!(leases.others(Ino(7), A), [(B, Held::Open)]);
        leases.note_opened(Ino(8), B);
        assert_eq!(leases.others(Ino(8), A), [(B, Held::Open)]);
    }

    #[test]
    fn an_answer_does_not_know_of_a_reply_that_left_after_the_question() {
        let mut leases = Leases::new(0, 10);
        let ask = Ask::Down(LeaseMode::LeaseNone);
        let opens = |leases: &Leases| {
            let revocation = leases.revocation(Ino(7), B).expect("it is asked");
            leases.opens_meanwhile(Ino(7), B, &revocation)
        };
        assert!(leases.begin_revocation(Ino(7), B, ask.clone(), false, Mono(0)));
        assert!(!opens(&leases));
        leases.begin_opening(Ino(7), B);
        assert!(opens(&leases));
        leases.end_opening(Ino(7), B);
        assert!(opens(&leases));
        // The next one comes after the reply.
        leases.forget_revocation(Ino(7), B);
        assert!(leases.begin_revocation(Ino(7), B, ask, false, Mono(0)));
        assert!(!opens(&leases));
    }

    #[test]
    fn a_session_has_one_entry_for_an_inode_and_seqs_grow() {
        let mut leases = Leases::new(100, 10);
        let (first, _) = leases.grant(Ino(7), A);
        let (second, _) = leases.grant(Ino(7), A);
        assert!(first > 100 && second > first);
        assert_eq!(leases.len(), 1);
        leases.grant(Ino(7), B);
        assert_eq!(leases.others(Ino(7), A), [(B, Held::Read)]);
        leases.note_open(Ino(7), B);
        assert_eq!(leases.others(Ino(7), A), [(B, Held::Open)]);
        leases.remove(Ino(7), B);
        assert!(leases.others(Ino(7), A).is_empty());
        assert!(leases.reads(Ino(7), A));
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut leases = Leases::new(0, 2);
        assert_eq!(leases.grant(Ino(1), A).1, None);
        assert_eq!(leases.grant(Ino(2), A).1, None);
        leases.grant(Ino(1), A);
        assert_eq!(leases.grant(Ino(3), A).1, Some(Ino(2)));
        leases.remove(Ino(2), A);
        assert_eq!(leases.grant(Ino(3), A).1, None);
    }

    #[test]
    fn a_revocation_is_begun_once_and_ended_by_its_own_answer() {
        let mut leases = Leases::new(0, 10);
        let now = Mono(5);
        let down = || Ask::Down(LeaseMode::LeaseNone);
        assert!(leases.begin_revocation(Ino(1), A, down(), false, now));
        assert!(!leases.begin_revocation(Ino(1), A, down(), true, now));
        let first = leases.revocation(Ino(1), A).unwrap();
        assert!(leases.is_disputed(Ino(1)) && !leases.is_disputed(Ino(2)));
        assert!(leases.is_revoking(Ino(1), A) && !leases.is_revoking(Ino(1), B));
        assert_eq!(leases.end_revocation(Ino(1), A, first.seq + 1), None);
        assert_eq!(leases.silent_since(Mono(6)), [A]);
        assert!(leases.silent_since(Mono(5)).is_empty());
        // The server stood still from 7 to 17, and from 17 to 50.
        leases.stood_still(Mono(17), Duration::from_nanos(10));
        assert!(leases.silent_since(Mono(15)).is_empty());
        leases.stood_still(Mono(50), Duration::from_nanos(100));
        assert_eq!(leases.silent_since(Mono(51)), [A]);
        assert!(leases.silent_since(Mono(50)).is_empty());
        leases.still_given_back(Ino(1), B, Mono(60));
        assert_eq!(leases.silent_since(Mono(51)), [A]);
        leases.still_given_back(Ino(1), A, Mono(60));
        assert!(leases.silent_since(Mono(60)).is_empty());
        assert_eq!(leases.silent_since(Mono(61)), [A]);
        assert!(leases.end_revocation(Ino(1), A, first.seq).is_some());
        assert!(!leases.is_disputed(Ino(1)));
    }

    #[test]
    fn nothing_of_a_session_is_left_when_it_goes() {
        let mut leases = Leases::new(0, 10);
        leases.grant(Ino(3), A);
        leases.grant(Ino(1), A);
        leases.grant(Ino(1), B);
        leases.begin_revocation(Ino(2), A, Ask::Down(LeaseMode::LeaseRead), false, Mono(0));
        assert_eq!(leases.remove_session(A), [Ino(1), Ino(2), Ino(3)]);
        assert!(!leases.is_disputed(Ino(2)));
        assert_eq!(leases.others(Ino(1), SessionId(0)), [(B, Held::Read)]);
        assert!(leases.holders.len() == 1 && leases.by_age.len() == 1);
    }
}
