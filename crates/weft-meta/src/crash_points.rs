//! Points in the life of what several groups do together at which a server that is being tested ends at once, as if
//! killed (`docs/protocols/transactions.md`, "Killed at any step").
//!
//! A test arms one by a file of its name; who reaches it first takes the file away, and ends. Builds for production
//! have none of this: they are built without debug assertions. In others the directory of these files is named by
//! whoever starts the server, and no configuration can name it.

use crate::reign::Meta;

/// All points, in the order in which a change, and a slot that moves, come by them.
pub const CRASH_POINTS: &[&str] = &[
    // The home of a change: what is its own is locked, others are about to be asked.
    "home-asks",
    // The other group: before and after it has applied the entry, and when that is in the journals.
    "other-is-asked",
    "other-prepares",
    "other-prepared",
    // The home: all have prepared; the decision is applied; it is in the journals, and nobody knows.
    "home-is-ready",
    "home-decides",
    "home-decided",
    // It is about to tell the others; they are told; it has noted so.
    "home-tells",
    "other-is-told",
    "other-finishes",
    "other-finished",
    "home-has-told",
    "home-forgets",
    // A slot: the first pieces come; all were sent and the slot is frozen; the destination has looked at all.
    "slot-comes",
    "slot-is-frozen",
    "slot-is-checked",
    // It is given; that is in the journals; the destination is told, owns it, and that is in its journals.
    "slot-is-given",
    "slot-was-given",
    "slot-is-owned",
    "slot-was-owned",
    "slot-has-moved",
];

/// Ends the process if this point is armed.
pub(crate) fn reach(meta: &Meta, point: &'static str) {
    if !cfg!(debug_assertions) {
        return;
    }
    debug_assert!(CRASH_POINTS.contains(&point), "{point} is not listed");
    let Some(armed) = &meta.settings.crash_points else {
        return;
    };
    if meta.env.remove_file(&armed.join(point)).is_ok() {
        tracing::error!(point, "ending as if killed, for a test");
        std::process::abort();
    }
}
