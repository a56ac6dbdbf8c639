//! Pairs of data servers, without I/O and without a clock.
//!
//! - [`keeper`]: the metadata service's side: decides who serves (docs/protocols/pairs.md).
//! - [`state`]: the states that both sides speak of.
//!
//! Time is passed in as [`Now`], the monotonic time of whoever calls. Everything is deterministic.

pub mod keeper;
pub mod state;

pub use keeper::{Action, Keeper, Registration, Terms};
pub use state::{BadState, Mode, PairState, StoreKey};

/// Monotonic time of the caller, since any origin that stays the same.
pub type Now = std::time::Duration;
