//! Which clients are refused: those whose session has ended, and older connections of a session
//! that has come with a newer one. What such a connection brought and still waits here must not be
//! done after what the newer one brings.
//!
//! Each replica group has sessions of its own, and says when it is first heard which of them live
//! (docs/protocols/partition.md). What is known is kept by group: the lists come at different times, and
//! none of them says anything of another group's sessions.
//!
//! While this member does not serve, its twin alone is told of the sessions that end. The first group is
//! heard before it lets the member serve again; the others are not asked for that. So when the member
//! begins to serve, a *round* begins, and a group counts as heard once it has answered something in it:
//! over one connection orders and answers come as they were sent, so no order of before is missing then.

use std::collections::{BTreeMap, BTreeSet};
use weft_types::{FIRST_GROUP, GroupId, SessionId};
use weft_wire::Failed;

/// What is known of sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    groups: BTreeMap<GroupId, OfGroup>,
    /// How often this member has begun to serve.
    round: u64,
}

/// What is known of the sessions of one group.
#[derive(Debug, Default)]
struct OfGroup {
    /// The newest round in which the group was asked something that it has answered. None: it has not
    /// told this process its list, and nobody knows whom it has fenced while this server was away.
    heard: Option<u64>,
    /// Told with the list: sessions below this number are fenced...
    fenced_below: u64,
    /// ...but for these.
    live: BTreeSet<u64>,
    /// Fenced since.
    fenced: BTreeSet<u64>,
    /// The newest connection (by `Connection::number`) that each session came with.
    newest: BTreeMap<u64, u64>,
}

impl Sessions {
    /// This member begins to serve: groups but the first have to be heard anew.
    pub fn begin_round(&mut self) {
        self.round += 1;
    }

    /// To be noted before a group is asked something, for [`Sessions::told`] and [`Sessions::heard`].
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The group has answered what it was asked in this round, over a connection over which its list came.
    pub fn heard(&mut self, group: GroupId, round: u64) {
        if let Some(known) = self.groups.get_mut(&group) {
            known.heard = known.heard.max(Some(round));
        }
    }

    /// The list that comes when a connection to the active of a group is made, asked for in this round.
    /// Fences told before stay.
    pub fn told(
        &mut self,
        group: GroupId,
        round: u64,
        fenced_below: u64,
        live: impl IntoIterator<Item = u64>,
    ) {
        let known = self.groups.entry(group).or_default();
        known.heard = known.heard.max(Some(round));
        known.fenced_below = known.fenced_below.max(fenced_below);
        known.live = live
            .into_iter()
            .filter(|session| !known.fenced.contains(session))
            .collect();
        // Ids are never used again: what lies below the bound is covered by it.
        known.fenced = known.fenced.split_off(&known.fenced_below);
        let (below, live) = (known.fenced_below, &known.live);
        known
            .newest
            .retain(|session, _| *session >= below || live.contains(session));
    }

    /// Refuses the session from now on.
    pub fn fence(&mut self, session: u64) {
        let known = self.groups.entry(SessionId(session).group()).or_default();
        known.live.remove(&session);
        known.newest.remove(&session);
        if session >= known.fenced_below {
            known.fenced.insert(session);
        }
    }

    /// The session has been ended, as far as has been said. Of a session whose group has not been heard
    /// nobody has said so; nothing that it asks is admitted, though.
    pub fn is_fenced(&self, session: u64) -> bool {
        let known = self.groups.get(&SessionId(session).group());
        known.is_some_and(|known| known.is_fenced(session))
    }

    /// May a request that came over this connection be done? Asked when it arrives, and again
    /// when its turn has come.
    ///
    /// # Errors
    /// [`Failed::Fenced`]; [`Failed::Unavailable`] if the session has a newer connection, or its group
    /// has not been heard yet.
    pub fn check(&mut self, session: u64, connection: u64) -> Result<(), Failed> {
        if self.is_fenced(session) {
            return Err(Failed::Fenced(format!("session {session} has ended")));
        }
        let (group, round) = (SessionId(session).group(), Some(self.round));
        let is_heard = |known: &&mut OfGroup| match group {
            FIRST_GROUP => known.heard.is_some(),
            _ => known.heard == round,
        };
        let Some(known) = self.groups.get_mut(&group).filter(is_heard) else {
            return Err(Failed::Unavailable(format!(
                "which sessions of replica group {group} live has not been heard yet"
            )));
        };
        let newest = known.newest.entry(session).or_insert(connection);
        if *newest > connection {
            return Err(Failed::Unavailable(
                "the session has come with a newer connection".into(),
            ));
        }
        *newest = connection;
        Ok(())
    }
}

