//! Pairs of data servers, without I/O and without a clock.
//!
//! - [`keeper`]: the metadata service's side: decides who serves (docs/protocols/pairs.md).
//! - [`member`]: a data server's side: what it may serve now.
//! - [`course`]: the duplication protocols, and the course of one write.
//! - [`recovery`]: what is left to be copied, and how fast it may go.
//! - [`router`]: a client's side: which member each piece of a read is asked from.
//! - [`state`]: the states that all of them speak of.
//!
//! Time is passed in as [`Now`], the monotonic time of whoever calls. Everything is deterministic.

pub mod course;
pub mod keeper;
pub mod member;
pub mod recovery;
pub mod router;
pub mod state;

pub use course::{Answer, Copied, Course, Duplicates, Rule};
pub use keeper::{Action, Keeper, Registration, Said, Terms, Word};
pub use member::{MemberSide, Refusal};
pub use router::{LATE_MIN, Part, Router};
pub use state::{BadState, Disk, Mode, PairState, StoreKey, mode_from_proto, mode_to_proto};

/// Monotonic time of the caller, since any origin that stays the same.
pub type Now = std::time::Duration;
