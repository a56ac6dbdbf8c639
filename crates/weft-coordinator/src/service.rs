//! What is asked of a service underneath: one record that is replaced under a condition, a way to be
//! woken, announcements.

use crate::{Announced, Announcement, Answer};
use futures_util::future::LocalBoxFuture;

/// No answer, or one that does not say whether anything was done: it may have been, or may yet be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered(pub String);

/// What a service's operations return.
pub type Reply<'a, T> = LocalBoxFuture<'a, Result<T, Unanswered>>;

/// The record as it was at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its content; empty if it was never set.
    pub bytes: Vec<u8>,
    /// Another one after each replacement; what [`Service::swap`] compares.
    pub revision: u64,
    /// Where [`Service::record_changed`] goes on.
    pub seen: u64,
}

/// Who was announced at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The incarnation of each name.
    pub announced: Announced,
    /// Where [`Service::list_changed`] goes on.
    pub seen: u64,
}

/// A service that can keep the view, as [`crate::ViewKeeper`] uses it. Every operation but the two that
/// wait for a change ends within a bounded time.
pub trait Service {
    /// Where the record is, for messages.
    fn place(&self) -> String;

    /// The record. It shows every replacement that was answered before.
    fn read(&self) -> Reply<'_, Record>;

    /// Replaces the record if `revision` is still its revision, and says whether it did so. A no is for
    /// good: this call has not and will not. After an error it may have, and may yet: calling it again
    /// with the same arguments is safe, because one of the calls at most takes effect.
    fn swap(&self, revision: u64, bytes: Vec<u8>) -> Reply<'_, bool>;

    /// Ends when the record was replaced after it was read with this `seen`; it may end for no reason,
    /// but not at once again and again.
    fn record_changed(&self, seen: u64) -> Reply<'_, ()>;

    /// Who is announced.
    fn list(&self) -> Reply<'_, Listing>;

    /// Ends when the list changed after it was read with this `seen`; as [`Service::record_changed`].
    fn list_changed(&self, seen: u64) -> Reply<'_, ()>;

    /// See [`crate::Coordinator::announce`]; the name has been checked.
    fn announce<'a>(&'a self, name: &'a str, term_ms: u64) -> Answer<'a, Announcement>;
}
