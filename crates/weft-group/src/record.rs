//! Who counts: a group's part of the view.

use std::collections::BTreeSet;
use std::fmt;
use weft_types::Epoch;

/// A metadata server of the group; the view knows its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u32);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the coordinator keeps of a group; it changes by compare-and-set only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The number of the reign.
    pub epoch: Epoch,
    /// Whose reign it is. It need not count.
    pub active: MemberId,
    /// The active and the standbys: who counts.
    pub voters: BTreeSet<MemberId>,
    /// Members that lack some of the journal.
    pub juniors: BTreeSet<MemberId>,
}

impl Record {
    /// How many voters commit.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// How many voters meet every majority.
    pub fn election_quorum(&self) -> usize {
        self.voters.len() - self.voters.len() / 2
    }

    /// Of the voters that `has` says yes to.
    pub fn count(&self, has: impl Fn(MemberId) -> bool) -> usize {
        self.voters.iter().filter(|member| has(**member)).count()
    }

    /// Voters and juniors.
    pub fn members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.voters.union(&self.juniors).copied()
    }

    /// The next reign, of `active`. Who counts is as before.
    pub fn claimed_by(&self, active: MemberId) -> Record {
        Record {
            epoch: Epoch(self.epoch.0 + 1),
            active,
            ..self.clone()
        }
    }

    /// The greatest of values that a majority of the voters has reached, each by its own. None: there is no
    /// voter, or a majority has none.
    pub fn reached<T: Ord>(&self, value: impl Fn(MemberId) -> Option<T>) -> Option<T> {
        let mut values: Vec<T> = self
            .voters
            .iter()
            .filter_map(|voter| value(*voter))
            .collect();
        values.sort_unstable_by(|one, other| other.cmp(one));
        values.into_iter().nth(self.majority() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_election_quorum_meets_every_majority() {
        for voters in 1..8_usize {
            let record = Record {
                epoch: Epoch(1),
                active: MemberId(0),
                voters: (0..voters as u32).map(MemberId).collect(),
                juniors: BTreeSet::new(),
            };
            let (majority, quorum) = (record.majority(), record.election_quorum());
            assert!(2 * majority > voters, "two majorities meet");
            assert_eq!(majority + quorum, voters + 1, "they just meet");
            let reached = record.reached(|member| Some(member.0));
            assert_eq!(reached, Some((voters - majority) as u32));
            assert_eq!(
                record.reached(|member| (member.0 as usize + 1 < majority).then_some(0)),
                None
            );
        }
    }
}
