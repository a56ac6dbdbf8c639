//! Nobody ever sees the epoch of a pair go back, not over a restart either, and one epoch is one
//! state for everybody (`docs/protocols/pairs.md`: a state is journaled before anybody is told).

use crate::cluster::builder::Cluster;
use std::collections::BTreeMap;
use weft_pair::PairState;

/// What was seen so far.
#[derive(Default)]
pub struct Epochs {
    /// The newest state of a pair that each observer (a node) has been told.
    newest: BTreeMap<(String, u32), PairState>,
    /// The state that each epoch of a pair is.
    states: BTreeMap<(u32, u64), PairState>,
}

/// Looks at the metadata server, the data servers and the clients.
///
/// # Errors
/// Who saw what go back, or another state of the same epoch.
pub fn check(cluster: &Cluster, epochs: &mut Epochs) -> Result<(), String> {
    for (observer, state) in cluster.told_states() {
        epochs.told(&observer, state)?;
    }
    Ok(())
}

impl Epochs {
    fn told(&mut self, observer: &str, state: PairState) -> Result<(), String> {
        let (pair, epoch) = (state.pair.0, state.epoch.0);
        let known = self.states.entry((pair, epoch)).or_insert(state);
        if *known != state {
            return Err(format!("{observer} knows {state:?}, others {known:?}"));
        }
        match self.newest.get_mut(&(observer.to_owned(), pair)) {
            Some(newest) if newest.epoch > state.epoch => Err(format!(
                "{observer} knew {newest} and now knows only {state}"
            )),
            Some(newest) => {
                *newest = state;
                Ok(())
            }
            None => {
                self.newest.insert((observer.to_owned(), pair), state);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_pair::Mode;
    use weft_types::{Epoch, Member, PairId};

    fn state(epoch: u64, mode: Mode) -> PairState {
        PairState {
            epoch: Epoch(epoch),
            mode,
            ..PairState::new(PairId(0))
        }
    }

    #[test]
    fn no_observer_goes_back_and_an_epoch_is_one_state() {
        let mut epochs = Epochs::default();
        let alone = state(4, Mode::Only(Member::Zero));
        assert!(epochs.told("data0.0", state(3, Mode::Both)).is_ok());
        assert!(epochs.told("data0.0", alone).is_ok());
        // Another one may be behind, but not see another truth.
        assert!(epochs.told("client0", state(3, Mode::Both)).is_ok());
        assert!(epochs.told("data0.0", state(3, Mode::Both)).is_err());
        let other = state(4, Mode::Only(Member::One));
        assert!(epochs.told("client0", other).is_err());
    }
}
