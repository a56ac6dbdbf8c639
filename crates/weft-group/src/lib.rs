//! Replica groups of metadata servers, without I/O and without a clock.
//!
//! The rules are in `docs/protocols/groups.md`. [`Engine`] is one member: it is told what happens, and
//! answers what is to be done. What a batch holds it need not know: journals are compared by their
//! [`Shape`]s. Who counts stands in a [`Record`] that the coordinator keeps.
//!
//! - [`engine`]: what a member knows, and which event concerns which part of it.
//! - `follow`: taking batches, promising, losing the active.
//! - `elect`: from claiming the next epoch to having the greatest journal.
//! - `lead`: sending batches, committing, reading, changing who counts.
//! - `steadiness`: how long whom is waited for.
//!
//! Time is passed in as [`Now`], the monotonic time of whoever calls. Everything is deterministic.

mod elect;
pub mod engine;
mod follow;
mod lead;
pub mod record;
pub mod shape;
mod steadiness;

pub use engine::{Engine, Input, Message, Output, Part, Terms};
pub use record::{MemberId, Record};
pub use shape::{Run, Shape};
pub use steadiness::Steadiness;

/// Monotonic time of the caller, since any origin that stays the same.
pub type Now = std::time::Duration;
