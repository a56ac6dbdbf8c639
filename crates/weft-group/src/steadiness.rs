//! How steady the others have been lately, and so how long each may be silent before it is given up.
//!
//! A busy machine stops its processes now and then: for its disk, its memory, other processes. Where nothing
//! like that is seen an active that is silent is given up after the least patience; where it is, only after a
//! multiple of the longest that was seen. Nothing that must be safe depends on any of this: promises last as long
//! as they always do.
//!
//! What counts is how *late* signs of life were. A member sees that of whom it follows, and of itself by its clock;
//! an active tells its own with each beat, so that those who follow it now know what it did before.

use crate::{MemberId, Now, Terms};
use std::collections::BTreeMap;
use std::time::Duration;

/// What was seen counts for so long, and at most twice as long: disks that are behind, images and backups come
/// back every few minutes.
const SPAN: Duration = Duration::from_secs(300);
/// A member that began less than this ago has not seen itself yet: what starts together is up by then.
const UNSEEN_FOR: Duration = Duration::from_secs(3);
/// As late as that is who has not been seen: what a machine does that starts everything at once.
const UNSEEN: Duration = Duration::from_millis(50);
/// Long stalls are seldom, and shorter ones come before them: so many times the longest is waited for.
const FACTOR: u32 = 3;

/// The longest that one was late in the latest span, and in the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Longest {
    begin: Now,
    latest: Duration,
    before: Duration,
}

impl Longest {
    fn note(&mut self, now: Now, late: Duration) {
        if now >= self.begin + SPAN {
            self.before = match now < self.begin + 2 * SPAN {
                true => self.latest,
                false => Duration::ZERO,
            };
            (self.begin, self.latest) = (now, Duration::ZERO);
        }
        self.latest = self.latest.max(late);
    }

    fn lately(&self, now: Now) -> Duration {
        let age = now.saturating_sub(self.begin);
        if age < SPAN {
            self.latest.max(self.before)
        } else if age < 2 * SPAN {
            self.latest
        } else {
            Duration::ZERO
        }
    }
}

/// What is known of another member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Other {
    seen: Longest,
    /// What it said last of itself. It remembers for itself: what it does not say any more is over.
    told: Duration,
}

/// What a member has seen of itself and the others. It outlives the member's lives: who led and was replaced for a stall
/// begins a new one, and would not know of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Steadiness {
    began: Now,
    own: Longest,
    others: BTreeMap<MemberId, Other>,
    /// Who was given up because it was silent, and since when it had been. If it comes back soon it was not gone.
    given_up: Option<(MemberId, Now)>,
}

impl Steadiness {
    pub(crate) fn begin(terms: &Terms, now: Now) -> Steadiness {
        Steadiness {
            // Of no use otherwise, and what differs by that alone is the same member.
            began: if terms.adapts() { now } else { Now::ZERO },
            own: Longest::default(),
            others: BTreeMap::new(),
            given_up: None,
        }
    }

    /// How late this member has been itself.
    pub(crate) fn own(&self, terms: &Terms, now: Now) -> Duration {
        if !terms.adapts() {
            return Duration::ZERO;
        }
        let seen = self.own.lately(now);
        match now < self.began + UNSEEN_FOR {
            true => seen.max(UNSEEN),
            false => seen,
        }
    }

    /// How long a member may be silent. None: nobody in particular.
    pub(crate) fn patience(&self, terms: &Terms, now: Now, member: Option<MemberId>) -> Duration {
        let late = match member {
            None => UNSEEN,
            Some(member) => self.others.get(&member).map_or(Duration::ZERO, |other| {
                other.seen.lately(now).max(other.told)
            }),
        };
        terms.patience_for(FACTOR * late)
    }

    /// How long others have with this member, if they know what it knows of itself.
    pub(crate) fn patience_with_me(&self, terms: &Terms, now: Now) -> Duration {
        terms.patience_for(FACTOR * self.own(terms, now))
    }

    /// This member's process stood still for so long.
    pub(crate) fn note_own(&mut self, terms: &Terms, now: Now, late: Duration) {
        if terms.teaches(late) {
            self.own.note(now, late);
        }
    }

    /// Another one says with a beat how late it has been lately. More than anybody is waited for changes nothing.
    pub(crate) fn tell(&mut self, terms: &Terms, member: MemberId, late: Duration) {
        if terms.adapts() {
            self.others.entry(member).or_default().told = late.min(terms.patience_max);
        }
    }

