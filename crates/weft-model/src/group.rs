//! A group of metadata servers (MAMS 5.1), of any size.

use crate::inputs::mean_time;
use crate::{Error, MEMBERS_MAX};

/// Who repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// One member at a time, as in the paper (equations 3 to 5).
    OneAtATime,
    /// All failed members at once, as when each is restarted by its own node.
    Each,
}

/// A group: one active, the others its standbys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The active and its standbys.
    pub members: u32,
    /// Mean time to a member's failure, seconds.
    pub mttf: f64,
    /// Mean time to its repair, seconds.
    pub mttr: f64,
    /// Who repairs.
    pub repair: Repair,
}

impl Group {
    /// Mean time until all members have failed at once (equation 7), seconds.
    ///
    /// # Errors
    /// If the model says nothing about such a group.
    pub fn mttf(&self) -> Result<f64, Error> {
        self.mean_time_to(self.members)
    }

    /// Mean time until changes are refused for lack of a second member (the paper's state 2 for three
    /// members: reads only), seconds. A group of one has no such state: as [`Self::mttf`].
    ///
    /// # Errors
    /// If the model says nothing about such a group.
    pub fn mean_time_to_last(&self) -> Result<f64, Error> {
        self.mean_time_to(self.members.saturating_sub(1).max(1))
    }

    /// How many times as long as one server without standbys (equation 9).
    ///
    /// # Errors
    /// If the model says nothing about such a group.
    pub fn improvement(&self) -> Result<f64, Error> {
        Ok(self.mttf()? / self.mttf)
    }

    /// From none to `failures` failed members. The mean time from i to i + 1 failures is that of the step itself and, as often
    /// as a repair comes first, of another way up from i - 1; the sum over i is the closed form of equation 8 for
    /// three members. All terms are positive: nothing cancels.
    fn mean_time_to(&self, failures: u32) -> Result<f64, Error> {
        if self.members == 0 || self.members > MEMBERS_MAX {
            return Err(Error::Members(self.members));
        }
        mean_time("the mean time to a metadata server's failure", self.mttf)?;
        mean_time("the mean time to a metadata server's repair", self.mttr)?;
        let (mut step, mut total) = (0.0, 0.0);
        for failed in 0..failures {
            let up = f64::from(self.members - failed) / self.mttf;
            let down = match self.repair {
                Repair::OneAtATime => f64::from(failed.min(1)) / self.mttr,
                Repair::Each => f64::from(failed) / self.mttr,
            };
            step = (1.0 + down * step) / up;
            total += step;
        }
        Ok(total)
    }
}
