//! The states of a pair, as the metadata service journals them and everybody is told them.

use std::fmt;
use thiserror::Error;
pub use weft_types::Mode;
use weft_types::{Epoch, Member, PairId};
use weft_wire::proto;

/// What a member knows of its disk, since its process started. Worse is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disk {
    /// It does what it is told.
    #[default]
    Works,
    /// What is there can be read. What is to be written may not come to be there, or not last.
    CannotWrite,
    /// Not all of what is there can be read, either.
    CannotRead,
}

impl Disk {
    /// From a message; what a later version may add is no better than the worst.
    pub fn from_proto(disk: i32) -> Disk {
        match proto::DiskHealth::try_from(disk) {
            Ok(proto::DiskHealth::Works) => Disk::Works,
            Ok(proto::DiskHealth::CannotWrite) => Disk::CannotWrite,
            Ok(proto::DiskHealth::CannotRead) | Err(_) => Disk::CannotRead,
        }
    }

    /// For a message.
    pub fn to_proto(self) -> proto::DiskHealth {
        match self {
            Disk::Works => proto::DiskHealth::Works,
            Disk::CannotWrite => proto::DiskHealth::CannotWrite,
            Disk::CannotRead => proto::DiskHealth::CannotRead,
        }
    }
}

/// Names a store by a hash of its id, so that a state stays small and is copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(pub std::num::NonZeroU64);

impl StoreKey {
    /// FNV-1a of the id: it only has to tell a handful of random ids apart.
    pub fn of(store_id: &str) -> StoreKey {
        let hash = store_id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        StoreKey(std::num::NonZeroU64::new(hash).unwrap_or(std::num::NonZeroU64::MAX))
    }
}

/// The state of a pair: what is journaled and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairState {
    /// Which pair.
    pub pair: PairId,
    /// Grows by one with each change.
    pub epoch: Epoch,
    /// Who serves.
    pub mode: Mode,
    /// The member that does not serve has to be filled with everything: the lists do not say what
    /// it lacks. False in [`Mode::Both`].
    pub fill_all: bool,
    /// The store of each member, once known.
    pub stores: [Option<StoreKey>; 2],
    /// The last epoch that began with the only copy at a member whose machine had been started again since it was
    /// current; 0: none. What was acknowledged before it and never synced may be lost.
    pub forgot: Epoch,
    /// Later states may be lost that the members were told. Nobody serves before it is known what they say.
    pub uncertain: bool,
}

/// A mode as messages and the journal have it, and the member that it names (0 for both).
pub fn mode_to_proto(mode: Mode) -> (proto::pair_state::Mode, u32) {
    use proto::pair_state::Mode as Wire;
    let (mode, member) = match mode {
        Mode::Both => (Wire::Both, Member::Zero),
        Mode::Only(m) => (Wire::Only, m),
        Mode::Recovering(m) => (Wire::Recovering, m),
        Mode::Down(m) => (Wire::Down, m),
    };
    (mode, member.index() as u32)
}

/// `None`: no mode, or one of a member that does not exist.
pub fn mode_from_proto(mode: i32, serving: u32) -> Option<Mode> {
    use proto::pair_state::Mode as Wire;
    let serving = Member::from_index(serving)?;
    match Wire::try_from(mode) {
        Ok(Wire::Both) => Some(Mode::Both),
        Ok(Wire::Only) => Some(Mode::Only(serving)),
        Ok(Wire::Recovering) => Some(Mode::Recovering(serving)),
        Ok(Wire::Down) => Some(Mode::Down(serving)),
        Ok(Wire::Unspecified) | Err(_) => None,
    }
}

/// A state from the wire or the journal that is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no state of a pair: mode {mode}, serving {serving}, epoch {epoch}")]
pub struct BadState {
    mode: i32,
    serving: u32,
    epoch: u64,
}

impl PairState {
    /// The state of a new pair: nobody has registered yet.
    pub fn new(pair: PairId) -> PairState {
        PairState {
            pair,
            epoch: Epoch(1),
            mode: Mode::Both,
            fill_all: false,
            stores: [None, None],
            forgot: Epoch(0),
            uncertain: false,
        }
    }

    /// For the wire and the journal.
    pub fn to_proto(&self) -> proto::PairState {
        let (mode, serving) = mode_to_proto(self.mode);
        let store = |m: Member| self.stores[m.index()].map_or(0, |key| key.0.get());
        proto::PairState {
            pair: self.pair.0,
            epoch: self.epoch.0,
            mode: mode.into(),
            serving,
            fill_all: self.fill_all,
            store_0: store(Member::Zero),
            store_1: store(Member::One),
            forgot: self.forgot.0,
            uncertain: self.uncertain,
        }
    }

    /// From the wire or the journal.
    ///
    /// # Errors
    /// [`BadState`] for a mode or member that does not exist, or epoch 0.
    pub fn from_proto(wire: &proto::PairState) -> Result<PairState, BadState> {
        let bad = || BadState {
            mode: wire.mode,
            serving: wire.serving,
            epoch: wire.epoch,
        };
        let mode = mode_from_proto(wire.mode, wire.serving).ok_or_else(bad)?;
        if wire.epoch == 0 {
            return Err(bad());
        }
        let store = |key| std::num::NonZeroU64::new(key).map(StoreKey);
        Ok(PairState {
            pair: PairId(wire.pair),
            epoch: Epoch(wire.epoch),
            mode,
            fill_all: wire.fill_all && mode != Mode::Both,
            stores: [store(wire.store_0), store(wire.store_1)],
            forgot: Epoch(wire.forgot),
            uncertain: wire.uncertain,
        })
    }
}

impl fmt::Display for PairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pair {} {} epoch {}", self.pair, self.mode, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_from_the_wire_as_they_were() {
        for mode in [
            Mode::Both,
            Mode::Only(Member::Zero),
            Mode::Recovering(Member::One),
            Mode::Down(Member::One),
        ] {
            let state = PairState {
                pair: PairId(7),
                epoch: Epoch(9),
                mode,
                fill_all: mode != Mode::Both,
                stores: [Some(StoreKey::of("a")), None],
                forgot: Epoch(8),
                uncertain: mode == Mode::Both,
            };
            assert_eq!(PairState::from_proto(&state.to_proto()), Ok(state));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let good = PairState::new(PairId(0)).to_proto();
        for bad in [
            proto::PairState { mode: 9, ..good },
            proto::PairState { mode: 0, ..good },
            proto::PairState { serving: 2, ..good },
            proto::PairState { epoch: 0, ..good },
        ] {
            assert!(PairState::from_proto(&bad).is_err());
        }
    }
}
