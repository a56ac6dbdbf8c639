//! The oracle: a reference file system, and whether what clients saw can have come from it.
//!
//! Clients write down every operation with the time it began and ended and its answer
//! ([`history`]). After the run [`linearize`] looks for an order of all operations, each between
//! its beginning and its end, in which the reference ([`model`]) gives the same answers. An
//! operation whose answer is unknown (its client died, or gave up with EIO) may have taken effect or
//! not, but not later than its bound. Where there are too many orders, the objects are judged one by
//! one ([`parts`]).
//!
//! What a client has buffered and not synced may be lost with it: the reference then holds, byte by
//! byte, all that may be there ([`content`]), and the next read settles it.

pub mod content;
mod footprint;
pub mod history;
pub mod intervals;
pub mod linearize;
#[cfg(test)]
mod linearize_tests;
mod lingering;
pub mod model;
#[cfg(test)]
mod operations_tests;
mod origins;
mod parts;
pub mod seams;
