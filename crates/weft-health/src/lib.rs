//! What is wrong with a cluster, for people and programs: one list, worst first. Pure; `docs/protocols/health.md` is its
//! specification.
//!
//! The active of each group judges what it knows (`weft-meta`): the first one's pairs, and of its own group. `weft health` adds
//! what no server can say of itself: that it does not answer. Each [`Check`] has its page in `docs/operating`.

mod check;
mod group;
mod ledger;
mod pairs;
mod recovery;

pub use check::{Check, Finding, Severity, Verdict};
pub use group::{Own, of_group};
pub use ledger::Ledger;
pub use pairs::of_pairs;
pub use recovery::Recoveries;
