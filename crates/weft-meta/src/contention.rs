//! Directories that are changed and read at the same time: when a lease is not worth its revocation. Pure.
//!
//! Whoever changes a directory waits until all who have a READ lease on it have given it back. A program that lists a
//! directory again and again while another removes its entries has the lease back before the next removal: every removal
//! would wait for the lister. So a session that has lost its lease on a directory twice within [`SHORT`] gets none for
//! [`PAUSE`]. It is answered all the same, and keeps nothing of it.

use std::collections::VecDeque;
use std::time::Duration;
use weft_env::Mono;
use weft_types::{FixedMap, Ino, SessionId};

/// A lease that stood for less has answered a few questions at most: asking for them costs a round trip each, and its
/// revocation costs both sides one.
pub(crate) const SHORT: Duration = Duration::from_millis(5);

/// For so long the session asks. A change waits for it once in that time, and not each time; who lists a quiet directory
/// does not notice.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
struct Lost {
    at: Mono,
    /// It was the second one in a short time.
    again: bool,
}

/// See the module. What it remembers it forgets after [`PAUSE`].
#[derive(Default)]
pub(crate) struct Contention {
    lost: FixedMap<(Ino, SessionId), Lost>,
    by_age: VecDeque<(Mono, (Ino, SessionId))>,
}

impl Contention {
    /// The session is asked to give its READ lease on a directory back, for a change.
    pub(crate) fn loses(&mut self, directory: Ino, session: SessionId, now: Mono) {
        self.forget_old(now);
        let key = (directory, session);
        let before = self.lost.get(&key);
        let again = before.is_some_and(|lost| now.since(lost.at) < SHORT);
        self.lost.insert(key, Lost { at: now, again });
        self.by_age.push_back((now, key));
    }

    /// A lease on the directory would not be worth its revocation now.
    pub(crate) fn pauses(&self, directory: Ino, session: SessionId, now: Mono) -> bool {
        let lost = self.lost.get(&(directory, session));
        lost.is_some_and(|lost| lost.again && now.since(lost.at) < PAUSE)
    }

    fn forget_old(&mut self, now: Mono) {
        while let Some((at, key)) = self.by_age.front().copied()
            && now.since(at) >= PAUSE
        {
            self.by_age.pop_front();
            // One that was lost again since has a younger entry.
            if self.lost.get(&key).is_some_and(|lost| lost.at == at) {
                self.lost.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(7);
    const ONE: SessionId = SessionId(1);

    fn ms(at: u64) -> Mono {
        Mono::default() + Duration::from_millis(at)
    }

    #[test]
    fn a_lease_that_is_lost_again_at_once_pauses() {
        let mut contention = Contention::default();
        contention.loses(DIR, ONE, ms(100));
        assert!(!contention.pauses(DIR, ONE, ms(101)));
        contention.loses(DIR, ONE, ms(104));
        assert!(contention.pauses(DIR, ONE, ms(105)));
        assert!(!contention.pauses(DIR, SessionId(2), ms(105)));
        assert!(!contention.pauses(Ino(8), ONE, ms(105)));
        assert!(contention.pauses(DIR, ONE, ms(123)));
        assert!(!contention.pauses(DIR, ONE, ms(124)));
        // The first one after a pause begins anew.
        contention.loses(DIR, ONE, ms(125));
        assert!(!contention.pauses(DIR, ONE, ms(126)));
    }

    #[test]
    fn a_lease_that_stands_for_a_while_never_pauses() {
        let mut contention = Contention::default();
        for at in 0..100 {
            contention.loses(DIR, ONE, ms(at * 5));
            assert!(!contention.pauses(DIR, ONE, ms(at * 5 + 1)));
        }
        assert!(contention.lost.len() == 1 && contention.by_age.len() <= 5);
        contention.loses(Ino(8), ONE, ms(10_000));
        assert!(contention.lost.len() == 1 && contention.by_age.len() == 1);
    }
}
