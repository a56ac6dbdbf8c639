//! Objects in a directory: the store of one data server.
//!
//! A [`Store`] keeps objects as files, each block of 4096 bytes under a CRC-32C (`page.rs` draws the
//! file, `object.rs` changes it), and the modified list (`modified.rs`): the regions that may differ
//! from the twin's copy. It keeps true that after a kill at any instant every block holds its old
//! content or its new one, answers to a checksum, and is in the modified list if a write to it had
//! begun and nobody cleared it.
//!
//! The data server calls it, and decides what may run at the same time: operations on different
//! objects, or on different blocks of one object, run side by side; two that share a block, one of
//! which changes it, must not, and truncating, removing and filling with a length need the object
//! for themselves from the cut on. Every future must be driven to its end: dropping one half-way
//! leaves it open what is being written.

mod directory;
mod error;
mod identity;
mod losses;
mod lru;
mod modified;
mod object;
mod page;
mod store;

pub use directory::Directory;
pub use error::{Error, Failure, Result};
pub use identity::Identity;
pub use losses::{LOSSES_MAX, Loss};
pub use modified::{DirtyObject, Purpose};
pub use object::Fetched;
pub use store::{
    Extent, Fill, Map, OBJECT_BYTES_MAX, RegionSums, ScrubCursor, Scrubbed, Space, Store,
    regions_of,
};
