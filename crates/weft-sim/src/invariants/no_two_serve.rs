//! The members of a pair never both accept what the other does not know of
//! (`docs/protocols/pairs.md`, "The right to serve").
//!
//! A member that is the only server serves without a right of limited time, and acknowledges alone.
//! So while one does, the other one may serve nothing at all, under no epoch: a read there would
//! miss what was acknowledged, a write would be a second truth. Two may serve at a time only if each
//! needs a right and the other one's copy for every write: BOTH, or RECOVERING after its server has
//! said that the copies are equal.
//!
//! A process that stands still does nothing: it is judged when it goes on.

use crate::cluster::builder::Cluster;
use weft_pair::PairState;

/// A data server, as seen from outside.
#[derive(Clone, Copy, Debug)]
pub struct Stance {
    /// The state in force there.
    pub state: PairState,
    /// It would admit a client's request now.
    pub serves: bool,
    /// It needs no right for that.
    pub is_sole: bool,
}

/// Looks at all pairs.
///
/// # Errors
/// The pair of which two serve, and how.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    (0..cluster.data.len()).try_for_each(|pair| {
        judge([0, 1].map(|member| cluster.stance(pair, member)))
            .map_err(|why| format!("pair {pair}: {why}"))
    })
}

fn judge(members: [Option<Stance>; 2]) -> Result<(), String> {
    let [Some(zero), Some(one)] = members else {
        return Ok(());
    };
    let both_serve = zero.serves && one.serves;
    if both_serve && (zero.is_sole || one.is_sole) {
        return Err(format!(
            "one accepts alone while the other serves: {} ({}) and {} ({})",
            zero.state,
            describe(zero),
            one.state,
            describe(one)
        ));
    }
    Ok(())
}

fn describe(stance: Stance) -> &'static str {
    if stance.is_sole {
        "alone"
    } else {
        "by a right"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_pair::Mode;
    use weft_types::{Epoch, Member, PairId};

    fn stance(epoch: u64, mode: Mode, serves: bool, is_sole: bool) -> Option<Stance> {
        let state = PairState {
            epoch: Epoch(epoch),
            mode,
            ..PairState::new(PairId(0))
        };
        Some(Stance {
            state,
            serves,
            is_sole,
        })
    }

    #[test]
    fn who_accepts_alone_is_the_only_one_that_serves() {
        let alone = stance(5, Mode::Only(Member::Zero), true, true);
        let by_right = stance(4, Mode::Both, true, false);
        let late = stance(4, Mode::Both, false, false);
        let other = stance(5, Mode::Only(Member::One), true, true);
        assert!(judge([alone, None]).is_ok());
        assert!(judge([alone, late]).is_ok());
        assert!(judge([alone, by_right]).is_err());
        assert!(judge([by_right, other]).is_err());
        assert!(judge([alone, other]).is_err());
    }

    #[test]
    fn two_may_serve_when_each_needs_the_other() {
        let both = stance(4, Mode::Both, true, false);
        assert!(judge([both, both]).is_ok());
        let equal = stance(3, Mode::Recovering(Member::One), true, false);
        assert!(judge([both, equal]).is_ok());
        let filling = stance(3, Mode::Recovering(Member::One), true, true);
        assert!(judge([both, filling]).is_err());
    }
}
