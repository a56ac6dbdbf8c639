//! At most one metadata server answers at a time, and each epoch is one server's reign; whoever answers
//! has all that was ever committed (design.md section 5).
//!
//! A server that stands still is judged, too: what it was promised holds by its clock, which goes on.

use std::collections::BTreeMap;
use weft_types::{Epoch, Sn};

/// A metadata server, as seen from outside.
#[derive(Clone, Copy, Debug)]
pub struct MemberStance {
    /// Which.
    pub member: usize,
    /// It would let an answer out now.
    pub leads: bool,
    /// Of its reign, if it has one.
    pub epoch: Option<Epoch>,
    /// All up to there is committed, as far as it knows.
    pub committed: Sn,
}

/// What was seen so far.
#[derive(Default)]
pub struct Reigns {
    /// Whose each epoch is.
    of: BTreeMap<Epoch, usize>,
    /// The newest epoch in which anybody answered.
    newest: Epoch,
    /// All up to there has been committed.
    committed: Sn,
}

impl Reigns {
    /// Looks at all that run, at one moment.
    ///
    /// # Errors
    /// What may not be.
    pub fn judge(&mut self, stances: &[MemberStance]) -> Result<(), String> {
        for stance in stances {
            self.committed = self.committed.max(stance.committed);
            let Some(epoch) = stance.epoch else { continue };
            let first = *self.of.entry(epoch).or_insert(stance.member);
            if first != stance.member {
                return Err(format!(
                    "epoch {epoch} is the reign of members {first} and {}",
                    stance.member
                ));
            }
        }
        let mut leading = stances.iter().filter(|stance| stance.leads);
        let Some(active) = leading.next() else {
            return Ok(());
        };
        if let Some(other) = leading.next() {
            return Err(format!(
                "two answer at the same time: {active:?} and {other:?}"
            ));
        }
        let epoch = active.epoch.unwrap_or_default();
        if epoch < self.newest {
            return Err(format!(
                "{active:?} answers after the reign of epoch {}",
                self.newest
            ));
        }
        self.newest = epoch;
        if active.committed < self.committed {
            return Err(format!(
                "{active:?} answers, and batch {} was committed",
                self.committed
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stance(member: usize, leads: bool, epoch: u64, committed: u64) -> MemberStance {
        MemberStance {
            member,
            leads,
            epoch: (epoch > 0).then_some(Epoch(epoch)),
            committed: Sn(committed),
        }
    }

    #[test]
    fn one_answers_at_a_time_with_all_that_was_committed() {
        let mut reigns = Reigns::default();
        let first = stance(0, true, 1, 5);
        assert!(reigns.judge(&[first, stance(1, false, 0, 4)]).is_ok());
        assert!(reigns.judge(&[first, stance(1, true, 2, 5)]).is_err());
        // A reign that answers nothing is none.
        let silent = stance(0, false, 1, 5);
        assert!(reigns.judge(&[silent, stance(1, true, 2, 5)]).is_ok());
        assert!(reigns.judge(&[first]).is_err(), "it has been replaced");
        assert!(reigns.judge(&[stance(2, true, 2, 6)]).is_err(), "not its");
        assert!(reigns.judge(&[stance(1, true, 2, 5)]).is_err(), "lost");
        assert!(reigns.judge(&[stance(1, true, 2, 6)]).is_ok());
    }
}