    /// Another one was so late.
    pub(crate) fn note(&mut self, terms: &Terms, now: Now, member: MemberId, late: Duration) {
        if terms.teaches(late) {
            let other = self.others.entry(member).or_default();
            other.seen.note(now, late);
        }
    }

    /// One that was heard last at `heard` is followed no more.
    pub(crate) fn give_up(&mut self, terms: &Terms, member: MemberId, heard: Now) {
        if terms.adapts() {
            self.given_up = Some((member, heard));
        }
    }

    /// A member says something. Perhaps it was not gone.
    pub(crate) fn hear(&mut self, terms: &Terms, now: Now, member: MemberId) {
        if let Some((_, heard)) = self.given_up.take_if(|(of, _)| *of == member) {
            let late = now.saturating_sub(heard + terms.beat);
            self.note(terms, now, member, late);
        }
    }
}

impl Terms {
    fn adapts(&self) -> bool {
        self.patience_max > self.patience
    }

    /// The least patience and so much more, up to the most.
    fn patience_for(&self, more: Duration) -> Duration {
        match self.adapts() {
            true => (self.patience + more).min(self.patience_max),
            false => self.patience,
        }
    }

    /// Who is away for longer than the greatest patience is gone, whatever it does afterwards: no patience would
    /// have waited for it, so that says nothing of how steady it is.
    fn teaches(&self, late: Duration) -> bool {
        self.adapts() && !late.is_zero() && late <= self.patience_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TERMS: Terms = Terms {
        beat: ms(50),
        patience: ms(150),
        patience_max: ms(1_500),
        lease: ms(150),
        lease_before: ms(300),
        asking: ms(50),
        drop_after: ms(900),
        gap_max: 8,
        window: 4,
    };
    const A: MemberId = MemberId(1);

    #[test]
    fn patience_follows_what_was_seen_and_forgets_it() {
        let mut seen = Steadiness::begin(&TERMS, Now::ZERO);
        let patience = |seen: &Steadiness, now| seen.patience(&TERMS, now, Some(A));
        assert_eq!(patience(&seen, ms(100)), ms(150));
        seen.note(&TERMS, ms(100), A, ms(100));
        assert_eq!(patience(&seen, ms(100)), ms(450));
        seen.note(&TERMS, ms(200), A, ms(500));
        assert_eq!(patience(&seen, ms(200)), ms(1_500));
        // An outage, not a stall.
        seen.note(&TERMS, ms(300), A, ms(1_501));
        seen.note(&TERMS, ms(300) + SPAN, A, ms(10));
        assert_eq!(patience(&seen, SPAN), ms(1_500));
        assert_eq!(patience(&seen, ms(301) + 2 * SPAN), ms(180));
        assert_eq!(patience(&seen, ms(301) + 4 * SPAN), ms(150));
    }

    #[test]
    fn what_one_says_of_itself_counts_as_long_as_it_says_it() {
        let mut seen = Steadiness::begin(&TERMS, Now::ZERO);
        seen.tell(&TERMS, A, UNSEEN);
        assert_eq!(seen.patience(&TERMS, ms(50), Some(A)), ms(300));
        seen.tell(&TERMS, A, Duration::ZERO);
        assert_eq!(seen.patience(&TERMS, ms(100), Some(A)), ms(150));
        seen.tell(&TERMS, A, Duration::MAX);
        assert_eq!(seen.patience(&TERMS, ms(150), Some(A)), ms(1_500));
    }

    #[test]
    fn who_comes_back_soon_was_not_gone() {
        let mut seen = Steadiness::begin(&TERMS, Now::ZERO);
        seen.give_up(&TERMS, A, ms(1_000));
        seen.hear(&TERMS, ms(1_450), A);
        assert_eq!(seen.patience(&TERMS, ms(1_450), Some(A)), ms(1_350));
        let mut seen = Steadiness::begin(&TERMS, Now::ZERO);
        seen.give_up(&TERMS, A, ms(1_000));
        seen.hear(&TERMS, ms(3_000), A);
        assert_eq!(seen.patience(&TERMS, ms(3_000), Some(A)), ms(150));
    }

    #[test]
    fn a_member_that_has_just_begun_has_not_seen_itself() {
        let seen = Steadiness::begin(&TERMS, ms(1_000));
        assert_eq!(seen.patience_with_me(&TERMS, ms(1_000)), ms(300));
        assert_eq!(
            seen.patience_with_me(&TERMS, ms(1_000) + UNSEEN_FOR),
            ms(150)
        );
    }
}
