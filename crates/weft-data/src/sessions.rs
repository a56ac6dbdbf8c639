//! Which clients are refused: those whose session has ended, and older connections of a session
//! that has come with a newer one. What such a connection brought and still waits here must not be
//! done after what the newer one brings.

use std::collections::{BTreeMap, BTreeSet};
use weft_wire::Failed;

/// What is known of sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Told with the registration: sessions below this number are fenced...
    fenced_below: u64,
    /// ...but for these.
    live: BTreeSet<u64>,
    /// Fenced since.
    fenced: BTreeSet<u64>,
    /// The newest connection (by `Connection::number`) that each session came with.
    newest: BTreeMap<u64, u64>,
}

impl Sessions {
    /// The list that comes with a registration. Fences told before stay.
    pub fn told(&mut self, fenced_below: u64, live: impl IntoIterator<Item = u64>) {
        self.fenced_below = self.fenced_below.max(fenced_below);
        self.live = live
            .into_iter()
            .filter(|session| !self.fenced.contains(session))
            .collect();
        // Ids are never used again: what lies below the bound is covered by it.
        self.fenced = self.fenced.split_off(&self.fenced_below);
        let (below, live) = (self.fenced_below, &self.live);
        self.newest
            .retain(|session, _| *session >= below || live.contains(session));
    }

    /// Refuses the session from now on.
    pub fn fence(&mut self, session: u64) {
        self.live.remove(&session);
        self.newest.remove(&session);
        if session >= self.fenced_below {
            self.fenced.insert(session);
        }
    }

    /// The session has been ended.
    pub fn is_fenced(&self, session: u64) -> bool {
        self.fenced.contains(&session)
            || session < self.fenced_below && !self.live.contains(&session)
    }

    /// May a request that came over this connection be done? Asked when it arrives, and again
    /// when its turn has come.
    ///
    /// # Errors
    /// [`Failed::Fenced`]; [`Failed::Unavailable`] if the session has a newer connection.
    pub fn check(&mut self, session: u64, connection: u64) -> Result<(), Failed> {
        if self.is_fenced(session) {
            return Err(Failed::Fenced(format!("session {session} has ended")));
        }
        let newest = self.newest.entry(session).or_insert(connection);
        if *newest > connection {
            return Err(Failed::Unavailable(
                "the session has come with a newer connection".into(),
            ));
        }
        *newest = connection;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_connection_is_refused_once_a_newer_one_has_come() {
        let mut sessions = Sessions::default();
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
        sessions.told(6, [3, 7]);
        assert!(sessions.is_fenced(7) && sessions.is_fenced(4) && !sessions.is_fenced(3));
        sessions.told(10, [3, 9]);
        assert!(sessions.is_fenced(7) && !sessions.is_fenced(9) && !sessions.is_fenced(10));
        sessions.fence(9);
        assert!(matches!(sessions.check(9, 1), Err(Failed::Fenced(_))));
    }
}