impl OfGroup {
    fn is_fenced(&self, session: u64) -> bool {
        self.fenced.contains(&session)
            || session < self.fenced_below && !self.live.contains(&session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_types::FIRST_GROUP;

    const SECOND: GroupId = GroupId(1);
    /// The session of the second group before the one of number 1.
    const BASE: u64 = SessionId::first_of(SECOND).0 - 1;

    /// The first group has been heard, and knows of no session.
    fn heard() -> Sessions {
        let mut sessions = Sessions::default();
        sessions.told(FIRST_GROUP, 0, 0, []);
        sessions
    }

    #[test]
    fn an_older_connection_is_refused_once_a_newer_one_has_come() {
        let mut sessions = heard();
        assert_eq!(sessions.check(5, 1), Ok(()));
        assert_eq!(sessions.check(6, 2), Ok(()));
        assert_eq!(sessions.check(5, 3), Ok(()));
        assert!(matches!(sessions.check(5, 1), Err(Failed::Unavailable(_))));
        assert_eq!(sessions.check(6, 2), Ok(()));
    }

    #[test]
    fn ended_sessions_stay_fenced() {
        let mut sessions = Sessions::default();
        sessions.fence(7);
        assert!(sessions.is_fenced(7));
        // A list made before the fence does not lift it.
        sessions.told(FIRST_GROUP, 0, 6, [3, 7]);
        assert!(sessions.is_fenced(7) && sessions.is_fenced(4) && !sessions.is_fenced(3));
        sessions.told(FIRST_GROUP, 0, 10, [3, 9]);
        assert!(sessions.is_fenced(7) && !sessions.is_fenced(9) && !sessions.is_fenced(10));
        sessions.fence(9);
        assert!(matches!(sessions.check(9, 1), Err(Failed::Fenced(_))));
    }

    #[test]
    fn nobody_is_served_before_his_group_has_been_heard() {
        let mut sessions = Sessions::default();
        for session in [5, BASE + 5] {
            let refused = sessions.check(session, 1);
            assert!(matches!(refused, Err(Failed::Unavailable(_))), "{session}");
            assert!(!sessions.is_fenced(session), "nobody has said so");
        }
        sessions.told(FIRST_GROUP, 0, 10, [5]);
        assert_eq!(sessions.check(5, 1), Ok(()));
        let refused = sessions.check(BASE + 5, 1);
        assert!(matches!(refused, Err(Failed::Unavailable(_))));
        // What the twin passes on counts before, and after the list.
        sessions.fence(BASE + 6);
        assert!(matches!(
            sessions.check(BASE + 6, 1),
            Err(Failed::Fenced(_))
        ));
        sessions.told(SECOND, 0, BASE + 7, [BASE + 5, BASE + 6]);
        assert_eq!(sessions.check(BASE + 5, 1), Ok(()));
        assert_eq!(sessions.check(BASE + 7, 1), Ok(()), "opened since");
        for ended in [BASE + 4, BASE + 6] {
            assert!(matches!(sessions.check(ended, 1), Err(Failed::Fenced(_))));
        }
    }

    #[test]
    fn a_list_says_nothing_of_another_groups_sessions() {
        let mut sessions = heard();
        sessions.told(SECOND, 0, BASE + 5, [BASE + 3]);
        assert_eq!(sessions.check(2, 8), Ok(()));
        assert_eq!(sessions.check(BASE + 3, 8), Ok(()));
        sessions.fence(4);
        sessions.fence(BASE + 9);
        // Each tells anew; the numbers of the other one lie above, or below, all of its own.
        for _ in 0..2 {
            sessions.told(SECOND, 0, BASE + 20, [BASE + 3]);
            assert!(sessions.is_fenced(4) && !sessions.is_fenced(2));
            sessions.told(FIRST_GROUP, 0, 3, [2]);
            assert!(sessions.is_fenced(BASE + 9) && !sessions.is_fenced(BASE + 3));
            assert!(sessions.is_fenced(4) && !sessions.is_fenced(2));
        }
        // Nor have newer connections been forgotten.
        for session in [2, BASE + 3] {
            let refused = sessions.check(session, 7);
            assert!(matches!(refused, Err(Failed::Unavailable(_))), "{session}");
        }
    }

    #[test]
    fn who_begins_to_serve_hears_the_other_groups_anew() {
        let mut sessions = heard();
        sessions.told(SECOND, 0, BASE + 5, [BASE + 3]);
        let asked = sessions.round();
        sessions.begin_round();
        // An answer to what was asked before may have been given before the last fence.
        sessions.heard(SECOND, asked);
        let refused = sessions.check(BASE + 3, 1);
        assert!(matches!(refused, Err(Failed::Unavailable(_))));
        // The first group has let this member serve, and told its list before.
        assert_eq!(sessions.check(2, 1), Ok(()));
        sessions.heard(SECOND, sessions.round());
        assert_eq!(sessions.check(BASE + 3, 1), Ok(()));
        assert_eq!(sessions.check(2, 1), Ok(()));
        // An answer says nothing without a list.
        let third = SessionId::first_of(GroupId(2));
        sessions.heard(GroupId(2), sessions.round());
        let refused = sessions.check(third.0, 1);
        assert!(matches!(refused, Err(Failed::Unavailable(_))));
    }
}
